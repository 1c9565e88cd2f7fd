/* Gradients of layer_norm and rms_norm over all rows. The rows are cut into parts by shape
 * alone; each part adds its share of the parameters' gradients up in doubles of its own, and
 * the parts are added in order: the number of threads does not show in the result. */
#ifndef TX_NORM_BACKWARD_H
#define TX_NORM_BACKWARD_H

#include "kernel_abi.h"
#include "alloc.h"
#include "pool.h"

#include <string.h>

typedef struct tx_norm_job {
    const tx_rows *k;
    int32_t isz, rms;
    int64_t rows, n, parts, per_part;
    char *dst;                    /* gradient of the input, or NULL */
    const char *grad, *src, *weight, *mean, *rstd;
    double *dw, *db;              /* parts * n each, or NULL */
    char *dweight, *dbias;        /* n elements each, or NULL */
} tx_norm_job;

static void tx_norm_task(void *ctx, int64_t part) {
    tx_norm_job *j = (tx_norm_job *)ctx;
    int64_t lo = part * j->per_part, hi = lo + j->per_part < j->rows ? lo + j->per_part : j->rows;
    int64_t bytes = j->n * j->isz;
    double *dw = j->dw ? j->dw + part * j->n : NULL, *db = j->db ? j->db + part * j->n : NULL;
    if (dw) memset(dw, 0, (size_t)j->n * sizeof(double));
    if (db) memset(db, 0, (size_t)j->n * sizeof(double));
    for (int64_t r = lo; r < hi; r++) {
        char *d = j->dst ? j->dst + r * bytes : NULL;
        const char *g = j->grad + r * bytes, *s = j->src + r * bytes;
        if (j->rms)
            j->k->rms_norm_backward(d, g, s, j->n, j->weight, j->rstd + r * j->isz, dw);
        else
            j->k->layer_norm_backward(d, g, s, j->n, j->weight, j->mean + r * j->isz, j->rstd + r * j->isz, dw, db);
    }
}

static void tx_norm_merge(const tx_norm_job *j, const double *parts, char *out) {
    if (!out) return;
    for (int64_t i = 0; i < j->n; i++) {
        double sum = 0;
        for (int64_t p = 0; p < j->parts; p++) sum += parts[p * j->n + i];
        if (j->isz == 4) ((float *)out)[i] = (float)sum;
        else ((double *)out)[i] = sum;
    }
}

/* 0 where scratch memory is short, and nothing has been written then. */
static int tx_run_norm_backward(tx_norm_job *j) {
    j->per_part = (j->rows + 31) / 32;
    if (j->per_part * j->n < 16384 && j->n > 0) j->per_part = (16384 + j->n - 1) / j->n;
    j->parts = (j->rows + j->per_part - 1) / j->per_part;
    size_t bytes = (size_t)(j->parts * j->n) * sizeof(double);
    char *scratch = NULL;
    int arrays = (j->dweight != NULL) + (j->dbias != NULL);
    if (arrays) {
        scratch = (char *)tx_scratch_alloc(bytes * (size_t)arrays);
        if (!scratch) return 0;
        j->dw = j->dweight ? (double *)scratch : NULL;
        j->db = j->dbias ? (double *)(scratch + (j->dweight ? bytes : 0)) : NULL;
    }
    tx_parallel_for(j->parts, tx_norm_task, j, (double)j->rows * (double)j->n * 2e-3);
    if (j->dw) tx_norm_merge(j, j->dw, j->dweight);
    if (j->db) tx_norm_merge(j, j->db, j->dbias);
    if (scratch) tx_scratch_free(scratch, bytes * (size_t)arrays);
    return 1;
}

#endif
