"""Builds gemm_driver.c per instruction set, as a library for ctypes and as programs with sanitizers."""

import ctypes
import functools
import subprocess
import sys

import numpy as np
from ccompile import _COMMON, BUILDS, HERE, _folder, _sanitizer_runs, compilers
from kernel_lib import _X86, CODE, ISAS, Missing, _supported

SOURCE = HERE / "gemm_driver.c"
_FLAGS = ["-ffp-contract=off", "-fwrapv", "-lm", *(["-ldl"] if sys.platform.startswith("linux") else [])]
ACCUMULATE, CONJ_A, CONJ_B = 1, 2, 4
DONE, NO_MEMORY, CANCELLED = 0, 1, 2


class Args(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int32),
        ("flags", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("batch", "m", "n", "k")),
        *((name, ctypes.c_void_p) for name in ("a", "b", "c", "bias")),
        *((x + "_" + y, ctypes.c_int64) for x in "abc" for y in ("rs", "cs", "bs")),
        *((name, ctypes.c_void_p) for name in ("a_boff", "b_boff", "c_boff")),
    ]


def _compiler(isa):
    available = compilers()
    if not available:
        raise Missing("no C compiler")
    if isa != "base" and (not _X86 or not _supported(available[0], isa)):
        raise Missing(f"this processor has no {isa}")
    return available[0]


def _compile(compiler, output, *flags):
    done = subprocess.run(
        [compiler, *_COMMON, *flags, str(SOURCE), "-o", str(output), *_FLAGS], capture_output=True, text=True
    )
    if done.returncode:
        raise AssertionError(f"{SOURCE.name} does not compile with {flags}:\n{done.stderr[-4000:]}")


@functools.cache
def library(isa, optimise="-O2"):
    compiler = _compiler(isa)
    output = _folder()[1] / f"gemm_{isa}{optimise}.so"
    _compile(compiler, output, optimise, "-fPIC", "-shared", *ISAS[isa])
    lib = ctypes.CDLL(str(output))
    lib.t_blas_name.restype = ctypes.c_char_p
    lib.t_scratch.restype = ctypes.c_int64
    lib.t_fail_after.argtypes = [ctypes.c_int64]
    lib.t_random.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_uint64]
    lib.t_runs.argtypes = [ctypes.c_int64]
    return lib


@functools.cache
def program(isa, variant):
    _compiler(isa)
    for compiler in compilers():
        prefix = _sanitizer_runs(compiler, BUILDS[variant])
        if prefix is not None:
            break
    else:
        raise Missing(f"no compiler here runs programs with {' '.join(BUILDS[variant])}")
    output = _folder()[1] / f"gemm_{isa}.{variant}"
    # Not optimised: a sanitizer over kernels that are unrolled in full takes a compiler a minute.
    _compile(compiler, output, *BUILDS[variant], "-O0", *ISAS[isa])
    return [*prefix, str(output)]


def _strides(x):
    assert all(s % x.itemsize == 0 for s in x.strides)
    s = [s // x.itemsize for s in x.strides]
    return s[-2], s[-1], s[0] if x.ndim == 3 else 0


def arguments(a, b, c, dtype, bias=None, flags=0, offsets=(None, None, None), batch=None):
    """a, b, c: 2-D, or 3-D with the batch in front, of NumPy's type or the bits of a bfloat16."""
    g = Args(dtype=CODE[dtype], flags=flags)
    g.batch = batch if batch is not None else c.shape[0] if c.ndim == 3 else 1
    g.m, g.k = a.shape[-2:]
    g.n = b.shape[-1]
    assert b.shape[-2] == g.k and c.shape[-2:] == (g.m, g.n)
    g.a, g.b, g.c = a.ctypes.data, b.ctypes.data, c.ctypes.data
    g.a_rs, g.a_cs, g.a_bs = _strides(a)
    g.b_rs, g.b_cs, g.b_bs = _strides(b)
    g.c_rs, g.c_cs, g.c_bs = _strides(c)
    if bias is not None:
        assert bias.shape == (g.n,) and bias.strides == (bias.itemsize,)
        g.bias = bias.ctypes.data
    g.a_boff, g.b_boff, g.c_boff = (None if o is None else o.ctypes.data for o in offsets)
    return g


def product(lib, a, b, dtype, c=None, threads=1, **more):
    """The product as a new C-ordered array, or in c."""
    if c is None:
        batch = a.shape[:-2] if a.ndim == 3 else b.shape[:-2]
        c = np.full((*batch, a.shape[-2], b.shape[-1]), 99, dtype=a.dtype)
    lib.t_threads(threads)
    status = lib.t_gemm(ctypes.byref(arguments(a, b, c, dtype, **more)))
    assert status == DONE, status
    return c


def random_matrix(rng, dtype, *shape):
    """Bits of `dtype` for these shapes: full range integers, floats of mixed sign and size."""
    if dtype == "bool":
        return rng.random(shape) < 0.3
    if "int" in dtype:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape))
    if dtype == "bfloat16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)
