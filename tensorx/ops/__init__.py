"""Operators of tensorx: the elementwise table with its generator, and one module per other op family."""
