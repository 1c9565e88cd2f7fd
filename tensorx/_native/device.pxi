# Programs of other devices: the same plan, handed to the backend as a description.
#
# Calling a backend runs Python, where threads change: everything is decided first, then the
# program is marked, and the marks stay until it is encoded.

cdef int device_program(Plan *P) except -1:
    cdef int rc
    plan_mark_outputs(P)
    rc = device_bounds(P)
    if rc != DONE:
        return rc
    plan_last_reads(P)
    plan_late_root(P)
    P.rawhalf = False
    plan_domain(P, NULL, 0, -1)
    plan_donors(P)
    plan_mark(P, 1)
    rc = NOMEM
    failure = None
    try:
        rc = plan_alloc(P, P.root.device)
        if rc == DONE:
            if g_recording:
                record_program(P)
            if P.root.numel:
                device_run(P)
    except BaseException as e:
        # where the work is on its way, the program is done, whatever came after
        if rc != DONE or not g_backends[P.root.device].encoded():
            plan_mark(P, -1)
            plan_undo_outputs(P)
            plan_release(P)
            raise
        failure = e
    plan_mark(P, -1)
    if rc != DONE:
        plan_undo_outputs(P)
        plan_release(P)
        return rc
    plan_commit(P)
    plan_release(P)
    if failure is not None:
        if isinstance(failure, KeyboardInterrupt):
            PyErr_SetInterrupt()             # told once the caller has finished its part
        else:
            raise failure
    if g_recording:
        record_names()
    return DONE

cdef extern from "Python.h":
    void PyErr_SetInterrupt()


cdef void plan_indices(Plan *P) noexcept:
    """Positions of the plan's values, written into them again: a program of another thread that reads
    the same leaves may have been planned since, while Python code ran."""
    cdef int i
    for i in range(P.nleaf):
        P.leaves[i].idx = i
    for i in range(P.norder):
        P.order[i].idx = i


cdef int device_run(Plan *P) except -1:
    """Encodes a marked program, or computes it here where the device has no kernel."""
    cdef int i
    cdef object backend = g_backends[P.root.device]
    if backend.run_program(describe(P)):
        return 0
    for i in range(P.nleaf):
        host_ready(P.leaves[i])
    for i in range(P.norder):
        if P.ost[i] != NULL:
            backend.wait_host(<uintptr_t>P.ost[i].handle, True)
    if P.dst != NULL:
        host_writable(P.dst)
    P.rawhalf = P.norder == 1 and P.root.kind == TX_CAST and P.root.inp[0].dtype == P.root.dtype and tx_is_half(P.root.dtype)
    plan_indices(P)
    plan_emit(P, False)
    with nogil:
        tx_run(&P.prog)
    backend.on_host(op_name(P.root.kind, P.root.op))
    return 0


cdef int device_bounds(Plan *P) except -1:
    """A program binds a bounded number of buffers: where it has more outputs, some come first."""
    cdef int i, outs = 0, rc
    for i in range(P.norder):
        outs += P.out[i]
    if P.nleaf + outs <= DEVICE_BUFFERS:
        return DONE
    if P.dst != NULL:
        # nothing may be left for later that reads what is overwritten
        for i in range(P.norder - 1, -1, -1):
            if P.out[i] and P.order[i] != P.root:
                P.need = P.order[i]
                return NEED
        return DONE
    if not P.nojoin:
        P.nojoin = True
        rc = plan_collect(P)
        P.nojoin = False
        if rc != DONE:
            return rc
        plan_mark_outputs(P)
        outs = 0
        for i in range(P.norder):
            outs += P.out[i]
        if P.nleaf + outs <= DEVICE_BUFFERS:
            return DONE
    outs = 0
    for i in range(P.norder):
        if P.out[i] and P.order[i] != P.root:
            outs += 1
            if outs == 8:
                P.need = P.order[i]
                return NEED
    return DONE                              # the backend refuses, and it is computed here


cdef object operand_text(Plan *P, tx_node *n, int k):
    cdef tx_node *q = n.inp[k]
    if q == NULL:
        if OP_MASKS[n.op] >> k & 1 and n.kind == TX_EW:
            return ("const", scalar_value(&n.sc[k], TX_BOOL), TX_BOOL)
        return ("const", scalar_value(&n.sc[k], n.odtype), n.odtype)
    return ("in" if q.kind == TX_LEAF else "node", q.idx, q.dtype)


