"""Optimizers: numerics beside PyTorch's, memory, state, and errors that name the cause."""

import copy
import warnings

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn, optim
from tensorx.optim.optimizer import Optimizer

SHAPES = [(7, 5), (33,), (), (3, 4, 5), (0, 3)]

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "maximize": True, "betas": (0.8, 0.9), "eps": 1e-3}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Rprop", {}),
]
IDS = [f"{name}-{'-'.join(k for k in options)}" for name, options in CASES]
OURS = [*CASES, ("Lion", {"lr": 0.01, "weight_decay": 0.1})]


def values(rng, dtype, steps=8):
    start = [rng.standard_normal(s).astype(dtype) for s in SHAPES]
    return start, [[rng.standard_normal(s).astype(dtype) for s in SHAPES] for _ in range(steps)]


def leaf(a, device="cpu"):
    return tx.asarray(a, device=device).requires_grad_()


def give(params, grads, device="cpu"):
    for p, g in zip(params, grads):
        p.grad = tx.asarray(g, device=device)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_numerics_are_those_of_pytorch(name, options, dtype, rng):
    torch = pytest.importorskip("torch")
    start, grads = values(rng, dtype)
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start]
    mine = [leaf(a) for a in start]
    a, b = getattr(torch.optim, name)(theirs, **options), getattr(optim, name)(mine, **options)
    for g in grads:
        for p, x in zip(theirs, g):
            p.grad = torch.tensor(x)
        give(mine, g)
        a.step()
        b.step()
    # NAdam's product of momenta is a float32 tensor in PyTorch
    tolerance = 3e-6 if dtype == "float32" else 2e-8 if name == "NAdam" else 1e-12
    for p, q in zip(theirs, mine):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=tolerance, atol=tolerance)
    # the state has PyTorch's keys, and each loads the other's
    theirs_state, state = a.state_dict(), b.state_dict()
    if name != "SGD" or "momentum" in options:
        assert {k: set(v) for k, v in state["state"].items()} == {k: set(v) for k, v in theirs_state["state"].items()} or name == "RMSprop"
    b.load_state_dict(theirs_state)
    for k, s in b.state_dict()["state"].items():
        for key, value in s.items():
            other = theirs_state["state"][k].get(key)
            if isinstance(value, tx.Tensor):
                np.testing.assert_array_equal(value.numpy(), other.numpy())
            elif other is not None:
                assert value == pytest.approx(float(other))


