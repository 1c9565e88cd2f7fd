"""Adamax: Adam with the infinity norm."""

from __future__ import annotations

from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["Adamax"]


class Adamax(Optimizer):
    """Adam with a decaying maximum in place of the second moment (Kingma and Ba, 2014, section 7).

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.Adamax([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.900'
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, maximize=False, foreach=None):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def check(self, group):
        super().check(group)
        states.betas(self, group)

    def begin(self, p, group):
        return {"step": 0, "exp_avg": states.zeros(p), "exp_inf": states.zeros(p)}

    def formula(self, p, g, s, group):
        b1, b2 = group["betas"]
        if group["weight_decay"] != 0:
            g = g + p * group["weight_decay"]
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - b1)
        u = ops.maximum(s["exp_inf"] * b2, ops.abs(g) + group["eps"])
        return p - m * (group["lr"] / (1 - b1 ** s["step"])) / u, {"exp_avg": m, "exp_inf": u}
