"""Making tensors: from Python data, NumPy arrays and buffers, and from nothing."""

from __future__ import annotations

import builtins
import math

from tensorx import _core, dtypes
from tensorx.device import default_device
from tensorx.device import device as _device
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError, OutOfMemoryError, ShapeError
from tensorx.ops import transfer

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_numpy", "frombuffer", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tensor", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Tensor = _core.Tensor


def _place(device):
    return default_device() if device is None else _device(device)


def check_shape(op, shape):
    """A shape given as an int or a sequence of ints, as a tuple."""
    if isinstance(shape, int) and not isinstance(shape, builtins.bool):
        shape = (shape,)
    try:
        shape = tuple(s.__index__() for s in shape)
    except (TypeError, AttributeError):
        raise ShapeError(f"{op}: a shape is an int or a sequence of ints, got {shape!r}") from None
    for s in shape:
        if s < 0:
            raise ShapeError(f"{op}: sizes must not be negative, got {shape}")
    return shape


def _new(op, shape, dtype, device):
    return _core.empty(shape, dtype, _number(device), False, op)


def _number(device):
    """The core's number of a device."""
    return device.number


def _from_array(array, dtype, device, copy):
    """A tensor of a NumPy array. copy True: independent; False: shared or an error; None: shared where possible."""
    import numpy as np

    if array.dtype.hasobject or array.dtype.kind not in "biufc" or array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        raise DTypeError(f"asarray: NumPy dtype {array.dtype} is not a data type of tensorx (object, string and extended types are not)")
    if not array.dtype.isnative:
        if copy is False:
            raise DTypeError(f"asarray: dtype {array.dtype.str!r} has the other byte order and cannot be shared; use copy=None or convert in NumPy")
        array = array.astype(array.dtype.newbyteorder("="))
    own = dtype_from(array.dtype)
    target = own if dtype is None else dtype
    if copy is False:
        if target is not own or device.number:
            raise ValueError(f"asarray: copy=False, but dtype {own.name} to {target.name} on {device} needs a copy")
        return share_array(array)
    if device.number and own.name in ("float64", "complex128"):
        return transfer.to_device(_from_array(array, target, _device("cpu"), True), device)
    out = _core.empty(array.shape, own, device.number, True, "asarray")
    if array.size:
        np.copyto(np.asarray(memoryview(out)), array)
    return out if target is own else _core.cast(out, target)


