# Planning and evaluation: from pending nodes to one linear program over blocks.
#
# plan_collect   which nodes belong to the program
# plan_domain    the loop: dimensions, and how each operand lies in it
# plan_outputs   what is stored, and whose memory it takes over (donation)
# plan_emit      registers and instructions
# plan_commit    pending nodes become leaves

cdef enum:
    PMAX = 96          # nodes of a program
    XMAX = 200         # leaves of a program
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
    tx_node *root
    tx_node *need
    tx_node *dst                     # leaf that the root's value is written to, or NULL
    tx_node *order[96]
    tx_node *leaves[200]
    # per node
    int16_t vreg[96]                 # register of the value
    int16_t last[96]                 # position of its last read
    int16_t read[96]                 # the same, copies and movements of it included
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
                if P.nleaf == XMAX:
                    P.need = NULL
                    return NEED
                if c.st.writing:
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
    P.linear = (P.root.flags & TX_N_LINEAR) != 0 and not P.nolinear and (P.dst == NULL or (
        P.dst.numel == P.root.numel and tx_same_strides(P.root.ndim, P.root.shape, P.root.strides, P.dst.strides)))
    rc = plan_walk(P, P.root)
    if rc != DONE:
        return rc
    if not P.linear or P.dst != NULL or P.nojoin:
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
                if (t.epoch != g_epoch and t.flags & TX_N_LINEAR and not t.flags & TX_N_BUSY and t.numel == P.root.numel
                        and P.norder + t.cost < 64 and P.nleaf + 4 * t.cost < XMAX):
                    rc = plan_walk(P, t)
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
        if n.refs > n.uses or (n == P.root):
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
        if P.ost[i] == NULL:
            P.ost[i] = storage_try(device, <size_t>nbytes)
            if P.ost[i] == NULL:
                plan_undo_outputs(P)
                return NOMEM
    return DONE


cdef void plan_undo_outputs(Plan *P) noexcept:
    cdef int i
    for i in range(P.norder):
        if P.ost[i] != NULL and P.donor[i] < 0:
            tx_st_release(P.ost[i])
        P.ost[i] = NULL
        P.donor[i] = -1


# ---- registers and instructions ------------------------------------------------------------

cdef inline int reg_step(Plan *P, char *base, int64_t step) noexcept:
    cdef int r = P.prog.nreg
    cdef tx_reg *g = &P.prog.reg[r]
    P.prog.nreg += 1
    g.kind = TX_R_STEP
    g.base = base
    g.step = step
    P.slot_of[r] = -1
    return r


cdef inline int reg_row(Plan *P, int lay, int64_t step) noexcept:
    cdef int r = P.prog.nreg
    cdef tx_reg *g = &P.prog.reg[r]
    P.prog.nreg += 1
    g.kind = TX_R_ROW
    g.step = step
    g.ref = lay
    P.slot_of[r] = -1
    return r


cdef inline int reg_slot(Plan *P) noexcept:
    """A register on a scratch slot with one user."""
    cdef int r = P.prog.nreg, s
    cdef tx_reg *g = &P.prog.reg[r]
    P.prog.nreg += 1
    if P.nslot_free > 0:
        P.nslot_free -= 1
        s = P.slot_free[P.nslot_free]
    else:
        s = P.prog.nslot
        P.prog.nslot += 1
    g.kind = TX_R_SLOT
    g.step = 0
    g.ref = s
    P.slot_of[r] = <int16_t>s
    P.slot_users[s] = 1
    return r


cdef inline void reg_share(Plan *P, int r) noexcept:
    if P.slot_of[r] >= 0:
        P.slot_users[P.slot_of[r]] += 1


cdef inline void reg_done(Plan *P, int r) noexcept:
    cdef int s = P.slot_of[r]
    if s >= 0:
        P.slot_users[s] -= 1
        if P.slot_users[s] == 0:
            P.slot_free[P.nslot_free] = <int16_t>s
            P.nslot_free += 1


cdef inline tx_ins *emit(Plan *P, int kind, int dst) noexcept:
    cdef tx_ins *q = &P.prog.ins[P.prog.nins]
    P.prog.nins += 1
    q.kind = <uint8_t>kind
    q.nsrc = 1
    q.mask = 0
    q.aux = 0
    q.dst = <int16_t>dst
    q.src[0] = 0
    q.src[1] = 0
    q.src[2] = 0
    q.src[3] = 0
    q.lay = -1
    return q


