"""tensorx.linalg against NumPy and PyTorch: values, gradients, second derivatives, errors."""

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorx as tx
from tensorx import linalg

EXAMPLES = settings(max_examples=int(os.environ.get("TENSORX_EXAMPLES", "10")), deadline=None)


def matrix(*shape, kind="f", seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=shape)
    return a + 1j * rng.normal(size=shape) if kind == "c" else a


def hermitian(*shape, kind="f", seed=0):
    a = matrix(*shape, kind=kind, seed=seed)
    return a + np.conj(np.swapaxes(a, -1, -2))


def definite(*shape, kind="f", seed=0):
    a = matrix(*shape, kind=kind, seed=seed)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + shape[-1] * np.eye(shape[-1])


def leaf(a):
    return tx.asarray(a).requires_grad_()


def close(got, expected, tol=1e-10):
    got = got if isinstance(got, np.ndarray) else np.asarray(got.detach())
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


# ---- values ------------------------------------------------------------------------------------

SIZES = st.tuples(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3), st.integers(0, 4), st.integers(0, 4))


@st.composite
def matrices(draw, square=False, min_side=0):
    lead, m, n = draw(SIZES)
    m, n = max(m, min_side), max(n, min_side)
    shape = (*lead, m, m if square else n)
    seed, dtype = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(["float32", "float64", "complex64", "complex128"]))
    a = matrix(*shape, kind=np.dtype(dtype).kind, seed=seed).astype(dtype)
    if draw(st.booleans()):  # strides
        big = np.zeros((*shape[:-2], shape[-2] * 2, shape[-1]), dtype)
        big[..., ::2, :] = a
        return tx.asarray(big)[..., ::2, :], a
    if draw(st.booleans()):
        return tx.asarray(np.ascontiguousarray(np.swapaxes(a, -1, -2))).mT, a
    return tx.asarray(a), a


def tolerance(a):
    return 2e-4 if a.dtype in (np.float32, np.complex64) else 1e-9


@EXAMPLES
@given(matrices(), st.sampled_from(["reduced", "complete"]))
def test_qr(ab, mode):
    x, a = ab
    q, r = linalg.qr(x, mode=mode)
    expected = np.linalg.qr(a, mode=mode)
    assert q.shape == expected[0].shape and r.shape == expected[1].shape and q.dtype is x.dtype and r.dtype is x.dtype
    close(q @ r, a, tolerance(a))
    close(linalg.matrix_transpose(tx.conj(q) if a.dtype.kind == "c" else q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])), tolerance(a))


@EXAMPLES
@given(matrices(), st.booleans())
def test_svd(ab, full):
    x, a = ab
    u, s, vh = linalg.svd(x, full_matrices=full)
    eu, es, evh = np.linalg.svd(a, full_matrices=full)
    assert u.shape == eu.shape and vh.shape == evh.shape and u.dtype is x.dtype
    close(s, es, tolerance(a))
    close(linalg.svdvals(x), es, tolerance(a))
    k = s.shape[-1]
    us = np.asarray(u)[..., :k] * np.asarray(s)[..., None, :]
    close(us @ np.asarray(vh)[..., :k, :], a, tolerance(a))


@EXAMPLES
@given(matrices(square=True))
def test_eigh_and_cholesky(ab):
    x, a = ab
    h = a + np.conj(np.swapaxes(a, -1, -2))
    w, v = linalg.eigh(tx.asarray(h))
    close(w, np.linalg.eigvalsh(h), tolerance(a))
    close(linalg.eigvalsh(tx.asarray(h)), np.linalg.eigvalsh(h), tolerance(a))
    close(tx.asarray(h) @ v, np.asarray(v) * np.asarray(w)[..., None, :], 10 * tolerance(a))
    p = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1], dtype=a.dtype) * 2
    low = linalg.cholesky(tx.asarray(p))
    close(low, np.linalg.cholesky(p), tolerance(a))
    close(linalg.cholesky(tx.asarray(p), upper=True), np.conj(np.swapaxes(np.linalg.cholesky(p), -1, -2)), tolerance(a))
    assert low.dtype is x.dtype


