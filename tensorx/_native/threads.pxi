# Waiting for other threads. A wait holds nothing and no GIL; afterwards the caller plans anew.
#
# Whoever works on storages without the GIL, and the body of a custom op, marks them: readers and
# writers are counted in the storage, and who they are is noted here. A thread never waits for
# its own marks, and marks of threads that a fork has lost are taken off in the child.

cdef extern from "waits.h" nogil:
    void tx_wake_all()
    uint64_t tx_wait_now()
    void tx_wait_since(uint64_t)
    void tx_wait_child()
    double tx_seconds()

cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()

cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*)(), void (*)(), void (*)())


cdef extern from *:
    """
    /* Called in the thread that released the GIL: a handler of a signal may raise, as that of
     * Ctrl-C does; the error stays set for whoever gets the GIL back. */
    static int tx_poll_python(void) {
        PyGILState_STATE s = PyGILState_Ensure();
        int bad = PyErr_CheckSignals();
        PyGILState_Release(s);
        return bad;
    }
    /* Only the main thread handles signals; others must not ask for the GIL, least of all
     * daemons while the interpreter ends. */
    static unsigned long tx_main_thread;
    static void tx_polls(int on) {
        if (on && PyThread_get_thread_ident() == tx_main_thread) {
            tx_poll_at = tx_now_us() + TX_POLL_US;
            tx_poll_fn = tx_poll_python;
        } else {
            tx_poll_fn = NULL;
        }
    }
    """
    void tx_polls(int) nogil
    unsigned long tx_main_thread


cdef object _main_thread():
    global tx_main_thread
    import threading
    tx_main_thread = threading.main_thread().ident

_main_thread()


cdef int interrupted() except -1:
    """A long op was cancelled: by an error that a signal handler raised, or from outside."""
    if PyErr_Occurred() != NULL:
        return -1
    PyErr_CheckSignals()
    raise KeyboardInterrupt()


cdef struct Mark:
    tx_storage *s
    unsigned long thread
    int writes
    int body                                 # number of the custom op whose body holds it, or 0

cdef Mark *g_marks = NULL
cdef int g_nmarks = 0
cdef int g_markcap = 0
cdef enum:
    LOST = -1                                # its thread does not exist in this process

cdef dict g_bodies = {}                      # number -> (name of the op, thread, site, name of the thread)
cdef dict g_waiting = {}                     # thread -> thread whose body it waits for
cdef int g_body = 0
cdef double BODY_SECONDS = 60.0              # longest wait for the body of a custom op


cdef void mark(tx_storage *s, int writes, int by, int body=0) noexcept:
    """Marks a storage as read or written by this thread, or takes the mark off. Needs the GIL."""
    global g_marks, g_nmarks, g_markcap
    cdef Mark *bigger
    cdef unsigned long me = PyThread_get_thread_ident()
    cdef int i
    if writes:
        s.writing += by
    else:
        s.reading += by
    if by > 0:
        if g_nmarks == g_markcap:
            bigger = <Mark *>realloc(g_marks, (2 * g_markcap + 64) * sizeof(Mark))
            if bigger == NULL:
                return                       # counted all the same: a fork would not find it
            g_marks = bigger
            g_markcap = 2 * g_markcap + 64
        g_marks[g_nmarks].s = s
        g_marks[g_nmarks].thread = me
        g_marks[g_nmarks].writes = writes
        g_marks[g_nmarks].body = body
        g_nmarks += 1
        return
    for i in range(g_nmarks - 1, -1, -1):
        if g_marks[i].s == s and g_marks[i].thread == me and g_marks[i].writes == writes and g_marks[i].body == body:
            g_nmarks -= 1
            g_marks[i] = g_marks[g_nmarks]
            return


cdef int foreign_mark(tx_storage *s, bint to_write) noexcept:
    """Position of a mark that keeps this thread from reading (or writing) s, or -1."""
    cdef unsigned long me = PyThread_get_thread_ident()
    cdef int i
    for i in range(g_nmarks):
        if g_marks[i].s == s and (g_marks[i].thread != me or g_marks[i].body == LOST) and (to_write or g_marks[i].writes):
            return i
    return -1


cdef inline bint blocked(tx_storage *s, bint to_write) noexcept:
    """Whether another thread writes s, or reads what this one is to write."""
    if not s.writing and not (to_write and s.reading):
        return False
    return foreign_mark(s, to_write) >= 0


cdef void wake_waiters() noexcept:
    tx_wake_all()


cdef int wait_for_others(tx_node *n, tx_storage *s=NULL, bint to_write=False) except -1:
    """Waits a while for another thread; s, where given, is what it is at work on."""
    global g_hold_imm
    cdef uint64_t seen = tx_wait_now()
    cdef bint hold = g_hold_imm
    if g_assigning and g_in_ladder and g_ladder_thread == PyThread_get_thread_ident():
        raise ThreadingError("internal: short of memory inside an assignment, nothing else is evaluated")
    if n != NULL and n.flags & TX_N_FAILED:
        raise ThreadingError("the value was being computed by another thread when this process was forked: compute it anew")
    if s != NULL and g_nmarks and wait_for_body(s, to_write):
        return 0
    g_hold_imm = False                       # it speaks of this thread's op alone
    with nogil:
        tx_wait_since(seen)
    g_hold_imm = hold
    PyErr_CheckSignals()
    return 0


