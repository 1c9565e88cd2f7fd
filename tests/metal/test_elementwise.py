"""Every row of the op table, casts and fused programs as Metal kernels, against NumPy."""

import itertools

import numpy as np
import pytest
from metal_tools import Gpu, flush, from_bf16, to_bf16

from tensorx.metal import bridge, codegen, launch
from tensorx.metal.codegen import Instr
from tensorx.metal.launch import Array, Index, Scalar
from tensorx.ops import codegen as opcodegen
from tensorx.ops import table

ROWS = {row.name: row for row in table.TABLE}

# Allowed error in units of the last place where Metal's float differs from the row's own allowance: what the CPU
# computes in double is computed in pairs of floats here, or with the tolerance said.
ULP = {"lgamma": 8, "digamma": 8, "erfinv": 5, "ldexp": 6}
COMPLEX_ULP = {"pow": 64}


def ulp_of(row, dtype):
    table_ulp = row.ulp
    if dtype == "complex64":
        return max(COMPLEX_ULP.get(row.name, 8), table_ulp)
    return max(ULP.get(row.name, 0), table_ulp)


def run(gpu, op, dtype, operands, out_dtype=None):
    """One instruction over arrays."""
    out_dtype = out_dtype or codegen.result_dtype(op, dtype)
    shape = np.broadcast_shapes(*(np.shape(o) for o in operands))
    row = ROWS[op]
    inputs = []
    for k, o in enumerate(operands):
        o = np.broadcast_to(o, shape)
        inputs.append(gpu.put(o, "bool" if k in row.masks else dtype, pad=3))
    out = gpu.empty(shape, out_dtype, pad=5)
    n = len(operands)
    launch.elementwise(gpu.inst, inputs, [Instr(op, dtype, n, tuple(range(n)))], [(n, out)], label=op)
    return gpu.get(out)


CASES = [
    (row.name, dtype) for row in table.TABLE for dtype in codegen.STORAGE
    if codegen.supported(row.name, dtype) and dtype not in codegen.HALVES
]  # fmt: skip


@pytest.fixture(scope="module")
def row_results(metal):
    """(operands' case, result) per row of a dtype.  Many rows share a kernel: compiling is what takes time."""
    gpu = Gpu(bridge.Instance(0))
    done = {}

    def flush_group(group):
        inputs, instrs, outputs, outs = [], [], [], []
        total = sum(len(case.operands) for _, _, case in group)
        for op, dtype, case in group:
            row, first = ROWS[op], len(inputs)
            inputs += [gpu.put(o, "bool" if k in row.masks else dtype, pad=3) for k, o in enumerate(case.operands)]
            instrs.append(Instr(op, dtype, total + len(instrs), tuple(range(first, len(inputs)))))
            outs.append(gpu.empty((777,), codegen.result_dtype(op, dtype), pad=5))
            outputs.append((instrs[-1].dst, outs[-1]))
        launch.elementwise(gpu.inst, inputs, instrs, outputs)
        for (op, dtype, case), out in zip(group, outs):
            done[op, dtype] = case, gpu.get(out)

    def results(op, dtype):
        if (op, dtype) not in done:
            group, arrays = [], 0
            for name in [name for name, kind in CASES if kind == dtype]:
                case = opcodegen.test_case(ROWS[name], dtype, n=777)
                if arrays + len(case.operands) + 1 > bridge.MAX_BINDINGS:
                    flush_group(group)
                    group, arrays = [], 0
                group.append((name, dtype, case))
                arrays += len(case.operands) + 1
            flush_group(group)
        return done[op, dtype]

    return results


@pytest.mark.parametrize("op, dtype", CASES, ids=[f"{a}-{b}" for a, b in CASES])
def test_row(row_results, op, dtype):
    row = ROWS[op]
    case, got = row_results(op, dtype)
    assert got.dtype == np.dtype(codegen.result_dtype(op, dtype))
    expected = np.asarray(case.expected)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected.astype(got.dtype))
        return
    eps = np.finfo(np.float32).eps
    scale = np.maximum(np.abs(expected), row.scale)
    tolerance = np.maximum(case.tolerance, ulp_of(row, dtype) * eps * scale) + np.finfo(np.float32).tiny
    error = np.abs(got - expected)
    bad = ~((error <= tolerance) | (np.isnan(got) & np.isnan(expected)) | (got == expected))
    assert not bad.any(), [(o[bad][:3], got[bad][:3], expected[bad][:3]) for o in case.operands]


