/* pow, cbrt, hypot, softplus, logaddexp. */
#ifndef TX_VMATH_POW_H
#define TX_VMATH_POW_H

#include "vmath_log.h"

/* ---- pow ---- */
/* What C99 says beyond |x|^y = r for finite positive |x|: integer tells whether y is an integer (as
 * infinities are), odd whether it is an odd one. */
TX_INLINE double tx__pow_special(double x, double y, double r, int integer, int odd)
{
    double a = tx__abs(x);
    int neg = tx__sign(1.0, x) < 0.0;
    r = a == 0.0 ? (y < 0.0 ? TX_INF : 0.0) : r;
    r = a == TX_INF ? (y < 0.0 ? 0.0 : TX_INF) : r;
    r = (neg & (!integer) & (a > 0.0) & (a < TX_INF)) ? TX_NAN : r;
    r = (neg & odd) ? -r : r;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((x == 1.0) | (y == 0.0)) ? 1.0 : r;
}

/* the same in float32 */
TX_INLINE float tx__pow_specialf(float x, float y, float r)
{
    float a = tx__absf(x), b = tx__absf(y), g = 0.5f * b;
    int integer = (b >= 0x1p23f) | ((b + 0x1p23f) - 0x1p23f == b);
    int odd = (b < 0x1p24f) & integer & ((g + 0x1p23f) - 0x1p23f != g);
    int neg = tx__signf(1.0f, x) < 0.0f;
    r = a == 0.0f ? (y < 0.0f ? TX_INFF : 0.0f) : r;
    r = a == TX_INFF ? (y < 0.0f ? 0.0f : TX_INFF) : r;
    r = a == 1.0f ? 1.0f : r;
    r = (neg & (!integer) & (a > 0.0f) & (a < TX_INFF)) ? TX_NANF : r;
    r = (neg & odd) ? -r : r;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((x == 1.0f) | (y == 0.0f)) ? 1.0f : r;
}

TX_INLINE float tx_powf(float x, float y)
{
    uint64_t u = tx__bits((double)tx__absf(x)) + TX__LOG_OFF; /* float32 subnormals are normal here */
    double k = tx__log_k(u), f = tx__log_m(u) - 1.0;
    double s = f / (2.0 + f), z = s * s;
    /* logs_mid: [0, 0.02947], error 9.6e-12 */
    double q = 0x1.e2fe8b6aa93dbp-3;
    q = TX_FMA(q, z, 0x1.2438a3c084cc8p-2);
    q = TX_FMA(q, z, 0x1.999a7b4dde27bp-2);
    q = TX_FMA(q, z, 0x1.555554fd379dfp-1);
    double l = TX_FMA(TX_FMA(q * z, s, s + s), TX__LOG2E, k);
    double v = (double)y * l;
    v = v > 200.0 ? 200.0 : v;
    v = v < -200.0 ? -200.0 : v;
    double t = v + TX_RINT, r = v - (t - TX_RINT);
    /* exp2_mid: [-0.5, 0.5], error 4.7e-11 */
    double p = 0x1.fde5e5b817ecdp-17;
    p = TX_FMA(p, r, 0x1.445c832ccb33p-13);
    p = TX_FMA(p, r, 0x1.5d8a8612f1ba3p-10);
    p = TX_FMA(p, r, 0x1.3b29f39d298e5p-7);
    p = TX_FMA(p, r, 0x1.c6b08ac056567p-5);
    p = TX_FMA(p, r, 0x1.ebfbe0778924bp-3);
    p = TX_FMA(p, r, 0x1.62e42ff0e199p-1);
    return tx__pow_specialf(x, y, (float)tx__scale_mid(TX_FMA(p, r, 1.0), t));
}

