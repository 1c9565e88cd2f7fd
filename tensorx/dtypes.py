"""Data types and what is known about them.

>>> import tensorx as tx
>>> tx.finfo(tx.float16).max, tx.iinfo("int8").min, tx.isdtype(tx.uint8, "integral")
(65504.0, -128, True)
"""

from __future__ import annotations

from tensorx import _core
from tensorx._core import DType, dtype_from

_builtin_bool = bool

__all__ = [
    "DType", "bfloat16", "bool", "can_cast", "complex64", "complex128", "dtype_from", "finfo", "float16", "float32", "float64",
    "iinfo", "int8", "int16", "int32", "int64", "isdtype", "result_type", "uint8", "uint16", "uint32", "uint64",
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


_BY_CODE = {d.code: d for d in (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128)}
_KIND_OF_NUMBER = {_builtin_bool: "b", int: "i", float: "f", complex: "c"}
_MIXES = {"b": "b", "i": "iufc", "f": "fc", "c": "fc"}  # kinds of dtypes that a Python number of that kind adapts to


def _promoted(op, a, b):
    code = _core.promote_codes(a.code, b.code)
    if code < 0:
        from tensorx.errors import DTypeError

        raise DTypeError(f"{op}: {a.name} and {b.name} do not promote to a common dtype; convert one of them with astype")
    return _BY_CODE[code]


def result_type(*arrays_and_dtypes):
    """The dtype of an operation on tensors, dtypes and Python numbers.

    Dtypes promote as in every op: within a kind to the wider one, bool to anything, real to complex. A Python number
    takes the dtype of the others, which must be of its kind or a later one of bool, integer, real, complex; a complex
    number makes a real dtype complex. Raises DTypeError where there is no common dtype (int32 and float32, int64 and
    uint64, int32 and 1.5), TypeError without any tensor or dtype.

    >>> result_type(int8, uint8), result_type(float32, 1j)
    (tensorx.int16, tensorx.complex64)
    """
    out, numbers = None, []
    for a in arrays_and_dtypes:
        kind = _KIND_OF_NUMBER.get(type(a)) or next((k for t, k in _KIND_OF_NUMBER.items() if not isinstance(a, type) and isinstance(a, t)), None)
        if kind is not None:
            numbers.append((kind, a))
            continue
        dtype = _dtype_of(a)
        out = dtype if out is None else _promoted("result_type", out, dtype)
    if out is None:
        raise TypeError("result_type: at least one argument must be a tensor or a dtype")
    for kind, a in numbers:
        if out.kind not in _MIXES[kind]:
            from tensorx.errors import DTypeError

            raise DTypeError(f"result_type: the Python number {a!r} does not mix with {out.name}; convert with astype")
        if kind == "c" and out.kind == "f":
            out = complex128 if out is float64 else complex64
    return out


def can_cast(from_, to, /):
    """Whether a dtype (or the dtype of a tensor) promotes to another without leaving it: ``result_type(from_, to) is to``.

    >>> can_cast(int8, int16), can_cast(float64, float32), can_cast(int32, float64)
    (True, False, False)
    """
    a, b = _dtype_of(from_), dtype_from(to)
    return _core.promote_codes(a.code, b.code) == b.code
