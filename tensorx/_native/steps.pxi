# Optimizer steps in one pass over memory, for many parameters in one call: see step_abi.h.
# tensorx/optim has the same formulas in tensors, for every device, dtype and layout.

cdef extern from "step_abi.h" nogil:
    enum:
        TX_STEP_COUPLED, TX_STEP_HIGHEST, TX_STEP_MOMENTUM, TX_STEP_FIRST, TX_STEP_NESTEROV
    ctypedef struct tx_step:
        double sign, decay, keep, rate, root, eps, a, b, c
        int flags
    ctypedef struct tx_step_arrays:
        void *p
        const void *g
        void *s[3]
    ctypedef void (*tx_step_fn)(const tx_step *, const tx_step_arrays *, ptrdiff_t) noexcept nogil
    ctypedef struct tx_steps:
        tx_step_fn adam[2]
        tx_step_fn sgd[2]

cdef enum:
    STEP_CHUNK = 65536                       # elements of a large parameter per task
    STEP_GROUP = 32768                       # small ones share a task up to that many

cdef struct StepPiece:
    tx_step_arrays x
    int64_t n

cdef struct StepJob:
    const tx_step *step
    tx_step_fn fn
    StepPiece *piece
    int64_t *first                           # pieces of task i: first[i] to first[i + 1]


cdef void step_task(void *ctx, int64_t i) noexcept nogil:
    cdef StepJob *j = <StepJob *>ctx
    cdef int64_t k
    for k in range(j.first[i], j.first[i + 1]):
        j.fn(j.step, &j.piece[k].x, j.piece[k].n)


cdef bint alone(tx_storage *s, tx_node *n) noexcept:
    """n is the only value with an owner on s: no other view of it can be written by the same step."""
    cdef tx_node *l = s.leaves
    while l != NULL:
        if l != n and (l.handles or l.saves):
            return False
        l = l.leaf_next
    return True


cdef bint step_fits(tx_node *p, tx_node *x) noexcept:
    """x lies as the parameter p does."""
    return (x.kind == TX_LEAF and x.device == 0 and x.dtype == p.dtype and x.ndim == p.ndim and tx_same_shape(p.ndim, p.shape, x.shape)
            and tx_same_strides(p.ndim, p.shape, p.strides, x.strides))


cdef bint step_quiet(tx_storage *s, bint written) noexcept:
    """No other thread is at work on s, and no pending value reads it if it is to be written."""
    cdef tx_node *l = s.leaves
    if blocked(s, written):
        return False
    while written and l != NULL:
        if l.consumers != NULL:
            return False
        l = l.leaf_next
    return True


cdef int step_parallel(StepJob *job, int64_t tasks, double us, list columns, list rows) except -1:
    """Runs a long step without the GIL: its storages are marked and stay alive meanwhile."""
    cdef int width = len(columns), c
    cdef int64_t n = 0, k
    cdef tx_storage *s
    cdef tx_storage **held = <tx_storage **>malloc(width * len(rows) * sizeof(tx_storage *))
    if held == NULL:
        raise MemoryError()
    for r in rows:
        for c in range(width):
            s = (<Tensor>(<list>columns[c])[r]).n.st
            tx_st_own(s)
            mark(s, c != 1, 1)
            held[n] = s
            n += 1
    with nogil:
        tx_parallel_for(tasks, step_task, job, us)
    for k in range(n - 1, -1, -1):           # the last mark is found first
        mark(held[k], k % width != 1, -1)
        tx_st_release(held[k])
    free(held)
    wake_waiters()
    return 0


