# Random numbers: the state of a generator, and filling tensors from a stream (random.h).

cdef extern from "random.h" nogil:
    enum:
        TX_RAND_BITS, TX_RAND_UNIFORM, TX_RAND_NORMAL, TX_RAND_BERNOULLI, TX_RAND_INTEGERS
        TX_RAND_GAMMA, TX_RAND_POISSON, TX_RAND_BINOMIAL
    ctypedef struct tx_random_job:
        uint64_t seed, stream, first
        int64_t n
        int32_t kind, dtype
        char *out
        double a, b, top
        uint64_t low, range
        tx_scalar value
        const double *p
        const double *q
        int64_t pstep, qstep
        tx_ew_fn log, sqrt, sin, cos
        tx_cast_fn narrow
        int cancelled
    int tx_random_words(int, int, uint64_t)
    double tx_random_ns(const tx_random_job *)
    void tx_random_run(tx_random_job *)
    void tx_philox(uint32_t *, uint64_t, uint64_t, uint64_t, int64_t)
    int tx_permutation(int64_t *, int64_t, uint64_t, uint64_t, uint64_t)

RANDOM_CODES = {"bits": TX_RAND_BITS, "uniform": TX_RAND_UNIFORM, "normal": TX_RAND_NORMAL, "bernoulli": TX_RAND_BERNOULLI,
                "integers": TX_RAND_INTEGERS, "gamma": TX_RAND_GAMMA, "poisson": TX_RAND_POISSON, "binomial": TX_RAND_BINOMIAL}

# What kernels of devices make at once and the CPU makes of uniform or normal numbers, with the same words.
cdef tuple RANDOM_DERIVED = ("exponential", "laplace", "logistic", "cauchy", "gumbel", "weibull", "lognormal")

cdef int OP_LOG = OP_NAMES.index("log")
cdef int OP_SQRT = OP_NAMES.index("sqrt")
cdef int OP_SIN = OP_NAMES.index("sin")
cdef int OP_COS = OP_NAMES.index("cos")


cdef class RandomState:
    """Where a generator stands: seed and stream name the sequence of 32-bit words, position the next one.

    Its methods run to their end without another thread in between.
    """
    cdef readonly uint64_t seed
    cdef readonly uint64_t stream
    cdef readonly uint64_t position

    def __init__(self, uint64_t seed, uint64_t stream=0, uint64_t position=0):
        self.set(seed, stream, position)

    def set(self, uint64_t seed, uint64_t stream, uint64_t position):
        """Moves to a place of any sequence."""
        self.seed = seed
        self.stream = stream
        self.position = position

    def get(self):
        """(seed, stream, position), all of one moment."""
        return self.seed, self.stream, self.position

    def take(self, uint64_t count):
        """Reserves words: (seed, stream, number of the first). They start at a block."""
        cdef uint64_t first = self.position
        self.position = (first + count + 3) & ~<uint64_t>3
        return self.seed, self.stream, first

    def derive(self):
        """(seed, stream) of a sequence of its own, from the four words of the next block."""
        cdef uint32_t w[4]
        tx_philox(w, self.seed, self.stream, self.position >> 2, 1)
        self.position += 4
        return w[0] | <uint64_t>w[1] << 32, w[2] | <uint64_t>w[3] << 32


cdef int random_begin(tx_node *n, str op) except -1:
    """The dense leaf n can be written by this thread now."""
    check_writable(n, op)
    while True:
        flush_readers(n.st, NULL)
        if not n.st.reading and not n.st.writing:
            break
        wait_for_others(NULL)
    host_ready(n)
    host_writable(n)
    return 0


cdef uint64_t float_word(double x) noexcept:
    """The bits of a number as float32."""
    cdef float f = <float>x
    cdef uint32_t w
    memcpy(&w, &f, 4)
    return w


cdef tuple random_numbers(str kind, tx_random_job *job):
    """What the kernels of devices need besides words: see tensorx/metal/random.py."""
    cdef double many
    cdef uint64_t whole
    if kind == "bits":
        return ()
    if kind == "integers":
        return job.low, job.range
    if kind == "bernoulli":                  # of the 2^24 values of a uniform, those below p: comparing integers is exact
        many = <double><float>job.a * 16777216.0
        whole = <uint64_t>many if 0 < many < 16777216.0 else 16777216 if many > 0 else 0
        return whole + (whole < many < 16777216.0), job.value.u
    return float_word(job.a), float_word(job.b), float_word(job.top)


