# Matrix products: shapes and dtypes here, the arithmetic in gemm.h.

cdef extern from "gemm.h" nogil:
    enum:
        TX_GEMM_ACCUMULATE, TX_GEMM_CONJ_A, TX_GEMM_CONJ_B
    ctypedef struct tx_gemm_args:
        int32_t dtype, flags
        int64_t batch, m, n, k
        const void *a
        const void *b
        void *c
        const void *bias
        int64_t a_rs, a_cs, a_bs, b_rs, b_cs, b_bs, c_rs, c_cs, c_bs
        const int64_t *a_boff
        const int64_t *b_boff
        const int64_t *c_boff
    int tx_gemm(const tx_gemm_args *, const void *)


cdef int batch_strides(tx_node *n, int nbatch, const int64_t *shape, int64_t *out) noexcept:
    """Strides of n's leading axes broadcast to the batch shape."""
    cdef int d, j, off = nbatch - (n.ndim - 2)
    for d in range(nbatch):
        j = d - off
        out[d] = 0 if j < 0 or n.shape[j] == 1 else n.strides[j]
    return 0


cdef bint collapsible(int nb, const int64_t *shape, const int64_t *strides, int64_t *step) noexcept:
    """Whether the batch axes are walked with one stride."""
    cdef int d
    cdef int64_t want = -1
    cdef bint first = True
    step[0] = 0
    for d in range(nb - 1, -1, -1):
        if shape[d] == 1:
            continue
        if first:
            step[0] = strides[d]
            want = strides[d] * shape[d]
            first = False
        else:
            if strides[d] != want:
                return False
            want = strides[d] * shape[d]
    return True


cdef int64_t *batch_offsets(int nb, const int64_t *shape, const int64_t *strides, int64_t count) noexcept:
    cdef int64_t *o = <int64_t *>malloc(count * sizeof(int64_t) if count else 8)
    cdef int64_t c[64]
    cdef int64_t i, at = 0
    cdef int d
    if o == NULL:
        return NULL
    for d in range(nb):
        c[d] = 0
    for i in range(count):
        o[i] = at
        for d in range(nb - 1, -1, -1):
            at += strides[d]
            c[d] += 1
            if c[d] < shape[d]:
                break
            at -= shape[d] * strides[d]
            c[d] = 0
    return o


cdef int fill_gemm(tx_gemm_args *g, tx_node *a, tx_node *b, int nb, const int64_t *batch) except -1:
    """Operands of a product of matrices (at least 2 axes each), all leaves."""
    cdef int64_t sa[64]
    cdef int64_t sb[64]
    cdef int64_t count = tx_numel(nb, batch)
    cdef int isz = tx_item_size[a.dtype]
    g.dtype = a.dtype
    g.flags = 0
    g.batch = count
    g.m = a.shape[a.ndim - 2]
    g.k = a.shape[a.ndim - 1]
    g.n = b.shape[b.ndim - 1]
    g.a = a.st.ptr + a.offset * isz
    g.b = b.st.ptr + b.offset * isz
    g.a_rs = a.strides[a.ndim - 2]
    g.a_cs = a.strides[a.ndim - 1]
    g.b_rs = b.strides[b.ndim - 2]
    g.b_cs = b.strides[b.ndim - 1]
    g.bias = NULL
    g.a_boff = NULL
    g.b_boff = NULL
    g.c_boff = NULL
    batch_strides(a, nb, batch, sa)
    batch_strides(b, nb, batch, sb)
    if not collapsible(nb, batch, sa, &g.a_bs):
        g.a_boff = batch_offsets(nb, batch, sa, count)
        if g.a_boff == NULL:
            raise MemoryError()
    if not collapsible(nb, batch, sb, &g.b_bs):
        g.b_boff = batch_offsets(nb, batch, sb, count)
        if g.b_boff == NULL:
            free(<void *>g.a_boff)
            g.a_boff = NULL
            raise MemoryError()
    return 0


