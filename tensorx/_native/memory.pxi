# Counters, limits and the recorder's hooks.

cdef extern from "Python.h":
    int PyGC_Enable()
    int PyGC_Disable()

cdef class Recorder                          # explain.pxi
cdef bint g_recording = False
cdef Recorder g_recorder = None              # explains allocations


def set_recorder(Recorder recorder):
    """Installs the object that explains allocations, or None; returns the one before."""
    global g_recorder, g_recording
    old = g_recorder
    g_recorder = recorder
    g_recording = recorder is not None
    return old


cdef void *record_site(str op) except? NULL:
    """Where the op was called: an owned reference, or NULL when nothing is recorded."""
    cdef object site
    if g_recorder is None:
        return NULL
    site = g_recorder.site()
    Py_INCREF(site)
    return <void *>site


cdef int record_alloc(tx_storage *s, str op, str reason, void *site=NULL) except -1:
    """Tells the recorder of a new storage."""
    if not g_recording or g_recorder is None:
        return 0
    g_recorder.on_alloc(s, op, g_recorder.site() if site == NULL else <object>site, reason)
    return 0


cdef void record_free(tx_storage *s) noexcept:
    """A storage goes: the recorder that knows it, or the one that runs, is told."""
    cdef object token
    if s.site != NULL:
        token = <object>s.site
        s.site = NULL
        Py_DECREF(token)
        if g_recorder is not None and (<Token>token).owner is g_recorder:
            g_recorder.on_free(s, token)
            return
    if g_recording:
        g_recorder.on_free(s, None)


cdef int record_program(Plan *P) except -1:
    """One record per output of a program: memory of its own, with the reason why nothing could
    be reused, or what it took over. No Python code runs in here (it could let other threads
    in), so the names of holders are looked up later."""
    cdef int i
    cdef int on = PyGC_Disable()
    cdef tx_node *n
    cdef Token token
    global g_named
    g_named = None
    try:
        for i in range(P.norder):
            if P.ost[i] == NULL:
                continue
            n = P.order[i]
            site = g_recorder.site() if n.site == NULL else <object>n.site
            if P.donor[i] < 0:
                token = g_recorder.on_alloc(P.ost[i], op_name(n.kind, n.op), site, no_donor_reason(P, i))
                if g_blame or g_named is not None:
                    g_recorder.blamed.append((token, g_blame, g_named))
                    g_named = None
            else:
                g_recorder.on_reuse(P.ost[i], op_name(n.kind, n.op), site)
    finally:
        if on:
            PyGC_Enable()
    return 0


cdef uint64_t g_blame = 0                    # storage whose holders kept it from being reused, or 0


cdef int record_names() except -1:
    """Looks up who holds what could not be reused. Python code runs."""
    if g_recorder is not None and g_recorder.blamed:
        blamed = g_recorder.blamed
        g_recorder.blamed = []
        if g_recorder.name is not None:
            for token, serial, tensor in blamed:
                g_recorder.name(token, serial, tensor)
    return 0


cdef str no_donor_reason(Plan *P, int i):
    """Why the output of node i could not take over the memory of an operand."""
    cdef tx_node *n = P.order[i]
    cdef tx_node *q
    cdef tx_storage *s
    cdef int64_t nbytes = n.numel * tx_item_size[n.dtype]
    cdef int li
    cdef str why = "no dead operand"
    cdef int rank = 0, r
    global g_blame
    g_blame = 0
    if n.flags & TX_N_LEFT and n.saves and not n.handles:
        return saver_text(n) + ": stored now, as an operand changes or it is needed again"
    if n.kind == TX_CAST and n.inp[0] != NULL and n.inp[0].dtype == n.dtype:
        return g_copy_reason or "a copy"
    if P.reducing:
        return "evaluated on the way to a reduction"
    for li in range(P.nleaf):
        q = P.leaves[li]
        s = q.st
        r = 0
        text = ""
        if s == NULL:
            continue
        if q.numel * tx_item_size[q.dtype] != nbytes and q.numel == n.numel:
            r = 1
            text = "dtype size differs"
        elif s.nbytes != <size_t>nbytes:
            continue
        elif s.flags & TX_ST_FOREIGN:
            r = 3
            text = "shared with foreign memory (NumPy, DLPack or a buffer)"
        elif tx_st_exports(s) > 0:
            r = 5
            text = "exported to NumPy, DLPack or a buffer"
        elif q.saves > 0:
            r = 6
            text = saver_text(q)
        elif q.handles > 0:
            r = 4
            text = f"shared by: {q.handles} live handle{'s' if q.handles > 1 else ''}"
        elif tx_st_owners(s) > 1:
            r = 4
            text = f"shared by: {tx_st_owners(s) - 1} other view{'s' if tx_st_owners(s) > 2 else ''} or alias"
        elif q.refs != q.uses:
            r = 3
            text = "read by another pending value"
        elif P.lcls[li] != C_LIN:
            r = 2
            text = "read in another order than it is written"
        else:
            r = 2
            text = "taken over by another output"
        if r > rank:
            rank = r
            why = text
            g_blame = s.serial if r >= 3 else 0
    return why


