# What custom ops need: memory that their bodies may write, copies of operands that are in the way.

cdef class _Writer:
    """Buffer of a tensor's values that the body of a custom op may write. Values kept for
    backward are not set apart: the write raises the version, as that of any op in place."""
    cdef Tensor t

    def __getbuffer__(self, Py_buffer *b, int flags):
        if self.t.n.kind == TX_LEAF and self.t.n.st.flags & TX_ST_READONLY:
            raise BufferError("buffer: the tensor is read-only")
        export_buffer(self.t, b, flags & ~PyBUF_WRITABLE, self)
        b.readonly = 0
        try:
            host_writable(self.t.n)
        except:
            release_buffer(b)
            raise

    def __releasebuffer__(self, Py_buffer *b):
        release_buffer(b)


def writer(Tensor x):
    """A writable memoryview of x's values for the body of a custom op."""
    cdef _Writer w = _Writer.__new__(_Writer)
    w.t = x
    return memoryview(w)


def copy_for(Tensor x, str reason):
    """An independent copy of x, explained by reason; no history."""
    ensure(x.n)
    return wrap(node_copy(x.n, reason))


def wrote(Tensor x, str op):
    """The op has written x's storage: its version rises."""
    ensure(x.n)
    note_write(x.n.st, op)
    x.n.st.version += 1


def device_buffer(Tensor x):
    """(storage handle, offset in elements, whether others may look at the memory) of a tensor on a device."""
    ensure(x.n)
    return <uintptr_t>x.n.st.handle, x.n.offset, leaf_is_shared_outside(x.n)
