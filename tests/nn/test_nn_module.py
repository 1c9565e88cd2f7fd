"""Modules: registration, state, hooks, containers, summary."""

import copy
import pickle
import re

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(tx.ones(1))
        self.register_buffer("seen", tx.zeros(2))
        self.register_buffer("passing", tx.zeros(1), persistent=False)
        self.nothing = None

    def forward(self, x):
        return self.b(tx.relu(self.a(x))) * self.scale


# ---- parameters -------------------------------------------------------------------------------------


def test_parameter_is_a_marked_leaf_on_the_same_storage():
    data = tx.ones(3)
    p = nn.Parameter(data)
    assert isinstance(p, nn.Parameter) and isinstance(p, tx.Tensor) and not isinstance(data, nn.Parameter)
    assert p.requires_grad and p.is_leaf and tx.shares_storage(p, data) and not data.requires_grad
    assert not nn.Parameter([1.0], requires_grad=False).requires_grad
    assert nn.Parameter(np.ones(2, dtype="f")).shape == (2,)
    computed = nn.Parameter(p * 2.0)
    assert computed.is_leaf and computed.requires_grad


def test_parameters_stay_parameters_when_copied_and_pickled():
    p = nn.Parameter(tx.asarray([1.0, 2.0]), requires_grad=False)
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert isinstance(q, nn.Parameter) and q.tolist() == [1.0, 2.0] and not q.requires_grad and not tx.shares_storage(p, q)


def test_what_is_found():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "a.weight", "a.bias", "b.weight"]
    assert [n for n, _ in net.named_parameters(prefix="m", recurse=False)] == ["m.scale"]
    assert [n for n, _ in net.named_buffers()] == ["seen", "passing"]
    assert [n for n, _ in net.named_modules()] == ["", "a", "b"]
    assert list(net.state_dict()) == ["scale", "seen", "a.weight", "a.bias", "b.weight"]
    assert net.get_parameter("a.weight") is net.a.weight and net.get_submodule("b") is net.b and net.get_buffer("seen") is net.seen
    with pytest.raises(AttributeError, match="has no module 'c'; it has a, b"):
        net.get_submodule("c")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'weigth'"):
        net.weigth


def test_tied_weights_come_once_and_under_both_names_in_the_state():
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == ["0.weight", "1.weight"]
    state = net.state_dict()
    assert list(state) == ["0.weight", "1.weight"] and state["0.weight"] is state["1.weight"]
    net[0].register_module("again", net[1])
    assert sum(1 for _ in net.modules()) == 3


