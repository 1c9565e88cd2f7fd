"""The C interface of ``bridge.h`` for ctypes: constants, structs, signatures, loading, error codes.

Only ``bridge.py`` uses it.  A shim of another version or with other struct layouts is refused.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import sys
import threading
from ctypes import c_char, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from tensorx.errors import DeviceNotFoundError, MetalError, OutOfMemoryError

ABI_VERSION = 1
SLICE_MS = 50
AGAIN = 1 << 30
MAX_BINDINGS = 28
MAX_CONSTANT_BYTES = 4096

OK, PENDING = 0, 1
E_ARGUMENT, E_NO_DEVICE, E_REFUSED, E_MEMORY, E_COMPILE, E_SERVICE = -1, -2, -3, -4, -5, -6
E_COMMAND, E_POISONED, E_FORKED, E_EXCEPTION, E_CLOSED = -7, -8, -9, -10, -11

READ, WRITE, OVERWRITE = 1, 2, 4
ALLOC_HOST = 1
GRID_IN_GROUPS = 1

DEV_UNIFIED, DEV_LOW_POWER, DEV_HEADLESS, DEV_REMOVABLE, DEV_DEFAULT, DEV_REFUSED = 1, 2, 4, 8, 16, 32
CAP_MATH_MODE, CAP_LANGUAGE_VERSION, CAP_ARCHITECTURE, CAP_FAMILY = 1, 2, 4, 8

# Metal's own codes of MTLCommandBufferError.
COMMAND_ERRORS = {
    1: "internal error",
    2: "timeout: the work took too long",
    3: "page fault: memory outside of a buffer",
    4: "access revoked, or ignored after earlier failures",
    7: "not permitted",
    8: "out of memory",
    9: "invalid resource",
    11: "device removed",
    12: "stack overflow",
}


class ErrorStruct(ctypes.Structure):
    _fields_ = [
        ("code", c_int32),
        ("detail", c_int32),
        ("stamp", c_uint64),
        ("message", c_char * 2048),
        ("kernels", c_char * 1024),
    ]


class DeviceStruct(ctypes.Structure):
    _fields_ = [
        ("registry_id", c_uint64),
        ("max_buffer_bytes", c_uint64),
        ("working_set_bytes", c_uint64),
        ("max_threadgroup_bytes", c_uint64),
        ("max_threads", c_uint32 * 3),
        ("flags", c_uint32),
        ("families", c_uint32),
        ("capabilities", c_uint32),
        ("translated", c_uint32),
        ("name", c_char * 128),
        ("architecture", c_char * 64),
        ("refusal", c_char * 256),
    ]


class OptionsStruct(ctypes.Structure):
    _fields_ = [
        ("memory_limit", c_uint64),
        ("cache_limit", c_uint64),
        ("buffer_limit", c_uint64),
        ("batch_bytes", c_uint64),
        ("batch_ops", c_uint64),
        ("batch_dispatches", c_uint32),
        ("page_bytes", c_uint32),
        ("no_slabs", c_uint32),
        ("reserved", c_uint32),
    ]


class StatsStruct(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "requested allocations live live_buffers peak cached cached_buffers reserved metal_buffers driver "
            "pool_hits system_allocations command_buffers dispatches waits compiled in_flight open_stamp horizon "
            "failures poisoned gpu_nanoseconds pressure_events misuse"
        ).split()
    ]


class BufferStruct(ctypes.Structure):
    _fields_ = [
        ("contents", c_void_p),
        ("bytes", c_uint64),
        ("capacity", c_uint64),
        ("uid", c_uint64),
        ("last_use", c_uint64),
        ("last_write", c_uint64),
        ("poison", c_uint64),
        ("metal_buffer", c_void_p),
        ("metal_offset", c_uint64),
        ("exports", c_int32),
        ("live", c_int32),
    ]


class KernelStruct(ctypes.Structure):
    _fields_ = [
        ("kernel", c_void_p),
        ("static_threadgroup_bytes", c_uint64),
        ("max_threads", c_uint32),
        ("execution_width", c_uint32),
    ]


class BindingStruct(ctypes.Structure):
    _fields_ = [("buffer", c_void_p), ("offset", c_int64), ("item_bytes", c_uint32), ("access", c_uint32)]


class DispatchStruct(ctypes.Structure):
    _fields_ = [
        ("kernel", c_void_p),
        ("bindings", ctypes.POINTER(BindingStruct)),
        ("constants", c_char_p),
        ("label", c_char_p),
        ("grid", c_uint64 * 3),
        ("origin", c_uint64 * 3),
        ("ops", c_uint64),
        ("group", c_uint32 * 3),
        ("nbindings", c_uint32),
        ("constant_bytes", c_uint32),
        ("threadgroup_bytes", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class DispatchedStruct(ctypes.Structure):
    _fields_ = [("stamp", c_uint64), ("must_wait", c_uint32), ("committed", c_uint32)]


class MarkStruct(ctypes.Structure):
    _fields_ = [("uid", c_uint64), ("stamp", c_uint64)]


STRUCTS = {
    1: ErrorStruct,
    2: DeviceStruct,
    3: OptionsStruct,
    4: StatsStruct,
    5: BufferStruct,
    6: KernelStruct,
    7: BindingStruct,
    8: DispatchStruct,
    9: DispatchedStruct,
    10: MarkStruct,
}

_P = ctypes.POINTER
_ERR = _P(ErrorStruct)
_OUT_HANDLE = _P(c_void_p)

# name -> (result, arguments)
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "txm_abi_version": (c_uint32, []),
    "txm_struct_size": (c_uint32, [c_uint32]),
    "txm_struct_last": (c_uint32, [c_uint32]),
    "txm_build_info": (c_char_p, []),
    "txm_forked": (c_int32, []),
    "txm_test_knob": (c_int32, [c_char_p, c_int64]),
    "txm_device_count": (c_int32, [_P(c_uint32), _ERR]),
    "txm_device_get": (c_int32, [c_uint32, _P(DeviceStruct), _ERR]),
    "txm_open": (c_int32, [c_uint32, _P(OptionsStruct), _OUT_HANDLE, _ERR]),
    "txm_close": (c_int32, [c_void_p, _ERR]),
    "txm_get_options": (c_int32, [c_void_p, _P(OptionsStruct), _ERR]),
    "txm_set_options": (c_int32, [c_void_p, _P(OptionsStruct), _ERR]),
    "txm_get_stats": (c_int32, [c_void_p, _P(StatsStruct), _ERR]),
    "txm_reset_peak": (c_int32, [c_void_p, _ERR]),
    "txm_alloc": (c_int32, [c_void_p, c_uint64, c_uint32, _OUT_HANDLE, _P(BufferStruct), _ERR]),
    "txm_release": (None, [c_void_p]),
    "txm_buffer_get": (c_int32, [c_void_p, _P(BufferStruct), _ERR]),
    "txm_buffer_export": (c_int32, [c_void_p, c_int32]),
    "txm_buffer_heal": (c_int32, [c_void_p, _ERR]),
    "txm_trim": (c_int32, [c_void_p, c_uint64, _P(c_uint64), _ERR]),
    "txm_kernel_get": (c_int32, [c_void_p, c_char_p, c_char_p, _P(KernelStruct), _ERR]),
    "txm_kernel_release": (None, [c_void_p]),
    "txm_encode": (c_int32, [c_void_p, _P(DispatchStruct), _P(DispatchedStruct), _ERR]),
    "txm_commit": (c_int32, [c_void_p, _P(c_uint64), _ERR]),
    "txm_wait": (c_int32, [c_void_p, c_uint64, c_uint32, _ERR]),
    "txm_wait_buffer": (c_int32, [c_void_p, c_uint32, c_uint32, _ERR]),
    "txm_poisoned": (c_int32, [c_void_p, _P(MarkStruct), c_uint32, _P(c_uint32), _ERR]),
}


# ---- finding and loading ---------------------------------------------------------------------


def find() -> str | None:
    """Path of the shim: ``TENSORX_METAL_BRIDGE``, else the one built with the package, else None."""
    named = os.environ.get("TENSORX_METAL_BRIDGE")
    if named:
        return os.path.abspath(named)
    try:
        spec = importlib.util.find_spec("tensorx.metal._bridge")
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None


class Bridge:
    """The loaded shim: its path, what built it, and its functions as attributes."""

    def __init__(self, path: str):
        self.path = path
        try:
            lib = ctypes.CDLL(path)
        except OSError as error:
            raise MetalError(f"the Metal bridge {path} cannot be loaded: {error}") from None
        try:
            lib.txm_abi_version.restype = c_uint32
            found = lib.txm_abi_version()
        except AttributeError:
            raise MetalError(f"{path} is not a Metal bridge of tensorx: it has no txm_abi_version") from None
        if found != ABI_VERSION:
            raise MetalError(
                f"the Metal bridge {path} has version {found}, this tensorx needs version {ABI_VERSION}: "
                "build both from the same source (pip install --force-reinstall --no-deps .)"
            )
        for name, (restype, argtypes) in SIGNATURES.items():
            try:
                function = getattr(lib, name)
            except AttributeError:
                raise MetalError(f"the Metal bridge {path} has no function {name}: rebuild it") from None
            function.restype, function.argtypes = restype, argtypes
            setattr(self, name, function)
        for which, struct in STRUCTS.items():
            last = struct._fields_[-1][0]
            theirs = (lib.txm_struct_size(which), lib.txm_struct_last(which))
            ours = (ctypes.sizeof(struct), getattr(struct, last).offset)
            if theirs != ours:
                raise MetalError(
                    f"the Metal bridge {path} lays {struct.__name__} out in {theirs[0]} bytes with {last} at "
                    f"{theirs[1]}, this tensorx in {ours[0]} with {last} at {ours[1]}: build both from the same source"
                )
        self.lib = lib
        self.build_info = lib.txm_build_info().decode()

    def address(self, name: str) -> int:
        """Address of a C function, for callers that need no Python (``txm_release`` above all)."""
        return ctypes.cast(getattr(self.lib, name), c_void_p).value or 0

    def __getattr__(self, name: str) -> Any:  # only names that are missing come here
        raise AttributeError(f"the Metal bridge has no attribute {name!r}")


_load_lock = threading.Lock()
_loaded: dict[str, Bridge] = {}


def load() -> Bridge:
    """The shim of this process; loaded once and never unloaded."""
    path = find()
    if path is None:
        raise MetalError(f"Metal is not available: {no_bridge()}")
    bridge = _loaded.get(path)
    if bridge is None:
        with _load_lock:
            bridge = _loaded.get(path)
            if bridge is None:
                bridge = _loaded[path] = Bridge(path)
    return bridge


def no_bridge() -> str:
    if sys.platform != "darwin":
        return (
            f"this is {platform.system()}, and Metal exists on macOS only (for tests, TENSORX_METAL_BRIDGE names "
            "a bridge that was built against the stand-in)"
        )
    return (
        "the package was installed without its Metal bridge (tensorx.metal._bridge); install Xcode's Command Line "
        "Tools (xcode-select --install) and reinstall tensorx"
    )


# ---- errors --------------------------------------------------------------------------------------


def text_of(raw: bytes) -> str:
    """A C string, whatever its bytes are."""
    return raw.decode("utf-8", "replace")


def error_from(err: ErrorStruct, where: str = "Metal", synchronous: bool = False) -> Exception:
    """The exception that an error struct stands for; ``where`` names the device."""
    code, message = err.code, text_of(err.message)
    if code in (E_COMMAND, E_POISONED) or (code == E_MEMORY and err.stamp):
        kernels = text_of(err.kernels)
        word = COMMAND_ERRORS.get(err.detail)
        text = f"{where}: command buffer {err.stamp} failed: {message}"
        if code == E_POISONED:
            text = f"{where}: {message}"
        if err.detail:
            text += f" (Metal error {err.detail}{', ' + word if word else ''})"
        if kernels:
            text += f"; its kernels, in order: {kernels}"
            if "," in kernels and not synchronous:
                text += ". TENSORX_METAL_SYNC=1 runs one kernel per command buffer and so names the one that failed"
        if code == E_POISONED:
            text += ". Overwrite the value, or compute it again"
        return OutOfMemoryError(text) if code == E_MEMORY else MetalError(text)
    if code == E_MEMORY:
        return OutOfMemoryError(f"{where}: out of memory: {message}")
    if code == E_NO_DEVICE:
        return DeviceNotFoundError(f"{where}: {message}")
    if code == E_COMPILE:
        return MetalError(f"{where}: a kernel does not compile: {message}")
    return MetalError(f"{where}: {message}")
