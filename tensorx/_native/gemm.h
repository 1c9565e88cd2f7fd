/* Matrix products: the driver.  It cuts C into tiles of work, hands them to the pool and gives
 * each one the buffers it needs.  How C is cut never changes a bit (see gemm_abi.h), so
 * it follows what is fastest for the shape and the number of threads.
 *
 * A task computes a rectangle of C from start to end: for every run of the inner axis it
 * packs its own strip of B (if B must or should be packed) and multiplies rows of A into
 * it.  Nothing is shared between tasks, so there is no barrier inside a product. */
#ifndef TX_GEMM_H
#define TX_GEMM_H

#include "kernel_abi.h"
#include "gemm_abi.h"
#include "pool.h"
#include "alloc.h"
#include "blas.h"

#define TXG_MAX_SLOTS TX_POOL_MAX /* tasks that can hold buffers at one time */
#define TXG_MC 96                 /* rows of A multiplied into a packed strip before moving on */
#define TXG_STRIP 4               /* most panels of B packed by one task at a time */
#define TXG_LEAST 48              /* rows of a task, */
#define TXG_LEAST_PACKED 192      /* of one that packs B */
#define TXG_MIN_TASK_US 10.0      /* tasks below this are not worth splitting off */

typedef struct txg_job {
    const txg_kernel *kern;
    int64_t batch, m, n, k, run;
    const char *a, *b;
    char *c;
    const char *bias;
    int64_t a_rs, a_cs, a_bs, b_rs, b_cs, b_bs, c_rs, c_cs, c_bs, bias_rs, bias_cs;
    const int64_t *a_boff, *b_boff, *c_boff;
    int accumulate, conj;
    int pack_a, pack_b, work, thin;          /* which buffers a task needs */
    int64_t mt, nt, mtiles, ntiles, per; /* a task: `per` batch entries, or mt x nt of one */
    int64_t a_bytes, b_bytes, slot_bytes;
    char *slots;
    int nslots;
    char taken[TXG_MAX_SLOTS];
    int cancelled;
} txg_job;

static inline int64_t txg_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t txg_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t txg_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t txg_round(int64_t a, int64_t b) { return txg_ceil(a, b) * b; }

static inline int64_t txg_offset(const int64_t *off, int64_t stride, int64_t g) { return off ? off[g] : stride * g; }

/* There are as many slots as threads can be inside a job at once; should the number of
 * threads have grown meanwhile, a task waits for a slot. */
static char *txg_slot_take(txg_job *q, int *which)
{
    for (;;) {
        for (int i = 0; i < q->nslots; i++)
            if (!__atomic_load_n(&q->taken[i], __ATOMIC_RELAXED) &&
                !__atomic_exchange_n(&q->taken[i], 1, __ATOMIC_ACQUIRE)) {
                *which = i;
                return q->slots + i * q->slot_bytes;
            }
        sched_yield();
    }
}

static int txg_stop(txg_job *q)
{
    if (tx_cancel_requested() || tx_poll_stop())
        __atomic_store_n(&q->cancelled, 1, __ATOMIC_RELAXED);
    return __atomic_load_n(&q->cancelled, __ATOMIC_RELAXED);
}

/* One run of the inner axis, from k0: dst (m x n of the computed type, rows dst_rs elements apart)
 * = or += A B (+ bias). a, b: first elements of the rows of A and the columns of B. 0: cancelled. */
