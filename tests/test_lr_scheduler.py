"""Learning-rate schedules beside PyTorch's."""

import pytest

import tensorx as tx
from tensorx import optim
from tensorx.optim import lr_scheduler as S

CASES = {
    "StepLR": {"step_size": 3, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 5, 5, 9], "gamma": 0.3},
    "ExponentialLR": {"gamma": 0.9},
    "ConstantLR": {"factor": 0.25, "total_iters": 4},
    "LinearLR": {"start_factor": 0.2, "total_iters": 6},
    "PolynomialLR": {"total_iters": 8, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 5, "eta_min": 0.01},
    "CosineAnnealingWarmRestarts": {"T_0": 3, "T_mult": 2, "eta_min": 0.01},
    "LambdaLR": {"lr_lambda": lambda n: 0.9**n},
    "MultiplicativeLR": {"lr_lambda": lambda n: 0.5 + 0.1 * (n % 3)},
    "OneCycleLR": {"max_lr": 1.0, "total_steps": 20},
    "OneCycleLR three phases": {"max_lr": 1.0, "epochs": 4, "steps_per_epoch": 5, "three_phase": True, "anneal_strategy": "linear"},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 4},
    "CyclicLR triangular2": {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 3, "step_size_down": 2, "mode": "triangular2"},
    "CyclicLR exp_range": {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9, "cycle_momentum": False},
}


def pair(torch, **options):
    w, p = tx.ones(1).requires_grad_(), torch.nn.Parameter(torch.ones(1))
    w.grad, p.grad = tx.ones(1), torch.ones(1)
    return optim.SGD([w], **options), torch.optim.SGD([p], **options)


def rates(optimizer):
    group = optimizer.param_groups[0]
    return [group["lr"], group["momentum"]]


@pytest.mark.parametrize("name", CASES)
def test_rates_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    options = CASES[name]
    mine, theirs = pair(torch, lr=0.5, momentum=0.8)
    cls = name.split()[0]
    a, b = getattr(S, cls)(mine, **options), getattr(torch.optim.lr_scheduler, cls)(theirs, **options)
    for step in range(20):
        assert rates(mine) == pytest.approx(rates(theirs), rel=1e-9, abs=1e-12), step
        assert a.get_last_lr() == pytest.approx(b.get_last_lr())
        mine.step()
        theirs.step()
        if step < 19:
            a.step()
            b.step()


def test_sequence_and_chain_as_pytorch():
    torch = pytest.importorskip("torch")
    T = torch.optim.lr_scheduler
    mine, theirs = pair(torch, lr=0.5, momentum=0.8)
    a = S.SequentialLR(mine, [S.LinearLR(mine, 0.1, total_iters=4), S.CosineAnnealingLR(mine, 10)], [4])
    b = T.SequentialLR(theirs, [T.LinearLR(theirs, 0.1, total_iters=4), T.CosineAnnealingLR(theirs, 10)], [4])
    for _ in range(14):
        assert rates(mine) == pytest.approx(rates(theirs))
        mine.step(), theirs.step(), a.step(), b.step()
    mine, theirs = pair(torch, lr=0.5, momentum=0.8)
    a = S.ChainedScheduler([S.ConstantLR(mine, 0.1, 3), S.ExponentialLR(mine, 0.9)])
    b = T.ChainedScheduler([T.ConstantLR(theirs, 0.1, 3), T.ExponentialLR(theirs, 0.9)])
    for _ in range(8):
        assert rates(mine) == pytest.approx(rates(theirs))
        mine.step(), theirs.step(), a.step(), b.step()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("kind", ["rel", "abs"])
def test_plateau_as_pytorch(mode, kind):
    torch = pytest.importorskip("torch")
    mine, theirs = pair(torch, lr=0.5, momentum=0.8)
    options = {"mode": mode, "patience": 1, "threshold": 0.05, "threshold_mode": kind, "cooldown": 1, "min_lr": 0.001, "factor": 0.2}
    a, b = S.ReduceLROnPlateau(mine, **options), torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for value in (1.0, 0.99, 0.98, 0.97, 0.5, 0.5, 0.52, 0.51, 0.5, 0.5, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1):
        a.step(tx.asarray(value))
        b.step(value)
        assert rates(mine) == pytest.approx(rates(theirs))


def test_state_is_taken_over():
    def make():
        w = tx.ones(1).requires_grad_()
        w.grad = tx.ones(1)
        o = optim.SGD([w], lr=0.5)
        return o, S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=4), S.CosineAnnealingWarmRestarts(o, 3, 2)], [4])

    o, s = make()
    seen = []
    for k in range(12):
        seen.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
        if k == 5:
            states = o.state_dict(), s.state_dict()
            o, s = make()
            o.load_state_dict(states[0])
            s.load_state_dict(states[1])
    o, s = make()
    plain = []
    for _ in range(12):
        plain.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    assert seen == plain


def test_misuse():
    w = tx.ones(1).requires_grad_()
    o = optim.SGD([w], lr=0.5)
    s = S.StepLR(o, 2)
    with pytest.warns(UserWarning, match=r"scheduler.step\(\) was called before optimizer.step\(\)"):
        s.step()
    with pytest.raises(TypeError):
        S.StepLR(w, 2)
    with pytest.raises(KeyError):
        S.StepLR(optim.SGD([w], lr=0.5), 2, last_epoch=3)
    with pytest.raises(ValueError):
        S.LambdaLR(o, [lambda n: n, lambda n: n])
    with pytest.raises(ValueError):
        S.OneCycleLR(o, 1.0)
    with pytest.raises(ValueError):
        S.CyclicLR(optim.Adagrad([w]), 0.1, 1.0)
    with pytest.raises(ValueError):
        S.SequentialLR(o, [s], [1])
    with pytest.raises(ValueError):
        S.ChainedScheduler([s, S.StepLR(optim.SGD([w], lr=0.5), 2)])
