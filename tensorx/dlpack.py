"""Exchange of tensors with other libraries through DLPack, without copying.

>>> import numpy as np
>>> import tensorx as tx
>>> a = np.arange(3.0)
>>> t = tx.from_dlpack(a)
>>> a[0] = 7.0
>>> t.tolist()
[7.0, 1.0, 2.0]
"""

from __future__ import annotations

import enum

from tensorx import _core
from tensorx.device import device as _device

__all__ = ["from_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Kinds of devices, as DLPack numbers them."""

    CPU = 1
    METAL = 8


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule: shared memory, or a copy with copy=True. dl_device (1, 0) gives a host view of any device."""
    if self.requires_grad:
        raise BufferError("__dlpack__: the tensor requires grad and the consumer would not know: use x.detach()")
    if stream is not None and self.device.type == "cpu" and stream != -1:
        raise BufferError(f"__dlpack__: stream must be None for {self.device}, got {stream!r}")
    own = __dlpack_device__(self)
    wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    host = wanted == (1, 0)
    if wanted != own and not host:
        raise BufferError(f"__dlpack__: the tensor is on {self.device}, DLPack device {wanted} cannot be served")
    copied = bool(copy)
    source = self.copy() if copied else self
    versioned = max_version is not None and max_version[0] >= 1
    return _core.dlpack_export(source, versioned, copied, host)


def __dlpack_device__(self):
    """(device type, device number) of DLPack."""
    return (DLDeviceType.CPU, 0) if self.device.type == "cpu" else (DLDeviceType.METAL, self.device.ordinal)


def from_dlpack(x, /, *, device=None, copy=None):
    """A tensor on the memory of x (any object with ``__dlpack__``), or an independent one with copy=True.

    Read-only memory gives a read-only tensor. device is the one of x unless given. copy=False raises ValueError where a
    copy would be needed. Raises BufferError for memory that this process cannot share, AttributeError for an object
    without ``__dlpack__``.

    >>> import numpy as np
    >>> import tensorx as tx
    >>> tx.from_dlpack(np.arange(3.0)).dtype
    tensorx.float64
    """
    target = None if device is None else _device(device)
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(f"from_dlpack: {type(x).__name__} has no __dlpack__")
    if isinstance(x, _core.Tensor):
        if x.requires_grad:
            raise BufferError("from_dlpack: the tensor requires grad and the result would not: use x.detach()")
        if target is not None and target is not x.device:
            if copy is False:
                raise ValueError(f"from_dlpack: copy=False, but moving from {x.device} to {target} needs a copy")
            return x.to(target)
        return x.copy() if copy else x.detach()
    kind = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else 1
    if copy is False and target is not None and (target.type == "cpu") != (int(kind) == 1):
        raise ValueError(f"from_dlpack: copy=False, but moving to {target} needs a copy")
    extra = {"dl_device": (1, 0)} if int(kind) not in (1, 3) else {}
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **extra)
    except TypeError:
        capsule = x.__dlpack__()
    out = _core.dlpack_import(capsule)
    if target is not None and target is not out.device:
        return out.to(target)
    return out.copy() if copy else out


_core.add_method("__dlpack__", __dlpack__)
_core.add_method("__dlpack_device__", __dlpack_device__)
