"""Moving values between devices. Always an independent copy, and differentiable."""

from __future__ import annotations

from tensorx import _core
from tensorx.errors import DTypeError


def to_device(x, device):
    """An independent copy of x on another device."""
    if device.type == "metal" and x.dtype.name in ("float64", "complex128"):
        narrow = "float32" if x.dtype.name == "float64" else "complex64"
        raise DTypeError(f"to: {x.dtype.name} is not on Metal ({device}); pass dtype={narrow} or convert with astype(tx.{narrow})")
    out = _core.empty(x.shape, x.dtype, device.number, True, "to")
    _core.host_copy(out, x.detach())
    if x.requires_grad:
        _core.hooks.cast(x, out, "to")
    return out


_core.hooks.transfer = to_device
