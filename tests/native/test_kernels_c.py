"""The kernels of casts, moves and reductions against NumPy, for every instruction set of this machine."""

import math

import numpy as np
import pytest
from kernel_lib import (
    CODE,
    DTYPES,
    ISAS,
    OPS,
    Missing,
    bf16_bits,
    bf16_values,
    load,
    shifted,
    to_bits,
)

SIZES = [0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 3000]
REDUCIBLE = [name for name in DTYPES if name not in ("float16", "bfloat16")]
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 127.0, 127.9, 128.0, -128.0, -129.0,
     255.0, 255.5, 256.0, 32767.5, 32768.0, -32768.9, -32769.0, 65504.0, 65519.0, 65519.99, 65520.0, 65535.0, 65536.0,
     2147483520.0, 2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967295.0, 4294967296.0,
     2.0**62, 2.0**63 - 1024, 2.0**63, -(2.0**63), -(2.0**63) - 2048, 2.0**64 - 2048, 2.0**64, 1e20, -1e20, 1e30,
     3.3895313892515355e38, 3.3961775292304957e38, 3.4028234663852886e38, 1e39, 1e300, -1e300, 5e-324, 1e-310, 1e-45,
     1.1754943508222875e-38, 1e-40, 9.2e-41, 4.6e-41, 4.7e-41, 6.103515625e-05, 6.1e-05, 5.96e-08, 2.98e-08, 2.9802e-08,
     2.0**-25, 3 * 2.0**-26, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8,
     1 + 2.0**-8 + 2.0**-45, 0.2691408770292272, 2049.0, 2051.0, 2049.0000000001]
)  # fmt: skip


@pytest.fixture(params=ISAS)
def isa(request):
    return request.param


def library(family, isa):
    try:
        return load(family, isa)
    except Missing as reason:
        pytest.skip(str(reason))


# ---- casts ----


