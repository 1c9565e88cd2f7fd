"""Every public function has a doctest that runs, and docs/api.md is what the docstrings say."""

import doctest
import sys
from pathlib import Path

import pytest

import tensorx as tx

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "tools" / "apidocs.py").exists() or not (ROOT / "docs").exists():
    pytest.skip("the tool and the page are parts of the repository, not of the package", allow_module_level=True)
sys.path.insert(0, str(ROOT / "tools"))
try:
    import apidocs
finally:
    sys.path.pop(0)

ENTRIES = list(apidocs.functions())


def test_page_is_up_to_date():
    text = apidocs.PAGE.read_text(encoding="utf-8")
    assert text == apidocs.page(), "run python tools/apidocs.py"
    assert text.count("\n### ") == len(ENTRIES) > 300


@pytest.mark.parametrize("module, name, o", [e[:3] for e in ENTRIES], ids=[f"{m}.{n}" for m, n, _, _ in ENTRIES])
def test_doctest(module, name, o):
    """The examples run with the names of the function's own module, `tx` and `tensorx`, as a reader would type them."""
    doc = o.__doc__ or ""
    assert ">>>" in doc, f"{module}.{name} has no doctest"
    if o.__module__ in ("tensorx.holders", "tensorx.recording"):
        return  # they name what holds a tensor, this runner too; pytest's own runs them
    home = sys.modules[o.__module__]
    space = {**vars(home), "tx": tx, "tensorx": tx}
    test = doctest.DocTestParser().get_doctest(doc, space, name, None, 0)
    said = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("name", ["tensorx", "tensorx.linalg", "tensorx.fft", "tensorx.random"])
def test_nothing_public_is_left_out(name):
    """What a namespace exports is on the page, or an error class, a module, a constant or a dtype."""
    module = apidocs.MODULES[name]
    shown = {n for m, n, _, aliases in ENTRIES for n in (n, *aliases) if m == name}
    for public in getattr(module, "__all__", None) or vars(module):
        o = getattr(module, public)
        if public.startswith("_") or not callable(o) or isinstance(o, (type(tx), tx.DType)):
            continue
        if (isinstance(o, type) and issubclass(o, BaseException)) or not getattr(o, "__module__", "").startswith("tensorx"):
            continue
        assert public in shown, f"{name}.{public}"
