"""softmax and its kin, layer_norm, rms_norm and their gradients against NumPy in double."""

import numpy as np
import pytest
from metal_tools import from_bf16, to_bf16

import tensorx as tx
from tensorx.metal import rows


def reference(kind, x, axis):
    x = x.astype(float)
    with np.errstate(all="ignore"):
        top = x.max(axis=axis, keepdims=True)
        shifted = x - np.where(np.isfinite(top) | np.isnan(top), top, 0 if kind == "logsumexp" else top)
        e = np.exp(shifted)
        s = e.sum(axis=axis, keepdims=True)
        if kind == "softmax":
            return e / s
        if kind == "log_softmax":
            return shifted - np.log(s)
        return (np.log(s) + (x - shifted).max(axis=axis, keepdims=True)).squeeze(axis)


def run(gpu, kind, x, axis, dtype=None):
    dtype = dtype or x.dtype.name
    axis %= x.ndim
    shape = x.shape if kind != "logsumexp" else (*x.shape[:axis], *x.shape[axis + 1 :])
    a, out = gpu.put(x, dtype, pad=3), gpu.empty(shape, dtype, pad=1)
    rows.softmax(gpu.inst, a, axis, out, kind)
    return gpu.get(out)


KINDS = ["softmax", "log_softmax", "logsumexp"]
SHAPES = [((5,), 0), ((3, 16), 1), ((3, 17), -1), ((4, 1000), 1), ((1000, 4), 0), ((2, 129, 3), 1), ((40, 300), 1),
          ((2, 3, 5, 7), 2), ((3, 1), 1)]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_softmax(gpu, kind, shape, axis):
    x = (np.random.default_rng(0).normal(size=shape) * 5).astype(np.float32)
    np.testing.assert_allclose(run(gpu, kind, x, axis), reference(kind, x, axis), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(gpu, kind, dtype):
    x = np.random.default_rng(1).normal(size=(7, 50)).astype(np.float32)
    if dtype == "bfloat16":
        held = to_bf16(x)
        got, exact = from_bf16(run(gpu, kind, held, 1, dtype)), from_bf16(held)
    else:
        held = x.astype(np.float16)
        got, exact = run(gpu, kind, held, 1).astype(float), held
    np.testing.assert_allclose(got, reference(kind, exact, 1), rtol=1e-2 if dtype == "bfloat16" else 2e-3, atol=1e-3)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 127, 128, 129, 4097])
def test_smx_1_all_minus_infinity(gpu, n):
    x = np.full((2, n), -np.inf, np.float32)
    assert np.isnan(run(gpu, "softmax", x, 1)).all() and np.isnan(run(gpu, "log_softmax", x, 1)).all()
    assert (run(gpu, "logsumexp", x, 1) == -np.inf).all()


@pytest.mark.parametrize("n", [8, 40])
def test_infinities_and_nan(gpu, n):
    x = np.zeros((3, n), np.float32)
    x[0, 2] = -np.inf
    x[1, 3] = np.inf
    x[2, 5] = np.nan
    soft = run(gpu, "softmax", x, 1)
    assert soft[0, 2] == 0 and np.isclose(soft[0, 0], 1 / (n - 1)) and np.isnan(soft[1:]).any(axis=1).all()
    lse = run(gpu, "logsumexp", x, 1)
    assert np.isclose(lse[0], np.log(n - 1)) and lse[1] == np.inf and np.isnan(lse[2])


def test_large_values_do_not_overflow(gpu):
    x = np.array([[1e4, 1e4 + 1], [-1e4, -1e4]], np.float32)
    np.testing.assert_allclose(run(gpu, "softmax", x, 1), reference("softmax", x, 1), rtol=1e-6)
    np.testing.assert_allclose(run(gpu, "logsumexp", x, 1), reference("logsumexp", x, 1), rtol=1e-6)


def test_in_place_and_strided(gpu):
    base = np.random.default_rng(2).normal(size=(30, 40)).astype(np.float32)
    a = gpu.put(base)
    window = a._replace(shape=(10, 20), strides=(80, -1), offset=39)  # rows 0, 2, .. 18, columns backwards
    x = base[0:20:2, 39:19:-1]
    rows.softmax(gpu.inst, window, 1, window)
    expected = base.copy()
    expected[0:20:2, 39:19:-1] = reference("softmax", x, 1)
    np.testing.assert_allclose(gpu.get(a), expected, rtol=2e-6, atol=1e-7)


