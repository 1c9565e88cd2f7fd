"""What follows from a row of the op table.

* ``generate(outdir)``: the C kernels of all dtypes (setup.py compiles them once
  per instruction set)
* ``saved(row, wanted)`` and ``backward_source(row, wanted)``: what autograd keeps
  and how it computes gradients
* ``docstring(row)``, ``signature(row)``, ``methods(row)``, ``operators(row)``: the
  Python surface
* ``test_case(row, dtype)``: operands and reference of the derived tests

Standard library only; setup.py loads this file by path.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

if __package__:
    from . import rowlang
else:  # loaded by path, before tensorx is built
    _spec = importlib.util.spec_from_file_location(
        "_tensorx_rowlang", os.path.join(os.path.dirname(os.path.abspath(__file__)), "rowlang.py")
    )
    assert _spec is not None and _spec.loader is not None
    rowlang = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = rowlang
    _spec.loader.exec_module(rowlang)

table = rowlang.table
Op = rowlang.Op
REQUIRED = rowlang.table.REQUIRED
DType = rowlang.DType
DTYPES = rowlang.DTYPES
KERNEL_DTYPES = rowlang.KERNEL_DTYPES
PRELUDE = rowlang.PRELUDE
CONSTANTS = rowlang.CONSTANTS
parse, names, calls = rowlang.parse, rowlang.names, rowlang.calls
forward, full_forward, gradients = rowlang.forward, rowlang.full_forward, rowlang.gradients
result_suffix = rowlang.result_suffix
cases, c_expression = rowlang.cases, rowlang.c_expression


# ---------------------------------------------------------------------------
# C kernels
# ---------------------------------------------------------------------------

# One translation unit per group, so that a build can use all cores.
GROUPS: dict[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float64": ("float64",),
    "complex": ("complex64", "complex128"),
    "narrow": ("bool", "int8", "uint8", "int16", "uint16"),
    "wide": ("int32", "uint32", "int64", "uint64"),
}

# Hand-written families, each compiled as a unit of its own: header and the statement that enters it.
FAMILIES: dict[str, tuple[str, str]] = {
    "casts": ("cast_kernels.h", "tx_fill_casts(k)"),
    "moves": ("move_kernels.h", "tx_fill_moves(k)"),
    "reductions": ("reduce_kernels.h", "tx_fill_reductions(k)"),
    "rows": ("row_kernels.h", "tx_fill_rows(k)"),
    "gemm": ("gemm_kernels.h", "k->gemm = tx_gemm_table()"),
}

_SIGN_FREE = (ast.Add, ast.Sub, ast.Mult, ast.USub, ast.Eq, ast.NotEq)
_SIGN_FREE_CALLS = set(
    "BITAND BITOR BITXOR BITNOT WHERE AND OR XOR NOT CONJ REAL IMAG CEIL FLOOR TRUNC RINT ISNAN ISINF ISFINITE".split()
)


def has_kernel(row: Op, dtype: DType) -> bool:
    """Whether a row has a kernel for operands of this dtype."""
    return dtype.kind in row.kinds and dtype.name not in ("float16", "bfloat16")


def _twin(row: Op, dtype: DType) -> DType | None:
    """The unsigned dtype whose kernel gives the same bits, if the expression does not look at the sign."""
    if dtype.kind != "i" or "u" not in row.kinds or row.cases:
        return None
    operations = [n for n in ast.walk(parse(row.forward)) if isinstance(n, (ast.operator, ast.unaryop, ast.cmpop))]
    if not all(isinstance(node, _SIGN_FREE) for node in operations) or calls(row.forward) - _SIGN_FREE_CALLS:
        return None
    return DTYPES["u" + dtype.name]


def is_cheap(row: Op, dtype: DType) -> bool:
    """Whether the loop costs little enough per element for scalars to be worth their own loops."""
    return dtype.kind != "c" and all(PRELUDE[name].cheap for name in calls(forward(row, dtype)))


def scalar_masks(row: Op, dtype: DType) -> list[int]:
    """Scalar masks with a loop of their own; others broadcast through a small buffer."""
    if row.arity == 1 or not is_cheap(row, dtype):
        return []
    if row.cases:
        return []
    if row.arity == 2:
        return [2] if row.params else [2, 1]
    if row.masks:
        return [2, 4, 6]
    params = sum(1 << k for k in range(len(row.args), row.arity))
    return [params] if params else []


def _loop(row: Op, dtype: DType, mask: int, text: str) -> str:
    """One loop; operands in mask are read once."""
    locals_ = ("X", "Y", "Z", "W")
    used = names(text)
    head, body = [], []
    for k, name in enumerate(row.operands):
        if name not in used:
            continue
        ctype = "uint8_t" if k in row.masks else dtype.c
        if mask >> k & 1:
            head.append(f"const {ctype} {locals_[k]} = *(const {ctype} *)src[{k}];")
        else:
            head.append(f"const {ctype} *{name} = src[{k}];")
            # part by part: clang moves a whole pair as one integer, which ends vectorisation
            value = f"tx_make_{dtype.suffix}({name}[i].re, {name}[i].im)" if "tx_" in ctype else f"{name}[i]"
            body.append(f"const {ctype} {locals_[k]} = {value};")
    expression = c_expression(row, dtype, locals_, text)
    suffix = result_suffix(row, dtype)
    out = rowlang.C_OF[suffix]
    if suffix == "b8":
        expression = f"{expression} != 0"
    store = f"d[i] = ({out})({expression});"
    if suffix in ("c64", "c128"):
        store = f"const {out} R = {expression}; d[i].re = R.re; d[i].im = R.im;"
    return (
        f"{{ {out} *d = dst; {' '.join(head)}\n"
        f"      TX_LOOP for (ptrdiff_t i = 0; i < n; i++) {{ {' '.join(body)} {store} }} return; }}"
    )


def _block_function(row: Op, dtype: DType) -> list[str]:
    """Lines that hand runs to a block function, if the whole forward is one call that has one."""
    tree: Any = parse(forward(row, dtype))
    if dtype.kind != "f" or not isinstance(tree, ast.Call) or row.cases:
        return []
    name = ast.unparse(tree.func)
    if PRELUDE[name].cheap or ast.unparse(tree) != f"{name}({', '.join(row.operands)})":
        return []
    if row.arity == 1:
        vector = name.lower() + ("f" if dtype.suffix == "f32" else "")
        flag, call = f"TX_HAVE_V_{vector}", f"if (mask == 0) {{ tx_v{vector}(dst, src[0], n); return; }}"
    else:
        block = f"{name}_{dtype.suffix}"
        flag, call = f"TX_HAVE_B_{block}", f"if (mask < 3) {{ tx_b{block}(dst, src, n, mask); return; }}"
    return [f"#ifdef {flag}", f"    {call}", "#endif"]


def _case_loops(row: Op, dtype: DType) -> list[str]:
    """The switch cases of a row with shortcuts, all of which give the bits of ``full_forward``.

    A scalar that equals a case's number has the shortcut's loop.  Otherwise forward is computed into a
    buffer and the shortcuts are selected over it: as one nest of conditions it would not vectorise.
    """
    lines, locals_ = [], ("X", "Y", "Z", "W")
    for operand in sorted({operand for operand, _, _ in cases(row, dtype)}):
        k = row.operands.index(operand)
        lines.append(f"    case {1 << k}:")
        for name, value, shortcut in cases(row, dtype):
            if name == operand:
                lines.append(f"      if (*(const {dtype.c} *)src[{k}] == {value})")
                lines.append(f"      {_loop(row, dtype, 1 << k, shortcut)}")
        lines.append("      break;")
    loads = " ".join(f"const {dtype.c} {locals_[k]} = {name}[i + j];" for k, name in enumerate(row.operands))
    selects = []
    for number, (_, _, shortcut) in enumerate(cases(row, dtype)):
        selects.append(f"const {dtype.c} c{number} = ({dtype.c})({c_expression(row, dtype, locals_, shortcut)});")
    for number, (operand, value, _) in enumerate(cases(row, dtype)):
        selects.append(f"R = {locals_[row.operands.index(operand)]} == ({dtype.c}){value} ? c{number} : R;")
    return [
        *lines,
        f"    case 0: {{ {dtype.c} *d = dst; {dtype.c} buffer[TX_EXPAND];",
        *(f"      const {dtype.c} *{name} = src[{k}];" for k, name in enumerate(row.operands)),
        "      for (ptrdiff_t i = 0; i < n; i += TX_EXPAND) {",
        "        ptrdiff_t m = n - i < TX_EXPAND ? n - i : TX_EXPAND;",
        f"        TX_LOOP for (ptrdiff_t j = 0; j < m; j++) {{ {loads} buffer[j] = {c_expression(row, dtype, locals_)}; }}",
        f"        TX_LOOP for (ptrdiff_t j = 0; j < m; j++) {{ {loads} {dtype.c} R = buffer[j];",
        *(f"          {line}" for line in selects),
        "          d[i + j] = R; }",
        "      } return; }",
    ]


def _kernel(row: Op, dtype: DType) -> str:
    name = f"k_{row.name}_{dtype.suffix}"
    lines = [f"static void {name}(void *dst, const void *const *src, ptrdiff_t n, unsigned mask)", "{"]
    full = full_forward(row, dtype)
    lines += _block_function(row, dtype)
    lines.append("    switch (mask) {")
    if cases(row, dtype):
        lines += _case_loops(row, dtype)
    else:
        lines.append(f"    case 0: {_loop(row, dtype, 0, full)}")
    for mask in scalar_masks(row, dtype):
        lines.append(f"    case {mask}: {_loop(row, dtype, mask, full)}")
    sizes = ", ".join("1" if k in row.masks else f"sizeof({dtype.c})" for k in range(row.arity))
    lines += [
        "    default: break;",
        "    }",
        f"    static const unsigned char size[] = {{{sizes}}};",
        f"    tx_expand({name}, dst, src, n, mask, {row.arity}, size, sizeof({rowlang.C_OF[result_suffix(row, dtype)]}));",
        "}",
    ]
    return "\n".join(lines)


_BANNER = "/* Made by tensorx/ops/codegen.py from the op table. */\n"

_UNIT_HEAD = """\
#include "tx_units.h"
#if !TX_ABSENT
#include "prelude.h"

