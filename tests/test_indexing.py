"""Indexing by arrays, lists and masks; take, gather, scatter and the index families, against NumPy."""

import random

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core

pytestmark = pytest.mark.usefixtures("on_device")
cpu_alone = pytest.mark.metal_sample(keep=lambda: False)

NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
INDEX_NAMES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZES = [1, 7, 1023, 1024, 1025, 65535, 65536, 65537]
every_dtype = pytest.mark.parametrize("name", NAMES)


def bits(a):
    return np.ascontiguousarray(a).tobytes()


def host(t):
    return np.asarray(memoryview(t.to("cpu") if t.device.type != "cpu" else t.copy()))


def same(t, a):
    """Shape, dtype and bits."""
    got = host(t)
    a = np.asarray(a)
    assert got.shape == a.shape and got.dtype == a.dtype, (got.shape, a.shape, got.dtype, a.dtype)
    assert bits(got) == bits(a)


def values(rng, shape, name):
    a = rng.integers(0, 100, shape)
    if name.startswith("complex"):
        a = a + 1j * rng.integers(0, 100, shape)
    return np.asarray(a).astype(name)


def assign_in_order(a, index, v):
    """a[index] = v where the last of several writes to one element wins, in C order of the result."""
    places = np.arange(a.size).reshape(a.shape)[index]
    v = np.asarray(v)
    v = np.broadcast_to(v.reshape(v.shape[max(0, v.ndim - places.ndim) :]), places.shape)
    flat = a.flatten()
    for to, value in zip(places.ravel(), v.ravel()):
        flat[to] = value
    return flat.reshape(a.shape)


# ---- x[index], against NumPy ----------------------------------------------------------


class Fuzz:
    """Random arrays and random indices of every kind."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def rng(self):
        return np.random.default_rng(self.r.getrandbits(32))

    def array(self):
        r = self.r
        shape = tuple(r.choice([1, 2, 3, 4, 5, 7]) if r.random() < 0.95 else 0 for _ in range(r.choice([0, 1, 1, 2, 2, 3, 3, 4, 5])))
        if r.random() < 0.03 and shape:
            shape = (r.choice([1023, 1024, 1025, 3000]), *shape[:1])
        a = values(self.rng(), shape, r.choice(NAMES))
        for _ in range(r.choice([0, 0, 1, 2])):
            k = r.random()
            if k < 0.3:
                a = a.T
            elif k < 0.6 and a.ndim:
                a = a[tuple(slice(None, None, r.choice([-1, 1, 2, -2])) for _ in range(a.ndim))]
            elif k < 0.7 and a.ndim and a.shape[0]:
                a = np.broadcast_to(a[:1], a.shape)
        return a

    def integers(self, n, base):
        r = self.r
        shape = [1 if r.random() < 0.2 else s for s in base]
        if r.random() < 0.2:
            shape = shape[r.randint(0, len(shape)) :]
        if n == 0:
            shape = [0, *shape]
        v = np.asarray(self.rng().integers(-n, max(n, 1) if r.random() < 0.98 else n + 1, shape))
        if r.random() < 0.2:
            v = np.where(np.abs(v) < n, np.abs(v), 0).astype(r.choice(INDEX_NAMES[4:]))
        else:
            v = v.astype(r.choice(["int64", "int64", "int32", "int16", "int8"]))
        if r.random() < 0.2 and v.ndim:
            v = v[::-1]
        return v.tolist() if r.random() < 0.2 and v.ndim else v

    def index(self, shape):
        r, items, axis, ellipsis, base = self.r, [], 0, False, None
        while True:
            k = r.random()
            if k < 0.08:
                items.append(None)
                continue
            if k < 0.13 and not ellipsis:
                items.append(Ellipsis)
                ellipsis = True
                axis += r.randint(0, max(0, len(shape) - axis))
                continue
            if axis >= len(shape):
                break
            n = shape[axis]
            if k < 0.3:
                items.append(slice(*(r.choice([None, r.randint(-n - 1, n + 1)]) for _ in range(2)), r.choice([None, 1, 2, -1, -2])))
                axis += 1
            elif k < 0.42 and n:
                at = r.randint(-n, n - 1) if r.random() < 0.97 else n + 1
                items.append(r.choice([int, np.int64, np.int16, np.array])(at))
                axis += 1
            elif k < 0.75:
                if base is None or r.random() < 0.2:
                    base = tuple(r.choice([0, 1, 2, 3, 4]) for _ in range(r.choice([1, 1, 2, 3])))
                items.append(self.integers(n, base))
                axis += 1
            elif k < 0.92:
                span = r.randint(1, len(shape) - axis)
                m = self.rng().random(shape[axis : axis + span]) < r.choice([0.1, 0.5, 0.9, 0, 1])
                items.append(m if r.random() < 0.8 or m.size == 0 else m.tolist())
                axis += span
            elif k < 0.95:
                items.append(r.choice([True, False, np.bool_(True)]))
            else:
                break
            if r.random() < 0.15:
                break
        return items[0] if len(items) == 1 and r.random() < 0.5 else tuple(items)

    def converted(self, index, device):
        """Index arrays as tensors, sometimes on NumPy's memory."""
        if isinstance(index, tuple):
            return tuple(self.converted(i, device) for i in index)
        if isinstance(index, np.ndarray) and self.r.random() < 0.7:
            if device != "cpu" or self.r.random() < 0.5:
                return tx.asarray(index, device=device)
            return tx.from_numpy(index)
        return index


