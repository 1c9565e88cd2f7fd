"""Fourier transforms: the ``fft`` extension of the Python array API standard.

float32 and complex64 give complex64 (float32 where the result is real), float64 and complex128 their like; float16 and
bfloat16 are computed in float32. Everything is differentiable, to any order.

norm says where the factor 1 / n goes: "backward" into the inverse, "forward" into the forward transform, "ortho" half each.

>>> import tensorx as tx
>>> tx.fft.fft(tx.asarray([1.0, 1.0, 1.0, 1.0])).tolist()
[(4+0j), 0j, 0j, 0j]
"""

from __future__ import annotations

import operator

from tensorx import _core, dtypes
from tensorx.autograd.rules import define, plain
from tensorx.dtypes import dtype_from
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import _host, creation, elementwise
from tensorx.ops._record import record
from tensorx.ops.indexing import roll
from tensorx.ops.joining import concat
from tensorx.ops.movement import axes_of, axis_of

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _norm(op, norm):
    if norm not in _SWAPPED:
        raise ValueError(f"{op}: norm is 'backward', 'ortho' or 'forward', got {norm!r}")
    return norm


def _input(op, x, kinds="fc"):
    x, _ = _host.floating(op, x, kinds)
    if x.ndim == 0:
        raise ShapeError(f"{op}: needs at least one axis")
    return x


def _complex_of(dtype):
    return dtypes.complex128 if dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64


def _real_of(dtype):
    return dtypes.float64 if dtype in (dtypes.float64, dtypes.complex128) else dtypes.float32


def _as(x, dtype):
    return x if x.dtype is dtype else _core.cast(x, dtype)


def _length(op, n, axis_size):
    n = axis_size if n is None else operator.index(n)
    if n < 1:
        raise ShapeError(f"{op}: needs at least one point along the axis, got {n}")
    return n


def _resized(x, axis, n):
    """x cut, or continued with zeros, to n elements along an axis."""
    have = x.shape[axis]
    if n == have:
        return x
    if n < have:
        return x[(slice(None),) * axis + (slice(n),)]
    tail = creation.zeros((*x.shape[:axis], n - have, *x.shape[axis + 1 :]), dtype=x.dtype, device=x.device)
    return concat([x, tail], axis=axis)


# ---- the transforms themselves, of full length, recorded under their names -------------------------------


def _numpy(name, x, dtype, shape, *args, **kwargs):
    """A transform by NumPy, into the memory of the result where NumPy can."""
    import numpy as np

    function, values = getattr(np.fft, name), _host.array(x)
    if 0 in shape:
        return creation.zeros(shape, dtype=dtype, device=x.device)
    if _OUT and x.device.type == "cpu":
        out = _core.empty(shape, dtype, 0)
        function(values, *args, out=np.asarray(memoryview(out)), **kwargs)
        _core.reset_version(out)
        return out
    return _host.tensor(function(values, *args, **kwargs), x, dtype)


def _numpy_has_out():
    import numpy as np

    return int(np.__version__.split(".")[0]) >= 2


_OUT = _numpy_has_out()


def _c2c(x, axes, norm, inverse):
    """x complex."""
    out = x
    raw = x.detach()
    for a in axes:
        raw = _numpy("ifft" if inverse else "fft", raw, raw.dtype, raw.shape, axis=a, norm=norm)
    out = raw if axes else x.copy()
    return record("fft", (x,), out, axes=axes, norm=norm, inverse=inverse)


def _c2c_backward(g, kept, wanted):
    return {0: _c2c(g, kept["axes"], _SWAPPED[kept["norm"]], not kept["inverse"])}


