/* The row kernels of one float type.  Included by row_kernels.h, once per type, with
 *
 *   TXW_T, TXW_I     float and int32_t, or double and int64_t
 *   TXW(name)        name of a function of this type
 *   TXW_RANGE        largest and smallest of a run (extreme.h)
 *   TXW_EXP          exp
 *   TXW_EXP_MID      exp where the result is a normal number: arguments from TXW_EXP_LOW to 0
 *   TXW_QUICK_SUM    sum in double of values that are not negative
 *   TXW_PAD, TXW_UNPAD   the last elements of a run (lanes.h)
 */

/* d = exp(x - m); mid: no argument is below TXW_EXP_LOW */
TXL_KERNEL void TXW(exp_block)(TXW_T *d, const TXW_T *x, ptrdiff_t n, TXW_T m, int mid)
{
    enum { W = 16 };
    TXW_T pad[W];
    for (ptrdiff_t i = 0; i < n; i += W) {
        const TXW_T *s = x + i;
        TXW_T *t = d + i;
        if (i + W > n) {
            TXW_PAD(pad, s, n - i, W, m);
            s = t = pad;
        }
        if (mid) {
            TXL_SIMD
            for (int k = 0; k < W; k++)
                t[k] = TXW_EXP_MID(s[k] - m);
        } else {
            TXL_SIMD
            for (int k = 0; k < W; k++)
                t[k] = TXW_EXP(s[k] - m);
        }
        if (i + W > n)
            TXW_UNPAD(d + i, pad, n - i, W);
    }
}

TXL_KERNEL void TXW(fill)(TXW_T *d, ptrdiff_t n, TXW_T x)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = x;
}

/* ---- rows of at most 256 bytes, in one piece: no loop of unknown length ---- */

enum { TXW(small) = 256 / sizeof(TXW_T) };

/* p[0..small) = x padded with -inf, e = exp(p - top); returns top, the largest.  A NaN may
 * win or be passed over: it stays in p and e. */
TXL_INLINE TXW_T TXW(small_exps)(TXW_T *p, TXW_T *e, const TXW_T *x, ptrdiff_t n)
{
    enum { N = TXW(small), Q = N / 4 };
    TXW_T m[Q];
    TXW_PAD(p, x, n, N, (TXW_T)-INFINITY);
    TXL_SIMD
    for (int k = 0; k < Q; k++) {
        TXW_T u = p[k] > p[k + Q] ? p[k] : p[k + Q], v = p[k + 2 * Q] > p[k + 3 * Q] ? p[k + 2 * Q] : p[k + 3 * Q];
        m[k] = u > v ? u : v;
    }
    TXL_UNROLL
    for (int w = Q / 2; w >= 1; w /= 2) {
        TXL_SIMD
        for (int k = 0; k < w; k++)
            m[k] = m[k] > m[k + w] ? m[k] : m[k + w];
    }
    const TXW_T top = m[0];
    TXL_SIMD
    for (int k = 0; k < N; k++)
        e[k] = TXW_EXP(p[k] - top);
    return top;
}

TXL_KERNEL void TXW(softmax_small)(TXW_T *d, const TXW_T *x, ptrdiff_t n)
{
    enum { N = TXW(small) };
    TXW_T p[N], e[N];
    const TXW_T top = TXW(small_exps)(p, e, x, n);
    const TXW_T r = top - top == 0 ? (TXW_T)(1.0 / TXW_QUICK_SUM(e, N)) : (TXW_T)NAN;
    TXL_SIMD
    for (int k = 0; k < N; k++)
        e[k] *= r;
    TXW_UNPAD(d, e, n, N);
}

/* ---- rows of any length ---- */

/* *m = the largest (NaN passed over); log(sum(exp(x - m))) as log1p of what the others add to
 * one element that equals m, so that the digits of small terms beside the 1 are kept.
 * Where m is not finite: 0, or NaN if there is one. */
TXL_KERNEL double TXW(log_sum)(const TXW_T *x, ptrdiff_t n, TXW_T *m)
{
    TXW_T e[TXW_BLOCK], low;
    double total = 0.0, others = -1.0; /* counts of equals are exact */
    TXW_I equal = 0;
    int nan = 0;
    if (n <= TXW(small)) {
        TXW_T p[TXW(small)];
        const TXW_T top = *m = TXW(small_exps)(p, e, x, n);
        if (top - top == 0) {
            for (int k = 0; k < TXW(small); k++) {
                equal += p[k] == top;
                e[k] = p[k] == top ? 0 : e[k];
            }
            return log1p((others + (double)equal) + TXW_QUICK_SUM(e, TXW(small)));
        }
    }
    *m = TXW_RANGE(x, n, &low);
    if (!(*m - *m == 0)) {
        for (ptrdiff_t i = 0; i < n; i++)
            nan |= x[i] != x[i];
        return nan ? (double)NAN : 0.0;
    }
    const TXW_T top = *m;
    const int mid = low - top >= TXW_EXP_LOW;
    for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {
        const ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;
        TXW(exp_block)(e, x + i, k, top, mid);
        equal = 0;
        for (ptrdiff_t j = 0; j < k; j++) {
            equal += x[i + j] == top;
            e[j] = x[i + j] == top ? 0 : e[j];
        }
        others += (double)equal;
        total += TXW_QUICK_SUM(e, k);
    }
    return log1p(others + total);
}

