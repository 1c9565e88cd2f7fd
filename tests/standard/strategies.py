"""Arrays for differential tests: any dtype, shape and layout, a tensor and the equal NumPy array.

Shapes, dtypes and layouts are drawn by Hypothesis; the values come from a generator whose seed is drawn, with special values mixed in.
"""

import os

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import tensorx as tx

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
ALL = BOOL + NUMERIC

# TENSORX_EXAMPLES=1000 by hand, few in every run
EXAMPLES = int(os.environ.get("TENSORX_EXAMPLES", "12"))
few = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize="TENSORX_EXAMPLES" not in os.environ, suppress_health_check=list(HealthCheck)
)

shapes = st.lists(st.sampled_from([0, 1, 1, 2, 3, 3, 4, 5]), max_size=4).map(tuple)
shapes_1 = st.lists(st.sampled_from([0, 1, 2, 3, 4, 5]), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def values(rng, dtype, shape, low=None, high=None, special=True):
    """An array of a dtype and shape; low and high bound it, special mixes in zeros, infinities and NaN."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = rng.random() < 0.5
        lo = info.min if low is None else max(low, info.min)
        hi = info.max if high is None else min(high, info.max)
        if small and low is None and high is None:
            lo, hi = max(-5, info.min), 5
        return rng.integers(lo, hi, shape, dtype=dtype, endpoint=True)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        out = np.empty(shape, dtype)
        out.real, out.imag = values(rng, part, shape, low, high, special), values(rng, part, shape, low, high, special)
        return out
    a = rng.uniform(-4 if low is None else low, 4 if high is None else high, shape).astype(dtype)
    if special:
        pick = rng.random(shape)
        for k, v in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5)):
            if (low is None or v >= low) and (high is None or v <= high):
                a = np.where((pick > 0.05 * k) & (pick < 0.05 * (k + 1)), dtype.type(v), a)
    return a.astype(dtype)


def laid_out(draw, a):
    """(tensor, array) of equal values, as a view with other strides: transposed, reversed, every second, broadcast."""
    recipe = draw(st.sampled_from(["plain", "plain", "transposed", "reversed", "stepped", "offset", "pending"]))
    if recipe == "transposed":
        axes = draw(st.permutations(range(a.ndim)))
        back = tuple(axes.index(i) for i in range(a.ndim))
        x = tx.permute_dims(tx.asarray(a.transpose(axes).copy(order="C")), back)
    elif recipe == "reversed":
        x = tx.flip(tx.asarray(np.flip(a).copy()))
    elif recipe == "stepped" and a.ndim:
        wide = np.repeat(a, 2, axis=-1)
        x = tx.asarray(wide)[..., ::2]
    elif recipe == "offset" and a.ndim:
        x = tx.asarray(np.concatenate([a[:1], a]))[a[:1].shape[0] :]
    elif recipe == "pending":
        x = tx.asarray(a).copy()
    else:
        x = tx.asarray(a)
    return x, a


@st.composite
def pairs(draw, dtypes=ALL, shape=shapes, low=None, high=None, special=True):
    """A tensor and the equal array."""
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(seeds))
    return laid_out(draw, values(rng, dtype, draw(shape) if hasattr(shape, "example") else shape, low, high, special))


def broadcasting(draw, shape):
    """A shape that broadcasts with another."""
    keep = draw(st.integers(0, len(shape)))
    out = [s if draw(st.booleans()) else 1 for s in shape[len(shape) - keep :]]
    return tuple(out)


def axis_of(draw, ndim, none=True):
    options = ([st.none()] if none else []) + ([st.integers(-ndim, ndim - 1)] if ndim else [])
    return draw(st.one_of(*options))


def axes_of(draw, ndim):
    """None, an axis, or several different ones, negative ones among them."""
    choice = draw(st.sampled_from(["none", "one", "many"]))
    if choice == "none" or not ndim:
        return None
    if choice == "one":
        return draw(st.integers(-ndim, ndim - 1))
    chosen = draw(st.lists(st.integers(0, ndim - 1), unique=True, max_size=ndim))
    return tuple(a - ndim if draw(st.booleans()) else a for a in chosen)


TOLERANCE = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-13, "complex64": 8e-6, "complex128": 2e-13}


def array(x):
    """The values of a tensor, checked to be consistent with what it says of itself."""
    assert isinstance(x, tx.Tensor)
    a = np.asarray(x)
    assert a.shape == x.shape and a.dtype.name == x.dtype.name and a.size == x.size and a.ndim == x.ndim
    return a


def same(x, want, exact=True, scale=None):
    """x has the dtype, shape and values of want, NaN where it has; exact or within the dtype's tolerance of scale (or the value)."""
    got, want = array(x), np.asarray(want)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if exact or got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    tolerance = TOLERANCE[got.dtype.name]
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), np.abs(got)) if scale is None else np.maximum(np.abs(want), scale)
        good = (np.abs(got - want) <= tolerance * size) | (got == want) | (np.isnan(got) & np.isnan(want))
        if got.dtype.kind == "c":
            good |= ~np.isfinite(got) & ~np.isfinite(want)
    assert good.all(), (got, want)


def wide(a):
    """The array in twice its precision, as a reference's argument."""
    return a.astype({"float16": "f8", "float32": "f8", "complex64": "c16"}.get(a.dtype.name, a.dtype))
