/* exp and its family: exp, exp2, expm1, sigmoid, tanh, sinh, cosh. */
#ifndef TX_VMATH_EXP_H
#define TX_VMATH_EXP_H

#include "vmath_base.h"

#define TX__LOG2E 0x1.71547652b82fep+0
/* ln 2 in two parts; the first has trailing zeros, so n * LN2_HI is exact even without FMA */
#define TX__LN2F_HI 0x1.62e4p-1f
#define TX__LN2F_LO 0x1.7f7d1cp-20f
#define TX__LN2_HI 0x1.62e42fefap-1
#define TX__LN2_LO 0x1.cf79abc9e3b3ap-40

/* r in [-ln2/2, ln2/2] and t = TX_RINT + n with x = n ln2 + r */
TX_INLINE float tx__exp_reducef(float x, float *t)
{
    *t = TX_FMAF(x, (float)TX__LOG2E, TX_RINTF);
    float n = *t - TX_RINTF;
    return TX_FMAF(n, -TX__LN2F_LO, TX_FMAF(n, -TX__LN2F_HI, x));
}
TX_INLINE double tx__exp_reduce(double x, double *t)
{
    *t = TX_FMA(x, TX__LOG2E, TX_RINT);
    double n = *t - TX_RINT;
    return TX_FMA(n, -TX__LN2_LO, TX_FMA(n, -TX__LN2_HI, x));
}

/* e^r - 1 = r + r^2 q(r) */
TX_INLINE float tx__exp_polyf(float r)
{
    /* exp_f32: [-0.34658, 0.34658], error 3.2e-9 */
    float q = 0x1.6ac802p-10f;
    q = TX_FMAF(q, r, 0x1.123dep-7f);
    q = TX_FMAF(q, r, 0x1.555858p-5f);
    q = TX_FMAF(q, r, 0x1.55548cp-3f);
    q = TX_FMAF(q, r, 0x1.fffffcp-2f);
    return TX_FMAF(r * r, q, r);
}
TX_INLINE double tx__exp_poly(double r)
{
    /* exp_f64: [-0.34658, 0.34658], error 5.7e-18 */
    double q = 0x1.add2f2f3bc50dp-26;
    q = TX_FMA(q, r, 0x1.28aee50d10a1p-22);
    q = TX_FMA(q, r, 0x1.71def562634e2p-19);
    q = TX_FMA(q, r, 0x1.a019988bd27dep-16);
    q = TX_FMA(q, r, 0x1.a01a013d3f2e8p-13);
    q = TX_FMA(q, r, 0x1.6c16c184b5121p-10);
    q = TX_FMA(q, r, 0x1.1111111124d49p-7);
    q = TX_FMA(q, r, 0x1.5555555550607p-5);
    q = TX_FMA(q, r, 0x1.5555555555503p-3);
    q = TX_FMA(q, r, 0x1.000000000000ap-1);
    return TX_FMA(r * r, q, r);
}
/* the same to about 33 bits, for float32 functions that work in double */
TX_INLINE double tx__exp_poly_mid(double r)
{
    /* exp_mid: [-0.34658, 0.34658], error 8.1e-11 */
    double q = 0x1.98d0bc4c09a67p-13;
    q = TX_FMA(q, r, 0x1.6d92a7baeeb48p-10);
    q = TX_FMA(q, r, 0x1.1116bb46c72e2p-7);
    q = TX_FMA(q, r, 0x1.5554895557102p-5);
    q = TX_FMA(q, r, 0x1.55555189bccd1p-3);
    q = TX_FMA(q, r, 0x1.0000003a1e046p-1);
    return TX_FMA(r * r, q, r);
}

