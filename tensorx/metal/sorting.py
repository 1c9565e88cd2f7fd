"""Sorting and running reductions along one axis of (outer, n, inner)."""

from __future__ import annotations

import functools

from . import codegen, reductions
from .bridge import OVERWRITE, READ, WRITE, Binding, Instance
from .codegen import FLOATS, ITEM_BYTES, REGISTER, STORAGE
from .launch import Array, array, copy, thread_count, words

BLOCK = 1024

_SIGN = {"int8": "0x80u", "int16": "0x8000u", "int32": "0x80000000u", "int64": "0x8000000000000000UL"}
_UNSIGNED = {"int8": "uint(uchar(x))", "int16": "uint(ushort(x))", "int32": "uint(x)", "int64": "ulong(x)"}


def _float_key(descending: bool) -> str:
    """Order-preserving bits of a float: NaN last either way, -0 as 0."""
    bits = "as_type<uint>(x)"
    ordered = f"(({bits} >> 31) != 0u ? ~{bits} : {bits} | 0x80000000u)"
    if descending:
        ordered = f"(~{ordered})"
    zero = "0x7fffffffu" if descending else "0x80000000u"
    return f"({bits} & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu : ({bits} << 1) == 0u ? {zero} : {ordered}"


def _key_text(dtype: str, descending: bool = False) -> tuple[str, str]:
    """Type and value of the unsigned number that orders a value x."""
    key = "ulong" if ITEM_BYTES[dtype] == 8 else "uint"
    if dtype in FLOATS:
        make = _float_key(descending)
    elif dtype == "bool":
        make = "x ? 0u : 1u" if descending else "x ? 1u : 0u"
    else:
        make = f"({_UNSIGNED[dtype]} ^ {_SIGN[dtype]})" if dtype in _SIGN else f"{key}(x)"
        if descending:
            make = f"~{make}"
    return key, make


@functools.lru_cache(maxsize=128)
def _sort_text(dtype: str, descending: bool, wide: bool) -> str:
    key, make = _key_text(dtype, descending)
    block = BLOCK if key == "uint" else BLOCK // 2
    return codegen.fill(
        "sort", BLOCK=block, KEY=key, POSITION="ulong" if wide else "uint", IN=STORAGE[dtype], VALUE=REGISTER[dtype],
        MAKE_KEY=make, LOAD=codegen.load_text("p", "at", dtype),
    )  # fmt: skip


def _three(a: Array | None) -> tuple[int, ...]:
    return a.strides if a is not None else (0, 0, 0)


