/* Indexed moves: gather, scatter, accumulation and fill through index arrays or a mask.
 *
 * One description serves them all. x is the side that is indexed, y the dense side. Positions
 * of the index (dimensions b) say where in x: a linear part (stride b.x) plus, for every index
 * array, its value times the stride of the axis it indexes; or, with a mask, the linear part
 * where the mask is true. Every position moves a block of o times i elements: o are the
 * dimensions walked outside of the positions, i those inside. All strides are in bytes.
 *
 * Which thread does what never shows in the result: tasks write disjoint elements of x, and
 * each element sees its positions in order (of several writes the last wins, sums are formed
 * in order). */
#ifndef TX_INDEX_KERNELS_H
#define TX_INDEX_KERNELS_H

#include "types.h"
#include "alloc.h"
#include "pool.h"

#define TXI_POS 512          /* positions resolved at a time */
#define TXI_MASK 16384       /* mask elements per task */
#define TXI_TASK 262144      /* bytes moved per task, about */

enum { TXI_GATHER, TXI_SCATTER, TXI_ADD };

typedef struct tx_ixdims {
    int32_t n;
    int64_t size[TX_MAXDIM], x[TX_MAXDIM], y[TX_MAXDIM];
} tx_ixdims;

typedef struct tx_ixarray {
    const char *p;
    int64_t size;            /* of the axis that is indexed */
    int64_t xs;              /* stride of that axis in x */
    int32_t dtype;
    int64_t st[TX_MAXDIM];   /* over b */
} tx_ixarray;

typedef struct tx_index {
    int32_t kind, nix, log2, dtype;
    char *x, *y;
    tx_ixdims b, o, i;
    tx_ixarray *ix;
    const char *mask;        /* bytes; the index arrays are not used */
    int64_t mst[TX_MAXDIM];
    int64_t kstep;           /* y stride from one true element to the next */
    int64_t *before;         /* true elements before each block of the mask */
    const tx_move_fn *move;  /* by log2 of the item size */
    tx_ew_fn add;            /* contiguous rows of dtype */
    tx_cast_fn widen, narrow;/* halves: to and from float32 */
    int32_t bad;             /* set when an index is out of range */
    /* filled by the launcher */
    int64_t npos, nouter, ninner, per, oper, pieces, icut;
    int32_t split;           /* scatter: what the tasks divide */
    int32_t splitdim;
} tx_index;

enum { TXI_ONE, TXI_BY_OUTER, TXI_BY_POSITION, TXI_BY_INNER, TXI_BY_VALUE };

/* ---- dimensions ---------------------------------------------------------------------- */

static int64_t txi_count(const tx_ixdims *d) {
    int64_t n = 1;
    for (int k = 0; k < d->n; k++) n *= d->size[k];
    return n;
}

static void txi_drop(tx_ixdims *d, int k) {
    for (int e = k; e + 1 < d->n; e++) {
        d->size[e] = d->size[e + 1];
        d->x[e] = d->x[e + 1];
        d->y[e] = d->y[e + 1];
    }
    d->n--;
}

/* Merges neighbours that are walked as one; leaves out dimensions of length one. */
static void txi_collapse(tx_ixdims *d) {
    for (int k = 0; k < d->n;) {
        if (d->size[k] == 1) txi_drop(d, k);
        else k++;
    }
    for (int k = 0; k + 1 < d->n;) {
        int64_t m = d->size[k + 1];
        if (d->x[k] == d->x[k + 1] * m && d->y[k] == d->y[k + 1] * m) {
            d->size[k + 1] = d->size[k] * m;
            txi_drop(d, k);
        } else k++;
    }
}

static void txi_drop_b(tx_index *j, int k) {
    for (int a = 0; a < j->nix; a++)
        for (int e = k; e + 1 < j->b.n; e++) j->ix[a].st[e] = j->ix[a].st[e + 1];
    for (int e = k; e + 1 < j->b.n; e++) j->mst[e] = j->mst[e + 1];
    txi_drop(&j->b, k);
}

