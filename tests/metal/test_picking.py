"""Reading and writing by an index tensor on metal: the kernels' results, what stays on the host, late errors."""

import math

import numpy as np
import pytest

import tensorx as tx

pytestmark = pytest.mark.metal


@pytest.fixture(autouse=True)
def needs_metal(metal):
    """Without a bridge there is nothing to show."""
    with tx.device("metal"):
        yield


def host_ops():
    return sum(tx.metal.stats()["host_ops"].values())


@pytest.mark.parametrize("shape, axis", [((9,), 0), ((5, 7), 0), ((5, 7), 1), ((3, 5, 4), 1)])
@pytest.mark.parametrize("index", ["int64", "int32", "int8"])
def test_take_put_and_add_along_an_axis(shape, axis, index, rng):
    before = host_ops()
    a = rng.normal(size=shape).astype(np.float32)
    i = rng.integers(-shape[axis], shape[axis], 6).astype(index)
    x, t = tx.asarray(a), tx.asarray(i)
    assert np.array_equal(tx.take(x, t, axis=axis).numpy(), np.take(a, i, axis=axis))
    v = rng.normal(size=(*shape[:axis], 6, *shape[axis + 1 :])).astype(np.float32)
    want = a.copy()
    np.add.at(want, (slice(None),) * axis + (i.astype(np.int64),), v)
    x.index_add_(axis, t, tx.asarray(v))
    assert np.allclose(x.numpy(), want, rtol=1e-6, atol=1e-6)
    y, want = tx.asarray(a), a.copy()
    want[(slice(None),) * axis + (i.astype(np.int64),)] = v  # the last one wins
    y.index_copy_(axis, t, tx.asarray(v))
    assert np.array_equal(y.numpy(), want)
    y[(slice(None),) * axis + (t,)] = 2.5
    want[(slice(None),) * axis + (i.astype(np.int64),)] = 2.5
    assert np.array_equal(y.numpy(), want)
    assert host_ops() == before


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_index_for_each_element(axis, rng):
    before = host_ops()
    a = rng.normal(size=(4, 5, 3)).astype(np.float32)
    shape = list(a.shape)
    shape[axis] = 6
    i = rng.integers(-a.shape[axis], a.shape[axis], shape)
    x, t = tx.asarray(a), tx.asarray(i)
    assert np.array_equal(tx.take_along_axis(x, t, axis=axis).numpy(), np.take_along_axis(a, i, axis))
    v = rng.normal(size=shape).astype(np.float32)
    where = list(np.indices(shape))
    where[axis] = i
    want = a.copy()
    np.add.at(want, tuple(where), v)
    x.scatter_add_(axis, t, tx.asarray(v))
    assert np.allclose(x.numpy(), want, rtol=1e-6, atol=1e-6)
    # views that cannot be walked as three loops are left to the host
    big = tx.asarray(rng.normal(size=(5, 4, 3, 2)).astype(np.float32)).permute_dims((1, 0, 3, 2))
    j = tx.asarray(rng.integers(0, 2, (4, 5, 2, 3)))
    assert np.array_equal(tx.take_along_axis(big, j, axis=2).numpy(), np.take_along_axis(big.numpy(), j.numpy(), 2))
    assert host_ops() >= before


def test_a_number_out_of_range_is_told_at_the_next_wait():
    x, bad = tx.arange(10, dtype="float32"), tx.asarray([1, 10, -11])
    for call in (lambda: tx.take(x, bad, axis=0), lambda: x.index_add_(0, bad, 1.0), lambda: x.__setitem__(bad, 0.0)):
        call()
        with pytest.raises(IndexError, match=r"out of range for axis 0 of size 10"):
            tx.synchronize()
        tx.synchronize()  # once
    y = tx.take(x, tx.asarray([3]), axis=0)
    assert y.item() == 3.0
    tx.take(x, bad, axis=0)
    with pytest.raises(IndexError, match="take"):
        (x + 1.0).tolist()
    assert (x + 1.0)[5].item() == 6.0


def test_more_picks_between_two_waits_than_notes_there_are():
    x, i = tx.arange(10, dtype="float32"), tx.asarray([3, 1])
    total = tx.zeros(2)
    for _ in range(150):
        total = total + tx.take(x, i, axis=0)
    assert total.tolist() == [450.0, 150.0]


def test_an_index_that_overlaps_what_is_written():
    x = tx.asarray([2, 0, 1, 3])
    x[x] = tx.asarray([10, 20, 30, 40])
    assert x.tolist() == [20, 30, 10, 40]
    y = tx.asarray([3, 2, 1, 0])
    y.scatter_(0, y.alias(), y)
    assert y.tolist() == [0, 1, 2, 3]


def test_the_host_writes_only_when_kernels_have_read(stand_in_or_none):
    """What has no kernel is written by the host: the kernels that still read the old values come first."""
    if stand_in_or_none is not None:
        stand_in_or_none.set(delay_us=30000)
    before = host_ops()
    x, z = tx.ones(20000), tx.ones(20000)
    tx.synchronize()
    y = x * 2.0
    tx.eval(y)
    tx.device("metal").backend.inst.commit()
    x.copy_(tx.polygamma(1, z))
    assert host_ops() > before
    assert y[0].item() == y[19999].item() == 2.0 and x[19999].item() == pytest.approx(math.pi**2 / 6)


@pytest.mark.parametrize("one_hot", [tx.one_hot, tx.nn.functional.one_hot], ids=["tx", "nn"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "int8"])
def test_one_hot_of_a_given_width_waits_for_nothing(one_hot, dtype):
    a = np.array([[3, 1, 0], [2, 0, 3]], dtype)
    x = tx.asarray(a)
    tx.synchronize()
    before, ops = tx.metal.stats()["waits"], host_ops()
    y = one_hot(x, 5)
    tx.eval(y)
    assert tx.metal.stats()["waits"] == before and host_ops() == ops
    assert y.dtype is tx.int64 and np.array_equal(y.numpy(), np.eye(5, dtype=int)[a])
    assert np.array_equal(one_hot(x).numpy(), np.eye(4, dtype=int)[a])
    for bad in (5, -1):
        late = one_hot(tx.asarray([1, bad]), 5)
        with pytest.raises(IndexError, match="one_hot"):
            late.tolist()
    with pytest.raises(IndexError, match="one_hot: (index|class number) 3 is out of range for 0 classes"):
        one_hot(x, 0)