def share_array(array):
    """A tensor on the memory of a NumPy array."""
    item = array.dtype.itemsize
    if any(s % item for s in array.strides) or not array.flags.aligned:
        raise ValueError("from_numpy: the array's elements are not aligned to their size; use asarray (a copy)")
    address = array.__array_interface__["data"][0]
    strides = tuple(s // item for s in array.strides)
    return _core.from_address(address, array, dtype_from(array.dtype), array.shape, strides, not array.flags.writeable)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """A tensor with the values of obj.

    Parameters
    ----------
    obj : Tensor, NumPy array, number, nested sequence of numbers or tensors, or object with the buffer protocol or DLPack
    dtype : DType, optional
        Python numbers become bool, int64, float32 or complex64; arrays keep their dtype.
    device : Device or str, optional
        The default device, or the one of the tensor obj.
    copy : bool, optional
        True: independent of obj. False: shares obj's memory or raises ValueError. None: a tensor is returned as it is where
        nothing changes; everything else is copied.

    Examples
    --------
    >>> asarray([[1, 2], [3, 4]]).dtype
    tensorx.int64
    >>> asarray([1.5, 2.5]).tolist()
    [1.5, 2.5]
    """
    dtype = None if dtype is None else dtype_from(dtype)
    if isinstance(obj, Tensor):
        target = obj.device if device is None else _device(device)
        changed = (dtype is not None and dtype is not obj.dtype) or target is not obj.device
        if not changed:
            return obj.copy() if copy else obj
        if copy is False:
            raise ValueError(f"asarray: copy=False, but {obj.dtype.name} on {obj.device} to {dtype or obj.dtype} on {target} needs a copy")
        out = obj if dtype is None or dtype is obj.dtype else _core.cast(obj, dtype)
        return out.to(target) if target is not obj.device else out
    place = _place(device)
    import numpy as np

    if isinstance(obj, np.ndarray):
        return _from_array(obj, dtype, place, copy)
    if isinstance(obj, (np.generic,)):
        return _from_array(np.asarray(obj), dtype, place, None if copy is None else copy)
    if not isinstance(obj, (list, tuple, int, float, complex)) and hasattr(obj, "__dlpack__"):
        import tensorx

        out = tensorx.from_dlpack(obj, copy=copy)
        return asarray(out, dtype=dtype, device=device, copy=True if copy is None else copy)
    if copy is False and isinstance(obj, (list, tuple, int, float, complex)):
        raise ValueError("asarray: copy=False, but Python numbers and sequences have no memory to share")
    if isinstance(obj, (list, tuple)) and _holds_tensor(obj):
        import tensorx

        out = tensorx.stack([asarray(o) for o in obj])
        return asarray(out, dtype=dtype, device=device)
    return _from_array(*_python_array(obj, dtype), place, copy)


def _holds_tensor(obj):
    return any(isinstance(o, Tensor) or (isinstance(o, (list, tuple)) and _holds_tensor(o)) for o in obj)


def _python_array(obj, dtype):
    """(NumPy array, dtype) of Python numbers and sequences; ragged ones are an error."""
    import numpy as np

    if isinstance(obj, builtins.bool):
        found = dtypes.bool
    elif isinstance(obj, int):
        found = dtypes.int64
    elif isinstance(obj, float):
        found = dtypes.float32
    elif isinstance(obj, complex):
        found = dtypes.complex64
    else:
        found = None
    if found is not None:
        dtype = dtype or found
        return _checked_array(np, obj, dtype), dtype
    try:
        array = np.asarray(obj)
    except ValueError as error:
        raise ShapeError(f"asarray: nested sequences must have equal lengths: {error}") from None
    except OverflowError as error:
        raise OverflowError(f"asarray: {error}") from None
    if array.dtype.kind == "f" and array.size and (dtype is None or dtype.kind in "iu") and bool((np.abs(array) >= 2.0**63).any()):
        array = _large_integers(np, obj, array)
    if array.dtype == object and array.size and builtins.all(isinstance(v, int) for v in array.reshape(-1).tolist()):
        raise OverflowError(f"asarray: the integers of {type(obj).__name__} do not fit in 64 bits")
    if array.dtype == object or array.dtype.kind not in "biufc":
        raise DTypeError(f"asarray: {type(obj).__name__} holds values that are no numbers (NumPy reads them as {array.dtype})")
    if dtype is None:
        if isinstance(obj, (list, tuple)) and not _holds_numpy(obj, np):
            kind = array.dtype.kind if array.size else "f"
            dtype = {"b": dtypes.bool, "i": dtypes.int64, "u": dtypes.uint64, "f": dtypes.float32, "c": dtypes.complex64}[kind]
        else:
            dtype = dtype_from(array.dtype)
    return _checked_array(np, array, dtype), dtype


def _large_integers(np, obj, array):
    """Integers from 2**63 on beside smaller ones, which NumPy makes float64: kept exact where all are integers."""
    items = np.asarray(obj, dtype=object)
    if not builtins.all(isinstance(v, int) for v in items.reshape(-1).tolist()):
        return array
    low, high = builtins.min(items.reshape(-1)), builtins.max(items.reshape(-1))
    if low < 0 or high >= 2**64:
        raise OverflowError(f"asarray: the integers from {low} to {high} do not fit in one 64-bit type")
    return items.astype(np.uint64)


def _holds_numpy(obj, np):
    for o in obj:
        if isinstance(o, (np.ndarray, np.generic)):
            return True
        if isinstance(o, (list, tuple)):
            return _holds_numpy(o, np)
    return False


def _checked_array(np, obj, dtype):
    """obj as a NumPy array that converts to dtype without a surprise: integers out of range are errors."""
    array = np.asarray(obj)
    if array.dtype == object and isinstance(obj, int):
        raise OverflowError(f"asarray: the integer {obj} does not fit in 64 bits")
    if dtype.kind in "iu" and array.size and array.dtype.kind in "iu":
        info = dtypes.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < info.min or high > info.max:
            raise OverflowError(f"asarray: the value {low if low < info.min else high} is out of range for {dtype.name} ({info.min} to {info.max})")
    if array.dtype.kind == "c" and dtype.kind in "fiu":
        raise DTypeError(f"asarray: complex numbers do not convert to {dtype.name}; take the real part first")
    if dtype.kind == "c" and array.dtype.kind != "c":
        return array.astype(np.complex128)
    return array


def tensor(obj, *, dtype=None, device=None, requires_grad=False):
    """A new tensor with a copy of obj's values; see :func:`asarray`.

    >>> tensor([1.0, 2.0]).shape
    (2,)
    """
    out = asarray(obj, dtype=dtype, device=device, copy=None if isinstance(obj, (list, tuple, int, float, complex)) else True)
    if requires_grad:
        out = out.detach()
        out.requires_grad = True
    return out


def from_numpy(array, /):
    """A tensor that shares the memory of a NumPy array; writes are seen on both sides, a read-only array stays read-only.

    >>> import numpy as np
    >>> a = np.zeros(3)
    >>> t = from_numpy(a)
    >>> a[1] = 5.0
    >>> t.tolist()
    [0.0, 5.0, 0.0]
    """
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}; use asarray")
    return _from_array(array, None, _device("cpu"), False)


