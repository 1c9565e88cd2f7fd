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
TX_INLINE float tx_lgammaf(float x) { return (float)tx_lgamma((double)x); }

/* Recurrence up to x >= 10, then the asymptotic series; reflection for x < 0. */
static inline double tx_digamma(double x)
{
    double r = 0.0;
    if (x == 0.0) return tx__xorsign(-TX_INF, x);
    if (x < 0.0) {
        double i = floor(x), f = x - i;
        if (f == 0.0) return TX_NAN;
        /* psi(x) = psi(1 - x) - pi / tan(pi x) */
        r = f == 0.5 ? 0.0 : -3.14159265358979323846 / tan(3.14159265358979323846 * (f > 0.5 ? f - 1.0 : f));
        x = 1.0 - x;
    }
    while (x < 10.0) {
        r -= 1.0 / x;
        x += 1.0;
    }
    if (x == TX_INF) return x;
    double z = 1.0 / (x * x);
    double p = 8.33333333333333333333E-2;
    p = p * z - 2.10927960927960927961E-2;
    p = p * z + 7.57575757575757575758E-3;
    p = p * z - 4.16666666666666666667E-3;
    p = p * z + 3.96825396825396825397E-3;
    p = p * z - 8.33333333333333333333E-3;
    p = p * z + 8.33333333333333333333E-2;
    return r + log(x) - 0.5 / x - z * p;
}
static inline float tx_digammaf(float x) { return (float)tx_digamma((double)x); }

#endif
