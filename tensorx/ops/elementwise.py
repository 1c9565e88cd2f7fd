"""Binds the rows of the op table to functions of the namespace and methods of Tensor.

Nothing here names an op twice: the functions, their signatures, docstrings, methods and
in-place forms follow from :mod:`tensorx.ops.table`. Rows with a parameter whose default
depends on the dtype get their plain function here.
"""

from __future__ import annotations

import builtins

from tensorx import _core, dtypes
from tensorx.ops import codegen, table

__all__ = [name for row in table.TABLE for name in codegen.functions(row)]

_INDEX = table.INDEX
_run = _core.elementwise
_run_inplace = _core.elementwise_inplace


def _clip(run, x, low, high):
    """Shared by ``clip`` and ``clip_``: an absent bound is the row with one bound."""
    if low is None and high is None:
        return run(_INDEX["positive"], x)
    if high is None:
        return run(_INDEX["clamp_min"], x, low)
    if low is None:
        return run(_INDEX["clamp_max"], x, high)
    return run(_INDEX["clip"], x, low, high)


def _nan_to_num(run, x, nan, posinf, neginf):
    if x.dtype.kind in "biu":
        return run(_INDEX["positive"], x) if x.dtype.kind != "b" else x.copy()
    if x.dtype.kind == "c":
        parts = [_nan_to_num(run, part, nan, posinf, neginf) for part in (_run(_INDEX["real"], x), _run(_INDEX["imag"], x))]
        return _run(_INDEX["complex"], *parts)
    info = dtypes.finfo(x.dtype)
    return run(_INDEX["nan_to_num"], x, nan, info.max if posinf is None else posinf, info.min if neginf is None else neginf)


_SPECIAL = {"clip": _clip, "nan_to_num": _nan_to_num}


def _define(name, row, method=False, inplace=False):
    """The function, method or in-place method of a row, with its signature and docstring."""
    signature = codegen.signature(row, method)
    call = [*row.args, *(p for p, _ in row.params)]
    if method:
        signature = "(self, " + signature[1:] if signature != "()" else "(self)"
        call[0] = "self"
    run = "_run_inplace" if inplace else "_run"
    body = f"_special({run}, {', '.join(call)})" if row.name in _SPECIAL else f"{run}({_INDEX[row.name]}, {', '.join(call)})"
    space = {"_run": _run, "_run_inplace": _run_inplace, "_special": _SPECIAL.get(row.name), "__name__": "tensorx", "inf": float("inf")}
    exec(compile(f"def {name}{signature}:\n    return {body}", __file__, "exec"), space)
    function = space[name]
    if not method:
        function.__doc__ = codegen.docstring(row, name)
    elif inplace:
        function.__doc__ = f"{row.doc[:-1]}, written into this tensor's storage; returns it. See :func:`tensorx.{row.name}`."
    else:
        function.__doc__ = f"{row.doc} See :func:`tensorx.{row.name}`."
    return function


def _bind():
    for row in table.TABLE:
        for name in codegen.functions(row):
            globals()[name] = _define(name, row)
        for name in codegen.methods(row):
            inplace = name.endswith("_")
            if name in ("real", "imag"):
                _core.add_method(name, builtins.property(_define(name, row, method=True)))
            else:
                _core.add_method(name, _define(name, row, method=True, inplace=inplace))


_bind()
