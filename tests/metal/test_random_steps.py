"""Random numbers against an independent Philox, optimizer steps against formulas in double."""

import numpy as np
import pytest
from metal_tools import from_bf16, to_bf16

from tensorx.metal import steps


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
    steps.random(gpu.inst, out, seed, stream, first, "bits")
    np.testing.assert_array_equal(gpu.get(out), philox_words(seed, stream, first, count))


def test_uniform(gpu):
    n = 5001
    out = gpu.empty((n,), "float32")
    steps.random(gpu.inst, out, 11, 3, 2)
    got = gpu.get(out)
    np.testing.assert_array_equal(got, (philox_words(11, 3, 2, n) >> 8).astype(np.float32) * np.float32(2**-24))
    assert got.min() >= 0 and got.max() < 1 and abs(got.mean() - 0.5) < 0.02


@pytest.mark.parametrize("dtype, bits", [("float16", 11), ("bfloat16", 8)])
def test_uniform_halves_stay_below_one(gpu, dtype, bits):
    n = 4000
    out = gpu.empty((n,), dtype)
    steps.random(gpu.inst, out, 5, 0)
    got = gpu.get(out)
    got = from_bf16(got) if dtype == "bfloat16" else got.astype(np.float32)
    np.testing.assert_array_equal(got, (philox_words(5, 0, 0, n) >> (32 - bits)).astype(np.float32) * np.float32(2.0**-bits))
    assert got.max() < 1


def test_pieces_make_the_whole(gpu):
    whole = gpu.empty((100,), "uint32")
    steps.random(gpu.inst, whole, 9, 9, 0, "bits")
    for start, stop in ((0, 33), (33, 34), (34, 100)):
        part = gpu.empty((stop - start,), "uint32")
        steps.random(gpu.inst, part, 9, 9, start, "bits")
        np.testing.assert_array_equal(gpu.get(part), gpu.get(whole)[start:stop])


# ---- optimizers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("momentum, dampening, decay, nesterov, maximize", [
    (0, 0, 0, False, False), (0.9, 0, 0, False, False), (0.9, 0, 0.1, True, False), (0.8, 0.3, 0.01, False, True),
])  # fmt: skip
def test_sgd(gpu, momentum, dampening, decay, nesterov, maximize):
    rng = np.random.default_rng(0)
    p = rng.normal(size=1000)
    param, velocity = gpu.put(p.astype(np.float32), pad=1), gpu.empty((1000,), "float32", pad=2)
    v = None
    for k in range(4):
        g = rng.normal(size=1000).astype(np.float32)
        steps.sgd(gpu.inst, param, gpu.put(g), velocity if momentum else None, lr=0.1 / (k + 1), momentum=momentum,
                  dampening=dampening, weight_decay=decay, nesterov=nesterov, first_step=k == 0, maximize=maximize)  # fmt: skip
        d = (-g if maximize else g) + decay * p
        if momentum:
            v = d if v is None else momentum * v + (1 - dampening) * d
            d = d + momentum * v if nesterov else v
        p = p - 0.1 / (k + 1) * d
    np.testing.assert_allclose(gpu.get(param), p, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decay, decoupled, amsgrad, maximize", [
    (0, False, False, False), (0.1, False, False, False), (0.1, True, False, False), (0.05, True, True, True),
])  # fmt: skip
def test_adam(gpu, decay, decoupled, amsgrad, maximize):
    rng = np.random.default_rng(1)
    p = rng.normal(size=700)
    param = gpu.put(p.astype(np.float32))
    state = [gpu.put(np.zeros(700, np.float32)) for _ in range(3)]
    m, v, top = np.zeros(700), np.zeros(700), np.zeros(700)
    for t in range(1, 6):
        g = rng.normal(size=700).astype(np.float32)
        steps.adam(gpu.inst, param, gpu.put(g), state[0], state[1], state[2] if amsgrad else None, step=t, lr=0.01 * t,
                   weight_decay=decay, decoupled=decoupled, maximize=maximize)  # fmt: skip
        lr, d = 0.01 * t, (-g if maximize else g).astype(float)
        if decoupled:
            p = p - lr * decay * p
        else:
            d = d + decay * p
        m, v = 0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d
        top = np.maximum(top, v)
        used = top if amsgrad else v
        p = p - lr / (1 - 0.9**t) * m / (np.sqrt(used) / np.sqrt(1 - 0.999**t) + 1e-8)
    np.testing.assert_allclose(gpu.get(param), p, rtol=2e-5, atol=2e-5)


def test_adam_of_half_parameters(gpu):
    rng = np.random.default_rng(2)
    x, g = rng.normal(size=64).astype(np.float32), rng.normal(size=64).astype(np.float32)
    param, grad = gpu.put(to_bf16(x), "bfloat16"), gpu.put(to_bf16(g), "bfloat16")
    first, second = gpu.put(np.zeros(64, np.float32)), gpu.put(np.zeros(64, np.float32))
    steps.adam(gpu.inst, param, grad, first, second, step=1, lr=0.1)
    expected = from_bf16(to_bf16(x)) - 0.1 * np.sign(from_bf16(to_bf16(g)))
    np.testing.assert_allclose(from_bf16(gpu.get(param)), expected, rtol=1e-2, atol=1e-2)


def test_m11_a_new_learning_rate_compiles_nothing(gpu):
    param, grad = gpu.put(np.ones(50, np.float32)), gpu.put(np.ones(50, np.float32))
    steps.sgd(gpu.inst, param, grad, None, lr=0.1)
    compiled = gpu.inst.stats()["compiled"]
    for k in range(6):
        steps.sgd(gpu.inst, param, grad, None, lr=0.1 / (k + 2))
    small = param._replace(shape=(20,))
    steps.sgd(gpu.inst, small, grad._replace(shape=(20,)), None, lr=1.0)
    assert gpu.inst.stats()["compiled"] == compiled
