# DLPack, both ways: zero copies, with lifetimes that end in either order.

from cpython.pycapsule cimport PyCapsule_New, PyCapsule_IsValid, PyCapsule_SetName, PyCapsule_GetName

cdef extern from "dlpack.h" nogil:
    enum:
        TXDL_CPU, TXDL_METAL, TXDL_INT, TXDL_UINT, TXDL_FLOAT, TXDL_BFLOAT, TXDL_COMPLEX, TXDL_BOOL
    uint64_t TXDL_READ_ONLY, TXDL_COPIED
    ctypedef struct txdl_tensor:
        void *data
        int32_t device_type, device_id, ndim
        uint8_t code, bits
        uint16_t lanes
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct txdl_managed:
        txdl_tensor t
        void *ctx
        void (*deleter)(txdl_managed *) noexcept nogil
    ctypedef struct txdl_versioned:
        uint32_t major, minor
        void *ctx
        void (*deleter)(txdl_versioned *) noexcept nogil
        uint64_t flags
        txdl_tensor t
    void txdl_free_managed(txdl_managed *) noexcept
    void txdl_free_versioned(txdl_versioned *) noexcept
    void txdl_release_managed(void *) noexcept
    void txdl_release_versioned(void *) noexcept


cdef void capsule_end(object capsule) noexcept:
    """A capsule that nobody consumed gives its tensor up itself."""
    if PyCapsule_IsValid(capsule, "dltensor"):
        txdl_release_managed(PyCapsule_GetPointer(capsule, "dltensor"))
    elif PyCapsule_IsValid(capsule, "dltensor_versioned"):
        txdl_release_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"))


def dlpack_export(Tensor x, bint versioned, bint copied, bint host):
    """A capsule of x's memory. host: the address for the CPU, also of a device with unified memory."""
    cdef tx_node *n = x.n
    cdef txdl_tensor *t
    cdef txdl_managed *m = NULL
    cdef txdl_versioned *v = NULL
    cdef int64_t *dims
    cdef int64_t step = 1
    cdef int i, isz = tx_item_size[n.dtype], kind = KIND[n.dtype]
    ensure(n)
    if n.st.flags & TX_ST_READONLY and not versioned:
        raise BufferError("__dlpack__: the tensor is read-only, which only versioned capsules can say: pass max_version=(1, 0) or copy=True")
    dims = <int64_t *>malloc((2 * n.ndim + 1) * sizeof(int64_t))
    if dims == NULL:
        raise MemoryError()
    if versioned:
        v = <txdl_versioned *>calloc(1, sizeof(txdl_versioned))
    else:
        m = <txdl_managed *>calloc(1, sizeof(txdl_managed))
    if v == NULL and m == NULL:
        free(dims)
        raise MemoryError()
    try:
        export_begin(n)
    except:
        free(dims)
        free(v)
        free(m)
        raise
    t = &v.t if versioned else &m.t
    for i in range(n.ndim - 1, -1, -1):
        dims[i] = n.shape[i]
        # consumers compare strides of axes of length one too: give them the C-order value
        dims[n.ndim + i] = step if n.shape[i] == 1 else n.strides[i]
        step = dims[n.ndim + i] * (n.shape[i] if n.shape[i] > 1 else 1)
    t.shape = dims
    t.strides = dims + n.ndim
    t.ndim = n.ndim
    t.lanes = 1
    t.bits = <uint8_t>(8 * isz)
    t.code = <uint8_t>(TXDL_BOOL if kind == c'b' else TXDL_INT if kind == c'i' else TXDL_UINT if kind == c'u'
                       else TXDL_COMPLEX if kind == c'c' else TXDL_BFLOAT if n.dtype == TX_BF16 else TXDL_FLOAT)
    if n.device == 0 or host:
        t.device_type = TXDL_CPU
        t.device_id = 0
        t.data = n.st.ptr + n.offset * isz
    else:
        t.device_type = TXDL_METAL
        t.device_id = g_devices[n.device].ordinal
        t.data = <void *><uintptr_t>g_backends[n.device].native_buffer(<uintptr_t>n.st.handle)
        t.byte_offset = <uint64_t>(n.offset * isz) + <uint64_t>g_backends[n.device].native_offset(<uintptr_t>n.st.handle)
    if versioned:
        v.major = 1
        v.minor = 0
        v.flags = (TXDL_READ_ONLY if n.st.flags & TX_ST_READONLY else 0) | (TXDL_COPIED if copied else 0)
        v.ctx = n.st
        v.deleter = txdl_free_versioned
        return PyCapsule_New(v, "dltensor_versioned", <void (*)(object) noexcept>capsule_end)
    m.ctx = n.st
    m.deleter = txdl_free_managed
    return PyCapsule_New(m, "dltensor", <void (*)(object) noexcept>capsule_end)


