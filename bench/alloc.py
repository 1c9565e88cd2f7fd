"""How many bytes everyday statements allocate: expected beside measured.

``python bench/alloc.py`` (or ``bash bench/run``, which installs first) prints the table for 64 MiB of
float32, the same rows for other sizes and dtypes, the figures of eager mode (``tx.deferred(False)``) and,
where it is installed, of PyTorch. It exits with status 1 if any figure differs from what is promised.

Bytes are those requested by this thread between two points (``tx.memory.measure``), PyTorch's those its
profiler records as allocated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import _harness
import tensorx as tx

MIB = 2**20


class Box:
    """An object with an attribute, as models have."""


def twice(x):
    return x * 2 + 1


# A row: label, function of a fresh tensor x that runs the statement, what it should allocate in units of x's
# bytes, and the PyTorch form.


def row_three_times(x, measure):
    with measure() as m:
        for _ in range(3):
            x = x * 2 + 1
            tx.eval(x)
    return m


def row_inplace(x, measure):
    with measure() as m:
        x.mul_(2).add_(1)
    return m


def row_attribute(x, measure):
    box = Box()
    box.h = x
    del x
    with measure() as m:
        box.h = box.h * 2 + 1
    return m


def row_dict(x, measure):
    d = {"h": x}
    del x
    with measure() as m:
        d["h"] = d["h"] * 2 + 1
    return m


def row_function(x, measure):
    with measure() as m:
        x = twice(x)
    return m


def row_reshape(x, measure):
    with measure() as m:
        x = (x * 2).reshape((1, x.size))
        x = x + 1
    return m


def row_alias(x, measure):
    keep = x.alias()
    with measure() as m:
        x = x * 2 + 1
    del keep
    return m


def row_view(x, measure):
    keep = x[:1]
    with measure() as m:
        x = x * 2 + 1
    del keep
    return m


def row_untracked(x, measure):
    w = tx.full(x.shape, 2, dtype=x.dtype)
    y = x * w
    tx.eval(y)
    with measure() as m:
        x = x + 1
    return m


def row_sum(x, measure):
    with measure() as m:
        s = ((x - 1) * (x - 1)).sum()
    del s
    return m


def row_assign_once(x, measure):
    v = tx.zeros((max(1, x.size // 2),), dtype=x.dtype)
    with measure() as m:
        x = x.slice_assign(slice(0, v.size), v)
    return m


def row_assign_shared(x, measure):
    v = tx.zeros((max(1, x.size // 2),), dtype=x.dtype)
    keep = x.alias()
    with measure() as m:
        x = x.slice_assign(slice(0, v.size), v)
    del keep
    return m


def row_assign_value(x, measure):
    v = tx.zeros((max(1, x.size // 2),), dtype=x.dtype)
    with measure() as m:
        b = x.slice_assign(slice(0, v.size), v)
    del b
    return m


def row_copy_into(x, measure):
    w = tx.full(x.shape, 2, dtype=x.dtype)
    with measure() as m:
        w.copy_(x * 2 - w)
    return m


SUM_BYTES = {"float16": 2, "float32": 4, "float64": 8, "int32": 8}  # sums of int32 are int64
ROWS = [
    ("x = x * 2 + 1, three times", row_three_times, 0, "x"),
    ("x.mul_(2).add_(1)", row_inplace, 0, "inplace"),
    ("self.h = self.h * 2 + 1", row_attribute, 0, "x1"),
    ('d["h"] = d["h"] * 2 + 1', row_dict, 0, "x1"),
    ("x = f(x)", row_function, 0, "x1"),
    ("x = (x * 2).reshape(1, n) + 1", row_reshape, 0, "x1"),
    ("x = x * 2 + 1, an alias of x alive", row_alias, 1, "x1"),
    ("x = x * 2 + 1, a view of x alive", row_view, 1, "x1"),
    ("x = x + 1 after an untracked y = x * w", row_untracked, 0, "add"),
    ("w.copy_(x * 2 - w)", row_copy_into, 0, "copy"),
    ("((x - 1) * (x - 1)).sum()", row_sum, "scalar", "sum"),
    ("a = a.slice_assign(i, v), a held once", row_assign_once, 0, None),
    ("a = a.slice_assign(i, v), a shared", row_assign_shared, 1, None),
    ("b = a.slice_assign(i, v)", row_assign_value, 1, None),
]


def expected(rule, nbytes, dtype):
    if rule == "scalar":
        return SUM_BYTES[dtype]
    return rule * nbytes


def torch_figures(n):
    """{statement kind: bytes} of PyTorch, or {} where it is not installed. A child process: its profiler talks."""
    found = subprocess.run([sys.executable, __file__, "--torch-child", str(n)], capture_output=True, text=True)
    lines = found.stdout.strip().splitlines()
    return json.loads(lines[-1]) if found.returncode == 0 and lines else {}


def torch_bytes(kind, n):
    """What PyTorch's profiler counts for the same statement on float32."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(n)
    w = torch.full((n,), 2.0)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        if kind == "x":
            for _ in range(3):
                x = x * 2 + 1
        elif kind == "x1":
            x = x * 2 + 1
        elif kind == "inplace":
            x.mul_(2).add_(1)
        elif kind == "add":
            x = x + 1
        elif kind == "copy":
            w.copy_(x * 2 - w)
        elif kind == "sum":
            ((x - 1) * (x - 1)).sum()
    total = 0
    for event in p.profiler.kineto_results.events():
        if event.name() == "[memory]" and event.nbytes() > 0:
            total += event.nbytes()
    return total