@pytest.mark.parametrize("op, dtype", [("add", "float32"), ("exp", "float32"), ("where", "int16"), ("pow", "complex64")])
def test_a_row_alone_gives_the_bits_of_the_group(gpu, row_results, op, dtype):
    case, got = row_results(op, dtype)
    assert run(gpu, op, dtype, case.operands).tobytes() == got.tobytes()


HALF_ROWS = ["add", "multiply", "divide", "exp", "tanh", "sqrt", "maximum", "where", "floor_divide", "less", "isnan",
             "clip", "sigmoid", "abs", "negative", "sign", "gelu", "pow"]  # fmt: skip


@pytest.mark.parametrize("op", HALF_ROWS)
@pytest.mark.parametrize("dtype", codegen.HALVES)
def test_row_in_half(gpu, op, dtype):
    """Computed as float32 from the exact values, rounded once."""
    row = ROWS[op]
    operands = [o if o.dtype == bool else o.astype(np.float32) for o in opcodegen.samples(row, "float32", 600)]
    if dtype == "float16":
        halves = [o if o.dtype == bool else o.astype(np.float16) for o in operands]
        exact = [h if h.dtype == bool else h.astype(np.float32) for h in halves]
    else:
        halves = [o if o.dtype == bool else to_bf16(o) for o in operands]
        exact = [o if o.dtype == bool else from_bf16(h) for o, h in zip(operands, halves)]
    got = run(gpu, op, dtype, halves)
    full = run(gpu, op, "float32", exact)
    if full.dtype == bool:
        np.testing.assert_array_equal(got, full)
    elif dtype == "float16":
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, full.astype(np.float16))
    else:
        np.testing.assert_array_equal(from_bf16(got), from_bf16(to_bf16(full)))


SPECIAL = np.array(
    [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30, 1e30, -1e30, 88.9, -104, 0.25,
     16777216.0, 2.5, 3.5, -2.5, 1e5, 123456.7, 1e20], np.float32,
)  # fmt: skip

# The references' values where NumPy and the rows agree on specials, with subnormals counted as zero.
SPECIAL_OPS = (
    "add subtract multiply divide maximum minimum fmax fmin floor_divide remainder fmod pow hypot atan2 copysign exp exp2 "
    "expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs sign negative floor "
    "ceil trunc round isnan isinf isfinite signbit equal not_equal less less_equal greater greater_equal square "
    "reciprocal cbrt nextafter logaddexp"
).split()


@pytest.mark.parametrize("op", SPECIAL_OPS)
def test_special_values(gpu, op):
    row = ROWS[op]
    operands = [a.ravel() for a in np.meshgrid(*[SPECIAL] * row.arity)]
    got = run(gpu, op, "float32", operands)
    moves = op in ("abs", "negative", "copysign", "signbit", "nextafter")  # sign and bit operations keep subnormals
    with np.errstate(all="ignore"):
        # the stand-in can be told to keep subnormals; then everything does
        keeps = moves or run(gpu, "multiply", "float32", [SPECIAL[12:13], SPECIAL[2:3]])[0] != 0
        given = operands if keeps else [flush(o) for o in operands]
        expected = opcodegen.reference(row, [g.astype(np.float32 if moves else np.float64) for g in given])
    if got.dtype == bool:
        np.testing.assert_array_equal(got, expected)
        return
    with np.errstate(all="ignore"):
        expected = expected.astype(np.float32) if keeps else flush(expected.astype(np.float32))
    same = (np.isnan(got) & np.isnan(expected)) | (got == expected)
    with np.errstate(all="ignore"):
        close = np.abs(got.astype(float) - expected) <= 6 * np.spacing(np.abs(expected).astype(np.float32))
    # without flushing the stand-in (or a GPU) may give the subnormal itself
    tiny = (np.abs(got) <= 1.2e-38) & (np.abs(expected) <= 1.2e-38)
    bad = ~(same | close | tiny)
    if op in ("floor_divide", "remainder", "fmod"):
        # NumPy divides where ours is exact: huge quotients differ in the last place
        bad &= np.abs(operands[0]) < 1e15
    assert not bad.any(), [(*(o[k] for o in operands), got[k], expected[k]) for k in np.flatnonzero(bad)[:8]]


