# Planning and evaluation: from pending nodes to one linear program over blocks.
#
# plan_collect   which nodes belong to the program
# plan_domain    the loop: dimensions, and how each operand lies in it
# plan_outputs   what is stored, and whose memory it takes over (donation)
# plan_emit      registers and instructions (emit.pxi)
# plan_commit    pending nodes become leaves (evaluate.pxi)

cdef enum:
    PMAX = 96          # nodes of a program
    XMAX = 200         # leaves of a program
    DEVICE_LEAVES = 20 # the same on a device,
    DEVICE_BUFFERS = 28 # and its leaves and outputs together
    C_LIN = 0          # memory in domain order
    C_SCALAR = 1       # one element for all
    C_ROW = 2          # contiguous, or constant, within a row of the domain
    C_GATHER = 3       # element by element

cdef enum:
    DONE = 0
    NEED = 1           # plan.need must be evaluated first
    WAIT = 2           # another thread is at work on one of the values
    NOMEM = 3

cdef struct Plan:
    Plan *next
    tx_prog prog
    int norder, nleaf, nlayed
    bint linear, rawhalf, held
    bint nolinear                    # the domain is not in memory order
    bint nojoin
    bint reducing                    # the root stays pending: nothing may be taken from it
    int xmax                         # leaves of this program: a device binds fewer
    tx_node *root
    tx_node *need
    tx_storage *blocker              # what another thread holds, where an attempt says WAIT
    tx_node *dst                     # leaf that the root's value is written to, or NULL
    tx_node *order[96]
    tx_node *leaves[200]
    # per node
    int16_t vreg[96]                 # register of the value
    int16_t last[96]                 # position of its last read
    int16_t read[96]                 # the same, copies and movements of it included
    int16_t again[96]                # ops that it takes to compute the value again later
    int16_t olay[96]                 # layout of its output, -1
    int8_t out[96]                   # is stored
    int8_t scal[96]                  # value is one element in its register
    int8_t late[96]                  # stored by a copy at the end
    int16_t oreg[96]                 # register of the output memory
    tx_storage *ost[96]
    int16_t donor[96]                # leaf whose storage the output takes over, -1
    # per leaf
    int16_t lreg[200]
    int16_t llast[200]
    int16_t lread[200]
    int16_t llay[200]
    int8_t lcls[200]
    int8_t lscal[200]
    int8_t ltaken[200]
    # scratch slots
    int16_t slot_users[120]
    int16_t slot_of[704]             # register -> slot, -1
    int16_t slot_free[120]
    int nslot_free

cdef Plan *g_plans = NULL
cdef const tx_kernels *K = NULL
cdef double OP_NS[1024]

cdef Plan *plan_take() except NULL:
    global g_plans
    cdef Plan *p = g_plans
    if p != NULL:
        g_plans = p.next
        return p
    p = <Plan *>malloc(sizeof(Plan))
    if p == NULL:
        raise MemoryError()
    p.nolinear = False
    p.reducing = False
    p.nojoin = False
    p.held = False
    return p


cdef inline void plan_give(Plan *p) noexcept:
    global g_plans
    p.next = g_plans
    g_plans = p


# ---- collect --------------------------------------------------------------------------

cdef int plan_walk(Plan *P, tx_node *top) noexcept:
    """Adds top and what it needs in topological order."""
    cdef tx_node *stack[100]
    cdef int child[100]
    cdef int depth = 0, k, i
    cdef tx_node *n
    cdef tx_node *c
    cdef tx_node *root = P.root
    P.blocker = NULL
    if top.flags & TX_N_BUSY:
        return WAIT
    top.epoch = g_epoch
    top.uses = 0
    stack[0] = top
    child[0] = 0
    while depth >= 0:
        n = stack[depth]
        k = child[depth]
        if k == n.nin:
            if P.norder == PMAX:
                P.need = n
                return NEED
            n.idx = P.norder
            P.order[P.norder] = n
            P.norder += 1
            depth -= 1
            continue
        child[depth] = k + 1
        c = n.inp[k]
        if c == NULL:
            continue
        if c.kind == TX_LEAF:
            if c.epoch != g_epoch:
                if P.nleaf == P.xmax:
                    P.need = NULL
                    return NEED
                if blocked(c.st, False):
                    P.blocker = c.st
                    return WAIT
                c.epoch = g_epoch
                c.uses = 0
                c.idx = P.nleaf
                P.leaves[P.nleaf] = c
                P.nleaf += 1
            c.uses += 1
            continue
        if c.epoch == g_epoch:
            c.uses += 1
            continue
        if c.flags & TX_N_BUSY:
            return WAIT
        if P.linear:
            if not (c.flags & TX_N_LINEAR) or c.numel != root.numel:
                P.need = c
                return NEED
        elif c.kind == TX_MOVE or c.kind == TX_ASSIGN or c.ndim != root.ndim or not tx_same_shape(c.ndim, c.shape, root.shape):
            P.need = c
            return NEED
        if depth >= 97:
            P.need = c
            return NEED
        c.epoch = g_epoch
        c.uses = 1
        depth += 1
        stack[depth] = c
        child[depth] = 0
    return DONE


