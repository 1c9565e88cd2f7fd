"""Every kernel text: lint, the shared header, and no value of the host in it."""

import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from tensorx.metal import codegen, indexing, pooling, positions, products, random, reductions, rows, sorting
from tensorx.metal.codegen import INDEX, LINEAR, ONE, SCALAR, STRIDED, Instr, Operand, Program
from tensorx.ops import rowlang, table


def _lint():
    path = Path(__file__).parents[1] / "softmetal" / "msl_lint.py"
    spec = importlib.util.spec_from_file_location("msl_lint", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lint


def row_texts():
    for row, dtype in itertools.product(table.TABLE, codegen.STORAGE):
        if not codegen.supported(row.name, dtype):
            continue
        n = row.arity
        inputs = tuple(Operand("bool" if k in row.masks else dtype) for k in range(n))
        out = Operand(codegen.result_dtype(row.name, dtype))
        program = Program(inputs, (Instr(row.name, dtype, n, tuple(range(n))),), ((n, out),))
        yield f"{row.name}-{dtype}", codegen.elementwise(program)


def cast_texts():
    for source, target in itertools.product(codegen.STORAGE, repeat=2):
        program = Program((Operand(source),), (Instr("cast", source, 1, (0,), target),), ((1, Operand(target)),))
        yield f"cast-{source}-{target}", codegen.elementwise(program)


def layout_texts():
    for layout, wide in itertools.product((SCALAR, ONE, LINEAR, STRIDED, INDEX), (False, True)):
        inputs = (Operand("int64", layout), Operand("float32", STRIDED))
        program = Program(inputs, (), ((1, Operand("float32", STRIDED)),), 3)
        yield f"layout-{layout}-{wide}", codegen.elementwise(program, wide)


def reduction_texts():
    for op, dtype in itertools.product(reductions.OPS, codegen.STORAGE):
        if dtype == "complex64" and op in ("max", "min", "argmax", "argmin"):
            continue
        out = reductions.result_dtype(op, dtype)
        for columns, partial, simd, wide in ((False, False, True, False), (True, True, False, True), (False, True, False, False)):
            program = Program((Operand(dtype, STRIDED),), (), ((0, Operand("float32")),), 2)
            yield (f"{op}-{dtype}-{columns}-{partial}",
                   reductions.kernel_text(program, op, out, 1, columns, wide, partial, simd))  # fmt: skip
        yield f"{op}-{dtype}-finish", reductions.finish_text(op, dtype, out, False)


def family_texts():
    for dtype in codegen.STORAGE:
        if dtype != "bool":
            texts = products._matmul_texts(dtype, dtype, dtype, 2, True, False)
            for side, each, wide in ((16, 4, False), (8, 2, True)):
                yield f"matmul-{dtype}-{side}", products._text(texts, dtype, wide, side, each, 16, False)
            for which in "xyw":
                texts = products._conv_texts(which, dtype, dtype, dtype, dtype if dtype in codegen.FLOATS and which != "w" else "")
                yield f"conv-{which}-{dtype}", products._text(texts, dtype, False, 16, 4, 16, False)
        if dtype in codegen.FLOATS:
            yield f"matrix-{dtype}", products._text(products._matmul_texts(dtype, dtype, dtype, 1, False, True), dtype,
                                                    False, 16, 2, 16, True)  # fmt: skip
            for part, grouped in itertools.product(rows.PARTS, (False, True)):
                yield f"rows-{dtype}-{part}-{grouped}", rows._text(dtype, dtype, dtype, part, grouped)
            for kind, adaptive in itertools.product(pooling.KINDS, (False, True)):
                yield (f"pooling-{kind}-{dtype}-{adaptive}",
                       pooling._text(kind, dtype, adaptive, kind == "max" and not adaptive, adaptive))  # fmt: skip
        for which, index in itertools.product(("gather", "scatter", "accumulate"), ("int32", "int64")):
            yield f"{which}-{dtype}-{index}", indexing._text(dtype, index, which)
        for kind, option, wide in itertools.product(positions.KINDS, (False, True), (False, True)):
            indices = ("bool",) if kind == "mask_fill" else ("int64", "uint64", "int8")
            yield f"{kind}-{dtype}-{option}-{wide}", positions._text(kind, dtype, indices, wide, option, ("int32", "int64")[wide])
        if dtype != "complex64":
            for descending, wide in ((False, False), (True, True)):
                yield f"sort-{dtype}-{descending}", sorting._sort_text(dtype, descending, wide)
        for op in sorting.SCANS:
            if dtype != "complex64" or op in ("sum", "prod"):
                yield f"scan-{op}-{dtype}", sorting._scan_text(op, dtype, reductions.result_dtype(op, dtype), True)


def random_texts():
    for kind, dtype in itertools.product(("bits", "integers", "bernoulli", *random._REAL), codegen.STORAGE):
        if random.has(kind, dtype):
            yield f"{kind}-{dtype}", random._random_text(random._kind(kind, dtype, False), 0, False)
    for wide in (False, True):
        yield f"wide integers, strided, {wide}", random._random_text(random._kind("integers", "int64", True), 3, wide)


GROUPS = {"rows": row_texts, "casts": cast_texts, "layouts": layout_texts, "reductions": reduction_texts,
          "families": family_texts, "random": random_texts}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_lint(group):
    lint = _lint()
    seen, complaints = set(), []
    for name, text in GROUPS[group]():
        head, mark, body = text.partition("kernel void")
        if head not in seen:  # a prelude is checked once
            seen.add(head)
            complaints += [f"{name}: {line}" for line in lint(text)]
        else:
            complaints += [f"{name}: {line}" for line in lint(codegen.HEADER + mark + body)]
    assert complaints == [], "\n".join(complaints[:20])


@pytest.mark.parametrize("group", GROUPS)
def test_every_text_has_the_header_first(group):
    for name, text in GROUPS[group]():
        assert text.startswith(codegen.HEADER), name
        assert text.count("#include") == 1, name
        assert "fast::" not in text and "double" not in re.sub(r"//.*", "", text), name


def test_the_header_says_safe_math_and_no_contraction():
    assert "#pragma METAL fp contract(off)" in codegen.HEADER
    assert "#pragma METAL fp math_mode(safe)" in codegen.HEADER


def test_every_function_of_the_row_language_has_a_metal_form():
    """As an overload in the prelude; operators on truth values are written as such."""
    defined = set()
    for part in ("base", "exp", "trig", "special", "complex"):
        defined |= set(re.findall(r"^inline \w+ ([A-Z][A-Z0-9]*)\(", codegen.template("prelude_" + part), re.M))
    defined |= set(re.findall(r"^inline \S+ ([A-Z][A-Z0-9]*)\(", codegen.integer_prelude("int32"), re.M))
    missing = set(rowlang.PRELUDE) - defined
    assert missing == {"WHERE", "COMPLEX", "POLYGAMMA"}  # an operator, a constructor, and one for the CPU
    assert {"polygamma"} == codegen.NO_KERNEL


def test_rows_without_a_kernel_are_few_and_named():
    without = {
        row.name for row in table.TABLE
        if not any(codegen.supported(row.name, dtype) for dtype in codegen.STORAGE)
    }  # fmt: skip
    assert without == codegen.NO_KERNEL


def test_sums_and_products_are_statements_of_their_own():
    lines = codegen.statements("addcmul", "float32", ["a", "b", "c", "d"], "r")
    assert len(lines) == 4
    for line in lines:
        assert len(re.findall(r" [-+*/] ", line)) <= 1, line


def test_texts_hold_no_unfilled_name():
    for make in GROUPS.values():
        for name, text in make():
            assert "$" not in text and "@" not in text, name


def test_only_the_preludes_that_are_needed_are_included():
    add = dict(row_texts())["add-float32"]
    assert "two_sum" not in add and "trig_reduce" not in add and len(add) < 8000
    assert "trig_reduce" in dict(row_texts())["sin-float32"]
    assert "erfc_right" in dict(row_texts())["gelu-float32"]
