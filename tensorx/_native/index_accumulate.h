/* Accumulation into float16 and bfloat16: every destination is summed in float32, in the order
 * of its positions, and rounded once. Rows: positions with one destination are brought together
 * by a stable sort. Single elements: a float32 array stands for the part of x that is reached,
 * unless that part is far larger than the number of positions. */
#ifndef TX_INDEX_ACCUMULATE_H
#define TX_INDEX_ACCUMULATE_H

typedef struct txi_pair {
    int64_t x, y; /* offsets of one position */
} txi_pair;

typedef struct txi_halves {
    tx_index *j;
    const txi_pair *p;
    int64_t n, pieces;
} txi_halves;

/* Brings equal x together, each group in its old order: stable, 8 bits at a time. a and b have n
 * places; the result is in the returned one. */
static txi_pair *txi_sort(txi_pair *a, txi_pair *b, int64_t n) {
    uint64_t seen = 0; /* bits in which they differ */
    for (int64_t t = 0; t < n; t++) seen |= (uint64_t)a[t].x ^ (uint64_t)a[0].x;
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t start[257];
        if (!((seen >> shift) & 255)) continue;
        memset(start, 0, sizeof start);
        for (int64_t t = 0; t < n; t++) start[(((uint64_t)a[t].x >> shift) & 255) + 1]++;
        for (int d = 0; d < 256; d++) start[d + 1] += start[d];
        for (int64_t t = 0; t < n; t++) b[start[((uint64_t)a[t].x >> shift) & 255]++] = a[t];
        txi_pair *s = a;
        a = b;
        b = s;
    }
    return a;
}

#define TXI_COLUMNS 256

/* acc = float32 of n elements, or acc += them */
static void txi_widen(const tx_index *j, float *acc, const char *p, int64_t st, int64_t n, int add) {
    uint16_t raw[TXI_COLUMNS];
    float wide[TXI_COLUMNS];
    const void *src = p;
    if (st != 2 && n > 1) {
        j->move[1](raw, 2, p, st, n);
        src = raw;
    }
    j->widen(add ? wide : acc, src, n);
    if (add)
        for (int64_t t = 0; t < n; t++) acc[t] += wide[t];
}

static void txi_halves_row(const tx_index *j, const txi_pair *p, int64_t m, char *x, int64_t xs, const char *y, int64_t ys, int64_t n) {
    float acc[TXI_COLUMNS];
    uint16_t out[TXI_COLUMNS];
    for (int64_t c = 0; c < n; c += TXI_COLUMNS) {
        int64_t w = n - c < TXI_COLUMNS ? n - c : TXI_COLUMNS;
        char *d = x + p[0].x + c * xs;
        txi_widen(j, acc, d, xs, w, 0);
        for (int64_t t = 0; t < m; t++) txi_widen(j, acc, y + p[t].y + c * ys, ys, w, 1);
        if (xs == 2 || w == 1) j->narrow(d, acc, w);
        else {
            j->narrow(out, acc, w);
            j->move[1](d, xs, out, 2, w);
        }
    }
}

static void txi_halves_task(void *ctx, int64_t k) {
    const txi_halves *h = (const txi_halves *)ctx;
    const tx_index *j = h->j;
    int64_t a = h->n * k / h->pieces, b = h->n * (k + 1) / h->pieces;
    while (a > 0 && a < h->n && h->p[a].x == h->p[a - 1].x) a++; /* whole groups */
    while (b > 0 && b < h->n && h->p[b].x == h->p[b - 1].x) b++;
    while (a < b) {
        int64_t e = a + 1;
        while (e < b && h->p[e].x == h->p[a].x) e++;
        for (int64_t o = 0; o < j->nouter; o++) {
            int64_t xa, ya;
            txi_outer_at(j, o, &xa, &ya);
            if (j->i.n == 0) {
                txi_halves_row(j, h->p + a, e - a, j->x + xa, 2, j->y + ya, 2, 1);
                continue;
            }
            const int last = j->i.n - 1;
            int64_t c[TX_MAXDIM], rows = j->ninner / j->i.size[last];
            char *x = j->x + xa, *y = j->y + ya;
            for (int d = 0; d < last; d++) c[d] = 0;
            for (int64_t r = 0; r < rows; r++) {
                txi_halves_row(j, h->p + a, e - a, x, j->i.x[last], y, j->i.y[last], j->i.size[last]);
                for (int d = last - 1; d >= 0; d--) {
                    x += j->i.x[d];
                    y += j->i.y[d];
                    if (++c[d] < j->i.size[d]) break;
                    x -= j->i.size[d] * j->i.x[d];
                    y -= j->i.size[d] * j->i.y[d];
                    c[d] = 0;
                }
            }
        }
        a = e;
    }
}

