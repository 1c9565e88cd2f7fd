"""Random numbers and optimizer steps."""

from __future__ import annotations

import functools

from . import codegen
from .bridge import READ, WRITE, Instance
from .codegen import FLOATS, STORAGE
from .launch import Array, scalar_word, thread_count, words


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


@functools.lru_cache(maxsize=32)
def _optimizer_text(which: str, param: str, grad: str) -> str:
    return codegen.fill(
        "optimizer", PARAM=STORAGE[param], GRAD=STORAGE[grad], SGD=int(which == "sgd"), ADAM=int(which == "adam"),
        LOAD_PARAM=codegen.load_text("p", "i", param), LOAD_GRAD=codegen.load_text("g", "i", grad),
        STORE_PARAM=codegen.store_text("y", param),
    )  # fmt: skip


def _floats(*values: float) -> list[int]:
    return [scalar_word(v, "float32") for v in values]


def sgd(
    inst: Instance,
    param: Array,
    grad: Array,
    velocity: Array | None,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    first_step: bool = False,
    maximize: bool = False,
) -> int:
    """One step of SGD in place; ``velocity`` (float32) is needed with momentum.  All arrays are dense."""
    n = param.size
    if n == 0:
        return 0
    threads = thread_count(n)
    flags = nesterov | 2 * first_step | 4 * maximize | 8 * (velocity is not None)
    arguments = words(n, *_floats(lr, momentum, dampening, weight_decay), flags)
    kernel = inst.kernel(_optimizer_text("sgd", param.dtype, grad.dtype), "sgd")
    unused = grad.binding(READ)._replace(item_bytes=1, offset=0, access=0)
    bindings = [
        param.binding(READ | WRITE),
        grad.binding(READ),
        velocity.binding((0 if first_step else READ) | WRITE) if velocity is not None else unused,
    ]
    return inst.encode(kernel, bindings, (threads,), arguments, ops=8 * n, label="SGD step")


def adam(
    inst: Instance,
    param: Array,
    grad: Array,
    first: Array,
    second: Array,
    highest: Array | None = None,
    *,
    step: int,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> int:
    """Step number ``step`` (from 1) of Adam in place; of AdamW with ``decoupled``, of AMSGrad with ``highest``.

    The moments are float32.  All arrays are dense.
    """
    n = param.size
    if n == 0:
        return 0
    threads = thread_count(n)
    beta1, beta2 = betas
    rate, root = lr / (1.0 - beta1**step), (1.0 - beta2**step) ** 0.5
    decay = lr * weight_decay if decoupled else weight_decay
    flags = decoupled | 2 * (highest is not None) | 4 * maximize
    arguments = words(n, *_floats(rate, root, beta1, beta2, 1.0 - beta1, 1.0 - beta2, eps, decay), flags)
    kernel = inst.kernel(_optimizer_text("adam", param.dtype, grad.dtype), "adam")
    unused = grad.binding(READ)._replace(item_bytes=1, offset=0, access=0)
    bindings = [
        param.binding(READ | WRITE),
        grad.binding(READ),
        first.binding(READ | WRITE),
        second.binding(READ | WRITE),
        highest.binding(READ | WRITE) if highest is not None else unused,
    ]
    return inst.encode(kernel, bindings, (threads,), arguments, ops=20 * n, label="Adam step")
