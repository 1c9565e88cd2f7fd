"""Lion: steps by the sign of the momentum."""

from __future__ import annotations

from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["Lion"]


class Lion(Optimizer):
    """Steps by the sign of an interpolated momentum, with decoupled weight decay (Chen and others, 2023).

    A third to a tenth of AdamW's lr, with three to ten times its weight_decay, is usual.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.Lion([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.900'
    """

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def check(self, group):
        super().check(group)
        states.betas(self, group)

    def begin(self, p, group):
        return {"exp_avg": states.zeros(p)}

    def formula(self, p, g, s, group):
        b1, b2 = group["betas"]
        m, lr = s["exp_avg"], group["lr"]
        d = ops.sign(m * b1 + g * (1 - b1))
        return p * (1 - lr * group["weight_decay"]) - d * lr, {"exp_avg": m * b2 + g * (1 - b2)}
