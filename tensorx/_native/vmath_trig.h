/* sin, cos, tan and their inverses. */
#ifndef TX_VMATH_TRIG_H
#define TX_VMATH_TRIG_H

#include "vmath_base.h"

/* x = n pi/2 + r, |r| <= pi/4 and a little; t = TX_RINT + n.  The parts of pi/2 make the first
 * step exact: full-length parts by the FMA, else 33-bit parts times |n| < 2^20. */
#define TX__PIO2F_1 0x1.921fb4p+0f
#define TX__PIO2F_2 0x1.4442dp-24f
#define TX__PIO2F_3 0x1.84698ap-48f
#define TX__PIO2_A 0x1.921fb54442d18p+0
#define TX__PIO2_B 0x1.1a62633145c06p-54
#define TX__PIO2_C 0x1.c1cd129024e08p-107
#define TX__PIO2_1 0x1.921fb544p+0
#define TX__PIO2_2 0x1.0b4611a6p-34
#define TX__PIO2_3 0x1.3198a2e037073p-69
#define TX__TRIG_MAXF 0x47c35000u /* |x| < 1e5 */
#if TX_HAVE_FMA
#define TX__TRIG_MAX 0x412e8480u /* |x| < 1e6, by the high word */
#else
#define TX__TRIG_MAX 0x40d00000u /* |x| < 2^14: the third part must stay small */
#endif

TX_INLINE float tx__trig_reducef(float x, float *t)
{
    *t = TX_FMAF(x, 0x1.45f306p-1f, TX_RINTF);
    float n = *t - TX_RINTF;
#if TX_HAVE_FMA
    return TX_FMAF(n, -TX__PIO2F_3, TX_FMAF(n, -TX__PIO2F_2, TX_FMAF(n, -TX__PIO2F_1, x)));
#else
    return (float)((double)x - (double)n * TX__PIO2_1 - (double)n * TX__PIO2_2);
#endif
}
TX_INLINE double tx__trig_reduce(double x, double *t)
{
    *t = TX_FMA(x, 0x1.45f306dc9c883p-1, TX_RINT);
    double n = *t - TX_RINT;
#if TX_HAVE_FMA
    return TX_FMA(n, -TX__PIO2_C, TX_FMA(n, -TX__PIO2_B, TX_FMA(n, -TX__PIO2_A, x)));
#else
    double a = x - n * TX__PIO2_1, h = n * TX__PIO2_2, r = a - h; /* products and a exact */
    return r + (((a - r) - h) - n * TX__PIO2_3);
#endif
}

/* sin and cos on [-pi/4, pi/4], z = r^2 */
TX_INLINE float tx__sin_polyf(float r, float z)
{
    /* sin_f32: [0, 0.6202], error 3.8e-9 */
    float q = -0x1.995176p-13f;
    q = TX_FMAF(q, z, 0x1.110774p-7f);
    q = TX_FMAF(q, z, -0x1.555546p-3f);
    return TX_FMAF(q, z * r, r);
}
TX_INLINE float tx__cos_polyf(float z)
{
    /* cos_f32: [0, 0.6202], error 1.1e-10 */
    float q = 0x1.99e0ecp-16f;
    q = TX_FMAF(q, z, -0x1.6c0c1ap-10f);
    q = TX_FMAF(q, z, 0x1.55554ap-5f);
    q = TX_FMAF(q, z, -0.5f);
    return TX_FMAF(q, z, 1.0f);
}
TX_INLINE double tx__sin_poly(double r, double z)
{
    /* sin_f64: [0, 0.6202], error 3.7e-18 */
    double q = 0x1.5d88ed749e2b6p-33;
    q = TX_FMA(q, z, -0x1.ae5e4471e90fap-26);
    q = TX_FMA(q, z, 0x1.71de354dec3dap-19);
    q = TX_FMA(q, z, -0x1.a01a019be3226p-13);
    q = TX_FMA(q, z, 0x1.111111110f716p-7);
    q = TX_FMA(q, z, -0x1.5555555555548p-3);
    return TX_FMA(q, z * r, r);
}
TX_INLINE double tx__cos_poly(double z)
{
    /* cos_f64: [0, 0.6202], error 5.1e-20 */
    double q = -0x1.8fa3c47891ap-37;
    q = TX_FMA(q, z, 0x1.1ee9d7962571cp-29);
    q = TX_FMA(q, z, -0x1.27e4f7ed04dbbp-22);
    q = TX_FMA(q, z, 0x1.a01a019c8b2dp-16);
    q = TX_FMA(q, z, -0x1.6c16c16c15003p-10);
    q = TX_FMA(q, z, 0x1.555555555554bp-5);
    q = TX_FMA(q, z, -0.5);
    return TX_FMA(q, z, 1.0);
}

