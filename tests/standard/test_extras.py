"""Functions beyond the standard against NumPy (and PyTorch), with Hypothesis; their gradients against differences."""

import math
import os
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorx as tx

COUNT = int(os.environ.get("TENSORX_EXAMPLES", "15"))
EXAMPLES = settings(max_examples=COUNT, deadline=None)
FLOATS = ["float32", "float64"]
REAL = ["int8", "int32", "int64", "uint8", "uint32", "float16", "float32", "float64"]
ANY = [*REAL, "bool", "complex64", "complex128"]


@st.composite
def arrays(draw, dtypes=ANY, min_dims=0, max_dims=3, min_side=0, max_side=5, nan=False, low=-5, high=5):
    """(tensor, array) of equal values; the tensor often with strides of its own."""
    shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=max_side))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.kind == "b":
        a = rng.integers(0, 2, shape).astype(bool)
    elif dtype.kind in "iu":
        a = rng.integers(max(low, 0) if dtype.kind == "u" else low, high + 1, shape).astype(dtype)
    else:
        a = rng.integers(2 * low, 2 * high + 1, shape) / 2
        if dtype.kind == "c":
            a = a + 1j * rng.integers(2 * low, 2 * high + 1, shape) / 2
        a = np.asarray(a).astype(dtype)
        if nan and draw(st.booleans()):
            a = np.where(rng.random(shape) < 0.3, np.nan, a).astype(dtype)
    how = draw(st.integers(0, 3))
    if how == 1 and a.ndim:
        big = np.zeros((*shape[:-1], shape[-1] * 2), dtype)
        big[..., ::2] = a
        return tx.asarray(big)[..., ::2], a
    if how == 2 and a.ndim:
        return tx.asarray(np.ascontiguousarray(a[::-1]))[::-1], a
    if how == 3 and a.ndim:
        order = tuple(reversed(range(a.ndim)))
        return tx.asarray(np.ascontiguousarray(a.transpose(order))).permute_dims(order), a
    return tx.asarray(a), a


def check(got, expected, dtype=True, tol=None):
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    values = np.asarray(got.detach())
    if dtype is True:
        assert got.dtype.name == expected.dtype.name
    elif dtype:
        assert got.dtype.name == str(dtype)
    if tol is None:
        tol = {"float16": 2e-2, "float32": 1e-4, "complex64": 1e-4}.get(values.dtype.name, 1e-9)
    if values.dtype.kind in "fc":
        np.testing.assert_allclose(values, expected, rtol=tol, atol=tol)
    else:
        np.testing.assert_array_equal(values, expected)


def leaf(a):
    return tx.asarray(np.asarray(a)).requires_grad_()


def wide(a):
    return a.astype(np.float64 if a.dtype.kind == "f" else np.complex128) if a.dtype.kind in "fc" else a


# ---- einsum, kron ---------------------------------------------------------------------------------


@st.composite
def equations(draw):
    """A random equation with operands."""
    letters = "abcde"
    sizes = {c: draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 4)) for c in letters}
    n = draw(st.integers(1, 4))
    dots = draw(st.booleans())
    extra = tuple(draw(st.lists(st.integers(1, 3), max_size=2))) if dots else ()
    terms, shapes = [], []
    for _ in range(n):
        term = "".join(draw(st.lists(st.sampled_from(letters), max_size=3)))
        shape = tuple(sizes[c] for c in term)
        if dots and draw(st.booleans()):
            cut = draw(st.integers(0, len(term)))
            keep = extra[draw(st.integers(0, len(extra))) :] if extra else ()
            mine = tuple(1 if draw(st.integers(0, 5)) == 0 else s for s in keep)
            term, shape = term[:cut] + "..." + term[cut:], shape[:cut] + mine + shape[cut:]
        terms.append(term)
        shapes.append(shape)
    equation = ",".join(terms)
    used = sorted({c for t in terms for c in t if c.isalpha()})
    if draw(st.booleans()):
        out = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
        cut = draw(st.integers(0, len(out)))
        if any("..." in t for t in terms):
            out = [*out[:cut], "...", *out[cut:]]
        equation += "->" + "".join(out)
    dtype = draw(st.sampled_from(["int32", "int64", "float32", "float64", "complex128", "bool"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    operands = []
    for s in shapes:
        a = rng.integers(0 if dtype == "bool" else -3, 2 if dtype == "bool" else 4, s)
        operands.append(np.asarray(a + 1j * rng.integers(-3, 4, s) if dtype == "complex128" else a).astype(dtype))
    return equation, operands


@settings(max_examples=4 * COUNT, deadline=None)
@given(equations())
def test_einsum(case):
    equation, operands = case
    expected = np.einsum(equation, *operands)
    check(tx.einsum(equation, *[tx.asarray(a) for a in operands]), expected)


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("i,j->ij", [(2,), (3,)]),
    ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 2)]), ("i,i,i->", [(3,), (3,), (3,)]), ("...ij,...kj->...ik", [(2, 2, 3), (2, 3)]),
    ("ab,b->a", [(2, 1), (3,)]), ("a,b->b", [(2,), (3,)]), ("iji->j", [(2, 3, 2)]),
])  # fmt: skip
def test_einsum_gradients(equation, shapes):
    rng = np.random.default_rng(0)
    for kind in (float, complex):
        xs = [leaf((rng.normal(size=s) + 1j * rng.normal(size=s)) if kind is complex else rng.normal(size=s)) for s in shapes]
        assert tx.autograd.gradcheck(lambda *a: tx.einsum(equation, *a), xs)
    assert tx.autograd.gradgradcheck(lambda *a: tx.einsum(equation, *a), [leaf(rng.normal(size=s)) for s in shapes])


