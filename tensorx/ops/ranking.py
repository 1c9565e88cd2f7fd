"""By order and rank: topk, running extremes, median, quantiles, mode."""

from __future__ import annotations

import math
import operator
from collections import namedtuple

from tensorx import _core, dtypes
from tensorx.autograd.function import Function
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import _host, creation, elementwise, reduce
from tensorx.ops.indexing import take_along_axis
from tensorx.ops.movement import axes_of, axis_of
from tensorx.ops.reduce import _back, _floating
from tensorx.ops.sorting import argsort, sort

__all__ = [
    "cummax", "cummin", "kthvalue", "logcumsumexp", "median", "mode", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
    "topk",
]  # fmt: skip

Ranked = namedtuple("Ranked", ["values", "indices"])
ModeResult = namedtuple("ModeResult", ["mode", "count"])


def _ordered(op, x):
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if x.dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order")
    if x.ndim == 0:
        raise ShapeError(f"{op}: a 0-d tensor has no axis")
    return x


def _part(x, axis, index):
    return x[(slice(None),) * axis + (index,)]


# ---- the largest ---------------------------------------------------------------------------------


def topk(x, k, /, *, axis=-1, largest=True, sorted=True):
    """The k largest (or smallest) elements along an axis and their positions: (values, indices).

    They come in order whatever ``sorted`` says; equal ones with the first position first. NaN are taken last.

    >>> import tensorx as tx
    >>> values, indices = tx.topk(tx.asarray([3.0, 1.0, 2.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0], [0, 2])
    """
    axis = axis_of("topk", axis, _ordered("topk", x).ndim)
    k = operator.index(k)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"topk: {k} elements of an axis of {x.shape[axis]} (shape {x.shape})")
    n = x.shape[axis]
    few = n >= 4096 and 16 * k <= n and x.size <= 64 * n and x.device.type == "cpu"
    order = _few(x, k, axis, bool(largest)) if few else None
    if order is None:
        order = _part(argsort(x.detach(), axis=axis, descending=bool(largest)), axis, slice(k)).contiguous()
    return Ranked(take_along_axis(x, order, axis=axis), order)


def _few(x, k, axis, largest):
    """The positions of topk for few elements of long lines, by selection instead of sorting; None where there are NaN."""
    import numpy as np

    values = np.moveaxis(_host.array(x), axis, -1)
    n = values.shape[-1]
    out = np.empty((*values.shape[:-1], k), np.int64)
    for at in np.ndindex(out.shape[:-1]):
        line = values[at]
        if line.dtype.kind == "f" and np.isnan(line).any():
            return None
        if not k:
            continue
        edge = np.partition(line, n - k if largest else k - 1)[n - k if largest else k - 1]
        near = np.flatnonzero(line >= edge if largest else line <= edge)
        found = line[near]
        # stable: the first of equal elements comes first, in descending order too
        order = near.size - 1 - np.argsort(found[::-1], kind="stable")[::-1] if largest else np.argsort(found, kind="stable")
        out[at] = near[order[:k]]
    return _host.tensor(np.moveaxis(out, -1, axis), x, dtypes.int64)


def kthvalue(x, k, /, *, axis=-1, keepdims=False):
    """The k-th smallest element along an axis, k counted from 1, and its position: (values, indices).

    >>> import tensorx as tx
    >>> tx.kthvalue(tx.asarray([3.0, 1.0, 2.0]), 2).values.item()
    2.0
    """
    axis = axis_of("kthvalue", axis, _ordered("kthvalue", x).ndim)
    k = operator.index(k)
    if not 1 <= k <= x.shape[axis]:
        raise ShapeError(f"kthvalue: element {k} of an axis of {x.shape[axis]} (shape {x.shape}); k counts from 1")
    order = _part(argsort(x.detach(), axis=axis), axis, slice(k - 1, k)).contiguous()
    values = take_along_axis(x, order, axis=axis)
    if not keepdims:
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        values, order = values.reshape(shape), order.reshape(shape)
    return Ranked(values, order)


def _running(op, x, axis, ufunc):
    import numpy as np

    axis = axis_of(op, axis, _ordered(op, x).ndim)
    if x.device.type == "metal":
        return _running_there(x, axis, "max" if ufunc == "maximum" else "min")
    values = _host.array(x)
    best = getattr(np, ufunc).accumulate(values, axis=axis)
    hit = values == best
    if values.dtype.kind == "f":
        hit |= values != values
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    at = np.maximum.accumulate(np.where(hit, places, 0), axis=axis)
    order = _host.tensor(at, x, dtypes.int64)
    return Ranked(take_along_axis(x, order, axis=axis) if x.requires_grad else _host.tensor(best, x, x.dtype), order)


def _running_there(x, axis, name):
    from tensorx.metal import ordering

    values = x.detach()
    best = ordering.running(name, values, axis)
    hit = elementwise.equal(values, best)
    if values.dtype.kind == "f":
        hit = elementwise.logical_or(hit, elementwise.isnan(values))
    places = creation.arange(x.shape[axis], device=x.device).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    order = ordering.running("max", elementwise.where(hit, places, 0), axis)
    return Ranked(take_along_axis(x, order, axis=axis) if x.requires_grad else best, order)


