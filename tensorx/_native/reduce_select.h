/* Reductions that select: max, min, argmax, argmin, any, all.
 *
 * max and min give NaN as soon as there is one, and order -0 below +0, so that
 * the result does not depend on the order of evaluation.  argmax and argmin give
 * the first NaN, else the first of the best (-0 equals +0).
 */
#ifndef TX_REDUCE_SELECT_H
#define TX_REDUCE_SELECT_H

#include "extreme.h"
#include "kernel_abi.h"
#include "lanes.h"
#include "reduce_columns.h"

#define TXS_BLOCK 2048 /* elements that are read twice (best value, then its place) while in L1 */

/* ---- the best of a run; floats are in extreme.h ---- */

#define TXS_INT(OP, BETTER, T, IDENTITY)                           \
    TXL_INLINE T txs_##OP##_##T(const T *p, ptrdiff_t n, int *nan) \
    {                                                              \
        T best = IDENTITY;                                         \
        for (ptrdiff_t i = 0; i < n; i++)                          \
            best = p[i] BETTER best ? p[i] : best;                 \
        *nan = 0;                                                  \
        return best;                                               \
    }
TXS_INT(max, >, int8_t, INT8_MIN)
TXS_INT(min, <, int8_t, INT8_MAX)
TXS_INT(max, >, int16_t, INT16_MIN)
TXS_INT(min, <, int16_t, INT16_MAX)
TXS_INT(max, >, int32_t, INT32_MIN)
TXS_INT(min, <, int32_t, INT32_MAX)
TXS_INT(max, >, int64_t, INT64_MIN)
TXS_INT(min, <, int64_t, INT64_MAX)
TXS_INT(max, >, uint8_t, 0)
TXS_INT(min, <, uint8_t, UINT8_MAX)
TXS_INT(max, >, uint16_t, 0)
TXS_INT(min, <, uint16_t, UINT16_MAX)
TXS_INT(max, >, uint32_t, 0)
TXS_INT(min, <, uint32_t, UINT32_MAX)
TXS_INT(max, >, uint64_t, 0)
TXS_INT(min, <, uint64_t, UINT64_MAX)

/* ---- max and min ---- */

/* The better of two; NaN wins, and of two zeros +0 for max, -0 for min. */
#define TXS_PICK(OP, BETTER, T, BITS)                                        \
    TXL_INLINE T txs_pick_##OP##_##T(T a, T b)                               \
    {                                                                        \
        BITS ua, ub;                                                         \
        T equal;                                                             \
        memcpy(&ua, &a, sizeof a);                                           \
        memcpy(&ub, &b, sizeof b);                                           \
        ua = TXS_ZERO_##OP(ua, ub);                                          \
        memcpy(&equal, &ua, sizeof equal);                                   \
        /* equal values have equal bits, or are zeros whose signs combine */ \
        T r = b BETTER a ? b : a;                                            \
        r = a == b ? equal : r;                                              \
        return b != b ? b : r;                                               \
    }
#define TXS_ZERO_max(a, b) ((a) & (b))
#define TXS_ZERO_min(a, b) ((a) | (b))
TXS_PICK(max, >, float, uint32_t)
TXS_PICK(min, <, float, uint32_t)
TXS_PICK(max, >, double, uint64_t)
TXS_PICK(min, <, double, uint64_t)

#define TXS_IPICK(T)                                                  \
    TXL_INLINE T txs_pick_max_##T(T a, T b) { return b > a ? b : a; } \
    TXL_INLINE T txs_pick_min_##T(T a, T b) { return b < a ? b : a; }
TXS_IPICK(int8_t)
TXS_IPICK(int16_t)
TXS_IPICK(int32_t)
TXS_IPICK(int64_t)
TXS_IPICK(uint8_t)
TXS_IPICK(uint16_t)
TXS_IPICK(uint32_t)
TXS_IPICK(uint64_t)

/* Whether a block whose best is 0 holds the winning zero (+0 for max, -0 for min). */
#define TXS_ZEROS(T)                                       \
    TXL_INLINE T txs_zero_max_##T(const T *p, ptrdiff_t n) \
    {                                                      \
        T z = (T)-0.0;                                     \
        for (ptrdiff_t i = 0; i < n; i++)                  \
            if (p[i] == 0 && !__builtin_signbit(p[i]))     \
                return 0;                                  \
        return z;                                          \
    }                                                      \
    TXL_INLINE T txs_zero_min_##T(const T *p, ptrdiff_t n) \
    {                                                      \
        for (ptrdiff_t i = 0; i < n; i++)                  \
            if (p[i] == 0 && __builtin_signbit(p[i]))      \
                return (T)-0.0;                            \
        return 0;                                          \
    }