def test_einsum_of_many_operands_takes_a_cheap_order():
    a = [np.random.default_rng(k).normal(size=(2, 40)) if k % 2 else np.random.default_rng(k).normal(size=(40, 2)) for k in range(9)]
    equation = "ab,bc,cd,de,ef,fg,gh,hi,ij->aj"
    check(tx.einsum(equation, *[tx.asarray(t) for t in a]), np.linalg.multi_dot(a))
    x = [tx.ones(200) for _ in range(6)]
    with tx.memory.measure() as m:  # never an outer product of 200**2 elements or more
        got = tx.einsum("a,a,b,b,c,c->", *x)
    assert got.item() == 200.0**3 and m.bytes < 40_000


@pytest.mark.parametrize("call, error, text", [
    (lambda: tx.einsum("ij,jk->ik", tx.ones((2, 3))), ValueError, "describes 2 operands, got 1"),
    (lambda: tx.einsum("ij->ik", tx.ones((2, 3))), ValueError, "'k' of the result"),
    (lambda: tx.einsum("ij->ii", tx.ones((2, 3))), ValueError, "twice in the result"),
    (lambda: tx.einsum("ij", tx.ones(3)), tx.ShapeError, "operand 1"),
    (lambda: tx.einsum("ij,jk", tx.ones((2, 3)), tx.ones((2, 3))), tx.ShapeError, "label 'j'"),
    (lambda: tx.einsum("i-j", tx.ones(3)), ValueError, "labels are letters"),
    (lambda: tx.einsum("...i->i", tx.ones((2, 3))), ValueError, "lacks the axes"),
    (lambda: tx.einsum(tx.ones(3), "i"), TypeError, "equation comes first"),
    (lambda: tx.einsum("i", 3.0), tx.DTypeError, "operand 1 must be a tensor"),
    (lambda: tx.einsum("i,i", tx.ones(2), tx.ones(2, dtype=tx.int64)), tx.DTypeError, "promote"),
])  # fmt: skip
def test_einsum_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@EXAMPLES
@given(arrays(max_dims=3, max_side=3), st.data())
def test_kron(xa, data):
    x, a = xa
    y, b = data.draw(arrays(dtypes=[a.dtype.name], max_dims=3, max_side=3))
    assume(a.dtype.kind != "b")
    check(tx.kron(x, y), np.kron(a, b))


# ---- pad --------------------------------------------------------------------------------------------

MODES = {"constant": "constant", "edge": "edge", "replicate": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap", "circular": "wrap"}


@settings(max_examples=3 * COUNT, deadline=None)
@given(arrays(min_dims=1, min_side=1), st.data())
def test_pad(xa, data):
    x, a = xa
    widths = data.draw(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=a.ndim, max_size=a.ndim))
    mode = data.draw(st.sampled_from(list(MODES)))
    check(tx.pad(x, widths, mode), np.pad(a, widths, MODES[mode]))
    one = data.draw(st.integers(0, 3))
    check(tx.pad(x, one), np.pad(a, one))
    check(tx.pad(x, (one, 1)), np.pad(a, (one, 1)))
    check(tx.pad(x, {-1: (1, one)}), np.pad(a, [(0, 0)] * (a.ndim - 1) + [(1, one)]))


def test_pad_more():
    assert tx.pad(tx.arange(5), (-1, -2)).tolist() == [1, 2]
    assert tx.pad(tx.arange(3), (1, -1), value=9).tolist() == [9, 0, 1]
    assert tx.pad(tx.ones((0, 2)), 1, value=3.0).shape == (2, 4)
    assert tx.pad(tx.ones(1), 2, "reflect").tolist() == [1.0] * 5
    for call, error, text in [
        (lambda: tx.pad(tx.ones(0), 1, "edge"), tx.ShapeError, "no elements"),
        (lambda: tx.pad(tx.ones(3), 1, "other"), ValueError, "mode is one of"),
        (lambda: tx.pad(tx.ones((2, 2)), [(1, 1)] * 3), tx.ShapeError, "3 pairs"),
        (lambda: tx.pad(tx.ones(3), (-2, -2)), tx.ShapeError, "cut more"),
        (lambda: tx.pad(tx.ones(3), "x"), tx.ShapeError, "pad_width is"),
        (lambda: tx.pad(tx.ones(3, dtype=tx.int32), 1, value=0.5), tx.DTypeError, "kind"),
    ]:
        with pytest.raises(error, match=text):
            call()
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        x = leaf(np.random.default_rng(0).normal(size=(2, 3)))
        assert tx.autograd.gradcheck(lambda t: tx.pad(t, ((1, 0), (3, 4)), mode), x)
        assert tx.autograd.gradgradcheck(lambda t: tx.pad(t * t, ((1, 0), (3, 4)), mode), x)


