# The handle: what Python holds. Everything a value is lives in its node.

cdef class Hooks:
    """Functions of the Python layers that the compiled core calls: autograd, indexing, printing."""
    cdef public object cast                  # (x, out, name) -> None: record out's history
    cdef public object plan                  # (op, wanted, is_complex) -> the gradient of a row
    cdef public object undo_view             # (node, g) -> gradient of a view's source
    cdef public object match                 # (g, shape, dtype) -> g summed and converted
    cdef public object hooked                # (functions, g) -> g after the hooks of a tensor
    cdef public object freed                 # (node) -> error
    cdef public object stale                 # (node, what, version, now, serial) -> error
    cdef public object anomaly               # (node, gradients) -> None, or raises
    cdef public object inplace               # (name, x, run) -> None: calls run() and records
    cdef public object getitem               # (x, index) -> Tensor: what is not basic indexing
    cdef public object setitem               # (x, index, value) -> None
    cdef public object matmul                # (x, y) -> Tensor
    cdef public object format                # (x) -> str
    cdef public object transfer              # (x, device) -> Tensor
    cdef public object reduce_ex             # (x) -> pickle tuple

hooks = Hooks()
cdef Hooks HOOKS = hooks

_grad_mode = contextvars.ContextVar("tensorx.grad_mode", default=True)
cdef object GRAD_MODE = _grad_mode


cdef inline bint grad_on() except -1:
    cdef PyObject *v = NULL
    if PyContextVar_Get(GRAD_MODE, NULL, &v) < 0:
        return -1
    if v == NULL:
        return True
    cdef bint on = v == Py_True
    Py_DECREF(<object>v)
    return on


