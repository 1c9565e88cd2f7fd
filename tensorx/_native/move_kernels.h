/* Strided moves of n items of 1, 2, 4, 8 or 16 bytes; strides in bytes, of any
 * sign and alignment.  A source stride of 0 fills.  Source and destination are
 * the same run or do not overlap. */
#ifndef TX_MOVE_KERNELS_H
#define TX_MOVE_KERNELS_H

#include "kernel_abi.h"
#include "lanes.h"

typedef struct { uint64_t lo, hi; } txm_u128;

/* Whole items through memcpy: no alignment is assumed, the compiler emits plain moves. */
#define TXM_DEFINE(NAME, U)                                                                          \
    TXL_INLINE void txm_fixed_##NAME(char *d, ptrdiff_t ds, const char *s, ptrdiff_t ss, ptrdiff_t n) \
    {                                                                                                \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                          \
            U x;                                                                                     \
            memcpy(&x, s + i * ss, sizeof x);                                                        \
            memcpy(d + i * ds, &x, sizeof x);                                                        \
        }                                                                                            \
    }                                                                                                \
                                                                                                     \
    static void txm_move_##NAME(void *dst, ptrdiff_t ds, const void *src, ptrdiff_t ss, ptrdiff_t n) \
    {                                                                                                \
        const ptrdiff_t size = (ptrdiff_t)sizeof(U);                                                 \
        char *d = (char *)dst;                                                                       \
        const char *s = (const char *)src;                                                           \
        if (n <= 0 || (d == s && ds == ss))                                                          \
            return;                                                                                  \
        if (ss == 0) {                                                                               \
            U x;                                                                                     \
            memcpy(&x, s, sizeof x);                                                                 \
            if (ds == size) {                                                                        \
                TXL_SIMD                                                                             \
                for (ptrdiff_t i = 0; i < n; i++)                                                    \
                    memcpy(d + i * size, &x, sizeof x);                                              \
            } else {                                                                                 \
                for (ptrdiff_t i = 0; i < n; i++)                                                    \
                    memcpy(d + i * ds, &x, sizeof x);                                                \
            }                                                                                        \
            return;                                                                                  \
        }                                                                                            \
        if (ds == size) {                                                                            \
            if (ss == size)                                                                          \
                memcpy(d, s, (size_t)(n * size));                                                    \
            else if (ss == -size)                                                                    \
                txm_fixed_##NAME(d, size, s, -size, n);                                              \
            else if (ss == 2 * size)                                                                 \
                txm_fixed_##NAME(d, size, s, 2 * size, n);                                           \
            else if (ss == 4 * size)                                                                 \
                txm_fixed_##NAME(d, size, s, 4 * size, n);                                           \
            else                                                                                     \
                txm_fixed_##NAME(d, size, s, ss, n);                                                 \
            return;                                                                                  \
        }                                                                                            \
        if (ss == size)                                                                              \
            txm_fixed_##NAME(d, ds, s, size, n);                                                     \
        else                                                                                         \
            txm_fixed_##NAME(d, ds, s, ss, n);                                                       \
    }

TXM_DEFINE(1, uint8_t)
TXM_DEFINE(2, uint16_t)
TXM_DEFINE(4, uint32_t)
TXM_DEFINE(8, uint64_t)
TXM_DEFINE(16, txm_u128)

static void tx_fill_moves(tx_kernels *k)
{
    k->move[0] = txm_move_1;
    k->move[1] = txm_move_2;
    k->move[2] = txm_move_4;
    k->move[3] = txm_move_8;
    k->move[4] = txm_move_16;
}

#endif