cdef tx_node *terminal(tx_node *n) noexcept:
    """A value that somebody holds and that n is computed for."""
    cdef int guard = 0
    while n.handles == 0 and n.saves == 0 and n.consumers != NULL and guard < 1000000:
        n = n.consumers.owner
        guard += 1
    return n


cdef int plan_collect(Plan *P) noexcept:
    global g_epoch
    cdef int rc, i
    cdef tx_node *q
    cdef tx_node *t
    cdef tx_edge *e
    g_epoch += 1
    P.norder = 0
    P.nleaf = 0
    P.need = NULL
    P.xmax = DEVICE_LEAVES if P.root.device else XMAX
    P.linear = (P.root.flags & TX_N_LINEAR) != 0 and not P.nolinear and (P.dst == NULL or (
        P.dst.numel == P.root.numel and tx_same_strides(P.root.ndim, P.root.shape, P.root.strides, P.dst.strides)))
    rc = plan_walk(P, P.root)
    if rc != DONE:
        return rc
    if not P.linear or P.nojoin or (P.dst != NULL and is_passed_on(P.root)):
        return DONE
    # values that wait for the same memory are computed in the same pass, so that it can be
    # taken over by one of them
    i = 0
    while i < P.nleaf:
        q = P.leaves[i]
        i += 1
        if q.handles or q.saves or q.refs == q.uses or tx_st_owners(q.st) != 1 or q.numel != P.root.numel:
            continue
        e = q.consumers
        while e != NULL:
            if e.owner.epoch != g_epoch:
                t = terminal(e.owner)
                if (t.epoch != g_epoch and t.flags & TX_N_LINEAR and not t.flags & (TX_N_BUSY | TX_N_ABOVE) and t.numel == P.root.numel
                        and P.norder + t.cost < 64 and P.nleaf + (4 * t.cost if P.root.device == 0 else 1) < P.xmax):
                    rc = plan_walk(P, t)
                    if rc == NEED:           # too much for one program: without the others
                        P.nojoin = True
                        rc = plan_collect(P)
                        P.nojoin = False
                        return rc
                    if rc != DONE:
                        return rc
                    e = q.consumers          # start over: the walk may have reached others
                    continue
            e = e.next
    return DONE


# ---- domain ---------------------------------------------------------------------------

cdef inline int lay_new(Plan *P) noexcept:
    cdef int l = P.prog.nlay
    P.prog.nlay += 1
    return l


cdef void lay_fill(Plan *P, int l, char *base, int isz, int rnd, int nd, const int64_t *shape, const int64_t *strides,
                   const int *perm, int ndim) noexcept:
    """Byte strides of a view, broadcast to rank rnd, along the domain's dimensions."""
    cdef int d, j
    cdef tx_lay *y = &P.prog.lay[l]
    y.base = base
    for d in range(ndim):
        j = perm[d] - (rnd - nd)
        if j < 0 or shape[j] == 1:
            y.stride[d] = 0
        else:
            y.stride[d] = strides[j] * isz


cdef int order_axes(int nd, const int64_t *shape, const int64_t *strides, int *perm) noexcept:
    """Axes longer than one, from the largest stride to the smallest."""
    cdef int n = 0, i, j
    cdef int64_t s
    for i in range(nd):
        if shape[i] == 1:
            continue
        s = strides[i] if strides[i] >= 0 else -strides[i]
        j = n
        while j > 0 and (strides[perm[j - 1]] if strides[perm[j - 1]] >= 0 else -strides[perm[j - 1]]) < s:
            perm[j] = perm[j - 1]
            j -= 1
        perm[j] = i
        n += 1
    return n


