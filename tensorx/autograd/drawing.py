"""The graph of gradients as a picture (SVG, no other program needed)."""

from __future__ import annotations

import html

from tensorx import _core
from tensorx._core import Meta, Node, Saved, Tensor
from tensorx.autograd.tape import site_text
from tensorx.errors import GradientError

_MAX = 2000  # nodes of a picture


class _Box:
    def __init__(self, kind, title):
        self.kind, self.title = kind, title
        self.lines: list = []
        self.bytes = self.again = 0
        self.rank = 0
        self.x = self.y = 0.0
        self.targets: list = []
        self.tip = ""


def _saved_of(node):
    """Saved values in what a rule or Function keeps: a few levels of containers."""
    out, stack, seen = [], [node.saved, node.checks], set()
    while stack:
        o = stack.pop()
        if id(o) in seen:
            continue
        seen.add(id(o))
        if isinstance(o, Saved):
            facts = _core.saved_facts(o)
            if facts is not None:
                out.append(facts)
        elif isinstance(o, dict):
            stack += list(o.values())
        elif isinstance(o, list | tuple):
            stack += list(o)
        elif type(o).__name__ == "Context":
            stack += list(vars(o).values())
    return out


def _text(shape):
    return "x".join(map(str, shape)) if shape else "scalar"


def graph(*tensors):
    """The boxes of the graph below tensors, in order, and the totals (bytes kept, values that backward computes again)."""
    from tensorx.recording import size_text

    boxes: dict = {}
    order: list = []
    shapes: dict = {}
    seen_values: set = set()
    totals = [0, 0]
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(f"draw: takes tensors, got {type(t).__name__}")
        if not t.requires_grad:
            raise GradientError(f"draw: the tensor of shape {t.shape} has no history; nothing that it was computed from requires grad")
    stack = []
    for t in tensors:
        edge = _core.edge(t)
        top = getattr(edge, "node", None) if not isinstance(edge, Meta | Node) else edge
        shapes[id(top)] = t.shape
        stack.append(top)
    while stack and len(boxes) < _MAX:
        o = stack.pop()
        if id(o) in boxes:
            continue
        if isinstance(o, Meta):
            like = o.like
            box = _Box("leaf", "leaf")
            box.lines.append(f"{_text(like[0])} {like[1].name}" if like else "")
            box.tip = "its gradient is kept in .grad"
            boxes[id(o)] = box
            order.append((o, box))
            continue
        box = boxes[id(o)] = _Box("op", o.name)
        order.append((o, box))
        kept, likes, elementwise = _core.node_facts(o)
        mine = shapes.get(id(o))
        if mine is not None:
            box.lines.append(_text(mine))
        box.tip = f"{o.name} at {site_text(o.site)}"
        if o.freed:
            box.kind = "freed"
            box.lines.append("freed by backward")
        for what, shape, dtype, nbytes, computed, key in [*kept, *_saved_of(o)]:
            box.tip += f"\nkeeps {what}: {_text(shape)} {dtype}, " + (size_text(nbytes) if computed else "to be computed again in backward")
            if not computed:
                box.again += 1
                totals[1] += key not in seen_values
            elif key not in seen_values:
                box.bytes += nbytes
                totals[0] += nbytes
            seen_values.add(key)
        if box.bytes:
            box.lines.append(f"keeps {size_text(box.bytes)}")
        if box.again:
            box.lines.append(f"recomputes {box.again}")
        for k, target in enumerate(o.next_nodes):
            if target is None:
                continue
            like = likes[k] if likes is not None and k < len(likes) else None
            shape = like[0] if like is not None else (mine if elementwise else None)
            if shape is not None:
                shapes.setdefault(id(target), shape)
            box.targets.append(target)
            stack.append(target)
    for _, box in sorted((p for p in order if isinstance(p[0], Node)), key=lambda p: -p[0].seq):
        for t in box.targets:
            below = boxes.get(id(t))
            if below is not None:
                below.rank = max(below.rank, box.rank + 1)
    out = [b for _, b in order]
    for _, b in order:
        b.targets = [boxes[id(t)] for t in b.targets if id(t) in boxes]
    return out, totals, bool(stack)