TXS_ZEROS(float)
TXS_ZEROS(double)

/* FIELD: where the state keeps the value (exact in it) */
#define TXS_EXTREME(OP, NAME, T, FIELD, IDENTITY)                                                    \
    static void txs_##OP##_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                                \
        const T *s = (const T *)src;                                                                 \
        (void)first;                                                                                 \
        if (n <= 0)                                                                                  \
            return;                                                                                  \
        T best = st->seen ? (T)st->FIELD : IDENTITY;                                                 \
        for (ptrdiff_t i = 0; i < n && best == best; i += TXS_BLOCK) {                               \
            ptrdiff_t m = n - i < TXS_BLOCK ? n - i : TXS_BLOCK;                                     \
            best = txs_pick_##OP##_##T(best, txs_block_##OP##_##T(s + i, m));                        \
        }                                                                                            \
        st->FIELD = best;                                                                            \
        st->seen += n;                                                                               \
    }                                                                                                \
    static void txs_##OP##_##NAME##_merge(tx_red_state *a, const tx_red_state *b)                    \
    {                                                                                                \
        if (b->seen == 0)                                                                            \
            return;                                                                                  \
        if (a->seen == 0)                                                                            \
            a->FIELD = b->FIELD;                                                                     \
        else                                                                                         \
            a->FIELD = txs_pick_##OP##_##T((T)a->FIELD, (T)b->FIELD);                                \
        a->seen += b->seen;                                                                          \
    }                                                                                                \
    static void txs_##OP##_##NAME##_vinit(void *acc, void *aux, ptrdiff_t n)                         \
    {                                                                                                \
        (void)aux;                                                                                   \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            ((T *)acc)[i] = IDENTITY;                                                                \
    }                                                                                                \
    TXL_INLINE void txs_##OP##_##NAME##_col(T *acc, char *aux, const T *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            acc[i] = txs_pick_##OP##_##T(acc[i], s[i]);                                              \
    }                                                                                                \
    TXL_VFOLD(txs_##OP##_##NAME, T, T)                                                               \
    static void txs_##OP##_##NAME##_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n) \
    {                                                                                                \
        (void)aux_b;                                                                                 \
        txs_##OP##_##NAME##_vfold(acc, aux, acc_b, n, 0);                                            \
    }

/* the best of a block with max's and min's rules for NaN and zeros */
#define TXS_BLOCKS(OP, T)                                  \
    static T txs_block_##OP##_##T(const T *p, ptrdiff_t n) \
    {                                                      \
        int nan;                                           \
        T m = txs_##OP##_##T(p, n, &nan);                  \
        if (nan)                                           \
            return (T)NAN;                                 \
        return m == 0 ? txs_zero_##OP##_##T(p, n) : m;     \
    }
TXS_BLOCKS(max, float)
TXS_BLOCKS(min, float)
TXS_BLOCKS(max, double)
TXS_BLOCKS(min, double)
#define TXS_IBLOCKS(T)                                  \
    static T txs_block_max_##T(const T *p, ptrdiff_t n) \
    {                                                   \
        int nan;                                        \
        return txs_max_##T(p, n, &nan);                 \
    }                                                   \
    static T txs_block_min_##T(const T *p, ptrdiff_t n) \
    {                                                   \
        int nan;                                        \
        return txs_min_##T(p, n, &nan);                 \
    }
TXS_IBLOCKS(int8_t)
TXS_IBLOCKS(int16_t)
TXS_IBLOCKS(int32_t)
TXS_IBLOCKS(int64_t)
TXS_IBLOCKS(uint8_t)
TXS_IBLOCKS(uint16_t)
TXS_IBLOCKS(uint32_t)
TXS_IBLOCKS(uint64_t)

#define TXS_BOTH_EXTREMES(NAME, T, FIELD, LOWEST, HIGHEST) \
    TXS_EXTREME(max, NAME, T, FIELD, LOWEST)               \
    TXS_EXTREME(min, NAME, T, FIELD, HIGHEST)
TXS_BOTH_EXTREMES(i8, int8_t, v.i, INT8_MIN, INT8_MAX)
TXS_BOTH_EXTREMES(i16, int16_t, v.i, INT16_MIN, INT16_MAX)
TXS_BOTH_EXTREMES(i32, int32_t, v.i, INT32_MIN, INT32_MAX)
TXS_BOTH_EXTREMES(i64, int64_t, v.i, INT64_MIN, INT64_MAX)
TXS_BOTH_EXTREMES(u8, uint8_t, v.u, 0, UINT8_MAX)
TXS_BOTH_EXTREMES(u16, uint16_t, v.u, 0, UINT16_MAX)
TXS_BOTH_EXTREMES(u32, uint32_t, v.u, 0, UINT32_MAX)
TXS_BOTH_EXTREMES(u64, uint64_t, v.u, 0, UINT64_MAX)
TXS_BOTH_EXTREMES(f32, float, v.d[0], -INFINITY, INFINITY)
TXS_BOTH_EXTREMES(f64, double, v.d[0], -(double)INFINITY, (double)INFINITY)

#define TXS_FINISH(NAME, T, FIELD)                                                           \
    static void txs_finish_##NAME(const tx_red_state *st, void *dst)                         \
    {                                                                                        \
        *(T *)dst = (T)st->FIELD;                                                            \
    }                                                                                        \
    static void txs_vfinish_##NAME(void *dst, const void *acc, const void *aux, ptrdiff_t n) \
    {                                                                                        \
        (void)aux;                                                                           \
        if (dst != acc)                                                                      \
            memcpy(dst, acc, (size_t)n * sizeof(T));                                         \
    }
TXS_FINISH(i8, int8_t, v.i)
TXS_FINISH(i16, int16_t, v.i)
TXS_FINISH(i32, int32_t, v.i)
TXS_FINISH(i64, int64_t, v.i)
TXS_FINISH(u8, uint8_t, v.u)
TXS_FINISH(u16, uint16_t, v.u)
TXS_FINISH(u32, uint32_t, v.u)
TXS_FINISH(u64, uint64_t, v.u)
TXS_FINISH(f32, float, v.d[0])
TXS_FINISH(f64, double, v.d[0])

/* ---- argmax and argmin: v holds the best value, index its place ---- */

#define TXS_ARG(OP, BETTER, NAME, T, FIELD, IDENTITY)                                                \
    static void txs_arg##OP##_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                                \
        const T *s = (const T *)src;                                                                 \
        for (ptrdiff_t i = 0; i < n; i += TXS_BLOCK) {                                               \
            ptrdiff_t m = n - i < TXS_BLOCK ? n - i : TXS_BLOCK, j = 0;                              \
            int nan;                                                                                 \
            T old = (T)st->FIELD, best;                                                              \
            if (st->seen && old != old)                                                              \
                break;                                                                               \
            best = txs_##OP##_##T(s + i, m, &nan);                                                   \
            if (nan)                                                                                 \
                while (s[i + j] == s[i + j])                                                         \
                    j++;                                                                             \
            else if (!st->seen || best BETTER old)                                                   \
                while (s[i + j] != best)                                                             \
                    j++;                                                                             \
            else                                                                                     \
                continue;                                                                            \
            st->FIELD = s[i + j];                                                                    \
            st->index = first + i + j;                                                               \
            st->seen = 1;                                                                            \
        }                                                                                            \
    }                                                                                                \
    static void txs_arg##OP##_##NAME##_merge(tx_red_state *a, const tx_red_state *b)                 \
    {                                                                                                \
        T x = (T)a->FIELD, y = (T)b->FIELD;                                                          \
        if (b->seen && (!a->seen || (x == x && (y != y || y BETTER x))))                             \
            *a = *b;                                                                                 \
    }                                                                                                \
    static void txs_arg##OP##_##NAME##_vinit(void *acc, void *aux, ptrdiff_t n)                      \
    {                                                                                                \
        for (ptrdiff_t i = 0; i < n; i++) {                                                          \
            ((int64_t *)acc)[i] = -1;                                                                \
            ((T *)aux)[i] = IDENTITY;                                                                \
        }                                                                                            \
    }                                                                                                \
    TXL_INLINE void txs_arg##OP##_##NAME##_one(int64_t *acc, T *aux, T x, int64_t index)             \
    {                                                                                                \
        T y = *aux;                                                                                  \
        int take = (*acc < 0) | (x BETTER y) | ((x != x) & (y == y));                                \
        *acc = take ? index : *acc;                                                                  \
        *aux = take ? x : y;                                                                         \
    }                                                                                                \
    TXL_INLINE void txs_arg##OP##_##NAME##_col(int64_t *acc, T *aux, const T *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        if (sizeof(T) < 4) {                                                                         \
            for (ptrdiff_t i = 0; i < n; i++) {                                                      \
                TXL_SCALAR;                                                                          \
                txs_arg##OP##_##NAME##_one(&acc[i], &aux[i], s[i], index);                           \
            }                                                                                        \
        } else {                                                                                     \
            TXL_SIMD                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                        \
                txs_arg##OP##_##NAME##_one(&acc[i], &aux[i], s[i], index);                           \
        }                                                                                            \
    }                                                                                                \
    TXL_VFOLD_PLAIN(txs_arg##OP##_##NAME, T, int64_t, T)                                             \
    static void txs_arg##OP##_##NAME##_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n) \
    {                                                                                                \
        int64_t *ia = (int64_t *)acc;                                                                \
        const int64_t *ib = (const int64_t *)acc_b;                                                  \
        T *a = (T *)aux;                                                                             \
        const T *b = (const T *)aux_b;                                                               \
        for (ptrdiff_t i = 0; i < n; i++) {                                                          \
            T x = b[i], y = a[i];                                                                    \
            TXL_SCALAR;                                                                              \
            if (ib[i] >= 0 && (ia[i] < 0 || x BETTER y || (x != x && y == y))) {                     \
                ia[i] = ib[i];                                                                       \
                a[i] = x;                                                                            \
            }                                                                                        \
        }                                                                                            \
    }

#define TXS_BOTH_ARGS(NAME, T, FIELD, LOWEST, HIGHEST) \
    TXS_ARG(max, >, NAME, T, FIELD, LOWEST)            \
    TXS_ARG(min, <, NAME, T, FIELD, HIGHEST)
TXS_BOTH_ARGS(i8, int8_t, v.i, INT8_MIN, INT8_MAX)
TXS_BOTH_ARGS(i16, int16_t, v.i, INT16_MIN, INT16_MAX)
TXS_BOTH_ARGS(i32, int32_t, v.i, INT32_MIN, INT32_MAX)
TXS_BOTH_ARGS(i64, int64_t, v.i, INT64_MIN, INT64_MAX)
TXS_BOTH_ARGS(u8, uint8_t, v.u, 0, UINT8_MAX)
TXS_BOTH_ARGS(u16, uint16_t, v.u, 0, UINT16_MAX)
TXS_BOTH_ARGS(u32, uint32_t, v.u, 0, UINT32_MAX)
TXS_BOTH_ARGS(u64, uint64_t, v.u, 0, UINT64_MAX)
TXS_BOTH_ARGS(f32, float, v.d[0], -INFINITY, INFINITY)
TXS_BOTH_ARGS(f64, double, v.d[0], -(double)INFINITY, (double)INFINITY)

static void txs_arg_finish(const tx_red_state *st, void *dst)
{
    *(int64_t *)dst = st->index;
}

/* ---- any and all: v.u is 1 once the answer is settled (any: true, all: false) ---- */

/* U: the bits of an element; HIT(x) is nonzero where x settles the answer.  Checked per
 * block, so that a run ends early. */
#define TXS_TRUTH(OP, NAME, U, HIT, SETTLED)                                                         \
    static void txs_##OP##_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                                \
        const U *s = (const U *)src;                                                                 \
        (void)first;                                                                                 \
        st->seen += n;                                                                               \
        for (ptrdiff_t i = 0; i < n && !st->v.u; i += 512) {                                         \
            ptrdiff_t m = n - i < 512 ? n - i : 512;                                                 \
            U hit = 0;                                                                               \
            for (ptrdiff_t j = 0; j < m; j++)                                                        \
                hit |= (U)HIT(s[i + j]);                                                             \
            st->v.u = hit != 0;                                                                      \
        }                                                                                            \
    }                                                                                                \
    TXL_INLINE void txs_##OP##_##NAME##_col(uint8_t *acc, char *aux, const U *s, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        (void)aux;                                                                                   \
        (void)index;                                                                                 \
        TXL_SIMD                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++)                                                            \
            acc[i] = (uint8_t)(HIT(s[i]) != 0 ? SETTLED : acc[i]);                                   \
    }                                                                                                \
    TXL_VFOLD_PLAIN(txs_##OP##_##NAME, U, uint8_t, char)
#define TXS_NONZERO(x) (x)
#define TXS_IS_ZERO(x) ((x) == 0)
/* floats: the sign does not count, NaN is true */
#define TXS_FNONZERO(x) ((x) << 1)
#define TXS_FIS_ZERO(x) ((x) << 1 == 0)
TXS_TRUTH(any, u8, uint8_t, TXS_NONZERO, 1)
TXS_TRUTH(any, u16, uint16_t, TXS_NONZERO, 1)
TXS_TRUTH(any, u32, uint32_t, TXS_NONZERO, 1)
TXS_TRUTH(any, u64, uint64_t, TXS_NONZERO, 1)
TXS_TRUTH(any, f32, uint32_t, TXS_FNONZERO, 1)
TXS_TRUTH(any, f64, uint64_t, TXS_FNONZERO, 1)
TXS_TRUTH(all, u8, uint8_t, TXS_IS_ZERO, 0)
TXS_TRUTH(all, u16, uint16_t, TXS_IS_ZERO, 0)
TXS_TRUTH(all, u32, uint32_t, TXS_IS_ZERO, 0)
TXS_TRUTH(all, u64, uint64_t, TXS_IS_ZERO, 0)
TXS_TRUTH(all, f32, uint32_t, TXS_FIS_ZERO, 0)
TXS_TRUTH(all, f64, uint64_t, TXS_FIS_ZERO, 0)

#define TXS_START_any 0
#define TXS_START_all 1
/* A complex number is true where one of its parts is: first the truth of each number. */
#define TXS_CTRUTH(OP, NAME, U)                                                                      \
    static void txs_##OP##_##NAME##_vfold_rows(void *acc, void *aux, const void *src, ptrdiff_t row_stride, \
                                               ptrdiff_t rows, ptrdiff_t n, int64_t index)           \
    {                                                                                                \
        uint8_t truth[512];                                                                          \
        for (ptrdiff_t r = 0; r < rows; r++) {                                                       \
            const U *s = (const U *)((const char *)src + r * row_stride);                            \
            for (ptrdiff_t j = 0; j < n; j += 512) {                                                 \
                ptrdiff_t m = n - j < 512 ? n - j : 512;                                             \
                TXL_SIMD                                                                             \
                for (ptrdiff_t i = 0; i < m; i++)                                                    \
                    truth[i] = (s[2 * (j + i)] | s[2 * (j + i) + 1]) << 1 != 0;                      \
                txs_##OP##_u8_vfold((uint8_t *)acc + j, aux, truth, m, index);                       \
            }                                                                                        \
        }                                                                                            \
    }                                                                                                \
    static void txs_##OP##_##NAME##_vfold(void *acc, void *aux, const void *src, ptrdiff_t n, int64_t index) \
    {                                                                                                \
        txs_##OP##_##NAME##_vfold_rows(acc, aux, src, 0, 1, n, index);                               \
    }                                                                                                \
    static void txs_##OP##_##NAME##_fold(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first) \
    {                                                                                                \
        const U *s = (const U *)src;                                                                 \
        uint8_t truth[512];                                                                          \
        for (ptrdiff_t j = 0; j < n && !st->v.u; j += 512) {                                         \
            ptrdiff_t m = n - j < 512 ? n - j : 512;                                                 \
            memset(truth, TXS_START_##OP, sizeof truth);                                             \
            txs_##OP##_##NAME##_vfold_rows(truth, NULL, s + 2 * j, 0, 1, m, first);                  \
            txs_##OP##_u8_fold(st, truth, m, first);                                                 \
        }                                                                                            \
    }
TXS_CTRUTH(any, c64, uint32_t)
TXS_CTRUTH(all, c64, uint32_t)
TXS_CTRUTH(any, c128, uint64_t)
TXS_CTRUTH(all, c128, uint64_t)

static void txs_truth_merge(tx_red_state *a, const tx_red_state *b)
{
    a->v.u |= b->v.u;
    a->seen += b->seen;
}

static void txs_any_finish(const tx_red_state *st, void *dst)
{
    *(uint8_t *)dst = st->v.u != 0;
}

static void txs_all_finish(const tx_red_state *st, void *dst)
{
    *(uint8_t *)dst = st->v.u == 0;
}

static void txs_any_vinit(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    memset(acc, 0, (size_t)n);
}

static void txs_all_vinit(void *acc, void *aux, ptrdiff_t n)
{
    (void)aux;
    memset(acc, 1, (size_t)n);
}

static void txs_any_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    (void)aux;
    (void)aux_b;
    for (ptrdiff_t i = 0; i < n; i++)
        ((uint8_t *)acc)[i] |= ((const uint8_t *)acc_b)[i];
}

