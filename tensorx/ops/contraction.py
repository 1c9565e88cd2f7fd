"""einsum and kron: products over named axes, carried out as matrix products, elementwise products and sums."""

from __future__ import annotations

import functools

from tensorx import _core, dtypes
from tensorx.errors import DTypeError, ShapeError
from tensorx.ops import reduce
from tensorx.ops.indexing import diagonal
from tensorx.ops.joining import _together
from tensorx.ops.matmul import common, matmul

__all__ = ["einsum", "kron"]

_ELLIPSIS = "..."


# ---- the equation -----------------------------------------------------------------------------------


def _labels(term, equation):
    """The labels of one operand: letters and at most one ellipsis."""
    out, i = [], 0
    while i < len(term):
        if term.startswith(_ELLIPSIS, i):
            if _ELLIPSIS in out:
                raise ValueError(f"einsum: two ellipses in one term of {equation!r}")
            out.append(_ELLIPSIS)
            i += 3
        elif term[i].isalpha():
            out.append(term[i])
            i += 1
        else:
            raise ValueError(f"einsum: {term[i]!r} in {equation!r}: labels are letters, or ... for further axes")
    return out


@functools.lru_cache(maxsize=256)
def _parse(equation, count):
    """(labels of each operand, labels of the result or None)."""
    text = equation.replace(" ", "")
    if text.count("->") > 1:
        raise ValueError(f"einsum: more than one -> in {equation!r}")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise ValueError(f"einsum: {equation!r} describes {len(terms)} operands, got {count}")
    inputs = tuple(tuple(_labels(t, equation)) for t in terms)
    if not arrow:
        return inputs, None
    out = tuple(_labels(right, equation))
    for label in out:
        if out.count(label) > 1:
            raise ValueError(f"einsum: {label!r} stands twice in the result of {equation!r}")
        if label != _ELLIPSIS and not any(label in t for t in inputs):
            raise ValueError(f"einsum: {label!r} of the result of {equation!r} is in no operand")
    return inputs, out


def _expanded(labels, x, k, equation):
    """Labels with the axes under an ellipsis named by their distance from its end."""
    named = [a for a in labels if a != _ELLIPSIS]
    extra = x.ndim - len(named)
    if extra < 0 or (extra and _ELLIPSIS not in labels):
        raise ShapeError(f"einsum: operand {k + 1} of {equation!r} has {x.ndim} axes (shape {x.shape}) for {len(named)} labels")
    out = []
    for a in labels:
        if a == _ELLIPSIS:
            out += [-i for i in range(extra, 0, -1)]
        else:
            out.append(a)
    return out


def _sizes(inputs, operands, equation):
    sizes = {}
    for labels, x in zip(inputs, operands):
        for a, n in zip(labels, x.shape):
            known = sizes.get(a, 1)
            if n != known and n != 1 and known != 1:
                name = "an axis under ..." if isinstance(a, int) else f"label {a!r}"
                raise ShapeError(f"einsum: {name} of {equation!r} has sizes {known} and {n}: shapes {', '.join(str(t.shape) for t in operands)}")
            if a not in sizes or known == 1:
                sizes[a] = n
    return sizes


def _prepared(labels, x, sizes):
    """An operand in which each label stands once and has its full size: diagonals taken, axes to be broadcast left out."""
    labels = list(labels)
    stretched = [i for i, a in enumerate(labels) if x.shape[i] != sizes[a]]
    if stretched:
        x = x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in stretched))
        labels = [a for i, a in enumerate(labels) if i not in stretched]
    for a in dict.fromkeys(labels):
        while labels.count(a) > 1:
            i = labels.index(a)
            j = labels.index(a, i + 1)
            x = diagonal(x, 0, i, j)
            labels = [b for k, b in enumerate(labels) if k not in (i, j)] + [a]
    return labels, x


# ---- the order of contractions ------------------------------------------------------------------------


def _cost(labels, sizes):
    n = 1
    for a in labels:
        n *= max(sizes[a], 1)
    return n


