"""Joining and cutting: concat, stack, split, repeat, tile, roll and their kin."""

from __future__ import annotations

import operator

from tensorx import _core
from tensorx.dtypes import dtype_from
from tensorx.errors import DeviceMismatchError, DTypeError, ShapeError
from tensorx.ops._record import record, wanted
from tensorx.ops.movement import axis_of

__all__ = ["chunk", "concat", "concatenate", "hsplit", "hstack", "repeat", "split", "stack", "tile", "unstack", "vstack"]

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip


def _together(op, arrays):
    """The tensors of a sequence in their common dtype, on one device."""
    arrays = list(arrays)
    if not arrays:
        raise ShapeError(f"{op}: needs at least one tensor")
    code = None
    for k, a in enumerate(arrays):
        if not isinstance(a, _core.Tensor):
            raise DTypeError(f"{op}: item {k} must be a tensor, got {type(a).__name__}; use tx.asarray")
        if a.device is not arrays[0].device:
            raise DeviceMismatchError(f"{op}: item 0 is on {arrays[0].device} and item {k} on {a.device}; move one with "
                                      f".to({str(arrays[0].device)!r})")
        wide = a.dtype.code if code is None else _core.promote_codes(code, a.dtype.code)
        if wide < 0:
            raise DTypeError(f"{op}: {_NAMES[code]} and {a.dtype.name} do not promote to a common dtype; convert one with astype")
        code = wide
    dtype = dtype_from(_NAMES[code])
    return [a if a.dtype is dtype else _core.cast(a, dtype) for a in arrays], dtype


def concat(arrays, /, *, axis=0):
    """Tensors one after the other along an existing axis; axis=None flattens them first.

    All other sizes must agree; dtypes promote.

    >>> import tensorx as tx
    >>> tx.concat([tx.asarray([1, 2]), tx.asarray([3])]).tolist()
    [1, 2, 3]
    """
    arrays = list(arrays)
    out = _core.join(arrays, axis, False)
    if out is not None:
        if not wanted(arrays):
            return out
        axis = axis_of("concat", axis, out.ndim)
        return record("concat", tuple(arrays), out, axis=axis, sizes=tuple(a.shape[axis] for a in arrays))
    arrays, _ = _together("concat", arrays)
    if axis is None:
        arrays = [a.reshape((a.size,)) for a in arrays]
        axis = 0
    ndim = arrays[0].ndim
    if ndim == 0:
        raise ShapeError("concat: 0-d tensors have no axis to join along; use stack")
    axis = axis_of("concat", axis, ndim)
    for k, a in enumerate(arrays):
        if a.ndim != ndim or a.shape[:axis] != arrays[0].shape[:axis] or a.shape[axis + 1 :] != arrays[0].shape[axis + 1 :]:
            raise ShapeError(f"concat: item {k} has shape {a.shape}, item 0 {arrays[0].shape}: they may differ only along axis {axis}")
    out = _core.join(arrays, axis, False)
    return record("concat", tuple(arrays), out, axis=axis, sizes=tuple(a.shape[axis] for a in arrays))


concatenate = concat


