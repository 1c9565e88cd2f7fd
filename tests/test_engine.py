"""The deferred engine: what is reused and what is refused, bounds, errors, threads."""

import gc
import threading

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core

N = 1000
B = 4 * N


def measured(f):
    with tx.memory.measure() as m:
        keep = f()
    del keep
    return m.bytes


def fresh(n=N, dtype="float32"):
    x = tx.ones(n, dtype=dtype)
    tx.eval(x)
    return x


pytestmark = pytest.mark.usefixtures("on_device")
cpu_alone = pytest.mark.metal_sample(keep=lambda: False)


@pytest.fixture(autouse=True)
def deferred_mode():
    with tx.deferred(True):
        yield


# ---- reuse --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 1000, 70000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "complex64"])
def test_plain_spelling_allocates_nothing(n, dtype):
    x = fresh(n, dtype)
    for _ in range(3):
        with tx.memory.measure() as m:
            x = x * 2 + 1
        assert (m.bytes, m.allocations) == (0, 0)
    assert x.tolist() == [15] * n


def test_alias_and_view_refuse_reuse_once():
    for keep_of in (lambda x: x.alias(), lambda x: x[1:], lambda x: x.reshape(10, 100), lambda x: x.detach(), lambda x: [x]):
        x = fresh()
        keep = keep_of(x)
        with tx.memory.measure() as m:
            x = x * 2.0 + 1.0
        assert m.bytes == B
        t = keep[0] if isinstance(keep, list) else keep
        assert tx.all(t == 1.0).item()
        assert tx.all(x == 3.0).item()


def test_dead_view_gives_the_memory_free():
    x = fresh()
    v = x[1:]
    del v
    assert x.is_unique()
    with tx.memory.measure() as m:
        x = x + 1.0
    assert m.bytes == 0


def test_view_and_base_in_one_program_are_two_owners():
    x = tx.arange(10) * 1
    tx.eval(x)
    x = x - x[::-1]
    assert x.tolist() == [-9, -7, -5, -3, -1, 1, 3, 5, 7, 9]


def test_every_live_intermediate_is_stored():
    x = fresh()
    with tx.memory.measure() as m:
        y = x * 2.0
        z = y + 1.0
        w = z * y
    assert m.bytes == 3 * B
    assert y[0].item() == 2 and z[0].item() == 3 and w[0].item() == 6


def test_operands_of_equal_size_but_other_dtype_are_reused():
    x = fresh()
    with tx.memory.measure() as m:
        x = x.astype("int32") + 1
    assert m.bytes == 0 and x.tolist() == [2] * N
    y = fresh()
    with tx.memory.measure() as m:
        y = y.astype("float64")
    assert m.bytes == 2 * B


def test_reshape_and_permute_of_a_pending_value_share_its_memory():
    x = fresh(6)
    with tx.memory.measure() as m:
        x = (x * 2.0).reshape((2, 3)).T + 1.0
        x = (x * 2.0).permute_dims((1, 0))
    assert m.bytes == 0 and x.shape == (2, 3) and x.tolist() == [[6.0] * 3] * 2


def test_two_readers_of_a_dead_value_share_one_pass():
    x = fresh(2000)
    with tx.memory.measure() as m:
        y = x * 2.0
        z = x + 1.0
        del x
        tx.eval(y)
        assert not _core.is_pending(z)
    assert m.bytes == 2 * B
    assert (y[3].item(), z[3].item()) == (2.0, 2.0)


def test_an_optimizer_step_allocates_nothing():
    p, m, v, g = (fresh() for _ in range(4))
    for _ in range(3):
        with tx.memory.measure() as c:
            m = m * 0.9 + g * 0.1
            v = v * 0.99 + (g * g) * 0.01
            p = p - (m / (tx.sqrt(v) + 1e-8)) * 0.1
        assert c.bytes == 0


def test_copy_into_computes_into_the_destination():
    w = fresh()
    with tx.memory.measure() as m:
        w.copy_(w * 0.5)
        w.copy_(w * 0.5 + w)
        w[:] = w[:] * 2.0
    assert m.bytes == 0 and w[0].item() == 1.5


@pytest.mark.parametrize("n", [1, 5000])
def test_copies_read_memory_that_another_output_takes_over(n):
    x = tx.arange(n).astype("float32") + 1.0
    tx.eval(x)
    c = x.copy()
    d = c.copy()
    del x
    c = c * 0.5 + 0.25
    m = c * d
    k = d.copy()
    tx.eval(m)
    a = np.arange(n, dtype=np.float32) + 1
    want = a * np.float32(0.5) + np.float32(0.25)
    for t, w in ((c, want), (m, want * a), (d, a), (k, a)):
        np.testing.assert_array_equal(t.numpy(), w)


