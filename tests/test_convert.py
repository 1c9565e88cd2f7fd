"""In and out: Python data, NumPy, buffers, DLPack, printing, copies."""

import copy

import numpy as np
import pytest

import tensorx as tx

pytestmark = pytest.mark.usefixtures("on_device")
cpu_alone = pytest.mark.metal_sample(keep=lambda: False)

inf = float("inf")


def test_default_dtypes():
    assert tx.asarray(True).dtype is tx.bool
    assert tx.asarray([1, 2]).dtype is tx.int64
    assert tx.asarray([1, 2.5]).dtype is tx.float32
    assert tx.asarray([1j, 2]).dtype is tx.complex64
    assert tx.asarray([]).dtype is tx.float32
    assert tx.asarray(np.ones(2)).dtype is tx.float64
    assert tx.asarray(np.float64(2)).dtype is tx.float64
    assert tx.asarray(np.int16(2)).dtype is tx.int16
    assert tx.zeros(2).dtype is tx.float32 and tx.arange(3).dtype is tx.int64 and tx.full(2, True).dtype is tx.bool


def test_nested_sequences():
    assert tx.asarray([[1, 2], (3, 4)]).tolist() == [[1, 2], [3, 4]]
    x = tx.arange(2)
    assert tx.asarray([x, x + 1]).tolist() == [[0, 1], [1, 2]]
    with pytest.raises(tx.ShapeError):
        tx.asarray([[1], [1, 2]])
    for bad in (object(), ["a"], "text", None, {1: 2}, [None]):
        with pytest.raises((tx.DTypeError, TypeError)):
            tx.asarray(bad)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64"])
def test_integers_out_of_range(dtype):
    info = tx.iinfo(dtype)
    assert tx.asarray([info.min, info.max], dtype=dtype).tolist() == [info.min, info.max]
    for bad in ([info.max + 1], [info.min - 1]):
        with pytest.raises(OverflowError):
            tx.asarray(bad, dtype=dtype)


def test_foreign_dtypes_are_refused():
    for a in (np.array(["a"]), np.array([object()]), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")]), np.zeros(1, np.longdouble)):
        with pytest.raises(tx.DTypeError):
            tx.asarray(a)
    swapped = np.arange(3, dtype=">i4")
    assert tx.asarray(swapped).tolist() == [0, 1, 2]
    with pytest.raises((tx.DTypeError, ValueError)):
        tx.from_numpy(swapped)
    odd = np.frombuffer(b"\0" * 13, np.uint8)[1:].view(np.float32) if False else np.ndarray((3,), np.float32, bytearray(13), offset=1)
    assert tx.asarray(odd).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="aligned"):
        tx.from_numpy(odd)


@pytest.mark.cpu_fact
def test_asarray_copies_and_shares_as_asked():
    a = np.arange(4.0)
    t = tx.asarray(a, copy=False)
    a[0] = 9
    assert t[0].item() == 9
    assert tx.asarray(t) is t
    u = tx.asarray(t, copy=True)
    a[1] = 8
    assert u[1].item() == 1
    for f in (lambda: tx.asarray([1], copy=False), lambda: tx.asarray(a, dtype="float32", copy=False), lambda: tx.asarray(t, dtype="int8", copy=False)):
        with pytest.raises(ValueError, match="copy=False"):
            f()


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a[:0], lambda a: a[1:, 1:]])
def test_numpy_views_share_address_strides_and_writes(make):
    a = make(np.arange(24.0).reshape(4, 6))
    t = tx.from_numpy(a)
    b = t.numpy()
    assert b.strides == a.strides and b.shape == a.shape
    if a.size:
        assert np.shares_memory(a, b) and b.__array_interface__["data"] == a.__array_interface__["data"]
        t.add_(1.0)
        np.testing.assert_array_equal(a, b)
    x = make(tx.arange(24).reshape(4, 6).numpy())
    assert x.shape == a.shape


def test_array_protocol():
    t = tx.arange(3)
    a = np.asarray(t)
    a[0] = 5
    assert t[0].item() == 5
    assert np.array(t, copy=True).tolist() == [5, 1, 2]
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    w = tx.tensor([1.0], requires_grad=True)
    with pytest.raises((tx.GradientError, BufferError), match="detach"):
        w.numpy()
    with pytest.raises(BufferError, match="detach"):
        memoryview(w)
    with pytest.raises(BufferError, match="detach"):
        w.__dlpack__()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "float16", "float32", "float64", "complex64", "complex128"])
def test_buffers_of_every_dtype(dtype):
    t = tx.asarray([[1, 0], [1, 1]]).astype(dtype)
    v = memoryview(t)
    assert v.itemsize == t.itemsize and v.nbytes == t.nbytes and v.shape == (2, 2)
    a = np.asarray(v)
    assert a.dtype == dtype and a.astype(complex).tolist() == t.astype("complex128").tolist()


def test_frombuffer():
    data = bytearray(np.arange(4, dtype=np.float32).tobytes())
    t = tx.frombuffer(data)
    t[0] = 7.0
    assert np.frombuffer(data, np.float32)[0] == 7
    assert tx.frombuffer(data, dtype="float32", count=2, offset=4).tolist() == [1, 2]
    for f in (lambda: tx.frombuffer(data, count=5), lambda: tx.frombuffer(data, offset=2), lambda: tx.frombuffer(data, offset=99), lambda: tx.frombuffer(b"abc")):
        with pytest.raises(ValueError):
            f()


