/* Division with remainder, in forms that vectorise.
 *
 * C's fmod is exact but a loop of its own; where the quotient is not huge, one division and an exact
 * x - q * y give the same.  Elements outside that range go through fmod, one by one; which way an
 * element takes depends on its own operands only.
 */
#ifndef TX_DIVMOD_H
#define TX_DIVMOD_H

#include "vmath_base.h"

/* Quotient towards zero and remainder of one pair, and whether they are valid. */
typedef struct { double q; float r; int ok; } tx_qr_f32;
typedef struct { double q, r; int ok; } tx_qr_f64;

/* 24-bit operands in double: below 2^28 the division cannot round up to a whole number (the gap is
 * at least 2^-52 of the quotient), q * y has at most 52 bits, and so the remainder is exact. */
TX_INLINE tx_qr_f32 tx_qr32(float x, float y)
{
    double q = __builtin_trunc((double)x / (double)y);
    double r = (double)x - q * (double)y;
    tx_qr_f32 out;
    out.q = q;
    out.r = tx__signf(tx__absf((float)r), x);
    out.ok = (int)(tx__abs(q) < 0x1p28) & (int)(tx__absf(y) < TX_INFF);
    return out;
}

/* The division may round up to the next whole number; the fused remainder, exact either way, tells. */
TX_INLINE tx_qr_f64 tx_qr64(double x, double y)
{
    tx_qr_f64 out;
#if TX_HAVE_FMA
    double a = tx__abs(x), b = tx__abs(y);
    double q = __builtin_trunc(a / b), r = TX_FMA(-q, b, a);
    int up = r < 0;
    out.r = tx__sign(up ? r + b : r, x);
    out.q = tx__xorsign(tx__xorsign(up ? q - 1 : q, x), y);
    out.ok = (int)(q < 0x1p52) & (int)(b < TX_INF);
#else
    (void)y;
    out.q = out.r = x;
    out.ok = 0;
#endif
    return out;
}

/* fmod has the sign of x, Python's remainder that of y.  Floor division follows Python: quotients
 * keep the sign of x / y when they are 0, and infinite operands give the limits. */
#define TX_DIVISIONS(S, T, QR, FMOD, FLOOR, COPYSIGN)                                                  \
    TX_INLINE T tx_fast_FMOD_##S(T x, T y, int *ok)                                                    \
    {                                                                                                  \
        tx_qr_##S d = QR(x, y);                                                                        \
        *ok = d.ok;                                                                                    \
        return d.r;                                                                                    \
    }                                                                                                  \
    TX_INLINE T tx_fast_REM_##S(T x, T y, int *ok)                                                     \
    {                                                                                                  \
        tx_qr_##S d = QR(x, y);                                                                        \
        T m = ((d.r != 0) & ((d.r < 0) != (y < 0))) ? d.r + y : d.r;                                   \
        *ok = d.ok;                                                                                    \
        return m == 0 ? COPYSIGN((T)0, y) : m;                                                         \
    }                                                                                                  \
    TX_INLINE T tx_fast_FLOORDIV_##S(T x, T y, int *ok)                                                \
    {                                                                                                  \
        tx_qr_##S d = QR(x, y);                                                                        \
        T q = (T)(((d.r != 0) & ((d.r < 0) != (y < 0))) ? d.q - 1 : d.q);                              \
        *ok = d.ok;                                                                                    \
        return q == 0 ? COPYSIGN(COPYSIGN((T)1, x) * COPYSIGN((T)0, y), COPYSIGN((T)1, x) * COPYSIGN((T)1, y)) : q; \
    }                                                                                                  \
    static __attribute__((noinline, unused)) T tx_slow_FMOD_##S(T x, T y) { return FMOD(x, y); }       \
    static __attribute__((noinline, unused)) T tx_slow_REM_##S(T x, T y)                               \
    {                                                                                                  \
        T m = FMOD(x, y);                                                                              \
        if (m != 0 && (y < 0) != (m < 0)) m += y;                                                      \
        return m == 0 ? COPYSIGN((T)0, y) : m;                                                         \
    }                                                                                                  \
    static __attribute__((noinline, unused)) T tx_slow_FLOORDIV_##S(T x, T y)                          \
    {                                                                                                  \
        if (y == 0) return x / y;                                                                      \
        T m = FMOD(x, y), q = (x - m) / y;                                                             \
        if (m != 0 && (y < 0) != (m < 0)) q -= 1;                                                      \
        if (q == 0) return COPYSIGN((T)0, x / y);                                                      \
        T f = FLOOR(q);                                                                                \
        return q - f > (T)0.5 ? f + 1 : f;                                                             \
    }

