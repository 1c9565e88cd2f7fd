# From Python arguments to nodes: dtype rules, Python scalars, devices.

from tensorx.ops import table as _table

cdef list OP_NAMES = []
cdef enum:
    NOPS_MAX = 1024
    K_B = 1
    K_I = 2
    K_U = 4
    K_F = 8
    K_C = 16
cdef unsigned char OP_NIN[1024]
cdef unsigned char OP_OUT[1024]             # 0 same, 1 bool, 2 real, 3 complex
cdef unsigned char OP_KINDS[1024]
cdef unsigned char OP_FLOATS[1024]          # integers are converted to the default float
cdef unsigned char OP_MASKS[1024]           # operands that are bool whatever the others are
cdef int NOPS = 0
cdef int OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_POW, OP_NEG, OP_WHERE

cdef object _load_table():
    global NOPS, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_POW, OP_NEG, OP_WHERE
    bits = {"b": K_B, "i": K_I, "u": K_U, "f": K_F, "c": K_C}
    for i, row in enumerate(_table.TABLE):
        OP_NAMES.append(row.name)
        OP_NIN[i] = row.arity
        OP_OUT[i] = {"same": 0, "bool": 1, "real": 2, "complex": 3}[row.out]
        OP_KINDS[i] = sum(bits[k] for k in row.kinds)
        OP_FLOATS[i] = row.promote == "float"
        OP_MASKS[i] = sum(1 << k for k in row.masks)
        # rough: only the choice of threads, and of what backward computes again, asks for it
        slow = "DIV(" in row.forward or "REM(" in row.forward or "MOD(" in row.forward
        OP_NS[i] = 0.6 if row.ulp else 1.2 if slow else 0.08 * row.arity
    NOPS = len(OP_NAMES)
    OP_ADD = _table.INDEX["add"]
    OP_SUB = _table.INDEX["subtract"]
    OP_MUL = _table.INDEX["multiply"]
    OP_DIV = _table.INDEX["divide"]
    OP_POW = _table.INDEX["pow"]
    OP_NEG = _table.INDEX["negative"]
    OP_WHERE = _table.INDEX["where"]

_load_table()


cdef inline int kind_bit(int dt) noexcept:
    if dt == TX_BOOL:
        return K_B
    if dt <= TX_I64:
        return K_I
    if dt <= TX_U64:
        return K_U
    if dt <= TX_F64:
        return K_F
    return K_C


cdef int scalar_kind(object o) except -1:
    """0 not a scalar, 1 bool, 2 int, 3 float, 4 complex."""
    if PyFloat_CheckExact(o):
        return 3
    if PyLong_CheckExact(o):
        return 2
    if isinstance(o, bool):
        return 1
    if PyFloat_Check(o):
        return 3
    if PyLong_Check(o):
        return 2
    if isinstance(o, complex):
        return 4
    if is_numpy_scalar(o):
        return {"b": 1, "i": 2, "u": 2, "f": 3, "c": 4}.get(o.dtype.kind, 0)
    return 0


cdef bint is_numpy_scalar(object o):
    np = sys_modules.get("numpy")
    return np is not None and isinstance(o, np.generic)


cdef tuple INT_MIN = (0, -2**7, -2**15, -2**31, -2**63, 0, 0, 0, 0)
cdef tuple INT_MAX = (1, 2**7 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1, 2**8 - 1, 2**16 - 1, 2**32 - 1, 2**64 - 1)


cdef int scalar_store(tx_scalar *s, object o, int dt, str op) except -1:
    """Writes a Python scalar in the register format of dtype dt; the kinds fit already."""
    cdef double v
    cdef object i
    if dt == TX_F32:
        s.f[0] = <float>(<double>o)
    elif dt == TX_F64:
        s.d[0] = <double>o
    elif dt == TX_BOOL:
        s.u8 = 1 if o else 0
    elif dt == TX_F16 or dt == TX_BF16:
        s.f[0] = <float>(<double>o)
        K.round_half[0 if dt == TX_F16 else 1](s.f, 1)
    elif dt == TX_C64:
        o = complex(o)
        s.f[0] = <float>(<double>o.real)
        s.f[1] = <float>(<double>o.imag)
    elif dt == TX_C128:
        o = complex(o)
        s.d[0] = o.real
        s.d[1] = o.imag
    else:
        i = int(o)
        if dt <= TX_I64:
            lo = INT_MIN[dt]
            hi = INT_MAX[dt]
        else:
            lo = 0
            hi = INT_MAX[dt]
        if i < lo or i > hi:
            raise OverflowError(f"{op}: the Python integer {i} is out of range for {DTYPES[dt].name} ({lo} to {hi})")
        if dt <= TX_I64:
            s.i = <int64_t>i
            if dt == TX_I8: s.i8 = <int8_t>s.i
            elif dt == TX_I16: s.i16 = <int16_t>s.i
            elif dt == TX_I32: s.i32 = <int32_t>s.i
        else:
            s.u = <uint64_t>i
            if dt == TX_U8: s.u8 = <uint8_t>s.u
            elif dt == TX_U16: s.u16 = <uint16_t>s.u
            elif dt == TX_U32: s.u32 = <uint32_t>s.u
    return 0


