"""Reading and writing by index arrays and masks: what the core's indexing hands to Metal's kernels.

The core describes an operation by its loops, as lists of (size, step of x, step of the values, steps of the index
arrays) in elements: the outer ones, the positions, the inner ones.  One index array whose lists can each be walked as
one loop has kernels of its own (indexing.py), everything else goes to those of positions.py.

Index arrays, masks and numbers that lie in the host's memory come as bytes and are copied.
"""

from __future__ import annotations

import math
from typing import Any

from . import indexing, launch, positions
from .bridge import Buffer, Instance
from .launch import Array

Loops = list[tuple[int, int, int, tuple[int, ...]]]
MAX_ARRAYS = positions.MAX_ARRAYS


class Sources:
    """Operands as arrays: (dtype name, handle, offset, whole, shared), or (dtype name, bytes, offset) from the host."""

    def __init__(self, inst: Instance):
        self.inst = inst
        self.shared = False
        self._copies: list[Buffer] = []

    def array(self, leaf: tuple, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()) -> Array:
        """One of them, seen with a shape and strides."""
        if not isinstance(leaf[1], bytes):
            self.shared = self.shared or leaf[4]
            return Array(leaf[1], leaf[0], shape, strides, leaf[2], leaf[3])
        buffer = self.inst.alloc(len(leaf[1]), host=True)
        self._copies.append(buffer)
        self.inst.write(buffer, leaf[1])
        return Array(buffer, leaf[0], shape, strides, leaf[2])

    def release(self) -> None:
        """Gives copies back."""
        for buffer in self._copies:
            buffer.release()


def _one(loops: Loops) -> tuple[int, int, int, int] | None:
    """Several loops of one index array as one, or None."""
    dims, steps = launch.collapse([n for n, *_ in loops], [[d[1] for d in loops], [d[2] for d in loops], [d[3][0] for d in loops]])
    if len(dims) > 1:
        return None
    if not dims:
        return 1, 0, 0, 0
    return dims[0], steps[0][0], steps[1][0], steps[2][0]


def _count(loops: Loops) -> int:
    """Passes of the innermost of some loops."""
    return math.prod(d[0] for d in loops)


def run(backend: Any, kind: str, x: tuple, arrays: list[tuple], values: tuple, loops: tuple[Loops, Loops, Loops], errors: tuple) -> None:
    """``gather`` (values = x at the positions), ``scatter`` (x there = values) or ``accumulate`` (+=).

    arrays: (operand, size of x's axis, x's step there).  ``errors``: for each of them, what is raised at the next wait
    if an index is out of range.
    """
    backend.inst.forget()
    inst, status, gathers = backend.inst, backend.status(), kind == "gather"
    sources = Sources(inst)
    indices = [sources.array(leaf) for leaf, _, _ in arrays]
    big, small = sources.array(x), sources.array(values)
    if not gathers:
        big, small = big._replace(whole=False), small._replace(whole=False)
    joined = [_one(part) for part in loops] if len(arrays) == 1 and indices[0].dtype in indexing.INDEX_DTYPES else [None]
    general = None in joined or (kind == "scatter" and not any(d[2] for d in loops[1]))
    if not general and kind == "accumulate":
        # where every element looks at all positions, there have to be few
        general = _count(loops[1]) > 128 and any(any(d[3]) for d in (*loops[0], *loops[2]))
    if general:
        picked = [positions.Picked(a, size, step) for a, (_, size, step) in zip(indices, arrays)]
        outside, points, within = ([positions.Dim(*d) for d in part] for part in loops)
        job = positions.Job(inst, big, small, picked, outside, points, within, status, errors)
        stamp = {"gather": job.get, "scatter": job.put, "accumulate": job.add}[kind]()
    else:
        outer, at, inner = joined
        assert outer is not None and at is not None and inner is not None
        _, size, step = arrays[0]
        sizes = (outer[0], at[0], inner[0])
        big = big._replace(shape=(outer[0], size, inner[0]), strides=(outer[1], step, inner[1]))
        small = small._replace(shape=sizes, strides=(outer[2], at[2], inner[2]))
        where = indices[0]._replace(shape=sizes, strides=(outer[3], at[3], inner[3]), whole=False)
        if gathers:
            stamp = indexing.gather(inst, big, where, small, status, errors[0])
        elif kind == "scatter":
            stamp = indexing.scatter(inst, small, where, big, status, errors[0])
        else:
            stamp = indexing.accumulate(inst, small, where, big, status, errors[0])
    sources.release()
    _after(backend, sources, stamp)


def _after(backend: Any, sources: Sources, stamp: int) -> None:
    """Where the host may look at a storage at any time, the work is waited for."""
    if sources.shared and stamp:
        backend.inst.wait(stamp)
        backend.status().check()


def find(backend: Any, mask: tuple, shape: tuple[int, ...], strides: tuple[int, ...], count: int | None) -> positions.Found:
    """How many elements of a mask are true; that is read back, unless it is known."""
    backend.inst.forget()
    sources = Sources(backend.inst)
    found = positions.find(backend.inst, sources.array(mask, shape, strides)._replace(whole=False), count)
    sources.release()
    if count is None:
        backend.told()
    return found


def under(
    backend: Any, kind: str, x: tuple, mask: tuple, found: positions.Found | None, values: tuple, loops: tuple[Loops, Loops, Loops], step: int
) -> None:
    """The same under a mask; ``step``: of the values from one true element to the next."""
    backend.inst.forget()
    inst = backend.inst
    sources = Sources(inst)
    big, small = sources.array(x), sources.array(values)
    outer, at, inner = ([positions.Dim(*d) for d in part] for part in loops)
    span = range(len(outer), len(outer) + len(at))
    big = big._replace(whole=False)
    if kind != "gather":
        small = small._replace(whole=False)
    what = {"gather": "get", "scatter": "put", "accumulate": "add"}[kind]
    flags = sources.array(mask)._replace(whole=False) if found is None else None
    stamp = positions.under(inst, what, big, small, flags, found, outer + at + inner, span, step)
    sources.release()
    _after(backend, sources, stamp)


def places(backend: Any, found: positions.Found, shape: tuple[int, ...], outs: list[tuple]) -> None:
    """The coordinates of the true elements: (operand, step) for each axis."""
    backend.inst.forget()
    sources = Sources(backend.inst)
    _after(backend, sources, positions.places(backend.inst, found, shape, [(sources.array(leaf), step) for leaf, step in outs]))