static int txg_one_run(txg_job *q, const char *a, const char *b, int64_t m, int64_t n, int64_t k0, char *dst,
                       int64_t dst_rs, int add, const char *bias, char *slot)
{
    const txg_kernel *K = q->kern;
    const int64_t es = K->esize, cs = K->csize, nr = K->nr, kc = txg_min(q->run, q->k - k0);
    char *abuf = slot, *bbuf = slot + q->a_bytes;
    a += k0 * q->a_cs * es;
    b += k0 * q->b_rs * es;
    /* Without packing, a last panel that is no whole number of vectors still needs room behind it. */
    const int64_t tail = !q->pack_b && !q->thin && !K->masked && n % K->lanes ? n % nr : 0, full = n - tail;
    if (q->pack_b)
        K->pack_b(bbuf, b, q->b_cs, q->b_rs, n, kc);
    else if (tail)
        K->pack_b(bbuf, b + full * q->b_cs * es, q->b_cs, q->b_rs, tail, kc);
    for (int64_t i = 0; i < m; i += TXG_MC) {
        if (txg_stop(q))
            return 0;
        txg_block t = {.m = txg_min(TXG_MC, m - i), .n = full, .kc = kc, .a = a + i * q->a_rs * es, .a_rs = q->a_rs,
                       .a_ks = q->a_cs, .b = b, .b_ks = q->b_rs, .b_ps = nr, .b_cs = q->b_cs,
                       .c = dst + i * dst_rs * cs, .c_rs = dst_rs, .bias = bias, .add = add, .conj = q->conj};
        if (q->pack_a) {
            t.a_rs = kc + 16;
            t.a_ks = 1;
            K->pack_a(abuf, t.a_rs, t.a, q->a_rs, q->a_cs, t.m, kc);
            t.a = abuf;
        }
        if (q->thin) {
            K->thin(&t);
            continue;
        }
        if (q->pack_b) {
            t.b = bbuf;
            t.b_ks = nr;
            t.b_ps = nr * kc;
        }
        if (full)
            K->block(&t);
        if (tail) {
            t.n = tail;
            t.b = bbuf;
            t.b_ks = nr;
            t.b_ps = nr * kc;
            t.c = (char *)t.c + full * cs;
            t.bias = bias ? bias + full * es : NULL;
            K->block(&t);
        }
    }
    return 1;
}

/* Rows i0.. (m of them) and columns j0.. (n of them) of one product. */
static void txg_rectangle(txg_job *q, int64_t g, int64_t i0, int64_t m, int64_t j0, int64_t n, char *slot)
{
    const txg_kernel *K = q->kern;
    const int64_t es = K->esize, npad = txg_round(n, K->nr);
    const char *a = q->a + (txg_offset(q->a_boff, q->a_bs, g) + i0 * q->a_rs) * es;
    const char *b = q->b + (txg_offset(q->b_boff, q->b_bs, g) + j0 * q->b_cs) * es;
    char *c = q->c + (txg_offset(q->c_boff, q->c_bs, g) + i0 * q->c_rs + j0 * q->c_cs) * es;
    const char *bias = q->bias ? q->bias + (i0 * q->bias_rs + j0 * q->bias_cs) * es : NULL;
    char *work = slot + q->a_bytes + q->b_bytes;
    for (int64_t k0 = 0; k0 < q->k; k0 += q->run) {
        const int last = k0 + q->run >= q->k;
        if (!(q->work ? txg_one_run(q, a, b, m, n, k0, work, npad, k0 > 0, NULL, slot)
                      : txg_one_run(q, a, b, m, n, k0, c, q->c_rs, k0 > 0 || q->accumulate, last ? bias : NULL, slot)))
            return;
    }
    if (q->work) {
        txg_finish f = {.m = m, .n = n, .work = work, .w_rs = npad, .c = c, .c_rs = q->c_rs, .c_cs = q->c_cs,
                        .bias = bias, .bias_rs = q->bias_rs, .bias_cs = q->bias_cs, .accumulate = q->accumulate};
        K->finish(&f);
    }
}

static void txg_task(void *ctx, int64_t t)
{
    txg_job *q = (txg_job *)ctx;
    if (txg_stop(q))
        return;
    int which = -1;
    char *slot = q->slot_bytes ? txg_slot_take(q, &which) : NULL;
    const int64_t tiles = q->mtiles * q->ntiles;
    if (tiles == 1) {
        const int64_t end = txg_min(q->batch, (t + 1) * q->per);
        for (int64_t g = t * q->per; g < end; g++)
            txg_rectangle(q, g, 0, q->m, 0, q->n, slot);
    } else {
        const int64_t g = t / tiles, r = t % tiles;
        const int64_t i0 = r / q->ntiles * q->mt, j0 = r % q->ntiles * q->nt;
        txg_rectangle(q, g, i0, txg_min(q->mt, q->m - i0), j0, txg_min(q->nt, q->n - j0), slot);
    }
    if (which >= 0)
        __atomic_store_n(&q->taken[which], 0, __ATOMIC_RELEASE);
}

