# Data types: their objects, and the promotion rules of the array API standard.

cdef class DType:
    """A data type of tensor elements: name, kind, item size in bytes and bits.

    >>> import tensorx as tx
    >>> tx.float32.itemsize, tx.float32.kind, tx.float32 == "float32"
    (4, 'f', True)
    """
    cdef readonly int code
    cdef readonly int itemsize
    cdef readonly str name
    cdef readonly str kind       # b, i, u, f, c

    def __init__(self):
        raise TypeError("data types are the constants tensorx.bool, tensorx.int8, ..., tensorx.complex128")

    def __repr__(self):
        return "tensorx." + self.name

    def __str__(self):
        return "tensorx." + self.name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        if isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return self.name == other
        return NotImplemented

    def __reduce__(self):
        return (dtype_from, (self.name,))

    @property
    def bits(self):
        return self.itemsize * 8

    @property
    def numpy(self):
        """The NumPy dtype; bfloat16 has none."""
        if self.code == TX_BF16:
            raise DTypeError("bfloat16 has no NumPy dtype: convert with astype(tx.float32) first")
        import numpy
        return numpy.dtype(self.name)


cdef list DTYPES = []

cdef object _make_dtypes():
    cdef DType d
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    kinds = "biiiiuuuuffffcc"
    for i, name in enumerate(names):
        d = DType.__new__(DType)
        d.code = i
        d.name = name
        d.kind = kinds[i]
        d.itemsize = tx_item_size[i]
        DTYPES.append(d)

_make_dtypes()
cdef dict DTYPE_BY_NAME = {d.name: d for d in DTYPES}
cdef signed char PROMOTE[15][15]
cdef char KIND[15]
cdef int DEFAULT_FLOAT = TX_F32


cdef int _promote(int a, int b):
    if a == b:
        return a
    if a == TX_BOOL:
        return b
    if b == TX_BOOL:
        return a
    ka, kb = DTYPES[a].kind, DTYPES[b].kind
    if ka in "iu" and kb in "iu":
        if ka == kb:
            return max(a, b)
        u, i = (a, b) if ka == "u" else (b, a)
        bits = max(DTYPES[u].itemsize * 2, DTYPES[i].itemsize)
        return {2: TX_I16, 4: TX_I32, 8: TX_I64}.get(bits, -1)
    if ka in "fc" and kb in "fc":
        if ka == kb == "f":
            if tx_is_half(a) and tx_is_half(b):
                return TX_F32
            return max(a, b)
        wide = TX_F64 in (a, b) or TX_C128 in (a, b)
        return TX_C128 if wide else TX_C64
    return -1

cdef object _fill_promote():
    for a in range(15):
        KIND[a] = <char>ord(DTYPES[a].kind)
        for b in range(15):
            PROMOTE[a][b] = <signed char>_promote(a, b)

_fill_promote()


def dtype_from(spec):
    """The DType named by a DType, a string, a NumPy dtype, or bool/int/float/complex.

    >>> dtype_from("float32"), dtype_from(int)
    (tensorx.float32, tensorx.int64)
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        d = DTYPE_BY_NAME.get(spec)
        if d is not None:
            return d
    elif spec is bool:
        return DTYPES[TX_BOOL]
    elif spec is int:
        return DTYPES[TX_I64]
    elif spec is float:
        return DTYPES[TX_F32]
    elif spec is complex:
        return DTYPES[TX_C64]
    name = None
    try:
        import numpy
        nd = numpy.dtype(spec)
        if not nd.isnative:
            raise DTypeError(f"dtype {nd.str!r} has the other byte order: convert with .astype({nd.name!r}) in NumPy first")
        name = nd.name
    except TypeError:
        pass
    d = DTYPE_BY_NAME.get(name)
    if d is None:
        raise DTypeError(f"{spec!r} is not a data type of tensorx; there are {', '.join(DTYPE_BY_NAME)}")
    return d


def promote_codes(int a, int b):
    """The code that two dtype codes promote to, or -1."""
    return PROMOTE[a][b]
