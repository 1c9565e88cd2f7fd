"""Cross entropy on metal: one kernel over the rows each way, against NumPy in double and against the CPU; late errors."""

import numpy as np
import pytest

import tensorx as tx
from tensorx.metal import indexing, rows

F = tx.nn.functional
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def reference(x, target, g):
    """(losses, gradient of their sum times g) in double, classes along axis 1."""
    x = np.moveaxis(x.astype(float), 1, -1)
    shifted = x - x.max(-1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    hot = np.eye(x.shape[-1])[target]
    return -(logp * hot).sum(-1), np.moveaxis((np.exp(logp) - hot) * g[..., None], -1, 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(5, 10), (3, 16), (4, 17), (2, 1000), (300, 3), (2, 5, 7), (2, 20, 3, 4)], ids=str)
def test_losses_and_gradients(on_device, shape, dtype):
    rng = np.random.default_rng(0)
    x = tx.asarray((rng.normal(size=shape) * 3).astype(np.float32)).astype(dtype)
    exact = x.astype("float32").numpy().copy()
    target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    g = tx.asarray(rng.normal(size=target.shape).astype(np.float32)).astype(dtype)
    loss = F.cross_entropy(x.requires_grad_(), tx.asarray(target), reduction="none")
    assert loss.dtype is x.dtype
    losses, dx = reference(exact, target, g.astype("float32").numpy())
    near = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(loss.detach().astype("float32").numpy(), losses, **near)
    loss.backward(g)
    np.testing.assert_allclose(x.grad.astype("float32").numpy(), dx, **near)


def test_views_single_rows_and_gradients_of_one_number(on_device):
    rng = np.random.default_rng(1)
    base = rng.normal(size=(6, 8)).astype(np.float32)
    x, target = tx.asarray(base).requires_grad_(), rng.integers(0, 6, 4)
    F.cross_entropy(x.T[::2], tx.asarray(target)).backward()
    want = np.zeros_like(base)
    want[:, ::2] = reference(base.T[::2], target, np.full(4, 0.25))[1].T
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-5, atol=1e-6)
    one = F.cross_entropy(tx.asarray(base[0]), tx.asarray(3))
    assert np.isclose(one.item(), reference(base[:1], np.array([3]), np.ones(1))[0][0], rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"ignore_index": 2}, {"weight": True}, {"label_smoothing": 0.1}, {"weight": True, "ignore_index": 0},
                                     {"reduction": "sum"}], ids=str)  # fmt: skip
def test_the_same_as_on_the_cpu(metal, options):
    def run(device):
        rng = np.random.default_rng(2)
        with tx.device(device):
            x = tx.asarray(rng.normal(size=(40, 5)).astype(np.float32)).requires_grad_()
            w = {"weight": tx.asarray(rng.uniform(1, 2, 5).astype(np.float32))} if "weight" in options else {}
            loss = F.cross_entropy(x, tx.asarray(rng.integers(0, 5, 40)), **{**options, **w})
            (g,) = tx.autograd.grad(loss, [x], create_graph=True)
            (h,) = tx.autograd.grad((g * g).sum(), [x])
            loss = loss.detach()
            return loss.item(), g.detach().numpy(), h.numpy()

    for a, b in zip(run("metal"), run("cpu")):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_infinities_and_nan(on_device):
    x = np.zeros((4, 20), np.float32)
    x[0, 3], x[1, 3], x[2, :], x[3, 5] = -np.inf, np.inf, -np.inf, np.nan
    loss = F.cross_entropy(tx.asarray(x), tx.asarray([3, 0, 1, 0]), reduction="none").numpy()
    assert loss[0] == np.inf and np.isnan(loss[1:]).all()


