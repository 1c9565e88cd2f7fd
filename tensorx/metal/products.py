"""Matrix products and convolutions: one tiled kernel, told by text what its operands are.

Floats accumulate in float32 with fused multiply-adds, integers wrap in their own width.  The order of
additions depends on shapes only.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import MetalError
from . import codegen, reductions
from .bridge import READ, WRITE, Binding, Instance
from .codegen import FLOATS, ITEM_BYTES, STORAGE, Instr
from .launch import MAX_32, Array, Index, Scalar, array, collapse, copy, dense, elementwise, fill, words


@dataclass(frozen=True)
class _Kind:
    """Arithmetic of one accumulator."""

    acc: str
    zero: str
    multiply_add: str
    dtype: str


def _kind(dtype: str) -> _Kind:
    if dtype in FLOATS:
        return _Kind("float", "0.0f", "fma(a[p], b[q], acc[p * EACH + q])", "float32")
    if dtype == "complex64":
        return _Kind("float2", "float2(0.0f, 0.0f)", "CADD(acc[p * EACH + q], CMUL(a[p], b[q]))", "complex64")
    if dtype == "bool":
        raise ValueError("the product of booleans is not defined")
    wide = "ulong" if ITEM_BYTES[dtype] == 8 else "uint"  # unsigned, so that it wraps
    return _Kind(wide, f"{wide}(0)", "acc[p * EACH + q] + a[p] * b[q]", dtype)


def _load(pointer: str, index: str, dtype: str, kind: _Kind) -> str:
    text = codegen.load_text(pointer, index, dtype)
    return text if dtype in FLOATS or dtype == "complex64" else f"{kind.acc}({text})"


def _store(pointer: str, index: str, dtype: str) -> str:
    value = "v"
    if dtype in codegen.INTEGERS:
        value = f"{STORAGE[dtype]}(v)"
    return f"{pointer}[{index}] = {codegen.store_text(value, dtype)};"


# Put before every text; tests use it to make pipelines of their own.
PREFIX = ""

# Words of arg before those of the operands: rows, columns, depth, splits, part.
_HEAD = 5


@dataclass(frozen=True)
class _Texts:
    """What the template needs besides sizes; texts refer to arg by number."""

    parameters: str
    setup: str
    load_a: str
    load_b: str
    store: str
    a_along_k: bool
    b_along_k: bool
    arrays: int = 3


@functools.lru_cache(maxsize=256)
def _text(texts: _Texts, dtype: str, wide: bool, side: int, each: int, depth: int, matrix: bool) -> str:
    kind = _kind(dtype)
    body = string.Template(codegen.template("gemm_matrix" if matrix else "gemm")).substitute(
        PARAMETERS=texts.parameters, OFF=texts.arrays, ARG=texts.arrays + 1, SIDE=side, EACH=each, DEPTH=depth,
        INDEX="ulong" if wide else "uint", ACC=kind.acc, ZERO=kind.zero, MULTIPLY_ADD=kind.multiply_add,
        A_ALONG_K="true" if texts.a_along_k else "false", B_ALONG_K="true" if texts.b_along_k else "false",
        SETUP=texts.setup, LOAD_A=texts.load_a, LOAD_B=texts.load_b, STORE=texts.store,
    )  # fmt: skip
    return codegen.prelude(body, {dtype}) + "\n" + body


# The matrix units are used only where they give what the plain kernel gives on a small product.
_matrix_checked: dict[tuple[str, int], bool] = {}


def _matrix_ok(inst: Instance) -> bool:
    if not inst.features()["matrix"]:
        return False
    device = (inst.bridge.path, inst.ordinal)
    if device not in _matrix_checked:
        _matrix_checked[device] = False  # the check itself takes the plain kernel
        n = 48
        a, b = inst.alloc(4 * n * n), inst.alloc(4 * n * n)
        results = []
        try:
            for buffer, factor in ((a, 7), (b, 5)):
                # small whole numbers: every product and sum is exact
                _ramp(inst, array(buffer, "float32", (n * n,)), factor)
            for matrix in (False, True):
                c = inst.alloc(4 * n * n)
                _matmul(inst, array(a, "float32", (n, n)), array(b, "float32", (n, n)), array(c, "float32", (n, n)), matrix)
                results.append(inst.read(c))
            _matrix_checked[device] = results[0] == results[1]
        except MetalError:
            pass
    return _matrix_checked[device]


def _ramp(inst: Instance, out: Array, factor: int) -> None:
    elementwise(
        inst,
        [Index(), Scalar(factor, "int64"), Scalar(13, "int64")],
        [
            Instr("multiply", "int64", 3, (0, 1)),
            Instr("remainder", "int64", 4, (3, 2)),
            Instr("cast", "int64", 5, (4,), "float32"),
        ],
        [(5, out)],
        "ramp",
    )


def _launch(
    inst: Instance,
    texts: _Texts,
    dtype: str,
    sizes: tuple[int, int, int, int],
    extra: list[int],
    bindings: list[Binding],
    wide: bool,
    matrix: bool,
    splits: int,
    label: str,
) -> int:
    batch, rows, columns, depth = sizes
    part = -(-depth // splits) if depth else 0
    each = 2 if rows <= 32 or columns <= 32 else 4
    side, tile, group = 16, 0, 0
    if matrix:
        kernel = inst.kernel(PREFIX + _text(texts, dtype, wide, 16, 2, 16, True), "gemm")
        if kernel.max_threads >= 128 and kernel.execution_width == 32:
            tile, group = 32, 128
    if not tile:
        for side in (16, 8, 4):
            kernel = inst.kernel(PREFIX + _text(texts, dtype, wide, side, each, 16, False), "gemm")
            if kernel.max_threads >= side * side:
                break
        tile, group = side * each, side * side
    grid = (-(-columns // tile), -(-rows // tile), batch * splits)
    split = max(range(3), key=lambda d: grid[d])
    return inst.encode(
        kernel, bindings, grid, words(rows, columns, depth, splits, max(part, 1), *extra),
        group=(group, 1, 1), in_groups=True, ops=2 * batch * rows * columns * depth, label=label, split=split,
    )  # fmt: skip


def _splits(batch: int, rows: int, columns: int, depth: int) -> int:
    """Parts of a long inner dimension where the result alone would occupy few groups."""
    groups = batch * -(-rows // 64) * -(-columns // 64)
    if groups >= 64 or depth < 2048:
        return 1
    return min(-(-depth // 512), max(1, 128 // groups), 64)


# ---- matrices ---------------------------------------------------------------------------------------


def _batch_setup(ndim: int) -> str:
    """Offsets of batch z in A, B and C; sizes and strides of the batch dimensions follow the matrix strides."""
    base = _HEAD + 6
    lines = ["    long za = off[0], zb = off[1], zc = off[2];", "    ulong zz = z;"]
    for d in range(ndim - 1, -1, -1):
        at = base + 4 * d
        if d:
            lines.append(f"    {{ const ulong n = arg[{at}], w = zz / n; const long c = long(zz - w * n); zz = w;")
        else:
            lines.append("    { const long c = long(zz);")
        lines.append(
            f"      za += c * long(arg[{at + 1}]); zb += c * long(arg[{at + 2}]); zc += c * long(arg[{at + 3}]); }}"
        )
    return "\n".join(lines)


@functools.lru_cache(maxsize=256)
def _matmul_texts(a: str, b: str, c: str, ndim: int, a_along_k: bool, b_along_k: bool) -> _Texts:
    kind = _kind(a)
    setup = (
        _batch_setup(ndim)
        + f"""
    device const {STORAGE[a]} *pa = in_a + za;
    device const {STORAGE[b]} *pb = in_b + zb;
    device {STORAGE[c]} *pc = out_c + zc;
    if (splits > 1UL)
        pc += long(slot - z * splits) * long(rows) * long(columns);
    const long ai = long(arg[{_HEAD}]), ak = long(arg[{_HEAD + 1}]);
    const long bk = long(arg[{_HEAD + 2}]), bj = long(arg[{_HEAD + 3}]);
    const long ci = long(arg[{_HEAD + 4}]), cj = long(arg[{_HEAD + 5}]);"""
    )
    margin = " " * 20
    return _Texts(
        f"device const {STORAGE[a]} *in_a [[buffer(0)]],\n                 device const {STORAGE[b]} *in_b [[buffer(1)]],"
        f"\n                 device {STORAGE[c]} *out_c [[buffer(2)]]",
        setup,
        f"{margin}v = {_load('pa', 'long(i) * ai + long(k) * ak', a, kind)};",
        f"{margin}v = {_load('pb', 'long(k) * bk + long(j) * bj', b, kind)};",
        f"{' ' * 16}{_store('pc', 'long(i) * ci + long(j) * cj', c)}",
        a_along_k,
        b_along_k,
    )


def matmul(inst: Instance, a: Array, b: Array, out: Array, label: str = "matmul") -> int:
    """out = a @ b over arrays of at least two dimensions with equal (or broadcast, stride 0) batch shapes.

    a and b have one dtype; out has it too, or float32 for halves.  Overlap of out with an operand is the
    caller's business.
    """
    if out.size == 0:
        return 0
    if a.shape[-1] == 0:
        return fill(inst, out, 0, label)
    return _matmul(inst, a, b, out, a.dtype in FLOATS and _matrix_ok(inst), label)


def _matmul(inst: Instance, a: Array, b: Array, out: Array, matrix: bool, label: str = "matmul") -> int:
    if a.dtype != b.dtype:
        raise ValueError(f"{label} of {a.dtype} and {b.dtype}")
    rows, depth = a.shape[-2:]
    columns = b.shape[-1]
    if rows == 1 or columns == 1:
        if a.dtype in FLOATS:
            return _matvec(inst, a, b, out, label)
    batch_shape = out.shape[:-2]
    batch = math.prod(batch_shape)
    splits = _splits(batch, rows, columns, depth) if a.dtype in FLOATS else 1
    target, part_buffer = out, None
    if splits > 1:
        part = -(-depth // splits)
        splits = -(-depth // part)
        part_buffer = inst.alloc(4 * batch * splits * rows * columns)
        step = splits * rows * columns
        target = Array(
            part_buffer, "float32", out.shape,
            (*(s * step for s in dense(batch_shape)), columns, 1), 0, True,
        )  # fmt: skip
    dims, steps = collapse(batch_shape, [a.strides[:-2], b.strides[:-2], target.strides[:-2]])
    extra = [*a.strides[-2:], *b.strides[-2:], *target.strides[-2:]]
    for d, n in enumerate(dims):
        extra += [n, steps[0][d], steps[1][d], steps[2][d]]
    texts = _matmul_texts(a.dtype, b.dtype, target.dtype, len(dims), abs(a.strides[-1]) == 1, abs(b.strides[-2]) == 1)
    wide = max(rows, columns, depth) > MAX_32 // 128
    stamp = _launch(
        inst, texts, a.dtype, (batch, rows, columns, depth), extra,
        [a.binding(READ), b.binding(READ), target.binding(WRITE)], wide, matrix, splits, label,
    )  # fmt: skip
    if part_buffer is not None:
        partial = array(part_buffer, "float32", (batch, splits, rows * columns))
        stamp = _sum_parts(inst, partial, out, label)
        part_buffer.release()
    return stamp


def _sum_parts(inst: Instance, partial: Array, out: Array, label: str) -> int:
    """Sum of parts into out, through a dense array where out is not dense."""
    dims, (steps,) = collapse(out.shape, [out.strides])
    if len(dims) <= 1 and steps in ([], [1]):
        return reductions.reduce(inst, "sum", [partial], [], 0, partial.shape, (1,), out, f"{label} (sum of parts)")
    temporary = inst.alloc(out.size * ITEM_BYTES[out.dtype])
    whole = array(temporary, out.dtype, out.shape, whole=True)
    reductions.reduce(inst, "sum", [partial], [], 0, partial.shape, (1,), whole, f"{label} (sum of parts)")
    stamp = copy(inst, whole, out, label)
    temporary.release()
    return stamp


def _matvec(inst: Instance, a: Array, b: Array, out: Array, label: str) -> int:
    """A product with one row or one column is a reduction of products."""
    rows, depth = a.shape[-2:]
    columns = b.shape[-1]
    shape = (*out.shape[:-2], rows, columns, depth)
    left = a._replace(shape=shape, strides=(*a.strides[:-1], 0, a.strides[-1]))
    right = b._replace(shape=shape, strides=(*b.strides[:-2], 0, b.strides[-1], b.strides[-2]))
    instrs, x, y, r = [], 0, 1, 2
    if a.dtype != "float32":
        instrs = [Instr("cast", a.dtype, 2, (0,), "float32"), Instr("cast", a.dtype, 3, (1,), "float32")]
        x, y, r = 2, 3, 4
    instrs.append(Instr("multiply", "float32", r, (x, y)))
    if out.strides == dense(out.shape):
        return reductions.reduce(inst, "sum", [left, right], instrs, r, shape, (-1,), out, label)
    temporary = inst.alloc(out.size * ITEM_BYTES[out.dtype])
    whole = array(temporary, out.dtype, out.shape, whole=True)
    reductions.reduce(inst, "sum", [left, right], instrs, r, shape, (-1,), whole, label)
    stamp = copy(inst, whole, out, label)
    temporary.release()
    return stamp


# ---- convolutions ------------------------------------------------------------------------------------

# x (N, G * Ci, *spatial), w (G * Co, Ci, *window), y (N, G * Co, *positions), three spatial dimensions
# inside. Words of arg from _HEAD: groups, N, Ci, Co; input sizes, window, positions, stride, padding,
# dilation (3 each); then strides of x, w and y (5 each).
_W = _HEAD
_NAMES = [
    "G", "N", "CI", "CO",
    *(f"{name}{d}" for name in ("I", "K", "O", "S", "P", "D") for d in range(3)),
    *(f"{name}{d}" for name in ("XS", "WS", "YS") for d in range(5)),
]  # fmt: skip


def _expand(text: str) -> str:
    """Names of convolution parameters as words of arg (sizes and strides are signed)."""
    for k, name in sorted(enumerate(_NAMES), key=lambda item: -len(item[1])):
        text = text.replace(f"@{name}@", f"long(arg[{_W + k}])")
    return text


def _split_position(index: str, names: Sequence[str], sizes: Sequence[str], margin: int) -> str:
    """Statements that cut an index into coordinates, the last one fastest."""
    lines = [f"long t_{names[0]} = long({index});"]
    current = f"t_{names[0]}"
    for name, size in zip(reversed(names[1:]), reversed(sizes[1:])):
        lines.append(f"const long {name} = {current} % @{size}@; {current} = {current} / @{size}@;")
    lines.append(f"const long {names[0]} = {current};")
    return "\n".join(" " * margin + line for line in lines)


_INPUT_OF_WINDOW = """\
                    const long x0 = o0 * @S0@ - @P0@ + k0_ * @D0@;
                    const long x1 = o1 * @S1@ - @P1@ + k1_ * @D1@;
                    const long x2 = o2 * @S2@ - @P2@ + k2_ * @D2@;
                    if (x0 >= 0 && x0 < @I0@ && x1 >= 0 && x1 < @I1@ && x2 >= 0 && x2 < @I2@)
                        v = {load};"""

_OUTPUT_OF_INPUT = """\
                    const long u0 = i0 + @P0@ - k0_ * @D0@;
                    const long u1 = i1 + @P1@ - k1_ * @D1@;
                    const long u2 = i2 + @P2@ - k2_ * @D2@;
                    const long o0 = u0 / @S0@, o1 = u1 / @S1@, o2 = u2 / @S2@;
                    if (u0 >= 0 && u1 >= 0 && u2 >= 0 && u0 == o0 * @S0@ && u1 == o1 * @S1@ && u2 == o2 * @S2@ &&
                        o0 < @O0@ && o1 < @O1@ && o2 < @O2@)
                        v = {load};"""

_X = "n * @XS0@ + (g * @CI@ + ci) * @XS1@ + {0} * @XS2@ + {1} * @XS3@ + {2} * @XS4@"
_Y = "n * @YS0@ + (g * @CO@ + co) * @YS1@ + o0 * @YS2@ + o1 * @YS3@ + o2 * @YS4@"
_WT = "(g * @CO@ + co) * @WS0@ + ci * @WS1@ + k0_ * @WS2@ + k1_ * @WS3@ + k2_ * @WS4@"


def _store_conv(index: str, dtype: str, bias: str, channel: str) -> str:
    margin = " " * 16
    if not bias:
        return margin + _store("pc", index, dtype)
    load = codegen.load_text("in_bias", f"off[3] + {channel}", bias)
    return f"{margin}const float shifted = v + {load};\n{margin}pc[{index}] = {codegen.store_text('shifted', dtype)};"


@functools.lru_cache(maxsize=128)
def _conv_texts(which: str, a: str, b: str, c: str, bias: str = "") -> _Texts:
    """Texts of forward (y), input gradient (x) and weight gradient (w); bias: dtype of one more array, of the channels of y or x."""
    kind = _kind(a)
    parameters = (
        f"device const {STORAGE[a]} *in_a [[buffer(0)]],\n                 device const {STORAGE[b]} *in_b [[buffer(1)]],"
        f"\n                 device {STORAGE[c]} *out_c [[buffer(2)]]"
    )
    if bias:
        parameters += f",\n                 device const {STORAGE[bias]} *in_bias [[buffer(3)]]"
    setup = f"""\
    const long g = long(z);
    device const {STORAGE[a]} *pa = in_a + off[0];
    device const {STORAGE[b]} *pb = in_b + off[1];
    device {STORAGE[c]} *pc = out_c + off[2];"""
    window = ("k0_", "k1_", "k2_")
    sizes = ("K0", "K1", "K2")
    x_at = _X.format("x0", "x1", "x2")
    if which == "y":  # rows co, columns (n, o), inner (ci, k)
        load_a = _split_position("k", ("ci", *window), ("CI", *sizes), 20) + "\n                    const long co = long(i);\n"
        load_a += f"                    v = {_load('pa', _WT, a, kind)};"
        load_b = _split_position("k", ("ci", *window), ("CI", *sizes), 20) + "\n"
        load_b += _split_position("j", ("n", "o0", "o1", "o2"), ("N", "O0", "O1", "O2"), 20) + "\n"
        load_b += _INPUT_OF_WINDOW.format(load=_load("pb", x_at, b, kind))
        store = "                const long co = long(i);\n"
        store += _split_position("j", ("n", "o0", "o1", "o2"), ("N", "O0", "O1", "O2"), 16) + "\n"
        store += _store_conv(_Y, c, bias, "g * @CO@ + co")
    elif which == "x":  # rows ci, columns (n, i), inner (co, k)
        load_a = _split_position("k", ("co", *window), ("CO", *sizes), 20) + "\n                    const long ci = long(i);\n"
        load_a += f"                    v = {_load('pa', _WT, a, kind)};"
        load_b = _split_position("k", ("co", *window), ("CO", *sizes), 20) + "\n"
        load_b += _split_position("j", ("n", "i0", "i1", "i2"), ("N", "I0", "I1", "I2"), 20) + "\n"
        load_b += _OUTPUT_OF_INPUT.format(load=_load("pb", _Y, b, kind))
        store = "                const long ci = long(i);\n"
        store += _split_position("j", ("n", "i0", "i1", "i2"), ("N", "I0", "I1", "I2"), 16) + "\n"
        store += _store_conv(_X.format("i0", "i1", "i2"), c, bias, "g * @CI@ + ci")
    else:  # rows co, columns (ci, k), inner (n, o)
        load_a = _split_position("k", ("n", "o0", "o1", "o2"), ("N", "O0", "O1", "O2"), 20)
        load_a += "\n                    const long co = long(i);\n"
        load_a += f"                    v = {_load('pa', _Y, a, kind)};"
        load_b = _split_position("k", ("n", "o0", "o1", "o2"), ("N", "O0", "O1", "O2"), 20) + "\n"
        load_b += _split_position("j", ("ci", *window), ("CI", *sizes), 20) + "\n"
        load_b += _INPUT_OF_WINDOW.format(load=_load("pb", x_at, b, kind))
        store = "                const long co = long(i);\n"
        store += _split_position("j", ("ci", *window), ("CI", *sizes), 16) + "\n"
        store += f"                {_store('pc', _WT, c)}"
        setup += "\n    if (splits > 1UL)\n        pc += long(slot - z * splits) * long(arg[0]) * long(arg[1]) * @G@;"
    return _Texts(parameters, _expand(setup), _expand(load_a), _expand(load_b), _expand(store), which != "w", False, 4 if bias else 3)


class Geometry:
    """Sizes of a convolution; 1 and 2 spatial dimensions are padded to 3."""

    def __init__(
        self,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int = 1,
    ):
        lead = 3 - len(stride)
        self.lead = lead
        self.stride = (1,) * lead + tuple(stride)
        self.padding = (0,) * lead + tuple(padding)
        self.dilation = (1,) * lead + tuple(dilation)
        self.groups = groups

    def spread(self, a: Array) -> Array:
        """An array with three spatial dimensions."""
        shape = (*a.shape[:2], *(1,) * self.lead, *a.shape[2:])
        strides = (*a.strides[:2], *(0,) * self.lead, *a.strides[2:])
        return a._replace(shape=shape, strides=strides)


def convolve(inst: Instance, which: str, x: Array, w: Array, y: Array, geometry: Geometry, bias: Array | None = None) -> int:
    """One of the three products of a convolution, the other two arrays given: ``which`` is

    ``"y"``  y = the convolution of x with w (cross-correlation, as in PyTorch)
    ``"x"``  x = the gradient of the input, which is also the transposed convolution of y with w
    ``"w"``  w = the gradient of the weight

    x (N, G * Ci, ...), w (G * Co, Ci, ...), y (N, G * Co, ...).  bias (floats, dense, one per channel) is added to y or x.
    """
    x, w, y = geometry.spread(x), geometry.spread(w), geometry.spread(y)
    target = {"x": x, "w": w, "y": y}[which]
    if target.size == 0:
        return 0
    groups = geometry.groups
    n, ci, co = x.shape[0], w.shape[1], w.shape[0] // groups
    window, positions, inputs = math.prod(w.shape[2:]), math.prod(y.shape[2:]), math.prod(x.shape[2:])
    if which == "y":
        first, second, sizes = w, x, (groups, co, n * positions, ci * window)
    elif which == "x":
        first, second, sizes = w, y, (groups, ci, n * inputs, co * window)
    else:
        first, second, sizes = y, x, (groups, co, ci * window, n * positions)
    label = {"y": "convolution", "x": "convolution (input gradient)", "w": "convolution (weight gradient)"}[which]
    if sizes[3] == 0:
        if bias is None:
            return fill(inst, target, 0, label)
        return copy(inst, bias._replace(shape=target.shape, strides=(0, 1, 0, 0, 0), whole=False), target, label)
    splits, part_buffer, out = 1, None, target
    if which == "w" and w.dtype in FLOATS:
        splits = _splits(*sizes)
        splits = -(-sizes[3] // -(-sizes[3] // splits))
    if splits > 1:
        # parts are dense copies of w, one after the other
        part_buffer = inst.alloc(4 * splits * w.size)
        out = Array(part_buffer, "float32", w.shape, dense(w.shape), 0, True)
    arrays = {"x": x, "w": w, "y": y, which: out}
    texts = _conv_texts(which, first.dtype, second.dtype, out.dtype, bias.dtype if bias is not None else "")
    extra = [groups, n, ci, co, *x.shape[2:], *w.shape[2:], *y.shape[2:]]
    extra += [*geometry.stride, *geometry.padding, *geometry.dilation]
    extra += [*arrays["x"].strides, *arrays["w"].strides, *arrays["y"].strides]
    wide = max(sizes) > MAX_32 // 128
    matrix = first.dtype in FLOATS and _matrix_ok(inst)
    bindings = [first.binding(READ), second.binding(READ), out.binding(WRITE)]
    if bias is not None:
        bindings.append(bias.binding(READ))
    stamp = _launch(inst, texts, first.dtype, sizes, extra, bindings, wide, matrix, splits, label)
    if part_buffer is not None:
        partial = array(part_buffer, "float32", (1, splits, w.size))
        stamp = _sum_parts(inst, partial, target, label)
        part_buffer.release()
    return stamp
