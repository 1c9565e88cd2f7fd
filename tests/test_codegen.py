"""The built kernel modules, called directly: every row, dtype and instruction set against the references."""

import ctypes
import doctest
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


# ---- policies, by hand ----


def run(kernels, name, dtype, *operands):
    row = table.TABLE[table.INDEX[name]]
    arrays = np.broadcast_arrays(*(np.asarray(o, bool if k in row.masks else dtype) for k, o in enumerate(operands)))
    return kernels(row, dtype, [np.ascontiguousarray(a).ravel() for a in arrays])


INTEGERS = [name for name in KERNEL_NAMES if np.dtype(name).kind in "iu"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division(kernels, dtype):
    """Floor semantics; by zero 0; the smallest value by -1 wraps (IDIV-1, IDIV-3)."""
    info = np.iinfo(dtype)
    edge = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7]
    edge += [-1, -2, -3, -7] if info.min else []
    rng = np.random.default_rng(0)
    edge = np.array(edge, dtype)
    any_, small = rng.integers(info.min, info.max, 4500, dtype, endpoint=True), rng.integers(max(info.min, -9), 9, 1500)
    x = np.concatenate([np.repeat(edge, edge.size), any_[:3000]])
    y = np.concatenate([np.tile(edge, edge.size), any_[3000:], small.astype(dtype)])
    pairs = [(int(a), int(b)) for a, b in zip(x, y)]

    def wrapped(values):
        return np.array([(v - info.min) % 2 ** info.bits + info.min for v in values], dtype)

    assert np.array_equal(run(kernels, "floor_divide", dtype, x, y), wrapped(a // b if b else 0 for a, b in pairs))
    assert np.array_equal(run(kernels, "remainder", dtype, x, y), wrapped(a % b if b else 0 for a, b in pairs))
    truncated = [abs(a) % abs(b) * (1 if a >= 0 else -1) if b else 0 for a, b in pairs]
    assert np.array_equal(run(kernels, "fmod", dtype, x, y), wrapped(truncated))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(kernels, dtype):
    """Beyond the width 0, or -1 for a negative right shift; negative counts 0 (SHIFT-1)."""
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 5, info.max // 3] + ([-1, -8] if info.min else [])
    counts = [0, 1, info.bits - 1, info.bits, info.bits + 1, min(info.max, 255)] + ([-1, info.min] if info.min else [])
    values, counts = np.array(values, dtype), np.array(counts, dtype)
    x, y = np.repeat(values, counts.size), np.tile(counts, values.size)
    left, right = run(kernels, "bitwise_left_shift", dtype, x, y), run(kernels, "bitwise_right_shift", dtype, x, y)
    for a, n, up, down in zip(x.tolist(), y.tolist(), left.tolist(), right.tolist()):
        wanted = (a << n) % 2**info.bits if 0 <= n < info.bits else 0
        assert up % 2**info.bits == wanted, (a, n)
        assert down == (a >> n if n >= 0 else 0), (a, n)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers_wrap(kernels, dtype):
    info = np.iinfo(dtype)
    x, y = np.meshgrid(np.arange(max(info.min, -20), 21), np.arange(0, 70))
    x, y = x.ravel().astype(dtype), y.ravel().astype(dtype)
    wanted = [(int(a) ** int(n) - info.min) % 2**info.bits + info.min for a, n in zip(x, y)]
    assert run(kernels, "pow", dtype, x, y).tolist() == wanted


def test_integers_take_no_trip_through_floats(kernels):
    """INTF-1, and the whole kind."""
    big = [-(2**24 + 1), 2**24 + 3, -(2**31), 2**31 - 1]
    assert run(kernels, "abs", "int32", big).tolist() == [2**24 + 1, 2**24 + 3, -(2**31), 2**31 - 1]
    big = [-(2**63 - 1), 2**53 + 1, 2**63 - 1]
    assert run(kernels, "abs", "int64", big).tolist() == [2**63 - 1, 2**53 + 1, 2**63 - 1]
    for name in ("ceil", "floor", "trunc", "round", "positive", "conj", "real"):
        assert run(kernels, name, "int64", big).tolist() == big
    assert run(kernels, "sign", "int64", big).tolist() == [-1, 1, 1]
    assert run(kernels, "square", "int64", [2**31 + 1]).tolist() == [(2**31 + 1) ** 2]
    assert run(kernels, "clip", "int64", big, -(2**53 + 1), 2**53 + 1).tolist() == [-(2**53 + 1), 2**53 + 1, 2**53 + 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_division_specials(kernels, dtype):
    """FDIV-1, in the words of the array API."""
    inf, nan = np.inf, np.nan
    x = [1, -1, inf, inf, 1, 1, -1, 0.0, -0.0, 1, -1, 0, nan, 1, 6]
    y = [-inf, inf, 3, -3, inf, -inf, -inf, 2, 2, 0.0, 0.0, 0.0, 1, nan, -0.0]
    quotient = [-1, -1, nan, nan, 0.0, -1, 0.0, 0.0, -0.0, inf, -inf, nan, nan, nan, -inf]
    rest = [-inf, inf, nan, nan, 1, -inf, -1, 0.0, 0.0, nan, nan, nan, nan, nan, nan]
    assert same_bits(run(kernels, "floor_divide", dtype, x, y), np.array(quotient, dtype))
    assert same_bits(run(kernels, "remainder", dtype, x, y), np.array(rest, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_remainders_of_random_bits_are_exact(kernels, dtype):
    """Every exponent, so that the fast division and fmod both get their turn in one block."""
    bits = {"float32": np.uint32, "float64": np.uint64}[dtype]
    rng = np.random.default_rng(5)
    x = rng.integers(0, np.iinfo(bits).max, 20000, bits, endpoint=True).view(dtype)
    y = rng.integers(0, np.iinfo(bits).max, 20000, bits, endpoint=True).view(dtype)
    with np.errstate(all="ignore"):
        near = (x * rng.uniform(-40, 40, x.size).astype(dtype)).astype(dtype)
        whole = np.round(rng.uniform(-1e6, 1e6, x.size)).astype(dtype)
        for a, b in [(x, y), (near, x), (whole, np.round(whole / 977) + 1), (whole * np.abs(y), y)]:
            a, b = a.astype(dtype), b.astype(dtype)
            exact = np.fmod(a, b)
            assert same_bits(run(kernels, "fmod", dtype, a, b), exact)
            floored = np.where((exact != 0) & ((exact < 0) != (b < 0)), exact + b, exact)
            floored = np.where(floored == 0, np.copysign(0, b), floored).astype(dtype)
            assert same_bits(run(kernels, "remainder", dtype, a, b), floored)
            # the floor quotient is within one rounding of the exact one
            quotient = run(kernels, "floor_divide", dtype, a, b).astype(float)
            wanted = np.floor_divide(a.astype(np.longdouble), b.astype(np.longdouble)).astype(float)
            fine = np.isfinite(wanted) & (np.abs(wanted) < 1e15)
            assert np.allclose(quotient[fine], wanted[fine], rtol=2 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_propagates(kernels, dtype):
    """NAN-1 and the whole kind."""
    nan = np.nan
    assert same_bits(run(kernels, "clip", dtype, [nan, 1, 200], -100, 100), np.array([nan, 1, 100], dtype))
    assert same_bits(run(kernels, "clamp_min", dtype, [nan, 1], 0), np.array([nan, 1], dtype))
    for name in ("maximum", "minimum"):
        assert np.isnan(run(kernels, name, dtype, [nan, 1, nan], [1, nan, nan])).all()
    for name in ("fmax", "fmin"):
        assert run(kernels, name, dtype, [nan, 1], [1, nan]).tolist() == [1, 1]
    one_operand = [r for r in table.TABLE if "f" in r.kinds and r.out == "same" and len(r.args) == 1 and r.arity < 4]
    for row in one_operand:
        if row.name == "nan_to_num":
            continue
        got = run(kernels, row.name, dtype, [nan] * 70, *(1.0 for _ in row.params))
        assert np.isnan(got).all(), row.name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mulg(kernels, dtype):
    inf, nan = np.inf, np.nan
    g = [0.0, 0.0, -0.0, 0.0, 2.0, nan, 0.0, inf]
    f = [inf, nan, -inf, 3.0, inf, 0.0, -3.0, 0.0]
    assert same_bits(run(kernels, "mulg", dtype, g, f), np.array([0.0, 0.0, 0.0, 0.0, inf, nan, -0.0, nan], dtype))


def test_booleans_stay_booleans(kernels):
    x, y = [True, True, False, False], [True, False, True, False]
    truth = {"add": [1, 1, 1, 0], "multiply": [1, 0, 0, 0], "maximum": [1, 1, 1, 0], "bitwise_xor": [0, 1, 1, 0]}
    for name, wanted in truth.items():
        assert run(kernels, name, "bool", x, y).view(np.uint8).tolist() == wanted
    assert run(kernels, "bitwise_invert", "bool", x).view(np.uint8).tolist() == [0, 0, 1, 1]


COMPLEX_ROWS = "sqrt exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs reciprocal sign".split()


@pytest.mark.parametrize("name", COMPLEX_ROWS)
def test_complex_special_values(kernels, name):
    """C99's lists, which the array API and NumPy share; also far values and every branch cut's side."""
    parts = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-320, 1e300]
    x = np.array([complex(a, b) for a in parts for b in parts])
    if name == "sign":
        x = x[~np.isnan(x)]
    row = table.TABLE[table.INDEX[name]]
    got, expected = kernels(row, "complex128", [x]), codegen.reference(row, [x])
    for a, b in ((got.real, expected.real), (got.imag, expected.imag)):
        with np.errstate(all="ignore"):
            bad = ~((a == b) | ((a != a) & (b != b)) | (np.abs(a - b) <= 1e-13 * np.abs(b)))
        assert not bad.any(), [(x[i], got[i], expected[i]) for i in np.flatnonzero(bad)[:8]]


def test_complex_special_values_by_hand(kernels):
    inf, nan = np.inf, np.nan

    def same(name, x, wanted):
        got = run(kernels, name, "complex128", [x])[0]
        pairs = ((got.real, wanted.real), (got.imag, wanted.imag))
        assert all(a == b or (a != a and b != b) for a, b in pairs), (name, x, got)

    for x, wanted in [
        (complex(0, 0), 0j), (complex(inf, 0), complex(inf, 0)), (complex(-inf, 2.0), complex(-1, 0)),
        (complex(inf, inf), complex(inf, nan)), (complex(nan, 0), complex(nan, 0)), (complex(-inf, inf), complex(-1, 0)),
    ]:
        same("expm1", x, wanted)
    for x, wanted in [
        (complex(-1, 0), complex(-inf, 0)), (complex(inf, 1), complex(inf, 0)), (complex(-inf, 1), complex(inf, np.pi)),
        (complex(1, inf), complex(inf, np.pi / 2)), (complex(nan, inf), complex(inf, nan)), (complex(1, nan), complex(nan, nan)),
    ]:
        same("log1p", x, wanted)
    same("sign", complex(nan, inf), complex(nan, nan))
    same("sign", complex(1, nan), complex(nan, nan))
    assert abs(run(kernels, "log1p", "complex128", [-1 + 1e-300j])[0].real - np.log(1e-300)) < 1e-12
    assert run(kernels, "log1p", "complex128", [1e-20 + 1e-20j])[0] == 1e-20 + 1e-20j
    # a real factor brings in no imaginary zero, which times infinity would be NaN
    assert run(kernels, "log2", "complex128", [complex(inf, 0)])[0] == complex(inf, 0)
    assert run(kernels, "pow", "complex128", [2j, 0j, 3 + 4j], [2, 0, 1]).tolist() == [-4 + 0j, 1 + 0j, 3 + 4j]


def test_no_fused_multiply_add_appears(kernels):
    """(1 + e)(1 - e) - 1 is 0 when the product is rounded, -e * e when it is not."""
    for dtype in ("float32", "float64", "complex64", "complex128"):
        e = np.finfo(dtype).eps
        n = 67
        x, y, minus = (np.full(n, v, dtype) for v in (1 + e, 1 - e, -1))
        got = kernels(table.TABLE[table.INDEX["addcmul"]], dtype, [minus, x, y, np.ones(n, dtype)])
        assert (got == 0).all()
        if np.dtype(dtype).kind == "c":
            x, y = x * (1 + 1j), y * (1 - 1j)
            got = kernels(table.TABLE[table.INDEX["multiply"]], dtype, [x, y])
            assert (got == 2).all()


# ---- the docstrings of the functions made from rows ----

PUBLIC = [(row, name) for row in table.TABLE for name in codegen.functions(row)]


@pytest.mark.parametrize("row, name", PUBLIC, ids=[name for _, name in PUBLIC])
def test_docstring_example(row, name):
    import tensorx as tx

    assert getattr(tx, name).__doc__
    test = doctest.DocTestParser().get_doctest(codegen.docstring(row, name), {"tx": tx}, name, None, 0)
    assert len(test.examples) == 1
    said = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed == 0, "".join(said)
