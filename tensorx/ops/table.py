"""The table of elementwise operators: one row defines one operator.

From a row follow the CPU kernels of every dtype and instruction set, the Metal
text, the namespace function, the method, the operator and the in-place form,
the values that autograd saves, the docstring and the derived tests; see
``codegen.py``.  This file needs only the standard library, so that setup.py
can load it by path.

The row language
----------------
``forward`` and the gradients are expressions in what Python, C and Metal have
in common: ``+ - * /``, unary ``-``, comparisons, numbers, ``INF`` and calls to
the functions in ``codegen.PRELUDE``.  Names:

* ``x y z w``: the operands, in order.  Parameters such as a slope or epsilon
  are ordinary trailing operands.
* ``out``: the result (gradients only); ``g``: the incoming gradient.

Gradients are evaluated with Tensors, so derivatives of any order come from the
same row.  They multiply ``g`` by a factor with ``MULG(g, f)``, which is 0 where
g is 0 and f is not finite.  A gradient is ``None`` where none exists (booleans,
integers) and ``"0"`` where it is zero everywhere.  For complex operands the
gradient is the conjugate one, as in PyTorch: ``CONJ`` is the identity for reals,
and a gradient is cast to the dtype of its operand (complex to real keeps the
real part).  At a kink the choice is stated by the text: relu'(0) = abs'(0) = 0,
ties of maximum and minimum share evenly, clip passes at its bounds, and WHERE
sends exactly 0 to the branch that was not taken.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

OPERANDS = ("x", "y", "z", "w")
REQUIRED = ...  # default of a parameter that has none


@dataclass(frozen=True)
class Op:
    """One row.

    kinds      dtype kinds with kernels: b bool, i signed, u unsigned, f real, c complex
    out        dtype rule of the result: same, bool, real (complex to its real part's
               dtype) or complex (real to the complex dtype of that precision)
    promote    kinds without a kernel: ``float`` converts bool and integers to the
               default real dtype first, ``error`` refuses them
    args       names of the tensor operands in the signature, positional only
    params     (name, default) of the trailing operands; a default of None means one
               that depends on the dtype or an absent bound, REQUIRED means none
    masks      operand positions whose dtype is bool whatever the others are
    reference  NumPy expression, written independently of ``forward``
    domain     per operand, the interval(s) of real test values
    kinks      NumPy expressions that vanish where the row is not differentiable
    special    NumPy expressions: where the reference, which overflows on its way or has a
               smaller domain, says nothing about special values
    ulp        allowed error against the reference, in units of the last place of
               the larger of the result and ``scale``
    cases      (operand, number, expression, kinds): what ``forward`` is computed as where
               that operand equals the number, for dtypes of those kinds
    """

    name: str
    forward: str
    grads: tuple[str | None, ...]
    reference: str
    doc: str
    kinds: str = "f"
    out: str = "same"
    promote: str = "float"
    args: tuple[str, ...] = ()
    params: tuple[tuple[str, Any], ...] = ()
    domain: tuple[Any, ...] = ()
    kinks: tuple[str, ...] = ()
    ulp: float = 4
    scale: float = 0.0
    cases: tuple[tuple[str, float, str, str], ...] = ()
    masks: tuple[int, ...] = ()
    complex_forward: str = ""
    complex_grads: tuple[str | None, ...] = ()
    complex_reference: str = ""
    array_api: bool = False
    operators: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    example: str = ""
    public: bool = True
    inplace: bool | None = None

    @property
    def arity(self) -> int:
        """Number of operands, parameters included."""
        return len(self.args) + len(self.params)

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands in the row language."""
        return OPERANDS[: self.arity]

    @property
    def has_inplace(self) -> bool:
        """Whether ``x.name_()`` exists: the result must fit the first operand."""
        if self.inplace is not None:
            return self.inplace
        return self.public and self.out == "same" and 0 not in self.masks


ONE = ("x",)
TWO = ("x1", "x2")


def _unary(name, forward, grad, reference, doc, **kw):
    kw.setdefault("domain", ((-3.0, 3.0),))
    kw.setdefault("args", ONE)
    return Op(name, forward, (grad,), reference, doc, **kw)


def _binary(name, forward, grad_x, grad_y, reference, doc, **kw):
    kw.setdefault("domain", ((-3.0, 3.0), (-3.0, 3.0)))
    kw.setdefault("args", TWO)
    return Op(name, forward, (grad_x, grad_y), reference, doc, **kw)


def _bits(name, forward, reference, doc, **kw):
    kw.setdefault("kinds", "biu")
    return _binary(name, forward, None, None, reference, doc, promote="error", ulp=0, array_api=True, **kw)


def _compare(name, symbol, method, alias, kinds, doc, **kw):
    return _binary(
        name, f"x {symbol} y", None, None, f"np.{name}(x, y)", doc,
        kinds=kinds, out="bool", promote="error", ulp=0, array_api=True, operators=(method,), aliases=(alias,), **kw,
    )


API = {"array_api": True}
EXACT = {"ulp": 0}