cdef list node_texts(Plan *P):
    cdef list nodes = []
    cdef tx_node *n
    cdef int i, k
    plan_indices(P)
    for i in range(P.norder):
        n = P.order[i]
        nodes.append((n.kind, n.op, n.dtype, n.odtype, tuple([operand_text(P, n, k) for k in range(n.nin)])))
    return nodes


cdef object describe(Plan *P):
    """The program as plain Python data, for a device backend: (dims, inputs, nodes, outputs, shared).

    dims: sizes of the loop, outermost first. inputs: (dtype code, storage handle, offset and
    strides in elements; all zero: one element for all). nodes: (kind, op, dtype code, operand
    dtype code, operands), an operand being ("in" or "node", k, dtype code) or ("const", number,
    dtype code). outputs: (node, dtype code, storage handle, offset, strides, whole), whole: no
    other byte of the storage is of use. shared: the host may look at some storage at any time.
    """
    cdef tx_prog *g = &P.prog
    cdef tx_node *n
    cdef tx_node *q
    cdef tx_storage *s
    cdef int i, d, isz
    cdef int64_t offset
    cdef bint shared = False
    dims = [g.dim[d] for d in range(g.ndim)]
    inputs = []
    for i in range(P.nleaf):
        q = P.leaves[i]
        isz = tx_item_size[q.dtype]
        if P.llay[i] >= 0:
            st = tuple([g.lay[P.llay[i]].stride[d] // isz for d in range(g.ndim)])
        elif P.lcls[i] == C_LIN:
            st = dense_strides(dims)
        else:
            st = (0,) * g.ndim
        shared = shared or tx_st_exports(q.st) > 0
        inputs.append((q.dtype, <uintptr_t>q.st.handle, q.offset, st))
    outputs = []
    for i in range(P.norder):
        if not P.out[i]:
            continue
        n = P.order[i]
        isz = tx_item_size[n.dtype]
        if P.olay[i] >= 0:
            st = tuple([g.lay[P.olay[i]].stride[d] // isz for d in range(g.ndim)])
        else:
            st = dense_strides(dims)
        s = P.ost[i]
        offset = 0
        if P.dst != NULL and n == P.root:
            s = P.dst.st
            offset = P.dst.offset
        shared = shared or tx_st_exports(s) > 0
        outputs.append((i, n.dtype, <uintptr_t>s.handle, offset, st, s.nbytes == <size_t>(n.numel * isz)))
    return dims, inputs, node_texts(P), outputs, shared


cdef tuple dense_strides(list dims):
    out = []
    s = 1
    for d in reversed(dims):
        out.append(s)
        s *= d
    return tuple(reversed(out))


cdef object scalar_value(tx_scalar *s, int dt):
    if dt == TX_F32 or tx_is_half(dt): return <double>s.f[0]
    if dt == TX_F64: return s.d[0]
    if dt == TX_BOOL: return s.u8 != 0
    if dt == TX_I8: return s.i8
    if dt == TX_I16: return s.i16
    if dt == TX_I32: return s.i32
    if dt == TX_I64: return s.i
    if dt == TX_U8: return s.u8
    if dt == TX_U16: return s.u16
    if dt == TX_U32: return s.u32
    if dt == TX_U64: return s.u
    if dt == TX_C64: return complex(s.f[0], s.f[1])
    return complex(s.d[0], s.d[1])


cdef object leaf_text(tx_node *n):
    """A leaf for a backend: (dtype code, handle, offset, shape, strides, whole, shared)."""
    return (n.dtype, <uintptr_t>n.st.handle, n.offset, shape_of(n), strides_of(n),
            n.st.nbytes == <size_t>(n.numel * tx_item_size[n.dtype]), tx_st_exports(n.st) > 0)


cdef object maybe_text(object t):
    if t is None:
        return None
    ensure((<Tensor>t).n)
    return leaf_text((<Tensor>t).n)


def device_leaf(Tensor x):
    """What a backend has to know of a tensor: see leaf_text. Its value is computed first."""
    ensure(x.n)
    return leaf_text(x.n)


cdef enum:
    ON_HOST = 4                              # the device has no kernel: the usual way, after waits


cdef int device_reduce(Plan *P, int red, tx_node *src, uint64_t axes, bint keepdims, tx_node **result) except -1:
    """The reduction of a collected program on its device; ON_HOST where there is no kernel."""
    cdef int mem[64]
    cdef int nmem, i, j, rc, odt
    cdef int rdt = tx_reg_dtype(src.dtype)
    cdef const tx_red *R = &K.red[red][rdt]
    cdef bint arg = red == TX_RED_ARGMAX or red == TX_RED_ARGMIN
    cdef int64_t kept = 1, reduced = 1, stride = 1
    cdef int64_t shape[64]
    cdef int64_t strides[64]
    cdef int nd = 0
    cdef tx_node *q
    cdef tx_storage *s = NULL
    cdef bint shared = False
    cdef object backend = g_backends[src.device]
    plan_mark_outputs(P)
    for i in range(P.norder):
        if P.out[i] and P.order[i] != src:   # it has other holders: it is stored first
            P.need = P.order[i]
            return NEED
    nmem = order_axes(src.ndim, src.shape, src.strides, mem)
    order = [mem[i] for i in range(nmem) if not axes >> mem[i] & 1]
    cdef int nkept = len(order)
    folded = [mem[i] for i in range(nmem) if axes >> mem[i] & 1]
    order += sorted(folded) if arg else folded
    for i in range(src.ndim):
        if axes >> i & 1:
            reduced *= src.shape[i]
        else:
            kept *= src.shape[i]
    if kept == 0 or reduced == 0:
        return ON_HOST
    odt = src.dtype if tx_is_half(src.dtype) and R.acc_dtype == TX_F32 else R.acc_dtype
    dims = [src.shape[<int>a] for a in order]
    inputs = []
    for i in range(P.nleaf):
        q = P.leaves[i]
        if q.numel == 1:
            st = (0,) * len(order)
        elif P.linear:                       # dense in the order of the root
            st = tuple([src.strides[<int>a] for a in order])
        else:
            st = tuple([0 if <int>a - (src.ndim - q.ndim) < 0 or q.shape[<int>a - (src.ndim - q.ndim)] == 1
                        else q.strides[<int>a - (src.ndim - q.ndim)] for a in order])
        shared = shared or tx_st_exports(q.st) > 0
        inputs.append((q.dtype, <uintptr_t>q.st.handle, q.offset, st))
    nodes = node_texts(P)
    root = src.idx
    plan_mark(P, 1)                          # the backend's answer is Python: others may come in
    try:
        fits = backend.can_reduce(red, nodes, src.dtype, odt)
    except:
        plan_mark(P, -1)
        plan_release(P)
        raise
    if not fits:
        plan_mark(P, -1)
        plan_release(P)
        plan_indices(P)
        return ON_HOST
    for i in range(src.ndim):
        strides[i] = 1
    for i in range(nkept - 1, -1, -1):
        j = order[i]
        strides[j] = stride
        stride *= src.shape[j]
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
    P.out[root] = 0
    try:
        s = storage_try(src.device, <size_t>(kept * tx_item_size[odt]))
        if s != NULL:
            if g_recording:
                record_alloc(s, RED_NAMES[red], "result of a reduction")
            backend.reduce(red, dims, nkept, inputs, nodes, root, odt, <uintptr_t>s.handle, shared)
    except:
        if s != NULL:
            tx_st_release(s)
        plan_mark(P, -1)
        plan_release(P)
        raise
    plan_mark(P, -1)
    plan_release(P)
    if s == NULL:
        return NOMEM
    result[0] = leaf_new(s, odt, nd, shape, strides, 0)
    return DONE


cdef tx_storage *device_wait(Plan *P, size_t nbytes, str op) except? NULL:
    """Marks a program that is computed here, waits for its operands, and gets memory for its result."""
    cdef tx_storage *s = NULL
    cdef int i
    plan_mark(P, 1)
    try:
        for i in range(P.nleaf):
            host_ready(P.leaves[i])
        s = storage_try(P.root.device, nbytes)
        if s != NULL:
            g_backends[s.device].wait_host(<uintptr_t>s.handle, True)
        g_backends[P.root.device].on_host(op)
    except:
        if s != NULL:
            tx_st_release(s)
        device_done(P)
        plan_release(P)
        raise
    return s


cdef void device_done(Plan *P) noexcept:
    if P.root.device != 0:
        plan_mark(P, -1)


cdef int device_into(tx_node *out, tx_node *src) except -1:
    """The value of src in the fresh C-ordered leaf out. A pending one stays pending, as it does
    where rows are computed one by one."""
    cdef Plan *P
    cdef int rc, tries = 0
    if src.kind != TX_EW and src.kind != TX_CAST:
        ensure(src)
    P = plan_take()
    src.refs += 1
    try:
        while src.kind != TX_LEAF:
            P.root = src
            P.dst = out
            P.held = False
            P.nojoin = True
            rc = plan_collect(P)
            P.nojoin = False
            if rc == DONE:
                P.reducing = True
                try:
                    rc = device_program(P)
                finally:
                    P.reducing = False
            if rc == DONE:
                src.flags |= TX_N_SEEN
                return 0
            if rc == NEED:
                ensure(P.need if P.need != NULL else costliest_input(src))
            else:
                settle_need(P, rc, src, &tries)
        node_write(out, src, "copy")
        out.st.version = 0
    finally:
        plan_give(P)
        node_unref(src)
    return 0


cdef Tensor device_row_op(int kind, Tensor x, object weight, object bias, double eps, object mean, object rstd, object second):
    """A row kernel over the last axis on x's device, or None where there is none."""
    cdef tx_node *n = x.n
    cdef object backend = g_backends[n.device]
    cdef Tensor out
    cdef Tensor t
    if n.numel == 0 or not backend.has_row_op(kind, n.dtype):
        return None
    if kind == TX_ROW_LOGSUMEXP:
        ensure(n)
        if not backend.rows_fit(leaf_text(n)):
            x = wrap(node_c_copy(n))
            n = x.n
        out = wrap(leaf_empty(n.device, n.dtype, n.ndim - 1, n.shape, "logsumexp"))
    else:
        out = wrap(leaf_empty(n.device, n.dtype, n.ndim, n.shape, ROW_NAMES[kind]))
        # pending values are computed into the result, and normalised there
        if n.kind == TX_MOVE or n.kind == TX_ASSIGN:
            ensure(n)
        if n.kind != TX_LEAF or not backend.rows_fit(leaf_text(n)):
            device_into(out.n, x.n)
            x = out
    operands = [t for t in (x, weight, bias, second) if t is not None]
    for t in operands:
        ensure(t.n)
    for t in operands:
        mark(t.n.st, 0, 1)
    try:
        backend.row_op(kind, leaf_text(x.n), leaf_text(out.n), maybe_text(weight), maybe_text(bias), eps, maybe_text(mean), maybe_text(rstd),
                       maybe_text(second))
    finally:
        for t in operands:
            mark(t.n.st, 0, -1)
        wake_waiters()
    return out


cdef Tensor device_matmul(Tensor x, Tensor y, tuple shape, object bias, Tensor out, bint accumulate, bint conj):
    """The product on the operands' device, or None where it has no kernel. out: as matmul_raw's."""
    cdef object backend = g_backends[x.n.device]
    if conj or not backend.has_matmul(x.n.dtype):
        return None
    cdef Tensor r = out
    if r is None:
        r = empty(shape, DTYPES[x.n.dtype], x.n.device)
    elif accumulate:
        r = empty(shape, DTYPES[x.n.dtype], x.n.device)
    mark(x.n.st, 0, 1)
    mark(y.n.st, 0, 1)
    mark(r.n.st, 1, 1)
    try:
        backend.matmul(leaf_text(x.n), leaf_text(y.n), leaf_text(r.n))
    finally:
        mark(x.n.st, 0, -1)
        mark(y.n.st, 0, -1)
        mark(r.n.st, 1, -1)
        wake_waiters()
    if bias is not None:
        elementwise_inplace(OP_ADD, r, bias)
        r.n.st.version = 0 if out is None else r.n.st.version
    if accumulate:
        elementwise_inplace(OP_ADD, out, r)
        return out
    return r


cdef int device_fill(tx_node *dst, object number, str op) except -1:
    """dst[...] = a number of its dtype, on its device."""
    check_writable(dst, op)
    if dst.numel == 0:
        return 0
    flush_readers(dst.st, NULL)
    wait_storage(dst.st)
    mark(dst.st, 1, 1)
    try:
        g_backends[dst.device].fill(leaf_text(dst), number)
    finally:
        mark(dst.st, 1, -1)
        wake_waiters()
    note_write(dst.st, op)
    dst.st.version += 1
    return 0


cdef object too_wide(str op, int dtype, int device):
    return DTypeError(f"{op or 'allocation'}: {DTYPES[dtype].name} is not on {g_devices[device]}: Metal has no 64-bit floating point; "
                      f"use {'float32' if dtype == TX_F64 else 'complex64'} there (pass dtype=, or convert with astype before .to())")