def _place(boxes):
    """Rows by rank; within a row in the order of the means of what is above."""
    rows: dict = {}
    for b in boxes:
        rows.setdefault(b.rank, []).append(b)
    for b in boxes:
        b.w = max([len(b.title) * 8.5, *(len(line) * 6.8 for line in b.lines)]) + 24
        b.h = 24 + 16 * len(b.lines)
    parents: dict = {}
    for b in boxes:
        for t in b.targets:
            parents.setdefault(id(t), []).append(b)
    y = 20.0
    width = 0.0
    for rank in sorted(rows):
        row = rows[rank]
        for b in row:
            above = parents.get(id(b), [])
            b.x = sum(p.x + p.w / 2 for p in above) / len(above) if above else 0.0
        row.sort(key=lambda b: b.x)
        x = 0.0
        for b in row:
            b.x = max(x, b.x - b.w / 2)
            b.y = y
            x = b.x + b.w + 26
        y += max(b.h for b in row) + 38
        width = max(width, x)
    left = min((b.x for b in boxes), default=0.0)
    for b in boxes:
        b.x += 20 - left
    return max(b.x + b.w for b in boxes) + 20, y


_FILL = {"op": ("#e7f0fb", "#3b6ea5"), "leaf": ("#e8f6e9", "#3c8d40"), "freed": ("#eeeeee", "#999999"), "again": ("#fff3d6", "#b7791f")}


def draw(*tensors, path=None):
    """The graph that backward would walk from tensors, as SVG text (written to path, where given).

    A box per recorded op with its result's shape, the bytes that it keeps for its gradient (values kept twice count once) and the
    number of values that backward computes again instead; hovering shows the line of the call and each value. Green
    boxes are leaves. GradientError for a tensor without history.

    >>> import tensorx as tx
    >>> w = tx.ones((3, 2)).requires_grad_()
    >>> loss = ((tx.ones((4, 3)) @ w) ** 2).sum()
    >>> svg = tx.autograd.draw(loss)
    >>> svg.startswith("<svg"), "matmul" in svg, "4x2" in svg
    (True, True, True)
    """
    from tensorx.recording import size_text

    boxes, (kept, again), cut = graph(*tensors)
    width, height = _place(boxes)
    head = f"{sum(b.kind != 'leaf' for b in boxes)} ops, {size_text(kept)} kept for backward"
    head += f", {again} value{'s' if again != 1 else ''} to be computed again" if again else ""
    head += f"; only the first {_MAX} boxes are drawn" if cut else ""
    width = max(width, len(head) * 7.6 + 40)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + 36:.0f}" viewBox="0 -36 {width:.0f} {height + 36:.0f}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" '
        'fill="#777"/></marker></defs>',
        f'<rect x="0" y="-36" width="100%" height="100%" fill="#ffffff"/><text x="20" y="-12" fill="#333" font-weight="600">{html.escape(head)}</text>',
    ]  # fmt: skip
    for b in boxes:
        for t in b.targets:
            x0, y0, x1, y1 = b.x + b.w / 2, b.y + b.h, t.x + t.w / 2, t.y
            bend = max((y1 - y0) / 2, 12)
            out.append(
                f'<path d="M{x0:.1f},{y0:.1f} C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1:.1f}" fill="none" stroke="#777" '
                'marker-end="url(#tip)"/>'
            )
    for b in boxes:
        fill, edge = _FILL["again" if b.again else b.kind]
        out.append(f'<g class="{b.kind}"><title>{html.escape(b.tip)}</title>')
        out.append(f'<rect x="{b.x:.1f}" y="{b.y:.1f}" width="{b.w:.1f}" height="{b.h:.1f}" rx="6" fill="{fill}" stroke="{edge}"/>')
        middle = b.x + b.w / 2
        out.append(f'<text x="{middle:.1f}" y="{b.y + 17:.1f}" text-anchor="middle" font-weight="600" fill="#222">{html.escape(b.title)}</text>')
        for i, line in enumerate(b.lines):
            out.append(f'<text x="{middle:.1f}" y="{b.y + 34 + 16 * i:.1f}" text-anchor="middle" font-size="12" fill="#444">{html.escape(line)}</text>')
        out.append("</g>")
    out.append("</svg>")
    text = "\n".join(out)
    if path is not None:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return text