_BASIC = [
    _binary("add", "x + y", "g", "g", "np.add(x, y)",
            "Sum of x1 and x2; of booleans, their logical or.",
            kinds="biufc", promote="error", operators=("__add__",), **API, **EXACT,
            example="[1.0, 2.0]; [10.0, 20.0] -> [11.0, 22.0]"),
    _binary("subtract", "x - y", "g", "-g", "np.subtract(x, y)",
            "Difference of x1 and x2.",
            kinds="iufc", promote="error", operators=("__sub__",), aliases=("sub",), **API, **EXACT,
            example="[5.0, 3.0]; [1.0, 4.0] -> [4.0, -1.0]"),
    _binary("multiply", "x * y", "MULG(g, CONJ(y))", "MULG(g, CONJ(x))", "np.multiply(x, y)",
            "Product of x1 and x2; of booleans, their logical and.",
            kinds="biufc", promote="error", operators=("__mul__",), aliases=("mul",), **API, **EXACT,
            example="[2.0, 3.0]; 4.0 -> [8.0, 12.0]"),
    _binary("divide", "x / y", "MULG(g, CONJ(1 / y))", "MULG(-g, CONJ(out / y))", "np.divide(x, y)",
            "Quotient of x1 and x2 as a floating-point number; integers are converted first.",
            kinds="fc", domain=((-3, 3), ((-3, -0.3), (0.3, 3))), operators=("__truediv__",),
            aliases=("div", "true_divide"), **API, **EXACT, example="[1.0, 3.0]; 2.0 -> [0.5, 1.5]"),
    _binary("floor_divide", "FLOORDIV(x, y)", "0", "0", "np.floor_divide(x, y)",
            "Largest integer not above the quotient; for integers, division by zero gives 0 and the smallest value "
            "divided by -1 wraps.",
            kinds="iuf", promote="error", domain=((-9, 9), ((-3, -0.3), (0.3, 3))),
            kinks=("np.sin(np.pi * x / y)",), operators=("__floordiv__",), **API, **EXACT,
            example="[7, -7]; 2 -> [3, -4]"),
    _binary("remainder", "REM(x, y)", "g", "MULG(-g, FLOORDIV(x, y))", "np.remainder(x, y)",
            "Remainder of the floor division, with the sign of x2; for integers, the remainder by zero is 0.",
            kinds="iuf", promote="error", domain=((-9, 9), ((-3, -0.3), (0.3, 3))),
            kinks=("np.sin(np.pi * x / y)",), operators=("__mod__",), **API, **EXACT, example="[7, -7]; 3 -> [1, 2]"),
    _binary("fmod", "FMOD(x, y)", "g", "MULG(-g, TRUNC(x / y))", "np.fmod(x, y)",
            "Remainder of the division rounded towards zero, with the sign of x1; for integers, the remainder by "
            "zero is 0.",
            kinds="iuf", promote="error", domain=((-9, 9), ((-3, -0.3), (0.3, 3))),
            kinks=("np.sin(np.pi * x / y)",), **EXACT, example="[7, -7]; 3 -> [1, -1]"),
    _binary("pow", "POW(x, y)",
            "MULG(g, WHERE(y == 0, 0, CONJ(y * POW(x, y - 1))))",
            "MULG(g, WHERE(AND(x == 0, REAL(y) >= 0), 0, CONJ(out * LOG(x))))",
            "np.power(x, y) if x.dtype.kind != 'i' else np.where(y >= 0, np.power(x, np.maximum(y, 0)),"
            " np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)))",
            "x1 raised to the power x2; negative integer powers of integers are an error.",
            kinds="iufc", promote="error", domain=((0.2, 3), (-3, 3)), ulp=2,
            cases=(("y", 2, "x * x", "iuf"), ("y", 1, "x", "iuf"), ("y", 3, "x * x * x", "iuf"),
                   ("y", 0.5, "WHERE(x == -INF, INF, SQRT(x) + 0)", "f"), ("y", -1, "1 / x", "f")),
            operators=("__pow__",), **API, example="[2.0, 3.0]; 2.0 -> [4.0, 9.0]"),
    _unary("negative", "-x", "-g", "np.negative(x)", "Negation of x.",
           kinds="iufc", promote="error", operators=("__neg__",), aliases=("neg",), **API, **EXACT,
           example="[1.0, -2.0] -> [-1.0, 2.0]"),
    _unary("positive", "x", "g", "np.positive(x)", "x itself, as a new value.",
           kinds="iufc", promote="error", operators=("__pos__",), inplace=False, **API, **EXACT,
           example="[1.0, -2.0] -> [1.0, -2.0]"),
    _unary("abs", "ABS(x)", "MULG(g, SIGN(x))", "np.abs(x)",
           "Absolute value of x; its gradient at 0 is 0.",
           kinds="iufc", out="real", promote="error", kinks=("x",), operators=("__abs__",), ulp=0,
           aliases=("absolute",), inplace=True, **API, example="[-3.0, 2.0] -> [3.0, 2.0]"),
    _unary("sign", "SIGN(x)", "0", "np.sign(x)",
           "Sign of x: -1, 0 or 1, NaN for NaN, and x / abs(x) for complex numbers.",
           kinds="iufc", promote="error", kinks=("x",), ulp=0, aliases=("sgn",),
           complex_grads=("WHERE(x == 0, 0, (g - out * REAL(g * CONJ(out))) / ABS(x))",), **API,
           example="[-3.0, 0.0, 2.0] -> [-1.0, 0.0, 1.0]"),
    _unary("square", "x * x", "MULG(g, CONJ(2 * x))", "np.square(x)", "Square of x.",
           kinds="iufc", promote="error", **API, **EXACT, example="[-3.0, 2.0] -> [9.0, 4.0]"),
    _unary("reciprocal", "1 / x", "MULG(-g, CONJ(out * out))", "1 / np.asarray(x)", "Reciprocal of x.",
           kinds="fc", domain=(((-3, -0.3), (0.3, 3)),), **API, **EXACT, example="[2.0, -4.0] -> [0.5, -0.25]"),
    _unary("sqrt", "SQRT(x)", "MULG(g, CONJ(0.5 / out))", "np.sqrt(x)", "Principal square root of x.",
           kinds="fc", domain=((0.1, 9),), **API, **EXACT, example="[4.0, 9.0] -> [2.0, 3.0]"),
    _unary("rsqrt", "1 / SQRT(x)", "MULG(g, CONJ(-0.5 * out * out * out))", "1 / np.sqrt(x)",
           "Reciprocal of the square root of x.", kinds="fc", domain=((0.1, 9),), ulp=2,
           example="[4.0, 0.25] -> [0.5, 2.0]"),
    _unary("cbrt", "CBRT(x)", "MULG(g, 1 / (3 * out * out))", "np.cbrt(x)", "Real cube root of x.",
           domain=(((-9, -0.1), (0.1, 9)),), example="[8.0, -1.0] -> [2.0, -1.0]"),
    _binary("hypot", "HYPOT(x, y)", "MULG(g, WHERE(out == 0, 0, x / out))", "MULG(g, WHERE(out == 0, 0, y / out))",
            "np.hypot(x, y)", "Length of the vector (x1, x2), without overflow; its gradient at the origin is 0.",
            ulp=2, **API, example="[3.0, 6.0]; [4.0, 8.0] -> [5.0, 10.0]"),
    _binary("maximum", "MAX(x, y)", "WHERE(x < y, 0, WHERE(x == y, 0.5 * g, g))",
            "WHERE(y < x, 0, WHERE(x == y, 0.5 * g, g))", "np.maximum(x, y)",
            "Larger of x1 and x2; NaN if either is NaN, and ties share the gradient evenly.",
            kinds="biuf", promote="error", kinks=("x - y",), **API, **EXACT,
            example="[1.0, 5.0]; [3.0, 2.0] -> [3.0, 5.0]"),
    _binary("minimum", "MIN(x, y)", "WHERE(x > y, 0, WHERE(x == y, 0.5 * g, g))",
            "WHERE(y > x, 0, WHERE(x == y, 0.5 * g, g))", "np.minimum(x, y)",
            "Smaller of x1 and x2; NaN if either is NaN, and ties share the gradient evenly.",
            kinds="biuf", promote="error", kinks=("x - y",), **API, **EXACT,
            example="[1.0, 5.0]; [3.0, 2.0] -> [1.0, 2.0]"),
    _binary("fmax", "FMAX(x, y)", "WHERE(x == y, 0.5 * g, WHERE(OR(x > y, ISNAN(y)), g, 0))",
            "WHERE(x == y, 0.5 * g, WHERE(OR(x > y, ISNAN(y)), 0, g))", "np.fmax(x, y)",
            "Larger of x1 and x2, ignoring a NaN on one side.",
            kinds="iuf", promote="error", kinks=("x - y",), **EXACT, example="[1.0, 5.0]; [3.0, 2.0] -> [3.0, 5.0]"),
    _binary("fmin", "FMIN(x, y)", "WHERE(x == y, 0.5 * g, WHERE(OR(x < y, ISNAN(y)), g, 0))",
            "WHERE(x == y, 0.5 * g, WHERE(OR(x < y, ISNAN(y)), 0, g))", "np.fmin(x, y)",
            "Smaller of x1 and x2, ignoring a NaN on one side.",
            kinds="iuf", promote="error", kinks=("x - y",), **EXACT, example="[1.0, 5.0]; [3.0, 2.0] -> [1.0, 2.0]"),
    Op("clip", "MIN(MAX(x, y), z)",
       ("WHERE(AND(x >= y, x <= z), g, 0)", "WHERE(AND(x < y, y <= z), g, 0)", "WHERE(OR(x > z, y > z), g, 0)"),
       "np.minimum(np.maximum(x, y), z)",
       "x limited to the range from min to max; NaN stays NaN, and the gradient passes at the bounds.",
       kinds="iuf", promote="error", args=ONE, params=(("min", None), ("max", None)),
       domain=((-3, 3), (-2, -0.5), (0.5, 2)), kinks=("x - y", "x - z"), **API, **EXACT,
       example="[-2.0, 0.5, 3.0]; 0.0; 1.0 -> [0.0, 0.5, 1.0]"),
    Op("clamp_min", "MAX(x, y)", ("WHERE(x >= y, g, 0)", "WHERE(x < y, g, 0)"), "np.maximum(x, y)",
       "x limited from below; NaN stays NaN, and the gradient passes at the bound.",
       kinds="iuf", promote="error", args=ONE, params=(("min", REQUIRED),), domain=((-3, 3), (-2, 2)),
       kinks=("x - y",), **EXACT, example="[-2.0, 0.5]; 0.0 -> [0.0, 0.5]"),
    Op("clamp_max", "MIN(x, y)", ("WHERE(x <= y, g, 0)", "WHERE(x > y, g, 0)"), "np.minimum(x, y)",
       "x limited from above; NaN stays NaN, and the gradient passes at the bound.",
       kinds="iuf", promote="error", args=ONE, params=(("max", REQUIRED),), domain=((-3, 3), (-2, 2)),
       kinks=("x - y",), **EXACT, example="[0.5, 3.0]; 1.0 -> [0.5, 1.0]"),
]