def test_registration_errors_name_module_and_cause():
    class Early(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(tx.ones(1))

    with pytest.raises(AttributeError, match=r"Early: call super\(\).__init__\(\) before 'w'"):
        Early()
    net = Net()
    with pytest.raises(TypeError, match="Net: 'scale' is a parameter and would be replaced by a tensor of shape"):
        net.scale = net.scale * 2.0
    with pytest.raises(TypeError, match="Net: 'a' is a module and cannot be replaced by a int"):
        net.a = 3
    with pytest.raises(KeyError, match="'a' exists already, as a module"):
        net.register_parameter("a", nn.Parameter(tx.ones(1)))
    with pytest.raises(KeyError, match="'training' exists already"):
        net.register_buffer("training", tx.ones(1))
    with pytest.raises(KeyError, match="without dots"):
        net.register_parameter("x.y", None)
    with pytest.raises(TypeError, match="must be an nn.Parameter or None, got Tensor"):
        net.register_parameter("plain", tx.ones(1))
    net.seen = tx.ones(2)
    assert net.get_buffer("seen").tolist() == [1.0, 1.0]
    net.scale = None
    assert "scale" not in net.state_dict()
    net.scale = nn.Parameter(tx.ones(1))
    assert "scale" in net.state_dict()
    del net.scale
    assert not hasattr(net, "scale")


# ---- state ---------------------------------------------------------------------------------------------


def test_state_dict_is_independent_unless_asked():
    net = nn.Linear(2, 2)
    state, shared, kept = net.state_dict(), net.state_dict(copy=False), net.state_dict(keep_vars=True)
    before = net.weight.tolist()
    with tx.no_grad():
        net.weight.zero_()
    assert state["weight"].tolist() == before and not state["weight"].requires_grad
    assert shared["weight"].tolist() == [[0.0, 0.0]] * 2 and kept["weight"] is net.weight
    net.load_state_dict(state)
    assert net.weight.tolist() == before and net.weight.requires_grad and net.weight.is_leaf


def test_load_state_dict_lists_everything_and_changes_nothing():
    net = Net()
    before = {k: v.tolist() for k, v in net.state_dict().items()}
    state = {k: v * 0.0 + 7.0 for k, v in net.state_dict().items()}
    del state["a.weight"], state["seen"]
    state["extra"], state["b.bias"] = tx.ones(1), tx.ones(2)
    with pytest.raises(KeyError) as error:
        net.load_state_dict(state)
    text = str(error.value)
    assert "missing keys: seen, a.weight" in text and "unexpected keys: extra, b.bias" in text and "nothing was changed" in text
    state["b.weight"], state["scale"] = tx.ones((3, 3)), "word"
    with pytest.raises(tx.ShapeError) as error:
        net.load_state_dict(state, strict=False)
    assert "b.weight: the value has shape (3, 3), the Net needs (2, 4)" in str(error.value) and "scale: a str is no tensor" in str(error.value)
    assert {k: v.tolist() for k, v in net.state_dict().items()} == before
    del state["b.weight"], state["scale"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale", "seen", "a.weight", "b.weight"] and result.unexpected_keys == ["extra", "b.bias"]
    assert net.a.bias.tolist() == [7.0] * 4


def test_load_state_dict_takes_arrays_dtypes_and_inference_tensors():
    net = nn.Linear(2, 1)
    net.load_state_dict({"weight": np.array([[1.0, 2.0]]), "bias": np.array([3], dtype="float16")})
    assert net.weight.tolist() == [[1.0, 2.0]] and net.weight.dtype is tx.float32
    with tx.inference_mode():
        net.load_state_dict({"weight": tx.zeros((1, 2)), "bias": tx.zeros(1)})
    net(tx.ones((1, 2))).sum().backward()
    assert net.weight.grad.tolist() == [[1.0, 1.0]]
    w = tx.ones((1, 2))
    net.load_state_dict({"weight": w, "bias": tx.ones(1)}, assign=True)
    assert isinstance(net.weight, nn.Parameter) and tx.shares_storage(net.weight, w)
    with pytest.raises(tx.ShapeError, match="complex|float"):
        nn.BatchNorm1d(1).load_state_dict({"num_batches_tracked": tx.ones(())}, strict=False)


def test_modes_and_flags():
    net = nn.Sequential(nn.Dropout(), nn.Linear(2, 2))
    assert net.eval() is net and not net[0].training and net.train()[0].training
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    with pytest.raises(tx.GradientError, match="net.1.weight"):
        net(tx.ones((1, 2))).sum().backward()
    net.requires_grad_()
    net(tx.ones((1, 2))).sum().backward()
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Dropout", "Sequential"]


def test_pickle_and_deepcopy_keep_everything():
    net = Net().eval()
    x = tx.ones((1, 3))
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert not other.training and other(x).tolist() == net(x).tolist()
        assert [n for n, p in other.named_parameters() if p.requires_grad] == [n for n, _ in net.named_parameters()]
        assert not tx.shares_storage(other.scale, net.scale)
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    again = copy.deepcopy(tied)
    assert again[0].weight is again[1].weight


def test_summary():
    text = str(Net().summary())
    lines = text.splitlines()
    assert lines[0] == "Net" and lines[1].split() == ["name", "shape", "dtype", "device", "requires_grad", "is_leaf"]
    assert "a.weight  (4, 3)  float32  cpu     True           True" in text
    assert "4 parameters with 25 elements (100 bytes), 25 of them trained; 2 buffers" in lines[-1]
    assert repr(nn.Sequential(nn.Linear(2, 1), nn.ReLU())) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=1, bias=True)\n  (1): ReLU()\n)"
    )


