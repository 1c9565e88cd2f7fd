# Nodes: values, materialised (leaves on a storage) or pending (an op over other nodes).
#
# Ownership of nodes is counted by node.refs. Handles, values saved for backward, consumers
# and running programs hold a node; nothing here looks at reference counts of Python objects.

cdef tx_node *g_node_free = NULL
cdef tx_node g_pending_head                 # circular list of pending nodes, oldest first
g_pending_head.pend_next = &g_pending_head
g_pending_head.pend_prev = &g_pending_head
cdef int64_t g_pending = 0                  # nodes in it
cdef uint64_t g_epoch = 0

# Bounds of deferral (DESIGN: a loop, however long, grows nothing)
cdef int MAX_COST = 48                      # nodes of one program, shared ones counted again
cdef int64_t MAX_PENDING = 1024
cdef int64_t MAX_KEPT = 256 << 20
cdef int SMALL_FACTOR = 8


cdef inline tx_node *node_alloc(int ndim) noexcept:
    global g_node_free
    cdef tx_node *n = g_node_free
    if n != NULL:
        g_node_free = n.leaf_next
    else:
        n = <tx_node *>malloc(sizeof(tx_node))
        if n == NULL:
            return NULL
    if ndim <= 4:
        n.shape = n.inl
        n.strides = n.inl + 4
    else:
        n.shape = <int64_t *>malloc(2 * ndim * sizeof(int64_t))
        if n.shape == NULL:
            n.leaf_next = g_node_free
            g_node_free = n
            return NULL
        n.strides = n.shape + ndim
    n.refs = 1
    n.handles = 0
    n.saves = 0
    n.device = 0
    n.kind = TX_LEAF
    n.nin = 0
    n.ndim = <uint8_t>ndim
    n.flags = 0
    n.op = 0
    n.cost = 0
    n.offset = 0
    n.st = NULL
    n.consumers = NULL
    n.saved = NULL
    n.site = NULL
    n.epoch = 0
    return n


cdef inline void pend_add(tx_node *n) noexcept:
    global g_pending
    cdef tx_node *last = g_pending_head.pend_prev
    n.pend_prev = last
    n.pend_next = &g_pending_head
    last.pend_next = n
    g_pending_head.pend_prev = n
    n.flags |= TX_N_PEND
    g_pending += 1


cdef inline void pend_remove(tx_node *n) noexcept:
    global g_pending
    if n.flags & TX_N_PEND:
        n.pend_prev.pend_next = n.pend_next
        n.pend_next.pend_prev = n.pend_prev
        n.flags &= ~<uint8_t>TX_N_PEND
        g_pending -= 1


cdef inline void edge_link(tx_node *n, int k, tx_node *src) noexcept:
    cdef tx_edge *e = &n.edge[k]
    n.inp[k] = src
    e.owner = n
    e.next = src.consumers
    e.pprev = &src.consumers
    if src.consumers != NULL:
        src.consumers.pprev = &e.next
    src.consumers = e
    src.refs += 1


cdef inline void edge_unlink(tx_edge *e) noexcept:
    e.pprev[0] = e.next
    if e.next != NULL:
        e.next.pprev = e.pprev


cdef inline void leaf_attach(tx_node *n, tx_storage *s) noexcept:
    """Puts a materialised node onto a storage; the caller's ownership passes to the node."""
    n.st = s
    n.leaf_next = s.leaves
    n.leaf_pprev = &s.leaves
    if s.leaves != NULL:
        s.leaves.leaf_pprev = &n.leaf_next
    s.leaves = n


cdef inline void leaf_detach(tx_node *n) noexcept:
    n.leaf_pprev[0] = n.leaf_next
    if n.leaf_next != NULL:
        n.leaf_next.leaf_pprev = n.leaf_pprev
    n.st = NULL


cdef inline void node_recycle(tx_node *n) noexcept:
    global g_node_free
    if n.shape != n.inl:
        free(n.shape)
    if n.site != NULL:
        Py_DECREF(<object>n.site)
        n.site = NULL
    n.leaf_next = g_node_free
    g_node_free = n


