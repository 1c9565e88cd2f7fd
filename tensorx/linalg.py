"""Linear algebra: the ``linalg`` extension of the Python array API standard, and what users of NumPy reach for besides.

Matrices are the last two axes, axes before them are batches. LAPACK computes, on views of the tensors' memory; float16 and
bfloat16 are computed in float32. Everything is differentiable, to any order; see each function for what its gradient assumes.

>>> import tensorx as tx
>>> a = tx.asarray([[2.0, 0.0], [0.0, 4.0]])
>>> tx.linalg.inv(a).tolist()
[[0.5, 0.0], [0.0, 0.25]]
"""

from __future__ import annotations

import builtins
import math
import operator
from collections import namedtuple

from tensorx import _core, dtypes
from tensorx.errors import DTypeError, LinAlgError, ShapeError
from tensorx.ops import _host, creation, elementwise, factorizations, reduce
from tensorx.ops.factorizations import adjoint
from tensorx.ops.indexing import diagonal as _diagonal
from tensorx.ops.joining import concat
from tensorx.ops.matmul import common, matmul, matrix_transpose, outer, tensordot, vecdot
from tensorx.ops.movement import axis_of, broadcast_shapes

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv", "lstsq",
    "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

EigResult = namedtuple("EigResult", ["eigenvalues", "eigenvectors"])
EighResult = namedtuple("EighResult", ["eigenvalues", "eigenvectors"])
QRResult = namedtuple("QRResult", ["Q", "R"])
SlogdetResult = namedtuple("SlogdetResult", ["sign", "logabsdet"])
SVDResult = namedtuple("SVDResult", ["U", "S", "Vh"])
LstsqResult = namedtuple("LstsqResult", ["solution", "residuals", "rank", "singular_values"])


def _matrices(op, x, square=False):
    """x as matrices in a dtype that LAPACK has, and the dtype to go back to."""
    x, dtype = _host.floating(op, x)
    if x.ndim < 2:
        raise ShapeError(f"{op}: needs at least 2 axes, got shape {x.shape}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{op}: needs square matrices, got {x.shape[-2]} rows and {x.shape[-1]} columns (shape {x.shape})")
    return x, dtype


def _real(dtype):
    return {"complex64": dtypes.float32, "complex128": dtypes.float64}.get(dtype.name, dtype)


# ---- factorizations -----------------------------------------------------------------------------


