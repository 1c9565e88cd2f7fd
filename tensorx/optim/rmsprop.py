"""RMSprop."""

from __future__ import annotations

from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Divides the gradient by the root of a running mean of its squares (Hinton's lecture notes, 2012).

    centered: by the root of the variance (Graves, 2013). momentum: the quotients are added up as SGD's gradients are.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.RMSprop([w], lr=0.01)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.900'
    """

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, *, foreach=None, maximize=False
    ):
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay, "maximize": maximize}
        )

    def check(self, group):
        super().check(group)
        states.at_least(self, group, momentum=0, alpha=0)

    def begin(self, p, group):
        s = {"step": 0, "square_avg": states.zeros(p)}
        if group["momentum"] > 0:
            s["momentum_buffer"] = states.zeros(p)
        if group["centered"]:
            s["grad_avg"] = states.zeros(p)
        return s

    def formula(self, p, g, s, group):
        a = group["alpha"]
        if group["weight_decay"] != 0:
            g = g + p * group["weight_decay"]
        v = s["square_avg"] * a + g * g * (1 - a)
        new = {"square_avg": v}
        if group["centered"]:
            mean = new["grad_avg"] = s["grad_avg"] + (g - s["grad_avg"]) * (1 - a)
            v = v - mean * mean
        d = g / (ops.sqrt(v) + group["eps"])
        if group["momentum"] > 0:
            d = new["momentum_buffer"] = s["momentum_buffer"] * group["momentum"] + d
        return p - d * group["lr"], new
