"""Gather, scatter and accumulation along one axis; positions.py has several index arrays, and masks.

Which index was out of range is known on the GPU only: a kernel then sets a bit in a status word, and
:class:`Status` turns it into an IndexError at the next wait.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Sequence
from typing import Any

from . import codegen, sorting
from .bridge import READ, WRITE, Binding, Instance, Kernel
from .codegen import FLOATS, ITEM_BYTES, STORAGE
from .launch import Array, array, fill, thread_count, words

INDEX_DTYPES = ("int32", "int64")
Errors = tuple[Exception, ...]


class Status:
    """Status words of kernels that can find bad values, and the messages that belong to them."""

    SLOTS = 64

    def __init__(self, inst: Instance):
        self.inst = inst
        self.buffer = inst.alloc(4 * self.SLOTS, host=True)
        inst.write(self.buffer, bytes(4 * self.SLOTS))
        self._lock, self._mending = threading.Lock(), threading.RLock()
        self._messages: dict[int, tuple[int, Errors]] = {}  # slot -> (stamp, what to raise for each bit)
        self._next = 0

    def slot(self, error: Exception | Errors) -> int:
        """A word for one dispatch; whoever filled the ring waits for the oldest. Several errors: one for each bit."""
        errors = (error,) if isinstance(error, Exception) else error
        while True:
            with self._lock:
                if len(self._messages) < self.SLOTS:
                    while self._next in self._messages:
                        self._next = (self._next + 1) % self.SLOTS
                    slot, self._next = self._next, (self._next + 1) % self.SLOTS
                    self._messages[slot] = (0, errors)
                    return slot
            self.inst.synchronize()
            self.check()
            time.sleep(0)  # words of other threads, which are just being encoded

    def binding(self, slot: int) -> Binding:
        """The word as an argument."""
        return Binding(self.buffer, 4, READ | WRITE, slot)

    def stamped(self, slot: int, stamp: int) -> None:
        """Say which command buffer holds the dispatch."""
        with self._lock:
            self._messages[slot] = (stamp, self._messages[slot][1])

    def encode(self, error: Exception | Errors, kernel: Kernel, bindings: Sequence[Binding], *more: Any, **options: Any) -> int:
        """One dispatch whose last buffer is its status word."""
        slot = self.slot(error)
        try:
            stamp = self.inst.encode(kernel, [*bindings, self.binding(slot)], *more, **options)
        except BaseException:
            with self._lock:
                del self._messages[slot]
            raise
        self.stamped(slot, stamp)
        return stamp

    def pending(self) -> bool:
        """Whether any dispatch still has to be looked at."""
        return bool(self._messages)

    def mend(self) -> None:
        """After a command buffer failed: words that it has spoiled serve again, and what others have noted in them is raised.

        The results of dispatches that failed with it are spoiled themselves, which is told where they are read."""
        with self._mending:
            self.inst.failed = False
            try:
                if not self.inst.info(self.buffer).poison:
                    return
                with self._lock:
                    done = sorted((stamp, slot) for slot, (stamp, _) in self._messages.items() if stamp)
                self.inst.wait_buffer(self.buffer, WRITE)  # nobody writes a word now: who reads one is refused until it is mended
                flags = memoryview(ctypes.string_at(self.inst.info(self.buffer).contents, 4 * self.SLOTS)).cast("I")
                self.inst.write(self.buffer, bytes(4 * self.SLOTS))
            except BaseException:
                self.inst.failed = True
                raise
            with self._lock:
                found = [(flags[slot], self._messages.pop(slot)[1]) for _, slot in done if slot in self._messages]
        for flag, errors in found:
            if flag:
                raise errors[(flag & -flag).bit_length() - 1]

    def check(self) -> None:
        """After a wait: raise what completed kernels have found, the oldest first."""
        if not self._messages:
            return
        horizon = self.inst.stats()["horizon"]
        with self._lock:
            done = sorted((stamp, slot) for slot, (stamp, _) in self._messages.items() if 0 < stamp < horizon)
            if not done:
                return
            flags = memoryview(self.inst.read(self.buffer)).cast("I")
            found = None
            bad = []
            for _, slot in done:
                _, errors = self._messages.pop(slot)
                if flags[slot]:
                    bad.append(slot)
                    found = found or errors[(flags[slot] & -flags[slot]).bit_length() - 1]
        for slot in bad:
            fill(self.inst, array(self.buffer, "uint32", (1,), slot), 0, "status")
        if found is not None:
            raise found


ZERO = {name: ("float2(0.0f, 0.0f)" if kind == "float2" else f"{kind}(0)") for name, kind in STORAGE.items()}
_MOVE = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def add_text(dtype: str) -> str:
    """The register ``sum`` and one more, ``v``; sums of halves stay float32 and are rounded once, when stored."""
    if dtype in FLOATS:
        return "sum + v"
    if dtype == "complex64":
        return "float2(sum.x + v.x, sum.y + v.y)"
    if dtype == "bool":
        return "sum || v"
    wide = "ulong" if ITEM_BYTES[dtype] == 8 else "uint"
    return f"{STORAGE[dtype]}({wide}(sum) + {wide}(v))"


@functools.lru_cache(maxsize=256)
def _text(dtype: str, index: str, which: str) -> str:
    return codegen.fill(
        "indexing", {dtype},
        GATHER=int(which == "gather"), SCATTER=int(which == "scatter"), ACCUMULATE=int(which == "accumulate"),
        ITEM=STORAGE[dtype], INDEX_TYPE=STORAGE[index], ZERO=ZERO[dtype],
        REGISTER=codegen.REGISTER[dtype], ADD=add_text(dtype), STORE=codegen.store_text("sum", dtype),
        LOAD_TARGET=codegen.load_text("q", "0", dtype),
        LOAD_SOURCE=codegen.load_text("p", "m * long(arg[5])", dtype),
    )  # fmt: skip


def _three(a: Array) -> tuple[int, int, int]:
    if len(a.shape) != 3:
        raise ValueError("arrays here have three dimensions (outer, axis, inner)")
    return a.strides  # type: ignore[return-value]


def moved(a: Array) -> Array:
    """The same bytes as unsigned integers: a move keeps every bit."""
    return a._replace(dtype=_MOVE[ITEM_BYTES[a.dtype]])


def gather(inst: Instance, source: Array, index: Array, target: Array, status: Status, error: Exception) -> int:
    """target[o, m, i] = source[o, index[o, m, i], i]; ``error`` is raised later if an index is out of range."""
    if target.size == 0:
        return 0
    source, target = moved(source), moved(target)
    outer, m, inner = target.shape
    kernel = inst.kernel(_text(source.dtype, index.dtype, "gather"), "gather")
    threads = thread_count(target.size)
    arguments = words(
        target.size, m, inner, source.shape[1], *_three(source), *_three(index), *_three(target)
    )
    bindings = [source.binding(READ), index.binding(READ), target.binding(WRITE)]
    return status.encode(error, kernel, bindings, (threads,), arguments, ops=4 * target.size, label="gather")


def scatter(inst: Instance, source: Array, index: Array, target: Array, status: Status, error: Exception) -> int:
    """target[o, index[o, m, i], i] = source[o, m, i]; of several writes to one place the last m wins."""
    outer, m, inner = source.shape
    if source.size == 0 or target.size == 0:
        return 0
    source, target = moved(source), moved(target)
    text = _text(source.dtype, index.dtype, "scatter")
    n = target.shape[1]
    winner = inst.alloc(4 * outer * n * inner)
    fill(inst, array(winner, "uint32", (outer * n * inner,), whole=True), 0, "scatter (clear)")
    threads = thread_count(source.size)
    arguments = words(source.size, m, inner, n, *_three(source), *_three(index), *_three(target))
    claims = Binding(winner, 4, READ | WRITE)
    kernel = inst.kernel(text, "scatter_claim")
    status.encode(error, kernel, [index.binding(READ), claims], (threads,), arguments, ops=8 * source.size, label="scatter (claim)")
    bindings = [source.binding(READ), index.binding(READ), target.binding(READ | WRITE), claims._replace(access=READ)]
    stamp = inst.encode(
        inst.kernel(text, "scatter"), bindings, (threads,), arguments, ops=4 * source.size, label="scatter"
    )
    winner.release()
    return stamp


def accumulate(inst: Instance, source: Array, index: Array, target: Array, status: Status, error: Exception) -> int:
    """target[o, index[o, m, i], i] += source[o, m, i] in the order of m: the same bits every time.

    A one-dimensional index (strides 0 but along the axis) is sorted first where the product of the sizes is
    large, so that the work grows with their sum.
    """
    outer, m, inner = source.shape
    n = target.shape[1]
    if source.size == 0 or target.size == 0:
        return 0
    text = _text(source.dtype, index.dtype, "accumulate")
    count = target.size
    threads = thread_count(count)
    plain = index.strides[0] == 0 and index.strides[2] == 0
    strides = (*_three(source), *_three(index), *_three(target))
    if not plain or m <= 8 or (m <= 128 and count * m <= 1 << 22):
        arguments = words(count, n, inner, m, *strides)
        bindings = [source.binding(READ), index.binding(READ), target.binding(READ | WRITE)]
        kernel = inst.kernel(text, "accumulate")
        return status.encode(
            error, kernel, bindings, (count,), arguments, group=(kernel.group(256), 1, 1), ops=2 * count * m,
            label="accumulate", split=0,
        )  # fmt: skip
    # indices checked and made non-negative, then sorted with their places
    size = ITEM_BYTES[index.dtype]
    line = Array(index.buffer, index.dtype, (1, m, 1), (0, index.strides[1], 0), index.offset)
    clean = inst.alloc(size * m)
    tidy = array(clean, index.dtype, (1, m, 1), whole=True)
    _normalise(inst, line, tidy, n, status, error)
    keys, order = inst.alloc(size * m), inst.alloc(8 * m)
    sorting.sort(
        inst, tidy, 1, array(keys, index.dtype, (1, m, 1), whole=True), array(order, "int64", (1, m, 1), whole=True)
    )
    bindings = [
        source.binding(READ), Binding(keys, size, READ), target.binding(READ | WRITE), Binding(order, 8, READ)
    ]  # fmt: skip
    arguments = words(count, n, inner, m, *strides)
    ops = 4 * count + 4 * source.size
    stamp = inst.encode(
        inst.kernel(text, "accumulate_sorted"), bindings, (threads,), arguments, ops=ops, label="accumulate"
    )
    for buffer in (clean, keys, order):
        buffer.release()
    return stamp


def _normalise(inst: Instance, index: Array, out: Array, n: int, status: Status, error: Exception) -> None:
    """out = index, from the end where negative; an index out of range becomes n and sets the status word."""
    body = f"""
kernel void normalise(device const {STORAGE[index.dtype]} *index [[buffer(0)]],
                      device {STORAGE[index.dtype]} *out [[buffer(1)]], device atomic_uint *status [[buffer(2)]],
                      constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]],
                      uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{{
    for (ulong e = tid; e < arg[0]; e += threads) {{
        const long raw = long(index[off[0] + long(e) * long(arg[1])]);
        const long n = long(arg[2]);
        long j = raw < 0 ? raw + n : raw;
        if (j < 0 || j >= n) {{
            atomic_fetch_or_explicit(status + off[2], 1u, memory_order_relaxed);
            j = n;
        }}
        out[off[1] + long(e)] = {STORAGE[index.dtype]}(j);
    }}
}}
"""
    m = index.size
    threads = thread_count(m)
    kernel = inst.kernel(codegen.prelude(body, ()) + body, "normalise")
    bindings = [index.binding(READ), out.binding(WRITE)]
    status.encode(error, kernel, bindings, (threads,), words(m, index.strides[1], n), ops=4 * m, label="normalise")