cdef tx_node *g_dead = NULL                 # nodes to free; nested calls share the stack

cdef void node_unref(tx_node *n) noexcept:
    """Drops one hold; frees whatever nobody holds any more. Iterative: a chain of any
    length is freed in constant stack."""
    global g_dead
    cdef tx_node *src
    cdef int k
    cdef tx_storage *s
    n.refs -= 1
    if n.refs > 0:
        return
    n.dead = g_dead
    g_dead = n
    while g_dead != NULL:
        n = g_dead
        g_dead = n.dead
        if n.kind == TX_LEAF:
            s = n.st
            if s != NULL:
                leaf_detach(n)
                tx_st_release(s)
        else:
            pend_remove(n)
            if n.kind == TX_ASSIGN:
                assign_free(n)
            elif n.kind == TX_LAZY:
                lazy_free(n)
            for k in range(n.nin):
                src = n.inp[k]
                if src == NULL:
                    continue
                edge_unlink(&n.edge[k])
                src.refs -= 1
                if src.refs == 0:
                    src.dead = g_dead
                    g_dead = src
        node_recycle(n)


cdef void check_kept(tx_storage *s) noexcept:
    """Notes a storage that only pending values keep alive, and whether they are much smaller."""
    global g_due
    cdef tx_node *l = s.leaves
    cdef tx_edge *e
    if tx_st_exports(s):
        return
    while l != NULL:
        if l.handles or l.saves or l.consumers == NULL:
            return
        l = l.leaf_next
    if s.leaves == NULL:
        return
    mark_kept(s)
    if g_due:
        return
    l = s.leaves
    while l != NULL:
        e = l.consumers
        while e != NULL:
            if pins_for_backward(e.owner):
                g_due = True
                return
            if s.nbytes > 65536 and (<uint64_t>e.owner.numel * tx_item_size[e.owner.dtype]) * SMALL_FACTOR < s.nbytes:
                g_due = True
                return
            e = e.next
        l = l.leaf_next


cdef inline bint pins_for_backward(tx_node *n) noexcept:
    """n is pending for backward alone: it is stored when an operand loses its last other owner."""
    n = terminal(n)
    return n.saves > 0 and n.handles == 0


cdef void node_drop_handle(tx_node *n) noexcept:
    """A Tensor object died."""
    cdef tx_storage *s
    n.handles -= 1
    if n.kind == TX_LEAF and n.handles == 0 and n.st != NULL and (n.refs > 1 or tx_st_owners(n.st) > 1):
        s = n.st
        node_unref(n)
        check_kept(s)        # its struct stays valid until the next drain
        return
    node_unref(n)


# ---- making nodes -------------------------------------------------------------------

cdef tx_node *leaf_new(tx_storage *s, int dtype, int ndim, const int64_t *shape,
                       const int64_t *strides, int64_t offset) except NULL:
    """A materialised node on s; takes over one ownership of s (given back on failure)."""
    cdef tx_node *n = node_alloc(ndim)
    cdef int i
    if n == NULL:
        tx_st_release(s)
        raise MemoryError()
    n.dtype = <uint8_t>dtype
    n.odtype = <uint8_t>dtype
    n.device = s.device
    n.numel = 1
    for i in range(ndim):
        n.shape[i] = shape[i]
        n.numel *= shape[i]
    if strides != NULL:
        for i in range(ndim):
            n.strides[i] = strides[i]
    else:
        tx_c_strides(ndim, n.shape, n.strides)
    n.offset = offset
    if strides == NULL or tx_is_dense(ndim, n.shape, n.strides):
        n.flags = TX_N_LINEAR
    leaf_attach(n, s)
    return n


