# The walk from results back to leaves. Iterative; gradients of nodes are kept in the nodes,
# those of leaves apart until everything has succeeded.

cdef int64_t g_run = 0
cdef dict g_active = {}                      # walks under way -> nothing; usually one
cdef bint g_anomaly = False


def set_anomaly(bint on):
    """Whether each gradient is looked at for NaN; returns the old setting."""
    global g_anomaly
    old = g_anomaly
    g_anomaly = on
    return old


cdef inline Node node_of(object target):
    if type(target) is Node:
        return <Node>target
    return (<Output>target).node


cdef int node_check(Node n) except -1:
    """n can go backward: its values are there and nobody wrote them."""
    cdef int k
    if n.freed:
        raise HOOKS.freed(n)
    for k in range(n.nval):
        if n.val[k].n != NULL and n.val[k].version != version_now(n.val[k].n):
            raise HOOKS.stale(n, kept_name(n, k), n.val[k].version, n.val[k].n.st.version, n.val[k].n.st.serial)
    if n.checks is not None:
        for s in n.checks:
            if s.current_version != s.version:
                raise HOOKS.stale(n, s.what, s.version, s.current_version, s.serial)
    return 0


cdef str kept_name(Node n, int k):
    if k == n.plan.npos:
        return "its result"
    return f"operand {n.plan.pos[k] + 1}"


def last_write(serial):
    """(op, site) of the last write to the storage of that number while it held saved values, or None."""
    return g_writes.get(serial)


def backward_one(Tensor x, retain_graph, create_graph):
    """backward() of one element with the gradient 1; False where the general way has to be taken."""
    cdef Tensor g
    if x.n.numel != 1 or x.n.dtype < TX_F16 or not tracked(x):
        return False
    g = wrap(leaf_empty(x.n.device, x.n.dtype, x.n.ndim, x.n.shape, "gradient"))
    fill_scalar(g.n, 1.0, "gradient")
    g.n.st.version = 0
    run_backward([target_of(x)], [g], bool(create_graph if retain_graph is None else retain_graph), bool(create_graph))
    return True


cdef int discover(list roots, list nodes, dict leaves, int64_t run) except -1:
    """All nodes and leaves below the roots; how many edges lead to each."""
    cdef list stack = []
    cdef Node n
    cdef Node c
    for t in roots:
        if t is None:
            continue
        if type(t) is Meta:
            leaves[t] = None
            continue
        c = node_of(t)
        if c.run != run:
            visit(c, run)
            stack.append(c)
    while stack:
        n = stack.pop()
        nodes.append(n)
        if n.freed:
            continue                         # an error, unless nothing that is wanted is beyond it
        for t in n.targets:
            if t is None:
                continue
            if type(t) is Node:
                c = <Node>t
            elif type(t) is Meta:
                leaves[t] = None
                continue
            else:
                c = (<Output>t).node
            if c.run != run:
                visit(c, run)
                stack.append(c)
            c.deps += 1
    return 0


cdef inline int visit(Node c, int64_t run) except -1:
    if c.run != 0 and len(g_active) > 1 and c.run in g_active:
        raise ThreadingError(f"backward: another backward pass is going through {c.name} at this moment; let one end before the other starts")
    c.run = run
    c.deps = 0
    c.acc = None
    c.needed = 2
    return 0


cdef int restrict(list nodes, dict leaves, dict wanted) except -1:
    """Marks what is to be run (2: something wanted lies below) or only caught (1), and counts
    the edges between these."""
    cdef Node n
    cdef Node c
    cdef Node first = None
    nodes.sort(key=node_seq)                 # what a node points to is older
    for n in nodes:
        n.needed = 1 if n in wanted else 0
        n.deps = 0
        if n.freed:
            if n.needed == 0:
                first = n
            continue
        for t in n.targets:
            if t is None:
                continue
            if t in wanted if type(t) is Meta else node_of(t).needed:
                n.needed = 2
                break
    for n in nodes:
        if n.needed == 2:
            for t in n.targets:
                if t is not None and type(t) is not Meta:
                    c = node_of(t)
                    if c.needed:
                        c.deps += 1
    if first is not None:
        for t in wanted:
            if t not in leaves if type(t) is Meta else (<Node>t).run != (<Node>nodes[0]).run:
                raise HOOKS.freed(first)     # it may lie beyond
    return 0


cdef object node_seq(Node n):
    return n.seq


