"""Dropout: random elements, or whole channels, are set to zero in training.

No mask is kept for backward: the counter-based generator makes the same one again.
"""

from __future__ import annotations

import copy

from tensorx import _core, random
from tensorx.errors import ShapeError
from tensorx.nn import _random
from tensorx.nn.module import Module
from tensorx.ops._record import record

FUNCTIONS = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]
__all__ = [*FUNCTIONS, "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


def _mask(shape, p, x, generator):
    return random.dropout_mask(shape, p, dtype=x.dtype, device=x.device, generator=copy.copy(generator))


def _dropped(x, p, shape, generator):
    out = x.detach() * _mask(shape, p, x, generator)
    return record("dropout", (x,), out, p=p, shape=shape, generator=generator)


def _prepare(node, inputs, out, saved, wanted):
    return saved


_core.rules["dropout"] = (_prepare, lambda g, kept, wanted: {0: _dropped(g, kept["p"], kept["shape"], kept["generator"])})


def _probability(op, p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{op}: p must be between 0 and 1, got {p}")
    return float(p)


def _apply(op, x, p, training, inplace, shape):
    p = _probability(op, p)
    if not training or p == 0.0:
        return x
    out = _dropped(x, p, shape, _random.split())
    return x.copy_(out) if inplace else out


def dropout(input, p=0.5, training=True, inplace=False):
    """Sets elements to zero with probability p, and scales the others by 1 / (1 - p); the input itself outside of training.

    >>> import tensorx as tx
    >>> tx.nn.functional.dropout(tx.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    return _apply("dropout", input, p, training, inplace, input.shape)


def _channels(op, x, p, training, inplace, axes):
    """Whole channels; without a batch the first axis are the channels."""
    if x.ndim not in axes:
        raise ShapeError(f"{op}: an input of {' or '.join(map(str, axes))} axes is needed, got shape {x.shape}")
    lead = 2 if x.ndim == max(axes) else 1
    return _apply(op, x, p, training, inplace, x.shape[:lead] + (1,) * (x.ndim - lead))


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Sets whole channels of (N, C, L) or (C, L) to zero."""
    return _channels("dropout1d", input, p, training, inplace, (2, 3))


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Sets whole channels of (N, C, H, W) or (C, H, W) to zero."""
    return _channels("dropout2d", input, p, training, inplace, (3, 4))


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Sets whole channels of (N, C, D, H, W) or (C, D, H, W) to zero."""
    return _channels("dropout3d", input, p, training, inplace, (4, 5))


def _alpha(op, x, p, training, inplace, shape):
    p = _probability(op, p)
    if not training or p == 0.0:
        return x
    low = -1.7580993408473766  # what selu goes to
    keep = _core.cast(random.bernoulli(1.0 - p, shape, device=x.device, generator=_random.split()), x.dtype)
    if p == 1.0:
        out = x * 0.0
    else:
        a = 1.0 / ((1.0 - p) * (1.0 + p * low * low)) ** 0.5
        out = (x * keep + low * (1.0 - keep)) * a - low * p * a
    return x.copy_(out) if inplace else out


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of self-normalising networks (Klambauer and others 2017)."""
    return _alpha("alpha_dropout", input, p, training, inplace, input.shape)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels."""
    return _alpha("feature_alpha_dropout", input, p, training, inplace, input.shape[:2] + (1,) * (input.ndim - 2))


class _Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        self.p, self.inplace = _probability(self._get_name(), p), inplace

    def forward(self, input):
        return type(self)._function(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


def _module(name, function):
    body = {"_function": staticmethod(function), "__doc__": function.__doc__.split("\n\n    >>>")[0], "__module__": __name__, "__qualname__": name}
    return type(name, (_Dropout,), body)


Dropout = _module("Dropout", dropout)
Dropout1d = _module("Dropout1d", dropout1d)
Dropout2d = _module("Dropout2d", dropout2d)
Dropout3d = _module("Dropout3d", dropout3d)
AlphaDropout = _module("AlphaDropout", alpha_dropout)
FeatureAlphaDropout = _module("FeatureAlphaDropout", feature_alpha_dropout)
