"""Exceptions of tensorx.

Every message names the op, what was wrong, the values, the rule and, where there is one,
the fix. All classes derive from :class:`TensorxError` and from the built-in exception that
NumPy or PyTorch users would expect to catch.

>>> issubclass(ShapeError, ValueError), issubclass(DTypeError, TypeError)
(True, True)
"""

from __future__ import annotations

__all__ = [
    "AxisError",
    "DTypeError",
    "DeviceMismatchError",
    "DeviceNotFoundError",
    "GradientError",
    "InplaceError",
    "LinAlgError",
    "MetalError",
    "MissingKernelError",
    "OutOfMemoryError",
    "ShapeError",
    "TensorxError",
    "ThreadingError",
]


class TensorxError(Exception):
    """Base of all errors raised by tensorx."""


class ShapeError(TensorxError, ValueError):
    """Shapes, axes or sizes do not fit the op."""


class LinAlgError(TensorxError, ValueError):
    """A matrix without what was asked for: a singular one has no inverse, an indefinite one no Cholesky factor."""


class AxisError(ShapeError, IndexError):
    """An axis that the tensor does not have."""


class DTypeError(TensorxError, TypeError):
    """Data types do not fit the op, or do not promote to one another."""


class DeviceMismatchError(TensorxError, ValueError):
    """Operands live on different devices."""


class DeviceNotFoundError(TensorxError, LookupError):
    """A device name or ordinal that does not exist here."""


class InplaceError(TensorxError, RuntimeError):
    """A write in place that cannot be carried out."""


class GradientError(TensorxError, RuntimeError):
    """A gradient that cannot be computed correctly."""


class OutOfMemoryError(TensorxError, MemoryError):
    """An allocation beyond the limit or beyond what the system gives."""


class MissingKernelError(TensorxError, NotImplementedError):
    """An op has no implementation for a device."""


class ThreadingError(TensorxError, RuntimeError):
    """A value or buffer that another thread holds, or lost, cannot be used."""


class MetalError(TensorxError, RuntimeError):
    """Metal reported a failure; the message names the kernels involved."""


for _name in __all__:
    globals()[_name].__module__ = "tensorx"
del _name
