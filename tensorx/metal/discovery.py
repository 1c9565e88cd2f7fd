"""The GPUs of this machine, as the shim lists them."""

from __future__ import annotations

from ctypes import c_uint32
from typing import NamedTuple

from .abi import (
    DEV_DEFAULT,
    DEV_HEADLESS,
    DEV_LOW_POWER,
    DEV_REMOVABLE,
    DEV_UNIFIED,
    DeviceStruct,
    ErrorStruct,
    error_from,
    load,
    text_of,
)  # fmt: skip


class DeviceInfo(NamedTuple):
    """What one GPU says about itself."""

    ordinal: int
    name: str
    registry_id: int
    architecture: str
    unified: bool
    low_power: bool
    headless: bool
    removable: bool
    default: bool
    families: int
    capabilities: int
    translated: bool
    max_buffer_bytes: int
    working_set_bytes: int
    max_threadgroup_bytes: int
    max_threads: tuple[int, int, int]
    refusal: str

    @property
    def is_stand_in(self) -> bool:
        """Whether this is the Linux stand-in of the test suite."""
        return "stand-in" in self.name.lower()


def devices() -> list[DeviceInfo]:
    """Every GPU, refused ones included; number 0 is the system's default."""
    bridge = load()
    count, err = c_uint32(), ErrorStruct()
    if bridge.txm_device_count(count, err):
        raise error_from(err)
    found = []
    for i in range(count.value):
        s = DeviceStruct()
        if bridge.txm_device_get(i, s, err):
            raise error_from(err)
        found.append(
            DeviceInfo(
                i,
                text_of(s.name),
                s.registry_id,
                text_of(s.architecture),
                bool(s.flags & DEV_UNIFIED),
                bool(s.flags & DEV_LOW_POWER),
                bool(s.flags & DEV_HEADLESS),
                bool(s.flags & DEV_REMOVABLE),
                bool(s.flags & DEV_DEFAULT),
                s.families,
                s.capabilities,
                bool(s.translated),
                s.max_buffer_bytes,
                s.working_set_bytes,
                s.max_threadgroup_bytes,
                tuple(s.max_threads),
                text_of(s.refusal),
            )
        )
    return found
