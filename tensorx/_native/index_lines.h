/* Single elements through one index array: gather, scatter and sums in one pass. */
#ifndef TX_INDEX_LINES_H
#define TX_INDEX_LINES_H

#include "index_positions.h"

static inline float txi_half(int dtype, const char *p) {
    uint16_t h;
    uint32_t u;
    float f;
    memcpy(&h, p, 2);
    if (dtype == TX_BF16) {
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return f;
    }
    u = (uint32_t)(h & 0x7fff) << 13;
    memcpy(&f, &u, 4);
    f *= 0x1p112f; /* exact, subnormals too */
    memcpy(&u, &f, 4);
    if ((h & 0x7c00) == 0x7c00) u |= 0x7f800000u;
    u |= (uint32_t)(h & 0x8000) << 16;
    memcpy(&f, &u, 4);
    return f;
}

/* ---- single elements through one index array ------------------------------------------------
 * The common case, in one pass without lists of offsets: n positions in a row, x and y advance
 * by xs and ys, the index by st; lo <= index < hi selects what a task writes (the rest goes to
 * a spare place). Returns 0 where an index is out of range; such elements are not touched. */

typedef struct { uint64_t lo, hi; } txi_u128;

typedef struct txi_line {
    char *x, *y;
    const char *p;
    int64_t n, xs, ys, st, size, axis, lo, hi;
    int far, part;           /* part: only lo .. hi is written */
} txi_line;

/* Asks for the element of a later position; far: the axis is longer than a near cache. */
#define TXI_AHEAD(I, W)                                                                              \
    if (far && t + 24 < n) {                                                                         \
        I next;                                                                                      \
        memcpy(&next, p + (t + 24) * st, sizeof next);                                               \
        __builtin_prefetch(x + (t + 24) * xs + ((int64_t)next + (((int64_t)next >> 63) & size)) * axis, W); \
    }

/* One position: k is its index. */
#define TXI_INDEX(I, W)                                                                              \
    I raw;                                                                                           \
    memcpy(&raw, p + t * st, sizeof raw);                                                            \
    TXI_AHEAD(I, W)                                                                                  \
    int64_t k = (int64_t)raw;                                                                        \
    k += (k >> 63) & size

#define TXI_LINE_BEGIN(l)                                                                            \
    const int64_t size = l->size, n = l->n;                                                          \
    const int far = l->far;                                                                          \
    const char *p = l->p;                                                                            \
    char *x = l->x, *y = l->y

#define TXI_INLINE static inline __attribute__((always_inline))

#define TXI_LINE(N, T, I, K)                                                                         \
    TXI_INLINE int txi_get_run_##N##_##K(const txi_line *l, int64_t xs, int64_t axis, int64_t ys, int64_t st) { \
        TXI_LINE_BEGIN(l);                                                                           \
        for (int64_t t = 0; t < n; t++) {                                                            \
            TXI_INDEX(I, 0);                                                                         \
            T v;                                                                                     \
            if ((uint64_t)k >= (uint64_t)size) return 0;                                             \
            memcpy(&v, x + t * xs + k * axis, sizeof v);                                             \
            memcpy(y + t * ys, &v, sizeof v);                                                        \
        }                                                                                            \
        return 1;                                                                                    \
    }                                                                                                \
    TXI_HOT static int txi_get_##N##_##K(const txi_line *l) {                                        \
        if (l->axis == sizeof(T) && l->ys == sizeof(T) && l->st == sizeof(I) && l->xs == 0)          \
            return txi_get_run_##N##_##K(l, 0, sizeof(T), sizeof(T), sizeof(I));                     \
        return txi_get_run_##N##_##K(l, l->xs, l->axis, l->ys, l->st);                               \
    }                                                                                                \
    TXI_HOT static int txi_set_##N##_##K(const txi_line *l) {                                        \
        TXI_LINE_BEGIN(l);                                                                           \
        const int64_t axis = l->axis, xs = l->xs, ys = l->ys, st = l->st;                            \
        const int64_t lo = l->lo, span = l->hi - lo;                                                 \
        T spare;                                                                                     \
        for (int64_t t = 0; t < n; t++) {                                                            \
            TXI_INDEX(I, 1);                                                                         \
            T v;                                                                                     \
            char *to = x + t * xs + k * axis;                                                        \
            to = (uint64_t)(k - lo) < (uint64_t)span ? to : (char *)&spare;                          \
            memcpy(&v, y + t * ys, sizeof v);                                                        \
            memcpy(to, &v, sizeof v);                                                                \
        }                                                                                            \
        return 1;                                                                                    \
    }

