"""Adadelta."""

from __future__ import annotations

from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """Scales the gradient by the ratio of the running means of past steps and past gradients (Zeiler, 2012).

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.Adadelta([w])
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.997'
    """

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, *, foreach=None, maximize=False):
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def check(self, group):
        super().check(group)
        states.at_least(self, group, rho=0)
        if group["rho"] > 1:
            raise ValueError(f"Adadelta: rho must be at most 1, got {group['rho']}")

    def begin(self, p, group):
        return {"step": 0, "square_avg": states.zeros(p), "acc_delta": states.zeros(p)}

    def formula(self, p, g, s, group):
        rho, eps = group["rho"], group["eps"]
        if group["weight_decay"] != 0:
            g = g + p * group["weight_decay"]
        v = s["square_avg"] * rho + g * g * (1 - rho)
        d = ops.sqrt(s["acc_delta"] + eps) / ops.sqrt(v + eps) * g
        return p - d * group["lr"], {"square_avg": v, "acc_delta": s["acc_delta"] * rho + d * d * (1 - rho)}