TX_INLINE float tx__sin_midf(float x)
{
    float t, r = tx__trig_reducef(x, &t), z = r * r;
    uint32_t n = tx__bitsf(t);
    float v = n & 1u ? tx__cos_polyf(z) : tx__sin_polyf(r, z);
    v = tx__asf(tx__bitsf(v) ^ ((n & 2u) << 30));
    return x == 0.0f ? x : v;
}
TX_INLINE float tx__cos_midf(float x)
{
    float t, r = tx__trig_reducef(x, &t), z = r * r;
    uint32_t n = tx__bitsf(t) + 1u;
    float v = n & 1u ? tx__cos_polyf(z) : tx__sin_polyf(r, z);
    return tx__asf(tx__bitsf(v) ^ ((n & 2u) << 30));
}
TX_INLINE double tx__sin_mid(double x)
{
    double t, r = tx__trig_reduce(x, &t), z = r * r;
    uint64_t n = tx__bits(t);
    double v = n & 1u ? tx__cos_poly(z) : tx__sin_poly(r, z);
    v = tx__asd(tx__bits(v) ^ ((n & 2u) << 62));
    return x == 0.0 ? x : v;
}
TX_INLINE double tx__cos_mid(double x)
{
    double t, r = tx__trig_reduce(x, &t), z = r * r;
    uint64_t n = tx__bits(t) + 1u;
    double v = n & 1u ? tx__cos_poly(z) : tx__sin_poly(r, z);
    return tx__asd(tx__bits(v) ^ ((n & 2u) << 62));
}

TX_INLINE int tx__trig_largef(float x) { return (tx__bitsf(x) & 0x7fffffffu) >= TX__TRIG_MAXF; }
TX_INLINE int tx__trig_large(double x) { return ((uint32_t)(tx__bits(x) >> 32) & 0x7fffffffu) >= TX__TRIG_MAX; }

