"""Elementwise programs on the GPU: from arrays to a dispatch.

An :class:`Array` is a typed, strided window of a buffer.  The functions here and in the sibling
modules (``reductions``, ``products``, ``rows``, ``indexing``, ``sorting``, ``randoms``) check
nothing about tensors; shapes, dtypes and overlap are the caller's business.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import codegen
from .bridge import OVERWRITE, READ, WRITE, Binding, Buffer, Instance
from .codegen import INDEX, LINEAR, ONE, SCALAR, STRIDED, Instr, Operand, Program

MAX_32 = 2**31 - 1


class Array(NamedTuple):
    """A window of a buffer; strides and offset count elements.

    ``whole`` says that the window is all that anybody reads of the buffer: writing it overwrites
    the buffer.
    """

    buffer: Buffer | int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    whole: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def binding(self, access: int) -> Binding:
        """This window as an argument of a dispatch."""
        if access & WRITE and self.whole:
            access |= OVERWRITE
        return Binding(self.buffer, codegen.ITEM_BYTES[self.dtype], access, self.offset)


class Scalar(NamedTuple):
    """A value passed as an argument."""

    value: Any
    dtype: str


class Index(NamedTuple):
    """The position in the iteration space, an int64."""

    dtype: str = "int64"


Input = Array | Scalar | Index


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def array(buffer: Buffer | int, dtype: str, shape: Sequence[int], offset: int = 0, whole: bool = False) -> Array:
    """A C-ordered window."""
    shape = tuple(shape)
    return Array(buffer, dtype, shape, dense(shape), offset, whole)


def scalar_word(value: Any, dtype: str) -> int:
    """A value as the 64-bit argument that ``codegen.scalar_text`` reads."""
    if dtype == "complex64":
        z = complex(value)
        return int.from_bytes(struct.pack("<ff", z.real, z.imag), "little")
    if dtype in codegen.FLOATS:
        return int.from_bytes(struct.pack("<f", value) + bytes(4), "little")
    return int(value) & (2**64 - 1)


def words(*values: int) -> bytes:
    """64-bit arguments, signed ones in two's complement."""
    return struct.pack(f"<{len(values)}Q", *(v & (2**64 - 1) for v in values))


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Merge dimensions that all operands step through as one; drop those of size 1.

    >>> collapse((2, 3, 4), [(12, 4, 1), (0, 0, 0), (12, 4, 1)])
    ([24], [[1], [0], [1]])
    >>> collapse((2, 3), [(3, 1), (0, 1)])
    ([2, 3], [[3, 1], [0, 1]])
    """
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if dims and all(mine[-1] == theirs[d] * n for mine, theirs in zip(steps, strides)):
            dims[-1] *= n
            for mine, theirs in zip(steps, strides):
                mine[-1] = theirs[d]
        else:
            dims.append(n)
            for mine, theirs in zip(steps, strides):
                mine.append(theirs[d])
    return dims, steps


def layout_class(dims: Sequence[int], strides: Sequence[int]) -> str:
    """The layout class of an operand after :func:`collapse`."""
    if not any(strides):
        return ONE if math.prod(dims) != 1 else LINEAR
    return LINEAR if tuple(strides) == dense(dims) else STRIDED


def reach(dims: Sequence[int], strides: Sequence[int]) -> int:
    """The largest distance of an element from the first one."""
    low = sum((n - 1) * s for n, s in zip(dims, strides) if s < 0)
    high = sum((n - 1) * s for n, s in zip(dims, strides) if s > 0)
    return max(high, -low)


def thread_count(count: int) -> int:
    """Threads for a loop over ``count`` elements: one each, or several where there are many."""
    if count <= 1 << 16:
        return count
    return min(-(-count // 4), 1 << 24)


def elementwise(
    inst: Instance,
    inputs: Sequence[Input],
    instrs: Sequence[Instr],
    outputs: Sequence[tuple[int, Array]],
    label: str = "fused",
) -> int:
    """Run instructions over broadcast inputs; all outputs have one shape. Returns the stamp.

    ``outputs`` pairs registers with arrays.  Inputs have the outputs' shape, with strides of 0 where
    they are broadcast.
    """
    shape = outputs[0][1].shape
    count = math.prod(shape)
    if count == 0:
        return 0
    arrays = [x for x in inputs if isinstance(x, Array)] + [a for _, a in outputs]
    dims, steps = collapse(shape, [a.strides for a in arrays])
    classes = [layout_class(dims, s) for s in steps]
    for k in range(len(arrays) - len(outputs), len(arrays)):
        if classes[k] == ONE:
            raise ValueError("an output that is broadcast")
    wide = count > MAX_32 or any(reach(dims, s) > MAX_32 for s in steps)
    by_array = iter(zip(classes, steps))
    operands, in_steps, scalars = [], [], []
    for x in inputs:
        if isinstance(x, Array):
            kind, s = next(by_array)
            operands.append(Operand(x.dtype, kind))
            if kind == STRIDED:
                in_steps.append(s)
        elif isinstance(x, Scalar):
            operands.append(Operand(x.dtype, SCALAR))
            scalars.append(scalar_word(x.value, x.dtype))
        else:
            operands.append(Operand("int64", INDEX))
    results = []
    for register, a in outputs:
        kind, s = next(by_array)
        results.append((register, Operand(a.dtype, kind)))
        if kind == STRIDED:
            in_steps.append(s)
    program = Program(tuple(operands), tuple(instrs), tuple(results), len(dims) if in_steps else 0)
    threads = thread_count(count)
    values = [count]
    if in_steps:
        values += dims
        for s in in_steps:
            values += s
    values += scalars
    kernel = inst.kernel(codegen.elementwise(program, wide), "fused")
    bindings = [x.binding(READ) for x in inputs if isinstance(x, Array)]
    bindings += [a.binding(WRITE) for _, a in outputs]
    return inst.encode(kernel, bindings, (threads,), words(*values), ops=count * max(1, len(instrs)), label=label)


def copy(inst: Instance, source: Array, target: Array, label: str = "copy") -> int:
    """target = source, with strides and a cast where they differ; moves keep every bit."""
    if source.dtype == target.dtype:
        # as integers: no arithmetic may touch subnormals or NaNs
        kind = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}[codegen.ITEM_BYTES[source.dtype]]
        source, target = source._replace(dtype=kind), target._replace(dtype=kind)
        return elementwise(inst, [source], [], [(0, target)], label)
    return elementwise(inst, [source], [Instr("cast", source.dtype, 1, (0,), target.dtype)], [(1, target)], label)


def fill(inst: Instance, target: Array, value: Any, label: str = "fill") -> int:
    """Every element of target = value."""
    return elementwise(inst, [Scalar(value, target.dtype)], [], [(0, target)], label)
