/* Masks: counting, compression, expansion, positions of true elements; and strided fills. */
#ifndef TX_INDEX_MASK_H
#define TX_INDEX_MASK_H

static int64_t txi_count_run(const char *m, int64_t ms, int64_t n) {
    int64_t got = 0, t = 0;
    if (ms == 1) {
        for (; t + 8 <= n; t += 8) {
            uint64_t w;
            memcpy(&w, m + t, 8);
            w |= w >> 4;  /* any non-zero byte counts as one */
            w |= w >> 2;
            w |= w >> 1;
            w &= 0x0101010101010101ull;
            got += (int64_t)((w * 0x0101010101010101ull) >> 56);
        }
    }
    for (; t < n; t++) got += m[t * ms] != 0;
    return got;
}

static void txi_count_task(void *ctx, int64_t chunk) {
    tx_index *j = (tx_index *)ctx;
    const int last = j->b.n - 1;
    int64_t pos = chunk * TXI_MASK, n = j->npos - pos < TXI_MASK ? j->npos - pos : TXI_MASK, got = 0;
    int64_t c[TX_MAXDIM], r = pos;
    for (int d = last; d >= 0; d--) {
        c[d] = r % j->b.size[d];
        r /= j->b.size[d];
    }
    while (n > 0) {
        int64_t run = j->b.size[last] - c[last];
        const char *m = j->mask;
        if (run > n) run = n;
        for (int d = 0; d <= last; d++) m += c[d] * j->mst[d];
        got += txi_count_run(m, j->mst[last], run);
        n -= run;
        c[last] += run;
        for (int d = last; d > 0 && c[d] == j->b.size[d]; d--) {
            c[d] = 0;
            c[d - 1]++;
        }
    }
    j->before[chunk] = got;
}

static inline int64_t txi_mask_blocks(const tx_index *j) { return (j->npos + TXI_MASK - 1) / TXI_MASK; }

/* Prepares a job with a mask and counts: j->before (txi_mask_blocks + 1 places, from scratch) holds
 * the true elements before each block. Returns the number of all, -1 where memory is short. */
static int64_t tx_mask_count(tx_index *j) {
    txi_prepare(j);
    int64_t nb = txi_mask_blocks(j), sum = 0;
    j->before = (int64_t *)tx_scratch_alloc((size_t)(nb + 1) * sizeof(int64_t));
    if (!j->before) return -1;
    tx_parallel_for(nb, txi_count_task, j, (double)j->npos * 2e-4);
    for (int64_t k = 0; k < nb; k++) {
        int64_t n = j->before[k];
        j->before[k] = sum;
        sum += n;
    }
    j->before[nb] = sum;
    return sum;
}

static void tx_mask_done(tx_index *j) {
    if (j->before) tx_scratch_free(j->before, (size_t)(txi_mask_blocks(j) + 1) * sizeof(int64_t));
    j->before = NULL;
}

/* ---- contiguous masks over contiguous elements ------------------------------------------ */

#define TXI_ALL 0x0101010101010101ull

/* Length of the run of true words (of 8 elements) that starts at m. */
static inline int64_t txi_true_run(const char *m, int64_t n) {
    int64_t r = 0;
    uint64_t w;
    while (r + 8 <= n) {
        memcpy(&w, m + r, 8);
        if (w != TXI_ALL) break;
        r += 8;
    }
    return r;
}

/* compress: y takes the elements under the mask; expand: the elements under the mask take y;
 * both stop after limit elements. cover: they all take one value. */