def run_backward(list roots, list grads, bint retain, bint create, list captures=None):
    """Sends grads (tensors of the roots' shapes) from the roots (targets) backward.

    Without captures the gradients of leaves and of values that retain theirs are added to their
    ``grad``; with captures (targets) nothing is, and the gradients of these are returned, None
    where none arrives. Nothing changes if it fails before the first op is done.
    """
    global g_run
    cdef list nodes = []
    cdef dict leaves = {}
    cdef dict wanted = None
    cdef list kept = []
    cdef list ready
    cdef int64_t run
    cdef Node n
    cdef Node c
    cdef object token = None
    cdef object g, gs
    cdef int k
    g_run += 1
    run = g_run
    g_active[run] = None
    try:
        discover(roots, nodes, leaves, run)
        if captures is not None:
            wanted = {}
            for t in captures:
                if t is not None:
                    wanted[t if type(t) is Meta else node_of(t)] = None
            restrict(nodes, leaves, wanted)
        for n in nodes:
            if n.needed == 2:
                node_check(n)
        # without create_graph nothing that the compiled part computes with is tracked
        if create and not grad_on():
            token = GRAD_MODE.set(True)
        for k in range(len(roots)):
            deliver(roots[k], grads[k], leaves)
        ready = []
        for t in roots:
            if t is not None and type(t) is not Meta:
                c = node_of(t)
                if c.deps == 0 and c.needed:
                    c.deps = -1              # entered once
                    ready.append(c)
        while ready:
            n = ready.pop()
            g = n.acc
            n.acc = None
            if g is not None and (n.hooks is not None or n.keepers is not None):
                if not create and token is None and grad_on():
                    token = GRAD_MODE.set(False)
                g = watched(n, g, kept, captures is None)
            if wanted is not None and n in wanted:
                wanted[n] = g
            if n.needed != 2:
                continue
            if g is None:
                gs = None
            else:
                if n.plan is not None:
                    gs = run_ew(n, g, create)
                elif n.spread is not None:
                    gs = run_sum(n, g)
                else:
                    if not create and token is None and grad_on():
                        token = GRAD_MODE.set(False)
                    if n.rule is not None:
                        gs = run_rule(n, g, create)
                    else:
                        gs = n.fn(n, g)
                if g_anomaly:
                    HOOKS.anomaly(n, gs)
            g = None
            k = 0
            for t in n.targets:
                if t is not None:
                    g = None if gs is None else gs[k]
                    if type(t) is Meta:
                        if g is not None:
                            deliver(t, g, leaves)
                    else:
                        c = node_of(t)
                        if c.needed:
                            if g is not None:
                                deliver(t, g, leaves)
                            c.deps -= 1
                            if c.deps == 0:
                                ready.append(c)
                k += 1
            gs = None
            g = None
            if not retain and not n.lasting:
                n.release()
        if not create and token is None and has_hooks(leaves) and grad_on():
            token = GRAD_MODE.set(False)
        if captures is not None:
            return captured(captures, wanted, leaves)
        commit(leaves, kept, create)
        return None
    finally:
        if token is not None:
            GRAD_MODE.reset(token)
        for n in nodes:
            n.acc = None
        g_active.pop(run, None)


cdef int deliver(object t, object g, dict leaves) except -1:
    """Adds g to the gradient of a target."""
    cdef Node n
    cdef int i = 0
    cdef list several
    if t is None or g is None:
        return 0
    if type(t) is Meta:
        old = leaves.get(t)
        if old is None:
            leaves[t] = g
            return 0
        leaves[t] = None
        total = binop(OP_ADD, old, g)
        if (<Tensor>g).n.kind == TX_LEAF and (<Tensor>total).n.numel >= 16384:
            old = None
            g = None                         # (the caller's handle goes next)
            leaves[t] = total
            ensure((<Tensor>total).n)        # a weight used often: not all its gradients at once
        leaves[t] = total
        return 0
    if type(t) is Node:
        n = <Node>t
    else:
        n = (<Output>t).node
        i = (<Output>t).index
    if n.outputs == 1:
        n.acc = g if n.acc is None else binop(OP_ADD, n.acc, g)
        return 0
    if n.acc is None:
        n.acc = [None] * n.outputs
    several = n.acc
    several[i] = g if several[i] is None else binop(OP_ADD, several[i], g)
    return 0


