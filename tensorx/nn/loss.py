"""Losses as functions."""

from __future__ import annotations

import math

import tensorx as tx
from tensorx import _core
from tensorx.errors import DeviceMismatchError, DTypeError, ShapeError
from tensorx.ops._record import record

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity", "cross_entropy",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "pairwise_distance", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _reduced(op, loss, reduction):
    if reduction == "mean":
        return tx.mean(loss)
    if reduction == "sum":
        return tx.sum(loss, dtype=loss.dtype)
    if reduction == "none":
        return loss
    raise ValueError(f"{op}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _same(op, input, target):
    if not isinstance(target, _core.Tensor):
        raise DTypeError(f"{op}: the target must be a tensor, got {type(target).__name__}")
    if input.shape != target.shape:
        raise ShapeError(
            f"{op}: the input has shape {input.shape} and the target {target.shape}; they must be equal (broadcasting would give a wrong mean)"
        )


def _weighted(loss, weight):
    return loss if weight is None else loss * weight


def mse_loss(input, target, reduction="mean", weight=None):
    """Squared differences.

    >>> import tensorx as tx
    >>> tx.nn.functional.mse_loss(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 4.0])).item()
    2.0
    """
    _same("mse_loss", input, target)
    d = input - target
    return _reduced("mse_loss", _weighted(d * d, weight), reduction)


def l1_loss(input, target, reduction="mean", weight=None):
    """Absolute differences."""
    _same("l1_loss", input, target)
    return _reduced("l1_loss", _weighted(tx.abs(input - target), weight), reduction)


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """d**2 / (2 beta) for absolute differences d below beta, d - beta / 2 above."""
    _same("smooth_l1_loss", input, target)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    d = tx.abs(input - target)
    if beta == 0:
        return _reduced("smooth_l1_loss", d, reduction)
    return _reduced("smooth_l1_loss", tx.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta), reduction)


def huber_loss(input, target, reduction="mean", delta=1.0):
    """d**2 / 2 for absolute differences d below delta, delta * (d - delta / 2) above."""
    _same("huber_loss", input, target)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta must be positive, got {delta}")
    d = tx.abs(input - target)
    return _reduced("huber_loss", tx.where(d < delta, d * d * 0.5, (d - 0.5 * delta) * delta), reduction)


# ---- classes -----------------------------------------------------------------------------------


def _classes(op, input, target):
    """Checks of (N, C, ...) against class numbers (N, ...) or, without a batch, (C) against ()."""
    if input.ndim == 0:
        raise ShapeError(f"{op}: the input needs an axis of classes, got shape ()")
    axis = 1 if input.ndim > 1 else 0
    want = input.shape[:axis] + input.shape[axis + 1 :]
    if target.shape != want:
        raise ShapeError(f"{op}: for an input of shape {input.shape} (classes along axis {axis}) the target needs shape {want}, got {target.shape}")
    if target.dtype.kind not in "iu":
        raise DTypeError(f"{op}: class numbers are integers, got {target.dtype.name}")
    return axis


def _check_weight(op, weight, classes):
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"{op}: weight must have shape ({classes},), one per class, got {weight.shape}")


def _kernels(x):
    """The kernels of x's device, if it has some for this loss."""
    if x.device.type == "metal":
        from tensorx.metal import losses

        return losses if losses.has_class_loss(x) else None
    return None


def _class_loss(op, x, index, axis):
    """-log_softmax(x) at the target of each row. Backward needs the logits alone, and one buffer of their size."""
    kernels, raw = _kernels(x), x.detach()
    if kernels is not None:
        out = kernels.class_loss(op, raw, index, axis)
    else:
        logp = tx.log_softmax(raw, axis=axis)
        out = -tx.take_along_axis(logp, index.expand_dims(axis), axis=axis).squeeze(axis)
    return record("class_loss", (x,), out, index=index, axis=axis)


def _class_loss_prepare(node, inputs, out, saved, wanted):
    return {"x": _core.save(inputs[0], "the logits"), "index": _core.save(saved["index"], "the targets"), "axis": saved["axis"]}


def _class_loss_backward(g, kept, wanted):
    """g * (softmax(x) - one at the target)."""
    x, axis = kept["x"], kept["axis"]
    kernels = None if x.requires_grad or g.requires_grad else _kernels(x)
    if kernels is not None:
        return {0: kernels.class_loss_backward(g, x, kept["index"], axis)}
    index, g = kept["index"].expand_dims(axis), g.expand_dims(axis)
    out = tx.softmax(x, axis=axis) * g
    if out.requires_grad:
        return {0: tx.scatter_add(out, axis, index, -g)}
    return {0: out.scatter_add_(axis, index, -g)}


