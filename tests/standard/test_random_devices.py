"""tensorx.random on other devices: the numbers and generator states of the CPU, by one kernel where one pass makes them."""

import numpy as np
import pytest

import tensorx as tx
from tensorx import random
from tensorx.nn import functional as F
from tensorx.nn import init

FLOATS = (tx.float32, tx.float16, tx.bfloat16)
INTEGERS = (tx.int8, tx.int16, tx.int32, tx.int64, tx.uint8, tx.uint16, tx.uint32, tx.uint64)


def array(x):
    x = x.detach().to("cpu")
    return np.asarray(x.astype(tx.float32) if x.dtype is tx.bfloat16 else x)


def at(position, seed=11, stream=3):
    g = random.Generator(0)
    g.set_state({"seed": seed, "stream": stream, "position": position})
    return g


# name: the call, first and other parameters, dtypes, relative tolerance of float32 (None: to the bit)
KINDS = {
    "bits": (random.bits, [(), ()], INTEGERS, None),
    "integers": (random.integers, [(0, 7), (5, 100)], INTEGERS, None),
    "wide integers": (random.integers, [(-(2**63), 2**63), (-5, 2**40)], (tx.int64,), None),
    "whole integers": (random.integers, [(0, 2**32), (0, 2**32 - 1)], (tx.uint32, tx.int64), None),
    "bernoulli": (random.bernoulli, [(0.3,), (1e-9,)], (tx.bool, tx.int16, tx.complex64, *FLOATS), None),
    "dropout_mask": (lambda p, n, **how: random.dropout_mask(n, p, **how), [(0.25,), (1.0,)], FLOATS, None),
    "uniform": (random.uniform, [(0.0, 1.0), (-3.0, 0.1)], FLOATS, None),
    "normal": (random.normal, [(0.0, 1.0), (5.0, 0.1)], FLOATS, 2e-6),
    "lognormal": (random.lognormal, [(0.0, 1.0), (0.5, 0.1)], FLOATS, 4e-6),
    "exponential": (random.exponential, [(1.0,), (2.5,)], FLOATS, 2e-6),
    "laplace": (random.laplace, [(0.0, 1.0), (0.5, 2.0)], FLOATS, 2e-6),
    "logistic": (random.logistic, [(0.0, 1.0), (0.5, 2.0)], FLOATS, 2e-6),
    "cauchy": (random.cauchy, [(0.0, 1.0), (0.5, 2.0)], FLOATS, 2e-6),
    "gumbel": (random.gumbel, [(0.0, 1.0), (0.5, 2.0)], FLOATS, 2e-6),
    "weibull": (random.weibull, [(1.5, 1.0), (2.0, 3.0)], FLOATS, 2e-6),
}


def close(got, expected, tolerance, dtype):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if tolerance is None:
        np.testing.assert_array_equal(got, expected)
        return
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
    rtol = {"float32": tolerance, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype.name]
    np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=tolerance)


@pytest.mark.parametrize("name", KINDS)
def test_values_and_states_are_those_of_the_cpu(device, name):
    make, parameters, kinds, tolerance = KINDS[name]
    for dtype in kinds:
        for values, shape, position in ((parameters[0], (0, 3), 8), (parameters[1], (1,), 0), (parameters[0], (7, 143), 12),
                                        (parameters[1], (13,), 4 * 2**32 - 8)):  # fmt: skip
            there, here = at(position), at(position)
            got = make(*values, shape, dtype=dtype, device=device, generator=there)
            assert got.device is tx.device(device) and got.dtype is dtype
            close(array(got), array(make(*values, shape, dtype=dtype, device="cpu", generator=here)), tolerance, dtype)
            assert there.get_state() == here.get_state()


@pytest.mark.parametrize("edge, position", [(0.0, 28041216), (1 - 2.0**-24, 3219340), (0.5, 6592744)])
def test_the_ends_of_the_uniform(device, edge, position):
    """Where logarithms and tangents have their poles and zeros, the sign of zero included."""
    assert edge in random.uniform(0.0, 1.0, 4, generator=at(position)).tolist()
    for make, parameters, kinds, tolerance in KINDS.values():
        for values in parameters:
            got, expected = (array(make(*values, 4, dtype=kinds[0], device=place, generator=at(position))) for place in (device, "cpu"))
            close(got, expected, tolerance, kinds[0])


def test_parameters_that_are_tensors(device):
    """The kernel makes the standard distribution; what follows is a program, and differentiable."""
    loc, scale = np.array([[0.5], [-2.0]], np.float32), np.array([1.0, 2.0, 3.0], np.float32)
    for make in (random.uniform, random.normal, random.laplace, random.logistic, random.gumbel, random.cauchy, random.lognormal):
        found = []
        for place in ("cpu", device):
            a, b = (tx.asarray(v, device=place).requires_grad_() for v in (loc, scale))
            x = make(a, b, generator=at(4))
            x.sum().backward()
            found.append([array(v) for v in (x, a.grad, b.grad)])
        for one, other in zip(*found):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)
    for make in (random.exponential, lambda s, **how: random.weibull(s, s, **how), lambda s, **how: random.bernoulli(s / 4.0, **how)):
        one, other = (array(make(tx.asarray(scale, device=place), generator=at(4))) for place in ("cpu", device))
        np.testing.assert_allclose(one, other, rtol=2e-6)


