"""Optimizers: each reads like the formula in its paper; the engine makes one pass over memory of a step.

>>> import tensorx as tx
>>> w = tx.asarray([3.0]).requires_grad_()
>>> optimizer = tx.optim.SGD([w], lr=0.1, momentum=0.9)
>>> for _ in range(3):
...     optimizer.zero_grad()
...     loss = (w * w).sum()
...     loss.backward()
...     optimizer.step()
>>> optimizer.last_step.with_grad, optimizer.last_step.total
(1, 1)
"""

from __future__ import annotations

import tensorx.optim.lr_scheduler as lr_scheduler
from tensorx.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm
from tensorx.optim.adadelta import Adadelta
from tensorx.optim.adagrad import Adagrad
from tensorx.optim.adam import Adam, AdamW
from tensorx.optim.adamax import Adamax
from tensorx.optim.lbfgs import LBFGS
from tensorx.optim.lion import Lion
from tensorx.optim.nadam import NAdam
from tensorx.optim.optimizer import LastStep, Optimizer
from tensorx.optim.radam import RAdam
from tensorx.optim.rmsprop import RMSprop
from tensorx.optim.rprop import Rprop
from tensorx.optim.sgd import SGD

__all__ = [
    "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LastStep", "Lion", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop",
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "lr_scheduler",
]  # fmt: skip
