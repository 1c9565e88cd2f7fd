/* Sums: of values, of their squares, of their absolute values.
 *
 * float32 and complex64 accumulate in double.  float64 and complex128 sum blocks
 * in lanes and add the blocks up with compensation, so the error stays near that
 * of pairwise summation however long the input is.  Integers accumulate in 64
 * bits and wrap around.  Results depend on where a run is cut into folds, never
 * on the instruction set.
 */
#ifndef TX_REDUCE_SUMS_H
#define TX_REDUCE_SUMS_H

#include <math.h>

#include "kernel_abi.h"
#include "lanes.h"
#include "reduce_columns.h"

#define TXR_BLOCK 1024 /* float64 elements between two compensated additions */

#define TXR_SET(OP, DT, FOLD, MERGE, FINISH, VINIT, VMERGE, VFINISH, ACC, VACC, VAUX)           \
    k->red[OP][DT] = (tx_red){FOLD##_fold, MERGE, FINISH, VINIT, FOLD##_vfold, VMERGE, VFINISH, \
                              ACC, VACC, VAUX, 1, FOLD##_vfold_rows}

/* ---- float32 and complex64, in double ---- */

#define TXR_F32(NAME, MODE, EXPR)                                                                    \
    static void txr_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)     \
    {                                                                                                \
        double t[2];                                                                                 \
        (void)first;                                                                                 \
        txl_sum_f32((const float *)src, n, MODE, t);                                                 \
        st->v.d[0] += t[0] + t[1];                                                                   \
        st->seen += n;                                                                               \
    }                                                                                                \
    TXL_INLINE void txr_##NAME##_col(double *acc, char *aux, const float *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                          \
            double x = s[i];                                                                         \
            acc[i] += (EXPR);                                                                        \
        }                                                                                            \
    }                                                                                                \
    TXL_VFOLD(txr_##NAME, float, double)
TXR_F32(sum_f32, TXL_SUM, x)
TXR_F32(sumsq_f32, TXL_SUMSQ, x * x)
TXR_F32(sumabs_f32, TXL_SUMABS, __builtin_fabs(x))

static void txr_d_merge(tx_red_state *a, const tx_red_state *b)
{
    a->v.d[0] += b->v.d[0];
    a->v.d[1] += b->v.d[1];
    a->seen += b->seen;
}

static void txr_d_finish_f32(const tx_red_state *st, void *dst)
{
    *(float *)dst = (float)st->v.d[0];
}

static void txr_d_finish_c64(const tx_red_state *st, void *dst)
{
    ((float *)dst)[0] = (float)st->v.d[0];
    ((float *)dst)[1] = (float)st->v.d[1];
}

static void txr_zero8(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    memset(acc, 0, (size_t)n * 8);
}

static void txr_zero16(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    memset(acc, 0, (size_t)n * 16);
}

static void txr_zero8_8(void *acc, void *aux, ptrdiff_t n)
{
    memset(acc, 0, (size_t)n * 8);
    memset(aux, 0, (size_t)n * 8);
}

static void txr_zero16_16(void *acc, void *aux, ptrdiff_t n)
{
    memset(acc, 0, (size_t)n * 16);
    memset(aux, 0, (size_t)n * 16);
}

static void txr_d_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    double *a = (double *)acc;
    const double *b = (const double *)acc_b;
    (void)aux;
    (void)aux_b;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void txr_z_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    txr_d_vmerge(acc, aux, acc_b, aux_b, 2 * n);
}

static void txr_d_vfinish_f32(void *dst, const void *acc, const void *aux, ptrdiff_t n)
{
    float *d = (float *)dst;
    const double *a = (const double *)acc;
    (void)aux;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = (float)a[i];
}

static void txr_d_vfinish_c64(void *dst, const void *acc, const void *aux, ptrdiff_t n)
{
    txr_d_vfinish_f32(dst, acc, aux, 2 * n);
}

typedef struct { float re, im; } txr_c64;
typedef struct { double re, im; } txr_c128;

static void txr_sum_c64_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)
{
    double t[2];
    (void)first;
    txl_sum_f32((const float *)src, 2 * n, TXL_SUM, t);
    st->v.d[0] += t[0];
    st->v.d[1] += t[1];
    st->seen += n;
}

TXL_INLINE void txr_sum_c64_col(txr_c128 *acc, char *aux, const txr_c64 *s, ptrdiff_t n, int64_t index)
{
    txr_sum_f32_col((double *)acc, aux, (const float *)s, 2 * n, index);
}
TXL_VFOLD(txr_sum_c64, txr_c64, txr_c128)

