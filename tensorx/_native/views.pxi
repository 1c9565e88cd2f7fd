# Movement: views of leaves, and movements of pending dense values.

cdef tx_node *rearranged(tx_node *n, int ndim, const int64_t *shape, const int64_t *strides) except NULL:
    """The dense value n under another shape. Pending stays pending: the memory is shared later."""
    if n.kind == TX_LAZY:
        ensure(n)
    if n.kind == TX_LEAF:
        return leaf_view(n, ndim, shape, strides, n.offset)
    if n.kind == TX_MOVE:
        return move_new(n.inp[0], ndim, shape, strides)
    return move_new(n, ndim, shape, strides)


cdef Tensor permute(Tensor x, tuple axes, str name):
    cdef tx_node *n = x.n
    cdef int64_t shape[64]
    cdef int64_t strides[64]
    cdef int i
    for i in range(n.ndim):
        shape[i] = n.shape[<int>axes[i]]
        strides[i] = n.strides[<int>axes[i]]
    cdef Tensor r = wrap(rearranged(n, n.ndim, shape, strides))
    view_of(x, r, "permute", axes)
    return r


def permute_view(Tensor x, tuple axes):
    """x with its axes in another order (a checked permutation)."""
    return permute(x, axes, "permute_dims")


cdef bint reshape_strides(tx_node *n, int ndim, const int64_t *shape, int64_t *strides) noexcept:
    """Strides of a view of n under a new shape of equal size; False where it must be copied."""
    cdef int64_t os[64]
    cdef int64_t ot[64]
    cdef int on = 0, i, oi, oj, ni, nj, k
    cdef int64_t np_, op
    for i in range(n.ndim):
        if n.shape[i] != 1:
            os[on] = n.shape[i]
            ot[on] = n.strides[i]
            on += 1
    if n.numel == 0 or on == 0:
        tx_c_strides(ndim, shape, strides)
        return True
    oi = 0
    oj = 1
    ni = 0
    nj = 1
    while ni < ndim and oi < on:
        np_ = shape[ni]
        op = os[oi]
        while np_ != op:
            if np_ < op:
                np_ *= shape[nj]
                nj += 1
            else:
                op *= os[oj]
                oj += 1
        for k in range(oi, oj - 1):
            if ot[k] != os[k + 1] * ot[k + 1]:
                return False
        strides[nj - 1] = ot[oj - 1]
        for k in range(nj - 1, ni, -1):
            strides[k - 1] = strides[k] * shape[k]
        ni = nj
        nj += 1
        oi = oj
        oj += 1
    for k in range(ni, ndim):
        strides[k] = 1 if k == 0 else strides[k - 1]
    return True


def reshape_view(Tensor x, tuple shape, bint copy_allowed=True):
    """x under a new shape of equal size; a view where nothing has to move, else a copy
    (None where copies are not allowed)."""
    cdef int64_t s[64]
    cdef int64_t t[64]
    cdef int i, nd = len(shape)
    cdef tx_node *n = x.n
    cdef tx_node *c
    cdef Tensor r
    if nd > TX_MAXDIM:
        raise ShapeError(f"reshape: {nd} axes are more than {TX_MAXDIM}")
    for i in range(nd):
        s[i] = shape[i]
    if n.kind != TX_LEAF and n.flags & 0:
        pass
    if reshape_strides(n, nd, s, t):
        r = wrap(rearranged(n, nd, s, t))
        view_of(x, r, "reshape", shape)
        return r
    if not copy_allowed:
        return None
    ensure(n)
    c = node_c_copy(n)
    try:
        tx_c_strides(nd, s, t)
        r = wrap(rearranged(c, nd, s, t))
    finally:
        node_unref(c)
    if tracked(x) and grad_on():
        HOOKS.cast(x, r, "reshape")
    return r


cdef tx_node *node_c_copy(tx_node *n) except NULL:
    """A C-ordered leaf with the values of the leaf n."""
    cdef tx_node *d = leaf_empty(n.device, n.dtype, n.ndim, n.shape, "copy")
    try:
        node_write(d, n, "copy")
        d.st.version = 0
    except:
        node_unref(d)
        raise
    return d


