"""Devices: what they are called and how they are found.

The same name is the same object in a process, from any thread, copied or pickled.

>>> import tensorx as tx
>>> tx.device("cpu") is tx.device("cpu")
True
"""

from __future__ import annotations

import contextvars
import os
import threading

from tensorx import _core
from tensorx.errors import DeviceNotFoundError

__all__ = ["Device", "default_device", "device", "devices", "set_default_device"]

_lock = threading.RLock()
_by_name: dict[str, Device] = {}


class Device:
    """A place where tensors live.

    Attributes: ``name`` (as printed, never the same for two devices), ``type`` ("cpu" or "metal"), ``ordinal``,
    ``instance`` (a number that tells two openings of one GPU apart), ``registry_id``, ``description``.
    As a context manager it is the default device of the block.

    >>> d = device("cpu")
    >>> d.name, d.type, d.ordinal
    ('cpu', 'cpu', 0)
    """

    __slots__ = ("_tokens", "backend", "description", "instance", "number", "ordinal", "registry_id", "type")

    def __init__(self, type, ordinal=0, instance=1, registry_id=0, description="", backend=None):
        self.type = type
        self.ordinal = ordinal
        self.instance = instance
        self.registry_id = registry_id
        self.description = description
        self.backend = backend
        self.number = 0
        self._tokens = []

    @property
    def name(self):
        """The name, for example ``cpu``, ``metal:0`` or ``metal:0#2``."""
        if self.type == "cpu":
            return "cpu"
        return f"{self.type}:{self.ordinal}" + (f"#{self.instance}" if self.instance > 1 else "")

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"tensorx.device({self.name!r})"

    def __eq__(self, other):
        if isinstance(other, Device):
            return self is other
        if isinstance(other, str):
            return self.name == other or (self.instance == 1 and self.ordinal == 0 and self.type == other)
        return NotImplemented

    def __hash__(self):
        return hash(self.name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return (device, (self.name,))

    def __enter__(self):
        self._tokens.append(_default.set(self))
        return self

    def __exit__(self, *exc):
        _default.reset(self._tokens.pop())


_cpu = Device("cpu")
_by_name["cpu"] = _cpu
_core.set_cpu_device(_cpu)
_default: contextvars.ContextVar[Device | None] = contextvars.ContextVar("tensorx.default_device", default=None)
_process_default: Device | None = None


def device(name="cpu", /):
    """The device of a name: ``"cpu"``, ``"metal"`` (the same as ``"metal:0"``), ``"metal:1"``; a Device is returned as it is.

    Raises DeviceNotFoundError, with the devices that exist, for any other name.

    >>> device("cpu")
    tensorx.device('cpu')
    """
    if isinstance(name, Device):
        return name
    found = _by_name.get(name) if isinstance(name, str) else None
    if found is not None:
        return found
    with _lock:
        return _find(name)


def _find(name):
    problem = ""
    if isinstance(name, str):
        kind, _, rest = name.partition(":")
        if kind == "metal":
            from tensorx import metal

            if not rest and ":" not in name:
                rest = "0"
            if rest.isdigit():
                found, problem = metal.lookup(int(rest))
                if found is not None:
                    _by_name[found.name] = found
                    _by_name[name] = found
                    return found
            elif "#" in rest:
                found = metal.lookup_instance(rest)
                if found is not None:
                    return found
        elif kind == "mps":
            problem = "Apple's GPU is 'metal' here"
        elif kind in ("cuda", "gpu", "xpu"):
            problem = "tensorx runs on the CPU and on Apple Metal"
    raise DeviceNotFoundError(
        f"device: there is no device {name!r}; available: {', '.join(str(d) for d in devices())}" + (f" ({problem})" if problem else "")
    )


def opened():
    """The devices that this process has used; nothing is loaded or asked."""
    return _core.known_devices()


def devices():
    """All devices of this machine, the CPU first.

    >>> devices()[0]
    tensorx.device('cpu')
    """
    found = [_cpu]
    from tensorx import metal

    found += metal.devices()
    return found


def default_device():
    """The device on which new tensors are made unless one is named.

    >>> with device("cpu"):
    ...     default_device()
    tensorx.device('cpu')
    """
    d = _default.get()
    if d is not None:
        return d
    global _process_default
    if _process_default is None:
        _process_default = device(os.environ.get("TENSORX_DEVICE") or "cpu")
    return _process_default


def set_default_device(name, /):
    """Makes a device the default of the process; ``with tx.device(...):`` does so for a block.

    >>> before = default_device()
    >>> set_default_device("cpu")
    >>> default_device()
    tensorx.device('cpu')
    >>> set_default_device(before)
    """
    global _process_default
    _process_default = device(name)
