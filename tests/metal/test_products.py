"""Matrix products and convolutions against NumPy."""

import numpy as np
import pytest
from metal_tools import Gpu, from_bf16, to_bf16

import tensorx as tx
from tensorx.metal import codegen, products
from tensorx.metal.bridge import Instance
from tensorx.metal.launch import Array
from tensorx.metal.products import Geometry


def matmul(gpu, a, b, dtype=None, out_dtype=None, out=None):
    dtype = dtype or a.dtype.name
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = gpu.put(np.broadcast_to(a, (*batch, *a.shape[-2:])), dtype, pad=1)
    right = gpu.put(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype, pad=2)
    result = out or gpu.empty((*batch, a.shape[-2], b.shape[-1]), out_dtype or dtype, pad=3)
    products.matmul(gpu.inst, left, right, result)
    return gpu.get(result)


def values(rng, shape, dtype):
    if dtype in codegen.INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -20), min(info.max, 20), shape).astype(dtype)
    if dtype == "complex64":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    x = rng.normal(size=shape).astype(np.float32)
    return to_bf16(x) if dtype == "bfloat16" else x.astype(dtype)


def close(got, a, b, dtype):
    if dtype == "bfloat16":
        a, b, got = from_bf16(a), from_bf16(b), from_bf16(got)
    if dtype in codegen.INTEGERS:
        np.testing.assert_array_equal(got, a @ b)
        return
    wide = np.complex128 if dtype == "complex64" else np.float64
    expected = a.astype(wide) @ b.astype(wide)
    scale = np.abs(a.astype(wide)) @ np.abs(b.astype(wide))
    eps = {"float16": 6e-4, "bfloat16": 5e-3}.get(dtype, 1e-6)
    assert (np.abs(got - expected) <= eps * scale + 1e-30).all(), np.abs(got - expected).max()