# ---- arranging --------------------------------------------------------------------------------------------


@EXAMPLES
@given(arrays(), st.integers(-5, 5), st.data())
def test_arranging(xa, k, data):
    x, a = xa
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        check(getattr(tx, name)(x), getattr(np, name)(a))
    check(tx.diagflat(x, offset=k), np.diagflat(a, k))
    check(tx.dstack([x, x]), np.dstack([a, a]))
    if a.ndim in (1, 2):
        check(tx.column_stack([x, x]), np.column_stack([a, a]))
    if a.ndim >= 1:
        check(tx.flipud(x), np.flipud(a))
        sections = data.draw(st.integers(1, 4) | st.lists(st.integers(-3, 6), max_size=3))
        axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
        for got, expected in zip(tx.array_split(x, sections, axis=axis), np.array_split(a, sections, axis=axis), strict=True):
            check(got, expected)
        out = tx.diag_embed(x, offset=k)
        n = a.shape[-1] + abs(k)
        assert out.shape == (*a.shape[:-1], n, n)
        check(tx.diagonal(out, k), a)
        assert int(tx.count_nonzero(out)) == np.count_nonzero(a)
    if a.ndim in (1, 2) and (a.ndim == 1 or (-a.shape[0] <= k <= a.shape[1])):
        check(tx.diag(x, offset=k), np.diag(a, k))
    if a.ndim >= 2:
        check(tx.fliplr(x), np.fliplr(a))
        axes = data.draw(st.permutations(range(a.ndim)))[:2]
        check(tx.rot90(x, k, axes), np.rot90(a, k, axes))


@EXAMPLES
@given(st.integers(0, 5), st.integers(0, 5), st.integers(-6, 6))
def test_triangles(n, m, k):
    check(tx.tri(n, m, k=k), np.tri(n, m, k), "float32")
    for name in ("tril_indices", "triu_indices"):
        for got, expected in zip(getattr(tx, name)(n, m, offset=k), getattr(np, name)(n, k, m)):
            check(got, expected)


@EXAMPLES
@given(arrays(min_dims=1, max_dims=1), st.integers(0, 5), st.booleans())
def test_vander(xa, n, increasing):
    x, a = xa
    if a.dtype.kind != "b":
        check(tx.vander(x, n, increasing=increasing), np.vander(a, n, increasing=increasing).astype(a.dtype), tol=1e-2 if a.dtype == np.float16 else None)


@EXAMPLES
@given(st.floats(-3, 3), st.floats(-3, 3), st.integers(0, 9), st.booleans())
def test_spaces(a, b, n, endpoint):
    check(tx.logspace(a, b, n, endpoint=endpoint, dtype=tx.float64), np.logspace(a, b, n, endpoint=endpoint))
    p, q = 10**a, 10**b
    check(tx.geomspace(p, q, n, endpoint=endpoint, dtype=tx.float64), np.geomspace(p, q, n, endpoint=endpoint))
    check(tx.geomspace(-p, -q, n), np.geomspace(-p, -q, n), "float32")


def test_block_diag_one_hot():
    linalg = pytest.importorskip("scipy.linalg")
    parts = [np.ones((2, 3)), np.arange(3.0), np.zeros((0, 2)), np.array([[5.0]])]
    check(tx.block_diag(*[tx.asarray(p) for p in parts]), linalg.block_diag(*parts))
    a = np.array([[0, 2], [1, 1]])
    check(tx.one_hot(tx.asarray(a)), np.eye(3, dtype=np.int64)[a])
    check(tx.one_hot(tx.asarray(a), 4, dtype=tx.float32, axis=0), np.moveaxis(np.eye(4, dtype=np.float32)[a], -1, 0))
    assert tx.one_hot(tx.zeros(0, dtype=tx.int64), 3).shape == (0, 3)
    with pytest.raises(IndexError, match="2 is out of range for 2 classes"):
        tx.one_hot(tx.asarray(a), 2)
    with pytest.raises(IndexError, match="-1 is out of range"):
        tx.one_hot(tx.asarray([-1]))
    with pytest.raises(tx.DTypeError, match="integers"):
        tx.one_hot(tx.ones(2))


def test_arranging_gradients():
    rng = np.random.default_rng(0)
    v, m = leaf(rng.normal(size=3)), leaf(rng.normal(size=(2, 3)))
    for f in (lambda t: tx.diag_embed(t, offset=1), lambda t: tx.diag(t), lambda t: tx.vander(t, 4), lambda t: tx.block_diag(t, t * t), lambda t: tx.kron(t, t)):
        assert tx.autograd.gradcheck(f, v) and tx.autograd.gradgradcheck(f, v)
    for f in (lambda t: tx.rot90(t), lambda t: tx.diag(t, offset=1), lambda t: tx.dstack([t, t]), lambda t: tx.array_split(t, 2, axis=1)[1]):
        assert tx.autograd.gradcheck(f, m)