@EXAMPLES
@given(matrices(square=True), st.integers(-2, 4))
def test_square(ab, n):
    x, a = ab
    close(linalg.det(x), np.linalg.det(a), 10 * tolerance(a))
    sign, value = linalg.slogdet(x)
    es, ev = np.linalg.slogdet(a)
    close(sign, es, 10 * tolerance(a))
    close(value, ev, 10 * tolerance(a))
    a = a + 4 * np.eye(a.shape[-1], dtype=a.dtype)
    x = tx.asarray(a)
    close(linalg.inv(x), np.linalg.inv(a), 10 * tolerance(a))
    close(linalg.matrix_power(x, n), np.linalg.matrix_power(a, n), 100 * tolerance(a))
    b = np.ones((a.shape[-1], 2), a.dtype)
    close(linalg.solve(x, tx.asarray(b)), np.linalg.solve(a, np.broadcast_to(b, (*a.shape[:-2], *b.shape))), 10 * tolerance(a))
    v = np.ones(a.shape[-1], a.dtype)
    close(linalg.solve(x, tx.asarray(v)), np.linalg.solve(a, np.broadcast_to(v[:, None], (*a.shape[:-2], a.shape[-1], 1)))[..., 0], 10 * tolerance(a))
    w, vectors = linalg.eig(x)
    assert w.dtype.kind == "c" and vectors.dtype.kind == "c"
    close(np.asarray(vectors) * np.asarray(w)[..., None, :], a @ np.asarray(vectors), 100 * tolerance(a))


@EXAMPLES
@given(matrices(), st.booleans(), st.integers(-3, 3))
def test_any_matrix(ab, keepdims, offset):
    x, a = ab
    close(linalg.pinv(x), np.linalg.pinv(a) if a.size else np.swapaxes(a, -1, -2), 100 * tolerance(a))
    if a.size:
        np.testing.assert_array_equal(np.asarray(linalg.matrix_rank(x)), np.linalg.matrix_rank(a))
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        if 0 not in a.shape[-2:] or order in ("fro", "nuc"):
            got = linalg.matrix_norm(x, ord=order, keepdims=keepdims)
            close(got, np.linalg.norm(a, order, axis=(-2, -1), keepdims=keepdims), 10 * tolerance(a))
            assert got.dtype.name == a.real.dtype.name
    if -a.shape[-2] <= offset <= a.shape[-1]:
        close(linalg.diagonal(x, offset=offset), np.diagonal(a, offset, -2, -1), 1e-12)
        close(linalg.trace(x, offset=offset), np.trace(a, offset, -2, -1), tolerance(a))


@EXAMPLES
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), elements=st.floats(-5, 5)), st.data())
def test_vector_norm(a, data):
    axes = data.draw(st.none() | st.lists(st.integers(-a.ndim, a.ndim - 1), unique_by=lambda i: i % a.ndim, min_size=1).map(tuple) if a.ndim else st.none())
    order, keepdims = data.draw(st.sampled_from([0, 1, 2, 3, 0.5, math.inf])), data.draw(st.booleans())
    count = a.size if axes is None else math.prod(a.shape[i] for i in axes)
    if order == math.inf and count == 0:
        return
    flat = tuple(range(a.ndim)) if axes is None else axes
    b = np.abs(a)
    if order == 0:
        expected = np.count_nonzero(b, axis=flat, keepdims=keepdims)
    elif order == math.inf:
        expected = b.max(axis=flat, keepdims=keepdims)
    else:
        expected = np.sum(b**order, axis=flat, keepdims=keepdims) ** (1 / order)
    close(linalg.vector_norm(tx.asarray(a), axis=axes, ord=order, keepdims=keepdims), expected)


@EXAMPLES
@given(st.data())
def test_cross(data):
    shape = list(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] = 3
    dtype = data.draw(st.sampled_from([np.int32, np.float64, np.complex128]))
    a, b = (data.draw(hnp.arrays(dtype, shape, elements=st.integers(-9, 9))) for _ in range(2))
    got = linalg.cross(tx.asarray(a), tx.asarray(b), axis=axis - len(shape))
    close(got, np.cross(a, b, axis=axis))
    assert got.dtype.name == np.dtype(dtype).name


def test_cross_broadcasts():
    a, b = matrix(4, 1, 3), matrix(2, 3)
    close(linalg.cross(tx.asarray(a), tx.asarray(b)), np.cross(a, b))


def test_results_have_names():
    x = tx.asarray(definite(3, 3))
    assert linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.qr(x)._fields == ("Q", "R")
    assert linalg.svd(x)._fields == ("U", "S", "Vh")
    assert linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")


def test_halves_compute_in_float32(device):
    a = definite(3, 3).astype(np.float16)
    for dtype in (tx.float16, tx.bfloat16):
        x = tx.asarray(a).astype(dtype).to(device)
        y = linalg.inv(x)
        assert y.dtype is dtype and str(y.device).startswith(device)
        expected = np.linalg.inv(np.asarray(x.to("cpu").astype(tx.float32)))
        np.testing.assert_allclose(np.asarray(y.to("cpu").astype(tx.float32)), expected, rtol=1e-2, atol=1e-3)


