"""State of optimizers: its dictionary form, loading, moving; checks of options."""

from __future__ import annotations

import copy as _copy
from collections import defaultdict

from tensorx import _core
from tensorx._core import Tensor


class Handle:
    """Removes a hook: ``handle.remove()``."""

    def __init__(self, hooks, hook):
        hooks.append(hook)
        self._hooks, self._hook = hooks, hook

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def number(optimizer, key, value):
    """An option as a Python number."""
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise ValueError(f"{type(optimizer).__name__}: {key} must be a number, got {value!r}")
    return value


def at_least(optimizer, group, **bounds):
    """Options that must not lie below a bound; those that a group lacks are left out."""
    for key, low in bounds.items():
        if key in group:
            group[key] = number(optimizer, key, group[key])
            if not group[key] >= low:
                raise ValueError(f"{type(optimizer).__name__}: {key} must be at least {low}, got {group[key]}")


def betas(optimizer, group, key="betas"):
    """Two decay rates in [0, 1)."""
    values = tuple(number(optimizer, key, b) for b in group[key])
    if len(values) != 2 or not all(0 <= b < 1 for b in values):
        raise ValueError(f"{type(optimizer).__name__}: {key} must be two numbers from 0 up to, but without, 1; got {group[key]}")
    group[key] = values


def zeros(p):
    """Zeros of p's shape, dtype, device and memory order."""
    out = p.detach() * 0 if p.ndim > 1 and not _core.is_c_contiguous(p) else None
    if out is None:
        return _core.full_like_scalar(p.shape, 0, p.dtype, p.device.number)
    out.zero_()
    return out


def move(s, p):
    """The tensors of the state s go where p is now, in p's dtype."""
    token = _core._grad_mode.set(False)
    try:
        for value in s.values():
            if isinstance(value, Tensor) and value.dtype.kind in "fc" and (value.device is not p.device or value.dtype is not p.dtype):
                new = value.to(p.device, p.dtype)
                _core.evaluate(new)
                _core.retarget(value, new)
    finally:
        _core._grad_mode.reset(token)


def state_dict(optimizer, copy):
    """See Optimizer.state_dict."""
    places, groups = {}, []
    for group in optimizer.param_groups:
        for p in group["params"]:
            places.setdefault(p, len(places))
        groups.append({k: _copy.copy(v) for k, v in group.items() if k != "params"} | {"params": [places[p] for p in group["params"]]})
    state = {}
    for p, s in optimizer.state.items():
        if p in places:
            state[places[p]] = {k: packed(v, copy) for k, v in s.items()}
    return {"state": state, "param_groups": groups}


def packed(value, copy):
    """A value of the state for a dictionary."""
    if isinstance(value, Tensor):
        return value.detach().copy() if copy else value
    if isinstance(value, list):
        return [packed(v, copy) for v in value]
    return value


def _unpacked(value, p):
    """A value of the state, from a dictionary: tensors become independent, floating-point ones like p."""
    if isinstance(value, (int, float, bool, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_unpacked(v, p) for v in value]
    if not isinstance(value, Tensor):
        import numpy as np

        from tensorx.ops.creation import asarray

        value = asarray(np.array(value.detach().cpu().numpy() if hasattr(value, "detach") else value))
    dtype = p.dtype if value.dtype.kind == "f" and p.dtype.kind == "f" else value.dtype
    new = value.detach().to(p.device, dtype)
    _core.evaluate(new)
    return new


def load_state_dict(optimizer, given):
    """See Optimizer.load_state_dict."""
    who = f"{type(optimizer).__name__}.load_state_dict"
    if not isinstance(given, dict) or not {"state", "param_groups"} <= set(given):
        raise ValueError(f"{who}: takes a dictionary with 'state' and 'param_groups', as state_dict() gives it")
    groups, theirs = optimizer.param_groups, given["param_groups"]
    if len(groups) != len(theirs):
        raise ValueError(f"{who}: the dictionary has {len(theirs)} parameter groups, the optimizer {len(groups)}; nothing was changed")
    places = {}
    for k, (group, other) in enumerate(zip(groups, theirs)):
        if len(group["params"]) != len(other["params"]):
            raise ValueError(
                f"{who}: group {k} has {len(other['params'])} parameters in the dictionary, {len(group['params'])} in the optimizer; nothing was changed"
            )
        places.update(zip(other["params"], group["params"]))
    state, problems = {}, []
    for key, s in given["state"].items():
        key = int(key) if isinstance(key, str) and key.isdigit() else key
        if key not in places:
            problems.append(f"state for parameter {key}, which is in no group")
            continue
        p = places[key]
        new = {}
        for name, value in s.items():
            shape = tuple(getattr(value, "shape", ()))
            size = 1
            for n in shape:
                size *= n
            if name in optimizer.numbers:
                new[name] = value.item() if hasattr(value, "item") else value
                if name == "step":
                    new[name] = int(new[name])
            elif hasattr(value, "shape") and name not in optimizer.shapeless and shape != p.shape:
                problems.append(f"{name} of {optimizer.name_of(p)} has shape {shape}, the parameter {p.shape}")
            else:
                new[name] = _unpacked(value, p)
        state[p] = new
    if problems:
        raise ValueError(f"{who}: nothing was changed: {'; '.join(problems)}")
    fresh = []
    for group, other in zip(groups, theirs):
        options = {k: _copy.copy(v) for k, v in other.items() if k not in ("params", "param_names")}
        merged = {**group, **options}
        optimizer.check(merged)
        fresh.append(merged)
    for group, merged in zip(groups, fresh):
        group.update(merged)
    optimizer.state = defaultdict(dict, state)
