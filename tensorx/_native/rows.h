/* Row kernels over a program: a row of the domain is computed into the output (or read in
 * place) and finished there while it is in the cache. Rows are independent, so neither the
 * number of threads nor the chunks show in the result. */
#ifndef TX_ROWS_H
#define TX_ROWS_H

#include "vm.h"

enum {
    TX_ROW_SOFTMAX, TX_ROW_LOG_SOFTMAX, TX_ROW_LOGSUMEXP, TX_ROW_LAYER_NORM, TX_ROW_RMS_NORM,
    TX_ROW_SOFTMAX_BACKWARD, TX_ROW_LOG_SOFTMAX_BACKWARD
};

typedef struct tx_row_job {
    const tx_prog *p;      /* fills dst row by row; NULL: the rows are read from src */
    const tx_rows *k;
    int32_t kind, isz;
    int64_t rows, n, per_task;
    char *dst;             /* rows of n elements (one element per row: logsumexp) */
    const char *src, *src2;
    const char *weight, *bias;
    char *mean, *rstd;     /* one element per row, or NULL */
    double eps;
} tx_row_job;

static void tx_rows_task(void *ctx, int64_t task) {
    tx_row_job *j = (tx_row_job *)ctx;
    int64_t lo = task * j->per_task, hi = lo + j->per_task < j->rows ? lo + j->per_task : j->rows;
    int64_t bytes = j->n * j->isz;
    tx_tctx t;
    int spare = 0;
    if (j->p) spare = tx_tctx_begin(&t, j->p);
    for (int64_t r = lo; r < hi; r++) {
        char *d = j->dst + r * bytes;
        const char *s = j->src + r * bytes;
        if (j->p) {
            tx_run_range(j->p, &t, r * j->n, (r + 1) * j->n);
            s = d;
        }
        switch (j->kind) {
        case TX_ROW_SOFTMAX: j->k->softmax(d, s, j->n); break;
        case TX_ROW_LOG_SOFTMAX: j->k->log_softmax(d, s, j->n); break;
        case TX_ROW_LOGSUMEXP: j->k->logsumexp(j->dst + r * j->isz, s, j->n); break;
        case TX_ROW_LAYER_NORM:
            j->k->layer_norm(d, s, j->n, j->weight, j->bias, j->eps, j->mean ? j->mean + r * j->isz : NULL,
                             j->rstd ? j->rstd + r * j->isz : NULL);
            break;
        case TX_ROW_RMS_NORM:
            j->k->rms_norm(d, s, j->n, j->weight, j->eps, j->rstd ? j->rstd + r * j->isz : NULL);
            break;
        case TX_ROW_SOFTMAX_BACKWARD: j->k->softmax_backward(d, s, j->src2 + r * bytes, j->n); break;
        case TX_ROW_LOG_SOFTMAX_BACKWARD: j->k->log_softmax_backward(d, s, j->src2 + r * bytes, j->n); break;
        }
    }
    if (j->p) tx_tctx_end(spare);
}

static void tx_run_rows(tx_row_job *j) {
    j->per_task = j->n > 0 && 32768 / j->n > 1 ? 32768 / j->n : 1;
    tx_parallel_for((j->rows + j->per_task - 1) / j->per_task, tx_rows_task, j, (double)j->rows * j->n * 1.5e-3);
}

#endif
