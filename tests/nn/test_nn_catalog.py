"""Every module: values and gradients against PyTorch, finite differences, state_dicts both ways."""

import numpy as np
import pytest
from nn_catalog import CATALOG, ELSEWHERE, flat

import tensorx as tx

by_id = pytest.mark.parametrize("entry", CATALOG, ids=lambda e: e.id)
torch = pytest.importorskip("torch")


def same_parameters(module, other):
    """The parameters and buffers of a PyTorch module get the values of ours, under the same names."""
    state = {k: torch.from_numpy(np.array(v.to("cpu").numpy())) for k, v in module.state_dict().items()}
    assert list(state) == list(other.state_dict())
    other.load_state_dict(state)
    return other


def close(a, b, rtol, what):
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    assert a.shape == b.shape, what
    scale = max(np.abs(b).max(initial=0), 1e-3)
    assert np.abs(a - b).max(initial=0) <= rtol * scale, f"{what}: off by {np.abs(a - b).max() / scale:.2e}"


def values(t):
    return np.array(t.detach().to("cpu").numpy())


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@by_id
def test_values_and_gradients_are_pytorchs(entry):
    _compare(entry, "cpu")


ON_EVERY_DEVICE = ("Linear", "Conv2d", "MaxPool2d", "LayerNorm", "CrossEntropyLoss", "Embedding", "MultiheadAttention")


@pytest.mark.parametrize("name", ON_EVERY_DEVICE)
def test_modules_on_every_device(name, device):
    _compare(next(e for e in CATALOG if e.id == name), device)


def _compare(entry, device):
    tx.manual_seed(1)
    module = entry.build(tx, device).train(entry.train)
    other = same_parameters(module, entry.build_torch(torch)).train(entry.train)
    if "dropout" in repr(module):
        module.eval(), other.eval()
    arrays = entry.arrays(np.float32)
    ours = [tx.asarray(a, device=device) for a in arrays]
    theirs = [torch.from_numpy(np.array(a)) for a in arrays]
    for a, b in zip(ours, theirs):
        if b.dtype.is_floating_point and entry.name not in ("PoissonNLLLoss", "CrossEntropyLoss", "KLDivLoss", "SoftMarginLoss") or a is ours[0] and a.dtype.kind == "f":
            a.requires_grad_(), b.requires_grad_()
    if entry.name == "CTCLoss":  # PyTorch's gradient supposes that the logarithms come from log_softmax
        out, expected = flat(module(tx.log_softmax(ours[0]), *ours[1:])), flat(other(theirs[0].log_softmax(-1), *theirs[1:]))
    else:
        out, expected = flat(module(*ours)), flat(other(*theirs))
    assert len(out) == len(expected)
    rng = np.random.default_rng(0)
    loss = other_loss = None
    for a, b in zip(out, expected):
        close(values(a), b.detach().numpy(), 1e-6, "forward")
        weight = rng.normal(size=a.shape).astype("f")
        part, other_part = (a * tx.asarray(weight, device=device)).sum(), (b * torch.from_numpy(weight)).sum()
        loss, other_loss = (part, other_part) if loss is None else (loss + part, other_loss + other_part)
    if loss.requires_grad:
        loss.backward(), other_loss.backward()
        for k, (a, b) in enumerate(zip(ours, theirs)):
            if b.requires_grad and b.grad is not None:
                close(values(a.grad), b.grad.numpy(), 1e-5, f"gradient of input {k + 1}")
        for (name, p), q in zip(module.named_parameters(), other.parameters()):
            close(values(p.grad), q.grad.numpy(), 1e-5, f"gradient of {name}")
    for (name, b), c in zip(module.named_buffers(), other.buffers()):
        close(values(b), c.numpy(), 1e-6, f"buffer {name}")


