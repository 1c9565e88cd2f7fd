"""Memory shared with NumPy and PyTorch, both ways, through DLPack and the buffer protocol: one address, right strides, safe in
either order of deletion, nothing left over; and what NumPy's functions make of tensors."""

import gc
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL, few, laid_out, seeds, shapes, values

import tensorx as tx
from tensorx import _core

TORCH = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128"]


def address(x):
    """Where the first element lies: of a tensor, an ndarray or a torch tensor."""
    if isinstance(x, tx.Tensor):
        return _core.address(x)
    return x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data_ptr()


def layout_of(x):
    """(shape, strides in elements)"""
    if isinstance(x, np.ndarray):
        return x.shape, tuple(s // x.itemsize for s in x.strides)
    return tuple(x.shape), tuple(x.stride()) if hasattr(x, "stride") else x.strides


def same_layout(x, y):
    (shape, a), (other, b) = layout_of(x), layout_of(y)
    assert shape == other
    if 0 not in shape:
        assert all(p == q for p, q, n in zip(a, b, shape) if n > 1)
        assert address(x) == address(y)


@few
@given(st.data())
def test_numpy_both_ways(data):
    rng = np.random.default_rng(data.draw(seeds))
    a = values(rng, data.draw(st.sampled_from(ALL)), data.draw(shapes))
    x, a = laid_out(data.draw, a)
    tx.eval(x)
    for export in (np.from_dlpack, np.asarray, lambda t: np.asarray(memoryview(t)), lambda t: t.numpy()):
        b = export(x)
        assert b.dtype == a.dtype
        same_layout(x, b)
        np.testing.assert_array_equal(b, a)
    strided = np.flip(np.repeat(a, 2, axis=-1)[..., ::2]) if a.ndim else a
    for take in (tx.from_dlpack, tx.from_numpy, lambda t: tx.asarray(t, copy=False)):
        y = take(strided)
        assert y.dtype.name == a.dtype.name
        same_layout(y, strided)
        np.testing.assert_array_equal(np.asarray(y), strided)


@few
@given(st.data())
def test_torch_both_ways(data):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(data.draw(seeds))
    a = values(rng, data.draw(st.sampled_from(TORCH)), data.draw(shapes))
    x, a = laid_out(data.draw, a)
    if all(s >= 0 for s in x.strides):  # PyTorch has no negative strides
        t = torch.from_dlpack(x)
        same_layout(t, x)
        np.testing.assert_array_equal(t.numpy(), a)
    t = torch.from_numpy(a.copy())
    t = t.permute(tuple(reversed(range(t.ndim))))
    y = tx.from_dlpack(t)
    same_layout(y, t)
    np.testing.assert_array_equal(np.asarray(y), t.numpy())


def test_writes_are_seen_on_both_sides():
    torch = pytest.importorskip("torch")
    x = tx.zeros(4)
    n, t = np.from_dlpack(x), torch.from_dlpack(x)
    x[0] = 1.0
    t[1] = 2.0
    assert x.tolist() == n.tolist() == t.tolist() == [1, 2, 0, 0]
    y = tx.from_dlpack(t)
    y += 1.0
    assert x.tolist() == [2, 3, 1, 1] == t.tolist()
    b = torch.ones(3, dtype=torch.bfloat16)
    z = tx.from_dlpack(b)
    assert z.dtype is tx.bfloat16 and z.tolist() == [1, 1, 1]
    z.fill_(3.0)
    assert b.tolist() == [3, 3, 3] and torch.from_dlpack(z).dtype is torch.bfloat16


def kinds():
    yield "numpy", lambda: np.arange(6.0).reshape(2, 3).copy(), np.from_dlpack
    try:
        import torch
    except ImportError:
        return
    yield "torch", lambda: torch.arange(6.0).reshape(2, 3).clone(), torch.from_dlpack


@pytest.mark.parametrize("first", ["source", "view"])
def test_lifetimes_and_counters(first):
    """Either side may die first, a capsule may never be used; afterwards nothing more is held than before."""
    for (_, make, take), version in itertools.product(kinds(), [None, (1, 0)]):

        def out(make=make, take=take, version=version):
            x = tx.arange(1000.0) * 1.0
            tx.eval(x)
            y = take(x)
            capsule = x.__dlpack__(max_version=version)
            memory = memoryview(x)
            if first == "source":
                del x
                assert float(y[7]) == 7.0 and memory[8] == 8.0
                del y, capsule, memory
            else:
                del y, capsule, memory
                assert x.is_unique()
                assert x[7].item() == 7.0
            source = make()
            z = tx.from_dlpack(source)
            if first == "source":
                del source
                assert z[1, 1].item() == 4.0
                del z
            else:
                view = z.T
                del z
                assert view[1, 1].item() == 4.0
                del view
                assert float(source[1, 1]) == 4.0

        out()
        gc.collect()
        live, storages = tx.memory.stats()["live"], _core.storage_count()
        for _ in range(50):
            out()
        gc.collect()
        assert tx.memory.stats()["live"] == live and _core.storage_count() == storages


def test_keywords():
    x = tx.arange(4.0)
    kind, number = x.__dlpack_device__()
    assert (kind, number) == (1, 0) and kind.name == "CPU" and isinstance(kind, int)
    assert np.from_dlpack(x, copy=True)[0] == 0 and not np.shares_memory(np.from_dlpack(x, copy=True), np.asarray(x))
    y = tx.from_dlpack(x, copy=True)
    assert not tx.shares_storage(x, y) and tx.shares_storage(x, tx.from_dlpack(x)) and tx.shares_storage(x, tx.from_dlpack(x, copy=False))
    assert tx.from_dlpack(x, device="cpu").device is x.device
    x.__dlpack__(stream=None, max_version=(1, 1), dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=5)
    with pytest.raises(BufferError, match="device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(AttributeError, match="__dlpack__"):
        tx.from_dlpack([1, 2])
    w = tx.ones(2)
    w.requires_grad = True
    for call in (w.__dlpack__, lambda: tx.from_dlpack(w), lambda: np.from_dlpack(w)):
        with pytest.raises(BufferError, match="detach"):
            call()


def test_read_only_arrays_stay_read_only():
    a = np.arange(3.0)
    a.flags.writeable = False
    for x in (tx.from_dlpack(a), tx.from_numpy(a), tx.frombuffer(b"12345678", dtype=tx.uint8)):
        with pytest.raises((tx.InplaceError, ValueError, BufferError)):
            x[0] = 1
    assert not np.from_dlpack(tx.from_numpy(a)).flags.writeable and not np.asarray(tx.from_numpy(a)).flags.writeable


# ---- NumPy's functions and operators --------------------------------------------------------------


def test_operators_never_mix_with_arrays():
    x, a = tx.ones(3), np.ones(3)
    for call in (lambda: x + a, lambda: a + x, lambda: a @ x, lambda: x @ a, lambda: a == x, lambda: x < a, lambda: a**x, lambda: np.add(a, x),
                 lambda: np.maximum(x, a)):  # fmt: skip
        with pytest.raises(tx.DTypeError, match="from_numpy"):
            call()
    with pytest.raises(tx.DTypeError):
        a += x
    with pytest.raises(tx.DTypeError):
        x += a
    assert x.tolist() == [1, 1, 1] and a.tolist() == [1, 1, 1]


def test_ufuncs_on_tensors_give_tensors():
    x = tx.asarray([1.0, 2.0])
    for got, want in ((np.add(x, 1), x + 1), (np.multiply(2.0, x), 2 * x), (np.arctan2(x, x), tx.atan2(x, x)), (np.sqrt(x), tx.sqrt(x)),
                      (np.power(x, 2), x * x), (np.absolute(-x), x), (np.float32(2) * x, x * 2), (np.float64(2) * x, x * 2), (x - np.int64(1), x - 1),
                      (np.greater(x, 1), x > 1), (np.matmul(x, x), x @ x)):  # fmt: skip
        assert isinstance(got, tx.Tensor) and got.dtype is want.dtype and got.tolist() == want.tolist()
    x.requires_grad = True
    np.exp(x).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), np.exp([1, 2]), rtol=1e-6)
    # one that tensorx does not have, and one with two results
    y = tx.asarray([-1.5, 0.0, 2.5])
    assert np.heaviside(y, 0.5).tolist() == [0, 0.5, 1] and isinstance(np.heaviside(y, 0.5), tx.Tensor)
    part, whole = np.modf(y)
    assert part.tolist() == [-0.5, 0, 0.5] and whole.tolist() == [-1, 0, 2]
    for call in (lambda: np.add.reduce(y), lambda: np.add(y, 1, out=np.ones(3, np.float32)), lambda: np.add(y, 1, where=np.ones(3, bool)),
                 lambda: np.add.outer(y, y)):  # fmt: skip
        with pytest.raises(tx.DTypeError):
            call()


