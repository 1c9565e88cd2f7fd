# Python indices, and the functions that tensorx/ops/indexing.py and assigning.py call.

# ---- Python indices ---------------------------------------------------------------------------

cdef bint is_truth(object it):
    """A 0-d truth value: Python's, NumPy's or a 0-d bool tensor or array."""
    if isinstance(it, bool):
        return True
    if isinstance(it, Tensor):
        return (<Tensor>it).n.ndim == 0 and (<Tensor>it).n.dtype == TX_BOOL
    np = sys_modules.get("numpy")
    return np is not None and (isinstance(it, np.bool_) or (isinstance(it, np.ndarray) and it.ndim == 0 and it.dtype.kind == "b"))


cdef bint is_integer(object it):
    if type(it) is int:
        return True
    if isinstance(it, Tensor):
        return (<Tensor>it).n.ndim == 0 and KIND[(<Tensor>it).n.dtype] in (c'i', c'u')
    if is_ndarray(it):
        return it.ndim == 0 and it.dtype.kind in "iu"
    return PyIndex_Check(it) and not isinstance(it, (list, tuple))


cdef Picker pick(Tensor x, object index, str op, bint keep_mask):
    """Reads a Python index; at least one entry is an array, a list or a truth value. A mask that
    is the only one stays a mask where keep_mask says so, else it becomes index arrays."""
    cdef Picker P = Picker.__new__(Picker)
    cdef tuple items = index if type(index) is tuple else (index,)
    cdef list entries = []                   # (code, object): n None, e ..., s slice, i int, b truth, a array, m mask
    cdef list more = []                      # further shapes of the positions
    cdef list dims = []
    cdef int used = 0, masks = 0, arrays = 0, axis = 0, place = -1, state = 0, fill, j
    cdef bint apart = False, ellipsis = False, whole
    cdef Tensor t
    cdef tx_node *n
    cdef int64_t k, start, stop, step, length
    P.start(x, op)
    n = x.n
    for it in items:
        if it is None:
            entries.append(("n", None))
        elif it is Ellipsis:
            if ellipsis:
                raise IndexError(f"{op}: an index can have only one ellipsis (...)")
            ellipsis = True
            entries.append(("e", None))
        elif type(it) is slice:
            used += 1
            entries.append(("s", it))
        elif is_truth(it):
            arrays += 1
            entries.append(("b", bool(it)))
        elif is_integer(it):
            used += 1
            entries.append(("i", it))
        else:
            t = index_tensor(it, n.device, op)
            if t.n.dtype == TX_BOOL and t.n.ndim > 0:
                used += t.n.ndim
                masks += 1
                entries.append(("m", t))
            elif t.n.dtype == TX_BOOL:
                arrays += 1
                entries.append(("b", bool(t)))
            else:
                used += 1
                arrays += 1
                entries.append(("a", t))
    if used > n.ndim:
        raise IndexError(f"{op}: too many indices: {used} for a tensor of {n.ndim} axes with shape {shape_of(n)}")
    fill = n.ndim - used
    if not ellipsis:
        entries.append(("e", None))
    for code, it in entries:
        if code in "nes":
            if state == 1:
                state = 2
        else:
            if state == 0:
                state = 1
                place = len(dims)
            elif state == 2:
                apart = True
        if code == "n":
            dims.append((1, 0))
        elif code == "e":
            for j in range(fill):
                dims.append((n.shape[axis], n.strides[axis]))
                axis += 1
        elif code == "s":
            PySlice_Unpack(it, <Py_ssize_t *>&start, <Py_ssize_t *>&stop, <Py_ssize_t *>&step)
            length = PySlice_AdjustIndices(n.shape[axis], <Py_ssize_t *>&start, <Py_ssize_t *>&stop, step)
            if length > 0:
                P.offset += start * n.strides[axis]
            dims.append((length, n.strides[axis] * step))
            axis += 1
        elif code == "i":
            k = PyNumber_AsSsize_t(it.item() if isinstance(it, Tensor) else it, IndexError)
            if k < -n.shape[axis] or k >= n.shape[axis]:
                raise IndexError(f"{op}: index {k} is out of range for axis {axis} of size {n.shape[axis]} (tensor of shape {shape_of(n)})")
            P.offset += (k + n.shape[axis] if k < 0 else k) * n.strides[axis]
            axis += 1
        elif code == "b":
            more.append((1,) if it else (0,))
        elif code == "a":
            P.add_array(it, axis)
            axis += 1
        else:
            t = it
            whole = True
            for j in range(t.n.ndim):
                if t.n.shape[j] == 0 and n.shape[axis + j] != 0:
                    whole = False            # a mask of nothing selects nothing
                elif t.n.shape[j] != n.shape[axis + j]:
                    raise IndexError(f"{op}: a mask of shape {shape_of(t.n)} does not fit: its axis {j} has size {t.n.shape[j]}, axis {axis + j} "
                                     f"of the tensor has size {n.shape[axis + j]} (shape {shape_of(n)})")
            if masks == 1 and arrays == 0 and keep_mask and whole:
                P.mask = t
                P.J.b.n = t.n.ndim
                for j in range(t.n.ndim):
                    P.J.b.size[j] = t.n.shape[j]
                    P.J.b.x[j] = n.strides[axis + j] * tx_item_size[n.dtype]
            else:
                for j, part in enumerate(nonzero(t, False)):
                    P.add_array(part, axis + j)
            axis += t.n.ndim
    if P.mask is None:
        P.positions(more)
    if len(dims) > TX_MAXDIM:
        raise IndexError(f"{op}: the result would have more than {TX_MAXDIM} axes")
    for j in range(<int>len(dims)):
        P.keep_axis(&P.J.i if apart or j >= place else &P.J.o, dims[j][0], dims[j][1])
    P.finish()
    return P