def test_on_a_device(device):
    a = definite(3, 3).astype(np.float32)
    x = tx.asarray(a).to(device)
    for name in ("inv", "cholesky", "det", "svdvals", "eigvalsh", "pinv", "matrix_norm", "expm"):
        got = getattr(linalg, name)(x)
        assert got.device is x.device
        expected = getattr(linalg, name)(tx.asarray(a))
        np.testing.assert_allclose(np.asarray(got.to("cpu")), np.asarray(expected), rtol=1e-4, atol=1e-4)


def test_lstsq():
    a, b = matrix(2, 6, 3), matrix(2, 6, 2, seed=1)
    x, residuals, rank, s = linalg.lstsq(tx.asarray(a), tx.asarray(b))
    for k in range(2):
        ex, er, erank, es = np.linalg.lstsq(a[k], b[k], rcond=None)
        close(x[k], ex)
        close(residuals[k], er)
        close(s[k], es)
        assert rank[k].item() == erank
    low = a[0].copy()
    low[:, 2] = low[:, 0]
    x, residuals, rank, s = linalg.lstsq(tx.asarray(low), tx.asarray(b[0, :, 0]))
    close(x, np.linalg.lstsq(low, b[0, :, 0], rcond=None)[0])
    assert rank.item() == 2 and residuals.size == 0


def test_expm():
    scipy = pytest.importorskip("scipy.linalg")
    for scale in (0.01, 1.0, 30.0):
        for kind in "fc":
            a = matrix(4, 4, kind=kind) * scale
            close(linalg.expm(tx.asarray(a)), scipy.expm(a), 1e-8 * max(1.0, np.abs(scipy.expm(a)).max()))


def test_multi_dot_and_triangular():
    parts = [matrix(5), matrix(5, 2), matrix(2, 7), matrix(7, 3)]
    close(linalg.multi_dot([tx.asarray(p) for p in parts]), np.linalg.multi_dot(parts))
    a, b = definite(4, 4), matrix(4, 2)
    close(linalg.solve_triangular(tx.asarray(a), tx.asarray(b)), np.linalg.solve(np.tril(a), b))
    close(linalg.solve_triangular(tx.asarray(a), tx.asarray(b), upper=True), np.linalg.solve(np.triu(a), b))
    unit = np.tril(a, -1) + np.eye(4)
    close(linalg.solve_triangular(tx.asarray(a), tx.asarray(b), unit_diagonal=True), np.linalg.solve(unit, b))
    close(linalg.cond(tx.asarray(a)), np.linalg.cond(a))
    close(linalg.cond(tx.asarray(a), p=1), np.linalg.cond(a, 1))
    for order in (None, 1, "nuc", "fro"):
        close(linalg.norm(tx.asarray(a), ord=order), np.linalg.norm(a, order))


# ---- errors ----------------------------------------------------------------------------------------


def test_singular_matrices_say_so():
    a = np.stack([np.eye(2), np.ones((2, 2))])
    for call in (lambda x: linalg.inv(x), lambda x: linalg.solve(x, tx.ones(2, dtype=tx.float64))):
        with pytest.raises(linalg.LinAlgError, match=r"singular \(matrix \(1,\) of the batch\)"):
            call(tx.asarray(a))
    with pytest.raises(linalg.LinAlgError, match="not positive definite"):
        linalg.cholesky(tx.asarray([[1.0, 2.0], [2.0, 1.0]]))
    assert issubclass(linalg.LinAlgError, tx.TensorxError) and issubclass(linalg.LinAlgError, ValueError)


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigh", "eigvalsh", "slogdet", "eig", "expm"])
def test_not_square(name):
    with pytest.raises(tx.ShapeError, match=f"{name}.*square matrices, got 2 rows and 3 columns"):
        getattr(linalg, name)(tx.ones((2, 3)))
    with pytest.raises(tx.ShapeError, match="at least 2 axes"):
        getattr(linalg, name)(tx.ones(3))
    with pytest.raises(tx.DTypeError, match="floating-point"):
        getattr(linalg, name)(tx.ones((2, 2), dtype=tx.int32))


