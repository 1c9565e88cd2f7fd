"""Distributions that :mod:`tensorx.random` derives from uniform and normal numbers; it exports them."""

from __future__ import annotations

import math
import operator

from tensorx import _core, dtypes
from tensorx.device import device as _device
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import creation, elementwise, reduce
from tensorx.ops.movement import axis_of, broadcast_shapes
from tensorx.random import (
    _as,
    _floating,
    _new,
    _numel,
    _open,
    _own,
    _parameter,
    _place,
    _placed,
    _scaled,
    _shape,
    _uniform,
    default_generator,
    normal,
)  # fmt: skip

__all__ = [
    "beta", "binomial", "categorical", "cauchy", "chisquare", "dirichlet", "exponential", "gamma", "geometric", "gumbel",
    "laplace", "logistic", "lognormal", "multinomial", "poisson", "standard_t", "truncated_normal", "weibull",
]  # fmt: skip


def truncated_normal(low=-2.0, high=2.0, shape=(), *, loc=0.0, scale=1.0, dtype=None, device=None, generator=None):
    """Normal numbers of mean loc and deviation scale, conditional on low <= x <= high (numbers; infinite ones may be given).

    >>> import tensorx as tx
    >>> bool(tx.all(tx.abs(tx.random.truncated_normal(-1.0, 1.0, 1000)) <= 1.0))
    True
    """
    import numpy as np

    low, high, loc = (_parameter("truncated_normal", n, v) for n, v in (("low", low), ("high", high), ("loc", loc)))
    scale = _parameter("truncated_normal", "scale", scale, above=0.0)
    if any(isinstance(v, _core.Tensor) for v in (low, high, loc, scale)):
        raise TypeError("truncated_normal: low, high, loc and scale must be numbers")
    if not low < high:
        raise ValueError(f"truncated_normal: low must be below high, got {low} and {high}")
    generator = generator or default_generator
    dtype, device = _floating("truncated_normal", dtype), _place(device, generator)
    shape = creation.check_shape("truncated_normal", shape)
    a, b = (low - loc) / scale, (high - loc) / scale
    flip = a + b > 0 if math.isfinite(a + b) else a > -b
    if flip:  # the lower tail has the finer numbers
        a, b = -b, -a
    if b < -5.0:
        x = _normal_tail(a, b, shape, generator)
    else:
        ca, cb = (0.5 * math.erfc(-v / math.sqrt(2.0)) for v in (a, b))
        u = ca + (cb - ca) * (1.0 - _uniform("truncated_normal", shape, dtypes.float64, _device("cpu"), generator))
        x = np.clip(np.asarray(memoryview(elementwise.erfinv(2.0 * u - 1.0) * math.sqrt(2.0))), a, b)
    x = np.clip((-x if flip else x) * scale + loc, low, high)
    return _placed("truncated_normal", creation.asarray(np.asarray(x), device="cpu"), dtype, device)


def _normal_tail(a, b, shape, generator):
    """Standard normal numbers between a and b < -5 (Marsaglia 1964), as a NumPy array."""
    import numpy as np

    own = _own(generator)
    out, near, far = np.empty(_numel(shape)), -b, -a
    edge = math.exp(0.5 * (near * near - far * far)) if math.isfinite(far) else 0.0
    todo = np.arange(out.size)
    while todo.size:
        u = np.asarray(memoryview(_uniform("truncated_normal", (2, todo.size), dtypes.float64, _device("cpu"), own)))
        x = np.sqrt(near * near - 2.0 * np.log(edge + (1.0 - edge) * (1.0 - u[0])))
        good = u[1] * x < near
        out[todo[good]] = -x[good]
        todo = todo[~good]
    return out.reshape(shape)


# ---- by inversion: elementwise from uniforms --------------------------------------------------------------


def _inverse(op, shape, dtype, device, generator, function, loc, scale, exponent=1.0):
    """loc + scale * function(u). A device makes it at once where these are numbers, else function(u)."""
    generator = generator or default_generator
    dtype, device = _floating(op, dtype, loc, scale), _place(device, generator, loc, scale)
    shape = _shape(op, shape, loc, scale)
    if isinstance(exponent, float) and _core.random_kernel(op, dtype, device.number):
        if isinstance(loc, float) and isinstance(scale, float):
            return _new(op, op, shape, dtype, device, generator, a=loc if loc else -0.0, b=scale, top=exponent)  # x + -0.0 is x, -0.0 too
        wide = dtypes.float32
        x = _new(op, op, shape, wide, device, generator, a=-0.0, top=exponent)
    else:
        wide, u = _open(op, shape, dtype, device, generator)
        x = function(u)
    return _scaled(x, loc, scale, dtype)


