/* Contiguous conversions between all dtypes, and rounding to half precision.
 *
 * The loops are written per pair of representations, not per pair of dtypes:
 * integer narrowing ignores signedness, complex numbers go through blocks of
 * their real parts, halves through blocks of float32.  Whatever rounds to a half
 * type comes from a float32 that is exact or was rounded to odd, so every
 * conversion rounds once.
 */
#ifndef TX_CAST_KERNELS_H
#define TX_CAST_KERNELS_H

#include "kernel_abi.h"
#include "lanes.h"

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#define TXC_BLOCK 1024 /* elements of a block of intermediate float32 or float64 */

/* ---- half <-> float32, one element; the bits equal those of F16C and of NEON ---- */

TXL_INLINE uint32_t txc_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

TXL_INLINE float txc_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

TXL_INLINE uint16_t txc_f16_of(float x)
{
    uint32_t u = txc_bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    /* normal: rebias, round half to even in integers; overflow runs into the exponent of inf */
    uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
    /* below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits */
    uint32_t sub = txc_bits(txc_float(a) + 0.5f) - txc_bits(0.5f);
    uint32_t nan = 0x7e00u | ((a >> 13) & 0x3ffu);
    uint32_t r = a < (113u << 23) ? sub : normal;
    r = a >= (143u << 23) ? 0x7c00u : r;
    r = a > 0x7f800000u ? nan : r;
    return (uint16_t)(r | sign);
}

TXL_INLINE float txc_f16_to(uint16_t h)
{
    uint32_t a = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t normal = (a << 13) + (112u << 23);
    uint32_t special = (a << 13) + (224u << 23);
    uint32_t sub = txc_bits((float)(int32_t)a * 0x1p-24f);
    uint32_t r = a < 0x400u ? sub : normal;
    r = a >= 0x7c00u ? special : r;
    r = a > 0x7c00u ? r | 0x00400000u : r;
    return txc_float(r | sign);
}

