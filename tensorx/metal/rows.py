"""Kernels that need a whole row at once: softmax, log_softmax, logsumexp, layer_norm, rms_norm.

float32, float16 and bfloat16; everything is computed in float and rounded when it is written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from . import codegen, reductions
from .bridge import READ, WRITE, Instance
from .codegen import FLOATS, STORAGE, Instr
from .indexing import Status
from .launch import Array, collapse, dense, scalar_word, words

SMALL = 16  # rows up to here belong to one thread each


PARTS = ("softmax", "norm", "softmax gradient", "norm gradient", "class loss")  # of the template


@functools.lru_cache(maxsize=128)
def _text(dtype: str, out: str, weight: str, part: str, grouped: bool) -> str:
    return codegen.fill(
        "rows",
        IN=STORAGE[dtype], OUT=STORAGE[out], WEIGHT=STORAGE[weight],
        LOAD=codegen.load_text("p", "long(j) * step", dtype), LOAD_OTHER=codegen.load_text("other", "j", dtype),
        LOAD_GRAD=codegen.load_text("grad", "off[3] + long(row)", dtype),
        STORE=codegen.store_text("y", out),
        LOAD_WEIGHT=codegen.load_text("w", "j", weight), GROUPED=int(grouped),
        SOFTMAX=int(part == "softmax"), SOFTMAX_GRADIENT=int(part == "softmax gradient"),
        NORM=int(part == "norm"), NORM_GRADIENT=int(part == "norm gradient"),
        CLASS_LOSS=int(part == "class loss"),
    )  # fmt: skip


def _geometry(x: Array, axis: int, out: Array, out_row: bool) -> list[int]:
    """rows, n, inner count, then the strides (outer, inner, element) of both arrays."""
    ndim = len(x.shape)
    axis %= ndim
    others = [d for d in range(ndim) if d != axis]
    out_strides = out.strides if len(out.strides) == ndim else None
    if out_strides is None:  # the axis is gone from the result
        out_strides = (*out.strides[:axis], 0, *out.strides[axis:])
    dims, (a, b) = collapse([x.shape[d] for d in others], [[s[d] for d in others] for s in (x.strides, out_strides)])
    if len(dims) > 2:
        raise ValueError("rows in more than two dimensions; make the operand C-ordered first")
    dims, a, b = [1] * (2 - len(dims)) + dims, [0] * (2 - len(a)) + a, [0] * (2 - len(b)) + b
    step = out_strides[axis] if out_row else 0
    return [math.prod(dims), x.shape[axis], dims[1], a[0], a[1], x.strides[axis], b[0], b[1], step]


def rows_fit(x: Array, axis: int, out: Array) -> bool:
    """Whether the rows of both arrays can be addressed without a copy."""
    try:
        _geometry(x, axis, out, True)
    except ValueError:
        return False
    return True


def _run(
    inst: Instance,
    name: str,
    text_of: functools.partial,
    geometry: list[int],
    extra: list[int],
    bindings: list,
    cost: int,
    encode: Callable[..., int] | None = None,
) -> int:
    encode = encode or inst.encode
    rows, n = geometry[0], geometry[1]
    if rows == 0 or n == 0:
        return 0
    grouped = n > SMALL
    kernel = inst.kernel(text_of(grouped=grouped), name)
    arguments = words(*geometry, *extra)
    ops = rows * n * cost
    high = -(-rows // 0x40000000)
    if not grouped:
        return encode(kernel, bindings, (min(rows, 0x40000000), high), arguments, ops=ops, label=name)
    threads = kernel.group(256)
    while threads > kernel.execution_width and threads >= 2 * n:
        threads //= 2
    return encode(
        kernel, bindings, (min(rows, 0x40000000), high), arguments,
        group=(threads, 1, 1), in_groups=True, threadgroup_bytes=4 * threads, ops=ops, label=name,
    )  # fmt: skip


def softmax(inst: Instance, x: Array, axis: int, out: Array, kind: str = "softmax") -> int:
    """``kind``: softmax, log_softmax (``out`` shaped as x) or logsumexp (``out`` without the axis)."""
    if x.dtype not in FLOATS:
        raise ValueError(f"{kind} of {x.dtype}")
    text_of = functools.partial(_text, x.dtype, out.dtype, "float32", "softmax")
    bindings = [x.binding(READ), out.binding(WRITE)]
    return _run(inst, kind, text_of, _geometry(x, axis, out, kind != "logsumexp"), [], bindings, 30)


def softmax_backward(inst: Instance, grad: Array, value: Array, out: Array, logarithm: bool) -> int:
    """The gradient of softmax (or log_softmax) over the last axis from its result ``value`` (dense); grad may be out itself.

    (grad - sum(grad * value)) * value, or grad - sum(grad) * exp(value).
    """
    if grad.dtype not in FLOATS or value.dtype != grad.dtype or value.strides != dense(value.shape):
        raise ValueError(f"softmax backward of {grad.dtype} with a result of {value.dtype}")
    text_of = functools.partial(_text, grad.dtype, out.dtype, "float32", "softmax gradient")
    bindings = [grad.binding(READ), out.binding(WRITE), value.binding(READ)]
    name = "log_softmax_backward" if logarithm else "softmax_backward"
    return _run(inst, name, text_of, _geometry(grad, -1, out, True), [], bindings, 6)


def class_loss(inst: Instance, x: Array, axis: int, classes: Array, loss: Array, status: Status, error: Exception) -> int:
    """loss = -log_softmax(x) along an axis at the class of each row; ``error`` is raised later if one is out of range.

    classes: int64; both it and loss have x's shape without the axis and are dense.
    """
    if x.dtype not in FLOATS or classes.strides != dense(classes.shape) or loss.strides != dense(loss.shape):
        raise ValueError(f"class loss of {x.dtype}")
    if x.size == 0:
        return 0
    text_of = functools.partial(_text, x.dtype, loss.dtype, "float32", "class loss")
    bindings = [x.binding(READ), loss.binding(WRITE), classes.binding(READ)]
    encode = functools.partial(status.encode, error)
    return _run(inst, "class_loss", text_of, _geometry(x, axis, loss, False), [], bindings, 20, encode)


def class_loss_backward(inst: Instance, x: Array, axis: int, classes: Array, grad: Array, out: Array) -> int:
    """out = the gradient of :func:`class_loss`, grad * (softmax(x) - one at the class); grad as the loss, out as x."""
    if x.dtype not in FLOATS or grad.dtype != x.dtype or grad.strides != dense(grad.shape):
        raise ValueError(f"class loss backward of {x.dtype} with a gradient of {grad.dtype}")
    text_of = functools.partial(_text, x.dtype, out.dtype, "float32", "class loss")
    bindings = [x.binding(READ), out.binding(WRITE), classes.binding(READ), grad.binding(READ)]
    return _run(inst, "class_loss_backward", text_of, _geometry(x, axis, out, True), [], bindings, 30)


def norm(
    inst: Instance,
    kind: str,
    x: Array,
    out: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    mean: Array | None = None,
    rstd: Array | None = None,
) -> int:
    """``layer_norm`` or ``rms_norm`` over the last axis; weight and bias are contiguous, mean and rstd
    (float32, one element per row) are written where given."""
    weight_dtype = (weight or bias or x).dtype
    if x.dtype not in FLOATS or weight_dtype not in FLOATS or (weight and bias and weight.dtype != bias.dtype):
        raise ValueError(f"{kind} of {x.dtype} with weight and bias of {weight_dtype}")
    flags = (weight is not None) | 2 * (bias is not None) | 4 * (rstd is not None)
    if kind == "layer_norm" and (mean is None) != (rstd is None):
        raise ValueError("mean and rstd go together")
    text_of = functools.partial(_text, x.dtype, out.dtype, weight_dtype, "norm")
    spare = out.binding(READ)  # an unused argument still needs a buffer
    unused = spare._replace(item_bytes=1, offset=0, access=0)
    bindings = [
        x.binding(READ),
        out.binding(WRITE),
        weight.binding(READ) if weight else unused,
        bias.binding(READ) if bias else unused,
        mean.binding(WRITE) if mean else unused,
        rstd.binding(WRITE) if rstd else unused,
    ]
    extra = [scalar_word(eps, "float32"), flags]
    return _run(inst, kind, text_of, _geometry(x, len(x.shape) - 1, out, True), extra, bindings, 12)


def _row_step(a: Array) -> int:
    """From row to row, where one step leads through all of them."""
    dims, (steps,) = collapse(a.shape[:-1], [a.strides[:-1]])
    if len(dims) > 1:
        raise ValueError("rows in more than one dimension; make the operand C-ordered first")
    return steps[0] if steps else 0


def norm_backward(
    inst: Instance,
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array | None,
    rstd: Array,
    out: Array | None = None,
    dweight: Array | None = None,
    dbias: Array | None = None,
) -> int:
    """The gradients of layer_norm (of rms_norm where mean is None) that have an array: of x (``out``), weight and bias.

    x is dense, grad has its shape and dtype and rows one step apart, mean and rstd are the forward's, float32, one element per row. Those of the
    parameters are sums of columns in float32 pairs; out may be grad itself.
    """
    shape, dtype = x.shape, x.dtype
    if dtype not in FLOATS or grad.dtype != dtype or x.strides != dense(shape):
        raise ValueError(f"norm backward of {dtype} with a gradient of {grad.dtype}")
    n, rows = shape[-1], math.prod(shape[:-1])
    if not n or not rows:
        return 0
    stamp, table = 0, (rows, n)
    flat = [a._replace(shape=table, strides=(_row_step(a), a.strides[-1]), whole=False) for a in (grad, x)]
    if dweight is not None:
        inputs = flat + [a._replace(shape=table, strides=(1, 0), whole=False) for a in (rstd, mean) if a is not None]
        instrs: list[Instr] = []

        def put(op: str, kind: str, *operands: int, to: str = "") -> int:
            instrs.append(Instr(op, kind, len(inputs) + len(instrs), operands, to))
            return instrs[-1].dst

        g, u = (0, 1) if dtype == "float32" else (put("cast", dtype, k, to="float32") for k in (0, 1))
        centred = u if mean is None else put("subtract", "float32", u, 3)
        product = put("multiply", "float32", g, put("multiply", "float32", centred, 2))
        stamp = reductions.reduce(inst, "sum", inputs, instrs, product, table, (0,), dweight, "norm backward (weight)")
    if dbias is not None:
        stamp = reductions.reduce(inst, "sum", flat[:1], [], 0, table, (0,), dbias, "norm backward (bias)")
    if out is None:
        return stamp
    weight_dtype = (weight or x).dtype
    text_of = functools.partial(_text, dtype, out.dtype, weight_dtype, "norm gradient")
    unused = out.binding(READ)._replace(item_bytes=1, offset=0, access=0)
    bindings = [
        grad.binding(READ),
        out.binding(WRITE),
        x.binding(READ),
        weight.binding(READ) if weight else unused,
        mean.binding(READ) if mean else unused,
        rstd.binding(READ),
    ]
    flags = (weight is not None) | 2 * (mean is not None)
    return _run(inst, "norm_backward", text_of, _geometry(grad, -1, out, True), [flags], bindings, 16)
