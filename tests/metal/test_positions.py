"""Indexing as NumPy does it, by lists, several index arrays and masks, and what is built on it: the same on both devices,
on Metal without the host."""

import threading

import numpy as np
import pytest

import tensorx as tx
from tensorx.metal import positions
from tensorx.ops.sorting import linear_recurrence

SHAPE = (4, 5, 6, 3)
DTYPES = ["float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "float16", "complex64"]


@pytest.fixture
def stays(device):
    """Nothing is computed on the host meanwhile."""
    if device == "cpu":
        yield
        return
    backend = tx.device(device).backend
    before = dict(backend.host_ops)
    yield
    assert dict(backend.host_ops) == before


def cases(rng):
    """Indices into SHAPE as NumPy takes them."""

    def index(n, *shape, dtype=np.int64):
        return rng.integers(-n if np.dtype(dtype).kind == "i" else 0, n, shape).astype(dtype)

    mask = rng.random((4, 5)) > 0.5
    return [
        (index(4, 3),),
        (index(4, 7), index(5, 7)),
        (index(4, 7, 1), index(5, 2)),
        (slice(None), index(5, 4), index(6, 4)),
        (index(4, 3), slice(1, None, 2), index(6, 3)),
        (index(4, 3), None, index(5, 3)),
        (Ellipsis, index(6, 5), index(3, 5)),
        (index(4, 2, 2), 1, slice(None, None, -1), index(3, 2)),
        (index(4, 3, dtype=np.int8), index(5, 3, dtype=np.uint64)),
        (index(4, 40), index(5, 40)),  # duplicates
        (index(4, 3), index(5, 3), index(6, 3), index(3, 3)),
        (index(4, 0), index(5, 0)),
        (mask,),
        (mask, slice(None, None, -1)),
        (slice(None), rng.random((5, 6)) > 0.5),
        (rng.random(SHAPE) > 0.5,),
        (np.zeros((4, 5), bool),),
        (mask, None),
        (slice(None), rng.random(5) > 0.4, slice(None), index(3, 1)),
        (2, mask[2], index(6, 1)),
        (True,),
    ]


def as_tensors(index, device):
    return tuple(tx.asarray(i, device=device) if isinstance(i, np.ndarray) else i for i in index)


def as_lists(index, device):
    return tuple(i.tolist() if isinstance(i, np.ndarray) and i.size else i for i in index)


def as_arrays(index, device):
    return index


@pytest.mark.parametrize("form, dtype", [*((as_tensors, name) for name in DTYPES), (as_lists, "float32"), (as_arrays, "uint8")])
def test_read_and_write_like_numpy(device, stays, form, dtype, rng):
    a = rng.integers(0, 50, SHAPE).astype(dtype)
    for index in cases(rng):
        i = form(index, device)
        x = tx.asarray(a, device=device)
        want = a[index]
        assert np.array_equal(x[i].numpy(), want), index
        values = rng.integers(0, 50, want.shape).astype(dtype)
        for v in (True if dtype == "bool" else 3, values, values[..., :1], values.reshape(-1)[:1].reshape(()) if values.size else 1):
            if dtype == "bool" and not isinstance(v, np.ndarray):
                v = bool(v)
            y, b = tx.asarray(a, device=device), a.copy()
            b[index] = v
            y[i] = tx.asarray(v, device=device) if isinstance(v, np.ndarray) else v
            assert np.array_equal(y.numpy(), b), (index, v)
        if dtype != "bool":
            y, b = tx.asarray(a, device=device), a.copy()
            np.add.at(b, index, values)
            y.index_put_(i, tx.asarray(values, device=device), accumulate=True)
            assert np.array_equal(y.numpy(), b), ("accumulate", index)


def test_views_are_read_and_written_where_they_lie(device, stays, rng):
    a = rng.normal(size=(6, 5, 8)).astype(np.float32)
    x = tx.asarray(a, device=device)
    view, b = x[::2, :, ::-3].permute_dims((2, 0, 1)), a[::2, :, ::-3].transpose(2, 0, 1)
    i, j = rng.integers(-3, 3, (4, 1)), rng.integers(-5, 5, 2)
    at = tx.asarray(i, device=device), tx.asarray(j, device=device)[::-1]
    assert np.array_equal(view[:, at[0], at[1]].numpy(), b[:, i, j[::-1]])
    mask = rng.random((5, 3, 3)) > 0.5
    seen = tx.asarray(mask, device=device).permute_dims((1, 2, 0))  # no line in memory
    assert np.array_equal(view[seen].numpy(), b[mask.transpose(1, 2, 0)])
    view[seen] = 7.0
    b[mask.transpose(1, 2, 0)] = 7.0
    view[:, at[0], at[1]] = 9.0
    b[:, i, j[::-1]] = 9.0
    assert np.array_equal(x.numpy(), a)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("few", [True, False])
def test_sums_of_halves_are_rounded_once(device, stays, dtype, few, rng):
    m = 40 if few else 700
    i, j = rng.integers(0, 5, m), rng.integers(0, 3, m)
    v = (rng.integers(-64, 64, m) / 16).astype(np.float32)
    want = np.zeros((5, 3), np.float32)
    np.add.at(want, (i, j), v)

    def half(a):
        return tx.asarray(a, device=device).astype(dtype)

    want = half(want.astype(np.float32)).astype("float32").numpy()
    x = half(np.zeros((5, 3), np.float32))
    at = tx.asarray(i, device=device), tx.asarray(j, device=device)
    x.index_put_(at, half(v), accumulate=True)
    assert np.array_equal(x.astype("float32").numpy(), want)
    x = half(np.zeros(15, np.float32))
    x.index_add_(0, at[0] * 3 + at[1], half(v))
    assert np.array_equal(x.astype("float32").numpy(), want.reshape(-1))
    x = half(np.zeros((15, 2), np.float32))
    places = tx.asarray(np.stack([i * 3 + j, i * 3 + j], 1), device=device)
    x.scatter_add_(0, places, half(np.stack([v, v], 1)))
    assert np.array_equal(x.astype("float32").numpy()[:, 1], want.reshape(-1))


def test_sums_have_the_same_bits_every_time(device, stays, rng):
    i, j = (tx.asarray(rng.integers(0, 4, 500), device=device) for _ in range(2))
    v = rng.normal(size=500).astype(np.float32)
    found = []
    for _ in range(3):
        x = tx.zeros((4, 4), device=device)
        x.index_put_((i, j), tx.asarray(v, device=device), accumulate=True)
        found.append(x.numpy(copy=True))
    in_order = np.zeros((4, 4), np.float32)
    np.add.at(in_order, (i.to("cpu").numpy(), j.to("cpu").numpy()), v)
    for x in found:
        assert np.array_equal(x, in_order)


def test_the_last_of_several_writes_wins(device, stays, rng):
    """In few cells (a table of winners) and in many (sorted)."""
    for shape, m in (((7, 6), 300), ((700, 600), 3), ((70, 6000), 2000)):
        a = np.zeros(shape, np.int32)
        i, j = rng.integers(0, 3, m), rng.integers(0, 4, m)
        v = rng.integers(1, 1 << 30, m).astype(np.int32)
        x = tx.asarray(a, device=device)
        x[tx.asarray(i, device=device), tx.asarray(j, device=device)] = tx.asarray(v, device=device)
        for k in range(m):
            a[i[k], j[k]] = v[k]
        assert np.array_equal(x.numpy(), a)


@pytest.mark.parametrize("wide", [False, True])
def test_one_index_for_each_element_of_any_layout(device, stays, wide, rng, monkeypatch):
    if wide:  # as beyond 2^31 elements
        monkeypatch.setattr(positions, "MAX_32", 3)
    a = rng.normal(size=(5, 4, 3, 2)).astype(np.float32)
    x = tx.asarray(a, device=device).permute_dims((1, 0, 3, 2))
    a = a.transpose(1, 0, 3, 2)
    i = rng.integers(-2, 2, (4, 5, 2, 3))
    t = tx.asarray(i, device=device)
    assert np.array_equal(tx.take_along_axis(x, t, axis=2).numpy(), np.take_along_axis(a, i, 2))
    v = rng.normal(size=i.shape).astype(np.float32)
    where = np.indices(i.shape)
    where[2] = i
    want = a.copy()
    want[tuple(where)] = v
    y = x.copy().permute_dims((0, 2, 1, 3)).contiguous().permute_dims((0, 2, 1, 3))
    y.scatter_(2, t, tx.asarray(v, device=device))
    assert np.array_equal(y.numpy(), want)
    y, want = x.copy(), a.copy()
    np.add.at(want, tuple(where), v)
    y.scatter_add_(2, t, tx.asarray(v, device=device))
    assert np.allclose(y.numpy(), want, rtol=1e-6, atol=1e-6)
    many = rng.integers(-2, 2, (4, 300, 2, 3))
    z = tx.zeros((4, 2, 2, 3), device=device)
    z.scatter_add_(1, tx.asarray(many, device=device), tx.ones(many.shape, device=device))
    want = np.stack([(many % 2 == k).sum(1) for k in range(2)], 1)
    assert np.array_equal(z.numpy(), want)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_wide_positions_and_masks(device, stays, dtype, rng, monkeypatch):
    monkeypatch.setattr(positions, "MAX_32", 3)
    a = rng.integers(0, 50, SHAPE).astype(dtype)
    for index in cases(rng)[1::3] + cases(rng)[13:16]:
        i = as_tensors(index, device)
        x, b = tx.asarray(a, device=device), a.copy()
        assert np.array_equal(x[i].numpy(), a[index])
        v = rng.integers(0, 50, a[index].shape).astype(dtype)
        x[i], b[index] = tx.asarray(v, device=device), v
        assert np.array_equal(x.numpy(), b)
        assert [p.tolist() for p in tx.nonzero(x)] == [p.tolist() for p in np.nonzero(b)]


def test_gradients(device, stays, rng):
    a = rng.normal(size=(4, 5, 6)).astype(np.float32)
    mask = rng.random((4, 5)) > 0.5
    i, j = rng.integers(-4, 4, 30), rng.integers(-5, 5, 30)
    at = tx.asarray(i, device=device), tx.asarray(j, device=device)
    for index, t in (((i, j), at), (([1, 1, 3],), ([1, 1, 3],)), ((mask,), (tx.asarray(mask, device=device),)), ((mask, [2]), (tx.asarray(mask, device=device), [2]))):
        x = tx.asarray(a, device=device).requires_grad_()
        w = rng.normal(size=a[index].shape).astype(np.float32)
        (x[t] * tx.asarray(w, device=device)).sum().backward()
        want = np.zeros_like(a)
        np.add.at(want, index, w)
        assert np.allclose(x.grad.numpy(), want, rtol=1e-5, atol=1e-6), index
        # of what is written, and of what is written over
        y, v = tx.asarray(a, device=device).requires_grad_(), tx.asarray(w, device=device).requires_grad_()
        z = y * 1.0
        z[t] = v
        (z * z).sum().backward()
        b = a.copy()
        b[index] = w
        kept = np.ones_like(a)
        kept[index] = 0.0
        assert np.allclose(y.grad.numpy(), 2 * a * kept, rtol=1e-5, atol=1e-6), index
        order = np.full(a.shape, -1)
        order[index] = np.arange(w.size).reshape(w.shape)
        last = order[index] == np.arange(w.size).reshape(w.shape)
        assert np.allclose(v.grad.numpy(), 2 * w * last, rtol=1e-5, atol=1e-6), index
    x = tx.asarray(a, device=device).requires_grad_()
    (tx.masked_select(x, tx.asarray(mask[..., None], device=device)) ** 2).sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * a * mask[..., None], rtol=1e-5)


