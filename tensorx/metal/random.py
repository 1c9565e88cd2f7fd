"""Random numbers: the streams of the CPU, by the counter-based Philox4x32-10 (Salmon and others, 2011).

A kind of numbers is a few statements that turn four words into elements (``kernels/random.metal``); they follow
``_native/random.h``, and for the kinds made by inversion the expressions of ``ops/distributions.py``, operation
by operation.  Parameters are arguments, so that other bounds compile nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from . import codegen
from .bridge import WRITE, Instance
from .codegen import FLOATS, INTEGERS, ITEM_BYTES, STORAGE
from .launch import MAX_32, Array, collapse, dense, reach, thread_count, words

# Arguments, see random.metal: three numbers, then sizes and strides.
_NUMBERS = 4
_A, _B, _C = (f"as_type<float>(uint(arg[{_NUMBERS + k}]))" for k in range(3))
_SHAPE = _NUMBERS + 3

# x from u in (0, 1]
_INVERSES = {
    "exponential": ["x = -LOG(u);"],
    "laplace": [
        "const float v = u - 0.5f;", "const float d = 2.0f * ABS(v);", "const float m = MAX(1.0f - d, 1.1754944e-38f);",
        "x = SIGN(v) * -LOG(m);",
    ],
    "logistic": ["const float m = MAX(1.0f - u, 2.9802322e-08f);", "const float l = LOG(m);", "x = LOG(u) - l;"],
    "cauchy": ["const float v = u - 0.5f;", "x = TAN(v * 3.1415927f);"],
    "gumbel": ["const float m = MAX(-LOG(u), 2.9802322e-08f);", "x = -LOG(m);"],
    "weibull": [f"x = POW(-LOG(u), {_C});"],
}  # fmt: skip
_REAL = ("uniform", "normal", "lognormal", *_INVERSES)


class Kind(NamedTuple):
    """How a kernel makes its elements: their type in memory, words of each, and the statements that leave them in ``x``."""

    out: str
    words: int
    body: tuple[str, ...]


def has(kind: str, dtype: str) -> bool:
    """Whether there is a kernel for numbers of a kind and dtype."""
    if kind in ("bits", "integers"):
        return dtype in INTEGERS
    if kind == "bernoulli":
        return dtype in STORAGE
    return kind in _REAL and dtype in FLOATS


def _unsigned(dtype: str) -> str:
    return {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[ITEM_BYTES[dtype]]


def _each(count: int, expression: str) -> tuple[str, ...]:
    """A statement for each element; ``@k`` is its number, ``@0`` ... its words."""
    step = 4 // count
    lines = []
    for k in range(count):
        line = expression.replace("@k", str(k))
        for j in range(step):
            line = line.replace(f"@{j}", f"w[{k * step + j}]")
        lines.append(f"x[{k}] = {line};")
    return tuple(lines)


def _over_four(lines: Sequence[str], step: int = 1) -> tuple[str, ...]:
    by = "k++" if step == 1 else f"k += {step}u"
    return (f"for (uint k = 0; k < 4u; {by}) {{", *("    " + line for line in lines), "}")


def _normal(finish: str, dtype: str) -> tuple[str, ...]:
    """Pairs by Box and Muller: radius from one uniform, which is never 0, angle from the next."""
    lines = [
        "const float h = float(w[k] >> 1) * 4.656613e-10f;", "const float l = LOG(h + 2.3283064e-10f);", "const float m = l * -2.0f;",
        "const float r = SQRT(m + 0.0f);", "const float t = unit_of(w[k + 1u]) * 6.2831855f;",
        "const float c = r * COS(t);", "const float s = r * SIN(t);", f"const float cb = c * {_B};", f"const float sb = s * {_B};",
        f"const float y0 = cb + {_A};", f"const float y1 = sb + {_A};",
    ]  # fmt: skip
    lines += [f"x[k{' + 1u' if j else ''}] = {codegen.store_text(finish.format(f'y{j}'), dtype)};" for j in range(2)]
    return _over_four(lines, 2)


def _round(dtype: str) -> str:
    return {"float32": "{}", "float16": "f16_round({})", "bfloat16": "bf16_round({})"}[dtype]


def _kind(kind: str, dtype: str, wide: bool) -> Kind:
    """The kind of a dtype; wide: integers of a range beyond 2**32."""
    if not has(kind, dtype):
        raise ValueError(f"random {kind} of {dtype}")
    raw = _unsigned(dtype)
    if kind == "bits":
        if raw == "ulong":
            return Kind(raw, 2, _each(2, "ulong(@0) | (ulong(@1) << 32)"))
        return Kind(raw, 1, _each(4, f"{raw}(@0)"))
    if kind == "integers":
        low, span = f"arg[{_NUMBERS}]", f"arg[{_NUMBERS + 1}]"
        if wide:
            lines = ("const ulong low = ulong(w[0]) | (ulong(w[1]) << 32);", "const ulong high = ulong(w[2]) | (ulong(w[3]) << 32);")
            return Kind(raw, 4, (*lines, f"x[0] = {raw}({low} + below_wide(low, high, {span}));"))
        return Kind(raw, 2, _each(2, f"{raw}({low} + below(@0, @1, {span}))"))
    if kind == "bernoulli":
        value = f"arg[{_NUMBERS + 1}]"
        return Kind(raw, 1, _each(4, f"(@0 >> 8) < uint(arg[{_NUMBERS}]) ? {raw}({value}) : {raw}(0)"))
    if kind == "normal":
        return Kind(STORAGE[dtype], 1, _normal("{}", dtype))
    if kind == "lognormal":
        return Kind(STORAGE[dtype], 1, _normal(f"EXP({_round(dtype)})", dtype))
    if kind == "uniform":
        # halves are cut, not rounded: 1 must not come out
        bits = {"float32": "w[k]", "float16": "w[k] & 0xffe00000u", "bfloat16": "w[k] & 0xff000000u"}[dtype]
        stored = codegen.store_text(f"y > {_C} ? {_C} : y", dtype)
        return Kind(STORAGE[dtype], 1, _over_four([f"const float b = unit_of({bits}) * {_B};", f"const float y = b + {_A};", f"x[k] = {stored};"]))
    inverse = [line.replace("x = ", "const float z = ") for line in _INVERSES[kind]]
    stored = codegen.store_text(f"b + {_A}", dtype)
    return Kind(STORAGE[dtype], 1, _over_four(["const float u = open_unit_of(w[k]);", *inverse, f"const float b = z * {_B};", f"x[k] = {stored};"]))


@functools.lru_cache(maxsize=256)
def _random_text(made: Kind, ndim: int, wide: bool) -> str:
    """The kernel's text; ndim: dimensions of a destination that is not dense, else 0; wide: 64-bit offsets there."""
    place: list[str] = []
    if ndim:
        sizes = [f"arg[{_SHAPE + d}]" for d in range(ndim)]
        place = codegen.unravel_lines(sizes, [("at", [f"arg[{_SHAPE + ndim + d}]" for d in range(ndim)])], "i", wide)
    return codegen.fill(
        "random", OUT=made.out, EACH=4 // made.words, BODY=codegen.indent(made.body, 8), PLACE=codegen.indent(place, 16),
        INDEX="uint" if ndim and not wide else "ulong", AT="at" if ndim else "i",
    )  # fmt: skip