_core.rules["class_loss"] = (_class_loss_prepare, _class_loss_backward)


def _index(op, classes, target, ignore_index):
    """(class numbers that are in range, mask of those that count or None)."""
    raw = target.detach()
    raw = raw if raw.dtype is tx.int64 else raw.astype(tx.int64)  # ignore_index may lie outside of the target's own dtype
    kept = None
    if raw.size and raw.device.type != "cpu":
        # nothing is read here, which would wait: a number out of range is found by the pick below, and told at the next wait
        kept = raw != ignore_index
        raw = tx.where(kept, tx.where(raw < 0, classes, raw), 0)
    elif raw.size:
        low, high = int(raw.min()), int(raw.max())
        if low < 0 or high >= classes or low <= ignore_index <= high:
            kept = raw != ignore_index
            raw = tx.where(kept, raw, 0)
            low, high = int(raw.min()), int(raw.max())
            if low < 0 or high >= classes:
                raise IndexError(f"{op}: class number {low if low < 0 else high} is out of range for {classes} classes")
    return raw, kept


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """Negative log-probability of the target classes: input (N, C, ...) of log-probabilities, target (N, ...) of class numbers.

    >>> import tensorx as tx
    >>> tx.nn.functional.nll_loss(tx.asarray([[-1.0, -2.0]]), tx.asarray([1])).item()
    2.0
    """
    axis = _classes("nll_loss", input, target)
    _check_weight("nll_loss", weight, input.shape[axis])
    return _nll("nll_loss", input, None, target, weight, ignore_index, reduction, axis, 0.0)


def _nll(op, logp, logits, target, weight, ignore_index, reduction, axis, smoothing):
    """From logp or, without smoothing, from logits."""
    values = logits if logp is None else logp
    for name, other in (("target", target), ("weight", weight)):
        if other is not None and other.device != values.device:
            raise DeviceMismatchError(
                f"{op}: the input is on {values.device} and the {name} on {other.device}; all must be on one device: move the {name} with .to('{values.device}')"
            )
    index, kept = _index(op, values.shape[axis], target, ignore_index)
    if logp is None:
        loss = _class_loss(op, logits, index, axis)
    else:
        loss = -tx.take_along_axis(logp, index.expand_dims(axis), axis=axis).squeeze(axis)
    scale = None
    if weight is not None:
        scale = tx.take(weight, index.reshape((index.size,)), axis=0).reshape(index.shape)
        loss = loss * scale
    if kept is not None:
        loss = tx.where(kept, loss, 0.0)
        scale = _core.cast(kept, values.dtype) if scale is None else tx.where(kept, scale, 0.0)
    if smoothing:
        classes = logp.shape[axis]
        spread = logp
        if weight is not None:
            shape = [1] * logp.ndim
            shape[axis] = classes
            spread = logp * weight.reshape(tuple(shape))
        smooth = -tx.sum(spread, axis=axis)
        if kept is not None:
            smooth = tx.where(kept, smooth, 0.0)
        loss = loss * (1.0 - smoothing) + smooth * (smoothing / classes)
    if reduction == "mean" and scale is not None:
        return tx.sum(loss, dtype=loss.dtype) / tx.sum(scale, dtype=scale.dtype)
    return _reduced(op, loss, reduction)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Cross entropy of softmax(input): input (N, C, ...) of logits, target (N, ...) of class numbers or (N, C, ...) of probabilities.

    weight: one per class. Targets equal to ignore_index do not count. label_smoothing mixes the target with the uniform
    distribution.

    >>> import tensorx as tx
    >>> round(tx.nn.functional.cross_entropy(tx.zeros((1, 4)), tx.asarray([2])).item(), 4)
    1.3863
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}")
    if input.ndim == 0:
        raise ShapeError("cross_entropy: the input needs an axis of classes, got shape ()")
    axis = 1 if input.ndim > 1 else 0
    classes = input.shape[axis]
    _check_weight("cross_entropy", weight, classes)
    if target.shape == input.shape and target.dtype.kind == "f":
        logp = tx.log_softmax(input, axis=axis)
        if label_smoothing:
            target = target * (1.0 - label_smoothing) + label_smoothing / classes
        if weight is not None:
            shape = [1] * input.ndim
            shape[axis] = classes
            target = target * weight.reshape(tuple(shape))
        loss = -tx.sum(logp * target, axis=axis)
        if reduction == "mean":
            return tx.sum(loss, dtype=loss.dtype) / float(max(loss.size, 1))
        return _reduced("cross_entropy", loss, reduction)
    _classes("cross_entropy", input, target)
    logp = tx.log_softmax(input, axis=axis) if label_smoothing else None
    return _nll("cross_entropy", logp, input, target, weight, ignore_index, reduction, axis, float(label_smoothing))


