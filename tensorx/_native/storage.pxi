# Storages: who owns which bytes. Counted by us, never read off CPython's reference counts.

cdef tx_storage *g_storage_free = NULL      # structs to use again
cdef uint64_t g_serial = 0
cdef int64_t g_kept = 0                     # bytes that only pending nodes keep alive
cdef bint g_due = False                     # some pending node pins a much larger storage
cdef list g_backends = [None]               # device id -> backend object; None: the CPU
cdef list g_devices = [None]                # device id -> Device object
cdef int64_t g_live_count = 0               # storages alive (debugging aid, tested)

cdef object TensorxError, ShapeError, DTypeError, DeviceMismatchError, InplaceError
cdef object OutOfMemoryError, ThreadingError, GradientError
from tensorx.errors import (TensorxError, ShapeError, DTypeError, DeviceMismatchError, InplaceError,
                            OutOfMemoryError, ThreadingError, GradientError)


cdef inline tx_storage *storage_struct() noexcept:
    global g_storage_free, g_serial, g_live_count
    cdef tx_storage *s = g_storage_free
    if s != NULL:
        g_storage_free = s.next
    else:
        s = <tx_storage *>malloc(sizeof(tx_storage))
        if s == NULL:
            return NULL
    g_serial += 1
    g_live_count += 1
    s.owners = 0
    s.exports = 0
    s.device = 0
    s.flags = 0
    s.ptr = NULL
    s.nbytes = 0
    s.capacity = 0
    s.version = 0
    s.serial = g_serial
    s.leaves = NULL
    s.reading = 0
    s.writing = 0
    s.release = NULL
    s.ctx = NULL
    s.handle = NULL
    s.history = NULL
    s.site = NULL
    s.next = NULL
    return s


cdef void storage_destroy(tx_storage *s) noexcept:
    """Gives the memory of a storage without owners back. Needs the GIL."""
    global g_storage_free, g_kept, g_live_count
    cdef object held
    if s.flags & TX_ST_KEPT:
        g_kept -= <int64_t>s.nbytes
    if s.flags & TX_ST_BORROWED:
        if s.handle != NULL:
            held = g_backends[s.device]
            try:
                # C functions alone: Ctrl-C, which any Python function may raise, neither gets lost here nor leaves the buffer behind
                held._live -= s.nbytes
                held.release(<uintptr_t>s.handle)
            except BaseException as e:       # a release never fails
                sys_unraisable(e, "releasing a device buffer")
            held = None
    elif s.flags & TX_ST_FOREIGN:
        if s.release != NULL:
            s.release(s.ctx)
    elif s.ptr != NULL:
        tx_free(s.ptr, s.nbytes, s.capacity)
    s.ptr = NULL
    if s.history != NULL:
        Py_DECREF(<object>s.history)
        s.history = NULL
    if s.site != NULL or g_recording:
        record_free(s)
    s.next = g_storage_free
    g_storage_free = s
    g_live_count -= 1


cdef inline void drain() noexcept:
    """Frees what was released since the last op or allocation."""
    cdef tx_storage *s = tx_take_pending_free()
    cdef tx_storage *n
    while s != NULL:
        n = s.next
        storage_destroy(s)
        s = n


cdef object sys_unraisable(object e, str where):
    import sys
    sys.stderr.write(f"tensorx: ignored while {where}: {e!r}\n")


cdef bint g_for_host = False                # device memory asked for now is written by the host first

cdef tx_storage *storage_try(int device, size_t nbytes) except? NULL:
    """A new storage with one owner, or NULL (no exception) where memory is short."""
    cdef tx_storage *s
    cdef size_t cap = 0
    cdef void *p
    cdef object got
    drain()
    if device == 0:
        p = tx_alloc(nbytes, &cap)
        if p == NULL:
            return NULL
        s = storage_struct()
        if s == NULL:
            tx_free(p, nbytes, cap)
            return NULL
        s.ptr = <char *>p
    else:
        got = g_backends[device].alloc(nbytes, g_for_host)
        if got is None:
            return NULL
        s = storage_struct()
        if s == NULL:
            g_backends[device]._live -= nbytes
            g_backends[device].release(got[0])
            return NULL
        tx_count_thread(nbytes)
        s.flags = TX_ST_BORROWED
        s.handle = <void *><uintptr_t>got[0]
        s.ptr = <char *><uintptr_t>got[1]
        s.device = device
    s.nbytes = nbytes
    s.capacity = cap
    s.owners = 1
    return s


cdef tx_storage *storage_new(int device, size_t nbytes, str op) except NULL:
    """A new storage with one owner. Before it fails it evaluates what is pending, returns
    the cache and collects garbage; then OutOfMemoryError, with nothing changed."""
    cdef tx_storage *s = storage_try(device, nbytes)
    if s != NULL:
        return s
    import gc
    memory_ladder(device)
    s = storage_try(device, nbytes)
    if s == NULL:
        gc.collect()
        memory_ladder(device)
        s = storage_try(device, nbytes)
    if s == NULL:
        raise oom_error(device, nbytes, op)
    return s


cdef object memory_ladder(int device):
    global g_in_ladder, g_ladder_thread
    if not g_in_ladder:
        g_in_ladder = True
        g_ladder_thread = PyThread_get_thread_ident()
        try:
            evaluate_all()
        except TensorxError:
            pass
        finally:
            g_in_ladder = False
    drain()
    if device == 0:
        tx_empty_cache()
    else:
        g_backends[device].empty_cache()

cdef bint g_in_ladder = False
cdef unsigned long g_ladder_thread = 0


cdef object oom_error(int device, size_t nbytes, str op):
    cdef tx_mem_stats st
    if device:
        return g_backends[device].oom_error(nbytes, op)
    tx_get_stats(&st)
    limit = f"limit {st.limit:,} bytes (tx.memory.set_limit)" if st.limit >= 0 else "no limit set: the system refused"
    return OutOfMemoryError(f"{op or 'allocation'}: out of memory on cpu: requested {nbytes:,} bytes, live {st.live:,} bytes, {limit}")


cdef inline void mark_kept(tx_storage *s) noexcept:
    global g_kept
    if not s.flags & TX_ST_KEPT:
        s.flags |= TX_ST_KEPT
        g_kept += <int64_t>s.nbytes


cdef inline void unmark_kept(tx_storage *s) noexcept:
    global g_kept
    if s.flags & TX_ST_KEPT:
        s.flags &= ~<uint32_t>TX_ST_KEPT
        g_kept -= <int64_t>s.nbytes
