"""Limits of the device: threadgroups, memory, SIMD-group functions, stack."""

import ctypes as C

import pytest
from soft import SAFE, CompileError, get, knobs
from test_softmetal import ADD, REDUCE, u32


def test_small_threadgroups(soft, caught):
    knobs(max_threads=256, pipeline_threads=128)
    p = soft.pipeline(ADD)
    assert soft.lib.d_pipeline_info(p, 0) == 128
    a, o = soft.buffer([1.0] * 512), soft.buffer([0.0] * 512)
    code, message = soft.run(p, [a, o, u32(512)], 512, 256)
    assert code == 9 and "the pipeline takes 1 to 128" in message
    caught("api")
    limited = ADD.replace("kernel void", "[[max_total_threads_per_threadgroup(64)]] kernel void")
    assert soft.lib.d_pipeline_info(soft.pipeline(limited), 0) == 64
    assert soft.lib.d_pipeline_info(soft.pipeline(ADD, max_threads=32), 0) == 32


def test_threadgroup_memory_limit(soft, caught):
    big = REDUCE.replace("float s[128]", "float s[8192]")
    with pytest.raises(CompileError, match="exceeds the maximum"):
        soft.pipeline(big)
    knobs(threadgroup_memory=1024)
    a, o = soft.buffer([1.0] * 128), soft.buffer(1)
    code, message = soft.run(soft.pipeline(REDUCE), [a, o], 128, 128, local=[512])
    assert code == 9 and "1056 bytes of threadgroup memory" in message
    caught("api")


def test_no_simd_operations(soft):
    sums = SAFE + "kernel void k(device float* o, uint l [[thread_index_in_simdgroup]]) { o[l] = f(o[l]); }"
    sums = sums.replace("kernel", "float f(float x) { return simd_sum(x); }\nkernel", 1)
    matrix = SAFE + "kernel void k(device float* o) { simdgroup_float8x8 m; simdgroup_load(m, o); }"
    soft.pipeline(sums), soft.pipeline(matrix)
    knobs(simd_ops=0, simd_matrix=0)
    for source in (sums, matrix):
        soft.compile(source)  # the library is made, the pipeline is not
        with pytest.raises(CompileError, match="not supported by this device"):
            soft.pipeline(source)
    soft.pipeline(ADD)
    knobs(simd_ops=1, simd_matrix=1, simd_width=16)
    soft.pipeline(sums)
    with pytest.raises(CompileError, match="not supported by this device"):
        soft.pipeline(matrix)


def test_stack_overflow(soft):
    src = SAFE + """
kernel void k(device float* o, constant uint& n) {
    float big[40000];
    for (uint i = 0; i < n; ++i) big[i * 7919 % 40000] = float(i);
    o[0] = big[n];
}
"""
    code, message = soft.run(soft.pipeline(src), [soft.buffer([0.0]), u32(40000)], 1)
    assert code == 12 and "more than 65536 bytes of stack" in message


def test_memory_limits(soft, lib, caught):
    knobs(max_buffer_length=1 << 20)
    assert soft.buffer((1 << 18) + 1).handle is None
    caught("api")
    knobs(alloc_cap=lib.d_allocated(soft.device) + (1 << 20))
    kept = [soft.buffer(1 << 16) for _ in range(4)]
    assert soft.buffer(4).handle is None and lib.d_allocated(soft.device) == get("alloc_cap")
    kept[0].release()
    assert soft.buffer(4).handle is not None
    knobs(alloc_cap=0, fail_alloc=2)
    assert soft.buffer(4).handle and soft.buffer(4).handle is None and soft.buffer(4).handle
    knobs(max_live_buffers=get("buffers"))
    assert soft.buffer(4).handle is None


def test_page_size(soft, lib, caught):
    freed = C.c_int(0)
    memory = (C.c_char * 65536)()
    start = C.addressof(memory) + (-C.addressof(memory)) % 16384
    assert lib.d_buffer_no_copy(soft.device, start + 4096, 16384, C.byref(freed)) is None
    assert lib.d_buffer_no_copy(soft.device, start, 4096, C.byref(freed)) is None
    caught("api")
    knobs(page_size=4096)
    handle = lib.d_buffer_no_copy(soft.device, start + 4096, 4096, C.byref(freed))
    assert handle
    lib.d_release(handle)


def test_poison(soft):
    assert soft.buffer(4, C.c_uint8).list() == [0xFB] * 4
    knobs(poison=0)
    assert soft.buffer(4, C.c_uint8).list() == [0] * 4
