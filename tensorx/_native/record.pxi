# Recording: who is tracked, views, rows of the op table, rules.

# ---- who is tracked -------------------------------------------------------------------------------------

cdef inline bint tracked(Tensor x) except -1:
    """Whether gradients flow to x."""
    if x.meta is None and not (x.rg or (x.n.kind == TX_LEAF and x.n.st.history != NULL)):
        return False
    return linked(x) and alive(x.meta)


cdef inline bint alive(object meta) noexcept:
    """Whether the history of a linked tensor leads anywhere: not after constants were written over it."""
    if meta is None or (<Meta>meta).leaf:
        return True
    if (<Meta>meta).base is None:
        return (<Meta>meta).node is not None
    return (<Meta>meta).base.leaf or (<Meta>meta).base.node is not None


cdef bint linked(Tensor x) except -1:
    """Whether x belongs to a history. A handle whose storage got one through another handle
    learns of it here."""
    if x.rg:
        return True
    if x.meta is None:
        if x.n.kind != TX_LEAF or x.n.st.history == NULL:
            return False
        return adopt(x, <Meta>x.n.st.history)
    if (<Meta>x.meta).live:
        return adopt(x, x.meta)
    return False


cdef bint adopt(Tensor x, Meta history) except -1:
    """x becomes a view of its storage, whose history is known."""
    cdef Meta m
    if x.n.kind != TX_LEAF or DTYPES[x.n.dtype] is not history.like[1]:
        return False
    m = Meta.__new__(Meta)
    m.base = history
    m.chain = (("strided", (shape_of(x.n), strides_of(x.n), x.n.offset), history.like[0], None, -1),)
    m.seen = -1
    x.meta = m
    x.rg = True
    return True


def is_linked(Tensor x):
    """Whether x belongs to a history, be it one that leads nowhere now."""
    return linked(x)


