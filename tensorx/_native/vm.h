/* The block interpreter: runs a linear program of kernels over cache-sized blocks.
 *
 * A program has a domain (collapsed dimensions, outermost first), registers and
 * instructions. A register is a pointer that is valid for one block: into memory that is
 * read or written in domain order, to one scalar, or into the thread's scratch. Blocks are
 * handed to the threads in chunks; which thread runs a chunk never shows in the result. */
#ifndef TX_VM_H
#define TX_VM_H

#include "types.h"
#include "alloc.h"
#include "pool.h"

#define TX_MAXREG 704
#define TX_MAXINS 704
#define TX_MAXLAY 288
#define TX_MAXSLOT 120
#define TX_CHUNK 65536 /* elements per task */

enum { TX_R_STEP, TX_R_SLOT, TX_R_ROW };

typedef struct tx_reg {
    char *base;    /* STEP: address of element 0; SLOT: unused */
    int64_t step;  /* STEP: bytes per element, 0 for a scalar */
    int32_t kind;
    int32_t ref;   /* SLOT: its number; ROW: the layout */
} tx_reg;

enum { TX_I_EW, TX_I_CAST, TX_I_ROUND, TX_I_COPY, TX_I_GATHER, TX_I_SCATTER };

typedef union tx_ins_fn {
    tx_ew_fn ew;
    tx_cast_fn cast;
    tx_round_fn round;
    tx_move_fn move;
} tx_ins_fn;

typedef struct tx_ins {
    uint8_t kind, nsrc, mask, aux; /* aux: log2 of the item size, or which half */
    int16_t dst, src[TX_MAX_OPERANDS];
    int16_t lay;
    tx_ins_fn fn;
} tx_ins;

typedef struct tx_lay {
    char *base;
    int64_t stride[TX_MAXDIM]; /* bytes, per domain dimension */
} tx_lay;

typedef struct tx_prog {
    struct tx_prog *next;
    int64_t numel, inner;
    int32_t ndim, block, rowmode, nreg, nins, nlay, nslot, slot_bytes, npf;
    double ns_per_elem;
    int64_t dim[TX_MAXDIM];
    tx_reg reg[TX_MAXREG];
    tx_ins ins[TX_MAXINS];
    int16_t pf[TX_MAXREG];
    tx_lay lay[TX_MAXLAY];
    tx_scalar cst[TX_MAXREG];
} tx_prog;

typedef struct tx_tctx {
    char *scratch;
    char *rp[TX_MAXREG];
} tx_tctx;

/* ---- scratch of a thread: grows to what the largest program needed ------------------ */

static __thread char *tx_tl_scratch;
static __thread size_t tx_tl_scratch_size;

static char *tx_thread_scratch(size_t need) {
    if (need <= tx_tl_scratch_size) return tx_tl_scratch;
    size_t size = need < 65536 ? 65536 : need;
    char *p = (char *)tx_scratch_alloc(size);
    if (!p) return NULL;
    if (tx_tl_scratch) tx_scratch_free(tx_tl_scratch, tx_tl_scratch_size);
    tx_tl_scratch = p;
    tx_tl_scratch_size = size;
    return p;
}

/* ---- strided moves over the domain ---------------------------------------------------- */

static inline char *tx_lay_row(const tx_prog *p, const tx_lay *l, int64_t row) {
    char *a = l->base;
    for (int d = p->ndim - 2; d >= 0 && row; d--) {
        a += (row % p->dim[d]) * l->stride[d];
        row /= p->dim[d];
    }
    return a;
}

/* Moves n elements at domain position pos between dense `dense` and the layout. */
static void tx_lay_move(const tx_prog *p, const tx_lay *l, char *dense, int64_t pos, int64_t n,
                        int log2, tx_move_fn move, int scatter) {
    int nd = p->ndim, isz = 1 << log2;
    int64_t c[TX_MAXDIM];
    int64_t r = pos;
    char *a = l->base;
    for (int d = nd - 1; d >= 0; d--) {
        c[d] = r % p->dim[d];
        r /= p->dim[d];
        a += c[d] * l->stride[d];
    }
    int in = nd - 1;
    int64_t is = l->stride[in];
    while (n > 0) {
        int64_t run = p->dim[in] - c[in];
        if (run > n) run = n;
        if (scatter) move(a, is, dense, isz, run);
        else move(dense, isz, a, is, run);
        dense += run * isz;
        n -= run;
        if (n <= 0) break;
        a -= c[in] * is;
        c[in] = 0;
        int d = in - 1;
        for (; d >= 0; d--) {
            a += l->stride[d];
            if (++c[d] < p->dim[d]) break;
            a -= p->dim[d] * l->stride[d];
            c[d] = 0;
        }
        if (d < 0) break;
    }
}

/* ---- one block ------------------------------------------------------------------------ */

