# Evaluation: programs are run, pending nodes become leaves, and what is needed comes first.

cdef void move_resolve(tx_node *m) noexcept:
    """A movement whose base now lies in memory becomes a leaf on the same storage."""
    cdef tx_node *b = m.inp[0]
    pend_remove(m)
    edge_unlink(&m.edge[0])
    m.nin = 0
    m.kind = TX_LEAF
    m.flags = TX_N_LINEAR
    m.cost = 0
    m.offset = b.offset
    tx_st_own(b.st)
    leaf_attach(m, b.st)
    node_unref(b)


cdef void node_settle(tx_node *n, tx_storage *s) noexcept:
    """A pending node becomes a leaf on s; the program's ownership of s passes to it."""
    cdef int k
    cdef tx_node *c
    cdef tx_edge *e
    cdef tx_edge *nx
    n.refs += 1                              # stays alive while its edges go
    pend_remove(n)
    for k in range(n.nin):
        c = n.inp[k]
        if c != NULL:
            edge_unlink(&n.edge[k])
            n.inp[k] = NULL
            node_unref(c)
    n.nin = 0
    n.kind = TX_LEAF
    n.flags = TX_N_LINEAR
    n.cost = 0
    n.offset = 0
    leaf_attach(n, s)
    e = n.consumers
    while e != NULL:
        nx = e.next
        if e.owner.kind == TX_MOVE:
            move_resolve(e.owner)
        e = nx
    node_unref(n)


cdef void plan_commit(Plan *P) noexcept:
    cdef int i
    cdef tx_storage *s
    cdef tx_node *q
    global g_serial
    for i in range(P.norder):
        if P.ost[i] == NULL and P.order[i].saves and not (P.dst != NULL and P.order[i] == P.root):
            P.order[i].flags |= TX_N_LEFT
        if P.donor[i] >= 0:
            q = P.leaves[P.donor[i]]
            s = q.st
            leaf_detach(q)                   # its ownership passes on
            unmark_kept(s)
            s.version = 0
            g_serial += 1
            s.serial = g_serial
            if s.history != NULL:
                Py_DECREF(<object>s.history)
                s.history = NULL
    for i in range(P.norder - 1, -1, -1):
        if P.ost[i] != NULL:
            node_settle(P.order[i], P.ost[i])


# ---- evaluation ------------------------------------------------------------------------------

cdef bint is_strided_copy(Plan *P) noexcept:
    """The program is one copy between different layouts."""
    cdef tx_node *q
    if P.norder != 1 or P.nleaf != 1 or P.root.kind != TX_CAST or P.root.numel < COPY_MIN:
        return False
    q = P.leaves[0]
    return (q.dtype == P.root.dtype and q.ndim == P.root.ndim and tx_same_shape(q.ndim, q.shape, P.root.shape)
            and not tx_same_strides(q.ndim, q.shape, q.strides, P.root.strides if P.dst == NULL else P.dst.strides))


cdef void strided_copy(Plan *P) noexcept nogil:
    cdef tx_node *n = P.root
    cdef tx_node *q = P.leaves[0]
    cdef int isz = tx_item_size[n.dtype], log2 = tx_item_log2[n.dtype]
    if P.dst != NULL:
        tx_copy_nd(n.ndim, n.shape, P.dst.st.ptr + P.dst.offset * isz, P.dst.strides,
                   q.st.ptr + q.offset * isz, q.strides, log2, K.move2[log2])
    else:
        tx_copy_nd(n.ndim, n.shape, P.ost[0].ptr, n.strides, q.st.ptr + q.offset * isz, q.strides, log2, K.move2[log2])


cdef enum:
    COPY_MIN = 4096                          # elements from which a copy is worth tiles


cdef int plan_execute(Plan *P) except -1:
    """Runs the program; without the GIL where it takes long."""
    cdef tx_prog *g = &P.prog
    cdef bint copies
    global g_hold_imm
    cdef bint hold = g_hold_imm
    if g.numel == 0:
        return 0
    copies = is_strided_copy(P)
    if <double>g.numel * g.ns_per_elem < LONG_NS:
        if copies:
            strided_copy(P)
        else:
            tx_run(g)
        return 0
    plan_mark(P, 1)
    g_hold_imm = False                       # it speaks of this thread's op alone
    with nogil:
        if copies:
            strided_copy(P)
        else:
            tx_run(g)
    g_hold_imm = hold
    plan_mark(P, -1)
    return 0


