"""Pooling on both devices against windows in plain Python; on metal what is dispatched, also in a step of a small network."""

import itertools

import numpy as np
import pytest
from metal_tools import counted

import tensorx as tx
from tensorx.metal import pooling

F = tx.nn.functional


def sliding(size, k, s, p, d, ceil_mode):
    """The elements of each window along one axis, and its length with the padding."""
    out, o = [], 0
    count = (size + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    while o < count and not (ceil_mode and o * s >= size + p):
        places = [o * s - p + j * d for j in range(k)]
        out.append(([i for i in places if 0 <= i < size], sum(i < size + p for i in places)))
        o += 1
    return out


def adaptive(size, count):
    places = [range(o * size // count, -(-(o + 1) * size // count)) for o in range(count)]
    return [(list(r), len(r)) for r in places]


def reference(kind, x, axes, g, divisor=None):
    """(values, positions, gradient) in float64; axes: windows of each pooled axis."""
    n, out = len(axes), tuple(len(a) for a in axes)
    lead, sizes = x.shape[:-n], x.shape[-n:]
    flat, gout = x.reshape(-1, *sizes).astype(float), g.reshape(-1, *out).astype(float)
    y, at, dx = np.zeros(gout.shape), np.zeros(gout.shape, np.int64), np.zeros(flat.shape)
    for plane in range(len(flat)):
        for o in np.ndindex(*out):
            places = list(itertools.product(*(axes[d][o[d]][0] for d in range(n))))
            values = [flat[(plane, *i)] for i in places]
            if kind == "max":
                best = int(np.argmax(values)) if places else -1  # the first, and NaN before all
                y[(plane, *o)] = values[best] if places else -np.inf
                at[(plane, *o)] = np.ravel_multi_index(places[best], sizes) if places else -1
                if places:
                    dx[(plane, *places[best])] += gout[(plane, *o)]
            else:
                by = divisor or np.prod([axes[d][o[d]][1] for d in range(n)])
                y[(plane, *o)] = np.sum(values) / by
                for i in places:
                    dx[(plane, *i)] += gout[(plane, *o)] / by
    return y.reshape(*lead, *out), at.reshape(*lead, *out), dx.reshape(x.shape)


POOLS = {
    "max": lambda t: F.max_pool2d(t, 3, 2, 1), "avg": lambda t: F.avg_pool2d(t, 3, 2, 1, count_include_pad=False),
    "adaptive max": lambda t: F.adaptive_max_pool2d(t, 4), "adaptive avg": lambda t: F.adaptive_avg_pool2d(t, 4),
}  # fmt: skip
TOLERANCE = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}


def check(name, x, axes, dtype, *args, divisor=None, layout=None):
    """Values, positions and gradients of a function on the default device."""
    kind, n = ("max" if "max" in name else "average"), len(axes)
    t = tx.asarray(x).astype(dtype)
    x = t.astype("float32").numpy().copy()
    leaf = t.requires_grad_()
    moved = leaf if layout is None else layout(leaf)
    values = x if layout is None else layout(x)
    function = getattr(F, f"{name}{n}d")
    got = function(moved, *args)
    g = np.random.default_rng(3).normal(size=got.shape).astype(np.float32)
    g = tx.asarray(g).astype(dtype).astype("float32").numpy().copy()
    y, at, dx = reference(kind, values, axes, g, divisor)
    assert got.shape == y.shape and got.dtype == leaf.dtype
    near = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(got.detach().astype("float32").numpy(), y, **near)
    (got * tx.asarray(g).astype(dtype)).sum().backward()
    want = dx if layout is None else undo(layout, dx, x.shape)
    np.testing.assert_allclose(leaf.grad.astype("float32").numpy(), want, **near)
    if kind == "max":
        values, positions = function(moved.detach(), *args, return_indices=True)
        assert positions.dtype is tx.int64 and np.array_equal(positions.numpy(), at)
        assert tx.array_equal(values, got.detach())


def undo(layout, dx, shape):
    """What a layout made of a whole tensor, back in its shape."""
    where = layout(np.arange(int(np.prod(shape))).reshape(shape))
    out = np.zeros(int(np.prod(shape)))
    out[where.ravel()] = dx.ravel()
    return out.reshape(shape)


# window, stride, padding, dilation, ceil_mode
WINDOWS = [(2, 2, 0, 1, False), (3, 2, 1, 1, True), (3, 1, 1, 2, False), (2, 3, 1, 2, True), (3, 2, 0, 3, False)]


def _input(n, seed=0):
    shape = (2, 3, *((9,), (9, 8), (7, 8, 9))[n - 1])
    return np.round(np.random.default_rng(seed).normal(size=shape), 1).astype(np.float32)  # with ties


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("k, s, p, d, ceil_mode", WINDOWS)
def test_max_pool(on_device, n, k, s, p, d, ceil_mode):
    x = _input(n)
    axes = [sliding(size, k, s, p, d, ceil_mode) for size in x.shape[2:]]
    check("max_pool", x, axes, "float32", k, s, p, d, ceil_mode)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("k, s, p, ceil_mode", [(w[0], w[1], w[2], w[4]) for w in WINDOWS])
def test_avg_pool(on_device, n, k, s, p, ceil_mode):
    x = _input(n)
    axes = [sliding(size, k, s, p, 1, ceil_mode) for size in x.shape[2:]]
    check("avg_pool", x, axes, "float32", k, s, p, ceil_mode)
    inside = [[(places, len(places)) for places, _ in a] for a in axes]
    check("avg_pool", x, inside, "float32", k, s, p, ceil_mode, False)
    if n > 1:
        check("avg_pool", x, axes, "float32", k, s, p, ceil_mode, True, 5, divisor=5)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", ["adaptive_max_pool", "adaptive_avg_pool"])
def test_adaptive_pools(on_device, n, name):
    x = _input(n)
    for size in (1, 4, 11):
        check(name, x, [adaptive(s, size) for s in x.shape[2:]], "float32", size)
    if n > 1:
        check(name, x, [adaptive(s, o) for s, o in zip(x.shape[2:], (3, x.shape[3], 2))], "float32", (3, None, 2)[:n])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_added_up_in_float32(on_device, dtype):
    x = _input(2, 1)
    axes = [sliding(size, 3, 2, 1, 1, False) for size in x.shape[2:]]
    check("max_pool", x, axes, dtype, 3, 2, 1)
    check("avg_pool", x, axes, dtype, 3, 2, 1)
    many = tx.ones((1, 1, 70, 70), dtype=dtype)
    assert F.adaptive_avg_pool2d(many, 1).item() == 1.0  # 4,900 ones: in halves the sum would stop growing


LAYOUTS = {
    "channels last": lambda t: t.permute_dims((0, 3, 1, 2)) if isinstance(t, tx.Tensor) else t.transpose(0, 3, 1, 2),
    "backwards": lambda t: t[:, ::-1, 1:, ::-2],
    "every other": lambda t: t[::2, :, ::2, 1::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_views_are_pooled_where_they_lie(on_device, name, layout):
    x = np.random.default_rng(5).normal(size=(2, 8, 9, 10)).astype(np.float32)
    shape = LAYOUTS[layout](x).shape
    check(name, x, [sliding(size, 2, 2, 0, 1, False) for size in shape[2:]], "float32", 2, layout=LAYOUTS[layout])


def test_nan_wins_and_infinities_count(on_device):
    x = np.array([1, np.nan, 3, 4, -np.inf, -np.inf, np.nan, 7, np.inf, np.nan], np.float32).reshape(1, 1, -1)
    y, i = F.max_pool1d(tx.asarray(x), 2, return_indices=True)
    assert np.array_equal(y.numpy().ravel(), [np.nan, 4, -np.inf, np.nan, np.nan], equal_nan=True)
    assert i.numpy().ravel().tolist() == [1, 3, 4, 6, 9]
    two = F.max_pool1d(tx.asarray(np.array([[[2, np.nan, np.nan]]], np.float32)), 3, return_indices=True)[1]
    assert two.item() == 1  # the first of them
    means = F.avg_pool1d(tx.asarray(x), 2).numpy().ravel()
    assert np.array_equal(means, [np.nan, 3.5, -np.inf, np.nan, np.nan], equal_nan=True)


def test_a_window_between_the_elements_holds_nothing(on_device):
    """Dilation can step over a short input: the maximum of nothing is -inf, has no position and no gradient."""
    x = tx.asarray([[[5.0]]]).requires_grad_()
    y, i = F.max_pool1d(x, 2, 2, 1, 2, return_indices=True)
    assert y.tolist() == [[[-np.inf]]] and i.tolist() == [[[-1]]]
    y.sum().backward()
    assert x.grad.tolist() == [[[0.0]]]


@pytest.mark.parametrize("name", ["max", "avg", "adaptive max", "adaptive avg"])
def test_gradients_of_gradients(on_device, name):
    """A pool is y = P x around x: of sum(y * y) the gradient is g = 2 P'P x, and that of sum(g * g) is 4 P'P g."""
    x = tx.asarray(_input(2)).requires_grad_()
    y = POOLS[name](x)
    (g,) = tx.autograd.grad((y * y).sum(), [x], create_graph=True)
    (got,) = tx.autograd.grad((g * g).sum(), [x])
    if "max" in name:
        pool = F.max_pool2d if name == "max" else F.adaptive_max_pool2d
        i = pool(x.detach(), *((3, 2, 1) if name == "max" else (4,)), return_indices=True)[1].numpy().reshape(2, 3, -1)
        picked = np.take_along_axis(g.detach().numpy().reshape(2, 3, -1), i, 2).reshape(y.shape)
    else:
        picked = POOLS[name](g.detach()).numpy()
    (want,) = tx.autograd.grad((POOLS[name](x) * tx.asarray(picked)).sum(), [x])
    np.testing.assert_allclose(got.numpy(), 4 * want.numpy(), rtol=1e-5, atol=1e-5)


def test_single_images_and_empty_batches(on_device):
    x = _input(2)
    whole, one = F.max_pool2d(tx.asarray(x), 2), F.max_pool2d(tx.asarray(x[1]), 2)
    assert tx.array_equal(whole[1], one)
    empty = tx.zeros((0, 3, 8, 8)).requires_grad_()
    y = F.avg_pool2d(empty, 2)
    y.sum().backward()
    assert y.shape == (0, 3, 4, 4) and empty.grad.shape == (0, 3, 8, 8)
    none = tx.ones((1, 2, 4, 4)).requires_grad_()
    F.adaptive_avg_pool2d(none, (0, 2)).sum().backward()
    assert none.grad.tolist() == np.zeros((1, 2, 4, 4)).tolist()


def test_unpooling_puts_values_back(on_device):
    x = tx.asarray(_input(2)).requires_grad_()
    y, i = F.max_pool2d(x, 2, return_indices=True)
    up = F.max_unpool2d(y, i, 2, output_size=x.shape)
    want = np.zeros(x.shape, np.float32).reshape(2, 3, -1)
    np.put_along_axis(want, i.numpy().reshape(2, 3, -1), y.detach().numpy().reshape(2, 3, -1), 2)
    assert np.array_equal(up.detach().numpy().reshape(2, 3, -1), want)
    up.sum().backward()
    assert x.grad.sum().item() == y.size
    for bad in (i + 1000, i - 1000):
        with pytest.raises(IndexError, match="max_unpool2d: (indices reach outside|an index is out of range)"):
            F.max_unpool2d(y.detach(), bad, 2).tolist()
    assert F.max_pool2d(x.detach(), 2)[0, 0, 0, 0].item() == y[0, 0, 0, 0].item()


# ---- metal alone ---------------------------------------------------------------------------------------


@pytest.mark.metal
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_pool_is_one_dispatch_each_way_and_waits_for_nothing(metal, name, dtype):
    with tx.device("metal"), tx.deferred(True):
        for k, shape in enumerate(((2, 3, 9, 8), (5, 3, 9, 8), (2, 4, 12, 10))):
            x = tx.asarray(np.random.default_rng(k).normal(size=shape).astype(np.float32)).astype(dtype).requires_grad_()
            g = tx.ones(POOLS[name](x.detach()).shape, dtype=dtype)
            tx.eval(x, g)
            with counted() as forward:
                y = POOLS[name](x)
                tx.eval(y)
            with counted() as backward:
                y.backward(g)
                tx.eval(x.grad)
            for c in (forward, backward):
                assert (c.dispatches, c.waits, c.host_ops) == (1, 0, 0)
                assert k == 0 or c.compiled == 0  # sizes are arguments
        with tx.memory.measure() as m:
            POOLS[name](x.detach())
        assert m.allocations == 1  # without history no positions are kept


@pytest.mark.metal
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_both_devices_give_the_same_bits(metal, dtype):
    def run(device):
        out = []
        with tx.device(device):
            for name, k in itertools.product(POOLS, range(2)):
                x = tx.asarray(np.random.default_rng(k).normal(size=(2, 3, 17, 13)).astype(np.float32)).astype(dtype).requires_grad_()
                y = POOLS[name](x)
                (y * y).sum().backward()
                out += [y.detach().astype("float32").numpy().copy(), x.grad.astype("float32").numpy().copy()]
        return out

    for ours, cpu in zip(run("metal"), run("cpu")):
        assert np.array_equal(ours.view(np.uint32), cpu.view(np.uint32))


def test_what_the_kernels_do_not_do_is_refused(gpu):
    x, out = gpu.put(np.zeros((1, 1, 9), np.float32)), gpu.empty((1, 1, 4), "float32")
    holes = pooling.Windows((9,), (4,), (2,), (2,), (0,), (2,))
    for kind in ("average", "average gradient"):
        with pytest.raises(ValueError, match="holes"):
            pooling.pool(gpu.inst, kind, x, out, None, holes)
    with pytest.raises(ValueError, match="float64"):
        pooling.pool(gpu.inst, "max", x._replace(dtype="float64"), out, None, holes)
    with pytest.raises(ValueError, match="dense"):
        pooling.pool(gpu.inst, "max", x, out._replace(strides=(4, 4, -1)), None, holes)
    with pytest.raises(ValueError, match="over 1 axes"):
        pooling.pool(gpu.inst, "max", x._replace(shape=(1, 1, 3, 3), strides=(9, 9, 3, 1)), out, None, holes)


@pytest.mark.parametrize("kind", pooling.KINDS)
def test_positions_beyond_32_bits(gpu, kind, monkeypatch):
    """The kernels with 64-bit indices, on arrays that do not need them."""
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)
    windows = pooling.Windows((9, 8), (5, 4), (3, 3), (2, 2), (1, 1), (1, 1))
    positions = np.random.default_rng(1).integers(0, 72, (2, 3, 5, 4))
    forward = kind in ("max", "average", "pick")
    got = []
    for limit in (pooling.MAX_32, 10):
        monkeypatch.setattr(pooling, "MAX_32", limit)
        out = gpu.empty((2, 3, 5, 4) if forward else x.shape, "float32", pad=2)
        third = None if "average" in kind else gpu.put(positions, pad=3)
        pooling.pool(gpu.inst, kind, gpu.put(x if forward else x[:, :, :5, :4], pad=1), out, third, windows)
        got += [gpu.get(out), third and gpu.get(third)]
    assert np.array_equal(got[0], got[2]) and np.array_equal(got[1], got[3]) and np.isfinite(got[0]).all()


# ---- a small network of all this ------------------------------------------------------------------------


class Small(tx.nn.Module):
    """Convolution, batch norm, relu, both kinds of pooling, a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm = tx.nn.Conv2d(3, 8, 3, padding=1), tx.nn.BatchNorm2d(8)
        self.conv2 = tx.nn.Conv2d(8, 8, 3, padding=1)
        self.linear = tx.nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.avg_pool2d(F.relu(self.conv2(x)), 2)
        return self.linear(x.reshape((x.shape[0], -1)))


def train(device, steps, dtype, check=None):
    """Losses of some steps; the batch size changes once, the learning rate always."""
    losses = []
    with tx.device(device), tx.deferred(True):
        tx.manual_seed(0)
        model = Small().to(device).to(dtype)
        optimizer = tx.optim.Adam(model.parameters(), lr=0.01, eps=1e-8 if dtype is tx.float32 else 1e-4)
        criterion = tx.nn.CrossEntropyLoss()
        rng = np.random.default_rng(0)
        for k in range(steps):
            n = 7 if k == 3 else 16
            x, y = tx.asarray(rng.normal(size=(n, 3, 16, 16)).astype(np.float32)).astype(dtype), tx.asarray(rng.integers(0, 10, n))
            tx.eval(x)
            optimizer.param_groups[0]["lr"] = 0.01 / (k + 1)
            tx.synchronize()
            with counted() as c:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            if check is not None:
                check(k, c)
    return losses


@pytest.mark.metal
@pytest.mark.parametrize("dtype, dispatches, tolerance", [(tx.float32, 50, 2e-3), (tx.float16, 60, 5e-2)], ids=["float32", "float16"])
def test_a_step_of_a_convolutional_network_is_one_command_buffer_and_waits_once(metal, dtype, dispatches, tolerance):
    def check(k, c):
        assert c.host_ops == 0
        if k >= 1:
            assert (c.compiled, c.waits) == (0, 1)
            assert c.command_buffers <= 2 and c.dispatches <= dispatches

    ours = train("metal", 5, dtype, check)
    np.testing.assert_allclose(ours, train("cpu", 5, dtype), rtol=tolerance)