def sample(name, rng, n):
    """n values of dtype `name`, special ones among them, as its storage."""
    if name == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if name.startswith(("int", "uint")):
        info = np.iinfo(name)
        wide = rng.integers(info.min, info.max, n, dtype=name, endpoint=True)
        small = rng.integers(max(info.min, -300), min(info.max, 300), n).astype(name)
        edges = [info.min, info.max, info.max - 1, 0, 1, info.max // 2 + 1]
        for shift in (8, 9, 10, 11, 12, 24, 25, 31, 53, 54, 63):
            edges += [
                e for e in (2**shift, 2**shift + 1, 2**shift - 1, 3 * 2 ** (shift - 1) + 1) if e <= info.max
            ]
        mixed = np.where(rng.random(n) < 0.5, wide, small)
        mixed[: min(n, len(edges))] = np.array(edges, dtype=name)[:n]
        return mixed
    reals = rng.standard_normal(n) * 10.0 ** rng.integers(-48, 40, n)
    half = rng.random(n) < 0.5
    reals[half] = rng.standard_normal(n)[half] * 2.0 ** rng.integers(-30, 34, n)[half]
    reals[: min(n, len(SPECIAL))] = SPECIAL[:n]
    with np.errstate(all="ignore"):
        if name.startswith("complex"):
            return (reals + 1j * np.roll(np.where(np.isfinite(reals), reals, 0), 1)).astype(name)
        return to_bits(reals, name)


def integers_of(x, name):
    """Saturating conversion of a float array, with Python integers as witness."""
    info = np.iinfo(name)
    return np.array([0 if v != v else info.max if v >= info.max else info.min if v <= info.min else int(v)
                     for v in x.astype(np.float64).tolist()], dtype=name)  # fmt: skip


def odd_half(x, name):
    """Python integers -> half precision, by exact arithmetic on the integers."""
    out = []
    for v in x.tolist():
        m, low = abs(v), 0
        if m >= 1 << 40:  # keep 40 bits and a sticky one: far more than a half needs
            shift = m.bit_length() - 40
            low = int(m & ((1 << shift) - 1) != 0)
            m = ((m >> shift) * 2 + low) << (shift - 1)
        out.append(-float(m) if v < 0 else float(m))
    return bf16_bits(np.array(out)) if name == "bfloat16" else np.array(out).astype(np.float16)


def reference(x, source, target):
    with np.errstate(all="ignore"):
        if source == target:
            return x
        if source.startswith("complex"):
            if target == "bool":
                return x != 0
            if target.startswith("complex"):
                return x.astype(target)
            return reference(x.real.copy(), "float32" if source == "complex64" else "float64", target)
        if target.startswith("complex"):
            part = "float32" if target == "complex64" else "float64"
            return reference(x, source, part).astype(target)
        if source == "bfloat16":
            return reference(bf16_values(x), "float32", target)
        if source.startswith("float"):
            if target == "bool":
                return x != 0
            if target.startswith(("int", "uint")):
                return integers_of(x, target)
            return to_bits(x.astype(np.float64), target) if target == "bfloat16" else x.astype(target)
        if target in ("float16", "bfloat16"):
            return odd_half(x.astype(object), target)
        return x.astype(target)


def same(got, want):
    """Equal bits, except that any NaN equals any other of its width."""
    if got.dtype.kind in "fc":
        a, b = got.view(got.real.dtype), want.view(want.real.dtype)
        bits = np.uint16 if a.itemsize == 2 else np.uint32 if a.itemsize == 4 else np.uint64
        return np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(
            np.where(np.isnan(a), 0, a.view(bits)), np.where(np.isnan(b), 0, b.view(bits))
        )
    return np.array_equal(got, want)


def storage(name):
    return np.uint16 if name == "bfloat16" else np.dtype(name)


@pytest.mark.parametrize("source", DTYPES)
def test_casts_to_every_dtype(isa, source, rng):
    lib = library("casts", isa)
    for target in DTYPES:
        for n in SIZES:
            x = shifted(sample(source, rng, n), 3)
            out = shifted(np.zeros(n + 2, storage(target)), 5)
            guard = out.view(np.uint8)[-2 * out.itemsize :] if out.itemsize else out
            guard[...] = 0xA5
            lib.cast(CODE[target], CODE[source], out, x, n)
            want = reference(x.copy(), source, target)
            got = out[:n].copy()
            if target == "bfloat16":
                nan = (got & 0x7FFF) > 0x7F80
                assert np.array_equal(nan, (want & 0x7FFF) > 0x7F80), (target, n)
                got, want = np.where(nan, 0, got), np.where(nan, 0, want)
            assert same(got, want), (target, n)
            assert (guard == 0xA5).all(), f"{target}: wrote past {n} elements"


@pytest.mark.parametrize("source", DTYPES)
def test_casts_in_place_where_item_sizes_agree(isa, source, rng):
    lib = library("casts", isa)
    for target in DTYPES:
        if np.dtype(storage(target)).itemsize != np.dtype(storage(source)).itemsize:
            continue
        x = sample(source, rng, 2500)
        out = np.zeros(2500, storage(target))
        lib.cast(CODE[target], CODE[source], out, x, x.size)
        lib.cast(CODE[target], CODE[source], x, x, x.size)
        assert x.tobytes() == out.tobytes(), target


def test_every_half_converts_exactly(isa):
    lib = library("casts", isa)
    bits = np.arange(65536, dtype=np.uint16)
    for name in ("float16", "bfloat16"):
        out = np.zeros(65536, np.float32)
        lib.cast(CODE["float32"], CODE[name], out, bits, bits.size)
        want = bits.view(np.float16).astype(np.float32) if name == "float16" else bf16_values(bits)
        assert same(out, want)
        back = np.zeros(65536, np.uint16)
        lib.cast(CODE[name], CODE["float32"], back, out, out.size)
        nan = np.isnan(want)
        assert np.array_equal(back[~nan], bits[~nan])
        quiet = 0x200 if name == "float16" else 0x40
        assert np.array_equal(back[nan], bits[nan] | quiet), "NaN keeps sign and payload, quiet"


def test_float32_to_half_at_every_rounding_boundary(isa):
    lib = library("casts", isa)
    for name, values in (
        ("float16", np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)),
        ("bfloat16", bf16_values(np.arange(0, 0x7F80, dtype=np.uint16)).astype(np.float64)),
    ):
        middle = (values[:-1] + values[1:]) / 2
        near = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
        for dtype in ("float32", "float64"):
            x = np.concatenate([near, -near]).astype(dtype)
            out = np.zeros(x.size, np.uint16)
            lib.cast(CODE[name], CODE[dtype], out, x, x.size)
            want = to_bits(x.astype(np.float64), name)
            assert np.array_equal(out, want.view(np.uint16)), (name, dtype)


def test_round_half_equals_casting_there_and_back(isa, rng):
    lib = library("casts", isa)
    for which, name in enumerate(("float16", "bfloat16")):
        for n in SIZES:
            x = shifted(sample("float32", rng, n), 4)
            half, back = np.zeros(n, np.uint16), np.zeros(n, np.float32)
            lib.cast(CODE[name], CODE["float32"], half, x, n)
            lib.cast(CODE["float32"], CODE[name], back, half, n)
            lib.round_half(which, x, n)
            assert x.tobytes() == back.tobytes()