@cython.freelist(256)
cdef class Tensor:
    """A handle on a value: an n-dimensional array of one dtype on one device.

    Made by :func:`tensorx.asarray`, :func:`tensorx.zeros` and the like, and by every op.

    >>> import tensorx as tx
    >>> x = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> (x * 2.0 + 1.0).tolist()
    [[3.0, 5.0], [7.0, 9.0]]
    """
    cdef tx_node *n
    cdef bint rg                             # requires_grad
    cdef object meta                         # autograd's record, or None
    cdef public bint _is_parameter           # made by nn.Parameter
    cdef object __weakref__

    def __init__(self, *args, **kwargs):
        raise TypeError("Tensor is not called directly: use tensorx.tensor, tensorx.asarray, tensorx.empty, ...")

    def __dealloc__(self):
        if self.n != NULL:
            node_drop_handle(self.n)

    # ---- what it is ------------------------------------------------------------------

    @property
    def shape(self):
        """Sizes of the axes, a tuple of ints."""
        return shape_of(self.n)

    @property
    def ndim(self):
        """Number of axes."""
        return self.n.ndim

    @property
    def size(self):
        """Number of elements."""
        return self.n.numel

    @property
    def dtype(self):
        """Data type of the elements."""
        return DTYPES[self.n.dtype]

    @property
    def device(self):
        """The device that holds the value."""
        return g_devices[self.n.device]

    @property
    def itemsize(self):
        """Bytes of one element."""
        return tx_item_size[self.n.dtype]

    @property
    def nbytes(self):
        """Bytes of the elements (size times itemsize)."""
        return self.n.numel * tx_item_size[self.n.dtype]

    @property
    def strides(self):
        """Distance between neighbours along each axis, in elements."""
        return strides_of(self.n)

    @property
    def requires_grad(self):
        """Whether gradients are computed with respect to this tensor."""
        return tracked(self)

    @requires_grad.setter
    def requires_grad(self, value):
        _set_requires_grad(self, value)

    @property
    def _meta(self):
        return self.meta

    @_meta.setter
    def _meta(self, value):
        self.meta = value

    @property
    def _rg(self):
        return self.rg

    @_rg.setter
    def _rg(self, bint value):
        self.rg = value

    @property
    def T(self):
        """The transpose of a matrix (2 axes), a view."""
        if self.n.ndim != 2:
            raise ShapeError(f"T: needs 2 axes, this tensor has shape {shape_of(self.n)}; use mT (last two axes) or permute_dims")
        return permute(self, (1, 0), "T")

    @property
    def mT(self):
        """The last two axes exchanged, a view."""
        cdef int nd = self.n.ndim
        if nd < 2:
            raise ShapeError(f"mT: needs at least 2 axes, this tensor has shape {shape_of(self.n)}")
        return permute(self, tuple(range(nd - 2)) + (nd - 1, nd - 2), "mT")

    # ---- storage ------------------------------------------------------------------------

    @property
    def version(self):
        """How often the storage was written in place since it was made."""
        ensure(self.n)
        return self.n.st.version

    def is_unique(self):
        """Whether nothing but this handle holds the storage, so that a write can reuse it.

        Pending readers are evaluated first.
        """
        ensure(self.n)
        flush_readers(self.n.st, NULL)
        drain()
        return unique_owner(self.n)

    def alias(self):
        """A second handle on the same storage: what is written to one is seen by the other."""
        cdef Tensor r = Tensor.__new__(Tensor)
        r.n = self.n
        r.n.refs += 1
        r.n.handles += 1
        if linked(self):
            record_view(self, r, "alias", ())
        elif self.meta is not None and not (<Meta>self.meta).leaf:
            r.meta = self.meta
        return r

    def detach(self):
        """The same storage and version without the history of gradients."""
        cdef Tensor r = Tensor.__new__(Tensor)
        r.n = self.n
        r.n.refs += 1
        r.n.handles += 1
        if linked(self):
            r.meta = Meta.__new__(Meta)      # a history of its own, should it get one
        elif self.meta is not None and not (<Meta>self.meta).leaf:
            r.meta = self.meta
        return r

    def copy(self):
        """An independent tensor with the same values (differentiable)."""
        return copied(self, "copy")

    def clone(self):
        """The same as :meth:`copy`."""
        return copied(self, "clone")

    def __copy__(self):
        return self.copy()

    # ---- values -----------------------------------------------------------------------------

    def item(self):
        """The only element as a Python number."""
        cdef tx_node *n = self.n
        if n.numel != 1:
            raise ShapeError(f"item: needs exactly one element, this tensor has shape {shape_of(n)}; index it first or use tolist()")
        cdef tx_scalar value
        if n.kind == TX_EW and peek_one(n, &value):
            return number_at(<char *>&value, n.dtype)
        if n.kind != TX_LEAF:
            ensure(n)
        if n.device != 0 or n.st.writing:
            host_ready(n)
        return element(n, n.offset)

    def tolist(self):
        """The values as nested lists of Python numbers (a number for 0 axes)."""
        ensure(self.n)
        host_ready(self.n)
        return nested_list(self.n, 0, self.n.offset)

    def __bool__(self):
        if self.n.numel != 1:
            raise ShapeError(f"bool: the truth of a tensor of shape {shape_of(self.n)} is ambiguous; use tx.any or tx.all")
        return bool(self.item())

    def __float__(self):
        _one_number(self, "float")
        return float(self.item())

    def __int__(self):
        _one_number(self, "int")
        return int(self.item())

    def __complex__(self):
        _one_number(self, "complex")
        return complex(self.item())

    def __index__(self):
        if self.n.numel != 1 or KIND[self.n.dtype] not in (c'i', c'u'):
            raise TypeError(f"index: only an integer tensor of one element is an index, this is {DTYPES[self.n.dtype].name} of shape {shape_of(self.n)}")
        return self.item()

    def __len__(self):
        if self.n.ndim == 0:
            raise TypeError("len: a 0-d tensor has no length")
        return self.n.shape[0]

    def __iter__(self):
        if self.n.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.n.shape[0]))

    def __hash__(self):
        return <Py_hash_t>(<uintptr_t><void *>self >> 4)

    def __repr__(self):
        return HOOKS.format(self)

    def __str__(self):
        return HOOKS.format(self)

    def __reduce_ex__(self, protocol):
        return HOOKS.reduce_ex(self)

    # ---- operators ------------------------------------------------------------------------------

    def __add__(self, other):
        """__add__($self, other, /)\n--\n\nself + other"""
        return binop(OP_ADD, self, other)
    def __radd__(self, other):
        """__radd__($self, other, /)\n--\n\nother + self"""
        return binop(OP_ADD, other, self)
    def __sub__(self, other):
        """__sub__($self, other, /)\n--\n\nself - other"""
        return binop(OP_SUB, self, other)
    def __rsub__(self, other):
        """__rsub__($self, other, /)\n--\n\nother - self"""
        return binop(OP_SUB, other, self)
    def __mul__(self, other):
        """__mul__($self, other, /)\n--\n\nself * other"""
        return binop(OP_MUL, self, other)
    def __rmul__(self, other):
        """__rmul__($self, other, /)\n--\n\nother * self"""
        return binop(OP_MUL, other, self)
    def __truediv__(self, other):
        """__truediv__($self, other, /)\n--\n\nself / other"""
        return binop(OP_DIV, self, other)
    def __rtruediv__(self, other):
        """__rtruediv__($self, other, /)\n--\n\nother / self"""
        return binop(OP_DIV, other, self)
    def __floordiv__(self, other):
        """__floordiv__($self, other, /)\n--\n\nself // other"""
        return binop(OP_FLOORDIV, self, other)
    def __rfloordiv__(self, other):
        """__rfloordiv__($self, other, /)\n--\n\nother // self"""
        return binop(OP_FLOORDIV, other, self)
    def __mod__(self, other):
        """__mod__($self, other, /)\n--\n\nself % other"""
        return binop(OP_REM, self, other)
    def __rmod__(self, other):
        """__rmod__($self, other, /)\n--\n\nother % self"""
        return binop(OP_REM, other, self)
    def __pow__(self, other, modulo): return NotImplemented if modulo is not None else binop(OP_POW, self, other)
    def __rpow__(self, other, modulo): return NotImplemented if modulo is not None else binop(OP_POW, other, self)
    def __and__(self, other):
        """__and__($self, other, /)\n--\n\nself & other"""
        return binop(OP_AND, self, other)
    def __rand__(self, other):
        """__rand__($self, other, /)\n--\n\nother & self"""
        return binop(OP_AND, other, self)
    def __or__(self, other):
        """__or__($self, other, /)\n--\n\nself | other"""
        return binop(OP_OR, self, other)
    def __ror__(self, other):
        """__ror__($self, other, /)\n--\n\nother | self"""
        return binop(OP_OR, other, self)
    def __xor__(self, other):
        """__xor__($self, other, /)\n--\n\nself ^ other"""
        return binop(OP_XOR, self, other)
    def __rxor__(self, other):
        """__rxor__($self, other, /)\n--\n\nother ^ self"""
        return binop(OP_XOR, other, self)
    def __lshift__(self, other):
        """__lshift__($self, other, /)\n--\n\nself << other"""
        return binop(OP_SHL, self, other)
    def __rlshift__(self, other):
        """__rlshift__($self, other, /)\n--\n\nother << self"""
        return binop(OP_SHL, other, self)
    def __rshift__(self, other):
        """__rshift__($self, other, /)\n--\n\nself >> other"""
        return binop(OP_SHR, self, other)
    def __rrshift__(self, other):
        """__rrshift__($self, other, /)\n--\n\nother >> self"""
        return binop(OP_SHR, other, self)
    def __neg__(self): return unop(OP_NEG, self)
    def __pos__(self): return unop(OP_POS, self)
    def __abs__(self): return unop(OP_ABS, self)
    def __invert__(self): return unop(OP_INVERT, self)
    def __eq__(self, other): return binop(OP_EQ, self, other)
    def __ne__(self, other): return binop(OP_NE, self, other)
    def __lt__(self, other): return binop(OP_LT, self, other)
    def __le__(self, other): return binop(OP_LE, self, other)
    def __gt__(self, other): return binop(OP_GT, self, other)
    def __ge__(self, other): return binop(OP_GE, self, other)
    def __matmul__(self, other):
        """__matmul__($self, other, /)\n--\n\nself @ other"""
        if not isinstance(other, Tensor):
            return matmul_foreign(other)
        return HOOKS.matmul(self, other)
    def __rmatmul__(self, other):
        """__rmatmul__($self, other, /)\n--\n\nother @ self"""
        return matmul_foreign(other)
    def __imatmul__(self, other):
        return self.copy_(HOOKS.matmul(self, other))

    def __iadd__(self, other): return inplace_op(OP_ADD, self, other)
    def __isub__(self, other): return inplace_op(OP_SUB, self, other)
    def __imul__(self, other): return inplace_op(OP_MUL, self, other)
    def __itruediv__(self, other): return inplace_op(OP_DIV, self, other)
    def __ifloordiv__(self, other): return inplace_op(OP_FLOORDIV, self, other)
    def __imod__(self, other): return inplace_op(OP_REM, self, other)
    def __ipow__(self, other): return inplace_op(OP_POW, self, other)
    def __iand__(self, other): return inplace_op(OP_AND, self, other)
    def __ior__(self, other): return inplace_op(OP_OR, self, other)
    def __ixor__(self, other): return inplace_op(OP_XOR, self, other)
    def __ilshift__(self, other): return inplace_op(OP_SHL, self, other)
    def __irshift__(self, other): return inplace_op(OP_SHR, self, other)

    # ---- indexing ---------------------------------------------------------------------------------

    def __getitem__(self, index):
        cdef Tensor r = basic_index(self, index)
        if r is None:
            if not self.rg:
                return pick(self, index, "getitem", True).gather()
            return HOOKS.getitem(self, index)
        view_of(self, r, "getitem", index)
        return r

    def __setitem__(self, index, value):
        cdef Tensor v
        if (isinstance(value, Tensor) or scalar_kind(value)) and not tracked(self) and not (isinstance(value, Tensor) and tracked(<Tensor>value)):
            v = basic_index(self, index)
            if v is not None:
                write_value(v, value, "setitem")
                return
        HOOKS.setitem(self, index, value)

    # ---- writing ------------------------------------------------------------------------------------

    def copy_(self, source):
        """Writes the values of source (a tensor or number that broadcasts) into this storage.

        A pending source is computed straight into it. Returns self.
        """
        if tracked(self) or (isinstance(source, Tensor) and tracked(<Tensor>source)):
            if grad_on():
                HOOKS.inplace("copy_", self, (source,), lambda: write_value(self, source, "copy_"))
                return self
        write_value(self, source, "copy_")
        return self

    # ---- export ---------------------------------------------------------------------------------------

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        export_buffer(self, buffer, flags)

    def __releasebuffer__(self, Py_buffer *buffer):
        release_buffer(buffer)