TXL_INLINE uint16_t txc_bf16_of(float x)
{
    uint32_t u = txc_bits(x);
    uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    r = (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : r;
    return (uint16_t)r;
}

TXL_INLINE float txc_bf16_to(uint16_t h)
{
    return txc_float((uint32_t)h << 16);
}

/* float64 -> float32 rounded to odd: a later rounding to at most 22 bits is then exact */
TXL_INLINE float txc_one_odd_f64(double d)
{
    float f = (float)d;
    double back = f;
    uint32_t u = txc_bits(f);
    u -= __builtin_fabs(back) > __builtin_fabs(d) ? 1u : 0u;
    u |= back != d ? 1u : 0u;
    return txc_float(u);
}

/* Integers above 2^52 lose their low bits to a sticky bit first, so that the double is exact. */
TXL_INLINE float txc_one_odd_u64(uint64_t x)
{
    uint64_t sticky = (x & ~(uint64_t)0xfff) | ((x & 0xfff) != 0 ? (uint64_t)0x1000 : 0);
    return txc_one_odd_f64((double)(x >> 52 ? sticky : x));
}

TXL_INLINE float txc_one_odd_i64(int64_t x)
{
    uint64_t m = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    float f = txc_one_odd_u64(m);
    return x < 0 ? -f : f;
}

/* ---- loops ---- */

#define TXC_LOOP(NAME, TO, FROM, EXPR)                                  \
    TXL_KERNEL void txc_##NAME(void *dst, const void *src, ptrdiff_t n) \
    {                                                                   \
        TO *d = (TO *)dst;                                              \
        const FROM *s = (const FROM *)src;                              \
        TXL_SIMD                                                        \
        for (ptrdiff_t i = 0; i < n; i++) {                             \
            FROM x = s[i];                                              \
            d[i] = (EXPR);                                              \
        }                                                               \
    }

#define TXC_COPY(NAME, SIZE)                                            \
    TXL_KERNEL void txc_##NAME(void *dst, const void *src, ptrdiff_t n) \
    {                                                                   \
        if (dst != src && n > 0)                                        \
            memcpy(dst, src, (size_t)n * SIZE);                         \
    }
TXC_COPY(copy1, 1)
TXC_COPY(copy2, 2)
TXC_COPY(copy4, 4)
TXC_COPY(copy8, 8)
TXC_COPY(copy16, 16)

TXC_LOOP(i1_2, int16_t, int8_t, x)
TXC_LOOP(i1_4, int32_t, int8_t, x)
TXC_LOOP(i1_8, int64_t, int8_t, x)
TXC_LOOP(i2_4, int32_t, int16_t, x)
TXC_LOOP(i2_8, int64_t, int16_t, x)
TXC_LOOP(i4_8, int64_t, int32_t, x)
TXC_LOOP(u1_2, uint16_t, uint8_t, x)
TXC_LOOP(u1_4, uint32_t, uint8_t, x)
TXC_LOOP(u1_8, uint64_t, uint8_t, x)
TXC_LOOP(u2_4, uint32_t, uint16_t, x)
TXC_LOOP(u2_8, uint64_t, uint16_t, x)
TXC_LOOP(u4_8, uint64_t, uint32_t, x)
TXC_LOOP(u2_1, uint8_t, uint16_t, (uint8_t)x)
TXC_LOOP(u4_1, uint8_t, uint32_t, (uint8_t)x)
TXC_LOOP(u4_2, uint16_t, uint32_t, (uint16_t)x)
TXC_LOOP(u8_1, uint8_t, uint64_t, (uint8_t)x)
TXC_LOOP(u8_2, uint16_t, uint64_t, (uint16_t)x)
TXC_LOOP(u8_4, uint32_t, uint64_t, (uint32_t)x)
TXC_LOOP(bool_u1, uint8_t, uint8_t, x != 0)
TXC_LOOP(bool_u2, uint8_t, uint16_t, x != 0)
TXC_LOOP(bool_u4, uint8_t, uint32_t, x != 0)
TXC_LOOP(bool_u8, uint8_t, uint64_t, x != 0)
TXC_LOOP(bool_f32, uint8_t, float, x != 0)
TXC_LOOP(bool_f64, uint8_t, double, x != 0)

TXC_LOOP(f32_i8, float, int8_t, x)
TXC_LOOP(f32_i16, float, int16_t, x)
TXC_LOOP(f32_i32, float, int32_t, (float)x)
TXC_LOOP(f32_i64, float, int64_t, (float)x)
TXC_LOOP(f32_u8, float, uint8_t, x)
TXC_LOOP(f32_u16, float, uint16_t, x)
TXC_LOOP(f32_u32, float, uint32_t, (float)x)
TXC_LOOP(f32_u64, float, uint64_t, (float)x)
TXC_LOOP(f64_i8, double, int8_t, x)
TXC_LOOP(f64_i16, double, int16_t, x)
TXC_LOOP(f64_i32, double, int32_t, x)
TXC_LOOP(f64_i64, double, int64_t, (double)x)
TXC_LOOP(f64_u8, double, uint8_t, x)
TXC_LOOP(f64_u16, double, uint16_t, x)
TXC_LOOP(f64_u32, double, uint32_t, x)
TXC_LOOP(f64_u64, double, uint64_t, (double)x)
TXC_LOOP(f64_f32, double, float, x)
TXC_LOOP(f32_f64, float, double, (float)x)
TXC_LOOP(odd_f64, float, double, txc_one_odd_f64(x))
TXC_LOOP(odd_i32, float, int32_t, txc_one_odd_f64(x))
TXC_LOOP(odd_u32, float, uint32_t, txc_one_odd_f64(x))
TXC_LOOP(odd_i64, float, int64_t, txc_one_odd_i64(x))
TXC_LOOP(odd_u64, float, uint64_t, txc_one_odd_u64(x))

/* float -> integer: NaN gives 0, the rest saturates.  LO and HI are exact in the float type. */
#define TXC_CLAMP(x, LO, HI) ((x) != (x) ? 0 : (x) < (LO) ? (LO) : (x) > (HI) ? (HI) : (x))
TXC_LOOP(i8_f32, int8_t, float, (int8_t)(int32_t)TXC_CLAMP(x, -128.0f, 127.0f))
TXC_LOOP(u8_f32, uint8_t, float, (uint8_t)(int32_t)TXC_CLAMP(x, 0.0f, 255.0f))
TXC_LOOP(i16_f32, int16_t, float, (int16_t)(int32_t)TXC_CLAMP(x, -32768.0f, 32767.0f))
TXC_LOOP(u16_f32, uint16_t, float, (uint16_t)(int32_t)TXC_CLAMP(x, 0.0f, 65535.0f))
TXC_LOOP(i8_f64, int8_t, double, (int8_t)(int32_t)TXC_CLAMP(x, -128.0, 127.0))
TXC_LOOP(u8_f64, uint8_t, double, (uint8_t)(int32_t)TXC_CLAMP(x, 0.0, 255.0))
TXC_LOOP(i16_f64, int16_t, double, (int16_t)(int32_t)TXC_CLAMP(x, -32768.0, 32767.0))
TXC_LOOP(u16_f64, uint16_t, double, (uint16_t)(int32_t)TXC_CLAMP(x, 0.0, 65535.0))
TXC_LOOP(i32_f64, int32_t, double, (int32_t)TXC_CLAMP(x, -2147483648.0, 2147483647.0))

/* Where the largest integer is not exact in the float type: convert what is in
 * range, then select.  Unsigned values come in halves that a signed conversion takes. */
TXL_INLINE int32_t txc_i32_of_f32(float x)
{
    float in = x >= 0x1p31f ? 0.0f : TXC_CLAMP(x, -0x1p31f, 0x1p31f);
    int32_t r = (int32_t)in;
    return x >= 0x1p31f ? INT32_MAX : r;
}

TXL_INLINE uint32_t txc_u32_of_f32(float x)
{
    uint32_t high = x >= 0x1p31f;
    float in = x > 0.0f ? x : 0.0f;
    in = in - (high ? 0x1p31f : 0.0f);
    uint32_t r = (uint32_t)(int32_t)(x >= 0x1p32f ? 0.0f : in) + (high << 31);
    return x >= 0x1p32f ? UINT32_MAX : r;
}

TXL_INLINE uint32_t txc_u32_of_f64(double x)
{
    double in = x > 0.0 ? x : 0.0;
    in = in > 4294967295.0 ? 4294967295.0 : in;
    /* in truncated minus 2^31 fits a signed conversion; truncate toward zero first */
    double low = in >= 0x1p31 ? in - 0x1p31 : in;
    return (uint32_t)(int32_t)low + (in >= 0x1p31 ? 0x80000000u : 0u);
}

TXL_INLINE int64_t txc_i64_of_f64(double x)
{
    double in = x >= 0x1p63 ? 0.0 : TXC_CLAMP(x, -0x1p63, 0x1p63);
    int64_t r = (int64_t)in;
    return x >= 0x1p63 ? INT64_MAX : r;
}

TXL_INLINE uint64_t txc_u64_of_f64(double x)
{
    uint64_t high = x >= 0x1p63;
    double in = x > 0.0 ? x : 0.0;
    in = in - (high ? 0x1p63 : 0.0);
    uint64_t r = (uint64_t)(int64_t)(x >= 0x1p64 ? 0.0 : in) + (high << 63);
    return x >= 0x1p64 ? UINT64_MAX : r;
}

TXC_LOOP(i32_f32, int32_t, float, txc_i32_of_f32(x))
TXC_LOOP(u32_f32, uint32_t, float, txc_u32_of_f32(x))
TXC_LOOP(i64_f32, int64_t, float, txc_i64_of_f64(x))
TXC_LOOP(u64_f32, uint64_t, float, txc_u64_of_f64(x))
TXC_LOOP(u32_f64, uint32_t, double, txc_u32_of_f64(x))
TXC_LOOP(i64_f64, int64_t, double, txc_i64_of_f64(x))
TXC_LOOP(u64_f64, uint64_t, double, txc_u64_of_f64(x))

/* ---- halves ---- */

#if defined(__aarch64__)
TXL_KERNEL void txc_f16_f32(void *dst, const void *src, ptrdiff_t n)
{
    __fp16 *d = (__fp16 *)dst;
    const float *s = (const float *)src;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (__fp16)s[i];
}

TXL_KERNEL void txc_f32_f16(void *dst, const void *src, ptrdiff_t n)
{
    float *d = (float *)dst;
    const __fp16 *s = (const __fp16 *)src;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (float)s[i];
}

static void txc_round_f16(float *x, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = (float)(__fp16)x[i];
}
#elif defined(__F16C__)
TXL_KERNEL void txc_f16_f32(void *dst, const void *src, ptrdiff_t n)
{
    uint16_t *d = (uint16_t *)dst;
    const float *s = (const float *)src;
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        d[i] = txc_f16_of(s[i]);
}

TXL_KERNEL void txc_f32_f16(void *dst, const void *src, ptrdiff_t n)
{
    float *d = (float *)dst;
    const uint16_t *s = (const uint16_t *)src;
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(s + i))));
#endif
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
    for (; i < n; i++)
        d[i] = txc_f16_to(s[i]);
}

