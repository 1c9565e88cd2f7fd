"""Gradients compared with finite differences."""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.autograd.gradients import grad
from tensorx.autograd.modes import enable_grad, no_grad
from tensorx.errors import GradientError

__all__ = ["gradcheck", "gradgradcheck"]


def _flat(result):
    return [t for t in ((result,) if isinstance(result, Tensor) else tuple(result)) if isinstance(t, Tensor) and t.dtype.kind in "fc"]


def _array(t):
    import numpy as np

    return np.asarray(_core.reader(t.detach().to("cpu"))).astype(np.complex128 if t.dtype.kind == "c" else np.float64)


def _directions(kind):
    return (1.0, 1.0j) if kind == "c" else (1.0,)


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Compares the gradients of func with central differences, element by element.

    Parameters
    ----------
    func : callable
        Takes the inputs, returns a tensor or several.
    inputs : tensor or tuple
        Those that require grad are checked; float64 or complex128, else the differences are mostly rounding.
    eps, atol, rtol : float
        Step, and the allowed difference ``atol + rtol * |difference quotient|``.
    raise_exception : bool
        GradientError that names the element, or just False.

    Examples
    --------
    >>> import tensorx as tx
    >>> x = tx.asarray([0.5, 1.0], dtype=tx.float64).requires_grad_()
    >>> tx.autograd.gradcheck(lambda t: tx.sin(t) * t, x)
    True
    """
    import numpy as np

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise GradientError("gradcheck: none of the inputs requires grad")
    for k in checked:
        if inputs[k].dtype.itemsize < 8 or inputs[k].dtype.name == "complex64":
            raise GradientError(f"gradcheck: input {k + 1} is {inputs[k].dtype.name}; differences need float64 or complex128")
    with enable_grad():
        outputs = _flat(func(*inputs))
    for o, y in enumerate(outputs):
        for j in range(y.size):
            for unit in _directions(y.dtype.kind):
                v = np.zeros(y.size, np.complex128 if y.dtype.kind == "c" else np.float64)
                v[j] = unit
                g = _given(v, y)
                if y.requires_grad:
                    found = grad(y, [inputs[k] for k in checked], g, retain_graph=True, allow_unused=True)
                else:
                    found = [None] * len(checked)
                for k, a in zip(checked, found):
                    x = inputs[k]
                    a = np.zeros(x.shape) if a is None else _array(a)
                    n = _difference(func, inputs, k, o, j, unit, eps)
                    bad = ~(np.abs(a - n) <= atol + rtol * np.abs(n))
                    if bad.any():
                        if not raise_exception:
                            return False
                        at = tuple(int(i) for i in np.argwhere(bad)[0])
                        raise GradientError(
                            f"gradcheck: output {o + 1}, element {j}, by input {k + 1}, element {at}: the gradient is {a[at]}, "
                            f"the difference quotient {n[at]}"
                        )
    return True


def _given(v, y):
    import tensorx as tx

    return tx.asarray(v.reshape(y.shape), dtype=y.dtype, device=y.device)


def _difference(func, inputs, k, o, j, unit, eps):
    """Central differences of one element of output o by the elements of input k (its real and imaginary parts)."""
    import numpy as np

    import tensorx as tx

    x = inputs[k]
    base = _array(x)
    out = np.zeros(x.shape, base.dtype)
    for at in np.ndindex(*x.shape):
        total = 0.0
        for part in _directions(x.dtype.kind):
            values = []
            for sign in (1.0, -1.0):
                moved = base.copy()
                moved[at] += sign * eps * part
                args = list(inputs)
                args[k] = tx.asarray(moved, dtype=x.dtype, device=x.device)
                with no_grad():
                    y = _flat(func(*args))[o]
                values.append(_array(y).reshape(-1)[j])
            total = total + part * (np.conj(unit) * (values[0] - values[1]) / (2 * eps)).real
        out[at] = total
    return out


def gradgradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Compares second derivatives with differences of the gradients; see :func:`gradcheck`.

    >>> import tensorx as tx
    >>> x = tx.asarray([0.5, 1.0], dtype=tx.float64).requires_grad_()
    >>> tx.autograd.gradgradcheck(lambda t: tx.sin(t) * t, x)
    True
    """
    import numpy as np

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    rng = np.random.default_rng(0)
    with no_grad():
        outputs = _flat(func(*inputs))
    vectors = []
    for y in outputs:
        v = rng.standard_normal(y.shape)
        if y.dtype.kind == "c":
            v = v + 1j * rng.standard_normal(y.shape)
        vectors.append(_given(np.asarray(v).reshape(-1), y).requires_grad_())

    def first(*args):
        xs, vs = list(args[: len(inputs)]), args[len(inputs) :]
        with enable_grad():
            for k in checked:
                if not xs[k].requires_grad:
                    xs[k] = xs[k].detach()
                    xs[k].requires_grad = True
            ys = _flat(func(*xs))
            live = [(y, v) for y, v in zip(ys, vs) if y.requires_grad]
            found = grad([y for y, _ in live], [xs[k] for k in checked], [v for _, v in live], create_graph=True, allow_unused=True)
        return tuple(g if g is not None else _core.full_like_scalar(xs[k].shape, 0, xs[k].dtype, xs[k].device.number) for g, k in zip(found, checked))

    return gradcheck(first, (*inputs, *vectors), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