cdef int adapt_to_scalar(int dt, int kind, str op) except -1:
    """Dtype of an op on a tensor of dtype dt and a Python scalar of that kind."""
    if kind == 1:
        if dt == TX_BOOL:
            return dt
    elif kind == 2:
        if dt != TX_BOOL:
            return dt
    elif kind == 3:
        if dt >= TX_F16:
            return dt
    elif kind == 4:
        if dt >= TX_C64:
            return dt
        if dt == TX_F64:
            return TX_C128
        if dt >= TX_F16:
            return TX_C64
    names = ["", "bool", "int", "float", "complex"]
    raise DTypeError(f"{op}: a Python {names[kind]} does not mix with a {DTYPES[dt].name} tensor (the result would change kind); "
                     f"convert the tensor first, for example with astype(tx.{'float32' if kind > 2 else 'int64'})")


cdef object promote_error(str op, int a, int b):
    hint = "convert one of them with astype"
    if KIND[a] in b"iu" and KIND[b] in b"iu":
        hint = "no integer type holds both; convert one of them with astype"
    return DTypeError(f"{op}: {DTYPES[a].name} and {DTYPES[b].name} do not promote to a common dtype (array API: kinds are not mixed); {hint}")


cdef object kind_error(int op, int dt):
    kinds = []
    for bit, name in ((K_B, "bool"), (K_I, "signed integers"), (K_U, "unsigned integers"), (K_F, "real floating point"), (K_C, "complex")):
        if OP_KINDS[op] & bit:
            kinds.append(name)
    return DTypeError(f"{OP_NAMES[op]}: not defined for {DTYPES[dt].name}; it takes {', '.join(kinds)}; convert with astype")


cdef object device_error(str op, int k, int d0, int d1):
    return DeviceMismatchError(f"{op}: operand 1 is on {g_devices[d0]} and operand {k + 1} on {g_devices[d1]}; all operands must be on one "
                               f"device: move one with .to({str(g_devices[d0])!r})")


cdef object not_a_tensor(str op, object o):
    if is_ndarray(o):
        return DTypeError(f"{op}: got a NumPy array beside a tensor; the two are not mixed silently: "
                          "use tx.asarray(array) (a copy) or tx.from_numpy(array) (shared memory), or .numpy() on the tensor")
    cure = "; use tx.asarray" if isinstance(o, (list, tuple)) else ""
    return DTypeError(f"{op}: expected a tensor or a Python number, got {type(o).__name__}{cure}")


cdef bint is_ndarray(object o):
    np = sys_modules.get("numpy")
    return np is not None and isinstance(o, np.ndarray)


cdef int result_code(int op, int dt) noexcept:
    cdef int o = OP_OUT[op]
    if o == 0:
        return dt
    if o == 1:
        return TX_BOOL
    if o == 2:
        return TX_F32 if dt == TX_C64 else (TX_F64 if dt == TX_C128 else dt)
    return TX_C128 if dt == TX_F64 else (dt if dt >= TX_C64 else TX_C64)


cdef tx_node *cast_node(tx_node *n, int dt) except NULL:
    """n converted to dtype dt (a new hold on n itself where it has it already)."""
    if n.dtype == dt:
        n.refs += 1
        return n
    return node_new(TX_CAST, 0, 1, &n, NULL, n.dtype, dt)