# ---- moves ----


@pytest.mark.parametrize("log2", range(5))
def test_moves(isa, log2, rng):
    lib = library("moves", isa)
    size = 1 << log2
    for n in [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 200, 1025]:
        for ds in (size, -size, 2 * size, 3 * size, 5 * size + 1, -7 * size):
            for ss in (size, 0, -size, 2 * size, -2 * size, 3 * size, 4 * size, 9 * size + 1, -5 * size):
                source = rng.integers(0, 256, n * 160 + 400, dtype=np.uint8)
                out = rng.integers(0, 256, n * 130 + 400, dtype=np.uint8)
                want = out.copy()
                a = 101 if ss >= 0 else 101 - ss * n
                b = 99 if ds >= 0 else 99 - ds * n
                for i in range(n):
                    want[b + i * ds : b + i * ds + size] = source[a + i * ss : a + i * ss + size]
                lib.move(log2, out[b:], ds, source[a:], ss, n)
                assert np.array_equal(out, want), (n, ds, ss)


def test_move_onto_itself_changes_nothing(isa, rng):
    lib = library("moves", isa)
    x = rng.integers(0, 256, 4096, dtype=np.uint8)
    before = x.copy()
    for log2 in range(5):
        lib.move(log2, x, 1 << log2, x, 1 << log2, 4096 >> log2)
    assert np.array_equal(x, before)


def strided(raw, start, shape, strides, size):
    return np.ndarray((*shape, size), np.uint8, raw, start, (*strides, 1))


@pytest.mark.parametrize("log2", range(5))
def test_moves_in_two_dimensions(isa, log2, rng):
    lib = library("moves", isa)
    size = 1 << log2
    for n0, n1 in (
        (0, 3),
        (1, 1),
        (1, 9),
        (9, 1),
        (3, 5),
        (16, 16),
        (64, 64),
        (65, 130),
        (70, 3),
        (3, 70),
        (33, 90),
    ):
        # strides in items: transposing in both senses, copies, gaps, fills, reversed
        for d0, d1, s0, s1 in (
            (n1, 1, 1, n0), (1, n0, n1, 1), (n1, 1, n1, 1), (n1 + 3, 1, 1, n0 + 2), (1, n0 + 1, n1 + 5, 1),
            (n1, 1, 0, 1), (n1, 1, 1, 0), (n1, 1, 0, 0), (-n1, 1, 1, -n0), (n1, 1, -1, n0), (2, 2 * n0, 3 * n1, 3),
        ):  # fmt: skip
            reach_d, reach_s = abs(d0) * n0 + abs(d1) * n1, abs(s0) * n0 + abs(s1) * n1
            source = rng.integers(0, 256, (2 * reach_s + 3) * size, dtype=np.uint8)
            out = rng.integers(0, 256, (2 * reach_d + 3) * size, dtype=np.uint8)
            a = sum(-s * (n - 1) for s, n in ((s0, n0), (s1, n1)) if s < 0 and n) * size + 1
            b = sum(-d * (n - 1) for d, n in ((d0, n0), (d1, n1)) if d < 0 and n) * size + 1
            want = out.copy()
            strided(want, b, (n0, n1), (d0 * size, d1 * size), size)[...] = strided(
                source, a, (n0, n1), (s0 * size, s1 * size), size
            )
            lib.move2(log2, out[b:], d0 * size, d1 * size, source[a:], s0 * size, s1 * size, n0, n1)
            assert np.array_equal(out, want), (n0, n1, d0, d1, s0, s1)


# ---- reductions ----


def accumulator(lib, op, name):
    return DTYPES[lib.acc_dtype(OPS.index(op), CODE[name])]


def reduce_row(lib, op, x, chunk=10**9, group=1):
    name = x.dtype.name
    out = np.zeros(1, accumulator(lib, op, name))
    lib.row(OPS.index(op), CODE[name], out, x, x.size, x.itemsize, chunk, group)
    return out[0]


def reduce_columns(lib, op, x, cut, at_once):
    name = x.dtype.name
    out = np.zeros(x.shape[1], accumulator(lib, op, name))
    lib.columns(OPS.index(op), CODE[name], out, x, *x.shape, x.itemsize, cut, int(at_once))
    return out


