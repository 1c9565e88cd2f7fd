"""Parameters: the tensors of a module that are trained."""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.ops.creation import asarray

__all__ = ["Buffer", "Parameter", "UninitializedParameter"]


class _Marked(type):
    """isinstance(x, Parameter) asks the tensor: there is one class of tensors, and parameters carry a mark."""

    def __instancecheck__(cls, x):
        return type(x) is Tensor and x._is_parameter


class Parameter(metaclass=_Marked):
    """A leaf tensor that requires grad; a module that it is assigned to trains it.

    Shares the storage of ``data``, without its history. data may also be a list, a number or a NumPy array.

    >>> import tensorx as tx
    >>> w = tx.nn.Parameter(tx.ones(2))
    >>> isinstance(w, tx.nn.Parameter), w.requires_grad, w.is_leaf
    (True, True, True)
    """

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _core.empty((0,), None)
        elif not isinstance(data, Tensor):
            data = asarray(data)
        p = data.detach()
        if requires_grad:
            p.requires_grad = True
        p._is_parameter = True
        return p


class UninitializedParameter(Parameter):
    """A parameter whose shape is found at the first call of its module; the handle stays the same."""

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        from tensorx.ops.creation import empty

        return Parameter(empty((0,), dtype=dtype, device=device), requires_grad)


class Buffer:
    """Marks a tensor that is assigned to a module as one of its buffers: ``self.mean = nn.Buffer(tx.zeros(3))``."""

    def __init__(self, data, persistent=True):
        self.data, self.persistent = data, persistent
