"""Reductions with a fused prologue, softmax, layer_norm against PyTorch, NumPy and JAX, interleaved.

    python bench/reduce.py [--quick] [--threads 2]
"""

from __future__ import annotations

import _harness
import tensorx as tx


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("reduce", args)
    found = _harness.peers(("numpy", "torch", "jax"))
    np, torch, jax = (found.get(k) for k in ("numpy", "torch", "jax"))
    shape = (4096, 4096)
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    x, y = tx.asarray(a), tx.asarray(b)
    t = u = j = k = None
    if torch:
        t, u = torch.from_numpy(a.copy()), torch.from_numpy(b.copy())
    if jax:
        j, k = jax.numpy.asarray(a), jax.numpy.asarray(b)

    def compare(title, ours, numpy=None, torches=None, jaxes=None):
        c = {"tensorx": lambda: tx.eval(ours())}
        for name, f in (torches or {}).items():
            if torch:
                c[name] = f
        if numpy:
            c["numpy"] = numpy
        if jax and jaxes:
            f = jax.jit(jaxes)
            c["jax jit"] = lambda: f(j, k).block_until_ready()
        report.compare(title, c)

    compare("((x - y) ** 2).sum(), 4096 x 4096", lambda: ((x - y) ** 2).sum(), lambda: ((a - b) ** 2).sum(),
            {"torch": lambda: ((t - u) ** 2).sum(), "torch mse_loss": lambda: torch.nn.functional.mse_loss(t, u, reduction="sum")},
            lambda x, y: ((x - y) ** 2).sum())  # fmt: skip
    compare("x.sum()", lambda: x.sum(), lambda: a.sum(), {"torch": lambda: t.sum()}, lambda x, y: x.sum())
    compare("x.sum(axis=0)", lambda: x.sum(axis=0), lambda: a.sum(axis=0), {"torch": lambda: t.sum(0)}, lambda x, y: x.sum(0))
    compare("x.sum(axis=1)", lambda: x.sum(axis=1), lambda: a.sum(axis=1), {"torch": lambda: t.sum(1)}, lambda x, y: x.sum(1))
    compare("x.max()", lambda: x.max(), lambda: a.max(), {"torch": lambda: t.max()}, lambda x, y: x.max())
    compare("x.argmax(axis=1)", lambda: x.argmax(axis=1), lambda: a.argmax(axis=1), {"torch": lambda: t.argmax(1)})
    compare("x.var(axis=1)", lambda: x.var(axis=1), lambda: a.var(axis=1), {"torch": lambda: t.var(1, correction=0)})
    compare("softmax", lambda: tx.softmax(x), None, {"torch": lambda: torch.softmax(t, 1)}, lambda x, y: jax.nn.softmax(x, 1))
    compare("log_softmax", lambda: tx.log_softmax(x), None, {"torch": lambda: torch.log_softmax(t, 1)})
    compare("logsumexp", lambda: tx.logsumexp(x, axis=1), None, {"torch": lambda: torch.logsumexp(t, 1)})
    w, v = tx.ones(4096), tx.zeros(4096)
    tw = tv = None
    if torch:
        tw, tv = torch.ones(4096), torch.zeros(4096)
    compare("layer_norm", lambda: tx.layer_norm(x, 4096, w, v), None,
            {"torch": lambda: torch.nn.functional.layer_norm(t, (4096,), tw, tv)})  # fmt: skip
    compare("rms_norm", lambda: tx.rms_norm(x, 4096, w), None, {"torch": lambda: torch.nn.functional.rms_norm(t, (4096,), tw)})
    report.save()


if __name__ == "__main__":
    main()