def cummax(x, /, *, axis=-1):
    """The largest element so far along an axis and its position, the last of equal ones: (values, indices). NaN stays.

    >>> import tensorx as tx
    >>> tx.cummax(tx.asarray([1, 3, 2])).values.tolist()
    [1, 3, 3]
    """
    return _running("cummax", x, axis, "maximum")


def cummin(x, /, *, axis=-1):
    """The smallest element so far along an axis and its position, the last of equal ones: (values, indices). NaN stays.

    >>> import tensorx as tx
    >>> tx.cummin(tx.asarray([2, 3, 1])).values.tolist()
    [2, 2, 1]
    """
    return _running("cummin", x, axis, "minimum")


class LogCumSumExp(Function):
    @staticmethod
    def forward(ctx, x, axis, reverse):
        import numpy as np

        values = _host.array(x)
        if reverse:
            values = np.flip(values, axis)
        with np.errstate(invalid="ignore"):
            out = np.logaddexp.accumulate(values, axis=axis)
        out = _host.tensor(np.flip(out, axis) if reverse else out, x)
        ctx.axis, ctx.reverse = axis, reverse
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, g):
        """exp(x) times the sum of g exp(-out) from there on, in logarithms: no exponential overflows."""
        x, out = ctx.saved_tensors
        parts = []
        for sign in (1.0, -1.0):
            h = g * sign
            some = h > 0
            logs = elementwise.where(some, elementwise.log(elementwise.where(some, h, 1.0)) - out, -math.inf)
            parts.append(elementwise.exp(LogCumSumExp.apply(logs, ctx.axis, not ctx.reverse) + x))
        return parts[0] - parts[1], None, None


def logcumsumexp(x, /, *, axis=-1):
    """log of the running sum of exp(x) along an axis, without overflow.

    >>> import tensorx as tx
    >>> [round(v, 4) for v in tx.logcumsumexp(tx.zeros(3)).tolist()]
    [0.0, 0.6931, 1.0986]
    """
    axis = axis_of("logcumsumexp", axis, _ordered("logcumsumexp", x).ndim)
    x, dtype = _floating("logcumsumexp", x)
    return _back(LogCumSumExp.apply(x, axis, False) if x.size else x.copy(), dtype)


# ---- quantiles ------------------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _line(op, x, axis):
    """x in floating point with the given axes merged into a last one, the dtype to go back to, the axes."""
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if x.dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order")
    axes = axes_of(op, axis, x.ndim)
    x, dtype = _floating(op, x)
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    n = math.prod(x.shape[i] for i in axes)
    return _core.permute_view(x, (*rest, *axes)).reshape((*(x.shape[i] for i in rest), n)), dtype, axes


def _ranks(op, x, q, axis, keepdims, method, ignore_nan):
    """Quantiles q (float64, one axis) along axes; they come as a new first axis."""
    if method not in _METHODS:
        raise ValueError(f"{op}: method is one of {', '.join(_METHODS)}, got {method!r}")
    shape = x.shape if isinstance(x, _core.Tensor) else ()
    x, dtype, axes = _line(op, x, axis)
    n = x.shape[-1]
    kept = tuple(1 if i in axes else s for i, s in enumerate(shape)) if keepdims else x.shape[:-1]
    if n == 0:
        return _back(creation.full((q.size, *kept), math.nan, dtype=x.dtype, device=x.device), dtype)
    ordered = sort(x, axis=-1)
    nan = elementwise.isnan(x.detach())
    if ignore_nan:
        valid = n - _core.cast(reduce.count_nonzero(nan, axis=-1, keepdims=True), dtypes.float64 if x.device.type == "cpu" else dtypes.float32)
    else:
        valid = creation.full((*x.shape[:-1], 1), float(n), dtype=dtypes.float64 if x.device.type == "cpu" else dtypes.float32, device=x.device)
    place = elementwise.maximum(valid - 1.0, 0.0) * _core.cast(q, valid.dtype)
    low, high = elementwise.floor(place), elementwise.ceil(place)
    part = place - low
    if method == "lower":
        high, part = low, part * 0.0
    elif method == "higher":
        low, part = high, part * 0.0
    elif method == "midpoint":
        part = elementwise.where(low == high, 0.0, 0.5)
    elif method == "nearest":
        low = high = elementwise.round(place)
        part = part * 0.0
    a = take_along_axis(ordered, _core.cast(low, dtypes.int64), axis=-1)
    b = take_along_axis(ordered, _core.cast(high, dtypes.int64), axis=-1)
    part = _core.cast(part, x.dtype)
    # an infinite neighbour that has no weight must not make NaN
    out = elementwise.where(part == 0, a, a + (elementwise.where(part == 0, a, b) - a) * part)
    bad = valid == 0 if ignore_nan else reduce.any(nan, axis=-1, keepdims=True)
    out = elementwise.where(bad, math.nan, out)
    return _back(_core.permute_view(out, (out.ndim - 1, *range(out.ndim - 1))).reshape((q.size, *kept)), dtype)


