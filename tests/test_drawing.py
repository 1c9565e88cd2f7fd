"""tx.autograd.draw: shapes, bytes and what is computed again, as SVG."""

import re
import xml.etree.ElementTree as ET

import pytest

import tensorx as tx
from tensorx.autograd.drawing import graph


def titles(svg):
    return [t.text for t in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]


def test_a_small_network(device, tmp_path):
    with tx.deferred(True):
        w = tx.ones((64, 8), device=device).requires_grad_()
        b = tx.zeros(8, device=device).requires_grad_()
        x = tx.ones((4, 64), device=device)
        h = x @ w + b
        loss = (tx.tanh(h) ** 2).sum()
        tx.eval(loss)
        path = tmp_path / "graph.svg"
        svg = tx.autograd.draw(loss, path=path)
    assert path.read_text(encoding="utf-8") == svg
    root = ET.fromstring(svg)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    for part in ("matmul", "add", "tanh", "sum", "scalar", "64x8 float32", "8 float32", "4x8"):
        assert part in texts, (part, texts)
    assert "kept for backward" in texts[0] and texts.count("leaf") == 2
    assert any(re.search(rf"matmul at {re.escape(__file__)}:\d+", t) and "4x64" in t for t in titles(svg))
    loss.backward()
    assert w.grad is not None


def test_kept_bytes_count_once():
    x = tx.ones(1000).requires_grad_()
    y = x * x
    z = y * y
    boxes, (kept, again), cut = graph(z)
    assert kept + 4000 * again == 8000 and not cut
    assert sum(b.kind == "leaf" for b in boxes) == 1


def test_values_that_backward_computes_again():
    with tx.deferred(True):
        x = tx.ones(1000).requires_grad_()
        c = tx.ones(1000)
        loss = ((x * 2.0 + 1.0) * c * (x - 3.0)).sum()
        tx.eval(loss)
        _, (_, again), _ = graph(loss)
        svg = tx.autograd.draw(loss)
    assert again >= 1 and "recomputes" in svg and "computed again in backward" in svg


def test_after_backward_and_several_roots():
    x = tx.ones(3).requires_grad_()
    a, b = (x * 2.0).sum(), tx.exp(x).sum()
    svg = tx.autograd.draw(a, b)
    assert "exp" in svg and "multiply" in svg
    b.backward()
    assert "freed by backward" in tx.autograd.draw(b)


def test_errors_and_long_graphs():
    with pytest.raises(tx.GradientError, match=r"draw: the tensor of shape \(3,\) has no history"):
        tx.autograd.draw(tx.ones(3))
    with pytest.raises(TypeError, match="draw: takes tensors, got int"):
        tx.autograd.draw(1)
    x = tx.ones(3).requires_grad_()
    y = x
    for _ in range(5000):
        y = y + 1.0
    assert "only the first 2000 boxes" in tx.autograd.draw(y)
    ET.fromstring(tx.autograd.draw(x))
