"""Methods of Tensor that are not elementwise, indexing or movement: conversion, printing, pickling."""

from __future__ import annotations

import builtins

from tensorx import _core, dtypes, inspection, interop
from tensorx._core import Tensor
from tensorx.device import device as _device
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError, GradientError

__all__ = ["Tensor", "astype", "from_dlpack_hook"]

from_dlpack_hook = None


def astype(x, dtype, /, *, copy=True, device=None):
    """x converted to dtype.

    Independent of x with copy=True (the default); with copy=False x itself where dtype and device are equal already.
    Floats to integers saturate, NaN gives 0; complex to real is a DTypeError.

    >>> import tensorx as tx
    >>> tx.astype(tx.asarray([1.7, -1.7]), tx.int32).tolist()
    [1, -1]
    """
    dtype = dtype_from(dtype)
    target = x.device if device is None else _device(device)
    if dtype is x.dtype and target is x.device:
        return _core.copied(x, "astype") if copy else x
    out = x if dtype is x.dtype else _core.cast(x, dtype)
    return out if target is x.device else out.to(target)


def to(self, *args, dtype=None, device=None, copy=True):
    """The tensor on a device and/or with a dtype: ``x.to("metal")``, ``x.to(tx.float16)``, ``x.to("cpu", tx.float64)``.

    Always independent of x (also where nothing changes) unless copy=False. Differentiable.
    """
    for a in args:
        if isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, dtypes.DType) or (isinstance(a, str) and a in _DTYPE_NAMES):
            dtype = a
        else:
            device = a
    target = self.device if device is None else _device(device)
    dtype = self.dtype if dtype is None else dtype_from(dtype)
    if target is self.device:
        if dtype is self.dtype:
            return _core.copied(self, "to") if copy else self
        return _core.cast(self, dtype, "to")
    from tensorx.ops import transfer

    moved = transfer.to_device(self if dtype is self.dtype else _core.cast(self, dtype, "to"), target)
    return moved


_DTYPE_NAMES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
}  # fmt: skip


def numpy(self, *, copy=False):
    """The values as a NumPy array: a view of the same memory, or independent with copy=True.

    A view of a tensor that requires grad is an error (``x.detach().numpy()``); bfloat16 has no NumPy dtype.
    """
    import numpy as np

    if self.requires_grad:
        raise GradientError("numpy: the tensor requires grad and the array would not: use x.detach().numpy()")
    if self.dtype is dtypes.bfloat16:
        raise DTypeError("numpy: bfloat16 has no NumPy dtype; convert with astype(tx.float32) first")
    if not copy:
        return np.asarray(memoryview(self))
    hold = _core.hold("numpy", (), (self,))  # NumPy copies without the GIL: nobody may write meanwhile
    try:
        return np.array(_core.reader(self))
    finally:
        hold.leave()


def __array__(self, dtype=None, copy=None):
    import numpy as np

    out = numpy(self)
    if dtype is not None and np.dtype(dtype) != out.dtype:
        if copy is False:
            raise ValueError(f"__array__: copy=False, but {out.dtype} to {np.dtype(dtype)} needs a copy")
        return out.astype(dtype)
    return out.copy() if copy else out


def format_tensor(x, spec=""):
    """Readable text, long tensors abbreviated."""
    import numpy as np

    shown = x.detach()
    if x.device.type != "cpu":
        shown = shown.to("cpu")
    if x.dtype is dtypes.bfloat16:
        shown = shown.astype(dtypes.float32)
    array = np.asarray(_core.reader(shown))
    text = np.array2string(array, separator=", ", prefix="tensor(", threshold=1000, edgeitems=3)
    extra = ""
    if x.dtype not in (dtypes.float32, dtypes.int64, dtypes.bool) or not x.size:
        extra += f", dtype={x.dtype.name}"
    if not x.size:
        extra += f", shape={x.shape}"
    if x.device.type != "cpu":
        extra += f", device={x.device.name!r}"
    if x.requires_grad:
        extra += ", requires_grad=True"
    return f"tensor({text}{extra})"


