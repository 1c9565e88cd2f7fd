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
    space = None
    try:
        with r:
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
            except KeyboardInterrupt:
                status = 130
                print("interrupted: the report is about what ran until then", file=sys.stderr)
            except BaseException:
                status = 1
                _print_error()
    finally:
        sys.argv, sys.path[:] = old_argv, old_path
    text = r.report(limit=lines)
    held = _still_held(before, space)
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


def _still_held(before, space):
    """What the script's globals hold at its end, by name."""
    from tensorx.recording import Leaks, leaks

    if not space:
        return ""
    main = type(sys)("script")
    main.__dict__.update({k: v for k, v in space.items() if not k.startswith("__") or k == "__file__"})
    sys.modules["script"] = main
    try:
        found = leaks(before)
    finally:
        del sys.modules["script"]
    for leak in found:
        leak.name = leak.name.replace(" of script", "")
    found = Leaks(i for i in found if i.name.startswith("global"))
    return "at the end of the script, " + str(found) if found else ""


def _print_error():
    """The traceback without the frames of the runner."""
    kind, error, trace = sys.exc_info()
    own = (os.path.abspath(__file__), runpy.__file__)
    while trace is not None and (trace.tb_frame.f_code.co_filename in own or trace.tb_frame.f_code.co_filename.startswith("<frozen")):
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
