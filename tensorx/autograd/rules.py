"""Gradients of the ops that are no rows of the op table.

A rule is a pair of functions under the name that the op records itself with (``ops/_record.py``)::

    prepare(node, inputs, out, saved, wanted) -> dict    # what to keep: keep(x), keep_out(out), plain values
    backward(g, kept, wanted) -> dict                    # {position of a wanted input: its gradient}

``kept`` arrives with its values as tensors. Gradients are written with public ops, so that
derivatives of any order follow; they are cast to the dtype and summed to the shape of the input.
For an op with several results ``g`` is a list, with None where no gradient arrived.
"""

from __future__ import annotations

from tensorx import _core
from tensorx.autograd.tape import sum_to

RULES = _core.rules
keep = _core.save
keep_out = _core.save_out


def define(name, prepare, backward):
    """Gives an op its gradients; see the module's text."""
    RULES[name] = prepare, backward


def plain(node, inputs, out, saved, wanted):
    """prepare for linear ops: nothing is kept but what the op itself passed, tensors among it."""
    return {k: keep(v, k) if isinstance(v, _core.Tensor) else v for k, v in saved.items()}


def _tracked(*tensors):
    for t in tensors:
        if t is not None and t.requires_grad:
            return True
    return False


# ---- reductions -----------------------------------------------------------------------------


def _kept_shape(shape, axes):
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _spread(g, axes, shape):
    """A reduced gradient, repeated over the reduced axes (a view)."""
    if g.ndim:
        g = g.reshape(_kept_shape(shape, axes))
    return _core.broadcast_view(g, shape)


def _sum_prepare(node, inputs, out, saved, wanted):
    return {"axes": saved["axes"], "shape": inputs[0].shape}


def _sum(g, kept, wanted):
    return {0: _spread(g, kept["axes"], kept["shape"])}


define("sum", _sum_prepare, _sum)


def _input_and_out(node, inputs, out, saved, wanted):
    return {"x": keep(inputs[0], "its input"), "out": keep_out(out), **saved}


def _input(node, inputs, out, saved, wanted):
    return {"x": keep(inputs[0], "its input"), **saved}


def _out(node, inputs, out, saved, wanted):
    return {"out": keep_out(out), **saved}


def _extreme(g, kept, wanted):
    """Elements that equal the extreme share the gradient evenly; NaN equals NaN here."""
    import tensorx as tx

    x, axes = kept["x"], kept["axes"]
    best = _spread(kept["out"].detach(), axes, x.shape)
    hit = x.detach() == best
    nan = tx.isnan(best)
    hit = tx.logical_or(hit, tx.logical_and(nan, tx.isnan(x.detach())))
    count = _core.cast(tx.sum(hit, axis=axes, keepdims=True), g.dtype)
    share = g.reshape(count.shape) / count
    return {0: tx.where(hit, share, 0.0)}


define("max", _input_and_out, _extreme)
define("min", _input_and_out, _extreme)


def _sumsq(g, kept, wanted):
    x = kept["x"]
    return {0: _spread(g, kept["axes"], x.shape) * (2.0 * x)}


define("sumsq", _input, _sumsq)


def _norm2(g, kept, wanted):
    """x / |x|, and 0 at 0."""
    import tensorx as tx

    x, axes = kept["x"], kept["axes"]
    out = _core.cast(kept["out"], g.dtype)
    zero = out.detach() == 0
    factor = tx.where(zero, 0.0, g / tx.where(zero, 1.0, out))
    return {0: x * _spread(factor, axes, x.shape)}


define("norm2", _input_and_out, _norm2)