_ROUNDING = [
    _unary("ceil", "CEIL(x)", "0", "np.ceil(x)", "Smallest integer not below x.",
           kinds="iuf", promote="error", kinks=("np.sin(np.pi * x)",), **API, **EXACT,
           example="[1.5, -1.5] -> [2.0, -1.0]"),
    _unary("floor", "FLOOR(x)", "0", "np.floor(x)", "Largest integer not above x.",
           kinds="iuf", promote="error", kinks=("np.sin(np.pi * x)",), **API, **EXACT,
           example="[1.5, -1.5] -> [1.0, -2.0]"),
    _unary("trunc", "TRUNC(x)", "0", "np.trunc(x)", "x rounded towards zero.",
           kinds="iuf", promote="error", kinks=("np.sin(np.pi * x)",), **API, **EXACT,
           example="[1.5, -1.5] -> [1.0, -1.0]"),
    _unary("round", "RINT(x)", "0", "np.round(x)", "x rounded to the nearest integer, ties to even.",
           kinds="iufc", promote="error", kinks=("np.cos(np.pi * x)",), **API, **EXACT,
           example="[0.5, 1.5, 2.5] -> [0.0, 2.0, 2.0]"),
    _unary("frac", "x - TRUNC(x)", "g", "np.fmod(x, 1)", "Fractional part of x, with the sign of x.",
           kinks=("np.sin(np.pi * x)",), **EXACT, example="[1.5, -2.25] -> [0.5, -0.25]"),
    _binary("copysign", "COPYSIGN(x, y)", "MULG(g, SIGN(x) * COPYSIGN(1, y))", "0", "np.copysign(x, y)",
            "Magnitude of x1 with the sign of x2.", kinks=("x", "y"), **API, **EXACT,
            example="[1.0, 2.0]; [-3.0, 4.0] -> [-1.0, 2.0]"),
    _binary("nextafter", "NEXTAFTER(x, y)", None, None, "np.nextafter(x, y)",
            "Next representable value after x1 in the direction of x2.", promote="error", **API, **EXACT,
            example="[1.0, 0.0]; [1.0, 0.0] -> [1.0, 0.0]"),
    _binary("heaviside", "WHERE(x == 0, y, WHERE(x > 0, 1, WHERE(x < 0, 0, x)))", "0", "WHERE(x == 0, g, 0)",
            "np.heaviside(x, y)", "Step function of x1: 0 below zero, 1 above, x2 at zero.",
            kinks=("x",), **EXACT, example="[-2.0, 0.0, 2.0]; 0.5 -> [0.0, 0.5, 1.0]"),
]