/* Sums: Y reads an element of y as the value v. */
#define TXI_LINE_ADD(N, T, Y, I, K)                                                                  \
    TXI_INLINE int txi_inc_run_##N##_##K(const txi_line *l, int64_t xs, int64_t axis, int64_t ys, int64_t st) { \
        TXI_LINE_BEGIN(l);                                                                           \
        const int64_t lo = l->lo, span = l->hi - lo;                                                 \
        if (l->part) {                                                                               \
            T spare = 0;                                                                             \
            for (int64_t t = 0; t < n; t++) {                                                        \
                TXI_INDEX(I, 1);                                                                     \
                T v, w;                                                                              \
                char *to = x + t * xs + k * axis;                                                    \
                to = (uint64_t)(k - lo) < (uint64_t)span ? to : (char *)&spare;                      \
                Y;                                                                                   \
                memcpy(&w, to, sizeof w);                                                            \
                w = (T)(w + v);                                                                      \
                memcpy(to, &w, sizeof w);                                                            \
            }                                                                                        \
            return 1;                                                                                \
        }                                                                                            \
        for (int64_t t = 0; t < n; t++) {                                                            \
            TXI_INDEX(I, 1);                                                                         \
            T v, w;                                                                                  \
            char *to = x + t * xs + k * axis;                                                        \
            if ((uint64_t)k >= (uint64_t)size) return 0;                                             \
            Y;                                                                                       \
            memcpy(&w, to, sizeof w);                                                                \
            w = (T)(w + v);                                                                          \
            memcpy(to, &w, sizeof w);                                                                \
        }                                                                                            \
        return 1;                                                                                    \
    }                                                                                                \
    TXI_HOT static int txi_inc_##N##_##K(const txi_line *l) {                                        \
        if (l->axis == sizeof(T) && l->st == sizeof(I) && l->xs == 0)                                \
            return txi_inc_run_##N##_##K(l, 0, sizeof(T), l->ys, sizeof(I));                         \
        return txi_inc_run_##N##_##K(l, l->xs, l->axis, l->ys, l->st);                               \
    }

#define TXI_SAME memcpy(&v, y + t * ys, sizeof v)
#define TXI_F16 v = txi_half(TX_F16, y + t * ys)
#define TXI_BF16 v = txi_half(TX_BF16, y + t * ys)

TXI_LINE(0, uint8_t, int64_t, 8)
TXI_LINE(1, uint16_t, int64_t, 8)
TXI_LINE(2, uint32_t, int64_t, 8)
TXI_LINE(3, uint64_t, int64_t, 8)
TXI_LINE(4, txi_u128, int64_t, 8)
TXI_LINE(0, uint8_t, int32_t, 4)
TXI_LINE(1, uint16_t, int32_t, 4)
TXI_LINE(2, uint32_t, int32_t, 4)
TXI_LINE(3, uint64_t, int32_t, 4)
TXI_LINE(4, txi_u128, int32_t, 4)
TXI_LINE_ADD(f, float, TXI_SAME, int64_t, 8)
TXI_LINE_ADD(d, double, TXI_SAME, int64_t, 8)
TXI_LINE_ADD(i, uint32_t, TXI_SAME, int64_t, 8)
TXI_LINE_ADD(l, uint64_t, TXI_SAME, int64_t, 8)
TXI_LINE_ADD(h, float, TXI_F16, int64_t, 8)
TXI_LINE_ADD(b, float, TXI_BF16, int64_t, 8)
TXI_LINE_ADD(f, float, TXI_SAME, int32_t, 4)
TXI_LINE_ADD(d, double, TXI_SAME, int32_t, 4)
TXI_LINE_ADD(i, uint32_t, TXI_SAME, int32_t, 4)
TXI_LINE_ADD(l, uint64_t, TXI_SAME, int32_t, 4)
TXI_LINE_ADD(h, float, TXI_F16, int32_t, 4)
TXI_LINE_ADD(b, float, TXI_BF16, int32_t, 4)

