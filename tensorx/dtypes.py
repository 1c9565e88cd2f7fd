"""Data types and what is known about them.

>>> import tensorx as tx
>>> tx.finfo(tx.float16).max, tx.iinfo("int8").min, tx.isdtype(tx.uint8, "integral")
(65504.0, -128, True)
"""

from __future__ import annotations

from tensorx._core import DType, dtype_from

__all__ = [
    "DType", "bfloat16", "bool", "complex64", "complex128", "dtype_from", "finfo", "float16", "float32", "float64",
    "iinfo", "int8", "int16", "int32", "int64", "isdtype", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

bool = dtype_from("bool")
int8 = dtype_from("int8")
int16 = dtype_from("int16")
int32 = dtype_from("int32")
int64 = dtype_from("int64")
uint8 = dtype_from("uint8")
uint16 = dtype_from("uint16")
uint32 = dtype_from("uint32")
uint64 = dtype_from("uint64")
float16 = dtype_from("float16")
bfloat16 = dtype_from("bfloat16")
float32 = dtype_from("float32")
float64 = dtype_from("float64")
complex64 = dtype_from("complex64")
complex128 = dtype_from("complex128")


def _dtype_of(type):
    """The dtype of a tensor or dtype specification."""
    own = getattr(type, "dtype", None)
    return own if isinstance(own, DType) else dtype_from(type)


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, smallest_normal, dtype.

    For a complex dtype they are those of its parts.

    >>> finfo(float32).eps
    1.1920928955078125e-07
    """

    # mantissa bits (the hidden one not counted) and largest exponent
    _SHAPE = {"float16": (16, 10, 15), "bfloat16": (16, 7, 127), "float32": (32, 23, 127), "float64": (64, 52, 1023)}

    def __init__(self, type, /):
        dtype = _dtype_of(type)
        part = {"complex64": float32, "complex128": float64}.get(dtype.name, dtype)
        if part.name not in self._SHAPE:
            from tensorx.errors import DTypeError

            raise DTypeError(f"finfo: {dtype.name} is not a floating-point dtype; use iinfo")
        self.bits, mantissa, exponent = self._SHAPE[part.name]
        self.dtype = part
        self.eps = 2.0**-mantissa
        self.max = (2.0 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.smallest_normal = 2.0 ** (1 - exponent)

    def __repr__(self):
        return f"finfo(bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min}, smallest_normal={self.smallest_normal}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: bits, max, min, dtype.

    >>> iinfo(uint8).max
    255
    """

    def __init__(self, type, /):
        dtype = _dtype_of(type)
        if dtype.kind not in "iu":
            from tensorx.errors import DTypeError

            raise DTypeError(f"iinfo: {dtype.name} is not an integer dtype; use finfo")
        self.bits = dtype.itemsize * 8
        self.dtype = dtype
        self.max = 2 ** (self.bits - (dtype.kind == "i")) - 1
        self.min = -self.max - 1 if dtype.kind == "i" else 0

    def __repr__(self):
        return f"iinfo(bits={self.bits}, max={self.max}, min={self.min}, dtype={self.dtype})"


_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype, kind):
    """Whether dtype is of a kind: a DType, one of the standard's names (``"bool"``, ``"signed integer"``,
    ``"unsigned integer"``, ``"integral"``, ``"real floating"``, ``"complex floating"``, ``"numeric"``) or a tuple of these.

    >>> isdtype(float32, ("integral", "real floating"))
    True
    """
    dtype = dtype_from(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return dtype.kind in _KINDS[kind]
    if isinstance(kind, DType):
        return dtype is kind
    raise ValueError(f"isdtype: kind must be a dtype or one of {', '.join(_KINDS)}, got {kind!r}")
