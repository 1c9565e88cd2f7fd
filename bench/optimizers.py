"""Time and memory of optimizer steps, beside PyTorch's default and fused forms.

    python bench/optimizers.py [--quick]
"""

from __future__ import annotations

import _harness
import tensorx as tx

CASES = {
    "SGD": {"lr": 1e-3},
    "SGD momentum": {"lr": 1e-3, "momentum": 0.9},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3},
}
OTHERS = {"RMSprop": {}, "Adagrad": {}, "Adadelta": {}, "Adamax": {}, "NAdam": {}, "RAdam": {}, "Rprop": {}}


def ours(name, options, count, n):
    params = [tx.full(n, 0.5).requires_grad_() for _ in range(count)]
    for p in params:
        p.grad = tx.full(n, 0.1)
    return getattr(tx.optim, name.split()[0])(params, **options)


def theirs(torch, name, options, count, n, **more):
    params = [torch.full((n,), 0.5, requires_grad=True) for _ in range(count)]
    for p in params:
        p.grad = torch.full((n,), 0.1)
    return getattr(torch.optim, name.split()[0])(params, **options, **more)


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("optimizers", args)
    torch = _harness.peers(("torch",)).get("torch")
    for count, n in ((1, 4_000_000), (200, 1000)):
        for name, options in {**CASES, **OTHERS}.items():
            mine = ours(name, options, count, n)
            mine.step()
            mine.step()
            with tx.memory.measure() as m:
                mine.step()
            candidates = {"tensorx": mine.step}
            if torch:
                if name in CASES:
                    candidates["torch fused"] = theirs(torch, name, options, count, n, fused=True).step
                candidates["torch default"] = theirs(torch, name, options, count, n).step
            report.compare(f"{name}, {count} x {n} ({m.bytes} bytes)", candidates)
    report.save()


if __name__ == "__main__":
    main()
