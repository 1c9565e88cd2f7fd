# Joining: each part is computed straight into its place.

cdef enum:
    MAX_LENGTH = 0x7fffffffffffffff


def join(list arrays, axis, bint along_new):
    """concat (along an existing axis) or stack (along a new one) of tensors, without history.

    None where they are not tensors of one dtype and device whose shapes fit, or axis is no axis: the caller promotes, or says
    what is wrong."""
    cdef Py_ssize_t count = len(arrays), k
    cdef tx_node *first
    cdef tx_node *n
    cdef tx_node *part
    cdef Tensor out
    cdef int64_t shape[64]
    cdef int64_t strides[64]
    cdef int64_t at = 0, size, total = 0
    cdef int a, i, nd, m
    if count == 0 or not isinstance(arrays[0], Tensor) or type(axis) is not int:
        return None
    first = (<Tensor>arrays[0]).n
    nd = first.ndim
    m = nd + 1 if along_new else nd
    if m == 0 or m > 64 or not -m <= axis < m:
        return None
    a = axis + m if axis < 0 else axis
    for k in range(count):
        if not isinstance(arrays[k], Tensor):
            return None
        n = (<Tensor>arrays[k]).n
        if n.dtype != first.dtype or n.device != first.device or n.ndim != nd:
            return None
        for i in range(nd):
            if n.shape[i] != first.shape[i] and (along_new or i != a):
                return None
        size = 1 if along_new else n.shape[a]
        if size > MAX_LENGTH - total:
            raise OutOfMemoryError(f"{'stack' if along_new else 'concat'}: more than 2**63 elements along axis {a}")
        total += size
    for i in range(m):
        shape[i] = total if i == a else first.shape[i - 1 if along_new and i > a else i]
    out = wrap(leaf_empty(first.device, first.dtype, m, shape, "stack" if along_new else "concat"))
    for i in range(nd):
        strides[i] = out.n.strides[i + 1 if along_new and i >= a else i]
    for k in range(count):
        n = (<Tensor>arrays[k]).n
        if n.numel:
            part = leaf_view(out.n, nd, n.shape, strides, at * out.n.strides[a])
            try:
                node_write(part, n, "stack" if along_new else "concat")
            finally:
                node_unref(part)
        at += 1 if along_new else n.shape[a]
    out.n.st.version = 0
    return out
