"""Moving modules between devices and dtypes: handles stay, what they stand for moves.

Parameters keep their identity, so optimizers, ties and user references stay valid. Graphs, views and
exports made before keep the old storage.
"""

from __future__ import annotations

import copy
import weakref

from tensorx import _core, dtypes
from tensorx.device import device as _device
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError
from tensorx.nn.parameter import Parameter

# Objects with ``parameters_moved(parameters)``: optimizers, whose state follows.
followers: weakref.WeakSet = weakref.WeakSet()


def is_dtype(a):
    """Whether an argument of ``to`` names a dtype."""
    return isinstance(a, dtypes.DType) or (isinstance(a, str) and a.partition(":")[0] not in ("cpu", "metal") and hasattr(dtypes, a))


def _wanted(t, device, dtype):
    """Device and dtype that a tensor gets: only floating-point values change their dtype."""
    return t.device if device is None else device, dtype if dtype is not None and t.dtype.kind == "f" else t.dtype


def move(module, device, dtype, values=True):
    """See Module.to."""
    device = None if device is None else _device(device)
    if dtype is not None:
        dtype = dtype_from(dtype)
        if dtype.kind != "f":
            raise DTypeError(f"{type(module).__name__}.to: a module is converted to floating-point dtypes only, not {dtype.name}")
    parameters = list(module.parameters())
    handles = {id(t): t for t in (*parameters, *module.buffers())}
    groups: dict = {}
    moved = {}
    token = _core._grad_mode.set(False)
    try:
        # everything is made before anything changes
        for t in handles.values():
            target, wanted = _wanted(t, device, dtype)
            if target is t.device and wanted is t.dtype:
                continue
            if not values:
                moved[id(t)] = t, _core.empty(t.shape, wanted, target.number)
                continue
            recipe = _core.lazy_recipe(t)
            if recipe is not None:
                moved[id(t)] = t, _core.lazy(t.shape, wanted, target.number, recipe)
            else:
                groups.setdefault(_core.storage_key(t), []).append((t, target, wanted))
        for group in groups.values():
            for t, new in _moved_together(group):
                moved[id(t)] = t, new
        grads = []
        for t, new in moved.values():
            if t.grad is not None:
                grads.append((t, t.grad.detach().to(new.device, new.dtype)))
        _core.evaluate(*(new for _, new in moved.values() if _core.lazy_recipe(new) is None), *(g for _, g in grads))
        for t, _ in grads:
            t.grad = None
        for t, new in moved.values():
            _core.retarget(t, new)
        for t, g in grads:
            t.grad = g
    finally:
        _core._grad_mode.reset(token)
    changed = [p for p in parameters if id(p) in moved]
    for follower in tuple(followers):
        follower.parameters_moved(changed)


def _moved_together(group):
    """(handle, new value) of handles on one storage: on one storage again."""
    t, target, wanted = group[0]
    if len(group) == 1:
        return [(t, t.detach().to(target, wanted))]
    spans = [_span(h) for h, _, _ in group]
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    whole = _core.strided_view(t.detach(), (high - low,), (1,), low - _core.offset_of(t)).to(target, wanted)
    out = []
    for h, _, _ in group:
        at = _core.offset_of(h) - low
        out.append((h, _core.strided_view(whole, h.shape, h.strides, at)))
    return out


def _span(t):
    """First and last element, plus one, that a handle reaches in its storage."""
    low = high = _core.offset_of(t)
    if t.size == 0:
        return low, low
    for n, s in zip(t.shape, t.strides):
        if s < 0:
            low += (n - 1) * s
        else:
            high += (n - 1) * s
    return low, high + 1


def fork(module, device):
    """See Module.fork."""
    device = None if device is None else _device(device)
    memo: dict = {}
    token = _core._grad_mode.set(False)
    try:
        for t in (*module.parameters(), *module.buffers()):
            target = t.device if device is None else device
            recipe = _core.lazy_recipe(t)
            new = _core.lazy(t.shape, t.dtype, target.number, recipe) if recipe is not None else t.detach().to(target)
            if t._is_parameter:
                new = Parameter(new, t.requires_grad)
            elif t.requires_grad:
                new.requires_grad = True
            memo[id(t)] = new
    finally:
        _core._grad_mode.reset(token)
    return copy.deepcopy(module, memo)
