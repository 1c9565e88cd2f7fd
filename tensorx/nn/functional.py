"""The functions behind the modules."""

from __future__ import annotations

from tensorx.nn.activation import *
from tensorx.nn.attention import scaled_dot_product_attention
from tensorx.nn.conv import *
from tensorx.nn.ctc import *
from tensorx.nn.dropout import *
from tensorx.nn.linear import bilinear, linear
from tensorx.nn.loss import *
from tensorx.nn.normalization import *
from tensorx.nn.padding import pad
from tensorx.nn.pooling import *
from tensorx.nn.shaping import *
from tensorx.nn.sparse import *

__all__ = [name for name in dir() if not name.startswith("_") and name[0].islower() and name != "annotations"]
