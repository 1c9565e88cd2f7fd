"""The recorder's picture: one HTML page without a network, or a matplotlib plot."""

from __future__ import annotations

import html
import json
import os
import re

from tensorx import _core

_HERE = os.path.dirname(os.path.abspath(__file__))
LARGEST = 4000  # blocks drawn singly; the small rest is one band below them


def data_of(record):
    """What the page shows, as plain data: lines, blocks and the total after each event."""
    from tensorx.recording import place, short_path

    lines, index = [], {}

    def line_of(block):
        file, line, function = place(block.site)
        key = (file, line, block.op)
        if key not in index:
            import linecache

            index[key] = len(lines)
            lines.append({"file": short_path(file), "line": line, "function": function, "op": block.op, "source": linecache.getline(file, line).strip()})
        return index[key]

    chosen = set(sorted(range(len(record.blocks)), key=lambda i: -record.blocks[i].nbytes)[:LARGEST])
    reasons, reason_index = [], {}
    blocks = []
    rest: list = []
    last = record._core.events
    for i, b in enumerate(record.blocks):
        if i not in chosen:
            rest.append((b.first, b.nbytes))
            if b.last >= 0:
                rest.append((b.last, -b.nbytes))
            continue
        if b.reason not in reason_index:
            reason_index[b.reason] = len(reasons)
            reasons.append(b.reason)
        blocks.append([b.first, b.last if b.last >= 0 else last, b.nbytes, line_of(b), reason_index[b.reason], round(b.born, 6),
                       round(b.died, 6) if b.last >= 0 else None, _core.device_number_name(b.device)])  # fmt: skip
    totals, now = [], 0
    for n, t, by, _ in record.events():
        now += by
        totals.append([n, round(t, 6), now])
    band, now = [], 0
    for n, by in sorted(rest):
        now += by
        band.append([n, now])
    summary = [
        {"where": i.where, "function": i.function, "op": i.op, "bytes": i.bytes, "count": i.count, "share": round(i.peak_share, 4), "reused": i.reused,
         "reasons": i.reasons.most_common(5), "key": index.get((i.file, i.line, i.op)), "source": i.source}
        for i in record.lines()
    ]  # fmt: skip
    peak, at = record.peak()
    return {
        "lines": lines, "reasons": reasons, "blocks": blocks, "totals": totals, "rest": band, "summary": summary, "peak": peak, "peakAt": at,
        "events": last, "allocations": record.allocations, "bytes": record.bytes,
    }  # fmt: skip


def page_text(record, title, notes=""):
    """The page; notes are text that it shows between picture and table."""
    with open(os.path.join(_HERE, "page.html"), encoding="utf-8") as f:
        text = f.read()
    data = json.dumps(data_of(record), separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    shown = f'<pre id="notes">{html.escape(notes)}</pre>' if notes else ""
    parts = {"@TITLE@": html.escape(title), "@NOTES@": shown, '"@DATA@"': data}
    return re.sub("|".join(parts), lambda m: parts[m[0]], text)


def write_page(record, path, title, notes=""):
    """Writes the page to a file."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(page_text(record, title, notes))


def plot(record, path=None, ax=None, lines=8):
    """The bytes alive after each event, stacked by the lines that hold most at the peak."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ModuleNotFoundError("plot: needs matplotlib; pip install 'tensorx-runtime[plot]', or use save_html, which needs nothing") from None
    if path is not None and ax is None:
        matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    from tensorx.recording import place, short_path

    if ax is None:
        ax = plt.subplots(figsize=(10, 5), layout="constrained")[1]
    top = [(i.file, i.line, i.op) for i in sorted(record.lines(), key=lambda i: -i.peak_bytes) if i.peak_bytes][:lines]
    rows = {key: [0.0] for key in [*top, None]}
    xs = [0.0]
    now = dict.fromkeys(rows, 0)
    for _, t, by, block in record.events():
        key = None
        if block is not None:
            file, line, _ = place(block.site)
            key = (file, line, block.op) if (file, line, block.op) in now else None
        now[key] += by
        xs.append(t)
        for k in rows:
            rows[k].append(now[k] / 2**20)
    labels = [f"{short_path(k[0])}:{k[1]} {k[2]}" for k in top] + ["others"]
    ax.stackplot(xs, [[max(v, 0.0) for v in rows[k]] for k in [*top, None]], labels=labels, step="post")
    ax.set_xlabel("seconds")
    ax.set_ylabel("MiB above the start")
    ax.set_title(f"peak {record.peak()[0] / 2**20:.1f} MiB")
    ax.legend(loc="upper left", fontsize="small")
    if path is not None:
        ax.figure.savefig(path)
    return ax
