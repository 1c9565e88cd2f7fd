"""Writes docs/api.md: every public function with its signature, docstring and doctest.

    python tools/apidocs.py            # write
    python tools/apidocs.py --check    # exit 1 where the page is not what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import types
from pathlib import Path

import tensorx as tx

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
MODULES = {
    "tensorx": tx,
    "tensorx.linalg": tx.linalg,
    "tensorx.fft": tx.fft,
    "tensorx.random": tx.random,
    "tensorx.autograd": tx.autograd,
    "tensorx.memory": tx.memory,
}
# Families of the main namespace, by the module that a function is defined in.
FAMILIES = {
    "tensorx.ops.creation": "Creation",
    "tensorx": "Elementwise",
    "tensorx.ops.reduce": "Reductions and rows",
    "tensorx.ops.movement": "Shape and order of axes",
    "tensorx.ops.joining": "Joining and cutting",
    "tensorx.ops.indexing": "Reading by index",
    "tensorx.ops.assigning": "Writing by index",
    "tensorx.ops.sorting": "Sorting, searching, sets, running sums",
    "tensorx.ops.matmul": "Products",
    "tensorx.ops.contraction": "Products",
    "tensorx.ops.arranging": "Arranging",
    "tensorx.ops.padding": "Arranging",
    "tensorx.ops.ranking": "Ranks, quantiles, running extremes",
    "tensorx.ops.counting": "Counting",
    "tensorx.ops.numerical": "Numerical",
    "tensorx.ops.missing": "Reductions that leave NaN out",
    "tensorx.dtypes": "Data types and conversion",
    "tensorx.tensor": "Data types and conversion",
    "tensorx._core": "Data types and conversion",
    "tensorx.dlpack": "Creation",
    "tensorx.device": "Devices, evaluation, modes",
    "tensorx.evaluation": "Devices, evaluation, modes",
    "tensorx.autograd.modes": "Devices, evaluation, modes",
    "tensorx.inspection": "Devices, evaluation, modes",
    "tensorx.custom": "Ops of one's own",
    "tensorx.random": "Random numbers",
}
INTRODUCTION = """\
# Functions

Every public function with its doctest, from the docstrings (`python tools/apidocs.py` writes this page, a test runs the examples). Functions marked
with a star are those of the Python array API standard 2024.12. Most are methods of tensors, too: `tx.sum(x, axis=0)` is `x.sum(axis=0)`.
"""


def public(module):
    """(name, object) of the functions and classes of a module, errors and submodules left out."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_") or n == "__array_namespace_info__"]
    found = {}
    for name in sorted(set(names), key=lambda n: (n.lower(), n)):
        o = getattr(module, name)
        if not callable(o) or isinstance(o, types.ModuleType) or (isinstance(o, type) and issubclass(o, BaseException)):
            continue
        if not getattr(o, "__module__", "").startswith("tensorx"):
            continue
        found[name] = o
    return found


def functions():
    """(module name, name, object, aliases) of everything on the page; an object appears once in a module."""
    for module_name, module in MODULES.items():
        seen: dict[int, str] = {}
        aliases: dict[str, list[str]] = {}
        members = public(module)
        for name, o in members.items():
            own = o.__name__ if members.get(o.__name__) is o else name
            if id(o) in seen or own != name:
                aliases.setdefault(own, []).append(name)
            seen.setdefault(id(o), own)
        for name, o in members.items():
            if name in aliases.get(seen[id(o)], ()):
                continue
            yield module_name, name, o, aliases.get(name, [])


def signature(name, o):
    if isinstance(o, type) and o.__module__ == "tensorx._core":
        return name  # what a compiled class shows depends on the version of Python
    try:
        found = inspect.signature(o)
    except (TypeError, ValueError):
        return name
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<(?:function|object|class|built-in)[^>]*>", "...", text)
    text = re.sub(r"tensorx\.device\('(\w+)'\)", r"'\1'", text)
    return f"{name}{text}"


def body(o):
    """A docstring as Markdown: text, lists of parameters, and examples as code."""
    doc = inspect.getdoc(o) or ""
    doc = re.sub(r":(?:func|meth|class|mod|attr):`~?(?:tensorx\.)?([^`]+)`", r"`\1`", doc)
    doc = doc.replace("``", "`")
    out: list[str] = []
    lines = doc.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.lstrip().startswith(">>>"):
            block = []
            while i < len(lines) and lines[i].strip():
                block.append(lines[i])
                i += 1
            out += ["```python", *textwrap.dedent("\n".join(block)).split("\n"), "```"]
            continue
        if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()):
            if line.strip() != "Examples":
                out.append(f"*{line.strip()}*")
                out.append("")
            i += 2
            entry = re.compile(r"^(\S.*)$")
            listed = line.strip() in ("Parameters", "Attributes", "Raises")
            while listed and i < len(lines) and lines[i].strip():
                if entry.match(lines[i]):
                    out.append(f"- {lines[i]}")
                else:
                    out.append(f"  {lines[i].strip()}")
                i += 1
            continue
        out.append(line)
        i += 1
    return "\n".join(out).strip()


def standard_names():
    """What the standard names, from the tests' table where the repository is whole."""
    sys.path.insert(0, str(PAGE.parent.parent / "tests" / "standard"))
    try:
        import specification as spec
    finally:
        sys.path.pop(0)
    return {"tensorx": set(spec.FUNCTIONS), "tensorx.linalg": set(spec.LINALG), "tensorx.fft": set(spec.FFT)}


def page():
    standard = standard_names()
    groups: dict[str, list[str]] = {}
    contents: dict[str, list[str]] = {}
    order = [*dict.fromkeys(FAMILIES.values()), "More", *(m for m in MODULES if m != "tensorx")]
    for module_name, name, o, aliases in functions():
        group = FAMILIES.get(getattr(o, "__module__", ""), "More") if module_name == "tensorx" else module_name
        star = " \\*" if name in standard.get(module_name, ()) else ""
        prefix = "" if module_name == "tensorx" else module_name.removeprefix("tensorx.") + "."
        entry = [f"### {prefix}{name}{star}", "", f"`{signature(prefix + name, o)}`", ""]
        if aliases:
            entry += ["Also: " + ", ".join(f"`{prefix}{a}`" for a in aliases) + ".", ""]
        entry += [body(o), ""]
        groups.setdefault(group, []).extend(entry)
        contents.setdefault(group, []).append(f"`{name}`")
    out = [INTRODUCTION]
    out += ["| | |", "|---|---|"]
    out += [f"| {g} | {', '.join(contents[g])} |" for g in order if g in groups]
    out.append("")
    for g in order:
        if g in groups:
            out += [f"## {g}", "", *groups[g]]
    return "\n".join(out).rstrip() + "\n"


def main():
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print(f"{PAGE.name} is not up to date: run python tools/apidocs.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: {text.count(chr(10) + '### ')} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