static void txi_collapse_b(tx_index *j) {
    tx_ixdims *d = &j->b;
    for (int k = 0; k < d->n;) {
        if (d->size[k] == 1) txi_drop_b(j, k);
        else k++;
    }
    for (int k = 0; k + 1 < d->n;) {
        int64_t m = d->size[k + 1];
        int ok = d->x[k] == d->x[k + 1] * m && d->y[k] == d->y[k + 1] * m;
        if (j->mask) ok = ok && j->mst[k] == j->mst[k + 1] * m;
        for (int a = 0; a < j->nix && ok; a++) ok = j->ix[a].st[k] == j->ix[a].st[k + 1] * m;
        if (ok) {
            d->size[k + 1] = d->size[k] * m;
            txi_drop_b(j, k);
        } else k++;
    }
    if (d->n == 0) { /* a single position */
        d->n = 1;
        d->size[0] = 1;
        d->x[0] = d->y[0] = 0;
        j->mst[0] = 0;
        for (int a = 0; a < j->nix; a++) j->ix[a].st[0] = 0;
    }
}

static void txi_prepare(tx_index *j) {
    txi_collapse(&j->o);
    txi_collapse(&j->i);
    txi_collapse_b(j);
    if (j->kind != TXI_ADD && j->i.n == 1) { /* a short contiguous block is one larger item */
        int64_t isz = (int64_t)1 << j->log2, bytes = j->i.size[0] * isz;
        if (j->i.x[0] == isz && j->i.y[0] == isz && (bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16)) {
            j->log2 = bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 4;
            j->i.n = 0;
        }
    }
    j->npos = txi_count(&j->b);
    j->nouter = txi_count(&j->o);
    j->ninner = txi_count(&j->i);
    j->bad = 0;
}

static inline void txi_outer_at(const tx_index *j, int64_t o, int64_t *x, int64_t *y) {
    int64_t a = 0, b = 0;
    for (int d = j->o.n - 1; d >= 0; d--) {
        int64_t c = o % j->o.size[d];
        o /= j->o.size[d];
        a += c * j->o.x[d];
        b += c * j->o.y[d];
    }
    *x = a;
    *y = b;
}

/* ---- positions ------------------------------------------------------------------------- */

/* Adds the offsets of n indices to xo; where v0 is given, the indices go there too.
 * Returns 0 where one is out of range. */
#define TXI_LOAD(T, WIDE)                                                            \
    for (int64_t t = 0; t < n; t++) {                                                \
        T raw;                                                                       \
        memcpy(&raw, p + t * st, sizeof raw);                                        \
        int64_t v = (int64_t)(WIDE)raw;                                              \
        v += (v >> 63) & size;                                                       \
        bad |= (uint64_t)v >= (uint64_t)size;                                        \
        xo[t] += v * xs;                                                             \
        if (v0) v0[t] = v;                                                           \
    }                                                                                \
    break

static int txi_load(const tx_ixarray *a, const char *p, int64_t st, int64_t n, int64_t *xo, int64_t *v0) {
    const int64_t size = a->size, xs = a->xs;
    int bad = 0;
    switch (a->dtype) {
    case TX_I64: TXI_LOAD(int64_t, int64_t);
    case TX_I32: TXI_LOAD(int32_t, int64_t);
    case TX_I16: TXI_LOAD(int16_t, int64_t);
    case TX_I8: TXI_LOAD(int8_t, int64_t);
    case TX_U8: TXI_LOAD(uint8_t, int64_t);
    case TX_U16: TXI_LOAD(uint16_t, int64_t);
    case TX_U32: TXI_LOAD(uint32_t, int64_t);
    default: /* beyond int64: out of range, not negative */
        for (int64_t t = 0; t < n; t++) {
            uint64_t v;
            memcpy(&v, p + t * st, sizeof v);
            bad |= v >= (uint64_t)size;
            xo[t] += (int64_t)v * xs;
            if (v0) v0[t] = (int64_t)v;
        }
    }
    return !bad;
}

/* Resolves positions pos .. pos + n (n <= TXI_POS): offsets in x and y. Only positions whose
 * first index lies in lo .. hi are kept, in order. Returns their number, -1 for a bad index. */
