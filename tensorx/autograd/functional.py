"""Derivatives of functions: products with vectors, Jacobians, Hessians."""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.autograd.gradients import grad
from tensorx.autograd.modes import enable_grad
from tensorx.errors import GradientError, ShapeError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tuple(op, value, what):
    if isinstance(value, Tensor):
        return (value,)
    value = tuple(value)
    for t in value:
        if not isinstance(t, Tensor):
            raise GradientError(f"{op}: {what} must be tensors, got {type(t).__name__}")
    return value


def _inputs(op, inputs, create_graph):
    """Fresh handles to differentiate with respect to; connected to what they were computed from with create_graph."""
    out = []
    for x in _tuple(op, inputs, "inputs"):
        if x.dtype.kind not in "fc":
            raise GradientError(f"{op}: inputs must be floating-point or complex, got {x.dtype.name}")
        if create_graph and x.requires_grad:
            out.append(x.reshape(x.shape))
        else:
            out.append(x.detach())
            out[-1].requires_grad = True
    return tuple(out)


def _call(op, func, inputs):
    with enable_grad():
        result = func(*inputs)
    return _tuple(op, result, "results of the function"), isinstance(result, Tensor)


def _vector(op, v, like, what):
    """v as a tuple like the tensors it multiplies; ones of one element may be left out."""
    if v is None:
        if len(like) != 1 or like[0].size != 1:
            raise GradientError(f"{op}: v can be left out only for {what} of one element")
        return (_core.full_like_scalar(like[0].shape, 1, like[0].dtype, like[0].device.number),)
    v = _tuple(op, v, "v")
    if len(v) != len(like) or any(a.shape != b.shape for a, b in zip(v, like)):
        raise ShapeError(f"{op}: v has shapes {[a.shape for a in v]}, {what} {[b.shape for b in like]}")
    return v


def _gradients(outputs, inputs, vectors, create_graph):
    """Gradients with zeros where nothing arrives; outputs without a history count as constants."""
    with enable_grad():
        live = [(o, v) for o, v in zip(outputs, vectors) if o.requires_grad]
        zeros = [_core.full_like_scalar(x.shape, 0, x.dtype, x.device.number) for x in inputs]
        if not live:
            return tuple(zeros)
        found = grad([o for o, _ in live], inputs, [v for _, v in live], retain_graph=True, create_graph=create_graph, allow_unused=True)
    return tuple(z if g is None else g for g, z in zip(found, zeros))


def _like(value, single):
    return value[0] if single else tuple(value)


def _done(tensors, create_graph):
    return tuple(t if create_graph else t.detach() for t in tensors)


def vjp(func, inputs, v=None, create_graph=False):
    """(func(*inputs), the product of v with the Jacobian): what backward computes.

    inputs: a tensor or a tuple of them; v: of the shape of the result, may be left out for one element.

    >>> import tensorx as tx
    >>> y, g = tx.autograd.vjp(lambda x: x * x, tx.asarray([1.0, 2.0]), tx.asarray([1.0, 10.0]))
    >>> g.tolist()
    [2.0, 40.0]
    """
    single = isinstance(inputs, Tensor)
    xs = _inputs("vjp", inputs, create_graph)
    outputs, one = _call("vjp", func, xs)
    found = _gradients(outputs, xs, _vector("vjp", v, outputs, "the result"), create_graph)
    return _like(_done(outputs, create_graph), one), _like(_done(found, create_graph), single)


def jvp(func, inputs, v=None, create_graph=False):
    """(func(*inputs), the product of the Jacobian with v): the derivative in the direction v. Computed by going backward twice.

    >>> import tensorx as tx
    >>> y, d = tx.autograd.jvp(lambda x: x * x, tx.asarray([1.0, 2.0]), tx.asarray([1.0, 10.0]))
    >>> d.tolist()
    [2.0, 40.0]
    """
    xs = _inputs("jvp", inputs, create_graph)
    v = _vector("jvp", v, xs, "the input")
    outputs, one = _call("jvp", func, xs)
    found = _directional(outputs, xs, v, create_graph)
    return _like(_done(outputs, create_graph), one), _like(_done(found, create_graph), one)