def ops_of(lib, name):
    return [op for k, op in enumerate(OPS) if lib.defined(k, CODE[name])]


def values(name, rng, shape):
    if name == "bool":
        return rng.random(shape) < 0.5
    if name.startswith(("int", "uint")):
        info = np.iinfo(name)
        return rng.integers(info.min, info.max, shape, dtype=name, endpoint=True)
    x = rng.standard_normal(shape)
    if name.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(name)


def numpy_reduce(op, x, axis=None):
    """The reduction in the widest type that NumPy has."""
    wide = {"f": np.longdouble, "c": np.clongdouble}.get(x.dtype.kind)
    if op in ("sumsq", "sumabs"):
        a = np.abs(x.astype(wide))
        return (a * a if op == "sumsq" else a).sum(axis)
    if op in ("sum", "prod"):
        if wide is None:
            wide = np.uint64 if x.dtype.kind == "u" else np.int64
        return getattr(x.astype(wide), op)(axis)
    return getattr(x, op)(axis)


def agree(op, got, want, x, axis=None):
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype.kind not in "fc" or op in ("max", "min"):
        return np.array_equal(got, want, equal_nan=got.dtype.kind in "fc")
    eps = np.finfo(got.dtype).eps
    count = x.size if axis is None else x.shape[axis]
    if op == "prod":
        scale = np.abs(want) * (count + 4) * np.finfo(np.float64).eps
    else:
        a = np.abs(x.astype(np.clongdouble))
        scale = (a * a if op == "sumsq" else a).sum(axis) * 2 * np.finfo(np.float64).eps
    tiny = 2 * np.finfo(got.dtype).smallest_subnormal
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= eps * np.abs(want) + scale + tiny
        return (near | (got == want.astype(got.dtype))).all()


def test_which_reductions_are_defined(isa):
    lib = library("reductions", isa)
    assert lib.state_bytes() == 64
    for name in DTYPES:
        want = set(OPS)
        if name in ("float16", "bfloat16"):
            want = set()
        elif name.startswith("complex"):
            want -= {"max", "min", "argmax", "argmin"}
        elif not name.startswith("float"):
            want -= {"sumsq", "sumabs"}
        assert set(ops_of(lib, name)) == want
        for op in want:
            kind = "u" if name.startswith("uint") else "i"
            wide = name if name.startswith(("float", "complex")) else f"{'u' if kind == 'u' else ''}int64"
            real = {"complex64": "float32", "complex128": "float64"}.get(name, name)
            expected = {"sum": wide, "prod": wide, "max": name, "min": name, "any": "bool", "all": "bool",
                        "argmax": "int64", "argmin": "int64", "sumsq": real, "sumabs": real}  # fmt: skip
            assert accumulator(lib, op, name) == expected[op]


@pytest.mark.parametrize("name", REDUCIBLE)
def test_row_reductions(isa, name, rng):
    lib = library("reductions", isa)
    for op in ops_of(lib, name):
        for n in SIZES[1:]:
            x = shifted(values(name, rng, n), 8)
            if op == "prod" and n > 64 and not name.startswith(("float", "complex")):
                x[:] = np.where(x == 0, 1, x)
            with np.errstate(all="ignore"):
                want = numpy_reduce(op, x)
            for chunk, group in ((10**9, 1), (1024, 1), (7, 3), (100, 2)):
                got = reduce_row(lib, op, x, chunk, group)
                assert agree(op, got, want, x), (op, n, chunk, got, want)


