"""Products of matrices and vectors.

The same bits for any number of threads, strides or batch: an element of the result depends on
its row, its column and the length of the inner axis alone.
"""

from __future__ import annotations

from tensorx import _core, dtypes
from tensorx.dtypes import dtype_from
from tensorx.errors import DeviceMismatchError, DTypeError, ShapeError
from tensorx.ops._record import record
from tensorx.ops.movement import axes_of, axis_of

__all__ = ["addmm", "bmm", "dot", "inner", "matmul", "matrix_transpose", "mv", "outer", "tensordot", "vecdot"]


def common(op, x, y):
    """Both operands in their common dtype, on one device."""
    for k, t in enumerate((x, y)):
        if not isinstance(t, _core.Tensor):
            raise DTypeError(f"{op}: operand {k + 1} must be a tensor, got {type(t).__name__}")
    if x.device is not y.device:
        raise DeviceMismatchError(f"{op}: operand 1 is on {x.device} and operand 2 on {y.device}; all operands must be on one device: "
                                  f"move one with .to({str(x.device)!r})")
    if x.dtype is not y.dtype:
        code = _core.promote_codes(x.dtype.code, y.dtype.code)
        if code < 0:
            raise DTypeError(f"{op}: {x.dtype.name} and {y.dtype.name} do not promote to a common dtype; convert one of them with astype")
        wide = x.dtype if x.dtype.code == code else y.dtype if y.dtype.code == code else dtype_from(_NAMES[code])
        x = x if x.dtype is wide else _core.cast(x, wide)
        y = y if y.dtype is wide else _core.cast(y, wide)
    return x, y


_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128")  # fmt: skip


def matmul(x1, x2, /):
    """Matrix product: of matrices, of batches of matrices (leading axes broadcast), of vectors (treated as a row on the
    left and a column on the right, without the extra axis in the result).

    float16 and bfloat16 accumulate in float32 and round once; integers wrap; of an empty inner axis zeros.
    Raises ShapeError for 0-d operands and sizes that do not fit.

    >>> import tensorx as tx
    >>> tx.matmul(tx.asarray([[1.0, 2.0], [3.0, 4.0]]), tx.asarray([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """
    x, y = common("matmul", x1, x2)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(f"matmul: operands need at least one axis, got shapes {x.shape} and {y.shape}; use multiply")
    inner_y = y.shape[-1] if y.ndim == 1 else y.shape[-2]
    if x.shape[-1] != inner_y:
        raise ShapeError(f"matmul: shapes {x.shape} and {y.shape} do not fit: {x.shape[-1]} columns against {inner_y} rows")
    a = x.detach() if x.ndim > 1 else x.detach().reshape((1, x.shape[0]))
    b = y.detach() if y.ndim > 1 else y.detach().reshape((y.shape[0], 1))
    out = _core.matmul_raw(a, b)
    if x.ndim == 1 or y.ndim == 1:
        shape = out.shape
        if x.ndim == 1:
            shape = (*shape[:-2], shape[-1])
        if y.ndim == 1:
            shape = shape[:-1]
        out = out.reshape(shape)
    return record("matmul", (x, y), out)


def addmm(x, mat1, mat2, /):
    """mat1 @ mat2 + x, with a one-dimensional x added inside the product's last pass.

    >>> import tensorx as tx
    >>> tx.addmm(tx.ones(2), tx.eye(2), tx.eye(2)).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    return matmul(mat1, mat2) + x


def bmm(x1, x2, /):
    """Products of two batches of matrices with one batch axis.

    >>> import tensorx as tx
    >>> tx.bmm(tx.ones((2, 1, 3)), tx.ones((2, 3, 1))).shape
    (2, 1, 1)
    """
    if x1.ndim != 3 or x2.ndim != 3:
        raise ShapeError(f"bmm: both operands need 3 axes, got shapes {x1.shape} and {x2.shape}; matmul broadcasts")
    return matmul(x1, x2)


def mv(x1, x2, /):
    """Product of a matrix and a vector.

    >>> import tensorx as tx
    >>> tx.mv(tx.eye(2), tx.ones(2)).tolist()
    [1.0, 1.0]
    """
    if x1.ndim != 2 or x2.ndim != 1:
        raise ShapeError(f"mv: needs a matrix and a vector, got shapes {x1.shape} and {x2.shape}")
    return matmul(x1, x2)


def dot(x1, x2, /):
    """Sum of the products of two vectors.

    >>> import tensorx as tx
    >>> tx.dot(tx.arange(3), tx.arange(3)).item()
    5
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"dot: needs two vectors, got shapes {x1.shape} and {x2.shape}; use matmul or tensordot")
    return matmul(x1, x2)


