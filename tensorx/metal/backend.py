"""The engine's view of a GPU: what the core calls, and the counters it keeps.

A :class:`Backend` stands for one instance (a queue and a pool).  It gets programs, reductions, products
and rows as plain data (see ``_native/device.pxi``: ``describe`` and ``leaf_text``) and launches kernels.
Where it says no, the core computes on the CPU, in the same memory, after a wait; ``host_ops`` counts that.

The queue is opened at the first use, so that listing devices costs nothing.
"""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Callable
from typing import Any

from tensorx import _core
from tensorx.errors import OutOfMemoryError
from tensorx.ops import table

from . import codegen, indexing, launch, picking, pooling, products, random, reductions, rows
from .bridge import READ, WRITE, DeviceInfo, Instance
from .codegen import FLOATS, Instr
from .launch import Array, Scalar

EW, CAST, MOVE = 1, 2, 3  # kinds of nodes, see types.h

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip
OPS = tuple(row.name for row in table.TABLE)
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "sumsq", "sumabs")
ROW_OPS = {code: name for name, code in _core.ROW_CODES.items()}
_AS_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
MAX_WORDS = 512  # 64-bit arguments of a kernel: 4 KiB


class Backend:
    """One instance of a GPU, for the core."""

    def __init__(self, info: DeviceInfo, name: str):
        self.info = info
        self.name = name
        self.host_ops: collections.Counter[str] = collections.Counter()
        self._inst: Instance | None = None
        self._status: indexing.Status | None = None
        self._lock = threading.Lock()
        self._limit: int | None = None
        self.release: Callable[[int], None]  # gives the memory of a handle back: the C function itself, which never blocks
        self._live = self._peak = self._requested = self._allocations = 0

    @property
    def inst(self) -> Instance:
        """The queue, opened at the first use."""
        inst = self._inst
        if inst is None:
            with self._lock:
                inst = self._inst
                if inst is None:
                    inst = Instance(self.info.ordinal, name=self.name)
                    self.release = inst.bridge.txm_release
                    self._inst = inst
        return inst

    @property
    def used(self) -> bool:
        """Whether the queue was opened."""
        return self._inst is not None

    # ---- memory

    def alloc(self, nbytes: int, for_host: bool = False) -> tuple[int, int] | None:
        """(handle, host address), or None where memory is short."""
        if self._limit is not None and self._live + nbytes > self._limit:
            return None
        got = self.inst.try_alloc(max(nbytes, 1), for_host)
        if got is not None:
            self._requested += nbytes
            self._allocations += 1
            self._live += nbytes
            if self._live > self._peak:
                self._peak = self._live
        return got

    def empty_cache(self) -> None:
        """Returns pooled memory to the system, once the GPU has finished with it."""
        if self._inst is not None:
            try:
                self._inst.synchronize()
            finally:
                self._inst.trim()

    def set_limit(self, nbytes: int | None) -> None:
        """Refuses allocations that would raise the live bytes above nbytes."""
        self._limit = nbytes

    def reset_peak(self) -> None:
        """Starts the peak anew at what is live."""
        self._peak = self._live
        if self._inst is not None:
            self._inst.reset_peak()

    def stats(self) -> dict[str, Any]:
        """The counters of tx.memory.stats, and the driver's own figure."""
        _core.free_released()
        s = self._inst.stats() if self._inst is not None else {}
        return {
            "live": self._live,
            "peak": self._peak,
            "requested": self._requested,
            "allocations": self._allocations,
            "cached": s.get("cached", 0),
            "system": s.get("reserved", 0),
            "scratch": max(0, s.get("live", 0) - self._live),
            "limit": self._limit,
            "cap": self._inst.options().cache_limit if self._inst is not None else None,
            "driver": s.get("driver", 0),
        }

    def counters(self) -> dict[str, Any]:
        """What the queue did: see tx.metal.stats."""
        s = self._inst.stats() if self._inst is not None else {}
        names = ("command_buffers", "dispatches", "waits", "compiled", "pool_hits", "in_flight", "failures", "poisoned", "metal_buffers",
                 "pressure_events", "gpu_nanoseconds")  # fmt: skip
        return {**{name: s.get(name, 0) for name in names}, "host_ops": dict(self.host_ops)}

    def oom_error(self, nbytes: int, op: str | None) -> OutOfMemoryError:
        """The error for a request that failed after everything was tried."""
        limit = f"limit {self._limit:,} bytes (tx.memory.set_limit)" if self._limit is not None else "no limit set"
        return OutOfMemoryError(
            f"{op or 'allocation'}: out of memory on {self.name}: requested {nbytes:,} bytes, live {self._live:,} bytes, {limit}; "
            f"the largest buffer is {self.info.max_buffer_bytes:,} bytes, the recommended working set {self.info.working_set_bytes:,} bytes"
        )

    def wait_host(self, handle: int, to_write: bool) -> None:
        """Waits until the host may read a buffer, or write it."""
        self.inst.wait_buffer(handle, WRITE if to_write else READ)
        self.told()

    def native_buffer(self, handle: int) -> int:
        """The id<MTLBuffer> of a handle, for DLPack."""
        return self.inst.info(handle).metal_buffer or 0

    def native_offset(self, handle: int) -> int:
        """Where in its Metal buffer the memory of a handle begins: small ones share a buffer."""
        return self.inst.info(handle).metal_offset

    def synchronize(self) -> None:
        """Waits for everything that was asked for; raises what went wrong."""
        if self._inst is not None:
            self._inst.synchronize()
            self.told()

    def status(self) -> indexing.Status:
        """Where kernels note that an index was out of range."""
        inst = self.inst
        with self._lock:
            if self._status is None:
                self._status = indexing.Status(inst)
        if inst.failed:
            self._status.mend()
        return self._status

    def told(self) -> None:
        """After a wait: raises what kernels have found in the values."""
        if self._status is not None and self._status.pending():
            if self._status.inst.failed:
                self._status.mend()
            self._status.check()

    def on_host(self, op: str) -> None:
        """Counts an op that was computed on the CPU for want of a kernel."""
        self.host_ops[op] += 1

    # ---- programs

    def encoded(self) -> bool:
        """Whether this thread's last program or reduction reached the GPU's queue."""
        return self.inst.encoded()

    def _program(self, inputs, nodes):
        """(operands, instructions, register of each node, label), or None where there is no kernel."""
        operands: list[Any] = list(inputs)
        # every number has a word of its own, so that the kernel does not depend on which numbers happen to be equal
        scalars = itertools.count(len(operands))
        for kind, op, dtype, odtype, sources in nodes:
            if kind == EW:
                if not codegen.supported(OPS[op], NAMES[odtype]):
                    return None
            elif kind == CAST and not codegen.supported("cast", NAMES[sources[0][2]], NAMES[dtype]):
                return None
            operands += [Scalar(value, NAMES[code]) for what, value, code in sources if what == "const"]
        count = len(operands)
        registers: list[int] = []
        instrs: list[Instr] = []
        names = []
        for kind, op, dtype, odtype, sources in nodes:
            srcs = tuple(
                next(scalars) if what == "const" else value if what == "in" else registers[value] for what, value, _ in sources
            )
            if kind == EW:
                instrs.append(Instr(OPS[op], NAMES[odtype], count, srcs))
                names.append(OPS[op])
            elif kind == CAST and sources[0][2] != dtype:
                instrs.append(Instr("cast", NAMES[sources[0][2]], count, srcs, NAMES[dtype]))
                names.append("cast")
            else:
                registers.append(srcs[0])
                continue
            registers.append(count)
            count += 1
        label = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return operands, instrs, registers, label or "copy"

    def run_program(self, description) -> bool:
        """Encodes an elementwise program; False where the CPU has to compute it."""
        dims, inputs, nodes, outputs, shared = description
        self.inst.forget()
        if len(inputs) + len(outputs) > 28 or (len(dims) + 1) * (len(inputs) + len(outputs) + 2) > MAX_WORDS - 100:
            return False
        dims = tuple(dims)
        arrays = [Array(handle, NAMES[dtype], dims, strides, offset) for dtype, handle, offset, strides in inputs]
        program = self._program(arrays, nodes)
        if program is None:
            return False
        operands, instrs, registers, label = program
        results = [
            (registers[k], Array(handle, NAMES[dtype], dims, strides, offset, whole))
            for k, dtype, handle, offset, strides, whole in outputs
        ]
        if not instrs:  # copies: as integers, so that no arithmetic touches a NaN or a subnormal
            operands = [a._replace(dtype=_AS_BITS[codegen.ITEM_BYTES[a.dtype]]) for a in operands]
            results = [(k, a._replace(dtype=_AS_BITS[codegen.ITEM_BYTES[a.dtype]])) for k, a in results]
        stamp = launch.elementwise(self.inst, operands, instrs, results, label)
        if shared:
            self.inst.wait(stamp)
        return True

    def can_reduce(self, code: int, nodes, dtype: int, out: int) -> bool:
        """Whether there is a kernel for a reduction and everything in its prologue."""
        if NAMES[dtype] not in codegen.STORAGE or NAMES[out] not in codegen.STORAGE:
            return False
        for kind, op, to, odtype, sources in nodes:
            if kind == EW and not codegen.supported(OPS[op], NAMES[odtype]):
                return False
            if kind == CAST and not codegen.supported("cast", NAMES[sources[0][2]], NAMES[to]):
                return False
        try:
            reductions.rule(REDUCTIONS[code], NAMES[dtype])
        except (ValueError, KeyError):
            return False
        return True

    def reduce(self, code, dims, kept, inputs, nodes, root, out, handle, shared) -> None:
        """out (dense over the first ``kept`` dims) = a reduction over the others."""
        self.inst.forget()
        if len(dims) == kept:  # only axes of length one are folded
            dims, inputs = [*dims, 1], [(d, h, o, (*s, 0)) for d, h, o, s in inputs]
        arrays = [Array(h, NAMES[d], tuple(dims), s, o) for d, h, o, s in inputs]
        operands, instrs, registers, label = self._program(arrays, nodes)
        name = REDUCTIONS[code]
        result = launch.array(handle, NAMES[out], dims[:kept], whole=True)
        stamp = reductions.reduce(
            self.inst, name, operands, instrs, registers[root], dims, range(kept, len(dims)), result,
            name if label == "copy" else f"{name} of {label}",
        )  # fmt: skip
        if shared:
            self.inst.wait(stamp)

    # ---- rows, products, fills

    @staticmethod
    def _array(leaf) -> Array:
        dtype, handle, offset, shape, strides, whole, _ = leaf
        return Array(handle, NAMES[dtype], shape, strides, offset, whole)

    def _after(self, stamp: int, *leaves) -> None:
        """Where the host may look at a storage at any time, the work is waited for."""
        if stamp and any(leaf is not None and leaf[6] for leaf in leaves):
            self.inst.wait(stamp)

    def has_row_op(self, code: int, dtype: int) -> bool:
        """Whether there is a kernel over rows."""
        return NAMES[dtype] in FLOATS

    def rows_fit(self, leaf) -> bool:
        """Whether the rows of a tensor can be read where they lie."""
        a = self._array(leaf)
        return rows.rows_fit(a, len(a.shape) - 1, launch.array(0, a.dtype, a.shape))

    def row_op(self, code, x, out, weight, bias, eps, mean, rstd, second) -> None:
        """A row kernel over the last axis; x may be out itself. second: the forward result of a backward kernel."""
        self.inst.forget()
        name = ROW_OPS[code]
        a, y = self._array(x), self._array(out)
        if name in ("layer_norm", "rms_norm"):
            more = [None if leaf is None else self._array(leaf) for leaf in (weight, bias, mean, rstd)]
            stamp = rows.norm(self.inst, name, a, y, more[0], more[1], eps, more[2], more[3])
        elif second is not None:
            stamp = rows.softmax_backward(self.inst, a, self._array(second), y, name == "log_softmax_backward")
        else:
            stamp = rows.softmax(self.inst, a, len(a.shape) - 1, y, name)
        self._after(stamp, x, out, weight, bias, mean, rstd, second)

    def norm_backward(self, grad, x, weight, mean, rstd, out, dweight, dbias) -> None:
        """Gradients of layer_norm, or of rms_norm where mean is None: see rows.norm_backward."""
        self.inst.forget()
        leaves = (grad, x, weight, mean, rstd, out, dweight, dbias)
        arrays: list[Any] = [None if leaf is None else self._array(leaf) for leaf in leaves]
        self._after(rows.norm_backward(self.inst, *arrays), *leaves)

    def has_matmul(self, dtype: int) -> bool:
        """Whether there is a kernel for products of a dtype."""
        return NAMES[dtype] in codegen.STORAGE

    def matmul(self, x, y, out) -> None:
        """out = x @ y, batch axes broadcast."""
        self.inst.forget()
        a, b, c = self._array(x), self._array(y), self._array(out)
        batch = c.shape[:-2]
        stamp = products.matmul(self.inst, _broadcast(a, batch), _broadcast(b, batch), c)
        self._after(stamp, x, y, out)

    def convolve(self, which, a, b, out, bias, stride, padding, dilation, groups) -> None:
        """One product of a convolution, with bias (or None): see products.convolve; which counts results as the core does."""
        self.inst.forget()
        arrays = [self._array(leaf) for leaf in (a, b, out)]
        name, order = (("y", (0, 1, 2)), ("x", (2, 1, 0)), ("w", (0, 2, 1)))[which]
        x, w, y = [arrays[k] for k in order]
        geometry = products.Geometry(stride, padding, dilation, groups)
        stamp = products.convolve(self.inst, name, x, w, y, geometry, None if bias is None else self._array(bias))
        self._after(stamp, a, b, out, bias)

    def has_pooling(self, dtype: int) -> bool:
        """Whether there are kernels for pooling values of a dtype."""
        return NAMES[dtype] in FLOATS

    def pool(self, which, x, out, positions, inputs, outputs, sliding, divide) -> None:
        """One pass of pooling, counted as the core does: see pooling.pool."""
        self.inst.forget()
        window, stride, padding, dilation = sliding or (None, (), (), ())
        windows = pooling.Windows(inputs, outputs, window, stride, padding, dilation, divide or (0, 0.0))
        places = None if positions is None else self._array(positions)
        stamp = pooling.pool(self.inst, pooling.KINDS[which], self._array(x), self._array(out), places, windows)
        self._after(stamp, x, out, positions)

    @staticmethod
    def _operand(leaf):
        """What indexing has to know of a leaf, or of (dtype, bytes, offset) from the host's memory."""
        if len(leaf) == 3:
            return NAMES[leaf[0]], leaf[1], leaf[2]
        dtype, handle, offset, _, _, whole, shared = leaf
        return NAMES[dtype], handle, offset, whole, shared

    def pick(self, kind, x, arrays, values, loops, errors) -> None:
        """Reads or writes at the positions that index arrays name: see picking.run."""
        told = self._operand
        picking.run(self, kind, told(x), [(told(leaf), size, step) for leaf, size, step in arrays], told(values), loops, errors)

    def find(self, mask, shape, strides, count):
        """Where a mask is true, and how often: a ``positions.Found``; waits for the number where it is not known."""
        return picking.find(self, self._operand(mask), shape, strides, count)

    def pick_under(self, kind, x, mask, found, values, loops, step) -> None:
        """Reads or writes under a mask: see picking.under."""
        told = self._operand
        picking.under(self, kind, told(x), told(mask), found, told(values), loops, step)

    def places(self, found, shape, outs) -> None:
        """The coordinates of a mask's true elements."""
        picking.places(self, found, shape, [(self._operand(leaf), step) for leaf, step in outs])

    def fill(self, leaf, number) -> None:
        """Every element of a tensor = a number of its dtype."""
        self.inst.forget()
        a = self._array(leaf)
        self._after(launch.fill(self.inst, a, number), leaf)

    def has_random(self, kind: str, dtype: int) -> bool:
        """Whether there is a kernel for random numbers of a kind and dtype."""
        return random.has(kind, NAMES[dtype])

    def random(self, leaf, kind: str, seed: int, stream: int, first: int, numbers: tuple[int, ...]) -> None:
        """Numbers of a kind from the words ``first``, ``first + 1``, ... of a Philox stream: see random.random."""
        self.inst.forget()
        self._after(random.random(self.inst, self._array(leaf), seed, stream, first, kind, numbers), leaf)


def _broadcast(a: Array, batch: tuple[int, ...]) -> Array:
    """Matrices with their leading axes repeated to ``batch``."""
    lead = len(batch) - (len(a.shape) - 2)
    strides = tuple(
        0 if d < lead or a.shape[d - lead] == 1 else a.strides[d - lead] for d in range(len(batch))
    )
    return a._replace(shape=(*batch, *a.shape[-2:]), strides=(*strides, *a.strides[-2:]), whole=False)