cdef inline void emit_cast(Plan *P, int dst, int to, int src, int frm, bint scal) noexcept:
    cdef tx_ins *q = emit(P, TX_I_CAST, dst)
    q.src[0] = <int16_t>src
    q.mask = scal
    q.fn.cast = K.cast[to][frm]
    P.prog.ns_per_elem += 0.1


cdef inline void emit_copy(Plan *P, int dst, int src, int log2, bint scal) noexcept:
    cdef tx_ins *q = emit(P, TX_I_COPY, dst)
    q.src[0] = <int16_t>src
    q.mask = scal
    q.aux = <uint8_t>log2
    q.fn.move = K.move[log2]


cdef inline void emit_round(Plan *P, int reg, int dtype) noexcept:
    cdef tx_ins *q = emit(P, TX_I_ROUND, reg)
    q.fn.round = K.round_half[0 if dtype == TX_F16 else 1]
    P.prog.ns_per_elem += 0.1


cdef int leaf_load(Plan *P, int li) noexcept:
    """The register that holds the values of a leaf; the instructions to fill it, if any."""
    cdef tx_node *q = P.leaves[li]
    cdef int dt = q.dtype, isz = tx_item_size[q.dtype], r, t, cls = P.lcls[li]
    cdef tx_ins *ins
    cdef char *base = q.st.ptr + q.offset * isz
    cdef bint half = tx_is_half(dt) and not P.rawhalf
    P.lscal[li] = 0
    P.prog.ns_per_elem += 0.03 * isz
    if cls == C_SCALAR or (cls == C_LIN and q.numel == 1):
        P.lscal[li] = 1
        if half:
            K.cast[TX_F32][dt](&P.prog.cst[P.prog.nreg], base, 1)
            r = reg_step(P, <char *>&P.prog.cst[P.prog.nreg], 0)
        else:
            r = reg_step(P, base, 0)
        return r
    if cls == C_LIN:
        r = reg_step(P, base, isz)
        P.prog.pf[P.prog.npf] = <int16_t>r
        P.prog.npf += 1
    elif cls == C_ROW and P.prog.rowmode:
        r = reg_row(P, P.llay[li], P.prog.lay[P.llay[li]].stride[P.prog.ndim - 1])
        if P.prog.reg[r].step == 0:
            P.lscal[li] = 1
    else:
        r = reg_slot(P)
        ins = emit(P, TX_I_GATHER, r)
        ins.lay = P.llay[li]
        ins.aux = tx_item_log2[dt]
        ins.fn.move = K.move[tx_item_log2[dt]]
        P.prog.ns_per_elem += 0.5
    if half:
        t = reg_slot(P)
        emit_cast(P, t, TX_F32, r, dt, P.lscal[li])
        reg_done(P, r)
        r = t
    return r


cdef inline int operand(Plan *P, tx_node *n, int k, bint *scal) noexcept:
    """Register of operand k of n."""
    cdef tx_node *c = n.inp[k]
    cdef int r
    if c == NULL:
        P.prog.cst[P.prog.nreg] = n.sc[k]
        scal[0] = True
        r = reg_step(P, <char *>&P.prog.cst[P.prog.nreg], 0)
        return r
    if c.kind == TX_LEAF:
        if P.lreg[c.idx] < 0:
            P.lreg[c.idx] = <int16_t>leaf_load(P, c.idx)
        scal[0] = P.lscal[c.idx]
        return P.lreg[c.idx]
    scal[0] = P.scal[c.idx]
    return P.vreg[c.idx]


cdef inline void operand_done(Plan *P, tx_node *n, int k, int i) noexcept:
    """Gives the scratch of operand k back if instruction i was its last reader."""
    cdef tx_node *c = n.inp[k]
    cdef int j
    if c == NULL:
        return
    for j in range(k):
        if n.inp[j] == c:                  # read twice by one op: give it back once
            return
    if c.kind == TX_LEAF:
        if P.llast[c.idx] == i:
            reg_done(P, P.lreg[c.idx])
    elif P.last[c.idx] == i:
        reg_done(P, P.vreg[c.idx])


