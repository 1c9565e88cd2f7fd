# Autograd's record: which op made a value, what its gradient needs, where gradients go.
#
# A tensor that requires grad has a Meta; a leaf's Meta is where its gradient ends, any other
# names the Node that computed the value. Nodes hold values, never handles, so that the death
# of a handle is seen by the engine. Views and writes are recorded in tensorx/autograd/tape.py;
# backward.pxi walks the record.

cdef class Tensor                            # below, in tensor.pxi

cdef extern from *:
    """
    #include <frameobject.h>
    #if PY_VERSION_HEX < 0x030B0000
    #define tx_frame_lasti(f) ((f)->f_lasti * 2)
    #else
    #define tx_frame_lasti(f) PyFrame_GetLasti(f)
    #endif
    """
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject:
        PyObject *co_filename
    PyFrameObject *PyEval_GetFrame()
    PyFrameObject *PyFrame_GetBack(PyFrameObject *)
    PyCodeObject *PyFrame_GetCode(PyFrameObject *)
    int tx_frame_lasti(PyFrameObject *)
    Py_ssize_t PyUnicode_Tailmatch(object, object, Py_ssize_t, Py_ssize_t, int) except -1


# ---- lines of the caller --------------------------------------------------------------------

import os.path as _path
cdef str OWN_FOLDER = _path.dirname(sys_modules["tensorx.errors"].__file__) + _path.sep
cdef object g_user_code = None               # code seen last, that is not tensorx's


cdef object user_code(int *lasti):
    """The code that called tensorx and the instruction it is at; resolved to a line only when
    somebody asks."""
    global g_user_code
    cdef PyFrameObject *f = PyEval_GetFrame()
    cdef PyFrameObject *up
    cdef object code
    lasti[0] = -1
    if f == NULL:
        return None
    Py_INCREF(<object>f)
    while f != NULL:
        code = <object>PyFrame_GetCode(f)
        Py_DECREF(code)                      # code holds the one that GetCode gave
        if code is g_user_code or not PyUnicode_Tailmatch(<object>(<PyCodeObject *><void *>code).co_filename, OWN_FOLDER, 0, 1 << 30, -1):
            lasti[0] = tx_frame_lasti(f)
            g_user_code = code
            Py_DECREF(<object>f)
            return code
        up = PyFrame_GetBack(f)
        Py_DECREF(<object>f)
        f = up
    return None


def call_site():
    """(code, instruction) of the first frame outside tensorx, or None."""
    cdef int lasti
    code = user_code(&lasti)
    return None if code is None else (code, lasti)


# ---- values kept for backward ------------------------------------------------------------------

cdef inline void save_link(tx_save *v, tx_node *n) noexcept:
    v.n = n
    n.refs += 1
    n.saves += 1
    v.version = 0 if n.kind != TX_LEAF else n.st.version
    v.next = n.saved
    v.pprev = &n.saved
    if v.next != NULL:
        v.next.pprev = &v.next
    n.saved = v


cdef int save_value(tx_save *v, tx_node *n, void *owner) except -1:
    """Keeps n's value; where others can write its memory, a copy of it."""
    cdef tx_node *c
    v.owner = owner
    if leaf_is_shared_outside(n):
        c = node_copy(n, "saved for a gradient: others can write the memory")
        save_link(v, c)
        node_unref(c)
    else:
        save_link(v, n)
    return 0


cdef void save_drop(tx_save *v) noexcept:
    cdef tx_node *n = v.n
    cdef tx_storage *s
    v.n = NULL
    v.pprev[0] = v.next
    if v.next != NULL:
        v.next.pprev = v.pprev
    n.saves -= 1
    if n.kind == TX_LEAF and n.handles == 0 and n.saves == 0 and n.refs > 1:
        s = n.st
        node_unref(n)
        check_kept(s)
        return
    node_unref(n)


cdef inline uint64_t version_now(tx_node *n) noexcept:
    return 0 if n.kind != TX_LEAF else n.st.version


cdef bint keeps_saved(tx_storage *s) noexcept:
    """Whether backward needs a value on this storage."""
    cdef tx_node *l = s.leaves
    while l != NULL:
        if l.saves:
            return True
        l = l.leaf_next
    return False


cdef int saved_apart(tx_storage *s) except -1:
    """Somebody outside is about to be able to write s: backward keeps copies of its values."""
    cdef tx_node *l
    cdef tx_node *c
    cdef tx_save *v
    cdef tx_save *after
    cdef bint again = True
    while again:
        again = False
        l = s.leaves
        while l != NULL:
            v = l.saved
            while v != NULL and v.version != s.version:
                v = v.next                   # written before: an error for backward
            if v != NULL:
                l.refs += 1
                try:
                    c = node_copy(l, "saved for a gradient: the memory is given to others")
                except:
                    node_unref(l)
                    raise
                v = l.saved
                while v != NULL:
                    after = v.next
                    if v.version == s.version:
                        save_drop(v)
                        save_link(v, c)
                    v = after
                node_unref(c)
                node_unref(l)
                again = True
                break
            l = l.leaf_next
    return 0


