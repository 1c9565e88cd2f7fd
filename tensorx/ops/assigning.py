"""Writing by index: ``x[...] = v``, scatter, masks, and the value forms of each.

In-place forms (a name with ``_``, and ``x[...] = v``) write into x's storage: aliases and views
see it and ``x.version`` rises. Operands may overlap x: the result is as if they had been read
first. A destination that reaches an element twice (an expanded view) is an InplaceError. The
result dtype may narrow within its kind, never across kinds. An error leaves x as it was.
"""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import elementwise
from tensorx.ops._record import inplace, record
from tensorx.ops.indexing import along_axis, index_array, index_line, mask_array, mask_for, tensor_of
from tensorx.ops.movement import axis_of

__all__ = [
    "index_add", "index_copy", "index_fill", "index_put", "masked_fill", "masked_scatter", "put_along_axis", "scatter",
    "scatter_add", "slice_assign",
]  # fmt: skip


def _operand(op, x, value):
    """What is written: a tensor or a number; lists and arrays become tensors of x's device."""
    if isinstance(value, (Tensor, bool, int, float, complex)):
        return value
    from tensorx.ops import creation

    if not isinstance(value, (list, tuple)) and not hasattr(value, "__array__"):
        raise DTypeError(f"{op}: expected a tensor, an array, a list or a number, got {type(value).__name__}")
    if getattr(value, "shape", None) == ():
        return value.item()
    out = creation.asarray(value, device=x.device)
    if out.dtype is not x.dtype and out.dtype.kind == x.dtype.kind and isinstance(value, (list, tuple)):
        out = creation.asarray(value, dtype=x.dtype, device=x.device)  # Python floats are float64
    return out


def _rank0(op, value):
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"{op}: the value must be a number or a 0-d tensor, got shape {value.shape}")
    return value


# ---- x[...] = v --------------------------------------------------------------------------


def _setitem(x, index, value):
    value = _operand("setitem", x, value)
    if x.requires_grad or (isinstance(value, Tensor) and value.requires_grad):
        inplace("setitem", x, (value,), lambda: _core.index_put(x, index, value), index=index)
    else:
        _core.index_put(x, index, value)


_core.hooks.setitem = _setitem


def index_put_(x, indices, values, accumulate=False):
    """``x[indices] = values`` for a tuple of indices; with accumulate the values are added, duplicates too. Returns x.

    >>> import tensorx as tx
    >>> tx.zeros(3).index_put_((tx.asarray([0, 0, 2]),), tx.ones(3), accumulate=True).tolist()
    [2.0, 0.0, 1.0]
    """
    values = _operand("index_put_", x, values)
    index = tuple(indices) if isinstance(indices, list) else indices
    run = lambda: _core.index_put(x, index, values, bool(accumulate), "index_put_")
    return inplace("index_put_", x, (values,), run, index=index, accumulate=bool(accumulate))


# ---- slices ---------------------------------------------------------------------------------


def slice_assign(x, index, value, /):
    """The value that x has after ``x[index] = value``; x itself is unchanged.

    Deferred: in ``a = a.slice_assign(index, v)`` with a held once, the slice is written in place when the result is
    needed, and nothing is allocated; otherwise one buffer is. With index arrays or masks it is always a copy.

    Parameters
    ----------
    index : integers, slices, None, Ellipsis, or anything that x[index] takes
    value : number or tensor that broadcasts to x[index]

    Examples
    --------
    >>> import tensorx as tx
    >>> a = tx.zeros(4)
    >>> b = a.slice_assign(slice(1, 3), 7.0)
    >>> a.tolist(), b.tolist()
    ([0.0, 0.0, 0.0, 0.0], [0.0, 7.0, 7.0, 0.0])
    """
    tensor_of("slice_assign", x)
    value = _operand("slice_assign", x, value)
    out = _core.slice_assign(x, index, value)
    if out is None:
        out = _fresh(x)
        _core.index_put(out, index, value, False, "slice_assign")
        _core.reset_version(out)
    return record("slice_assign", (x, value), out, index=index)


