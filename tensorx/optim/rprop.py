"""Rprop: steps by the sign of the gradient."""

from __future__ import annotations

from tensorx import _core
from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["Rprop"]


class Rprop(Optimizer):
    """Steps of a size of its own for every element, which grows while the gradient keeps its sign (Riedmiller and Braun, 1993).

    For full batches: the sign of a noisy gradient says little.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0]).requires_grad_()
    >>> optimizer = tx.optim.Rprop([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.3f}"
    '0.900'
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, foreach=None, maximize=False):
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize})

    def check(self, group):
        super().check(group)
        shrink, grow = group["etas"]
        if not 0 < shrink < 1 < grow:
            raise ValueError(f"Rprop: etas must lie below and above 1, got {group['etas']}")

    def begin(self, p, group):
        size = states.zeros(p)
        _core.write_value(size, group["lr"], "Rprop")
        return {"step": 0, "prev": states.zeros(p), "step_size": size}

    def formula(self, p, g, s, group):
        shrink, grow = group["etas"]
        low, high = group["step_sizes"]
        turn = g * s["prev"]
        size = ops.clip(s["step_size"] * ops.where(turn > 0, grow, ops.where(turn < 0, shrink, turn * 0 + 1)), low, high)
        g = ops.where(turn < 0, 0, g)  # after a turn of sign the element rests for one step
        return p - ops.sign(g) * size, {"prev": g + 0, "step_size": size}