static int64_t txi_resolve(tx_index *j, int64_t pos, int64_t n, int64_t *xo, int64_t *yo, int64_t lo, int64_t hi) {
    const int last = j->b.n - 1;
    const int filter = lo > 0 || hi < INT64_MAX;
    int64_t c[TX_MAXDIM], v0[TXI_POS], got = 0, r = pos;
    for (int d = last; d >= 0; d--) {
        c[d] = r % j->b.size[d];
        r /= j->b.size[d];
    }
    while (n > 0) {
        int64_t run = j->b.size[last] - c[last], x = 0, y = 0;
        if (run > n) run = n;
        for (int d = 0; d <= last; d++) {
            x += c[d] * j->b.x[d];
            y += c[d] * j->b.y[d];
        }
        const int64_t xs = j->b.x[last], ys = j->b.y[last];
        for (int64_t t = 0; t < run; t++) xo[got + t] = x + t * xs;
        for (int a = 0; a < j->nix; a++) {
            const tx_ixarray *q = &j->ix[a];
            const char *p = q->p;
            for (int d = 0; d <= last; d++) p += c[d] * q->st[d];
            if (!txi_load(q, p, q->st[last], run, xo + got, a == 0 && filter ? v0 : NULL)) {
                __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
                return -1;
            }
        }
        if (filter) {
            int64_t base = got;
            for (int64_t t = 0; t < run; t++) {
                xo[got] = xo[base + t];
                yo[got] = y + t * ys;
                got += v0[t] >= lo && v0[t] < hi;
            }
        } else {
            for (int64_t t = 0; t < run; t++) yo[got + t] = y + t * ys;
            got += run;
        }
        n -= run;
        c[last] += run;
        for (int d = last; d > 0 && c[d] == j->b.size[d]; d--) {
            c[d] = 0;
            c[d - 1]++;
        }
    }
    return got;
}

/* The true ones among mask elements pos .. pos + n: offsets in x; returns their number. */
static int64_t txi_true(const tx_index *j, int64_t pos, int64_t n, int64_t *xo) {
    const int last = j->b.n - 1;
    int64_t c[TX_MAXDIM], got = 0, r = pos;
    for (int d = last; d >= 0; d--) {
        c[d] = r % j->b.size[d];
        r /= j->b.size[d];
    }
    while (n > 0) {
        int64_t run = j->b.size[last] - c[last], x = 0;
        const char *m = j->mask;
        if (run > n) run = n;
        for (int d = 0; d <= last; d++) {
            x += c[d] * j->b.x[d];
            m += c[d] * j->mst[d];
        }
        const int64_t xs = j->b.x[last], ms = j->mst[last];
        int64_t t = 0;
        if (ms == 1) {
            for (; t + 8 <= run; t += 8) {
                uint64_t w;
                memcpy(&w, m + t, 8);
                if (w == 0) continue;
                for (int e = 0; e < 8; e++) {
                    xo[got] = x + (t + e) * xs;
                    got += m[t + e] != 0;
                }
            }
        }
        for (; t < run; t++) {
            xo[got] = x + t * xs;
            got += m[t * ms] != 0;
        }
        n -= run;
        c[last] += run;
        for (int d = last; d > 0 && c[d] == j->b.size[d]; d--) {
            c[d] = 0;
            c[d - 1]++;
        }
    }
    return got;
}

/* ---- one block of elements ---------------------------------------------------------------- */

typedef struct { uint64_t lo, hi; } txi_u128;

#define TXI_ELEMENTS(N, T)                                                                          \
    static void txi_gather_##N(const char *x, const int64_t *xo, char *y, const int64_t *yo, int64_t n) { \
        for (int64_t t = 0; t < n; t++) {                                                           \
            T v;                                                                                    \
            memcpy(&v, x + xo[t], sizeof v);                                                        \
            memcpy(y + yo[t], &v, sizeof v);                                                        \
        }                                                                                           \
    }                                                                                               \
    static void txi_gather_dense_##N(const char *x, const int64_t *xo, char *y, int64_t n) {        \
        for (int64_t t = 0; t < n; t++) {                                                           \
            T v;                                                                                    \
            memcpy(&v, x + xo[t], sizeof v);                                                        \
            memcpy(y + t * (int64_t)sizeof v, &v, sizeof v);                                        \
        }                                                                                           \
    }

