"""Failures of command buffers: who is told, what is spoiled, how it mends; compile errors."""

import numpy as np
import pytest

from tensorx.errors import MetalError, OutOfMemoryError
from tensorx.metal import bridge

N = 1024


def ints(inst, buffer):
    return np.frombuffer(inst.read(buffer), np.uint32)


@pytest.fixture(autouse=True)
def only_with_injection(stand_in):
    """Real GPUs cannot be made to fail on purpose."""


def failing(run, inst, stand_in, code, buffers, **options):
    stand_in.set(inject=code, inject_count=1)
    stamps = [run("fill", b, value=9, **options) for b in buffers]
    return stamps[-1]


def test_a_failure_is_told_at_the_wait_with_code_and_kernels(inst, run, stand_in):
    a, b = inst.alloc(4 * N), inst.alloc(4 * N)
    stand_in.set(inject=3)
    run("fill", a, value=1, label="first kernel")
    run("add", a, b, value=1, label="second kernel")
    with pytest.raises(MetalError) as caught:
        inst.synchronize()
    text = str(caught.value)
    assert "metal:0" in text and "Metal error 3, page fault" in text
    assert "first kernel, second kernel" in text and "TENSORX_METAL_SYNC=1" in text


def test_a_failure_is_told_at_the_next_call_once(inst, run, stand_in):
    a = inst.alloc(4 * N)
    failing(run, inst, stand_in, 1, [a])
    stamp = inst.commit()
    while inst.stats()["horizon"] <= stamp:
        pass
    dispatched = inst.stats()["dispatches"]
    with pytest.raises(MetalError, match="internal error"):
        run("fill", a, value=2)
    assert inst.stats()["dispatches"] == dispatched  # nothing happened
    run("fill", a, value=2)
    assert ints(inst, a)[0] == 2


def test_waiting_for_the_failed_stamp_fails_every_time(inst, run, stand_in):
    a = inst.alloc(4 * N)
    stamp = failing(run, inst, stand_in, 2, [a])
    for _ in range(3):
        with pytest.raises(MetalError, match="timeout"):
            inst.wait(stamp)


def test_spoiled_buffers_raise_until_overwritten(inst, run, stand_in):
    a, b, fine = inst.alloc(4 * N), inst.alloc(4 * N), inst.alloc(4 * N)
    run("fill", fine, value=4)
    inst.synchronize()
    stamp = failing(run, inst, stand_in, 3, [a], label="the guilty kernel")
    with pytest.raises(MetalError):
        inst.synchronize()
    assert inst.poisoned() == {a.uid: stamp}
    for _ in range(2):
        with pytest.raises(MetalError, match="the guilty kernel"):
            inst.read(a)
    with pytest.raises(MetalError, match="reads argument 0.*the guilty kernel"):
        run("add", a, b, value=1)
    assert ints(inst, fine)[0] == 4
    run("fill", a, value=6)  # overwrites all of it
    assert ints(inst, a)[0] == 6 and inst.poisoned() == {}


def test_the_host_mends_what_it_overwrites(inst, run, stand_in):
    a = inst.alloc(4 * N)
    failing(run, inst, stand_in, 3, [a])
    with pytest.raises(MetalError):
        inst.synchronize()
    inst.write(a, bytes(4), offset=8)
    assert a.uid in inst.poisoned()  # a part is not enough
    inst.write(a, bytes(4 * N))
    assert inst.poisoned() == {} and ints(inst, a).sum() == 0


def test_spoiled_values_spoil_what_is_computed_from_them(inst, run, stand_in):
    a, b, c, d = (inst.alloc(4 * N) for _ in range(4))
    run("fill", d, value=1)
    inst.synchronize()
    inst.set_options(batch_dispatches=1)
    stand_in.set(inject=3, delay_us=30_000, ignore_after_fault=0)
    run("fill", a, value=1)  # fails later
    run("add", a, b, value=1)  # encoded before anybody knows
    run("add", b, c, value=1)
    run("add", d, c, value=1)  # overwrites c from good values
    with pytest.raises(MetalError):
        inst.synchronize()
    assert set(inst.poisoned()) == {a.uid, b.uid}
    assert ints(inst, c)[0] == 2


