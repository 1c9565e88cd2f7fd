/* lgamma, digamma. */
#ifndef TX_VMATH_GAMMA_H
#define TX_VMATH_GAMMA_H

#include "vmath_log.h"

#if defined(__APPLE__) || defined(__GLIBC__)
/* the re-entrant form: lgamma writes the global signgam, a data race between threads */
extern double lgamma_r(double, int *);
TX_INLINE double tx_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}
#else
TX_INLINE double tx_lgamma(double x) { return lgamma(x); }
#endif

/* ---- lgamma in float32, x > 0, in double: (g - 1)(g - 2) q(g) with g in [1, 2] and one step of the
 * recurrence, or Stirling's series from 3 on ---- */
TX_INLINE float tx__lgamma_posf(float xf)
{
    double x = (double)xf;
    int far = x >= 3.0, low = x < 1.0, high = x > 2.0;
    double g = low ? x : (high ? x - 2.0 : x - 1.0), c = g - 0.5; /* the above g, less 1 */
    /* lgamma_near: [-0.5, 0.5], error 9.5e-11 */
    double p = -0x1.3ed26ec61e0adp-11;
    p = TX_FMA(p, c, 0x1.f6e193f56dc75p-11);
    p = TX_FMA(p, c, -0x1.224b3e4c88f1cp-10);
    p = TX_FMA(p, c, 0x1.e4a547f414486p-10);
    p = TX_FMA(p, c, -0x1.a62d5bc318f41p-9);
    p = TX_FMA(p, c, 0x1.6596c611d6a1fp-8);
    p = TX_FMA(p, c, -0x1.34d6479012fap-7);
    p = TX_FMA(p, c, 0x1.1331a76eb3f7dp-6);
    p = TX_FMA(p, c, -0x1.007ab39bdc5b2p-5);
    p = TX_FMA(p, c, 0x1.01af6615f9575p-4);
    p = TX_FMA(p, c, -0x1.2aed0595380d6p-3);
    p = TX_FMA(p, c, 0x1.eeb95b0885ebap-2);
    double la = far | low ? x : (high ? x - 1.0 : 1.0);
    uint64_t u = tx__bits(la) + TX__LOG_OFF;
    double l = tx__log_core_mid(tx__log_k(u), tx__log_m(u) - 1.0);
    double near = TX_FMA(g * (g - 1.0), p, low ? -l : l);
    double inv = 1.0 / x, z = inv * inv;
    /* lgamma_far: [0, 0.1112], error 1.7e-12 */
    double q = -0x1.b32a1fe323c5bp-11;
    q = TX_FMA(q, z, 0x1.8222ba7a4a4d5p-11);
    q = TX_FMA(q, z, -0x1.3548984eb26b4p-11);
    q = TX_FMA(q, z, 0x1.a008d78183211p-11);
    q = TX_FMA(q, z, -0x1.6c16b79435aep-9);
    q = TX_FMA(q, z, 0x1.5555555537e1dp-4);
    double r = far ? TX_FMA(x - 0.5, l, -x) + TX_FMA(q, inv, 0x1.d67f1c864beb5p-1) : near;
    r = x == 0.0 ? TX_INF : r;
    return xf < TX_INFF ? (float)r : xf;
}
TX_INLINE int tx__lgamma_raref(float x) { return x < 0.0f; }
TX_INLINE float tx_lgammaf(float x) { return x < 0.0f ? (float)tx_lgamma((double)x) : tx__lgamma_posf(x); }
#define TX_HAVE_V_lgammaf 1
TX_VFIX(tx_vlgammaf, float, tx__lgamma_raref, tx__lgamma_posf, tx_lgammaf)

/* ---- digamma, x > 0: eight steps of the recurrence below 8, the sum of reciprocals as one quotient,
 * then the asymptotic series ---- */
TX_INLINE double tx__digamma_pos(double x)
{
    int low = x < 8.0;
    double y = low ? x + 8.0 : x, s = low ? x : 1.0;
    double w = s * (s + 7.0);
    double a = w * (w + 6.0), b = (w + 10.0) * (w + 12.0);
    double sum = (2.0 * s + 7.0) * (TX_FMA(w + w + 6.0, b, (w + w + 22.0) * a) / (a * b));
    uint64_t u = tx__bits(y) + TX__LOG_OFF;
    double l = tx__log_core(tx__log_k(u), tx__log_m(u) - 1.0);
    double inv = 1.0 / y, z = inv * inv;
    /* digamma_far: [0, 0.02], error 2.2e-19 */
    double q = 0x1.d2b457ced8f6p-5;
    q = TX_FMA(q, z, -0x1.4d12ae065ef87p-6);
    q = TX_FMA(q, z, 0x1.efb1e675ca1a2p-8);
    q = TX_FMA(q, z, -0x1.110f470af63e3p-8);
    q = TX_FMA(q, z, 0x1.04103ed40eea5p-8);
    q = TX_FMA(q, z, -0x1.111111106e03dp-7);
    q = TX_FMA(q, z, 0x1.5555555555515p-4);
    double r = l - TX_FMA(q, z, 0.5 * inv) - (low ? sum : 0.0);
    return x < TX_INF ? r : x;
}
TX_INLINE double tx_digamma(double x)
{
    if (!(x <= 0.0)) return tx__digamma_pos(x);
    if (x == 0.0) return -tx__sign(TX_INF, x);
    /* psi(x) = psi(1 - x) - pi / tan(pi x) */
    double f = x - rint(x);
    if (f == 0.0 || x == -TX_INF) return TX_NAN;
    double c = tx__abs(f) == 0.5 ? 0.0 : 3.14159265358979323846 / tan(3.14159265358979323846 * f);
    return tx__digamma_pos(1.0 - x) - c;
}
TX_INLINE float tx_digammaf(float x) { return (float)tx_digamma((double)x); }
TX_INLINE float tx__digamma_posf(float x) { return (float)tx__digamma_pos((double)x); }
TX_INLINE int tx__digamma_raref(float x) { return x <= 0.0f; }
TX_INLINE int tx__digamma_rare(double x) { return x <= 0.0; }
#define TX_HAVE_V_digammaf 1
#define TX_HAVE_V_digamma 1
TX_VFIX(tx_vdigammaf, float, tx__digamma_raref, tx__digamma_posf, tx_digammaf)
TX_VFIX(tx_vdigamma, double, tx__digamma_rare, tx__digamma_pos, tx_digamma)

#endif
