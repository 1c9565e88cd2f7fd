"""A value written in place, and others that wait for the same memory: one pass, the values of op by op."""

import numpy as np
import pytest

import tensorx as tx

SIZES = [7, 1000, 70000, 300000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_a_later_value_of_the_pass_reads_what_is_overwritten(device, n, dtype):
    if device.startswith("metal") and dtype == "float64":
        pytest.skip("float64 is not on Metal")
    a = (np.arange(n) % 13).astype(dtype)
    b = (np.arange(n) % 7).astype(dtype)
    x, q = tx.asarray(a, device=device), tx.asarray(b, device=device) + 0
    tx.eval(q)
    z = x + q
    y = (q * 2 + x) * x
    del q
    with tx.deferred(True), tx.memory.measure() as m:
        x.copy_(z + 1)
        del z
    np.testing.assert_array_equal(x.to("cpu").numpy(), a + b + 1)
    np.testing.assert_array_equal(y.to("cpu").numpy(), (b * 2 + a) * a)
    del m


@pytest.mark.parametrize("n", SIZES)
def test_two_states_and_a_parameter(device, n):
    """m, v and p of an optimizer: three destinations, no memory, whatever depends on what."""
    rng = np.random.default_rng(n)
    arrays = [rng.random(n).astype("float32") for _ in range(4)]
    p, g, m, v = (tx.asarray(t, device=device) for t in arrays)
    P, G, M, V = arrays
    half, tenth = np.float32(0.5), np.float32(0.1)
    for _ in range(3):
        with tx.deferred(True):
            tx.eval(p, g, m, v)
            with tx.memory.measure() as used:
                v = v * 0.5 + g * g
                d = (m + 0.1) * g + v * p
                m = m * 0.5 + d * d
                step = p - d
                del d
                p.copy_(step)
                del step
        V = V * half + G * G
        D = (M + tenth) * G + V * P
        M = M * half + D * D
        P = P - D
        assert used.bytes == 0
    for got, expected in ((p, P), (m, M), (v, V)):
        np.testing.assert_array_equal(got.to("cpu").numpy(), expected)


def test_a_copy_as_the_root_is_left_alone(device):
    x, q = tx.zeros(1000, device=device), tx.ones(1000, device=device) * 3.0
    tx.eval(q)
    y = q * 2.0
    c = q.copy()
    del q
    x.copy_(c)
    assert x[999].item() == 3 and y[0].item() == 6 and c[5].item() == 3
    x.zero_()
    assert c[5].item() == 3


def test_many_values_that_wait(device):
    """More than one program takes: some are left for later, none is wrong."""
    x, q = tx.ones(500, device=device), tx.ones(500, device=device) * 2.0
    tx.eval(q)
    waiting = []
    for k in range(60):
        waiting.append(q * float(k) + x)
    z = x * 10.0 + q
    del q
    x.copy_(z)
    assert x[0].item() == 12
    assert [w[499].item() for w in waiting] == [2.0 * k + 1 for k in range(60)]


@pytest.mark.parametrize("n", [5, 50000])
def test_what_backward_needs_is_kept_before_its_operand_is_overwritten(device, n):
    p, w = tx.ones(n, device=device), tx.ones(n, device=device).requires_grad_()
    h = p * 2.0
    y = h * w  # keeps h for the gradient of w
    with tx.no_grad():
        after = h + 1.0
        del h
        p.copy_(after)
        del after
    y.sum().backward()
    assert p[0].item() == 3 and w.grad[n - 1].item() == 2