static int txi_half_rows(tx_index *j) {
    size_t bytes = 2 * (size_t)j->npos * sizeof(txi_pair);
    txi_pair *a = (txi_pair *)tx_scratch_alloc(bytes);
    int64_t xo[TXI_POS], yo[TXI_POS];
    if (!a) return 2;
    for (int64_t p = 0; p < j->npos; p += TXI_POS) {
        int64_t n = j->npos - p < TXI_POS ? j->npos - p : TXI_POS;
        if (txi_resolve(j, p, n, xo, yo, 0, INT64_MAX) < 0) {
            tx_scratch_free(a, bytes);
            return 1;
        }
        for (int64_t t = 0; t < n; t++) {
            a[p + t].x = xo[t];
            a[p + t].y = yo[t];
        }
    }
    txi_halves h = {j, txi_sort(a, a + j->npos, j->npos), j->npos, 1};
    h.pieces = 8 * tx_get_num_threads();
    if (h.pieces > h.n) h.pieces = h.n;
    tx_parallel_for(h.pieces, txi_halves_task, &h, 4 * txi_cost_us(j, (double)j->npos));
    tx_scratch_free(a, bytes);
    return 0;
}

typedef struct txi_sums {
    const tx_index *j;
    char *x;       /* the first half that may be reached */
    float *acc;
    int64_t span;
} txi_sums;

static void txi_begin_task(void *ctx, int64_t chunk) {
    const txi_sums *s = (const txi_sums *)ctx;
    int64_t a = chunk * 65536, n = s->span - a < 65536 ? s->span - a : 65536;
    s->j->widen(s->acc + a, s->x + 2 * a, n);
}

/* Rounds the sums that have changed; other memory between them is left alone. */
static void txi_settle_task(void *ctx, int64_t chunk) {
    const txi_sums *s = (const txi_sums *)ctx;
    float old[1024];
    uint16_t out[1024];
    int64_t a = chunk * 65536, end = a + 65536 < s->span ? a + 65536 : s->span;
    for (; a < end; a += 1024) {
        int64_t n = end - a < 1024 ? end - a : 1024;
        s->j->widen(old, s->x + 2 * a, n);
        s->j->narrow(out, s->acc + a, n);
        for (int64_t t = 0; t < n; t++)
            if (memcmp(&old[t], &s->acc[a + t], 4)) memcpy(s->x + 2 * (a + t), &out[t], 2);
    }
}

static void txi_reach(int64_t stride, int64_t size, int64_t *lo, int64_t *hi) {
    int64_t s = stride * (size - 1);
    if (s < 0) *lo += s;
    else *hi += s;
}

static int txi_half_elements(tx_index *j) {
    /* bounds of what may be reached: linear parts, and the axes of the index arrays */
    int64_t lo = 0, hi = 0;
    for (int d = 0; d < j->b.n; d++) txi_reach(j->b.x[d], j->b.size[d], &lo, &hi);
    for (int d = 0; d < j->o.n; d++) txi_reach(j->o.x[d], j->o.size[d], &lo, &hi);
    for (int a = 0; a < j->nix; a++) txi_reach(j->ix[a].xs, j->ix[a].size, &lo, &hi);
    txi_sums s = {j, j->x + lo, NULL, (hi - lo) / 2 + 1};
    if (s.span > 16 * j->npos * j->nouter + 4096) return txi_half_rows(j);
    s.acc = (float *)tx_scratch_alloc((size_t)s.span * 4);
    if (!s.acc) return 2;
    int64_t blocks = (s.span + 65535) / 65536;
    tx_parallel_for(blocks, txi_begin_task, &s, (double)s.span * 3e-4);
    /* the same job on the sums: x has items of twice the size */
    tx_index w = *j;
    tx_ixarray arrays[64];
    w.ix = arrays;
    w.x = (char *)s.acc - 2 * lo;
    for (int d = 0; d < w.b.n; d++) w.b.x[d] *= 2;
    for (int d = 0; d < w.o.n; d++) w.o.x[d] *= 2;
    for (int a = 0; a < w.nix; a++) {
        arrays[a] = j->ix[a];
        arrays[a].xs *= 2;
    }
    tx_parallel_for(w.pieces, txi_scatter_task, &w, 2 * txi_cost_us(j, (double)j->npos));
    if (!w.bad) tx_parallel_for(blocks, txi_settle_task, &s, (double)s.span * 5e-4);
    tx_scratch_free(s.acc, (size_t)s.span * 4);
    return w.bad;
}

#endif