# ---- what is built on it -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16", "bool", "uint64"])
@pytest.mark.parametrize("n", [1, 5, 3000])
def test_sets_and_places(device, stays, dtype, n, rng):
    a, b = rng.integers(0, max(2, n // 3), n).astype(dtype), rng.integers(0, n, (3, 4)).astype(dtype)
    if a.dtype.kind == "f" and n > 4:
        a[1], a[2], a[3], b[0, 0] = -0.0, np.inf, np.nan, np.nan
    x, y, line = (tx.asarray(v, device=device) for v in (a, b, np.sort(a)))
    for side in ("left", "right"):
        assert np.array_equal(tx.searchsorted(line, y.T, side=side).numpy(), np.searchsorted(np.sort(a), b.T, side=side))
        assert np.array_equal(tx.searchsorted(line[::2], x, side=side).numpy(), np.searchsorted(np.sort(a)[::2], a, side=side))
    found = tx.unique_all(x)
    options = {"equal_nan": False} if a.dtype.kind == "f" else {}
    want = np.unique(a, return_index=True, return_inverse=True, return_counts=True, **options)
    for p, q in zip(found, want):
        assert np.array_equal(p.numpy(), q.reshape(p.shape), equal_nan=q.dtype.kind == "f")
    assert np.array_equal(tx.isin(y, x).numpy(), np.isin(b, a)) and np.array_equal(tx.isin(x, y, invert=True).numpy(), ~np.isin(a, b))
    assert np.array_equal(tx.argwhere(y).numpy(), np.argwhere(b))
    order = np.argsort(-a.astype(np.float64), kind="stable")[: min(n, 3)]
    assert tx.topk(x, min(n, 3)).indices.tolist() == order.tolist()
    if dtype != "bool":
        best = np.maximum.accumulate(b, axis=1)
        assert np.array_equal(tx.cummax(y, axis=1).values.numpy(), best, equal_nan=a.dtype.kind == "f")
    if dtype == "int64":
        assert np.array_equal(tx.bincount(x).numpy(), np.bincount(a))
        assert np.array_equal(tx.one_hot(x).numpy(), np.eye(a.max() + 1, dtype=int)[a])
    if dtype == "float32":
        clean = np.nan_to_num(a, posinf=9.0)
        for bins, span in ((7, None), (5, (1, 3)), ([0.0, 1.0, 2.5, 8.0], None)):
            hist, edges = tx.histogram(tx.asarray(clean, device=device), bins, span)
            want = np.histogram(clean, bins, span)
            assert hist.tolist() == want[0].tolist() and np.allclose(edges.numpy(), want[1])


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("complex64", 1e-4)])
@pytest.mark.parametrize("shape, axis", [((7,), 0), ((3000,), 0), ((700, 2), 0), ((3, 4, 5), 1)])
def test_linear_recurrence(device, stays, dtype, tolerance, shape, axis, rng):
    a, b = rng.uniform(-1.1, 1.1, shape).astype(dtype), rng.normal(size=shape).astype(dtype)
    y = linear_recurrence(tx.asarray(a, device=device), tx.asarray(b, device=device), axis).numpy()
    s, want = 0, []
    for p, q in zip(np.moveaxis(a, axis, 0).astype(np.complex128), np.moveaxis(b, axis, 0)):
        s = p * s + q
        want.append(s)
    want = np.moveaxis(np.array(want), 0, axis)
    assert np.allclose(y, want if dtype == "complex64" else want.real, rtol=tolerance, atol=tolerance)


