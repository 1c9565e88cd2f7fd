/* Row kernels: softmax and its relatives, normalisation, cross entropy; forward
 * and backward.  One row at a time, in two or three passes while it sits in L1
 * or L2.  Sums run in double.
 *
 * Rows whose maximum is NaN or +inf, or that are all -inf, give NaN for softmax
 * and log_softmax whatever their length is; logsumexp gives NaN, inf and -inf.
 */
#ifndef TX_ROW_KERNELS_H
#define TX_ROW_KERNELS_H

#include <math.h>

#include "extreme.h"
#include "kernel_abi.h"
#include "lanes.h"

#if defined(__has_include)
#if __has_include("vmath_exp.h")
#include "vmath_exp.h"
#define TXW_EXPF(x) tx_expf(x)
#define TXW_EXP(x) tx_exp(x)
#endif
#endif
#ifndef TXW_EXP
#define TXW_EXPF(x) expf(x)
#define TXW_EXP(x) exp(x)
#endif

#define TXW_BLOCK 512 /* elements between writing exponentials and summing them */

#define txw_real_f32 float
#define txw_real_f64 double
#define TXW_EXP_f32(x) TXW_EXPF(x)
#define TXW_EXP_f64(x) TXW_EXP(x)

/* Maximum of a row, NaN if there is one, -inf if it is empty. */
#define TXW_MAX(F, T)                                 \
    TXL_INLINE T txw_max_##F(const T *x, ptrdiff_t n) \
    {                                                 \
        int nan;                                      \
        T m = txs_max_##T(x, n, &nan);                \
        return nan ? (T)NAN : m;                      \
    }
TXW_MAX(f32, float)
TXW_MAX(f64, double)

