# In and out: buffers of other libraries, empty tensors, transfers.

cdef const char *FORMATS[15]
FORMATS[0] = b"?"
FORMATS[1] = b"b"
FORMATS[2] = b"h"
FORMATS[3] = b"i"
FORMATS[4] = b"q"
FORMATS[5] = b"B"
FORMATS[6] = b"H"
FORMATS[7] = b"I"
FORMATS[8] = b"Q"
FORMATS[9] = b"e"
FORMATS[10] = NULL
FORMATS[11] = b"f"
FORMATS[12] = b"d"
FORMATS[13] = b"Zf"
FORMATS[14] = b"Zd"


cdef int export_begin(tx_node *n, bint reading=False) except -1:
    """From now on somebody else may read, and but for reading write, the storage of the leaf n."""
    ensure(n)
    while blocked(n.st, not reading):
        wait_for_others(NULL, n.st, not reading)
    flush_readers(n.st, NULL)
    if not reading and not n.st.flags & TX_ST_READONLY:
        saved_apart(n.st)
    tx_st_own(n.st)
    tx_st_export(n.st)                       # from here on, what a device does to it is waited for
    try:
        host_ready(n)
        if not reading:
            host_writable(n)
    except:
        tx_st_unexport(n.st)
        raise
    return 0


cdef int export_buffer(Tensor x, Py_buffer *b, int flags, object owner=None) except -1:
    """owner: the object that stands for x in a read-only export."""
    cdef tx_node *n = x.n
    cdef bint reading = owner is not None
    cdef int64_t *dims
    cdef int i, isz = tx_item_size[n.dtype]
    cdef bint writable = (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE
    if tracked(x) and not reading:
        raise BufferError("buffer: the tensor requires grad; use x.detach() (shared memory) or x.detach().copy()")
    if FORMATS[n.dtype] == NULL:
        raise BufferError("buffer: bfloat16 has no buffer format; convert with astype(tx.float32), or use DLPack")
    ensure(n)
    if writable and (reading or n.st.flags & TX_ST_READONLY):
        raise BufferError("buffer: the tensor is read-only")
    if not (flags & PyBUF_STRIDES) == PyBUF_STRIDES and not tx_is_c_dense(n.ndim, n.shape, n.strides):
        raise BufferError("buffer: the tensor is not C-contiguous and the consumer takes no strides; use x.copy() or numpy()")
    if (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS and not tx_is_c_dense(n.ndim, n.shape, n.strides):
        raise BufferError("buffer: the tensor is not C-contiguous")
    dims = <int64_t *>malloc((2 * n.ndim + 1) * sizeof(int64_t))
    if dims == NULL:
        raise MemoryError()
    try:
        export_begin(n, reading)
    except:
        free(dims)
        raise
    for i in range(n.ndim):
        dims[i] = n.shape[i]
        dims[n.ndim + i] = n.strides[i] * isz
    b.buf = n.st.ptr + n.offset * isz
    b.len = n.numel * isz
    b.itemsize = isz
    b.readonly = 1 if reading or n.st.flags & TX_ST_READONLY else 0
    b.format = <char *>FORMATS[n.dtype] if (flags & PyBUF_FORMAT) == PyBUF_FORMAT else NULL
    b.ndim = n.ndim
    b.shape = <Py_ssize_t *>dims if (flags & PyBUF_ND) == PyBUF_ND else NULL
    b.strides = <Py_ssize_t *>(dims + n.ndim) if (flags & PyBUF_STRIDES) == PyBUF_STRIDES else NULL
    b.suboffsets = NULL
    # the storage is remembered beside the dims: the handle may change its node meanwhile
    b.internal = export_ticket(dims, n.st)
    if b.internal == NULL:
        raise MemoryError()
    b.obj = x if owner is None else owner
    return 0


cdef class _Reader:
    """Buffer of a tensor's values that cannot be written, so that nothing has to be kept apart."""
    cdef Tensor t

    def __getbuffer__(self, Py_buffer *b, int flags):
        export_buffer(self.t, b, flags, self)

    def __releasebuffer__(self, Py_buffer *b):
        release_buffer(b)


def reader(Tensor x):
    """A read-only memoryview of x's values."""
    cdef _Reader r = _Reader.__new__(_Reader)
    r.t = x
    return memoryview(r)


cdef struct Ticket:
    int64_t *dims
    tx_storage *st


cdef void *export_ticket(int64_t *dims, tx_storage *s) noexcept:
    cdef Ticket *t = <Ticket *>malloc(sizeof(Ticket))
    if t == NULL:
        free(dims)
        tx_st_unexport(s)
        return NULL
    t.dims = dims
    t.st = s
    return t


cdef int release_buffer(Py_buffer *b) except -1:
    cdef Ticket *t = <Ticket *>b.internal
    if t != NULL:
        tx_st_unexport(t.st)
        free(t.dims)
        free(t)
        b.internal = NULL
    return 0


# ---- import -----------------------------------------------------------------------------------------

cdef struct Borrow:
    Py_buffer view


cdef void borrow_release(void *ctx) noexcept nogil:
    cdef Borrow *b = <Borrow *>ctx
    with gil:
        PyBuffer_Release(&b.view)
    free(b)


def from_buffer(obj, DType dtype, tuple shape, tuple strides, int64_t offset, bint readonly):
    """A tensor on the memory of obj (any buffer exporter), which stays alive and shared.

    shape, strides (elements) and offset (bytes) describe the view of obj's bytes; the caller
    has checked the dtype. obj may have any layout: its own strides give the address range.
    """
    cdef Borrow *b = <Borrow *>malloc(sizeof(Borrow))
    cdef tx_storage *s
    cdef int64_t sh[64]
    cdef int64_t st[64]
    cdef int64_t lo, hi
    cdef int i, nd = len(shape)
    if b == NULL:
        raise MemoryError()
    try:
        PyObject_GetBuffer(obj, &b.view, PyBUF_STRIDED_RO if readonly else PyBUF_STRIDED)
    except:
        free(b)
        raise
    s = storage_struct()
    if s == NULL:
        PyBuffer_Release(&b.view)
        free(b)
        raise MemoryError()
    s.owners = 1
    s.flags = TX_ST_FOREIGN | (TX_ST_READONLY if readonly or b.view.readonly else 0)
    s.release = borrow_release
    s.ctx = b
    for i in range(nd):
        sh[i] = shape[i]
        st[i] = strides[i]
    # the storage starts at the lowest byte of the view, so that offsets are not negative
    tx_extent(nd, sh, st, 0, dtype.itemsize, &lo, &hi)
    if tx_numel(nd, sh) == 0:
        lo = 0
        hi = 0
    s.ptr = <char *>b.view.buf + offset + lo
    s.nbytes = <size_t>(hi - lo)
    return wrap(leaf_new(s, dtype.code, nd, sh, st, -lo // dtype.itemsize))


def from_address(uintptr_t address, owner, DType dtype, tuple shape, tuple strides, bint readonly):
    """A tensor on memory at an address (of element 0) that owner keeps alive. Strides in elements."""
    cdef tx_storage *s
    cdef int64_t sh[64]
    cdef int64_t st[64]
    cdef int64_t lo, hi
    cdef int i, nd = len(shape)
    if nd > TX_MAXDIM:
        raise ShapeError(f"from_address: {nd} axes are more than {TX_MAXDIM}")
    s = storage_struct()
    if s == NULL:
        raise MemoryError()
    for i in range(nd):
        sh[i] = shape[i]
        st[i] = strides[i]
    tx_extent(nd, sh, st, 0, dtype.itemsize, &lo, &hi)
    if tx_numel(nd, sh) == 0:
        lo = 0
        hi = 0
    s.owners = 1
    s.flags = TX_ST_FOREIGN | (TX_ST_READONLY if readonly else 0)
    s.release = object_release
    Py_INCREF(owner)
    s.ctx = <void *>owner
    s.ptr = <char *>address + lo
    s.nbytes = <size_t>(hi - lo)
    return wrap(leaf_new(s, dtype.code, nd, sh, st, -lo // dtype.itemsize))


cdef void object_release(void *ctx) noexcept nogil:
    with gil:
        Py_DECREF(<object>ctx)


def empty(tuple shape, DType dtype, int device=0, bint for_host=False, str op="empty"):
    """A new C-ordered tensor with undefined values, made for op. for_host: the host writes it first."""
    global g_for_host
    cdef int64_t s[64]
    cdef int i, nd = len(shape)
    if nd > TX_MAXDIM:
        raise ShapeError(f"{op}: {nd} axes are more than {TX_MAXDIM}")
    for i in range(nd):
        v = shape[i]
        if v < 0:
            raise ShapeError(f"{op}: sizes must not be negative, got {shape}")
        if v > 0x3fffffffffffffff:
            raise OutOfMemoryError(f"{op}: shape {shape} has more bytes than an address can count")
        s[i] = v
    g_for_host = for_host
    try:
        return wrap(leaf_empty(device, dtype.code, nd, s, op))
    finally:
        g_for_host = False


def full_like_scalar(tuple shape, value, DType dtype, int device=0):
    """A new tensor filled with a Python number."""
    cdef Tensor t = empty(shape, dtype, device, False, "full")
    if t.n.numel:
        if value == 0 and device == 0 and not (isinstance(value, float) and str(value)[0] == "-"):
            memset(t.n.st.ptr, 0, t.n.st.nbytes)
        else:
            fill_scalar(t.n, bool(value) if dtype.code == TX_BOOL else value, "full")
            t.n.st.version = 0
    return t


def cast(Tensor x, DType dtype, str name="astype"):
    """x converted to dtype (pending), by an op of that name; complex to real is refused."""
    cdef tx_node *n = x.n
    if KIND[n.dtype] == c'c' and KIND[dtype.code] not in (c'c', c'b'):
        raise DTypeError(f"{name}: {DTYPES[n.dtype].name} to {dtype.name} would drop the imaginary part; use tx.real or abs first")
    cdef Tensor r = wrap(node_new(TX_CAST, 0, 1, &n, NULL, n.dtype, dtype.code))
    if tracked(x) and grad_on():
        HOOKS.cast(x, r, name)
    return r


def copied(Tensor x, str name):
    """An independent copy of x (pending), by an op of that name."""
    cdef tx_node *n = x.n
    cdef Tensor r = wrap(node_new(TX_CAST, 0, 1, &n, NULL, n.dtype, n.dtype))
    if tracked(x) and grad_on():
        HOOKS.cast(x, r, name)
    return r


def broadcast_view(Tensor x, tuple shape):
    """x with a larger shape, a view: repeated axes have stride 0."""
    cdef int64_t s[64]
    cdef int i, nd = len(shape)
    if nd > TX_MAXDIM:
        raise ShapeError(f"broadcast_to: {nd} axes are more than {TX_MAXDIM}")
    for i in range(nd):
        s[i] = shape[i]
    if x.n.ndim > nd:
        raise ShapeError(f"broadcast_to: shape {shape_of(x.n)} has more axes than {shape}")
    ensure(x.n)
    cdef Tensor r = wrap(node_broadcast(x.n, nd, s, "broadcast_to"))
    view_of(x, r, "broadcast_to", shape)
    return r


def address(Tensor x):
    """Host address of x's first element (its value is computed first)."""
    ensure(x.n)
    return <uintptr_t>(x.n.st.ptr + x.n.offset * tx_item_size[x.n.dtype])


cdef tx_node *node_to_device(tx_node *n, int device) except NULL:
    """A leaf with the values of n on another device, C-ordered."""
    cdef tx_node *c
    if n.device == device:
        n.refs += 1
        return n
    t = wrap_extra(n)
    r = HOOKS.transfer(t, g_devices[device])
    c = (<Tensor>r).n
    c.refs += 1
    return c


cdef Tensor wrap_extra(tx_node *n):
    n.refs += 1
    return wrap(n)


def host_copy(Tensor dst, Tensor src):
    """Copies src's bytes into dst through host addresses; equal shape and dtype, any devices."""
    ensure(src.n)
    ensure(dst.n)
    wait_storage(dst.n.st)
    host_ready(src.n)
    copy_leaf_bytes(dst.n, src.n)


# ---- devices --------------------------------------------------------------------------------------------

def set_cpu_device(device):
    g_devices[0] = device


def register_device(device, backend):
    """Adds a device with its backend object; returns its number."""
    g_devices.append(device)
    g_backends.append(backend)
    return len(g_devices) - 1


def known_devices():
    """The devices registered so far, the CPU first."""
    return list(g_devices)


def device_number(Tensor x):
    return x.n.device


class StorageInfo:
    """What holds a tensor's bytes: device, nbytes, address, version, owners, serial."""
    __slots__ = ("device", "nbytes", "address", "version", "owners", "serial", "readonly", "foreign", "exports")

    def __repr__(self):
        return (f"Storage(device={str(self.device)!r}, nbytes={self.nbytes}, address={self.address:#x}, "
                f"version={self.version}, owners={self.owners})")


def storage_info(Tensor x):
    """The public record of x's storage; pending readers are evaluated first."""
    cdef tx_node *l
    cdef int owners
    ensure(x.n)
    flush_readers(x.n.st, NULL)
    drain()
    s = StorageInfo()
    owners = tx_st_owners(x.n.st)
    l = x.n.st.leaves
    while l != NULL:
        owners += l.handles + l.saves - 1
        l = l.leaf_next
    s.device = g_devices[x.n.device]
    s.nbytes = x.n.st.nbytes
    s.address = <uintptr_t>x.n.st.ptr
    s.version = x.n.st.version
    s.owners = owners
    s.serial = x.n.st.serial
    s.readonly = bool(x.n.st.flags & TX_ST_READONLY)
    s.foreign = bool(x.n.st.flags & TX_ST_FOREIGN)
    s.exports = tx_st_exports(x.n.st)
    return s


def offset_of(Tensor x):
    """Offset of x's first element in its storage, in elements."""
    ensure(x.n)
    return x.n.offset


def shares_storage(Tensor a, Tensor b):
    """Whether two tensors lie on one storage."""
    if a.n == b.n:
        return True
    ensure(a.n)
    ensure(b.n)
    return a.n.st == b.n.st


def may_overlap(Tensor a, Tensor b):
    """Whether two tensors have a byte in common (exact for strided views; True where undecided)."""
    ensure(a.n)
    ensure(b.n)
    if a.n == b.n:
        return a.n.numel > 0
    return bool(views_overlap(a.n, b.n))


def overlaps_itself(Tensor x):
    """Whether two indices of x reach one element."""
    ensure(x.n)
    return bool(x.n.numel > 1 and tx_view_overlaps_itself(x.n.ndim, x.n.shape, x.n.strides))


def bump_version(Tensor x):
    """Tells that x's storage was written from outside the core."""
    ensure(x.n)
    note_write(x.n.st, "a write from outside the core")
    x.n.st.version += 1


def prepare_write(Tensor x, str op):
    """Makes x's storage ready for a write from outside the core: computed, writable, no pending readers."""
    ensure(x.n)
    check_writable(x.n, op)
    wait_storage(x.n.st)
    flush_readers(x.n.st, NULL)
    host_ready(x.n)
    host_writable(x.n)


# ---- for autograd and modules ----------------------------------------------------------------------------

def retarget(Tensor x, Tensor y):
    """x becomes a handle on y's value; older views and graphs keep the old storage."""
    cdef tx_node *old = x.n
    y.n.refs += 1
    y.n.handles += 1
    x.n = y.n
    node_drop_handle(old)
    if x.meta is not None and (<Meta>x.meta).leaf:
        (<Meta>x.meta).like = (shape_of(x.n), DTYPES[x.n.dtype], g_devices[x.n.device])


def _set_requires_grad(Tensor x, value):
    hook = _grad_hooks.get("requires_grad")
    if hook is None:
        x.rg = bool(value)
    else:
        hook(x, bool(value))

_grad_hooks = {}


def reset_version(Tensor x):
    """A tensor that was just made and filled starts at version 0."""
    ensure(x.n)
    x.n.st.version = 0


def buffer_address(view):
    """Address of the first byte of a contiguous buffer."""
    cdef Py_buffer b
    PyObject_GetBuffer(view, &b, PyBUF_SIMPLE)
    cdef uintptr_t a = <uintptr_t>b.buf
    PyBuffer_Release(&b)
    return a


def is_c_contiguous(Tensor x):
    """Whether x's elements lie in C order without gaps."""
    return bool(tx_is_c_dense(x.n.ndim, x.n.shape, x.n.strides))


cdef class _Raw:
    """Buffer of a C-contiguous tensor's bytes, of any dtype."""
    cdef Tensor t
    cdef tx_storage *st
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t one[1]

    def __getbuffer__(self, Py_buffer *b, int flags):
        cdef tx_node *n = self.t.n
        export_begin(n)
        self.shape[0] = n.numel * tx_item_size[n.dtype]
        self.one[0] = 1
        b.buf = n.st.ptr + n.offset * tx_item_size[n.dtype]
        b.len = self.shape[0]
        b.itemsize = 1
        b.readonly = 1 if n.st.flags & TX_ST_READONLY else 0
        b.format = <char *>"B" if (flags & PyBUF_FORMAT) == PyBUF_FORMAT else NULL
        b.ndim = 1
        b.shape = self.shape
        b.strides = self.one
        b.suboffsets = NULL
        b.internal = <void *>n.st
        b.obj = self

    def __releasebuffer__(self, Py_buffer *b):
        tx_st_unexport(<tx_storage *>b.internal)


def raw_bytes(Tensor x):
    """A memoryview of the bytes of a C-contiguous tensor on the host."""
    cdef _Raw r = _Raw.__new__(_Raw)
    if not tx_is_c_dense(x.n.ndim, x.n.shape, x.n.strides):
        raise ShapeError("raw_bytes: the tensor is not C-contiguous")
    r.t = x
    return memoryview(r)
