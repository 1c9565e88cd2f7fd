/* Convolutions in up to three spatial axes: columns of a block of positions go into a buffer
 * that stays in the cache, and are multiplied at once.
 *
 * Three passes, each linear in either operand: forward, gradient of the input, gradient of the
 * weight; transposed convolutions are the second one. Work is cut by shape alone wherever that
 * shows in a result, so the bits do not depend on the number of threads. */
#ifndef TX_CONV_H
#define TX_CONV_H

#include "gemm.h"
#include "types.h"

typedef struct txv_shape {
    int32_t dtype; /* TX_F32 or TX_F64 */
    int64_t batch, groups, cin, cout; /* channels of all groups */
    int64_t in[3], out[3], k[3], stride[3], pad[3], dilation[3];
} txv_shape;

#define TXV_COLUMNS (192 << 10) /* bytes of columns at a time */
#define TXV_PARTS 8             /* most partial sums of a gradient of the weight */

#define TXV_CAT2(a, b) a##_##b
#define TXV_CAT(a, b) TXV_CAT2(a, b)
#define TXV_T float
#define TXV_N f32
#include "conv_template.h"
#undef TXV_T
#undef TXV_N
#define TXV_T double
#define TXV_N f64
#include "conv_template.h"
#undef TXV_T
#undef TXV_N

typedef struct txv_job {
    const txv_shape *s;
    const void *gemm;
    char *x, *w, *y, *bias; /* x and dx, w, y and dy */
    char *parts;
    int64_t kk, ci, co;        /* rows of columns, channels of a group in and out */
    int64_t plane, npos, es;   /* elements of an input channel, positions, bytes of an element */
    int64_t strip, strips;     /* positions of a block */
    int64_t merge, blocks;     /* images that are taken together */
    int64_t cblock, cblocks;   /* input channels of a task (gradient of the input) */
    int64_t per, nparts, part_bytes;
    int64_t wide_bytes;        /* of a bordered copy, at the end of a slot; 0: images are not small */
    int64_t slot_bytes;
    char *slots;
    int nslots, failed;
    char taken[TXG_MAX_SLOTS];
} txv_job;

static char *txv_slot(txv_job *j, int *which)
{
    for (;;) {
        for (int i = 0; i < j->nslots; i++)
            if (!__atomic_load_n(&j->taken[i], __ATOMIC_RELAXED) && !__atomic_exchange_n(&j->taken[i], 1, __ATOMIC_ACQUIRE)) {
                *which = i;
                return j->slots + i * j->slot_bytes;
            }
        sched_yield();
    }
}

static void txv_slot_back(txv_job *j, int which) { __atomic_store_n(&j->taken[which], 0, __ATOMIC_RELEASE); }

static int txv_stop(txv_job *j)
{
    if (tx_cancel_requested() || tx_poll_stop())
        __atomic_store_n(&j->failed, 2, __ATOMIC_RELAXED);
    return __atomic_load_n(&j->failed, __ATOMIC_RELAXED);
}

static void txv_product(txv_job *j, tx_gemm_args *g)
{
    g->dtype = j->s->dtype;
    g->batch = 1;
    const int rc = tx_gemm(g, j->gemm);
    if (rc)
        __atomic_store_n(&j->failed, rc, __ATOMIC_RELAXED);
}

/* x: an image; slot: where the bordered copy has its place. */
static void txv_columns(const txv_job *j, const char *x, int64_t c0, int64_t n, int64_t p0, int64_t p1, char *dst, int64_t ld,
                        char *slot)
{
    if (j->wide_bytes) {
        char *wide = slot + j->slot_bytes - j->wide_bytes;
        if (j->s->dtype == TX_F32) {
            txv_bordered_f32(j->s, (const float *)x + c0 * j->plane, n, (float *)wide);
            txv_small_columns_f32(j->s, (float *)wide, n, (float *)dst, ld);
        } else {
            txv_bordered_f64(j->s, (const double *)x + c0 * j->plane, n, (double *)wide);
            txv_small_columns_f64(j->s, (double *)wide, n, (double *)dst, ld);
        }
        return;
    }
    if (j->s->dtype == TX_F32)
        txv_im2col_f32(j->s, (const float *)x, c0, n, p0, p1, (float *)dst, ld);
    else
        txv_im2col_f64(j->s, (const double *)x, c0, n, p0, p1, (double *)dst, ld);
}

