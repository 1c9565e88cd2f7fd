"""Every special case of special_cases.py for every dtype, lone elements and whole vectors (other kernels) alike."""

import functools
import itertools
import math

import numpy as np
import pytest
import special_cases as cases

import tensorx as tx

NAN, INF = math.nan, math.inf
VALUES = [NAN, -NAN, 0.0, -0.0, INF, -INF, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0, 0.25, 7.0, -8.0, 2.5, 100.0, -100.0]
REALS = {"float16": np.float16, "bfloat16": np.float32, "float32": np.float32, "float64": np.float64}
COMPLEXES = {"complex64": (np.complex64, np.float32), "complex128": (np.complex128, np.float64)}


def negative(v):
    return math.copysign(1.0, v) < 0


CONDITIONS = {
    "nan": lambda v: v != v,
    "+nan": lambda v: v != v and not negative(v),
    "-nan": lambda v: v != v and negative(v),
    "0": lambda v: v == 0,
    "+0": lambda v: v == 0 and not negative(v),
    "-0": lambda v: v == 0 and negative(v),
    "inf": lambda v: abs(v) == INF,
    "+inf": lambda v: v == INF,
    "-inf": lambda v: v == -INF,
    ">0": lambda v: v > 0,
    "<0": lambda v: v < 0,
    ">1": lambda v: v > 1,
    "<1": lambda v: v < 1,
    "<-1": lambda v: v < -1,
    "fin": math.isfinite,
    "fin!0": lambda v: math.isfinite(v) and v != 0,
    "+fin": lambda v: math.isfinite(v) and v > 0,
    "-fin": lambda v: math.isfinite(v) and v < 0,
    "!nan": lambda v: v == v,
    "!0": lambda v: v != 0,
    "!1": lambda v: v != 1,
    "any": lambda v: True,
    "int": lambda v: math.isfinite(v) and v == int(v),
    "1abs": lambda v: abs(v) == 1,
    ">1abs": lambda v: abs(v) > 1,
    "<1abs": lambda v: abs(v) < 1,
    "odd>0": lambda v: math.isfinite(v) and v > 0 and v % 2 == 1,
    "odd<0": lambda v: math.isfinite(v) and v < 0 and v % 2 == 1,
    "!odd>0": lambda v: v > 0 and not (math.isfinite(v) and v % 2 == 1),
    "!odd<0": lambda v: v < 0 and not (math.isfinite(v) and v % 2 == 1),
}


def holding(condition):
    """The test values for which a condition holds; a number stands for itself."""
    test = CONDITIONS.get(condition)
    return [float(condition)] if test is None else [v for v in VALUES if test(v)]


def angle(text):
    return float(eval(text, {"pi": math.pi}))


def is_close(got, want, tolerance):
    return abs(got - want) <= tolerance * max(1.0, abs(want))


def fits(result, got, operands, tolerance):
    """Whether a computed real number or truth value is what the table says."""
    if "|" in result and not result.startswith(("|", "-|")):
        return any(fits(r, got, operands, tolerance) for r in result.split("|"))
    if result in ("True", "False"):
        return bool(got) is (result == "True")
    named = {"x1": lambda: operands[0], "x2": lambda: operands[1], "|x1|": lambda: math.fabs(operands[0]), "|x2|": lambda: math.fabs(operands[1]),
             "-|x1|": lambda: -math.fabs(operands[0]), "a": lambda: operands[0], "b": lambda: operands[1], "|a|": lambda: math.fabs(operands[0]),
             "|b|": lambda: math.fabs(operands[1])}  # fmt: skip
    if result in named:
        want = named[result]()
        return got == want and negative(got) == negative(want)
    if result in ("nan", "+nan", "-nan", "0", "+0", "-0", "inf", "+inf", "-inf"):
        return CONDITIONS[result](got)
    if result in ("+", "-"):
        return got == got and negative(got) == (result == "-")
    if result.endswith("*cis"):
        raise AssertionError("cis is resolved by the caller")
    if result.startswith("~"):
        return is_close(abs(got), angle(result[1:]), tolerance)
    return is_close(got, angle(result), tolerance)


def lines(text):
    for line in text.split(";"):
        left, right = line.split("->")
        yield [c.strip() for c in left.split(",")], [r.strip() for r in right.split(",")]


@functools.cache
def real_cases(name):
    """(operands, result) of every case of a function for every test value that fits."""
    return [(operands, right[0]) for left, right in lines(cases.REAL[name]) for operands in itertools.product(*map(holding, left))]


def padded(columns, n):
    """Operands as arrays: once as they are, and in the middle of a long vector, where kernels use other instructions."""
    return [np.concatenate([np.ones(40), c, np.ones(40)]) if n else np.asarray(c) for c in columns]


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", cases.REAL)
def test_real(name, dtype):
    found = real_cases(name)
    arity = len(found[0][0])
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}[dtype]
    for long in (0, 1):
        columns = padded([np.array([operands[k] for operands, _ in found]) for k in range(arity)], long)
        with np.errstate(invalid="ignore"):
            tensors = [tx.asarray(c, dtype=dtype) for c in columns]
        out = getattr(tx, name)(*tensors)
        got = (out if out.dtype is tx.bool else out.astype(tx.float64)).tolist()
        got = got[40:-40] if long else got
        wrong = [(name, *operands, "should be", result, "is", g) for (operands, result), g in zip(found, got) if not fits(result, g, operands, tolerance)]
        assert not wrong, wrong[:10]