SHAPES = [(1, 1, 1), (2, 3, 4), (16, 16, 16), (17, 33, 65), (64, 64, 64), (65, 63, 130), (3, 200, 5), (128, 40, 2),
          (1, 100, 50), (50, 100, 1), (1, 3000, 1), (40, 5000, 36)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float32(gpu, shape):
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = values(rng, (m, k), "float32"), values(rng, (k, n), "float32")
    close(matmul(gpu, a, b), a, b, "float32")


@pytest.mark.parametrize("dtype", [d for d in codegen.STORAGE if d != "bool"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (33, 70, 18), (1, 40, 9)], ids=str)
def test_every_dtype(gpu, dtype, shape):
    m, k, n = shape
    rng = np.random.default_rng(1)
    a, b = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
    close(matmul(gpu, a, b, dtype), a, b, dtype)


def test_integers_wrap(gpu):
    a = np.full((4, 6), 2**30, np.int32)
    b = np.full((6, 5), 7, np.int32)
    np.testing.assert_array_equal(matmul(gpu, a, b), a @ b)


@pytest.mark.parametrize("left", ["plain", "transposed", "sliced", "reversed", "broadcast"])
@pytest.mark.parametrize("right", ["plain", "transposed", "sliced", "broadcast"])
def test_strides(gpu, left, right):
    rng = np.random.default_rng(2)

    def view(kind, m, n):
        x = values(rng, (m, n), "float32")
        if kind == "transposed":
            return values(rng, (n, m), "float32").T
        if kind == "sliced":
            return values(rng, (2 * m, n + 5), "float32")[::2, 2 : n + 2]
        if kind == "reversed":
            return x[::-1, ::-1]
        if kind == "broadcast":
            return np.broadcast_to(x[:1], (m, n))
        return x

    a, b = view(left, 37, 29), view(right, 29, 41)
    close(matmul(gpu, a, b), a, b, "float32")


@pytest.mark.parametrize("batch_a, batch_b", [((3,), (3,)), ((3,), (1,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,))])
def test_batches(gpu, batch_a, batch_b):
    rng = np.random.default_rng(3)
    a, b = values(rng, (*batch_a, 20, 9), "float32"), values(rng, (*batch_b, 9, 17), "float32")
    close(matmul(gpu, a, b), a, b, "float32")
    a, b = a[..., :1, :], b
    close(matmul(gpu, a, b), a, b, "float32")


def test_float32_out_of_halves(gpu):
    rng = np.random.default_rng(4)
    a, b = values(rng, (20, 300), "float16"), values(rng, (300, 20), "float16")
    got = matmul(gpu, a, b, "float16", out_dtype="float32")
    np.testing.assert_allclose(got, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-4)


def test_swr_7_into_a_column_block(gpu):
    whole = gpu.put(np.zeros((3, 6), np.float32))
    block = Array(whole.buffer, "float32", (3, 3), (6, 1), 2)
    matmul(gpu, 2 * np.eye(3, dtype=np.float32), np.arange(9, dtype=np.float32).reshape(3, 3), out=block)
    expected = np.zeros((3, 6), np.float32)
    expected[:, 2:5] = [[0, 2, 4], [6, 8, 10], [12, 14, 16]]
    np.testing.assert_array_equal(gpu.get(whole), expected)


def test_one_column_into_a_strided_window(gpu):
    whole = gpu.put(np.zeros((5, 4), np.float32))
    column = Array(whole.buffer, "float32", (5, 1), (4, 1), 2)
    a, b = np.ones((5, 7), np.float32), np.ones((7, 1), np.float32)
    matmul(gpu, a, b, out=column)
    expected = np.zeros((5, 4), np.float32)
    expected[:, 2] = 7
    np.testing.assert_array_equal(gpu.get(whole), expected)


def test_empty_1_no_inner_dimension(gpu):
    filled = gpu.put(np.full((3, 2, 3), np.nan, np.float32))
    got = matmul(gpu, np.ones((3, 2, 0), np.float32), np.ones((3, 0, 3), np.float32), out=filled)
    np.testing.assert_array_equal(got, np.zeros((3, 2, 3)))
    assert matmul(gpu, np.ones((0, 4), np.float32), np.ones((4, 3), np.float32)).shape == (0, 3)


def test_nan_and_inf_stay_in_their_rows(gpu):
    a, b = np.ones((20, 20), np.float32), np.ones((20, 20), np.float32)
    a[3, 4], b[5, 6] = np.nan, np.inf
    got = matmul(gpu, a, b)
    assert np.isnan(got[3]).all() and np.isinf(np.delete(got[:, 6], 3)).all()
    assert np.isfinite(np.delete(np.delete(got, 3, 0), 6, 1)).all()


def test_long_inner_dimension_is_split_and_the_same_every_time(gpu):
    rng = np.random.default_rng(5)
    a, b = values(rng, (24, 9000), "float32"), values(rng, (9000, 40), "float32")
    before = gpu.inst.stats()["dispatches"]
    first = matmul(gpu, a, b)
    assert gpu.inst.stats()["dispatches"] > before + 1
    close(first, a, b, "float32")
    assert matmul(gpu, a, b).tobytes() == first.tobytes()


def test_long_products_are_split_for_the_watchdog(gpu):
    rng = np.random.default_rng(6)
    a, b = values(rng, (100, 50), "float32"), values(rng, (50, 300), "float32")
    plain = matmul(gpu, a, b)
    gpu.inst.set_options(batch_ops=300_000)
    before = gpu.inst.stats()["dispatches"]
    assert matmul(gpu, a, b).tobytes() == plain.tobytes()
    assert gpu.inst.stats()["dispatches"] >= before + 3


@pytest.mark.parametrize("threads", [32, 64, 256])
def test_small_groups(metal, stand_in, monkeypatch, threads):
    stand_in.set(pipeline_threads=threads)
    monkeypatch.setattr(products, "PREFIX", f"// {threads} threads\n")
    gpu = Gpu(Instance(0))
    rng = np.random.default_rng(7)
    a, b = values(rng, (50, 40), "float32"), values(rng, (40, 70), "float32")
    close(matmul(gpu, a, b), a, b, "float32")


def test_with_and_without_matrix_units(metal, monkeypatch):
    rng = np.random.default_rng(8)
    for m, k, n in ((64, 64, 64), (70, 33, 50), (32, 16, 8)):
        a, b = values(rng, (m, k), "float32"), values(rng, (k, n), "float32")
        for without in ("matrix", ""):
            monkeypatch.setenv("TENSORX_METAL_WITHOUT", without)
            close(matmul(Gpu(Instance(0)), a, b), a, b, "float32")
    monkeypatch.setenv("TENSORX_METAL_WITHOUT", "matrix")
    assert not Instance(0).features()["matrix"]


# ---- convolutions ------------------------------------------------------------------------------------


def patches(x, window, stride, padding, dilation):
    """(N, C, *positions, *window) of an array (N, C, *spatial)."""
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    spread = [d * (k - 1) + 1 for k, d in zip(window, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, spread, axis=tuple(range(2, x.ndim)))
    index = (slice(None), slice(None), *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))
    return view[index]


def forward(x, w, stride, padding, dilation, groups):
    p = patches(x.astype(float), w.shape[2:], stride, padding, dilation)
    n, spatial = x.shape[0], len(stride)
    positions = p.shape[2 : 2 + spatial]
    p = p.reshape(n, groups, -1, *p.shape[2:])
    wg = w.astype(float).reshape(groups, w.shape[0] // groups, *w.shape[1:])
    letters = "xyz"[:spatial]
    windows = "uvw"[:spatial]
    y = np.einsum(f"ngi{letters}{windows},goi{windows}->ngo{letters}", p, wg)
    return y.reshape(n, w.shape[0], *positions)


GEOMETRIES = [
    # x, w, stride, padding, dilation, groups
    ((2, 3, 20), (4, 3, 5), (1,), (0,), (1,), 1),
    ((2, 4, 23), (6, 2, 3), (2,), (2,), (2,), 2),
    ((2, 3, 9, 11), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 4, 12, 10), (8, 1, 3, 2), (2, 3), (0, 1), (1, 2), 4),
    ((3, 2, 7, 7), (4, 2, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2), 1),
    ((4, 8, 16, 16), (16, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1),
]


@pytest.mark.parametrize("case", GEOMETRIES, ids=[f"{c[0]}-{c[1]}" for c in GEOMETRIES])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_convolution_and_its_gradients(gpu, case, dtype):
    xs, ws, stride, padding, dilation, groups = case
    rng = np.random.default_rng(9)
    x, w = rng.normal(size=xs).astype(dtype), rng.normal(size=ws).astype(dtype)
    y = forward(x, w, stride, padding, dilation, groups)
    geometry = Geometry(stride, padding, dilation, groups)
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == "float32" else {"rtol": 2e-3, "atol": 2e-2}
    a, b, c = gpu.put(x, pad=1), gpu.put(w, pad=2), gpu.empty(y.shape, dtype, pad=3)
    products.convolve(gpu.inst, "y", a, b, c, geometry)
    np.testing.assert_allclose(gpu.get(c), y, **tolerance)
    shift = rng.normal(size=ws[0]).astype(dtype)
    products.convolve(gpu.inst, "y", a, b, c, geometry, gpu.put(shift, pad=5))
    np.testing.assert_allclose(gpu.get(c), y + shift.astype(float).reshape(-1, *(1,) * len(stride)), **tolerance)

    # gradients of sum(y * g): every element of x (and w) times what it meets
    g = rng.normal(size=y.shape).astype(dtype)
    gy = gpu.put(g)
    gx, gw = gpu.empty(xs, dtype), gpu.empty(ws, dtype)
    products.convolve(gpu.inst, "x", gx, b, gy, geometry)
    products.convolve(gpu.inst, "w", a, gw, gy, geometry)
    got_x, got_w = gpu.get(gx).astype(float), gpu.get(gw).astype(float)
    shift = rng.normal(size=xs[1]).astype(dtype)
    products.convolve(gpu.inst, "x", gx, b, gy, geometry, gpu.put(shift, pad=1))
    shifted = got_x + shift.astype(float).reshape(-1, *(1,) * len(stride))
    np.testing.assert_allclose(gpu.get(gx), shifted, rtol=1e-5 if dtype == "float32" else 2e-3, atol=1e-5 if dtype == "float32" else 2e-2)
    for _ in range(3):
        dx, dw = rng.normal(size=xs), rng.normal(size=ws)
        np.testing.assert_allclose((got_x * dx).sum(), (forward(dx, w, stride, padding, dilation, groups) * g).sum(),
                                   rtol=2e-2 if dtype == "float16" else 1e-4, atol=1e-2)  # fmt: skip
        np.testing.assert_allclose((got_w * dw).sum(), (forward(x, dw, stride, padding, dilation, groups) * g).sum(),
                                   rtol=2e-2 if dtype == "float16" else 1e-4, atol=1e-2)  # fmt: skip


def test_weight_gradient_of_many_positions_is_split(gpu):
    rng = np.random.default_rng(10)
    x, w = rng.normal(size=(4, 2, 40, 40)).astype(np.float32), np.zeros((3, 2, 3, 3), np.float32)
    g = rng.normal(size=(4, 3, 38, 38)).astype(np.float32)
    gw = gpu.empty(w.shape, "float32")
    before = gpu.inst.stats()["dispatches"]
    products.convolve(gpu.inst, "w", gpu.put(x), gw, gpu.put(g), Geometry((1, 1), (0, 0), (1, 1)))
    assert gpu.inst.stats()["dispatches"] > before + 1
    p = patches(x.astype(float), (3, 3), (1, 1), (0, 0), (1, 1))
    np.testing.assert_allclose(gpu.get(gw), np.einsum("nixyuv,noxy->oiuv", p, g), rtol=1e-4, atol=1e-3)


def test_strided_operands_of_a_convolution(gpu):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(8, 9, 2, 3)).astype(np.float32).transpose(2, 3, 0, 1)  # channels last in memory
    w = rng.normal(size=(3, 3, 3, 4)).astype(np.float32).transpose(3, 2, 0, 1)
    y = forward(x, w, (1, 1), (1, 1), (1, 1), 1)
    out = gpu.empty(y.shape, "float32")
    products.convolve(gpu.inst, "y", gpu.put(x), gpu.put(w), out, Geometry((1, 1), (1, 1), (1, 1)))
    np.testing.assert_allclose(gpu.get(out), y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_convolution_with_bias_is_one_dispatch_and_waits_for_nothing(metal, dtype):
    """Halves are not widened first, views are read where they lie, and the result is rounded once."""

    def run(device):
        rng = np.random.default_rng(12)
        with tx.device(device), tx.deferred(True):
            x = tx.asarray(rng.normal(size=(2, 7, 6, 3)).astype(np.float32)).astype(dtype).permute_dims((0, 3, 1, 2))  # channels last
            w, b = (tx.asarray(rng.normal(size=s).astype(np.float32)).astype(dtype) for s in ((4, 3, 3, 3), (4,)))
            u = tx.asarray(rng.normal(size=(3, 2, 2, 2)).astype(np.float32)).astype(dtype)
            tx.eval(x, w, b, u)
            before = tx.metal.stats()
            y = tx.nn.functional.conv2d(x, w, b, padding=1)
            z = tx.nn.functional.conv_transpose2d(x, u, b[:2], stride=2)
            tx.eval(y, z)
            after = tx.metal.stats()
            assert y.dtype is x.dtype
            return [t.astype("float32").numpy().copy() for t in (y, z)], after["dispatches"] - before["dispatches"], after["waits"] - before["waits"]

    run("metal")  # asks once what the device can do
    ours, dispatches, waits = run("metal")
    assert (dispatches, waits) == (2, 0)
    for a, b in zip(ours, run("cpu")[0]):
        step = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
        np.testing.assert_allclose(a, b, rtol=step, atol=step / 10)
