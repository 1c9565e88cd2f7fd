"""Starting values of parameters. All functions fill a tensor in place, are never recorded, and return it.

A parameter that was not read yet only notes what it will be filled with: the values are made at the first
read, on the device that the parameter is on by then, and are the same whenever that is.
"""

from __future__ import annotations

import copy
import math
import operator
import warnings

from tensorx import _core
from tensorx.errors import ShapeError
from tensorx.nn import _random

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_", "sparse_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


def _fill(t, recipe):
    """t gets ``recipe(shape, dtype, device number)``, now or, where nobody has read it yet, later."""
    if _core.set_lazy_recipe(t, recipe):
        return t
    token = _core._grad_mode.set(False)
    try:
        if type(recipe) is _Draw:
            recipe.into(t)
        else:
            t.copy_(recipe(t.shape, t.dtype, t.device.number))
    finally:
        _core._grad_mode.reset(token)
    return t


def _device(number):
    """The device of the core's number; instances opened later have numbers of their own."""
    return _core.known_devices()[number]


class _Constant:
    """A recipe: one number everywhere."""

    def __init__(self, value):
        self.value = value

    def __call__(self, shape, dtype, number):
        return _core.full_like_scalar(shape, dtype.kind == "b" and bool(self.value) or self.value, dtype, number)


class _Draw:
    """A recipe: random numbers of a generator of its own, so that the time of the first read does not matter."""

    def __init__(self, kind, a, b, generator):
        self.kind, self.a, self.b = kind, a, b
        self.generator = _random.split(generator)

    def __call__(self, shape, dtype, number):
        make = _random.uniform if self.kind == "uniform" else _random.normal
        return make(shape, self.a, self.b, dtype, _device(number), self.generator)

    def into(self, t):
        """The same numbers, straight into a tensor."""
        write = t.uniform_ if self.kind == "uniform" else t.normal_
        write(self.a, self.b, generator=copy.copy(self.generator))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform numbers from a to b.

    >>> import tensorx as tx
    >>> w = tx.nn.init.uniform_(tx.empty(100), 2.0, 3.0)
    >>> bool((w >= 2.0).all()) and bool((w <= 3.0).all())
    True
    """
    return _fill(tensor, _Draw("uniform", float(a), float(b), generator))


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normally distributed numbers."""
    return _fill(tensor, _Draw("normal", float(mean), float(std), generator))


class _Truncated(_Draw):
    """A recipe: normal numbers within bounds, from uniform ones through the inverse distribution function."""

    def __init__(self, mean, std, a, b, generator):
        super().__init__("uniform", 0.0, 1.0, generator)
        self.mean, self.std, self.low, self.high = mean, std, a, b

    def __call__(self, shape, dtype, number):
        import tensorx as tx

        wide = dtype if dtype.name in ("float32", "float64") else tx.float32
        u = super().__call__(shape, wide, number)
        low, high = (math.erf((x - self.mean) / self.std / math.sqrt(2.0)) for x in (self.low, self.high))
        edge = 1.0 - 2.0**-24
        v = tx.clip(u * (high - low) + low, -edge, edge)
        x = tx.clip(tx.erfinv(v) * (self.std * math.sqrt(2.0)) + self.mean, self.low, self.high)
        return x if wide is dtype else _core.cast(x, dtype)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normally distributed numbers, those outside of [a, b] drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("trunc_normal_: the mean is more than two standard deviations outside of [a, b]", stacklevel=2)
    return _fill(tensor, _Truncated(float(mean), float(std), float(a), float(b), generator))


def constant_(tensor, val):
    """One number everywhere."""
    return _fill(tensor, _Constant(val))


def ones_(tensor):
    """Ones."""
    return _fill(tensor, _Constant(1))


def zeros_(tensor):
    """Zeros."""
    return _fill(tensor, _Constant(0))


def _array(name, tensor, array):
    """Values computed with NumPy, at once."""
    import tensorx as tx

    def recipe(shape, dtype, number):
        device = _device(number)
        if device.type != "cpu":
            device.backend.on_host(name)
        return tx.asarray(array, dtype=dtype, device=device)

    return _fill(tensor, recipe)