# ---- ranking ---------------------------------------------------------------------------------------------


def axes_for(data, a):
    return data.draw(st.none() | st.lists(st.integers(-a.ndim, a.ndim - 1), unique_by=lambda i: i % a.ndim, min_size=1).map(tuple) if a.ndim else st.none())


@settings(max_examples=2 * COUNT, deadline=None)
@given(arrays(dtypes=REAL, nan=True), st.data())
def test_quantiles(xa, data):
    x, a = xa
    axes, keepdims = axes_for(data, a), data.draw(st.booleans())
    count = a.size if axes is None else math.prod(a.shape[i] for i in axes)
    q = data.draw(st.floats(0, 1) | st.lists(st.floats(0, 1), min_size=1, max_size=3))
    method = data.draw(st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]))
    result = a.dtype.name if a.dtype.kind == "f" else "float32"
    big = a.astype(np.float64)
    if count == 0 or a.size == 0:  # NumPy stumbles over some of them
        kept = np.zeros(a.shape).sum(axis=axes, keepdims=keepdims).shape
        assert tx.median(x, axis=axes, keepdims=keepdims).shape == kept
        assert tx.nanquantile(x, q, axis=axes, keepdims=keepdims, method=method).shape == np.shape(q) + kept
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check(tx.median(x, axis=axes, keepdims=keepdims), np.median(big, axis=axes, keepdims=keepdims), result)
        check(tx.nanmedian(x, axis=axes, keepdims=keepdims), np.nanmedian(big, axis=axes, keepdims=keepdims), result)
        if method != "nearest" or a.dtype != np.float16:
            check(tx.quantile(x, q, axis=axes, keepdims=keepdims, method=method), np.quantile(big, q, axis=axes, keepdims=keepdims, method=method), result)
            check(tx.nanquantile(x, q, axis=axes, keepdims=keepdims, method=method), np.nanquantile(big, q, axis=axes, keepdims=keepdims, method=method), result)
        check(tx.percentile(x, 30, axis=axes), np.percentile(big, 30, axis=axes), result)


@EXAMPLES
@given(arrays(dtypes=REAL, min_dims=1, min_side=1, nan=True), st.data())
def test_order(xa, data):
    x, a = xa
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = a.shape[axis]
    k = data.draw(st.integers(0, n))
    largest = data.draw(st.booleans())
    values, indices = tx.topk(x, k, axis=axis, largest=largest)
    clean = np.sort(a, axis=axis)
    lines = np.moveaxis(clean, axis, -1).reshape(-1, n)
    expected = []
    for line in lines:
        good = [v for v in line if v == v]
        good = good[::-1] if largest else good
        expected.append((good + [v for v in line if v != v])[:k])
    expected = np.moveaxis(np.array(expected, a.dtype).reshape((*np.moveaxis(a, axis, -1).shape[:-1], k)), -1, axis)
    check(values, expected)
    np.testing.assert_array_equal(np.take_along_axis(a, np.asarray(indices), axis), np.asarray(values))
    if k:
        check(tx.kthvalue(x, k, axis=axis).values, np.take(clean, k - 1, axis=axis))
    for name, ufunc in (("cummax", np.maximum), ("cummin", np.minimum)):
        values, indices = getattr(tx, name)(x, axis=axis)
        check(values, ufunc.accumulate(a, axis=axis))
        assert indices.dtype is tx.int64


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float32", "float64"])
def test_topk_of_long_lines(dtype):
    rng = np.random.default_rng(0)
    a = (rng.integers(0, 50, (2, 5000)) if dtype != "bool" else rng.random((2, 5000)) < 0.1).astype(dtype)
    for axis, b in ((1, a), (0, a.T.copy())):
        for largest in (True, False):
            got = tx.topk(tx.asarray(b), 200, axis=axis, largest=largest)
            order = tx.argsort(tx.asarray(b), axis=axis, descending=largest)
            order = np.asarray(order).take(range(200), axis)
            np.testing.assert_array_equal(np.asarray(got.indices), order)
            np.testing.assert_array_equal(np.asarray(got.values), np.take_along_axis(b, order, axis))
    if dtype.startswith("float"):
        a[0, 7] = np.nan
        assert 7 not in tx.topk(tx.asarray(a), 3).indices[0].tolist()


@EXAMPLES
@given(arrays(dtypes=["int8", "int64", "float64", "bool"], min_dims=1, min_side=1, low=-1, high=1), st.data())
def test_mode(xa, data):
    stats = pytest.importorskip("scipy.stats")
    x, a = xa
    axis, keepdims = data.draw(st.integers(-a.ndim, a.ndim - 1)), data.draw(st.booleans())
    got = tx.mode(x, axis=axis, keepdims=keepdims)
    expected = stats.mode(a.astype(np.int64) if a.dtype == bool else a, axis=axis, keepdims=keepdims)
    check(got.mode, np.asarray(expected.mode).astype(a.dtype))
    check(got.count, np.asarray(expected.count), False)