def __format__(self, spec):
    """One element is formatted as a number, ``f"{loss:.4f}"``; more only without a specification."""
    if self.size == 1 and spec:
        return format(self.item(), spec)
    if not spec:
        return str(self)
    raise TypeError(f"format: {spec!r} formats one number, this tensor has shape {self.shape}")


def _rebuild(data, shape, dtype, device, requires_grad, is_parameter=False):
    import numpy as np

    from tensorx.ops import creation

    name = "uint16" if dtype == "bfloat16" else dtype
    array = np.frombuffer(data, dtype=name).reshape(shape)
    if dtype == "bfloat16":
        out = _core.empty(tuple(shape), dtypes.bfloat16)
        if array.size:
            _core.raw_bytes(out)[:] = array.tobytes()
    else:
        out = creation.asarray(array, copy=True, device="cpu")
    if device != "cpu":
        out = out.to(device)
    if requires_grad:
        out.requires_grad = True
    out._is_parameter = is_parameter
    return out


def _pickle(x):
    dense = x.detach()
    if x.device.type != "cpu":
        dense = dense.to("cpu")
    dense = contiguous(dense)
    return _rebuild, (bytes(_core.raw_bytes(dense)), x.shape, x.dtype.name, str(x.device), x.requires_grad, x._is_parameter)


def __deepcopy__(self, memo):
    """An independent tensor with dense values; a tensor met twice stays one."""
    if id(self) in memo:
        return memo[id(self)]
    recipe = _core.lazy_recipe(self)
    if recipe is not None:
        out = _core.lazy(self.shape, self.dtype, self.device.number, recipe)
    else:
        out = contiguous(self.detach(), copy=True)
    if self.requires_grad:
        out.requires_grad = True
    out._is_parameter = self._is_parameter
    memo[id(self)] = out
    return out


def contiguous(self, *, copy=False):
    """The tensor in C order: itself where it is already, else a copy."""
    if _core.is_c_contiguous(self):
        return self.copy() if copy else self
    out = _core.empty(self.shape, self.dtype, self.device.number, False, "contiguous")
    if self.requires_grad:
        return _core.reshape_view(_core.reshape_view(self, (self.size,)), self.shape)
    _core.write_value(out, self, "contiguous")
    _core.reset_version(out)
    return out


def is_contiguous(self):
    """Whether the elements lie in C order without gaps."""
    return _core.is_c_contiguous(self)


def fill_(self, value, /):
    """Writes one number (or 0-d tensor) to all elements; returns the tensor."""
    return self.copy_(value)


def zero_(self, /):
    """Writes zeros to all elements; returns the tensor."""
    return self.copy_(False if self.dtype is dtypes.bool else 0)


def _storage(self):
    """What holds the bytes: device, nbytes, address, version, owners."""
    return _core.storage_info(self)


def _layout(self):
    """Shape, strides and offset, in elements: see :class:`tensorx.layout.Layout`."""
    from tensorx.layout import Layout

    return Layout(self.shape, self.strides, _core.offset_of(self))


def _wrong_name(name, fix):
    def method(self, *args, **kw):
        raise AttributeError(f"Tensor has no {name}: {fix}")

    return method


_core.hooks.format = format_tensor
_core.hooks.reduce_ex = _pickle
for _f in (astype, to, numpy, __array__, __format__, __deepcopy__, contiguous, is_contiguous, fill_, zero_):
    _core.add_method(_f.__name__, _f)
_core.add_method("storage", builtins.property(_storage))
_core.add_method("layout", builtins.property(_layout))
_core.add_method("cpu", lambda self: self.to("cpu"))
_core.add_method("__array_namespace__", inspection.__array_namespace__)
_core.add_method("to_device", inspection.to_device)
_core.add_method("__array_function__", interop.__array_function__)
_core.add_method("__array_ufunc__", interop.__array_ufunc__)
del _f