cdef int wait_for_body(tx_storage *s, bint to_write) except -1:
    """Where the body of a custom op holds s: waits until it does not, not longer than the set
    time and not at all where that body waits for this thread. 1: s may be free now."""
    cdef int at = foreign_mark(s, to_write)
    cdef double until = 0
    cdef uint64_t seen
    cdef unsigned long me = PyThread_get_thread_ident()
    cdef unsigned long other
    cdef int steps
    if at < 0:
        return 0
    if g_marks[at].body == LOST:
        raise ThreadingError("the storage was being written by another thread when this process was forked: "
                             "its values are lost here; compute them anew")
    if g_marks[at].body == 0:
        return 0
    tx_st_own(s)
    try:
        while True:
            at = foreign_mark(s, to_write)
            if at < 0 or g_marks[at].body <= 0:
                return 1
            other = g_marks[at].thread
            g_waiting[me] = other
            for steps in range(64):
                if other not in g_waiting:
                    break
                other = g_waiting[other]
                if other == me:
                    raise ThreadingError(f"deadlock: this thread waits for {body_text(g_marks[at].body)}, which waits for this thread; "
                                         "let ops that run at the same time take shared tensors in one order, or copy() them")
            if until == 0:
                until = tx_seconds() + BODY_SECONDS
            elif tx_seconds() > until:
                raise ThreadingError(f"waited {BODY_SECONDS:g} s for {body_text(g_marks[at].body)}, which still holds the storage; "
                                     "a body must not wait for other threads that use its tensors (tx.set_op_timeout sets the time)")
            seen = tx_wait_now()
            with nogil:
                tx_wait_since(seen)
            PyErr_CheckSignals()
    finally:
        g_waiting.pop(me, None)
        tx_st_release(s)


cdef str body_text(int number):
    name, thread, site, thread_name = g_bodies.get(number, ("an op", 0, None, "?"))
    from tensorx.autograd.tape import site_text
    return f"the custom op {name!r} called by thread {thread_name!r} at {site_text(site)}"


def set_op_timeout(double seconds):
    """Longest wait for a storage that the body of a custom op holds; returns the old value."""
    global BODY_SECONDS
    old = BODY_SECONDS
    if not seconds > 0:
        raise ValueError(f"set_op_timeout: needs a positive number of seconds, got {seconds!r}")
    BODY_SECONDS = seconds
    return old


cdef class Holding:
    """The marks of a running custom op: all at once or none, and taken off by leave()."""
    cdef tx_node *nodes[64]
    cdef int writes[64]
    cdef int n, body

    def __dealloc__(self):
        cdef int k
        for k in range(self.n):
            node_unref(self.nodes[k])

    def leave(self):
        cdef int k
        if self.body == 0:
            return
        for k in range(self.n):
            mark(self.nodes[k].st, self.writes[k], -1, self.body)
        g_bodies.pop(self.body, None)
        self.body = 0
        wake_waiters()


def hold(str name, tuple written, tuple read):
    """Marks the storages of a custom op: leaves that it writes and reads. Waits, holding
    nothing, while others use them; pending readers of what is written are evaluated."""
    global g_body
    cdef Holding h = Holding.__new__(Holding)
    cdef Tensor t
    cdef int k
    cdef bint again = True
    if len(written) + len(read) > 64:
        raise TypeError(f"{name}: at most 64 tensors")
    import threading
    for group in (written, read):
        for t in group:
            ensure(t.n)
            t.n.refs += 1
            h.nodes[h.n] = t.n
            h.writes[h.n] = group is written
            h.n += 1
    while again:
        again = False
        for k in range(h.n):
            if h.writes[k]:
                check_writable(h.nodes[k], name)
                flush_readers(h.nodes[k].st, NULL)
            if blocked(h.nodes[k].st, h.writes[k]):
                wait_for_others(NULL, h.nodes[k].st, h.writes[k])
                again = True
                break
            host_ready(h.nodes[k])
        if not again:                        # what was done for one may have let others in
            for k in range(h.n):
                if blocked(h.nodes[k].st, h.writes[k]) or (h.writes[k] and has_readers(h.nodes[k].st)):
                    again = True
    site = call_site()
    thread = threading.current_thread().name
    g_body += 1
    h.body = g_body
    g_bodies[h.body] = (name, PyThread_get_thread_ident(), site, thread)
    for k in range(h.n):
        mark(h.nodes[k].st, h.writes[k], 1, h.body)
    return h


cdef bint has_readers(tx_storage *s) noexcept:
    cdef tx_node *l = s.leaves
    cdef tx_edge *e
    while l != NULL:
        e = l.consumers
        while e != NULL:
            if not e.owner.flags & TX_N_FAILED:
                return True
            e = e.next
        l = l.leaf_next
    return False


def held_storages():
    """Number of marks of the process: 0 where nothing runs."""
    return g_nmarks


cdef void child_after_fork() noexcept nogil:
    """In a forked child no other thread exists: what they were computing is lost, what they
    were reading is free, what they were writing is an error for whoever wants it."""
    global g_nmarks, tx_main_thread
    cdef tx_node *n
    cdef int i, kept = 0
    cdef unsigned long me = PyThread_get_thread_ident()
    tx_main_thread = me
    tx_wait_child()
    n = g_pending_head.pend_next
    while n != &g_pending_head:
        if n.flags & TX_N_BUSY:
            n.flags |= TX_N_FAILED
        n = n.pend_next
    for i in range(g_nmarks):
        if g_marks[i].thread != me:
            if not g_marks[i].writes:
                g_marks[i].s.reading -= 1
                continue
            g_marks[i].body = LOST
        g_marks[kept] = g_marks[i]
        kept += 1
    g_nmarks = kept

pthread_atfork(NULL, NULL, child_after_fork)
