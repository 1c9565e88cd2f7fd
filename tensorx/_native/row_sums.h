/* What row kernels sum: a run, products, mean and variance, the two means of the
 * norm gradients.  For float32 and float64, results in double. */
#ifndef TX_ROW_SUMS_H
#define TX_ROW_SUMS_H

#include <math.h>

#include "lanes.h"

#define TXW_BLOCK 512

TXL_INLINE double txw_total_f32(const float *x, ptrdiff_t n, const int mode)
{
    double t[2];
    txl_sum_f32(x, n, mode, t);
    return t[0] + t[1];
}

TXL_INLINE double txw_total_f64(const double *x, ptrdiff_t n, const int mode)
{
    double t[2];
    txl_sum_f64(x, n, mode, t);
    return t[0] + t[1];
}

/* Sum of a * b; float32 products are rounded to float32. */
static double txw_dot_f32(const float *a, const float *b, ptrdiff_t n)
{
    txl_vd acc[TXL_N16] = {{0}};
    float pa[TXL_GROUP], pb[TXL_GROUP];
    ptrdiff_t i = 0;
    while (i < n) {
        const float *p = a + i, *q = b + i;
        if (i + TXL_GROUP > n) {
            txl_pad_f32(pa, p, n - i, TXL_GROUP, 0.0f);
            txl_pad_f32(pb, q, n - i, TXL_GROUP, 0.0f);
            p = pa;
            q = pb;
        }
        TXL_UNROLL
        for (int w = 0; w < TXL_NW; w++, p += TXL_VF, q += TXL_VF)
            txl_add_w(acc + 2 * w, (txl_load_w(p) * txl_load_w(q) + txl_load_w(p + 16) * txl_load_w(q + 16)) +
                                       (txl_load_w(p + 32) * txl_load_w(q + 32) + txl_load_w(p + 48) * txl_load_w(q + 48)));
        i += TXL_GROUP;
    }
    return txl_tree16(acc);
}

static double txw_dot_f64(const double *a, const double *b, ptrdiff_t n)
{
    double p[TXW_BLOCK], total = 0.0;
    for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {
        ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;
        TXL_SIMD
        for (ptrdiff_t j = 0; j < k; j++)
            p[j] = a[i + j] * b[i + j];
        total += txw_total_f64(p, k, TXL_SUM);
    }
    return total;
}

/* ---- mean as hi + lo, and the sum of squared deviations ----
 *
 * The mean comes in two parts because (x - hi) - lo keeps its digits where x is near the mean. */

static double txw_deviations_f32(const float *x, ptrdiff_t n, double mean, double *first)
{
    double s = 0.0, q = 0.0, v[TXW_BLOCK], w[TXW_BLOCK];
    for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {
        ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;
        TXL_SIMD
        for (ptrdiff_t j = 0; j < k; j++) {
            v[j] = x[i + j] - mean;
            w[j] = v[j] * v[j];
        }
        s += txw_total_f64(v, k, TXL_SUM);
        q += txw_total_f64(w, k, TXL_SUM);
    }
    *first = s;
    return q;
}

/* float32: sums of x and of x^2 in double, in one pass.  Where more than 10 bits cancel
 * between them, the deviations are summed instead. */
static void txw_stats_f32(const float *x, ptrdiff_t n, float *hi, float *lo, double *m2)
{
    if (n <= 0) {
        *hi = *lo = (float)NAN;
        *m2 = (double)NAN;
        return;
    }
    double sum = 0.0, square = 0.0;
    if (n < 8) {
        for (ptrdiff_t i = 0; i < n; i++) {
            sum += x[i];
            square += (double)x[i] * x[i];
        }
    } else {
        txl_vd s[TXL_NV] = {{0}}, q[TXL_NV] = {{0}}, v;
        float pad[TXL_LANES];
        double t[2];
        for (ptrdiff_t i = 0; i < n; i += TXL_LANES) {
            const float *p = x + i;
            if (i + TXL_LANES > n) {
                txl_pad_f32(pad, p, n - i, TXL_LANES, 0.0f);
                p = pad;
            }
            TXL_UNROLL
            for (int k = 0; k < TXL_NV; k++) {
                txl_load_f32(&v, p + k * TXL_VD);
                s[k] += v;
                txl_add_square(&q[k], v);
            }
        }
        txl_tree(s, t);
        sum = t[0] + t[1];
        txl_tree(q, t);
        square = t[0] + t[1];
    }
    double mean = sum / (double)n, dev = square - sum * mean;
    if (!(dev > square * 0x1p-10)) {
        double first;
        dev = txw_deviations_f32(x, n, mean, &first);
        dev -= first * first / (double)n;
    }
    *hi = (float)mean;
    *lo = mean - mean == 0.0 ? (float)(mean - (double)*hi) : 0.0f;
    *m2 = dev < 0.0 ? 0.0 : dev;
}