/* ---- exp: p and t with e^x = p 2^n ---- */
TX_INLINE float tx__exp_coref(float x, float *t)
{
    float r = tx__exp_reducef(x, t);
    return 1.0f + tx__exp_polyf(r);
}
TX_INLINE double tx__exp_core(double x, double *t)
{
    double r = tx__exp_reduce(x, t);
    return 1.0 + tx__exp_poly(r);
}
/* comparisons that keep NaN; beyond the limits the result is 0 or inf in any case */
TX_INLINE float tx__exp_clampf(float x)
{
    x = x > 90.0f ? 90.0f : x;
    return x < -105.0f ? -105.0f : x;
}
TX_INLINE double tx__exp_clamp(double x)
{
    x = x > 710.5 ? 710.5 : x;
    return x < -746.0 ? -746.0 : x;
}
TX_INLINE float tx_expf(float x)
{
    float t, p = tx__exp_coref(tx__exp_clampf(x), &t);
    return tx__scalef(p, t);
}
TX_INLINE double tx_exp(double x)
{
    double t, p = tx__exp_core(tx__exp_clamp(x), &t);
    return tx__scale(p, t);
}
TX_INLINE float tx__exp_midf(float x)
{
    float t, p = tx__exp_coref(x, &t);
    return tx__scale_midf(p, t);
}
TX_INLINE double tx__exp_mid(double x)
{
    double t, p = tx__exp_core(x, &t);
    return tx__scale_mid(p, t);
}
#define TX_HAVE_V_expf 1
TX_VBLOCKS_F(tx_vexpf, tx__exp_midf, tx_expf, 0x42ae0000u /* 87 */)
#define TX_HAVE_V_exp 1
TX_VBLOCKS_D(tx_vexp, tx__exp_mid, tx_exp, 0x40862000u /* 708 */)

/* ---- exp2 ---- */
TX_INLINE float tx__exp2_coref(float x, float *t)
{
    *t = x + TX_RINTF;
    float r = x - (*t - TX_RINTF);
    /* exp2_f32: [-0.5, 0.5], error 1.3e-8 */
    float q = 0x1.177502p-13f;
    q = TX_FMAF(q, r, 0x1.5ef47p-10f);
    q = TX_FMAF(q, r, 0x1.3b683p-7f);
    q = TX_FMAF(q, r, 0x1.c6af9ep-5f);
    q = TX_FMAF(q, r, 0x1.ebfb94p-3f);
    q = TX_FMAF(q, r, 0x1.62e43p-1f);
    return TX_FMAF(q, r, 1.0f);
}
TX_INLINE double tx__exp2_core(double x, double *t)
{
    *t = x + TX_RINT;
    double r = x - (*t - TX_RINT);
    /* exp2_f64: [-0.5, 0.5], error 8.1e-18 */
    double q = 0x1.f0ed02e322ba9p-32;
    q = TX_FMA(q, r, 0x1.e63b6e464a6p-28);
    q = TX_FMA(q, r, 0x1.b52081625babep-24);
    q = TX_FMA(q, r, 0x1.62bfb4a573ce6p-20);
    q = TX_FMA(q, r, 0x1.ffcbfe6643b4p-17);
    q = TX_FMA(q, r, 0x1.430913167e442p-13);
    q = TX_FMA(q, r, 0x1.5d87fe78458aep-10);
    q = TX_FMA(q, r, 0x1.3b2ab6fb9dab7p-7);
    q = TX_FMA(q, r, 0x1.c6b08d704a26fp-5);
    q = TX_FMA(q, r, 0x1.ebfbdff82c5b3p-3);
    q = TX_FMA(q, r, 0x1.62e42fefa39efp-1);
    return TX_FMA(q, r, 1.0);
}
TX_INLINE float tx_exp2f(float x)
{
    float t;
    x = x > 129.0f ? 129.0f : x;
    x = x < -151.0f ? -151.0f : x;
    float p = tx__exp2_coref(x, &t);
    return tx__scalef(p, t);
}
TX_INLINE double tx_exp2(double x)
{
    double t;
    x = x > 1025.0 ? 1025.0 : x;
    x = x < -1076.0 ? -1076.0 : x;
    double p = tx__exp2_core(x, &t);
    return tx__scale(p, t);
}
TX_INLINE float tx__exp2_midf(float x)
{
    float t, p = tx__exp2_coref(x, &t);
    return tx__scale_midf(p, t);
}
TX_INLINE double tx__exp2_mid(double x)
{
    double t, p = tx__exp2_core(x, &t);
    return tx__scale_mid(p, t);
}
#define TX_HAVE_V_exp2f 1
TX_VBLOCKS_F(tx_vexp2f, tx__exp2_midf, tx_exp2f, 0x42fa0000u /* 125 */)
#define TX_HAVE_V_exp2 1
TX_VBLOCKS_D(tx_vexp2, tx__exp2_mid, tx_exp2, 0x408fe800u /* 1021 */)

