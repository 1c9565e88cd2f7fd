"""Special cases of the array API standard 2024.12, one line for one sentence of the specification.

REAL: ``condition[, condition] -> result``. COMPLEX: ``real part, imaginary part -> real part, imaginary part``.

Conditions: ``nan``, ``+0 -0 0`` (0 is either), ``+inf -inf inf``, a number, ``>0 <0 >1 <-1``, ``fin`` a finite number, ``fin!0``
a finite number other than 0, ``+fin -fin`` positive and negative finite, ``!nan``, ``any``, ``odd>0 odd<0`` odd integers,
``!odd>0 !odd<0`` other numbers, infinity among them, ``+nan -nan`` by sign bit, ``>1abs <1abs 1abs`` by magnitude, ``!1``, ``!0``.

Results: ``nan``, ``+0 -0 +inf -inf``, a number or multiple of pi (approximate where irrational), ``x1 x2`` the operand,
``|x1| |x2|`` its magnitude, ``-|x1|``; ``0`` and ``inf`` of either sign (the sign is unspecified); ``True``, ``False``; ``+nan``,
``-nan`` by sign bit; ``+`` and ``-``: any number of that mathematical sign; ``cis``: the sign and infinity (or zero) of
cos(b) and sin(b), see the test; ``*`` anything.
"""