/* ---- small results of a long inner axis: runs side by side, folded in order ---- */

#define TXG_RUNS_BYTES (8 << 20)  /* of partial results at a time */

typedef struct txg_runs_job {
    txg_job *q;
    char *part;
    int64_t first, count, bytes; /* runs of this wave, bytes of a partial result */
} txg_runs_job;

static void txg_runs_task(void *ctx, int64_t t)
{
    const txg_runs_job *d = (const txg_runs_job *)ctx;
    txg_job *q = d->q;
    int which = -1;
    char *slot = q->slot_bytes ? txg_slot_take(q, &which) : NULL;
    const int64_t end = txg_min(d->count, (t + 1) * q->per);
    for (int64_t r = t * q->per; r < end; r++)
        if (!txg_one_run(q, q->a, q->b, q->m, q->n, (d->first + r) * q->run, d->part + r * d->bytes,
                         txg_round(q->n, q->kern->nr), 0, NULL, slot))
            break;
    if (which >= 0)
        __atomic_store_n(&q->taken[which], 0, __ATOMIC_RELEASE);
}

static int txg_runs(txg_job *q, double us)
{
    const txg_kernel *K = q->kern;
    const int64_t npad = txg_round(q->n, K->nr), runs = txg_ceil(q->k, q->run), bytes = txg_round(q->m * npad * K->csize, 64);
    const int64_t wave = txg_min(runs, TXG_RUNS_BYTES / bytes), all = (wave + 1) * bytes + q->slot_bytes * q->nslots;
    char *memory = (char *)tx_scratch_alloc((size_t)all);
    if (!memory)
        return 1;
    char *sum = memory + wave * bytes;
    txg_runs_job d = {.q = q, .part = memory, .bytes = bytes};
    q->slots = sum + bytes;
    q->per = txg_max(1, (int64_t)(TXG_MIN_TASK_US * (double)runs / us));
    for (d.first = 0; d.first < runs && !txg_stop(q); d.first += wave) {
        d.count = txg_min(wave, runs - d.first);
        tx_parallel_for(txg_ceil(d.count, q->per), txg_runs_task, &d, us * (double)d.count / (double)runs);
        for (int64_t r = 0; r < d.count && !q->cancelled; r++) {
            if (d.first + r == 0)
                memcpy(sum, d.part, (size_t)bytes);
            else
                K->fold(sum, d.part + r * bytes, q->m * npad);
        }
    }
    if (!q->cancelled) {
        txg_finish f = {.m = q->m, .n = q->n, .work = sum, .w_rs = npad, .c = q->c, .c_rs = q->c_rs, .c_cs = q->c_cs,
                        .bias = q->bias, .bias_rs = q->bias_rs, .bias_cs = q->bias_cs, .accumulate = q->accumulate};
        K->finish(&f);
    }
    tx_scratch_free(memory, (size_t)all);
    return q->cancelled ? 2 : 0;
}

/* ---- dot products: m == n == 1 ---- */

typedef struct txg_dot_job {
    txg_job *q;
    char *partial;
    int64_t chunks;
} txg_dot_job;

static void txg_dot_task(void *ctx, int64_t t)
{
    txg_dot_job *d = (txg_dot_job *)ctx;
    txg_job *q = d->q;
    const txg_kernel *K = q->kern;
    if (txg_stop(q))
        return;
    const int64_t first = t * q->per, end = txg_min(q->batch * d->chunks, first + q->per);
    for (int64_t p = first; p < end; p++) {
        const int64_t g = p / d->chunks, k0 = p % d->chunks * TXG_DOT_CHUNK;
        K->dot(d->partial + p * K->csize,
               q->a + (txg_offset(q->a_boff, q->a_bs, g) + k0 * q->a_cs) * K->esize, q->a_cs,
               q->b + (txg_offset(q->b_boff, q->b_bs, g) + k0 * q->b_rs) * K->esize, q->b_rs,
               txg_min(TXG_DOT_CHUNK, q->k - k0), q->conj);
    }
}

