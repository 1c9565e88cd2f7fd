"""Further ways to arrange elements: axes, rotations, splits, diagonals, triangles, blocks, ranges, one_hot."""

from __future__ import annotations

import math
import operator

from tensorx import _core, dtypes
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import _host, creation, elementwise
from tensorx.ops.assigning import slice_assign
from tensorx.ops.indexing import diagonal
from tensorx.ops.joining import _together, concat, split, stack
from tensorx.ops.movement import axis_of, flip

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "column_stack", "diag", "diag_embed", "diagflat", "dsplit",
    "dstack", "fliplr", "flipud", "geomspace", "logspace", "one_hot", "rot90", "tri", "tril_indices", "triu_indices", "vander",
    "vsplit",
]  # fmt: skip


def _tensor(op, x, least=0):
    if not isinstance(x, _core.Tensor):
        raise DTypeError(f"{op}: expected a tensor, got {type(x).__name__}; use tx.asarray")
    if x.ndim < least:
        raise ShapeError(f"{op}: needs at least {least} axes, got shape {x.shape}")
    return x


# ---- more axes ---------------------------------------------------------------------------------------


def _each(op, arrays, shape):
    out = tuple(a if a.ndim >= 3 or shape(a.shape) == a.shape else a.reshape(shape(a.shape)) for a in (_tensor(op, x) for x in arrays))
    return out[0] if len(out) == 1 else out


def atleast_1d(*arrays):
    """The tensors with at least one axis (views): one, or a tuple of several.

    >>> import tensorx as tx
    >>> tx.atleast_1d(tx.asarray(3)).shape
    (1,)
    """
    return _each("atleast_1d", arrays, lambda s: s or (1,))


def atleast_2d(*arrays):
    """The tensors with at least two axes (views), new ones in front.

    >>> import tensorx as tx
    >>> tx.atleast_2d(tx.ones(3)).shape
    (1, 3)
    """
    return _each("atleast_2d", arrays, lambda s: (1,) * (2 - len(s)) + s)


def atleast_3d(*arrays):
    """The tensors with at least three axes (views): (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1).

    >>> import tensorx as tx
    >>> tx.atleast_3d(tx.ones(3)).shape
    (1, 3, 1)
    """
    return _each("atleast_3d", arrays, lambda s: {0: (1, 1, 1), 1: (1, *s, 1), 2: (*s, 1)}.get(len(s), s))


# ---- joining and splitting ---------------------------------------------------------------------------------


