"""Random numbers against an independent Philox."""

import struct

import numpy as np
import pytest
from metal_tools import NUMPY, from_bf16, to_bf16

from tensorx.metal import random
from tensorx.metal.launch import Array

FAR = 4 * 2**32 - 6  # the block number grows beyond 32 bits on the way
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def floats(*values):
    """Numbers as the kernels take them."""
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]


def philox_words(seed, stream, first, count):
    """Philox4x32-10 in Python integers."""
    out = []
    mask = 2**32 - 1
    for block in range(first // 4, (first + count + 3) // 4):
        c = [block & mask, block >> 32, stream & mask, stream >> 32]
        k = [seed & mask, seed >> 32]
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(q >> 32) ^ c[1] ^ k[0], q & mask, (p >> 32) ^ c[3] ^ k[1], p & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        out += c
    skip = first % 4
    return np.array(out[skip : skip + count], np.uint32)


def test_the_python_philox_is_numpys():
    """An outside witness for the reference itself."""
    expected = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint32)  # known answer, all zeros
    np.testing.assert_array_equal(philox_words(0, 0, 0, 4), expected)


@pytest.mark.parametrize("seed, stream, first, count", [
    (0, 0, 0, 1), (1, 2, 0, 1000), (2**64 - 1, 2**64 - 1, 5, 77), (12345678901234567890, 7, 4 * 2**32 - 6, 40), (3, 0, 3, 2),
])  # fmt: skip
def test_random_bits(gpu, seed, stream, first, count):
    out = gpu.empty((count,), "uint32", pad=1)
    random.random(gpu.inst, out, seed, stream, first, "bits")
    np.testing.assert_array_equal(gpu.get(out), philox_words(seed, stream, first, count))


def test_uniform(gpu):
    n = 5001
    out = gpu.empty((n,), "float32")
    random.random(gpu.inst, out, 11, 3, 2)
    got = gpu.get(out)
    np.testing.assert_array_equal(got, (philox_words(11, 3, 2, n) >> 8).astype(np.float32) * np.float32(2**-24))
    assert got.min() >= 0 and got.max() < 1 and abs(got.mean() - 0.5) < 0.02


@pytest.mark.parametrize("dtype, bits", [("float16", 11), ("bfloat16", 8)])
def test_uniform_halves_stay_below_one(gpu, dtype, bits):
    n = 4000
    out = gpu.empty((n,), dtype)
    random.random(gpu.inst, out, 5, 0)
    got = gpu.get(out)
    got = from_bf16(got) if dtype == "bfloat16" else got.astype(np.float32)
    np.testing.assert_array_equal(got, (philox_words(5, 0, 0, n) >> (32 - bits)).astype(np.float32) * np.float32(2.0**-bits))
    assert got.max() < 1


def test_pieces_make_the_whole(gpu):
    whole = gpu.empty((100,), "uint32")
    random.random(gpu.inst, whole, 9, 9, 0, "bits")
    for start, stop in ((0, 33), (33, 34), (34, 100)):
        part = gpu.empty((stop - start,), "uint32")
        random.random(gpu.inst, part, 9, 9, start, "bits")
        np.testing.assert_array_equal(gpu.get(part), gpu.get(whole)[start:stop])


