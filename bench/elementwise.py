"""Elementwise chains against PyTorch, NumPy, JAX, MLX and numexpr, interleaved in one run.

    python bench/elementwise.py [--quick] [--threads 2]

Prints best and median of 5 and the ratio of tensorx to each peer; writes bench/out/elementwise.json and .png.
"""

from __future__ import annotations

import _harness
import tensorx as tx

N = 2**24


class Slot:
    """The variable x of a statement that rebinds it."""

    def __init__(self, x):
        self.x = x


def plain(slot, finish):
    def run():
        slot.x = slot.x * 0.5 + 0.25
        finish(slot.x)

    return run


def nothing(x):
    pass


def main():
    args = _harness.arguments(__doc__)
    report = _harness.Report("elementwise", args)
    found = _harness.peers()
    np, torch, jax, mx, ne = (found.get(k) for k in ("numpy", "torch", "jax", "mlx", "numexpr"))

    # x = x * s + t on 64 MiB
    c = {"tensorx": plain(Slot(tx.ones(N)), tx.eval)}
    if torch:
        c["torch"] = plain(Slot(torch.ones(N)), nothing)
        ti = torch.ones(N)
        c["torch in place"] = lambda: ti.mul_(0.5).add_(0.25)
    if np:
        c["numpy"] = plain(Slot(np.ones(N, np.float32)), nothing)
    if jax:
        step = jax.jit(lambda x: x * 0.5 + 0.25, donate_argnums=0)
        js = Slot(jax.numpy.ones(N))

        def donated():
            js.x = step(js.x)
            js.x.block_until_ready()

        c["jax jit, donated"] = donated
    if mx:
        c["mlx"] = plain(Slot(mx.ones((N,))), mx.eval)
    if ne:
        a = np.ones(N, np.float32)
        half, quarter = np.float32(0.5), np.float32(0.25)
        c["numexpr in place"] = lambda: ne.evaluate("a * half + quarter", {"a": a, "half": half, "quarter": quarter}, out=a)
    report.compare("x = x * 0.5 + 0.25, 64 MiB", c)

    # in-place spelling
    mi = tx.ones(N)
    c = {"tensorx": lambda: mi.mul_(0.5).add_(0.25)}
    if torch:
        tj = torch.ones(N)
        c["torch"] = lambda: tj.mul_(0.5).add_(0.25)
    report.compare("x.mul_(0.5).add_(0.25), 64 MiB", c)

    # y = x * 2 + 1, x kept
    x = tx.ones(N)
    tx.eval(x)

    def keep():
        y = x * 2.0 + 1.0
        tx.eval(y)

    c = {"tensorx": keep}
    if torch:
        tk = torch.ones(N)
        c["torch"] = lambda: tk * 2.0 + 1.0
    if np:
        nk = np.ones(N, np.float32)
        c["numpy"] = lambda: nk * 2.0 + 1.0
    if jax:
        jk, f = jax.numpy.ones(N), jax.jit(lambda x: x * 2.0 + 1.0)
        c["jax jit"] = lambda: f(jk).block_until_ready()
    report.compare("y = x * 2 + 1, 64 MiB", c)

    # gelu (tanh) as a chain of ops
    out = tx.empty(N)

    def chain():
        out.copy_(x * 0.5 * (tx.tanh((x * x * x * 0.044715 + x) * 0.7978845608) + 1.0))

    c = {"tensorx chain": chain, "tensorx gelu_tanh": lambda: out.copy_(tx.gelu_tanh(x))}
    if torch:
        tg, to = torch.ones(N), torch.empty(N)
        gelu = torch._C._nn.gelu
        c["torch gelu, out="] = lambda: gelu(tg, approximate="tanh", out=to)
        c["torch gelu"] = lambda: torch.nn.functional.gelu(tg, approximate="tanh")
    if jax:
        jg, g = jax.numpy.ones(N), jax.jit(lambda x: x * 0.5 * (jax.numpy.tanh((x * x * x * 0.044715 + x) * 0.7978845608) + 1.0))
        c["jax jit"] = lambda: g(jg).block_until_ready()
    report.compare("gelu (tanh), 64 MiB", c, ours="tensorx chain")

    # chains at every size
    for k in range(8, 25, 2):
        n = 2**k
        mine = Slot(tx.ones(n))
        inplace = tx.ones(n)
        c = {"tensorx": plain(mine, tx.eval), "tensorx in place": lambda inplace=inplace: inplace.mul_(0.5).add_(0.25)}
        if torch:
            t = torch.ones(n)
            c["torch in place"] = lambda t=t: t.mul_(0.5).add_(0.25)
        if np:
            c["numpy"] = plain(Slot(np.ones(n, np.float32)), nothing)
        report.compare(f"x * 0.5 + 0.25, 2^{k} elements", c, ours="tensorx in place")
    report.save()


if __name__ == "__main__":
    main()