def test_dlpack_with_numpy_both_ways():
    a = np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2]
    t = tx.from_dlpack(a)
    a[0, 0] = 50
    assert t[0, 0].item() == 50 and t.strides == (4, 2)
    b = np.from_dlpack(t)
    assert np.shares_memory(a, b)
    assert tx.from_dlpack(a, copy=True).add_(1)[0, 0].item() == 51 and a[0, 0] == 50
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(AttributeError):
        tx.from_dlpack([1])


@pytest.mark.cpu_fact
def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    for dtype in ("float32", "float16", "bfloat16", "int64", "bool", "complex64"):
        t = tx.asarray([[1, 0, 1], [1, 1, 0]]).astype(dtype)
        u = torch.from_dlpack(t)
        assert u.data_ptr() == tx._core.address(t) and str(u.dtype) == f"torch.{dtype}"
        back = tx.from_dlpack(u.T)
        assert back.shape == (3, 2) and tx._core.address(back) == u.data_ptr()
        del t
        assert u.shape == (2, 3)


def test_numbers():
    assert float(tx.asarray(1.5)) == 1.5 and int(tx.asarray([3])) == 3 and complex(tx.asarray(1j)) == 1j
    assert [10, 20, 30][tx.asarray(1)] == 20
    assert bool(tx.asarray(0)) is False and bool(tx.asarray([2.0])) is True
    with pytest.raises(tx.ShapeError, match="ambiguous"):
        bool(tx.ones(2))
    with pytest.raises(TypeError):
        [1][tx.asarray(0.0)]
    with pytest.raises(TypeError):
        float(tx.ones(2))
    with pytest.raises(tx.ShapeError):
        tx.ones(2).item()
    assert f"{tx.asarray(2.0) / 3:.4f}" == "0.6667"
    assert len(tx.ones((3, 2))) == 3
    with pytest.raises(TypeError):
        len(tx.asarray(1))
    assert [t.item() for t in tx.arange(3)] == [0, 1, 2]
    assert type(tx.arange(2).tolist()[0]) is int and type(tx.ones(1).tolist()[0]) is float


def test_identity_hash():
    a, b = tx.ones(2), tx.ones(2)
    assert len({a, b, a}) == 2


@pytest.mark.cpu_fact
def test_repr_is_readable():
    assert repr(tx.asarray([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert "dtype=float64" in repr(tx.ones(2, dtype="float64"))
    big = repr(tx.zeros((2000, 2000)))
    assert "..." in big and len(big) < 1000
    assert "shape=(0, 3)" in repr(tx.zeros((0, 3)))
    assert "bfloat16" in repr(tx.ones(2, dtype="bfloat16")) and "requires_grad=True" in repr(tx.tensor([1.0], requires_grad=True))


@pytest.mark.parametrize("form", ["copy", "clone", "to", "astype", "tolist", "numpy", "asarray", "deepcopy", "copy.copy"])
def test_copies_are_independent(device, form):
    t = tx.asarray([1.0, 2.0, 3.0], device=device)
    made = {
        "copy": lambda: t.copy(), "clone": lambda: t.clone(), "to": lambda: t.to(device), "astype": lambda: t.astype(t.dtype),
        "tolist": lambda: tx.asarray(t.tolist(), device=device), "numpy": lambda: tx.asarray(t.to("cpu").numpy(copy=True), device=device),
        "asarray": lambda: tx.asarray(t, copy=True), "deepcopy": lambda: copy.deepcopy(t), "copy.copy": lambda: copy.copy(t),
    }[form]()  # fmt: skip
    assert not tx.shares_storage(t, made)
    t.zero_()
    assert made.tolist() == [1, 2, 3]
    made.fill_(7.0)
    assert t.tolist() == [0, 0, 0]


@pytest.mark.parametrize("form", ["alias", "detach", "contiguous", "astype", "view", "reshape", "asarray"])
def test_aliases_share(device, form):
    t = tx.asarray([1.0, 2.0, 3.0], device=device)
    made = {
        "alias": lambda: t.alias(), "detach": lambda: t.detach(), "contiguous": lambda: t.contiguous(),
        "astype": lambda: t.astype(t.dtype, copy=False), "view": lambda: t[:], "reshape": lambda: t.reshape(3, 1),
        "asarray": lambda: tx.asarray(t, copy=False),
    }[form]()  # fmt: skip
    assert tx.shares_storage(t, made)
    t.zero_()
    assert made.reshape(-1).tolist() == [0, 0, 0]
    made.fill_(7.0)
    assert t.tolist() == [7, 7, 7]


def test_float_to_integer_saturates(device):
    x = tx.asarray([1e20, -1e20, float("nan"), inf, -inf, 1.9, -1.9], device=device)
    assert x.astype("int32").tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 1, -1]
    assert x.astype("uint8").tolist() == [255, 0, 0, 255, 0, 1, 0]
    assert x.astype("bool").tolist() == [True] * 7
    with pytest.raises(tx.DTypeError, match="imaginary"):
        tx.asarray([1j]).astype("float32")


def test_eval_takes_containers():
    x = tx.ones(3) * 2.0
    tx.eval({"a": [x, (x + 1.0, None)]})
    with pytest.raises(tx.DTypeError):
        tx.eval("no")


def test_arguments_are_checked():
    with pytest.raises(tx.DTypeError):
        tx.zeros(2, dtype="float31")
    with pytest.raises(tx.ShapeError):
        tx.zeros("ab")
    with pytest.raises(tx.DeviceNotFoundError, match="cpu"):
        tx.zeros(2, device="cuda")
    with pytest.raises(tx.DeviceNotFoundError):
        tx.device("metal:x")
    with pytest.raises(ValueError):
        tx.set_num_threads(0)
    with pytest.raises(TypeError):
        tx.Tensor([1])
