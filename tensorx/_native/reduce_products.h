/* Products.
 *
 * float32 and float64 keep mantissa and exponent apart along a row, so that no
 * intermediate over- or underflows; columns and complex numbers multiply in order,
 * in double.  Integers wrap around in 64 bits.
 */
#ifndef TX_REDUCE_PRODUCTS_H
#define TX_REDUCE_PRODUCTS_H

#include "reduce_sums.h"

/* ---- floats ---- */

/* state: v.d mantissa (or 0, inf, NaN), index the exponent */
TXL_INLINE void txr_prod_one(tx_red_state *st, double m, int64_t e)
{
    int k = 0;
    st->v.d[0] = __builtin_frexp(st->v.d[0] * m, &k);
    /* frexp leaves k open for inf and NaN */
    st->index += st->v.d[0] - st->v.d[0] == 0.0 ? e + k : 0;
}

TXL_INLINE void txr_prod_seq(tx_red_state *st, double x)
{
    int k = 0;
    double m = __builtin_frexp(x, &k);
    txr_prod_one(st, m, x - x == 0.0 ? k : 0);
}

#define TXR_EXPONENT ((int64_t)0x7ff << 52)

#define TXR_PROD(T, LOAD)                                                                          \
    static void txr_prod_##T##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                              \
        const txr_real_##T *s = (const txr_real_##T *)src;                                         \
        ptrdiff_t i = 0;                                                                           \
        (void)first;                                                                               \
        if (st->seen == 0)                                                                         \
            st->v.d[0] = 1.0;                                                                      \
        st->seen += n;                                                                             \
        /* a lane multiplies 8 mantissas below 2, a block 256 */                                   \
        for (; i + 8 * TXL_LANES <= n; i += 8 * TXL_LANES) {                                       \
            double b[TXL_VD];                                                                      \
            int64_t eb[TXL_VD], zb[TXL_VD];                                                        \
            txl_vd p[TXL_NV], x;                                                                   \
            txl_vi e = {0}, odd = {0};                                                             \
            for (int k = 0; k < TXL_NV; k++)                                                       \
                p[k] = (txl_vd){0} + 1.0;                                                          \
            for (int j = 0; j < 8; j++) {                                                          \
                TXL_UNROLL                                                                         \
                for (int k = 0; k < TXL_NV; k++) {                                                 \
                    LOAD(&x, s + i + j * TXL_LANES + k * TXL_VD);                                  \
                    txl_vi u = (txl_vi)x, f = u & TXR_EXPONENT;                                    \
                    odd |= (f == 0) | (f == TXR_EXPONENT);                                         \
                    e += f >> 52;                                                                  \
                    p[k] *= (txl_vd)((u & ~TXR_EXPONENT) | ((int64_t)1023 << 52));                 \
                }                                                                                  \
            }                                                                                      \
            memcpy(zb, &odd, sizeof zb);                                                           \
            int64_t any = 0, sum = 0;                                                              \
            for (int k = 0; k < TXL_VD; k++)                                                       \
                any |= zb[k];                                                                      \
            if (any) {                                                                             \
                for (int j = 0; j < 8 * TXL_LANES; j++)                                            \
                    txr_prod_seq(st, s[i + j]);                                                    \
                continue;                                                                          \
            }                                                                                      \
            memcpy(eb, &e, sizeof eb);                                                             \
            for (int k = 0; k < TXL_VD; k++)                                                       \
                sum += eb[k];                                                                      \
            TXL_UNROLL                                                                             \
            for (int w = TXL_NV / 2; w >= 1; w /= 2)                                               \
                for (int k = 0; k < w; k++)                                                        \
                    p[k] *= p[k + w];                                                              \
            memcpy(b, &p[0], sizeof b);                                                            \
            for (int w = TXL_VD / 2; w >= 1; w /= 2)                                               \
                for (int k = 0; k < w; k++)                                                        \
                    b[k] *= b[k + w];                                                              \
            txr_prod_one(st, b[0], sum - 1023 * 8 * TXL_LANES);                                    \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            txr_prod_seq(st, s[i]);                                                                \
    }
typedef float txr_real_f32;
typedef double txr_real_f64;
TXR_PROD(f32, txl_load_f32)
TXR_PROD(f64, txl_load_f64)

static void txr_prod_merge(tx_red_state *a, const tx_red_state *b)
{
    if (b->seen == 0)
        return;
    if (a->seen == 0)
        *a = *b;
    else {
        txr_prod_one(a, b->v.d[0], b->index);
        a->seen += b->seen;
    }
}

