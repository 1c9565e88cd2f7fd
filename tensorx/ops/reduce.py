"""Reductions, and the row operations softmax, log_softmax, logsumexp, layer_norm, rms_norm.

A pending expression is the prologue of a reduction: ``((x - y) ** 2).mean()`` is one pass over
x and y without an intermediate. Sums of float32 accumulate in double, those of float16 and
bfloat16 in float32 or better; results do not depend on the number of threads.
"""

from __future__ import annotations

import builtins
import math

from tensorx import _core, dtypes
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops._record import record, wanted
from tensorx.ops.movement import axes_of, axis_of
from tensorx.spelling import refuse, shown

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "layer_norm", "log_softmax", "logsumexp", "max", "mean", "min",
    "norm", "prod", "rms_norm", "softmax", "std", "sum", "var",
]  # fmt: skip

SUM, PROD, MAX, MIN, ANY, ALL, ARGMAX, ARGMIN, SUMSQ, SUMABS = range(10)


def _reduce(name, code, x, axis, keepdims, **saved):
    keepdims = True if keepdims else False  # half the time of bool()
    axes = axes_of(name, axis, x.ndim)
    out = _core.reduce(code, x, axes, keepdims)
    if wanted((x,)):
        return record(name, (x,), out, axes=axes, keepdims=keepdims, **saved)
    return out


def _numeric(name, x):
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{name}: expected a tensor, got {type(x).__name__}; use tx.asarray")


def sum(x, /, *rest, axis=None, dtype=None, keepdims=False, **other):
    """Sum over axes (all by default).

    Small integers widen to int64 or uint64 and bool to int64, floats keep their dtype; dtype converts first.

    >>> import tensorx as tx
    >>> tx.sum(tx.asarray([200, 100], dtype=tx.uint8)).item()
    300
    """
    if rest or other:
        refuse(sum, rest, other)
    _numeric("sum", x)
    if dtype is not None:
        wanted = dtype_from(dtype)
        out = _reduce("sum", SUM, x if wanted is x.dtype else _core.cast(x, wanted), axis, keepdims)
        return out if out.dtype is wanted else _core.cast(out, wanted)
    return _reduce("sum", SUM, x, axis, keepdims)


def prod(x, /, *rest, axis=None, dtype=None, keepdims=False, **other):
    """Product over axes (all by default); dtypes as :func:`sum`.

    >>> import tensorx as tx
    >>> tx.prod(tx.asarray([1.0, 2.0, 4.0])).item()
    8.0
    """
    if rest or other:
        refuse(prod, rest, other)
    _numeric("prod", x)
    if dtype is not None:
        wanted = dtype_from(dtype)
        out = _reduce("prod", PROD, x if wanted is x.dtype else _core.cast(x, wanted), axis, keepdims)
        return out if out.dtype is wanted else _core.cast(out, wanted)
    return _reduce("prod", PROD, x, axis, keepdims)


def _needs_elements(name, x, axes):
    for a in axes:
        if x.shape[a] == 0:
            raise ShapeError(f"{name}: axis {a} of shape {x.shape} has no elements, and {name} of nothing has no value")


def _extreme(name, code, x, axis, keepdims):
    _numeric(name, x)
    axes = axes_of(name, axis, x.ndim)
    if not x.size:
        _needs_elements(name, x, axes)
    if x.dtype.kind == "c":
        raise DTypeError(f"{name}: complex numbers have no order")
    keepdims = True if keepdims else False
    out = _core.reduce(code, x, axes, keepdims)
    if wanted((x,)):
        return record(name, (x,), out, axes=axes, keepdims=keepdims)
    return out


def max(x, /, *rest, axis=None, keepdims=False, **other):
    """Largest element over axes (all by default); NaN if there is one, and a tie shares its gradient evenly.

    >>> import tensorx as tx
    >>> tx.max(tx.asarray([[1, 5], [3, 2]]), axis=0).tolist()
    [3, 5]
    """
    if rest or other:
        refuse(max, rest, other)
    return _extreme("max", MAX, x, axis, keepdims)


def min(x, /, *rest, axis=None, keepdims=False, **other):
    """Smallest element over axes (all by default); NaN if there is one.

    >>> import tensorx as tx
    >>> tx.min(tx.asarray([3.0, 1.0])).item()
    1.0
    """
    if rest or other:
        refuse(min, rest, other)
    return _extreme("min", MIN, x, axis, keepdims)


