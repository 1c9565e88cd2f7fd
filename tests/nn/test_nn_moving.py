"""Moving modules and making values late: handles, gradients and ties survive; nothing is made where it is not read."""

import copy

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn


def target(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(8, 4)).astype("f"), rng.normal(size=(8, 1)).astype("f")


def train(net, device, steps=5, optimizer=None):
    """Losses of some steps of Adam; every parameter must get a gradient."""
    x, y = (tx.asarray(a, device=device) for a in target())
    optimizer = optimizer or tx.optim.Adam(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        assert all(p.grad is not None and p.grad.device is p.device for p in net.parameters() if p.requires_grad)
        optimizer.step()
        losses.append(loss.item())
    return losses


def build(way, device):
    tx.manual_seed(7)
    if way == "on the device":
        return nn.Linear(4, 1, device=device)
    net = nn.Linear(4, 1)
    if way == "initialised, then moved":
        nn.init.kaiming_normal_(net.weight)
        return net.to(device)
    if way == "read, then moved":
        net.weight.tolist(), net.bias.tolist()
        return net.to(device)
    if way == "unread":
        return net.to(device)
    if way == "fork":
        return net.fork(device)
    if way == "loaded under inference_mode":
        net = net.to(device)
        with tx.inference_mode():
            net.load_state_dict({"weight": tx.ones((1, 4)), "bias": tx.zeros(1)})
        return net
    net.requires_grad_(False)
    return net.to(device).requires_grad_()


@pytest.mark.parametrize(
    "way",
    ["on the device", "initialised, then moved", "read, then moved", "unread", "fork", "loaded under inference_mode", "frozen, then trained"],
)
def test_seven_ways_to_a_device_all_train(way, device):
    net = build(way, device)
    for p in net.parameters():
        assert p.requires_grad and p.is_leaf and str(p.device).startswith(device) and isinstance(p, nn.Parameter)
    losses = train(net, device)
    assert all(b < a for a, b in zip(losses, losses[1:]))


def test_moved_between_steps_the_losses_are_those_of_the_unmoved_run(device):
    tx.manual_seed(3)
    still = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    moved = copy.deepcopy(still)
    expected = train(still, "cpu", 6)
    optimizer = tx.optim.Adam(moved.parameters(), lr=0.1)
    handles = list(moved.parameters())
    losses = train(moved, "cpu", 3, optimizer)
    moved.to(device)
    assert [id(p) for p in moved.parameters()] == [id(p) for p in handles]
    losses += train(moved, device, 3, optimizer)
    assert np.allclose(losses, expected, rtol=1e-4)


def test_gradients_and_graphs_across_a_move(device):
    net = nn.Linear(2, 1, bias=False)
    loss = net(tx.ones((1, 2))).sum()
    net.to(device)
    loss.backward()
    assert net.weight.grad.device is net.weight.device and net.weight.grad.tolist() == [[1.0, 1.0]]
    net.to("cpu")
    assert net.weight.grad.device is net.weight.device and net.weight.grad.tolist() == [[1.0, 1.0]]


def test_what_shares_a_storage_stays_together(device):
    a, b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    b.weight = a.weight
    whole = tx.arange(6, dtype=tx.float32)
    net = nn.ModuleList([a, b])
    net.register_buffer("left", whole[:4])
    net.register_buffer("right", whole[2:])
    net.to(device)
    assert net[0].weight is net[1].weight
    net.left[2] = 50.0
    assert net.right.tolist() == [50.0, 3.0, 4.0, 5.0] and net.left.tolist() == [0.0, 1.0, 50.0, 3.0]
    assert whole.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] or device == "cpu"


def test_views_made_before_keep_the_old_values():
    net = nn.Linear(2, 1)
    view = net.weight.detach()[0]
    before = view.tolist()
    net.double()
    with tx.no_grad():
        net.weight.zero_()
    assert view.tolist() == before and view.dtype is tx.float32 and net.weight.dtype is tx.float64
    assert net.bias.dtype is tx.float64 and net.weight.requires_grad and net.weight.is_leaf


def test_fork_is_independent_and_keeps_flags(device):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    net[0].weight.requires_grad_(False)
    other = net.fork(device)
    assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in net.parameters()]
    assert not other.training and all(str(p.device).startswith(device) for p in other.parameters())
    with tx.no_grad():
        other[0].weight.zero_()
    assert any(v for row in net[0].weight.tolist() for v in row)