static int txg_dot(txg_job *q)
{
    const txg_kernel *K = q->kern;
    txg_dot_job d = {q, NULL, txg_ceil(q->k, TXG_DOT_CHUNK)};
    const int64_t parts = q->batch * d.chunks, bytes = parts * K->csize;
    char few[256] __attribute__((aligned(64)));
    d.partial = bytes <= (int64_t)sizeof few ? few : (char *)tx_scratch_alloc((size_t)bytes);
    if (!d.partial)
        return 1;
    const double us = (double)q->batch * (double)q->k * K->mac_ns * 4e-3; /* memory, not arithmetic */
    q->per = txg_max(1, (int64_t)((double)parts * 20.0 / (us + 1)));
    const int64_t tasks = txg_ceil(parts, q->per);
    if (tasks == 1)
        txg_dot_task(&d, 0);
    else
        tx_parallel_for(tasks, txg_dot_task, &d, us);
    for (int64_t g = 0; g < q->batch && !q->cancelled; g++) {
        char out[16] __attribute__((aligned(16)));
        K->dot_sum(out, d.partial + g * d.chunks * K->csize, d.chunks);
        txg_finish f = {.m = 1, .n = 1, .work = out, .w_rs = 1, .bias = q->bias, .accumulate = q->accumulate,
                        .c = q->c + txg_offset(q->c_boff, q->c_bs, g) * K->esize, .c_rs = 1, .c_cs = 1};
        K->finish(&f);
    }
    if (d.partial != few)
        tx_scratch_free(d.partial, (size_t)bytes);
    return q->cancelled ? 2 : 0;
}

/* ---- planning ---- */

/* C^T = B^T A^T */
static void txg_swap_sides(txg_job *q)
{
#define TXG_SWAP(t, x, y) do { t s_ = x; x = y; y = s_; } while (0)
    TXG_SWAP(int64_t, q->m, q->n);
    TXG_SWAP(const char *, q->a, q->b);
    TXG_SWAP(int64_t, q->a_rs, q->b_cs);
    TXG_SWAP(int64_t, q->a_cs, q->b_rs);
    TXG_SWAP(int64_t, q->a_bs, q->b_bs);
    TXG_SWAP(const int64_t *, q->a_boff, q->b_boff);
    TXG_SWAP(int64_t, q->c_rs, q->c_cs);
    TXG_SWAP(int64_t, q->bias_rs, q->bias_cs);
#undef TXG_SWAP
    q->conj = (q->conj & TX_GEMM_CONJ_A ? TX_GEMM_CONJ_B : 0) | (q->conj & TX_GEMM_CONJ_B ? TX_GEMM_CONJ_A : 0);
}

