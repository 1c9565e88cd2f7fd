"""Every function of the standard against NumPy, on random arrays of every dtype, shape and layout.

A few examples each in every run; ``TENSORX_EXAMPLES=1000 pytest tests/standard/test_differential.py`` for many.
"""

import math

import numpy as np
import pytest
import specification as spec
import strategies as make
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import ALL, COMPLEX, FLOATS, INTEGERS, NUMERIC, REAL, SIGNED, array, few, same, wide

import tensorx as tx

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
if not hasattr(np, "cumulative_sum"):
    pytest.skip("the reference is NumPy 2.1 or newer", allow_module_level=True)

FLOATING = FLOATS + COMPLEX
EXACT = {
    "abs": NUMERIC, "bitwise_invert": ["bool", *INTEGERS], "ceil": REAL, "conj": NUMERIC, "floor": REAL, "imag": COMPLEX, "isfinite": NUMERIC,
    "isinf": NUMERIC, "isnan": NUMERIC, "logical_not": ["bool"], "negative": NUMERIC, "positive": NUMERIC, "real": NUMERIC, "reciprocal": FLOATS,
    "round": NUMERIC, "sign": REAL, "signbit": FLOATS, "square": REAL, "sqrt": FLOATS, "trunc": REAL,
}  # fmt: skip
APPROXIMATE = [n for n in spec.ELEMENTWISE_ONE if n not in EXACT]


def is_complex(a):
    return a.dtype.kind == "c"


@pytest.mark.parametrize("name", EXACT)
@few
@given(st.data())
def test_exact_one(name, data):
    x, a = data.draw(make.pairs(EXACT[name]))
    # integers stay integers; NumPy's abs of complex is hypot
    want = a if a.dtype.kind in "iu" and name in ("ceil", "floor", "round", "trunc") else getattr(np, name)(a)
    same(getattr(tx, name)(x), want, exact=not is_complex(a) or name not in ("abs",))


@pytest.mark.parametrize("name", [*APPROXIMATE, "sqrt", "square", "sign", "reciprocal"])
@few
@given(st.data())
def test_approximate_one(name, data):
    complexes = name not in ("cbrt",)
    low, high = {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-1, 1), "acosh": (1, 30)}.get(name, (None, None))
    x, a = data.draw(make.pairs(FLOATS, low=low, high=high) | (make.pairs(COMPLEX, special=False) if complexes else st.nothing()))
    want = getattr(np, name)(wide(a)) if name != "reciprocal" else 1 / wide(a)
    # a phase that is nearly 0 or a multiple of pi is as exact as the whole number
    same(getattr(tx, name)(x), want.astype(a.dtype), exact=False)


def two(data, kinds, low=None, high=None, special=True):
    """Two operands that promote and broadcast."""
    a_dtype = data.draw(st.sampled_from(kinds), label="dtype")
    shape = data.draw(make.shapes)
    family = [d for d in kinds if a_dtype == d or spec.promoted(a_dtype, d)]
    b_dtype = data.draw(st.sampled_from(family), label="other dtype")
    rng = np.random.default_rng(data.draw(make.seeds))
    a = make.values(rng, a_dtype, shape, low, high, special)
    b = make.values(rng, b_dtype, make.broadcasting(data.draw, shape), low, high, special)
    x, a = make.laid_out(data.draw, a)
    y, b = make.laid_out(data.draw, b)
    if data.draw(st.booleans()):
        x, a, y, b = y, b, x, a
    common = spec.promoted(a_dtype, b_dtype)
    return x, y, a.astype(common), b.astype(common)


