"""Long mixed loops leave the counters and the process as they were."""

import gc
import os

import pytest

import tensorx as tx
from tensorx import _core


def rss():
    """Resident bytes of this process (Linux), or None."""
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def mixed(steps):
    """Ops of many kinds over a few live tensors; returns how many were done."""
    x = tx.arange(64).astype("float32")
    m = tx.ones((8, 8))
    i = tx.arange(8)
    done = 0
    for k in range(steps):
        x = x * 0.5 + 1.0
        y = x.reshape(8, 8).T
        m.mul_(0.5).add_(y)
        z = (m - y) * (m - y)
        s = z.sum()
        v = y[1:, ::2]
        v.copy_(v + 1.0)
        w = tx.where(m > 1.0, m, y)
        c = tx.concat([w, z], axis=0)
        t = tx.softmax(c)
        p = m @ w
        a = p.numpy()
        h = p.astype("float16")
        d = tx.from_dlpack(a)
        n = i + k
        q = n[n > 3] if k % 50 == 0 else n
        b = x.alias()
        del a, d, b
        if k % 7 == 0:
            s.item()
            h.tolist()
            t.max().item()
            q.sum().item()
        try:
            x + tx.ones(7)
        except tx.ShapeError:
            pass
        m.zero_()
        done += 24
    return done


@pytest.mark.parametrize("steps", [2000, pytest.param(42000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_mixed_ops_leave_nothing_behind(steps):
    mixed(300)
    gc.collect()
    count, live, before = _core.storage_count(), tx.memory.stats()["live"], rss()
    done = mixed(steps)
    gc.collect()
    assert done >= 24 * steps
    assert (_core.storage_count(), tx.memory.stats()["live"]) == (count, live)
    assert _core.pending_count() == 0
    if before is not None:
        assert rss() - before < 4 << 20
