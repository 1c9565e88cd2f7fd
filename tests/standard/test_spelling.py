"""What is spelled otherwise here says how: names, methods and arguments of PyTorch and NumPy."""

import inspect
import pickle
import re
import sys

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn, spelling, train

pytestmark = pytest.mark.once


@pytest.mark.parametrize("module", spelling.NAMES)
def test_names_of_modules(module):
    home = sys.modules[module]
    for name, hint in spelling.NAMES[module].items():
        assert name not in vars(home) and not hasattr(home, name), name
        with pytest.raises(AttributeError, match=rf"module '{module}' has no attribute '{name}'; instead: {re.escape(hint)}"):
            getattr(home, name)
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nothing_like_it'$"):
        home.nothing_like_it


def test_names_of_tensors():
    x = tx.ones(2)
    shown = dir(x)
    for name, hint in spelling.METHODS.items():
        assert not hasattr(x, name) and name not in shown, name
        with pytest.raises(AttributeError, match=f"a tensor has no '{name}'; instead: {re.escape(hint)}"):
            getattr(x, name)
        with pytest.raises(AttributeError, match=f"a tensor has no '{name}'"):
            setattr(x, name, x)
    assert {"reshape", "sum", "shape", "__add__"} <= set(shown)


def test_the_cures_exist():
    """Every tx.name and x.name of a hint is there."""
    x = tx.ones((2, 2))
    hints = [*spelling.METHODS.values(), *(h for names in spelling.NAMES.values() for h in names.values()), *spelling.INSTEAD.values()]
    seen = 0
    for hint in hints:
        for root, path in re.findall(r"(?<![\w.)])(tx|x|np)((?:\.\w+)+)", hint):
            o = {"tx": tx, "x": x, "np": np}[root]
            for part in path[1:].split("."):
                o = getattr(o, part)
            seen += 1
    assert seen > 80


CALLS = [
    (lambda x: x.sum(dim=0), "sum.*'dim': it is called 'axis' here"),
    (lambda x: tx.mean(x, axis=0, keepdim=True), "mean.*'keepdim': it is called 'keepdims' here"),
    (lambda x: x.argmax(1), r"argmax.*2 were given: the rest is given by name: axis=..., keepdims=\.\.\."),
    (lambda x: x.std(unbiased=False), "correction=1 divides by n - 1"),
    (lambda x: x.var(ddof=1), "it is called 'correction' here"),
    (lambda x: tx.sort(x, dim=0), "it is called 'axis' here"),
    (lambda x: tx.softmax(x, axes=0), "it is called 'axis' here"),
    (lambda x: x.sum(axsi=0), "there is 'axis'"),
    (lambda x: x.sum(colour=0), "it takes axis, dtype, keepdims"),
    (lambda x: tx.zeros(3, 4), r"the shape is one argument: zeros\(\(2, 3\)\)"),
    (lambda x: tx.linspace(0, 1, 5, requires_grad=True), r"call .requires_grad_\(\) on the result"),
    (lambda x: nn.functional.softmax(x, dim=1), "it is called 'axis' here"),
    (lambda x: nn.Softmax(dim=1), "Softmax: unexpected argument 'dim'; takes axis"),
    (lambda x: nn.Linear(in_feature=2, out_features=2), "there is 'in_features'"),
    (lambda x: tx.optim.Adam([x], learning_rate=0.1), "it is called 'lr' here"),
    (lambda x: tx.optim.AdamW([x], weight_dacay=0.1), "there is 'weight_decay'"),
    (lambda x: nn.Flatten(start_dim=1), "it is called 'start_axis' here"),
    (lambda x: train.DataLoader([1, 2], num_workers=4), r"batches are prepared ahead in a thread \(prefetch=2\)"),
    (lambda x: train.DataLoader([1, 2], collate_fn=list), "it is called 'collate' here"),
    (lambda x: train.random_split([1, 2], [1, 1], generator=None), "seed=... fixes the order"),
    (lambda x: tx.load("x", map_location="cpu"), "it is called 'device' here"),
    (lambda x: tx.random.normal(0.0, 1.0, size=(2, 2)), "it is called 'shape' here"),
    (lambda x: tx.random.Generator(0).normal(size=(2, 2)), "it is called 'shape' here"),
]


def test_names_of_modules_of_nn():
    with pytest.raises(AttributeError, match=r"'Linear' object has no attribute 'cuda'; modules are on 'cpu' or 'metal': .to\(device\) moves them"):
        nn.Linear(2, 2).cuda()
    with pytest.raises(AttributeError, match="^'Linear' object has no attribute 'nothing_like_it'$"):
        nn.Linear(2, 2).nothing_like_it()


@pytest.mark.parametrize("call, message", CALLS, ids=[m[:30] for _, m in CALLS])
def test_arguments(call, message):
    with pytest.raises(TypeError, match=message):
        call(tx.ones((2, 2)))


def test_what_is_right_is_as_it_was():
    x = tx.ones((2, 3))
    assert tx.concatenate is tx.concat and tx.sum is tx.ops.reduce.sum and pickle.loads(pickle.dumps(tx.sum)) is tx.sum
    assert pickle.loads(pickle.dumps(nn.functional.softmax)) is nn.functional.softmax
    assert str(inspect.signature(tx.sum)) == "(x, /, *, axis=None, dtype=None, keepdims=False)"
    assert x.sum(axis=0).tolist() == [2.0, 2.0, 2.0] and tx.sum.__doc__ and tx.sum.__globals__ is vars(tx.ops.reduce)
    with pytest.raises(tx.DTypeError) as other:
        tx.sum(3)
    assert str(other.value) == "sum: expected a tensor, got int; use tx.asarray"

    def collate(items):
        return tx.sum(items, items)

    with pytest.raises(TypeError, match="the rest is given by name"):
        next(iter(train.DataLoader([1], collate=collate)))
