"""Address and thread sanitizer work on an instrumented bridge: quiet on correct code, loud on a seeded fault."""

import os
import signal
import subprocess
import sys

import pytest
from soft import HERE, build, missing


def sanitized(kind):
    if reason := missing():
        pytest.skip(reason)
    try:
        *lines, library = build(f"--sanitize={kind}", f"--bridge={HERE / 'driver.m'}")
    except RuntimeError as error:
        pytest.skip(f"no runtime of the {kind} sanitizer (libclang-rt-NN-dev)? {str(error)[-300:]}")
    return dict(line.split("=", 1) for line in lines), library


@pytest.mark.parametrize("at, loud", [(7, False), (8, True)])
def test_address(at, loud):
    settings, library = sanitized("address")
    if not os.path.exists(settings["LD_PRELOAD"]):
        pytest.skip("no runtime of the address sanitizer (libclang-rt-NN-dev)")
    program = (
        f"import ctypes, sys; sys.path.insert(0, {str(HERE)!r})\n"
        f"import soft; soft.build = lambda *a: [{library!r}]\n"
        "import test_softmetal as t\n"
        "s = soft.Soft()\n"
        "a, o = s.buffer([1.0] * 8), s.buffer(8)\n"
        "assert s.run(s.pipeline(t.ADD), [a, o, t.u32(8)], 8) == (0, '') and o[7] == 3.0\n"
        "soft.knobs(delay_us=20000)\n"
        "cb = s.command_buffer(); s.encode(cb, s.pipeline(t.ADD), [a, o, t.u32(8)], 8, 8)\n"
        "s.lib.d_commit(cb); o[0]; s.finish(cb)\n"
        "assert soft.violations()[0].startswith('host-read')  # our handler still sees faults\n"
        f"s.lib.d_seed_overflow({at}); print('survived')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ("heap-buffer-overflow" in done.stderr) == loud, done.stderr
    assert ("survived" in done.stdout) != loud


@pytest.mark.parametrize("function, loud", [("d_stress", False), ("d_stress_race", True)])
def test_thread(tmp_path, function, loud):
    settings, library = sanitized("thread")
    clang = os.environ.get("CLANG", "clang")
    made = subprocess.run(
        [clang, "-fsanitize=thread", "-O1", str(HERE / "host.c"), "-o", str(tmp_path / "host")],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no runtime of the thread sanitizer (libclang-rt-NN-dev)? {made.stderr[-300:]}")
    done = subprocess.run(
        ["setarch", "-R", str(tmp_path / "host"), library, function],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == -signal.SIGSEGV and not done.stderr:
        # Its runtime reports a fault of the program; it falls silently only where it cannot lay out its shadow memory.
        pytest.skip("the thread sanitizer's runtime does not start on this system")
    assert ("data race" in done.stderr) == loud, done.stderr[-3000:]
    if loud:
        assert "driver.m" in done.stderr
    else:
        assert done.returncode == 0, done.stderr[-3000:]
