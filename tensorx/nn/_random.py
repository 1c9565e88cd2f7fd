"""Where modules get their random numbers from."""

from __future__ import annotations


class _NumPyGenerator:
    def __init__(self, key):
        self.key = key
        self.count = 0

    def split(self):
        self.count += 1
        return _NumPyGenerator((*self.key, self.count))

    def numbers(self):
        import numpy as np

        return np.random.default_rng(self.key)


_default = _NumPyGenerator((0,))


def split(generator=None):
    """A generator of its own, derived from the given one or the default one."""
    return (_default if generator is None else generator).split()


def uniform(shape, low, high, dtype, device, generator):
    """Uniform numbers; the generator is left as it was."""
    import tensorx as tx

    return tx.asarray(generator.numbers().uniform(low, high, shape), dtype=dtype, device=device)


def normal(shape, mean, std, dtype, device, generator):
    """Normal numbers; the generator is left as it was."""
    import tensorx as tx

    return tx.asarray(generator.numbers().normal(mean, std, shape), dtype=dtype, device=device)