def matmul_raw(Tensor x, Tensor y, bias=None, out=None, bint accumulate=False, bint conj_x=False, bint conj_y=False):
    """Products of matrices (2 or more axes each, equal dtypes, CPU), batch axes broadcast; without history.

    bias: one row of n elements added to every row. out: a tensor of the result's shape and dtype whose storage holds
    neither operand; accumulate adds to it.
    """
    cdef tx_node *a = x.n
    cdef tx_node *b = y.n
    cdef tx_node *c
    cdef tx_gemm_args g
    cdef int nb, i, rc, d
    cdef int64_t shape[64]
    cdef int64_t sc[64]
    cdef int64_t da, db
    cdef double work
    ensure(a)
    ensure(b)
    if a.device != b.device:
        raise device_error("matmul", 1, a.device, b.device)
    if a.shape[a.ndim - 1] != b.shape[b.ndim - 2]:
        raise ShapeError(f"matmul: shapes {shape_of(a)} and {shape_of(b)} do not fit: {a.shape[a.ndim - 1]} columns against "
                         f"{b.shape[b.ndim - 2]} rows")
    nb = (a.ndim if a.ndim > b.ndim else b.ndim) - 2
    for i in range(nb):
        da = 1 if i < nb - (a.ndim - 2) else a.shape[i - (nb - (a.ndim - 2))]
        db = 1 if i < nb - (b.ndim - 2) else b.shape[i - (nb - (b.ndim - 2))]
        if da != db and da != 1 and db != 1:
            raise ShapeError(f"matmul: batch axes of shapes {shape_of(a)} and {shape_of(b)} do not broadcast")
        shape[i] = db if da == 1 else da
    shape[nb] = a.shape[a.ndim - 2]
    shape[nb + 1] = b.shape[b.ndim - 1]
    if out is None:
        r = None
        if a.device != 0:
            r = device_matmul(x, y, tuple([shape[i] for i in range(nb + 2)]), bias, None, False, conj_x or conj_y)
            if r is not None:
                return r
            g_backends[a.device].on_host("matmul")
        c = leaf_empty(a.device, a.dtype, nb + 2, shape, "matmul")
        r = wrap(c)
        host_writable(c)
    else:
        r = out
        c = (<Tensor>r).n
        prepare_write(r, "matmul")
        if c.ndim != nb + 2 or not tx_same_shape(nb + 2, c.shape, shape) or c.dtype != a.dtype:
            raise ShapeError(f"matmul: out has shape {shape_of(c)} and dtype {DTYPES[c.dtype].name}, the result {tuple([shape[i] for i in range(nb + 2)])}")
        note_write(c.st, "matmul")
        c.st.version += 1
        if a.device != 0 and device_matmul(x, y, shape_of(c), bias, r, accumulate, conj_x or conj_y) is not None:
            return r
    if c.numel == 0:
        return r
    host_ready(a)
    host_ready(b)
    fill_gemm(&g, a, b, nb, shape)
    g.flags = ((TX_GEMM_ACCUMULATE if accumulate else 0) | (TX_GEMM_CONJ_A if conj_x else 0) | (TX_GEMM_CONJ_B if conj_y else 0))
    g.c = c.st.ptr + c.offset * tx_item_size[c.dtype]
    g.c_rs = c.strides[nb]
    g.c_cs = c.strides[nb + 1]
    for d in range(nb):
        sc[d] = 0 if c.shape[d] == 1 else c.strides[d]
    if not collapsible(nb, shape, sc, &g.c_bs):
        g.c_boff = batch_offsets(nb, shape, sc, g.batch)
    if bias is not None:
        g.bias = leaf_bytes(bias)
    work = <double>g.batch * g.m * g.n * g.k
    try:
        if work < 1e5:
            rc = tx_gemm(&g, K.gemm)
        else:
            mark(a.st, 0, 1)
            mark(b.st, 0, 1)
            mark(c.st, 1, 1)
            a.refs += 1
            b.refs += 1
            c.refs += 1
            with nogil:
                tx_polls(1)
                rc = tx_gemm(&g, K.gemm)
                tx_polls(0)
            mark(a.st, 0, -1)
            mark(b.st, 0, -1)
            mark(c.st, 1, -1)
            node_unref(a)
            node_unref(b)
            node_unref(c)
            wake_waiters()
    finally:
        free(<void *>g.a_boff)
        free(<void *>g.b_boff)
        free(<void *>g.c_boff)
    if rc == 1:
        raise oom_error(0, c.st.nbytes, "matmul workspace")
    if rc == 2:
        interrupted()
    return r
