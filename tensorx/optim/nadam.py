"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["NAdam"]


class NAdam(Optimizer):
    """Adam whose first moment looks ahead (Dozat, 2016), with a momentum that grows with the steps.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.NAdam([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.894'
    """

    numbers = ("step", "mu_product")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *,
        foreach=None, maximize=False,
    ):  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
            },
        )  # fmt: skip

    def check(self, group):
        super().check(group)
        states.betas(self, group)
        states.at_least(self, group, momentum_decay=0)

    def begin(self, p, group):
        return {"step": 0, "mu_product": 1.0, "exp_avg": states.zeros(p), "exp_avg_sq": states.zeros(p)}

    def formula(self, p, g, s, group):
        b1, b2 = group["betas"]
        t, lr, decay = s["step"], group["lr"], group["weight_decay"]
        mu = b1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        after = b1 * (1 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
        product = s["mu_product"] * mu
        if decay != 0:
            if group["decoupled_weight_decay"]:
                p = p * (1 - lr * decay)
            else:
                g = g + p * decay
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - b1)
        v = s["exp_avg_sq"] * b2 + g * g * (1 - b2)
        d = ops.sqrt(v / (1 - b2**t)) + group["eps"]
        p = p - g * (lr * (1 - mu) / (1 - product)) / d - m * (lr * after / (1 - product * after)) / d
        return p, {"mu_product": product, "exp_avg": m, "exp_avg_sq": v}
