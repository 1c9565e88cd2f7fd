"""Activations: elementwise rows of the op table, softmax and relatives, as functions and as modules."""

from __future__ import annotations

import tensorx as tx
from tensorx import _core
from tensorx.errors import ShapeError
from tensorx.nn import _random, init
from tensorx.nn.module import Module

FUNCTIONS = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_softmax",
    "logsigmoid", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip
MODULES = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish",
    "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip
__all__ = FUNCTIONS + MODULES


def _in_place(x, value, inplace):
    return x.copy_(value) if inplace else value


def relu(input, inplace=False):
    """max(x, 0); with inplace=True written into input."""
    return _in_place(input, tx.relu(input), inplace)


def relu6(input, inplace=False):
    """x limited to the range from 0 to 6."""
    return _in_place(input, tx.relu6(input), inplace)


def elu(input, alpha=1.0, inplace=False):
    """x where positive, alpha * (exp(x) - 1) elsewhere."""
    return _in_place(input, tx.elu(input, alpha), inplace)


def celu(input, alpha=1.0, inplace=False):
    """Continuously differentiable elu."""
    return _in_place(input, tx.celu(input, alpha), inplace)


def selu(input, inplace=False):
    """Scaled elu of self-normalising networks."""
    return _in_place(input, tx.selu(input), inplace)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where positive, negative_slope * x elsewhere."""
    return _in_place(input, tx.leaky_relu(input, negative_slope), inplace)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x limited to the range from min_val to max_val."""
    return _in_place(input, tx.hardtanh(input, min_val, max_val), inplace)


def threshold(input, threshold, value, inplace=False):
    """x where above the threshold, value elsewhere."""
    return _in_place(input, tx.threshold(input, threshold, value), inplace)


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    return _in_place(input, tx.silu(input), inplace)


def mish(input, inplace=False):
    """x * tanh(softplus(x))."""
    return _in_place(input, tx.mish(input), inplace)


def hardswish(input, inplace=False):
    """x * hardsigmoid(x)."""
    return _in_place(input, tx.hardswish(input), inplace)


def hardsigmoid(input, inplace=False):
    """Piecewise linear approximation of sigmoid."""
    return _in_place(input, tx.hardsigmoid(input), inplace)


def gelu(input, approximate="none"):
    """x times the normal distribution function of x; approximate="tanh" for the approximation of that name."""
    if approximate == "none":
        return tx.gelu(input)
    if approximate == "tanh":
        return tx.gelu_tanh(input)
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


_rows = vars(tx)
sigmoid = _rows["sigmoid"]
tanh = _rows["tanh"]
logsigmoid = _rows["log_sigmoid"]
softplus = _rows["softplus"]
softsign = _rows["softsign"]
softshrink = _rows["softshrink"]
hardshrink = _rows["hardshrink"]
tanhshrink = _rows["tanhshrink"]


def softmax(input, axis=-1, dtype=None):
    """exp(x) / sum(exp(x)) along an axis."""
    return tx.softmax(input, axis=axis, dtype=dtype)


def log_softmax(input, axis=-1, dtype=None):
    """The logarithm of softmax."""
    return tx.log_softmax(input, axis=axis, dtype=dtype)


def softmin(input, axis=-1, dtype=None):
    """softmax(-x) along an axis."""
    return tx.softmax(-input, axis=axis, dtype=dtype)


def glu(input, axis=-1):
    """The first half along an axis times sigmoid of the second half."""
    n = input.shape[axis]
    if n % 2:
        raise ShapeError(f"glu: axis {axis} of shape {input.shape} is not even")
    a, b = tx.split(input, 2, axis=axis)
    return a * tx.sigmoid(b)


