"""The stand-in runs kernels: arguments, grids, built-ins, threadgroup and SIMD-group functions."""

import ctypes as C
import itertools
import math
import struct
import subprocess
import sys
import time

import pytest
from soft import HERE, SAFE, CompileError, Soft, get, knobs, text

ADD = (
    SAFE
    + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]])
{
    if (i < n)
        o[i] = a[i] * 2.0f + 1.0f;
}
"""
)


def u32(*values):
    return struct.pack(f"{len(values)}I", *values)


def test_one_kernel(soft):
    a, o = soft.buffer([float(i) for i in range(1000)]), soft.buffer(1000)
    assert soft.run(soft.pipeline(ADD), [a, o, u32(1000)], 1000, 256) == (0, "")
    assert o.list() == [2.0 * i + 1 for i in range(1000)]


def test_device(soft, lib):
    assert "stand-in" in text(lib.d_name, soft.device)
    assert lib.d_devices() == 1
    knobs(devices=0)
    assert lib.d_device(-1) is None and lib.d_devices() == 0
    knobs(devices=2)
    second = Soft(1)
    assert text(lib.d_name, second.device) != text(lib.d_name, soft.device)
    second.close()
    assert lib.d_family(soft.device, 1008) and lib.d_family(soft.device, 5001)
    knobs(family=5)
    assert not lib.d_family(soft.device, 1006) and not lib.d_family(soft.device, 5001)


def test_threadgroups_and_offsets(soft):
    p = soft.pipeline(ADD)
    a, o = soft.buffer([float(i) for i in range(64)]), soft.buffer([-1.0] * 64)
    assert soft.run(p, [(a, 32), (o, 64), u32(40)], 2, 16, threads=False) == (0, "")
    assert o.list() == [-1.0] * 16 + [2.0 * (i + 8) + 1 for i in range(32)] + [-1.0] * 16


BUILTINS = (
    SAFE
    + """
kernel void k(device uint* o [[buffer(0)]], uint3 p [[thread_position_in_grid]],
              uint3 n [[threads_per_grid]], ushort3 t [[thread_position_in_threadgroup]],
              uint3 size [[threads_per_threadgroup]], uint3 g [[threadgroup_position_in_grid]],
              uint3 groups [[threadgroups_per_grid]], uint index [[thread_index_in_threadgroup]],
              ushort lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
              uint width [[threads_per_simdgroup]], uint simds [[simdgroups_per_threadgroup]],
              uint3 nominal [[dispatch_threads_per_threadgroup]])
{
    device uint* q = o + 20 * ((p.z * n.y + p.y) * n.x + p.x);
    q[0] = p.x; q[1] = p.y; q[2] = p.z;
    q[3] = t.x; q[4] = t.y; q[5] = t.z;
    q[6] = size.x; q[7] = size.y; q[8] = size.z;
    q[9] = g.x; q[10] = g.y; q[11] = g.z;
    q[12] = groups.x; q[13] = groups.y; q[14] = index;
    q[15] = lane; q[16] = simd; q[17] = width; q[18] = simds; q[19] = nominal.x * 100 + nominal.y;
}
"""
)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_positions(soft, order):
    knobs(order=order)
    grid, group = (7, 5, 2), (4, 3, 1)
    o = soft.buffer(20 * 70, C.c_uint32)
    assert soft.run(soft.pipeline(BUILTINS), [o], grid, group) == (0, "")
    for z, y, x in itertools.product(range(2), range(5), range(7)):
        q = o.list()[20 * ((z * 5 + y) * 7 + x) :][:20]
        sx, sy = min(4, 7 - x // 4 * 4), min(3, 5 - y // 3 * 3)
        index = y % 3 * sx + x % 4
        assert q == [x, y, z, x % 4, y % 3, 0, sx, sy, 1, x // 4, y // 3, z, 2, 2, index,
                     index % 32, index // 32, 32, (sx * sy + 31) // 32, 403]  # fmt: skip


def test_indirect_dispatch(soft, lib):
    p = soft.pipeline(ADD)
    a, o = soft.buffer([1.0] * 64), soft.buffer([0.0] * 64)
    count = soft.buffer([3, 1, 1], C.c_uint32)
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 0, None)
    lib.d_set_pipeline(e, p)
    lib.d_set_buffer(e, a.handle, 0, 0)
    lib.d_set_buffer(e, o.handle, 0, 1)
    lib.d_set_bytes(e, u32(64), 4, 2)
    lib.d_dispatch_indirect(e, count.handle, 0, 16)
    lib.d_end(e)
    lib.d_release(e)
    lib.d_commit(cb)
    assert soft.finish(cb) == (0, "")
    assert o.list() == [3.0] * 48 + [0.0] * 16


REDUCE = (
    SAFE
    + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              threadgroup float* extra [[threadgroup(0)]],
              uint i [[thread_position_in_grid]], uint l [[thread_position_in_threadgroup]],
              uint n [[threads_per_threadgroup]], uint g [[threadgroup_position_in_grid]])
{
    threadgroup float s[128];
    threadgroup uint flag, more[4];
    s[l] = a[i];
    extra[l] = 1.0f;
    if (l == 0) {
        flag = 3;
        more[3] = 4;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = n / 2; k > 0; k /= 2) {
        if (l < k)
            s[l] += s[l + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (l == 0)
        o[g] = s[0] + extra[n - 1] + float(flag + more[3]);
}
"""
)