def eye_(tensor):
    """The identity matrix: ones on the main diagonal of a matrix."""
    import numpy as np

    if tensor.ndim != 2:
        raise ShapeError(f"eye_: needs a matrix, got shape {tensor.shape}")
    return _array("eye_", tensor, np.eye(*tensor.shape))


def dirac_(tensor, groups=1):
    """The convolution weight that passes its channels through (3, 4 or 5 axes)."""
    import numpy as np

    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac_: needs 3, 4 or 5 axes, got shape {tensor.shape}")
    if tensor.shape[0] % groups:
        raise ShapeError(f"dirac_: {tensor.shape[0]} output channels are not divisible by {groups} groups")
    out = np.zeros(tensor.shape)
    per = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    for g in range(groups):
        for d in range(min(per, tensor.shape[1])):
            place = (g * per + d, d, *centre)
            out[place] = 1
    return _array("dirac_", tensor, out)


def calculate_gain(nonlinearity, param=None):
    """The factor by which a non-linearity shrinks the spread of values, for the initialisations below.

    >>> import tensorx as tx
    >>> round(tx.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain: the slope must be a number, got {slope!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}")


def _fans(name, tensor):
    """Values that go into and out of one element: of the weight of a linear layer or convolution."""
    shape = tensor.shape
    if len(shape) < 2:
        raise ShapeError(f"{name}: needs at least 2 axes to tell inputs from outputs, got shape {shape}")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _fan(name, tensor, mode):
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return _fans(name, tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform numbers that keep the spread of values both ways (Glorot, Bengio 2010)."""
    fan_in, fan_out = _fans("xavier_uniform_", tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal numbers that keep the spread of values both ways (Glorot, Bengio 2010)."""
    fan_in, fan_out = _fans("xavier_normal_", tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0, generator)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform numbers for layers followed by a rectifier (He and others 2015)."""
    if 0 in tensor.shape:
        return tensor
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan("kaiming_uniform_", tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal numbers for layers followed by a rectifier (He and others 2015)."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan("kaiming_normal_", tensor, mode)), generator)


def _host_normal(rows, cols, generator):
    import numpy as np

    import tensorx as tx

    return np.array(_Draw("normal", 0.0, 1.0, generator)((rows, cols), tx.float64, 0).numpy())


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix of the first axis and all others (Saxe and others 2013)."""
    import numpy as np

    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: needs at least 2 axes, got shape {tensor.shape}")
    if tensor.size == 0:
        return tensor
    rows = tensor.shape[0]
    cols = tensor.size // rows
    flat = _host_normal(max(rows, cols), min(rows, cols), generator)
    q, r = np.linalg.qr(flat)
    q = q * np.sign(np.diag(r))
    if rows < cols:
        q = q.T
    return _array("orthogonal_", tensor, np.ascontiguousarray(q.reshape(tensor.shape) * gain))


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """A matrix of normal numbers with a share of zeros in every column (Martens 2010)."""
    import numpy as np

    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: needs a matrix, got shape {tensor.shape}")
    rows, cols = tensor.shape
    values = _host_normal(rows, cols, generator) * std
    order = np.argsort(_host_normal(rows, cols, generator), axis=0)
    zeros = order[: math.ceil(sparsity * rows)]
    values[zeros, np.arange(cols)] = 0
    return _array("sparse_", tensor, values)


def new_parameter(shape, device=None, dtype=None, requires_grad=True):
    """A parameter that nobody has read yet, of undefined values: reset_parameters says what it starts from."""
    from tensorx import dtypes
    from tensorx.device import default_device
    from tensorx.device import device as named
    from tensorx.nn.parameter import Parameter

    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        try:
            wrong = operator.index(n) < 0
        except TypeError:
            wrong = True
        if wrong:
            raise ShapeError(f"a parameter of shape {shape}: sizes are integers and not negative, {n!r} is not")
    place = default_device() if device is None else named(device)
    kind = dtypes.float32 if dtype is None else dtypes.dtype_from(dtype)
    return Parameter(_core.lazy(shape, kind, place.number, _Constant(0)), requires_grad)