cdef inline Tensor wrap(tx_node *n):
    """A handle on n; takes over one hold."""
    cdef Tensor t = Tensor.__new__(Tensor)
    t.n = n
    n.handles += 1
    return t


cdef bint unique_owner(tx_node *n) noexcept:
    """One predicate for users: the storage has this one node, and the node this one handle."""
    return (n.handles + n.saves == 1 and n.refs == 1 and tx_st_owners(n.st) == 1
            and tx_st_exports(n.st) == 0 and not n.st.flags & TX_ST_FOREIGN)


cdef object _one_number(Tensor t, str what):
    if t.n.numel != 1:
        raise TypeError(f"{what}: only a tensor of one element converts, this one has shape {shape_of(t.n)}")


cdef int host_ready(tx_node *n) except -1:
    """The bytes of a leaf can be read by this thread."""
    while blocked(n.st, False):
        wait_for_others(NULL, n.st)
    if n.device != 0:
        g_backends[n.device].wait_host(<uintptr_t>n.st.handle, False)
    return 0


cdef int host_writable(tx_node *n) except -1:
    """The bytes of a leaf can be written by this thread: its device has finished with them."""
    if n.device != 0:
        g_backends[n.device].wait_host(<uintptr_t>n.st.handle, True)
    return 0


cdef inline object element(tx_node *n, int64_t at):
    """One element of a leaf as a Python number; at: its position in elements."""
    return number_at(n.st.ptr + at * tx_item_size[n.dtype], n.dtype)