/* How many tasks, and how large: us is the estimated time of everything on one core. */
static void txg_cut(txg_job *q, double us, int threads)
{
    const int64_t nr = q->thin ? q->kern->lanes : q->kern->nr, mr = q->kern->mr;
    const double one = us / (double)q->batch;
    q->mt = q->work ? txg_min(q->m, 8 * TXG_MC) : q->m;
    /* Also where nothing is packed there is an end, so that the cancel flag is seen in time. */
    q->nt = txg_min(q->n, nr * (q->thin ? 1024 : q->pack_b || q->work ? TXG_STRIP : 64));
    q->per = 1;
    const int64_t want = threads > 1 ? txg_max(8, threads * 4) : 1; /* so many finish about together */
    if (q->batch < want && one > 2 * TXG_MIN_TASK_US) {
        const int64_t cuts = txg_min(txg_ceil(want, q->batch), (int64_t)(one / TXG_MIN_TASK_US));
        /* Rows first, while enough of them share what is packed; wide strips use a block of A several times. */
        const int64_t least = q->pack_b ? TXG_LEAST_PACKED : TXG_LEAST, panels = txg_ceil(q->n, nr);
        const int64_t rows = txg_max(1, txg_min(txg_ceil(cuts, txg_ceil(q->n, q->nt)), q->m / least));
        q->mt = txg_min(q->mt, txg_round(txg_ceil(q->m, rows), mr));
        const int64_t strips = txg_min(panels, txg_ceil(cuts, rows));
        q->nt = txg_min(q->nt, txg_ceil(panels, strips) * nr);
    } else if (q->batch > 1) {
        q->per = txg_max(1, txg_min(txg_ceil(q->batch, want), (int64_t)(2 * TXG_MIN_TASK_US / one)));
    }
    q->mtiles = txg_ceil(q->m, q->mt);
    q->ntiles = txg_ceil(q->n, q->nt);
    if (q->mtiles * q->ntiles > 1)
        q->per = 1;
}

/* Packing B costs a pass over it, and pays where tiles would read it along a stride that the
 * caches and the TLB cannot bear, many times over. */
static int txg_should_pack_b(const txg_job *q)
{
    const txg_kernel *K = q->kern;
    if (K->convert || q->b_cs != 1)
        return 1;
    const int64_t es = K->esize;
    if (q->m <= TXG_MC)
        return 0;
    return llabs(q->b_rs) * es >= 3072 || q->m >= 1024 ||
           (K->nr * es < 256 && q->k * es > (512 << 10) / txg_max(1, q->n));
}

static int txg_zero_k(txg_job *q)
{
    const txg_kernel *K = q->kern;
    char row[16 * 64] __attribute__((aligned(64))) = {0};
    for (int64_t g = 0; g < q->batch; g++)
        for (int64_t i = 0; i < q->m; i++)
            for (int64_t j = 0; j < q->n; j += 64) {
                txg_finish f = {.m = 1, .n = txg_min(64, q->n - j), .work = row, .w_rs = 64, .c_rs = q->c_rs,
                                .c_cs = q->c_cs, .bias_cs = q->bias_cs, .accumulate = q->accumulate};
                f.c = q->c + (txg_offset(q->c_boff, q->c_bs, g) + i * q->c_rs + j * q->c_cs) * K->esize;
                f.bias = q->bias ? q->bias + (i * q->bias_rs + j * q->bias_cs) * K->esize : NULL;
                K->finish(&f);
            }
    return 0;
}

/* ---- an outside BLAS, see blas.h ---- */

#define TXG_BLAS_MACS 3e5      /* below, our own kernels */
#define TXG_BLAS_ROWS 256      /* of a panel that goes to the pool */
#define TXG_BLAS_PANEL_MACS 5e10 /* of a panel that has to end before Ctrl-C is seen */

typedef struct txg_blas_job {
    txg_job *q;
    void *fn;
    int dtype, ta, tb;
    int64_t lda, ldb, rows, panels;
} txg_blas_job;

static void txg_blas_task(void *ctx, int64_t t)
{
    const txg_blas_job *d = (const txg_blas_job *)ctx;
    txg_job *q = d->q;
    if (txg_stop(q))
        return;
    const int64_t g = t / d->panels, i0 = t % d->panels * d->rows, m = txg_min(d->rows, q->m - i0), es = q->kern->esize;
    char *c = q->c + (txg_offset(q->c_boff, q->c_bs, g) + i0 * q->c_rs) * es;
    tx_blas_call(d->fn, d->dtype, d->ta, d->tb, m, q->n, q->k,
                 q->a + (txg_offset(q->a_boff, q->a_bs, g) + i0 * q->a_rs) * es, d->lda,
                 q->b + txg_offset(q->b_boff, q->b_bs, g) * es, d->ldb, c, q->c_rs);
    if (q->bias) {
        txg_finish f = {.m = m, .n = q->n, .work = c, .w_rs = q->c_rs, .c = c, .c_rs = q->c_rs, .c_cs = 1,
                        .bias = q->bias, .bias_cs = 1};
        q->kern->finish(&f);
    }
}

