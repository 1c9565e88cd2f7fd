"""Gradients of tensors: ``backward``, ``grad`` and what belongs to a tensor that requires grad."""

from __future__ import annotations

import builtins
import inspect
import sys

from tensorx import _core
from tensorx._core import Meta, Output, Tensor
from tensorx.autograd.tape import check_gradient
from tensorx.autograd.writes import watch
from tensorx.errors import DeviceMismatchError, GradientError

__all__ = ["backward", "grad"]


# ---- which tensors require grad ---------------------------------------------------------------


def _set_requires_grad(x, value):
    """The setter of x.requires_grad."""
    if value:
        if x.requires_grad:
            return
        if x.dtype.kind not in "fc":
            raise GradientError(f"requires_grad: only floating-point and complex tensors have gradients, this one is {x.dtype.name}")
        m = x._meta
        if m is None or not m.leaf:
            _core.new_leaf(x)
        x._rg = True
    elif x.requires_grad:
        if not is_leaf(x):
            raise GradientError("requires_grad: only of leaves it can be turned off; use x.detach() for a value without history")
        x._rg = False


def requires_grad_(self, requires_grad=True, /):
    """Says whether gradients are computed with respect to this leaf; returns it.

    GradientError for other than floating-point and complex dtypes, and where it is turned off for a computed value.

    >>> import tensorx as tx
    >>> tx.ones(2).requires_grad_().requires_grad
    True
    """
    self.requires_grad = requires_grad
    return self


def is_leaf(self):
    """Whether the tensor was not computed from others that require grad: only leaves get a ``grad`` by themselves."""
    if not self.requires_grad:
        return True
    m = self._meta
    return m is None or (m.leaf and m.base is None)


def grad_fn(self):
    """What computed the tensor, or None for leaves."""
    target = _core.edge(self)
    if isinstance(target, Output):
        return target.node
    return None if isinstance(target, Meta) else target


def _get_grad(self):
    """The gradient that ``backward`` has added up, or None. Of the tensor's shape, dtype and device.

    Kept for leaves, and for computed values after ``retain_grad()``. Assigning None clears it.
    """
    m = self._meta
    return None if m is None else m.grad


def _set_grad(self, value):
    if value is not None:
        if not isinstance(value, Tensor):
            raise GradientError(f"grad: must be a tensor or None, got {type(value).__name__}")
        if value.shape != self.shape or value.dtype is not self.dtype:
            raise GradientError(f"grad: shape {value.shape} and {value.dtype.name} for a tensor of shape {self.shape} and {self.dtype.name}")
        if value.device is not self.device:
            raise DeviceMismatchError(f"grad: the gradient is on {value.device}, the tensor on {self.device}; move it with .to({str(self.device)!r})")
    m = self._meta
    if m is None or not (m.leaf or self.requires_grad):
        if value is None:
            return
        m = _core.new_leaf(self)
    m.grad = value


def retain_grad(self):
    """Keeps the gradient of a computed value in ``grad``, as leaves do.

    >>> import tensorx as tx
    >>> w = tx.ones(2).requires_grad_()
    >>> y = w * 3.0
    >>> y.retain_grad()
    >>> y.sum().backward()
    >>> y.grad.tolist()
    [1.0, 1.0]
    """
    if not self.requires_grad:
        raise GradientError("retain_grad: the tensor does not require grad")
    if is_leaf(self):
        return
    m = self._meta
    m.retain = True
    if _core.edge(self) is not None:
        watch(m)