def test_recurrences_that_overflow_vanish_or_meet_infinity(device, stays):
    a, b = np.full(1000, 4.0, np.float32), np.zeros(1000, np.float32)
    a[:60], b[0], b[700] = 0.25, 1.0, 3.0
    y = linear_recurrence(tx.asarray(a, device=device), tx.asarray(b, device=device), 0).numpy()
    assert y[1] == 0.25 and y[59] == 2.0**-118 and y[118] == 1.0 and np.isposinf(y[200]) and np.isposinf(y[999])
    a[:], a[50], a[600] = 0.5, np.inf, 0.0
    y = linear_recurrence(tx.asarray(a, device=device), tx.asarray(b, device=device), 0).numpy()
    assert y[49] == 2.0**-49 and np.isposinf(y[50]) and np.isposinf(y[599]) and np.isnan(y[999])


def test_gradient_of_running_products(device, stays, rng):
    a = rng.uniform(0.5, 1.5, (4, 300)).astype(np.float32)
    a[1, 7] = 0.0
    x = tx.asarray(a, device=device).requires_grad_()
    tx.cumulative_prod(x, axis=1).sum().backward()
    y = tx.asarray(a.astype(np.float64), device="cpu").requires_grad_()
    tx.cumulative_prod(y, axis=1).sum().backward()
    assert np.allclose(x.grad.numpy(), y.grad.numpy(), rtol=2e-5)


