"""Writes tensorx/_core.pyi, the type stubs of the compiled module, from the built module itself.

    python tools/stubs.py            write the file
    python tools/stubs.py --check    exit 1 if it is out of date

Signatures come from the functions (compiled ones carry theirs); types from the few names below.
"""

from __future__ import annotations

import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "tensorx" / "_core.pyi"

TENSOR_RESULT = {
    "T", "mT", "alias", "detach", "copy", "clone", "copy_", "real", "imag",
}  # fmt: skip
PROPERTIES = {
    "shape": "tuple[int, ...]", "strides": "tuple[int, ...]", "ndim": "int", "size": "int", "dtype": "DType", "device": "Any",
    "itemsize": "int", "nbytes": "int", "requires_grad": "bool", "version": "int", "T": "Tensor", "mT": "Tensor", "real": "Tensor",
    "imag": "Tensor", "grad": "Tensor | None", "is_leaf": "bool",
}  # fmt: skip
SPECIAL = {
    "__bool__": "bool", "__float__": "float", "__int__": "int", "__index__": "int", "__complex__": "complex", "__len__": "int",
    "__hash__": "int", "__repr__": "str", "__str__": "str", "__iter__": "Iterator[Tensor]", "__setitem__": "None", "__format__": "str",
}  # fmt: skip
OPERATORS = [
    f"__{r}{o}__" for o in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
    for r in ("", "r", "i")
]  # fmt: skip
COMPARE = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]
UNARY = ["__neg__", "__pos__", "__abs__", "__invert__"]


def parameters(function, method):
    """A parameter list without types that is valid in a stub."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "self, *args: Any, **kwargs: Any" if method else "*args: Any, **kwargs: Any"
    parts, star, slash = [], False, False
    for p in signature.parameters.values():
        if p.kind is p.POSITIONAL_ONLY:
            slash = True
        elif slash:
            parts.append("/")
            slash = False
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        star |= p.kind is p.VAR_POSITIONAL
        name = "self" if method and not parts else p.name
        text = prefix + name
        if name != "self":
            text += ": Any"
        if p.default is not p.empty:
            text += " = ..."
        parts.append(text)
    if slash:
        parts.append("/")
    if method and (not parts or parts[0] != "self"):
        parts.insert(0, "self")
    return ", ".join(parts)


def tensor_class(cls):
    lines = ["class Tensor:"]
    from tensorx.spelling import Missing  # names that only say what has them

    names = sorted(n for n, v in vars(cls).items() if not n.startswith("__") and n not in ("_meta", "_rg") and type(v) is not Missing)
    for name in names:
        value = vars(cls)[name]
        if name in PROPERTIES:
            lines += ["    @property", f"    def {name}(self) -> {PROPERTIES[name]}: ..."]
            if name in ("requires_grad", "grad"):
                lines += [f"    @{name}.setter", f"    def {name}(self, value: Any) -> None: ..."]
        elif isinstance(value, property) or inspect.isgetsetdescriptor(value):
            lines += ["    @property", f"    def {name}(self) -> Any: ..."]
        elif callable(value):
            result = "Tensor" if name in TENSOR_RESULT or name.endswith("_") else "Any"
            lines.append(f"    def {name}({parameters(value, True)}) -> {result}: ...")
    for name in (*OPERATORS, *COMPARE):
        note = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        lines.append(f"    def {name}(self, other: Any) -> Tensor: ...{note}")
    lines += [f"    def {name}(self) -> Tensor: ..." for name in UNARY]
    lines += [f"    def {name}(self{', index: Any, value: Any' if name == '__setitem__' else ', spec: str' if name == '__format__' else ''}) -> {r}: ..."
              for name, r in SPECIAL.items()]  # fmt: skip
    lines += [
        "    def __getitem__(self, index: Any) -> Tensor: ...",
        "    def __array__(self, dtype: Any = ..., copy: Any = ...) -> Any: ...",
        "    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ..., dl_device: Any = ..., copy: Any = ...) -> Any: ...",
        "    def __dlpack_device__(self) -> tuple[int, int]: ...",
        "    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor: ...",
        "    def __buffer__(self, flags: int) -> memoryview: ...",
    ]
    return lines


def stubs():
    import tensorx
    from tensorx import _core

    lines = [
        '"""Type stubs of the compiled core. Written by tools/stubs.py; do not edit."""', "",
        "from collections.abc import Iterator", "from contextvars import ContextVar", "from typing import Any", "",
        "class DType:", "    code: int", "    name: str", "    kind: str", "    itemsize: int",
        "    @property", "    def bits(self) -> int: ...", "    @property", "    def numpy(self) -> Any: ...", "",
    ]  # fmt: skip
    lines += tensor_class(tensorx.Tensor)
    classes = {"DType", "Tensor"}
    values = []
    for name in sorted(vars(_core)):
        value = vars(_core)[name]
        if name.startswith("__") or name in classes or inspect.ismodule(value) or (callable(value) and getattr(value, "__module__", _core.__name__) != _core.__name__):
            continue
        if isinstance(value, type):
            lines += ["", f"class {name}:", "    def __getattr__(self, name: str) -> Any: ...", "    def __setattr__(self, name: str, value: Any) -> None: ..."]
        elif callable(value):
            lines += ["", f"def {name}({parameters(value, False)}) -> Any: ..."]
        else:
            values.append(name)
    lines.append("")
    for name in values:
        kind = "ContextVar[bool]" if name in ("_grad_mode", "_deferred_mode") else "Any"
        lines.append(f"{name}: {kind}")
    lines.append("")
    return "\n".join(lines)


def main():
    text = stubs()
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET.relative_to(ROOT)} is out of date: run python tools/stubs.py")
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
