"""Time per op on tiny tensors: what a call costs before any arithmetic.

    python bench/overhead.py [--quick]
"""

from __future__ import annotations

import _harness
import tensorx as tx


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("overhead", args)
    found = _harness.peers(("numpy", "torch"))
    np, torch = found.get("numpy"), found.get("torch")
    makers = {"tensorx": lambda n: tx.ones(n)}
    if np:
        makers["numpy"] = lambda n: np.ones(n, np.float32)
    if torch:
        makers["torch"] = lambda n: torch.ones(n)

    def each(title, body, n=1, **kw):
        report.compare(title, {name: body(make(n), make(n)) for name, make in makers.items()}, **kw)

    each("(a + b).item(), 1 element", lambda a, b: lambda: (a + b).item())
    each("(a * 2.0 + 1.0).item(), 1 element", lambda a, b: lambda: (a * 2.0 + 1.0).item())
    each("a.item()", lambda a, b: lambda: a.item())
    each("a[3:7]", lambda a, b: lambda: a[3:7], n=10)
    each("a.shape", lambda a, b: lambda: a.shape)
    each("a.sum(), 10 elements", lambda a, b: lambda: a.sum(), n=10)
    for n in (1, 64, 1024):
        def ten(a, b):
            def run():
                x = a
                for _ in range(5):
                    x = x * 0.5 + b
                return x[0:1].item() if hasattr(x, "device") else x[0].item()

            return run

        each(f"10 ops and a read, {n} elements", ten, n=n)
    report.save()


if __name__ == "__main__":
    main()