REAL = {
    "abs": "nan -> nan; -0 -> +0; -inf -> +inf; -fin -> |x1|; +0 -> +0",
    "acos": "nan -> nan; >1 -> nan; <-1 -> nan; 1 -> +0",
    "acosh": "nan -> nan; <1 -> nan; 1 -> +0; +inf -> +inf",
    "add": """nan, any -> nan; any, nan -> nan; +inf, -inf -> nan; -inf, +inf -> nan; +inf, +inf -> +inf; -inf, -inf -> -inf;
        +inf, fin -> +inf; -inf, fin -> -inf; fin, +inf -> +inf; fin, -inf -> -inf; -0, -0 -> -0; -0, +0 -> +0; +0, -0 -> +0;
        +0, +0 -> +0; 0, fin!0 -> x2; fin!0, 0 -> x1; 1.5, -1.5 -> +0; -2, 2 -> +0""",
    "asin": "nan -> nan; >1 -> nan; <-1 -> nan; +0 -> +0; -0 -> -0",
    "asinh": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> +inf; -inf -> -inf",
    "atan": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> pi/2; -inf -> -pi/2",
    "atan2": """nan, any -> nan; any, nan -> nan; >0, +0 -> pi/2; >0, -0 -> pi/2; +0, >0 -> +0; +0, +0 -> +0; +0, -0 -> pi; +0, <0 -> pi;
        -0, >0 -> -0; -0, +0 -> -0; -0, -0 -> -pi; -0, <0 -> -pi; <0, +0 -> -pi/2; <0, -0 -> -pi/2; +fin, +inf -> +0; +fin, -inf -> pi;
        -fin, +inf -> -0; -fin, -inf -> -pi; +inf, fin -> pi/2; -inf, fin -> -pi/2; +inf, +inf -> pi/4; +inf, -inf -> 3*pi/4;
        -inf, +inf -> -pi/4; -inf, -inf -> -3*pi/4""",
    "atanh": "nan -> nan; <-1 -> nan; >1 -> nan; -1 -> -inf; 1 -> +inf; +0 -> +0; -0 -> -0",
    "ceil": "int -> x1; +inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan; -0.5 -> -0",
    "copysign": """!nan, <0 -> -|x1|; !nan, -0 -> -|x1|; !nan, +0 -> |x1|; !nan, >0 -> |x1|; !nan, -nan -> -|x1|; !nan, +nan -> |x1|;
        nan, <0 -> -nan; nan, -0 -> -nan; nan, +0 -> +nan; nan, >0 -> +nan; nan, -nan -> -nan; nan, +nan -> +nan""",
    "cos": "nan -> nan; +0 -> 1; -0 -> 1; +inf -> nan; -inf -> nan",
    "cosh": "nan -> nan; +0 -> 1; -0 -> 1; +inf -> +inf; -inf -> +inf",
    "divide": """nan, any -> nan; any, nan -> nan; inf, inf -> nan; 0, 0 -> nan; +0, >0 -> +0; -0, >0 -> -0; +0, <0 -> -0; -0, <0 -> +0;
        >0, +0 -> +inf; >0, -0 -> -inf; <0, +0 -> -inf; <0, -0 -> +inf; +inf, +fin -> +inf; +inf, -fin -> -inf; -inf, +fin -> -inf;
        -inf, -fin -> +inf; +fin, +inf -> +0; +fin, -inf -> -0; -fin, +inf -> -0; -fin, -inf -> +0; +fin, +fin -> +; -fin, -fin -> +;
        +fin, -fin -> -; -fin, +fin -> -""",
    "equal": """nan, any -> False; any, nan -> False; +inf, +inf -> True; -inf, -inf -> True; -0, 0 -> True; +0, 0 -> True;
        +inf, -inf -> False; fin, inf -> False; 1, 1 -> True; 1, 1.5 -> False""",
    "exp": "nan -> nan; +0 -> 1; -0 -> 1; +inf -> +inf; -inf -> +0",
    "expm1": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> +inf; -inf -> -1",
    "floor": "int -> x1; +inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan; 0.5 -> +0",
    "floor_divide": """nan, any -> nan; any, nan -> nan; inf, inf -> nan; 0, 0 -> nan; +0, >0 -> +0; -0, >0 -> -0; +0, <0 -> -0; -0, <0 -> +0;
        >0, +0 -> +inf; >0, -0 -> -inf; <0, +0 -> -inf; <0, -0 -> +inf; +inf, +fin -> +inf|nan; +inf, -fin -> -inf|nan;
        -inf, +fin -> -inf|nan; -inf, -fin -> +inf|nan; +fin, +inf -> +0; +fin, -inf -> -0|-1; -fin, +inf -> -0|-1; -fin, -inf -> +0;
        +fin, +fin -> +; -fin, -fin -> +; +fin, -fin -> -; -fin, +fin -> -""",
    "hypot": """inf, any -> +inf; any, inf -> +inf; 0, !nan -> |x2|; !nan, 0 -> |x1|; fin, nan -> nan; nan, nan -> nan; nan, fin -> nan""",
    "isfinite": "inf -> False; nan -> False; fin -> True",
    "isinf": "inf -> True; nan -> False; fin -> False",
    "isnan": "nan -> True; inf -> False; fin -> False",
    "log": "nan -> nan; <0 -> nan; 0 -> -inf; 1 -> +0; +inf -> +inf",
    "log1p": "nan -> nan; <-1 -> nan; -1 -> -inf; -0 -> -0; +0 -> +0; +inf -> +inf",
    "log2": "nan -> nan; <0 -> nan; 0 -> -inf; 1 -> +0; +inf -> +inf",
    "log10": "nan -> nan; <0 -> nan; 0 -> -inf; 1 -> +0; +inf -> +inf",
    "logaddexp": "nan, any -> nan; any, nan -> nan; +inf, !nan -> +inf; !nan, +inf -> +inf",
    "maximum": "nan, any -> nan; any, nan -> nan",
    "minimum": "nan, any -> nan; any, nan -> nan",
    "multiply": """nan, any -> nan; any, nan -> nan; inf, 0 -> nan; 0, inf -> nan; +fin, +fin -> +; -fin, -fin -> +; +fin, -fin -> -;
        -fin, +fin -> -; +inf, >0 -> +inf; +inf, <0 -> -inf; -inf, >0 -> -inf; -inf, <0 -> +inf; >0, +inf -> +inf; <0, +inf -> -inf;
        >0, -inf -> -inf; <0, -inf -> +inf; +0, +fin -> +0; -0, +fin -> -0; +0, -fin -> -0; -0, -fin -> +0""",
    "nextafter": "nan, any -> nan; any, nan -> nan; -0, +0 -> +0; +0, -0 -> -0",
    "not_equal": "nan, any -> True; any, nan -> True; +inf, -inf -> True; -inf, +inf -> True; 1, 1.5 -> True; -0, +0 -> False; +inf, +inf -> False",
    "pow": """!1, nan -> nan; any, +0 -> 1; any, -0 -> 1; nan, !0 -> nan; >1abs, +inf -> +inf; >1abs, -inf -> +0; 1abs, +inf -> 1;
        1abs, -inf -> 1; 1, !nan -> 1; <1abs, +inf -> +0; <1abs, -inf -> +inf; +inf, >0 -> +inf; +inf, <0 -> +0; -inf, odd>0 -> -inf;
        -inf, !odd>0 -> +inf; -inf, odd<0 -> -0; -inf, !odd<0 -> +0; +0, >0 -> +0; +0, <0 -> +inf; -0, odd>0 -> -0; -0, !odd>0 -> +0;
        -0, odd<0 -> -inf; -0, !odd<0 -> +inf; -fin, 0.5 -> nan; -fin, -1.5 -> nan; -fin, 1.5 -> nan""",
    "remainder": """nan, any -> nan; any, nan -> nan; inf, inf -> nan; 0, 0 -> nan; +0, >0 -> +0; -0, >0 -> +0; +0, <0 -> -0; -0, <0 -> -0;
        >0, 0 -> nan; <0, 0 -> nan; +inf, fin!0 -> nan; -inf, fin!0 -> nan; +fin, +inf -> x1; +fin, -inf -> x2; -fin, +inf -> x2;
        -fin, -inf -> x1""",
    "round": "int -> x1; +inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan; 0.5 -> +0; 1.5 -> 2; 2.5 -> 2; -0.5 -> -0; -1.5 -> -2",
    "sign": "<0 -> -1; 0 -> 0; >0 -> 1; nan -> nan",
    "signbit": "+0 -> False; -0 -> True; +inf -> False; -inf -> True; +fin -> False; -fin -> True; +nan -> False; -nan -> True",
    "sin": "nan -> nan; +0 -> +0; -0 -> -0; inf -> nan",
    "sinh": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> +inf; -inf -> -inf",
    "sqrt": "nan -> nan; <0 -> nan; +0 -> +0; -0 -> -0; +inf -> +inf",
    "tan": "nan -> nan; +0 -> +0; -0 -> -0; inf -> nan",
    "tanh": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> 1; -inf -> -1",
    "trunc": "int -> x1; +inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan; 0.5 -> +0; -0.5 -> -0",
    # as 1 / x, x * x and x1 + (-x2)
    "reciprocal": "nan -> nan; +0 -> +inf; -0 -> -inf; +inf -> +0; -inf -> -0; +fin -> +; -fin -> -",
    "square": "nan -> nan; 0 -> +0; inf -> +inf; fin!0 -> +",
    "subtract": """nan, any -> nan; any, nan -> nan; +inf, +inf -> nan; -inf, -inf -> nan; +inf, -inf -> +inf; -inf, +inf -> -inf; +inf, fin -> +inf;
        -inf, fin -> -inf; fin, +inf -> -inf; fin, -inf -> +inf; -0, +0 -> -0; -0, -0 -> +0; +0, +0 -> +0; +0, -0 -> +0; fin!0, 0 -> x1;
        2, 2 -> +0""",
    # the other comparisons are those of IEEE 754: NaN compares false
    "less": "nan, any -> False; any, nan -> False; -0, +0 -> False; fin, +inf -> True; -inf, fin -> True; +inf, any -> False",
    "less_equal": "nan, any -> False; any, nan -> False; -0, +0 -> True; +0, -0 -> True; fin, +inf -> True; +inf, +inf -> True",
    "greater": "nan, any -> False; any, nan -> False; -0, +0 -> False; fin, -inf -> True; +inf, fin -> True; -inf, any -> False",
    "greater_equal": "nan, any -> False; any, nan -> False; -0, +0 -> True; +0, -0 -> True; fin, -inf -> True; -inf, -inf -> True",
}