TXI_ELEMENTS(0, uint8_t)
TXI_ELEMENTS(1, uint16_t)
TXI_ELEMENTS(2, uint32_t)
TXI_ELEMENTS(3, uint64_t)
TXI_ELEMENTS(4, txi_u128)

/* to[off_to] = from[off_from] for n positions */
static void txi_items(int log2, char *to, const int64_t *off_to, const char *from, const int64_t *off_from, int64_t n) {
    switch (log2) {
    case 0: txi_gather_0(from, off_from, to, off_to, n); break;
    case 1: txi_gather_1(from, off_from, to, off_to, n); break;
    case 2: txi_gather_2(from, off_from, to, off_to, n); break;
    case 3: txi_gather_3(from, off_from, to, off_to, n); break;
    default: txi_gather_4(from, off_from, to, off_to, n);
    }
}

static void txi_items_dense(int log2, char *to, const char *from, const int64_t *off_from, int64_t n) {
    switch (log2) {
    case 0: txi_gather_dense_0(from, off_from, to, n); break;
    case 1: txi_gather_dense_1(from, off_from, to, n); break;
    case 2: txi_gather_dense_2(from, off_from, to, n); break;
    case 3: txi_gather_dense_3(from, off_from, to, n); break;
    default: txi_gather_dense_4(from, off_from, to, n);
    }
}

/* Sums that wrap as the dtype does. */
#define TXI_SUM(T, OP)                                                                                  \
    do {                                                                                                \
        T a, b;                                                                                         \
        memcpy(&a, d, sizeof a);                                                                        \
        memcpy(&b, s, sizeof b);                                                                        \
        a = (T)(a OP b);                                                                                \
        memcpy(d, &a, sizeof a);                                                                        \
    } while (0)

static inline void txi_add_one(int dtype, char *d, const char *s) {
    switch (dtype) {
    case TX_BOOL: TXI_SUM(uint8_t, |); break;
    case TX_I8: case TX_U8: TXI_SUM(uint8_t, +); break;
    case TX_I16: case TX_U16: TXI_SUM(uint16_t, +); break;
    case TX_I32: case TX_U32: TXI_SUM(uint32_t, +); break;
    case TX_I64: case TX_U64: TXI_SUM(uint64_t, +); break;
    case TX_F32: TXI_SUM(float, +); break;
    case TX_F64: TXI_SUM(double, +); break;
    case TX_C64:
        TXI_SUM(float, +);
        d += 4; s += 4;
        TXI_SUM(float, +);
        break;
    default: /* TX_C128 */
        TXI_SUM(double, +);
        d += 8; s += 8;
        TXI_SUM(double, +);
    }
}

#define TXI_ADDS(DT, T, OP)                                                                             \
    case DT:                                                                                            \
        for (int64_t t = 0; t < n; t++) {                                                               \
            char *d = x + xo[t];                                                                        \
            const char *s = y + yo[t];                                                                  \
            TXI_SUM(T, OP);                                                                             \
        }                                                                                               \
        break

static void txi_add_items(int dtype, char *x, const int64_t *xo, const char *y, const int64_t *yo, int64_t n) {
    switch (dtype) {
        TXI_ADDS(TX_F32, float, +);
        TXI_ADDS(TX_F64, double, +);
        TXI_ADDS(TX_I32, uint32_t, +);
        TXI_ADDS(TX_I64, uint64_t, +);
    default:
        for (int64_t t = 0; t < n; t++) txi_add_one(dtype, x + xo[t], y + yo[t]);
    }
}

/* One row of n elements. */
static inline void txi_row(const tx_index *j, char *x, int64_t xs, char *y, int64_t ys, int64_t n) {
    const int64_t isz = (int64_t)1 << j->log2;
    if (j->kind == TXI_GATHER) {
        if (xs == isz && ys == isz) memcpy(y, x, (size_t)(n * isz));
        else j->move[j->log2](y, ys, x, xs, n);
    } else if (j->kind == TXI_SCATTER) {
        if (xs == isz && ys == isz) memcpy(x, y, (size_t)(n * isz));
        else j->move[j->log2](x, xs, y, ys, n);
    } else if (xs == isz && (ys == isz || ys == 0) && n >= 8) {
        const void *src[2] = {x, y};
        j->add(x, src, n, ys == 0 ? 2u : 0u);
    } else {
        for (int64_t t = 0; t < n; t++) txi_add_one(j->dtype, x + t * xs, y + t * ys);
    }
}