def frombuffer(buffer, *, dtype=dtypes.float32, count=-1, offset=0):
    """A one-dimensional tensor that shares the memory of a buffer (bytes give a read-only tensor).

    count is in elements (-1: all that fit), offset in bytes. Raises ValueError where the buffer is too small or misaligned.

    >>> frombuffer(bytes([1, 2, 3]), dtype=dtypes.uint8).tolist()
    [1, 2, 3]
    """
    dtype = dtype_from(dtype)
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("frombuffer: the buffer is not contiguous")
    nbytes = view.nbytes
    if offset < 0 or offset > nbytes:
        raise ValueError(f"frombuffer: offset {offset} is outside the buffer of {nbytes} bytes")
    room = nbytes - offset
    if count < 0:
        if room % dtype.itemsize:
            raise ValueError(f"frombuffer: {room} bytes are not a whole number of {dtype.name} elements")
        count = room // dtype.itemsize
    if count * dtype.itemsize > room:
        raise ValueError(f"frombuffer: {count} elements of {dtype.name} need {count * dtype.itemsize} bytes, the buffer has {room}")
    if (_core.buffer_address(view) + offset) % min(dtype.itemsize, 8):
        raise ValueError(f"frombuffer: offset {offset} is not aligned for {dtype.name}")
    return _core.from_buffer(view, dtype, (count,), (1,), offset, view.readonly)


def empty(shape, *, dtype=None, device=None):
    """A tensor with undefined values.

    >>> empty((2, 3)).shape
    (2, 3)
    """
    return _new("empty", check_shape("empty", shape), dtypes.float32 if dtype is None else dtype_from(dtype), _place(device))


def _full(op, shape, value, dtype, device):
    out = _new(op, shape, dtype, device)
    if out.size:
        _core.write_value(out, value, op)
        _core.reset_version(out)
    return out


def zeros(shape, *, dtype=None, device=None):
    """A tensor of zeros.

    >>> zeros(3).tolist()
    [0.0, 0.0, 0.0]
    """
    dtype = dtypes.float32 if dtype is None else dtype_from(dtype)
    return _full("zeros", check_shape("zeros", shape), False if dtype is dtypes.bool else 0, dtype, _place(device))


def ones(shape, *, dtype=None, device=None):
    """A tensor of ones.

    >>> ones((1, 2)).tolist()
    [[1.0, 1.0]]
    """
    dtype = dtypes.float32 if dtype is None else dtype_from(dtype)
    return _full("ones", check_shape("ones", shape), True if dtype is dtypes.bool else 1, dtype, _place(device))


def full(shape, fill_value, *, dtype=None, device=None):
    """A tensor filled with one number; its dtype follows the number unless given.

    >>> full(2, 7).tolist()
    [7, 7]
    """
    if dtype is None:
        kind = type(fill_value)
        dtype = dtypes.bool if kind is builtins.bool else fill_value.dtype if isinstance(fill_value, Tensor) else dtype_from(
            int if isinstance(fill_value, int) else complex if isinstance(fill_value, complex) else float)
    return _full("full", check_shape("full", shape), fill_value, dtype_from(dtype), _place(device))


def _like(x, dtype, device):
    return (x.dtype if dtype is None else dtype_from(dtype)), (x.device if device is None else _device(device))


def empty_like(x, /, *, dtype=None, device=None):
    """A tensor of x's shape with undefined values.

    >>> empty_like(zeros(4)).shape
    (4,)
    """
    return _new("empty_like", x.shape, *_like(x, dtype, device))


