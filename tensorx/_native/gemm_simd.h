/* Vector types of the instruction set this file is compiled for, and the few operations
 * on them that plain C cannot say: a fused multiply-add that no flag can undo (contraction
 * is off elsewhere), and broadcasts. */
#ifndef TX_GEMM_SIMD_H
#define TX_GEMM_SIMD_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define TXG_VB 64
#define TXG_NV 4
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define TXG_VB 32
#define TXG_NV 2
#elif defined(__aarch64__) || defined(_M_ARM64)
#include <arm_neon.h>
#define TXG_VB 16
#define TXG_NV 4
#else
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#define TXG_VB 16
#define TXG_NV 2
#endif

/* Rows of a register tile: TXG_MR * TXG_NV accumulators, TXG_NV columns and one broadcast fit the register file. */
#if TXG_VB == 16 && TXG_NV == 2
#define TXG_MR 4
#else
#define TXG_MR 6
#endif

#define TXG_INLINE static inline __attribute__((always_inline))
#define TXG_HOT static __attribute__((noinline))

/* v*: the type in registers; m*: the same in memory, with the alignment of one element. */
#define TXG_VECTOR(name, type)                                                   \
    typedef type v##name __attribute__((vector_size(TXG_VB)));                   \
    typedef type m##name __attribute__((vector_size(TXG_VB), aligned(sizeof(type) < 4 ? sizeof(type) : 4), may_alias));

TXG_VECTOR(txg_f32, float)
TXG_VECTOR(txg_f64, double)
TXG_VECTOR(txg_u16, uint16_t)
TXG_VECTOR(txg_u32, uint32_t)
TXG_VECTOR(txg_u64, uint64_t)
#undef TXG_VECTOR
typedef unsigned char mtxg_any __attribute__((vector_size(TXG_VB), aligned(1), may_alias));

/* TXG_FMA: scalar * vector + vector, TXG_VFMA: vector * vector + vector. */
#if TXG_VB == 64
#define TXG_FMA_f32(s, b, c) ((vtxg_f32)_mm512_fmadd_ps(_mm512_set1_ps(s), (__m512)(b), (__m512)(c)))
#define TXG_FMA_f64(s, b, c) ((vtxg_f64)_mm512_fmadd_pd(_mm512_set1_pd(s), (__m512d)(b), (__m512d)(c)))
#define TXG_VFMA_f32(a, b, c) ((vtxg_f32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define TXG_VFMA_f64(a, b, c) ((vtxg_f64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif TXG_VB == 32
#define TXG_FMA_f32(s, b, c) ((vtxg_f32)_mm256_fmadd_ps(_mm256_set1_ps(s), (__m256)(b), (__m256)(c)))
#define TXG_FMA_f64(s, b, c) ((vtxg_f64)_mm256_fmadd_pd(_mm256_set1_pd(s), (__m256d)(b), (__m256d)(c)))
#define TXG_VFMA_f32(a, b, c) ((vtxg_f32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define TXG_VFMA_f64(a, b, c) ((vtxg_f64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#elif defined(__aarch64__)
#define TXG_FMA_f32(s, b, c) ((vtxg_f32)vfmaq_n_f32((float32x4_t)(c), (float32x4_t)(b), (s)))
#define TXG_FMA_f64(s, b, c) ((vtxg_f64)vfmaq_n_f64((float64x2_t)(c), (float64x2_t)(b), (s)))
#define TXG_VFMA_f32(a, b, c) ((vtxg_f32)vfmaq_f32((float32x4_t)(c), (float32x4_t)(b), (float32x4_t)(a)))
#define TXG_VFMA_f64(a, b, c) ((vtxg_f64)vfmaq_f64((float64x2_t)(c), (float64x2_t)(b), (float64x2_t)(a)))
#else
#define TXG_FMA_f32(s, b, c) ((c) + (b) * (s))
#define TXG_FMA_f64(s, b, c) ((c) + (b) * (s))
#define TXG_VFMA_f32(a, b, c) ((c) + (b) * (a))
#define TXG_VFMA_f64(a, b, c) ((c) + (b) * (a))
#endif
/* One element of the same operation. */
#if TXG_VB > 16 || defined(__aarch64__)
#define TXG_SFMA_f32(a, b, c) __builtin_fmaf(a, b, c)
#define TXG_SFMA_f64(a, b, c) __builtin_fma(a, b, c)
#else
#define TXG_SFMA_f32(a, b, c) ((c) + (a) * (b))
#define TXG_SFMA_f64(a, b, c) ((c) + (a) * (b))
#endif
#define TXG_FMA_u16(s, b, c) ((c) + (b) * (s))
#define TXG_FMA_u32(s, b, c) ((c) + (b) * (s))
#define TXG_FMA_u64(s, b, c) ((c) + (b) * (s))
#define TXG_VFMA_u16(a, b, c) ((c) + (b) * (a))
#define TXG_VFMA_u32(a, b, c) ((c) + (b) * (a))
#define TXG_VFMA_u64(a, b, c) ((c) + (b) * (a))

/* Where loads and stores take masks for free, the last vector of a tile may be a part of one. */
#if TXG_VB == 64
#define TXG_MASKED 1
#define TXG_LOADM_f32(m, p) ((vtxg_f32)_mm512_maskz_loadu_ps((__mmask16)(m), p))
#define TXG_LOADM_f64(m, p) ((vtxg_f64)_mm512_maskz_loadu_pd((__mmask8)(m), p))
#define TXG_LOADM_u16(m, p) ((vtxg_u16)_mm512_maskz_loadu_epi16((__mmask32)(m), p))
#define TXG_LOADM_u32(m, p) ((vtxg_u32)_mm512_maskz_loadu_epi32((__mmask16)(m), p))
#define TXG_LOADM_u64(m, p) ((vtxg_u64)_mm512_maskz_loadu_epi64((__mmask8)(m), p))
#define TXG_STOREM_f32(m, p, x) _mm512_mask_storeu_ps(p, (__mmask16)(m), (__m512)(x))
#define TXG_STOREM_f64(m, p, x) _mm512_mask_storeu_pd(p, (__mmask8)(m), (__m512d)(x))
#define TXG_STOREM_u16(m, p, x) _mm512_mask_storeu_epi16(p, (__mmask32)(m), (__m512i)(x))
#define TXG_STOREM_u32(m, p, x) _mm512_mask_storeu_epi32(p, (__mmask16)(m), (__m512i)(x))
#define TXG_STOREM_u64(m, p, x) _mm512_mask_storeu_epi64(p, (__mmask8)(m), (__m512i)(x))
#else
#define TXG_MASKED 0
#endif

#if defined(__clang__)
#define TXG_UNROLL _Pragma("clang loop unroll(full)")
#define TXG_NO_UNROLL _Pragma("clang loop unroll(disable)")
#define TXG_SHUFFLE(vtype, mtype, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TXG_UNROLL _Pragma("GCC unroll 16")
#define TXG_NO_UNROLL _Pragma("GCC unroll 1")
#define TXG_SHUFFLE(vtype, mtype, a, b, ...) __builtin_shuffle(a, b, (mtype){__VA_ARGS__})
#endif

#define TXG_CAT2(a, b) a##b
#define TXG_CAT(a, b) TXG_CAT2(a, b)

#endif