def _arg(name, code, x, axis, keepdims):
    _numeric(name, x)
    axes = tuple(range(x.ndim)) if axis is None else (axis_of(name, axis, x.ndim),)
    _needs_elements(name, x, axes)
    if x.dtype.kind == "c":
        raise DTypeError(f"{name}: complex numbers have no order")
    return _core.reduce(code, x, axes, builtins.bool(keepdims))


def argmax(x, /, *rest, axis=None, keepdims=False, **other):
    """Index of the first largest element along an axis, or in C order without one; the first NaN counts as largest.

    >>> import tensorx as tx
    >>> tx.argmax(tx.asarray([1.0, 3.0, 3.0])).item()
    1
    """
    if rest or other:
        refuse(argmax, rest, other)
    return _arg("argmax", ARGMAX, x, axis, keepdims)


def argmin(x, /, *rest, axis=None, keepdims=False, **other):
    """Index of the first smallest element along an axis, or in C order without one; the first NaN counts as smallest.

    >>> import tensorx as tx
    >>> tx.argmin(tx.asarray([[3, 1], [0, 2]]), axis=1).tolist()
    [1, 0]
    """
    if rest or other:
        refuse(argmin, rest, other)
    return _arg("argmin", ARGMIN, x, axis, keepdims)


def _truth(name, code, x, axis, keepdims):
    _numeric(name, x)
    axes = axes_of(name, axis, x.ndim)
    return _core.reduce(code, x if x.dtype is dtypes.bool else _core.cast(x.detach(), dtypes.bool), axes, builtins.bool(keepdims))


def any(x, /, *rest, axis=None, keepdims=False, **other):
    """Whether any element is true (not zero) over axes (all by default); of nothing False.

    >>> import tensorx as tx
    >>> tx.any(tx.asarray([0, 2])).item()
    True
    """
    if rest or other:
        refuse(any, rest, other)
    return _truth("any", ANY, x, axis, keepdims)


def all(x, /, *rest, axis=None, keepdims=False, **other):
    """Whether all elements are true (not zero) over axes (all by default); of nothing True.

    >>> import tensorx as tx
    >>> tx.all(tx.asarray([0, 2])).item()
    False
    """
    if rest or other:
        refuse(all, rest, other)
    return _truth("all", ALL, x, axis, keepdims)


def count_nonzero(x, /, *rest, axis=None, keepdims=False, **other):
    """Number of elements that are not zero over axes (all by default), int64.

    >>> import tensorx as tx
    >>> tx.count_nonzero(tx.asarray([0, 2, 3])).item()
    2
    """
    if rest or other:
        refuse(count_nonzero, rest, other)
    _numeric("count_nonzero", x)
    axes = axes_of("count_nonzero", axis, x.ndim)
    return _core.reduce(SUM, x if x.dtype is dtypes.bool else _core.cast(x.detach(), dtypes.bool), axes, builtins.bool(keepdims))


def _floating(name, x):
    """(x as float32 or wider, dtype of the result): integers become float32, halves compute in float32."""
    _numeric(name, x)
    if x.dtype.kind in "biu":
        return _core.cast(x, dtypes.float32), dtypes.float32
    if x.dtype.itemsize == 2:
        return _core.cast(x, dtypes.float32), x.dtype
    return x, x.dtype


def _count(x, axes):
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def _back(out, dtype):
    return out if out.dtype is dtype else _core.cast(out, dtype)


def mean(x, /, *rest, axis=None, keepdims=False, **other):
    """Arithmetic mean over axes (all by default); of nothing NaN. Integers give float32.

    >>> import tensorx as tx
    >>> tx.mean(tx.asarray([1.0, 2.0, 6.0])).item()
    3.0
    """
    if rest or other:
        refuse(mean, rest, other)
    x, dtype = _floating("mean", x)
    axes = axes_of("mean", axis, x.ndim)
    n = _count(x, axes)
    total = _reduce("sum", SUM, x, axes, keepdims)
    return _back(total / (float(n) if n else 0.0), dtype)


def var(x, /, *rest, axis=None, correction=0.0, keepdims=False, **other):
    """Variance over axes (all by default): the mean squared distance from the mean, with n - correction in the denominator.

    correction=0 is the array API's and NumPy's default; PyTorch's is 1. Computed in two passes. NaN where n <= correction.

    >>> import tensorx as tx
    >>> tx.var(tx.asarray([1.0, 3.0])).item(), tx.var(tx.asarray([1.0, 3.0]), correction=1).item()
    (1.0, 2.0)
    """
    if rest or other:
        refuse(var, rest, other)
    x, dtype = _floating("var", x)
    axes = axes_of("var", axis, x.ndim)
    n = _count(x, axes)
    _core.evaluate(x)
    centre = mean(x, axis=axes, keepdims=True)
    squares = _reduce("sumsq", SUMSQ, x - centre, axes, keepdims)
    left = n - correction
    if left <= 0:
        return _back(squares * math.nan, _real(dtype))
    return _back(squares / float(left), _real(dtype))


