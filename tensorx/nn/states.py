"""state_dict, load_state_dict and summary of modules."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensorx import _core
from tensorx._core import Tensor
from tensorx.errors import ShapeError
from tensorx.nn.parameter import Parameter
from tensorx.ops.creation import asarray


class IncompatibleKeys(NamedTuple):
    """What load_state_dict did not find, and what it found and does not know."""

    missing_keys: list
    unexpected_keys: list


_SAVED = ("parameter", "buffer")


def _walk(module, prefix):
    """(prefix, module) in the order of a state_dict; shared modules come under each of their names."""
    for path, inner in module.named_modules(prefix=prefix.rstrip("."), remove_duplicate=False):
        yield (path + "." if path else ""), inner


def _entries(module, kind):
    return [(name, value) for name, value in module._own(kind)]


def state_dict(module, prefix, copy, keep_vars):
    """See Module.state_dict."""
    found = {}
    copies: dict[int, Any] = {}
    for path, inner in _walk(module, prefix):
        for kind in _SAVED:
            for name, value in _entries(inner, kind):
                if keep_vars:
                    found[path + name] = value
                elif not copy:
                    found[path + name] = value.detach()
                else:
                    if id(value) not in copies:
                        copies[id(value)] = value.detach().copy()
                    found[path + name] = copies[id(value)]
        extra = getattr(inner, "get_extra_state", None)
        if extra is not None:
            found[path + "_extra_state"] = extra()
        if inner._hooks is not None:
            for function, _, _ in inner._hooks.saved:
                new = function(inner, found, path)
                found = found if new is None else new
    return found


def _shape(value):
    return tuple(value.shape) if hasattr(value, "shape") else None


def _fits(target, value):
    """None where value can be written into target, else why not."""
    if not isinstance(value, Tensor) and not hasattr(value, "__array__") and not isinstance(value, (int, float, bool)):
        return f"a {type(value).__name__} is no tensor"
    return None


def load_state_dict(module, given, strict, assign):
    """See Module.load_state_dict."""
    if not hasattr(given, "keys"):
        raise TypeError(f"load_state_dict: takes a dictionary of tensors, got {type(given).__name__}")
    name = type(module).__name__
    given = dict(given)
    walked = list(_walk(module, ""))
    for path, inner in walked:
        if inner._hooks is not None:
            for function, _, _ in inner._hooks.loading:
                function(inner, given, path)
    places = {}
    extras = {}
    for path, inner in walked:
        for kind in _SAVED:
            for key, target in _entries(inner, kind):
                places[path + key] = inner, key, target
        if hasattr(inner, "set_extra_state"):
            extras[path + "_extra_state"] = inner
    missing = [k for k in (*places, *extras) if k not in given]
    unexpected = [k for k in given if k not in places and k not in extras]
    problems, values = [], {}
    for key, (inner, own, target) in places.items():
        if key not in given:
            continue
        value = given[key]
        why = _fits(target, value)
        if why is None:
            if not isinstance(value, Tensor):
                value = asarray(value)
            lazy = own in getattr(inner, "_uninitialized", ())
            if value.shape != target.shape and not lazy:
                why = f"the value has shape {value.shape}, the {name} needs {target.shape}"
            elif "buif".find(_kind(value)) > "buif".find(_kind(target)) and _kind(value) != _kind(target):
                why = f"{value.dtype.name} values do not fit into {target.dtype.name}"
        if why is None:
            values[key] = value.detach()
        else:
            problems.append(f"{key}: {why}")
    if problems or (strict and (missing or unexpected)):
        lines = [f"load_state_dict: the values do not fit {name}; nothing was changed"]
        if missing and strict:
            lines.append(f"  missing keys: {', '.join(missing)}")
        if unexpected and strict:
            lines.append(f"  unexpected keys: {', '.join(map(str, unexpected))}")
        lines += [f"  {p}" for p in problems]
        text = "\n".join(lines)
        raise ShapeError(text) if problems else MissingKeysError(text)
    _write(places, values, assign)
    for key, inner in extras.items():
        if key in given:
            inner.set_extra_state(given[key])
    result = IncompatibleKeys(missing, unexpected)
    for _, inner in walked:
        if inner._hooks is not None:
            for function, _, _ in inner._hooks.loaded:
                function(inner, result)
    return result


class MissingKeysError(KeyError):
    """Keys of a state_dict are missing or unknown."""

    def __str__(self):
        return self.args[0]


def _kind(t):
    kind = t.dtype.kind
    return "f" if kind == "c" else kind


def _write(places, values, assign):
    token = _core._grad_mode.set(False)
    try:
        for key, value in values.items():
            inner, own, target = places[key]
            if own in getattr(inner, "_uninitialized", ()):
                inner._materialize(own, value.shape)
                target = inner.__dict__[own]
            if assign:
                flag = target.requires_grad
                inner.__dict__[own] = Parameter(value, flag) if isinstance(target, Parameter) else value
                continue
            if value.device is not target.device:
                value = value.to(target.device)
            target.copy_(value)
    finally:
        _core._grad_mode.reset(token)


class Summary:
    """The table that ``print(module.summary())`` shows; ``rows`` holds its lines as dictionaries."""

    def __init__(self, module):
        self.name = type(module).__name__
        self.rows = []
        self.parameters = list(module.parameters())
        self.buffers = list(module.buffers())
        for name, t in (*module.named_parameters(), *module.named_buffers()):
            self.rows.append({"name": name, "shape": t.shape, "dtype": t.dtype.name, "device": str(t.device),
                              "requires_grad": t.requires_grad, "is_leaf": t.is_leaf})  # fmt: skip

    @property
    def total(self):
        """Elements of all parameters."""
        return sum(p.size for p in self.parameters)

    @property
    def trained(self):
        """Elements of parameters that require grad."""
        return sum(p.size for p in self.parameters if p.requires_grad)

    def __str__(self):
        heads = ("name", "shape", "dtype", "device", "requires_grad", "is_leaf")
        table = [heads, *(tuple(str(row[h]) for h in heads) for row in self.rows)]
        widths = [max(len(line[k]) for line in table) for k in range(len(heads))]
        lines = [self.name, *("  ".join(t.ljust(w) for t, w in zip(line, widths)).rstrip() for line in table)]
        nbytes = sum(p.nbytes for p in self.parameters)
        n = len(self.buffers)
        lines.append(f"{len(self.parameters)} parameters with {self.total:,} elements ({nbytes:,} bytes), {self.trained:,} of them trained; "
                     f"{n} buffer{'' if n == 1 else 's'}")  # fmt: skip
        return "\n".join(lines)

    __repr__ = __str__


