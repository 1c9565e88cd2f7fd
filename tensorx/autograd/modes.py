"""Whether operations are recorded. The modes are local to the context (thread or task)."""

from __future__ import annotations

import functools

from tensorx import _core

_MODE = _core._grad_mode


class _Mode:
    """A context manager that is also a decorator."""

    _value = True

    def __init__(self):
        self._tokens = []

    def __enter__(self):
        self._tokens.append(_MODE.set(self._value))
        return self

    def __exit__(self, *exc):
        _MODE.reset(self._tokens.pop())

    def __call__(self, function):
        cls = type(self)
        value = self._value

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            mode = cls.__new__(cls)
            mode._tokens, mode._value = [], value
            with mode:
                return function(*args, **kwargs)

        return wrapped


class no_grad(_Mode):
    """No operation of the block is recorded: ``with tx.no_grad():`` or ``@tx.no_grad()``.

    >>> import tensorx as tx
    >>> w = tx.tensor([1.0], requires_grad=True)
    >>> with tx.no_grad():
    ...     y = w * 2.0
    >>> y.requires_grad
    False
    """

    _value = False


class enable_grad(_Mode):
    """Operations of the block are recorded, also inside ``no_grad``.

    >>> import tensorx as tx
    >>> w = tx.ones(2).requires_grad_()
    >>> with tx.no_grad(), tx.enable_grad():
    ...     (w * 2.0).requires_grad
    True
    """

    _value = True


class inference_mode(_Mode):
    """The same as :class:`no_grad`, or with ``mode=False`` the same as :class:`enable_grad`.

    Tensors made in it are ordinary: they can be trained afterwards.

    >>> import tensorx as tx
    >>> w = tx.ones(2).requires_grad_()
    >>> with tx.inference_mode():
    ...     (w * 2.0).requires_grad
    False
    """

    def __init__(self, mode=True):
        super().__init__()
        self._value = not mode


class set_grad_enabled(_Mode):
    """Turns recording on or off: as a statement from now on in this context, or for a ``with`` block.

    >>> import tensorx as tx
    >>> with tx.set_grad_enabled(False):
    ...     tx.is_grad_enabled()
    False
    """

    def __init__(self, mode):
        super().__init__()
        self._value = bool(mode)
        self._before = _MODE.get()
        _MODE.set(self._value)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        _MODE.set(self._before)


def is_grad_enabled():
    """Whether operations are recorded here.

    >>> is_grad_enabled()
    True
    """
    return _MODE.get()
