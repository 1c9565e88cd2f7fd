# What tensorx.memory explains: the recorder of allocations, and the queries that find out who
# holds a storage. Recording runs inside evaluations, so it is compiled and calls no Python code.

cdef class Token:
    """One block of memory: where it came from, when it went."""
    cdef readonly object owner               # the recorder
    cdef readonly int64_t nbytes
    cdef readonly int device
    cdef readonly str op
    cdef readonly object site                # (code, instruction) or None
    cdef public str reason                   # why nothing could be reused
    cdef readonly double born, died          # seconds since the recorder began; died < 0: alive
    cdef readonly int64_t first, last        # numbers of the events
    cdef readonly list reused                # [(event, op, site)]: later values in the same memory
    cdef readonly uint64_t serial            # of the storage, now


cdef class Recorder:
    """Collects a Token per allocation. Event numbers order allocations, releases and reuses."""
    cdef readonly list blocks
    cdef readonly list others                # releases of blocks from before: (event, seconds, bytes, device)
    cdef readonly list reuses                # reuses of blocks from before: (event, op, site, bytes)
    cdef readonly int64_t events, dropped
    cdef readonly double began
    cdef list blamed
    cdef public object name                  # (token, serial of the storage that was held) -> None
    cdef public int64_t limit                # blocks kept; later ones are counted in dropped
    cdef dict sites
    cdef object __weakref__

    def __init__(self, int64_t limit=1000000):
        self.blocks = []
        self.others = []
        self.reuses = []
        self.blamed = []
        self.sites = {}
        self.limit = limit
        self.began = tx_seconds()

    cdef object site(self):
        """Where tensorx was called: one object per place."""
        cdef int lasti
        code = user_code(&lasti)
        if code is None:
            return None
        key = (<Py_ssize_t><void *>code, lasti)
        found = self.sites.get(key)
        if found is None:
            found = (code, lasti)
            self.sites[key] = found
        return found

    cdef Token on_alloc(self, tx_storage *s, str op, object site, str reason):
        cdef Token t = Token.__new__(Token)
        t.owner = self
        t.nbytes = <int64_t>s.nbytes
        t.device = s.device
        t.op = op
        t.site = site
        t.reason = reason
        t.born = tx_seconds() - self.began
        t.died = -1
        t.first = self.events
        t.last = -1
        t.serial = s.serial
        self.events += 1
        if len(self.blocks) < self.limit:
            self.blocks.append(t)
        else:
            self.dropped += 1
        if s.site != NULL:
            Py_DECREF(<object>s.site)
        Py_INCREF(t)
        s.site = <void *>t
        return t

    cdef int on_reuse(self, tx_storage *s, str op, object site) except -1:
        cdef Token t
        if s.site != NULL:
            t = <Token>s.site
            if t.owner is self:
                if t.reused is None:
                    t.reused = []
                if len(t.reused) < 1000:
                    t.reused.append((self.events, op, site))
                self.events += 1
                return 0
        if len(self.reuses) < self.limit:
            self.reuses.append((self.events, op, site, <int64_t>s.nbytes))
        self.events += 1
        return 0

    cdef void on_free(self, tx_storage *s, Token t) noexcept:
        if t is not None:
            t.died = tx_seconds() - self.began
            t.last = self.events
        elif s.flags & TX_ST_FOREIGN or len(self.others) >= self.limit:
            return
        else:
            self.others.append((self.events, tx_seconds() - self.began, <int64_t>s.nbytes, s.device))
        self.events += 1

    def finish(self):
        """Releases that are due are counted, and names that are due looked up, now."""
        drain()
        record_names()


# ---- who holds a storage ------------------------------------------------------------------------------

def storage_token(Tensor x):
    """The recorder's Token of x's storage, or None."""
    if x.n.kind != TX_LEAF or x.n.st.site == NULL:
        return None
    return <object>x.n.st.site


def serial_of(Tensor x):
    """The number of x's storage, or None where x is pending; evaluates nothing."""
    return x.n.st.serial if x.n.kind == TX_LEAF else None


def storage_facts(Tensor x):
    """What keeps x's storage besides handles: a dictionary."""
    cdef tx_node *l
    cdef tx_edge *e
    cdef tx_save *v
    ensure(x.n)
    cdef tx_storage *s = x.n.st
    handles = 0
    saved = []
    pending = []
    l = s.leaves
    while l != NULL:
        handles += l.handles
        if l.saves:
            v = l.saved
            while v != NULL:
                saved.append(save_text(v))
                v = v.next
        e = l.consumers
        while e != NULL:
            pending.append((op_name(e.owner.kind, e.owner.op), None if e.owner.site == NULL else <object>e.owner.site))
            e = e.next
        l = l.leaf_next
    body = None
    for i in range(g_nmarks):
        if g_marks[i].s == s and g_marks[i].body > 0:
            body = g_bodies.get(g_marks[i].body)
    return {"serial": s.serial, "nbytes": s.nbytes, "handles": handles, "saved": saved, "pending": pending,
            "exports": tx_st_exports(s), "foreign": bool(s.flags & TX_ST_FOREIGN), "owners": tx_st_owners(s), "body": body}


cdef object save_text(tx_save *v):
    """(name of the op that keeps the value, its site)"""
    if v.owner == NULL:
        return ("a function", None)
    owner = <object>v.owner
    if type(owner) is Node:
        return ((<Node>owner).name, (<Node>owner).site)
    return ((<Saved>owner).by or "a function", None)


cdef list kept_entry(tx_node *q, list out):
    if q != NULL and q.kind == TX_LEAF:
        out.append((q.st.serial, <int64_t>q.st.nbytes, q.st.device, None if q.st.site == NULL else <object>q.st.site,
                    bool(q.st.flags & TX_ST_FOREIGN)))
    return out


def kept_by(o):
    """Storages that a tensor, or an object of the record of gradients, keeps: [(serial, bytes, device, token, foreign)];
    values that are not computed are left out."""
    cdef list out = []
    cdef int k
    if type(o) is Node:
        for k in range((<Node>o).nval):
            kept_entry((<Node>o).val[k].n, out)
    elif type(o) is Saved:
        kept_entry((<Saved>o).v.n, out)
    elif type(o) is Tensor:
        kept_entry((<Tensor>o).n, out)
    return out


cdef tuple kept_value(tx_node *q, str what):
    """(what, shape, dtype, bytes, whether it is computed, number that is equal for equal values)"""
    return (what, shape_of(q), DTYPES[q.dtype].name, q.numel * tx_item_size[q.dtype], q.kind == TX_LEAF,
            q.st.serial if q.kind == TX_LEAF else <uintptr_t>q)


def node_facts(Node n):
    """What a node of the record keeps, the shapes and dtypes of its operands (None: as the result's), whether it is elementwise."""
    cdef int k
    out = []
    for k in range(n.nval):
        if n.val[k].n == NULL:
            continue
        what = "result"
        if n.plan is not None and k < n.plan.npos:
            what = f"operand {n.plan.pos[k] + 1}"
        out.append(kept_value(n.val[k].n, what))
    return out, n.likes, n.plan is not None


def saved_facts(Saved s):
    """The same of a value that a rule or Function keeps, or None."""
    return None if s.v.n == NULL else kept_value(s.v.n, s.what or "a value")


def device_number_name(int number):
    """Name of the device of that number."""
    d = g_devices[number]
    return "cpu" if d is None else d.name
