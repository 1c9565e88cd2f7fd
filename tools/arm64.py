"""The native sources on arm64, checked from an x86-64 Linux machine.

    python tools/arm64.py [--compile-only]

1. clang compiles the kernels, without a warning, and the generated _core.c for
   aarch64-linux-gnu.
2. Where qemu-aarch64 and the cross C library are installed, every kernel runs there on
   fixed inputs, and its results are compared, bit for bit, with those of the AVX2 build.
   Both have fused multiply-add, so only what calls the C library may differ: it is listed.
   Casts, reductions and the table's exact rows of real dtypes have to agree.

Exit status 0: all of what this machine can do went well; the last line says what was done.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tools" / "arm64"
NATIVE = ROOT / "tensorx" / "_native"
OUT = ROOT / "build" / "arm64"
TRIPLE = "aarch64-linux-gnu"
SYSROOT = Path("/usr") / TRIPLE
# Kernels use & and | on truth values on purpose; a unit may use part of a header.
ALLOWED = ["-Wno-bitwise-instead-of-logical", "-Wno-bitwise-conditional-parentheses", "-Wno-unused-function"]
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", *ALLOWED]


def load(path: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        text = (done.stderr or done.stdout).strip()[-3000:]
        raise SystemExit(f"arm64: failed: {' '.join(map(str, command))}\n{text}")
    return done.stdout


def write_rows(path: Path) -> set[str]:
    """table_rows.h: what driver.c has to know about each row of the table; returns the exact rows' names."""
    table = load(ROOT / "tensorx" / "ops" / "table.py", "tensorx_arm64_table")
    bool_, f32, f64, c64, c128 = 0, 11, 12, 13, 14
    complex_of = {f32: c64, f64: c128}
    real_of = {c64: f32, c128: f64}
    lines = ["struct row { const char *name; int arity; unsigned masks; int out[15]; };"]
    lines.append("static const struct row rows[] = {")
    for row in table.TABLE:
        out = []
        for dt in range(15):
            rules = {"bool": bool_, "real": real_of.get(dt, dt), "complex": complex_of.get(dt, dt)}
            out.append(rules.get(row.out, dt))
        masks = sum(1 << position for position in row.masks)
        outs = ", ".join(map(str, out))
        lines.append(f'    {{"{row.name}", {row.arity}, {masks}, {{{outs}}}}},')
    lines.append("};")
    path.write_text("\n".join(lines) + "\n")
    return {row.name for row in table.TABLE if row.ulp == 0}


def multiarch_headers() -> list[str]:
    """Debian's pyconfig.h includes one per machine; both are 64-bit Linux, so ours stands in."""
    own = Path("/usr/include") / "x86_64-linux-gnu" / f"python3.{sys.version_info.minor}"
    if not own.is_dir():
        return []
    shim = OUT / "include" / TRIPLE / own.name
    shutil.copytree(own, shim, dirs_exist_ok=True)
    return ["-I", str(OUT / "include")]


def parallel(commands) -> None:
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(run, commands))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile-only", action="store_true")
    args = parser.parse_args()
    clang = shutil.which("clang")
    if clang is None or not (SYSROOT / "include" / "stdio.h").exists():
        print("arm64: NOT checked: clang or libc6-dev-arm64-cross is missing")
        return 0
    os.chdir(ROOT)
    OUT.mkdir(parents=True, exist_ok=True)
    setup = load(ROOT / "setup.py", "tensorx_arm64_setup")
    units = setup.generate_kernels(str(OUT / "generated"))
    exact = write_rows(OUT / "table_rows.h")
    kernel_flags = [*setup.KERNEL_FLAGS, *WARNINGS]
    include = ["-I", NATIVE, "-I", OUT / "generated", "-I", OUT, "-I", HERE]
    arm = [clang, f"--target={TRIPLE}", "-mno-outline-atomics", "-isystem", SYSROOT / "include"]
    define = ["-DTX_MODULE_NAME=_kernels_base", '-DTX_ISA="base"']

    # 1. compile
    sources = [*units, NATIVE / "kernels.c"]
    commands, objects = [], []
    for source in [*units, HERE / "driver.c"]:
        obj = OUT / f"arm_{Path(source).stem}.o"
        objects.append(obj)
        commands.append([*arm, *kernel_flags, *define, *include, "-c", source, "-o", obj])
    python = ["-I", sysconfig.get_path("include"), *multiarch_headers()]
    kernels_c = [*arm, *kernel_flags, *define, "-I", NATIVE, "-I", OUT / "generated", *python]
    commands.append([*kernels_c, "-c", NATIVE / "kernels.c", "-o", OUT / "kernels.o"])
    core = ROOT / "tensorx" / "_core.pyx"
    if core.exists():
        made = OUT / "_core.c"
        run([sys.executable, "-m", "cython", "-3", core, "-o", made, "-I", ROOT])
        core_flags = [flag for flag in setup.CORE_FLAGS if flag != "-O2"] + ["-std=c11", "-Wall", "-O1"]
        core_include = ["-I", ROOT / "tensorx", "-I", NATIVE, *python]
        commands.append([*arm, *core_flags, *core_include, "-c", made, "-o", OUT / "_core.o"])
    parallel(commands)
    print(f"arm64: compiled {len(sources)} kernel sources" + (" and _core" if core.exists() else ""))

    # 2. run
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    linker = shutil.which("ld.lld")
    if args.compile_only or qemu is None or linker is None:
        why = "--compile-only" if args.compile_only else "qemu-aarch64 or lld is missing"
        print(f"arm64: compiled; NOT run: {why}")
        return 0
    lib = SYSROOT / "lib"

    def link(target, inputs):
        start = [lib / "crt1.o", lib / "crti.o"]
        loader = ["-dynamic-linker", "/lib/ld-linux-aarch64.so.1"]
        run([linker, *loader, "-L", lib, "-o", target, *start, *inputs, "-lm", "-lc", lib / "crtn.o"])

    link(OUT / "driver", objects)
    on_arm = run([qemu, "-L", SYSROOT, OUT / "driver"], timeout=300)
    native = OUT / "driver_avx2"
    native_define = ["-DTX_MODULE_NAME=_kernels_avx2", '-DTX_ISA="avx2"', *setup.ISA_FLAGS["avx2"]]
    built = [OUT / f"x86_{Path(source).stem}.o" for source in [*units, HERE / "driver.c"]]
    parallel(
        [clang, *kernel_flags, *native_define, *include, "-c", source, "-o", obj]
        for source, obj in zip([*units, HERE / "driver.c"], built)
    )
    run([clang, "-o", native, *built, "-lm"])
    cpu = Path("/proc/cpuinfo").read_text()
    runner = [native] if " avx2" in cpu and " fma" in cpu else None
    if runner is None:
        print(f"arm64: ran {len(on_arm.splitlines())} kernels; NOT compared: this machine has no AVX2")
        return 0
    on_x86 = run(runner, timeout=300)
    mine, theirs = on_arm.splitlines(), on_x86.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in mine] == [line.rsplit(" ", 1)[0] for line in theirs]
    differ = [a.rsplit(" ", 1)[0] for a, b in zip(mine, theirs) if a != b]
    wrong = [
        name
        for name in differ
        if name.startswith(("cast", "reduce")) or (name.split()[0] in exact and "complex" not in name)
    ]
    print(f"arm64: {len(mine)} kernels ran, {len(differ)} give other last bits than on AVX2: " + ", ".join(differ))
    if wrong:
        print("arm64: FAILED, these have to be the same on every machine: " + ", ".join(wrong))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
