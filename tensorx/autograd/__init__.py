"""Gradients: what was computed is recorded, and gone through backward.

>>> import tensorx as tx
>>> w = tx.asarray([1.0, 2.0]).requires_grad_()
>>> loss = (w * w).sum()
>>> loss.backward()
>>> w.grad.tolist()
[2.0, 4.0]
"""

from __future__ import annotations

from tensorx.autograd import rules, rules_index, rules_order, tape, views, writes  # noqa: F401 - they install themselves in the core
from tensorx.autograd.check import gradcheck, gradgradcheck
from tensorx.autograd.drawing import draw
from tensorx.autograd.function import (
    Function,
    detect_anomaly,
    once_differentiable,
    saved_tensors_hooks,
    set_detect_anomaly,
)
from tensorx.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from tensorx.autograd.gradients import backward, grad
from tensorx.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tensorx.autograd.recompute import checkpoint, checkpoint_sequential, preserve_state

__all__ = [
    "Function", "backward", "checkpoint", "checkpoint_sequential", "detect_anomaly", "draw", "enable_grad", "grad", "gradcheck",
    "gradgradcheck", "hessian", "hvp", "inference_mode", "is_grad_enabled", "jacobian", "jvp", "no_grad", "once_differentiable",
    "preserve_state", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled", "vhp", "vjp",
]  # fmt: skip
