"""What this namespace can do, in the terms of the array API standard (``__array_namespace_info__``).

>>> import tensorx as tx
>>> tx.__array_namespace_info__().capabilities()["boolean indexing"]
True
"""

from __future__ import annotations

from tensorx import dtypes as _dtypes
from tensorx.device import default_device, devices
from tensorx.device import device as _device

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
MAX_DIMENSIONS = 64

_STANDARD = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


class _Info:
    """Capabilities, devices and dtypes of the namespace; float16 and bfloat16, which the standard does not name, are not listed."""

    __module__ = "tensorx"

    def capabilities(self):
        """Which optional parts of the standard are here: a dict with "boolean indexing", "data-dependent shapes", "max dimensions".

        >>> import tensorx as tx
        >>> tx.__array_namespace_info__().capabilities()["max dimensions"]
        64
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAX_DIMENSIONS}

    def default_device(self):
        """The device of new tensors.

        >>> import tensorx as tx
        >>> tx.__array_namespace_info__().default_device() in tx.devices()
        True
        """
        return default_device()

    def devices(self):
        """All devices, a list.

        >>> import tensorx as tx
        >>> tx.__array_namespace_info__().devices()[0]
        tensorx.device('cpu')
        """
        return list(devices())

    def default_dtypes(self, *, device=None):
        """The dtypes that numbers get by default: "real floating", "complex floating", "integral", "indexing".

        >>> import tensorx as tx
        >>> tx.__array_namespace_info__().default_dtypes()["real floating"]
        tensorx.float32
        """
        if device is not None:
            _device(device)
        return {
            "real floating": _dtypes.float32,
            "complex floating": _dtypes.complex64,
            "integral": _dtypes.int64,
            "indexing": _dtypes.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes that a device has, by name; kind restricts them as in :func:`tensorx.isdtype`.

        >>> import tensorx as tx
        >>> list(tx.__array_namespace_info__().dtypes(kind="real floating", device="cpu"))
        ['float32', 'float64']
        """
        place = default_device() if device is None else _device(device)
        names = [n for n in _STANDARD if place.type != "metal" or n not in ("float64", "complex128")]
        found = {name: getattr(_dtypes, name) for name in names}
        if kind is None:
            return found
        return {name: dtype for name, dtype in found.items() if _dtypes.isdtype(dtype, kind)}


_Info.__name__ = _Info.__qualname__ = "__array_namespace_info__"


def __array_namespace_info__():
    """What this namespace can do: an object with ``capabilities()``, ``default_device()``, ``default_dtypes()``, ``devices()``, ``dtypes()``.

    >>> import tensorx as tx
    >>> tx.__array_namespace_info__().default_dtypes()["indexing"]
    tensorx.int64
    """
    return _Info()


def __array_namespace__(self, /, *, api_version=None):
    """The module tensorx. Raises ValueError for a version of the standard that it does not follow."""
    import tensorx

    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"__array_namespace__: version {api_version!r} of the array API is not supported; these are: {', '.join(VERSIONS)}")
    return tensorx


def to_device(self, device, /, *, stream=None):
    """An independent copy on a device. There are no streams: anything but None is a ValueError."""
    if stream is not None:
        raise ValueError(f"to_device: stream must be None (every device has one queue of its own), got {stream!r}")
    return self.to(_device(device))
