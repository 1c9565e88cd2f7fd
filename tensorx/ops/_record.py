"""The seam between ops and autograd.

An op that is no elementwise row computes its result without history and hands it to
:func:`record`; an op that writes in place hands the write itself to :func:`inplace`. Both cost
one look at the inputs unless one of them requires grad and the grad mode is on.
"""

from __future__ import annotations

from tensorx import _core

_recorder = None
_inplace_recorder = None


def set_recorder(recorder, inplace_recorder):
    """Installs autograd's functions: ``recorder(name, inputs, out, saved)`` and
    ``inplace_recorder(name, x, others, run, saved)``; both return what the op returns."""
    global _recorder, _inplace_recorder
    _recorder, _inplace_recorder = recorder, inplace_recorder


wanted = _core.recording  # (inputs): whether history is to be recorded for an op on these tensors, numbers or None


def record(name, inputs, out, **saved):
    """out, with the history of op ``name`` on ``inputs`` where one of them requires grad.

    saved: whatever the gradient needs besides (indices, axes, shapes).
    """
    if _recorder is not None and wanted(inputs):
        return _recorder(name, inputs, out, saved)
    return out


def inplace(name, x, others, run, **saved):
    """Carries out ``run()``, the write of op ``name`` into x, recorded where needed; returns x."""
    if _inplace_recorder is not None and wanted((x, *others)):
        return _inplace_recorder(name, x, others, run, saved)
    run()
    return x
