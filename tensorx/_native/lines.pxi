# Work along the lines of an axis: stable sorting, searching, running sums and products, linear recurrences.

cdef extern from "sort.h" nogil:
    ctypedef struct tx_sort_job:
        const char *src
        char *values
        int64_t *order
        int32_t dtype, isz, nd, descending
        int64_t n, lines, chunks, src_stride, out_stride
        int64_t shape[64]
        int64_t src_strides[64]
        int64_t out_strides[64]
        char *scratch
        int64_t scratch_each
        int32_t stopped
    int64_t tx_sort_scratch(tx_sort_job *)
    void tx_sort_run(tx_sort_job *)

cdef extern from "scan.h" nogil:
    enum:
        TX_SCAN_SUM, TX_SCAN_PROD, TX_SCAN_LINEAR
    ctypedef struct tx_scan_job:
        const char *a
        const char *b
        char *dst
        int32_t kind, dtype, isz, nd, initial
        int64_t n, columns, outer, a_line, b_line, d_line, a_col, b_col, d_col
        int64_t shape[64]
        int64_t a_strides[64]
        int64_t b_strides[64]
        int64_t d_strides[64]
    void tx_scan_run(tx_scan_job *)

cdef extern from "search.h" nogil:
    ctypedef struct tx_search_job:
        const char *line
        const char *values
        int64_t *out
        int64_t n, count, chunk
        int32_t dtype, right, stopped
    void tx_search_run(tx_search_job *)

SCAN_SUM = TX_SCAN_SUM
SCAN_PROD = TX_SCAN_PROD
SCAN_LINEAR = TX_SCAN_LINEAR


cdef int _line_source(Tensor x, str op) except -1:
    ensure(x.n)
    host_ready(x.n)
    return 0


cdef int _read_begin(tx_node *n) noexcept:
    mark(n.st, 0, 1)
    n.refs += 1
    return 0


cdef int _read_end(tx_node *n) except -1:
    mark(n.st, 0, -1)
    node_unref(n)
    wake_waiters()
    return 0


def sort_lines(Tensor x, int axis, bint descending, bint values, bint order):
    """The stable sort of x along an axis, without history: a pair of the sorted values and the positions (int64), None
    where not asked for. NaN comes last, -0 counts as 0. x is real or bool; any device whose memory the host sees."""
    cdef tx_sort_job job
    cdef tx_node *src
    cdef Tensor v = None
    cdef Tensor o = None
    cdef int d, k = 0
    cdef int64_t lines = 1, total
    if KIND[x.n.dtype] == c'c':
        raise DTypeError("sort: complex numbers have no order")
    _line_source(x, "sort")
    src = x.n
    if values:
        v = wrap(leaf_empty(src.device, src.dtype, src.ndim, src.shape, "sort"))
    if order:
        o = wrap(leaf_empty(src.device, TX_I64, src.ndim, src.shape, "argsort"))
    if src.numel == 0:
        return v, o
    if src.device != 0:
        g_backends[src.device].on_host("sort")
    memset(&job, 0, sizeof(job))
    job.dtype = src.dtype
    job.isz = tx_item_size[src.dtype]
    job.descending = descending
    job.n = src.shape[axis]
    job.src_stride = src.strides[axis]
    job.src = src.st.ptr + src.offset * job.isz
    job.out_stride = 1
    for d in range(src.ndim - 1, axis, -1):
        job.out_stride *= src.shape[d]
    total = job.out_stride * job.n
    for d in range(src.ndim):
        if d != axis:
            job.shape[k] = src.shape[d]
            job.src_strides[k] = src.strides[d]
            lines *= src.shape[d]
            k += 1
    # strides of the C-ordered results
    total = 1
    k = src.ndim - 1
    for d in range(src.ndim - 1, -1, -1):
        if d != axis:
            k -= 1
            job.out_strides[k] = total
        total *= src.shape[d]
    job.nd = src.ndim - 1
    job.lines = lines
    if v is not None:
        host_writable(v.n)
        job.values = v.n.st.ptr
    if o is not None:
        host_writable(o.n)
        job.order = <int64_t *>o.n.st.ptr
    job.chunks = min(lines, 8)
    job.scratch_each = tx_sort_scratch(&job)
    job.scratch = <char *>tx_scratch_alloc(<size_t>(job.scratch_each * job.chunks))
    if job.scratch == NULL and job.chunks > 1:
        job.chunks = 1
        job.scratch = <char *>tx_scratch_alloc(<size_t>job.scratch_each)
    if job.scratch == NULL:
        raise oom_error(0, <size_t>job.scratch_each, "sort workspace")
    _read_begin(src)
    if lines * job.n < 2000:
        tx_sort_run(&job)
    else:
        with nogil:
            tx_polls(1)
            tx_sort_run(&job)
            tx_polls(0)
    tx_scratch_free(job.scratch, <size_t>(job.scratch_each * job.chunks))
    _read_end(src)
    if job.stopped:
        interrupted()
    return v, o


