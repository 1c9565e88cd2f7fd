"""The op table: a lint of every row, and its gradients against finite differences, all in NumPy."""

import ast
import math
import re
from statistics import NormalDist

import numpy as np
import pytest

from tensorx.ops import codegen, table

ROWS = table.TABLE
every_row = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])

ARRAY_API_2024_12 = """
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc where
""".split()


# ---- what the prelude means, written with NumPy ----


def _vector(function):
    return np.vectorize(function, otypes=[float])


def _mulg(g, f):
    dead = (np.asarray(g) == 0) & ~np.isfinite(f)
    return np.where(dead, 0, g * np.where(dead, 0, f))


def _digamma(x):
    z = x + 40.0
    tail = 1 / (12 * z**2) - 1 / (120 * z**4) + 1 / (252 * z**6)
    return np.log(z) - 1 / (2 * z) - tail - sum(1 / (x + k) for k in range(40))


def _polygamma(n, x):
    return np.asarray(codegen.reference(table.TABLE[table.INDEX["polygamma"]], [np.float64(n) + 0 * x, x]))


def _where(c, a, b):
    return np.where(c, a, b)


NUMPY = {
    "WHERE": _where,
    "MULG": _mulg,
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
    "NOT": np.logical_not,
    "ISNAN": np.isnan,
    "ISINF": np.isinf,
    "ISFINITE": np.isfinite,
    "SIGNBIT": np.signbit,
    "ABS": np.abs,
    "SIGN": np.sign,
    "SQUARE": np.square,
    "SQRT": np.sqrt,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "MAX": np.maximum,
    "MIN": np.minimum,
    "FMAX": np.fmax,
    "FMIN": np.fmin,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "TRUNC": np.trunc,
    "RINT": np.round,
    "COPYSIGN": np.copysign,
    "CONJ": np.conj,
    "REAL": np.real,
    "IMAG": np.imag,
    "COMPLEX": lambda re, im: re + 1j * im,
    "BITAND": np.bitwise_and,
    "BITOR": np.bitwise_or,
    "BITXOR": np.bitwise_xor,
    "BITNOT": np.invert,
    "SHL": np.left_shift,
    "SHR": np.right_shift,
    "FLOORDIV": np.floor_divide,
    "REM": np.remainder,
    "FMOD": np.fmod,
    "POW": np.power,
    "GCD": np.gcd,
    "LCM": np.lcm,
    "NEXTAFTER": np.nextafter,
    "HYPOT": np.hypot,
    "ATAN2": np.arctan2,
    "LOGADDEXP": np.logaddexp,
    "POLYGAMMA": _polygamma,
    "EXP": np.exp,
    "EXP2": np.exp2,
    "EXPM1": np.expm1,
    "LOG": np.log,
    "LOG2": np.log2,
    "LOG10": np.log10,
    "LOG1P": np.log1p,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "TANH": np.tanh,
    "ASINH": np.arcsinh,
    "ACOSH": np.arccosh,
    "ATANH": np.arctanh,
    "SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
    "ERF": _vector(math.erf),
    "ERFC": _vector(math.erfc),
    "ERFINV": _vector(lambda t: NormalDist().inv_cdf((t + 1) / 2) / math.sqrt(2)),
    "CBRT": np.cbrt,
    "LGAMMA": _vector(math.lgamma),
    "DIGAMMA": _digamma,
}


def evaluate(text, values):
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, {"INF": math.inf, **NUMPY, **values}))


# ---- lint ----


def test_every_function_of_the_array_api_has_a_row():
    flagged = {row.name for row in ROWS if row.array_api}
    assert flagged == set(ARRAY_API_2024_12)


def test_names_and_spellings_are_unique():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    spellings = [name for row in ROWS for name in codegen.functions(row)]
    assert len(set(spellings)) == len(spellings)
    methods = [name for row in ROWS for name, _ in codegen.operators(row)]
    assert len(set(methods)) == len(methods)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) and not name.endswith("_") for name in spellings)


def test_hash_changes_with_the_names():
    import hashlib

    digest = hashlib.sha256(",".join(row.name for row in ROWS).encode()).digest()
    assert int.from_bytes(digest[:8], "little") == table.HASH
    assert all(ROWS[number].name == name for name, number in table.INDEX.items())


