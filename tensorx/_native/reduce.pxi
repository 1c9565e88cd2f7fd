# Reductions: a pending expression is the prologue, evaluated block by block and folded.

cdef enum:
    TX_N_SEEN = 16                           # was reduced once without being stored

cdef list RED_NAMES = ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "sumsq", "sumabs"]


cdef tx_node *reduce_node(int red, tx_node *src, uint64_t axes, bint keepdims) except NULL:
    """The reduction of src over the axes of a bit mask: a leaf (of the accumulator's dtype,
    halves rounded to their own), dense in the memory order of the kept axes."""
    cdef Plan *P
    cdef tx_node *own = NULL
    cdef tx_node *out = NULL
    cdef int rdt = tx_reg_dtype(src.dtype)
    cdef const tx_red *R = &K.red[red][rdt]
    cdef int rc, tries = 0
    cdef str name = RED_NAMES[red]
    global g_hold_imm
    if not R.ok:
        raise DTypeError(f"{name}: not defined for {DTYPES[src.dtype].name}; convert with astype")
    if src.kind == TX_MOVE or src.kind == TX_ASSIGN or src.kind == TX_LAZY or (src.flags & TX_N_SEEN and src.handles > 0 and src.kind != TX_LEAF):
        ensure(src)
    if src.kind == TX_LEAF:
        g_hold_imm = True
        try:
            own = node_new(TX_CAST, 0, 1, &src, NULL, src.dtype, src.dtype)
        finally:
            g_hold_imm = False
        src = own
    else:
        src.refs += 1
        own = src
    P = plan_take()
    try:
        while True:
            if src.kind == TX_LEAF:
                return reduce_node(red, src, axes, keepdims)
            rc = reduce_program(P, red, src, axes, keepdims, &out)
            if rc == DONE:
                break
            if rc == NEED:
                ensure(P.need if P.need != NULL else costliest_input(src))
            else:
                settle_need(P, rc, src, &tries)
        src.flags |= TX_N_SEEN
    finally:
        plan_give(P)
        node_unref(own)
    return out


