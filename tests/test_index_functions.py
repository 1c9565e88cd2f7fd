"""Functions that index: take, gather, scatter, masks and the index families, against NumPy."""

import numpy as np
import pytest
from test_indexing import INDEX_NAMES, SIZES, assign_in_order, every_dtype, same, values

import tensorx as tx

pytestmark = pytest.mark.usefixtures("on_device")


@every_dtype
def test_take_of_every_dtype(device, name, rng):
    if device != "cpu" and name in ("float64", "complex128"):
        pytest.skip("not on Metal")
    a = values(rng, (5, 6, 7), name)
    for axis in (0, 1, 2, -1):
        for dtype in INDEX_NAMES:
            i = rng.integers(0, a.shape[axis], (3, 2)).astype(dtype)
            same(tx.take(tx.asarray(a, device=device), tx.asarray(i, device=device), axis=axis), np.take(a, i, axis=axis))
    same(tx.take(tx.asarray(a, device=device), [-1, 3]), np.take(a, [-1, 3]))
    same(tx.index_select(tx.asarray(a, device=device), 1, 2), a[:, [2]])


@pytest.mark.parametrize("n", SIZES)
def test_gather_and_scatter_around_block_sizes(n, rng, threads):
    a = rng.random(n).astype(np.float32)
    i = rng.integers(-n, n, n)
    v = rng.random(n).astype(np.float32)
    added = a.copy()
    for k, w in zip(i, v):
        added[k] += w
    written = assign_in_order(a, i, v)
    for count in (1, 2, 4):
        threads(count)
        same(tx.asarray(a)[i], a[i])
        same(tx.asarray(a).index_add_(0, i, v), added)
        same(tx.scatter_add(tx.asarray(a), 0, i, v), added)
        same(tx.scatter(tx.asarray(a), 0, i, v), written)
        same(tx.asarray(a)[::-1].copy()[i.astype(np.int32)], a[::-1][i])
    m = a > 0.3
    same(tx.asarray(a)[tx.asarray(m)], a[m])
    same(tx.nonzero(tx.asarray(m))[0], np.nonzero(m)[0])


@pytest.mark.parametrize("name", ["float32", "float64", "int8", "int32", "uint16", "uint64", "complex64", "complex128", "bool"])
def test_sums_do_not_depend_on_threads_or_layout(name, rng, threads):
    x = values(rng, (40, 30), name)
    i = rng.integers(0, 40, 3000)
    s = values(rng, (3000, 30), name)
    if np.dtype(name).kind in "fc":
        x, s = x * x.dtype.type(0.1), s * s.dtype.type(0.1)
    want = x.copy()
    for k, row in zip(i, s):
        want[k] = want[k] | row if name == "bool" else want[k] + row
    for count in (1, 2, 3, 8):
        threads(count)
        same(tx.asarray(x).index_add_(0, i, s), want)
        same(tx.asarray(x.T.copy()).index_add_(1, i, tx.asarray(s.T.copy())), want.T)
        flipped = tx.asarray(x[::-1].copy())
        flipped[::-1].index_add_(0, i, s[:, ::-1])
        same(flipped.flip(axis=0), assert_flipped(x, i, s, name))
        out = tx.asarray(x)
        out.index_put_((tx.asarray(i),), tx.asarray(s), accumulate=True)
        same(out, want)
        index = np.broadcast_to(i[:, None], s.shape)
        same(tx.asarray(x).scatter_add_(0, index, s), want)
        same(tx.asarray(x[:, 0]).index_add_(0, i, s[:, 0]), want[:, 0])


def assert_flipped(x, i, s, name):
    want = x.copy()
    for k, row in zip(i, s[:, ::-1]):
        want[k] = want[k] | row if name == "bool" else want[k] + row
    return want


def half_sums(x, i, s):
    """float16: each destination is summed in float32 in order and rounded once."""
    total = x.astype(np.float32)
    for k, row in zip(i, s):
        total[k] += row.astype(np.float32)
    touched = np.zeros(len(x), bool)
    touched[i] = True
    return np.where(touched.reshape(-1, *[1] * (x.ndim - 1)), total.astype(x.dtype), x)


