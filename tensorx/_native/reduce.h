/* Reductions over the value of a program, without storing that value.
 *
 * The domain of the program is ordered [kept, reduced] (inner form: runs are folded into one
 * state) or [kept, reduced, kept] (column form: rows are folded into a row of accumulators).
 * Runs are cut by shape alone and merged in order, so the bits do not depend on the number
 * of threads, nor on whether the value was stored before. */
#ifndef TX_REDUCE_H
#define TX_REDUCE_H

#include "vm.h"

#define TX_RED_BLOCK 1024   /* every reducing program uses this block, whatever its dtypes */
#define TX_RED_SEG 65536
#define TX_RED_PANEL 4096   /* columns of one task: rows are read in long runs */
#define TX_RED_ROWS 8       /* rows that lie in memory are folded together: their accumulators, which do not fit into the
                               first cache beside them, are read and written once */

typedef struct tx_reduce_job {
    const tx_prog *p;
    const tx_red *red;
    int32_t value;         /* register that holds the value */
    int32_t vsize;         /* bytes of its items */
    int32_t out_size;      /* bytes of a result (accumulator dtype) */
    int64_t outer, rcount, inner; /* kept, reduced, kept (1 in the inner form) */
    char *out;
    /* work shape, a function of the counts above */
    int64_t nseg, seg, per_task, nblk, panel;
    tx_red_state *states;
    char *acc;             /* column form with segments: nseg * outer * inner accumulators */
    char *aux;
    int32_t failed;
} tx_reduce_job;

static void tx_reduce_rows_task(void *ctx, int64_t task) {
    tx_reduce_job *j = (tx_reduce_job *)ctx;
    const tx_prog *p = j->p;
    int64_t R = j->rcount, block = p->block;
    tx_tctx t;
    int spare = tx_tctx_begin(&t, p);
    if (j->nseg > 1) {
        int64_t k = task / j->nseg, s = task % j->nseg;
        int64_t lo = s * j->seg, hi = lo + j->seg < R ? lo + j->seg : R;
        tx_red_state *st = &j->states[task];
        memset(st, 0, sizeof *st);
        while (lo < hi) {
            int64_t n = hi - lo < block ? hi - lo : block;
            if (p->rowmode) {
                int64_t left = p->inner - (k * R + lo) % p->inner;
                if (left < n) n = left;
            }
            tx_run_span(p, &t, k * R + lo, n, 0);
            j->red->fold(st, t.rp[j->value], n, lo);
            lo += n;
        }
    } else {
        int64_t k0 = task * j->per_task, k1 = k0 + j->per_task < j->outer ? k0 + j->per_task : j->outer;
        if (R * 2 <= block && !p->rowmode) {
            int64_t rows = block / R;
            while (k0 < k1) {
                int64_t m = k1 - k0 < rows ? k1 - k0 : rows;
                tx_run_span(p, &t, k0 * R, m * R, 0);
                const char *v = t.rp[j->value];
                for (int64_t r = 0; r < m; r++) {
                    tx_red_state st;
                    memset(&st, 0, sizeof st);
                    j->red->fold(&st, v + r * R * j->vsize, R, 0);
                    j->red->finish(&st, j->out + (k0 + r) * j->out_size);
                }
                k0 += m;
            }
        } else {
            for (; k0 < k1; k0++) {
                tx_red_state st;
                memset(&st, 0, sizeof st);
                for (int64_t lo = 0; lo < R;) {
                    int64_t n = R - lo < block ? R - lo : block;
                    if (p->rowmode) {
                        int64_t left = p->inner - (k0 * R + lo) % p->inner;
                        if (left < n) n = left;
                    }
                    tx_run_span(p, &t, k0 * R + lo, n, 0);
                    j->red->fold(&st, t.rp[j->value], n, lo);
                    lo += n;
                }
                j->red->finish(&st, j->out + k0 * j->out_size);
            }
        }
    }
    tx_tctx_end(spare);
}