cdef tx_node *leaf_empty(int device, int dtype, int ndim, const int64_t *shape, str op) except NULL:
    """A new C-ordered leaf with its own uninitialised storage."""
    cdef int64_t numel = tx_numel_checked(ndim, shape, tx_item_size[dtype])
    if numel < 0:
        raise too_large(op, ndim, shape, dtype)
    if device != 0 and (dtype == TX_F64 or dtype == TX_C128):
        raise too_wide(op, dtype, device)
    cdef tx_storage *s = storage_new(device, <size_t>(numel * tx_item_size[dtype]), op)
    if g_recording:
        record_alloc(s, op, "result of " + (op or "an op"))
    return leaf_new(s, dtype, ndim, shape, NULL, 0)


cdef object too_large(str op, int ndim, const int64_t *shape, int dtype):
    return OutOfMemoryError(f"{op or 'allocation'}: shape {tuple([shape[i] for i in range(ndim)])} of {DTYPES[dtype].name} "
                            "has more bytes than an address can count")


cdef tx_node *leaf_view(tx_node *n, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset) except NULL:
    """Another leaf on the storage of the leaf n."""
    tx_st_own(n.st)
    return leaf_new(n.st, n.dtype, ndim, shape, strides, offset)


cdef inline bint leaf_is_shared_outside(tx_node *n) noexcept:
    """Memory that somebody else may write at any time."""
    return n.kind == TX_LEAF and (n.st.flags & TX_ST_FOREIGN or tx_st_exports(n.st) > 0)


cdef tx_node *snapshot(tx_node *n) except NULL:
    """An independent copy of a small leaf that others can write."""
    cdef tx_node *c = leaf_empty(n.device, n.dtype, n.ndim, n.shape, "snapshot")
    try:
        copy_leaf_bytes(c, n)
    except:
        node_unref(c)
        raise
    return c


cdef bint g_hold_imm = False                # the caller writes the value in place itself

