/* log and its family: log, log2, log10, log1p, asinh, acosh, atanh. */
#ifndef TX_VMATH_LOG_H
#define TX_VMATH_LOG_H

#include "vmath_exp.h"

TX_INLINE float tx__log_posf(float x, float k0)
{
    /* x = 2^k m, m in [sqrt(1/2), sqrt(2)) */
    uint32_t u = tx__bitsf(x) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)((int32_t)(u >> 23) - 127) + k0;
    float f = tx__asf((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
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
TX_INLINE float tx__log_specialf(float x, float r)
{
    r = x > 0.0f ? r : (x == 0.0f ? -TX_INFF : TX_NANF);
    return x < TX_INFF ? r : x; /* +inf and NaN return themselves */
}
TX_INLINE float tx_logf(float x)
{
    int sub = x < 0x1p-126f;
    float y = sub ? x * 0x1p24f : x;
    return tx__log_specialf(x, tx__log_posf(y, sub ? -24.0f : 0.0f));
}

TX_INLINE double tx__log_pos(double x, double k0)
{
    uint64_t u = tx__bits(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = tx__asd((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0) + k0;
    double f = tx__asd((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    double s = f / (2.0 + f), z = s * s;
    double q = 0x1.2f042f405fa6ep-3;
    q = TX_FMA(q, z, 0x1.39a1de45938b5p-3);
    q = TX_FMA(q, z, 0x1.74663d494db1ap-3);
    q = TX_FMA(q, z, 0x1.c71c5212d9461p-3);
    q = TX_FMA(q, z, 0x1.24924941e2b39p-2);
    q = TX_FMA(q, z, 0x1.999999997ff0bp-2);
    q = TX_FMA(q, z, 0x1.5555555555592p-1);
    double h = 0.5 * f * f;
    double w = TX_FMA(s, TX_FMA(q, z, h), k * TX__LN2_LO);
    return TX_FMA(k, TX__LN2_HI, f - (h - w));
}
TX_INLINE double tx__log_special(double x, double r)
{
    r = x > 0.0 ? r : (x == 0.0 ? -TX_INF : TX_NAN);
    return x < TX_INF ? r : x;
}
TX_INLINE double tx_log(double x)
{
    int sub = x < 0x1p-1022;
    double y = sub ? x * 0x1p54 : x;
    return tx__log_special(x, tx__log_pos(y, sub ? -54.0 : 0.0));
}

TX_INLINE float tx_log2f(float x) { return log2f(x); }
TX_INLINE double tx_log2(double x) { return log2(x); }
TX_INLINE float tx_log10f(float x) { return log10f(x); }
TX_INLINE double tx_log10(double x) { return log10(x); }
TX_INLINE float tx_log1pf(float x) { return log1pf(x); }
TX_INLINE double tx_log1p(double x) { return log1p(x); }
TX_INLINE float tx_asinhf(float x) { return asinhf(x); }
TX_INLINE double tx_asinh(double x) { return asinh(x); }
TX_INLINE float tx_acoshf(float x) { return acoshf(x); }
TX_INLINE double tx_acosh(double x) { return acosh(x); }
TX_INLINE float tx_atanhf(float x) { return atanhf(x); }
TX_INLINE double tx_atanh(double x) { return atanh(x); }

#endif
