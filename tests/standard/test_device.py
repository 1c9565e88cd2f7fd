"""Order along an axis, sets and searches on every device; differentiable ones have gradients."""

import numpy as np
import pytest

import tensorx as tx

DTYPES = ["bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32"]


def values(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    a = rng.integers(-9 if dtype[0] != "u" else 0, 9, shape).astype(dtype)
    if dtype[0] == "f":
        pick = rng.random(shape)
        a = np.where(pick < 0.1, np.nan, np.where(pick < 0.2, -0.0, np.where(pick < 0.3, np.inf, a))).astype(dtype)
    return a


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(device, rng, dtype):
    for shape, axis in (((7,), 0), ((3, 40), 1), ((5, 6, 4), 1), ((2, 0), 0), ((1500,), -1), ((3, 1), 0)):
        a = values(rng, dtype, shape)
        for x, b in ((tx.asarray(a, device=device), a), (tx.flip(tx.asarray(a, device=device)), np.flip(a))):
            order = np.argsort(b, axis=axis, kind="stable")
            got = tx.argsort(x, axis=axis)
            assert got.device == tx.device(device) and got.dtype is tx.int64
            np.testing.assert_array_equal(np.asarray(got), order)
            assert np.asarray(tx.sort(x, axis=axis)).tobytes() == np.take_along_axis(b, order, axis).tobytes()
            key = ~b if dtype[0] in "biu" else -b
            order = np.argsort(key, axis=axis, kind="stable")
            np.testing.assert_array_equal(np.asarray(tx.argsort(x, axis=axis, descending=True)), order)
            assert np.asarray(tx.sort(x, axis=axis, descending=True)).tobytes() == np.take_along_axis(b, order, axis).tobytes()


def test_long_lines(device, rng):
    """Lines that are sorted by digits, and read in chunks by running sums."""
    for dtype in ("int64", "float32", "uint16"):
        a = rng.integers(0, 30000, 5000).astype(dtype)
        x = tx.asarray(a, device=device)
        np.testing.assert_array_equal(np.asarray(tx.argsort(x)), np.argsort(a, kind="stable"))
        np.testing.assert_array_equal(np.asarray(tx.sort(x)), np.sort(a))
        np.testing.assert_array_equal(np.asarray(tx.cumulative_sum(x, dtype=tx.int64)), np.cumsum(a, dtype=np.int64))
    b = tx.asarray([2.0, 1.0, tx.nan, -1.0], dtype=tx.bfloat16, device=device)
    assert tx.sort(b).tolist()[:3] == [-1, 1, 2] and tx.argsort(b, descending=True).tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float16", "float32", "complex64"])
def test_cumulative(device, rng, dtype):
    for shape, axis in (((6,), 0), ((3, 5), 1), ((4, 5, 3), 1), ((4, 300), 0), ((2, 0), 1), ((0, 3), 0)):
        a = rng.integers(0 if dtype[0] == "u" else -2, 3, shape).astype(dtype)
        if dtype == "complex64":
            a = a + (1j * rng.integers(-2, 3, shape)).astype(dtype)
        x = tx.asarray(a, device=device)
        for name in ("cumulative_sum", "cumulative_prod"):
            if name == "cumulative_prod" and dtype == "float16" and a.shape[axis] > 8:
                continue
            for initial in (False, True):
                got = getattr(tx, name)(x, axis=axis, include_initial=initial)
                out = {"i": np.int64, "u": np.uint64}.get(a.dtype.kind, a.dtype)
                f = np.cumsum if name == "cumulative_sum" else np.cumprod
                want = f(a.astype(out), axis=axis)
                if initial:
                    edge = list(a.shape)
                    edge[axis] = 1
                    want = np.concatenate([np.full(edge, name == "cumulative_prod", out), want], axis=axis)
                assert got.device == tx.device(device)
                np.testing.assert_allclose(np.asarray(got), want.astype(out), rtol=1e-5)
                assert np.asarray(got).dtype == out


def test_the_rest(device):
    """Computed on the host where the device has no kernel, over the same memory."""
    x = tx.asarray([[3, 1, 3], [2, 1, 0]], device=device)
    found = tx.unique_all(x)
    assert [f.tolist() for f in found] == [[0, 1, 2, 3], [5, 1, 3, 0], [[3, 1, 3], [2, 1, 0]], [1, 2, 1, 2]]
    assert all(f.device == tx.device(device) for f in found)
    s = tx.searchsorted(tx.asarray([1, 2, 3], device=device), x)
    assert s.tolist() == [[2, 0, 2], [1, 0, 0]] and s.device == tx.device(device)
    assert tx.isin(x, 3).tolist() == [[True, False, True], [False, False, False]]
    assert [i.tolist() for i in tx.nonzero(x)] == [[0, 0, 0, 1, 1], [0, 1, 2, 0, 1]]
    assert tx.diff(x).tolist() == [[-2, 2], [-1, -1]] and tx.count_nonzero(x, axis=1).tolist() == [3, 2]
    assert tx.take_along_axis(x, tx.argsort(x, axis=1), axis=1).tolist() == [[1, 3, 3], [0, 1, 2]]
    assert tx.repeat(x, tx.asarray([2, 0, 1], device=device), axis=1).tolist() == [[3, 3, 3], [2, 2, 0]]
    with pytest.raises(tx.DTypeError):
        tx.sort(tx.ones(2, dtype=tx.complex64, device=device))


def test_gradients(device):
    x = tx.asarray([[2.0, -1.0, 0.0], [3.0, 0.0, 0.0]], device=device)
    x.requires_grad = True
    (tx.sort(x, axis=1) * tx.asarray([1.0, 2.0, 3.0], device=device)).sum().backward()
    assert x.grad.tolist() == [[3, 1, 2], [3, 1, 2]]
    x.grad = None
    tx.cumulative_sum(x, axis=1).sum().backward()
    assert x.grad.tolist() == [[3, 2, 1]] * 2
    x.grad = None
    tx.cumulative_prod(x, axis=1).sum().backward()
    assert x.grad.tolist() == [[1 - 1 + 0, 2 + 0, -2], [1, 3, 0]]


@pytest.mark.parametrize("f", [
    lambda x: tx.cumulative_prod(x, axis=0),
    lambda x: tx.cumulative_prod(x, axis=1, include_initial=True),
    lambda x: tx.cumulative_sum(x, axis=-1, include_initial=True),
    lambda x: tx.sort(x, axis=0, descending=True),
    lambda x: tx.diff(x, n=2),
    lambda x: tx.take_along_axis(x, tx.argsort(x), axis=1),
    lambda x: tx.repeat(x, tx.asarray([0, 2, 1]), axis=0),
    lambda x: tx.tile(x, (2, 1)),
])  # fmt: skip
def test_derivatives_against_differences(f, rng):
    a = rng.standard_normal((3, 4))
    a[1, 2] = 0.0
    x = tx.asarray(a)
    x.requires_grad = True
    assert tx.autograd.gradcheck(f, (x,)) and tx.autograd.gradgradcheck(f, (x,))
    z = tx.asarray(a + 1j * rng.standard_normal((3, 4)))
    z.requires_grad = True
    if f(tx.ones((3, 4))).dtype is tx.float32 and "sort" not in f.__code__.co_names and "argsort" not in f.__code__.co_names:
        assert tx.autograd.gradcheck(f, (z,))