def storage_key(Tensor x):
    """An integer that identifies x's storage while x lives."""
    ensure(x.n)
    return x.n.st.serial


def node_key(Tensor x):
    """An integer that identifies x's value: equal for aliases."""
    return <uintptr_t>x.n


def evaluate(*tensors):
    """Computes pending tensors now; without arguments all of them."""
    cdef Tensor t
    if not tensors:
        evaluate_all()
        drain()
        return
    for o in tensors:
        t = o
        ensure(t.n)
    drain()


def waiting_for_backward():
    """What stays pending because only backward needs it, to be computed again there: (op, shape, bytes) of each."""
    cdef tx_node *n = g_pending_head.pend_next
    out = []
    while n != &g_pending_head:
        if n.flags & TX_N_LEFT and may_stay(n):
            out.append((op_name(n.kind, n.op), shape_of(n), n.numel * tx_item_size[n.dtype]))
        n = n.pend_next
    return out


def is_pending(Tensor x):
    """Whether x's value has not been computed yet."""
    return x.n.kind != TX_LEAF


def pending_count():
    """Number of pending nodes of the process."""
    return g_pending


def storage_count():
    """Number of storages alive, after releasing what is due."""
    drain()
    return g_live_count


def free_released():
    """Gives back the memory of storages that were released since the last op or allocation."""
    drain()


def cpu_stats():
    """Counters of the CPU allocator."""
    cdef tx_mem_stats st
    drain()
    tx_get_stats(&st)
    return {"live": st.live, "peak": st.peak, "requested": st.requested, "allocations": st.allocations,
            "cached": st.cached, "system": st.system, "scratch": st.scratch, "scratch_peak": st.scratch_peak,
            "limit": None if st.limit < 0 else st.limit, "cap": st.cap}


def thread_counts():
    """(bytes, allocations) that this thread has requested so far on the CPU."""
    return tx_thread_requested(), tx_thread_allocations()


def cpu_set_limit(limit):
    tx_set_limit(-1 if limit is None else <int64_t>limit)


def cpu_set_cap(int64_t cap):
    tx_set_cap(cap)


def cpu_empty_cache():
    drain()
    tx_empty_cache()


def cpu_reset_peak():
    drain()
    tx_reset_peak()


def num_threads():
    return tx_get_num_threads()


def set_num_threads(int n):
    tx_set_num_threads(n)


def set_bounds(max_cost=None, max_pending=None, max_kept=None, long_ns=None):
    """Bounds of deferral, for tests: nodes of a program, pending nodes and pinned bytes of the
    process, estimated nanoseconds from which the GIL is released. Returns the old values."""
    global MAX_COST, MAX_PENDING, MAX_KEPT, LONG_NS
    old = (MAX_COST, MAX_PENDING, MAX_KEPT, LONG_NS)
    if max_cost is not None:
        if not 1 <= max_cost <= 60:
            raise ValueError("max_cost must be from 1 to 60")
        MAX_COST = max_cost
    if max_pending is not None:
        MAX_PENDING = max_pending
    if max_kept is not None:
        MAX_KEPT = max_kept
    if long_ns is not None:
        LONG_NS = long_ns
    return old


# ---- eager mode: context-local, off by default -----------------------------------------------------

import os as _os
cdef bint EAGER_DEFAULT = _os.environ.get("TENSORX_EAGER", "") not in ("", "0")
_deferred_mode = contextvars.ContextVar("tensorx.deferred", default=not EAGER_DEFAULT)
cdef object DEFERRED_MODE = _deferred_mode
cdef int g_eager = EAGER_DEFAULT


def may_be_eager():
    """From now on the mode of the context is asked for at each op."""
    global g_eager
    g_eager = 1


cdef bint eager_now() except -1:
    cdef PyObject *v = NULL
    if PyContextVar_Get(DEFERRED_MODE, NULL, &v) < 0:
        return -1
    cdef bint deferred = v == Py_True
    Py_XDECREF(v)
    return not deferred
