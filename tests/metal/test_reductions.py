"""Reductions with fused prologues, against NumPy."""

import itertools

import numpy as np
import pytest
from metal_tools import from_bf16, to_bf16

from tensorx.metal import codegen, launch, reductions
from tensorx.metal.codegen import Instr
from tensorx.metal.launch import Index, Scalar


def reduce(gpu, op, x, axes, dtype=None, out=None, pad=0):
    x = np.asarray(x)
    dtype = dtype or x.dtype.name
    out = out or reductions.result_dtype(op, dtype)
    a = gpu.put(x, dtype, pad=pad)
    axes = [k % x.ndim for k in (axes if axes is not None else range(x.ndim))]
    shape = [n for d, n in enumerate(x.shape) if d not in axes]
    result = gpu.empty(shape, out, pad=pad)
    reductions.reduce(gpu.inst, op, [a], [], 0, x.shape, axes, result)
    return gpu.get(result)


def reference(op, x, axes):
    x = np.asarray(x)
    axis = tuple(axes) if axes is not None else None
    with np.errstate(all="ignore"):
        if op in ("sum", "mean", "prod"):
            wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) if x.dtype.kind in "fc" else x
            return getattr(np, op)(wide, axis=axis)
        if op == "sumsq":
            return np.sum(np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else float)) ** 2, axis=axis)
        if op == "sumabs":
            return np.sum(np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else float)), axis=axis)
        if op in ("argmax", "argmin"):
            moved = np.moveaxis(x, axis, range(x.ndim - len(axis), x.ndim)) if axis else x
            flat = moved.reshape(*moved.shape[: x.ndim - len(axis)], -1) if axis else x.reshape(-1)
            return getattr(np, op)(flat, axis=-1)
        return getattr(np, op)(x, axis=axis)


def check(got, expected, dtype, count):
    expected = np.asarray(expected)
    if dtype == "bfloat16" and got.dtype == np.uint16:
        got = from_bf16(got)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected.astype(got.dtype))
        return
    eps = {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 3e-7)
    np.testing.assert_allclose(got, expected, rtol=eps, atol=eps * 1e-2)


SHAPES = [
    ((7,), (0,)), ((1000,), (0,)), ((33, 65), (1,)), ((33, 65), (0,)), ((33, 65), (0, 1)), ((5, 6, 7), (1,)),
    ((5, 6, 7), (0, 2)), ((3, 1, 4, 5), (1, 3)), ((2, 300), (1,)), ((300, 2), (0,)), ((70000,), (0,)), ((20000, 3), (0,)),
    ((40, 9000), (0,)), ((1, 1), (0, 1)), ((4, 3, 2, 5, 2), (0, 2, 4)),
]  # fmt: skip