static void TXW(softmax)(void *dst, const void *src, ptrdiff_t n)
{
    TXW_T *d = (TXW_T *)dst;
    const TXW_T *x = (const TXW_T *)src;
    if (n <= TXW(small)) {
        TXW(softmax_small)(d, x, n);
        return;
    }
    TXW_T low, m = TXW_RANGE(x, n, &low);
    const int mid = low - m >= TXW_EXP_LOW;
    double total = 0.0;
    if (!(m - m == 0)) {
        TXW(fill)(d, n, (TXW_T)NAN);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i += TXW_BLOCK) {
        ptrdiff_t k = n - i < TXW_BLOCK ? n - i : TXW_BLOCK;
        TXW(exp_block)(d + i, x + i, k, m, mid);
        total += TXW_QUICK_SUM(d + i, k);
    }
    const TXW_T r = (TXW_T)(1.0 / total);
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] *= r;
}

static void TXW(log_softmax)(void *dst, const void *src, ptrdiff_t n)
{
    TXW_T *d = (TXW_T *)dst;
    const TXW_T *x = (const TXW_T *)src;
    TXW_T m, l = (TXW_T)TXW(log_sum)(x, n, &m);
    if (!(m - m == 0)) {
        TXW(fill)(d, n, (TXW_T)NAN);
        return;
    }
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (x[i] - m) - l;
}

static void TXW(logsumexp)(void *dst, const void *src, ptrdiff_t n)
{
    const TXW_T *x = (const TXW_T *)src;
    TXW_T m;
    const double log_sum = TXW(log_sum)(x, n, &m);
    *(TXW_T *)dst = (TXW_T)((double)m + log_sum);
}

static void TXW(softmax_backward)(void *dst, const void *grad, const void *out, ptrdiff_t n)
{
    TXW_T *d = (TXW_T *)dst;
    const TXW_T *g = (const TXW_T *)grad, *y = (const TXW_T *)out;
    const TXW_T s = (TXW_T)TXW(dot)(g, y, n);
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (g[i] - s) * y[i];
}

static void TXW(log_softmax_backward)(void *dst, const void *grad, const void *out, ptrdiff_t n)
{
    TXW_T *d = (TXW_T *)dst;
    const TXW_T *g = (const TXW_T *)grad, *y = (const TXW_T *)out;
    const TXW_T s = (TXW_T)TXW(total)(g, n, TXL_SUM);
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = g[i] - TXW_EXP(y[i]) * s;
}

static void TXW(cross_entropy)(void *loss, void *lse_one, const void *src, ptrdiff_t n, int64_t target,
                               double smoothing)
{
    const TXW_T *x = (const TXW_T *)src;
    TXW_T m;
    const double log_sum = TXW(log_sum)(x, n, &m);
    double l = ((double)m - (double)x[target]) + log_sum;
    if (smoothing != 0.0)
        l = (1.0 - smoothing) * l + smoothing * (((double)m - TXW(total)(x, n, TXL_SUM) / (double)n) + log_sum);
    *(TXW_T *)loss = (TXW_T)l;
    if (lse_one)
        *(TXW_T *)lse_one = (TXW_T)((double)m + log_sum);
}

static void TXW(cross_entropy_backward)(void *dst, const void *src, ptrdiff_t n, int64_t target, double smoothing,
                                        const void *lse_one, double scale)
{
    TXW_T *d = (TXW_T *)dst;
    const TXW_T *x = (const TXW_T *)src;
    const TXW_T lse = *(const TXW_T *)lse_one, s = (TXW_T)scale, u = (TXW_T)(smoothing / (double)n);
    const double xt = (double)x[target];
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (TXW_EXP(x[i] - lse) - u) * s;
    d[target] = (TXW_T)((exp(xt - (double)lse) - smoothing / (double)n - (1.0 - smoothing)) * scale);
}

static void TXW(moments)(void *mean_one, double *m2_one, const void *src, ptrdiff_t n)
{
    TXW_T hi, lo;
    TXW(stats)((const TXW_T *)src, n, &hi, &lo, m2_one);
    *(TXW_T *)mean_one = hi + lo;
}