def test_every_prelude_function_is_a_row_and_is_known_here():
    assert set(NUMPY) == set(codegen.PRELUDE)
    for name, function in codegen.PRELUDE.items():
        row = ROWS[table.INDEX[function.row]]
        assert row.arity == function.arity, name


ALLOWED = (
    ast.BinOp, ast.UnaryOp, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Call, ast.Name, ast.Load, ast.Constant,
)  # fmt: skip


def lint_expression(text, allowed):
    for node in ast.walk(codegen.parse(text)):
        assert isinstance(node, ALLOWED), f"{type(node).__name__} in {text!r}"
        if isinstance(node, ast.Compare):
            assert len(node.ops) == 1, f"chained comparison in {text!r}"
        if isinstance(node, ast.Constant):
            assert type(node.value) in (int, float)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            assert not all(isinstance(side, ast.Constant) for side in sides), f"two constants in {text!r}"
        if isinstance(node, ast.Call):
            assert len(node.args) == codegen.PRELUDE[node.func.id].arity, text
            if node.func.id == "WHERE":
                numbers = [isinstance(arg, ast.Constant) for arg in node.args[1:]]
                assert not all(numbers), f"WHERE of two numbers has no dtype in {text!r}"
    unknown = codegen.names(text) - set(allowed)
    assert not unknown, f"{unknown} in {text!r}"


@every_row
def test_expressions_keep_to_the_row_language(row):
    for text in (row.forward, row.complex_forward, *(case[2] for case in row.cases)):
        if text:
            lint_expression(text, row.operands)
    for text in (*row.grads, *row.complex_grads):
        if text not in (None, "0"):
            lint_expression(text, (*row.operands, "g", "out"))
            assert "g" in codegen.names(text)


@every_row
def test_gradients_multiply_by_mulg(row):
    """g times something that may be infinite must not make a NaN where g is 0."""
    for text in (*row.grads, *row.complex_grads):
        for node in ast.walk(codegen.parse(text or "0")):
            if not (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div))):
                continue
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(side, ast.Name) and side.id == "g":
                    finite = isinstance(other, ast.Constant) or codegen.calls(ast.unparse(other)) <= {"CONJ"}
                    assert finite, f"{text!r} multiplies g without MULG"


@every_row
def test_fields_are_consistent(row):
    assert len(row.grads) == row.arity == len(row.args) + len(row.params)
    assert not row.complex_grads or len(row.complex_grads) == row.arity
    assert 1 <= row.arity <= 4
    assert len(row.domain) == row.arity
    assert row.kinds and set(row.kinds) <= set("biufc") and list(row.kinds) == sorted(row.kinds, key="biufc".index)
    assert row.out in ("same", "bool", "real", "complex")
    assert row.promote in ("float", "error")
    assert row.doc[0].isupper() or row.doc.startswith(("x", "sin(pi x)"))
    assert row.doc.endswith(".") and "\n" not in row.doc
    assert len(row.doc) < 150
    if row.out == "bool":
        assert set(row.grads) == {None}
    if "f" not in row.kinds and "c" not in row.kinds:
        assert set(row.grads) == {None}
    if not set(row.kinds) & set("fc"):
        assert row.promote == "error"
    for operand, value, _, kinds in row.cases:
        assert operand in row.operands and set(kinds) <= set(row.kinds)
        assert value == int(value) or kinds == "f"
    text = codegen.docstring(row)
    assert text.startswith(row.doc) and "DTypeError" in text


@every_row
def test_integer_expressions_hold_no_fractions(row):
    if set(row.kinds) & set("iu"):
        for text in (row.forward, *(case[2] for case in row.cases if set(case[3]) & set("iu"))):
            numbers = [n.value for n in ast.walk(codegen.parse(text)) if isinstance(n, ast.Constant)]
            assert all(value == int(value) for value in numbers)
            divides = [n for n in ast.walk(codegen.parse(text)) if isinstance(n, ast.Div)]
            assert not divides, "integer division is FLOORDIV"


