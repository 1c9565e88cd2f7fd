"""The elementary functions of the CPU kernels (tensorx/_native/vmath*.h), compiled on their own.

Error bounds in ulp, special values as C99 states them, and independence of a result from array length,
position, neighbours, aliasing and instruction set.  Sampling and references are those of
bench/accuracy.py.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("accuracy", ROOT / "bench" / "accuracy.py")
accuracy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(accuracy)

pytestmark = pytest.mark.skipif(accuracy.compiler() is None, reason="needs a C compiler")

UNARY, BINARY = list(accuracy.UNARY), list(accuracy.BINARY)
DTYPES = [np.float32, np.float64]
INF, NAN = math.inf, math.nan

# Largest error in ulp that the documentation promises: 2, but for these in float64.
F64_BOUNDS = {"logaddexp": 4.0, "lgamma": 4.0, "digamma": 3.0}


@pytest.fixture(scope="module")
def libs(tmp_path_factory):
    return accuracy.available(tmp_path_factory.mktemp("vmath"))


@pytest.fixture(scope="module")
def best(libs):
    return list(libs.values())[-1]


def bound(name, dtype):
    return F64_BOUNDS.get(name, 2.0) if dtype == np.float64 else 2.0


def sweep(dtype, per_exponent=12):
    """Every exponent with both signs: random, smallest and largest mantissas, and all specials."""
    rng = np.random.default_rng(7)
    u, mant, exps = (np.uint32, 23, 256) if dtype == np.float32 else (np.uint64, 52, 2048)
    m = rng.integers(0, 1 << mant, (exps, per_exponent), dtype=np.uint64)
    m[:, 0], m[:, 1], m[:, 2] = 0, 1, (1 << mant) - 1
    bits = (np.arange(exps, dtype=np.uint64)[:, None] << np.uint64(mant)) | m
    x = bits.astype(u).ravel().view(dtype)
    return np.concatenate([x, -x])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_sampled_error(libs, name, dtype):
    skip = accuracy.skip_for(name, dtype)
    for lib in libs.values():
        if lib.isa == "avx512" and "avx2" in libs:
            continue  # the same bits, see test_instruction_sets_agree
        err, where = accuracy.measure(lib, name, dtype, 20_000, seed=11, skip=skip)
        assert err <= bound(name, dtype), (lib.isa, err, where)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_every_exponent(libs, name, dtype):
    x = sweep(dtype, 12 if dtype == np.float32 else 4)
    skip = accuracy.skip_for(name, dtype)
    if skip is not None:
        with np.errstate(invalid="ignore"):
            x = x[~skip(x)]
    for lib in libs.values():
        if name in accuracy.MPMATH_ONLY or (dtype == np.float64 and not lib.long_double):
            pytest.importorskip("mpmath")
            x = x[:: max(1, x.size // 300)].copy()
            err = accuracy.ulp_error_mp(lib.call("v", name, x), accuracy.mpmath_reference(name, (x,)))
        else:
            err = accuracy.ulp_error(lib.call("v", name, x), lib.call("r", name, x))
        i = int(err.argmax())
        assert err[i] <= bound(name, dtype), (lib.isa, float(x[i]), err[i])


SPECIALS = {
    "exp": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (1e4, INF), (-1e4, 0.0)],
    "exp2": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (10.0, 1024.0), (-3.0, 0.125), (1e4, INF), (-1e4, 0.0)],
    "expm1": [(-INF, -1.0), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (-1e4, -1.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (8.0, 3.0), (0.25, -2.0), (INF, INF), (-1.0, NAN)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (10.0, 1.0), (1000.0, 3.0), (1e10, 10.0), (INF, INF), (-1.0, NAN)],
    "log1p": [(-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.5, NAN), (-INF, NAN)],
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (0.0, 0.5), (-0.0, 0.5), (800.0, 1.0), (-800.0, 0.0)],
    "softplus": [(-INF, 0.0), (INF, INF), (-800.0, 0.0), (1e3, 1e3)],
    "tanh": [(-INF, -1.0), (INF, 1.0), (0.0, 0.0), (-0.0, -0.0), (50.0, 1.0)],
    "sinh": [(-INF, -INF), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (1e4, INF)],
    "cosh": [(-INF, INF), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (-1e4, INF)],
    "erf": [(-INF, -1.0), (INF, 1.0), (0.0, 0.0), (-0.0, -0.0), (10.0, 1.0)],
    "erfc": [(-INF, 2.0), (INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (-10.0, 2.0), (30.0, 0.0)],
    "erfinv": [(-1.0, -INF), (1.0, INF), (0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN)],
    "sin": [(-INF, NAN), (INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "cos": [(-INF, NAN), (INF, NAN), (0.0, 1.0), (-0.0, 1.0)],
    "tan": [(-INF, NAN), (INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN)],
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "asinh": [(-INF, -INF), (INF, INF), (0.0, 0.0), (-0.0, -0.0)],
    "acosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-INF, NAN)],
    "atanh": [(-1.0, -INF), (1.0, INF), (0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (INF, NAN)],
    "cbrt": [(-INF, -INF), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (27.0, 3.0), (-8.0, -2.0)],
    "lgamma": [(-INF, INF), (INF, INF), (0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, 0.0), (-3.0, INF)],
    "digamma": [(-INF, NAN), (INF, INF), (0.0, -INF), (-0.0, INF), (-3.0, NAN)],
}  # fmt: skip


def same(got, want):
    """Equal, NaN with NaN, and zeros with their sign."""
    if math.isnan(want):
        return math.isnan(got)
    return got == want and math.copysign(1, got) == math.copysign(1, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_specials(libs, name, dtype):
    table = [*SPECIALS[name], (NAN, NAN)]
    for lib in libs.values():
        for x, want in table:
            want = float(dtype(want))
            # alone, and between ordinary neighbours
            alone = lib.call("v", name, np.array([x], dtype))[0]
            crowd = np.full(37, 0.75, dtype)
            crowd[11] = x
            assert same(float(alone), want), (lib.isa, x, alone, want)
            assert same(float(lib.call("v", name, crowd)[11]), want), (lib.isa, x, want)


BINARY_SPECIALS = {
    # C99 annex F
    "pow": [
        (NAN, 0.0, 1.0), (1.0, NAN, 1.0), (1.0, INF, 1.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (NAN, 1.0, NAN), (2.0, NAN, NAN),
        (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (0.0, -1.0, INF), (-0.0, -1.0, -INF),
        (-0.0, -2.0, INF), (-0.0, -0.5, INF), (0.0, -INF, INF), (0.0, INF, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF),
        (2.0, INF, INF), (2.0, -INF, 0.0), (INF, 0.5, INF), (INF, -0.5, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF),
        (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, 0.5, INF), (-2.0, 0.5, NAN), (-8.0, 1 / 3, NAN), (-2.0, 3.0, -8.0),
        (-2.0, 2.0, 4.0), (3.0, 2.0, 9.0), (10.0, 2.0, 100.0), (2.0, -1.0, 0.5), (-2.0, 1e30, INF), (1e30, 1e30, INF),
        (INF, 0.0, 1.0), (-0.5, 16777215.0, -0.0), (0.0, 0.0, 1.0),
    ],
    "atan2": [
        (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, math.pi), (-0.0, -1.0, -math.pi), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0),
        (0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi), (1.0, 0.0, math.pi / 2), (-1.0, -0.0, -math.pi / 2), (1.0, INF, 0.0),
        (-1.0, INF, -0.0), (1.0, -INF, math.pi), (INF, 1.0, math.pi / 2), (-INF, 1.0, -math.pi / 2), (INF, INF, math.pi / 4),
        (INF, -INF, 3 * math.pi / 4), (-INF, INF, -math.pi / 4), (-INF, -INF, -3 * math.pi / 4), (NAN, 1.0, NAN), (1.0, NAN, NAN),
    ],
    "hypot": [
        (3.0, 4.0, 5.0), (-3.0, 4.0, 5.0), (0.0, -0.0, 0.0), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1.0, NAN), (3.0, 4.0, None),
    ],
    "logaddexp": [
        (INF, INF, INF), (-INF, -INF, -INF), (-INF, INF, INF), (-INF, 3.0, 3.0), (NAN, INF, NAN), (0.0, 0.0, math.log(2)),
        (1e30, 1e30, 1e30), (-500.0, 500.0, 500.0),
    ],
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_specials(libs, name, dtype):
    for lib in libs.values():
        for x, y, want in BINARY_SPECIALS[name]:
            if want is None:  # overflow, but not early
                x, y, want = (3e38, 3e38, INF) if dtype == np.float32 else (3e307, 4e307, 5e307)
            if name == "pow" and dtype == np.float64 and y == 16777215.0:
                y = 2.0**53 - 1
            got = float(lib.call("v", name, np.array([x], dtype), np.array([y], dtype))[0])
            if math.isfinite(want) and want != 0 and name != "pow":
                assert got == pytest.approx(want, rel=3e-7 if dtype == np.float32 else 5e-16), (lib.isa, x, y)
            else:
                assert same(got, float(dtype(want))), (lib.isa, x, y, got, want)


def inputs(name, dtype, n, rng):
    """Ordinary values with rare ones (huge, subnormal, special) sprinkled in."""
    lo, hi = accuracy.UNARY[name][0]
    x = rng.uniform(lo, hi, n).astype(dtype)
    odd = sweep(dtype, 3)
    x[:: max(1, n // 9)] = rng.choice(odd, x[:: max(1, n // 9)].size)
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_same_bits_whatever_length_position_and_neighbours(libs, name, dtype):
    rng = np.random.default_rng(3)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    for lib in libs.values():
        x = inputs(name, dtype, 1300, rng)
        one_by_one = lib.call("s", name, x)  # the inline function, no block version
        want = one_by_one.view(bits)
        nan = np.isnan(one_by_one)
        assert not nan.all()
        for start, stop in ((0, 1300), (1, 1300), (3, 60), (7, 8), (5, 520), (511, 1025)):
            got = lib.call("v", name, x[start:stop].copy())
            ok = (got.view(bits) == want[start:stop]) | (nan[start:stop] & np.isnan(got))
            assert ok.all(), (lib.isa, start, stop, x[start:stop][~ok][:3])
        # only ordinary values: the fast path of a block, element by element the same
        tame = x[np.isfinite(x) & (np.abs(x) < 3)][:600].copy()
        got, ref = lib.call("v", name, tame), lib.call("s", name, tame)
        assert ((got.view(bits) == ref.view(bits)) | (np.isnan(got) & np.isnan(ref))).all(), lib.isa
        # in place
        y = x.copy()
        lib.call("v", name, y, out=y)
        assert ((y.view(bits) == want) | (nan & np.isnan(y))).all(), lib.isa
        assert lib.call("v", name, x[:0].copy()).size == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_same_bits(libs, name, dtype):
    rng = np.random.default_rng(4)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    odd = sweep(dtype, 3)
    x, y = rng.normal(size=(2, 700)).astype(dtype)
    x[::13], y[::11] = rng.choice(odd, x[::13].size), rng.choice(odd, y[::11].size)
    for lib in libs.values():
        want = lib.call("s", name, x, y)
        for start, stop in ((0, 700), (1, 64), (5, 300), (9, 10)):
            a, b = x[start:stop].copy(), y[start:stop].copy()
            got = lib.call("v", name, a, b)
            ok = (got.view(bits) == want[start:stop].view(bits)) | (np.isnan(got) & np.isnan(want[start:stop]))
            assert ok.all(), (lib.isa, start, stop)
            lib.call("v", name, a, b, out=a)
            assert np.array_equal(a, got, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_instruction_sets_agree(libs, dtype):
    """AVX2 and AVX-512 give the same bits; the build without FMA at most a few ulp away."""
    rng = np.random.default_rng(5)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    fma = [lib for lib in libs.values() if lib.lib.has_fma()]
    if len(fma) < 2:
        pytest.skip("needs two instruction sets with FMA")
    for name in UNARY + BINARY:
        if name in UNARY:
            args = (np.concatenate([inputs(name, dtype, 3000, rng), sweep(dtype, 3)]),)
        else:
            args = tuple(rng.permutation(sweep(dtype, 3)) for _ in range(2))
        a, b = (lib.call("v", name, *args) for lib in fma[:2])
        assert ((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all(), name


def test_large_arguments_of_trigonometric_functions(best):
    """Reduction modulo pi of huge arguments: values from mpmath with 400 digits."""
    mp = pytest.importorskip("mpmath")
    for dtype in DTYPES:
        big = [1e5, 1e6, 1.2345e9, 2.0**60, 1e22, 3e38] + ([1e100, 1.7e308] if dtype == np.float64 else [])
        x = np.array(big + [-v for v in big], dtype)
        for name in ("sin", "cos", "tan"):
            with mp.workdps(400):
                want = [getattr(mp, name)(mp.mpf(float(v))) for v in x]
                want = [+v for v in want]
            assert accuracy.ulp_error_mp(best.call("v", name, x), want).max() <= 1.5, name


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_powers_are_exact(best, dtype):
    top = 24 if dtype == np.float32 else 53
    n = np.arange(2, 200, dtype=dtype)
    for p in (1.0, 2.0, 3.0, 4.0):
        want = n.astype(np.float64) ** p
        keep = want < 2.0**top
        got = best.call("v", "pow", n[keep], np.full(keep.sum(), p, dtype))
        assert np.array_equal(got.astype(np.float64), want[keep]), p
    e = np.arange(-120, 120, dtype=dtype)
    assert np.array_equal(best.call("v", "exp2", e), np.ldexp(np.ones(e.size, dtype), e.astype(int)))
    assert np.array_equal(best.call("v", "log2", np.ldexp(np.ones(e.size, dtype), e.astype(int))), e)
    k = np.arange(0, 11 if dtype == np.float32 else 23)
    assert np.array_equal(best.call("v", "log10", np.array([10.0**i for i in k], dtype)), k.astype(dtype))
    c = np.arange(1, 100, dtype=dtype)
    assert np.array_equal(best.call("v", "cbrt", c**3), c)


def test_polynomials_are_those_of_the_generator():
    """Each polynomial in the headers names its fit; tools/minimax.py has it, and makes the same again."""
    import re

    pytest.importorskip("mpmath")
    spec = importlib.util.spec_from_file_location("minimax", ROOT / "tools" / "minimax.py")
    minimax = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(minimax)
    named = {}
    for header in sorted((ROOT / "tensorx" / "_native").glob("vmath_*.h")):
        for name, body in re.findall(r"    /\* (\w+): \[.*\], error .* \*/\n((?:    .*-?0x1.*;\n)+)", header.read_text()):
            if name in minimax.SPECS:
                named[name] = re.findall(r"(-?0x1[0-9a-f.]*p[+-]\d+f?)", body)
    assert set(named) == set(minimax.SPECS)
    for name, coefficients in named.items():
        # a line that follows may hold another constant
        assert len(coefficients) >= len(minimax.SPECS[name].powers), name
    for name in ("exp_f32", "sin_f32"):
        made = re.findall(r"(-?0x1[0-9a-f.]*p[+-]\d+f?)", minimax.horner(name))
        assert made == named[name][: len(made)], name