TWO = {
    "add": ALL, "subtract": NUMERIC, "multiply": ALL, "bitwise_and": ["bool", *INTEGERS], "bitwise_or": ["bool", *INTEGERS],
    "bitwise_xor": ["bool", *INTEGERS], "copysign": FLOATS, "equal": ALL, "not_equal": ALL, "less": REAL, "less_equal": REAL, "greater": REAL,
    "greater_equal": REAL, "logical_and": ["bool"], "logical_or": ["bool"], "logical_xor": ["bool"], "maximum": REAL, "minimum": REAL,
    "nextafter": ["float32", "float64"], "floor_divide": INTEGERS, "remainder": INTEGERS, "divide": FLOATS,
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
@few
@given(st.data())
def test_exact_two(name, data):
    x, y, a, b = two(data, TWO[name])
    want = getattr(np, name)(a, b)
    same(getattr(tx, name)(x, y), want, exact=not is_complex(want) or name != "multiply")


@pytest.mark.parametrize("name", ["atan2", "hypot", "logaddexp", "pow", "divide", "multiply", "floor_divide", "remainder"])
@few
@given(st.data())
def test_approximate_two(name, data):
    kinds = FLOATING if name in ("divide", "multiply") else FLOATS
    if name == "pow":
        x, y, a, b = two(data, FLOATS, low=0, high=4)
    else:
        x, y, a, b = two(data, kinds, special=kinds is FLOATS)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(wide(a), wide(b)).astype(a.dtype)
        if name in ("floor_divide", "remainder"):
            # NumPy follows Python for infinities; the standard says floor(a / b), and both are allowed
            fine = np.isfinite(a) & np.isfinite(b)
            want = getattr(np, name)(a, b)
            got = array(getattr(tx, name)(x, y))
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_array_equal(got[fine & (b != 0)], want[fine & (b != 0)])
            return
    # a sum of exponentials near 1 has a logarithm near 0, as exact as its terms
    same(getattr(tx, name)(x, y), want, exact=False, scale=1.0 if name == "logaddexp" else None)


@few
@given(st.data())
def test_shifts_and_integer_powers(data):
    dtype = data.draw(st.sampled_from(INTEGERS))
    rng = np.random.default_rng(data.draw(make.seeds))
    shape = data.draw(make.shapes)
    x, a = make.laid_out(data.draw, make.values(rng, dtype, shape))
    count = rng.integers(0, 2 * 8 * a.itemsize, shape).astype(dtype)
    same(tx.bitwise_left_shift(x, tx.asarray(count)), np.left_shift(a, count))
    same(x << tx.asarray(count), np.left_shift(a, count))
    same(tx.bitwise_right_shift(x, tx.asarray(count)), np.right_shift(a, count))
    small = rng.integers(0, 9, shape).astype(dtype)
    same(tx.pow(x, tx.asarray(small)), np.power(a, small))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "equal", "maximum", "floor_divide", "remainder", "bitwise_or", "pow", "divide"])
@few
@given(st.data())
def test_python_numbers(name, data):
    """The dtype is the tensor's, whichever side the number is on; the operator says the same as the function."""
    kinds = {"bitwise_or": INTEGERS, "divide": FLOATS, "pow": FLOATS}.get(name, REAL)
    x, a = data.draw(make.pairs(kinds, low=0 if name == "pow" else None))
    number = data.draw(st.integers(0, 100) if a.dtype.kind in "iu" else st.integers(-50, 50) | st.floats(-4, 4, width=16))
    f, g = getattr(tx, name), getattr(np, name)
    assume(not (name in ("floor_divide", "remainder") and a.dtype.kind == "f"))
    scalar = a.dtype.type(number)
    approximate = name == "pow"
    same(f(x, number), g(a, scalar), exact=not approximate)
    if name not in ("pow",):
        same(f(number, x), g(scalar, a))
    operator = {v: k for k, v in {**spec.OPERATORS, **spec.COMPARISONS}.items()}.get(name)
    if operator:
        same(getattr(x, operator)(number), g(a, scalar), exact=not approximate)
        if operator in spec.OPERATORS and name != "pow":
            same(getattr(x, f"__r{operator[2:]}")(number), g(scalar, a))