/* -1: not a case for it; else as tx_gemm. Which products it gets follows from shape, layout and flags. */
static int txg_blas(txg_job *q, int dtype)
{
    const double macs = (double)q->m * (double)q->n * (double)q->k;
    if (macs < TXG_BLAS_MACS || q->m < 8 || q->n < 8 || q->accumulate || q->c_cs != 1 || q->c_rs < q->n)
        return -1;
    txg_blas_job d = {.q = q, .fn = tx_blas_gemm(dtype), .dtype = dtype};
    if (!d.fn)
        return -1;
    d.ta = tx_blas_order(q->m, q->k, q->a_rs, q->a_cs, q->conj & TX_GEMM_CONJ_A, &d.lda);
    d.tb = tx_blas_order(q->k, q->n, q->b_rs, q->b_cs, q->conj & TX_GEMM_CONJ_B, &d.ldb);
    if (!d.ta || !d.tb || (!tx_blas.wide && q->c_rs > INT32_MAX))
        return -1;
    d.rows = !tx_blas.threads ? TXG_BLAS_ROWS : txg_max(64, (int64_t)(TXG_BLAS_PANEL_MACS / (double)q->n / (double)q->k));
    d.panels = txg_ceil(q->m, d.rows);
    const int64_t tasks = q->batch * d.panels;
    if (tx_blas.threads) {
        for (int64_t t = 0; t < tasks; t++)
            txg_blas_task(&d, t);
    } else {
        tx_parallel_for(tasks, txg_blas_task, &d, (double)q->batch * macs * q->kern->mac_ns * 1e-3);
    }
    return q->cancelled ? 2 : 0;
}

