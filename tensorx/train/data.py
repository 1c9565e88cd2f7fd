"""Data in batches: data sets, and a loader that shuffles and prepares the next batches in a thread."""

from __future__ import annotations

import os
import queue
import sys
import threading
import types

from tensorx import _core
from tensorx._core import Tensor
from tensorx.ops.creation import asarray
from tensorx.ops.indexing import take
from tensorx.ops.joining import stack
from tensorx.random import Generator, default_generator, permutation

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

__all__ = ["DataLoader", "Subset", "TensorDataset", "random_split"]


class TensorDataset:
    """Tensors of equal length along the first axis; item i is the tuple of their i-th entries.

    NumPy arrays are taken over as tensors. A loader takes whole batches out of it at once.

    >>> import tensorx as tx
    >>> data = tx.train.TensorDataset(tx.arange(3), tx.ones((3, 2)))
    >>> len(data), data[1][0].item()
    (3, 1)
    """

    def __init__(self, *tensors):
        if not tensors:
            raise ValueError("TensorDataset: needs at least one tensor")
        self.tensors = tuple(t if isinstance(t, Tensor) else asarray(t) for t in tensors)
        sizes = [t.shape[0] if t.ndim else None for t in self.tensors]
        if None in sizes or len(set(sizes)) != 1:
            raise ValueError(f"TensorDataset: the tensors must have one length along the first axis, got shapes {[t.shape for t in self.tensors]}")

    def __len__(self):
        return self.tensors[0].shape[0]

    def __getitem__(self, i):
        return tuple(t[i] for t in self.tensors)

    def batch(self, rows):
        """The entries of an index tensor, as one tuple of tensors."""
        return tuple(take(t, rows if t.device.type == "cpu" else rows.to(t.device), axis=0) for t in self.tensors)


class Subset:
    """The entries of a data set with the given indices."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices if isinstance(indices, Tensor) else asarray(list(indices))

    def __len__(self):
        return self.indices.shape[0]

    def __getitem__(self, i):
        return self.dataset[int(self.indices[i])]

    def batch(self, rows):
        """See TensorDataset.batch."""
        chosen = take(self.indices, rows, axis=0)
        return self.dataset.batch(chosen) if hasattr(self.dataset, "batch") else _collated([self.dataset[i] for i in chosen.tolist()])


def random_split(dataset, lengths, seed=0):
    """Disjoint random parts of a data set, as Subsets; lengths are numbers of entries, or fractions that add up to 1.

    The split is that of the seed, the same in every run whatever ``tx.manual_seed`` says: no entry changes sides unnoticed.

    >>> import tensorx as tx
    >>> a, b = tx.train.random_split(tx.train.TensorDataset(tx.arange(10)), [0.8, 0.2])
    >>> len(a), len(b)
    (8, 2)
    """
    n = len(dataset)
    if all(isinstance(x, float) for x in lengths):
        if abs(sum(lengths) - 1) > 1e-6:
            raise ValueError(f"random_split: fractions must add up to 1, got {lengths}")
        lengths = [int(n * x) for x in lengths]
        lengths[0] += n - sum(lengths)
    if sum(lengths) != n:
        raise ValueError(f"random_split: the lengths {lengths} do not add up to {n}")
    order = permutation(n, generator=Generator(seed))
    parts, at = [], 0
    for length in lengths:
        parts.append(Subset(dataset, order[at : at + length].copy()))
        at += length
    return parts


def _collated(items):
    """One batch of single items: tensors and numbers are stacked, tuples and dictionaries taken apart."""
    first = items[0]
    if isinstance(first, (tuple, list)):
        return tuple(_collated([item[k] for item in items]) for k in range(len(first)))
    if isinstance(first, dict):
        return {key: _collated([item[key] for item in items]) for key in first}
    if isinstance(first, Tensor):
        return stack(items)
    if isinstance(first, str):
        return items
    return stack([asarray(item) for item in items])


def _on_behalf(work):
    """work, called by a function that stands at the line that asks for batches: reports of memory and tracebacks name this line and not
    one of threading.py."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back

    def DataLoader():
        work()

    code = DataLoader.__code__.replace(co_filename=frame.f_code.co_filename, co_firstlineno=max(frame.f_lineno - 1, 1))
    return types.FunctionType(code, DataLoader.__globals__, code.co_name, None, DataLoader.__closure__)


def _tensors_in(batch):
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from _tensors_in(value)
    elif isinstance(batch, (tuple, list)):
        for value in batch:
            yield from _tensors_in(value)


def to_device(batch, device):
    """A batch with its tensors on a device."""
    if isinstance(batch, Tensor):
        return batch.to(device) if str(batch.device) != str(device) else batch
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return tuple(to_device(value, device) for value in batch)
    return batch


