"""Random programs of ops, views, aliases and writes: the gradient is that of the values that were computed, or an error says
why there is none."""

import random

import numpy as np
import pytest

import tensorx as tx
from tensorx import autograd

SHAPE = (3, 4)

UNARY = [lambda x: tx.tanh(x), lambda x: tx.sigmoid(x), lambda x: x * 0.5 + 0.25, lambda x: tx.sin(x), lambda x: -x, lambda x: tx.square(x) * 0.3]
BINARY = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - 0.5 * y, lambda x, y: tx.where(y > x, x, y), lambda x, y: x / (2.0 + y * y)]
WHOLE = [
    lambda x: tx.softmax(x, axis=-1), lambda x: x * tx.sum(x), lambda x: tx.broadcast_to(tx.mean(x, axis=0), x.shape) + x,
    lambda x: tx.roll(x, 1), lambda x: tx.flip(x, axis=0), lambda x: tx.matmul(x, x.T @ x) * 0.05 if x.ndim == 2 else x,
]  # fmt: skip
VIEWS = [
    lambda r, x: x[r.randrange(x.shape[0])] if x.ndim > 1 else x, lambda r, x: x[1:], lambda r, x: x[::-1], lambda r, x: x.T if x.ndim == 2 else x,
    lambda r, x: x.reshape((x.size,)), lambda r, x: x.alias(), lambda r, x: x[..., ::2], lambda r, x: x[..., None, 0:2],
    lambda r, x: tx.diagonal(x) if x.ndim == 2 else x, lambda r, x: tx.unfold(x, x.ndim - 1, 1, 1),
]  # fmt: skip


def part(r, x):
    """A random view of x that can be written."""
    for _ in range(r.randrange(3)):
        y = r.choice(VIEWS)(r, x)
        if y.size:
            x = y
    return x


def source(r, pool, x):
    """A value that broadcasts to x: a number, or a piece of something computed."""
    if r.random() < 0.3:
        return r.uniform(-1, 1)
    y = r.choice(pool)
    y = y.reshape((y.size,))[: 1 if x.ndim == 0 else 2]
    return tx.sum(y) * 0.5 if r.random() < 0.5 or x.ndim == 0 else tx.broadcast_to(y[:1], x.shape)


def write(r, pool, x):
    """A random write into x."""
    v = source(r, pool, x)
    kind = r.randrange(9)
    if kind == 0:
        x.add_(v)
    elif kind == 1:
        x.mul_(v)
    elif kind == 2:
        x.copy_(v)
    elif kind == 3:
        x.sigmoid_()
    elif kind == 4:
        x.sub_(x * 0.5)
    elif kind == 5:
        x[...] = v
    elif kind == 6 and x.ndim:
        x[0] = source(r, pool, x[0])
    elif kind == 7 and x.ndim:
        x.masked_fill_(x > 0.3, 0.1 if isinstance(v, float) else tx.sum(v) * 0.1)
    elif kind == 8 and x.ndim:
        x.index_add_(0, tx.asarray([0, x.shape[0] - 1, 0]), 0.5 if isinstance(v, float) else tx.sum(v) * 0.1)


def program(seed, inputs, length, copies=False):
    """Values of a random program; with copies, every value that may be written later is one of its own, so that nothing that
    backward needs is ever written."""
    r = random.Random(seed)
    pool = [inputs[0] * 1.0, inputs[1] * 1.0, tx.zeros(SHAPE, dtype=tx.float64)]
    for _ in range(length):
        kind = r.random()
        if kind < 0.25:
            y = r.choice(UNARY)(r.choice(pool))
        elif kind < 0.4:
            x, y = r.choice(pool), r.choice(pool)
            y = r.choice(BINARY)(x, y if y.shape == x.shape else source(r, pool, x))
        elif kind < 0.5:
            y = r.choice(WHOLE)(r.choice(pool))
        elif kind < 0.7:
            y = part(r, r.choice(pool))
        else:
            write(r, pool, part(r, r.choice(pool)))
            continue
        if y.size and y.ndim < 4:
            if copies:
                y = y.copy()
            pool.append(y)
        if len(pool) > 8:
            pool.pop(r.randrange(len(pool)))
    total = 0.0
    for i, y in enumerate(pool):
        total = total + tx.sum(y * tx.sin(tx.reshape(tx.arange(y.size, dtype=tx.float64) + i, y.shape)))
    return total


def run(seed, length):
    """(gradient in a direction, difference quotient), or None where backward refuses."""
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, SHAPE) for _ in range(2)]
    steps = [rng.standard_normal(SHAPE) for _ in range(2)]
    leaves = [tx.asarray(a).requires_grad_() for a in arrays]
    total = program(seed, leaves, length)
    eps = 1e-6
    values = []
    for sign in (1, -1):
        with tx.no_grad():
            values.append(program(seed, [tx.asarray(a + sign * eps * s) for a, s in zip(arrays, steps)], length).item())
    expected = (values[0] - values[1]) / (2 * eps)
    if not total.requires_grad:
        return 0.0, expected
    try:
        found = autograd.grad(total, leaves, retain_graph=True, allow_unused=True, create_graph=seed % 3 == 0)
    except tx.GradientError as error:
        assert "saved" in str(error) and "was written by" in str(error)
        return None
    for x, g in zip(leaves, found):
        total.backward(retain_graph=True)
        assert (x.grad is None) == (g is None)
        assert g is None or x.grad.tolist() == g.tolist()
        for y in leaves:
            y.grad = None
    return sum(float((np.asarray(g.detach()) * s).sum()) for g, s in zip(found, steps) if g is not None), expected


def check(seeds, length):
    refused = 0
    for seed in seeds:
        result = run(seed, length)
        if result is None:
            refused += 1
            continue
        found, expected = result
        assert abs(found - expected) <= 1e-5 * (1 + abs(expected)), f"seed {seed}: {found} instead of {expected}"
    return refused


@pytest.mark.parametrize("block", range(6))
def test_random_programs(block):
    seeds = range(40 * block, 40 * block + 40)
    refused = check(seeds, 6 + 2 * block)
    assert refused < 0.7 * len(seeds)


def test_random_programs_evaluated_at_once():
    with tx.deferred(False):
        check(range(1000, 1040), 8)
