# Waiting for other threads. A wait holds nothing and no GIL; afterwards the caller plans anew.

cdef extern from "waits.h" nogil:
    void tx_wake_all()
    uint64_t tx_wait_now()
    void tx_wait_since(uint64_t)
    void tx_wait_child()

cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()

cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*)(), void (*)(), void (*)())


cdef void wake_waiters() noexcept:
    tx_wake_all()


cdef int wait_for_others(tx_node *n) except -1:
    cdef uint64_t seen = tx_wait_now()
    if g_assigning and g_in_ladder and g_ladder_thread == PyThread_get_thread_ident():
        raise ThreadingError("internal: short of memory inside an assignment, nothing else is evaluated")
    if n != NULL and n.flags & TX_N_FAILED:
        raise ThreadingError("the value was being computed by another thread when this process was forked: compute it anew")
    with nogil:
        tx_wait_since(seen)
    PyErr_CheckSignals()
    return 0


cdef void child_after_fork() noexcept nogil:
    """In a forked child no other thread exists: what they were computing is lost."""
    cdef tx_node *n
    tx_wait_child()
    n = g_pending_head.pend_next
    while n != &g_pending_head:
        if n.flags & TX_N_BUSY:
            n.flags |= TX_N_FAILED
        n = n.pend_next

pthread_atfork(NULL, NULL, child_after_fork)