def exponential(scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Exponentially distributed numbers of mean scale.

    >>> import tensorx as tx
    >>> round(tx.random.exponential(3.0, 100_000, generator=tx.random.Generator(0)).mean().item(), 1)
    3.0
    """
    scale = _parameter("exponential", "scale", scale, least=0.0)
    return _inverse("exponential", shape, dtype, device, generator, lambda u: -elementwise.log(u), 0.0, scale)


def laplace(loc=0.0, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Laplace distributed numbers: density exp(-|x - loc| / scale) / (2 scale).

    >>> import tensorx as tx
    >>> tx.random.laplace(0.0, 1.0, 3).shape
    (3,)
    """
    loc, scale = _parameter("laplace", "loc", loc), _parameter("laplace", "scale", scale, least=0.0)

    def inverse(u):
        v = u - 0.5
        return elementwise.sign(v) * -elementwise.log(elementwise.maximum(1.0 - 2.0 * elementwise.abs(v), dtypes.finfo(u.dtype).smallest_normal))

    return _inverse("laplace", shape, dtype, device, generator, inverse, loc, scale)


def logistic(loc=0.0, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Logistically distributed numbers: their distribution function is sigmoid((x - loc) / scale).

    >>> import tensorx as tx
    >>> tx.random.logistic(0.0, 1.0, 3).shape
    (3,)
    """
    loc, scale = _parameter("logistic", "loc", loc), _parameter("logistic", "scale", scale, least=0.0)

    def inverse(u):
        return elementwise.log(u) - elementwise.log(elementwise.maximum(1.0 - u, dtypes.finfo(u.dtype).eps / 4))

    return _inverse("logistic", shape, dtype, device, generator, inverse, loc, scale)


def cauchy(loc=0.0, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Cauchy distributed numbers: density 1 / (pi scale (1 + ((x - loc) / scale)**2)).

    >>> import tensorx as tx
    >>> tx.random.cauchy(0.0, 1.0, 3).shape
    (3,)
    """
    loc, scale = _parameter("cauchy", "loc", loc), _parameter("cauchy", "scale", scale, least=0.0)
    return _inverse("cauchy", shape, dtype, device, generator, lambda u: elementwise.tan((u - 0.5) * math.pi), loc, scale)


def gumbel(loc=0.0, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Gumbel distributed numbers: their distribution function is exp(-exp(-(x - loc) / scale)).

    >>> import tensorx as tx
    >>> tx.random.gumbel(0.0, 1.0, 3).shape
    (3,)
    """
    loc, scale = _parameter("gumbel", "loc", loc), _parameter("gumbel", "scale", scale, least=0.0)

    def inverse(u):
        return -elementwise.log(elementwise.maximum(-elementwise.log(u), dtypes.finfo(u.dtype).eps / 4))

    return _inverse("gumbel", shape, dtype, device, generator, inverse, loc, scale)


def weibull(a, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Weibull distributed numbers of exponent a: scale * (-log u)**(1 / a).

    >>> import tensorx as tx
    >>> tx.random.weibull(2.0, 1.0, 3).shape
    (3,)
    """
    a, scale = _parameter("weibull", "a", a, above=0.0), _parameter("weibull", "scale", scale, least=0.0)
    shape = _shape("weibull", shape, a, scale)
    device = _place(device, generator or default_generator, a, scale)
    dtype = _floating("weibull", dtype, a, scale)
    exponent = 1.0 / (_as(a, dtypes.float32 if dtype.itemsize == 2 else dtype) if isinstance(a, _core.Tensor) else a)
    return _inverse("weibull", shape, dtype, device, generator, lambda u: (-elementwise.log(u)) ** exponent, 0.0, scale, exponent)


def lognormal(mean=0.0, sigma=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Numbers whose logarithm is normal, of mean and standard deviation sigma.

    >>> import tensorx as tx
    >>> tx.random.lognormal(0.0, 1.0, 3).shape
    (3,)
    """
    mean, sigma = _parameter("lognormal", "mean", mean), _parameter("lognormal", "sigma", sigma, least=0.0)
    generator = generator or default_generator
    dtype, device = _floating("lognormal", dtype, mean, sigma), _place(device, generator, mean, sigma)
    if isinstance(mean, float) and isinstance(sigma, float) and _core.random_kernel("lognormal", dtype, device.number):
        return _new("lognormal", "lognormal", _shape("lognormal", shape), dtype, device, generator, a=mean, b=sigma)
    return elementwise.exp(normal(mean, sigma, shape, dtype=dtype, device=device, generator=generator))


def geometric(p, shape=None, *, device=None, generator=None):
    """How many trials of probability p up to the first success: int64, at least 1.

    >>> import tensorx as tx
    >>> tx.random.geometric(1.0, 3).tolist()
    [1, 1, 1]
    """
    p = _parameter("geometric", "p", p, above=0.0)
    generator = generator or default_generator
    device, shape = _place(device, generator, p), _shape("geometric", shape, p)
    if isinstance(p, float) and not p <= 1.0:
        raise ValueError(f"geometric: p must lie above 0 and not above 1, got {p}")
    cpu = _device("cpu")
    _, u = _open("geometric", shape, dtypes.float64, cpu, generator)
    rate = math.log1p(-p) if isinstance(p, float) and p < 1.0 else -math.inf if isinstance(p, float) else \
        elementwise.log1p(-_as(p.detach().to(cpu), dtypes.float64))  # fmt: skip
    return _placed("geometric", elementwise.maximum(elementwise.ceil(elementwise.log(u) / rate), 1.0), dtypes.int64, device)


# ---- with rejection: on the CPU -----------------------------------------------------------------------------


def _dense(p, shape):
    """A parameter as the samplers read it: float64, of one element or the whole shape."""
    cpu = _device("cpu")
    if not isinstance(p, _core.Tensor):
        return creation.full((), p, dtype=dtypes.float64, device=cpu)
    p = _as(p.detach().to(cpu, copy=False), dtypes.float64)
    if p.size != 1 and p.shape != shape:
        p = _core.broadcast_view(p, shape)
    return p.contiguous()


def _draws(op, kind, shape, generator, p, q=None):
    out = _core.empty(shape, dtypes.float64, 0)
    seed, stream = (generator or default_generator)._state.derive()
    if out.size:
        _core.random_fill(out, kind, seed, stream, 0, p=_dense(p, shape), q=None if q is None else _dense(q, shape), op=op)
        _core.reset_version(out)
    return out


def _checked(op, name, p, good):
    """Whether all elements of a tensor parameter are allowed."""
    if isinstance(p, _core.Tensor) and not bool(reduce.all(good(p.detach()))):
        raise ValueError(f"{op}: some elements of {name} are out of range")
    return p


def gamma(alpha, scale=1.0, shape=None, *, dtype=None, device=None, generator=None):
    """Gamma distributed numbers: density x**(alpha - 1) exp(-x / scale), without its factor; differentiable in scale.

    >>> import tensorx as tx
    >>> round(tx.random.gamma(2.0, 3.0, 100_000, generator=tx.random.Generator(0)).mean().item(), 1)
    6.0
    """
    alpha, scale = _parameter("gamma", "alpha", alpha, least=0.0), _parameter("gamma", "scale", scale, least=0.0)
    _checked("gamma", "alpha", alpha, lambda t: t >= 0)
    dtype, device = _floating("gamma", dtype, alpha, scale), _place(device, generator or default_generator, alpha, scale)
    x = _draws("gamma", "gamma", _shape("gamma", shape, alpha, scale), generator, alpha)
    return _scaled(_placed("gamma", x, dtype, device), 0.0, scale, dtype)


def chisquare(df, shape=None, *, dtype=None, device=None, generator=None):
    """Sums of the squares of df standard normal numbers.

    >>> import tensorx as tx
    >>> tx.random.chisquare(3.0, 4).shape
    (4,)
    """
    half = _parameter("chisquare", "df", df, above=0.0) * 0.5
    return gamma(half, 2.0, shape, dtype=dtype, device=device, generator=generator)


def standard_t(df, shape=None, *, dtype=None, device=None, generator=None):
    """Numbers of Student's distribution with df degrees of freedom.

    >>> import tensorx as tx
    >>> tx.random.standard_t(3.0, 4).shape
    (4,)
    """
    half = _parameter("standard_t", "df", df, above=0.0) * 0.5
    shape = _shape("standard_t", shape, half)
    g = gamma(half, 1.0, shape, dtype=dtype, device=device, generator=generator)
    z = normal(0.0, 1.0, shape, dtype=g.dtype, device=g.device, generator=generator)
    return z * elementwise.sqrt(_as(half, g.dtype) / g if isinstance(half, _core.Tensor) else half / g)


def beta(a, b, shape=None, *, dtype=None, device=None, generator=None):
    """Beta distributed numbers: density x**(a - 1) (1 - x)**(b - 1), without its factor.

    >>> import tensorx as tx
    >>> round(tx.random.beta(2.0, 2.0, 100_000, generator=tx.random.Generator(0)).mean().item(), 1)
    0.5
    """
    a, b = _parameter("beta", "a", a, above=0.0), _parameter("beta", "b", b, above=0.0)
    for name, p in (("a", a), ("b", b)):
        _checked("beta", name, p, lambda t: t > 0)
    dtype, device = _floating("beta", dtype, a, b), _place(device, generator or default_generator, a, b)
    shape = _shape("beta", shape, a, b)
    x, y = (_draws("beta", "gamma", shape, generator, p) for p in (a, b))
    total = x + y
    # both may underflow for tiny a and b: then one of the ends, as their sizes say
    least = _uniform("beta", shape, dtypes.float64, _device("cpu"), generator)
    first, second = (_as(p.detach().to("cpu", copy=False), dtypes.float64) if isinstance(p, _core.Tensor) else p for p in (a, b))
    end = _as(least * (first + second) < first, dtypes.float64)
    return _placed("beta", elementwise.where(total > 0, x / elementwise.where(total > 0, total, 1.0), end), dtype, device)


def dirichlet(alpha, shape=(), *, dtype=None, device=None, generator=None):
    """Dirichlet distributed numbers: they sum to one along the last axis. shape comes before that of alpha.

    >>> import tensorx as tx
    >>> x = tx.random.dirichlet(tx.asarray([1.0, 2.0, 3.0]), 4)
    >>> x.shape, bool(tx.all(tx.abs(tx.sum(x, axis=-1) - 1.0) < 1e-5))
    ((4, 3), True)
    """
    alpha = alpha if isinstance(alpha, _core.Tensor) else creation.asarray(alpha)
    if alpha.ndim == 0 or alpha.shape[-1] == 0:
        raise ShapeError(f"dirichlet: alpha needs a last axis with elements, got shape {alpha.shape}")
    _checked("dirichlet", "alpha", alpha, lambda t: t > 0)
    dtype, device = _floating("dirichlet", dtype, alpha), _place(device, generator or default_generator, alpha)
    full = (*creation.check_shape("dirichlet", shape), *alpha.shape)
    x = _draws("dirichlet", "gamma", full, generator, alpha)
    total = reduce.sum(x, axis=-1, keepdims=True)
    return _placed("dirichlet", elementwise.where(total > 0, x / elementwise.where(total > 0, total, 1.0), 1.0 / full[-1]), dtype, device)


def poisson(lam=1.0, shape=None, *, device=None, generator=None):
    """Poisson distributed counts of mean lam: int64.

    >>> import tensorx as tx
    >>> tx.random.poisson(0.0, 3).tolist()
    [0, 0, 0]
    """
    lam = _parameter("poisson", "lam", lam, least=0.0)
    _checked("poisson", "lam", lam, lambda t: t >= 0)
    if isinstance(lam, float) and lam > 9.2e18:
        raise ValueError(f"poisson: lam {lam} is too large for int64")
    device = _place(device, generator or default_generator, lam)
    return _placed("poisson", _draws("poisson", "poisson", _shape("poisson", shape, lam), generator, lam), dtypes.int64, device)


def binomial(n, p, shape=None, *, device=None, generator=None):
    """How many of n trials of probability p succeed: int64.

    >>> import tensorx as tx
    >>> tx.random.binomial(10, 1.0, 3).tolist()
    [10, 10, 10]
    """
    n, p = _parameter("binomial", "n", n, least=0.0), _parameter("binomial", "p", p, least=0.0)
    _checked("binomial", "n", n, lambda t: t >= 0)
    _checked("binomial", "p", p, lambda t: elementwise.logical_and(t >= 0, t <= 1))
    if isinstance(p, float) and not p <= 1.0:
        raise ValueError(f"binomial: p must lie between 0 and 1, got {p}")
    if isinstance(n, float) and n != math.floor(n):
        raise ValueError(f"binomial: n must be a whole number, got {n}")
    device = _place(device, generator or default_generator, n, p)
    return _placed("binomial", _draws("binomial", "binomial", _shape("binomial", shape, n, p), generator, n, p), dtypes.int64, device)


# ---- categories ----------------------------------------------------------------------------------------


def multinomial(weights, num_samples, replacement=False, *, generator=None):
    """Positions along the last axis, drawn with probability in proportion to weights: int64 of shape ``(..., num_samples)``.

    ValueError where weights are negative, NaN, infinite or all zero, or fewer are positive than are to be drawn without
    replacement.

    >>> import tensorx as tx
    >>> tx.random.multinomial(tx.asarray([0.0, 1.0, 0.0]), 2, replacement=True).tolist()
    [1, 1]
    """
    import numpy as np

    if not isinstance(weights, _core.Tensor) or weights.dtype.kind not in "biuf" or weights.ndim == 0:
        raise DTypeError("multinomial: weights must be a real tensor with at least one axis")
    k = operator.index(num_samples)
    device = weights.device
    w = np.asarray(_core.reader(_as(weights.detach().to("cpu", copy=False), dtypes.float64)))
    if k < 0:
        raise ValueError(f"multinomial: num_samples must not be negative, got {k}")
    if not np.all(np.isfinite(w)) or np.any(w < 0) or (w.size and np.any(w.sum(-1) <= 0)):
        raise ValueError("multinomial: weights must be finite, not negative, and not all zero in any row")
    if k and w.shape[-1] == 0:
        raise ValueError("multinomial: there is nothing to draw from")
    generator = generator or default_generator
    lead = w.shape[:-1]
    if replacement:
        u = np.asarray(memoryview(_uniform("multinomial", (*lead, k), dtypes.float64, _device("cpu"), generator)))
        edges = np.cumsum(w, axis=-1)
        out = np.empty((*lead, k), np.int64)
        for at in np.ndindex(lead):
            last = np.flatnonzero(w[at])[-1] if k else 0
            out[at] = np.minimum(np.searchsorted(edges[at], u[at] * edges[at][-1], side="right"), last)
    else:
        if np.any(np.count_nonzero(w, axis=-1) < k):
            raise ValueError(f"multinomial: {k} positions cannot be drawn without replacement, there are fewer positive weights")
        u = 1.0 - np.asarray(memoryview(_uniform("multinomial", w.shape, dtypes.float64, _device("cpu"), generator)))
        with np.errstate(divide="ignore"):  # the first of exponential clocks (Efraimidis, Spirakis 2006)
            clocks = np.where(w > 0, -np.log(u) / w, np.inf)
        out = np.argsort(clocks, axis=-1, kind="stable")[..., :k]
    return _placed("multinomial", creation.asarray(np.ascontiguousarray(out), device="cpu"), dtypes.int64, device)


def categorical(logits, shape=None, *, axis=-1, generator=None):
    """Positions along an axis, drawn with probabilities softmax(logits), by the Gumbel trick: int64.

    shape: of the result; by default one position for each row.

    >>> import tensorx as tx
    >>> tx.random.categorical(tx.asarray([[0.0, 100.0], [100.0, 0.0]])).tolist()
    [1, 0]
    """
    if not isinstance(logits, _core.Tensor) or logits.ndim == 0:
        raise DTypeError("categorical: logits must be a tensor with at least one axis")
    a = axis_of("categorical", axis, logits.ndim)
    rows = (*logits.shape[:a], *logits.shape[a + 1 :])
    shape = rows if shape is None else creation.check_shape("categorical", shape)
    lead = len(shape) - len(rows)
    if lead < 0 or broadcast_shapes(rows, shape) != shape:
        raise ShapeError(f"categorical: rows of shape {rows} do not broadcast to the shape {shape}")
    full = (*shape[: lead + a], logits.shape[a], *shape[lead + a :])
    noise = gumbel(0.0, 1.0, full, dtype=logits.dtype if logits.dtype.kind == "f" else None, device=logits.device, generator=generator)
    return reduce.argmax(_as(logits.detach(), noise.dtype) + noise, axis=lead + a)
