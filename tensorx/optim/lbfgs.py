"""L-BFGS: a quasi-Newton method with a short memory."""

from __future__ import annotations

import math
from functools import partial

from tensorx import _core
from tensorx.autograd.modes import enable_grad
from tensorx.ops.joining import concat
from tensorx.optim import causes
from tensorx.optim.optimizer import LastStep, Optimizer

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Steps along an approximate Newton direction from the last history_size changes of the gradient (Nocedal, 1980).

    ``step(closure)`` needs a closure that clears the gradients, computes the loss, calls backward() and returns the loss; it is
    called up to max_eval times (default: max_iter * 5 / 4). line_search_fn: None (steps of lr) or "strong_wolfe".
    One parameter group. It keeps about history_size + 3 copies of the parameters.

    >>> import tensorx as tx
    >>> w = tx.asarray([3.0, -2.0]).requires_grad_()
    >>> optimizer = tx.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 1.0) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> first = optimizer.step(closure)
    >>> [round(v, 5) for v in w.tolist()]
    [1.0, 1.0]
    """

    numbers = ("func_evals", "n_iter", "t", "prev_loss", "H_diag")
    shapeless = ("d", "old_dirs", "old_stps", "ro", "al", "prev_flat_grad")

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=None
    ):
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn is None or 'strong_wolfe', got {line_search_fn!r}")
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval, "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change, "history_size": history_size, "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS: takes one parameter group, got {len(self.param_groups)}")
        devices = {str(p.device) for p in self.param_groups[0]["params"]}
        if len(devices) != 1:
            raise ValueError(f"LBFGS: all parameters must be on one device, they are on {', '.join(sorted(devices))}")
        self._params = self.param_groups[0]["params"]

    # ---- parameters as one vector ----------------------------------------------------------

    def _gradient(self):
        grads = _core.gradients_of(self._params)
        missing = [p for p, g in zip(self._params, grads) if g is None]
        self.last_step = LastStep(len(grads) - len(missing), len(grads), tuple(self.name_of(p) for p in missing))
        if len(missing) == len(grads):
            raise causes.no_gradient(self)
        flat = [p.detach().reshape(-1) * 0 if g is None else g.detach().reshape(-1) for p, g in zip(self._params, grads)]
        return concat(flat) if len(flat) > 1 else flat[0].copy()

    def _move(self, t, d):
        at = 0
        for p in self._params:
            p.copy_(p + d[at : at + p.size].reshape(p.shape) * t)
            at += p.size

    def _evaluate(self, closure, start, d, t):
        """Loss and gradient at start + t * d; the parameters are back at start afterwards."""
        self._move(t, d)
        with enable_grad():
            loss = float(closure())
        g = self._gradient()
        for p, x in zip(self._params, start):
            p.copy_(x)
        return loss, g

    # ---- the step -------------------------------------------------------------------------------

    def step(self, closure):
        """Up to max_iter iterations; returns the loss of the first evaluation."""
        for hook in self._pre_hooks:
            hook(self, (closure,), {})
        token = _core._grad_mode.set(False)
        try:
            first = self._iterate(closure)
        finally:
            _core._grad_mode.reset(token)
        self._steps += 1
        for hook in self._post_hooks:
            hook(self, (closure,), {})
        return first

    def _iterate(self, closure):
        group = self.param_groups[0]
        lr, tolerance_grad, tolerance_change = group["lr"], group["tolerance_grad"], group["tolerance_change"]
        s = self.state[self._params[0]]
        s.setdefault("func_evals", 0)
        s.setdefault("n_iter", 0)
        with enable_grad():
            first = closure()
        loss = float(first)
        calls = 1
        s["func_evals"] += 1
        g = self._gradient()
        if float(abs(g).max()) <= tolerance_grad:
            return first
        d, t = s.get("d"), s.get("t")
        dirs, steps, ro = s.get("old_dirs", []), s.get("old_stps", []), s.get("ro", [])
        scale, before, loss_before = s.get("H_diag", 1.0), s.get("prev_flat_grad"), s.get("prev_loss")
        for n in range(1, group["max_iter"] + 1):
            s["n_iter"] += 1
            if s["n_iter"] == 1:
                d, dirs, steps, ro, scale = -g, [], [], [], 1.0
            else:
                y, x = g - before, d * t
                ys = float((y * x).sum())
                if ys > 1e-10:
                    if len(dirs) == group["history_size"]:
                        for kept in (dirs, steps, ro):
                            kept.pop(0)
                    dirs.append(y)
                    steps.append(x)
                    ro.append(1.0 / ys)
                    scale = ys / float((y * y).sum())
                d = _direction(g, dirs, steps, ro, scale)
            _core.evaluate(d)
            before, loss_before = g, loss
            t = min(1.0, 1.0 / float(abs(g).sum())) * lr if s["n_iter"] == 1 else lr
            slope = float((g * d).sum())
            if slope > -tolerance_change:
                break
            used = 0
            if group["line_search_fn"] is not None:
                start = [p.detach().copy() for p in self._params]
                _core.evaluate(*start)
                loss, g, t, used = _strong_wolfe(partial(self._evaluate, closure, start, d), t, float(abs(d).max()), loss, g, slope, d)
                self._move(t, d)
                optimal = float(abs(g).max()) <= tolerance_grad
            else:
                self._move(t, d)
                optimal = False
                if n != group["max_iter"]:
                    with enable_grad():
                        loss = float(closure())
                    g = self._gradient()
                    optimal = float(abs(g).max()) <= tolerance_grad
                    used = 1
            calls += used
            s["func_evals"] += used
            if n == group["max_iter"] or calls >= group["max_eval"] or optimal:
                break
            if float(abs(d * t).max()) <= tolerance_change or math.fabs(loss - loss_before) < tolerance_change:
                break
        s.update(d=d, t=t, old_dirs=dirs, old_stps=steps, ro=ro, H_diag=scale, prev_flat_grad=before, prev_loss=loss_before)
        return first


def _direction(g, dirs, steps, ro, scale):
    """The two-loop recursion: the approximate inverse Hessian times -g."""
    q = -g
    weights = []
    for y, x, r in zip(reversed(dirs), reversed(steps), reversed(ro)):
        a = float((x * q).sum()) * r
        q = q - y * a
        weights.append(a)
    q = q * scale
    for y, x, r, a in zip(dirs, steps, ro, reversed(weights)):
        q = q + x * (a - float((y * q).sum()) * r)
    return q


def _cubic(x1, f1, g1, x2, f2, g2, bounds=None):
    """Minimum of the cubic through two points with slopes, within bounds; the middle where there is none."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    if x1 <= x2:
        best = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        best = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(best, low), high)


