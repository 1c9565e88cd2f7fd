"""The built kernel modules, called directly: every row, dtype and instruction set against the references."""

import ctypes
import importlib.machinery
import importlib.util
import itertools
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensorx.ops import codegen, table

NDT = 15
NAMES = {name: d.code for name, d in codegen.DTYPES.items()}
KERNEL_NAMES = [d.name for d in codegen.KERNEL_DTYPES]
SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-310, -1e-40, 1e30, -1e30, 88.0, -103.0, 1e5]


class Head(ctypes.Structure):
    """The first fields of tx_kernels."""

    _fields_ = [
        ("abi", ctypes.c_int32),
        ("nops", ctypes.c_int32),
        ("table_hash", ctypes.c_uint64),
        ("isa", ctypes.c_char_p),
        ("ew", ctypes.POINTER(ctypes.c_void_p)),
    ]


SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_ssize_t, ctypes.c_uint
)


def runs_here(isa):
    """Whether this machine has the instructions."""
    if isa == "base":
        return True
    if sys.platform == "darwin":
        key = {"avx2": "hw.optional.avx2_0", "avx512": "hw.optional.avx512f"}[isa]
        out = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True)
        return out.stdout.strip() == "1"
    if platform.machine() != "x86_64" or not os.path.exists("/proc/cpuinfo"):
        return False
    flags = set(Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0].split())
    needed = {"avx2": {"avx2", "fma", "f16c"}, "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl"}}
    return needed[isa] <= flags


def module_paths():
    """ISA -> path of its built kernel module."""
    found = {}
    for folder in importlib.util.find_spec("tensorx").submodule_search_locations:
        for isa in ("base", "avx2", "avx512"):
            for suffix in importlib.machinery.EXTENSION_SUFFIXES:
                path = Path(folder) / f"_kernels_{isa}{suffix}"
                if path.exists():
                    found.setdefault(isa, path)
    return found


class Kernels:
    """One kernel module, its kernels callable with NumPy arrays."""

    def __init__(self, path):
        name = path.name.split(".")[0]
        loader = importlib.machinery.ExtensionFileLoader(name, str(path))
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        self.module = importlib.util.module_from_spec(spec)
        loader.exec_module(self.module)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.head = ctypes.cast(get(self.module.kernels, b"tensorx.kernels"), ctypes.POINTER(Head)).contents

    def pointer(self, row, dtype):
        return self.head.ew[table.INDEX[row.name] * NDT + NAMES[dtype]]

    def __call__(self, row, dtype, operands, mask=0, out=None, n=None):
        """Run one kernel; operands in mask are arrays of one element."""
        n = max(o.size for k, o in enumerate(operands) if not mask >> k & 1) if n is None else n
        out = np.empty(n, result_dtype(row, dtype)) if out is None else out
        sources = (ctypes.c_void_p * len(operands))(*(o.ctypes.data for o in operands))
        SIGNATURE(self.pointer(row, dtype))(out.ctypes.data, sources, n, mask)
        return out


def result_dtype(row, dtype):
    if row.out == "bool":
        return np.dtype(bool)
    if row.out == "real" and np.dtype(dtype).kind == "c":
        return np.zeros(1, dtype).real.dtype
    if row.out == "complex":
        return np.result_type(dtype, np.complex64)
    return np.dtype(dtype)


