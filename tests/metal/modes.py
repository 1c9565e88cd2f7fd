"""The tests of metal again, under each mode of the stand-in that shows another kind of fault.

    python tests/metal/modes.py [--full] [MODE ...] [-- PYTEST ARGUMENTS]

A mode is a set of knobs of the stand-in (see tests/softmetal/README.md); without names all of them run. With --full a mode
takes the whole suite on metal and goes on after a failure; otherwise the files that ask most of the device, to the first failure.
Each test fails on a violation, in every mode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MODES = {
    "delay": {"DELAY_US": 2000, "REORDER": 1, "HANDLER_DELAY_US": 300},  # missing waits, early recycling
    "backward": {"ORDER": 1},  # threads of a group from the last to the first
    "shuffled": {"ORDER": 2, "SEED": 7, "WORKERS": 2},
    "plain": {"SIMD_OPS": 0, "SIMD_MATRIX": 0, "MAX_THREADS": 256},  # no simd operations, small groups
    "narrow": {"SIMD_WIDTH": 16, "MAX_THREADS": 256},
    "subnormals": {"FTZ": 0},
    "ulp": {"ULP": 1},  # functions as inexact as Metal allows
    "traced": {"TRACE": 1, "UBSAN": 1},  # every load and store, undefined behaviour
    "old system": {"MACOS": 13, "FAMILY": 5},
    "usual": {},
    "without slabs": {},
    "second instance": {},  # metal:0#2 instead of metal:0
    "one by one": {},  # each dispatch in a command buffer of its own, waited for
}
ENVIRONMENT = {
    "without slabs": {"TENSORX_METAL_NO_SLABS": "1"},
    "second instance": {"TENSORX_TEST_INSTANCE": "2"},
    "one by one": {"TENSORX_METAL_SYNC": "1"},
}
TESTS = [
    "tests/test_engine.py", "tests/test_cases.py", "tests/test_matmul.py", "tests/test_indexing.py", "tests/test_autograd.py",
    "tests/test_cases_training.py", "tests/test_fuzz.py", "tests/metal/test_training.py", "tests/metal/test_picking.py", "tests/metal/test_devices.py",
    "tests/metal/test_reductions.py", "tests/metal/test_products.py", "tests/metal/test_rows_norms.py",
    "tests/metal/test_pooling.py", "tests/metal/test_losses.py",
    "tests/metal/test_indexing_sorting.py", "tests/metal/test_positions.py", "tests/metal/test_random_kernels.py", "tests/standard/test_random_devices.py",
]  # fmt: skip


FULL = ["tests", "--ignore=tests/softmetal", "-m", "not slow and (metal or not once)", "-o", "timeout=600", "-o", "faulthandler_timeout=615"]


def run(name, arguments, full):
    env = {**os.environ, **{f"SOFTMETAL_{knob}": str(value) for knob, value in MODES[name].items()}, **ENVIRONMENT.get(name, {})}
    command = [sys.executable, "-m", "pytest", "-q", *([] if full else ["-x"]), "--device", "metal", "-m", "not slow", "-p", "no:cacheprovider", *arguments]
    if name == "one by one":
        command += ["-k", "not command_buffer and not waits_for_nothing and not names_its_kernels and not leaves_its_operands"]  # which count on batches
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def main(arguments):
    if not os.environ.get("TENSORX_METAL_BRIDGE"):
        build = subprocess.run(["bash", "tests/softmetal/build.sh"], cwd=ROOT, capture_output=True, text=True, check=True)
        os.environ["TENSORX_METAL_BRIDGE"] = build.stdout.split()[-1]
    full = "--full" in arguments
    arguments = [a for a in arguments if a != "--full"]
    more = FULL if full else TESTS
    if "--" in arguments:
        at = arguments.index("--")
        arguments, more = arguments[:at], arguments[at + 1 :] or more
    bad = []
    for name in arguments or MODES:
        begun = time.monotonic()
        code = run(name, more, full)
        print(f"{name}: {'passed' if code == 0 else f'FAILED ({code})'} in {time.monotonic() - begun:.0f} s", flush=True)
        if code:
            bad.append(name)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
