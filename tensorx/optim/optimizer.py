"""What all optimizers share: parameter groups, state, checks, and how a formula becomes one pass over memory."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import NamedTuple

from tensorx import _core
from tensorx._core import Tensor
from tensorx.autograd.modes import enable_grad
from tensorx.optim import causes, states

__all__ = ["LastStep", "Optimizer"]


class LastStep(NamedTuple):
    """What the last step met: how many parameters had a gradient, of how many; the names of the others."""

    with_grad: int
    total: int
    missing: tuple


class Optimizer:
    """Base of all optimizers.

    params: tensors, (name, tensor) pairs as from ``module.named_parameters()``, or dictionaries (groups) with the key
    ``params`` and options of their own. With names, messages speak of them.

    A subclass gives ``defaults``, says in ``begin(p, group)`` what state a parameter starts with, and in
    ``formula(p, g, s, group)`` how a step computes the new value of p from the gradient g and the state s: it returns
    the value and a dictionary of new state. The engine makes one pass over memory of it, and nothing is allocated.

    >>> import tensorx as tx
    >>> class Halving(tx.optim.Optimizer):
    ...     def formula(self, p, g, s, group):
    ...         return p - 0.5 * g, {}
    >>> w = tx.ones(2).requires_grad_()
    >>> optimizer = Halving([w], {})
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist(), optimizer.last_step.with_grad
    ([0.0, 0.0], 1)
    """

    numbers: tuple = ("step",)  # entries of the state that are Python numbers
    shapeless: tuple = ()  # entries whose shape is not the parameter's

    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        self.state = defaultdict(dict)
        self.param_groups = []
        self.last_step = None
        self._names = {}  # parameter -> its name
        self._warned = set()
        self._cleared = None  # what zero_grad met last: (passes of backward so far, gradients)
        self._born = _core.backward_passes()
        self._steps = 0
        self._pre_hooks, self._post_hooks = [], []
        who = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(f"{who}: takes an iterable of parameters, got one tensor: write [parameter]")
        groups = list(params)
        if not groups:
            raise ValueError(f"{who}: got no parameters; the model has none, or the iterator was used up before")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        causes.warn_of_devices(self)
        from tensorx.nn import moving

        moving.followers.add(self)

    # ---- parameters ----------------------------------------------------------------------

    def add_param_group(self, group):
        """Adds parameters with options of their own; ValueError where one of them is here already or is no leaf."""
        who = type(self).__name__
        if not isinstance(group, dict) or "params" not in group:
            raise TypeError(f"{who}: a parameter group is a dictionary with the key 'params', got {type(group).__name__}")
        group = dict(group)
        given = group["params"]
        if isinstance(given, Tensor):
            given = [given]
        elif isinstance(given, (set, frozenset)):
            raise TypeError(f"{who}: parameters must have an order that is the same in every run; a set has none")
        params, names = [], []
        for item in given:
            name, p = item if isinstance(item, tuple) else (None, item)
            params.append(p)
            names.append(name)
        number = len(self.param_groups)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for k, (name, p) in enumerate(zip(names, params)):
            shown = name or f"{k} of group {number}"
            if not isinstance(p, Tensor):
                raise TypeError(f"{who}: parameter {shown} is a {type(p).__name__}, not a tensor")
            if not p.is_leaf:
                raise ValueError(causes.not_a_leaf(who, shown, p))
            if p.dtype.kind not in "fc":
                raise ValueError(f"{who}: parameter {shown} is {p.dtype.name}; only floating-point tensors are trained")
            if id(p) in known:
                other = self._names.get(p) or next((n for n, q in zip(names[:k], params) if q is p), None)
                raise ValueError(
                    f"{who}: parameter {shown} (shape {p.shape}) is given twice{f', before as {other}' if other and other != name else ''}; "
                    "it would be stepped twice: give a tied parameter once"
                )
            known.add(id(p))
        for key, value in self.defaults.items():
            group.setdefault(key, value)
        group["params"] = params
        if any(names):
            group["param_names"] = [n or f"parameter {k} of group {number}" for k, n in enumerate(names)]
        self.check(group)
        for name, p in zip(names, params):
            if name is not None:
                self._names[p] = name
        self.param_groups.append(group)

    def check(self, group):
        """Refuses options that make no sense; subclasses extend it."""
        states.at_least(self, group, lr=0, eps=0, weight_decay=0)

    def name_of(self, p):
        """Name of a parameter for messages."""
        if p in self._names:
            return self._names[p]
        for number, group in enumerate(self.param_groups):
            for k, q in enumerate(group["params"]):
                if q is p:
                    return f"parameter {k} of group {number} {p.shape}"
        return f"a parameter {p.shape}"

    def parameters_moved(self, params):
        """Called when a module was moved: the state follows its parameters."""
        for p in params:
            if p in self.state:
                states.move(self.state[p], p)

    def zero_grad(self, set_to_none=True):
        """Drops the gradients of all parameters, or sets them to zero with set_to_none=False."""
        found = 0
        for group in self.param_groups:
            if set_to_none:
                found += _core.clear_gradients(group["params"])
            else:
                for g in _core.gradients_of(group["params"]):
                    if g is not None:
                        found += 1
                        g.detach().zero_()
        if set_to_none:
            self._cleared = _core.backward_passes(), found

    # ---- the step ----------------------------------------------------------------------------

    def step(self, closure=None):
        """Updates the parameters that have a gradient. closure: computes the loss anew (with gradients); its result is returned.

        GradientError, with the likely cause, where no parameter has a gradient; a warning, once, where some have none.
        """
        for hook in self._pre_hooks:
            hook(self, (closure,), {})
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        token = _core._grad_mode.set(False)
        try:
            rows = self._gather()
            for group, params, grads in rows:
                if params:
                    self.step_group(group, params, grads)
        finally:
            _core._grad_mode.reset(token)
        self._steps += 1
        for hook in self._post_hooks:
            hook(self, (closure,), {})
        return loss

    def _gather(self):
        """(group, parameters with a gradient, their gradients), after the checks."""
        rows, missing, total = [], [], 0
        for group in self.param_groups:
            params = group["params"]
            total += len(params)
            grads = _core.gradients_of(params)
            if any(g is None for g in grads):
                missing += [p for p, g in zip(params, grads) if g is None]
                params = [p for p, g in zip(params, grads) if g is not None]
                grads = [g for g in grads if g is not None]
            rows.append((group, params, grads))
        names = tuple(self.name_of(p) for p in missing)
        self.last_step = LastStep(total - len(missing), total, names)
        if missing:
            if len(missing) == total:
                raise causes.no_gradient(self)
            fresh = [p for p in missing if p not in self._warned]
            if fresh:
                self._warned.update(fresh)
                warnings.warn(causes.some_missing(self, fresh, total), stacklevel=3)
        return rows

    def step_group(self, group, params, grads):
        """One step of parameters with one set of options; subclasses with a kernel of their own extend it."""
        for p, g in zip(params, grads):
            self.step_one(group, p, g)

    def state_of(self, p, group):
        """The state of p, begun where there is none."""
        s = self.state[p]
        if not s:
            s.update(self.begin(p, group))
        return s

    def step_one(self, group, p, g):
        """One step of one parameter by the formula."""
        s = self.state_of(p, group)
        if "step" in s:
            s["step"] += 1
        value, new = self.formula(p, g * -1.0 if group.get("maximize") else g, s, group)
        assign(p, value, s, new)

    def begin(self, p, group):
        """State of a parameter before its first step."""
        return {}

    def formula(self, p, g, s, group):
        """(new value of p, new state) from the gradient g and the state s; nothing is written here."""
        raise TypeError(f"{type(self).__name__}: formula() is not defined")

    # ---- hooks, state ----------------------------------------------------------------------------

    def register_step_pre_hook(self, hook):
        """Calls ``hook(optimizer, args, kwargs)`` before every step; returns a handle with ``remove()``."""
        return states.Handle(self._pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls ``hook(optimizer, args, kwargs)`` after every step; returns a handle with ``remove()``."""
        return states.Handle(self._post_hooks, hook)

    def state_dict(self, copy=True):
        """State and options with numbers for parameters, as PyTorch's; independent of the optimizer unless copy=False."""
        return states.state_dict(self, copy)

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave, here or in PyTorch; ValueError, and nothing changed, where it does not fit."""
        states.load_state_dict(self, state_dict)

    def __repr__(self):
        lines = [type(self).__name__ + " ("]
        for k, group in enumerate(self.param_groups):
            options = ", ".join(f"{key}={value}" for key, value in group.items() if key not in ("params", "param_names"))
            lines.append(f"  group {k}: {len(group['params'])} parameters, {options}")
        return "\n".join([*lines, ")"])

    def __setstate__(self, given):
        from tensorx.nn import moving

        self.__dict__.update(given)
        moving.followers.add(self)


def assign(p, value, s, new):
    """p takes value, s takes the entries of new, in one pass over memory.

    A state tensor whose memory nobody else holds becomes the new value, which the engine writes into the old memory;
    another one is written in place, so that its views see it.
    """
    later = []
    for key, v in new.items():
        old = s[key]
        if not isinstance(v, Tensor):
            s[key] = v
        elif v is old:
            continue
        elif v.dtype is old.dtype and v.shape == old.shape and _core.is_pending(v) and _core.owned_alone(old):
            _core.retarget(old, v)
            later.append((old, None))
        else:
            later.append((old, v))
    new.clear()
    v = None
    if value.dtype is not p.dtype:
        value = _core.cast(value, p.dtype)
    _core.write_value(p, value, "optimizer step")
    for k, (old, v) in enumerate(later):
        if v is None:
            _core.evaluate(old)
        else:
            later[k] = None
            _core.write_value(old, v if v.dtype is old.dtype else _core.cast(v, old.dtype), "optimizer step")
