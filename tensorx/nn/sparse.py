"""Embeddings: rows of a table by number."""

from __future__ import annotations

import tensorx as tx
from tensorx import _core
from tensorx.errors import DTypeError, ShapeError
from tensorx.nn import init
from tensorx.nn.module import Module
from tensorx.nn.parameter import Parameter
from tensorx.ops._host import extremes, picked
from tensorx.ops._record import record

FUNCTIONS = ["embedding", "embedding_bag", "one_hot"]
__all__ = [*FUNCTIONS, "Embedding", "EmbeddingBag"]


def _prepare(node, inputs, out, saved, wanted):
    return {"index": _core.save(saved["index"], "the numbers"), "rows": inputs[0].shape[0], "padding": saved["padding"], "by_count": saved["by_count"]}


def _backward(g, kept, wanted):
    index, rows = kept["index"].reshape((-1,)), kept["rows"]
    flat = g.reshape((index.shape[0], g.shape[-1]))
    if kept["by_count"]:
        count = tx.zeros(rows, dtype=g.dtype, device=g.device).index_add_(0, index, tx.ones(index.shape[0], dtype=g.dtype, device=g.device))
        flat = flat / tx.take(count, index, axis=0).expand_dims(1)
    if kept["padding"] is not None:
        flat = tx.where((index == kept["padding"]).expand_dims(1), 0.0, flat)
    return {0: tx.index_add(tx.zeros((rows, g.shape[-1]), dtype=g.dtype, device=g.device), 0, index, flat)}


_core.rules["embedding"] = (_prepare, _backward)


def _numbers(op, input, weight):
    if not isinstance(input, _core.Tensor) or input.dtype.kind not in "iu":
        what = input.dtype.name if isinstance(input, _core.Tensor) else type(input).__name__
        raise DTypeError(f"{op}: the numbers of rows are integers, got {what}")
    if weight.ndim != 2:
        raise ShapeError(f"{op}: a table of shape (rows, columns) is needed, got {weight.shape}")
    return input if input.dtype is tx.int64 else input.astype(tx.int64)


def _row_number(op, padding_idx, rows):
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{op}: padding_idx={padding_idx} is out of range for {rows} rows")
    return padding_idx % rows