def test_lion_by_hand():
    w = leaf(np.array([1.0, -2.0]))
    o = optim.Lion([w], lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    m, p = np.zeros(2), np.array([1.0, -2.0])
    for g in (np.array([0.3, -0.1]), np.array([-5.0, 0.2])):
        w.grad = tx.asarray(g)
        o.step()
        p = p * (1 - 0.1 * 0.5) - 0.1 * np.sign(0.9 * m + 0.1 * g)
        m = 0.99 * m + 0.01 * g
        np.testing.assert_allclose(w.detach().numpy(), p, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, options", [c for c in CASES if "Adam" in c[0] and c[0] in ("Adam", "AdamW") or c[0] == "SGD"])
def test_kernel_and_formula_give_the_same_bits(name, options, dtype, rng, monkeypatch):
    start, grads = values(rng, dtype)
    grads[2][0][0, 0] = np.nan
    grads[3][1][0] = np.inf
    results = []
    for formula in (False, True):
        params = [leaf(a) for a in start]
        o = getattr(optim, name)(params, **options)
        if formula:
            monkeypatch.setattr(tx._core, "adam_steps", lambda columns, *a: list(range(len(columns[0]))))
            monkeypatch.setattr(tx._core, "sgd_steps", lambda columns, *a: list(range(len(columns[0]))))
        for g in grads:
            give(params, g)
            o.step()
        results.append([p.detach().numpy(copy=True).tobytes() for p in params])
    assert results[0] == results[1]


@pytest.mark.parametrize("name, options", OURS, ids=[*IDS, "Lion"])
def test_a_step_allocates_nothing(device, name, options):
    params = [tx.ones(n, device=device).requires_grad_() for n in (5, 3000, 70000)]
    o = getattr(optim, name)(params, **options)
    for _ in range(3):
        for p in params:
            p.grad = tx.ones(p.shape, device=device) * 0.1
            tx.eval(p.grad)
        with tx.deferred(True), tx.memory.measure() as m:
            o.step()
    assert m.bytes == 0


@pytest.mark.parametrize("name, options", OURS, ids=[*IDS, "Lion"])
def test_layouts_and_devices(device, name, options, rng):
    """A transposed parameter, a view of a larger one, gradients in another order: as the contiguous ones (opt-1)."""
    a = rng.standard_normal((6, 4)).astype("float32")
    grads = [rng.standard_normal((6, 4)).astype("float32") for _ in range(4)]
    plain = leaf(a, device)
    turned = tx.asarray(np.ascontiguousarray(a.T), device=device).T.requires_grad_()
    wide = tx.asarray(np.concatenate([a, a], axis=1), device=device)
    part = wide[:, :4].requires_grad_()
    o = getattr(optim, name)([plain, turned, part], **options)
    for g in grads:
        plain.grad = tx.asarray(g, device=device)
        turned.grad = tx.asarray(g, device=device)
        part.grad = tx.asarray(np.ascontiguousarray(g.T), device=device).T
        o.step()
    np.testing.assert_array_equal(turned.detach().to("cpu").numpy(), plain.detach().to("cpu").numpy())
    np.testing.assert_array_equal(part.detach().to("cpu").numpy(), plain.detach().to("cpu").numpy())
    np.testing.assert_array_equal(wide.to("cpu").numpy()[:, 4:], a)
    assert not np.array_equal(plain.detach().to("cpu").numpy(), a)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype):
    for o in (optim.SGD, optim.AdamW, optim.Adagrad):
        w = tx.ones(10, dtype=getattr(tx, dtype)).requires_grad_()
        step = o([w], lr=0.25)
        w.grad = tx.ones(10, dtype=w.dtype)
        step.step()
        assert w.dtype.name == dtype
        assert w.astype(tx.float32).detach().tolist() == pytest.approx([0.75] * 10, abs=0.01)


def test_pending_readers_see_the_values_before_the_step():
    for name in ("SGD", "AdamW", "RMSprop"):
        w = tx.ones(1000).requires_grad_()
        o = getattr(optim, name)([w], lr=0.5)
        w.grad = tx.ones(1000)
        before = w.detach() * 2.0
        snapshot = w.detach().copy()
        seen = w.detach().alias()
        o.step()
        assert before[0].item() == 2.0 and snapshot[999].item() == 1.0
        assert seen[0].item() == w[0].item() != 1.0  # an alias is the parameter


def test_state_that_somebody_looks_at():
    """A copy of a moment stays, a view of it goes along, whatever way the step takes."""
    for shape in ((4,), (4, 4)):
        w = tx.ones(shape).requires_grad_()
        o = optim.AdamW([w], lr=0.5)
        w.grad = tx.ones(shape)
        o.step()
        m = o.state[w]["exp_avg"]
        pending, view = m * 1.0, m[0:1]
        old = m.flatten()[0].item()
        o.step()
        assert o.state[w]["exp_avg"] is m
        assert pending.flatten()[0].item() == old
        assert view.flatten()[0].item() == m.flatten()[0].item() != old


def test_numpy_views_are_written():
    a = np.ones(8, np.float32)
    w = tx.from_numpy(a)
    w.requires_grad_()
    o = optim.AdamW([w], lr=0.5)
    w.grad = tx.ones(8)
    o.step()
    assert a[0] == w[0].item() != 1


# ---- what users get wrong ----------------------------------------------------------------


def test_a_copy_is_no_parameter(device):
    w = tx.ones(3).requires_grad_()
    with pytest.raises(ValueError, match=r"not a leaf: it was computed by (to|copy) at .*test_optim\.py:\d+.*module\.to\(\)"):
        optim.Adam([w.to(device)])
    with pytest.raises(ValueError, match="not a leaf"):
        optim.Adam([w * 2.0])


def test_double_registration():
    w, v = tx.ones(3).requires_grad_(), tx.ones(3).requires_grad_()
    with pytest.raises(ValueError, match=r"given twice.*stepped twice"):
        optim.SGD([w, w], lr=0.1)
    o = optim.SGD([{"params": [w], "lr": 0.5}, {"params": [v]}], lr=0.1)
    assert [g["lr"] for g in o.param_groups] == [0.5, 0.1]
    with pytest.raises(ValueError, match="given twice"):
        o.add_param_group({"params": w})
    assert len(o.param_groups) == 2
    with pytest.raises(ValueError, match="given twice, before as a"):
        optim.SGD([("a", w), ("b", w)], lr=0.1)


def test_wrong_arguments():
    w = tx.ones(3).requires_grad_()
    for wrong in (lambda: optim.SGD(w, lr=0.1), lambda: optim.SGD([1.0], lr=0.1), lambda: optim.SGD({w}, lr=0.1) and optim.SGD([{"params": {w}}])):
        with pytest.raises(TypeError):
            wrong()
    for wrong in (
        lambda: optim.SGD([], lr=0.1),
        lambda: optim.SGD([w], lr=-1),
        lambda: optim.SGD([w], lr=float("nan")),
        lambda: optim.SGD([w], lr="0.1"),
        lambda: optim.SGD([w], lr=0.1, nesterov=True),
        lambda: optim.Adam([w], betas=(0.9, 1.0)),
        lambda: optim.Adam([w], eps=-1e-8),
        lambda: optim.Adam([tx.arange(3)]),
        lambda: optim.Adadelta([w], rho=1.5),
        lambda: optim.Rprop([w], etas=(1.2, 1.3)),
        lambda: optim.LBFGS([w], line_search_fn="armijo"),
    ):
        with pytest.raises(ValueError):
            wrong()


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(tx.ones(3))
        self.b = nn.Parameter(tx.ones(3))


def test_no_gradient_names_the_cause():
    m = Two()
    o = optim.Adam(m.named_parameters())
    with pytest.raises(tx.GradientError, match=r"none of the 2 parameters.*backward\(\) was never called"):
        o.step()
    (m.a * m.b).sum().backward()
    o.zero_grad()
    with pytest.raises(tx.GradientError, match=r"zero_grad\(\) was called after backward"):
        o.step()
    o.zero_grad()
    tx.ones(3).requires_grad_().sum().backward()
    with pytest.raises(tx.GradientError, match="does not depend on them"):
        o.step()
    m.requires_grad_(False)
    with pytest.raises(tx.GradientError, match="all are frozen.*a, b"):
        o.step()
    m.requires_grad_()
    other = copy.deepcopy(m)
    (other.a * other.b).sum().backward()
    with pytest.raises(tx.GradientError, match="another Two with parameters of the same shapes has gradients"):
        o.step()
    assert o.last_step == (0, 2, ("a", "b"))
    assert m.a.tolist() == [1, 1, 1]


def test_some_gradients_warn_once():
    m = Two()
    o = optim.SGD(m.named_parameters(), lr=0.5)
    m.a.sum().backward()
    with pytest.warns(UserWarning, match=r"1 of 2 parameters have no gradient.*does not depend on them\): b") as caught:
        o.step()
    assert caught[0].filename == __file__
    assert o.last_step == (1, 2, ("b",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o.step()
    assert m.a.tolist() == [0, 0, 0] and m.b.tolist() == [1, 1, 1]
    m.b.requires_grad_(False)
    o = optim.SGD(m.named_parameters(), lr=0.5)
    with pytest.warns(UserWarning, match=r"frozen \(requires_grad is False\): b"):
        o.step()
    m.b.requires_grad_()
    m.b.sum().backward()
    o.step()
    assert o.last_step == (2, 2, ())


def test_parameters_with_their_own_ages(rng):
    """A parameter whose first gradient comes later has its own bias correction."""
    torch = pytest.importorskip("torch")
    a = rng.standard_normal(5).astype("float32")
    mine, theirs = [leaf(a), leaf(a)], [torch.nn.Parameter(torch.tensor(a)) for _ in range(2)]
    o, t = optim.Adam(mine, lr=0.1), torch.optim.Adam(theirs, lr=0.1)
    with pytest.warns(UserWarning):
        for k in range(4):
            g = rng.standard_normal(5).astype("float32")
            for p in range(1 if k < 2 else 2):
                mine[p].grad, theirs[p].grad = tx.asarray(g), torch.tensor(g)
            o.step()
            t.step()
    for p, q in zip(theirs, mine):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=2e-6, atol=1e-6)
    assert [s["step"] for s in o.state_dict()["state"].values()] == [4, 2]


@pytest.mark.metal
def test_parameters_on_two_devices():
    with pytest.warns(UserWarning, match=r"not on one device: 1 on cpu \(a\); 1 on metal"):
        optim.SGD([("a", tx.ones(1).requires_grad_()), ("b", tx.ones(1, device="metal").requires_grad_())], lr=0.1)


def test_step_leaves_everything_when_it_fails():
    w = tx.ones(3).requires_grad_()
    v = tx.from_numpy(np.frombuffer(np.ones(3, np.float32).tobytes(), np.float32)).requires_grad_()
    o = optim.SGD([w, v], lr=0.1)
    w.grad, v.grad = tx.ones(3), tx.ones(3)
    with pytest.raises(tx.InplaceError, match="read-only"):
        o.step()
    assert w.tolist() == [1, 1, 1]


def test_history_is_told_of_the_step():
    """backward() through values that a step has overwritten is an error."""
    for name in ("SGD", "RMSprop"):
        w = tx.ones(3).requires_grad_()
        o = getattr(optim, name)([w], lr=0.1)
        y = (w * w).sum()
        y.backward(retain_graph=True)
        o.step()
        with pytest.raises(tx.GradientError, match="version"):
            y.backward()


# ---- state ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, options", OURS, ids=[*IDS, "Lion"])
def test_resume_gives_the_same_bits(name, options, rng):
    start, grads = values(rng, "float32")

    def run(split):
        params = [leaf(a) for a in start]
        o = getattr(optim, name)(params, **options)
        for k, g in enumerate(grads):
            if k == split:
                params = [leaf(p.detach().numpy(copy=True)) for p in params]
                state = o.state_dict()
                o = getattr(optim, name)(params, **{**options, "lr": 77.0})
                o.load_state_dict(state)
            give(params, g)
            o.step()
        return [p.detach().numpy().tobytes() for p in params]

    assert run(None) == run(3)


def test_state_dict_is_independent():
    w = tx.ones(3).requires_grad_()
    o = optim.Adam([w])
    w.grad = tx.ones(3)
    o.step()
    state, shared = o.state_dict(), o.state_dict(copy=False)
    before = state["state"][0]["exp_avg"].tolist()
    o.step()
    assert state["state"][0]["exp_avg"].tolist() == before
    assert shared["state"][0]["exp_avg"].tolist() == o.state[w]["exp_avg"].tolist() != before
    o.load_state_dict(state)
    o.step()
    assert state["state"][0]["exp_avg"].tolist() == before


def test_load_state_dict_refuses_and_changes_nothing():
    w = tx.ones(3).requires_grad_()
    o = optim.Adam([w], lr=0.5)
    w.grad = tx.ones(3)
    o.step()
    good = o.state_dict()
    for wrong in (
        {},
        {"state": {}, "param_groups": []},
        {"state": {}, "param_groups": [{"params": [0, 1]}]},
        {"state": {0: {"step": 1, "exp_avg": tx.ones(4)}}, "param_groups": good["param_groups"]},
        {"state": {5: {"step": 1}}, "param_groups": good["param_groups"]},
        {"state": {}, "param_groups": [{**good["param_groups"][0], "lr": -1.0}]},
    ):
        with pytest.raises(ValueError):
            o.load_state_dict(wrong)
        assert o.param_groups[0]["lr"] == 0.5 and o.state[w]["step"] == 1


def test_deepcopy_and_hooks():
    m = Two()
    o = optim.SGD(m.named_parameters(), lr=0.5, momentum=0.9)
    calls = []
    handle = o.register_step_pre_hook(lambda *a: calls.append("before"))
    o.register_step_post_hook(lambda *a: calls.append("after"))
    (m.a * m.b).sum().backward()
    o.step()
    handle.remove()
    o.step()
    assert calls == ["before", "after", "after"]
    model, other = copy.deepcopy((m, o))
    assert other.param_groups[0]["params"][0] is model.a
    (model.a * 2.0 + model.b).sum().backward()
    other.step()
    assert m.a.tolist() != model.a.tolist()


def test_own_optimizer_from_a_formula():
    class Signed(Optimizer):
        def begin(self, p, group):
            return {"step": 0, "mean": tx.zeros(p.shape)}

        def formula(self, p, g, s, group):
            mean = 0.5 * s["mean"] + 0.5 * g
            return p - group["lr"] * tx.sign(mean), {"mean": mean}

    w = tx.ones(100000).requires_grad_()
    o = Signed([w], {"lr": 0.25})
    for _ in range(3):
        w.grad = tx.ones(100000)
        tx.eval(w.grad)
        with tx.deferred(True), tx.memory.measure() as m:
            o.step()
    assert w[0].item() == 0.25
    assert m.bytes == 0


def test_closure():
    w = tx.asarray([3.0]).requires_grad_()
    o = optim.SGD([w], lr=0.1)

    def closure():
        o.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with tx.no_grad():
        assert o.step(closure).item() == 9.0
    assert w.item() == pytest.approx(2.4)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_as_pytorch(search):
    torch = pytest.importorskip("torch")

    def rosen(x):
        return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    start = np.array([-1.2, 1.0])
    t, w = torch.nn.Parameter(torch.tensor(start)), leaf(start)
    options = {"lr": 1.0 if search else 1e-2, "max_iter": 12, "line_search_fn": search}
    to, wo = torch.optim.LBFGS([t], **options), optim.LBFGS([w], **options)

    def closure(p, o):
        def run():
            o.zero_grad()
            loss = rosen(p)
            loss.backward()
            return loss

        return run

    for _ in range(3):
        a, b = to.step(closure(t, to)), wo.step(closure(w, wo))
        assert b.item() == pytest.approx(a.item(), rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(w.detach().numpy(), t.detach().numpy(), rtol=1e-6)
    if search:
        np.testing.assert_allclose(w.detach().numpy(), [1, 1], rtol=1e-3)


def test_clipping_as_pytorch(rng):
    torch = pytest.importorskip("torch")
    arrays = [rng.standard_normal(s).astype("float32") for s in SHAPES[:4]]
    for order in (1.0, 2.0, 3.0, float("inf")):
        for most in (0.5, 1e6):
            mine = [leaf(a) for a in arrays]
            theirs = [torch.nn.Parameter(torch.tensor(a)) for a in arrays]
            give(mine, arrays)
            for p, a in zip(theirs, arrays):
                p.grad = torch.tensor(a)
            x = optim.clip_grad_norm_(mine, most, order)
            y = torch.nn.utils.clip_grad_norm_(theirs, most, order)
            assert x.item() == pytest.approx(y.item(), rel=1e-5)
            for p, q in zip(theirs, mine):
                np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-5)


def test_readers_in_other_threads_see_whole_steps():
    import threading

    w = tx.zeros(3_000_000).requires_grad_()
    o = optim.SGD([w], lr=1.0, momentum=0.5)
    w.grad = tx.ones(3_000_000)
    stop = threading.Event()
    failed = []

    def step():
        try:
            while not stop.is_set():
                o.step()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    try:
        for _ in range(30):
            seen = w.detach() * 1.0
            assert tx.min(seen).item() == tx.max(seen).item()
    finally:
        stop.set()
        thread.join()
    assert not failed
