"""What Metal's validation layer would stop at is a violation here."""

import ctypes as C
import threading

import pytest
from soft import SAFE, knobs
from test_softmetal import ADD, u32


@pytest.fixture
def ready(soft, lib):
    """A compute encoder with a pipeline and three arguments, closed at the end."""
    p = soft.pipeline(ADD)
    a, o = soft.buffer([1.0] * 64), soft.buffer([0.0] * 64)
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 0, None)
    lib.d_set_pipeline(e, p)
    lib.d_set_buffer(e, a.handle, 0, 0)
    lib.d_set_buffer(e, o.handle, 0, 1)
    lib.d_set_bytes(e, u32(64), 4, 2)
    yield cb, e, a, o
    lib.d_release(e)
    lib.d_release(cb)


def three(*n):
    return (C.c_ulong * 3)(*n)


def dispatch(lib, e, grid=(64, 1, 1), group=(64, 1, 1)):
    lib.d_dispatch(e, 1, three(*grid), three(*group))


def end(lib, cb, e):
    lib.d_end(e)
    lib.d_commit(cb)
    lib.d_wait(cb)
    out = C.create_string_buffer(1000)
    return lib.d_error(cb, out, 1000), out.value.decode()


@pytest.mark.parametrize("length", [0, 4097, 100000])
def test_set_bytes(ready, lib, caught, length):
    cb, e, *_ = ready
    lib.d_set_bytes(e, bytes(max(1, length)), length, 2)
    assert f"{length} bytes" in caught("api")[0]
    dispatch(lib, e)
    assert end(lib, cb, e) == (0, "")  # the earlier bytes are still bound


def test_set_bytes_of_the_largest_size(ready, lib):
    cb, e, *_ = ready
    lib.d_set_bytes(e, u32(64) + bytes(4092), 4096, 2)
    dispatch(lib, e)
    assert end(lib, cb, e) == (0, "")


def test_index_31(ready, lib, caught):
    cb, e, a, _ = ready
    lib.d_set_buffer(e, a.handle, 0, 31)
    lib.d_set_bytes(e, b"1234", 4, 31)
    assert len(caught("api")) == 2
    end(lib, cb, e)


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (64, 1, 0)])
def test_zero_grid(ready, lib, caught, grid):
    cb, e, *_ = ready
    dispatch(lib, e, grid)
    caught("api")
    assert end(lib, cb, e)[0] == 9


@pytest.mark.parametrize("group", [(0, 1, 1), (1025, 1, 1), (32, 33, 1), (1, 1, 2000)])
def test_threadgroup_size(ready, lib, caught, group):
    cb, e, *_ = ready
    dispatch(lib, e, group=group)
    caught("api")
    assert end(lib, cb, e)[0] == 9


def test_grid_beyond_32_bits(ready, lib, caught):
    cb, e, *_ = ready
    lib.d_dispatch(e, 0, three(1 << 31, 1, 1), three(4, 1, 1))
    assert end(lib, cb, e)[0] == 9
    assert "32 bits" in caught("api")[0]


def test_offsets(ready, lib, caught):
    cb, e, a, _ = ready
    lib.d_set_buffer(e, a.handle, 256, 0)
    lib.d_set_buffer_offset(e, 300, 0)
    lib.d_set_buffer_offset(e, 4, 7)
    assert len(caught("api")) == 3
    lib.d_set_buffer_offset(e, 2, 0)
    dispatch(lib, e)
    assert "not a multiple of 4" in end(lib, cb, e)[1]
    caught("api")


def test_constant_offset_alignment(soft, ready, lib, caught):
    cb, e, *_ = ready
    n = soft.buffer([1] * 16, C.c_uint32)
    lib.d_set_buffer(e, n.handle, 32, 2)
    dispatch(lib, e)
    lib.d_set_buffer(e, n.handle, 4, 2)
    dispatch(lib, e)
    assert "not a multiple of 32" in end(lib, cb, e)[1]
    caught("api")


def test_unbound_argument(ready, lib, caught):
    cb, e, *_ = ready
    lib.d_set_buffer(e, None, 0, 1)
    dispatch(lib, e)
    code, message = end(lib, cb, e)
    assert code == 9 and "argument 1 is not bound" in message
    caught("api")


def test_threadgroup_memory_length(ready, lib, caught):
    cb, e, *_ = ready
    lib.d_set_threadgroup(e, 20, 0)
    lib.d_set_threadgroup(e, 65536, 0)
    lib.d_set_threadgroup(e, 16, 31)
    assert len(caught("api")) == 3
    end(lib, cb, e)


def test_dispatch_without_pipeline(soft, lib, caught):
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 0, None)
    dispatch(lib, e)
    lib.d_set_pipeline(e, None)
    assert len(caught("api")) == 2
    end(lib, cb, e)


def test_encoder_order(soft, ready, lib, caught):
    cb, e, a, _ = ready
    assert lib.d_encoder(cb, 0, None) is None  # one at a time
    lib.d_end(e)
    lib.d_end(e)
    lib.d_set_buffer(e, a.handle, 0, 0)
    dispatch(lib, e)
    lib.d_commit(cb)
    assert lib.d_encoder(cb, 0, None) is None
    lib.d_commit(cb)
    assert len(caught("api")) == 6
    lib.d_wait(cb)


def test_commit_with_an_open_encoder(ready, lib, caught):
    cb, *_ = ready
    lib.d_commit(cb)
    lib.d_wait(cb)
    caught("api")


