# Deferred assignment, x.slice_assign(i, v): the value that x would have after x[i] = v.
#
# The node holds x, v and the region. When it is evaluated and nobody else holds x's storage,
# the region is written there and the storage becomes the result's; else into a copy.

cdef struct Region:
    int nd
    int64_t offset                           # elements, in the node's own dense layout
    int64_t dims[128]                        # sizes, then strides

cdef int g_assigning = 0                     # assignments under way


cdef inline Region *region_of(tx_node *n) noexcept:
    return <Region *>n.sc[0].u


cdef inline void assign_free(tx_node *n) noexcept:
    free(<void *>n.sc[0].u)
    n.sc[0].u = 0


cdef tx_node *assign_new(tx_node *base, tuple items, int used, tx_node *value, const tx_scalar *number) except NULL:
    """base with base[items] = value (a node of base's dtype and device, or NULL and the number as
    it lies in memory), a basic index of so many axes. One hold."""
    cdef tx_node *n
    cdef tx_node *small = NULL
    cdef Region *r
    cdef int64_t s[64]
    cdef int64_t t[64]
    cdef int nd = 0, i
    cdef int64_t offset = 0
    cdef bint imm = False
    if g_due or g_pending > MAX_PENDING or g_kept > MAX_KEPT:
        relieve()
    if base.kind == TX_LAZY:
        ensure(base)
    if value != NULL and value.kind == TX_LAZY:
        ensure(value)
    if base.kind != TX_LEAF and value != NULL and value.kind != TX_LEAF and base.cost + value.cost > MAX_COST:
        ensure(value)
    if base.kind != TX_LEAF and base.cost + (value.cost if value != NULL and value.kind != TX_LEAF else 0) + 1 > MAX_COST:
        ensure(base)
    if value != NULL and value.kind != TX_LEAF and value.cost + 1 > MAX_COST:
        ensure(value)
    n = node_alloc(base.ndim)
    if n == NULL:
        raise MemoryError()
    r = <Region *>malloc(sizeof(Region))
    if r == NULL:
        node_recycle(n)
        raise MemoryError()
    n.kind = TX_LEAF                         # until it is complete
    n.sc[0].u = <uint64_t><uintptr_t>r
    try:
        for i in range(base.ndim):
            n.shape[i] = base.shape[i]
        if base.kind != TX_LEAF or tx_is_dense(base.ndim, base.shape, base.strides):
            for i in range(base.ndim):
                n.strides[i] = base.strides[i]
        else:
            tx_c_strides(base.ndim, n.shape, n.strides)
        nd = basic_region(n, items, used, s, t, &offset)
        r.nd = nd
        r.offset = offset
        for i in range(nd):
            r.dims[i] = s[i]
            r.dims[64 + i] = t[i]
        if value != NULL:
            check_broadcast(value, nd, s, "slice_assign")
            if leaf_is_shared_outside(value):
                if value.numel * SMALL_FACTOR <= base.numel:
                    small = snapshot(value)
                    value = small
                else:
                    imm = True
    except:
        assign_free(n)
        node_recycle(n)
        raise
    n.numel = base.numel
    n.kind = TX_ASSIGN
    n.flags = TX_N_ABOVE
    n.dtype = base.dtype
    n.odtype = base.dtype
    n.device = base.device
    n.nin = 2
    n.cost = base.cost + 1
    edge_link(n, 0, base)
    if value != NULL:
        n.cost += value.cost
        edge_link(n, 1, value)
        if small != NULL:
            node_unref(small)
    else:
        n.inp[1] = NULL
        n.sc[1] = number[0]
    pend_add(n)
    if g_recording:
        n.site = record_site("slice_assign")
    if imm or leaf_is_shared_outside(base) or (g_eager and eager_now()):
        try:
            ensure(n)
        except:
            node_unref(n)
            raise
    return n


cdef int check_broadcast(tx_node *v, int nd, const int64_t *shape, str op) except -1:
    """Does v broadcast to a shape, as in an assignment (leading ones may be dropped)?"""
    cdef int i, off = nd - v.ndim
    cdef bint fits = True
    for i in range(v.ndim):
        if v.shape[i] != 1 and (i + off < 0 or v.shape[i] != shape[i + off]):
            fits = False
    if not fits:
        raise ShapeError(f"{op}: a value of shape {shape_of(v)} does not broadcast to {tuple([shape[i] for i in range(nd)])}")
    return 0