#define TXW_DEFINE(F)                                                                                \
    TXL_INLINE double txw_sum_##F(const txw_real_##F *x, ptrdiff_t n)                                \
    {                                                                                                \
        double t[2];                                                                                 \
        txl_sum_##F(x, n, TXL_SUM, t);                                                               \
        return t[0] + t[1];                                                                          \
    }                                                                                                \
                                                                                                     \
    static void txw_fill_##F(txw_real_##F *d, ptrdiff_t n, txw_real_##F x)                           \
    {                                                                                                \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            d[i] = x;                                                                                \
    }                                                                                                \
                                                                                                     \
    /* d = exp(x - m), returns the sum; m finite, no x above it */                                   \
    static double txw_exps_##F(txw_real_##F *d, const txw_real_##F *x, ptrdiff_t n, txw_real_##F m)  \
    {                                                                                                \
        double total = 0.0;                                                                          \
        for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {                                               \
            ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t j = i; j < i + k; j++)                                                    \
                d[j] = TXW_EXP_##F(x[j] - m);                                                        \
            total += txw_sum_##F(d + i, k);                                                          \
        }                                                                                            \
        return total;                                                                                \
    }                                                                                                \
                                                                                                     \
    /* log(sum(exp(x - m))) = log1p(the sum without one element that equals m): digits of            \
     * small sums beside the 1 are kept.  0 where m is not finite. */                                \
    static double txw_log_sum_##F(const txw_real_##F *x, ptrdiff_t n, txw_real_##F m)                \
    {                                                                                                \
        txw_real_##F e[TXW_BLOCK];                                                                   \
        double total = 0.0;                                                                          \
        int out = 0;                                                                                 \
        if (!(m - m == 0))                                                                           \
            return 0.0;                                                                              \
        for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {                                               \
            ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK, j = 0;                              \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t l = 0; l < k; l++)                                                        \
                e[l] = TXW_EXP_##F(x[i + l] - m);                                                    \
            if (!out) {                                                                              \
                while (j < k && x[i + j] != m)                                                       \
                    j++;                                                                             \
                if (j < k) {                                                                         \
                    e[j] = 0;                                                                        \
                    out = 1;                                                                         \
                }                                                                                    \
            }                                                                                        \
            total += txw_sum_##F(e, k);                                                              \
        }                                                                                            \
        return log1p(total);                                                                         \
    }                                                                                                \
                                                                                                     \
    static void txw_softmax_##F(void *dst, const void *src, ptrdiff_t n)                             \
    {                                                                                                \
        txw_real_##F *d = (txw_real_##F *)dst;                                                       \
        const txw_real_##F *x = (const txw_real_##F *)src;                                           \
        txw_real_##F m = txw_max_##F(x, n);                                                          \
        if (!(m - m == 0)) {                                                                         \
            txw_fill_##F(d, n, (txw_real_##F)NAN);                                                   \
            return;                                                                                  \
        }                                                                                            \
        txw_real_##F r = (txw_real_##F)(1.0 / txw_exps_##F(d, x, n, m));                             \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            d[i] *= r;                                                                               \
    }                                                                                                \
                                                                                                     \
    static void txw_log_softmax_##F(void *dst, const void *src, ptrdiff_t n)                         \
    {                                                                                                \
        txw_real_##F *d = (txw_real_##F *)dst;                                                       \
        const txw_real_##F *x = (const txw_real_##F *)src;                                           \
        txw_real_##F m = txw_max_##F(x, n);                                                          \
        if (!(m - m == 0)) {                                                                         \
            txw_fill_##F(d, n, (txw_real_##F)NAN);                                                   \
            return;                                                                                  \
        }                                                                                            \
        txw_real_##F l = (txw_real_##F)txw_log_sum_##F(x, n, m);                                     \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            d[i] = (x[i] - m) - l;                                                                   \
    }                                                                                                \
                                                                                                     \
    static void txw_logsumexp_##F(void *dst, const void *src, ptrdiff_t n)                           \
    {                                                                                                \
        const txw_real_##F *x = (const txw_real_##F *)src;                                           \
        txw_real_##F m = txw_max_##F(x, n);                                                          \
        *(txw_real_##F *)dst = (txw_real_##F)((double)m + txw_log_sum_##F(x, n, m));                 \
    }                                                                                                \
                                                                                                     \
    /* sum of a * b, in double */                                                                    \
    static double txw_dot_##F(const txw_real_##F *a, const txw_real_##F *b, ptrdiff_t n)             \
    {                                                                                                \
        double p[TXW_BLOCK], t[2], total = 0.0;                                                      \
        for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {                                               \
            ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t j = 0; j < k; j++)                                                        \
                p[j] = (double)a[i + j] * (double)b[i + j];                                          \
            txl_sum_f64(p, k, TXL_SUM, t);                                                           \
            total += t[0] + t[1];                                                                    \
        }                                                                                            \
        return total;                                                                                \
    }                                                                                                \
                                                                                                     \
    static void txw_softmax_backward_##F(void *dst, const void *grad, const void *out, ptrdiff_t n)  \
    {                                                                                                \
        txw_real_##F *d = (txw_real_##F *)dst;                                                       \
        const txw_real_##F *g = (const txw_real_##F *)grad, *y = (const txw_real_##F *)out;          \
        txw_real_##F s = (txw_real_##F)txw_dot_##F(g, y, n);                                         \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            d[i] = (g[i] - s) * y[i];                                                                \
    }                                                                                                \
                                                                                                     \
    static void txw_log_softmax_backward_##F(void *dst, const void *grad, const void *out, ptrdiff_t n) \
    {                                                                                                \
        txw_real_##F *d = (txw_real_##F *)dst;                                                       \
        const txw_real_##F *g = (const txw_real_##F *)grad, *y = (const txw_real_##F *)out;          \
        txw_real_##F s = (txw_real_##F)txw_sum_##F(g, n);                                            \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            d[i] = g[i] - TXW_EXP_##F(y[i]) * s;                                                     \
    }                                                                                                \
                                                                                                     \
    static void txw_cross_entropy_##F(void *loss, void *lse_one, const void *src, ptrdiff_t n, int64_t target, \
                                      double smoothing)                                              \
    {                                                                                                \
        const txw_real_##F *x = (const txw_real_##F *)src;                                           \
        const double m = txw_max_##F(x, n), log_sum = txw_log_sum_##F(x, n, (txw_real_##F)m);        \
        double l = (m - (double)x[target]) + log_sum;                                                \
        if (smoothing != 0.0)                                                                        \
            l = (1.0 - smoothing) * l + smoothing * ((m - txw_sum_##F(x, n) / (double)n) + log_sum); \
        *(txw_real_##F *)loss = (txw_real_##F)l;                                                     \
        if (lse_one)                                                                                 \
            *(txw_real_##F *)lse_one = (txw_real_##F)(m + log_sum);                                  \
    }                                                                                                \
                                                                                                     \
    static void txw_cross_entropy_backward_##F(void *dst, const void *src, ptrdiff_t n, int64_t target, \
                                               double smoothing, const void *lse_one, double scale)  \
    {                                                                                                \
        txw_real_##F *d = (txw_real_##F *)dst;                                                       \
        const txw_real_##F *x = (const txw_real_##F *)src;                                           \
        const txw_real_##F lse = *(const txw_real_##F *)lse_one, s = (txw_real_##F)scale;            \
        const txw_real_##F u = (txw_real_##F)(smoothing / (double)n);                                \
        const double xt = (double)x[target];                                                         \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            d[i] = (TXW_EXP_##F(x[i] - lse) - u) * s;                                                \
        d[target] = (txw_real_##F)((exp(xt - (double)lse) - smoothing / (double)n - (1.0 - smoothing)) * scale); \
    }                                                                                                \
                                                                                                     \
    static void txw_moments_one_##F(void *mean_one, double *m2_one, const void *src, ptrdiff_t n)    \
    {                                                                                                \
        txw_real_##F hi, lo;                                                                         \
        txw_stats_##F((const txw_real_##F *)src, n, &hi, &lo, m2_one);                               \
        *(txw_real_##F *)mean_one = hi + lo;                                                         \
    }                                                                                                \
                                                                                                     \
    static void txw_layer_norm_##F(void *dst, const void *src, ptrdiff_t n, const void *weight, const void *bias, \
                                   double eps, void *mean_one, void *rstd_one)                       \
    {                                                                                                \
        typedef txw_real_##F T;                                                                      \
        T *d = (T *)dst;                                                                             \
        const T *x = (const T *)src, *w = (const T *)weight, *b = (const T *)bias;                   \
        double m2;                                                                                   \
        T hi, lo;                                                                                    \
        txw_stats_##F(x, n, &hi, &lo, &m2);                                                          \
        const T r = (T)(1.0 / sqrt(m2 / (double)n + eps));                                           \
        if (w && b) {                                                                                \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = ((x[i] - hi) - lo) * r * w[i] + b[i];                                         \
        } else if (w) {                                                                              \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = ((x[i] - hi) - lo) * r * w[i];                                                \
        } else if (b) {                                                                              \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = ((x[i] - hi) - lo) * r + b[i];                                                \
        } else {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = ((x[i] - hi) - lo) * r;                                                       \
        }                                                                                            \
        if (mean_one)                                                                                \
            *(T *)mean_one = hi + lo;                                                                \
        if (rstd_one)                                                                                \
            *(T *)rstd_one = r;                                                                      \
    }                                                                                                \
                                                                                                     \
    static void txw_rms_norm_##F(void *dst, const void *src, ptrdiff_t n, const void *weight, double eps, \
                                 void *rstd_one)                                                     \
    {                                                                                                \
        typedef txw_real_##F T;                                                                      \
        T *d = (T *)dst;                                                                             \
        const T *x = (const T *)src, *w = (const T *)weight;                                         \
        double t[2];                                                                                 \
        txl_sum_##F(x, n, TXL_SUMSQ, t);                                                             \
        const T r = (T)(1.0 / sqrt((t[0] + t[1]) / (double)n + eps));                                \
        if (w) {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = x[i] * r * w[i];                                                              \
        } else {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = x[i] * r;                                                                     \
        }                                                                                            \
        if (rstd_one)                                                                                \
            *(T *)rstd_one = r;                                                                      \
    }                                                                                                \
                                                                                                     \
    /* xhat = (x - mean) * rstd, a = grad * weight:                                                  \
     * dst = rstd * (a - mean(a) - xhat * mean(a * xhat)); without CENTER no mean is taken off */    \
    TXL_INLINE void txw_norm_backward_##F(void *dst, const void *grad, const void *src, ptrdiff_t n, \
                                          const void *weight, double mean, const void *rstd_one,     \
                                          double *dweight, double *dbias, const int center)          \
    {                                                                                                \
        typedef txw_real_##F T;                                                                      \
        T *d = (T *)dst;                                                                             \
        const T *g = (const T *)grad, *x = (const T *)src, *w = (const T *)weight;                   \
        const T mu = (T)mean, r = *(const T *)rstd_one;                                              \
        T a[TXW_BLOCK], ah[TXW_BLOCK];                                                               \
        double sa = 0.0, sh = 0.0;                                                                   \
        for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {                                               \
            ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;                                     \
            if (dweight) {                                                                           \
                double *dw = dweight + i;                                                            \
                TXL_SIMD                                                                             \
                for (ptrdiff_t j = 0; j < k; j++)                                                    \
                    dw[j] += (double)(g[i + j] * ((x[i + j] - mu) * r));                             \
            }                                                                                        \
            if (dbias) {                                                                             \
                double *db = dbias + i;                                                              \
                TXL_SIMD                                                                             \
                for (ptrdiff_t j = 0; j < k; j++)                                                    \
                    db[j] += (double)g[i + j];                                                       \
            }                                                                                        \
            if (!d)                                                                                  \
                continue;                                                                            \
            if (w) {                                                                                 \
                TXL_SIMD                                                                             \
                for (ptrdiff_t j = 0; j < k; j++) {                                                  \
                    a[j] = g[i + j] * w[i + j];                                                      \
                    ah[j] = a[j] * ((x[i + j] - mu) * r);                                            \
                }                                                                                    \
                if (center)                                                                          \
                    sa += txw_sum_##F(a, k);                                                         \
            } else {                                                                                 \
                TXL_SIMD                                                                             \
                for (ptrdiff_t j = 0; j < k; j++)                                                    \
                    ah[j] = g[i + j] * ((x[i + j] - mu) * r);                                        \
                if (center)                                                                          \
                    sa += txw_sum_##F(g + i, k);                                                     \
            }                                                                                        \
            sh += txw_sum_##F(ah, k);                                                                \
        }                                                                                            \
        if (!d)                                                                                      \
            return;                                                                                  \
        const T ca = (T)(sa / (double)n), ch = (T)(sh / (double)n);                                  \
        if (w) {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = ((g[i] * w[i] - ca) - (x[i] - mu) * r * ch) * r;                              \
        } else {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                d[i] = ((g[i] - ca) - (x[i] - mu) * r * ch) * r;                                     \
        }                                                                                            \
    }                                                                                                \
                                                                                                     \
    static void txw_layer_norm_backward_##F(void *dst, const void *grad, const void *src, ptrdiff_t n, \
                                            const void *weight, const void *mean, const void *rstd,  \
                                            double *dweight, double *dbias)                          \
    {                                                                                                \
        txw_norm_backward_##F(dst, grad, src, n, weight, *(const txw_real_##F *)mean, rstd, dweight, dbias, 1); \
    }                                                                                                \
                                                                                                     \
    static void txw_rms_norm_backward_##F(void *dst, const void *grad, const void *src, ptrdiff_t n, \
                                          const void *weight, const void *rstd, double *dweight)     \
    {                                                                                                \
        txw_norm_backward_##F(dst, grad, src, n, weight, 0.0, rstd, dweight, NULL, 0);               \
    }

/* Mean as hi + lo, and the sum of squared deviations.  The mean comes in two parts because
 * (x - hi) - lo keeps its digits where x is near the mean. */

/* float32 in one pass: in double, shifted by the
 * first element.  The shift is within sqrt(n) standard deviations of the mean, so
 * what cancels is at most n * 2^-53 of the result. */
static void txw_stats_f32(const float *x, ptrdiff_t n, float *hi, float *lo, double *m2)
{
    if (n <= 0) {
        *hi = *lo = (float)NAN;
        *m2 = (double)NAN;
        return;
    }
    const double shift = x[0];
    double t1[2] = {0, 0}, t2[2] = {0, 0};
    if (n < TXL_LANES) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double v = x[i] - shift;
            t1[0] += v;
            t2[0] += v * v;
        }
    } else {
        txl_vd s[TXL_NV] = {{0}}, q[TXL_NV] = {{0}}, v;
        ptrdiff_t i = 0;
        for (; i + TXL_LANES <= n; i += TXL_LANES) {
            TXL_UNROLL
            for (int k = 0; k < TXL_NV; k++) {
                txl_load_f32(&v, x + i + k * TXL_VD);
                v -= shift;
                s[k] += v;
                q[k] += v * v;
            }
        }
        if (i < n) {
            float pad[TXL_LANES];
            for (int k = 0; k < TXL_LANES; k++)
                pad[k] = x[0];
            memcpy(pad, x + i, (size_t)(n - i) * sizeof *x);
            TXL_UNROLL
            for (int k = 0; k < TXL_NV; k++) {
                txl_load_f32(&v, pad + k * TXL_VD);
                v -= shift;
                s[k] += v;
                q[k] += v * v;
            }
        }
        txl_tree(s, t1);
        txl_tree(q, t2);
    }
    const double sum = t1[0] + t1[1], delta = sum / (double)n;
    double dev = (t2[0] + t2[1]) - sum * delta;
    const double mean = shift + delta;
    *hi = (float)mean;
    *lo = mean - mean == 0.0 ? (float)(mean - (double)*hi) : 0.0f;
    *m2 = dev < 0.0 ? 0.0 : dev;
}