# ---- probabilities ------------------------------------------------------------------------------


def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """-(t log(p) + (1 - t) log(1 - p)) of probabilities p; the logarithms are at least -100."""
    _same("binary_cross_entropy", input, target)
    low = tx.clamp_min(tx.log(input), -100.0)
    high = tx.clamp_min(tx.log1p(-input), -100.0)
    return _reduced("binary_cross_entropy", _weighted(-(target * low + (1.0 - target) * high), weight), reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(input), accurate for large logits; pos_weight scales the positive part."""
    _same("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        loss = tx.softplus(input, 1.0, math.inf) - input * target
    else:
        factor = (pos_weight - 1.0) * target + 1.0
        loss = (1.0 - target) * input - factor * tx.log_sigmoid(input)
    return _reduced("binary_cross_entropy_with_logits", _weighted(loss, weight), reduction)


def kl_div(input, target, reduction="mean", log_target=False):
    """target * (log(target) - input) for log-probabilities input; with log_target the target holds logarithms, too.

    reduction="batchmean" divides the sum by the first axis, which is the divergence itself.
    """
    if log_target:
        loss = tx.exp(target) * (target - input)
    else:
        loss = tx.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return tx.sum(loss, dtype=loss.dtype) / float(max(input.shape[0] if input.ndim else 1, 1))
    return _reduced("kl_div", loss, reduction)


def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """Negative log-likelihood of counts under a Poisson distribution."""
    if log_input:
        loss = tx.exp(input) - target * input
    else:
        loss = input - target * tx.log(input + eps)
    if full:
        stirling = target * tx.log(target) - target + 0.5 * tx.log(2.0 * math.pi * target)
        loss = loss + tx.where(target > 1, stirling, 0.0)
    return _reduced("poisson_nll_loss", loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log-likelihood of the target under normal distributions of mean input and variance var."""
    if not isinstance(var, _core.Tensor):
        var = tx.full((), float(var), dtype=input.dtype, device=input.device)
    if var.ndim and var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.expand_dims(-1)
        elif not (var.ndim == input.ndim and var.shape[:-1] == input.shape[:-1] and var.shape[-1] == 1):
            raise ShapeError(f"gaussian_nll_loss: var of shape {var.shape} does not fit an input of shape {input.shape}")
    if bool(tx.any(var < 0)):
        raise ValueError("gaussian_nll_loss: var has negative elements")
    low = tx.where(var.detach() < eps, eps, var.detach())
    var = var + (low - var).detach()
    loss = 0.5 * (tx.log(var) + (input - target) ** 2.0 / var)
    if full:
        loss = loss + 0.5 * math.log(2.0 * math.pi)
    return _reduced("gaussian_nll_loss", loss, reduction)


# ---- distances and margins ------------------------------------------------------------------------


def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """x1 . x2 / (|x1| |x2|) along an axis, the norms at least eps.

    >>> import tensorx as tx
    >>> tx.nn.functional.cosine_similarity(tx.asarray([[1.0, 0.0]]), tx.asarray([[2.0, 0.0]])).tolist()
    [1.0]
    """
    a = tx.sum(x1 * x1, axis=axis, keepdims=True)
    b = tx.sum(x2 * x2, axis=axis, keepdims=True)
    a = tx.sqrt(tx.maximum(a, tx.full((), eps * eps, dtype=a.dtype, device=a.device)))
    b = tx.sqrt(tx.maximum(b, tx.full((), eps * eps, dtype=b.dtype, device=b.device)))
    return tx.sum((x1 / a) * (x2 / b), axis=axis)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdims=False):
    """The p-norm of x1 - x2 + eps over the last axis."""
    return tx.norm(x1 - x2 + eps, ord=p, axis=-1, keepdims=keepdims)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """1 - cos for targets 1, max(0, cos - margin) for targets -1."""
    axis = input1.ndim - 1
    if target.shape != input1.shape[:-1] or input1.shape != input2.shape:
        raise ShapeError(f"cosine_embedding_loss: inputs of shapes {input1.shape} and {input2.shape} do not fit a target of shape {target.shape}")
    eps = 1e-12
    a = tx.sum(input1 * input1, axis=axis) + eps
    b = tx.sum(input2 * input2, axis=axis) + eps
    cos = tx.sum(input1 * input2, axis=axis) / tx.sqrt(a * b)
    loss = tx.where(target == 1, 1.0 - cos, tx.where(target == -1, tx.clamp_min(cos - margin, 0.0), 0.0))
    return _reduced("cosine_embedding_loss", loss, reduction)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin)."""
    return _reduced("margin_ranking_loss", tx.clamp_min(-target * (input1 - input2) + margin, 0.0), reduction)


def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """input for targets 1, max(0, margin - input) for targets -1."""
    loss = tx.where(target == 1, input, 0.0) + tx.where(target == -1, tx.clamp_min(margin - input, 0.0), 0.0)
    return _reduced("hinge_embedding_loss", loss, reduction)


def soft_margin_loss(input, target, reduction="mean"):
    """log(1 + exp(-target * input))."""
    return _reduced("soft_margin_loss", tx.log1p(tx.exp(-target * input)), reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with d the p-norm distance."""
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=lambda a, b: pairwise_distance(a, b, p, eps), margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """triplet_margin_loss with a distance of one's own."""
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = tx.minimum(far, distance(positive, negative))
    return _reduced("triplet_margin_loss", tx.clamp_min(near - far + margin, 0.0), reduction)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, reduction="mean"):
    """sum over other classes of max(0, margin - x[target] + x[i]) ** p, divided by the number of classes."""
    x = input if input.ndim == 2 else input.expand_dims(0)
    t = (target if target.ndim else target.expand_dims(0)).astype(tx.int64)
    own = tx.take_along_axis(x, t.expand_dims(1), axis=1)
    loss = tx.clamp_min(x - own + margin, 0.0) ** float(p)
    if weight is not None:
        loss = loss * tx.take(weight, t, axis=0).expand_dims(1)
    others = tx.arange(x.shape[1], device=x.device).expand_dims(0) != t.expand_dims(1)
    loss = tx.sum(tx.where(others, loss, 0.0), axis=1) / float(x.shape[1])
    return _reduced("multi_margin_loss", loss if input.ndim == 2 else loss.squeeze(0), reduction)