cdef void domain_collapse(Plan *P, int keep) noexcept:
    """Merges neighbouring dimensions that every layout walks as one. Dimensions before and
    after position keep are not merged with each other (keep < 0: anywhere)."""
    cdef tx_prog *g = &P.prog
    cdef int d = 0, l, e
    cdef bint ok
    while d + 1 < g.ndim:
        ok = d + 1 != keep
        if ok:
            for l in range(g.nlay):
                if g.lay[l].stride[d] != g.lay[l].stride[d + 1] * g.dim[d + 1]:
                    ok = False
                    break
        if not ok:
            d += 1
            continue
        g.dim[d] *= g.dim[d + 1]
        for e in range(d + 1, g.ndim - 1):
            g.dim[e] = g.dim[e + 1]
        for l in range(g.nlay):
            g.lay[l].stride[d] = g.lay[l].stride[d + 1]
            for e in range(d + 1, g.ndim - 1):
                g.lay[l].stride[e] = g.lay[l].stride[e + 1]
        g.ndim -= 1
        if keep > d:
            keep -= 1


cdef int lay_class(Plan *P, int l, int isz) noexcept:
    cdef tx_prog *g = &P.prog
    cdef tx_lay *y = &g.lay[l]
    cdef int d
    cdef bint zero = True, lin = True
    cdef int64_t want = isz
    for d in range(g.ndim - 1, -1, -1):
        if g.dim[d] != 1:
            if y.stride[d] != 0:
                zero = False
            if y.stride[d] != want:
                lin = False
        want *= g.dim[d]
    if lin:
        return C_LIN
    if zero:
        return C_SCALAR
    return C_GATHER


cdef void plan_domain(Plan *P, const int *perm_in, int nperm, int keep) noexcept:
    """Dimensions of the loop and the class of every operand. perm_in: order of the root's
    axes (reductions choose it), or NULL for memory order."""
    cdef tx_prog *g = &P.prog
    cdef tx_node *root = P.root
    cdef tx_node *q
    cdef int perm[64]
    cdef int i, d, l, n
    cdef bint rows
    g.nlay = 0
    g.rowmode = 0
    g.numel = root.numel
    if P.linear and perm_in == NULL:
        g.ndim = 1
        g.dim[0] = root.numel
        g.inner = root.numel
        for i in range(P.nleaf):
            q = P.leaves[i]
            P.lcls[i] = C_SCALAR if q.numel == 1 and root.numel != 1 else C_LIN
            P.llay[i] = -1
        for i in range(P.norder):
            P.olay[i] = -1
        return
    if perm_in != NULL:
        n = nperm
        for d in range(n):
            perm[d] = perm_in[d]
    elif P.dst != NULL:
        n = order_axes(root.ndim, root.shape, P.dst.strides, perm)
    else:
        n = order_axes(root.ndim, root.shape, root.strides, perm)
    g.ndim = n
    for d in range(n):
        g.dim[d] = root.shape[perm[d]]
    for i in range(P.nleaf):
        q = P.leaves[i]
        if q.numel == 1:
            P.llay[i] = -1
            P.lcls[i] = C_SCALAR if root.numel != 1 else C_LIN
            continue
        l = lay_new(P)
        P.llay[i] = <int16_t>l
        lay_fill(P, l, q.st.ptr + q.offset * tx_item_size[q.dtype], tx_item_size[q.dtype], root.ndim, q.ndim, q.shape, q.strides, perm, n)
    for i in range(P.norder):
        P.olay[i] = -1
        if P.out[i]:
            l = lay_new(P)
            P.olay[i] = <int16_t>l
            q = P.order[i]
            if P.dst != NULL and q == root:
                lay_fill(P, l, P.dst.st.ptr + P.dst.offset * tx_item_size[q.dtype], tx_item_size[q.dtype],
                         root.ndim, P.dst.ndim, P.dst.shape, P.dst.strides, perm, n)
            else:
                lay_fill(P, l, NULL, tx_item_size[q.dtype], root.ndim, q.ndim, q.shape, q.strides, perm, n)
    domain_collapse(P, keep)
    if g.ndim == 0:
        g.ndim = 1
        g.dim[0] = 1
        for l in range(g.nlay):
            g.lay[l].stride[0] = 0
    g.inner = g.dim[g.ndim - 1]
    rows = False
    for i in range(P.nleaf):
        if P.llay[i] >= 0:
            q = P.leaves[i]
            P.lcls[i] = <int8_t>lay_class(P, P.llay[i], tx_item_size[q.dtype])
            if P.lcls[i] == C_GATHER and g.inner >= 128 and (g.lay[P.llay[i]].stride[g.ndim - 1] == tx_item_size[q.dtype]
                                                             or g.lay[P.llay[i]].stride[g.ndim - 1] == 0):
                rows = True
                P.lcls[i] = C_ROW
    for i in range(P.norder):
        if P.olay[i] >= 0:
            q = P.order[i]
            if g.inner >= 128 and lay_class(P, P.olay[i], tx_item_size[q.dtype]) == C_GATHER \
                    and g.lay[P.olay[i]].stride[g.ndim - 1] == tx_item_size[q.dtype]:
                rows = True
    if rows and g.ndim > 1:
        g.rowmode = 1


