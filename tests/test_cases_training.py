"""Cases and scenarios of training: optimizer state, clipping, seeds, models that are moved, snapshots."""

import warnings

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn, optim


def problem(device="cpu", n=16):
    x = np.random.default_rng(0).standard_normal((n, 4)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32) + 0.25
    return tx.asarray(x, device=device), tx.asarray(y, device=device)


def start_values(model):
    """The same start for every way of making the model."""
    with tx.no_grad():
        model.weight.copy_(tx.asarray([[0.1, 0.2, -0.1, 0.05]], device=model.weight.device))
        model.bias.copy_(tx.asarray([0.0], device=model.bias.device))
    return model


def train(model, optimizer, device, steps=5, before=None):
    """Losses of some steps; in each both gradients have to be there."""
    x, y = problem(device)
    losses = []
    for k in range(steps):
        if before is not None:
            before(k)
            x, y = problem(str(model.weight.device))
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        assert optimizer.last_step[:2] == (2, 2)
        losses.append(loss.item())
    return losses


REFERENCE = []


def reference():
    if not REFERENCE:
        model = start_values(nn.Linear(4, 1))
        REFERENCE.append(train(model, optim.Adam(model.parameters(), lr=0.1), "cpu"))
    return REFERENCE[0]


# ---- OPT, CLIP, RNG ---------------------------------------------------------------------


