"""Convolutions and transposed convolutions of one, two and three axes."""

from __future__ import annotations

import math

import tensorx as tx
from tensorx import _core
from tensorx.errors import DTypeError, ShapeError
from tensorx.nn import init
from tensorx.nn.lazy import LazyModule
from tensorx.nn.linear import fits
from tensorx.nn.module import Module
from tensorx.nn.padding import pad
from tensorx.ops._record import record

FUNCTIONS = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
__all__ = [
    *FUNCTIONS, "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip


def spread(op, name, value, n, least=0):
    """A number for all axes, or one per axis, as a tuple."""
    out = (value,) * n if isinstance(value, int) else tuple(value)
    if len(out) == 1 and n > 1:
        out = out * n
    if len(out) != n or not all(isinstance(v, int) and v >= least for v in out):
        raise ValueError(f"{op}: {name} must be an integer of at least {least}, or {n} of them, got {value!r}")
    return out


# ---- the three passes, each the derivative of the others -------------------------------------------


def _raw(which, a, b, bias, shapes, geometry):
    """A pass of the compiled core on dense float32 or float64 values, or on what a device has kernels for."""
    dtype = a.dtype
    if dtype.kind == "f" and _core.has_conv(a):
        return _core.conv(which, a, b, None if bias is None else bias.contiguous(), *shapes, *geometry)
    if dtype.name not in ("float32", "float64"):
        if dtype.kind != "f":
            raise DTypeError(f"convolution: needs floating-point values, got {dtype.name}")
        wide = tx.float32
        a, b, bias = (None if t is None else _core.cast(t, wide) for t in (a, b, bias))
    a, b, bias = (None if t is None else t.contiguous() for t in (a, b, bias))
    out = _core.conv(which, a, b, bias, *shapes, *geometry)
    return out if out.dtype is dtype else _core.cast(out, dtype)


_NAMES = ("conv", "conv_input", "conv_weight")


def _pass(which, a, b, bias, shapes, geometry):
    out = _raw(which, a.detach(), b.detach(), None if bias is None else bias.detach(), shapes, geometry)
    inputs = (a, b) if bias is None else (a, b, bias)
    return record(_NAMES[which], inputs, out, shapes=shapes, geometry=geometry)


def _prepare(node, inputs, out, saved, wanted):
    kept = dict(saved)
    if 1 in wanted:
        kept["a"] = _core.save(inputs[0], "operand 1")
    if 0 in wanted:
        kept["b"] = _core.save(inputs[1], "operand 2")
    return kept


def _channel_sum(g):
    return tx.sum(g, axis=(0, *range(2, g.ndim)), dtype=g.dtype)


def _backward(which):
    def backward(g, kept, wanted):
        shapes, geometry = kept["shapes"], kept["geometry"]
        grads = {}
        if 0 in wanted:  # of x, y, x
            grads[0] = _pass(0 if which == 1 else 1, g, kept["b"], None, shapes, geometry) if which < 2 else _pass(1, kept["b"], g, None, shapes, geometry)
        if 1 in wanted:  # of w, w, y
            if which == 2:
                grads[1] = _pass(0, kept["a"], g, None, shapes, geometry)
            else:
                x, y = (kept["a"], g) if which == 0 else (g, kept["a"])
                grads[1] = _pass(2, x, y, None, shapes, geometry)
        if 2 in wanted:
            grads[2] = _channel_sum(g)
        return grads

    return backward


for _which, _name in enumerate(_NAMES):
    _core.rules[_name] = (_prepare, _backward(_which))


# ---- functions -----------------------------------------------------------------------------------------


def _batched(op, input, n):
    if not isinstance(input, _core.Tensor):
        raise DTypeError(f"{op}: the input must be a tensor, got {type(input).__name__}")
    if input.ndim == n + 1:
        return input.expand_dims(0), True
    if input.ndim != n + 2:
        raise ShapeError(f"{op}: an input with {n + 2} axes (batch, channels, {n} spatial) or {n + 1} without a batch is needed, got shape {input.shape}")
    return input, False


def _conv(op, n, input, weight, bias, stride, padding, dilation, groups):
    x, single = _batched(op, input, n)
    if x.dtype is not weight.dtype or x.device is not weight.device or (bias is not None and (bias.dtype is not x.dtype or bias.device is not x.device)):
        fits(op, x, ("the weight", weight), ("the bias", bias))
    if weight.ndim != n + 2:
        raise ShapeError(f"{op}: a weight of shape (out channels, in channels / groups, {n} kernel sizes) is needed, got {weight.shape}")
    stride, dilation = spread(op, "stride", stride, n, 1), spread(op, "dilation", dilation, n, 1)
    kernel = weight.shape[2:]
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise ValueError(f"{op}: padding must be 'valid', 'same' or integers, got {padding!r}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError(f"{op}: padding 'same' needs stride 1, got {stride}")
        total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel)]
        if any(t % 2 for t in total):
            extra = []
            for t in reversed(total):
                extra += [0, t % 2]
            x = pad(x, extra)
        padding = tuple(t // 2 for t in total)
    else:
        padding = spread(op, "padding", padding, n)
    out_channels = weight.shape[0]
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(f"{op}: an input of {weight.shape[1] * groups} channels is needed, got shape {input.shape}; the weight has shape {weight.shape}, groups={groups}")
    if out_channels % groups:
        raise ShapeError(f"{op}: {out_channels} output channels are not divisible by groups={groups}")
    if bias is not None and bias.shape != (out_channels,):
        raise ShapeError(f"{op}: a bias of shape ({out_channels},) is needed, got {bias.shape}")
    out = []
    for size, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation):
        free = size + 2 * p - d * (k - 1) - 1
        if free < 0:
            raise ShapeError(f"{op}: a kernel of {kernel} (dilation {dilation}) is larger than the padded input of shape {input.shape}, padding {padding}")
        out.append(free // s + 1)
    shapes = (x.shape, weight.shape, (x.shape[0], out_channels, *out))
    y = _pass(0, x, weight, bias, shapes, (stride, padding, dilation, groups))
    return y.squeeze(0) if single else y


def _conv_transpose(op, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    y, single = _batched(op, input, n)
    fits(op, y, ("the weight", weight), ("the bias", bias))
    if weight.ndim != n + 2:
        raise ShapeError(f"{op}: a weight of shape (in channels, out channels / groups, {n} kernel sizes) is needed, got {weight.shape}")
    stride, dilation = spread(op, "stride", stride, n, 1), spread(op, "dilation", dilation, n, 1)
    padding, extra = spread(op, "padding", padding, n), spread(op, "output_padding", output_padding, n)
    if y.shape[1] != weight.shape[0]:
        raise ShapeError(f"{op}: an input of {weight.shape[0]} channels is needed, got shape {input.shape}; the weight has shape {weight.shape}")
    if weight.shape[0] % groups:
        raise ShapeError(f"{op}: {weight.shape[0]} input channels are not divisible by groups={groups}")
    out_channels = weight.shape[1] * groups
    if bias is not None and bias.shape != (out_channels,):
        raise ShapeError(f"{op}: a bias of shape ({out_channels},) is needed, got {bias.shape}")
    out = []
    for size, k, s, p, d, e in zip(y.shape[2:], weight.shape[2:], stride, padding, dilation, extra):
        if e >= max(s, d):
            raise ValueError(f"{op}: output_padding {extra} must be below stride {stride} or dilation {dilation}")
        length = (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        if length < 1:
            raise ShapeError(f"{op}: the output of an input of shape {input.shape} would have no elements")
        out.append(length)
    shapes = ((y.shape[0], out_channels, *out), weight.shape, y.shape)
    x = _pass(1, y, weight, bias, shapes, (stride, padding, dilation, groups))
    return x.squeeze(0) if single else x


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, L) or (C, L) with weight (O, C / groups, K), plus bias (O)."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, H, W) or (C, H, W) with weight (O, C / groups, KH, KW), plus bias (O).

    padding: zeros on both sides of each axis, or "valid" or "same". float16 and bfloat16 compute in float32.

    >>> import tensorx as tx
    >>> tx.nn.functional.conv2d(tx.ones((1, 1, 3, 3)), tx.ones((1, 1, 2, 2))).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with weight (O, C / groups, KD, KH, KW), plus bias (O)."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of conv1d with respect to its input, as an op: weight (C, O / groups, K)."""
    return _conv_transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of conv2d with respect to its input, as an op: weight (C, O / groups, KH, KW).

    >>> import tensorx as tx
    >>> tx.nn.functional.conv_transpose2d(tx.ones((1, 1, 1, 1)), tx.ones((1, 1, 2, 2))).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """
    return _conv_transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of conv3d with respect to its input, as an op: weight (C, O / groups, KD, KH, KW)."""
    return _conv_transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# ---- modules ----------------------------------------------------------------------------------------------


class _Convolution(Module):
    """What all convolutions share."""

    _axes = 2
    _transposed = False

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype,
                 output_padding=0):  # fmt: skip
        super().__init__()
        n, name = self._axes, self._get_name()
        if groups <= 0 or in_channels % groups or out_channels % groups:
            raise ValueError(f"{name}: in_channels={in_channels} and out_channels={out_channels} must be divisible by groups={groups}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"{name}: padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got {padding_mode!r}")
        if self._transposed and padding_mode != "zeros":
            raise ValueError(f"{name}: only padding_mode 'zeros' has a transposed convolution, got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        self.kernel_size = spread(name, "kernel_size", kernel_size, n, 1)
        self.stride, self.dilation = spread(name, "stride", stride, n, 1), spread(name, "dilation", dilation, n, 1)
        self.padding = padding if isinstance(padding, str) else spread(name, "padding", padding, n)
        self.output_padding = spread(name, "output_padding", output_padding, n)
        self.weight = init.new_parameter(self._weight_shape(), device, dtype)
        self.register_parameter("bias", init.new_parameter(out_channels, device, dtype) if bias else None)
        self.reset_parameters()

    def _weight_shape(self):
        a, b = (self.in_channels, self.out_channels) if self._transposed else (self.out_channels, self.in_channels)
        return (a, b // self.groups, *self.kernel_size)

    def reset_parameters(self):
        """Draws the starting values anew."""
        init.kaiming_uniform_(self.weight, math.sqrt(5.0))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        name, n, padding = self._get_name(), self._axes, self.padding
        if self.padding_mode != "zeros":
            sides = []
            if isinstance(padding, str):
                for k, d in zip(reversed(self.kernel_size), reversed(self.dilation)):
                    total = d * (k - 1) if padding == "same" else 0
                    sides += [total // 2, total - total // 2]
            else:
                for p in reversed(padding):
                    sides += [p, p]
            input, padding = pad(input, sides, mode=self.padding_mode), 0
        return _conv(name, n, input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for key, usual in (("padding", (0,) * self._axes), ("output_padding", (0,) * self._axes), ("dilation", (1,) * self._axes),
                           ("groups", 1), ("padding_mode", "zeros")):  # fmt: skip
            if getattr(self, key) != usual:
                parts.append(f"{key}={getattr(self, key)!r}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)

    def _shapes_from_weight(self):
        k = self.weight.shape[0 if self._transposed else 1]
        self.in_channels = k if self._transposed else k * self.groups


class _Transposed(_Convolution):
    _transposed = True

    def forward(self, input, output_size=None):
        """output_size: the spatial sizes of the result, where stride leaves a choice."""
        extra = self.output_padding
        if output_size is not None:
            sizes = tuple(output_size)[-self._axes :]
            least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in
                     zip(input.shape[-self._axes :], self.stride, self.padding, self.dilation, self.kernel_size)]  # fmt: skip
            extra = tuple(a - b for a, b in zip(sizes, least))
            if any(e < 0 or e >= s for e, s in zip(extra, self.stride)):
                raise self._error(f"output_size {tuple(output_size)} is out of reach: from {tuple(least)}, less than a stride more")
        return _conv_transpose(self._get_name(), self._axes, input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                               self.dilation)  # fmt: skip


def _plain_init(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                device=None, dtype=None):  # fmt: skip
    _Convolution.__init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)


def _transposed_init(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                     padding_mode="zeros", device=None, dtype=None):  # fmt: skip
    _Convolution.__init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype,
                          output_padding)  # fmt: skip


class Conv1d(_Convolution):
    """Convolution over (N, C, L): weight (out_channels, in_channels / groups, kernel_size), bias (out_channels)."""

    _axes = 1
    __init__ = _plain_init


class Conv2d(_Convolution):
    """Convolution over (N, C, H, W): weight (out_channels, in_channels / groups, *kernel_size), bias (out_channels).

    >>> import tensorx as tx
    >>> tx.nn.Conv2d(3, 8, 3, padding=1)(tx.ones((2, 3, 5, 5))).shape
    (2, 8, 5, 5)
    """

    _axes = 2
    __init__ = _plain_init


class Conv3d(_Convolution):
    """Convolution over (N, C, D, H, W): weight (out_channels, in_channels / groups, *kernel_size), bias (out_channels)."""

    _axes = 3
    __init__ = _plain_init


class ConvTranspose1d(_Transposed):
    """Transposed convolution over (N, C, L): weight (in_channels, out_channels / groups, kernel_size)."""

    _axes = 1
    __init__ = _transposed_init


class ConvTranspose2d(_Transposed):
    """Transposed convolution over (N, C, H, W): weight (in_channels, out_channels / groups, *kernel_size).

    >>> import tensorx as tx
    >>> tx.nn.ConvTranspose2d(3, 8, 2, stride=2)(tx.ones((2, 3, 5, 5))).shape
    (2, 8, 10, 10)
    """

    _axes = 2
    __init__ = _transposed_init


class ConvTranspose3d(_Transposed):
    """Transposed convolution over (N, C, D, H, W): weight (in_channels, out_channels / groups, *kernel_size)."""

    _axes = 3
    __init__ = _transposed_init


def _lazy(base):
    def __init__(self, out_channels, kernel_size, *args, **kwargs):
        # positions after in_channels; `bias` and places are taken out, as the parameters come later
        import inspect

        names = list(inspect.signature(base.__init__).parameters)[4:]
        given = dict(zip(names, args)) | kwargs
        bias = given.pop("bias", True)
        groups = given.get("groups", 1)
        base.__init__(self, groups, groups, kernel_size, bias=False, **given)
        self.in_channels, self.out_channels = 0, out_channels
        if out_channels % groups:
            raise ValueError(f"{type(self).__name__}: out_channels={out_channels} must be divisible by groups={groups}")
        self._await("weight", given.get("device"), given.get("dtype"))
        if bias:
            self._await("bias", given.get("device"), given.get("dtype"))

    def _infer(self, input, *_):
        self.in_channels = input.shape[-self._axes - 1]
        if self.in_channels % self.groups:
            raise self._error(f"{self.in_channels} input channels are not divisible by groups={self.groups}")
        return {"weight": self._weight_shape(), "bias": (self.out_channels,)}

    name = "Lazy" + base.__name__
    doc = f"A {base.__name__} whose in_channels is found at the first call; it is a {base.__name__} from then on."
    return type(name, (LazyModule, base), {"__init__": __init__, "_infer": _infer, "_becomes": base, "__doc__": doc, "__module__": __name__})


LazyConv1d, LazyConv2d, LazyConv3d = _lazy(Conv1d), _lazy(Conv2d), _lazy(Conv3d)
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = _lazy(ConvTranspose1d), _lazy(ConvTranspose2d), _lazy(ConvTranspose3d)
