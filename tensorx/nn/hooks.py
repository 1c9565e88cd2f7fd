"""Hooks of modules: functions that see, and may replace, what goes in and out."""

from __future__ import annotations

from tensorx._core import Tensor
from tensorx.autograd.function import Function
from tensorx.autograd.modes import is_grad_enabled

everywhere = []  # of register_module_forward_hook: (function, ...) entries for all modules


class Hooks:
    """The hooks of one module."""

    def __init__(self):
        self.before, self.after, self.before_backward, self.backward = [], [], [], []
        self.saved, self.loading, self.loaded = [], [], []


class Handle:
    """Removes a hook: ``handle.remove()``, or leaving a with block."""

    def __init__(self, entries, function, prepend=False, with_kwargs=False, always=False):
        self._entries, self._entry = entries, (function, with_kwargs, always)
        entries.insert(0 if prepend else len(entries), self._entry)

    def remove(self):
        """Takes the hook away; more than once does no harm."""
        for k, entry in enumerate(self._entries):
            if entry is self._entry:
                del self._entries[k]
                return

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


class _Passage(Function):
    """Values pass unchanged; their gradients come together, so that a hook sees them at once."""

    @staticmethod
    def forward(ctx, hook, *values):
        ctx.hook = hook
        return tuple(v.alias() for v in values)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.hook(grads))


def _tensors(value, found):
    """The tensors in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for v in value:
            _tensors(v, found)
    elif isinstance(value, dict):
        for v in value.values():
            _tensors(v, found)
    return found


def _replaced(value, new):
    """value with its tensors replaced, in the order of _tensors, by those of the iterator new."""
    if isinstance(value, Tensor):
        return next(new)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_replaced(v, new) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_replaced(v, new) for v in value)
    if isinstance(value, dict):
        return {k: _replaced(v, new) for k, v in value.items()}
    return value


def _through(hook, value):
    found = _tensors(value, [])
    tracked = [t for t in found if t.requires_grad]
    if not tracked:
        return value
    passed = iter(_Passage.apply(hook, *tracked))
    return _replaced(value, iter([next(passed) if t.requires_grad else t for t in found]))


def _as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


def call(module, args, kwargs):
    """The call of a module with hooks."""
    hooks = module._hooks or Hooks()
    for function, with_kwargs, _ in tuple(hooks.before):
        if with_kwargs:
            new = function(module, args, kwargs)
            if new is not None:
                args, kwargs = new
        else:
            new = function(module, args)
            if new is not None:
                args = _as_tuple(new)
    seen = {}
    backward = is_grad_enabled() and (hooks.backward or hooks.before_backward)
    if backward:

        def on_input(grads):
            for function, _, _ in tuple(hooks.backward):
                new = function(module, grads, seen.get("out", ()))
                if new is not None:
                    grads = _as_tuple(new)
            return grads

        def on_output(grads):
            for function, _, _ in tuple(hooks.before_backward):
                new = function(module, grads)
                if new is not None:
                    grads = _as_tuple(new)
            seen["out"] = grads
            if not tracked_input:
                on_input(())
            return grads

        tracked_input = any(t.requires_grad for t in _tensors(args, []))
        args = _through(on_input, args)
    try:
        out = module.forward(*args, **kwargs)
    except BaseException:
        for function, with_kwargs, always in tuple(hooks.after):
            if always:
                function(module, args, kwargs, None) if with_kwargs else function(module, args, None)
        raise
    for function, with_kwargs, _ in (*everywhere, *tuple(hooks.after)):
        new = function(module, args, kwargs, out) if with_kwargs else function(module, args, out)
        if new is not None:
            out = new
    return _through(on_output, out) if backward else out


def register_module_forward_hook(hook, *, with_kwargs=False):
    """Calls ``hook(module, args, output)`` after the forward of every module; returns a handle with ``remove()``."""
    return Handle(everywhere, hook, False, with_kwargs)