def empty_mask(index):
    return any(getattr(i, "size", 1) == 0 for i in (index if isinstance(index, tuple) else (index,)))


@pytest.mark.parametrize("seed", range(6))
def test_getitem_and_setitem_like_numpy(device, seed):
    fuzz = Fuzz(seed)
    checked = 0
    for _ in range(1200 if device == "cpu" else 100):
        a = fuzz.array()
        if device != "cpu" and a.dtype in (np.float64, np.complex128):
            continue
        t = tx.from_numpy(np.asarray(a) if a.flags.writeable else a.copy()) if device == "cpu" else tx.asarray(a, device=device)
        index = fuzz.index(a.shape)
        ours = fuzz.converted(index, device)
        what = (a.shape, a.dtype, a.strides, index)
        try:
            want = a[index]
        except (IndexError, DeprecationWarning) as error:  # older NumPys only warn where the result is empty
            # NumPy lets masks of size 0 pass whatever their shape is
            with pytest.raises(IndexError):
                t[ours]
            assert str(error), what
            continue
        try:
            got = t[ours]
        except IndexError as error:
            assert "mask of shape" in str(error) and empty_mask(index), what
            continue
        got = host(got)
        assert got.shape == want.shape and bits(got) == bits(want), what
        # assignment
        shape = [] if want.ndim == 0 else [1 if fuzz.r.random() < 0.2 else s for s in want.shape]
        if fuzz.r.random() < 0.2:
            shape = shape[fuzz.r.randint(0, len(shape)) :]
        v = values(fuzz.rng(), shape, a.dtype.name)
        t = tx.asarray(a, device=device, copy=True)
        version = t.version
        t[ours] = tx.asarray(v, device=device) if v.ndim or fuzz.r.random() < 0.5 else v.item()
        assert bits(host(t)) == bits(assign_in_order(np.array(a), index, v)), what
        assert t.version > version or want.size == 0
        checked += 1
    assert checked > 10


def test_results_of_arrays_are_copies_and_basic_ones_are_views():
    x = tx.arange(12).reshape(3, 4)
    for index in (tx.asarray([0, 1]), [0, 1], np.array([0]), x > 2, True, (slice(None), [0]), (0, [1, 2])):
        y = x[index]
        assert not tx.shares_storage(x, y)
        y.fill_(-1)
    assert x.tolist() == np.arange(12).reshape(3, 4).tolist()
    for index in (0, slice(1), None, ..., (0, 1), tx.asarray(1), np.array(1), np.int8(1), (..., None)):
        assert tx.shares_storage(x, x[index])
    x[1, 1:3] = 0
    assert x.tolist() == [[0, 1, 2, 3], [4, 0, 0, 7], [8, 9, 10, 11]]