/* The inner block of one position; i is the (possibly cut) inner dimensions. */
static void txi_block(const tx_index *j, const tx_ixdims *i, char *x, char *y) {
    const int last = i->n - 1;
    if (last == 0) {
        txi_row(j, x, i->x[0], y, i->y[0], i->size[0]);
        return;
    }
    int64_t c[TX_MAXDIM];
    for (int d = 0; d < last; d++) c[d] = 0;
    for (;;) {
        txi_row(j, x, i->x[last], y, i->y[last], i->size[last]);
        int d = last - 1;
        for (; d >= 0; d--) {
            x += i->x[d];
            y += i->y[d];
            if (++c[d] < i->size[d]) break;
            x -= i->size[d] * i->x[d];
            y -= i->size[d] * i->y[d];
            c[d] = 0;
        }
        if (d < 0) return;
    }
}

/* All outer dimensions o0 .. o1 of n resolved positions. dense: y is contiguous over them. */
static void txi_positions(const tx_index *j, const tx_ixdims *i, const int64_t *xo, const int64_t *yo, int64_t n,
                          int64_t o0, int64_t o1, int dense) {
    for (int64_t o = o0; o < o1; o++) {
        int64_t xa, ya;
        txi_outer_at(j, o, &xa, &ya);
        char *x = j->x + xa, *y = j->y + ya;
        if (i->n == 0) {
            if (j->kind == TXI_ADD) txi_add_items(j->dtype, x, xo, y, yo, n);
            else if (j->kind == TXI_SCATTER) txi_items(j->log2, x, xo, y, yo, n);
            else if (dense) txi_items_dense(j->log2, y + yo[0], x, xo, n);
            else txi_items(j->log2, y, yo, x, xo, n);
            continue;
        }
        for (int64_t t = 0; t < n; t++) {
            if (t + 2 < n) { /* rows lie anywhere: ask for the one after the next */
                const char *p = x + xo[t + 2];
                __builtin_prefetch(p);
                __builtin_prefetch(p + 64);
            }
            txi_block(j, i, x + xo[t], y + yo[t]);
        }
    }
}

/* ---- tasks -------------------------------------------------------------------------------- */

/* Inner dimensions of piece k of `pieces`: the first one is cut. */
static tx_ixdims txi_cut(const tx_index *j, int64_t k, int64_t pieces, int64_t *x, int64_t *y) {
    tx_ixdims i = j->i;
    *x = *y = 0;
    if (pieces > 1) {
        int64_t n = i.size[0], a = n * k / pieces, b = n * (k + 1) / pieces;
        i.size[0] = b - a;
        *x = a * i.x[0];
        *y = a * i.y[0];
    }
    return i;
}

static void txi_gather_task(void *ctx, int64_t chunk) {
    tx_index *j = (tx_index *)ctx;
    int64_t xo[TXI_POS], yo[TXI_POS], ia, ib;
    int64_t nb = (j->npos + j->per - 1) / j->per, no = (j->nouter + j->oper - 1) / j->oper;
    int64_t piece = chunk / (nb * no), rest = chunk % (nb * no);
    int64_t o0 = rest / nb * j->oper, o1 = o0 + j->oper, p0 = rest % nb * j->per, p1 = p0 + j->per;
    tx_ixdims i = txi_cut(j, piece, j->icut, &ia, &ib);
    const int dense = j->b.n == 1 && j->b.y[0] == (int64_t)1 << j->log2;
    if (o1 > j->nouter) o1 = j->nouter;
    if (p1 > j->npos) p1 = j->npos;
    for (int64_t p = p0; p < p1 && !__atomic_load_n(&j->bad, __ATOMIC_RELAXED); p += TXI_POS) {
        int64_t n = p1 - p < TXI_POS ? p1 - p : TXI_POS;
        if (txi_resolve(j, p, n, xo, yo, 0, INT64_MAX) < 0) return;
        for (int64_t t = 0; t < n && (ia || ib); t++) {
            xo[t] += ia;
            yo[t] += ib;
        }
        txi_positions(j, &i, xo, yo, n, o0, o1, dense);
    }
}

