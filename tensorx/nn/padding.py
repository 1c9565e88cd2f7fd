"""Padding: constant, reflected, replicated and circular."""

from __future__ import annotations

import tensorx as tx
from tensorx.errors import ShapeError
from tensorx.nn.module import Module

MODULES = [f"{kind}Pad{n}d" for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for n in (1, 2, 3)]
__all__ = [*MODULES, "pad"]


def pad(input, pad, mode="constant", value=None):
    """input with elements added at the ends of its last axes: pad = (before, after) of the last axis, then of the one before, ...

    mode: "constant" (value, 0 by default; negative widths cut off), "reflect", "replicate" or "circular".

    >>> import tensorx as tx
    >>> tx.nn.functional.pad(tx.asarray([1.0, 2.0]), (1, 2)).tolist()
    [0.0, 1.0, 2.0, 0.0, 0.0]
    >>> tx.nn.functional.pad(tx.asarray([1.0, 2.0, 3.0]), (2, 1), mode="reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    pad = tuple(int(p) for p in pad)
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(f"pad: {len(pad)} widths for an input of shape {input.shape}; two per axis are needed, last axis first")
    if mode == "constant":
        return _constant(input, pad, 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}")
    for k in range(len(pad) // 2):
        before, after = pad[2 * k], pad[2 * k + 1]
        if before or after:
            input = _along(input, input.ndim - 1 - k, before, after, mode)
    return input


def _constant(x, pad, value):
    shape, inner, crop = list(x.shape), [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for k in range(len(pad) // 2):
        axis = x.ndim - 1 - k
        before, after = pad[2 * k], pad[2 * k + 1]
        n = x.shape[axis]
        if n + before + after < 0:
            raise ShapeError(f"pad: widths {pad} cut off more than an input of shape {x.shape} has")
        if before < 0 or after < 0:
            crop[axis] = slice(max(-before, 0), n - max(-after, 0))
        shape[axis] = n + before + after
        inner[axis] = slice(max(before, 0), shape[axis] - max(after, 0))
    if any(c != slice(None) for c in crop):
        x = x[tuple(crop)]
    if all(p <= 0 for p in pad):
        return x.copy()
    kind = x.dtype.kind
    value = bool(value) if kind == "b" else int(value) if kind in "iu" else value
    whole = tx.full(tuple(shape), value, dtype=x.dtype, device=x.device)
    return tx.slice_assign(whole, tuple(inner), x)


def _along(x, axis, before, after, mode):
    n = x.shape[axis]
    low, high = max(before, 0), max(after, 0)
    if mode == "reflect" and (low >= n or high >= n):
        raise ShapeError(f"pad: reflecting {before} and {after} elements needs more than that many, axis {axis} of shape {x.shape} has {n}")
    if mode == "circular" and (low > n or high > n):
        raise ShapeError(f"pad: {before} and {after} elements around an axis of {n} wrap more than once (shape {x.shape})")
    if n == 0:
        raise ShapeError(f"pad: axis {axis} of shape {x.shape} has no elements to repeat")

    def part(a, b, step=1):
        return x[(slice(None),) * axis + (slice(a, b, step),)]

    def edge(at, count):
        shape = list(x.shape)
        shape[axis] = count
        return tx.broadcast_to(part(at, at + 1), tuple(shape))

    pieces = []
    if low:
        pieces.append(part(n - low, n) if mode == "circular" else edge(0, low) if mode == "replicate" else part(low, 0, -1))
    pieces.append(part(max(-before, 0), n - max(-after, 0)))
    if high:
        pieces.append(part(0, high) if mode == "circular" else edge(n - 1, high) if mode == "replicate"
                      else part(n - 2, n - 2 - high if n - 2 - high >= 0 else None, -1))  # fmt: skip
    return tx.concat(pieces, axis=axis) if len(pieces) > 1 else pieces[0]


def _padding(name, n, mode, doc):
    class Padding(Module):
        def __init__(self, padding, *value):
            super().__init__()
            self.padding = (padding,) * (2 * n) if isinstance(padding, int) else tuple(padding)
            if len(self.padding) != 2 * n:
                raise ValueError(f"{name}: an integer or {2 * n} of them are needed, got {padding!r}")
            if len(value) > (name.startswith("Constant")):
                raise TypeError(f"{name}: unexpected arguments {value}")
            if name.startswith("Constant"):
                self.value = value[0] if value else 0.0

        def forward(self, input):
            if input.ndim not in (n + 1, n + 2):
                raise self._error(f"an input with {n + 1} or {n + 2} axes is needed, got shape {input.shape}")
            return pad(input, self.padding, mode, getattr(self, "value", None))

        def extra_repr(self):
            return f"{self.padding}" + (f", value={self.value}" if hasattr(self, "value") else "")

    Padding.__name__ = Padding.__qualname__ = name
    Padding.__doc__ = doc
    return Padding


for _n in (1, 2, 3):
    for _kind, _mode, _what in (("Zero", "constant", "zeros"), ("Constant", "constant", "a number"), ("Reflection", "reflect", "reflected elements"),
                                ("Replication", "replicate", "copies of the edge"), ("Circular", "circular", "elements from the other end")):  # fmt: skip
        globals()[f"{_kind}Pad{_n}d"] = _padding(f"{_kind}Pad{_n}d", _n, _mode, f"Pads the last {_n} axes with {_what}.")
