"""The recorder of allocations, snapshots and the finder of leaks; public as :mod:`tensorx.memory`."""

from __future__ import annotations

import collections
import gc
import linecache
import os
import re
import sys

from tensorx import _core
from tensorx._core import Node, Saved, Tensor
from tensorx.autograd.tape import site_text
from tensorx.holders import Paths, is_a, names_of, with_article

_SHARED = re.compile(r"shared by: .*|exported to .*")


def size_text(n):
    """Bytes, readable.

    >>> size_text(3 * 2**20)
    '3.0 MiB'
    """
    sign, n = ("-", -n) if n < 0 else ("", n)
    if n < 1024:
        return f"{sign}{n} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        n /= 1024
        if n < 1024 or unit == "TiB":
            return f"{sign}{n:.1f} {unit}"
    raise AssertionError


def place(site):
    """(file, line, function) of a call site."""
    if site is None:
        return "?", 0, "?"
    file, _, line = site_text(site).rpartition(":")
    return file, int(line), site[0].co_name


def short_path(file):
    """A path as people write it: relative to the current folder where it lies below."""
    try:
        rel = os.path.relpath(file)
    except ValueError:
        return file
    return file if rel.startswith("..") else rel


class Line:
    """What one source line allocated: ``file``, ``line``, ``function``, ``source``, ``op``, ``bytes``, ``count``, ``reused`` (values
    that took over memory instead), ``live`` (bytes at the end), ``peak_bytes`` and ``peak_share`` (of the peak), ``reasons``."""

    def __init__(self, file, line, function, op):
        self.file, self.line, self.function, self.op = file, line, function, op
        self.bytes = self.count = self.reused = self.live = self.peak_bytes = 0
        self.peak_share = 0.0
        self.reasons = collections.Counter()

    @property
    def source(self):
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def reason(self):
        """The most frequent reason why no buffer was reused."""
        return self.reasons.most_common(1)[0][0] if self.reasons else ""

    @property
    def where(self):
        """``file:line``."""
        return f"{short_path(self.file)}:{self.line}"

    def __repr__(self):
        return f"<{self.where} {self.op}: {size_text(self.bytes)} in {self.count}, {self.reason or f'{self.reused} reused'}>"


