"""Sorting and running reductions of tensors on Metal: the kernels of sorting.py on a tensor's own layout."""

from __future__ import annotations

import math

from tensorx import _core, dtypes
from tensorx.metal import codegen, sorting


def _lines(x, axis):
    """x as (outer, n, inner): a view where the layout allows it, else a copy."""
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return _core.reshape_view(x, (outer, x.shape[axis], inner))


def can_sort(x):
    """Whether there is a kernel for a tensor's dtype."""
    return x.dtype.name in codegen.STORAGE and x.dtype.kind != "c"


def sort(x, axis, descending, values, order):
    """(sorted values, positions) along an axis, each None where not wanted."""
    backend = x.device.backend
    found = (
        _core.empty(x.shape, x.dtype, x.device.number) if values else None,
        _core.empty(x.shape, dtypes.int64, x.device.number) if order else None,
    )
    if x.size:
        lines = [_lines(t, axis) if t is not None else None for t in (x, *found)]  # copies, too, are held until all is encoded
        leaves = [_core.device_leaf(t) if t is not None else None for t in lines]
        backend.inst.forget()
        source, v, o = (backend._array(leaf) if leaf is not None else None for leaf in leaves)
        backend._after(sorting.sort(backend.inst, source, 1, v, o, descending), *leaves)
    return found


def can_scan(kind, x):
    """Whether there is a kernel for running sums or products, or the linear recurrence, of a dtype."""
    if kind == _core.SCAN_LINEAR:
        return x.dtype.name in ("float32", "complex64")
    return kind in (_core.SCAN_SUM, _core.SCAN_PROD) and x.dtype.name in codegen.STORAGE


def scan(kind, x, axis, initial, b=None):
    """Running sums or products of x along an axis, in x's dtype, with the one of nothing in front where initial is set;
    or y[i] = x[i] * y[i - 1] + b[i]."""
    backend = x.device.backend
    shape = list(x.shape)
    shape[axis] += bool(initial)
    out = _core.empty(tuple(shape), x.dtype, x.device.number)
    body = out
    if initial:
        lead = (slice(None),) * axis
        _core.write_value(_core.basic_view(out, (*lead, slice(0, 1))), 0 if kind == _core.SCAN_SUM else 1, "cumulative")
        _core.reset_version(out)
        body = _core.basic_view(out, (*lead, slice(1, None)))
    if x.size:
        outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
        length = shape[axis]
        first = inner if initial else 0
        target = _core.strided_view(out, (outer, x.shape[axis], inner), (length * inner, inner, 1), first) if initial else _lines(body, axis)
        lines = [_lines(x, axis), target, *([_lines(b, axis)] if b is not None else [])]
        leaves = [_core.device_leaf(t) for t in lines]
        backend.inst.forget()
        source, aim, *second = (backend._array(leaf) for leaf in leaves)
        if second:
            backend._after(sorting.recurrence(backend.inst, source, second[0], aim), *leaves)
            return out
        name = "sum" if kind == _core.SCAN_SUM else "prod"
        backend._after(sorting.scan(backend.inst, name, source, 1, aim), *leaves)
    return out


def running(name, x, axis):
    """The largest ("max") or smallest ("min") element so far along an axis."""
    backend = x.device.backend
    out = _core.empty(x.shape, x.dtype, x.device.number)
    if x.size:
        lines = [_lines(t, axis) for t in (x, out)]
        leaves = [_core.device_leaf(t) for t in lines]
        backend.inst.forget()
        source, target = (backend._array(leaf) for leaf in leaves)
        backend._after(sorting.scan(backend.inst, name, source, 1, target), *leaves)
    return out


def search(line, values, right):
    """Where each of values would have to be put into a sorted line of their dtype: int64, of the values' shape."""
    backend = line.device.backend
    out = _core.empty(values.shape, dtypes.int64, line.device.number)
    if values.size == 0:
        return out
    if line.size == 0:
        return _core.full_like_scalar(values.shape, 0, dtypes.int64, line.device.number)
    flat = [_core.reshape_view(values, (values.size,)), _core.reshape_view(out, (out.size,))]
    leaves = [_core.device_leaf(t) for t in (line, *flat)]
    if values.size > 1 and leaves[1][4] != (1,):
        flat[0] = flat[0].copy()
        leaves[1] = _core.device_leaf(flat[0])
    backend.inst.forget()
    a, b, c = (backend._array(leaf) for leaf in leaves)
    backend._after(sorting.search(backend.inst, a, b, c, right), *leaves)
    return out
