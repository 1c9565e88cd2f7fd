"""The Metal backend: ``bridge`` loads the shim, ``codegen`` writes kernels, ``backend`` joins both to the engine.

Nothing is loaded before a device is asked for.

>>> import tensorx as tx
>>> tx.metal.is_available() == (tx.metal.unavailable_reason() is None)
True
"""

from __future__ import annotations

import threading

__all__ = ["devices", "doctor", "is_available", "kernel", "open", "stats", "unavailable_reason"]

_lock = threading.RLock()
_first: dict = {}  # registry id -> the device that a name without a number means
_opened: dict = {}  # (registry id, number) -> device, from the second instance on


def unavailable_reason() -> str | None:
    """Why Metal cannot be used here, found step by step, or None where it can."""
    from . import bridge

    return bridge.unavailable_reason()


def is_available() -> bool:
    """Whether this machine has a usable Metal device (asked anew, not at build time)."""
    return unavailable_reason() is None


def _make(info, instance=1):
    from tensorx import _core
    from tensorx.device import Device

    from .backend import Backend

    device = Device("metal", info.ordinal, instance, info.registry_id, info.name)
    device.backend = Backend(info, device.name)
    device.number = _core.register_device(device, device.backend)
    return device


def _infos():
    """The GPUs that can be used; without Metal none."""
    if unavailable_reason() is not None:
        return []
    from . import bridge

    return [info for info in bridge.devices() if not info.refusal]


def _device(info):
    with _lock:
        found = _first.get(info.registry_id)
        if found is None:
            found = _first[info.registry_id] = _make(info)
        return found


def devices() -> list:
    """The Metal devices that can be used, one for each GPU."""
    return [_device(info) for info in _infos()]


def lookup(ordinal: int):
    """(device, "") of an ordinal, or (None, reason)."""
    for found in list(_first.values()):
        if found.ordinal == ordinal:
            return found, ""
    reason = unavailable_reason()
    if reason is not None:
        return None, f"Metal is not available: {reason}"
    from . import bridge

    every = bridge.devices()
    for info in every:
        if info.ordinal == ordinal:
            if info.refusal:
                return None, f"{info.name} is not supported: {info.refusal}"
            return _device(info), ""
    return None, "Metal devices here: " + ", ".join(f"metal:{info.ordinal} is {info.name}" for info in every)


def lookup_instance(text: str):
    """The device of an instance name such as ``0#2``, or None."""
    ordinal, _, number = text.partition("#")
    with _lock:
        for found in [*_first.values(), *_opened.values()]:
            if (str(found.ordinal), str(found.instance)) == (ordinal, number):
                return found
    return None


def open(ordinal: int = 0):
    """A further instance of a GPU: a device with a queue and a memory pool of its own, ``metal:0#2`` and so on.

    Compiled kernels are shared. Raises DeviceNotFoundError, with the devices that exist.

    >>> import tensorx as tx
    >>> if tx.metal.is_available():
    ...     assert tx.metal.open(0) != tx.device("metal:0")
    """
    from tensorx.device import device as find
    from tensorx.errors import DeviceNotFoundError

    if not isinstance(ordinal, int) or isinstance(ordinal, bool) or ordinal < 0:
        raise DeviceNotFoundError(f"metal.open: an ordinal is an int from 0 on, got {ordinal!r}")
    first = find(f"metal:{ordinal}")
    info = first.backend.info
    with _lock:
        number = 2 + sum(1 for registry_id, _ in _opened if registry_id == info.registry_id)
        device = _opened[info.registry_id, number] = _make(info, number)
        return device


def stats(device="metal") -> dict:
    """What a device's queue did: command buffers, dispatches, waits, compiled kernels, failures; ``host_ops`` counts the
    ops that were computed on the CPU for want of a kernel.

    For memory see ``tx.memory.stats(device)``.
    """
    from tensorx.device import device as find

    return find(device).backend.counters()


def doctor() -> dict:
    """What ``python -m tensorx doctor`` tells about Metal: the bridge, the GPUs, the instances in use."""
    from . import bridge

    facts: dict = {"bridge": bridge.find() or "none"}
    if unavailable_reason() is not None:
        return facts
    loaded = bridge.load()
    facts["bridge build"] = loaded.build_info
    for info in bridge.devices():
        text = info.name + (f" ({info.architecture})" if info.architecture else "")
        text += f", unified memory {info.unified}, largest buffer {info.max_buffer_bytes:,} bytes, working set {info.working_set_bytes:,} bytes"
        if info.translated:
            text += ", this process runs under Rosetta"
        if info.refusal:
            text += f"; refused: {info.refusal}"
        facts[f"metal:{info.ordinal}"] = text
    for device in [*_first.values(), *_opened.values()]:
        if device.backend.used:
            counters = device.backend.counters()
            facts[f"{device.name} in use"] = {**counters, "features": device.backend.inst.features()}
    return facts


def kernel(source, args="x", *, writes=None, name="kernel", header="", elementwise=False):
    """A Metal kernel from MSL text, for :class:`tensorx.InplaceOp`, :class:`tensorx.CustomOp` or a call of its own.

    args: the names of its arguments, tensors or Python numbers (``float`` and ``long`` in MSL); writes: those that it writes,
    the first by default. With ``elementwise=True`` the source is one statement (or several) about the element of each
    argument, for any layout, other arguments broadcast to the written one: ``"x += y"``. Otherwise it is the body of a kernel
    that sees a pointer per tensor (C order), ``x_size``, and the position ``tid`` (uint3) in the grid, by default one thread per
    element of what is written; ``threads`` is the size of the grid, ``tg``, ``group`` and ``lane`` are the number and size of the
    threadgroup and the thread's number in it. Threads beyond the grid return at once, unless the source has a barrier: then it
    compares ``tid`` with ``threads`` itself.

    bool tensors are uchar, bfloat16 ones ushort in memory; elementwise sources see bool and float. The text is compiled at
    its first use, once per dtypes and layouts, with safe math; MetalError carries the compiler's message.

    >>> import tensorx as tx
    >>> tx.metal.kernel("x += y", "x, y", elementwise=True, name="add-into")
    <metal kernel 'add-into': x, y>
    """
    from .user_kernel import MetalKernel

    return MetalKernel(source, args, writes, name, header, elementwise)