/* ---- sigmoid: with E = e^-|x| it is 1 - E / (1 + E) for x >= 0, else E / (1 + E) ----
 * q = e^r / (1 + 2^n e^r), corrected for the rounding of e^r and of the denominator. */
TX_INLINE float tx__sigmoid_qf(float u, float s)
{
    float e = 1.0f + u, el = (1.0f - e) + u;                     /* e^r = e + el */
    float d = TX_FMAF(s, e, 1.0f), dl = TX_FMAF(s, e, 1.0f - d); /* 1 + 2^n e = d + dl */
    float q = e / d;
    /* (e + el) / (d + dl); a rough 1/d will do for the correction, d is in [1, 2] */
    return TX_FMAF(TX_FMAF(-q, dl, el), TX_FMAF(d, -0.5f, 1.457f), q);
}
TX_INLINE double tx__sigmoid_q(double u, double s)
{
    double e = 1.0 + u, el = (1.0 - e) + u;
    double d = TX_FMA(s, e, 1.0), dl = TX_FMA(s, e, 1.0 - d);
    double q = e / d;
    return TX_FMA(TX_FMA(-q, dl, el), TX_FMA(d, -0.5, 1.457), q);
}
TX_INLINE float tx_sigmoidf(float x)
{
    float t, a = -tx__absf(x);
    float u = tx__exp_polyf(tx__exp_reducef(a < -105.0f ? -105.0f : a, &t));
    float s = tx__pow2f(t < TX_RINTF - 126.0f ? TX_RINTF - 126.0f : t); /* smaller ones no longer matter in d */
    float q = tx__sigmoid_qf(u, s);
    return x < 0.0f ? tx__scalef(q, t) : TX_FMAF(-s, q, 1.0f);
}
TX_INLINE double tx_sigmoid(double x)
{
    double t, a = -tx__abs(x);
    double u = tx__exp_poly(tx__exp_reduce(a < -746.0 ? -746.0 : a, &t));
    double s = tx__pow2(t < TX_RINT - 1022.0 ? TX_RINT - 1022.0 : t);
    double q = tx__sigmoid_q(u, s);
    return x < 0.0 ? tx__scale(q, t) : TX_FMA(-s, q, 1.0);
}
TX_INLINE float tx__sigmoid_midf(float x)
{
    float t, u = tx__exp_polyf(tx__exp_reducef(-tx__absf(x), &t)), s = tx__pow2f(t);
    float q = tx__sigmoid_qf(u, s);
    return x < 0.0f ? s * q : TX_FMAF(-s, q, 1.0f);
}
TX_INLINE double tx__sigmoid_mid(double x)
{
    double t, u = tx__exp_poly(tx__exp_reduce(-tx__abs(x), &t)), s = tx__pow2(t);
    double q = tx__sigmoid_q(u, s);
    return x < 0.0 ? s * q : TX_FMA(-s, q, 1.0);
}
#define TX_HAVE_V_sigmoidf 1
TX_VBLOCKS_F(tx_vsigmoidf, tx__sigmoid_midf, tx_sigmoidf, 0x42ae0000u /* 87 */)
#define TX_HAVE_V_sigmoid 1
TX_VBLOCKS_D(tx_vsigmoid, tx__sigmoid_mid, tx_sigmoid, 0x40862000u /* 708 */)