@pytest.mark.metal
def test_a_loss_is_few_dispatches_and_waits_for_nothing(metal):
    with tx.device("metal"), tx.deferred(True):
        for k, shape in enumerate(((64, 30), (17, 50))):
            rng = np.random.default_rng(k)
            x = tx.asarray(rng.normal(size=shape).astype(np.float32)).requires_grad_()
            t = tx.asarray(rng.integers(0, shape[1], shape[0]))
            tx.eval(x, t)
            before = tx.metal.stats()
            loss = F.cross_entropy(x, t)
            with tx.memory.measure() as m:
                loss.backward()
            tx.eval(x.grad, loss)
            after = tx.metal.stats()
            assert after["dispatches"] - before["dispatches"] <= 9 and after["waits"] == before["waits"]
            assert after["host_ops"] == before["host_ops"]
            assert k == 0 or after["compiled"] == before["compiled"]
            assert m.bytes < 2 * x.nbytes  # the gradient, and numbers per row


@pytest.mark.metal
@pytest.mark.parametrize("bad", [-1, 7, 1 << 40])
def test_a_class_out_of_range_is_told_at_the_next_wait(metal, bad):
    with tx.device("metal"):
        x, t = tx.zeros((3, 7)), tx.asarray([1, bad, 2])
        for make in (lambda: F.cross_entropy(x, t), lambda: F.nll_loss(x, t), lambda: F.cross_entropy(x, t, label_smoothing=0.5)):
            with pytest.raises(IndexError, match="out of range for"):
                make().item()
        assert np.isclose(F.cross_entropy(x, tx.asarray([1, bad, 2]), ignore_index=bad).item(), np.log(7))


@pytest.mark.parametrize("bad", [-1, 9, None])
def test_the_kernel_reads_no_class_that_is_none(gpu, bad):
    rng = np.random.default_rng(3)
    x, target = rng.normal(size=(4, 9)).astype(np.float32), np.array([0, 8, 3, 5])
    losses, dx = reference(x, target, np.ones(4))
    if bad is not None:
        target[2], losses[2] = bad, 0
    status = indexing.Status(gpu.inst)
    values, classes, out = gpu.put(x, pad=3), gpu.put(target, pad=2), gpu.empty((4,), "float32", pad=1)
    rows.class_loss(gpu.inst, values, 1, classes, out, status, IndexError("bad class"))
    np.testing.assert_allclose(gpu.get(out), losses, rtol=1e-5)
    if bad is None:
        status.check()
        grad = gpu.empty((4, 9), "float32", pad=5)
        rows.class_loss_backward(gpu.inst, values, 1, classes, gpu.put(np.ones(4, np.float32), pad=1), grad)
        np.testing.assert_allclose(gpu.get(grad), dx, rtol=1e-5, atol=1e-6)
    else:
        with pytest.raises(IndexError, match="bad class"):
            status.check()
    assert not status.pending()


@pytest.mark.parametrize("ignored", [-100, 300, 1])
def test_targets_of_small_unsigned_integers(device, ignored):
    """ignore_index need not be a value of the target's dtype."""
    x = np.random.default_rng(8).normal(size=(4, 5)).astype(np.float32)
    target = np.array([0, 1, 4, 1], np.uint8)
    kept = target != ignored
    losses = reference(x, target, np.zeros(4))[0]
    with tx.device(device):
        t = tx.asarray(target)
        assert np.isclose(F.cross_entropy(tx.asarray(x), t, ignore_index=ignored).item(), losses[kept].mean())
        assert np.isclose(F.nll_loss(tx.log_softmax(tx.asarray(x), axis=1), t, ignore_index=ignored).item(), losses[kept].mean())
        with pytest.raises(IndexError, match="out of range for 5 classes"):
            F.cross_entropy(tx.asarray(x), tx.asarray(np.array([0, 1, 5, 1], np.uint8)), ignore_index=ignored).item()


@pytest.mark.metal
@pytest.mark.parametrize("here, there", [("metal", "cpu"), ("cpu", "metal")])
def test_targets_and_weights_of_another_device(metal, here, there):
    x, target, weight = (t.to(here) for t in (tx.zeros((2, 3), device="cpu"), tx.asarray([0, 2], device="cpu"), tx.ones(3, device="cpu")))
    for make in (F.cross_entropy, F.nll_loss):
        with pytest.raises(tx.DeviceMismatchError, match=r"input is on .* and the target on .*move the target"):
            make(x, target.to(there))
        with pytest.raises(tx.DeviceMismatchError, match=r"input is on .* and the weight on .*move the weight"):
            make(x, target, weight=weight.to(there))
