"""Overhead of autograd and whole training steps, beside PyTorch.

    python bench/training.py [--quick]
"""

from __future__ import annotations

import _harness
import tensorx as tx
from tensorx import nn


def scalar(lib, ones):
    w, b, x = ones(), ones(), ones()
    w.requires_grad_()
    b.requires_grad_()

    def run():
        (w * x + b).sum().backward()
        w.grad = b.grad = None

    return run


def mlp_step(lib, model, optimizer, loss, x, y):
    def run():
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("training", args)
    torch = _harness.peers(("torch",)).get("torch")

    candidates = {"tensorx": scalar(tx, lambda: tx.ones(1))}
    if torch:
        candidates["torch"] = scalar(torch, lambda: torch.ones(1))
    report.compare("(w*x + b).sum() and backward, 1 element", candidates)

    def mlp(lib, layer):
        return layer.Sequential(layer.Linear(784, 256), layer.ReLU(), layer.Linear(256, 256), layer.ReLU(), layer.Linear(256, 10))

    model = mlp(tx, nn)
    x, y = tx.random.normal(0.0, 1.0, (64, 784)), tx.random.integers(0, 10, (64,))
    candidates = {"tensorx": mlp_step(tx, model, tx.optim.Adam(model.parameters()), nn.functional.cross_entropy, x, y)}
    if torch:
        loss = torch.nn.functional.cross_entropy
        for name, options in (("torch default Adam", {}), ("torch fused Adam", {"fused": True})):
            other = mlp(torch, torch.nn)
            data = torch.randn(64, 784), torch.randint(0, 10, (64,))
            candidates[name] = mlp_step(torch, other, torch.optim.Adam(other.parameters(), **options), loss, *data)
    report.compare("step of an MLP 784-256-256-10, batch 64, Adam", candidates)

    def cnn(layer):
        return layer.Sequential(
            layer.Conv2d(1, 24, 3, padding=1), layer.BatchNorm2d(24), layer.ReLU(), layer.Conv2d(24, 32, 3, padding=1), layer.BatchNorm2d(32),
            layer.ReLU(), layer.MaxPool2d(2), layer.Conv2d(32, 64, 3, padding=1), layer.BatchNorm2d(64), layer.ReLU(), layer.MaxPool2d(2),
            layer.Flatten(), layer.Linear(256, 10),
        )  # fmt: skip

    model = cnn(nn)
    x = tx.random.normal(0.0, 1.0, (64, 1, 8, 8))
    candidates = {"tensorx": mlp_step(tx, model, tx.optim.AdamW(model.parameters()), nn.functional.cross_entropy, x, y)}
    if torch:
        for name, options in (("torch default AdamW", {}), ("torch fused AdamW", {"fused": True})):
            other = cnn(torch.nn)
            data = torch.randn(64, 1, 8, 8), torch.randint(0, 10, (64,))
            candidates[name] = mlp_step(torch, other, torch.optim.AdamW(other.parameters(), **options), loss, *data)
    report.compare("step of the digits CNN, batch 64, AdamW", candidates)
    report.save()


if __name__ == "__main__":
    main()
