"""Matrix factorizations and equations by LAPACK, with gradients of any order: the core of :mod:`tensorx.linalg`.

Each class is one differentiable op on float32, float64, complex64 or complex128 matrices; backward is made of public ops.
The gradients assume what the literature does: distinct eigenvalues and singular values where eigenvectors and singular
vectors are differentiated, full rank for qr.
"""

from __future__ import annotations

from tensorx import _core, dtypes
from tensorx.autograd.function import Function
from tensorx.errors import GradientError, LinAlgError
from tensorx.ops import _host, creation, elementwise
from tensorx.ops.matmul import matmul


def adjoint(x):
    """Conjugate transpose of the last two axes, a view for real matrices."""
    return elementwise.conj(x).mT if x.dtype.kind == "c" else x.mT


def _like(x, dtype):
    return x if x.dtype is dtype else _core.cast(x, dtype)


def _diag(x):
    return x.diagonal()


def diag_embed(x):
    """Matrices with the last axis of x on their diagonals."""
    n = x.shape[-1]
    eye = creation.eye(n, dtype=x.dtype, device=x.device)
    return x.reshape((*x.shape, 1)) * eye


def _columns(x):
    return x.reshape((*x.shape[:-1], 1, x.shape[-1]))


def _rows(x):
    return x.reshape((*x.shape, 1))


def _where(values, shape):
    """', in matrix (i, j)' for a batch."""
    import numpy as np

    if len(shape) == 2:
        return ""
    at = np.argwhere(values)
    return f" (matrix {tuple(int(i) for i in at[0])} of the batch)" if len(at) else ""


def _singular(op, a):
    import numpy as np

    with np.errstate(all="ignore"):
        bad = np.linalg.slogdet(a)[0] == 0
    return LinAlgError(f"{op}: the matrix is singular{_where(bad, a.shape)}: it has no inverse; use pinv or lstsq for the best approximation")


class Inverse(Function):
    @staticmethod
    def forward(ctx, x):
        import numpy as np

        a = _host.array(x)
        try:
            y = _host.tensor(np.linalg.inv(a), x)
        except np.linalg.LinAlgError:
            raise _singular("inv", a) from None
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        yh = adjoint(y)
        return -matmul(yh, matmul(g, yh))


class Solve(Function):
    """x with a x = b, b having the axes of matrices."""

    @staticmethod
    def forward(ctx, a, b):
        import numpy as np

        left, right = _host.array(a), _host.array(b)
        try:
            x = _host.tensor(np.linalg.solve(left, right), a)
        except np.linalg.LinAlgError:
            raise _singular("solve", left) from None
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        gb = Solve.apply(adjoint(a), g)
        ga = -matmul(gb, adjoint(x)) if ctx.needs_input_grad[0] else None
        return ga, gb if ctx.needs_input_grad[1] else None