def test_other_functions_of_numpy_read_tensors():
    x = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    for got, want in ((np.sum(x), 10.0), (np.concatenate([x, x]), np.concatenate([x.numpy()] * 2)), (np.mean(x, axis=0), [2, 3]), (np.stack((x, x)).shape, (2, 2, 2)),
                      (np.linalg.det(x), -2.0), (np.allclose(x, x), True), (np.asarray(x, dtype=np.float64).dtype, np.float64)):  # fmt: skip
        assert not isinstance(got, tx.Tensor)
        np.testing.assert_allclose(got, want, rtol=1e-6) if not isinstance(want, type) else None
    named = tx.unique_counts(tx.asarray([3, 1, 3]))
    assert np.concatenate(named).tolist() == [1, 3, 1, 2] and np.select([x.numpy() > 2], [x]).tolist() == [[0, 0], [3, 4]]
    assert np.array([x[0], x[1]]).tolist() == x.tolist() and np.array(x).dtype == np.float32
    np.testing.assert_array_equal(x, x.numpy())


# ---- Python numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_out_of_range_are_errors(name):
    info = tx.iinfo(name)
    x = tx.ones(3, dtype=name)
    for number in (info.max + 1, info.min - 1, 10**30):
        calls = [lambda: x + number, lambda: number + x, lambda: tx.maximum(x, number), lambda: x.__iadd__(number), lambda: x.__setitem__(0, number),
                 lambda: tx.full(2, number, dtype=name), lambda: tx.asarray(number, dtype=name), lambda: tx.asarray([1, number], dtype=name),
                 lambda: tx.full_like(x, number), lambda: x.fill_(number), lambda: tx.where(x > 0, x, number), lambda: tx.clip(x, number, None)]  # fmt: skip
        for call in calls:
            with pytest.raises(OverflowError):
                call()
    assert x.tolist() == [1, 1, 1]
    same = x * 0 + info.max
    assert same.tolist() == [info.max] * 3 and (x * 0 + info.min).tolist() == [info.min] * 3


