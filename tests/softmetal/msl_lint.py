"""Lint for MSL texts: what Apple's compiler refuses, or this project forbids.

>>> lint('kernel void k(device float* o) { double x = 1; }')
['1: the pragma "METAL fp math_mode(safe)" is missing', '1: the pragma "METAL fp contract(off)" is missing', '1: <metal_stdlib> is not included', "1: 'double' is not available in Metal"]

It reads tokens, so it needs no compiler and runs anywhere.  What only a compiler
can see (types, overloads) is left to the stand-in, whose knob ``strict`` also
looks for generic pointers and recursion in what clang understood.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_BUFFERS = 31
SPACES = {"device", "constant", "threadgroup", "thread"}
# C++17 and later, C++ that Metal leaves out, and other dialects.
BANNED = {
    "asm", "catch", "char16_t", "char32_t", "co_await", "co_return", "co_yield", "concept", "delete",
    "double", "dynamic_cast", "export", "goto", "new", "noexcept", "register", "requires", "thread_local",
    "throw", "try", "typeid", "virtual", "wchar_t",
}  # fmt: skip
# Words that MSL keeps for itself: not names of variables or functions.
RESERVED = {
    "constant", "device", "fragment", "half", "kernel", "sampler", "thread", "threadgroup", "vertex",
    "visible", "texture1d", "texture2d", "texture3d", "bfloat", "mesh", "intersection",
}  # fmt: skip
SCALARS = {
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "size_t",
    "ptrdiff_t", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
}  # fmt: skip
TYPES = SCALARS | {s + n for s in SCALARS for n in "234"} | {f"packed_{s}{n}" for s in SCALARS for n in "234"}
TYPES |= {"atomic_int", "atomic_uint", "atomic_float"}
# In the C library or newer versions of Metal, but not in MSL 3.0.
ABSENT = {
    "erf", "erfc", "expm1", "log1p", "lgamma", "tgamma", "cbrt", "hypot", "printf", "memcpy", "memset",
    "atomic_thread_fence", "nextafter",
}  # fmt: skip
KEYWORDS = {
    "return", "if", "else", "for", "while", "do", "switch", "case", "sizeof", "alignof", "static_assert",
    "template", "typename", "using", "namespace", "operator", "struct", "class", "enum", "union", "const",
    "constexpr", "static", "inline", "decltype", "typedef", "public", "private", "friend", "explicit",
    "static_cast", "reinterpret_cast", "const_cast", "volatile", "default", "break", "continue", "void",
    "auto", "true", "false", "this", "mutable", "signed", "unsigned", "as_type",
} | SPACES  # fmt: skip
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<op>::|->|\[\[|\]\]|&&|\|\||<<|[-+*/%&|^=!<>]=|\+\+|--|\.\.\.|.)""",
    re.X | re.S,
)


class Token(NamedTuple):
    kind: str
    text: str
    line: int


def tokenize(source: str) -> list[Token]:
    """Tokens without space and comments; a directive is one token."""
    tokens, line, at, fresh = [], 1, 0, True
    while at < len(source):
        if fresh and source[at] == "#":
            end = at
            while end < len(source) and (source[end] != "\n" or source[end - 1] == "\\"):
                end += 1
            tokens.append(Token("directive", source[at:end], line))
            line += source.count("\n", at, end)
            at = end
            continue
        match = TOKEN.match(source, at)
        kind, text = match.lastgroup, match.group()
        if text == "]]" and not _in_attribute(tokens):
            text = "]"  # a[b[i]]
        if kind == "space":
            fresh = fresh or "\n" in text
        else:
            fresh = False
            tokens.append(Token(kind, text, line))
        line += text.count("\n")
        at += len(text)
    return tokens


def _in_attribute(tokens: list[Token]) -> bool:
    for token in reversed(tokens):
        if token.text in ("[[", "]]"):
            return token.text == "[["
    return False