cdef int reduce_program(Plan *P, int red, tx_node *src, uint64_t axes, bint keepdims, tx_node **result) except -1:
    cdef tx_prog *g = &P.prog
    cdef const tx_red *R = &K.red[red][tx_reg_dtype(src.dtype)]
    cdef int perm[64]
    cdef int mem[64]
    cdef int nmem, i, j, nk = 0, np_ = 0, rc, tail, r
    cdef int64_t kept = 1, reduced = 1, inner = 1
    cdef int64_t shape[64]
    cdef int64_t strides[64]
    cdef int64_t stride
    cdef int nd = 0
    cdef bint natural, arg = red == TX_RED_ARGMAX or red == TX_RED_ARGMIN
    cdef tx_reduce_job job
    cdef tx_storage *s
    cdef tx_node *n
    cdef bint cols = False, half
    cdef double cost
    cdef void *work = NULL
    cdef int odt
    nmem = order_axes(src.ndim, src.shape, src.strides, mem)
    # the kept axes at the inner end of memory
    tail = nmem
    while tail > 0 and not axes >> mem[tail - 1] & 1:
        inner *= src.shape[mem[tail - 1]]
        tail -= 1
    for i in range(src.ndim):
        if axes >> i & 1:
            reduced *= src.shape[i]
        else:
            kept *= src.shape[i]
    cols = inner >= 16 and tail > 0 and reduced > 1
    if not cols:
        tail = nmem
        inner = 1
    for i in range(tail):
        if not axes >> mem[i] & 1:
            perm[np_] = mem[i]
            np_ += 1
    if arg:
        for i in range(src.ndim):
            if axes >> i & 1 and src.shape[i] != 1:
                perm[np_] = i
                np_ += 1
    else:
        for i in range(tail):
            if axes >> mem[i] & 1:
                perm[np_] = mem[i]
                np_ += 1
    for i in range(tail, nmem):
        perm[np_] = mem[i]
        np_ += 1
    natural = True
    for i in range(nmem):
        if perm[i] != mem[i]:
            natural = False
    P.root = src
    P.dst = NULL
    P.held = False
    P.nolinear = not natural
    P.nojoin = True
    rc = plan_collect(P)
    P.nolinear = False
    P.nojoin = False
    if rc != DONE:
        return rc
    if src.device != 0:
        rc = device_reduce(P, red, src, axes, keepdims, result)
        if rc != ON_HOST:
            return rc
    P.rawhalf = False
    plan_mark_outputs(P)
    P.out[src.idx] = 0
    P.reducing = True
    plan_last_reads(P)
    plan_domain(P, NULL if natural and P.linear else perm, np_, -1)
    rc = plan_outputs(P, 0)
    P.reducing = False
    if rc != DONE:
        return rc
    # the result: dense in the order in which its axes lie in the domain
    for i in range(src.ndim):
        strides[i] = 1
    stride = 1
    for i in range(np_ - 1, -1, -1):
        if not axes >> perm[i] & 1:
            strides[perm[i]] = stride
            stride *= src.shape[perm[i]]
    for i in range(src.ndim):
        if axes >> i & 1:
            if keepdims:
                shape[nd] = 1
                strides[nd] = 1
                nd += 1
        else:
            shape[nd] = src.shape[i]
            strides[nd] = strides[i]
            nd += 1
    # halves are reduced as float32, in workspace, and rounded once
    half = tx_is_half(src.dtype) and R.acc_dtype == TX_F32
    odt = src.dtype if half else R.acc_dtype
    if half:
        work = tx_scratch_alloc(<size_t>(kept * 4 + 64))
    if src.device != 0:
        s = device_wait(P, <size_t>(kept * tx_item_size[odt]), RED_NAMES[red])
    else:
        s = storage_try(0, <size_t>(kept * tx_item_size[odt]))
    if s == NULL or (half and work == NULL):
        if s != NULL:
            tx_st_release(s)
        if work != NULL:
            tx_scratch_free(work, <size_t>(kept * 4 + 64))
        plan_undo_outputs(P)
        device_done(P)
        plan_release(P)
        return NOMEM
    if g_recording:
        record_program(P)
        record_alloc(s, RED_NAMES[red], "result of a reduction")
    plan_emit(P, True)
    if P.scal[src.idx]:
        r = reg_slot(P)
        emit_copy(P, r, P.vreg[src.idx], tx_item_log2[tx_reg_dtype(src.dtype)], True)
        P.vreg[src.idx] = <int16_t>r
    g.ns_per_elem += 0.1
    job.p = g
    job.red = R
    job.value = P.vreg[src.idx]
    job.vsize = tx_item_size[tx_reg_dtype(src.dtype)]
    job.out_size = tx_item_size[R.acc_dtype]
    job.outer = kept // inner
    job.rcount = reduced
    job.inner = inner
    job.out = <char *>work if half else s.ptr
    if kept == 0:
        rc = 0
    elif reduced == 0:
        reduce_empty(red, R.acc_dtype, job.out, kept)
        rc = 0
    else:
        cost = <double>g.numel * g.ns_per_elem
        if cost < LONG_NS or src.device != 0:
            rc = tx_reduce(&job)
        else:
            plan_mark(P, 1)
            with nogil:
                rc = tx_reduce(&job)
            plan_mark(P, -1)
    device_done(P)
    plan_commit(P)
    plan_release(P)
    if g_recording:
        record_names()
    if half:
        if rc == 0:
            K.cast[odt][TX_F32](s.ptr, work, kept)
        tx_scratch_free(work, <size_t>(kept * 4 + 64))
    if rc:
        tx_st_release(s)
        return NOMEM
    n = leaf_new(s, odt, nd, shape, strides, 0)
    result[0] = n
    return DONE


cdef void reduce_empty(int red, int dt, char *out, int64_t count) noexcept:
    """Identities: sum 0, prod 1, any False, all True (others are refused before)."""
    cdef int64_t i
    cdef double one = 1.0
    memset(out, 0, count * tx_item_size[dt])
    if red == TX_RED_PROD or red == TX_RED_ALL:
        for i in range(count):
            K.cast[dt][TX_F64](out + i * tx_item_size[dt], &one, 1)


def reduce(int red, Tensor x, tuple axes, bint keepdims):
    """Reduction number red of x over the given axes (non-negative, distinct), without a
    record of its history. Accumulator dtype; float16 and bfloat16 keep theirs."""
    cdef uint64_t mask = 0
    cdef tx_node *r
    for a in axes:
        mask |= <uint64_t>1 << <int>a
    r = reduce_node(red, x.n, mask, keepdims)
    return wrap(r)


cdef object tensor_min_int(object x):
    cdef Tensor t = x
    if t.n.numel == 0:
        return None
    cdef uint64_t mask = 0
    cdef int i
    for i in range(t.n.ndim):
        mask |= <uint64_t>1 << i
    return wrap(reduce_node(TX_RED_MIN, t.n, mask, False)).item()
