"""What NumPy's functions do when they are given tensors.

Tensors and arrays are never mixed silently. The rules:

* An operator with a tensor and an ndarray (either way round) is a DTypeError that names the ways to convert.
* A ufunc on tensors and Python numbers, ``np.add(t, 1)``, is the tensorx function of that name and returns a tensor, with
  history where a tensor requires grad. A ufunc that tensorx does not have is computed by NumPy on views of the
  tensors' memory and its results become tensors.
* With an ndarray among the arguments, with ``out=`` or ``where=``, and as ``np.add.reduce`` and the like: DTypeError.
* Every other function of NumPy reads tensors as ``np.asarray(t)`` does and returns arrays: ``np.concatenate([t, t])``.
"""

from __future__ import annotations

import builtins

from tensorx import _core
from tensorx.errors import DTypeError

Tensor = _core.Tensor

# ufuncs whose tensorx function has another name
_NAMES = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "absolute": "abs", "conjugate": "conj", "power": "pow", "float_power": None, "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "rint": "round", "true_divide": "divide",
    "degrees": None, "radians": None, "modf": None, "frexp": None,
}  # fmt: skip


def _refuse(ufunc, why):
    return DTypeError(f"{ufunc.__name__}: {why}; use tx.asarray(array) (a copy) or tx.from_numpy(array) (shared memory) to work with tensors, "
                      "or np.asarray(tensor) to work with arrays")


def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
    import numpy as np

    import tensorx

    if builtins.any(isinstance(i, np.ndarray) for i in inputs):
        raise _refuse(ufunc, "got a NumPy array beside a tensor; the two are not mixed silently")
    if method != "__call__":
        raise _refuse(ufunc, f"np.{ufunc.__name__}.{method} takes no tensors")
    if kwargs:
        raise _refuse(ufunc, f"with tensors it takes no {', '.join(kwargs)}")
    name = _NAMES.get(ufunc.__name__, ufunc.__name__)
    function = getattr(tensorx, name, None) if name is not None else None
    numbers = [i.item() if isinstance(i, np.generic) else i for i in inputs]
    if function is not None and ufunc.nout == 1 and getattr(np, ufunc.__name__, None) is ufunc:
        return function(*numbers)
    device = next(i.device for i in inputs if isinstance(i, Tensor))
    results = ufunc(*(np.asarray(i) if isinstance(i, Tensor) else i for i in numbers))
    if ufunc.nout == 1:
        return tensorx.asarray(results, device=device)
    return tuple(tensorx.asarray(r, device=device) for r in results)


def _as_arrays(value):
    import numpy as np

    if isinstance(value, Tensor):
        return np.asarray(value)
    if isinstance(value, list):
        return [_as_arrays(v) for v in value]
    if isinstance(value, tuple):
        return tuple(_as_arrays(v) for v in value)
    return value


def __array_function__(self, function, types, args, kwargs):
    args = _as_arrays(args)
    kwargs = {name: _as_arrays(value) for name, value in kwargs.items()}
    # past the dispatch, which a tensor left in some other container would start again
    return getattr(function, "_implementation", function)(*args, **kwargs)
