"""Linear layers: products with a weight matrix."""

from __future__ import annotations

import math

from tensorx import _core
from tensorx.errors import DeviceMismatchError, DTypeError
from tensorx.nn import init
from tensorx.nn.lazy import LazyModule
from tensorx.nn.module import Module
from tensorx.ops._record import record

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear", "bilinear", "linear"]


def fits(op, x, *others):
    """All operands on one device and of one dtype, or an error that names the op."""
    for name, t in others:
        if t is None:
            continue
        if t.device is not x.device:
            raise DeviceMismatchError(
                f"{op}: the input is on {x.device} and {name} on {t.device}; move the input with .to({str(t.device)!r}), or the module with .to({str(x.device)!r})"
            )
        if t.dtype is not x.dtype:
            raise DTypeError(f"{op}: the input is {x.dtype.name} and {name} {t.dtype.name}; convert one of them with astype or Module.to(dtype)")


def linear(input, weight, bias=None):
    """input @ weight.T + bias, over the last axis; weight (out, in), bias (out).

    >>> import tensorx as tx
    >>> tx.nn.functional.linear(tx.ones((1, 2)), tx.ones((3, 2))).tolist()
    [[2.0, 2.0, 2.0]]
    """
    return _linear("linear", input, weight, bias)


def _linear(op, x, weight, bias):
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: the input must be a tensor, got {type(x).__name__}")
    if x.dtype is not weight.dtype or x.device is not weight.device:
        fits(op, x, ("the weight", weight), ("the bias", bias))
    shape = x.shape
    if not shape or shape[-1] != weight.shape[-1]:
        from tensorx.errors import ShapeError

        raise ShapeError(f"{op}: an input of shape (..., {weight.shape[-1]}) is needed, got {shape}; the last axis is multiplied by a weight of shape {weight.shape}")
    if weight.ndim != 2 or len(shape) == 1 or x.device.number:
        out = x @ (weight.T if weight.ndim == 2 else weight)
        return out if bias is None else out + bias
    raw = x.detach()
    if len(shape) > 2:
        raw = raw.reshape((x.size // shape[-1] if shape[-1] else math.prod(shape[:-1]), shape[-1]))
    b = None if bias is None else bias.detach()
    if b is not None and (not _core.is_c_contiguous(b) or b.dtype is not x.dtype):
        fits(op, x, ("the bias", bias))
        b = b.contiguous()
    out = _core.matmul_raw(raw, weight.detach().T, b)
    if len(shape) > 2:
        out = out.reshape((*shape[:-1], out.shape[-1]))
    return record("linear", (x, weight, bias), out)


def bilinear(input1, input2, weight, bias=None):
    """y_k = input1 A_k input2 + b_k over the last axes; weight (out, in1, in2).

    >>> import tensorx as tx
    >>> tx.nn.functional.bilinear(tx.ones((1, 2)), tx.ones((1, 3)), tx.ones((1, 2, 3))).tolist()
    [[6.0]]
    """
    fits("bilinear", input1, ("input2", input2), ("the weight", weight), ("the bias", bias))
    from tensorx.errors import ShapeError

    if input1.shape[:-1] != input2.shape[:-1] or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise ShapeError(f"bilinear: inputs of shapes {input1.shape} and {input2.shape} do not fit a weight of shape {weight.shape}")
    lead = input1.shape[:-1]
    a = input1.reshape((-1, input1.shape[-1]))
    b = input2.reshape((-1, input2.shape[-1]))
    n, (o, i, j) = a.shape[0], weight.shape
    left = a @ weight.permute_dims((1, 0, 2)).reshape((i, o * j))
    out = (left.reshape((n, o, j)) * b.expand_dims(1)).sum(axis=2)
    out = out.reshape((*lead, o))
    return out if bias is None else out + bias


class Identity(Module):
    """Passes its input; takes, and ignores, any arguments."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """y = x weight.T + bias over the last axis: weight (out_features, in_features), bias (out_features).

    >>> import tensorx as tx
    >>> tx.nn.Linear(4, 2)(tx.ones((3, 4))).shape
    (3, 2)
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = init.new_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", init.new_parameter(out_features, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the starting values anew."""
        init.kaiming_uniform_(self.weight, math.sqrt(5.0))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return _linear("Linear", input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class LazyLinear(LazyModule, Linear):
    """A Linear whose in_features is found at the first call; it is a Linear from then on.

    >>> import tensorx as tx
    >>> layer = tx.nn.LazyLinear(2)
    >>> layer(tx.ones((3, 5))).shape, layer
    ((3, 2), Linear(in_features=5, out_features=2, bias=True))
    """

    _becomes = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        self._await("weight", device, dtype)
        if bias:
            self._await("bias", device, dtype)

    def _infer(self, input):
        self.in_features = input.shape[-1]
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


class Bilinear(Module):
    """y = x1 A x2 + b: weight (out_features, in1_features, in2_features)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = init.new_parameter((out_features, in1_features, in2_features), device, dtype)
        self.register_parameter("bias", init.new_parameter(out_features, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the starting values anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")  # fmt: skip
