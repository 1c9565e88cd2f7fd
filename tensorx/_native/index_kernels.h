/* Gather, scatter and accumulation through index arrays: blocks of elements, tasks, checks. See
 * index_positions.h for what a job is. */
#ifndef TX_INDEX_KERNELS_H
#define TX_INDEX_KERNELS_H

#include "index_positions.h"
#include "index_lines.h"

/* ---- one block of elements ---------------------------------------------------------------- */

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

/* x holds float32 sums of halves */
static void txi_add_halves(int dtype, char *x, const int64_t *xo, const char *y, const int64_t *yo, int64_t n) {
    for (int64_t t = 0; t < n; t++) {
        float a;
        memcpy(&a, x + xo[t], 4);
        a += txi_half(dtype, y + yo[t]);
        memcpy(x + xo[t], &a, 4);
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
            if (j->kind == TXI_ADD && tx_is_half(j->dtype)) txi_add_halves(j->dtype, x, xo, y, yo, n);
            else if (j->kind == TXI_ADD) txi_add_items(j->dtype, x, xo, y, yo, n);
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
    txi_line_fn line = txi_line_kernel(j);
    if (line) {
        if (!txi_lines(j, line, p0, p1, o0, o1, 0, INT64_MAX)) __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
        return;
    }
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
    txi_line_fn line = txi_line_kernel(&mine);
    if (line) {
        if (!txi_lines(&mine, line, 0, mine.npos, o0, o1, lo, hi)) __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
        return;
    }
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

/* Range of n contiguous indices, for the usual dtypes. */
#define TXI_RANGE(N, T)                                                              \
    TXI_HOT static int txi_range_##N(const char *p, int64_t n, int64_t size) {       \
        int64_t bad = 0;                                                             \
        for (int64_t t = 0; t < n; t++) {                                            \
            T raw;                                                                   \
            memcpy(&raw, p + t * (int64_t)sizeof raw, sizeof raw);                   \
            int64_t k = (int64_t)raw;                                                \
            bad |= (k < -size) | (k >= size);                                        \
        }                                                                            \
        return !bad;                                                                 \
    }

TXI_RANGE(8, int64_t)
TXI_RANGE(4, int32_t)

typedef struct txi_check {
    const tx_ixarray *q;
    int32_t n;
    int64_t size[TX_MAXDIM], st[TX_MAXDIM], rows, per;
    int32_t bad;
} txi_check;

static void txi_check_task(void *ctx, int64_t chunk) {
    txi_check *c = (txi_check *)ctx;
    const int last = c->n - 1;
    const int isz = tx_item_size[c->q->dtype];
    int64_t xo[TXI_POS];
    tx_ixarray plain = *c->q;
    plain.xs = 0;
    for (int64_t r = chunk * c->per; r < c->rows && r < (chunk + 1) * c->per; r++) {
        const char *p = c->q->p;
        int64_t q = r, n = c->size[last], st = c->st[last];
        for (int d = last - 1; d >= 0; d--) {
            p += q % c->size[d] * c->st[d];
            q /= c->size[d];
        }
        if (__atomic_load_n(&c->bad, __ATOMIC_RELAXED)) return;
        int ok = 1;
        if (c->q->dtype == TX_I64 && st == isz) ok = txi_range_8(p, n, c->q->size);
        else if (c->q->dtype == TX_I32 && st == isz) ok = txi_range_4(p, n, c->q->size);
        else
            for (int64_t t = 0; t < n && ok; t += TXI_POS)
                ok = txi_load(&plain, p + t * st, st, n - t < TXI_POS ? n - t : TXI_POS, xo, NULL);
        if (!ok) __atomic_store_n(&c->bad, 1, __ATOMIC_RELAXED);
    }
}

/* Are all indices in range? To be asked before anything is written. */
static int tx_index_check(tx_index *j) {
    txi_prepare(j);
    for (int a = 0; a < j->nix && j->npos; a++) {
        txi_check c = {.q = &j->ix[a], .n = 0, .bad = 0};
        for (int d = 0; d < j->b.n; d++) { /* its own axes, merged */
            int64_t n = j->b.size[d], st = j->ix[a].st[d];
            if (n == 1 || st == 0) continue;
            if (c.n && c.st[c.n - 1] == st * n) {
                c.size[c.n - 1] *= n;
                c.st[c.n - 1] = st;
            } else {
                c.size[c.n] = n;
                c.st[c.n++] = st;
            }
        }
        if (c.n == 0) {
            c.size[0] = 1;
            c.st[c.n++] = 0;
        }
        if (c.size[c.n - 1] > 65536 && c.size[c.n - 1] % 65536 == 0) { /* long lines in pieces */
            c.size[c.n] = 65536;
            c.st[c.n] = c.st[c.n - 1];
            c.size[c.n - 1] /= 65536;
            c.st[c.n - 1] *= 65536;
            c.n++;
        }
        c.rows = 1;
        for (int d = 0; d + 1 < c.n; d++) c.rows *= c.size[d];
        c.per = 65536 / c.size[c.n - 1] + 1;
        tx_parallel_for((c.rows + c.per - 1) / c.per, txi_check_task, &c, (double)(c.rows * c.size[c.n - 1]) * 5e-4);
        if (c.bad) return 0;
    }
    return 1;
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
    txi_choose_split(j, tx_get_num_threads());
    if (j->kind == TXI_ADD && tx_is_half(j->dtype)) return j->i.n ? txi_half_rows(j) : txi_half_elements(j);
    tx_parallel_for(j->pieces, txi_scatter_task, j, txi_cost_us(j, (double)j->npos));
    return j->bad;
}

#endif
