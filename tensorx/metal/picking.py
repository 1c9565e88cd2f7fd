"""Reading and writing along one axis by an index tensor: what the core's indexing hands to Metal's kernels.

The core describes an operation by its loops, as lists of (size, stride of x, stride of the values, stride of
the index) in elements: the outer ones, the positions, the inner ones.  Each list has to be walked as one loop;
where that is not so, or there is no kernel, the answer is False and the core works on the host.
"""

from __future__ import annotations

from typing import Any

from . import codegen, indexing, launch
from .launch import Array, Scalar

Loops = list[tuple[int, int, int, int]]


def _one(loops: Loops) -> tuple[int, int, int, int] | None:
    """Several loops as one, or None."""
    dims, steps = launch.collapse([n for n, *_ in loops], [[loop[k] for loop in loops] for k in (1, 2, 3)])
    if len(dims) > 1:
        return None
    if not dims:
        return 1, 0, 0, 0
    return dims[0], steps[0][0], steps[1][0], steps[2][0]


def run(
    backend: Any, kind: str, x: tuple, axis: tuple[int, int], index: tuple, values: Any, loops: tuple[Loops, Loops, Loops], error: Exception
) -> bool:
    """``gather`` (values = x at the index), ``scatter`` (x at the index = values) or ``accumulate`` (+=).

    x, index, values: (dtype name, handle, offset, whole, shared); values may be a number for a scatter or an
    accumulation.  axis: size and stride of x's axis.  ``error`` is raised at the next wait if an index is out of range.
    """
    joined = [_one(part) for part in loops]
    dtype = x[0]
    if None in joined or dtype not in codegen.STORAGE or index[0] not in indexing.INDEX_DTYPES:
        return False
    if kind == "accumulate" and dtype in codegen.HALVES:
        return False  # the sum of halves is rounded once, at the end
    outer, at, inner = joined
    assert outer is not None and at is not None and inner is not None
    backend.inst.forget()
    inst, scratch = backend.inst, None
    size, step = axis
    sizes = (outer[0], at[0], inner[0])
    big = Array(x[1], dtype, (outer[0], size, inner[0]), (outer[1], step, inner[1]), x[2], x[3] and kind == "gather")
    where = Array(index[1], index[0], sizes, (outer[3], at[3], inner[3]), index[2])
    if isinstance(values, Scalar):
        scratch = inst.alloc(codegen.ITEM_BYTES[dtype])
        launch.fill(inst, launch.array(scratch, dtype, (1,), whole=True), values.value, "index (number)")
        small = Array(scratch, dtype, sizes, (0, 0, 0))
        shared = x[4] or index[4]
    else:
        small = Array(values[1], dtype, sizes, (outer[2], at[2], inner[2]), values[2], values[3] and kind == "gather")
        shared = x[4] or index[4] or values[4]
    status = backend.status()
    if kind == "gather":
        stamp = indexing.gather(inst, big, where, small, status, error)
    elif kind == "scatter":
        stamp = indexing.scatter(inst, small, where, big, status, error)
    else:
        stamp = indexing.accumulate(inst, small, where, big, status, error)
    if scratch is not None:
        scratch.release()
    if shared and stamp:
        inst.wait(stamp)
        status.check()
    return True
