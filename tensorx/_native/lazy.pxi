# Values that are made when they are first read: what a module's parameters start from.
#
# A lazy node has no operands, lies on no storage and is in no list of pending values: nothing
# asks for it but a reader. Every op that reads it, or views it, evaluates it first.

def lazy(tuple shape, dtype, int device, recipe):
    """A tensor whose values ``recipe(shape, dtype, device number)``, a tensor of that kind, gives at the first read."""
    cdef int64_t s[64]
    cdef int i, nd = len(shape)
    cdef int dt = dtype.code
    cdef tx_node *n
    cdef int64_t numel
    if nd > TX_MAXDIM:
        raise ShapeError(f"lazy: {nd} axes are more than {TX_MAXDIM}")
    for i in range(nd):
        s[i] = shape[i]
    numel = tx_numel_checked(nd, s, tx_item_size[dt])
    if numel < 0:
        raise too_large("lazy", nd, s, dt)
    n = node_alloc(nd)
    if n == NULL:
        raise MemoryError()
    for i in range(nd):
        n.shape[i] = s[i]
    tx_c_strides(nd, n.shape, n.strides)
    n.kind = TX_LAZY
    n.dtype = <uint8_t>dt
    n.odtype = <uint8_t>dt
    n.device = device
    n.numel = numel
    n.cost = 1
    n.sc[0].u = <uint64_t><uintptr_t><void *>recipe
    Py_INCREF(recipe)
    return wrap(n)


cdef void lazy_free(tx_node *n) noexcept:
    """Gives the recipe back."""
    cdef PyObject *p = <PyObject *><uintptr_t>n.sc[0].u
    n.sc[0].u = 0
    if p != NULL:
        Py_DECREF(<object>p)


def lazy_recipe(Tensor x):
    """The recipe of a value that was not read yet, or None."""
    if x.n.kind != TX_LAZY or x.n.flags & TX_N_BUSY:
        return None
    return <object><PyObject *><uintptr_t>x.n.sc[0].u


def set_lazy_recipe(Tensor x, recipe):
    """Another recipe for a value that was not read yet; False where it is too late."""
    cdef PyObject *old
    if x.n.kind != TX_LAZY or x.n.flags & TX_N_BUSY:
        return False
    old = <PyObject *><uintptr_t>x.n.sc[0].u
    Py_INCREF(recipe)
    x.n.sc[0].u = <uint64_t><uintptr_t><void *>recipe
    Py_DECREF(<object>old)
    return True


cdef int lazy_evaluate(tx_node *n) except -1:
    """n becomes a leaf on a storage of its own with what its recipe gives."""
    cdef Tensor t
    cdef tx_node *c
    cdef tx_storage *s
    recipe = <object><PyObject *><uintptr_t>n.sc[0].u
    n.refs += 1
    n.flags |= TX_N_BUSY                     # other threads wait for it
    token = GRAD_MODE.set(False)
    try:
        t = recipe(shape_of(n), DTYPES[n.dtype], n.device)
        if shape_of(t.n) != shape_of(n) or t.n.dtype != n.dtype or t.n.device != n.device:
            raise TensorxError(f"internal: a recipe for {shape_of(n)} {DTYPES[n.dtype].name} gave {shape_of(t.n)} {DTYPES[t.n.dtype].name}")
        ensure(t.n)
        c = t.n
        if not (tx_is_c_dense(c.ndim, c.shape, c.strides) and unique_owner(c) and c.offset == 0):
            t = wrap(node_c_copy(c))
        s = t.n.st
        tx_st_own(s)
        s.version = 0
        lazy_free(n)
        n.flags &= ~<uint8_t>TX_N_BUSY
        node_settle(n, s)
    finally:
        n.flags &= ~<uint8_t>TX_N_BUSY
        GRAD_MODE.reset(token)
        node_unref(n)
        wake_waiters()
    return 0