def turned(z, factor):
    """factor * z for the factors 1, -1, 1j and -1j, exactly."""
    re, im = z
    return {1: (re, im), -1: (-re, -im), 1j: (-im, re), -1j: (im, -re)}[factor]


@functools.cache
def complex_cases(name):
    """((a, b), (result, result), transform of the computed value) of every case, its conjugate and its negative."""
    base, after = cases.TURNED.get(name, (name, None))
    base = "log" if name in cases.LOGARITHMS else base
    out = []
    for left, right in lines(cases.COMPLEX[base]):
        for a, b in itertools.product(*map(holding, left)):
            variants = {(1, False)}
            if base in cases.CONJUGATE:
                variants.add((1, True))
            if base in cases.ODD or base in cases.EVEN:
                variants |= {(-1, flag) for _, flag in tuple(variants)}
            for sign, conj in variants:
                x = (a, -b) if conj else (a, b)
                x = turned(x, sign)
                # what is computed, brought back to what the table speaks of
                def back(z, sign=sign, conj=conj):
                    z = turned(z, sign if base in cases.ODD else 1)
                    return (z[0], -z[1]) if conj else z

                if name in cases.TURNED:
                    x = turned(x, -1j)  # f(x) is g(x * 1j), turned by `after`

                    def back(z, sign=sign, conj=conj, after=after, inner=back):
                        return inner(turned(z, {1: 1, -1j: 1j}[after]))

                out.append((x, (a, b), right, back))
    return out


def resolve(result, part, b):
    """inf*cis and 0*cis: the sign of cos(b) or sin(b)."""
    if not result.endswith("*cis"):
        return result
    value = (math.cos, math.sin)[part](b)
    sign = "-" if negative(value) else "+"
    return sign + result.split("*")[0]


@pytest.mark.parametrize("dtype", COMPLEXES)
@pytest.mark.parametrize("name", [*cases.COMPLEX, *cases.TURNED, *cases.LOGARITHMS])
def test_complex(name, dtype):
    found = complex_cases(name)
    kind, part = COMPLEXES[dtype]
    tolerance = 1e-6 if dtype == "complex64" else 1e-15
    scale = math.log(cases.LOGARITHMS[name]) if name in cases.LOGARITHMS else 1.0
    x = np.array([c[0] for c in found], dtype=part).reshape(-1).view(kind)
    for long in (0, 1):
        given = np.concatenate([np.ones(40, kind), x, np.ones(40, kind)]) if long else x
        out = getattr(tx, name)(tx.asarray(given))
        got = np.asarray(out)
        got = got[40:-40] if long else got
        wrong = []
        for (operand, origin, right, back), g in zip(found, got.tolist()):
            if len(right) == 1:
                good = fits(right[0], g, origin, tolerance)
            else:
                z = back((g.real, g.imag))
                z = tuple(v * scale if math.isfinite(v) else v for v in z)
                good = all(fits(resolve(r, k, origin[1]), z[k], origin, tolerance) for k, r in enumerate(right))
            if not good:
                wrong.append((name, operand, "should be", right, "of", origin, "is", g))
        assert not wrong, (len(wrong), wrong[:10])


@pytest.mark.parametrize("dtype", COMPLEXES)
def test_complex_arithmetic_by_parts(dtype):
    """Sums by parts; products and quotients of all NaN; real parts as for reals."""
    kind, part = COMPLEXES[dtype]
    a = np.array([-0.0, 0.0, -0.0, 0.0, INF, NAN], part)
    b = np.array([-0.0, -0.0, 0.0, 0.0, -INF, 1.0], part)
    z = np.empty(6, kind)
    z.real, z.imag = a, b
    w = np.empty(6, kind)
    w.real, w.imag = b, a
    total = np.asarray(tx.add(tx.asarray(z), tx.asarray(w)))
    with np.errstate(invalid="ignore"):
        assert total.real.tobytes() == (a + b).tobytes() and total.imag.tobytes() == (b + a).tobytes()
    nothing = np.array([complex(NAN, NAN)] * 3, kind)
    for name in ("multiply", "divide"):
        out = np.asarray(getattr(tx, name)(tx.asarray(nothing), tx.asarray(nothing)))
        assert np.isnan(out.real).all() and np.isnan(out.imag).all()
    back = np.asarray(tx.negative(tx.asarray(z)))
    assert np.signbit(back.real).tolist() == (~np.signbit(a)).tolist() and np.signbit(back.imag).tolist() == (~np.signbit(b)).tolist()
    assert np.signbit(np.asarray(tx.conj(tx.asarray(z))).imag).tolist() == (~np.signbit(b)).tolist()


@pytest.mark.parametrize("name", [n for n, text in cases.REAL.items() if "," in text and n not in {"nextafter", "copysign"}])
def test_with_a_python_number(name):
    """The same cases with a Python number as the second operand."""
    found = real_cases(name)
    for second in {str(o[1]): o[1] for o, _ in found}.values():
        mine = [(o, r) for o, r in found if str(o[1]) == str(second)]
        if second != second and negative(second):
            continue  # the sign of a NaN is the hardware's after arithmetic
        out = getattr(tx, name)(tx.asarray([o[0] for o, _ in mine], dtype=tx.float64), second).tolist()
        wrong = [(name, o, r, g) for (o, r), g in zip(mine, out) if not fits(r, g, o, 1e-15)]
        assert not wrong, wrong[:10]
