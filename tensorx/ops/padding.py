"""pad: more elements at the ends of axes."""

from __future__ import annotations

import operator

from tensorx import _core, dtypes
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import creation
from tensorx.ops.assigning import slice_assign
from tensorx.ops.indexing import take
from tensorx.ops.movement import axis_of

__all__ = ["pad"]

_MODES = {"constant": "constant", "edge": "edge", "replicate": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap", "circular": "wrap"}


def _widths(pad_width, ndim):
    """(before, after) for each axis."""
    if isinstance(pad_width, dict):
        out = [(0, 0)] * ndim
        for axis, w in pad_width.items():
            out[axis_of("pad", axis, ndim)] = _widths(w, 1)[0]
        return out
    try:
        n = operator.index(pad_width)
        return [(n, n)] * ndim
    except TypeError:
        pass
    try:
        parts = list(pad_width)
        if parts and all(not hasattr(p, "__len__") for p in parts):
            if len(parts) not in (1, 2):
                raise TypeError
            pair = (operator.index(parts[0]), operator.index(parts[-1]))
            return [pair] * ndim
        pairs = [(operator.index(p[0]), operator.index(p[-1])) for p in parts if len(p) in (1, 2)]
    except (TypeError, IndexError, KeyError):
        pairs, parts = [], [None]
    if len(pairs) != len(parts):
        raise ShapeError(f"pad: pad_width is an int, a pair (before, after), a pair for each axis or a dict by axis, got {pad_width!r}")
    if len(pairs) == 1:
        return pairs * ndim
    if len(pairs) != ndim:
        raise ShapeError(f"pad: {len(pairs)} pairs {tuple(pairs)} for a tensor of {ndim} axes")
    return pairs


def _positions(n, before, after, mode):
    """Where the elements of a padded axis come from."""
    import numpy as np

    at = np.arange(-before, n + after)
    if mode == "edge" or (mode == "reflect" and n == 1):
        return np.clip(at, 0, n - 1)
    if mode == "wrap":
        return at % n
    period = 2 * n if mode == "symmetric" else 2 * (n - 1)
    at = at % period
    return np.where(at < n, at, period - at - (mode == "symmetric"))


def pad(x, pad_width, /, mode="constant", *, value=0):
    """x with more elements at the ends of its axes.

    Parameters
    ----------
    x : Tensor
    pad_width : int, (before, after), one pair for each axis, or dict of such by axis
        Negative numbers cut elements off.
    mode : str
        "constant" (value), "edge" or "replicate" (the last element), "reflect" (mirrored at the last element), "symmetric"
        (mirrored behind it), "wrap" or "circular" (from the other end).
    value : number or 0-d tensor
        For "constant".

    Returns
    -------
    Tensor, a copy; differentiable.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.pad(tx.asarray([1, 2, 3]), (1, 2)).tolist()
    [0, 1, 2, 3, 0, 0]
    >>> tx.pad(tx.asarray([1, 2, 3]), 2, "reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"pad: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if mode not in _MODES:
        raise ValueError(f"pad: mode is one of {', '.join(repr(m) for m in _MODES)}, got {mode!r}")
    mode, widths = _MODES[mode], _widths(pad_width, x.ndim)
    cuts = []
    for a, ((before, after), n) in enumerate(zip(widths, x.shape)):
        start, stop = max(-before, 0), n - max(-after, 0)
        if start > stop:
            raise ShapeError(f"pad: {before} and {after} cut more than axis {a} of size {n} has")
        cuts.append(slice(start, stop))
    if any(b < 0 or e < 0 for b, e in widths):
        x = x[tuple(cuts)]
    widths = [(max(b, 0), max(e, 0)) for b, e in widths]
    if mode == "constant":
        if not any(b or e for b, e in widths):
            return x.copy()
        shape = tuple(n + b + e for n, (b, e) in zip(x.shape, widths))
        if isinstance(value, _core.Tensor):
            out = _core.broadcast_view(value.astype(x.dtype, copy=False), shape)
        else:
            if x.dtype is dtypes.bool and value in (0, 1):
                value = bool(value)
            out = creation.full(shape, value, dtype=x.dtype, device=x.device)
        return slice_assign(out, tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, widths)), x)
    out = x
    for a, (before, after) in enumerate(widths):
        if before or after:
            n = x.shape[a]
            if n == 0:
                raise ShapeError(f"pad: axis {a} has no elements and mode {mode!r} nothing to repeat")
            out = take(out, creation.asarray(_positions(n, before, after, mode), device=x.device), axis=a)
    return out.copy() if out is x else out


_core.add_method("pad", pad)
