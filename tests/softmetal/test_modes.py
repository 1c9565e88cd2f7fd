"""Each checking mode of the stand-in bites on a seeded fault, and leaves correct code alone."""

import ctypes as C
import struct
import threading
import time

import pytest
from soft import SAFE, CompileError, Soft, knobs
from test_softmetal import ADD, REDUCE, u32

STORE = (
    SAFE
    + """
kernel void k(device float* o [[buffer(0)]], constant int& offset [[buffer(1)]],
              uint i [[thread_position_in_grid]])
{
    o[int(i) + offset] = 1.0f;
}
"""
)
LOAD = (
    SAFE
    + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              constant int& offset [[buffer(2)]], uint i [[thread_position_in_grid]])
{
    o[i] = a[int(i) + offset];
}
"""
)


def i32(v):
    return struct.pack("i", v)


def fly(soft, state, arguments, n):
    """A committed command buffer that is still in flight."""
    cb = soft.command_buffer()
    soft.encode(cb, state, arguments, n, n)
    soft.lib.d_commit(cb)
    return cb


# ---- the host against work in flight ---------------------------------------------


def test_read_before_wait(soft, caught):
    knobs(delay_us=20000)
    o = soft.buffer([0.0] * 8)
    cb = fly(soft, soft.pipeline(STORE), [o, i32(0)], 8)
    assert o[3] == 0.0  # the GPU has not started: what a real one shows only sometimes
    assert soft.finish(cb) == (0, "")
    assert o[3] == 1.0
    assert "read at byte 12" in caught("host-read")[0]


def test_early_recycling_is_a_host_write(soft, caught):
    knobs(delay_us=20000)
    a, o = soft.buffer([2.0] * 8), soft.buffer([0.0] * 8)
    cb = fly(soft, soft.pipeline(ADD), [a, o, u32(8)], 8)
    _ = a[0]  # reading what the GPU only reads is fine
    caught()
    a[0] = 5.0  # a pool that hands the buffer out again too early
    assert "reads it is in flight" in caught("host-write")[0]
    soft.finish(cb)
    assert o[0] == 11.0


def test_after_the_wait_the_host_may_do_anything(soft):
    a, o = soft.buffer([2.0] * 8), soft.buffer([0.0] * 8)
    p = soft.pipeline(ADD)
    for n in range(20):
        soft.finish(fly(soft, p, [a, o, u32(8)], 8))
        assert o[0] == 2.0 * a[0] + 1
        a[0] = n


def test_slabs_are_left_alone(soft):
    knobs(delay_us=5000)
    slab = soft.buffer([0.0] * 8, label="slab 256")
    cb = fly(soft, soft.pipeline(STORE), [slab, i32(0)], 4)
    slab[7] = 3.0
    soft.finish(cb)


def test_host_out_of_bounds_and_freed(soft, caught):
    b = soft.buffer([0.0] * 64)
    wide = (C.c_float * 70).from_address(C.addressof(b.data))
    wide[68] = 1.0
    assert "beyond buffer" in caught("host-out-of-bounds")[0]
    data = b.data
    b.release()
    assert isinstance(data[0], float)
    caught("host-freed")


def test_two_queues(soft, caught):
    knobs(delay_us=10000)
    o = soft.buffer([0.0] * 8)
    p = soft.pipeline(STORE)
    first = fly(soft, p, [o, i32(0)], 8)
    main, soft.queue = soft.queue, soft.lib.d_queue(soft.device, 0)
    second = fly(soft, p, [o, i32(0)], 8)
    soft.finish(first), soft.finish(second)
    soft.lib.d_release(main)
    caught("two-queues")


# ---- kernels out of bounds ---------------------------------------------------------


@pytest.mark.parametrize("offset", [64, 1000, 100000, -1000000, 1 << 27])
def test_store_out_of_bounds_is_a_page_fault(soft, caught, offset):
    o = soft.buffer([0.0] * 64)
    code, message = soft.run(soft.pipeline(STORE), [o, i32(offset)], 64)
    assert code == 3 and "k: write at" in message
    caught("out-of-bounds")


def test_store_into_the_slack_hits_the_canary(soft, caught):
    o = soft.buffer([0.0] * 70)  # 280 bytes: 232 are free behind it, more in front
    p = soft.pipeline(STORE)
    for offset, message in ((3, "beyond the end"), (-200, "before the start")):
        assert soft.run(p, [o, i32(offset)], 70) == (0, "")
        assert message in caught("out-of-bounds")[0]


def test_load_out_of_bounds(soft, caught):
    a, o = soft.buffer([0.0] * 64), soft.buffer([0.0] * 64)
    assert soft.run(soft.pipeline(LOAD), [a, o, i32(64)], 64)[0] == 3
    caught("out-of-bounds")


def test_trace_sees_loads_in_the_slack(soft, caught):
    a, o = soft.buffer([0.0] * 70), soft.buffer([0.0] * 70)
    assert soft.run(soft.pipeline(LOAD), [a, o, i32(1)], 70)[0] == 0
    caught()
    knobs(trace=1)
    assert soft.run(soft.pipeline(LOAD), [a, o, i32(1)], 70)[0] == 3
    assert "reads 4 bytes at offset 280 of buffer" in caught("out-of-bounds")[0]


def test_bytes_end_at_a_guard_page(soft, caught):
    src = LOAD.replace("device const float* a", "constant float* a")
    o = soft.buffer([0.0] * 4)
    p = soft.pipeline(src)
    assert soft.run(p, [struct.pack("4f", 1, 2, 3, 4), o, i32(0)], 4) == (0, "")
    assert o.list() == [1, 2, 3, 4]
    assert soft.run(p, [struct.pack("4f", 1, 2, 3, 4), o, i32(4)], 4)[0] == 3
    caught("out-of-bounds")


def test_threadgroup_memory_has_a_canary(soft, caught):
    src = REDUCE.replace("float s[128]", "float s[127]")
    a, o = soft.buffer([1.0] * 128), soft.buffer(1)
    soft.run(soft.pipeline(src), [a, o], 128, 128, local=[512])
    assert "threadgroup variable 1" in caught("out-of-bounds")[0]


def test_missing_reference_bytes(soft, caught):
    o = soft.buffer([0.0] * 8)
    code, message = soft.run(soft.pipeline(STORE), [o, b"\0\0"], 8)
    assert code == 9 and "needs 4 bytes, 2 are bound" in message
    caught("api")


# ---- barriers and order --------------------------------------------------------------

UNORDERED = REDUCE.replace("    threadgroup_barrier(mem_flags::mem_threadgroup);\n    for", "    for")


def test_missing_barrier_shows_in_some_order(soft):
    assert UNORDERED != REDUCE
    a, o = soft.buffer([1.0] * 128), soft.buffer(1)
    wrong = []
    for order in (0, 1, 2):
        knobs(order=order)
        soft.run(soft.pipeline(UNORDERED), [a, o], 128, 128, local=[512])
        wrong.append(o[0] != 136.0)
    assert any(wrong) and not all(wrong)


def test_trace_finds_it_in_any_order(soft, caught):
    a, o = soft.buffer([1.0] * 128), soft.buffer(1)
    for order in (0, 1):
        knobs(trace=1, order=order)
        soft.run(soft.pipeline(UNORDERED), [a, o], 128, 128, local=[512])
        caught("race" if order else "uninitialised")


def test_race_between_groups(soft, caught):
    knobs(trace=1)
    src = SAFE + """