static void txc_round_f16(float *x, ptrdiff_t n)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT)));
#endif
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT)));
    for (; i < n; i++)
        x[i] = txc_f16_to(txc_f16_of(x[i]));
}
#else
TXC_LOOP(f16_f32, uint16_t, float, txc_f16_of(x))
TXC_LOOP(f32_f16, float, uint16_t, txc_f16_to(x))

static void txc_round_f16(float *x, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = txc_f16_to(txc_f16_of(x[i]));
}
#endif

TXC_LOOP(bf16_f32, uint16_t, float, txc_bf16_of(x))
TXC_LOOP(f32_bf16, float, uint16_t, txc_bf16_to(x))

static void txc_round_bf16(float *x, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = txc_bf16_to(txc_bf16_of(x[i]));
}

/* ---- complex: the real parts of a block, or a block with imaginary parts 0 ---- */

TXL_INLINE void txc_real32(float *d, const float *s, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = s[2 * i];
}

TXL_INLINE void txc_real64(double *d, const double *s, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = s[2 * i];
}

TXL_INLINE void txc_cplx32(float *d, const float *s, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++) {
        d[2 * i] = s[i];
        d[2 * i + 1] = 0.0f;
    }
}

TXL_INLINE void txc_cplx64(double *d, const double *s, ptrdiff_t n)
{
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++) {
        d[2 * i] = s[i];
        d[2 * i + 1] = 0.0;
    }
}

