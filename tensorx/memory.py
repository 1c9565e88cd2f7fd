"""What the memory does: counters, limits, measurements.

>>> import tensorx as tx
>>> x = tx.ones(1024)
>>> with tx.memory.measure() as m:
...     x = x * 2.0 + 1.0
>>> m.bytes
0
"""

from __future__ import annotations

import operator

from tensorx import _core
from tensorx.device import device as _device

__all__ = ["empty_cache", "holders", "leaks", "measure", "record", "reset_peak", "set_limit", "snapshot", "stats"]  # noqa: F822


class measure:
    """Counts what this thread requests in a block: ``bytes``, ``allocations``, ``mib``.

    Evaluates what is pending on entry, and what the block left pending on exit (not on an exception). Cheap values that only
    a backward pass needs stay pending, to be computed again there; ``left`` lists them: (op, shape, bytes).

    >>> import tensorx as tx
    >>> x = tx.ones(1000)
    >>> with tx.memory.measure() as m:
    ...     x = x * 2.0 + 1.0
    >>> m.bytes, m.allocations
    (0, 0)
    """

    left = ()

    def __enter__(self):
        _core.evaluate()
        self.bytes = self.allocations = 0
        self._start = _core.thread_counts()
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            _core.evaluate()
            self.left = _core.waiting_for_backward()
        end = _core.thread_counts()
        self.bytes = end[0] - self._start[0]
        self.allocations = end[1] - self._start[1]

    @property
    def mib(self):
        """Bytes in units of 2**20."""
        return self.bytes / 2**20

    def __repr__(self):
        return f"measure(bytes={self.bytes}, allocations={self.allocations})"


def stats(device="cpu"):
    """Counters of a device: live, peak, requested, cached, system, scratch (bytes), allocations (a number), limit, cap.

    >>> import tensorx as tx
    >>> x = tx.zeros(1000)
    >>> tx.memory.stats()["live"] >= x.nbytes
    True
    """
    d = _device(device)
    if d.type == "cpu":
        return _core.cpu_stats()
    return d.backend.stats()


def set_limit(nbytes, device="cpu"):
    """Refuses allocations that would raise the live bytes above nbytes; None: no limit.

    >>> import tensorx as tx
    >>> tx.memory.set_limit(2**40)
    >>> tx.memory.set_limit(None)
    """
    if nbytes is not None:
        try:
            nbytes = operator.index(nbytes)
        except TypeError:
            raise TypeError(f"set_limit: a number of bytes (an int, as 4 * 2**30 for 4 GiB) or None is needed, got {nbytes!r}") from None
        if nbytes < 0:
            raise ValueError(f"set_limit: the number of bytes must not be negative, got {nbytes}; None takes the limit away")
    d = _device(device)
    if d.type == "cpu":
        _core.cpu_set_limit(nbytes)
    else:
        d.backend.set_limit(nbytes)


def empty_cache(device="cpu"):
    """Returns the cached blocks of a device to the system.

    >>> import tensorx as tx
    >>> tx.memory.empty_cache()
    >>> tx.memory.stats()["cached"]
    0
    """
    d = _device(device)
    if d.type == "cpu":
        _core.cpu_empty_cache()
    else:
        d.backend.empty_cache()


def reset_peak(device="cpu"):
    """Sets the peak to what is live now.

    >>> import tensorx as tx
    >>> tx.memory.reset_peak()
    >>> tx.memory.stats()["peak"] == tx.memory.stats()["live"]
    True
    """
    d = _device(device)
    if d.type == "cpu":
        _core.cpu_reset_peak()
    else:
        d.backend.reset_peak()


def __getattr__(name):
    # they need autograd, which is imported later
    if name in ("holders", "leaks", "record", "snapshot"):
        from tensorx import holders, recording

        space = holders if name == "holders" else recording
        globals()[name] = getattr(space, name)
        return globals()[name]
    raise AttributeError(f"module 'tensorx.memory' has no attribute {name!r}")
