"""``python -m tensorx memory script.py``: a script under the recorder, then the report and the page."""

from __future__ import annotations

import os
import runpy
import sys
import traceback


def run(script, arguments=(), out=None, limit=1_000_000, module=False, lines=12):
    """Runs a script (or, with module, a module) under :class:`tensorx.memory.record`; writes ``<name>.memory.html`` and
    ``<name>.memory.txt`` into the folder out (by default the current one) and prints the report. Returns the exit status of
    the script, whose error, if any, is printed as Python does."""
    import tensorx as tx

    if not module and not os.path.exists(script):
        print(f"python -m tensorx memory: no file {script!r}", file=sys.stderr)
        return 2
    name = script.rpartition(".")[2] if module else os.path.splitext(os.path.basename(script))[0]
    folder = out or os.getcwd()
    os.makedirs(folder, exist_ok=True)
    old_argv, old_path = sys.argv[:], sys.path[:]
    sys.argv = [script, *arguments]
    status = 0
    before = tx.memory.snapshot()
    r = tx.memory.record(limit)
    space: dict | None = None
    functions: list | None = None
    ended = None
    try:
        r.__enter__()
        try:
            if module:
                space = runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                sys.path[0] = os.path.dirname(os.path.abspath(script))
                space = runpy.run_path(script, run_name="__main__")
        except SystemExit as stop:
            code = stop.code
            status = code if isinstance(code, int) else 0 if code is None else 1
            if code is not None and not isinstance(code, int):
                print(code, file=sys.stderr)
        except KeyboardInterrupt as error:
            status, ended = 130, KeyboardInterrupt
            space, functions = _at_error(error.__traceback__)
            print("interrupted: the report is about what ran until then", file=sys.stderr)
        except BaseException as error:
            status, ended = 1, type(error)
            _print_error()
            space, functions = _at_error(error.__traceback__)
        try:
            r.__exit__(ended, None, None)  # after an error what is pending stays so: there may be no memory for it
        except MemoryError:
            status = 1
            _print_error()
    finally:
        sys.argv, sys.path[:] = old_argv, old_path
    text = r.report(limit=lines)
    held = _still_held(before, space, functions)
    if held:
        text += "\n\n" + held
    page = os.path.join(folder, name + ".memory.html")
    plain = os.path.join(folder, name + ".memory.txt")
    with open(plain, "w", encoding="utf-8") as f:
        f.write(r.report(limit=10_000) + ("\n\n" + held if held else "") + "\n")
    r.save_html(page, f"Memory of {os.path.basename(script)}", held)
    print(text)
    print(f"\nwritten: {page} (a page with a timeline), {plain}")
    return status


def _at_error(trace):
    """The globals of the script and the locals of its functions, as they were when it ended: (dict, [(function, dict)])."""
    space, functions = None, []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "<module>" and not _is_own(code):
            space = dict(trace.tb_frame.f_globals)
        elif space is not None and not code.co_filename.startswith(os.path.dirname(os.path.abspath(__file__)) + os.sep):
            functions.append((code, dict(trace.tb_frame.f_locals)))
        trace = trace.tb_next
    return space, functions


def _still_held(before, space, functions):
    """What the script's globals hold at its end, by name; and after an error what the locals of its functions held."""
    from tensorx.recording import Leaks, leaks

    if not space:
        return ""
    scopes = [("script", {k: v for k, v in space.items() if not k.startswith("__") or k == "__file__"})]
    scopes += [(f"{code.co_name} (line {code.co_firstlineno})", {**names, "__file__": code.co_filename}) for code, names in functions or ()]
    for name, names in scopes:
        sys.modules[name] = type(sys)(name)
        sys.modules[name].__dict__.update(names)
    names = None
    try:
        found = leaks(before)
    finally:
        for name, _ in scopes:
            del sys.modules[name]
    for leak in found:
        for name, _ in scopes[1:]:
            if leak.name.endswith(f" of {name}"):
                leak.name, leak.where = leak.name.replace("global", "local", 1), None
        leak.name = leak.name.replace(" of script", "")
    found = Leaks(i for i in found if i.name.startswith(("global", "local")))
    when = "at the end of the script" if functions is None else "when the script was ended by an error"
    return f"{when}, {found}" if found else ""


def _is_own(code):
    return code.co_filename in (os.path.abspath(__file__), runpy.__file__) or code.co_filename.startswith("<frozen")


def _print_error():
    """The traceback without the frames of the runner."""
    kind, error, trace = sys.exc_info()
    while trace is not None and _is_own(trace.tb_frame.f_code):
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
