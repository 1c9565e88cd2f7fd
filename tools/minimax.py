"""Minimax polynomial coefficients for tensorx/_native/vmath_*.h.

    python tools/minimax.py              list the names
    python tools/minimax.py exp_f32 ...  print C initialisers

Discrete Remez exchange in mpmath on a Chebyshev grid.  Coefficients are rounded to the target
precision one at a time, lowest power first, and the rest is fitted again after each rounding, unless
rounding them all at once is as good.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp

mp.mp.dps = 50


def solve(nodes, g, w, powers, x):
    """Coefficients and levelled error of sum c_k x^p_k ~ g on the reference indices."""
    n = len(powers)
    a = mp.matrix(n + 1, n + 1)
    b = mp.matrix(n + 1, 1)
    for i, j in enumerate(nodes):
        for k, p in enumerate(powers):
            a[i, k] = x[j] ** p
        a[i, n] = (-1) ** i / w[j]
        b[i] = g[j]
    s = mp.lu_solve(a, b)
    return [s[k] for k in range(n)], abs(s[n])


def remez(g, w, x, powers):
    """Minimise max |w * (p - g)| on the grid; returns (coefficients, error)."""
    n, m = len(powers), len(x)
    usable = [j for j in range(m) if w[j] > 0]
    nodes = [usable[round(i * (len(usable) - 1) / n)] for i in range(n + 1)]
    best = None
    for _ in range(40):
        c, level = solve(nodes, g, w, powers, x)
        err = []
        for j in range(m):
            v = mp.mpf(0)
            for k, p in enumerate(powers):
                v += c[k] * x[j] ** p
            err.append(w[j] * (v - g[j]))
        worst = max(abs(e) for e in err)
        if best is None or worst < best[1]:
            best = (c, worst)
        if worst <= level * mp.mpf("1.0005"):
            break
        # extrema of each run of equal sign, then the n + 1 consecutive ones with the largest error
        peaks = []
        for j in range(m):
            if err[j] == 0:
                continue
            if peaks and (err[peaks[-1]] > 0) == (err[j] > 0):
                if abs(err[j]) > abs(err[peaks[-1]]):
                    peaks[-1] = j
            else:
                peaks.append(j)
        if len(peaks) < n + 1:
            break
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(err[peaks[0]]) < abs(err[peaks[-1]]) else -1)
        nodes = peaks
    return best


def to_float32(v):
    """Nearest float32 of an mpf, by way of float64 (double rounding is harmless here)."""
    return mp.mpf(struct.unpack("f", struct.pack("f", float(v)))[0])


def to_float64(v):
    return mp.mpf(float(v))


class Spec(NamedTuple):
    f: Callable  # function to approximate by the polynomial
    lo: str
    hi: str
    powers: list  # exponents of the polynomial
    weight: Callable  # error weight: 1 / (what the error is relative to)
    bits: int  # 32 or 64


def fit(spec: Spec, density: int = 24):
    lo, hi = mp.mpf(spec.lo), mp.mpf(spec.hi)
    n = len(spec.powers)
    m = density * (n + 2)
    x = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (j + mp.mpf(1) / 2) / m) for j in range(m)]
    w = [abs(spec.weight(t)) for t in x]
    full = [spec.f(t) for t in x]
    rnd = to_float32 if spec.bits == 32 else to_float64
    def error(c):
        return max(wj * abs(mp.fsum(v * t**p for p, v in c.items()) - gj) for wj, gj, t in zip(w, full, x))

    c, ideal = remez(full, w, x, spec.powers)
    plain = {p: rnd(v) for p, v in zip(spec.powers, c)}
    if error(plain) < ideal * mp.mpf("1.02"):
        return plain, ideal, error(plain)
    rest, fixed, g = list(spec.powers), {}, list(full)
    while rest:
        p = rest.pop(0)
        fixed[p] = rnd(c[0])
        g = [v - fixed[p] * t**p for v, t in zip(g, x)]
        if rest:
            c, _ = remez(g, w, x, rest)
    best = min((plain, fixed), key=error)
    return best, ideal, error(best)


def hexf(v, bits):
    """C99 hexadecimal literal."""
    if v == 0:
        return "0.0f" if bits == 32 else "0.0"
    s = float(v).hex()
    mant, exp = s.split("p")
    if "." in mant:
        mant = mant.rstrip("0").rstrip(".")
    return f"{mant}p{exp}" + ("f" if bits == 32 else "")


def _series(direct, small, cut="1e-6"):
    """direct(x) away from 0, the Taylor series small(x) near it (direct cancels there)."""
    cut = mp.mpf(cut)

    def f(x):
        if abs(x) > cut:
            with mp.workdps(90):
                return +direct(x)
        return small(x)

    return f


def _taylor(coefs):
    """Taylor polynomial with coefficients coefs(k), enough terms for |x| <= 1e-6 at 50 digits."""
    return lambda x: mp.fsum(coefs(k) * x**k for k in range(10))


def _odd(f, taylor):
    """q(z) with f(x) = x + x z q(z), z = x^2; taylor(k): coefficients of q."""
    return _series(lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, _taylor(taylor), "1e-8")


fac = mp.factorial
L2 = 1 / mp.log(2)
L10 = 1 / mp.log(10)
TAN = [mp.mpf(1) / 3, mp.mpf(2) / 15, mp.mpf(17) / 315, mp.mpf(62) / 2835, mp.mpf(1382) / 155925] + [0] * 9


def _asin_coef(k):
    n = k + 1
    return fac(2 * n) / (4**n * fac(n) ** 2 * (2 * n + 1))


# exp(r) = 1 + r + r^2 q(r)
_exp_q = _series(lambda r: (mp.exp(r) - 1 - r) / r**2, _taylor(lambda k: 1 / fac(k + 2)))
# 2^r = 1 + r q(r)
_exp2_q = _series(lambda r: (2**r - 1) / r, _taylor(lambda k: mp.log(2) ** (k + 1) / fac(k + 1)))
# log(1 + f) = f - f^2/2 + f^3 q(f)
_log_q = _series(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, _taylor(lambda k: mp.mpf(-1) ** k / (k + 3)))
# log(1 + f) = f + f^2 q(f)
_log_q2 = _series(lambda f: (mp.log1p(f) - f) / f**2, _taylor(lambda k: mp.mpf(-1) ** (k + 1) / (k + 2)))
# log(1 + f) = 2 s + s z q(z), s = f / (2 + f), z = s^2
_logs_q = _series(
    lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, _taylor(lambda k: mp.mpf(2) / (2 * k + 3)), "1e-8"
)
_sin_q = _odd(mp.sin, lambda k: mp.mpf(-1) ** (k + 1) / fac(2 * k + 3))
_sinh_q = _odd(mp.sinh, lambda k: 1 / fac(2 * k + 3))
_tan_q = _odd(mp.tan, lambda k: TAN[k])
_tanh_q = _odd(mp.tanh, lambda k: mp.mpf(-1) ** (k + 1) * TAN[k])
_atan_q = _odd(mp.atan, lambda k: mp.mpf(-1) ** (k + 1) / (2 * k + 3))
_asin_q = _odd(mp.asin, _asin_coef)
# cos(r) = 1 - z/2 + z^2 q(z)
_cos_q = _series(
    lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, _taylor(lambda k: mp.mpf(-1) ** k / fac(2 * k + 4)), "1e-8"
)
# erf(x) = x + x q(z)
_erf_q = _series(
    lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
    lambda z: _taylor(lambda k: 2 / mp.sqrt(mp.pi) * mp.mpf(-1) ** k / (fac(k) * (2 * k + 1)))(z) - 1,
    "1e-9",
)


def _lerfc(t):
    """log(erfc(t)) = t q(t)"""
    return mp.log(mp.erfc(t)) / t


def _erfcx_u(c):
    """erfcx(a) = exp(a^2) erfc(a) = u q(u), u = 1 / (a + c)"""

    def f(u):
        a = 1 / u - c
        with mp.workdps(400):  # exp(-a^2) underflows far below the working precision
            return +(mp.erfc(a) * mp.exp(a * a) / u)

    return f


class centred:
    """f(t) = f(0) + t q(t): q as a callable, f(0) as .value"""

    def __init__(self, f):
        self.f, self.value = f, f(mp.mpf(0))

    def __call__(self, t):
        return (self.f(t) - self.value) / t

    def weight(self, t):
        return t / self.f(t)


def _erfinv_w(w):
    """erfinv(x) / x as a function of w = -log(1 - x^2)"""
    if w < mp.mpf("1e-12"):
        return mp.sqrt(mp.pi) / 2 * (1 + w * mp.pi / 12)
    with mp.workdps(90):
        x = mp.sqrt(-mp.expm1(-w))
        return +(mp.erfinv(x) / x)


def _erfinv_s(s):
    """the same as a function of s = sqrt(w)"""
    return _erfinv_w(s * s)


def _lgamma_near(t):
    """lgamma(x) = (x - 1) (x - 2) q(x), t = x - 1.5"""
    x = t + mp.mpf("1.5")
    with mp.workdps(90):
        if abs(x - 1) < mp.mpf("1e-20"):
            return +mp.euler
        if abs(x - 2) < mp.mpf("1e-20"):
            return +(1 - mp.euler)
        return +(mp.loggamma(x).real / ((x - 1) * (x - 2)))


def _lgamma_far(z):
    """lgamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + q(z) / x, z = 1 / x^2"""
    if z < mp.mpf("1e-10"):
        return mp.mpf(1) / 12 - z / 360
    x = 1 / mp.sqrt(z)
    with mp.workdps(90):
        return +(x * (mp.loggamma(x).real - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2))


def _digamma_far(z):
    """digamma(x) = log x - 1 / (2 x) - z q(z), z = 1 / x^2"""
    if z < mp.mpf("1e-10"):
        return mp.mpf(1) / 12 - z / 120
    x = 1 / mp.sqrt(z)
    with mp.workdps(90):
        return +((mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x)


def _digamma_near(t):
    """digamma(x) = (x - root) q(x), t = x - 1.5"""
    x = t + mp.mpf("1.5")
    with mp.workdps(90):
        root = mp.findroot(mp.digamma, mp.mpf("1.4616321449683622"))
        return +(mp.digamma(x) / (x - root)) if abs(x - root) > mp.mpf("1e-30") else mp.psi(1, root)


def _rel_log(power):
    return lambda f: f**power / mp.log1p(f) if f else f


def P(n):
    return list(range(n))


# (a + 3/4) erfcx(a), nearly constant, in c = 1 / (a + 4) - 1/8
_erfc_c = centred(lambda c: _erfcx_u(4)(c + mp.mpf("0.125")) * (1 - mp.mpf("3.25") * (c + mp.mpf("0.125"))))
_erfinv_c1 = centred(lambda v: _erfinv_w(v + mp.mpf("3.125")))
_erfinv_c2 = centred(lambda v: _erfinv_s(v + mp.mpf("3.25")))
_erfinv_c3 = centred(lambda v: _erfinv_s(v + 5))

H = "0.34658"  # a little more than ln(2)/2
Z = "0.6202"  # a little more than (pi/4)^2
S = "0.02947"  # ((sqrt(2) - 1) / (sqrt(2) + 1))^2
FL, FH = "-0.2929", "0.4143"  # f = m - 1 for m in [sqrt(1/2), sqrt(2)]
SPECS: dict[str, Spec] = {
    "exp_f32": Spec(_exp_q, "-" + H, H, P(5), lambda r: r * r / mp.exp(r), 32),
    "exp_f64": Spec(_exp_q, "-" + H, H, P(10), lambda r: r * r / mp.exp(r), 64),
    "exp_mid": Spec(_exp_q, "-" + H, H, P(6), lambda r: r * r / mp.exp(r), 64),
    "expm1_f32": Spec(_exp_q, "-" + H, H, P(5), lambda r: r, 32),
    "expm1_f64": Spec(_exp_q, "-" + H, H, P(11), lambda r: r, 64),
    "exp2_f32": Spec(_exp2_q, "-0.5", "0.5", P(6), lambda r: r / 2**r, 32),
    "exp2_f64": Spec(_exp2_q, "-0.5", "0.5", P(11), lambda r: r / 2**r, 64),
    "exp2_mid": Spec(_exp2_q, "-0.5", "0.5", P(7), lambda r: r / 2**r, 64),
    "log_f32": Spec(_log_q, FL, FH, P(8), _rel_log(3), 32),
    "log2_f32": Spec(lambda f: _log_q2(f) * L2, FL, FH, P(9), lambda f: _rel_log(2)(f) / L2, 32),
    "log10_f32": Spec(lambda f: _log_q2(f) * L10, FL, FH, P(9), lambda f: _rel_log(2)(f) / L10, 32),
    "logs_f64": Spec(_logs_q, "0", S, P(7), lambda z: z, 64),
    "logs_mid": Spec(_logs_q, "0", S, P(4), lambda z: z, 64),
    "atanh_f32": Spec(lambda z: _logs_q(z) / 2, "0", "0.0901", P(4), lambda z: z, 32),
    "atanh_f64": Spec(lambda z: _logs_q(z) / 2, "0", "0.0901", P(10), lambda z: z, 64),
    # log(1 + f) = 2 s + s z (2/3 + z q(z))
    "powlog_f64": Spec(
        _series(lambda z: (_logs_q(z) - mp.mpf(2) / 3) / z, _taylor(lambda k: mp.mpf(2) / (2 * k + 5)), "1e-8"),
        "0", S, P(8), lambda z: z * z, 64,
    ),
    "cbrt_seed": Spec(lambda m: mp.cbrt(1 / m), "1", "2", P(5), lambda m: mp.cbrt(m), 32),
    "tanh_f32": Spec(_tanh_q, "0", "0.33", P(5), lambda z: z, 32),
    "sinh_f32": Spec(_sinh_q, "0", "1", P(4), lambda z: z, 32),
    "sinh_f64": Spec(_sinh_q, "0", "1", P(7), lambda z: z, 64),
    "sin_f32": Spec(_sin_q, "0", Z, P(3), lambda z: z, 32),
    "cos_f32": Spec(_cos_q, "0", Z, P(3), lambda z: z * z, 32),
    "sin_f64": Spec(_sin_q, "0", Z, P(6), lambda z: z, 64),
    "cos_f64": Spec(_cos_q, "0", Z, P(6), lambda z: z * z, 64),
    "tan_mid": Spec(_tan_q, "0", Z, P(7), lambda z: z, 64),
    "tan_f64": Spec(_tan_q, "0", Z, P(14), lambda z: z, 64),
    "asin_f32": Spec(_asin_q, "0", "0.25", P(5), lambda z: z, 32),
    "asin_f64": Spec(_asin_q, "0", "0.25", P(12), lambda z: z, 64),
    "atan_f32": Spec(_atan_q, "0", "1", P(9), lambda z: z, 32),
    "atan_f64": Spec(_atan_q, "0", "0.1717", P(11), lambda z: z, 64),
    "erf_f32": Spec(_erf_q, "0", "0.86", P(6), lambda z: 1 / (1 + _erf_q(z)), 32),
    "erf_f64": Spec(_erf_q, "0", "1", P(12), lambda z: 1 / (1 + _erf_q(z)), 64),
    "lerfc_f32": Spec(_lerfc, "0.92", "4", P(8), lambda t: mp.erfc(t) / mp.erf(t) * t, 32),
    "lerfc_f64": Spec(_lerfc, "1", "5.95", P(18), lambda t: mp.erfc(t) / mp.erf(t) * t, 64),
    "erfc_mid": Spec(_erfcx_u(3), "0.0757", "0.33334", P(11), lambda u: 1 / _erfcx_u(3)(u), 64),
    "erfc_f64": Spec(_erfc_c, "-0.0931", "0.1112", P(21), _erfc_c.weight, 64),
    # in v = w - 2.5, s - 3; w - 3.125, s - 3.25, s - 5
    "erfinv_mid_1": Spec(lambda v: _erfinv_w(v + 2.5), "-2.5", "2.51", P(12), lambda v: 1 / _erfinv_w(v + 2.5), 64),
    "erfinv_mid_2": Spec(lambda v: _erfinv_s(v + 3), "-0.766", "1.1", P(11), lambda v: 1 / _erfinv_s(v + 3), 64),
    "erfinv_f64_1": Spec(_erfinv_c1, "-3.125", "3.126", P(24), _erfinv_c1.weight, 64),
    "erfinv_f64_2": Spec(_erfinv_c2, "-0.751", "0.751", P(20), _erfinv_c2.weight, 64),
    "erfinv_f64_3": Spec(_erfinv_c3, "-1.001", "1.1", P(18), _erfinv_c3.weight, 64),
    "lgamma_near": Spec(_lgamma_near, "-0.5", "0.5", P(12), lambda t: 1 / _lgamma_near(t), 64),
    "lgamma_far": Spec(_lgamma_far, "0", "0.1112", P(6), lambda z: 1, 64),
    "digamma_near": Spec(_digamma_near, "-0.5", "0.5", P(23), lambda t: 1 / _digamma_near(t), 64),
    "digamma_far": Spec(_digamma_far, "0", "0.1112", P(13), lambda z: z, 64),
}


def horner(name, var="z", q="q"):
    """The polynomial of a spec as C statements."""
    spec = SPECS[name]
    c, ideal, final = fit(spec)
    fma, typ = ("TX_FMAF", "float") if spec.bits == 32 else ("TX_FMA", "double")
    rows = [f"    /* {name}: [{spec.lo}, {spec.hi}], error {mp.nstr(final, 2)} */"]
    for i, p in enumerate(reversed(spec.powers)):
        v = hexf(c[p], spec.bits)
        rows.append(f"    {typ} {q} = {v};" if i == 0 else f"    {q} = {fma}({q}, {var}, {v});")
    if isinstance(spec.f, centred):
        high = to_float64(spec.f.value)
        rows.append(f"    /* value at 0: {hexf(high, 64)} + {hexf(spec.f.value - high, 64)} */")
    return "\n".join(rows)


def main(names):
    if not names:
        print("\n".join(SPECS))
    for name in names:
        print(horner(name))


if __name__ == "__main__":
    main(sys.argv[1:])