cdef tx_node *ew_node(int op, int nin, PyObject **args) except NULL:
    """The pending node of row op on tensors and Python scalars."""
    cdef tx_node *ins[4]
    cdef tx_node *own[4]
    cdef tx_scalar sc[4]
    cdef int skind[4]
    cdef int k, dt = -1, p, dev = -1, first = -1
    cdef object o
    cdef tx_node *r
    cdef unsigned masks = OP_MASKS[op]
    for k in range(nin):
        own[k] = NULL
        o = <object>args[k]
        if isinstance(o, Tensor):
            ins[k] = (<Tensor>o).n
            skind[k] = 0
            if first < 0:
                first = k
                dev = ins[k].device
            elif ins[k].device != dev:
                dev = -2
            if masks >> k & 1:
                if ins[k].dtype != TX_BOOL:
                    raise DTypeError(f"{OP_NAMES[op]}: operand {k + 1} must be bool, got {DTYPES[ins[k].dtype].name}; compare or use astype(tx.bool)")
            elif dt < 0:
                dt = ins[k].dtype
            elif ins[k].dtype != dt:
                p = PROMOTE[dt][ins[k].dtype]
                if p < 0:
                    raise promote_error(OP_NAMES[op], dt, ins[k].dtype)
                dt = p
        else:
            ins[k] = NULL
            skind[k] = scalar_kind(o)
            if skind[k] == 0:
                raise not_a_tensor(OP_NAMES[op], o)
    if first < 0:
        raise DTypeError(f"{OP_NAMES[op]}: at least one operand must be a tensor")
    if dt < 0:                               # all tensors are masks: where(c, 1.0, 2.0)
        dt = TX_BOOL
        for k in range(nin):
            if skind[k] and not masks >> k & 1:
                p = (TX_BOOL, TX_BOOL, TX_I64, TX_F32, TX_C64)[skind[k]]
                if dt == TX_BOOL or p > dt:
                    dt = p
    for k in range(nin):
        if skind[k] and not masks >> k & 1:
            if (skind[k] == 3 and dt >= TX_F16 and dt <= TX_F64) or (skind[k] == 2 and dt != TX_BOOL):
                continue
            if skind[k] == 3 and OP_FLOATS[op] and dt < TX_F16:
                continue                     # converted below
            dt = adapt_to_scalar(dt, skind[k], OP_NAMES[op])
    if not OP_KINDS[op] & kind_bit(dt):
        if OP_FLOATS[op] and dt < TX_F16:
            dt = DEFAULT_FLOAT
        else:
            raise kind_error(op, dt)
    if op == OP_POW and dt < TX_F16:
        check_integer_power(<object>args[1])
    try:
        if dev == -2:
            align_devices(OP_NAMES[op], nin, ins, own)
        for k in range(nin):
            if ins[k] == NULL:
                scalar_store(&sc[k], <object>args[k], TX_BOOL if masks >> k & 1 else dt, OP_NAMES[op])
            elif ins[k].dtype != dt and not masks >> k & 1:
                r = cast_node(ins[k], dt)
                if own[k] != NULL:
                    node_unref(own[k])
                own[k] = r
                ins[k] = r
        return node_new(TX_EW, op, nin, ins, sc, dt, result_code(op, dt))
    finally:
        for k in range(nin):
            if own[k] != NULL:
                node_unref(own[k])


cdef int align_devices(str op, int nin, tx_node **ins, tx_node **own) except -1:
    """Only the device of a 0-d tensor is free: it follows the others."""
    cdef int k, dev = -1, first = 0
    for k in range(nin):
        if ins[k] != NULL and ins[k].ndim > 0:
            if dev < 0:
                dev = ins[k].device
                first = k
            elif ins[k].device != dev:
                raise device_error(op, k, dev, ins[k].device)
    if dev < 0:
        for k in range(nin):
            if ins[k] != NULL:
                dev = ins[k].device
                break
    for k in range(nin):
        if ins[k] != NULL and ins[k].device != dev:
            own[k] = node_to_device(ins[k], dev)
            ins[k] = own[k]
    return 0


cdef int check_integer_power(object e) except -1:
    """Negative integer powers of integers have no integer result."""
    cdef tx_node *n
    cdef int64_t k, v
    if not isinstance(e, Tensor):
        if int(e) < 0:
            raise ValueError(f"pow: an integer to the negative integer power {e} is not an integer; convert with astype(tx.float32)")
        return 0
    n = (<Tensor>e).n
    if KIND[n.dtype] != c'i':
        return 0
    low = tensor_min_int(e)
    if low is not None and low < 0:
        raise ValueError(f"pow: an integer to a negative integer power (smallest exponent {low}) is not an integer; convert with astype(tx.float32)")
    return 0
