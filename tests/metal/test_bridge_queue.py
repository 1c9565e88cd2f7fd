"""Command buffers: batching, waiting, recycling, threads, Ctrl-C, fork."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from tensorx.errors import MetalError
from tensorx.metal import bridge

N = 8192


def ints(inst, buffer):
    return np.frombuffer(inst.read(buffer), np.uint32)


def test_write_dispatch_read(inst, run):
    a, b = inst.alloc(4 * N), inst.alloc(4 * N)
    run("fill", a, value=5)
    run("add", a, b, value=10)
    np.testing.assert_array_equal(ints(inst, b), np.arange(N, dtype=np.uint32) + 15)


def test_dispatches_share_a_command_buffer_until_a_limit(metal, run, inst):
    inst.set_options(batch_dispatches=10)
    a = inst.alloc(4 * N)
    stamps = [run("fill", a, value=k) for k in range(25)]
    assert stamps == [stamps[0]] * 10 + [stamps[0] + 1] * 10 + [stamps[0] + 2] * 5
    assert inst.stats()["command_buffers"] == 2
    inst.synchronize()
    assert inst.stats()["command_buffers"] == 3


def test_batches_end_by_bytes_and_by_work(inst, run):
    a = inst.alloc(1 << 20)
    inst.set_options(batch_bytes=3 << 20)
    stamps = [run("fill", a) for _ in range(7)]
    assert stamps[2] == stamps[0] and stamps[3] == stamps[0] + 1
    inst.set_options(batch_bytes=0, batch_ops=1000)
    first = run("fill", a, ops=600)
    assert run("fill", a, ops=600) == first and run("fill", a, ops=1) == first + 1


def test_long_work_is_split(inst):
    inst.set_options(batch_ops=1000)
    source = """#include <metal_stdlib>