# ---- who reads what ------------------------------------------------------------------------

cdef bint depends(tx_node *top, tx_node *n, bint unsure) noexcept:
    """Whether the pending value top is computed from n; unsure where that cannot be seen: what is
    being computed at this moment may have no edges. (Programs are small: MAX_COST.)"""
    global g_epoch
    cdef tx_node *stack[260]
    cdef int depth = 1, k
    cdef tx_node *q
    g_epoch += 1
    stack[0] = top
    while depth > 0:
        depth -= 1
        q = stack[depth]
        if q == n:
            return True
        if q.kind == TX_LEAF or q.epoch == g_epoch:
            continue
        if q.flags & TX_N_BUSY and unsure:
            return True
        q.epoch = g_epoch
        for k in range(q.nin):
            if q.inp[k] != NULL:
                if depth == 260:
                    return unsure
                stack[depth] = q.inp[k]
                depth += 1
    return False


cdef int only_ours(tx_node *n, tx_node **outsider) noexcept:
    """May n take over the storage of its base? 1: yes; 0: no; 2: after *outsider is evaluated."""
    cdef tx_node *base = n.inp[0]
    cdef tx_node *v = n.inp[1]
    cdef tx_node *l
    cdef tx_node *t
    cdef tx_edge *e
    cdef tx_storage *s = base.st
    cdef int leaves = 0, readers
    if (s.flags & (TX_ST_FOREIGN | TX_ST_READONLY) or tx_st_exports(s) or s.reading or s.writing or base.offset != 0
            or s.nbytes != <size_t>(n.numel * tx_item_size[n.dtype]) or n.numel == 0
            or not tx_same_strides(n.ndim, n.shape, n.strides, base.strides)):
        return 0
    l = s.leaves
    while l != NULL:
        leaves += 1
        if l.handles or l.saves:
            return 0
        l = l.leaf_next
    if tx_st_owners(s) != leaves:
        return 0
    # its pending readers: those that v is computed from are part of the write
    l = s.leaves
    while l != NULL:
        e = l.consumers
        readers = 0
        while e != NULL:
            readers += 1
            t = e.owner
            if t != n and not (v != NULL and v.kind != TX_LEAF and depends(v, t, False)):
                if t.flags & (TX_N_BUSY | TX_N_ASKING) or depends(t, n, True):
                    return 0                 # it needs the old value after the new one
                while t.handles == 0 and t.saves == 0 and t.consumers != NULL and not t.consumers.owner.flags & TX_N_BUSY \
                        and not depends(t.consumers.owner, n, True):
                    t = t.consumers.owner
                outsider[0] = t
                return 2
            e = e.next
        if l.refs != readers:
            return 0                         # somebody holds it at this moment
        l = l.leaf_next
    return 1


# ---- evaluation ----------------------------------------------------------------------------------

cdef int record_assign(tx_node *n, tx_node *base, tx_storage *s) except -1:
    """The recorder learns why the value that is assigned to could not be written in place."""
    cdef str why = "the value is needed as it was"
    if base.saves:
        why = saver_text(base)
    elif base.handles:
        why = f"shared by: {base.handles} live handle{'s' if base.handles > 1 else ''}"
    elif tx_st_owners(base.st) > 1:
        why = f"shared by: {tx_st_owners(base.st) - 1} other view{'s' if tx_st_owners(base.st) > 2 else ''} or alias"
    elif base.st.flags & TX_ST_FOREIGN or tx_st_exports(base.st):
        why = "exported to NumPy, DLPack or a buffer"
    token = g_recorder.on_alloc(s, "slice_assign", g_recorder.site() if n.site == NULL else <object>n.site, why)
    if base.saves or base.handles or tx_st_owners(base.st) > 1:
        g_recorder.blamed.append((token, 0 if base.saves else base.st.serial, g_named if base.saves else None))
    return 0


cdef int assign_evaluate(tx_node *n) except -1:
    """n becomes a leaf. Its base is one already."""
    n.refs += 1                              # what is evaluated meanwhile may drop its readers
    try:
        return assign_held(n)
    finally:
        node_unref(n)


