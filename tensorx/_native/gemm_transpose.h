/* Element types of the packing functions, and L x L transposes in registers: where the inner axis
 * of an operand is the adjacent one, packing is a transpose, and it is what a Linear layer's weight
 * needs on every forward pass. */
#ifndef TX_GEMM_TRANSPOSE_H
#define TX_GEMM_TRANSPOSE_H

#include "gemm_simd.h"

/* Bytes of any type; a complex64 is 8 bytes that need only the alignment of a float. */
typedef uint16_t txg_b2 __attribute__((may_alias));
typedef uint32_t txg_b4 __attribute__((may_alias));
typedef uint64_t txg_b8 __attribute__((may_alias, aligned(4)));
typedef struct { txg_b8 q[2]; } __attribute__((may_alias)) txg_b16;

/* After the stage with step s, rows i and i + s have traded their off-diagonal s x s squares. */
#define TXG_STAGE(V, L, MASKS, s, LO, HI)                                          \
    TXG_UNROLL for (int i = 0; i < (L); i++) if (!(i & (s))) {                     \
        const V x = r[i], y = r[i + (s)];                                          \
        r[i] = TXG_SHUFFLE(V, MASKS, x, y, LO);                                    \
        r[i + (s)] = TXG_SHUFFLE(V, MASKS, x, y, HI);                              \
    }

#if TXG_VB == 64
#define TXG_TRANSPOSE_u32(r)                                                                                                   \
    TXG_STAGE(vtxg_u32, 16, vtxg_u32, 1, TXG_L(0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),                     \
              TXG_L(1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))                                                \
    TXG_STAGE(vtxg_u32, 16, vtxg_u32, 2, TXG_L(0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),                      \
              TXG_L(2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))                                               \
    TXG_STAGE(vtxg_u32, 16, vtxg_u32, 4, TXG_L(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),                      \
              TXG_L(4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))                                               \
    TXG_STAGE(vtxg_u32, 16, vtxg_u32, 8, TXG_L(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),                        \
              TXG_L(8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
#define TXG_TRANSPOSE_u64(r)                                                                                                   \
    TXG_STAGE(vtxg_u64, 8, vtxg_u64, 1, TXG_L(0, 8, 2, 10, 4, 12, 6, 14), TXG_L(1, 9, 3, 11, 5, 13, 7, 15))                    \
    TXG_STAGE(vtxg_u64, 8, vtxg_u64, 2, TXG_L(0, 1, 8, 9, 4, 5, 12, 13), TXG_L(2, 3, 10, 11, 6, 7, 14, 15))                    \
    TXG_STAGE(vtxg_u64, 8, vtxg_u64, 4, TXG_L(0, 1, 2, 3, 8, 9, 10, 11), TXG_L(4, 5, 6, 7, 12, 13, 14, 15))
#elif TXG_VB == 32
#define TXG_TRANSPOSE_u32(r)                                                                                                   \
    TXG_STAGE(vtxg_u32, 8, vtxg_u32, 1, TXG_L(0, 8, 2, 10, 4, 12, 6, 14), TXG_L(1, 9, 3, 11, 5, 13, 7, 15))                    \
    TXG_STAGE(vtxg_u32, 8, vtxg_u32, 2, TXG_L(0, 1, 8, 9, 4, 5, 12, 13), TXG_L(2, 3, 10, 11, 6, 7, 14, 15))                    \
    TXG_STAGE(vtxg_u32, 8, vtxg_u32, 4, TXG_L(0, 1, 2, 3, 8, 9, 10, 11), TXG_L(4, 5, 6, 7, 12, 13, 14, 15))
#define TXG_TRANSPOSE_u64(r)                                                                                                   \
    TXG_STAGE(vtxg_u64, 4, vtxg_u64, 1, TXG_L(0, 4, 2, 6), TXG_L(1, 5, 3, 7))                                                  \
    TXG_STAGE(vtxg_u64, 4, vtxg_u64, 2, TXG_L(0, 1, 4, 5), TXG_L(2, 3, 6, 7))
#else
#define TXG_TRANSPOSE_u32(r)                                                                                                   \
    TXG_STAGE(vtxg_u32, 4, vtxg_u32, 1, TXG_L(0, 4, 2, 6), TXG_L(1, 5, 3, 7))                                                  \
    TXG_STAGE(vtxg_u32, 4, vtxg_u32, 2, TXG_L(0, 1, 4, 5), TXG_L(2, 3, 6, 7))
#define TXG_TRANSPOSE_u64(r) TXG_STAGE(vtxg_u64, 2, vtxg_u64, 1, TXG_L(0, 2), TXG_L(1, 3))
#endif

#define TXG_L(...) __VA_ARGS__

#endif
