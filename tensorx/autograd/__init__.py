"""Gradients: what was computed is recorded, and gone through backward.

>>> import tensorx as tx
>>> w = tx.asarray([1.0, 2.0]).requires_grad_()
>>> loss = (w * w).sum()
>>> loss.backward()
>>> w.grad.tolist()
[2.0, 4.0]
"""

from __future__ import annotations

from tensorx.autograd import rules, rules_index, tape, views, writes  # noqa: F401 - they install themselves in the core
from tensorx.autograd.backward import backward, grad
from tensorx.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]