TXL_INLINE double txr_prod_value(const tx_red_state *st)
{
    int64_t e = st->index > 5000 ? 5000 : st->index < -5000 ? -5000 : st->index;
    return st->seen == 0 ? 1.0 : __builtin_ldexp(st->v.d[0], (int)e);
}

static void txr_prod_finish_f32(const tx_red_state *st, void *dst)
{
    *(float *)dst = (float)txr_prod_value(st);
}

static void txr_prod_finish_f64(const tx_red_state *st, void *dst)
{
    *(double *)dst = txr_prod_value(st);
}

static void txr_one_f64(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    for (ptrdiff_t i = 0; i < n; i++)
        ((double *)acc)[i] = 1.0;
}

static void txr_one_c128(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    for (ptrdiff_t i = 0; i < n; i++)
        ((txr_c128 *)acc)[i] = (txr_c128){1.0, 0.0};
}

#define TXR_PROD_COL(T)                                                                              \
    TXL_INLINE void txr_prod_##T##_col(double *acc, char *aux, const txr_real_##T *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            acc[i] *= (double)s[i];                                                                  \
    }                                                                                                \
    TXL_VFOLD_PLAIN(txr_prod_##T, txr_real_##T, double, char)
TXR_PROD_COL(f32)
TXR_PROD_COL(f64)

static void txr_prod_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    double *a = (double *)acc;
    const double *b = (const double *)acc_b;
    (void)aux;
    (void)aux_b;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        a[i] *= b[i];
}

/* ---- complex products: the textbook formula, in order, in double ---- */

/* The minus goes through the sign bit: where GCC sees a difference beside a sum it emits a fused
 * multiply-add-subtract, contraction off or not, and the vector body would differ from the tail. */
TXL_INLINE txr_c128 txr_cmul(txr_c128 a, double re, double im)
{
    uint64_t u;
    double minus_im;
    memcpy(&u, &im, 8);
    u ^= (uint64_t)1 << 63;
    memcpy(&minus_im, &u, 8);
    return (txr_c128){a.re * re + a.im * minus_im, a.re * im + a.im * re};
}

#define TXR_CPROD(T)                                                                                 \
    static void txr_prod_##T##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first)   \
    {                                                                                                \
        const txr_##T *s = (const txr_##T *)src;                                                     \
        txr_c128 p = {st->seen ? st->v.d[0] : 1.0, st->v.d[1]};                                      \
        (void)first;                                                                                 \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            p = txr_cmul(p, s[i].re, s[i].im);                                                       \
        st->v.d[0] = p.re;                                                                           \
        st->v.d[1] = p.im;                                                                           \
        st->seen += n;                                                                               \
    }                                                                                                \
    TXL_INLINE void txr_prod_##T##_col(txr_c128 *acc, char *aux, const txr_##T *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            acc[i] = txr_cmul(acc[i], s[i].re, s[i].im);                                             \
    }                                                                                                \
    TXL_VFOLD_PLAIN(txr_prod_##T, txr_##T, txr_c128, char)
TXR_CPROD(c64)
TXR_CPROD(c128)

static void txr_cprod_merge(tx_red_state *a, const tx_red_state *b)
{
    if (b->seen == 0)
        return;
    txr_c128 p = {a->seen ? a->v.d[0] : 1.0, a->v.d[1]};
    p = txr_cmul(p, b->v.d[0], b->v.d[1]);
    a->v.d[0] = p.re;
    a->v.d[1] = p.im;
    a->seen += b->seen;
}

static void txr_cprod_finish_c64(const tx_red_state *st, void *dst)
{
    ((float *)dst)[0] = st->seen ? (float)st->v.d[0] : 1.0f;
    ((float *)dst)[1] = (float)st->v.d[1];
}

static void txr_cprod_finish_c128(const tx_red_state *st, void *dst)
{
    ((double *)dst)[0] = st->seen ? st->v.d[0] : 1.0;
    ((double *)dst)[1] = st->v.d[1];
}

static void txr_cprod_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    txr_c128 *a = (txr_c128 *)acc;
    const txr_c128 *b = (const txr_c128 *)acc_b;
    (void)aux;
    (void)aux_b;
    for (ptrdiff_t i = 0; i < n; i++)
        a[i] = txr_cmul(a[i], b[i].re, b[i].im);
}

