"""Metal devices through tensors: names and instances, errors of missing devices, threads, fork, exit."""

import concurrent.futures
import copy
import gc
import os
import pickle
import sys

import numpy as np
import pytest

import tensorx as tx

pytestmark = pytest.mark.metal


@pytest.fixture(autouse=True)
def needs_metal(metal):
    """Without a bridge there is nothing to show."""


def test_a_name_is_one_object_from_anywhere():
    d = tx.device("metal:0")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(found is d for found in pool.map(tx.device, ["metal", "metal:0"] * 16))
    assert copy.copy(d) is d and copy.deepcopy(d) is d and pickle.loads(pickle.dumps(d)) is d
    assert d in tx.devices() and tx.devices()[0] == "cpu"
    assert (d.type, d.ordinal, d.instance, d.name) == ("metal", 0, 1, "metal:0")


def test_instances_are_devices_of_their_own():
    first, a, b = tx.device("metal"), tx.metal.open(0), tx.metal.open()
    assert len({first, a, b}) == 3 and a != b and a.registry_id == b.registry_id == first.registry_id
    assert len({str(first), str(a), str(b)}) == 3 and str(a).startswith("metal:0#")
    assert tx.device(str(a)) is a and pickle.loads(pickle.dumps(b)) is b
    values = np.random.default_rng(1).normal(size=33).astype(np.float32)
    x = tx.asarray(values, device=a)
    for other in (b, first, "cpu", a):
        moved = x.to(other)
        assert moved.device == tx.device(other) and not tx.shares_storage(moved, x)
        assert np.array_equal(moved.numpy(), values)
    for call in (lambda: x + x.to(b), lambda: x @ x.to(b), lambda: tx.concat([x, x.to(b)])):
        with pytest.raises(tx.DeviceMismatchError) as caught:
            call()
        assert str(a) in str(caught.value) and str(b) in str(caught.value)
    assert np.array_equal(x.numpy(), values)


@pytest.mark.parametrize("name", ["metal:7", "metal:-1", "metal:x", "metal:", "cuda", "metal:0#99"])
def test_missing_devices_list_those_that_exist(name):
    with pytest.raises(tx.DeviceNotFoundError, match="available: cpu, metal:0"):
        tx.device(name)


@pytest.mark.parametrize("ordinal", [7, -1, "0", True])
def test_only_ordinals_can_be_opened(ordinal):
    with pytest.raises(tx.DeviceNotFoundError):
        tx.metal.open(ordinal)