# ---- what it costs, and what goes wrong ----------------------------------------------------------------


class Cost:
    """What a block costs on metal: dispatches, waits, compiled kernels."""

    def __enter__(self):
        self.start = tx.metal.stats()
        return self

    def __exit__(self, *_):
        end = tx.metal.stats()
        self.dispatches, self.waits, self.compiled = (end[k] - self.start[k] for k in ("dispatches", "waits", "compiled"))


@pytest.fixture
def slow_gpu(metal, stand_in_or_none):
    """Whatever is waited for blocks."""
    if tx.device("metal").backend.inst.synchronous:
        pytest.skip("each dispatch is waited for")
    if stand_in_or_none is not None:
        stand_in_or_none.set(delay_us=20000)
    with tx.device("metal"):
        yield


@pytest.mark.metal
def test_a_mask_waits_once_where_its_count_decides_and_else_never(slow_gpu, rng):
    x = tx.asarray(rng.normal(size=(60, 50)).astype(np.float32))
    mask = x > 0.0
    tx.eval(mask)
    rows = tx.asarray(rng.random(60) > 0.5)
    values, i, j = x[mask], tx.asarray(rng.integers(0, 50, 9)), tx.asarray(rng.integers(0, 60, 9))

    def cost(call):
        tx.synchronize()
        with Cost() as c:
            result = call()
        tx.synchronize()
        return c.waits, result

    def put(index, value):
        x[index] = value

    assert cost(lambda: x[mask])[0] == 1
    assert cost(lambda: tx.nonzero(mask))[0] == 1
    assert cost(lambda: tx.unique_all(x))[0] == 1
    assert cost(lambda: x[rows, i[0:1]])[0] == 1
    assert cost(lambda: put(mask, values))[0] == 1  # whether they are as many
    for value in (0.5, tx.asarray(0.5), tx.ones(1)):
        assert cost(lambda v=value: put(mask, v))[0] == 0
    assert cost(lambda: put(rows, tx.ones(50)))[0] == 0  # a row for each true element
    assert cost(lambda: x[j, i])[0] == cost(lambda: x[[1, 2, 3]])[0] == cost(lambda: put(([3, 1], [2, 2]), 1.0))[0] == 0
    assert cost(lambda: put((j, i), tx.ones(9)))[0] == cost(lambda: x.index_put_((j, i), tx.ones(9), accumulate=True))[0] == 0
    y = x.detach().copy().requires_grad_()
    picked = (y * 1.0)[mask].sum()
    assert cost(picked.backward)[0] == 0  # what was counted is not counted again
    assert y.grad[0, 0].item() == float(mask[0, 0])