/* Scalars without a loop of their own: copied into a small buffer, which is read in place of them. */
#define TX_EXPAND 128
static __attribute__((noinline, unused)) void tx_expand(tx_ew_fn f, void *dst, const void *const *src, ptrdiff_t n,
    unsigned mask, int arity, const unsigned char *size, size_t out_size)
{
    _Alignas(64) char buffer[TX_MAX_OPERANDS][TX_EXPAND * 16];
    const void *p[TX_MAX_OPERANDS];
    ptrdiff_t count = n < TX_EXPAND ? n : TX_EXPAND;
    for (int k = 0; k < arity; k++) {
        p[k] = src[k];
        if (mask >> k & 1 && n > 0) {
            for (ptrdiff_t i = 0; i < count; i++) memcpy(buffer[k] + i * size[k], src[k], size[k]);
            p[k] = buffer[k];
        }
    }
    for (ptrdiff_t i = 0; i < n; i += count) {
        ptrdiff_t m = n - i < count ? n - i : count;
        f((char *)dst + i * (ptrdiff_t)out_size, p, m, 0);
        for (int k = 0; k < arity; k++)
            if (!(mask >> k & 1)) p[k] = (const char *)p[k] + m * size[k];
    }
}
"""

_UNITS_HEADER = """\
#ifndef TX_UNITS_H
#define TX_UNITS_H
#include "kernel_abi.h"

