"""Counting: histograms, bincount, digitize, unravel_index, and scatter_reduce."""

from __future__ import annotations

import builtins
import math
import operator
from collections import namedtuple

from tensorx import _core, dtypes
from tensorx.autograd.function import Function
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import _host, creation, elementwise
from tensorx.ops.assigning import _scattered, index_add, scatter, scatter_add, slice_assign
from tensorx.ops.indexing import gather, take
from tensorx.ops.joining import concat
from tensorx.ops.movement import flip
from tensorx.ops.sorting import searchsorted, sort

__all__ = ["bincount", "digitize", "histogram", "histogram2d", "histogramdd", "ravel_multi_index", "scatter_reduce", "unravel_index"]

HistogramResult = namedtuple("HistogramResult", ["hist", "bin_edges"])
Histogram2dResult = namedtuple("Histogram2dResult", ["hist", "x_edges", "y_edges"])


def _real(op, x):
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if x.dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order")
    return _host.array(x)


def _weights(op, x, weights):
    _host.one_device(op, x, weights)
    return _real(op, weights)


def _bins(bins):
    return _host.array(bins) if isinstance(bins, _core.Tensor) else bins


def _edges_dtype(x):
    return x.dtype if x.dtype.kind == "f" else dtypes.float32


def _numpy(op, function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except ValueError as error:
        raise ValueError(f"{op}: {error}") from None


# ---- histograms ---------------------------------------------------------------------------------


def histogram(x, /, bins=10, range=None, *, weights=None, density=False):
    """How many elements lie in each of a row of intervals: (hist, bin_edges).

    Parameters
    ----------
    bins : int, or increasing tensor or sequence of edges
        The last interval includes its end. An int makes so many of equal width.
    range : (low, high), optional
        Of the intervals; by default that of the elements.
    weights : tensor like x, optional
        Added up instead of ones.
    density : bool
        Divides by total and width, so that the integral is 1.

    Returns
    -------
    hist, int64 (float64 or float32 with weights or density), and the edges, one more.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.histogram(tx.asarray([1.0, 2.0, 2.5]), 2, (1, 3)).hist.tolist()
    [1, 2]
    """
    import numpy as np

    there = _histogram_there(x, bins, range) if weights is None and not density else None
    if there is not None:
        return there
    values = _real("histogram", x)
    w = None if weights is None else _weights("histogram", x, weights)
    hist, edges = _numpy("histogram", np.histogram, values, _bins(bins), range, density=density, weights=w)
    dtype = None
    if weights is not None and weights.dtype.kind == "f":
        dtype = weights.dtype
    elif hist.dtype.kind == "f":
        dtype = _edges_dtype(x)
    return HistogramResult(_host.tensor(hist, x, dtype), _host.tensor(edges, x, _edges_dtype(x)))


def _histogram_there(x, bins, range):
    """The same by the kernels of x's device; None where it has none."""
    import numpy as np

    if not isinstance(x, _core.Tensor) or x.device.type != "metal" or x.dtype is not dtypes.float32 or not x.size or isinstance(bins, str):
        return None
    ends = np.asarray(_host.extremes(x) if range is None else range, np.float32) if np.ndim(bins) == 0 else np.zeros(2, np.float32)
    edges = _numpy("histogram", np.histogram_bin_edges, ends, _bins(bins), range)
    exact = edges.astype(np.float32)
    if not np.array_equal(exact, edges):
        return None
    line = sort(x.detach().reshape((x.size,)))
    limits = creation.asarray(exact, device=x.device)
    starts = searchsorted(line, limits)
    stop = searchsorted(line, limits[-1:], side="right")
    return HistogramResult(concat([starts[1:-1], stop]) - starts[:-1], _core.cast(limits, x.dtype))


def histogram2d(x, y, /, bins=10, range=None, *, weights=None, density=False):
    """How many pairs of elements lie in each field of a grid: (hist, x_edges, y_edges); see :func:`histogramdd`.

    >>> import tensorx as tx
    >>> tx.histogram2d(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 2.0]), 2).hist.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    import numpy as np

    w = None if weights is None else _weights("histogram2d", x, weights)
    bins = [_bins(b) for b in bins] if isinstance(bins, (list, tuple)) else _bins(bins)
    hist, xe, ye = _numpy("histogram2d", np.histogram2d, _real("histogram2d", x), _real("histogram2d", y), bins, range, density=density, weights=w)
    return Histogram2dResult(*(_host.tensor(t, x, _edges_dtype(x)) for t in (hist, xe, ye)))


def histogramdd(x, /, bins=10, range=None, *, weights=None, density=False):
    """How many rows of a matrix lie in each field of a grid of as many axes as it has columns: (hist, tuple of edges).

    >>> import tensorx as tx
    >>> tx.histogramdd(tx.asarray([[1.0, 1.0], [2.0, 2.0]]), 2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    import numpy as np

    w = None if weights is None else _weights("histogramdd", x, weights)
    bins = [_bins(b) for b in bins] if isinstance(bins, (list, tuple)) else bins
    hist, edges = _numpy("histogramdd", np.histogramdd, _real("histogramdd", x), bins, range, density=density, weights=w)
    dtype = _edges_dtype(x)
    return HistogramResult(_host.tensor(hist, x, dtype), tuple(_host.tensor(e, x, dtype) for e in edges))


def bincount(x, /, weights=None, minlength=0):
    """How often each of the integers 0, 1, 2, ... occurs (int64), or the sum of its weights (differentiable).

    The result has max(x) + 1 elements, at least minlength. ValueError for negative integers.

    >>> import tensorx as tx
    >>> tx.bincount(tx.asarray([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    import numpy as np

    if not isinstance(x, _core.Tensor) or x.dtype.kind not in "iu":
        raise DTypeError("bincount: needs a tensor of integers")
    if x.ndim != 1:
        raise ShapeError(f"bincount: needs one axis, got shape {x.shape}")
    if minlength < 0:
        raise ValueError(f"bincount: minlength must not be negative, got {minlength}")
    low, high = _host.extremes(x) if x.size else (0, -1)
    if low < 0:
        raise ValueError(f"bincount: there are negative integers, down to {low}")
    n = builtins.max(high + 1, operator.index(minlength))
    if weights is None:
        if x.device.type == "metal":
            ones = creation.ones((), dtype=dtypes.int64, device=x.device)
            return index_add(creation.zeros(n, dtype=dtypes.int64, device=x.device), 0, x.detach(), ones)
        return _host.tensor(np.bincount(_host.array(x).astype(np.int64), minlength=n), x, dtypes.int64)
    _host.one_device("bincount", x, weights)
    if weights.shape != x.shape:
        raise ShapeError(f"bincount: weights of shape {weights.shape} for shape {x.shape}")
    if weights.dtype in (dtypes.float32, dtypes.float64):
        return _Weighted.apply(weights, x, n)
    dtype = weights.dtype if weights.dtype.kind in "fc" else dtypes.int64
    zeros = creation.zeros(n, dtype=dtype, device=x.device)
    return index_add(zeros, 0, x, weights if weights.dtype is dtype else _core.cast(weights, dtype))


class _Weighted(Function):
    """Sums of real weights, accumulated in double."""

    @staticmethod
    def forward(ctx, weights, x, n):
        import numpy as np

        ctx.save_for_backward(x)
        return _host.tensor(np.bincount(_host.array(x).astype(np.int64), _host.array(weights), n), weights, weights.dtype)

    @staticmethod
    def backward(ctx, g):
        return take(g, ctx.saved_tensors[0], axis=0), None, None


def digitize(x, bins, /, *, right=False):
    """The interval that each element lies in: i with bins[i - 1] <= x < bins[i] (right=True: < and <=), int64.

    bins increases or decreases. 0 and len(bins) mean outside.

    >>> import tensorx as tx
    >>> tx.digitize(tx.asarray([0.5, 1.0, 5.0]), tx.asarray([0.0, 1.0, 2.0])).tolist()
    [1, 2, 3]
    """
    edges = _real("digitize", bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins needs one axis, got shape {bins.shape}")
    down = edges.size > 1 and bool(edges[0] > edges[-1])
    steps = edges[1:] <= edges[:-1] if down else edges[1:] >= edges[:-1]
    if not steps.all():
        raise ValueError("digitize: bins must increase or decrease")
    if down:
        return edges.size - searchsorted(flip(bins, axis=0), x, side="left" if right else "right")
    return searchsorted(bins, x, side="left" if right else "right")


# ---- positions in a shape ------------------------------------------------------------------------------


def unravel_index(indices, shape, /):
    """Positions in C order as one index for each axis of a shape: a tuple of int64 tensors.

    >>> import tensorx as tx
    >>> [i.tolist() for i in tx.unravel_index(tx.asarray([0, 5]), (2, 3))]
    [[0, 1], [0, 2]]
    """
    shape = creation.check_shape("unravel_index", shape)
    if not isinstance(indices, _core.Tensor):
        indices = creation.asarray(indices)
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"unravel_index: needs integers, got {indices.dtype.name}")
    size = math.prod(shape)
    rest = _core.cast(indices, dtypes.int64)
    if rest.size and (int(rest.min()) < 0 or int(rest.max()) >= size):
        bad = int(rest.min()) if int(rest.min()) < 0 else int(rest.max())
        raise IndexError(f"unravel_index: {bad} is out of range for {size} elements of shape {shape}")
    out = []
    for n in reversed(shape):
        out.append(rest % n)
        rest = rest // n
    return tuple(reversed(out))


def ravel_multi_index(indices, shape, /):
    """One index for each axis as positions in C order: int64.

    >>> import tensorx as tx
    >>> tx.ravel_multi_index((tx.asarray([0, 1]), tx.asarray([0, 2])), (2, 3)).tolist()
    [0, 5]
    """
    shape = creation.check_shape("ravel_multi_index", shape)
    indices = tuple(i if isinstance(i, _core.Tensor) else creation.asarray(i) for i in indices)
    if len(indices) != len(shape):
        raise ShapeError(f"ravel_multi_index: {len(indices)} indices for shape {shape}")
    out = None
    for axis, (i, n) in enumerate(zip(indices, shape)):
        i = _core.cast(i, dtypes.int64)
        if i.size and (int(i.min()) < 0 or int(i.max()) >= n):
            raise IndexError(f"ravel_multi_index: an index is out of range for axis {axis} of size {n}")
        out = i if out is None else out * n + i
    return out


# ---- scatter_reduce ---------------------------------------------------------------------------------------

_UFUNCS = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}
_REDUCTIONS = {"sum": "sum", "add": "sum", "prod": "prod", "multiply": "prod", "mean": "mean", "amax": "amax", "max": "amax", "amin": "amin", "min": "amin"}


class _Collect(Function):
    """prod, amax or amin of what is scattered to each place, with what is there."""

    @staticmethod
    def forward(ctx, x, src, axis, index, reduction):
        import numpy as np

        out = _host.array(x).copy()
        places = _host.array(index)
        corner = _host.array(src)[tuple(slice(n) for n in places.shape)]
        where = list(np.indices(places.shape, sparse=True))
        where[axis] = places
        getattr(np, _UFUNCS[reduction]).at(out, tuple(where), corner)
        y = _host.tensor(out, x, x.dtype)
        ctx.axis, ctx.reduction = axis, reduction
        ctx.save_for_backward(x, src, index, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, src, index, y = ctx.saved_tensors
        axis = ctx.axis
        whole, src = src, src[tuple(slice(n) for n in index.shape)]
        if ctx.reduction == "prod":
            zero_x, zero_src = x.detach() == 0, src.detach() == 0
            count = scatter_add(_core.cast(zero_x, dtypes.int64), axis, index, _core.cast(zero_src, dtypes.int64))
            full = _Collect.apply(elementwise.where(zero_x, 1.0, x), elementwise.where(zero_src, 1.0, src), axis, index, "prod")

            def share(value, zero, count, product):
                """The product of all others: with one zero, only that one's is not 0."""
                rest = elementwise.where(count == 0, product / elementwise.where(zero, 1.0, value), 0.0)
                return elementwise.where(elementwise.logical_and(zero, count == 1), product, rest)

            gx = g * share(x, zero_x, count, full)
            gs = gather(g, axis, index) * share(src, zero_src, gather(count, axis, index), gather(full, axis, index))
        else:
            hit_x, hit_src = x.detach() == y.detach(), src.detach() == gather(y.detach(), axis, index)
            count = scatter_add(_core.cast(hit_x, g.dtype), axis, index, _core.cast(hit_src, g.dtype))
            part = g / elementwise.maximum(count, 1.0)
            gx = elementwise.where(hit_x, part, 0.0)
            gs = elementwise.where(hit_src, gather(part, axis, index), 0.0)
        if whole.shape != src.shape:
            zeros = creation.zeros(whole.shape, dtype=gs.dtype, device=gs.device)
            gs = slice_assign(zeros, tuple(slice(n) for n in src.shape), gs)
        return gx, gs, None, None, None


def scatter_reduce(x, axis, index, src, /, reduce, *, include_self=True):
    """x with elements of src reduced into the places that index names; see :meth:`Tensor.scatter_`.

    reduce: "sum", "prod", "mean", "amax" or "amin". include_self: whether what is in x takes part. Extremes share their
    gradient evenly.

    >>> import tensorx as tx
    >>> tx.scatter_reduce(tx.zeros(2), 0, tx.asarray([0, 0, 1]), tx.asarray([1.0, 5.0, 2.0]), "amax").tolist()
    [5.0, 2.0]
    """
    if reduce not in _REDUCTIONS:
        raise ValueError(f"scatter_reduce: reduce is one of 'sum', 'prod', 'mean', 'amax', 'amin', got {reduce!r}")
    reduction = _REDUCTIONS[reduce]
    axis, index, src, _ = _scattered("scatter_reduce", x, axis, index, src)
    if not isinstance(src, _core.Tensor) or src.shape != index.shape:
        if not isinstance(src, _core.Tensor):
            src = creation.full(index.shape, src, dtype=x.dtype, device=x.device)
        elif src.ndim == 0:
            src = _core.broadcast_view(src, index.shape)
    src = src if src.dtype is x.dtype else _core.cast(src, x.dtype)
    if x.dtype.kind == "c" and reduction in ("amax", "amin"):
        raise DTypeError(f"scatter_reduce: complex numbers have no order, {reduction} is not defined")
    start = x
    if not include_self:
        neutral = {"sum": 0, "mean": 0, "prod": 1}.get(reduction)
        if neutral is None:
            low = reduction == "amax"
            if x.dtype.kind == "f":
                neutral = -math.inf if low else math.inf
            elif x.dtype.kind == "b":
                neutral = not low
            else:
                limits = dtypes.iinfo(x.dtype)
                neutral = limits.min if low else limits.max
        start = scatter(x, axis, index, bool(neutral) if x.dtype.kind == "b" else neutral)
    if reduction in ("sum", "mean"):
        out = scatter_add(start, axis, index, src)
        if reduction == "sum":
            return out
        wide = x.dtype if x.dtype.kind in "fc" else dtypes.int64
        ones = creation.full(index.shape, 1, dtype=wide, device=x.device)
        counts = scatter_add(creation.full(x.shape, 1 if include_self else 0, dtype=wide, device=x.device), axis, index, ones)
        counts = elementwise.where(counts == 0, _one(wide), counts)
        if x.dtype.kind in "fc":
            return out / counts
        return _core.cast(elementwise.floor_divide(_core.cast(out, wide), counts), x.dtype)
    if x.dtype.itemsize == 2 and x.dtype.kind == "f":
        wide = _Collect.apply(_core.cast(start, dtypes.float32), _core.cast(src, dtypes.float32), axis, index, reduction)
        return _core.cast(wide, x.dtype)
    return _Collect.apply(start, src, axis, index, reduction)


def _one(dtype):
    return 1 if dtype.kind == "i" else 1.0


def scatter_reduce_(self, axis, index, src, /, reduce, *, include_self=True):
    """Writes :func:`tensorx.scatter_reduce` of the tensor into it; returns it."""
    return self.copy_(scatter_reduce(self, axis, index, src, reduce, include_self=include_self))


_core.add_method("scatter_reduce", scatter_reduce)
_core.add_method("scatter_reduce_", scatter_reduce_)
_core.add_method("bincount", bincount)
