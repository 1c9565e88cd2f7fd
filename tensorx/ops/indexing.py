"""Reading by index: ``x[...]``, take, gather, masks, positions.

Basic indices (integers, slices, None, Ellipsis) give views, made by the core. Everything here
that takes an index array, a list or a mask gives a copy of its own, except where a docstring
says "a view".
"""

from __future__ import annotations

import operator

from tensorx import _core, dtypes
from tensorx._core import Tensor
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import elementwise
from tensorx.ops._record import record
from tensorx.ops.movement import axis_of, broadcast_shapes, reshape

__all__ = [
    "argwhere", "diagonal", "gather", "index_select", "masked_select", "nonzero", "roll", "select", "take",
    "take_along_axis", "where",
]  # fmt: skip


def _getitem(x, index):
    return record("getitem", (x,), _core.index_get(x, index), index=index)


_core.hooks.getitem = _getitem


# ---- shared with assigning.py ---------------------------------------------------------


def tensor_of(op, x):
    """x, which must be a tensor."""
    if not isinstance(x, Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}")
    return x


def index_array(op, index, x):
    """An integer index (tensor, array, list or int) as a tensor on x's device."""
    index = _core.as_index(index, x, op)
    if index.dtype is dtypes.bool:
        raise IndexError(f"{op}: the index must hold integers, not bools; masks are for x[mask], masked_select and masked_fill")
    return index


def index_line(op, index, x):
    """The same with one axis at most; a single index counts as one of length 1."""
    index = index_array(op, index, x)
    if index.ndim > 1:
        raise ShapeError(f"{op}: the index must have one axis, got shape {index.shape}")
    return _core.reshape_view(index, (1,)) if index.ndim == 0 else index


def mask_array(op, mask, x):
    """A bool mask (tensor, array, list or truth value) as a tensor on x's device."""
    if not isinstance(mask, Tensor):
        mask = _core.as_index(mask, x, op)
    if mask.dtype is not dtypes.bool:
        raise DTypeError(f"{op}: the mask must be bool, got {mask.dtype.name}; compare or use astype(tx.bool)")
    return _core.as_index(mask, x, op)


def mask_for(op, mask, x, shape):
    """A bool mask on x's device, broadcast to a shape (a view)."""
    mask = mask_array(op, mask, x)
    if mask.shape == shape:
        return mask
    if len(mask.shape) > len(shape) or any(m not in (1, s) for m, s in zip(mask.shape[::-1], shape[::-1])):
        raise ShapeError(f"{op}: a mask of shape {mask.shape} does not broadcast to {shape}: aligned from the right, sizes must be equal or 1")
    return _core.broadcast_view(mask.detach(), shape)


# ---- take -----------------------------------------------------------------------------