using namespace metal;
kernel void where_am_i(device uint *o [[buffer(0)]], constant long *off [[buffer(1)]],
                       uint3 tg [[threadgroup_position_in_grid]])
{
    o[uint(off[0]) + tg.x + uint(off[1]) + 4 * (tg.y + uint(off[2]))] += 1;
}
"""
    kernel = inst.kernel(source, "where_am_i")
    for axis in (0, 1):
        out = inst.alloc(4 * 40, host=True)
        inst.write(out, bytes(160))
        before = inst.stats()["dispatches"]
        inst.encode(kernel, [bridge.Binding(out, 4, bridge.READ | bridge.WRITE)], (4, 10), group=(1, 1, 1),
                    in_groups=True, ops=4000, split=axis)  # fmt: skip
        assert inst.stats()["dispatches"] == before + 4
        assert (ints(inst, out) == 1).all()


def test_waits_cover_every_command_buffer_below(inst, run, stand_in):
    stand_in.set(delay_us=3000, reorder=1)
    inst.set_options(batch_dispatches=1)
    buffers = [inst.alloc(4 * N) for _ in range(12)]
    for k, b in enumerate(buffers):
        run("fill", b, value=k)
    stamp = inst.commit()
    inst.wait(stamp)
    s = inst.stats()
    assert s["horizon"] > stamp and s["in_flight"] == 0
    for k, b in enumerate(buffers):
        assert ints(inst, b)[0] == k


def test_a_long_wait_counts_once(inst, run, stand_in):
    stand_in.set(delay_us=180000)  # several slices
    for wait in (lambda b, s: inst.wait(s), lambda b, s: inst.read(b), lambda b, s: inst.synchronize()):
        buffer = inst.alloc(64)
        before = inst.stats()["waits"]
        wait(buffer, run("fill", buffer))
        assert inst.stats()["waits"] == before + 1


def test_a_buffer_waits_for_its_own_work_only(inst, run, stand_in):
    early, late = inst.alloc(4 * N), inst.alloc(4 * N)
    run("fill", early, value=1)
    inst.synchronize()
    stand_in.set(delay_us=400_000)
    run("fill", late, value=2)
    inst.commit()
    start = time.monotonic()
    assert ints(inst, early)[0] == 1
    assert time.monotonic() - start < 0.3
    assert ints(inst, late)[0] == 2


def test_reading_waits_for_writers_writing_for_users(inst, run, stand_in):
    a, b = inst.alloc(4 * N), inst.alloc(4 * N)
    run("fill", a, value=1)
    inst.synchronize()
    stand_in.set(delay_us=300_000)
    run("add", a, b, value=1)
    assert inst.wait_buffer(a, bridge.READ, timeout=0.0)  # only read by the GPU
    assert not inst.wait_buffer(a, bridge.WRITE, timeout=0.0)
    assert not inst.wait_buffer(b, bridge.READ, timeout=0.0)
    assert inst.wait_buffer(a, bridge.WRITE)


def test_timeout_is_kept(inst, run, stand_in):
    stand_in.set(delay_us=1_000_000)
    a = inst.alloc(4 * N)
    run("fill", a)
    stamp = inst.commit()
    start = time.monotonic()
    assert not inst.wait(stamp, timeout=0.12)
    assert 0.1 < time.monotonic() - start < 0.6
    assert inst.synchronize(timeout=5)


def test_the_host_never_gets_memory_in_flight(inst, run, stand_in):
    a = inst.alloc(4 * N)
    run("fill", a, value=1)
    inst.synchronize()
    stand_in.set(delay_us=100_000)
    run("fill", a, value=2)
    inst.commit()
    address = a.contents
    a.release()
    fresh = inst.alloc(4 * N, host=True)
    assert fresh.contents != address
    again = inst.alloc(4 * N)  # for the GPU it may be the busy one
    assert again.contents == address
    inst.write(fresh, bytes(4 * N))
    run("fill", again, value=3)
    assert ints(inst, again)[0] == 3 and ints(inst, fresh).sum() == 0


def test_memory_released_while_in_use_comes_back_when_done(inst, run, stand_in):
    stand_in.set(delay_us=2000)
    for k in range(100):
        a = inst.alloc(4 * N)
        run("fill", a, value=k)
        if k % 7 == 0:
            assert ints(inst, a)[0] == k
        a.release()
    inst.synchronize()
    assert inst.stats()["metal_buffers"] <= 4


def test_no_more_than_32_in_flight(inst, run, stand_in):
    stand_in.set(delay_us=200)
    inst.set_options(batch_dispatches=1)
    a = inst.alloc(4 * N)
    for k in range(150):
        run("fill", a, value=k)
        assert inst.stats()["in_flight"] <= 32
    assert ints(inst, a)[0] == 149
    assert stand_in.get("max_in_flight") <= 33


def test_zero_grids_never_reach_the_encoder(inst, run):
    a = inst.alloc(64)
    kernel = inst.kernel(bridge._PROBE, "probe")
    before = inst.stats()["dispatches"]
    with pytest.raises(MetalError, match="a grid of 0 threads"):
        inst.encode(kernel, [bridge.Binding(a, 4, bridge.WRITE)], (0,))
    assert inst.stats()["dispatches"] == before


@pytest.mark.parametrize("change, message", [
    ({"grid": (2**32,), "group": (1, 1, 1), "in_groups": True}, "has to be split"),
    ({"group": (4096, 1, 1)}, "threads per group"),
    ({"threadgroup_bytes": 1 << 20}, "bytes of threadgroup memory"),
    ({"constants": bytes(5000)}, "5000 bytes of constants"),
])  # fmt: skip
def test_impossible_dispatches_are_refused_whole(inst, change, message):
    a = inst.alloc(1024)
    kernel = inst.kernel(bridge._PROBE, "probe")
    call = dict(grid=(32,), **{k: v for k, v in change.items() if k != "grid"})
    call["grid"] = change.get("grid", (32,))
    before = inst.stats()
    with pytest.raises(MetalError, match=message):
        inst.encode(kernel, [bridge.Binding(a, 4, bridge.WRITE)], **call)
    after = inst.stats()
    assert after["dispatches"] == before["dispatches"] and after["in_flight"] == before["in_flight"]


def test_too_many_buffers_and_released_ones(inst):
    a = inst.alloc(1024)
    kernel = inst.kernel(bridge._PROBE, "probe")
    with pytest.raises(MetalError, match="29 buffers, the limit is 28"):
        inst.encode(kernel, [bridge.Binding(a, 4, bridge.WRITE)] * 29, (1,))
    handle = a.detach()
    inst.bridge.txm_release(handle)
    with pytest.raises(MetalError, match="argument 0 is a buffer that was released"):
        inst.encode(kernel, [bridge.Binding(handle, 4, bridge.WRITE)], (1,))


def test_pipeline_limits_are_obeyed(inst, stand_in):
    stand_in.set(pipeline_threads=64)
    kernel = inst.kernel(bridge._PROBE.replace("probe", "narrow"), "narrow")
    assert kernel.max_threads == 64 and kernel.group(256) == 64
    a = inst.alloc(4 * 1000)
    inst.encode(kernel, [bridge.Binding(a, 4, bridge.WRITE)], (960,))
    np.testing.assert_array_equal(ints(inst, a)[:960], np.arange(960))


def test_exported_buffers_are_waited_for(inst, run, stand_in):
    a = inst.alloc(4 * N)
    run("fill", a, value=1)
    inst.synchronize()
    inst.export(a)
    stand_in.set(delay_us=50_000)
    stamp = run("fill", a, value=2)
    assert inst.stats()["horizon"] > stamp  # finished when the call returned
    inst.export(a, -1)
    stamp = run("fill", a, value=3)
    assert inst.stats()["horizon"] <= stamp


def test_synchronous_mode_finishes_every_dispatch(metal, monkeypatch):
    monkeypatch.setenv("TENSORX_METAL_SYNC", "1")
    instance = bridge.Instance(0)
    kernel = instance.kernel(bridge._PROBE, "probe")
    a = instance.alloc(4 * 64)
    for _ in range(3):
        stamp = instance.encode(kernel, [bridge.Binding(a, 4, bridge.WRITE)], (64,))
        assert instance.stats()["horizon"] > stamp
    assert instance.stats()["command_buffers"] == 3


def test_thr_1_threads_share_an_instance(inst, run, stand_in_or_none):
    if stand_in_or_none is not None:
        stand_in_or_none.set(delay_us=100)
    errors = []

    def work(number):
        try:
            for k in range(40):
                a, b = inst.alloc(4 * 256), inst.alloc(4 * 256)
                run("fill", a, value=1000 * number + k)
                run("add", a, b, value=7)
                if k % 5 == 0:
                    got = ints(inst, b)
                    if not (got == np.arange(256) + 1000 * number + k + 7).all():
                        errors.append((number, k, got[:4]))
                a.release()
                b.release()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_concurrent_compilation_ends_with_one_kernel(metal):
    one, two = bridge.Instance(0), bridge.Instance(0)
    source = bridge._PROBE.replace("probe", "raced")
    handles = []

    def work(instance):
        handles.append(instance.kernel(source, "raced").handle)

    threads = [threading.Thread(target=work, args=((one, two)[k % 2],)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(handles) == 8 and len({one.kernel(source, "raced").handle, two.kernel(source, "raced").handle}) == 1


def test_leak_3_nothing_piles_up(inst, run, stand_in_or_none):
    a = inst.alloc(4 * 256)
    for k in range(300):
        run("fill", a, value=k)
    inst.synchronize()
    if stand_in_or_none is None:
        pytest.skip("counting objects needs the stand-in")
    gc.collect()
    before = {k: stand_in_or_none.get(k) for k in ("command_buffers_alive", "encoders", "buffers", "pipelines")}
    for k in range(2000):
        run("fill", a, value=k)
    inst.synchronize()
    after = {k: stand_in_or_none.get(k) for k in before}
    assert after["encoders"] <= before["encoders"] + 2
    assert after["command_buffers_alive"] <= before["command_buffers_alive"] + 34
    assert (after["buffers"], after["pipelines"]) == (before["buffers"], before["pipelines"])


def child(code, timeout=30, **env):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


SETUP = """
import os, sys, signal, time, threading
from tensorx.metal import bridge
inst = bridge.Instance(0)
kernel = inst.kernel(bridge._PROBE, "probe")
a = inst.alloc(4 * 1024)
def go():
    return inst.encode(kernel, [bridge.Binding(a, 4, bridge.WRITE)], (1024,))
