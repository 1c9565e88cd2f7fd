"""Ops of one's own: one method per device, any overlap of operands, gradients, errors that carry the op's name.

>>> import tensorx as tx
>>> class AddInto(tx.InplaceOp):
...     name = "add-into"
...     elementwise = True
...     def cpu(self, x, y):
...         x += y
>>> m = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> AddInto()(m[0], m[1]).tolist(), m.tolist()
([4.0, 6.0], [[4.0, 6.0], [3.0, 4.0]])
"""

from __future__ import annotations

import inspect

from tensorx import _core, dtypes
from tensorx._core import Tensor
from tensorx.autograd.function import Function
from tensorx.autograd.writes import is_leaf_value
from tensorx.errors import (
    DeviceMismatchError,
    DTypeError,
    GradientError,
    InplaceError,
    MissingKernelError,
    ShapeError,
)

__all__ = ["CustomOp", "InplaceOp", "set_op_timeout"]


def set_op_timeout(seconds):
    """Longest wait of another thread for a tensor that the body of a custom op holds (60 s at first), in seconds; then
    ThreadingError. Returns the old value. A wait of two bodies for one another is found at once.

    >>> import tensorx as tx
    >>> old = tx.set_op_timeout(5.0)
    >>> tx.set_op_timeout(old)
    5.0
    """
    return _core.set_op_timeout(seconds)


