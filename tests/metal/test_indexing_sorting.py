"""Gather, scatter, accumulation, masks, sorting and running reductions against NumPy."""

import numpy as np
import pytest
from metal_tools import Gpu, from_bf16, to_bf16

from tensorx.metal import codegen, indexing, positions, sorting
from tensorx.metal.bridge import Instance
from tensorx.metal.indexing import Status
from tensorx.metal.launch import Array

OUT = IndexError("take: an index is out of range for an axis of size 5")


@pytest.fixture
def status(gpu):
    return Status(gpu.inst)


def line_index(gpu, index, dtype="int64"):
    """A one-dimensional index for (outer, m, inner)."""
    a = gpu.put(np.asarray(index, dtype), pad=2)
    return Array(a.buffer, dtype, (1, len(index), 1), (0, 1, 0), 2)


@pytest.mark.parametrize("dtype", list(codegen.STORAGE))
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_take(gpu, status, dtype, index_dtype):
    rng = np.random.default_rng(0)
    kind = np.uint16 if dtype == "bfloat16" else np.dtype(dtype)
    x = rng.integers(0, 100, (3, 5, 4)).astype(kind)
    index = [0, 4, -1, 2, 2, -5]
    out = gpu.empty((3, 6, 4), dtype, pad=1)
    indexing.gather(gpu.inst, gpu.put(x, dtype, pad=3), line_index(gpu, index, index_dtype), out, status, OUT)
    np.testing.assert_array_equal(gpu.get(out), x[:, index])
    status.check()


def test_take_along_axis_with_broadcast_and_strides(gpu, status):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 6, 5)).astype(np.float32)[::-1, :, ::2]
    index = rng.integers(-6, 6, (4, 3, 3))
    out = gpu.empty((4, 3, 3), "float32")
    indexing.gather(gpu.inst, gpu.put(x), gpu.put(index), out, status, OUT)
    np.testing.assert_array_equal(gpu.get(out), np.take_along_axis(x, index, 1))


@pytest.mark.parametrize("bad", [5, -6, 2**40, -(2**62)])
def test_an_index_out_of_range_is_raised_at_the_next_wait(gpu, status, bad):
    x = gpu.put(np.ones((1, 5, 1), np.float32))
    out = gpu.empty((1, 2, 1), "float32")
    indexing.gather(gpu.inst, x, line_index(gpu, [1, bad]), out, status, OUT)
    assert status.pending()
    gpu.inst.synchronize()
    with pytest.raises(IndexError, match="axis of size 5"):
        status.check()
    status.check()  # told once
    assert not status.pending()
    indexing.gather(gpu.inst, x, line_index(gpu, [1, 2]), out, status, OUT)
    gpu.inst.synchronize()
    status.check()  # and the word was cleared


def test_errors_belong_to_their_call(gpu, status):
    x = gpu.put(np.ones((1, 5, 1), np.float32))
    out = gpu.empty((1, 1, 1), "float32")
    for k in range(150):  # more than the ring holds
        error = IndexError(f"call {k}")
        indexing.gather(gpu.inst, x, line_index(gpu, [9 if k == 149 else 1]), out, status, error)
    gpu.inst.synchronize()
    with pytest.raises(IndexError, match="call 149"):
        status.check()


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "complex64", "int64"])
def test_dup_1_the_last_write_wins(gpu, status, dtype):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 100, (2, 5, 3)).astype(dtype)
    v = rng.integers(0, 100, (2, 40, 3)).astype(dtype)
    index = rng.integers(-5, 5, 40)
    target = gpu.put(x, dtype, pad=1)
    indexing.scatter(gpu.inst, gpu.put(v, dtype), line_index(gpu, index), target, status, OUT)
    expected = x.copy()
    for m, j in enumerate(index):
        expected[:, j] = v[:, m]
    np.testing.assert_array_equal(gpu.get(target), expected)


