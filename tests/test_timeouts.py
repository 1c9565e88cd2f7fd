"""The three layers against a hang, each shown to fire on a hang seeded for it.

A child pytest runs a hanging test under this project's own configuration, with
shorter limits.  Each layer is given a hang that the layers before it cannot end.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIMIT = Path(__file__).resolve().parent / "limit.sh"

SLEEP = """
    import time

    def test_hang():
        time.sleep(600)
"""

LOCK = """
    import threading

    def test_hang():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
"""

# PyDLL keeps the GIL during the call: no Python thread of this process runs again.
HOLDS_GIL = """
    import ctypes

    def test_hang():
        ctypes.PyDLL(None).sleep(600)
"""

# In addition faulthandler's own thread is gone and SIGTERM means nothing.
HOLDS_EVERYTHING = """
    import ctypes, faulthandler, signal

    def test_hang():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        faulthandler.cancel_dump_traceback_later()
        ctypes.PyDLL(None).sleep(600)
"""

PASSES = """
    def test_hang():
        pass
"""


def child_pytest(tmp_path, body, *options, prefix=(), env=None):
    """Returns (exit status, output, seconds)."""
    lines = body.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    path = tmp_path / "test_seeded.py"
    path.write_text("\n".join(line[indent:] for line in lines) + "\n")
    command = [
        *prefix,
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        f"--rootdir={tmp_path}",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *options,
        str(path),
    ]
    began = time.monotonic()
    proc = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "", **(env or {})},
        start_new_session=True,
    )
    try:
        out, _ = proc.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        os.killpg(proc.pid, signal.SIGKILL)
        out, _ = proc.communicate()
        pytest.fail(f"nothing ended the seeded hang:\n{out}")
    return proc.returncode, out, time.monotonic() - began


@pytest.mark.parametrize("body", [SLEEP, LOCK], ids=["sleep", "lock"])
def test_layer_1_pytest_timeout_ends_a_test_that_waits(tmp_path, body):
    status, out, seconds = child_pytest(tmp_path, body, "-o", "timeout=1")
    assert status == 1, out
    assert "Timeout" in out, out
    assert "test_seeded.py" in out, out  # the stack says where
    assert "passed" not in out, out
    assert seconds < 30


def test_layer_2_faulthandler_ends_a_test_that_holds_the_gil(tmp_path):
    status, out, seconds = child_pytest(
        tmp_path, HOLDS_GIL, "-o", "timeout=1", "-o", "faulthandler_timeout=3"
    )
    assert status == 1, out
    assert "Timeout (0:00:03)!" in out, out
    assert "test_seeded.py" in out, out
    assert seconds < 30


@pytest.mark.parametrize("tool", ["timeout", "no-such-tool"], ids=["coreutils", "python"])
def test_layer_3_timeout_kills_what_holds_everything(tmp_path, tool):
    if tool == "timeout" and sys.platform == "darwin":
        pytest.skip("macOS has no coreutils; the other case is what runs here")
    status, out, seconds = child_pytest(
        tmp_path,
        HOLDS_EVERYTHING,
        "-o",
        "timeout=1",
        "-o",
        "faulthandler_timeout=2",
        prefix=["bash", str(LIMIT), "5", "1"],
        env={"TENSORX_LIMIT_TOOL": tool, "PYTHON": sys.executable},
    )
    assert status in (137, -signal.SIGKILL), out
    assert "Timeout" not in out, "an earlier layer ended it: this proves nothing about the last one"
    assert seconds < 30


@pytest.mark.parametrize("tool", ["timeout", "no-such-tool"], ids=["coreutils", "python"])
def test_layer_3_hands_on_the_exit_status(tmp_path, tool):
    if tool == "timeout" and sys.platform == "darwin":
        pytest.skip("macOS has no coreutils; the other case is what runs here")
    for wanted in (0, 5):
        done = subprocess.run(
            ["bash", str(LIMIT), "20", "1", sys.executable, "-c", f"raise SystemExit({wanted})"],
            env={**os.environ, "TENSORX_LIMIT_TOOL": tool, "PYTHON": sys.executable},
            timeout=40,
        )
        assert done.returncode == wanted


def test_a_test_that_ends_is_left_alone(tmp_path):
    status, out, _ = child_pytest(
        tmp_path, PASSES, "-o", "timeout=30", prefix=["bash", str(LIMIT), "40", "5"]
    )
    assert status == 0, out
    assert "1 passed" in out, out


def test_limits_in_force_are_ordered(pytestconfig):
    """pytest-timeout speaks first; faulthandler, which ends the process, after it."""
    first = float(pytestconfig.getini("timeout"))
    second = float(pytestconfig.getini("faulthandler_timeout"))
    assert 0 < first < second <= first + 30
    assert pytestconfig.getini("timeout_method") == "thread"
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True


def test_run_child_kills_a_hang_and_says_where(run_child):
    code = """
        import threading
        def stuck_here():
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        stuck_here()
    """
    began = time.monotonic()
    with pytest.raises(AssertionError, match="(?s)still ran after 1.*stuck_here"):
        run_child(code, timeout=1, imports="")
    assert time.monotonic() - began < 30


def test_run_child_kills_a_hang_that_holds_the_gil(run_child):
    code = """
        import ctypes
        ctypes.PyDLL(None).sleep(600)
    """
    with pytest.raises(AssertionError, match="still ran after"):
        run_child(code, timeout=1, imports="")


def test_run_child_reports_errors_and_output(run_child):
    assert run_child("print('hello')", imports="").stdout == "hello\n"
    with pytest.raises(AssertionError, match="ValueError: seeded"):
        run_child("raise ValueError('seeded')", imports="")
    assert run_child("raise SystemExit(3)", imports="", check=False).returncode == 3
    with pytest.raises(AssertionError, match="no_such_module"):
        run_child("", imports="import no_such_module")
