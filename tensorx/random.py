"""Random numbers: one counter-based generator for all devices and any number of threads.

Philox4x32-10: word w of a stream is computed from its number alone, so the same seed gives the same bits, integers and
uniforms everywhere, whatever computes them. Distributions derived from uniforms agree between devices to rounding. A generator is a
seed, a stream and a position; :meth:`Generator.split` makes generators that are independent of it and of one another.

>>> import tensorx as tx
>>> g = tx.random.Generator(0)
>>> x = tx.random.normal(0.0, 1.0, (2, 3), generator=g)
>>> x.shape, x.dtype
((2, 3), tensorx.float32)
>>> bool(tx.all(x == tx.random.normal(0.0, 1.0, (2, 3), generator=tx.random.Generator(0))))
True
"""

from __future__ import annotations

import math
import operator
import os

from tensorx import _core, dtypes
from tensorx.autograd.recompute import preserve_state
from tensorx.device import default_device
from tensorx.device import device as _device
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import creation
from tensorx.ops.indexing import take
from tensorx.ops.movement import axis_of, broadcast_shapes

__all__ = [
    "Generator", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice", "default_generator",
    "dirichlet", "dropout_mask", "exponential", "gamma", "geometric", "gumbel", "integers", "laplace", "logistic", "lognormal",
    "manual_seed", "multinomial", "normal", "permutation", "poisson", "rand", "randint", "randn", "randperm", "seed", "shuffle",
    "standard_normal", "standard_t", "truncated_normal", "uniform", "weibull",
]  # fmt: skip

_MASK = (1 << 64) - 1


def _seed_of(seed):
    if seed is None:
        return int.from_bytes(os.urandom(8), "little")
    try:
        n = operator.index(seed)
    except TypeError:
        raise TypeError(f"seed: an int is needed, got {seed!r}") from None
    if not -(1 << 63) <= n < 1 << 64:
        raise ValueError(f"seed: {n} is out of range, it must fit into 64 bits")
    return n & _MASK


class Generator:
    """A sequence of random numbers; every function of this module takes one as ``generator`` and is a method of it.

    Parameters
    ----------
    seed : int of up to 64 bits, optional
        Without it the system's entropy.
    device : Device or str, optional
        Where its tensors are made unless a call says so. The numbers do not depend on it.

    Examples
    --------
    >>> import tensorx as tx
    >>> a, b = tx.random.Generator(7).split(2)
    >>> a.integers(0, 10, 3).tolist() == b.integers(0, 10, 3).tolist()
    False
    """

    __slots__ = ("_state", "device")

    def __init__(self, seed=None, device=None):
        self._state = _core.RandomState(_seed_of(seed))
        self.device = None if device is None else _device(device)

    @property
    def seed(self):
        """The key of the sequence, an int."""
        return self._state.seed

    initial_seed = seed

    def manual_seed(self, seed):
        """Starts the sequence of a seed; returns the generator."""
        self._state.set(_seed_of(seed), 0, 0)
        return self

    def split(self, n=2):
        """n generators whose numbers have nothing to do with one another's or this one's, which moves on by n blocks.

        >>> import tensorx as tx
        >>> len(tx.random.Generator(0).split(3))
        3
        """
        n = operator.index(n)
        if n < 0:
            raise ValueError(f"split: the number of generators must not be negative, got {n}")
        out = []
        for _ in range(n):
            child = Generator(0)
            child.device = self.device
            child._state.set(*self._state.derive(), 0)
            out.append(child)
        return tuple(out)

    def get_state(self):
        """Where the generator stands, as a dict of ints.

        >>> import tensorx as tx
        >>> g = tx.random.Generator(3)
        >>> state = g.get_state()
        >>> a = g.uniform(shape=4)
        >>> g.set_state(state)
        >>> bool(tx.all(a == g.uniform(shape=4)))
        True
        """
        seed, stream, position = self._state.get()
        return {"seed": seed, "stream": stream, "position": position}

    def set_state(self, state):
        """Goes to a place that ``get_state`` gave."""
        try:
            values = [operator.index(state[k]) for k in ("seed", "stream", "position")]
        except (TypeError, KeyError, IndexError):
            raise ValueError(f"set_state: a dict of seed, stream and position is needed, as get_state gives it, got {state!r}") from None
        if not all(0 <= v <= _MASK for v in values) or values[2] % 4:
            raise ValueError(f"set_state: {state!r} is no state of a generator")
        self._state.set(*values)

    def __copy__(self):
        out = Generator(0)
        out.device = self.device
        out._state.set(*self._state.get())
        return out

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        return _generator, (self._state.get(), None if self.device is None else str(self.device))

    def __repr__(self):
        seed, stream, position = self._state.get()
        return f"Generator(seed={seed}, stream={stream}, position={position})"