cdef object run_ew(Node n, Tensor g, bint create):
    cdef RowGrad p = n.plan
    cdef int k
    cdef list values
    cdef Tensor t
    cdef tuple r
    if p.code == RUN_PASS:
        r = (g,) if p.nwanted == 1 else (g, g)
    elif p.code == RUN_SUBTRACT:
        if p.nwanted == 2:
            r = (g, unop(OP_NEG, g))
        else:
            r = (g,) if p.wanted[0] == 0 else (unop(OP_NEG, g),)
    elif p.code == RUN_NEGATE:
        r = (unop(OP_NEG, g),)
    elif p.code == RUN_MULTIPLY and p.nwanted == 1:
        r = (mulg(g, saved_operand(n, 0, create)),)
    else:
        values = [g]
        for k in range(p.npos):
            values.append(saved_operand(n, k, create))
        if p.out:
            t = node_value(n, p.npos)
            if create:
                give_history(t, n)
            values.append(t)
        try:
            r = p.fn(*values)
        except (ZeroDivisionError, OverflowError):
            # Python's own arithmetic on numbers alone, as 1 / y for x / 0.0: computed again as tensors compute it
            r = p.fn(*[v if isinstance(v, Tensor) else full_like_scalar((), v, g.dtype, g.n.device) for v in values])
    if n.likes is not None or p.code == RUN_FUNCTION:
        return fitted(n, g, r)
    return r


cdef object saved_operand(Node n, int k, bint create):
    cdef Tensor t
    if n.nums is not None and n.nums[k] is not None:
        return n.nums[k]
    t = node_value(n, k)
    if create and n.plan.target[k] >= 0:
        give_history(t, n.targets[n.plan.target[k]])
    return t


cdef object mulg(Tensor g, object f):
    """g times a factor of its derivative, 0 where g is 0 and the factor is not finite."""
    cdef double v
    if type(f) is float:
        v = f
        if v - v == 0:
            return binop(OP_MUL, g, f)
    elif type(f) is int or type(f) is bool:
        return binop(OP_MUL, g, f)
    return binop(OP_MULG, g, f)


def mulg_of(g, f):
    """The function MULG of gradient rows."""
    if isinstance(g, Tensor):
        return mulg(g, f)
    return g * f if not isinstance(f, Tensor) else binop(OP_MULG, g, f)


cdef object fitted(Node n, Tensor g, tuple r):
    """Gradients in the shapes and dtypes of the operands."""
    cdef list out = []
    cdef Tensor t
    cdef int k
    for k in range(len(r)):
        v = r[k]
        if v is None:
            out.append(None)
            continue
        if not isinstance(v, Tensor):
            v = binop(OP_ADD, binop(OP_MUL, g, 0.0), v)
        like = None if n.likes is None else n.likes[k]
        if like is not None:
            v = HOOKS.match(v, like[0], like[1])
        else:
            t = v
            if t.n.dtype != g.n.dtype or t.n.ndim != g.n.ndim or not tx_same_shape(t.n.ndim, t.n.shape, g.n.shape):
                v = HOOKS.match(v, shape_of(g.n), DTYPES[g.n.dtype])
        out.append(v)
    return out


cdef object run_sum(Node n, Tensor g):
    """The gradient of a sum: a view of g that repeats it."""
    cdef tuple shape = n.spread[1]
    cdef list kept
    cdef int k
    if g.n.ndim:
        kept = list(shape)
        for k in <tuple>n.spread[0]:
            kept[k] = 1
        g = reshape_view(g, tuple(kept))
    g = broadcast_view(g, shape)
    like = n.likes[0]
    return (g if DTYPES[g.n.dtype] is like[1] else HOOKS.match(g, shape, like[1]),)


cdef bint has_hooks(dict leaves) except -1:
    for m in leaves:
        if (<Meta>m).hooks is not None:
            return True
    return False


cdef object run_rule(Node n, object g, bint create):
    cdef dict values = {}
    cdef list out = []
    cdef Tensor t
    for key, v in (<dict>n.saved).items():
        values[key] = (<Saved>v).get(n, create) if type(v) is Saved else v
    grads = n.rule(g, values, n.wanted)
    for k, like in zip(n.wanted, n.likes):
        v = grads.get(k)
        if v is not None:
            t = v
            if shape_of(t.n) != like[0] or DTYPES[t.n.dtype] is not like[1]:
                v = HOOKS.match(v, like[0], like[1])
        out.append(v)
    return out


cdef object watched(Node n, object g, list kept, bint keep):
    """The gradient of a node's output after its hooks; remembers it for retain_grad."""
    cdef list several = g if n.outputs > 1 else [g]
    cdef int i
    for i in range(len(several)):
        if several[i] is None:
            continue
        if n.hooks is not None and i in n.hooks:
            several[i] = HOOKS.hooked(n.hooks[i], several[i])
        if keep and n.keepers is not None and i in n.keepers:
            kept.append((n.keepers[i], several[i]))
    return several if n.outputs > 1 else several[0]