def _real(dtype):
    return {"complex64": dtypes.float32, "complex128": dtypes.float64}.get(dtype.name, dtype)


def std(x, /, *rest, axis=None, correction=0.0, keepdims=False, **other):
    """Standard deviation over axes: the square root of :func:`var`.

    >>> import tensorx as tx
    >>> tx.std(tx.asarray([1.0, 3.0])).item()
    1.0
    """
    if rest or other:
        refuse(std, rest, other)
    x, dtype = _floating("std", x)
    import tensorx

    return _back(tensorx.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims)), _real(dtype))


def norm(x, /, *rest, ord=2, axis=None, keepdims=False, **other):
    """Vector norm over axes (all by default): (sum |x|**ord) ** (1/ord); inf and -inf are the largest and smallest
    absolute value, 0 the number of non-zeros. The gradient of the 2-norm at 0 is 0.

    >>> import tensorx as tx
    >>> tx.norm(tx.asarray([3.0, 4.0])).item()
    5.0
    """
    if rest or other:
        refuse(norm, rest, other)
    import tensorx

    x, dtype = _floating("norm", x)
    axes = axes_of("norm", axis, x.ndim)
    dtype = _real(dtype)
    keepdims = builtins.bool(keepdims)
    if ord == 2:
        squares = _core.reduce(SUMSQ, x, axes, keepdims)
        out = record("norm2", (x,), tensorx.sqrt(squares), axes=axes, keepdims=keepdims)
    elif ord == 1:
        out = _reduce("sum", SUM, tensorx.abs(x), axes, keepdims)
    elif ord == math.inf:
        out = _extreme("max", MAX, tensorx.abs(x), axes, keepdims)
    elif ord == -math.inf:
        out = _extreme("min", MIN, tensorx.abs(x), axes, keepdims)
    elif ord == 0:
        out = _core.cast(count_nonzero(x, axis=axes, keepdims=keepdims), dtype)
    else:
        out = _reduce("sum", SUM, tensorx.abs(x) ** float(ord), axes, keepdims) ** (1.0 / ord)
    return _back(out, dtype)


# ---- rows -----------------------------------------------------------------------------------------


def _rows(name, x, axis, **kw):
    """A row kernel along any axis: moved to the end and back, without copying either way."""
    a = axis_of(name, axis, x.ndim) if x.ndim else 0
    if x.ndim == 0:
        return _rows(name, x.reshape((1,)), 0, **kw).reshape(())
    if a == x.ndim - 1:
        return _core.row_op(_core.ROW_CODES[name], x, **kw)
    order = [*(i for i in range(x.ndim) if i != a), a]
    out = _core.row_op(_core.ROW_CODES[name], _core.permute_view(x, tuple(order)), **kw)
    if name == "logsumexp":
        return out
    back = [order.index(i) for i in range(x.ndim)]
    return _core.permute_view(out, tuple(back))


def _soft(name, x, axis, dtype):
    if dtype is not None:
        x = _core.cast(x, dtype_from(dtype))
    x, result = _floating(name, x)
    if x.dtype.kind == "c":
        raise DTypeError(f"{name}: complex numbers have no order")
    a = axis_of(name, axis, x.ndim) if x.ndim else 0
    raw = x.detach()
    out = _rows(name, raw, a)
    return _back(record(name, (x,), out, axis=a), result)