cdef double LONG_NS = 1e6                   # estimated work from which the GIL is released


cdef void plan_mark(Plan *P, int by) noexcept:
    """Marks (or unmarks) all storages and values of the program at once: we hold the GIL.
    A marked program holds its nodes; plan_release gives them up after the commit."""
    cdef int i
    P.held = by > 0 or P.held
    for i in range(P.norder):
        if by > 0:
            P.order[i].flags |= TX_N_BUSY
            P.order[i].refs += 1
        else:
            P.order[i].flags &= ~<uint8_t>TX_N_BUSY
        if P.ost[i] != NULL:
            mark(P.ost[i], 1, by)
    for i in range(P.nleaf):
        mark(P.leaves[i].st, 0, by)
        if by > 0:
            P.leaves[i].refs += 1
    if P.dst != NULL:
        mark(P.dst.st, 1, by)


cdef void plan_release(Plan *P) noexcept:
    cdef int i
    if not P.held:
        return
    P.held = False
    for i in range(P.norder):
        node_unref(P.order[i])
    for i in range(P.nleaf):
        node_unref(P.leaves[i])
    wake_waiters()


cdef int evaluate_program(Plan *P, tx_node *root, tx_node *dst) except -1:
    """One attempt to evaluate root (into dst, where given)."""
    cdef int rc
    P.root = root
    P.dst = dst
    P.held = False
    rc = plan_collect(P)
    if rc != DONE:
        return rc
    if dst != NULL and blocked(dst.st, True):
        P.blocker = dst.st
        return WAIT
    if root.device != 0:
        return device_program(P)
    P.rawhalf = P.norder == 1 and root.kind == TX_CAST and root.inp[0].dtype == root.dtype and tx_is_half(root.dtype)
    plan_mark_outputs(P)
    plan_last_reads(P)
    plan_late_root(P)
    plan_domain(P, NULL, 0, -1)
    rc = plan_outputs(P, 0)
    if rc != DONE:
        return rc
    if g_recording:
        record_program(P)
    plan_emit(P, False)
    plan_execute(P)
    plan_commit(P)
    plan_release(P)
    if g_recording:
        record_names()
    return DONE


cdef int settle_need(Plan *P, int rc, tx_node *root, int *tries) except -1:
    """What an attempt asked for."""
    if rc == WAIT:
        wait_for_others(root, P.blocker)
    elif rc == NOMEM:
        tries[0] += 1
        if tries[0] > 1:
            raise oom_error(root.device, <size_t>(root.numel * tx_item_size[root.dtype]), op_name(root.kind, root.op))
        import gc
        drain()
        gc.collect()
        memory_ladder(root.device)
    return 0


cdef inline bint sole_reader(tx_node *q, int edges, int64_t nbytes) noexcept:
    """can_donate for one op over leaves: q is held by those edges alone, whole and dense."""
    cdef tx_storage *s = q.st
    return (q.refs == edges and q.handles == 0 and s.nbytes == <size_t>nbytes and q.offset == 0
            and not s.flags & (TX_ST_FOREIGN | TX_ST_READONLY) and not s.reading and not s.writing
            and tx_st_owners(s) == 1 and tx_st_exports(s) == 0)


cdef int evaluate_one(tx_node *n) except -1:
    """One op over leaves, small and dense: the kernel is called without a program.
    Returns 0 where the general way has to be taken. Same kernel, same reuse, same bits."""
    global g_serial
    cdef const void *src[4]
    cdef unsigned mask = 0
    cdef int k, j, edges
    cdef tx_node *q
    cdef tx_storage *s = NULL
    cdef int64_t nbytes
    cdef int donor = -1
    if tx_is_half(n.odtype) or tx_is_half(n.dtype):
        return 0
    nbytes = n.numel * tx_item_size[n.dtype]
    for k in range(n.nin):
        q = n.inp[k]
        if q == NULL:
            src[k] = &n.sc[k]
            mask |= <unsigned>1 << k
            continue
        if q.kind != TX_LEAF or q.st.writing:
            return 0
        src[k] = q.st.ptr + q.offset * tx_item_size[q.dtype]
        if q.numel == 1 and n.numel != 1:
            mask |= <unsigned>1 << k
        elif donor < 0:
            edges = 1
            for j in range(n.nin):
                if j != k and n.inp[j] == q:
                    edges += 1
            if q.saves == 0 and sole_reader(q, edges, nbytes):
                donor = k
    if donor >= 0:
        q = n.inp[donor]
        s = q.st
        leaf_detach(q)
        unmark_kept(s)
        s.version = 0
        g_serial += 1
        s.serial = g_serial
        if s.history != NULL:
            Py_DECREF(<object>s.history)
            s.history = NULL
    else:
        s = storage_try(0, <size_t>nbytes)
        if s == NULL:
            return 0
    K.ew[<int>n.op * TX_NDT + n.odtype](s.ptr, src, n.numel, mask)
    node_settle(n, s)
    return 1