def _r2c(x, axis, norm):
    """x real."""
    n = x.shape[axis]
    shape = (*x.shape[:axis], n // 2 + 1, *x.shape[axis + 1 :])
    out = _numpy("rfft", x.detach(), _complex_of(x.dtype), shape, axis=axis, norm=norm)
    return record("rfft", (x,), out, axis=axis, norm=norm, n=n)


def _weights(n, axis, ndim, inner, like):
    """inner for the frequencies that stand for two of a real transform of n points, 1 for the others."""
    half = n // 2 + 1
    ends = [1.0 if k == 0 or 2 * k == n else inner for k in range(half)]
    return creation.asarray(ends, dtype=_real_of(like.dtype), device=like.device).reshape((half,) + (1,) * (ndim - axis - 1))


def _r2c_backward(g, kept, wanted):
    n, axis = kept["n"], kept["axis"]
    g = g * _as(_weights(n, axis, g.ndim, 0.5, g), g.dtype)
    return {0: _c2r(g, axis, n, _SWAPPED[kept["norm"]])}


def _c2r(x, axis, n, norm):
    """x complex, of n // 2 + 1 elements along the axis."""
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    out = _numpy("irfft", x.detach(), _real_of(x.dtype), shape, n=n, axis=axis, norm=norm)
    return record("irfft", (x,), out, axis=axis, norm=norm, n=n)


def _c2r_backward(g, kept, wanted):
    n, axis = kept["n"], kept["axis"]
    out = _r2c(g, axis, _SWAPPED[kept["norm"]])
    return {0: out * _as(_weights(n, axis, out.ndim, 2.0, out), out.dtype)}


define("fft", plain, _c2c_backward)
define("rfft", plain, _r2c_backward)
define("irfft", plain, _c2r_backward)


# ---- one axis -----------------------------------------------------------------------------------------


def _fft1(op, x, n, axis, norm, inverse):
    x, norm = _input(op, x), _norm(op, norm)
    axis = axis_of(op, axis, x.ndim)
    x = _resized(x, axis, _length(op, n, x.shape[axis]))
    return _c2c(_as(x, _complex_of(x.dtype)), (axis,), norm, inverse)


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """Fourier transform along an axis, complex.

    n: points; x is cut or continued with zeros to them (by default the axis's length).

    >>> import tensorx as tx
    >>> tx.fft.fft(tx.asarray([1.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    return _fft1("fft", x, n, axis, norm, False)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """Inverse Fourier transform along an axis, complex; see :func:`fft`.

    >>> import tensorx as tx
    >>> tx.fft.ifft(tx.fft.fft(tx.asarray([1.0, 2.0]))).tolist()
    [(1+0j), (2+0j)]
    """
    return _fft1("ifft", x, n, axis, norm, True)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The first n // 2 + 1 elements of the Fourier transform of a real tensor: the others are their conjugates.

    >>> import tensorx as tx
    >>> tx.fft.rfft(tx.asarray([1.0, 1.0, 1.0, 1.0])).tolist()
    [(4+0j), 0j, 0j]
    """
    x, norm = _input("rfft", x, "f"), _norm("rfft", norm)
    axis = axis_of("rfft", axis, x.ndim)
    return _r2c(_resized(x, axis, _length("rfft", n, x.shape[axis])), axis, norm)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of :func:`rfft`, real, of n points: ``2 * (m - 1)`` for m elements unless given.

    >>> import tensorx as tx
    >>> tx.fft.irfft(tx.asarray([4.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    x, norm = _input("irfft", x), _norm("irfft", norm)
    axis = axis_of("irfft", axis, x.ndim)
    n = _length("irfft", n, 2 * (x.shape[axis] - 1))
    x = _as(x, _complex_of(x.dtype))
    return _c2r(_resized(x, axis, n // 2 + 1), axis, n, norm)


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """Fourier transform of a signal that is Hermitian (its second half is the conjugate of the first, which x is): real.

    n: points of the result, ``2 * (m - 1)`` for m elements unless given.

    >>> import tensorx as tx
    >>> tx.fft.hfft(tx.asarray([1.0, 1.0, 1.0])).tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    x, norm = _input("hfft", x), _norm("hfft", norm)
    return irfft(elementwise.conj(x) if x.dtype.kind == "c" else x, n=n, axis=axis, norm=_SWAPPED[norm])


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of :func:`hfft`: n // 2 + 1 elements of the inverse transform of a real tensor.

    >>> import tensorx as tx
    >>> tx.fft.ihfft(tx.asarray([4.0, 0.0, 0.0, 0.0])).tolist()
    [(1-0j), (1-0j), (1-0j)]
    """
    _norm("ihfft", norm)
    return elementwise.conj(rfft(_input("ihfft", x, "f"), n=n, axis=axis, norm=_SWAPPED[norm]))


# ---- several axes ---------------------------------------------------------------------------------------


def _axes(op, x, s, axes):
    """Axes and sizes along them (-1 or None: the axis's own)."""
    if s is not None:
        s = tuple(s)
        if axes is None:
            if len(s) > x.ndim:
                raise ShapeError(f"{op}: {len(s)} sizes {s} for a tensor of {x.ndim} axes")
            axes = tuple(range(x.ndim - len(s), x.ndim))
    axes = axes_of(op, axes, x.ndim)
    if s is not None and len(s) != len(axes):
        raise ShapeError(f"{op}: {len(s)} sizes {s} for {len(axes)} axes {axes}")
    sizes = [None if s is None or s[k] in (None, -1) else s[k] for k in range(len(axes))]
    return axes, sizes


def _fftn(op, x, s, axes, norm, inverse):
    x, norm = _input(op, x), _norm(op, norm)
    axes, sizes = _axes(op, x, s, axes)
    for a, n in zip(axes, sizes):
        x = _resized(x, a, _length(op, n, x.shape[a]))
    return _c2c(_as(x, _complex_of(x.dtype)), axes, norm, inverse)


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """Fourier transform along several axes (all by default), complex. s: points along each of them.

    >>> import tensorx as tx
    >>> tx.fft.fftn(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _fftn("fftn", x, s, axes, norm, False)


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """Inverse Fourier transform along several axes (all by default); see :func:`fftn`.

    >>> import tensorx as tx
    >>> tx.fft.ifftn(tx.ones((2, 2))).tolist()
    [[(1+0j), 0j], [0j, 0j]]
    """
    return _fftn("ifftn", x, s, axes, norm, True)


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """Fourier transform of a real tensor along several axes, the last of them as by :func:`rfft`.

    >>> import tensorx as tx
    >>> tx.fft.rfftn(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    x, norm = _input("rfftn", x, "f"), _norm("rfftn", norm)
    axes, sizes = _axes("rfftn", x, s, axes)
    if not axes:
        raise ShapeError("rfftn: needs at least one axis")
    for a, n in zip(axes, sizes):
        x = _resized(x, a, _length("rfftn", n, x.shape[a]))
    out = _r2c(x, axes[-1], norm)
    return _c2c(out, axes[:-1], norm, False) if len(axes) > 1 else out


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of :func:`rfftn`, real; the last axis gets ``2 * (m - 1)`` points for m elements unless s says otherwise.

    >>> import tensorx as tx
    >>> tx.fft.irfftn(tx.fft.rfftn(tx.ones((2, 2)))).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    x, norm = _input("irfftn", x), _norm("irfftn", norm)
    axes, sizes = _axes("irfftn", x, s, axes)
    if not axes:
        raise ShapeError("irfftn: needs at least one axis")
    last = _length("irfftn", sizes[-1], 2 * (x.shape[axes[-1]] - 1))
    x = _as(x, _complex_of(x.dtype))
    for a, n in zip(axes[:-1], sizes[:-1]):
        x = _resized(x, a, _length("irfftn", n, x.shape[a]))
    x = _resized(x, axes[-1], last // 2 + 1)
    if len(axes) > 1:
        x = _c2c(x, axes[:-1], norm, True)
    return _c2r(x, axes[-1], last, norm)


# ---- frequencies -------------------------------------------------------------------------------------------


def _points(op, n, dtype):
    n = operator.index(n)
    if n < 1:
        raise ShapeError(f"{op}: needs at least one point, got {n}")
    dtype = dtypes.float32 if dtype is None else dtype_from(dtype)
    if dtype.kind != "f":
        raise DTypeError(f"{op}: needs a real floating-point dtype, got {dtype.name}")
    return n, dtype


def _frequencies(first, n, d, dtype, device):
    import numpy as np

    values = np.concatenate(first) / (n * float(d))
    return creation.asarray(values, dtype=dtype, device=device, copy=True)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """Frequencies of the elements of a transform of n points with spacing d: 0, 1, ..., -2, -1, over n d.

    >>> import tensorx as tx
    >>> tx.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    import numpy as np

    n, dtype = _points("fftfreq", n, dtype)
    return _frequencies([np.arange(0, (n - 1) // 2 + 1), np.arange(-(n // 2), 0)], n, d, dtype, device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """Frequencies of the elements of a real transform of n points with spacing d: 0, 1, ..., n // 2, over n d.

    >>> import tensorx as tx
    >>> tx.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    import numpy as np

    n, dtype = _points("rfftfreq", n, dtype)
    return _frequencies([np.arange(0, n // 2 + 1)], n, d, dtype, device)


def fftshift(x, /, *, axes=None):
    """Moves the frequency 0 from the first place of axes (all by default) to the middle.

    >>> import tensorx as tx
    >>> tx.fft.fftshift(tx.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    axes = axes_of("fftshift", axes, x.ndim)
    return roll(x, tuple(x.shape[a] // 2 for a in axes), axis=axes) if axes else x.copy()


def ifftshift(x, /, *, axes=None):
    """Undoes :func:`fftshift`.

    >>> import tensorx as tx
    >>> tx.fft.ifftshift(tx.asarray([-2, -1, 0, 1])).tolist()
    [0, 1, -2, -1]
    """
    axes = axes_of("ifftshift", axes, x.ndim)
    return roll(x, tuple(-(x.shape[a] // 2) for a in axes), axis=axes) if axes else x.copy()