def same_bits(a, b):
    """Equal byte for byte, where all NaNs count as equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        real = a.real.dtype
        a, b = a.view(real), b.view(real)
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        if not (nan == np.isnan(b)).all():
            return False
        a, b = a[~nan], b[~nan]
    return a.tobytes() == b.tobytes()


MODULES = module_paths()
ISAS = sorted(isa for isa in MODULES if runs_here(isa))
LOADED = {}
CASES = [(row, name) for row in table.TABLE for name in KERNEL_NAMES if codegen.has_kernel(row, codegen.DTYPES[name])]
by_case = pytest.mark.parametrize("row, dtype", CASES, ids=[f"{row.name}-{name}" for row, name in CASES])


@pytest.fixture(params=ISAS)
def kernels(request):
    if request.param not in LOADED:
        LOADED[request.param] = Kernels(MODULES[request.param])
    return LOADED[request.param]


def test_some_module_is_built_and_runs_here():
    assert "base" in ISAS


def test_head_matches_the_table(kernels):
    assert kernels.head.abi == 1
    assert kernels.head.nops == len(table.TABLE)
    assert kernels.head.table_hash == table.HASH
    assert kernels.head.isa.decode() == kernels.module.isa


def test_a_kernel_exists_exactly_where_the_row_says(kernels):
    for row in table.TABLE:
        for name, dtype in codegen.DTYPES.items():
            assert bool(kernels.pointer(row, name)) == codegen.has_kernel(row, dtype), (row.name, name)


@by_case
def test_values(kernels, row, dtype):
    case = codegen.test_case(row, dtype)
    got = kernels(row, dtype, case.operands)
    if not case.tolerance.any():
        expected = case.expected.astype(got.dtype)
        assert np.array_equal(got, expected, equal_nan=got.dtype.kind in "fc"), mismatch(case.operands, got, expected)
        return
    error = np.abs(got.astype(case.expected.dtype) - case.expected)
    worst = int(np.argmax(error - case.tolerance))
    assert (error <= case.tolerance).all(), (
        [o[worst] for o in case.operands], got[worst], case.expected[worst], error[worst] / case.tolerance[worst]
    )


def mismatch(operands, got, expected):
    bad = np.flatnonzero(~((got == expected) | ((got != got) & (expected != expected))))[:5]
    return [([o[i] for o in operands], got[i], expected[i]) for i in bad]


@by_case
def test_any_length_position_and_scalar_form_gives_the_same_bits(kernels, row, dtype):
    operands = codegen.samples(row, dtype, 300, seed=1)
    full = kernels(row, dtype, operands)
    for start, n in [(0, 0), (0, 1), (1, 2), (3, 7), (5, 16), (1, 31), (2, 33), (7, 63), (3, 65), (11, 129), (1, 299)]:
        part = [o[start : start + n] for o in operands]
        assert same_bits(kernels(row, dtype, part, n=n), full[start : start + n]), (start, n)
    for mask in range(1, 1 << row.arity):
        one = [o[:1].copy() if mask >> k & 1 else o for k, o in enumerate(operands)]
        spread = [np.repeat(o, 300) if o.size == 1 else o for o in one]
        assert same_bits(kernels(row, dtype, one, mask, n=300), kernels(row, dtype, spread)), mask


@by_case
def test_destination_may_be_any_source(kernels, row, dtype):
    result = result_dtype(row, dtype)
    operands = codegen.samples(row, dtype, 203, seed=2)
    full = kernels(row, dtype, operands)
    for k in range(row.arity):
        if operands[k].dtype != result:
            continue
        copies = [o.copy() for o in operands]
        assert same_bits(kernels(row, dtype, copies, out=copies[k]), full), k
        # the same array as every operand of its dtype, and as the destination
        shared = operands[k].copy()
        every = [shared if o.dtype == result else o for o in operands]
        expected = kernels(row, dtype, [o.copy() for o in every])
        assert same_bits(kernels(row, dtype, every, out=shared), expected), k


FLOAT_CASES = [(row, name) for row, name in CASES if np.dtype(name).kind == "f"]


@pytest.mark.parametrize("row, dtype", FLOAT_CASES, ids=[f"{row.name}-{name}" for row, name in FLOAT_CASES])
def test_special_values(kernels, row, dtype):
    """NaN, infinities, signed zeros, subnormals and far values, in all combinations."""
    values = SPECIALS if row.arity <= 2 else SPECIALS[:11]
    values = [v for v in values if row.arity < 4 or v not in (0.5, -2.5, 1e-310)]
    columns = [np.array(c) for c in zip(*itertools.product(values, repeat=row.arity))]
    with np.errstate(all="ignore"):
        operands = [c.astype(bool) if k in row.masks else c.astype(dtype) for k, c in enumerate(columns)]
    got = kernels(row, dtype, operands)
    wide = operands if row.ulp == 0 else [o if o.dtype == bool else o.astype(np.float64) for o in operands]
    with np.errstate(all="ignore"):
        expected = codegen.reference(row, wide).astype(got.dtype)
    skip = np.zeros(got.shape, bool)
    for text in row.special:
        with np.errstate(all="ignore"):
            skip |= eval(text, {"np": np, **dict(zip(row.operands, operands))})
    if row.ulp == 0:
        bad = ~((got == expected) | ((got != got) & (expected != expected)))
    else:
        with np.errstate(all="ignore"):
            eps = np.finfo(dtype).eps
            room = (row.ulp + 4) * eps * np.maximum(np.abs(expected), row.scale) + 2 * np.finfo(dtype).smallest_subnormal
            near = np.abs(got - expected) <= room
        bad = ~((got == expected) | near | ((got != got) & (expected != expected)))
    bad &= ~skip
    assert not bad.any(), [([o[i] for o in operands], got[i], expected[i]) for i in np.flatnonzero(bad)[:8]]