/* ---- expm1 = 2^n (r + w) + (2^n - 1) ---- */
/* r and w with e^(r + rl) - 1 = r + w, rl the rounding error of r */
TX_INLINE float tx__expm1_partsf(float x, float *t, float *w)
{
    *t = TX_FMAF(x, (float)TX__LOG2E, TX_RINTF);
    float n = *t - TX_RINTF, a = TX_FMAF(n, -TX__LN2F_HI, x), r = TX_FMAF(n, -TX__LN2F_LO, a);
    /* expm1_f32: [-0.34658, 0.34658], error 1.4e-8 */
    float q = 0x1.6ccf48p-10f;
    q = TX_FMAF(q, r, 0x1.122c54p-7f);
    q = TX_FMAF(q, r, 0x1.55553ap-5f);
    q = TX_FMAF(q, r, 0x1.5554aap-3f);
    q = TX_FMAF(q, r, 0x1p-1f);
    *w = TX_FMAF(r * r, q, TX_FMAF(n, -TX__LN2F_LO, a - r));
    return r;
}
TX_INLINE double tx__expm1_parts(double x, double *t, double *w)
{
    *t = TX_FMA(x, TX__LOG2E, TX_RINT);
    double n = *t - TX_RINT, a = TX_FMA(n, -TX__LN2_HI, x), r = TX_FMA(n, -TX__LN2_LO, a);
    /* expm1_f64: [-0.34658, 0.34658], error 5.6e-19 */
    double q = 0x1.1f8a1d8302099p-29;
    q = TX_FMA(q, r, 0x1.af5f05079e04p-26);
    q = TX_FMA(q, r, 0x1.27e4cb166f333p-22);
    q = TX_FMA(q, r, 0x1.71ddf83a88ed9p-19);
    q = TX_FMA(q, r, 0x1.a01a01acfbef1p-16);
    q = TX_FMA(q, r, 0x1.a01a01aff2a3p-13);
    q = TX_FMA(q, r, 0x1.6c16c16c159ccp-10);
    q = TX_FMA(q, r, 0x1.111111110f664p-7);
    q = TX_FMA(q, r, 0x1.5555555555556p-5);
    q = TX_FMA(q, r, 0x1.5555555555559p-3);
    q = TX_FMA(q, r, 0x1p-1);
    *w = TX_FMA(r * r, q, TX_FMA(n, -TX__LN2_LO, a - r));
    return r;
}
TX_INLINE float tx_expm1f(float x)
{
    float t, w, y = x > 89.0f ? 89.0f : x;
    float r = tx__expm1_partsf(y < -20.0f ? -20.0f : y, &t, &w);
    /* by halves of 2^n, so that n = 128 does not overflow early */
    float s = tx__asf((tx__bitsf(t) << 23) + (126u << 23));
    float v = 2.0f * TX_FMAF(s, w, TX_FMAF(s, r, s - 0.5f));
    return x == 0.0f ? x : v;
}
TX_INLINE double tx_expm1(double x)
{
    double t, w, y = x > 709.9 ? 709.9 : x;
    double r = tx__expm1_parts(y < -40.0 ? -40.0 : y, &t, &w);
    double s = tx__asd((tx__bits(t) << 52) + (1022ull << 52));
    double v = 2.0 * TX_FMA(s, w, TX_FMA(s, r, s - 0.5));
    return x == 0.0 ? x : v;
}

