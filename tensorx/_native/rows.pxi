# Row kernels: softmax, log_softmax, logsumexp, layer_norm, rms_norm over the last axis.

cdef extern from "rows.h" nogil:
    enum:
        TX_ROW_SOFTMAX, TX_ROW_LOG_SOFTMAX, TX_ROW_LOGSUMEXP, TX_ROW_LAYER_NORM, TX_ROW_RMS_NORM
        TX_ROW_SOFTMAX_BACKWARD, TX_ROW_LOG_SOFTMAX_BACKWARD
    ctypedef struct tx_row_job:
        const tx_prog *p
        const tx_rows *k
        int32_t kind, isz
        int64_t rows, n, per_task
        char *dst
        const char *src
        const char *src2
        const char *weight
        const char *bias
        char *mean
        char *rstd
        double eps
    void tx_run_rows(tx_row_job *)

ROW_CODES = {"softmax": TX_ROW_SOFTMAX, "log_softmax": TX_ROW_LOG_SOFTMAX, "logsumexp": TX_ROW_LOGSUMEXP,
             "layer_norm": TX_ROW_LAYER_NORM, "rms_norm": TX_ROW_RMS_NORM,
             "softmax_backward": TX_ROW_SOFTMAX_BACKWARD, "log_softmax_backward": TX_ROW_LOG_SOFTMAX_BACKWARD}
cdef dict ROW_NAMES = {code: name for name, code in ROW_CODES.items()}


cdef char *leaf_bytes(object t) except? NULL:
    """Address of a C-contiguous tensor's values, or NULL for None."""
    if t is None:
        return NULL
    cdef tx_node *n = (<Tensor>t).n
    ensure(n)
    host_ready(n)
    return n.st.ptr + n.offset * tx_item_size[n.dtype]


def row_op(int kind, Tensor x, weight=None, bias=None, double eps=0.0, mean=None, rstd=None, second=None):
    """A row kernel over the last axis of x (float32 or float64, CPU), without a record of history.

    A pending x is computed row by row into the result. weight, bias: contiguous, of the last
    axis's length and x's dtype. mean, rstd: tensors of one element per row to be filled.
    second: the forward result of the backward kernels, contiguous and of x's shape.
    """
    cdef tx_row_job job
    cdef tx_node *src = x.n
    cdef tx_node *out
    cdef Plan *P = NULL
    cdef int nd = src.ndim, rc, tries = 0, d
    cdef bint program
    cdef int64_t shape[64]
    if src.dtype != TX_F32 and src.dtype != TX_F64:
        raise DTypeError(f"row kernels: need float32 or float64, got {DTYPES[src.dtype].name}")
    if src.device != 0:
        done = device_row_op(kind, x, weight, bias, eps, mean, rstd, second)
        if done is not None:
            return done
        ensure(src)
        g_backends[src.device].on_host(ROW_NAMES[kind])
    for d in range(nd):
        shape[d] = src.shape[d]
    if kind == TX_ROW_LOGSUMEXP:
        # the value itself is needed only row by row, yet rows may be long: it is stored
        ensure(src)
    job.p = NULL
    job.k = &K.rows[0 if src.dtype == TX_F32 else 1]
    job.kind = kind
    job.isz = tx_item_size[src.dtype]
    job.n = src.shape[nd - 1]
    job.rows = src.numel // job.n if job.n else 0
    job.weight = leaf_bytes(weight)
    job.bias = leaf_bytes(bias)
    job.mean = leaf_bytes(mean)
    job.rstd = leaf_bytes(rstd)
    job.src2 = leaf_bytes(second)
    job.eps = eps
    job.src = NULL
    if kind == TX_ROW_LOGSUMEXP:
        out = leaf_empty(src.device, src.dtype, nd - 1, shape, "logsumexp")
    else:
        out = leaf_empty(src.device, src.dtype, nd, shape, ROW_NAMES[kind])
    if src.numel == 0:
        return wrap(out)
    try:
        host_writable(out)
        job.dst = out.st.ptr
        program = src.kind == TX_EW or src.kind == TX_CAST
        if not program:
            ensure(src)
            host_ready(src)
        if src.kind == TX_LEAF:
            if tx_is_c_dense(nd, src.shape, src.strides):
                job.src = src.st.ptr + src.offset * job.isz
                mark(src.st, 0, 1)
                src.refs += 1
                with nogil:
                    tx_run_rows(&job)
                mark(src.st, 0, -1)
                node_unref(src)
                wake_waiters()
                return wrap(out)
            if kind == TX_ROW_LOGSUMEXP:
                node_unref(out)
                out = NULL
                out = node_c_copy(src)
                t = wrap(out)
                out = NULL
                return row_op(kind, t, weight, bias, eps, mean, rstd, second)
            node_write(out, src, "copy")
            out.st.version = 0
            host_ready(out)
            host_writable(out)
            job.src = out.st.ptr
            with nogil:
                tx_run_rows(&job)
            return wrap(out)
        # pending: the program writes each row of the result, the kernel finishes it
        P = plan_take()
        while True:
            if src.kind == TX_LEAF:
                node_unref(out)
                out = NULL
                return row_op(kind, x, weight, bias, eps, mean, rstd, second)
            rc = row_program(P, src, out, &job)
            if rc == DONE:
                break
            if rc == NEED:
                ensure(P.need if P.need != NULL else costliest_input(src))
            else:
                settle_need(P, rc, src, &tries)
        src.flags |= TX_N_SEEN
        return wrap(out)
    except:
        if out != NULL:
            node_unref(out)
        raise
    finally:
        if P != NULL:
            plan_give(P)


cdef int row_program(Plan *P, tx_node *src, tx_node *out, tx_row_job *job) except -1:
    cdef int rc
    P.root = src
    P.dst = out
    P.held = False
    P.nojoin = True
    rc = plan_collect(P)
    P.nojoin = False
    if rc != DONE:
        return rc
    P.rawhalf = False
    P.reducing = True
    plan_mark_outputs(P)
    plan_last_reads(P)
    plan_domain(P, NULL, 0, -1)
    rc = plan_outputs(P, 0)
    P.reducing = False
    if rc != DONE:
        return rc
    if g_recording:
        record_program(P)
    plan_emit(P, False)
    P.prog.npf = 0
    job.p = &P.prog
    plan_mark(P, 1)
    with nogil:
        tx_run_rows(job)
    plan_mark(P, -1)
    plan_commit(P)
    plan_release(P)
    return DONE
