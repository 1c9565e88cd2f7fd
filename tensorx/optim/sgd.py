"""Stochastic gradient descent, with momentum and Nesterov's form of it."""

from __future__ import annotations

from tensorx import _core
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["SGD"]


class SGD(Optimizer):
    """p - lr * g, or with momentum p - lr * u where u = momentum * u + (1 - dampening) * g, begun with g.

    nesterov: p - lr * (g + momentum * u). weight_decay is added to the gradient as weight_decay * p.
    fused and foreach are accepted for code written for PyTorch: a step is one pass over memory anyway.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0, 2.0]).requires_grad_()
    >>> optimizer = tx.optim.SGD([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, 1.5]
    """

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None, fused=None):
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize}
        )

    def check(self, group):
        super().check(group)
        states.at_least(self, group, momentum=0)
        group["dampening"] = states.number(self, "dampening", group["dampening"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and no dampening")

    def step_group(self, group, params, grads):
        momentum = group["momentum"]
        parts = [(False, params, grads)]
        if momentum != 0:
            begun = [self.state[p].get("momentum_buffer") is not None for p in params]
            parts = [
                (not had, [p for p, b in zip(params, begun) if b is had], [g for g, b in zip(grads, begun) if b is had])
                for had in (True, False)
                if had in begun
            ]
        for first, ps, gs in parts:
            columns = [ps, gs]
            if momentum != 0:
                if first:
                    for p in ps:
                        self.state[p]["momentum_buffer"] = states.zeros(p)
                columns.append([self.state[p]["momentum_buffer"] for p in ps])
            left = _core.sgd_steps(
                columns, -1.0 if group["maximize"] else 1.0, group["weight_decay"], group["lr"], momentum, 1 - group["dampening"],
                group["weight_decay"] != 0, first, group["nesterov"],
            )  # fmt: skip
            for r in left:
                self._first = first
                self.step_one(group, ps[r], gs[r])

    def formula(self, p, g, s, group):
        mu = group["momentum"]
        if group["weight_decay"] != 0:
            g = g + p * group["weight_decay"]
        if mu == 0:
            return p - g * group["lr"], {}
        # the velocity starts as the gradient: with the numbers of the first step, not a formula (and a kernel) of its own
        kept, taken = (0.0, 1.0) if self._first else (mu, 1 - group["dampening"])
        u = s["momentum_buffer"] * kept + g * taken
        d = g + u * mu if group["nesterov"] else u
        return p - d * group["lr"], {"momentum_buffer": u}
