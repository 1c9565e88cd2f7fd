/* Explicit lanes for reductions.
 *
 * A float sum that the compiler may not reorder has to be written with its
 * lanes spelled out.  Every sum here runs in TXL_LANES lanes that are combined
 * as a tree, whatever the vector width is, so that all instruction sets give
 * the same bits.  The vectors are GCC/Clang vector extensions of the native
 * width; intrinsics only where those compile badly.
 */
#ifndef TX_LANES_H
#define TX_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define TXL_VBYTES 64
#elif defined(__AVX__)
#define TXL_VBYTES 32
#else
#define TXL_VBYTES 16
#endif

#define TXL_LANES 32
#define TXL_VD (TXL_VBYTES / 8)        /* doubles per vector */
#define TXL_NV (TXL_LANES / TXL_VD)    /* vectors per group of lanes */

#define TXL_STR(x) #x
#define TXL_PRAGMA(x) _Pragma(TXL_STR(x))
#if defined(__clang__)
#define TXL_UNROLL TXL_PRAGMA(clang loop unroll(full))
#else
#define TXL_UNROLL TXL_PRAGMA(GCC unroll 32)
#endif
/* Iterations are independent: dst is src or does not overlap it. */
#define TXL_SIMD TXL_PRAGMA(omp simd)

#define TXL_INLINE static inline __attribute__((always_inline, unused))
/* One copy each, where the compiler would inline or specialise several. */
#if defined(__clang__)
#define TXL_KERNEL static __attribute__((noinline, unused))
#else
#define TXL_KERNEL static __attribute__((noinline, noclone, unused))
#endif
/* In a loop body: keep it scalar, where vectors would be long code for little use. */
#define TXL_SCALAR __asm__ volatile("")

typedef double txl_vd __attribute__((vector_size(TXL_VBYTES)));
typedef float txl_vf __attribute__((vector_size(TXL_VBYTES / 2)));
typedef float txl_vw __attribute__((vector_size(TXL_VBYTES)));
typedef int64_t txl_vi __attribute__((vector_size(TXL_VBYTES)));

/* Half a vector's worth of floats to doubles; GCC splits __builtin_convertvector in two. */
TXL_INLINE txl_vd txl_widen(txl_vf t)
{
#if defined(__AVX512F__)
    return (txl_vd)_mm512_cvtps_pd((__m256)t);
#elif defined(__AVX__)
    return (txl_vd)_mm256_cvtps_pd((__m128)t);
#elif defined(__aarch64__)
    return (txl_vd)vcvt_f64_f32((float32x2_t)t);
#else
    return __builtin_convertvector(t, txl_vd);
#endif
}

TXL_INLINE void txl_load_f32(txl_vd *v, const void *p)
{
    txl_vf t;
    memcpy(&t, p, sizeof t);
    *v = txl_widen(t);
}

TXL_INLINE void txl_load_f64(txl_vd *v, const void *p)
{
    memcpy(v, p, sizeof *v);
}

TXL_INLINE void txl_abs(txl_vd *v)
{
    *v = (txl_vd)((txl_vi)*v & INT64_MAX);
}

/* ---- the last elements of a run, padded to whole vectors ----
 *
 * buf[0..size) = p[0..n) and then fill; size * sizeof(element) is a multiple of 64.  With masked
 * loads where there are any: a buffer that memcpy has just written in small pieces cannot be
 * read back in wide ones without a stall. */

TXL_INLINE void txl_pad_f32(float *buf, const float *p, ptrdiff_t n, int size, float fill)
{
#if defined(__AVX512F__)
    for (int k = 0; k < size; k += 16) {
        const ptrdiff_t m = n - k;
        const __mmask16 mask = (__mmask16)(m >= 16 ? 0xffffu : m <= 0 ? 0u : (1u << m) - 1u);
        _mm512_storeu_ps(buf + k, _mm512_mask_loadu_ps(_mm512_set1_ps(fill), mask, p + k));
    }
#elif defined(__AVX2__)
    for (int k = 0; k < size; k += 8) {
        const int m = (int)(n - k);
        const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(m), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        const __m256 v = _mm256_maskload_ps(p + (m > 0 ? k : 0), mask);
        _mm256_storeu_ps(buf + k, _mm256_blendv_ps(_mm256_set1_ps(fill), v, _mm256_castsi256_ps(mask)));
    }
#else
    for (int k = 0; k < size; k++)
        buf[k] = fill;
    memcpy(buf, p, (size_t)(n < size ? n : size) * sizeof *p);
#endif
}