/* A kernel of one element at every position in order: the columns are the input itself. */
static int txv_plain(const txv_shape *s)
{
    for (int d = 0; d < 3; d++)
        if (s->k[d] != 1 || s->stride[d] != 1 || s->pad[d] != 0)
            return 0;
    return 1;
}

/* ---- forward ---- */

static void txv_forward_one(txv_job *j, int64_t n, int64_t g, int64_t p0, int64_t p1, char *cols)
{
    const txv_shape *s = j->s;
    const char *x = j->x + n * s->cin * j->plane * j->es;
    const int64_t len = p1 - p0;
    char *y = j->y + ((n * s->cout + g * j->co) * j->npos + p0) * j->es;
    tx_gemm_args a = {.m = j->co, .n = len, .k = j->kk, .a = j->w + g * j->co * j->kk * j->es, .a_rs = j->kk, .a_cs = 1,
                      .b = cols, .b_rs = len, .b_cs = 1, .c = y, .c_rs = j->npos, .c_cs = 1};
    if (txv_plain(s)) {
        a.b = x + (g * j->ci * j->plane + p0) * j->es;
        a.b_rs = j->plane;
    } else {
        txv_columns(j, x, g * j->ci, j->ci, p0, p1, cols, len, cols);
    }
    if (j->bias) {
        const char *b = j->bias + g * j->co * j->es;
        if (s->dtype == TX_F32)
            txv_fill_rows_f32((float *)y, j->co, len, j->npos, (const float *)b);
        else
            txv_fill_rows_f64((double *)y, j->co, len, j->npos, (const double *)b);
        a.flags = TX_GEMM_ACCUMULATE;
    }
    txv_product(j, &a);
}

/* Few positions: several images side by side, into a buffer. */
static void txv_forward_merged(txv_job *j, int64_t n0, int64_t n1, int64_t g, char *slot)
{
    const txv_shape *s = j->s;
    const int64_t len = (n1 - n0) * j->npos;
    char *cols = slot, *out = slot + txg_round(j->kk * len * j->es, 64);
    for (int64_t n = n0; n < n1; n++)
        txv_columns(j, j->x + n * s->cin * j->plane * j->es, g * j->ci, j->ci, 0, j->npos, cols + (n - n0) * j->npos * j->es, len, slot);
    tx_gemm_args a = {.m = j->co, .n = len, .k = j->kk, .a = j->w + g * j->co * j->kk * j->es, .a_rs = j->kk, .a_cs = 1,
                      .b = cols, .b_rs = len, .b_cs = 1, .c = out, .c_rs = len, .c_cs = 1};
    txv_product(j, &a);
    const char *b = j->bias ? j->bias + g * j->co * j->es : NULL;
    for (int64_t n = n0; n < n1; n++) {
        char *y = j->y + (n * s->cout + g * j->co) * j->npos * j->es;
        const char *from = out + (n - n0) * j->npos * j->es;
        if (s->dtype == TX_F32)
            txv_rows_from_f32((float *)y, j->npos, (const float *)from, len, j->co, j->npos, (const float *)b);
        else
            txv_rows_from_f64((double *)y, j->npos, (const double *)from, len, j->co, j->npos, (const double *)b);
    }
}