class _Op:
    """What both kinds of ops share."""

    name: str = ""
    elementwise = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if not cls.__dict__.get("name"):
            cls.name = cls.__dict__.get("name") or cls.__name__

    def save(self, ctx, *inputs, output):
        """What backward needs of inputs and output, by ``ctx.save_for_backward(...)``; called after the body."""

    backward = None

    # ---- before anything happens

    def _implementations(self):
        found = [d for d in ("cpu", "metal") if getattr(self, d, None) is not None]
        return found

    def _check(self, args):
        """The device of the call, and the operands on it (a 0-d tensor moves)."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not tensors:
            raise TypeError(f"{self.name}: takes at least one tensor, got {', '.join(type(a).__name__ for a in args) or 'nothing'}")
        for k, a in enumerate(args):
            if not isinstance(a, (Tensor, int, float, complex, bool, type(None))):
                raise TypeError(f"{self.name}: argument {k + 1} is a {type(a).__name__}; takes tensors, Python numbers and None")
        first = next((a for a in tensors if a.ndim), tensors[0])
        if isinstance(self, InplaceOp):
            if not isinstance(args[0], Tensor):
                raise TypeError(f"{self.name}: the first argument is what is written, a tensor; got {type(args[0]).__name__}")
            first = args[0]
        device = first.device
        out = []
        for k, a in enumerate(args):
            if isinstance(a, Tensor) and a.device is not device:
                if a.ndim or (k == 0 and isinstance(self, InplaceOp)):
                    raise DeviceMismatchError(
                        f"{self.name}: argument {k + 1} is on {a.device} and the others are on {device}; move it with .to({str(device)!r})"
                    )
                a = a.to(device)
            out.append(a)
        body = getattr(self, device.type, None)
        if body is None:
            have = self._implementations()
            raise MissingKernelError(
                f"{self.name}: no implementation for {device} ({device.type}); it has {', '.join(have) if have else 'none at all'}: "
                f"define a method or kernel named {device.type!r}, or move the operands with .to({have[0] if have else 'cpu'!r})"
            )
        if device.type == "cpu":
            for k, a in enumerate(out):
                if isinstance(a, Tensor) and a.dtype is dtypes.bfloat16:
                    raise DTypeError(f"{self.name}: argument {k + 1} is bfloat16, which NumPy does not have; give it astype(tx.float32)")
        return device, body, out

    # ---- gradients

    def _function(self):
        """The Function that records this op; one per op."""
        found = self.__dict__.get("_recorder")
        if found is None:
            found = type(self.name, (_Recorded,), {"op": self})
            self.__dict__["_recorder"] = found
        return found

    def _call(self, args):
        if _core._grad_mode.get() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return self._function().apply(*args)
        return self._run(args)

    def __repr__(self):
        return f"<{type(self).__name__} {self.name!r}: {', '.join(self._implementations())}>"


class _Recorded(Function):
    """The record of a custom op that a gradient goes through."""

    op: _Op

    @classmethod
    def forward(cls, ctx, *args):
        op = cls.op
        plain = [a.detach() if isinstance(a, Tensor) and not (isinstance(op, InplaceOp) and i == 0) else a for i, a in enumerate(args)]
        result = op._run(plain)
        if isinstance(op, InplaceOp):
            ctx.mark_dirty(args[0])
        op.save(ctx, *args, output=result)
        return result

    @classmethod
    def backward(cls, ctx, *grads):
        op = cls.op
        if op.backward is None:
            raise GradientError(f"{op.name}: the op has no gradient; define backward(self, ctx, grad), or call it under tx.no_grad() or on detach()")
        result = op.backward(ctx, *grads)
        result = result if isinstance(result, (tuple, list)) else (result,)
        return (*result, *(None,) * (len(ctx.needs_input_grad) - len(result)))


def _array(x, writing):
    import numpy as np

    return np.asarray(_core.writer(x) if writing else _core.reader(x))


class InplaceOp(_Op):
    """An op that writes its first argument and returns it. Subclass it, give it a ``name`` and a body per device.

    ``cpu(self, x, *others)`` gets NumPy views of the tensors' own memory (those of the others read-only) and writes ``x``;
    ``metal`` is a kernel (:func:`tensorx.metal.kernel`), or a method that gets the tensors and calls kernels. Python numbers are
    passed on as they are.

    Operands may overlap in any way: one that shares bytes with ``x`` is copied before, so that the body sees old values;
    disjoint views of one storage are not copied. With ``elementwise = True`` (every element of ``x`` depends on the same
    position of the others only) the very same view is passed without a copy.

    ``backward(self, ctx, grad)`` returns one gradient per argument (None where there is none), from what
    ``save(self, ctx, *inputs, output)`` kept; ``x`` then has its new value.

    Errors: MissingKernelError without a body for the device, DeviceMismatchError, InplaceError for a destination that is read-only,
    overlaps itself or is a leaf that requires grad: all before anything is written. An exception in the body passes unchanged;
    what the body had written stays, and the version of ``x`` has risen, unless ``atomic = True``: then the body works on a copy
    that is written back when it has succeeded. A view that the body keeps stays valid, as that of ``x.numpy()``.

    While the body runs, other threads wait for its tensors (see :func:`tensorx.set_op_timeout`); the body itself may use them
    in any op, this one included.

    >>> import tensorx as tx
    >>> class Scale(tx.InplaceOp):
    ...     name = "scale"
    ...     def cpu(self, x, factor):
    ...         x *= factor
    ...     def backward(self, ctx, grad):
    ...         return grad * 3.0
    >>> Scale()(tx.ones(2), 3.0).tolist()
    [3.0, 3.0]
    """

    atomic = False

    def __call__(self, x, *others):
        if isinstance(x, Tensor) and _core._grad_mode.get() and x.requires_grad and is_leaf_value(x):
            raise InplaceError(
                f"{self.name}: a leaf that requires grad (shape {x.shape}) cannot be written in place while gradients are recorded; "
                "write it under tx.no_grad(), or give the op a copy()"
            )
        return self._call((x, *others))

    def _run(self, args):
        device, body, args = self._check(args)
        x = args[0]
        target = x.detach()
        copies: dict = {}
        for k, a in enumerate(args[1:], 1):
            if not isinstance(a, Tensor):
                continue
            a = a.detach()
            if _core.may_overlap(a, target) and not (self.elementwise and _same(a, target)):
                key = (a.shape, a.strides, _core.offset_of(a), a.dtype)
                if key not in copies:
                    copies[key] = _core.copy_for(a, "overlaps the destination")
                a = copies[key]
            args[k] = a
        work = _core.copy_for(target, "an atomic op works on a copy") if self.atomic else target
        tensors = [a for a in args[1:] if isinstance(a, Tensor)]
        hold = _core.hold(self.name, (target, work) if self.atomic else (target,), tuple(tensors))
        started = False
        try:
            if device.type == "cpu":
                views = [_array(a, False) if isinstance(a, Tensor) else a for a in args[1:]]
                destination = _array(work, True)
                started = True
                result = body(destination, *views)
                if result is not None and not _is_view_of(result, destination):
                    raise TypeError(
                        f"{self.name}: cpu returned a new {type(result).__name__}; an InplaceOp writes its first argument (x[...] = value, "
                        "out=x) and returns None or it"
                    )
                del destination, views
            else:
                started = True
                _run_metal(self, body, [work, *args[1:]], work)
            if self.atomic:
                _core.write_value(target, work, self.name)
        finally:
            hold.leave()
            if started and not self.atomic:
                _core.wrote(target, self.name)
        return x


def _same(a, b):
    return a.shape == b.shape and a.strides == b.strides and a.dtype is b.dtype and _core.offset_of(a) == _core.offset_of(b)


def _is_view_of(result, array):
    return getattr(result, "__array_interface__", None) is not None and result.ctypes.data == array.ctypes.data and result.shape == array.shape


class CustomOp(_Op):
    """An op that computes a new tensor. Subclass it, give it a ``name`` and a body per device.

    ``cpu(self, *inputs)`` gets read-only NumPy views and returns an array; with a keyword argument ``out`` it writes into
    that instead (no further memory). ``metal`` is a kernel whose last tensor argument is the output, or a method that gets the
    tensors and the output as ``out``.

    ``output(self, *inputs)`` says what comes out, before the body runs: ``(shape, dtype)``; by default those of the first tensor.
    A body that returns anything else is an error that names both. ``backward(self, ctx, grad)`` returns one gradient per
    argument, from what ``save(self, ctx, *inputs, output)`` kept.

    An exception in the body passes unchanged and leaves nothing behind.

    >>> import tensorx as tx, numpy as np
    >>> class RowMax(tx.CustomOp):
    ...     name = "row-max"
    ...     def output(self, x):
    ...         return x.shape[:-1], x.dtype
    ...     def cpu(self, x):
    ...         return x.max(axis=-1)
    >>> RowMax()(tx.asarray([[1.0, 5.0], [7.0, 2.0]])).tolist()
    [5.0, 7.0]
    """

    def output(self, *inputs):
        """(shape, dtype) of the result."""
        first = next(a for a in inputs if isinstance(a, Tensor))
        return first.shape, first.dtype

    def __call__(self, *inputs):
        return self._call(inputs)

    def _run(self, args):
        device, body, args = self._check(args)
        args = [a.detach() if isinstance(a, Tensor) else a for a in args]
        rule = self.output(*args)
        try:
            shape, dtype = rule
            shape = tuple(shape)
            dtype = dtypes.dtype_from(dtype)
        except (TypeError, ValueError):
            raise TypeError(f"{self.name}: output() returned {rule!r}; (shape, dtype) is needed") from None
        out = _core.empty(shape, dtype, device.number)
        hold = _core.hold(self.name, (), tuple(a for a in args if isinstance(a, Tensor)))
        try:
            if device.type == "cpu":
                views = [_array(a, False) if isinstance(a, Tensor) else a for a in args]
                if _takes_out(body):
                    destination = _array(out, True)
                    result = body(*views, out=destination)
                    if result is not None and not _is_view_of(result, destination):
                        raise TypeError(
                            f"{self.name}: cpu returned a new {type(result).__name__} although it takes out; write into out (out[...] = value) "
                            "and return None or it, or leave out away and return an array"
                        )
                    del destination, result
                else:
                    self._store(out, body(*views))
                del views
            else:
                _run_metal(self, body, [*args, out], out)
        finally:
            hold.leave()
        _core.reset_version(out)
        return out

    def _store(self, out, result):
        import numpy as np

        if isinstance(result, Tensor):
            result = np.asarray(_core.reader(result.detach()))
        if not isinstance(result, (np.ndarray, np.generic)):
            raise TypeError(f"{self.name}: cpu returned {type(result).__name__}; a NumPy array of shape {out.shape} and dtype {out.dtype.name} is needed")
        if result.shape != out.shape:
            raise ShapeError(f"{self.name}: cpu returned shape {result.shape}, but output() says {out.shape}")
        if result.dtype.name != out.dtype.name:
            raise DTypeError(f"{self.name}: cpu returned dtype {result.dtype.name}, but output() says {out.dtype.name}; convert it in the body")
        np.copyto(_array(out, True), result)


def _takes_out(body):
    """Whether a body has an argument ``out``."""
    try:
        return "out" in inspect.signature(body).parameters
    except (TypeError, ValueError):
        return False


def _run_metal(op, body, args, out):
    """The body for Metal: a kernel, or a method that calls kernels."""
    from tensorx.metal.user_kernel import MetalKernel

    if isinstance(body, MetalKernel):
        body._launch(op.name, args, out)
        return
    inputs = args if isinstance(op, InplaceOp) else args[:-1]
    if isinstance(op, InplaceOp) or not _takes_out(body):
        result = body(*inputs)
    else:
        result = body(*inputs, out=out)
    if isinstance(result, MetalKernel):
        result._launch(op.name, args, out)
    elif isinstance(op, CustomOp) and result is not None and result is not out:
        if not isinstance(result, Tensor):
            raise TypeError(f"{op.name}: metal returned {type(result).__name__}; a tensor of shape {out.shape} and dtype {out.dtype.name} is needed")
        if result.shape != out.shape:
            raise ShapeError(f"{op.name}: metal returned shape {result.shape}, but output() says {out.shape}")
        if result.dtype is not out.dtype:
            raise DTypeError(f"{op.name}: metal returned dtype {result.dtype.name}, but output() says {out.dtype.name}")
        if result.device is not out.device:
            raise DeviceMismatchError(f"{op.name}: metal returned a tensor on {result.device}, the operands are on {out.device}")
        _core.write_value(out, result, op.name)