def test_scatter_along_axis(gpu, status):
    rng = np.random.default_rng(3)
    x, v = np.zeros((3, 7, 4), np.float32), rng.normal(size=(3, 5, 4)).astype(np.float32)
    index = np.argsort(rng.random((3, 7, 4)), 1)[:, :5]
    target = gpu.put(x)
    indexing.scatter(gpu.inst, gpu.put(v), gpu.put(index), target, status, OUT)
    np.put_along_axis(x, index, v, 1)
    np.testing.assert_array_equal(gpu.get(target), x)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16", "bfloat16", "complex64", "int64"])
@pytest.mark.parametrize("m", [3, 50, 500])
def test_dup_1_accumulation(gpu, status, dtype, m):
    rng = np.random.default_rng(4)
    kind = np.float32 if dtype == "bfloat16" else np.dtype(dtype)
    x = rng.integers(0, 3, (2, 6, 5)).astype(kind)
    v = rng.integers(0, 3, (2, m, 5)).astype(kind)
    index = rng.integers(-6, 6, m)
    expected = x.copy()
    for k, j in enumerate(index):  # in order, rounding after every addition
        expected[:, j] += v[:, k]
        if dtype == "bfloat16":
            expected = from_bf16(to_bf16(expected))
    held = (to_bf16(x), to_bf16(v)) if dtype == "bfloat16" else (x, v)
    target = gpu.put(held[0], dtype, pad=2)
    indexing.accumulate(gpu.inst, gpu.put(held[1], dtype, pad=1), line_index(gpu, index), target, status, OUT)
    got = gpu.get(target)
    np.testing.assert_array_equal(from_bf16(got) if dtype == "bfloat16" else got, expected)
    gpu.inst.synchronize()
    status.check()


