"""The row kernels (softmax, norms, cross entropy and their gradients) against wider NumPy arithmetic."""

import numpy as np
import pytest
from kernel_lib import ISAS, Missing, load, shifted

SIZES = [1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 4097]
KINDS = [np.float32, np.float64]
LD = np.longdouble


@pytest.fixture(params=ISAS)
def lib(request):
    try:
        return load("rows", request.param)
    except Missing as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=KINDS, ids=["float32", "float64"])
def kind(request):
    return request.param


def code(kind):
    return KINDS.index(kind)


def forward(lib, what, x):
    out = np.full(1 if what == "logsumexp" else x.size, 7, x.dtype)
    lib.one(what.encode(), code(x.dtype.type), out, x, x.size)
    return out[0] if what == "logsumexp" else out


def ulps(got, want, floor=0.0):
    """Largest error in units of the last place of max(|want|, floor)."""
    got, want = np.asarray(got), np.asarray(want, dtype=LD)
    unit = np.spacing(np.maximum(np.abs(want), floor).astype(got.dtype))
    return float(np.max(np.abs(got.astype(LD) - want) / unit))


def softmax(x):
    e = np.exp(x.astype(LD) - x.max().astype(LD))
    return e / e.sum()


def lse(x):
    m = x.max().astype(LD)
    return m + np.log(np.exp(x.astype(LD) - m).sum())


def test_softmax_and_relatives(lib, kind, rng):
    for n in SIZES:
        for scale, shift in ((1, 0), (10, 100), (0.01, -3)):
            x = shifted((rng.standard_normal(n) * scale + shift).astype(kind), np.dtype(kind).itemsize)
            # the argument of exp is rounded once: an error of |x - max| half ulps in the result
            span = float(x.max() - x.min())
            assert ulps(forward(lib, "softmax", x), softmax(x)) < 5 + span
            want = lse(x)
            assert ulps(forward(lib, "logsumexp", x), want, floor=abs(float(x.max()))) < 1.5
            assert ulps(forward(lib, "log_softmax", x), x.astype(LD) - want, floor=float(np.log(n))) < 3
            for what in ("softmax", "log_softmax"):
                y = x.copy()
                lib.one(what.encode(), code(kind), y, y, n)
                assert y.tobytes() == forward(lib, what, x).tobytes()


def test_softmax_of_one_element_and_of_equal_elements(lib, kind):
    for n in (1, 2, 4, 64, 1024):
        x = np.full(n, 3.7, kind)
        assert (forward(lib, "softmax", x) == kind(1 / n)).all()
        assert forward(lib, "log_softmax", x[:1])[0] == 0


def test_rows_without_elements(lib, kind):
    x = np.zeros(0, kind)
    assert forward(lib, "softmax", x).size == 0 and forward(lib, "log_softmax", x).size == 0
    assert forward(lib, "logsumexp", x) == -np.inf


