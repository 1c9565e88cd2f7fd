"""Indexing by arrays, lists and masks; take, gather, scatter and the index families, against NumPy."""

import random

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core

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


@pytest.fixture
def threads():
    """Sets the number of threads; the old one comes back."""
    old = tx.get_num_threads()
    yield tx.set_num_threads
    tx.set_num_threads(old)


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
        except IndexError as error:
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


# ---- functions ---------------------------------------------------------------------------


@every_dtype
def test_take_of_every_dtype(device, name, rng):
    if device != "cpu" and name in ("float64", "complex128"):
        pytest.skip("not on Metal")
    a = values(rng, (5, 6, 7), name)
    for axis in (0, 1, 2, -1):
        for dtype in INDEX_NAMES:
            i = rng.integers(0, a.shape[axis], (3, 2)).astype(dtype)
            same(tx.take(tx.asarray(a, device=device), tx.asarray(i, device=device), axis=axis), np.take(a, i, axis=axis))
    same(tx.take(tx.asarray(a, device=device), [-1, 3]), np.take(a, [-1, 3]))
    same(tx.index_select(tx.asarray(a, device=device), 1, 2), a[:, [2]])


@pytest.mark.parametrize("n", SIZES)
def test_gather_and_scatter_around_block_sizes(n, rng, threads):
    a = rng.random(n).astype(np.float32)
    i = rng.integers(-n, n, n)
    v = rng.random(n).astype(np.float32)
    added = a.copy()
    for k, w in zip(i, v):
        added[k] += w
    written = assign_in_order(a, i, v)
    for count in (1, 2, 4):
        threads(count)
        same(tx.asarray(a)[i], a[i])
        same(tx.asarray(a).index_add_(0, i, v), added)
        same(tx.scatter_add(tx.asarray(a), 0, i, v), added)
        same(tx.scatter(tx.asarray(a), 0, i, v), written)
        same(tx.asarray(a)[::-1].copy()[i.astype(np.int32)], a[::-1][i])
    m = a > 0.3
    same(tx.asarray(a)[tx.asarray(m)], a[m])
    same(tx.nonzero(tx.asarray(m))[0], np.nonzero(m)[0])


@pytest.mark.parametrize("name", ["float32", "float64", "int8", "int32", "uint16", "uint64", "complex64", "complex128", "bool"])
def test_sums_do_not_depend_on_threads_or_layout(name, rng, threads):
    x = values(rng, (40, 30), name)
    i = rng.integers(0, 40, 3000)
    s = values(rng, (3000, 30), name)
    if np.dtype(name).kind in "fc":
        x, s = x * x.dtype.type(0.1), s * s.dtype.type(0.1)
    want = x.copy()
    for k, row in zip(i, s):
        want[k] = want[k] | row if name == "bool" else want[k] + row
    for count in (1, 2, 3, 8):
        threads(count)
        same(tx.asarray(x).index_add_(0, i, s), want)
        same(tx.asarray(x.T.copy()).index_add_(1, i, tx.asarray(s.T.copy())), want.T)
        flipped = tx.asarray(x[::-1].copy())
        flipped[::-1].index_add_(0, i, s[:, ::-1])
        same(flipped.flip(axis=0), assert_flipped(x, i, s, name))
        out = tx.asarray(x)
        out.index_put_((tx.asarray(i),), tx.asarray(s), accumulate=True)
        same(out, want)
        index = np.broadcast_to(i[:, None], s.shape)
        same(tx.asarray(x).scatter_add_(0, index, s), want)
        same(tx.asarray(x[:, 0]).index_add_(0, i, s[:, 0]), want[:, 0])


def assert_flipped(x, i, s, name):
    want = x.copy()
    for k, row in zip(i, s[:, ::-1]):
        want[k] = want[k] | row if name == "bool" else want[k] + row
    return want


def half_sums(x, i, s):
    """float16: each destination is summed in float32 in order and rounded once."""
    total = x.astype(np.float32)
    for k, row in zip(i, s):
        total[k] += row.astype(np.float32)
    touched = np.zeros(len(x), bool)
    touched[i] = True
    return np.where(touched.reshape(-1, *[1] * (x.ndim - 1)), total.astype(x.dtype), x)