def _quantile(op, x, q, axis, keepdims, method, ignore_nan, scale=1.0):
    device = x.device if isinstance(x, _core.Tensor) else None
    if isinstance(q, _core.Tensor):
        q = q.detach()
    else:
        q = creation.asarray(q, dtype=dtypes.float64, device="cpu")
    values = _core.cast(q.to("cpu", copy=False), dtypes.float64) / scale
    if values.size and not bool(reduce.all(elementwise.logical_and(values >= 0.0, values <= 1.0))):
        raise ValueError(f"{op}: q must lie between 0 and {scale:g}")
    flat = values.reshape((values.size,))
    if device is not None and device.type != "cpu":
        flat = _core.cast(flat, dtypes.float32).to(device)
    out = _ranks(op, x, flat, axis, keepdims, method, ignore_nan)
    return out.reshape((*values.shape, *out.shape[1:]))


def quantile(x, q, /, *, axis=None, keepdims=False, method="linear"):
    """The values below which a part q (a number or several, 0 to 1) of the elements lies, over axes (all by default).

    method: what to do between two elements: "linear", "lower", "higher", "midpoint" or "nearest". Several q come as first
    axes. NaN where there is one. Integers give float32; differentiable.

    >>> import tensorx as tx
    >>> tx.quantile(tx.asarray([1.0, 2.0, 3.0, 4.0]), 0.5).item()
    2.5
    """
    return _quantile("quantile", x, q, axis, keepdims, method, False)


def nanquantile(x, q, /, *, axis=None, keepdims=False, method="linear"):
    """:func:`quantile` of the elements that are not NaN.

    >>> import tensorx as tx
    >>> tx.nanquantile(tx.asarray([1.0, tx.nan, 3.0]), 0.5).item()
    2.0
    """
    return _quantile("nanquantile", x, q, axis, keepdims, method, True)


def percentile(x, q, /, *, axis=None, keepdims=False, method="linear"):
    """:func:`quantile` with q from 0 to 100.

    >>> import tensorx as tx
    >>> tx.percentile(tx.asarray([1.0, 2.0, 3.0]), 50).item()
    2.0
    """
    return _quantile("percentile", x, q, axis, keepdims, method, False, 100.0)


def nanpercentile(x, q, /, *, axis=None, keepdims=False, method="linear"):
    """:func:`percentile` of the elements that are not NaN.

    >>> import tensorx as tx
    >>> tx.nanpercentile(tx.asarray([1.0, tx.nan, 3.0]), 100).item()
    3.0
    """
    return _quantile("nanpercentile", x, q, axis, keepdims, method, True, 100.0)


def median(x, /, *, axis=None, keepdims=False):
    """The element in the middle of the order, or the mean of the two there, over axes (all by default). NaN where there is one.

    (PyTorch's median takes the lower of two.)

    >>> import tensorx as tx
    >>> tx.median(tx.asarray([3.0, 1.0, 2.0, 4.0])).item()
    2.5
    """
    return _quantile("median", x, 0.5, axis, keepdims, "linear", False)


def nanmedian(x, /, *, axis=None, keepdims=False):
    """:func:`median` of the elements that are not NaN.

    >>> import tensorx as tx
    >>> tx.nanmedian(tx.asarray([3.0, tx.nan, 1.0])).item()
    2.0
    """
    return _quantile("nanmedian", x, 0.5, axis, keepdims, "linear", True)


def mode(x, /, *, axis=-1, keepdims=False):
    """The most frequent element along an axis, the smallest of several, and how often it occurs: (mode, count).

    >>> import tensorx as tx
    >>> tx.mode(tx.asarray([1, 3, 3, 2])).mode.item()
    3
    """
    import numpy as np

    axis = axis_of("mode", axis, _ordered("mode", x).ndim)
    n = x.shape[axis]
    if n == 0:
        raise ShapeError(f"mode: axis {axis} of shape {x.shape} has no elements")
    order = argsort(x.detach(), axis=axis)
    values = np.moveaxis(np.take_along_axis(_host.array(x), _host.array(order), axis), axis, -1)
    first = np.ones(values.shape, bool)
    first[..., 1:] = values[..., 1:] != values[..., :-1]
    at = np.arange(n)
    length = at - np.maximum.accumulate(np.where(first, at, 0), axis=-1) + 1
    best = np.argmax(length, axis=-1)
    count = np.take_along_axis(length, best[..., None], -1)
    place = np.take_along_axis(np.moveaxis(_host.array(order), axis, -1), best[..., None], -1)
    if keepdims:
        count, place = np.moveaxis(count, -1, axis), np.moveaxis(place, -1, axis)
    chosen = take_along_axis(x, _host.tensor(np.moveaxis(place, -1, axis) if not keepdims else place, x, dtypes.int64), axis=axis)
    if not keepdims:
        chosen, count = chosen.reshape((*x.shape[:axis], *x.shape[axis + 1 :])), count[..., 0]
    return ModeResult(chosen, _host.tensor(count, x, dtypes.int64))


for _name in __all__:
    _core.add_method(_name, globals()[_name])
del _name
