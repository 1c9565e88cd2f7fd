"""What recording costs: bytes, owners, what is kept for backward."""

import gc

import numpy as np
import pytest

import tensorx as tx
from tensorx import autograd


@pytest.fixture(autouse=True)
def deferred_mode():
    """Figures of memory are promised for deferred evaluation, whatever TENSORX_EAGER says."""
    with tx.deferred(True):
        yield


N = 1 << 22
MIB = 1 << 20


def ones(n=N, device="cpu", grad=False):
    return tx.ones(n, dtype=tx.float32, device=device).requires_grad_(grad)


@pytest.mark.parametrize("mode, unique, mib", [("w requires grad", False, 16), ("no_grad", True, 0), ("w plain", True, 0)])
def test_scenario_y_is_x_times_w_then_x_is_x_plus_1(mode, unique, mib, device):
    """Scenario: 2^22 float32."""
    x, w = ones(device=device), ones(device=device, grad=mode != "w plain")
    with tx.set_grad_enabled(mode != "no_grad"):
        y = x * w
        tx.eval(y)
        assert x.is_unique() is unique
        with tx.memory.measure() as m:
            x = x + 1
    assert m.bytes == mib * MIB
    assert x[0].item() == 2.0
    if mode == "w requires grad":
        y.sum().backward()
        assert w.grad[0:3].tolist() == [1.0] * 3


def test_scenario_h_not_a_leaf(device):
    """Scenario: h non-leaf requiring grad; y = h * c, c plain; h = h + 1: 0 bytes."""
    w, c = ones(device=device, grad=True), ones(device=device)
    h = w * 2.0
    y = h * c
    tx.eval(h, y)
    with tx.memory.measure() as m:
        h = h + 1
    assert m.bytes == 0
    (h.sum() + y.sum()).backward()
    assert w.grad[0:3].tolist() == [4.0] * 3


@pytest.mark.parametrize(
    "name, write",
    [
        ("add_ a number", lambda h, c: h.add_(1.0)), ("mul_ a plain tensor", lambda h, c: h.mul_(c)), ("iadd", lambda h, c: h.__iadd__(c)),
        ("exp_ keeps its result", lambda h, c: h.exp_()), ("relu_", lambda h, c: h.relu_()), ("copy_", lambda h, c: h.copy_(c)),
        ("a number by a slice", lambda h, c: h.__setitem__(slice(0, 10), 1.0)), ("sigmoid_ of a view", lambda h, c: h[5:].sigmoid_()),
        ("add_ a tracked value", lambda h, c: h.add_(c.detach().requires_grad_())),
    ],
)  # fmt: skip
def test_writes_to_computed_values_stay_in_place(name, write, device):
    w, c = ones(device=device, grad=True), ones(device=device)
    h = w * 2.0
    tx.eval(h, c)
    before = h.storage.address
    with tx.memory.measure() as m:
        write(h, c)
    assert m.bytes == 0 and h.storage.address == before


def test_a_write_keeps_the_old_value_only_where_a_gradient_reads_it(device):
    w, v = ones(device=device, grad=True), ones(device=device, grad=True)
    h = w * 2.0
    tx.eval(h)
    with tx.memory.measure() as m:
        h.mul_(v)  # the gradient of v is the old h
    assert m.bytes == 16 * MIB
    h.sum().backward()
    assert v.grad[0].item() == 2.0 and w.grad[0].item() == 2.0


def test_linear_ops_keep_nothing(device):
    w = ones(1000, device, True)
    x = tx.reshape(w * 2.0, (10, 100))
    y = tx.sum(x.T - 1.0, axis=0) / 3.0
    z = tx.broadcast_to(y, (3, 10)).to(tx.float16)
    tx.eval(x, y, z)
    assert x.storage.owners == 1 and y.storage.owners == 1
    del x
    gc.collect()
    z.sum().backward()
    assert abs(w.grad[0].item() - 2.0) < 1e-3


def live_bytes():
    gc.collect()
    return tx.memory.stats("cpu")["live"]


def test_results_that_were_stored_are_kept_once_per_op():
    x = ones(grad=True)
    before = live_bytes()
    y = x
    for f in (tx.sigmoid, tx.exp, tx.tanh):
        y = f(y)
        tx.eval(y)
    assert live_bytes() - before == 3 * 16 * MIB
    del y
    assert live_bytes() == before