@pytest.mark.parametrize("m", [4, 300])
def test_accumulation_checks_indices_and_spares_the_rest(gpu, status, m):
    index = np.zeros(m, np.int64)
    index[m // 2] = 77
    target = gpu.put(np.zeros((1, 3, 1), np.float32))
    source = gpu.put(np.ones((1, m, 1), np.float32))
    indexing.accumulate(gpu.inst, source, line_index(gpu, index), target, status, OUT)
    assert gpu.get(target).ravel().tolist() == [m - 1, 0, 0]
    gpu.inst.synchronize()
    with pytest.raises(IndexError):
        status.check()


def test_accumulation_is_the_same_every_time(gpu, status):
    rng = np.random.default_rng(5)
    v, index = rng.normal(size=(1, 3000, 8)).astype(np.float32), rng.integers(0, 20, 3000)
    results = set()
    for _ in range(3):
        target = gpu.put(np.zeros((1, 20, 8), np.float32))
        indexing.accumulate(gpu.inst, gpu.put(v), line_index(gpu, index), target, status, OUT)
        results.add(gpu.get(target).tobytes())
    assert len(results) == 1


def test_accumulate_along_axis_with_a_full_index(gpu, status):
    rng = np.random.default_rng(6)
    v, index = rng.normal(size=(3, 200, 4)).astype(np.float32), rng.integers(0, 7, (3, 200, 4))
    target = gpu.put(np.zeros((3, 7, 4), np.float32))
    indexing.accumulate(gpu.inst, gpu.put(v), gpu.put(index), target, status, OUT)
    expected = np.zeros((3, 7, 4))
    for o, m, i in np.ndindex(v.shape):
        expected[o, index[o, m, i], i] += v[o, m, i]
    np.testing.assert_allclose(gpu.get(target), expected, rtol=1e-5, atol=1e-5)


def test_long_accumulation_comes_in_pieces(gpu, status):
    rng = np.random.default_rng(17)
    v, index = rng.integers(0, 9, (2, 60, 40)).astype(np.int32), rng.integers(0, 30, (2, 60, 40))
    target = gpu.put(np.ones((2, 30, 40), np.int32))
    gpu.inst.set_options(batch_ops=50_000)
    before = gpu.inst.stats()["dispatches"]
    indexing.accumulate(gpu.inst, gpu.put(v), gpu.put(index), target, status, OUT)
    assert gpu.inst.stats()["dispatches"] >= before + 5
    expected = np.ones((2, 30, 40), np.int32)
    for o, m, i in np.ndindex(v.shape):
        expected[o, index[o, m, i], i] += v[o, m, i]
    np.testing.assert_array_equal(gpu.get(target), expected)


@pytest.mark.parametrize("n", [1, 5, 1000, 70001])
def test_nonzero(gpu, n):
    mask = np.random.default_rng(7).random(n) < 0.3
    found = positions.find(gpu.inst, gpu.put(mask, pad=3))
    assert found.count == mask.sum()
    out = gpu.empty((found.count,), "int64", pad=2)
    positions.places(gpu.inst, found, (n,), [(out, 1)])
    np.testing.assert_array_equal(gpu.get(out), np.flatnonzero(mask))
    found.release()


# ---- sorting ------------------------------------------------------------------------------------------


def sort(gpu, x, dtype=None, descending=False, axis=1, pad=0):
    dtype = dtype or x.dtype.name
    a = gpu.put(x, dtype, pad=pad)
    values, order = gpu.empty(x.shape, dtype, pad=1), gpu.empty(x.shape, "int64", pad=3)
    sorting.sort(gpu.inst, a, axis, values, order, descending)
    return gpu.get(values), gpu.get(order)


def expected_order(x, descending):
    """Stable, NaN last either way."""
    n = x.shape[1]
    out = np.empty(x.shape, np.int64)
    for o, i in np.ndindex(x.shape[0], x.shape[2]):
        line = x[o, :, i]
        nan = np.isnan(line) if line.dtype.kind == "f" else np.zeros(n, bool)
        good = np.flatnonzero(~nan)
        if descending:
            # a stable descending order: sort the reversed line and turn the result around
            turned = good[::-1]
            good = turned[np.argsort(line[turned], kind="stable")][::-1]
        else:
            good = good[np.argsort(line[good], kind="stable")]
        out[o, :, i] = np.concatenate([good, np.flatnonzero(nan)])
    return out


@pytest.mark.parametrize("dtype", [d for d in codegen.STORAGE if d != "complex64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_every_dtype(gpu, dtype, descending):
    rng = np.random.default_rng(8)
    if dtype == "bool":
        x = rng.random((2, 200, 3)) < 0.5
    elif dtype in codegen.INTEGERS:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, (2, 200, 3), np.dtype(dtype), endpoint=True)
        x[0, :50] //= np.dtype(dtype).type(max(1, int(info.max) // 3))
    else:
        x = rng.normal(size=(2, 200, 3)).astype(np.float32)
        x[0, ::7] = np.nan
        x[1, ::5] = np.round(x[1, ::5])
        x[1, 3], x[1, 4], x[0, 5], x[0, 6] = 0.0, -0.0, np.inf, -np.inf
    held = to_bf16(x) if dtype == "bfloat16" else x.astype(dtype)
    exact = from_bf16(held) if dtype == "bfloat16" else held
    values, order = sort(gpu, held, dtype, descending, pad=2)
    want = expected_order(exact, descending)
    np.testing.assert_array_equal(order, want)
    assert values.tobytes() == np.take_along_axis(held, want, 1).tobytes()  # every bit, signs of zeros and NaNs too


@pytest.mark.parametrize("n", [1, 2, 3, 31, 512, 1023, 1024, 1025, 2049, 5000, 33333])
def test_sort_every_length(gpu, n):
    x = np.random.default_rng(9).integers(0, max(2, n // 3), (1, n, 1)).astype(np.int32)
    values, order = sort(gpu, x)
    want = np.argsort(x[0, :, 0], kind="stable")
    np.testing.assert_array_equal(order[0, :, 0], want)
    np.testing.assert_array_equal(values[0, :, 0], x[0, want, 0])


@pytest.mark.parametrize("n", [100, 3000])
def test_sort_64_bit_keys(gpu, n):
    x = np.random.default_rng(10).integers(-(2**62), 2**62, (2, n, 2))
    values, _ = sort(gpu, x)
    np.testing.assert_array_equal(values, np.sort(x, 1))


def test_sort_strided_and_in_place(gpu):
    base = np.random.default_rng(11).normal(size=(6, 50, 4)).astype(np.float32)
    a = gpu.put(base)
    window = Array(a.buffer, "float32", (3, 25, 2), (2 * 200, -8, 2), 49 * 4 + 1)
    x = base[::2, 49::-2, 1::2]
    sorting.sort(gpu.inst, window, 1, window)
    expected = base.copy()
    expected[::2, 49::-2, 1::2] = np.sort(x, 1)
    np.testing.assert_array_equal(gpu.get(a), expected)


def test_sort_positions_only(gpu):
    x = np.random.default_rng(12).normal(size=(1, 100, 1)).astype(np.float32)
    order = gpu.empty(x.shape, "int64")
    sorting.sort(gpu.inst, gpu.put(x), 1, None, order)
    np.testing.assert_array_equal(gpu.get(order), np.argsort(x, 1))


def test_sort_in_small_groups(metal, stand_in, monkeypatch):
    stand_in.set(pipeline_threads=32)
    monkeypatch.setattr(sorting, "BLOCK", 256)  # another text, so another pipeline
    sorting._sort_text.cache_clear()
    gpu = Gpu(Instance(0))
    x = np.random.default_rng(13).normal(size=(2, 1000, 1)).astype(np.float32)
    np.testing.assert_array_equal(sort(gpu, x)[0], np.sort(x, 1))
    sorting._sort_text.cache_clear()


# ---- running reductions ----------------------------------------------------------------------------------


def scan(gpu, op, x, dtype=None, out=None):
    dtype = dtype or x.dtype.name
    out = out or ({"sum": True, "prod": True}.get(op) and dtype in codegen.INTEGERS and
                  ("uint64" if dtype.startswith("u") else "int64")) or dtype  # fmt: skip
    target = gpu.empty(x.shape, out, pad=1)
    sorting.scan(gpu.inst, op, gpu.put(x, dtype, pad=2), 1, target)
    return gpu.get(target)


SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}


@pytest.mark.parametrize("op", list(SCANS))
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 7, 3), (1, 1000, 1), (3, 257, 2), (1, 70000, 1), (5000, 300, 1)], ids=str)
def test_scan_float(gpu, op, shape):
    x = np.random.default_rng(14).normal(size=shape).astype(np.float32)
    if op == "prod":
        x = np.exp(x * 0.01).astype(np.float32)
    expected = SCANS[op](x.astype(float), axis=1)
    np.testing.assert_allclose(scan(gpu, op, x), expected, rtol=1e-5 if op != "prod" else 1e-3, atol=1e-4)


