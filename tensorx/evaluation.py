"""When values are computed: deferral and threads.

>>> import tensorx as tx
>>> with tx.deferred(False):            # every op is computed at its call
...     y = tx.ones(2) + 1.0
"""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.errors import DTypeError

__all__ = ["deferred", "eval", "get_num_threads", "may_overlap", "set_deferred", "set_num_threads", "shares_storage", "synchronize"]


def _collect(o, flat):
    # Not a closure: one that calls itself is a cycle, and would keep the tensors alive.
    if isinstance(o, Tensor):
        flat.append(o)
    elif isinstance(o, dict):
        for v in o.values():
            _collect(v, flat)
    elif isinstance(o, (list, tuple)):
        for v in o:
            _collect(v, flat)
    elif o is not None:
        raise DTypeError(f"eval: expected tensors or containers of them, got {type(o).__name__}")


def eval(*tensors):
    """Computes pending tensors now (nested lists, tuples and dicts of them too); without arguments everything pending.

    >>> import tensorx as tx
    >>> x = tx.ones(3) * 2.0
    >>> tx.eval(x)
    """
    if not tensors:
        _core.evaluate()
        return
    flat = []
    _collect(tensors, flat)
    if flat:
        _core.evaluate(*flat)


def synchronize(device=None):
    """Computes everything pending and waits until the devices have finished (all, or one).

    >>> import tensorx as tx
    >>> x = tx.ones(3) * 2.0
    >>> tx.synchronize()
    """
    from tensorx.device import device as find
    from tensorx.device import opened

    _core.evaluate()
    for d in opened() if device is None else [find(device)]:
        if d.backend is not None:
            d.backend.synchronize()


class deferred:
    """``with tx.deferred(False):`` computes every op of the block at its call; True defers again. Context-local.

    >>> import tensorx as tx
    >>> with tx.deferred(False):
    ...     y = tx.ones(2) + 1.0
    >>> y.tolist()
    [2.0, 2.0]
    """

    def __init__(self, flag=True):
        self._flag = bool(flag)
        self._tokens = []

    def __enter__(self):
        _core.may_be_eager()
        if not self._flag:
            _core.evaluate()
        self._tokens.append(_core._deferred_mode.set(self._flag))
        return self

    def __exit__(self, *exc):
        _core._deferred_mode.reset(self._tokens.pop())


def set_deferred(flag):
    """Turns deferral on or off in this context (thread or task).

    >>> import contextvars
    >>> import tensorx as tx
    >>> contextvars.copy_context().run(tx.set_deferred, False)  # off in a context of its own
    """
    _core.may_be_eager()
    if not flag:
        _core.evaluate()
    _core._deferred_mode.set(bool(flag))


def set_num_threads(n):
    """Number of threads that share one evaluation, this one included. Results do not depend on it.

    >>> import tensorx as tx
    >>> n = tx.get_num_threads()
    >>> tx.set_num_threads(1)
    >>> tx.get_num_threads()
    1
    >>> tx.set_num_threads(n)
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"set_num_threads: needs a positive int, got {n!r}")
    _core.set_num_threads(n)


def get_num_threads():
    """Number of threads that share one evaluation.

    >>> get_num_threads() >= 1
    True
    """
    return _core.num_threads()


def shares_storage(a, b):
    """Whether two tensors lie on one storage (aliases, views), so that writes to one may be seen by the other.

    >>> import tensorx as tx
    >>> x = tx.ones(3)
    >>> shares_storage(x, x[1:]), shares_storage(x, x.copy())
    (True, False)
    """
    return _core.shares_storage(a, b)


def may_overlap(a, b):
    """Whether two tensors have a byte in common: exact for strided views, True in the rare undecided case.

    >>> import tensorx as tx
    >>> x = tx.ones((4, 2))
    >>> may_overlap(x[:, 0], x[:, 1]), may_overlap(x[:2], x[1:])
    (False, True)
    """
    return _core.may_overlap(a, b)