# ---- what only backward needs is computed again there --------------------------------------------


def chain(x, n=3):
    """Ops that keep something and are cheap: what takes long is stored."""
    for k in range(n):
        x = (tx.square, tx.abs, lambda t: t / (t + 3.0))[k % 3](x * 0.5 + 0.25)
    return x


def test_what_only_backward_needs_stays_pending(device):
    x = ones(1000, device, True)
    tx.eval(x)
    with tx.memory.measure() as m:
        y = chain(x)
    assert m.bytes == 4000  # y alone, not what the others keep
    assert len(m.left) >= 3 and all(entry[1:] == ((1000,), 4000) for entry in m.left)
    (g,) = autograd.grad(y.sum(), x)
    with tx.deferred(False):
        x2 = ones(1000, device, True)
        (e,) = autograd.grad(chain(x2).sum(), x2)
    assert g.tolist() == e.tolist()


def test_a_step_needs_less_memory():
    def bytes_of_a_step():
        x = ones(grad=True)
        tx.eval(x)
        live = live_bytes()
        tx.memory.reset_peak()
        chain(x, 6).sum().backward()
        return tx.memory.stats("cpu")["peak"] - live

    fused = bytes_of_a_step()
    with tx.deferred(False):
        assert 2 * fused < bytes_of_a_step()


def test_values_are_computed_again_once_only():
    x = ones(1000, grad=True)
    y = chain(x).sum()
    count = tx._core.pending_count()
    assert count >= 2
    first = autograd.grad(y, x, retain_graph=True)[0].tolist()
    assert tx._core.pending_count() <= count - 2  # kept this time: another pass may follow
    with tx.memory.measure() as m:
        assert autograd.grad(y, x, retain_graph=True)[0].tolist() == first
    assert m.bytes <= 2 * 4000


@pytest.mark.parametrize(
    "change", [lambda x: x.add_(1.0), lambda x: x.copy_(0.0), lambda x: x[3:].zero_(), lambda x: np.asarray(memoryview(x)).fill(5.0)]
)
def test_a_write_to_an_operand_stores_the_value_first(change):
    x, w = ones(1000), ones(1000, grad=True)
    y = (x * 2.0 + 1.0) * w
    tx.eval(y)
    assert tx._core.pending_count() >= 2
    change(x)
    y.sum().backward()
    assert w.grad.tolist() == [3.0] * 1000


def test_an_operand_that_loses_its_owner_gives_its_memory():
    w = ones(grad=True)
    x = ones()
    y = (x * 0.5) * w
    tx.eval(y)
    before = live_bytes()
    del x
    z = tx.zeros(1) + 1.0  # the next op stores what x was kept for, in the memory of x
    tx.eval(z)
    assert live_bytes() <= before + 64
    y.sum().backward()
    assert w.grad[:5].tolist() == [0.5] * 5


def test_long_chains_are_stored_every_so_often():
    x = ones(1000, grad=True)
    tx.eval(x)
    with tx.memory.measure() as m:
        y = chain(x, 60)
    y.sum().backward()
    with tx.deferred(False), tx.memory.measure() as eager:
        x2 = ones(1000, grad=True)
        y = chain(x2, 60)
    assert 6 * 4000 <= m.bytes < eager.bytes / 3  # sixteen ops at most are done again
    y.sum().backward()
    assert x.grad.tolist() == x2.grad.tolist()


def test_many_values_that_wait_for_backward_are_bounded():
    w = ones(16, grad=True)
    losses = [(tx.square(w * float(k)) * 0.5).sum() for k in range(3000)]
    assert tx._core.pending_count() < 2000
    total = losses[0]
    for l in losses[1:]:
        total = total + l
    total.backward()


def test_eager_evaluation_keeps_every_value():
    x = ones(1000, grad=True)
    with tx.deferred(False):
        before = live_bytes()
        y = chain(x)
        assert live_bytes() - before >= 3 * 4000
    y.sum().backward()