def softmax(x, /, *rest, axis=-1, dtype=None, **other):
    """exp(x) / sum(exp(x)) along an axis, without overflow; a row of -inf gives NaN. float16 and bfloat16 compute in float32.

    >>> import tensorx as tx
    >>> tx.softmax(tx.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    if rest or other:
        refuse(softmax, rest, other)
    return _soft("softmax", x, axis, dtype)


def log_softmax(x, /, *rest, axis=-1, dtype=None, **other):
    """The logarithm of :func:`softmax`, computed accurately.

    >>> import tensorx as tx
    >>> round(tx.log_softmax(tx.asarray([0.0, 0.0]))[0].item(), 4)
    -0.6931
    """
    if rest or other:
        refuse(log_softmax, rest, other)
    return _soft("log_softmax", x, axis, dtype)


def logsumexp(x, /, *rest, axis=None, keepdims=False, **other):
    """log(sum(exp(x))) over axes (all by default), without overflow; -inf for a row of -inf.

    >>> import tensorx as tx
    >>> round(tx.logsumexp(tx.asarray([0.0, 0.0])).item(), 4)
    0.6931
    """
    if rest or other:
        refuse(logsumexp, rest, other)
    import tensorx

    x, result = _floating("logsumexp", x)
    axes = axes_of("logsumexp", axis, x.ndim)
    raw = x.detach()
    if _count(x, axes) == 0 or not axes:
        out = tensorx.log(_core.reduce(SUM, tensorx.exp(raw), axes, builtins.bool(keepdims))) if axes else raw.copy()
    else:
        order = [*(i for i in range(x.ndim) if i not in axes), *axes]
        kept = tuple(x.shape[i] for i in range(x.ndim) if i not in axes)
        flat = tensorx.reshape(_core.permute_view(raw, tuple(order)), (*kept, _count(x, axes)))
        out = _rows("logsumexp", flat, -1)
        if keepdims:
            out = out.reshape(tuple(1 if i in axes else s for i, s in enumerate(x.shape)))
    return _back(record("logsumexp", (x,), out, axes=axes, keepdims=builtins.bool(keepdims)), result)


def _affine(name, p, x, n):
    """A weight or bias as a contiguous row of x's dtype."""
    if p is None:
        return None
    if p.size != n:
        raise ShapeError(f"{name}: a parameter of shape {p.shape} for rows of {n} elements")
    if p.device is not x.device:
        from tensorx.errors import DeviceMismatchError

        raise DeviceMismatchError(f"{name}: the input is on {x.device} and a parameter on {p.device}; move one with .to()")
    return _core.cast(p.detach(), x.dtype).contiguous().reshape((n,)) if p.dtype is not x.dtype else p.detach().contiguous().reshape((n,))


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """x normalised to mean 0 and variance 1 over its last axes, then times weight plus bias (Ba, Kiros, Hinton 2016).

    normalized_shape: the sizes of those axes (an int or tuple). Statistics are computed in double for float32.

    >>> import tensorx as tx
    >>> tx.layer_norm(tx.asarray([1.0, 3.0]), 2, eps=0.0).tolist()
    [-1.0, 1.0]
    """
    return _normalise("layer_norm", x, normalized_shape, weight, bias, eps)


def rms_norm(x, normalized_shape, weight=None, eps=1e-6):
    """x divided by its root mean square over its last axes, then times weight (Zhang, Sennrich 2019).

    >>> import tensorx as tx
    >>> tx.rms_norm(tx.asarray([3.0, -3.0]), 2, eps=0.0).tolist()
    [1.0, -1.0]
    """
    return _normalise("rms_norm", x, normalized_shape, weight, None, eps)


def _normalise(name, x, normalized_shape, weight, bias, eps):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ShapeError(f"{name}: normalized_shape {shape} is not the end of the input's shape {x.shape}")
    full, result = _floating(name, x)
    n = 1
    for s in shape:
        n *= s
    rows = full.size // n if n else 0
    raw = full.detach()
    flat = raw if len(shape) == 1 else raw.reshape((*x.shape[: x.ndim - len(shape)], n))
    w, b = _affine(name, weight, full, n), _affine(name, bias, full, n)
    tracked = full.requires_grad or builtins.any(p is not None and p.requires_grad for p in (weight, bias))
    mean = rstd = None
    if tracked:
        rstd = _core.empty((rows,), full.dtype, full.device.number, False, name)
        mean = _core.empty((rows,), full.dtype, full.device.number, False, name) if name == "layer_norm" else None
    if name == "layer_norm":
        out = _core.row_op(_core.ROW_CODES[name], flat, w, b, float(eps), mean, rstd)
    else:
        out = _core.row_op(_core.ROW_CODES[name], flat, w, None, float(eps), None, rstd)
    if len(shape) > 1:
        out = out.reshape(x.shape)
    inputs = (full, weight, bias) if name == "layer_norm" else (full, weight)
    return _back(record(name, inputs, out, n=n, mean=mean, rstd=rstd, eps=float(eps)), result)


for _name in __all__:
    _core.add_method(_name, globals()[_name])
del _name


for _f in (all, any, argmax, argmin, count_nonzero, log_softmax, logsumexp, max, mean, min, norm, prod, softmax, std, sum, var):
    shown(_f)
del _f
