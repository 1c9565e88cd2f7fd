"""ruff, mypy and what no tool knows: rules for the files of this repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = {
    ".c", ".cfg", ".cpp", ".h", ".in", ".m", ".md", ".metal", ".pxd", ".pxi", ".py", ".pyi",
    ".pyx", ".sh", ".toml", ".yml", "",
}  # fmt: skip
# Generated, or tables in which every line is a row.
LONG_FILES = {"tests/test_autograd.py", "tensorx/ops/table.py", "tensorx/_core.pyi", "docs/api.md", "LICENSE"}
LINES = 720


def tracked():
    """Paths of the repository's files, relative to its root."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
        out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if out.returncode == 0:
            return [name for name in out.stdout.split("\0") if name and (ROOT / name).is_file()]
    skip = {".git", ".venv", ".venvs", "build", "dist", "__pycache__", "out"}
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in skip and not name.endswith("_cache")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return [name for name in found if not name.endswith((".so", ".pyc"))]


def texts():
    for name in tracked():
        if Path(name).suffix in TEXT:
            yield name, (ROOT / name).read_text(encoding="utf-8")


def tool(name):
    """Path of a tool; without it the test is skipped, and fails where CI is set."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        message = f"{name} is not installed: pip install '.[dev]'"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return found


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff():
    run(tool("ruff"), "check", "--quiet", "--no-cache", ".")


def test_mypy():
    tool("mypy")
    run(sys.executable, "-m", "mypy", "--no-error-summary")


def test_no_machine_paths():
    """A path of one machine works on that machine only."""
    pattern = re.compile(r"(?<![\w.$}~])/(?:home|root|Users|work|opt)/\w")
    here = "tests/test_style.py"
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        if name != here
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_nothing_is_left_for_later():
    pattern = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    here = "tests/test_style.py"
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        if name != here
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_files_can_be_read_in_one_sitting():
    long = [
        f"{name}: {text.count(chr(10))} lines"
        for name, text in texts()
        if name not in LONG_FILES and text.count("\n") > LINES
    ]
    assert not long, "\n".join(long)


def test_no_build_products():
    products = (".so", ".o", ".dylib", ".pyc", ".orig", ".rej")
    assert not [name for name in tracked() if name.endswith(products)]
    assert not (ROOT / "tensorx" / "_core").exists(), "one import name, two things"


def test_line_ends():
    found = [
        f"{name}:{number}"
        for name, text in texts()
        if Path(name).suffix != ".md"
        for number, line in enumerate(text.split("\n"), 1)
        if line != line.rstrip()
    ]
    assert not found, "trailing white space in " + ", ".join(found)


def test_test_files_have_names_of_their_own():
    """pytest takes two files of one name from folders without __init__.py for one module."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py") if "softmetal" not in p.parts]
    assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})