@every_row
def test_forward_equals_the_reference(row):
    """Row text against the independent column, both in NumPy and float64."""
    dtype = "float64" if "f" in row.kinds else "int64" if "i" in row.kinds else "complex128"
    operands = codegen.samples(row, dtype, 64)
    if row.name in ("bitwise_left_shift", "bitwise_right_shift", "pow", "floor_divide", "remainder", "fmod"):
        operands = [o if k == 0 else np.abs(o) % 9 + 1 for k, o in enumerate(operands)]
    got = evaluate(row.forward, dict(zip(row.operands, operands)))
    expected = codegen.reference(row, operands)
    assert np.allclose(got, expected, rtol=1e-9, atol=1e-11, equal_nan=True)
    for operand, value, text, kinds in row.cases:
        assert dtype == "float64" and "f" in kinds
        values = dict(zip(row.operands, operands))
        values[operand] = np.full_like(operands[0], value)
        assert np.allclose(evaluate(text, values), evaluate(row.forward, values), rtol=1e-13)


@every_row
def test_example_is_what_the_reference_says(row):
    if not row.public:
        assert not row.example
        return
    arguments, _, value = row.example.partition(" -> ")
    scope = {"inf": np.inf, "nan": np.nan}
    arguments = [eval(a, dict(scope)) for a in arguments.split("; ")]
    operands = [np.asarray(a) for a in arguments if isinstance(a, list)]
    operands += [np.asarray(a, operands[0].dtype) for a in arguments if not isinstance(a, list)]
    defaults = [default for _, default in row.params[len(arguments) - len(row.args) :]]
    if row.name == "nan_to_num":
        defaults = [0.0, np.finfo("float32").max, np.finfo("float32").min]
    operands += [np.asarray(default, operands[0].dtype) for default in defaults]
    got, wanted = codegen.reference(row, operands), np.asarray(eval(value, dict(scope)))
    assert got.dtype.kind == wanted.dtype.kind
    assert np.array_equal(got, wanted, equal_nan=wanted.dtype.kind in "fc"), (got, value)
    assert str(eval(value, dict(scope))) == value


# ---- gradients ----

DIFFERENTIABLE = [(row, k) for row in ROWS for k in codegen.differentiable(row) if "f" in row.kinds]
STEP = 1e-6


@pytest.mark.parametrize("row, k", DIFFERENTIABLE, ids=[f"{row.name}-{row.operands[k]}" for row, k in DIFFERENTIABLE])
def test_gradient_matches_finite_differences(row, k):
    operands = codegen.samples(row, "float64", 60, seed=3)
    values = dict(zip(row.operands, operands))
    out = codegen.reference(row, operands)
    g = np.linspace(0.5, 1.5, 60)
    got = evaluate(row.grads[k], {**values, "out": out, "g": g}) * np.ones(60)
    sides = []
    for step in (-STEP, STEP):
        moved = [o + step if j == k else o for j, o in enumerate(operands)]
        sides.append(codegen.reference(row, moved))
    slope = (sides[1] - sides[0]) / (2 * STEP)
    expected = g * slope if row.out != "complex" else (g * np.conj(slope)).real
    if row.out == "complex":
        got = evaluate(row.grads[k], {**values, "out": out, "g": g + 0j})
    scale = max(1.0, float(np.abs(expected).max()))
    got = got.real  # the cast to the dtype of a real operand
    assert np.allclose(got, expected, rtol=2e-6, atol=2e-8 * scale), np.abs(got - expected).max()


COMPLEX = [(row, k) for row in ROWS for k in codegen.differentiable(row) if "c" in row.kinds]