@pytest.mark.parametrize("order, trace, workers", [(0, 0, 1), (1, 0, 1), (2, 0, 2), (0, 1, 1)])
def test_barriers(soft, order, trace, workers):
    knobs(order=order, trace=trace, workers=workers)
    a, o = soft.buffer([float(i % 13) for i in range(1024)]), soft.buffer(8)
    p = soft.pipeline(REDUCE)
    assert soft.lib.d_pipeline_info(p, 2) == 128 * 4 + 16 + 16
    assert soft.run(p, [a, o], 1024, 128, local=[512]) == (0, "")
    assert o.list() == [sum(a[128 * g : 128 * g + 128]) + 8 for g in range(8)]


SIMD = (
    SAFE
    + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              uint i [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],
              ushort w [[threads_per_simdgroup]])
{
    float x = a[i];
    device float* q = o + 16 * i;
    q[0] = simd_sum(x);
    q[1] = simd_prefix_exclusive_sum(x);
    q[2] = simd_prefix_inclusive_sum(x);
    q[3] = simd_max(x);
    q[4] = float(simd_min(half(x)));
    q[5] = float(simd_shuffle_xor(uint(i), 1));
    q[6] = simd_broadcast(x, 3);
    q[7] = simd_shuffle_and_fill_up(x, -5.0f, 2);
    q[8] = simd_shuffle_rotate_down(x, 1);
    q[9] = float(simd_all(x > -1.0f)) + 2.0f * float(simd_any(x > 100.0f));
    q[10] = float(popcount(uint(ulong(simd_ballot(x > 3.0f)))));
    q[11] = quad_sum(x);
    q[12] = float(simd_xor(int(lane)));
    q[13] = simd_is_first() ? 1.0f : 0.0f;
    q[14] = simd_sum(float2(x, 1.0f)).y;
    q[15] = simd_product(x == 0.0f ? 1.0f : 2.0f);
}
"""
)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_simd(soft, width):
    knobs(simd_width=width)
    a, o = soft.buffer([float(i * 7 % 11) for i in range(64)]), soft.buffer(64 * 16)
    p = soft.pipeline(SIMD)
    assert soft.lib.d_pipeline_info(p, 1) == width
    assert soft.run(p, [a, o], 64, 64) == (0, "")
    values = a.list()
    for i in range(64):
        base, lane = i // width * width, i % width
        x = values[base : base + width]
        lanes = 0
        for k in range(width):
            lanes ^= k
        low = sum(1 for v in x[:32] if v > 3)
        want = [sum(x), sum(x[:lane]), sum(x[: lane + 1]), max(x), min(x), i ^ 1, x[3],
                x[lane - 2] if lane >= 2 else -5, x[(lane + 1) % width], 1.0, low,
                sum(x[lane // 4 * 4 :][:4]), lanes, float(lane == 0), width,
                math.prod(1.0 if v == 0 else 2.0 for v in x)]  # fmt: skip
        assert o[16 * i : 16 * i + 16] == want, i


def test_partial_simdgroup_and_early_return(soft):
    src = SAFE + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              uint i [[thread_position_in_grid]])
{
    if (i >= 40)
        return;
    o[i] = simd_sum(a[i]);
}
"""
    a, o = soft.buffer([1.0] * 50), soft.buffer([0.0] * 50)
    assert soft.run(soft.pipeline(src), [a, o], 50, 50) == (0, "")
    assert o.list() == [32.0] * 32 + [8.0] * 8 + [0.0] * 10