@pytest.mark.metal
def test_other_sizes_and_values_compile_nothing(metal, rng):
    def step(n, m, k, number):
        x = tx.asarray(rng.normal(size=(n, m)).astype(np.float32))
        i, j = tx.asarray(rng.integers(-n, n, k)), tx.asarray(rng.integers(-m, m, k))
        mask = x > 0.0
        x[i, j], x[[0, n - 1], 1], x[mask] = tx.ones(k), number, number
        x.index_put_((i, j), tx.ones(k), accumulate=True)
        x[x > 0.5] = x[x > 0.5]
        return x[i, j].sum() + x[mask].sum() + x[[1, -1]].sum() + tx.nonzero(mask)[0].astype("float32").sum()

    with tx.device("metal"):
        for sizes in ((9, 7, 30, 1.0), (25, 30, 9, 1.0)):  # short lines of a mask are counted by another kernel than long ones
            tx.eval(step(*sizes))
        tx.synchronize()
        with Cost() as c:
            for sizes in ((11, 8, 25, 2.0), (20, 30, 40, -3.0), (4, 9, 77, 0.0)):
                step(*sizes).item()
        assert c.compiled == 0


@pytest.mark.metal
def test_fused_work_around_an_index_is_few_dispatches(metal, rng):
    with tx.device("metal"):
        x, i = tx.asarray(rng.normal(size=(9, 7)).astype(np.float32)), tx.asarray([3, 1])
        tx.eval(x)
        with Cost() as c:
            x[i, i]
        assert c.dispatches == 1
        with Cost() as c:
            x[i, i] = 1.0
        assert c.dispatches == 1
        mask = x > 0
        tx.eval(mask)
        with Cost() as c:
            x[mask] = 0.0
        assert c.dispatches == 1