static double txi_cost_us(const tx_index *j, double positions) {
    double moved = positions * (double)j->nouter * (double)j->ninner;
    double each = j->i.n ? 2e-4 * (double)((int64_t)1 << j->log2) : 2e-3;
    return positions * 1e-3 * (1 + j->nix) + moved * each;
}

/* y = x[index]; returns 0, or 1 where an index was out of range (y is then undefined). */
static int tx_index_gather(tx_index *j) {
    txi_prepare(j);
    if (!j->npos || !j->nouter || !j->ninner) return 0;
    int64_t block = j->ninner << j->log2;
    j->per = TXI_TASK / (block > 0 ? block : 1);
    if (j->per < 1) j->per = 1;
    if (j->per > 16384) j->per = 16384;
    int64_t each = block * (j->per < j->npos ? j->per : j->npos);
    j->oper = TXI_TASK / each;
    if (j->oper < 1) j->oper = 1;
    if (j->oper > j->nouter) j->oper = j->nouter;
    int64_t tasks = ((j->npos + j->per - 1) / j->per) * ((j->nouter + j->oper - 1) / j->oper);
    j->icut = 1;
    if (tasks < 16 && block > 2 * TXI_TASK && j->i.n) {
        j->icut = block / TXI_TASK;
        if (j->icut > 64) j->icut = 64;
        if (j->icut > j->i.size[0]) j->icut = j->i.size[0];
    }
    tx_parallel_for(tasks * j->icut, txi_gather_task, j, txi_cost_us(j, (double)j->npos));
    return j->bad;
}

static void txi_scatter_task(void *ctx, int64_t k) {
    tx_index *j = (tx_index *)ctx;
    tx_index mine;
    int64_t xo[TXI_POS], yo[TXI_POS], o0 = 0, o1 = j->nouter, lo = 0, hi = INT64_MAX, xa = 0, ya = 0;
    tx_ixdims i = j->i;
    int64_t n = j->pieces;
    tx_ixarray arrays[8], *many = NULL;
    if (j->split == TXI_BY_OUTER) {
        o0 = j->nouter * k / n;
        o1 = j->nouter * (k + 1) / n;
    } else if (j->split == TXI_BY_INNER) {
        i = txi_cut(j, k, n, &xa, &ya);
    } else if (j->split == TXI_BY_VALUE) {
        lo = j->ix[0].size * k / n;
        hi = k + 1 == n ? INT64_MAX : j->ix[0].size * (k + 1) / n;
        if (k == 0) lo = 0;
    }
    mine = *j;
    if (j->split == TXI_BY_POSITION) { /* a range of one linear dimension of the positions */
        int d = j->splitdim;
        int64_t a = j->b.size[d] * k / n, b = j->b.size[d] * (k + 1) / n;
        mine.b.size[d] = b - a;
        xa = a * j->b.x[d];
        ya = a * j->b.y[d];
        if (j->nix <= 8) many = arrays;
        else return; /* the launcher does not choose this */
        for (int q = 0; q < j->nix; q++) {
            many[q] = j->ix[q];
            many[q].p += a * j->ix[q].st[d];
        }
        mine.ix = many;
        mine.npos = txi_count(&mine.b);
    }
    mine.x += xa;
    mine.y += ya;
    for (int64_t p = 0; p < mine.npos; p += TXI_POS) {
        int64_t m = mine.npos - p < TXI_POS ? mine.npos - p : TXI_POS;
        m = txi_resolve(&mine, p, m, xo, yo, lo, hi);
        if (m < 0) { /* the index changed under us: nothing is written outside */
            __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
            return;
        }
        if (m) txi_positions(&mine, &i, xo, yo, m, o0, o1, 0);
    }
}

