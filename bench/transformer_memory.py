"""Peak memory of a training step of a transformer: counters of tensorx against what PyTorch's allocator hands out.

    python bench/transformer_memory.py [--batch 4]

4 layers of width 256 over 256 tokens, in float32, with the same weights and inputs. Counted for both: everything from an
empty heap with the model in memory to the end of the backward pass, the gradients included. PyTorch's figure is the highest
sum of live bytes that its profiler reports for the CPU allocator.
"""

from __future__ import annotations

import argparse
import json
import math

import numpy as np

import tensorx as tx


def ours(net, x, y, steps=2):
    """(highest live bytes of a step, loss, gradient of the first weight): the second step, with gradients in place."""
    for _ in range(steps):
        net.zero_grad()
        tx.eval()
        tx.memory.reset_peak("cpu")
        start = tx.memory.stats("cpu")["live"]
        loss = tx.nn.functional.mse_loss(net(x), y)
        loss.backward()
        tx.eval()
        stats = tx.memory.stats("cpu")
    first = next(net.parameters())
    return stats["peak"] - start, start, loss.item(), first.grad.numpy()


def theirs(torch, net, x, y):
    """The same, from the allocator's events in order."""
    net.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
    net.zero_grad(set_to_none=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
    live = peak = 0
    for event in prof.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak, loss.item(), next(net.parameters()).grad.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--json")
    args = parser.parse_args()
    import torch

    width, layers, tokens, heads = 256, 4, 256, 8
    tx.manual_seed(0)
    layer = tx.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
    net = tx.nn.TransformerEncoder(layer, layers)
    other = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True), layers, enable_nested_tensor=False
    )
    other.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in net.state_dict(copy=False).items()})
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(args.batch, tokens, width)).astype("f") for _ in range(2))
    peak, held, loss, grad = ours(net, tx.asarray(x), tx.asarray(y))
    peak_torch, loss_torch, grad_torch = theirs(torch, other, torch.from_numpy(x), torch.from_numpy(y))
    scale = np.abs(grad_torch).max()
    result = {
        "batch": args.batch,
        "tensorx": peak,
        "torch": peak_torch,
        "ratio": peak / peak_torch,
        "model_bytes": held,
        "loss_difference": abs(loss - loss_torch) / abs(loss_torch),
        "gradient_difference": float(np.abs(grad - grad_torch).max() / scale),
    }
    print(f"batch {args.batch}: tensorx {peak / 2**20:.1f} MiB, torch {peak_torch / 2**20:.1f} MiB, ratio {result['ratio']:.3f}")
    print(f"loss differs by {result['loss_difference']:.1e}, the gradient by {result['gradient_difference']:.1e} (relative)")
    assert math.isfinite(loss)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