static void txv_forward_task(void *ctx, int64_t t)
{
    txv_job *j = (txv_job *)ctx;
    const txv_shape *s = j->s;
    if (txv_stop(j))
        return;
    int which = -1;
    char *slot = j->slot_bytes ? txv_slot(j, &which) : NULL;
    if (j->merge > 1) {
        const int64_t g = t % s->groups, n0 = t / s->groups * j->merge;
        txv_forward_merged(j, n0, txg_min(n0 + j->merge, s->batch), g, slot);
    } else {
        const int64_t at = t % j->strips, g = t / j->strips % s->groups, n = t / j->strips / s->groups, p0 = at * j->strip;
        txv_forward_one(j, n, g, p0, txg_min(p0 + j->strip, j->npos), slot);
    }
    if (which >= 0)
        txv_slot_back(j, which);
}

/* ---- gradient of the input ---- */

static void txv_input_task(void *ctx, int64_t t)
{
    txv_job *j = (txv_job *)ctx;
    const txv_shape *s = j->s;
    if (txv_stop(j))
        return;
    int which;
    char *slot = txv_slot(j, &which);
    const int64_t cb = t % j->cblocks, g = t / j->cblocks % s->groups, n = t / j->cblocks / s->groups;
    const int64_t kv = s->k[0] * s->k[1] * s->k[2], c0 = cb * j->cblock, c1 = txg_min(c0 + j->cblock, j->ci);
    char *x = j->x + (n * s->cin + g * j->ci) * j->plane * j->es;
    memset(x + c0 * j->plane * j->es, 0, (size_t)((c1 - c0) * j->plane * j->es));
    for (int64_t p0 = 0; p0 < j->npos && !txv_stop(j); p0 += j->strip) {
        const int64_t len = txg_min(j->strip, j->npos - p0);
        tx_gemm_args a = {.m = (c1 - c0) * kv, .n = len, .k = j->co,
                          .a = j->w + (g * j->co * j->kk + c0 * kv) * j->es, .a_rs = 1, .a_cs = j->kk,
                          .b = j->y + ((n * s->cout + g * j->co) * j->npos + p0) * j->es, .b_rs = j->npos, .b_cs = 1,
                          .c = slot, .c_rs = len, .c_cs = 1};
        txv_product(j, &a);
        if (j->wide_bytes) {
            char *wide = slot + j->slot_bytes - j->wide_bytes;
            if (s->dtype == TX_F32) {
                txv_small_image_f32(s, (float *)wide, c1 - c0, (float *)slot, len);
                txv_add_inner_f32(s, (const float *)wide, c1 - c0, (float *)x + c0 * j->plane);
            } else {
                txv_small_image_f64(s, (double *)wide, c1 - c0, (double *)slot, len);
                txv_add_inner_f64(s, (const double *)wide, c1 - c0, (double *)x + c0 * j->plane);
            }
        } else if (s->dtype == TX_F32)
            txv_col2im_f32(s, (float *)x, c0, c1 - c0, p0, p0 + len, (const float *)slot, len);
        else
            txv_col2im_f64(s, (double *)x, c0, c1 - c0, p0, p0 + len, (const double *)slot, len);
    }
    txv_slot_back(j, which);
}

static void txv_add_bias_task(void *ctx, int64_t n)
{
    txv_job *j = (txv_job *)ctx;
    for (int64_t c = 0; c < j->s->cin; c++) {
        char *x = j->x + (n * j->s->cin + c) * j->plane * j->es;
        if (j->s->dtype == TX_F32)
            for (int64_t p = 0; p < j->plane; p++)
                ((float *)x)[p] += ((const float *)j->bias)[c];
        else
            for (int64_t p = 0; p < j->plane; p++)
                ((double *)x)[p] += ((const double *)j->bias)[c];
    }
}

/* ---- gradient of the weight ---- */