cdef void plan_emit(Plan *P, bint for_reduce) noexcept:
    cdef tx_prog *g = &P.prog
    cdef int i, k, r, t, dt, rdt, isz, oc, sdt, regsize
    cdef tx_node *n
    cdef tx_node *c
    cdef tx_ins *q
    cdef bint scal, half, direct, pre
    cdef bint sflag[4]
    cdef int sreg[4]
    cdef int itemmax = 1
    cdef char *obase
    g.nreg = 0
    g.nins = 0
    g.nslot = 0
    g.npf = 0
    g.ns_per_elem = 0.02
    P.nslot_free = 0
    for i in range(P.nleaf):
        P.lreg[i] = -1
        k = tx_item_size[tx_reg_dtype(P.leaves[i].dtype)]
        if k > itemmax:
            itemmax = k
    for i in range(P.norder):
        n = P.order[i]
        dt = n.dtype
        rdt = dt if P.rawhalf else tx_reg_dtype(dt)
        regsize = tx_item_size[rdt]
        if regsize > itemmax:
            itemmax = regsize
        half = tx_is_half(dt) and not P.rawhalf
        isz = tx_item_size[dt]
        if n.kind == TX_MOVE:
            c = n.inp[0]
            P.scal[i] = P.scal[c.idx] if c.kind != TX_LEAF else P.lscal[c.idx]
            P.vreg[i] = <int16_t>operand(P, n, 0, &scal)
            P.scal[i] = scal
            reg_share(P, P.vreg[i])
            operand_done(P, n, 0, i)
            if for_reduce and n == P.root:
                reg_share(P, P.vreg[i])
            if P.last[i] < 0:
                reg_done(P, P.vreg[i])
            continue
        # where the output lies
        P.oreg[i] = -1
        direct = False
        oc = C_LIN
        if P.out[i]:
            if P.olay[i] >= 0:
                oc = lay_class(P, P.olay[i], isz)
                if n.numel == 1:
                    oc = C_LIN
                if P.ost[i] != NULL:
                    g.lay[P.olay[i]].base = P.ost[i].ptr
                if oc == C_GATHER and g.rowmode and g.lay[P.olay[i]].stride[g.ndim - 1] == isz:
                    oc = C_ROW
            if P.dst != NULL and n == P.root:
                obase = P.dst.st.ptr + P.dst.offset * isz
            else:
                obase = P.ost[i].ptr
            if oc == C_LIN:
                P.oreg[i] = <int16_t>reg_step(P, obase, isz)
                g.pf[g.npf] = P.oreg[i]
                g.npf += 1
            elif oc == C_ROW:
                P.oreg[i] = <int16_t>reg_row(P, P.olay[i], isz)
            direct = P.oreg[i] >= 0 and not half and not P.late[i]
            g.ns_per_elem += 0.05 * isz
        # operands
        for k in range(n.nin):
            sreg[k] = operand(P, n, k, &sflag[k])
        scal = False
        if n.kind == TX_EW:
            g.ns_per_elem += OP_NS[n.op]
            sdt = tx_reg_dtype(n.odtype)
            if tx_item_size[sdt] > itemmax:
                itemmax = tx_item_size[sdt]
            if direct:
                r = P.oreg[i]
                for k in range(n.nin):
                    operand_done(P, n, k, i)
            else:
                # the slot of a dying operand of equal item size can take the result
                for k in range(n.nin):
                    if n.inp[k] != NULL and tx_item_size[tx_reg_dtype(n.inp[k].dtype)] == regsize:
                        operand_done(P, n, k, i)
                r = reg_slot(P)
                for k in range(n.nin):
                    if n.inp[k] != NULL and tx_item_size[tx_reg_dtype(n.inp[k].dtype)] != regsize:
                        operand_done(P, n, k, i)
            q = emit(P, TX_I_EW, r)
            q.nsrc = n.nin
            q.fn.ew = K.ew[<int>n.op * TX_NDT + sdt]
            for k in range(n.nin):
                q.src[k] = <int16_t>sreg[k]
                if sflag[k]:
                    q.mask |= <uint8_t>(1 << k)
            if half:
                emit_round(P, r, dt)
        else:                                # cast, or a copy where both dtypes are equal
            c = n.inp[0]
            if P.rawhalf or c.dtype == dt:
                sdt = dt if P.rawhalf else tx_reg_dtype(dt)
                scal = sflag[0]
                r = sreg[0]
                reg_share(P, r)
                operand_done(P, n, 0, i)
            elif half:
                if tx_is_half(c.dtype) or c.dtype == TX_F32:
                    r = reg_slot(P)
                    emit_copy(P, r, sreg[0], 2, sflag[0])
                    emit_round(P, r, dt)
                    operand_done(P, n, 0, i)
                else:
                    t = reg_slot(P)
                    r = reg_slot(P)
                    scal = sflag[0]
                    emit_cast(P, t, dt, sreg[0], c.dtype, scal)
                    emit_cast(P, r, TX_F32, t, dt, scal)
                    reg_done(P, t)
                    operand_done(P, n, 0, i)
            elif tx_is_half(c.dtype) and dt == TX_F32:
                scal = sflag[0]
                r = sreg[0]
                reg_share(P, r)
                operand_done(P, n, 0, i)
            else:
                scal = sflag[0]
                if direct and not scal:
                    r = P.oreg[i]
                else:
                    r = reg_slot(P)
                emit_cast(P, r, dt, sreg[0], tx_reg_dtype(c.dtype), scal)
                operand_done(P, n, 0, i)
        P.vreg[i] = <int16_t>r
        P.scal[i] = scal
        # store
        if P.out[i] and not P.late[i] and r != P.oreg[i]:
            plan_store(P, i, half, oc)
        if P.late[i] or (for_reduce and n == P.root):
            reg_share(P, r)                  # needed until the end of the program
        if P.last[i] < 0:
            reg_done(P, r)
    for i in range(P.norder):
        if P.late[i]:
            n = P.order[i]
            plan_store(P, i, tx_is_half(n.dtype) and not P.rawhalf, C_LIN)
    if for_reduce:
        g.block = TX_RED_BLOCK
    else:
        g.block = 1024 if itemmax <= 4 else (512 if itemmax == 8 else 256)
    g.slot_bytes = g.block * itemmax + 192
    if g.numel < 65536:
        g.npf = 0


