/* Pooling over windows in up to three axes. A window of output o along axis d covers
 * first[d][o], first[d][o] + step[d], ... below last[d][o]: strides, padding, dilation, ceil mode
 * and adaptive windows are all tables of that kind. */
#ifndef TX_POOLING_H
#define TX_POOLING_H

#include "kernel_abi.h"
#include "pool.h"

#include <math.h>
#include <string.h>

enum { TXP_MAX, TXP_AVG, TXP_MAX_BACK, TXP_AVG_BACK, TXP_PICK };

typedef struct txp_job {
    int32_t pass, dtype;
    int64_t planes, in[3], out[3], step[3], per;
    const int64_t *first[3], *last[3];
    const void *src;
    const void *scale; /* divisors of averages, one per output, in the dtype of the values */
    void *dst;
    int64_t *index;    /* of maxima, within a plane; -1 for a window without elements; may be NULL in TXP_MAX */
} txp_job;

#define TXP_WALK(BODY)                                                                                     \
    for (int64_t od = 0; od < j->out[0]; od++)                                                             \
        for (int64_t oh = 0; oh < j->out[1]; oh++) {                                                       \
            const int64_t d0 = j->first[0][od], d1 = j->last[0][od], h0 = j->first[1][oh], h1 = j->last[1][oh]; \
            for (int64_t ow = 0; ow < j->out[2]; ow++, o++) {                                              \
                const int64_t w0 = j->first[2][ow], w1 = j->last[2][ow];                                   \
                BODY                                                                                       \
            }                                                                                              \
        }

#define TXP_WINDOW(BODY)                                                  \
    for (int64_t d = d0; d < d1; d += j->step[0])                         \
        for (int64_t h = h0; h < h1; h += j->step[1]) {                   \
            const int64_t row = (d * j->in[1] + h) * j->in[2];            \
            for (int64_t w = w0; w < w1; w += j->step[2]) { BODY }        \
        }

#define TXP_FUNCTIONS(T, N)                                                                                \
    static void txp_plane_##N(const txp_job *j, int64_t p)                                                 \
    {                                                                                                      \
        const int64_t nin = j->in[0] * j->in[1] * j->in[2], nout = j->out[0] * j->out[1] * j->out[2];      \
        int64_t o = p * nout;                                                                              \
        if (j->pass == TXP_MAX) {                                                                          \
            const T *x = (const T *)j->src + p * nin;                                                      \
            T *y = (T *)j->dst;                                                                            \
            TXP_WALK({                                                                                     \
                int64_t at = -1;                                                                           \
                T best = -(T)INFINITY;                                                                     \
                TXP_WINDOW({                                                                               \
                    const T v = x[row + w];                                                                \
                    if (at < 0 || v > best || (v != v && best == best)) {                                  \
                        best = v;                                                                          \
                        at = row + w;                                                                      \
                    }                                                                                      \
                })                                                                                         \
                y[o] = best;                                                                               \
                if (j->index)                                                                              \
                    j->index[o] = at;                                                                      \
            })                                                                                             \
        } else if (j->pass == TXP_AVG) {                                                                   \
            const T *x = (const T *)j->src + p * nin;                                                      \
            const T *scale = (const T *)j->scale - p * nout;                                               \
            T *y = (T *)j->dst;                                                                            \
            TXP_WALK({                                                                                     \
                T sum = 0;                                                                                 \
                TXP_WINDOW({ sum += x[row + w]; })                                                         \
                y[o] = sum / scale[o];                                                                     \
            })                                                                                             \
        } else if (j->pass == TXP_AVG_BACK) {                                                              \
            const T *g = (const T *)j->src;                                                                \
            const T *scale = (const T *)j->scale - p * nout;                                               \
            T *x = (T *)j->dst + p * nin;                                                                  \
            memset(x, 0, (size_t)nin * sizeof(T));                                                         \
            TXP_WALK({                                                                                     \
                const T v = g[o] / scale[o];                                                               \
                TXP_WINDOW({ x[row + w] += v; })                                                           \
            })                                                                                             \
        } else if (j->pass == TXP_MAX_BACK) {                                                              \
            const T *g = (const T *)j->src;                                                                \
            T *x = (T *)j->dst + p * nin;                                                                  \
            memset(x, 0, (size_t)nin * sizeof(T));                                                         \
            for (int64_t k = 0; k < nout; k++)                                                             \
                if (j->index[o + k] >= 0)                                                                  \
                    x[j->index[o + k]] += g[o + k];                                                        \
        } else {                                                                                           \
            const T *x = (const T *)j->src + p * nin;                                                      \
            T *y = (T *)j->dst;                                                                            \
            for (int64_t k = 0; k < nout; k++)                                                             \
                y[o + k] = j->index[o + k] >= 0 ? x[j->index[o + k]] : (T)0;                                 \
        }                                                                                                  \
    }

TXP_FUNCTIONS(float, f32)
TXP_FUNCTIONS(double, f64)

static void txp_task(void *ctx, int64_t t)
{
    const txp_job *j = (const txp_job *)ctx;
    const int64_t end = (t + 1) * j->per < j->planes ? (t + 1) * j->per : j->planes;
    for (int64_t p = t * j->per; p < end; p++)
        if (j->dtype == TX_F32)
            txp_plane_f32(j, p);
        else
            txp_plane_f64(j, p);
}

static void tx_pooling(txp_job *j)
{
    double window = 1;
    for (int d = 0; d < 3; d++)
        window *= j->out[d] ? (double)(j->last[d][0] - j->first[d][0]) + 1 : 1;
    const double one = ((double)(j->out[0] * j->out[1] * j->out[2]) * window + (double)(j->in[0] * j->in[1] * j->in[2])) * 1e-3;
    j->per = one < 20 ? (int64_t)(20 / (one + 0.01)) + 1 : 1;
    tx_parallel_for((j->planes + j->per - 1) / j->per, txp_task, j, one * (double)j->planes);
}

#endif