def _order(sets, out, sizes):
    """Pairs to contract, by position in a list that the result of each joins at the end."""
    if len(sets) <= 2:
        return [(0, 1)] if len(sets) == 2 else []
    return _best(sets, out, sizes) if len(sets) <= 7 else _greedy(sets, out, sizes)


def _best(sets, out, sizes):
    """The cheapest order, by dynamic programming over sets of operands."""
    n = len(sets)
    full = (1 << n) - 1

    def kept(mask):
        inside = set().union(*(sets[i] for i in range(n) if mask >> i & 1))
        outside = set(out).union(*(sets[i] for i in range(n) if not mask >> i & 1))
        return inside & outside

    best = {1 << i: (0, 0, None) for i in range(n)}
    keeps = {1 << i: set(sets[i]) for i in range(n)}
    for mask in sorted(range(1, full + 1), key=lambda m: (bin(m).count("1"), m)):
        if mask in best:
            continue
        part = (mask - 1) & mask
        while part:
            rest = mask ^ part
            if part < rest:
                break
            labels = keeps[part] | keeps[rest]
            size = _cost(labels, sizes)
            found = (best[part][0] + best[rest][0] + size, max(best[part][1], best[rest][1], size), (rest, part))
            if mask not in best or found[:2] < best[mask][:2]:
                best[mask] = found
            part = (part - 1) & mask
        keeps[mask] = kept(mask)
    pairs, names = [], [1 << i for i in range(n)]

    def walk(mask):
        split = best[mask][2]
        if split is None:
            return
        walk(split[0])
        walk(split[1])
        i, j = sorted((names.index(split[0]), names.index(split[1])))
        pairs.append((i, j))
        names.pop(j)
        names.pop(i)
        names.append(mask)

    walk(full)
    return pairs


def _greedy(sets, out, sizes):
    """Again and again the pair whose product is smallest against its factors."""
    sets, pairs = [set(s) for s in sets], []
    while len(sets) > 1:
        best = None
        for i in range(len(sets)):
            for j in range(i + 1, len(sets)):
                others = set(out).union(*(s for k, s in enumerate(sets) if k not in (i, j)))
                result = (sets[i] | sets[j]) & others
                gain = _cost(result, sizes) - _cost(sets[i], sizes) - _cost(sets[j], sizes)
                found = (gain, _cost(sets[i] | sets[j], sizes), i, j, result)
                if best is None or found[:2] < best[:2]:
                    best = found
        i, j, result = best[2:]
        pairs.append((i, j))
        sets.pop(j)
        sets.pop(i)
        sets.append(result)
    return pairs


# ---- one contraction -------------------------------------------------------------------------------------


def _summed(labels, x, keep):
    """x without the labels that nothing else needs."""
    drop = tuple(i for i, a in enumerate(labels) if a not in keep)
    if not drop:
        return labels, x
    return [a for a in labels if a in keep], reduce.sum(x, axis=drop, dtype=x.dtype)


def _arranged(labels, x, order):
    """x as a view with its axes in an order of labels; those it lacks get length 1."""
    have = [a for a in order if a in labels]
    x = _core.permute_view(x, tuple(labels.index(a) for a in have))
    if len(have) == len(order):
        return x
    shape, i = [], 0
    for a in order:
        shape.append(x.shape[i] if a in labels else 1)
        i += a in labels
    return _core.reshape_view(x, tuple(shape))


def _pair(la, a, lb, b, keep, sizes):
    """The product of two operands, summed over the labels that they share and nobody else needs."""
    la, a = _summed(la, a, keep | set(lb))
    lb, b = _summed(lb, b, keep | set(la))
    batch = [s for s in la if s in lb and s in keep]
    inner = [s for s in la if s in lb and s not in keep]
    left = [s for s in la if s not in lb]
    right = [s for s in lb if s not in la]
    if not inner or not (left or right):
        order = batch + left + right + inner
        product = _arranged(la, a, order) * _arranged(lb, b, order)
        if inner:
            product = reduce.sum(product, axis=tuple(range(len(batch) + len(left) + len(right), len(order))), dtype=product.dtype)
        return batch + left + right, product

    def count(names):
        n = 1
        for s in names:
            n *= sizes[s]
        return n

    lead = tuple(sizes[s] for s in batch)
    head = () if not batch else (count(batch),)
    k = count(inner)
    x = _arranged(la, a, batch + left + inner).reshape((*head, count(left), k))
    y = _arranged(lb, b, batch + inner + right).reshape((*head, k, count(right)))
    out = matmul(x, y)
    return batch + left + right, out.reshape((*lead, *(sizes[s] for s in left), *(sizes[s] for s in right)))


