"""Modules: layers, losses and containers, with the names, arguments and state_dict keys of PyTorch.

>>> import tensorx as tx
>>> net = tx.nn.Sequential(tx.nn.Linear(8, 16), tx.nn.ReLU(), tx.nn.Linear(16, 2))
>>> net(tx.ones((4, 8))).shape
(4, 2)
"""

from __future__ import annotations

from tensorx.nn import functional, init, utils
from tensorx.nn.activation import *
from tensorx.nn.attention import MultiheadAttention
from tensorx.nn.containers import *
from tensorx.nn.conv import *
from tensorx.nn.criterion import *
from tensorx.nn.dropout import *
from tensorx.nn.linear import Bilinear, Identity, LazyLinear, Linear
from tensorx.nn.module import Module
from tensorx.nn.normalization import *
from tensorx.nn.padding import *
from tensorx.nn.parameter import Buffer, Parameter, UninitializedParameter
from tensorx.nn.pooling import *
from tensorx.nn.rnn import *
from tensorx.nn.shaping import *
from tensorx.nn.sparse import *
from tensorx.nn.transformer import *

# Functions are in nn.functional; here are classes only, and the files that they come from.
for _name in functional.__all__:
    if callable(globals().get(_name)):
        del globals()[_name]
from tensorx.nn import dropout  # noqa: E402
