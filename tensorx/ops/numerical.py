"""Numerical calculus and statistics of samples: integrals, differences, interpolation, convolution, covariance, distances."""

from __future__ import annotations

import math

from tensorx import _core, dtypes
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import creation, elementwise, reduce
from tensorx.ops.indexing import take
from tensorx.ops.joining import concat
from tensorx.ops.matmul import common, matmul
from tensorx.ops.movement import axes_of, axis_of, broadcast_shapes, flip, unfold
from tensorx.ops.padding import pad
from tensorx.ops.reduce import _floating
from tensorx.ops.sorting import cumulative_sum, diff, searchsorted

__all__ = [
    "allclose", "array_equal", "cdist", "convolve", "corrcoef", "correlate", "cosine_similarity", "cov", "cumulative_trapezoid", "gradient",
    "interp", "trapezoid", "unwrap",
]  # fmt: skip


def _tensor(op, x, least=0):
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if x.ndim < least:
        raise ShapeError(f"{op}: needs at least {least} {'axis' if least == 1 else 'axes'}, got shape {x.shape}")
    return x


def _piece(axis, start, stop):
    return (slice(None),) * axis + (slice(start, stop),)


# ---- comparisons ------------------------------------------------------------------------------------


def allclose(x1, x2, /, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether |x1 - x2| <= atol + rtol * |x2| everywhere, as a bool; they broadcast.

    >>> import tensorx as tx
    >>> tx.allclose(tx.ones(2), tx.ones(2) * 1.000001)
    True
    """
    x, y = common("allclose", *_both("allclose", x1, x2))
    if x.dtype.kind in "biu":
        x, y = _core.cast(x, dtypes.float64), _core.cast(y, dtypes.float64)
    x, y = x.detach(), y.detach()
    near = elementwise.abs(x - y) <= atol + rtol * elementwise.abs(y)
    near = elementwise.logical_or(elementwise.logical_and(near, elementwise.isfinite(y)), x == y)
    if equal_nan:
        near = elementwise.logical_or(near, elementwise.logical_and(elementwise.isnan(x), elementwise.isnan(y)))
    return bool(reduce.all(near))


def _both(op, x1, x2):
    if not isinstance(x1, _core.Tensor):
        x1 = creation.asarray(x1, dtype=_tensor(op, x2).dtype, device=x2.device)
    if not isinstance(x2, _core.Tensor):
        x2 = creation.asarray(x2, dtype=x1.dtype, device=x1.device)
    return x1, x2


def array_equal(x1, x2, /, *, equal_nan=False):
    """Whether two tensors have one shape and equal elements, as a bool.

    >>> import tensorx as tx
    >>> tx.array_equal(tx.ones(2), tx.ones(3))
    False
    """
    if _tensor("array_equal", x1).shape != _tensor("array_equal", x2).shape:
        return False
    x, y = (t.detach() for t in common("array_equal", x1, x2))
    same = x == y
    if equal_nan and x.dtype.kind in "fc":
        same = elementwise.logical_or(same, elementwise.logical_and(elementwise.isnan(x), elementwise.isnan(y)))
    return bool(reduce.all(same))


# ---- integrals and differences ---------------------------------------------------------------------------


def _strips(op, y, x, dx, axis):
    axis = axis_of(op, axis, _tensor(op, y, 1).ndim)
    if y.dtype.kind in "biu":
        y = _core.cast(y, dtypes.float32)
    if x is None:
        width = dx
    else:
        x = _core.cast(x, y.dtype) if x.dtype.kind in "biu" else x
        if x.ndim == 1:
            if x.shape[0] != y.shape[axis]:
                raise ShapeError(f"{op}: {x.shape[0]} places for axis {axis} of size {y.shape[axis]}")
            x = x.reshape((x.shape[0],) + (1,) * (y.ndim - axis - 1))
            width = diff(x, axis=0)
        else:
            width = diff(x, axis=axis)
    return (y[_piece(axis, 1, None)] + y[_piece(axis, None, -1)]) * 0.5 * width, axis


def trapezoid(y, x=None, /, *, dx=1.0, axis=-1):
    """The integral of y along an axis by the trapezoidal rule; x: where the samples lie, dx: how far apart.

    >>> import tensorx as tx
    >>> tx.trapezoid(tx.asarray([0.0, 1.0, 2.0])).item()
    2.0
    """
    strips, axis = _strips("trapezoid", y, x, dx, axis)
    return reduce.sum(strips, axis=axis)


def cumulative_trapezoid(y, x=None, /, *, dx=1.0, axis=-1, initial=None):
    """The running integral of y along an axis by the trapezoidal rule; initial: a first element of it.

    >>> import tensorx as tx
    >>> tx.cumulative_trapezoid(tx.asarray([0.0, 1.0, 2.0])).tolist()
    [0.5, 2.0]
    """
    strips, axis = _strips("cumulative_trapezoid", y, x, dx, axis)
    out = cumulative_sum(strips, axis=axis)
    if initial is None:
        return out
    first = creation.full((*out.shape[:axis], 1, *out.shape[axis + 1 :]), float(initial), dtype=out.dtype, device=out.device)
    return concat([first, out], axis=axis)


def gradient(f, /, *spacing, axis=None, edge_order=1):
    """Derivatives of samples along axes: central differences of second order inside, one-sided of edge_order (1 or 2) at the ends.

    spacing: nothing (distance 1), one number, or for each axis a number or a vector of places.

    Returns
    -------
    Tensor like f, or a tuple of such for several axes (all by default).

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.gradient(tx.asarray([0.0, 1.0, 4.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    _tensor("gradient", f, 1)
    if f.dtype.kind in "biu":
        f = _core.cast(f, dtypes.float32)
    axes = axes_of("gradient", axis, f.ndim)
    if len(spacing) == 1:
        spacing = spacing * len(axes)
    elif not spacing:
        spacing = (1.0,) * len(axes)
    if len(spacing) != len(axes):
        raise ShapeError(f"gradient: {len(spacing)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is 1 or 2, got {edge_order!r}")
    out = tuple(_derivative(f, h, a, edge_order) for a, h in zip(axes, spacing))
    return out[0] if len(out) == 1 and (axis is None or not isinstance(axis, (tuple, list))) else out


def _derivative(f, h, a, edge_order):
    n = f.shape[a]
    if n < edge_order + 1:
        raise ShapeError(f"gradient: axis {a} has {n} elements, at least {edge_order + 1} are needed")
    places = isinstance(h, _core.Tensor) and h.ndim == 1 or isinstance(h, (list, tuple))
    if places:
        x = h if isinstance(h, _core.Tensor) else creation.asarray(h, device=f.device)
        if x.shape != (n,):
            raise ShapeError(f"gradient: {x.shape[0]} places for axis {a} of size {n}")
        x = x if x.dtype is f.dtype or x.dtype.kind == "f" else _core.cast(x, f.dtype)
        h = diff(x, axis=0).reshape((n - 1,) + (1,) * (f.ndim - a - 1))

    def at(i, j):
        """Elements i to j of f."""
        return f[_piece(a, i, j)]

    def step(i):
        return (h[i : i + 1] if i != -1 else h[-1:]) if places else h

    parts = []
    if edge_order == 1:
        parts.append((at(1, 2) - at(0, 1)) / step(0))
    else:
        h0, h1 = step(0), step(1) if places else h
        parts.append(at(0, 1) * (-(2.0 * h0 + h1) / (h0 * (h0 + h1))) + at(1, 2) * ((h0 + h1) / (h0 * h1)) - at(2, 3) * (h0 / (h1 * (h0 + h1))))
    if n > 2:
        if places:
            h0, h1 = h[:-1], h[1:]
            parts.append(at(None, -2) * (-h1 / (h0 * (h0 + h1))) + at(1, -1) * ((h1 - h0) / (h0 * h1)) + at(2, None) * (h0 / (h1 * (h0 + h1))))
        else:
            parts.append((at(2, None) - at(None, -2)) / (2.0 * h))
    if edge_order == 1:
        parts.append((at(n - 1, n) - at(n - 2, n - 1)) / step(-1))
    else:
        h0, h1 = (h[-2:-1], h[-1:]) if places else (h, h)
        parts.append(at(n - 3, n - 2) * (h1 / (h0 * (h0 + h1))) - at(n - 2, n - 1) * ((h1 + h0) / (h0 * h1)) + at(n - 1, n) * ((2.0 * h1 + h0) / (h1 * (h0 + h1))))
    return concat(parts, axis=a)


def unwrap(x, /, *, discont=None, axis=-1, period=2 * math.pi):
    """x with multiples of the period added along an axis, so that neighbours differ by no more than half of it.

    discont: smaller jumps stay as they are, half the period at least.

    >>> import tensorx as tx
    >>> [round(v, 2) for v in tx.unwrap(tx.asarray([0.0, 3.0, 6.0, 9.0 - 6.2832])).tolist()]
    [0.0, 3.0, 6.0, 9.0]
    """
    axis = axis_of("unwrap", axis, _tensor("unwrap", x, 1).ndim)
    if x.dtype.kind in "biu":
        x = _core.cast(x, dtypes.float32)
    if x.shape[axis] < 2:
        return x.copy()
    half = period / 2
    d = diff(x.detach(), axis=axis)
    inside = elementwise.remainder(d + half, float(period)) - half
    inside = elementwise.where(elementwise.logical_and(inside == -half, d > 0), half, inside)
    correction = elementwise.where(elementwise.abs(d) < (half if discont is None else discont), 0.0, inside - d)
    moved = cumulative_sum(correction, axis=axis)
    first = creation.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), dtype=moved.dtype, device=x.device)
    return x + concat([first, moved], axis=axis)


def interp(x, xp, fp, /, left=None, right=None, *, period=None):
    """Values at x of the polygon through the points (xp, fp), xp increasing; outside the first and last value, or left and right.

    period: xp and x are taken modulo it. Differentiable in x and fp.

    >>> import tensorx as tx
    >>> tx.interp(tx.asarray([0.5, 9.0]), tx.asarray([0.0, 1.0]), tx.asarray([0.0, 10.0])).tolist()
    [5.0, 10.0]
    """
    if not isinstance(x, _core.Tensor):
        x = creation.asarray(x, dtype=_tensor("interp", xp).dtype, device=xp.device)
    if _tensor("interp", xp).ndim != 1 or _tensor("interp", fp).ndim != 1 or xp.shape != fp.shape or xp.shape[0] == 0:
        raise ShapeError(f"interp: xp and fp must be vectors of equal size with elements, got shapes {xp.shape} and {fp.shape}")
    x, xp = (_core.cast(t, dtypes.float32) if t.dtype.kind in "biu" else t for t in (x, xp))
    fp = _core.cast(fp, dtypes.float32) if fp.dtype.kind in "biu" else fp
    x, xp = common("interp", x, xp)
    if period is not None:
        from tensorx.ops.sorting import argsort

        period = abs(float(period))
        if period == 0:
            raise ValueError("interp: the period must not be 0")
        x, xp = elementwise.remainder(x, period), elementwise.remainder(xp, period)
        order = argsort(xp.detach())
        xp, fp = take(xp, order, axis=0), take(fp, order, axis=0)
        xp = concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = concat([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    if n == 1:
        out = fp[0] + x * 0.0
    else:
        low = elementwise.clip(searchsorted(xp.detach(), x.detach(), side="right") - 1, 0, n - 2)
        x0, x1, f0, f1 = take(xp, low), take(xp, low + 1), take(fp, low), take(fp, low + 1)
        gap = x1 - x0
        part = (x - x0) / elementwise.where(gap == 0, 1.0, gap)
        out = elementwise.where(x >= x1, f1, f0 + (f1 - f0) * part)
    first, last = xp[0].detach(), xp[-1].detach()
    out = elementwise.where(x < first, fp[0] if left is None else left, out)
    out = elementwise.where(x > last, fp[-1] if right is None else right, out)
    return elementwise.where(elementwise.isnan(x), x if x.dtype is out.dtype else _core.cast(x, out.dtype), out)


# ---- convolution --------------------------------------------------------------------------------------------


def convolve(x1, x2, /, mode="full"):
    """The convolution of two vectors: sums of x1[i] * x2[k - i]. mode "full", "same" (length of the longer) or "valid" (no ends).

    >>> import tensorx as tx
    >>> tx.convolve(tx.asarray([1, 2, 3]), tx.asarray([1, 1])).tolist()
    [1, 3, 5, 3]
    """
    a, b = _vectors("convolve", x1, x2, mode)
    if b.shape[0] > a.shape[0]:
        a, b = b, a
    return _slide(a, flip(b), mode)


def correlate(x1, x2, /, mode="valid"):
    """The cross-correlation of two vectors: sums of x1[k + i] * conj(x2[i]), as NumPy's.

    >>> import tensorx as tx
    >>> tx.correlate(tx.asarray([1, 2, 3]), tx.asarray([1, 1])).tolist()
    [3, 5]
    """
    a, b = _vectors("correlate", x1, x2, mode)
    b = elementwise.conj(b) if b.dtype.kind == "c" else b
    if b.shape[0] > a.shape[0]:
        return flip(_slide(b, a, mode))
    return _slide(a, b, mode)


def _vectors(op, x1, x2, mode):
    a, b = common(op, x1, x2)
    if a.ndim != 1 or b.ndim != 1 or 0 in (a.shape[0], b.shape[0]):
        raise ShapeError(f"{op}: needs two vectors with elements, got shapes {x1.shape} and {x2.shape}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{op}: mode is 'full', 'same' or 'valid', got {mode!r}")
    return (_core.cast(a, dtypes.int64), _core.cast(b, dtypes.int64)) if a.dtype is dtypes.bool else (a, b)


def _slide(a, b, mode):
    """Products of b with all windows of the longer a."""
    m = b.shape[0]
    ends = {"full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2), "valid": (0, 0)}[mode]
    return matmul(unfold(pad(a, ends) if m > 1 and mode != "valid" else a, 0, m, 1), b)


# ---- statistics ------------------------------------------------------------------------------------------------


def cov(x, /, *, correction=1, rowvar=True, weights=None):
    """The covariance matrix of variables, one in each row (rowvar=False: column), with n - correction in the denominator.

    weights: how much each observation counts (with correction=1 they are frequencies).

    >>> import tensorx as tx
    >>> tx.cov(tx.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if _tensor("cov", x).ndim > 2:
        raise ShapeError(f"cov: needs one or two axes, got shape {x.shape}")
    scalar = x.ndim < 2
    if x.ndim < 2:
        x = x.reshape((1, x.size))
    elif not rowvar:
        x = x.mT
    x, dtype = _floating("cov", x)
    if weights is None:
        total = float(x.shape[1])
        centred = x - reduce.mean(x, axis=1, keepdims=True) if x.shape[1] else x
        other = centred
    else:
        if weights.shape != (x.shape[1],):
            raise ShapeError(f"cov: weights of shape {weights.shape} for {x.shape[1]} observations")
        w = _core.cast(weights, x.dtype)
        total = reduce.sum(w)
        centred = x - reduce.sum(x * w, axis=1, keepdims=True) / total
        other = centred * w
    left = total - correction
    if isinstance(left, float):
        left = left if left > 0 else math.nan
    out = matmul(other, (elementwise.conj(centred) if x.dtype.kind == "c" else centred).mT) / left
    out = out if out.dtype is dtype else _core.cast(out, dtype)
    return out.reshape(()) if scalar else out


def corrcoef(x, /, *, rowvar=True):
    """The matrix of correlation coefficients of variables, one in each row (rowvar=False: column), within -1 and 1.

    >>> import tensorx as tx
    >>> tx.corrcoef(tx.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, rowvar=rowvar)
    if c.ndim == 0:
        return c / c
    d = c.diagonal()
    d = elementwise.sqrt(elementwise.real(d) if d.dtype.kind == "c" else d)
    d = _core.cast(d, c.dtype) if d.dtype is not c.dtype else d
    out = c / d.reshape((d.shape[0], 1)) / d
    return out if out.dtype.kind == "c" else elementwise.clip(out, -1.0, 1.0)


def cosine_similarity(x1, x2, /, *, axis=-1, eps=1e-8):
    """Cosines of the angles between vectors along an axis; they broadcast. Norms count as eps at least.

    >>> import tensorx as tx
    >>> tx.cosine_similarity(tx.asarray([1.0, 0.0]), tx.asarray([1.0, 1.0])).item() < 0.7072
    True
    """
    x, y = common("cosine_similarity", x1, x2)
    (x, dtype), (y, _) = _floating("cosine_similarity", x), _floating("cosine_similarity", y)
    n = len(broadcast_shapes(x.shape, y.shape))
    axis = axis_of("cosine_similarity", axis, n) - n
    norms = [elementwise.maximum(reduce.norm(t, axis=axis), eps) for t in (x, y)]
    out = reduce.sum((elementwise.conj(x) if x.dtype.kind == "c" else x) * y, axis=axis) / (norms[0] * norms[1])
    return out if out.dtype is dtype else _core.cast(out, dtype)


def cdist(x1, x2, /, p=2.0):
    """Distances between all rows of two matrices (batches broadcast), by the p-norm: shape ``(..., m, n)``.

    Computed from the differences, without cancellation; the gradient at distance 0 is 0.

    >>> import tensorx as tx
    >>> tx.cdist(tx.asarray([[0.0, 0.0]]), tx.asarray([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    x, y = common("cdist", x1, x2)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"cdist: needs matrices with equally many columns, got shapes {x1.shape} and {x2.shape}")
    if p < 0:
        raise ValueError(f"cdist: p must not be negative, got {p}")
    d = x.reshape((*x.shape[:-1], 1, x.shape[-1])) - y.reshape((*y.shape[:-2], 1, *y.shape[-2:]))
    if d.shape[-1] == 0:
        return reduce.sum(elementwise.abs(d), axis=-1)
    return reduce.norm(d, ord=p, axis=-1)


_core.add_method("allclose", allclose)
