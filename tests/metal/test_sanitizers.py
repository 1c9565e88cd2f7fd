"""The bridge under sanitizers: the tests of pool and queue with addresses checked, threads with races checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parent / "softmetal" / "build.sh"


def sanitized(kind):
    """(settings, library) of a bridge that is instrumented against the stand-in."""
    if sys.platform == "darwin" or not BUILD.exists():
        pytest.skip("sanitizers run on the stand-in")
    done = subprocess.run(["bash", BUILD, f"--sanitize={kind}"], capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.skip(f"no sanitized stand-in: {done.stderr[-300:]}")
    *lines, library = done.stdout.split("\n")[:-1]
    return dict(line.split("=", 1) for line in lines), library


@pytest.mark.timeout(300)
def test_addresses(metal, stand_in):
    settings, library = sanitized("address")
    if not os.path.exists(settings["LD_PRELOAD"]):
        pytest.skip("no runtime of the address sanitizer (libclang-rt-NN-dev)")
    names = ["test_bridge_pool.py", "test_bridge_errors.py", "test_bridge_queue.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in names),
         "-k", "not fork and not ctrl and not exit"],
        env={**os.environ, **settings, "TENSORX_METAL_BRIDGE": library},
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.timeout(300)
def test_threads(metal, stand_in, tmp_path):
    settings, library = sanitized("thread")
    program = tmp_path / "threads"
    folder = HERE.parents[1] / "tensorx" / "metal"
    command = [os.environ.get("CLANG", "clang"), "-fsanitize=thread", "-g", "-O1", f"-I{folder}",
               str(HERE / "threads.c"), "-o", str(program), "-ldl", "-lpthread"]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no runtime of the thread sanitizer (libclang-rt-NN-dev)? {made.stderr[-300:]}")
    done = subprocess.run(
        ["setarch", "-R", str(program), library], env={**os.environ, **settings}, capture_output=True, text=True, timeout=280
    )
    assert "data race" not in done.stderr, done.stderr[-6000:]
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-3000:]