MATRIX = (
    SAFE
    + """
kernel void k(device const TYPE* a [[buffer(0)]], device const TYPE* b [[buffer(1)]],
              device float* c [[buffer(2)]], uint lane [[thread_index_in_simdgroup]])
{
    threadgroup TYPE tile[64];
    simdgroup_matrix<TYPE, 8, 8> x, y;
    simdgroup_float8x8 z = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
    for (uint k = 0; k < 16; k += 8) {
        for (uint j = lane; j < 64; j += 32)
            tile[j] = b[k * 8 + j];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_load(x, a + k, 16);
        simdgroup_load(y, tile, 8);
        simdgroup_multiply_accumulate(z, x, y, z);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    z.thread_elements()[0] += 1.0f;
    simdgroup_store(z, c, 8, ulong2(0, 0), true);
}
"""
)


@pytest.mark.parametrize("kind, type_", [("float", C.c_float), ("half", C.c_uint16)])
def test_simdgroup_matrix(soft, kind, type_):
    def bits(v):
        return struct.unpack("H", struct.pack("e", v))[0] if kind == "half" else v

    av, bv = [float(i * 5 % 7 - 3) for i in range(128)], [float(i * 3 % 5 - 2) for i in range(128)]
    a, b, c = (soft.buffer([bits(v) for v in m], type_) for m in (av, bv, [0.0] * 64))
    c = soft.buffer(64)
    p = soft.pipeline("#include <metal_simdgroup_matrix>\n" + MATRIX.replace("TYPE", kind))
    assert soft.run(p, [a, b, c], 32, 32) == (0, "")
    for i, j in itertools.product(range(8), range(8)):
        even = j % 2 == 0  # the first element of each lane
        assert c[j * 8 + i] == 1 + even + sum(av[i * 16 + k] * bv[k * 8 + j] for k in range(16))


def test_atomics(soft):
    src = SAFE + """
kernel void k(device atomic_uint* u [[buffer(0)]], device atomic_int* s [[buffer(1)]],
              device atomic_float* f [[buffer(2)]], uint i [[thread_position_in_grid]],
              uint l [[thread_position_in_threadgroup]])
{
    threadgroup atomic_uint local;
    if (l == 0)
        atomic_store_explicit(&local, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&local, 1, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (l == 0)
        atomic_fetch_add_explicit(&u[0], atomic_load_explicit(&local, memory_order_relaxed),
                                  memory_order_relaxed);
    atomic_fetch_max_explicit(&u[1], i, memory_order_relaxed);
    atomic_fetch_min_explicit(&s[0], -int(i), memory_order_relaxed);
    atomic_fetch_add_explicit(&f[0], 0.5f, memory_order_relaxed);
    uint seen = atomic_load_explicit(&u[2], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&u[2], &seen, seen + 2, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
    atomic_fetch_or_explicit(&u[3], 1u << (i % 32), memory_order_relaxed);
}
"""
    for trace, workers in ((0, 1), (0, 2), (1, 1)):
        knobs(trace=trace, workers=workers)
        u, s, f = soft.buffer([0] * 4, C.c_uint32), soft.buffer([0], C.c_int32), soft.buffer([0.0])
        assert soft.run(soft.pipeline(src), [u, s, f], 256, 64) == (0, "")
        assert u.list() == [256, 255, 512, 0xFFFFFFFF] and s[0] == -255 and f[0] == 128.0