@EXAMPLES
@given(arrays(dtypes=FLOATS, min_dims=1), st.data())
def test_logcumsumexp(xa, data):
    x, a = xa
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    check(tx.logcumsumexp(x * 100.0, axis=axis), np.logaddexp.accumulate(a * 100, axis=axis) if a.size else a)


def test_ranking_gradients():
    rng = np.random.default_rng(0)
    x = leaf(rng.permutation(8).reshape(2, 4) + rng.normal(size=(2, 4)) * 0.1)
    for f in (lambda t: tx.topk(t, 2).values, lambda t: tx.median(t, axis=0), lambda t: tx.quantile(t, [0.2, 0.7], axis=1), lambda t: tx.cummax(t).values,
              lambda t: tx.kthvalue(t, 2).values, lambda t: tx.logcumsumexp(t), lambda t: tx.logcumsumexp(t, axis=0), lambda t: tx.mode(t).mode,
              lambda t: tx.nanmedian(t)):  # fmt: skip
        assert tx.autograd.gradcheck(f, x)
        assert tx.autograd.gradgradcheck(lambda t, f=f: f(t * t), x)
    torch = pytest.importorskip("torch")
    a = np.array([-np.inf, 1.0, 800.0, -900.0, 2.0])
    mine, other = leaf(a), torch.tensor(a, requires_grad=True)
    tx.logcumsumexp(mine).sum().backward()
    torch.logcumsumexp(other, 0).sum().backward()
    assert np.all(np.isfinite(np.asarray(mine.grad)[1:]))
    np.testing.assert_allclose(np.asarray(mine.grad)[1:], other.grad.numpy()[1:], rtol=1e-9, atol=1e-12)


# ---- NaN ----------------------------------------------------------------------------------------------------


@settings(max_examples=2 * COUNT, deadline=None)
@given(arrays(dtypes=[*REAL, "complex128"], nan=True, low=-2, high=2), st.data())
def test_nan_reductions(xa, data):
    x, a = xa
    axes, keepdims = axes_for(data, a), data.draw(st.booleans())
    count = a.size if axes is None else math.prod(a.shape[i] for i in axes)
    big = wide(a)
    result = a.dtype.name if a.dtype.kind in "fc" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check(tx.nansum(x, axis=axes, keepdims=keepdims), np.nansum(big, axis=axes, keepdims=keepdims), result)
        check(tx.nanprod(x, axis=axes, keepdims=keepdims), np.nanprod(big, axis=axes, keepdims=keepdims), result, 0.1 if a.dtype == np.float16 else None)
        check(tx.nanmean(x, axis=axes, keepdims=keepdims), np.nanmean(big, axis=axes, keepdims=keepdims), result or "float32")
        real = {"complex128": "float64"}.get(a.dtype.name, result or "float32")
        check(tx.nanvar(x, axis=axes, keepdims=keepdims), np.nanvar(big, axis=axes, keepdims=keepdims), real)
        check(tx.nanstd(x, axis=axes, keepdims=keepdims, correction=1), np.nanstd(big, axis=axes, keepdims=keepdims, ddof=1), real)
        if count and a.size and a.dtype.kind != "c":
            check(tx.nanmax(x, axis=axes, keepdims=keepdims), np.nanmax(a, axis=axes, keepdims=keepdims))
            check(tx.nanmin(x, axis=axes, keepdims=keepdims), np.nanmin(a, axis=axes, keepdims=keepdims))
            axis = None if axes is None else axes[0]
            if not np.isnan(a).all(axis=axis).any():
                check(tx.nanargmax(x, axis=axis), np.nanargmax(a, axis=axis))
                check(tx.nanargmin(x, axis=axis), np.nanargmin(a, axis=axis))


def test_nan_extremes():
    x = tx.asarray([[tx.nan, -tx.inf], [tx.nan, tx.nan]])
    assert tx.nanargmax(x[0]).item() == 1
    assert tx.nanmax(x, axis=1).tolist()[0] == -tx.inf and math.isnan(tx.nanmax(x, axis=1)[1].item())
    with pytest.raises(ValueError, match="only NaN"):
        tx.nanargmin(x, axis=1)
    y = leaf([[1.0, np.nan, 3.0], [0.5, 2.0, np.nan]])
    for f in (tx.nansum, tx.nanmean, tx.nanvar, tx.nanstd, tx.nanprod, tx.nanmax, tx.nanmedian):
        y.grad = None
        f(y, axis=1).sum().backward()
        g = np.asarray(y.grad)
        assert np.all(np.isfinite(g)) and g[0, 1] == 0 and g[1, 2] == 0, f.__name__


# ---- counting -----------------------------------------------------------------------------------------------


@EXAMPLES
@given(arrays(dtypes=["int32", "uint8", "float32", "float64"], min_side=1, nan=False), st.integers(1, 6), st.booleans())
def test_histogram(xa, bins, density):
    x, a = xa
    hist, edges = tx.histogram(x, bins, density=density)
    eh, ee = np.histogram(a, bins, density=density)
    check(hist, eh, False, 1e-5)
    check(edges, ee, False, 1e-5)
    assert hist.dtype is (tx.int64 if not density else edges.dtype)
    hist, _ = tx.histogram(x, tx.asarray([0.0, 1.0, 3.0]), weights=tx.ones(x.shape))
    check(hist, np.histogram(a, [0, 1, 3], weights=np.ones(a.shape))[0], "float32")