cdef void plan_store(Plan *P, int i, bint half, int oc) noexcept:
    """Stores the value of node i from its register to its output."""
    cdef tx_node *n = P.order[i]
    cdef int r = P.vreg[i], t, log2 = tx_item_log2[n.dtype]
    cdef tx_ins *q
    cdef bint scal = P.scal[i]
    if P.oreg[i] >= 0:
        if not half:
            emit_copy(P, P.oreg[i], r, log2, scal)
        elif not scal:
            emit_cast(P, P.oreg[i], n.dtype, r, TX_F32, False)
        else:
            t = reg_slot(P)
            emit_cast(P, t, n.dtype, r, TX_F32, True)
            emit_copy(P, P.oreg[i], t, log2, True)
            reg_done(P, t)
        return
    t = r
    if half:
        t = reg_slot(P)
        emit_cast(P, t, n.dtype, r, TX_F32, scal)
    if scal:
        r = reg_slot(P)
        emit_copy(P, r, t, log2, True)
        if half:
            reg_done(P, t)
        t = r
    q = emit(P, TX_I_SCATTER, 0)
    q.src[0] = <int16_t>t
    q.lay = P.olay[i]
    q.aux = <uint8_t>log2
    q.fn.move = K.move[log2]
    if half or scal:
        reg_done(P, t)


# ---- commit ----------------------------------------------------------------------------------

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

cdef int plan_execute(Plan *P) except -1:
    """Runs the program; without the GIL where it takes long."""
    cdef tx_prog *g = &P.prog
    cdef int i
    cdef tx_node *n
    if g.numel == 0:
        return 0
    if <double>g.numel * g.ns_per_elem < LONG_NS:
        tx_run(g)
        return 0
    plan_mark(P, 1)
    with nogil:
        tx_run(g)
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
            P.ost[i].writing += by
    for i in range(P.nleaf):
        P.leaves[i].st.reading += by
        if by > 0:
            P.leaves[i].refs += 1
    if P.dst != NULL:
        P.dst.st.writing += by


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
    if dst != NULL and (dst.st.reading or dst.st.writing):
        return WAIT
    if root.device != 0:
        return device_program(P)
    P.rawhalf = P.norder == 1 and root.kind == TX_CAST and root.inp[0].dtype == root.dtype and tx_is_half(root.dtype)
    plan_mark_outputs(P)
    plan_last_reads(P)
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
    return DONE


cdef int settle_need(Plan *P, int rc, tx_node *root, int *tries) except -1:
    """What an attempt asked for."""
    if rc == WAIT:
        wait_for_others(root)
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
                rc = WAIT
            elif r.kind == TX_ASSIGN:
                P.need = r.inp[0]
                rc = NEED
                if P.need.kind == TX_LEAF:
                    assign_evaluate(r)
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
