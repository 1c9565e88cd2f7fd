"""Random numbers, a million of them, against NumPy and PyTorch, interleaved.

    python bench/random_numbers.py [--quick] [--threads 2]

Philox makes every number by itself, so threads share the work and give the same numbers as one. NumPy's generator (PCG64)
and PyTorch's (a Mersenne twister on the CPU) are sequential.
"""

from __future__ import annotations

import _harness
import tensorx as tx

N = 1_000_000


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("random_numbers", args)
    found = _harness.peers(("numpy", "torch"))
    np, torch = found.get("numpy"), found.get("torch")
    g = tx.random.Generator(0)
    rng = np.random.default_rng(0)

    def compare(title, ours, numpy, torches=None):
        candidates = {"tensorx": lambda: tx.eval(ours()), "numpy": numpy}
        if torch and torches:
            candidates["torch"] = torches
        report.compare(title, candidates)

    compare("uniform, float32", lambda: g.uniform(0.0, 1.0, N), lambda: rng.random(N, dtype=np.float32), lambda: torch.rand(N))
    compare("uniform, float64", lambda: g.uniform(0.0, 1.0, N, dtype=tx.float64), lambda: rng.random(N),
            lambda: torch.rand(N, dtype=torch.float64))  # fmt: skip
    compare("normal, float32", lambda: g.standard_normal(N), lambda: rng.standard_normal(N, dtype=np.float32), lambda: torch.randn(N))
    compare("normal, float64", lambda: g.standard_normal(N, dtype=tx.float64), lambda: rng.standard_normal(N),
            lambda: torch.randn(N, dtype=torch.float64))  # fmt: skip
    compare("integers below 100, int64", lambda: g.integers(0, 100, N), lambda: rng.integers(0, 100, N), lambda: torch.randint(0, 100, (N,)))
    compare("permutation", lambda: g.permutation(N), lambda: rng.permutation(N), lambda: torch.randperm(N))
    compare("bernoulli", lambda: g.bernoulli(0.3, N), lambda: rng.random(N, dtype=np.float32) < 0.3,
            lambda: torch.empty(N, dtype=torch.bool).bernoulli_(0.3))  # fmt: skip
    compare("exponential, float32", lambda: g.exponential(1.0, N), lambda: rng.standard_exponential(N, dtype=np.float32),
            lambda: torch.empty(N).exponential_())  # fmt: skip
    alpha = torch.full((N,), 2.0, dtype=torch.float64) if torch else None
    compare("gamma(2), float64", lambda: g.gamma(2.0, 1.0, N, dtype=tx.float64), lambda: rng.standard_gamma(2.0, N),
            lambda: torch._standard_gamma(alpha))  # fmt: skip
    rate = torch.full((N,), 20.0) if torch else None
    compare("poisson(20)", lambda: g.poisson(20.0, N), lambda: rng.poisson(20.0, N), lambda: torch.poisson(rate))
    x = tx.empty(N)
    y = torch.empty(N) if torch else None
    compare("x.normal_(), in place", lambda: x.normal_(generator=g), lambda: rng.standard_normal(N, dtype=np.float32), lambda: y.normal_())
    report.save()


if __name__ == "__main__":
    main()