@pytest.mark.parametrize("n", [3, 600, 5000])
def test_halves_are_summed_in_float32(n, rng, threads):
    x = rng.random((50, 20)).astype(np.float16)
    i = rng.integers(0, 50, n)
    s = (rng.random((n, 20)) * 0.01).astype(np.float16)
    want = half_sums(x, i, s)
    for count in (1, 2, 5):
        threads(count)
        same(tx.asarray(x).index_add_(0, i, s), want)
        same(tx.asarray(x).scatter_add_(0, np.broadcast_to(i[:, None], s.shape), s), want)
        same(tx.asarray(x.T.copy()).index_add_(1, i, s.T), want.T)
        same(tx.asarray(x[:, 3]).index_add_(0, i, s[:, 3]), want[:, 3])
        big = np.zeros(10**6, np.float16)  # far more places than positions
        big[:50] = x[:, 0]
        same(tx.asarray(big).index_add_(0, i[:9], s[:9, 0])[:50], half_sums(x[:, 0], i[:9], s[:9, 0]))
    one = tx.zeros(1, dtype=tx.bfloat16).index_add_(0, tx.zeros(1000, dtype=tx.int64), tx.ones(1000, dtype=tx.bfloat16))
    assert one.item() == 1000.0  # steps of 1 would be lost at 256
    mask = tx.asarray(x) > 0.5
    y = tx.asarray(x)
    y.index_put_(mask, 1.0, accumulate=True)
    same(y, np.where(x > 0.5, x + np.float16(1), x))


@every_dtype
def test_along_an_axis(name, rng):
    a = values(rng, (4, 5, 6), name)
    for axis in (0, 1, 2, -2):
        i = rng.integers(-a.shape[axis], a.shape[axis], [1 if rng.random() < 0.2 else s for s in a.shape])
        same(tx.take_along_axis(tx.asarray(a), tx.asarray(i), axis=axis), np.take_along_axis(a, i, axis))
        short = i[:2, :1]
        want = np.take_along_axis(a[tuple(slice(None) if d == axis % 3 else slice(s) for d, s in enumerate(short.shape))], short, axis)
        same(tx.gather(tx.asarray(a), axis, short), want)
        v = values(rng, i.shape, name)
        want = a.copy()
        for at in np.ndindex(*i.shape):
            to = list(at)
            to[axis] = i[at]
            want[tuple(to)] = v[at]
        same(tx.scatter(tx.asarray(a), axis, i, v), want)
        same(tx.asarray(a).transpose().copy().transpose().scatter_(axis, i, np.concatenate([v, v])), want)
        want = a.copy()
        np.put_along_axis(want, i, v[..., :1], axis)
        same(tx.asarray(a).put_along_axis_(i, v[..., :1], axis=axis), want)
        same(tx.put_along_axis(tx.asarray(a), i, 1 if name != "bool" else True, axis=axis), np_put(a, i, axis))


def np_put(a, i, axis):
    a = a.copy()
    np.put_along_axis(a, i, 1, axis)
    return a


@every_dtype
def test_masks_of_every_dtype_and_layout(name, rng):
    for shape in ((5,), (70, 1000), (3, 4, 5), (8193,)):
        a = values(rng, shape, name)
        for p in (0.0, 0.05, 0.5, 0.97, 1.0):
            m = rng.random(shape) < p
            for make in (lambda q: q, lambda q: q.T, lambda q: q[::-1], lambda q: q[..., ::2]):
                b, k = make(a), make(m)
                base = tx.asarray(a)
                t = make(base.T) if b.shape != make(a).shape else layout_like(base, make)
                n = layout_like(tx.asarray(m), make)
                same(t[n], b[k])
                same(tx.masked_select(t, n), b[k])
                v = values(rng, int(k.sum()), name)
                want = b.copy()
                want[k] = v
                t[n] = tx.asarray(v)
                same(t, want)
                t.masked_fill_(n, 1 if name != "bool" else True)
                want[k] = 1
                same(t, want)
            assert [q.tolist() for q in tx.nonzero(tx.asarray(m))] == [q.tolist() for q in np.nonzero(m)]
            same(tx.argwhere(tx.asarray(m)), np.argwhere(m))


def layout_like(t, make):
    """The same movement on a tensor."""
    class Moved:
        T = property(lambda self: t.permute_dims(tuple(range(t.ndim))[::-1]))
        __getitem__ = staticmethod(lambda index: t[index])

    out = make(Moved())
    return t if isinstance(out, Moved) else out


def test_masks_broadcast(rng):
    a = rng.random((3, 4)).astype(np.float32)
    row, column = np.array([True, False, True, True]), np.array([[True], [False], [True]])
    for m in (row, column, np.array(True)):
        full = np.broadcast_to(m, a.shape)
        same(tx.asarray(a).masked_fill_(m, 2.0), np.where(full, np.float32(2), a))
        same(tx.masked_fill(tx.asarray(a), tx.asarray(m), 2.0), np.where(full, np.float32(2), a))
        same(tx.masked_select(tx.asarray(a), tx.asarray(m)), a[full])
        v = np.arange(20, dtype=np.float32)
        want = a.copy()
        want[full] = v[: full.sum()]
        same(tx.asarray(a).masked_scatter_(m, tx.asarray(v).reshape(4, 5)), want)
        same(tx.masked_scatter(tx.asarray(a), m, tx.asarray(v)), want)
    with pytest.raises(tx.ShapeError, match="3 true elements"):
        tx.zeros(4).masked_scatter_(row, tx.ones(2))
    with pytest.raises(tx.ShapeError):
        tx.zeros(4).masked_fill_(np.ones((2, 4), bool), 1.0)
    with pytest.raises(tx.DTypeError):
        tx.zeros(4).masked_fill_(tx.zeros(4), 1.0)
    assert tx.where(tx.asarray([True, False]), 1.0, tx.asarray([5.0, 6.0])).tolist() == [1.0, 6.0]
    assert tx.where(tx.asarray([False, True]))[0].tolist() == [1]