def test_wrong_kinds_are_errors():
    b, i, f, c = tx.ones(2, dtype=tx.bool), tx.ones(2, dtype=tx.int32), tx.ones(2), tx.ones(2, dtype=tx.complex64)
    for call in (lambda: b + 1, lambda: i + 1.5, lambda: i + 1j, lambda: i + True, lambda: f + True, lambda: b * 2.0, lambda: f & 1, lambda: i << 1.0,
                 lambda: i + f, lambda: ~f, lambda: c < c, lambda: c // c, lambda: tx.floor(c), lambda: -b, lambda: b - b, lambda: f | f, lambda: i.__iadd__(f),
                 lambda: i.__itruediv__(2), lambda: f.__iadd__(1j), lambda: tx.ones(2, dtype=tx.uint64) + tx.ones(2, dtype=tx.int64), lambda: tx.add(1, 2),
                 lambda: tx.sin("a"), lambda: tx.add(f, [1, 2]), lambda: tx.sort(c), lambda: tx.max(c), lambda: tx.argmax(c), lambda: tx.searchsorted(c, c),
                 lambda: tx.asarray("text"), lambda: tx.asarray([None]), lambda: tx.astype(c, tx.float32)):  # fmt: skip
        with pytest.raises(TypeError):
            call()
    for call in (lambda: f + "a", lambda: f + None, lambda: f + [1], lambda: f @ 2, lambda: f < "a"):
        with pytest.raises(TypeError):
            call()
    assert (f + 1).dtype is tx.float32 and (f + 1j).dtype is tx.complex64 and (c + 2.5).dtype is tx.complex64 and (b & True).dtype is tx.bool
    assert (tx.ones(2, dtype=tx.float64) + 1j).dtype is tx.complex128
    for compare in (lambda: f == [1, 2], lambda: f != (1, 2), lambda: [1, 2] == f):
        with pytest.raises(tx.DTypeError, match=r"equal: expected a tensor or a Python number, got (list|tuple); use tx.asarray"):
            compare()
    assert not (f == None) and (f != None)  # noqa: E711 - no number: identity decides, as for any object