# ---- hooks ------------------------------------------------------------------------------------------------


def test_forward_hooks():
    net = nn.Linear(2, 2)
    seen = []
    first = net.register_forward_pre_hook(lambda m, args: (args[0] * 0.0,))
    second = net.register_forward_hook(lambda m, args, out: out + 1.0)
    third = net.register_forward_pre_hook(lambda m, args, kwargs: seen.append((len(args), kwargs)), with_kwargs=True)
    assert tx.all(net(tx.ones((1, 2))) == net.bias.detach() + 1.0)
    assert seen == [(1, {})]
    first.remove(), second.remove(), third.remove(), third.remove()
    assert tx.all(net(tx.zeros((1, 2))) == net.bias.detach())


def test_backward_hooks_see_and_replace_gradients():
    net = nn.Linear(2, 2)
    seen = []
    with net.register_full_backward_hook(lambda m, gi, go: (seen.append((gi[0].shape, go[0].tolist())), (gi[0] * 10.0,))[1]):
        x = tx.ones((1, 2)).requires_grad_()
        net(x).sum().backward()
    assert seen == [((1, 2), [[1.0, 1.0]])]
    expected = net.weight.detach().sum(axis=0) * 10.0
    assert tx.all(tx.isclose(x.grad[0], expected))
    with net.register_full_backward_pre_hook(lambda m, go: (go[0] * 0.0,)):
        y = tx.ones((1, 2)).requires_grad_()
        net(y).sum().backward()
    assert y.grad.tolist() == [[0.0, 0.0]]


def test_state_hooks():
    net = nn.Linear(2, 1)
    net.register_state_dict_post_hook(lambda m, state, prefix: {k.upper(): v for k, v in state.items()})
    state = net.state_dict()
    assert list(state) == ["WEIGHT", "BIAS"]

    def lower(m, state, prefix):
        for k in list(state):
            state[k.lower()] = state.pop(k)

    loaded = []
    net.register_load_state_dict_pre_hook(lower)
    net.register_load_state_dict_post_hook(lambda m, keys: loaded.append(keys))
    net.load_state_dict(state)
    assert loaded == [([], [])]


# ---- containers ----------------------------------------------------------------------------------------------


def test_sequential():
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU()})
    assert list(net.state_dict()) == ["first.weight", "first.bias"] and net[0] is net.first and net[-1] is net.act
    net.append(nn.Linear(3, 1))
    assert len(net) == 3 and net(tx.ones((4, 2))).shape == (4, 1)
    assert isinstance(net[:2], nn.Sequential) and len(net[:2]) == 2 and net[:2][0] is net.first
    del net[1]
    assert [type(m).__name__ for m in net] == ["Linear", "Linear"]
    with pytest.raises(TypeError, match="Sequential: entries are modules, got int"):
        nn.Sequential(3)
    with pytest.raises(IndexError, match="index 5 is out of range for 2"):
        net[5]


def test_lists_and_dictionaries():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    layers.insert(1, nn.ReLU())
    layers += [nn.Tanh()]
    assert [type(m).__name__ for m in layers] == ["Linear", "ReLU", "Linear", "Linear", "Tanh"]
    assert list(layers.state_dict())[2] == "2.weight" and type(layers.pop(1)).__name__ == "ReLU" and len(layers) == 4
    parts = nn.ModuleDict({"x": nn.Linear(1, 1)})
    parts["y"] = nn.ReLU()
    assert parts.keys() == ["x", "y"] and "x" in parts and len(parts) == 2
    with pytest.raises(KeyError, match="no entry 'z'; it has x, y"):
        parts["z"]
    del parts["x"]
    assert list(parts) == ["y"]
    weights = nn.ParameterList([tx.ones(1), nn.Parameter(tx.zeros(2))])
    assert [p.shape for p in weights.parameters()] == [(1,), (2,)] and list(weights.state_dict()) == ["0", "1"]
    named = nn.ParameterDict({"k": tx.ones(2)})
    assert isinstance(named["k"], nn.Parameter) and list(named.state_dict()) == ["k"]