def sort(
    inst: Instance,
    source: Array,
    axis: int,
    values: Array | None = None,
    order: Array | None = None,
    descending: bool = False,
) -> int:
    """Stable sort along axis 1 of a three-dimensional array, NaN last; ``values`` and ``order`` (int64
    positions) are written where given.  Complex numbers have no order here."""
    if axis != 1 or len(source.shape) != 3 or source.dtype == "complex64":
        raise ValueError(f"sort of axis {axis} of {source.dtype} {source.shape}")
    outer, n, inner = source.shape
    lines = outer * inner
    if lines == 0 or n == 0:
        return 0
    if order is None and values is None:
        raise ValueError("nothing to write")
    wide = n > 2**32 - 1
    text = _sort_text(source.dtype, descending, wide)
    key_bytes, place_bytes = (8 if ITEM_BYTES[source.dtype] == 8 else 4), (8 if wide else 4)
    block = BLOCK if key_bytes == 4 else BLOCK // 2
    keys = [inst.alloc(key_bytes * lines * n) for _ in range(1 if n <= block else 2)]
    places = [inst.alloc(place_bytes * lines * n) for _ in range(1 if n <= block else 2)]

    kernel = inst.kernel(text, "sort_blocks")
    blocks = -(-n // block)
    threads = kernel.group(256)
    while threads > kernel.execution_width and threads >= 2 * n:
        threads //= 2
    arguments = words(lines, n, inner, *source.strides)
    stamp = inst.encode(
        kernel,
        [source.binding(READ), Binding(keys[0], key_bytes, WRITE | OVERWRITE), Binding(places[0], place_bytes, WRITE | OVERWRITE)],
        (blocks, lines), arguments, group=(threads, 1, 1), in_groups=True, ops=lines * n * 60, label="sort (blocks)",
    )  # fmt: skip
    now, run = 0, block
    threads = thread_count(lines * n)
    while run < n:
        kernel = inst.kernel(text, "sort_merge")
        bindings = [
            Binding(keys[now], key_bytes, READ),
            Binding(places[now], place_bytes, READ),
            Binding(keys[1 - now], key_bytes, WRITE | OVERWRITE),
            Binding(places[1 - now], place_bytes, WRITE | OVERWRITE),
        ]
        arguments = words(lines, n, inner, *source.strides, run)
        inst.encode(kernel, bindings, (threads,), arguments, ops=lines * n * 40, label="sort (merge)")
        now, run = 1 - now, run * 2
    # written through a copy where the values go back into the source
    read = source
    spare = None
    if values is not None and _same_buffer(values, source):
        spare = inst.alloc(ITEM_BYTES[source.dtype] * source.size)
        read = array(spare, source.dtype, source.shape, whole=True)
        copy(inst, source, read, "sort (copy)")
    unused = Binding(places[now], 1, 0)
    arguments = words(
        lines, n, inner, *read.strides, *_three(values), *_three(order), (values is not None) | 2 * (order is not None)
    )
    stamp = inst.encode(
        inst.kernel(text, "sort_write"),
        [
            read.binding(READ),
            Binding(places[now], place_bytes, READ),
            values.binding(WRITE) if values is not None else unused,
            order.binding(WRITE) if order is not None else unused,
        ],
        (threads,), arguments, ops=4 * lines * n, label="sort",
    )  # fmt: skip
    for buffer in (*keys, *places, *([spare] if spare else [])):
        buffer.release()
    return stamp


@functools.lru_cache(maxsize=32)
def _search_text(dtype: str) -> str:
    key, make = _key_text(dtype)
    return codegen.fill(
        "search", KEY=key, MAKE_KEY=make, VALUE=REGISTER[dtype], IN=STORAGE[dtype],
        LOAD_VALUE=codegen.load_text("v", "0", dtype), LOAD_LINE=codegen.load_text("p", "0", dtype),
    )  # fmt: skip


def search(inst: Instance, line: Array, values: Array, out: Array, right: bool) -> int:
    """out (int64) = where each of values would have to be put into a sorted line; values and out are dense."""
    n = values.size
    arguments = words(n, line.size, line.strides[0] if line.size > 1 else 0, int(right))
    bindings = [line.binding(READ), values.binding(READ), out.binding(WRITE)]
    kernel = inst.kernel(_search_text(line.dtype), "search_sorted")
    return inst.encode(kernel, bindings, (thread_count(n),), arguments, ops=n * 4 * max(1, line.size.bit_length()), label="searchsorted")


def _same_buffer(a: Array, b: Array) -> bool:
    return getattr(a.buffer, "handle", a.buffer) == getattr(b.buffer, "handle", b.buffer)


# ---- running reductions ---------------------------------------------------------------------------------

SCANS = ("sum", "prod", "max", "min")


@functools.lru_cache(maxsize=128)
def _scan_text(op: str, dtype: str, out: str, chunks: bool) -> str:
    r = reductions.rule(op, dtype)
    text = codegen.fill(
        "scan", {dtype, out, r.dtype}, STATE=r.state, VALUE=REGISTER[dtype], FIRST=r.first, FOLD=r.fold, MERGE=r.merge,
        IN=STORAGE[dtype], OUT=STORAGE[out], CHUNKS=int(chunks),
        LOAD=codegen.load_text("p", "long(j) * long(arg[6])", dtype),
        STORE=codegen.store_text(codegen.cast_text(r.finish, r.dtype, out), out),
    )  # fmt: skip
    if r.definitions:
        cut = text.index("// Running sums")
        body = r.definitions + text[cut:]
        return codegen.prelude(body, {dtype, out, r.dtype}) + body
    return text


def _chunk(lines: int, n: int) -> int:
    """How many elements of a line one thread walks."""
    return max(64, -(-n * lines // 65536), -(-n // 4096)) if lines < 4096 and n > 256 else n


def scan(inst: Instance, op: str, source: Array, axis: int, target: Array) -> int:
    """target = running sum, prod, max or min of source along axis 1; both are (outer, n, inner)."""
    if axis != 1 or op not in SCANS:
        raise ValueError(f"scan {op} of axis {axis}")
    outer, n, inner = source.shape
    lines = outer * inner
    if lines == 0 or n == 0:
        return 0
    chunk = _chunk(lines, n)
    chunks = -(-n // chunk)
    text = _scan_text(op, source.dtype, target.dtype, True)
    threads = min(lines * chunks, 1 << 20)
    arguments = words(lines, n, inner, chunk, chunks, *source.strides, *target.strides)
    totals, held = None, source.binding(READ)._replace(item_bytes=1, offset=0, access=0)
    if chunks > 1:
        item = reductions._STATE_BYTES[reductions.rule(op, source.dtype).state]
        totals = inst.alloc(item * lines * chunks)
        held = Binding(totals, item, WRITE | OVERWRITE)
        inst.encode(
            inst.kernel(text, "scan_chunks"), [source.binding(READ), held], (threads,), arguments,
            ops=lines * n, label=f"running {op} (chunks)",
        )  # fmt: skip
        held = held._replace(access=READ | WRITE)
        inst.encode(
            inst.kernel(text, "scan_totals"), [held], (min(lines, threads),),
            words(lines, n, inner, chunk, chunks), ops=lines * chunks, label=f"running {op} (totals)",
        )  # fmt: skip
        held = held._replace(access=READ)
    stamp = inst.encode(
        inst.kernel(text, "scan_write"), [source.binding(READ), held, target.binding(WRITE)], (threads,), arguments,
        ops=2 * lines * n, label=f"running {op}",
    )  # fmt: skip
    if totals is not None:
        totals.release()
    return stamp


@functools.lru_cache(maxsize=2)
def _recurrence_text(dtype: str) -> str:
    twofold = dtype == "complex64"
    text = codegen.fill(
        "recurrence", {dtype}, COMPLEX=int(twofold), IN=STORAGE[dtype], FIRST="B" if twofold else "float2(B, 0.0f)",
        VALUE="s" if twofold else "s.x",
    )  # fmt: skip
    if twofold:
        return text
    body = reductions.rule("prod", dtype).definitions + text[text.index("// y[j]") :]
    return codegen.prelude(body, {dtype}) + body


def recurrence(inst: Instance, source: Array, second: Array, target: Array) -> int:
    """target[j] = source[j] * target[j - 1] + second[j] along axis 1 of (outer, n, inner); float32 or complex64."""
    outer, n, inner = source.shape
    lines = outer * inner
    if lines == 0 or n == 0:
        return 0
    chunk = _chunk(lines, n) if source.dtype == "float32" else n
    chunks = -(-n // chunk)
    text = _recurrence_text(source.dtype)
    threads = min(lines * chunks, 1 << 20)
    arguments = words(lines, n, inner, chunk, chunks, *source.strides, *second.strides, *target.strides)
    both = [source.binding(READ), second.binding(READ)]
    totals, held = None, source.binding(READ)._replace(item_bytes=1, offset=0, access=0)
    if chunks > 1:
        totals = inst.alloc(16 * lines * chunks)
        held = Binding(totals, 16, WRITE | OVERWRITE)
        kernel = inst.kernel(text, "recurrence_chunks")
        inst.encode(kernel, [*both, held], (threads,), arguments, ops=6 * lines * n, label="recurrence (chunks)")
        held = held._replace(access=READ | WRITE)
        kernel = inst.kernel(text, "recurrence_totals")
        inst.encode(kernel, [*both, held], (min(lines, threads),), arguments, ops=8 * lines * chunks, label="recurrence (totals)")
        held = held._replace(access=READ)
    stamp = inst.encode(
        inst.kernel(text, "recurrence_write"), [*both, held, target.binding(WRITE)], (threads,), arguments, ops=4 * lines * n,
        label="recurrence",
    )  # fmt: skip
    if totals is not None:
        totals.release()
    return stamp
