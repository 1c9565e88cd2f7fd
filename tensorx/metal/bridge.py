"""The shim as Python objects: devices, instances, buffers, kernels, dispatch, waits.

This module and ``abi`` are the only places that know the C interface of ``bridge.m``: everything else
works with :class:`Instance` (a queue and a buffer pool), :class:`Buffer` and :class:`Kernel`.  Nothing
here knows tensors.

Every wait is a loop over calls that return after 50 ms, so that Ctrl-C and timeouts work.
"""

from __future__ import annotations

import collections
import ctypes
import gc
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from tensorx.errors import DeviceNotFoundError, MetalError

from .abi import (
    AGAIN,
    ALLOC_HOST,
    E_MEMORY,
    E_NO_DEVICE,
    GRID_IN_GROUPS,
    MAX_BINDINGS,
    OK,
    OVERWRITE,
    PENDING,
    READ,
    SLICE_MS,
    WRITE,
    BindingStruct,
    Bridge,
    BufferStruct,
    DispatchedStruct,
    DispatchStruct,
    ErrorStruct,
    KernelStruct,
    MarkStruct,
    OptionsStruct,
    StatsStruct,
    error_from,
    find,
    load,
    no_bridge,
)  # fmt: skip
from .discovery import DeviceInfo, devices

__all__ = [
    "OVERWRITE", "READ", "WRITE", "Binding", "Bridge", "Buffer", "DeviceInfo", "Instance", "Kernel", "devices", "find",
    "load", "unavailable_reason",
]  # fmt: skip



# ---- availability -------------------------------------------------------------------------------------

_PROBE = """#include <metal_stdlib>
using namespace metal;
kernel void probe(device uint *o [[buffer(0)]], uint i [[thread_position_in_grid]]) { o[i] = i; }
"""
_probed: dict[str, str | None] = {}


def unavailable_reason() -> str | None:
    """Why Metal cannot be used here, found step by step, or None where it can.

    The steps: a system with Metal or a bridge named by hand; a bridge to load; one that loads (the
    right architecture) and has the right version; no fork since it was loaded; a device; one that
    is supported; a kernel of one line that compiles.
    """
    path = find()
    if path is None:
        return no_bridge()
    if not os.path.exists(path):
        return f"there is no file {path} (named by TENSORX_METAL_BRIDGE)"
    try:
        bridge = load()
    except MetalError as error:
        text = str(error)
        if "architecture" in text or "wrong ELF class" in text or "Exec format" in text:
            text += f"; this Python runs as {platform.machine()}: reinstall tensorx with this Python"
        return text
    if bridge.txm_forked():
        return "this is the child of a fork, where Metal cannot be used; start processes with spawn"
    try:
        found = devices()
    except Exception as error:
        return f"asking for devices failed: {error}"
    if not found:
        return (
            "this system shows no Metal device: a session without a screen, a sandbox, or a virtual machine "
            "without a GPU"
        )
    if found[0].refusal:
        return f"{found[0].name} is not supported: {found[0].refusal}"
    key = f"{path}:{found[0].registry_id}"
    if key not in _probed:
        try:
            Instance(0, name="metal:0 (probe)").kernel(_PROBE, "probe")
            _probed[key] = None
        except Exception as error:
            return f"{found[0].name}: {error}"
    return _probed[key]


# ---- handles ------------------------------------------------------------------------------------------


class Kernel:
    """A compiled kernel of one GPU: its name and the limits of its pipeline."""

    __slots__ = ("_free", "execution_width", "handle", "max_threads", "name", "static_threadgroup_bytes")

    def __init__(self, bridge: Bridge, name: str, s: KernelStruct):
        self._free = bridge.txm_kernel_release
        self.handle = s.kernel
        self.name = name
        self.max_threads = s.max_threads
        self.execution_width = s.execution_width
        self.static_threadgroup_bytes = s.static_threadgroup_bytes

    def group(self, wanted: int) -> int:
        """The largest power of two that is at most ``wanted`` and that this pipeline can run."""
        return 1 << (min(wanted, self.max_threads).bit_length() - 1)

    def __del__(self) -> None:
        free = getattr(self, "_free", None)
        if free is not None:
            free(self.handle)

    def __repr__(self) -> str:
        return f"<Kernel {self.name}, up to {self.max_threads} threads>"


