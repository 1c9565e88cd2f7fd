"""Pooling: maxima and averages of windows over up to three axes, and their gradients.

One thread makes one result: forward it walks the elements of a window, backward the windows that hold an
element. Sums are made in float32, in the order of the CPU's loops, so that both devices give the same bits.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from . import codegen
from .bridge import READ, WRITE, Instance
from .codegen import FLOATS, STORAGE
from .launch import MAX_32, Array, dense, reach, scalar_word, thread_count, words

KINDS = ("max", "average", "max gradient", "average gradient", "pick")  # as the core counts them
_KERNELS = ("max_pool", "average_pool", "max_pool_gradient", "average_pool_gradient", "pick")


class Windows(NamedTuple):
    """Sizes of a pooling, for one to three axes; without a window the outputs share the inputs evenly (adaptive)."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    window: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    divide: tuple[int, float] = (0, 0.0)  # averages: 0 by the elements of a window, 1 by those and its padding, 2 by a number

    def words(self) -> list[int]:
        """As the kernels read them, with three axes each."""
        lead = 3 - len(self.inputs)
        ones, zeros = (1,) * lead, (0,) * lead
        window = self.window
        if window is None:
            window = stride = dilation = (1,) * (3 - lead)
            padding = (0,) * (3 - lead)
        else:
            stride, padding, dilation = self.stride, self.padding, self.dilation
        return [
            *ones, *self.inputs, *ones, *self.outputs, *ones, *window, *ones, *stride, *zeros, *padding, *ones, *dilation,
        ]  # fmt: skip

    def elements(self) -> int:
        """Elements of a window, at most."""
        if self.window is not None:
            return math.prod(self.window)
        return math.prod(-(-i // max(o, 1)) + 1 for i, o in zip(self.inputs, self.outputs))


@functools.lru_cache(maxsize=128)
def _text(kind: str, dtype: str, adaptive: bool, positions: bool, wide: bool) -> str:
    return codegen.fill(
        "pooling", {dtype},
        ADAPTIVE=int(adaptive), WITH_POSITIONS=int(positions), INDEX="long" if wide else "int", ITEM=STORAGE[dtype],
        LOAD=codegen.load_text("p", "at", dtype), STORE=codegen.store_text("y", dtype),
        POSITIONS="\n                     device long *positions [[buffer(2)]]," if positions else "",
        OFF=2 + positions, ARG=3 + positions, **{name.upper().replace(" ", "_"): int(name == kind) for name in KINDS},
    )  # fmt: skip


def pool(inst: Instance, kind: str, values: Array, out: Array, positions: Array | None, windows: Windows) -> int:
    """One pass. values: (N, C, *sizes) with any strides; out: the same number of axes, dense, of the same dtype.

    positions: places within a plane (int64, dense), written by ``max`` unless None, read by ``max gradient`` and ``pick``.
    """
    if kind not in KINDS or values.dtype not in FLOATS or out.dtype != values.dtype:
        raise ValueError(f"pooling ({kind}) of {values.dtype} into {out.dtype}")
    if "average" in kind and set(windows.dilation) - {1}:
        raise ValueError("averages of windows with holes")
    if out.strides != dense(out.shape):
        raise ValueError("the result of pooling is dense")
    if out.size == 0:
        return 0
    lead = 3 - len(windows.inputs)
    if len(values.shape) != 5 - lead:
        raise ValueError(f"pooling over {3 - lead} axes of values with {len(values.shape)}")
    planes = math.prod(out.shape[:2])
    sizes = [planes * math.prod(windows.inputs), planes * math.prod(windows.outputs), reach(values.shape, values.strides)]
    if windows.window is not None:  # ends of windows may lie outside
        steps = zip(windows.outputs, windows.stride, windows.window, windows.dilation)
        sizes += [i + p + o * s + k * d for i, p, (o, s, k, d) in zip(windows.inputs, windows.padding, steps)]
    wide = max(sizes) >= MAX_32
    text = _text(kind, values.dtype, windows.window is None, kind == "max" and positions is not None, wide)
    kernel = inst.kernel(text, _KERNELS[KINDS.index(kind)])
    strides = (*values.strides[:2], *(0,) * lead, *values.strides[2:])
    bindings = [values.binding(READ), out.binding(WRITE)]
    if positions is not None:
        bindings.append(positions.binding(WRITE if kind == "max" else READ))
    arguments = words(out.size, out.shape[1], *windows.words(), *strides, windows.divide[0], scalar_word(windows.divide[1], "float32"))
    ops = (windows.elements() if "gradient" not in kind else 4) * out.size
    label = f"{kind.split()[0]} pooling" + (" (gradient)" if "gradient" in kind else "")
    return inst.encode(kernel, bindings, (thread_count(out.size),), arguments, ops=ops, label=label)
