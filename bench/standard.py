"""Functions of the array API at a million elements against NumPy and PyTorch, interleaved.

    python bench/standard.py [--quick] [--threads 2]
"""

from __future__ import annotations

import _harness
import tensorx as tx

N = 1_000_000


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("standard", args)
    found = _harness.peers(("numpy", "torch"))
    np, torch = (found.get(k) for k in ("numpy", "torch"))
    rng = np.random.default_rng(0)
    a = rng.standard_normal(N).astype(np.float32)
    x = tx.asarray(a)
    t = torch.from_numpy(a.copy()) if torch else None

    def compare(title, ours, numpy=None, torches=None):
        c = {"tensorx": lambda: tx.eval(ours())}
        if numpy:
            c["numpy"] = numpy
        if torch and torches:
            c["torch"] = torches
        report.compare(title, c)

    compare("sum, float32", lambda: tx.sum(x), lambda: a.sum(), lambda: t.sum())
    compare("max, float32", lambda: tx.max(x), lambda: a.max(), lambda: t.max())
    for name in ("float32", "float64", "int64"):
        b = (a * 100).astype(name)
        y, u = tx.asarray(b), torch.from_numpy(b.copy()) if torch else None
        compare(f"cumulative sum, {name}", lambda y=y: tx.cumulative_sum(y), lambda b=b: np.cumulative_sum(b), lambda u=u: u.cumsum(0))
        compare(f"sort, {name}", lambda y=y: tx.sort(y), lambda b=b: np.sort(b), lambda u=u: u.sort())
        compare(f"argsort, stable, {name}", lambda y=y: tx.argsort(y), lambda b=b: np.argsort(b, kind="stable"), lambda u=u: u.argsort(stable=True))
    m = a.reshape(1000, 1000)
    xm, tm = tx.asarray(m), torch.from_numpy(m.copy()) if torch else None
    for axis in (0, 1):
        compare(f"cumulative sum of 1000 x 1000, axis {axis}", lambda axis=axis: tx.cumulative_sum(xm, axis=axis),
                lambda axis=axis: np.cumulative_sum(m, axis=axis), lambda axis=axis: tm.cumsum(axis))  # fmt: skip
        compare(f"sort of 1000 x 1000, axis {axis}", lambda axis=axis: tx.sort(xm, axis=axis), lambda axis=axis: np.sort(m, axis=axis),
                lambda axis=axis: tm.sort(axis))  # fmt: skip
    i = rng.integers(0, N, N)
    xi, ti = tx.asarray(i), torch.from_numpy(i.copy()) if torch else None
    compare("take, a million of a million", lambda: tx.take(x, xi), lambda: np.take(a, i), lambda: torch.take(t, ti))
    mask = a > 0
    xk, tk = tx.asarray(mask), torch.from_numpy(mask.copy()) if torch else None
    compare("boolean mask, half of a million", lambda: x[xk], lambda: a[mask], lambda: t[tk])
    compare("concat of four, 250,000 each", lambda: tx.concat([x[k : k + N // 4] for k in range(0, N, N // 4)]),
            lambda: np.concatenate([a[k : k + N // 4] for k in range(0, N, N // 4)]),
            lambda: torch.cat([t[k : k + N // 4] for k in range(0, N, N // 4)]))  # fmt: skip
    p, q, r = (rng.standard_normal((1000, 1000)).astype(np.float32) for _ in range(3))
    P, Q, R = (tx.asarray(v) for v in (p, q, r))
    if torch:
        tp, tq, tr = (torch.from_numpy(v.copy()) for v in (p, q, r))
    text = "ij,jk,ik->i"
    compare(f"einsum {text}, a million elements each", lambda: tx.einsum(text, P, Q, R), lambda: np.einsum(text, p, q, r, optimize=True),
            (lambda: torch.einsum(text, tp, tq, tr)) if torch else None)  # fmt: skip
    s = np.sort(a)
    xs, ts = tx.asarray(s), torch.from_numpy(s.copy()) if torch else None
    compare("searchsorted, a million in a million", lambda: tx.searchsorted(xs, x), lambda: np.searchsorted(s, a), lambda: torch.searchsorted(ts, t))
    k = rng.integers(0, 1000, N)
    xj, tj = tx.asarray(k), torch.from_numpy(k.copy()) if torch else None
    compare("unique values of a million small integers", lambda: tx.unique_values(xj), lambda: np.unique_values(k), lambda: torch.unique(tj))
    report.save()


if __name__ == "__main__":
    main()
