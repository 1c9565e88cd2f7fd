"""Every Python block of the pages runs; the scripts of examples/pitfalls run on both devices; links lead somewhere."""

import faulthandler
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensorx as tx

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("README*.md")]) if DOCS.is_dir() else []
PITFALLS = sorted(p for p in (ROOT / "examples" / "pitfalls").glob("*.py") if not p.name.startswith("_"))

OPTIONAL = {"einops", "jax", "matplotlib", "safetensors", "scipy", "sklearn", "torch", "tqdm"}

pytestmark = pytest.mark.skipif(not PAGES, reason="the pages are not in this copy")


def blocks(page):
    """(line, text) of the Python blocks."""
    text = page.read_text(encoding="utf-8")
    for m in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, m.start()) + 2, m[1]


@pytest.mark.parametrize("page", [p for p in PAGES if any(blocks(p))], ids=lambda p: p.stem)
def test_the_blocks_run(page, tmp_path, monkeypatch, capsys):
    """In one namespace, from top to bottom, at the lines where they stand."""
    if page.name == "api.md":
        pytest.skip("its doctests are run by a test of their own")
    monkeypatch.chdir(tmp_path)
    # the timer of faulthandler is one of the limits of this suite: the page must not take it
    asked = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, *, exit: asked.append(seconds))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: asked.append(0))
    space = {"__name__": "page"}
    with tx.deferred(True):
        for line, text in blocks(page):
            try:
                exec(compile("\n" * (line - 1) + text, str(page), "exec"), space)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in OPTIONAL:
                    raise
                pytest.skip(f"line {line}: {error}")
    assert "Traceback" not in capsys.readouterr().out and asked in ([], [3600, 0])


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem.startswith("porting-")], ids=lambda p: p.stem)
def test_names_in_the_tables_exist(page):
    """Every tx.name and x.name that a table gives for one of another library is there."""
    seen = 0
    for row in re.findall(r"^\|(.*)\|$", page.read_text(encoding="utf-8"), re.M):
        for root, path in re.findall(r"\b(tx|x)((?:\.[A-Za-z_]\w*)+)", row.rpartition("|")[2]):
            o = {"tx": tx, "x": tx.ones((2, 2))}[root]
            for part in path[1:].split("."):
                o = getattr(o, part)
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_pages_of_the_site_exist():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": ([\w-]+\.md)$", text, re.M)
    assert len(listed) >= 15 and len(set(listed)) == len(listed)
    assert set(listed) <= {p.name for p in DOCS.glob("*.md")}


@pytest.mark.parametrize("script", PITFALLS, ids=lambda p: p.stem)
def test_pitfalls(script):
    env = {**os.environ, "TENSORX_EAGER": "0", "PYTHONPATH": os.pathsep.join([str(Path(tx.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  ok ") >= 5 and "  NO " not in done.stdout
    for name in ["cpu", *(["metal"] if tx.metal.is_available() else [])]:
        assert re.search(rf"^{name}$", done.stdout, re.M)
    assert "How to see" in script.read_text(encoding="utf-8")
