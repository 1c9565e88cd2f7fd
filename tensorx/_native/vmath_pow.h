/* pow, cbrt, hypot, logaddexp, softplus. */
#ifndef TX_VMATH_POW_H
#define TX_VMATH_POW_H

#include "vmath_log.h"

TX_INLINE float tx_powf(float x, float y) { return powf(x, y); }
TX_INLINE double tx_pow(double x, double y) { return pow(x, y); }
TX_INLINE float tx_cbrtf(float x) { return (float)cbrt((double)x); }
TX_INLINE double tx_cbrt(double x) { return cbrt(x); }
TX_INLINE float tx_hypotf(float x, float y) { return hypotf(x, y); }
TX_INLINE double tx_hypot(double x, double y) { return hypot(x, y); }

/* log(e^x + e^y) */
TX_INLINE double tx_logaddexp(double x, double y)
{
    double m = x > y ? x : y, d = -tx__abs(x - y);
    double r = m + tx_log1p(tx_exp(d));
    return x == y ? x + 0.69314718055994530942 : (x != x || y != y ? x + y : r);
}
TX_INLINE float tx_logaddexpf(float x, float y) { return (float)tx_logaddexp((double)x, (double)y); }
/* log(1 + e^x) */
TX_INLINE double tx_softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + (x != x ? x : tx_log1p(tx_exp(-tx__abs(x))));
}
TX_INLINE float tx_softplusf(float x) { return (float)tx_softplus((double)x); }

#endif