class record:
    """Records every allocation in a block, on all devices and threads, with its line and the reason why no buffer was reused.

    ``with tx.memory.record() as r:`` ... then ``print(r)`` or ``r.report()``; ``r.lines()`` for the figures, ``r.blocks`` for single
    allocations (nbytes, op, site, reason, born, died), ``r.save_html(path)`` for a page with a timeline, ``r.plot(path)`` for
    a picture (matplotlib). Evaluates what is pending on entry and on exit. The report names who held a buffer that could not
    be reused: variables, attributes, items of containers.

    limit: allocations kept singly; later ones are counted only. Costs nothing outside the block. Inside another ``record``, also that of
    ``python -m tensorx memory``, the outer one misses nothing of the inner one's block.

    >>> import tensorx as tx
    >>> x = tx.ones(1024)
    >>> keep = x.alias()
    >>> with tx.memory.record() as r:
    ...     x = x * 2.0 + 1.0
    >>> [(line.bytes, line.reason) for line in r.lines()]            # doctest: +ELLIPSIS
    [(4096, "shared by: global 'keep'...)]
    """

    def __init__(self, limit=1_000_000):
        self._limit = limit
        self._core = None

    def __enter__(self):
        _core.evaluate()
        self._known = collections.Counter()
        self._last: dict = {}
        self.start = _live()
        running = _core.set_recorder(None)
        if running is not None:
            _core.set_recorder(running)
            running.finish()
            self._core = _Window(running, self._limit)
            return self
        self._core = _core.Recorder(self._limit)
        self._core.name = self._name
        _core.set_recorder(self._core)
        return self

    def __exit__(self, kind, value, traceback):
        nested = type(self._core) is _Window
        try:
            if kind is None:
                _core.evaluate()
            self._core.finish()
        finally:
            if not nested:
                _core.set_recorder(None)
                self._core.name = None
        self.end = _live()

    # ---- names of those who held a buffer

    def _name(self, token, serial, leaf):
        """Called by the core after an evaluation: makes the reason of a token name the holders."""
        if leaf is not None:
            names = self._names_of_leaf(token, leaf)
            token.reason = re.sub(r"operand \d+", names, token.reason, count=1) if names else token.reason
            return
        key = (token.site, token.reason)
        self._known[key] += 1
        if self._known[key] > 3 and key in self._last:
            text = self._last[key]
        else:
            text = ", ".join(str(h) for h in names_of(serial)[:3])
            self._last[key] = text
        if text:
            token.reason = f"shared by: {text}" if token.reason.startswith("shared by") else f"{token.reason} ({text})"

    def _names_of_leaf(self, token, leaf):
        key = (token.site, id(leaf))
        if key not in self._last:
            found = [h.name for h in names_of(_core.serial_of(leaf))]
            self._last[key] = re.sub(r"^'(.*?)'.*", r"\1", found[0]) if found else ""
        return self._last[key]

    # ---- figures

    @property
    def blocks(self):
        """All allocations, in order."""
        return self._core.blocks

    @property
    def bytes(self):
        """Bytes allocated in the block."""
        return sum(b.nbytes for b in self.blocks)

    @property
    def allocations(self):
        """Number of allocations."""
        return len(self.blocks) + self._core.dropped

    def events(self):
        """(number, seconds, bytes: negative for a release, block or None) in order."""
        out = []
        for b in self.blocks:
            out.append((b.first, b.born, b.nbytes, b))
            if b.last >= 0:
                out.append((b.last, b.died, -b.nbytes, b))
        out += [(n, t, -nbytes, None) for n, t, nbytes, _ in self._core.others]
        out.sort(key=lambda e: e[0])
        return out

    def peak(self):
        """(bytes above the start, event number) of the largest total."""
        now = best = 0
        at = -1
        for n, _, by, _ in self.events():
            now += by
            if now > best:
                best, at = now, n
        return best, at

    def peak_blocks(self):
        """The blocks that were alive at the peak."""
        at = self.peak()[1]
        return [b for b in self.blocks if b.first <= at and (b.last < 0 or b.last > at)]

    def lines(self, device=None):
        """A :class:`Line` per source line and op, most bytes first."""
        found: dict = {}

        def line_of(site, op):
            file, line, function = place(site)
            key = (file, line, op)
            if key not in found:
                found[key] = Line(file, line, function, op)
            return found[key]

        for b in self.blocks:
            if device is not None and _core.device_number_name(b.device) != str(device):
                continue
            it = line_of(b.site, b.op)
            it.bytes += b.nbytes
            it.count += 1
            it.reasons[b.reason] += 1
            if b.last < 0:
                it.live += b.nbytes
            for _, op, site in b.reused or ():
                line_of(site, op).reused += 1
        for _, op, site, _ in self._core.reuses:
            line_of(site, op).reused += 1
        at_peak = self.peak_blocks()
        total = sum(b.nbytes for b in at_peak)
        for b in at_peak:
            it = line_of(b.site, b.op)
            it.peak_bytes += b.nbytes
            it.peak_share = it.peak_bytes / total if total else 0.0
        return sorted(found.values(), key=lambda i: (-i.bytes, -i.reused, i.file, i.line))

    # ---- texts

    def report(self, limit=30):
        """The table as text: bytes, allocations, share of the peak, line, op and reason, for the lines that allocated most."""
        peak, _ = self.peak()
        lines = self.lines()
        head = f"memory recorded: {self.allocations} allocations, {size_text(self.bytes)} in all; peak {size_text(peak)} above the start"
        for name in sorted(self.end if hasattr(self, "end") else self.start):
            before, after = self.start.get(name, 0), getattr(self, "end", self.start).get(name, 0)
            head += f"\n  {name}: {size_text(before)} alive before, {size_text(after)} after"
        out = [head]
        if self._core.dropped:
            out.append(f"  only the first {self._limit} allocations are listed, {self._core.dropped} more were made")
        allocating = [i for i in lines if i.count]
        if allocating:
            out += ["", f"{'bytes':>11} {'count':>7} {'of peak':>8}  line"]
        for i in allocating[:limit]:
            out.append(f"{size_text(i.bytes):>11} {i.count:>7} {i.peak_share:>8.0%}  {i.where} in {i.function}: {i.op}")
            if i.source:
                out.append(f"{'':>30}{i.source}")
            for reason, n in i.reasons.most_common(3):
                out.append(f"{'':>30}- {reason}" + (f" ({n} times)" if n > 1 or len(i.reasons) > 1 else ""))
        if len(allocating) > limit:
            rest = sum(i.bytes for i in allocating[limit:])
            out.append(f"{size_text(rest):>11} {sum(i.count for i in allocating[limit:]):>7}{'':>10} in {len(allocating) - limit} more lines")
        reused = [i for i in lines if i.reused]
        if reused:
            out += ["", "computed in memory that was free to be reused (0 bytes):"]
            for i in sorted(reused, key=lambda i: -i.reused)[:10]:
                out.append(f"{'':>11} {i.reused:>7} times  {i.where} in {i.function}: {i.op}")
        return "\n".join(out)

    def __str__(self):
        return self.report()

    def print(self, file=None):
        """Prints the report."""
        print(self.report(), file=file or sys.stdout)

    def save_html(self, path, title="Memory of tensorx", notes=""):
        """Writes one self-contained page: a timeline to zoom into and click on, notes (any text, as that of :func:`leaks`) and the table.
        Works without a network."""
        from tensorx.page import write_page

        write_page(self, path, title, notes)

    def plot(self, path=None, ax=None):
        """Draws the timeline with matplotlib (``pip install tensorx-runtime[plot]``), by line; returns the axes."""
        from tensorx.page import plot

        return plot(self, path, ax)