_EXPLOG = [
    _unary("exp", "EXP(x)", "MULG(g, CONJ(out))", "np.exp(x)", "Exponential of x.", kinds="fc", **API,
           example="[0.0] -> [1.0]"),
    _unary("exp2", "EXP2(x)", "MULG(g, 0.6931471805599453 * out)", "np.exp2(x)", "Two raised to the power x.",
           example="[0.0, 3.0] -> [1.0, 8.0]"),
    _unary("expm1", "EXPM1(x)", "MULG(g, CONJ(out + 1))", "np.expm1(x)",
           "Exponential of x minus 1, accurate near 0.", kinds="fc", **API, example="[0.0] -> [0.0]"),
    _unary("log", "LOG(x)", "MULG(g, CONJ(1 / x))", "np.log(x)", "Natural logarithm of x.",
           kinds="fc", domain=((0.1, 9),), **API, example="[1.0] -> [0.0]"),
    _unary("log1p", "LOG1P(x)", "MULG(g, CONJ(1 / (x + 1)))", "np.log1p(x)",
           "Natural logarithm of 1 + x, accurate near 0.", kinds="fc", domain=((-0.8, 9),), **API,
           example="[0.0] -> [0.0]"),
    _unary("log2", "LOG2(x)", "MULG(g, CONJ(1.4426950408889634 / x))", "np.log2(x)", "Base-2 logarithm of x.",
           kinds="fc", domain=((0.1, 9),), complex_reference="np.log(x) / np.log(2)", **API,
           example="[1.0, 8.0] -> [0.0, 3.0]"),
    _unary("log10", "LOG10(x)", "MULG(g, CONJ(0.4342944819032518 / x))", "np.log10(x)", "Base-10 logarithm of x.",
           kinds="fc", domain=((0.1, 9),), **API, example="[1.0] -> [0.0]"),
    _binary("logaddexp", "WHERE(x == y, x + 0.6931471805599453, MAX(x, y) + LOG1P(EXP(-ABS(x - y))))",
            "MULG(g, WHERE(x == y, 0.5, SIGMOID(x - y)))", "MULG(g, WHERE(x == y, 0.5, SIGMOID(y - x)))",
            "np.logaddexp(x, y)", "Logarithm of exp(x1) + exp(x2), without overflow.", scale=1.0, **API,
            example="[0.0]; [-inf] -> [0.0]"),
    _binary("logaddexp2",
            "WHERE(x == y, x + 1, MAX(x, y) + 1.4426950408889634 * LOG1P(EXP2(-ABS(x - y))))",
            "MULG(g, WHERE(x == y, 0.5, SIGMOID(0.6931471805599453 * (x - y))))",
            "MULG(g, WHERE(x == y, 0.5, SIGMOID(0.6931471805599453 * (y - x))))",
            "np.logaddexp2(x, y)", "Base-2 logarithm of 2**x1 + 2**x2, without overflow.", scale=1.0,
            example="[3.0]; [3.0] -> [4.0]"),
    _binary("xlogy", "WHERE(AND(x == 0, NOT(ISNAN(y))), 0, x * LOG(y))",
            "MULG(g, WHERE(AND(x == 0, y <= 0), 0, LOG(y)))", "MULG(g, WHERE(x == 0, 0, x / y))",
            "np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))", "x1 times the logarithm of x2, and 0 where x1 is 0.",
            domain=((-3, 3), (0.1, 5)), example="[0.0, 2.0]; [0.0, 1.0] -> [0.0, 0.0]"),
    _unary("logit", "LOG(x / (1 - x))", "MULG(g, 1 / (x * (1 - x)))", "np.log(x) - np.log1p(-x)",
           "Logarithm of the odds x / (1 - x).", domain=((0.05, 0.95),), scale=1.0, example="[0.5] -> [0.0]"),
    _binary("ldexp", "x * EXP2(TRUNC(0.5 * MIN(MAX(y, -5000), 5000)))"
            " * EXP2(MIN(MAX(y, -5000), 5000) - TRUNC(0.5 * MIN(MAX(y, -5000), 5000)))", "MULG(g, EXP2(y))",
            "MULG(g, 0.6931471805599453 * out)", "x * np.exp2(y)", "x1 times 2 raised to the power x2, without overflow on the way.",
            special=("np.abs(y) > 120",), example="[1.0, 3.0]; [4.0, -1.0] -> [16.0, 1.5]"),
]

_TRIG = [
    _unary("sin", "SIN(x)", "MULG(g, CONJ(COS(x)))", "np.sin(x)", "Sine of x, in radians.", kinds="fc", **API,
           example="[0.0] -> [0.0]"),
    _unary("cos", "COS(x)", "MULG(-g, CONJ(SIN(x)))", "np.cos(x)", "Cosine of x, in radians.", kinds="fc", **API,
           example="[0.0] -> [1.0]"),
    _unary("tan", "TAN(x)", "MULG(g, CONJ(out * out + 1))", "np.tan(x)", "Tangent of x, in radians.",
           kinds="fc", domain=((-1.3, 1.3),), **API, example="[0.0] -> [0.0]"),
    _unary("asin", "ASIN(x)", "MULG(g, CONJ(RSQRT((1 - x) * (1 + x))))", "np.arcsin(x)",
           "Inverse sine of x, in radians.", kinds="fc", domain=((-0.9, 0.9),), **API, example="[0.0] -> [0.0]"),
    _unary("acos", "ACOS(x)", "MULG(-g, CONJ(RSQRT((1 - x) * (1 + x))))", "np.arccos(x)",
           "Inverse cosine of x, in radians.", kinds="fc", domain=((-0.9, 0.9),), **API, example="[1.0] -> [0.0]"),
    _unary("atan", "ATAN(x)", "MULG(g, CONJ(1 / (x * x + 1)))", "np.arctan(x)",
           "Inverse tangent of x, in radians.", kinds="fc", **API, example="[0.0] -> [0.0]"),
    _binary("atan2", "ATAN2(x, y)", "MULG(g, WHERE(HYPOT(x, y) == 0, 0, y / HYPOT(x, y) / HYPOT(x, y)))",
            "MULG(-g, WHERE(HYPOT(x, y) == 0, 0, x / HYPOT(x, y) / HYPOT(x, y)))", "np.arctan2(x, y)",
            "Angle of the point (x2, x1) in radians; its gradient at the origin is 0.",
            domain=(((-3, -0.3), (0.3, 3)), (-3, 3)), **API, example="[0.0]; [1.0] -> [0.0]"),
    _unary("sinh", "SINH(x)", "MULG(g, CONJ(COSH(x)))", "np.sinh(x)", "Hyperbolic sine of x.", kinds="fc", **API,
           example="[0.0] -> [0.0]"),
    _unary("cosh", "COSH(x)", "MULG(g, CONJ(SINH(x)))", "np.cosh(x)", "Hyperbolic cosine of x.", kinds="fc", **API,
           example="[0.0] -> [1.0]"),
    _unary("tanh", "TANH(x)", "MULG(g, CONJ((1 - out) * (1 + out)))", "np.tanh(x)", "Hyperbolic tangent of x.",
           kinds="fc", **API, example="[0.0] -> [0.0]"),
    _unary("asinh", "ASINH(x)", "MULG(g, CONJ(RSQRT(x * x + 1)))", "np.arcsinh(x)",
           "Inverse hyperbolic sine of x.", kinds="fc", **API, example="[0.0] -> [0.0]"),
    _unary("acosh", "ACOSH(x)", "MULG(g, CONJ(RSQRT(x - 1) * RSQRT(x + 1)))", "np.arccosh(x)",
           "Inverse hyperbolic cosine of x.", kinds="fc", domain=((1.2, 9),), **API, example="[1.0] -> [0.0]"),
    _unary("atanh", "ATANH(x)", "MULG(g, CONJ(1 / ((1 - x) * (1 + x))))", "np.arctanh(x)",
           "Inverse hyperbolic tangent of x.", kinds="fc", domain=((-0.9, 0.9),), **API, example="[0.0] -> [0.0]"),
    _unary("sinc", "WHERE(x == 0, 1, SIN(3.141592653589793 * x) / (3.141592653589793 * x))",
           "MULG(g, WHERE(ABS(x) < 0.01,"
           " x * (x * x * (3.2469697011334144 - 1.1445016870207846 * x * x) - 3.289868133696453),"
           " (COS(3.141592653589793 * x) - out) / x))",
           "np.sinc(x)", "sin(pi x) / (pi x), and 1 at 0.", scale=1.0, example="[0.0] -> [1.0]"),
    _unary("deg2rad", "0.017453292519943295 * x", "0.017453292519943295 * g", "np.deg2rad(x)",
           "Degrees converted to radians.", domain=((-360, 360),), ulp=1, example="[0.0] -> [0.0]"),
    _unary("rad2deg", "57.29577951308232 * x", "57.29577951308232 * g", "np.rad2deg(x)",
           "Radians converted to degrees.", domain=((-7, 7),), ulp=1, example="[0.0] -> [0.0]"),
]