def as_index(index, Tensor x, str op):
    """An index array (tensor, NumPy array, list or int) as a tensor of integers or bools on x's device."""
    return index_tensor(index, x.n.device, op)


def index_get(Tensor x, index, str op="getitem"):
    """x[index] for an index with arrays, lists, masks or truth values: a copy."""
    return pick(x, index, op, True).gather()


def index_put(Tensor x, index, value, bint accumulate=False, str op="setitem", bint counted=False):
    """x[index] = value for such an index; with accumulate the values are added, duplicates too.
    Without it the last of several writes to one element wins. counted: see Picker.put."""
    cdef Tensor v = basic_index(x, index)
    if v is not None:
        if not accumulate:
            write_value(v, value, op)
            return
        index = (Ellipsis, True)             # a basic view: one position
        x = v
    pick(x, index, op, not accumulate or x.n.device != 0).put(value, accumulate, counted)


# ---- along an axis ------------------------------------------------------------------------------

cdef Picker pick_axis(Tensor x, Tensor index, int axis, str op):
    """x with one axis replaced by the axes of an index array."""
    cdef Picker P = Picker.__new__(Picker)
    cdef int d
    P.start(x, op)
    P.add_array(index_tensor(index, x.n.device, op), axis)
    if (<Tensor>P.tensors[0]).n.dtype == TX_BOOL:
        raise IndexError(f"{op}: the index must be an integer tensor, not bool; masks are for x[mask] and masked_select")
    P.positions([])
    for d in range(x.n.ndim):
        if d < axis:
            P.keep_axis(&P.J.o, x.n.shape[d], x.n.strides[d])
        elif d > axis:
            P.keep_axis(&P.J.i, x.n.shape[d], x.n.strides[d])
    P.finish()
    return P


cdef Picker pick_along(Tensor x, Tensor index, int axis, str op):
    """One index for each element: index has x's rank; on the other axes it is no longer than x."""
    cdef Picker P = Picker.__new__(Picker)
    cdef int d
    P.start(x, op)
    index = index_tensor(index, x.n.device, op)
    if index.n.dtype == TX_BOOL:
        raise IndexError(f"{op}: the index must be an integer tensor, not bool")
    if index.n.ndim != x.n.ndim:
        raise ShapeError(f"{op}: the index of shape {shape_of(index.n)} needs as many axes as the tensor of shape {shape_of(x.n)}")
    for d in range(x.n.ndim):
        if d != axis and index.n.shape[d] > x.n.shape[d]:
            raise ShapeError(f"{op}: the index of shape {shape_of(index.n)} is longer than the tensor of shape {shape_of(x.n)} on axis {d}")
    P.add_array(index, axis)
    P.positions([])
    P.along = axis + 1
    for d in range(x.n.ndim):
        P.J.b.x[d] = 0 if d == axis else x.n.strides[d] * tx_item_size[x.n.dtype]
    P.finish()
    return P