@pytest.mark.parametrize("op", reductions.OPS)
@pytest.mark.parametrize("shape, axes", SHAPES, ids=[f"{s}-{a}" for s, a in SHAPES])
def test_float32(gpu, op, shape, axes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    if op == "prod":
        x = np.exp(x / np.sqrt(x.size) * 0.5).astype(np.float32)
    if op in ("any", "all"):
        x = (rng.random(shape) < (0.01 if op == "any" else 0.99)).astype(np.float32)
    if op in ("sum", "mean"):
        x += np.float32(0.5)
    check(reduce(gpu, op, x, axes, pad=2), reference(op, x, axes), "float32" if op != "prod" else "float16", x.size)


def defined(op, dtype):
    """Complex numbers have no order; integers are converted before a mean."""
    if dtype == "complex64":
        return op not in ("max", "min", "argmax", "argmin")
    if dtype == "bool":
        return op not in ("sumsq", "sumabs", "mean")
    return op != "mean" or dtype in codegen.FLOATS


@pytest.mark.parametrize(
    "op, dtype", [pair for pair in itertools.product(reductions.OPS, codegen.STORAGE) if defined(*pair)]
)
def test_every_dtype(gpu, op, dtype):
    rng = np.random.default_rng(1)
    shape, axes = (37, 53), (1,)
    if dtype == "bool":
        x = rng.random(shape) < 0.5
    elif dtype in codegen.INTEGERS:
        low = 0 if dtype.startswith("u") else -9
        x = rng.integers(low, 10, shape).astype(dtype)
    elif dtype == "complex64":
        x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    else:
        x = (rng.normal(size=shape) * 0.3 + 1).astype(np.float32)
        x = x if dtype == "bfloat16" else x.astype(dtype)
    if op == "prod" and dtype in codegen.FLOATS:
        x = np.where(rng.random(shape) < 0.9, 1, x).astype(x.dtype)
    held = to_bf16(x) if dtype == "bfloat16" else x
    exact = from_bf16(held) if dtype == "bfloat16" else x
    got = reduce(gpu, op, held, axes, dtype=dtype)
    expected = reference(op, exact, axes)
    if dtype in codegen.INTEGERS and op == "prod":
        expected = np.prod(x.astype("uint64" if dtype.startswith("u") else "int64"), axis=1)
    if dtype == "complex64" and op in ("prod",):
        np.testing.assert_allclose(got, expected, rtol=1e-4)
        return
    check(got, expected, dtype, 53)


def test_nan_propagates_and_wins_argmax(gpu):
    for n in (3, 32, 33, 1025, 20000):
        x = np.arange(n, dtype=np.float32)
        x[n // 3] = np.nan
        x[n // 2] = np.nan
        for op in ("max", "min"):
            assert np.isnan(reduce(gpu, op, x, None))
        for op in ("argmax", "argmin"):
            assert reduce(gpu, op, x, None) == min(n // 3, n // 2)


def test_ties_give_the_first(gpu):
    for n in (5, 100, 5000, 30000):
        x = np.zeros(n, np.int32)
        x[n // 2 :] = 4
        assert reduce(gpu, "argmax", x, None) == n // 2 and reduce(gpu, "argmin", x, None) == 0
        assert reduce(gpu, "argmax", np.zeros(n, np.float32), None) == 0
        assert reduce(gpu, "argmin", np.array([False] * n), None) == 0


def test_infinities(gpu):
    x = np.array([1, np.inf, 2], np.float32)
    assert reduce(gpu, "sum", x, None) == np.inf and reduce(gpu, "mean", -x, None) == -np.inf
    assert np.isnan(reduce(gpu, "sum", np.array([np.inf, -np.inf], np.float32), None))
    assert reduce(gpu, "max", np.full(4, -np.inf, np.float32), None) == -np.inf
    assert reduce(gpu, "min", np.full(40, np.inf, np.float32), None) == np.inf
    assert reduce(gpu, "sum", np.full(20000, 3e38, np.float32), None) == np.inf


@pytest.mark.parametrize("n", [4, 40, 5000, 40000])
def test_products_do_not_overflow_on_the_way(gpu, n):
    x = np.full(n, 1e30, np.float32)
    assert reduce(gpu, "prod", x, None) == np.inf
    x[n // 2] = 0
    assert reduce(gpu, "prod", x, None) == 0
    x[n // 2] = 1e30
    x[::2] = 1e-30
    assert np.isclose(reduce(gpu, "prod", x, None), 1, rtol=n * 1e-6)
    assert reduce(gpu, "prod", np.full(n, 1e-30, np.float32), None) < 1e-37
    x[1] = np.inf
    assert reduce(gpu, "prod", x, None) == np.inf
    x[2] = 0
    assert np.isnan(reduce(gpu, "prod", x, None))


def test_rdt_1_small_unsigned_sums_widen(gpu):
    got = reduce(gpu, "sum", np.array([200, 100], np.uint8), None)
    assert got == 300 and got.dtype == np.uint64


def test_integers_wrap_in_64_bits(gpu):
    x = np.array([2**62, 2**62, 2**62], np.int64)
    with np.errstate(over="ignore"):
        assert reduce(gpu, "sum", x, None) == x.sum()


def test_half_1_mean_of_many_float16(gpu):
    assert reduce(gpu, "mean", np.ones(100000, np.float16), None) == 1.0


def test_long_sums_are_as_good_as_double(gpu):
    rng = np.random.default_rng(2)
    x = rng.random(300001).astype(np.float32)
    assert reduce(gpu, "sum", x, None) == np.float32(x.astype(np.float64).sum())
    x = np.full(300000, 0.1, np.float32)
    assert reduce(gpu, "sum", x, None) == np.float32(x.astype(np.float64).sum())


@pytest.mark.parametrize("order", ["C", "F", "reversed", "sliced", "expanded"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_strided_operands(gpu, order, axes):
    rng = np.random.default_rng(3)
    base = rng.normal(size=(10, 12, 14)).astype(np.float32)
    x = {"C": base, "F": base.transpose(2, 1, 0), "reversed": base[::-1, ::-1, ::-1], "sliced": base[1:9:2, 3:, ::3],
         "expanded": np.broadcast_to(base[:, :1], (10, 5, 14))}[order]  # fmt: skip
    got = reduce(gpu, "sum", x, axes)
    np.testing.assert_allclose(got, x.astype(float).sum(axis=axes), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_fused_prologue_equals_separate_steps(gpu, axes):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(90, 70)).astype(np.float32), rng.normal(size=(1, 70)).astype(np.float32)
    a, b = gpu.put(x), gpu.put(np.broadcast_to(y, x.shape))
    instrs = [Instr("subtract", "float32", 2, (0, 1)), Instr("multiply", "float32", 3, (2, 2))]
    kept = [n for d, n in enumerate(x.shape) if d not in axes]
    fused = gpu.empty(kept, "float32")
    reductions.reduce(gpu.inst, "sum", [a, b], instrs, 3, x.shape, axes, fused)
    step = gpu.empty(x.shape, "float32")
    launch.elementwise(gpu.inst, [a, b], instrs, [(3, step)])
    apart = gpu.empty(kept, "float32")
    reductions.reduce(gpu.inst, "sum", [step], [], 0, x.shape, axes, apart)
    assert gpu.get(fused).tobytes() == gpu.get(apart).tobytes()
    np.testing.assert_allclose(gpu.get(fused), ((x - y).astype(float) ** 2).sum(axis=axes), rtol=1e-6)


def test_prologue_with_scalars_and_positions(gpu):
    out = gpu.empty((6,), "int64")
    reductions.reduce(
        gpu.inst, "sum", [Index(), Scalar(2, "int64")], [Instr("multiply", "int64", 2, (0, 1))], 2, (6, 50), (1,), out
    )
    np.testing.assert_array_equal(gpu.get(out), (np.arange(300).reshape(6, 50) * 2).sum(1))


def test_cast_in_the_prologue(gpu):
    x = np.arange(-50, 50, dtype=np.int16).reshape(4, 25)
    out = gpu.empty((4,), "float32")
    reductions.reduce(gpu.inst, "mean", [gpu.put(x)], [Instr("cast", "int16", 1, (0,), "float32")], 1, x.shape, (1,), out)
    np.testing.assert_allclose(gpu.get(out), x.mean(1))


@pytest.mark.parametrize("op", ["sum", "max", "argmax", "prod"])
@pytest.mark.parametrize("n", [5, 100, 3000, 40000])
def test_wide_indices(gpu, op, n, monkeypatch):
    monkeypatch.setattr(reductions, "MAX_32", -1)
    x = (np.random.default_rng(5).random((3, n)) * 0.001 + 1).astype(np.float32)
    check(reduce(gpu, op, x, (1,)), reference(op, x, (1,)), "float32" if op != "prod" else "bfloat16", n)


def test_the_same_bits_every_time(gpu):
    x = np.random.default_rng(6).normal(size=(50000,)).astype(np.float32)
    assert len({reduce(gpu, "sum", x, None).tobytes() for _ in range(5)}) == 1


@pytest.mark.parametrize("without", ["simd", ""])
@pytest.mark.parametrize("width", [16, 32, 64])
def test_lane_widths_and_no_simd(metal, stand_in, monkeypatch, without, width):
    from metal_tools import Gpu

    from tensorx.metal.bridge import Instance

    stand_in.set(simd_width=width)
    monkeypatch.setenv("TENSORX_METAL_WITHOUT", without)
    monkeypatch.setattr(reductions, "PREFIX", f"// {width} lanes\n")  # a text of its own: pipelines are cached
    gpu = Gpu(Instance(0))
    rng = np.random.default_rng(7)
    for shape, axes in [((9, 1000), (1,)), ((5, 40), (1,)), ((30000,), (0,)), ((3, 20), (1,))]:
        x = rng.normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(reduce(gpu, "sum", x, axes), x.astype(float).sum(axis=axes), rtol=1e-6, atol=1e-5)
        np.testing.assert_array_equal(reduce(gpu, "max", x, axes), x.max(axis=axes))
        np.testing.assert_array_equal(reduce(gpu, "argmax", x, axes), x.argmax(axis=axes[0]))


def test_few_threads_per_group(metal, stand_in, monkeypatch):
    from metal_tools import Gpu

    from tensorx.metal.bridge import Instance

    stand_in.set(max_threads=64)
    monkeypatch.setattr(reductions, "PREFIX", "// 64 threads\n")
    gpu = Gpu(Instance(0))
    x = np.random.default_rng(8).normal(size=(7, 3000)).astype(np.float32)
    np.testing.assert_allclose(reduce(gpu, "sum", x, (1,)), x.astype(float).sum(1), rtol=1e-6, atol=1e-5)


def test_big_1_huge_broadcast(gpu):
    """2^32 elements that are one: sizes need 64 bits, memory does not."""
    a = gpu.put(np.ones(1, np.int8))._replace(shape=(65536, 65536), strides=(0, 0))
    program_shape = a.shape
    assert launch.collapse(program_shape, [a.strides])[0] == [2**32]
    text = reductions.kernel_text(
        codegen.Program((codegen.Operand("int8", codegen.ONE),), (), ((0, codegen.Operand("float32")),), 1),
        "sum", "int64", 0, False, True, True, False,
    )  # fmt: skip
    assert "ulong count" in text.replace("const ulong count", "ulong count")