/* log in two doubles, relative error about 2^-65, then exp of y times it */
TX_INLINE double tx_pow(double x, double y)
{
    double k, a = tx__abs(x), ay = tx__abs(y);
    uint64_t u = tx__log_split(a, &k);
    double f = tx__log_m(u) - 1.0;
    /* s = f / (2 + f) */
    double den = 2.0 + f, dl = f - (den - 2.0), inv = 1.0 / den;
    double sh = f * inv, sp = sh * den;
    double sl = (((f - sp) - tx__prod_err(sh, den, sp)) - sh * dl) * inv;
    /* b = z (2/3 + z q(z)), z = s^2 */
    double zh = sh * sh, zl = TX_FMA(2.0 * sh, sl, tx__prod_err(sh, sh, zh));
    /* powlog_f64: [0, 0.02947], error 1.5e-22 */
    double q = 0x1.ead1fbac76d64p-4;
    q = TX_FMA(q, zh, 0x1.de3c0dbeb2e2dp-4);
    q = TX_FMA(q, zh, 0x1.112077468fd4bp-3);
    q = TX_FMA(q, zh, 0x1.3b136498c8753p-3);
    q = TX_FMA(q, zh, 0x1.745d1829f295fp-3);
    q = TX_FMA(q, zh, 0x1.c71c71c595924p-3);
    q = TX_FMA(q, zh, 0x1.2492492492f56p-2);
    q = TX_FMA(q, zh, 0x1.9999999999996p-2);
    double ph = zh * q;
    double ah = 0x1.5555555555555p-1 + ph, al = ((0x1.5555555555555p-1 - ah) + ph) + 0x1.5555555555555p-55;
    double bh = zh * ah, bl = tx__prod_err(zh, ah, bh) + TX_FMA(zh, al, zl * ah);
    /* log(1 + f) = 2 s + s b */
    double th = sh * bh, tl = tx__prod_err(sh, bh, th) + TX_FMA(sh, bl, sl * bh);
    double mh = 2.0 * sh + th, ml = ((2.0 * sh - mh) + th) + (2.0 * sl + tl);
    double h = k * TX__LN2_HI, lh = h + mh, ll = ((h - lh) + mh) + TX_FMA(k, TX__LN2_LO, ml);
    double lo = lh;
    lh += ll;
    ll += lo - lh;
    /* y log x; beyond |y| = 2^70 the result is 0, 1 or inf already */
    double yc = y > 0x1p70 ? 0x1p70 : y;
    yc = yc < -0x1p70 ? -0x1p70 : yc;
    double vh = yc * lh, vl = TX_FMA(yc, ll, tx__prod_err(yc, lh, vh));
    vl = tx__abs(vh) < 1000.0 ? vl : 0.0;
    vh = tx__exp_clamp(vh);
    double t = TX_FMA(vh, TX__LOG2E, TX_RINT), n = t - TX_RINT;
    double r1 = TX_FMA(n, -TX__LN2_HI, vh), r = TX_FMA(n, -TX__LN2_LO, r1);
    double rl = TX_FMA(n, -TX__LN2_LO, r1 - r) + vl;
    double e = 1.0 + r, el = (1.0 - e) + r;
    double w = tx__exp_poly(r) - r; /* r^2 q(r) */
    double p = tx__scale(e + (el + TX_FMA(rl, e + w, w)), t);
    int whole = ay >= 0x1p53;
    double g = 0.5 * ay;
    int integer = (ay >= 0x1p52) | ((ay + 0x1p52) - 0x1p52 == ay);
    int odd = (!whole) & integer & ((g + 0x1p52) - 0x1p52 != g);
    return tx__pow_special(x, y, p, integer, odd);
}

