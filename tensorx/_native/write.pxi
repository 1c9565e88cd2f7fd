# Writing into a storage: in-place ops, item assignment, copy_, fill_.

cdef int wait_storage(tx_storage *s) except -1:
    """Waits until no other thread reads or writes s."""
    while blocked(s, True):
        wait_for_others(NULL, s, True)
    return 0


cdef int flush_readers(tx_storage *s, tx_node *keep) except -1:
    """Evaluates the pending readers of s (but for keep): its bytes are about to change."""
    cdef tx_node *l
    cdef tx_node *t
    cdef tx_edge *e
    cdef bint again = True
    while again:
        again = False
        l = s.leaves
        while l != NULL:
            e = l.consumers
            while e != NULL:
                # what a fork has lost cannot be computed, before the write or after it
                if e.owner != keep and not e.owner.flags & TX_N_FAILED:
                    t = terminal(e.owner)
                    if t == keep:
                        t = e.owner
                    ensure(t)
                    again = True
                    break
                e = e.next
            if again:
                break
            l = l.leaf_next
    return 0


cdef int check_writable(tx_node *dst, str op) except -1:
    if dst.st.flags & TX_ST_READONLY:
        raise InplaceError(f"{op}: the destination is read-only (it was imported from read-only memory); write to a copy(): {shape_of(dst)}")
    if dst.numel > 1 and tx_view_overlaps_itself(dst.ndim, dst.shape, dst.strides):
        raise InplaceError(f"{op}: the destination of shape {shape_of(dst)} and strides {strides_of(dst)} reaches some elements "
                           "more than once (an expanded or window view); write to a copy() instead")
    return 0


cdef bint same_view(tx_node *a, tx_node *b) noexcept:
    return (a.st == b.st and a.offset == b.offset and a.ndim == b.ndim and tx_item_size[a.dtype] == tx_item_size[b.dtype]
            and tx_same_shape(a.ndim, a.shape, b.shape) and tx_same_strides(a.ndim, a.shape, a.strides, b.strides))


cdef bint views_overlap(tx_node *a, tx_node *b) noexcept:
    return a.st == b.st and tx_views_overlap(a.ndim, a.shape, a.strides, a.offset, tx_item_size[a.dtype],
                                             b.ndim, b.shape, b.strides, b.offset, tx_item_size[b.dtype])


cdef int node_write(tx_node *dst, tx_node *src, str op) except -1:
    """dst[...] = src: dst is a leaf, src any value of dst's dtype and device whose shape
    broadcasts to dst's. As if src was computed before anything is written."""
    cdef Plan *P
    cdef tx_node *t = NULL
    cdef tx_node *b = NULL
    cdef tx_node *l
    cdef tx_edge *e
    cdef int rc, i, tries = 0
    cdef bint fused, clash, t2
    global g_hold_imm
    check_writable(dst, op)
    if dst.numel == 0:
        return 0
    wait_storage(dst.st)
    fused = (src.kind == TX_EW or src.kind == TX_CAST) and src.ndim == dst.ndim and tx_same_shape(src.ndim, src.shape, dst.shape)
    if not fused:
        ensure(src)
        if same_view(dst, src):
            note_write(dst.st, op)
            dst.st.version += 1
            return 0
        if views_overlap(dst, src):
            # the source is copied first; the copy is what is assigned
            t = node_copy(src, "overlaps the destination")
            try:
                node_write(dst, t, op)
            finally:
                node_unref(t)
            return 0
        b = node_broadcast(src, dst.ndim, dst.shape, op)
        g_hold_imm = True
        try:
            t = node_new(TX_CAST, 0, 1, &b, NULL, b.dtype, dst.dtype)
        finally:
            g_hold_imm = False
            node_unref(b)
        src = t
    P = plan_take()
    dst.refs += 1
    src.refs += 1
    try:
        while True:
            if src.kind == TX_LEAF:          # an exchange with another thread evaluated it
                node_write(dst, src, op)
                return 0
            P.root = src
            P.dst = dst
            rc = plan_collect(P)
            if rc == NEED:
                ensure(P.need if P.need != NULL else costliest_input(src))
                continue
            if rc == WAIT or blocked(dst.st, True):
                wait_for_others(src, P.blocker if rc == WAIT else dst.st, rc != WAIT)
                continue
            clash = False
            for i in range(P.nleaf):
                l = P.leaves[i]
                if l.st == dst.st and not same_view(l, dst) and views_overlap(l, dst):
                    clash = True
                    break
            if clash:
                ensure(src)                  # into memory of its own, then copied
                node_write(dst, src, op)
                return 0
            # readers outside the program see the old bytes; those of other places lose nothing
            t2 = False
            l = dst.st.leaves
            while l != NULL and not t2:
                e = l.consumers if l.consumers != NULL and views_overlap(l, dst) else NULL
                while e != NULL:
                    if e.owner.epoch != g_epoch and not e.owner.flags & TX_N_FAILED:
                        ensure(terminal(e.owner) if terminal(e.owner) != src else e.owner)
                        t2 = True
                        break
                    e = e.next
                if not t2:
                    l = l.leaf_next
            if t2:
                continue
            rc = evaluate_program(P, src, dst)
            if rc == DONE:
                break
            if rc == NEED:
                ensure(P.need if P.need != NULL else costliest_input(src))
                continue
            settle_need(P, rc, src, &tries)
        note_write(dst.st, op)
        dst.st.version += 1
        if src.handles or src.saves or src.consumers != NULL:
            become_copy_of(src, dst)
            if leaf_is_shared_outside(dst):
                ensure(src)                  # others may write dst at any time: read now
    finally:
        plan_give(P)
        node_unref(src)
        node_unref(dst)
        if t != NULL:
            node_unref(t)
    return 0


