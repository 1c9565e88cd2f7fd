"""Linear layers: products with a weight matrix."""

from __future__ import annotations

import math

from tensorx import _core
from tensorx.errors import DeviceMismatchError, DTypeError
from tensorx.nn import init
from tensorx.nn.lazy import LazyModule
from tensorx.nn.module import Module
from tensorx.ops._record import record
from tensorx.ops.table import INDEX

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
        raise DTypeError(f"{op}: the input must be a tensor, got {type(x).__name__}; use tx.asarray")
    if x.dtype is not weight.dtype or x.device is not weight.device or bias is not None and bias.device is not x.device:
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
    lean = _again(x) if weight.requires_grad and _core._grad_mode.get() else None
    b = None if bias is None else bias.detach()
    if b is not None and (not _core.is_c_contiguous(b) or b.dtype is not x.dtype):
        fits(op, x, ("the bias", bias))
        b = b.contiguous()
    out = _core.matmul_raw(raw, weight.detach().T, b)
    if len(shape) > 2:
        out = out.reshape((*shape[:-1], out.shape[-1]))
    return record("linear", (x, weight, bias), out, again=lean)


# ---- gradients, with little memory -------------------------------------------------------------------


def _again(x):
    """How an input that backward needs can be computed again from what it keeps anyway: (row, operand) of a row whose gradient
    reads its operand (gelu, silu, ...), the node of a layer_norm or rms_norm, or None."""
    node = x.grad_fn
    if node is None:
        return None
    if node.name == "layer_norm" or node.name == "rms_norm":
        return node if node.saved is not None and "x" in node.saved and x.dtype.name in ("float32", "float64") else None
    return _core.row_operand(x)


def _normalised_again(kept):
    """The result of a layer_norm or rms_norm, in rows, from what its node keeps."""
    x, n, mean = kept["norm_x"], kept["n"], kept.get("norm_mean")
    rows = x.reshape((x.size // n, n))
    if _core._grad_mode.get():
        centred = rows if kept["rms"] else rows - rows.mean(axis=1, keepdims=True)
        unit = centred * ((centred * centred).mean(axis=1, keepdims=True) + kept["eps"]) ** -0.5
    else:
        unit = (rows if mean is None else rows - mean.reshape((-1, 1))) * kept["norm_rstd"].reshape((-1, 1))
    weight, bias = kept.get("norm_weight"), kept.get("norm_bias")
    if weight is not None:
        unit = unit * weight.reshape((1, n))
    return unit if bias is None else unit + bias.reshape((1, n))


def _prepare(node, inputs, out, saved, wanted):
    x, w = inputs[:2]
    kept = {"x_shape": x.shape}
    if 0 in wanted:
        kept["w"] = _core.save(w, "the weight")
    if 1 in wanted:
        again = saved["again"]
        if isinstance(again, tuple):
            kept["row"], kept["operand"] = again
        elif again is not None:
            norm = again.saved
            values = (norm["x"], norm.get("mean"), norm["rstd"], *norm["affine"])
            kept |= {f"norm_{k}": v for k, v in zip(("x", "mean", "rstd", "weight", "bias"), values) if v is not None}
            kept |= {k: norm[k] for k in ("n", "eps", "rms")}
        else:
            kept["x"] = _core.save(x, "the input")
    return kept


def _backward(g, kept, wanted):
    import tensorx as tx

    shape = g.shape
    rows = g.reshape((math.prod(shape[:-1]), shape[-1]))
    grads = {}
    if 1 in wanted:
        x = kept.pop("x") if "x" in kept else _core.elementwise(INDEX[kept["row"]], kept["operand"]) if "row" in kept else _normalised_again(kept)
        x = x.reshape((rows.shape[0], kept["x_shape"][-1]))
        grads[1] = tx.matmul(rows.mT, tx.conj(x) if g.dtype.kind == "c" else x)
        del x
    if 2 in wanted:
        grads[2] = tx.sum(rows, axis=0, dtype=g.dtype)
    if 0 in wanted:
        w = kept["w"]
        grads[0] = tx.matmul(rows, tx.conj(w) if g.dtype.kind == "c" else w).reshape(kept["x_shape"])
    return grads


_core.rules["linear"] = (_prepare, _backward)


# ---- functions and modules ------------------------------------------------------------------------------


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
