"""``python -m tensorx doctor``: what this installation can do, device by device.

``--report`` prints the same as JSON, for a bug report. ``python -m tensorx memory script.py`` runs a script under the
recorder of allocations and writes a report and a page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys


def _version(name):
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def doctor():
    """All facts, as a dictionary."""
    import tensorx as tx
    from tensorx import _core

    facts = {
        "tensorx": tx.__version__,
        "distribution": _version("tensorx-runtime"),
        "location": os.path.dirname(tx.__file__),
        "python": sys.version.split()[0],
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "numpy": _version("numpy"),
        "instruction set": _core.isa(),
        "supported sets": _core.supported_isas(),
        "threads": tx.get_num_threads(),
        "deferred": _core._deferred_mode.get(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("TENSORX_")},
    }
    if platform.system() == "Darwin":
        facts["rosetta"] = _rosetta()
    reason = tx.metal.unavailable_reason()
    facts["metal available"] = reason is None
    if reason is not None:
        facts["metal unavailable because"] = reason
    devices = []
    for d in tx.devices():
        stats = tx.memory.stats(d)
        devices.append({"name": d.name, "type": d.type, "description": d.description or platform.processor() or platform.machine(),
                        "registry_id": d.registry_id, "memory": {k: stats[k] for k in ("live", "peak", "cached", "system") if k in stats}})  # fmt: skip
    facts["devices"] = devices
    facts["self test"] = _self_test(tx)
    more = getattr(tx.metal, "doctor", None)
    if more is not None and reason is None:
        facts["metal"] = more()
    return facts


def _rosetta():
    """Whether an Apple silicon machine runs this process as x86-64."""
    import ctypes

    value, size = ctypes.c_int(0), ctypes.c_size_t(4)
    libc = ctypes.CDLL(None)
    found = libc.sysctlbyname(b"sysctl.proc_translated", ctypes.byref(value), ctypes.byref(size), None, 0) == 0
    return bool(found and value.value)


def _self_test(tx):
    """One fused expression per device, checked."""
    out = {}
    for d in tx.devices():
        try:
            x = tx.arange(1000, device=d).astype("float32")
            with tx.memory.measure() as m:
                x = x * 2.0 + 1.0
            good = x.sum().item() == 1000000.0
            out[d.name] = "ok" if good else "WRONG VALUES"
            if d.type == "cpu" and tx._core._deferred_mode.get() and m.bytes:
                out[d.name] = f"ok, but {m.bytes} bytes were allocated where none were expected"
        except Exception as error:
            out[d.name] = f"{type(error).__name__}: {error}"
    return out


def _print(facts, indent=""):
    for key, value in facts.items():
        if isinstance(value, dict):
            print(f"{indent}{key}:" + ("" if value else " -"))
            _print(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{indent}{key}:")
            for item in value:
                print(f"{indent}  - {item.get('name')}")
                _print({k: v for k, v in item.items() if k != "name"}, indent + "    ")
        else:
            print(f"{indent}{key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tensorx", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    d = commands.add_parser("doctor", help="what this installation can do")
    d.add_argument("--report", action="store_true", help="as JSON, for a bug report")
    m = commands.add_parser("memory", help="run a script and explain its memory, line by line")
    m.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    m.add_argument("-o", "--out", metavar="FOLDER", help="where the report and the page are written (the current folder)")
    m.add_argument("--lines", type=int, default=12, help="lines printed (12); the file has all")
    m.add_argument("--limit", type=int, default=1_000_000, help="allocations kept singly (1000000)")
    m.add_argument("script")
    m.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    args = parser.parse_args(argv)
    if args.command == "memory":
        from tensorx.profile_script import run

        return run(args.script, args.arguments, args.out, args.limit, args.module, args.lines)
    facts = doctor()
    if args.report:
        print(json.dumps(facts, indent=1, default=str))
    else:
        _print(facts)
    return 0 if all(v.startswith("ok") for v in facts["self test"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