def test_mixing_devices_changes_nothing_and_says_what_to_do():
    d = tx.device("metal")
    x, y = tx.ones((2, 2), device=d), tx.ones((2, 2), device="cpu")
    calls = [
        lambda: x + y, lambda: y * x, lambda: x.add_(y), lambda: x @ y, lambda: y @ x, lambda: tx.concat([x, y]),
        lambda: tx.where(y > 0, x, x), lambda: x[tx.asarray([0], device="cpu")], lambda: x.copy_(y[0]), lambda: x.masked_fill_(y > 0, 0.0),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(tx.DeviceMismatchError) as caught:
            call()
        assert "metal:0" in str(caught.value) and "cpu" in str(caught.value) and ".to(" in str(caught.value)
    assert x.tolist() == y.tolist() == [[1.0, 1.0]] * 2
    # a value without axes follows the other operand
    assert (x + tx.asarray(2.0, device="cpu")).tolist() == [[3.0, 3.0]] * 2
    assert (tx.asarray(2.0, device=d) * y).device == "cpu"


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_wide_floats_are_refused_by_name(dtype):
    for call in (
        lambda: tx.zeros(2, dtype=dtype, device="metal"),
        lambda: tx.asarray(np.ones(2, dtype), device="metal"),
        lambda: tx.ones(2, dtype=dtype, device="cpu").to("metal"),
        lambda: tx.ones(2, device="metal").astype(dtype),
    ):
        with pytest.raises(tx.DTypeError, match=f"{dtype} is not on"):
            call()
    narrow = {"float64": "float32", "complex128": "complex64"}[dtype]
    assert tx.asarray(np.ones(2, dtype), dtype=narrow, device="metal").tolist() == [1.0, 1.0]


def test_host_views_share_memory_and_see_what_kernels_write(stand_in_or_none):
    """While the host holds a view, a dispatch has finished when its call returns."""
    if stand_in_or_none is not None:
        stand_in_or_none.set(delay_us=3000)
    x = tx.zeros(5000, device="metal")
    view = x.numpy()
    for k in range(1, 4):
        x.add_(1.0)
        assert view[0] == view[-1] == k
    view[:] = 7.0
    y = x * 2.0
    view[:] = 0.0  # the product was read before
    assert y[0].item() == 14.0 and tx.sum(x).item() == 0.0
    capsule = x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    assert x.__dlpack_device__()[0] == 8
    del capsule, view
    x.add_(1.0)
    assert x[0].item() == 1.0


def test_ops_without_a_kernel_run_on_the_cpu_and_are_counted():
    before = tx.metal.stats()["host_ops"].get("polygamma", 0)
    x = tx.asarray([0.5, 1.5, 2.5], device="metal")
    digamma = tx.ops.table.INDEX["polygamma"]
    n = tx.ones(3, device="metal")
    got = tx._core.elementwise(digamma, n, x)
    want = tx._core.elementwise(digamma, n.to("cpu"), x.to("cpu"))
    assert np.allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert tx.metal.stats()["host_ops"]["polygamma"] == before + 1


def test_eight_threads_share_an_instance():
    d = tx.device("metal")
    shared = tx.asarray(np.arange(1000, dtype=np.float32), device=d)

    def work(k):
        total = 0.0
        for i in range(12):
            x = shared * float(k) + float(i)
            x = x * 2.0
            x[:10] = 0.0
            total += tx.sum(x[10:]).item() + (x.reshape(10, 100) @ tx.ones((100, 1), device=d)).sum().item() * 0.0
        return total

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, range(8)))
    base = float(np.arange(10, 1000).sum())
    assert np.allclose(got, [sum(2 * (base * k + 990 * i) for i in range(12)) for k in range(8)], rtol=1e-5)


def test_eight_instances_in_eight_threads(run_child):
    run_child(
        """
        import threading
        devices = [tx.metal.open(0) for _ in range(8)]
        values = np.arange(400, dtype=np.float32).reshape(20, 20)
        want = np.tanh(values @ values.T * 1e-4) + 1
        bad = []
        def work(k):
            x = tx.asarray(values, device=devices[k])
            for _ in range(6):
                y = tx.tanh(x @ x.T * 1e-4) + 1.0
                x = x.to(devices[(k + 1) % 8]).to(devices[k])     # through a neighbour's pool
                if not np.allclose(y.numpy(copy=True), want, rtol=1e-5):
                    bad.append(k)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not bad, bad
        assert all(tx.metal.stats(d)["dispatches"] for d in devices)
        """,
        timeout=60.0,
    )


def test_a_forked_child_gets_errors_and_the_parent_goes_on(run_child):
    run_child(
        """
        import os
        x = tx.ones(1000, device="metal") * 2.0
        tx.eval(x)
        with tx.deferred(True):
            pending = x + 1.0
        c = tx.ones(10) + 1.0
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for call in (lambda: x.tolist(), lambda: tx.eval(pending), lambda: tx.zeros(3, device="metal")):
                    try:
                        call()
                    except tx.MetalError as e:
                        assert "spawn" in str(e), str(e)
                    else:
                        raise AssertionError("no error")
                assert (c * 2.0).sum().item() == 40.0
                assert not tx.metal.is_available() and "fork" in tx.metal.unavailable_reason()
                del x, pending
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert pending[0].item() == 3.0
        """,
        timeout=20.0,
    )


@pytest.mark.parametrize("how", ["", "os._exit(0)", "raise SystemExit(0)"])
def test_exit_with_work_in_flight_is_quiet(run_child, how):
    done = run_child(
        f"""
        import os
        x = tx.ones(100000, device="metal")
        for _ in range(20):
            x = tx.exp(x * 0.5)
            y = x.numpy(copy=True) if _ == 3 else None
        tx.eval(x)
        z = x + 1.0
        {how}
        """,
        timeout=20.0,
        env={"SOFTMETAL_DELAY_US": "20000"},
    )
    assert done.stderr == ""


