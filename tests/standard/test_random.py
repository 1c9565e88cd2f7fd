"""tensorx.random: the stream, statistics of every distribution, threads, splitting, forks, errors."""

import copy
import math
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorx as tx
from tensorx import random

EXAMPLES = settings(max_examples=int(os.environ.get("TENSORX_EXAMPLES", "20")), deadline=None)
N = 40_000


def philox(seed, stream, first, count):
    """Words of Philox4x32-10 in Python integers."""
    out, mask = [], 2**32 - 1
    for block in range(first // 4, (first + count + 3) // 4):
        c = [block & mask, block >> 32, stream & mask, stream >> 32]
        k = [seed & mask, seed >> 32]
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(q >> 32) ^ c[1] ^ k[0], q & mask, (p >> 32) ^ c[3] ^ k[1], p & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        out += c
    return np.array(out[first % 4 : first % 4 + count], np.uint32)


def at(seed, stream=0, position=0):
    g = random.Generator(0)
    g.set_state({"seed": seed, "stream": stream, "position": position})
    return g


def array(x):
    return np.asarray(x.to("cpu"))


# ---- the stream ------------------------------------------------------------------------------------


def test_known_answer():
    """From the authors' test vectors: counter and key zero."""
    assert random.bits(4, generator=at(0)).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@EXAMPLES
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**60) | st.integers(2**32 - 40, 2**32 + 4), st.integers(0, 300))
def test_bits_are_philox(seed, stream, block, count):
    np.testing.assert_array_equal(array(random.bits(count, generator=at(seed, stream, 4 * block))), philox(seed, stream, 4 * block, count))


def test_uniform_bits_are_the_same_on_every_device(device):
    words = philox(11, 3, 8, 5001)
    got = array(random.uniform(0.0, 1.0, 5001, device=device, generator=at(11, 3, 8)))
    np.testing.assert_array_equal(got, (words >> 8).astype(np.float32) * np.float32(2**-24))
    half = random.uniform(0.0, 1.0, 5001, dtype=tx.float16, device=device, generator=at(11, 3, 8))
    np.testing.assert_array_equal(array(half).astype(np.float32), (words >> 21).astype(np.float32) * np.float32(2**-11))
    brain = random.uniform(0.0, 1.0, 5001, dtype=tx.bfloat16, device=device, generator=at(11, 3, 8)).astype(tx.float32)
    np.testing.assert_array_equal(array(brain), (words >> 24).astype(np.float32) * np.float32(2**-8))


def test_uniform_ranges_are_the_same_on_every_device(device):
    for low, high in ((-1.0, 2.0), (0.0, 3.0), (5.0, 5.0), (0.0, 1.0)):
        expected = array(random.uniform(low, high, 5001, device="cpu", generator=at(11, 3, 8)))
        np.testing.assert_array_equal(array(random.uniform(low, high, 5001, device=device, generator=at(11, 3, 8))), expected)
        x = tx.zeros(5001, device=device)
        y = x + 1.0
        np.testing.assert_array_equal(array(x.uniform_(low, high, generator=at(11, 3, 8))), expected)
        assert bool(tx.all(y == 1.0))
    for dtype in (tx.int32, tx.uint32, tx.int8, tx.uint64):
        expected = array(random.bits(1001, dtype=dtype, device="cpu", generator=at(1)))
        np.testing.assert_array_equal(array(random.bits(1001, dtype=dtype, device=device, generator=at(1))), expected)