/* How the work of a scatter is divided, so that no two tasks write one element. */
static void txi_choose_split(tx_index *j, int64_t threads) {
    j->split = TXI_ONE;
    j->pieces = 1;
    if (threads < 2 || txi_cost_us(j, (double)j->npos) < 30.0) return;
    if (j->nouter >= 2 * threads) {
        j->split = TXI_BY_OUTER;
        j->pieces = j->nouter < 8 * threads ? j->nouter : 8 * threads;
        return;
    }
    for (int d = 0; d < j->b.n; d++) {
        if (j->b.x[d] == 0 || j->nix > 8) continue;
        int64_t fine = d == j->b.n - 1 ? 32 : 1; /* not through a cache line */
        if (j->b.size[d] / fine >= 2 * threads) {
            j->split = TXI_BY_POSITION;
            j->splitdim = d;
            j->pieces = j->b.size[d] / fine < 4 * threads ? j->b.size[d] / fine : 4 * threads;
            return;
        }
    }
    if (j->i.n && (j->i.size[0] << (j->i.n == 1 ? j->log2 : 10)) >= 256 * threads) {
        j->split = TXI_BY_INNER;
        j->pieces = j->i.size[0] < threads ? j->i.size[0] : threads;
        return;
    }
    if (j->nix && j->ix[0].size >= threads) {
        j->split = TXI_BY_VALUE;
        j->pieces = threads;
    }
}

static void txi_check_task(void *ctx, int64_t chunk) {
    tx_index *j = (tx_index *)ctx;
    int64_t xo[TXI_POS], yo[TXI_POS];
    for (int64_t p = chunk * 65536; p < j->npos && p < (chunk + 1) * 65536; p += TXI_POS) {
        if (__atomic_load_n(&j->bad, __ATOMIC_RELAXED)) return;
        if (txi_resolve(j, p, j->npos - p < TXI_POS ? j->npos - p : TXI_POS, xo, yo, 0, INT64_MAX) < 0) return;
    }
}

/* Are all indices in range? To be asked before anything is written. */
static int tx_index_check(tx_index *j) {
    txi_prepare(j);
    tx_parallel_for((j->npos + 65535) / 65536, txi_check_task, j, (double)j->npos * 1e-3 * j->nix);
    return !j->bad;
}

/* The first position with an index out of range: which array and what it holds. */
static int tx_index_first_bad(tx_index *j, int64_t *value) {
    for (int64_t p = 0; p < j->npos; p++) {
        int64_t r = p, c[TX_MAXDIM];
        for (int d = j->b.n - 1; d >= 0; d--) {
            c[d] = r % j->b.size[d];
            r /= j->b.size[d];
        }
        for (int a = 0; a < j->nix; a++) {
            const tx_ixarray *q = &j->ix[a];
            const char *at = q->p;
            int64_t off = 0, v;
            tx_ixarray plain = *q;
            for (int d = 0; d < j->b.n; d++) at += c[d] * q->st[d];
            plain.xs = 0;
            if (txi_load(&plain, at, 0, 1, &off, &v)) continue;
            switch (q->dtype) { /* as it was written, before the size was added */
            case TX_I8: v = *(const int8_t *)at; break;
            case TX_I16: { int16_t w; memcpy(&w, at, sizeof w); v = w; break; }
            case TX_I32: { int32_t w; memcpy(&w, at, sizeof w); v = w; break; }
            case TX_I64: memcpy(&v, at, sizeof v); break;
            default: break;
            }
            *value = v;
            return a;
        }
    }
    return -1;
}

#include "index_accumulate.h"
#include "index_mask.h"

/* x[index] = y, or += y. The indices have been checked. Returns 0; 1 where the index changed
 * meanwhile; 2 where scratch memory is short (nothing is written then). */
static int tx_index_scatter(tx_index *j) {
    txi_prepare(j);
    if (!j->npos || !j->nouter || !j->ninner) return 0;
    if (j->kind == TXI_ADD && tx_is_half(j->dtype)) return txi_accumulate_halves(j);
    txi_choose_split(j, tx_get_num_threads());
    tx_parallel_for(j->pieces, txi_scatter_task, j, txi_cost_us(j, (double)j->npos));
    return j->bad;
}

#endif