/* float64: two passes, and the sum of the deviations corrects the rounding of the mean */
static void txw_stats_f64(const double *x, ptrdiff_t n, double *hi, double *lo, double *m2)
{
    if (n <= 0) {
        *hi = *lo = *m2 = (double)NAN;
        return;
    }
    txl_vd s[TXL_NV] = {{0}}, q[TXL_NV] = {{0}}, v;
    const double mean = txw_total_f64(x, n, TXL_SUM) / (double)n;
    double t[2], first = 0.0, dev = 0.0;
    ptrdiff_t i = 0;
    for (; i + TXL_LANES <= n; i += TXL_LANES) {
        TXL_UNROLL
        for (int k = 0; k < TXL_NV; k++) {
            txl_load_f64(&v, x + i + k * TXL_VD);
            v -= mean;
            s[k] += v;
            q[k] += v * v;
        }
    }
    for (; i < n; i++) {
        first += x[i] - mean;
        dev += (x[i] - mean) * (x[i] - mean);
    }
    txl_tree(s, t);
    first += t[0] + t[1];
    txl_tree(q, t);
    dev += t[0] + t[1];
    dev -= first * first / (double)n;
    *hi = mean;
    *lo = mean - mean == 0.0 ? first / (double)n : 0.0;
    *m2 = dev < 0.0 ? 0.0 : dev;
}

/* ---- sums of a and a * xhat, with a = g * w (w may be NULL) and xhat = (x - mean) * rstd ---- */

static void txw_norm_sums_f32(const float *g, const float *x, const float *w, ptrdiff_t n, float mean, float rstd,
                              double *sum_a, double *sum_ah)
{
    txl_vd sa[TXL_N16] = {{0}}, sh[TXL_N16] = {{0}};
    float pad[3][TXL_GROUP];
    for (ptrdiff_t i = 0; i < n; i += TXL_GROUP) {
        const float *pg = g + i, *px = x + i, *pw = w ? w + i : NULL;
        if (i + TXL_GROUP > n) {
            txl_pad_f32(pad[0], pg, n - i, TXL_GROUP, 0.0f);
            txl_pad_f32(pad[1], px, n - i, TXL_GROUP, 0.0f);
            pg = pad[0];
            px = pad[1];
            if (w) {
                txl_pad_f32(pad[2], pw, n - i, TXL_GROUP, 0.0f);
                pw = pad[2];
            }
        }
        TXL_UNROLL
        for (int k = 0; k < TXL_NW; k++) {
            txl_vw a[4], h[4];
            TXL_UNROLL
            for (int j = 0; j < 4; j++) {
                const ptrdiff_t at = k * TXL_VF + j * 16;
                a[j] = txl_load_w(pg + at);
                if (w)
                    a[j] *= txl_load_w(pw + at);
                h[j] = a[j] * ((txl_load_w(px + at) - mean) * rstd);
            }
            txl_add_w(sa + 2 * k, (a[0] + a[1]) + (a[2] + a[3]));
            txl_add_w(sh + 2 * k, (h[0] + h[1]) + (h[2] + h[3]));
        }
    }
    *sum_a = txl_tree16(sa);
    *sum_ah = txl_tree16(sh);
}

static void txw_norm_sums_f64(const double *g, const double *x, const double *w, ptrdiff_t n, double mean, double rstd,
                              double *sum_a, double *sum_ah)
{
    double a[TXW_BLOCK], h[TXW_BLOCK], sa = 0.0, sh = 0.0;
    for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {
        ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;
        if (w) {
            TXL_SIMD
            for (ptrdiff_t j = 0; j < k; j++) {
                a[j] = g[i + j] * w[i + j];
                h[j] = a[j] * ((x[i + j] - mean) * rstd);
            }
        } else {
            TXL_SIMD
            for (ptrdiff_t j = 0; j < k; j++) {
                a[j] = g[i + j];
                h[j] = a[j] * ((x[i + j] - mean) * rstd);
            }
        }
        sa += txw_total_f64(a, k, TXL_SUM);
        sh += txw_total_f64(h, k, TXL_SUM);
    }
    *sum_a = sa;
    *sum_ah = sh;
}

#endif
