# What indexing stands on: the kernels of index_kernels.h, the storages of one operation, Python objects that are indices.

cdef extern from "index_kernels.h" nogil:
    enum:
        TXI_GATHER, TXI_SCATTER, TXI_ADD
    ctypedef struct tx_ixdims:
        int32_t n
        int64_t size[64]
        int64_t x[64]
        int64_t y[64]
    ctypedef struct tx_ixarray:
        const char *p
        int64_t size, xs
        int32_t dtype
        int64_t st[64]
    ctypedef struct tx_index:
        int32_t kind, nix, log2, dtype
        char *x
        char *y
        tx_ixdims b, o, i
        tx_ixarray *ix
        const char *mask
        int64_t mst[64]
        int64_t kstep
        int64_t *before
        const tx_move_fn *move
        tx_ew_fn add
        tx_cast_fn widen, narrow
        int32_t bad
        int64_t npos, nouter, ninner
    ctypedef struct tx_nonzero:
        const char *mask
        int32_t nd
        int64_t size[64]
        int64_t mst[64]
        int64_t *out[64]
        int64_t step
        const int64_t *before
        int64_t npos
    int tx_index_gather(tx_index *)
    int tx_index_scatter(tx_index *)
    int tx_index_check(tx_index *)
    int tx_index_first_bad(tx_index *, int64_t *)
    int64_t tx_mask_count(tx_index *)
    void tx_mask_done(tx_index *)
    void tx_mask_move(tx_index *)
    void tx_nonzero_write(tx_nonzero *)
    void tx_fill_view(char *, int, const int64_t *, const int64_t *, const void *, int, const tx_move_fn *)


# ---- who reads and writes ---------------------------------------------------------------

cdef class Access:
    """The storages of one indexed operation: held, and marked while the GIL is away."""
    cdef tx_node *reads[72]
    cdef tx_node *dst
    cdef int nreads
    cdef int kept                            # reads that stay marked until the end,
    cdef bint dst_kept                       # and whether the destination does

    def __dealloc__(self):
        cdef int k
        self.let_go()
        for k in range(self.nreads):
            node_unref(self.reads[k])
        if self.dst != NULL:
            node_unref(self.dst)

    cdef int add(self, tx_node *n) except -1:
        if self.nreads == 72:
            raise IndexError("too many index arrays")
        n.refs += 1
        self.reads[self.nreads] = n
        self.nreads += 1
        return 0

    cdef int writes(self, tx_node *n, str op) except -1:
        check_writable(n, op)
        n.refs += 1
        self.dst = n
        return 0

    cdef void let_go(self) noexcept:
        cdef int k
        if self.kept == 0 and not self.dst_kept:
            return
        for k in range(self.kept):
            mark(self.reads[k].st, 0, -1)
        self.kept = 0
        if self.dst_kept:
            mark(self.dst.st, 1, -1)
            self.dst_kept = False
        wake_waiters()

    cdef int settle(self) except -1:
        """Other threads are done with what this one reads and writes. Nothing is held meanwhile: two that each had
        counted the mask that the other writes would wait for ever."""
        cdef int k
        cdef bint again = True
        self.let_go()
        while again:
            again = False
            if self.dst != NULL:
                flush_readers(self.dst.st, NULL)
                if blocked(self.dst.st, True):
                    wait_for_others(NULL, self.dst.st, True)
                    again = True
                    continue
            for k in range(self.nreads):
                if blocked(self.reads[k].st, False):
                    wait_for_others(NULL, self.reads[k].st)
                    again = True
                    break
        return 0

    cdef int hold(self) except -1:
        """Kernels may be called: from here to the end others, who run meanwhile, find everything marked."""
        self.settle()
        while self.kept < self.nreads:
            mark(self.reads[self.kept].st, 0, 1)
            self.kept += 1
        if self.dst != NULL and not self.dst_kept:
            mark(self.dst.st, 1, 1)
            self.dst_kept = True
        return 0

    cdef int ready(self) except -1:
        """Everything can be read, and the destination written, by this thread now."""
        cdef int k
        cdef bint device = self.dst != NULL and self.dst.device != 0
        self.settle()
        for k in range(self.nreads):
            device = device or self.reads[k].device != 0
        if device:
            self.hold()
            for k in range(self.nreads):
                host_ready(self.reads[k])
            if self.dst != NULL:
                host_ready(self.dst)
                host_writable(self.dst)
        return 0

    cdef void mark(self, int by) noexcept:
        cdef int k
        for k in range(self.nreads):
            mark(self.reads[k].st, 0, by)
        if self.dst != NULL:
            mark(self.dst.st, 1, by)
        if by < 0:
            wake_waiters()


# ---- index objects ----------------------------------------------------------------------

cdef object _numpy = None

cdef object numpy_module():
    global _numpy
    if _numpy is None:
        import numpy
        _numpy = numpy
    return _numpy


cdef Tensor borrowed(object array):
    """A tensor on the memory of a NumPy array: nothing is copied, nothing is counted."""
    cdef object dt = array.dtype
    if not dt.isnative:
        array = array.astype(dt.newbyteorder("="))
        dt = array.dtype
    isz = dt.itemsize
    for s in array.strides:
        if s % isz:
            array = array.copy()
            break
    return from_buffer(array, dtype_from(dt), tuple(array.shape), tuple([s // isz for s in array.strides]), 0, True)


cdef bint is_borrowed(tx_node *n) noexcept:
    """n came from a list or array in an index: it has no device of its own."""
    return n.kind == TX_LEAF and n.st.flags & TX_ST_FOREIGN and n.st.flags & TX_ST_READONLY


cdef object bad_index(object it):
    kind = type(it).__name__
    what = f"a {DTYPES[(<Tensor>it).n.dtype].name} tensor" if isinstance(it, Tensor) else f"{it!r} ({kind})"
    return IndexError(f"{what} is no index: integers, slices, None, ... (Ellipsis), integer and bool tensors, arrays and "
                      "lists of them are; convert a float tensor with astype(tx.int64)")


cdef Tensor index_tensor(object it, int device, str op):
    """An index object that is an array, as a tensor of integers or bools with a value."""
    cdef Tensor t
    cdef object array
    if isinstance(it, Tensor):
        t = it
        if KIND[t.n.dtype] not in (c'i', c'u', c'b'):
            raise bad_index(it)
        if t.n.device != device and not (t.n.device == 0 and is_borrowed(t.n)):
            if t.n.ndim != 0:
                raise DeviceMismatchError(f"{op}: the tensor is on {g_devices[device]} and an index on {g_devices[t.n.device]}; "
                                          f"all must be on one device: move the index with .to({str(g_devices[device])!r})")
            t = wrap(node_to_device(t.n, device))
        ensure(t.n)
        return t
    np = numpy_module()
    if isinstance(it, (list, tuple)):
        it = plain_list(it)
    array = np.asarray(it)
    if array.size == 0 and isinstance(it, list):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise bad_index(it)
    return borrowed(array)


cdef object plain_list(object seq):
    """A list index with 0-d and nested tensors replaced by their values."""
    return [plain_list(o) if isinstance(o, (list, tuple)) else (o.tolist() if isinstance(o, Tensor) else o) for o in seq]
