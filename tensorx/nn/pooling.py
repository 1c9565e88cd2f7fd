"""Pooling: maxima, averages and norms over windows, also of a wanted number of windows (adaptive)."""

from __future__ import annotations

import functools
import math

import tensorx as tx
from tensorx import _core
from tensorx.errors import DTypeError, ShapeError
from tensorx.nn.conv import _batched, spread
from tensorx.nn.module import Module
from tensorx.ops._record import record, wanted

FUNCTIONS = [f"{kind}_pool{n}d" for kind in ("adaptive_avg", "adaptive_max", "avg", "lp", "max") for n in (1, 2, 3)] + [
    f"max_unpool{n}d" for n in (1, 2, 3)
]
MODULES = [f"{kind}Pool{n}d" for kind in ("AdaptiveAvg", "AdaptiveMax", "Avg", "LP", "Max") for n in (1, 2, 3)] + [
    f"MaxUnpool{n}d" for n in (1, 2, 3)
]
__all__ = FUNCTIONS + MODULES


# ---- windows -----------------------------------------------------------------------------------


class _Axis:
    """The outputs along one axis: of each the first element of its window, the one behind the last, and the number of elements
    that averages with the padding divide by."""

    def __init__(self, firsts, lasts, padded=None):
        self.firsts, self.lasts, self.padded, self.count = firsts, lasts, padded, len(firsts)

    @property
    def inside(self):
        return [b - a for a, b in zip(self.firsts, self.lasts)]

    @functools.cached_property
    def tables(self):
        """For the CPU's loops."""
        return tuple(tx.asarray(values, dtype=tx.int64, device="cpu") for values in (self.firsts, self.lasts))