class _Handle:
    """Removes a hook: ``handle.remove()``, or leaving a with block."""

    def __init__(self, functions, f):
        self._functions, self._f = functions, f

    def remove(self):
        if self._f in self._functions:
            self._functions.remove(self._f)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def register_hook(self, hook, /):
    """Calls ``hook(gradient)`` whenever the gradient of this tensor has been computed; a tensor that it returns takes its
    place. Returns a handle with ``remove()``. The hook must not write to its gradient.

    >>> import tensorx as tx
    >>> w = tx.ones(2).requires_grad_()
    >>> handle = w.register_hook(lambda g: g * 10.0)
    >>> (w * 2.0).sum().backward()
    >>> w.grad.tolist()
    [20.0, 20.0]
    """
    if not self.requires_grad:
        raise GradientError("register_hook: the tensor does not require grad")
    target = _core.edge(self)
    if isinstance(target, Meta):
        if target.hooks is None:
            target.hooks = []
        functions = target.hooks
    elif target is None:
        functions = []
    else:
        node, index = (target.node, target.index) if isinstance(target, Output) else (target, 0)
        if node.hooks is None:
            node.hooks = {}
        functions = node.hooks.setdefault(index, [])
    functions.append(hook)
    return _Handle(functions, hook)


def detach_(self):
    """Forgets the history of this handle and its aliases: the tensor becomes a leaf that requires no grad. Returns it.

    Not for views of a value with a history: what they share would lose it, too.
    """
    if not self.requires_grad:
        return self
    m = self._meta
    if m is not None and m.base is not None:
        raise GradientError("detach_: the tensor is a view of a value with a history; use detach()")
    self._meta = Meta()
    self._rg = False
    return self


# ---- backward ------------------------------------------------------------------------------------


def _roots(op, tensors, gradients, create_graph):
    """Targets and gradients to start with; without create_graph these are constants."""
    targets, grads = [], []
    for x, g in zip(tensors, gradients):
        if not isinstance(x, Tensor):
            raise GradientError(f"{op}: expected tensors, got {type(x).__name__}")
        if not x.requires_grad:
            raise GradientError(_untracked_text(op, x))
        if g is None:
            if x.size != 1:
                raise GradientError(
                    f"{op}: the result has shape {x.shape}; a gradient can be left out only for one element: reduce it first (x.sum(), x.mean()) "
                    f"or give a gradient of that shape"
                )
            g = _core.full_like_scalar(x.shape, 1, x.dtype, x.device.number)
        else:
            g = check_gradient(op, g if create_graph else g.detach() if isinstance(g, Tensor) else g, x)
        targets.append(_core.edge(x))
        grads.append(g)
    return targets, grads


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradient of this tensor with respect to each leaf that requires grad to the leaf's ``grad``.

    Parameters
    ----------
    gradient : Tensor, optional
        Gradient with respect to this tensor, of its shape; may be left out for one element (then it is 1).
    retain_graph : bool, optional
        Keep the saved values, so that another backward can follow. By default they go as backward passes them (kept with
        create_graph).
    create_graph : bool
        Record the computation of the gradients, so that they can be differentiated.
    inputs : sequence of tensors, optional
        Only these get a gradient.

    Raises
    ------
    GradientError
        The tensor has no history; a saved value was written since; the graph was freed by an earlier backward. No gradient
        changes then.

    Examples
    --------
    >>> import tensorx as tx
    >>> w = tx.asarray([2.0, 3.0]).requires_grad_()
    >>> (w * w).sum().backward()
    >>> w.grad.tolist()
    [4.0, 6.0]
    """
    if gradient is not None or inputs is not None or not _core.backward_one(self, retain_graph, create_graph):
        backward((self,), (gradient,), retain_graph, create_graph, inputs)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of the sum of several tensors to the ``grad`` of leaves; see :meth:`Tensor.backward`.

    >>> import tensorx as tx
    >>> w = tx.asarray([1.0, 2.0]).requires_grad_()
    >>> tx.autograd.backward([(w * w).sum(), w.sum()])
    >>> w.grad.tolist()
    [3.0, 5.0]
    """
    if isinstance(tensors, Tensor):
        tensors = (tensors,)
        grad_tensors = (grad_tensors,)
    if grad_tensors is None:
        grad_tensors = (None,) * len(tensors)
    targets, grads = _roots("backward", tensors, grad_tensors, create_graph)
    retain = create_graph if retain_graph is None else builtins.bool(retain_graph)
    if inputs is None:
        _core.run_backward(targets, grads, retain, builtins.bool(create_graph))
        return
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    found = _core.run_backward(targets, grads, retain, builtins.bool(create_graph), _captures("backward", inputs))
    _core.evaluate(*(g for g in found if g is not None))
    for x, g in zip(inputs, found):
        if g is not None:
            m = x._meta
            m.grad = g if m.grad is None else m.grad + g