def _generator(state, device):
    out = Generator(0, device)
    out._state.set(*state)
    return out


default_generator = Generator()


def manual_seed(seed, /):
    """Starts the default generator, for all devices, at the beginning of a seed's sequence; returns it.

    >>> import tensorx as tx
    >>> tx.manual_seed(0)
    Generator(seed=0, stream=0, position=0)
    """
    return default_generator.manual_seed(seed)


def seed():
    """Gives the default generator a seed from the system's entropy; returns the seed.

    >>> import tensorx as tx
    >>> state = tx.random.default_generator.get_state()
    >>> isinstance(tx.random.seed(), int)
    True
    >>> tx.random.default_generator.set_state(state)
    """
    return default_generator.manual_seed(None).seed


preserve_state(lambda: default_generator._state.get(), lambda state: default_generator._state.set(*state))

_forks = 0


def _before_fork():
    global _forks
    _forks += 1


def _child():
    """A child continues on a stream of its own, given by the parent's state and the number of the fork."""
    seed, stream, position = default_generator._state.get()
    mark = _core.RandomState(seed ^ 0x9E3779B97F4A7C15, stream ^ position, 4 * _forks)
    default_generator._state.set(*mark.derive(), 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_child)


# ---- what the functions share ------------------------------------------------------------------


def _place(device, generator, *parameters):
    if device is not None:
        return _device(device)
    for p in parameters:
        if isinstance(p, _core.Tensor):
            return p.device
    return default_device() if generator.device is None else generator.device


def _floating(op, dtype, *parameters):
    """The real floating dtype of a result: the one asked for, that of the parameters, or float32."""
    if dtype is not None:
        dtype = dtype_from(dtype)
        if dtype.kind != "f":
            raise DTypeError(f"{op}: a real floating dtype is needed, got {dtype.name}")
        return dtype
    for p in parameters:
        if isinstance(p, _core.Tensor) and p.dtype.kind == "f":
            dtype = p.dtype if dtype is None else dtypes.result_type(dtype, p.dtype)
    return dtypes.float32 if dtype is None else dtype


def _shape(op, shape, *parameters):
    """The shape asked for, which the parameters must broadcast to, or theirs."""
    theirs = broadcast_shapes(*(p.shape for p in parameters if isinstance(p, _core.Tensor)))
    if shape is None:
        return theirs
    shape = creation.check_shape(op, shape)
    if theirs and broadcast_shapes(theirs, shape) != shape:
        raise ShapeError(f"{op}: parameters of shape {theirs} do not broadcast to the shape {shape}")
    return shape


def _parameter(op, name, value, above=None, least=None):
    """A parameter: a tensor, or a number that is checked."""
    if isinstance(value, _core.Tensor):
        if value.dtype.kind == "c":
            raise DTypeError(f"{op}: {name} must be real, got {value.dtype.name}")
        return value
    if hasattr(value, "__array__") and getattr(value, "ndim", 0):
        return creation.asarray(value)
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise DTypeError(f"{op}: {name} must be a number or a tensor, got {value!r}") from None
    if above is not None and not value > above:
        raise ValueError(f"{op}: {name} must be above {above}, got {value}")
    if least is not None and not value >= least:
        raise ValueError(f"{op}: {name} must be at least {least}, got {value}")
    return value


def _numel(shape):
    return math.prod(shape)


def _fill(op, kind, x, generator, **how):
    state = (default_generator if generator is None else generator)._state
    words = _core.random_words(kind, x.dtype, how.get("range", 0)) * (x.size + x.size % 2)
    seed, stream, first = state.take(words)
    if x.size:
        _core.random_fill(x, kind, seed, stream, first, op=op, **how)
    return x