def test_truth_values_add_an_axis():
    x = tx.arange(3)
    assert x[True].shape == (1, 3) and x[False].shape == (0, 3) and x[tx.asarray(True)].shape == (1, 3)
    x[False] = 5
    assert x.tolist() == [0, 1, 2]
    x[True] = 5
    assert x.tolist() == [5, 5, 5]
    s = tx.asarray(2.0)
    s[s > 1] = 0.0
    assert s.item() == 0 and s[tx.asarray([[False, True]])[0, 1]].shape == (1,)


def test_position_of_the_advanced_axes():
    x = tx.zeros((2, 3, 4, 5))
    i, j = tx.asarray([0, 1, 1]), tx.asarray([[0], [1]])
    assert x[:, i].shape == (2, 3, 4, 5)
    assert x[:, i, j].shape == (2, 2, 3, 5)
    assert x[:, i, :, j].shape == (2, 3, 2, 4)
    assert x[0, :, i].shape == (3, 3, 5)
    assert x[:, 0, i].shape == (2, 3, 5)
    assert x[i, None, j].shape == (2, 3, 1, 4, 5)
    assert x[:, tx.ones((3, 4), dtype=tx.bool)].shape == (2, 12, 5)


@pytest.mark.parametrize(
    "index, words",
    [
        ([5], ["index 5", "axis 0", "size 3"]),
        ([-4], ["index -4", "axis 0", "size 3"]),
        ((slice(None), [0, 4]), ["index 4", "axis 1", "size 4"]),
        (3, ["index 3", "axis 0", "size 3"]),
        ((0, 0, 0), ["too many", "3", "2 axes"]),
        ([1.0], ["1.0"]),
        (1.5, ["1.5"]),
        ("a", ["'a'"]),
        ((..., ...), ["ellipsis"]),
        (np.ones((2, 2), bool), ["mask", "(2, 2)", "size 3"]),
        (([0, 1], [0, 1, 2]), ["(2,)", "(3,)", "broadcast"]),
        (np.array([2**63], np.uint64), [str(2**63), "axis 0"]),
    ],
)
def test_bad_indices_say_what_is_wrong_and_change_nothing(index, words):
    x = tx.arange(12).reshape(3, 4)
    with pytest.raises(IndexError) as caught:
        x[index]
    for word in words:
        assert word in str(caught.value)
    version = x.version
    with pytest.raises(IndexError):
        x[index] = 0
    assert x.tolist() == np.arange(12).reshape(3, 4).tolist() and x.version == version
    with pytest.raises(IndexError):
        x[tx.ones(2)]


@pytest.mark.cpu_fact  # a GPU tells of it at the next wait, see tests/metal/test_picking.py
def test_a_bad_index_anywhere_writes_nothing():
    for n in (10, 70000):
        x = tx.zeros(n)
        i = np.arange(n)
        i[-1] = n
        for f in (lambda: x.__setitem__(tx.asarray(i), 1.0), lambda: x.index_add_(0, i, 1.0), lambda: x.scatter_(0, i, 1.0), lambda: x.index_fill_(0, i, 2.0)):
            with pytest.raises(IndexError, match=f"index {n} .* axis 0 of size {n}"):
                f()
        assert x.version == 0 and not tx.any(x)


def test_idx_1_repeated_reversal():
    a = tx.arange(51).reshape(17, 3)
    b = a
    for _ in range(4):
        b = b[::-1]
    assert b.tolist() == a.tolist() and b[::-1].tolist() == a.tolist()[::-1]


def test_idx_2_negative_stop_with_an_integer():
    x = tx.ones((10, 10))[0:-1, 0]
    assert x.shape == (9,) and x.tolist() == [1.0] * 9