def test_encoder_released_without_end(soft, lib, caught):
    cb = soft.command_buffer()
    lib.d_release(lib.d_encoder(cb, 0, None))
    caught("api")
    lib.d_release(cb)


def test_wait_before_commit(soft, lib, caught):
    cb = soft.command_buffer()
    lib.d_wait(cb)
    caught("api")
    lib.d_release(cb)


def test_handler_after_commit(soft, lib, caught):
    knobs(delay_us=5000)
    n = [C.c_int(0) for _ in range(3)]
    cb = soft.command_buffer()
    lib.d_commit(cb)
    lib.d_handler(cb, *map(C.byref, n))
    assert "after commit" in caught("api")[0]
    soft.finish(cb)
    assert n[0].value == 0


def test_handler_waits_for_itself(soft, lib, caught):
    cb = soft.command_buffer()
    lib.d_bad_handler(cb, 0)
    lib.d_commit(cb)
    soft.finish(cb)
    caught("deadlock")


def test_handler_without_a_pool(soft, lib, caught):
    knobs(inject=1)
    cb = soft.command_buffer()
    lib.d_bad_handler(cb, 1)
    soft.encode(cb, soft.pipeline(ADD), [soft.buffer(4), soft.buffer(4), u32(1)], 1, 1)
    lib.d_commit(cb)
    soft.finish(cb)
    caught("api")  # an encoder after commit; what it returns needs no pool


def test_autorelease_without_a_pool(soft, lib, caught):
    """ctypes threads have no pool: an entry that forgets its own leaks."""
    made = []
    thread = threading.Thread(target=lambda: made.append(lib.d_command_buffer_no_pool(soft.queue)))
    thread.start()
    thread.join()
    assert "autoreleased on a thread without a pool" in caught("autorelease")[0]


def test_blit_multiples_of_four(soft, lib, caught):
    a = soft.buffer(16, C.c_uint8)
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 2, None)
    lib.d_copy(e, a.handle, 0, a.handle, 8, 6)
    lib.d_fill(e, a.handle, 1, 4, 0)
    lib.d_copy(e, a.handle, 0, a.handle, 8, 100)
    lib.d_end(e)
    lib.d_release(e)
    assert len(caught("api")) == 3
    lib.d_commit(cb)
    assert soft.finish(cb)[0] == 9


def test_fence_after_update(soft, lib, caught):
    fence = lib.d_fence(soft.device)
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 0, None)
    lib.d_use_fence(e, fence, 0)
    lib.d_use_fence(e, fence, 1)
    lib.d_use_fence(e, fence, 0)
    lib.d_end(e)
    caught("api")
    lib.d_release(e)
    lib.d_release(cb)
    lib.d_release(fence)


def test_buffers(soft, lib, caught):
    assert lib.d_buffer(soft.device, 0, 0, None) is None
    assert lib.d_buffer(soft.device, 16, 1 << 4, None) is None  # managed, on unified memory
    private = lib.d_buffer(soft.device, 16, 2 << 4, None)
    assert lib.d_contents(private) is None
    lib.d_did_modify(private)
    lib.d_release(private)
    assert len(caught("api")) == 3


def test_unretained_references(soft, lib, caught):
    knobs(delay_us=20000)
    p = soft.pipeline(ADD)
    a, o = soft.buffer([1.0] * 4), soft.buffer(4)
    cb = soft.command_buffer(1)
    soft.encode(cb, p, [a, o, u32(4)], 4, 4)
    lib.d_commit(cb)
    a.release()
    soft.finish(cb)
    assert "was freed while a command buffer" in caught("api")[0]
    cb = soft.command_buffer()
    a = soft.buffer([1.0] * 4)
    soft.encode(cb, p, [a, o, u32(4)], 4, 4)
    lib.d_commit(cb)
    a.release()
    assert soft.finish(cb) == (0, "")


def test_two_threads_in_one_command_buffer(soft, lib, caught):
    """The check is a counter, so the threads only have to overlap once."""
    stop = threading.Event()
    cb = soft.command_buffer()
    e = lib.d_encoder(cb, 0, None)
    data = bytes(4096)

    def hammer():
        for _ in range(3000):
            if stop.is_set():
                return
            lib.d_set_bytes(e, data, 4096, 0)

    # Bytes pile up, so keep it short; each thread stops once it has been seen.
    threads = [threading.Thread(target=hammer) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lib.d_end(e)
    lib.d_release(e)
    lib.d_release(cb)
    from soft import violations

    seen = violations()
    lib.sm_clear()
    assert seen and all("two threads" in v for v in seen)


def test_abort_at_the_first_violation(lib):
    import subprocess
    import sys

    from soft import HERE

    program = f"import sys; sys.path.insert(0, {str(HERE)!r}); import soft; soft.Soft().buffer(0)"
    done = subprocess.run([sys.executable, "-c", program], env={**__import__("os").environ, "SOFTMETAL_ABORT": "1"},
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == -6 and "softmetal violation: api: newBuffer with length 0" in done.stderr


def test_many_threads_many_dispatches(soft, lib):
    p = soft.pipeline(SAFE + "kernel void k(device float* o) { o[0] += 1.0f; }")
    errors = []

    def work():
        b = soft.buffer([0.0])
        for _ in range(100):
            if soft.run(p, [b], 1, 1) != (0, ""):
                errors.append("failed")
        if b[0] != 100.0:
            errors.append(b[0])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