def test_a_mix_of_devices_goes_on_the_same(device):
    here, there = random.Generator(5), random.Generator(5)
    for k, (make, parameters, kinds, tolerance) in enumerate(KINDS.values()):
        expected = make(*parameters[0], (3, 5), dtype=kinds[0], device="cpu", generator=here)
        got = make(*parameters[0], (3, 5), dtype=kinds[0], device=("cpu", device)[k % 2], generator=there)
        close(array(got), array(expected), tolerance, kinds[0])
    for make in (random.gamma, random.poisson, random.permutation, random.chisquare):
        np.testing.assert_array_equal(array(make(4.0 if make is not random.permutation else 9, generator=there, device=device)),
                                      array(make(4.0 if make is not random.permutation else 9, generator=here)))  # fmt: skip
    assert here.get_state() == there.get_state()


def test_choice_and_categories(device):
    a = np.arange(24, dtype=np.float32).reshape(6, 4)
    for options in ({}, {"replace": False}, {"p": [0.1, 0.2, 0.3, 0.4]}, {"p": [0.1, 0.2, 0.3, 0.4], "replace": False}):
        found = []
        for place in ("cpu", device):
            with tx.device(place):
                x = random.choice(tx.asarray(a), 3, axis=1, generator=at(0), **options)
                y = random.choice(4, (3,), generator=at(4), **options)
            assert x.device is y.device is tx.device(place)
            found.append((x.tolist(), y.tolist()))
        assert found[0] == found[1]
    logits = np.array([[0.0, 2.0, 1.0], [1.0, -1.0, 0.5]], np.float32)
    one, other = (random.categorical(tx.asarray(logits, device=place), (50, 2), generator=at(0)).tolist() for place in ("cpu", device))
    assert one == other


# ---- in place ------------------------------------------------------------------------------------------------


IN_PLACE = {
    "uniform_": [(0.0, 1.0), (-1.0, 2.0)], "normal_": [(0.0, 1.0), (3.0, 2.0)], "bernoulli_": [(0.5,), (0.1,)], "exponential_": [(1.0,), (2.0,)],
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_into_any_layout(device, name):
    views = (lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[1], lambda x: tx.flip(x, axis=1)[3:], lambda x: x[2:2], lambda x: x[4, 4])
    for view in views:
        x, expected = tx.full((6, 9), 7.0, device=device), np.full((6, 9), 7.0, np.float32)
        there, here = at(8), at(8)
        part = view(x)
        assert getattr(part, name)(*IN_PLACE[name][1], generator=there) is part
        dense = tx.zeros(part.shape)
        getattr(dense, name)(*IN_PLACE[name][1], generator=here)
        plain = tx.full((6, 9), 7.0)
        if tx.shares_storage(part, x):
            view(plain).copy_(dense)
            expected = array(plain)
        np.testing.assert_allclose(array(part), array(dense), rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(array(x), expected, rtol=2e-6, atol=2e-6)
        assert there.get_state() == here.get_state()


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_after_and_before_others(device, name):
    """Readers that are still pending see the old values; pending values are replaced; exported memory shows the new ones."""
    x = tx.zeros(300, device=device)
    before = x + 1.0
    alias = x.alias()
    seen = np.asarray(x)
    version = x.version
    getattr(x, name)(generator=at(0))
    expected = getattr(tx.zeros(300), name)(generator=at(0))
    np.testing.assert_allclose(seen, array(expected), rtol=2e-6, atol=2e-6)
    assert before.min().item() == before.max().item() == 1.0 and x.version > version
    np.testing.assert_array_equal(array(alias), seen)
    pending = tx.ones(300, device=device) * 3.0
    getattr(pending, name)(generator=at(0))
    np.testing.assert_array_equal(array(pending), seen)


def test_a_refused_write_leaves_the_generator(device):
    g = at(8)
    for x in (tx.broadcast_to(tx.zeros(3, device=device), (2, 3)), tx.zeros(8, device=device).unfold(0, 4, 1)):
        for name in IN_PLACE:
            state = g.get_state()
            with pytest.raises(tx.InplaceError, match=name):
                getattr(x, name)(generator=g)
            assert g.get_state() == state


# ---- what is above --------------------------------------------------------------------------------------------


def test_dropout_uses_the_mask_of_the_cpu_twice(device):
    """Backward makes the same mask again."""
    found = []
    for place in ("cpu", device):
        tx.manual_seed(9)
        x = tx.ones((40, 33), device=place).requires_grad_()
        y = F.dropout(x, 0.4)
        y.sum().backward()
        found.append((array(y), array(x.grad)))
        np.testing.assert_array_equal(*found[-1])
    np.testing.assert_array_equal(found[0][0], found[1][0])


@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_",
                                  "orthogonal_", "sparse_"])  # fmt: skip