def search_line(Tensor line, Tensor values, bint right):
    """Where each of the values would go into the sorted line (right: behind equal elements), as int64; NaN counts as the
    greatest. Both are C-contiguous, real or bool, of one dtype and device; line has one axis."""
    cdef tx_search_job job
    cdef tx_node *a
    cdef tx_node *b
    cdef Tensor r
    _line_source(line, "searchsorted")
    _line_source(values, "searchsorted")
    a = line.n
    b = values.n
    if a.dtype != b.dtype or a.device != b.device or KIND[a.dtype] == c'c':
        raise DTypeError(f"searchsorted: not for {DTYPES[a.dtype].name} and {DTYPES[b.dtype].name}")
    if not is_c_contiguous(line) or not is_c_contiguous(values):
        raise ShapeError("searchsorted: the operands must be C-contiguous")
    r = wrap(leaf_empty(b.device, TX_I64, b.ndim, b.shape, "searchsorted"))
    if b.numel == 0:
        return r
    host_writable(r.n)
    if b.device != 0:
        g_backends[b.device].on_host("searchsorted")
    memset(&job, 0, sizeof(job))
    job.line = a.st.ptr + a.offset * tx_item_size[a.dtype]
    job.values = b.st.ptr + b.offset * tx_item_size[b.dtype]
    job.out = <int64_t *>r.n.st.ptr
    job.n = a.numel
    job.count = b.numel
    job.dtype = a.dtype
    job.right = right
    if job.n == 0:
        memset(job.out, 0, <size_t>(job.count * 8))
        return r
    _read_begin(a)
    _read_begin(b)
    if job.count < 2000:
        tx_search_run(&job)
    else:
        with nogil:
            tx_polls(1)
            tx_search_run(&job)
            tx_polls(0)
    _read_end(a)
    _read_end(b)
    if job.stopped:
        interrupted()
    return r


def scan_lines(int kind, Tensor x, int axis, bint initial=False, Tensor b=None):
    """Running sums or products of x along an axis (with the sum or product of nothing in front where initial is set), or
    the recurrence y[i] = x[i] * y[i-1] + b[i] with y[-1] = 0; without history. x: int64, uint64, float32, float64 or complex;
    b: of its dtype, shape and device."""
    cdef tx_scan_job job
    cdef tx_node *src
    cdef tx_node *second = NULL
    cdef tx_node *dst
    cdef Tensor r
    cdef int64_t shape[64]
    cdef int64_t total = 1
    cdef int64_t strides[64]
    cdef int d, k = 0, inner
    if x.n.dtype not in (TX_I64, TX_U64, TX_F32, TX_F64, TX_C64, TX_C128):
        raise DTypeError(f"scan: not for {DTYPES[x.n.dtype].name}; convert first")
    _line_source(x, "scan")
    if b is not None:
        _line_source(b, "scan")
    src = x.n
    memset(&job, 0, sizeof(job))
    job.kind = kind
    job.dtype = src.dtype
    job.isz = tx_item_size[src.dtype]
    job.initial = initial
    job.n = src.shape[axis]
    for d in range(src.ndim):
        shape[d] = src.shape[d]
    shape[axis] += 1 if initial else 0
    r = wrap(leaf_empty(src.device, src.dtype, src.ndim, shape, "cumulative"))
    dst = r.n
    if dst.numel == 0:
        return r
    host_writable(dst)
    if src.device != 0:
        g_backends[src.device].on_host("cumulative")
    for d in range(src.ndim - 1, -1, -1):
        strides[d] = total
        total *= shape[d]
    job.a = src.st.ptr + src.offset * job.isz
    job.dst = dst.st.ptr
    job.a_line = src.strides[axis]
    job.d_line = strides[axis]
    if b is not None:
        second = b.n
        job.b = second.st.ptr + second.offset * job.isz
        job.b_line = second.strides[axis]
    # the last of the other axes lies inmost
    inner = src.ndim - 1 if axis != src.ndim - 1 else src.ndim - 2
    job.columns = 1
    job.outer = 1
    if inner >= 0:
        job.columns = src.shape[inner]
        job.a_col = src.strides[inner]
        job.d_col = strides[inner]
        job.b_col = second.strides[inner] if second != NULL else 0
    for d in range(src.ndim):
        if d != axis and d != inner:
            job.shape[k] = src.shape[d]
            job.a_strides[k] = src.strides[d]
            job.b_strides[k] = second.strides[d] if second != NULL else 0
            job.d_strides[k] = strides[d]
            job.outer *= src.shape[d]
            k += 1
    job.nd = k
    # lines whose elements are neighbours are better read one at a time
    if job.a_line == 1 and job.columns > 1 and job.a_col != 1:
        job.shape[k] = job.columns
        job.a_strides[k] = job.a_col
        job.b_strides[k] = job.b_col
        job.d_strides[k] = job.d_col
        job.outer *= job.columns
        job.columns = 1
        job.nd = k + 1
    _read_begin(src)
    if second != NULL:
        _read_begin(second)
    if total < 4000:
        tx_scan_run(&job)
    else:
        with nogil:
            tx_scan_run(&job)
    _read_end(src)
    if second != NULL:
        _read_end(second)
    return r
