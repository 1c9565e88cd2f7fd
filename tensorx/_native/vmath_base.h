/* Elementary functions as plain C that gcc and clang vectorise: common tools.
 *
 * Every function is branch-free where it matters (selects, magic-number rounding, bit casts through
 * memcpy), so a simple loop over it becomes SIMD code, and the scalar tail of that loop gives the
 * same bits.  Fused multiply-adds are written out with TX_FMA: with contraction off the AVX2,
 * AVX-512 and arm64 builds compute the same thing; only a build without FMA differs in last bits.
 *
 * Names: tx_exp is float64, tx_expf is float32.  Where a block version exists (it may take a short
 * cut when no element of a block needs the rare ranges, with the same bits) TX_HAVE_V_exp /
 * TX_HAVE_V_expf is defined and tx_vexp / tx_vexpf(dst, src, n) can be called; dst may equal src.
 */
#ifndef TX_VMATH_BASE_H
#define TX_VMATH_BASE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
#define TX_HAVE_FMA 1
#define TX_FMA(a, b, c) __builtin_fma((a), (b), (c))
#define TX_FMAF(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define TX_HAVE_FMA 0
#define TX_FMA(a, b, c) ((a) * (b) + (c))
#define TX_FMAF(a, b, c) ((a) * (b) + (c))
#endif

/* Loops whose iterations are independent even where dst == src. */
#define TX_SIMD _Pragma("omp simd")

#define TX_INLINE static inline __attribute__((always_inline))
#define TX_VFUNC static __attribute__((unused))

/* Elements per block of the block versions. */
#define TX_VBLOCK 512