cdef tx_node *node_new(int kind, int op, int nin, tx_node **ins, const tx_scalar *sc,
                       int odtype, int dtype) except NULL:
    """A pending elementwise node (op row, cast or copy). Shapes broadcast; ins[k] == NULL
    says that operand k is the scalar sc[k]. Returns a node with one hold."""
    global g_due
    cdef tx_node *n
    cdef tx_node *a
    cdef tx_node *first = NULL
    cdef tx_node *snaps[4]
    cdef int k, i, nd = 0, cost = 1, worst, big
    cdef bint plain = True                   # all operands are dense in one order
    cdef bint same = True, imm = False, linear, dense_found
    cdef int64_t d, numel
    cdef int64_t shape[64]
    cdef int nsnap = 0

    if g_due or g_pending > MAX_PENDING or g_kept > MAX_KEPT:
        relieve()

    # bound: evaluate the operand, not the new result, so that it can be donated
    for k in range(nin):
        a = ins[k]
        if a == NULL:
            continue
        if a.kind == TX_LAZY:
            ensure(a)
        if a.kind != TX_LEAF:
            cost += a.cost
        elif a.st.flags & TX_ST_FOREIGN or tx_st_exports(a.st) > 0:
            imm = True
        if not a.flags & TX_N_LINEAR:
            plain = False
        if first == NULL:
            first = a
            nd = a.ndim
        elif same and a != first:
            if a.ndim != nd or not tx_same_shape(nd, a.shape, first.shape):
                same = False
            elif plain and not tx_same_strides(nd, a.shape, a.strides, first.strides):
                plain = False
    if first == NULL:
        raise TensorxError("internal: an op without a tensor operand")
    if first.device != 0 and (dtype == TX_F64 or dtype == TX_C128):
        raise too_wide(op_name(kind, op), dtype, first.device)
    while cost > MAX_COST:
        big = -1
        worst = 0
        for k in range(nin):
            if ins[k] != NULL and ins[k].kind != TX_LEAF and ins[k].cost > worst:
                worst = ins[k].cost
                big = k
        if big < 0:
            break
        ensure(ins[big])
        cost = 1
        for k in range(nin):
            if ins[k] != NULL and ins[k].kind != TX_LEAF:
                cost += ins[k].cost

    if same:
        numel = first.numel
        if numel > (<int64_t>1 << 58) // tx_item_size[dtype]:
            raise too_large(op_name(kind, op), nd, first.shape, dtype)
        n = node_alloc(nd)
        if n == NULL:
            raise MemoryError()
        for i in range(nd):
            n.shape[i] = first.shape[i]
    else:
        for k in range(nin):
            if ins[k] != NULL and ins[k].ndim > nd:
                nd = ins[k].ndim
        for i in range(nd):
            shape[i] = 1
        for k in range(nin):
            a = ins[k]
            if a == NULL:
                continue
            for i in range(a.ndim):
                d = a.shape[i]
                if d != 1:
                    if shape[nd - a.ndim + i] == 1:
                        shape[nd - a.ndim + i] = d
                    elif shape[nd - a.ndim + i] != d:
                        raise broadcast_error(kind, op, nin, ins)
        numel = tx_numel_checked(nd, shape, tx_item_size[dtype])
        if numel < 0:
            raise too_large(op_name(kind, op), nd, shape, dtype)
        n = node_alloc(nd)
        if n == NULL:
            raise MemoryError()
        for i in range(nd):
            n.shape[i] = shape[i]
    if same and plain and not imm and not g_eager and not g_recording and cost <= MAX_COST:
        # the common case: everything else below is about the others
        for i in range(nd):
            n.strides[i] = first.strides[i]
        n.numel = numel
        n.kind = <uint8_t>kind
        n.op = <uint16_t>op
        n.nin = <uint8_t>nin
        n.odtype = <uint8_t>odtype
        n.dtype = <uint8_t>dtype
        n.device = first.device
        n.cost = cost
        for k in range(nin):
            if ins[k] != NULL:
                edge_link(n, k, ins[k])
            else:
                n.inp[k] = NULL
                n.sc[k] = sc[k]
        pend_add(n)
        n.flags |= TX_N_LINEAR
        return n
    n.numel = numel
    n.kind = <uint8_t>kind
    n.op = <uint16_t>op
    n.nin = <uint8_t>nin
    n.odtype = <uint8_t>odtype
    n.dtype = <uint8_t>dtype
    n.device = first.device
    n.cost = cost

    # memory that others can write is read at once; a small one is copied instead
    if imm:
        for k in range(nin):
            a = ins[k]
            if a != NULL and leaf_is_shared_outside(a) and a.numel * SMALL_FACTOR <= numel:
                try:
                    a = snapshot(a)
                except:
                    node_recycle(n)
                    for i in range(nsnap):
                        node_unref(snaps[i])
                    raise
                ins[k] = a
                snaps[nsnap] = a
                nsnap += 1
        imm = False
        for k in range(nin):
            if ins[k] != NULL and leaf_is_shared_outside(ins[k]):
                imm = True

    # layout: the dense order of the full-shape operands where they agree, else C order
    linear = True
    dense_found = False
    for k in range(nin):
        a = ins[k]
        if a == NULL or (a.numel == 1 and numel != 1):
            continue
        if a.ndim == nd and (same or tx_same_shape(nd, a.shape, n.shape)):
            if not a.flags & TX_N_LINEAR:
                linear = False
                if a.kind == TX_LEAF:        # not dense: its order is not followed
                    continue
            if not dense_found:
                dense_found = True
                for i in range(nd):
                    n.strides[i] = a.strides[i]
            elif not tx_same_strides(nd, n.shape, n.strides, a.strides):
                linear = False
                tx_c_strides(nd, n.shape, n.strides)
        else:
            linear = False
    if not dense_found:
        tx_c_strides(nd, n.shape, n.strides)
    elif not linear and not tx_is_dense(nd, n.shape, n.strides):
        tx_c_strides(nd, n.shape, n.strides)
    if linear:
        n.flags = TX_N_LINEAR

    for k in range(nin):
        if ins[k] != NULL:
            n.flags |= ins[k].flags & TX_N_ABOVE
            edge_link(n, k, ins[k])
        else:
            n.inp[k] = NULL
            n.sc[k] = sc[k]
    for i in range(nsnap):
        node_unref(snaps[i])                 # now held by the edge
    pend_add(n)
    if g_recording:
        n.site = record_site(op_name(kind, op))
    if (imm or g_eager) and not g_hold_imm:
        if imm or eager_now():
            try:
                ensure(n)
            except:
                node_unref(n)
                raise
    return n