"""


def test_ctrl_c_ends_a_wait(metal, stand_in):
    code = SETUP + """
go(); inst.commit()
print("waiting", flush=True)
try:
    inst.wait(1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""
    process = child(code, SOFTMETAL_DELAY_US="8000000")
    assert process.stdout.readline() == "waiting\n", process.stderr.read()
    time.sleep(0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=5)
    assert out == "interrupted\n" and time.monotonic() - start < 1.5, err


def test_a_waiting_thread_lets_others_run(metal, stand_in):
    code = SETUP + """
go(); inst.commit()
t = threading.Thread(target=inst.wait, args=(1,)); t.start()
n, end = 0, time.monotonic() + 0.5
while time.monotonic() < end:
    n += 1
print(n > 1000, flush=True)
t.join()
"""
    out, err = child(code, SOFTMETAL_DELAY_US="700000").communicate(timeout=20)
    assert out == "True\n", err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_gets_errors_and_the_parent_goes_on(metal):
    code = SETUP + """
go(); inst.commit()
pid = os.fork()
if pid == 0:
    said = []
    for call in (go, lambda: inst.alloc(10), inst.synchronize, lambda: inst.read(a), inst.stats, bridge.devices,
                 lambda: inst.kernel(bridge._PROBE + "//", "probe"), inst.trim, inst.close):
        try:
            call()
            said.append("nothing")
        except Exception as error:
            said.append(type(error).__name__ if "use spawn" in str(error) else str(error))
    a.release()
    del kernel
    import gc; gc.collect()
    print(set(said), bridge.unavailable_reason(), flush=True)
    os._exit(0)
_, status = os.waitpid(pid, 0)
inst.synchronize(); go(); inst.synchronize()
print(status, inst.read(a)[4:8].hex(), flush=True)
"""
    out, err = child(code).communicate(timeout=30)
    first, second = out.splitlines()
    assert first.startswith("{'MetalError'}") and "spawn" in first, out + err
    assert second == "0 01000000", out + err


def test_exit_with_work_in_flight_is_quiet(metal, stand_in):
    code = SETUP + "for _ in range(10): go()\ninst.commit()"
    process = child(code, SOFTMETAL_DELAY_US="200000")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")