@pytest.mark.metal
def test_out_of_range_is_told_at_the_call_or_the_next_wait(metal, rng):
    with tx.device("metal"):
        x = tx.zeros((4, 5))
        for bad in ([4], np.array([0, -5]), ([0], [9])):  # the host knows
            with pytest.raises(IndexError, match="index (4|-5|9) is out of range for axis [01] of size [45]"):
                x[bad]
            with pytest.raises(IndexError, match="is out of range for axis"):
                x[bad] = 1.0
        good, bad = tx.asarray([0, 1]), tx.asarray([1, 5])
        for call in (
            lambda: x[good, bad], lambda: x.__setitem__((good, bad), 2.0), lambda: x.__setitem__((good, bad), tx.ones(2)),
            lambda: x.index_put_((good, bad), tx.ones(2), accumulate=True),
        ):  # fmt: skip
            call()
            with pytest.raises(IndexError, match="out of range for axis 1 of size 5"):
                tx.synchronize()
            tx.synchronize()  # once
        assert x.tolist()[0][1] == 2.0 and float(x.sum().item()) == 2.0  # what was in range
        x[bad, good]
        with pytest.raises(IndexError, match="out of range for axis 0 of size 4"):
            tx.synchronize()
        y = tx.zeros((4, 5))
        y.index_put_((tx.asarray([9, 0]), tx.asarray([0, 0])), tx.ones(2), accumulate=True)
        with pytest.raises(IndexError):
            tx.synchronize()
        assert y[0, 0].item() == 1.0  # although it has the number of the first cell
        huge = tx.asarray(np.array([2**64 - 1, 0], np.uint64))  # not -1
        x[huge, good]
        with pytest.raises(IndexError, match="axis 0"):
            tx.synchronize()


def test_values_that_do_not_fit_are_refused_at_the_call(device):
    x = tx.zeros(6, device=device)
    mask = tx.asarray([True, False, True, False, False, True], device=device)
    with pytest.raises(tx.ShapeError, match="3"):
        x[mask] = tx.ones(2, device=device)
    with pytest.raises(tx.ShapeError):
        x.index_put_((mask,), tx.ones(2, device=device), accumulate=True)
    with pytest.raises(tx.ShapeError, match="source"):
        x.masked_scatter_(mask, tx.ones(2, device=device))
    x.masked_scatter_(mask, tx.arange(5, device=device, dtype="float32") + 1.0)
    assert x.tolist() == [1, 0, 2, 0, 0, 3]
    x.index_put_((mask,), tx.ones(3, device=device), accumulate=True)
    assert x.tolist() == [2, 0, 3, 0, 0, 4]


