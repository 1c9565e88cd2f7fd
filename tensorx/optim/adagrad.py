"""Adagrad."""

from __future__ import annotations

from tensorx import _core
from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Divides the gradient by the root of the sum of its squares so far (Duchi, Hazan and Singer, 2011).

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.Adagrad([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.900'
    """

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, *, foreach=None, maximize=False, fused=None
    ):
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
            },
        )  # fmt: skip

    def check(self, group):
        super().check(group)
        states.at_least(self, group, lr_decay=0, initial_accumulator_value=0)

    def begin(self, p, group):
        s = states.zeros(p)
        if group["initial_accumulator_value"]:
            _core.write_value(s, group["initial_accumulator_value"], "Adagrad")
        return {"step": 0, "sum": s}

    def formula(self, p, g, s, group):
        if group["weight_decay"] != 0:
            g = g + p * group["weight_decay"]
        rate = group["lr"] / (1 + (s["step"] - 1) * group["lr_decay"])
        total = s["sum"] + g * g
        return p - g * rate / (ops.sqrt(total) + group["eps"]), {"sum": total}
