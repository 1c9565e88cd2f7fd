"""tensorx.fft against NumPy and PyTorch: values, dtypes, gradients, second derivatives, errors."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorx as tx

EXAMPLES = settings(max_examples=int(os.environ.get("TENSORX_EXAMPLES", "12")), deadline=None)
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
REAL_IN = ("rfft", "ihfft", "rfftn")
REAL_OUT = ("irfft", "hfft", "irfftn")


def numbers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=shape)
    return (a + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


@st.composite
def inputs(draw, name):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2 if name in REAL_OUT else 1, max_side=6))
    if draw(st.integers(0, 5)) == 0:
        shape = (0, *shape)
    dtype = draw(st.sampled_from(["float32", "float64"] if name in REAL_IN else ["float32", "float64", "complex64", "complex128"]))
    a = numbers(shape, dtype, draw(st.integers(0, 2**32 - 1)))
    step = draw(st.sampled_from([1, -1, 2]))
    if step == 2:
        big = np.zeros((*shape[:-1], shape[-1] * 2), dtype)
        big[..., ::2] = a
        return tx.asarray(big)[..., ::2], a
    return (tx.asarray(np.ascontiguousarray(a[..., ::-1]))[..., ::-1], a) if step == -1 else (tx.asarray(a), a)


def check(name, got, expected, dtype):
    wide = dtype in (np.float64, np.complex128)
    result = {False: ("complex64", "float32"), True: ("complex128", "float64")}[wide][name in REAL_OUT]
    assert got.dtype.name == result
    assert got.shape == expected.shape
    tol = 1e-10 if wide else 1e-4
    np.testing.assert_allclose(np.asarray(got), expected, rtol=tol, atol=tol)


@EXAMPLES
@pytest.mark.parametrize("name", ONE)
@given(st.data())
def test_one_axis(name, data):
    x, a = data.draw(inputs(name))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = data.draw(st.none() | st.integers(1, 9))
    if a.shape[axis] == 0 and n is None or (name in REAL_OUT and n is None and a.shape[axis] < 2):
        return
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    if wide.shape[axis] == 0:
        wide = np.zeros((*a.shape[: axis % a.ndim], n, *a.shape[axis % a.ndim + 1 :]), wide.dtype)
    got = getattr(tx.fft, name)(x, n=n, axis=axis, norm=norm)
    if 0 in got.shape:
        assert got.size == 0
        return
    check(name, got, getattr(np.fft, name)(wide, n=n, axis=axis, norm=norm), a.dtype)


@EXAMPLES
@pytest.mark.parametrize("name", SEVERAL)
@given(st.data())
def test_several_axes(name, data):
    x, a = data.draw(inputs(name))
    axes = data.draw(st.none() | st.lists(st.integers(0, a.ndim - 1), unique=True, min_size=1))
    used = range(a.ndim) if axes is None else axes
    sizes = data.draw(st.none() | st.lists(st.integers(1, 6), min_size=len(used), max_size=len(used)))
    if a.size == 0 or (name in REAL_OUT and sizes is None and a.shape[list(used)[-1]] < 2):
        return
    if sizes is not None and axes is None:
        axes = list(used)
    axes = axes if axes is None else [i - a.ndim if data.draw(st.booleans()) else i for i in axes]
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    got = getattr(tx.fft, name)(x, s=sizes, axes=axes, norm=norm)
    check(name, got, getattr(np.fft, name)(wide, s=sizes, axes=axes, norm=norm), a.dtype)


@EXAMPLES
@given(st.integers(1, 20), st.floats(0.1, 10), st.sampled_from([tx.float32, tx.float64]))
def test_frequencies(n, d, dtype):
    for name in ("fftfreq", "rfftfreq"):
        got = getattr(tx.fft, name)(n, d=d, dtype=dtype)
        assert got.dtype is dtype
        np.testing.assert_allclose(np.asarray(got), getattr(np.fft, name)(n, d), rtol=1e-6)


@EXAMPLES
@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)), st.data())
def test_shifts(a, data):
    axes = data.draw(st.none() | st.lists(st.integers(-a.ndim, a.ndim - 1), unique_by=lambda i: i % a.ndim).map(tuple))
    for name in ("fftshift", "ifftshift"):
        np.testing.assert_array_equal(np.asarray(getattr(tx.fft, name)(tx.asarray(a), axes=axes)), getattr(np.fft, name)(a, axes=axes))


def test_on_a_device(device):
    a = numbers((3, 8), "float32", 0)
    x = tx.asarray(a).to(device)
    for name in ONE + SEVERAL:
        got = getattr(tx.fft, name)(x)
        assert got.device is x.device
        np.testing.assert_allclose(np.asarray(got.to("cpu")), getattr(np.fft, name)(a), rtol=1e-4, atol=1e-4)


def test_halves():
    a = numbers(8, "float32", 0)
    for dtype in (tx.float16, tx.bfloat16):
        got = tx.fft.rfft(tx.asarray(a).astype(dtype))
        assert got.dtype is tx.complex64
        np.testing.assert_allclose(np.asarray(got), np.fft.rfft(a), rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ONE)
def test_gradients(name, norm):
    for kind in "f" if name in REAL_IN else "fc":
        for n, axis in ((None, -1), (7, -1), (3, 0), (4, 1)):
            x = tx.asarray(numbers((3, 4), "complex128" if kind == "c" else "float64", 1)).requires_grad_()
            function = lambda t, n=n, axis=axis: getattr(tx.fft, name)(t, n=n, axis=axis, norm=norm)
            assert tx.autograd.gradcheck(function, x)
        assert tx.autograd.gradgradcheck(lambda t: function(t) * function(t), x)


@pytest.mark.parametrize("name", SEVERAL)
def test_gradients_of_several_axes(name):
    for kind in "f" if name in REAL_IN else "fc":
        x = tx.asarray(numbers((2, 3, 3), "complex128" if kind == "c" else "float64", 1)).requires_grad_()
        for how in ({}, {"axes": (2, 0), "s": (3, 2)}):
            assert tx.autograd.gradcheck(lambda t, how=how: getattr(tx.fft, name)(t, **how), x)


@pytest.mark.parametrize("name", ONE + SEVERAL)
def test_gradients_against_torch(name):
    torch = pytest.importorskip("torch")
    for norm in ("backward", "ortho", "forward"):
        a = numbers((3, 6), "float64" if name in REAL_IN else "complex128", 2)
        x, z = tx.asarray(a).requires_grad_(), torch.tensor(a, requires_grad=True)
        mine, other = getattr(tx.fft, name)(x, norm=norm), getattr(torch.fft, name)(z, norm=norm)
        np.testing.assert_allclose(np.asarray(mine.detach()), other.detach().resolve_conj().numpy(), rtol=1e-10, atol=1e-10)
        weights = np.cos(np.arange(mine.size)).reshape(mine.shape)
        if mine.dtype.kind == "c":
            mine, other = tx.real(mine) * 2.0 + tx.imag(mine), other.real * 2.0 + other.imag
        (mine * tx.asarray(weights)).sum().backward()
        (other * torch.tensor(weights)).sum().backward()
        np.testing.assert_allclose(np.asarray(x.grad), z.grad.resolve_conj().numpy(), rtol=1e-10, atol=1e-10)


def test_errors():
    with pytest.raises(tx.DTypeError, match="rfft: needs real floating-point numbers, got complex64"):
        tx.fft.rfft(tx.ones(3, dtype=tx.complex64))
    with pytest.raises(tx.DTypeError, match="fft: needs floating-point numbers, got int64"):
        tx.fft.fft(tx.ones(3, dtype=tx.int64))
    with pytest.raises(tx.ShapeError, match="axis 2"):
        tx.fft.fft(tx.ones(3), axis=2)
    with pytest.raises(tx.ShapeError, match="at least one point"):
        tx.fft.fft(tx.ones(3), n=0)
    with pytest.raises(tx.ShapeError, match="at least one point"):
        tx.fft.irfft(tx.ones(1))
    with pytest.raises(ValueError, match="norm"):
        tx.fft.fft(tx.ones(3), norm="other")
    with pytest.raises(tx.ShapeError, match="twice"):
        tx.fft.fftn(tx.ones((2, 2)), axes=(0, -2))
    with pytest.raises(tx.ShapeError, match="sizes"):
        tx.fft.fftn(tx.ones((2, 2)), s=(2,), axes=(0, 1))
    with pytest.raises(tx.DTypeError, match="real floating"):
        tx.fft.fftfreq(3, dtype=tx.int32)
