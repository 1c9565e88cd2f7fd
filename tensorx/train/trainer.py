"""Trainer: the loop over epochs and batches, with everything around it."""

from __future__ import annotations

import math
import os

from tensorx import _core
from tensorx._core import Tensor
from tensorx.autograd.modes import no_grad
from tensorx.errors import GradientError
from tensorx.nn.utils import clip_grad_norm_
from tensorx.ops import elementwise, reduce
from tensorx.optim.lr_scheduler import ReduceLROnPlateau
from tensorx.random import default_generator
from tensorx.train import progress as _progress
from tensorx.train.checkpoint import load_checkpoint, save_checkpoint
from tensorx.train.data import to_device

__all__ = ["Trainer", "check_gradients"]


def check_gradients(model, step=None):
    """GradientError that names the parameters whose gradient has NaN or infinite elements.

    >>> import tensorx as tx
    >>> layer = tx.nn.Linear(2, 1)
    >>> (layer(tx.ones((1, 2))) * float("nan")).sum().backward()
    >>> tx.train.check_gradients(layer)
    Traceback (most recent call last):
        ...
    tensorx.GradientError: the gradients of weight (2 of 2 elements), bias (1 of 1 elements) are not finite; ...
    """
    bad = []
    with no_grad():
        for name, p in model.named_parameters():
            g = p.grad
            if g is not None:
                wrong = g.size - int(reduce.sum(elementwise.isfinite(g)))
                if wrong:
                    bad.append(f"{name} ({wrong} of {g.size} elements)")
    if bad:
        when = "" if step is None else f" in step {step}"
        raise GradientError(
            f"the gradients of {', '.join(bad[:8])}{' and others' if len(bad) > 8 else ''} are not finite{when}; no parameter was changed by them. Usual "
            "causes: a learning rate that is too high, a loss that overflows (log or division by 0), bad input; "
            "`with tx.autograd.detect_anomaly():` names the op where NaN appears"
        )


