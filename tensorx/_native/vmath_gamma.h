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

/* ---- digamma, x > 0: (g - root) q(g) with g in [1, 2] and one step of the recurrence, or the
 * asymptotic series from 3 on ---- */
TX_INLINE double tx__digamma_pos(double x)
{
    int far = x >= 3.0, low = x < 1.0, high = x > 2.0;
    double g = low ? x : (high ? x - 2.0 : x - 1.0), c = g - 0.5; /* the above g, less 1 */
    /* digamma_near: [-0.5, 0.5], error 4.9e-17 */
    double p = 0x1.fc38548b931e7p-14;
    p = TX_FMA(p, c, -0x1.75fdd069be292p-13);
    p = TX_FMA(p, c, 0x1.875501a874b5ap-14);
    p = TX_FMA(p, c, -0x1.2f5df73a9989p-13);
    p = TX_FMA(p, c, 0x1.55b5094b9a922p-12);
    p = TX_FMA(p, c, -0x1.fda4e91b47031p-12);
    p = TX_FMA(p, c, 0x1.69e84150e841cp-11);
    p = TX_FMA(p, c, -0x1.0fb1c6362dba1p-10);
    p = TX_FMA(p, c, 0x1.99dceba51b35cp-10);
    p = TX_FMA(p, c, -0x1.336dea454a499p-9);
    p = TX_FMA(p, c, 0x1.cd1f782860306p-9);
    p = TX_FMA(p, c, -0x1.5a06a32a7a86cp-8);
    p = TX_FMA(p, c, 0x1.03c0b0f765641p-7);
    p = TX_FMA(p, c, -0x1.8635640e6ab66p-7);
    p = TX_FMA(p, c, 0x1.256471622b85ep-6);
    p = TX_FMA(p, c, -0x1.b9f8b11b63d1dp-6);
    p = TX_FMA(p, c, 0x1.4de9aa17d326ap-5);
    p = TX_FMA(p, c, -0x1.fb44202a24f6ap-5);
    p = TX_FMA(p, c, 0x1.8512e590384d7p-4);
    p = TX_FMA(p, c, -0x1.2feeeb98a78d3p-3);
    p = TX_FMA(p, c, 0x1.eca189b8e6f76p-3);
    p = TX_FMA(p, c, -0x1.b1cb63005ee98p-2);
    p = TX_FMA(p, c, 0x1.e6f0cbb873616p-1);
    double inv = 1.0 / (high && !far ? x - 1.0 : x), z = inv * inv;
    /* root - 1 in two parts */
    double near = ((g - 0x1.d8b618d5af8fcp-2) - 0x1.b86a722197829p-54) * p;
    near += low ? -inv : (high ? inv : 0.0);
    uint64_t u = tx__bits(x) + TX__LOG_OFF;
    double l = tx__log_core(tx__log_k(u), tx__log_m(u) - 1.0);
    /* digamma_far: [0, 0.1112], error 1.8e-19 */
    double q = 0x1.62e7a7967a661p+6;
    q = TX_FMA(q, z, -0x1.3f0412a47c7c2p+6);
    q = TX_FMA(q, z, 0x1.1062d5a4be644p+5);
    q = TX_FMA(q, z, -0x1.2ebd80d446a66p+3);
    q = TX_FMA(q, z, 0x1.03dbec3aa3cb3p+1);
    q = TX_FMA(q, z, -0x1.92e0bc938a967p-2);
    q = TX_FMA(q, z, 0x1.4dbf4e4d658cp-4);
    q = TX_FMA(q, z, -0x1.58c2b71ca6af8p-6);
    q = TX_FMA(q, z, 0x1.f06c299fe39fp-8);
    q = TX_FMA(q, z, -0x1.1110de659614fp-8);
    q = TX_FMA(q, z, 0x1.041040a3eea68p-8);
    q = TX_FMA(q, z, -0x1.11111110e2c2dp-7);
    q = TX_FMA(q, z, 0x1.5555555555536p-4);
    double r = far ? l - TX_FMA(q, z, 0.5 * inv) : near;
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