@functools.lru_cache(maxsize=256)
def _sliding(size, k, s, p, d, ceil_mode):
    free = size + 2 * p - d * (k - 1) - 1
    count = (free + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (count - 1) * s >= size + p:
        count -= 1
    firsts, lasts, sizes = [], [], []
    for o in range(count):
        a = o * s - p
        b = a + (k - 1) * d + 1
        sizes.append(min(b, size + p) - a)
        lasts.append(min(b, size))
        firsts.append(a if a >= 0 else a + (-a + d - 1) // d * d)
    return _Axis(firsts, lasts, sizes)


@functools.lru_cache(maxsize=256)
def _adaptive(size, count):
    firsts = [o * size // count for o in range(count)]
    lasts = [-((-(o + 1) * size) // count) for o in range(count)]
    return _Axis(firsts, lasts)


def _windows(op, x, n, kernel, stride, padding, dilation, ceil_mode):
    kernel = spread(op, "kernel_size", kernel, n, 1)
    stride = kernel if stride is None or stride == () or stride == [] else spread(op, "stride", stride, n, 1)
    padding, dilation = spread(op, "padding", padding, n), spread(op, "dilation", dilation, n, 1)
    axes = []
    for size, k, s, p, d in zip(x.shape[-n:], kernel, stride, padding, dilation):
        if p > k // 2:
            raise ValueError(f"{op}: padding {padding} must be at most half of kernel_size {kernel}")
        if size + 2 * p < d * (k - 1) + 1:
            raise ShapeError(f"{op}: a window of {kernel} (dilation {dilation}) is larger than the padded input of shape {x.shape}, padding {padding}")
        axes.append(_sliding(size, k, s, p, d, bool(ceil_mode)))
    return axes, (kernel, stride, padding, dilation)


def _adaptive_windows(op, x, n, output_size):
    sizes = (output_size,) * n if isinstance(output_size, int) or output_size is None else tuple(output_size)
    if len(sizes) != n:
        raise ValueError(f"{op}: output_size must be an integer or {n} of them, got {output_size!r}")
    if 0 in x.shape[-n:]:
        raise ShapeError(f"{op}: an input of shape {x.shape} has no elements to pool")
    return [_adaptive(size, size if o is None else o) for size, o in zip(x.shape[-n:], sizes)]


def _wide(x):
    """The dtype that values are added up in."""
    if x.dtype.kind != "f":
        raise DTypeError(f"pooling: needs floating-point values, got {x.dtype.name}")
    return tx.float64 if x.dtype is tx.float64 else tx.float32


class _Geometry:
    """What a pass needs besides the values. sliding: window, stride, padding, dilation; None where windows are adaptive.
    counts: per axis what averages divide by; divide says the same in a word and a number, for the core."""

    __slots__ = ("axes", "counts", "divide", "in_shape", "out_shape", "sliding", "step")

    def __init__(self, x, axes, sliding=None, counts=None, divide=None):
        n = len(axes)
        self.in_shape = x.shape
        self.out_shape = (*x.shape[: x.ndim - n], *(a.count for a in axes))
        self.axes = axes
        self.sliding, self.counts, self.divide = sliding, counts, divide
        self.step = sliding[3] if sliding else (1,) * n

    def run(self, which, x, index=None, indexed=True):
        wide, scale, windows, values = _wide(x), None, ((),) * len(self.axes), x.detach()
        if not _core.has_pooling(values):
            values = (values if values.dtype is wide else _core.cast(values, wide)).contiguous()
            scale = _divisor(self.counts, wide) if which in (1, 3) else None
            windows = tuple(a.tables for a in self.axes)
        out = _core.pooling(
            which, values, self.in_shape, self.out_shape, windows, self.step, index, scale, self.sliding, self.divide, indexed
        )
        if which == 0:
            return (out[0] if out[0].dtype is x.dtype else _core.cast(out[0], x.dtype)), out[1]
        return out if out.dtype is x.dtype else _core.cast(out, x.dtype)


def _kept(node, inputs, out, saved, wanted):
    return {k: _core.save(v, k) if isinstance(v, _core.Tensor) else v for k, v in saved.items()}


def _avg(which, x, geometry):
    return record("avg_pool" if which == 1 else "avg_unpool", (x,), geometry.run(which, x), geometry=geometry)


_core.rules["avg_pool"] = (_kept, lambda g, kept, wanted: {0: _avg(3, g, kept["geometry"])})
_core.rules["avg_unpool"] = (_kept, lambda g, kept, wanted: {0: _avg(1, g, kept["geometry"])})


def _placed(g, index, geometry):
    return record("max_place", (g,), geometry.run(2, g, index), index=index, geometry=geometry)


def _picked(x, index, geometry):
    return record("max_pick", (x,), geometry.run(4, x, index), index=index, geometry=geometry)


def _max_rule(apply):
    return _kept, lambda g, kept, wanted: {0: apply(g, kept["index"], kept["geometry"])}


_core.rules["max_pool"] = _max_rule(_placed)
_core.rules["max_place"] = _max_rule(_picked)
_core.rules["max_pick"] = _max_rule(_placed)


# ---- functions ------------------------------------------------------------------------------------


def _max(x, axes, sliding, return_indices, single):
    geometry = _Geometry(x, axes, sliding)
    out, index = geometry.run(0, x, indexed=bool(return_indices) or wanted((x,)))
    if index is not None:
        out = record("max_pool", (x,), out, index=index, geometry=geometry)
    if single:
        out, index = out.squeeze(0), index.squeeze(0) if return_indices else None
    return (out, index) if return_indices else out


def _max_pool(op, n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    x, single = _batched(op, input, n)
    axes, sliding = _windows(op, x, n, kernel_size, stride, padding, dilation, ceil_mode)
    return _max(x, axes, sliding, return_indices, single)


@functools.lru_cache(maxsize=256)
def _divisor(counts, dtype):
    out = tx.asarray([1.0], dtype=dtype, device="cpu")
    for c in counts:
        out = out.reshape((*out.shape, 1)) * tx.asarray([float(v) for v in c], dtype=dtype, device="cpu")
    return out.contiguous()


def _avg_pool(op, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    x, single = _batched(op, input, n)
    axes, sliding = _windows(op, x, n, kernel_size, stride, padding, 1, ceil_mode)
    counts, divide = [a.padded if count_include_pad else a.inside for a in axes], (int(bool(count_include_pad)), 0.0)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError(f"{op}: divisor_override must not be 0")
        divide = (2, float(divisor_override))
        counts = [[float(divisor_override) if k == 0 else 1.0] * a.count for k, a in enumerate(axes)]
    out = _avg(1, x, _Geometry(x, axes, sliding, tuple(tuple(c) for c in counts), divide))
    return out.squeeze(0) if single else out


def _adaptive_avg(op, n, input, output_size):
    x, single = _batched(op, input, n)
    axes = _adaptive_windows(op, x, n, output_size)
    out = _avg(1, x, _Geometry(x, axes, None, tuple(tuple(a.inside) for a in axes), (0, 0.0)))
    return out.squeeze(0) if single else out


def _adaptive_max(op, n, input, output_size, return_indices):
    x, single = _batched(op, input, n)
    return _max(x, _adaptive_windows(op, x, n, output_size), None, return_indices, single)


def _lp_pool(op, n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = spread(op, "kernel_size", kernel_size, n, 1)
    p = float(norm_type)
    powers = input * input if p == 2.0 else input**p
    mean = _avg_pool(op, n, powers, kernel, stride, 0, ceil_mode, True, None)
    return (tx.sign(mean) * tx.relu(tx.abs(mean)) * float(math.prod(kernel))) ** (1.0 / p)


def _unpool(op, n, input, indices, kernel_size, stride, padding, output_size):
    x, single = _batched(op, input, n)
    index = (indices.expand_dims(0) if single else indices).contiguous()
    if index.shape != x.shape:
        raise ShapeError(f"{op}: indices of shape {indices.shape} for an input of shape {input.shape}")
    kernel = spread(op, "kernel_size", kernel_size, n, 1)
    stride = kernel if stride is None else spread(op, "stride", stride, n, 1)
    padding = spread(op, "padding", padding, n)
    if output_size is None:
        sizes = [(s - 1) * st - 2 * p + k for s, st, p, k in zip(x.shape[-n:], stride, padding, kernel)]
    else:
        sizes = list(output_size)[-n:]
    area = math.prod(sizes)
    if index.device.type != "cpu":
        index = tx.where(index < 0, area, index)  # what lies outside is told at the next wait
    elif index.size and (int(index.min()) < 0 or int(index.max()) >= area):
        raise IndexError(f"{op}: indices reach outside of the output size {tuple(sizes)}")
    lead = x.shape[: x.ndim - n]
    flat, axis = tx.zeros((*lead, area), dtype=x.dtype, device=x.device), x.ndim - n
    index, values = index.reshape((*lead, -1)), x.reshape((*lead, -1))
    _core.scatter_along(flat, index, axis, values.detach(), False, op)
    _core.reset_version(flat)
    out = record("scatter", (flat.detach(), values), flat, axis=axis, index=index).reshape((*lead, *sizes))
    return out.squeeze(0) if single else out


def _define(n):
    """The functions and modules for n axes."""
    axes = ", ".join("LHD"[:1] if n == 1 else "HW" if n == 2 else "DHW")
    where = f"(N, C, {axes}) or (C, {axes})"

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return _max_pool(f"max_pool{n}d", n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        return _avg_pool(f"avg_pool{n}d", n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    def adaptive_avg_pool(input, output_size):
        return _adaptive_avg(f"adaptive_avg_pool{n}d", n, input, output_size)

    def adaptive_max_pool(input, output_size, return_indices=False):
        return _adaptive_max(f"adaptive_max_pool{n}d", n, input, output_size, return_indices)

    def lp_pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        return _lp_pool(f"lp_pool{n}d", n, input, norm_type, kernel_size, stride, ceil_mode)

    def max_unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        return _unpool(f"max_unpool{n}d", n, input, indices, kernel_size, stride, padding, output_size)

    texts = {
        "max_pool": f"Largest element of each window over {where}; with return_indices also their positions in the plane. NaN wins.",
        "avg_pool": f"Mean of each window over {where}; count_include_pad counts zeros of the padding.",
        "adaptive_avg_pool": f"Means over {where} in windows that give output_size.",
        "adaptive_max_pool": f"Largest elements over {where} in windows that give output_size.",
        "lp_pool": f"The p-norm, p = norm_type, of each window over {where}.",
        "max_unpool": f"The inverse of max_pool over {where}: values go to their indices, zeros elsewhere.",
    }
    for function in (max_pool, avg_pool, adaptive_avg_pool, adaptive_max_pool, lp_pool, max_unpool):
        kind = function.__name__
        function.__name__ = function.__qualname__ = f"{kind}{n}d"
        function.__doc__ = texts[kind]
        globals()[function.__name__] = function
        modules = "".join(part.capitalize() for part in kind.split("_")).replace("Lp", "LP") + f"{n}d"
        globals()[modules] = _pool_module(modules, function, kind, n)


_ARGUMENTS = {
    "max_pool": (("kernel_size", ...), ("stride", None), ("padding", 0), ("dilation", 1), ("return_indices", False), ("ceil_mode", False)),
    "avg_pool": (("kernel_size", ...), ("stride", None), ("padding", 0), ("ceil_mode", False), ("count_include_pad", True), ("divisor_override", None)),
    "adaptive_avg_pool": (("output_size", ...),),
    "adaptive_max_pool": (("output_size", ...), ("return_indices", False)),
    "lp_pool": (("norm_type", ...), ("kernel_size", ...), ("stride", None), ("ceil_mode", False)),
    "max_unpool": (("kernel_size", ...), ("stride", None), ("padding", 0)),
}  # fmt: skip


def _pool_module(name, function, kind, n):
    params = [p for p in _ARGUMENTS[kind] if not (kind == "avg_pool" and n == 1 and p[0] == "divisor_override")]
    names = [p for p, _ in params]

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        if len(args) > len(names):
            raise TypeError(f"{name}: takes at most {len(names)} arguments, got {len(args)}")
        given = dict(zip(names, args))
        for key, value in kwargs.items():
            if key not in names or key in given:
                raise TypeError(f"{name}: unexpected argument {key!r}; takes {', '.join(names)}")
            given[key] = value
        for key, default in params:
            if default is ... and key not in given:
                raise TypeError(f"{name}: argument {key!r} is missing")
            setattr(self, key, given.get(key, default))
        if "stride" in names and self.stride is None:
            self.stride = self.kernel_size

    def forward(self, input, *args, **kwargs):
        """The pooled input."""
        return function(input, *args, **{key: getattr(self, key) for key in names}, **kwargs)

    def extra_repr(self):
        return ", ".join(f"{key}={getattr(self, key)}" for key in names)

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": function.__doc__, "__module__": __name__, "__qualname__": name}
    return type(name, (Module,), body)


for _n in (1, 2, 3):
    _define(_n)