def test_a_source_that_lives_on_keeps_its_value():
    w = fresh()
    s = w * 0.5
    w.copy_(s)
    w.fill_(9.0)
    assert s[0].item() == 0.5 and w[0].item() == 9.0


def test_donation_reveals_nothing():
    x = fresh()
    x.add_(1.0)
    assert x.version == 1
    serial = x.storage.serial
    x = x * 2.0
    assert x.version == 0 and x.is_unique() and x.storage.serial != serial


# ---- memory that others can write ----------------------------------------------------------


def test_exported_memory_is_read_at_once_and_never_reused():
    x = fresh()
    a = x.numpy()
    y = x + 1.0
    a[:] = 5.0
    assert y[0].item() == 2.0
    assert not x.is_unique()
    with tx.memory.measure() as m:
        x = x * 2.0
    assert m.bytes == B and a[0] == 5.0 and x[0].item() == 10.0
    x = fresh()
    a = x.numpy()
    del a
    assert x.is_unique()


def test_a_source_computed_into_exported_memory_keeps_its_value():
    x, s = fresh(), fresh() * 0.25
    a = x.numpy()
    x.copy_(s)
    a[:] = 1.0
    assert s[3].item() == 0.25 and x[3].item() == 1.0


def test_a_small_shared_operand_is_snapshotted_so_that_deferral_goes_on():
    x = fresh(64)
    s = np.array(2.0, np.float32)
    t = tx.from_numpy(s)
    y = x * t
    assert _core.is_pending(y)
    s[...] = 100.0
    assert y[0].item() == 2.0


def test_imports_share_and_copies_do_not():
    for n in (1, 3, 1000, 10**6):
        a = np.arange(n, dtype=np.float32)
        t, s = tx.asarray(a), tx.from_numpy(a)
        a[0] = -1
        assert t[0].item() == 0.0 and s[0].item() == -1.0


def test_read_only_memory_stays_so():
    r = np.arange(3.0)
    r.flags.writeable = False
    t = tx.from_numpy(r)
    for f in (lambda: t.add_(1.0), lambda: t.fill_(0.0), lambda: t.__setitem__(0, 1.0), lambda: t.__iadd__(1.0)):
        with pytest.raises(tx.InplaceError, match="read-only"):
            f()
    assert r.tolist() == [0, 1, 2] and t.version == 0
    b = tx.frombuffer(b"\x00\x01", dtype="uint8")
    with pytest.raises(tx.InplaceError):
        b.zero_()


def test_export_of_every_lifetime():
    x = tx.arange(5)
    v = memoryview(x[1:4])
    del x
    gc.collect()
    assert v.tolist() == [1, 2, 3]
    count = _core.storage_count()
    v.release()
    assert _core.storage_count() == count - 1


# ---- bounds --------------------------------------------------------------------------------------


def test_long_loops_grow_nothing():
    x = fresh()
    live = tx.memory.stats()["live"]
    for _ in range(20000):
        x = x * 0.5 + 0.5
    assert _core.pending_count() < 200
    assert x[0].item() == 1.0
    assert tx.memory.stats()["live"] == live


def test_many_pending_values_are_bounded():
    x = fresh(16)
    keep = [x + float(i) for i in range(5000)]
    assert _core.pending_count() <= 1100
    assert all(t[0].item() == 1.0 + i for i, t in enumerate(keep))


def test_pinned_bytes_are_bounded():
    old = _core.set_bounds(max_kept=1 << 20)
    try:
        live = tx.memory.stats()["live"]
        small = []
        for _ in range(50):
            big = fresh(100000)
            small.append(big[:1] * 2.0)
            big2 = fresh(100000)
            small.append(big2 + 1.0)
            small[-1] = small[-1].sum()
            del big, big2
        assert tx.memory.stats()["live"] - live < 4 << 20
    finally:
        _core.set_bounds(max_kept=old[2])


def test_a_deep_graph_is_freed_without_recursion():
    old = _core.set_bounds(max_pending=10**7)
    try:
        x = fresh(4)
        y = x
        for _ in range(200000):
            y = y + x
        del y
        gc.collect()
    finally:
        _core.set_bounds(max_pending=old[1])


# ---- errors ------------------------------------------------------------------------------------------


def test_out_of_memory_has_the_figures_and_changes_nothing(device):
    x = fresh(1000)
    live = tx.memory.stats(device)["live"]
    tx.memory.set_limit(live + 10000, device)
    try:
        with pytest.raises(tx.OutOfMemoryError, match=r"requested 400,000 bytes, live .* limit"):
            tx.ones(100000)
        with pytest.raises(MemoryError):
            y = x.reshape(1000, 1) * tx.ones(100)
            tx.eval(y)
        assert tx.memory.stats(device)["live"] >= live
        z = x + 1.0
        assert z[0].item() == 2.0
    finally:
        tx.memory.set_limit(None, device)
    assert x[0].item() == 1.0
    y = None
    gc.collect()