def prelu(input, weight):
    """x where positive, weight * x elsewhere: one weight, or one per channel (axis 1).

    >>> import tensorx as tx
    >>> tx.nn.functional.prelu(tx.asarray([-2.0, 3.0]), tx.asarray(0.5)).tolist()
    [-1.0, 3.0]
    """
    if weight.size != 1:
        channels = input.shape[1] if input.ndim > 1 else input.shape[0] if input.ndim else 1
        if weight.shape != (channels,):
            raise ShapeError(f"prelu: a weight of shape {weight.shape} for an input of shape {input.shape}; one or {channels} elements are needed")
        if input.ndim > 1:
            weight = weight.reshape((channels,) + (1,) * (input.ndim - 2))
    elif input.ndim == 0:
        weight = weight.reshape(())
    return tx.leaky_relu(input, weight)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn for each element in training, and the mean of the bounds otherwise."""
    if training:
        slope = _random.uniform(input.shape, lower, upper, input.dtype, input.device, _random.split())
    else:
        slope = (lower + upper) / 2
    return _in_place(input, tx.leaky_relu(input, slope), inplace)


def gumbel_softmax(logits, tau=1, hard=False, axis=-1):
    """Samples of the Gumbel-softmax distribution; hard=True gives one-hot values with the gradients of the soft ones."""
    u = _random.uniform(logits.shape, 0.0, 1.0, logits.dtype, logits.device, _random.split())
    noise = -tx.log(-tx.log(tx.clip(u, 1e-20, 1.0 - 2.0**-24)))
    soft = tx.softmax((logits + noise) / float(tau), axis=axis)
    if not hard:
        return soft
    best = tx.argmax(soft.detach(), axis=axis, keepdims=True)
    place = tx.arange(soft.shape[axis], device=logits.device)
    shape = [1] * soft.ndim
    shape[axis] = soft.shape[axis]
    one_hot = _core.cast(best == place.reshape(tuple(shape)), soft.dtype)
    return one_hot - soft.detach() + soft


def _module(name, function, doc, params=(), axis=False):
    """A module that calls a function with its attributes."""
    names = [p for p, _ in params]

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        given = dict(zip(names, args))
        for key in kwargs:
            if key not in names or key in given:
                raise TypeError(f"{name}: unexpected argument {key!r}; takes {', '.join(names) or 'none'}")
        if len(args) > len(names):
            raise TypeError(f"{name}: takes at most {len(names)} arguments, got {len(args)}")
        given.update(kwargs)
        for key, default in params:
            if default is ... and key not in given:
                raise TypeError(f"{name}: argument {key!r} is missing")
            setattr(self, key, given.get(key, default))

    def forward(self, input):
        return function(input, *(getattr(self, n) for n in names))

    def extra_repr(self):
        return ", ".join(f"{n}={getattr(self, n)}" for n in names if not (n == "inplace" and not self.inplace))

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": doc, "__module__": __name__, "__qualname__": name}
    return type(name, (Module,), body)


_INPLACE = (("inplace", False),)
ReLU = _module("ReLU", relu, "max(x, 0).", _INPLACE)
ReLU6 = _module("ReLU6", relu6, "x limited to the range from 0 to 6.", _INPLACE)
ELU = _module("ELU", elu, "Exponential linear unit.", (("alpha", 1.0), *_INPLACE))
CELU = _module("CELU", celu, "Continuously differentiable exponential linear unit.", (("alpha", 1.0), *_INPLACE))
SELU = _module("SELU", selu, "Scaled exponential linear unit.", _INPLACE)
LeakyReLU = _module("LeakyReLU", leaky_relu, "x where positive, negative_slope * x elsewhere.", (("negative_slope", 0.01), *_INPLACE))
Hardtanh = _module("Hardtanh", hardtanh, "x limited to a range.", (("min_val", -1.0), ("max_val", 1.0), *_INPLACE))
Threshold = _module("Threshold", threshold, "x where above the threshold, value elsewhere.", (("threshold", ...), ("value", ...), *_INPLACE))
SiLU = _module("SiLU", silu, "x * sigmoid(x).", _INPLACE)
Mish = _module("Mish", mish, "x * tanh(softplus(x)).", _INPLACE)
Hardswish = _module("Hardswish", hardswish, "x * hardsigmoid(x).", _INPLACE)
Hardsigmoid = _module("Hardsigmoid", hardsigmoid, "Piecewise linear approximation of sigmoid.", _INPLACE)
GELU = _module("GELU", gelu, "Gaussian error linear unit.", (("approximate", "none"),))
Sigmoid = _module("Sigmoid", sigmoid, "1 / (1 + exp(-x)).")
Tanh = _module("Tanh", tanh, "Hyperbolic tangent.")
LogSigmoid = _module("LogSigmoid", logsigmoid, "Logarithm of sigmoid.")
Softplus = _module("Softplus", softplus, "log(1 + exp(beta x)) / beta.", (("beta", 1.0), ("threshold", 20.0)))
Softsign = _module("Softsign", softsign, "x / (1 + abs(x)).")
Softshrink = _module("Softshrink", softshrink, "x moved towards 0 by lambd.", (("lambd", 0.5),))
Hardshrink = _module("Hardshrink", hardshrink, "x, and 0 within lambd of 0.", (("lambd", 0.5),))
Tanhshrink = _module("Tanhshrink", tanhshrink, "x - tanh(x).")
Softmax = _module("Softmax", softmax, "softmax along an axis.", (("axis", -1),))
LogSoftmax = _module("LogSoftmax", log_softmax, "Logarithm of softmax along an axis.", (("axis", -1),))
Softmin = _module("Softmin", softmin, "softmax of -x along an axis.", (("axis", -1),))
GLU = _module("GLU", glu, "First half along an axis times sigmoid of the second.", (("axis", -1),))


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise self._error(f"an input of shape (N, C, H, W) or (C, H, W) is needed, got {input.shape}")
        return tx.softmax(input, axis=-3)


class PReLU(Module):
    """x where positive, weight * x elsewhere, with one trained weight or one per channel."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = _parameter(num_parameters, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Sets the starting values again."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        return prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


_parameter = init.new_parameter


class RReLU(Module):
    """leaky_relu with a random slope in training."""

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}"