def slice_set(x, src, axis, offset):
    """Writes src into x[offset : offset + n] along an axis, n being src's size there; the other sizes must be equal. Returns x.

    >>> import tensorx as tx
    >>> tx.zeros(4).slice_set(tx.ones(2), 0, 1).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    tensor_of("slice_set", src)
    if src.ndim != x.ndim or x.ndim == 0:
        raise ShapeError(f"slice_set: the source of shape {src.shape} needs as many axes as the tensor of shape {x.shape}, at least one")
    axis = axis_of("slice_set", axis, x.ndim)
    if any(s != n for i, (s, n) in enumerate(zip(src.shape, x.shape)) if i != axis):
        raise ShapeError(f"slice_set: the shapes {src.shape} and {x.shape} may differ on axis {axis} only")
    if not 0 <= offset <= x.shape[axis] - src.shape[axis]:
        raise IndexError(f"slice_set: {src.shape[axis]} elements from {offset} on leave axis {axis} of size {x.shape[axis]}")
    index = (slice(None),) * axis + (slice(offset, offset + src.shape[axis]),)
    run = lambda: _core.write_value(_core.basic_view(x, index), src, "slice_set")
    return inplace("slice_set", x, (src,), run, index=index)


# ---- along an axis --------------------------------------------------------------------------


def _fresh(x):
    """An independent tensor with x's values, in memory, to be written by an op's value form."""
    out = x.detach().copy()
    _core.evaluate(out)
    return out


def _line(op, x, axis, index, source):
    """Arguments of the index_* family: a one-dimensional index, a source that broadcasts to its slices."""
    tensor_of(op, x)
    axis = axis_of(op, axis, x.ndim)
    return axis, index_line(op, index, x), _operand(op, x, source)


def index_add_(x, axis, index, source):
    """Adds the slices of source to those of x at the positions of a one-dimensional index along axis; duplicates add up. Returns x.

    source broadcasts to x's shape with the index's length on axis. Each element is summed in the index's order, so that
    the result does not depend on the number of threads; float16 and bfloat16 are summed in float32 and rounded once.

    >>> import tensorx as tx
    >>> tx.zeros(3).index_add_(0, tx.asarray([0, 2, 0]), tx.asarray([1.0, 2.0, 3.0])).tolist()
    [4.0, 0.0, 2.0]
    """
    axis, index, source = _line("index_add_", x, axis, index, source)
    run = lambda: _core.put_axis(x, index, axis, source, True, "index_add_")
    return inplace("index_add_", x, (source,), run, axis=axis, index=index)


def index_copy_(x, axis, index, source):
    """Writes the slices of source to those of x at the positions of index along axis; of duplicates the last wins. Returns x.

    >>> import tensorx as tx
    >>> tx.zeros(3).index_copy_(0, tx.asarray([2, 0]), tx.asarray([1.0, 2.0])).tolist()
    [2.0, 0.0, 1.0]
    """
    axis, index, source = _line("index_copy_", x, axis, index, source)
    run = lambda: _core.put_axis(x, index, axis, source, False, "index_copy_")
    return inplace("index_copy_", x, (source,), run, axis=axis, index=index)


def index_fill_(x, axis, index, value):
    """The slices of x at the positions of index along axis take a number or the value of a 0-d tensor. Returns x.

    >>> import tensorx as tx
    >>> tx.zeros(3).index_fill_(0, tx.asarray([1]), 5.0).tolist()
    [0.0, 5.0, 0.0]
    """
    axis, index, value = _line("index_fill_", x, axis, index, _rank0("index_fill_", value))
    run = lambda: _core.put_axis(x, index, axis, value, False, "index_fill_")
    return inplace("index_fill_", x, (value,), run, axis=axis, index=index)


def _scattered(op, x, axis, index, src):
    tensor_of(op, x)
    axis = axis_of(op, axis, x.ndim)
    index = index_array(op, index, x)
    src = _operand(op, x, src)
    part = src
    if isinstance(src, Tensor) and src.ndim:
        if src.ndim != index.ndim or any(s < n for s, n in zip(src.shape, index.shape)):
            raise ShapeError(f"{op}: the source of shape {src.shape} must be at least as long as the index of shape {index.shape} on every axis")
        if src.shape != index.shape:
            part = _core.basic_view(src, tuple(slice(n) for n in index.shape))
    return axis, index, src, part


def scatter_(x, axis, index, src):
    """Writes each element of src to the place that index names: ``x[index[i][j]][j] = src[i][j]`` for axis 0. Returns x.

    index has as many axes as x and is no longer than src on any axis, nor than x on the others; src may be a number. Of
    several writes to one place the last one in C order wins.

    >>> import tensorx as tx
    >>> tx.zeros((2, 2)).scatter_(1, tx.asarray([[1], [0]]), 3.0).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    axis, index, src, part = _scattered("scatter_", x, axis, index, src)
    run = lambda: _core.scatter_along(x, index, axis, part, False, "scatter_")
    return inplace("scatter_", x, (src,), run, axis=axis, index=index)


