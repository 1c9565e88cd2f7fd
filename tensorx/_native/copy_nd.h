/* Copies of any layout: the two axes that lie closest in the destination and in the source are moved
 * by tiles (move2 of the kernel table), the others are looped over; the work is cut for the pool. */
#ifndef TX_COPY_ND_H
#define TX_COPY_ND_H

#include "kernel_abi.h"
#include "pool.h"

typedef struct tx_copy_job {
    tx_move2_fn move2;
    char *dst;
    const char *src;
    int nd;                            /* outer axes */
    int64_t shape[TX_MAXDIM], ds[TX_MAXDIM], ss[TX_MAXDIM];
    int64_t n0, n1, ds0, ds1, ss0, ss1; /* the two inner ones */
    int64_t piece, pieces;             /* of n0 */
    int64_t units, group;              /* outer positions times pieces; how many a chunk takes */
} tx_copy_job;

static void tx_copy_unit(const tx_copy_job *j, int64_t i)
{
    int64_t part = i % j->pieces, lo = part * j->piece, n = j->n0 - lo < j->piece ? j->n0 - lo : j->piece;
    char *d = j->dst + lo * j->ds0;
    const char *s = j->src + lo * j->ss0;
    i /= j->pieces;
    for (int k = j->nd - 1; k >= 0; k--) {
        int64_t c = i % j->shape[k];
        i /= j->shape[k];
        d += c * j->ds[k];
        s += c * j->ss[k];
    }
    j->move2(d, (ptrdiff_t)j->ds0, (ptrdiff_t)j->ds1, s, (ptrdiff_t)j->ss0, (ptrdiff_t)j->ss1, (ptrdiff_t)n, (ptrdiff_t)j->n1);
}

static void tx_copy_chunk(void *ctx, int64_t i)
{
    const tx_copy_job *j = (const tx_copy_job *)ctx;
    int64_t end = (i + 1) * j->group < j->units ? (i + 1) * j->group : j->units;
    for (i *= j->group; i < end; i++) tx_copy_unit(j, i);
}

static inline int64_t tx_copy_abs(int64_t v) { return v < 0 ? -v : v; }

/* Strides in elements; the memories do not overlap; item size 1 << log2. */
static void tx_copy_nd(int nd, const int64_t *shape, char *dst, const int64_t *dstrides, const char *src,
                       const int64_t *sstrides, int log2, tx_move2_fn move2)
{
    tx_copy_job j = {.move2 = move2, .dst = dst, .src = src};
    int64_t n[TX_MAXDIM], ds[TX_MAXDIM], ss[TX_MAXDIM], outer = 1, total = 1;
    int m = 0, a, b;
    for (int i = 0; i < nd; i++) { /* the axes, those far apart in the destination first */
        if (shape[i] == 1) continue;
        int k = m++;
        for (; k > 0 && tx_copy_abs(ds[k - 1]) < tx_copy_abs(dstrides[i]); k--)
            n[k] = n[k - 1], ds[k] = ds[k - 1], ss[k] = ss[k - 1];
        n[k] = shape[i], ds[k] = dstrides[i], ss[k] = sstrides[i];
        total *= shape[i];
    }
    for (int i = m - 1; i > 0; i--) /* neighbours that are one axis in both */
        if (ds[i - 1] == n[i] * ds[i] && ss[i - 1] == n[i] * ss[i]) {
            n[i - 1] *= n[i], ds[i - 1] = ds[i], ss[i - 1] = ss[i];
            for (int k = i; k < m - 1; k++) n[k] = n[k + 1], ds[k] = ds[k + 1], ss[k] = ss[k + 1];
            m--;
        }
    for (int i = 0; i < m; i++) ds[i] *= (int64_t)1 << log2, ss[i] *= (int64_t)1 << log2;
    a = m - 1; /* closest in the destination */
    b = -1;    /* closest in the source, another one */
    for (int i = 0; i < m - 1; i++)
        if (ss[i] != 0 && (b < 0 || tx_copy_abs(ss[i]) <= tx_copy_abs(ss[b]))) b = i;
    if (b < 0) b = m - 2;
    j.n1 = m > 0 ? n[a] : 1, j.ds1 = m > 0 ? ds[a] : 0, j.ss1 = m > 0 ? ss[a] : 0;
    j.n0 = m > 1 ? n[b] : 1, j.ds0 = m > 1 ? ds[b] : 0, j.ss0 = m > 1 ? ss[b] : 0;
    for (int i = 0; i < m - 1; i++)
        if (i != b) {
            j.shape[j.nd] = n[i], j.ds[j.nd] = ds[i], j.ss[j.nd++] = ss[i];
            outer *= n[i];
        }
    /* chunks of about 64 Ki elements, whole lines of the source where it is turned */
    j.piece = j.n0;
    if (j.n0 * j.n1 > 2 * 65536) {
        j.piece = 65536 / j.n1;
        j.piece = j.piece < 64 ? 64 : (j.piece + 63) / 64 * 64;
    }
    j.pieces = (j.n0 + j.piece - 1) / j.piece;
    j.units = outer * j.pieces;
    j.group = 32768 / (j.piece * j.n1) + 1;
    tx_parallel_for((j.units + j.group - 1) / j.group, tx_copy_chunk, &j, (double)total * 1e-3);
}

#endif