_SPECIAL = [
    _unary("erf", "ERF(x)", "MULG(g, 1.1283791670955126 * EXP(-x * x))", "np.vectorize(math.erf)(x)",
           "Error function of x.", example="[0.0] -> [0.0]"),
    _unary("erfc", "ERFC(x)", "MULG(g, -1.1283791670955126 * EXP(-x * x))", "np.vectorize(math.erfc)(x)",
           "Complement of the error function, 1 - erf(x), accurate for large x.", example="[0.0] -> [1.0]"),
    _unary("erfinv", "ERFINV(x)", "MULG(g, 0.886226925452758 * EXP(out * out))",
           "np.vectorize(lambda t: NormalDist().inv_cdf((t + 1) / 2) / math.sqrt(2) if -1 < t < 1"
           " else math.inf * t if abs(t) == 1 else math.nan)(x)",
           "Inverse of the error function.", domain=((-0.95, 0.95),), ulp=8, scale=0.5, example="[0.0] -> [0.0]"),
    _unary("lgamma", "LGAMMA(x)", "MULG(g, DIGAMMA(x))", "np.vectorize(lambda t: math.inf if t <= 0 and t == np.floor(t) else math.lgamma(t))(x)",
           "Logarithm of the absolute value of the gamma function.", domain=((0.2, 9),), ulp=8, scale=1.0,
           example="[1.0, 2.0] -> [0.0, 0.0]"),
    _unary("digamma", "DIGAMMA(x)", "MULG(g, POLYGAMMA(1, x))",
           "np.log(x + 40) - 1 / (2 * (x + 40)) - 1 / (12 * (x + 40)**2) + 1 / (120 * (x + 40)**4) - 1 / (252 * (x + 40)**6)"
           " - sum(1 / (x + k) for k in range(40))",
           "Derivative of lgamma.", special=("~(x > 0)",), domain=((0.2, 9),), ulp=16, scale=4.0,
           example="[0.0] -> [-inf]"),
    Op("polygamma", "POLYGAMMA(x, y)", (None, "MULG(g, POLYGAMMA(x + 1, y))"),
       "np.where(x % 2 == 1, 1.0, -1.0) * np.vectorize(lambda n: math.gamma(min(abs(n), 20) + 1))(x)"
       " * (sum(np.power(y + k, -x - 1) for k in range(40)) + np.power(y + 40, -x) / x + 0.5 * np.power(y + 40, -x - 1)"
       " + (x + 1) / 12 * np.power(y + 40, -x - 2) - (x + 1) * (x + 2) * (x + 3) / 720 * np.power(y + 40, -x - 4)"
       " + (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) / 30240 * np.power(y + 40, -x - 6))",
       "Derivative of order x1 of digamma at x2; x1 is a whole number.",
       args=TWO, domain=(((1, 1), (2, 2), (3, 3), (4, 4)), (0.3, 6)), ulp=32, inplace=False,
       special=("~((x >= 1) & (x < 9) & (x == np.floor(x)) & (y > 0))",), example="[1.0]; [inf] -> [0.0]"),
]

_PREDICATES = [
    _compare("equal", "==", "__eq__", "eq", "biufc", "Whether x1 equals x2.",
             example="[1, 2]; [1, 3] -> [True, False]"),
    _compare("not_equal", "!=", "__ne__", "ne", "biufc", "Whether x1 differs from x2.",
             example="[1, 2]; [1, 3] -> [False, True]"),
    _compare("less", "<", "__lt__", "lt", "biuf", "Whether x1 is less than x2.",
             example="[1, 2]; 2 -> [True, False]"),
    _compare("less_equal", "<=", "__le__", "le", "biuf", "Whether x1 is at most x2.",
             example="[2, 3]; 2 -> [True, False]"),
    _compare("greater", ">", "__gt__", "gt", "biuf", "Whether x1 is greater than x2.",
             example="[2, 3]; 2 -> [False, True]"),
    _compare("greater_equal", ">=", "__ge__", "ge", "biuf", "Whether x1 is at least x2.",
             example="[1, 2]; 2 -> [False, True]"),
    _binary("logical_and", "AND(x != 0, y != 0)", None, None, "np.logical_and(x, y)",
            "Whether both x1 and x2 are true.", kinds="biufc", out="bool", promote="error", **API, **EXACT,
            example="[True, True]; [True, False] -> [True, False]"),
    _binary("logical_or", "OR(x != 0, y != 0)", None, None, "np.logical_or(x, y)",
            "Whether x1 or x2 is true.", kinds="biufc", out="bool", promote="error", **API, **EXACT,
            example="[False, False]; [True, False] -> [True, False]"),
    _binary("logical_xor", "XOR(x != 0, y != 0)", None, None, "np.logical_xor(x, y)",
            "Whether exactly one of x1 and x2 is true.", kinds="biufc", out="bool", promote="error", **API, **EXACT,
            example="[True, True]; [True, False] -> [False, True]"),
    _unary("logical_not", "x == 0", None, "np.logical_not(x)", "Whether x is false.",
           kinds="biufc", out="bool", promote="error", **API, **EXACT, example="[True, False] -> [False, True]"),
    _unary("isfinite", "ISFINITE(x)", None, "np.isfinite(x)", "Whether x is neither infinite nor NaN.",
           kinds="iufc", out="bool", promote="error", **API, **EXACT,
           example="[1.0, inf, nan] -> [True, False, False]"),
    _unary("isinf", "ISINF(x)", None, "np.isinf(x)", "Whether x is infinite.",
           kinds="iufc", out="bool", promote="error", **API, **EXACT,
           example="[1.0, -inf, nan] -> [False, True, False]"),
    _unary("isnan", "ISNAN(x)", None, "np.isnan(x)", "Whether x is NaN.",
           kinds="iufc", out="bool", promote="error", **API, **EXACT,
           example="[1.0, inf, nan] -> [False, False, True]"),
    _unary("isposinf", "x == INF", None, "np.isposinf(x)", "Whether x is positive infinity.", out="bool", **EXACT,
           example="[inf, -inf] -> [True, False]"),
    _unary("isneginf", "x == -INF", None, "np.isneginf(x)", "Whether x is negative infinity.", out="bool", **EXACT,
           example="[inf, -inf] -> [False, True]"),
    _unary("signbit", "SIGNBIT(x)", None, "np.signbit(x)", "Whether the sign bit of x is set, -0.0 and NaN included.",
           out="bool", promote="error", **API, **EXACT, example="[-0.0, 0.0] -> [True, False]"),
    Op("isclose", "OR(x == y, AND(ISFINITE(y), ABS(x - y) <= w + z * ABS(y)))", (None, None, None, None),
       "np.isclose(x, y, z, w)",
       "Whether x1 is within atol + rtol * abs(x2) of x2.", out="bool", args=TWO,
       params=(("rtol", 1e-5), ("atol", 1e-8)), domain=((-3, 3), (-3, 3), (0, 0.5), (0, 0.5)),
       kinks=("abs(x - y) - w - z * abs(y)",), **EXACT, example="[1.0, 1.0]; [1.0, 1.1] -> [True, False]"),
]