def test_addresses_that_do_not_fit_are_refused(gpu):
    x = gpu.put(np.zeros((2, 3, 4, 5, 6), np.float32).transpose(4, 0, 2, 1, 3))
    out = gpu.empty((6, 2, 4, 3, 5), "float32")
    assert not rows.rows_fit(x, 2, out) and rows.rows_fit(out, 2, out)


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("shape", [(3, 10), (2, 5, 100), (4, 1025), (1, 3), (6, 16)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_norms(gpu, kind, shape, affine):
    rng = np.random.default_rng(3)
    x = (rng.normal(size=shape) * 3 + 2).astype(np.float32)
    w, b = rng.normal(size=shape[-1]).astype(np.float32), rng.normal(size=shape[-1]).astype(np.float32)
    out = gpu.empty(shape, "float32", pad=1)
    n = int(np.prod(shape[:-1]))
    mean, rstd = gpu.empty((n,), "float32", pad=2), gpu.empty((n,), "float32")
    layer = kind == "layer_norm"
    rows.norm(
        gpu.inst, kind, gpu.put(x), out, gpu.put(w, pad=4) if affine else None,
        gpu.put(b, pad=1) if affine and layer else None, 1e-5, mean if layer else None, rstd,
    )  # fmt: skip
    wide = x.astype(float)
    m = wide.mean(-1, keepdims=True) if layer else 0
    r = 1 / np.sqrt(((wide - m) ** 2).mean(-1, keepdims=True) + 1e-5)
    y = (wide - m) * r
    if affine:
        y = y * w + (b if layer else 0)
    np.testing.assert_allclose(gpu.get(out), y, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(gpu.get(rstd), r.ravel(), rtol=1e-6)
    if layer:
        np.testing.assert_allclose(gpu.get(mean), m.ravel(), rtol=1e-5, atol=1e-6)


def test_norm_of_halves_with_float_weights(gpu):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5, 64)).astype(np.float16)
    w = rng.normal(size=64).astype(np.float32)
    out = gpu.empty((5, 64), "float16")
    rows.norm(gpu.inst, "rms_norm", gpu.put(x), out, gpu.put(w), None, 1e-6)
    wide = x.astype(float)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * w
    np.testing.assert_allclose(gpu.get(out), expected, rtol=2e-3, atol=1e-3)


def test_variance_of_a_large_mean(gpu):
    x = (np.random.default_rng(5).normal(size=(2, 500)) + 1000).astype(np.float32)
    out = gpu.empty(x.shape, "float32")
    rows.norm(gpu.inst, "layer_norm", gpu.put(x), out, None, None, 0.0)
    wide = x.astype(float)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(gpu.get(out), expected, rtol=1e-3, atol=1e-4)


# ---- gradients ----------------------------------------------------------------------------------------


def soft_gradient(kind, g, y):
    g, y = g.astype(float), y.astype(float)
    if kind == "softmax":
        return (g - (g * y).sum(-1, keepdims=True)) * y
    return g - g.sum(-1, keepdims=True) * np.exp(y)


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(5,), (3, 16), (3, 17), (2, 3, 1000), (400, 6)], ids=str)
def test_softmax_gradient(gpu, kind, shape):
    rng = np.random.default_rng(6)
    g = rng.normal(size=shape).astype(np.float32)
    y = reference(kind, rng.normal(size=shape) * 3, -1).astype(np.float32)
    grad, out = gpu.put(g, pad=2), gpu.empty(shape, "float32", pad=5)
    rows.softmax_backward(gpu.inst, grad, gpu.put(y, pad=1), out, kind == "log_softmax")
    expected = soft_gradient(kind, g, y)
    np.testing.assert_allclose(gpu.get(out), expected, rtol=1e-5, atol=2e-6)
    rows.softmax_backward(gpu.inst, grad, gpu.put(y, pad=1), grad, kind == "log_softmax")  # in place
    assert np.array_equal(gpu.get(grad), gpu.get(out))
    spread = gpu.put(np.float32([0.5]), pad=1)._replace(shape=shape, strides=(0,) * len(shape))
    rows.softmax_backward(gpu.inst, spread, gpu.put(y), out, kind == "log_softmax")
    np.testing.assert_allclose(gpu.get(out), soft_gradient(kind, np.full(shape, 0.5), y), rtol=1e-5, atol=2e-6)