# ---- outputs and donation ---------------------------------------------------------------

cdef inline bint is_cheap(tx_node *n) noexcept:
    """Doing the op again takes less time than storing and reading its result."""
    return n.kind == TX_CAST or (n.kind == TX_EW and OP_NS[n.op] < 0.5)


cdef int count_again(Plan *P, tx_node *n) noexcept:
    """Ops from which n can be computed again after the program, above MAX_AGAIN where an
    operand has no other owner than pending values."""
    cdef int k, total = 1
    cdef tx_node *c
    if not is_cheap(n):
        return MAX_AGAIN + 1
    for k in range(n.nin):
        c = n.inp[k]
        if c == NULL:
            continue
        if c.kind == TX_LEAF:
            if (c.handles == 0 and c.saves == 0) or (P.dst != NULL and c.st == P.dst.st):
                return MAX_AGAIN + 1         # (what is overwritten is not there later)
        else:
            total += P.again[c.idx]
        if total > MAX_AGAIN:
            return MAX_AGAIN + 1
    return total


cdef bint left_for_backward(tx_node *n, int *budget) noexcept:
    """Whether a pending value that only backward needs can stay pending: see count_again."""
    cdef int k
    cdef tx_node *c
    budget[0] -= 1
    if budget[0] < 0 or not is_cheap(n):
        return False
    for k in range(n.nin):
        c = n.inp[k]
        if c == NULL or c.handles or (c.kind == TX_LEAF and c.saves):
            continue
        if c.kind == TX_LEAF or not left_for_backward(c, budget):
            return False
    return True


cdef inline bint may_stay(tx_node *n) noexcept:
    cdef int budget = MAX_AGAIN
    return n.handles == 0 and n.saves > 0 and not g_storing and left_for_backward(n, &budget)


cdef int MAX_AGAIN = 16                      # ops that backward does again rather than keep their result
cdef bint g_storing = False                  # everything is stored now: there is too much pending


cdef void plan_mark_outputs(Plan *P) noexcept:
    """A value is stored when somebody outside the program needs it."""
    cdef int i, k
    cdef tx_node *n
    cdef tx_node *b
    for i in range(P.norder):
        P.out[i] = 0
        P.ost[i] = NULL
        P.donor[i] = -1
        P.late[i] = 0
        P.last[i] = -1
    for i in range(P.norder):
        n = P.order[i]
        P.again[i] = count_again(P, n)
        if n.refs > n.uses or (n == P.root):
            if P.again[i] <= MAX_AGAIN and n != P.root and n.handles == 0 and n.refs - n.saves == n.uses and not n.flags & TX_N_LEFT:
                continue                     # only backward needs it: that computes it again
            P.again[i] = 0 if n.handles or n.saves else MAX_AGAIN + 1
            b = n
            while b.kind == TX_MOVE:
                b = b.inp[0]
            if b.kind != TX_LEAF:
                P.out[b.idx] = 1
    if P.dst != NULL:
        P.out[P.root.idx] = 1