def test_other_errors():
    with pytest.raises(tx.ShapeError, match="2 unknowns against 3 rows"):
        linalg.solve(tx.eye(2), tx.ones(3))
    with pytest.raises(ValueError, match="mode"):
        linalg.qr(tx.eye(2), mode="raw")
    with pytest.raises(ValueError, match="ord"):
        linalg.matrix_norm(tx.eye(2), ord=3)
    with pytest.raises(tx.ShapeError, match="3 elements"):
        linalg.cross(tx.ones(2), tx.ones(2))
    with pytest.raises(tx.ShapeError, match="no gradient"):
        linalg.svd(leaf(matrix(3, 2)))


# ---- gradients ---------------------------------------------------------------------------------------

SYMMETRIC = {"cholesky", "eigh", "eigvalsh"}
GRADIENTS = {
    "inv": (lambda x: linalg.inv(x), lambda k: definite(2, 3, 3, kind=k)),
    "det": (lambda x: linalg.det(x), lambda k: matrix(2, 3, 3, kind=k)),
    "slogdet": (lambda x: linalg.slogdet(x), lambda k: matrix(3, 3, kind=k)),
    "cholesky": (lambda x: linalg.cholesky(_both(x)), lambda k: definite(3, 3, kind=k)),
    "cholesky upper": (lambda x: linalg.cholesky(_both(x), upper=True), lambda k: definite(3, 3, kind=k)),
    "eigvalsh": (lambda x: linalg.eigvalsh(_both(x)), lambda k: hermitian(3, 3, kind=k)),
    "eigh": (lambda x: _phased(*linalg.eigh(_both(x))), lambda k: hermitian(3, 3, kind=k)),
    "svdvals": (lambda x: linalg.svdvals(x), lambda k: matrix(2, 4, 3, kind=k)),
    "svd tall": (lambda x: _svd_invariants(x), lambda k: matrix(4, 3, kind=k)),
    "svd wide": (lambda x: _svd_invariants(x), lambda k: matrix(2, 4, kind=k)),
    "qr square": (lambda x: linalg.qr(x), lambda k: matrix(3, 3, kind=k)),
    "qr tall": (lambda x: linalg.qr(x), lambda k: matrix(4, 2, kind=k)),
    "qr wide": (lambda x: linalg.qr(x), lambda k: matrix(2, 4, kind=k)),
    "qr complete": (lambda x: linalg.qr(x, mode="complete"), lambda k: matrix(2, 3, kind=k)),
    "pinv tall": (lambda x: linalg.pinv(x), lambda k: matrix(4, 2, kind=k)),
    "pinv wide": (lambda x: linalg.pinv(x), lambda k: matrix(2, 3, kind=k)),
    "eig": (lambda x: _eig_invariants(x), lambda k: matrix(3, 3, kind=k)),
    "solve": (lambda x: linalg.solve(x, x[:, :2] * x[:, :2]), lambda k: definite(3, 3, kind=k)),
    "solve vector": (lambda x: linalg.solve(x, x[:, 0]), lambda k: definite(3, 3, kind=k)),
    "solve_triangular": (lambda x: linalg.solve_triangular(x, x[:, :1]), lambda k: definite(3, 3, kind=k)),
    "lstsq": (lambda x: linalg.lstsq(x, x[:, :1] * x[:, 1:]).solution, lambda k: matrix(4, 2, kind=k)),
    "matrix_power": (lambda x: linalg.matrix_power(x, 3), lambda k: matrix(2, 2, kind=k)),
    "matrix_power -2": (lambda x: linalg.matrix_power(x, -2), lambda k: definite(2, 2, kind=k)),
    "nuclear": (lambda x: linalg.matrix_norm(x, ord="nuc"), lambda k: matrix(3, 2, kind=k)),
    "spectral": (lambda x: linalg.matrix_norm(x, ord=2), lambda k: matrix(3, 2, kind=k)),
    "frobenius": (lambda x: linalg.matrix_norm(x), lambda k: matrix(3, 2, kind=k)),
    "norm 1": (lambda x: linalg.matrix_norm(x, ord=1), lambda k: matrix(3, 2, kind=k)),
    "vector_norm": (lambda x: linalg.vector_norm(x, ord=3, axis=0), lambda k: matrix(3, 2, kind=k)),
    "trace": (lambda x: linalg.trace(x, offset=1), lambda k: matrix(3, 3, kind=k)),
    "cross": (lambda x: linalg.cross(x[0], x[1]), lambda k: matrix(2, 3, kind=k)),
    "multi_dot": (lambda x: linalg.multi_dot([x, x.mT, x]), lambda k: matrix(2, 3, kind=k)),
    "expm": (lambda x: linalg.expm(x), lambda k: matrix(2, 2, kind=k) * 0.5),
    "cond": (lambda x: linalg.cond(x), lambda k: matrix(3, 2, kind=k)),
}