cdef object number_at(char *p, int dt):
    cdef float f[1]
    if dt == TX_F32: return <double>(<float *>p)[0]
    if dt == TX_F64: return (<double *>p)[0]
    if dt == TX_I64: return (<int64_t *>p)[0]
    if dt == TX_I32: return (<int32_t *>p)[0]
    if dt == TX_BOOL: return p[0] != 0
    if dt == TX_I8: return (<int8_t *>p)[0]
    if dt == TX_I16: return (<int16_t *>p)[0]
    if dt == TX_U8: return (<uint8_t *>p)[0]
    if dt == TX_U16: return (<uint16_t *>p)[0]
    if dt == TX_U32: return (<uint32_t *>p)[0]
    if dt == TX_U64: return (<uint64_t *>p)[0]
    if dt == TX_C64: return complex((<float *>p)[0], (<float *>p)[1])
    if dt == TX_C128: return complex((<double *>p)[0], (<double *>p)[1])
    K.cast[TX_F32][dt](f, p, 1)
    return <double>f[0]


cdef object nested_list(tx_node *n, int axis, int64_t at):
    cdef int64_t i, s
    cdef list out
    if axis == n.ndim:
        return element(n, at)
    s = n.strides[axis]
    out = []
    if axis == n.ndim - 1:
        for i in range(n.shape[axis]):
            out.append(element(n, at + i * s))
    else:
        for i in range(n.shape[axis]):
            out.append(nested_list(n, axis + 1, at + i * s))
    return out


# ---- elementwise calls ------------------------------------------------------------------------------

