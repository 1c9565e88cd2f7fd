"""RAdam: Adam that rectifies the variance of its first steps."""

from __future__ import annotations

from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """Adam that leaves the second moment out while it rests on too few gradients (Liu and others, 2019).

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.RAdam([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.900'
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, foreach=None, maximize=False
    ):
        super().__init__(
            params,
            {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize},
        )

    def check(self, group):
        super().check(group)
        states.betas(self, group)

    def begin(self, p, group):
        return {"step": 0, "exp_avg": states.zeros(p), "exp_avg_sq": states.zeros(p)}

    def formula(self, p, g, s, group):
        b1, b2 = group["betas"]
        t, lr, decay = s["step"], group["lr"], group["weight_decay"]
        if decay != 0:
            if group["decoupled_weight_decay"]:
                p = p * (1 - lr * decay)
            else:
                g = g + p * decay
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - b1)
        v = s["exp_avg_sq"] * b2 + g * g * (1 - b2)
        longest = 2 / (1 - b2) - 1
        rho = longest - 2 * t * b2**t / (1 - b2**t)
        d = m / (1 - b1**t) * lr
        if rho > 5:
            r = ((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho)) ** 0.5
            d = d * ((1 - b2**t) ** 0.5 / (ops.sqrt(v) + group["eps"])) * r
        return p - d, {"exp_avg": m, "exp_avg_sq": v}
