"""Progress of a run: a bar where the output is a terminal, plain lines where it is not."""

from __future__ import annotations

import sys
import time


def make(kind, stream=None):
    """kind: "auto", "tqdm", "rich", "lines" or None."""
    stream = sys.stderr if stream is None else stream
    if kind is None:
        return Silent()
    if kind == "auto":
        kind = "lines"
        if stream.isatty():
            for name in ("tqdm", "rich"):
                try:
                    __import__(name)
                except ImportError:
                    continue
                kind = name
                break
    if kind == "tqdm":
        return Tqdm(stream)
    if kind == "rich":
        return Rich()
    if kind == "lines":
        return Lines(stream)
    raise ValueError(f"progress: 'auto', 'tqdm', 'rich', 'lines' or None, got {kind!r}")


def figures(values):
    """``loss 0.1234  accuracy 0.9876``."""
    return "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items())


class Silent:
    """No output at all."""

    def say(self, text):
        pass

    def begin(self, title, total, at=0):
        pass

    def advance(self, values):
        pass

    def end(self, values=None):
        pass


class Lines(Silent):
    """One line when an epoch ends, and every ten seconds of a long one."""

    def __init__(self, stream, every=10.0):
        self._stream, self._every = stream, every

    def say(self, text):
        print(text, file=self._stream, flush=True)

    def begin(self, title, total, at=0):
        self._title, self._total, self._at = title, total, at
        self._began = self._last = time.monotonic()

    def advance(self, values):
        self._at += 1
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self.say(f"{self._title}  {self._at}/{self._total}  {figures(values)}")

    def end(self, values=None):
        if values is not None:
            self.say(f"{self._title}  {figures(values)}  ({time.monotonic() - self._began:.1f} s)")


class Tqdm(Silent):
    """A bar of tqdm for each epoch."""

    def __init__(self, stream):
        from tqdm import tqdm

        self._tqdm, self._stream, self._bar = tqdm, stream, None

    def say(self, text):
        self._tqdm.write(text, file=self._stream)

    def begin(self, title, total, at=0):
        self._bar = self._tqdm(total=total, initial=at, desc=title, file=self._stream, leave=True, dynamic_ncols=True)

    def advance(self, values):
        self._bar.set_postfix_str(figures(values), refresh=False)
        self._bar.update(1)

    def end(self, values=None):
        if self._bar is not None:
            if values is not None:
                self._bar.set_postfix_str(figures(values))
            self._bar.close()
            self._bar = None


class Rich(Silent):
    """A bar of rich for each epoch."""

    def __init__(self):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[figures]}"))
        self._make = lambda: Progress(*columns)
        self._bar = None

    def say(self, text):
        import rich

        (self._bar.console if self._bar is not None else rich.get_console()).print(text)

    def begin(self, title, total, at=0):
        self._bar = self._make()
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, completed=at, figures="")

    def advance(self, values):
        self._bar.update(self._task, advance=1, figures=figures(values))

    def end(self, values=None):
        if self._bar is not None:
            if values is not None:
                self._bar.update(self._task, figures=figures(values))
            self._bar.stop()
            self._bar = None