cdef dict g_writes = {}                      # storage serial -> (op, site)

cdef int note_write(tx_storage *s, str op) except -1:
    """Remembers who wrote a storage with saved values, for the error of backward."""
    if keeps_saved(s):
        if len(g_writes) > 10000:
            g_writes.clear()
        g_writes[s.serial] = (op, call_site())
    return 0


# Nodes that died take their edges along one after the other: a chain of any length is freed
# in constant stack.
cdef list g_buried = []
cdef bint g_burying = False


cdef void bury() noexcept:
    global g_burying
    if g_burying:
        return
    g_burying = True
    while g_buried:
        g_buried.pop()
    g_burying = False


cdef class Node


@cython.final
cdef class RowGrad:
    """The gradient of a row for one choice of wanted operands."""
    cdef object fn                           # (g, saved operands..., result) -> tuple
    cdef str name
    cdef int code, nwanted, npos
    cdef int wanted[4]
    cdef int pos[4]                          # operands that are saved
    cdef int target[4]                       # their places among the wanted, or -1
    cdef bint out                            # the result is saved

    def __init__(self, str name, tuple wanted, tuple pos, bint out, fn, int code):
        cdef int k
        self.name = name
        self.fn = fn
        self.code = code
        self.out = out
        self.nwanted = len(wanted)
        self.npos = len(pos)
        for k in range(self.nwanted):
            self.wanted[k] = wanted[k]
        for k in range(self.npos):
            self.pos[k] = pos[k]
            self.target[k] = wanted.index(pos[k]) if pos[k] in wanted else -1


@cython.final
cdef class Saved:
    """A value kept for backward: an owner of its own, with the version it was saved at."""
    cdef tx_save v
    cdef object target                       # where its gradient goes
    cdef int own                             # -1, or it is this output of the node that keeps it
    cdef public str what
    cdef str by                              # name of the op that keeps it
    cdef object packed, unpacker
    cdef object __weakref__

    def __dealloc__(self):
        if self.v.n != NULL:
            save_drop(&self.v)
        if self.target is not None or self.packed is not None:
            g_buried.append(self.target)
            g_buried.append(self.packed)
            self.target = None
            self.packed = None
            bury()

    @property
    def version(self):
        """Version of the storage when the value was saved."""
        return self.v.version

    @property
    def current_version(self):
        """Version of the storage now."""
        return version_now(self.v.n) if self.v.n != NULL else self.v.version

    @property
    def serial(self):
        """Serial number of the storage, 0 while the value is pending."""
        return self.v.n.st.serial if self.v.n != NULL and self.v.n.kind == TX_LEAF else 0

    def unpack(self):
        """A fresh handle on the value, without history."""
        if self.unpacker is not None:
            return self.unpacker(self.packed)
        return wrap_extra(self.v.n)

    def get(self, Node node, bint create):
        """The value for the backward of node; with its history where create is true."""
        cdef Tensor t = self.unpack()
        if create:
            if self.own >= 0:
                give_history(t, node if self.own == 0 else Output(node, self.own))
            elif self.target is not None:
                give_history(t, self.target)
        return t

    def key(self):
        """Identifies the value: equal to node_key of its handles."""
        return <uintptr_t>self.v.n


cdef Saved saved_new(Tensor x, str what):
    cdef Saved s = Saved.__new__(Saved)
    s.own = -1
    s.what = what
    if g_packing:
        hooks = PACK_HOOKS.get()
        if hooks is not None:
            s.packed = hooks[0](wrap_extra(x.n))
            s.unpacker = hooks[1]
            return s
    save_value(&s.v, x.n, <void *>s)
    return s


def save(Tensor x, str what="a value"):
    """Keeps x's value with its history; the handle may die."""
    cdef Saved s = saved_new(x, what)
    if tracked(x):
        s.target = target_of(x)
    return s


def save_out(Tensor x, int index=0):
    """Keeps the value of an output of the node that keeps it."""
    cdef Saved s = saved_new(x, "its result")
    s.own = index
    return s


_pack_hooks = contextvars.ContextVar("tensorx.saved_value_hooks", default=None)
cdef object PACK_HOOKS = _pack_hooks
cdef int g_packing = 0


def packing(int by):
    """Counts the blocks with saved-value hooks."""
    global g_packing
    g_packing += by


# ---- metas and nodes --------------------------------------------------------------------------------

@cython.final
cdef class Output:
    """Output number index of a node with several."""
    cdef readonly Node node
    cdef readonly int index

    def __init__(self, Node node, int index):
        self.node = node
        self.index = index


