"""Gradients of reading and writing by index: see rules.py for what a rule is."""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Tensor
from tensorx.autograd.rules import define, keep
from tensorx.autograd.tape import sum_to

# ---- indices are kept as they were at the call --------------------------------------------


def _freeze(index, kept):
    """An index whose tensors are kept as values and whose arrays and lists are copied."""
    if isinstance(index, tuple):
        return tuple(_freeze(i, kept) for i in index)
    if isinstance(index, Tensor):
        name = f"index {len(kept)}"
        kept[name] = keep(index, "an index")
        return _Place(name)
    if isinstance(index, list):
        return list(index)
    return index.copy() if hasattr(index, "__array__") and hasattr(index, "copy") else index


class _Place:
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name


def _thaw(index, kept):
    """The index, as a tuple with an entry per axis."""
    items = index if isinstance(index, tuple) else (index,)
    return tuple(kept[i.name] if isinstance(i, _Place) else i for i in items)


def _shape(value):
    return value.shape if isinstance(value, Tensor) else None


def _there(index, inputs):
    """An index on its tensor's device; one that was a list or an array lies in the host's memory."""
    device = inputs[0].device
    return index if index.device is device else index.to(device)


def _prepare(node, inputs, out, saved, wanted):
    kept = {"shape": inputs[0].shape, "source": _shape(inputs[1]) if len(inputs) > 1 else None}
    for name, value in saved.items():
        kept[name] = _freeze(value, kept)
    return kept


def _zeros(g, shape):
    return _core.full_like_scalar(shape, 0, g.dtype, g.device.number)


def _is_basic(index):
    for i in index:
        if isinstance(i, (list, bool)) or (hasattr(i, "ndim") and (i.ndim or str(i.dtype) == "bool")):
            return False
    return True


def _is_mask(index):
    return all(i is None or i is Ellipsis or isinstance(i, (slice, bool)) or str(getattr(i, "dtype", "")) == "bool" for i in index)


# ---- of several writes to one place only the last counts ---------------------------------------


def _last(shape, like, write, read):
    """Where the last write to each place came from: true for the elements that are still there."""
    import tensorx as tx

    places = tx.full(shape, -1, dtype=tx.int64, device=like.device)
    count = 1
    part = read(places)
    for n in part.shape:
        count *= n
    order = tx.reshape(tx.arange(count, dtype=tx.int64, device=like.device), part.shape)
    write(places, order)
    return read(places) == order


def _only(mask, g):
    import tensorx as tx

    return tx.where(mask, g, 0)


# ---- reading ----------------------------------------------------------------------------------------


def _getitem(g, kept, wanted):
    from tensorx.ops.assigning import put_back

    index = _thaw(kept["index"], kept)
    return {0: put_back(_zeros(g, kept["shape"]), index, g, not _is_mask(index))}


define("getitem", _prepare, _getitem)


def _take(g, kept, wanted):
    import tensorx as tx

    indices, axis, shape = kept["indices"], kept["axis"], kept["shape"]
    lead, tail = shape[:axis], shape[axis + 1 :]
    return {0: tx.index_add(_zeros(g, shape), axis, indices.reshape((indices.size,)), g.reshape((*lead, indices.size, *tail)))}


def _take_prepare(node, inputs, out, saved, wanted):
    return {"shape": inputs[0].shape, "axis": saved["axis"], "indices": keep(_there(saved["indices"], inputs), "the indices")}


define("take", _take_prepare, _take)


def _along_prepare(node, inputs, out, saved, wanted):
    kept = {"shape": inputs[0].shape, "axis": saved["axis"], "index": keep(_there(saved["index"], inputs), "the index")}
    if len(inputs) > 1:
        kept["source"] = _shape(inputs[1])
    return kept


def _gather(g, kept, wanted):
    import tensorx as tx

    return {0: tx.scatter_add(_zeros(g, kept["shape"]), kept["axis"], kept["index"], g)}


define("gather", _along_prepare, _gather)


def _mask_prepare(node, inputs, out, saved, wanted):
    kept = {"shape": inputs[0].shape, "mask": keep(_there(saved["mask"], inputs), "the mask")}
    if len(inputs) > 1:
        kept["source"] = _shape(inputs[1])
    return kept


def _masked_select(g, kept, wanted):
    import tensorx as tx

    return {0: tx.masked_scatter(_zeros(g, kept["shape"]), kept["mask"], g)}


define("masked_select", _mask_prepare, _masked_select)