static inline void tx_run_span(const tx_prog *p, tx_tctx *t, int64_t pos, int64_t n, int prefetch) {
    char **rp = t->rp;
    const int nreg = p->nreg;
    int64_t row = 0, col = 0;
    if (p->rowmode) { row = pos / p->inner; col = pos - row * p->inner; }
    for (int r = 0; r < nreg; r++) {
        const tx_reg *g = &p->reg[r];
        if (g->kind == TX_R_STEP) rp[r] = g->base + pos * g->step;
        else if (g->kind == TX_R_SLOT) rp[r] = t->scratch + (int64_t)g->ref * p->slot_bytes;
        else rp[r] = tx_lay_row(p, &p->lay[g->ref], row) + col * g->step;
    }
    const int nins = p->nins;
    int64_t lines = 0;
    if (prefetch) lines = n >> 3; /* in units of 8 elements, scaled by the step below */
    for (int i = 0; i < nins; i++) {
        const tx_ins *q = &p->ins[i];
        if (prefetch) {
            int64_t lo = lines * i / nins, hi = lines * (i + 1) / nins;
            for (int k = 0; k < p->npf; k++) {
                const tx_reg *g = &p->reg[p->pf[k]];
                const char *a = rp[p->pf[k]] + n * g->step;
                for (int64_t b = lo * 8 * g->step; b < hi * 8 * g->step; b += 64)
                    __builtin_prefetch(a + b, 0, 2);
            }
        }
        switch (q->kind) {
        case TX_I_EW: {
            const void *src[TX_MAX_OPERANDS] = {rp[q->src[0]], rp[q->src[1]], rp[q->src[2]], rp[q->src[3]]};
            q->fn.ew(rp[q->dst], src, n, q->mask);
            break;
        }
        case TX_I_CAST:
            q->fn.cast(rp[q->dst], rp[q->src[0]], q->mask ? 1 : n);
            break;
        case TX_I_ROUND:
            q->fn.round((float *)rp[q->dst], n);
            break;
        case TX_I_COPY:
            /* mask: the source is one element that stands for all */
            if (q->mask) q->fn.move(rp[q->dst], 1 << q->aux, rp[q->src[0]], 0, n);
            else memmove(rp[q->dst], rp[q->src[0]], (size_t)n << q->aux);
            break;
        case TX_I_GATHER:
            tx_lay_move(p, &p->lay[q->lay], rp[q->dst], pos, n, q->aux, q->fn.move, 0);
            break;
        case TX_I_SCATTER:
            tx_lay_move(p, &p->lay[q->lay], rp[q->src[0]], pos, n, q->aux, q->fn.move, 1);
            break;
        }
    }
}

static inline void tx_run_range(const tx_prog *p, tx_tctx *t, int64_t lo, int64_t hi) {
    int64_t block = p->block;
    int pf = p->npf > 0;
    while (lo < hi) {
        int64_t n = hi - lo < block ? hi - lo : block;
        if (p->rowmode) {
            int64_t left = p->inner - lo % p->inner;
            if (left < n) n = left;
        }
        tx_run_span(p, t, lo, n, pf && hi - lo > n);
        lo += n;
    }
}

/* A worker without memory for its scratch takes turns at this one: a program that donates
 * its inputs cannot be started anew, so it must not fail once it runs. */
#define TX_SPARE_BYTES ((size_t)TX_MAXSLOT * (1024 * 16 + 192) + 64)
static char tx_spare_scratch[TX_SPARE_BYTES] __attribute__((aligned(64)));
static pthread_mutex_t tx_spare_lock = PTHREAD_MUTEX_INITIALIZER;

static inline size_t tx_scratch_need(const tx_prog *p) { return (size_t)p->nslot * p->slot_bytes + 64; }

static inline int tx_tctx_begin(tx_tctx *t, const tx_prog *p) {
    t->scratch = tx_thread_scratch(tx_scratch_need(p));
    if (t->scratch) return 0;
    pthread_mutex_lock(&tx_spare_lock);
    t->scratch = tx_spare_scratch;
    return 1;
}

static inline void tx_tctx_end(int spare) {
    if (spare) pthread_mutex_unlock(&tx_spare_lock);
}

typedef struct tx_run_job {
    const tx_prog *p;
    int64_t chunk;
} tx_run_job;

static void tx_run_chunk(void *ctx, int64_t i) {
    tx_run_job *j = (tx_run_job *)ctx;
    tx_tctx t;
    int spare = tx_tctx_begin(&t, j->p);
    int64_t lo = i * j->chunk, hi = lo + j->chunk;
    if (hi > j->p->numel) hi = j->p->numel;
    tx_run_range(j->p, &t, lo, hi);
    tx_tctx_end(spare);
}

/* Runs an elementwise program to its end. */
static void tx_run(const tx_prog *p) {
    int64_t n = p->numel;
    if (n <= TX_CHUNK / 4) {
        tx_tctx t;
        int spare = tx_tctx_begin(&t, p);
        if (n <= p->block && !p->rowmode) {
            if (n > 0) tx_run_span(p, &t, 0, n, 0);
        } else {
            tx_run_range(p, &t, 0, n);
        }
        tx_tctx_end(spare);
        return;
    }
    tx_run_job j = {p, n <= 4 * TX_CHUNK ? TX_CHUNK / 4 : TX_CHUNK};
    tx_parallel_for((n + j.chunk - 1) / j.chunk, tx_run_chunk, &j, (double)n * p->ns_per_elem * 1e-3);
}

#endif