kernel void k(device float* o [[buffer(0)]], uint i [[thread_position_in_grid]],
              uint l [[thread_position_in_threadgroup]]) { o[l] = float(i); }
"""
    o = soft.buffer([0.0] * 32)
    soft.run(soft.pipeline(src), [o], 64, 32)
    assert "thread 0 of group 2 writes" in caught("race")[0]
    soft.run(soft.pipeline(src), [o], 32, 32)
    caught()


def test_race_inside_a_simdgroup(soft, caught):
    """Lanes are not in lockstep; simdgroup_barrier orders them."""
    knobs(trace=1)
    src = SAFE + """
kernel void k(device float* o [[buffer(0)]], uint l [[thread_position_in_threadgroup]]) {
    threadgroup float s[32];
    s[l] = float(l);
    ORDER;
    o[l] = s[31 - l];
}
"""
    o = soft.buffer([0.0] * 32)
    soft.run(soft.pipeline(src.replace("ORDER", "simdgroup_barrier(mem_flags::mem_threadgroup)")), [o], 32, 32)
    caught()
    soft.run(soft.pipeline(src.replace("ORDER", "simdgroup_barrier(mem_flags::mem_device)")), [o], 32, 32)
    assert caught("race")


@pytest.mark.parametrize("body, text", [
    ("if (l < 5) threadgroup_barrier(mem_flags::mem_device);", "reached by 5 of 64 threads"),
    ("if (l < 32) o[0] = simd_sum(1.0f); else threadgroup_barrier(mem_flags::mem_device); "
     "if (l < 32) return; o[0] = 2.0f;", "reached by 32 of 64"),
    ("if (l % 2) o[0] = simd_sum(1.0f); else o[0] = simd_max(1.0f);", "different calls"),
    ("if (l < 7) threadgroup_barrier(mem_flags::mem_device); else if (l < 40) o[0] = simd_sum(1.0f);",
     "wait at threadgroup_barrier"),
])  # fmt: skip
def test_divergence(soft, caught, body, text):
    src = SAFE + f"kernel void k(device float* o, uint l [[thread_position_in_threadgroup]]) {{ {body} }}"
    code, message = soft.run(soft.pipeline(src), [soft.buffer([0.0])], 64, 64)
    assert code == 1 and text in message
    caught("barrier")


def test_concurrent_dispatches_have_no_order(soft, lib, caught):
    p = soft.pipeline(ADD)
    a, b, c = soft.buffer([1.0]), soft.buffer([0.0]), soft.buffer([0.0])

    def chain(barrier):
        b[0] = c[0] = 0.0
        cb = soft.command_buffer()
        e = lib.d_encoder(cb, 1, None)
        soft.dispatch(e, p, [a, b, u32(1)], 1, 1)
        if barrier:
            lib.d_barrier(e)
        soft.dispatch(e, p, [b, c, u32(1)], 1, 1)
        lib.d_end(e)
        lib.d_release(e)
        lib.d_commit(cb)
        soft.finish(cb)
        return c[0]

    knobs(order=1)
    assert chain(True) == 7.0 and chain(False) == 1.0
    knobs(order=0, trace=1)
    p = soft.pipeline(ADD)
    chain(True)
    caught()
    chain(False)
    caught("race")


# ---- time ----------------------------------------------------------------------------------


def test_delay(soft, lib):
    knobs(delay_us=50000)
    begun = time.monotonic()
    cb = fly(soft, soft.pipeline(STORE), [soft.buffer([0.0] * 4), i32(0)], 4)
    assert lib.d_status(cb) == 2
    soft.finish(cb)
    assert time.monotonic() - begun >= 0.05


def test_reorder(soft, lib):
    knobs(reorder=1, reorder_us=50000)
    p = soft.pipeline(STORE)
    counter, orders = C.c_int(0), [C.c_int(0) for _ in range(3)]
    status = C.c_int(0)
    one, two = soft.buffer([0.0] * 4), soft.buffer([0.0] * 4)
    cbs = []
    for buffer, order in zip((one, one, two), orders, strict=True):
        cb = soft.command_buffer()
        lib.d_handler(cb, C.byref(counter), C.byref(order), C.byref(status))
        soft.encode(cb, p, [buffer, i32(0)], 4, 4)
        cbs.append(cb)
    for cb in cbs:
        lib.d_commit(cb)
    for cb in cbs:
        soft.finish(cb)
    first, second, third = (o.value for o in orders)
    assert first < second and third < second  # the independent one overtakes, the dependent waits


def test_handlers_run_after_the_status(soft, lib):
    knobs(handler_delay_us=30000)
    counter, order, status = C.c_int(0), C.c_int(0), C.c_int(0)
    cb = soft.command_buffer()
    lib.d_handler(cb, C.byref(counter), C.byref(order), C.byref(status))
    lib.d_commit(cb)
    while lib.d_status(cb) < 4:
        pass
    assert order.value == 0
    soft.finish(cb)
    assert (order.value, status.value) == (1, 4)


def test_sixty_four_command_buffers(soft, lib):
    cbs = [soft.command_buffer() for _ in range(64)]
    made = []
    thread = threading.Thread(target=lambda: made.append(soft.command_buffer()))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()  # the 65th blocks
    lib.d_commit(cbs[0])
    thread.join(10)
    assert not thread.is_alive()
    for cb in cbs[1:] + made:
        lib.d_release(cb)
    soft.finish(cbs[0])


def test_blocking_for_ever_is_reported(soft, lib, caught):
    knobs(block_timeout_ms=100)
    queue = lib.d_queue(soft.device, 2)
    cbs = [lib.d_command_buffer(queue, 0) for _ in range(3)]
    assert "2 command buffers" in caught("deadlock")[0]
    for cb in cbs:
        lib.d_release(cb)
    lib.d_release(queue)


def test_watchdog_and_a_queue_that_ignores_work(soft, lib):
    knobs(watchdog_ms=200)
    src = SAFE + """
