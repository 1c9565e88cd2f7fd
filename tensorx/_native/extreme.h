/* The largest or smallest of a run of floats, and whether it holds a NaN. */
#ifndef TX_EXTREME_H
#define TX_EXTREME_H

#include <math.h>

#include "lanes.h"

/* In explicit lanes, since the compiler may not reorder comparisons that NaN can
 * take part in.  With a NaN the result is the best of the rest, or the identity. */
#define TXS_FLOAT(OP, BETTER, T, I, LANES, IDENTITY)               \
    TXL_INLINE T txs_##OP##_##T(const T *p, ptrdiff_t n, int *nan) \
    {                                                              \
        T best = IDENTITY;                                         \
        I bad = 0;                                                 \
        ptrdiff_t i = 0;                                           \
        if (n >= LANES) {                                          \
            T m[LANES];                                            \
            I b[LANES];                                            \
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
            for (int w = LANES / 2; w >= 1; w /= 2) {              \
                for (int k = 0; k < w; k++) {                      \
                    m[k] = m[k + w] BETTER m[k] ? m[k + w] : m[k]; \
                    b[k] |= b[k + w];                              \
                }                                                  \
            }                                                      \
            best = m[0];                                           \
            bad = b[0];                                            \
        }                                                          \
        for (; i < n; i++) {                                       \
            best = p[i] BETTER best ? p[i] : best;                 \
            bad |= p[i] != p[i];                                   \
        }                                                          \
        *nan = bad != 0;                                           \
        return best;                                               \
    }
TXS_FLOAT(max, >, float, int32_t, 64, -INFINITY)
TXS_FLOAT(min, <, float, int32_t, 64, INFINITY)
TXS_FLOAT(max, >, double, int64_t, 32, -(double)INFINITY)
TXS_FLOAT(min, <, double, int64_t, 32, (double)INFINITY)

#endif
