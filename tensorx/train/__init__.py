"""Training loops: a Trainer with progress, metrics, validation, early stopping, checkpoints and resume; data in batches.

>>> import tensorx as tx
>>> from tensorx import nn, train
>>> x = tx.reshape(tx.arange(32, dtype=tx.float32), (16, 2)) / 32.0
>>> data = train.TensorDataset(x, tx.sum(x, axis=1, keepdims=True))
>>> model = nn.Linear(2, 1)
>>> trainer = train.Trainer(model, tx.optim.Adam(model.parameters(), lr=0.1), nn.functional.mse_loss, progress=None)
>>> history = trainer.fit(train.DataLoader(data, batch_size=8, shuffle=True, seed=0), epochs=2)
>>> len(history), "loss" in history[-1]
(2, True)
"""

from __future__ import annotations

from tensorx.train.checkpoint import load_checkpoint, save_checkpoint
from tensorx.train.data import DataLoader, Subset, TensorDataset, random_split
from tensorx.train.metrics import Accuracy, Mean, Metric
from tensorx.train.stopping import EarlyStopping
from tensorx.train.trainer import Trainer, check_gradients

__all__ = [
    "Accuracy", "DataLoader", "EarlyStopping", "Mean", "Metric", "Subset", "TensorDataset", "Trainer", "check_gradients",
    "load_checkpoint", "random_split", "save_checkpoint",
]  # fmt: skip