/* ---- cbrt: y ~ m^(-1/3), then c = m y^2 and one corrected step ---- */
TX_INLINE float tx_cbrtf(float x)
{
    float a = tx__absf(x);
    int sub = a < 0x1p-126f;
    uint32_t u = tx__bitsf(sub ? a * 0x1p24f : a);
    float k = (float)((int32_t)(u >> 23) - 127 + 150); /* positive: k / 3 is rounded down below */
    float m = tx__asf((u & 0x007fffffu) | 0x3f800000u);
    float t = (k * 0x1.555556p-2f - 0.328125f) + TX_RINTF; /* floor(k / 3) */
    float third = t - TX_RINTF, rem = TX_FMAF(third, -3.0f, k);
    /* cbrt_seed: [1, 2], error 3.8e-5 */
    float y = 0x1.d46f22p-6f;
    y = TX_FMAF(y, m, -0x1.c5180cp-3f);
    y = TX_FMAF(y, m, 0x1.641616p-1f);
    y = TX_FMAF(y, m, -0x1.2c41bep+0f);
    y = TX_FMAF(y, m, 0x1.ab858p+0f);
    y *= rem == 0.0f ? 1.0f : (rem == 1.0f ? 0x1.965feap-1f : 0x1.428a3p-1f); /* 2^(-rem/3) */
    m *= rem == 0.0f ? 1.0f : (rem == 1.0f ? 2.0f : 4.0f);
    float e = TX_FMAF(-(m * y), y * y, 1.0f);
    y = TX_FMAF(y * e, TX_FMAF(e, 0x1.c71c72p-3f, 0x1.555556p-2f), y);
    float y2 = y * y, c = m * y2;
#if TX_HAVE_FMA
    float c2 = c * c;
    float r = TX_FMAF(c2, c, -m) + TX_FMAF(c, c, -c2) * c;
#else
    float r = (float)((double)c * (double)c * (double)c - (double)m);
#endif
    c = TX_FMAF(r * y2, -0x1.555556p-2f, c);
    c *= tx__pow2f(t - (sub ? 58.0f : 50.0f));
    return a > 0.0f && a < TX_INFF ? tx__signf(c, x) : x;
}
TX_INLINE double tx_cbrt(double x)
{
    double a = tx__abs(x);
    int sub = a < 0x1p-1022;
    uint64_t u = tx__bits(sub ? a * 0x1p54 : a);
    double k = tx__asd((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0 - 1200.0);
    double m = tx__asd((u & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    double t = (k * 0x1.5555555555555p-2 - 0.328125) + TX_RINT;
    double third = t - TX_RINT, rem = TX_FMA(third, -3.0, k);
    float mf = (float)m;
    /* cbrt_seed: [1, 2], error 3.8e-5 */
    float s = 0x1.d46f22p-6f;
    s = TX_FMAF(s, mf, -0x1.c5180cp-3f);
    s = TX_FMAF(s, mf, 0x1.641616p-1f);
    s = TX_FMAF(s, mf, -0x1.2c41bep+0f);
    s = TX_FMAF(s, mf, 0x1.ab858p+0f);
    double y = (double)s;
    y *= rem == 0.0 ? 1.0 : (rem == 1.0 ? 0x1.965fea53d6e3dp-1 : 0x1.428a2f98d728bp-1);
    m *= rem == 0.0 ? 1.0 : (rem == 1.0 ? 2.0 : 4.0);
    double e = TX_FMA(-(m * y), y * y, 1.0);
    y = TX_FMA(y * e, TX_FMA(e, 0x1.c71c71c71c71cp-3, 0x1.5555555555555p-2), y);
    double y2 = y * y, c = m * y2, c2 = c * c, c3 = c2 * c;
    double r = (c3 - m) + (tx__prod_err(c2, c, c3) + tx__prod_err(c, c, c2) * c);
    c = TX_FMA(r * y2, -0x1.5555555555555p-2, c);
    c *= tx__pow2(t - (sub ? 418.0 : 400.0));
    return a > 0.0 && a < TX_INF ? tx__sign(c, x) : x;
}

/* ---- hypot ---- */
TX_INLINE float tx_hypotf(float x, float y)
{
    double a = (double)x, b = (double)y;
    float r = (float)sqrt(TX_FMA(a, a, b * b));
    return tx__absf(x) == TX_INFF || tx__absf(y) == TX_INFF ? TX_INFF : r;
}
TX_INLINE double tx_hypot(double x, double y)
{
    double a = tx__abs(x), b = tx__abs(y), mx = a > b ? a : b, mn = a > b ? b : a;
    double fl = mx < 0x1p-1022 ? 0x1p-1022 : mx;
    uint64_t e = tx__bits(fl) & 0x7ff0000000000000u;
    double scale = tx__asd(0x7ff0000000000000u - e), c = mx * scale, d = mn * scale; /* c in [2, 4) */
    double r = 0.5 * sqrt(TX_FMA(c, c, d * d)) * tx__asd(e);
    r = x + y == x + y ? r : a + b;
    return a == TX_INF || b == TX_INF ? TX_INF : r;
}

/* ---- softplus = max(x, 0) + log1p(e^-|x|), the exponential in two parts ---- */
/* log(1 + y + yl) for y in [0, 1] and yl a rounding error of it */
TX_INLINE float tx__log1p_unitf(float y, float yl)
{
    int high = y > 0x1.a8279ap-2f; /* sqrt(2) - 1 */
    float r = tx__log_coref(high ? 1.0f : 0.0f, high ? TX_FMAF(y, 0.5f, -0.5f) : y);
    return TX_FMAF(yl, TX_FMAF(y, -0.5f, 0.97f), r); /* about yl / (1 + y) */
}
TX_INLINE double tx__log1p_unit(double y, double yl)
{
    int high = y > 0x1.a827999fcef32p-2;
    double r = tx__log_core(high ? 1.0 : 0.0, high ? TX_FMA(y, 0.5, -0.5) : y);
    return TX_FMA(yl, TX_FMA(y, -0.5, 0.97), r);
}
/* log(1 + e^a), a <= 0 */
TX_INLINE float tx__log1p_expf(float a)
{
    float t, u = tx__exp_polyf(tx__exp_reducef(a < -105.0f ? -105.0f : a, &t));
    float e = 1.0f + u, el = (1.0f - e) + u;
    float y = tx__scalef(e, t), ts = t < TX_RINTF - 126.0f ? TX_RINTF - 126.0f : t;
    return tx__log1p_unitf(y, el * tx__pow2f(ts));
}
TX_INLINE double tx__log1p_exp(double a)
{
    double t, u = tx__exp_poly(tx__exp_reduce(a < -746.0 ? -746.0 : a, &t));
    double e = 1.0 + u, el = (1.0 - e) + u;
    double y = tx__scale(e, t), ts = t < TX_RINT - 1022.0 ? TX_RINT - 1022.0 : t;
    return tx__log1p_unit(y, el * tx__pow2(ts));
}
TX_INLINE float tx_softplusf(float x)
{
    float r = (x > 0.0f ? x : 0.0f) + tx__log1p_expf(-tx__absf(x));
    return x == x ? r : x;
}
TX_INLINE double tx_softplus(double x)
{
    double r = (x > 0.0 ? x : 0.0) + tx__log1p_exp(-tx__abs(x));
    return x == x ? r : x;
}
TX_INLINE float tx__softplus_midf(float x)
{
    float t, u = tx__exp_polyf(tx__exp_reducef(-tx__absf(x), &t)), s = tx__pow2f(t);
    float e = 1.0f + u, el = (1.0f - e) + u;
    return (x > 0.0f ? x : 0.0f) + tx__log1p_unitf(e * s, el * s);
}
TX_INLINE double tx__softplus_mid(double x)
{
    double t, u = tx__exp_poly(tx__exp_reduce(-tx__abs(x), &t)), s = tx__pow2(t);
    double e = 1.0 + u, el = (1.0 - e) + u;
    return (x > 0.0 ? x : 0.0) + tx__log1p_unit(e * s, el * s);
}
#define TX_HAVE_V_softplusf 1
TX_VBLOCKS_F(tx_vsoftplusf, tx__softplus_midf, tx_softplusf, 0x42ae0000u /* 87 */)
#define TX_HAVE_V_softplus 1
TX_VBLOCKS_D(tx_vsoftplus, tx__softplus_mid, tx_softplus, 0x40862000u /* 708 */)

/* ---- log(e^x + e^y); float32 in double, since the sum may cancel ---- */
TX_INLINE double tx_logaddexp(double x, double y)
{
    double r = (x > y ? x : y) + tx__log1p_exp(-tx__abs(x - y));
    r = x == y ? x + 0x1.62e42fefa39efp-1 : r; /* equal infinities too */
    return x != x || y != y ? x + y : r;
}
TX_INLINE float tx_logaddexpf(float xf, float yf)
{
    double x = (double)xf, y = (double)yf, t, a = -tx__abs(x - y);
    a = a < -200.0 ? -200.0 : a; /* below the smallest float32 */
    double e = 1.0 + tx__exp_poly(tx__exp_reduce(a, &t));
    double r = (x > y ? x : y) + tx__log1p_unit(e * tx__pow2(t), 0.0);
    r = x == y ? x + 0x1.62e42fefa39efp-1 : r;
    return (float)(x != x || y != y ? x + y : r);
}

#endif
