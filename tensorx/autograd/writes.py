"""Writes in place, recorded: history belongs to the storage.

A write through a handle gives the value a new node. Aliases share the Meta and see it at once;
views derive their node from the base's when they are used next; handles that nobody tracked learn
of it through the storage (``_core.history_of``).
"""

from __future__ import annotations

from tensorx import _core
from tensorx._core import Meta, Node, Output, Tensor
from tensorx.autograd.tape import match, saved_operands, sum_to
from tensorx.autograd.views import apply_chain
from tensorx.errors import InplaceError
from tensorx.ops import _record, table

_TABLE = table.TABLE
_MODE = _core._grad_mode


def is_leaf_value(x):
    """Whether x is a leaf that requires grad, or a view or alias of one."""
    if not x._rg:
        return False
    m = x._meta
    if m is None:
        return True
    return m.leaf if m.base is None else m.base.leaf


def _refuse_leaf(name, x):
    if x.requires_grad and is_leaf_value(x):
        what = "a view of a leaf" if x._meta is not None and x._meta.base is not None else "a leaf"
        raise InplaceError(
            f"{name}: {what} that requires grad (shape {x.shape}) cannot be written in place while gradients are recorded: its gradient would "
            "be lost; write it under tx.no_grad(), or compute a new value (x = x + 1)"
        )


class _unrecorded:
    __slots__ = ("token",)

    def __enter__(self):
        self.token = _MODE.set(False)

    def __exit__(self, *exc):
        _MODE.reset(self.token)


def record_inplace(op, x, others, run):
    """The core's hook for a write into x where x or an operand is tracked. op: a row number, or "copy_"."""
    if not isinstance(op, int):
        return _record_copy(op, x, others[0], run)
    row = _TABLE[op]
    _refuse_leaf(row.name + "_", x)
    args = [x, *others]
    wanted = tuple(k for k, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad and row.grads[k] is not None)
    if wanted:
        is_complex = any(isinstance(a, Tensor) and a.dtype.kind == "c" for a in args)
        for k in saved_operands(op, wanted, is_complex):
            a = args[k]
            # what the write changes is kept as it was; where nothing of the kind is needed, nothing is copied
            if isinstance(a, Tensor) and (a is x or _core.shares_storage(a, x)):
                args[k] = _kept(a)
    run()
    after = x.detach()
    _core.record_rows(op, tuple(args), after)
    target = _core.edge(after)
    del args, after
    rebase(x, target)
    return x


def _kept(a):
    """A copy of a's value with a's history."""
    copy = a.detach().copy()
    if a.requires_grad:
        _core.attach(copy, _core.edge(a))
    return copy


def _record_copy(name, x, source, run):
    _refuse_leaf(name, x)
    target = None
    if isinstance(source, Tensor) and source.requires_grad:
        target = Node(name, (_core.edge(source),), _copied_backward, (source.shape, source.dtype, source.device))
    run()
    rebase(x, target)
    return x


def _copied_backward(node, g):
    shape, dtype, device = node.saved
    g = match(sum_to(g, shape), shape, dtype)
    return (g if g.device is device else g.to(device),)


_VALUE_FORMS = {"setitem": "index_put", "slice_set": "slice_assign"}


def record_write(name, x, others, run, saved):
    """A write into x by an op with a rule: the rule of its value form gives the gradients."""
    _refuse_leaf(name, x)
    rule = _VALUE_FORMS.get(name, name.removesuffix("_"))
    with _unrecorded():
        node = _core.rule_node(name, rule, (x, *others), x, saved)
        run()
    rebase(x, node)
    return x


def _begin(x):
    """x had no history; from now on it, and every handle on its storage, has."""
    x._meta = None if x._meta is not None and x._meta.leaf else x._meta
    if x._meta is None and _core.sole_handle(x):
        x._meta = Meta()
        x._rg = True
    else:
        _core.history_of(x)
        _core.is_linked(x)


def set_target(m, target):
    """m's value was computed by target."""
    m.leaf = False
    m.index = 0
    if isinstance(target, Output):
        m.node, m.index = target.node, target.index
    else:
        m.node = target
    m.gen += 1
    if m.retain and m.node is not None:
        watch(m)


def watch(m):
    """The gradient of m's value is to be kept in m."""
    if m.node.keepers is None:
        m.node.keepers = {}
    m.node.keepers[m.index] = m


def rebase(x, target):
    """x's memory has a new value with that history (None: constants)."""
    if not _core.is_linked(x):
        if target is None:
            return
        _begin(x)
    m = x._meta
    base = m.base
    if base is None:
        if isinstance(target, Meta):
            target = Node("alias", (target,), _passed)
        set_target(m, target)
        return
    # through a view: outside of it the base keeps its history
    old = _core.meta_edge(base)
    if old is None and target is None:
        base.gen += 1
        return
    set_target(base, Node("write through a view", (old, target), _through_backward, m.chain))


def _passed(node, g):
    return (g,)


def _through_backward(node, g):
    """Outside the view the gradient goes to the old value, inside to the new one."""
    old, new = node.targets
    chain = node.saved
    inner = outer = None
    if new is not None:
        inner = apply_chain(g, chain).copy()
    if old is not None:
        import tensorx as tx

        if len(chain) == 1 and chain[0][0] == "getitem":
            outer = tx.slice_assign(g, chain[0][1], 0)
        elif g.requires_grad:
            mask = _core.full_like_scalar(g.shape, False, tx.bool, g.device.number)
            _core.write_value(apply_chain(mask, chain), True, "gradient")
            outer = tx.where(mask, 0, g)
        else:
            outer = _core.empty(g.shape, g.dtype, g.device.number)
            _core.write_value(outer, g, "gradient")
            _core.write_value(apply_chain(outer, chain), 0, "gradient")
    return outer, inner


_core.hooks.inplace = record_inplace
_record.set_recorder(_core.record_rule, record_write)
