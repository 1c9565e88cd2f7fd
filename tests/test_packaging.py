"""The build, the package that it makes, and the scripts that a newcomer runs."""

import ast
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXT_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
X86 = platform.machine() in ("x86_64", "AMD64")


def load_setup(monkeypatch, *, system=None, machine=None, **env):
    """setup.py as a module, as it would be on another system."""
    if system:
        monkeypatch.setattr(sys, "platform", system)
    if machine:
        monkeypatch.setattr(platform, "machine", lambda: machine)
    for name in ("TENSORX_QUICK", "TENSORX_SANITIZE", "TENSORX_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("tensorx_setup_under_test", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_name(module):
    return {ext.name: ext for ext in module.extensions()}


def run(*command, cwd=ROOT, timeout=55, check=True, **env):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


# -- flags ---------------------------------------------------------------------------


def test_one_kernel_module_per_instruction_set(monkeypatch):
    on_x86 = by_name(load_setup(monkeypatch, system="linux", machine="x86_64"))
    assert set(on_x86) == {"tensorx._core"} | {
        f"tensorx._kernels_{isa}" for isa in ("base", "avx2", "avx512")
    }
    assert "-mfma" in on_x86["tensorx._kernels_avx2"].extra_compile_args
    assert "-mavx512vl" in on_x86["tensorx._kernels_avx512"].extra_compile_args
    assert not [flag for flag in on_x86["tensorx._kernels_base"].extra_compile_args if flag.startswith("-m")]
    on_arm = by_name(load_setup(monkeypatch, system="linux", machine="aarch64"))
    assert set(on_arm) == {"tensorx._core", "tensorx._kernels_base"}


@pytest.mark.parametrize("machine", ["arm64", "x86_64"])
def test_macos_passes_instruction_sets_to_the_x86_slice_only(monkeypatch, machine):
    """Universal builds compile one source for two machines with one command line."""
    exts = by_name(load_setup(monkeypatch, system="darwin", machine=machine))
    assert "tensorx.metal._bridge" in exts
    args = exts["tensorx._kernels_avx512"].extra_compile_args
    for i, flag in enumerate(args):
        if flag.startswith("-m"):
            assert args[i - 1] == "-Xarch_x86_64", args
    assert "-mavx512f" in args
    bridge = exts["tensorx.metal._bridge"]
    assert bridge.sources and all(name.endswith(".m") for name in bridge.sources)
    for framework in ("Foundation", "Metal", "CoreGraphics"):
        assert framework in bridge.extra_link_args
    assert "-fvisibility=hidden" not in bridge.extra_compile_args  # ctypes looks names up
    assert not any("-s" in flag.split(",") for ext in exts.values() for flag in ext.extra_link_args)


def test_flags_keep_ieee_results(monkeypatch):
    for name, ext in by_name(load_setup(monkeypatch, system="linux", machine="x86_64")).items():
        args = ext.extra_compile_args
        forbidden = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only"}
        assert not forbidden & set(args), name
        assert "-fwrapv" in args, name
        if "_kernels_" in name:
            assert "-ffp-contract=off" in args, name


def test_environment_chooses_quick_and_sanitized_builds(monkeypatch):
    for ext in load_setup(monkeypatch, TENSORX_QUICK="1").extensions():
        levels = [flag for flag in ext.extra_compile_args if flag.startswith("-O")]
        assert levels[-1] == "-O1", ext.name
    for ext in load_setup(monkeypatch, TENSORX_QUICK="0").extensions():
        assert "-O1" not in ext.extra_compile_args
    for ext in load_setup(monkeypatch, TENSORX_SANITIZE="address,undefined").extensions():
        assert "-fsanitize=address,undefined" in ext.extra_compile_args
        assert "-fsanitize=address,undefined" in ext.extra_link_args
        assert "-Wl,-s" not in ext.extra_link_args


@pytest.mark.parametrize(
    ("own", "expected"), [("10.13", "13.0"), ("11", "13.0"), ("15.0", "15.0"), (None, "13.0")]
)
def test_macos_target_is_13_or_pythons_own(monkeypatch, own, expected):
    module = load_setup(monkeypatch)
    monkeypatch.setattr(module.sysconfig, "get_config_var", lambda name: own)
    assert module.deployment_target() == expected


# -- the build itself ----------------------------------------------------------------

TOY_SETUP = """
    import importlib.util, os, sys
    from setuptools import Extension, setup
    spec = importlib.util.spec_from_file_location("real_setup", os.environ["REAL_SETUP"])
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    flags = ["-O1"]
    setup(
        name="toy",
        packages=[],
        ext_modules=[
            Extension("one", ["one.c"], extra_compile_args=flags),
            Extension("two", ["two.c", "more.c"], extra_compile_args=flags),
        ],
        cmdclass={"build_ext": real.BuildNative},
    )
"""

TOY_MODULE = """
    #include <Python.h>
    #include "{header}"
    static struct PyModuleDef def = {{PyModuleDef_HEAD_INIT, "{name}", 0, -1, 0, 0, 0, 0, 0}};
    PyMODINIT_FUNC PyInit_{name}(void) {{
        PyObject *m = PyModule_Create(&def);
        if (m) PyModule_AddIntConstant(m, "value", VALUE);
        return m;
    }}
"""


@pytest.fixture
def toy(tmp_path):
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("no C compiler: nothing was built on this machine")
    write = {
        "setup.py": TOY_SETUP,
        "one.c": TOY_MODULE.format(name="one", header="one.h"),
        "two.c": TOY_MODULE.format(name="two", header="two.h"),
        "more.c": "int toy_more(void) { return 1; }",
        "one.h": "#define VALUE 1",
        "two.h": "#define VALUE 2",
    }
    for name, text in write.items():
        (tmp_path / name).write_text(textwrap.dedent(text) + "\n")

    def build(check=True):
        done = run(
            sys.executable, "setup.py", "build_ext", "--inplace", "--build-temp", "objects",
            cwd=tmp_path, check=check, REAL_SETUP=str(ROOT / "setup.py"),
            TENSORX_SANITIZE="", TENSORX_BUILD_DIR="",
        )  # fmt: skip
        counts = re.search(r"compiled (\d+) of (\d+)", done.stdout)
        return done, (int(counts[1]), int(counts[2]))

    def value(name):
        return int(run(sys.executable, "-c", f"import {name}; print({name}.value)", cwd=tmp_path).stdout)

    def later(name, text):
        """Write with a newer time stamp, whatever the file system's resolution."""
        path = tmp_path / name
        path.write_text(text)
        stamp = path.stat().st_mtime + 5
        os.utime(path, (stamp, stamp))

    return build, value, later


def test_build_compiles_only_what_changed(toy):
    build, value, later = toy
    assert build()[1] == (3, 3)
    assert (value("one"), value("two")) == (1, 2)
    assert build()[1] == (0, 3)
    later("one.h", "#define VALUE 11\n")
    assert build()[1] == (1, 3)
    assert (value("one"), value("two")) == (11, 2)


def test_build_with_other_flags_compiles_again(toy, tmp_path):
    build, _, _ = toy
    assert build()[1] == (3, 3)
    script = tmp_path / "setup.py"
    script.write_text(script.read_text().replace('"-O1"', '"-O1", "-DOTHER"'))
    assert build()[1] == (3, 3)


def test_a_failing_extension_fails_the_build_and_spares_the_others(toy):
    build, value, later = toy
    later("two.c", "this is not C\n")
    done, _ = build(check=False)
    assert done.returncode != 0
    assert "not built: two" in done.stdout + done.stderr
    assert value("one") == 1


def test_interrupted_object_is_not_taken_for_a_good_one(toy, tmp_path):
    build, value, _ = toy
    build()
    (obj,) = (tmp_path / "objects" / "one").glob("*.o")
    obj.write_bytes(b"")  # a compiler killed while it wrote
    (tmp_path / "objects" / "one" / (obj.name + ".json")).unlink()
    assert build()[1] == (1, 3)
    assert value("one") == 1


def test_generated_kernels_are_the_same_every_time(monkeypatch, tmp_path):
    module = load_setup(monkeypatch)
    first = module.generate_kernels(str(tmp_path / "a"))
    second = module.generate_kernels(str(tmp_path / "b"))
    assert [os.path.basename(p) for p in first] == [os.path.basename(p) for p in second]
    assert first
    for a, b in zip(first, second):
        assert Path(a).read_bytes() == Path(b).read_bytes()
    stamps = [os.stat(path).st_mtime_ns for path in first]
    assert module.generate_kernels(str(tmp_path / "a")) == first
    assert [os.stat(path).st_mtime_ns for path in first] == stamps, "unchanged files were rewritten"


# -- what was built ------------------------------------------------------------------


def built(name):
    spec = importlib.util.find_spec(f"tensorx.{name}")
    assert spec is not None and spec.origin, f"tensorx.{name} is not built"
    return spec.origin


def kernel_modules():
    return ["_kernels_base", "_kernels_avx2", "_kernels_avx512"] if X86 else ["_kernels_base"]


@pytest.mark.parametrize("name", ["_core", *kernel_modules()])
def test_extensions_are_built_and_show_their_entry_point_only(name):
    """A symbol seen by others could be merged with one built for another instruction set."""
    origin = built(name)
    if sys.platform != "linux" or shutil.which("nm") is None:
        return
    out = run("nm", "-D", "--defined-only", origin).stdout
    symbols = {line.split()[-1] for line in out.splitlines()}
    assert symbols - {"_init", "_fini", "_edata", "_end", "__bss_start"} == {f"PyInit_{name}"}


@pytest.mark.parametrize("name", ["_core", *kernel_modules()])
def test_extensions_need_no_library_beside_libc(name):
    origin = built(name)
    if sys.platform != "linux" or shutil.which("readelf") is None:
        return
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", origin).stdout))
    strange = {
        lib
        for lib in needed
        if not re.match(r"(libc|libm|libpthread|libpython|ld-linux|libc\.musl|libgcc_s|libasan|libubsan)", lib)
    }
    assert not strange


def test_importing_tensorx_loads_one_kernel_module(run_child):
    code = """
        import sys
        print(*sorted(name for name in sys.modules if "_kernels_" in name))
    """
    assert len(run_child(code, imports="import tensorx").stdout.split()) == 1


# -- metadata and package contents ---------------------------------------------------


def pyproject_text():
    return (ROOT / "pyproject.toml").read_text()


def test_metadata():
    meta = importlib.metadata.metadata("tensorx-runtime")
    assert meta["Requires-Python"] == ">=3.10"
    assert meta["License-Expression"] == "Apache-2.0"
    version = re.search(r'^version = "(.*)"', pyproject_text(), re.M)[1]
    assert meta["Version"] == version, "reinstall: pip install -e ."
    import tensorx

    assert tensorx.__version__ == version
    needs = [r for r in importlib.metadata.requires("tensorx-runtime") if "extra ==" not in r]
    assert [re.match(r"[\w-]+", r)[0] for r in needs] == ["numpy"]


def test_classifiers_name_the_versions_that_are_tested():
    named = set(re.findall(r"Python :: (3\.\d+)", pyproject_text()))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert named <= set(re.findall(r'"(3\.\d+)"', workflow))


def test_every_extra_is_known():
    extras = set(importlib.metadata.metadata("tensorx-runtime").get_all("Provides-Extra"))
    assert {"test", "bench", "plot", "train", "io", "docs", "dev"} <= extras


@pytest.fixture(scope="module")
def pure_package(tmp_path_factory):
    """The files that setuptools puts into the package, but for compiled ones."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "tensorx", source / "tensorx", ignore=ignore)
    shutil.copytree(ROOT / "tests", source / "tests", ignore=ignore)
    run(sys.executable, "setup.py", "-q", "build_py", "--build-lib", folder / "out", cwd=source)
    return folder / "out"


def test_package_has_its_data_and_no_tests(pure_package):
    files = {p.relative_to(pure_package).as_posix() for p in pure_package.rglob("*") if p.is_file()}
    assert {name.split("/")[0] for name in files} == {"tensorx"}
    assert {"tensorx/py.typed", "tensorx/_core.pyi", "tensorx/metal/bridge.h"} <= files
    for path in (ROOT / "tensorx" / "metal" / "kernels").glob("*.metal"):
        assert f"tensorx/metal/kernels/{path.name}" in files
    assert any(name.endswith(".metal") for name in files)
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "tensorx").rglob("*.py")}
    assert sources <= files, f"folders without __init__.py: {sorted(sources - files)}"


def test_source_folder_without_core_says_what_to_do(pure_package):
    """What `python -c "import tensorx"` says in a fresh clone."""
    # -S: without site-packages, where an editable install would lend its own _core.
    done = run(sys.executable, "-S", "-c", "import tensorx", cwd=pure_package, check=False, PYTHONPATH="")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError"), done.stderr
    assert "pip install" in last and "source folder" in last, last


def test_warns_about_the_stranger_of_the_same_name(pure_package, tmp_path):
    """The distribution `tensorx` fills the same folder; both installed overwrite each other."""
    shutil.copytree(pure_package / "tensorx", tmp_path / "tensorx")
    for name in ["_core", *kernel_modules()]:
        os.symlink(built(name), tmp_path / "tensorx" / os.path.basename(built(name)))
    code = """
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            import tensorx
        assert tensorx.__file__.startswith(FOLDER), tensorx.__file__
        for w in seen:
            print(w.category.__name__, w.message)
    """
    code = textwrap.dedent(code).replace("FOLDER", repr(str(tmp_path)))
    assert run(sys.executable, "-c", code, cwd=tmp_path).stdout == ""
    (tmp_path / "tensorx_runtime-0.1.0.dist-info").mkdir()
    assert run(sys.executable, "-c", code, cwd=tmp_path).stdout == ""
    (tmp_path / "tensorx-0.12.0.dist-info").mkdir()
    out = run(sys.executable, "-c", code, cwd=tmp_path).stdout
    assert "Warning" in out and "tensorx-0.12.0" in out and "uninstall" in out, out


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_wheel_from_sdist_works_alone(tmp_path):
    """sdist -> wheel -> an empty folder on the path; needs Cython in this environment."""
    if importlib.util.find_spec("Cython") is None:
        if os.environ.get("CI"):
            pytest.fail("Cython is not installed: pip install '.[dev]'")
        pytest.skip("Cython is not installed")
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("__pycache__", "*.so", ".*", "build", "*.egg-info")
    shutil.copytree(ROOT, source, ignore=ignore)
    run(sys.executable, "setup.py", "-q", "sdist", "--dist-dir", tmp_path, cwd=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert not (unpacked / "tests").exists()
    run(
        sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", tmp_path,
        cwd=unpacked, timeout=360, TENSORX_QUICK="1", TENSORX_BUILD_DIR="",
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    names = {p.relative_to(tmp_path / "site").as_posix() for p in (tmp_path / "site").rglob("*")}
    assert f"tensorx/_core{EXT_SUFFIX}" in names
    assert not [name for name in names if name.endswith((".pyx", ".pxi", ".c", ".o"))]
    code = "import tensorx as tx; assert 'site' in tx.__file__; print(float((tx.ones(3) * 2.0).sum()))"
    done = run(sys.executable, "-c", code, cwd=tmp_path / "site", PYTHONPATH=str(tmp_path / "site"))
    assert done.stdout.strip() == "6.0"


# -- scripts -------------------------------------------------------------------------

SCRIPTS = ["bench/run", "tests/run", ".ci/run", "tools/env.sh", "tests/limit.sh"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_parse(script):
    run("bash", "-n", ROOT / script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_run_on_the_bash_of_macos(script):
    """macOS has bash 3.2: no associative arrays, mapfile, ${x,,} or |&."""
    text = (ROOT / script).read_text()
    assert not re.search(r"declare -A|local -A|mapfile|readarray|\$\{\w+(,,|\^\^)|\|&|&>>", text)


def env_sh(code, cwd=ROOT, **env):
    return run("bash", "-uc", f'. "{ROOT}/tools/env.sh"; {code}', cwd=cwd, check=False, **env)


def test_scripts_find_the_checkout_from_any_folder(tmp_path):
    done = env_sh("pwd; echo $root", cwd=tmp_path)
    assert done.stdout.split() == [str(ROOT), str(ROOT)], done.stderr


def test_scripts_take_no_old_python(tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # fails the version check, as 3.9 does
    old.chmod(0o755)
    done = env_sh(
        'find_python || echo "none"', PATH=f"{tmp_path}:/usr/bin:/bin", TENSORX_PYTHON=str(old)
    )
    assert done.stdout.strip() == "none"
    done = env_sh("find_python", TENSORX_PYTHON=sys.executable)
    assert done.stdout.strip() == sys.executable


def test_missing_packages_print_the_line_where_nothing_may_be_installed():
    if shutil.which("dpkg-query") is None:
        assert env_sh("apt_install why no-such-package").returncode == 1
        return
    done = env_sh("apt_install why no-such-package; echo status $?", TENSORX_NO_INSTALL="1")
    assert "apt-get install -y --no-install-recommends no-such-package" in done.stdout
    assert "status 1" in done.stdout


def test_fingerprint_follows_compiled_sources_only(tmp_path):
    for name in ("setup.py", "pyproject.toml"):
        (tmp_path / name).write_text("")
    for name in ("tensorx/_core.pyx", "tensorx/nn/linear.py", "tensorx/ops/table.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    def now():
        return env_sh(f'cd "{tmp_path}"; fingerprint "{sys.executable}"').stdout

    first = now()
    assert len(first.strip()) == 64
    (tmp_path / "tensorx/nn/linear.py").write_text("1")
    assert now() == first
    (tmp_path / "tensorx/ops/table.py").write_text("1")
    second = now()
    assert second != first
    (tmp_path / "tensorx/_core.pyx").write_text("1")
    assert now() != second


def test_public_modules_parse_on_the_oldest_python():
    """Syntax newer than 3.10 would pass here and fail there."""
    for path in (ROOT / "tensorx").rglob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 10))
