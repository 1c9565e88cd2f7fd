"""Layout: shape, strides and offset as a value of its own, without storage.

Strides and the offset are in elements, of any sign; all arithmetic is exact.

>>> Layout((2, 3)).permute((1, 0)).strides
(1, 3)
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorx.errors import ShapeError

__all__ = ["Layout"]


def _c_strides(shape):
    out, step = [], 1
    for s in reversed(shape):
        out.append(step)
        step *= max(s, 1)
    return tuple(reversed(out))


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie: element (i, j, ...) is at offset + i * strides[0] + j * strides[1] + ..."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] = None  # type: ignore[assignment]  # C order where not given
    offset: int = 0

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "strides", _c_strides(self.shape) if self.strides is None else tuple(self.strides))
        if len(self.shape) != len(self.strides):
            raise ShapeError(f"Layout: {len(self.shape)} sizes and {len(self.strides)} strides")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        return all(s == 1 or a == b for s, a, b in zip(self.shape, self.strides, _c_strides(self.shape)))

    def permute(self, axes) -> Layout:
        """The axes in another order."""
        return Layout(tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset)

    def narrow(self, axis: int, start: int, length: int) -> Layout:
        """The elements start to start + length of one axis."""
        if not 0 <= start <= start + length <= self.shape[axis]:
            raise ShapeError(f"Layout.narrow: {length} elements from {start} leave axis {axis} of size {self.shape[axis]}")
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return Layout(shape, self.strides, self.offset + start * self.strides[axis])

    def flip(self, axis: int) -> Layout:
        """One axis reversed."""
        strides = (*self.strides[:axis], -self.strides[axis], *self.strides[axis + 1 :])
        return Layout(self.shape, strides, self.offset + (self.shape[axis] - 1) * self.strides[axis])

    def broadcast_to(self, shape) -> Layout:
        """Repeated along new axes and axes of length one, with strides of 0."""
        extra = len(shape) - self.ndim
        strides = [0] * extra
        for mine, want, step in zip(self.shape, shape[extra:], self.strides):
            if mine != want and mine != 1:
                raise ShapeError(f"Layout.broadcast_to: {self.shape} does not broadcast to {tuple(shape)}")
            strides.append(step if mine == want else 0)
        return Layout(tuple(shape), tuple(strides), self.offset)
