"""Counts from outside what a piece of Python code asks of the system.

`watch(code)` runs the code in a fresh interpreter under `native/witness.c`, which sees each
mmap, munmap, mremap and brk of the process in the kernel, whoever made it.  The C library is
told (by its environment) to serve every malloc from `threshold` bytes on by an mmap of its own,
and Python to use malloc, so that mallocs are seen, too.  The code calls `mark(name)` to begin a
phase; what comes before the first mark (imports, warming up) belongs to the phase "".

>>> report = watch('''
... mark("make")
... x = bytearray(3 << 20)
... mark("drop")
... del x
... ''', imports="")                                                 # doctest: +SKIP
>>> report["make"].sizes, report["drop"].held                       # doctest: +SKIP
([3149824], -3149824)
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap

SOURCE = pathlib.Path(__file__).resolve().parent / "native" / "witness.c"
UNAVAILABLE_STATUS = 99

# Linux's, the same on every processor that we run on.
_PROT_NONE, _MAP_ANONYMOUS, _MAP_STACK = 0, 0x20, 0x20000

_WRAPPER = """\
import os as _os
_names = []
def mark(name):
    _names.append(name)
    try:
        _os.lseek(-777, len(_names), 0)
    except OSError:
        pass
try:
    exec(compile({code!r}, "<watched>", "exec"), {{"mark": mark, "__name__": "__main__"}})
finally:
    with open({names!r}, "w") as _file:
        _file.write(__import__("json").dumps(_names))
"""


class Unavailable(Exception):
    """The system does not let us watch; the text says why."""


@dataclasses.dataclass
class Phase:
    """What happened between two marks, without thread stacks, mere reservations and files."""

    sizes: list[int] = dataclasses.field(default_factory=list)
    """bytes of each new mapping, a malloc from the threshold on included"""
    heap: int = 0
    """bytes by which the heap, from which smaller mallocs come, grew"""
    held: int = 0
    """bytes held at the end that were not held at the beginning; the heap left out"""

    def at_least(self, nbytes):
        """The mappings of that size and above, which is what a tensor of that size needs."""
        return [size for size in self.sizes if size >= nbytes]


@dataclasses.dataclass
class Report:
    """Phases by name, and what the code printed."""

    phases: dict[str, Phase]
    stdout: str

    def __getitem__(self, name):
        return self.phases[name]


class _Regions:
    """Disjoint address intervals."""

    def __init__(self):
        self.parts = []

    def remove(self, start, size):
        """Takes the interval out; returns how many of its bytes were in."""
        end, kept, gone = start + size, [], 0
        for a, b in self.parts:
            low, high = max(a, start), min(b, end)
            if low >= high:
                kept.append((a, b))
                continue
            gone += high - low
            kept += [part for part in ((a, low), (high, b)) if part[0] < part[1]]
        self.parts = kept
        return gone

    def add(self, start, size):
        self.parts.append((start, start + size))


def _read(log, names):
    """Phases from the lines of the log; of child processes nothing counts."""
    phases = {"": Phase()}
    phase = phases[""]
    regions = _Regions()
    names = iter(names)
    first = top = None
    page = os.sysconf("SC_PAGESIZE")
    for line in log.splitlines():
        process, call, *numbers = line.split()
        result, *args = map(int, numbers)
        first = first or process
        if process != first:
            continue
        if call == "mark":
            phase = phases.setdefault(next(names), Phase())
        elif call == "brk":
            phase.heap += result - (result if top is None else top)
            top = result
        elif -4096 < result < 0:
            continue  # refused
        elif call == "mmap":
            size = -(-args[1] // page) * page
            phase.held -= regions.remove(result, size)
            if args[3] & _MAP_ANONYMOUS and not args[3] & _MAP_STACK and args[2] != _PROT_NONE:
                regions.add(result, size)
                phase.sizes.append(size)
                phase.held += size
        elif call == "munmap":
            phase.held -= regions.remove(args[0], -(-args[1] // page) * page)
        elif call == "mremap":
            size = -(-args[2] // page) * page
            old = regions.remove(args[0], -(-args[1] // page) * page)
            if old:
                regions.add(result, size)
                phase.held += size - old
                if size > old:
                    phase.sizes.append(size)
    return phases


@functools.cache
def _program():
    """Folder (removed with the process) and path of the compiled witness."""
    if not sys.platform.startswith("linux"):
        raise Unavailable("watching needs Linux")
    compiler = next(filter(None, map(shutil.which, [os.environ.get("CC", "cc"), "gcc", "clang"])), None)
    if compiler is None:
        raise Unavailable("no C compiler")
    folder = tempfile.TemporaryDirectory(prefix="tensorx-witness-")
    program = pathlib.Path(folder.name) / "witness"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run([compiler, *flags, str(SOURCE), "-o", str(program)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"witness.c does not compile:\n{done.stderr}")
    return folder, program


def watch(
    code,
    *,
    imports="import numpy as np\nimport tensorx as tx",
    threshold=16384,
    env=None,
    timeout=50,
):
    """Run `code` in a fresh interpreter and report what it took from the system, phase by phase.

    In `env` None takes a variable away.  Raises Unavailable where the system does not allow watching, AssertionError with the output
    when the code fails, subprocess.TimeoutExpired after `timeout` seconds.
    """
    folder, program = _program()
    environment = {
        **os.environ,
        "PYTHONMALLOC": "malloc",
        "MALLOC_MMAP_THRESHOLD_": str(threshold),
        "MALLOC_MMAP_MAX_": "1000000",
        "MALLOC_ARENA_MAX": "1",
        **(env or {}),
    }
    with tempfile.TemporaryDirectory(dir=folder.name) as run:
        log, names = pathlib.Path(run, "log"), pathlib.Path(run, "names")
        source = f"{imports}\n{textwrap.dedent(code)}"
        done = subprocess.run(
            [program, log, sys.executable, "-c", _WRAPPER.format(code=source, names=str(names))],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in environment.items() if value is not None},
        )
        if done.returncode == UNAVAILABLE_STATUS:
            raise Unavailable("the kernel does not allow ptrace with seccomp here")
        if done.returncode:
            raise AssertionError(f"ended with {done.returncode}:\n{done.stderr}\noutput:\n{done.stdout}")
        return Report(_read(log.read_text(), json.loads(names.read_text())), done.stdout)