CHILDREN = {
    "no library": ({"TENSORX_METAL_BRIDGE": "/nonexistent/libbridge.so"}, "there is no file /nonexistent/libbridge.so"),
    "not a library": ({"TENSORX_METAL_BRIDGE": __file__}, "cannot be loaded"),
    "a foreign library": ({"TENSORX_METAL_BRIDGE": tx._core.__file__}, "is not a Metal bridge"),
    "no device": ({"SOFTMETAL_DEVICES": "0"}, "shows no Metal device"),
}


@pytest.mark.parametrize("case", CHILDREN)
def test_what_is_missing_is_said(run_child, case, stand_in_or_none):
    env, words = CHILDREN[case]
    if case == "no device" and stand_in_or_none is None:
        pytest.skip("needs the stand-in's knobs")
    done = run_child(
        """
        assert not tx.metal.is_available() and tx.devices() == [tx.device("cpu")]
        for call in (lambda: tx.device("metal"), lambda: tx.metal.open(0), lambda: tx.zeros(2, device="metal:0"), lambda: tx.ones(2).to("metal")):
            try:
                call()
            except tx.DeviceNotFoundError as e:
                assert "available: cpu" in str(e)
                text = str(e)
            else:
                raise AssertionError("no error")
        tx.synchronize()
        print(text)
        """,
        env=env,
        timeout=20.0,
    )
    assert words in done.stdout


def test_importing_loads_no_bridge(run_child):
    run_child(
        """
        import sys
        assert "tensorx.metal.bridge" not in sys.modules
        (tx.ones(3) + 1.0).tolist()
        tx.synchronize()
        assert "tensorx.metal.bridge" not in sys.modules
        """,
        imports="import tensorx as tx",
    )


def test_doctor_tells_the_bridge_and_the_devices():
    facts = tx.metal.doctor()
    assert facts["bridge"] == os.environ.get("TENSORX_METAL_BRIDGE", facts["bridge"])
    assert "metal:0" in facts and "working set" in facts["metal:0"]
    tx.eval(tx.ones(3, device="metal") + 1.0)
    assert tx.metal.doctor()["metal:0 in use"]["dispatches"] > 0


def test_ctrl_c_at_any_line_of_the_allocator_leaves_no_buffer_behind(metal):
    """Python may raise KeyboardInterrupt at a call and after one: each of these in turn, while buffers are made and given back."""
    backend = tx.device("metal").backend
    seen, when = 0, 0

    def trace(frame, event, argument):
        nonlocal seen
        if "tensorx" not in frame.f_code.co_filename or frame.f_code.co_name not in ("alloc", "try_alloc", "release", "free", "inst"):
            return None
        if event == "call" or event == "line" and frame.f_code.co_name != "alloc":
            seen += 1
            if seen == when:
                raise KeyboardInterrupt
        return trace

    def driver():
        return backend._inst.stats()["live"]

    def held():
        gc.collect()
        stats = tx.memory.stats("metal")  # gives back what nobody holds
        return stats["live"], driver()

    x = tx.zeros(3, device="metal")
    tx.eval(x)
    before, old = held(), sys.gettrace()
    interrupted = 0
    for when in range(1, 40):
        seen = 0
        try:
            sys.settrace(trace)
            try:
                y = tx.ones(5000, device="metal")
                del y
                z = tx.full((5000,), 2.0, device="metal")
            finally:
                sys.settrace(old)
            del z
            if seen < when:
                break
        except KeyboardInterrupt:
            interrupted += 1
        assert held() == before, when
    assert interrupted > 5


@pytest.mark.parametrize("here, there", [("metal", "cpu"), ("cpu", "metal")])
def test_linear_refuses_a_bias_of_another_device(here, there):
    """All operands are on one device: the host reads no bias on the GPU, though it could."""
    x, w = tx.ones((2, 3), device=here), tx.ones((4, 3), device=here)
    with pytest.raises(tx.DeviceMismatchError, match="linear: the input is on .* and the bias on"):
        tx.nn.functional.linear(x, w, tx.ones(4, device=there))


@pytest.mark.metal
def test_a_recorder_counts_every_instance(metal):
    other = tx.metal.open(0)
    x = tx.ones(1000, device=other)
    tx.eval(x)
    with tx.memory.record() as r:
        y = tx.ones(500, device=other)
        tx.eval(y)
    assert r.end[other.name] - r.start[other.name] == 2000 and f"{other.name}: " in r.report()