@EXAMPLES
@given(st.lists(st.integers(0, 9), max_size=20), st.integers(0, 12))
def test_bincount(values, minlength):
    a = np.array(values, np.int64)
    check(tx.bincount(tx.asarray(a), minlength=minlength), np.bincount(a, minlength=minlength))
    w = np.arange(a.size) / 2
    if a.size:
        check(tx.bincount(tx.asarray(a), tx.asarray(w), minlength), np.bincount(a, w, minlength))


@EXAMPLES
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=6).map(sorted), arrays(dtypes=["float64"]), st.booleans(), st.booleans())
def test_digitize(bins, xa, right, down):
    x, a = xa
    b = np.array(bins[::-1] if down else bins, np.float64)
    check(tx.digitize(x, tx.asarray(b), right=right), np.digitize(a, b, right=right), False)


@EXAMPLES
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_positions(shape, data):
    flat = np.array(data.draw(st.lists(st.integers(0, math.prod(shape) - 1), max_size=5)), np.int64)
    places = tx.unravel_index(tx.asarray(flat), tuple(shape))
    for got, expected in zip(places, np.unravel_index(flat, shape)):
        check(got, expected)
    check(tx.ravel_multi_index(places, shape), flat)


@settings(max_examples=2 * COUNT, deadline=None)
@given(arrays(dtypes=["int32", "int64", "float32", "float64"], min_dims=1, min_side=1), st.data())
def test_scatter_reduce(xa, data):
    torch = pytest.importorskip("torch")
    x, a = xa
    axis = data.draw(st.integers(0, a.ndim - 1))
    shape = tuple(data.draw(st.integers(0, 4 if i == axis else n)) for i, n in enumerate(a.shape))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    index = rng.integers(0, a.shape[axis], shape)
    src = rng.integers(-3, 4, shape).astype(a.dtype)
    reduction, include = data.draw(st.sampled_from(["sum", "prod", "mean", "amax", "amin"])), data.draw(st.booleans())
    expected = torch.scatter_reduce(torch.tensor(a.copy()), axis, torch.tensor(index), torch.tensor(src), reduction, include_self=include).numpy()
    check(tx.scatter_reduce(x, axis, tx.asarray(index), tx.asarray(src), reduction, include_self=include), expected)
    y = tx.asarray(a)
    assert y.scatter_reduce_(axis, tx.asarray(index), tx.asarray(src), reduction, include_self=include) is y
    check(y, expected)