@pytest.mark.parametrize("n", [3, 600, 5000])
def test_halves_are_summed_in_float32(n, rng, threads):
    x = rng.random((50, 20)).astype(np.float16)
    i = rng.integers(0, 50, n)
    s = (rng.random((n, 20)) * 0.01).astype(np.float16)
    want = half_sums(x, i, s)
    for count in (1, 2, 5):
        threads(count)
        same(tx.asarray(x).index_add_(0, i, s), want)
        same(tx.asarray(x).scatter_add_(0, np.broadcast_to(i[:, None], s.shape), s), want)
        same(tx.asarray(x.T.copy()).index_add_(1, i, s.T), want.T)
        same(tx.asarray(x[:, 3]).index_add_(0, i, s[:, 3]), want[:, 3])
        big = np.zeros(10**6, np.float16)  # far more places than positions
        big[:50] = x[:, 0]
        same(tx.asarray(big).index_add_(0, i[:9], s[:9, 0])[:50], half_sums(x[:, 0], i[:9], s[:9, 0]))
    one = tx.zeros(1, dtype=tx.bfloat16).index_add_(0, tx.zeros(1000, dtype=tx.int64), tx.ones(1000, dtype=tx.bfloat16))
    assert one.item() == 1000.0  # steps of 1 would be lost at 256
    mask = tx.asarray(x) > 0.5
    y = tx.asarray(x)
    y.index_put_(mask, 1.0, accumulate=True)
    same(y, np.where(x > 0.5, x + np.float16(1), x))


@every_dtype
def test_along_an_axis(name, rng):
    a = values(rng, (4, 5, 6), name)
    for axis in (0, 1, 2, -2):
        i = rng.integers(-a.shape[axis], a.shape[axis], [1 if rng.random() < 0.2 else s for s in a.shape])
        same(tx.take_along_axis(tx.asarray(a), tx.asarray(i), axis=axis), np.take_along_axis(a, i, axis))
        short = i[:2, :1]
        want = np.take_along_axis(a[tuple(slice(None) if d == axis % 3 else slice(s) for d, s in enumerate(short.shape))], short, axis)
        same(tx.gather(tx.asarray(a), axis, short), want)
        v = values(rng, i.shape, name)
        want = a.copy()
        for at in np.ndindex(*i.shape):
            to = list(at)
            to[axis] = i[at]
            want[tuple(to)] = v[at]
        same(tx.scatter(tx.asarray(a), axis, i, v), want)
        same(tx.asarray(a).transpose().copy().transpose().scatter_(axis, i, np.concatenate([v, v])), want)
        want = a.copy()
        np.put_along_axis(want, i, v[..., :1], axis)
        same(tx.asarray(a).put_along_axis_(i, v[..., :1], axis=axis), want)
        same(tx.put_along_axis(tx.asarray(a), i, 1 if name != "bool" else True, axis=axis), np_put(a, i, axis))


def np_put(a, i, axis):
    a = a.copy()
    np.put_along_axis(a, i, 1, axis)
    return a


@every_dtype
def test_masks_of_every_dtype_and_layout(name, rng):
    for shape in ((5,), (70, 1000), (3, 4, 5), (8193,)):
        a = values(rng, shape, name)
        for p in (0.0, 0.05, 0.5, 0.97, 1.0):
            m = rng.random(shape) < p
            for make in (lambda q: q, lambda q: q.T, lambda q: q[::-1], lambda q: q[..., ::2]):
                b, k = make(a), make(m)
                base = tx.asarray(a)
                t = make(base.T) if b.shape != make(a).shape else layout_like(base, make)
                n = layout_like(tx.asarray(m), make)
                same(t[n], b[k])
                same(tx.masked_select(t, n), b[k])
                v = values(rng, int(k.sum()), name)
                want = b.copy()
                want[k] = v
                t[n] = tx.asarray(v)
                same(t, want)
                t.masked_fill_(n, 1 if name != "bool" else True)
                want[k] = 1
                same(t, want)
            assert [q.tolist() for q in tx.nonzero(tx.asarray(m))] == [q.tolist() for q in np.nonzero(m)]
            same(tx.argwhere(tx.asarray(m)), np.argwhere(m))


def layout_like(t, make):
    """The same movement on a tensor."""
    class Moved:
        T = property(lambda self: t.permute_dims(tuple(range(t.ndim))[::-1]))
        __getitem__ = staticmethod(lambda index: t[index])

    out = make(Moved())
    return t if isinstance(out, Moved) else out


def test_masks_broadcast(rng):
    a = rng.random((3, 4)).astype(np.float32)
    row, column = np.array([True, False, True, True]), np.array([[True], [False], [True]])
    for m in (row, column, np.array(True)):
        full = np.broadcast_to(m, a.shape)
        same(tx.asarray(a).masked_fill_(m, 2.0), np.where(full, np.float32(2), a))
        same(tx.masked_fill(tx.asarray(a), tx.asarray(m), 2.0), np.where(full, np.float32(2), a))
        same(tx.masked_select(tx.asarray(a), tx.asarray(m)), a[full])
        v = np.arange(20, dtype=np.float32)
        want = a.copy()
        want[full] = v[: full.sum()]
        same(tx.asarray(a).masked_scatter_(m, tx.asarray(v).reshape(4, 5)), want)
        same(tx.masked_scatter(tx.asarray(a), m, tx.asarray(v)), want)
    with pytest.raises(tx.ShapeError, match="3 true elements"):
        tx.zeros(4).masked_scatter_(row, tx.ones(2))
    with pytest.raises(tx.ShapeError):
        tx.zeros(4).masked_fill_(np.ones((2, 4), bool), 1.0)
    with pytest.raises(tx.DTypeError):
        tx.zeros(4).masked_fill_(tx.zeros(4), 1.0)
    assert tx.where(tx.asarray([True, False]), 1.0, tx.asarray([5.0, 6.0])).tolist() == [1.0, 6.0]