def test_dup_1_repeated_indices():
    x = tx.zeros(3)
    x[[0, 0]] += 1
    assert x.tolist() == [1, 0, 0]
    x = tx.zeros(3)
    x.index_add_(0, tx.asarray([0, 0]), 1.0)
    assert x.tolist() == [2, 0, 0]
    for n in (5, 100, 70000):  # the last one wins, for any number of threads and any way to divide the work
        i = np.arange(n) % 3
        v = np.arange(n, dtype=np.float32)
        want = [n - 1 - (n - 1 - k) % 3 for k in range(3)]
        x = tx.zeros(3)
        x[tx.asarray(i)] = tx.asarray(v)
        assert x.tolist() == want
        assert tx.zeros(3).scatter_(0, i, v).tolist() == want
        rows = tx.zeros((3, 40)).index_copy_(0, i, tx.asarray(v).reshape(-1, 1))
        assert rows[:, 17].tolist() == want


def test_empty_3_index_without_axes(device):
    x = tx.asarray([[2, 4], [6, 8]], device=device)
    assert tx.take(x, tx.asarray(1, device=device), axis=0).tolist() == [6, 8]
    assert tx.take(x, 1, axis=1).tolist() == [4, 8]
    assert x[:, tx.asarray([], dtype=tx.int64, device=device)].shape == (2, 0)
    assert tx.take(x, [], axis=0).shape == (0, 2)
    with pytest.raises(IndexError):
        tx.zeros((0, 2), device=device)[tx.asarray([0], device=device)]


def test_float_list_into_float64_keeps_its_digits():
    x = tx.zeros(2, dtype=tx.float64)
    x[:] = [0.1, 0.2]
    x[[1]] = [0.3]
    assert x.tolist() == [0.1, 0.3]
    x[0] = np.float32(0.5)
    x[tx.asarray([True, False])] = np.array([7.0])
    assert x.tolist() == [7.0, 0.3]


def test_dtype_rule_of_assignment():
    i = tx.zeros(3, dtype=tx.int32)
    for index in (0, [0], tx.asarray([True, False, False])):
        for bad in (1.5, tx.asarray(1.5), tx.asarray([1.5]), 1j):
            with pytest.raises(tx.DTypeError, match="setitem"):
                i[index] = bad
    with pytest.raises(OverflowError):
        i[[0]] = 2**40
    with pytest.raises(tx.ShapeError):
        i[[0, 1]] = tx.asarray([1, 2, 3])
    assert i.version == 0 and i.tolist() == [0, 0, 0]
    h = tx.zeros(3, dtype=tx.float16)
    h[[0]] = tx.asarray([0.1])
    assert h[0].item() == float(np.float16(0.1))
    h[[1]] = 3
    f = tx.zeros(2)
    f[[1]] = tx.asarray([True])
    assert h.tolist()[1:] == [3.0, 0.0] and f.tolist() == [0.0, 1.0]


# ---- memory ----------------------------------------------------------------------------------


def measured(call):
    with tx.memory.measure() as m:
        out = call()
    return m.bytes, m.allocations, out


