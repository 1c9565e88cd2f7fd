"""Clipping of gradients, between backward() and step()."""

from __future__ import annotations

import math

from tensorx import _core
from tensorx._core import Tensor
from tensorx.errors import GradientError
from tensorx.ops import elementwise as ops
from tensorx.ops import reduce
from tensorx.ops.creation import asarray

__all__ = ["clip_grad_norm_", "clip_grad_value_", "get_total_norm"]


def _gradients(parameters):
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [(p, g.detach()) for p, g in zip(params, _core.gradients_of(params)) if g is not None]


def get_total_norm(tensors, norm_type=2.0):
    """The norm of all elements of several tensors, as a float. norm_type: a number, or inf for the largest magnitude.

    >>> import tensorx as tx
    >>> tx.optim.get_total_norm([tx.asarray([3.0]), tx.asarray([4.0])])
    5.0
    """
    order = float(norm_type)
    parts = []
    token = _core._grad_mode.set(False)
    try:
        for g in tensors:
            if g.size == 0:
                continue
            wide = g if g.dtype.name in ("float32", "float64") else _core.cast(g, asarray(0.0).dtype)
            if order == math.inf:
                parts.append(float(reduce.max(ops.abs(wide))))
            elif order == 2:
                parts.append(float(ops.sqrt(reduce.sum(wide * wide))))
            else:
                parts.append(float(reduce.sum(ops.abs(wide) ** order)) ** (1 / order))
    finally:
        _core._grad_mode.reset(token)
    if any(x != x for x in parts):
        return math.nan
    if order == math.inf:
        return max(parts, default=0.0)
    return math.sqrt(sum(x * x for x in parts)) if order == 2 else sum(x**order for x in parts) ** (1 / order)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients of the parameters in place so that their norm together is at most max_norm; returns the norm before.

    The norm is a 0-d tensor. Where it is not finite: with error_if_nonfinite a GradientError, and no gradient is changed;
    else the gradients are scaled by 0 or NaN (infinite ones become NaN, the others 0), and the norm that is returned says so.

    >>> import tensorx as tx
    >>> w = tx.asarray([3.0, 4.0]).requires_grad_()
    >>> (w * w / 2).sum().backward()
    >>> tx.optim.clip_grad_norm_([w], 1.0).item()
    5.0
    >>> [round(v, 3) for v in w.grad.tolist()]
    [0.6, 0.8]
    """
    pairs = _gradients(parameters)
    total = get_total_norm([g for _, g in pairs], norm_type)
    if error_if_nonfinite and not math.isfinite(total):
        bad = [f"parameter {k} {p.shape}" for k, (p, g) in enumerate(pairs) if not bool(reduce.all(ops.isfinite(g)))]
        raise GradientError(
            f"clip_grad_norm_: the norm of the gradients is {total}, so they cannot be clipped ({', '.join(bad[:6]) or 'their sum overflows'} not finite); "
            "nothing was changed. error_if_nonfinite=False scales them all the same"
        )
    scale = max_norm / (total + 1e-6)
    if not scale >= 1:
        for _, g in pairs:
            g.mul_(scale)
    first = pairs[0][1] if pairs else None
    return asarray(total, dtype=first.dtype if first is not None else None, device=first.device if first is not None else None)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every element of the gradients to [-clip_value, clip_value], in place.

    >>> import tensorx as tx
    >>> w = tx.asarray([3.0, -4.0]).requires_grad_()
    >>> (w * w).sum().backward()
    >>> tx.optim.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, -1.0]
    """
    for _, g in _gradients(parameters):
        g.clip_(-clip_value, clip_value)