TX_DIVISIONS(f32, float, tx_qr32, fmodf, floorf, __builtin_copysignf)
TX_DIVISIONS(f64, double, tx_qr64, fmod, floor, __builtin_copysign)
#undef TX_DIVISIONS

/* NAME_S for one pair, and tx_bNAME_S for runs (mask as in tx_ew_fn, but not both operands scalar):
 * whole blocks take the fast way if all of their elements can. */
#define TX_DIVISION(NAME, S, T)                                                                        \
    TX_INLINE T NAME##_##S(T x, T y)                                                                   \
    {                                                                                                  \
        int ok;                                                                                        \
        T r = tx_fast_##NAME##_##S(x, y, &ok);                                                         \
        return ok ? r : tx_slow_##NAME##_##S(x, y);                                                    \
    }                                                                                                  \
    TX_INLINE void tx_b##NAME##_##S##_run(T *d, const T *x, const T *y, ptrdiff_t n, int sx, int sy)   \
    {                                                                                                  \
        const T x0 = *x, y0 = *y;                                                                      \
        T buffer[256];                                                                                 \
        for (ptrdiff_t i = 0; i < n; i += 256) {                                                       \
            ptrdiff_t m = n - i < 256 ? n - i : 256;                                                   \
            int all = 1;                                                                               \
            for (ptrdiff_t j = 0; j < m; j++) {                                                        \
                int ok;                                                                                \
                buffer[j] = tx_fast_##NAME##_##S(sx ? x[i + j] : x0, sy ? y[i + j] : y0, &ok);         \
                all &= ok;                                                                             \
            }                                                                                          \
            if (all) memcpy(d + i, buffer, (size_t)m * sizeof(T));                                     \
            else                                                                                       \
                for (ptrdiff_t j = 0; j < m; j++)                                                      \
                    d[i + j] = NAME##_##S(sx ? x[i + j] : x0, sy ? y[i + j] : y0);                     \
        }                                                                                              \
    }                                                                                                  \
    static __attribute__((unused)) void tx_b##NAME##_##S(T *d, const void *const *src, ptrdiff_t n, unsigned mask) \
    {                                                                                                  \
        if (n <= 0) return;                                                                            \
        if (mask == 0) tx_b##NAME##_##S##_run(d, src[0], src[1], n, 1, 1);                             \
        else if (mask == 1) tx_b##NAME##_##S##_run(d, src[0], src[1], n, 0, 1);                        \
        else tx_b##NAME##_##S##_run(d, src[0], src[1], n, 1, 0);                                       \
    }

TX_DIVISION(FMOD, f32, float)
TX_DIVISION(REM, f32, float)
TX_DIVISION(FLOORDIV, f32, float)
TX_DIVISION(FMOD, f64, double)
TX_DIVISION(REM, f64, double)
TX_DIVISION(FLOORDIV, f64, double)
#undef TX_DIVISION

#define TX_HAVE_B_FMOD_f32 1
#define TX_HAVE_B_REM_f32 1
#define TX_HAVE_B_FLOORDIV_f32 1
#define TX_HAVE_B_FMOD_f64 1
#define TX_HAVE_B_REM_f64 1
#define TX_HAVE_B_FLOORDIV_f64 1

/* x / y towards zero for y != 0, with y == -1 left to the caller.  A double holds a 32-bit quotient and a
 * float a 16-bit one exactly enough that truncation is right, and these divisions come in vectors. */
#define TX_QUOTIENT(S, T, R) \
    TX_INLINE T tx_quotient_##S(T x, T y) { return (T)(int32_t)((R)x / (R)y); }
TX_QUOTIENT(i8, int8_t, float)
TX_QUOTIENT(u8, uint8_t, float)
TX_QUOTIENT(b8, uint8_t, float)
TX_QUOTIENT(i16, int16_t, float)
TX_QUOTIENT(u16, uint16_t, float)
TX_QUOTIENT(i32, int32_t, double)
#undef TX_QUOTIENT
TX_INLINE uint32_t tx_quotient_u32(uint32_t x, uint32_t y) { return x / y; }
TX_INLINE int64_t tx_quotient_i64(int64_t x, int64_t y) { return x / y; }
TX_INLINE uint64_t tx_quotient_u64(uint64_t x, uint64_t y) { return x / y; }

#endif