def test_index_families_and_value_forms(rng):
    a = rng.random((4, 3)).astype(np.float32)
    x = tx.asarray(a)
    i = tx.asarray([2, -4])
    v = rng.random((2, 3)).astype(np.float32)
    for name, want in (("index_copy", v), ("index_add", a[[2, 0]] + v)):
        expected = a.copy()
        expected[[2, 0]] = want
        same(getattr(tx, name)(x, 0, i, tx.asarray(v)), expected)
        same(getattr(x.copy(), name + "_")(0, i, tx.asarray(v)), expected)
    expected = a.copy()
    expected[:, [1]] = 9
    same(tx.index_fill(x, 1, 1, 9.0), expected)
    same(x.copy().index_fill_(1, tx.asarray([1]), tx.asarray(9.0)), expected)
    expected = a.copy()
    np.add.at(expected, ([0, 0], [1, 1]), 1)
    same(tx.index_put(x, ([0, 0], [1, 1]), 1.0, accumulate=True), expected)
    same(x, a)
    assert x.version == 0
    for name, args in (("index_copy", (0, i, tx.asarray(v))), ("scatter", (0, tx.zeros((1, 1), dtype=tx.int64), 1.0))):
        assert getattr(tx, name)(x, *args).version == 0


def test_errors_of_the_functions():
    x = tx.zeros((3, 4))
    i = tx.asarray([0, 1])
    cases = [
        (tx.ShapeError, "axis 2 is out of range", lambda: tx.take(x, i, axis=2)),
        (tx.ShapeError, "one axis", lambda: tx.index_select(x, 0, [[0]])),
        (IndexError, "integers, not bools", lambda: tx.take(x, [True, False, True], axis=0)),
        (IndexError, "float32", lambda: tx.take(x, tx.zeros(2), axis=0)),
        (tx.ShapeError, "as many axes", lambda: tx.gather(x, 0, i)),
        (tx.ShapeError, "longer than the tensor", lambda: tx.gather(x, 0, tx.zeros((1, 5), dtype=tx.int64))),
        (tx.ShapeError, "at least as long", lambda: x.scatter_(0, tx.zeros((2, 2), dtype=tx.int64), tx.zeros((1, 2)))),
        (tx.DTypeError, "index_add_", lambda: tx.zeros(3, dtype=tx.int32).index_add_(0, i, 0.5)),
        (tx.ShapeError, "broadcast", lambda: x.index_add_(0, i, tx.zeros((3, 4)))),
        (tx.ShapeError, "0-d", lambda: x.index_fill_(0, i, tx.zeros(2))),
        (tx.DTypeError, "expected a tensor", lambda: tx.take([1, 2], 0)),
        (tx.ShapeError, "0-d tensor", lambda: tx.nonzero(tx.asarray(1))),
        (tx.ShapeError, "axis 1 only", lambda: x.slice_set(tx.zeros((2, 2)), 1, 0)),
        (IndexError, "leave axis 0", lambda: x.slice_set(tx.zeros((2, 4)), 0, 2)),
    ]
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    assert x.version == 0


def test_roll_and_diagonal(rng):
    a = rng.random((4, 5, 3)).astype(np.float32)
    x = tx.asarray(a)
    for shift, axis in ((1, None), (-7, None), (2, 0), (-1, 1), ((1, 2), (0, 2)), ((1, 2), (0, 0)), (3, (0, 1)), (0, 1), (100, 2)):
        same(tx.roll(x, shift, axis=axis), np.roll(a, shift, axis))
        same(tx.roll(x[::-1, :, ::2], shift, axis=axis), np.roll(a[::-1, :, ::2], shift, axis))
    same(tx.roll(x * 2.0, 1, axis=1), np.roll(a * 2, 1, 1))
    for offset in (-5, -3, -1, 0, 1, 4, 9):
        for a1, a2 in ((-2, -1), (0, 1), (2, 0)):
            same(tx.diagonal(x, offset, a1, a2), np.diagonal(a, offset, a1, a2))
    d = tx.zeros((3, 3)).alias()
    d.diagonal(1).fill_(2.0)
    assert d.tolist() == [[0, 2, 0], [0, 0, 2], [0, 0, 0]] and tx.shares_storage(d, d.diagonal())