def history_of(Tensor x):
    """The Meta that x's storage or the family of detached handles it belongs to has, made where
    there is none: from now on all of them are tracked."""
    cdef Meta m = x.meta
    ensure(x.n)
    if m is not None and not m.leaf:
        if m.live:
            return m
    elif x.n.st.history != NULL:
        return <Meta>x.n.st.history
    else:
        m = Meta.__new__(Meta)
        Py_INCREF(m)
        x.n.st.history = <void *>m
    m.live = True
    m.like = ((x.n.st.nbytes // tx_item_size[x.n.dtype],), DTYPES[x.n.dtype], g_devices[x.n.device])
    return m


def sole_handle(Tensor x):
    """Whether x is the only handle on its storage (values kept for backward do not count)."""
    cdef tx_node *l
    ensure(x.n)
    if x.n.handles != 1:
        return False
    l = x.n.st.leaves
    while l != NULL:
        if l != x.n and l.handles:
            return False
        l = l.leaf_next
    return True


cdef Meta leaf_meta(Tensor x):
    cdef Meta m = Meta.__new__(Meta)
    m.leaf = True
    m.like = (shape_of(x.n), DTYPES[x.n.dtype], g_devices[x.n.device])
    m.handle = PyWeakref_NewRef(x, None)
    x.meta = m
    return m


def new_leaf(Tensor x):
    """x becomes a leaf with a gradient of its own, whatever it was."""
    return leaf_meta(x)


cdef object g_named = None                   # the tensor whose gradient saver_text speaks of

cdef str saver_text(tx_node *q):
    """Which op keeps a value, and for the gradient of what: for explanations of allocations."""
    cdef tx_save *v = q.saved
    cdef Node n
    cdef int k
    global g_named
    g_named = None
    while v != NULL and v.owner == NULL:
        v = v.next
    if v == NULL:
        return "saved for a gradient"
    owner = <object>v.owner
    if type(owner) is not Node:
        return f"saved by {(<Saved>owner).by or 'a function'} for a gradient"
    n = owner
    k = n.plan.wanted[0]
    if n.plan.nwanted > 1 and v != &n.val[n.plan.npos]:
        for k in range(n.plan.nwanted):      # one whose gradient is not that of the value itself
            if n.plan.wanted[k] != n.plan.pos[v - &n.val[0]]:
                k = n.plan.wanted[k]
                break
    for i in range(n.plan.nwanted):
        if n.plan.wanted[i] == k and n.targets is not None and type(n.targets[i]) is Meta:
            t = (<Meta>n.targets[i]).handle
            g_named = None if t is None else t()
    return f"saved by {n.name} for the gradient of operand {k + 1}"


cdef object target_of(Tensor x):
    """Where gradients of x's present value go."""
    cdef Meta m = x.meta
    if m is None:
        return leaf_meta(x)
    if m.base is not None:
        return view_target(m)
    if m.leaf:
        return m
    if m.index:
        return Output(m.node, m.index)
    return m.node


cdef object meta_target(Meta m):
    if m.base is not None:
        return view_target(m)
    if m.leaf:
        return m
    if m.index:
        return Output(m.node, m.index)
    return m.node


cdef object view_target(Meta m):
    """A view's node, derived anew after its base was written. That of a view of a leaf lasts,
    so that it can go backward as often as the leaf."""
    cdef Meta base = m.base
    cdef object t
    cdef Node n
    if m.node is not None and m.seen == base.gen:
        return m.node
    t = meta_target(base)
    m.seen = base.gen
    m.node = None
    if t is None:
        return None
    for step in <tuple>m.chain:
        n = Node.__new__(Node)
        n.name = step[0]
        n.targets = (t,)
        n.outputs = 1
        n.fn = HOOKS.undo_view
        n.saved = step
        n.code = step[3]
        n.lasti = step[4]
        n.lasting = base.leaf
        n.seq = next_seq()
        t = n
    m.node = t
    if m.retain:
        n.keepers = {0: m}
    return t


def edge(Tensor x):
    """Where gradients of x's present value go: a Node, an Output, a leaf's Meta, or None."""
    return target_of(x) if tracked(x) else None


cdef void give_history(Tensor t, object target):
    """t requires grad, and its gradient goes to target."""
    cdef Meta m
    if target is None:
        return
    t.rg = True
    if type(target) is Meta:
        t.meta = target
        return
    m = Meta.__new__(Meta)
    if type(target) is Node:
        m.node = target
    else:
        m.node = (<Output>target).node
        m.index = (<Output>target).index
    t.meta = m


def attach(Tensor t, target):
    """Gives t the history that ends in target (Node, Output or a leaf's Meta)."""
    give_history(t, target)


cdef int view_made(Tensor x, Tensor r, str name, object args) except -1:
    """r is a new view of x."""
    if linked(x):
        if grad_on():
            record_view(x, r, name, args)
        else:
            r.meta = Meta.__new__(Meta)      # outside x's history
    elif x.meta is not None and not (<Meta>x.meta).leaf:
        r.meta = x.meta
    return 0


cdef inline int view_of(Tensor x, Tensor r, str name, object args) except -1:
    if x.rg or x.meta is not None or (x.n.kind == TX_LEAF and x.n.st.history != NULL):
        view_made(x, r, name, args)
    return 0


cdef object plain_index(object index):
    """An index whose tensors have become ints: they may be written later."""
    if type(index) is tuple:
        for it in <tuple>index:
            if not (type(it) is int or type(it) is slice or it is None or it is Ellipsis):
                return tuple([plain_index(i) for i in <tuple>index])
        return index
    if type(index) is int or type(index) is slice or index is None or index is Ellipsis:
        return index
    return index.__index__()


cdef int record_view(Tensor x, Tensor r, str name, object args) except -1:
    cdef Meta m = x.meta
    cdef Meta v
    cdef int lasti
    if m is None:
        m = leaf_meta(x)
    if name == "alias":
        r.meta = m
        r.rg = True
        return 0
    if name == "getitem":
        args = plain_index(args)
    v = Meta.__new__(Meta)
    code = user_code(&lasti)
    step = ((name, args, shape_of(x.n), code, lasti),)
    if m.base is None:
        v.base = m
        v.chain = step
    else:
        v.base = m.base
        v.chain = <tuple>m.chain + step
    v.seen = -1
    r.meta = v
    r.rg = True
    return 0


def view_hook(Tensor x, Tensor r, str name, args):
    """For views made in Python: r is a view of x."""
    view_made(x, r, name, args)


# ---- recording ---------------------------------------------------------------------------------------------

cdef int record_ew(int op, int nin, PyObject **args, Tensor out) except -1:
    """Some operand is tracked and the grad mode is on: out's history."""
    cdef int dt = out.n.dtype
    cdef unsigned mask = 0
    cdef int k
    cdef bint cplx
    cdef bint differ = False
    cdef Tensor a
    cdef RowGrad p
    cdef Node n
    cdef Meta m
    cdef list nums = None
    if dt < TX_F16:
        return 0
    cplx = dt >= TX_C64
    for k in range(nin):
        if Py_TYPE(<object>args[k]) == <PyTypeObject *>Tensor:
            a = <Tensor>args[k]
            if a.n.dtype >= TX_C64:
                cplx = True
            if OP_DIFF[op] >> k & 1 and tracked(a):
                mask |= <unsigned>1 << k
    if mask == 0:
        return 0
    p = row_grad(op, mask, cplx)
    n = Node.__new__(Node)
    n.name = p.name
    n.plan = p
    n.outputs = 1
    if p.nwanted == 1:
        n.targets = (target_of(<Tensor>args[p.wanted[0]]),)
    elif p.nwanted == 2:
        n.targets = (target_of(<Tensor>args[p.wanted[0]]), target_of(<Tensor>args[p.wanted[1]]))
    else:
        n.targets = tuple([target_of(<Tensor>args[p.wanted[k]]) for k in range(p.nwanted)])
    n.seq = next_seq()                            # after those of views derived just now
    n.code = user_code(&n.lasti)
    for k in range(p.nwanted):
        a = <Tensor>args[p.wanted[k]]
        if a.n.dtype != dt or a.n.ndim != out.n.ndim or not tx_same_shape(a.n.ndim, a.n.shape, out.n.shape):
            differ = True
    if differ:
        n.likes = tuple([like_of(<Tensor>args[p.wanted[k]], out) for k in range(p.nwanted)])
    for k in range(p.npos):
        if Py_TYPE(<object>args[p.pos[k]]) == <PyTypeObject *>Tensor:
            node_keep(n, k, <Tensor>args[p.pos[k]])
        else:
            if nums is None:
                nums = [None] * p.npos
            nums[k] = <object>args[p.pos[k]]
    n.nval = p.npos
    if nums is not None:
        n.nums = tuple(nums)
    if p.out:
        node_keep(n, p.npos, out)
        n.nval = p.npos + 1
    m = Meta.__new__(Meta)
    m.node = n
    out.meta = m
    out.rg = True
    return 0


cdef object like_of(Tensor a, Tensor out):
    if a.n.dtype == out.n.dtype and a.n.ndim == out.n.ndim and tx_same_shape(a.n.ndim, a.n.shape, out.n.shape):
        return None
    return (shape_of(a.n), DTYPES[a.n.dtype])


cdef int node_keep(Node n, int k, Tensor t) except -1:
    if g_packing:
        hooks = PACK_HOOKS.get()
        if hooks is not None:
            if n.packed is None:
                n.packed = [None] * 5
                n.unpacker = hooks[1]
            n.packed[k] = (hooks[0](wrap_extra(t.n)),)
            return 0
    save_value(&n.val[k], t.n, <void *>n)
    n.nval = k + 1
    return 0


cdef Tensor node_value(Node n, int k):
    if n.packed is not None and n.packed[k] is not None:
        return n.unpacker(n.packed[k][0])
    return wrap_extra(n.val[k].n)


def record_rows(int op, tuple inputs, Tensor out):
    """record_ew for Python: out is the result of row op on inputs."""
    cdef PyObject *a[4]
    cdef int k
    for k in range(len(inputs)):
        a[k] = PyTuple_GET_ITEM(inputs, k)
    record_ew(op, len(inputs), a, out)


cdef dict g_rules = {}
rules = g_rules                              # name -> (prepare, backward), see autograd/rules.py


cdef Node make_sum_node(Tensor x, dict saved):
    """The commonest rule, without Python: the gradient is repeated over the axes that were summed."""
    cdef Node n = Node.__new__(Node)
    n.name = "sum"
    n.outputs = 1
    n.targets = (target_of(x),)
    n.spread = (saved["axes"], shape_of(x.n))
    n.likes = ((n.spread[1], DTYPES[x.n.dtype]),)
    n.seq = next_seq()
    n.code = user_code(&n.lasti)
    return n


cdef Node make_rule_node(str name, object rule, tuple inputs, list w, object out, dict saved):
    cdef Node n = Node.__new__(Node)
    cdef list checks = None
    n.name = name
    n.outputs = len(<tuple>out) if type(out) is tuple else 1
    n.wanted = tuple(w)
    n.targets = tuple([target_of(<Tensor>inputs[i]) for i in w])
    n.likes = tuple([(shape_of((<Tensor>inputs[i]).n), DTYPES[(<Tensor>inputs[i]).n.dtype]) for i in w])
    n.seq = next_seq()
    n.code = user_code(&n.lasti)
    n.rule = rule[1]
    n.saved = rule[0](n, inputs, out, saved, n.wanted)
    for v in (<dict>n.saved).values():
        if type(v) is Saved:
            if checks is None:
                checks = []
            checks.append(v)
            (<Saved>v).by = name
    if checks is not None:
        n.checks = tuple(checks)
    return n


def recording(inputs):
    """Whether an op on these inputs (tensors, numbers or None) is recorded."""
    for x in inputs:
        if isinstance(x, Tensor) and tracked(<Tensor>x):
            return grad_on()
    return False


cdef object rule_of(str name):
    rule = g_rules.get(name)
    if rule is None:
        raise GradientError(f"{name}: has no gradient; call it on x.detach() where none is wanted")
    return rule


def record_rule(str name, tuple inputs, out, dict saved):
    """out (a tensor or tuple of them) with the history of op name on inputs; the grad mode is on."""
    cdef tuple outs = out if type(out) is tuple else (out,)
    cdef list w = []
    cdef Tensor t
    cdef Node n
    cdef int k
    cdef bint real = False
    for o in outs:
        if (<Tensor>o).n.dtype >= TX_F16:
            real = True
    if not real:
        return out
    for k in range(len(inputs)):
        o = inputs[k]
        if isinstance(o, Tensor) and tracked(o):
            w.append(k)
    if not w:
        return out
    if name == "sum":
        give_history(out, make_sum_node(inputs[0], saved))
        return out
    n = make_rule_node(name, rule_of(name), inputs, w, out, saved)
    k = 0
    for o in outs:
        t = o
        if t.n.dtype >= TX_F16:
            give_history(t, n if k == 0 else Output(n, k))
        k += 1
    return out


def rule_node(str name, str rule, tuple inputs, out, dict saved):
    """The node of an op that is called name and has the gradients of a rule; for writes in place."""
    cdef list w = []
    cdef int k
    for k in range(len(inputs)):
        o = inputs[k]
        if isinstance(o, Tensor) and tracked(o):
            w.append(k)
    return make_rule_node(name, rule_of(rule), inputs, w, out, saved)


def meta_edge(Meta m):
    """Where gradients of the present value of a Meta go."""
    return meta_target(m)