def test_functional_call_and_vectors():
    net = nn.Linear(2, 1)
    out = nn.utils.functional_call(net, {"weight": tx.asarray([[1.0, 2.0]]), "bias": tx.zeros(1)}, tx.ones((1, 2)))
    assert out.tolist() == [[3.0]] and isinstance(net.weight, nn.Parameter)
    with pytest.raises(KeyError, match="no parameter or buffer 'nope'"):
        nn.utils.functional_call(net, {"nope": tx.ones(1)}, tx.ones((1, 2)))
    vector = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(vector.detach() * 0.0 + 1.0, net.parameters())
    assert net.weight.tolist() == [[1.0, 1.0]] and net.bias.tolist() == [1.0]
    with pytest.raises(tx.ShapeError, match=r"a vector of shape \(3,\) is needed, got \(4,\)"):
        nn.utils.vector_to_parameters(tx.ones(4), net.parameters())


def test_gradient_clipping():
    p, q = nn.Parameter(tx.zeros(2)), nn.Parameter(tx.zeros(2))
    p.grad, q.grad = tx.asarray([3.0, 0.0]), tx.asarray([0.0, 4.0])
    norm = nn.utils.clip_grad_norm_([p, q], 1.0)
    assert norm.item() == 5.0 and np.allclose([*p.grad.tolist(), *q.grad.tolist()], [0.6, 0, 0, 0.8], atol=1e-5)
    nn.utils.clip_grad_value_([p, q], 0.5)
    assert np.allclose([*p.grad.tolist(), *q.grad.tolist()], [0.5, 0, 0, 0.5])
    p.grad = tx.asarray([tx.nan, 0.0])
    with pytest.raises(tx.GradientError, match="not finite"):
        nn.utils.clip_grad_norm_([p, q], 1.0, error_if_nonfinite=True)


def test_weight_norm():
    net = nn.Linear(3, 2)
    x = tx.ones((1, 3))
    before = net(x).tolist()
    nn.utils.weight_norm(net)
    assert sorted(net.state_dict()) == ["bias", "weight_g", "weight_v"] and net.weight_g.shape == (2, 1)
    assert np.allclose(net(x).tolist(), before, atol=1e-6)
    net(x).sum().backward()
    assert net.weight_g.grad is not None and net.weight_v.grad is not None
    nn.utils.remove_weight_norm(net)
    assert sorted(net.state_dict()) == ["bias", "weight"] and np.allclose(net(x).tolist(), before, atol=1e-6)


def test_clipping_of_half_precision_gradients_does_not_overflow(device):
    p = tx.zeros(400, dtype=tx.float16, device=device).requires_grad_()
    p.grad = tx.full(400, 1e4, dtype=tx.float16, device=device)
    norm = nn.utils.clip_grad_norm_([p], 1.0)
    assert norm.item() == pytest.approx(2e5, rel=1e-3)
    assert p.grad.tolist() == pytest.approx([0.05] * 400, rel=1e-3)
    assert nn.utils.clip_grad_norm_ is tx.optim.clip_grad_norm_


@pytest.mark.parametrize("make, shown", [
    (lambda: nn.Linear(-4, 2), r"\(2, -4\).*-4"), (lambda: nn.Linear("a", 2), r"\(2, 'a'\).*'a'"), (lambda: nn.Linear(2, 4.0), r"4\.0"),
    (lambda: nn.Embedding(10, -2), "-2"), (lambda: nn.LayerNorm(-3), "-3"),
])  # fmt: skip
def test_sizes_of_parameters(make, shown):
    with pytest.raises(tx.ShapeError, match="a parameter of shape .* sizes are integers and not negative") as caught:
        make()
    assert re.search(shown, str(caught.value))
    assert nn.Linear(np.int64(3), 0).weight.shape == (0, 3)


def test_an_array_as_input_names_the_cure():
    with pytest.raises(tx.DTypeError, match=r"Linear: the input must be a tensor, got ndarray; use tx\.asarray"):
        nn.Linear(2, 2)(np.ones((1, 2), np.float32))