TXL_INLINE void txl_pad_f64(double *buf, const double *p, ptrdiff_t n, int size, double fill)
{
#if defined(__AVX512F__)
    for (int k = 0; k < size; k += 8) {
        const ptrdiff_t m = n - k;
        const __mmask8 mask = (__mmask8)(m >= 8 ? 0xffu : m <= 0 ? 0u : (1u << m) - 1u);
        _mm512_storeu_pd(buf + k, _mm512_mask_loadu_pd(_mm512_set1_pd(fill), mask, p + k));
    }
#elif defined(__AVX2__)
    for (int k = 0; k < size; k += 4) {
        const ptrdiff_t m = n - k;
        const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(m), _mm256_setr_epi64x(0, 1, 2, 3));
        const __m256d v = _mm256_maskload_pd(p + (m > 0 ? k : 0), mask);
        _mm256_storeu_pd(buf + k, _mm256_blendv_pd(_mm256_set1_pd(fill), v, _mm256_castsi256_pd(mask)));
    }
#else
    for (int k = 0; k < size; k++)
        buf[k] = fill;
    memcpy(buf, p, (size_t)(n < size ? n : size) * sizeof *p);
#endif
}

/* p[0..n) = buf[0..n), n <= size */
TXL_INLINE void txl_unpad_f32(float *p, const float *buf, ptrdiff_t n, int size)
{
#if defined(__AVX512F__)
    for (int k = 0; k < size; k += 16) {
        const ptrdiff_t m = n - k;
        const __mmask16 mask = (__mmask16)(m >= 16 ? 0xffffu : m <= 0 ? 0u : (1u << m) - 1u);
        _mm512_mask_storeu_ps(p + k, mask, _mm512_loadu_ps(buf + k));
    }
#else
    (void)size;
    memcpy(p, buf, (size_t)n * sizeof *p);
#endif
}

TXL_INLINE void txl_unpad_f64(double *p, const double *buf, ptrdiff_t n, int size)
{
#if defined(__AVX512F__)
    for (int k = 0; k < size; k += 8) {
        const ptrdiff_t m = n - k;
        const __mmask8 mask = (__mmask8)(m >= 8 ? 0xffu : m <= 0 ? 0u : (1u << m) - 1u);
        _mm512_mask_storeu_pd(p + k, mask, _mm512_loadu_pd(buf + k));
    }
#else
    (void)size;
    memcpy(p, buf, (size_t)n * sizeof *p);
#endif
}

/* Add the lanes up as a tree: lane i takes lane i + 16, then i + 8, ...; the
 * last two stay apart (even and odd elements, for complex numbers). */
TXL_INLINE void txl_tree(txl_vd *a, double out[2])
{
    double b[TXL_VD];
    TXL_UNROLL
    for (int w = TXL_NV / 2; w >= 1; w /= 2) {
        TXL_UNROLL
        for (int k = 0; k < w; k++)
            a[k] += a[k + w];
    }
    memcpy(b, &a[0], sizeof b);
    TXL_UNROLL
    for (int w = TXL_VD / 2; w >= 2; w /= 2) {
        TXL_UNROLL
        for (int k = 0; k < w; k++)
            b[k] += b[k + w];
    }
    out[0] = b[0];
    out[1] = b[1];
}

/* acc += x * x for x that came from float32: the product is exact, so that a fused
 * multiply-add gives the same bits as none. */
TXL_INLINE void txl_add_square(txl_vd *acc, txl_vd x)
{
#if defined(__AVX512F__)
    *acc = _mm512_fmadd_pd(x, x, *acc);
#elif defined(__FMA__)
    *acc = _mm256_fmadd_pd(x, x, *acc);
#elif defined(__aarch64__)
    *acc = vfmaq_f64(*acc, x, x);
#else
    *acc += x * x;
#endif
}

/* ---- sums that may round groups of four in float32 before they go to double ----
 *
 * For values that are the outcome of rounded float32 arithmetic anyway.  64 elements
 * make a group; lane j of 16 takes (x[j] + x[j + 16]) + (x[j + 32] + x[j + 48]). */

#define TXL_GROUP 64
#define TXL_NW (64 / TXL_VBYTES)       /* vectors of float per 16 lanes */
#define TXL_VF (TXL_VBYTES / 4)        /* floats per vector */
#define TXL_N16 (128 / TXL_VBYTES)     /* vectors of double per 16 lanes */