class Buffer:
    """Memory of an instance.  It goes back to the pool when this object dies, or with ``release``.

    ``contents`` is its host address, which may be touched after :meth:`Instance.wait_buffer`.
    """

    __slots__ = ("__weakref__", "_free", "capacity", "contents", "handle", "instance", "nbytes", "uid")

    def __init__(self, instance: Instance, handle: int, s: BufferStruct):
        self._free = instance.bridge.txm_release
        self.instance = instance
        self.handle: int | None = handle
        self.contents = s.contents
        self.nbytes = s.bytes
        self.capacity = s.capacity
        self.uid = s.uid

    def release(self) -> None:
        """Give the memory back; never blocks and never fails."""
        handle, self.handle = self.handle, None
        if handle is not None:
            self._free(handle)

    def detach(self) -> int:
        """Hand the handle over to somebody who will call ``txm_release`` himself."""
        handle, self.handle = self.handle, None
        if handle is None:
            raise MetalError("this buffer was released")
        return handle

    def info(self) -> BufferStruct:
        """Addresses, stamps, poison and exports as the shim sees them now."""
        return self.instance.info(self)

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            self._free(handle)

    def __repr__(self) -> str:
        return f"<Buffer {self.uid} of {self.instance.name}, {self.nbytes} bytes>"


def handle_of(buffer: Buffer | int) -> int | None:
    """The handle of a buffer, which may be a handle already."""
    return buffer.handle if isinstance(buffer, Buffer) else buffer


class Binding(NamedTuple):
    """One buffer argument: where it starts, in elements of ``item_bytes``, and what is done to it."""

    buffer: Buffer | int
    item_bytes: int
    access: int = READ
    offset: int = 0


class _Call:
    """Structs of one call to ``txm_encode``."""

    __slots__ = ("bindings", "dispatch", "err", "out")

    def __init__(self) -> None:
        self.err = ErrorStruct()
        self.dispatch = DispatchStruct()
        self.bindings = (BindingStruct * MAX_BINDINGS)()
        self.dispatch.bindings = ctypes.cast(self.bindings, ctypes.POINTER(BindingStruct))
        self.out = DispatchedStruct()


# Reused, but never shared: a signal handler may dispatch while its thread is inside `encode`.
_calls: collections.deque[_Call] = collections.deque()