/* 0: done; 1: no memory for workspaces, nothing written; 2: cancelled, C is partly written. */
static int tx_gemm(const tx_gemm_args *g, const void *isa_table)
{
    const txg_kernel *K = &((const txg_table *)isa_table)->kernel[g->dtype];
    if (g->batch <= 0 || g->m <= 0 || g->n <= 0)
        return 0;
    txg_job job = {
        .kern = K, .batch = g->batch, .m = g->m, .n = g->n, .k = g->k, .run = txg_run_length(g->k),
        .a = (const char *)g->a, .b = (const char *)g->b, .c = (char *)g->c, .bias = (const char *)g->bias,
        .a_rs = g->a_rs, .a_cs = g->a_cs, .a_bs = g->a_bs, .b_rs = g->b_rs, .b_cs = g->b_cs, .b_bs = g->b_bs,
        .c_rs = g->c_rs, .c_cs = g->c_cs, .c_bs = g->c_bs, .bias_cs = 1,
        .a_boff = g->a_boff, .b_boff = g->b_boff, .c_boff = g->c_boff,
        .accumulate = g->flags & TX_GEMM_ACCUMULATE ? 1 : 0,
        .conj = g->dtype == TX_C64 || g->dtype == TX_C128 ? g->flags & (TX_GEMM_CONJ_A | TX_GEMM_CONJ_B) : 0,
    }, *q = &job;
    if (q->k <= 0)
        return txg_zero_k(q);
    /* Strides of axes of length 1 mean nothing; give them the most convenient value. */
    if (q->m == 1) { q->a_rs = q->k * q->a_cs; q->c_rs = q->n * q->c_cs; }
    if (q->n == 1) { q->b_cs = q->k == 1 || q->b_rs != 1 ? 1 : q->k; q->c_cs = 1; }
    if (q->k == 1) { q->a_cs = 1; q->b_rs = q->n * q->b_cs; }
    if (q->m == 1 && q->n == 1)
        return txg_dot(q);
    /* Rows that follow each other through the batch, against one B: a single taller product. */
    if (q->batch > 1 && !q->a_boff && !q->b_boff && !q->c_boff && q->b_bs == 0 && q->a_bs == q->m * q->a_rs &&
        q->c_bs == q->m * q->c_rs) {
        q->m *= q->batch;
        q->batch = 1;
    }
    const int blas = txg_blas(q, g->dtype);
    if (blas >= 0)
        return blas;
    /* Vectors run along n. Let it be the axis along which C is adjacent, unless that wastes lanes. */
    const int64_t lanes = K->lanes;
    const int64_t cost_n = q->m * txg_ceil(q->n, lanes), cost_m = q->n * txg_ceil(q->m, lanes);
    if (2 * cost_m <= cost_n || (q->c_cs != 1 && q->c_rs == 1 && cost_m < 2 * cost_n))
        txg_swap_sides(q);

    q->work = K->convert || q->c_cs != 1 || (q->accumulate && (q->k > q->run || q->bias)) ||
              (q->bias && (q->bias_rs != 0 || q->bias_cs != 1));
    q->thin = K->thin && q->m <= TXG_THIN && (q->b_rs == 1 || (q->b_cs == 1 && !K->convert)) && q->k >= 16 && q->n >= lanes;
    q->pack_b = !q->thin && txg_should_pack_b(q);
    q->pack_a = K->convert || (q->a_cs != 1 && llabs(q->a_cs) * K->esize >= 2048 && q->n > K->nr / 2);

    const double macs = (double)q->batch * (double)q->m * (double)txg_round(q->n, lanes) * (double)q->k;
    const double mn = (double)q->m * (double)q->n, nk = (double)q->n * (double)q->k, mk = (double)q->m * (double)q->k;
    const double bytes = (double)q->batch * (mn + nk + mk) * (double)K->esize;
    double us = macs * K->mac_ns * 1e-3 + 0.05;
    if (us < bytes * 3e-5) /* few rows, columns or steps: the time is that of touching memory */
        us = bytes * 3e-5;
    const int threads = tx_get_num_threads();
    txg_cut(q, us, threads);

    const int64_t cs = K->csize, npad = txg_round(q->nt, K->nr), run = txg_min(q->run, q->k);
    q->a_bytes = q->pack_a ? txg_round(txg_min(TXG_MC, q->mt) * (run + 16) * cs, 64) : 0;
    q->b_bytes = q->pack_b ? txg_round(npad * run * cs, 64)
               : q->n % lanes && !q->thin && !K->masked ? txg_round(K->nr * run * cs, 64) : 0;
    q->slot_bytes = q->a_bytes + q->b_bytes;
    const int64_t tiles = q->mtiles * q->ntiles, runs = txg_ceil(q->k, q->run);
    if (q->batch == 1 && tiles == 1 && threads > 1 && runs > 1 && us > 4 * TXG_MIN_TASK_US &&
        q->m * npad * cs <= TXG_RUNS_BYTES / 16) {
        q->nslots = (int)txg_min(txg_min(runs, threads), TXG_MAX_SLOTS);
        return txg_runs(q, us);
    }
    q->slot_bytes += q->work ? txg_round(q->mt * npad * cs, 64) : 0;

    const int64_t tasks = tiles == 1 ? txg_ceil(q->batch, q->per) : q->batch * tiles;
    char small[8192] __attribute__((aligned(64)));
    q->nslots = (int)txg_min(txg_min(tasks, threads), TXG_MAX_SLOTS);
    if (q->slot_bytes) {
        if (q->nslots == 1 && q->slot_bytes <= (int64_t)sizeof small) {
            q->slots = small;
        } else {
            q->slots = (char *)tx_scratch_alloc((size_t)(q->slot_bytes * q->nslots));
            if (!q->slots)
                return 1;
        }
    }
    if (tasks == 1)
        txg_task(q, 0);
    else
        tx_parallel_for(tasks, txg_task, q, us);
    if (q->slots && q->slots != small)
        tx_scratch_free(q->slots, (size_t)(q->slot_bytes * q->nslots));
    return q->cancelled ? 2 : 0;
}

#endif
