"""Reductions that leave NaN out."""

from __future__ import annotations

import math

from tensorx import _core, dtypes
from tensorx.errors import DTypeError
from tensorx.ops import elementwise, reduce
from tensorx.ops.reduce import _back, _floating, _real

__all__ = ["nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _split(op, x):
    """Where x is NaN, or None for dtypes without NaN."""
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    return elementwise.isnan(x.detach()) if x.dtype.kind in "fc" else None


def nansum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sum of the elements that are not NaN; see :func:`tensorx.sum`.

    >>> import tensorx as tx
    >>> tx.nansum(tx.asarray([1.0, tx.nan])).item()
    1.0
    """
    nan = _split("nansum", x)
    return reduce.sum(x if nan is None else elementwise.where(nan, 0.0, x), axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Product of the elements that are not NaN; see :func:`tensorx.prod`.

    >>> import tensorx as tx
    >>> tx.nanprod(tx.asarray([2.0, tx.nan])).item()
    2.0
    """
    nan = _split("nanprod", x)
    return reduce.prod(x if nan is None else elementwise.where(nan, 1.0, x), axis=axis, dtype=dtype, keepdims=keepdims)


def _counts(nan, dtype, axis, keepdims):
    return reduce.sum(elementwise.where(nan, 0.0, _ones(nan, dtype)), axis=axis, keepdims=keepdims)


def _ones(like, dtype):
    return _core.full_like_scalar(like.shape, 1, dtype, like.device.number)


def nanmean(x, /, *, axis=None, keepdims=False):
    """Mean of the elements that are not NaN, NaN where there is none; see :func:`tensorx.mean`.

    >>> import tensorx as tx
    >>> tx.nanmean(tx.asarray([1.0, tx.nan, 3.0])).item()
    2.0
    """
    if _split("nanmean", x) is None:
        return reduce.mean(x, axis=axis, keepdims=keepdims)
    x, dtype = _floating("nanmean", x)
    nan = elementwise.isnan(x.detach())
    return _back(nansum(x, axis=axis, keepdims=keepdims) / _counts(nan, _real(x.dtype), axis, keepdims), dtype)


def nanvar(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variance of the elements that are not NaN, NaN where there are no more than ``correction``; see :func:`tensorx.var`.

    >>> import tensorx as tx
    >>> tx.nanvar(tx.asarray([1.0, tx.nan, 3.0])).item()
    1.0
    """
    if _split("nanvar", x) is None:
        return reduce.var(x, axis=axis, correction=correction, keepdims=keepdims)
    x, dtype = _floating("nanvar", x)
    nan = elementwise.isnan(x.detach())
    real = _real(x.dtype)
    count = _counts(nan, real, axis, True)
    centre = nansum(x, axis=axis, keepdims=True) / count
    distance = elementwise.where(nan, 0.0, x - centre)
    square = distance * distance if x.dtype.kind == "f" else elementwise.abs(distance) ** 2
    left = count - float(correction)
    out = reduce.sum(square, axis=axis, keepdims=True) / elementwise.where(left > 0, left, math.nan)
    if not keepdims:
        axes = reduce.axes_of("nanvar", axis, x.ndim)
        out = out.reshape(tuple(n for i, n in enumerate(x.shape) if i not in axes))
    return _back(out, _real(dtype))


def nanstd(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviation of the elements that are not NaN: the square root of :func:`nanvar`.

    >>> import tensorx as tx
    >>> tx.nanstd(tx.asarray([1.0, tx.nan, 3.0])).item()
    1.0
    """
    return elementwise.sqrt(nanvar(x, axis=axis, correction=correction, keepdims=keepdims))


def _extreme(op, x, axis, keepdims, function, worst):
    nan = _split(op, x)
    if nan is None or x.dtype.kind == "c":
        return function(x, axis=axis, keepdims=keepdims)
    out = function(elementwise.where(nan, worst, x), axis=axis, keepdims=keepdims)
    return elementwise.where(reduce.all(nan, axis=axis, keepdims=keepdims), math.nan, out)


def nanmax(x, /, *, axis=None, keepdims=False):
    """Largest of the elements that are not NaN, NaN where there is none; see :func:`tensorx.max`.

    >>> import tensorx as tx
    >>> tx.nanmax(tx.asarray([1.0, tx.nan])).item()
    1.0
    """
    return _extreme("nanmax", x, axis, keepdims, reduce.max, -math.inf)


def nanmin(x, /, *, axis=None, keepdims=False):
    """Smallest of the elements that are not NaN, NaN where there is none; see :func:`tensorx.min`.

    >>> import tensorx as tx
    >>> tx.nanmin(tx.asarray([1.0, tx.nan])).item()
    1.0
    """
    return _extreme("nanmin", x, axis, keepdims, reduce.min, math.inf)


def _place(op, x, axis, keepdims, function, worst):
    nan = _split(op, x)
    if nan is None:
        return function(x, axis=axis, keepdims=keepdims)
    if bool(reduce.any(reduce.all(nan, axis=axis))):
        raise ValueError(f"{op}: there are only NaN along axis {axis} somewhere")
    # an element that is as bad as what NaN is replaced by must not lose against it
    x = x.detach()
    candidates = elementwise.where(nan, worst, x)
    best = function(candidates, axis=axis, keepdims=True)
    hit = elementwise.logical_and(candidates == _at(candidates, best, axis), elementwise.logical_not(nan))
    return reduce.argmax(_core.cast(hit, dtypes.uint8), axis=axis, keepdims=keepdims)


def _at(x, index, axis):
    from tensorx.ops.indexing import take_along_axis

    if axis is None:
        return x.reshape((x.size,))[index.reshape(())]
    return take_along_axis(x, index, axis=axis)


def nanargmax(x, /, *, axis=None, keepdims=False):
    """Index of the first largest element that is not NaN; ValueError where there is none; see :func:`tensorx.argmax`.

    >>> import tensorx as tx
    >>> tx.nanargmax(tx.asarray([tx.nan, 1.0, 3.0])).item()
    2
    """
    return _place("nanargmax", x, axis, keepdims, reduce.argmax, -math.inf)


def nanargmin(x, /, *, axis=None, keepdims=False):
    """Index of the first smallest element that is not NaN; ValueError where there is none; see :func:`tensorx.argmin`.

    >>> import tensorx as tx
    >>> tx.nanargmin(tx.asarray([tx.nan, 1.0, 3.0])).item()
    1
    """
    return _place("nanargmin", x, axis, keepdims, reduce.argmin, math.inf)


for _name in __all__:
    _core.add_method(_name, globals()[_name])
del _name