#define TX_NOPS {nops}
#define TX_TABLE_HASH {hash:#018x}ull

/* Several instruction sets may live in one process: every name that the linker sees carries the module's. */
#define TX_JOIN2(a, b) a##b
#define TX_JOIN(a, b) TX_JOIN2(a, b)
#define TX_OWN(name) TX_JOIN(name, TX_MODULE_NAME)

/* dst may equal a source exactly, so iterations never depend on each other. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops over gcd or cacos stay scalar */
#define TX_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TX_LOOP _Pragma("GCC ivdep")
#endif

/* On macOS every module is compiled for every slice; a slice without the instructions of its
 * module stays empty. */
#define TX_IS__kernels_avx2 2
#define TX_IS__kernels_avx512 3
#define TX_LEVEL TX_JOIN(TX_IS_, TX_MODULE_NAME)
#if (TX_LEVEL == 2 && !defined(__AVX2__)) || (TX_LEVEL == 3 && !defined(__AVX512F__))
#define TX_ABSENT 1
#else
#define TX_ABSENT 0
#endif

{declarations}
#define TX_FILL_UNITS(k, ew) do {{ {calls} }} while (0)
#endif
"""


def generate_unit(group: str) -> str:
    """C text of one group of dtypes: its kernels and the function that enters them in the table."""
    parts, entries = [_BANNER, _UNIT_HEAD], []
    for dtype_name in GROUPS[group]:
        dtype = DTYPES[dtype_name]
        for number, row in enumerate(table.TABLE):
            if not has_kernel(row, dtype):
                continue
            twin = _twin(row, dtype)
            if twin is None:
                parts.append(_kernel(row, dtype))
            entries.append(f"    ew[{number} * TX_NDT + {dtype.code}] = k_{row.name}_{(twin or dtype).suffix};")
    parts += [f"void TX_OWN(tx_fill_{group})(tx_ew_fn *ew)", "{", *entries, "}", "#endif", ""]
    return "\n".join(parts)


def generate_family(family: str) -> str:
    """C text of a hand-written family's unit."""
    header, statement = FAMILIES[family]
    return "\n".join([
        _BANNER + '#include "tx_units.h"',
        "#if !TX_ABSENT",
        f'#include "{header}"',
        f"void TX_OWN(tx_unit_{family})(tx_kernels *k)",
        "{",
        f"    {statement};",
        "}",
        "#endif",
        "",
    ])