def test_released_buffers_still_pass_the_taint_on(inst, run, stand_in):
    a, b = inst.alloc(4 * N), inst.alloc(4 * N)
    inst.set_options(batch_dispatches=1)
    stand_in.set(inject=3, delay_us=30_000, ignore_after_fault=0)
    run("fill", a, value=1)
    run("add", a, b, value=1)
    a.release()
    again = inst.alloc(4 * N)  # the same memory under a new uid
    run("fill", again, value=5)
    with pytest.raises(MetalError):
        inst.synchronize()
    assert set(inst.poisoned()) == {b.uid}
    assert ints(inst, again)[0] == 5


def test_a_new_queue_takes_over_after_a_failure(inst, run, stand_in):
    a = inst.alloc(4 * N)
    failing(run, inst, stand_in, 2, [a])  # the stand-in's queue ignores later work
    with pytest.raises(MetalError):
        inst.synchronize()
    for k in range(5):
        run("fill", a, value=k)
        assert ints(inst, a)[0] == k
    assert stand_in.get("queues") >= 1


def test_work_behind_the_failure_on_the_old_queue_counts_as_failed(inst, run, stand_in):
    a, b = inst.alloc(4 * N), inst.alloc(4 * N)
    inst.set_options(batch_dispatches=1)
    stand_in.set(inject=2, delay_us=20_000)
    run("fill", a, value=1)
    run("fill", b, value=1)  # ignored by the queue
    with pytest.raises(MetalError, match="1 more command buffers failed"):
        inst.synchronize()
    assert set(inst.poisoned()) == {a.uid, b.uid}


def test_out_of_memory_at_completion(inst, run, stand_in):
    a = inst.alloc(4 * N)
    failing(run, inst, stand_in, 8, [a], label="big kernel")
    with pytest.raises(OutOfMemoryError, match="big kernel"):
        inst.synchronize()


def test_synchronous_mode_names_the_one(metal, stand_in, monkeypatch):
    monkeypatch.setenv("TENSORX_METAL_SYNC", "1")
    instance = bridge.Instance(0, name="metal:0")
    kernel = instance.kernel(bridge._PROBE, "probe")
    a = instance.alloc(4 * 64)
    bindings = [bridge.Binding(a, 4, bridge.WRITE | bridge.OVERWRITE)]
    instance.encode(kernel, bindings, (64,), label="good one")
    stand_in.set(inject=3)
    with pytest.raises(MetalError) as caught:
        instance.encode(kernel, bindings, (64,), label="bad one")
    assert "bad one" in str(caught.value) and "good one" not in str(caught.value)
    assert "TENSORX_METAL_SYNC" not in str(caught.value)


def test_a_real_page_fault_is_reported(inst, run, stand_in):
    a = inst.alloc(4 * N)
    kernel_name = "out_of_bounds"
    run(kernel_name, a, value=1, count=32)
    with pytest.raises(MetalError, match="page fault"):
        inst.synchronize()
    run("fill", a, value=3)
    assert ints(inst, a)[0] == 3
    stand_in.lib.sm_clear()  # the write itself is a violation, on purpose


def test_watchdog(metal, stand_in):
    instance = bridge.Instance(0, name="metal:0")
    source = """#include <metal_stdlib>
using namespace metal;
kernel void spin(device atomic_uint *o [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    for (uint k = 0; k < 4000000000u; k++)
        atomic_fetch_add_explicit(o, 1u, memory_order_relaxed);
}
"""
    kernel = instance.kernel(source, "spin")
    stand_in.set(watchdog_ms=100)
    a = instance.alloc(64)
    instance.encode(kernel, [bridge.Binding(a, 4, bridge.READ | bridge.WRITE)], (1,), group=(1, 1, 1), label="spin")
    with pytest.raises(MetalError, match="timeout.*spin"):
        instance.synchronize()