def test_conversions_to_python():
    assert bool(tx.asarray(True)) is True and int(tx.asarray(7, dtype=tx.int8)) == 7 and float(tx.asarray(2.5)) == 2.5
    assert complex(tx.asarray(1 + 2j)) == 1 + 2j and complex(tx.asarray(2.0)) == 2 and complex(tx.asarray(True)) == 1
    assert [10, 20, 30][tx.asarray(1)] == 20 and range(5)[tx.asarray(2, dtype=tx.uint8)] == 2
    for name in ("int8", "uint64"):
        assert type(tx.asarray(3, dtype=name).__index__()) is int
    for call, error in ((lambda: float(tx.asarray(1j)), TypeError), (lambda: int(tx.asarray(1j)), TypeError), (lambda: int(tx.asarray(tx.inf)), OverflowError),
                        (lambda: int(tx.asarray(tx.nan)), ValueError), (lambda: tx.asarray(1.0).__index__(), TypeError), (lambda: bool(tx.ones(2)), ValueError),
                        (lambda: float(tx.ones(2)), TypeError)):  # fmt: skip
        with pytest.raises(error):
            call()


def test_axes_and_shapes_that_are_wrong():
    x = tx.ones((2, 3))
    axis = [lambda a: tx.sum(x, axis=a), lambda a: tx.sort(x, axis=a), lambda a: tx.argmax(x, axis=a), lambda a: tx.cumulative_sum(x, axis=a),
            lambda a: tx.concat([x, x], axis=a), lambda a: tx.flip(x, axis=a), lambda a: tx.unstack(x, axis=a), lambda a: tx.diff(x, axis=a),
            lambda a: tx.roll(x, 1, axis=a), lambda a: tx.repeat(x, 2, axis=a), lambda a: tx.take(x, tx.asarray([0]), axis=a),
            lambda a: tx.squeeze(x, a), lambda a: tx.moveaxis(x, a, 0), lambda a: tx.permute_dims(x, (a, 0))]  # fmt: skip
    for call in axis:
        for a in (2, -3, 100):
            with pytest.raises(tx.AxisError, match="axis"):
                call(a)
        with pytest.raises(IndexError):
            call(2)
    for call in (lambda: tx.sum(x, axis=(0, 0)), lambda: tx.sum(x, axis=(0, -2)), lambda: tx.permute_dims(x, (0, 0)), lambda: tx.moveaxis(x, (0, 0), (0, 1)),
                 lambda: tx.permute_dims(x, (0,)), lambda: tx.max(tx.ones((0, 2)), axis=0), lambda: tx.argmin(tx.ones(0)), lambda: tx.stack([x, x[0]]),
                 lambda: tx.concat([]), lambda: x + tx.ones((2, 2)), lambda: tx.tril(tx.ones(2)), lambda: tx.reshape(x, (4, 2)), lambda: tx.zeros(-1),
                 lambda: tx.reshape(x.T, (6,), copy=False), lambda: tx.searchsorted(x, x)):  # fmt: skip
        with pytest.raises(ValueError):
            call()