def einsum(equation, /, *operands):
    """Products of operands over named axes: ``einsum("ij,jk->ik", a, b)`` is ``a @ b``.

    Parameters
    ----------
    equation : str
        A term of letters for each operand, one letter per axis, and after ``->`` the term of the result. What is not in the
        result is summed over; a letter twice in one term takes the diagonal; ``...`` stands for further axes, which broadcast.
        Without ``->`` the result has the letters that occur once, in alphabetical order.
    *operands : tensors
        Their dtypes promote. Several are contracted in the order that takes the fewest multiplications.

    Returns
    -------
    Tensor; differentiable.

    Examples
    --------
    >>> import tensorx as tx
    >>> a = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> tx.einsum("ij,kj->ik", a, a).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    >>> tx.einsum("ii", a).item()
    5.0
    """
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation comes first and is a str, got {type(equation).__name__}")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, out = _parse(equation, len(operands))
    for k, x in enumerate(operands):
        if not isinstance(x, _core.Tensor):
            raise DTypeError(f"einsum: operand {k + 1} must be a tensor, got {type(x).__name__}")
    operands = _together("einsum", operands)[0]
    truth = operands[0].dtype is dtypes.bool
    if truth:
        operands = [_core.cast(x, dtypes.int64) for x in operands]
    inputs = [_expanded(labels, x, k, equation) for k, (labels, x) in enumerate(zip(inputs, operands))]
    extra = sorted({a for labels in inputs for a in labels if isinstance(a, int)})
    if out is None:
        flat = [a for labels in inputs for a in labels if isinstance(a, str)]
        out = extra + sorted(a for a in set(flat) if flat.count(a) == 1)
    else:
        out = [b for a in out for b in (extra if a == _ELLIPSIS else [a])]
        if extra and not any(isinstance(a, int) for a in out):
            raise ValueError(f"einsum: the result of {equation!r} lacks the axes under ...")
    sizes = _sizes(inputs, operands, equation)
    parts = [_prepared(labels, x, sizes) for labels, x in zip(inputs, operands)]
    order = _order([frozenset(labels) for labels, _ in parts], out, sizes)
    for i, j in order:
        (lb, b), (la, a) = parts.pop(j), parts.pop(i)
        keep = set(out).union(*(labels for labels, _ in parts))
        parts.append(_pair(la, a, lb, b, keep, sizes))
    labels, x = _summed(*parts[0], set(out))
    x = _arranged(labels, x, out)
    shape = tuple(sizes[a] for a in out)
    if x.shape != shape:
        x = _core.broadcast_view(x, shape).copy()
    elif x is operands[0]:
        x = x.alias()
    return _core.cast(x, dtypes.bool) if truth else x


def kron(x1, x2, /):
    """Kronecker product: each element of x1 times the whole of x2, block by block; the shorter shape is continued on the left.

    >>> import tensorx as tx
    >>> tx.kron(tx.asarray([1, 10]), tx.asarray([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    a, b = common("kron", x1, x2)
    n = max(a.ndim, b.ndim)
    sa, sb = (1,) * (n - a.ndim) + a.shape, (1,) * (n - b.ndim) + b.shape
    wide = a.reshape(tuple(k for s in sa for k in (s, 1))) * b.reshape(tuple(k for s in sb for k in (1, s)))
    return wide.reshape(tuple(p * q for p, q in zip(sa, sb)))


_core.add_method("kron", kron)
