"""Random numbers: the streams of the CPU, by the counter-based Philox4x32-10 (Salmon and others, 2011)."""

from __future__ import annotations

import functools

from . import codegen
from .bridge import WRITE, Instance
from .codegen import FLOATS, STORAGE
from .launch import Array, thread_count, words


@functools.lru_cache(maxsize=16)
def _random_text(dtype: str, kind: str) -> str:
    if kind == "bits":
        if dtype not in ("uint32", "int32"):
            raise ValueError(f"random bits of {dtype}")
        return codegen.fill("random", OUT=STORAGE[dtype], STORE=f"{STORAGE[dtype]}(u)")
    if kind != "uniform" or dtype not in FLOATS:
        raise ValueError(f"random {kind} of {dtype}")
    # halves are cut, not rounded: 1 must not come out
    bits = {"float32": "u >> 8", "float16": "(u >> 21) << 13", "bfloat16": "(u >> 24) << 16"}[dtype]
    return codegen.fill(
        "random", OUT=STORAGE[dtype], STORE=codegen.store_text(f"float({bits}) * 5.9604645e-08f", dtype)
    )


def random(inst: Instance, out: Array, seed: int, stream: int, first: int = 0, kind: str = "uniform") -> int:
    """Fill a dense array from words ``first``, ``first + 1``, ... of a Philox4x32-10 stream.

    ``bits`` are the words; ``uniform`` is (word >> 8) * 2**-24 in float32, and its leading 11 (8) bits in
    float16 (bfloat16).  Word w is word w % 4 of the block with key ``seed`` (two 32-bit halves, low first)
    and counter (w // 4 low, w // 4 high, stream low, stream high).
    """
    n = out.size
    if n == 0:
        return 0
    blocks = (first % 4 + n + 3) // 4
    threads = thread_count(blocks)
    kernel = inst.kernel(_random_text(out.dtype, kind), "random")
    arguments = words(n, seed, stream, first)
    return inst.encode(kernel, [out.binding(WRITE)], (threads,), arguments, ops=30 * n, label=f"random {kind}")