def test_starting_values(device, name):
    """Read or not: the values of a parameter do not depend on the device."""
    more = (0.3,) if name == "sparse_" else ()
    found = []
    for w in (tx.empty((8, 20)), tx.empty((8, 20), device=device), init.new_parameter((8, 20), device), tx.empty((20, 8), device=device).T):
        tx.manual_seed(1)
        getattr(init, name)(w, *more)
        found.append(array(w))
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-5, atol=2e-6)


# ---- what it costs on Metal -----------------------------------------------------------------------------------------


def counted(work):
    """What one call adds to the counters."""
    before = tx.metal.stats()
    tx.eval(work())
    after = tx.metal.stats()
    host = {op: n - before["host_ops"].get(op, 0) for op, n in after["host_ops"].items() if n != before["host_ops"].get(op, 0)}
    return after["dispatches"] - before["dispatches"], after["waits"] - before["waits"], after["compiled"] - before["compiled"], host


@pytest.mark.metal
@pytest.mark.parametrize("name", KINDS)
def test_one_dispatch_and_nothing_else_waits_for_nothing(name):
    make, parameters, kinds, _ = KINDS[name]
    for dtype in kinds:
        make(*parameters[0], (5,), dtype=dtype, device="metal", generator=at(0))
        with tx.memory.measure() as m:
            cost = counted(lambda: make(*parameters[1], (9, 11), dtype=dtype, device="metal", generator=at(8, 5, 6)))
        assert cost == (1, 0, 0, {}), dtype
        assert m.bytes == 99 * dtype.itemsize, dtype


@pytest.mark.metal
@pytest.mark.parametrize("name", IN_PLACE)
def test_one_dispatch_in_place_waits_for_nothing(name):
    for view in (lambda x: x, lambda x: x[:, 1:]):
        x = view(tx.zeros((6, 9), device="metal"))
        getattr(x, name)(*IN_PLACE[name][0])
        y = view(tx.zeros((7, 5), device="metal"))
        tx.eval(y)
        with tx.memory.measure() as m:
            cost = counted(lambda: getattr(y, name)(*IN_PLACE[name][1]))
        assert cost == (1, 0, 0, {}) and m.bytes == 0


@pytest.mark.metal
def test_one_dispatch_in_the_layers_waits_for_nothing():
    x = tx.ones((7, 8), device="metal")
    tx.eval(x)
    for make, most in ((lambda: F.dropout(x, 0.5), 2), (lambda: F.alpha_dropout(x, 0.5, training=True), 2), (lambda: random.categorical(x), 2),
                       (lambda: random.choice(x, 4), 2), (lambda: random.choice(9, 4), 1), (lambda: init.kaiming_normal_(x), 1),
                       (lambda: init.xavier_uniform_(x), 1), (lambda: init.trunc_normal_(x), 2)):  # fmt: skip
        with tx.deferred(True):  # mask and product are two, what alpha_dropout adds is fused
            tx.eval(make())
            dispatches, waits, compiled, host = counted(make)
        assert dispatches <= most and (waits, compiled, host) == (0, 0, {}), make


@pytest.mark.metal
@pytest.mark.parametrize("name, make", [
    ("gamma", lambda: random.gamma(2.0, shape=9)), ("gamma", lambda: random.chisquare(2.0, 9)), ("gamma", lambda: random.standard_t(3.0, 9)),
    ("beta", lambda: random.beta(2.0, 3.0, 9)), ("dirichlet", lambda: random.dirichlet([1.0, 2.0], 9)), ("poisson", lambda: random.poisson(3.0, 9)),
    ("binomial", lambda: random.binomial(9, 0.5, 9)), ("geometric", lambda: random.geometric(0.5, 9)),
    ("truncated_normal", lambda: random.truncated_normal(-1.0, 1.0, 9)), ("permutation", lambda: random.permutation(9)),
    ("permutation", lambda: random.permutation(tx.ones((3, 2)))), ("permutation", lambda: random.randperm(9)),
    ("permutation", lambda: random.shuffle(tx.ones(4))), ("permutation", lambda: random.choice(9, 4, replace=False)),
    ("choice", lambda: random.choice(2, 4, p=[0.5, 0.5])), ("multinomial", lambda: random.multinomial(tx.ones(4), 2)),
    ("orthogonal_", lambda: init.orthogonal_(tx.empty((3, 4)))), ("sparse_", lambda: init.sparse_(tx.empty((3, 4)), 0.5)),
])  # fmt: skip
def test_what_the_cpu_makes_is_counted(name, make):
    with tx.device("metal"):
        tx.eval(make())
        *_, compiled, host = counted(make)
    assert host == {name: 1} and compiled == 0
