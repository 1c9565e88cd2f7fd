/* The largest and the smallest of a run of floats. */
#ifndef TX_EXTREME_H
#define TX_EXTREME_H

#include <math.h>

#include "lanes.h"

/* In explicit lanes, since the compiler may not reorder comparisons that NaN can
 * take part in.  NaN is passed over; *nan tells whether there was one.  The last
 * lanes may read elements a second time. */
#define TXS_FLOAT(OP, BETTER, T, I, LANES, IDENTITY)               \
    TXL_INLINE T txs_##OP##_##T(const T *p, ptrdiff_t n, int *nan) \
    {                                                              \
        T best = IDENTITY;                                         \
        I bad = 0;                                                 \
        if (n >= 16) {                                             \
            T m[LANES];                                            \
            I b[LANES];                                            \
            ptrdiff_t i = 0;                                       \
            for (int k = 0; k < LANES; k++) {                      \
                m[k] = IDENTITY;                                   \
                b[k] = 0;                                          \
            }                                                      \
            for (; i + LANES <= n; i += LANES) {                   \
                TXL_SIMD                                           \
                for (int k = 0; k < LANES; k++) {                  \
                    T x = p[i + k];                                \
                    m[k] = x BETTER m[k] ? x : m[k];               \
                    b[k] |= x != x;                                \
                }                                                  \
            }                                                      \
            TXL_UNROLL                                             \
            for (int w = LANES / 2; w >= 16; w /= 2) {             \
                TXL_SIMD                                           \
                for (int k = 0; k < w; k++) {                      \
                    m[k] = m[k + w] BETTER m[k] ? m[k + w] : m[k]; \
                    b[k] |= b[k + w];                              \
                }                                                  \
            }                                                      \
            for (; i < n; i += 16) {                               \
                const T *q = p + (i + 16 <= n ? i : n - 16);       \
                TXL_SIMD                                           \
                for (int k = 0; k < 16; k++) {                     \
                    T x = q[k];                                    \
                    m[k] = x BETTER m[k] ? x : m[k];               \
                    b[k] |= x != x;                                \
                }                                                  \
            }                                                      \
            TXL_UNROLL                                             \
            for (int w = 8; w >= 1; w /= 2) {                      \
                TXL_SIMD                                           \
                for (int k = 0; k < w; k++) {                      \
                    m[k] = m[k + w] BETTER m[k] ? m[k + w] : m[k]; \
                    b[k] |= b[k + w];                              \
                }                                                  \
            }                                                      \
            best = m[0];                                           \
            bad = b[0];                                            \
        } else {                                                   \
            for (ptrdiff_t i = 0; i < n; i++) {                    \
                best = p[i] BETTER best ? p[i] : best;             \
                bad |= p[i] != p[i];                               \
            }                                                      \
        }                                                          \
        *nan = bad != 0;                                           \
        return best;                                               \
    }
TXS_FLOAT(max, >, float, int32_t, 64, -INFINITY)
TXS_FLOAT(min, <, float, int32_t, 64, INFINITY)
TXS_FLOAT(max, >, double, int64_t, 32, -(double)INFINITY)
TXS_FLOAT(min, <, double, int64_t, 32, (double)INFINITY)

/* Largest and smallest at once, NaN passed over. */
#define TXS_RANGE(T, LANES)                                          \
    TXL_INLINE T txs_range_##T(const T *p, ptrdiff_t n, T *smallest) \
    {                                                                \
        T hi = (T)-INFINITY, lo = (T)INFINITY;                       \
        if (n >= 16) {                                               \
            T a[LANES], z[LANES];                                    \
            ptrdiff_t i = 0;                                         \
            for (int k = 0; k < LANES; k++) {                        \
                a[k] = hi;                                           \
                z[k] = lo;                                           \
            }                                                        \
            for (; i + LANES <= n; i += LANES) {                     \
                TXL_SIMD                                             \
                for (int k = 0; k < LANES; k++) {                    \
                    T x = p[i + k];                                  \
                    a[k] = x > a[k] ? x : a[k];                      \
                    z[k] = x < z[k] ? x : z[k];                      \
                }                                                    \
            }                                                        \
            TXL_UNROLL                                               \
            for (int w = LANES / 2; w >= 16; w /= 2) {               \
                TXL_SIMD                                             \
                for (int k = 0; k < w; k++) {                        \
                    a[k] = a[k + w] > a[k] ? a[k + w] : a[k];        \
                    z[k] = z[k + w] < z[k] ? z[k + w] : z[k];        \
                }                                                    \
            }                                                        \
            for (; i < n; i += 16) {                                 \
                const T *q = p + (i + 16 <= n ? i : n - 16);         \
                TXL_SIMD                                             \
                for (int k = 0; k < 16; k++) {                       \
                    T x = q[k];                                      \
                    a[k] = x > a[k] ? x : a[k];                      \
                    z[k] = x < z[k] ? x : z[k];                      \
                }                                                    \
            }                                                        \
            TXL_UNROLL                                               \
            for (int w = 8; w >= 1; w /= 2) {                        \
                TXL_SIMD                                             \
                for (int k = 0; k < w; k++) {                        \
                    a[k] = a[k + w] > a[k] ? a[k + w] : a[k];        \
                    z[k] = z[k + w] < z[k] ? z[k + w] : z[k];        \
                }                                                    \
            }                                                        \
            hi = a[0];                                               \
            lo = z[0];                                               \
        } else {                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                      \
                hi = p[i] > hi ? p[i] : hi;                          \
                lo = p[i] < lo ? p[i] : lo;                          \
            }                                                        \
        }                                                            \
        *smallest = lo;                                              \
        return hi;                                                   \
    }
TXS_RANGE(float, 64)
TXS_RANGE(double, 32)

#endif
