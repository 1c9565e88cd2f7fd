/* Stable sorting of lines, for any dtype that has an order.
 *
 * Elements become unsigned keys whose order is the one wanted: -0 counts as 0, NaN comes last
 * whether ascending or descending, as on Metal. Long lines are sorted by digits of 8 bits, from
 * the lowest (LSD radix sort: stable, no comparisons), short ones by insertion and merging. */
#ifndef TX_SORT_H
#define TX_SORT_H

#include "kernel_abi.h"
#include "pool.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct tx_sort_job {
    const char *src;
    char *values;                       /* sorted elements, or NULL */
    int64_t *order;                     /* positions in the line, or NULL */
    int32_t dtype, isz, nd, descending;
    int64_t n, lines, chunks;
    int64_t src_stride, out_stride;     /* along the line, in elements, as all strides */
    int64_t shape[64], src_strides[64], out_strides[64]; /* of the other axes */
    char *scratch;                      /* `chunks` times tx_sort_scratch bytes */
    int64_t scratch_each;
    int32_t stopped;                    /* a signal came: the results are of no use */
} tx_sort_job;

static int tx_sort_stop(const tx_sort_job *j)
{
    int32_t *stopped = &((tx_sort_job *)j)->stopped;
    if (tx_cancel_requested() || tx_poll_stop()) __atomic_store_n(stopped, 1, __ATOMIC_RELAXED);
    return __atomic_load_n(stopped, __ATOMIC_RELAXED);
}

enum { TX_SORT_INSERTION = 16, TX_SORT_MERGE = 512 };

static inline uint32_t tx_sort_bits16(uint32_t b, uint32_t exp, int *nan)
{
    uint32_t m = b & 0x7fffu;
    *nan = m > exp;
    if (m == 0) return 0x8000u;
    return (b & 0x8000u) ? ~b & 0xffffu : b | 0x8000u;
}

static inline uint32_t tx_sort_bits32(uint32_t b, int *nan)
{
    uint32_t m = b & 0x7fffffffu;
    *nan = m > 0x7f800000u;
    if (m == 0) return 0x80000000u;
    return (b & 0x80000000u) ? ~b : b | 0x80000000u;
}

static inline uint64_t tx_sort_bits64(uint64_t b, int *nan)
{
    uint64_t m = b & 0x7fffffffffffffffu;
    *nan = m > 0x7ff0000000000000u;
    if (m == 0) return 0x8000000000000000u;
    return (b & 0x8000000000000000u) ? ~b : b | 0x8000000000000000u;
}

/* Key width in bits: what the radix passes go over. */
static inline int tx_sort_key_bits(int isz) { return 8 * isz; }

#define TX_SORT_KEY uint32_t
#define TX_SORT_AT uint32_t
#define TX_SORT_NAME(x) x##_32_32
#include "sort_lines.h"
#define TX_SORT_KEY uint64_t
#define TX_SORT_AT uint32_t
#define TX_SORT_NAME(x) x##_64_32
#include "sort_lines.h"
#define TX_SORT_KEY uint32_t
#define TX_SORT_AT uint64_t
#define TX_SORT_NAME(x) x##_32_64
#include "sort_lines.h"
#define TX_SORT_KEY uint64_t
#define TX_SORT_AT uint64_t
#define TX_SORT_NAME(x) x##_64_64
#include "sort_lines.h"

static inline int tx_sort_wide(const tx_sort_job *j) { return j->n > (int64_t)UINT32_MAX; }

/* Workspace of one chunk: two keys and two positions per element. */
static int64_t tx_sort_scratch(const tx_sort_job *j)
{
    int64_t key = j->isz == 8 ? 8 : 4, at = tx_sort_wide(j) ? 8 : 4;
    return (2 * (key + at) * j->n + 63) / 64 * 64;
}

static void tx_sort_chunk(void *ctx, int64_t chunk)
{
    const tx_sort_job *j = (const tx_sort_job *)ctx;
    char *work = j->scratch + chunk * j->scratch_each;
    int64_t first = j->lines * chunk / j->chunks, last = j->lines * (chunk + 1) / j->chunks;
    for (int64_t line = first; line < last && !tx_sort_stop(j); line++) {
        int64_t rest = line, from = 0, to = 0;
        for (int d = j->nd - 1; d >= 0; d--) {
            int64_t i = rest % j->shape[d];
            rest /= j->shape[d];
            from += i * j->src_strides[d];
            to += i * j->out_strides[d];
        }
        const char *src = j->src + from * j->isz;
        char *values = j->values ? j->values + to * j->isz : NULL;
        int64_t *order = j->order ? j->order + to : NULL;
        if (tx_sort_wide(j)) {
            if (j->isz == 8) tx_sort_line_64_64(j, src, values, order, work);
            else tx_sort_line_32_64(j, src, values, order, work);
        } else {
            if (j->isz == 8) tx_sort_line_64_32(j, src, values, order, work);
            else tx_sort_line_32_32(j, src, values, order, work);
        }
    }
}

/* The caller has set scratch (chunks * scratch_each bytes). */
static void tx_sort_run(tx_sort_job *j)
{
    double bits = 1;
    while ((1ll << (int)bits) < j->n && bits < 12) bits++;
    tx_parallel_for(j->chunks, tx_sort_chunk, j, (double)j->lines * (double)j->n * bits * 2e-3);
}

#endif