def _write(path: str, text: str) -> None:
    """Leave an unchanged file alone, so that nothing is compiled again for it."""
    try:
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    except OSError:
        pass
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def generate(outdir: str) -> list[str]:
    """Write the kernels' C files and their header to outdir; returns the paths of the sources to compile.

    Compile each once per instruction set with -DTX_MODULE_NAME=_kernels_<isa>,
    with tensorx/_native and outdir on the include path, beside kernels.c.
    """
    os.makedirs(outdir, exist_ok=True)
    declarations = [f"void TX_OWN(tx_fill_{group})(tx_ew_fn *ew);" for group in GROUPS]
    declarations += [f"void TX_OWN(tx_unit_{family})(tx_kernels *k);" for family in FAMILIES]
    fills = [f"TX_OWN(tx_fill_{group})(ew);" for group in GROUPS]
    fills += [f"TX_OWN(tx_unit_{family})(k);" for family in FAMILIES]
    header = _UNITS_HEADER.format(
        nops=len(table.TABLE), hash=table.HASH, declarations="\n".join(declarations), calls=" ".join(fills)
    )
    _write(os.path.join(outdir, "tx_units.h"), _BANNER + header)
    units = {group: generate_unit(group) for group in GROUPS}
    units.update({family: generate_family(family) for family in FAMILIES})
    sources = []
    for name, text in units.items():
        path = os.path.join(outdir, f"tx_{name}.c")
        _write(path, text)
        sources.append(path)
    return sources


# ---------------------------------------------------------------------------
# Autograd
# ---------------------------------------------------------------------------


def saved(row: Op, wanted: tuple[int, ...], is_complex: bool = False) -> tuple[str, ...]:
    """Which of the operands and ``out`` the gradients of the wanted operand positions read."""
    texts = [gradients(row, is_complex)[k] for k in wanted]
    used = set().union(*(names(text) for text in texts if text is not None)) if texts else set()
    return tuple(name for name in (*row.operands, "out") if name in used)


def differentiable(row: Op) -> tuple[int, ...]:
    """Operand positions that have a gradient, zero everywhere included."""
    return tuple(k for k, text in enumerate(row.grads) if text is not None)


