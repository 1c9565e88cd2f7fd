"""Shows that the checks bite: in a copy of the sources one thing is broken at a time, and a test has to notice.

    python tests/metal/mutations.py [NAME ...]

Each mutation names a file, what is replaced by what, and the tests that are run (with the stand-in's knobs that show
this kind of fault).  The tests pass before; a mutation that they do not notice makes this script fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutation(NamedTuple):
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    knobs: dict[str, int] = {}


DELAY = {"DELAY_US": 3000}
MUTATIONS = {
    "a wait before the host reads is dropped": Mutation(
        "tensorx/metal/backend.py", "self.inst.wait_buffer(handle, WRITE if to_write else READ)",
        "to_write and self.inst.wait_buffer(handle, WRITE)",
        ("tests/metal/test_training.py", "-k", "same_losses"), DELAY,
    ),
    "a wait before the host writes is dropped": Mutation(
        "tensorx/metal/backend.py", "self.inst.wait_buffer(handle, WRITE if to_write else READ)",
        "to_write or self.inst.wait_buffer(handle, READ)",
        ("tests/metal/test_picking.py", "-k", "host_writes"), DELAY,
    ),
    "a dispatch on an exported storage is not waited for": Mutation(
        "tensorx/metal/backend.py", "        if shared:\n            self.inst.wait(stamp)\n        return True",
        "        return True",
        ("tests/metal/test_devices.py", "-k", "host_views"), DELAY,
    ),
    "memory for the host is recycled early": Mutation(
        "tensorx/metal/bridge_pool.m", "if (host && b->last_use >= horizon)", "if (0)",
        ("tests/metal/test_bridge_queue.py", "-k", "never_gets_memory_in_flight"), DELAY,
    ),
    "the last use of a buffer is not noted": Mutation(
        "tensorx/metal/bridge_queue.m", "        b->buffer->last_use = r->stamp;\n", "",
        ("tests/metal/test_bridge_queue.py", "-k", "memory or reading_waits"), DELAY,
    ),
    "the last completed counts as all completed": Mutation(
        "tensorx/metal/bridge_queue.m", "        if (!at_load(&r->done))\n            return r->stamp;",
        "        int later = 0;\n        for (const txm_list *m = l->next; m != &in->flying; m = m->next)\n"
        "            later |= at_load(&list_entry(m, txm_record, link)->done) != 0;\n"
        "        if (!at_load(&r->done) && !later)\n            return r->stamp;",
        ("tests/metal/test_bridge_queue.py", "-k", "below or memory"), {"DELAY_US": 3000, "REORDER": 1},
    ),
    "a barrier of reductions is dropped": Mutation(
        "tensorx/metal/kernels/reduce_rows.metal",
        "        sh[warp] = s;\n    threadgroup_barrier(mem_flags::mem_threadgroup);", "        sh[warp] = s;",
        ("tests/metal/test_reductions.py",), {"ORDER": 2},
    ),
    "a barrier of matrix products is dropped": Mutation(
        "tensorx/metal/kernels/gemm.metal", "        threadgroup_barrier(mem_flags::mem_threadgroup);\n", "",
        ("tests/metal/test_products.py", "-k", "float32 or strides"), {"ORDER": 2, "SIMD_MATRIX": 0},
    ),
    "a barrier of products by simdgroup matrices is dropped": Mutation(
        "tensorx/metal/kernels/gemm_matrix.metal", "        threadgroup_barrier(mem_flags::mem_threadgroup);\n", "",
        ("tests/metal/test_products.py", "-k", "float32 or strides"), {"TRACE": 1},
    ),
    "a barrier of rows is dropped": Mutation(
        "tensorx/metal/kernels/rows.metal", "        threadgroup_barrier(mem_flags::mem_threadgroup);\n", "",
        ("tests/metal/test_rows_norms.py",), {"ORDER": 2},
    ),
    "two buffer indices are swapped": Mutation(
        "tensorx/metal/launch.py", "bindings = [x.binding(READ) for x in inputs if isinstance(x, Array)]",
        "bindings = [x.binding(READ) for x in inputs if isinstance(x, Array)][::-1]",
        ("tests/metal/test_elementwise.py", "-k", "layouts or fused"),
    ),
    "operands of a product are swapped": Mutation(
        "tensorx/metal/backend.py", "_broadcast(a, batch), _broadcast(b, batch), c)", "_broadcast(b, batch), _broadcast(a, batch), c)",
        ("tests/test_matmul.py", "--device", "metal"),
    ),
    "a grid is one group short": Mutation(
        "tensorx/metal/reductions.py", "kernel, bindings, (keep, segments), words(*values),",
        "kernel, bindings, (max(1, keep - 1), segments), words(*values),",
        ("tests/metal/test_reductions.py",),
    ),
    "a grid of rows is one row short": Mutation(
        "tensorx/metal/rows.py", "kernel, bindings, (min(rows, 0x40000000), high), arguments,\n        group=",
        "kernel, bindings, (max(1, min(rows, 0x40000000) - 1), high), arguments,\n        group=",
        ("tests/metal/test_rows_norms.py",),
    ),
    "the last window that holds an element is left out": Mutation(
        "tensorx/metal/kernels/pooling.metal", "return last + 1 < count ? last + 1 : count;", "return last < count ? last : count;",
        ("tests/metal/test_pooling.py", "-k", "avg_pool"),
    ),
    "of several writes to one element the first wins": Mutation(
        "tensorx/metal/kernels/positions.metal", "atomic_fetch_max_explicit(winner", "atomic_fetch_min_explicit(winner",
        ("tests/metal/test_positions.py", "-k", "last_of_several"),
    ),
    "an index beyond the axis is followed": Mutation(
        "tensorx/metal/kernels/positions.metal", "return j < n ? j : -1L;", "return j;",
        ("tests/metal/test_positions.py", "-k", "out_of_range"),
    ),
    "a store goes one element beyond": Mutation(
        "tensorx/metal/codegen.py", 'body.append(f"q{k}[{at}] = ', 'body.append(f"q{k}[{at} + 1] = ',
        ("tests/metal/test_training.py", "-k", "fused_chain"),
    ),
    "a poisoned result is not told": Mutation(
        "tensorx/metal/backend.py", "WRITE if to_write else READ)", "WRITE)",
        ("tests/metal/test_training.py", "-k", "spoils"),
    ),
}


def noticed(copy: Path, mutation: Mutation) -> tuple[bool, str]:
    """Whether the tests fail in the copy; the last line they print."""
    env = {key: value for key, value in os.environ.items() if key not in ("TENSORX_METAL_BRIDGE", "PYTHONPATH")}
    build = subprocess.run(["bash", "tests/softmetal/build.sh"], cwd=copy, env=env, capture_output=True, text=True, check=True)
    env.update(TENSORX_METAL_BRIDGE=build.stdout.split()[-1], PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
    env.update({f"SOFTMETAL_{knob}": str(value) for knob, value in mutation.knobs.items()})
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", *mutation.tests]
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode not in (0, 1) and "passed" not in done.stdout and "failed" not in done.stdout and "error" not in done.stdout:
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))] or done.stdout.splitlines()[-1:]
    return done.returncode != 0, lines[0]


def main(names):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("tensorx", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, copy / name)
        for name in names or MUTATIONS:
            mutation, begun = MUTATIONS[name], time.monotonic()
            path = copy / mutation.file
            text = path.read_text()
            if mutation.old not in text:
                raise SystemExit(f"{name}: {mutation.file} does not contain {mutation.old!r}")
            before, last = noticed(copy, mutation)
            if before:
                failed = True
                print(f"NOT SHOWN: {name}: the tests fail before anything is broken: {last}", flush=True)
                continue
            path.write_text(text.replace(mutation.old, mutation.new, 1))
            try:
                seen, last = noticed(copy, mutation)
            finally:
                path.write_text(text)
            failed = failed or not seen
            print(f"{'noticed' if seen else 'NOT NOTICED'}: {name} ({time.monotonic() - begun:.0f} s): {last}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