def random(
    inst: Instance, out: Array, seed: int, stream: int, first: int = 0, kind: str = "uniform", numbers: Sequence[int] = (0, 0x3F800000, 0x3F800000)
) -> int:
    """Fill an array, in C order, from words ``first``, ``first + 1``, ... of a Philox4x32-10 stream.

    Word w is word w % 4 of the block with key ``seed`` (two 32-bit halves, low first) and counter (w // 4 low,
    w // 4 high, stream low, stream high).  ``numbers`` are 64-bit words: for ``integers`` the lowest and how
    many (0: 2**64), for ``bernoulli`` how many of 2**24 are true and the bits of what stands for true, else
    float32 bits: a and b of a + b x, and what bounds ``uniform`` from above or is the exponent of ``weibull``.
    """
    n = out.size
    if n == 0:
        return 0
    made = _kind(kind, out.dtype, kind == "integers" and not 0 < numbers[1] <= 1 << 32)
    each = 4 // made.words
    threads = thread_count((n + each - 1) // each)
    dims, (steps,) = collapse(out.shape, [out.strides])
    arguments = [n, seed, stream, first, *numbers, *[0] * (3 - len(numbers))]
    ndim = 0
    wide = False
    if tuple(steps) != dense(dims):
        ndim = len(dims)
        wide = n > MAX_32 or reach(dims, steps) > MAX_32
        arguments += [*dims, *steps]
    kernel = inst.kernel(_random_text(made, ndim, wide), "random")
    return inst.encode(kernel, [out.binding(WRITE)], (threads,), words(*arguments), ops=(60 if kind in _REAL else 30) * n, label=f"random {kind}")