@pytest.mark.parametrize("row, k", COMPLEX, ids=[f"{row.name}-{row.operands[k]}" for row, k in COMPLEX])
def test_complex_gradient_matches_finite_differences(row, k):
    """The gradient of Re(conj(g) f) in the directions 1 and i."""
    operands = codegen.samples(row, "complex128", 40, seed=4)
    if row.name == "pow":
        operands = [o if j == 0 else o * 0.5 for j, o in enumerate(operands)]
    values = dict(zip(row.operands, operands))
    out = codegen.reference(row, operands)
    g = np.linspace(0.5, 1.5, 40) + (0 if row.out == "real" else 1j * np.linspace(-1, 1, 40))
    got = evaluate(codegen.gradients(row, True)[k], {**values, "out": out, "g": g})
    got = got * np.ones(40)
    slopes = []
    for direction in (1, 1j):
        sides = []
        for step in (-STEP, STEP):
            moved = [o + step * direction if j == k else o for j, o in enumerate(operands)]
            sides.append((np.conj(g) * codegen.reference(row, moved)).real)
        slopes.append((sides[1] - sides[0]) / (2 * STEP))
    expected = slopes[0] + 1j * slopes[1]
    scale = max(1.0, float(np.abs(expected).max()))
    assert np.allclose(got, expected, rtol=3e-6, atol=3e-8 * scale), np.abs(got - expected).max()


@pytest.mark.parametrize("row, k", DIFFERENTIABLE, ids=[f"{row.name}-{row.operands[k]}" for row, k in DIFFERENTIABLE])
def test_zero_gradient_stays_zero(row, k):
    """However wild the values: where g is 0 the gradient is exactly 0, unless the operand itself is NaN."""
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, 1e300])
    grids = np.meshgrid(*[values] * row.arity)
    operands = [grid.ravel() != 0 if j in row.masks else grid.ravel() for j, grid in enumerate(grids)]
    if row.name in ("erfinv", "lgamma", "digamma", "polygamma"):
        operands = [np.where(np.abs(o) <= 1, o, 1.0) for o in operands]
        out = np.full(operands[0].shape, np.inf)
    else:
        out = codegen.reference(row, operands)
    scope = {**dict(zip(row.operands, operands)), "out": out, "g": np.zeros(operands[0].shape)}
    if row.name in ("lgamma", "polygamma", "digamma"):
        scope.update(DIGAMMA=lambda x: x + np.inf, POLYGAMMA=lambda n, x: x + np.inf)
    got = evaluate(row.grads[k], scope)
    bad = ~(got == 0)
    assert not bad.any(), [[o[bad][0] for o in operands]]


def test_gradients_at_singular_points():
    """The choices of the design: ties, bounds, kinks, the branch not taken."""

    def grad(name, *operands, which=0, g=1.0):
        row = ROWS[table.INDEX[name]]
        operands = [np.asarray(o, float) if j not in row.masks else np.asarray(o) for j, o in enumerate(operands)]
        scope = dict(zip(row.operands, operands))
        scope.update(out=codegen.reference(row, operands), g=np.asarray(g, float))
        return evaluate(row.grads[which], scope).tolist()

    inf, nan = math.inf, math.nan
    assert grad("relu", [-1, 0, 1]) == [0, 0, 1]
    assert grad("abs", [-2, 0, 2]) == [-1, 0, 1]
    assert grad("clip", [-1, 0, 1, 2], [0] * 4, [1] * 4) == [0, 1, 1, 0]
    assert grad("clip", [-1, 0, 1, 2], [0] * 4, [1] * 4, which=1) == [1, 0, 0, 0]
    assert grad("clip", [-1, 0, 1, 2], [0] * 4, [1] * 4, which=2) == [0, 0, 0, 1]
    assert grad("clip", [0.0], [2.0], [1.0], which=2) == [1]
    assert grad("maximum", [1, 2], [1, 1]) == [0.5, 1]
    assert grad("maximum", [1, 2], [1, 1], which=1) == [0.5, 0]
    assert grad("minimum", [1, 2], [1, 1]) == [0.5, 0]
    assert grad("fmax", [nan, 1, 2], [1, nan, 2]) == [0, 1, 0.5]
    assert grad("fmax", [nan, 1, 2], [1, nan, 2], which=1) == [1, 0, 0.5]
    assert grad("where", [True, False], [1, 2], [nan, inf], which=2, g=[nan, 1.0]) == [0, 1]
    assert grad("hypot", [0.0], [0.0]) == [0]
    assert grad("atan2", [0.0], [0.0]) == [0] and grad("atan2", [1e-200], [0.0], which=1) == [-1e200]
    assert grad("pow", [0, 0, 0, 2], [0, 1, 2, 0]) == [0, 1, 0, 0]
    assert grad("pow", [0.0, 0.0], [2.0, 0.0], which=1) == [0, 0]
    assert grad("sqrt", [0.0], g=0.0) == [0] and grad("sqrt", [0.0]) == [inf]
    assert grad("logaddexp", [-inf, inf], [-inf, inf]) == [0.5, 0.5]
    assert grad("xlogy", [0.0], [0.0]) == [0] and grad("xlogy", [0.0], [0.0], which=1) == [0]
    assert grad("sinc", [0.0]) == [0]
    assert grad("leaky_relu", [-1, 0, 1], [0.1] * 3) == [0.1, 0.1, 1]
    assert grad("hardtanh", [-1, 0, 1], [-1] * 3, [1] * 3) == [0, 1, 0]
    assert grad("nan_to_num", [nan, inf, 1], [0] * 3, [9] * 3, [-9] * 3) == [0, 0, 1]