def stack(arrays, /, *, axis=0):
    """Tensors of one shape joined along a new axis.

    >>> import tensorx as tx
    >>> tx.stack([tx.asarray([1, 2]), tx.asarray([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    arrays = list(arrays)
    out = None if wanted(arrays) else _core.join(arrays, axis, True)
    if out is not None:
        return out
    arrays, _ = _together("stack", arrays)
    for k, a in enumerate(arrays):
        if a.shape != arrays[0].shape:
            raise ShapeError(f"stack: item {k} has shape {a.shape}, item 0 {arrays[0].shape}: all must be equal")
    axis = axis_of("stack", axis, arrays[0].ndim + 1)
    return concat([a.expand_dims(axis) for a in arrays], axis=axis)


def unstack(x, /, *, axis=0):
    """Views of all positions along an axis, a tuple.

    >>> import tensorx as tx
    >>> [a.tolist() for a in tx.unstack(tx.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    axis = axis_of("unstack", axis, x.ndim)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def split(x, size_or_sizes, /, *, axis=0):
    """Views of consecutive pieces along an axis: of one size (the last may be smaller) or of the given sizes.

    >>> import tensorx as tx
    >>> [a.tolist() for a in tx.split(tx.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    axis = axis_of("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(size_or_sizes, int):
        if size_or_sizes <= 0:
            raise ValueError(f"split: a size must be positive, got {size_or_sizes}")
        sizes = [size_or_sizes] * (n // size_or_sizes) + ([n % size_or_sizes] if n % size_or_sizes else [])
    else:
        sizes = [operator.index(s) for s in size_or_sizes]
        if any(s < 0 for s in sizes) or sum(sizes) != n:
            raise ShapeError(f"split: sizes {sizes} do not add up to axis {axis} of size {n}")
    out, start = [], 0
    for s in sizes:
        out.append(x[(slice(None),) * axis + (slice(start, start + s),)])
        start += s
    return tuple(out)


def chunk(x, chunks, /, *, axis=0):
    """At most that many views of equal size along an axis (the last may be smaller).

    >>> import tensorx as tx
    >>> [a.size for a in tx.chunk(tx.arange(5), 2)]
    [3, 2]
    """
    if chunks <= 0:
        raise ValueError(f"chunk: the number of chunks must be positive, got {chunks}")
    n = x.shape[axis_of("chunk", axis, x.ndim)]
    return split(x, max(1, -(-n // chunks)), axis=axis)


def hsplit(x, sizes, /):
    """Splits along axis 1 (axis 0 of a vector), see :func:`split`.

    >>> import tensorx as tx
    >>> [a.shape for a in tx.hsplit(tx.zeros((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    return split(x, sizes, axis=0 if x.ndim == 1 else 1)


def hstack(arrays, /):
    """Tensors joined along axis 1 (axis 0 for vectors).

    >>> import tensorx as tx
    >>> tx.hstack([tx.ones((2, 1)), tx.zeros((2, 1))]).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    arrays = [a.reshape((1,)) if a.ndim == 0 else a for a in arrays]
    return concat(arrays, axis=0 if arrays and arrays[0].ndim == 1 else 1)


def vstack(arrays, /):
    """Tensors joined along axis 0; vectors become rows.

    >>> import tensorx as tx
    >>> tx.vstack([tx.ones(2), tx.zeros(2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    return concat([a.reshape((1, a.size)) if a.ndim < 2 else a for a in arrays], axis=0)


def repeat(x, repeats, /, *, axis=None):
    """Each element repeated, one number for all or one per position along the axis (flattened without one).

    The array API's and NumPy's meaning; PyTorch's ``Tensor.repeat`` is :func:`tile`.

    >>> import tensorx as tx
    >>> tx.repeat(tx.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    if axis is None:
        x = x.reshape((x.size,))
        axis = 0
    axis = axis_of("repeat", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(repeats, int) or (isinstance(repeats, _core.Tensor) and repeats.size == 1):
        r = int(repeats)
        if r < 0:
            raise ValueError(f"repeat: repeats must not be negative, got {r}")
        wide = x.expand_dims(axis + 1).broadcast_to((*x.shape[: axis + 1], r, *x.shape[axis + 1 :]))
        return wide.reshape((*x.shape[:axis], n * r, *x.shape[axis + 1 :]))
    import numpy as np

    import tensorx

    counts = np.asarray(_core.reader(repeats) if isinstance(repeats, _core.Tensor) else repeats)
    if counts.size and counts.dtype.kind not in "iu":
        raise DTypeError(f"repeat: the repeats must be integers, got {counts.dtype}")
    if counts.shape != (n,) or (n and int(counts.min()) < 0):
        raise ShapeError(f"repeat: repeats of shape {counts.shape} for axis {axis} of size {n}; they must be as many, and not negative")
    index = tensorx.asarray(np.repeat(np.arange(n), counts.astype(np.int64)), device=x.device)
    return tensorx.take(x, index, axis=axis)


def tile(x, repetitions, /):
    """x laid side by side, as often as said per axis (new leading axes where there are more numbers than axes).

    >>> import tensorx as tx
    >>> tx.tile(tx.asarray([1, 2]), (2,)).tolist()
    [1, 2, 1, 2]
    """
    reps = (repetitions,) if isinstance(repetitions, int) else tuple(operator.index(r) for r in repetitions)
    if any(r < 0 for r in reps):
        raise ValueError(f"tile: repetitions must not be negative, got {reps}")
    ndim = max(x.ndim, len(reps))
    shape = (1,) * (ndim - x.ndim) + x.shape
    reps = (1,) * (ndim - len(reps)) + reps
    wide = tuple(v for s in shape for v in (1, s))
    full = tuple(v for r, s in zip(reps, shape) for v in (r, s))
    return x.reshape(wide).broadcast_to(full).reshape(tuple(r * s for r, s in zip(reps, shape)))


for _name in ("chunk", "split", "tile", "unstack"):
    _core.add_method(_name, globals()[_name])
del _name
