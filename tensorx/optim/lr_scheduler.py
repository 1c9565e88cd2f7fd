"""Learning rates that change with the steps. ``scheduler.step()`` comes after ``optimizer.step()``, once per epoch or per batch.

Names, arguments and values are PyTorch's. A scheduler changes the rate that the group has by then, so that several can be
combined (:class:`ChainedScheduler`).

>>> import tensorx as tx
>>> optimizer = tx.optim.SGD([tx.ones(1).requires_grad_()], lr=1.0)
>>> scheduler = tx.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
>>> rates = []
>>> for _ in range(4):
...     rates.append(round(scheduler.get_last_lr()[0], 6))
...     optimizer.param_groups[0]["params"][0].sum().backward()
...     optimizer.step()
...     scheduler.step()
>>> rates
[1.0, 1.0, 0.1, 0.1]
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter

from tensorx.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class LRScheduler:
    """Base of the schedulers: ``get_lr()`` says the rates of step number ``last_epoch`` from those that the groups have.

    last_epoch: number of the last step, -1 for a new start; to resume, load_state_dict is simpler.
    """

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: takes an optimizer of tensorx, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"{type(self).__name__}: group {k} has no 'initial_lr', which a start at last_epoch={last_epoch} needs")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._count = 0
        self._advance()

    def get_lr(self):
        """Rates of the groups for step number ``last_epoch``."""
        raise TypeError(f"{type(self).__name__}: get_lr() is not defined")

    def get_last_lr(self):
        """Rates of the groups as this scheduler set them last."""
        return list(self._last_lr)

    def _rates(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor):
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _advance(self):
        self._count += 1
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate
        self._last_lr = self._rates()

    def _restart(self):
        """Back to step 0 of this schedule, from the initial rates."""
        self.last_epoch = 0
        for group, rate in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = rate
        self._set(self.get_lr())

    def step(self):
        """Sets the rates of the next step."""
        if self._count == 1 and self.optimizer._steps == 0:
            warnings.warn(
                f"{type(self).__name__}: scheduler.step() was called before optimizer.step(): the first rate is never used. Call them the other way round",
                stacklevel=2,
            )
        self._advance()

    _left_out: tuple = ()

    def state_dict(self):
        """All that the schedule depends on; functions are left out."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and k not in self._left_out}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The initial rate times ``lr_lambda(step)``; a list of functions, one per group, is possible, too."""

    _left_out = ("lr_lambdas",)

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambdas = _per_group(self, optimizer, "lr_lambda", lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(LambdaLR):
    """The rate times ``lr_lambda(step)`` in every step."""

    def get_lr(self):
        if self.last_epoch <= 0:
            return self._rates()
        return [rate * f(self.last_epoch) for rate, f in zip(self._rates(), self.lr_lambdas)]


def _per_group(scheduler, optimizer, name, value):
    groups = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(values) != groups:
        raise ValueError(f"{type(scheduler).__name__}: {len(values)} values of {name} for {groups} parameter groups")
    return values


class StepLR(LRScheduler):
    """The rate times gamma after every step_size steps."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return self._scaled(self.gamma)


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._scaled(self.gamma ** self.milestones[self.last_epoch]) if self.last_epoch in self.milestones else self._rates()


class ExponentialLR(LRScheduler):
    """The rate times gamma in every step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rates() if self.last_epoch == 0 else self._scaled(self.gamma)


class ConstantLR(LRScheduler):
    """The rate times factor for the first total_iters steps."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 < factor <= 1:
            raise ValueError(f"ConstantLR: factor must lie above 0 and not above 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1 / self.factor) if self.last_epoch == self.total_iters else self._rates()


class LinearLR(LRScheduler):
    """The factor of the rate goes from start_factor to end_factor in total_iters steps: a warm-up."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: factors lie between 0 (the first above it) and 1, got {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        return self._scaled(1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))


class PolynomialLR(LRScheduler):
    """The rate goes to 0 in total_iters steps as (1 - step / total_iters) ** power."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._rates()
        now, before = 1 - self.last_epoch / self.total_iters, 1 - (self.last_epoch - 1) / self.total_iters
        return self._scaled((now / before) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to eta_min in T_max steps, and back (Loshchilov and Hutter, 2016)."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t, T, low = self.last_epoch, self.T_max, self.eta_min
        if t == 0:
            return self._rates()
        if self._count == 1:
            return [low + (base - low) * (1 + math.cos(t * math.pi / T)) / 2 for base in self.base_lrs]
        if (t - 1 - T) % (2 * T) == 0:
            return [rate + (base - low) * (1 - math.cos(math.pi / T)) / 2 for base, rate in zip(self.base_lrs, self._rates())]
        factor = (1 + math.cos(math.pi * t / T)) / (1 + math.cos(math.pi * (t - 1) / T))
        return [factor * (rate - low) + low for rate in self._rates()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the initial rate to eta_min, over T_0 steps at first and T_mult times as many after each restart."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int) or T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 and T_mult must be positive integers, got {T_0} and {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def _advance(self):
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        super()._advance()

    def _restart(self):
        self.T_cur, self.T_i = 0, self.T_0
        super()._restart()

    def step(self, epoch=None):
        """Sets the rates of the next step, or of a given one, which may be a fraction."""
        if epoch is None:
            super().step()
            return
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {epoch}")
        length, start = self.T_0, 0
        while epoch >= start + length:
            start += length
            length *= self.T_mult
        self.T_cur, self.T_i = epoch - start, length
        self._count += 1
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class _WithMomentum(LRScheduler):
    """Schedules that move the momentum against the rate."""

    def _momentum_key(self, optimizer):
        for group in optimizer.param_groups:
            if "momentum" not in group and "betas" not in group:
                raise ValueError(f"{type(self).__name__}: the optimizer has neither momentum nor betas; pass cycle_momentum=False")
        return "betas" if "betas" in optimizer.param_groups[0] else "momentum"

    def _set_momentum(self, group, value):
        if self.momentum_key == "betas":
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class OneCycleLR(_WithMomentum):
    """Up to max_lr in the first part of the steps (pct_start), down to nearly 0 in the rest; to be stepped after every batch.

    Give total_steps, or epochs and steps_per_epoch. The momentum goes the other way (Smith and Topin, 2017).
    """

    def __init__(
        self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy="cos", cycle_momentum=True,
        base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False, last_epoch=-1,
    ):  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or total_steps != int(total_steps):
            raise ValueError(f"OneCycleLR: the number of steps must be a positive integer, got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start lies between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', got {anneal_strategy!r}")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = int(total_steps), anneal_strategy, cycle_momentum
        up = float(pct_start * total_steps) - 1
        if three_phase:
            self.phases = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self.phases = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, _per_group(self, optimizer, "max_lr", max_lr)):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.momentum_key = self._momentum_key(optimizer)
            if last_epoch == -1:
                lows = _per_group(self, optimizer, "base_momentum", base_momentum)
                highs = _per_group(self, optimizer, "max_momentum", max_momentum)
                for group, low, high in zip(optimizer.param_groups, lows, highs):
                    self._set_momentum(group, high)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def _between(self, a, b, part):
        if self.anneal_strategy == "linear":
            return a + (b - a) * part
        return b + (a - b) / 2 * (math.cos(math.pi * part) + 1)

    def get_lr(self):
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(f"OneCycleLR: step {t + 1} of a schedule of {self.total_steps} steps")
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for k, (end, lr_from, lr_to, m_from, m_to) in enumerate(self.phases):
                if t <= end or k == len(self.phases) - 1:
                    part = (t - start) / (end - start)
                    rates.append(self._between(group[lr_from], group[lr_to], part))
                    if self.cycle_momentum:
                        self._set_momentum(group, self._between(group[m_from], group[m_to], part))
                    break
                start = end
        return rates


class CyclicLR(_WithMomentum):
    """The rate goes up and down between base_lr and max_lr; to be stepped after every batch (Smith, 2015).

    mode: "triangular", "triangular2" (halves the height in every cycle), "exp_range" (scales it by gamma ** step); or scale_fn,
    of the cycle's or the step's number as scale_mode says.
    """

    _left_out = ("_scale",)

    def __init__(
        self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0, scale_fn=None,
        scale_mode="cycle", cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ):  # fmt: skip
        modes = {
            "triangular": (lambda n: 1.0, "cycle"),
            "triangular2": (lambda n: 1 / 2.0 ** (n - 1), "cycle"),
            "exp_range": (lambda n: gamma**n, "iterations"),
        }
        if scale_fn is None and mode not in modes:
            raise ValueError(f"CyclicLR: mode is one of {', '.join(modes)}, got {mode!r}")
        self._scale, self.scale_mode = (scale_fn, scale_mode) if scale_fn is not None else modes[mode]
        low = _per_group(self, optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, low):
                group["lr"] = rate
        self.max_lrs = _per_group(self, optimizer, "max_lr", max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.momentum_key = self._momentum_key(optimizer)
            self.base_momentums = _per_group(self, optimizer, "base_momentum", base_momentum)
            self.max_momentums = _per_group(self, optimizer, "max_momentum", max_momentum)
            if last_epoch == -1:
                for group, high in zip(optimizer.param_groups, self.max_momentums):
                    self._set_momentum(group, high)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = low

    def get_lr(self):
        t = self.last_epoch
        cycle = math.floor(1 + t / self.total_size)
        x = 1.0 + t / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self._scale(cycle if self.scale_mode == "cycle" else t)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]


class SequentialLR(LRScheduler):
    """One scheduler after the other: each of the milestones is the step at which the next one starts."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) != len(milestones) + 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones, got {len(milestones)}")
        _one_optimizer(self, optimizer, schedulers)
        self.optimizer, self._schedulers, self._milestones = optimizer, list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        self._count = 1
        # every scheduler has made its first step when it was built: only that of the first one counts
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in schedulers:
            scheduler.last_epoch -= 1
        first = schedulers[0]
        first._count = 0
        if isinstance(first, CosineAnnealingWarmRestarts):
            first.T_cur -= 1
        first._advance()
        self._last_lr = first.get_last_lr()

    def step(self):
        self.last_epoch += 1
        k = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[k]
        if k > 0 and self._milestones[k - 1] == self.last_epoch:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self):
        own = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return own | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        own = dict(state_dict)
        for scheduler, state in zip(self._schedulers, own.pop("_schedulers")):
            scheduler.load_state_dict(state)
        self.__dict__.update(own)