#define TXI_MASKED(N, T)                                                                           \
    TXI_HOT static void txi_compress_##N(const T *x, const char *m, int64_t n, T *y, int64_t limit) { \
        int64_t t = 0, k = 0;                                                                      \
        while (t + 8 <= n && k + 8 <= limit) {                                                     \
            uint64_t w;                                                                            \
            memcpy(&w, m + t, 8);                                                                  \
            if (w == 0) { t += 8; continue; }                                                      \
            if (w == TXI_ALL) {                                                                    \
                int64_t r = txi_true_run(m + t, n - t);                                            \
                if (r > limit - k) r = limit - k;                                                  \
                memcpy(y + k, x + t, (size_t)r * sizeof(T));                                       \
                k += r;                                                                            \
                t += r;                                                                            \
                continue;                                                                          \
            }                                                                                      \
            for (int e = 0; e < 8; e++) {                                                          \
                y[k] = x[t + e];                                                                   \
                k += m[t + e] != 0;                                                                \
            }                                                                                      \
            t += 8;                                                                                \
        }                                                                                          \
        for (; t < n && k < limit; t++)                                                            \
            if (m[t]) y[k++] = x[t];                                                               \
    }                                                                                              \
    TXI_HOT static void txi_expand_##N(T *x, const char *m, int64_t n, const T *y, int64_t limit) { \
        int64_t t = 0, k = 0;                                                                      \
        while (t + 8 <= n && k + 8 <= limit) {                                                     \
            uint64_t w;                                                                            \
            memcpy(&w, m + t, 8);                                                                  \
            if (w == 0) { t += 8; continue; }                                                      \
            if (w == TXI_ALL) {                                                                    \
                int64_t r = txi_true_run(m + t, n - t);                                            \
                if (r > limit - k) r = limit - k;                                                  \
                memcpy(x + t, y + k, (size_t)r * sizeof(T));                                       \
                k += r;                                                                            \
                t += r;                                                                            \
                continue;                                                                          \
            }                                                                                      \
            for (int e = 0; e < 8; e++) {                                                          \
                T b = (T)-(T)(m[t + e] != 0);                                                      \
                x[t + e] = (T)((y[k] & b) | (x[t + e] & (T)~b));                                   \
                k += m[t + e] != 0;                                                                \
            }                                                                                      \
            t += 8;                                                                                \
        }                                                                                          \
        for (; t < n && k < limit; t++)                                                            \
            if (m[t]) x[t] = y[k++];                                                               \
    }                                                                                              \
    TXI_HOT static void txi_cover_##N(T *x, const char *m, int64_t n, T v) {                       \
        int64_t t = 0;                                                                             \
        while (t + 8 <= n) {                                                                       \
            uint64_t w;                                                                            \
            memcpy(&w, m + t, 8);                                                                  \
            if (w == 0) { t += 8; continue; }                                                      \
            if (w == TXI_ALL) {                                                                    \
                int64_t r = txi_true_run(m + t, n - t);                                            \
                for (int64_t e = 0; e < r; e++) x[t + e] = v;                                      \
                t += r;                                                                            \
                continue;                                                                          \
            }                                                                                      \
            for (int e = 0; e < 8; e++) {                                                          \
                T b = (T)-(T)(m[t + e] != 0);                                                      \
                x[t + e] = (T)((v & b) | (x[t + e] & (T)~b));                                      \
            }                                                                                      \
            t += 8;                                                                                \
        }                                                                                          \
        for (; t < n; t++)                                                                         \
            if (m[t]) x[t] = v;                                                                    \
    }

TXI_MASKED(0, uint8_t)
TXI_MASKED(1, uint16_t)
TXI_MASKED(2, uint32_t)
TXI_MASKED(3, uint64_t)

#define TXI_MASKED_CASE(N, T)                                                                      \
    case N: {                                                                                      \
        T *x = (T *)(void *)(j->x + pos * (int64_t)sizeof(T));                                     \
        if (j->kstep == 0) {                                                                       \
            T v;                                                                                   \
            memcpy(&v, j->y, sizeof v);                                                            \
            txi_cover_##N(x, j->mask + pos, n, v);                                                 \
        } else {                                                                                   \
            T *y = (T *)(void *)(j->y + k * (int64_t)sizeof(T));                                   \
            if (j->kind == TXI_GATHER) txi_compress_##N(x, j->mask + pos, n, y, limit);            \
            else txi_expand_##N(x, j->mask + pos, n, y, limit);                                    \
        }                                                                                          \
        return 1;                                                                                  \
    }