cdef list step_run(str op, tx_step *step, bint adam, list columns):
    """Runs a step over columns (parameters, gradients, states...) of tensors. Returns the rows that it
    left alone: they are not float32 or float64 on the CPU, or do not lie in memory as one pass needs it."""
    cdef const tx_steps *table = <const tx_steps *>K.extra
    cdef Py_ssize_t count = len(<list>columns[0])
    cdef int width = len(columns), c, d, kind, isz
    cdef Py_ssize_t r
    cdef list left
    cdef list rows
    cdef StepJob job
    cdef int64_t pieces, tasks, filled, n, lo, total
    cdef tx_node *x[5]
    cdef uintptr_t base
    cdef object t
    cdef bint ok, quiet = False
    # first whatever may fail, wait or run Python code; anew until nothing had to be waited for
    while not quiet:
        left = []
        rows = [[], []]
        for r in range(count):
            ok = True
            for c in range(width):
                t = (<list>columns[c])[r]
                if (<Tensor>t).n.kind != TX_LEAF:
                    ensure((<Tensor>t).n)
                x[c] = (<Tensor>t).n
            kind = 0 if x[0].dtype == TX_F32 else 1
            if (table == NULL or x[0].device != 0 or (x[0].dtype != TX_F32 and x[0].dtype != TX_F64)
                    or not tx_is_dense(x[0].ndim, x[0].shape, x[0].strides)):
                ok = False
            for c in range(width):
                if not ok:
                    break
                if not step_fits(x[0], x[c]) or (c != 1 and not alone(x[c].st, x[c])):
                    ok = False
                for d in range(c):
                    if x[c].st == x[d].st:
                        ok = False
            if not ok:
                left.append(r)
                continue
            (<list>rows[kind]).append(r)
            for c in range(width):
                if c != 1:
                    check_writable(x[c], op)
        quiet = True
        for kind in range(2):
            for r in <list>rows[kind]:
                for c in range(width):
                    t = (<list>columns[c])[r]
                    if not step_quiet((<Tensor>t).n.st, c != 1):
                        quiet = False
                        while blocked((<Tensor>t).n.st, c != 1):
                            wait_for_others(NULL, (<Tensor>t).n.st, c != 1)
                        if c != 1:
                            flush_readers((<Tensor>t).n.st, NULL)
                    if c != 1:
                        note_write((<Tensor>t).n.st, op)
    for kind in range(2):
        if not <list>rows[kind]:
            continue
        isz = 4 if kind == 0 else 8
        total = 0
        pieces = 0
        for r in <list>rows[kind]:
            n = (<Tensor>(<list>columns[0])[r]).n.numel
            pieces += (n + STEP_CHUNK - 1) // STEP_CHUNK
            total += n
        if total == 0:
            continue
        job.step = step
        job.fn = table.adam[kind] if adam else table.sgd[kind]
        job.piece = <StepPiece *>malloc(pieces * sizeof(StepPiece) + (pieces + 1) * sizeof(int64_t))
        if job.piece == NULL:
            raise MemoryError()
        job.first = <int64_t *>(job.piece + pieces)
        pieces = 0
        tasks = 0
        filled = 0
        for r in <list>rows[kind]:
            for c in range(width):
                x[c] = (<Tensor>(<list>columns[c])[r]).n
                if c != 1:
                    x[c].st.version += 1
            n = x[0].numel
            lo = 0
            while lo < n:
                if filled == 0:
                    job.first[tasks] = pieces
                    tasks += 1
                job.piece[pieces].n = min(<int64_t>STEP_CHUNK, n - lo)
                for c in range(width):
                    base = <uintptr_t>(x[c].st.ptr + (x[c].offset + lo) * isz)
                    if c == 0:
                        job.piece[pieces].x.p = <void *>base
                    elif c == 1:
                        job.piece[pieces].x.g = <const void *>base
                    else:
                        job.piece[pieces].x.s[c - 2] = <void *>base
                for c in range(width, 5):
                    job.piece[pieces].x.s[c - 2] = NULL
                filled += job.piece[pieces].n
                lo += STEP_CHUNK
                pieces += 1
                if filled >= STEP_GROUP:
                    filled = 0
        job.first[tasks] = pieces
        try:
            if <double>total * 0.4 < LONG_NS:
                tx_parallel_for(tasks, step_task, &job, <double>total * 4e-4)
            else:
                step_parallel(&job, tasks, <double>total * 4e-4, columns, <list>rows[kind])
        finally:
            free(job.piece)
    return left


def adam_steps(list columns, double sign, double decay, double keep, double rate, double root, double eps, double a, double b,
               double c, bint coupled):
    """One step of Adam for [parameters, gradients, first moments, second moments(, highest second moments)];
    the numbers of step_abi.h. Returns the rows that have to be done another way."""
    cdef tx_step k
    k.sign = sign
    k.decay = decay
    k.keep = keep
    k.rate = rate
    k.root = root
    k.eps = eps
    k.a = a
    k.b = b
    k.c = c
    k.flags = (TX_STEP_COUPLED if coupled else 0) | (TX_STEP_HIGHEST if len(columns) == 5 else 0)
    return step_run("Adam", &k, True, columns)


def sgd_steps(list columns, double sign, double decay, double rate, double momentum, double fresh, bint coupled, bint first, bint nesterov):
    """One step of SGD for [parameters, gradients(, velocities)]; the numbers of step_abi.h. Returns the rows
    that have to be done another way."""
    cdef tx_step k
    k.sign = sign
    k.decay = decay
    k.keep = 1
    k.rate = rate
    k.root = 1
    k.eps = 0
    k.a = 0
    k.b = momentum
    k.c = fresh
    k.flags = TX_STEP_COUPLED if coupled else 0
    if len(columns) == 3:
        k.flags |= TX_STEP_MOMENTUM | (TX_STEP_FIRST if first else 0) | (TX_STEP_NESTEROV if nesterov else 0)
    return step_run("SGD", &k, False, columns)


# ---- what an optimizer asks of all its parameters at once ----------------------------------------

def gradients_of(list params):
    """The gradient of each parameter, None where there is none."""
    cdef list out = []
    for p in params:
        out.append((<Meta>(<Tensor>p).meta).grad if (<Tensor>p).meta is not None else None)
    return out


def clear_gradients(list params):
    """Drops the gradients of the parameters; returns how many there were."""
    cdef int64_t n = 0
    cdef Meta m
    for p in params:
        m = (<Tensor>p).meta
        if m is not None and m.grad is not None:
            n += 1
            m.grad = None
    drain()
    return n


def backward_passes():
    """How many backward passes there were in this process."""
    return g_run


def owned_alone(Tensor x):
    """Whether x's memory has no other owner than this handle, pending readers aside: then a new value may take it over."""
    ensure(x.n)
    return bool(independent(x.n) and x.n.offset == 0)
