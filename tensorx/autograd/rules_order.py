"""Gradients of running sums and products: see rules.py for what a rule is."""

from __future__ import annotations

from tensorx.autograd.rules import define, keep, plain


def _reverse(x, axis):
    return x[(slice(None),) * axis + (slice(None, None, -1),)]


def _shifted(x, axis, first):
    """x moved on by one along an axis, with a constant in front."""
    import tensorx as tx

    lead = (slice(None),) * axis
    front = tx.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, dtype=x.dtype, device=x.device)
    return tx.concat([front, x[lead + (slice(None, -1),)]], axis=axis)


def _conj(x):
    import tensorx as tx

    return tx.conj(x) if x.dtype.kind == "c" else x


def _without_initial(g, kept):
    return g[(slice(None),) * kept["axis"] + (slice(1, None),)] if kept["initial"] else g


def _sum(g, kept, wanted):
    import tensorx as tx

    axis, g = kept["axis"], _without_initial(g, kept)
    return {0: _reverse(tx.cumulative_sum(_reverse(g, axis), axis=axis), axis)}


define("cumulative_sum", plain, _sum)


def _keep_input(node, inputs, out, saved, wanted):
    return {"x": keep(inputs[0], "its input"), **saved}


def _prod(g, kept, wanted):
    """What arrives at x[k] is the product of all before it times s[k] = g[k] + x[k + 1] * s[k + 1]: no division, so
    that zeros need no care."""
    import tensorx as tx
    from tensorx.ops.sorting import linear_recurrence

    axis, x, g = kept["axis"], kept["x"], _without_initial(g, kept)
    if x.size == 0:
        return {0: g}
    before = _shifted(tx.cumulative_prod(x, axis=axis), axis, 1)
    s = linear_recurrence(_shifted(_reverse(_conj(x), axis), axis, 0), _reverse(g, axis), axis)
    return {0: _conj(before) * _reverse(s, axis)}


define("cumulative_prod", _keep_input, _prod)


def _linear_prepare(node, inputs, out, saved, wanted):
    from tensorx.autograd.rules import keep_out

    return {"a": keep(inputs[0], "operand 1"), "out": keep_out(out), **saved}


def _linear(g, kept, wanted):
    """The adjoint runs backwards: s[i] = g[i] + a[i + 1] * s[i + 1]."""
    from tensorx.ops.sorting import linear_recurrence

    axis, a, out = kept["axis"], kept["a"], kept["out"]
    s = _reverse(linear_recurrence(_shifted(_reverse(_conj(a), axis), axis, 0), _reverse(g, axis), axis), axis)
    return {0: s * _conj(_shifted(out, axis, 0)), 1: s}


define("linear_recurrence", _linear_prepare, _linear)