def cholesky(x, /, *, upper=False):
    """The lower triangular l with l l^H = x (upper=True: u with u^H u = x) of Hermitian positive definite matrices.

    Only the lower triangle is read. LinAlgError where a matrix is not positive definite. The gradient is Hermitian.

    >>> import tensorx as tx
    >>> tx.linalg.cholesky(tx.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x, dtype = _matrices("cholesky", x, square=True)
    low = factorizations.Cholesky.apply(x)
    return _host.back(adjoint(low) if upper else low, dtype)


def qr(x, /, *, mode="reduced"):
    """Orthonormal Q and upper triangular R with Q R = x: (Q, R).

    mode "reduced": Q has min(m, n) columns; "complete": Q is square, and for more rows than columns without a gradient.
    The gradient assumes that the first min(m, n) columns are linearly independent.

    >>> import tensorx as tx
    >>> q, r = tx.linalg.qr(tx.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> q.shape, r.shape
    ((2, 2), (2, 2))
    """
    x, dtype = _matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode is 'reduced' or 'complete', got {mode!r}")
    q, r = factorizations.Qr.apply(x, mode)
    return QRResult(_host.back(q, dtype), _host.back(r, dtype))


def _svd(op, x):
    x, dtype = _matrices(op, x)
    return *factorizations.Svd.apply(x), dtype


def svd(x, /, *, full_matrices=True):
    """Singular value decomposition: U, S (real, descending) and Vh with (U * S) @ Vh = x: (U, S, Vh).

    full_matrices: U and Vh square instead of min(m, n) columns and rows. Those further vectors have no gradient; gradients
    of U and Vh assume distinct singular values, and depend on a phase that is not determined for complex x.

    >>> import tensorx as tx
    >>> tx.linalg.svd(tx.asarray([[0.0, 2.0], [1.0, 0.0]])).S.tolist()
    [2.0, 1.0]
    """
    checked, dtype = _matrices("svd", x)
    m, n = checked.shape[-2:]
    if full_matrices and m != n:
        if checked.requires_grad:
            raise ShapeError("svd: with full_matrices=True the further singular vectors are not determined and have no gradient; "
                             "use full_matrices=False")  # fmt: skip
        import numpy as np

        parts = np.linalg.svd(_host.array(checked), full_matrices=True)
        u, s, vh = (_host.tensor(t, checked) for t in parts)
    else:
        u, s, vh = factorizations.Svd.apply(checked)
    return SVDResult(*(_host.back(t, dtype) for t in (u, s, vh)))


def svdvals(x, /):
    """Singular values, real and descending.

    >>> import tensorx as tx
    >>> tx.linalg.svdvals(tx.asarray([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    checked, dtype = _matrices("svdvals", x)
    if checked.requires_grad:
        return _host.back(factorizations.Svd.apply(checked)[1], dtype)
    import numpy as np

    try:
        values = np.linalg.svd(_host.array(checked), compute_uv=False)
    except np.linalg.LinAlgError:
        raise LinAlgError("svdvals: the singular values did not converge; are there NaN or infinite elements?") from None
    return _host.back(_host.tensor(values, checked), dtype)


def eigh(x, /):
    """Eigenvalues (real, ascending) and orthonormal eigenvectors (columns) of Hermitian matrices: (eigenvalues, eigenvectors).

    Only the lower triangle is read. Gradients of eigenvectors assume distinct eigenvalues.

    >>> import tensorx as tx
    >>> tx.linalg.eigh(tx.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    x, dtype = _matrices("eigh", x, square=True)
    w, v = factorizations.Eigh.apply(x)
    return EighResult(_host.back(w, dtype), _host.back(v, dtype))


def eigvalsh(x, /):
    """Eigenvalues of Hermitian matrices, real and ascending; only the lower triangle is read.

    >>> import tensorx as tx
    >>> tx.linalg.eigvalsh(tx.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    checked, dtype = _matrices("eigvalsh", x, square=True)
    if checked.requires_grad:
        return _host.back(factorizations.Eigh.apply(checked)[0], dtype)
    import numpy as np

    try:
        values = np.linalg.eigvalsh(_host.array(checked))
    except np.linalg.LinAlgError:
        raise LinAlgError("eigvalsh: the eigenvalues did not converge; are there NaN or infinite elements?") from None
    return _host.back(_host.tensor(values, checked), dtype)


def eig(x, /):
    """Eigenvalues and eigenvectors (columns of length 1) of square matrices, complex: (eigenvalues, eigenvectors).

    Gradients assume distinct eigenvalues.

    >>> import tensorx as tx
    >>> tx.linalg.eig(tx.asarray([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    x, _ = _matrices("eig", x, square=True)
    return EigResult(*factorizations.Eig.apply(x))


def eigvals(x, /):
    """Eigenvalues of square matrices, complex, in no order.

    >>> import tensorx as tx
    >>> tx.linalg.eigvals(tx.asarray([[0.0, -1.0], [1.0, 0.0]])).tolist()
    [1j, -1j]
    """
    return eig(x).eigenvalues


# ---- equations --------------------------------------------------------------------------------------


def inv(x, /):
    """Inverses of square matrices. LinAlgError where one is singular.

    >>> import tensorx as tx
    >>> tx.linalg.inv(tx.asarray([[2.0]])).tolist()
    [[0.5]]
    """
    x, dtype = _matrices("inv", x, square=True)
    return _host.back(factorizations.Inverse.apply(x), dtype)


def solve(x1, x2, /):
    """x with x1 x = x2: x2 is one vector (one axis) or matrices; batches broadcast. LinAlgError where x1 is singular.

    >>> import tensorx as tx
    >>> tx.linalg.solve(tx.asarray([[2.0, 0.0], [0.0, 4.0]]), tx.asarray([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    a, b, vector, dtype = _sides("solve", x1, x2)
    out = factorizations.Solve.apply(a, b)
    return _host.back(out.reshape(out.shape[:-1]) if vector else out, dtype)


def _sides(op, x1, x2):
    """The sides of an equation in one dtype, batches broadcast, the right one as matrices."""
    a, b = common(op, x1, x2)
    dtype = a.dtype
    (a, _), (b, _) = _matrices(op, a, square=True), _host.floating(op, b)
    if b.ndim == 0:
        raise ShapeError(f"{op}: the right side needs at least one axis")
    vector = b.ndim == 1
    if vector:
        b = b.reshape((b.shape[0], 1))
    if b.shape[-2] != a.shape[-1]:
        raise ShapeError(f"{op}: shapes {x1.shape} and {x2.shape} do not fit: {a.shape[-1]} unknowns against {b.shape[-2]} rows")
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.shape[:-2] != lead:
        a = _core.broadcast_view(a, (*lead, *a.shape[-2:]))
    if b.shape[:-2] != lead:
        b = _core.broadcast_view(b, (*lead, *b.shape[-2:]))
    return a, b, vector, dtype


def solve_triangular(x1, x2, /, *, upper=False, unit_diagonal=False):
    """x with x1 x = x2, of x1 only one triangle being read; see :func:`solve`.

    >>> import tensorx as tx
    >>> tx.linalg.solve_triangular(tx.asarray([[2.0, 9.0], [0.0, 4.0]]), tx.asarray([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    a, _ = _matrices("solve_triangular", x1, square=True)
    strict = 1 if unit_diagonal else 0
    a = creation.triu(a, k=strict) if upper else creation.tril(a, k=-strict)
    if unit_diagonal:
        a = a + creation.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return solve(_host.back(a, x1.dtype), x2)


def lstsq(x1, x2, /, *, rtol=None):
    """The shortest x that minimises |x1 x - x2|: (solution, residuals, rank, singular_values).

    residuals: squared distances per column, where x1 has full rank and more rows than columns, else empty. Differentiable
    where the rank does not change.

    >>> import tensorx as tx
    >>> tx.linalg.lstsq(tx.asarray([[1.0], [1.0]]), tx.asarray([1.0, 3.0])).solution.shape
    (1,)
    """
    a, b = common("lstsq", x1, x2)
    dtype = a.dtype
    (a, _), (b, _) = _matrices("lstsq", a), _host.floating("lstsq", b)
    vector = b.ndim == 1
    right = b.reshape((b.shape[0], 1)) if vector else b
    if right.ndim < 2 or right.shape[-2] != a.shape[-2]:
        raise ShapeError(f"lstsq: shapes {x1.shape} and {x2.shape} do not fit: both need equally many rows")
    m, n = a.shape[-2:]
    rtol = dtypes.finfo(_real(a.dtype)).eps * builtins.max(m, n) if rtol is None else rtol
    x = matmul(pinv(a, rtol=rtol), right)
    s = svdvals(a.detach())
    rank = matrix_rank(a.detach(), rtol=rtol)
    rest = right - matmul(a, x)
    residuals = reduce.sum(elementwise.abs(rest) ** 2, axis=-2)
    if m <= n or not bool(reduce.all(rank == n)):
        residuals = residuals[..., :0]
    if vector:
        x = x.reshape(x.shape[:-1])
    return LstsqResult(*(_host.back(t, dtype) for t in (x, residuals, rank, s)))


def pinv(x, /, *, rtol=None):
    """Moore-Penrose pseudo-inverses; singular values up to rtol times the largest count as 0.

    rtol: a number or tensor; ``max(m, n) * eps`` by default. The gradient holds where the rank does not change.

    >>> import tensorx as tx
    >>> tx.linalg.pinv(tx.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    x, dtype = _matrices("pinv", x)
    if rtol is None:
        rtol = builtins.max(x.shape[-2:]) * dtypes.finfo(_real(x.dtype)).eps
    elif isinstance(rtol, _core.Tensor):
        rtol = _host.array(rtol)
    return _host.back(factorizations.Pinv.apply(x, rtol), dtype)


# ---- numbers of a matrix --------------------------------------------------------------------------------


def det(x, /):
    """Determinants of square matrices. The gradient is the matrix of cofactors, of singular matrices too.

    >>> import tensorx as tx
    >>> round(tx.linalg.det(tx.asarray([[2.0, 1.0], [1.0, 2.0]])).item(), 4)
    3.0
    """
    x, dtype = _matrices("det", x, square=True)
    return _host.back(factorizations.Det.apply(x), dtype)


def slogdet(x, /):
    """Sign (of absolute value 1, or 0) and logarithm of the absolute value of determinants: (sign, logabsdet).

    >>> import tensorx as tx
    >>> tx.linalg.slogdet(tx.asarray([[-1.0]])).sign.item()
    -1.0
    """
    x, dtype = _matrices("slogdet", x, square=True)
    return SlogdetResult(*(_host.back(t, dtype) for t in factorizations.SlogDet.apply(x)))


def matrix_rank(x, /, *, rtol=None):
    """How many singular values exceed rtol times the largest: int64. rtol is ``max(m, n) * eps`` by default.

    >>> import tensorx as tx
    >>> tx.linalg.matrix_rank(tx.asarray([[1.0, 1.0], [1.0, 1.0]])).item()
    1
    """
    x, _ = _matrices("matrix_rank", x)
    s = svdvals(x.detach())
    if s.shape[-1] == 0:
        return creation.zeros(s.shape[:-1], dtype=dtypes.int64, device=x.device)
    if rtol is None:
        rtol = builtins.max(x.shape[-2:]) * dtypes.finfo(_real(x.dtype)).eps
    elif isinstance(rtol, _core.Tensor):
        rtol = _core.cast(rtol, s.dtype).reshape((*rtol.shape, 1))
    limit = reduce.max(s, axis=-1, keepdims=True) * rtol
    return reduce.count_nonzero(s > limit, axis=-1)


def trace(x, /, *, offset=0, dtype=None):
    """Sums of the diagonals; dtypes as for :func:`tensorx.sum`.

    >>> import tensorx as tx
    >>> tx.linalg.trace(tx.asarray([[1, 2], [3, 4]])).item()
    5
    """
    return reduce.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def diagonal(x, /, *, offset=0):
    """The diagonals of the last two axes, a view; offset above 0 is above the main one.

    >>> import tensorx as tx
    >>> tx.linalg.diagonal(tx.asarray([[1, 2], [3, 4]]), offset=1).tolist()
    [2]
    """
    return _diagonal(x, offset)


def cond(x, /, *, p=None):
    """Condition numbers: the norm of a matrix times that of its inverse. p is None (the 2-norm) or an ord of :func:`matrix_norm`.

    >>> import tensorx as tx
    >>> tx.linalg.cond(tx.asarray([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    if p is None or p in (2, -2):
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)


# ---- norms -------------------------------------------------------------------------------------------------


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """(sum |x|**ord) ** (1 / ord) over axes (all by default); inf and -inf are the largest and smallest |x|, 0 counts.

    The gradient of the 2-norm at 0 is 0.

    >>> import tensorx as tx
    >>> tx.linalg.vector_norm(tx.asarray([3.0, 4.0])).item()
    5.0
    """
    if isinstance(x, _core.Tensor) and x.dtype.kind not in "fc":
        raise DTypeError(f"vector_norm: needs floating-point numbers, got {x.dtype.name}; convert with astype")
    return reduce.norm(x, ord=ord, axis=axis, keepdims=keepdims)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Norms of matrices: "fro" (root of the sum of squares), "nuc" (sum of singular values), 2 and -2 (largest and smallest
    singular value), 1 and -1 (largest and smallest column sum of absolute values), inf and -inf (the same of rows).

    >>> import tensorx as tx
    >>> tx.linalg.matrix_norm(tx.asarray([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    x, dtype = _matrices("matrix_norm", x)
    if ord == "fro":
        out = reduce.norm(x, axis=(-2, -1), keepdims=keepdims)
    elif ord in ("nuc", 2, -2):
        s = svdvals(x)
        if ord == "nuc":
            out = reduce.sum(s, axis=-1)
        elif 0 in x.shape[-2:]:
            out = reduce.sum(s, axis=-1)
        else:
            out = s[..., 0] if ord == 2 else s[..., -1]
        if keepdims:
            out = out.reshape((*out.shape, 1, 1))
    elif ord in (1, -1, math.inf, -math.inf):
        along, across = (-2, -1) if abs(ord) == 1 else (-1, -2)
        sums = reduce.sum(elementwise.abs(x), axis=along, keepdims=True)
        if sums.shape[across] == 0:
            out = reduce.sum(sums, axis=across, keepdims=True)
        else:
            out = (reduce.max if ord > 0 else reduce.min)(sums, axis=across, keepdims=True)
        if not keepdims:
            out = out.reshape(out.shape[:-2])
    else:
        raise ValueError(f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    return _host.back(out, _real(dtype))


def norm(x, /, *, ord=None, axis=None, keepdims=False):
    """A vector norm, or the matrix norm where axis names two axes (or x has two and ord is given), as NumPy's.

    >>> import tensorx as tx
    >>> tx.linalg.norm(tx.asarray([[3.0, 0.0], [0.0, 4.0]]), ord="nuc").item()
    7.0
    """
    if axis is None and ord is not None and x.ndim == 2:
        axis = (0, 1)
    if isinstance(axis, (tuple, list)) and len(axis) == 2 and ord is not None:
        a, b = (axis_of("norm", i, x.ndim) for i in axis)
        rest = tuple(i for i in range(x.ndim) if i not in (a, b))
        out = matrix_norm(_core.permute_view(x, (*rest, a, b)), ord=ord)
        return out.reshape(tuple(1 if i in (a, b) else n for i, n in enumerate(x.shape))) if keepdims else out
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)


# ---- products ------------------------------------------------------------------------------------------------


def cross(x1, x2, /, *, axis=-1):
    """Cross products of vectors of 3 elements along an axis; other axes broadcast.

    >>> import tensorx as tx
    >>> tx.linalg.cross(tx.asarray([1, 0, 0]), tx.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    x, y = common("cross", x1, x2)
    if x.dtype is dtypes.bool:
        raise DTypeError("cross: needs numbers, got bool")
    a, b = axis_of("cross", axis, x.ndim) - x.ndim, axis_of("cross", axis, y.ndim) - y.ndim
    if axis < 0:
        a = b = axis
    elif a != b:
        raise ShapeError(f"cross: axis {axis} is another one of shape {x1.shape} than of {x2.shape}; use a negative axis")
    if x.shape[a] != 3 or y.shape[b] != 3:
        raise ShapeError(f"cross: axis {axis} must have 3 elements, got shapes {x1.shape} and {x2.shape}")
    shape = broadcast_shapes(x.shape, y.shape)
    place = len(shape) + a

    def part(t, i):
        lead = t.ndim + a
        return t[(slice(None),) * lead + (slice(i, i + 1),)]

    rows = [part(x, (i + 1) % 3) * part(y, (i + 2) % 3) - part(x, (i + 2) % 3) * part(y, (i + 1) % 3) for i in range(3)]
    return concat(rows, axis=place)


def matrix_power(x, n, /):
    """Square matrices multiplied n times by themselves; negative n takes the inverse, 0 gives the identity.

    >>> import tensorx as tx
    >>> tx.linalg.matrix_power(tx.asarray([[1.0, 1.0], [0.0, 1.0]]), 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    n = operator.index(n)
    x, dtype = _matrices("matrix_power", x, square=True)
    if n < 0:
        x, n = factorizations.Inverse.apply(x), -n
    out = None
    while n:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    if out is None:
        out = creation.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        out = _core.broadcast_view(out, x.shape).copy()
    elif out is x:
        out = out.copy()
    return _host.back(out, dtype)


def multi_dot(arrays, /):
    """The product of several matrices (the first and last may be vectors), in the order that takes the fewest multiplications.

    >>> import tensorx as tx
    >>> tx.linalg.multi_dot([tx.ones((2, 3)), tx.ones((3, 4)), tx.ones(4)]).tolist()
    [12.0, 12.0]
    """
    arrays = list(arrays)
    if len(arrays) < 2:
        raise ShapeError(f"multi_dot: needs at least two operands, got {len(arrays)}")
    for k, t in enumerate(arrays):
        if not (t.ndim == 2 or (t.ndim == 1 and k in (0, len(arrays) - 1))):
            raise ShapeError(f"multi_dot: operand {k + 1} must be a matrix, got shape {t.shape}")
    row, column = arrays[0].ndim == 1, arrays[-1].ndim == 1
    if row:
        arrays[0] = arrays[0].reshape((1, arrays[0].shape[0]))
    if column:
        arrays[-1] = arrays[-1].reshape((arrays[-1].shape[0], 1))
    n = len(arrays)
    for k in range(n - 1):
        if arrays[k].shape[1] != arrays[k + 1].shape[0]:
            raise ShapeError(f"multi_dot: operands {k + 1} and {k + 2} do not fit: shapes {arrays[k].shape} and {arrays[k + 1].shape}")
    sizes = [arrays[0].shape[0], *(t.shape[1] for t in arrays)]
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            cost[i][j], cut[i][j] = builtins.min((cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        return arrays[i] if i == j else matmul(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    out = product(0, n - 1)
    if row or column:
        out = out.reshape(() if row and column else (out.size,))
    return out


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
         670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip


def expm(x, /):
    """Exponentials of square matrices: scaling, a Pade approximant of degree 13, squaring (Higham 2005).

    >>> import tensorx as tx
    >>> tx.linalg.expm(tx.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x, dtype = _matrices("expm", x, square=True)
    if x.size == 0:
        return _host.back(x.copy(), dtype)
    size = reduce.max(matrix_norm(x.detach(), ord=1)).item()
    if not math.isfinite(size):
        raise LinAlgError("expm: there are NaN or infinite elements")
    squarings = builtins.max(0, math.ceil(math.log2(size / 5.37))) if size > 0 else 0
    a = x * 2.0**-squarings
    b = _PADE
    eye = creation.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    u = matmul(a, matmul(a6, a6 * b[13] + a4 * b[11] + a2 * b[9]) + a6 * b[7] + a4 * b[5] + a2 * b[3] + eye * b[1])
    v = matmul(a6, a6 * b[12] + a4 * b[10] + a2 * b[8]) + a6 * b[6] + a4 * b[4] + a2 * b[2] + eye * b[0]
    out = factorizations.Solve.apply(v - u, v + u)
    for _ in range(squarings):
        out = matmul(out, out)
    return _host.back(out, dtype)