cdef void become_copy_of(tx_node *src, tx_node *dst) noexcept:
    """The value that was computed straight into dst lives on as a pending copy of dst."""
    cdef int k
    cdef tx_node *c
    if src.kind == TX_LEAF:
        return
    src.refs += 1
    for k in range(src.nin):
        c = src.inp[k]
        if c != NULL:
            edge_unlink(&src.edge[k])
            src.inp[k] = NULL
            node_unref(c)
    src.kind = TX_CAST
    src.op = 0
    src.nin = 1
    src.odtype = src.dtype
    src.cost = 1
    edge_link(src, 0, dst)
    if tx_same_strides(src.ndim, src.shape, src.strides, dst.strides):
        src.flags |= TX_N_LINEAR
    else:
        src.flags &= ~<uint8_t>TX_N_LINEAR
    node_unref(src)


cdef tx_node *node_broadcast(tx_node *n, int ndim, const int64_t *shape, str op) except NULL:
    """A view of the leaf n with the given shape (one more hold on n where it fits already)."""
    cdef int64_t strides[64]
    cdef int i, off = ndim - n.ndim
    cdef int64_t d
    if n.ndim == ndim and tx_same_shape(ndim, n.shape, shape):
        n.refs += 1
        return n
    if off < 0:
        # leading axes of length one are dropped, as NumPy does in assignments
        for i in range(-off):
            if n.shape[i] != 1:
                raise ShapeError(f"{op}: a value of shape {shape_of(n)} does not broadcast to {tuple([shape[j] for j in range(ndim)])}")
    for i in range(ndim):
        d = 1 if i - off < 0 else n.shape[i - off]
        if d == shape[i] and i - off >= 0:
            strides[i] = n.strides[i - off]
        elif d == 1:
            strides[i] = 0
        else:
            raise ShapeError(f"{op}: a value of shape {shape_of(n)} does not broadcast to {tuple([shape[j] for j in range(ndim)])}")
    if tx_numel_checked(ndim, shape, 1) < 0:
        raise too_large(op, ndim, shape, n.dtype)
    return leaf_view(n, ndim, shape, strides, n.offset)


cdef tx_node *node_copy(tx_node *n, str reason) except NULL:
    """A leaf with the values of n on a storage of its own, in dense order."""
    cdef tx_node *c
    global g_hold_imm, g_copy_reason
    g_hold_imm = True
    try:
        c = node_new(TX_CAST, 0, 1, &n, NULL, n.dtype, n.dtype)
    finally:
        g_hold_imm = False
    if g_recording:
        g_copy_reason = reason
    try:
        ensure(c)
    except:
        node_unref(c)
        raise
    finally:
        g_copy_reason = None
    return c


cdef str g_copy_reason = None                # why the copy that is being made is needed


cdef int copy_leaf_bytes(tx_node *dst, tx_node *src) except -1:
    """dst and src are leaves of one shape and dtype; plain strided copy."""
    cdef int isz = tx_item_size[src.dtype], nd = src.ndim, d
    cdef int64_t c[64]
    cdef int64_t k
    cdef char *a = src.st.ptr + src.offset * isz
    cdef char *b = dst.st.ptr + dst.offset * isz
    if src.numel == 0:
        return 0
    if src.device != 0:
        g_backends[src.device].wait_host(<uintptr_t>src.st.handle, False)
    host_writable(dst)
    if tx_is_c_dense(nd, src.shape, src.strides) and tx_is_c_dense(nd, dst.shape, dst.strides):
        memcpy(b, a, src.numel * isz)
        return 0
    for d in range(nd):
        c[d] = 0
    for k in range(src.numel):
        memcpy(b, a, isz)
        for d in range(nd - 1, -1, -1):
            a += src.strides[d] * isz
            b += dst.strides[d] * isz
            c[d] += 1
            if c[d] < src.shape[d]:
                break
            a -= src.shape[d] * src.strides[d] * isz
            b -= dst.shape[d] * dst.strides[d] * isz
            c[d] = 0
    return 0


cdef tuple strides_of(tx_node *n):
    return tuple([n.strides[i] for i in range(n.ndim)])
