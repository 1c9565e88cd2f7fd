# Planning, second half: registers and instructions of a program.

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


cdef enum:
    LONG_BLOCK = 65536                       # elements
    PREFETCH_BYTES = 1 << 25                 # what a program reads and writes, from which it surely comes from memory


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
    if g.nslot == 0 and not for_reduce:
        # nothing passes from one instruction to the next in the first cache: long runs, which the
        # processor prefetches by itself (half the time of short ones in the second cache)
        g.block = LONG_BLOCK
        g.npf = 0
    elif g.numel * g.npf * itemmax < PREFETCH_BYTES:
        g.npf = 0                            # in the third cache our prefetches cost more than they save


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
