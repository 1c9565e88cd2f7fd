"""Which API the bridge uses, checked against a list of facts that needs no Mac.

``api_facts.json`` records, per selector, function and enum value that bridge*.m use: the types (Objective-C
encodings), the first macOS that has it and the page of Apple's documentation.  A use that is not in the list,
or an entry that nobody uses, fails here; so does anything newer than the oldest macOS that is supported,
unless it is sent behind a capability test.
"""

import json
import re
from pathlib import Path

import pytest

from tensorx.metal import bridge

FOLDER = Path(bridge.__file__).parent
FACTS = json.loads(Path(__file__).with_name("api_facts.json").read_text())
OLDEST = (13, 0)


def source():
    text = "\n".join(p.read_text() for p in sorted([*FOLDER.glob("bridge*.m"), FOLDER / "bridge_state.h"]))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r'@?"(?:[^"\\]|\\.)*"', '""', text)


def message_sends(text):
    """Selectors of the message expressions in a text, nested ones included."""
    found, stack = [], []
    for i, c in enumerate(text):
        if c == "[":
            before = text[:i].rstrip(" ")[-1:]
            subscript = text[i - 1 : i] not in ("", " ", "(", "[", "!", "\n", ")", ":") or before.isalnum() and text[i - 1] != " "
            stack.append((i, subscript))
        elif c == "]" and stack:
            start, subscript = stack.pop()
            if not subscript:
                found.append(text[start + 1 : i])
    return found


def selector(body):
    """The selector of what stands between the brackets of a message expression."""
    flat, depth = [], 0
    for c in body:  # nested brackets and parentheses do not belong to this selector
        if c in "([{":
            depth += 1
        if depth == 0:
            flat.append(c)
        if c in ")]}":
            depth -= 1
            flat.append("#")
    text = "".join(flat)
    text = re.sub(r"\?[^:]*:", "", text)
    parts = re.findall(r"([A-Za-z_]\w*):", text)
    if parts:
        return "".join(p + ":" for p in parts)
    words = re.findall(r"[A-Za-z_]\w*|#", text)
    return words[-1] if len(words) > 1 and re.fullmatch(r"\w+", words[-1]) else None


def selectors_used():
    text = source()
    found = {s for s in map(selector, message_sends(text)) if s}
    found |= set(re.findall(r"@selector\(([\w:]+)\)", text))
    return found


def functions_used():
    return set(re.findall(r"\b(MTL\w+)\s*\(", source())) - {"MTLGPUFamily"}


def enums_used():
    names = set(re.findall(r"\bMTL[A-Z]\w+", source()))
    return {n for n in names if not re.fullmatch(r"MTL(Size|\w+)", n) or n in FACTS.get("enums", {}) or _is_enum(n)}


def _is_enum(name):
    types = ("MTLSize", "MTLSizeMake", "MTLDevice", "MTLBuffer", "MTLLibrary", "MTLFunction", "MTLCommandQueue",
             "MTLCommandBuffer", "MTLComputeCommandEncoder", "MTLComputePipelineState", "MTLCompileOptions",
             "MTLResourceOptions", "MTLGPUFamily", "MTLCreateSystemDefaultDevice", "MTLCopyAllDevices")  # fmt: skip
    return name not in types


def version(text):
    return tuple(int(part) for part in text.split("."))


def test_the_parser_sees_nested_sends():
    body = "[[a b] c:[d e] f:1]; x[i]; y = [z g];"
    assert {selector(b) for b in message_sends(body)} == {"b", "e", "c:f:", "g"}


def test_every_selector_is_known():
    assert selectors_used() - set(FACTS["selectors"]) == set()


def test_no_entry_is_stale():
    assert set(FACTS["selectors"]) - selectors_used() == set()
    assert set(FACTS["functions"]) - functions_used() == set()
    assert set(FACTS["enums"]) - enums_used() == set()


def test_every_function_and_enum_value_is_known():
    assert functions_used() - set(FACTS["functions"]) == set()
    assert enums_used() - set(FACTS["enums"]) == set()


@pytest.mark.parametrize("kind", ["selectors", "functions", "enums"])
def test_entries_are_complete(kind):
    for name, fact in FACTS[kind].items():
        assert set(fact) == ({"value", "macos", "page"} if kind == "enums" else {"types", "macos", "page"}), name
        version(fact["macos"])


def test_newer_selectors_are_sent_behind_a_capability():
    text = source()
    newer = {name for name, fact in FACTS["selectors"].items() if version(fact["macos"]) > OLDEST}
    assert newer == {"setMathMode:", "setMathFloatingPointFunctions:", "architecture"}
    for name in newer:
        assert f"@selector({name})" in text, name


def test_argument_counts_match_the_types():
    for name, fact in FACTS["selectors"].items():
        arguments = fact["types"].split(" ")[1:]
        assert name.count(":") == len(arguments), name
