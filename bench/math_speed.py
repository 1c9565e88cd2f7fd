"""Speed of the elementary functions of the CPU kernels on arrays that fit into the L2 cache, one thread.

    python bench/math_speed.py [names]   ns per element: each instruction set, NumPy and PyTorch if installed

Interleaved rounds, the minimum of each; `vs torch` is the best instruction set over PyTorch.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial

import numpy as np
from accuracy import BINARY, UNARY, available

ROUNDS, REPEAT, BYTES = 15, 10, 64 * 1024

# arguments that exercise the usual path: |x| < 1 for inverse functions, positive for logarithms
DOMAIN = {
    **dict.fromkeys(("asin", "acos", "atan", "atanh", "erfinv"), (-0.95, 0.95)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "acosh", "lgamma", "digamma"), (1.01, 11.0)),
    "pow": (0.1, 3.0),
}


def peers(name, args, out):
    """The same function elsewhere, as calls without arguments."""
    found = {}
    f = getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
                     "atanh": "arctanh", "pow": "power", "atan2": "arctan2"}.get(name, name), None)  # fmt: skip
    if f is not None:
        found["numpy"] = partial(f, *args, out=out)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    f = getattr(torch, name, None)
    tensors = [torch.from_numpy(a) for a in args]
    if f is not None:
        found["torch"] = partial(f, *tensors, out=torch.from_numpy(out))
    elif name == "softplus":
        found["torch"] = partial(torch.nn.functional.softplus, *tensors)
    return found


def time_all(calls):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for key, call in calls.items():
            t = time.perf_counter()
            for _ in range(REPEAT):
                call()
            best[key] = min(best[key], (time.perf_counter() - t) / REPEAT)
    return best


def main(names) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        libs = available(folder)
        columns = [*libs, "numpy", "torch"]
        print("| function | dtype |" + "".join(f" {c} |" for c in columns) + " vs torch |")
        print("|---|---|" + "---:|" * (len(columns) + 1))
        for name in names or [*UNARY, *BINARY]:
            for dtype in (np.float32, np.float64):
                n = BYTES // np.dtype(dtype).itemsize
                lo, hi = DOMAIN.get(name, (None, None))
                first = rng.standard_normal(n) * 2 if lo is None else rng.uniform(lo, hi, n)
                args = [first.astype(dtype)] + [rng.uniform(-2, 2, n).astype(dtype)] * (name in BINARY)
                out = np.empty(n, dtype)
                calls = {isa: lib.bound("v", name, *args, out=out) for isa, lib in libs.items()}
                calls.update(peers(name, args, out))
                t = {k: v / n * 1e9 for k, v in time_all(calls).items()}
                ratio = f"{min(t[i] for i in libs) / t['torch']:.2f}" if "torch" in t else ""
                cells = " | ".join(f"{t[c]:.2f}" if c in t else "" for c in columns)
                print(f"| {name} | {np.dtype(dtype)} | {cells} | {ratio} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