def zeros_like(x, /, *, dtype=None, device=None):
    """A tensor of zeros of x's shape.

    >>> zeros_like(ones(2)).tolist()
    [0.0, 0.0]
    """
    dtype, device = _like(x, dtype, device)
    return zeros(x.shape, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """A tensor of ones of x's shape.

    >>> ones_like(zeros(2)).tolist()
    [1.0, 1.0]
    """
    dtype, device = _like(x, dtype, device)
    return ones(x.shape, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """A tensor of x's shape filled with one number.

    >>> full_like(zeros(2), 3).tolist()
    [3.0, 3.0]
    """
    dtype, device = _like(x, dtype, device)
    return _full("full_like", x.shape, fill_value, dtype, device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Numbers from start (0 if only one argument is given) to stop, exclusive, spaced by step.

    The length is ceil((stop - start) / step) in float64; every value is start + i * step.

    >>> arange(2, 10, 3).tolist()
    [2, 5, 8]
    """
    import numpy as np

    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if dtype is None:
        dtype = dtypes.float32 if any(isinstance(v, float) for v in (start, stop, step)) else dtypes.int64
    dtype = dtype_from(dtype)
    whole = all(isinstance(v, int) for v in (start, stop, step))
    n = max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
    try:
        values = _spaced(np, n, start, step, dtype) if whole else start + np.arange(n, dtype=np.float64) * step
    except MemoryError as error:
        raise _too_many("arange", n, error) from None
    return _from_array(np.asarray(values), dtype, _place(device), True)


def _too_many(op, n, error):
    return OutOfMemoryError(f"{op}: out of memory for {n:,} numbers, which NumPy makes first: {error}")


def _spaced(np, n, start, step, dtype):
    """n integers, also beyond those of int64."""
    if dtype.kind != "u":
        return np.arange(n, dtype=np.int64) * step + start
    if n and step > 0:
        return np.arange(n, dtype=np.uint64) * np.uint64(step) + np.uint64(start)
    return np.asarray([start + i * step for i in range(n)], dtype=np.uint64)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num evenly spaced numbers from start to stop, both ends exact.

    >>> linspace(0.0, 1.0, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    import numpy as np

    if num < 0:
        raise ValueError(f"linspace: num must not be negative, got {num}")
    if dtype is None:
        dtype = dtypes.complex64 if isinstance(start, complex) or isinstance(stop, complex) else dtypes.float32
    dtype = dtype_from(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            values = np.asarray(np.linspace(start, stop, num, endpoint=endpoint))
        except MemoryError as error:
            raise _too_many("linspace", num, error) from None
        if not np.isfinite(values).all() and math.isfinite(abs(start)) and math.isfinite(abs(stop)):
            t = np.linspace(0.0, 1.0, num, endpoint=endpoint)  # the difference overflows, the numbers do not
            values = start * (1.0 - t) + stop * t
    if dtype.kind in "iu" and num:
        values = np.trunc(values).astype(dtype.name)
        for place, v in ((0, start), (-1, stop)):
            if isinstance(v, int) and (place == 0 or (endpoint and num > 1)):
                values[place] = v  # beyond 2**53 a double would not be exact
    return _from_array(values, dtype, _place(device), True)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with ones on diagonal k (positive: above the main one) and zeros elsewhere.

    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    n_cols = n_rows if n_cols is None else n_cols
    out = zeros(check_shape("eye", (n_rows, n_cols)), dtype=dtype, device=device)
    first = k if k >= 0 else -k * n_cols
    length = min(n_rows + min(k, 0), n_cols - max(k, 0))
    if length > 0:
        diagonal = _core.strided_view(out, (length,), (n_cols + 1,), first)
        _core.write_value(diagonal, True if out.dtype is dtypes.bool else 1, "eye")
        _core.reset_version(out)
    return out


def _triangle(name, x, k, keep_lower):
    if x.ndim < 2:
        raise ShapeError(f"{name}: needs at least 2 axes, got shape {x.shape}")
    import tensorx

    rows = tensorx.reshape(arange(x.shape[-2], device=x.device), (-1, 1))
    cols = arange(x.shape[-1], device=x.device)
    mask = cols <= rows + k if keep_lower else cols >= rows + k
    return tensorx.where(mask, x, zeros((), dtype=x.dtype, device=x.device))


def tril(x, /, *, k=0):
    """The lower triangle of the last two axes, up to diagonal k; zeros above.

    >>> tril(ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle("tril", x, k, True)


def triu(x, /, *, k=0):
    """The upper triangle of the last two axes, from diagonal k; zeros below.

    >>> triu(ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle("triu", x, k, False)


def meshgrid(*arrays, indexing="xy"):
    """Coordinate matrices of one-dimensional tensors; indexing "xy" exchanges the first two axes, "ij" does not.

    >>> [g.tolist() for g in meshgrid(arange(2), arange(3))]
    [[[0, 1], [0, 1], [0, 1]], [[0, 0], [1, 1], [2, 2]]]
    """
    import tensorx

    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if len({a.dtype for a in arrays}) > 1:
        raise DTypeError(f"meshgrid: tensors must have one dtype, got {[a.dtype.name for a in arrays]}")
    n = len(arrays)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shape = tuple(arrays[order[i]].size for i in range(n))
    out = []
    for i, a in enumerate(arrays):
        place = order.index(i)
        column = tensorx.reshape(a, tuple(a.size if j == place else 1 for j in range(n)))
        out.append(_core.broadcast_view(column, shape).copy())
    return out