cdef bint peek_one(tx_node *n, tx_scalar *out) noexcept:
    """The value of a pending op over leaves, of one element, that nobody but the asking handle holds:
    computed without memory for it (the handle mostly dies next). False where that is not so."""
    cdef const void *src[4]
    cdef unsigned mask = 0
    cdef int k
    cdef tx_node *q
    if n.refs != 1 or n.device != 0 or n.flags & TX_N_BUSY or g_recording or tx_is_half(n.odtype) or tx_is_half(n.dtype):
        return False
    for k in range(n.nin):
        q = n.inp[k]
        if q == NULL:
            src[k] = &n.sc[k]
            mask |= <unsigned>1 << k
        elif q.kind != TX_LEAF or q.st.writing:
            return False
        else:
            src[k] = q.st.ptr + q.offset * tx_item_size[q.dtype]
    K.ew[<int>n.op * TX_NDT + n.odtype](out, src, 1, mask)
    return True


cdef int ensure(tx_node *n) except -1:
    """Makes n a leaf. Iterative: prerequisites go onto a stack of our own."""
    cdef tx_node *small[32]
    cdef tx_node **stack = small
    cdef int cap = 32, top = 1, rc, tries = 0
    cdef tx_node *r
    cdef Plan *P
    if n.kind == TX_LEAF:
        return 0
    if (n.kind == TX_EW and n.numel <= 1024 and n.numel > 0 and n.flags & TX_N_LINEAR and not n.flags & TX_N_BUSY
            and n.device == 0 and not g_recording and evaluate_one(n)):
        return 0
    P = plan_take()
    n.refs += 1
    stack[0] = n
    try:
        while top > 0:
            r = stack[top - 1]
            if r.kind == TX_LEAF:
                top -= 1
                continue
            if r.kind == TX_MOVE:
                P.need = r.inp[0]
                rc = NEED
            elif r.flags & TX_N_BUSY:
                P.blocker = NULL
                rc = WAIT
            elif r.kind == TX_LAZY:
                lazy_evaluate(r)
                rc = DONE
            elif r.kind == TX_ASSIGN:
                P.need = r.inp[0]
                rc = NEED
                if P.need.kind == TX_LEAF:
                    assign_evaluate(r)
                    top = 1                  # it may have evaluated, and freed, anything
                    continue
            else:
                rc = evaluate_program(P, r, NULL)
            if rc == DONE:
                top -= 1
                tries = 0
            elif rc == NEED:
                if P.need == NULL:
                    # more operands than a program takes: evaluate the costliest first
                    P.need = costliest_input(r)
                if top == cap:
                    stack = grow_stack(stack, small, &cap)
                stack[top] = P.need
                top += 1
            else:
                settle_need(P, rc, r, &tries)
                top = 1                      # others may have changed what is pending
    finally:
        if stack != small:
            free(stack)
        plan_give(P)
        node_unref(n)
    return 0


cdef tx_node *costliest_input(tx_node *r) noexcept:
    cdef int k, best = -1
    for k in range(r.nin):
        if r.inp[k] != NULL and r.inp[k].kind != TX_LEAF and (best < 0 or r.inp[k].cost > r.inp[best].cost):
            best = k
    return r.inp[best] if best >= 0 else r


cdef tx_node **grow_stack(tx_node **stack, tx_node **small, int *cap) except NULL:
    cdef tx_node **bigger = <tx_node **>malloc(2 * cap[0] * sizeof(tx_node *))
    if bigger == NULL:
        raise MemoryError()
    memcpy(bigger, stack, cap[0] * sizeof(tx_node *))
    if stack != small:
        free(stack)
    cap[0] *= 2
    return bigger
