"""Less memory for more time: values are computed again in backward instead of being kept."""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Node, Tensor
from tensorx.autograd.function import saved_tensors_hooks
from tensorx.autograd.modes import enable_grad
from tensorx.autograd.tape import site_text
from tensorx.errors import GradientError

__all__ = ["checkpoint", "checkpoint_sequential", "preserve_state"]

_states = []


def preserve_state(get, set):
    """Registers state that functions may change, such as that of a random generator: ``get()`` is called before a
    checkpointed function runs, and when it runs again ``set(state)`` gives it what it had the first time, and back. Returns a function that takes
    the registration back.

    >>> import tensorx as tx
    >>> counter = [0]
    >>> forget = tx.autograd.preserve_state(lambda: counter[0], lambda state: counter.__setitem__(0, state))
    >>> forget()
    """
    pair = (get, set)
    _states.append(pair)
    return lambda: _states.remove(pair)


class _Region:
    """One call of checkpoint: how to compute again what its ops saved."""

    def __init__(self, function, args, kwargs):
        self.function = function
        self.args = [_keep(a) for a in args]
        self.kwargs = {k: _keep(v) for k, v in kwargs.items()}
        self.count = 0
        self.values = {}
        self.site = _core.call_site()
        self.states = [get() for get, _ in _states]

    def pack(self, tensor):
        self.count += 1
        return self.count - 1

    def unpack(self, number):
        if number not in self.values:
            self._compute()
        return self.values.pop(number)

    def _compute(self):
        values = []

        def collect(tensor):
            values.append(tensor)

        def refuse(_):
            raise GradientError("checkpoint: a value of the function was needed while the function is computed again")

        args = [self._again(a) for a in self.args]
        kwargs = {k: self._again(v) for k, v in self.kwargs.items()}
        after = [get() for get, _ in _states]
        for (_, set), state in zip(_states, self.states):
            set(state)
        try:
            with enable_grad(), saved_tensors_hooks(collect, refuse):
                self.function(*args, **kwargs)
        finally:
            for (_, set), state in zip(_states, after):
                set(state)
        if len(values) != self.count:
            raise GradientError(
                f"checkpoint: computed again, the function saved {len(values)} values instead of {self.count} (called at {site_text(self.site)}); "
                "it must do the same both times"
            )
        self.values = dict(enumerate(values))

    def _again(self, kept):
        if not isinstance(kept, _Argument):
            return kept
        value = kept.value
        if value.version != value.current_version:
            raise GradientError(
                f"checkpoint: an argument was written since the call at {site_text(self.site)} (version {value.version}, now "
                f"{value.current_version}); the function cannot be computed again: give it a copy()"
            )
        t = value.unpack()
        if kept.requires_grad:
            _core.attach(t, Node("argument", (None,), _nothing))
        return t


class _Argument:
    __slots__ = ("requires_grad", "value")

    def __init__(self, t):
        self.value, self.requires_grad = _core.save(t, "an argument"), t.requires_grad


def _keep(a):
    return _Argument(a) if isinstance(a, Tensor) else a


def _nothing(node, g):
    return (None,)


def checkpoint(function, *args, **kwargs):
    """``function(*args, **kwargs)``, whose intermediate values are not kept for backward but computed again by it.

    Tensors among args and what the function closes over get their gradients as without checkpoint. The function must compute
    the same both times, and its tensor arguments must not be written before backward (GradientError then).

    >>> import tensorx as tx
    >>> x = tx.ones(2).requires_grad_()
    >>> tx.autograd.checkpoint(lambda t: (t * t).exp().sum(), x).backward()
    >>> [round(v, 3) for v in x.grad.tolist()]
    [5.437, 5.437]
    """
    if not _core._grad_mode.get():
        return function(*args, **kwargs)
    region = _Region(function, args, kwargs)
    with saved_tensors_hooks(region.pack, region.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(functions, segments, x):
    """Applies functions one after the other, in so many checkpointed segments; the last one keeps its values.

    >>> import tensorx as tx
    >>> checkpoint_sequential([tx.exp, tx.sin, tx.tanh], 2, tx.zeros(1)).shape
    (1,)
    """
    functions = list(functions)
    if not 1 <= segments <= len(functions):
        raise ValueError(f"checkpoint_sequential: {segments} segments of {len(functions)} functions")
    size = -(-len(functions) // segments)

    def run(part, x):
        for f in part:
            x = f(x)
        return x

    for start in range(0, len(functions), size):
        part = functions[start : start + size]
        last = start + size >= len(functions)
        x = run(part, x) if last else checkpoint(lambda t, part=part: run(part, t), x)
    return x
