"""Modules and functions that move elements: flatten, fold, pixel and channel shuffles, interpolation."""

from __future__ import annotations

import functools
import math

import tensorx as tx
from tensorx.errors import ShapeError
from tensorx.nn.conv import spread
from tensorx.nn.module import Module

FUNCTIONS = ["channel_shuffle", "fold", "interpolate", "pixel_shuffle", "pixel_unshuffle", "unfold", "upsample"]
__all__ = [
    *FUNCTIONS, "ChannelShuffle", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


class Flatten(Module):
    """Merges the axes from start_axis to end_axis into one.

    >>> import tensorx as tx
    >>> tx.nn.Flatten()(tx.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_axis=1, end_axis=-1):
        super().__init__()
        self.start_axis, self.end_axis = start_axis, end_axis

    def forward(self, input):
        return tx.flatten(input, self.start_axis, self.end_axis)

    def extra_repr(self):
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"


class Unflatten(Module):
    """Splits an axis into several."""

    def __init__(self, axis, unflattened_size):
        super().__init__()
        self.axis, self.unflattened_size = axis, tuple(unflattened_size)

    def forward(self, input):
        return tx.unflatten(input, self.axis, self.unflattened_size)

    def extra_repr(self):
        return f"axis={self.axis}, unflattened_size={self.unflattened_size}"


# ---- shuffles ----------------------------------------------------------------------------------------


def pixel_shuffle(input, upscale_factor):
    """(..., C r r, H, W) to (..., C, H r, W r) (Shi and others 2016)."""
    r = upscale_factor
    if input.ndim < 3 or input.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: channels divisible by {r * r} (axis -3) are needed, got shape {input.shape}")
    *lead, c, h, w = input.shape
    n = len(lead)
    x = input.reshape((*lead, c // (r * r), r, r, h, w))
    return x.permute_dims((*range(n), n, n + 3, n + 1, n + 4, n + 2)).reshape((*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input, downscale_factor):
    """The inverse of pixel_shuffle."""
    r = downscale_factor
    if input.ndim < 3 or input.shape[-1] % r or input.shape[-2] % r:
        raise ShapeError(f"pixel_unshuffle: height and width divisible by {r} are needed, got shape {input.shape}")
    *lead, c, h, w = input.shape
    n = len(lead)
    x = input.reshape((*lead, c, h // r, r, w // r, r))
    return x.permute_dims((*range(n), n, n + 2, n + 4, n + 1, n + 3)).reshape((*lead, c * r * r, h // r, w // r))


def channel_shuffle(input, groups):
    """Mixes the channels (axis 1) of groups."""
    if input.ndim < 3 or input.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: channels (axis 1) divisible by {groups} are needed, got shape {input.shape}")
    n, c = input.shape[:2]
    x = input.reshape((n, groups, c // groups, *input.shape[2:]))
    return tx.swapaxes(x, 1, 2).reshape(input.shape)


# ---- windows as columns -----------------------------------------------------------------------------------


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Windows of (N, C, H, W) as columns: (N, C * kernel elements, windows)."""
    from tensorx.nn.padding import pad

    if input.ndim not in (3, 4):
        raise ShapeError(f"unfold: an input of 4 axes (or 3 without a batch) is needed, got shape {input.shape}")
    single = input.ndim == 3
    x = input.expand_dims(0) if single else input
    k, d = spread("unfold", "kernel_size", kernel_size, 2, 1), spread("unfold", "dilation", dilation, 2, 1)
    p, s = spread("unfold", "padding", padding, 2), spread("unfold", "stride", stride, 2, 1)
    if any(p):
        x = pad(x, (p[1], p[1], p[0], p[0]))
    for axis in (2, 3):
        span = d[axis - 2] * (k[axis - 2] - 1) + 1
        if x.shape[axis] < span:
            raise ShapeError(f"unfold: a window of {k} (dilation {d}) is larger than the padded input of shape {input.shape}")
        x = tx.unfold(x, axis, span, s[axis - 2])
    x = x[..., :: d[0], :: d[1]]
    n, c, oh, ow, kh, kw = x.shape
    out = x.permute_dims((0, 1, 4, 5, 2, 3)).reshape((n, c * kh * kw, oh * ow))
    return out.squeeze(0) if single else out


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds columns back to where unfold took them from: (N, C * kernel elements, windows) to (N, C, *output_size)."""
    from tensorx.nn.conv import _pass

    single = input.ndim == 2
    x = input.expand_dims(0) if single else input
    size, k = spread("fold", "output_size", output_size, 2, 1), spread("fold", "kernel_size", kernel_size, 2, 1)
    d, p, s = spread("fold", "dilation", dilation, 2, 1), spread("fold", "padding", padding, 2), spread("fold", "stride", stride, 2, 1)
    out = tuple((n + 2 * b - a * (m - 1) - 1) // c + 1 for n, b, a, m, c in zip(size, p, d, k, s))
    area = k[0] * k[1]
    if x.ndim != 3 or x.shape[1] % area or x.shape[2] != out[0] * out[1]:
        raise ShapeError(f"fold: an input of shape (N, C * {area}, {out[0] * out[1]}) is needed for the output size {size}, got {input.shape}")
    c = x.shape[1] // area
    # a transposed convolution whose weight is one at one place per input channel
    weight = tx.eye(area, dtype=x.dtype, device=x.device).reshape((area, 1, *k))
    y = x.reshape((x.shape[0] * c, area, *out))
    y = _pass(1, y, weight, None, ((y.shape[0], 1, *size), weight.shape, y.shape), (s, p, d, 1)).reshape((x.shape[0], c, *size))
    return y.squeeze(0) if single else y


# ---- interpolation ------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _nearest(size, out, scale, exact, device):
    step = 1.0 / scale if scale else size / out
    places = [min(int((o + (0.5 if exact else 0.0)) * step), size - 1) for o in range(out)]
    return tx.asarray(places, dtype=tx.int64, device=device)


def _cubic(t, a=-0.75):
    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


@functools.lru_cache(maxsize=256)
def _matrix(size, out, scale, mode, align, antialias, dtype, device):
    """(out, size) weights of one axis."""
    rows = [[0.0] * size for _ in range(out)]
    step = ((size - 1) / (out - 1) if out > 1 else 0.0) if align else (1.0 / scale if scale else size / out)
    if antialias:
        reach = (1.0 if mode == "linear" else 2.0) * max(step, 1.0)
        shrink = 1.0 / max(step, 1.0)
        for o in range(out):
            centre = step * (o + 0.5)
            first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), size)
            weights = []
            for i in range(first, last):
                t = abs((i - centre + 0.5) * shrink)
                if mode == "linear":
                    weights.append(max(0.0, 1.0 - t))
                else:
                    weights.append(_cubic(t, -0.5)[1] if t < 1 else _cubic(t - 1, -0.5)[0] if t < 2 else 0.0)
            total = sum(weights) or 1.0
            for i, w in zip(range(first, last), weights):
                rows[o][i] = w / total
        return tx.asarray(rows, dtype=dtype, device=device)
    for o in range(out):
        x = step * o if align else step * (o + 0.5) - 0.5
        if mode == "linear":
            x = max(x, 0.0)
            i = min(int(x), size - 1)
            t = x - i
            rows[o][i] += 1.0 - t
            rows[o][min(i + 1, size - 1)] += t
        else:
            i = math.floor(x)
            for k, w in enumerate(_cubic(x - i)):
                rows[o][min(max(i - 1 + k, 0), size - 1)] += w
    return tx.asarray(rows, dtype=dtype, device=device)


@functools.lru_cache(maxsize=256)
def _area(size, out, dtype, device):
    rows = [[0.0] * size for _ in range(out)]
    for o in range(out):
        a, b = o * size // out, -((-(o + 1) * size) // out)
        for i in range(a, b):
            rows[o][i] = 1.0 / (b - a)
    return tx.asarray(rows, dtype=dtype, device=device)


_MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "area": (1, 2, 3)}


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """(N, C, ...) resampled to a size, or by a factor, over one to three spatial axes.

    mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".

    >>> import tensorx as tx
    >>> tx.nn.functional.interpolate(tx.asarray([[[1.0, 2.0]]]), scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    n = input.ndim - 2
    if mode not in _MODES:
        raise ValueError(f"interpolate: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if n not in _MODES[mode]:
        raise ShapeError(f"interpolate: mode {mode!r} is for {' or '.join(str(m + 2) for m in _MODES[mode])} axes, got shape {input.shape}")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor")
    smooth = mode in ("linear", "bilinear", "trilinear", "bicubic")
    if align_corners is not None and not smooth:
        raise ValueError(f"interpolate: align_corners is for linear and cubic modes, not {mode!r}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias is for 'bilinear' and 'bicubic', not {mode!r}")
    scales = (None,) * n
    if size is not None:
        sizes = spread("interpolate", "size", size, n, 1)
    else:
        factors = (float(scale_factor),) * n if isinstance(scale_factor, (int, float)) else tuple(float(f) for f in scale_factor)
        if len(factors) != n:
            raise ValueError(f"interpolate: scale_factor must be a number or {n} of them, got {scale_factor!r}")
        sizes = tuple(int(math.floor(s * f)) for s, f in zip(input.shape[2:], factors))
        if any(s < 1 for s in sizes):
            raise ShapeError(f"interpolate: the output of an input of shape {input.shape} would have no elements (scale_factor {scale_factor})")
        if not recompute_scale_factor:
            scales = factors
    x = input
    for k, (out, scale) in enumerate(zip(sizes, scales)):
        axis, length = k + 2, x.shape[k + 2]
        if mode.startswith("nearest"):
            x = tx.take(x, _nearest(length, out, scale, mode == "nearest-exact", x.device), axis=axis)
            continue
        dtype = x.dtype if x.dtype.name in ("float32", "float64") else tx.float32
        if mode == "area":
            m = _area(length, out, dtype, x.device)
        else:
            m = _matrix(length, out, scale, "cubic" if mode == "bicubic" else "linear", bool(align_corners), bool(antialias), dtype, x.device)
        m = m if m.dtype is x.dtype else m.astype(x.dtype)
        x = x @ m.T if axis == x.ndim - 1 else tx.swapaxes(tx.swapaxes(x, axis, -1) @ m.T, axis, -1)
    return x if x.shape != input.shape or x is not input else x.copy()


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The same as :func:`interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


class Upsample(Module):
    """Resamples to a size, or by a factor; see :func:`interpolate`."""

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input):
        return interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    def extra_repr(self):
        return (f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}") + f", mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode "nearest"."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode "bilinear" and aligned corners."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)


def _module(name, function, params):
    names = [p for p, _ in params]

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        given = dict(zip(names, args)) | kwargs
        unknown = [key for key in given if key not in names]
        if unknown or len(args) > len(names):
            raise TypeError(f"{name}: takes {', '.join(names)}, got {unknown or args}")
        for key, default in params:
            if default is ... and key not in given:
                raise TypeError(f"{name}: argument {key!r} is missing")
            setattr(self, key, given.get(key, default))

    def forward(self, input):
        return function(input, *(getattr(self, key) for key in names))

    def extra_repr(self):
        return ", ".join(f"{key}={getattr(self, key)}" for key in names)

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": function.__doc__, "__module__": __name__, "__qualname__": name}
    return type(name, (Module,), body)


PixelShuffle = _module("PixelShuffle", pixel_shuffle, (("upscale_factor", ...),))
PixelUnshuffle = _module("PixelUnshuffle", pixel_unshuffle, (("downscale_factor", ...),))
ChannelShuffle = _module("ChannelShuffle", channel_shuffle, (("groups", ...),))
Unfold = _module("Unfold", unfold, (("kernel_size", ...), ("dilation", 1), ("padding", 0), ("stride", 1)))
Fold = _module("Fold", fold, (("output_size", ...), ("kernel_size", ...), ("dilation", 1), ("padding", 0), ("stride", 1)))
