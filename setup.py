"""Build of the compiled parts of tensorx; everything else is in pyproject.toml.

What is built
    tensorx._core              the runtime (Cython)
    tensorx._kernels_<isa>     the C kernels, once per instruction set
    tensorx.metal._bridge      the Objective-C shim, on macOS only

Environment
    TENSORX_QUICK=1            compile with -O1: for development
    TENSORX_SANITIZE=a,b       build with -fsanitize=a,b (address, undefined, ...)
    TENSORX_DEBUG=1            keep debugging symbols
    TENSORX_BUILD_DIR=folder   keep objects here (pip itself builds in a folder that it deletes)
    TENSORX_JOBS=n             compiler processes at a time
    CC, CFLAGS, LDFLAGS, ARCHFLAGS, MACOSX_DEPLOYMENT_TARGET as usual

An object is rebuilt when its source, a header it includes or its flags change;
`python setup.py build_ext --inplace` is therefore quick the second time.
"""

import contextlib
import filecmp
import glob
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

HERE = os.path.dirname(os.path.abspath(__file__))
MACOS = sys.platform == "darwin"
X86 = ("x86_64", "amd64", "AMD64")


def env_flag(name):
    return os.environ.get(name, "") not in ("", "0")


QUICK = env_flag("TENSORX_QUICK")
SANITIZE = os.environ.get("TENSORX_SANITIZE", "")
DEBUG = env_flag("TENSORX_DEBUG") or bool(SANITIZE)

# No flag here may change an IEEE result: fused and op-by-op evaluation have to
# agree to the last bit, so contraction is off and FMA appears only where written.
KERNEL_FLAGS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fwrapv",
    "-fopenmp-simd",
    "-Wno-pass-failed",  # clang: loops that call libm cannot be vectorised
]
CORE_FLAGS = ["-O2", "-fwrapv", "-fno-strict-aliasing"]
ISA_FLAGS = {
    "base": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": [
        "-mavx512f",
        "-mavx512dq",
        "-mavx512bw",
        "-mavx512vl",
        "-mfma",
        "-mf16c",
        "-mprefer-vector-width=512",
    ],
}


def isas():
    """Instruction sets to build for the machine that the compiler aims at."""
    if MACOS or platform.machine() in X86:
        return list(ISA_FLAGS)  # on macOS the slices of other machines compile empty
    return ["base"]


def isa_flags(isa):
    if not MACOS:
        return ISA_FLAGS[isa]
    # One command may compile several slices: a plain -mavx2 is an error for arm64.
    flags = [part for flag in ISA_FLAGS[isa] for part in ("-Xarch_x86_64", flag)]
    return [*flags, "-Wno-unused-command-line-argument"]


def common_flags():
    flags = ["-std=c11", "-fvisibility=hidden", "-g" if DEBUG else "-g0"]
    if SANITIZE:
        flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    if QUICK:
        flags += ["-O1"]  # comes last, so it wins
    return flags


def link_flags():
    flags = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
    if not DEBUG and not MACOS:
        flags += ["-Wl,-s"]
    return flags


def extensions():
    native = os.path.join("tensorx", "_native")
    dirs = ["tensorx", native]
    libs = [] if MACOS else ["m", "pthread"]
    exts = [
        Extension(
            "tensorx._core",
            [os.path.join("tensorx", "_core.pyx")],
            include_dirs=dirs,
            libraries=libs,
            extra_compile_args=CORE_FLAGS + common_flags(),
            extra_link_args=link_flags(),
        )
    ]
    for isa in isas():
        exts.append(
            Extension(
                f"tensorx._kernels_{isa}",
                [os.path.join(native, "kernels.c")],
                include_dirs=dirs,
                libraries=libs,
                define_macros=[("TX_MODULE_NAME", f"_kernels_{isa}"), ("TX_ISA", f'"{isa}"')],
                extra_compile_args=KERNEL_FLAGS + common_flags() + isa_flags(isa),
                extra_link_args=link_flags(),
            )
        )
    if MACOS:
        flags = ["-fobjc-exceptions", "-fblocks"]
        flags += [f for f in common_flags() if f not in ("-std=c11", "-fvisibility=hidden")]
        frameworks = ["Foundation", "Metal", "CoreGraphics"]
        exts.append(
            Extension(
                # Never imported: opened by ctypes. As an extension it obeys CC,
                # ARCHFLAGS and editable installs like every other one.
                "tensorx.metal._bridge",
                sorted(glob.glob(os.path.join("tensorx", "metal", "*.m"))),
                include_dirs=[os.path.join("tensorx", "metal")],
                extra_compile_args=["-O2", *flags],
                extra_link_args=link_flags()
                + [part for name in frameworks for part in ("-framework", name)],
            )
        )
    return exts