def test_an_index_or_values_from_what_is_written(device):
    x = tx.asarray([[2, 0, 1], [1, 2, 0]], device=device)
    y = tx.asarray([2, 0, 1, 3], device=device)
    y[y,] = tx.flip(y)
    assert y.tolist() == [1, 0, 3, 2]
    x[[0, 1], [1, 1]] = x[[1, 0], [0, 0]]
    assert x.tolist() == [[2, 1, 1], [1, 2, 0]]
    x[x == 1] = x[0, 0]
    assert x.tolist() == [[2, 2, 2], [2, 2, 0]]
    mask = tx.asarray([True, False, True], device=device)
    mask[mask] = tx.asarray([False, True], device=device)
    assert mask.tolist() == [False, False, True]


def test_lists_along_an_axis(device, stays, rng):
    a = rng.normal(size=(4, 5)).astype(np.float32)
    x = tx.asarray(a, device=device).requires_grad_()
    (tx.take(x, [[1, 2], [3, 1]], axis=0).sum() + tx.gather(x, 1, [[0, 0], [4, -1]]).sum()).backward()
    want = np.array([[2, 0, 0, 0, 0], [2, 2, 2, 2, 4], [1] * 5, [1] * 5], np.float32)
    assert np.array_equal(x.grad.numpy(), want)
    y = tx.asarray(a, device=device)
    y.index_add_(0, [1, 1], tx.ones((2, 5), device=device)).index_fill_(1, [0], 0.0).index_copy_(0, [2], tx.ones((1, 5), device=device))
    y.scatter_(1, [[1], [2]], 5.0)
    a[1] = (a[1] + 1) + 1
    a[:, 0], a[2], a[0, 1], a[1, 2] = 0, 1, 5, 5
    assert np.array_equal(y.numpy(), a)


@pytest.mark.metal
def test_calls_that_fail_leave_no_notes(metal, monkeypatch):
    with tx.device("metal"):
        x, i = tx.zeros((4, 5)), tx.asarray([1, 2])
        with monkeypatch.context() as m:
            m.setattr(tx.device("metal").backend.inst, "encode", lambda *_, **__: 1 / 0)
            for _ in range(70):  # more than there are status words
                with pytest.raises(ZeroDivisionError):
                    x[i, i]
        assert x[i, i].tolist() == [0.0, 0.0]


@pytest.mark.metal
def test_what_the_host_computes_is_counted(metal):
    with tx.device("metal"):
        before = dict(tx.metal.stats()["host_ops"])
        tx.mode(tx.asarray([1, 3, 3]))
        tx.unique_values(tx.asarray([1j, 1j]))
        after = tx.metal.stats()["host_ops"]
        assert {name for name in after if after[name] != before.get(name, 0)} == {"mode", "unique_values"}


def test_threads_that_write_each_others_masks(device, rng):
    """Each waits for the number of true elements of what the other one writes."""
    a, b = (tx.asarray(rng.random(300) > 0.5, device=device) for _ in range(2))

    def work(p, q):
        for _ in range(40):
            try:
                p[q] = p[q]
            except tx.ShapeError:  # it has changed between the two
                pass

    crew = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((a, b), (b, a)) * 2]
    for t in crew:
        t.start()
    for t in crew:
        t.join(20)
    assert not any(t.is_alive() for t in crew)


@pytest.mark.metal
def test_threads_that_fill_the_ring_of_status_words_wait_for_each_other(metal, monkeypatch):
    monkeypatch.setattr("tensorx.metal.indexing.Status.SLOTS", 2)
    x = tx.asarray(np.arange(100, dtype=np.float32), device="metal")
    index = tx.asarray([3, 97, 5], device="metal")
    tx.eval(x, index)
    wrong, gate = [], threading.Barrier(8)

    def work():
        gate.wait()
        for _ in range(20):
            if tx.take(x, index, axis=0).tolist() != [3.0, 97.0, 5.0]:
                wrong.append(1)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)
    bad = [tx.take(x, tx.asarray([n], device="metal"), axis=0) for n in (1, 2, 3)]
    with pytest.raises(IndexError):
        tx.take(x, tx.asarray([500], device="metal"), axis=0).tolist()
    assert [b.tolist() for b in bad] == [[1.0], [2.0], [3.0]]
