"""Metal text from descriptions: fused elementwise programs, and templates filled in for dtypes.

A :class:`Program` is what the engine evaluates at once: inputs, instructions and outputs over one
iteration space.  :func:`elementwise` turns it into one kernel.  Its text depends on structure,
dtypes and layout classes only; sizes, strides, offsets and scalar values are arguments, so a learning
rate that changes does not compile anything.

Conventions of every kernel here
    buffers 0..n-1   the arrays, bound at their start
    buffer n         ``constant long *off``: element offset of each array, then the grid's origin
    buffer n + 1     ``constant ulong *arg``: 64-bit words, see each launcher
Values live in registers of :data:`REGISTER` types: float16 and bfloat16 as float, bool as bool,
complex64 as float2.
"""

from __future__ import annotations

import functools
import os
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ops import rowlang, table

# In memory / in registers.
STORAGE = {
    "bool": "uchar",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float16": "half",
    "bfloat16": "ushort",
    "float32": "float",
    "complex64": "float2",
}
REGISTER = {**STORAGE, "bool": "bool", "float16": "float", "bfloat16": "float"}
ITEM_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "complex64": 8,
}  # fmt: skip
HALVES = ("float16", "bfloat16")
FLOATS = ("float16", "bfloat16", "float32")
INTEGERS = tuple(name for name in STORAGE if "int" in name)

# Layout classes of operands. SCALAR: a value among the arguments; ONE: one element of an array;
# LINEAR: element i; STRIDED: an offset computed from sizes and strides; INDEX: the int64 position i itself.
SCALAR, ONE, LINEAR, STRIDED, INDEX = "scalar", "one", "linear", "strided", "index"

_UNSIGNED = {"char": "uchar", "short": "ushort", "int": "uint", "long": "ulong"}
_WIDE = {"char": "uint", "uchar": "uint", "short": "uint", "ushort": "uint", "int": "uint", "uint": "uint"}
_SUFFIX_TYPE = {
    "b8": "bool", "i8": "char", "i16": "short", "i32": "int", "i64": "long", "u8": "uchar", "u16": "ushort",
    "u32": "uint", "u64": "ulong", "f32": "float", "c64": "float2",
}  # fmt: skip

# Rows that have no Metal form, and so run on the CPU.
NO_KERNEL = frozenset({"polygamma"})

HEADER = """\
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#endif
#pragma METAL fp contract(off)
using namespace metal;
"""


# ---- programs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """An input, or an output: its dtype and layout class."""

    dtype: str
    layout: str = LINEAR


@dataclass(frozen=True)
class Instr:
    """One operation: ``dst = op(srcs)``, numbers being registers.

    ``op`` is a row of the op table with operands of ``dtype``, ``"cast"`` from ``dtype`` to ``to``,
    or ``"round_to"`` rounds a float to the half type ``dtype``.  Rows with half operands round by themselves.
    """

    op: str
    dtype: str
    dst: int
    srcs: tuple[int, ...]
    to: str = ""


@dataclass(frozen=True)
class Program:
    """Elementwise work over one iteration space of ``ndim`` dimensions (0 if nothing is strided).

    Inputs occupy the registers 0, 1, ...; ``outputs`` pairs registers with operands.
    """

    inputs: tuple[Operand, ...]
    instrs: tuple[Instr, ...]
    outputs: tuple[tuple[int, Operand], ...] = ()
    ndim: int = 0

    def strided(self) -> list[tuple[str, int]]:
        """The strided operands, ("in" or "out", position), in the order of their strides among the arguments."""
        found = [("in", k) for k, operand in enumerate(self.inputs) if operand.layout == STRIDED]
        return found + [("out", k) for k, (_, operand) in enumerate(self.outputs) if operand.layout == STRIDED]

    def arrays(self) -> list[tuple[str, int]]:
        """The operands that are buffers, in binding order."""
        found = [("in", k) for k, operand in enumerate(self.inputs) if operand.layout not in (SCALAR, INDEX)]
        return found + [("out", k) for k in range(len(self.outputs))]


def result_dtype(op: str, dtype: str, to: str = "") -> str:
    """The dtype that an instruction gives."""
    if op == "cast":
        return to
    if op == "round_to":
        return dtype
    out = table.TABLE[table.INDEX[op]].out
    if out == "bool":
        return "bool"
    if out == "real" and dtype == "complex64":
        return "float32"
    if out == "complex":
        return "complex64"
    return dtype


def supported(op: str, dtype: str, to: str = "") -> bool:
    """Whether an instruction can run on Metal."""
    if op in ("cast", "round_to"):
        return dtype in STORAGE and (op == "round_to" or to in STORAGE)
    row = table.TABLE[table.INDEX[op]]
    if op in NO_KERNEL or dtype not in STORAGE:
        return False
    if row.out == "complex" and dtype != "float32":
        return False
    return rowlang.DTYPES[dtype].kind in row.kinds


