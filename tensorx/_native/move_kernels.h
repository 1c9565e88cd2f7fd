/* Strided moves of items of 1, 2, 4, 8 or 16 bytes, in one and in two dimensions;
 * strides in bytes, of any sign and alignment.  A source stride of 0 fills.  Source
 * and destination are the same run or do not overlap. */
#ifndef TX_MOVE_KERNELS_H
#define TX_MOVE_KERNELS_H

#include "kernel_abi.h"
#include "lanes.h"

typedef struct { uint64_t lo, hi; } txm_u128;

/* Whole items through memcpy: no alignment is assumed, the compiler emits plain moves. */
#define TXM_DEFINE(NAME, U)                                                                          \
    TXL_INLINE void txm_any_##NAME(char *d, ptrdiff_t ds, const char *s, ptrdiff_t ss, ptrdiff_t n)  \
    {                                                                                                \
        for (ptrdiff_t i = 0; i < n; i++) {                                                          \
            U x;                                                                                     \
            memcpy(&x, s + i * ss, sizeof x);                                                        \
            memcpy(d + i * ds, &x, sizeof x);                                                        \
        }                                                                                            \
    }                                                                                                \
                                                                                                     \
    /* a stride that the compiler knows */                                                           \
    TXL_INLINE void txm_fixed_##NAME(char *d, ptrdiff_t ds, const char *s, ptrdiff_t ss, ptrdiff_t n) \
    {                                                                                                \
        if (sizeof(U) > 8) {                                                                         \
            txm_any_##NAME(d, ds, s, ss, n);                                                         \
        } else {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++) {                                                      \
                U x;                                                                                 \
                memcpy(&x, s + i * ss, sizeof x);                                                    \
                memcpy(d + i * ds, &x, sizeof x);                                                    \
            }                                                                                        \
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
                txm_any_##NAME(d, size, s, ss, n);                                                   \
            return;                                                                                  \
        }                                                                                            \
        if (ss == size)                                                                              \
            txm_any_##NAME(d, ds, s, size, n);                                                       \
        else                                                                                         \
            txm_any_##NAME(d, ds, s, ss, n);                                                         \
    }

TXM_DEFINE(1, uint8_t)
TXM_DEFINE(2, uint16_t)
TXM_DEFINE(4, uint32_t)
TXM_DEFINE(8, uint64_t)
TXM_DEFINE(16, txm_u128)

/* ---- two dimensions ----
 *
 * Where the inner destination and the outer source are contiguous (a transposing copy),
 * tiles of whole cache lines are turned in a buffer: every line is read once and written
 * once, however the strides fall onto the sets of the cache. */

typedef uint32_t txm_v4 __attribute__((vector_size(16)));
typedef uint64_t txm_v2 __attribute__((vector_size(16)));
#if defined(__clang__)
#define TXM_SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define TXM_SHUFFLE2(a, b, i, j) __builtin_shufflevector(a, b, i, j)
#else
#define TXM_SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (txm_v4){i, j, k, l})
#define TXM_SHUFFLE2(a, b, i, j) __builtin_shuffle(a, b, (txm_v2){i, j})
#endif

/* buf[i][j] = the item at s + j * stride + i * size, a tile of one line by one line */
TXL_INLINE void txm_turn_1(uint8_t *buf, const char *s, ptrdiff_t stride)
{
    for (int j = 0; j < 64; j++)
        for (int i = 0; i < 64; i++)
            buf[i * 64 + j] = (uint8_t)s[j * stride + i];
}

TXL_INLINE void txm_turn_2(uint16_t *buf, const char *s, ptrdiff_t stride)
{
    for (int j = 0; j < 32; j++) {
        uint16_t row[32];
        memcpy(row, s + j * stride, sizeof row);
        for (int i = 0; i < 32; i++)
            buf[i * 32 + j] = row[i];
    }
}

TXL_INLINE void txm_turn_4(uint32_t *buf, const char *s, ptrdiff_t stride)
{
    for (int j = 0; j < 16; j += 4) {
        for (int i = 0; i < 16; i += 4) {
            txm_v4 r[4], t[4];
            for (int k = 0; k < 4; k++)
                memcpy(&r[k], s + (j + k) * stride + i * 4, 16);
            t[0] = TXM_SHUFFLE4(r[0], r[1], 0, 4, 1, 5);
            t[1] = TXM_SHUFFLE4(r[0], r[1], 2, 6, 3, 7);
            t[2] = TXM_SHUFFLE4(r[2], r[3], 0, 4, 1, 5);
            t[3] = TXM_SHUFFLE4(r[2], r[3], 2, 6, 3, 7);
            r[0] = TXM_SHUFFLE4(t[0], t[2], 0, 1, 4, 5);
            r[1] = TXM_SHUFFLE4(t[0], t[2], 2, 3, 6, 7);
            r[2] = TXM_SHUFFLE4(t[1], t[3], 0, 1, 4, 5);
            r[3] = TXM_SHUFFLE4(t[1], t[3], 2, 3, 6, 7);
            for (int k = 0; k < 4; k++)
                memcpy(buf + (i + k) * 16 + j, &r[k], 16);
        }
    }
}

