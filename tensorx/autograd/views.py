"""Views in the record: how a gradient goes back to what was viewed.

A view is a chain of steps ``(name, arguments, shape before)``. The gradient of a step places the
gradient into zeros; the gradient of that is the step again, so derivatives of any order follow.
"""

from __future__ import annotations

from tensorx import _core
from tensorx.autograd.tape import sum_to
from tensorx.errors import GradientError
from tensorx.ops import table
from tensorx.ops._record import record

_ADD = table.INDEX["add"]


def undo_view(node, g):
    """The gradient of the source of a view: node.saved is the step."""
    return (undo_step(node.saved, g),)


def undo_step(step, g):
    """g, a gradient of what a step gives, as a gradient of what it took."""
    name, args, shape = step[:3]
    if name == "reshape":
        return g.reshape(shape)
    if name == "permute":
        return _core.permute_view(g, tuple(args.index(i) for i in range(len(args))))
    if name == "broadcast_to":
        return sum_to(g, shape)
    return record("place_view", (g,), _place(g.detach(), name, args, shape), step=step)


def _place(g, name, args, shape):
    """Zeros of a shape with g added where a view of it reaches."""
    zeros = _core.full_like_scalar(shape, 0, g.dtype, g.device.number)
    if g.size == 0:
        return zeros
    if name == "getitem":
        view = _core.basic_view(zeros, args)
    elif name == "unfold":
        axis, size, step = args
        if step < size:
            return _fold(zeros, g, axis, size, step)
        view = step_of(zeros, name, args)
    elif name == "strided":
        g, sizes, strides = _squeezed(g, *args[:2])
        if not sizes or not _core.overlaps_itself(v := _core.strided_view(zeros, sizes, strides, args[2])):
            view = v if sizes else _core.strided_view(zeros, (), (), args[2])
        else:
            return _add_at(zeros, g, sizes, strides, args[2])
    else:
        view = step_of(zeros, name, args)
    _core.write_value(view, g, "gradient")
    _core.reset_version(zeros)
    return zeros


def _squeezed(g, sizes, strides):
    """Repeated axes (stride 0) summed away."""
    axes = tuple(i for i, (n, s) in enumerate(zip(sizes, strides)) if s == 0 and n > 1)
    if axes:
        g = _core.reduce(0, g, axes, False)
        sizes = tuple(n for i, n in enumerate(sizes) if i not in axes)
        strides = tuple(s for i, s in enumerate(strides) if i not in axes)
    return g, sizes, strides


def _add_at(zeros, g, sizes, strides, offset):
    """The view reaches elements more than once: their gradients add up."""
    import tensorx as tx

    places = tx.arange(zeros.size, device=zeros.device)
    index = _core.strided_view(places, sizes, strides, offset).reshape((g.size,))
    return zeros.index_add_(0, index, g.reshape((g.size,)))


def _fold(zeros, g, axis, size, step):
    """Windows that overlap, one position of the window after the other."""
    count = g.shape[axis]
    for j in range(size):
        view = _core.basic_view(zeros, (slice(None),) * axis + (slice(j, j + (count - 1) * step + 1, step),))
        _core.elementwise_inplace(_ADD, view, _core.basic_view(g, (Ellipsis, j)))
    _core.reset_version(zeros)
    return zeros


def step_of(t, name, args):
    """What a step makes of t; recorded where t is tracked and the grad mode is on."""
    import tensorx as tx

    if name == "reshape":
        return t.reshape(args)
    if name == "permute":
        return _core.permute_view(t, args)
    if name == "broadcast_to":
        return _core.broadcast_view(t, args)
    if name == "getitem":
        return t[args]
    if name == "unfold":
        return tx.unfold(t, *args)
    if name == "diagonal":
        offset, a, b = args
        return tx.diagonal(t, offset, a, b)
    if name == "strided":
        t = t.contiguous()
        out = _core.strided_view(t, *args)
        _core.view_hook(t, out, "strided", args)
        return out
    raise GradientError(f"backward: no gradient for the view {name}")


def apply_chain(t, chain):
    """What a chain of views makes of t."""
    for step in chain:
        t = step_of(t, step[0], step[1])
    return t


def _prepare(node, inputs, out, saved, wanted):
    return saved


def _backward(g, kept, wanted):
    name, args = kept["step"][:2]
    return {0: step_of(g, name, args)}


_core.rules["place_view"] = (_prepare, _backward)
_core.hooks.undo_view = undo_view