/* A block of such a mask at once; 0 where the general way has to be taken. k and limit: how many
 * elements of y come before, and how many the block has. */
static int txi_mask_plain(const tx_index *j, int64_t pos, int64_t n, int64_t k, int64_t limit) {
    const int64_t isz = (int64_t)1 << j->log2;
    if (j->b.n != 1 || j->mst[0] != 1 || j->b.x[0] != isz || j->nouter != 1 || j->i.n || j->kind == TXI_ADD) return 0;
    if (j->kstep != isz && !(j->kstep == 0 && j->kind == TXI_SCATTER)) return 0;
    if (((uintptr_t)j->x | (uintptr_t)j->y) & (uintptr_t)(isz - 1)) return 0;
    switch (j->log2) {
        TXI_MASKED_CASE(0, uint8_t)
        TXI_MASKED_CASE(1, uint16_t)
        TXI_MASKED_CASE(2, uint32_t)
        TXI_MASKED_CASE(3, uint64_t)
    default: return 0;
    }
}

static void txi_mask_task(void *ctx, int64_t chunk) {
    tx_index *j = (tx_index *)ctx;
    int64_t xo[TXI_POS + 8], yo[TXI_POS + 8], k = j->before ? j->before[chunk] : 0;
    int64_t end = (chunk + 1) * TXI_MASK < j->npos ? (chunk + 1) * TXI_MASK : j->npos;
    const int dense = j->kstep == (int64_t)1 << j->log2;
    if (j->before && j->before[chunk] == j->before[chunk + 1]) return;
    if (txi_mask_plain(j, chunk * TXI_MASK, end - chunk * TXI_MASK, k, j->before ? j->before[chunk + 1] - k : 0)) return;
    for (int64_t p = chunk * TXI_MASK; p < end; p += TXI_POS) {
        int64_t n = txi_true(j, p, end - p < TXI_POS ? end - p : TXI_POS, xo);
        if (j->before && k + n > j->before[chunk + 1]) n = j->before[chunk + 1] - k; /* the mask changed under us */
        for (int64_t t = 0; t < n; t++) yo[t] = (k + t) * j->kstep;
        if (n) txi_positions(j, &j->i, xo, yo, n, 0, j->nouter, dense);
        k += n;
    }
}

/* Moves between the true positions of x and y; with j->before == NULL every position takes the
 * same y (kstep 0). */
static void tx_mask_move(tx_index *j) {
    txi_prepare(j);
    if (!j->npos || !j->nouter || !j->ninner) return;
    double share = j->before ? (double)j->before[txi_mask_blocks(j)] : 0.3 * (double)j->npos;
    tx_parallel_for(txi_mask_blocks(j), txi_mask_task, j, (double)j->npos * 1e-3 + txi_cost_us(j, share));
}

/* ---- positions of true elements --------------------------------------------------------- */

typedef struct tx_nonzero {
    const char *mask;
    int32_t nd;
    int64_t size[TX_MAXDIM], mst[TX_MAXDIM]; /* not collapsed: coordinates are wanted */
    int64_t *out[TX_MAXDIM];
    int64_t step;                            /* elements from one position to the next */
    const int64_t *before;
    int64_t npos;
} tx_nonzero;

