"""The functions behind the modules."""

from __future__ import annotations

from tensorx.nn.activation import *
from tensorx.nn.ctc import *
from tensorx.nn.linear import bilinear, linear
from tensorx.nn.loss import *

__all__ = [name for name in dir() if not name.startswith("_") and name[0].islower() and name != "annotations"]