def _new(op, kind, shape, dtype, device, generator, **how):
    x = _fill(op, kind, _core.empty(shape, dtype, device.number, False, op), generator, **how)
    _core.reset_version(x)
    return x


_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _below(high, low, dtype):
    """The largest number of a dtype below high, but at least low."""
    if not high > low:
        return math.inf
    if high == 0:
        return max(low, -dtypes.finfo(dtype).smallest_normal)
    fraction, exponent = math.frexp(high)
    limits = dtypes.finfo(dtype)
    least = limits.smallest_normal * limits.eps  # between subnormal numbers
    step = max(math.ldexp(1.0, exponent - _BITS[dtype.name]), least)
    down = math.floor(high / step) * step
    if down == high:
        down = high - max(step / 2 if fraction == 0.5 else step, least)
    return max(down, low)


def _uniform(op, shape, dtype, device, generator, low=0.0, high=1.0):
    return _new(op, "uniform", shape, dtype, device, generator, a=low, b=high - low, top=_below(high, low, dtype))


def _open(op, shape, dtype, device, generator):
    """Uniform in (0, 1]: its logarithm is finite. Halves are computed in float32."""
    wide = dtypes.float32 if dtype.itemsize == 2 else dtype
    return wide, 1.0 - _uniform(op, shape, wide, device, generator)


def _as(x, dtype):
    return x if x.dtype is dtype else _core.cast(x, dtype)


def _scaled(x, loc, scale, dtype):
    """loc + scale * x in the dtype, differentiable in loc and scale."""
    if isinstance(scale, _core.Tensor):
        x = x * _as(scale, x.dtype)
    elif scale != 1.0:
        x = x * scale
    if isinstance(loc, _core.Tensor):
        x = x + _as(loc, x.dtype)
    elif loc != 0.0:
        x = x + loc
    return _as(x, dtype)


def _placed(op, x, dtype, device):
    """What was made on the CPU, as a dtype on a device; counted there."""
    x = _as(x, dtype)
    if x.device is device:
        return x
    device.backend.on_host(op)
    return x.to(device)


def _own(generator):
    """A generator for one call, however many numbers it takes."""
    own = Generator(0)
    own._state.set(*(generator or default_generator)._state.derive(), 0)
    return own


# ---- bits, uniform, normal --------------------------------------------------------------------------


def bits(shape=(), *, dtype=None, device=None, generator=None):
    """Random bits: integers (uint32 by default) over the whole range of their dtype.

    >>> import tensorx as tx
    >>> tx.random.bits(4, generator=tx.random.Generator(0)).tolist()
    [1713891541, 3781805453, 3159862348, 2600524760]
    """
    dtype = dtypes.uint32 if dtype is None else dtype_from(dtype)
    if dtype.kind not in "iu":
        raise DTypeError(f"bits: an integer dtype is needed, got {dtype.name}")
    generator = generator or default_generator
    return _new("bits", "bits", creation.check_shape("bits", shape), dtype, _place(device, generator), generator)


