"""What the scripts in bench/ share: threads, peers, timing, tables, JSON and plots.

    import _harness as H          # before numpy, torch, ...: it sets their thread counts

    args = H.arguments(__doc__)
    report = H.Report("elementwise", args)
    report.compare("x * 2 + 1, 64 MiB", {"tensorx": ours, "numpy": theirs})
    report.save()

A comparison runs all its candidates in one process, in turn, round after round, so
that a busy machine is busy for all of them.  Every candidate is a function without
arguments that leaves no work behind (a deferred or asynchronous one waits itself).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Distribution and import name of every library a script may compare with.
PEERS = {
    "numpy": "numpy",
    "torch": "torch",
    "jax": "jax",
    "mlx": "mlx.core",
    "numexpr": "numexpr",
}

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "TENSORX_NUM_THREADS",
)


def cpu_count() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads_wanted(argv: Sequence[str]) -> int:
    for i, arg in enumerate(argv):
        if arg == "--threads" and i + 1 < len(argv) and argv[i + 1].isdigit():
            return max(1, int(argv[i + 1]))
        if arg.startswith("--threads=") and arg[10:].isdigit():
            return max(1, int(arg[10:]))
    return int(os.environ.get("TENSORX_NUM_THREADS") or cpu_count())


# Read from the environment when a library is loaded, hence at import of this module.
THREADS = _threads_wanted(sys.argv[1:])
for _name in _THREAD_VARIABLES:
    os.environ[_name] = str(THREADS)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "XLA_FLAGS" not in os.environ and THREADS == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"


def peers(names: Iterable[str] = tuple(PEERS)) -> dict[str, object]:
    """The libraries among `names` that are installed, imported and set to THREADS threads.

    A library that is installed but does not load is left out with a line on stderr.
    """
    found: dict[str, object] = {}
    for name in names:
        try:
            module = importlib.import_module(PEERS[name])
        except ModuleNotFoundError:
            continue
        except Exception as error:
            print(f"{name} is installed but does not load: {error}", file=sys.stderr)
            continue
        if name in ("torch", "numexpr"):
            module.set_num_threads(THREADS)
        found[name] = module
    return found


def devices() -> list[str]:
    """Devices of tensorx that may be timed: the stand-in for Metal never is."""
    import tensorx as tx

    found = ["cpu"]
    if tx.metal.is_available():
        if "stand-in" in str(tx.device("metal").name) or "stand-in" in repr(tx.device("metal")):
            print("metal: stand-in, not timed", file=sys.stderr)
        else:
            found.append("metal")
    return found


def _cpu_model() -> str:
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    distributions = {"tensorx": "tensorx-runtime"}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distributions.get(name, name))
    return None


def machine() -> dict[str, object]:
    """Description of the machine and of the versions compared."""
    versions = {name: _version(name) for name in ("tensorx", *PEERS)}
    info: dict[str, object] = {
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "cpus": cpu_count(),
        "threads": THREADS,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version for name, version in versions.items() if version},
    }
    with contextlib.suppress(OSError):
        info["load"] = [round(value, 2) for value in os.getloadavg()]
    if "TENSORX_ISA" in os.environ:
        info["TENSORX_ISA"] = os.environ["TENSORX_ISA"]
    return info


@dataclass
class Timing:
    """Seconds per call of one candidate: one sample per round."""

    samples: list[float]
    inner: int

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def _run(function: Callable[[], object], inner: int) -> float:
    loop = range(inner)
    began = time.perf_counter()
    for _ in loop:
        function()
    return time.perf_counter() - began


def _calibrate(function: Callable[[], object], min_time: float) -> int:
    """Calls per sample so that a sample takes at least min_time."""
    function()  # first touch, compilation, caches
    inner = 1
    while True:
        taken = _run(function, inner)
        if taken >= min_time or inner >= 1 << 24:
            return inner
        # Aim a little beyond, but never trust one short reading by more than 8x.
        inner = max(inner + 1, min(int(inner * 1.2 * min_time / max(taken, 1e-9)), inner * 8))


def interleave(
    candidates: dict[str, Callable[[], object]], *, rounds: int = 5, min_time: float = 0.05
) -> dict[str, Timing]:
    """Time all candidates in turn, `rounds` times; the order rotates from round to round."""
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    inner = {name: _calibrate(function, min_time) for name, function in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for turn in range(rounds):
        shift = turn % len(names) if names else 0
        for name in names[shift:] + names[:shift]:
            gc.collect()
            enabled = gc.isenabled()
            gc.disable()
            try:
                samples[name].append(_run(candidates[name], inner[name]) / inner[name])
            finally:
                if enabled:
                    gc.enable()
    return {name: Timing(samples[name], inner[name]) for name in names}


def seconds(value: float) -> str:
    """1.234e-5 -> '12.3 us'."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= factor:
            scaled = value / factor
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"
    return f"{value / 1e-9:.0f} ns"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> str:
    """Plain-text table that is valid Markdown; the first `left` columns are left-aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headers), *cells]) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(parts) + " |"

    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join([line(list(headers)), line(rule), *map(line, cells)])


def arguments(doc: str | None, add: Callable[[argparse.ArgumentParser], None] | None = None):
    """Parse the options that all scripts have; `add(parser)` adds the script's own."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="samples per candidate (default 5)")
    parser.add_argument(
        "--min-time", type=float, default=0.05, help="seconds per sample at least (default 0.05)"
    )
    parser.add_argument("--threads", type=int, default=THREADS, help="threads for everybody")
    parser.add_argument("--quick", action="store_true", help="short samples: to see that it runs")
    parser.add_argument(
        "--out", type=Path, default=HERE / "out", help="folder for the JSON and the plot"
    )
    parser.add_argument("--no-save", action="store_true", help="print only")
    if add is not None:
        add(parser)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.min_time = min(args.rounds, 3), 0.002
    return args