# ---- every kind, from the words ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_of_every_width(gpu, dtype):
    n = 37
    out = gpu.empty((n,), dtype, pad=1)
    random.random(gpu.inst, out, 3, 4, FAR, "bits")
    if dtype.endswith("64"):
        w = philox_words(3, 4, FAR, 2 * n).astype(np.uint64)
        expected = w[::2] | w[1::2] << np.uint64(32)
    else:
        expected = philox_words(3, 4, FAR, n)
    np.testing.assert_array_equal(gpu.get(out), expected.astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("first, n", [(0, 1), (1, 33), (2, 34), (FAR, 35), (2**63 + 3, 36)])
def test_integers(gpu, dtype, first, n):
    limits = np.iinfo(dtype)
    spans = [1, 3, 100, int(limits.max), int(limits.max) - int(limits.min) + 1]
    for low, span in [(0, 1), *((int(limits.min), span) for span in spans)]:
        out = gpu.empty((n,), dtype, pad=1)
        random.random(gpu.inst, out, 3, 2**64 - 1, first, "integers", (low, span % 2**64))
        many = 2 if span <= 2**32 else 4
        w = [int(v) for v in philox_words(3, 2**64 - 1, first, many * n)]
        fractions = [sum(w[k + j] << 32 * j for j in range(many)) for k in range(0, many * n, many)]
        expected = [low + (f * span >> 32 * many) for f in fractions]
        assert gpu.get(out).tolist() == expected, (low, span)


@pytest.mark.parametrize("dtype, one", [("bool", 1), ("int8", 255), ("float16", 0x3E00), ("bfloat16", 0x3FC0), ("float32", 0x3FC00000),
                                        ("int64", 2**64 - 1), ("complex64", 0x3F80000040000000)])  # fmt: skip
def test_bernoulli(gpu, dtype, one):
    n = 1001
    words = philox_words(1, 2, 5, n) >> 8
    for many in (0, 1, 2**22, int(words[7]), int(words[7]) + 1, 2**24):
        out = gpu.empty((n,), dtype, pad=1)
        random.random(gpu.inst, out, 1, 2, 5, "bernoulli", (many, one))
        item = np.dtype(NUMPY.get(dtype, dtype)).itemsize
        got = gpu.get(out).view(f"u{item}")
        np.testing.assert_array_equal(got, np.where(words < many, np.uint64(one), np.uint64(0)).astype(f"u{item}"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_uniform_between_bounds(gpu, dtype):
    n = 1003
    keep = {"float32": 0xFFFFFF00, "float16": 0xFFE00000, "bfloat16": 0xFF000000}[dtype]
    u = (philox_words(5, 0, 3, n) & np.uint32(keep)).astype(np.float32) * np.float32(2**-32)
    for a, b, top in ((-1.0, 3.0, 1.9), (0.1, 0.0, float("inf")), (1e30, 1e37, 3e36)):
        if dtype == "float16" and a > 1e4:
            continue
        out = gpu.empty((n,), dtype)
        random.random(gpu.inst, out, 5, 0, 3, "uniform", floats(a, b, top))
        expected = np.minimum(u * np.float32(b) + np.float32(a), np.float32(top))
        got = gpu.get(out)
        np.testing.assert_array_equal(got, to_bf16(expected) if dtype == "bfloat16" else expected.astype(dtype))


def inverse_reference(kind, u, e):
    """From u in (0, 1], in float64."""
    tiny = 2.0**-25  # a quarter of float32's epsilon
    with np.errstate(divide="ignore"):
        return {
            "exponential": lambda: -np.log(u),
            "laplace": lambda: np.sign(u - 0.5) * -np.log(np.maximum(1 - 2 * np.abs(u - 0.5), 2.0**-126)),
            "logistic": lambda: np.log(u) - np.log(np.maximum(1 - u, tiny)),
            "cauchy": lambda: np.tan(np.float64((u - 0.5).astype(np.float32) * np.float32(np.pi))),
            "gumbel": lambda: -np.log(np.maximum(-np.log(u), tiny)),
            "weibull": lambda: (-np.log(u)) ** e,
        }[kind]()


@pytest.mark.parametrize("dtype, rtol", [("float32", 2e-6), ("float16", 2e-3), ("bfloat16", 1.6e-2)])
@pytest.mark.parametrize("kind", ["normal", "lognormal", "exponential", "laplace", "logistic", "cauchy", "gumbel", "weibull"])
def test_real_numbers_from_the_same_words(gpu, kind, dtype, rtol):
    n, first = 777, 4 * 2**40
    words = philox_words(7, 8, first, n + 1).astype(np.float64)
    for a, b, e in ((0.0, 1.0, 1.0), (-0.5, 2.0, 0.7)):
        if kind in ("normal", "lognormal"):
            r = np.sqrt(-2 * np.log((np.floor(words[::2] / 2) + 0.5) * 2.0**-31))
            angle = 2 * np.pi * np.floor(words[1::2] / 256) * 2.0**-24
            x = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1).reshape(-1)[:n]
        else:
            x = inverse_reference(kind, 1 - np.floor(words[:n] / 256) * 2.0**-24, e)
        expected = x * b + a
        if kind == "lognormal":  # of a normal number that is rounded to the dtype
            z = expected.astype(np.float32)
            expected = np.exp((from_bf16(to_bf16(z)) if dtype == "bfloat16" else z.astype(dtype)).astype(np.float64))
        out = gpu.empty((n,), dtype, pad=1)
        random.random(gpu.inst, out, 7, 8, first, kind, floats(a, b, e))
        got = gpu.get(out)
        got = (from_bf16(got) if dtype == "bfloat16" else got).astype(np.float64)
        # a rounding of a normal number's angle or exponent shows in the result
        near = 2e-5 if "normal" in kind else 2e-6
        np.testing.assert_allclose(got, expected, rtol=2 * rtol + near if kind == "lognormal" else rtol, atol=near)


# ---- where to --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, dtype", [("bits", "uint8"), ("integers", "int64"), ("normal", "float32"), ("gumbel", "float16")])
@pytest.mark.parametrize("shape, strides, offset", [
    ((5, 7), (1, 5), 3), ((4, 3, 5), (60, 20, 4), 2), ((9,), (-2,), 20), ((3, 1, 4), (1, 999, 3), 0), ((2, 3), (3, 1), 5), ((1,), (7,), 1), ((), (), 4),
])  # fmt: skip
def test_strided_destinations(gpu, kind, dtype, shape, strides, offset):
    numbers = (5, 2**33) if kind == "integers" else floats(1.0, 2.0, 3.0)
    count = int(np.prod(shape, dtype=np.int64))
    whole = gpu.empty((count,), dtype)
    random.random(gpu.inst, whole, 9, 1, 2, kind, numbers)
    base = gpu.put(np.full(260, 77, dtype))
    random.random(gpu.inst, Array(base.buffer, dtype, shape, strides, offset), 9, 1, 2, kind, numbers)
    expected = np.full(260, 77, dtype)
    view = np.lib.stride_tricks.as_strided(expected[offset:], shape, [s * expected.itemsize for s in strides])
    view[...] = gpu.get(whole).reshape(shape)
    np.testing.assert_array_equal(gpu.get(base), expected)


@pytest.mark.parametrize("kind, dtype", [("bits", "uint32"), ("integers", "int64"), ("lognormal", "float32")])
def test_few_threads_and_wide_offsets(gpu, monkeypatch, kind, dtype):
    """What large tensors need, on small ones: threads that go round more than once, and offsets of 64 bits."""
    numbers = (5, 2**33) if kind == "integers" else floats(1.0, 0.5, 3.0)
    expected = gpu.empty((55,), dtype)
    random.random(gpu.inst, expected, 9, 1, FAR, kind, numbers)
    monkeypatch.setattr(random, "thread_count", lambda count: min(count, 3))
    monkeypatch.setattr(random, "MAX_32", 10)
    for shape, strides in (((55,), (1,)), ((5, 11), (1, 5))):
        out = gpu.empty((55,), dtype)._replace(shape=shape, strides=strides)
        random.random(gpu.inst, out, 9, 1, FAR, kind, numbers)
        np.testing.assert_array_equal(gpu.get(out), gpu.get(expected).reshape(shape))


def test_nothing_to_make_is_no_dispatch(gpu):
    out = gpu.empty((0, 3), "float32")
    before = gpu.inst.stats()["dispatches"]
    assert random.random(gpu.inst, out, 1, 1, 0, "normal") == 0
    assert gpu.inst.stats()["dispatches"] == before


def test_numbers_are_arguments(gpu):
    """Another seed, offset, size or parameter compiles nothing."""
    cases = (("uniform", "float32", [floats(0.0, 1.0, 1.0), floats(-3.0, 5.0, 1.9)]), ("normal", "float16", [floats(0.0, 1.0, 0.0), floats(2.0, 3.0, 0.0)]),
             ("integers", "int32", [(0, 7), (2**64 - 5, 2**32)]), ("bernoulli", "float32", [(7, 1), (8, 2)]))  # fmt: skip
    for round_ in range(2):
        before = gpu.inst.stats()["compiled"]
        for kind, dtype, numbers in cases:
            out = gpu.empty((100 + 9 * round_,), dtype)
            random.random(gpu.inst, out, round_, 7 * round_, 4 + round_, kind, numbers[round_])
    assert gpu.inst.stats()["compiled"] == before


def test_kinds_and_dtypes_that_do_not_go_together(gpu):
    for kind, dtype in (("bits", "float32"), ("integers", "bool"), ("normal", "int32"), ("exponential", "complex64"), ("gamma", "float32")):
        assert not random.has(kind, dtype)
        with pytest.raises(ValueError, match=f"random {kind} of {dtype}"):
            random.random(gpu.inst, gpu.empty((3,), dtype), 1, 1, 0, kind)