_BITS = [
    _bits("bitwise_and", "BITAND(x, y)", "np.bitwise_and(x, y)", "Bitwise and of x1 and x2.", operators=("__and__",),
          example="[6, 5]; 3 -> [2, 1]"),
    _bits("bitwise_or", "BITOR(x, y)", "np.bitwise_or(x, y)", "Bitwise or of x1 and x2.", operators=("__or__",),
          example="[6, 5]; 3 -> [7, 7]"),
    _bits("bitwise_xor", "BITXOR(x, y)", "np.bitwise_xor(x, y)", "Bitwise exclusive or of x1 and x2.",
          operators=("__xor__",), example="[6, 5]; 3 -> [5, 6]"),
    _unary("bitwise_invert", "BITNOT(x)", None, "np.invert(x)", "Bitwise complement of x; of a boolean, logical not.",
           kinds="biu", promote="error", operators=("__invert__",), aliases=("bitwise_not",), **API, **EXACT,
           example="[0, 5] -> [-1, -6]"),
    _bits("bitwise_left_shift", "SHL(x, y)", "np.where((y >= 0) & (y < 8 * x.itemsize), np.left_shift(x, y), 0)",
          "x1 shifted left by x2 bits; 0 where the count is negative or not below the width.",
          kinds="iu", operators=("__lshift__",), example="[1, 3]; 2 -> [4, 12]"),
    _bits("bitwise_right_shift", "SHR(x, y)", "np.where(y >= 0, np.right_shift(x, y), 0)",
          "x1 shifted right by x2 bits, keeping the sign; 0 where the count is negative.",
          kinds="iu", operators=("__rshift__",), example="[8, -8]; 2 -> [2, -2]"),
    _binary("gcd", "GCD(x, y)", None, None, "np.gcd(x, y)", "Greatest common divisor of x1 and x2.",
            kinds="iu", promote="error", **EXACT, example="[12, 7]; [18, 5] -> [6, 1]"),
    _binary("lcm", "LCM(x, y)", None, None, "np.lcm(x, y)", "Least common multiple of x1 and x2.",
            kinds="iu", promote="error", **EXACT, example="[4, 6]; [6, 8] -> [12, 24]"),
]

_COMPLEX = [
    _unary("conj", "CONJ(x)", "CONJ(g)", "np.conj(x)", "Complex conjugate of x.",
           kinds="iufc", promote="error", inplace=True, **API, **EXACT, example="[1+2j] -> [(1-2j)]"),
    _unary("real", "REAL(x)", "g", "np.real(x)", "Real part of x.",
           kinds="iufc", out="real", promote="error", inplace=False, **API, **EXACT, example="[1+2j] -> [1.0]"),
    _unary("imag", "IMAG(x)", "COMPLEX(0, g)", "np.imag(x)", "Imaginary part of x; 0 for real numbers.",
           kinds="iufc", out="real", promote="error", inplace=False, **API, **EXACT, example="[1+2j] -> [2.0]"),
    _unary("angle", "WHERE(x < 0, 3.141592653589793, WHERE(x >= 0, 0, x))", "0", "np.angle(x + 0.0)",
           "Angle of x in the complex plane, in radians.", kinds="fc", out="real", kinks=("np.real(x)",),
           complex_forward="ATAN2(IMAG(x), REAL(x))", ulp=4, inplace=False,
           complex_grads=("MULG(COMPLEX(0, g), WHERE(x == 0, 0, x / (REAL(x) * REAL(x) + IMAG(x) * IMAG(x))))",),
           example="[1+0j] -> [0.0]"),
    Op("complex", "COMPLEX(x, y)", ("REAL(g)", "IMAG(g)"), "np.stack([x, y], -1).view(np.result_type(x, np.complex64))[..., 0]",
       "Complex number with real part x1 and imaginary part x2.",
       out="complex", promote="error", args=("real", "imag"), domain=((-3, 3), (-3, 3)), inplace=False, **EXACT,
       example="[1.0]; [2.0] -> [(1+2j)]"),
]