@pytest.mark.parametrize("operator", spec.OPERATORS)
@few
@given(st.data())
def test_in_place(operator, data):
    """x op= y is x = x op y where the result has x's dtype and shape, written into x."""
    name = spec.OPERATORS[operator]
    if name == "matmul":
        n = data.draw(st.integers(0, 4))
        (x, a), (y, b) = data.draw(make.pairs(["float64"], (3, n, n), special=False)), data.draw(make.pairs(["float64"], (n, n), special=False))
        x = x.copy()
        z = x.alias()
        x @= y
        same(z, a @ b, exact=False, scale=100.0)
        return
    kinds = ["bool", *INTEGERS] if name.startswith("bitwise") else REAL
    if "shift" in name:
        kinds = INTEGERS
    if name in ("divide", "pow"):
        kinds = FLOATS
    dtype = data.draw(st.sampled_from(kinds))
    rng = np.random.default_rng(data.draw(make.seeds))
    shape = data.draw(make.shapes)
    low, high = (0, 7) if "shift" in name or name == "pow" else (None, None)
    a, b = make.values(rng, dtype, shape, low, high), make.values(rng, dtype, make.broadcasting(data.draw, shape), low, high)
    if name in ("floor_divide", "remainder"):
        b = np.where((b == 0) | ~np.isfinite(b), b.dtype.type(3), b)
        a = np.where(np.isfinite(a), a, a.dtype.type(1))
    x, y = tx.asarray(a), make.laid_out(data.draw, b)[0]
    kept, want = x.alias(), getattr(x, operator)(y).copy()
    if operator == "__sub__" and dtype == "bool":
        return
    x = getattr(x, f"__i{operator[2:]}")(y)
    assert tx.shares_storage(x, kept)
    np.testing.assert_array_equal(array(kept), array(want))


@few
@given(st.data())
def test_clip(data):
    dtype = data.draw(st.sampled_from(REAL))
    rng = np.random.default_rng(data.draw(make.seeds))
    shape = data.draw(make.shapes)
    x, a = make.laid_out(data.draw, make.values(rng, dtype, shape))

    def bound(low, high):
        kind = data.draw(st.sampled_from(["none", "number", "array"]))
        if kind == "none":
            return None, None
        v = make.values(rng, dtype, () if kind == "number" else make.broadcasting(data.draw, shape), low, high, special=False)
        return (v.item(), v) if kind == "number" else (tx.asarray(v), v)

    lo, lo_a = bound(0, 3)
    hi, hi_a = bound(4, 9)
    want = a
    if lo is not None:
        want = np.maximum(want, lo_a)
    if hi is not None:
        want = np.minimum(want, hi_a)
    same(tx.clip(x, lo, hi), want)
    same(tx.clip(x, min=lo, max=hi), want)


# ---- manipulation ------------------------------------------------------------------------------------


@few
@given(st.data())
def test_movement(data):
    x, a = data.draw(make.pairs())
    axes = tuple(data.draw(st.permutations(range(a.ndim))))
    axes = tuple(i - a.ndim if data.draw(st.booleans()) else i for i in axes)
    same(tx.permute_dims(x, axes), a.transpose(axes))
    axis = make.axes_of(data.draw, a.ndim)
    same(tx.flip(x, axis=axis), np.flip(a, axis=axis))
    where = data.draw(st.integers(-a.ndim - 1, a.ndim))
    same(tx.expand_dims(x, axis=where), np.expand_dims(a, where))
    outside = data.draw(st.sampled_from([-a.ndim - 2, a.ndim + 1]))
    with pytest.raises(IndexError):
        tx.expand_dims(x, axis=outside)
    ones = [i for i, s in enumerate(a.shape) if s == 1]
    same(tx.squeeze(x, tuple(ones)), np.squeeze(a, tuple(ones)))
    for i, s in enumerate(a.shape):
        if s != 1:
            with pytest.raises(ValueError):
                tx.squeeze(x, i)
        else:
            same(tx.squeeze(x, i - a.ndim), np.squeeze(a, i))
    if a.ndim:
        source = data.draw(st.lists(st.integers(0, a.ndim - 1), unique=True, min_size=1))
        target = data.draw(st.permutations(range(a.ndim)))[: len(source)]
        same(tx.moveaxis(x, tuple(source), tuple(target)), np.moveaxis(a, source, target))
        same(tx.moveaxis(x, source[0], target[0] - a.ndim), np.moveaxis(a, source[0], target[0]))
        axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
        parts = tx.unstack(x, axis=axis)
        assert isinstance(parts, tuple) and len(parts) == a.shape[axis]
        for g, w in zip(parts, np.unstack(a, axis=axis)):
            same(g, w)
    if a.ndim == 2:
        same(x.T, a.T)
    if a.ndim >= 2:
        same(x.mT, a.mT)
        same(tx.matrix_transpose(x), a.mT)


