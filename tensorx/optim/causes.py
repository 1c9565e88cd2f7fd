"""Why a step cannot do what was meant: the texts of errors and warnings, with the likely cause."""

from __future__ import annotations

import gc
import warnings

from tensorx import _core
from tensorx.autograd.tape import site_text
from tensorx.errors import GradientError


def not_a_leaf(who, shown, p):
    """A computed tensor is given as a parameter."""
    node = p.grad_fn
    made = f"it was computed by {node.name} at {site_text(node.site)}" if node is not None else "it is a view of a tensor with a history"
    fix = "give the optimizer the tensor it was computed from"
    if node is not None and node.name in ("to", "copy", "clone", "astype", "contiguous"):
        fix += f" (and move a whole module with module.to()), or make the result a parameter: nn.Parameter(x.{node.name}(...))"
    return f"{who}: parameter {shown} (shape {p.shape}) is not a leaf: {made}; its gradient goes on to what it was computed from, and a step would train a value that nobody reads again: {fix}"


def listed(names, most=6):
    """Names for a message, abbreviated."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def no_gradient(optimizer):
    """GradientError for a step without any gradient."""
    who = type(optimizer).__name__
    params = [p for g in optimizer.param_groups for p in g["params"]]
    text = f"{who}.step: none of the {len(params)} parameters has a gradient, so nothing would be trained"
    frozen = [p for p in params if not p.requires_grad]
    passes = _core.backward_passes()
    cleared = optimizer._cleared
    others = _trained_elsewhere(params)
    if len(frozen) == len(params):
        cause = f"all are frozen (requires_grad is False): call requires_grad_() on them or the module before the forward pass: {listed(map(optimizer.name_of, frozen))}"
    elif passes == optimizer._born:
        cause = "backward() was never called since the optimizer was made: call loss.backward() before step()"
    elif cleared is not None and cleared[0] == passes and cleared[1]:
        cause = "zero_grad() was called after backward() and dropped the gradients: the order is zero_grad(), backward(), step()"
    elif others is not None:
        cause = others
    elif cleared is not None and cleared[0] == passes:
        cause = "backward() was not called since zero_grad(): call loss.backward() before step()"
    else:
        some = f"; {len(frozen)} of them are frozen (requires_grad is False)" if frozen else ""
        cause = (
            f"the loss of the last backward() does not depend on them{some}: the forward pass used other tensors (a copy of the model, values made before a "
            "load or a move), or the path was cut by detach(), no_grad(), item() or numpy()"
        )
    return GradientError(f"{text}; the likely cause: {cause}")


def _trained_elsewhere(params):
    """Says which module has gradients for parameters of the same shapes, if there is one: a copy was trained."""
    from tensorx.nn.module import Module

    own = {id(p) for p in params}
    shapes = sorted(p.shape for p in params)
    best = None
    for module in [o for o in gc.get_objects() if issubclass(type(o), Module)]:
        try:
            found = dict(module.named_parameters())
        except Exception:  # a module that is being built, or whose author went other ways: it is only asked for a hint
            continue
        if any(id(p) in own for p in found.values()) or not any(p.grad is not None for p in found.values()):
            continue
        if sorted(p.shape for p in found.values()) == shapes and (best is None or len(found) > len(best[1])):
            best = module, found
    if best is None:
        return None
    module, found = best
    return (
        f"another {type(module).__name__} with parameters of the same shapes has gradients ({listed(found)}): the optimizer holds those of an "
        "earlier one. copy, deepcopy and fork make new parameters: build the optimizer from the module that is trained, after copying it; "
        "module.to() keeps them"
    )


def some_missing(optimizer, missing, total):
    """Text of the warning that some parameters have no gradient."""
    frozen = [p for p in missing if not p.requires_grad]
    loose = [p for p in missing if p.requires_grad]
    parts = []
    if frozen:
        parts.append(f"frozen (requires_grad is False): {listed(map(optimizer.name_of, frozen))}")
    if loose:
        parts.append(f"not reached by the last backward() (the loss does not depend on them): {listed(map(optimizer.name_of, loose))}")
    return (
        f"{type(optimizer).__name__}.step: {len(missing)} of {total} parameters have no gradient and stay as they are: {'; '.join(parts)}. "
        "This is said once; optimizer.last_step.missing lists them after every step"
    )


def warn_of_devices(optimizer):
    """Parameters on several devices are trained each on its own, which is seldom what was meant."""
    places: dict = {}
    for group in optimizer.param_groups:
        for p in group["params"]:
            places.setdefault(str(p.device), []).append(p)
    if len(places) > 1:
        text = "; ".join(f"{len(ps)} on {place} ({listed(map(optimizer.name_of, ps), 3)})" for place, ps in places.items())
        warnings.warn(
            f"{type(optimizer).__name__}: the parameters are not on one device: {text}. Each is trained where it is; to have them together move the "
            "module with module.to(device)",
            stacklevel=4,
        )
