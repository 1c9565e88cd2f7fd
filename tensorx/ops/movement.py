"""Movement: the same values under another shape. Views wherever nothing has to move."""

from __future__ import annotations

import operator

from tensorx import _core
from tensorx.errors import AxisError, ShapeError

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flatten", "flip", "movedim", "moveaxis",
    "narrow", "permute_dims", "ravel", "reshape", "squeeze", "swapaxes", "unflatten", "unfold",
]  # fmt: skip


def axis_of(op, axis, ndim):
    """axis as a non-negative int; an axis out of range is an error that names both."""
    try:
        a = operator.index(axis)
    except TypeError:
        raise TypeError(f"{op}: an axis is an int, got {axis!r}") from None
    if not -ndim <= a < ndim:
        raise AxisError(f"{op}: axis {a} is out of range for {ndim} axes (from {-ndim} to {ndim - 1})")
    return a + ndim if a < 0 else a


EVERY_AXIS = tuple(tuple(range(n)) for n in range(65))  # of n axes


def axes_of(op, axes, ndim):
    """A tuple of distinct non-negative axes; None stands for all."""
    if axes is None:
        return EVERY_AXIS[ndim]
    if type(axes) is int and -ndim <= axes < ndim:
        return (axes if axes >= 0 else axes + ndim,)
    if not isinstance(axes, (tuple, list)):
        axes = (axes,)
    out = tuple(axis_of(op, a, ndim) for a in axes)
    if len(set(out)) != len(out):
        raise ShapeError(f"{op}: axes {tuple(axes)} name one axis twice")
    return out