# ---- results -------------------------------------------------------------------------------------------

cdef bint independent(tx_node *n) noexcept:
    """One handle holds the value, and nobody else its memory (pending readers do not count)."""
    cdef tx_node *l
    cdef int leaves = 0
    if n.handles != 1 or n.saves:
        return False
    if n.kind == TX_MOVE:
        return False
    if n.kind != TX_LEAF:
        return True
    if n.st.flags & (TX_ST_FOREIGN | TX_ST_READONLY) or tx_st_exports(n.st):
        return False
    l = n.st.leaves
    while l != NULL:
        leaves += 1
        if l != n and (l.handles or l.saves):
            return False
        l = l.leaf_next
    return tx_st_owners(n.st) == leaves


cdef Tensor own_dense(Tensor g, set seen):
    """g in memory of its own: dense, and nobody else's."""
    cdef Tensor r
    if g.n.kind == TX_MOVE:
        ensure(g.n)
    if id(g) not in seen and independent(g.n) and (g.n.kind != TX_LEAF or tx_is_c_dense(g.n.ndim, g.n.shape, g.n.strides)):
        seen.add(id(g))
        return g
    if tracked(g) and grad_on():
        return g.copy()
    r = wrap(leaf_empty(g.n.device, g.n.dtype, g.n.ndim, g.n.shape, "gradient"))
    if g.n.kind == TX_LEAF and g.n.numel <= 64 and g.n.device == 0 and not g.n.st.writing:
        copy_leaf_bytes(r.n, g.n)
    elif g.n.numel:
        node_write(r.n, g.n, "gradient")
        r.n.st.version = 0
    return r


cdef object leaf_fit(Meta m, Tensor g):
    """g in the shape, dtype and place that the leaf has now."""
    cdef tuple like = m.like
    if DTYPES[g.n.dtype] is not like[1] or shape_of(g.n) != like[0]:
        g = HOOKS.match(g, like[0], like[1])
    if g_devices[g.n.device] is not like[2]:
        g = g.to(like[2])
    return g


cdef object captured(list captures, dict wanted, dict leaves):
    cdef list out = []
    cdef set seen = set()
    for t in captures:
        if t is None:
            g = None
        elif type(t) is Meta:
            g = leaves.get(t)
            if g is not None:
                g = leaf_fit(t, g)
                if (<Meta>t).hooks is not None:
                    g = HOOKS.hooked((<Meta>t).hooks, g)
        else:
            g = wanted[node_of(t)]
            if g is not None and node_of(t).outputs > 1:
                g = g[0 if type(t) is Node else (<Output>t).index]
        out.append(g)
    leaves.clear()
    for t in wanted:
        wanted[t] = None
    g = None
    return [None if g is None else own_dense(g, seen) for g in out]


cdef int commit(dict leaves, list kept, bint create) except -1:
    """Adds the gradients to those that are there: everything that can fail is done before."""
    cdef list found = []
    cdef set seen = set()
    cdef Meta m
    cdef Tensor g
    cdef Tensor old
    cdef PyObject *a[2]
    for m, v in leaves.items():
        if v is not None:
            v = leaf_fit(m, v)
            if m.hooks is not None:
                v = HOOKS.hooked(m.hooks, v)
            found.append((m, v))
    leaves.clear()
    found.extend(kept)
    kept.clear()
    v = None
    for k in range(len(found)):
        m, v = found[k]
        found[k] = None
        g = v
        v = None
        g = own_dense(g, seen)
        found[k] = (m, g)
    g = None
    for m, v in found:
        ensure((<Tensor>v).n)
        g = own_dense(v, seen) if not tx_is_c_dense((<Tensor>v).n.ndim, (<Tensor>v).n.shape, (<Tensor>v).n.strides) else v
        if m.grad is not None:
            old = m.grad
            ensure(old.n)
            if not tracked(old):
                check_writable(old.n, "backward")
    for m, v in found:
        g = v
        if m.grad is None:
            m.grad = g
            continue
        old = m.grad
        if (tracked(g) or tracked(old) or old.n.dtype != g.n.dtype or old.n.device != g.n.device
                or not tx_same_shape(g.n.ndim, g.n.shape, old.n.shape)):
            m.grad = binop(OP_ADD, old, g)
        else:
            a[0] = <PyObject *>old
            a[1] = <PyObject *>g
            run_inplace(OP_ADD, old, 2, a)
    drain()
    return 0
