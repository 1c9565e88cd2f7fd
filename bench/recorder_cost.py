"""What the recorder's hooks cost while nothing is recorded: instructions per statement, against a core without hooks.

    python bench/recorder_cost.py          # needs valgrind, Cython and a C compiler; some 5 minutes

Both cores are built here from the same sources, with the same flags. Instructions are counted by callgrind, and not timed:
each figure is the difference of two runs that repeat a statement n and 3 n times, so that start and end cancel out. The
instruction set is AVX2 at most (valgrind knows no AVX-512), with one thread. The last column is the limit that the project keeps:
2 per cent.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import _harness as H

ROOT = H.HERE.parent
LIMIT = 1.02
STATEMENTS = {
    "x = x * 0.5 + 0.25, 2^8 elements": ("x = tx.ones(2**8)", "x = x * 0.5 + 0.25; tx.eval(x)"),
    "x = x * 0.5 + 0.25, 2^14 elements": ("x = tx.ones(2**14)", "x = x * 0.5 + 0.25; tx.eval(x)"),
    "y = x * 2 + 1, 2^8 elements": ("x = tx.ones(2**8)", "y = x * 2.0 + 1.0; tx.eval(y)"),
    "x.mul_(0.5).add_(0.25), 2^8 elements": ("x = tx.ones(2**8)", "x.mul_(0.5).add_(0.25)"),
    "(a + b).item(), 1 element": ("a = tx.ones(1); b = tx.ones(1)", "(a + b).item()"),
    "10 ops and a read, 64 elements": (
        "a = tx.ones(64); x = a",
        "x = a; [x := x * 0.9 + 0.1 for _ in range(5)]; x.sum().item()",
    ),
    "((x - y) ** 2).sum(), 2^12 elements": ("x = tx.ones(2**12); y = tx.zeros(2**12)", "((x - y) ** 2).sum().item()"),
    "x[3:7] = 0, a view that is written": ("x = tx.ones(64)", "x[3:7] = 0.0"),
}
# (file, pattern, text): the hooks, each of which has to be there
CUTS = [
    ("memory.pxi", r"^cdef bint g_recording = False.*$", "cdef enum:\n    g_recording = 0"),
    ("memory.pxi", r"^    global g_recorder, g_recording$", "    global g_recorder"),
    ("memory.pxi", r"^    g_recording = recorder is not None\n", ""),
    ("storage.pxi", r"^    s\.site = NULL\n", ""),
    ("storage.pxi", r"if s\.site != NULL or g_recording:", "if False:"),
    ("graph.pxi", r"^    n\.site = NULL\n", ""),
    ("graph.pxi", r"^    if n\.site != NULL:$", "    if False:"),
]


def build(folder: Path, hooks: bool) -> Path:
    """A copy of the package with a core of its own; the kernels are those of this installation."""
    import tensorx

    package = folder / "tensorx"
    built = Path(tensorx.__file__).parent
    shutil.copytree(ROOT / "tensorx", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for kernels in built.glob("_kernels*"):
        if kernels.suffix in (".so", ".pyd"):
            shutil.copy(kernels, package)
    for name, pattern, text in () if hooks else CUTS:
        path = package / "_native" / name
        changed, times = re.subn(pattern, text, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if not times:
            sys.exit(f"{name}: no hook {pattern!r}: the list in this script is out of date")
        path.write_text(changed, encoding="utf-8")
    c = folder / "_core.c"
    subprocess.run([sys.executable, "-m", "cython", "-3", "-I", str(package), str(package / "_core.pyx"), "-o", str(c)], check=True)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    flags = ["-shared", "-fPIC", "-O2", "-fwrapv", "-fno-strict-aliasing", "-std=c11", "-fvisibility=hidden", "-DNDEBUG", "-g"]
    includes = [f"-I{package}", f"-I{package / '_native'}", f"-I{sysconfig.get_path('include')}"]
    target = package / ("_core" + sysconfig.get_config_var("EXT_SUFFIX"))
    subprocess.run([*compiler, *flags, *includes, str(c), "-o", str(target), "-lm", "-lpthread"], check=True)
    return folder


def instructions(folder: Path, setup: str, statement: str, times: int) -> int:
    """Instructions of a process that runs the statement so many times."""
    program = f"import tensorx as tx\n{setup}\nfor _ in range({times}):\n    {statement}\n"
    env = {
        **os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "TENSORX_NUM_THREADS": "1",
        "TENSORX_ISA": "avx2", "OPENBLAS_NUM_THREADS": "1", "PYTHONMALLOC": "pymalloc",
    }  # fmt: skip
    env.pop("TENSORX_METAL_BRIDGE", None)
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-X", "utf8", "-c", program]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"valgrind: status {done.returncode}\n{done.stderr[-2000:]}")
    return int(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000, help="n (default 2000)")
    parser.add_argument("--out", type=Path, default=H.HERE / "out")
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing (Debian: apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(build, Path(temporary) / name, name == "with") for name in ("with", "without")]
        folders = [job.result() for job in jobs]
        runs = {
            (name, k, n): pool.submit(instructions, folder, setup, statement, n * args.times)
            for name, (setup, statement) in STATEMENTS.items() for k, folder in enumerate(folders) for n in (1, 3)
        }  # fmt: skip
        rows, worst = [], 0.0
        for name in STATEMENTS:
            ours, bare = ((runs[name, k, 3].result() - runs[name, k, 1].result()) / (2 * args.times) for k in (0, 1))
            rows.append([name, f"{ours:.0f}", f"{bare:.0f}", f"{ours / bare:.4f}", f"{LIMIT}"])
            worst = max(worst, ours / bare)
    print(H.table(["statement", "instructions, with hooks", "without", "ratio", "limit"], rows, left=1))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "recorder_cost.json").write_text(json.dumps({"machine": H.machine(), "rows": rows}, indent=1) + "\n")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