static void txv_weight_task(void *ctx, int64_t t)
{
    txv_job *j = (txv_job *)ctx;
    const txv_shape *s = j->s;
    if (txv_stop(j))
        return;
    int which;
    char *slot = txv_slot(j, &which);
    const int64_t g = t / j->nparts, part = t % j->nparts, first = part * j->per, end = txg_min(first + j->per, j->blocks);
    const int64_t width = j->merge > 1 ? j->merge * j->npos : j->strip;
    char *cols = slot, *dyt = slot + txg_round(j->kk * width * j->es, 64), *sum = j->parts + t * j->part_bytes;
    for (int64_t b = first; b < end && !txv_stop(j); b++) {
        int64_t len = 0;
        if (j->merge > 1) {
            const int64_t n0 = b * j->merge, n1 = txg_min(n0 + j->merge, s->batch);
            len = (n1 - n0) * j->npos;
            for (int64_t n = n0; n < n1; n++) {
                txv_columns(j, j->x + n * s->cin * j->plane * j->es, g * j->ci, j->ci, 0, j->npos, cols + (n - n0) * j->npos * j->es, len, slot);
                const char *dy = j->y + (n * s->cout + g * j->co) * j->npos * j->es;
                char *to = dyt + (n - n0) * j->npos * j->co * j->es;
                if (s->dtype == TX_F32)
                    txv_transpose_f32((const float *)dy, j->co, j->npos, j->npos, (float *)to, j->co);
                else
                    txv_transpose_f64((const double *)dy, j->co, j->npos, j->npos, (double *)to, j->co);
            }
        } else {
            const int64_t n = b / j->strips, p0 = b % j->strips * j->strip;
            len = txg_min(j->strip, j->npos - p0);
            txv_columns(j, j->x + n * s->cin * j->plane * j->es, g * j->ci, j->ci, p0, p0 + len, cols, len, slot);
            const char *dy = j->y + ((n * s->cout + g * j->co) * j->npos + p0) * j->es;
            if (s->dtype == TX_F32)
                txv_transpose_f32((const float *)dy, j->co, j->npos, len, (float *)dyt, j->co);
            else
                txv_transpose_f64((const double *)dy, j->co, j->npos, len, (double *)dyt, j->co);
        }
        tx_gemm_args a = {.flags = b > first ? TX_GEMM_ACCUMULATE : 0, .m = j->kk, .n = j->co, .k = len, .a = cols, .a_rs = len, .a_cs = 1,
                          .b = dyt, .b_rs = j->co, .b_cs = 1, .c = sum, .c_rs = j->co, .c_cs = 1};
        txv_product(j, &a);
    }
    txv_slot_back(j, which);
}

/* ---- the passes ---- */

enum { TXV_FORWARD, TXV_INPUT, TXV_WEIGHT };

/* 0: done, 1: no memory, 2: cancelled. x (batch, cin, in), w (cout, cin / groups, k), y (batch, cout, out);
 * the result is y, x or w. bias: of the result's channels, or NULL (not for TXV_WEIGHT). */