class _Block:
    """A Token of the outer recorder as a nested one sees it: nothing that happens after its end."""

    def __init__(self, token, window):
        self.nbytes, self.device, self.op, self.site, self.reason = token.nbytes, token.device, token.op, token.site, token.reason
        self.first, self.last, self.died, self.serial, self.owner = token.first - window.start, -1, -1, token.serial, window
        self.born = token.born - window.began
        if window.covers(token.last):
            self.last, self.died = token.last - window.start, token.died - window.began
        self.reused = [(n - window.start, op, site) for n, op, site in token.reused or () if window.covers(n)]


class _Window:
    """What a recorder notes between two moments, as a recorder of its own: for a ``record`` that is used inside another."""

    def __init__(self, core, limit):
        self._core, self._limit, self._end = core, limit, None
        self.start, self._kept, self._dropped = core.events, len(core.blocks), core.dropped
        self.began = _core.Recorder(0).began - core.began
        self._blocks = None

    def covers(self, event):
        """Whether an event of the outer recorder is one of this."""
        return self.start <= event < (self._core.events if self._end is None else self._end)

    def finish(self):
        self._core.finish()
        self._end, self._blocks = self._core.events, self.blocks

    @property
    def events(self):
        return (self._core.events if self._end is None else self._end) - self.start

    @property
    def _mine(self):
        return [t for t in self._core.blocks[self._kept :] if self.covers(t.first)]

    @property
    def blocks(self):
        return [_Block(t, self) for t in self._mine[: self._limit]] if self._blocks is None else self._blocks

    @property
    def dropped(self):
        return max(len(self._mine) - self._limit, 0) + self._core.dropped - self._dropped

    @property
    def others(self):
        """Releases of blocks from before, those that the outer recorder knows included."""
        out = [(t.last, t.died, t.nbytes, t.device) for t in self._core.blocks[: self._kept]] + self._core.others
        return [(n - self.start, at - self.began, nbytes, device) for n, at, nbytes, device in out if self.covers(n)]

    @property
    def reuses(self):
        """The same of reuses."""
        out = [(*r, t.nbytes) for t in self._core.blocks[: self._kept] for r in t.reused or ()] + self._core.reuses
        return [(n - self.start, *rest) for n, *rest in out if self.covers(n)]


def _live():
    import tensorx as tx
    from tensorx.device import opened

    out = {}
    for d in dict.fromkeys([*tx.devices(), *opened()]):  # further instances of a GPU, too
        if d.type == "cpu" or getattr(d.backend, "used", True):
            out[d.name] = tx.memory.stats(d)["live"]
    return out


# ---- what is alive -----------------------------------------------------------------------------------------


class Snapshot:
    """What was alive at one moment: ``len(s)`` storages, ``s.bytes``; ``later - earlier`` lists what is new."""

    def __init__(self):
        self.storages: dict = {}
        for o in gc.get_objects():
            if type(o) in (Tensor, Node, Saved):
                for serial, nbytes, device, token, foreign in _core.kept_by(o):
                    if not foreign:
                        self.storages[serial] = (nbytes, _core.device_number_name(device), token)

    @property
    def bytes(self):
        """Bytes of all storages."""
        return sum(n for n, _, _ in self.storages.values())

    def __len__(self):
        return len(self.storages)

    def __sub__(self, earlier):
        """[(bytes, device, op and line or None)] of storages that the earlier snapshot does not have, largest first."""
        out = []
        for serial, (nbytes, device, token) in self.storages.items():
            if serial not in earlier.storages:
                out.append((nbytes, device, None if token is None else f"{token.op} at {site_text(token.site)}"))
        return sorted(out, key=lambda e: -e[0])

    def __repr__(self):
        return f"<snapshot: {len(self)} storages, {size_text(self.bytes)}>"


def snapshot():
    """What is alive now, after evaluating what is pending and collecting garbage: see :class:`Snapshot`.

    >>> import tensorx as tx
    >>> before = tx.memory.snapshot()
    >>> kept = [tx.ones(1000) for _ in range(3)]
    >>> after = tx.memory.snapshot()
    >>> [nbytes for nbytes, device, line in after - before]
    [4000, 4000, 4000]
    """
    _settle()
    gc.collect()
    _settle()
    return Snapshot()