def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    """Mean over the classes of binary_cross_entropy_with_logits."""
    _same("multilabel_soft_margin_loss", input, target)
    loss = -(target * tx.log_sigmoid(input) + (1.0 - target) * tx.log_sigmoid(-input))
    loss = tx.mean(_weighted(loss, weight), axis=-1)
    return _reduced("multilabel_soft_margin_loss", loss, reduction)


def multilabel_margin_loss(input, target, reduction="mean"):
    """sum of max(0, 1 - (x[label] - x[i])) over labels and non-labels, divided by the number of classes; a row of target
    lists its labels and ends with -1."""
    _same("multilabel_margin_loss", input, target)
    x = input if input.ndim == 2 else input.expand_dims(0)
    t = (target if target.ndim == 2 else target.expand_dims(0)).astype(tx.int64)
    n = x.shape[1]
    import numpy as np

    host = np.asarray(t.to("cpu").numpy())
    valid = np.cumsum(host < 0, axis=1) == 0
    labels = np.zeros(host.shape, dtype=bool)
    rows, cols = np.nonzero(valid)
    labels[rows, host[rows, cols]] = True
    is_valid = tx.asarray(valid, device=x.device)
    is_label = tx.asarray(labels, device=x.device)
    own = tx.take_along_axis(x, tx.where(is_valid, t, 0), axis=1)
    gaps = tx.clamp_min(1.0 - (own.expand_dims(2) - x.expand_dims(1)), 0.0)
    counted = tx.logical_and(is_valid.expand_dims(2), tx.logical_not(is_label).expand_dims(1))
    loss = tx.sum(tx.where(counted, gaps, 0.0), axis=(1, 2)) / float(n)
    return _reduced("multilabel_margin_loss", loss if input.ndim == 2 else loss.squeeze(0), reduction)