@cython.final
@cython.freelist(256)
cdef class Meta:
    """What autograd knows of a tensor; handles that are aliases share it.

    leaf: its gradient ends here, in grad. Else node and index say what computed the value.
    base and chain: it is a view of the value of base; node was derived when base had been
    written seen times (base.gen now). live: the history of a storage whose handles were not
    tracked when it was written; they learn of it when they are used next.
    """
    cdef public Node node
    cdef public int index
    cdef public bint leaf, live, retain
    cdef public object grad, hooks, chain, like
    cdef object handle                       # weak reference to a leaf's tensor
    cdef public Meta base
    cdef public int64_t gen, seen
    cdef object __weakref__

    def __init__(self, Node node=None, int index=0, bint leaf=False):
        self.node = node
        self.index = index
        self.leaf = leaf


cdef int64_t g_seq = 0

cdef inline int64_t next_seq() noexcept:
    global g_seq
    g_seq += 1
    return g_seq


@cython.final
@cython.freelist(256)
cdef class Node:
    """One recorded op. Edges point to what computed its operands: targets are Nodes, Outputs,
    leaves' Metas, or None."""
    cdef readonly str name
    cdef readonly tuple targets
    cdef readonly int64_t seq                # newer than everything it points to
    cdef readonly int outputs
    cdef readonly bint freed
    cdef bint lasting                        # holds no values: backward leaves it as it is
    cdef public object saved                 # what a rule or Function keeps
    cdef public object hooks                 # {output: [functions of the gradient]}
    cdef public object keepers               # {output: Meta whose grad is wanted}
    cdef public tuple checks                 # Saved values to be looked at before backward
    cdef object fn                           # (node, gradient) -> gradients of the targets
    cdef object rule                         # (gradient, kept, wanted) -> {operand: gradient}
    cdef tuple spread                        # a sum: (axes, shape of the operand)
    cdef tuple wanted
    cdef tuple likes                         # (shape, dtype) of operands, None where as the result's
    cdef RowGrad plan
    cdef tx_save val[5]                      # saved operands, then the result
    cdef int nval
    cdef tuple nums                          # operands that are Python numbers
    cdef list packed
    cdef object unpacker
    cdef object code
    cdef int lasti
    # backward:
    cdef int64_t run
    cdef int deps
    cdef int needed
    cdef object acc
    cdef object __weakref__

    def __init__(self, str name, tuple targets, fn, saved=None, int outputs=1, tuple checks=()):
        self.name = name
        self.targets = targets
        self.fn = fn
        self.saved = saved
        self.outputs = outputs
        self.checks = checks
        self.seq = next_seq()
        self.code = user_code(&self.lasti)

    def __dealloc__(self):
        cdef int k
        for k in range(self.nval):
            if self.val[k].n != NULL:
                save_drop(&self.val[k])
        if self.targets is not None:
            g_buried.append(self.targets)
            self.targets = None
            if self.saved is not None or self.packed is not None:
                g_buried.append(self.saved)
                g_buried.append(self.packed)
                self.saved = None
                self.packed = None
            bury()

    def set_outputs(self, int n):
        """Tells how many results there are, once that is known."""
        self.outputs = n

    @property
    def site(self):
        """(code, instruction) where the op was called, or None."""
        return None if self.code is None else (self.code, self.lasti)

    @property
    def next_nodes(self):
        """What computed the operands: Nodes, or Metas of leaves."""
        if self.targets is None:
            return ()
        return tuple([t.node if isinstance(t, Output) else t for t in self.targets])

    def __repr__(self):
        return f"<{self.name}>"

    cdef void release(self):
        """Backward has passed: the values go, name and line stay for messages."""
        cdef int k
        for k in range(self.nval):
            if self.val[k].n != NULL:
                save_drop(&self.val[k])
        self.nval = 0
        self.freed = True
        self.targets = None
        self.saved = None
        self.checks = None
        self.fn = None
        self.rule = None
        self.spread = None
        self.nums = None
        self.packed = None
        self.unpacker = None
        self.hooks = None
        self.keepers = None


cdef enum:
    RUN_FUNCTION, RUN_PASS, RUN_SUBTRACT, RUN_NEGATE, RUN_MULTIPLY

cdef list g_gradients = [None] * (2 * 16 * len(_table.TABLE))
cdef unsigned char OP_DIFF[1024]             # operands with a gradient

cdef object _load_gradients():
    for number, row in enumerate(_table.TABLE):
        OP_DIFF[number] = sum([1 << k for k, text in enumerate(row.grads) if text is not None])

_load_gradients()
cdef int OP_MULG = _table.INDEX["mulg"]
cdef dict RUN_CODES = {"add": RUN_PASS, "positive": RUN_PASS, "subtract": RUN_SUBTRACT, "negative": RUN_NEGATE, "multiply": RUN_MULTIPLY}


cdef RowGrad row_grad(int op, unsigned mask, bint is_complex):
    cdef int at = (2 * op + is_complex) * 16 + mask
    plan = g_gradients[at]
    if plan is None:
        wanted = tuple([k for k in range(4) if mask >> k & 1])
        name, pos, out, fn = HOOKS.plan(op, wanted, bool(is_complex))
        code = RUN_FUNCTION if is_complex else RUN_CODES.get(name, RUN_FUNCTION)
        plan = RowGrad(name, wanted, pos, out, fn, code)
        g_gradients[at] = plan
    return plan
