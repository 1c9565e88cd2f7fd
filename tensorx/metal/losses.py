"""Losses of tensors on Metal: the kernels of rows.py on a tensor's own layout."""

from __future__ import annotations

from tensorx import _core
from tensorx.metal import codegen, rows


def has_class_loss(x):
    """Whether there is a kernel for a tensor's dtype."""
    return x.device.type == "metal" and x.dtype.name in codegen.FLOATS and x.size > 0


def class_loss(op, x, index, axis):
    """-log_softmax(x) along an axis at the class that index (int64) names; one that is out of range is told at the next wait."""
    backend = x.device.backend
    tensors = (x.contiguous(), index.contiguous(), _core.empty(index.shape, x.dtype, x.device.number))  # held until it is encoded
    leaves = [_core.device_leaf(t) for t in tensors]
    error = IndexError(f"{op}: a class number is out of range for {x.shape[axis]} classes")
    status = backend.status()
    backend.inst.forget()
    values, classes, loss = (backend._array(leaf) for leaf in leaves)
    backend._after(rows.class_loss(backend.inst, values, axis, classes, loss, status, error), *leaves)
    if any(leaf[6] for leaf in leaves):
        status.check()
    return tensors[-1]


def class_loss_backward(g, x, index, axis):
    """The gradient of :func:`class_loss`: g * (softmax(x) - one at the class)."""
    backend = x.device.backend
    g = g if g.dtype is x.dtype else _core.cast(g, x.dtype)
    tensors = (*(t.contiguous() for t in (x, index, g)), _core.empty(x.shape, x.dtype, x.device.number))
    leaves = [_core.device_leaf(t) for t in tensors]
    backend.inst.forget()
    values, classes, grad, out = (backend._array(leaf) for leaf in leaves)
    backend._after(rows.class_loss_backward(backend.inst, values, axis, classes, grad, out), *leaves)
    return tensors[-1]