def backward_source(row: Op, wanted: tuple[int, ...], is_complex: bool = False) -> str:
    """Python text of ``backward(g, <saved...>)``, which returns the wanted gradients as a tuple.

    Subexpressions that occur more than once are computed once.  A gradient that is zero
    everywhere is None in the tuple.  Run it in a namespace made by ``prelude_namespace``.
    """
    trees = []
    for k in wanted:
        text = gradients(row, is_complex)[k]
        if text is None:
            raise ValueError(f"{row.name}: no gradient for operand {row.operands[k]}")
        trees.append(None if text == "0" else parse(text))
    counts: dict[str, int] = {}

    def count(node: Any) -> None:
        if isinstance(node, (ast.Name, ast.Constant)):
            return
        key = ast.dump(node)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 1:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr) and child is not getattr(node, "func", None):
                    count(child)

    for tree in trees:
        if tree is not None:
            count(tree)
    lines: list[str] = []
    temporaries: dict[str, str] = {}

    def text_of(node: Any) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Constant):
            return repr(node.value)
        key = ast.dump(node)
        if key in temporaries:
            return temporaries[key]
        if isinstance(node, ast.UnaryOp):
            text = f"-{text_of(node.operand)}"
            if isinstance(node.operand, ast.Constant):
                return f"({text})"
        elif isinstance(node, ast.BinOp):
            text = f"{text_of(node.left)} {rowlang.BINARY[type(node.op)]} {text_of(node.right)}"
        elif isinstance(node, ast.Compare):
            symbol = rowlang.COMPARE[type(node.ops[0])]
            text = f"{text_of(node.left)} {symbol} {text_of(node.comparators[0])}"
        else:
            text = f"{node.func.id}({', '.join(text_of(arg) for arg in node.args)})"
        if counts[key] > 1:
            name = f"t{len(temporaries)}"
            lines.append(f"    {name} = {text}")
            temporaries[key] = name
            return name
        return text if isinstance(node, ast.Call) else f"({text})"

    results = ["None" if tree is None else text_of(tree) for tree in trees]
    head = f"def backward({', '.join(('g', *saved(row, wanted, is_complex)))}):"
    return "\n".join([head, *lines, f"    return ({', '.join(results)},)", ""])


def prelude_namespace(lookup: Callable[[str], Any]) -> dict[str, Any]:
    """Globals for ``backward_source``: every prelude name bound to ``lookup(row name)``."""
    return {**CONSTANTS, **{name: lookup(function.row) for name, function in PRELUDE.items()}}


# ---------------------------------------------------------------------------
# The Python surface
# ---------------------------------------------------------------------------

_REFLECTED = {
    "__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__",
    "__and__", "__or__", "__xor__", "__lshift__", "__rshift__",
}  # fmt: skip


def operators(row: Op) -> list[tuple[str, str]]:
    """(special method, form) of Tensor: form is plain, reflected (operands swapped) or inplace."""
    found = []
    for name in row.operators:
        found.append((name, "plain"))
        if name in _REFLECTED:
            found.append((f"__r{name[2:]}", "reflected"))
            found.append((f"__i{name[2:]}", "inplace"))
    return found


def methods(row: Op) -> list[str]:
    """Names of the Tensor methods of a row, its aliases and in-place forms included."""
    if not row.public or row.name == "complex":
        return []
    spellings = (row.name, *row.aliases)
    return [*spellings, *(f"{name}_" for name in spellings if row.has_inplace)]


def functions(row: Op) -> list[str]:
    """Names of the namespace functions of a row."""
    return [row.name, *row.aliases] if row.public else []


def signature(row: Op, method: bool = False) -> str:
    """Parameter list, for example ``(x, /, negative_slope=0.01)``; a method has no first operand."""
    parts = list(row.args[1:] if method else row.args)
    if parts:
        parts.append("/")
    parts += [name if default is REQUIRED else f"{name}={default!r}" for name, default in row.params]
    return f"({', '.join(parts)})"