def _strong_wolfe(evaluate, t, size, loss, g, slope, d, c1=1e-4, c2=0.9, least=1e-9, most=25):
    """A step that satisfies the strong Wolfe conditions: first a bracket is found, then it is narrowed.

    Returns (loss, gradient, t, evaluations). size: largest element of d.
    """
    start = 0.0, loss, g, slope
    new_loss, new = evaluate(t)
    calls, new_slope = 1, float((new * d).sum())
    last, n, done = start, 0, False
    bracket = None
    while n < most:
        point = t, new_loss, new, new_slope
        if new_loss > loss + c1 * t * slope or (n > 1 and new_loss >= last[1]):
            bracket = [last, point]
            break
        if abs(new_slope) <= -c2 * slope:
            bracket, done = [point], True
            break
        if new_slope >= 0:
            bracket = [last, point]
            break
        low, high = t + 0.01 * (t - last[0]), t * 10
        t, last = _cubic(last[0], last[1], last[3], t, new_loss, new_slope, (low, high)), point
        new_loss, new = evaluate(t)
        calls += 1
        n += 1
        new_slope = float((new * d).sum())
    if bracket is None:
        bracket = [start, (t, new_loss, new, new_slope)]
    slow = False
    low, high = (0, 0) if len(bracket) == 1 else (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and n < most:
        a, b = bracket[0], bracket[1]
        if abs(b[0] - a[0]) * size < least:
            break
        t = _cubic(a[0], a[1], a[3], b[0], b[1], b[3])
        left, right = min(a[0], b[0]), max(a[0], b[0])
        edge = 0.1 * (right - left)
        if min(right - t, t - left) < edge:
            # near an edge: twice in a row it is moved inwards, so that the bracket shrinks
            if slow or t >= right or t <= left:
                t = right - edge if abs(t - right) < abs(t - left) else left + edge
                slow = False
            else:
                slow = True
        else:
            slow = False
        new_loss, new = evaluate(t)
        calls += 1
        n += 1
        new_slope = float((new * d).sum())
        point = t, new_loss, new, new_slope
        if new_loss > loss + c1 * t * slope or new_loss >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(new_slope) <= -c2 * slope:
                done = True
            elif new_slope * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    t, loss, g, _ = bracket[low]
    return loss, g, t, calls
