"""Reductions over any axes, with a fused program as their prologue.

The accumulator of float sums is a pair (running sum, what rounding lost), so that sums of many float32
are as good as those of the CPU in double.  Integers wrap in 64 bits.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

from . import codegen
from .bridge import OVERWRITE, READ, WRITE, Binding, Instance
from .codegen import FLOATS, LINEAR, REGISTER, STORAGE, STRIDED, Arguments, Instr, Operand, Program
from .launch import MAX_32, Array, Index, Input, Scalar, collapse, layout_class, reach, scalar_word, words

OPS = ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin", "sumsq", "sumabs")

_PAIRS = """
inline float2 add_pair(float2 s, float x)
{
    float2 r = two_sum(s.x, x);
    return float2(r.x, s.y + r.y);
}
inline float2 merge_pair(float2 s, float2 t)
{
    float2 r = two_sum(s.x, t.x);
    float low = s.y + t.y;
    return float2(r.x, low + r.y);
}
inline float pair_value(float2 s) { return ISFINITE(s.x) ? s.x + s.y : s.x; }
inline float4 add_pairs(float4 s, float2 x)
{
    float2 re = add_pair(float2(s.x, s.y), x.x);
    float2 im = add_pair(float2(s.z, s.w), x.y);
    return float4(re.x, re.y, im.x, im.y);
}
inline float4 merge_pairs(float4 s, float4 t)
{
    float2 re = merge_pair(float2(s.x, s.y), float2(t.x, t.y));
    float2 im = merge_pair(float2(s.z, s.w), float2(t.z, t.w));
    return float4(re.x, re.y, im.x, im.y);
}
"""


# A product as (value in [1, 2), exponent): no order of multiplication overflows on the way, so a zero
# stays zero beside huge factors.
_SCALED = """
inline float2 scaled(float p, float e)
{
    bool big = ABS(p) >= 2.0f && ISFINITE(p);
    return big ? float2(0.5f * p, e + 1.0f) : float2(p, e);
}
inline float2 times_value(float2 s, float x)
{
    bool tiny = ABS(x) < 1.1754944e-38f;
    float y = tiny ? x * 16777216.0f : x;
    uint u = as_type<uint>(y);
    bool plain = y != 0.0f && ISFINITE(y);
    float m = plain ? as_type<float>((u & 0x807fffffu) | 0x3f800000u) : y;
    float k = plain ? float(int((u >> 23) & 255u) - 127) - (tiny ? 24.0f : 0.0f) : 0.0f;
    return scaled(s.x * m, s.y + k);
}
inline float2 times_pair(float2 s, float2 t) { return scaled(s.x * t.x, s.y + t.y); }
inline float unscaled(float2 s)
{
    int e = int(clamp(s.y, -300.0f, 300.0f));
    int a = e / 3;
    float r = s.x * as_type<float>(uint(a + 127) << 23);
    r = r * as_type<float>(uint(a + 127) << 23);
    return r * as_type<float>(uint(e - a - a + 127) << 23);
}
"""


@dataclass(frozen=True)
class Rule:
    """One reduction of one dtype in Metal text: s and t are states, x a value."""

    state: str
    first: str
    fold: str
    merge: str
    finish: str  # of s, with count
    dtype: str  # of the finished value
    better: str = "false"
    worse: str = "false"
    definitions: str = ""


_LOWEST = {"int8": "char(-128)", "int16": "short(-32768)", "int32": "int(0x80000000u)",
           "int64": "long(0x8000000000000000UL)"}  # fmt: skip
_HIGHEST = {"int8": "char(127)", "int16": "short(32767)", "int32": "int(0x7fffffff)", "int64": "0x7fffffffffffffffL",
            "uint8": "uchar(255)", "uint16": "ushort(65535)", "uint32": "0xffffffffu",
            "uint64": "0xffffffffffffffffUL"}  # fmt: skip


def rule(op: str, dtype: str) -> Rule:
    """How ``op`` folds values of a dtype."""
    kind = REGISTER[dtype]
    if op in ("any", "all"):
        sign = "|" if op == "any" else "&"
        test = "uint(x)" if dtype == "bool" else "uint(to_bool(x))"
        return Rule("uint", "0u" if op == "any" else "1u", f"s {sign} {test}", f"s {sign} t", "s != 0u", "bool")
    if op in ("sum", "mean", "sumsq", "sumabs"):
        if dtype == "complex64" and op in ("sum", "mean"):
            value = "float2(pair_value(float2(s.x, s.y)), pair_value(float2(s.z, s.w)))"
            if op == "mean":
                value = f"CDIVR({value}, float(count))"
            return Rule("float4", "float4(0.0f, 0.0f, 0.0f, 0.0f)", "add_pairs(s, x)", "merge_pairs(s, t)", value,
                        "complex64", definitions=_PAIRS)  # fmt: skip
        if dtype in FLOATS or dtype == "complex64":
            term = {"sumsq": "x.x * x.x + x.y * x.y" if dtype == "complex64" else "x * x", "sumabs": "CABS(x)" if dtype == "complex64" else "ABS(x)"}.get(op, "x")
            value = "pair_value(s)" if op != "mean" else "pair_value(s) / float(count)"
            return Rule("float2", "float2(0.0f, 0.0f)", f"add_pair(s, {term})", "merge_pair(s, t)", value, "float32",
                        definitions=_PAIRS)  # fmt: skip
        signed = dtype in _LOWEST or dtype == "bool"
        wide = "long" if signed else "ulong"
        term = {"sumsq": f"ulong({wide}(x)) * ulong({wide}(x))",
                "sumabs": f"ulong({wide}(x) < 0 ? 0 - ulong({wide}(x)) : ulong({wide}(x)))" if signed else "ulong(x)",
                }.get(op, f"ulong({wide}(x))")  # fmt: skip
        return Rule(wide, f"{wide}(0)", f"{wide}(ulong(s) + {term})", f"{wide}(ulong(s) + ulong(t))", "s",
                    "int64" if signed else "uint64")  # fmt: skip
    if op == "prod":
        if dtype == "complex64":
            return Rule("float2", "float2(1.0f, 0.0f)", "CMUL(s, x)", "CMUL(s, t)", "s", "complex64")
        if dtype in FLOATS:
            return Rule("float2", "float2(1.0f, 0.0f)", "times_value(s, x)", "times_pair(s, t)", "unscaled(s)", "float32",
                        definitions=_SCALED)  # fmt: skip
        signed = dtype in _LOWEST or dtype == "bool"
        wide = "long" if signed else "ulong"
        return Rule(wide, f"{wide}(1)", f"{wide}(ulong(s) * ulong({wide}(x)))", f"{wide}(ulong(s) * ulong(t))", "s",
                    "int64" if signed else "uint64")  # fmt: skip
    top = op in ("max", "argmax")
    if dtype == "bool":
        state, cast = "uint", "uint(x)"
        first = "0u" if top else "1u"
        value, name = "s != 0u", "bool"
    else:
        state, cast, value, name = kind, "x", "s", dtype
        if dtype in FLOATS:
            first, name = "-INFINITY" if top else "INFINITY", "float32"
        elif top:
            first = _LOWEST.get(dtype, f"{kind}(0)")
        else:
            first = _HIGHEST[dtype]
    function = "MAX" if top else "MIN"
    if dtype == "bool":
        sign = "|" if top else "&"
        fold, merge = f"s {sign} {cast}", f"s {sign} t"
    else:
        fold, merge = f"{function}(s, x)", f"{function}(s, t)"
    if op in ("max", "min"):
        return Rule(state, first, fold, merge, value, name)
    sign = ">" if top else "<"
    better, worse = f"t {sign} s", f"s {sign} t"
    if dtype in FLOATS:
        better += " || (ISNAN(t) && !ISNAN(s))"
        worse += " || (ISNAN(s) && !ISNAN(t))"
    return Rule(state, first, "x", "t", "long(at)", "int64", better, worse)


# Put before every text; tests use it to make pipelines of their own.
PREFIX = ""

_SHUFFLED = ("float", "float2", "float4", "int", "uint")


@functools.lru_cache(maxsize=1024)
def kernel_text(
    program: Program, op: str, out: str, kept: int, columns: bool, wide: bool, partial: bool, simd: bool
) -> str:
    """Text of the kernel ``reduce`` of a program whose register ``program.outputs[0][0]`` is reduced.

    The first ``kept`` dimensions number the results, the others are folded.
    """
    register = program.outputs[0][0]
    body_program = Program(program.inputs, program.instrs, (), program.ndim)
    args = Arguments("keep", "count", "segment")
    for d in range(program.ndim):
        args.word(f"size{d}")
    for where, k in body_program.strided():
        for d in range(program.ndim):
            args.word(f"stride_{where}{k}_{d}")
    index = "ulong" if wide else "uint"
    signature = codegen.bind_program(body_program, args, index="e")
    lines: list[str] = []
    names = [k for _, k in body_program.strided()]
    sizes = [args.word(f"size{d}") for d in range(program.ndim)]
    strides = {k: [args.word(f"stride_in{k}_{d}") for d in range(program.ndim)] for k in names}
    kept_lines = []
    if names and kept:
        kept_lines = codegen.unravel_lines(sizes[:kept], [(f"ok{k}", strides[k][:kept]) for k in names], "k", wide)
    if names and kept < program.ndim:
        lines += codegen.unravel_lines(sizes[kept:], [(f"or{k}", strides[k][kept:]) for k in names], "r", wide)
    signed = "long" if wide else "int"
    for k in names:
        terms = [f"ok{k}"] * bool(kept) + [f"or{k}"] * (kept < program.ndim)
        lines.append(f"const {signed} oi{k} = {' + '.join(terms) or '0'};")
    if any(operand.layout in (LINEAR, codegen.INDEX) for operand in program.inputs):
        lines.append(f"const {index} e = k * count + r;")
    for k, (operand, text) in enumerate(zip(program.inputs, signature.inputs)):
        lines.append(f"const {REGISTER[operand.dtype]} x{k} = {text};")
    body, registers = codegen.instruction_lines(body_program, [f"x{k}" for k in range(len(program.inputs))])
    lines += body
    result, dtype = registers[register]
    r = rule(op, dtype)
    with_index = op in ("argmax", "argmin")
    if with_index and dtype == "bool":
        result = f"uint({result})"
    simd = simd and not with_index and not columns and r.state in _SHUFFLED
    slot = signature.count
    parameters = list(signature.parameters)
    pointers = list(signature.pointers)
    if partial:
        parameters.append(f"device {r.state} *part [[buffer({slot})]]")
        pointers.append(f"device {r.state} *pq = part + off[{slot}];")
        where = "tg.y" if not columns else "tid.y"
        place = f"{index}({where}) * {index}({args.word('keep')}) + k"
        store = [f"pq[{place}] = s;"]
        slot += 1
        if with_index:
            parameters.append(f"device {index} *part_index [[buffer({slot})]]")
            pointers.append(f"device {index} *pi = part_index + off[{slot}];")
            store.append(f"pi[{place}] = at;")
            slot += 1
    else:
        parameters.append(f"device {STORAGE[out]} *out [[buffer({slot})]]")
        pointers.append(f"device {STORAGE[out]} *q = out + off[{slot}];")
        store = [f"q[k] = {codegen.store_text(codegen.cast_text(r.finish, r.dtype, out), out)};"]
        slot += 1
    margin = 12 if columns else 8
    simd_parameters = (
        ",\n                   uint lane [[thread_index_in_simdgroup]],"
        "\n                   uint warp [[simdgroup_index_in_threadgroup]],"
        "\n                   uint width [[threads_per_simdgroup]]"
    )
    head = string.Template(codegen.template("reduce")).substitute(
        DEFINITIONS=r.definitions + f"#define NO_INDEX {'0xffffffffffffffffUL' if wide else '0xffffffffu'}\n",
        FIRST=r.first, STATE=r.state, VALUE=REGISTER[dtype] if not (with_index and dtype == "bool") else "uint",
        FOLD=r.fold, MERGE=r.merge, WITH_INDEX=int(with_index), INDEX=index, BETTER=r.better, WORSE=r.worse,
    )  # fmt: skip
    text = string.Template(codegen.template("reduce_columns" if columns else "reduce_rows")).substitute(
        PARAMETERS=",\n                   ".join(parameters) + ",",
        OFF=slot, ARG=slot + 1, STATE=r.state, INDEX=index, WITH_INDEX=int(with_index), USE_SIMD=int(simd),
        SIMD_PARAMETERS=simd_parameters if simd else "",
        POINTERS=codegen.indent(pointers, 4), KEPT=codegen.indent(kept_lines, 8 if columns else 4),
        BODY=codegen.indent(lines, margin), RESULT=result, STORE=codegen.indent(store, 8),
        KEEP=args.word("keep"), COUNT=args.word("count"), SEGMENT=args.word("segment"),
    )  # fmt: skip
    text = head + text
    if "mean" == op and not partial:
        text = text.replace("float(count)", f"float({args.word('count')})")
    return codegen.prelude(text, codegen.dtypes_of(program) | {out, r.dtype}) + text


@functools.lru_cache(maxsize=256)
def finish_text(op: str, dtype: str, out: str, wide: bool) -> str:
    """Text of the kernel ``reduce_finish``: folds the partial states of segments in order."""
    r = rule(op, dtype)
    with_index = op in ("argmax", "argmin")
    index = "ulong" if wide else "uint"
    slot = 2 if with_index else 1
    head = string.Template(codegen.template("reduce")).substitute(
        DEFINITIONS=r.definitions + f"#define NO_INDEX {'0xffffffffffffffffUL' if wide else '0xffffffffu'}\n",
        FIRST=r.first, STATE=r.state, VALUE=REGISTER[dtype] if not (with_index and dtype == "bool") else "uint",
        FOLD=r.fold, MERGE=r.merge, WITH_INDEX=int(with_index), INDEX=index, BETTER=r.better, WORSE=r.worse,
    )  # fmt: skip
    text = head + string.Template(codegen.template("reduce_finish")).substitute(
        MEMORY=r.state, STATE=r.state, OUT=STORAGE[out], OUT_SLOT=slot, OFF=slot + 1, ARG=slot + 2,
        INDEX=index, WITH_INDEX=int(with_index),
        INDEX_PARAMETER=f"                          device const {index} *part_index [[buffer(1)]]," if with_index else "",
        FINISHED=codegen.store_text(codegen.cast_text(r.finish, r.dtype, out), out),
    )  # fmt: skip
    return codegen.prelude(text, {dtype, out, r.dtype}) + text


_STATE_BYTES = {"float2": 8, "float4": 16, "float": 4, "long": 8, "ulong": 8, "uint": 4, "int": 4, "char": 1,
                "uchar": 1, "short": 2, "ushort": 2}  # fmt: skip


def result_dtype(op: str, dtype: str) -> str:
    """The dtype that a reduction gives: small integers widen, halves stay halves."""
    if op in ("any", "all"):
        return "bool"
    if op in ("argmax", "argmin"):
        return "int64"
    if op in ("max", "min") or dtype in FLOATS or (dtype == "complex64" and op in ("sum", "mean", "prod")):
        return dtype
    if dtype == "complex64":
        return "float32"
    return "uint64" if dtype.startswith("u") else "int64"


def reduce(
    inst: Instance,
    op: str,
    inputs: Sequence[Input],
    instrs: Sequence[Instr],
    register: int,
    shape: Sequence[int],
    axes: Sequence[int],
    out: Array,
    label: str | None = None,
) -> int:
    """out = the reduction ``op`` over ``axes`` of a register of a program over ``shape``.

    Inputs are arrays of that shape (strides of 0 where broadcast) or scalars.  ``out`` is C-ordered
    over the other axes, in order.  At least one element is folded; empty reductions are the caller's.
    """
    folded = sorted(a % len(shape) for a in axes)
    kept = [d for d in range(len(shape)) if d not in folded]
    keep = math.prod(shape[d] for d in kept)
    count = math.prod(shape[d] for d in folded)
    if keep == 0:
        return 0
    if count == 0:
        raise ValueError(f"{op} of nothing")
    arrays = [x for x in inputs if isinstance(x, Array)]
    strides = [a.strides for a in arrays]
    kept_dims, kept_steps = collapse([shape[d] for d in kept], [[s[d] for d in kept] for s in strides])
    fold_dims, fold_steps = collapse([shape[d] for d in folded], [[s[d] for d in folded] for s in strides])
    dims = kept_dims + fold_dims
    steps = [a + b for a, b in zip(kept_steps, fold_steps)]
    wide = keep * count > MAX_32 or any(reach(dims, s) > MAX_32 for s in steps)

    operands, moving, scalars = [], [], []
    by_array = iter(steps)
    fastest_kept = False
    for x in inputs:
        if isinstance(x, Array):
            s = next(by_array)
            kind = layout_class(dims, s)
            operands.append(Operand(x.dtype, kind))
            if kind == STRIDED:
                moving.append(s)
                if kept_dims and abs(s[len(kept_dims) - 1]) == 1:
                    fastest_kept = True  # neighbouring results read neighbouring elements
        elif isinstance(x, Scalar):
            operands.append(Operand(x.dtype, codegen.SCALAR))
            scalars.append(scalar_word(x.value, x.dtype))
        else:
            assert isinstance(x, Index)
            operands.append(Operand("int64", codegen.INDEX))
    program = Program(tuple(operands), tuple(instrs), ((register, Operand("float32")),), len(dims))

    # (a few results of few elements go the way of a few results of many: a last, smaller batch compiles nothing)
    columns = (fastest_kept and keep >= 32) or (count <= 8 and keep >= 32) or keep > MAX_32 or (count <= 32 and keep >= 4096)
    # several segments where too few groups or threads would share the work
    workers = keep // 64 if columns else keep
    segments = 1
    if workers < 64 and count >= 8192:
        segments = min(-(-count // 2048), 1024 // max(1, workers), 65535)
    segment = -(-count // segments)
    segments = -(-count // segment)
    partial = segments > 1
    simd = inst.features()["simd"]
    dtype = _register_dtype(program, register)
    text = kernel_text(program, op, out.dtype, len(kept_dims), columns, wide, partial, simd)
    kernel = inst.kernel(PREFIX + text, "reduce")
    r = rule(op, dtype)
    item = _STATE_BYTES[r.state]
    index_bytes = 8 if wide else 4
    with_index = op in ("argmax", "argmin")
    step = min(keep, 1 << 24)
    values = [keep, count, segment, *dims]
    for s in moving:
        values += s
    values += scalars
    bindings = [x.binding(READ) for x in arrays]
    scratch = []
    if partial:
        scratch.append(inst.alloc(keep * segments * item))
        bindings.append(Binding(scratch[0], item, OVERWRITE | WRITE))
        if with_index:
            scratch.append(inst.alloc(keep * segments * index_bytes))
            bindings.append(Binding(scratch[1], index_bytes, OVERWRITE | WRITE))
    else:
        bindings.append(out.binding(WRITE))
    label = label or op
    ops = keep * count * (len(instrs) + 1)
    if columns:
        stamp = inst.encode(kernel, bindings, (step, segments), words(*values), group=(0,), ops=ops, label=label)
    else:
        width = kernel.execution_width
        threads = kernel.group(256)
        while threads > width and threads >= 2 * segment:
            threads //= 2
        if simd and r.state in _SHUFFLED and not with_index and threads < width:
            plain = kernel_text(program, op, out.dtype, len(kept_dims), columns, wide, partial, False)
            kernel = inst.kernel(PREFIX + plain, "reduce")
        shared = threads * item + (threads * index_bytes if with_index else 0)
        stamp = inst.encode(
            kernel, bindings, (keep, segments), words(*values),
            group=(threads, 1, 1), in_groups=True, threadgroup_bytes=shared, ops=ops, label=label,
        )  # fmt: skip
    if partial:
        kernel = inst.kernel(finish_text(op, dtype, out.dtype, wide), "reduce_finish")
        bindings = [Binding(scratch[0], item, READ)]
        if with_index:
            bindings.append(Binding(scratch[1], index_bytes, READ))
        bindings.append(out.binding(WRITE))
        stamp = inst.encode(
            kernel, bindings, (step,), words(keep, count, segments), ops=keep * segments, label=f"{label} (finish)"
        )
    for buffer in scratch:
        buffer.release()
    return stamp


def _register_dtype(program: Program, register: int) -> str:
    dtypes = {k: operand.dtype for k, operand in enumerate(program.inputs)}
    for instr in program.instrs:
        dtypes[instr.dst] = codegen.result_dtype(instr.op, instr.dtype, instr.to)
    return dtypes[register]
