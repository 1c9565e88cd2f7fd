"""Ops of one's own with gradients of one's own; hooks on saved values; anomaly detection."""

from __future__ import annotations

import functools

from tensorx import _core
from tensorx._core import Node, Output, Tensor
from tensorx.autograd.modes import no_grad
from tensorx.autograd.tape import site_text, sum_to
from tensorx.autograd.writes import is_leaf_value, rebase
from tensorx.errors import DeviceMismatchError, GradientError, InplaceError

__all__ = ["Function", "detect_anomaly", "once_differentiable", "saved_tensors_hooks", "set_detect_anomaly"]

_MODE = _core._grad_mode


class Context:
    """What ``forward`` leaves for ``backward``; further attributes may be set freely."""

    _to_save = ()
    _saved = ()
    _dirty = ()
    _constant = ()
    _materialize = True
    _node = None
    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keeps tensors (or None): inputs, outputs or others. They must not be written afterwards: backward checks it."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise GradientError(f"save_for_backward: takes tensors, got {type(t).__name__}; set other values as attributes of ctx")
        self._to_save = tensors

    @property
    def saved_tensors(self):
        """The kept tensors, in backward."""
        if self._node is None and self._to_save:
            return self._to_save
        create = _MODE.get()
        return tuple(None if s is None else s.get(self._node, create) for s in self._saved)

    def mark_dirty(self, *tensors):
        """Says that forward wrote these inputs in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Says that these outputs have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value):
        """Whether backward gets zeros (the default) or None for an output that nothing depends on."""
        self._materialize = bool(value)


class Function:
    """A differentiable op with static methods ``forward`` and ``backward``; call it by ``apply``.

    forward(ctx, *args) computes one tensor or a tuple; nothing in it is recorded. backward(ctx, *gradients) gets one gradient
    per output and returns one per argument of forward (None for what is no tensor or needs none); written with tensor ops, it
    can be differentiated in turn. With a ``setup_context(ctx, inputs, output)``, forward takes no ctx.

    >>> import tensorx as tx
    >>> class Cube(tx.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3.0 * x * x
    >>> x = tx.asarray([2.0]).requires_grad_()
    >>> Cube.apply(x).backward()
    >>> x.grad.tolist()
    [12.0]
    """

    @staticmethod
    def forward(*args, **kwargs):
        raise TypeError("Function: forward(ctx, ...) is to be defined by the subclass as a static method")

    @staticmethod
    def backward(ctx, *gradients):
        raise TypeError("Function: backward(ctx, *gradients) is to be defined by the subclass as a static method")

    setup_context = None

    @classmethod
    def apply(cls, *args):
        """Runs forward and records the op where an argument requires grad."""
        recording = _MODE.get()
        needs = tuple(recording and isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx = Context()
        ctx.needs_input_grad = needs
        node = None
        if any(needs):
            targets = tuple(_core.edge(a) if n else None for a, n in zip(args, needs))
            ctx._arguments = tuple((a.shape, a.dtype, a.device) if n else None for a, n in zip(args, needs))
            node = Node(cls.__name__, targets, _function_backward, ctx)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        several = isinstance(result, (tuple, list))
        outs = list(result) if several else [result]
        ctx._function = cls
        outs = _outputs(cls.__name__, ctx, node, args, outs)
        if node is None:
            ctx._to_save = ()
        else:
            _keep(ctx, node, args, outs)
        return tuple(outs) if several else outs[0]


def _outputs(name, ctx, node, args, outs):
    """Gives the outputs of a Function their history."""
    dirty, constant = ctx._dirty, ctx._constant
    for t in dirty:
        if not any(t is o for o in outs):
            raise GradientError(f"{name}: an input of shape {t.shape} is marked dirty and must be returned by forward")
        if node is not None and t.requires_grad and is_leaf_value(t):
            raise InplaceError(f"{name}: wrote in place to a leaf that requires grad (shape {t.shape}); give it a computed value, such as a copy()")
    if node is not None:
        node.set_outputs(len(outs))
        ctx._likes = [None if not isinstance(o, Tensor) else (o.shape, o.dtype, o.device) for o in outs]
    for i, o in enumerate(outs):
        if not isinstance(o, Tensor):
            continue
        if any(o is t for t in dirty):
            if node is not None:
                rebase(o, Output(node, i) if i else node)
            continue
        if any(o is a for a in args) or any(o is p for p in outs[:i]) or _shares(o, args):
            o = outs[i] = o.detach().copy()  # written later, it would change the argument without a record
        if node is None:
            continue
        if o.requires_grad:
            o = outs[i] = o.detach()
        if o.dtype.kind in "fc" and not any(o is t for t in constant):
            _core.attach(o, Output(node, i) if i else node)
    return outs


def _shares(o, args):
    if _core.is_pending(o):
        return False
    return any(isinstance(a, Tensor) and not _core.is_pending(a) and _core.shares_storage(a, o) for a in args)


def _keep(ctx, node, args, outs):
    """Turns what forward saved into kept values; outputs without a cycle."""
    saved = []
    for t in ctx._to_save:
        if t is None:
            saved.append(None)
            continue
        at = next((i for i, o in enumerate(outs) if o is t), None)
        if at is None:
            saved.append(_core.save(t, "a tensor"))
        else:
            saved.append(_core.save_out(t, at))
    ctx._saved = tuple(saved)
    ctx._to_save = ()
    node.checks = tuple(s for s in saved if s is not None)


def _function_backward(node, g):
    ctx = node.saved
    name = node.name
    gradients = list(g) if node.outputs > 1 else [g]
    if ctx._materialize:
        for i, like in enumerate(ctx._likes):
            if gradients[i] is None and like is not None:
                gradients[i] = _core.full_like_scalar(like[0], 0, like[1], like[2].number)
    ctx._node = node
    try:
        result = ctx._function.backward(ctx, *gradients)
    finally:
        ctx._node = None
    result = result if isinstance(result, (tuple, list)) else (result,)
    needs = ctx.needs_input_grad
    if len(result) < len(needs) or any(r is not None for r in result[len(needs) :]):
        raise GradientError(
            f"{name}: backward returned {len(result)} gradient{'s' if len(result) != 1 else ''} for the {len(needs)} arguments of forward "
            f"({site_text(node.site)}): return one per argument, None for what needs none"
        )
    return tuple(_checked(name, k, r, like) if n else None for k, (r, n, like) in enumerate(zip(result, needs, ctx._arguments)))


def _checked(name, k, g, like):
    """A gradient that backward returned: a fresh handle of the argument's shape, dtype and device."""
    if g is None:
        return None
    shape, dtype, device = like
    if not isinstance(g, Tensor):
        raise GradientError(f"{name}: backward returned {type(g).__name__} as the gradient of argument {k + 1}; a tensor or None is needed")
    if g.device is not device:
        raise DeviceMismatchError(f"{name}: backward returned a gradient on {g.device} for argument {k + 1}, which is on {device}; move it with .to()")
    if g.shape != shape:
        lead = g.ndim - len(shape)
        if lead < 0 or any(s not in (1, n) for s, n in zip(shape, g.shape[lead:])):
            raise GradientError(f"{name}: backward returned a gradient of shape {g.shape} for argument {k + 1} of shape {shape}")
        g = sum_to(g, shape)
    if g.dtype is not dtype:
        g = _core.hooks.match(g, shape, dtype)
    return g.alias() if _MODE.get() else g.detach()


def once_differentiable(backward):
    """Decorator for a ``backward`` that is not made of tensor ops: differentiating it again is an error instead of wrong.

    >>> import tensorx as tx
    >>> class Double(tx.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x + x
    ...     @staticmethod
    ...     @tx.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         return g + g
    """

    @functools.wraps(backward)
    def wrapped(ctx, *gradients):
        create = _MODE.get()
        with no_grad():
            result = backward(ctx, *gradients)
        if not create:
            return result
        several = isinstance(result, (tuple, list))
        out = []
        for g in result if several else (result,):
            if isinstance(g, Tensor):
                g = g.detach()
                _core.attach(g, Node(f"backward of {ctx._function.__name__}", ctx._node.targets, _refuse))
            out.append(g)
        return tuple(out) if several else out[0]

    return wrapped


def _refuse(node, g):
    raise GradientError(f"backward: {node.name} is marked once_differentiable and cannot be differentiated again")


# ---- saved values --------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """In the block, what is saved for backward is handed to ``pack(tensor)``; its result is kept instead, and
    ``unpack(result)`` gives the tensor when backward needs it.

    >>> import tensorx as tx
    >>> x = tx.ones(2).requires_grad_()
    >>> with tx.autograd.saved_tensors_hooks(lambda t: t.tolist(), lambda v: tx.asarray(v)):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """

    def __init__(self, pack, unpack):
        self._hooks = (pack, unpack)
        self._tokens = []

    def __enter__(self):
        self._tokens.append(_core._pack_hooks.set(self._hooks))
        _core.packing(1)
        return self

    def __exit__(self, *exc):
        _core.packing(-1)
        _core._pack_hooks.reset(self._tokens.pop())


# ---- anomalies ---------------------------------------------------------------------------------------------


class detect_anomaly:
    """In the block, backward looks at each gradient and raises GradientError at the first op that gives NaN, naming the line
    where the op was called. Slow.

    >>> import tensorx as tx
    >>> x = tx.asarray([0.0]).requires_grad_()
    >>> with tx.autograd.detect_anomaly():
    ...     (x * 2.0).sum().backward()
    """

    def __init__(self, mode=True):
        self._mode = bool(mode)
        self._before = []

    def __enter__(self):
        self._before.append(_core.set_anomaly(self._mode))
        return self

    def __exit__(self, *exc):
        _core.set_anomaly(self._before.pop())


def set_detect_anomaly(mode):
    """Turns the search for NaN in gradients on or off for the whole process; see :class:`detect_anomaly`.

    >>> import tensorx as tx
    >>> tx.autograd.set_detect_anomaly(True)
    >>> tx.autograd.set_detect_anomaly(False)
    """
    _core.set_anomaly(bool(mode))