# ---- expressions ---------------------------------------------------------------------------------


class _Emitter(rowlang.Emitter):
    """Rows as Metal statements: every sum and product becomes a temporary of its own, so that no
    compiler can fuse two roundings into one, and integers wrap."""

    def __init__(self, dtype: Any, operands: dict[str, tuple[str, str]], prefix: str):
        super().__init__(dtype, operands, metal=True)
        self.prefix = prefix
        self.lines: list[str] = []

    def number(self, value: float, suffix: str) -> str:
        if suffix in ("f32", "c64"):
            return super().number(value, suffix)
        if value != int(value):
            raise ValueError(f"{value} in an integer expression")
        return f"{_SUFFIX_TYPE[suffix]}({int(value)})"

    def call(self, name: str, suffix: str, *args: str) -> str:
        return f"{'C' if suffix == 'c64' else ''}{name}({', '.join(args)})"

    def temporary(self, suffix: str, text: str) -> str:
        name = f"{self.prefix}_{len(self.lines)}"
        self.lines.append(f"const {_SUFFIX_TYPE[suffix]} {name} = {text};")
        return name

    def arithmetic(self, symbol: str, suffix: str, a: str, b: str) -> str:
        kind = _SUFFIX_TYPE[suffix]
        if kind == "float":
            return f"{a} {symbol} {b}"
        if kind == "bool":
            return f"({a} {symbol} {b}) != 0"
        wide = _WIDE.get(kind, "ulong")
        return f"{kind}({wide}({a}) {symbol} {wide}({b}))"

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        suffix = self.join((left, right))
        if suffix in ("c64", "c128"):
            text, kind, value = super().binary(symbol, left, right)
            return self.temporary(kind, text), kind, value
        a, b = self.typed(left, suffix), self.typed(right, suffix)
        return self.temporary(suffix, self.arithmetic(symbol, suffix, a, b)), suffix, None

    def visit(self, node: Any) -> Any:
        text, kind, value = super().visit(node)
        if kind in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64") and text.startswith("(-"):
            operand = text[2:-1]
            return self.temporary(kind, self.arithmetic("-", kind, f"{_SUFFIX_TYPE[kind]}(0)", operand)), kind, None
        return text, kind, value


def statements(op: str, dtype: str, operands: Sequence[str], name: str) -> list[str]:
    """Statements that leave row ``op`` of ``dtype`` registers in ``name``, rounded for halves."""
    row = table.TABLE[table.INDEX[op]]
    described = rowlang.DTYPES[dtype]
    texts = {
        letter: (operands[k], rowlang.TRUTH if k in row.masks else described.suffix)
        for k, letter in enumerate(row.operands)
    }
    emitter = _Emitter(described, texts, name)
    node = emitter.visit(rowlang.parse(rowlang.full_forward(row, described)))
    out = result_dtype(op, dtype)
    suffix = rowlang.DTYPES[out].suffix
    if node[1] == rowlang.TRUTH:
        text = node[0] if out == "bool" else f"{REGISTER[out]}({node[0]})"
    else:
        text = emitter.typed(node, suffix)
    text = text.replace("complex64(", "float2(")
    lines = [line.replace("complex64(", "float2(") for line in emitter.lines]
    if out in HALVES:
        text = f"{'f16' if out == 'float16' else 'bf16'}_round({text})"
    return [*lines, f"const {REGISTER[out]} {name} = {text};"]


def cast_text(value: str, dtype: str, to: str) -> str:
    """``value`` of a dtype as another dtype: float to integer saturates, anything to bool is ``!= 0``."""
    if dtype == to:
        return value
    if to == "bool":
        return f"to_bool({value})" if dtype != "bool" else value
    if dtype == "complex64":
        value, dtype = f"({value}).x", "float32"
    if to == "complex64":
        real = value if dtype in FLOATS else f"float({value})"
        return f"float2({real}, 0.0f)"
    if to in FLOATS:
        real = value if dtype in FLOATS else f"float({value})"
        return real if to == "float32" else f"{'f16' if to == 'float16' else 'bf16'}_round({real})"
    if dtype in FLOATS:
        return f"to_{STORAGE[to]}({value})"
    return f"{REGISTER[to]}({value})"


def load_text(pointer: str, index: str, dtype: str) -> str:
    """A register from memory."""
    text = f"{pointer}[{index}]"
    if dtype == "bool":
        return f"{text} != 0"
    if dtype == "float16":
        return f"float({text})"
    if dtype == "bfloat16":
        return f"bf16_load({text})"
    return text


def store_text(value: str, dtype: str) -> str:
    """A register as it is written to memory."""
    if dtype == "bool":
        return f"uchar({value})"
    if dtype == "float16":
        return f"half({value})"
    if dtype == "bfloat16":
        return f"bf16_store({value})"
    return value


def scalar_text(word: str, dtype: str) -> str:
    """A register from a 64-bit argument that holds a value of the dtype's register type in its low bits."""
    if dtype == "complex64":
        return f"as_type<float2>({word})"
    if dtype in FLOATS:
        return f"as_type<float>(uint({word}))"
    if dtype == "bool":
        return f"({word}) != 0"
    return f"{STORAGE[dtype]}({word})"


# ---- preludes ------------------------------------------------------------------------------------

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")


@functools.cache
def template(name: str) -> str:
    """The text of ``kernels/<name>.metal``."""
    with open(os.path.join(_HERE, name + ".metal"), encoding="utf-8") as f:
        return f.read()


_DEFINED = re.compile(r"^inline \w+ (\w+)\(", re.MULTILINE)
_CALLED = re.compile(r"\b(\w+)\(")


@functools.cache
def _defines(part: str) -> frozenset[str]:
    return frozenset(_DEFINED.findall(template("prelude_" + part)))


_NEEDS = {"exp": (), "trig": ("exp",), "special": ("exp", "trig"), "complex": ("exp", "trig")}


@functools.cache
def integer_prelude(dtype: str) -> str:
    """The prelude of one integer dtype."""
    kind = STORAGE[dtype]
    unsigned = _UNSIGNED.get(kind, kind)
    return string.Template(template("prelude_integer")).substitute(
        T=kind,
        U=unsigned,
        W=_WIDE.get(kind, "ulong"),
        BITS=8 * ITEM_BYTES[dtype],
        NEGATIVE="x < 0" if kind != unsigned else "false && x != 0",
    )


def prelude(body: str, dtypes: Iterable[str]) -> str:
    """Header and those parts of the prelude that a kernel's body needs."""
    used = set(_CALLED.findall(body))
    wanted: set[str] = set()
    for part, needs in _NEEDS.items():
        if used & (_defines(part) - _defines("base")):
            wanted |= {part, *needs}
    dtypes = set(dtypes)
    text = [HEADER, template("prelude_base")]
    text += [integer_prelude(name) for name in INTEGERS if name in dtypes]
    text += [template("prelude_" + part) for part in ("exp", "trig", "special", "complex") if part in wanted]
    return "\n".join(text)


# ---- elementwise kernels -----------------------------------------------------------------------------


def instruction_lines(program: Program, inputs: Sequence[str]) -> tuple[list[str], dict[int, tuple[str, str]]]:
    """Statements of a program over input registers, and register -> (name, dtype)."""
    registers = {k: (text, operand.dtype) for k, (text, operand) in enumerate(zip(inputs, program.inputs))}
    lines: list[str] = []
    for number, instr in enumerate(program.instrs):
        name = f"v{number}"
        sources = [registers[k][0] for k in instr.srcs]
        out = result_dtype(instr.op, instr.dtype, instr.to)
        if instr.op == "cast":
            lines.append(f"const {REGISTER[out]} {name} = {cast_text(sources[0], instr.dtype, instr.to)};")
        elif instr.op == "round_to":
            word = "f16" if instr.dtype == "float16" else "bf16"
            lines.append(f"const float {name} = {word}_round({sources[0]});")
        else:
            lines += statements(instr.op, instr.dtype, sources, name)
        registers[instr.dst] = (name, out)
    return lines, registers


def dtypes_of(program: Program) -> set[str]:
    """Every dtype that a program touches."""
    found = {operand.dtype for operand in program.inputs}
    found |= {operand.dtype for _, operand in program.outputs}
    for instr in program.instrs:
        found |= {instr.dtype, result_dtype(instr.op, instr.dtype, instr.to)}
    return found


def indent(lines: Iterable[str], by: int) -> str:
    """Lines with a margin."""
    return "\n".join(" " * by + line for line in lines)


class Arguments:
    """Positions of the 64-bit words of ``arg``: named ones first, then sizes, strides and scalars."""

    def __init__(self, *names: str):
        self.names = list(names)

    def word(self, name: str) -> str:
        """The word of a name, which gets the next position at its first use."""
        if name not in self.names:
            self.names.append(name)
        return f"arg[{self.names.index(name)}]"


@dataclass(frozen=True)
class Signature:
    """How operands of a program are bound and read inside a kernel."""

    parameters: list[str]
    pointers: list[str]
    inputs: list[str]
    count: int


def bind_program(program: Program, args: Arguments, first: int = 0, index: str = "i") -> Signature:
    """Kernel parameters, pointer set-up and input registers of a program.

    Strided operand k reads at ``o<k>``, linear ones at ``index``.
    """
    parameters, pointers, inputs = [], [], []
    slot = first
    for k, operand in enumerate(program.inputs):
        kind = STORAGE[operand.dtype]
        if operand.layout == SCALAR:
            inputs.append(scalar_text(args.word(f"scalar{k}"), operand.dtype))
            continue
        if operand.layout == INDEX:
            inputs.append(f"long({index})")
            continue
        parameters.append(f"device const {kind} *in{k} [[buffer({slot})]]")
        pointers.append(f"device const {kind} *p{k} = in{k} + off[{slot}];")
        at = {ONE: "0", LINEAR: index, STRIDED: f"oi{k}"}[operand.layout]
        inputs.append(load_text(f"p{k}", at, operand.dtype))
        slot += 1
    for k, (_, operand) in enumerate(program.outputs):
        kind = STORAGE[operand.dtype]
        parameters.append(f"device {kind} *out{k} [[buffer({slot})]]")
        pointers.append(f"device {kind} *q{k} = out{k} + off[{slot}];")
        slot += 1
    return Signature(parameters, pointers, inputs, slot)


def unravel_lines(
    dims: Sequence[str], strided: Sequence[tuple[str, Sequence[str]]], index: str, wide: bool
) -> list[str]:
    """Statements that turn a position into the offsets of strided operands.

    dims: texts of the sizes, outermost first; strided: (variable, texts of its strides).
    """
    unsigned, signed = ("ulong", "long") if wide else ("uint", "int")
    lines = []
    left = index
    terms: dict[str, list[str]] = {name: [] for name, _ in strided}
    for d in range(len(dims) - 1, -1, -1):
        if d == 0:
            coordinate = left
        else:
            lines.append(f"const {unsigned} n{d}_{index} = {unsigned}({dims[d]});")
            lines.append(f"const {unsigned} r{d}_{index} = {left} / n{d}_{index};")
            lines.append(f"const {unsigned} c{d}_{index} = {left} - r{d}_{index} * n{d}_{index};")
            coordinate, left = f"c{d}_{index}", f"r{d}_{index}"
        for name, strides in strided:
            terms[name].append(f"{signed}({coordinate}) * {signed}({strides[d]})")
    for name, _ in strided:
        lines.append(f"const {signed} {name} = {' + '.join(terms[name])};")
    return lines


def elementwise_arguments(program: Program) -> Arguments:
    """The order of the words of an elementwise kernel: count, sizes, strides, scalars."""
    args = Arguments("count")
    for d in range(program.ndim):
        args.word(f"size{d}")
    for where, k in program.strided():
        for d in range(program.ndim):
            args.word(f"stride_{where}{k}_{d}")
    for k, operand in enumerate(program.inputs):
        if operand.layout == SCALAR:
            args.word(f"scalar{k}")
    return args


@functools.lru_cache(maxsize=4096)
def elementwise(program: Program, wide: bool = False) -> str:
    """Text of the kernel ``fused`` of a program; ``wide`` uses 64-bit indices."""
    args = elementwise_arguments(program)
    signature = bind_program(program, args)
    unsigned = "ulong" if wide else "uint"
    strided = [
        (f"oi{k}" if where == "in" else f"oo{k}", [args.word(f"stride_{where}{k}_{d}") for d in range(program.ndim)])
        for where, k in program.strided()
    ]
    body = unravel_lines([args.word(f"size{d}") for d in range(program.ndim)], strided, "i", wide) if strided else []
    for k, (operand, text) in enumerate(zip(program.inputs, signature.inputs)):
        body.append(f"const {REGISTER[operand.dtype]} x{k} = {text};")
    lines, registers = instruction_lines(program, [f"x{k}" for k in range(len(program.inputs))])
    body += lines
    for k, (register, operand) in enumerate(program.outputs):
        at = f"oo{k}" if operand.layout == STRIDED else "i"
        body.append(f"q{k}[{at}] = {store_text(registers[register][0], operand.dtype)};")
    parameters = [
        *signature.parameters,
        f"constant long *off [[buffer({signature.count})]]",
        f"constant ulong *arg [[buffer({signature.count + 1})]]",
        "uint tid [[thread_position_in_grid]]",
        "uint threads [[threads_per_grid]]",
    ]
    head = ",\n                  ".join(parameters)
    kernel = f"""
kernel void fused({head})
{{
{indent(signature.pointers, 4)}
    const {unsigned} count = {unsigned}({args.word("count")});
    for ({unsigned} i = tid; i < count; i += threads) {{
{indent(body, 8)}
    }}
}}
"""
    return prelude(kernel, dtypes_of(program)) + kernel


# ---- templates ---------------------------------------------------------------------------------------


def fill(name: str, dtypes: Iterable[str] = (), **values: Any) -> str:
    """A template from ``kernels/`` with its ``$names`` replaced, behind the prelude it needs."""
    body = string.Template(template(name)).substitute({k: str(v) for k, v in values.items()})
    return prelude(body, dtypes) + "\n" + body