/* float64: two passes, and the sum of the deviations corrects the rounding of the mean */
static void txw_stats_f64(const double *x, ptrdiff_t n, double *hi, double *lo, double *m2)
{
    double t[2], v[TXW_BLOCK], q[TXW_BLOCK], mu, s1 = 0.0, s2 = 0.0;
    if (n <= 0) {
        *hi = *lo = *m2 = (double)NAN;
        return;
    }
    txl_sum_f64(x, n, TXL_SUM, t);
    mu = (t[0] + t[1]) / (double)n;
    for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {
        ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;
        TXL_SIMD
        for (ptrdiff_t j = 0; j < k; j++) {
            v[j] = x[i + j] - mu;
            q[j] = v[j] * v[j];
        }
        txl_sum_f64(v, k, TXL_SUM, t);
        s1 += t[0] + t[1];
        txl_sum_f64(q, k, TXL_SUM, t);
        s2 += t[0] + t[1];
    }
    double dev = s2 - s1 * s1 / (double)n;
    *hi = mu;
    *lo = s1 / (double)n;
    *m2 = dev < 0.0 ? 0.0 : dev;
}

TXW_DEFINE(f32)
TXW_DEFINE(f64)

#define TXW_SET(F)                                                                                  \
    {txw_softmax_##F, txw_log_softmax_##F, txw_logsumexp_##F, txw_layer_norm_##F, txw_rms_norm_##F, \
     txw_softmax_backward_##F, txw_log_softmax_backward_##F, txw_layer_norm_backward_##F,           \
     txw_rms_norm_backward_##F, txw_cross_entropy_##F, txw_cross_entropy_backward_##F, txw_moments_one_##F}

static void tx_fill_rows(tx_kernels *k)
{
    k->rows[0] = (tx_rows)TXW_SET(f32);
    k->rows[1] = (tx_rows)TXW_SET(f64);
}

#endif
