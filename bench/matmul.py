"""Matrix products against PyTorch and NumPy, interleaved.

    python bench/matmul.py [--quick] [--threads 2]
"""

from __future__ import annotations

import _harness
import tensorx as tx

SHAPES = [
    ("16", (16, 16), (16, 16)),
    ("64", (64, 64), (64, 64)),
    ("128", (128, 128), (128, 128)),
    ("256", (256, 256), (256, 256)),
    ("512", (512, 512), (512, 512)),
    ("1024", (1024, 1024), (1024, 1024)),
    ("MLP layer", (64, 784), (784, 256)),
    ("transformer", (4096, 384), (384, 1536)),
    ("matrix times vector", (2048, 2048), (2048,)),
    ("batched attention", (32, 12, 128, 32), (32, 12, 32, 128)),
]


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("matmul", args)
    found = _harness.peers(("numpy", "torch"))
    np, torch = found.get("numpy"), found.get("torch")
    rng = np.random.default_rng(0)
    for title, sa, sb in SHAPES:
        a, b = (rng.normal(size=s).astype(np.float32) for s in (sa, sb))
        x, y = tx.asarray(a), tx.asarray(b)
        c = {"tensorx": lambda x=x, y=y: x @ y, "numpy": lambda a=a, b=b: a @ b}
        if torch:
            t, u = torch.from_numpy(a.copy()), torch.from_numpy(b.copy())
            c["torch"] = lambda t=t, u=u: t @ u
        report.compare(f"{title}: {' x '.join(map(str, sa))} @ {' x '.join(map(str, sb))}", c)
    report.save()


if __name__ == "__main__":
    main()