class ChainedScheduler(LRScheduler):
    """Steps several schedulers of one optimizer, one on top of the other."""

    def __init__(self, schedulers, optimizer=None):
        if not schedulers:
            raise ValueError("ChainedScheduler: needs at least one scheduler")
        self.optimizer = optimizer or schedulers[0].optimizer
        _one_optimizer(self, self.optimizer, schedulers)
        self._schedulers = list(schedulers)
        self._last_lr = self._rates()

    def step(self):
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()

    state_dict = SequentialLR.state_dict
    load_state_dict = SequentialLR.load_state_dict


def _one_optimizer(owner, optimizer, schedulers):
    for k, scheduler in enumerate(schedulers):
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{type(owner).__name__}: scheduler {k} ({type(scheduler).__name__}) belongs to another optimizer")


class ReduceLROnPlateau(LRScheduler):
    """The rate times factor when a metric has not improved for more than patience steps: ``scheduler.step(metric)``.

    mode: "min" or "max". An improvement is larger than threshold, relative to the best ("rel") or absolute ("abs"). After a
    cut, cooldown steps do not count. min_lr bounds the rate, eps the smallest cut.
    """

    def __init__(
        self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8
    ):  # fmt: skip
        if factor >= 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: mode is 'min' or 'max' and threshold_mode 'rel' or 'abs', got {mode!r} and {threshold_mode!r}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = _per_group(self, optimizer, "min_lr", min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self._rates()

    def _improves(self, value):
        way = 1 if self.mode == "max" else -1
        margin = self.threshold * (self.best if self.threshold_mode == "rel" and math.isfinite(self.best) else 1)
        return way * value > way * (self.best + way * margin)

    def step(self, metrics):
        value = float(metrics)
        self.last_epoch += 1
        if self._improves(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, low in zip(self.optimizer.param_groups, self.min_lrs):
                rate = max(group["lr"] * self.factor, low)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()