def _roll(g, kept, wanted):
    import tensorx as tx

    shift = kept["shift"]
    return {0: tx.roll(g, tuple(-s for s in shift), axis=tuple(range(len(shift)))) if shift else g}


define("roll", _prepare, _roll)


# ---- writing ---------------------------------------------------------------------------------------------


def _index_put(g, kept, wanted):
    import tensorx as tx

    index, accumulate = _thaw(kept["index"], kept), kept.get("accumulate", False)
    grads = {}
    if 0 in wanted:
        grads[0] = g if accumulate else tx.slice_assign(g, index, 0)
    if 1 in wanted:
        part = g[index]
        if not accumulate and not _is_basic(index) and not _is_mask(index):
            part = _only(_last(kept["shape"], g, lambda p, o: _core.index_put(p, index, o), lambda p: p[index]), part)
        grads[1] = sum_to(part, kept["source"])
    return grads


define("index_put", _prepare, _index_put)
define("slice_assign", _prepare, _index_put)


def _line(g, kept):
    """The slices of g that an index_* op wrote; with the elements that were written over set to 0."""
    import tensorx as tx

    axis, index = kept["axis"], kept["index"]
    part = tx.take(g, index, axis=axis)
    mask = _last((kept["shape"][axis],), g, lambda p, o: _core.put_axis(p, index, 0, o, False, "gradient"), lambda p: tx.take(p, index, axis=0))
    return _only(mask.reshape((*(1,) * axis, index.size, *(1,) * (g.ndim - axis - 1))), part)


def _index_add(g, kept, wanted):
    import tensorx as tx

    grads = {0: g} if 0 in wanted else {}
    if 1 in wanted:
        grads[1] = sum_to(tx.take(g, kept["index"], axis=kept["axis"]), kept["source"])
    return grads


def _index_copy(g, kept, wanted):
    import tensorx as tx

    grads = {0: tx.index_fill(g, kept["axis"], kept["index"], 0.0)} if 0 in wanted else {}
    if 1 in wanted:
        grads[1] = sum_to(_line(g, kept), kept["source"])
    return grads


define("index_add", _along_prepare, _index_add)
define("index_copy", _along_prepare, _index_copy)
define("index_fill", _along_prepare, _index_copy)


def _to_source(part, kept):
    """The gradient of a source of which a corner, as large as the index, was read (or of one number)."""
    import tensorx as tx

    shape = kept["source"]
    if len(shape) != part.ndim or any(n < m and n != 1 for n, m in zip(shape, part.shape)):
        return sum_to(part, shape)
    if any(n == 1 and m > 1 for n, m in zip(shape, part.shape)):
        return sum_to(part, shape)
    return part if shape == part.shape else tx.slice_assign(_zeros(part, shape), tuple(slice(n) for n in part.shape), part)


def _scatter(g, kept, wanted):
    import tensorx as tx

    axis, index = kept["axis"], kept["index"]
    grads = {0: tx.scatter(g, axis, index, 0.0)} if 0 in wanted else {}
    if 1 in wanted:
        mask = _last(kept["shape"], g, lambda p, o: _core.scatter_along(p, index, axis, o, False, "gradient"), lambda p: tx.gather(p, axis, index))
        grads[1] = _to_source(_only(mask, tx.gather(g, axis, index)), kept)
    return grads


def _scatter_add(g, kept, wanted):
    import tensorx as tx

    grads = {0: g} if 0 in wanted else {}
    if 1 in wanted:
        grads[1] = _to_source(tx.gather(g, kept["axis"], kept["index"]), kept)
    return grads


define("scatter", _along_prepare, _scatter)
define("scatter_add", _along_prepare, _scatter_add)


def _masked_fill(g, kept, wanted):
    import tensorx as tx

    grads = {0: tx.where(kept["mask"], 0, g)} if 0 in wanted else {}
    if 1 in wanted:
        grads[1] = sum_to(tx.where(kept["mask"], g, 0), kept["source"])
    return grads


define("masked_fill", _mask_prepare, _masked_fill)


def _masked_scatter(g, kept, wanted):
    import tensorx as tx

    grads = {0: tx.where(kept["mask"], 0, g)} if 0 in wanted else {}
    if 1 in wanted:
        part = tx.masked_select(g, kept["mask"])
        size = 1
        for n in kept["source"]:
            size *= n
        if part.size != size:
            part = tx.slice_assign(_zeros(g, (size,)), slice(part.size), part)
        grads[1] = part.reshape(kept["source"])
    return grads


define("masked_scatter", _mask_prepare, _masked_scatter)