cdef tx_node *move_new(tx_node *base, int ndim, const int64_t *shape, const int64_t *strides) except NULL:
    """A dense rearrangement (reshape, permutation, ...) of a pending value: the same memory,
    once there is one. base must be pending and not a movement itself."""
    cdef tx_node *n = node_alloc(ndim)
    cdef int i
    if n == NULL:
        raise MemoryError()
    n.kind = TX_MOVE
    n.dtype = base.dtype
    n.odtype = base.dtype
    n.device = base.device
    n.nin = 1
    n.numel = base.numel
    n.cost = base.cost + 1
    n.flags = base.flags & (TX_N_LINEAR | TX_N_ABOVE)
    for i in range(ndim):
        n.shape[i] = shape[i]
        n.strides[i] = strides[i]
    edge_link(n, 0, base)
    pend_add(n)
    return n


cdef object broadcast_error(int kind, int op, int nin, tx_node **ins):
    shapes = [shape_of(ins[k]) for k in range(nin) if ins[k] != NULL]
    return ShapeError(f"{op_name(kind, op)}: shapes {' and '.join([str(s) for s in shapes])} do not broadcast: "
                      "aligned from the right, sizes must be equal or 1")


cdef inline tuple shape_of(tx_node *n):
    cdef int i
    if n.ndim == 1:
        return (n.shape[0],)
    if n.ndim == 0:
        return ()
    return tuple([n.shape[i] for i in range(n.ndim)])


cdef str op_name(int kind, int op):
    if kind == TX_EW:
        return OP_NAMES[op]
    return "cast" if kind == TX_CAST else "reshape" if kind == TX_MOVE else "slice_assign"


# ---- relief: bounds that hold for the whole process -----------------------------------

cdef int relieve() except -1:
    """Evaluates small results that pin large storages; everything where the bounds are passed."""
    global g_due, g_storing
    cdef tx_node *n
    cdef tx_storage *s
    cdef int k
    cdef bint again
    if g_assigning:                          # its value must not be asked for from inside
        return 0
    if g_pending > MAX_PENDING or g_kept > MAX_KEPT:
        g_due = False
        evaluate_all()
        if 2 * g_pending > MAX_PENDING or g_kept > MAX_KEPT:
            g_storing = True
            try:
                evaluate_all()
            finally:
                g_storing = False
        return 0
    while g_due:
        g_due = False
        again = False
        n = g_pending_head.pend_next
        while n != &g_pending_head:
            for k in range(n.nin):
                if n.inp[k] != NULL and n.inp[k].kind == TX_LEAF:
                    s = n.inp[k].st
                    if s.flags & TX_ST_KEPT and ((<uint64_t>n.numel * tx_item_size[n.dtype]) * SMALL_FACTOR < s.nbytes or pins_for_backward(n)):
                        again = True
                        break
            if again:
                break
            n = n.pend_next
        if again:
            ensure(terminal(n))
            g_due = True
    return 0


cdef int evaluate_all() except -1:
    """Evaluates every pending value that somebody holds, newest first (they fuse best); what
    only backward needs may stay."""
    cdef tx_node *n
    while True:
        n = g_pending_head.pend_prev
        while n != &g_pending_head:
            if n.handles > 0 or (n.saves > 0 and not may_stay(n)):
                break
            n = n.pend_prev
        if n == &g_pending_head:
            return 0
        ensure(n)