static void txr_sumsq_c64_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)
{
    txr_sumsq_f32_fold(st, src, 2 * n, first);
    st->seen -= n;
}

TXL_INLINE void txr_sumsq_c64_col(double *acc, char *aux, const txr_c64 *s, ptrdiff_t n, int64_t index)
{
    (void)aux;
    (void)index;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        acc[i] += (double)s[i].re * s[i].re + (double)s[i].im * s[i].im;
}
TXL_VFOLD_PLAIN(txr_sumsq_c64, txr_c64, double, char)

/* |z| in double; an infinite part wins over NaN, as in hypot.  Scaled, so that nothing overflows. */
TXL_INLINE double txr_hypot(double re, double im)
{
    double a = __builtin_fabs(re), b = __builtin_fabs(im);
    double hi = a > b ? a : b, lo = a > b ? b : a;
    double r = hi > 0.0 ? lo / hi : 0.0;
    double h = hi * __builtin_sqrt(1.0 + r * r);
    h = ((a != a) | (b != b)) ? a + b : h;
    return ((a == (double)INFINITY) | (b == (double)INFINITY)) ? (double)INFINITY : h;
}

static void txr_sumabs_c64_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)
{
    const float *s = (const float *)src;
    double h[256], t[2];
    (void)first;
    for (ptrdiff_t i = 0; i < n; i += 256) {
        ptrdiff_t m = n - i < 256 ? n - i : 256;
        TXL_SIMD
        for (ptrdiff_t j = 0; j < m; j++)
            h[j] = txr_hypot(s[2 * (i + j)], s[2 * (i + j) + 1]);
        txl_sum_f64(h, m, TXL_SUM, t);
        st->v.d[0] += t[0] + t[1];
    }
    st->seen += n;
}

TXL_INLINE void txr_sumabs_c64_col(double *acc, char *aux, const txr_c64 *s, ptrdiff_t n, int64_t index)
{
    (void)aux;
    (void)index;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        acc[i] += txr_hypot(s[i].re, s[i].im);
}
TXL_VFOLD_PLAIN(txr_sumabs_c64, txr_c64, double, char)

/* ---- float64 and complex128, compensated ---- */

#define TXR_F64(NAME, MODE, EXPR)                                                                    \
    static void txr_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)     \
    {                                                                                                \
        const double *s = (const double *)src;                                                       \
        double t[2];                                                                                 \
        (void)first;                                                                                 \
        for (ptrdiff_t i = 0; i < n; i += TXR_BLOCK) {                                               \
            txl_sum_f64(s + i, n - i < TXR_BLOCK ? n - i : TXR_BLOCK, MODE, t);                      \
            txl_two_sum(&st->v.d[0], &st->c.d[0], t[0] + t[1]);                                      \
        }                                                                                            \
        st->seen += n;                                                                               \
    }                                                                                                \
    TXL_INLINE void txr_##NAME##_col(double *acc, double *aux, const double *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                          \
            double x = s[i];                                                                         \
            txl_two_sum(&acc[i], &aux[i], (EXPR));                                                   \
        }                                                                                            \
    }                                                                                                \
    TXL_VFOLD_AUX(txr_##NAME, double, double, double)
TXR_F64(sum_f64, TXL_SUM, x)
TXR_F64(sumsq_f64, TXL_SUMSQ, x * x)
TXR_F64(sumabs_f64, TXL_SUMABS, __builtin_fabs(x))

static void txr_k_merge(tx_red_state *a, const tx_red_state *b)
{
    txl_two_sum(&a->v.d[0], &a->c.d[0], b->v.d[0]);
    txl_two_sum(&a->v.d[1], &a->c.d[1], b->v.d[1]);
    a->c.d[0] += b->c.d[0];
    a->c.d[1] += b->c.d[1];
    a->seen += b->seen;
}

static void txr_k_finish_f64(const tx_red_state *st, void *dst)
{
    *(double *)dst = txl_compensated(st->v.d[0], st->c.d[0]);
}

static void txr_k_finish_c128(const tx_red_state *st, void *dst)
{
    ((double *)dst)[0] = txl_compensated(st->v.d[0], st->c.d[0]);
    ((double *)dst)[1] = txl_compensated(st->v.d[1], st->c.d[1]);
}

static void txr_k_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    double *a = (double *)acc, *c = (double *)aux;
    const double *b = (const double *)acc_b, *cb = (const double *)aux_b;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++) {
        txl_two_sum(&a[i], &c[i], b[i]);
        c[i] += cb[i];
    }
}

