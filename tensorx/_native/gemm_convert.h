/* Stored types that are computed in another: float16, bfloat16 and bool as float32 (a count of
 * true products that cannot wrap), 8-bit integers as 16-bit ones (the low byte is the same).
 *
 * txg_load_X(dst, src, stride, n) widens n elements, txg_store_X(dst, src, n) narrows. */
#ifndef TX_GEMM_CONVERT_H
#define TX_GEMM_CONVERT_H

#include "gemm_simd.h"

static inline uint32_t txg_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float txg_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

static inline float txg_half_to_float(uint16_t h) {
    const uint32_t m = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t u = txg_bits(txg_float(m << 13) * 0x1p112f);
    return txg_float(sign | (m >= 0x7c00u ? (m << 13) | 0x7f800000u : u));
}

static inline uint16_t txg_float_to_half(float f) {
    const uint32_t u = txg_bits(f), sign = (u >> 16) & 0x8000u, m = u & 0x7fffffffu;
    const uint32_t normal = (m - 0x38000000u + 0xfffu + ((m >> 13) & 1u)) >> 13;
    const uint32_t small = txg_bits(txg_float(m) + 0.5f) - 0x3f000000u; /* the adder rounds to 2^-24 */
    uint32_t r = m < 0x38800000u ? small : normal;
    r = m >= 0x477ff000u ? 0x7c00u : r;
    r = m > 0x7f800000u ? 0x7e00u | ((m >> 13) & 0x3ffu) : r;
    return (uint16_t)(sign | r);
}

static inline uint16_t txg_float_to_bf16(float f) {
    const uint32_t u = txg_bits(f);
    const uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : r);
}

TXG_HOT void txg_load_f16(float *restrict dst, const uint16_t *restrict src, int64_t stride, int64_t n) {
    int64_t i = 0;
    if (stride == 1) {
#if TXG_VB == 64
        for (; i + 16 <= n; i += 16)
            _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src + i))));
#elif TXG_VB == 32 && defined(__F16C__)
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
#elif defined(__aarch64__)
        for (; i + 4 <= n; i += 4)
            vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src + i))));
#endif
        for (; i < n; i++) dst[i] = txg_half_to_float(src[i]);
    } else {
        for (; i < n; i++) dst[i] = txg_half_to_float(src[i * stride]);
    }
}

TXG_HOT void txg_store_f16(uint16_t *restrict dst, const float *restrict src, int64_t n) {
    int64_t i = 0;
#if TXG_VB == 64
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(dst + i), _mm512_cvtps_ph(_mm512_loadu_ps(src + i), 0));
#elif TXG_VB == 32 && defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), 0));
#elif defined(__aarch64__)
    for (; i + 4 <= n; i += 4)
        vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src + i))));
#endif
    for (; i < n; i++) dst[i] = txg_float_to_half(src[i]);
}

#define TXG_LOAD(name, T, S, expr)                                                          \
    TXG_HOT void txg_load_##name(T *restrict dst, const S *restrict src, int64_t stride, int64_t n) { \
        if (stride == 1) {                                                                  \
            for (int64_t i = 0; i < n; i++) { const S x = src[i]; dst[i] = (T)(expr); }     \
        } else {                                                                            \
            for (int64_t i = 0; i < n; i++) { const S x = src[i * stride]; dst[i] = (T)(expr); } \
        }                                                                                   \
    }
#define TXG_STORE(name, S, T, expr)                                                         \
    TXG_HOT void txg_store_##name(S *restrict dst, const T *restrict src, int64_t n) {       \
        for (int64_t i = 0; i < n; i++) { const T x = src[i]; dst[i] = (S)(expr); }         \
    }

TXG_LOAD(bf16, float, uint16_t, txg_float((uint32_t)x << 16))
TXG_STORE(bf16, uint16_t, float, txg_float_to_bf16(x))
TXG_LOAD(bool, float, uint8_t, x != 0)
TXG_STORE(bool, uint8_t, float, x != 0)
TXG_LOAD(u8, uint16_t, uint8_t, x)
TXG_STORE(u8, uint8_t, uint16_t, x)
TXG_LOAD(u16, uint16_t, uint16_t, x)
TXG_STORE(u16, uint16_t, uint16_t, x)
TXG_LOAD(u32, uint32_t, uint32_t, x)
TXG_STORE(u32, uint32_t, uint32_t, x)
TXG_LOAD(u64, uint64_t, uint64_t, x)
TXG_STORE(u64, uint64_t, uint64_t, x)
TXG_LOAD(f32, float, float, x)
TXG_STORE(f32, float, float, x)
TXG_LOAD(f64, double, double, x)
TXG_STORE(f64, double, double, x)

#define TXG_LOAD_COMPLEX(name, T)                                                           \
    TXG_HOT void txg_load_##name(T *restrict dst, const T *restrict src, int64_t stride, int64_t n) { \
        for (int64_t i = 0; i < n; i++) {                                                   \
            dst[2 * i] = src[2 * i * stride];                                               \
            dst[2 * i + 1] = src[2 * i * stride + 1];                                       \
        }                                                                                   \
    }                                                                                       \
    TXG_HOT void txg_store_##name(T *restrict dst, const T *restrict src, int64_t n) {       \
        memcpy(dst, src, (size_t)n * 2 * sizeof(T));                                        \
    }
TXG_LOAD_COMPLEX(c64, float)
TXG_LOAD_COMPLEX(c128, double)

#endif