typedef int (*txi_line_fn)(const txi_line *);

static txi_line_fn txi_line_kernel(const tx_index *j) {
    static const txi_line_fn get[2][5] = {
        {txi_get_0_8, txi_get_1_8, txi_get_2_8, txi_get_3_8, txi_get_4_8},
        {txi_get_0_4, txi_get_1_4, txi_get_2_4, txi_get_3_4, txi_get_4_4}};
    static const txi_line_fn set[2][5] = {
        {txi_set_0_8, txi_set_1_8, txi_set_2_8, txi_set_3_8, txi_set_4_8},
        {txi_set_0_4, txi_set_1_4, txi_set_2_4, txi_set_3_4, txi_set_4_4}};
    int narrow;
    if (j->nix != 1 || j->i.n != 0 || j->mask) return NULL;
    if (j->ix[0].dtype == TX_I64) narrow = 0;
    else if (j->ix[0].dtype == TX_I32) narrow = 1;
    else return NULL;
    if (j->kind == TXI_GATHER) return get[narrow][j->log2];
    if (j->kind == TXI_SCATTER) return set[narrow][j->log2];
    switch (j->dtype) {
    case TX_F32: return narrow ? txi_inc_f_4 : txi_inc_f_8;
    case TX_F64: return narrow ? txi_inc_d_4 : txi_inc_d_8;
    case TX_I32: case TX_U32: return narrow ? txi_inc_i_4 : txi_inc_i_8;
    case TX_I64: case TX_U64: return narrow ? txi_inc_l_4 : txi_inc_l_8;
    case TX_F16: return narrow ? txi_inc_h_4 : txi_inc_h_8;
    case TX_BF16: return narrow ? txi_inc_b_4 : txi_inc_b_8;
    default: return NULL;
    }
}

/* Positions p0 .. p1 for the outer dimensions o0 .. o1. Returns 0 for a bad index. */
static int txi_lines(const tx_index *j, txi_line_fn run, int64_t p0, int64_t p1, int64_t o0, int64_t o1, int64_t lo, int64_t hi) {
    const tx_ixarray *q = &j->ix[0];
    const int last = j->b.n - 1;
    int64_t c[TX_MAXDIM], r = p0;
    txi_line l;
    int ok = 1;
    l.xs = j->b.x[last];
    l.ys = j->b.y[last];
    l.st = q->st[last];
    l.size = q->size;
    l.axis = q->xs;
    l.far = q->size > 65536 / (q->xs ? llabs(q->xs) : 1);
    l.part = lo > 0 || hi < q->size;
    l.lo = lo;
    l.hi = hi < q->size ? hi : q->size;
    if (q->size == 0) return p0 == p1;
    for (int d = last; d >= 0; d--) {
        c[d] = r % j->b.size[d];
        r /= j->b.size[d];
    }
    while (p0 < p1) {
        int64_t x = 0, y = 0, xa, ya;
        l.n = j->b.size[last] - c[last] < p1 - p0 ? j->b.size[last] - c[last] : p1 - p0;
        l.p = q->p;
        for (int d = 0; d <= last; d++) {
            x += c[d] * j->b.x[d];
            y += c[d] * j->b.y[d];
            l.p += c[d] * q->st[d];
        }
        for (int64_t o = o0; o < o1; o++) {
            txi_outer_at(j, o, &xa, &ya);
            l.x = j->x + x + xa;
            l.y = j->y + y + ya;
            ok &= run(&l);
        }
        p0 += l.n;
        c[last] += l.n;
        for (int d = last; d > 0 && c[d] == j->b.size[d]; d--) {
            c[d] = 0;
            c[d - 1]++;
        }
    }
    return ok;
}

#endif