class Cholesky(Function):
    @staticmethod
    def forward(ctx, x):
        import numpy as np

        a = _host.array(x)
        try:
            low = np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"cholesky: the matrix is not positive definite{_where(_not_definite(a), a.shape)}") from None
        y = _host.tensor(low, x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (low,) = ctx.saved_tensors
        inverse = Inverse.apply(low)
        n = low.shape[-1]
        half = creation.tril(creation.ones((n, n), dtype=low.dtype, device=low.device)) - 0.5 * creation.eye(n, dtype=low.dtype, device=low.device)
        phi = matmul(adjoint(low), creation.tril(g)) * half
        s = matmul(adjoint(inverse), matmul(phi, inverse))
        return (s + adjoint(s)) * 0.5


def _not_definite(a):
    import numpy as np

    bad = np.zeros(a.shape[:-2], bool)
    for at in np.ndindex(bad.shape):
        try:
            np.linalg.cholesky(a[at])
        except np.linalg.LinAlgError:
            bad[at] = True
            break
    return bad


class Eigh(Function):
    @staticmethod
    def forward(ctx, x):
        import numpy as np

        try:
            w, v = np.linalg.eigh(_host.array(x))
        except np.linalg.LinAlgError:
            raise LinAlgError("eigh: the eigenvalues did not converge; are there NaN or infinite elements?") from None
        w, v = _host.tensor(w, x), _host.tensor(v, x)
        ctx.save_for_backward(w, v)
        ctx.set_materialize_grads(False)
        return w, v

    @staticmethod
    def backward(ctx, gw, gv):
        w, v = ctx.saved_tensors
        inner = None if gw is None else diag_embed(_like(gw, v.dtype))
        if gv is not None:
            gaps = _columns(w) - _rows(w)
            eye = creation.eye(w.shape[-1], dtype=w.dtype, device=w.device)
            mixed = matmul(adjoint(v), gv) * _like((1.0 - eye) / (gaps + eye), v.dtype)
            inner = mixed if inner is None else inner + mixed
        if inner is None:
            return None
        ga = matmul(v, matmul(inner, adjoint(v)))
        return (ga + adjoint(ga)) * 0.5


class Eig(Function):
    """Complex results, of real matrices too."""

    @staticmethod
    def forward(ctx, x):
        import numpy as np

        try:
            w, v = np.linalg.eig(_host.array(x))
        except np.linalg.LinAlgError:
            raise LinAlgError("eig: the eigenvalues did not converge, or there are NaN or infinite elements") from None
        dtype = x.dtype if x.dtype.kind == "c" else dtypes.complex128 if x.dtype is dtypes.float64 else dtypes.complex64
        w, v = _host.tensor(w, x, dtype), _host.tensor(v, x, dtype)
        ctx.real = x.dtype.kind != "c"
        ctx.save_for_backward(w, v)
        ctx.set_materialize_grads(False)
        return w, v

    @staticmethod
    def backward(ctx, gw, gv):
        w, v = ctx.saved_tensors
        vh = adjoint(v)
        inner = None if gw is None else diag_embed(gw)
        if gv is not None:
            mixed = matmul(vh, gv)
            lengths = _like(elementwise.real(_diag(mixed)), v.dtype)
            mixed = mixed - matmul(vh, v) * _columns(lengths)
            eye = creation.eye(w.shape[-1], dtype=w.dtype, device=w.device)
            mixed = mixed * ((1.0 - eye) / (elementwise.conj(_columns(w) - _rows(w)) + eye))
            inner = mixed if inner is None else inner + mixed
        if inner is None:
            return None
        ga = Solve.apply(vh, matmul(inner, vh))
        return elementwise.real(ga) if ctx.real else ga


def _skew(x):
    return x - adjoint(x)


class Svd(Function):
    """Reduced: u (m, k), s (k), vh (k, n)."""

    @staticmethod
    def forward(ctx, x):
        import numpy as np

        try:
            u, s, vh = np.linalg.svd(_host.array(x), full_matrices=False)
        except np.linalg.LinAlgError:
            raise LinAlgError("svd: the singular values did not converge; are there NaN or infinite elements?") from None
        u, s, vh = (_host.tensor(t, x) for t in (u, s, vh))
        ctx.save_for_backward(u, s, vh)
        ctx.set_materialize_grads(False)
        return u, s, vh

    @staticmethod
    def backward(ctx, gu, gs, gvh):
        u, s, vh = ctx.saved_tensors
        m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
        dtype = u.dtype
        inner = None if gs is None else diag_embed(_like(gs, dtype))
        if gu is None and gvh is None:
            return None if inner is None else matmul(u, matmul(inner, vh))
        eye = creation.eye(k, dtype=s.dtype, device=s.device)
        gaps = _like((1.0 - eye) / (_columns(s * s) - _rows(s * s) + eye), dtype)
        wide = _like(s, dtype)
        mixed = None
        if gu is not None:
            turn = _skew(matmul(adjoint(u), gu))
            mixed = (turn * gaps) * _columns(wide)
            if dtype.kind == "c" and gvh is not None:
                mixed = mixed + diag_embed(_diag(turn) / (2.0 * wide))
        if gvh is not None:
            other = _rows(wide) * (_skew(matmul(vh, adjoint(gvh))) * gaps)
            mixed = other if mixed is None else mixed + other
        inner = mixed if inner is None else inner + mixed
        ga = matmul(u, matmul(inner, vh))
        if m > k and gu is not None:
            out = gu / _columns(wide)
            ga = ga + matmul(out - matmul(u, matmul(adjoint(u), out)), vh)
        if n > k and gvh is not None:
            out = gvh / _rows(wide)
            ga = ga + matmul(u, out - matmul(matmul(out, adjoint(vh)), vh))
        return ga


class Qr(Function):
    @staticmethod
    def forward(ctx, x, mode):
        import numpy as np

        a = _host.array(x)
        q, r = np.linalg.qr(a, mode=mode)
        q, r = _host.tensor(q, x), _host.tensor(r, x)
        ctx.mode = mode
        ctx.shape = x.shape
        ctx.save_for_backward(q, r)
        ctx.set_materialize_grads(False)
        return q, r

    @staticmethod
    def backward(ctx, gq, gr):
        q, r = ctx.saved_tensors
        m, n = ctx.shape[-2:]
        if ctx.mode == "complete" and m > n:
            raise GradientError(f"qr: with mode='complete' the columns of q beyond {n} are not determined and have no gradient; use mode='reduced'")
        if m >= n:
            return _qr_tall(q, r, gq, gr), None
        # the first m columns are factored, the others are q^H times theirs
        first, rest = (..., slice(None, m)), (..., slice(m, None))
        g_first = None if gr is None else gr[first]
        g_rest = None if gr is None else gr[rest]
        if g_rest is not None:
            through = matmul(matmul(q, r[rest]), adjoint(g_rest))
            gq = through if gq is None else gq + through
        left = _qr_tall(q, r[first], gq, g_first)
        right = matmul(q, g_rest) if g_rest is not None else creation.zeros((*left.shape[:-1], n - m), dtype=left.dtype, device=left.device)
        from tensorx.ops.joining import concat

        return concat([left, right], axis=-1), None


def _qr_tall(q, r, gq, gr):
    if gq is None and gr is None:
        return None
    inner = None if gr is None else matmul(creation.triu(gr), adjoint(r))
    if gq is not None:
        turn = matmul(adjoint(q), gq)
        inner = -turn if inner is None else inner - turn
    n = r.shape[-1]
    half = creation.triu(creation.ones((n, n), dtype=q.dtype, device=q.device)) - 0.5 * creation.eye(n, dtype=q.dtype, device=q.device)
    inner = inner * half
    ga = matmul(q, inner + adjoint(inner))
    if gq is not None:
        ga = ga + gq
    return adjoint(Solve.apply(r, adjoint(ga)))


class Det(Function):
    @staticmethod
    def forward(ctx, x):
        import numpy as np

        with np.errstate(all="ignore"):
            y = _host.tensor(np.linalg.det(_host.array(x)), x, x.dtype)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        import numpy as np

        x, y = ctx.saved_tensors
        a = _host.array(x)
        if a.size and np.all(np.linalg.cond(a) < 1e-2 / np.finfo(a.dtype).eps):
            factor = g * (elementwise.conj(y) if y.dtype.kind == "c" else y)
            return factor.reshape((*factor.shape, 1, 1)) * adjoint(Inverse.apply(x))
        return g.reshape((*g.shape, 1, 1)) * _cofactors(x)


def _cofactors(x):
    """The conjugate of the matrix of cofactors, which singular matrices have too."""
    from tensorx.autograd.rules import _products_of_others

    u, s, vh = Svd.apply(x)
    turn = Det.apply(u) * Det.apply(vh)
    if turn.dtype.kind == "c":
        turn = elementwise.conj(turn)
    others = _like(_products_of_others(s), u.dtype)
    return matmul(u, _rows(others) * vh) * turn.reshape((*turn.shape, 1, 1))


class SlogDet(Function):
    @staticmethod
    def forward(ctx, x):
        import numpy as np

        sign, value = np.linalg.slogdet(_host.array(x))
        sign, value = _host.tensor(sign, x, x.dtype), _host.tensor(value, x)
        ctx.save_for_backward(x, sign)
        ctx.set_materialize_grads(False)
        return sign, value

    @staticmethod
    def backward(ctx, gsign, gvalue):
        x, sign = ctx.saved_tensors
        if x.dtype.kind != "c":
            if gvalue is None:
                return None
            factor = gvalue
        else:
            factor = None if gvalue is None else _like(gvalue, x.dtype)
            if gsign is not None:
                turn = _like(elementwise.imag(elementwise.conj(gsign) * sign), x.dtype) * -1j
                factor = turn if factor is None else factor + turn
            if factor is None:
                return None
        return factor.reshape((*factor.shape, 1, 1)) * adjoint(Inverse.apply(x))


class Pinv(Function):
    """Gradients hold where the rank does not change (Golub, Pereyra 1973)."""

    @staticmethod
    def forward(ctx, x, rtol):
        import numpy as np

        a = _host.array(x)
        try:
            y = _host.tensor(np.linalg.pinv(a, rtol) if a.size else np.swapaxes(a, -1, -2), x)
        except np.linalg.LinAlgError:
            raise LinAlgError("pinv: the singular values did not converge; are there NaN or infinite elements?") from None
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        a, p = ctx.saved_tensors
        gh, ph = adjoint(g), adjoint(p)
        if a.shape[-2] <= a.shape[-1]:
            k = matmul(gh, p)
            kp = matmul(k, ph)
            return -adjoint(matmul(p, k)) + kp - matmul(matmul(a, p), kp) + matmul(matmul(ph, p), gh - matmul(k, a)), None
        k = matmul(p, gh)
        pk = matmul(ph, k)
        return -adjoint(matmul(k, p)) + matmul(matmul(gh - matmul(a, k), p), ph) + pk - matmul(matmul(pk, p), a), None