@pytest.mark.parametrize("name", REDUCIBLE)
def test_column_reductions(isa, name, rng):
    lib = library("reductions", isa)
    for op in ops_of(lib, name):
        for rows, n in ((1, 1), (2, 7), (5, 17), (33, 3), (40, 64), (9, 65), (3, 1025)):
            x = shifted(values(name, rng, (rows, n)), 8)
            with np.errstate(all="ignore"):
                want = numpy_reduce(op, x, 0)
            for cut in {0, rows // 2, rows}:
                got = reduce_columns(lib, op, x, cut, False)
                assert agree(op, got, want, x, 0), (op, rows, n, cut)
                assert reduce_columns(lib, op, x, cut, True).tobytes() == got.tobytes()


def test_empty_reductions(isa):
    lib = library("reductions", isa)
    for name in REDUCIBLE:
        x = np.zeros(0, name)
        for op, want in (("sum", 0), ("prod", 1), ("any", False), ("all", True), ("sumsq", 0), ("sumabs", 0)):
            if op in ops_of(lib, name):
                assert reduce_row(lib, op, x) == want
                assert (reduce_columns(lib, op, np.zeros((0, 5), name), 0, True) == want).all()


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_nan_reaches_max_min_and_arg_from_every_place(isa, name, rng):
    lib = library("reductions", isa)
    for n in (1, 2, 31, 32, 33, 64, 65, 127, 1025, 5000):
        for place in sorted({0, 1, n // 2, n - 2, n - 1} & set(range(n))):
            x = values(name, rng, n)
            x[place] = np.nan
            x[min(n - 1, place + 3) :: 7] = np.nan
            first = int(np.argmax(np.isnan(x)))
            for chunk in (10**9, 1000, 13):
                for op in ("max", "min"):
                    assert np.isnan(reduce_row(lib, op, x, chunk, 2))
                    assert reduce_row(lib, "arg" + op, x, chunk, 2) == first
            m = np.stack([x, values(name, rng, n)], 1)
            for op in ("max", "min"):
                got = reduce_columns(lib, op, m, n // 3, True)
                assert np.isnan(got[0]) and got[1] == getattr(m[:, 1], op)()
                assert reduce_columns(lib, "arg" + op, m, n // 3, True)[0] == first


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_zeros_and_infinities_in_max_and_min(isa, name):
    lib = library("reductions", isa)
    for n in (2, 5, 64, 200, 3000):
        for place in (0, n // 2, n - 1):
            x = np.full(n, -0.0, name)
            x[place] = 0.0
            for y, sign_max, sign_min in (
                (x, False, True),
                (-x, False, True),
                (np.full(n, -0.0, name), True, True),
            ):
                for chunk in (10**9, 33):
                    assert np.signbit(reduce_row(lib, "max", y, chunk)) == sign_max
                    assert np.signbit(reduce_row(lib, "min", y, chunk)) == sign_min
                c = np.ascontiguousarray(np.stack([y] * 3, 1))
                assert (np.signbit(reduce_columns(lib, "max", c, n // 2, True)) == sign_max).all()
                assert (np.signbit(reduce_columns(lib, "min", c, n // 2, True)) == sign_min).all()
            assert reduce_row(lib, "argmax", x) == 0, "-0 equals 0: the first wins"
        low = np.full(n, -np.inf, name)
        assert reduce_row(lib, "max", low) == -np.inf and reduce_row(lib, "argmax", low) == 0
        assert reduce_row(lib, "min", -low) == np.inf and reduce_row(lib, "argmin", -low) == 0
        assert (reduce_columns(lib, "argmax", np.stack([low, low], 1), 1, False) == 0).all()


@pytest.mark.parametrize("name", [n for n in REDUCIBLE if not n.startswith("complex")])
def test_arg_reductions_give_the_first_of_equals(isa, name, rng):
    lib = library("reductions", isa)
    for n in (1, 2, 17, 64, 1000, 5001):
        x = rng.integers(0, 2 if n < 100 else 3, n).astype(name)
        for op in ("argmax", "argmin"):
            for chunk, group in ((10**9, 1), (64, 3), (1, 1), (2049, 1)):
                assert reduce_row(lib, op, x, chunk, group) == getattr(x, op)()
    x = rng.integers(0, 2, (40, 9)).astype(name)
    for op in ("argmax", "argmin"):
        for cut in (0, 7, 40):
            assert np.array_equal(reduce_columns(lib, op, x, cut, False), getattr(x, op)(0))


def test_any_and_all_see_nan_and_every_place(isa):
    lib = library("reductions", isa)
    for name in REDUCIBLE:
        for n in (1, 255, 256, 257, 1000):
            x, y = np.zeros(n, name), np.ones(n, name)
            assert not reduce_row(lib, "any", x) and reduce_row(lib, "all", y)
            for place in {0, n // 2, n - 1}:
                x[:], y[:] = 0, 1
                x[place], y[place] = (np.nan if np.dtype(name).kind in "fc" else 1), 0
                assert reduce_row(lib, "any", x, 100, 2) and not reduce_row(lib, "all", y, 100, 2)


def test_integer_sums_wrap_and_widen(isa):
    lib = library("reductions", isa)
    assert reduce_row(lib, "sum", np.full(100_000, 255, np.uint8)) == 25_500_000
    assert reduce_row(lib, "sum", np.full(100_000, -128, np.int8)) == -12_800_000
    assert reduce_row(lib, "sum", np.full(100_000, 65535, np.uint16)) == 6_553_500_000
    assert reduce_row(lib, "sum", np.full(3, 2**31 - 1, np.int32)) == 3 * (2**31 - 1)
    assert reduce_row(lib, "sum", np.array([2**63 - 1, 1], np.int64)) == -(2**63)
    assert reduce_row(lib, "prod", np.full(65, 2, np.int8)) == 0
    assert reduce_row(lib, "sum", np.ones(70_001, bool), 1000, 3) == 70_001


def test_float_sums_stay_accurate(isa, rng):
    lib = library("reductions", isa)
    x = np.full(1_000_000, 0.1, np.float32)
    want = float(np.float32(0.1)) * 1_000_000
    assert reduce_row(lib, "sum", x, 1024, 64) == np.float32(want)
    y = rng.random(1_000_000)
    assert abs(reduce_row(lib, "sum", y, 1024, 64) - math.fsum(y)) <= 4 * np.spacing(math.fsum(y))
    tall = np.ascontiguousarray(np.stack([y[:20_000], -y[:20_000] * 1e8], 1))
    for got, column in zip(reduce_columns(lib, "sum", tall, 7000, True), tall.T):
        assert abs(got - math.fsum(column)) <= np.spacing(abs(math.fsum(column)))


def test_float_sums_keep_infinities(isa):
    lib = library("reductions", isa)
    for name in ("float32", "float64", "complex64", "complex128"):
        x = np.ones(3000, name)
        x[1700] = np.inf
        assert reduce_row(lib, "sum", x, 1000).real == np.inf
        assert reduce_columns(lib, "sum", x.reshape(-1, 1), 5, True)[0].real == np.inf
        x[20] = -np.inf
        assert np.isnan(reduce_row(lib, "sum", x, 1000).real)
        assert reduce_row(lib, "sumabs", x, 1000) == np.inf and reduce_row(lib, "sumsq", x, 1000) == np.inf
    x = np.full(10, 3e38, np.float32)
    assert reduce_row(lib, "sum", x) == np.inf
    assert reduce_row(lib, "sum", np.concatenate([x, -x])) == 0, "float32 sums have room in between"


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_products_neither_overflow_nor_underflow_on_the_way(isa, name, rng):
    lib = library("reductions", isa)
    big, small = (1e30, 1e-30) if name == "float32" else (1e300, 1e-300)
    for n in (10, 300, 2000):
        x = np.concatenate([np.full(n, big), np.full(n, small)]).astype(name)
        want = float(np.prod(x[:n].astype(np.longdouble) * x[n:].astype(np.longdouble)))
        assert abs(reduce_row(lib, "prod", x, 700, 2) / want - 1) < (2e-7 if name == "float32" else 1e-12)
        assert reduce_row(lib, "prod", np.full(n, big, name), 700) == np.inf
        assert reduce_row(lib, "prod", np.full(n, small, name), 700) == 0
        for special, want in ((0.0, 0.0), (np.inf, np.inf), (np.nan, np.nan)):
            y = np.ones(2 * n, name)
            y[n] = special
            assert np.array_equal(reduce_row(lib, "prod", y, 700), want, equal_nan=True)
    assert reduce_row(lib, "prod", np.array([1e-45, 1e45 if name == "float64" else 1e38], name)) > 0
    assert np.signbit(reduce_row(lib, "prod", np.array([-1.0] * 301, name)))


def test_complex_absolute_values(isa):
    lib = library("reductions", isa)
    x = np.array(
        [3e200 + 4e200j, complex(np.inf, np.nan), complex(np.nan, 1), 0, 3e-200 - 4e-200j], np.complex128
    )
    for k, want in enumerate([5e200, np.inf, np.nan, 0.0, 5e-200]):
        got = reduce_row(lib, "sumabs", x[k : k + 1].copy())
        assert np.isclose(got, want, rtol=4e-16, atol=0, equal_nan=True)


def test_same_bits_for_every_instruction_set(rng):
    """Lanes are fixed, so sums and products do not depend on the vector width."""
    libs = []
    for isa in ISAS:
        try:
            libs.append(load("reductions", isa))
        except Missing:
            continue
    for name in REDUCIBLE:
        for op in ops_of(libs[0], name):
            x = values(name, rng, 5001)
            rows = {np.asarray(reduce_row(lib, op, x, 1024, 2)).tobytes() for lib in libs}
            assert len(rows) == 1, (op, name)
            m = values(name, rng, (60, 33))
            assert len({reduce_columns(lib, op, m, 20, True).tobytes() for lib in libs}) == 1, (op, name)
