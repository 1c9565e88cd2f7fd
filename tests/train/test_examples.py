"""The examples do what their texts say."""

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name):
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        pytest.skip("the examples are not in this copy")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_digits_with_an_mlp(tmp_path):
    pytest.importorskip("sklearn")
    example = load("digits_mlp")
    model, history, figures = example.run(epochs=20, progress=None)
    assert figures["accuracy"] >= 0.97
    again, _, _ = example.run(epochs=20, progress=None)
    assert example.fingerprint(model) == example.fingerprint(again)
    other, _, _ = example.run(epochs=1, seed=1, progress=None)
    assert example.fingerprint(other) != example.fingerprint(model)
    pytest.importorskip("matplotlib")
    example.plot(history, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


@pytest.mark.slow
def test_digits_with_a_cnn():
    pytest.importorskip("sklearn")
    example = load("digits_cnn")
    model, _, figures = example.run(epochs=20, progress=None)
    assert figures["accuracy"] >= 0.985


def test_digits_with_a_cnn_twice_the_same_bits():
    pytest.importorskip("sklearn")
    example = load("digits_cnn")
    runs = [example.run(epochs=1, progress=None)[0] for _ in range(2)]
    assert example.fingerprint(runs[0]) == example.fingerprint(runs[1])


def test_a_tiny_transformer_learns():
    example = load("tiny_transformer")
    model, history = example.run(steps=10, progress=None, batch=4)
    assert history[-1]["val_loss"] < history[0]["val_loss"] < 6
    assert len(model.write("The ", 5)) >= 8


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "tiny_transformer"])
def test_examples_are_short(name):
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        pytest.skip("the examples are not in this copy")
    assert len(path.read_text().splitlines()) < 150