def test_counting_gradients_and_errors():
    rng = np.random.default_rng(0)
    index = tx.asarray([[0, 1, 0], [2, 0, 2]])
    for reduction in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            x, s = leaf(rng.normal(size=(2, 3))), leaf(rng.normal(size=(2, 3)))
            f = lambda a, b, r=reduction, i=include: tx.scatter_reduce(a, 1, index, b, r, include_self=i)
            assert tx.autograd.gradcheck(f, (x, s))
            assert tx.autograd.gradgradcheck(lambda a, b, f=f: f(a * a, b * b), (x, s))
    s = leaf([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]])  # products with one zero and with two
    assert tx.autograd.gradcheck(lambda b: tx.scatter_reduce(tx.ones((2, 3), dtype=tx.float64), 1, tx.asarray([[0, 0, 1], [1, 1, 1]]), b, "prod"), s)
    w = leaf(rng.normal(size=3))
    assert tx.autograd.gradcheck(lambda t: tx.bincount(tx.asarray([1, 0, 1]), t), w)
    for call, error, text in [
        (lambda: tx.bincount(tx.asarray([-1])), ValueError, "negative"),
        (lambda: tx.bincount(tx.ones(2)), tx.DTypeError, "integers"),
        (lambda: tx.digitize(tx.ones(1), tx.asarray([1.0, 3.0, 2.0])), ValueError, "increase or decrease"),
        (lambda: tx.histogram(tx.ones(2), 0), ValueError, "histogram"),
        (lambda: tx.unravel_index(tx.asarray([6]), (2, 3)), IndexError, "6 is out of range"),
        (lambda: tx.scatter_reduce(tx.ones(2), 0, tx.asarray([0]), 1.0, "median"), ValueError, "reduce is one of"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_histograms_of_several_axes():
    a = np.random.default_rng(0).normal(size=(50, 2))
    hist, edges = tx.histogramdd(tx.asarray(a), 4)
    eh, ee = np.histogramdd(a, 4)
    check(hist, eh)
    check(edges[1], ee[1])
    got = tx.histogram2d(tx.asarray(a[:, 0]), tx.asarray(a[:, 1]), (3, 4))
    for g, e in zip(got, np.histogram2d(a[:, 0], a[:, 1], (3, 4))):
        check(g, e)


# ---- calculus and statistics --------------------------------------------------------------------------------------


@settings(max_examples=2 * COUNT, deadline=None)
@given(arrays(dtypes=["float32", "float64", "complex128", "int32"], min_dims=1, min_side=1), st.data())
def test_integrals(xa, data):
    integrate = pytest.importorskip("scipy.integrate")
    x, a = xa
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = a.shape[axis]
    places = np.cumsum(np.arange(n) + 1.0).astype(a.real.dtype if a.dtype.kind in "fc" else np.float32)
    t = tx.asarray(places)
    result = "float32" if a.dtype.kind == "i" else a.dtype.name
    rule = getattr(np, "trapezoid", None) or np.trapz
    check(tx.trapezoid(x, dx=0.5, axis=axis), rule(a, dx=0.5, axis=axis), result)
    if a.dtype.kind != "c":
        check(tx.trapezoid(x, t, axis=axis), rule(a, places, axis=axis), result)
        check(tx.cumulative_trapezoid(x, t, axis=axis, initial=0), integrate.cumulative_trapezoid(a, places, axis=axis, initial=0), result)
        if n > 2:
            for order in (1, 2):
                check(tx.gradient(x, t, axis=axis, edge_order=order), np.gradient(a, places, axis=axis, edge_order=order), result)
    if min(a.shape) > 1:
        got, expected = tx.gradient(x, 0.5), np.gradient(a, 0.5)
        for g, e in zip(got if isinstance(got, tuple) else (got,), expected if isinstance(expected, (tuple, list)) else (expected,)):
            check(g, e, result)


@EXAMPLES
@given(arrays(dtypes=FLOATS, low=-20, high=20), st.data())
def test_interp(xa, data):
    x, a = xa
    n = data.draw(st.integers(1, 6))
    xp = np.sort(np.random.default_rng(data.draw(st.integers(0, 99))).permutation(40)[:n] - 20).astype(a.dtype)
    fp = np.random.default_rng(1).normal(size=n).astype(a.dtype)
    left, right = data.draw(st.sampled_from([(None, None), (-1.0, 2.0)]))
    check(tx.interp(x, tx.asarray(xp), tx.asarray(fp), left, right), np.interp(a, xp, fp, left, right).astype(a.dtype), tol=1e-4)
    check(tx.interp(x, tx.asarray(xp), tx.asarray(fp), period=45.0), np.interp(a, xp, fp, period=45.0).astype(a.dtype), tol=1e-4)


@EXAMPLES
@given(arrays(dtypes=["int32", "int64", "float64", "complex128"], min_dims=1, max_dims=1, min_side=1, max_side=9), st.data())
def test_convolve(xa, data):
    x, a = xa
    y, b = data.draw(arrays(dtypes=[a.dtype.name], min_dims=1, max_dims=1, min_side=1, max_side=9))
    for mode in ("full", "same", "valid"):
        check(tx.convolve(x, y, mode), np.convolve(a, b, mode))
        check(tx.correlate(x, y, mode), np.correlate(a, b, mode))


@EXAMPLES
@given(arrays(dtypes=FLOATS, min_dims=1, low=-40, high=40), st.data())
def test_unwrap(xa, data):
    x, a = xa
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    discont = data.draw(st.sampled_from([None, 5.0]))
    check(tx.unwrap(x, axis=axis, discont=discont), np.unwrap(a, axis=axis, discont=discont), tol=1e-3)
    check(tx.unwrap(x, axis=axis, period=8.0), np.unwrap(a, axis=axis, period=8.0))


@EXAMPLES
@given(arrays(dtypes=["float64", "complex128", "int32"], min_dims=1, max_dims=2, min_side=2), st.booleans())
def test_covariance(xa, rowvar):
    x, a = xa
    result = "float32" if a.dtype.kind == "i" else a.dtype.name
    check(tx.cov(x, rowvar=rowvar), np.cov(a, rowvar=rowvar), result, 1e-5)
    check(tx.cov(x, rowvar=rowvar, correction=0), np.cov(a, rowvar=rowvar, ddof=0), result, 1e-5)
    n = a.shape[-1] if rowvar or a.ndim == 1 else a.shape[0]
    w = np.arange(1, n + 1)
    check(tx.cov(x, rowvar=rowvar, weights=tx.asarray(w)), np.cov(a, rowvar=rowvar, fweights=w), result, 1e-5)
    if np.all(np.var(np.atleast_2d(a), axis=1 if rowvar or a.ndim == 1 else 0) > 0):
        check(tx.corrcoef(x, rowvar=rowvar), np.corrcoef(a, rowvar=rowvar), result, 1e-5)


@EXAMPLES
@given(arrays(dtypes=["float64"], min_dims=2, max_dims=2), st.data())
def test_distances(xa, data):
    spatial = pytest.importorskip("scipy.spatial.distance")
    x, a = xa
    y, b = data.draw(arrays(dtypes=["float64"], min_dims=2, max_dims=2))
    k = min(a.shape[1], b.shape[1])
    a, b, x, y = a[:, :k], b[:, :k], x[:, :k], y[:, :k]
    if k == 0 or 0 in (a.shape[0], b.shape[0]):
        assert tx.cdist(x, y).shape == (a.shape[0], b.shape[0])
        return
    for p in (1.0, 2.0, 3.0):
        check(tx.cdist(x, y, p), spatial.cdist(a, b, "minkowski", p=p))
    check(tx.cdist(x, y, math.inf), spatial.cdist(a, b, "chebyshev"))


@EXAMPLES
@given(arrays(dtypes=["float32", "float64", "int64", "complex128", "bool"], nan=True), st.booleans())
def test_comparisons(xa, equal_nan):
    x, a = xa
    if a.dtype.kind != "b":
        moved = a + np.asarray(1e-6).astype(a.dtype)
        assert tx.allclose(x, tx.asarray(moved), equal_nan=equal_nan) is bool(np.allclose(a, moved, equal_nan=equal_nan))
        assert tx.allclose(x, tx.asarray(a + np.asarray(1).astype(a.dtype))) is bool(np.allclose(a, a + np.asarray(1).astype(a.dtype)))
    assert tx.array_equal(x, tx.asarray(a), equal_nan=equal_nan) is bool(np.array_equal(a, a, equal_nan=equal_nan and a.dtype.kind in "fc"))
    assert not tx.array_equal(x, tx.expand_dims(x, axis=0))


def test_infinities_are_close_to_themselves_only():
    x = tx.asarray([tx.inf, -tx.inf, 1.0])
    assert tx.allclose(x, x) and not tx.allclose(x, -x) and not tx.allclose(tx.asarray([1.0]), tx.asarray([tx.inf]))


def test_cosine_similarity():
    torch = pytest.importorskip("torch")
    a, b = np.random.default_rng(0).normal(size=(3, 1, 4)), np.random.default_rng(1).normal(size=(2, 4))
    check(tx.cosine_similarity(tx.asarray(a), tx.asarray(b)), torch.cosine_similarity(torch.tensor(a), torch.tensor(b), dim=-1).numpy())


def test_numerical_gradients():
    rng = np.random.default_rng(0)
    x, y = leaf(rng.normal(size=(3, 4))), leaf(rng.normal(size=(2, 4)))
    one = leaf(np.sort(rng.normal(size=5)))
    for f, inputs in [
        (lambda t: tx.trapezoid(t, tx.asarray([0.0, 1.0, 3.0, 4.0], dtype=tx.float64)), x), (lambda t: tx.gradient(t, edge_order=2), x),
        (lambda t: tx.cumulative_trapezoid(t, axis=0), x), (lambda a, b: tx.cdist(a, b), (x, y)), (lambda a, b: tx.cdist(a, b, 3.0), (x, y)),
        (lambda t: tx.cov(t), x), (lambda t: tx.corrcoef(t), x), (lambda a, b: tx.cosine_similarity(a, b[0]), (x, y)),
        (lambda t: tx.convolve(t, t * t, "same"), one), (lambda t: tx.unwrap(t * 4.0), one),
        (lambda t: tx.interp(tx.asarray([0.1, 0.5, -0.2], dtype=tx.float64), tx.asarray([-1.0, 0.0, 1.0, 2.0, 3.0], dtype=tx.float64), t), one),
        (lambda t: tx.interp(t, tx.asarray([-3.0, 0.0, 3.0], dtype=tx.float64), tx.asarray([1.0, -1.0, 4.0], dtype=tx.float64)), one),
    ]:  # fmt: skip
        assert tx.autograd.gradcheck(f, inputs)
        assert tx.autograd.gradgradcheck(f, inputs)
    z = leaf(np.zeros((2, 3)))
    tx.cdist(z, z).sum().backward()
    assert np.all(np.asarray(z.grad) == 0)


# ---- devices ------------------------------------------------------------------------------------------------------


def test_on_a_device(device):
    a = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    x, cpu = tx.asarray(a).to(device), tx.asarray(a)
    index = tx.asarray([[0, 1, 1, 2]])
    for f in (lambda t: tx.einsum("ij,kj->ik", t, t), lambda t: tx.pad(t, 1, "reflect"), lambda t: tx.pad(t, 1), lambda t: tx.topk(t, 2).values,
              lambda t: tx.median(t, axis=0), lambda t: tx.quantile(t, [0.2, 0.7]), lambda t: tx.cummax(t).values, lambda t: tx.logcumsumexp(t),
              lambda t: tx.nansum(t, axis=0), lambda t: tx.nanmax(t), lambda t: tx.histogram(t, 4).hist, lambda t: tx.diag_embed(t),
              lambda t: tx.one_hot(tx.argmax(t, axis=1), 4), lambda t: tx.cov(t), lambda t: tx.cdist(t, t), lambda t: tx.convolve(t[0], t[1]),
              lambda t: tx.gradient(t, axis=1), lambda t: tx.interp(t, tx.sort(t[0]), t[1]), lambda t: tx.mode(t).mode, lambda t: tx.kron(t, t),
              lambda t: tx.scatter_reduce(t, 0, index.to(t.device), t[:1], "amax"), lambda t: tx.rot90(t), lambda t: tx.bincount(tx.argmax(t, axis=0))):  # fmt: skip
        got = f(x)
        assert got.device is x.device
        np.testing.assert_allclose(np.asarray(got.to("cpu")), np.asarray(f(cpu)), rtol=1e-4, atol=1e-5)
