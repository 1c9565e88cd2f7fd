"""Reading and writing at positions that several index arrays name, or a mask: any number of dimensions.

A loop is described by :class:`Dim` entries.  Dimensions of positions are those along which an index array
steps, or along which several positions may meet in one element; the others are free.  Of several writes to one
element the last position wins; sums are added up in the order of the positions, halves in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import codegen, sorting
from .bridge import READ, WRITE, Binding, Buffer, Instance
from .codegen import ITEM_BYTES, STORAGE
from .indexing import ZERO, Status, add_text, moved
from .launch import MAX_32, Array, array, collapse, copy, fill, thread_count, words

MAX_ARRAYS = 24  # index arrays of one kernel: their buffers, and three more
KINDS = ("get", "put", "claim", "cells", "sorted", "mask_get", "mask_put", "mask_fill", "places", "spread")


class Dim(NamedTuple):
    """One loop: its size, the steps of x, of the values and of every index array, in elements."""

    size: int
    x: int
    y: int
    steps: tuple[int, ...]


class Picked(NamedTuple):
    """An index array (its steps are in the dims), the size of x's axis that it indexes, x's step there."""

    array: Array
    size: int
    step: int


@functools.lru_cache(maxsize=256)
def _text(kind: str, dtype: str, indices: tuple[str, ...], wide: bool, option: bool = False, found: str = "int32") -> str:
    """``option``: add instead of put."""
    n = len(indices)
    loads = [
        f"{'from_start(' if name == 'uint64' else 'from_end(long('}ix{a}[off[{a}] + at{a}]{'' if name == 'uint64' else ')'}, long(arg[{7 + 3 * a}]))"
        for a, name in enumerate(indices)
    ]  # fmt: skip
    return codegen.fill(
        "positions", {dtype}, WHICH=KINDS.index(kind), ITEM=STORAGE[dtype], ZERO=ZERO[dtype], INT="ulong" if wide else "uint",
        HEAD=7 + 3 * n, WIDTH=5 + n, BYTES=ITEM_BYTES[dtype], ACCUMULATE=int(option), FOUND=STORAGE[found], F=2,
        TRUE="ix0[off[0] + at0]" if n else "0",
        ARRAYS=" ".join(f"device const {STORAGE[name]} *ix{a} [[buffer({a})]]," for a, name in enumerate(indices)),
        STARTS=" ".join(f"long at{a} = 0;" for a in range(n)),
        STEPS=" ".join(f"at{a} += c * long(dim[{5 + a}]);" for a in range(n)),
        RESOLVE=" ".join(
            f"{{ const long j = {load}; if (j < 0) bad |= {1 << a}u; "
            f"else {{ xo += j * long(arg[{8 + 3 * a}]); cell += j * long(arg[{9 + 3 * a}]); }} }}" for a, load in enumerate(loads)
        ),
        **{f"B{k}": n + k for k in range(6)}, REGISTER=codegen.REGISTER[dtype], ADD=add_text(dtype),
        LOAD_TARGET=codegen.load_text("q", "0", dtype), LOAD_SOURCE=codegen.load_text("p", "yo", dtype),
        STORE=codegen.store_text("sum", dtype),
    )  # fmt: skip


class _Loop:
    """Dims with the steps of positions and cells, merged where all of them go on alike, as arguments."""

    def __init__(self, dims: Sequence[Sequence[int]], width: int):
        sizes, steps = collapse([d[0] for d in dims], [[d[k] for d in dims] for k in range(1, width)])
        self.count = math.prod(d[0] for d in dims)
        self.dims = [[n, *(s[k] for s in steps)] for k, n in enumerate(sizes)]


class Job:
    """One operation on x by index arrays; ``free`` dims lie before and behind those of the positions."""

    def __init__(
        self, inst: Instance, x: Array, y: Array, arrays: Sequence[Picked], outer: Sequence[Dim], at: Sequence[Dim],
        inner: Sequence[Dim], status: Status, errors: Sequence[Exception],
    ):  # fmt: skip
        self.inst, self.x, self.y, self.arrays = inst, x, y, arrays
        self.status, self.errors = status, tuple(errors)
        # an index that has an element for each of x's others: those axes are positions of their own
        tagged = [(d, any(d.steps)) for d in outer] + [(d, True) for d in at] + [(d, any(d.steps)) for d in inner]
        apart = [any(d.steps) for d in outer] + [False] * len(at) + [any(d.steps) for d in inner]
        cells = 1
        self.cell_steps = []
        for picked in reversed(arrays):
            self.cell_steps.insert(0, cells)
            cells *= picked.size
        rows: list[list[int]] = []
        place = 1
        for (dim, counted), own in zip(reversed(tagged), reversed(apart)):
            rows.insert(0, [dim.size, dim.x, dim.y, place if counted else 0, cells if own else 0, *dim.steps])
            place *= dim.size if counted else 1
            cells *= dim.size if own else 1
        self.cells, self.positions = cells, place
        width = 5 + len(arrays)
        self.every = _Loop(rows, width)
        self.points = _Loop([row for row, (_, counted) in zip(rows, tagged) if counted], width)
        self.free = _Loop([row for row, (_, counted) in zip(rows, tagged) if not counted], width)
        self.same = not any(d.y for d in at)  # positions that meet in a cell have the same value

    def _encode(
        self, kind: str, loop: _Loop, dtype: str, more: list[Binding], label: str, *, checks: bool = False, adds: bool = False,
        free: _Loop | None = None,
    ) -> int:  # fmt: skip
        """One dispatch; ``checks``: that tells which indices are out of range."""
        count = loop.count * (free.count if free is not None else 1)
        dims = loop.dims + (free.dims if free is not None else [])
        head = [count, len(loop.dims), len(free.dims) if free is not None else 0, self.free.count, self.cells, self.positions, 0]
        for picked, cell in zip(self.arrays, self.cell_steps):
            head += [picked.size, picked.step, cell]
        wide = max(count, self.positions) > MAX_32
        kernel = self.inst.kernel(_text(kind, dtype, tuple(p.array.dtype for p in self.arrays), wide, adds), f"pick_{kind}")
        bindings = [p.array.binding(READ) for p in self.arrays] + more
        arguments = words(*head, *(number for dim in dims for number in dim))
        encode = functools.partial(self.status.encode, self.errors) if checks else self.inst.encode
        return encode(kernel, bindings, (thread_count(count),), arguments, ops=count * (4 + 4 * len(dims)), label=label)

    def get(self) -> int:
        """y = x at the positions."""
        x, y = moved(self.x), moved(self.y)
        return self._encode("get", self.every, x.dtype, [x.binding(READ), y.binding(WRITE)], "gather", checks=True)

    def put(self) -> int:
        """x at the positions = y."""
        x, y = moved(self.x), moved(self.y)
        ends = [y.binding(READ), x.binding(READ | WRITE)]
        if self.same:
            return self._encode("spread", self.every, x.dtype, ends, "scatter", checks=True)
        if self.positions > MAX_32 or self.cells > 65536 + 16 * self.positions:
            return self._sorted(x, y, False)
        winner = self.inst.alloc(4 * self.cells)
        fill(self.inst, array(winner, "uint32", (self.cells,), whole=True), 0, "scatter (clear)")
        self._encode("claim", self.points, "uint32", [Binding(winner, 4, READ | WRITE)], "scatter (claim)", checks=True)
        stamp = self._encode("put", self.every, x.dtype, [*ends, Binding(winner, 4, READ)], "scatter")
        winner.release()
        return stamp

    def add(self) -> int:
        """x at the positions += y."""
        return self._sorted(self.x, self.y, True)

    def _sorted(self, x: Array, y: Array, accumulate: bool) -> int:
        n = self.positions
        line = [self.inst.alloc(8 * n) for _ in range(3)]
        cells, keys, order = (array(b, "int64", (1, n, 1), whole=True) for b in line)
        self._encode("cells", self.points, "int64", [cells.binding(WRITE)], "index (cells)", checks=True)
        sorting.sort(self.inst, cells, 1, keys, order)
        more = [y.binding(READ), x.binding(READ | WRITE), keys.binding(READ), order.binding(READ)]
        stamp = self._encode(
            "sorted", self.points, x.dtype, more, "accumulate" if accumulate else "scatter", adds=accumulate, free=self.free
        )
        for buffer in line:
            buffer.release()
        return stamp


# ---- masks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """How many elements of a mask are true up to and with each one, in C order."""

    array: Array
    count: int

    def release(self) -> None:
        """Gives the memory back."""
        assert isinstance(self.array.buffer, Buffer)
        self.array.buffer.release()


def find(inst: Instance, mask: Array, count: int | None = None) -> Found:
    """Counts along a mask of at least one element. How many are true is read back where not known, which waits."""
    n = mask.size
    dims, steps = collapse(mask.shape, [mask.strides])
    spare = None
    if len(dims) > 1:
        spare = inst.alloc(n)
        line = array(spare, "uint8", mask.shape, whole=True)
        copy(inst, mask._replace(dtype="uint8"), line, "mask")
        line = array(spare, "bool", (1, n, 1))
    else:
        line = mask._replace(shape=(1, n, 1), strides=(0, steps[0][0] if dims else 0, 0), whole=False)
    dtype = "int32" if n <= MAX_32 else "int64"
    size = ITEM_BYTES[dtype]
    buffer = inst.alloc(size * n)
    found = array(buffer, dtype, (1, n, 1), whole=True)
    sorting.scan(inst, "sum", line, 1, found)
    if spare is not None:
        spare.release()
    if count is None:
        count = int.from_bytes(inst.read(buffer, size * (n - 1), size), "little")
    return Found(found, count)


def under(
    inst: Instance, kind: str, x: Array, y: Array, mask: Array | None, found: Found | None, dims: Sequence[Dim], span: range, step: int
) -> int:
    """``get``, ``put`` or ``add`` under a mask, whose dims are those in ``span``; its steps are the only ones of the dims.

    ``step`` is that of y from one true element to the next.  Without ``found``, y is the same for all of them.
    """
    place = 1
    rows: list[list[int]] = []
    for k, dim in reversed(list(enumerate(dims))):
        own = k in span
        rows.insert(0, [dim.size, dim.x, dim.y, place if own else 0, 0, *(dim.steps if found is None else ())])
        place *= dim.size if own else 1
    if kind != "add":
        x, y = moved(x), moved(y)
    loop = _Loop(rows, 5 if found is not None else 6)
    wide = max(loop.count, place) > MAX_32
    head = [loop.count, len(loop.dims), 0, 1, 0, found.count if found is not None else 0, step]
    if found is not None:
        name = "mask_get" if kind == "get" else "mask_put"
        text = _text(name, x.dtype, (), wide, kind == "add", found.array.dtype)
        ends = [x.binding(READ), y.binding(WRITE)] if kind == "get" else [y.binding(READ), x.binding(READ | WRITE)]
        bindings = [*ends, found.array.binding(READ)]
    else:
        assert mask is not None
        name = "mask_fill"
        text = _text(name, x.dtype, ("bool",), wide, kind == "add")
        head += [0, 0, 0]
        bindings = [mask.binding(READ), y.binding(READ), x.binding(READ | WRITE)]
    arguments = words(*head, *(number for dim in loop.dims for number in dim))
    label = {"get": "gather (mask)", "put": "scatter (mask)", "add": "accumulate (mask)"}[kind]
    return inst.encode(
        inst.kernel(text, name), bindings, (thread_count(loop.count),), arguments, ops=loop.count * (4 + 4 * len(loop.dims)), label=label
    )


def places(inst: Instance, found: Found, shape: Sequence[int], outs: Sequence[tuple[Array, int]]) -> int:
    """The coordinates of the true elements, an int64 array and its step for each axis."""
    n = math.prod(shape)
    text = _text("places", "int64", (), n > MAX_32, False, found.array.dtype)
    behind, stamp = n, 0
    for size, (out, step) in zip(shape, outs):
        behind //= size
        bindings = [found.array.binding(READ), out.binding(WRITE)]
        stamp = inst.encode(
            inst.kernel(text, "mask_places"), bindings, (thread_count(n),), words(n, behind, size, step), ops=6 * n, label="nonzero"
        )
    return stamp