@by_id
def test_gradients_are_finite_differences(entry):
    if not entry.smooth:
        return
    tx.manual_seed(2)
    module = entry.build(tx).double().train(entry.train)
    if "dropout" in repr(module):
        module.eval()
    inputs = [tx.asarray(a) for a in entry.arrays(np.float64)]
    free = [k for k, t in enumerate(inputs) if t.dtype.kind == "f" and not set(np.unique(values(t))) <= {-1.0, 0.0, 1.0}]
    names = [name for name, _ in module.named_parameters()]
    leaves = [inputs[k].requires_grad_() for k in free] + list(module.parameters())
    if not leaves:
        pytest.skip("nothing to differentiate")
    buffers = [(b, b.copy()) for b in module.buffers()]
    rng = np.random.default_rng(1)
    weights = None

    def run(tensors):
        """A number: all results, weighted at random."""
        nonlocal weights
        for b, value in buffers:
            b.copy_(value)
        args = list(inputs)
        for k, t in zip(free, tensors):
            args[k] = t
        out = flat(tx.nn.utils.functional_call(module, dict(zip(names, tensors[len(free) :])), tuple(args)))
        out = [t for t in out if t.dtype.kind == "f"]
        if weights is None:
            weights = [tx.asarray(rng.normal(size=t.shape)) for t in out]
        return sum((t * w).sum() for t, w in zip(out, weights))

    _check_directions(run, leaves, rng)
    if entry.second:
        towards = [tx.asarray(rng.normal(size=t.shape)) for t in leaves]

        def slope(tensors):
            found = tx.autograd.grad(run(tensors), tensors, create_graph=True, allow_unused=True)
            return sum((g * v).sum() for g, v in zip(found, towards) if g is not None)

        total = slope(leaves)
        if isinstance(total, tx.Tensor) and total.requires_grad:
            _check_directions(slope, leaves, rng)


def _check_directions(function, leaves, rng, step=1e-6):
    """The gradients of a function of tensors against central differences along random directions."""
    found = tx.autograd.grad(function(leaves), leaves, allow_unused=True, materialize_grads=True)
    for k, (x, g) in enumerate(zip(leaves, found)):
        for _ in range(2):
            d = rng.normal(size=x.shape)
            ends = []
            for sign in (step, -step):
                moved = list(leaves)
                moved[k] = tx.asarray(values(x) + sign * d).requires_grad_()
                ends.append(function(moved).item())
            numeric, exact = (ends[0] - ends[1]) / (2 * step), float((values(g) * d).sum())
            scale = max(abs(exact), float(np.abs(values(g) * d).sum()) * 0.1, 1e-2)
            assert abs(numeric - exact) <= 2e-5 * scale + 2e-9 * abs(ends[0]) / step * 1e-6, f"leaf {k}: differences {numeric}, gradient {exact}"


@pytest.mark.once
@pytest.mark.parametrize("entry", [e for e in CATALOG if not e.label], ids=lambda e: e.id)
def test_state_dicts_go_both_ways_through_safetensors(entry, tmp_path):
    pytest.importorskip("safetensors")
    import safetensors.torch

    tx.manual_seed(3)
    module, other = entry.build(tx), entry.build_torch(torch)
    if not module.state_dict():
        assert not other.state_dict()
        return
    inputs = entry.arrays(np.float32)
    module.eval(), other.eval()
    first, second = str(tmp_path / "ours.safetensors"), str(tmp_path / "theirs.safetensors")
    safetensors.torch.save_file(other.state_dict(), second)
    result = module.load_state_dict(tx.io.load_safetensors(second))
    assert result.missing_keys == [] and result.unexpected_keys == []
    expected = flat(other(*(torch.from_numpy(np.array(a)) for a in inputs)))
    for a, b in zip(flat(module(*(tx.asarray(a) for a in inputs))), expected):
        close(values(a), b.detach().numpy(), 1e-6, "loaded from PyTorch")
    tx.io.save_safetensors(module.state_dict(), first)
    fresh = entry.build_torch(torch).eval()
    fresh.load_state_dict(safetensors.torch.load_file(first))
    for a, b in zip(flat(fresh(*(torch.from_numpy(np.array(a)) for a in inputs))), expected):
        assert torch.equal(a, b)


def test_every_module_is_in_the_catalog():
    names = {n for n, v in vars(tx.nn).items() if isinstance(v, type) and issubclass(v, tx.nn.Module)}
    lazy = {n for n in names if n.startswith("Lazy")}
    assert names - lazy - ELSEWHERE == {e.name for e in CATALOG}
