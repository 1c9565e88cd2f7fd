"""The Metal backend: ``bridge`` loads the shim, ``codegen`` writes kernels, ``backend`` joins both to the engine."""

from __future__ import annotations


def is_available() -> bool:
    """Whether this machine has a usable Metal device (asked anew, not at build time)."""
    return unavailable_reason() is None


def unavailable_reason() -> str | None:
    """Why Metal cannot be used here, or None."""
    return "the Metal backend is not connected in this build"


def devices() -> list:
    """The Metal devices that can be used."""
    return []


def lookup(ordinal: int):
    """(device, "") of an ordinal, or (None, reason)."""
    return None, unavailable_reason() or ""


def lookup_instance(text: str):
    """The device of an instance name such as ``0#2``, or None."""
    return None