def generate_kernels(outdir):
    """Run the op table's code generator; unchanged files keep their time stamps."""
    path = os.path.join(HERE, "tensorx", "ops", "codegen.py")
    spec = importlib.util.spec_from_file_location("tensorx_build_codegen", path)
    module = importlib.util.module_from_spec(spec)
    # Loaded by path: importing tensorx would need the _core that is being built.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    os.makedirs(outdir, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        sources = [os.path.relpath(p, tmp) for p in module.generate(tmp)]
        fresh = {
            os.path.relpath(os.path.join(root, name), tmp)
            for root, _, names in os.walk(tmp)
            for name in names
        }
        for name in fresh:
            new, old = os.path.join(tmp, name), os.path.join(outdir, name)
            if not (os.path.exists(old) and filecmp.cmp(new, old, shallow=False)):
                os.makedirs(os.path.dirname(old), exist_ok=True)
                shutil.copyfile(new, old)
        for root, _, names in os.walk(outdir):
            for name in names:
                if os.path.relpath(os.path.join(root, name), outdir) not in fresh:
                    os.unlink(os.path.join(root, name))
    return [os.path.join(outdir, name) for name in sources]


@contextlib.contextmanager
def exclusive(path):
    """Two builds in one folder wait for each other."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def read_depfile(path):
    """The prerequisites in a make rule written by -MD, or None."""
    try:
        with open(path) as f:
            text = f.read()
    except OSError:
        return None
    _, _, rest = text.replace("\\\n", " ").partition(": ")
    return [p.replace("\\ ", " ") for p in re.split(r"(?<!\\)\s+", rest.strip()) if p]


def up_to_date(obj, src, command):
    if not os.path.exists(obj):
        return False
    try:
        with open(obj + ".json") as f:
            if json.load(f) != command:
                return False
    except (OSError, ValueError):
        return False
    deps = read_depfile(obj + ".d")
    if deps is None:
        return False
    built = os.path.getmtime(obj)
    return all(os.path.exists(p) and os.path.getmtime(p) <= built for p in [src, *deps])


class BuildNative(build_ext):
    """build_ext that compiles all sources of all extensions concurrently."""

    def finalize_options(self):
        own_lib = self.build_lib is not None
        super().finalize_options()
        if os.environ.get("TENSORX_BUILD_DIR"):
            self.build_temp = os.environ["TENSORX_BUILD_DIR"]
        if self.inplace and not own_lib:
            self.build_lib = os.path.join(self.build_temp, "lib")

    def run(self):
        # setuptools clears the flag while it builds and copies afterwards.
        self._copies = self.inplace
        with exclusive(os.path.join(os.path.abspath(self.build_temp), ".lock")):
            super().run()

    def build_extensions(self):
        started = time.monotonic()
        failed = {}  # extension name -> reason
        tasks = []  # (extension, source)
        for ext in self.extensions:
            try:
                tasks += [(ext, src) for src in self._c_sources(ext)]
            except (Exception, SystemExit) as error:
                failed[ext.name] = f"{type(error).__name__}: {error}"
        objects = {ext.name: [] for ext in self.extensions}
        compiled = 0

        def one(task):
            ext, src = task
            try:
                return self._compile(ext, src)
            except CompileError as error:
                return error

        jobs = int(os.environ.get("TENSORX_JOBS") or self.parallel or os.cpu_count() or 2)
        # Big files first: the last job to start should be a short one.
        tasks.sort(key=lambda task: -os.path.getsize(task[1]))
        with ThreadPoolExecutor(jobs) as pool:
            for (ext, src), result in zip(tasks, pool.map(one, tasks)):
                if isinstance(result, Exception):
                    failed.setdefault(ext.name, f"{src}: {result}")
                else:
                    objects[ext.name].append(result[0])
                    compiled += result[1]
        built = [ext for ext in self.extensions if ext.name not in failed]
        for ext in built:
            try:
                self._link(ext, sorted(objects[ext.name]))
            except LinkError as error:
                failed[ext.name] = str(error)
        print(
            f"tensorx: compiled {compiled} of {len(tasks)} sources with {jobs} jobs "
            f"in {time.monotonic() - started:.1f} s"
        )
        if failed:
            # What could be built is put in place even so; the build still fails.
            self.extensions = [ext for ext in built if ext.name not in failed]
            if self._copies:
                self.copy_extensions_to_source()
            raise CompileError(
                "not built: " + "; ".join(f"{name} ({why})" for name, why in failed.items())
            )

    def _c_sources(self, ext):
        if ext.name.startswith("tensorx._kernels_"):
            generated = os.path.join(self.build_temp, "generated")
            if not hasattr(self, "_generated"):
                self._generated = generate_kernels(generated)
            if generated not in ext.include_dirs:
                ext.include_dirs.append(generated)
            return ext.sources + self._generated
        if not ext.sources[0].endswith(".pyx"):
            return ext.sources
        from Cython.Build import cythonize

        for path in ext.sources:
            if not os.path.exists(path):
                raise FileNotFoundError(path)
        (made,) = cythonize(
            [ext],
            build_dir=os.path.join(self.build_temp, "cython"),
            compiler_directives={"language_level": 3},
        )
        return made.sources

    def _compile(self, ext, src):
        """Compile one source; returns (object, whether anything was done)."""
        outdir = os.path.join(self.build_temp, ext.name)
        (obj,) = self.compiler.object_filenames([src], output_dir=outdir)
        macros = list(ext.define_macros)
        args = list(ext.extra_compile_args)
        if not src.endswith((".c", ".cpp")):
            args = [a for a in args if a != "-std=c11"]
        command = [self.compiler.compiler_so, macros, args, ext.include_dirs, self.include_dirs]
        command += [os.environ.get(name) for name in ("ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET")]
        command = json.loads(json.dumps(command))
        if not self.force and up_to_date(obj, src, command):
            return obj, 0
        os.makedirs(os.path.dirname(obj), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(obj + ".json")
        # The object is stamped with the time the compiler started, so that an edit
        # made while it runs is seen by the next build.
        began = time.time()
        self.compiler.compile(
            [src],
            output_dir=outdir,
            macros=macros,
            include_dirs=ext.include_dirs,
            debug=DEBUG,
            extra_postargs=[*args, "-MD", "-MF", obj + ".d"],
            depends=[src],
        )
        os.utime(obj, (began, began))
        with open(obj + ".json", "w") as f:
            json.dump(command, f)
        return obj, 1

    def _link(self, ext, objects):
        path = self.get_ext_fullpath(ext.name)
        stamp = os.path.join(self.build_temp, ext.name, "link.json")
        link = [self.compiler.linker_so, ext.extra_link_args, ext.libraries, path, objects]
        link += [[os.stat(obj).st_mtime_ns, os.stat(obj).st_size] for obj in objects]
        link = json.loads(json.dumps(link))
        with contextlib.suppress(OSError, ValueError), open(stamp) as f:
            if not self.force and os.path.exists(path) and json.load(f) == link:
                return
        self.compiler.link_shared_object(
            objects + list(ext.extra_objects),
            path,
            libraries=self.get_libraries(ext),
            library_dirs=ext.library_dirs,
            runtime_library_dirs=ext.runtime_library_dirs,
            extra_postargs=ext.extra_link_args,
            export_symbols=None,
            debug=DEBUG,
            build_temp=self.build_temp,
            target_lang="c",
        )
        with open(stamp, "w") as f:
            json.dump(link, f)


def deployment_target():
    """Oldest macOS to build for: 13.0, or Python's own target where that is newer.

    python.org builds aim at 10.x, and a wheel must not promise systems that lack the
    API which the bridge uses; nor systems on which this Python does not start.
    """
    own = sysconfig.get_config_var("MACOSX_DEPLOYMENT_TARGET") or "13.0"
    return max(["13.0", str(own)], key=lambda version: [int(n) for n in version.split(".")])


if __name__ == "__main__":
    os.chdir(HERE)
    if MACOS:
        os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", deployment_target())
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative})