_ACTIVATIONS = [
    _unary("relu", "WHERE(x <= 0, 0, x)", "WHERE(out <= 0, 0, g)", "np.maximum(x, 0)",
           "Rectified linear unit, max(x, 0); its gradient at 0 is 0.",
           kinds="iuf", promote="error", kinks=("x",), **EXACT, example="[-1.0, 0.0, 2.0] -> [0.0, 0.0, 2.0]"),
    Op("leaky_relu", "WHERE(x > 0, x, y * x)", ("WHERE(x > 0, g, MULG(g, y))", "MULG(g, WHERE(x > 0, 0, x))"),
       "np.where(x > 0, x, x * y)", "x where positive, negative_slope * x elsewhere.",
       promote="error", args=ONE, params=(("negative_slope", 0.01),), domain=((-3, 3), (0.01, 0.4)), kinks=("x",),
       **EXACT, example="[-2.0, 3.0]; 0.5 -> [-1.0, 3.0]"),
    _unary("relu6", "MIN(MAX(x, 0), 6)", "WHERE(OR(out <= 0, out >= 6), 0, g)", "np.clip(x, 0, 6)",
           "x limited to the range from 0 to 6; the gradient at the bounds is 0.",
           kinds="iuf", promote="error", domain=((-3, 9),), kinks=("x", "x - 6"), **EXACT,
           example="[-1.0, 3.0, 9.0] -> [0.0, 3.0, 6.0]"),
    Op("hardtanh", "MIN(MAX(x, y), z)",
       ("WHERE(OR(x <= y, x >= z), 0, g)", "WHERE(AND(x <= y, y <= z), g, 0)",
        "WHERE(OR(AND(x >= z, x > y), y > z), g, 0)"),
       "np.minimum(np.maximum(x, y), z)",
       "x limited to the range from min_val to max_val; the gradient at the bounds is 0.",
       kinds="f", promote="error", args=ONE, params=(("min_val", -1.0), ("max_val", 1.0)),
       domain=((-3, 3), (-2, -0.5), (0.5, 2)), kinks=("x - y", "x - z"), **EXACT,
       example="[-2.0, 0.5, 2.0] -> [-1.0, 0.5, 1.0]"),
    Op("threshold", "WHERE(x <= y, z, x)", ("WHERE(x <= y, 0, g)", "0", "WHERE(x <= y, g, 0)"),
       "np.where(np.less_equal(x, y), z, x)", "x where above the threshold, value elsewhere.",
       kinds="iuf", promote="error", args=ONE, params=(("threshold", REQUIRED), ("value", REQUIRED)),
       domain=((-3, 3), (-1, 1), (-3, 3)), kinks=("x - y",), **EXACT, example="[0.5, 2.0]; 1.0; -7.0 -> [-7.0, 2.0]"),
    Op("elu", "WHERE(x > 0, x, y * EXPM1(x))",
       ("WHERE(x > 0, g, MULG(g, y * EXP(x)))", "MULG(g, WHERE(x > 0, 0, EXPM1(x)))"),
       "np.where(x > 0, x, y * np.expm1(x))", "Exponential linear unit: x where positive, alpha * (exp(x) - 1) elsewhere.",
       promote="error", args=ONE, params=(("alpha", 1.0),), domain=((-3, 3), (0.5, 1.5)), kinks=("x",),
       example="[0.0, 2.0] -> [0.0, 2.0]"),
    Op("celu", "WHERE(x > 0, x, y * EXPM1(x / y))",
       ("WHERE(x > 0, g, MULG(g, EXP(x / y)))",
        "MULG(g, WHERE(x > 0, 0, EXPM1(x / y) - x / y * EXP(x / y)))"),
       "np.where(x > 0, x, y * np.expm1(x / y))",
       "Continuously differentiable exponential linear unit.",
       promote="error", args=ONE, params=(("alpha", 1.0),), domain=((-3, 3), (0.5, 1.5)), kinks=("x",), special=("np.abs(x) < 1e-37",),
       example="[0.0, 2.0] -> [0.0, 2.0]"),
    _unary("selu", "WHERE(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * EXPM1(x))",
           "MULG(g, WHERE(x > 0, 1.0507009873554805, 1.7580993408473766 * EXP(x)))",
           "1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))",
           "Scaled exponential linear unit with the constants of self-normalising networks.",
           promote="error", kinks=("x",), example="[0.0] -> [0.0]"),
    _unary("gelu", "0.5 * x * ERFC(-0.7071067811865476 * x)",
           "MULG(g, 0.5 * ERFC(-0.7071067811865476 * x) + 0.3989422804014327 * x * EXP(-0.5 * x * x))",
           "0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2))",
           "Gaussian error linear unit: x times the normal distribution function of x.", promote="error", ulp=8,
           example="[0.0] -> [0.0]"),
    _unary("gelu_tanh", "x * SIGMOID(1.5957691216057308 * (x + 0.044715 * x * x * x))",
           "MULG(g, SIGMOID(1.5957691216057308 * (x + 0.044715 * x * x * x))"
           " * (1 + x * SIGMOID(-1.5957691216057308 * (x + 0.044715 * x * x * x))"
           " * 1.5957691216057308 * (1 + 0.134145 * x * x)))",
           "x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))",
           "Gaussian error linear unit in its tanh approximation.", promote="error", ulp=16,
           example="[0.0] -> [0.0]"),
    _unary("sigmoid", "SIGMOID(x)", "MULG(g, CONJ(out * (1 - out)))", "1 / (1 + np.exp(-x))",
           "Logistic function 1 / (1 + exp(-x)).", kinds="fc", complex_forward="1 / (1 + EXP(-x))",
           example="[0.0] -> [0.5]"),
    _unary("log_sigmoid", "MIN(x, 0) - LOG1P(EXP(-ABS(x)))", "MULG(g, SIGMOID(-x))", "-np.logaddexp(0, -x)",
           "Logarithm of the logistic function.", promote="error", example="[inf] -> [0.0]"),
    _unary("silu", "x * SIGMOID(x)", "MULG(g, SIGMOID(x) * (1 + x * SIGMOID(-x)))", "x / (1 + np.exp(-x))",
           "Sigmoid linear unit, x * sigmoid(x), also called swish.", promote="error", aliases=("swish",), special=("x < -87",),
           example="[0.0] -> [0.0]"),
    _unary("mish", "WHERE(x > 20, x, x * (EXP(x) * (EXP(x) + 2) / (EXP(x) * (EXP(x) + 2) + 2)))",
           "MULG(g, TANH(LOGADDEXP(x, 0)) + x * SIGMOID(x) * (1 - SQUARE(TANH(LOGADDEXP(x, 0)))))",
           "x * np.tanh(np.logaddexp(0, x))", "x * tanh(softplus(x)).", promote="error", ulp=8, special=("x < -87",),
           example="[0.0] -> [0.0]"),
    Op("softplus", "WHERE(x * y > z, x, (MAX(x * y, 0) + LOG1P(EXP(-ABS(x * y)))) / y)",
       ("WHERE(x * y > z, g, MULG(g, SIGMOID(x * y)))",
        "MULG(g, WHERE(x * y > z, 0, (x * SIGMOID(x * y) - out) / y))", "0"),
       "np.where(x * y > z, x, np.logaddexp(0, x * y) / y)",
       "Logarithm of 1 + exp(beta * x), divided by beta; x itself where beta * x is above the threshold.",
       promote="error", args=ONE, params=(("beta", 1.0), ("threshold", 20.0)),
       domain=((-3, 3), (0.5, 2), (19, 21)), kinks=("x * y - z",), example="[-inf, 30.0] -> [0.0, 30.0]"),
    _unary("softsign", "x / (1 + ABS(x))", "MULG(g, 1 / SQUARE(1 + ABS(x)))", "x / (1 + np.abs(x))",
           "x / (1 + abs(x)).", promote="error", kinks=("x",), ulp=2, example="[1.0, -3.0] -> [0.5, -0.75]"),
    Op("softshrink", "WHERE(ABS(x) <= y, 0, x - COPYSIGN(y, x))",
       ("WHERE(ABS(x) <= y, 0, g)", "WHERE(ABS(x) <= y, 0, MULG(-g, SIGN(x)))"),
       "np.where(np.abs(x) <= y, 0, np.where(x < 0, x + y, x - y))",
       "x moved towards 0 by lambd, and 0 within lambd of 0.",
       promote="error", args=ONE, params=(("lambd", 0.5),), domain=((-3, 3), (0.2, 1)),
       kinks=("np.abs(x) - y",), special=("y < 0",), **EXACT, example="[-2.0, 0.25, 2.0] -> [-1.5, 0.0, 1.5]"),
    Op("hardshrink", "WHERE(ABS(x) <= y, 0, x)", ("WHERE(ABS(x) <= y, 0, g)", "0"),
       "np.where(np.abs(x) <= y, 0, x)", "x, and 0 within lambd of 0.",
       promote="error", args=ONE, params=(("lambd", 0.5),), domain=((-3, 3), (0.2, 1)),
       kinks=("np.abs(x) - y",), **EXACT, example="[-2.0, 0.25, 2.0] -> [-2.0, 0.0, 2.0]"),
    _unary("tanhshrink", "x - TANH(x)", "MULG(g, SQUARE(TANH(x)))", "x - np.tanh(x)", "x - tanh(x).",
           promote="error", scale=1.0, example="[0.0] -> [0.0]"),
    _unary("hardsigmoid", "MIN(MAX(x + 3, 0), 6) / 6", "WHERE(OR(x <= -3, x >= 3), 0, g / 6)",
           "np.clip(x + 3, 0, 6) / 6", "Piecewise linear approximation of the logistic function.",
           promote="error", domain=((-5, 5),), kinks=("np.abs(x) - 3",), ulp=1, scale=1.0,
           example="[-4.0, 0.0, 4.0] -> [0.0, 0.5, 1.0]"),
    _unary("hardswish", "x * MIN(MAX(x + 3, 0), 6) / 6",
           "MULG(g, WHERE(x <= -3, 0, WHERE(x < 3, x / 3 + 0.5, 1)))", "x * np.clip(x + 3, 0, 6) / 6",
           "x * hardsigmoid(x).", promote="error", domain=((-5, 5),), kinks=("np.abs(x) - 3",), ulp=2, scale=1.0,
           example="[0.0, 4.0] -> [0.0, 4.0]"),
]