cdef void plan_last_reads(Plan *P) noexcept:
    cdef int i, k
    cdef tx_node *n
    cdef tx_node *c
    for i in range(P.nleaf):
        P.llast[i] = -1
        P.ltaken[i] = 0
    for i in range(P.norder):
        n = P.order[i]
        for k in range(n.nin):
            c = n.inp[k]
            if c == NULL:
                continue
            if c.kind == TX_LEAF:
                P.llast[c.idx] = <int16_t>i
            else:
                P.last[c.idx] = <int16_t>i
    # a copy or movement has no register of its own: whoever reads it reads its source
    for i in range(P.nleaf):
        P.lread[i] = P.llast[i]
    for i in range(P.norder):
        P.read[i] = P.last[i]
    for i in range(P.norder - 1, -1, -1):
        n = P.order[i]
        if is_passed_on(n):
            c = n.inp[0]
            if c.kind == TX_LEAF:
                if P.read[i] > P.lread[c.idx]:
                    P.lread[c.idx] = P.read[i]
            elif P.read[i] > P.read[c.idx]:
                P.read[c.idx] = P.read[i]


cdef inline bint is_passed_on(tx_node *n) noexcept:
    """The value has the register of its operand."""
    return n.kind == TX_MOVE or (n.kind == TX_CAST and (n.inp[0].dtype == n.dtype or tx_is_half(n.inp[0].dtype)))


cdef void plan_late_root(Plan *P) noexcept:
    """The root is written over memory that values after it in the program still read: it is stored at the end."""
    cdef int i
    if P.dst == NULL:
        return
    for i in range(P.nleaf):
        if P.leaves[i].st == P.dst.st and P.lread[i] > P.root.idx:
            P.late[P.root.idx] = 1
            return


cdef bint can_donate(Plan *P, int li, int64_t nbytes) noexcept:
    """The one predicate that decides reuse: may an output of nbytes take over the memory of
    this leaf? Nobody outside the program may hold the value or the storage, it must be ours,
    and every read of it must walk it in the order in which the output is written."""
    cdef tx_node *q = P.leaves[li]
    cdef tx_storage *s = q.st
    if q.handles != 0 or q.saves != 0 or q.refs != q.uses:
        return False
    if P.ltaken[li] or P.lcls[li] != C_LIN:
        return False
    if s.nbytes != <size_t>nbytes or q.offset != 0 or q.numel * tx_item_size[q.dtype] != nbytes:
        return False
    if s.flags & (TX_ST_FOREIGN | TX_ST_READONLY) or s.reading or s.writing:
        return False
    if tx_st_owners(s) != 1 or tx_st_exports(s) != 0:
        return False
    return True


cdef int plan_outputs(Plan *P, int device) except -1:
    """Memory for everything that is stored, before anything is written."""
    plan_donors(P)
    return plan_alloc(P, device)


cdef void plan_donors(Plan *P) noexcept:
    """Which outputs take over the memory of an operand."""
    cdef int i, li
    cdef tx_node *n
    cdef int64_t nbytes
    cdef int oc
    for i in range(P.norder):
        if not P.out[i]:
            continue
        n = P.order[i]
        if P.dst != NULL and n == P.root:
            continue
        nbytes = n.numel * tx_item_size[n.dtype]
        oc = C_LIN
        if P.olay[i] >= 0:
            oc = lay_class(P, P.olay[i], tx_item_size[n.dtype])
            if n.numel == 1:
                oc = C_LIN
        if nbytes > 0 and oc == C_LIN and not P.reducing:
            for li in range(P.nleaf):
                # a value in its operand's register is stored where it stands, never at the end:
                # its register may be memory that another output takes over
                if can_donate(P, li, nbytes) and not (P.lread[li] > i and is_passed_on(n)):
                    P.ltaken[li] = 1
                    P.donor[i] = <int16_t>li
                    P.ost[i] = P.leaves[li].st
                    if P.lread[li] > i:
                        P.late[i] = 1
                    break


cdef int plan_alloc(Plan *P, int device) except -1:
    """Memory for the other outputs, marked where the program is."""
    cdef int i
    cdef tx_node *n
    for i in range(P.norder):
        n = P.order[i]
        if not P.out[i] or P.ost[i] != NULL or (P.dst != NULL and n == P.root):
            continue
        P.ost[i] = storage_try(device, <size_t>(n.numel * tx_item_size[n.dtype]))
        if P.ost[i] == NULL:
            if not P.held:
                plan_undo_outputs(P)
            return NOMEM
        if P.held:
            mark(P.ost[i], 1, 1)
    return DONE


cdef void plan_undo_outputs(Plan *P) noexcept:
    cdef int i
    for i in range(P.norder):
        if P.ost[i] != NULL and P.donor[i] < 0:
            tx_st_release(P.ost[i])
        P.ost[i] = NULL
        P.donor[i] = -1
