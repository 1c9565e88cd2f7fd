"""Random numbers against an independent Philox."""

import numpy as np
import pytest
from metal_tools import from_bf16

from tensorx.metal import random


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