def _products_of_others(x):
    """Along the last axis: for each element the product of all others, by multiplications alone (a zero needs no
    division). Up a binary tree and down again: about two products per element."""
    import tensorx as tx

    n = x.shape[-1]
    width = 1 << max(n - 1, 0).bit_length()
    lead = x.shape[:-1]
    if width != n:
        x = tx.slice_assign(tx.ones((*lead, width), dtype=x.dtype, device=x.device), (..., slice(0, n)), x)
    levels = []
    while x.shape[-1] > 1:
        pairs = x.reshape((*lead, x.shape[-1] // 2, 2))
        levels.append(pairs)
        x = pairs[..., 0] * pairs[..., 1]
    others = tx.ones((*lead, 1), dtype=x.dtype, device=x.device)
    for pairs in reversed(levels):
        others = (others.reshape((*others.shape, 1)) * pairs[..., ::-1]).reshape((*lead, 2 * pairs.shape[-2]))
    return others if width == n else others[..., :n]


def _prod(g, kept, wanted):
    import tensorx as tx

    x, axes = kept["x"], kept["axes"]
    if x.size == 0 or not axes:
        return {0: _spread(g, axes, x.shape)}
    out = kept["out"]
    if not _tracked(g, x) and bool(tx.all(tx.logical_and(tx.isfinite(out), out != 0))):
        return {0: _spread(g * tx.conj(out) if x.dtype.kind == "c" else g * out, axes, x.shape) / (tx.conj(x) if x.dtype.kind == "c" else x)}
    order = (*(i for i in range(x.ndim) if i not in axes), *axes)
    moved = _core.permute_view(x, order)
    lead = moved.shape[: x.ndim - len(axes)]
    others = _products_of_others(moved.reshape((*lead, -1))).reshape(moved.shape)
    if x.dtype.kind == "c":
        others = tx.conj(others)
    back = _core.permute_view(others, tuple(order.index(i) for i in range(x.ndim)))
    return {0: _spread(g, axes, x.shape) * back}


define("prod", _input_and_out, _prod)


# ---- rows -----------------------------------------------------------------------------------------


def _softmax(g, kept, wanted):
    import tensorx as tx

    out, axis = kept["out"], kept["axis"]
    if out.ndim == 0:
        return {0: g * 0.0 * out}
    if not _tracked(g, out) and _row_kernel(g, out, axis):
        return {0: _core.row_op(_core.ROW_CODES["softmax_backward"], g, second=out)}
    return {0: out * (g - tx.sum(g * out, axis=axis, keepdims=True))}


def _log_softmax(g, kept, wanted):
    import tensorx as tx

    out, axis = kept["out"], kept["axis"]
    if out.ndim == 0:
        return {0: g * 0.0 * out}
    if not _tracked(g, out) and _row_kernel(g, out, axis):
        return {0: _core.row_op(_core.ROW_CODES["log_softmax_backward"], g, second=out)}
    return {0: g - tx.exp(out) * tx.sum(g, axis=axis, keepdims=True)}


def _row_kernel(g, out, axis):
    return axis == out.ndim - 1 and out.size > 0 and _core.is_c_contiguous(out) and g.dtype is out.dtype


define("softmax", _out, _softmax)
define("log_softmax", _out, _log_softmax)


def _logsumexp(g, kept, wanted):
    """softmax(x), and 0 for a row of -inf."""
    import tensorx as tx

    x, axes = kept["x"], kept["axes"]
    out = _core.cast(kept["out"], x.dtype)
    out = tx.where(out.detach() == -tx.inf, 0.0, out)
    return {0: _spread(g, axes, x.shape) * tx.exp(x - _spread(out, axes, x.shape))}


define("logsumexp", _input_and_out, _logsumexp)


def _norm_prepare(node, inputs, out, saved, wanted):
    x, weight = inputs[0], inputs[1]
    kept = {"n": saved["n"], "eps": saved["eps"], "rms": saved["mean"] is None}
    kept["parameters"] = tuple(None if p is None else p.shape for p in inputs[1:])
    if 0 in wanted or 1 in wanted:
        kept["x"] = keep(x, "its input")
        for name in ("mean", "rstd"):
            if saved[name] is not None:
                kept[name] = keep(saved[name], "the statistics")
    else:
        kept["shape"] = x.shape
    if weight is not None and 0 in wanted:
        kept["weight"] = keep(weight, "the weight")
    # for a linear layer that computes its input again: looked at only there
    kept["affine"] = tuple(None if p is None else keep(p, "a parameter of the norm") for p in (weight, inputs[2] if len(inputs) > 2 else None))
    return kept


def _normalised(g, kept, wanted):
    """layer_norm and rms_norm: in rows of n elements, x = (x - mean) * rstd."""
    import tensorx as tx

    n, rms = kept["n"], kept["rms"]
    grads = {}
    x = kept.get("x")
    shape = x.shape if x is not None else kept["shape"]
    rows = _count(shape) // n if n else 0
    flat = g.reshape((rows, n))
    weight = kept.get("weight")
    if x is not None and rows and not _tracked(g, x, weight) and x.dtype is g.dtype and x.dtype.name in ("float32", "float64"):
        w = weight if weight is None or weight.dtype is x.dtype else _core.cast(weight, x.dtype)
        w = None if w is None else w.contiguous().reshape((n,))
        found = _core.norm_backward(flat, x.reshape((rows, n)), w, kept.get("mean"), kept["rstd"], 0 in wanted, 1 in wanted, 2 in wanted)
        if found is not None:
            shapes = (shape, *kept["parameters"])
            return {k: found[k].reshape(shapes[k]) for k in wanted}
    if x is not None:
        rows_x = x.reshape((rows, n))
        if _tracked(x):
            centred = rows_x if rms else rows_x - tx.mean(rows_x, axis=1, keepdims=True)
            rstd = tx.rsqrt(tx.mean(centred * centred, axis=1, keepdims=True) + kept["eps"])
        else:
            rstd = kept["rstd"].reshape((rows, 1))
            centred = rows_x if rms else rows_x - kept["mean"].reshape((rows, 1))
        unit = centred * rstd
    if 0 in wanted:
        scaled = flat if weight is None else flat * _core.cast(weight, x.dtype).reshape((1, n))
        inner = scaled - unit * tx.mean(scaled * unit, axis=1, keepdims=True)
        if not rms:
            inner = inner - tx.mean(scaled, axis=1, keepdims=True)
        grads[0] = (inner * rstd).reshape(shape)
    if 1 in wanted:
        grads[1] = tx.sum(flat * unit, axis=0).reshape(kept["parameters"][0])
    if 2 in wanted:
        grads[2] = tx.sum(flat, axis=0).reshape(kept["parameters"][1])
    return grads


def _count(shape):
    n = 1
    for s in shape:
        n *= s
    return n


define("layer_norm", _norm_prepare, _normalised)
define("rms_norm", _norm_prepare, _normalised)


# ---- products -----------------------------------------------------------------------------------------


def _matmul_prepare(node, inputs, out, saved, wanted):
    x, y = inputs
    kept = {"x_shape": x.shape, "y_shape": y.shape}
    if 0 in wanted:
        kept["y"] = keep(y, "operand 2")
    if 1 in wanted:
        kept["x"] = keep(x, "operand 1")
        kept["turned"] = y.ndim == 2 and x.ndim > 1 and not _core.is_c_contiguous(y) and _core.is_c_contiguous(y.detach().mT)
    return kept


def _adjoint(m):
    if m.dtype.kind == "c":
        import tensorx as tx

        m = tx.conj(m)
    return m.mT


def _matmul(g, kept, wanted):
    import tensorx as tx

    xs, ys = kept["x_shape"], kept["y_shape"]
    # vectors as matrices: a row on the left, a column on the right
    row, column = len(xs) == 1, len(ys) == 1
    if row:
        xs = (1, *xs)
    if column:
        ys = (*ys, 1)
    if row or column:
        shape = list(g.shape)
        if column:
            shape.append(1)
        if row:
            shape.insert(len(shape) - 1, 1)
        g = g.reshape(tuple(shape))
    grads = {}
    if 0 in wanted:
        grads[0] = sum_to(tx.matmul(g, _adjoint(kept["y"].reshape(ys))), xs).reshape(kept["x_shape"])
    if 1 in wanted:
        x = kept["x"].reshape(xs)
        if kept["turned"]:
            # what y was turned from, the weight of a linear layer, gets its gradient in its own order
            x, rows = x.reshape((_count(xs[:-1]), xs[-1])), g.reshape((_count(g.shape[:-1]), g.shape[-1]))
            grads[1] = tx.matmul(rows.mT, tx.conj(x) if x.dtype.kind == "c" else x).mT
        elif len(ys) == 2 and len(xs) > 2:
            # one product over all rows instead of one per batch and a sum
            grads[1] = tx.matmul(_adjoint(x.reshape((-1, xs[-1]))) if x.size else _adjoint(x.reshape((_count(xs[:-1]), xs[-1]))),
                                 g.reshape((_count(g.shape[:-1]), g.shape[-1])))
        else:
            grads[1] = sum_to(tx.matmul(_adjoint(x), g), ys)
        grads[1] = grads[1].reshape(kept["y_shape"])
    return grads


define("matmul", _matmul_prepare, _matmul)


# ---- joining ---------------------------------------------------------------------------------------------


def _concat(g, kept, wanted):
    axis, grads, start = kept["axis"], {}, 0
    for k, n in enumerate(kept["sizes"]):
        if k in wanted:
            grads[k] = g[(slice(None),) * axis + (slice(start, start + n),)]
        start += n
    return grads


define("concat", plain, _concat)
