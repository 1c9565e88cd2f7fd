# Gradients of the normalisations: see norm_backward.h.

cdef extern from "norm_backward.h" nogil:
    ctypedef struct tx_norm_job:
        const tx_rows *k
        int32_t isz, rms
        int64_t rows, n
        char *dst
        const char *grad
        const char *src
        const char *weight
        const char *mean
        const char *rstd
        double *dw
        double *db
        char *dweight
        char *dbias
    int tx_run_norm_backward(tx_norm_job *)


cdef tx_node *c_ordered(tx_node *n) except NULL:
    """The values of n as a leaf in C order; one hold."""
    ensure(n)
    host_ready(n)
    if tx_is_c_dense(n.ndim, n.shape, n.strides):
        n.refs += 1
        return n
    n = node_c_copy(n)
    host_ready(n)
    return n


cdef tuple device_norm_backward(Tensor g, Tensor x, object weight, object mean, object rstd, bint want_x, bint want_weight, bint want_bias):
    """The same on x's device, or None where it has no kernel."""
    cdef object backend = g_backends[x.n.device]
    cdef int64_t size = x.n.shape[x.n.ndim - 1]
    cdef Tensor t
    cdef Tensor dx = None
    cdef Tensor dw = None
    cdef Tensor db = None
    if x.n.ndim != 2 or g.n.dtype != x.n.dtype or not backend.has_row_op(TX_ROW_LAYER_NORM, x.n.dtype):
        return None
    ensure(x.n)
    ensure(g.n)
    if not tx_is_c_dense(x.n.ndim, x.n.shape, x.n.strides):
        x = wrap(node_c_copy(x.n))
    if want_x:
        dx = wrap(leaf_empty(x.n.device, x.n.dtype, 2, x.n.shape, "norm_backward"))
    if want_weight:
        dw = wrap(leaf_empty(x.n.device, x.n.dtype, 1, &size, "norm_backward"))
    if want_bias:
        db = wrap(leaf_empty(x.n.device, x.n.dtype, 1, &size, "norm_backward"))
    if x.n.numel == 0:
        for t in (dx, dw, db):
            if t is not None and t.n.numel:
                write_value(t, 0, "norm_backward")
                reset_version(t)
        return dx, dw, db
    operands = [t for t in (g, x, weight, mean, rstd) if t is not None]
    for t in operands:
        ensure(t.n)
    for t in operands:
        mark(t.n.st, 0, 1)
    try:
        backend.norm_backward(leaf_text(g.n), leaf_text(x.n), maybe_text(weight), maybe_text(mean), maybe_text(rstd), maybe_text(dx),
                              maybe_text(dw), maybe_text(db))
    finally:
        for t in operands:
            mark(t.n.st, 0, -1)
        wake_waiters()
    return dx, dw, db


def norm_backward(Tensor g, Tensor x, weight, mean, rstd, bint want_x, bint want_weight, bint want_bias):
    """Gradients (of x, weight, bias; None where not wanted) of layer_norm, or of rms_norm where mean is None.

    g and x: rows of one length, float32 or float64. weight: one contiguous row, or None. mean, rstd: the forward's, one
    element per row. Without a record of history. None where the device has no kernel.
    """
    cdef tx_norm_job j
    cdef tx_node *a = NULL
    cdef tx_node *b = NULL
    cdef int64_t n = x.n.shape[x.n.ndim - 1]
    cdef int ok
    cdef Tensor dx = None
    cdef Tensor dw = None
    cdef Tensor db = None
    if x.n.dtype != TX_F32 and x.n.dtype != TX_F64:
        raise DTypeError(f"norm_backward: needs float32 or float64, got {DTYPES[x.n.dtype].name}")
    if x.n.device:
        return device_norm_backward(g, x, weight, mean, rstd, want_x, want_weight, want_bias)
    try:
        a = c_ordered(g.n)
        b = c_ordered(x.n)
        j.k = &K.rows[0 if x.n.dtype == TX_F32 else 1]
        j.isz = tx_item_size[x.n.dtype]
        j.rms = mean is None
        j.n = n
        j.rows = x.n.numel // n if n else 0
        j.weight = leaf_bytes(weight)
        j.mean = leaf_bytes(mean)
        j.rstd = leaf_bytes(rstd)
        j.dw = NULL
        j.db = NULL
        j.dst = NULL
        j.dweight = NULL
        j.dbias = NULL
        if want_x:
            dx = wrap(leaf_empty(x.n.device, x.n.dtype, x.n.ndim, x.n.shape, "norm_backward"))
            host_writable(dx.n)
            j.dst = dx.n.st.ptr
        if want_weight:
            dw = wrap(leaf_empty(x.n.device, x.n.dtype, 1, &n, "norm_backward"))
            host_writable(dw.n)
            j.dweight = dw.n.st.ptr
        if want_bias:
            db = wrap(leaf_empty(x.n.device, x.n.dtype, 1, &n, "norm_backward"))
            host_writable(db.n)
            j.dbias = db.n.st.ptr
        j.grad = a.st.ptr + a.offset * j.isz
        j.src = b.st.ptr + b.offset * j.isz
        mark(a.st, 0, 1)
        mark(b.st, 0, 1)
        if <double>x.n.numel < LONG_NS / 2:
            ok = tx_run_norm_backward(&j)
        else:
            with nogil:
                ok = tx_run_norm_backward(&j)
        mark(a.st, 0, -1)
        mark(b.st, 0, -1)
        wake_waiters()
        if not ok:
            raise OutOfMemoryError("norm_backward: out of memory for the parameters' gradients")
    finally:
        if a != NULL:
            node_unref(a)
        if b != NULL:
            node_unref(b)
    return dx, dw, db
