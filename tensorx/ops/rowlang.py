"""The row language: its functions and dtypes, and how an expression becomes C or Metal text.

Standard library only; codegen.py, and through it setup.py, loads this file by path.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

if __package__:
    from . import table
else:  # loaded by path, before tensorx is built
    _spec = importlib.util.spec_from_file_location(
        "_tensorx_table", os.path.join(os.path.dirname(os.path.abspath(__file__)), "table.py")
    )
    assert _spec is not None and _spec.loader is not None
    table = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = table
    _spec.loader.exec_module(table)

Op = table.Op


# ---------------------------------------------------------------------------
# The prelude
# ---------------------------------------------------------------------------


class Prelude(NamedTuple):
    """A function that row expressions may call.

    row      the table row that computes it: how a gradient is evaluated with Tensors
    arity    number of arguments
    result   same (as the arguments), truth (0 or 1) or real (real part's dtype of a complex)
    cheap    a few instructions per element, so that loops are worth a copy per scalar operand
    """

    row: str
    arity: int
    result: str = "same"
    cheap: bool = False


# In C these are NAME_<dtype> of prelude.h, in Metal overloaded functions NAME of the
# Metal prelude, in Python the namespace functions of their rows.  Their meaning, where
# it is more than the C library function of that name:
#   WHERE(c, a, b)   a where c, else b; the other is not looked at
#   AND OR XOR NOT   of truth values
#   MULG(g, f)       0 where g is 0 and f is not finite, else g * f
#   MAX MIN          NaN if either is NaN;  FMAX FMIN  the other one if one is NaN
#   ABS              exact for integers, the smallest value stays itself; modulus of a complex
#   SIGN             -1 0 1, NaN for NaN; z / |z| for complex, 0 for 0
#   RINT             to the nearest whole number, ties to even
#   FLOORDIV REM     as // and % of Python; integers: 0 if y is 0, the smallest value // -1 wraps
#   FMOD             C's fmod; integers: remainder of truncated division, 0 if y is 0
#   POW              integers: wraps; a negative exponent gives 1 for x = 1, +-1 for -1, else 0
#   SHL SHR          by y bits: 0 if y < 0; from the width on 0, or -1 for SHR of a negative x
#   BITNOT           logical not for bool
#   SIGNBIT          the sign bit, also of -0.0 and NaN
#   CONJ REAL IMAG   of a real number: x, x, 0;  COMPLEX(re, im) makes a complex number
#   SIGMOID          1 / (1 + exp(-x)) without overflow;  RSQRT is 1 / sqrt(x), divided after the root
#   LOGADDEXP        log(exp(x) + exp(y)) without overflow
#   DIGAMMA          derivative of LGAMMA = log|gamma(x)|;  POLYGAMMA(n, x) its n-th derivative
#   INF              positive infinity (a constant)
PRELUDE: dict[str, Prelude] = {
    "WHERE": Prelude("where", 3, "same", True),
    "MULG": Prelude("mulg", 2, "same", True),
    "AND": Prelude("logical_and", 2, "truth", True),
    "OR": Prelude("logical_or", 2, "truth", True),
    "XOR": Prelude("logical_xor", 2, "truth", True),
    "NOT": Prelude("logical_not", 1, "truth", True),
    "ISNAN": Prelude("isnan", 1, "truth", True),
    "ISINF": Prelude("isinf", 1, "truth", True),
    "ISFINITE": Prelude("isfinite", 1, "truth", True),
    "SIGNBIT": Prelude("signbit", 1, "truth", True),
    "ABS": Prelude("abs", 1, "real", True),
    "SIGN": Prelude("sign", 1, "same", True),
    "SQUARE": Prelude("square", 1, "same", True),
    "SQRT": Prelude("sqrt", 1, "same", True),
    "RSQRT": Prelude("rsqrt", 1, "same", True),
    "MAX": Prelude("maximum", 2, "same", True),
    "MIN": Prelude("minimum", 2, "same", True),
    "FMAX": Prelude("fmax", 2, "same", True),
    "FMIN": Prelude("fmin", 2, "same", True),
    "CEIL": Prelude("ceil", 1, "same", True),
    "FLOOR": Prelude("floor", 1, "same", True),
    "TRUNC": Prelude("trunc", 1, "same", True),
    "RINT": Prelude("round", 1, "same", True),
    "COPYSIGN": Prelude("copysign", 2, "same", True),
    "CONJ": Prelude("conj", 1, "same", True),
    "REAL": Prelude("real", 1, "real", True),
    "IMAG": Prelude("imag", 1, "real", True),
    "COMPLEX": Prelude("complex", 2, "same", True),
    "BITAND": Prelude("bitwise_and", 2, "same", True),
    "BITOR": Prelude("bitwise_or", 2, "same", True),
    "BITXOR": Prelude("bitwise_xor", 2, "same", True),
    "BITNOT": Prelude("bitwise_invert", 1, "same", True),
    "SHL": Prelude("bitwise_left_shift", 2, "same", True),
    "SHR": Prelude("bitwise_right_shift", 2, "same", True),
    "FLOORDIV": Prelude("floor_divide", 2),
    "REM": Prelude("remainder", 2),
    "FMOD": Prelude("fmod", 2),
    "POW": Prelude("pow", 2),
    "GCD": Prelude("gcd", 2),
    "LCM": Prelude("lcm", 2),
    "NEXTAFTER": Prelude("nextafter", 2),
    "HYPOT": Prelude("hypot", 2),
    "ATAN2": Prelude("atan2", 2, "real"),
    "LOGADDEXP": Prelude("logaddexp", 2),
    "POLYGAMMA": Prelude("polygamma", 2),
    **{
        name: Prelude(name.lower(), 1)
        for name in (
            "EXP EXP2 EXPM1 LOG LOG2 LOG10 LOG1P SIN COS TAN ASIN ACOS ATAN SINH COSH TANH"
            " ASINH ACOSH ATANH SIGMOID ERF ERFC ERFINV CBRT LGAMMA DIGAMMA"
        ).split()
    },
}

CONSTANTS = {"INF": math.inf}

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@functools.cache
def parse(text: str) -> Any:
    """The expression tree of a row string."""
    return ast.parse(text, mode="eval").body


def names(text: str) -> set[str]:
    """Operand names (and g, out) that an expression mentions."""
    used = {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}
    return used - set(PRELUDE) - set(CONSTANTS)


def calls(text: str) -> set[str]:
    """Prelude functions that an expression calls."""
    return {ast.unparse(node.func) for node in ast.walk(parse(text)) if isinstance(node, ast.Call)}


# ---------------------------------------------------------------------------
# Dtypes
# ---------------------------------------------------------------------------


class DType(NamedTuple):
    """suffix: as in prelude.h; code: TX_* of kernel_abi.h; real: suffix of the real part's dtype."""

    name: str
    suffix: str
    c: str
    code: int
    kind: str
    real: str


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("bool", "b8", "uint8_t", 0, "b", "b8"),
        DType("int8", "i8", "int8_t", 1, "i", "i8"),
        DType("int16", "i16", "int16_t", 2, "i", "i16"),
        DType("int32", "i32", "int32_t", 3, "i", "i32"),
        DType("int64", "i64", "int64_t", 4, "i", "i64"),
        DType("uint8", "u8", "uint8_t", 5, "u", "u8"),
        DType("uint16", "u16", "uint16_t", 6, "u", "u16"),
        DType("uint32", "u32", "uint32_t", 7, "u", "u32"),
        DType("uint64", "u64", "uint64_t", 8, "u", "u64"),
        DType("float16", "f32", "float", 9, "f", "f32"),
        DType("bfloat16", "f32", "float", 10, "f", "f32"),
        DType("float32", "f32", "float", 11, "f", "f32"),
        DType("float64", "f64", "double", 12, "f", "f64"),
        DType("complex64", "c64", "tx_c64", 13, "c", "f32"),
        DType("complex128", "c128", "tx_c128", 14, "c", "f64"),
    )
}