def uniform(low=0.0, high=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Evenly distributed numbers, low <= x < high.

    Parameters
    ----------
    low, high : numbers or tensors
        The result is differentiable in tensors. ValueError where low > high.
    shape : int or tuple, optional
        By default the shape that low and high broadcast to.
    dtype : real floating DType, optional
        float32, or that of tensors. float16 and bfloat16 have 11 and 8 random bits.

    Examples
    --------
    >>> import tensorx as tx
    >>> tx.random.uniform(0.0, 1.0, 3, generator=tx.random.Generator(0)).tolist()
    [0.3990464210510254, 0.8805201649665833, 0.7357127666473389]
    """
    low, high = _parameter("uniform", "low", low), _parameter("uniform", "high", high)
    generator = generator or default_generator
    dtype, device = _floating("uniform", dtype, low, high), _place(device, generator, low, high)
    shape = _shape("uniform", shape, low, high)
    if isinstance(low, float) and isinstance(high, float):
        if not low <= high:
            raise ValueError(f"uniform: low must not be above high, got {low} and {high}")
        return _uniform("uniform", shape, dtype, device, generator, low, high)
    low, high = (_as(v, dtype) if isinstance(v, _core.Tensor) else v for v in (low, high))
    return low + _uniform("uniform", shape, dtype, device, generator) * (high - low)


def normal(loc=0.0, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Normally distributed numbers of mean loc and standard deviation scale.

    loc, scale: numbers or tensors, in which the result is differentiable; shape: theirs by default.

    >>> import tensorx as tx
    >>> x = tx.random.normal(5.0, 2.0, 100_000, generator=tx.random.Generator(0))
    >>> round(x.mean().item(), 1), round(x.std().item(), 1)
    (5.0, 2.0)
    """
    loc, scale = _parameter("normal", "loc", loc), _parameter("normal", "scale", scale, least=0.0)
    generator = generator or default_generator
    dtype, device = _floating("normal", dtype, loc, scale), _place(device, generator, loc, scale)
    shape = _shape("normal", shape, loc, scale)
    if isinstance(loc, float) and isinstance(scale, float):
        return _new("normal", "normal", shape, dtype, device, generator, a=loc, b=scale)
    return _scaled(_new("normal", "normal", shape, dtype, device, generator), loc, scale, dtype)


def standard_normal(shape=(), *, dtype=None, device=None, generator=None):
    """Normally distributed numbers of mean 0 and standard deviation 1.

    >>> import tensorx as tx
    >>> tx.random.standard_normal((2, 3)).shape
    (2, 3)
    """
    return normal(0.0, 1.0, shape, dtype=dtype, device=device, generator=generator)


def _sizes(shape):
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


def rand(*shape, dtype=None, device=None, generator=None):
    """Uniform numbers in [0, 1) of a shape given as ints or one tuple; see :func:`uniform`.

    >>> import tensorx as tx
    >>> tx.random.rand(2, 3).shape
    (2, 3)
    """
    return uniform(0.0, 1.0, _sizes(shape), dtype=dtype, device=device, generator=generator)


def randn(*shape, dtype=None, device=None, generator=None):
    """Standard normal numbers of a shape given as ints or one tuple; see :func:`normal`.

    >>> import tensorx as tx
    >>> tx.random.randn(2, 3).shape
    (2, 3)
    """
    return normal(0.0, 1.0, _sizes(shape), dtype=dtype, device=device, generator=generator)


# ---- integers and order -------------------------------------------------------------------------------


def integers(low, high=None, shape=(), *, dtype=None, endpoint=False, device=None, generator=None):
    """Integers, low <= x < high (or x <= high with endpoint=True); with one bound, 0 <= x < low. int64 by default.

    >>> import tensorx as tx
    >>> tx.random.integers(1, 7, 5, generator=tx.random.Generator(0)).tolist()
    [6, 4, 3, 1, 2]
    """
    if high is None:
        low, high = 0, low
    try:
        low, high = operator.index(low), operator.index(high)
    except TypeError:
        raise TypeError(f"integers: the bounds are ints, got {low!r} and {high!r}") from None
    dtype = dtypes.int64 if dtype is None else dtype_from(dtype)
    if dtype.kind not in "iu":
        raise DTypeError(f"integers: an integer dtype is needed, got {dtype.name}")
    last = high if endpoint else high - 1
    limits = dtypes.iinfo(dtype)
    if last < low:
        raise ValueError(f"integers: there is no integer from {low} up to {last}")
    if low < limits.min or last > limits.max:
        raise ValueError(f"integers: {low} to {last} does not fit into {dtype.name} ({limits.min} to {limits.max})")
    generator = generator or default_generator
    count = last - low + 1
    return _new("integers", "integers", creation.check_shape("integers", shape), dtype, _place(device, generator), generator,
                low=low & _MASK, range=count & _MASK)  # fmt: skip


def randint(low, high=None, shape=(), *, dtype=None, device=None, generator=None):
    """Integers, low <= x < high; see :func:`integers`.

    >>> import tensorx as tx
    >>> tx.random.randint(0, 10, (2, 3)).shape
    (2, 3)
    """
    return integers(low, high, shape, dtype=dtype, device=device, generator=generator)


def _order(n, generator, device):
    """0 .. n - 1 in random order, by exchanges that depend on one another: on the CPU, whatever the device."""
    state = (default_generator if generator is None else generator)._state
    return _placed("permutation", _core.permutation(n, *state.take((2 * n + 511) // 512 * 512)), dtypes.int64, device)


def permutation(x, /, *, axis=0, device=None, generator=None):
    """The numbers 0 .. n - 1 in random order (int64), or the slices of a tensor along an axis in random order: a copy.

    >>> import tensorx as tx
    >>> sorted(tx.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, _core.Tensor) and x.ndim:
        a = axis_of("permutation", axis, x.ndim)
        return take(x, _order(x.shape[a], generator, x.device), axis=a)
    n = operator.index(x)
    if n < 0:
        raise ValueError(f"permutation: the number of elements must not be negative, got {n}")
    return _order(n, generator, _place(device, generator or default_generator))


def randperm(n, /, *, dtype=None, device=None, generator=None):
    """The numbers 0 .. n - 1 in random order; see :func:`permutation`.

    >>> import tensorx as tx
    >>> tx.random.randperm(5).shape
    (5,)
    """
    out = permutation(operator.index(n), device=device, generator=generator)
    return out if dtype is None else _as(out, dtype_from(dtype))


def shuffle(x, /, *, axis=0, generator=None):
    """Puts the slices of a tensor along an axis in random order, in place; returns x.

    >>> import tensorx as tx
    >>> x = tx.arange(4)
    >>> sorted(tx.random.shuffle(x).tolist())
    [0, 1, 2, 3]
    """
    return x.copy_(permutation(x, axis=axis, generator=generator))


def choice(a, shape=(), *, replace=True, p=None, axis=0, device=None, generator=None):
    """Random elements of a tensor along an axis, or of 0 .. a - 1 for an int.

    Parameters
    ----------
    a : int or Tensor
    shape : int or tuple
        Replaces the axis.
    replace : bool
        Whether an element may be drawn more than once. ValueError where there are too few without.
    p : sequence or tensor of weights, optional

    Examples
    --------
    >>> import tensorx as tx
    >>> sorted(tx.random.choice(3, 3, replace=False).tolist())
    [0, 1, 2]
    """
    whole = isinstance(a, _core.Tensor) and a.ndim > 0
    n = a.shape[axis_of("choice", axis, a.ndim)] if whole else operator.index(a)
    shape = creation.check_shape("choice", shape)
    k = _numel(shape)
    if n <= 0 and k:
        raise ValueError("choice: there is nothing to choose from")
    place = a.device if whole else _place(device, generator or default_generator)
    if p is not None:
        weights = p.to("cpu", copy=False) if isinstance(p, _core.Tensor) else creation.asarray(p, dtype=dtypes.float64, device="cpu")
        if weights.shape != (n,):
            raise ShapeError(f"choice: p must have shape ({n},), got {weights.shape}")
        picked = _placed("choice", multinomial(weights, k, replacement=replace, generator=generator), dtypes.int64, place)
    elif replace:
        picked = integers(0, max(n, 1), k, device=place, generator=generator)
    else:
        if k > n:
            raise ValueError(f"choice: {k} of {n} elements cannot be drawn without replacement")
        picked = _placed("permutation", _order(n, generator, _device("cpu"))[:k].copy(), dtypes.int64, place)
    picked = picked.reshape(shape)
    return take(a, picked, axis=axis) if whole else picked


# ---- yes and no, categories ------------------------------------------------------------------------------


def bernoulli(p=0.5, shape=None, *, dtype=None, device=None, generator=None):
    """True (1 in other dtypes) with probability p, a number or tensor of them; bool by default.

    >>> import tensorx as tx
    >>> tx.random.bernoulli(1.0, 3).tolist()
    [True, True, True]
    """
    p = _parameter("bernoulli", "p", p, least=0.0)
    dtype = dtypes.bool if dtype is None else dtype_from(dtype)
    generator = generator or default_generator
    device, shape = _place(device, generator, p), _shape("bernoulli", shape, p)
    if isinstance(p, float):
        if p > 1.0:
            raise ValueError(f"bernoulli: p must be at most 1, got {p}")
        return _new("bernoulli", "bernoulli", shape, dtype, device, generator, a=p, value=True)
    wide = p.dtype if p.dtype is dtypes.float64 else dtypes.float32
    return _as(_uniform("bernoulli", shape, wide, device, generator) < _as(p.detach(), wide), dtype)


def dropout_mask(shape, p, *, dtype=None, device=None, generator=None):
    """Factors for dropout: 0 with probability p, else 1 / (1 - p).

    >>> import tensorx as tx
    >>> set(tx.random.dropout_mask(1000, 0.5).tolist()) == {0.0, 2.0}
    True
    """
    p = float(p)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout_mask: p must lie between 0 and 1, got {p}")
    generator = generator or default_generator
    dtype, device = _floating("dropout_mask", dtype), _place(device, generator)
    return _new("dropout_mask", "bernoulli", creation.check_shape("dropout_mask", shape), dtype, device, generator,
                a=1.0 - p, value=1.0 / (1.0 - p) if p < 1.0 else 0.0)  # fmt: skip


# ---- in place ---------------------------------------------------------------------------------------------------


def _write(op, x, make, kind, generator, **how):
    """Fills x: directly where it is dense or a kernel of its device does it, and nobody wants its history; else through a tensor of its own."""
    if not _core.recording((x,)):
        _core.random_ready(x, op)
        if _core.random_kernel(kind, x.dtype, x.device.number):
            return _fill(op, kind, x, generator, **how)
        if kind != "exponential" and x.is_contiguous():
            _core.prepare_write(x, op)
            return _fill(op, kind, x, generator, **how)
    return x.copy_(make())


def _real(op, x):
    if x.dtype.kind != "f":
        raise DTypeError(f"{op}: a real floating tensor is needed, got {x.dtype.name}")


def uniform_(self, low=0.0, high=1.0, *, generator=None):
    """Fills the tensor with uniform numbers, low <= x < high; returns it."""
    _real("uniform_", self)
    low, high = float(low), float(high)
    if not low <= high:
        raise ValueError(f"uniform_: low must not be above high, got {low} and {high}")
    return _write("uniform_", self, lambda: uniform(low, high, self.shape, dtype=self.dtype, device=self.device, generator=generator),
                  "uniform", generator, a=low, b=high - low, top=_below(high, low, self.dtype))  # fmt: skip


def normal_(self, loc=0.0, scale=1.0, *, generator=None):
    """Fills the tensor with normal numbers of mean loc and standard deviation scale; returns it."""
    _real("normal_", self)
    loc, scale = float(loc), _parameter("normal_", "scale", float(scale), least=0.0)
    return _write("normal_", self, lambda: normal(loc, scale, self.shape, dtype=self.dtype, device=self.device, generator=generator),
                  "normal", generator, a=loc, b=scale)  # fmt: skip


def bernoulli_(self, p=0.5, *, generator=None):
    """Fills the tensor with ones with probability p (a number or tensor) and zeros; returns it."""
    if isinstance(p, _core.Tensor):
        return self.copy_(bernoulli(p, self.shape, dtype=self.dtype, generator=generator))
    p = float(p)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"bernoulli_: p must lie between 0 and 1, got {p}")
    return _write("bernoulli_", self, lambda: bernoulli(p, self.shape, dtype=self.dtype, device=self.device, generator=generator),
                  "bernoulli", generator, a=p, value=True)  # fmt: skip


def exponential_(self, scale=1.0, *, generator=None):
    """Fills the tensor with exponentially distributed numbers of mean scale; returns it."""
    _real("exponential_", self)
    scale = _parameter("exponential_", "scale", float(scale), least=0.0)
    return _write("exponential_", self, lambda: exponential(scale, self.shape, dtype=self.dtype, device=self.device, generator=generator),
                  "exponential", generator, a=-0.0, b=scale)  # fmt: skip


for _f in (uniform_, normal_, bernoulli_, exponential_):
    _core.add_method(_f.__name__, _f)


# at the end: they are made of the functions above
from tensorx.ops.distributions import (  # noqa: E402
    beta,
    binomial,
    categorical,
    cauchy,
    chisquare,
    dirichlet,
    exponential,
    gamma,
    geometric,
    gumbel,
    laplace,
    logistic,
    lognormal,
    multinomial,
    poisson,
    standard_t,
    truncated_normal,
    weibull,
)  # fmt: skip


def _method(function):
    import functools

    @functools.wraps(function)
    def method(self, *args, **kwargs):
        return function(*args, generator=self, **kwargs)

    return method


for _name in __all__:
    if _name not in ("Generator", "default_generator", "manual_seed", "seed"):
        setattr(Generator, _name, _method(globals()[_name]))
del _name, _f