def _limit_norms(weight, index, max_norm, norm_type):
    """Rows that are looked up get a norm of at most max_norm, in place."""
    token = _core._grad_mode.set(False)
    try:
        used = tx.zeros(weight.shape[0], dtype=tx.bool, device=weight.device)
        used[index.reshape((-1,))] = True
        norms = tx.norm(weight.detach(), ord=float(norm_type), axis=1)
        scale = tx.where(tx.logical_and(used, norms > max_norm), max_norm / (norms + 1e-7), 1.0)
        weight.copy_(weight * scale.expand_dims(1))
    finally:
        _core._grad_mode.reset(token)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight (rows, columns) by the integers of input: shape (*input.shape, columns).

    The row padding_idx gets no gradient. max_norm shortens the rows that are used, in place. Gradients are dense.

    >>> import tensorx as tx
    >>> tx.nn.functional.embedding(tx.asarray([1, 0]), tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    return _embedding("embedding", input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)


def _embedding(op, input, weight, padding_idx, max_norm, norm_type, by_count):
    index = _numbers(op, input, weight)
    padding = _row_number(op, padding_idx, weight.shape[0])
    if max_norm is not None:
        _limit_norms(weight, index, float(max_norm), norm_type)
    out = tx.take(weight.detach(), index.reshape((index.size,)), axis=0).reshape((*index.shape, weight.shape[1]))
    return record("embedding", (weight,), out, index=index, padding=padding, by_count=bool(by_count))


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):  # fmt: skip
    """Sums, means or maxima of groups of rows: input (bags, n), or (n) with the offsets at which bags start."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError("embedding_bag: per_sample_weights need mode='sum'")
    index = _numbers("embedding_bag", input, weight)
    if index.ndim == 2:
        if offsets is not None:
            raise ShapeError("embedding_bag: offsets are for numbers in one axis")
        bags = [index.shape[1]] * index.shape[0]
    elif index.ndim == 1:
        if offsets is None:
            raise ShapeError("embedding_bag: numbers in one axis need offsets")
        starts = [int(v) for v in offsets.tolist()]
        if not include_last_offset:
            starts.append(index.shape[0])
        if any(b < a for a, b in zip(starts, starts[1:])) or (starts and (starts[0] != 0 or starts[-1] > index.shape[0])):
            raise ShapeError(f"embedding_bag: offsets {starts} must start at 0, not fall, and stay within {index.shape[0]} numbers")
        bags = [b - a for a, b in zip(starts, starts[1:])]
        index = index[: sum(bags)]
    else:
        raise ShapeError(f"embedding_bag: numbers of one or two axes are needed, got shape {input.shape}")
    flat = index.reshape((index.size,))
    padding = _row_number("embedding_bag", padding_idx, weight.shape[0])
    rows = _embedding("embedding_bag", flat, weight, padding, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape((-1, 1))
    owner = tx.asarray([k for k, n in enumerate(bags) for _ in range(n)], dtype=tx.int64, device=weight.device)
    shape = (len(bags), weight.shape[1])
    if mode == "max":
        pieces, at = [], 0
        for n in bags:
            part = rows[at : at + n]
            at += n
            if padding is not None and n:
                part = tx.where((flat[at - n : at] == padding).expand_dims(1), -tx.inf, part)
            best = tx.max(part, axis=0) if n else tx.zeros(shape[1], dtype=weight.dtype, device=weight.device)
            pieces.append(tx.where(best == -tx.inf, 0.0, best) if padding is not None else best)
        return tx.stack(pieces) if pieces else tx.zeros(shape, dtype=weight.dtype, device=weight.device)
    counted = tx.ones(flat.shape[0], dtype=rows.dtype, device=weight.device)
    if padding is not None:
        rows = tx.where((flat == padding).expand_dims(1), 0.0, rows)
        counted = tx.where(flat == padding, 0.0, counted)
    total = tx.index_add(tx.zeros(shape, dtype=rows.dtype, device=weight.device), 0, owner, rows)
    if mode == "sum":
        return total
    count = tx.index_add(tx.zeros(shape[0], dtype=rows.dtype, device=weight.device), 0, owner, counted)
    return total / tx.clamp_min(count, 1.0).expand_dims(1)


def one_hot(tensor, num_classes=-1):
    """int64 zeros with a one at the place of each number, along a new last axis.

    >>> import tensorx as tx
    >>> tx.nn.functional.one_hot(tx.asarray([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if tensor.dtype.kind not in "iu":
        raise DTypeError(f"one_hot: numbers of classes are integers, got {tensor.dtype.name}")
    if num_classes > 0 and tensor.device.type != "cpu":
        places = tx.arange(num_classes, device=tensor.device)
        return (picked("one_hot", tensor, places).expand_dims(-1) == places).astype(tx.int64)
    low, high = extremes(tensor) if tensor.size else (0, -1)
    if low < 0:
        raise IndexError(f"one_hot: class numbers must not be negative, got {low}")
    high += 1
    if num_classes == -1:
        num_classes = high
    if high > num_classes:
        raise IndexError(f"one_hot: class number {high - 1} is out of range for {num_classes} classes")
    places = tx.arange(num_classes, device=tensor.device)
    return (tensor.expand_dims(-1) == places.astype(tensor.dtype)).astype(tx.int64)


class _Table(Module):
    def _make(self, num_embeddings, embedding_dim, padding_idx, weight, device, dtype):
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row_number(self._get_name(), padding_idx, num_embeddings)
        if weight is None:
            self.weight = init.new_parameter((num_embeddings, embedding_dim), device, dtype)
            self.reset_parameters()
        else:
            if weight.shape != (num_embeddings, embedding_dim):
                raise self._error(f"a weight of shape {(num_embeddings, embedding_dim)} is needed, got {weight.shape}")
            self.weight = Parameter(weight)

    def reset_parameters(self):
        """Draws the starting values anew; the row padding_idx is zero."""
        draw = init._Draw("normal", 0.0, 1.0, None)
        padding = self.padding_idx

        def recipe(shape, dtype, number):
            out = draw(shape, dtype, number)
            if padding is not None:
                out[padding] = 0
            return out

        init._fill(self.weight, recipe)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, **kwargs):
        """A module with the given table, not trained where freeze."""
        if embeddings.ndim != 2:
            raise ShapeError(f"{cls.__name__}: a table of shape (rows, columns) is needed, got {embeddings.shape}")
        out = cls(*embeddings.shape, _weight=embeddings, **kwargs)
        out.weight.requires_grad = not freeze
        return out


class Embedding(_Table):
    """Rows of a trained table by number: weight (num_embeddings, embedding_dim).

    >>> import tensorx as tx
    >>> tx.nn.Embedding(10, 3)(tx.asarray([[1, 2], [3, 4]])).shape
    (2, 2, 3)
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
                 _weight=None, _freeze=False, device=None, dtype=None):  # fmt: skip
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        if _freeze:
            self.weight.requires_grad = False

    def forward(self, input):
        return _embedding("Embedding", input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}" + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")


class EmbeddingBag(_Table):
    """Sums, means or maxima of groups of rows of a trained table: weight (num_embeddings, embedding_dim)."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None,
                 include_last_offset=False, padding_idx=None, device=None, dtype=None):  # fmt: skip
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse = max_norm, norm_type, scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
                             per_sample_weights, self.include_last_offset, self.padding_idx)  # fmt: skip

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