@pytest.mark.parametrize("op", ["add", "multiply", "exp", "sqrt", "where"])
def test_subnormals_count_as_zero_or_keep_their_value(gpu, op):
    x = np.array([1e-40, -1e-40, 3e-39, 1.0], np.float32)
    row = ROWS[op]
    operands = [np.array([True, False, True, True]) if k in row.masks else x for k in range(row.arity)]
    got = run(gpu, op, "float32", operands)
    zeros = opcodegen.reference(row, [o if o.dtype == bool else flush(o) for o in operands]).astype(np.float32)
    exact = opcodegen.reference(row, operands).astype(np.float32)
    with np.errstate(all="ignore"):
        ok = [np.isclose(g, z, rtol=1e-6, atol=0) or np.isclose(g, e, rtol=1e-6, atol=0)
              for g, z, e in zip(got, flush(zeros), exact)]  # fmt: skip
    assert all(ok), (got, zeros, exact)


def test_integer_division_and_shifts_never_fault(gpu):
    info = np.iinfo(np.int32)
    x = np.array([info.min, info.max, -7, 7, 0, -1, 1, 5], np.int32)
    y = np.array([-1, 0, 3, -3, 0, 31, 32, -1], np.int32)
    a, b = [v.ravel() for v in np.meshgrid(x, y)]
    for op in ("floor_divide", "remainder", "fmod", "bitwise_left_shift", "bitwise_right_shift"):
        got = run(gpu, op, "int32", [a, b])
        wide_a, wide_b = a.astype(object), b.astype(object)
        expected = []
        for p, q in zip(wide_a, wide_b):
            if op == "floor_divide":
                v = 0 if q == 0 else p // q
            elif op == "remainder":
                v = 0 if q == 0 else p % q
            elif op == "fmod":
                v = 0 if q == 0 else int(abs(p) % abs(q)) * (-1 if p < 0 else 1)
            elif op == "bitwise_left_shift":
                v = (p << q) if 0 <= q < 32 else 0
            else:
                v = (p >> q) if 0 <= q < 32 else (0 if q < 0 or p >= 0 else -1)
            expected.append((v + 2**31) % 2**32 - 2**31)
        np.testing.assert_array_equal(got, np.array(expected, np.int64).astype(np.int32), err_msg=op)


# ---- casts ------------------------------------------------------------------------------------------

CASTS = list(itertools.product(codegen.STORAGE, codegen.STORAGE))


def as_numpy(values, dtype):
    return from_bf16(values) if dtype == "bfloat16" else values


def saturate(x, dtype):
    info = np.iinfo(dtype)
    out = []
    for v in np.asarray(x, np.float64):
        out.append(0 if np.isnan(v) else info.min if v <= info.min else info.max if v >= info.max else int(v))
    return np.array(out, dtype)


def cast_samples(source):
    rng = np.random.default_rng(5)
    kind = np.dtype(source if source != "bfloat16" else np.float32)
    if kind.kind == "b":
        return rng.integers(0, 2, 100).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        ends = np.array([info.min, info.max, 0, 1], kind)
        return np.concatenate([rng.integers(info.min, info.max, 60, kind, endpoint=True), ends])
    special = [0, -0.0, 0.5, -0.5, 1e10, -1e10, 1e20, np.inf, -np.inf, np.nan, 127.5]
    x = np.concatenate([rng.normal(0, 300, 60), special])
    with np.errstate(over="ignore"):
        x = x.astype(kind)
    if kind.kind == "c":
        x = np.stack([x.real, np.roll(x.real, 3)], -1).astype(np.float32).view(np.complex64)[:, 0]
    return to_bf16(x) if source == "bfloat16" else x


@pytest.fixture(scope="module")
def cast_results(metal):
    """What every dtype becomes as every other one; one kernel per source."""
    gpu = Gpu(bridge.Instance(0))
    done = {}

    def results(source, target):
        if source not in done:
            held = cast_samples(source)
            a, outs = gpu.put(held, source, pad=1), {}
            instrs, outputs = [], []
            for k, to in enumerate([to for to in codegen.STORAGE if to != source]):
                outs[to] = gpu.empty(held.shape, to, pad=2)
                instrs.append(Instr("cast", source, k + 1, (0,), to))
                outputs.append((k + 1, outs[to]))
            launch.elementwise(gpu.inst, [a], instrs, outputs)
            done[source] = held, {to: gpu.get(out) for to, out in outs.items()}
        return done[source][0], done[source][1][target]

    return results