@pytest.mark.parametrize("op", list(SCANS))
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_scan_integers(gpu, op, dtype):
    rng = np.random.default_rng(15)
    low = 0 if dtype.startswith("u") else -3
    x = rng.integers(low, 4, (2, 600, 2)).astype(dtype)
    got = scan(gpu, op, x)
    wide = x.astype(got.dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, SCANS[op](wide, axis=1))


@pytest.mark.parametrize("n", [10, 5000])
def test_scan_propagates_nan(gpu, n):
    x = np.arange(n, dtype=np.float32).reshape(1, n, 1)
    x[0, n // 2] = np.nan
    for op in SCANS:
        got = scan(gpu, op, x)[0, :, 0]
        assert not np.isnan(got[: n // 2]).any() and np.isnan(got[n // 2 :]).all(), op


def test_scan_half_and_mask(gpu):
    x = np.ones((1, 3000, 1), np.float16)
    got = scan(gpu, "sum", x, out="float32")
    np.testing.assert_array_equal(got, np.arange(1, 3001, dtype=np.float32).reshape(1, -1, 1))
    mask = np.random.default_rng(16).random((1, 3000, 1)) < 0.5
    np.testing.assert_array_equal(scan(gpu, "sum", mask, out="int64"), np.cumsum(mask, 1))


def test_scan_strided_in_place(gpu):
    base = np.arange(60, dtype=np.float32).reshape(3, 10, 2)
    a = gpu.put(base)
    window = Array(a.buffer, "float32", (3, 10, 1), (20, -2, 1), 19)
    sorting.scan(gpu.inst, "sum", window, 1, window)
    expected = base.copy()
    expected[:, ::-1, 1] = np.cumsum(base[:, ::-1, 1], 1)
    np.testing.assert_array_equal(gpu.get(a), expected)