def test_label_list_is_bounded(inst, run, stand_in):
    a = inst.alloc(4 * N)
    stand_in.set(inject=3)
    inst.set_options(batch_dispatches=1000)
    for k in range(100):
        run("fill", a, label=f"kernel number {k} with a rather long name")
    with pytest.raises(MetalError, match="kernel number 0 .* and [0-9]+ more"):
        inst.synchronize()


# ---- compiling --------------------------------------------------------------------------------------


def test_compile_error_shows_the_line(inst):
    with pytest.raises(MetalError, match=r"a kernel does not compile: broken: (.|\n)*:4:"):
        inst.kernel("#include <metal_stdlib>\nusing namespace metal;\nkernel void broken(device float *o [[buffer(0)]])\n{ o[0] = nonsense; }\n", "broken")


def test_missing_function_lists_what_there_is(inst):
    with pytest.raises(MetalError, match="no kernel 'other'; it has: probe"):
        inst.kernel(bridge._PROBE, "other")


def test_a_lost_compiler_is_asked_once_more(inst, metal):
    source = bridge._PROBE.replace("probe", "retried")
    metal.txm_test_knob(b"compiler-interrupts", 1)
    assert inst.kernel(source, "retried").max_threads
    metal.txm_test_knob(b"compiler-interrupts", 2)
    try:
        with pytest.raises(MetalError, match="compiler service does not answer, twice"):
            inst.kernel(source.replace("retried", "lost"), "lost")
    finally:
        metal.txm_test_knob(b"compiler-interrupts", 0)


def test_a_lost_compiler_in_the_system(inst, stand_in):
    source = bridge._PROBE.replace("probe", "retried_again")
    stand_in.set(fail_compile=1)
    assert inst.kernel(source, "retried_again").max_threads
    stand_in.set(fail_pipeline=1)
    assert inst.kernel(source.replace("retried_again", "once_more"), "once_more").max_threads
    stand_in.set(fail_compile=2)
    with pytest.raises(MetalError, match="twice"):
        inst.kernel(source.replace("retried_again", "gone"), "gone")


def test_caches_are_bounded(metal):
    metal.txm_test_knob(b"pipelines", 4)
    metal.txm_test_knob(b"libraries", 4)
    try:
        instance = bridge.Instance(0)
        kernels = [
            instance.kernel(bridge._PROBE.replace("probe", f"bounded{k}"), f"bounded{k}") for k in range(8)
        ]
        compiled = instance.stats()["compiled"]
        other = bridge.Instance(0)
        other.kernel(bridge._PROBE.replace("probe", "bounded7"), "bounded7")
        assert other.stats()["compiled"] == compiled  # still cached
        other.kernel(bridge._PROBE.replace("probe", "bounded0"), "bounded0")
        assert other.stats()["compiled"] == compiled + 1  # was dropped
        a = instance.alloc(64)
        instance.encode(kernels[0], [bridge.Binding(a, 4, bridge.WRITE)], (16,))  # dropped, but still held
        instance.synchronize()
    finally:
        metal.txm_test_knob(b"pipelines", 2048)
        metal.txm_test_knob(b"libraries", 512)


def test_who_reads_a_spoiled_buffer_was_told(inst, run, stand_in):
    """The next call, which has nothing to do with the failure, is not told again."""
    a, fine = inst.alloc(4 * N), inst.alloc(4 * N)
    run("fill", fine, value=4)
    inst.synchronize()
    failing(run, inst, stand_in, 2, [a], label="the guilty kernel")
    with pytest.raises(MetalError, match="the guilty kernel"):
        inst.read(a)
    assert ints(inst, fine)[0] == 4
    run("fill", fine, value=5)
    inst.synchronize()
    assert ints(inst, fine)[0] == 5