@pytest.mark.parametrize("source, target", CASTS, ids=[f"{a}-{b}" for a, b in CASTS])
def test_cast(gpu, cast_results, source, target):
    if source == target:  # a move: every bit stays
        held = cast_samples(source)
        out = gpu.empty(held.shape, target, pad=2)
        launch.copy(gpu.inst, gpu.put(held, source, pad=1), out)
        assert gpu.get(out).tobytes() == held.tobytes()
        return
    held, got = cast_results(source, target)
    x = as_numpy(held, source)
    with np.errstate(all="ignore"):
        real = x.real if x.dtype.kind == "c" else x
        if target == "bool":
            expected = x != 0
        elif target == "complex64":
            expected = real.astype(np.float32).astype(np.complex64)
        elif target in codegen.INTEGERS:
            expected = saturate(real, target) if real.dtype.kind == "f" else real.astype(target)
        else:
            expected = real.astype(np.float32)
            if target == "float16":
                expected = expected.astype(np.float16)
            elif target == "bfloat16":
                expected, got = from_bf16(to_bf16(expected)), from_bf16(got)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("bits, expected", [(0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x7F7FFFFF, 0x7F80),
                                            (0xFFC00001, 0xFFC0), (0x7F800001, 0x7FC0), (0x80000000, 0x8000)])  # fmt: skip
def test_half_4_bfloat16_rounds_to_even(gpu, bits, expected):
    x = np.array([bits], np.uint32).view(np.float32)
    out = gpu.empty((1,), "bfloat16")
    launch.copy(gpu.inst, gpu.put(x), out)
    assert int(gpu.get(out)[0]) == expected


def test_half_6_float16_rounds_to_even(gpu):
    x = np.array([0x34200000, 0x34600000, 0x40001000], np.uint32).view(np.float32)
    x = np.concatenate([x, np.array([65519, 65520], np.float32)])
    out = gpu.empty((5,), "float16")
    launch.copy(gpu.inst, gpu.put(x), out)
    assert [hex(v) for v in gpu.get(out).view(np.uint16)] == ["0x2", "0x4", "0x4000", "0x7bff", "0x7c00"]


# ---- layouts ------------------------------------------------------------------------------------------


def strided_views(rng):
    base = rng.normal(size=(6, 5, 8)).astype(np.float32)
    return {
        "dense": base,
        "transposed": base.transpose(2, 0, 1),
        "reversed": base[::-1, :, ::-1],
        "sliced": base[1:5, ::2, 3:],
        "expanded": np.broadcast_to(base[:, :1, :], (6, 7, 8)),
        "row": np.broadcast_to(base[0, 0], (4, 3, 8)),
        "scalar": np.broadcast_to(base[0, 0, 0], (3, 4)),
        "permuted": base.transpose(1, 2, 0)[:, 2:6],
        "one": base[:1, :1, :1],
        "zero-d": base[0, 0, 0].reshape(()),
    }


@pytest.mark.parametrize("left, right", list(itertools.product(
    ["dense", "transposed", "reversed", "sliced", "expanded", "permuted", "one"], repeat=2)))  # fmt: skip
def test_layouts(gpu, left, right):
    rng = np.random.default_rng(1)
    a, b = strided_views(rng)[left], strided_views(rng)[right]
    if a.shape != b.shape:
        b = np.broadcast_to(b.ravel()[: a.shape[-1]] if b.size >= a.shape[-1] else b.ravel()[:1], a.shape)
    out = gpu.empty(a.shape, "float32", pad=7)
    launch.elementwise(
        gpu.inst, [gpu.put(a, pad=3), gpu.put(b, pad=1)], [Instr("subtract", "float32", 2, (0, 1))], [(2, out)]
    )
    np.testing.assert_array_equal(gpu.get(out), a - b)