TX_INLINE uint32_t tx__bitsf(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
TX_INLINE float tx__asf(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }
TX_INLINE uint64_t tx__bits(double x) { uint64_t u; memcpy(&u, &x, sizeof u); return u; }
TX_INLINE double tx__asd(uint64_t u) { double x; memcpy(&x, &u, sizeof x); return x; }

TX_INLINE float tx__absf(float x) { return tx__asf(tx__bitsf(x) & 0x7fffffffu); }
TX_INLINE double tx__abs(double x) { return tx__asd(tx__bits(x) & 0x7fffffffffffffffu); }
/* magnitude of a (a >= 0) with the sign of s */
TX_INLINE float tx__signf(float a, float s) { return tx__asf(tx__bitsf(a) | (tx__bitsf(s) & 0x80000000u)); }
TX_INLINE double tx__sign(double a, double s) { return tx__asd(tx__bits(a) | (tx__bits(s) & 0x8000000000000000u)); }
/* a with its sign flipped where s is negative */
TX_INLINE float tx__xorsignf(float a, float s) { return tx__asf(tx__bitsf(a) ^ (tx__bitsf(s) & 0x80000000u)); }
TX_INLINE double tx__xorsign(double a, double s) { return tx__asd(tx__bits(a) ^ (tx__bits(s) & 0x8000000000000000u)); }

/* x + TX_RINT rounds x to an integer (|x| < 2^22 or 2^51) that sits in the low bits of the sum. */
#define TX_RINTF 0x1.8p23f
#define TX_RINT 0x1.8p52

#define TX_INFF __builtin_inff()
#define TX_INF __builtin_inf()
#define TX_NANF __builtin_nanf("")
#define TX_NAN __builtin_nan("")

/* 2^n for n = bits of (TX_RINT + n): one exponent field, |n| within the normal range. */
TX_INLINE float tx__pow2f(float t) { return tx__asf((tx__bitsf(t) << 23) + (127u << 23)); }
TX_INLINE double tx__pow2(double t) { return tx__asd((tx__bits(t) << 52) + (1023ull << 52)); }

/* a * b - p for p = a * b rounded: the rounding error, exactly */
TX_INLINE double tx__prod_err(double a, double b, double p)
{
#if TX_HAVE_FMA
    return TX_FMA(a, b, -p);
#else
    double ta = a * 134217729.0, tb = b * 134217729.0; /* 2^27 + 1; |a|, |b| < 2^990 */
    double ah = ta - (ta - a), bh = tb - (tb - b), al = a - ah, bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
}

/* p * 2^n, rounded once, over the whole range including subnormal results and overflow.
 * t = TX_RINT + n, |n| < 2^8 (2^11). */
TX_INLINE float tx__scalef(float p, float t)
{
    uint32_t u = (tx__bitsf(t) + 256u) & 511u, h = u >> 1;
    return p * tx__asf((h - 1u) << 23) * tx__asf((u - h - 1u) << 23);
}
TX_INLINE double tx__scale(double p, double t)
{
    uint64_t u = (tx__bits(t) + 2048u) & 4095u, h = u >> 1;
    return p * tx__asd((h - 1u) << 52) * tx__asd((u - h - 1u) << 52);
}

/* The same where both p and the result are normal. */
TX_INLINE float tx__scale_midf(float p, float t) { return tx__asf(tx__bitsf(p) + (tx__bitsf(t) << 23)); }
TX_INLINE double tx__scale_mid(double p, double t) { return tx__asd(tx__bits(p) + (tx__bits(t) << 52)); }

/* Block tests.  Four streams per iteration: the loop is bound by its overhead and by one chain otherwise.
 * TX__FOLD(m, expr of i) over i = 0 .. n - 1. */
#define TX__FOLD(T, n, m, op)                                                   \
    {                                                                           \
        T m0 = 0, m1 = 0, m2 = 0, m3 = 0;                                       \
        const ptrdiff_t h = (n) / 4;                                            \
        for (ptrdiff_t i = 0; i < h; i++) {                                     \
            m0 = op(m0, i);                                                     \
            m1 = op(m1, i + h);                                                 \
            m2 = op(m2, i + 2 * h);                                             \
            m3 = op(m3, i + 3 * h);                                             \
        }                                                                       \
        for (ptrdiff_t i = 4 * h; i < (n); i++) m0 = op(m0, i);                 \
        m0 = m0 > m1 ? m0 : m1;                                                 \
        m2 = m2 > m3 ? m2 : m3;                                                 \
        m = m0 > m2 ? m0 : m2;                                                  \
    }

/* Whether all |x| < limit, given by its bits; NaN counts as large. */
TX_INLINE int tx__all_belowf(const float *x, ptrdiff_t n, uint32_t limit)
{
    uint32_t m;
#define TX__OP(m, i) ((tx__bitsf(x[i]) & 0x7fffffffu) > (m) ? tx__bitsf(x[i]) & 0x7fffffffu : (m))
    TX__FOLD(uint32_t, n, m, TX__OP)
#undef TX__OP
    return m < limit;
}
/* AVX2 has no 64-bit integer maximum: a sum that reaches the top bit tells. */
TX_INLINE int tx__all_below(const double *x, ptrdiff_t n, uint64_t limit)
{
    uint64_t m;
    const uint64_t add = 0x8000000000000000u - limit;
#define TX__OP(m, i) ((m) | ((tx__bits(x[i]) & 0x7fffffffffffffffu) + add))
    TX__FOLD(uint64_t, n, m, TX__OP)
#undef TX__OP
    return (int)(~m >> 63);
}

/* dst[i] = fast(src[i]) over blocks whose largest |x| is below limit, else slow(src[i]).  Both must
 * give the same bits below the limit. */
#define TX_VBLOCKS_F(name, fast, slow, limit)                                       \
    TX_VFUNC void name(float *dst, const float *src, ptrdiff_t n)                    \
    {                                                                                \
        for (ptrdiff_t b = 0; b < n; b += TX_VBLOCK) {                               \
            const ptrdiff_t m = n - b < TX_VBLOCK ? n - b : TX_VBLOCK;               \
            const float *s = src + b;                                                \
            float *d = dst + b;                                                      \
            if (tx__all_belowf(s, m, limit)) {                                       \
                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = fast(s[i]);         \
            } else {                                                                 \
                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = slow(s[i]);         \
            }                                                                        \
        }                                                                            \
    }
#define TX_VBLOCKS_D(name, fast, slow, limit)                                       \
    TX_VFUNC void name(double *dst, const double *src, ptrdiff_t n)                  \
    {                                                                                \
        for (ptrdiff_t b = 0; b < n; b += TX_VBLOCK) {                               \
            const ptrdiff_t m = n - b < TX_VBLOCK ? n - b : TX_VBLOCK;               \
            const double *s = src + b;                                               \
            double *d = dst + b;                                                     \
            if (tx__all_below(s, m, (uint64_t)(limit) << 32)) {                      \
                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = fast(s[i]);         \
            } else {                                                                 \
                TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = slow(s[i]);         \
            }                                                                        \
        }                                                                            \
    }

/* dst[i] = fast(src[i]), but slow(src[i]), element by element, where rare(src[i]) (in a block that has
 * any such element; src is kept since dst may be the same memory). */
#define TX_VFIX(name, T, rare, fast, slow)                                          \
    TX_VFUNC void name(T *dst, const T *src, ptrdiff_t n)                            \
    {                                                                                \
        for (ptrdiff_t b = 0; b < n; b += TX_VBLOCK) {                               \
            const ptrdiff_t m = n - b < TX_VBLOCK ? n - b : TX_VBLOCK;               \
            const T *s = src + b;                                                    \
            T *d = dst + b, keep[TX_VBLOCK];                                         \
            int any = 0;                                                             \
            _Pragma("omp simd reduction(|:any)")                                     \
            for (ptrdiff_t i = 0; i < m; i++) any |= rare(s[i]);                     \
            if (any) s = (const T *)memcpy(keep, s, (size_t)m * sizeof(T));          \
            TX_SIMD for (ptrdiff_t i = 0; i < m; i++) d[i] = fast(s[i]);             \
            if (any)                                                                 \
                for (ptrdiff_t i = 0; i < m; i++)                                    \
                    if (rare(s[i])) d[i] = slow(s[i]);                               \
        }                                                                            \
    }

#endif