/* Elements too large for the reduction go to libm one by one. */
#define TX__TRIG(fn, mid)                                                                             \
    TX_INLINE float tx_##fn##f(float x) { return tx__trig_largef(x) ? (float)fn((double)x) : mid##f(x); } \
    TX_INLINE double tx_##fn(double x) { return tx__trig_large(x) ? fn(x) : mid(x); }                 \
    TX_VFIX(tx_v##fn##f, float, tx__trig_largef, mid##f, tx_##fn##f)                                  \
    TX_VFIX(tx_v##fn, double, tx__trig_large, mid, tx_##fn)
#define TX_HAVE_V_sinf 1
#define TX_HAVE_V_sin 1
TX__TRIG(sin, tx__sin_mid)
#define TX_HAVE_V_cosf 1
#define TX_HAVE_V_cos 1
TX__TRIG(cos, tx__cos_mid)

/* ---- tan: float32 in double; float64 with r in two parts ---- */
TX_INLINE float tx__tan_midf(float x)
{
    double t, r = tx__trig_reduce((double)x, &t), z = r * r;
    /* tan_mid: [0, 0.6202], error 1.5e-9 */
    double q = 0x1.233c03d444b5dp-8;
    q = TX_FMA(q, z, -0x1.a656879de851p-15);
    q = TX_FMA(q, z, 0x1.66c56a58e4ba7p-7);
    q = TX_FMA(q, z, 0x1.5bf3daa4fb161p-6);
    q = TX_FMA(q, z, 0x1.baeeb372b7a46p-5);
    q = TX_FMA(q, z, 0x1.110d1effc7161p-3);
    q = TX_FMA(q, z, 0x1.5555620babe9bp-2);
    double v = TX_FMA(q, z * r, r);
    float w = (float)(tx__bits(t) & 1u ? -1.0 / v : v);
    return x == 0.0f ? x : w;
}
TX_INLINE double tx__tan_mid(double x)
{
    double t = TX_FMA(x, 0x1.45f306dc9c883p-1, TX_RINT), n = t - TX_RINT;
    double a = TX_FMA(n, -TX__PIO2_1, x), h = n * -TX__PIO2_2; /* both exact */
    double r = a + h, b = r - a;
    double rl = (a - (r - b)) + (h - b); /* r + rl = a + h */
    rl = TX_FMA(n, -TX__PIO2_3, rl);
    a = r;
    r = a + rl;
    rl = (a - r) + rl;
    double z = r * r;
    /* tan_f64: [0, 0.6202], error 1.5e-17 */
    double q = 0x1.655b16087d3bcp-16;
    q = TX_FMA(q, z, -0x1.87ef6260a091ap-15);
    q = TX_FMA(q, z, 0x1.85c77bc6b5a39p-14);
    q = TX_FMA(q, z, -0x1.fb5c32a067497p-16);
    q = TX_FMA(q, z, 0x1.242a34f67929ep-13);
    q = TX_FMA(q, z, 0x1.cf766e2849671p-13);
    q = TX_FMA(q, z, 0x1.383cb7bde8ba7p-11);
    q = TX_FMA(q, z, 0x1.7d534af186ca8p-10);
    q = TX_FMA(q, z, 0x1.d6d9e28b7c8e4p-9);
    q = TX_FMA(q, z, 0x1.226e0d5c3795fp-7);
    q = TX_FMA(q, z, 0x1.664f49d74dbeap-6);
    q = TX_FMA(q, z, 0x1.ba1ba1b368098p-5);
    q = TX_FMA(q, z, 0x1.1111111119968p-3);
    q = TX_FMA(q, z, 0x1.55555555554dcp-2);
    double p = TX_FMA(q, z * r, TX_FMA(z, rl, rl)); /* d tan = 1 + tan^2, about 1 + z */
    double v = r + p, vl = (r - v) + p;
    double w = -1.0 / v;
    w = TX_FMA(TX_FMA(w, vl, TX_FMA(w, v, 1.0)), w, w); /* -1 / (v + vl) */
    w = tx__abs(w) < TX_INF ? w : -1.0 / v;
    v = tx__bits(t) & 1u ? w : v;
    return x == 0.0 ? x : v;
}
#define TX_HAVE_V_tanf 1
#define TX_HAVE_V_tan 1
TX__TRIG(tan, tx__tan_mid)

/* ---- asin, acos: |x| > 1/2 by sqrt((1 - |x|) / 2) ---- */
#define TX__PI_2F_HI 0x1.921fb6p+0f
#define TX__PI_2F_LO -0x1.777a5cp-25f
#define TX__PI_2_HI 0x1.921fb54442d18p+0
#define TX__PI_2_LO 0x1.1a62633145c07p-54

/* s and p with asin(a) = s + p for small a, pi/2 - 2 (s + p) for big */
TX_INLINE float tx__asin_partsf(float a, float *p)
{
    int big = a > 0.5f;
    float z = big ? TX_FMAF(a, -0.5f, 0.5f) : a * a;
    float s = big ? sqrtf(z) : a;
    /* asin_f32: [0, 0.25], error 5.0e-9 */
    float q = 0x1.59cc6ep-5f;
    q = TX_FMAF(q, z, 0x1.8bb546p-6f);
    q = TX_FMAF(q, z, 0x1.748a2cp-5f);
    q = TX_FMAF(q, z, 0x1.33016ap-4f);
    q = TX_FMAF(q, z, 0x1.5555cap-3f);
    *p = q * z * s;
    return s;
}
TX_INLINE double tx__asin_parts(double a, double *p)
{
    int big = a > 0.5;
    double z = big ? TX_FMA(a, -0.5, 0.5) : a * a;
    double s = big ? sqrt(z) : a;
    /* asin_f64: [0, 0.25], error 1.5e-17 */
    double q = 0x1.05cd207fa184p-5;
    q = TX_FMA(q, z, -0x1.0af15491d3483p-6);
    q = TX_FMA(q, z, 0x1.40afb503a73e6p-6);
    q = TX_FMA(q, z, 0x1.aab6bd8675abdp-8);
    q = TX_FMA(q, z, 0x1.8ee44fc8eb692p-7);
    q = TX_FMA(q, z, 0x1.c6f88a34ab43bp-7);
    q = TX_FMA(q, z, 0x1.1c6c2728356dep-6);
    q = TX_FMA(q, z, 0x1.6e89ef82f2d24p-6);
    q = TX_FMA(q, z, 0x1.f1c72c6cf792ep-6);
    q = TX_FMA(q, z, 0x1.6db6db41d4caep-5);
    q = TX_FMA(q, z, 0x1.333333336f874p-4);
    q = TX_FMA(q, z, 0x1.5555555555387p-3);
    *p = q * z * s;
    return s;
}
TX_INLINE float tx_asinf(float x)
{
    float a = tx__absf(x), p, s = tx__asin_partsf(a, &p);
    float h = TX_FMAF(s, -2.0f, TX__PI_2F_HI), e = TX_FMAF(s, -2.0f, TX__PI_2F_HI - h);
    float v = a > 0.5f ? h + (e - TX_FMAF(p, 2.0f, -TX__PI_2F_LO)) : s + p;
    return tx__signf(tx__absf(v), x);
}
TX_INLINE double tx_asin(double x)
{
    double a = tx__abs(x), p, s = tx__asin_parts(a, &p);
    double h = TX_FMA(s, -2.0, TX__PI_2_HI), e = TX_FMA(s, -2.0, TX__PI_2_HI - h);
    double v = a > 0.5 ? h + (e - TX_FMA(p, 2.0, -TX__PI_2_LO)) : s + p;
    return tx__sign(tx__abs(v), x);
}
TX_INLINE float tx_acosf(float x)
{
    float p, s = tx__asin_partsf(tx__absf(x), &p);
    float small = (TX__PI_2F_HI - x) - (tx__xorsignf(p, x) - TX__PI_2F_LO);
    float neg = TX_FMAF(s, -2.0f, 2.0f * TX__PI_2F_HI) - TX_FMAF(p, 2.0f, -2.0f * TX__PI_2F_LO);
    float v = x > 0.5f ? 2.0f * (s + p) : small;
    return x < -0.5f ? neg : v;
}
TX_INLINE double tx_acos(double x)
{
    double p, s = tx__asin_parts(tx__abs(x), &p);
    double small = (TX__PI_2_HI - x) - (tx__xorsign(p, x) - TX__PI_2_LO);
    double neg = TX_FMA(s, -2.0, 2.0 * TX__PI_2_HI) - TX_FMA(p, 2.0, -2.0 * TX__PI_2_LO);
    double v = x > 0.5 ? 2.0 * (s + p) : small;
    return x < -0.5 ? neg : v;
}

/* ---- atan, atan2 ---- */
/* atan(r) = r + p for 0 <= r <= 1 */
TX_INLINE float tx__atan_pf(float r)
{
    float z = r * r;
    /* atan_f32: [0, 1], error 2.4e-9 */
    float q = -0x1.dcc3a2p-10f;
    q = TX_FMAF(q, z, 0x1.696592p-7f);
    q = TX_FMAF(q, z, -0x1.012eeap-5f);
    q = TX_FMAF(q, z, 0x1.dc983ap-5f);
    q = TX_FMAF(q, z, -0x1.58bcfcp-4f);
    q = TX_FMAF(q, z, 0x1.c0c8e2p-4f);
    q = TX_FMAF(q, z, -0x1.24262ap-3f);
    q = TX_FMAF(q, z, 0x1.999266p-3f);
    q = TX_FMAF(q, z, -0x1.55554p-2f);
    return q * z * r;
}
TX_INLINE float tx_atanf(float x)
{
    float a = tx__absf(x);
    float r = a > 1.0f ? 1.0f / a : a, p = tx__atan_pf(r);
    float v = a > 1.0f ? (TX__PI_2F_HI - r) - (p - TX__PI_2F_LO) : r + p;
    return tx__signf(tx__absf(v), x);
}
/* atan((num + nl) / (den + dl)) = *r + *l for a quotient within [-tan(pi/8), tan(pi/8)] */
TX_INLINE double tx__atan_ratio(double num, double nl, double den, double dl, double *l)
{
    double inv = 1.0 / den, r = num * inv, z = r * r;
    double rl = (TX_FMA(-r, den, num) + TX_FMA(-r, dl, nl)) * inv;
    /* atan_f64: [0, 0.1717], error 1.3e-18 */
    double q = -0x1.257615e38e7f3p-6;
    q = TX_FMA(q, z, 0x1.37dbc3dbdeb4ap-5);
    q = TX_FMA(q, z, -0x1.9cd571917e24p-5);
    q = TX_FMA(q, z, 0x1.df0ff50f3a0f6p-5);
    q = TX_FMA(q, z, -0x1.10ebc4f65b05p-4);
    q = TX_FMA(q, z, 0x1.3b111a4cff0fep-4);
    q = TX_FMA(q, z, -0x1.745cf8ee3ade6p-4);
    q = TX_FMA(q, z, 0x1.c71c70e6ada46p-4);
    q = TX_FMA(q, z, -0x1.24924922aed36p-3);
    q = TX_FMA(q, z, 0x1.9999999995895p-3);
    q = TX_FMA(q, z, -0x1.555555555553dp-2);
    *l = TX_FMA(q * z, r, rl);
    return r;
}
TX_INLINE double tx_atan(double x)
{
    double a = tx__abs(x), l;
    a = a > 0x1p60 ? 0x1p60 : a; /* pi/2 in any case */
    /* atan a = base + atan(num / den), base a multiple of pi/4 */
    int mid = a > 0x1.a827999fcef32p-2, far = a > 0x1.3504f333f9de6p+1;
    double num = mid ? a - 1.0 : a, den = mid ? a + 1.0 : 1.0;
    double base = mid ? 0.5 : 0.0, mx = a > 1.0 ? a : 1.0, mn = a > 1.0 ? 1.0 : a;
    double dl = mid ? mn - (den - mx) : 0.0; /* rounding error of a + 1 */
    num = far ? -1.0 : num;
    den = far ? a : den;
    dl = far ? 0.0 : dl;
    base = far ? 1.0 : base;
    double r = tx__atan_ratio(num, 0.0, den, dl, &l), h = base * TX__PI_2_HI;
    double s = h + r, e = (h - s) + r;
    double v = s + (e + TX_FMA(base, TX__PI_2_LO, l));
    return tx__sign(tx__abs(v), x);
}
TX_INLINE float tx_atan2f(float y, float x)
{
    float a = tx__absf(x), b = tx__absf(y);
    int steep = b > a, left = (tx__bitsf(x) >> 31) != 0;
    float mx = steep ? b : a, mn = steep ? a : b;
    float r = mn / (mx == 0.0f ? 1.0f : mx);
    r = mn == TX_INFF ? 1.0f : r;
    float p = tx__atan_pf(r);
    /* base +- (r + p), base 0, pi/2 or pi */
    float base = steep ? 1.0f : (left ? 2.0f : 0.0f);
    float sg = steep != left ? -1.0f : 1.0f, h = base * TX__PI_2F_HI;
    float s = TX_FMAF(sg, r, h), e = TX_FMAF(sg, r, h - s);
    float v = s + (e + TX_FMAF(sg, p, base * TX__PI_2F_LO));
    v = tx__signf(tx__absf(v), y);
    return x != x || y != y ? x + y : v;
}
TX_INLINE double tx_atan2(double y, double x)
{
    double a = tx__abs(x), b = tx__abs(y), l;
    int steep = b > a, left = tx__sign(1.0, x) < 0.0;
    double mx = steep ? b : a, mn = steep ? a : b;
    int inf = mx == TX_INF;
    mn = inf ? (mn == TX_INF ? 1.0 : 0.0) : mn;
    mx = inf || mx == 0.0 ? 1.0 : mx;
    /* mx into [2, 4): no overflow of the sum or of the reciprocal */
    double fl = mx < 0x1p-1022 ? 0x1p-1022 : mx;
    double scale = tx__asd(0x7ff0000000000000u - (tx__bits(fl) & 0x7ff0000000000000u));
    mx *= scale;
    mn *= scale;
    int mid = mn > 0x1.a827999fcef32p-2 * mx;
    double num = mid ? mn - mx : mn, den = mid ? mn + mx : mx;
    double nl = mid ? mn - (num + mx) : 0.0, dl = mid ? mn - (den - mx) : 0.0;
    double r = tx__atan_ratio(num, nl, den, dl, &l);
    double sg = steep != left ? -1.0 : 1.0;
    double base = steep ? 1.0 : (left ? 2.0 : 0.0);
    base = mid ? TX_FMA(sg, 0.5, base) : base;
    double h = base * TX__PI_2_HI; /* exact: the constant ends in three zero bits */
    double s = TX_FMA(sg, r, h), e = TX_FMA(sg, r, h - s);
    double v = s + (e + TX_FMA(sg, l, base * TX__PI_2_LO));
    v = tx__sign(tx__abs(v), y);
    return x != x || y != y ? x + y : v;
}

#endif
