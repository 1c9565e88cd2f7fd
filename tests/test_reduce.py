"""Reductions over the first axis of wide tensors, where columns are cut into panels and rows into groups."""

import numpy as np
import pytest

import tensorx as tx

SHAPES = [(1, 1100), (7, 1024), (8, 4095), (9, 4097), (17, 9000), (300, 1025), (61, 8192)]


def same(got, want, **tolerance):
    assert got.shape == want.shape
    np.testing.assert_allclose(got.astype(tx.float64).numpy(), want.astype(np.float64), **tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "bool"])
def test_wide_columns(shape, dtype):
    rng = np.random.default_rng(shape[0])
    a = (rng.normal(size=shape) * 3 > 0.1) if dtype == "bool" else (rng.normal(size=shape) * 3).astype(dtype)
    if dtype == "uint8":
        a = rng.integers(0, 256, shape).astype(dtype)
    wide = a.astype(np.float64)
    rtol = {"float16": 1e-3, "float32": 1e-6}.get(dtype, 1e-12)
    x = tx.asarray(a)
    layouts = [x, tx.flip(x, axis=0), tx.flip(tx.asarray(np.repeat(a, 2, axis=1))[:, ::2], axis=1)]
    for k, y in enumerate(layouts):
        w = wide if k == 0 else wide[::-1] if k == 1 else wide[:, ::-1]
        same(tx.sum(y, axis=0), w.sum(axis=0), rtol=rtol, atol=0.05 if dtype == "float16" else 1e-5)
        same(tx.max(y, axis=0), w.max(axis=0), rtol=0)
        same(tx.argmax(y.astype(tx.float32), axis=0), w.argmax(axis=0), rtol=0)
        same(tx.any(y, axis=0), (w != 0).any(axis=0), rtol=0)
        if dtype.startswith("float"):
            same(tx.var(y, axis=0), w.var(axis=0), rtol=max(rtol, 1e-5), atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_stored_value_gives_the_bits_of_a_computed_one(shape):
    a = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    x = tx.asarray(a)
    for f in (tx.sum, tx.prod, tx.min, tx.mean, tx.std):
        stored = x * 1.5
        tx.eval(stored)
        one = [f(stored, axis=0).numpy().tobytes(), f(x * 1.5, axis=0).numpy().tobytes()]
        before = tx.get_num_threads()
        try:
            tx.set_num_threads(1)
            one.append(f(stored, axis=0).numpy().tobytes())
        finally:
            tx.set_num_threads(before)
        assert one[0] == one[1] == one[2], f.__name__


def test_middle_axis_of_wide_columns():
    a = np.random.default_rng(2).normal(size=(3, 19, 4100)).astype(np.float32)
    same(tx.sum(tx.asarray(a), axis=1), a.astype(np.float64).sum(axis=1), rtol=1e-6, atol=1e-5)
