/* log and its family: log, log2, log10, log1p, asinh, acosh, atanh. */
#ifndef TX_VMATH_LOG_H
#define TX_VMATH_LOG_H

#include "vmath_exp.h"

/* x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); x positive and normal.  u holds k on top
 * (float64: biased, as AVX2 has no arithmetic 64-bit shift). */
#define TX__LOGF_OFF (0u - 0x3f3504f3u)
#define TX__LOG_OFF (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)
TX_INLINE float tx__log_kf(uint32_t u) { return (float)((int32_t)u >> 23); }
TX_INLINE float tx__log_mf(uint32_t u) { return tx__asf((u & 0x007fffffu) + 0x3f3504f3u); }
TX_INLINE double tx__log_k(uint64_t u) { return tx__asd((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0); }
TX_INLINE double tx__log_m(uint64_t u) { return tx__asd((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu); }

/* k ln2 + log(1 + f) */
TX_INLINE float tx__log_coref(float k, float f)
{
    /* log_f32: [-0.2929, 0.4143], error 6.7e-9 */
    float q = -0x1.38f60ep-4f;
    q = TX_FMAF(q, f, 0x1.057ac2p-3f);
    q = TX_FMAF(q, f, -0x1.0d860ep-3f);
    q = TX_FMAF(q, f, 0x1.22d4e2p-3f);
    q = TX_FMAF(q, f, -0x1.54719p-3f);
    q = TX_FMAF(q, f, 0x1.99a03cp-3f);
    q = TX_FMAF(q, f, -0x1.00022ap-2f);
    q = TX_FMAF(q, f, 0x1.555554p-2f);
    /* k ln2_hi + (f + (f^2 (f q - 1/2) + k ln2_lo)) */
    float w = TX_FMAF(f * f, TX_FMAF(q, f, -0.5f), k * TX__LN2F_LO);
    return TX_FMAF(k, TX__LN2F_HI, f + w);
}
/* s z q(z) of log(1 + f) = 2 s + s z q(z), s = f / (2 + f), z = s^2 */
TX_INLINE double tx__log_tail(double s)
{
    double z = s * s;
    /* logs_f64: [0, 0.02947], error 2.5e-18 */
    double q = 0x1.2f11b636c78a6p-3;
    q = TX_FMA(q, z, 0x1.39a090bb8843fp-3);
    q = TX_FMA(q, z, 0x1.746649d886c73p-3);
    q = TX_FMA(q, z, 0x1.c71c51d72d0adp-3);
    q = TX_FMA(q, z, 0x1.249249422ad49p-2);
    q = TX_FMA(q, z, 0x1.999999997f9f3p-2);
    q = TX_FMA(q, z, 0x1.5555555555593p-1);
    return q * z;
}
TX_INLINE double tx__log_core(double k, double f)
{
    double s = f / (2.0 + f), h = 0.5 * f * f;
    double w = TX_FMA(s, h + tx__log_tail(s), k * TX__LN2_LO);
    return TX_FMA(k, TX__LN2_HI, f - (h - w));
}
/* the same to about 36 bits */
TX_INLINE double tx__log_core_mid(double k, double f)
{
    double s = f / (2.0 + f), z = s * s;
    /* logs_mid: [0, 0.02947], error 9.6e-12 */
    double q = 0x1.e2fe8b6aa93dbp-3;
    q = TX_FMA(q, z, 0x1.2438a3c084cc8p-2);
    q = TX_FMA(q, z, 0x1.999a7b4dde27bp-2);
    q = TX_FMA(q, z, 0x1.555554fd379dfp-1);
    return TX_FMA(k, 0x1.62e42fefa39efp-1, TX_FMA(q * z, s, s + s));
}

TX_INLINE float tx__log_specialf(float x, float r)
{
    r = x > 0.0f ? r : (x == 0.0f ? -TX_INFF : TX_NANF);
    return x < TX_INFF ? r : x; /* +inf and NaN return themselves */
}
TX_INLINE double tx__log_special(double x, double r)
{
    r = x > 0.0 ? r : (x == 0.0 ? -TX_INF : TX_NAN);
    return x < TX_INF ? r : x;
}
/* mantissa and exponent of any positive x; subnormals are scaled first */
TX_INLINE uint32_t tx__log_splitf(float x, float *k)
{
    int sub = x < 0x1p-126f;
    uint32_t u = tx__bitsf(sub ? x * 0x1p24f : x) + TX__LOGF_OFF;
    *k = tx__log_kf(u) - (sub ? 24.0f : 0.0f);
    return u;
}
TX_INLINE uint64_t tx__log_split(double x, double *k)
{
    int sub = x < 0x1p-1022;
    uint64_t u = tx__bits(sub ? x * 0x1p54 : x) + TX__LOG_OFF;
    *k = tx__log_k(u) - (sub ? 54.0 : 0.0);
    return u;
}

/* Whether all of a block is positive, normal and finite. */
TX_INLINE int tx__all_normalf(const float *x, ptrdiff_t n)
{
    uint32_t m;
#define TX__OP(m, i) (tx__bitsf(x[i]) - 0x00800000u > (m) ? tx__bitsf(x[i]) - 0x00800000u : (m))
    TX__FOLD(uint32_t, n, m, TX__OP)
#undef TX__OP
    return m < 0x7f000000u;
}
TX_INLINE int tx__all_normal(const double *x, ptrdiff_t n)
{
    uint64_t m;
    /* the top bit is set in u for zeros, subnormals and negative numbers, in the sum for inf and NaN */
#define TX__OP(m, i) \
    ((m) | (tx__bits(x[i]) - 0x0010000000000000u) | (tx__bits(x[i]) - 0x0010000000000000u + 0x0020000000000000u))
    TX__FOLD(uint64_t, n, m, TX__OP)
#undef TX__OP
    return (int)(~m >> 63);
}
#define TX__LOG_BLOCKS(name, T, normal, fast, slow)                              \
    TX_VFUNC void name(T *dst, const T *src, ptrdiff_t n)                        \
    {                                                                            \
        for (ptrdiff_t b = 0; b < n; b += TX_VBLOCK) {                           \
            const ptrdiff_t m = n - b < TX_VBLOCK ? n - b : TX_VBLOCK;           \
            const T *s = src + b;                                                \
            T *d = dst + b;                                                      \
            if (normal(s, m)) {                                                  \
                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = fast(s[i]);     \
            } else {                                                             \
                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = slow(s[i]);     \
            }                                                                    \
        }                                                                        \
    }
/* From a core (k, f): the function for any x, the one for positive normal x, the block version. */
#define TX__LOGS(fn)                                                                               \
    TX_INLINE float tx_##fn##f(float x)                                                            \
    {                                                                                              \
        float k;                                                                                   \
        uint32_t u = tx__log_splitf(x, &k);                                                        \
        return tx__log_specialf(x, tx__##fn##_coref(k, tx__log_mf(u) - 1.0f));                     \
    }                                                                                              \
    TX_INLINE double tx_##fn(double x)                                                             \
    {                                                                                              \
        double k;                                                                                  \
        uint64_t u = tx__log_split(x, &k);                                                         \
        return tx__log_special(x, tx__##fn##_core(k, tx__log_m(u) - 1.0));                         \
    }                                                                                              \
    TX_INLINE float tx__##fn##_midf(float x)                                                       \
    {                                                                                              \
        uint32_t u = tx__bitsf(x) + TX__LOGF_OFF;                                                  \
        return tx__##fn##_coref(tx__log_kf(u), tx__log_mf(u) - 1.0f);                              \
    }                                                                                              \
    TX_INLINE double tx__##fn##_mid(double x)                                                      \
    {                                                                                              \
        uint64_t u = tx__bits(x) + TX__LOG_OFF;                                                    \
        return tx__##fn##_core(tx__log_k(u), tx__log_m(u) - 1.0);                                  \
    }                                                                                              \
    TX__LOG_BLOCKS(tx_v##fn##f, float, tx__all_normalf, tx__##fn##_midf, tx_##fn##f)               \
    TX__LOG_BLOCKS(tx_v##fn, double, tx__all_normal, tx__##fn##_mid, tx_##fn)

/* ---- log ---- */
TX__LOGS(log)
#define TX_HAVE_V_logf 1
#define TX_HAVE_V_log 1

/* ---- log2, log10: the sum k c + f d in two parts, so that exact powers give exact results ---- */
#define TX__LG2F_HI 0x1.344p-2f /* log10(2) */
#define TX__LG2F_LO 0x1.3509f8p-18f
#define TX__LG2_HI 0x1.34413509ep-2
#define TX__LG2_LO 0x1.79fef311f12b3p-38

TX_INLINE float tx__log2_coref(float k, float f)
{
    /* log2_f32: [-0.2929, 0.4143], error 5.6e-9 */
    float q = -0x1.b6af44p-4f;
    q = TX_FMAF(q, f, 0x1.7bfc7p-3f);
    q = TX_FMAF(q, f, -0x1.8900e8p-3f);
    q = TX_FMAF(q, f, 0x1.a3540ep-3f);
    q = TX_FMAF(q, f, -0x1.ea93c4p-3f);
    q = TX_FMAF(q, f, 0x1.277b9cp-2f);
    q = TX_FMAF(q, f, -0x1.715b1ep-2f);
    q = TX_FMAF(q, f, 0x1.ec70a2p-2f);
    q = TX_FMAF(q, f, -0x1.71547p-1f);
    float w = TX_FMAF(f * f, q, f * 0x1.4ae0cp-26f);
    float s = TX_FMAF(f, 0x1.715476p+0f, k), e = TX_FMAF(f, 0x1.715476p+0f, k - s);
    return s + (e + w);
}
TX_INLINE float tx__log10_coref(float k, float f)
{
    /* log10_f32: [-0.2929, 0.4143], error 1.1e-8 */
    float q = -0x1.758e9ap-6f;
    q = TX_FMAF(q, f, 0x1.a0914cp-5f);
    q = TX_FMAF(q, f, -0x1.e48488p-5f);
    q = TX_FMAF(q, f, 0x1.0013dap-4f);
    q = TX_FMAF(q, f, -0x1.271f8p-4f);
    q = TX_FMAF(q, f, 0x1.639a08p-4f);
    q = TX_FMAF(q, f, -0x1.bcc058p-4f);
    q = TX_FMAF(q, f, 0x1.287adcp-3f);
    q = TX_FMAF(q, f, -0x1.bcb7aap-3f);
    float w = TX_FMAF(f * f, q, TX_FMAF(f, -0x1.5b235ep-27f, k * TX__LG2F_LO)), h = k * TX__LG2F_HI;
    float s = TX_FMAF(f, 0x1.bcb7b2p-2f, h), e = TX_FMAF(f, 0x1.bcb7b2p-2f, h - s);
    return s + (e + w);
}
/* (hi + lo)(c + cl) + h + l, hi + lo = log(1 + f) */
TX_INLINE double tx__log_base(double f, double c, double cl, double h, double l)
{
    double s = f / (2.0 + f), g = 0.5 * f * f;
    double hi = f - g, lo = (f - hi) - g + s * (g + tx__log_tail(s));
    double v = TX_FMA(hi, c, h), e = TX_FMA(hi, c, h - v);
    return v + (e + TX_FMA(lo, c, TX_FMA(hi, cl, l)));
}
TX_INLINE double tx__log2_core(double k, double f)
{
    return tx__log_base(f, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, k, 0.0);
}
TX_INLINE double tx__log10_core(double k, double f)
{
    return tx__log_base(f, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, k * TX__LG2_HI, k * TX__LG2_LO);
}
TX__LOGS(log2)
TX__LOGS(log10)
#define TX_HAVE_V_log2f 1
#define TX_HAVE_V_log2 1
#define TX_HAVE_V_log10f 1
#define TX_HAVE_V_log10 1

/* ---- log1p: 1 + x = 2^k (1 + f), f = x 2^-k + (2^-k - 1) without the rounding of 1 + x ---- */
TX_INLINE float tx__log1p_splitf(float x, float *k)
{
    uint32_t u = tx__bitsf(1.0f + x) + TX__LOGF_OFF;
    *k = tx__log_kf(u);
    float s = tx__asf(0x3f800000u - (u & 0xff800000u)); /* 2^-k */
    return x > 0x1p25f ? tx__log_mf(u) - 1.0f : TX_FMAF(x, s, s - 1.0f);
}
TX_INLINE double tx__log1p_split(double x, double *k)
{
    uint64_t u = tx__bits(1.0 + x) + TX__LOG_OFF;
    *k = tx__log_k(u);
    double s = tx__asd((2046u - (u >> 52)) << 52);
    return x > 0x1p54 ? tx__log_m(u) - 1.0 : TX_FMA(x, s, s - 1.0);
}
TX_INLINE float tx_log1pf(float x)
{
    float k, f = tx__log1p_splitf(x, &k);
    float r = x == 0.0f ? x : tx__log_coref(k, f);
    r = x > -1.0f ? r : (x == -1.0f ? -TX_INFF : TX_NANF);
    return x < TX_INFF ? r : x;
}
TX_INLINE double tx_log1p(double x)
{
    double k, f = tx__log1p_split(x, &k);
    double r = x == 0.0 ? x : tx__log_core(k, f);
    r = x > -1.0 ? r : (x == -1.0 ? -TX_INF : TX_NAN);
    return x < TX_INF ? r : x;
}
TX_INLINE float tx__log1p_midf(float x)
{
    float s, k;
    uint32_t u = tx__bitsf(1.0f + x) + TX__LOGF_OFF;
    k = tx__log_kf(u);
    s = tx__asf(0x3f800000u - (u & 0xff800000u));
    return x == 0.0f ? x : tx__log_coref(k, TX_FMAF(x, s, s - 1.0f));
}
TX_INLINE double tx__log1p_mid1(double x)
{
    uint64_t u = tx__bits(1.0 + x) + TX__LOG_OFF;
    double s = tx__asd((2046u - (u >> 52)) << 52);
    return x == 0.0 ? x : tx__log_core(tx__log_k(u), TX_FMA(x, s, s - 1.0));
}
/* Whether all of a block is in (-1, 2^24]. */
TX_INLINE int tx__log1p_easyf(const float *x, ptrdiff_t n)
{
    int32_t bad = 0;
    _Pragma("omp simd reduction(|:bad)")
    for (ptrdiff_t i = 0; i < n; i++) bad |= x[i] > -1.0f && x[i] <= 0x1p24f ? 0 : 1;
    return !bad;
}
TX_INLINE int tx__log1p_easy(const double *x, ptrdiff_t n)
{
    int64_t bad = 0;
    _Pragma("omp simd reduction(|:bad)")
    for (ptrdiff_t i = 0; i < n; i++) bad |= x[i] > -1.0 && x[i] <= 0x1p24 ? 0 : 1;
    return !bad;
}
#define TX_HAVE_V_log1pf 1
TX__LOG_BLOCKS(tx_vlog1pf, float, tx__log1p_easyf, tx__log1p_midf, tx_log1pf)
#define TX_HAVE_V_log1p 1
TX__LOG_BLOCKS(tx_vlog1p, double, tx__log1p_easy, tx__log1p_mid1, tx_log1p)

/* ---- atanh: (1 + a) / (1 - a) = 2^k (1 + s) / (1 - s), k ln2 / 2 + s + s z q(z) ---- */
TX_INLINE float tx_atanhf(float x)
{
    float a = tx__absf(x), n = 1.0f + a, d = 1.0f - a;
    uint32_t k = (tx__bitsf(n) - tx__bitsf(d) + 0x400000u) >> 23;
    k = a < 0.3f ? 0u : k; /* s = a: no cancellation below */
    float c = tx__asf((k + 127u) << 23), kf = (float)(int32_t)k;
    float nl = a - (n - 1.0f), dl = (1.0f - d) - a; /* rounding errors of n and d */
    float s = (TX_FMAF(-c, d, n) + TX_FMAF(-c, dl, nl)) / TX_FMAF(c, d, n);
    s = k == 0u ? a : s;
    float z = s * s;
    /* atanh_f32: [0, 0.0901], error 1.5e-9 */
    float q = 0x1.125aaap-3f;
    q = TX_FMAF(q, z, 0x1.20db24p-3f);
    q = TX_FMAF(q, z, 0x1.99b6c4p-3f);
    q = TX_FMAF(q, z, 0x1.555532p-2f);
    float w = TX_FMAF(s * z, q, kf * (0.5f * TX__LN2F_LO));
    float r = TX_FMAF(kf, 0.5f * TX__LN2F_HI, s + w);
    r = a < 1.0f ? r : (a == 1.0f ? TX_INFF : TX_NANF);
    return x == x ? tx__signf(r, x) : x;
}
TX_INLINE double tx_atanh(double x)
{
    double a = tx__abs(x), n = 1.0 + a, d = 1.0 - a;
    uint64_t k = (tx__bits(n) - tx__bits(d) + 0x8000000000000u) >> 52;
    k = a < 0.3 ? 0u : k;
    double c = tx__asd((k + 1023u) << 52), kf = tx__asd(k | 0x4330000000000000u) - 0x1p52;
    double nl = a - (n - 1.0), dl = (1.0 - d) - a;
    double s = (TX_FMA(-c, d, n) + TX_FMA(-c, dl, nl)) / TX_FMA(c, d, n);
    s = k == 0u ? a : s;
    double z = s * s;
    /* atanh_f64: [0, 0.0901], error 1.2e-19 */
    double q = 0x1.36dd592bb443cp-4;
    q = TX_FMA(q, z, 0x1.798594cdabfb9p-5);
    q = TX_FMA(q, z, 0x1.e8984d00325bdp-5);
    q = TX_FMA(q, z, 0x1.10cf920342c42p-4);
    q = TX_FMA(q, z, 0x1.3b16dc830fd9dp-4);
    q = TX_FMA(q, z, 0x1.745cfe52ccbc7p-4);
    q = TX_FMA(q, z, 0x1.c71c72400e771p-4);
    q = TX_FMA(q, z, 0x1.24924923ea9ap-3);
    q = TX_FMA(q, z, 0x1.999999999a7e6p-3);
    q = TX_FMA(q, z, 0x1.5555555555552p-2);
    double w = TX_FMA(s * z, q, kf * (0.5 * TX__LN2_LO));
    double r = TX_FMA(kf, 0.5 * TX__LN2_HI, s + w);
    r = a < 1.0 ? r : (a == 1.0 ? TX_INF : TX_NAN);
    return x == x ? tx__sign(r, x) : x;
}

/* ---- asinh = log1p(a + a^2 / (1 + sqrt(a^2 + 1))), acosh = log1p(d + sqrt(d (d + 2))), d = x - 1 ---- */
TX_INLINE double tx__log1p_mid(double y)
{
    double k, f = tx__log1p_split(y, &k);
    return tx__log_core_mid(k, f);
}
TX_INLINE float tx_asinhf(float x)
{
    double a = (double)tx__absf(x), h = a * a;
    double y = a + h / (1.0 + sqrt(h + 1.0));
    float r = (float)tx__log1p_mid(y);
    return x - x == 0.0f ? tx__signf(r, x) : x;
}
TX_INLINE float tx_acoshf(float x)
{
    double d = (double)x - 1.0;
    float r = (float)tx__log1p_mid(d + sqrt(d * (d + 2.0)));
    r = x >= 1.0f ? r : TX_NANF;
    return x < TX_INFF ? r : x;
}
/* k ln2 + log(1 + f + fl), fl a rounding error of f */
TX_INLINE double tx__log_core_two(double k, double f, double fl)
{
    double s = f / (2.0 + f), h = 0.5 * f * f;
    double l = fl * TX_FMA(f, -0.75, 1.0); /* fl / (1 + f) */
    double w = TX_FMA(s, h + tx__log_tail(s), TX_FMA(k, TX__LN2_LO, l));
    return TX_FMA(k, TX__LN2_HI, f - (h - w));
}
/* log(1 + y + yl), or log(2 x) where x > 2^28 */
TX_INLINE double tx__log1p_two(double y, double yl, double x)
{
    int big = x > 0x1p28;
    double k, u1 = big ? x : 1.0 + y;
    uint64_t u = tx__bits(u1) + TX__LOG_OFF;
    k = tx__log_k(u);
    double s = tx__asd((2046u - (u >> 52)) << 52);
    double f = big ? tx__log_m(u) - 1.0 : TX_FMA(y, s, s - 1.0);
    return tx__log_core_two(big ? k + 1.0 : k, f, big ? 0.0 : yl * s);
}
TX_INLINE double tx_asinh(double x)
{
    double a = tx__abs(x), b = a > 0x1p28 ? 0x1p28 : a;
    double h = b * b, t = h / (1.0 + sqrt(h + 1.0));
    double y = b + t, yl = t - (y - b);
    double r = tx__log1p_two(y, yl, a);
    return x - x == 0.0 ? tx__sign(r, x) : x;
}
TX_INLINE double tx_acosh(double x)
{
    double b = x > 0x1p28 ? 0x1p28 : x, d = b - 1.0;
    double e = d + 2.0, el = (2.0 - e) + d;
    double p = d * e, pl = TX_FMA(d, e, -p) + d * el;
    double q = sqrt(p), ql = (TX_FMA(-q, q, p) + pl) * (0.5 / (q > 0.0 ? q : 1.0));
    double y = q + d, yl = (d - (y - q)) + ql;
    double r = tx__log1p_two(y, yl, x);
    r = x >= 1.0 ? r : TX_NAN;
    return x < TX_INF ? r : x;
}

#endif
