"""What the tests of the Metal layer share: NumPy in and out of an instance, counters, half formats, the stand-in's knobs."""

import ctypes

import numpy as np

import tensorx as tx
from tensorx.metal.launch import Array, dense

# What NumPy has no dtype for travels as uint16.
NUMPY = {"bfloat16": np.uint16, "bool": np.bool_}


def to_bf16(x):
    """float32 values as bfloat16 bits, ties to even."""
    u = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(np.asarray(x, np.float32)), np.uint16(0x7FC0), rounded).astype(np.uint16)


def from_bf16(u):
    """bfloat16 bits as float32."""
    return (np.asarray(u, np.uint16).astype(np.uint32) << 16).view(np.float32)


def flush(x):
    """float32 (or complex64) values with subnormals as zeros of the same sign."""
    x = np.asarray(x)
    if x.dtype == np.complex64:
        return flush(x.view(np.float32)).view(np.complex64)
    if x.dtype != np.float32:
        return x
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


class counted:
    """What a block adds to the counters of the queue."""

    def __enter__(self):
        tx.eval()
        self.before = tx.metal.stats()
        return self

    def __exit__(self, *exc):
        after = tx.metal.stats()
        for name in ("command_buffers", "dispatches", "waits", "compiled"):
            setattr(self, name, after[name] - self.before[name])
        self.host_ops = sum(after["host_ops"].values()) - sum(self.before["host_ops"].values())


class Gpu:
    """An instance with NumPy in and out."""

    def __init__(self, inst):
        self.inst = inst

    def put(self, x, dtype=None, pad=0):
        """A NumPy array as a window; strides are kept as far as they stay inside one block.

        ``pad`` elements come before it, so that offsets are never 0 by luck.
        """
        x = np.asarray(x)
        dtype = dtype or x.dtype.name
        size = max(1, x.itemsize)
        base = x
        while base.base is not None and isinstance(base.base, np.ndarray):
            base = base.base
        if base.size and base.flags.c_contiguous and base.dtype == x.dtype and x.size:
            offset = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // size
            strides = tuple(s // size for s in x.strides)
        else:
            base, offset, strides = np.ascontiguousarray(x), 0, dense(x.shape)
        data = bytes(pad * size) + base.tobytes()
        buffer = self.inst.alloc(len(data), host=True)
        self.inst.write(buffer, data)
        return Array(buffer, dtype, x.shape, strides, offset + pad, False)

    def empty(self, shape, dtype, pad=0):
        """A C-ordered window of fresh memory."""
        shape = tuple(shape)
        item = np.dtype(NUMPY.get(dtype, dtype)).itemsize
        count = int(np.prod(shape, dtype=np.int64)) + pad
        buffer = self.inst.alloc(max(1, count) * item)
        return Array(buffer, dtype, shape, dense(shape), pad, False)

    def get(self, a):
        """The values of a window."""
        kind = np.dtype(NUMPY.get(a.dtype, a.dtype))
        raw = np.frombuffer(self.inst.read(a.buffer), np.uint8)
        raw = raw[: raw.size // kind.itemsize * kind.itemsize].view(kind)
        return np.lib.stride_tricks.as_strided(
            raw[a.offset :], a.shape, tuple(s * kind.itemsize for s in a.strides)
        ).copy()


class StandIn:
    """Knobs, counters and violations of the stand-in."""

    def __init__(self, lib):
        self.lib = lib
        lib.sm_set.argtypes = [ctypes.c_char_p, ctypes.c_long]
        lib.sm_get.argtypes = [ctypes.c_char_p]
        lib.sm_get.restype = ctypes.c_long
        lib.sm_violations.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        lib.sm_reset.argtypes = []
        lib.sm_reset.restype = None

    def set(self, **knobs):
        for name, value in knobs.items():
            assert self.lib.sm_set(name.encode(), value) == 0, name

    def get(self, name):
        return self.lib.sm_get(name.encode())

    def violations(self):
        text = ctypes.create_string_buffer(65536)
        n = self.lib.sm_violations(text, len(text))
        return n, text.value.decode("utf-8", "replace")

    def reset(self):
        self.lib.sm_reset()


FILL = """#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void fill(device uint *o [[buffer(0)]], constant long *off [[buffer(1)]], constant uint *v [[buffer(2)]],
                 uint i [[thread_position_in_grid]])
{
    o[off[0] + long(i)] = v[0] + i;
}
kernel void add(device const uint *a [[buffer(0)]], device uint *o [[buffer(1)]], constant long *off [[buffer(2)]],
                constant uint *v [[buffer(3)]], uint i [[thread_position_in_grid]])
{
    o[off[1] + long(i)] = a[off[0] + long(i)] + v[0];
}
kernel void out_of_bounds(device uint *o [[buffer(0)]], constant long *off [[buffer(1)]],
                          constant uint *v [[buffer(2)]], uint i [[thread_position_in_grid]])
{
    o[off[0] + long(i) + (1L << 28)] = v[0];
}
"""
