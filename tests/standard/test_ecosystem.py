"""Libraries that take any array of the standard: array-api-compat, array-api-extra, einops, SciPy, scikit-learn, Hypothesis."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorx as tx

pytestmark = pytest.mark.once
HERE = Path(__file__).parent


def check(run_child, name):
    """A script of this folder in an interpreter of its own, since the switch is read when SciPy is imported."""
    code = f"import runpy; runpy.run_path({str(HERE / name)!r}, run_name='__main__')"
    return run_child(code, timeout=50, env={"SCIPY_ARRAY_API": "1"}, imports="import tensorx, scipy").stdout


def test_scipy(run_child):
    scipy = pytest.importorskip("scipy")
    if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16):
        pytest.skip("arrays of any library are taken from SciPy 1.16 on")
    assert "functions" in check(run_child, "check_scipy.py")


def test_sklearn(run_child):
    sklearn = pytest.importorskip("sklearn")
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        pytest.skip("what is checked takes arrays of any library from scikit-learn 1.8 on")
    assert "estimators" in check(run_child, "check_sklearn.py")


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = tx.ones((2, 3))
    assert compat.array_namespace(x) is tx and compat.array_namespace(x, 1.0, x) is tx
    assert compat.is_array_api_obj(x) and not compat.is_numpy_array(x) and not compat.is_torch_array(x)
    assert compat.device(x) == x.device and compat.size(x) == 6 and compat.to_device(x, "cpu").tolist() == x.tolist()
    assert compat.is_writeable_array(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_array_api_extra():
    xpx = pytest.importorskip("array_api_extra")
    a = np.random.default_rng(0).standard_normal((5, 3))
    x = tx.asarray(a)
    for got, want in (
        (xpx.atleast_nd(x[0, 0], ndim=2), [[a[0, 0]]]),
        (xpx.cov(x.T), np.cov(a.T)),
        (xpx.create_diagonal(x[0]), np.diag(a[0])),
        (xpx.kron(x, x), np.kron(a, a)),
        (xpx.setdiff1d(tx.asarray([3, 1, 2]), tx.asarray([1])), [2, 3]),
        (xpx.sinc(x), np.sinc(a)),
        (xpx.nunique(tx.asarray([1, 2, 1])), 2),
        (xpx.pad(x, 1), np.pad(a, 1)),
        (xpx.one_hot(tx.asarray([0, 2]), 3), [[1, 0, 0], [0, 0, 1]]),
        (xpx.isclose(x, x + 1e-9), np.ones((5, 3))),
        (xpx.at(x, 0).set(1.0, copy=True), np.vstack([np.ones(3), a[1:]])),
        (xpx.at(x)[x > 0].add(1.0, copy=True), np.where(a > 0, a + 1, a)),
        (xpx.apply_where(x > 0, x, lambda v: v * 2, fill_value=0.0), np.where(a > 0, 2 * a, 0)),
    ):
        assert isinstance(got, tx.Tensor)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9, atol=1e-12)


def test_einops():
    einops = pytest.importorskip("einops")
    a = np.random.default_rng(0).standard_normal((6, 4, 3))
    x = tx.asarray(a)
    b = np.random.default_rng(1).standard_normal((3, 5))
    for call in (
        lambda v, w: einops.rearrange(v, "(a b) c d -> b (c a) d", a=2),
        lambda v, w: einops.reduce(v, "a (b c) d -> a b d", "mean", c=2),
        lambda v, w: einops.reduce(v, "a b c -> c", "max"),
        lambda v, w: einops.reduce(v, "a b c -> a", "prod"),
        lambda v, w: einops.repeat(v, "a b c -> a (b k) c", k=3),
        lambda v, w: einops.rearrange([v, v], "s a b c -> a s b c"),
        lambda v, w: einops.pack([v, v[0]], "* b c")[0],
        lambda v, w: einops.einsum(v, w, "a b c, c d -> a b d"),
    ):
        got = call(x, tx.asarray(b))
        assert isinstance(got, tx.Tensor)
        np.testing.assert_allclose(np.asarray(got), call(a, b), rtol=1e-12)
    w = tx.asarray(a)
    w.requires_grad = True
    einops.reduce(w, "a b c -> a", "sum").sum().backward()
    assert w.grad.shape == w.shape and (w.grad == 1).all()


@pytest.mark.parametrize("order", ["einops, tensorx", "tensorx, einops"])
def test_einops_imported_before_or_after(order):
    pytest.importorskip("einops")
    code = f"import {order}; print(einops.rearrange(tensorx.arange(4), '(a b) -> b a', a=2).tolist(), einops.rearrange.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("[[0, 2], [1, 3]]"), done.stderr


def test_tensorx_does_not_import_einops():
    done = subprocess.run([sys.executable, "-c", "import tensorx, sys; print('einops' in sys.modules)"], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_hypothesis_makes_arrays():
    """Hypothesis builds arrays of any library of the standard; it checks what it writes by reading it back."""
    from hypothesis import given, settings
    from hypothesis.extra import array_api

    xps = array_api.make_strategies_namespace(tx)

    @settings(max_examples=30, deadline=None, database=None, derandomize=True)
    @given(xps.arrays(dtype=xps.scalar_dtypes(), shape=xps.array_shapes(min_dims=0, min_side=0)))
    def run(x):
        assert x.dtype.name in str(x.dtype) and x.size == np.asarray(x).size

    run()
