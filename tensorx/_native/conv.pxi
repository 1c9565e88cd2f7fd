# Convolutions: shapes here, the arithmetic in conv.h.

cdef extern from "conv.h" nogil:
    enum:
        TXV_FORWARD, TXV_INPUT, TXV_WEIGHT
    ctypedef struct txv_shape:
        int32_t dtype
        int64_t batch, groups, cin, cout
        int64_t inp "in"[3]
        int64_t out[3]
        int64_t k[3]
        int64_t stride[3]
        int64_t pad[3]
        int64_t dilation[3]
    int tx_conv(int, const txv_shape *, char *, char *, char *, char *, const void *)


cdef char *conv_bytes(Tensor t) except? NULL:
    ensure(t.n)
    host_ready(t.n)
    return t.n.st.ptr + t.n.offset * tx_item_size[t.n.dtype]


cdef Tensor device_conv(int which, Tensor a, Tensor b, object bias, tuple shape, tuple stride, tuple padding, tuple dilation, int64_t groups):
    """The same on the operands' device, or None where it has no kernel."""
    cdef object backend = g_backends[a.n.device]
    cdef Tensor r
    if not backend.has_matmul(a.n.dtype):
        return None
    ensure(a.n)
    ensure(b.n)
    if bias is not None:
        ensure((<Tensor>bias).n)
    r = empty(shape, DTYPES[a.n.dtype], a.n.device)
    mark(a.n.st, 0, 1)
    mark(b.n.st, 0, 1)
    mark(r.n.st, 1, 1)
    if bias is not None:
        mark((<Tensor>bias).n.st, 0, 1)
    try:
        backend.convolve(which, leaf_text(a.n), leaf_text(b.n), leaf_text(r.n), maybe_text(bias), stride, padding, dilation, groups)
    finally:
        if bias is not None:
            mark((<Tensor>bias).n.st, 0, -1)
        mark(a.n.st, 0, -1)
        mark(b.n.st, 0, -1)
        mark(r.n.st, 1, -1)
        wake_waiters()
    return r


def has_conv(Tensor x):
    """Whether x's device convolves values of x's dtype where they lie."""
    return x.n.device != 0 and g_backends[x.n.device].has_matmul(x.n.dtype)


def conv(int which, Tensor a, Tensor b, bias, tuple x_shape, tuple w_shape, tuple y_shape, tuple stride, tuple padding,
         tuple dilation, int64_t groups):
    """One pass of a convolution over contiguous float32 or float64 tensors, without history; shapes are checked by the caller.
    On a device that has_conv names, a and b may be strided, and of 16 bits.

    x_shape (N, C, *spatial), w_shape (O, C / groups, *kernel), y_shape (N, O, *out), up to three spatial axes. which 0: y of
    a = x and b = w (plus bias); 1: the gradient of x (plus bias) of a = y and b = w; 2: the gradient of w of a = x and b = y.
    """
    cdef txv_shape s
    cdef int d, off, sp = len(x_shape) - 2, rc
    cdef int64_t shape[5]
    cdef char *pa
    cdef char *pb
    cdef char *pc
    cdef char *pbias = NULL
    cdef const void *gemm = K.gemm
    cdef tx_node *out
    cdef Tensor r
    cdef Tensor t
    result = y_shape if which == 0 else x_shape if which == 1 else w_shape
    s.dtype = a.n.dtype
    s.batch = x_shape[0]
    s.groups = groups
    s.cin = x_shape[1]
    s.cout = w_shape[0]
    off = 3 - sp
    for d in range(3):
        if d < off:
            s.inp[d] = s.out[d] = s.k[d] = s.stride[d] = s.dilation[d] = 1
            s.pad[d] = 0
        else:
            s.inp[d] = x_shape[2 + d - off]
            s.out[d] = y_shape[2 + d - off]
            s.k[d] = w_shape[2 + d - off]
            s.stride[d] = stride[d - off]
            s.pad[d] = padding[d - off]
            s.dilation[d] = dilation[d - off]
    if a.n.device:
        r = device_conv(which, a, b, bias, result, stride, padding, dilation, groups)
        if r is not None:
            return r
        g_backends[a.n.device].on_host("convolution")
    pa = conv_bytes(a)
    pb = conv_bytes(b)
    if bias is not None:
        t = bias
        pbias = conv_bytes(t)
    for d in range(sp + 2):
        shape[d] = result[d]
    out = leaf_empty(a.n.device, a.n.dtype, sp + 2, shape, "convolution")
    r = wrap(out)
    host_writable(out)
    pc = out.st.ptr
    if out.numel == 0:
        return r
    mark(a.n.st, 0, 1)
    mark(b.n.st, 0, 1)
    mark(out.st, 1, 1)
    try:
        with nogil:
            tx_polls(1)
            if which == 0:
                rc = tx_conv(TXV_FORWARD, &s, pa, pb, pc, pbias, gemm)
            elif which == 1:
                rc = tx_conv(TXV_INPUT, &s, pc, pb, pa, pbias, gemm)
            else:
                rc = tx_conv(TXV_WEIGHT, &s, pa, pc, pb, NULL, gemm)
            tx_polls(0)
    finally:
        mark(a.n.st, 0, -1)
        mark(b.n.st, 0, -1)
        mark(out.st, 1, -1)
        wake_waiters()
    if rc == 1:
        raise oom_error(0, out.st.nbytes, "convolution workspace")
    if rc == 2:
        interrupted()
    return r