TXL_KERNEL void txc_c64_c128(void *dst, const void *src, ptrdiff_t n)
{
    txc_f32_f64(dst, src, 2 * n);
}

TXL_KERNEL void txc_c128_c64(void *dst, const void *src, ptrdiff_t n)
{
    txc_f64_f32(dst, src, 2 * n);
}

TXL_KERNEL void txc_bool_c64(void *dst, const void *src, ptrdiff_t n)
{
    uint8_t *d = (uint8_t *)dst;
    const float *s = (const float *)src;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (uint8_t)((s[2 * i] != 0) | (s[2 * i + 1] != 0));
}

TXL_KERNEL void txc_bool_c128(void *dst, const void *src, ptrdiff_t n)
{
    uint8_t *d = (uint8_t *)dst;
    const double *s = (const double *)src;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (uint8_t)((s[2 * i] != 0) | (s[2 * i + 1] != 0));
}

/* A conversion in two steps over blocks: MID elements in between. */
#define TXC_VIA(NAME, MID, TOSIZE, FROMSIZE, FIRST, SECOND)                         \
    TXL_KERNEL void txc_##NAME(void *dst, const void *src, ptrdiff_t n)             \
    {                                                                               \
        MID mid[TXC_BLOCK];                                                         \
        for (ptrdiff_t i = 0; i < n; i += TXC_BLOCK) {                              \
            ptrdiff_t m = n - i < TXC_BLOCK ? n - i : TXC_BLOCK;                    \
            FIRST((MID *)mid, (const void *)((const char *)src + i * FROMSIZE), m); \
            SECOND((void *)((char *)dst + i * TOSIZE), (const MID *)mid, m);        \
        }                                                                           \
    }