def matrix_transpose(x, /):
    """The last two axes exchanged, a view.

    >>> import tensorx as tx
    >>> tx.matrix_transpose(tx.zeros((2, 3))).shape
    (3, 2)
    """
    return x.mT


def outer(x1, x2, /):
    """Products of all pairs of elements of two vectors.

    >>> import tensorx as tx
    >>> tx.outer(tx.asarray([1, 2]), tx.asarray([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"outer: needs two vectors, got shapes {x1.shape} and {x2.shape}")
    x, y = common("outer", x1, x2)
    return x.reshape((x.shape[0], 1)) * y.reshape((1, y.shape[0]))


def inner(x1, x2, /):
    """Sums of products over the last axes of both operands.

    >>> import tensorx as tx
    >>> tx.inner(tx.ones((2, 3)), tx.ones((4, 3))).shape
    (2, 4)
    """
    return tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 1,)))


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over several axes: the last n of x1 with the first n of x2 (axes=n), or the pairs of two sequences.

    >>> import tensorx as tx
    >>> tx.tensordot(tx.ones((2, 3)), tx.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    x, y = common("tensordot", x1, x2)
    if isinstance(axes, int):
        if axes < 0 or axes > min(x.ndim, y.ndim):
            raise ShapeError(f"tensordot: {axes} axes of operands with {x.ndim} and {y.ndim}")
        ax, ay = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        ax, ay = axes_of("tensordot", axes[0], x.ndim), axes_of("tensordot", axes[1], y.ndim)
    if len(ax) != len(ay) or any(x.shape[i] != y.shape[j] for i, j in zip(ax, ay)):
        raise ShapeError(f"tensordot: axes {ax} of shape {x.shape} do not fit axes {ay} of shape {y.shape}")
    kx = [i for i in range(x.ndim) if i not in ax]
    ky = [i for i in range(y.ndim) if i not in ay]
    n = 1
    for i in ax:
        n *= x.shape[i]
    rows = 1
    for i in kx:
        rows *= x.shape[i]
    cols = 1
    for i in ky:
        cols *= y.shape[i]
    a = x.permute_dims((*kx, *ax)).reshape((rows, n))
    b = y.permute_dims((*ay, *ky)).reshape((n, cols))
    return matmul(a, b).reshape((*(x.shape[i] for i in kx), *(y.shape[i] for i in ky)))


def vecdot(x1, x2, /, *, axis=-1):
    """Sum of conj(x1) * x2 along an axis, other axes broadcast.

    >>> import tensorx as tx
    >>> tx.vecdot(tx.ones((2, 3)), tx.ones(3)).tolist()
    [3.0, 3.0]
    """
    import tensorx

    x, y = common("vecdot", x1, x2)
    if not -min(x.ndim, y.ndim) <= axis < 0:
        if axis >= 0 and x.ndim == y.ndim:
            axis = axis_of("vecdot", axis, x.ndim) - x.ndim
        else:
            raise ShapeError(f"vecdot: axis {axis} is out of range for shapes {x.shape} and {y.shape}")
    if x.shape[axis] != y.shape[axis]:
        raise ShapeError(f"vecdot: axis {axis} has sizes {x.shape[axis]} and {y.shape[axis]}")
    if x.dtype.kind == "c":
        x = tensorx.conj(x)
    products = x * y
    dtype = x.dtype if x.dtype is not dtypes.bool else None
    return tensorx.sum(products, axis=axis, dtype=dtype)


_core.hooks.matmul = matmul
for _name in ("matmul", "bmm", "mv", "dot", "outer", "inner", "tensordot", "vecdot"):
    _core.add_method(_name, globals()[_name])
del _name