def test_sizes_that_overflow():
    for shape in ((2**62, 4), (2**31, 2**31, 2**31), (2**63 - 1,)):
        with pytest.raises(tx.OutOfMemoryError):
            tx.empty(shape)
    with pytest.raises(tx.ShapeError, match="negative"):
        tx.zeros((2, -1))
    big = tx.broadcast_to(tx.ones(1, dtype="int8"), (65536, 65536))
    assert big.size == 4294967296
    assert tx.sum(big[:256]).item() == 256 * 65536
    with pytest.raises(tx.OutOfMemoryError):
        tx.eval(tx.broadcast_to(tx.ones(1), (2**31, 2**31)) + 1.0)


def test_failed_ops_leak_nothing():
    x = fresh()
    gc.collect()
    before = _core.storage_count(), tx.memory.stats()["live"]
    for f in (lambda: x + tx.ones(7), lambda: x[N], lambda: x.reshape(7, 7), lambda: x @ tx.ones(3), lambda: x.add_(tx.ones((2, N))),
              lambda: x.astype("nonsense"), lambda: tx.asarray([[1], [1, 2]]), lambda: x + "a", lambda: tx.asarray(object())):
        with pytest.raises((tx.TensorxError, IndexError, TypeError)):
            f()
    gc.collect()
    assert (_core.storage_count(), tx.memory.stats()["live"]) == before
    assert x.version == 0


# ---- reductions ------------------------------------------------------------------------------------------


def test_a_prologue_is_not_stored():
    x, y = fresh(100000), fresh(100000)
    with tx.memory.measure() as m:
        s = ((x - y) * (x - y)).sum()
    assert m.bytes == 4 and s.item() == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex128"])
def test_scratch_fits_operands_wider_than_the_result(dtype):
    x = tx.arange(3000).astype("float32").astype(dtype)[::-1]
    assert x.astype("bool").sum().item() == 2999
    assert tx.eval(b := x.astype("bool")) is None and b.tolist() == [True] * 2999 + [False]
    if dtype != "complex128":
        assert ((x.astype("int8") > 3) & (x > 3.0)).astype("uint8").sum().item() > 0


@pytest.mark.parametrize("shape, axis", [((7, 5), 0), ((7, 5), 1), ((3, 70, 40), 1), ((2, 3, 4, 5), (0, 2)), ((70000,), 0),
                                         ((300, 300), (0, 1)), ((5, 3000), 0), ((3000, 20), 0), ((2, 40000), 1)])  # fmt: skip
def test_reductions_agree_with_numpy_and_with_eager(shape, axis, rng):
    a = rng.normal(size=shape).astype(np.float32)
    x = tx.asarray(a)
    for name, f in (("sum", np.sum), ("max", np.max), ("min", np.min), ("prod", np.prod)):
        if name == "prod" and a.size > 100:
            continue
        fused = getattr(tx, name)(x * 2.0 - 1.0, axis=axis)
        with tx.deferred(False):
            eager = getattr(tx, name)(x * 2.0 - 1.0, axis=axis)
        assert fused.numpy().tobytes() == eager.numpy().tobytes()
        want = f((a * 2 - 1).astype(np.float64), axis=axis)
        np.testing.assert_allclose(fused.numpy(), want, rtol=2e-6, atol=1e-5 * max(1, np.abs(want).max()) if name == "sum" else 1e-6)
    xt = x.T if x.ndim == 2 else x
    np.testing.assert_array_equal(tx.max(xt).item(), a.max())


@cpu_alone
def test_threads_do_not_change_results(rng):
    a = tx.asarray(rng.normal(size=(600, 700)).astype(np.float32))
    old = tx.get_num_threads()
    got = []
    try:
        for n in (1, 2, 3):
            tx.set_num_threads(n)
            got.append(tuple(bytes(tx._core.raw_bytes(t.contiguous())) for t in (
                a.sum(), a.sum(axis=0), a.sum(axis=1), tx.exp(a) * a, tx.softmax(a * 2.0), a @ a.T, a.T @ a, tx.var(a, axis=0))))
    finally:
        tx.set_num_threads(old)
    assert got[0] == got[1] == got[2]


# ---- threads -----------------------------------------------------------------------------------------------