def strided_view(Tensor x, tuple shape, tuple strides, int64_t offset):
    """A view with any strides and an offset relative to x's first element, all in elements.
    The caller has checked that every element lies in the storage."""
    cdef int64_t s[64]
    cdef int64_t t[64]
    cdef int64_t lo, hi
    cdef int i, nd = len(shape)
    if nd > TX_MAXDIM:
        raise ShapeError(f"view: {nd} axes are more than {TX_MAXDIM}")
    ensure(x.n)
    for i in range(nd):
        s[i] = shape[i]
        t[i] = strides[i]
    if tx_numel(nd, s) > 0:
        tx_extent(nd, s, t, x.n.offset + offset, tx_item_size[x.n.dtype], &lo, &hi)
        if lo < 0 or hi > <int64_t>x.n.st.nbytes:
            raise ShapeError(f"view: shape {shape}, strides {strides} and offset {offset} leave the storage of {x.n.st.nbytes} bytes")
    cdef Tensor r = wrap(leaf_view(x.n, nd, s, t, x.n.offset + offset))
    if linked(x):
        r.meta = Meta.__new__(Meta)          # the caller records what the view is
    elif x.meta is not None and not (<Meta>x.meta).leaf:
        r.meta = x.meta
    return r


cdef int basic_axes(tuple items) except -2:
    """Number of axes that an index of integers, slices, None and Ellipsis uses; -1 for any other."""
    cdef int used = 0
    cdef bint ellipsis = False
    cdef object it
    for it in items:
        if it is None:
            continue
        if it is Ellipsis:
            if ellipsis:
                raise IndexError("an index can have only one ellipsis (...)")
            ellipsis = True
        elif type(it) is int or type(it) is slice:
            used += 1
        elif is_integer(it) and not is_truth(it):
            used += 1
        else:
            return -1
    return used


cdef int basic_region(tx_node *n, tuple items, int used, int64_t *s, int64_t *t, int64_t *offset) except -1:
    """The view of n that a basic index means: its rank, sizes, strides, and what is added to
    the offset. Only n's shape and strides are looked at."""
    cdef int64_t off = 0, k, start, stop, step, length
    cdef int nd = 0, axis = 0, fill = n.ndim - used, i
    cdef object it
    if fill < 0:
        raise IndexError(f"too many indices: {used} for a tensor of {n.ndim} axes with shape {shape_of(n)}")
    if fill > 0 or len(items) == 0:
        for it in items:
            if it is Ellipsis:
                break
        else:
            items = items + (Ellipsis,)
    for it in items:
        if nd >= TX_MAXDIM and type(it) is not int:
            raise IndexError(f"the result would have more than {TX_MAXDIM} axes")
        if it is None:
            s[nd] = 1
            t[nd] = 0
            nd += 1
        elif it is Ellipsis:
            if nd + fill > TX_MAXDIM:
                raise IndexError(f"the result would have more than {TX_MAXDIM} axes")
            for i in range(fill):
                s[nd] = n.shape[axis]
                t[nd] = n.strides[axis]
                nd += 1
                axis += 1
        elif type(it) is slice:
            PySlice_Unpack(it, <Py_ssize_t *>&start, <Py_ssize_t *>&stop, <Py_ssize_t *>&step)
            length = PySlice_AdjustIndices(n.shape[axis], <Py_ssize_t *>&start, <Py_ssize_t *>&stop, step)
            if length > 0:
                off += start * n.strides[axis]
            s[nd] = length
            t[nd] = n.strides[axis] * step
            nd += 1
            axis += 1
        else:
            k = PyNumber_AsSsize_t(it, IndexError)
            if k < -n.shape[axis] or k >= n.shape[axis]:
                raise IndexError(f"index {k} is out of range for axis {axis} of size {n.shape[axis]} (tensor of shape {shape_of(n)})")
            if k < 0:
                k += n.shape[axis]
            off += k * n.strides[axis]
            axis += 1
    offset[0] = off
    return nd


cdef Tensor basic_index(Tensor x, object index):
    """x[index] for integers, slices, None and Ellipsis; None (the object) for anything else."""
    cdef int64_t s[64]
    cdef int64_t t[64]
    cdef int64_t off = 0
    cdef int nd
    cdef tuple items = index if type(index) is tuple else (index,)
    cdef int used = basic_axes(items)
    if used < 0:
        return None
    ensure(x.n)
    nd = basic_region(x.n, items, used, s, t, &off)
    return wrap(leaf_view(x.n, nd, s, t, x.n.offset + off))


def basic_view(Tensor x, object index):
    """x[index] without a record of its history, or None where the index is not basic."""
    return basic_index(x, index)
