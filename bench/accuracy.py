"""Accuracy of the elementary functions of the CPU kernels, in ulp.

    python bench/accuracy.py                  a table of maximal errors
    python bench/accuracy.py exp tanh         some functions only
    python bench/accuracy.py --exhaustive exp every float32 value (minutes per function)

Compiles tensorx/_native/vmath.h into a small library, once per instruction set, and compares with
double precision (float32), with 80-bit long double where the machine has it, else mpmath (float64),
and with mpmath for erfinv and digamma.  Samples: all bit patterns at random, and uniformly the ranges
where results are finite.  The error is |result - exact| / ulp(exact), subnormals included.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

NATIVE = Path(__file__).resolve().parent.parent / "tensorx" / "_native"

# name -> ranges sampled uniformly (besides all bit patterns)
UNARY = {
    "exp": [(-104, 89), (-1, 1), (-746, 710)],
    "expm1": [(-20, 89), (-1, 1), (-40, 710)],
    "exp2": [(-150, 128), (-1, 1), (-1075, 1024)],
    "log": [(0, 3), (0.5, 2), (0, 1e4)],
    "log2": [(0, 3), (0.5, 2), (0, 1e4)],
    "log10": [(0, 3), (0.5, 2), (0, 1e4)],
    "log1p": [(-1, 3), (-0.5, 1), (0, 1e4)],
    "sigmoid": [(-104, 20), (-4, 4), (-746, 40)],
    "softplus": [(-104, 100), (-4, 4), (-746, 40)],
    "tanh": [(-10, 10), (-1, 1), (-20, 20)],
    "sinh": [(-90, 90), (-3, 3), (-711, 711)],
    "cosh": [(-90, 90), (-3, 3), (-711, 711)],
    "erf": [(-4, 4), (-1, 1), (-6, 6)],
    "erfc": [(-4, 10.2), (-1, 1), (0, 27.3)],
    "erfinv": [(-1, 1), (0.99, 1)],
    "sin": [(-10, 10), (-1e3, 1e3), (-1e6, 1e6)],
    "cos": [(-10, 10), (-1e3, 1e3), (-1e6, 1e6)],
    "tan": [(-10, 10), (-1e3, 1e3), (-1e6, 1e6)],
    "asin": [(-1, 1), (0.9, 1)],
    "acos": [(-1, 1), (0.9, 1)],
    "atan": [(-4, 4), (-100, 100)],
    "asinh": [(-4, 4), (-1e4, 1e4)],
    "acosh": [(1, 4), (1, 1e4)],
    "atanh": [(-1, 1), (-0.4, 0.4)],
    "cbrt": [(-8, 8), (-1e3, 1e3)],
    "lgamma": [(0, 4), (0, 1e3)],
    "digamma": [(0.01, 4), (4, 1e4), (-20, 0)],
}
BINARY = {
    "pow": [((0, 4), (-60, 60)), ((0.5, 2), (-300, 300)), ((-10, 10), (-9, 9))],
    "atan2": [((-4, 4), (-4, 4)), ((-1, 1), (-1e3, 1e3))],
    "hypot": [((-4, 4), (-4, 4)), ((-1, 1), (-1e3, 1e3))],
    "logaddexp": [((-4, 4), (-4, 4)), ((-1e3, 1e3), (-1e3, 1e3))],
}
MPMATH_ONLY = {"erfinv", "digamma"}

BASE_FLAGS = "-O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv -fopenmp-simd".split()
ISA_FLAGS = {
    "base": [],
    "avx2": "-mavx2 -mfma -mf16c".split(),
    "avx512": "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c -mprefer-vector-width=512".split(),
}

HEAD = r"""
#include <float.h>
#include "vmath.h"
#define API __attribute__((visibility("default")))
API int long_double_digits(void) { return LDBL_MANT_DIG; }
API int has_fma(void) { return TX_HAVE_FMA; }
API int supports(int isa)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (isa == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
    return isa == 0;
}
/* keeps a loop from being vectorised */
#define SCALAR __asm__ volatile("" ::: "memory")
typedef long double ld;
static double r_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static ld r_sigmoidl(ld x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static double r_softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static ld r_softplusl(ld x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
static ld r_logaddexpl(ld x, ld y) { return x == y ? x + logl(2) : fmaxl(x, y) + log1pl(expl(-fabsl(x - y))); }
static double r_logaddexp(double x, double y) { return x != x || y != y ? x + y : (double)r_logaddexpl(x, y); }
"""
UNARY_C = r"""
#ifdef TX_HAVE_V_@f
API void v32_@(float *d, const float *s, ptrdiff_t n) { tx_v@f(d, s, n); }
#else
API void v32_@(float *d, const float *s, ptrdiff_t n) { TX_SIMD for (ptrdiff_t i = 0; i < n; i++) d[i] = tx_@f(s[i]); }
#endif
#ifdef TX_HAVE_V_@
API void v64_@(double *d, const double *s, ptrdiff_t n) { tx_v@(d, s, n); }
#else
API void v64_@(double *d, const double *s, ptrdiff_t n) { TX_SIMD for (ptrdiff_t i = 0; i < n; i++) d[i] = tx_@(s[i]); }
#endif
API void s32_@(float *d, const float *s, ptrdiff_t n) { for (ptrdiff_t i = 0; i < n; i++) { SCALAR; d[i] = tx_@f(s[i]); } }
API void s64_@(double *d, const double *s, ptrdiff_t n) { for (ptrdiff_t i = 0; i < n; i++) { SCALAR; d[i] = tx_@(s[i]); } }
"""
BINARY_C = r"""
API void v32_@(float *d, const float *s, const float *t, ptrdiff_t n)
{ TX_SIMD for (ptrdiff_t i = 0; i < n; i++) d[i] = tx_@f(s[i], t[i]); }
API void v64_@(double *d, const double *s, const double *t, ptrdiff_t n)
{ TX_SIMD for (ptrdiff_t i = 0; i < n; i++) d[i] = tx_@(s[i], t[i]); }
API void s32_@(float *d, const float *s, const float *t, ptrdiff_t n)
{ for (ptrdiff_t i = 0; i < n; i++) { SCALAR; d[i] = tx_@f(s[i], t[i]); } }
API void s64_@(double *d, const double *s, const double *t, ptrdiff_t n)
{ for (ptrdiff_t i = 0; i < n; i++) { SCALAR; d[i] = tx_@(s[i], t[i]); } }
"""
UNARY_REF_C = r"""
API void r32_@(double *d, const float *s, ptrdiff_t n) { for (ptrdiff_t i = 0; i < n; i++) d[i] = #((double)s[i]); }
API void r64_@(ld *d, const double *s, ptrdiff_t n) { for (ptrdiff_t i = 0; i < n; i++) d[i] = #l((ld)s[i]); }
"""
BINARY_REF_C = r"""
API void r32_@(double *d, const float *s, const float *t, ptrdiff_t n)
{ for (ptrdiff_t i = 0; i < n; i++) d[i] = #((double)s[i], (double)t[i]); }
API void r64_@(ld *d, const double *s, const double *t, ptrdiff_t n)
{ for (ptrdiff_t i = 0; i < n; i++) d[i] = #l((ld)s[i], (ld)t[i]); }
"""


def source() -> str:
    own = {"sigmoid": "r_sigmoid", "softplus": "r_softplus", "logaddexp": "r_logaddexp"}
    out = [HEAD]
    for table, body, ref in ((UNARY, UNARY_C, UNARY_REF_C), (BINARY, BINARY_C, BINARY_REF_C)):
        for name in table:
            out.append(body.replace("@", name))
            if name not in MPMATH_ONLY:
                out.append(ref.replace("@", name).replace("#", own.get(name, name)))
    return "".join(out)


def compiler() -> str | None:
    """The C compiler: $CC, or the first of cc, gcc, clang that exists."""
    for cc in (os.environ.get("CC", "").split(" ")[0], "cc", "gcc", "clang"):
        if cc and shutil.which(cc):
            return cc
    return None


def build(isa: str, folder: str | os.PathLike) -> Path:
    """Compile the functions for one instruction set; returns the library's path."""
    src, lib = Path(folder) / f"accuracy_{isa}.c", Path(folder) / f"accuracy_{isa}.so"
    src.write_text(source())
    flags = ["-std=c11", "-D_GNU_SOURCE", "-w", *BASE_FLAGS, *ISA_FLAGS[isa], "-fPIC", "-shared", f"-I{NATIVE}"]
    subprocess.run([compiler(), *flags, str(src), "-o", str(lib), "-lm"], check=True)
    return lib


class Library:
    """The functions compiled for one instruction set, on NumPy arrays."""

    def __init__(self, isa: str, path: str | os.PathLike):
        self.isa = isa
        self.lib = ctypes.CDLL(str(path))
        self.long_double = self.lib.long_double_digits() >= 64 and np.finfo(np.longdouble).nmant >= 63

    def bound(self, kind: str, name: str, *args, out):
        """A call without arguments: kind 'v' (as the kernels do), 's' (element by element), 'r' (reference)."""
        fn = getattr(self.lib, f"{kind}{32 if args[0].dtype == np.float32 else 64}_{name}")
        fn.restype = None
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (out, *args)]
        return partial(fn, *pointers, ctypes.c_ssize_t(args[0].size))

    def call(self, kind: str, name: str, *args, out=None):
        if out is None:
            a = args[0]
            wide = np.float64 if a.dtype == np.float32 else np.longdouble
            out = np.empty(a.shape, wide if kind == "r" else a.dtype)
        self.bound(kind, name, *args, out=out)()
        return out


def available(folder, names=("base", "avx2", "avx512")) -> dict[str, Library]:
    """Libraries for the instruction sets that this machine can run."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    wanted = [isa for isa in ISA_FLAGS if isa in names and (x86 or isa == "base")]
    with ThreadPoolExecutor(2) as pool:
        paths = dict(zip(wanted, pool.map(lambda isa: build(isa, folder), wanted)))
    supports = ctypes.CDLL(str(paths["base"])).supports
    return {isa: Library(isa, path) for isa, path in paths.items() if supports(list(ISA_FLAGS).index(isa))}


def mpmath_reference(name: str, args) -> list:
    """Exact values as mpf, one by one."""
    import mpmath as mp

    def erfinv(x):
        if abs(x) > 1:
            return mp.nan
        if abs(x) == 1:
            return x * mp.inf
        if abs(x) < mp.mpf("1e-30"):
            return x * mp.sqrt(mp.pi) / 2
        return mp.erfinv(x)

    def digamma(x):
        if x == -mp.inf or (x < 0 and x == mp.floor(x)):
            return mp.nan
        return mp.inf if x == mp.inf else mp.digamma(x)

    def logaddexp(x, y):
        return mp.log(mp.exp(x) + mp.exp(y))

    own = {
        "erfinv": erfinv,
        "digamma": digamma,
        "log2": lambda x: mp.log(x) / mp.log(2),
        "log10": lambda x: mp.log(x) / mp.log(10),
        "exp2": lambda x: mp.mpf(2) ** x,
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "softplus": lambda x: mp.log1p(mp.exp(x)),
        "lgamma": lambda x: mp.loggamma(x).real,
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "logaddexp": logaddexp,
        "pow": lambda x, y: mp.power(x, y) if x >= 0 or y == mp.floor(y) else mp.nan,
    }
    f = own.get(name) or getattr(mp, name)
    out = []
    for row in zip(*(a.tolist() for a in args)):
        with mp.workdps(60):
            try:
                v = f(*(mp.mpf(t) for t in row))
                out.append(v if not isinstance(v, mp.mpc) else mp.nan)
            except (ValueError, ZeroDivisionError):
                out.append(mp.nan)
    return out


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units of the last place of got's dtype at exact; wrong specials count as 1e9."""
    digits, low, big = (24, -125, np.finfo(np.float32).max) if got.dtype == np.float32 else (53, -1021, np.finfo(np.float64).max)
    with np.errstate(all="ignore"):
        wide = got.astype(exact.dtype)
    with np.errstate(all="ignore"):
        _, e = np.frexp(np.where(np.isfinite(exact), exact, 1))
        e = np.where(exact == 0, low, np.maximum(e, low))
        err = np.ldexp(np.abs(wide - exact), digits - e)
        rounded = exact.astype(got.dtype)
        both_nan = np.isnan(got) & np.isnan(exact)
        same = both_nan | (np.isinf(rounded) & (got == rounded))
        # next to the overflow threshold the largest finite number is as good
        edge = np.isinf(rounded) & np.isfinite(exact) & (np.abs(got) >= big * 0.999999)
        err = np.where(same, 0, np.where(edge & np.isfinite(got), 1, err))
        bad = (np.isnan(got) != np.isnan(exact)) | (np.isinf(got) & np.isfinite(rounded) & (np.abs(exact) < big)) | (
            np.isinf(exact) & ~same & ~both_nan
        )
        zero = (exact == 0) & (got == 0) & (np.signbit(got) != np.signbit(exact))
    return np.where(bad | zero, 1e9, err).astype(np.float64)


def ulp_error_mp(got: np.ndarray, exact: list) -> np.ndarray:
    """The same against a list of mpf."""
    import mpmath as mp

    digits, low = (24, -125) if got.dtype == np.float32 else (53, -1021)
    big = mp.mpf(float(np.finfo(got.dtype).max))
    out = []
    for g, x in zip(got.tolist(), exact):
        if mp.isnan(x) or np.isnan(g):
            out.append(0.0 if mp.isnan(x) and np.isnan(g) else 1e9)
        elif mp.isinf(x) or np.isinf(g):
            out.append(0.0 if np.isinf(g) and abs(x) >= big and (g > 0) == (x > 0) else 1e9)
        elif x == 0:
            out.append(0.0 if g == 0 else 1e9)
        else:
            e = max(int(mp.floor(mp.log(abs(x), 2))) + 1, low)
            with mp.workdps(60):
                out.append(float(abs(mp.mpf(g) - x) * mp.mpf(2) ** (digits - e)))
    return np.array(out)


def samples(rng: np.random.Generator, dtype, n: int, name: str):
    """Argument tuples: all bit patterns, then each range of the function."""
    dtype = np.dtype(dtype)
    arity = 1 if name in UNARY else 2

    def patterns():
        raw = rng.integers(0, 1 << 32, n * dtype.itemsize // 4, dtype=np.uint32)
        return raw.view(dtype).copy()

    yield tuple(patterns() for _ in range(arity))
    for box in UNARY.get(name) or BINARY[name]:
        yield tuple((lo + (hi - lo) * rng.random(n)).astype(dtype) for lo, hi in ([box] if arity == 1 else box))


def measure(lib: Library, name: str, dtype, n: int, seed: int = 0, skip=None) -> tuple[float, tuple]:
    """Largest error over the samples, and where."""
    rng = np.random.default_rng(seed)
    worst, where = 0.0, ()
    exact_by_mpmath = name in MPMATH_ONLY or (np.dtype(dtype) == np.float64 and not lib.long_double)
    if exact_by_mpmath:
        n = max(n // 250, 80)
    for args in samples(rng, dtype, n, name):
        if skip is not None:
            with np.errstate(all="ignore"):
                keep = ~skip(*args)
            args = tuple(a[keep] for a in args)
        got = lib.call("v", name, *args)
        if exact_by_mpmath:
            err = ulp_error_mp(got, mpmath_reference(name, args))
        else:
            err = ulp_error(got, lib.call("r", name, *args))
        if err.size and err.max() > worst:
            i = int(err.argmax())
            worst, where = float(err[i]), tuple(float(a[i]) for a in args)
    return worst, where


def exhaustive(lib: Library, name: str, stride: int = 1) -> tuple[float, float]:
    """Largest error of a float32 function over every stride-th bit pattern."""
    worst, where, step = 0.0, 0.0, 1 << 22
    for start in range(0, 1 << 32, step * stride):
        x = np.arange(start, min(start + step * stride, 1 << 32), stride, dtype=np.uint64).astype(np.uint32).view(np.float32)
        err = ulp_error(lib.call("v", name, x), lib.call("r", name, x))
        i = int(err.argmax())
        if err[i] > worst:
            worst, where = float(err[i]), float(x[i])
    return worst, where


# Where a result passes through 0 between two floating point numbers, the relative error of a float64
# result has no useful bound; these arguments are left out and described in docs/accuracy.md.
def skip_for(name: str, dtype):
    if name == "lgamma" and dtype == np.float64:
        return lambda x: x < 0
    if name == "digamma":
        return (lambda x: x <= 0) if dtype == np.float64 else (lambda x: x == 0)
    if name == "logaddexp" and dtype == np.float64:
        return lambda x, y: np.abs(np.maximum(x, y) + 0.35) < 0.5
    return None


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("names", nargs="*")
    p.add_argument("-n", type=int, default=400_000, help="samples per range")
    p.add_argument("--exhaustive", action="store_true", help="every float32 value")
    p.add_argument("--stride", type=int, default=1, help="with --exhaustive: every stride-th value")
    a = p.parse_args()
    if compiler() is None:
        print("no C compiler found", file=sys.stderr)
        return 1
    names = a.names or [*UNARY, *BINARY]
    with tempfile.TemporaryDirectory() as folder:
        libs = available(folder)
        if a.exhaustive:
            for name in names:
                if name in UNARY and name not in MPMATH_ONLY:
                    for isa, lib in libs.items():
                        err, x = exhaustive(lib, name, a.stride)
                        print(f"{name:10s} {isa:7s} {err:.3f} at {x!r}", flush=True)
            return 0
        print("| function |" + "".join(f" float32 {i} |" for i in libs) + "".join(f" float64 {i} |" for i in libs))
        print("|---|" + "---:|" * (2 * len(libs)))
        for name in names:
            cells = []
            for dtype in (np.float32, np.float64):
                for lib in libs.values():
                    cells.append(f"{measure(lib, name, dtype, a.n, skip=skip_for(name, dtype))[0]:.2f}")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