/* ---- tanh ---- */
TX_INLINE float tx_tanhf(float x)
{
    float t, a = tx__absf(x), z = a * a;
    /* tanh_f32: [0, 0.33], error 1.6e-9 */
    float q = -0x1.8fb5cap-8f;
    q = TX_FMAF(q, z, 0x1.574306p-6f);
    q = TX_FMAF(q, z, -0x1.b8ed36p-5f);
    q = TX_FMAF(q, z, 0x1.110bcep-3f);
    q = TX_FMAF(q, z, -0x1.555546p-2f);
    float small = TX_FMAF(q * z, a, a);
    float b = a > 9.5f ? 9.5f : a;
    float p = tx__exp_coref(b + b, &t);
    float big = 1.0f - 2.0f / TX_FMAF(p, tx__pow2f(t), 1.0f);
    return tx__signf(a < 0.5625f ? small : big, x);
}
/* E / (E + 2) with E = expm1(2 |x|), corrected for the rounding of E and of the denominator */
TX_INLINE double tx_tanh(double x)
{
    double t, a = tx__abs(x);
    a = a > 20.0 ? 20.0 : a;
    double w, r = tx__expm1_parts(a + a, &t, &w);
    double s = tx__pow2(t), c = s - 1.0;
    double h = TX_FMA(s, r, c), e = TX_FMA(s, w, h);
    double el = TX_FMA(s, w, h - e) + TX_FMA(s, r, c - h);
    double d = e + 2.0, dl = (2.0 - d) + e + el;
    double inv = 1.0 / d;
#if TX_HAVE_FMA
    double q = e * inv, rem = TX_FMA(-q, d, e) + TX_FMA(-q, dl, el);
#else
    double q = e / d, rem = el - q * dl;
#endif
    q = TX_FMA(rem, inv, q);
    return tx__sign(q, x);
}

/* ---- sinh, cosh: with h = e^|x| / 2, h -+ 1 / (4 h) ---- */
TX_INLINE float tx__half_expf(float a)
{
    float t, p = tx__exp_coref(a > 90.0f ? 90.0f : a, &t);
    return tx__scalef(p, t - 1.0f);
}
TX_INLINE double tx__half_exp(double a)
{
    double t, p = tx__exp_core(a > 711.0 ? 711.0 : a, &t);
    return tx__scale(p, t - 1.0);
}
TX_INLINE float tx_sinhf(float x)
{
    float a = tx__absf(x), z = a * a, h = tx__half_expf(a);
    /* sinh_f32: [0, 1], error 3.2e-10 */
    float q = 0x1.75a6f6p-19f;
    q = TX_FMAF(q, z, 0x1.a02156p-13f);
    q = TX_FMAF(q, z, 0x1.1110e2p-7f);
    q = TX_FMAF(q, z, 0x1.555556p-3f);
    float small = TX_FMAF(q * z, a, a);
    return tx__signf(a < 1.0f ? small : h - 0.25f / h, x);
}
TX_INLINE double tx_sinh(double x)
{
    double a = tx__abs(x), z = a * a, h = tx__half_exp(a);
    /* sinh_f64: [0, 1], error 2.6e-19 */
    double q = 0x1.b5bbaa98ac705p-41;
    q = TX_FMA(q, z, 0x1.61171c7a26355p-33);
    q = TX_FMA(q, z, 0x1.ae646f9897c64p-26);
    q = TX_FMA(q, z, 0x1.71de3a3b69debp-19);
    q = TX_FMA(q, z, 0x1.a01a01a036c6dp-13);
    q = TX_FMA(q, z, 0x1.111111111102p-7);
    q = TX_FMA(q, z, 0x1.5555555555556p-3);
    double small = TX_FMA(q * z, a, a);
    return tx__sign(a < 1.0 ? small : h - 0.25 / h, x);
}
TX_INLINE float tx_coshf(float x)
{
    float h = tx__half_expf(tx__absf(x));
    return h + 0.25f / h;
}
TX_INLINE double tx_cosh(double x)
{
    double h = tx__half_exp(tx__abs(x));
    return h + 0.25 / h;
}

#endif
