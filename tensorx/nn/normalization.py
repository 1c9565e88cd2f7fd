"""Normalisations: batch, layer, group, instance, root mean square, local response, and norms of vectors."""

from __future__ import annotations

import tensorx as tx
from tensorx import _core
from tensorx.errors import ShapeError
from tensorx.nn import init
from tensorx.nn.lazy import LazyModule
from tensorx.nn.linear import fits
from tensorx.nn.module import Module
from tensorx.ops._record import record

FUNCTIONS = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]
__all__ = [
    *FUNCTIONS, "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


# ---- over all axes but the channels: one op, which keeps its input and two numbers per channel -------


def _shape(x):
    return (1, x.shape[1]) + (1,) * (x.ndim - 2)


def _statistics(x):
    """Mean and variance per channel, broadcastable."""
    axes = (0, *range(2, x.ndim))
    mean = tx.mean(x, axis=axes, keepdims=True)
    return mean, tx.mean(tx.square(x - mean), axis=axes, keepdims=True)  # nothing holds the difference: it is not stored


def _standardised(x, weight, bias, eps):
    """(result, mean, variance): x normalised per channel, times weight plus bias."""
    raw = x.detach()
    mean, var = _statistics(raw)
    rstd = tx.rsqrt(var + eps)
    shape = _shape(x)
    scale = rstd if weight is None else rstd * weight.detach().reshape(shape)
    out = (raw - mean) * scale
    if bias is not None:
        out = out + bias.detach().reshape(shape)
    return record("batch_norm", (x, weight, bias), out, mean=mean, rstd=rstd, eps=eps), mean, var


def _prepare(node, inputs, out, saved, wanted):
    x, weight, bias = inputs
    kept = {"eps": saved["eps"], "x": _core.save(x, "its input"), "mean": _core.save(saved["mean"], "the mean"),
            "rstd": _core.save(saved["rstd"], "the deviation")}  # fmt: skip
    if weight is not None:
        kept["weight"] = _core.save(weight, "the weight")
    return kept


def _backward(g, kept, wanted):
    x, weight = kept["x"], kept.get("weight")
    axes, shape = (0, *range(2, x.ndim)), _shape(x)
    mean, rstd = kept["mean"], kept["rstd"]
    if x.requires_grad:
        mean, var = _statistics(x)
        rstd = tx.rsqrt(var + kept["eps"])
    # x normalised is computed twice rather than stored
    along = tx.sum(g * ((x - mean) * rstd), axis=axes, keepdims=True, dtype=g.dtype)
    total = tx.sum(g, axis=axes, keepdims=True, dtype=g.dtype)
    grads = {}
    if 0 in wanted:
        # numbers per channel are combined element by element, in the one pass that there is anyway
        grads[0] = (g - ((x - mean) * rstd * along + total) * (1.0 / (x.size // x.shape[1]))) * rstd
        if weight is not None:
            grads[0] = grads[0] * weight.reshape(shape)
    if 1 in wanted:
        grads[1] = along.reshape((x.shape[1],))
    if 2 in wanted:
        grads[2] = total.reshape((x.shape[1],))
    return grads


_core.rules["batch_norm"] = (_prepare, _backward)


def _channels(op, x, *parameters):
    for name, p in parameters:
        if p is not None and p.shape != (x.shape[1],):
            raise ShapeError(f"{op}: {name} must have shape ({x.shape[1]},) for an input of shape {x.shape}, got {p.shape}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalises each channel (axis 1) to mean 0 and variance 1 over all other axes, then times weight plus bias.

    In training with the statistics of the batch, which running_mean and running_var (if given) move towards by momentum;
    otherwise with those two.
    """
    return _batch_norm("batch_norm", input, running_mean, running_var, weight, bias, training, momentum, eps)


def _batch_norm(op, x, running_mean, running_var, weight, bias, training, momentum, eps):
    if x.ndim < 2:
        raise ShapeError(f"{op}: an input of at least 2 axes (batch, channels, ...) is needed, got shape {x.shape}")
    _channels(op, x, ("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    half = x.dtype.itemsize == 2
    if not half:
        fits(op, x, ("running_mean", running_mean), ("the weight", weight), ("the bias", bias))
    else:
        wide = [None if t is None else _core.cast(t, tx.float32) for t in (x, running_mean, running_var, weight, bias)]
        out = _batch_norm(op, *wide, training, momentum, eps)
        if training:
            token = _core._grad_mode.set(False)
            try:
                for running, new in ((running_mean, wide[1]), (running_var, wide[2])):
                    if running is not None:
                        running.copy_(new)
            finally:
                _core._grad_mode.reset(token)
        return _core.cast(out, x.dtype)
    if training:
        n = x.size // max(x.shape[1], 1)
        if n < 2:
            raise ShapeError(f"{op}: training needs more than one value per channel, got shape {x.shape}")
        out, mean, var = _standardised(x, weight, bias, float(eps))
        token = _core._grad_mode.set(False)
        try:
            for running, now in ((running_mean, mean), (running_var, var * (n / (n - 1)))):
                if running is not None:
                    running.copy_(running * (1.0 - momentum) + _core.cast(now.reshape((x.shape[1],)), running.dtype) * momentum)
        finally:
            _core._grad_mode.reset(token)
        return out
    if running_mean is None or running_var is None:
        raise ValueError(f"{op}: running_mean and running_var are needed outside of training")
    shape = _shape(x)
    scale = tx.rsqrt(running_var + eps)
    if weight is not None:
        scale = scale * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return x * scale.reshape(shape) + shift.reshape(shape)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """Normalises each channel of each sample over its spatial axes; see :func:`batch_norm`."""
    return _instance_norm("instance_norm", input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _instance_norm(op, x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    if x.ndim < 3:
        raise ShapeError(f"{op}: an input of at least 3 axes (batch, channels, ...) is needed, got shape {x.shape}")
    _channels(op, x, ("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    if not use_input_stats:
        return _batch_norm(op, x, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c = x.shape[:2]
    count = x.size // (n * c) if n * c else 0
    if count < 2:
        raise ShapeError(f"{op}: more than one value per channel is needed, got shape {x.shape}")
    out = tx.layer_norm(x.reshape((n, c, count)), count, eps=eps).reshape(x.shape)
    if running_mean is not None:
        token = _core._grad_mode.set(False)
        try:
            flat = x.detach().reshape((n, c, count))
            mean, var = tx.mean(flat, axis=2), tx.var(flat, axis=2, correction=1.0)
            running_mean.copy_(running_mean * (1.0 - momentum) + tx.mean(mean, axis=0) * momentum)
            running_var.copy_(running_var * (1.0 - momentum) + tx.mean(var, axis=0) * momentum)
        finally:
            _core._grad_mode.reset(token)
    return _affine(out, weight, bias)


def _affine(out, weight, bias):
    shape = _shape(out)
    if weight is not None:
        out = out * weight.reshape(shape)
    if bias is not None:
        out = out + bias.reshape(shape)
    return out


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises groups of channels (axis 1) of each sample, then times weight plus bias per channel (Wu, He 2018)."""
    return _group_norm("group_norm", input, num_groups, weight, bias, eps)


def _group_norm(op, x, num_groups, weight, bias, eps):
    if x.ndim < 2:
        raise ShapeError(f"{op}: an input of at least 2 axes (batch, channels, ...) is needed, got shape {x.shape}")
    if num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(f"{op}: {x.shape[1]} channels (input of shape {x.shape}) are not divisible by {num_groups} groups")
    _channels(op, x, ("weight", weight), ("bias", bias))
    n = x.shape[0]
    count = x.size // (n * num_groups) if n else 0
    if x.size == 0:
        return _affine(x, weight, bias)
    return _affine(tx.layer_norm(x.reshape((n, num_groups, count)), count, eps=eps).reshape(x.shape), weight, bias)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last axes; see :func:`tensorx.layer_norm`."""
    return tx.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divides by the root mean square over the last axes; eps=None stands for the dtype's epsilon."""
    return tx.rms_norm(input, normalized_shape, weight, _epsilon(input) if eps is None else eps)


def _epsilon(x):
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}[x.dtype.name]


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta."""
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: an input of at least 3 axes is needed, got shape {input.shape}")
    from tensorx.nn.padding import pad

    flat = (input * input).reshape((input.shape[0], input.shape[1], -1))
    windows = tx.unfold(pad(flat, (0, 0, size // 2, (size - 1) // 2)), 1, size, 1)
    mean = tx.mean(windows, axis=-1).reshape(input.shape)
    return input / (mean * alpha + k) ** beta


def normalize(input, p=2.0, axis=1, eps=1e-12):
    """x divided by its p-norm along an axis, the norm at least eps; the gradient at 0 is 0.

    >>> import tensorx as tx
    >>> tx.nn.functional.normalize(tx.asarray([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    return input / tx.clamp_min(tx.norm(input, ord=p, axis=axis, keepdims=True), eps)


# ---- modules --------------------------------------------------------------------------------------------


class _ChannelNorm(Module):
    """Batch and instance normalisation."""

    _ndim: tuple[int, ...] = ()

    def __init__(self, num_features, eps, momentum, affine, track_running_stats, device, dtype):
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats = num_features, eps, momentum, affine, track_running_stats
        self.register_parameter("weight", init.new_parameter(num_features, device, dtype) if affine else None)
        self.register_parameter("bias", init.new_parameter(num_features, device, dtype) if affine else None)
        for name, value in self._fresh(num_features, device, dtype):
            self.register_buffer(name, value if track_running_stats else None)
        self.reset_parameters()

    @staticmethod
    def _fresh(n, device, dtype):
        return [("running_mean", tx.zeros(n, dtype=dtype, device=device)), ("running_var", tx.ones(n, dtype=dtype, device=device)),
                ("num_batches_tracked", tx.zeros((), dtype=tx.int64, device=device))]  # fmt: skip

    def reset_running_stats(self):
        """Forgets the statistics seen so far."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self):
        """Weight 1, bias 0, no statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def _check(self, x):
        name = self._get_name()
        if x.ndim not in self._ndim:
            raise ShapeError(f"{name}: an input of {' or '.join(map(str, self._ndim))} axes is needed, got shape {x.shape}")
        channels = x.shape[1]
        if channels != self.num_features:
            raise ShapeError(f"{name}: an input of {self.num_features} channels (axis 1) is needed, got shape {x.shape}")

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"track_running_stats={self.track_running_stats}")  # fmt: skip

    def _shapes_from_weight(self):
        self.num_features = self.weight.shape[0]


class _BatchNorm(_ChannelNorm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        self._check(input)
        factor = self.momentum
        if self.training and self.track_running_stats:
            token = _core._grad_mode.set(False)
            try:
                self.num_batches_tracked.copy_(self.num_batches_tracked + 1)
            finally:
                _core._grad_mode.reset(token)
            if factor is None:
                factor = 1.0 / self.num_batches_tracked.item()
        use_batch = self.training or self.running_mean is None
        update = not self.training or self.track_running_stats
        return _batch_norm(self._get_name(), input, self.running_mean if update else None, self.running_var if update else None, self.weight,
                           self.bias, use_batch, 0.0 if factor is None else factor, self.eps)  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L) (Ioffe, Szegedy 2015)."""

    _ndim = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W).

    >>> import tensorx as tx
    >>> tx.nn.BatchNorm2d(3)(tx.random.randn(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    _ndim = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    _ndim = (5,)


class _InstanceNorm(_ChannelNorm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        single = input.ndim == self._ndim[0] - 1
        x = input.expand_dims(0) if single else input
        self._check(x)
        batch = self.training or not self.track_running_stats
        out = _instance_norm(self._get_name(), x, self.running_mean, self.running_var, self.weight, self.bias, batch, self.momentum, self.eps)
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    _ndim = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W) (Ulyanov and others 2016)."""

    _ndim = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    _ndim = (5,)


def _lazy(base):
    def __init__(self, *args, **kwargs):
        import inspect

        names = list(inspect.signature(base.__init__).parameters)[2:]
        given = dict(zip(names, args)) | kwargs
        base.__init__(self, 0, **given)
        place = given.get("device"), given.get("dtype")
        for name in ("weight", "bias"):
            if self.affine:
                self._await(name, *place)
        for name in ("running_mean", "running_var"):
            if self.track_running_stats:
                self.__dict__.setdefault("_uninitialized", []).append(name)

    def _infer(self, input):
        self.num_features = input.shape[1 if input.ndim == self._ndim[-1] or len(self._ndim) > 1 else 0]
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))

    name = "Lazy" + base.__name__
    doc = f"A {base.__name__} whose num_features is found at the first call; it is a {base.__name__} from then on."
    return type(name, (LazyModule, base), {"__init__": __init__, "_infer": _infer, "_becomes": base, "__doc__": doc, "__module__": __name__})


LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = _lazy(BatchNorm1d), _lazy(BatchNorm2d), _lazy(BatchNorm3d)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = _lazy(InstanceNorm1d), _lazy(InstanceNorm2d), _lazy(InstanceNorm3d)


class GroupNorm(Module):
    """Normalises groups of channels of each sample: weight and bias (num_channels).

    >>> import tensorx as tx
    >>> tx.nn.GroupNorm(2, 4)(tx.ones((1, 4, 3))).tolist()[0][0]
    [0.0, 0.0, 0.0]
    """

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels={num_channels} is not divisible by num_groups={num_groups}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter("weight", init.new_parameter(num_channels, device, dtype) if affine else None)
        self.register_parameter("bias", init.new_parameter(num_channels, device, dtype) if affine else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input):
        if input.ndim < 2 or input.shape[1] != self.num_channels:
            raise self._error(f"an input of {self.num_channels} channels (axis 1) is needed, got shape {input.shape}")
        return _group_norm("GroupNorm", input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _RowNorm(Module):
    def __init__(self, normalized_shape, eps, elementwise_affine, bias, device, dtype):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", init.new_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None)
        if bias is not None:
            self.register_parameter("bias", init.new_parameter(self.normalized_shape, device, dtype) if bias and elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.__dict__.get("bias") is not None:
            init.zeros_(self.bias)

    def _check(self, x):
        n = len(self.normalized_shape)
        if x.shape[x.ndim - n :] != self.normalized_shape or x.ndim < n:
            raise self._error(f"an input of shape (..., {', '.join(map(str, self.normalized_shape))}) is needed, got {x.shape}")

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_RowNorm):
    """Normalises the last axes to mean 0 and variance 1, then times weight plus bias (Ba, Kiros, Hinton 2016)."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)

    def forward(self, input):
        self._check(input)
        return tx.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_RowNorm):
    """Divides by the root mean square of the last axes, then times weight (Zhang, Sennrich 2019)."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, None, device, dtype)

    def forward(self, input):
        self._check(input)
        return rms_norm(input, self.normalized_shape, self.weight, self.eps)


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares over neighbouring channels) ** beta."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
