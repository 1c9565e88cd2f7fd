# Programs of other devices: the same plan, handed to the backend as a description.

cdef int device_program(Plan *P) except -1:
    cdef int rc, i
    plan_mark_outputs(P)
    plan_last_reads(P)
    P.rawhalf = False
    plan_domain(P, NULL, 0, -1)
    rc = plan_outputs(P, P.root.device)
    if rc != DONE:
        return rc
    if g_recording:
        record_program(P)
    try:
        g_backends[P.root.device].run_program(describe(P))
    except:
        plan_undo_outputs(P)
        raise
    plan_commit(P)
    return DONE


cdef object describe(Plan *P):
    """The program as plain Python data, for a device backend.

    dims: sizes of the loop, outermost first. inputs: (dtype code, storage handle, byte offset,
    strides in elements per dim; all zero: one element for all). nodes: (kind, op, dtype code,
    operand dtype code, operands), an operand being ("in", k), ("node", k) or ("const", number).
    outputs: (node, storage handle, byte offset, strides in elements).
    """
    cdef tx_prog *g = &P.prog
    cdef tx_node *n
    cdef tx_node *q
    cdef int i, k, d, isz
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
        inputs.append((q.dtype, <uintptr_t>q.st.handle, q.offset * isz, st))
    nodes = []
    for i in range(P.norder):
        n = P.order[i]
        ops = []
        for k in range(n.nin):
            q = n.inp[k]
            if q == NULL:
                ops.append(("const", scalar_value(&n.sc[k], n.odtype)))
            elif q.kind == TX_LEAF:
                ops.append(("in", q.idx))
            else:
                ops.append(("node", q.idx))
        nodes.append((n.kind, n.op, n.dtype, n.odtype, tuple(ops)))
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
        if P.dst != NULL and n == P.root:
            outputs.append((i, <uintptr_t>P.dst.st.handle, P.dst.offset * isz, st))
        else:
            outputs.append((i, <uintptr_t>P.ost[i].handle, 0, st))
    return {"dims": dims, "numel": g.numel, "inputs": inputs, "nodes": nodes, "outputs": outputs}


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


cdef object device_reduce(int red, Tensor x, tuple axes, bint keepdims):
    ensure(x.n)
    return g_backends[x.n.device].reduce(red, x, axes, keepdims)


def device_handle(Tensor x):
    """(storage handle, byte offset) of a tensor on a device with buffers of its own."""
    ensure(x.n)
    return <uintptr_t>x.n.st.handle, x.n.offset * tx_item_size[x.n.dtype]