def _directional(outputs, xs, v, create_graph):
    """The gradient of the gradient with respect to the vector that it is linear in: the adjoint of the adjoint."""
    dummies = tuple(_core.full_like_scalar(o.shape, 0, o.dtype, o.device.number).requires_grad_() for o in outputs)
    first = _gradients(outputs, xs, dummies, True)
    return _gradients(first, dummies, v, create_graph)


def _rows(outputs_flat, xs, create_graph):
    """Gradients of each element of a flat result."""
    rows = [[] for _ in xs]
    n = outputs_flat.size
    for i in range(n):
        unit = _core.full_like_scalar((n,), 0, outputs_flat.dtype, outputs_flat.device.number)
        _core.write_value(_core.basic_view(unit, i), 1, "jacobian")
        for k, g in enumerate(_gradients((outputs_flat,), xs, (unit,), create_graph)):
            rows[k].append(g)
    return rows


def _stack(rows, shape, x):
    """The rows as one tensor of shape (*shape, *x.shape), differentiable."""
    out = _core.full_like_scalar((len(rows), *x.shape), 0, x.dtype, x.device.number)
    for i, g in enumerate(rows):
        out[i] = g
    return out.reshape((*shape, *x.shape))


def jacobian(func, inputs, create_graph=False):
    """Derivatives of each element of the result with respect to each element of the inputs: shape (*result, *input).

    A tensor for one input and one result; a tuple over the inputs, over the results, or over the results of tuples over the
    inputs, where they are tuples.

    >>> import tensorx as tx
    >>> tx.autograd.jacobian(lambda x: x * x, tx.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    single = isinstance(inputs, Tensor)
    xs = _inputs("jacobian", inputs, create_graph)
    outputs, one = _call("jacobian", func, xs)
    table = []
    with enable_grad():
        for o in outputs:
            rows = _rows(o.reshape((o.size,)), xs, create_graph)
            table.append(_like(_done([_stack(r, o.shape, x) for r, x in zip(rows, xs)], create_graph), single))
    return table[0] if one else tuple(table)


def hessian(func, inputs, create_graph=False):
    """Second derivatives of a function with one element: shape (*input, *input), a tuple of tuples for several inputs.

    >>> import tensorx as tx
    >>> tx.autograd.hessian(lambda x: (x ** 3.0).sum(), tx.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    single = isinstance(inputs, Tensor)

    def gradient(*xs):
        (y,), _ = _scalar("hessian", func, xs)
        found = _gradients((y,), xs, _vector("hessian", None, (y,), "results"), True)
        return found[0] if single else found

    return jacobian(gradient, inputs, create_graph)


def _scalar(op, func, xs):
    outputs, one = _call(op, func, xs)
    if len(outputs) != 1 or outputs[0].size != 1:
        raise GradientError(f"{op}: the function must give one element, got shapes {[o.shape for o in outputs]}")
    return outputs, one


def vhp(func, inputs, v, create_graph=False):
    """(func(*inputs), the product of v with the Hessian of a function with one element).

    >>> import tensorx as tx
    >>> tx.autograd.vhp(lambda x: (x ** 3.0).sum(), tx.asarray([1.0, 2.0]), tx.ones(2))[1].tolist()
    [6.0, 12.0]
    """
    single = isinstance(inputs, Tensor)
    xs = _inputs("vhp", inputs, create_graph)
    v = _vector("vhp", v, xs, "the input")
    outputs, one = _scalar("vhp", func, xs)
    first = _gradients(outputs, xs, _vector("vhp", None, outputs, "results"), True)
    found = _gradients(first, xs, v, create_graph)
    return _like(_done(outputs, create_graph), one), _like(_done(found, create_graph), single)


def hvp(func, inputs, v, create_graph=False):
    """(func(*inputs), the product of the Hessian with v); the Hessian is symmetric, so it is what :func:`vhp` gives.

    >>> import tensorx as tx
    >>> tx.autograd.hvp(lambda x: (x ** 3.0).sum(), tx.asarray([1.0, 2.0]), tx.ones(2))[1].tolist()
    [6.0, 12.0]
    """
    return vhp(func, inputs, v, create_graph)
