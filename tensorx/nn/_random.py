"""Where modules get their random numbers from: generators of their own, derived from the default one."""

from __future__ import annotations

import copy

from tensorx import random


def split(generator=None):
    """A generator of its own, derived from the given one or the default one."""
    return (random.default_generator if generator is None else generator).split(1)[0]


def uniform(shape, low, high, dtype, device, generator):
    """Uniform numbers; the generator is left as it was, so that they can be made again."""
    return random.uniform(low, high, shape, dtype=dtype, device=device, generator=copy.copy(generator))


def normal(shape, mean, std, dtype, device, generator):
    """Normal numbers; the generator is left as it was."""
    return random.normal(mean, std, shape, dtype=dtype, device=device, generator=copy.copy(generator))
