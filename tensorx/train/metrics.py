"""Metrics: numbers that are added up over batches."""

from __future__ import annotations

from tensorx._core import Tensor
from tensorx.ops.reduce import argmax, sum

__all__ = ["Accuracy", "Mean", "Metric"]


class Metric:
    """Base of metrics: ``reset()``, ``update(output, target)`` per batch, ``compute()`` gives a float."""

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, output, target):
        raise TypeError(f"{type(self).__name__}: update() is not defined")

    def compute(self):
        return self.total / self.count if self.count else float("nan")


class Mean(Metric):
    """The mean over all entries of ``function(output, target)``, which gives one number per batch.

    >>> import tensorx as tx
    >>> m = tx.train.Mean(lambda output, target: tx.mean(tx.abs(output - target)))
    >>> m.reset()
    >>> m.update(tx.ones(4), tx.zeros(4))
    >>> m.compute()
    1.0
    """

    def __init__(self, function):
        self.function = function

    def update(self, output, target):
        n = target.shape[0] if isinstance(target, Tensor) and target.ndim else 1
        self.total += float(self.function(output, target)) * n
        self.count += n


class Accuracy(Metric):
    """The share of targets (class numbers) at which the output (scores along the last axis) is largest.

    >>> import tensorx as tx
    >>> m = tx.train.Accuracy()
    >>> m.reset()
    >>> m.update(tx.asarray([[1.0, 2.0], [3.0, 1.0]]), tx.asarray([1, 1]))
    >>> m.compute()
    0.5
    """

    def update(self, output, target):
        hits = argmax(output.detach(), axis=-1) == target
        self.total += int(sum(hits))
        self.count += target.size
