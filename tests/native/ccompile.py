"""Compiles the C drivers of this folder, plainly and with sanitizers, and runs their cases."""

import functools
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "tensorx" / "_native"

_COMMON = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(NATIVE), "-I", str(HERE)]
BUILDS = {
    "plain": ["-O2"],
    "condvar": ["-O2", "-DTX_POOL_CONDVAR"],
    "thread": ["-O1", "-g", "-fsanitize=thread"],
    "thread-condvar": ["-O1", "-g", "-fsanitize=thread", "-DTX_POOL_CONDVAR"],
    "address": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}


class Unavailable(Exception):
    """This machine cannot make or run such a program; the text says why."""


def compilers():
    """The C compilers of this machine, the preferred one first."""
    found = []
    for name in (os.environ.get("CC"), "gcc", "clang", "cc"):
        path = name and shutil.which(name.split()[0])
        if path and os.path.realpath(path) not in map(os.path.realpath, found):
            found.append(path)
    return found


@functools.cache
def _folder():
    folder = tempfile.TemporaryDirectory(prefix="tensorx-native-")
    return folder, pathlib.Path(folder.name)  # the object removes the folder when it goes


def _sanitizer_runs(compiler, flags):
    """Whether a program with these flags links and runs; returns the command prefix it needs, or None."""
    source = _folder()[1] / "probe.c"
    source.write_text("int main(void) { return 0; }\n")
    program = source.with_suffix(f".{abs(hash((compiler, tuple(flags))))}")
    if subprocess.run([compiler, *flags, str(source), "-o", str(program)], capture_output=True).returncode:
        return None
    # Old thread sanitizers cannot live with a kernel that randomises many address bits.
    setarch = shutil.which("setarch")
    prefixes = [[], [setarch, platform.machine(), "-R"]] if setarch else [[]]
    for prefix in prefixes:
        if all(
            subprocess.run([*prefix, str(program)], capture_output=True).returncode == 0 for _ in range(5)
        ):
            return prefix
    return None


@functools.cache
def build(source, variant="plain", compiler=None):
    """Path of the compiled driver and the prefix of its command line; raises Unavailable."""
    flags = BUILDS[variant]
    prefix = []
    if compiler is None:
        available = compilers()
        if not available:
            raise Unavailable("no C compiler")
        if any(flag.startswith("-fsanitize") for flag in flags):
            for compiler in available:
                prefix = _sanitizer_runs(compiler, flags)
                if prefix is not None:
                    break
            else:
                raise Unavailable(f"no compiler here runs programs with {' '.join(flags)}")
        else:
            compiler = available[0]
    program = _folder()[1] / f"{source}.{variant}.{os.path.basename(compiler)}"
    done = subprocess.run(
        [compiler, *_COMMON, *flags, str(HERE / source), "-o", str(program)], capture_output=True, text=True
    )
    if done.returncode:
        raise AssertionError(f"{source} does not compile ({variant}, {compiler}):\n{done.stderr}")
    return program, prefix


def run(source, *args, variant="plain", compiler=None, env=None, timeout=50):
    """Run a driver's case; returns its output, raises AssertionError unless it succeeds."""
    program, prefix = build(source, variant, compiler)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TENSORX_")}  # a case chooses its threads itself
    done = subprocess.run(
        [*prefix, str(program), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**inherited, "TSAN_OPTIONS": "halt_on_error=1", **(env or {})},
    )
    if done.returncode or "WARNING: ThreadSanitizer" in done.stderr:
        raise AssertionError(
            f"{source} {args} ({variant}) ended with {done.returncode}:\n{done.stderr}{done.stdout}"
        )
    return done.stdout
