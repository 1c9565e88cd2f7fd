# Pooling: shapes here, the arithmetic in pooling.h.

cdef extern from "pooling.h" nogil:
    enum:
        TXP_MAX, TXP_AVG, TXP_MAX_BACK, TXP_AVG_BACK, TXP_PICK
    ctypedef struct txp_job:
        int32_t pas "pass"
        int32_t dtype
        int64_t planes
        int64_t inp "in"[3]
        int64_t out[3]
        int64_t step[3]
        const int64_t *first[3]
        const int64_t *last[3]
        const void *src
        const void *scale
        void *dst
        int64_t *index
    void tx_pooling(txp_job *)


def has_pooling(Tensor x):
    """Whether x's device pools values of x's dtype where they lie, whatever their strides."""
    return x.n.device != 0 and g_backends[x.n.device].has_pooling(x.n.dtype)


cdef object device_pooling(int which, Tensor x, tuple result, tuple inputs, tuple outputs, object sliding, object index, object divide, bint indexed):
    """The same on x's device, which has kernels for it."""
    cdef object backend = g_backends[x.n.device]
    cdef int64_t shape[64]
    cdef int d
    cdef Tensor r
    cdef Tensor places = None
    cdef bint positions = which == 0 and indexed
    for d in range(len(result)):
        shape[d] = result[d]
    ensure(x.n)
    r = wrap(leaf_empty(x.n.device, x.n.dtype, len(result), shape, "pooling"))
    if positions:
        places = wrap(leaf_empty(x.n.device, TX_I64, len(result), shape, "pooling"))
    elif index is not None:
        places = index
        ensure(places.n)
    if x.n.numel and r.n.numel:
        mark(x.n.st, 0, 1)
        mark(r.n.st, 1, 1)
        if places is not None:
            mark(places.n.st, positions, 1)
        try:
            backend.pool(which, leaf_text(x.n), leaf_text(r.n), maybe_text(places), inputs, outputs, sliding, divide)
        finally:
            mark(x.n.st, 0, -1)
            mark(r.n.st, 1, -1)
            if places is not None:
                mark(places.n.st, positions, -1)
            wake_waiters()
    elif r.n.numel:
        write_value(r, 0, "pooling")
        reset_version(r)
    return (r, places) if which == 0 else r


def pooling(int which, Tensor x, tuple in_shape, tuple out_shape, tuple windows, tuple step, index=None, scale=None, sliding=None,
            divide=None, bint indexed=True):
    """One pass of pooling over contiguous float32 or float64 values, without history; shapes are checked by the caller.

    in_shape, out_shape: leading axes, then as many pooled ones as there are windows; windows: int64 tables (first, last) per
    axis. which 0: (maxima, their positions, or None unless indexed); 1: averages by scale; 2: gradient of maxima at index; 3: of
    averages; 4: the values of x at index. Where has_pooling says yes, x may be strided and of 16 bits, windows and scale are not
    looked at, and sliding (window, stride, padding, dilation: tuples, or None for adaptive windows) and divide (0: by the elements
    inside, 1: with the padding, 2: by the number that follows) say the same.
    """
    cdef txp_job j
    cdef int d, off, n = len(windows), lead = len(in_shape) - n
    cdef int64_t shape[64]
    cdef int64_t one[2]
    cdef tx_node *out
    cdef tx_node *pos
    cdef Tensor r
    cdef Tensor i = None
    cdef Tensor t
    one[0] = 0
    one[1] = 1
    result = in_shape if which == 2 or which == 3 else out_shape
    if x.n.device:
        if has_pooling(x):
            return device_pooling(which, x, result, in_shape[lead:], out_shape[lead:], sliding, index, divide, indexed)
        g_backends[x.n.device].on_host("pooling")
    j.pas = which
    j.dtype = x.n.dtype
    j.planes = 1
    for d in range(lead):
        j.planes *= in_shape[d]
    off = 3 - n
    for d in range(3):
        if d < off:
            j.inp[d] = j.out[d] = j.step[d] = 1
            j.first[d] = &one[0]
            j.last[d] = &one[1]
        else:
            j.inp[d] = in_shape[lead + d - off]
            j.out[d] = out_shape[lead + d - off]
            j.step[d] = step[d - off]
            t = windows[d - off][0]
            j.first[d] = <const int64_t *>conv_bytes(t)
            t = windows[d - off][1]
            j.last[d] = <const int64_t *>conv_bytes(t)
    j.src = conv_bytes(x)
    j.scale = NULL
    if scale is not None:
        t = scale
        j.scale = conv_bytes(t)
    for d in range(len(result)):
        shape[d] = result[d]
    out = leaf_empty(x.n.device, x.n.dtype, len(result), shape, "pooling")
    r = wrap(out)
    host_writable(out)
    j.dst = out.st.ptr
    j.index = NULL
    if which == 0 and indexed:
        pos = leaf_empty(x.n.device, TX_I64, len(result), shape, "pooling")
        i = wrap(pos)
        host_writable(pos)
    elif index is not None:
        i = index
    if i is not None:
        j.index = <int64_t *>conv_bytes(i)
    if x.n.numel and out.numel:
        mark(x.n.st, 0, 1)
        mark(out.st, 1, 1)
        with nogil:
            tx_pooling(&j)
        mark(x.n.st, 0, -1)
        mark(out.st, 1, -1)
        wake_waiters()
    elif out.numel:
        write_value(r, 0, "pooling")
        reset_version(r)
    return (r, i) if which == 0 else r