def scatter_add_(x, axis, index, src):
    """Adds each element of src to the place that index names, see :meth:`scatter_`; duplicates add up, in C order. Returns x.

    >>> import tensorx as tx
    >>> tx.zeros((1, 2)).scatter_add_(1, tx.asarray([[0, 0, 1]]), tx.ones((1, 3))).tolist()
    [[2.0, 1.0]]
    """
    axis, index, src, part = _scattered("scatter_add_", x, axis, index, src)
    run = lambda: _core.scatter_along(x, index, axis, part, True, "scatter_add_")
    return inplace("scatter_add_", x, (src,), run, axis=axis, index=index)


def _along(op, x, indices, values, axis):
    tensor_of(op, x)
    indices, axis, shape = along_axis(op, x, indices, axis)
    if x.shape != shape:
        raise ShapeError(f"{op}: the indices of shape {indices.shape} are longer than the tensor of shape {x.shape}")
    return axis, indices, _operand(op, x, values)


def put_along_axis_(x, indices, values, axis=-1):
    """The places that :func:`tensorx.take_along_axis` reads take values, which broadcast to the indices. Returns x.

    >>> import tensorx as tx
    >>> tx.zeros((2, 3)).put_along_axis_(tx.asarray([[2], [0]]), 1.0, axis=1).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    axis, indices, values = _along("put_along_axis_", x, indices, values, axis)
    run = lambda: _core.scatter_along(x, indices, axis, values, False, "put_along_axis_")
    return inplace("scatter_", x, (values,), run, axis=axis, index=indices)


# ---- masks --------------------------------------------------------------------------------------


def masked_fill_(x, mask, value):
    """The elements of x where mask is true take a number or the value of a 0-d tensor. mask broadcasts to x. Returns x.

    >>> import tensorx as tx
    >>> x = tx.asarray([1.0, -2.0, 3.0])
    >>> x.masked_fill_(x < 0.0, 0.0).tolist()
    [1.0, 0.0, 3.0]
    """
    tensor_of("masked_fill_", x)
    value = _operand("masked_fill_", x, _rank0("masked_fill_", value))
    mask = mask_for("masked_fill_", mask, x, x.shape)
    return inplace("masked_fill_", x, (value,), lambda: _core.mask_put(x, mask, value, "masked_fill_"), mask=mask)


def masked_scatter_(x, mask, source):
    """The elements of x where mask is true take the elements of source, in C order. mask broadcasts to x. Returns x.

    ShapeError where source has fewer elements than the mask has true ones; further elements are not used.

    >>> import tensorx as tx
    >>> tx.zeros(3).masked_scatter_(tx.asarray([True, False, True]), tx.asarray([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    mask, part = _masked("masked_scatter_", x, mask, source)
    run = lambda: _core.mask_put(x, mask, part, "masked_scatter_", True)
    return inplace("masked_scatter_", x, (source,), run, mask=mask)


def _masked(op, x, mask, source):
    """The mask in x's shape, and as many elements of source as it has true ones."""
    tensor_of(op, x)
    tensor_of(op, source)
    mask = mask_for(op, mask, x, x.shape)
    count = _core.count_true(mask)
    if source.size < count:
        raise ShapeError(f"{op}: the mask has {count} true elements, the source of shape {source.shape} only {source.size}")
    return mask, _core.basic_view(_core.reshape_view(source.detach(), (source.size,)), slice(count))


# ---- value forms --------------------------------------------------------------------------------


def masked_fill(x, mask, value, /):
    """x with a number (or the value of a 0-d tensor) where mask is true; deferred, as ``where(mask, value, x)``.

    >>> import tensorx as tx
    >>> tx.masked_fill(tx.asarray([1, 2, 3]), tx.asarray([True, False, False]), 0).tolist()
    [0, 2, 3]
    """
    tensor_of("masked_fill", x)
    if not isinstance(mask, Tensor):
        mask = mask_array("masked_fill", mask, x)
    return elementwise.where(mask, _rank0("masked_fill", value), x)


def _value(name, x, source, write, **saved):
    """What write makes of a copy of x."""
    out = _fresh(x)
    write(out)
    _core.reset_version(out)
    return record(name, (x, source), out, **saved)


def index_add(x, axis, index, source, /):
    """x with the slices of source added at the positions of index along axis; see :meth:`Tensor.index_add_`.

    >>> import tensorx as tx
    >>> tx.index_add(tx.zeros(2), 0, tx.asarray([1, 1]), tx.ones(2)).tolist()
    [0.0, 2.0]
    """
    axis, index, source = _line("index_add", x, axis, index, source)
    write = lambda out: _core.put_axis(out, index, axis, source, True, "index_add")
    return _value("index_add", x, source, write, axis=axis, index=index)


def index_copy(x, axis, index, source, /):
    """x with the slices of source at the positions of index along axis; see :meth:`Tensor.index_copy_`.

    >>> import tensorx as tx
    >>> tx.index_copy(tx.zeros(2), 0, tx.asarray([1]), tx.ones(1)).tolist()
    [0.0, 1.0]
    """
    axis, index, source = _line("index_copy", x, axis, index, source)
    write = lambda out: _core.put_axis(out, index, axis, source, False, "index_copy")
    return _value("index_copy", x, source, write, axis=axis, index=index)


def index_fill(x, axis, index, value, /):
    """x with a number (or the value of a 0-d tensor) in the slices at index along axis.

    >>> import tensorx as tx
    >>> tx.index_fill(tx.zeros(2), 0, tx.asarray([1]), 4.0).tolist()
    [0.0, 4.0]
    """
    axis, index, value = _line("index_fill", x, axis, index, _rank0("index_fill", value))
    write = lambda out: _core.put_axis(out, index, axis, value, False, "index_fill")
    return _value("index_fill", x, value, write, axis=axis, index=index)


def put_back(x, index, values, accumulate):
    """:func:`index_put` of what x[index] gives: nothing has to be counted."""
    write = lambda out: _core.index_put(out, index, values, accumulate, "index_put", True)
    return _value("index_put", x, values, write, index=index, accumulate=accumulate)


def index_put(x, indices, values, /, accumulate=False):
    """x after ``x[indices] = values`` (or ``+=``, duplicates too); see :meth:`Tensor.index_put_`.

    >>> import tensorx as tx
    >>> tx.index_put(tx.zeros(2), (tx.asarray([0, 0]),), 1.0, accumulate=True).tolist()
    [2.0, 0.0]
    """
    tensor_of("index_put", x)
    values = _operand("index_put", x, values)
    index = tuple(indices) if isinstance(indices, list) else indices
    write = lambda out: _core.index_put(out, index, values, bool(accumulate), "index_put")
    return _value("index_put", x, values, write, index=index, accumulate=bool(accumulate))


def scatter(x, axis, index, src, /):
    """x with each element of src at the place that index names; see :meth:`Tensor.scatter_`.

    >>> import tensorx as tx
    >>> tx.scatter(tx.zeros((1, 2)), 1, tx.asarray([[1]]), 3.0).tolist()
    [[0.0, 3.0]]
    """
    axis, index, src, part = _scattered("scatter", x, axis, index, src)
    write = lambda out: _core.scatter_along(out, index, axis, part, False, "scatter")
    return _value("scatter", x, src, write, axis=axis, index=index)


def scatter_add(x, axis, index, src, /):
    """x with each element of src added at the place that index names; see :meth:`Tensor.scatter_add_`.

    >>> import tensorx as tx
    >>> tx.scatter_add(tx.ones((1, 2)), 1, tx.asarray([[0, 0]]), tx.ones((1, 2))).tolist()
    [[3.0, 1.0]]
    """
    axis, index, src, part = _scattered("scatter_add", x, axis, index, src)
    write = lambda out: _core.scatter_along(out, index, axis, part, True, "scatter_add")
    return _value("scatter_add", x, src, write, axis=axis, index=index)


def put_along_axis(x, indices, values, /, axis=-1):
    """x with values at the places that :func:`tensorx.take_along_axis` reads; values broadcast to the indices.

    >>> import tensorx as tx
    >>> tx.put_along_axis(tx.zeros((1, 2)), tx.asarray([[1]]), 3.0, axis=1).tolist()
    [[0.0, 3.0]]
    """
    axis, indices, values = _along("put_along_axis", x, indices, values, axis)
    write = lambda out: _core.scatter_along(out, indices, axis, values, False, "put_along_axis")
    return _value("scatter", x, values, write, axis=axis, index=indices)


def masked_scatter(x, mask, source, /):
    """x with the elements of source where mask is true; see :meth:`Tensor.masked_scatter_`.

    >>> import tensorx as tx
    >>> tx.masked_scatter(tx.zeros(3), tx.asarray([False, True, True]), tx.asarray([1.0, 2.0])).tolist()
    [0.0, 1.0, 2.0]
    """
    mask, part = _masked("masked_scatter", x, mask, source)
    return _value("masked_scatter", x, source, lambda out: _core.mask_put(out, mask, part, "masked_scatter", True), mask=mask)


for _f in (index_add_, index_copy_, index_fill_, index_put_, masked_fill_, masked_scatter_, put_along_axis_, scatter_, scatter_add_, slice_set):
    _core.add_method(_f.__name__, _f)
for _name in __all__:
    _core.add_method(_name, globals()[_name])
del _f, _name