_SELECT = [
    Op("where", "WHERE(x, y, z)", (None, "WHERE(x, g, 0)", "WHERE(x, 0, g)"), "np.where(x, y, z)",
       "x1 where the condition is true, x2 elsewhere; the branch not taken gets a gradient of exactly 0.",
       kinds="biufc", promote="error", args=("condition", "x1", "x2"), masks=(0,),
       domain=((0, 1), (-3, 3), (-3, 3)), inplace=False, **API, **EXACT,
       example="[True, False]; [1.0, 2.0]; [3.0, 4.0] -> [1.0, 4.0]"),
    Op("lerp", "WHERE(ABS(z) < 0.5, x + z * (y - x), y - (y - x) * (1 - z))",
       ("MULG(g, CONJ(1 - z))", "MULG(g, CONJ(z))", "MULG(g, CONJ(y - x))"), "x * (1 - z) + y * z",
       "Linear interpolation from x1 to x2 by weight.", kinds="fc", promote="error", args=TWO,
       params=(("weight", REQUIRED),), domain=((-3, 3), (-3, 3), (-1, 2)), ulp=4, scale=8.0,
       special=("~np.isfinite(x + y + z)",), example="[0.0, 10.0]; [4.0, 20.0]; 0.5 -> [2.0, 15.0]"),
    Op("addcmul", "x + w * y * z",
       ("g", "MULG(g, CONJ(w * z))", "MULG(g, CONJ(w * y))", "MULG(g, CONJ(y * z))"), "x + w * y * z",
       "x plus value times the product of x1 and x2.", kinds="iufc", promote="error", args=("x", "x1", "x2"),
       params=(("value", 1),), domain=((-3, 3),) * 4, ulp=4, scale=16.0,
       example="[1.0, 1.0]; [2.0, 3.0]; [4.0, 5.0] -> [9.0, 16.0]"),
    Op("addcdiv", "x + w * y / z",
       ("g", "MULG(g, CONJ(w / z))", "MULG(-g, CONJ(w * y / z / z))", "MULG(g, CONJ(y / z))"), "x + w * y / z",
       "x plus value times the quotient of x1 and x2.", kinds="fc", promote="error", args=("x", "x1", "x2"),
       params=(("value", 1),), domain=((-3, 3), (-3, 3), ((-3, -0.3), (0.3, 3)), (-3, 3)), ulp=4, scale=16.0,
       example="[1.0, 1.0]; [6.0, 3.0]; [2.0, 4.0] -> [4.0, 1.75]"),
    Op("nan_to_num", "WHERE(ISNAN(x), y, WHERE(x == INF, z, WHERE(x == -INF, w, x)))",
       ("WHERE(ISFINITE(x), g, 0)", "WHERE(ISNAN(x), g, 0)", "WHERE(x == INF, g, 0)", "WHERE(x == -INF, g, 0)"),
       "np.where(np.isnan(x), y, np.where(np.isposinf(x), z, np.where(np.isneginf(x), w, x)))",
       "x with NaN and the infinities replaced; None stands for the largest and the smallest finite value.",
       promote="error", args=ONE, params=(("nan", 0.0), ("posinf", None), ("neginf", None)),
       domain=((-3, 3), (-1, 1), (5, 9), (-9, -5)), **EXACT, example="[nan, 1.0] -> [0.0, 1.0]"),
    _binary("mulg", "MULG(x, y)", "MULG(g, CONJ(y))", "MULG(g, CONJ(x))",
            "np.where((x == 0) & ~np.isfinite(y), 0, x * np.where((x == 0) & ~np.isfinite(y), 0, y))",
            "Product of a gradient x1 and a factor x2, and 0 where x1 is 0 and x2 is not finite.",
            kinds="fc", promote="error", public=False, **EXACT),
]

TABLE: list[Op] = [
    *_BASIC, *_ROUNDING, *_EXPLOG, *_TRIG, *_SPECIAL, *_PREDICATES, *_BITS, *_COMPLEX, *_ACTIVATIONS, *_SELECT,
]

INDEX: dict[str, int] = {row.name: number for number, row in enumerate(TABLE)}

# Engine and kernels compare this number, so that a stale build is refused instead of calling the wrong row.
HASH: int = int.from_bytes(hashlib.sha256(",".join(row.name for row in TABLE).encode()).digest()[:8], "little")