COMPLEX = {
    "abs": """inf, any -> +inf; any, inf -> +inf; 0, !nan -> |b|; !nan, 0 -> |a|; nan, fin -> nan; fin, nan -> nan; nan, nan -> nan""",
    "acos": """0, +0 -> pi/2, -0; 0, nan -> pi/2, nan; fin, +inf -> pi/2, -inf; fin!0, nan -> nan, nan; -inf, +fin -> pi, -inf;
        +inf, +fin -> +0, -inf; -inf, +inf -> 3*pi/4, -inf; +inf, +inf -> pi/4, -inf; inf, nan -> nan, inf; nan, fin -> nan, nan;
        nan, +inf -> nan, -inf; nan, nan -> nan, nan""",
    "acosh": """0, +0 -> +0, pi/2; fin, +inf -> +inf, pi/2; fin!0, nan -> nan, nan; +0, nan -> nan, ~pi/2; -inf, +fin -> +inf, pi;
        +inf, +fin -> +inf, +0; -inf, +inf -> +inf, 3*pi/4; +inf, +inf -> +inf, pi/4; inf, nan -> +inf, nan; nan, fin -> nan, nan;
        nan, +inf -> +inf, nan; nan, nan -> nan, nan""",
    "asinh": """+0, +0 -> +0, +0; +fin, +inf -> +inf, pi/2; fin, nan -> nan, nan; +inf, +fin -> +inf, +0; +inf, +inf -> +inf, pi/4;
        nan, +0 -> nan, +0; nan, fin!0 -> nan, nan; nan, +inf -> inf, nan; nan, nan -> nan, nan""",
    "atanh": """+0, +0 -> +0, +0; +0, nan -> +0, nan; 1, +0 -> +inf, +0; +fin, +inf -> +0, pi/2; fin!0, nan -> nan, nan; +inf, +fin -> +0, pi/2;
        +inf, +inf -> +0, pi/2; +inf, nan -> +0, nan; nan, fin -> nan, nan; nan, +inf -> 0, pi/2; nan, nan -> nan, nan""",
    "cosh": """+0, +0 -> 1, +0; +0, +inf -> nan, 0; +0, nan -> nan, 0; fin!0, +inf -> nan, nan; fin!0, nan -> nan, nan; +inf, +0 -> +inf, +0;
        +inf, fin!0 -> inf*cis, inf*cis; +inf, +inf -> inf, nan; +inf, nan -> +inf, nan; nan, 0 -> nan, 0; nan, fin!0 -> nan, nan;
        nan, nan -> nan, nan""",
    "exp": """0, +0 -> 1, +0; fin, +inf -> nan, nan; fin, nan -> nan, nan; +inf, +0 -> +inf, +0; -inf, fin -> 0*cis, 0*cis;
        +inf, fin!0 -> inf*cis, inf*cis; -inf, +inf -> 0, 0; +inf, +inf -> inf, nan; -inf, nan -> 0, 0; +inf, nan -> inf, nan;
        nan, +0 -> nan, +0; nan, fin!0 -> nan, nan; nan, inf -> nan, nan; nan, nan -> nan, nan""",
    "expm1": """0, +0 -> 0, +0; fin, +inf -> nan, nan; fin, nan -> nan, nan; +inf, +0 -> +inf, +0; -inf, fin -> -1, 0*cis;
        +inf, fin!0 -> inf*cis, inf*cis; -inf, +inf -> -1, 0; +inf, +inf -> inf, nan; -inf, nan -> -1, 0; +inf, nan -> inf, nan;
        nan, +0 -> nan, +0; nan, fin!0 -> nan, nan; nan, inf -> nan, nan; nan, nan -> nan, nan""",
    "isfinite": "nan, any -> False; any, nan -> False; inf, any -> False; any, inf -> False; fin, fin -> True",
    "isinf": "inf, any -> True; fin, inf -> True; nan, inf -> True; fin, fin -> False; nan, fin -> False; fin, nan -> False",
    "isnan": "nan, any -> True; any, nan -> True; fin, fin -> False; inf, fin -> False",
    "log": """-0, +0 -> -inf, pi; +0, +0 -> -inf, +0; fin, +inf -> +inf, pi/2; fin, nan -> nan, nan; -inf, +fin -> +inf, pi; +inf, +fin -> +inf, +0;
        -inf, +inf -> +inf, 3*pi/4; +inf, +inf -> +inf, pi/4; inf, nan -> +inf, nan; nan, fin -> nan, nan; nan, +inf -> +inf, nan;
        nan, nan -> nan, nan""",
    "log1p": """-1, +0 -> -inf, +0; fin, +inf -> +inf, pi/2; fin, nan -> nan, nan; -inf, +fin -> +inf, pi; +inf, +fin -> +inf, +0;
        -inf, +inf -> +inf, 3*pi/4; +inf, +inf -> +inf, pi/4; inf, nan -> +inf, nan; nan, fin -> nan, nan; nan, +inf -> +inf, nan;
        nan, nan -> nan, nan""",
    "sign": "0, 0 -> 0, 0; nan, any -> nan, nan; any, nan -> nan, nan",
    "sinh": """+0, +0 -> +0, +0; +0, +inf -> 0, nan; +0, nan -> 0, nan; +fin, +inf -> nan, nan; +fin, nan -> nan, nan; +inf, +0 -> +inf, +0;
        +inf, +fin -> inf*cis, inf*cis; +inf, +inf -> inf, nan; +inf, nan -> inf, nan; nan, +0 -> nan, +0; nan, fin!0 -> nan, nan;
        nan, nan -> nan, nan""",
    # the specification has "+0 + infinity j" for (+inf, positive) and "NaN + NaN j" for (-inf, positive); both say the opposite of C99
    # and of what every library computes, and are corrected here; (nan, +inf) is the second sentence, not the last but one
    "sqrt": """0, +0 -> +0, +0; any, +inf -> +inf, +inf; fin, nan -> nan, nan; -inf, +fin -> +0, +inf; +inf, +fin -> +inf, +0;
        -inf, nan -> nan, inf; +inf, nan -> +inf, nan; nan, fin -> nan, nan; nan, nan -> nan, nan""",
    "tanh": """+0, +0 -> +0, +0; fin!0, +inf -> nan, nan; +0, +inf -> +0, nan; fin!0, nan -> nan, nan; +0, nan -> +0, nan; +inf, +fin -> 1, 0;
        +inf, +inf -> 1, 0; +inf, nan -> 1, 0; nan, +0 -> nan, +0; nan, fin!0 -> nan, nan; nan, inf -> nan, nan; nan, nan -> nan, nan""",
    # parts rounded each for itself
    "round": "int, int -> a, b; nan, 1.5 -> nan, 2; inf, 0.5 -> a, +0; -0, 2.5 -> -0, 2",
}

# f(conj(x)) == conj(f(x)): every case of these holds for the conjugate as well
CONJUGATE = {"acos", "acosh", "asinh", "atanh", "cosh", "exp", "expm1", "log", "log1p", "sinh", "sqrt", "tanh"}
# f(-x) == -f(x), f(-x) == f(x)
ODD = {"asinh", "atanh", "sinh", "tanh"}
EVEN = {"cosh"}
# f(x) == -1j * g(x * 1j), or g(x * 1j)
TURNED = {"asin": ("asinh", -1j), "atan": ("atanh", -1j), "cos": ("cosh", 1), "sin": ("sinh", -1j), "tan": ("tanh", -1j)}
# f(x) == log(x) / log(base)
LOGARITHMS = {"log2": 2.0, "log10": 10.0}
