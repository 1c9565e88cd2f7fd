"""Order along an axis: sort, argsort, searchsorted, running sums and products, differences, and the set functions.

Sorting is stable, NaN comes last whether ascending or descending, -0 counts as 0; complex numbers have no order.
"""

from __future__ import annotations

from collections import namedtuple

from tensorx import _core, dtypes
from tensorx._core import Tensor
from tensorx.dtypes import dtype_from, result_type
from tensorx.errors import DeviceMismatchError, DTypeError, ShapeError
from tensorx.ops import elementwise
from tensorx.ops._record import record
from tensorx.ops.indexing import take, take_along_axis
from tensorx.ops.movement import axis_of

__all__ = [
    "argsort", "cumulative_prod", "cumulative_sum", "diff", "isin", "searchsorted", "sort", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip


def _tensor(op, x):
    if not isinstance(x, Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    return x


def _ordered(op, x):
    if _tensor(op, x).dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order; sort by tx.real(x) or tx.abs(x)")
    return x


def _lines(x, axis, descending, values, order):
    """(sorted values, positions) along an axis, each None where not wanted: on the device's own kernel if it has one."""
    if x.device.type == "metal":
        from tensorx.metal import ordering

        if ordering.can_sort(x):
            return ordering.sort(x, axis, descending, values, order)
    return _core.sort_lines(x, axis, descending, values, order)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """x sorted along an axis: a copy. NaN comes last either way; differentiable.

    Parameters
    ----------
    x : real or bool tensor
    axis : int
        The last one by default. A 0-d tensor comes back as it is.
    descending : bool
    stable : bool
        Equal elements keep their order; they do so without it, too.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.sort(tx.asarray([3.0, 1.0, 2.0])).tolist()
    [1.0, 2.0, 3.0]
    >>> tx.sort(tx.asarray([[3, 1], [2, 4]]), axis=0, descending=True).tolist()
    [[3, 4], [2, 1]]
    """
    _ordered("sort", x)
    if x.ndim == 0:
        return x.copy()
    axis = axis_of("sort", axis, x.ndim)
    if x.requires_grad:
        return take_along_axis(x, _lines(x.detach(), axis, descending, False, True)[1], axis=axis)
    return _lines(x, axis, descending, True, False)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Positions (int64) that sort x along an axis: ``take_along_axis(x, argsort(x))`` is :func:`sort`.

    The parameters are those of :func:`sort`.

    >>> import tensorx as tx
    >>> tx.argsort(tx.asarray([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    _ordered("argsort", x)
    if x.ndim == 0:
        return _core.full_like_scalar((), 0, dtypes.int64, x.device.number)
    axis = axis_of("argsort", axis, x.ndim)
    return _lines(x.detach(), axis, descending, False, True)[1]


def _metal(x):
    """The kernels of Metal for a tensor there with an order, else None."""
    if x.device.type == "metal":
        from tensorx.metal import ordering

        if ordering.can_sort(x):
            return ordering
    return None


def _view(x):
    """A NumPy array of a tensor's values, read-only; bfloat16 as float32, which holds all of its values."""
    import numpy as np

    if x.dtype is dtypes.bfloat16:
        x = _core.cast(x, dtypes.float32)
    return np.asarray(_core.reader(x))


def _from(array, dtype, device):
    from tensorx.ops.creation import asarray

    return asarray(array, dtype=dtype, device=device)


def _one_device(op, x1, x2):
    if x1.device is not x2.device:
        raise DeviceMismatchError(f"{op}: operand 1 is on {x1.device} and operand 2 on {x2.device}; move one with .to({str(x1.device)!r})")


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where each element of x2 would have to be put into the sorted x1: int64, of x2's shape.

    Parameters
    ----------
    x1 : real tensor of one axis
        In ascending order, or in the order that sorter says.
    x2 : real tensor of any shape
        Of a dtype that promotes with x1's.
    side : "left" or "right"
        Before or behind equal elements.
    sorter : integer tensor, optional
        ``argsort(x1)``.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.searchsorted(tx.asarray([1, 3, 5]), tx.asarray([3, 4])).tolist()
    [1, 2]
    >>> tx.searchsorted(tx.asarray([1, 3, 5]), tx.asarray([3, 4]), side="right").tolist()
    [2, 2]
    """
    _ordered("searchsorted", x1)
    _ordered("searchsorted", x2)
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted tensor must have one axis, got shape {x1.shape}")
    _one_device("searchsorted", x1, x2)
    common = result_type(x1, x2)
    x1, x2 = x1.detach(), x2.detach()
    if sorter is not None:
        if _tensor("searchsorted", sorter).dtype.kind not in "iu" or sorter.shape != x1.shape:
            raise ShapeError(f"searchsorted: sorter must hold integers in the shape {x1.shape}, got {sorter.dtype.name} of {sorter.shape}")
        x1 = take(x1, sorter)
    line, values = _core.cast(x1, common), _core.cast(x2, common)
    kernels = _metal(line)
    if kernels is not None:
        return kernels.search(line, values, side == "right")
    return _core.search_line(line.contiguous(), values.contiguous(), side == "right")


# ---- running sums and products -------------------------------------------------------------


def scan(kind, x, axis, initial=False, b=None):
    """A running reduction without history, on the device's own kernel if it has one."""
    if x.device.type == "metal":
        from tensorx.metal import ordering

        if ordering.can_scan(kind, x):
            return ordering.scan(kind, x, axis, initial, b)
    return _core.scan_lines(kind, x, axis, initial, b)


def _cumulative(op, kind, x, axis, dtype, include_initial):
    _tensor(op, x)
    if x.ndim == 0:
        raise ShapeError(f"{op}: a 0-d tensor has no axis to run along")
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"{op}: a tensor of {x.ndim} axes needs axis=")
        axis = 0
    axis = axis_of(op, axis, x.ndim)
    if dtype is not None:
        dtype = dtype_from(dtype)
        if x.dtype is not dtype:
            x = _core.cast(x, dtype)
    elif x.dtype.kind in "biu":
        dtype = dtypes.uint64 if x.dtype.kind == "u" else dtypes.int64
    else:
        dtype = x.dtype
    wide = {"b": dtypes.int64, "i": dtypes.int64, "u": dtypes.uint64}.get(dtype.kind) or (dtypes.float32 if dtype.itemsize == 2 else dtype)
    run = x if x.dtype is wide else _core.cast(x, wide)
    initial = bool(include_initial)
    out = scan(kind, run.detach(), axis, initial)
    out = record(op, (run,), out, axis=axis, initial=initial)
    return out if out.dtype is dtype else _core.cast(out, dtype)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running sums along an axis; float32 accumulates in double, integers wrap.

    Parameters
    ----------
    x : tensor with at least one axis
    axis : int
        May be left out where x has one axis.
    dtype : DType, optional
        By default int64 for bool and signed integers, uint64 for unsigned ones, else x's dtype.
    include_initial : bool
        Whether the sum of nothing, 0, comes first; the axis is longer by one then.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.cumulative_sum(tx.asarray([1, 2, 3])).tolist()
    [1, 3, 6]
    >>> tx.cumulative_sum(tx.asarray([[1.0, 2.0]]), axis=1, include_initial=True).tolist()
    [[0.0, 1.0, 3.0]]
    """
    return _cumulative("cumulative_sum", _core.SCAN_SUM, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products along an axis; parameters and dtypes as :func:`cumulative_sum`, the product of nothing is 1.

    >>> import tensorx as tx
    >>> tx.cumulative_prod(tx.asarray([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    return _cumulative("cumulative_prod", _core.SCAN_PROD, x, axis, dtype, include_initial)


def linear_recurrence(a, b, axis):
    """y[i] = a[i] * y[i - 1] + b[i] along an axis, y[-1] = 0; a and b of one shape and dtype (float32, float64 or complex)."""
    return record("linear_recurrence", (a, b), scan(_core.SCAN_LINEAR, a.detach(), axis, False, b.detach()), axis=axis)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times over.

    prepend and append are tensors joined to x in front and behind first. The result is shorter by n along the axis.
    Differences of bool are where it changes; unsigned integers wrap.

    >>> import tensorx as tx
    >>> tx.diff(tx.asarray([1, 4, 9, 16])).tolist()
    [3, 5, 7]
    >>> tx.diff(tx.asarray([1, 4, 9, 16]), n=2).tolist()
    [2, 2]
    """
    from tensorx.ops.joining import concat

    _tensor("diff", x)
    if n < 0:
        raise ValueError(f"diff: n must not be negative, got {n}")
    if x.ndim == 0:
        raise ShapeError("diff: a 0-d tensor has no neighbours")
    axis = axis_of("diff", axis, x.ndim)
    if n == 0:
        return x.copy()
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    lead = (slice(None),) * axis
    for _ in range(n):
        later, earlier = x[lead + (slice(1, None),)], x[lead + (slice(None, -1),)]
        x = later != earlier if x.dtype is dtypes.bool else later - earlier
    return x


# ---- sets -------------------------------------------------------------------------------------

unique_all_result = namedtuple("unique_all_result", ["values", "indices", "inverse_indices", "counts"])
unique_counts_result = namedtuple("unique_counts_result", ["values", "counts"])
unique_inverse_result = namedtuple("unique_inverse_result", ["values", "inverse_indices"])


def _unique(op, x, index=False, inverse=False, counts=False):
    """The distinct values of x in order, then what is asked for, in NumPy's order. A NaN equals nothing, itself included."""
    import numpy as np

    _tensor(op, x)
    x = x.detach()
    flat = _core.reshape_view(x, (x.size,))
    if x.size and _metal(x) is not None:
        return _unique_there(x, flat, index, inverse, counts)
    if x.device.type != "cpu":
        x.device.backend.on_host(op)
    order = None
    if x.dtype.kind == "c":  # by real part, then imaginary part
        line = _view(flat)
        order = np.argsort(line, kind="stable")
        ordered = line[order]
    else:
        values, order = _lines(flat, 0, False, True, index or inverse)
        ordered, order = _view(values), None if order is None else _view(order)
    first = np.ones(ordered.shape, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    found = [_from(ordered[first], x.dtype, x.device)]
    starts = np.flatnonzero(first) if index or counts else None
    if index:
        found.append(_from(order[starts], dtypes.int64, x.device))
    if inverse:
        place = np.empty(ordered.shape, np.int64)
        place[order] = np.cumsum(first) - 1
        found.append(_from(place.reshape(x.shape), dtypes.int64, x.device))
    if counts:
        found.append(_from(np.diff(np.append(starts, x.size)), dtypes.int64, x.device))
    return found


def _unique_there(x, flat, index, inverse, counts):
    """The same on x's device; how many there are is waited for, once."""
    values, order = _lines(flat, 0, False, True, index or inverse)
    first = _core.full_like_scalar(values.shape, True, dtypes.bool, x.device.number)
    _core.write_value(_core.basic_view(first, slice(1, None)), elementwise.not_equal(values[1:], values[:-1]), "unique")
    starts = _core.nonzero(first, False)[0]
    found = [_core.take_axis(values, starts, 0, "unique")]
    if index:
        found.append(_core.take_axis(order, starts, 0, "unique"))
    if inverse:
        place = _core.empty(values.shape, dtypes.int64, x.device.number)
        number = scan(_core.SCAN_SUM, _core.cast(first, dtypes.int64), 0) - 1
        _core.put_axis(place, order, 0, number, False, "unique")
        _core.reset_version(place)
        found.append(_core.reshape_view(place, x.shape))
    if counts:
        ends = _core.full_like_scalar(starts.shape, x.size, dtypes.int64, x.device.number)
        _core.write_value(_core.basic_view(ends, slice(-1)), starts[1:], "unique")
        found.append(ends - starts)
    return found


def unique_all(x, /):
    """The distinct elements of x in ascending order, with positions and counts.

    Every NaN counts as distinct; -0 and 0 are equal.

    Returns
    -------
    A named tuple of ``values``; ``indices``, the position in the flattened x where each occurs first; ``inverse_indices`` of
    x's shape, with ``values[inverse_indices]`` equal to x; ``counts``, how often each occurs. The last three are int64.

    Examples
    --------
    >>> import tensorx as tx
    >>> found = tx.unique_all(tx.asarray([3, 1, 3]))
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
    ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    return unique_all_result(*_unique("unique_all", x, index=True, inverse=True, counts=True))


def unique_counts(x, /):
    """The distinct elements of x in ascending order and how often each occurs: a named tuple of ``values`` and ``counts``.

    >>> import tensorx as tx
    >>> [a.tolist() for a in tx.unique_counts(tx.asarray([3, 1, 3]))]
    [[1, 3], [1, 2]]
    """
    return unique_counts_result(*_unique("unique_counts", x, counts=True))


def unique_inverse(x, /):
    """The distinct elements of x in ascending order and where each element of x is among them: ``values``, ``inverse_indices``.

    >>> import tensorx as tx
    >>> [a.tolist() for a in tx.unique_inverse(tx.asarray([3, 1, 3]))]
    [[1, 3], [1, 0, 1]]
    """
    return unique_inverse_result(*_unique("unique_inverse", x, inverse=True))


def unique_values(x, /):
    """The distinct elements of x in ascending order; every NaN counts as distinct.

    >>> import tensorx as tx
    >>> tx.unique_values(tx.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    return _unique("unique_values", x)[0]


def isin(x1, x2, /, *, invert=False):
    """Whether each element of x1 is among those of x2: bool, of x1's shape; NaN is in nothing. Either may be a Python number.

    >>> import tensorx as tx
    >>> tx.isin(tx.asarray([1, 2, 3]), tx.asarray([3, 1])).tolist()
    [True, False, True]
    """
    both = [x for x in (x1, x2) if isinstance(x, Tensor)]
    if not both:
        raise DTypeError("isin: at least one operand must be a tensor")
    if len(both) == 2:
        _one_device("isin", x1, x2)
    common = result_type(x1, x2)
    a, b = (_core.cast(x.detach(), common) if isinstance(x, Tensor) else _from(x, common, both[0].device) for x in (x1, x2))
    kernels = _metal(a)
    if kernels is not None and a.size and b.size:
        line = _lines(_core.reshape_view(b, (b.size,)), 0, False, True, False)[0]
        near = elementwise.minimum(kernels.search(line, a, False), b.size - 1)
        hit = elementwise.equal(_core.take_axis(line, near, 0, "isin"), a)
        return elementwise.logical_not(hit) if invert else hit
    if a.device.type != "cpu":
        a.device.backend.on_host("isin")
    import numpy as np

    return _from(np.asarray(np.isin(_view(a), _view(b), invert=invert)), dtypes.bool, a.device)


for _name in ("argsort", "cumulative_prod", "cumulative_sum", "diff", "sort"):
    _core.add_method(_name, globals()[_name])
del _name