class Trainer:
    """Trains a model: ``fit`` runs the epochs, ``evaluate`` measures.

    model, optimizer: as usual. loss: ``loss(output, target)``, where a batch is (input, target); or with ``step=`` a function
    ``step(model, batch) -> (loss, output, target)`` for other batches.
    metrics: a dictionary of :class:`Metric`. scheduler: stepped after every epoch, or every batch with scheduler_every="batch".
    device: batches are moved there (the model is not). clip_norm: the gradient is clipped to that norm.
    check_nan: GradientError that names the parameter before a gradient that is not finite changes anything.
    early_stopping: an :class:`EarlyStopping`.
    checkpoint: path of a file that is written after every epoch, and every checkpoint_steps batches; ``fit`` goes on from it where
    it exists, to the same bits as a run that was never interrupted (with loaders that have a seed).
    progress: "auto" (a bar on a terminal, else lines), "tqdm", "rich", "lines" or None.
    """

    def __init__(
        self, model, optimizer, loss=None, *, step=None, metrics=None, scheduler=None, scheduler_every="epoch", device=None, clip_norm=None,
        check_nan=False, early_stopping=None, checkpoint=None, checkpoint_steps=None, progress="auto",
    ):  # fmt: skip
        if (loss is None) == (step is None):
            raise ValueError("Trainer: give loss or step, one of them")
        if scheduler_every not in ("epoch", "batch"):
            raise ValueError(f"Trainer: scheduler_every is 'epoch' or 'batch', got {scheduler_every!r}")
        self.model, self.optimizer, self.loss, self._step = model, optimizer, loss, step
        for name, p in model.named_parameters():
            self.optimizer._names.setdefault(p, name)
        self.metrics = dict(metrics or {})
        self.scheduler, self.scheduler_every, self.device = scheduler, scheduler_every, device
        self.clip_norm, self.check_nan, self.early_stopping = clip_norm, check_nan, early_stopping
        self.checkpoint = None if checkpoint is None else os.fspath(checkpoint)
        self.checkpoint_steps = checkpoint_steps
        self.progress = _progress.make(progress)
        self.history: list = []  # a dictionary of figures per epoch
        self.epoch = self.steps = 0
        self.stopped = False
        self._sums = [0.0, 0]  # loss of the epoch so far, times entries; entries
        self._best = None

    # ---- one batch ---------------------------------------------------------------------------

    def forward(self, batch):
        """(loss, output, target) of a batch."""
        if self.device is not None:
            batch = to_device(batch, self.device)
        if self._step is not None:
            return self._step(self.model, batch)
        x, target = batch
        output = self.model(x)
        return self.loss(output, target), output, target

    def train_batch(self, batch):
        """One step of the optimizer; returns (loss, entries, output, target)."""
        self.optimizer.zero_grad()
        loss, output, target = self.forward(batch)
        loss.backward()
        if self.steps == 0:
            self._report()
        if self.check_nan:
            check_gradients(self.model, self.steps)
        if self.clip_norm is not None:
            clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        if self.scheduler is not None and self.scheduler_every == "batch":
            self.scheduler.step()
        self.steps += 1
        return loss.item(), _entries(target), output, target

    def _report(self):
        """Before the first step: what is trained, and which parameters have a gradient."""
        text = self.model.summary()
        if text is not None:
            self.progress.say(str(text))
        named = list(self.model.named_parameters())
        missing = [name for name, p in named if p.grad is None]
        line = f"step 0: {len(named) - len(missing)} of {len(named)} parameters have a gradient"
        self.progress.say(line + (f"; without: {', '.join(missing)}" if missing else ""))

    # ---- epochs ----------------------------------------------------------------------------------

    def fit(self, loader, epochs, validation=None, resume=True):
        """Trains up to a number of epochs (those of a checkpoint count) and returns the history.

        validation: a loader; its figures get names that begin with ``val_``.
        """
        if resume and self.checkpoint is not None and os.path.exists(self.checkpoint):
            self.load(self.checkpoint, loader)
        while self.epoch < epochs and not self.stopped:
            self._epoch(loader, epochs, validation)
        if self.stopped and self._best is not None:
            self.model.load_state_dict(self._best)
        return self.history

    def _epoch(self, loader, epochs, validation):
        self.model.train()
        begun = self._sums[1] > 0
        if not begun:
            for metric in self.metrics.values():
                metric.reset()
        at = loader.state_dict()["batch"] if hasattr(loader, "state_dict") else 0
        self.progress.begin(f"epoch {self.epoch + 1}/{epochs}", len(loader) if hasattr(loader, "__len__") else None, at)
        values = None
        batches = iter(loader)
        try:
            for batch in batches:
                loss, n, output, target = self.train_batch(batch)
                self._sums[0] += loss * n
                self._sums[1] += n
                with no_grad():
                    for metric in self.metrics.values():
                        metric.update(output, target)
                output = target = batch = None
                self.progress.advance({"loss": self._sums[0] / self._sums[1]})
                inside = hasattr(loader, "state_dict") and loader.state_dict()["batch"] > 0
                if self.checkpoint_steps and self.steps % self.checkpoint_steps == 0 and self.checkpoint is not None and inside:
                    self.save(self.checkpoint, loader)
            if self._sums[1] == 0:
                raise ValueError("Trainer.fit: the loader gave no batch")
            values = {"loss": self._sums[0] / self._sums[1], **{name: m.compute() for name, m in self.metrics.items()}}
            if validation is not None:
                values |= {f"val_{name}": v for name, v in self.evaluate(validation).items()}
            values["lr"] = self.optimizer.param_groups[0]["lr"]
            self._close(values)
        finally:
            _close(batches)
            self.progress.end(values)
        if self.checkpoint is not None:
            self.save(self.checkpoint, loader)

    def _close(self, values):
        """The end of an epoch, after its figures are known."""
        self.history.append({"epoch": self.epoch + 1, **values})
        self.epoch += 1
        self._sums = [0.0, 0]
        if self.scheduler is not None and self.scheduler_every == "epoch":
            if isinstance(self.scheduler, ReduceLROnPlateau):
                self.scheduler.step(values.get("val_loss", values["loss"]))
            else:
                self.scheduler.step()
        stopping = self.early_stopping
        if stopping is not None:
            if stopping.monitor not in values:
                raise KeyError(f"EarlyStopping: there is no figure {stopping.monitor!r}; there are {', '.join(values)}")
            self.stopped = stopping.update(values[stopping.monitor])
            if stopping.improved and stopping.restore_best:
                self._best = self.model.state_dict()

    def evaluate(self, loader):
        """Loss and metrics over a loader, without gradients and in eval mode; the model's mode comes back."""
        was = self.model.training
        # the metrics of the epoch under way are kept
        kept = {name: dict(m.__dict__) for name, m in self.metrics.items()}
        self.model.eval()
        total, count = 0.0, 0
        batches = iter(loader)
        try:
            for metric in self.metrics.values():
                metric.reset()
            with no_grad():
                for batch in batches:
                    loss, output, target = self.forward(batch)
                    n = _entries(target)
                    total += float(loss) * n
                    count += n
                    for metric in self.metrics.values():
                        metric.update(output, target)
            found = {name: m.compute() for name, m in self.metrics.items()}
        finally:
            _close(batches)
            for name, m in self.metrics.items():
                m.__dict__.update(kept[name])
            self.model.train(was)
        return {"loss": total / count if count else math.nan, **found}

    # ---- checkpoints -------------------------------------------------------------------------------

    def state_dict(self, loader=None):
        """Everything that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "stopping": None if self.early_stopping is None else self.early_stopping.state_dict(),
            "loader": loader.state_dict() if hasattr(loader, "state_dict") else None,
            "random": default_generator.get_state(),
            "metrics": {name: {k: v for k, v in m.__dict__.items() if isinstance(v, (int, float, Tensor))} for name, m in self.metrics.items()},
            "history": self.history,
            "epoch": self.epoch,
            "steps": self.steps,
            "sums": self._sums,
            "stopped": self.stopped,
            "best": self._best,
        }

    def load_state_dict(self, state, loader=None):
        """Takes over what state_dict() gave."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None and state["scheduler"] is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        if self.early_stopping is not None and state["stopping"] is not None:
            self.early_stopping.load_state_dict(state["stopping"])
        if hasattr(loader, "load_state_dict") and state["loader"] is not None:
            loader.load_state_dict(state["loader"])
        default_generator.set_state(state["random"])
        for name, values in state["metrics"].items():
            if name in self.metrics:
                self.metrics[name].__dict__.update(values)
        self.history[:] = state["history"]
        self.epoch, self.steps, self._sums = state["epoch"], state["steps"], list(state["sums"])
        self.stopped, self._best = state["stopped"], state["best"]

    def save(self, path, loader=None):
        """Writes a checkpoint: whole or not at all."""
        save_checkpoint(path, self.state_dict(loader))

    def load(self, path, loader=None):
        """Goes on from a checkpoint."""
        self.load_state_dict(load_checkpoint(path), loader)
        _core.evaluate()


def _close(batches):
    """Ends the loader's thread now, also where an error's traceback keeps the iterator."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def _entries(target):
    return target.shape[0] if isinstance(target, Tensor) and target.ndim else 1
