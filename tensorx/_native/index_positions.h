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
#ifndef TX_INDEX_POSITIONS_H
#define TX_INDEX_POSITIONS_H

#include "types.h"
#include "alloc.h"
#include "pool.h"

/* gcc vectorises such loops only here; clang always does. */
#if defined(__GNUC__) && !defined(__clang__)
#define TXI_HOT __attribute__((optimize("O3")))
#else
#define TXI_HOT
#endif

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

TXI_HOT static int txi_load(const tx_ixarray *a, const char *p, int64_t st, int64_t n, int64_t *xo, int64_t *v0) {
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
TXI_HOT static int64_t txi_resolve(tx_index *j, int64_t pos, int64_t n, int64_t *xo, int64_t *yo, int64_t lo, int64_t hi) {
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
TXI_HOT static int64_t txi_true(const tx_index *j, int64_t pos, int64_t n, int64_t *xo) {
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

#endif
