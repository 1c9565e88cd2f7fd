"""Compiles the kernel headers with the flags of the real build, once per family and instruction set."""

import ctypes
import functools
import platform
import subprocess

import numpy as np
from ccompile import NATIVE, _folder, compilers

FLAGS = ["-O3", "-std=c11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv",
         "-fopenmp-simd", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]  # fmt: skip
ISAS = {
    "base": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma", "-mf16c",
               "-mprefer-vector-width=512"],
}  # fmt: skip
FEATURES = {"base": [], "avx2": ["avx2", "fma"], "avx512": ["avx512f", "avx512dq", "avx512bw", "avx512vl"]}

# bfloat16 has no NumPy type: its bits travel as uint16 and its values as float32.
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]  # fmt: skip
CODE = {name: code for code, name in enumerate(DTYPES)}
OPS = ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "sumsq", "sumabs"]

SOURCES = {
    "casts": """
#include "cast_kernels.h"
static tx_kernels K;
void init(void) { tx_fill_casts(&K); }
void cast(int to, int from, void *d, const void *s, ptrdiff_t n) { K.cast[to][from](d, s, n); }
void round_half(int which, float *x, ptrdiff_t n) { K.round_half[which](x, n); }
""",
    "moves": """
#include "move_kernels.h"
static tx_kernels K;
void init(void) { tx_fill_moves(&K); }
void move(int k, void *d, ptrdiff_t ds, const void *s, ptrdiff_t ss, ptrdiff_t n) { K.move[k](d, ds, s, ss, n); }
void move2(int k, void *d, ptrdiff_t ds0, ptrdiff_t ds1, const void *s, ptrdiff_t ss0, ptrdiff_t ss1, ptrdiff_t n0,
           ptrdiff_t n1) { K.move2[k](d, ds0, ds1, s, ss0, ss1, n0, n1); }
""",
    "reductions": """
#include <stdlib.h>
#include "reduce_kernels.h"
static tx_kernels K;
void init(void) { tx_fill_reductions(&K); }
int defined(int op, int dt) { return K.red[op][dt].ok; }
int acc_dtype(int op, int dt) { return K.red[op][dt].acc_dtype; }
int state_bytes(void) { return (int)sizeof(tx_red_state); }
/* folds of `chunk` elements; every `group` folds share a state, the states are merged in order */
void row(int op, int dt, void *d, const char *s, ptrdiff_t n, ptrdiff_t item, ptrdiff_t chunk, ptrdiff_t group)
{
    const tx_red *r = &K.red[op][dt];
    tx_red_state total, part;
    memset(&total, 0, sizeof total);
    memset(&part, 0, sizeof part);
    ptrdiff_t k = 0;
    for (ptrdiff_t i = 0; i < n; i += chunk) {
        r->fold(&part, s + i * item, n - i < chunk ? n - i : chunk, i);
        if (++k == group) {
            r->merge(&total, &part);
            memset(&part, 0, sizeof part);
            k = 0;
        }
    }
    r->merge(&total, &part);
    r->finish(&total, d);
}
/* cut > 0: rows from cut on go to accumulators of their own, which are merged */
void columns(int op, int dt, void *d, const char *s, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t item, ptrdiff_t cut,
             int at_once)
{
    const tx_red *r = &K.red[op][dt];
    char *acc[2], *aux[2];
    for (int h = 0; h < 2; h++) {
        acc[h] = malloc((size_t)(n * r->vacc_bytes + 1));
        aux[h] = malloc((size_t)(n * r->vaux_bytes + 1));
        r->vinit(acc[h], aux[h], n);
        ptrdiff_t lo = h ? cut : 0, hi = h ? rows : cut;
        if (at_once)
            r->vfold_rows(acc[h], aux[h], s + lo * n * item, n * item, hi - lo, n, lo);
        else
            for (ptrdiff_t i = lo; i < hi; i++)
                r->vfold(acc[h], aux[h], s + i * n * item, n, i);
    }
    r->vmerge(acc[0], aux[0], acc[1], aux[1], n);
    r->vfinish(d, acc[0], aux[0], n);
    for (int h = 0; h < 2; h++) {
        free(acc[h]);
        free(aux[h]);
    }
}
""",
    "rows": """
#include "row_kernels.h"
static tx_kernels K;
void init(void) { tx_fill_rows(&K); }
void one(const char *what, int k, void *d, const void *s, ptrdiff_t n)
{
    const tx_rows *r = &K.rows[k];
    if (!strcmp(what, "softmax")) r->softmax(d, s, n);
    if (!strcmp(what, "log_softmax")) r->log_softmax(d, s, n);
    if (!strcmp(what, "logsumexp")) r->logsumexp(d, s, n);
}
void moments(int k, void *mean, double *m2, const void *s, ptrdiff_t n) { K.rows[k].moments(mean, m2, s, n); }
void layer_norm(int k, void *d, const void *s, ptrdiff_t n, const void *w, const void *b, double eps, void *mean,
                void *rstd) { K.rows[k].layer_norm(d, s, n, w, b, eps, mean, rstd); }
void rms_norm(int k, void *d, const void *s, ptrdiff_t n, const void *w, double eps, void *rstd)
{ K.rows[k].rms_norm(d, s, n, w, eps, rstd); }
void softmax_backward(int k, void *d, const void *g, const void *y, ptrdiff_t n)
{ K.rows[k].softmax_backward(d, g, y, n); }
void log_softmax_backward(int k, void *d, const void *g, const void *y, ptrdiff_t n)
{ K.rows[k].log_softmax_backward(d, g, y, n); }
void layer_norm_backward(int k, void *d, const void *g, const void *x, ptrdiff_t n, const void *w, const void *mean,
                         const void *rstd, double *dw, double *db)
{ K.rows[k].layer_norm_backward(d, g, x, n, w, mean, rstd, dw, db); }
void rms_norm_backward(int k, void *d, const void *g, const void *x, ptrdiff_t n, const void *w, const void *rstd,
                       double *dw) { K.rows[k].rms_norm_backward(d, g, x, n, w, rstd, dw); }
void cross_entropy(int k, void *loss, void *lse, const void *x, ptrdiff_t n, int64_t t, double smoothing)
{ K.rows[k].cross_entropy(loss, lse, x, n, t, smoothing); }
void cross_entropy_backward(int k, void *d, const void *x, ptrdiff_t n, int64_t t, double smoothing, const void *lse,
                            double scale) { K.rows[k].cross_entropy_backward(d, x, n, t, smoothing, lse, scale); }
""",
}
_X86 = platform.machine() in ("x86_64", "AMD64")