@few
@given(st.data())
def test_reshape_and_broadcast(data):
    x, a = data.draw(make.pairs())
    factors = [a.size] if a.size < 2 else [a.size // d for d in range(1, a.size + 1) if a.size % d == 0]
    first = data.draw(st.sampled_from(factors))
    shape = (first, a.size // first if first else 1) if a.size else data.draw(st.permutations([0, 2, 3]))
    same(tx.reshape(x, tuple(shape)), a.reshape(shape))
    if a.size:
        same(tx.reshape(x, (first, -1)), a.reshape(first, -1))
        same(tx.reshape(x, (-1,)), a.reshape(-1))
    copied = tx.reshape(x, tuple(shape), copy=True)
    same(copied, a.reshape(shape))
    assert not tx.shares_storage(copied, x)
    for wrong in ((a.size + 1,), (-1, -1), (7, 11)):
        with pytest.raises(ValueError):
            tx.reshape(x, wrong)
    wider = (2, *a.shape)
    same(tx.broadcast_to(x, wider), np.broadcast_to(a, wider))
    y, b = data.draw(make.pairs(shape=make.broadcasting(data.draw, a.shape)))
    for g, w in zip(tx.broadcast_arrays(x, y), np.broadcast_arrays(a, b)):
        same(g, w)
    if a.ndim and a.shape[-1] > 1:
        with pytest.raises(ValueError):
            tx.broadcast_to(x, (*a.shape[:-1], a.shape[-1] + 1))


@few
@given(st.data())
def test_joining(data):
    shape = data.draw(make.shapes_1)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    first = data.draw(st.sampled_from(ALL))
    family = [d for d in ALL if d == first or (spec.promoted(first, d) in (first, d) and "float16" not in (first, d))]
    found = []
    for _ in range(data.draw(st.integers(1, 3))):
        s = list(shape)
        if axis is not None:
            s[axis] = data.draw(st.integers(0, 3))
        found.append(data.draw(make.pairs([data.draw(st.sampled_from([first, *family][:2]))], tuple(s))))
    same(tx.concat([x for x, _ in found], axis=axis), np.concatenate([a for _, a in found], axis=axis))
    equal = [data.draw(make.pairs([first], shape)) for _ in range(data.draw(st.integers(1, 3)))]
    place = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(tx.stack(tuple(x for x, _ in equal), axis=place), np.stack([a for _, a in equal], axis=place))


@few
@given(st.data())
def test_repeat_tile_roll(data):
    x, a = data.draw(make.pairs())
    axis = make.axis_of(data.draw, a.ndim)
    n = data.draw(st.integers(0, 3))
    same(tx.repeat(x, n, axis=axis), np.repeat(a, n, axis=axis))
    length = a.size if axis is None else a.shape[axis]
    counts = np.random.default_rng(data.draw(make.seeds)).integers(0, 4, length)
    same(tx.repeat(x, tx.asarray(counts), axis=axis), np.repeat(a, counts, axis=axis))
    same(tx.repeat(x, tx.asarray([2]), axis=axis), np.repeat(a, [2], axis=axis))
    reps = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    same(tx.tile(x, reps), np.tile(a, reps))
    axes = make.axes_of(data.draw, a.ndim)
    shift = data.draw(st.integers(-20, 20))
    if isinstance(axes, tuple) and data.draw(st.booleans()):
        shift = tuple(data.draw(st.integers(-9, 9)) for _ in axes)
    same(tx.roll(x, shift, axis=axes), np.roll(a, shift, axis=axes))


# ---- reductions ----------------------------------------------------------------------------------------


def accumulated(a):
    """What sum and prod turn a dtype into."""
    return {"b": np.int64, "i": np.int64, "u": np.uint64}.get(a.dtype.kind, a.dtype)


@pytest.mark.parametrize("name", ["sum", "prod"])
@few
@given(st.data())
def test_sum_and_prod(name, data):
    x, a = data.draw(make.pairs(NUMERIC, special=False, low=-2, high=2))
    axis, keepdims = make.axes_of(data.draw, a.ndim), data.draw(st.booleans())
    f, g = getattr(tx, name), getattr(np, name)
    out = accumulated(a)
    reference = wide(a) if a.dtype.kind in "fc" else a.astype(out)
    scale = float(np.prod(np.maximum(np.abs(wide(a)), 1.0), dtype=np.float64)) if name == "prod" else max(1, a.size) * 4.0
    same(f(x, axis=axis, keepdims=keepdims), g(reference, axis=axis, keepdims=keepdims).astype(out), exact=False, scale=scale)
    dtype = data.draw(st.sampled_from(["float64", "complex128"] if a.dtype.kind in "fc" and a.dtype.kind != "c" else ["complex128"] if a.dtype.kind == "c" else ["int64"]))
    if a.dtype.kind != "u":
        same(f(x, axis=axis, dtype=dtype, keepdims=keepdims), g(a.astype(dtype), axis=axis, keepdims=keepdims), exact=False, scale=scale)


@pytest.mark.parametrize("name", ["max", "min", "any", "all", "count_nonzero"])
@few
@given(st.data())
def test_exact_reductions(name, data):
    order = name in ("max", "min")
    x, a = data.draw(make.pairs(REAL if order else ALL))
    axis, keepdims = make.axes_of(data.draw, a.ndim), data.draw(st.booleans())
    f, g = getattr(tx, name), getattr(np, name)
    over = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if order and any(a.shape[i] == 0 for i in over):
        with pytest.raises(ValueError):
            f(x, axis=axis)
        return
    want = np.asarray(g(a, axis=axis, keepdims=keepdims))
    same(f(x, axis=axis, keepdims=keepdims), want.astype(np.int64) if name == "count_nonzero" else want)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
@few
@given(st.data())
def test_moments(name, data):
    x, a = data.draw(make.pairs(FLOATING if name == "mean" else FLOATS, special=False))
    axis, keepdims = make.axes_of(data.draw, a.ndim), data.draw(st.booleans())
    more, given_more = {}, {}
    if name != "mean":
        given_more = {"correction": data.draw(st.sampled_from([0, 1, 0.0, 0.5, 1.0]))}
        more = {"ddof": given_more["correction"]}
    over = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    n = math.prod(a.shape[i] for i in over)
    if more and n <= more["ddof"]:
        assert np.isnan(array(getattr(tx, name)(x, axis=axis, keepdims=keepdims, **given_more))).all()
        return
    want = np.asarray(getattr(np, name)(wide(a), axis=axis, keepdims=keepdims, **more)).astype(a.dtype)
    same(getattr(tx, name)(x, axis=axis, keepdims=keepdims, **given_more), want, exact=False, scale=8.0)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@few
@given(st.data())
def test_arg(name, data):
    x, a = data.draw(make.pairs(REAL))
    axis, keepdims = make.axis_of(data.draw, a.ndim), data.draw(st.booleans())
    if a.size == 0 and (axis is None or a.shape[axis] == 0):
        with pytest.raises(ValueError):
            getattr(tx, name)(x, axis=axis)
        return
    same(getattr(tx, name)(x, axis=axis, keepdims=keepdims), np.asarray(getattr(np, name)(a, axis=axis, keepdims=keepdims)).astype(np.int64))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@few
@given(st.data())
def test_cumulative(name, data):
    x, a = data.draw(make.pairs(NUMERIC, make.shapes_1, special=False, low=-2, high=2))
    axis = make.axis_of(data.draw, a.ndim, none=a.ndim == 1)
    initial = data.draw(st.booleans())
    out = accumulated(a)
    reference = wide(a) if a.dtype.kind in "fc" else a.astype(out)
    want = getattr(np, name)(reference, axis=axis, include_initial=initial).astype(out)
    scale = 40.0 if name == "cumulative_sum" else 1024.0
    same(getattr(tx, name)(x, axis=axis, include_initial=initial), want, exact=False, scale=scale)
    if a.dtype.kind != "c":
        dtype = "float64"
        if a.dtype.kind == "f":
            same(getattr(tx, name)(x, axis=axis, dtype=dtype), getattr(np, name)(a.astype(dtype), axis=axis), exact=False, scale=scale)
    if a.ndim > 1:
        with pytest.raises(ValueError, match="axis"):
            getattr(tx, name)(x)


@few
@given(st.data())
def test_diff(data):
    x, a = data.draw(make.pairs(ALL, make.shapes_1, special=False))
    axis, n = data.draw(st.integers(-a.ndim, a.ndim - 1)), data.draw(st.integers(0, 3))
    more, more_a = {}, {}
    for side in ("prepend", "append"):
        if data.draw(st.booleans()):
            s = list(a.shape)
            s[axis] = data.draw(st.integers(0, 2))
            more[side], more_a[side] = data.draw(make.pairs([a.dtype.name], tuple(s), special=False))
    same(tx.diff(x, axis=axis, n=n, **more), np.diff(a, axis=axis, n=n, **more_a))


# ---- searching, sorting, sets ----------------------------------------------------------------------------


@few
@given(st.data())
def test_sort(data):
    x, a = data.draw(make.pairs(["bool", *REAL], make.shapes_1))
    axis, descending = data.draw(st.integers(-a.ndim, a.ndim - 1)), data.draw(st.booleans())
    stable = data.draw(st.booleans())
    # NaN last either way; equal elements keep their order
    key = a if not descending else (~a if a.dtype.kind in "biu" else -a)
    order = np.argsort(key, axis=axis, kind="stable")
    same(tx.argsort(x, axis=axis, descending=descending, stable=stable), order.astype(np.int64))
    got = tx.sort(x, axis=axis, descending=descending, stable=stable)
    same(got, np.take_along_axis(a, order, axis))
    assert array(got).tobytes() == np.take_along_axis(a, order, axis).tobytes()  # signs of zeros included


@few
@given(st.data())
def test_searchsorted(data):
    dtype = data.draw(st.sampled_from(REAL))
    x, a = data.draw(make.pairs([dtype], st.tuples(st.integers(0, 12))))
    y, b = data.draw(make.pairs([dtype]))
    side = data.draw(st.sampled_from(["left", "right"]))
    same(tx.searchsorted(tx.sort(x), y, side=side), np.searchsorted(np.sort(a), b, side=side))
    same(tx.searchsorted(x, y, side=side, sorter=tx.argsort(x)), np.searchsorted(np.sort(a), b, side=side))


@pytest.mark.parametrize("dtype", [*REAL, "bfloat16"])
@pytest.mark.parametrize("n, count", [(0, 5), (1, 17), (700, 10_000), (5000, 33)])
def test_searchsorted_in_long_lines(dtype, n, count):
    rng = np.random.default_rng(n)
    whole = np.dtype("float32" if dtype == "bfloat16" else dtype)
    a, b = (np.round(rng.normal(size=size) * 40).astype(whole) for size in (n, count))
    if whole.kind == "f":
        b[::7] = np.nan
        b[1::7] = -0.0
        b[2::7] = np.inf
    for odd in (0, 1, 300, n):
        if whole.kind == "f":
            a[:odd] = np.nan
        line, values = np.sort(a), b.reshape(-1, 1)
        for side in ("left", "right"):
            want = np.searchsorted(line, values, side=side)
            x, y = (tx.asarray(v).astype(getattr(tx, dtype)) for v in (line, values))
            assert np.array_equal(tx.searchsorted(x, y, side=side).numpy(), want)
            strided = tx.asarray(np.repeat(line, 2)).astype(getattr(tx, dtype))[::2]
            assert np.array_equal(tx.searchsorted(strided, tx.flip(y, axis=0), side=side).numpy(), want[::-1])


@few
@given(st.data())
def test_nonzero_and_where(data):
    x, a = data.draw(make.pairs(ALL, make.shapes_1))
    got = tx.nonzero(x)
    assert isinstance(got, tuple)
    for g, w in zip(got, np.nonzero(a), strict=True):
        same(g, w)
    with pytest.raises(ValueError):
        tx.nonzero(tx.sum(x))
    c, mask = data.draw(make.pairs(["bool"], make.broadcasting(data.draw, a.shape)))
    y, b = data.draw(make.pairs([a.dtype.name], make.broadcasting(data.draw, a.shape)))
    same(tx.where(c, x, y), np.where(mask, a, b))
    number = {"b": True, "i": 3, "u": 3, "f": 1.5, "c": 1.5j}[a.dtype.kind]
    same(tx.where(c, x, number), np.where(mask, a, a.dtype.type(number)))
    same(tx.where(c, number, x), np.where(mask, a.dtype.type(number), a))


@few
@given(st.data())
def test_sets(data):
    x, a = data.draw(make.pairs())
    values, index, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    found = tx.unique_all(x)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    same(found.values, values)
    same(found.indices, index)
    same(found.inverse_indices, inverse.reshape(a.shape))
    same(found.counts, counts)
    assert tx.unique_counts(x)._fields == ("values", "counts") and tx.unique_inverse(x)._fields == ("values", "inverse_indices")
    same(tx.unique_counts(x).values, values)
    same(tx.unique_counts(x).counts, counts)
    same(tx.unique_inverse(x).values, values)
    same(tx.unique_inverse(x).inverse_indices, inverse.reshape(a.shape))
    same(tx.unique_values(x), values)
    y, b = data.draw(make.pairs([a.dtype.name]))
    same(tx.isin(x, y), np.isin(a, b))
    same(tx.isin(x, y, invert=True), np.isin(a, b, invert=True))


# ---- indexing --------------------------------------------------------------------------------------------------


@few
@given(st.data())
def test_take(data):
    x, a = data.draw(make.pairs(shape=make.shapes_1))
    axis = make.axis_of(data.draw, a.ndim)
    n = a.size if axis is None else a.shape[axis]
    count = data.draw(st.integers(0, 5)) if n else 0
    index = np.random.default_rng(data.draw(make.seeds)).integers(-n, max(n, 1), count)
    dtype = data.draw(st.sampled_from([d for d in SIGNED if n <= np.iinfo(d).max]))
    same(tx.take(x, tx.asarray(index.astype(dtype)), axis=axis), np.take(a, index, axis=axis))
    if n:
        with pytest.raises(IndexError):
            tx.take(x, tx.asarray([n]), axis=axis)
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = a.shape[axis]
    shape = list(a.shape)
    shape[axis] = data.draw(st.integers(0, 4)) if n else 0
    index = np.random.default_rng(data.draw(make.seeds)).integers(-n, max(n, 1), shape)
    same(tx.take_along_axis(x, tx.asarray(index), axis=axis), np.take_along_axis(a, index, axis=axis))


def index_of(data, shape):
    """A basic index: integers, slices with steps, None, an ellipsis."""
    out, left = [], list(shape)
    ellipsis = False
    while left and data.draw(st.integers(0, 4)):
        kind = data.draw(st.sampled_from(["int", "slice", "slice", "none", "..."]))
        n = left[0]
        if kind == "none":
            out.append(None)
        elif kind == "..." and not ellipsis:
            ellipsis = True
            skip = data.draw(st.integers(0, len(left)))
            keep = left[skip:]
            rest = [data.draw(st.integers(-m, m - 1)) if m else slice(None) for m in keep]
            return (*out, Ellipsis, *rest)
        elif kind == "int" and n:
            out.append(data.draw(st.integers(-n, n - 1)))
            left.pop(0)
        else:
            bound = st.none() | st.integers(-n - 2, n + 2)
            out.append(slice(data.draw(bound), data.draw(bound), data.draw(st.none() | st.sampled_from([1, 2, 3, -1, -2]))))
            left.pop(0)
    return tuple(out)


@few
@given(st.data())
def test_getitem_and_setitem(data):
    x, a = data.draw(make.pairs())
    index = index_of(data, a.shape)
    same(x[index], a[index])
    y, b = tx.asarray(a, copy=True), a.copy()
    number = {"b": True, "i": 3, "u": 3, "f": 1.5, "c": 1.5j}[a.dtype.kind]
    y[index], b[index] = number, number
    same(y, b)
    part = np.asarray(a[index])
    v, w = data.draw(make.pairs([a.dtype.name], make.broadcasting(data.draw, part.shape)))
    y[index], b[index] = v, w
    same(y, b)


@few
@given(st.data())
def test_masks(data):
    x, a = data.draw(make.pairs())
    choice = data.draw(st.sampled_from(["whole", "lead", "0-d", "none", "any"]))
    shape = {"whole": a.shape, "lead": a.shape[:1], "0-d": (), "none": tuple(0 if data.draw(st.booleans()) else s for s in a.shape),
             "any": data.draw(make.shapes)}[choice]  # fmt: skip
    m, mask = data.draw(make.pairs(["bool"], shape))
    try:
        want = a[mask]
    except IndexError:
        with pytest.raises(IndexError):
            x[m]
        return
    same(x[m], want)
    y, b = tx.asarray(a, copy=True), a.copy()
    number = {"b": True, "i": 3, "u": 3, "f": 1.5, "c": 1.5j}[a.dtype.kind]
    y[m], b[mask] = number, number
    same(y, b)


# ---- linear algebra of the main namespace -------------------------------------------------------------------------


@few
@given(st.data())
def test_products(data):
    dtype = data.draw(st.sampled_from(NUMERIC))
    n, k, m = (data.draw(st.integers(0, 4)) for _ in range(3))
    lead = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    x, a = data.draw(make.pairs([dtype], (*lead, n, k), special=False, low=-3, high=3))
    y, b = data.draw(make.pairs([dtype], (*make.broadcasting(data.draw, lead), k, m), special=False, low=-3, high=3))
    want = np.matmul(wide(a), wide(b)).astype(dtype)
    same(tx.matmul(x, y), want, exact=False, scale=40.0)
    same(x @ y, want, exact=False, scale=40.0)
    v, w = data.draw(make.pairs([dtype], (k,), special=False, low=-3, high=3))
    same(tx.matmul(x, v), np.matmul(wide(a), wide(w)).astype(dtype), exact=False, scale=40.0)
    same(tx.matmul(v, y), np.matmul(wide(w), wide(b)).astype(dtype), exact=False, scale=40.0)
    same(tx.vecdot(x, v), np.vecdot(wide(a), wide(w)).astype(dtype), exact=False, scale=40.0)
    same(tx.tensordot(x, tx.asarray(b.reshape((*b.shape[:-2], k, m))[(0,) * (b.ndim - 2)]) if b.size else tx.zeros((k, m), dtype=dtype), axes=1),
         np.tensordot(wide(a), wide(b)[(0,) * (b.ndim - 2)] if b.size else np.zeros((k, m)), axes=1).astype(dtype), exact=False, scale=40.0)  # fmt: skip
    with pytest.raises((ValueError, TypeError)):
        tx.matmul(x, tx.asarray(1, dtype=dtype))
    with pytest.raises(ValueError):
        tx.matmul(x, tx.zeros((k + 1, 2), dtype=dtype))