/* ---- integers: wrap around in 64 bits ---- */

#define TXR_IPROD(NAME, T)                                                                           \
    static void txr_prod_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                                \
        const T *s = (const T *)src;                                                                 \
        uint64_t p = st->seen ? st->v.u : 1;                                                         \
        (void)first;                                                                                 \
        uint64_t q[4] = {1, 1, 1, 1};                                                                \
        ptrdiff_t i = 0;                                                                             \
        for (; i + 4 <= n; i += 4) {                                                                 \
            for (int k = 0; k < 4; k++) {                                                            \
                TXL_SCALAR;                                                                          \
                q[k] *= (uint64_t)s[i + k];                                                          \
            }                                                                                        \
        }                                                                                            \
        for (; i < n; i++)                                                                           \
            p *= (uint64_t)s[i];                                                                     \
        st->v.u = p * q[0] * q[1] * q[2] * q[3];                                                     \
        st->seen += n;                                                                               \
    }                                                                                                \
    TXL_INLINE void txr_prod_##NAME##_col(uint64_t *acc, char *aux, const T *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            acc[i] *= (uint64_t)s[i];                                                                \
    }                                                                                                \
    TXL_VFOLD_PLAIN(txr_prod_##NAME, T, uint64_t, char)
TXR_IPROD(i8, int8_t)
TXR_IPROD(i16, int16_t)
TXR_IPROD(i32, int32_t)
TXR_IPROD(u8, uint8_t)
TXR_IPROD(u16, uint16_t)
TXR_IPROD(u32, uint32_t)
TXR_IPROD(u64, uint64_t)

static void txr_iprod_merge(tx_red_state *a, const tx_red_state *b)
{
    if (b->seen)
        a->v.u = (a->seen ? a->v.u : 1) * b->v.u;
    a->seen += b->seen;
}

static void txr_iprod_finish(const tx_red_state *st, void *dst)
{
    *(uint64_t *)dst = st->seen ? st->v.u : 1;
}

static void txr_one_u64(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    for (ptrdiff_t i = 0; i < n; i++)
        ((uint64_t *)acc)[i] = 1;
}

static void txr_iprod_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    uint64_t *a = (uint64_t *)acc;
    const uint64_t *b = (const uint64_t *)acc_b;
    (void)aux;
    (void)aux_b;
    TXL_SIMD
    for (ptrdiff_t i = 0; i < n; i++)
        a[i] *= b[i];
}

/* ---- the table ---- */

static void txr_fill_products(tx_kernels *k)
{
    TXR_SET(TX_RED_PROD, TX_F32, txr_prod_f32, txr_prod_merge, txr_prod_finish_f32, txr_one_f64, txr_prod_vmerge,
            txr_d_vfinish_f32, TX_F32, 8, 0);
    TXR_SET(TX_RED_PROD, TX_F64, txr_prod_f64, txr_prod_merge, txr_prod_finish_f64, txr_one_f64, txr_prod_vmerge,
            txr_copy_f64, TX_F64, 8, 0);
    TXR_SET(TX_RED_PROD, TX_C64, txr_prod_c64, txr_cprod_merge, txr_cprod_finish_c64, txr_one_c128, txr_cprod_vmerge,
            txr_d_vfinish_c64, TX_C64, 16, 0);
    TXR_SET(TX_RED_PROD, TX_C128, txr_prod_c128, txr_cprod_merge, txr_cprod_finish_c128, txr_one_c128,
            txr_cprod_vmerge, txr_copy_c128, TX_C128, 16, 0);
#define TXR_IPRODS(DT, NAME, ACC)                                                                    \
    TXR_SET(TX_RED_PROD, DT, txr_prod_##NAME, txr_iprod_merge, txr_iprod_finish, txr_one_u64, txr_iprod_vmerge, \
            txr_copy_f64, ACC, 8, 0)
    TXR_IPRODS(TX_BOOL, u8, TX_I64);
    TXR_IPRODS(TX_I8, i8, TX_I64);
    TXR_IPRODS(TX_I16, i16, TX_I64);
    TXR_IPRODS(TX_I32, i32, TX_I64);
    TXR_IPRODS(TX_I64, u64, TX_I64);
    TXR_IPRODS(TX_U8, u8, TX_U64);
    TXR_IPRODS(TX_U16, u16, TX_U64);
    TXR_IPRODS(TX_U32, u32, TX_U64);
    TXR_IPRODS(TX_U64, u64, TX_U64);
}

#endif