cdef int OP_FLOORDIV = _table.INDEX["floor_divide"]
cdef int OP_REM = _table.INDEX["remainder"]
cdef int OP_AND = _table.INDEX["bitwise_and"]
cdef int OP_OR = _table.INDEX["bitwise_or"]
cdef int OP_XOR = _table.INDEX["bitwise_xor"]
cdef int OP_SHL = _table.INDEX["bitwise_left_shift"]
cdef int OP_SHR = _table.INDEX["bitwise_right_shift"]
cdef int OP_POS = _table.INDEX["positive"]
cdef int OP_ABS = _table.INDEX["abs"]
cdef int OP_INVERT = _table.INDEX["bitwise_invert"]
cdef int OP_EQ = _table.INDEX["equal"]
cdef int OP_NE = _table.INDEX["not_equal"]
cdef int OP_LT = _table.INDEX["less"]
cdef int OP_LE = _table.INDEX["less_equal"]
cdef int OP_GT = _table.INDEX["greater"]
cdef int OP_GE = _table.INDEX["greater_equal"]


cdef object binop(int op, object a, object b):
    cdef PyObject *args[2]
    cdef tx_node *ins[2]
    cdef tx_scalar sc[2]
    cdef Tensor r
    cdef Tensor x
    cdef int dt
    cdef bint rg
    # the common cases without the general machinery: equal dtypes, or a float with a float tensor
    if Py_TYPE(a) == <PyTypeObject *>Tensor:
        x = <Tensor>a
        dt = x.n.dtype
        if OP_KINDS[op] & kind_bit(dt) and (dt >= TX_F16 or op != OP_POW):
            if Py_TYPE(b) == <PyTypeObject *>Tensor:
                if (<Tensor>b).n.dtype == dt and (<Tensor>b).n.device == x.n.device:
                    ins[0] = x.n
                    ins[1] = (<Tensor>b).n
                    r = wrap(node_new(TX_EW, op, 2, ins, sc, dt, result_code(op, dt)))
                    if (tracked(x) or tracked(<Tensor>b)) and grad_on():
                        args[0] = <PyObject *>a
                        args[1] = <PyObject *>b
                        record_ew(op, 2, args, r)
                    return r
            elif PyFloat_CheckExact(b) and (dt == TX_F32 or dt == TX_F64):
                ins[0] = x.n
                ins[1] = NULL
                if dt == TX_F32:
                    sc[1].f[0] = <float>(<double>b)
                else:
                    sc[1].d[0] = <double>b
                r = wrap(node_new(TX_EW, op, 2, ins, sc, dt, result_code(op, dt)))
                if tracked(x) and grad_on():
                    args[0] = <PyObject *>a
                    args[1] = <PyObject *>b
                    record_ew(op, 2, args, r)
                return r
    if not isinstance(a, Tensor) and scalar_kind(a) == 0:
        if is_ndarray(a) or compares_silently(op, a):
            raise not_a_tensor(OP_NAMES[op], a)
        return NotImplemented
    if not isinstance(b, Tensor) and scalar_kind(b) == 0:
        if is_ndarray(b) or compares_silently(op, b):
            raise not_a_tensor(OP_NAMES[op], b)
        return NotImplemented
    args[0] = <PyObject *>a
    args[1] = <PyObject *>b
    r = wrap(ew_node(op, 2, args))
    rg = (isinstance(a, Tensor) and tracked(<Tensor>a)) or (isinstance(b, Tensor) and tracked(<Tensor>b))
    if rg and grad_on():
        record_ew(op, 2, args, r)
    return r


cdef inline bint compares_silently(int op, object o):
    """Whether == or != would be one False or True where values are meant."""
    return (op == OP_EQ or op == OP_NE) and isinstance(o, (list, tuple))


cdef object unop(int op, Tensor a):
    cdef PyObject *args[1]
    args[0] = <PyObject *>a
    cdef Tensor r = wrap(ew_node(op, 1, args))
    if tracked(a) and grad_on():
        record_ew(op, 1, args, r)
    return r


def elementwise(int op, *args):
    """Row number op of the table on tensors and Python numbers."""
    cdef PyObject *a[4]
    cdef int k, nin = len(args)
    cdef bint rg = False
    if nin != OP_NIN[op]:
        raise TypeError(f"{OP_NAMES[op]}: takes {OP_NIN[op]} operands, got {nin}")
    for k in range(nin):
        a[k] = PyTuple_GET_ITEM(args, k)
        if isinstance(<object>a[k], Tensor) and tracked(<Tensor><object>a[k]):
            rg = True
    cdef Tensor r = wrap(ew_node(op, nin, a))
    if rg and grad_on():
        record_ew(op, nin, a, r)
    return r


cdef object matmul_foreign(object other):
    if is_ndarray(other):
        raise not_a_tensor("matmul", other)
    return NotImplemented