TXI_HOT static void txi_nonzero_task(void *ctx, int64_t chunk) {
    const tx_nonzero *z = (const tx_nonzero *)ctx;
    const int last = z->nd - 1;
    int64_t pos = chunk * TXI_MASK, n = z->npos - pos < TXI_MASK ? z->npos - pos : TXI_MASK;
    int64_t c[TX_MAXDIM], r = pos, k = z->before[chunk];
    const int64_t stop = z->before[chunk + 1];
    for (int d = last; d >= 0; d--) {
        c[d] = r % z->size[d];
        r /= z->size[d];
    }
    while (n > 0) {
        int64_t run = z->size[last] - c[last];
        const char *m = z->mask;
        if (run > n) run = n;
        for (int d = 0; d <= last; d++) m += c[d] * z->mst[d];
        int64_t t = 0;
        if (last == 0 && z->mst[0] == 1 && z->step == 1) {
            int64_t *out = z->out[0];
            while (t + 8 <= run && k + 8 <= stop) {
                uint64_t w;
                memcpy(&w, m + t, 8);
                for (int e = 0; e < 8 && w; e++) {
                    out[k] = c[0] + t + e;
                    k += m[t + e] != 0;
                }
                t += 8;
            }
        }
        for (; t < run && k < stop; t++) {
            if (!m[t * z->mst[last]]) continue;
            for (int d = 0; d < last; d++) z->out[d][k * z->step] = c[d];
            z->out[last][k * z->step] = c[last] + t;
            k++;
        }
        n -= run;
        c[last] += run;
        for (int d = last; d > 0 && c[d] == z->size[d]; d--) {
            c[d] = 0;
            c[d - 1]++;
        }
    }
}

static void tx_nonzero_write(tx_nonzero *z) {
    tx_parallel_for((z->npos + TXI_MASK - 1) / TXI_MASK, txi_nonzero_task, z, (double)z->npos * 2e-3);
}

/* ---- fill ---------------------------------------------------------------------------------- */

typedef struct tx_fill {
    char *x;
    tx_ixdims d;
    const char *value;
    int32_t log2;
    const tx_move_fn *move;
    int64_t rows, per;
} tx_fill;

static void txi_fill_task(void *ctx, int64_t chunk) {
    const tx_fill *f = (const tx_fill *)ctx;
    const int last = f->d.n - 1;
    int64_t n = f->d.size[last], st = f->d.x[last];
    if (f->rows == 1) {
        int64_t a = chunk * f->per, b = a + f->per < n ? a + f->per : n;
        f->move[f->log2](f->x + a * st, st, f->value, 0, b - a);
        return;
    }
    for (int64_t r = chunk * f->per; r < f->rows && r < (chunk + 1) * f->per; r++) {
        char *p = f->x;
        int64_t q = r;
        for (int d = last - 1; d >= 0; d--) {
            p += q % f->d.size[d] * f->d.x[d];
            q /= f->d.size[d];
        }
        f->move[f->log2](p, st, f->value, 0, n);
    }
}

/* Every element of a strided view takes the value. */
static void tx_fill_view(char *x, int nd, const int64_t *shape, const int64_t *strides, const void *value, int log2,
                         const tx_move_fn *move) {
    tx_fill f;
    int64_t isz = (int64_t)1 << log2, total;
    f.x = x;
    f.value = (const char *)value;
    f.log2 = log2;
    f.move = move;
    f.d.n = 0;
    /* the order of a fill is free: largest strides outside, all of them positive */
    for (int k = 0; k < nd; k++) {
        int64_t st = strides[k] * isz;
        int e = f.d.n;
        if (shape[k] == 0) return;
        if (shape[k] == 1) continue;
        if (st < 0) {
            f.x += st * (shape[k] - 1);
            st = -st;
        }
        while (e > 0 && f.d.x[e - 1] < st) {
            f.d.size[e] = f.d.size[e - 1];
            f.d.x[e] = f.d.x[e - 1];
            e--;
        }
        f.d.size[e] = shape[k];
        f.d.x[e] = st;
        f.d.n++;
    }
    for (int k = 0; k < f.d.n; k++) f.d.y[k] = f.d.x[k];
    txi_collapse(&f.d);
    if (f.d.n == 0) {
        memcpy(f.x, value, (size_t)isz);
        return;
    }
    total = txi_count(&f.d);
    f.rows = total / f.d.size[f.d.n - 1];
    if (f.rows == 1) f.per = 65536;
    else f.per = f.d.size[f.d.n - 1] > 65536 ? 1 : 65536 / f.d.size[f.d.n - 1] + 1;
    int64_t units = f.rows == 1 ? total : f.rows;
    tx_parallel_for((units + f.per - 1) / f.per, txi_fill_task, &f,
                    (double)f.rows * 2e-3 + (double)total * 5e-5 * (double)isz);
}

#endif