def test_only_floating_point_values_change_their_dtype():
    net = nn.BatchNorm1d(2).half()
    assert net.weight.dtype is tx.float16 and net.running_mean.dtype is tx.float16 and net.num_batches_tracked.dtype is tx.int64
    with pytest.raises(tx.DTypeError, match="floating-point dtypes only, not int32"):
        net.to(tx.int32)


# ---- values made at the first read --------------------------------------------------------------------------


def test_an_unread_module_allocates_nothing_and_has_the_values_it_would_have_had(device):
    tx.manual_seed(11)
    early = nn.Linear(64, 64)
    expected = early.weight.tolist(), early.bias.tolist()
    tx.manual_seed(11)
    with tx.memory.measure() as m:
        late = nn.Linear(64, 64)
        extra = nn.Linear(64, 64)
    assert m.bytes == 0
    with tx.memory.measure() as m:
        late.to(device)
    assert m.bytes == 0
    extra.weight.tolist()
    assert np.allclose(late.weight.tolist(), expected[0], rtol=1e-6) and np.allclose(late.bias.tolist(), expected[1], rtol=1e-6)


@pytest.mark.parametrize(
    "read",
    [
        lambda w: w + 1.0, lambda w: w.T.sum(), lambda w: w[0], lambda w: w.reshape((-1,)), lambda w: w @ w.T, lambda w: w.sum(),
        lambda w: w.detach().numpy(), lambda w: w.copy(), lambda w: w.detach().add_(0.0), lambda w: tx.softmax(w), lambda w: w.version,
        lambda w: w.is_unique(), lambda w: repr(w), lambda w: tx.where(w > 0.0, w, 0.0), lambda w: tx.concat([w, w]), lambda w: w.tolist(),
        lambda w: w.slice_assign(0, 0.0), lambda w: tx.take(w, tx.asarray([0]), axis=0), lambda w: w.astype(tx.float64), lambda w: copy.copy(w),
    ],
)  # fmt: skip
def test_every_kind_of_read_gives_the_same_values(read):
    tx.manual_seed(5)
    expected = nn.Linear(3, 3).weight.tolist()
    tx.manual_seed(5)
    w = nn.Linear(3, 3).weight
    read(w)
    assert w.tolist() == expected


def test_unread_copies_agree():
    tx.manual_seed(5)
    net = nn.Linear(3, 3)
    other, third = copy.deepcopy(net), net.fork()
    assert net.weight.tolist() == other.weight.tolist() == third.weight.tolist()
    assert not tx.shares_storage(net.weight, other.weight)


def test_an_alias_of_an_unread_value_is_the_same_value():
    w = nn.Linear(3, 3).weight
    alias = w.detach()
    alias.zero_()
    assert w.tolist() == [[0.0] * 3] * 3


# ---- shapes found at the first call ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lazy, plain, shape",
    [
        (lambda: nn.LazyLinear(3), lambda: nn.Linear(5, 3), (2, 5)),
        (lambda: nn.LazyConv2d(4, 3, padding=1), lambda: nn.Conv2d(2, 4, 3, padding=1), (1, 2, 4, 4)),
        (lambda: nn.LazyConv1d(4, 3, groups=2, bias=False), lambda: nn.Conv1d(2, 4, 3, groups=2, bias=False), (1, 2, 4)),
        (lambda: nn.LazyConvTranspose2d(4, 3, 2), lambda: nn.ConvTranspose2d(2, 4, 3, 2), (1, 2, 4, 4)),
        (lambda: nn.LazyBatchNorm2d(), lambda: nn.BatchNorm2d(2), (2, 2, 4, 4)),
        (lambda: nn.LazyInstanceNorm1d(affine=True), lambda: nn.InstanceNorm1d(2, affine=True), (2, 2, 4)),
    ],
)
def test_lazy_modules_become_ordinary_ones(lazy, plain, shape):
    tx.manual_seed(1)
    net, expected = lazy(), plain()
    handles = list(net.parameters())
    assert net.has_uninitialized_params() and "Lazy" in repr(net)
    optimizer = tx.optim.SGD(handles, lr=0.1) if handles else None
    x = tx.asarray(np.random.default_rng(0).normal(size=shape).astype("f"))
    out = net(x)
    assert type(net) is type(expected) and repr(net) == repr(expected)
    assert [id(p) for p in net.parameters()] == [id(p) for p in handles]
    assert {k: v.shape for k, v in net.state_dict().items()} == {k: v.shape for k, v in expected.state_dict().items()}
    out.sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in handles)
    if optimizer:
        optimizer.step()
    again = lazy()
    again.load_state_dict(net.state_dict())
    assert np.allclose(again(x).tolist(), net(x).tolist(), atol=1e-6)