def test_threads_share_pending_values():
    """Values that several threads build on and read at once; every evaluation releases the GIL."""
    old = _core.set_bounds(long_ns=0)
    try:
        x = fresh(50000)
        shared = [x * float(i) + 1.0 for i in range(20)]
        errors = []

        def work(seed):
            r = np.random.default_rng(seed)
            for _ in range(60):
                i = int(r.integers(20))
                y = shared[i] + 1.0
                if y[5].item() != i + 2.0:
                    errors.append((i, y[5].item()))
                if r.random() < 0.3:
                    z = shared[i].copy()
                    z.mul_(2.0)
                    if z[7].item() != 2.0 * (i + 1.0):
                        errors.append(("mul", i))

        threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
            assert not t.is_alive()
        assert not errors
    finally:
        _core.set_bounds(long_ns=old[3])


def test_writers_wait_for_readers():
    old = _core.set_bounds(long_ns=0)
    try:
        x = fresh(200000)
        bad = []

        def reader():
            for _ in range(50):
                v = (x * 1.0).numpy(copy=True)
                if v.min() != v.max():
                    bad.append((v.min(), v.max()))

        threads = [threading.Thread(target=reader) for _ in range(4)]
        for t in threads:
            t.start()
        for k in range(100):
            x.fill_(float(k))
        for t in threads:
            t.join(30)
            assert not t.is_alive()
        assert not bad
    finally:
        _core.set_bounds(long_ns=old[3])


def test_modes_are_context_local():
    with tx.deferred(False):
        assert not _core.is_pending(fresh() + 1.0)
        seen = []
        t = threading.Thread(target=lambda: seen.append(_core.is_pending(fresh() + 1.0)))
        t.start()
        t.join()
    import os

    assert seen == [os.environ.get("TENSORX_EAGER", "") in ("", "0")]
    assert _core.is_pending(fresh() + 1.0)


@pytest.mark.cpu_fact  # a kernel has bits of its own, and needs memory for them
def test_item_of_a_pending_value_needs_no_memory_and_changes_nothing(rng):
    with tx.deferred(True):
        a, b = tx.tensor([1.5]), tx.tensor([[2.25]])
        with tx.memory.measure() as m:
            assert (a + b).item() == 3.75
        assert m.bytes == 0
        c = a * b
        alias = c.alias()
        assert c.item() == 3.375 == alias.item()
        d = a - b
        assert d.item() == -0.75
        a.add_(1.0)
        assert d.item() == -0.75  # the value from before the write
        assert (a - b).item() == 0.25


@pytest.mark.parametrize("dtype", ["bool", "int16", "float16", "float32", "float64", "complex128"])
def test_copies_between_layouts(dtype, rng):
    """Large strided copies go by tiles: every kind of axis order, sign, step and broadcast."""
    for shape in [(70, 65), (3, 64, 129), (2, 3, 40, 37), (1, 5000, 1), (4097,), (9, 1, 8, 7, 11), (4096, 2), (2, 4096)]:
        a = rng.integers(0, 100, size=tuple(2 * n for n in shape)).astype(dtype)
        x = tx.asarray(a)
        for _ in range(8):
            axes = tuple(rng.permutation(len(shape)).tolist())
            index = tuple(slice(None, None, int(rng.choice([1, 2, -1, -2]))) for _ in shape)
            v, w = tx.permute_dims(x, axes)[index], a.transpose(axes)[index]
            assert np.array_equal(v.contiguous().numpy(), w)
            out = tx.permute_dims(tx.zeros(tuple(w.shape[k] for k in axes), dtype=v.dtype), tuple(np.argsort(axes).tolist()))
            out.copy_(v)
            assert np.array_equal(out.numpy(), w)
            back = tx.flip(out)
            back.copy_(v[:, :1] if w.ndim > 1 else v[:1])
            assert np.array_equal(out.numpy(), np.broadcast_to(w[:, :1] if w.ndim > 1 else w[:1], w.shape)[(slice(None, None, -1),) * w.ndim])


def test_limits_that_are_none():
    for wrong in ("1GB", 1e9):
        with pytest.raises(TypeError, match=f"set_limit: a number of bytes .* got {wrong!r}"):
            tx.memory.set_limit(wrong)
    with pytest.raises(ValueError, match="set_limit: .* must not be negative, got -5"):
        tx.memory.set_limit(-5)
    assert tx.memory.stats()["limit"] is None


@pytest.mark.parametrize("name, hint", [("mps", "Apple's GPU is 'metal' here"), ("cuda:0", "on the CPU and on Apple Metal")])
def test_devices_of_others(name, hint):
    with pytest.raises(tx.DeviceNotFoundError, match=rf"there is no device '{name}'; available: cpu.* \(.*{hint}\)"):
        tx.device(name)