def _captures(op, inputs):
    targets = []
    for k, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            raise GradientError(f"{op}: input {k + 1} does not require grad")
        targets.append(_core.edge(x))
    return targets


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False, materialize_grads=False):
    """Gradients of the sum of outputs with respect to inputs, as a tuple; no ``grad`` changes.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of them
    grad_outputs : Tensor or sequence, optional
        Gradients with respect to the outputs; may be left out for outputs of one element.
    retain_graph, create_graph : bool
        As for :meth:`Tensor.backward`.
    allow_unused : bool
        None for an input that the outputs do not depend on, instead of a GradientError; zeros with materialize_grads.

    Examples
    --------
    >>> import tensorx as tx
    >>> x = tx.asarray(3.0).requires_grad_()
    >>> (g,) = tx.autograd.grad(x * x, x, create_graph=True)
    >>> tx.autograd.grad(g, x)[0].item()
    2.0
    """
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        grad_outputs = (None,) * len(outputs)
    elif isinstance(grad_outputs, Tensor):
        grad_outputs = (grad_outputs,)
    if len(grad_outputs) != len(outputs):
        raise GradientError(f"grad: {len(grad_outputs)} gradients for {len(outputs)} outputs")
    captures = _captures("grad", inputs)
    targets, grads = _roots("grad", outputs, grad_outputs, create_graph)
    retain = create_graph if retain_graph is None else builtins.bool(retain_graph)
    found = _core.run_backward(targets, grads, retain, builtins.bool(create_graph), captures)
    for k, g in enumerate(found):
        if g is None:
            if materialize_grads:
                x = inputs[k]
                found[k] = _core.full_like_scalar(x.shape, 0, x.dtype, x.device.number)
            elif not allow_unused:
                raise GradientError(f"grad: the outputs do not depend on input {k + 1} (shape {inputs[k].shape}); allow_unused=True gives None for it")
    return tuple(found)


# ---- a result without history --------------------------------------------------------------------


def _untracked_text(op, x):
    text = f"{op}: the result (shape {x.shape}, {x.dtype.name}) has no history: none of the tensors it was computed from requires grad"
    if not _core._grad_mode.get():
        return text + "; gradients are not recorded here (no_grad or inference_mode)"
    names = _names_without_grad(x)
    if names:
        text += f"; without requires_grad here: {', '.join(names)}"
    return text + ". Call requires_grad_() on the inputs that are trained before computing it, and compute it outside no_grad"


def _names_without_grad(x):
    """Names of the caller's tensors, and of its modules' parameters, that do not require grad."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tensorx."):
        frame = frame.f_back
    if frame is None:
        return []
    found = []
    local = dict(frame.f_locals)
    for name in frame.f_code.co_names:
        if name in frame.f_globals and name not in local:
            local[name] = frame.f_globals[name]
    for name, value in local.items():
        if isinstance(value, Tensor):
            if value is not x and value.dtype.kind in "fc" and not value.requires_grad:
                found.append(f"{name} {value.shape}")
        elif not inspect.ismodule(value) and not inspect.isclass(value) and callable(getattr(value, "named_parameters", None)):
            try:
                found += [f"{name}.{p} {t.shape}" for p, t in value.named_parameters() if not t.requires_grad]
            except Exception:  # only names for a message: whatever the object does, the message comes
                continue
        if len(found) > 12:
            return [*found[:12], "..."]
    return found


_core._grad_hooks["requires_grad"] = _set_requires_grad
for _f in (requires_grad_, retain_grad, register_hook, detach_):
    _core.add_method(_f.__name__, _f)
_backward.__name__ = "backward"
_core.add_method("backward", _backward)
_core.add_method("is_leaf", builtins.property(is_leaf))
_core.add_method("grad_fn", builtins.property(grad_fn))
_core.add_method("grad", builtins.property(_get_grad, _set_grad))