TXL_INLINE txl_vw txl_load_w(const float *p)
{
    txl_vw v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Add a vector of float to its two vectors of double. */
TXL_INLINE void txl_add_w(txl_vd *acc, txl_vw v)
{
    union { txl_vw w; txl_vf h[2]; } u = {v};
    acc[0] += txl_widen(u.h[0]);
    acc[1] += txl_widen(u.h[1]);
}

TXL_INLINE double txl_tree16(txl_vd *a)
{
    double b[TXL_VD];
    TXL_UNROLL
    for (int w = TXL_N16 / 2; w >= 1; w /= 2) {
        TXL_UNROLL
        for (int k = 0; k < w; k++)
            a[k] += a[k + w];
    }
    memcpy(b, &a[0], sizeof b);
    TXL_UNROLL
    for (int w = TXL_VD / 2; w >= 1; w /= 2) {
        TXL_UNROLL
        for (int k = 0; k < w; k++)
            b[k] += b[k + w];
    }
    return b[0];
}

TXL_INLINE void txl_group_f32(txl_vd *acc, const float *p)
{
    TXL_UNROLL
    for (int w = 0; w < TXL_NW; w++) {
        const float *q = p + w * TXL_VF;
        txl_add_w(acc + 2 * w, (txl_load_w(q) + txl_load_w(q + 16)) + (txl_load_w(q + 32) + txl_load_w(q + 48)));
    }
}

TXL_INLINE double txl_quick_sum_f32(const float *p, ptrdiff_t n)
{
    txl_vd acc[TXL_N16] = {{0}};
    ptrdiff_t i = 0;
    for (; i + TXL_GROUP <= n; i += TXL_GROUP)
        txl_group_f32(acc, p + i);
    if (i < n) {
        float pad[TXL_GROUP];
        txl_pad_f32(pad, p + i, n - i, TXL_GROUP, 0.0f);
        txl_group_f32(acc, pad);
    }
    return txl_tree16(acc);
}

/* ---- sums in double throughout ---- */

enum { TXL_SUM, TXL_SUMSQ, TXL_SUMABS };

TXL_INLINE void txl_step(txl_vd *acc, txl_vd x, const int mode)
{
    if (mode == TXL_SUMSQ)
        x *= x;
    else if (mode == TXL_SUMABS)
        txl_abs(&x);
    *acc += x;
}

TXL_INLINE double txl_one(double x, const int mode)
{
    return mode == TXL_SUMSQ ? x * x : mode == TXL_SUMABS ? __builtin_fabs(x) : x;
}

/* out[0], out[1]: sums over the even and the odd elements of p[0..n). */
TXL_INLINE void txl_sum_f32(const float *p, ptrdiff_t n, const int mode, double out[2])
{
    if (n < 8) {
        out[0] = out[1] = 0.0;
        for (ptrdiff_t i = 0; i < n; i++)
            out[i & 1] += txl_one(p[i], mode);
        return;
    }
    txl_vd acc[TXL_NV] = {{0}}, x;
    ptrdiff_t i = 0;
    for (; i + TXL_LANES <= n; i += TXL_LANES) {
        TXL_UNROLL
        for (int k = 0; k < TXL_NV; k++) {
            txl_load_f32(&x, p + i + k * TXL_VD);
            txl_step(&acc[k], x, mode);
        }
    }
    if (i < n) {
        float pad[TXL_LANES];
        txl_pad_f32(pad, p + i, n - i, TXL_LANES, 0.0f);
        TXL_UNROLL
        for (int k = 0; k < TXL_NV; k++) {
            txl_load_f32(&x, pad + k * TXL_VD);
            txl_step(&acc[k], x, mode);
        }
    }
    txl_tree(acc, out);
}

TXL_INLINE void txl_sum_f64(const double *p, ptrdiff_t n, const int mode, double out[2])
{
    if (n < 8) {
        out[0] = out[1] = 0.0;
        for (ptrdiff_t i = 0; i < n; i++)
            out[i & 1] += txl_one(p[i], mode);
        return;
    }
    txl_vd acc[TXL_NV] = {{0}}, x;
    ptrdiff_t i = 0;
    for (; i + TXL_LANES <= n; i += TXL_LANES) {
        TXL_UNROLL
        for (int k = 0; k < TXL_NV; k++) {
            txl_load_f64(&x, p + i + k * TXL_VD);
            txl_step(&acc[k], x, mode);
        }
    }
    if (i < n) {
        double pad[TXL_LANES];
        txl_pad_f64(pad, p + i, n - i, TXL_LANES, 0.0);
        TXL_UNROLL
        for (int k = 0; k < TXL_NV; k++) {
            txl_load_f64(&x, pad + k * TXL_VD);
            txl_step(&acc[k], x, mode);
        }
    }
    txl_tree(acc, out);
}

/* s + *c += x without losing what the rounding of s drops (Knuth's two-sum). */
TXL_INLINE void txl_two_sum(double *s, double *c, double x)
{
    double t = *s + x, z = t - *s;
    *c += (*s - (t - z)) + (x - z);
    *s = t;
}

/* The compensation is inf - inf = NaN once a sum has overflowed: then it says nothing. */
TXL_INLINE double txl_compensated(double s, double c)
{
    double t = s + c;
    return s - s == 0.0 ? t : s;
}

#endif
