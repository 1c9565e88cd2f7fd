"""How the core records: gradients of rows, casts, the shapes of gradients, the texts of errors.

The record itself (Meta, Node, saved values) and the walk backward are compiled; see
``_native/tape.pxi`` and ``_native/backward.pxi``. What is installed here is called by them.
"""

from __future__ import annotations

import re

from tensorx import _core
from tensorx._core import Node, Tensor
from tensorx.errors import GradientError, ShapeError
from tensorx.ops import codegen, table

_TABLE = table.TABLE


# ---- lines -----------------------------------------------------------------------------


def site_text(site):
    """``file:line`` of a call site as the core keeps it: (code, instruction)."""
    if site is None:
        return "an unknown line"
    code, lasti = site
    line = code.co_firstlineno
    for start, stop, number in code.co_lines():
        if start <= lasti < stop and number is not None:
            line = number
            break
    return f"{code.co_filename}:{line}"


# ---- shapes -----------------------------------------------------------------------------


def sum_to(g, shape):
    """The gradient of a broadcast operand: g summed over the repeated axes."""
    if g.shape == shape:
        return g
    import tensorx as tx

    extra = g.ndim - len(shape)
    if extra < 0:
        # a value with more axes, all of length one, was written into one with fewer
        return tx.reshape(sum_to(g, shape[-extra:]), shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, s in enumerate(shape) if s == 1 and g.shape[i + extra] != 1)
    if axes:
        g = tx.sum(g, axis=axes, keepdims=True, dtype=g.dtype)
    return tx.reshape(g, shape) if g.shape != shape else g


def match(g, shape, dtype):
    """g in the shape and dtype of an operand: summed over broadcast axes, repeated where it stands for all elements."""
    if g.shape != shape:
        if g.size == 1 and _count(shape) != 1:
            g = _core.broadcast_view(g.reshape(()), shape)
        else:
            g = sum_to(g, shape)
    if g.dtype is not dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            import tensorx as tx

            g = tx.real(g)
        if g.dtype is not dtype:
            g = _core.cast(g, dtype)
    return g


def _count(shape):
    n = 1
    for s in shape:
        n *= s
    return n


# ---- rows of the op table ------------------------------------------------------------------


def _prelude(row):
    """A prelude function on tensors that also takes Python numbers alone: they are computed as 0-d tensors."""
    number = table.INDEX[row]

    def function(*args):
        for a in args:
            if isinstance(a, Tensor):
                return _core.elementwise(number, *args)
        import tensorx as tx

        dtype = tx.complex128 if any(isinstance(a, complex) for a in args) else tx.float64
        return _core.elementwise(number, *(a if isinstance(a, bool) else tx.asarray(a, dtype=dtype, device="cpu") for a in args)).item()

    return function


_SPACE = codegen.prelude_namespace(_prelude)
_SPACE["MULG"] = _core.mulg_of
_plans = {}


def row_gradient(op, wanted, is_complex):
    """(name, positions of saved operands, whether the result is saved, function) of the gradient of a row."""
    key = op, wanted, is_complex
    if key not in _plans:
        row = _TABLE[op]
        names = codegen.saved(row, wanted, is_complex)
        source = codegen.backward_source(row, wanted, is_complex)
        if not is_complex:
            source = re.sub(r"\b(CONJ|REAL)\(", "(", source)
        space = dict(_SPACE)
        exec(compile(source, __file__, "exec"), space)
        _plans[key] = row.name, tuple(row.operands.index(n) for n in names if n != "out"), "out" in names, space["backward"]
    return _plans[key]


def saved_operands(op, wanted, is_complex):
    """Positions of the operands that the gradients of the wanted ones read."""
    return row_gradient(op, wanted, is_complex)[1]


# ---- casts, copies, transfers -----------------------------------------------------------------


def record_cast(x, out, name):
    """Casts, copies and transfers: the gradient goes back to x's shape, dtype and device."""
    if out.dtype.kind in "fc" and _core._grad_mode.get():
        _core.attach(out, Node(name, (_core.edge(x),), _cast_backward, (x.shape, x.dtype, x.device)))