class Missing(Exception):
    """No compiler, or an instruction set that this processor does not have."""


@functools.cache
def _supported(compiler, isa):
    tests = " && ".join(f'__builtin_cpu_supports("{name}")' for name in FEATURES[isa]) or "1"
    source = _folder()[1] / f"supports_{isa}.c"
    source.write_text(f"int main(void) {{ return !({tests}); }}\n")
    program = source.with_suffix("")
    subprocess.run([compiler, str(source), "-o", str(program)], check=True)
    return subprocess.run([str(program)]).returncode == 0


class Args:
    """A ctypes library whose functions take NumPy arrays as pointers and Python ints as intptr_t."""

    def __init__(self, lib):
        self._lib = lib

    def __getattr__(self, name):
        function = getattr(self._lib, name)

        def call(*args):
            return function(*map(_convert, args))

        return call


def _convert(arg):
    if arg is None:
        return ctypes.c_void_p(0)
    if isinstance(arg, np.ndarray):
        return ctypes.c_void_p(arg.ctypes.data)
    if isinstance(arg, float):
        return ctypes.c_double(arg)
    if isinstance(arg, bytes):
        return ctypes.c_char_p(arg)
    return ctypes.c_ssize_t(arg)


@functools.cache
def _load(family, isa):
    available = compilers()
    if not available:
        raise Missing("no C compiler")
    compiler = available[0]
    if isa != "base" and (not _X86 or not _supported(compiler, isa)):
        raise Missing(f"this processor has no {isa}")
    source = _folder()[1] / f"{family}_{isa}.c"
    source.write_text(SOURCES[family])
    library = source.with_suffix(".so")
    command = [compiler, *FLAGS, *ISAS[isa], "-I", str(NATIVE), str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{family} kernels do not compile for {isa}:\n{done.stderr[-4000:]}"
    lib = ctypes.CDLL(str(library))
    lib.init()
    return Args(lib)


def load(family, isa):
    """The compiled kernels; raises Missing where this machine cannot have them."""
    found = _load(family, isa)
    if isinstance(found, str):  # kept, so that a failure is compiled only once
        raise AssertionError(found)
    return found


def to_bits(x, name):
    """A float array as the storage of dtype `name`; bfloat16 rounds to nearest even."""
    if name != "bfloat16":
        return np.ascontiguousarray(x, dtype=name)
    return bf16_bits(np.asarray(x, dtype=np.float64))


def bf16_bits(x):
    """float64 -> bfloat16 bits in integer arithmetic on the float64 bits: one rounding, ties to even."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(all="ignore"):
        # spacing of bfloat16 around x: 2^-7 of the binade, at least 2^-133
        exponent = np.frexp(x)[1] - 1
        quantum = np.ldexp(1.0, np.maximum(exponent - 7, -133))
        y = np.rint(x / quantum) * quantum  # exact division and product by powers of two
        y = np.where(np.abs(y) >= 2.0**128, np.copysign(np.inf, x), y)
        y = np.where(np.isfinite(x), np.copysign(y, x), x)
    bits = (y.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), bits)


def bf16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def shifted(x, offset):
    """A copy of x that starts `offset` bytes after a 64-byte boundary."""
    x = np.ascontiguousarray(x)
    raw = np.zeros(x.nbytes + 192, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    view = raw[start : start + x.nbytes].view(x.dtype) if offset % x.itemsize == 0 else None
    if view is None:
        view = np.ndarray(x.shape, x.dtype, raw[start : start + x.nbytes])
        view[...] = x
        return view
    view = view.reshape(x.shape)
    view[...] = x
    return view
