/* Element types of the packing functions, and squares of L x L elements transposed in registers
 * (L lanes to a vector): where the inner axis of an operand is the adjacent one, packing is a
 * transpose, and a Linear layer's weight needs it on every forward pass.
 *
 * Rows are loaded whole: with a stride that is a power of two they all compete for the same few
 * lines of the cache, so a line has to be used up when it is there. */
#ifndef TX_GEMM_TRANSPOSE_H
#define TX_GEMM_TRANSPOSE_H

#include "gemm_simd.h"

/* Bytes of any type; a complex64 is 8 bytes that need only the alignment of a float. */
typedef uint16_t txg_b2 __attribute__((may_alias));
typedef uint32_t txg_b4 __attribute__((may_alias));
typedef uint64_t txg_b8 __attribute__((may_alias, aligned(4)));
typedef struct { txg_b8 q[2]; } __attribute__((may_alias)) txg_b16;

/* Interleavings inside 16-byte lanes: of single words and of pairs, low and high half; and
 * of whole lanes, even and odd. */
#if TXG_VB == 64
#define TXG_LO1(x, y) ((vtxg_u32)_mm512_unpacklo_epi32((__m512i)(x), (__m512i)(y)))
#define TXG_HI1(x, y) ((vtxg_u32)_mm512_unpackhi_epi32((__m512i)(x), (__m512i)(y)))
#define TXG_LO2(x, y) ((vtxg_u32)_mm512_unpacklo_epi64((__m512i)(x), (__m512i)(y)))
#define TXG_HI2(x, y) ((vtxg_u32)_mm512_unpackhi_epi64((__m512i)(x), (__m512i)(y)))
#define TXG_EVEN(x, y) ((vtxg_u32)_mm512_shuffle_i32x4((__m512i)(x), (__m512i)(y), 0x88))
#define TXG_ODD(x, y) ((vtxg_u32)_mm512_shuffle_i32x4((__m512i)(x), (__m512i)(y), 0xdd))
#elif TXG_VB == 32
#define TXG_LO1(x, y) ((vtxg_u32)_mm256_unpacklo_epi32((__m256i)(x), (__m256i)(y)))
#define TXG_HI1(x, y) ((vtxg_u32)_mm256_unpackhi_epi32((__m256i)(x), (__m256i)(y)))
#define TXG_LO2(x, y) ((vtxg_u32)_mm256_unpacklo_epi64((__m256i)(x), (__m256i)(y)))
#define TXG_HI2(x, y) ((vtxg_u32)_mm256_unpackhi_epi64((__m256i)(x), (__m256i)(y)))
#define TXG_EVEN(x, y) ((vtxg_u32)_mm256_permute2x128_si256((__m256i)(x), (__m256i)(y), 0x20))
#define TXG_ODD(x, y) ((vtxg_u32)_mm256_permute2x128_si256((__m256i)(x), (__m256i)(y), 0x31))
#else
#define TXG_MIX(x, y, ...) TXG_SHUFFLE(vtxg_u32, vtxg_u32, x, y, __VA_ARGS__)
#define TXG_LO1(x, y) TXG_MIX(x, y, 0, 4, 1, 5)
#define TXG_HI1(x, y) TXG_MIX(x, y, 2, 6, 3, 7)
#define TXG_LO2(x, y) TXG_MIX(x, y, 0, 1, 4, 5)
#define TXG_HI2(x, y) TXG_MIX(x, y, 2, 3, 6, 7)
#endif

/* v[g * period + t], for each t < period: 16-byte lane q of it goes to lane g of r[q * period + t]. */
TXG_INLINE void txg_lanes(vtxg_u32 *r, const vtxg_u32 *v, const int period)
{
    TXG_UNROLL
    for (int t = 0; t < period; t++) {
#if TXG_VB == 64
        const vtxg_u32 a = v[t], b = v[period + t], c = v[2 * period + t], d = v[3 * period + t];
        const vtxg_u32 abe = TXG_EVEN(a, b), abo = TXG_ODD(a, b), cde = TXG_EVEN(c, d), cdo = TXG_ODD(c, d);
        r[t] = TXG_EVEN(abe, cde);
        r[period + t] = TXG_EVEN(abo, cdo);
        r[2 * period + t] = TXG_ODD(abe, cde);
        r[3 * period + t] = TXG_ODD(abo, cdo);
#elif TXG_VB == 32
        r[t] = TXG_EVEN(v[t], v[period + t]);
        r[period + t] = TXG_ODD(v[t], v[period + t]);
#else
        r[t] = v[t];
#endif
    }
}

/* r[k] lane l = element k of row l; rows are `step` bytes apart. */
TXG_INLINE void txg_square_u32(vtxg_u32 *r, const void *src, ptrdiff_t step)
{
    const char *s = (const char *)src;
    vtxg_u32 v[TXG_VB / 4];
    TXG_UNROLL
    for (int g = 0; g < TXG_VB / 4; g += 4, s += 4 * step) {
        const vtxg_u32 a = (vtxg_u32)*(const mtxg_any *)s, b = (vtxg_u32)*(const mtxg_any *)(s + step);
        const vtxg_u32 c = (vtxg_u32)*(const mtxg_any *)(s + 2 * step), d = (vtxg_u32)*(const mtxg_any *)(s + 3 * step);
        const vtxg_u32 ab0 = TXG_LO1(a, b), ab1 = TXG_HI1(a, b), cd0 = TXG_LO1(c, d), cd1 = TXG_HI1(c, d);
        v[g] = TXG_LO2(ab0, cd0);
        v[g + 1] = TXG_HI2(ab0, cd0);
        v[g + 2] = TXG_LO2(ab1, cd1);
        v[g + 3] = TXG_HI2(ab1, cd1);
    }
    txg_lanes(r, v, 4);
}

TXG_INLINE void txg_square_u64(vtxg_u64 *r, const void *src, ptrdiff_t step)
{
    const char *s = (const char *)src;
    vtxg_u32 v[TXG_VB / 8], w[TXG_VB / 8];
    TXG_UNROLL
    for (int g = 0; g < TXG_VB / 8; g += 2, s += 2 * step) {
        const vtxg_u32 a = (vtxg_u32)*(const mtxg_any *)s, b = (vtxg_u32)*(const mtxg_any *)(s + step);
        v[g] = TXG_LO2(a, b);
        v[g + 1] = TXG_HI2(a, b);
    }
    txg_lanes(w, v, 2);
    TXG_UNROLL
    for (int k = 0; k < TXG_VB / 8; k++) r[k] = (vtxg_u64)w[k];
}

#endif