def _cast_backward(node, g):
    shape, dtype, device = node.saved
    if g.shape != shape:
        g = g.reshape(shape)
    if g.dtype is not dtype:
        g = match(g, shape, dtype)
    if g.device is not device:
        g = g.to(device)
    return (g,)


# ---- hooks of tensors ---------------------------------------------------------------------------


def hooked(functions, g):
    """g after the functions of register_hook; each may replace it, none may write to it."""
    for f in tuple(functions):
        seen = g.alias()
        before = seen.version
        new = f(seen)
        if seen.version != before:
            raise GradientError(f"backward: the hook {_name(f)} wrote to its gradient in place, which other ops share; return a new tensor instead")
        if new is not None:
            if not isinstance(new, Tensor) or new.shape != g.shape:
                what = f"shape {new.shape}" if isinstance(new, Tensor) else type(new).__name__
                raise GradientError(f"backward: the hook {_name(f)} returned {what} instead of a gradient of shape {g.shape}")
            if not _core._grad_mode.get():
                new = new.detach()
            g = new.alias() if new.dtype is g.dtype else _core.cast(new, g.dtype)
    return g


def _name(f):
    return getattr(f, "__qualname__", None) or type(f).__name__


# ---- errors -----------------------------------------------------------------------------------------


def stale(node, what, version, now, serial):
    """A value was written after it was saved."""
    wrote = _core.last_write(serial)
    by = f"{wrote[0]} at {site_text(wrote[1])}" if wrote else "a write in place"
    return GradientError(
        f"backward: {node.name} (at {site_text(node.site)}) saved {what} for its gradient at version {version} of its storage, which is at "
        f"version {now} now: it was written by {by}. Write a new value instead (x = x + 1 for x.add_(1)), or copy() it before {node.name}"
    )


_MOVES = {"to": "moved", "copy": "copied", "clone": "copied", "astype": "converted", "contiguous": "copied"}


def freed(node):
    """A second backward through a graph that the first has freed."""
    where = f"{node.name} at {site_text(node.site)}"
    text = f"backward: {where} was passed by an earlier backward(), which freed the values that its gradient needs; "
    if node.name in _MOVES:
        text += (
            f"if several passes share the {_MOVES[node.name]} value, as when it is made once before a loop, either compute it anew in each step "
            f"(put the {node.name} into the loop) or call backward(retain_graph=True) on all passes but the last; to train the "
            f"{_MOVES[node.name]} value itself, make it a leaf: x.{node.name}(...).detach().requires_grad_()"
        )
    else:
        text += "call backward(retain_graph=True) on all passes but the last, or compute the shared value again for each"
    return GradientError(text)


def anomaly(node, grads):
    """detect_anomaly: complains of NaN where it first appears."""
    import tensorx as tx

    for k, g in enumerate(grads):
        if g is not None and g.dtype.kind in "fc" and bool(tx.any(tx.isnan(g.detach()))):
            raise GradientError(
                f"backward: {node.name} (called at {site_text(node.site)}) gave NaN as the gradient of its input {k + 1}, shape {g.shape}"
            )


def check_gradient(op, g, like):
    """A gradient given for a tensor: of its shape, on its device, in its dtype."""
    if not isinstance(g, Tensor):
        raise GradientError(f"{op}: a gradient must be a tensor, got {type(g).__name__}")
    if g.shape != like.shape:
        raise ShapeError(f"{op}: a gradient of shape {g.shape} for a tensor of shape {like.shape}")
    if g.device is not like.device:
        from tensorx.errors import DeviceMismatchError

        raise DeviceMismatchError(f"{op}: a gradient on {g.device} for a tensor on {like.device}; move it with .to({str(like.device)!r})")
    return g.alias() if g.dtype is like.dtype else _core.cast(g, like.dtype)


_core.hooks.plan = row_gradient
_core.hooks.match = match
_core.hooks.cast = record_cast
_core.hooks.hooked = hooked
_core.hooks.stale = stale
_core.hooks.freed = freed
_core.hooks.anomaly = anomaly