def test_what_takes_long_is_stored():
    x = ones(1000, grad=True)
    tx.eval(x)
    with tx.memory.measure() as m:
        y = tx.exp(tx.tanh(x)) * 2.0
    assert m.bytes == 3 * 4000 and y.requires_grad


def test_backward_reuses_the_memory_that_it_frees(device):
    w = ones(device=device, grad=True)
    y = w
    for _ in range(6):
        y = tx.exp(y * 0.1)
        tx.eval(y)
    loss = y.sum()
    del y
    with tx.memory.measure() as m:
        loss.backward()
    # the gradient itself; everything else lies in memory that backward has freed
    assert m.bytes <= 2 * 16 * MIB
    assert w.grad.is_unique()


def test_a_weight_that_is_used_often_needs_one_sum():
    w, x = tx.ones((256, 256)).requires_grad_(), tx.ones((1, 256))
    h, losses = x, []
    for _ in range(40):
        losses.append((h @ w).sum() * 1e-3)
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    live = live_bytes()
    tx.memory.reset_peak()
    total.backward()
    assert tx.memory.stats("cpu")["peak"] - live < 5 * 4 * 256 * 256
    np.testing.assert_allclose(np.asarray(w.grad), np.full((256, 256), 0.04), rtol=1e-5)


def test_a_second_gradient_is_added_in_place(device):
    w = ones(device=device, grad=True)
    (w * 2.0).sum().backward()
    address = w.grad.storage.address
    (w * 3.0).sum().backward()
    assert w.grad.storage.address == address and w.grad[0].item() == 5.0


def test_training_steps_do_not_grow(device):
    w, b = ones(1000, device, True), ones(1000, device, True)
    x = ones(1000, device)

    def step():
        ((w * x + b) ** 2.0).mean().backward()
        with tx.no_grad():
            for p in (w, b):
                p.sub_(0.1 * p.grad)
                p.grad = None

    step()
    gc.collect()
    live, count = tx.memory.stats(device)["live"], tx._core.storage_count()
    for _ in range(50):
        step()
    gc.collect()
    assert tx.memory.stats(device)["live"] == live and tx._core.storage_count() == count


def test_no_cycles_hold_the_graph(device):
    """Values go with the last handle, without the cycle collector."""
    gc.collect()
    gc.disable()
    try:
        live = tx.memory.stats(device)["live"]
        w = ones(1000, device, True)
        y = tx.tanh(tx.exp(w)) * w
        v = y[10:]
        v.mul_(2.0)
        z = tx.softmax(tx.matmul(tx.reshape(y, (10, 100)), tx.reshape(y, (100, 10))))
        z[0].add_(1.0)
        tx.eval(y, z)
        assert tx.memory.stats(device)["live"] > live
        del w, y, v, z
        assert tx.memory.stats(device)["live"] == live
        w = ones(1000, device, True)
        (g,) = autograd.grad(tx.tanh(tx.exp(w)).sum(), w, create_graph=True)
        g.sum().backward()
        del w, g
        assert tx.memory.stats(device)["live"] == live
    finally:
        gc.enable()


def test_explanations_say_what_keeps_a_value():
    def reason_of(f):
        with tx.memory.record() as r:
            tx.eval(f())
        return r.blocks[-1].reason

    x, w = ones(1000), ones(1000, grad=True)
    y = x * w
    tx.eval(y)
    key = [x]
    del x
    assert reason_of(lambda: key.pop() + 1.0) == "saved by multiply for the gradient of w"
    z = tx.exp(w * 1.0)
    tx.eval(z)
    key.append(z)
    del z
    assert reason_of(lambda: key.pop() + 1.0) == "saved by exp for the gradient of operand 1"
    m, v = tx.ones((8, 8)), tx.ones(8).requires_grad_()
    n = m @ v
    key.append(m)
    del m
    assert reason_of(lambda: key.pop() + 1.0) == "saved by matmul for a gradient" and n.requires_grad and y.requires_grad


def test_printing_does_not_copy_what_is_saved():
    x, w = tx.ones(1000), tx.ones(1000).requires_grad_()
    y = x * w
    tx.eval(y)
    with tx.memory.measure() as m:
        assert "tensor" in repr(x) and x.numpy(copy=True).flags.writeable
    assert m.bytes == 0
    y.sum().backward()