static void txr_kz_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    txr_k_vmerge(acc, aux, acc_b, aux_b, 2 * n);
}

static void txr_k_vfinish_f64(void *dst, const void *acc, const void *aux, ptrdiff_t n)
{
    double *d = (double *)dst;
    const double *a = (const double *)acc, *c = (const double *)aux;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = txl_compensated(a[i], c[i]);
}

static void txr_k_vfinish_c128(void *dst, const void *acc, const void *aux, ptrdiff_t n)
{
    txr_k_vfinish_f64(dst, acc, aux, 2 * n);
}

static void txr_sum_c128_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)
{
    const double *s = (const double *)src;
    double t[2];
    (void)first;
    for (ptrdiff_t i = 0; i < 2 * n; i += TXR_BLOCK) {
        txl_sum_f64(s + i, 2 * n - i < TXR_BLOCK ? 2 * n - i : TXR_BLOCK, TXL_SUM, t);
        txl_two_sum(&st->v.d[0], &st->c.d[0], t[0]);
        txl_two_sum(&st->v.d[1], &st->c.d[1], t[1]);
    }
    st->seen += n;
}

TXL_INLINE void txr_sum_c128_col(txr_c128 *acc, txr_c128 *aux, const txr_c128 *s, ptrdiff_t n, int64_t index)
{
    txr_sum_f64_col((double *)acc, (double *)aux, (const double *)s, 2 * n, index);
}
TXL_VFOLD_AUX(txr_sum_c128, txr_c128, txr_c128, txr_c128)

static void txr_sumsq_c128_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)
{
    txr_sumsq_f64_fold(st, src, 2 * n, first);
    st->seen -= n;
}

TXL_INLINE void txr_sumsq_c128_col(double *acc, double *aux, const txr_c128 *s, ptrdiff_t n, int64_t index)
{
    (void)index;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++) {
        txl_two_sum(&acc[i], &aux[i], s[i].re * s[i].re);
        txl_two_sum(&acc[i], &aux[i], s[i].im * s[i].im);
    }
}
TXL_VFOLD_PLAIN(txr_sumsq_c128, txr_c128, double, double)

static void txr_sumabs_c128_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)
{
    const double *s = (const double *)src;
    double h[256], t[2];
    (void)first;
    for (ptrdiff_t i = 0; i < n; i += 256) {
        ptrdiff_t m = n - i < 256 ? n - i : 256;
        TXL_SIMD
        for (ptrdiff_t j = 0; j < m; j++)
            h[j] = txr_hypot(s[2 * (i + j)], s[2 * (i + j) + 1]);
        txl_sum_f64(h, m, TXL_SUM, t);
        txl_two_sum(&st->v.d[0], &st->c.d[0], t[0] + t[1]);
    }
    st->seen += n;
}

TXL_INLINE void txr_sumabs_c128_col(double *acc, double *aux, const txr_c128 *s, ptrdiff_t n, int64_t index)
{
    (void)index;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        txl_two_sum(&acc[i], &aux[i], txr_hypot(s[i].re, s[i].im));
}
TXL_VFOLD_PLAIN(txr_sumabs_c128, txr_c128, double, double)

static void txr_copy_f64(void *dst, const void *acc, const void *aux, ptrdiff_t n)
{
    (void)aux;
    if (dst != acc)
        memcpy(dst, acc, (size_t)n * 8);
}

static void txr_copy_c128(void *dst, const void *acc, const void *aux, ptrdiff_t n)
{
    txr_copy_f64(dst, acc, aux, 2 * n);
}

/* ---- integers: wrap around in 64 bits; the same bits whether signed or not ---- */