@dataclass
class Comparison:
    title: str
    ours: str
    timings: dict[str, Timing]
    notes: dict[str, object] = field(default_factory=dict)

    def ratios(self) -> dict[str, tuple[float, float]]:
        """Candidate -> (best, median) of ours over its own: below 1 means that ours is faster."""
        mine = self.timings[self.ours]
        return {
            name: (mine.best / other.best, mine.median / other.median)
            for name, other in self.timings.items()
            if name != self.ours
        }

    def __str__(self) -> str:
        ratios = self.ratios()
        rows = []
        for name, timing in self.timings.items():
            best, median = ratios.get(name, (1.0, 1.0))
            own = name == self.ours
            rows.append(
                [
                    name,
                    seconds(timing.best),
                    seconds(timing.median),
                    "" if own else f"{best:.2f}",
                    "" if own else f"{median:.2f}",
                ]
            )
        headers = [self.title, "best", "median", f"{self.ours}/it, best", "median"]
        return table(headers, rows)


class Report:
    """Prints comparisons as they are made and saves them at the end."""

    def __init__(self, name: str, args: argparse.Namespace, *, ours: str = "tensorx"):
        self.name, self.args, self.ours = name, args, ours
        self.machine = machine()
        self.comparisons: list[Comparison] = []
        self.extra: dict[str, object] = {}
        versions = self.machine["versions"]
        assert isinstance(versions, dict)
        print(f"{self.machine['cpu']}, {self.machine['cpus']} CPUs, {THREADS} threads, ", end="")
        print(f"{self.machine['system']}, Python {self.machine['python']}")
        print(", ".join(f"{key} {value}" for key, value in versions.items()))
        print(f"best and median of {args.rounds}; ratios below 1: {ours} is faster\n")

    def compare(
        self,
        title: str,
        candidates: dict[str, Callable[[], object]],
        *,
        ours: str | None = None,
        **notes: object,
    ) -> Comparison:
        """Time `candidates` interleaved and print the table; `notes` go to the JSON."""
        timings = interleave(candidates, rounds=self.args.rounds, min_time=self.args.min_time)
        made = Comparison(title, ours or self.ours, timings, notes)
        self.comparisons.append(made)
        print(made, end="\n\n", flush=True)
        return made

    def save(self) -> list[Path]:
        """Write <name>.json and, with matplotlib, <name>.png; returns the paths."""
        if self.args.no_save:
            return []
        folder = Path(self.args.out)
        folder.mkdir(parents=True, exist_ok=True)
        data = {
            "name": self.name,
            "machine": self.machine,
            "rounds": self.args.rounds,
            "quick": self.args.quick,
            "comparisons": [{**asdict(c), "ratios": c.ratios()} for c in self.comparisons],
            **self.extra,
        }
        paths = [folder / f"{self.name}.json"]
        paths[0].write_text(json.dumps(data, indent=1) + "\n")
        if self.comparisons:
            with contextlib.suppress(ModuleNotFoundError):
                paths.append(self.plot(folder / f"{self.name}.png"))
        print("wrote " + ", ".join(str(path) for path in paths))
        return paths

    def plot(self, path: Path) -> Path:
        """Bars of time relative to ours, one group per comparison, on a log scale."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        names: list[str] = []
        for comparison in self.comparisons:
            names += [name for name in comparison.timings if name not in names]
        height = 0.8 / len(names)
        figure, axes = plt.subplots(
            figsize=(9, 1.2 + 0.22 * len(names) * len(self.comparisons)), layout="constrained"
        )
        for k, name in enumerate(names):
            ys, widths = [], []
            for i, comparison in enumerate(self.comparisons):
                if name in comparison.timings:
                    ys.append(i + k * height)
                    base = comparison.timings[comparison.ours].median
                    widths.append(comparison.timings[name].median / base)
            axes.barh(ys, widths, height, label=name)
        axes.set_yticks(
            [i + 0.4 - height / 2 for i in range(len(self.comparisons))],
            [comparison.title for comparison in self.comparisons],
        )
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_xlabel(f"median time relative to {self.ours} (left of the line: faster)")
        axes.set_title(f"{self.name}: {self.machine['cpu']}, {THREADS} threads")
        axes.legend()
        figure.savefig(path, dpi=130)
        plt.close(figure)
        return path
