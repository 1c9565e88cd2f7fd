"""Matrix products through the namespace: values, shapes, dtypes, layouts, bits, errors."""

import numpy as np
import pytest

import tensorx as tx

pytestmark = pytest.mark.usefixtures("on_device")
cpu_alone = pytest.mark.metal_sample(keep=lambda: False)

FLOATS = ["float32", "float64", "float16", "complex64", "complex128"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SHAPES = [
    ((3, 4), (4, 5)), ((1, 1), (1, 1)), ((7, 1), (1, 9)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4, 5)),
    ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((2, 3, 0), (2, 0, 3)),
    ((70, 33), (33, 65)), ((129, 257), (257, 130)), ((5, 600), (600, 3)),
]  # fmt: skip


def draw(rng, shape, dtype):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    a = rng.normal(size=shape)
    if kind == "c":
        a = a + 1j * rng.normal(size=shape)
    return a.astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_values(device, dtype, rng):
    if device != "cpu" and dtype in ("float64", "complex128"):
        pytest.skip(f"{dtype} is not on Metal")
    for sa, sb in SHAPES:
        a, b = draw(rng, sa, dtype), draw(rng, sb, dtype)
        got = tx.asarray(a, device=device) @ tx.asarray(b, device=device)
        wide = {"f": np.float64, "c": np.complex128}.get(np.dtype(dtype).kind)
        want = np.matmul(a.astype(wide), b.astype(wide)) if wide else np.matmul(a, b)
        assert got.shape == want.shape and got.dtype == dtype
        value = np.asarray(got.tolist(), dtype=want.dtype).reshape(want.shape)
        if wide:
            tol = {"float16": 1e-3, "float32": 1e-6, "complex64": 2e-6}.get(dtype, 1e-14)
            scale = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
            assert (np.abs(value - want) <= tol * (scale + np.abs(want)) + 1e-12).all(), (sa, sb)
        else:
            np.testing.assert_array_equal(value, want)


@pytest.mark.cpu_fact
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16", "complex64"])
def test_layout_and_position_do_not_change_bits(dtype, rng):
    a = tx.asarray(draw(rng, (65, 130), "float32")).astype(dtype)
    b = tx.asarray(draw(rng, (130, 70), "float32")).astype(dtype)
    want = bytes(tx._core.raw_bytes((a @ b).contiguous()))
    at, bt = a.T.contiguous().T, b.T.contiguous().T
    wide = tx.zeros((65, 260), dtype=dtype)
    wide[:, ::2] = a
    for x, y in ((at, b), (a, bt), (at, bt), (wide[:, ::2], b), (a[::-1][::-1], b[:, ::-1][:, ::-1])):
        assert bytes(tx._core.raw_bytes((x @ y).contiguous())) == want
    batch = tx.stack([a, a]) @ b if hasattr(tx, "stack") else None
    if batch is not None:
        assert bytes(tx._core.raw_bytes(batch[1].contiguous())) == want
    rows = bytes(tx._core.raw_bytes((a[3:4] @ b).contiguous()))
    item = a.itemsize
    assert rows == want[3 * 70 * item : 4 * 70 * item]


def test_nan_and_infinity_are_not_skipped(device):
    a = tx.zeros((2, 3), device=device)
    b = tx.full((3, 2), float("nan"), device=device)
    assert np.isnan(np.asarray((a @ b).tolist())).all()


def test_a_pending_operand_and_an_exported_one(rng):
    a = tx.asarray(draw(rng, (8, 8), "float32"))
    view = a.numpy()
    np.testing.assert_allclose(((a * 2.0) @ (a + 1.0)).numpy(), (view * 2) @ (view + 1), rtol=1e-5, atol=1e-5)


def test_promotion_and_errors():
    f, i = tx.ones((2, 2)), tx.ones((2, 2), dtype="int32")
    assert (f @ f.astype("float64")).dtype is tx.float64
    with pytest.raises(tx.DTypeError, match="matmul: float32 and int32"):
        f @ i
    with pytest.raises(tx.ShapeError, match=r"shapes \(2, 2\) and \(3, 2\)"):
        f @ tx.ones((3, 2))
    with pytest.raises(tx.ShapeError, match="batch axes"):
        tx.ones((2, 2, 2)) @ tx.ones((3, 2, 2))
    with pytest.raises(tx.ShapeError, match="at least one axis"):
        tx.matmul(tx.ones(()), f)
    with pytest.raises(TypeError):
        f @ 2.0


def test_the_family(rng):
    a, b = draw(rng, (3, 4), "float64"), draw(rng, (4, 5), "float64")
    x, y = tx.asarray(a), tx.asarray(b)
    np.testing.assert_allclose(tx.tensordot(x, y, axes=1).numpy(), np.tensordot(a, b, 1))
    np.testing.assert_allclose(tx.tensordot(x, y, axes=((1,), (0,))).numpy(), a @ b)
    np.testing.assert_allclose(tx.outer(x[0], y[0]).numpy(), np.outer(a[0], b[0]))
    np.testing.assert_allclose(tx.vecdot(x, x, axis=0).numpy(), (a * a).sum(0))
    np.testing.assert_allclose(tx.inner(x, x).numpy(), np.inner(a, a))
    np.testing.assert_allclose(tx.addmm(tx.ones(5, dtype="float64"), x, y).numpy(), a @ b + 1)
    z = tx.asarray([1 + 2j, 3 - 1j])
    assert tx.vecdot(z, z).item() == pytest.approx(15)


def test_an_in_place_product():
    x = tx.eye(2)
    y = x
    x @= tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert y is x and x.tolist() == [[1, 2], [3, 4]]
    x @= x
    assert x.tolist() == [[7, 10], [15, 22]]
