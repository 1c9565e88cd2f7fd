# In-place ops: a row of the table, or a value, written into the storage of a tensor.

cdef int run_inplace(int op, Tensor x, int nin, PyObject **args) except -1:
    global g_hold_imm
    cdef tx_node *r
    cdef tx_node *c
    ensure(x.n)
    check_writable(x.n, OP_NAMES[op])
    g_hold_imm = True
    try:
        r = ew_node(op, nin, args)
        try:
            if r.dtype != x.n.dtype:
                check_inplace_dtype(OP_NAMES[op], x.n.dtype, r.dtype)
                c = cast_node(r, x.n.dtype)
                node_unref(r)
                r = c
            if r.ndim != x.n.ndim or not tx_same_shape(r.ndim, r.shape, x.n.shape):
                raise ShapeError(f"{OP_NAMES[op]}_: the result has shape {shape_of(r)} and does not fit the destination of shape {shape_of(x.n)}; "
                                 "an in-place op never changes a shape")
            g_hold_imm = False
            node_write(x.n, r, OP_NAMES[op] + "_")
        finally:
            node_unref(r)
    finally:
        g_hold_imm = False
    return 0


cdef int check_inplace_dtype(str op, int dst, int src) except -1:
    """A result may narrow within its kind, never across kinds."""
    cdef int a = KIND[dst], b = KIND[src]
    order = b"buifc"
    if a == b or (a in b"iu" and b in b"iu" and not (a == c'u' and b == c'i')) or order.index(b) < order.index(a):
        return 0
    raise DTypeError(f"{op}_: a {DTYPES[src].name} result cannot be stored in place in a {DTYPES[dst].name} tensor (the kind would change); "
                     f"write x = {op}(x, ...) instead, or convert with astype")


cdef object inplace_op(int op, Tensor x, object other):
    if not isinstance(other, Tensor) and scalar_kind(other) == 0:
        if is_ndarray(other):
            raise not_a_tensor(OP_NAMES[op] + "_", other)
        return NotImplemented
    return elementwise_inplace(op, x, other)


def elementwise_inplace(int op, Tensor x, *others):
    """Row number op with its result written into x's storage; returns x."""
    cdef PyObject *a[4]
    cdef int k, nin = len(others) + 1
    cdef bint rg = tracked(x)
    if nin != OP_NIN[op]:
        raise TypeError(f"{OP_NAMES[op]}_: takes {OP_NIN[op] - 1} operands besides the tensor, got {nin - 1}")
    a[0] = <PyObject *>x
    for k in range(1, nin):
        a[k] = PyTuple_GET_ITEM(others, k - 1)
        if isinstance(<object>a[k], Tensor) and tracked(<Tensor><object>a[k]):
            rg = True
    if rg and grad_on():
        HOOKS.inplace(op, x, others, lambda: _inplace_again(op, x, others))
        return x
    run_inplace(op, x, nin, a)
    return x


def _inplace_again(int op, Tensor x, tuple others):
    cdef PyObject *a[4]
    cdef int k
    a[0] = <PyObject *>x
    for k in range(1, len(others) + 1):
        a[k] = PyTuple_GET_ITEM(others, k - 1)
    run_inplace(op, x, len(others) + 1, a)


def write_value(Tensor x, object source, str op):
    """x[...] = source for a tensor or Python number that broadcasts to x; kinds may not change downwards."""
    cdef tx_node *s
    cdef tx_node *c
    cdef tx_scalar sc
    ensure(x.n)
    if not isinstance(source, Tensor):
        if scalar_kind(source) == 0:
            raise not_a_tensor(op, source)
        fill_scalar(x.n, source, op)
        return
    s = (<Tensor>source).n
    if s.dtype != x.n.dtype:
        check_inplace_dtype(op.rstrip("_"), x.n.dtype, s.dtype)
    if s.device != x.n.device:
        if s.ndim != 0:
            raise device_error(op, 1, x.n.device, s.device)
        s = node_to_device(s, x.n.device)
    else:
        s.refs += 1
    try:
        if s.dtype != x.n.dtype:
            c = cast_node(s, x.n.dtype)
            node_unref(s)
            s = c
        node_write(x.n, s, op)
    finally:
        node_unref(s)


cdef int fill_scalar(tx_node *dst, object value, str op) except -1:
    """dst[...] = a Python number."""
    cdef tx_scalar number
    number_bytes(&number, value, dst.dtype, op)
    return fill_number(dst, &number, op)