def test_float64_uniform_has_53_bits():
    words = philox(5, 0, 0, 200).astype(np.uint64)
    expected = ((words[::2] | words[1::2] << np.uint64(32)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    np.testing.assert_array_equal(array(random.uniform(0.0, 1.0, 100, dtype=tx.float64, generator=at(5))), expected)


def test_normal_from_the_same_words():
    w = philox(9, 0, 0, 1000).astype(np.float64)
    r = np.sqrt(-2 * np.log((np.floor(w[::2] / 2) + 0.5) * 2.0**-31))
    angle = 2 * np.pi * np.floor(w[1::2] / 256) * 2.0**-24
    expected = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1).reshape(-1)
    np.testing.assert_allclose(array(random.normal(0.0, 1.0, 1000, generator=at(9))), expected, atol=2e-5)


DRAWS = {
    "bits": lambda g, n: g.bits(n),
    "uniform": lambda g, n: g.uniform(-1.0, 2.0, n),
    "uniform64": lambda g, n: g.uniform(-1.0, 2.0, n, dtype=tx.float64),
    "normal": lambda g, n: g.normal(1.0, 2.0, n),
    "normal64": lambda g, n: g.normal(1.0, 2.0, n, dtype=tx.float64),
    "half": lambda g, n: g.normal(0.0, 1.0, n, dtype=tx.float16),
    "integers": lambda g, n: g.integers(-5, 12, n),
    "wide integers": lambda g, n: g.integers(-(2**63), 2**63, n),
    "bernoulli": lambda g, n: g.bernoulli(0.3, n),
    "dropout_mask": lambda g, n: g.dropout_mask(n, 0.3),
    "permutation": lambda g, n: g.permutation(n),
    "exponential": lambda g, n: g.exponential(1.0, n),
    "gamma": lambda g, n: g.gamma(0.7, 1.0, n),
    "poisson": lambda g, n: g.poisson(30.0, n),
    "binomial": lambda g, n: g.binomial(100, 0.3, n),
}


@pytest.mark.parametrize("name", DRAWS)
def test_any_number_of_threads_gives_the_same_numbers(name):
    before, found = tx.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            tx.set_num_threads(threads)
            found.append(array(DRAWS[name](random.Generator(3), 70_001)).copy())
    finally:
        tx.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("name", DRAWS)
def test_calls_go_on_where_the_last_one_ended(name):
    g = random.Generator(3)
    first = array(DRAWS[name](g, 1001)).copy()
    state = g.get_state()
    second = array(DRAWS[name](g, 1001)).copy()
    assert not np.array_equal(first, second)
    g.set_state(state)
    np.testing.assert_array_equal(array(DRAWS[name](g, 1001)), second)
    g.manual_seed(3)
    np.testing.assert_array_equal(array(DRAWS[name](g, 1001)), first)


def test_more_elements_begin_with_the_same_numbers():
    for name in ("uniform", "normal", "integers", "bernoulli", "exponential", "gamma", "poisson"):
        few, many = (array(DRAWS[name](random.Generator(1), n)) for n in (1000, 50_000))
        np.testing.assert_array_equal(few, many[:1000])


# ---- statistics ----------------------------------------------------------------------------------------

stats = pytest.importorskip("scipy.stats")
INF = math.inf
CONTINUOUS = {
    "uniform": (lambda g: g.uniform(-1.0, 3.0, N), stats.uniform(-1, 4)),
    "uniform64": (lambda g: g.uniform(0.0, 1.0, N, dtype=tx.float64), stats.uniform()),
    "normal": (lambda g: g.normal(1.0, 2.0, N), stats.norm(1, 2)),
    "normal64": (lambda g: g.standard_normal(N, dtype=tx.float64), stats.norm()),
    "randn": (lambda g: g.randn(N), stats.norm()),
    "exponential": (lambda g: g.exponential(2.0, N), stats.expon(scale=2)),
    "laplace": (lambda g: g.laplace(1.0, 2.0, N), stats.laplace(1, 2)),
    "logistic": (lambda g: g.logistic(1.0, 2.0, N), stats.logistic(1, 2)),
    "cauchy": (lambda g: g.cauchy(1.0, 2.0, N), stats.cauchy(1, 2)),
    "gumbel": (lambda g: g.gumbel(1.0, 2.0, N), stats.gumbel_r(1, 2)),
    "weibull": (lambda g: g.weibull(1.5, 2.0, N), stats.weibull_min(1.5, scale=2)),
    "lognormal": (lambda g: g.lognormal(0.5, 0.7, N), stats.lognorm(0.7, scale=math.exp(0.5))),
    "gamma 3": (lambda g: g.gamma(3.0, 2.0, N), stats.gamma(3, scale=2)),
    "gamma 0.3": (lambda g: g.gamma(0.3, 1.0, N, dtype=tx.float64), stats.gamma(0.3)),
    "gamma 1": (lambda g: g.gamma(1.0, 1.0, N), stats.gamma(1)),
    "gamma 500": (lambda g: g.gamma(500.0, 1.0, N), stats.gamma(500)),
    "chisquare": (lambda g: g.chisquare(3.0, N), stats.chi2(3)),
    "standard_t": (lambda g: g.standard_t(4.0, N), stats.t(4)),
    "beta": (lambda g: g.beta(0.5, 2.0, N, dtype=tx.float64), stats.beta(0.5, 2)),
    "dirichlet": (lambda g: g.dirichlet(tx.asarray([1.0, 2.0, 3.0]), N)[:, 1], stats.beta(2, 4)),
    "truncated": (lambda g: g.truncated_normal(-1.0, 2.0, N), stats.truncnorm(-1, 2)),
    "truncated above": (lambda g: g.truncated_normal(3.0, INF, N, dtype=tx.float64), stats.truncnorm(3, INF)),
    "truncated far": (lambda g: g.truncated_normal(8.0, 9.0, N, dtype=tx.float64), stats.truncnorm(8, 9)),
    "truncated far below": (lambda g: g.truncated_normal(-INF, -20.0, N, dtype=tx.float64), stats.truncnorm(-INF, -20)),
    "truncated moved": (lambda g: g.truncated_normal(0.0, 3.0, N, loc=1.0, scale=2.0), stats.truncnorm(-0.5, 1, 1, 2)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_kolmogorov_smirnov(name):
    draw, law = CONTINUOUS[name]
    x = array(draw(random.Generator(2024))).astype(np.float64)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    if np.isfinite(law.var()):
        assert abs(x.mean() - law.mean()) < 5 * law.std() / math.sqrt(N)
        kurtosis = float(law.stats("k"))
        if np.isfinite(kurtosis):
            assert abs(x.var() - law.var()) < 5 * law.var() * math.sqrt((kurtosis + 2) / N)


DISCRETE = {
    "integers": (lambda g: g.integers(-3, 4, N), stats.randint(-3, 4)),
    "integers endpoint": (lambda g: g.integers(1, 6, N, endpoint=True, dtype=tx.uint8), stats.randint(1, 7)),
    "bernoulli": (lambda g: g.bernoulli(0.3, N, dtype=tx.int32), stats.bernoulli(0.3)),
    "geometric": (lambda g: g.geometric(0.3, N), stats.geom(0.3)),
    "poisson 0.5": (lambda g: g.poisson(0.5, N), stats.poisson(0.5)),
    "poisson 9": (lambda g: g.poisson(9.0, N), stats.poisson(9)),
    "poisson 12": (lambda g: g.poisson(12.0, N), stats.poisson(12)),
    "poisson 300": (lambda g: g.poisson(300.0, N), stats.poisson(300)),
    "binomial small": (lambda g: g.binomial(20, 0.1, N), stats.binom(20, 0.1)),
    "binomial": (lambda g: g.binomial(100, 0.4, N), stats.binom(100, 0.4)),
    "binomial flipped": (lambda g: g.binomial(60, 0.8, N), stats.binom(60, 0.8)),
    "multinomial": (lambda g: g.multinomial(tx.asarray([1.0, 2.0, 0.0, 5.0]), N, True), stats.rv_discrete(values=([0, 1, 3], [1 / 8, 2 / 8, 5 / 8]))),
    "categorical": (lambda g: g.categorical(tx.log(tx.asarray([1.0, 2.0, 5.0])), N), stats.rv_discrete(values=([0, 1, 2], [1 / 8, 2 / 8, 5 / 8]))),
    "choice": (lambda g: g.choice(5, N), stats.randint(0, 5)),
    "choice p": (lambda g: g.choice(3, N, p=[0.5, 0.25, 0.25]), stats.rv_discrete(values=([0, 1, 2], [0.5, 0.25, 0.25]))),
    "first of permutation": (lambda g: tx.stack([g.permutation(4)[0] for _ in range(3000)]), stats.randint(0, 4)),
    "first without replacement": (lambda g: g.multinomial(tx.broadcast_to(tx.asarray([1.0, 2.0, 3.0]), (N, 3)), 2)[:, 0],
                                  stats.rv_discrete(values=([0, 1, 2], [1 / 6, 2 / 6, 3 / 6]))),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_chi_square(name):
    draw, law = DISCRETE[name]
    x = array(draw(random.Generator(99))).astype(np.int64)
    low, high = int(law.ppf(1e-3)), int(law.ppf(1 - 1e-3))
    counts = np.array([(x <= low).sum(), *((x == k).sum() for k in range(low + 1, high)), (x >= high).sum()])
    p = np.array([law.cdf(low), *(law.pmf(k) for k in range(low + 1, high)), law.sf(high - 1)])
    keep = p * x.size > 5
    assert counts[~keep].sum() <= 5 * (~keep).sum() + 10
    assert stats.chisquare(counts[keep], p[keep] / p[keep].sum() * counts[keep].sum()).pvalue > 1e-3


def test_uniform_words_are_independent():
    """Pairs, in a grid of 16 by 16; bits one by one."""
    u = array(random.uniform(0.0, 1.0, 200_000, generator=random.Generator(5)))
    table = np.histogram2d(u[::2], u[1::2], bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(table.reshape(-1)).pvalue > 1e-3
    words = array(random.bits(50_000, generator=random.Generator(6)))
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 32).sum(0, dtype=np.int64)
    assert np.all(np.abs(ones - 25_000) < 5 * math.sqrt(50_000) / 2)
    lag = np.corrcoef(u[:-1], u[1:])[0, 1]
    assert abs(lag) < 5 / math.sqrt(u.size)


def test_split_streams_are_independent():
    g = random.Generator(1)
    streams = [array(c.normal(0.0, 1.0, 20_000)) for c in (*g.split(3), g, *g.split(1)[0].split(2))]
    for i, a in enumerate(streams):
        assert stats.kstest(a, stats.norm().cdf).pvalue > 1e-4
        for b in streams[i + 1 :]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(a.size)
    assert len({(c.get_state()["seed"], c.get_state()["stream"]) for c in random.Generator(1).split(100)}) == 100
    np.testing.assert_array_equal(array(random.Generator(1).split(2)[1].bits(9)), array(random.Generator(1).split(2)[1].bits(9)))


# ---- ranges ----------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]), st.data())
def test_integers_stay_in_range(name, data):
    limits = tx.iinfo(name)
    low = data.draw(st.integers(limits.min, limits.max))
    high = data.draw(st.integers(low, limits.max))
    x = array(random.integers(low, high, 500, endpoint=True, dtype=name, generator=random.Generator(data.draw(st.integers(0, 99)))))
    assert x.dtype == name and int(x.min()) >= low and int(x.max()) <= high


@EXAMPLES
@given(st.sampled_from(["float16", "bfloat16", "float32", "float64"]), st.floats(-1000, 1000) | st.just(0.0), st.floats(0, 1000) | st.floats(0, 1e-4))
def test_uniform_stays_below_its_end(name, low, width):
    dtype = tx.dtype_from(name)
    low, high = (float(tx.asarray(v, dtype=tx.float64).astype(dtype).item()) for v in (low, low + width))
    x = random.uniform(low, high, 3000, dtype=dtype, generator=random.Generator(1)).astype(tx.float64)
    assert x.min().item() >= low
    assert x.max().item() < high or low == high


def test_wide_integers_reach_everywhere():
    x = array(random.integers(-(2**63), 2**63, 10_000, generator=random.Generator(0)))
    assert stats.kstest(x / 2.0**63, stats.uniform(-1, 2).cdf).pvalue > 1e-3


# ---- shapes, dtypes, parameters, in place ---------------------------------------------------------------------


def test_shapes_and_dtypes():
    loc = tx.asarray([[0.0], [100.0]])
    x = random.normal(loc, tx.asarray([1.0, 2.0, 3.0]), generator=random.Generator(0))
    assert x.shape == (2, 3) and x.dtype is tx.float32 and bool(tx.all(x[1] > 50))
    assert random.normal(0.0, 1.0, (2, 0)).shape == (2, 0) and random.uniform().shape == ()
    assert random.normal(tx.zeros(2, dtype=tx.float64)).dtype is tx.float64
    assert random.poisson(tx.asarray([1.0, 50.0])).dtype is tx.int64
    assert random.gamma(tx.ones((2, 1)), tx.ones(3)).shape == (2, 3)
    assert random.gamma(2.0, 1.0, 3, dtype=tx.bfloat16).dtype is tx.bfloat16
    assert random.binomial(tx.asarray([5, 10]), 0.5).shape == (2,)
    assert random.categorical(tx.zeros((2, 3)), (5, 2)).shape == (5, 2)
    assert random.multinomial(tx.ones((2, 4)), 3).shape == (2, 3)
    assert random.choice(tx.ones((4, 2)), (3, 1)).shape == (3, 1, 2)
    assert random.rand(2, 3).shape == random.randn((2, 3)).shape == (2, 3)
    assert random.randint(5).shape == () and random.randperm(4, dtype=tx.int32).dtype is tx.int32
    assert random.permutation(tx.ones((2, 3)), axis=1).shape == (2, 3)


def test_every_distribution_on_a_device(device):
    g = random.Generator(0, device)
    for name in ("uniform", "normal", "exponential", "laplace", "gumbel", "cauchy", "logistic"):
        x = getattr(g, name)(0.5, shape=(3, 4)) if name == "exponential" else getattr(g, name)(shape=(3, 4))
        assert x.device is tx.device(device) and x.shape == (3, 4)
        cpu = getattr(random.Generator(0), name)
        g.manual_seed(0)
        again = getattr(g, name)(shape=(1000,))
        np.testing.assert_allclose(array(again), array(cpu(shape=(1000,))), rtol=3e-4, atol=1e-5)
    for x in (g.gamma(2.0, 1.0, 3), g.beta(1.0, 2.0, 3), g.poisson(3.0, 3), g.binomial(5, 0.5, 3), g.integers(0, 9, 3), g.permutation(3),
              g.bernoulli(0.5, 3), g.dropout_mask(3, 0.5), g.truncated_normal(-1.0, 1.0, 3), g.geometric(0.5, 3), g.choice(4, 3)):  # fmt: skip
        assert x.device is tx.device(device) and x.shape == (3,)
    x = tx.zeros(100, device=device)
    assert x.uniform_(1.0, 2.0) is x and bool(tx.all(x >= 1.0)) and x.normal_() is x and x.bernoulli_(1.0) is x
    assert x.sum().item() == 100


def test_in_place():
    for dtype in (tx.float32, tx.float64, tx.float16, tx.bfloat16):
        x = tx.zeros(3000, dtype=dtype)
        view = x[::2]
        version = x.version
        with tx.memory.measure() as m:
            x.uniform_(2.0, 3.0, generator=random.Generator(1))
        assert m.bytes == 0 and x.version > version and view.min().item() >= 2
        same = random.uniform(2.0, 3.0, 3000, dtype=dtype, generator=random.Generator(1))
        assert bool(tx.all(x == same))
        view.normal_(100.0, 1.0)
        assert x[1::2].max().item() <= 3 and x[::2].min().item() > 90
        x.exponential_(2.0)
        assert x.min().item() >= 0
    mask = tx.zeros(1000, dtype=tx.bool).bernoulli_(0.5)
    assert 300 < tx.count_nonzero(mask).item() < 700
    whole = tx.zeros(4, dtype=tx.int32)
    assert whole.bernoulli_(1.0).tolist() == [1, 1, 1, 1]
    with pytest.raises(tx.DTypeError, match="uniform_"):
        whole.uniform_()


def test_in_place_reads_before_it_writes():
    x = tx.zeros(1000)
    y = x + 1.0
    x.normal_()
    assert y.min().item() == y.max().item() == 1.0


def test_in_place_and_gradients():
    w = tx.ones(3).requires_grad_()
    with pytest.raises(tx.InplaceError):
        w.normal_()
    with tx.no_grad():
        w.normal_()
    assert w.requires_grad and w.is_leaf
    y = w * 2.0
    y.uniform_()
    z = w * y
    z.sum().backward()
    np.testing.assert_allclose(array(w.grad), array(y.detach()))
    v = tx.ones(3).requires_grad_()
    t = tx.asarray([1.0, 2.0, 3.0])
    loss = (v * t).sum()
    t.normal_()
    with pytest.raises(tx.GradientError, match="normal_"):
        loss.backward()


def test_reparametrised_gradients():
    loc, scale = tx.ones(2).requires_grad_(), tx.ones(2).requires_grad_()
    x = random.normal(loc, scale, generator=random.Generator(0))
    x.sum().backward()
    assert loc.grad.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(array(scale.grad), array((x - loc).detach()), rtol=1e-5)


def test_shuffle_and_choice():
    x = tx.arange(20).reshape((10, 2))
    y = random.shuffle(x, generator=random.Generator(0))
    assert y is x and sorted(x.tolist()) == [[2 * i, 2 * i + 1] for i in range(10)] and x.tolist() != sorted(x.tolist())
    assert sorted(random.choice(50, 50, replace=False).tolist()) == list(range(50))
    assert sorted(random.multinomial(tx.ones(30), 30).tolist()) == list(range(30))
    assert 0 not in random.multinomial(tx.asarray([0.0, 1.0]), 1000, True).tolist()


@EXAMPLES
@given(st.integers(0, 3000))
def test_permutation_has_everything_once(n):
    np.testing.assert_array_equal(np.sort(array(random.permutation(n))), np.arange(n))


def test_dropout_mask():
    m = array(random.dropout_mask(N, 0.25, generator=random.Generator(0)))
    assert set(np.unique(m)) == {np.float32(0), np.float32(1 / 0.75)} and abs((m == 0).mean() - 0.25) < 0.02
    assert random.dropout_mask(4, 1.0).tolist() == [0.0] * 4 and random.dropout_mask(4, 0.0).tolist() == [1.0] * 4


# ---- generators ---------------------------------------------------------------------------------------------------


def test_state_copies_and_pickles():
    g = random.Generator(5)
    g.normal(shape=10)
    for other in (copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert other.get_state() == g.get_state() and other is not g
        np.testing.assert_array_equal(array(other.bits(7)), array(copy.copy(g).bits(7)))
    assert g.seed == g.initial_seed == 5 and repr(g).startswith("Generator(seed=5")


def test_manual_seed():
    assert tx.manual_seed(3) is random.default_generator
    a = array(tx.randn(5)).copy()
    tx.manual_seed(3)
    np.testing.assert_array_equal(a, array(random.normal(shape=5)))
    assert random.seed() != random.seed()
    tx.manual_seed(-1)
    assert random.default_generator.seed == 2**64 - 1


def test_checkpoint_draws_the_same_numbers_again():
    x = tx.ones(1000).requires_grad_()
    seen = []

    def f(t):
        mask = random.dropout_mask(1000, 0.5)
        seen.append(array(mask).copy())
        return (t * mask * t).sum()

    tx.autograd.checkpoint(f, x).backward()
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_allclose(array(x.grad), 2 * seen[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_go_on_with_streams_of_their_own(run_child):
    run_child(
        """
        import os
        import tensorx as tx

        tx.manual_seed(0)
        found = []
        for _ in range(2):
            r, w = os.pipe()
            pid = os.fork()
            if not pid:
                os.write(w, repr(tx.random.bits(3).tolist()).encode())
                os._exit(0)
            os.waitpid(pid, 0)
            found.append(os.read(r, 1000))
        own = repr(tx.random.bits(3).tolist()).encode()
        tx.manual_seed(0)
        assert own == repr(tx.random.bits(3).tolist()).encode()
        assert len({own, *found}) == 3, (own, found)
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of another kind")
def test_control_c_ends_a_long_fill(run_child):
    run_child(
        """
        import os, signal, threading, time
        import tensorx as tx

        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.perf_counter()
        try:
            for _ in range(100):
                tx.random.poisson(50.0, 4_000_000)
        except KeyboardInterrupt:
            print("ended after", round(time.perf_counter() - began, 2))
        else:
            raise AssertionError("not interrupted")
        """
    )


def test_threads_share_a_generator():
    """Every number is given out once."""
    import threading

    g = random.Generator(0)
    found = []

    def work():
        for _ in range(50):
            found.append(array(g.bits(101)).copy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expected = philox(0, 0, 0, 200 * 104).reshape(200, 104)[:, :101]
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call, error, text", [
    (lambda: random.uniform(2.0, 1.0), ValueError, "low must not be above high"),
    (lambda: random.normal(0.0, -1.0), ValueError, "scale must be at least 0"),
    (lambda: random.normal(0.0, 1.0, -1), tx.ShapeError, "negative"),
    (lambda: random.normal("a"), tx.DTypeError, "loc must be a number"),
    (lambda: random.normal(dtype=tx.int32), tx.DTypeError, "real floating"),
    (lambda: random.normal(tx.ones(3), 1.0, (2,)), tx.ShapeError, "broadcast"),
    (lambda: random.integers(5, 5), ValueError, "no integer"),
    (lambda: random.integers(0, 300, dtype=tx.uint8), ValueError, "does not fit into uint8"),
    (lambda: random.integers(0.5), TypeError, "ints"),
    (lambda: random.bernoulli(1.5), ValueError, "at most 1"),
    (lambda: random.poisson(-1.0), ValueError, "lam"),
    (lambda: random.poisson(tx.asarray([1.0, -1.0])), ValueError, "out of range"),
    (lambda: random.gamma(float("nan")), ValueError, "alpha"),
    (lambda: random.binomial(10, 2.0), ValueError, "between 0 and 1"),
    (lambda: random.binomial(2.5, 0.5), ValueError, "whole"),
    (lambda: random.geometric(0.0), ValueError, "above 0"),
    (lambda: random.choice(3, 4, replace=False), ValueError, "without replacement"),
    (lambda: random.choice(0, 1), ValueError, "nothing"),
    (lambda: random.multinomial(tx.asarray([1.0, -1.0]), 1), ValueError, "not negative"),
    (lambda: random.multinomial(tx.asarray([0.0, 0.0]), 1), ValueError, "not all zero"),
    (lambda: random.multinomial(tx.asarray([1.0, 0.0]), 2), ValueError, "fewer positive"),
    (lambda: random.permutation(-1), ValueError, "negative"),
    (lambda: random.Generator(2**64), ValueError, "64 bits"),
    (lambda: random.Generator("x"), TypeError, "an int is needed"),
    (lambda: random.Generator(0).set_state({"seed": 1}), ValueError, "get_state"),
    (lambda: random.truncated_normal(1.0, 0.0), ValueError, "below high"),
    (lambda: random.dropout_mask(3, 1.5), ValueError, "between 0 and 1"),
])  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