def test_templates_host_names_and_function_constants(soft, lib):
    src = SAFE + """
constant bool twice [[function_constant(0)]];
constant int extra [[function_constant(1)]];
template <typename T, int N>
kernel void scale(device const T* a [[buffer(0)]], device T* o [[buffer(1)]],
                  uint i [[thread_position_in_grid]])
{
    o[i] = a[i] * T(N) * T(twice ? 2 : 1) + T(is_function_constant_defined(extra) ? extra : 0);
}
template [[host_name("scale_float_3")]] kernel void scale<float, 3>(
    device const float*, device float*, uint);
template [[host_name("scale_int_5")]] [[kernel]] void scale<int, 5>(
    device const int* a [[buffer(0)]], device int* o [[buffer(1)]], uint i [[thread_position_in_grid]]);
template [[host_name("scale_uchar_2")]] [[kernel]] decltype(scale<uchar, 2>) scale<uchar, 2>;
"""
    made = soft.compile(src)
    assert text(lib.d_function_names, made).split() == ["scale_float_3", "scale_int_5", "scale_uchar_2"]
    with pytest.raises(CompileError):
        soft.function(made, "scale_int_5")  # needs its constants
    function = soft.function(made, "scale_int_5", "0 b 1 1 i 7")
    out = C.create_string_buffer(1000)
    state = lib.d_pipeline(soft.device, function, 0, out, len(out))
    a, o = soft.buffer(range(10), C.c_int32), soft.buffer(10, C.c_int32)
    assert soft.run(state, [a, o], 10) == (0, "")
    assert o.list() == [10 * i + 7 for i in range(10)]
    with pytest.raises(CompileError, match="does not exist"):
        soft.function(made, "scale_char_2", "0 b 1")


def test_preprocessor_macros_and_lines(soft):
    src = SAFE + """
#define BODY(op) o[i] = FACTOR * a[i] op 1.0f
#if __METAL_VERSION__ >= 300 && defined(FACTOR)
kernel void k(device const float* a, device float* o, uint i [[thread_position_in_grid]]) { BODY(-); }
#endif
"""
    a, o = soft.buffer([3.0]), soft.buffer(1)
    assert soft.run(soft.pipeline(src, macros="FACTOR=4 OTHER=1"), [a, o], 1) == (0, "")
    assert o[0] == 11.0
    with pytest.raises(CompileError, match=r"program_source:8:\d+: error: use of undeclared"):
        soft.compile(src.replace("- 1", "- 1").replace("BODY(-);", "BODY(-) + zzz;"), macros="FACTOR=4")


def test_events_order_queues(soft, lib):
    knobs(delay_us=3000)
    p = soft.pipeline(ADD)
    a, b, c = soft.buffer([1.0]), soft.buffer(1), soft.buffer(1)
    event, other = lib.d_event(soft.device), lib.d_queue(soft.device, 0)
    flag = C.c_int(0)
    lib.d_event_notify(event, 1, C.byref(flag))
    first, second = soft.command_buffer(), lib.d_command_buffer(other, 0)
    lib.d_encode_event(second, event, 1, 0)
    soft.encode(second, p, [b, c, u32(1)], 1, 1)
    lib.d_commit(second)
    soft.encode(first, p, [a, b, u32(1)], 1, 1)
    lib.d_encode_event(first, event, 1, 1)
    lib.d_commit(first)
    assert soft.finish(second) == (0, "") and soft.finish(first) == (0, "")
    assert c[0] == 7.0 and lib.d_event_value(event) == 1 and flag.value == 1
    assert not lib.d_event_wait(event, 5, 10)
    lib.d_event_set(event, 5)
    assert lib.d_event_wait(event, 5, 10)
    lib.d_release(event)
    lib.d_release(other)