TXL_INLINE void txm_turn_8(uint64_t *buf, const char *s, ptrdiff_t stride)
{
    for (int j = 0; j < 8; j += 2) {
        for (int i = 0; i < 8; i += 2) {
            txm_v2 a, b, t;
            memcpy(&a, s + j * stride + i * 8, 16);
            memcpy(&b, s + (j + 1) * stride + i * 8, 16);
            t = TXM_SHUFFLE2(a, b, 0, 2);
            memcpy(buf + i * 8 + j, &t, 16);
            t = TXM_SHUFFLE2(a, b, 1, 3);
            memcpy(buf + (i + 1) * 8 + j, &t, 16);
        }
    }
}

TXL_INLINE void txm_turn_16(txm_u128 *buf, const char *s, ptrdiff_t stride)
{
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++)
            memcpy(buf + i * 4 + j, s + j * stride + i * 16, 16);
}

#define TXM_DEFINE2(NAME, U)                                                                         \
    TXL_KERNEL void txm_turned_##NAME(char *d, ptrdiff_t ds0, const char *s, ptrdiff_t ss1, ptrdiff_t n0, ptrdiff_t n1) \
    {                                                                                                \
        enum { T = 64 / sizeof(U) };                                                                 \
        /* two buffers: a line is read from one only when its small writes are long past */          \
        U buf[2][T * T];                                                                             \
        char *waiting = NULL;                                                                        \
        int b = 0;                                                                                   \
        for (ptrdiff_t i = 0; i < n0; i += T) {                                                      \
            for (ptrdiff_t j = 0; j < n1; j += T) {                                                  \
                char *dt = d + i * ds0 + j * (ptrdiff_t)sizeof(U);                                   \
                const char *st = s + i * (ptrdiff_t)sizeof(U) + j * ss1;                             \
                if (n0 - i < T || n1 - j < T) {                                                      \
                    for (ptrdiff_t k = 0; k < T && k < n0 - i; k++)                                  \
                        for (ptrdiff_t l = 0; l < T && l < n1 - j; l++)                              \
                            memcpy(dt + k * ds0 + l * (ptrdiff_t)sizeof(U), st + l * ss1 + k * (ptrdiff_t)sizeof(U), \
                                   sizeof(U));                                                       \
                    continue;                                                                        \
                }                                                                                    \
                txm_turn_##NAME(buf[b], st, ss1);                                                    \
                b ^= 1;                                                                              \
                if (waiting)                                                                         \
                    for (int k = 0; k < T; k++)                                                      \
                        memcpy(waiting + k * ds0, buf[b] + k * T, 64);                               \
                waiting = dt;                                                                        \
            }                                                                                        \
        }                                                                                            \
        if (waiting)                                                                                 \
            for (int k = 0; k < T; k++)                                                              \
                memcpy(waiting + k * ds0, buf[b ^ 1] + k * T, 64);                                   \
    }                                                                                                \
                                                                                                     \
    static void txm_move2_##NAME(void *dst, ptrdiff_t ds0, ptrdiff_t ds1, const void *src, ptrdiff_t ss0, \
                                 ptrdiff_t ss1, ptrdiff_t n0, ptrdiff_t n1)                          \
    {                                                                                                \
        const ptrdiff_t size = (ptrdiff_t)sizeof(U), wide = 16 * (64 / size);                        \
        char *d = (char *)dst;                                                                       \
        const char *s = (const char *)src;                                                           \
        if (n0 <= 0 || n1 <= 0)                                                                      \
            return;                                                                                  \
        if (ds0 == size && ss1 == size && !(ds1 == size && ss0 == size)) {                           \
            ptrdiff_t t;                                                                             \
            t = n0, n0 = n1, n1 = t;                                                                 \
            t = ds0, ds0 = ds1, ds1 = t;                                                             \
            t = ss0, ss0 = ss1, ss1 = t;                                                             \
        }                                                                                            \
        if (ds1 == size && ss0 == size && n0 > 1 && n1 > 1 && ss1 != 0) {                            \
            /* few enough source rows at a time for the TLB */                                       \
            for (ptrdiff_t j = 0; j < n1; j += wide)                                                 \
                txm_turned_##NAME(d + j * size, ds0, s + j * ss1, ss1, n0, n1 - j < wide ? n1 - j : wide); \
            return;                                                                                  \
        }                                                                                            \
        if (n0 > n1 && ds1 != size) {                                                                \
            /* long runs in the inner loop */                                                        \
            ptrdiff_t t;                                                                             \
            t = n0, n0 = n1, n1 = t;                                                                 \
            t = ds0, ds0 = ds1, ds1 = t;                                                             \
            t = ss0, ss0 = ss1, ss1 = t;                                                             \
        }                                                                                            \
        for (ptrdiff_t i = 0; i < n0; i++)                                                           \
            txm_move_##NAME(d + i * ds0, ds1, s + i * ss0, ss1, n1);                                 \
    }
TXM_DEFINE2(1, uint8_t)
TXM_DEFINE2(2, uint16_t)
TXM_DEFINE2(4, uint32_t)
TXM_DEFINE2(8, uint64_t)
TXM_DEFINE2(16, txm_u128)

static void tx_fill_moves(tx_kernels *k)
{
    k->move[0] = txm_move_1;
    k->move[1] = txm_move_2;
    k->move[2] = txm_move_4;
    k->move[3] = txm_move_8;
    k->move[4] = txm_move_16;
    k->move2[0] = txm_move2_1;
    k->move2[1] = txm_move2_2;
    k->move2[2] = txm_move2_4;
    k->move2[3] = txm_move2_8;
    k->move2[4] = txm_move2_16;
}

#endif