def _settle():
    try:
        _core.evaluate()
    except MemoryError:  # what does not fit stays pending: it has no storage
        pass


class Leak:
    """Storages that one name keeps: ``name``, ``where`` (file:line of the name), ``bytes``, ``count``, ``example`` (the whole path),
    ``made`` (ops and lines that made or keep them, with counts)."""

    def __init__(self, name, where):
        self.name, self.where = name, where
        self.bytes = self.count = 0
        self.example = ""
        self.what = ""
        self.made = collections.Counter()

    def __str__(self):
        text = f"{size_text(self.bytes)} in {self.count} storage{'s' if self.count > 1 else ''}: held by {self.name}"
        text += f" ({self.where})" if self.where else ""
        text += f", {self.what}" if self.what else ""
        text += f"\n    for example {self.example}" if self.example else ""
        for made, n in self.made.most_common(4):
            text += f"\n    {n} x {made}"
        return text

    __repr__ = __str__


class Leaks(list):
    """What :func:`leaks` found: a list of :class:`Leak`, readable as text."""

    def __str__(self):
        if not self:
            return "no leaks: nothing is alive that was not before"
        total = sum(i.bytes for i in self)
        count = sum(i.count for i in self)
        text = f"alive now and not before: {size_text(total)} in {count} storage{'s' if count > 1 else ''}\n" + "\n".join(str(i) for i in self[:8])
        return text + (f"\n... and {size_text(sum(i.bytes for i in self[8:]))} held by {len(self) - 8} more names" if len(self) > 8 else "")


def leaks(before):
    """What is alive now and was not at the snapshot ``before``, grouped by the name that holds it, largest first.

    Each says which variable, attribute or container keeps the storages and by which path (a list of losses keeps their graphs,
    and those keep activations), and the ops and lines that made them where a recorder ran (:class:`record`) or a gradient
    needs them.

    >>> import tensorx as tx
    >>> before = tx.memory.snapshot()
    >>> losses = []
    >>> for step in range(5):
    ...     w = tx.ones(100).requires_grad_()
    ...     losses.append((w * w).sum())
    >>> del w
    >>> print(tx.memory.leaks(before))                                # doctest: +ELLIPSIS
    alive now and not before: ...
    ... held by global 'losses'...
    """
    now = snapshot()
    new = {s for s in now.storages if s not in before.storages}
    keepers = collections.defaultdict(list)
    if new:
        for o in gc.get_objects():
            if type(o) in (Tensor, Node, Saved):
                for entry in _core.kept_by(o):
                    if entry[0] in new:
                        keepers[entry[0]].append(o)
    everyone = {id(o) for objects in keepers.values() for o in objects}
    paths = Paths((keepers, new, now, now.storages, before, before.storages, *keepers.values()), everyone) if new else None
    groups: dict = {}
    for serial in sorted(new, key=lambda s: (-now.storages[s][0], s)):  # the largest gives the example
        nbytes, _, token = now.storages[serial]
        best = None
        for o in keepers[serial]:
            path = paths.of(o)
            if path is not None and (best is None or len(path[1]) < len(best[1])):
                best = (*path, o)
        if best is None:
            key, where = "nothing that has a name (a reference cycle, or code outside Python)", None
        else:
            outer = re.match(r"\w+", best[1])[0]
            key, where = f"{best[0]} {outer!r}{best[2].partition(' -> ')[0]}", best[3]
        leak = groups.get((key, where))
        if leak is None:
            leak = groups[key, where] = Leak(key, where)
            if best is not None:
                chain = paths.containers(best[4])
                leak.what = _describe(chain[0]) if chain else ""
        leak.bytes += nbytes
        leak.count += 1
        if best is not None and not leak.example:
            leak.example = best[1] + best[2][best[2].find(" -> ") :] if " -> " in best[2] else best[1]
            if all(is_a(o, Tensor) and 2 * o.nbytes <= nbytes for o in keepers[serial]):
                leak.example += f" (a view: {size_text(best[4].nbytes)} of {size_text(nbytes)}, which it keeps; copy() keeps only its own)"
        node = next((o for o in reversed(paths.containers(best[4])) if is_a(o, Node)), None) if best is not None else None
        if node is not None and not is_a(best[4], Tensor):
            leak.made[f"kept for the gradient of {node.name} at {site_text(node.site)}"] += 1
        if token is not None:
            leak.made[f"made by {token.op} at {site_text(token.site)}"] += 1
    del keepers
    return Leaks(sorted(groups.values(), key=lambda i: -i.bytes))


def _describe(o):
    if is_a(o, Tensor):
        return f"a tensor of shape {o.shape}"
    if is_a(o, list | tuple | dict | set | collections.deque):
        return f"a {type(o).__name__} of {len(o)}"
    return with_article(type(o).__name__)