def test_blit(soft, lib):
    a, b = soft.buffer([1, 2, 3, 4], C.c_uint32), soft.buffer([0] * 4, C.c_uint32)
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 2, None)
    lib.d_copy(e, a.handle, 4, b.handle, 8, 8)
    lib.d_fill(e, b.handle, 0, 4, 0x11)
    lib.d_end(e)
    lib.d_release(e)
    lib.d_commit(cb)
    assert soft.finish(cb) == (0, "")
    assert b.list() == [0x11111111, 0, 2, 3]


def test_no_copy_buffer(soft, lib):
    import mmap

    memory = mmap.mmap(-1, 65536)
    address = C.addressof(C.c_char.from_buffer(memory))
    address += -address % 16384
    freed = C.c_int(0)
    handle = lib.d_buffer_no_copy(soft.device, address, 16384, C.byref(freed))
    view = (C.c_float * 2).from_address(address)
    view[0] = 5.0
    shared = type("B", (), {"handle": handle})
    assert soft.run(soft.pipeline(ADD), [shared, (shared, 4), u32(1)], 1) == (0, "")
    assert view[1] == 11.0
    lib.d_release(handle)
    assert freed.value == 16384


def test_blocks_are_objects_and_retain(soft, lib):
    assert lib.d_block_check() == 1


def test_nothing_leaks(soft, lib):
    p = soft.pipeline(ADD)
    a, o = soft.buffer([1.0] * 8), soft.buffer(8)
    soft.run(p, [a, o, u32(8)], 8)
    lib.sm_reset()
    names = ("buffers", "queues", "command_buffers_alive", "encoders", "libraries", "functions", "pipelines", "events")
    before = [get(n) for n in names]
    for _ in range(50):
        b = soft.buffer(100)
        soft.run(p, [a, o, u32(8)], 8)
        b.release()
        lib.d_release(soft.pipeline(ADD))
    lib.sm_reset()  # waits for what is still running
    deadline = time.monotonic() + 5
    # What earlier tests left behind may still go: fewer is fine.
    while any(get(n) > b for n, b in zip(names, before, strict=True)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(get(n) <= b for n, b in zip(names, before, strict=True)), [get(n) for n in names]


def test_small_dispatch_is_quick_and_kernels_are_cached(soft):
    """Counters, not clocks: the second compilation of a text runs no compiler."""
    unique = ADD + f"// {time.time_ns()}\n"
    runs = get("compiler_runs")
    soft.pipeline(unique)
    assert get("compiler_runs") == runs + 1
    soft.pipeline(unique)
    assert get("compiler_runs") == runs + 1 and get("compiles") >= 2


def test_describe_names_every_knob(lib):
    listed = text(lib.sm_describe)
    readme = (HERE / "README.md").read_text()
    for line in listed.splitlines():
        kind, name = line.split()[:2]
        assert lib.sm_get(name.encode()) != -1 or kind == "counter"
        if kind == "knob":
            assert f"`{name}`" in readme, name
    assert lib.sm_set(b"no_such_knob", 1) == -1 and lib.sm_get(b"no_such_knob") == -1


def test_any_call_in_a_forked_child_aborts(lib):
    program = (
        f"import os, sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import soft\n"
        "s = soft.Soft()\n"
        "b = s.buffer(4)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    b.release()\n"
        "    os._exit(0)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print(os.WIFSIGNALED(status) and os.WTERMSIG(status))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "6" and "forked child" in done.stderr


def test_exit_with_work_in_flight_is_silent(lib):
    program = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import soft, test_softmetal as t\n"
        "soft.library()\n"
        "s = soft.Soft()\n"
        "soft.knobs(delay_us=200000)\n"
        "p = s.pipeline(t.ADD)\n"
        "a = s.buffer([1.0] * 8)\n"
        "cb = s.command_buffer()\n"
        "s.encode(cb, p, [a, s.buffer(8), t.u32(8)], 8, 8)\n"
        "s.lib.d_commit(cb)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
