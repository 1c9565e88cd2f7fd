"""tensorx: tensors on the CPU and on Apple Metal, with every byte of memory explained.

>>> import tensorx as tx
>>> x = tx.ones(4)
>>> x = x * 2.0 + 1.0          # written in place: nobody else holds the old x
>>> x.tolist()
[3.0, 3.0, 3.0, 3.0]
"""

from __future__ import annotations

try:
    from tensorx import _core
except ImportError as error:
    import os as _os

    if not any(name.startswith("_core.") and name.endswith((".so", ".pyd")) for name in _os.listdir(_os.path.dirname(__file__))):
        raise ImportError(
            "tensorx._core is not built: this is the source folder. Run `pip install -e .` in it, "
            "or leave the folder if tensorx is installed elsewhere."
        ) from error
    raise

from tensorx.errors import *
from tensorx.dtypes import *
from tensorx.device import Device, default_device, device, devices, set_default_device
from tensorx._core import Tensor
from tensorx import layout, memory, metal
from tensorx import tensor as _tensor_methods
from tensorx.ops.elementwise import *
from tensorx.ops.movement import *
from tensorx.ops.creation import *
from tensorx.ops.joining import *
from tensorx.ops.reduce import *
from tensorx.ops.matmul import *
from tensorx.ops.indexing import *
from tensorx.ops.assigning import *
from tensorx.ops.sorting import *
from tensorx.dlpack import from_dlpack
from tensorx.evaluation import deferred, eval, get_num_threads, may_overlap, set_deferred, set_num_threads, shares_storage, synchronize
from tensorx.inspection import __array_namespace_info__
from tensorx.tensor import astype
from tensorx import ecosystem as _ecosystem
from tensorx import autograd
from tensorx.ops.contraction import *
from tensorx.ops.padding import *
from tensorx.ops.arranging import *
from tensorx.ops.ranking import *
from tensorx.ops.missing import *
from tensorx.ops.counting import *
from tensorx.ops.numerical import *
from tensorx import fft, linalg, random
from tensorx.random import manual_seed, rand, randint, randn, randperm
from tensorx.custom import CustomOp, InplaceOp, set_op_timeout
from tensorx.autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tensorx import io, nn
from tensorx.io import load, save
from tensorx import optim
from tensorx import train
from tensorx import spelling as _spelling

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793


def _warn_of_stranger(folder):
    """The package called tensorx on PyPI fills a folder of the same name: both cannot be installed."""
    import os
    import warnings

    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith("tensorx-") and name.endswith((".dist-info", ".egg-info")):
            warnings.warn(
                f"the distribution {name.rsplit('.', 1)[0]!r} is installed beside tensorx-runtime; it is another project that uses the same "
                "folder: uninstall both, then install tensorx-runtime again",
                stacklevel=3,
            )


_warn_of_stranger(__file__.rsplit("tensorx", 1)[0])
_ecosystem.install()
_spelling.install()


def _refuse_unsupported():
    """Without the GIL the counts of owners are not safe: the import says so instead of being wrong now and then."""
    import sys

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError(
            "tensorx does not support running without the GIL: on a free-threaded build of Python start with PYTHON_GIL=1 "
            "(or python -X gil=1), or use the ordinary build; its long kernels release the GIL there"
        )


_refuse_unsupported()
