"""Adam and AdamW."""

from __future__ import annotations

from tensorx import _core
from tensorx.ops import elementwise as ops
from tensorx.optim import states
from tensorx.optim.optimizer import Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014): steps along the first moment, divided by the root of the second.

    weight_decay is added to the gradient; see AdamW for the decoupled form. amsgrad divides by the largest second moment so
    far. fused and foreach are accepted for code written for PyTorch: a step is one pass over memory anyway.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0, 2.0]).requires_grad_()
    >>> optimizer = tx.optim.Adam([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.9, 1.9]
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None, maximize=False, fused=None,
        decoupled_weight_decay=False,
    ):  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def check(self, group):
        super().check(group)
        states.betas(self, group)

    def begin(self, p, group):
        s = {"step": 0, "exp_avg": states.zeros(p), "exp_avg_sq": states.zeros(p)}
        if group["amsgrad"]:
            s["max_exp_avg_sq"] = states.zeros(p)
        return s

    def formula(self, p, g, s, group):
        decay, keep, rate, root, eps, a, b, c, coupled = _numbers(group, s["step"])
        if coupled:
            g = g + p * decay
        m = s["exp_avg"] + (g - s["exp_avg"]) * a
        v = s["exp_avg_sq"] * b + g * g * c
        new = {"exp_avg": m, "exp_avg_sq": v}
        if group["amsgrad"]:
            v = new["max_exp_avg_sq"] = ops.maximum(s["max_exp_avg_sq"], v)
        return p * keep - m * rate / (ops.sqrt(v) * root + eps), new

    def step_group(self, group, params, grads):
        keys = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        # parameters whose first gradient came later have made fewer steps
        ages: dict = {}
        for p, g in zip(params, grads):
            s = self.state_of(p, group)
            age = s["step"]
            if age not in ages:
                ages[age] = ([], [], [])
            ps, gs, ss = ages[age]
            ps.append(p)
            gs.append(g)
            ss.append(s)
        for age, (ps, gs, ss) in ages.items():
            if group["amsgrad"]:
                for p, s in zip(ps, ss):
                    if "max_exp_avg_sq" not in s:
                        s["max_exp_avg_sq"] = states.zeros(p)
            sign = -1.0 if group["maximize"] else 1.0
            left = _core.adam_steps([ps, gs, *([s[key] for s in ss] for key in keys)], sign, *_numbers(group, age + 1))
            for r in left:
                self.step_one(group, ps[r], gs[r])
            if not left:
                for s in ss:
                    s["step"] = age + 1
            else:
                again = set(left)
                for r, s in enumerate(ss):
                    if r not in again:
                        s["step"] = age + 1


def _numbers(group, step):
    """The constants of step number ``step``, as the kernel takes them."""
    b1, b2 = group["betas"]
    lr, decay = group["lr"], group["weight_decay"]
    coupled = decay != 0 and not group["decoupled_weight_decay"]
    keep = 1 - lr * decay if group["decoupled_weight_decay"] else 1.0
    return decay, keep, lr / (1 - b1**step), 1 / (1 - b2**step) ** 0.5, group["eps"], 1 - b1, b2, 1 - b2, coupled


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017): p shrinks by lr * weight_decay in each step.

    Options as Adam's.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0, 2.0]).requires_grad_()
    >>> optimizer = tx.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.85, 1.8]
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False, foreach=None, fused=None
    ):  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True)

    def check(self, group):
        group.setdefault("decoupled_weight_decay", True)
        super().check(group)