static void tx_reduce_cols_task(void *ctx, int64_t task) {
    tx_reduce_job *j = (tx_reduce_job *)ctx;
    const tx_prog *p = j->p;
    int64_t R = j->rcount, C = j->inner, block = p->block;
    int64_t s = task % j->nseg, rest = task / j->nseg;
    int64_t b = rest % j->nblk, k = rest / j->nblk;
    int64_t c0 = b * j->panel, cn = C - c0 < j->panel ? C - c0 : j->panel;
    int64_t lo = s * j->seg, hi = lo + j->seg < R ? lo + j->seg : R;
    int64_t at = (s * j->outer + k) * C + c0;
    char *acc = j->acc + at * j->red->vacc_bytes;
    char *aux = j->aux + at * j->red->vaux_bytes;
    tx_tctx t;
    int spare = tx_tctx_begin(&t, p);
    j->red->vinit(acc, aux, cn);
    int64_t rows = (j->nblk == 1 && C * 2 <= block && !p->rowmode) ? block / C : 1;
    const int direct = p->nins == 0; /* the value lies in memory as it is */
    while (lo < hi) {
        int64_t m = hi - lo < rows ? hi - lo : rows;
        int64_t pos = (k * R + lo) * C + c0;
        if (p->rowmode) {
            for (int64_t c = 0; c < cn;) {
                int64_t n = p->inner - (pos + c) % p->inner;
                if (n > cn - c) n = cn - c;
                if (n > block) n = block;
                tx_run_span(p, &t, pos + c, n, 0);
                j->red->vfold(acc + c * j->red->vacc_bytes, aux + c * j->red->vaux_bytes, t.rp[j->value], n, lo);
                c += n;
            }
        } else if (m > 1) {
            tx_run_span(p, &t, pos, m * C, 0);
            j->red->vfold_rows(acc, aux, t.rp[j->value], C * j->vsize, m, cn, lo);
        } else {
            if (direct) m = hi - lo < TX_RED_ROWS ? hi - lo : TX_RED_ROWS;
            for (int64_t c = 0; c < cn; c += block) {
                int64_t n = cn - c < block ? cn - c : block;
                tx_run_span(p, &t, pos + c, n, 0);
                j->red->vfold_rows(acc + c * j->red->vacc_bytes, aux + c * j->red->vaux_bytes, t.rp[j->value], C * j->vsize, m, n, lo);
            }
        }
        lo += m;
    }
    if (j->nseg == 1)
        j->red->vfinish(j->out + (k * C + c0) * j->out_size, acc, aux, cn);
    tx_tctx_end(spare);
}

/* Returns 0, or 1 when there was no memory for the partial results (nothing written). */
static int tx_reduce(tx_reduce_job *j) {
    int64_t K = j->outer, R = j->rcount, C = j->inner;
    int64_t total = K * R * C;
    double est = (double)total * j->p->ns_per_elem * 1e-3;
    j->states = NULL;
    j->acc = j->aux = NULL;
    if (C == 1) {
        j->seg = TX_RED_SEG;
        j->nseg = R > TX_RED_SEG ? (R + TX_RED_SEG - 1) / TX_RED_SEG : 1;
        j->per_task = R > 0 && TX_RED_SEG / R > 1 ? TX_RED_SEG / R : 1;
        if (j->nseg == 1) {
            tx_parallel_for((K + j->per_task - 1) / j->per_task, tx_reduce_rows_task, j, est);
            return 0;
        }
        size_t bytes = (size_t)(K * j->nseg) * sizeof(tx_red_state);
        j->states = (tx_red_state *)tx_scratch_alloc(bytes);
        if (!j->states) return 1;
        tx_parallel_for(K * j->nseg, tx_reduce_rows_task, j, est);
        for (int64_t k = 0; k < K; k++) {
            tx_red_state *st = &j->states[k * j->nseg];
            for (int64_t s = 1; s < j->nseg; s++) j->red->merge(st, st + s);
            j->red->finish(st, j->out + k * j->out_size);
        }
        tx_scratch_free(j->states, bytes);
        return 0;
    }
    int64_t block = j->p->block;
    j->panel = block < TX_RED_PANEL ? TX_RED_PANEL / block * block : block;
    j->nblk = (C + j->panel - 1) / j->panel;
    int64_t width = C < j->panel ? C : j->panel;
    j->nseg = 1;
    j->seg = R;
    if (K * j->nblk < 8 && R * width > 4 * TX_RED_SEG) {
        int64_t seg = TX_RED_SEG / width;
        if (seg < (R + 15) / 16) seg = (R + 15) / 16;
        j->seg = seg;
        j->nseg = (R + seg - 1) / seg;
    }
    size_t cols = (size_t)(j->nseg * K * C);
    size_t abytes = cols * j->red->vacc_bytes, xbytes = cols * j->red->vaux_bytes;
    size_t bytes = ((abytes + 63) & ~(size_t)63) + xbytes + 64;
    char *mem = (char *)tx_scratch_alloc(bytes);
    if (!mem) return 1;
    j->acc = mem;
    j->aux = mem + ((abytes + 63) & ~(size_t)63);
    tx_parallel_for(K * j->nblk * j->nseg, tx_reduce_cols_task, j, est);
    if (j->nseg > 1) {
        int64_t n = K * C;
        for (int64_t s = 1; s < j->nseg; s++)
            j->red->vmerge(j->acc, j->aux, j->acc + s * n * j->red->vacc_bytes, j->aux + s * n * j->red->vaux_bytes, n);
        j->red->vfinish(j->out, j->acc, j->aux, n);
    }
    tx_scratch_free(mem, bytes);
    return 0;
}

#endif