@pytest.mark.parametrize("name", list(strided_views(np.random.default_rng(0))))
@pytest.mark.parametrize("wide", [False, True])
def test_every_layout_class_with_both_index_widths(gpu, name, wide, monkeypatch):
    if wide:
        monkeypatch.setattr(launch, "MAX_32", -1)
    a = strided_views(np.random.default_rng(2))[name]
    out = gpu.empty(a.shape, "float32")
    launch.elementwise(
        gpu.inst, [gpu.put(a), Scalar(2.5, "float32")], [Instr("multiply", "float32", 2, (0, 1))], [(2, out)]
    )
    np.testing.assert_array_equal(gpu.get(out), a * np.float32(2.5))


def test_writing_into_strided_windows(gpu):
    """SWR: only the cells of the window change."""
    for dtype in ("float32", "int16", "int8", "float16", "bool", "complex64"):
        base = np.arange(60).reshape(6, 10).astype(dtype)
        target = gpu.put(base, pad=1)
        for index in [(slice(None), 3), (slice(1, 5, 2), slice(None, None, -3)), (2, slice(2, 9)), (slice(5, 6), slice(9, 10))]:
            window = base[index]
            view = base.__getitem__(index)
            offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
            strides = tuple(s // base.itemsize for s in np.asarray(view).strides)
            w = Array(target.buffer, dtype, np.shape(window), strides, 1 + offset)
            launch.fill(gpu.inst, w, 1)
            base[index] = 1
            np.testing.assert_array_equal(gpu.get(target), base)


def test_in_place_with_itself(gpu):
    x = np.random.default_rng(3).normal(size=(40, 30)).astype(np.float32)
    a = gpu.put(x)
    launch.elementwise(
        gpu.inst, [a, Scalar(2.0, "float32"), Scalar(1.0, "float32")],
        [Instr("multiply", "float32", 3, (0, 1)), Instr("add", "float32", 4, (3, 2))], [(4, a)],
    )  # fmt: skip
    np.testing.assert_array_equal(gpu.get(a), x * np.float32(2) + np.float32(1))


@pytest.mark.parametrize("n", [65537, 70001, 300000])
def test_in_place_over_many_elements(gpu, n):
    """No element may be computed twice, however the grid is rounded up."""
    x = np.arange(n, dtype=np.int32)
    a = gpu.put(x)
    launch.elementwise(
        gpu.inst, [a, Scalar(3, "int32"), Scalar(1, "int32")],
        [Instr("multiply", "int32", 3, (0, 1)), Instr("add", "int32", 4, (3, 2))], [(4, a)],
    )  # fmt: skip
    np.testing.assert_array_equal(gpu.get(a), x * 3 + 1)


def test_position_as_an_operand(gpu):
    out = gpu.empty((7, 11), "int64")
    launch.elementwise(
        gpu.inst, [Index(), Scalar(3, "int64"), Scalar(-5, "int64")],
        [Instr("multiply", "int64", 3, (0, 1)), Instr("add", "int64", 4, (3, 2))], [(4, out)],
    )  # fmt: skip
    np.testing.assert_array_equal(gpu.get(out), np.arange(77).reshape(7, 11) * 3 - 5)


SCALARS = [("float32", 1.5, np.float32), ("float32", float("nan"), np.float32), ("float16", -2.25, np.float16),
           ("int8", -128, np.int8), ("int64", -(2**63), np.int64), ("uint64", 2**64 - 1, np.uint64), ("bool", True, bool),
           ("complex64", 1 - 2j, np.complex64), ("uint16", 65535, np.uint16)]  # fmt: skip


@pytest.mark.parametrize("dtype, value, kind", SCALARS)
def test_scalars_of_every_kind(gpu, dtype, value, kind):
    out = gpu.empty((5,), dtype)
    launch.fill(gpu.inst, out, value)
    np.testing.assert_array_equal(gpu.get(out), np.full(5, value, kind))


def test_many_outputs_and_inputs(gpu):
    rng = np.random.default_rng(4)
    xs = [rng.normal(size=100).astype(np.float32) for _ in range(12)]
    outs = [gpu.empty((100,), "float32") for _ in range(11)]
    instrs, results, last, expected = [], [], 0, xs[0]
    for k in range(1, 12):
        instrs.append(Instr("add", "float32", 11 + k, (last, k)))
        last = 11 + k
        expected = expected + xs[k]
        results.append((last, outs[k - 1], expected))
    launch.elementwise(gpu.inst, [gpu.put(x) for x in xs], instrs, [(r, o) for r, o, _ in results])
    for _, o, e in results:
        np.testing.assert_array_equal(gpu.get(o), e)


def test_fused_equals_op_by_op(gpu):
    """Promise 1: one kernel with many nodes gives the bits of many kernels with one."""
    rng = np.random.default_rng(6)
    for dtype in ("float32", "float16", "bfloat16"):
        x = rng.normal(size=2000).astype(np.float32)
        held = to_bf16(x) if dtype == "bfloat16" else x.astype(dtype)
        a = gpu.put(held, dtype)
        chain = [("multiply", (0, 0)), ("multiply", (1, 0)), ("add", (0, 2)), ("tanh", (3,)), ("multiply", (4, 0)),
                 ("subtract", (5, 1)), ("exp", (6,)), ("divide", (7, 3)), ("multiply", (8, 4)), ("add", (9, 8))]  # fmt: skip
        instrs = [Instr(op, dtype, k + 1, srcs) for k, (op, srcs) in enumerate(chain)]
        out = gpu.empty((2000,), dtype)
        launch.elementwise(gpu.inst, [a], instrs, [(len(chain), out)])
        values = {0: a}
        for k, (op, srcs) in enumerate(chain):
            values[k + 1] = gpu.empty((2000,), dtype)
            n = len(srcs)
            launch.elementwise(
                gpu.inst, [values[s] for s in srcs], [Instr(op, dtype, n, tuple(range(n)))], [(n, values[k + 1])]
            )
        assert gpu.get(out).tobytes() == gpu.get(values[len(chain)]).tobytes()


def test_scalars_and_sizes_compile_nothing(gpu):
    """M11: a learning rate or batch size that changes must not make a new kernel."""
    x = gpu.put(np.ones((8, 6), np.float32))

    def step(rate, rows):
        window = x._replace(shape=(rows, 6))
        launch.elementwise(
            gpu.inst, [window, Scalar(rate, "float32")], [Instr("multiply", "float32", 2, (0, 1))], [(2, window)]
        )

    step(0.5, 4)
    compiled = gpu.inst.stats()["compiled"]
    for k in range(5):
        step(0.1 + k, 4)
    step(0.1, 7)
    step(float("inf"), 3)
    assert gpu.inst.stats()["compiled"] == compiled
    program = codegen.Program((codegen.Operand("float32"), codegen.Operand("float32", codegen.SCALAR)),
                              (Instr("multiply", "float32", 2, (0, 1)),), ((2, codegen.Operand("float32")),))  # fmt: skip
    assert "0.5" not in codegen.elementwise(program).split("kernel void")[1]


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 255, 256, 257, 1023, 1025, 65535, 65537, 200003])
def test_disp_1_every_element_once(gpu, n):
    out = gpu.empty((n,), "int32", pad=1)
    launch.fill(gpu.inst, Array(out.buffer, "int32", (n + 1,), (1,), 0), -7)
    launch.elementwise(gpu.inst, [Index()], [Instr("cast", "int64", 1, (0,), "int32")], [(1, out)])
    whole = np.frombuffer(gpu.inst.read(out.buffer), np.int32)
    assert whole[0] == -7
    np.testing.assert_array_equal(whole[1 : n + 1], np.arange(n))


def test_big_1_grids_are_computed_in_64_bits():
    assert launch.thread_count(2**40) == 1 << 24
    assert launch.reach((2**20, 2**20), (2**20, 1)) > 2**32


def test_collapse():
    assert launch.collapse((2, 1, 3, 4), [(12, 99, 4, 1), (12, 0, 4, 1)]) == ([24], [[1], [1]])
    assert launch.collapse((), [()]) == ([], [[]])
    assert launch.collapse((4, 3), [(1, 4), (3, 1)]) == ([4, 3], [[1, 4], [3, 1]])
    assert launch.collapse((4, 3), [(-3, -1)]) == ([12], [[-1]])


def test_unsupported_is_said():
    assert not codegen.supported("polygamma", "float32")
    assert not codegen.supported("add", "float64") and not codegen.supported("bitwise_and", "float32")
    with pytest.raises(KeyError):
        codegen.elementwise(codegen.Program((codegen.Operand("float64"),), (), ((0, codegen.Operand("float64")),)))