def reshape(x, /, shape, *, copy=None):
    """x under a new shape of equal size; one size may be -1.

    A view where nothing has to move (or ValueError with copy=False), else a copy; always a copy with copy=True.

    >>> import tensorx as tx
    >>> tx.reshape(tx.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    if isinstance(shape, int):
        shape = (shape,)
    shape = tuple(operator.index(s) for s in shape)
    known = 1
    for s in shape:
        if s != -1:
            if s < 0:
                raise ShapeError(f"reshape: sizes must not be negative (one may be -1), got {shape}")
            known *= s
    if shape.count(-1) > 1:
        raise ShapeError(f"reshape: only one size may be -1, got {shape}")
    if -1 in shape:
        if known == 0 or x.size % known:
            raise ShapeError(f"reshape: {x.size} elements of shape {x.shape} cannot take the shape {shape}")
        shape = tuple(x.size // known if s == -1 else s for s in shape)
    elif known != x.size:
        raise ShapeError(f"reshape: {x.size} elements of shape {x.shape} cannot take the shape {shape} of {known} elements")
    if copy:
        x = x.copy()
    out = _core.reshape_view(x, shape, copy is not False)
    if out is None:
        raise ValueError(f"reshape: copy=False, but strides {x.strides} of shape {x.shape} need a copy for {shape}")
    return out


def permute_dims(x, /, axes):
    """x with its axes in another order, a view.

    >>> import tensorx as tx
    >>> tx.permute_dims(tx.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    axes = axes_of("permute_dims", axes, x.ndim)
    if len(axes) != x.ndim:
        raise ShapeError(f"permute_dims: {len(axes)} axes {axes} for a tensor of {x.ndim} axes")
    return _core.permute_view(x, axes)


def expand_dims(x, /, axis):
    """x with a new axis of length one at position axis (or several), a view.

    >>> import tensorx as tx
    >>> tx.expand_dims(tx.zeros(3), 0).shape
    (1, 3)
    """
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = axes_of("expand_dims", axes, x.ndim + len(axes))
    shape = list(x.shape)
    for a in sorted(axes):
        shape.insert(a, 1)
    return _core.reshape_view(x, tuple(shape))


def squeeze(x, /, axis):
    """x without axes of length one: the given ones, or all (axis=None, the method's default); a view.

    >>> import tensorx as tx
    >>> tx.squeeze(tx.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    axes = tuple(i for i, s in enumerate(x.shape) if s == 1) if axis is None else axes_of("squeeze", axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} has length {x.shape[a]}, only axes of length 1 can go (shape {x.shape})")
    return _core.reshape_view(x, tuple(s for i, s in enumerate(x.shape) if i not in axes))


def moveaxis(x, source, destination, /):
    """x with axes moved to new positions, a view.

    >>> import tensorx as tx
    >>> tx.moveaxis(tx.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    source = axes_of("moveaxis", source, x.ndim)
    destination = axes_of("moveaxis", destination, x.ndim)
    if len(source) != len(destination):
        raise ShapeError(f"moveaxis: {len(source)} source axes, {len(destination)} destinations")
    order = [a for a in range(x.ndim) if a not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return _core.permute_view(x, tuple(order))


movedim = moveaxis


def swapaxes(x, axis1, axis2, /):
    """x with two axes exchanged, a view.

    >>> import tensorx as tx
    >>> tx.swapaxes(tx.zeros((2, 3)), 0, 1).shape
    (3, 2)
    """
    a, b = axis_of("swapaxes", axis1, x.ndim), axis_of("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return _core.permute_view(x, tuple(order))


def flip(x, /, *, axis=None):
    """x with the order of elements reversed along axes (all by default), a view.

    >>> import tensorx as tx
    >>> tx.flip(tx.arange(3)).tolist()
    [2, 1, 0]
    """
    axes = axes_of("flip", axis, x.ndim)
    return x[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim))]


def broadcast_to(x, /, shape):
    """x repeated to a larger shape without copying: a view with strides of 0.

    >>> import tensorx as tx
    >>> tx.broadcast_to(tx.arange(2), (3, 2)).tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    from tensorx.ops.creation import check_shape

    return _core.broadcast_view(x, check_shape("broadcast_to", shape))


def broadcast_shapes(*shapes):
    """The shape that several shapes broadcast to.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    n = max((len(s) for s in shapes), default=0)
    out = [1] * n
    for s in shapes:
        for i, d in enumerate(s, n - len(s)):
            if d != 1:
                if out[i] not in (1, d):
                    raise ShapeError(f"broadcast: shapes {' and '.join(str(tuple(t)) for t in shapes)} do not broadcast: "
                                     "aligned from the right, sizes must be equal or 1")
                out[i] = d
    return tuple(out)


def broadcast_arrays(*arrays):
    """Views of the arrays with their common broadcast shape.

    >>> import tensorx as tx
    >>> [a.shape for a in tx.broadcast_arrays(tx.zeros((2, 1)), tx.zeros(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return [a if a.shape == shape else _core.broadcast_view(a, shape) for a in arrays]


def flatten(x, start_axis=0, end_axis=-1):
    """x with the axes from start_axis to end_axis merged into one.

    >>> import tensorx as tx
    >>> tx.flatten(tx.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    if x.ndim == 0:
        return reshape(x, (1,))
    a, b = axis_of("flatten", start_axis, x.ndim), axis_of("flatten", end_axis, x.ndim)
    if a > b:
        raise ShapeError(f"flatten: start_axis {start_axis} lies behind end_axis {end_axis}")
    merged = 1
    for s in x.shape[a : b + 1]:
        merged *= s
    return reshape(x, (*x.shape[:a], merged, *x.shape[b + 1 :]))


def ravel(x, /):
    """x with one axis, in C order.

    >>> import tensorx as tx
    >>> tx.ravel(tx.zeros((2, 3))).shape
    (6,)
    """
    return reshape(x, (x.size,))


def unflatten(x, axis, sizes, /):
    """x with one axis split into several; one size may be -1.

    >>> import tensorx as tx
    >>> tx.unflatten(tx.zeros((2, 6)), 1, (2, -1)).shape
    (2, 2, 3)
    """
    a = axis_of("unflatten", axis, x.ndim)
    known = 1
    for s in sizes:
        known *= s if s != -1 else 1
    sizes = tuple(x.shape[a] // known if s == -1 and known else s for s in sizes)
    return reshape(x, (*x.shape[:a], *sizes, *x.shape[a + 1 :]))


def narrow(x, axis, start, length, /):
    """The elements start to start + length of one axis, a view.

    >>> import tensorx as tx
    >>> tx.narrow(tx.arange(5), 0, 1, 2).tolist()
    [1, 2]
    """
    a = axis_of("narrow", axis, x.ndim)
    size = x.shape[a]
    first = start + size if start < 0 else start
    if first < 0 or length < 0 or first + length > size:
        raise IndexError(f"narrow: {length} elements from {start} leave axis {a} of size {size}")
    return x[(slice(None),) * a + (slice(first, first + length),)]


def unfold(x, axis, size, step, /):
    """All windows of size elements along an axis, step apart, as a new last axis; a view.

    >>> import tensorx as tx
    >>> tx.unfold(tx.arange(5), 0, 3, 1).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    a = axis_of("unfold", axis, x.ndim)
    if size < 0 or step <= 0:
        raise ValueError(f"unfold: size must not be negative and step must be positive, got {size} and {step}")
    if size > x.shape[a]:
        raise ShapeError(f"unfold: a window of {size} is longer than axis {a} of size {x.shape[a]}")
    count = (x.shape[a] - size) // step + 1
    shape = (*x.shape[:a], count, *x.shape[a + 1 :], size)
    strides = (*x.strides[:a], x.strides[a] * step, *x.strides[a + 1 :], x.strides[a])
    out = _core.strided_view(x, shape, strides, 0)
    _core.view_hook(x, out, "unfold", (a, size, step))
    return out


for _name in ("reshape", "permute_dims", "expand_dims", "squeeze", "moveaxis", "movedim", "swapaxes", "broadcast_to",
              "flatten", "ravel", "unflatten", "narrow", "unfold", "flip"):
    _core.add_method(_name, globals()[_name])
del _name


def _method(function):
    """Variadic spelling of a method: x.reshape(2, 3) beside x.reshape((2, 3))."""

    def method(self, *sizes, **kw):
        if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
            sizes = sizes[0]
        return function(self, tuple(sizes), **kw)

    method.__name__ = function.__name__
    method.__doc__ = f"See :func:`tensorx.{function.__name__}`."
    return method


def _like_function(function, method):
    """A method that takes what its function takes, with a default more."""
    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"See :func:`tensorx.{function.__name__}`."
    return method


_core.add_method("reshape", _method(reshape))
_core.add_method("permute_dims", _method(permute_dims))
_core.add_method("expand_dims", _like_function(expand_dims, lambda self, axis=0: expand_dims(self, axis)))
_core.add_method("squeeze", _like_function(squeeze, lambda self, axis=None: squeeze(self, axis)))
_core.add_method("permute", _method(permute_dims))
_core.add_method("transpose", lambda self, *axes: _method(permute_dims)(self, *(axes or tuple(reversed(range(self.ndim))))))
_core.add_method("unsqueeze", expand_dims)
_core.add_method("expand", _method(broadcast_to))