def dstack(arrays, /):
    """Tensors of at least three axes, see :func:`atleast_3d`, joined along the third.

    >>> import tensorx as tx
    >>> tx.dstack([tx.asarray([1, 2]), tx.asarray([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([atleast_3d(a) for a in arrays], axis=2)


def column_stack(arrays, /):
    """Vectors as the columns of a matrix; matrices are joined side by side.

    >>> import tensorx as tx
    >>> tx.column_stack([tx.asarray([1, 2]), tx.asarray([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([a.reshape((a.size, 1)) if a.ndim < 2 else a for a in arrays], axis=1)


def array_split(x, sections, /, *, axis=0):
    """Views of consecutive pieces along an axis: so many, of sizes that differ by one at most, or cut at the given positions.

    >>> import tensorx as tx
    >>> [a.tolist() for a in tx.array_split(tx.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    >>> [a.tolist() for a in tx.array_split(tx.arange(5), [1, 3])]
    [[0], [1, 2], [3, 4]]
    """
    axis = axis_of("array_split", axis, _tensor("array_split", x, 1).ndim)
    n = x.shape[axis]
    if hasattr(sections, "__len__") or (isinstance(sections, _core.Tensor) and sections.ndim):
        cuts = [slice(None, c).indices(n)[1] for c in (sections.tolist() if isinstance(sections, _core.Tensor) else sections)]
        edges = [0, *cuts, n]
        return tuple(x[(slice(None),) * axis + (slice(a, max(a, b)),)] for a, b in zip(edges, edges[1:]))
    sections = operator.index(sections)
    if sections <= 0:
        raise ValueError(f"array_split: the number of pieces must be positive, got {sections}")
    size, more = divmod(n, sections)
    return split(x, [size + 1] * more + [size] * (sections - more), axis=axis)


def vsplit(x, sizes, /):
    """Pieces along the first axis; see :func:`split`.

    >>> import tensorx as tx
    >>> len(tx.vsplit(tx.ones((4, 2)), 2))
    2
    """
    return split(_tensor("vsplit", x, 2), sizes, axis=0)


def dsplit(x, sizes, /):
    """Pieces along the third axis; see :func:`split`.

    >>> import tensorx as tx
    >>> len(tx.dsplit(tx.ones((1, 1, 4)), 2))
    2
    """
    return split(_tensor("dsplit", x, 3), sizes, axis=2)


# ---- flips and turns -------------------------------------------------------------------------------------------


def fliplr(x, /):
    """x with the second axis reversed, a view.

    >>> import tensorx as tx
    >>> tx.fliplr(tx.asarray([[1, 2]])).tolist()
    [[2, 1]]
    """
    return flip(_tensor("fliplr", x, 2), axis=1)


def flipud(x, /):
    """x with the first axis reversed, a view.

    >>> import tensorx as tx
    >>> tx.flipud(tx.asarray([1, 2])).tolist()
    [2, 1]
    """
    return flip(_tensor("flipud", x, 1), axis=0)


def rot90(x, k=1, axes=(0, 1), /):
    """x turned k times by 90 degrees from the first towards the second of two axes, a view.

    >>> import tensorx as tx
    >>> tx.rot90(tx.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    _tensor("rot90", x, 2)
    a, b = (axis_of("rot90", i, x.ndim) for i in axes)
    if a == b:
        raise ShapeError(f"rot90: needs two different axes, got {tuple(axes)}")
    k = operator.index(k) % 4
    if k == 2:
        return flip(x, axis=(a, b))
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    if k == 1:
        return _core.permute_view(flip(x, axis=b), tuple(order))
    return flip(_core.permute_view(x, tuple(order)), axis=b) if k == 3 else x.alias()


# ---- diagonals and triangles --------------------------------------------------------------------------------------


def diag_embed(x, /, *, offset=0, axis1=-2, axis2=-1):
    """Matrices with the last axis of x on a diagonal and zeros elsewhere; the matrices' axes are axis1 and axis2.

    >>> import tensorx as tx
    >>> tx.diag_embed(tx.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    _tensor("diag_embed", x, 1)
    offset = operator.index(offset)
    n = x.shape[-1] + abs(offset)
    a, b = axis_of("diag_embed", axis1, x.ndim + 1), axis_of("diag_embed", axis2, x.ndim + 1)
    if a == b:
        raise ShapeError(f"diag_embed: axis1 and axis2 are both axis {a}")
    # the diagonal of an n by n matrix is every (n + 1)-th element
    flat = creation.zeros((*x.shape[:-1], n * n), dtype=x.dtype, device=x.device)
    first = offset if offset >= 0 else -offset * n
    if x.shape[-1]:
        last = first + (x.shape[-1] - 1) * (n + 1)
        flat = slice_assign(flat, (..., slice(first, last + 1, n + 1)), x)
    out = flat.reshape((*x.shape[:-1], n, n))
    rest = [i for i in range(x.ndim + 1) if i not in (a, b)]
    order = [0] * (x.ndim + 1)
    for source, place in enumerate((*rest, a, b)):
        order[place] = source
    return _core.permute_view(out, tuple(order))


def diag(x, /, *, offset=0):
    """The diagonal of a matrix (a view), or the matrix with a vector on its diagonal.

    >>> import tensorx as tx
    >>> tx.diag(tx.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    >>> tx.diag(tx.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    _tensor("diag", x, 1)
    if x.ndim > 2:
        raise ShapeError(f"diag: needs one or two axes, got shape {x.shape}; use diagonal or diag_embed")
    return diag_embed(x, offset=offset) if x.ndim == 1 else diagonal(x, offset)


def diagflat(x, /, *, offset=0):
    """The matrix with all elements of x on a diagonal.

    >>> import tensorx as tx
    >>> tx.diagflat(tx.asarray([[1], [2]])).tolist()
    [[1, 0], [0, 2]]
    """
    return diag_embed(_tensor("diagflat", x).reshape((x.size,)), offset=offset)


def tri(n, m=None, /, *, k=0, dtype=None, device=None):
    """Ones up to diagonal k and zeros above, of shape (n, m).

    >>> import tensorx as tx
    >>> tx.tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return creation.tril(creation.ones((n, n if m is None else m), dtype=dtype, device=device), k=k)


def _indices(name, rows, cols, offset, device):
    import numpy as np

    cols = rows if cols is None else cols
    if rows < 0 or cols < 0:
        raise ShapeError(f"{name}: sizes must not be negative, got {rows} and {cols}")
    at = (np.tril_indices if name == "tril_indices" else np.triu_indices)(rows, offset, cols)
    return tuple(creation.asarray(i, dtype=dtypes.int64, device=device) for i in at)


def tril_indices(rows, cols=None, /, *, offset=0, device=None):
    """Positions of the lower triangle of a matrix, up to a diagonal: (rows, columns).

    >>> import tensorx as tx
    >>> [i.tolist() for i in tx.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _indices("tril_indices", rows, cols, offset, device)


def triu_indices(rows, cols=None, /, *, offset=0, device=None):
    """Positions of the upper triangle of a matrix, from a diagonal on: (rows, columns).

    >>> import tensorx as tx
    >>> [i.tolist() for i in tx.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _indices("triu_indices", rows, cols, offset, device)


def block_diag(*arrays):
    """A matrix with the given ones (vectors count as rows) along its diagonal and zeros elsewhere.

    >>> import tensorx as tx
    >>> tx.block_diag(tx.asarray([[1]]), tx.asarray([[2, 3]])).tolist()
    [[1, 0, 0], [0, 2, 3]]
    """
    parts = [atleast_2d(a) for a in arrays]
    for p in parts:
        if p.ndim > 2:
            raise ShapeError(f"block_diag: needs matrices, got shape {p.shape}")
    parts, dtype = _together("block_diag", parts)
    out = creation.zeros((sum(p.shape[0] for p in parts), sum(p.shape[1] for p in parts)), dtype=dtype, device=parts[0].device)
    i = j = 0
    for p in parts:
        out = slice_assign(out, (slice(i, i + p.shape[0]), slice(j, j + p.shape[1])), p)
        i, j = i + p.shape[0], j + p.shape[1]
    return out


def vander(x, n=None, /, *, increasing=False):
    """Powers of the elements of a vector as columns: x**(n - 1), ..., x, 1, or the other way round.

    >>> import tensorx as tx
    >>> tx.vander(tx.asarray([1, 2, 3]), 3).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    if _tensor("vander", x).ndim != 1:
        raise ShapeError(f"vander: needs a vector, got shape {x.shape}")
    n = x.shape[0] if n is None else operator.index(n)
    if n < 0:
        raise ValueError(f"vander: the number of columns must not be negative, got {n}")
    if n == 0:
        return creation.zeros((x.shape[0], 0), dtype=x.dtype, device=x.device)
    columns = [creation.ones(x.shape, dtype=x.dtype, device=x.device)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    return stack(columns if increasing else columns[::-1], axis=1)


# ---- ranges --------------------------------------------------------------------------------------------------------


def logspace(start, stop, /, num=50, *, base=10.0, endpoint=True, dtype=None, device=None):
    """num numbers from base**start to base**stop whose logarithms are evenly spaced.

    >>> import tensorx as tx
    >>> tx.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    dtype = dtypes.float32 if dtype is None else dtype_from(dtype)
    exponents = creation.linspace(float(start), float(stop), num, dtype=dtypes.float64, endpoint=endpoint, device="cpu")
    return _moved(creation.full((), float(base), dtype=dtypes.float64, device="cpu") ** exponents, dtype, device)


def _moved(x, dtype, device):
    x = _core.cast(x, dtype) if x.dtype is not dtype else x
    place = creation._place(device)
    return x if place is x.device else x.to(place)


def geomspace(start, stop, /, num=50, *, endpoint=True, dtype=None, device=None):
    """num numbers from start to stop with equal ratios; both of one sign and not 0.

    >>> import tensorx as tx
    >>> tx.geomspace(1, 1000, 4).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    start, stop = float(start), float(stop)
    if start == 0 or stop == 0 or (start < 0) != (stop < 0):
        raise ValueError(f"geomspace: start and stop must have one sign and not be 0, got {start} and {stop}")
    dtype = dtypes.float32 if dtype is None else dtype_from(dtype)
    logs = creation.linspace(math.log10(abs(start)), math.log10(abs(stop)), num, dtype=dtypes.float64, endpoint=endpoint, device="cpu")
    x = creation.full((), 10.0, dtype=dtypes.float64, device="cpu") ** logs
    if num:
        x[0] = abs(start)
    if num > 1 and endpoint:
        x[-1] = abs(stop)
    return _moved(-x if start < 0 else x, dtype, device)


def one_hot(indices, num_classes=None, /, *, dtype=None, axis=-1):
    """1 at the place that each index names along a new axis, 0 elsewhere: int64 by default.

    num_classes: the length of the axis, one more than the largest index unless given. IndexError for an index out of range,
    on Metal with num_classes at the next wait.

    >>> import tensorx as tx
    >>> tx.one_hot(tx.asarray([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if _tensor("one_hot", indices).dtype.kind not in "iu":
        raise DTypeError(f"one_hot: indices must be integers, got {indices.dtype.name}")
    dtype = dtypes.int64 if dtype is None else dtype_from(dtype)
    late = num_classes is not None and indices.device.type != "cpu" and operator.index(num_classes) > 0
    low, high = _host.extremes(indices) if indices.size and not late else (0, -1)
    n = high + 1 if num_classes is None else operator.index(num_classes)
    if low < 0 or high >= n:
        raise IndexError(f"one_hot: index {low if low < 0 else high} is out of range for {n} classes")
    axis = axis_of("one_hot", axis, indices.ndim + 1)
    places = creation.arange(n, device=indices.device)
    index = _host.picked("one_hot", indices, places) if late else _core.cast(indices, dtypes.int64)
    places = places.reshape((n,) + (1,) * (indices.ndim - axis))
    hit = elementwise.equal(index.reshape((*indices.shape[:axis], 1, *indices.shape[axis:])), places)
    return hit if dtype is dtypes.bool else _core.cast(hit, dtype)


for _name in ("array_split", "diag", "diag_embed", "diagflat", "fliplr", "flipud", "rot90"):
    _core.add_method(_name, globals()[_name])
del _name