static void txs_all_vmerge(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n)
{
    (void)aux;
    (void)aux_b;
    for (ptrdiff_t i = 0; i < n; i++)
        ((uint8_t *)acc)[i] &= ((const uint8_t *)acc_b)[i];
}

/* ---- the table ---- */

#define TXS_SET(OP, DT, FOLD, MERGE, FINISH, VINIT, VMERGE, VFINISH, ACC, VACC, VAUX)           \
    k->red[OP][DT] = (tx_red){FOLD##_fold, MERGE, FINISH, VINIT, FOLD##_vfold, VMERGE, VFINISH, \
                              ACC, VACC, VAUX, 1, FOLD##_vfold_rows}
#define TXS_SET_ONE(OP, op, DT, NAME, SIZE)                                                          \
    TXS_SET(TX_RED_##OP, DT, txs_##op##_##NAME, txs_##op##_##NAME##_merge, txs_finish_##NAME,        \
            txs_##op##_##NAME##_vinit, txs_##op##_##NAME##_vmerge, txs_vfinish_##NAME, DT, SIZE, 0); \
    TXS_SET(TX_RED_ARG##OP, DT, txs_arg##op##_##NAME, txs_arg##op##_##NAME##_merge, txs_arg_finish,  \
            txs_arg##op##_##NAME##_vinit, txs_arg##op##_##NAME##_vmerge, txs_vfinish_i64, TX_I64, 8, SIZE)
#define TXS_SET_EXTREMES(DT, NAME, SIZE)   \
    TXS_SET_ONE(MAX, max, DT, NAME, SIZE); \
    TXS_SET_ONE(MIN, min, DT, NAME, SIZE)
#define TXS_SET_TRUTHS(DT, NAME)                                                                     \
    TXS_SET(TX_RED_ANY, DT, txs_any_##NAME, txs_truth_merge, txs_any_finish, txs_any_vinit, txs_any_vmerge, \
            txs_vfinish_u8, TX_BOOL, 1, 0);                                                          \
    TXS_SET(TX_RED_ALL, DT, txs_all_##NAME, txs_truth_merge, txs_all_finish, txs_all_vinit, txs_all_vmerge, \
            txs_vfinish_u8, TX_BOOL, 1, 0)

static void txr_fill_select(tx_kernels *k)
{
    TXS_SET_EXTREMES(TX_BOOL, u8, 1);
    TXS_SET_EXTREMES(TX_I8, i8, 1);
    TXS_SET_EXTREMES(TX_I16, i16, 2);
    TXS_SET_EXTREMES(TX_I32, i32, 4);
    TXS_SET_EXTREMES(TX_I64, i64, 8);
    TXS_SET_EXTREMES(TX_U8, u8, 1);
    TXS_SET_EXTREMES(TX_U16, u16, 2);
    TXS_SET_EXTREMES(TX_U32, u32, 4);
    TXS_SET_EXTREMES(TX_U64, u64, 8);
    TXS_SET_EXTREMES(TX_F32, f32, 4);
    TXS_SET_EXTREMES(TX_F64, f64, 8);
    TXS_SET_TRUTHS(TX_BOOL, u8);
    TXS_SET_TRUTHS(TX_I8, u8);
    TXS_SET_TRUTHS(TX_I16, u16);
    TXS_SET_TRUTHS(TX_I32, u32);
    TXS_SET_TRUTHS(TX_I64, u64);
    TXS_SET_TRUTHS(TX_U8, u8);
    TXS_SET_TRUTHS(TX_U16, u16);
    TXS_SET_TRUTHS(TX_U32, u32);
    TXS_SET_TRUTHS(TX_U64, u64);
    TXS_SET_TRUTHS(TX_F32, f32);
    TXS_SET_TRUTHS(TX_F64, f64);
    TXS_SET_TRUTHS(TX_C64, c64);
    TXS_SET_TRUTHS(TX_C128, c128);
}

#endif
