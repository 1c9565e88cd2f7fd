/* sin, cos, tan and their inverses. */
#ifndef TX_VMATH_TRIG_H
#define TX_VMATH_TRIG_H

#include "vmath_base.h"

/* x = n pi/2 + r, |r| <= pi/4 and a little; t = TX_RINT + n.  The parts of pi/2 make the first
 * step exact: 24-bit parts by the FMA, else 33-bit parts times |n| < 2^20. */
#define TX__PIO2F_1 0x1.921fb6p+0f
#define TX__PIO2F_2 -0x1.777a5cp-25f
#define TX__PIO2F_3 -0x1.ee59dap-50f
#define TX__PIO2_1 0x1.921fb544p+0
#define TX__PIO2_2 0x1.0b4611a6p-34
#define TX__PIO2_3 0x1.3198a2e037073p-69
#define TX__TRIG_MAXF 0x47c35000u /* |x| < 1e5 */
#define TX__TRIG_MAX 0x412e8480u  /* |x| < 1e6, by the high word */

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
    return TX_FMA(n, -TX__PIO2_3, TX_FMA(n, -TX__PIO2_2, TX_FMA(n, -TX__PIO2_1, x)));
}

/* sin and cos on [-pi/4, pi/4], z = r^2 */
TX_INLINE float tx__sin_polyf(float r, float z)
{
    float q = -0x1.995176p-13f;
    q = TX_FMAF(q, z, 0x1.110774p-7f);
    q = TX_FMAF(q, z, -0x1.555546p-3f);
    return TX_FMAF(q, z * r, r);
}
TX_INLINE float tx__cos_polyf(float z)
{
    float q = 0x1.99e0ecp-16f;
    q = TX_FMAF(q, z, -0x1.6c0c1ap-10f);
    q = TX_FMAF(q, z, 0x1.55554ap-5f);
    q = TX_FMAF(q, z, -0.5f);
    return TX_FMAF(q, z, 1.0f);
}
TX_INLINE double tx__sin_poly(double r, double z)
{
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

/* Elements too large for the reduction go to libm one by one, after the block. */
#define TX__TRIG(fn, mid)                                                                                 TX_INLINE float tx_##fn##f(float x)                                                                   {                                                                                                        return tx__trig_largef(x) ? (float)fn((double)x) : mid##f(x);                                     }                                                                                                    TX_INLINE double tx_##fn(double x) { return tx__trig_large(x) ? fn(x) : mid(x); }                      TX_VFUNC void tx_v##fn##f(float *dst, const float *src, ptrdiff_t n)                                  {                                                                                                        for (ptrdiff_t b = 0; b < n; b += TX_VBLOCK) {                                                           const ptrdiff_t m = n - b < TX_VBLOCK ? n - b : TX_VBLOCK;                                           const float *s = src + b;                                                                            float *d = dst + b, keep[TX_VBLOCK];                                                                 const int large = tx__maxabsf(s, m) >= TX__TRIG_MAXF;                                                if (large) s = (const float *)memcpy(keep, s, (size_t)m * sizeof *s);                                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = mid##f(s[i]);                                       if (large)                                                                                               for (ptrdiff_t i = 0; i < m; i++)                                                                        if (tx__trig_largef(keep[i])) d[i] = (float)fn((double)keep[i]);                          }                                                                                                }                                                                                                    TX_VFUNC void tx_v##fn(double *dst, const double *src, ptrdiff_t n)                                   {                                                                                                        for (ptrdiff_t b = 0; b < n; b += TX_VBLOCK) {                                                           const ptrdiff_t m = n - b < TX_VBLOCK ? n - b : TX_VBLOCK;                                           const double *s = src + b;                                                                           double *d = dst + b, keep[TX_VBLOCK];                                                                const int large = tx__maxabs(s, m) >= TX__TRIG_MAX;                                                  if (large) s = (const double *)memcpy(keep, s, (size_t)m * sizeof *s);                               TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = mid(s[i]);                                          if (large)                                                                                               for (ptrdiff_t i = 0; i < m; i++)                                                                        if (tx__trig_large(keep[i])) d[i] = fn(keep[i]);                                          }                                                                                                }
#define TX_HAVE_V_sinf 1
#define TX_HAVE_V_sin 1
TX__TRIG(sin, tx__sin_mid)
#define TX_HAVE_V_cosf 1
#define TX_HAVE_V_cos 1
TX__TRIG(cos, tx__cos_mid)

TX_INLINE float tx_tanf(float x) { return tanf(x); }
TX_INLINE double tx_tan(double x) { return tan(x); }
TX_INLINE float tx_asinf(float x) { return asinf(x); }
TX_INLINE double tx_asin(double x) { return asin(x); }
TX_INLINE float tx_acosf(float x) { return acosf(x); }
TX_INLINE double tx_acos(double x) { return acos(x); }
TX_INLINE float tx_atanf(float x) { return atanf(x); }
TX_INLINE double tx_atan(double x) { return atan(x); }
TX_INLINE float tx_atan2f(float y, float x) { return atan2f(y, x); }
TX_INLINE double tx_atan2(double y, double x) { return atan2(y, x); }

#endif
