"""Indexing."""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.ops._record import inplace, record


def _getitem(x, index):
    return record("getitem", (x,), _core.index_get(x, index), index=index)


def _setitem(x, index, value):
    if not isinstance(value, Tensor):
        pass
    inplace("setitem", x, (value,), lambda: _core.index_put(x, index, value), index=index)


_core.hooks.getitem = _getitem
_core.hooks.setitem = _setitem