@pytest.mark.parametrize("n", [1, 2, 16, 127, 128, 129, 1025, 4097])
def test_infinities_and_nan_whatever_the_length(lib, kind, n):
    low = np.full(n, -np.inf, kind)
    assert np.isnan(forward(lib, "softmax", low)).all()
    assert np.isnan(forward(lib, "log_softmax", low)).all()
    assert forward(lib, "logsumexp", low) == -np.inf
    for place in {0, n // 2, n - 1}:
        one = low.copy()
        one[place] = 5
        p = forward(lib, "softmax", one)
        assert p[place] == 1 and p.sum() == 1
        assert forward(lib, "logsumexp", one) == 5
        logs = forward(lib, "log_softmax", one)
        assert logs[place] == 0 and np.count_nonzero(logs == -np.inf) == n - 1
        for special, total in ((np.inf, np.inf), (np.nan, np.nan)):
            x = np.linspace(-1, 1, n).astype(kind)
            x[place] = special
            assert np.isnan(forward(lib, "softmax", x)).all()
            assert np.isnan(forward(lib, "log_softmax", x)).all()
            assert np.array_equal(forward(lib, "logsumexp", x), total, equal_nan=True)


def test_log_softmax_keeps_tiny_probabilities_apart(lib, kind):
    x = np.array([0, -12, -30], kind)
    got = forward(lib, "log_softmax", x)
    assert ulps(got[:1], [-(np.log1p(np.exp(LD(-12)) + np.exp(LD(-30))))]) < 2
    assert forward(lib, "log_softmax", np.array([0, -1000], kind)).tolist() == [0, -1000]


def norm_inputs(rng, kind, n):
    x = shifted((rng.standard_normal(n) * 3 + 5).astype(kind), np.dtype(kind).itemsize)
    return x, rng.standard_normal(n).astype(kind), rng.standard_normal(n).astype(kind)


def layer_norm(lib, x, w, b, eps, inplace=False):
    out = x.copy() if inplace else np.zeros_like(x)
    mean, rstd = np.zeros(1, x.dtype), np.zeros(1, x.dtype)
    lib.layer_norm(code(x.dtype.type), out, out if inplace else x, x.size, w, b, eps, mean, rstd)
    return out, mean[0], rstd[0]


def test_layer_norm(lib, kind, rng):
    for n in SIZES:
        x, w, b = norm_inputs(rng, kind, n)
        v = x.astype(LD)
        mean, var = v.mean(), v.var()
        rstd = 1 / np.sqrt(var + LD(1e-5))
        for weight, bias in ((None, None), (w, None), (None, b), (w, b)):
            got, m, r = layer_norm(lib, x, weight, bias, 1e-5)
            part = (v - mean) * rstd
            want = part * (1 if weight is None else weight.astype(LD)) + (
                0 if bias is None else bias.astype(LD)
            )
            size = np.abs(part) * (1 if weight is None else np.abs(weight)) + (
                0 if bias is None else np.abs(bias)
            )
            assert (np.abs(got - want) <= 4 * np.finfo(kind).eps * (size + 1)).all()
            assert ulps(m, mean) <= 2 and ulps(r, rstd) <= 2
            again, _, _ = layer_norm(lib, x, weight, bias, 1e-5, inplace=True)
            assert again.tobytes() == got.tobytes()
        out = np.zeros_like(x)
        lib.layer_norm(code(kind), out, x, n, None, None, 1e-5, None, None)
        assert out.tobytes() == layer_norm(lib, x, None, None, 1e-5)[0].tobytes()


def test_layer_norm_far_from_zero(lib, kind, rng):
    x = (1000 + rng.standard_normal(1000) * 0.01).astype(kind)
    v = x.astype(LD) - 1000  # exact, and leaves the reference enough digits
    want = (v - v.mean()) / np.sqrt(v.var())
    got, _, _ = layer_norm(lib, x, None, None, 0.0)
    assert np.abs(got - want).max() < 8 * np.finfo(kind).eps
    constant, mean, _ = layer_norm(lib, np.full(777, 0.1, kind), None, None, 1e-5)
    assert (constant == 0).all() and mean == kind(0.1)


def test_layer_norm_with_nan_and_infinity(lib, kind):
    for special in (np.nan, np.inf, -np.inf):
        for place in (0, 20, 99):
            x = np.linspace(-1, 1, 100).astype(kind)
            x[place] = special
            assert np.isnan(layer_norm(lib, x, None, None, 1e-5)[0]).all()


def test_moments(lib, kind, rng):
    for n in SIZES:
        for shift in (0, 1e4):
            x = (rng.standard_normal(n) + shift).astype(kind)
            v = x.astype(LD)
            mean, m2 = np.zeros(1, kind), np.zeros(1)
            lib.moments(code(kind), mean, m2, x, n)
            assert ulps(mean, [v.mean()], floor=float(np.abs(v).mean())) <= 1.5
            want = ((v - v.mean()) ** 2).sum()
            assert abs(m2[0] - want) <= 1e-13 * max(want, 1)


def test_rms_norm(lib, kind, rng):
    for n in SIZES:
        x, w, _ = norm_inputs(rng, kind, n)
        v = x.astype(LD)
        r = 1 / np.sqrt((v * v).mean() + LD(1e-6))
        for weight in (None, w):
            for out in (np.zeros_like(x), x.copy()):
                rstd = np.zeros(1, kind)
                source = x if not out.any() else out
                lib.rms_norm(code(kind), out, source, n, weight, 1e-6, rstd)
                want = v * r * (1 if weight is None else weight.astype(LD))
                assert ulps(out, want) <= 4 and ulps(rstd, [r]) <= 2


def grad_inputs(rng, kind, n):
    return [shifted(rng.standard_normal(n).astype(kind), np.dtype(kind).itemsize) for _ in range(3)]


def close(got, want, kind, size=1.0):
    return np.abs(got.astype(LD) - want).max() <= 16 * np.finfo(kind).eps * max(
        size, float(np.abs(want).max())
    )


def test_softmax_backward(lib, kind, rng):
    for n in SIZES:
        g, x, _ = grad_inputs(rng, kind, n)
        y = forward(lib, "softmax", x)
        want = y.astype(LD) * (g.astype(LD) - (g.astype(LD) * y.astype(LD)).sum())
        out = np.zeros(n, kind)
        lib.softmax_backward(code(kind), out, g, y, n)
        assert close(out, want, kind, size=float(y.max()))
        for dst in (0, 1):
            args = [g.copy(), y.copy()]
            lib.softmax_backward(code(kind), args[dst], *args, n)
            assert args[dst].tobytes() == out.tobytes()


def test_log_softmax_backward(lib, kind, rng):
    for n in SIZES:
        g, x, _ = grad_inputs(rng, kind, n)
        y = forward(lib, "log_softmax", x)
        want = g.astype(LD) - np.exp(y.astype(LD)) * g.astype(LD).sum()
        out = np.zeros(n, kind)
        lib.log_softmax_backward(code(kind), out, g, y, n)
        assert close(out, want, kind)
        for dst in (0, 1):
            args = [g.copy(), y.copy()]
            lib.log_softmax_backward(code(kind), args[dst], *args, n)
            assert args[dst].tobytes() == out.tobytes()


def norm_gradient(g, x, w, mean, rstd, center):
    g, x = g.astype(LD), x.astype(LD)
    hat = (x - mean) * rstd
    a = g if w is None else g * w.astype(LD)
    dx = rstd * (a - (a.mean() if center else 0) - hat * (a * hat).mean())
    return dx, g * hat, g


def test_layer_norm_backward(lib, kind, rng):
    for n in SIZES:
        g, x, w = grad_inputs(rng, kind, n)
        _, mean, rstd = layer_norm(lib, x, None, None, 1e-5)
        mean, rstd = np.array([mean]), np.array([rstd])
        for weight in (None, w):
            dx, dw, db = norm_gradient(g, x, weight, mean[0].astype(LD), rstd[0].astype(LD), True)
            out, sum_w, sum_b = np.zeros(n, kind), np.ones(n), np.full(n, 2.0)
            lib.layer_norm_backward(code(kind), out, g, x, n, weight, mean, rstd, sum_w, sum_b)
            assert close(out, dx, kind, size=float(rstd[0]))
            assert close(sum_w - 1, dw, kind, 4) and close(sum_b - 2, db, kind, 4)
            only_w = np.ones(n)
            lib.layer_norm_backward(code(kind), None, g, x, n, weight, mean, rstd, only_w, None)
            assert only_w.tobytes() == sum_w.tobytes()
            for dst in (0, 1):
                args = [g.copy(), x.copy()]
                lib.layer_norm_backward(code(kind), args[dst], *args, n, weight, mean, rstd, None, None)
                assert args[dst].tobytes() == out.tobytes()


def test_rms_norm_backward(lib, kind, rng):
    for n in SIZES:
        g, x, w = grad_inputs(rng, kind, n)
        rstd, y = np.zeros(1, kind), np.zeros(n, kind)
        lib.rms_norm(code(kind), y, x, n, w, 1e-6, rstd)
        for weight in (None, w):
            dx, dw, _ = norm_gradient(g, x, weight, LD(0), rstd[0].astype(LD), False)
            out, sum_w = np.zeros(n, kind), np.ones(n)
            lib.rms_norm_backward(code(kind), out, g, x, n, weight, rstd, sum_w)
            assert close(out, dx, kind, size=float(rstd[0])) and close(sum_w - 1, dw, kind, 4)


def test_cross_entropy(lib, kind, rng):
    for n in SIZES:
        x = (rng.standard_normal(n) * 4).astype(kind)
        v = x.astype(LD)
        for target in sorted({0, n // 2, n - 1}):
            for smoothing in (0.0, 0.1):
                loss, saved = np.zeros(1, kind), np.zeros(1, kind)
                lib.cross_entropy(code(kind), loss, saved, x, n, target, smoothing)
                want = (1 - LD(smoothing)) * (lse(x) - v[target]) + LD(smoothing) * (lse(x) - v.mean())
                assert abs(loss[0] - want) <= 2 * np.finfo(kind).eps * max(1, float(np.abs(v).max()))
                assert saved[0] == forward(lib, "logsumexp", x)
                hot = np.zeros(n, LD)
                hot[target] = 1 - LD(smoothing)
                grad = LD(0.25) * (np.exp(v - saved[0].astype(LD)) - hot - LD(smoothing) / n)
                out = np.zeros(n, kind)
                lib.cross_entropy_backward(code(kind), out, x, n, target, smoothing, saved, 0.25)
                assert close(out, grad, kind, size=0.25 if n == 1 else 1e-3 + float(np.abs(grad).max()))
                inplace = x.copy()
                lib.cross_entropy_backward(code(kind), inplace, inplace, n, target, smoothing, saved, 0.25)
                assert inplace.tobytes() == out.tobytes()


def test_cross_entropy_of_a_sure_prediction_keeps_its_digits(lib, kind):
    x = np.array([20, 0, 0], kind)
    loss = np.zeros(1, kind)
    lib.cross_entropy(code(kind), loss, None, x, 3, 0, 0.0)
    want = np.log1p(2 * np.exp(LD(-20)))
    assert abs(loss[0] / want - 1) < 2 * np.finfo(kind).eps


def test_same_bits_with_and_without_wide_vectors(rng):
    """Norms use no exponentials: every instruction set gives the same bits."""
    libs = []
    for isa in ISAS:
        try:
            libs.append(load("rows", isa))
        except Missing:
            continue
    for kind in KINDS:
        for n in SIZES:
            x, w, b = norm_inputs(rng, kind, n)
            assert len({layer_norm(lib, x, w, b, 1e-5)[0].tobytes() for lib in libs}) == 1