static void TXW(layer_norm)(void *dst, const void *src, ptrdiff_t n, const void *weight, const void *bias, double eps,
                            void *mean_one, void *rstd_one)
{
    TXW_T *d = (TXW_T *)dst, hi, lo;
    const TXW_T *x = (const TXW_T *)src, *w = (const TXW_T *)weight, *b = (const TXW_T *)bias;
    double m2;
    TXW(stats)(x, n, &hi, &lo, &m2);
    const TXW_T r = (TXW_T)(1.0 / sqrt(m2 / (double)n + eps));
    if (w && b) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = ((x[i] - hi) - lo) * r * w[i] + b[i];
    } else if (w) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = ((x[i] - hi) - lo) * r * w[i];
    } else if (b) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = ((x[i] - hi) - lo) * r + b[i];
    } else {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = ((x[i] - hi) - lo) * r;
    }
    if (mean_one)
        *(TXW_T *)mean_one = hi + lo;
    if (rstd_one)
        *(TXW_T *)rstd_one = r;
}

static void TXW(rms_norm)(void *dst, const void *src, ptrdiff_t n, const void *weight, double eps, void *rstd_one)
{
    TXW_T *d = (TXW_T *)dst;
    const TXW_T *x = (const TXW_T *)src, *w = (const TXW_T *)weight;
    const TXW_T r = (TXW_T)(1.0 / sqrt(TXW(total)(x, n, TXL_SUMSQ) / (double)n + eps));
    if (w) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = x[i] * r * w[i];
    } else {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = x[i] * r;
    }
    if (rstd_one)
        *(TXW_T *)rstd_one = r;
}

/* xhat = (x - mean) * rstd, a = grad * weight:
 * dst = rstd * (a - mean(a) - xhat * mean(a * xhat)); without center no mean is taken off */
TXL_KERNEL void TXW(norm_backward)(TXW_T *d, const TXW_T *g, const TXW_T *x, ptrdiff_t n, const TXW_T *w, TXW_T mean,
                                   TXW_T rstd, double *dweight, double *dbias, int center)
{
    double sum_a, sum_ah;
    if (dweight) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            dweight[i] += (double)(g[i] * ((x[i] - mean) * rstd));
    }
    if (dbias) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            dbias[i] += (double)g[i];
    }
    if (!d)
        return;
    TXW(norm_sums)(g, x, w, n, mean, rstd, &sum_a, &sum_ah);
    const TXW_T ca = center ? (TXW_T)(sum_a / (double)n) : (TXW_T)0, ch = (TXW_T)(sum_ah / (double)n);
    if (w) {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = ((g[i] * w[i] - ca) - (x[i] - mean) * rstd * ch) * rstd;
    } else {
        TXL_SIMD
        for (ptrdiff_t i = 0; i < n; i++)
            d[i] = ((g[i] - ca) - (x[i] - mean) * rstd * ch) * rstd;
    }
}

static void TXW(layer_norm_backward)(void *dst, const void *grad, const void *src, ptrdiff_t n, const void *weight,
                                     const void *mean, const void *rstd, double *dweight, double *dbias)
{
    TXW(norm_backward)((TXW_T *)dst, (const TXW_T *)grad, (const TXW_T *)src, n, (const TXW_T *)weight,
                       *(const TXW_T *)mean, *(const TXW_T *)rstd, dweight, dbias, 1);
}

static void TXW(rms_norm_backward)(void *dst, const void *grad, const void *src, ptrdiff_t n, const void *weight,
                                   const void *rstd, double *dweight)
{
    TXW(norm_backward)((TXW_T *)dst, (const TXW_T *)grad, (const TXW_T *)src, n, (const TXW_T *)weight, 0,
                       *(const TXW_T *)rstd, dweight, NULL, 0);
}

static void TXW(fill_table)(tx_rows *r)
{
    r->softmax = TXW(softmax);
    r->log_softmax = TXW(log_softmax);
    r->logsumexp = TXW(logsumexp);
    r->layer_norm = TXW(layer_norm);
    r->rms_norm = TXW(rms_norm);
    r->softmax_backward = TXW(softmax_backward);
    r->log_softmax_backward = TXW(log_softmax_backward);
    r->layer_norm_backward = TXW(layer_norm_backward);
    r->rms_norm_backward = TXW(rms_norm_backward);
    r->cross_entropy = TXW(cross_entropy);
    r->cross_entropy_backward = TXW(cross_entropy_backward);
    r->moments = TXW(moments);
}

#undef TXW_T
#undef TXW_I
#undef TXW
#undef TXW_RANGE
#undef TXW_EXP
#undef TXW_EXP_MID
#undef TXW_EXP_LOW
#undef TXW_QUICK_SUM
#undef TXW_PAD
#undef TXW_UNPAD