cdef int assign_held(tx_node *n) except -1:
    global g_assigning, g_serial
    cdef tx_node *base = NULL
    cdef tx_node *v
    cdef tx_node *whole = NULL               # a leaf on the result's storage
    cdef tx_node *part = NULL                # the region
    cdef tx_node *outsider = NULL
    cdef tx_storage *s = NULL
    cdef Region *r
    cdef int ours
    cdef bint done = False
    while True:
        if n.kind == TX_LEAF or n.flags & TX_N_BUSY or n.inp[0].kind != TX_LEAF:
            return 0                         # another thread was here: the caller looks again
        base = n.inp[0]
        v = n.inp[1]
        if v != NULL and v.kind != TX_LEAF and (v.handles or v.saves or v.refs != 1):
            ensure(v)                        # it has another holder: it needs memory of its own
            continue
        if blocked(base.st, False):
            wait_for_others(NULL, base.st)
            continue
        # two assignments to one value ask each other: the one that is asked makes the copy
        ours = 0 if n.flags & TX_N_ASKING else only_ours(n, &outsider)
        if ours == 2:
            n.flags |= TX_N_ASKING
            try:
                ensure(outsider)
            finally:
                n.flags &= ~<uint8_t>TX_N_ASKING
            continue
        if ours == 1:
            break
        s = storage_new(n.device, <size_t>(n.numel * tx_item_size[n.dtype]), "slice_assign")
        # that may have evaluated anything
        if (n.kind == TX_ASSIGN and not n.flags & TX_N_BUSY and n.inp[0] == base and n.inp[1] == v and not blocked(base.st, False)
                and (v == NULL or v.kind == TX_LEAF or v.refs == 1)):
            break
        tx_st_release(s)
    # from here on others wait for n; its edges are taken off, so that nothing that the write
    # evaluates comes back to it
    r = region_of(n)
    n.flags |= TX_N_BUSY
    g_assigning += 1
    edge_unlink(&n.edge[0])
    n.inp[0] = NULL
    if v != NULL:
        edge_unlink(&n.edge[1])
        n.inp[1] = NULL
    try:
        if ours:
            s = base.st
            tx_st_own(s)
            whole = leaf_new(s, n.dtype, n.ndim, n.shape, n.strides, 0)
        else:
            if g_recording:
                record_assign(n, base, s)
            whole = leaf_new(s, n.dtype, n.ndim, n.shape, n.strides, 0)
            node_write(whole, base, "slice_assign")
        part = leaf_view(whole, r.nd, r.dims, r.dims + 64, r.offset)
        if v != NULL:
            node_write(part, v, "slice_assign")
        else:
            fill_number(part, &n.sc[1], "slice_assign")
        done = True
    finally:
        g_assigning -= 1
        n.flags &= ~<uint8_t>TX_N_BUSY
        if part != NULL:
            node_unref(part)
        if done:
            assign_free(n)
            s = whole.st
            tx_st_own(s)
            node_unref(base)
            if v != NULL:
                node_unref(v)
            node_unref(whole)
            unmark_kept(s)
            s.version = 0
            if ours:
                g_serial += 1
                s.serial = g_serial
                if s.history != NULL:
                    Py_DECREF(<object>s.history)
                    s.history = NULL
            node_settle(n, s)
        else:
            if whole != NULL:
                node_unref(whole)
            edge_link(n, 0, base)
            base.refs -= 1
            if v != NULL:
                edge_link(n, 1, v)
                v.refs -= 1
        wake_waiters()
    return 0



def slice_assign(Tensor x, index, value):
    """x with x[index] = value, without history; None where the index is not basic. value: a
    Python number or a tensor that broadcasts to the region."""
    cdef tx_scalar number
    cdef tx_node *v
    cdef tx_node *c
    cdef tx_node *n = x.n
    cdef tuple items = index if type(index) is tuple else (index,)
    cdef int used = basic_axes(items)
    if used < 0:
        return None
    if not isinstance(value, Tensor):
        number_bytes(&number, value, n.dtype, "slice_assign")
        return wrap(assign_new(n, items, used, NULL, &number))
    v = (<Tensor>value).n
    if v.dtype != n.dtype:
        check_inplace_dtype("slice_assign", n.dtype, v.dtype)
    if v.device != n.device:
        if v.ndim != 0:
            raise device_error("slice_assign", 1, n.device, v.device)
        v = node_to_device(v, n.device)
    else:
        v.refs += 1
    try:
        if v.dtype != n.dtype:
            c = cast_node(v, n.dtype)
            node_unref(v)
            v = c
        return wrap(assign_new(n, items, used, v, NULL))
    finally:
        node_unref(v)