class Instance:
    """A command queue with a buffer pool of its own on one GPU.

    Parameters
    ----------
    ordinal : int
        Which of :func:`devices`.
    name : str
        How messages call it.
    options : dict
        Limits; see ``txm_options`` in bridge.h.  What is left out keeps its default, or takes the
        value of an environment variable such as ``TENSORX_METAL_BATCH_DISPATCHES``.
    """

    def __init__(self, ordinal: int = 0, name: str | None = None, **options: int):
        self.bridge = load()
        self.ordinal = ordinal
        self.name = name or f"metal:{ordinal}"
        self.failed = False  # a command buffer failed, and may have spoiled what outlives an op
        self.synchronous = os.environ.get("TENSORX_METAL_SYNC", "0") not in ("", "0")
        struct = OptionsStruct()
        for field in [entry[0] for entry in OptionsStruct._fields_[:-1]]:
            value = options.pop(field, None)
            if value is None:
                value = int(os.environ.get(f"TENSORX_METAL_{field.upper()}") or 0)
            setattr(struct, field, value)
        if options:
            raise TypeError(f"unknown options: {', '.join(options)}")
        handle, err = c_void_p(), ErrorStruct()
        if self.bridge.txm_open(ordinal, struct, handle, err):
            if err.code == E_NO_DEVICE:
                have = ", ".join(f"metal:{d.ordinal} ({d.name})" for d in devices()) or "none"
                raise DeviceNotFoundError(f"{self.name} does not exist; Metal devices here: {have}")
            raise error_from(err, self.name)
        self.handle = handle.value
        self.batch_ops = self.options().batch_ops
        self.on_memory_short: list[Callable[[], Any]] = []
        self._kernels: collections.OrderedDict[tuple[str, str], Kernel] = collections.OrderedDict()
        self._kernels_lock = threading.Lock()
        self._features: dict[str, bool] | None = None
        self._thread = threading.local()

    def __repr__(self) -> str:
        return f"<Instance {self.name}>"

    def _error(self, err: ErrorStruct) -> Exception:
        if err.stamp:
            self.failed = True
        return error_from(err, self.name, self.synchronous)

    def _sliced(self, call: Callable[[int, ErrorStruct], int], timeout: float | None = None) -> bool:
        """Repeat a call that returns PENDING every 50 ms (its argument says how long); False when the time is over."""
        err = ErrorStruct()
        end = None if timeout is None else time.monotonic() + timeout
        slice_ms = SLICE_MS
        while True:
            code = call(slice_ms, err)
            slice_ms = SLICE_MS | AGAIN  # a long wait counts once
            if code == OK:
                return True
            if code != PENDING:
                raise self._error(err)
            if end is not None and time.monotonic() >= end:
                return False

    # ---- limits and counters

    def options(self) -> OptionsStruct:
        """The limits in force."""
        s, err = OptionsStruct(), ErrorStruct()
        if self.bridge.txm_get_options(self.handle, s, err):
            raise self._error(err)
        return s

    def set_options(self, **changes: int) -> None:
        """Change limits by name; 0 restores a default.  The page size stays what it was."""
        s, err = self.options(), ErrorStruct()
        for field, value in changes.items():
            if not hasattr(s, field):
                raise TypeError(f"unknown option: {field}")
            setattr(s, field, value)
        if self.bridge.txm_set_options(self.handle, s, err):
            raise self._error(err)
        self.batch_ops = self.options().batch_ops

    def stats(self) -> dict[str, int]:
        """Counters by name; see ``txm_stats`` in bridge.h."""
        s, err = StatsStruct(), ErrorStruct()
        if self.bridge.txm_get_stats(self.handle, s, err):
            raise self._error(err)
        return {entry[0]: getattr(s, entry[0]) for entry in StatsStruct._fields_}

    def reset_peak(self) -> None:
        """Start the peak anew at what is live."""
        err = ErrorStruct()
        if self.bridge.txm_reset_peak(self.handle, err):
            raise self._error(err)

    # ---- buffers

    def try_alloc(self, nbytes: int, host: bool = False) -> tuple[int, int] | None:
        """(handle, host address), or None where memory is short: for owners who keep handles themselves
        and give them back with ``release``."""
        handle, s, err = c_void_p(), BufferStruct(), ErrorStruct()
        try:
            code = self.bridge.txm_alloc(self.handle, nbytes, ALLOC_HOST if host else 0, handle, s, err)
            if code == OK:
                return handle.value or 0, s.contents
        except BaseException:  # Ctrl-C, after the call
            if handle.value:
                self.bridge.txm_release(handle.value)
            raise
        if code == E_MEMORY:
            return None
        raise self._error(err)

    def release(self, handle: int) -> None:
        """Give memory of :meth:`try_alloc` back; never blocks and never fails."""
        self.bridge.txm_release(handle)

    def info(self, buffer: Buffer | int) -> BufferStruct:
        """Addresses, stamps, poison and exports of a buffer as the shim sees them now."""
        s, err = BufferStruct(), ErrorStruct()
        if self.bridge.txm_buffer_get(handle_of(buffer), s, err):
            raise self._error(err)
        return s

    def alloc(self, nbytes: int, host: bool = False) -> Buffer:
        """Memory of ``nbytes``; with ``host``, memory that the GPU is done with.

        Short of memory, it runs ``on_memory_short`` and the collector, waits for the GPU and gives the
        pool back, and only then raises OutOfMemoryError.
        """
        handle, s, err = c_void_p(), BufferStruct(), ErrorStruct()
        flags = ALLOC_HOST if host else 0
        steps: list[Callable[[], Any]] | None = None
        while True:
            code = self.bridge.txm_alloc(self.handle, nbytes, flags, handle, s, err)
            if code == OK:
                assert handle.value is not None
                return Buffer(self, handle.value, s)
            if code != E_MEMORY:
                raise self._error(err)
            if steps is None:
                steps = [*self.on_memory_short, gc.collect, self._drain_and_trim]
            if not steps:
                raise self._error(err)
            steps.pop(0)()

    def _drain_and_trim(self) -> None:
        try:
            self.synchronize()
        finally:
            self.trim()

    def trim(self, keep: int = 0) -> int:
        """Return pooled memory to the system until at most ``keep`` bytes stay; bytes returned."""
        freed, err = c_uint64(), ErrorStruct()
        if self.bridge.txm_trim(self.handle, keep, freed, err):
            raise self._error(err)
        return freed.value

    def export(self, buffer: Buffer | int, delta: int = 1) -> None:
        """Count host views of a buffer: while there is one, every dispatch that binds it is waited for."""
        self.bridge.txm_buffer_export(handle_of(buffer), delta)

    def poisoned(self) -> dict[int, int]:
        """Buffers (by uid) that a failed command buffer (by stamp) should have written."""
        count, err = c_uint32(), ErrorStruct()
        size = 64
        while True:
            marks = (MarkStruct * size)()
            if self.bridge.txm_poisoned(self.handle, marks, size, count, err):
                raise self._error(err)
            if count.value <= size:
                return {m.uid: m.stamp for m in marks[: count.value]}
            size = count.value

    # ---- host access

    def wait_buffer(self, buffer: Buffer | int, access: int = READ, timeout: float | None = None) -> bool:
        """Wait until the host may READ or WRITE a buffer; False if ``timeout`` seconds were not enough."""
        handle = handle_of(buffer)
        wait = self.bridge.txm_wait_buffer
        return self._sliced(lambda ms, err: wait(handle, access, ms, err), timeout)

    def heal(self, buffer: Buffer | int) -> None:
        """Say that the host has overwritten a whole buffer."""
        err = ErrorStruct()
        if self.bridge.txm_buffer_heal(handle_of(buffer), err):
            raise self._error(err)

    def read(self, buffer: Buffer, offset: int = 0, nbytes: int | None = None) -> bytes:
        """A copy of bytes, after a wait for their writers."""
        n = buffer.nbytes - offset if nbytes is None else nbytes
        if offset < 0 or n < 0 or offset + n > buffer.nbytes:
            raise ValueError(f"bytes {offset} to {offset + n} of a buffer of {buffer.nbytes}")
        self.wait_buffer(buffer, READ)
        return ctypes.string_at(buffer.contents + offset, n) if n else b""

    def write(self, buffer: Buffer, data: Any, offset: int = 0) -> None:
        """Copy bytes (anything with the buffer protocol) in, after a wait for all users."""
        view = memoryview(data).cast("B")
        n = view.nbytes
        if offset < 0 or offset + n > buffer.nbytes:
            raise ValueError(f"bytes {offset} to {offset + n} of a buffer of {buffer.nbytes}")
        self.wait_buffer(buffer, WRITE)
        if n:
            ctypes.memmove(buffer.contents + offset, bytes(view), n)
        if offset == 0 and n == buffer.nbytes:
            self.heal(buffer)

    # ---- kernels

    def kernel(self, source: str, name: str) -> Kernel:
        """Function ``name`` of ``source``, compiled at its first use."""
        key = (name, source)
        with self._kernels_lock:
            kernel = self._kernels.get(key)
            if kernel is not None:
                self._kernels.move_to_end(key)
                return kernel
        s, err = KernelStruct(), ErrorStruct()
        if self.bridge.txm_kernel_get(self.handle, source.encode(), name.encode(), s, err):
            raise self._error(err)
        kernel = Kernel(self.bridge, name, s)
        with self._kernels_lock:
            kernel = self._kernels.setdefault(key, kernel)
            while len(self._kernels) > 1024:
                self._kernels.popitem(last=False)
        return kernel

    def features(self) -> dict[str, bool]:
        """What kernels may use here, found by trying: ``simd`` (simd_sum and shuffles), ``matrix``
        (simdgroup_matrix).  ``TENSORX_METAL_WITHOUT=simd,matrix`` hides them."""
        if self._features is None:
            hidden = os.environ.get("TENSORX_METAL_WITHOUT", "").split(",")
            found = {}
            for feature, probe in _FEATURE_PROBES.items():
                try:
                    found[feature] = feature not in hidden and self.kernel(probe, "probe") is not None
                except MetalError:
                    found[feature] = False
            self._features = found
        return self._features

    # ---- work

    def encode(
        self,
        kernel: Kernel,
        bindings: Sequence[Binding],
        grid: Sequence[int],
        constants: bytes = b"",
        *,
        group: Sequence[int] = (0, 0, 0),
        in_groups: bool = False,
        threadgroup_bytes: int = 0,
        ops: int = 0,
        label: str | None = None,
        split: int | None = None,
    ) -> int:
        """Encode one dispatch and return its stamp.

        ``grid`` counts threads, or threadgroups with ``in_groups``; a ``group`` of 0 is chosen from
        the pipeline's limits.  Work estimated above ``batch_ops`` operations is cut along dimension
        ``split`` of the grid into dispatches with origins of their own, at multiples of the group.
        """
        size = [int(n) for n in grid] + [1] * (3 - len(grid))
        pieces = 1
        if split is not None:
            # neither too long for the watchdog nor beyond the 32 bits of a position
            pieces = min(max(-(-ops // self.batch_ops), -(-size[split] // 2**31), 1), size[split])
        if pieces == 1:
            return self._encode(kernel, bindings, size, (0, 0, 0), constants, group, in_groups, threadgroup_bytes, ops, label)
        assert split is not None
        stamp, at, whole = 0, 0, size[split]
        step = -(-whole // pieces)
        if not in_groups and group[split]:
            step = -(-step // group[split]) * group[split]
        while at < whole:
            size[split] = min(step, whole - at)
            origin = [0, 0, 0]
            origin[split] = at
            stamp = self._encode(
                kernel, bindings, size, origin, constants, group, in_groups, threadgroup_bytes, ops // pieces, label
            )
            at += step
        return stamp

    def forget(self) -> None:
        """From here on, :meth:`encoded` tells of what comes."""
        self._thread.call = None

    def encoded(self) -> bool:
        """Whether this thread has encoded something since :meth:`forget`: true from within the call of the
        shim on, whatever exception a signal raises afterwards."""
        call = getattr(self._thread, "call", None)
        return call is not None and call.out.stamp != 0

    def _encode(
        self,
        kernel: Kernel,
        bindings: Sequence[Binding],
        grid: Sequence[int],
        origin: Sequence[int],
        constants: bytes,
        group: Sequence[int],
        in_groups: bool,
        threadgroup_bytes: int,
        ops: int,
        label: str | None,
    ) -> int:
        if len(bindings) > MAX_BINDINGS:
            raise MetalError(f"{self.name}: {label or kernel.name}: {len(bindings)} buffers, the limit is {MAX_BINDINGS}")
        try:
            call = _calls.pop()
        except IndexError:
            call = _Call()
        d = call.dispatch
        d.kernel = kernel.handle
        d.constants = constants
        d.constant_bytes = len(constants)
        d.label = label.encode() if label else None
        d.grid[0], d.grid[1], d.grid[2] = grid
        d.origin[0], d.origin[1], d.origin[2] = origin
        g = tuple(group) + (1,) * (3 - len(group))
        d.group[0], d.group[1], d.group[2] = g
        d.ops = ops
        d.nbindings = len(bindings)
        d.threadgroup_bytes = threadgroup_bytes
        d.flags = GRID_IN_GROUPS if in_groups else 0
        for slot, (buffer, item_bytes, access, offset) in zip(call.bindings, bindings):
            slot.buffer = handle_of(buffer)
            slot.item_bytes = item_bytes
            slot.access = access
            slot.offset = offset
        encode, handle, out, err = self.bridge.txm_encode, self.handle, call.out, call.err
        out.stamp = 0
        self._thread.call = call
        code = encode(handle, d, out, err)
        while code == PENDING:
            code = encode(handle, d, out, err)
        if code != OK:
            raise self._error(err)
        stamp, must_wait = out.stamp, out.must_wait
        _calls.append(call)
        if must_wait:
            self.wait(stamp)
        return stamp

    def commit(self) -> int:
        """Hand everything encoded so far to the GPU; the stamp to wait for."""
        stamp, err = c_uint64(), ErrorStruct()
        if self.bridge.txm_commit(self.handle, stamp, err):
            raise self._error(err)
        return stamp.value

    def wait(self, stamp: int, timeout: float | None = None) -> bool:
        """Wait for every command buffer up to ``stamp``; False if ``timeout`` seconds were not enough.

        Raises what went wrong in them, if nobody was told yet.
        """
        wait, handle = self.bridge.txm_wait, self.handle
        return self._sliced(lambda ms, err: wait(handle, stamp, ms, err), timeout)

    def synchronize(self, timeout: float | None = None) -> bool:
        """Commit and wait for everything encoded so far; failures of any of it are raised."""
        stamp, err = c_uint64(), ErrorStruct()
        failures: dict[int, Exception] = {}

        def note() -> None:
            error = self._error(err)
            if not err.stamp:
                raise error
            failures.setdefault(err.stamp, error)

        def commit() -> None:
            while self.bridge.txm_commit(self.handle, stamp, err):  # earlier failures come first, one by one
                note()

        commit()
        end = None if timeout is None else time.monotonic() + timeout
        code, slice_ms = PENDING, SLICE_MS
        while stamp.value and code == PENDING:
            code = self.bridge.txm_wait(self.handle, stamp.value, slice_ms, err)
            slice_ms = SLICE_MS | AGAIN
            if code == PENDING and end is not None and time.monotonic() >= end:
                return False
        if code not in (OK, PENDING):
            note()
        commit()  # the failures behind the first one
        if failures:
            first, *others = failures.values()
            if others:
                first = type(first)(f"{first} (and {len(others)} more command buffers failed)")
            raise first
        return True

    def close(self) -> None:
        """Finish all work and give the pool back.  Buffers that live on stay readable."""
        close, handle = self.bridge.txm_close, self.handle
        self._sliced(lambda _, err: close(handle, err))


_FEATURE_PROBES = {
    "simd": """#include <metal_stdlib>
using namespace metal;
kernel void probe(device float *o [[buffer(0)]], uint i [[thread_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]]) {
    float s = simd_sum(o[i]) + simd_shuffle_down(o[i], 1);
    if (lane == 0) o[i] = s;
}
""",
    "matrix": """#include <metal_stdlib>
using namespace metal;
kernel void probe(device float *o [[buffer(0)]]) {
    simdgroup_matrix<float, 8, 8> a, b, c = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_load(a, o, 8);
    simdgroup_load(b, o, 8);
    simdgroup_multiply_accumulate(c, a, b, c);
    simdgroup_store(c, o, 8);
}
""",
}