_KIND_WORDS = {"b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "real floating-point", "c": "complex"}


def docstring(row: Op, spelling: str = "") -> str:
    """Docstring of the namespace function, its in-place method included."""
    kinds = [_KIND_WORDS[kind] for kind in row.kinds]
    accepted = ", ".join(kinds)
    if row.promote == "float" and "i" not in row.kinds:
        accepted += "; bool and integers are converted to float32 first"
    result = {
        "same": "the dtype of the operands after promotion",
        "bool": "bool",
        "real": "the dtype of the operand, for complex numbers that of their parts",
        "complex": "the complex dtype of the same precision",
    }[row.out]
    lines = [row.doc, "", "Parameters", "----------"]
    tensors = [name for k, name in enumerate(row.args) if k not in row.masks]
    lines += [f"{name} : Tensor of bool" for k, name in enumerate(row.args) if k in row.masks]
    if len(tensors) == 1:
        lines.append(f"{tensors[0]} : Tensor")
    else:
        lines += [f"{', '.join(tensors)} : Tensor or number", "    Shapes are broadcast; at least one is a Tensor."]
    lines.append(f"    Dtypes: {accepted}.")
    for name, default in row.params:
        text = f"{name} : number or Tensor"
        if default is not REQUIRED:
            text += f", default {default}"
        lines.append(text)
    lines += ["", "Returns", "-------", "Tensor", f"    The broadcast shape, and {result}.", ""]
    lines += ["Raises", "------", "DTypeError", "    An operand of another dtype, or operands whose dtypes do not mix."]
    if row.arity > 1:
        lines += ["ShapeError", "    Shapes that cannot be broadcast.", "DeviceMismatchError", "    Operands on several devices."]
    if row.example:
        arguments, _, value = row.example.partition(" -> ")
        arguments = arguments.replace("inf", "tx.inf").replace("nan", "tx.nan")
        parts = [f"tx.asarray({a})" if a.startswith("[") else a for a in arguments.split("; ")]
        lines += ["", "Examples", "--------", f">>> tx.{spelling or row.name}({', '.join(parts)}).tolist()", value]
    return "\n".join(lines)


# ---------------------------------------------------------------------------
# Tests
# ---------------------------------------------------------------------------


class TestCase(NamedTuple):
    """operands: NumPy arrays; expected: the reference's result; tolerance: allowed absolute error, per element."""

    operands: list[Any]
    expected: Any
    tolerance: Any


def reference(row: Op, operands: list[Any]) -> Any:
    """The NumPy reference of a row, evaluated on arrays."""
    import math
    from statistics import NormalDist

    import numpy as np

    scope = {"np": np, "math": math, "NormalDist": NormalDist, **dict(zip(row.operands, operands))}
    text = row.reference
    if row.complex_reference and np.iscomplexobj(operands[-1]):
        text = row.complex_reference
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, scope))


def _intervals(entry: Any) -> list[tuple[float, float]]:
    return [entry] if not isinstance(entry[0], tuple) else list(entry)


def samples(row: Op, dtype: str, n: int, seed: int = 0) -> list[Any]:
    """n test values per operand: inside the domain and off the kinks for real and complex
    dtypes; small, large and extreme ones for integers."""
    import numpy as np

    rng = np.random.default_rng([seed, *row.name.encode()])
    kind = DTYPES[dtype].kind
    count, chosen = 0, []
    while count < n:
        drawn = []
        for k in range(row.arity):
            if k in row.masks or kind == "b":
                drawn.append(rng.integers(0, 2, n).astype(bool))
                continue
            if kind in "iu":
                info = np.iinfo(dtype)
                pools = [
                    rng.integers(max(info.min, -9), 10, n),
                    rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True),
                    rng.choice(np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1], dtype), n),
                ]
                pick = rng.integers(0, 8, n)
                values = np.where(pick < 5, pools[0].astype(dtype), np.where(pick < 7, pools[1], pools[2]))
                drawn.append(values.astype(dtype))
                continue
            spans = _intervals(row.domain[k])
            which = rng.integers(0, len(spans), n)
            low, high = np.array([s[0] for s in spans], float)[which], np.array([s[1] for s in spans], float)[which]
            values = low + (high - low) * rng.random(n)
            if kind == "c":
                values = values + 1j * (rng.random(n) * 2 - 1)
            drawn.append(values.astype(dtype))
        keep = np.ones(n, bool)
        if kind in "fc":
            scope = {"np": np, **dict(zip(row.operands, (d.astype(np.complex128 if kind == "c" else float) for d in drawn)))}
            for text in row.kinks:
                keep &= np.abs(eval(text, scope)) > 0.02
        chosen.append([d[keep] for d in drawn])
        count += int(keep.sum())
    return [np.concatenate([part[k] for part in chosen])[:n] for k in range(row.arity)]


def test_case(row: Op, dtype: str = "float32", n: int = 257, seed: int = 0) -> TestCase:
    """Operands from the row's domain with the reference's result and its tolerance."""
    import numpy as np

    operands = samples(row, dtype, n, seed)
    kind = DTYPES[dtype].kind
    if kind in "biu" or (row.ulp == 0 and kind == "f") or row.out == "bool":
        expected = reference(row, operands)
        return TestCase(operands, expected, np.zeros(np.shape(expected)))
    wide = [o if o.dtype == bool else o.astype(np.complex128 if kind == "c" else np.float64) for o in operands]
    expected = reference(row, wide)
    ulp = row.ulp if kind == "f" else max(row.ulp, 4)
    if dtype in ("float64", "complex128"):
        ulp += 4  # the reference has errors of its own
    eps = np.finfo(dtype).eps
    return TestCase(operands, expected, ulp * eps * np.maximum(np.abs(expected), row.scale))