class _Text:
    """A token list with the few movements that the checks need."""

    def __init__(self, source: str) -> None:
        everything = tokenize(source)
        self.directives = [t for t in everything if t.kind == "directive"]
        self.tokens = [t for t in everything if t.kind != "directive"]

    def at(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def partner(self, i: int) -> int:
        """Index of the token that closes the bracket at ``i`` (len when there is none)."""
        opening = self.at(i)
        closing = {"(": ")", "{": "}", "[": "]", "<": ">", "[[": "]]"}[opening]
        depth = 0
        while i < len(self.tokens):
            text = self.at(i)
            if opening == "<" and text in "([{" and depth:
                i = self.partner(i)
            elif opening == "<" and text in (";", ")"):
                break
            elif text == opening:
                depth += 1
            elif text == closing:
                depth -= 1
                if not depth:
                    return i
            i += 1
        return len(self.tokens)

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """Ranges between the commas of a parameter list, brackets skipped."""
        parts, first, i = [], start, start
        while i < end:
            if self.at(i) in ("(", "[", "{", "[[") or (self.at(i) == "<" and self.partner(i) < end):
                i = self.partner(i)
            elif self.at(i) == ",":
                parts.append((first, i))
                first = i + 1
            i += 1
        return [*parts, (first, end)] if first < end else parts


class _Function(NamedTuple):
    name: str
    arity: int  # parameters
    required: int  # of them without a default
    parameters: tuple[int, int]
    body: tuple[int, int]
    kernel: bool
    line: int


def _functions(text: _Text) -> list[_Function]:
    found, i = [], 0
    while i < len(text.tokens):
        if text.at(i) != "(" or i == 0 or text.tokens[i - 1].kind != "name":
            i += 1
            continue
        name, close = text.tokens[i - 1], text.partner(i)
        j = close + 1
        while text.at(j) in ("const", "[[") or text.at(j) in SPACES:
            j = text.partner(j) + 1 if text.at(j) == "[[" else j + 1
        before = text.tokens[i - 2] if i > 1 else None
        declared = before is not None and (
            (before.kind == "name" and before.text not in ("return", "else", "new", "using"))
            or before.text in (">", "*", "&", "]]", "::")
        )
        if text.at(j) != "{" or name.text in KEYWORDS or not declared:
            i += 1
            continue
        start = i
        while start > 0 and text.at(start - 1) not in (";", "}", "{"):
            start -= 1
        head = [t.text for t in text.tokens[start:i]]
        parts = text.split(i + 1, close)
        required = sum("=" not in [t.text for t in text.tokens[a:b]] for a, b in parts)
        found.append(
            _Function(name.text, len(parts), required, (i + 1, close), (j + 1, text.partner(j)),
                      "kernel" in head, name.line)
        )  # fmt: skip
        i = j + 1
    return found


def _tokens(text: _Text, problem) -> None:
    for i, token in enumerate(text.tokens):
        word, line, after, before = token.text, token.line, text.at(i + 1), text.at(i - 1)
        if token.kind == "name":
            if word in BANNED:
                problem(line, f"'{word}' is not available in Metal")
            elif word == "long" and after in ("long", "double"):
                problem(line, f"'long {after}' is not available in Metal")
            elif word == "constexpr" and before == "if":
                problem(line, "'if constexpr' needs C++17")
            elif word == "auto" and after in ("[", "&") and "[" in (after, text.at(i + 2)):
                problem(line, "structured bindings need C++17")
            elif word in ABSENT and after == "(" and before not in (".", "->") and before not in TYPES:
                problem(line, f"'{word}' does not exist in MSL 3.0")
            elif word in RESERVED and before in TYPES and after in ("=", ";", ",", ")", "[", "("):
                problem(line, f"'{word}' is a reserved word of Metal")
            elif word.startswith("__") and not word.startswith(("__METAL", "__attribute__")):
                problem(line, f"'{word}': names with two underscores are reserved")
            elif word == "namespace" and text.at(i + 2) == "::":
                problem(line, "nested namespace definitions need C++17")
        elif token.kind == "number":
            lower = word.lower()
            hexadecimal = lower.startswith("0x")
            if "ll" in lower:
                problem(line, "'long long' is not available in Metal")
            elif lower.endswith("l") and not hexadecimal and ("." in lower or "e" in lower):
                problem(line, "'long double' is not available in Metal")
        elif word == "[" and before in ("=", "(", ",", "return", "{", ";", "}"):
            problem(line, "lambdas are not available in Metal")
        elif word == "..." and before not in ("typename", "class", ")", "args", ",") and after == ")":
            if text.at(i - 2) in ("+", "*", "&&", "||", "&", "|", ",") or before in ("+", "*", "&&", "||"):
                problem(line, "fold expressions need C++17")
        elif token.kind == "string" and word[0] == '"' and before not in ("(", ","):
            problem(line, "string literals are not available in Metal")


def _pointers(text: _Text, functions: list[_Function], problem) -> None:
    """Pointers and references need an address space: parameters, and declarations of known types."""
    for f in functions:
        for a, b in text.split(*f.parameters):
            words = [t.text for t in text.tokens[a:b]]
            if "[[" in words:
                words = words[: words.index("[[")]
            depth, plain = 0, []
            for w in words:
                depth += (w == "<") - (w == ">")
                if not depth:
                    plain.append(w)
            if ("*" in plain or "&" in plain) and not SPACES & set(words):
                problem(f.line, f"a parameter of '{f.name}' is a pointer or reference without an "
                        f"address space: {' '.join(words)}")  # fmt: skip
    for i, token in enumerate(text.tokens):
        if token.text in TYPES and text.at(i + 1) in ("*", "&") and text.at(i - 1) in (";", "{", "}"):
            if text.at(i + 3) in ("=", ";", "["):
                problem(token.line, f"'{token.text} {text.at(i + 1)}{text.at(i + 2)}' has no address space")


def _kernels(text: _Text, functions: list[_Function], problem) -> None:
    for f in functions:
        if not f.kernel:
            continue
        used: set[int] = set()
        unnumbered = 0
        for a, b in text.split(*f.parameters):
            words = [t.text for t in text.tokens[a:b]]
            if not {"device", "constant"} & set(words):
                continue
            if "buffer" in words and words[words.index("buffer") + 1] == "(":
                number = words[words.index("buffer") + 2]
                if not number.isdigit():
                    continue
                if int(number) in used:
                    problem(f.line, f"kernel '{f.name}' has two parameters with [[buffer({number})]]")
                used.add(int(number))
            else:
                unnumbered += 1
        if len(used) + unnumbered > MAX_BUFFERS or any(n >= MAX_BUFFERS for n in used):
            problem(f.line, f"kernel '{f.name}' has more than {MAX_BUFFERS} buffers or an index above 30")


def _recursion(text: _Text, functions: list[_Function], problem) -> None:
    """Cycles in the call graph.  Overloads are told apart by their number of parameters."""
    by_name: dict[str, list[int]] = {}
    for n, f in enumerate(functions):
        by_name.setdefault(f.name, []).append(n)
    calls: list[set[int]] = [set() for _ in functions]
    for n, f in enumerate(functions):
        for i in range(*f.body):
            name = text.at(i)
            j = i + 1
            if name in by_name and text.at(j) == "<" and text.partner(j) < f.body[1]:
                j = text.partner(j) + 1
            if name not in by_name or text.at(j) != "(" or text.at(i - 1) == "::":
                continue
            count = len(text.split(j + 1, text.partner(j)))
            same = [m for m in by_name[name] if functions[m].required <= count <= functions[m].arity]
            if same == [n] or (same and n not in same):
                calls[n].update(same)
            # An overload of the same arity is another type: left to the compiler.
    state = [0] * len(functions)
    for root in range(len(functions)):
        stack = [(root, iter(calls[root]))] if not state[root] else []
        state[root] = state[root] or 1
        while stack:
            node, rest = stack[-1]
            for other in rest:
                if state[other] == 1:
                    problem(functions[other].line, f"'{functions[other].name}' is recursive")
                elif not state[other]:
                    state[other] = 1
                    stack.append((other, iter(calls[other])))
                    break
            else:
                state[node] = 2
                stack.pop()


def lint(source: str, *, pragmas: bool = True) -> list[str]:
    """Problems of an MSL text as ``"line: what"``, in order; empty when there are none.

    ``pragmas=False`` leaves out what only a whole text shows (the pragmas, the
    include, recursion), for pieces that are put together later.
    """
    text = _Text(source)
    problems: list[tuple[int, str]] = []

    def problem(line: int, what: str) -> None:
        if (line, what) not in problems:
            problems.append((line, what))

    directives = [re.sub(r"\s+", " ", d.text) for d in text.directives]
    if pragmas:
        for wanted, pattern in (
            ("math_mode(safe)", r"# ?pragma METAL fp math_mode ?\( ?safe ?\)"),
            ("contract(off)", r"# ?pragma METAL fp contract ?\( ?off ?\)"),
        ):
            if not any(re.match(pattern, d) for d in directives):
                problem(1, f'the pragma "METAL fp {wanted}" is missing')
        if not any("metal_stdlib" in d for d in directives):
            problem(1, "<metal_stdlib> is not included")
    for d in text.directives:
        if re.match(r"#\s*include", d.text) and not re.search(r"<metal_\w+>", d.text):
            problem(d.line, f"include of something that is not Metal's: {d.text}")
        if re.match(r"#\s*pragma\s+METAL\s+fp\s+(contract\s*\(\s*(on|fast)|math_mode\s*\(\s*(fast|relaxed))", d.text):
            problem(d.line, f"a pragma that loosens arithmetic: {d.text}")
    functions = _functions(text)
    _tokens(text, problem)
    _pointers(text, functions, problem)
    _kernels(text, functions, problem)
    if pragmas:
        _recursion(text, functions, problem)
    return [f"{line}: {what}" for line, what in sorted(problems, key=lambda p: p[0])]


if __name__ == "__main__":
    import sys

    status = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for message in lint(file.read(), pragmas=False):
                print(f"{path}:{message}")
                status = 1
    sys.exit(status)