kernel void k(device atomic_uint* o [[buffer(0)]]) {
    while (atomic_load_explicit(o, memory_order_relaxed) == 0u) {}
}
"""
    for body in (src, src.replace("{}", "{ threadgroup_barrier(mem_flags::mem_device); }")):
        o = soft.buffer([0], C.c_uint32)
        code, message = soft.run(soft.pipeline(body), [o], 1, 1)
        assert code == 2 and "kIOGPUCommandBufferCallbackErrorTimeout" in message
        good, p = soft.buffer([0.0] * 4), soft.pipeline(STORE)
        code, message = soft.run(p, [good, i32(0)], 4)
        assert code == 4 and "SubmissionsIgnored" in message and good[0] == 0.0
        lib.d_release(soft.queue)
        soft.queue = lib.d_queue(soft.device, 0)
        assert soft.run(p, [good, i32(0)], 4) == (0, "") and good[0] == 1.0
    knobs(ignore_after_fault=0, inject=2)
    assert soft.run(p, [good, i32(0)], 4)[0] == 2
    assert soft.run(p, [good, i32(0)], 4) == (0, "")


# ---- injected failures -------------------------------------------------------------------------------


@pytest.mark.parametrize("code, word", [(2, "Timeout"), (3, "PageFault"), (8, "OutOfMemory")])
def test_injected_error(soft, lib, code, word):
    knobs(inject=code, inject_after=1, inject_at=1)
    p = soft.pipeline(STORE)
    bufs = [soft.buffer([0.0]) for _ in range(3)]
    counter, order, status = C.c_int(0), C.c_int(0), C.c_int(0)
    assert soft.run(p, [bufs[0], i32(0)], 1) == (0, "")
    cb = soft.command_buffer(2)
    lib.d_handler(cb, C.byref(counter), C.byref(order), C.byref(status))
    for b, label in zip(bufs, "abc", strict=True):
        soft.encode(cb, p, [b, i32(0)], 1, 1, label=label)
    lib.d_commit(cb)
    lib.d_wait(cb)
    out = C.create_string_buffer(1000)
    lib.d_error_encoders(cb, out, 1000)
    assert out.value == b"a:1[] b:4[] c:3[] "
    got, message = soft.finish(cb)
    assert got == code and word in message and status.value == 5
    assert [b[0] for b in bufs] == [1.0, 0.0, 0.0]  # the rest is stale
    assert soft.run(p, [bufs[1], i32(0)], 1)[0] == (0 if code == 8 else 4)


def test_compiler_service_is_lost_once(soft):
    knobs(fail_compile=1)
    with pytest.raises(CompileError, match="XPC_ERROR_CONNECTION"):
        soft.compile(ADD)
    soft.compile(ADD)
    knobs(fail_pipeline=1)
    with pytest.raises(CompileError, match="XPC_ERROR_CONNECTION"):
        soft.pipeline(ADD)
    soft.pipeline(ADD)


def test_queue_is_refused(soft, lib):
    knobs(fail_queue=1)
    assert lib.d_queue(soft.device, 0) is None
    queue = lib.d_queue(soft.device, 0)
    assert queue
    lib.d_release(queue)


def test_macos_version(soft, lib):
    made = soft.compile(ADD, version=3 << 16)
    lib.d_release(made)
    assert lib.d_responds(soft.device, b"architecture")
    knobs(macos=13)
    assert not lib.d_responds(soft.device, b"architecture")
    assert lib.d_responds(soft.device, b"name")
    with pytest.raises(CompileError, match="language version"):
        soft.compile(ADD, version=(3 << 16) + 1)
    soft.compile(ADD, version=3 << 16)


def test_second_device_has_its_own_buffers(soft, lib, caught):
    knobs(devices=2)
    second = Soft(1)
    b = second.buffer([0.0] * 4)
    assert soft.run(soft.pipeline(STORE), [b, i32(0)], 4)[0] == 9
    caught("api")
    second.close()