class DataLoader:
    """Batches of a data set, in a new random order in every pass with shuffle=True.

    dataset: has ``len()`` and items by number; if it has ``batch(index_tensor)``, whole batches are asked for.
    batches: a pass ends after so many, whatever is left of the data.
    collate: makes a batch of a list of items; by default tensors and numbers are stacked.
    prefetch: so many batches are prepared ahead in a thread; 0 prepares them when they are asked for. Leaving a loop early, by
    break, an exception or Ctrl-C, ends the thread.
    seed: of the order; without it one is drawn from the default generator, so that ``tx.manual_seed`` fixes the order too.
    The order of pass number ``epoch`` depends on seed and epoch alone, so ``state_dict()`` is three numbers, and a run that is
    resumed in the middle of a pass sees the batches that it would have seen.

    >>> import tensorx as tx
    >>> loader = tx.train.DataLoader(tx.train.TensorDataset(tx.arange(5)), batch_size=2)
    >>> [batch[0].tolist() for batch in loader], len(loader)
    ([[0, 1], [2, 3], [4]], 3)
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, *, drop_last=False, batches=None, seed=None, prefetch=2, collate=None, device=None):
        if batch_size < 1 or batch_size != int(batch_size):
            raise ValueError(f"DataLoader: batch_size must be a positive integer, got {batch_size}")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, int(batch_size), shuffle, drop_last
        self.prefetch, self.collate, self.device = int(prefetch), collate, device
        self.batches = batches
        if seed is None and shuffle:
            seed = default_generator.split(1)[0].seed
        self.seed = Generator(seed).seed
        self.epoch = 0  # passes begun so far
        self._start = 0  # batches of the next pass that were seen before a resume
        self._at = 0

    def __len__(self):
        n = len(self.dataset)
        count = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return count if self.batches is None else min(count, self.batches)

    def state_dict(self):
        """Where the loader stands: seed, number of the pass, batches of it that were given out."""
        return {"seed": self.seed, "epoch": self.epoch, "batch": self._at}

    def load_state_dict(self, state):
        """The next pass goes on where state_dict() was taken."""
        self.seed, self.epoch = state["seed"], state["epoch"]
        self._start = self._at = state["batch"]
        if self._start:
            self.epoch -= 1  # in the middle of that pass

    def _order(self, epoch):
        n = len(self.dataset)
        if not self.shuffle:
            return None
        return permutation(n, generator=Generator((self.seed + 0x9E3779B97F4A7C15 * (epoch + 1)) & (1 << 64) - 1))

    def _make(self, order, k):
        low, high = k * self.batch_size, min((k + 1) * self.batch_size, len(self.dataset))
        if hasattr(self.dataset, "batch") and self.collate is None:
            rows = order[low:high] if order is not None else asarray(range(low, high))
            batch = self.dataset.batch(rows)
        else:
            rows = order[low:high].tolist() if order is not None else range(low, high)
            batch = (self.collate or _collated)([self.dataset[i] for i in rows])
        if self.device is not None:
            batch = to_device(batch, self.device)
        _core.evaluate(*_tensors_in(batch))
        return batch

    def __iter__(self):
        order = self._order(self.epoch)
        first, self._start, self._at = self._start, 0, self._start
        self.epoch += 1
        if self.prefetch <= 0:
            return self._plain(order, first)
        return self._ahead(order, first)

    def _given(self, k):
        self._at = k + 1 if k + 1 < len(self) else 0

    def _plain(self, order, first):
        for k in range(first, len(self)):
            batch = self._make(order, k)
            self._given(k)
            yield batch

    def _ahead(self, order, first):
        ready: queue.Queue = queue.Queue(self.prefetch)
        stop = threading.Event()

        def put(item):
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.1)
                    return
                except queue.Full:
                    continue

        def work():
            try:
                for k in range(first, len(self)):
                    if stop.is_set():
                        return
                    put((k, self._make(order, k), None))
                put((None, None, None))
            except BaseException as error:  # whatever it is, it belongs to the loop that waits for the batch
                put((None, None, error))

        thread = threading.Thread(target=_on_behalf(work), name="tensorx DataLoader", daemon=True)
        try:
            thread.start()  # waits for the thread to begin: Ctrl-C may come here
            while True:
                try:
                    k, batch, error = ready.get(timeout=0.5)  # with a time-out, so that Ctrl-C arrives on every system
                except queue.Empty:
                    continue
                if error is not None:
                    raise error
                if k is None:
                    return
                self._given(k)
                yield batch
                batch = None
        finally:
            stop.set()
            if thread.is_alive():
                thread.join(timeout=0.5)  # not longer: Ctrl-C is not to wait for a slow item; the thread ends after it