def take_axis(Tensor x, Tensor index, int axis, str op):
    """The slices of x at the positions index along axis: x.shape[:axis] + index.shape + x.shape[axis + 1:]."""
    return pick_axis(x, index, axis, op).gather()


def put_axis(Tensor x, Tensor index, int axis, value, bint accumulate, str op):
    """The slices at index along axis take (or gain) value, which broadcasts to take_axis's shape."""
    pick_axis(x, index, axis, op).put(value, accumulate)


def gather_along(Tensor x, Tensor index, int axis, str op):
    """out[i, j, ..] = x[i, index[i, j, ..], ..] with the index on the given axis."""
    return pick_along(x, index, axis, op).gather()


def scatter_along(Tensor x, Tensor index, int axis, value, bint accumulate, str op):
    """x[i, index[i, j, ..], ..] = value[i, j, ..] (or +=); value has the index's shape or is a number."""
    pick_along(x, index, axis, op).put(value, accumulate)


# ---- masks -----------------------------------------------------------------------------------------

cdef Picker pick_mask(Tensor x, Tensor mask, str op):
    """The elements of x where a mask of x's shape is true."""
    cdef Picker P = Picker.__new__(Picker)
    cdef int d
    P.start(x, op)
    mask = index_tensor(mask, x.n.device, op)
    if mask.n.dtype != TX_BOOL:
        raise DTypeError(f"{op}: the mask must be bool, got {DTYPES[mask.n.dtype].name}; compare or use astype(tx.bool)")
    P.mask = mask
    P.J.b.n = x.n.ndim
    for d in range(x.n.ndim):
        P.J.b.size[d] = x.n.shape[d]
        P.J.b.x[d] = x.n.strides[d] * tx_item_size[x.n.dtype]
    P.finish()
    return P


def mask_get(Tensor x, Tensor mask, str op):
    """The elements of x where mask (of x's shape) is true, in C order."""
    return pick_mask(x, mask, op).gather()


def mask_put(Tensor x, Tensor mask, value, str op, bint counted=False):
    """They take value: a number, a 0-d tensor, or a one-dimensional tensor of as many elements (counted: for sure)."""
    pick_mask(x, mask, op).put(value, False, counted)


def count_true(Tensor mask):
    """Number of true elements of a bool tensor."""
    cdef Picker P = pick_mask(mask, mask, "count")
    cdef Access A = P.access()
    try:
        P.count(A, P.on_device())
        return P.shape[0]
    finally:
        P.done()


def nonzero(Tensor mask, bint rows, str op="nonzero"):
    """Positions of the true elements of a bool tensor: a list of int64 tensors, one per axis, or
    (rows) one tensor of shape (count, axes)."""
    cdef Picker P = pick_mask(mask, mask, op)
    cdef Access A = P.access()
    cdef tx_nonzero Z
    cdef tx_node *m = P.mask.n
    cdef int64_t sh[64]
    cdef int d, nd = m.ndim
    cdef list out = []
    if P.on_device():
        return P.places(A, rows)
    try:
        P.count(A)
        sh[0] = P.shape[0]
        sh[1] = nd
        if rows:
            out.append(wrap(leaf_empty(m.device, TX_I64, 2, sh, op)))
        else:
            for d in range(nd):
                out.append(wrap(leaf_empty(m.device, TX_I64, 1, sh, op)))
        if sh[0] == 0 or nd == 0:
            return out
        A.ready()
        Z.mask = m.st.ptr + m.offset
        Z.nd = nd
        Z.npos = m.numel
        Z.before = P.J.before
        Z.step = nd if rows else 1
        for d in range(nd):
            Z.size[d] = m.shape[d]
            Z.mst[d] = m.strides[d]
            host_writable((<Tensor>out[0 if rows else d]).n)
            Z.out[d] = <int64_t *>(<Tensor>out[0]).n.st.ptr + d if rows else <int64_t *>(<Tensor>out[d]).n.st.ptr
        if m.numel * 2.0 < LONG_NS:
            tx_nonzero_write(&Z)
        else:
            A.mark(1)
            with nogil:
                tx_nonzero_write(&Z)
            A.mark(-1)
        return out
    finally:
        if P.J.before != NULL:
            tx_mask_done(&P.J)
