"""All benches against the libraries that are installed: one table of ratios, JSON and a plot.

    python bench/compare.py              # everything: some 10 to 30 minutes
    python bench/compare.py --quick      # short samples, to see that it runs
    python bench/compare.py matmul reduce

Ratios are our time over theirs, best and median of the rounds: below 1 tensorx is faster. Losses are listed as well as gains,
and the slowest come first; where the other library is "tensorx" too, it is another spelling of our own, and not
counted in the summary. Each bench runs in a process of its own; within one, all libraries run in turn.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import _harness as H


def benches() -> list[str]:
    """The scripts beside this one that write a report of the common form."""
    own = (Path(__file__).stem, "_harness")
    return sorted(p.stem for p in H.HERE.glob("*.py") if p.stem not in own and "Report(" in p.read_text(encoding="utf-8"))


def add(parser):
    parser.add_argument("names", nargs="*", metavar="bench", help=f"which ones; all by default: {', '.join(benches())}")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one bench (default 900)")


def run(name, args) -> tuple[list[dict], str | None]:
    """(comparisons of one bench, error or None)"""
    command = [sys.executable, str(H.HERE / f"{name}.py"), "--threads", str(args.threads), "--rounds", str(args.rounds), "--out", str(args.out)]
    command += ["--quick"] if args.quick else ["--min-time", str(args.min_time)]
    result = args.out / f"{name}.json"
    result.unlink(missing_ok=True)
    print(f"--- {name}", flush=True)
    try:
        done = subprocess.run(command, timeout=args.timeout, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        return [], f"stopped after {args.timeout:.0f} s"
    if not result.exists():
        last = [line for line in done.stdout.splitlines() if line.strip()][-1:] or ["no output"]
        return [], f"status {done.returncode}: {last[0][:200]}"
    data = json.loads(result.read_text())
    return data.get("comparisons", []), None if done.returncode == 0 else f"status {done.returncode}"


def rows_of(name, comparisons):
    """(bench, what, library, best ratio, median ratio, our median, their median)"""
    for c in comparisons:
        ours = c["timings"].get(c["ours"])
        if ours is None:
            continue
        for other, (best, median) in c["ratios"].items():
            yield name, c["title"], other, best, median, statistics.median(ours["samples"]), statistics.median(c["timings"][other]["samples"])


def peers_of(rows):
    return sorted({r[2] for r in rows if not r[2].startswith("tensorx")})


def plot(rows, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    others = peers_of(rows)
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.5 * len(others)), layout="constrained")
    for i, other in enumerate(others):
        values = [r[4] for r in rows if r[2] == other]
        axes.scatter(values, [i + (k % 9 - 4) * 0.06 for k in range(len(values))], s=18, alpha=0.7)
        axes.scatter([statistics.geometric_mean(values)], [i], marker="|", s=500, color="black")
    axes.set_yticks(range(len(others)), [f"{o} ({sum(r[2] == o for r in rows)})" for o in others])
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("our median time over theirs (left of the line: tensorx is faster; bar: geometric mean)")
    axes.set_title(title)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    args = H.arguments(__doc__, add)
    unknown = [n for n in args.names if n not in benches()]
    if unknown:
        sys.exit(f"no bench {unknown[0]!r}; there are {', '.join(benches())}")
    args.out.mkdir(parents=True, exist_ok=True)
    about = H.machine()
    print(f"{about['cpu']}, {about['cpus']} CPUs, {args.threads} threads, {about['system']}, Python {about['python']}")
    print(", ".join(f"{k} {v}" for k, v in about["versions"].items()))
    missing = [n for n in H.PEERS if n not in H.peers()]
    if missing:
        print("not installed here, so not compared: " + ", ".join(missing))
    rows, failed = [], {}
    for name in args.names or benches():
        comparisons, error = run(name, args)
        rows += rows_of(name, comparisons)
        if error is not None:
            failed[name] = error
            print(f"    {error}")
    rows.sort(key=lambda r: -r[4])
    print()
    print(H.table(["bench", "what", "library", "ours/theirs, best", "median", "ours", "theirs"],
                  [[*r[:3], f"{r[3]:.2f}", f"{r[4]:.2f}", H.seconds(r[5]), H.seconds(r[6])] for r in rows], left=3))  # fmt: skip
    summary = {}
    for other in peers_of(rows):
        values = [r[4] for r in rows if r[2] == other]
        summary[other] = {
            "comparisons": len(values), "faster": sum(v < 0.95 for v in values), "slower": sum(v > 1.05 for v in values),
            "geometric mean": statistics.geometric_mean(values), "worst": max(values), "best": min(values),
        }  # fmt: skip
    print()
    print(H.table(["library", "comparisons", "we are faster", "equal within 5 %", "slower", "geometric mean", "worst", "best"],
                  [[k, s["comparisons"], s["faster"], s["comparisons"] - s["faster"] - s["slower"], s["slower"],
                    f"{s['geometric mean']:.2f}", f"{s['worst']:.2f}", f"{s['best']:.2f}"] for k, s in summary.items()]))  # fmt: skip
    for name, error in failed.items():
        print(f"{name}: {error}")
    if not args.no_save:
        path = args.out / "compare.json"
        keys = ("bench", "what", "library", "best", "median", "ours", "theirs")
        path.write_text(json.dumps({"machine": about, "quick": args.quick, "rows": [dict(zip(keys, r)) for r in rows],
                                    "summary": summary, "failed": failed}, indent=1) + "\n")  # fmt: skip
        print(f"wrote {path}")
        if rows:
            try:
                plot(rows, args.out / "compare.png", f"{about['cpu']}, {args.threads} threads")
                print(f"wrote {args.out / 'compare.png'}")
            except ModuleNotFoundError:
                print("no plot: matplotlib is not installed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
