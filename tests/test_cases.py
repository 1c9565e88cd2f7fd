"""Faults that users of tensor libraries reported elsewhere, each with the right result."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core

pytestmark = pytest.mark.usefixtures("on_device")
cpu_alone = pytest.mark.metal_sample(keep=lambda: False)

inf, nan = float("inf"), float("nan")


def arr(*values, dtype="float32", device="cpu"):
    return tx.asarray(list(values), dtype=dtype, device=device)


def same(t, values):
    np.testing.assert_array_equal(t.numpy(copy=True) if t.device.type == "cpu" else np.asarray(t.tolist()), np.asarray(values))


# ---- NAN, IDIV, SHIFT, POW, FDIV, INTF, ALG ---------------------------------------------


def test_nan_1_clip_keeps_nan(device):
    x = arr(nan, 1.0, 200.0, device=device)
    same(tx.clip(x, -100.0, 100.0), [nan, 1, 100])
    same(tx.clip(x, min=0.0), [nan, 1, 200])
    same(tx.clip(x, max=100.0), [nan, 1, 100])


@pytest.mark.parametrize("n", [3, 31, 32, 33, 1025, 70000])
def test_nan_3_argmax_gives_the_first_nan(device, n):
    a = np.ones(n, np.float32)
    a[1] = nan
    a[2] = 3
    x = tx.asarray(a, device=device)
    assert np.isnan(tx.max(x).item()) and np.isnan(tx.min(x).item())
    assert tx.argmax(x).item() == 1 and tx.argmin(x).item() == 1


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_idiv_1_smallest_integer_by_minus_one(device, dtype):
    low = tx.iinfo(dtype).min
    x = tx.full((5,), low, dtype=dtype, device=device)
    same(x % -1, [0] * 5)
    same(tx.fmod(x, -1), [0] * 5)
    same(x // -1, [low] * 5)
    same(x // 0, [0] * 5)
    same(x % 0, [0] * 5)


def test_idiv_3_floor_division_rounds_down(device):
    same(arr(1, -1, -3, dtype="int32", device=device) // 2, [0, -1, -2])
    same(arr(-7, 7, dtype="int64", device=device) % arr(3, -3, dtype="int64", device=device), [2, -2])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
def test_shift_1_beyond_the_width(device, dtype):
    x = tx.full((3,), 100, dtype=dtype, device=device)
    width = 8 * x.itemsize
    for k in (width, width + 1, 100):
        same(x << k, [0] * 3)
        same(x >> k, [0] * 3)
    if dtype.startswith("i"):
        same((-x) >> 100, [-1] * 3)
        same(x << -1, [0] * 3)


def test_pow_1_negative_integer_powers_are_errors():
    with pytest.raises(ValueError, match="negative integer power"):
        tx.arange(3) ** tx.asarray(-1)
    with pytest.raises(ValueError):
        tx.arange(3) ** -1
    same(tx.arange(3) ** 2, [0, 1, 4])
    same(2 ** tx.arange(4), [1, 2, 4, 8])


def test_fdiv_1_infinite_operands(device):
    a = arr(1.0, -1.0, inf, inf, 1.0, device=device)
    b = arr(-inf, inf, 3.0, -3.0, inf, device=device)
    same(a // b, [-1, -1, nan, nan, 0])


def test_intf_1_integers_take_no_trip_through_floats(device):
    same(tx.abs(arr(-(2**24 + 1), 2**24 + 3, dtype="int32", device=device)), [16777217, 16777219])
    assert tx.abs(arr(-(2**63 - 1), dtype="int64", device=device))[0].item() == 9223372036854775807
    assert tx.sum(tx.full((3,), 2**53 + 1, dtype="int64", device=device)).item() == 3 * (2**53 + 1)


def test_alg_1_zero_times_infinity(device):
    same(arr(0.0, inf, nan, device=device) * 0.0 + 0.0, [0, nan, nan])


# ---- HALF, RDT, EMPTY, SMX, BIG, RANGE ------------------------------------------------------


def test_half_1_mean_of_many(device):
    assert tx.ones(100000, dtype="float16", device=device).mean().item() == 1.0
    assert tx.ones(100000, dtype="bfloat16", device=device).mean().item() == 1.0


def test_half_4_bfloat16_rounds_to_even(device):
    assert arr(0.2691408770292272, device=device).astype("bfloat16").astype("float32")[0].item() == 0.26953125
    bits = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    got = tx.asarray(bits, device=device).astype("bfloat16")
    assert np.frombuffer(bytes(_core.raw_bytes(got.to("cpu"))), np.uint16).tolist() == [0x3F80, 0x3F82]


def test_half_6_float16_ties_to_even(device):
    bits = np.array([0x34200000, 0x34600000, 0x40001000], np.uint32).view(np.float32)
    got = tx.asarray(bits, device=device).astype("float16").numpy(copy=True) if device == "cpu" else None
    if got is not None:
        assert got.view(np.uint16).tolist() == [0x0002, 0x0004, 0x4000]
    same(arr(65519.0, 65520.0, device=device).astype("float16").astype("float32"), [65504, inf])


def test_rdt_1_sums_of_small_integers_widen(device):
    x = arr(200, 100, dtype="uint8", device=device)
    assert tx.sum(x).item() == 300 and tx.sum(x).dtype is tx.uint64
    assert tx.prod(x).item() == 20000 and tx.prod(x).dtype is tx.uint64
    assert tx.sum(arr(-100, -100, dtype="int8", device=device)).item() == -200


def test_empty_1_an_empty_inner_axis_gives_zeros():
    junk = tx.full((100,), nan)
    tx.eval(junk)
    del junk
    same(tx.ones((3, 2, 0)) @ tx.ones((3, 0, 3)), np.zeros((3, 2, 3)))


def test_empty_reductions():
    e = tx.zeros((0, 3))
    same(tx.sum(e, axis=0), [0, 0, 0])
    same(tx.prod(e, axis=0), [1, 1, 1])
    assert tx.all(e).item() is True and tx.any(e).item() is False
    assert np.isnan(tx.mean(e).item())
    for f in (tx.max, tx.min, tx.argmax, tx.argmin):
        with pytest.raises(tx.ShapeError, match=r"axis 0 of shape \(0, 3\)"):
            f(e, axis=0)
    assert tx.max(e, axis=1).shape == (0,)


@pytest.mark.parametrize("n", [1, 127, 128, 129, 4097])
def test_smx_1_a_row_of_minus_infinity(device, n):
    x = tx.full((2, n), -inf, device=device)
    assert np.isnan(np.asarray(tx.softmax(x).tolist())).all()
    assert tx.logsumexp(x, axis=1).tolist() == [-inf, -inf]


@pytest.mark.cpu_fact
def test_big_3_sizes_beyond_32_bits():
    x = tx.broadcast_to(tx.ones(1, dtype="int8"), (65536, 65536))
    assert x.size == 4294967296
    assert x.reshape(-1).shape == (4294967296,)  # a view: nothing moves
    tx.memory.set_limit(tx.memory.stats()["live"] + 2**20)
    try:
        with pytest.raises(tx.OutOfMemoryError):
            tx.eval(x + 1)
    finally:
        tx.memory.set_limit(None)


def test_range_1_lengths_of_float_steps():
    assert tx.arange(0.1, 0.5, 0.05).size == 8
    assert tx.arange(0.6, 0.9, 0.1).size == 4
    assert tx.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert tx.arange(3, 3).size == 0


# ---- SRD, REFC, PIN, FOR, META, LIFE, COPY ------------------------------------------------------


def test_srd_4_negative_strides_in_a_fused_kernel():
    v = tx.arange(600000).astype("float32").reshape(300, 1000, 2)[::-1, :, 0]
    want = v.copy().contiguous().numpy(copy=True) - np.float32(0.25)
    old = tx.get_num_threads()
    try:
        for n in (1, 2, 4):
            tx.set_num_threads(n)
            for _ in range(5):
                np.testing.assert_array_equal((v - 0.25).numpy(), want)
    finally:
        tx.set_num_threads(old)


@pytest.mark.parametrize("n", [3, 100000])
def test_refc_1_locals_attributes_closures_keep_their_values(n):
    import functools
    import operator

    class Box:
        pass

    def plain():
        x = tx.ones(n)
        y = x + 1
        return x, y

    def attribute():
        b = Box()
        b.x = tx.ones(n)
        y = b.x + 1
        return b.x, y

    def closure():
        x = tx.ones(n)

        def f():
            return x + 1

        return x, f()

    def item():
        xs = [tx.ones(n)]
        return xs[0], operator.add(xs[0], 1)

    def generator():
        x = tx.ones(n)
        y = next(x + k for k in (1,))
        return x, y

    def total():
        x = tx.ones(n)
        return x, sum([x]) + 1

    def reduced():
        x = tx.ones(n)
        return x, functools.reduce(operator.add, [x, tx.ones(n)])

    for f in (plain, attribute, closure, item, generator, total, reduced):
        x, y = f()
        assert x.min().item() == x.max().item() == 1.0, f.__name__
        assert y.min().item() == y.max().item() == 2.0, f.__name__
        assert not tx.shares_storage(x, y)


def test_refc_3_a_view_of_a_view_has_the_right_owner():
    z = tx.zeros(2)
    w = tx.exp(z.alias()[1:2].reshape(1))
    same(w, [1])
    same(z, [0, 0])
    for order in ("pvw", "pwv", "vpw", "wvp", "wpv", "vwp"):
        d = {"p": tx.zeros(4) + 0.0}
        d["v"] = d["p"][1:]
        d["w"] = d["v"].reshape(3, 1)
        for name in order[:2]:
            del d[name]
        (left,) = d.values()
        left = tx.exp(left)
        assert left.min().item() == left.max().item() == 1.0


def test_pin_1_nothing_keeps_a_dropped_tensor():
    before = _core.storage_count()
    big = tx.zeros(10**6)
    (tx.ones(10**6) + big).sum().item()
    ref = weakref.ref(big)
    del big
    assert ref() is None
    assert _core.storage_count() == before


@pytest.mark.cpu_fact
def test_meta_1_strides_of_axes_of_length_one():
    x = tx.arange(77).reshape(1, 77)
    assert np.from_dlpack(x).strides == (77 * 8, 8)
    assert x[None, :, ::2].shape == (1, 1, 39)


def test_meta_4_bfloat16_has_no_buffer_format():
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(tx.ones(5, dtype="bfloat16"))


@pytest.mark.cpu_fact
@pytest.mark.parametrize("versioned", [True, False])
def test_life_1_capsules_in_every_order(versioned):
    gc.collect()
    before = _core.storage_count()
    version = (1, 0) if versioned else None
    for _ in range(1000):
        t = tx.ones(10)
        t2 = tx._core.dlpack_import(t.__dlpack__(max_version=version))
        del t2, t
    for _ in range(10):
        t = tx.arange(10)
        c = t.__dlpack__(max_version=version)  # never consumed
        del t, c
    t = tx.arange(5)
    a = np.from_dlpack(t)
    del t
    assert a.sum() == 10
    del a
    gc.collect()
    assert _core.storage_count() == before


@pytest.mark.cpu_fact
def test_life_a_capsule_is_consumed_once():
    c = tx.ones(2).__dlpack__()
    _core.dlpack_import(c)
    with pytest.raises(BufferError, match="consumed"):
        _core.dlpack_import(c)


def test_dlpack_read_only():
    r = np.arange(3.0)
    r.flags.writeable = False
    t = tx.from_numpy(r)
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    back = _core.dlpack_import(t.__dlpack__(max_version=(1, 0)))
    with pytest.raises(tx.InplaceError):
        back.zero_()
    assert tx.from_dlpack(t, copy=True).zero_().tolist() == [0, 0, 0]


def test_copy_3_deepcopy_of_several_views():
    b = tx.arange(6.0)
    d = {"a": b[0:2], "b": b[2:4], "c": b[4:6], "a again": None}
    d["a again"] = d["a"]
    c = copy.deepcopy(d)
    same(c["a"], [0, 1])
    same(c["b"], [2, 3])
    same(c["c"], [4, 5])
    assert c["a"] is c["a again"]
    c["a"].zero_()
    c["c"].fill_(9)
    same(b, [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "bool", "complex64", "float64"])
def test_pickle(dtype):
    x = tx.asarray([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    for t in (x, x.T, x[:, ::2], x[:0], x[0, 0]):
        y = pickle.loads(pickle.dumps(t))
        assert y.dtype is t.dtype and y.shape == t.shape and y.astype("complex128").tolist() == t.astype("complex128").tolist()
        assert not tx.shares_storage(y, t)


# ---- FORK, exit ------------------------------------------------------------------------------------


@cpu_alone
def test_fork_1_a_threaded_op_in_the_child(run_child):
    code = """
import os, tensorx as tx
x = tx.ones(10**6)
a = (x * 2.0 + 1.0).sum().item()
pid = os.fork()
if pid == 0:
    ok = (x * 2.0 + 1.0).sum().item() == a and (tx.ones((200, 200)) @ tx.ones((200, 200)))[0, 0].item() == 200.0
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
print("fine")
"""
    assert "fine" in run_child(code, timeout=20).stdout


@cpu_alone
def test_exit_with_pending_work_and_exports(run_child):
    code = """
import threading, tensorx as tx
x = tx.ones(10**6)
y = x * 2.0
keep = y.numpy()
z = y + 1.0
threading.Thread(target=lambda: (x * 3.0).sum().item()).start()
"""
    assert run_child(code, timeout=20).stdout.strip() == ""