/* PART: an accumulator that STEP elements cannot overflow.  int64 runs as uint64. */
#define TXR_INT(NAME, T, PART, STEP)                                                                 \
    static void txr_sum_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                                \
        const T *s = (const T *)src;                                                                 \
        uint64_t total = st->v.u;                                                                    \
        (void)first;                                                                                 \
        for (ptrdiff_t i = 0; i < n; i += STEP) {                                                    \
            ptrdiff_t m = n - i < STEP ? n - i : STEP;                                               \
            PART part = 0;                                                                           \
            for (ptrdiff_t j = 0; j < m; j++)                                                        \
                part += (PART)s[i + j];                                                              \
            total += (uint64_t)part;                                                                 \
        }                                                                                            \
        st->v.u = total;                                                                             \
        st->seen += n;                                                                               \
    }                                                                                                \
    TXL_INLINE void txr_sum_##NAME##_col(uint64_t *acc, char *aux, const T *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            acc[i] += (uint64_t)s[i];                                                                \
    }                                                                                                \
    TXL_VFOLD(txr_sum_##NAME, T, uint64_t)
TXR_INT(i8, int8_t, int32_t, 16384)
TXR_INT(i16, int16_t, int32_t, 16384)
TXR_INT(i32, int32_t, int64_t, 16384)
TXR_INT(u8, uint8_t, uint32_t, 16384)
TXR_INT(u16, uint16_t, uint32_t, 16384)
TXR_INT(u32, uint32_t, uint64_t, 16384)
TXR_INT(u64, uint64_t, uint64_t, 16384)

static void txr_isum_merge(tx_red_state *a, const tx_red_state *b)
{
    a->v.u += b->v.u;
    a->seen += b->seen;
}

static void txr_isum_finish(const tx_red_state *st, void *dst)
{
    *(uint64_t *)dst = st->v.u;
}

static void txr_isum_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    uint64_t *a = (uint64_t *)acc;
    const uint64_t *b = (const uint64_t *)acc_b;
    (void)aux;
    (void)aux_b;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        a[i] += b[i];
}

/* ---- the table ---- */

static void txr_fill_sums(tx_kernels *k)
{
#define TXR_REAL(OP, NAME)                                                                          \
    TXR_SET(OP, TX_F32, txr_##NAME##_f32, txr_d_merge, txr_d_finish_f32, txr_zero8, txr_d_vmerge,   \
            txr_d_vfinish_f32, TX_F32, 8, 0);                                                       \
    TXR_SET(OP, TX_F64, txr_##NAME##_f64, txr_k_merge, txr_k_finish_f64, txr_zero8_8, txr_k_vmerge, \
            txr_k_vfinish_f64, TX_F64, 8, 8)
#define TXR_ABS(OP, NAME)                                                                            \
    TXR_SET(OP, TX_C64, txr_##NAME##_c64, txr_d_merge, txr_d_finish_f32, txr_zero8, txr_d_vmerge,    \
            txr_d_vfinish_f32, TX_F32, 8, 0);                                                        \
    TXR_SET(OP, TX_C128, txr_##NAME##_c128, txr_k_merge, txr_k_finish_f64, txr_zero8_8, txr_k_vmerge, \
            txr_k_vfinish_f64, TX_F64, 8, 8)
    TXR_REAL(TX_RED_SUM, sum);
    TXR_REAL(TX_RED_SUMSQ, sumsq);
    TXR_REAL(TX_RED_SUMABS, sumabs);
    TXR_ABS(TX_RED_SUMSQ, sumsq);
    TXR_ABS(TX_RED_SUMABS, sumabs);
    TXR_SET(TX_RED_SUM, TX_C64, txr_sum_c64, txr_d_merge, txr_d_finish_c64, txr_zero16, txr_z_vmerge,
            txr_d_vfinish_c64, TX_C64, 16, 0);
    TXR_SET(TX_RED_SUM, TX_C128, txr_sum_c128, txr_k_merge, txr_k_finish_c128, txr_zero16_16, txr_kz_vmerge,
            txr_k_vfinish_c128, TX_C128, 16, 16);
#define TXR_INTS(DT, NAME, ACC)                                                                      \
    TXR_SET(TX_RED_SUM, DT, txr_sum_##NAME, txr_isum_merge, txr_isum_finish, txr_zero8, txr_isum_vmerge, \
            txr_copy_f64, ACC, 8, 0)
    TXR_INTS(TX_BOOL, u8, TX_I64);
    TXR_INTS(TX_I8, i8, TX_I64);
    TXR_INTS(TX_I16, i16, TX_I64);
    TXR_INTS(TX_I32, i32, TX_I64);
    TXR_INTS(TX_I64, u64, TX_I64);
    TXR_INTS(TX_U8, u8, TX_U64);
    TXR_INTS(TX_U16, u16, TX_U64);
    TXR_INTS(TX_U32, u32, TX_U64);
    TXR_INTS(TX_U64, u64, TX_U64);
}

#endif
