# Indexing by arrays and masks: from Python indices to the kernels of index_kernels.h.
#
# Nothing here records history; tensorx/ops/indexing.py does. Indices are checked before
# anything is written, operands that overlap the destination are copied first.

cdef class Picker:
    """One indexing operation on x: the axes that stay, the index arrays or the mask, and the
    shape of the result (outer axes, positions, inner axes)."""
    cdef tx_index J
    cdef tx_ixarray *arrays
    cdef int axes[64]                        # axis of x that each array indexes, for messages
    cdef list tensors                        # the index arrays
    cdef Tensor x
    cdef Tensor mask
    cdef str op
    cdef int64_t offset                      # elements
    cdef list shape                          # of the result; None: the number of true elements
    cdef int along                           # 1 + the axis, where the index has an element for each of the result's
    cdef tx_scalar number                    # an operand that is one number, as it lies in memory
    cdef object found                        # a device's count of the mask

    def __cinit__(self):
        self.arrays = NULL
        self.tensors = []

    def __dealloc__(self):
        free(self.arrays)

    cdef int start(self, Tensor x, str op) except -1:
        cdef int dt = x.n.dtype
        self.x = x
        self.op = op
        ensure(x.n)
        self.offset = x.n.offset
        self.J.nix = 0
        self.J.mask = NULL
        self.J.before = NULL
        self.J.o.n = 0
        self.J.i.n = 0
        self.J.b.n = 0
        self.J.move = <tx_move_fn *>K.move
        self.J.log2 = tx_item_log2[dt]
        self.J.dtype = dt
        self.J.widen = K.cast[TX_F32][dt]
        self.J.narrow = K.cast[dt][TX_F32]
        self.J.add = K.ew[OP_ADD * TX_NDT + tx_reg_dtype(dt)]
        return 0

    cdef int add_array(self, Tensor t, int axis) except -1:
        """Index array t for an axis of x."""
        cdef tx_ixarray *a
        if self.J.nix == 64:
            raise IndexError(f"{self.op}: more than 64 index arrays")
        if self.arrays == NULL:
            self.arrays = <tx_ixarray *>malloc(64 * sizeof(tx_ixarray))
            if self.arrays == NULL:
                raise MemoryError()
        a = &self.arrays[self.J.nix]
        self.axes[self.J.nix] = axis
        a.size = self.x.n.shape[axis]
        a.xs = self.x.n.strides[axis] * tx_item_size[self.x.n.dtype]
        a.dtype = t.n.dtype
        self.J.nix += 1
        self.tensors.append(t)
        return 0

    cdef int positions(self, list more) except -1:
        """The positions: the common shape of the index arrays (and of further shapes)."""
        cdef int i, off, nd = 0
        cdef int64_t d
        cdef list shapes = [shape_of((<Tensor>t).n) for t in self.tensors] + more
        for s in shapes:
            nd = max(nd, len(s))
        if nd > TX_MAXDIM:
            raise IndexError(f"{self.op}: index arrays of {nd} axes are more than {TX_MAXDIM}")
        for i in range(nd):
            self.J.b.size[i] = 1
            self.J.b.x[i] = 0
        self.J.b.n = nd
        for s in shapes:
            off = nd - <int>len(s)
            for i in range(off, nd):
                d = s[i - off]
                if d != 1:
                    if self.J.b.size[i] != 1 and self.J.b.size[i] != d:
                        raise IndexError(f"{self.op}: index arrays of shapes {' and '.join([str(q) for q in shapes])} do not broadcast: "
                                         "aligned from the right, sizes must be equal or 1")
                    self.J.b.size[i] = d
        return 0

    cdef void keep_axis(self, tx_ixdims *d, int64_t size, int64_t stride) noexcept:
        d.size[d.n] = size
        d.x[d.n] = stride * tx_item_size[self.x.n.dtype]
        d.n += 1

    cdef int finish(self) except -1:
        cdef int i
        self.shape = [self.J.o.size[i] for i in range(self.J.o.n)]
        if self.mask is not None:
            self.shape.append(None)
        else:
            for i in range(self.J.b.n):
                self.shape.append(self.J.b.size[i])
        for i in range(self.J.i.n):
            self.shape.append(self.J.i.size[i])
        if len(self.shape) > TX_MAXDIM:
            raise IndexError(f"{self.op}: the result would have {len(self.shape)} axes, more than {TX_MAXDIM}")
        return 0

    # ---- addresses: taken once everything lies in memory and may be touched ------------------

    cdef void place(self, tx_node *y, const int64_t *strides) noexcept:
        """Pointers and strides; y lies under the result's shape, strides in elements, or is
        the one number."""
        cdef int a, i, off, k = 0, isz = tx_item_size[self.x.n.dtype]
        cdef tx_node *n
        cdef tx_ixarray *q
        self.J.x = self.x.n.st.ptr + self.offset * isz
        self.J.y = <char *>&self.number if y == NULL else y.st.ptr + y.offset * isz
        for i in range(self.J.o.n):
            self.J.o.y[i] = 0 if y == NULL else strides[k] * isz
            k += 1
        if self.mask is not None:
            self.J.kstep = 0 if y == NULL else strides[k] * isz
            k += 1
            self.place_mask(&self.J)
        else:
            for i in range(self.J.b.n):
                self.J.b.y[i] = 0 if y == NULL else strides[k] * isz
                k += 1
        for i in range(self.J.i.n):
            self.J.i.y[i] = 0 if y == NULL else strides[k] * isz
            k += 1
        self.J.ix = self.arrays
        for a in range(self.J.nix):
            n = (<Tensor>self.tensors[a]).n
            q = &self.arrays[a]
            off = self.J.b.n - n.ndim
            q.p = n.st.ptr + n.offset * tx_item_size[n.dtype]
            for i in range(self.J.b.n):
                q.st[i] = 0 if i < off or n.shape[i - off] == 1 else n.strides[i - off] * tx_item_size[n.dtype]

    cdef void place_mask(self, tx_index *job) noexcept:
        cdef tx_node *m = self.mask.n
        cdef int i
        job.mask = m.st.ptr + m.offset
        for i in range(m.ndim):
            job.b.y[i] = 0
            job.mst[i] = m.strides[i]

    cdef double cost_ns(self) noexcept:
        """A rough estimate, to decide about the GIL."""
        cdef double n = 1
        cdef int i
        for i in range(self.J.o.n):
            n *= self.J.o.size[i]
        for i in range(self.J.i.n):
            n *= self.J.i.size[i]
        for i in range(self.J.b.n):
            n *= self.J.b.size[i]
        return n * (0.5 + 0.2 * tx_item_size[self.x.n.dtype])

    cdef int count(self, Access A, bint device=False) except -1:
        """Counts the true elements of the mask and completes the result's shape."""
        cdef tx_index *C
        cdef int64_t n
        if device and self.mask.n.device != 0:
            n = self.find(A, -1)
        else:
            C = <tx_index *>malloc(sizeof(tx_index))
            if C == NULL:
                raise MemoryError()
            memcpy(C, &self.J, sizeof(tx_index))
            C.o.n = 0
            C.i.n = 0
            C.kind = TXI_GATHER
            try:
                if not device:
                    A.ready()
                self.place_mask(C)
                if device or self.cost_ns() < LONG_NS:
                    n = tx_mask_count(C)
                else:
                    A.mark(1)
                    with nogil:
                        n = tx_mask_count(C)
                    A.mark(-1)
                if device:
                    tx_mask_done(C)
                else:
                    self.J.before = C.before
                    self.J.npos = C.npos
            finally:
                free(C)
            if n < 0:
                raise OutOfMemoryError(f"{self.op}: out of memory for the counts of a mask")
        self.complete(n)
        return 0

    cdef int complete(self, int64_t n) except -1:
        """The mask has n true elements."""
        self.shape = [n if s is None else s for s in self.shape]
        return 0

    cdef int run(self, Access A) except -1:
        """Moves the elements; raises where an index is out of range (a scatter has written
        nothing then)."""
        cdef int bad = 0
        if self.cost_ns() < LONG_NS:
            bad = run_job(&self.J)
        else:
            A.mark(1)
            with nogil:
                bad = run_job(&self.J)
            A.mark(-1)
        if bad == 1:
            raise self.out_of_range()
        if bad == 3:
            self.x.n.st.version += 1
            raise IndexError(f"{self.op}: another thread changed the index while it was in use; some elements may have been written")
        if bad == 2:
            raise OutOfMemoryError(f"{self.op}: out of memory for {self.J.npos} positions")
        return 0

    cdef object out_of_range(self):
        cdef int64_t v = 0
        cdef int a = tx_index_first_bad(&self.J, &v)
        if a < 0:
            return IndexError(f"{self.op}: the index changed while it was read")
        return self.bad_number(a, v)

    cdef object bad_number(self, int a, int64_t v):
        cdef object value = v
        if self.arrays[a].dtype == TX_U64 and v < 0:
            value += 1 << 64
        return IndexError(f"{self.op}: index {value} is out of range for axis {self.axes[a]} of size {self.arrays[a].size} "
                          f"(tensor of shape {shape_of(self.x.n)})")

    cdef Access access(self):
        cdef Access A = Access.__new__(Access)
        for t in self.tensors:
            A.add((<Tensor>t).n)
        if self.mask is not None:
            A.add(self.mask.n)
        return A

    # ---- on a device --------------------------------------------------------------------------

    cdef bint on_device(self) except -1:
        """Whether the device's kernels may do it. Indices that lie in the host's memory are checked here."""
        cdef int a
        if self.x.n.device == 0 or self.J.nix > 24 or 3 * self.J.nix + (self.J.o.n + self.J.b.n + self.J.i.n) * (6 + self.J.nix) > 500:
            return False
        for a in range(self.J.nix):
            if self.arrays[a].size == 0:
                return False
        for a in range(self.J.nix):
            if (<Tensor>self.tensors[a]).n.device == 0:
                self.check_hosted(a)
        return True

    cdef int check_hosted(self, int a) except -1:
        """Raises where an index array of the host holds an index out of range."""
        cdef tx_node *n = (<Tensor>self.tensors[a]).n
        cdef tx_index *C = <tx_index *>malloc(sizeof(tx_index))
        cdef tx_ixarray *q = &self.arrays[a]
        cdef int64_t v = 0
        cdef int d
        cdef bint good = True
        if C == NULL:
            raise MemoryError()
        try:
            memcpy(C, &self.J, sizeof(tx_index))
            C.o.n = 0
            C.i.n = 0
            C.b.n = n.ndim
            for d in range(n.ndim):
                C.b.size[d] = n.shape[d]
                C.b.x[d] = 0
                C.b.y[d] = 0
                q.st[d] = n.strides[d] * tx_item_size[n.dtype]
            q.p = n.st.ptr + n.offset * tx_item_size[n.dtype]
            C.nix = 1
            C.ix = q
            C.mask = NULL
            good = tx_index_check(C)
            if not good:
                tx_index_first_bad(C, &v)
        finally:
            free(C)
        if not good:
            raise self.bad_number(a, v)
        return 0

    cdef object told(self, Tensor t):
        """An index array or mask for a backend: one that lies in the host's memory as (dtype, bytes, offset)."""
        cdef tx_node *n = t.n
        cdef int64_t low = 0, high = 0
        cdef int d, isz = tx_item_size[n.dtype]
        if n.device != 0:
            return leaf_text(n)
        for d in range(n.ndim):
            if n.shape[d] == 0:
                return n.dtype, bytes(isz), 0
            if n.strides[d] < 0:
                low += (n.shape[d] - 1) * n.strides[d]
            else:
                high += (n.shape[d] - 1) * n.strides[d]
        return n.dtype, (n.st.ptr + (n.offset + low) * isz)[:(high - low + 1) * isz], -low

    cdef object values_told(self, tx_node *y):
        """The values for a backend, or the number as bytes."""
        if y != NULL:
            return leaf_text(y)
        return self.x.n.dtype, (<char *>&self.number)[:tx_item_size[self.x.n.dtype]], 0

    cdef tuple loops(self, const int64_t *y):
        """(size, step of x, of the values, steps of the index arrays or the mask) of the outer loops, the positions and
        the inner ones; y: strides of the values under the result's shape, or NULL for one number."""
        cdef tx_node *t
        cdef int i, k = 0, isz = tx_item_size[self.x.n.dtype]
        cdef list outer = []
        cdef list at = []
        cdef list inner = []
        cdef bint masked = self.mask is not None
        cdef tuple none = (0,) if masked else (0,) * self.J.nix
        for i in range(self.J.o.n):
            outer.append((self.J.o.size[i], self.J.o.x[i] // isz, 0 if y == NULL else y[k], none))
            k += 1
        for i in range(self.J.b.n):
            steps = []
            for a in ([self.mask] if masked else self.tensors):
                t = (<Tensor>a).n
                steps.append(0 if i < self.J.b.n - t.ndim or t.shape[i - self.J.b.n + t.ndim] == 1 else t.strides[i - self.J.b.n + t.ndim])
            item = (self.J.b.size[i], self.J.b.x[i] // isz, 0 if y == NULL or masked else y[k], tuple(steps))
            if self.along and i < self.along - 1:
                outer.append(item)
            elif self.along and i > self.along - 1:
                inner.append(item)
            else:
                at.append(item)
            k += 0 if masked else 1
        k += 1 if masked else 0
        for i in range(self.J.i.n):
            inner.append((self.J.i.size[i], self.J.i.x[i] // isz, 0 if y == NULL else y[k], none))
            k += 1
        return outer, at, inner

    cdef int64_t find(self, Access A, int64_t known) except -1:
        """Has the device count the mask: the number of true elements, which is waited for unless it is known."""
        A.hold()
        if self.mask.n.numel == 0:
            return 0
        self.found = g_backends[self.x.n.device].find(self.told(self.mask), shape_of(self.mask.n), strides_of(self.mask.n),
                                                      None if known < 0 else known)
        return self.found.count

    cdef int run_device(self, str kind, Access A, tx_node *y, const int64_t *strides) except -1:
        """Encodes it. y: the values, or NULL for the number; strides: under the result's shape."""
        cdef tx_node *x = self.x.n
        cdef object leaf = leaf_text(x)
        cdef object backend = g_backends[x.device]
        cdef int a
        cdef int64_t step
        leaf = leaf[:2] + (self.offset,) + leaf[3:]
        A.hold()
        if kind == "gather":
            mark(y.st, 1, 1)
        try:
            if self.mask is not None:
                step = 0 if y == NULL else strides[self.J.o.n]
                if self.found is None and step != 0:
                    self.find(A, self.shape[self.J.o.n])
                backend.pick_under(kind, leaf, self.told(self.mask), self.found if step != 0 else None, self.values_told(y),
                                   self.loops(strides), step)
            else:
                backend.pick(kind, leaf, [(self.told(self.tensors[a]), self.arrays[a].size, self.arrays[a].xs // tx_item_size[x.dtype])
                                          for a in range(self.J.nix)],
                             self.values_told(y), self.loops(strides), tuple([self.late_error(a) for a in range(self.J.nix)]))
        finally:
            if kind == "gather":
                mark(y.st, 1, -1)
                wake_waiters()
        return 0

    cdef list places(self, Access A, bint rows):
        """The coordinates of the true elements, where x is the mask itself: see nonzero."""
        cdef tx_node *m = self.mask.n
        cdef int64_t sh[64]
        cdef int d, nd = m.ndim
        cdef list out = []
        try:
            sh[0] = self.find(A, -1)
            sh[1] = nd
            for d in range(1 if rows else nd):
                out.append(wrap(leaf_empty(m.device, TX_I64, 2 if rows else 1, sh, self.op)))
            if sh[0] and nd:
                leaves = [leaf_text((<Tensor>t).n) for t in out]
                if rows:                     # no dispatch overwrites all of it
                    leaf = leaves[0]
                    leaves = [leaf[:2] + (d,) + leaf[3:5] + (nd == 1, leaf[6]) for d in range(nd)]
                g_backends[m.device].places(self.found, shape_of(m), [(leaf, nd if rows else 1) for leaf in leaves])
        finally:
            self.done()
        return out

    cdef object late_error(self, int a):
        return IndexError(f"{self.op}: an index is out of range for axis {self.axes[a]} of size {self.arrays[a].size} "
                          f"(tensor of shape {shape_of(self.x.n)})")

    cdef int done(self) except -1:
        """What counting the mask has left is given back."""
        if self.J.before != NULL:
            tx_mask_done(&self.J)
        if self.found is not None:
            self.found.release()
            self.found = None
        return 0

    # ---- gather and put --------------------------------------------------------------------

    cdef Tensor gather(self):
        """The selected elements as a new C-ordered tensor."""
        cdef bint device = self.on_device()
        cdef Access A = self.access()
        cdef int64_t sh[64]
        cdef int64_t st[64]
        cdef int i, nd
        cdef Tensor r
        self.J.kind = TXI_GATHER
        A.add(self.x.n)
        try:
            if self.mask is not None:
                self.count(A, device)
            nd = len(self.shape)
            for i in range(nd):
                sh[i] = self.shape[i]
            tx_c_strides(nd, sh, st)
            r = wrap(leaf_empty(self.x.n.device, self.x.n.dtype, nd, sh, self.op))
            if device:
                if r.n.numel:
                    self.run_device("gather", A, r.n, st)
                return r
            if self.x.n.device != 0:
                g_backends[self.x.n.device].on_host(self.op)
            A.ready()
            host_writable(r.n)
            self.place(r.n, st)
            self.run(A)
        finally:
            self.done()
        return r

    cdef int put(self, object value, bint accumulate, bint counted=False) except -1:
        """The selected elements take (or gain) value, which broadcasts to the result's shape. counted: it has as many
        elements as the mask has true ones, as the caller knows."""
        cdef bint spread = False
        cdef Access A
        cdef tx_node *v = NULL
        cdef tx_node *b = NULL
        cdef int64_t sh[64]
        cdef int i, nd
        self.J.kind = TXI_ADD if accumulate else TXI_SCATTER
        check_writable(self.x.n, self.op)
        for i in range(len(self.tensors)):
            self.tensors[i] = self.apart(self.tensors[i])
        if self.mask is not None:
            self.mask = self.apart(self.mask)
        cdef bint device = self.on_device()
        A = self.access()
        try:
            if isinstance(value, Tensor):
                v = self.operand(value)
                if self.mask is not None and v.ndim == 0:
                    b = v                    # one element for all: no need to count
                    b.refs += 1
                    for i in range(64):
                        sh[i] = 0
                else:
                    if self.mask is not None and device and (v.ndim <= self.J.i.n or v.shape[v.ndim - 1 - self.J.i.n] == 1):
                        self.complete(1)     # nor here: the same for every true element
                        spread = True
                    elif self.mask is not None and counted and device:
                        self.complete(v.shape[v.ndim - 1 - self.J.i.n])
                    elif self.mask is not None:
                        self.count(A, device)
                    nd = len(self.shape)
                    for i in range(nd):
                        sh[i] = self.shape[i]
                    b = node_broadcast(v, nd, sh, self.op)
                    for i in range(nd):
                        sh[i] = b.strides[i]
                    if spread:
                        sh[self.J.o.n] = 0
                A.add(b)
            else:
                number_bytes(&self.number, value, self.x.n.dtype, self.op)
            A.writes(self.x.n, self.op)
            if device:
                if self.put_size():
                    try:
                        self.run_device("accumulate" if accumulate else "scatter", A, b, NULL if b == NULL else sh)
                    except:
                        # where the work is on its way, the write has happened, whatever came after
                        if g_backends[self.x.n.device].encoded():
                            note_write(self.x.n.st, self.op)
                            self.x.n.st.version += 1
                        raise
            else:
                if self.x.n.device != 0:
                    g_backends[self.x.n.device].on_host(self.op)
                A.ready()
                self.place(b, sh)
                self.run(A)
            note_write(self.x.n.st, self.op)
            self.x.n.st.version += 1
        finally:
            self.done()
            if b != NULL:
                node_unref(b)
            if v != NULL:
                node_unref(v)
        return 0

    cdef bint put_size(self) noexcept:
        """Whether there is anything to write."""
        cdef int i
        for i in range(self.J.o.n):
            if self.J.o.size[i] == 0:
                return False
        for i in range(self.J.b.n):
            if self.J.b.size[i] == 0:
                return False
        for i in range(self.J.i.n):
            if self.J.i.size[i] == 0:
                return False
        return self.mask is None or None in self.shape or 0 not in self.shape

    cdef Tensor apart(self, Tensor t):
        """t, or a copy where it overlaps what is written."""
        if views_overlap(t.n, self.x.n):
            return wrap(node_copy(t.n, "overlaps the destination"))
        return t

    cdef tx_node *operand(self, Tensor value) except NULL:
        """A leaf of x's dtype and device with the values of a tensor, apart from x; one hold."""
        cdef tx_node *s = value.n
        cdef tx_node *c
        if s.dtype != self.x.n.dtype:
            check_inplace_dtype(self.op.rstrip("_"), self.x.n.dtype, s.dtype)
        if s.device != self.x.n.device:
            if s.ndim != 0:
                raise device_error(self.op, 1, self.x.n.device, s.device)
            s = node_to_device(s, self.x.n.device)
        else:
            s.refs += 1
        try:
            if s.dtype != self.x.n.dtype:
                c = cast_node(s, self.x.n.dtype)
                node_unref(s)
                s = c
            ensure(s)
            if views_overlap(s, self.x.n):
                c = node_copy(s, "overlaps the destination")
                node_unref(s)
                s = c
        except:
            node_unref(s)
            raise
        return s


cdef int run_job(tx_index *j) noexcept nogil:
    """0 done, 1 an index is out of range, 2 no memory; 3: an index went out of range after the
    check (its memory is shared). Nothing is written before the check."""
    cdef int rc
    if j.mask != NULL:
        tx_mask_move(j)
        return 0
    if j.kind == TXI_GATHER:
        if tx_index_gather(j):
            return 1
        return 1 if j.npos * j.nouter * j.ninner == 0 and not tx_index_check(j) else 0
    if not tx_index_check(j):
        return 1
    rc = tx_index_scatter(j)
    return 3 if rc == 1 else rc


cdef int number_bytes(tx_scalar *s, object value, int dt, str op) except -1:
    """A Python number as an element of dtype dt lies in memory."""
    cdef tx_scalar c
    cdef int kind = scalar_kind(value)
    if kind == 0:
        raise not_a_tensor(op, value)
    if (kind == 4 and dt < TX_C64) or (kind == 3 and dt < TX_F16) or (kind == 2 and dt == TX_BOOL):
        raise DTypeError(f"{op}: the Python number {value!r} cannot be stored in a {DTYPES[dt].name} tensor (the kind would change)")
    scalar_store(&c, value, dt, op)
    if tx_is_half(dt):
        K.cast[dt][TX_F32](s, c.f, 1)
    else:
        memcpy(s, &c, sizeof(tx_scalar))
    return 0


cdef object number_value(const tx_scalar *s, int dt):
    """The Python number of an element as it lies in memory."""
    cdef tx_scalar c
    if tx_is_half(dt):
        K.cast[TX_F32][dt](&c, s, 1)
        return <double>c.f[0]
    c = s[0]
    return scalar_value(&c, dt)


cdef int fill_number(tx_node *dst, const tx_scalar *number, str op) except -1:
    """dst[...] = one number (as it lies in memory): 0 bytes."""
    cdef Access A
    if dst.device != 0:
        return device_fill(dst, number_value(number, dst.dtype), op)
    check_writable(dst, op)
    if dst.numel == 0:
        return 0
    A = Access.__new__(Access)
    A.writes(dst, op)
    A.ready()
    cdef char *p = dst.st.ptr + dst.offset * tx_item_size[dst.dtype]
    if <double>dst.numel * tx_item_size[dst.dtype] < 10 * LONG_NS:
        tx_fill_view(p, dst.ndim, dst.shape, dst.strides, number, tx_item_log2[dst.dtype], <tx_move_fn *>K.move)
    else:
        A.mark(1)
        with nogil:
            tx_fill_view(p, dst.ndim, dst.shape, dst.strides, number, tx_item_log2[dst.dtype], <tx_move_fn *>K.move)
        A.mark(-1)
    note_write(dst.st, op)
    dst.st.version += 1
    return 0
