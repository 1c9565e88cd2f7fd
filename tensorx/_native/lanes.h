/* Explicit lanes for reductions.
 *
 * A float sum that the compiler may not reorder has to be written with its
 * lanes spelled out.  Every sum here runs in TXL_LANES lanes that are combined
 * as a tree, whatever the vector width is, so that all instruction sets give
 * the same bits.  The vectors are GCC/Clang vector extensions of the native
 * width; no intrinsics.
 */
#ifndef TX_LANES_H
#define TX_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
typedef int64_t txl_vi __attribute__((vector_size(TXL_VBYTES)));

TXL_INLINE void txl_load_f32(txl_vd *v, const void *p)
{
    txl_vf t;
    memcpy(&t, p, sizeof t);
    *v = __builtin_convertvector(t, txl_vd);
}

TXL_INLINE void txl_load_f64(txl_vd *v, const void *p)
{
    memcpy(v, p, sizeof *v);
}

TXL_INLINE void txl_abs(txl_vd *v)
{
    *v = (txl_vd)((txl_vi)*v & INT64_MAX);
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
        float pad[TXL_LANES] = {0};
        memcpy(pad, p + i, (size_t)(n - i) * sizeof *p);
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
        double pad[TXL_LANES] = {0};
        memcpy(pad, p + i, (size_t)(n - i) * sizeof *p);
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

/* vfold_rows from an inlinable column step: blocks of columns that stay in L1, all rows of each. */
#define TXL_COLUMNS 512
#define TXL_VFOLD(NAME, SRC, ACC, AUX)                                                               \
    TXL_KERNEL void NAME##_vfold_rows(void *acc, void *aux, const void *src, ptrdiff_t row_stride, ptrdiff_t rows, \
                                      ptrdiff_t n, int64_t index)                                    \
    {                                                                                                \
        for (ptrdiff_t j = 0; j < n; j += TXL_COLUMNS) {                                             \
            ptrdiff_t m = n - j < TXL_COLUMNS ? n - j : TXL_COLUMNS;                                 \
            const char *s = (const char *)src + j * (ptrdiff_t)sizeof(SRC);                          \
            for (ptrdiff_t r = 0; r < rows; r++, s += row_stride)                                    \
                NAME##_col((ACC *)acc + j, (AUX *)aux + j, (const SRC *)s, m, index + r);            \
        }                                                                                            \
    }                                                                                                \
    static void NAME##_vfold(void *acc, void *aux, const void *src, ptrdiff_t n, int64_t index)      \
    {                                                                                                \
        NAME##_vfold_rows(acc, aux, src, 0, 1, n, index);                                            \
    }

#endif
