"""Ops that NumPy carries out, on views of the tensors' own memory."""

from __future__ import annotations

import sys

from tensorx import _core, dtypes
from tensorx.dtypes import dtype_from
from tensorx.errors import DeviceMismatchError, DTypeError
from tensorx.ops import creation


def array(x):
    """The values as a read-only NumPy view, on any device; bfloat16 as float32 (a copy)."""
    import numpy as np

    x = x.detach()
    if x.dtype is dtypes.bfloat16:
        x = _core.cast(x, dtypes.float32)
    return np.asarray(_core.reader(x))


def _op():
    """The name of the public function that is being computed here."""
    frame = sys._getframe(2)
    while frame.f_back is not None and (frame.f_code.co_name.startswith(("_", "<")) or frame.f_code.co_name in ("forward", "backward", "apply")):
        frame = frame.f_back
    return frame.f_code.co_name


def tensor(values, like, dtype=None):
    """An independent tensor on the device of another one, with the values of a NumPy array."""
    import numpy as np

    if like.device.type != "cpu":
        like.device.backend.on_host(_op())
    values = np.asarray(values)
    dtype = dtype_from(values.dtype) if dtype is None else dtype
    return creation.asarray(values, dtype=dtype, device=like.device, copy=True)


def floating(op, x, kinds="fc"):
    """x, which must be a tensor of floating-point numbers, in a dtype that NumPy computes in, and the dtype to go back to."""
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if x.dtype.kind not in kinds:
        what = {"fc": "floating-point", "f": "real floating-point", "c": "complex"}[kinds]
        raise DTypeError(f"{op}: needs {what} numbers, got {x.dtype.name}; convert with astype")
    return (_core.cast(x, dtypes.float32) if x.dtype.itemsize == 2 else x), x.dtype


def back(x, dtype):
    """A result computed in float32 for a half, in the half's dtype."""
    return _core.cast(x, dtype) if dtype.itemsize == 2 and x.dtype is dtypes.float32 else x


def one_device(op, *tensors):
    """All operands lie on one device."""
    for k, t in enumerate(tensors[1:], 2):
        if t.device is not tensors[0].device:
            raise DeviceMismatchError(f"{op}: operand 1 is on {tensors[0].device} and operand {k} on {t.device}; all operands must be on "
                                      f"one device: move one with .to({str(tensors[0].device)!r})")


def extremes(x):
    """The smallest and the largest element; one wait for both."""
    from tensorx.ops.joining import stack

    x = x.detach()
    return tuple(stack([x.min(), x.max()]).tolist())


def picked(op, index, places):
    """places[index] of a GPU's tensors, and so index itself where places counts from 0. Nothing is read here, which would
    wait: a number below 0 or beyond places is found by the kernel, and told at the next wait."""
    from tensorx.ops.elementwise import where

    index = _core.cast(index.detach(), dtypes.int64)
    return _core.take_axis(places, where(index < 0, places.size, index), 0, op)
