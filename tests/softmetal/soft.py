"""The stand-in from Python: builds it with driver.m and wraps what tests need.

Used by the tests of the stand-in; the tests of tensorx go through tensorx.
"""

from __future__ import annotations

import ctypes as C
import functools
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAFE = (
    "#pragma METAL fp math_mode(safe)\n#pragma METAL fp contract(off)\n"
    "#include <metal_stdlib>\nusing namespace metal;\n"
)


def missing() -> str | None:
    """Why the stand-in cannot be built here, or None."""
    if os.uname().sysname != "Linux":
        return "the stand-in is for Linux"
    if not shutil.which("gnustep-config"):
        return "GNUstep is not installed (apt-get install libgnustep-base-dev)"
    if not (shutil.which(os.environ.get("CLANG", "clang")) or shutil.which("clang-19")):
        return "clang is not installed"
    return None


def build(*arguments: str) -> list[str]:
    """Run build.sh; its lines, the last one being the path of the library."""
    done = subprocess.run(
        [str(HERE / "build.sh"), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"build.sh failed:\n{done.stdout}{done.stderr}")
    return done.stdout.split()


@functools.cache
def library() -> C.CDLL:
    """The driver, with all its signatures."""
    lib = C.CDLL(build(f"--bridge={HERE / 'driver.m'}")[-1])
    p, u, i, s = C.c_void_p, C.c_ulong, C.c_int, C.c_char_p
    signatures = {
        "sm_set": (i, s, C.c_long), "sm_get": (C.c_long, s), "sm_violations": (i, s, C.c_size_t),
        "sm_clear": (None,), "sm_reset": (None,), "sm_describe": (i, s, C.c_size_t),
        "d_release": (None, p), "d_retain": (None, p), "d_devices": (i,), "d_device": (p, i),
        "d_name": (None, p, s, C.c_size_t), "d_responds": (i, p, s), "d_family": (i, p, i),
        "d_allocated": (C.c_uint64, p),
        "d_library": (p, p, s, i, u, s, s, C.c_size_t),
        "d_function_names": (i, p, s, C.c_size_t),
        "d_function": (p, p, s, s, s, C.c_size_t), "d_pipeline": (p, p, p, u, s, C.c_size_t),
        "d_pipeline_info": (u, p, i), "d_buffer": (p, p, u, u, s),
        "d_buffer_no_copy": (p, p, p, u, C.POINTER(i)), "d_contents": (p, p),
        "d_did_modify": (None, p), "d_queue": (p, p, u), "d_command_buffer": (p, p, i),
        "d_command_buffer_no_pool": (p, p), "d_commit": (None, p), "d_enqueue": (None, p),
        "d_wait": (None, p), "d_status": (i, p), "d_error": (i, p, s, C.c_size_t),
        "d_error_encoders": (None, p, s, C.c_size_t), "d_gpu_time": (C.c_double, p),
        "d_handler": (None, p, C.POINTER(i), C.POINTER(i), C.POINTER(i)),
        "d_bad_handler": (None, p, i), "d_block_check": (i,), "d_encoder": (p, p, i, s),
        "d_set_pipeline": (None, p, p), "d_set_buffer": (None, p, p, u, u),
        "d_set_buffer_offset": (None, p, u, u), "d_set_bytes": (None, p, p, u, u),
        "d_set_threadgroup": (None, p, u, u), "d_dispatch": (None, p, i, u * 3, u * 3),
        "d_dispatch_indirect": (None, p, p, u, u), "d_barrier": (None, p),
        "d_signpost": (None, p, s), "d_end": (None, p), "d_copy": (None, p, p, u, p, u, u),
        "d_fill": (None, p, p, u, u, i), "d_fence": (p, p), "d_use_fence": (None, p, p, i),
        "d_event": (p, p), "d_event_value": (C.c_uint64, p),
        "d_event_set": (None, p, C.c_uint64), "d_event_wait": (i, p, C.c_uint64, C.c_uint64),
        "d_event_notify": (None, p, C.c_uint64, C.POINTER(i)),
        "d_encode_event": (None, p, p, C.c_uint64, i),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def text(function, *arguments) -> str:
    """Call a function that fills a buffer with text."""
    out = C.create_string_buffer(65536)
    function(*arguments, out, len(out))
    return out.value.decode()


def violations() -> list[str]:
    return text(library().sm_violations).splitlines()


def knobs(**values: int) -> None:
    for name, value in values.items():
        if library().sm_set(name.encode(), value):
            raise KeyError(name)


def get(name: str) -> int:
    return library().sm_get(name.encode())


class CompileError(Exception):
    pass


class Soft:
    """A device with one queue; buffers are ctypes arrays over their contents."""

    def __init__(self, index: int = -1) -> None:
        self.lib = library()
        self.device = self.lib.d_device(index)
        self.queue = self.lib.d_queue(self.device, 0)
        self.buffers: list[Buffer] = []

    def close(self) -> None:
        for buffer in self.buffers:
            buffer.release()
        self.lib.d_release(self.queue)
        self.lib.d_release(self.device)

    def compile(self, source: str, *, math: int = 1, version: int = 0, macros: str | None = None):
        out = C.create_string_buffer(65536)
        made = self.lib.d_library(
            self.device, source.encode(), math, version, macros and macros.encode(), out, len(out)
        )
        if not made:
            raise CompileError(out.value.decode())
        return made

    def function(self, library, name: str, constants: str | None = None):
        out = C.create_string_buffer(4096)
        made = self.lib.d_function(
            library, name.encode(), constants and constants.encode(), out, len(out)
        )
        if not made:
            raise CompileError(out.value.decode() or f"no function {name}")
        return made

    def pipeline(self, source: str, name: str = "k", *, max_threads: int = 0, **options):
        library = self.compile(source, **options)
        function = self.function(library, name)
        out = C.create_string_buffer(4096)
        state = self.lib.d_pipeline(self.device, function, max_threads, out, len(out))
        self.lib.d_release(function)
        self.lib.d_release(library)
        if not state:
            raise CompileError(out.value.decode())
        return state

    def buffer(self, values, kind=C.c_float, *, options: int = 0, label: str | None = None):
        n = values if isinstance(values, int) else len(values)
        return Buffer(self, n, kind, None if isinstance(values, int) else values, options, label)

    def command_buffer(self, unretained: int = 0):
        return self.lib.d_command_buffer(self.queue, unretained)

    def encode(self, cb, state, arguments, grid, group, *, threads=True, kind=0, local=(), label=None):
        """One encoder with one dispatch.  Arguments: buffers, (buffer, offset) or bytes."""
        e = self.lib.d_encoder(cb, kind, label and label.encode())
        self.dispatch(e, state, arguments, grid, group, threads=threads, local=local)
        self.lib.d_end(e)
        self.lib.d_release(e)

    def dispatch(self, e, state, arguments, grid, group, *, threads=True, local=()):
        self.lib.d_set_pipeline(e, state)
        for index, a in enumerate(arguments):
            if isinstance(a, bytes):
                self.lib.d_set_bytes(e, a, len(a), index)
            elif isinstance(a, tuple):
                self.lib.d_set_buffer(e, a[0].handle, a[1], index)
            elif a is not None:
                self.lib.d_set_buffer(e, a.handle, 0, index)
        for index, n in enumerate(local):
            self.lib.d_set_threadgroup(e, n, index)
        three = C.c_ulong * 3
        self.lib.d_dispatch(e, int(threads), three(*_sizes(grid)), three(*_sizes(group)))

    def run(self, state, arguments, grid, group=64, **options):
        """Dispatch and wait; the error code and text."""
        cb = self.command_buffer(options.pop("unretained", 0))
        self.encode(cb, state, arguments, grid, group, **options)
        self.lib.d_commit(cb)
        return self.finish(cb)

    def finish(self, cb):
        self.lib.d_wait(cb)
        out = C.create_string_buffer(4096)
        code = self.lib.d_error(cb, out, len(out))
        self.lib.d_release(cb)
        return code, out.value.decode()


def _sizes(n):
    sizes = (n,) if isinstance(n, int) else tuple(n)
    return sizes + (1,) * (3 - len(sizes))


class Buffer:
    def __init__(self, soft, n, kind, values, options=0, label=None) -> None:
        self.soft, self.kind = soft, kind
        self.handle = soft.lib.d_buffer(
            soft.device, n * C.sizeof(kind), options, label and label.encode()
        )
        self.data = None
        soft.buffers.append(self)
        if self.handle:
            address = soft.lib.d_contents(self.handle)
            if address:
                self.data = (kind * n).from_address(address)
        if values is not None:
            self.data[:] = values

    def __getitem__(self, index):
        return self.data[index]

    def __setitem__(self, index, value):
        self.data[index] = value

    def list(self) -> list:
        return list(self.data)

    def release(self) -> None:
        if self.handle:
            self.soft.lib.d_release(self.handle)
        self.handle = self.data = None