def norm_gradients(g, x, w, eps, layer):
    g, x = (a.astype(float).reshape(-1, a.shape[-1]) for a in (g, x))
    mean = x.mean(-1, keepdims=True) if layer else np.zeros((len(x), 1))
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    u, a = (x - mean) * rstd, g if w is None else g * w
    inner = a - u * (a * u).mean(-1, keepdims=True)
    if layer:
        inner -= a.mean(-1, keepdims=True)
    return mean.ravel(), rstd.ravel(), inner * rstd, (g * u).sum(0), g.sum(0)


@pytest.mark.parametrize("layer", [True, False], ids=["layer_norm", "rms_norm"])
@pytest.mark.parametrize("shape", [(3, 10), (5, 16), (4, 17), (2, 1025), (3000, 40), (1, 300)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_norm_gradients(gpu, layer, shape, dtype):
    rng = np.random.default_rng(7)

    def held(values):
        if dtype == "bfloat16":
            bits = to_bf16(values)
            return bits, from_bf16(bits)
        return values.astype(dtype), values.astype(dtype).astype(np.float32)

    n = shape[-1]
    (g, g_exact), (x, x_exact) = held(rng.normal(size=shape)), held(rng.normal(size=shape) * 2 + 1)
    affine = shape != (5, 16)
    w = rng.normal(size=n).astype(np.float32) if affine else None
    mean, rstd, dx, dw, db = norm_gradients(g_exact, x_exact, w, 1e-5, layer)
    out = gpu.empty(shape, dtype, pad=3)
    dweight, dbias = gpu.empty((n,), "float32", pad=1), gpu.empty((n,), "float32", pad=2)
    rows.norm_backward(
        gpu.inst, gpu.put(g, dtype, pad=1), gpu.put(x, dtype, pad=2), gpu.put(w, pad=3) if affine else None,
        gpu.put(mean.astype(np.float32), pad=1) if layer else None, gpu.put(rstd.astype(np.float32), pad=2), out, dweight, dbias,
    )  # fmt: skip
    got = from_bf16(gpu.get(out)) if dtype == "bfloat16" else gpu.get(out).astype(float)
    tolerance = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(got.reshape(-1, n), dx, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gpu.get(dweight), dw, rtol=2e-5, atol=2e-5 * np.sqrt(len(dx)))
    np.testing.assert_allclose(gpu.get(dbias), db, rtol=2e-5, atol=2e-5 * np.sqrt(len(dx)))


NORMS = {
    "layer_norm": lambda x, w, b: tx.layer_norm(x, x.shape[-1], w, b),
    "rms_norm": lambda x, w, b: tx.rms_norm(x, x.shape[-1], w),
    "softmax": lambda x, w, b: tx.softmax(x),
    "log_softmax": lambda x, w, b: tx.log_softmax(x),
}


@pytest.mark.parametrize("name, dispatches", [("layer_norm", 3), ("rms_norm", 2), ("softmax", 1), ("log_softmax", 1)])
def test_a_gradient_is_few_dispatches_and_waits_for_nothing(metal, name, dispatches):
    """One kernel over the rows, and a sum of columns for each parameter; sizes compile nothing."""

    def run(device, shape, seed):
        rng = np.random.default_rng(seed)
        with tx.device(device), tx.deferred(True):
            x, w, b, g = (tx.asarray(rng.normal(size=s).astype(np.float32)) for s in (shape, shape[-1], shape[-1], shape))
            leaves = [x.requires_grad_()]
            if "norm" in name:
                leaves += [w.requires_grad_(), b.requires_grad_()][: 2 if name == "layer_norm" else 1]
            y = NORMS[name](x, w, b)
            tx.eval(y, g)
            before = tx.metal.stats()
            y.backward(g)
            tx.eval(*(p.grad for p in leaves))
            after = tx.metal.stats()
            return [p.grad.numpy() for p in leaves], {k: after[k] - before[k] for k in ("dispatches", "waits", "compiled")}

    for k, shape in enumerate(((64, 48), (8, 4, 48), (60, 100))):
        ours, count = run("metal", shape, k)
        assert (count["dispatches"], count["waits"]) == (dispatches, 0)
        assert k == 0 or count["compiled"] == 0
        for a, b in zip(ours, run("cpu", shape, k)[0]):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_gradients_of_views(on_device, name):
    """Of an input that is no table of rows, and of a gradient that is one number for all."""
    base = np.random.default_rng(8).normal(size=(6, 5, 4)).astype(np.float32)
    views = {"turned": (lambda t: t.permute_dims((2, 0, 1)), lambda a: a.transpose(2, 0, 1)), "every other": (lambda t: t[::2, ::-1],) * 2}
    for ours, theirs in views.values():
        x = tx.asarray(base).requires_grad_()
        y = NORMS[name](ours(x), None, None)
        g = np.random.default_rng(9).normal(size=y.shape).astype(np.float32)
        (y * tx.asarray(g)).sum().backward()
        inner = norm_gradients(g, theirs(base), None, 1e-5 if name == "layer_norm" else 1e-6, name == "layer_norm")[2].reshape(y.shape)
        want = np.zeros(base.size)
        want[theirs(np.arange(base.size).reshape(base.shape)).ravel()] = inner.ravel()
        np.testing.assert_allclose(x.grad.numpy(), want.reshape(base.shape), rtol=1e-4, atol=1e-5)
    x = tx.asarray(base).requires_grad_()
    w = tx.ones(4).requires_grad_()
    NORMS[name](x, w, None).sum().backward()
    inner, dw = norm_gradients(np.ones_like(base), base, None, 1e-5 if name == "layer_norm" else 1e-6, name == "layer_norm")[2:4]
    np.testing.assert_allclose(x.grad.numpy(), inner.reshape(base.shape), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(w.grad.numpy(), dw, rtol=1e-4, atol=1e-4)
    none = tx.zeros((0, 4)).requires_grad_()
    NORMS[name](none, w, None).sum().backward()
    assert none.grad.shape == (0, 4)


@pytest.mark.parametrize("name, forward, backward", [("batch_norm", 5, 3), ("group_norm", 2, 4), ("instance_norm", 2, 4)])
def test_a_norm_of_channels_is_few_dispatches_and_waits_for_nothing(metal, name, forward, backward):
    def run(device, n, seed):
        rng = np.random.default_rng(seed)
        with tx.device(device), tx.deferred(True):
            x, g = (tx.asarray(rng.normal(size=(n, 6, 8, 9)).astype(np.float32)) for _ in range(2))
            w, b = (tx.asarray(rng.normal(size=6).astype(np.float32)).requires_grad_() for _ in range(2))
            leaves = [x.requires_grad_(), w, b]
            counts = [tx.metal.stats()]
            if name == "batch_norm":
                y = tx.nn.functional.batch_norm(x, None, None, w, b, training=True)
            elif name == "group_norm":
                y = tx.nn.functional.group_norm(x, 3, w, b)
            else:
                y = tx.nn.functional.instance_norm(x, None, None, w, b)
            tx.eval(y)
            counts.append(tx.metal.stats())
            y.backward(g)
            tx.eval(*(p.grad for p in leaves))
            counts.append(tx.metal.stats())
            found = [[after[k] - before[k] for k in ("dispatches", "waits", "compiled")] for before, after in zip(counts, counts[1:])]
            return [y.detach().numpy(), *(p.grad.numpy() for p in leaves)], found

    for k, n in enumerate((4, 6)):
        ours, found = run("metal", n, k)
        assert [c[:2] for c in found] == [[forward, 0], [backward, 0]]
        assert k == 0 or [c[2] for c in found] == [0, 0]
        for a, b in zip(ours, run("cpu", n, k)[0]):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)