static int tx_conv(int pass, const txv_shape *s, char *x, char *w, char *y, char *bias, const void *gemm)
{
    txv_job job = {.s = s, .gemm = gemm, .x = x, .w = w, .y = y, .bias = bias}, *j = &job;
    const int64_t kv = s->k[0] * s->k[1] * s->k[2];
    j->es = tx_item_size[s->dtype];
    j->ci = s->cin / s->groups;
    j->co = s->cout / s->groups;
    j->kk = j->ci * kv;
    j->plane = s->in[0] * s->in[1] * s->in[2];
    j->npos = s->out[0] * s->out[1] * s->out[2];
    const int64_t fit = txg_max(16, TXV_COLUMNS / txg_max(1, j->kk * j->es) / 16 * 16);
    j->strip = txg_max(1, txg_min(j->npos, fit));
    j->strips = txg_max(1, txg_ceil(j->npos, j->strip));
    j->merge = 1;
    if (j->strips == 1 && !(pass == TXV_FORWARD && (j->npos >= 48 || txv_plain(s))))
        j->merge = txg_max(1, txg_min(s->batch, fit / txg_max(1, j->npos)));
    const double macs = (double)s->batch * (double)s->cout * (double)j->npos * (double)j->kk;
    const double us = macs * 6e-5 + (double)s->batch * (double)s->groups * (double)(j->kk * j->npos) * 3e-4 + 1;
    const int threads = tx_get_num_threads();
    int64_t tasks;
    if (pass == TXV_FORWARD) {
        tasks = j->merge > 1 ? txg_ceil(s->batch, j->merge) * s->groups : s->batch * s->groups * j->strips;
        j->slot_bytes = j->merge > 1 ? txg_round((j->kk + j->co) * j->merge * j->npos * j->es + 128, 64)
                      : txv_plain(s) ? 0 : txg_round(j->kk * j->strip * j->es, 64);
    } else if (pass == TXV_INPUT) {
        j->cblocks = 1;
        if (s->batch * s->groups < 2 * threads && threads > 1)
            j->cblocks = txg_min(j->ci, txg_ceil(2 * threads, txg_max(1, s->batch * s->groups)));
        j->cblock = txg_max(1, txg_ceil(j->ci, txg_max(1, j->cblocks)));
        j->cblocks = txg_ceil(j->ci, j->cblock);
        tasks = s->batch * s->groups * j->cblocks;
        j->slot_bytes = txg_round(j->cblock * kv * j->strip * j->es, 64);
    } else {
        j->blocks = j->merge > 1 ? txg_ceil(s->batch, j->merge) : s->batch * j->strips;
        j->per = txg_max(1, txg_ceil(j->blocks, TXV_PARTS));
        j->nparts = txg_max(1, txg_ceil(j->blocks, j->per));
        tasks = s->groups * j->nparts;
        const int64_t width = j->merge > 1 ? j->merge * j->npos : j->strip;
        j->slot_bytes = txg_round(j->kk * width * j->es, 64) + txg_round(width * j->co * j->es, 64);
        j->part_bytes = txg_round(j->kk * j->co * j->es, 64);
    }
    if (tasks <= 0)
        return 0;
    /* decided by shape alone: sums of the gradient of the input are the same either way, but not their signs of zero */
    const int64_t wide = j->ci * (s->in[0] + 2 * s->pad[0]) * (s->in[1] + 2 * s->pad[1]) * (s->in[2] + 2 * s->pad[2]) * j->es;
    if (j->strips == 1 && !txv_plain(s) && wide <= TXV_COLUMNS && s->out[2] <= 64) {
        j->wide_bytes = txg_round(wide, 64) + 64;
        j->slot_bytes = txg_round(j->slot_bytes, 64) + j->wide_bytes;
    }
    j->nslots = (int)txg_min(txg_min(tasks, threads), TXG_MAX_SLOTS);
    const int64_t slots = j->slot_bytes * j->nslots, parts = pass == TXV_WEIGHT ? tasks * j->part_bytes : 0;
    char *memory = NULL;
    if (slots + parts) {
        memory = (char *)tx_scratch_alloc((size_t)(slots + parts));
        if (!memory)
            return 1;
        j->slots = memory;
        j->parts = memory + slots;
    }
    tx_parallel_for(tasks, pass == TXV_FORWARD ? txv_forward_task : pass == TXV_INPUT ? txv_input_task : txv_weight_task, j, us);
    if (!j->failed && pass == TXV_INPUT && bias)
        tx_parallel_for(s->batch, txv_add_bias_task, j, (double)(s->batch * s->cin * j->plane) * 3e-4);
    if (!j->failed && pass == TXV_WEIGHT)
        for (int64_t g = 0; g < s->groups; g++) {
            const char *from = j->parts + g * j->nparts * j->part_bytes;
            if (s->dtype == TX_F32)
                txv_fold_f32((const float *)from, j->part_bytes / 4, j->nparts, j->kk, j->co, j->co, (float *)w + g * j->co * j->kk);
            else
                txv_fold_f64((const double *)from, j->part_bytes / 8, j->nparts, j->kk, j->co, j->co, (double *)w + g * j->co * j->kk);
        }
    if (memory)
        tx_scratch_free(memory, (size_t)(slots + parts));
    return j->failed;
}

#endif