def test_index_families_and_value_forms(rng):
    a = rng.random((4, 3)).astype(np.float32)
    x = tx.asarray(a)
    i = tx.asarray([2, -4])
    v = rng.random((2, 3)).astype(np.float32)
    for name, want in (("index_copy", v), ("index_add", a[[2, 0]] + v)):
        expected = a.copy()
        expected[[2, 0]] = want
        same(getattr(tx, name)(x, 0, i, tx.asarray(v)), expected)
        same(getattr(x.copy(), name + "_")(0, i, tx.asarray(v)), expected)
    expected = a.copy()
    expected[:, [1]] = 9
    same(tx.index_fill(x, 1, 1, 9.0), expected)
    same(x.copy().index_fill_(1, tx.asarray([1]), tx.asarray(9.0)), expected)
    expected = a.copy()
    np.add.at(expected, ([0, 0], [1, 1]), 1)
    same(tx.index_put(x, ([0, 0], [1, 1]), 1.0, accumulate=True), expected)
    same(x, a)
    assert x.version == 0
    for name, args in (("index_copy", (0, i, tx.asarray(v))), ("scatter", (0, tx.zeros((1, 1), dtype=tx.int64), 1.0))):
        assert getattr(tx, name)(x, *args).version == 0


def test_errors_of_the_functions():
    x = tx.zeros((3, 4))
    i = tx.asarray([0, 1])
    cases = [
        (tx.ShapeError, "axis 2 is out of range", lambda: tx.take(x, i, axis=2)),
        (tx.ShapeError, "one axis", lambda: tx.index_select(x, 0, [[0]])),
        (IndexError, "integers, not bools", lambda: tx.take(x, [True, False, True], axis=0)),
        (IndexError, "float32", lambda: tx.take(x, tx.zeros(2), axis=0)),
        (tx.ShapeError, "as many axes", lambda: tx.gather(x, 0, i)),
        (tx.ShapeError, "longer than the tensor", lambda: tx.gather(x, 0, tx.zeros((1, 5), dtype=tx.int64))),
        (tx.ShapeError, "at least as long", lambda: x.scatter_(0, tx.zeros((2, 2), dtype=tx.int64), tx.zeros((1, 2)))),
        (tx.DTypeError, "index_add_", lambda: tx.zeros(3, dtype=tx.int32).index_add_(0, i, 0.5)),
        (tx.ShapeError, "broadcast", lambda: x.index_add_(0, i, tx.zeros((3, 4)))),
        (tx.ShapeError, "0-d", lambda: x.index_fill_(0, i, tx.zeros(2))),
        (tx.DTypeError, "expected a tensor", lambda: tx.take([1, 2], 0)),
        (tx.ShapeError, "0-d tensor", lambda: tx.nonzero(tx.asarray(1))),
        (tx.ShapeError, "axis 1 only", lambda: x.slice_set(tx.zeros((2, 2)), 1, 0)),
        (IndexError, "leave axis 0", lambda: x.slice_set(tx.zeros((2, 4)), 0, 2)),
    ]
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    assert x.version == 0


def test_roll_and_diagonal(rng):
    a = rng.random((4, 5, 3)).astype(np.float32)
    x = tx.asarray(a)
    for shift, axis in ((1, None), (-7, None), (2, 0), (-1, 1), ((1, 2), (0, 2)), ((1, 2), (0, 0)), (3, (0, 1)), (0, 1), (100, 2)):
        same(tx.roll(x, shift, axis), np.roll(a, shift, axis))
        same(tx.roll(x[::-1, :, ::2], shift, axis), np.roll(a[::-1, :, ::2], shift, axis))
    same(tx.roll(x * 2.0, 1, 1), np.roll(a * 2, 1, 1))
    for offset in (-5, -3, -1, 0, 1, 4, 9):
        for a1, a2 in ((-2, -1), (0, 1), (2, 0)):
            same(tx.diagonal(x, offset, a1, a2), np.diagonal(a, offset, a1, a2))
    d = tx.zeros((3, 3)).alias()
    d.diagonal(1).fill_(2.0)
    assert d.tolist() == [[0, 2, 0], [0, 0, 2], [0, 0, 0]] and tx.shares_storage(d, d.diagonal())


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
    for call in (lambda: x[tx.asarray([0])], lambda: x[tx.asarray([True] * 4)], lambda: tx.take(x, tx.asarray([0]), axis=0), lambda: x.index_add_(0, tx.asarray([0]), 1.0)):
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
