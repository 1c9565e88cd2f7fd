"""Helpers for parameters: clipping of gradients, one vector of all, weight and spectral normalisation."""

from __future__ import annotations

import math

import tensorx as tx
from tensorx._core import Tensor
from tensorx.errors import GradientError, ShapeError
from tensorx.nn.parameter import Parameter

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "functional_call", "get_total_norm", "parameters_to_vector", "remove_weight_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip


def _gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [(p, p.grad) for p in parameters if p.grad is not None]


def _wide(t):
    """t in a dtype in which the norm of many elements fits."""
    return t.astype(tx.float32) if t.dtype in (tx.float16, tx.bfloat16) else t


def _refuse_nonfinite(op, total, pairs):
    if not math.isfinite(total.item()):
        bad = [f"parameter {k} {p.shape}" for k, (p, g) in enumerate(pairs) if not bool(tx.all(tx.isfinite(g)))]
        raise GradientError(
            f"{op}: the norm of the gradients is {total.item()}, so they cannot be clipped ({', '.join(bad[:6]) or 'their sum overflows'} not finite); "
            "nothing was changed. error_if_nonfinite=False scales them all the same"
        )


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of several tensors together, as a 0-d tensor on the device of the first; nothing is waited for.

    norm_type: a number, or inf for the largest magnitude. Halves are added in float32. GradientError where the norm is not
    finite and error_if_nonfinite is set.

    >>> import tensorx as tx
    >>> tx.nn.utils.get_total_norm([tx.asarray([3.0]), tx.asarray([4.0])]).item()
    5.0
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    with tx.no_grad():
        norms = [tx.norm(_wide(t.detach()), ord=float(norm_type)) for t in tensors if t.size]
        if not norms:
            return tx.asarray(0.0, device=tensors[0].device if tensors else None)
        first = norms[0]
        norms = [n if n.device is first.device else n.to(first.device) for n in norms]
        total = tx.norm(tx.stack([n if n.dtype is first.dtype else n.astype(first.dtype) for n in norms]), ord=float(norm_type))
    if error_if_nonfinite:
        _refuse_nonfinite("get_total_norm", total, [(t, t) for t in tensors])
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients, in place, as if their norm total_norm were at most max_norm."""
    with tx.no_grad():
        for _, g in _gradients(parameters):
            scale = tx.clamp_max(max_norm / (total_norm + 1e-6), 1.0)
            scale = scale if scale.device is g.device else scale.to(g.device)
            g.mul_(scale)                    # (a scale in float32 is not rounded to the gradients' half precision first)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients, in place, so that their norm together is at most max_norm; returns the norm before, a 0-d tensor.

    Where it is not finite: with error_if_nonfinite a GradientError that names the parameters, and no gradient is changed; else
    the gradients are scaled by 0 or NaN (infinite ones become NaN, the others 0), and the norm that is returned says so.

    >>> import tensorx as tx
    >>> w = tx.nn.Parameter([3.0, 4.0])
    >>> (w * w).sum().backward()
    >>> norm = tx.nn.utils.clip_grad_norm_([w], 1.0)
    >>> f"{norm:.1f}", [round(g, 2) for g in w.grad.tolist()]
    ('10.0', [0.6, 0.8])
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    pairs = _gradients(parameters)
    total = get_total_norm([g for _, g in pairs], norm_type)
    if error_if_nonfinite:
        _refuse_nonfinite("clip_grad_norm_", total, pairs)
    clip_grads_with_norm_(parameters, float(max_norm), total)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits each element of the gradients, in place, to the range from -clip_value to clip_value."""
    with tx.no_grad():
        for _, g in _gradients(parameters):
            g.clip_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters):
    """All elements of the parameters in one vector."""
    return tx.concat([p.reshape((-1,)) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Writes the elements of a vector into the parameters, in order; ShapeError where the numbers of elements differ."""
    parameters = list(parameters)
    total = sum(p.size for p in parameters)
    if vec.shape != (total,):
        raise ShapeError(f"vector_to_parameters: a vector of shape ({total},) is needed, got {vec.shape}")
    at = 0
    with tx.no_grad():
        for p in parameters:
            part = vec[at : at + p.size].reshape(p.shape)
            p.copy_(part if part.device is p.device else part.to(p.device))
            at += p.size


def functional_call(module, parameters, args=(), kwargs=None):
    """module(*args, **kwargs) with some of its parameters and buffers replaced, by dotted name, for this call.

    >>> import tensorx as tx
    >>> layer = tx.nn.Linear(2, 1)
    >>> zeros = {name: p * 0.0 for name, p in layer.named_parameters()}
    >>> tx.nn.utils.functional_call(layer, zeros, tx.ones((1, 2))).tolist()
    [[0.0]]
    """
    args = args if isinstance(args, tuple) else (args,)
    places = []
    for key in parameters:
        path, _, name = key.rpartition(".")
        owner = module.get_submodule(path)
        if name not in owner._parameters and name not in owner._buffers:
            raise KeyError(f"functional_call: {type(module).__name__} has no parameter or buffer {key!r}")
        places.append((owner.__dict__, name, parameters[key]))
    before = [(space, name, space[name]) for space, name, _ in places]
    try:
        for space, name, value in places:
            space[name] = value
        return module(*args, **(kwargs or {}))
    finally:
        for space, name, value in before:
            space[name] = value


# ---- weight normalisation --------------------------------------------------------------------------


def _norm_but(v, axis):
    """2-norms over all axes but one (over all with None), broadcastable."""
    if axis is None:
        return tx.norm(v).reshape((1,) * v.ndim)
    return tx.norm(v, axis=tuple(i for i in range(v.ndim) if i != axis % v.ndim), keepdims=True)


def weight_norm(module, name="weight", axis=0):
    """Replaces a parameter by a magnitude ``<name>_g`` and a direction ``<name>_v`` (Salimans, Kingma 2016); returns the module."""
    if name + "_g" in module._names:
        raise RuntimeError(f"weight_norm: {type(module).__name__}.{name} is normalised already")
    w = module.get_parameter(name)
    delattr(module, name)
    with tx.no_grad():
        g, v = _norm_but(w.detach(), axis), w.detach().copy()
    module.register_parameter(name + "_g", Parameter(g))
    module.register_parameter(name + "_v", Parameter(v))

    def compute(owner, args):
        v = owner.__dict__[name + "_v"]
        owner.__dict__[name] = v * (owner.__dict__[name + "_g"] / _norm_but(v, axis))

    handle = module.register_forward_pre_hook(compute)
    module.__dict__.setdefault("_weight_norms", {})[name] = handle, compute
    compute(module, ())
    return module


def remove_weight_norm(module, name="weight"):
    """Makes the product of magnitude and direction an ordinary parameter again."""
    norms = module.__dict__.get("_weight_norms", {})
    if name not in norms:
        raise ValueError(f"remove_weight_norm: {type(module).__name__}.{name} is not normalised")
    handle, compute = norms.pop(name)
    handle.remove()
    compute(module, ())
    value = module.__dict__.pop(name).detach().copy()
    delattr(module, name + "_g")
    delattr(module, name + "_v")
    module.register_parameter(name, Parameter(value))
    return module