cdef bint random_on_device(tx_node *n, str kind, tx_random_job *job, str op) except -1:
    """Fills the leaf n by a kernel of its device; False where there is none."""
    backend = g_backends[n.device]
    if not backend.has_random(kind, n.dtype):
        return False
    check_writable(n, op)
    flush_readers(n.st, NULL)
    wait_storage(n.st)
    mark(n.st, 1, 1)
    try:
        backend.random(leaf_text(n), kind, job.seed, job.stream, job.first, random_numbers(kind, job))
    finally:
        mark(n.st, 1, -1)
        wake_waiters()
    note_write(n.st, op)
    n.st.version += 1
    return True


def random_kernel(str kind, dtype, int device):
    """Whether a device has a kernel for numbers of a kind and dtype."""
    return device != 0 and g_backends[device].has_random(kind, (<DType>dtype).code)


def random_ready(Tensor x, str op):
    """Complains where x cannot be written, before a generator moves on."""
    ensure(x.n)
    check_writable(x.n, op)
    flush_readers(x.n.st, NULL)


def random_fill(Tensor x, str kind, uint64_t seed, uint64_t stream, uint64_t first, double a=0.0, double b=1.0, double top=0.0,
                uint64_t low=0, uint64_t range=0, value=None, p=None, q=None, str op="random"):
    """Fills a tensor from the words of a stream, beginning with number first. The caller answers for the history.

    On the CPU it has to be C-contiguous; the kernels of devices write where its strides say.
    uniform a + b u up to top; normal a + b z; bernoulli value with probability a, else 0; integers low + below(range), where range 0
    stands for 2**64; gamma, poisson, binomial: float64 tensors p (and q) of x's size or one element, x float64.
    """
    cdef tx_random_job job
    cdef tx_node *n = x.n
    cdef tx_node *m
    cdef int work
    ensure(n)
    memset(&job, 0, sizeof(job))
    if value is not None:
        number_bytes(&job.value, value, n.dtype, op)
    job.seed = seed
    job.stream = stream
    job.first = first
    job.n = n.numel
    job.dtype = n.dtype
    job.a = a
    job.b = b
    job.top = top
    job.low = low
    job.range = range
    if n.device != 0 and n.numel > 0:
        if random_on_device(n, kind, &job, op):
            return
        g_backends[n.device].on_host(op)
    if not tx_is_c_dense(n.ndim, n.shape, n.strides):
        raise InplaceError(f"{op}: internal: the destination is not C-contiguous")
    job.kind = RANDOM_CODES[kind]
    work = TX_F64 if n.dtype == TX_F64 else TX_F32
    job.log = K.ew[OP_LOG * TX_NDT + work]
    job.sqrt = K.ew[OP_SQRT * TX_NDT + work]
    job.sin = K.ew[OP_SIN * TX_NDT + work]
    job.cos = K.ew[OP_COS * TX_NDT + work]
    if tx_is_half(n.dtype):
        job.narrow = K.cast[n.dtype][TX_F32]
    for k, t in enumerate((p, q)):
        if t is None:
            continue
        m = (<Tensor>t).n
        ensure(m)
        host_ready(m)
        if m.dtype != TX_F64 or not tx_is_c_dense(m.ndim, m.shape, m.strides) or (m.numel != 1 and m.numel != n.numel):
            raise DTypeError(f"{op}: internal: parameters must be dense float64")
        if k == 0:
            job.p = <const double *>(m.st.ptr + m.offset * 8)
            job.pstep = 0 if m.numel == 1 else 1
        else:
            job.q = <const double *>(m.st.ptr + m.offset * 8)
            job.qstep = 0 if m.numel == 1 else 1
    random_begin(n, op)
    job.out = n.st.ptr + n.offset * tx_item_size[n.dtype]
    n.refs += 1
    note_write(n.st, op)
    n.st.version += 1
    if tx_random_ns(&job) < LONG_NS:
        tx_random_run(&job)
    else:
        mark(n.st, 1, 1)
        with nogil:
            tx_polls(1)
            tx_random_run(&job)
            tx_polls(0)
        mark(n.st, 1, -1)
        wake_waiters()
    node_unref(n)
    if job.cancelled:
        interrupted()


def random_words(kind, dtype, uint64_t range=0):
    """Words that one element takes."""
    return 1 if kind in RANDOM_DERIVED else tx_random_words(RANDOM_CODES[kind], dtype.code, range)


def permutation(int64_t n, uint64_t seed, uint64_t stream, uint64_t first):
    """The int64 numbers 0 .. n - 1 in random order; takes 2 n words, rounded up to 512."""
    cdef tx_node *r = leaf_empty(0, TX_I64, 1, &n, "permutation")
    cdef int64_t *y = <int64_t *>r.st.ptr
    cdef int done
    if n < 100000:
        done = tx_permutation(y, n, seed, stream, first)
    else:
        with nogil:
            tx_polls(1)
            done = tx_permutation(y, n, seed, stream, first)
            tx_polls(0)
    if not done:
        node_unref(r)
        interrupted()
    return wrap(r)