def fresh(n, dtype):
    x = tx.ones(n, dtype=dtype)
    tx.eval(x)
    return x


def show(nbytes):
    if nbytes is None:
        return "-"
    if nbytes and nbytes % MIB == 0:
        return f"{nbytes // MIB} MiB"
    return f"{nbytes:,} B"


def run(n, dtype, device, torch):
    out = []
    for label, function, rule, torch_kind in ROWS:
        size = getattr(tx, dtype).itemsize * n
        with tx.device(device):
            got = function(fresh(n, dtype), tx.memory.measure).bytes
            with tx.deferred(False):
                eager = function(fresh(n, dtype), tx.memory.measure).bytes
        out.append({
            "statement": label, "n": n, "dtype": dtype, "device": device, "expected": expected(rule, size, dtype), "measured": got,
            "eager": eager, "torch": torch.get(torch_kind),
        })  # fmt: skip
    return out


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--torch-child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.torch_child:
        kinds = ("x", "x1", "inplace", "add", "copy", "sum")
        print(json.dumps({k: torch_bytes(k, args.torch_child) for k in kinds}))
        return 0
    torch = {} if args.no_torch else torch_figures(2**24)
    records = []
    default_eager = not tx._core._deferred_mode.get()
    with tx.deferred(True):
        for device in [d.name for d in tx.devices()]:
            main_rows = run(2**24, "float32", device, torch)
            records += main_rows
            print(f"\nBytes allocated on {device}, 64 MiB of float32 (2**24 elements)\n")
            print(_harness.table(
                ["statement", "expected", "measured", "eager mode", "PyTorch", ""],
                [[r["statement"], show(r["expected"]), show(r["measured"]), show(r["eager"]), show(r["torch"]),
                  "ok" if r["expected"] == r["measured"] else "DIFFERS"] for r in main_rows],
            ))  # fmt: skip
            summary = []
            for dtype in ("float32", "float64", "float16", "int32"):
                if device != "cpu" and dtype == "float64":
                    continue
                for n in (1, 1000, 2**24):
                    if (dtype, n) == ("float32", 2**24):
                        continue
                    rows = run(n, dtype, device, {})
                    records += rows
                    wrong = [r["statement"] for r in rows if r["expected"] != r["measured"]]
                    summary.append([dtype, f"{n:,}", f"{len(rows) - len(wrong)} of {len(rows)}", "; ".join(wrong) or "ok"])
            print(f"\nThe same rows on {device} for other dtypes and sizes\n")
            print(_harness.table(["dtype", "elements", "as expected", ""], summary))
    bad = [r for r in records if r["expected"] != r["measured"]]
    if default_eager:
        print("\nTENSORX_EAGER is set: the table above was measured with deferral turned on again.")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"machine": _harness.machine(), "rows": records}, f, indent=1)
    print(f"\n{len(records) - len(bad)} of {len(records)} figures as expected" + ("" if not bad else f"; {len(bad)} DIFFER"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