def _both(x):
    """A Hermitian matrix of any: the function reads one triangle."""
    return 0.5 * (x + (tx.conj(x) if x.dtype.kind == "c" else x).mT)


def _phased(w, v):
    """Eigenvectors up to their phases."""
    return w, v * (tx.conj(v) if v.dtype.kind == "c" else v)[:1, :], tx.abs(v)


def _svd_invariants(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return s, u @ vh, tx.abs(u), tx.abs(vh)


def _eig_invariants(x):
    w, v = linalg.eig(x)
    return w, tx.abs(v)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_against_differences(name, kind):
    function, make = GRADIENTS[name]
    x = leaf(make(kind))
    assert tx.autograd.gradcheck(function, x)


LONG = "TENSORX_EXAMPLES" in os.environ
COMPLEX = ["inv", "det", "slogdet", "qr tall", "pinv tall", "solve", "svdvals"] if not LONG else [n for n in GRADIENTS if n != "norm 1"]
SECOND = [(n, "f") for n in GRADIENTS if n not in ("solve vector", "qr complete", "cholesky upper", "trace")] + [(n, "c") for n in COMPLEX]


@pytest.mark.parametrize("name, kind", SECOND)
def test_second_derivatives(name, kind):
    function, make = GRADIENTS[name]
    x = make(kind)
    assert tx.autograd.gradgradcheck(function, leaf(x[0] if x.ndim == 3 else x))


def test_det_of_singular_matrices_has_the_cofactors():
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    x = leaf(a)
    linalg.det(x).backward()
    cofactors = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)] for i in range(3)]
    close(x.grad, cofactors, 1e-9)
    assert tx.autograd.gradcheck(linalg.det, leaf(a))
    x = leaf(np.zeros((3, 3)))
    linalg.det(x).backward()
    close(x.grad, np.zeros((3, 3)))


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "svd tall", "qr tall", "eigh", "pinv tall", "solve", "slogdet", "expm"])
def test_gradients_against_torch(name):
    torch = pytest.importorskip("torch")
    function, make = GRADIENTS[name]
    t = torch.linalg
    adjoint = lambda z: z.mH
    theirs = {
        "inv": t.inv, "det": t.det, "slogdet": lambda z: t.slogdet(z),
        "cholesky": lambda z: t.cholesky(0.5 * (z + adjoint(z))),
        "svd tall": lambda z: (lambda u, s, vh: (s, u @ vh, u.abs(), vh.abs()))(*t.svd(z, full_matrices=False)),
        "qr tall": lambda z: tuple(t.qr(z)),
        "eigh": lambda z: (lambda w, v: (w, v * v.conj()[:1, :], v.abs()))(*t.eigh(0.5 * (z + adjoint(z)))),
        "pinv tall": t.pinv, "solve": lambda z: t.solve(z, z[:, :2] * z[:, :2]), "expm": t.matrix_exp,
    }[name]  # fmt: skip
    for kind in "fc":
        a = make(kind)
        x, z = leaf(a), torch.tensor(a, requires_grad=True)
        mine, other = function(x), theirs(z)
        mine = mine if isinstance(mine, tuple) else (mine,)
        other = other if isinstance(other, tuple) else (other,)
        loss, expected = 0.0, 0.0
        for m, o in zip(mine, other):
            close(m, o.detach().numpy(), 1e-9)
            weights = np.cos(np.arange(m.size)).reshape(m.shape)
            loss = loss + (tx.real(m) * tx.asarray(weights)).sum() + (tx.imag(m) * tx.asarray(weights)).sum() if m.dtype.kind == "c" else loss + (m * tx.asarray(weights)).sum()
            w = torch.tensor(weights)
            expected = expected + ((o.real * w).sum() + (o.imag * w).sum() if o.is_complex() else (o * w).sum())
        loss.backward()
        expected.backward()
        close(x.grad, z.grad.numpy(), 1e-9)


def test_halves_have_gradients():
    x = tx.asarray(definite(3, 3)).astype(tx.float16).requires_grad_()
    linalg.inv(x).sum().backward()
    assert x.grad.dtype is tx.float16 and bool(tx.all(tx.isfinite(x.grad)))


def test_gradient_of_complete_qr_says_why_not():
    q, r = linalg.qr(leaf(matrix(4, 2)), mode="complete")
    with pytest.raises(tx.GradientError, match="mode='reduced'"):
        q.sum().backward()