# Halves are computed as float32 and rounded after every op, so they have no kernels.
KERNEL_DTYPES = [d for d in DTYPES.values() if d.name not in ("float16", "bfloat16")]
C_OF = {d.suffix: d.c for d in KERNEL_DTYPES}
_COMPLEX_OF = {"f32": "c64", "f64": "c128"}


def forward(row: Op, dtype: DType) -> str:
    """The forward expression of a row for a dtype."""
    return row.complex_forward if dtype.kind == "c" and row.complex_forward else row.forward


def gradients(row: Op, is_complex: bool = False) -> tuple[str | None, ...]:
    """The gradient expressions of a row, one per operand; is_complex: the operand's dtype is complex."""
    return row.complex_grads if is_complex and row.complex_grads else row.grads


def result_suffix(row: Op, dtype: DType) -> str:
    """C suffix of the result's dtype."""
    if row.out == "bool":
        return "b8"
    if row.out == "real":
        return dtype.real
    if row.out == "complex":
        return _COMPLEX_OF[dtype.suffix]
    return dtype.suffix


# ---------------------------------------------------------------------------
# Emission: expression -> C or Metal
# ---------------------------------------------------------------------------

# Kinds of a subexpression: a number, a truth value, or a value of a dtype suffix.
NUMBER, TRUTH = "number", "truth"