def dlpack_import(capsule):
    """A tensor on the memory of a DLPack capsule, which is consumed."""
    cdef txdl_tensor *t
    cdef txdl_managed *m = NULL
    cdef txdl_versioned *v = NULL
    cdef tx_storage *s
    cdef int64_t shape[64]
    cdef int64_t strides[64]
    cdef int64_t lo, hi
    cdef int dt = -1, i, isz
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        v = <txdl_versioned *>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if v.major != 1:
            raise BufferError(f"from_dlpack: a capsule of DLPack {v.major}.{v.minor}, this reads 1.x")
        t = &v.t
    elif PyCapsule_IsValid(capsule, "dltensor"):
        m = <txdl_managed *>PyCapsule_GetPointer(capsule, "dltensor")
        t = &m.t
    else:
        raise BufferError("from_dlpack: the capsule was consumed already or is no DLPack tensor")
    if t.device_type != TXDL_CPU and t.device_type != 3:   # 3: pinned host memory
        raise BufferError(f"from_dlpack: the data is on DLPack device type {t.device_type}, only CPU memory can be shared here; copy it to the CPU first")
    if t.lanes != 1:
        raise BufferError(f"from_dlpack: vector elements of {t.lanes} lanes are not supported")
    for d in DTYPES:
        if d.itemsize * 8 == t.bits:
            code = {"b": TXDL_BOOL, "i": TXDL_INT, "u": TXDL_UINT, "f": TXDL_FLOAT, "c": TXDL_COMPLEX}[d.kind]
            if d.code == TX_BF16:
                code = TXDL_BFLOAT
            if code == t.code:
                dt = d.code
                break
    if dt < 0:
        raise BufferError(f"from_dlpack: DLPack type code {t.code} of {t.bits} bits is not a data type of tensorx")
    if t.ndim > TX_MAXDIM:
        raise BufferError(f"from_dlpack: {t.ndim} axes are more than {TX_MAXDIM}")
    isz = tx_item_size[dt]
    for i in range(t.ndim):
        shape[i] = t.shape[i]
        if shape[i] < 0:
            raise BufferError("from_dlpack: negative size")
    if t.strides != NULL:
        for i in range(t.ndim):
            strides[i] = t.strides[i]
    else:
        tx_c_strides(t.ndim, shape, strides)
    s = storage_struct()
    if s == NULL:
        raise MemoryError()
    tx_extent(t.ndim, shape, strides, 0, isz, &lo, &hi)
    if tx_numel(t.ndim, shape) == 0:
        lo = 0
        hi = 0
    s.owners = 1
    s.flags = TX_ST_FOREIGN
    s.ptr = <char *>t.data + t.byte_offset + lo
    s.nbytes = <size_t>(hi - lo)
    if v != NULL:
        if v.flags & TXDL_READ_ONLY:
            s.flags |= TX_ST_READONLY
        s.release = txdl_release_versioned
        s.ctx = v
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
    else:
        s.release = txdl_release_managed
        s.ctx = m
        PyCapsule_SetName(capsule, "used_dltensor")
    return wrap(leaf_new(s, dt, t.ndim, shape, strides, -lo // isz))