def test_opt_1_transposed_parameter(device):
    p = tx.reshape(tx.arange(6, dtype=tx.float32, device=device), (2, 3)).T.requires_grad_()
    p.grad = tx.ones((3, 2), device=device)
    optim.Rprop([p], lr=0.1).step()
    np.testing.assert_allclose(p.detach().to("cpu").numpy(), [[-0.1, 2.9], [0.9, 3.9], [1.9, 4.9]], rtol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Lion"])
@pytest.mark.parametrize("view", ["transposed", "every second", "reversed", "row", "0-d", "empty"])
def test_opt_1_every_layout_is_updated(device, name, view):
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    pick = {
        "transposed": lambda t: t.T, "every second": lambda t: t[::2, ::2], "reversed": lambda t: t[::-1], "row": lambda t: t[1], "0-d": lambda t: t[1, 1, ...],
        "empty": lambda t: t[:0],
    }[view]  # fmt: skip
    whole = tx.asarray(base, device=device)
    p = pick(whole.T.T if view != "transposed" else whole).requires_grad_()
    dense = tx.asarray(np.array(pick(base)), device=device).requires_grad_()
    o = getattr(optim, name)([p, dense], lr=0.5)
    for _ in range(3):
        p.grad, dense.grad = tx.ones(p.shape, device=device), tx.ones(p.shape, device=device)
        o.step()
    np.testing.assert_array_equal(p.detach().to("cpu").numpy(), dense.detach().to("cpu").numpy())
    expected = base.copy()
    after = whole.to("cpu").numpy(copy=True)
    changed = np.zeros_like(base, bool)
    pick(changed)[...] = True
    np.testing.assert_array_equal(after[~changed], expected[~changed])
    if p.size:
        assert (after[changed] != expected[changed]).all()


def test_opt_3_resume_from_a_checkpoint(tmp_path):
    def steps(p, o, count):
        for _ in range(count):
            o.zero_grad()
            (p * p).backward()
            o.step()

    p = tx.asarray(1.0, dtype=tx.float64).requires_grad_()
    o = optim.Adam([p], lr=0.1)
    steps(p, o, 4)
    assert p.item() == pytest.approx(0.6039390605737459, abs=1e-15)
    q = tx.asarray(1.0, dtype=tx.float64).requires_grad_()
    o = optim.Adam([q], lr=0.1)
    steps(q, o, 2)
    tx.train.save_checkpoint(tmp_path / "a", {"p": q, "optimizer": o.state_dict()})
    saved = tx.train.load_checkpoint(tmp_path / "a")
    r = saved["p"].requires_grad_()
    o = optim.Adam([r], lr=0.1)
    o.load_state_dict(saved["optimizer"])
    steps(r, o, 2)
    assert r.item() == p.item()


def test_clip_1_infinite_gradient(device):
    def gradients():
        ps = [tx.zeros((), device=device).requires_grad_() for _ in range(4)]
        for p, g in zip(ps, (float("inf"), 1.0, 1.0, 1.0)):
            p.grad = tx.asarray(g, device=device)
        return ps

    ps = gradients()
    with pytest.raises(tx.GradientError, match="clip_grad_norm_: the norm of the gradients is inf.*nothing was changed"):
        optim.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    assert [p.grad.item() for p in ps] == [float("inf"), 1, 1, 1]
    assert optim.clip_grad_norm_(ps, 1.0).item() == float("inf")
    got = [p.grad.item() for p in ps]
    assert got[0] != got[0] and got[1:] == [0, 0, 0]


def test_clip_zero_and_nan(device):
    p = tx.zeros(3, device=device).requires_grad_()
    p.grad = tx.zeros(3, device=device)
    assert optim.clip_grad_norm_([p], 1.0).item() == 0 and p.grad.tolist() == [0, 0, 0]
    assert optim.clip_grad_norm_([], 1.0).item() == 0
    p.grad = tx.asarray([float("nan"), 1.0, 2.0], device=device)
    norm = optim.clip_grad_norm_([p], 1.0).item()
    assert norm != norm


def test_rng_1_dropout_after_seeding_again(device):
    x = tx.ones((50, 7), device=device)
    tx.manual_seed(0)
    first, second = nn.functional.dropout(x, 0.3), nn.functional.dropout(x, 0.3)
    tx.manual_seed(0)
    again = nn.functional.dropout(x, 0.3)
    assert first.tolist() == again.tolist() != second.tolist()
    assert set(np.unique(first.to("cpu").numpy())) == {np.float32(0), np.float32(1) / np.float32(0.7)}


# ---- seven ways of moving a model ----------------------------------------------------------


def built_there(device):
    with tx.device(device):
        return nn.Linear(4, 1)


def built_here(device):
    return nn.Linear(4, 1).to(device)


def read_first(device):
    model = nn.Linear(4, 1)
    assert len(model.weight.tolist()[0]) == 4 and model.bias.tolist()
    model(tx.ones((1, 4)))
    return model.to(device)


def lazy_and_unread(device):
    model = nn.LazyLinear(1).to(device)
    model(tx.ones((1, 4), device=device))
    return model


def forked(device):
    return nn.Linear(4, 1).fork(device)


def loaded_under_inference_mode(device):
    model = nn.Linear(4, 1)
    state = nn.Linear(4, 1).state_dict()
    with tx.inference_mode():
        model.load_state_dict(state)
        model = model.to(device)
    return model


def frozen_then_trained(device):
    model = nn.Linear(4, 1).requires_grad_(False).to(device)
    return model.requires_grad_()


WAYS = [built_there, built_here, read_first, lazy_and_unread, forked, loaded_under_inference_mode, frozen_then_trained]


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
def test_seven_ways_of_moving_a_model_keep_it_trainable(device, way):
    model = way(device)
    for p in model.parameters():
        assert p.requires_grad and p.is_leaf and p.device is tx.device(device)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    losses = train(start_values(model), optimizer, device)
    assert all(a > b for a, b in zip(losses, losses[1:]))
    np.testing.assert_allclose(losses, reference(), rtol=1e-4)


@pytest.mark.parametrize("moved", [0, 1, 3])
def test_moved_between_steps_with_its_optimizer(device, moved):
    model = start_values(nn.Linear(4, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    losses = train(model, optimizer, "cpu", before=lambda k: model.to(device) if k == moved else None)
    np.testing.assert_allclose(losses, reference(), rtol=1e-4)
    for p in model.parameters():
        assert p.device is tx.device(device)
        assert all(v.device is p.device for v in optimizer.state[p].values() if isinstance(v, tx.Tensor))


def test_loss_before_the_move_backward_after_it(device):
    model = start_values(nn.Linear(4, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    x, y = problem()
    loss = ((model(x) - y) ** 2).mean()
    model.to(device)
    loss.backward()
    for p in model.parameters():
        assert p.grad.device is p.device is tx.device(device)
    optimizer.step()
    assert loss.item() == pytest.approx(reference()[0], rel=1e-5)
    x, y = problem(device)
    assert ((model(x) - y) ** 2).mean().item() == pytest.approx(reference()[1], rel=1e-4)


def test_tied_weights_stay_tied_and_frozen_stays_frozen(device):
    a, b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    b.weight = a.weight
    model = nn.Sequential(a, b)
    model.to(device)
    assert a.weight is b.weight and len(list(model.parameters())) == 1
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model(tx.ones((1, 3), device=device)).sum().backward()
    optimizer.step()
    assert a.weight.tolist() == b.weight.tolist()
    frozen = nn.Linear(3, 3).requires_grad_(False).fork(device)
    assert not any(p.requires_grad for p in frozen.parameters())


def test_moved_once_before_a_loop_of_two_backwards(device):
    w = tx.ones(3).requires_grad_()
    w2 = w.to(device)
    (w2 * 2.0).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    with pytest.raises(tx.GradientError, match=r"to at .*test_cases_training\.py:\d+.*inside|to at .*test_cases_training\.py:\d+"):
        (w2 * w2).sum().backward()


def test_optimizers_refuse_the_moved_copy(device):
    w = tx.ones(3).requires_grad_()
    with pytest.raises(ValueError, match="not a leaf"):
        optim.Adam([w.to(device)])


def test_steps_without_gradients(device):
    model = nn.Linear(4, 1).to(device)
    optimizer = optim.Adam(model.named_parameters(), lr=0.1)
    before = model.weight.tolist()
    with pytest.raises(tx.GradientError, match="none of the 2 parameters"):
        optimizer.step()
    assert model.weight.tolist() == before
    model.bias.sum().backward()
    with pytest.warns(UserWarning, match="weight"):
        optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert optimizer.last_step == (1, 2, ("weight",)) and model.weight.tolist() == before


def test_gradient_through_to(device):
    w = tx.asarray([4.0, 2.0]).requires_grad_()
    (w.to(device) * tx.asarray([4.0, 2.0], device=device)).sum().backward()
    assert w.grad.tolist() == [4, 2] and w.grad.device is tx.device("cpu")


def test_two_layers_on_two_devices(device):
    tx.manual_seed(0)
    a, b = nn.Linear(4, 3), nn.Linear(3, 1)
    x, y = problem()
    ((b(a(x)) - y) ** 2).mean().backward()
    expected = [p.grad.tolist() for p in (*a.parameters(), *b.parameters())]
    for p in (*a.parameters(), *b.parameters()):
        p.grad = None
    b.to(device)
    ((b(a(x).to(device)) - y.to(device)) ** 2).mean().backward()
    for p, g in zip((*a.parameters(), *b.parameters()), expected):
        assert p.grad.device is p.device
        np.testing.assert_allclose(p.grad.to("cpu").numpy(), g, rtol=1e-4, atol=1e-5)


# ---- snapshots ------------------------------------------------------------------------------


def test_snapshots_stay_and_restore_the_parameter(device):
    w = nn.Parameter(tx.ones(4, device=device))

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = w

    holder = Holder()
    with tx.no_grad():
        snapshots = {
            "copy": w.copy(), "clone": w.clone(), "expression": w * 1.0 + 0.0, "to": w.to("cpu"), "numpy": w.detach().to("cpu").numpy(copy=True),
            "tolist": w.tolist(), "state_dict": holder.state_dict()["w"],
        }  # fmt: skip
    optimizer = optim.AdamW([w], lr=0.1)
    (w * w).sum().backward()
    optimizer.step()
    with tx.no_grad():
        w.copy_(w * 0.5)
    assert 0.4 < w[0].item() < 0.5
    for name, value in snapshots.items():
        value = value if isinstance(value, list) else value.tolist()
        assert value == [1, 1, 1, 1], name
    with tx.no_grad():
        w.copy_(snapshots["copy"])
    assert w.tolist() == [1, 1, 1, 1] and w.requires_grad and w.is_leaf


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        g = tx.random.Generator(3)
        self.w1 = nn.Parameter(tx.random.normal(0.0, 0.3, (8, 8), generator=g))
        self.scale = nn.Parameter(tx.ones(8))
        self.w2 = nn.Parameter(tx.random.normal(0.0, 0.3, (8, 1), generator=g))

    def forward(self, x):
        h = x @ self.w1
        h = h * tx.rsqrt((h * h).mean(axis=-1, keepdims=True) + 1e-6) * self.scale
        return h @ self.w2


def trained(device, steps=300):
    model = Normed().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    x = tx.random.normal(0.0, 1.0, (16, 8), generator=tx.random.Generator(4)).to(device)
    y = (x * x).sum(axis=1, keepdims=True)
    with tx.no_grad():
        before = model.w1.copy()
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    with tx.no_grad():
        return tx.max(tx.abs(model.w1 - before)).item()


def test_the_change_that_a_snapshot_shows(device):
    change = trained(device)
    assert change > 0.01
    assert change == pytest.approx(trained("cpu"), rel=0.02)


# ---- state dicts of the whole ---------------------------------------------------------------------


def test_a_model_with_its_optimizer_goes_is_taken_up_from_its_state(device):
    def build():
        tx.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).to(device)
        return model, optim.AdamW(model.parameters(), lr=0.05)

    def steps(model, optimizer, count):
        x, y = problem(device)
        for _ in range(count):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()

    whole, o = build()
    steps(whole, o, 6)
    model, o = build()
    steps(model, o, 3)
    state = {"model": model.state_dict(), "optimizer": o.state_dict()}
    steps(model, o, 2)  # the dictionaries are independent
    other, p = build()
    other.load_state_dict(state["model"])
    p.load_state_dict(state["optimizer"])
    steps(other, p, 3)
    for a, b in zip(whole.parameters(), other.parameters()):
        assert a.tolist() == b.tolist()