def take(x, indices, /, *, axis=None):
    """Slices of x along an axis, at the positions in indices: a copy.

    Parameters
    ----------
    x : Tensor
    indices : integer tensor, array, list or int
        Of any shape; negative values count from the end. IndexError where one is out of range.
    axis : int, optional
        Without it x is read as one line, in C order.

    Returns
    -------
    Tensor of shape ``x.shape[:axis] + indices.shape + x.shape[axis + 1:]``

    Examples
    --------
    >>> import tensorx as tx
    >>> x = tx.asarray([[1, 2], [3, 4], [5, 6]])
    >>> tx.take(x, tx.asarray([2, 0]), axis=0).tolist()
    [[5, 6], [1, 2]]
    """
    tensor_of("take", x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if x.ndim == 0:
        raise ShapeError("take: a 0-d tensor has no axis to take from")
    axis = axis_of("take", axis, x.ndim)
    indices = index_array("take", indices, x)
    return record("take", (x,), _core.take_axis(x, indices, axis, "take"), indices=indices, axis=axis)


def index_select(x, axis, index, /):
    """The slices of x at the positions of a one-dimensional index along axis: a copy.

    >>> import tensorx as tx
    >>> tx.index_select(tx.asarray([[1, 2], [3, 4]]), 1, tx.asarray([1])).tolist()
    [[2], [4]]
    """
    tensor_of("index_select", x)
    axis = axis_of("index_select", axis, x.ndim)
    index = index_line("index_select", index, x)
    return record("take", (x,), _core.take_axis(x, index, axis, "index_select"), indices=index, axis=axis)


def gather(x, axis, index, /):
    """One element of x for each element of index: ``out[i][j] = x[index[i][j]][j]`` for axis 0. A copy.

    index has as many axes as x and, on the other axes, is no longer than x; the result has its shape. Negative
    indices count from the end; IndexError where one is out of range. See also :func:`take_along_axis`.

    >>> import tensorx as tx
    >>> tx.gather(tx.asarray([[1, 2], [3, 4]]), 1, tx.asarray([[0, 0], [1, 0]])).tolist()
    [[1, 1], [4, 3]]
    """
    tensor_of("gather", x)
    axis = axis_of("gather", axis, x.ndim)
    index = index_array("gather", index, x)
    return record("gather", (x,), _core.gather_along(x, index, axis, "gather"), index=index, axis=axis)


def along_axis(op, x, indices, axis):
    """x and indices for an op along an axis, broadcast against each other on the others."""
    indices = index_array(op, indices, x)
    if indices.ndim != x.ndim or x.ndim == 0:
        raise ShapeError(f"{op}: the tensor of shape {x.shape} and the indices of shape {indices.shape} must have equally many axes, at least one")
    axis = axis_of(op, axis, x.ndim)
    a = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    b = (*indices.shape[:axis], 1, *indices.shape[axis + 1 :])
    common = broadcast_shapes(a, b)
    shape = (*common[:axis], indices.shape[axis], *common[axis + 1 :])
    if indices.shape != shape:
        indices = _core.broadcast_view(indices.detach(), shape)
    return indices, axis, (*common[:axis], x.shape[axis], *common[axis + 1 :])


def take_along_axis(x, indices, /, *, axis=-1):
    """One element of x for each element of indices along an axis, as :func:`argsort` and :func:`argmax` give them: a copy.

    x and indices broadcast on the other axes. IndexError where an index is out of range.

    >>> import tensorx as tx
    >>> x = tx.asarray([[10, 30, 20], [60, 40, 50]])
    >>> tx.take_along_axis(x, tx.asarray([[1], [0]]), axis=1).tolist()
    [[30], [60]]
    """
    tensor_of("take_along_axis", x)
    indices, axis, shape = along_axis("take_along_axis", x, indices, axis)
    if x.shape != shape:
        x = _core.broadcast_view(x, shape)
    return record("gather", (x,), _core.gather_along(x, indices, axis, "take_along_axis"), index=indices, axis=axis)


# ---- masks and positions ----------------------------------------------------------------


def masked_select(x, mask, /):
    """The elements of x where mask is true, in C order, as one line: a copy. x and mask broadcast.

    >>> import tensorx as tx
    >>> x = tx.asarray([[1, 2], [3, 4]])
    >>> tx.masked_select(x, x > 1).tolist()
    [2, 3, 4]
    """
    tensor_of("masked_select", x)
    mask = mask_array("masked_select", mask, x)
    shape = broadcast_shapes(x.shape, mask.shape)
    mask = mask_for("masked_select", mask, x, shape)
    if x.shape != shape:
        x = _core.broadcast_view(x, shape)
    return record("masked_select", (x,), _core.mask_get(x, mask, "masked_select"), mask=mask)


def _truth(op, x):
    tensor_of(op, x)
    return x.detach() if x.dtype is dtypes.bool else _core.cast(x.detach(), dtypes.bool)


def nonzero(x, /):
    """Positions of the elements that are not zero: one int64 tensor for each axis, in C order.

    >>> import tensorx as tx
    >>> [i.tolist() for i in tx.nonzero(tx.asarray([[0, 3], [5, 0]]))]
    [[0, 1], [1, 0]]
    """
    mask = _truth("nonzero", x)
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-d tensor has no positions; use bool(x) or x.reshape(1)")
    return tuple(_core.nonzero(mask, False))


def argwhere(x, /):
    """Positions of the elements that are not zero, one row for each: int64 of shape (count, axes).

    >>> import tensorx as tx
    >>> tx.argwhere(tx.asarray([[0, 3], [5, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return _core.nonzero(_truth("argwhere", x), True, "argwhere")[0]


def where(condition, x1, x2, /):
    """x1 where condition is true, x2 elsewhere: deferred, and they broadcast. For positions see :func:`nonzero`.

    Parameters
    ----------
    condition : bool tensor
    x1, x2 : tensors or numbers
        At least one tensor; their dtypes promote. Nothing of the value that is not taken shows, not even NaN.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.where(tx.asarray([True, False]), tx.asarray([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    return elementwise.where(condition, x1, x2)


# ---- views and moves ------------------------------------------------------------------------


def select(x, axis, index, /):
    """x at one position of an axis, which goes: a view.

    >>> import tensorx as tx
    >>> tx.select(tx.asarray([[1, 2], [3, 4]]), 1, -1).tolist()
    [2, 4]
    """
    tensor_of("select", x)
    axis = axis_of("select", axis, x.ndim)
    return x[(slice(None),) * axis + (operator.index(index),)]


def diagonal(x, /, offset=0, axis1=-2, axis2=-1):
    """The diagonal of two axes (the last ones by default), as a new last axis: a view.

    offset above 0 is above the main diagonal (further along axis2), below 0 under it.

    >>> import tensorx as tx
    >>> tx.diagonal(tx.asarray([[1, 2, 3], [4, 5, 6]]), 1).tolist()
    [2, 6]
    """
    tensor_of("diagonal", x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: needs at least 2 axes, got shape {x.shape}")
    a, b = axis_of("diagonal", axis1, x.ndim), axis_of("diagonal", axis2, x.ndim)
    if a == b:
        raise ShapeError(f"diagonal: axis1 and axis2 are both axis {a}")
    offset = operator.index(offset)
    rows, cols = max(-offset, 0), max(offset, 0)
    length = max(0, min(x.shape[a] - rows, x.shape[b] - cols))
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    first = rows * x.strides[a] + cols * x.strides[b] if length else 0
    shape, strides = (*(x.shape[i] for i in rest), length), (*(x.strides[i] for i in rest), x.strides[a] + x.strides[b])
    out = _core.strided_view(x, shape, strides, first)
    _core.view_hook(x, out, "diagonal", (offset, a, b))
    return out


def roll(x, /, shift, *, axis=None):
    """x with its elements moved along axes by shift places; those that leave at one end come in at the other. A copy.

    shift and axis are ints, or tuples of equal length; without axis x is moved as one line.

    >>> import tensorx as tx
    >>> tx.roll(tx.asarray([1, 2, 3, 4]), 1).tolist()
    [4, 1, 2, 3]
    """
    tensor_of("roll", x)
    if axis is None:
        if isinstance(shift, (tuple, list)):
            if len(shift) != 1:
                raise ShapeError(f"roll: {len(shift)} shifts need as many axes, axis is None")
            (shift,) = shift
        return reshape(roll(reshape(x, (x.size,)), shift, axis=0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts {tuple(shifts)} for {len(axes)} axes {tuple(axes)}")
    total = [0] * x.ndim
    for a, s in zip(axes, shifts):
        total[axis_of("roll", a, x.ndim)] += operator.index(s)
    out = _core.empty(x.shape, x.dtype, x.device.number)
    if x.size:
        _rolled(out, x.detach(), [s % n for s, n in zip(total, x.shape)], 0)
        _core.reset_version(out)
    return record("roll", (x,), out, shift=tuple(total))


def _rolled(out, x, shifts, axis):
    """Writes x into out block by block: each axis is cut in two where it is moved."""
    while axis < x.ndim and shifts[axis] == 0:
        axis += 1
    if axis == x.ndim:
        _core.write_value(out, x, "roll")
        return
    s, lead = shifts[axis], (slice(None),) * axis
    for to, of in ((slice(s, None), slice(None, -s)), (slice(None, s), slice(-s, None))):
        _rolled(_core.basic_view(out, (*lead, to)), _core.basic_view(x, (*lead, of)), shifts, axis + 1)


def _positional(function, default):
    """The method: axis may be given by position, as NumPy's methods take it."""

    def method(self, what, axis=default):
        return function(self, what, axis=axis)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"See :func:`tensorx.{function.__name__}`."
    return method


for _name in ("argwhere", "diagonal", "gather", "index_select", "masked_select", "nonzero", "select"):
    _core.add_method(_name, globals()[_name])
for _name, _axis in (("take", None), ("take_along_axis", -1), ("roll", None)):
    _core.add_method(_name, _positional(globals()[_name], _axis))
del _axis
del _name