/* half H to everything else; everything else to half H */
#define TXC_HALF(H)                                              \
    TXC_VIA(bool_##H, float, 1, 2, txc_f32_##H, txc_bool_f32)    \
    TXC_VIA(i8_##H, float, 1, 2, txc_f32_##H, txc_i8_f32)        \
    TXC_VIA(i16_##H, float, 2, 2, txc_f32_##H, txc_i16_f32)      \
    TXC_VIA(i32_##H, float, 4, 2, txc_f32_##H, txc_i32_f32)      \
    TXC_VIA(i64_##H, float, 8, 2, txc_f32_##H, txc_i64_f32)      \
    TXC_VIA(u8_##H, float, 1, 2, txc_f32_##H, txc_u8_f32)        \
    TXC_VIA(u16_##H, float, 2, 2, txc_f32_##H, txc_u16_f32)      \
    TXC_VIA(u32_##H, float, 4, 2, txc_f32_##H, txc_u32_f32)      \
    TXC_VIA(u64_##H, float, 8, 2, txc_f32_##H, txc_u64_f32)      \
    TXC_VIA(f64_##H, float, 8, 2, txc_f32_##H, txc_f64_f32)      \
    TXC_VIA(c64_##H, float, 8, 2, txc_f32_##H, txc_cplx32_mid)   \
    TXC_VIA(c128_##H, float, 16, 2, txc_f32_##H, txc_c128_f32)   \
    TXC_VIA(H##_i8, float, 2, 1, txc_f32_i8, txc_##H##_f32)      \
    TXC_VIA(H##_i16, float, 2, 2, txc_f32_i16, txc_##H##_f32)    \
    TXC_VIA(H##_i32, float, 2, 4, txc_odd_i32, txc_##H##_f32)    \
    TXC_VIA(H##_i64, float, 2, 8, txc_odd_i64, txc_##H##_f32)    \
    TXC_VIA(H##_u8, float, 2, 1, txc_f32_u8, txc_##H##_f32)      \
    TXC_VIA(H##_u16, float, 2, 2, txc_f32_u16, txc_##H##_f32)    \
    TXC_VIA(H##_u32, float, 2, 4, txc_odd_u32, txc_##H##_f32)    \
    TXC_VIA(H##_u64, float, 2, 8, txc_odd_u64, txc_##H##_f32)    \
    TXC_VIA(H##_f64, float, 2, 8, txc_odd_f64, txc_##H##_f32)    \
    TXC_VIA(H##_c64, float, 2, 8, txc_real32_mid, txc_##H##_f32) \
    TXC_VIA(H##_c128, float, 2, 16, txc_odd_c128, txc_##H##_f32)

#define txc_real32_mid(d, s, n) txc_real32(d, (const float *)(s), n)
#define txc_real64_mid(d, s, n) txc_real64(d, (const double *)(s), n)
#define txc_cplx32_mid(d, s, n) txc_cplx32((float *)(d), s, n)
#define txc_cplx64_mid(d, s, n) txc_cplx64((double *)(d), s, n)

TXC_VIA(odd_c128, double, 4, 16, txc_real64_mid, txc_odd_f64)
TXC_VIA(c128_f32, double, 16, 4, txc_f64_f32, txc_cplx64_mid)
TXC_HALF(f16)
TXC_HALF(bf16)
TXC_VIA(bf16_f16, float, 2, 2, txc_f32_f16, txc_bf16_f32)
TXC_VIA(f16_bf16, float, 2, 2, txc_f32_bf16, txc_f16_f32)

#define TXC_REAL(T, SIZE)                                              \
    TXC_VIA(T##_c64, float, SIZE, 8, txc_real32_mid, txc_##T##_f32)    \
    TXC_VIA(T##_c128, double, SIZE, 16, txc_real64_mid, txc_##T##_f64) \
    TXC_VIA(c64_##T, float, 8, SIZE, txc_f32_##T, txc_cplx32_mid)      \
    TXC_VIA(c128_##T, double, 16, SIZE, txc_f64_##T, txc_cplx64_mid)
TXC_REAL(i8, 1)
TXC_REAL(i16, 2)
TXC_REAL(i32, 4)
TXC_REAL(i64, 8)
TXC_REAL(u8, 1)
TXC_REAL(u16, 2)
TXC_REAL(u32, 4)
TXC_REAL(u64, 8)
TXC_VIA(f32_c64, float, 4, 8, txc_real32_mid, txc_copy4)
TXC_VIA(f32_c128, double, 4, 16, txc_real64_mid, txc_f32_f64)
TXC_VIA(f64_c64, float, 8, 8, txc_real32_mid, txc_f64_f32)
TXC_VIA(f64_c128, double, 8, 16, txc_real64_mid, txc_copy8)
TXC_VIA(c64_f32, float, 8, 4, txc_copy4, txc_cplx32_mid)
TXC_VIA(c64_f64, float, 8, 8, txc_f32_f64, txc_cplx32_mid)
TXC_VIA(c128_f64, double, 16, 8, txc_copy8, txc_cplx64_mid)

static void tx_fill_casts(tx_kernels *k)
{
    /* columns: from bool, i8 i16 i32 i64, u8 u16 u32 u64, f16 bf16, f32 f64, c64 c128 */
    static const tx_cast_fn table[TX_NDT][TX_NDT] = {
        [TX_BOOL] = {txc_bool_u1, txc_bool_u1, txc_bool_u2, txc_bool_u4, txc_bool_u8, txc_bool_u1, txc_bool_u2,
                     txc_bool_u4, txc_bool_u8, txc_bool_f16, txc_bool_bf16, txc_bool_f32, txc_bool_f64,
                     txc_bool_c64, txc_bool_c128},
        [TX_I8] = {txc_bool_u1, txc_copy1, txc_u2_1, txc_u4_1, txc_u8_1, txc_copy1, txc_u2_1, txc_u4_1, txc_u8_1,
                   txc_i8_f16, txc_i8_bf16, txc_i8_f32, txc_i8_f64, txc_i8_c64, txc_i8_c128},
        [TX_I16] = {txc_u1_2, txc_i1_2, txc_copy2, txc_u4_2, txc_u8_2, txc_u1_2, txc_copy2, txc_u4_2, txc_u8_2,
                    txc_i16_f16, txc_i16_bf16, txc_i16_f32, txc_i16_f64, txc_i16_c64, txc_i16_c128},
        [TX_I32] = {txc_u1_4, txc_i1_4, txc_i2_4, txc_copy4, txc_u8_4, txc_u1_4, txc_u2_4, txc_copy4, txc_u8_4,
                    txc_i32_f16, txc_i32_bf16, txc_i32_f32, txc_i32_f64, txc_i32_c64, txc_i32_c128},
        [TX_I64] = {txc_u1_8, txc_i1_8, txc_i2_8, txc_i4_8, txc_copy8, txc_u1_8, txc_u2_8, txc_u4_8, txc_copy8,
                    txc_i64_f16, txc_i64_bf16, txc_i64_f32, txc_i64_f64, txc_i64_c64, txc_i64_c128},
        [TX_U8] = {txc_bool_u1, txc_copy1, txc_u2_1, txc_u4_1, txc_u8_1, txc_copy1, txc_u2_1, txc_u4_1, txc_u8_1,
                   txc_u8_f16, txc_u8_bf16, txc_u8_f32, txc_u8_f64, txc_u8_c64, txc_u8_c128},
        [TX_U16] = {txc_u1_2, txc_i1_2, txc_copy2, txc_u4_2, txc_u8_2, txc_u1_2, txc_copy2, txc_u4_2, txc_u8_2,
                    txc_u16_f16, txc_u16_bf16, txc_u16_f32, txc_u16_f64, txc_u16_c64, txc_u16_c128},
        [TX_U32] = {txc_u1_4, txc_i1_4, txc_i2_4, txc_copy4, txc_u8_4, txc_u1_4, txc_u2_4, txc_copy4, txc_u8_4,
                    txc_u32_f16, txc_u32_bf16, txc_u32_f32, txc_u32_f64, txc_u32_c64, txc_u32_c128},
        [TX_U64] = {txc_u1_8, txc_i1_8, txc_i2_8, txc_i4_8, txc_copy8, txc_u1_8, txc_u2_8, txc_u4_8, txc_copy8,
                    txc_u64_f16, txc_u64_bf16, txc_u64_f32, txc_u64_f64, txc_u64_c64, txc_u64_c128},
        [TX_F16] = {txc_f16_u8, txc_f16_i8, txc_f16_i16, txc_f16_i32, txc_f16_i64, txc_f16_u8, txc_f16_u16,
                    txc_f16_u32, txc_f16_u64, txc_copy2, txc_f16_bf16, txc_f16_f32, txc_f16_f64, txc_f16_c64,
                    txc_f16_c128},
        [TX_BF16] = {txc_bf16_u8, txc_bf16_i8, txc_bf16_i16, txc_bf16_i32, txc_bf16_i64, txc_bf16_u8, txc_bf16_u16,
                     txc_bf16_u32, txc_bf16_u64, txc_bf16_f16, txc_copy2, txc_bf16_f32, txc_bf16_f64, txc_bf16_c64,
                     txc_bf16_c128},
        [TX_F32] = {txc_f32_u8, txc_f32_i8, txc_f32_i16, txc_f32_i32, txc_f32_i64, txc_f32_u8, txc_f32_u16,
                    txc_f32_u32, txc_f32_u64, txc_f32_f16, txc_f32_bf16, txc_copy4, txc_f32_f64, txc_f32_c64,
                    txc_f32_c128},
        [TX_F64] = {txc_f64_u8, txc_f64_i8, txc_f64_i16, txc_f64_i32, txc_f64_i64, txc_f64_u8, txc_f64_u16,
                    txc_f64_u32, txc_f64_u64, txc_f64_f16, txc_f64_bf16, txc_f64_f32, txc_copy8, txc_f64_c64,
                    txc_f64_c128},
        [TX_C64] = {txc_c64_u8, txc_c64_i8, txc_c64_i16, txc_c64_i32, txc_c64_i64, txc_c64_u8, txc_c64_u16,
                    txc_c64_u32, txc_c64_u64, txc_c64_f16, txc_c64_bf16, txc_c64_f32, txc_c64_f64, txc_copy8,
                    txc_c64_c128},
        [TX_C128] = {txc_c128_u8, txc_c128_i8, txc_c128_i16, txc_c128_i32, txc_c128_i64, txc_c128_u8, txc_c128_u16,
                     txc_c128_u32, txc_c128_u64, txc_c128_f16, txc_c128_bf16, txc_c128_f32, txc_c128_f64,
                     txc_c128_c64, txc_copy16},
    };
    memcpy(k->cast, table, sizeof table);
    k->round_half[0] = txc_round_f16;
    k->round_half[1] = txc_round_bf16;
}

#endif
