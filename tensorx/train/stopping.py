"""Early stopping."""

from __future__ import annotations

import math

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Ends training when a figure of the history has not improved for more than ``patience`` epochs.

    monitor: its name ("val_loss", "val_accuracy", "loss", ...). mode: "min" or "max"; "auto" takes max for accuracies.
    An improvement is larger than min_delta. restore_best: the model gets the values of its best epoch back at the end.

    >>> import tensorx as tx
    >>> stopping = tx.train.EarlyStopping("val_loss", patience=1)
    >>> [stopping.update(v) for v in (1.0, 0.5, 0.6, 0.7)]
    [False, False, False, True]
    """

    def __init__(self, monitor="val_loss", patience=5, mode="auto", min_delta=0.0, restore_best=False):
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"EarlyStopping: mode is 'auto', 'min' or 'max', got {mode!r}")
        self.monitor, self.patience, self.min_delta, self.restore_best = monitor, patience, min_delta, restore_best
        self.mode = mode if mode != "auto" else "max" if "acc" in monitor else "min"
        self.best = math.inf if self.mode == "min" else -math.inf
        self.waited = 0
        self.improved = False

    def update(self, value):
        """Takes the figure of an epoch; True where training is to end."""
        way = 1 if self.mode == "max" else -1
        self.improved = way * value > way * self.best + self.min_delta
        if self.improved:
            self.best, self.waited = value, 0
            return False
        self.waited += 1
        return self.waited > self.patience

    def state_dict(self):
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state):
        self.best, self.waited = state["best"], state["waited"]