# ---- what autograd asks for ----


@every_row
def test_saved_values_are_read_off_the_gradient(row):
    wanted = codegen.differentiable(row)
    for k in wanted:
        names = codegen.saved(row, (k,))
        assert set(names) == codegen.names(row.grads[k]) - {"g"}
        assert list(names) == [n for n in (*row.operands, "out") if n in names]
    assert codegen.saved(row, ()) == ()


def test_only_what_a_wanted_gradient_needs_is_saved():
    def saved(name, *wanted):
        return codegen.saved(ROWS[table.INDEX[name]], wanted)

    assert saved("multiply", 0) == ("y",) and saved("multiply", 1) == ("x",)
    assert saved("add", 0, 1) == () and saved("negative", 0) == ()
    for name in ("exp", "tanh", "sigmoid", "relu", "sqrt", "tan", "expm1", "reciprocal", "cbrt"):
        assert saved(name, 0) == ("out",), name
    assert saved("log", 0) == ("x",)
    assert saved("where", 1, 2) == ("x",)


@every_row
def test_backward_source_computes_the_gradient_expressions(row):
    wanted = codegen.differentiable(row)
    if not wanted or "f" not in row.kinds:
        return
    operands = codegen.samples(row, "float64", 16, seed=5)
    values = {**dict(zip(row.operands, operands)), "out": codegen.reference(row, operands), "g": np.linspace(-1, 1, 16)}
    scope = codegen.prelude_namespace({function.row: NUMPY[name] for name, function in codegen.PRELUDE.items()}.get)
    exec(codegen.backward_source(row, wanted), scope)
    with np.errstate(all="ignore"):
        got = scope["backward"](values["g"], *(values[name] for name in codegen.saved(row, wanted)))
    for k, result in zip(wanted, got):
        if row.grads[k] == "0":
            assert result is None
        else:
            assert np.array_equal(result, evaluate(row.grads[k], values), equal_nan=True)


def test_backward_source_computes_shared_parts_once():
    source = codegen.backward_source(ROWS[table.INDEX["atan2"]], (0, 1))
    assert source.count("HYPOT(") == 1


# ---- the Python surface ----


def test_operators_have_reflected_and_inplace_forms():
    forms = dict(pair for row in ROWS for pair in codegen.operators(row))
    assert forms["__sub__"] == "plain" and forms["__rsub__"] == "reflected" and forms["__isub__"] == "inplace"
    assert "__rlt__" not in forms and "__ineg__" not in forms and forms["__invert__"] == "plain"


def test_signatures():
    def signature(name, method=False):
        return codegen.signature(ROWS[table.INDEX[name]], method)

    assert signature("exp") == "(x, /)"
    assert signature("add") == "(x1, x2, /)"
    assert signature("clip") == "(x, /, min=None, max=None)"
    assert signature("leaky_relu") == "(x, /, negative_slope=0.01)"
    assert signature("leaky_relu", method=True) == "(negative_slope=0.01)"
    assert signature("lerp", method=True) == "(x2, /, weight)"


def test_methods():
    methods = {name for row in ROWS for name in codegen.methods(row)}
    assert {"add_", "mul_", "sub", "relu_", "clip_", "addcdiv_", "abs_"} <= methods
    assert not {"where_", "equal_", "isnan_", "mulg", "real_", "complex"} & methods