@pytest.mark.parametrize("n", [1000, 70000])
def test_reads_allocate_their_result_and_nothing_else(n):
    x = tx.ones((n, 4))
    i = tx.arange(n // 2)
    m = tx.arange(n) % 2 == 0
    tx.eval(i, m)
    half = n // 2 * 16
    assert measured(lambda: x[i])[:2] == (half, 1)
    assert measured(lambda: x[m])[:2] == (half, 1)
    assert measured(lambda: tx.take(x, i, axis=0))[:2] == (half, 1)
    assert measured(lambda: x[[0, 1]])[:2] == (32, 1)
    assert measured(lambda: x[:, [0, 1]])[:2] == (8 * n, 1)
    assert measured(lambda: tx.nonzero(m))[:2] == (n // 2 * 8, 1)
    assert measured(lambda: x[5])[:2] == (0, 0)


@pytest.mark.parametrize("n", [1000, 70000])
def test_writes_allocate_nothing(n):
    with tx.deferred(True):
        x, y = tx.ones((n, 4)), tx.ones((n, 4))
        i = tx.arange(n)
        m = x[:, 0] > 0
        column, h = tx.ones((n, 1)), tx.ones((n, 4), dtype=tx.float16)
        tx.eval(i, m)
        calls = [
            lambda: x.__setitem__(i, y), lambda: x.__setitem__(i, 2.0), lambda: x.__setitem__(m, 3.0), lambda: x.__setitem__(m, y),
            lambda: x.__setitem__(0, 1.0), lambda: x.index_add_(0, i, column), lambda: x.index_copy_(0, i, y),
            lambda: x.index_fill_(0, i, 1.0), lambda: x.masked_fill_(m.reshape(n, 1), 1.0), lambda: x.slice_set(y[1:], 0, 0),
            lambda: x.scatter_(0, i.reshape(n, 1), y), lambda: x.scatter_add_(0, i.reshape(n, 1), y), lambda: h.index_add_(0, i, h[:1].copy()),
            lambda: x.__setitem__(slice(1, 9), y[:8] * 2.0),
        ]  # fmt: skip
        for call in calls[:-2] + calls[-1:]:
            assert measured(call)[:2] == (0, 0)
        assert measured(calls[-2])[:2] == (8, 1)  # the row that is added; sums of halves take scratch memory


def test_the_index_may_be_a_view_of_the_destination():
    x = tx.arange(8)
    x[x] = x.flip(axis=0)
    assert x.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    x = tx.arange(8)
    x.index_add_(0, x[::2], x[:4])
    assert x.tolist() == [0, 1, 3, 3, 6, 5, 9, 7]
    b = tx.asarray([True, False, True, True])
    b[b] = tx.asarray([False, True, False])
    assert b.tolist() == [False, False, True, False]
    b[b] = b[b] ^ True
    assert b.tolist() == [False] * 4


def test_indexing_reads_the_values_of_its_time():
    x = tx.arange(6)
    i = tx.asarray([0, 1])
    late = x * 10
    x[i] = 7
    i[:] = 5
    assert late.tolist() == [0, 10, 20, 30, 40, 50] and x.tolist() == [7, 7, 2, 3, 4, 5]


def test_devices_are_not_mixed(device):
    if device == "cpu":
        pytest.skip("needs a second device")
    x = tx.zeros(4, device=device)

    def cpu(values):
        return tx.asarray(values, device="cpu")

    for call in (lambda: x[cpu([0])], lambda: x[cpu([True] * 4)], lambda: tx.take(x, cpu([0]), axis=0), lambda: x.index_add_(0, cpu([0]), 1.0)):
        with pytest.raises(tx.DeviceMismatchError, match="cpu"):
            call()
    assert x.tolist() == [0.0] * 4


def test_large_offsets_are_64_bit():
    x = tx.broadcast_to(tx.asarray([[1], [2]], dtype=tx.int8), (2, 2**33))
    assert x[tx.asarray([1, 0]), tx.asarray([2**33 - 1, -(2**33)])].tolist() == [2, 1]
    assert _core.basic_view(x, (0, slice(2**32, 2**32 + 2)))[[0, 1]].tolist() == [1, 1]
    assert tx.take(x[0], tx.asarray([2**32 + 5]), axis=0).tolist() == [1]


def test_threads_write_and_read_side_by_side():
    import threading

    x = tx.zeros((64, 5000))
    i = tx.arange(64)
    errors = []

    def work(k):
        try:
            for _ in range(20):
                x.index_add_(0, i, 1.0)
                assert x[i].shape == (64, 5000)
        except BaseException as error:
            errors.append(error)

    crew = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in crew:
        t.start()
    for t in crew:
        t.join()
    assert not errors and tx.all(x == 80.0).item()