class Emitter:
    """Text of one expression, with numbers typed and operators on complex values written as calls.

    ``operands`` maps names to (text, kind), kind being a dtype suffix or TRUTH.  In C, functions and the
    pairs of complex numbers carry the dtype; in Metal, functions are overloaded and a pair is a float2.
    The Metal text of whole rows is made by a subclass in ``tensorx/metal/codegen.py``.
    """

    def __init__(self, dtype: DType, operands: dict[str, tuple[str, str]], metal: bool):
        self.dtype = dtype
        self.operands = operands  # name -> (text, kind)
        self.metal = metal

    def number(self, value: float, suffix: str) -> str:
        real = {"c64": "f32", "c128": "f64"}.get(suffix, suffix)
        if real == "f32":
            if math.isinf(value):
                return "INFINITY" if value > 0 else "(-INFINITY)"
            text = repr(float(value)) + "f"
        elif real == "f64":
            if math.isinf(value):
                return "((double)INFINITY)" if value > 0 else "(-(double)INFINITY)"
            text = repr(float(value))
        else:
            if value != int(value):
                raise ValueError(f"{value} in an integer expression")
            text = str(int(value))
        return f"({text})" if text.startswith("-") else text

    def typed(self, node: tuple[str, str, Any], suffix: str) -> str:
        """A value as an operand of dtype ``suffix``."""
        text, kind, value = node
        if kind == NUMBER:
            text = self.number(value, suffix)
        if suffix in ("c64", "c128") and kind not in (suffix, TRUTH):
            if self.metal:
                return f"float2({text}, 0.0f)"
            return f"tx_make_{suffix}({text}, 0)"
        return text

    def call(self, name: str, suffix: str, *args: str) -> str:
        head = name if self.metal else f"{name}_{suffix}"
        return f"{head}({', '.join(args)})"

    def join(self, nodes: Iterable[tuple[str, str, Any]]) -> str:
        """The dtype suffix that operands meet in."""
        kinds = [kind for _, kind, _ in nodes if kind not in (NUMBER, TRUTH)]
        for kind in kinds:
            if kind in ("c64", "c128"):
                return kind
        return kinds[0] if kinds else self.dtype.real if self.dtype.kind == "c" else self.dtype.suffix

    def visit(self, node: Any) -> tuple[str, str, Any]:
        """(text, kind, value); text is empty and value set for numbers."""
        if isinstance(node, ast.Constant):
            return "", NUMBER, node.value
        if isinstance(node, ast.Name):
            if node.id in CONSTANTS:
                return "", NUMBER, CONSTANTS[node.id]
            text, kind = self.operands[node.id]
            return text, kind, None
        if isinstance(node, ast.UnaryOp):
            text, kind, value = self.visit(node.operand)
            if kind == NUMBER:
                return "", NUMBER, -value
            if kind in ("c64", "c128"):
                return self.call("NEG", kind, text), kind, None
            return f"(-{text})", kind, None
        if isinstance(node, ast.BinOp):
            return self.binary(BINARY[type(node.op)], self.visit(node.left), self.visit(node.right))
        if isinstance(node, ast.Compare):
            left, right = self.visit(node.left), self.visit(node.comparators[0])
            symbol, suffix = COMPARE[type(node.ops[0])], self.join((left, right))
            a, b = self.typed(left, suffix), self.typed(right, suffix)
            if suffix in ("c64", "c128"):
                text = self.call("EQ", suffix, a, b)
                return (text if symbol == "==" else f"(!{text})"), TRUTH, None
            return f"({a} {symbol} {b})", TRUTH, None
        return self.function(node.func.id, [self.visit(arg) for arg in node.args])

    def binary(self, symbol: str, left: tuple[str, str, Any], right: tuple[str, str, Any]) -> tuple[str, str, Any]:
        if left[1] == right[1] == NUMBER:
            raise ValueError("write constants as one number")
        suffix = self.join((left, right))
        if suffix not in ("c64", "c128"):
            return f"({self.typed(left, suffix)} {symbol} {self.typed(right, suffix)})", suffix, None
        word = {"+": "ADD", "-": "SUB", "*": "MUL", "/": "DIV"}[symbol]
        real = {"c64": "f32", "c128": "f64"}[suffix]
        if right[1] != suffix:
            return self.call(word + "R", suffix, left[0], self.typed(right, real)), suffix, None
        if left[1] != suffix:
            if symbol in "+*":
                return self.call(word + "R", suffix, right[0], self.typed(left, real)), suffix, None
            return self.call("R" + word, suffix, self.typed(left, real), right[0]), suffix, None
        return self.call(word, suffix, left[0], right[0]), suffix, None

    def function(self, name: str, args: list[tuple[str, str, Any]]) -> tuple[str, str, Any]:
        if name in ("AND", "OR", "XOR"):
            symbol = {"AND": "&", "OR": "|", "XOR": "^"}[name]
            truths = [text if self.metal else f"(int){text}" for text, _, _ in args]  # not && and ||: no branches
            return f"({truths[0]} {symbol} {truths[1]})", TRUTH, None
        if name == "NOT":
            return f"(!{args[0][0]})", TRUTH, None
        if name == "WHERE":
            suffix = self.join(args[1:])
            return f"({args[0][0]} ? {self.typed(args[1], suffix)} : {self.typed(args[2], suffix)})", suffix, None
        if name == "COMPLEX":
            suffix = _COMPLEX_OF[self.dtype.real]
            re, im = (self.typed(arg, self.dtype.real) for arg in args)
            return (f"float2({re}, {im})" if self.metal else f"tx_make_{suffix}({re}, {im})"), suffix, None
        suffix = self.join(args)
        text = self.call(name, suffix, *(self.typed(arg, suffix) for arg in args))
        result = PRELUDE[name].result
        if result == "truth":
            return text, TRUTH, None
        if result == "real" and suffix in ("c64", "c128"):
            return text, {"c64": "f32", "c128": "f64"}[suffix], None
        return text, suffix, None


def c_expression(row: Op, dtype: DType, operand_texts: Sequence[str], text: str = "") -> str:
    """The forward expression (or another one over the row's operands) as C, for one element."""
    operands = {
        name: (operand_texts[k], TRUTH if k in row.masks else dtype.suffix) for k, name in enumerate(row.operands)
    }
    emitter = Emitter(dtype, operands, metal=False)
    node = emitter.visit(parse(text or forward(row, dtype)))
    suffix = result_suffix(row, dtype)
    if node[1] == TRUTH and suffix == "b8":
        return node[0]
    return emitter.typed(node, suffix)


def cases(row: Op, dtype: DType) -> list[tuple[str, float, str]]:
    """The shortcuts of a row that hold for a dtype."""
    return [(operand, value, text) for operand, value, text, kinds in row.cases if dtype.kind in kinds]


def full_forward(row: Op, dtype: DType) -> str:
    """The forward expression with the shortcuts of ``cases`` as selects: every element, whether its
    operand is a scalar or not, gets the same bits."""
    text = forward(row, dtype)
    for operand, value, shortcut in reversed(cases(row, dtype)):
        text = f"WHERE({operand} == {value}, {shortcut}, {text})"
    return text
