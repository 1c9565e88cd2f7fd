"""Cases of LOCK and EXC: operands that share storage, and calls that fail and change nothing."""

import numpy as np
import pytest

import tensorx as tx


def test_lock_3_slice_set_with_itself(device):
    t = tx.arange(16, device=device).astype(tx.float32).reshape((4, 4))
    want = t.numpy(copy=True)
    t.slice_set(t, 0, 0)
    assert np.array_equal(t.numpy(copy=True), want)
    t.slice_set(t[:2], 0, 2)
    want[2:] = want[:2]
    assert np.array_equal(t.numpy(copy=True), want)
    x = tx.arange(6, device=device).astype(tx.float32)
    x.slice_set(x[2:], 0, 0)
    assert x.tolist() == [2, 3, 4, 5, 4, 5]


WRITES = {
    "copy_": lambda x, s: x.copy_(tx.flip(s, axis=0)),
    "add_": lambda x, s: x.add_(s.alias()),
    "mul_": lambda x, s: x.mul_(tx.flip(s, axis=0)),
    "scatter_": lambda x, s: x.scatter_(0, tx.asarray([5, 4, 3, 2, 1, 0], device=x.device), s.alias()),
    "index_add_": lambda x, s: x.index_add_(0, tx.asarray([0, 0, 1], device=x.device), s[3:]),
    "index_copy_": lambda x, s: x.index_copy_(0, tx.asarray([0, 1, 2], device=x.device), s[3:]),
    "masked_fill_": lambda x, s: x.masked_fill_(s > 2.0, s[1]),
    "setitem": lambda x, s: x.__setitem__(slice(1, None), s[:-1]),
}


@pytest.mark.parametrize("write", WRITES)
def test_lock_operands_on_the_storage_that_is_written(device, write):
    """As if the source had been copied before."""
    x = tx.arange(6, device=device).astype(tx.float32) + 1.0
    y, source = x.copy(), x.copy()
    WRITES[write](x, x)
    WRITES[write](y, source)
    assert x.tolist() == y.tolist() != source.tolist()


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: x.add_(tx.ones(7, device=x.device)), tx.ShapeError),
        (lambda x: x.copy_(tx.ones((2, 3), device=x.device)), tx.ShapeError),
        (lambda x: x.reshape((4, 2)), tx.ShapeError),
        (lambda x: x.take(tx.asarray([0.5], device=x.device)), (tx.DTypeError, IndexError)),
        (lambda x: x.__setitem__(9, 1.0), IndexError),
        (lambda x: x.slice_set(tx.ones(9, device=x.device), 0, 0), (tx.ShapeError, IndexError)),
        (lambda x: x.T, tx.ShapeError),
        (lambda x: tx.concat([x, tx.ones((2, 2), device=x.device)]), tx.ShapeError),
    ],
)
def test_exc_1_a_call_that_fails_changes_nothing(device, call, error):
    x = tx.arange(6, device=device).astype(tx.float32)
    tx.eval(x)
    tx.synchronize()
    live = tx.memory.stats(device)["live"]
    before = (x.shape, x.strides, x.version, x.tolist(), x.storage.address, x.is_unique())
    with pytest.raises(error):
        call(x)
    assert (x.shape, x.strides, x.version, x.tolist(), x.storage.address, x.is_unique()) == before
    assert tx.memory.stats(device)["live"] <= live


def test_exc_1_an_index_out_of_range_changes_nothing():
    """On the CPU at the call; on Metal such an error comes at the next wait."""
    x = tx.arange(6).astype(tx.float32)
    for call in (lambda: x.index_add_(0, tx.asarray([1, 9]), tx.ones(2)), lambda: x.scatter_(0, tx.asarray([0, -9]), tx.ones(2))):
        with pytest.raises(IndexError):
            call()
        assert x.tolist() == [0, 1, 2, 3, 4, 5] and x.version == 0


def test_exc_1_out_of_memory_changes_nothing():
    x = tx.ones(1 << 16)
    tx.eval(x)
    tx.memory.empty_cache()
    old = tx.memory.stats()["limit"]
    keep = x.alias()
    tx.memory.set_limit(tx.memory.stats()["live"] + 1000)
    try:
        with pytest.raises(tx.OutOfMemoryError, match="requested 262,144 bytes"):
            tx.eval(x + 1.0)
        x.add_(1.0)  # needs no memory
    finally:
        tx.memory.set_limit(old)
    assert keep[0].item() == 2.0 and x.version == 1
