/* Binary search of many values in one sorted line, NaN after every number.
 *
 * A search waits for memory at every level, and the next address depends on what came: so SIDE searches go on
 * side by side, without a branch, and the loads of one level are in flight together. */
#ifndef TX_SEARCH_H
#define TX_SEARCH_H
#include "kernel_abi.h"
#include "pool.h"
#include <stdint.h>

typedef struct tx_search_job {
    const char *line, *values;
    int64_t *out;
    int64_t n, count, chunk;    /* lengths; values of one task */
    int32_t dtype, right;       /* right: behind equal elements */
    int32_t stopped;            /* a signal came: the results are of no use */
} tx_search_job;

#define TX_SEARCH_SIDE 16

/* A half as an integer of the same order: both zeros are 0, every NaN is the greatest. */
static inline int32_t tx_search_half(uint16_t u, uint16_t infinity)
{
    const int32_t size = u & 0x7fff;
    return size > infinity ? 0x8000 : u & 0x8000 ? -size : size;
}

#define TX_SEARCH_SAME(x) (x)
#define TX_SEARCH_F16(x) tx_search_half(x, 0x7c00)
#define TX_SEARCH_BF16(x) tx_search_half(x, 0x7f80)

#define TX_SEARCH_LEVELS(CMP)                                                                                          \
    for (int64_t left = n; left > 1; left -= left / 2)                                                                 \
        for (int w = 0; w < TX_SEARCH_SIDE; w++) at[w] += left / 2 & -(int64_t)(KEY(at[w][left / 2 - 1]) CMP x[w]);    \
    for (int w = 0; w < side; w++) j->out[i + w] = at[w] - line + (KEY(*at[w]) CMP x[w]);

/* How many elements come before each value: those less than it, or (right) those not greater. n leaves the NaN at the
 * end out, so that a comparison with a NaN decides only about a value that is one. */
#define TX_SEARCH(name, T, K)                                                                                         \
    static void name(const tx_search_job *j, int64_t first, int64_t last)                                             \
    {                                                                                                                 \
        const T *line = (const T *)j->line, *values = (const T *)j->values;                                           \
        int64_t n = j->n;                                                                                             \
        if (KEY(line[n - 1]) != KEY(line[n - 1])) {                                                                   \
            int64_t numbers = 0;                                                                                      \
            while (n > numbers) { /* numbers <= how many there are <= n */                                            \
                const int64_t middle = numbers + (n - numbers) / 2;                                                   \
                if (KEY(line[middle]) == KEY(line[middle])) numbers = middle + 1;                                     \
                else n = middle;                                                                                      \
            }                                                                                                         \
        }                                                                                                             \
        for (int64_t i = first; i < last; i += TX_SEARCH_SIDE) {                                                      \
            const int side = (int)(last - i < TX_SEARCH_SIDE ? last - i : TX_SEARCH_SIDE);                            \
            const T *at[TX_SEARCH_SIDE];                                                                              \
            K x[TX_SEARCH_SIDE];                                                                                      \
            int odd = n == 0;                                                                                         \
            for (int w = 0; w < TX_SEARCH_SIDE; w++) {                                                                \
                at[w] = line;                                                                                         \
                x[w] = KEY(values[i + (w < side ? w : 0)]);                                                           \
                odd |= x[w] != x[w];                                                                                  \
            }                                                                                                         \
            if (j->right) {                                                                                           \
                TX_SEARCH_LEVELS(<=)                                                                                  \
            } else {                                                                                                  \
                TX_SEARCH_LEVELS(<)                                                                                   \
            }                                                                                                         \
            if (odd)                                                                                                  \
                for (int w = 0; w < side; w++)                                                                        \
                    if (x[w] != x[w]) j->out[i + w] = j->right ? j->n : n;                                            \
                    else if (n == 0) j->out[i + w] = 0;                                                               \
        }                                                                                                             \
    }

#define KEY TX_SEARCH_SAME
TX_SEARCH(tx_search_i8, int8_t, int8_t)
TX_SEARCH(tx_search_u8, uint8_t, uint8_t)
TX_SEARCH(tx_search_i16, int16_t, int16_t)
TX_SEARCH(tx_search_u16, uint16_t, uint16_t)
TX_SEARCH(tx_search_i32, int32_t, int32_t)
TX_SEARCH(tx_search_u32, uint32_t, uint32_t)
TX_SEARCH(tx_search_i64, int64_t, int64_t)
TX_SEARCH(tx_search_u64, uint64_t, uint64_t)
TX_SEARCH(tx_search_f32, float, float)
TX_SEARCH(tx_search_f64, double, double)
#undef KEY
#define KEY TX_SEARCH_F16
TX_SEARCH(tx_search_f16, uint16_t, int32_t)
#undef KEY
#define KEY TX_SEARCH_BF16
TX_SEARCH(tx_search_bf16, uint16_t, int32_t)
#undef KEY

static void tx_search_task(void *ctx, int64_t t)
{
    tx_search_job *j = (tx_search_job *)ctx;
    const int64_t first = t * j->chunk, last = j->count - first < j->chunk ? j->count : first + j->chunk;
    if (tx_cancel_requested() || tx_poll_stop()) __atomic_store_n(&j->stopped, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&j->stopped, __ATOMIC_RELAXED)) return;
    switch (j->dtype) {
    case TX_BOOL: /* 0 and 1 */
    case TX_U8: tx_search_u8(j, first, last); break;
    case TX_I8: tx_search_i8(j, first, last); break;
    case TX_I16: tx_search_i16(j, first, last); break;
    case TX_U16: tx_search_u16(j, first, last); break;
    case TX_I32: tx_search_i32(j, first, last); break;
    case TX_U32: tx_search_u32(j, first, last); break;
    case TX_I64: tx_search_i64(j, first, last); break;
    case TX_U64: tx_search_u64(j, first, last); break;
    case TX_F16: tx_search_f16(j, first, last); break;
    case TX_BF16: tx_search_bf16(j, first, last); break;
    case TX_F32: tx_search_f32(j, first, last); break;
    default: tx_search_f64(j, first, last);
    }
}

/* line (n > 0 elements) and values are dense. */
static void tx_search_run(tx_search_job *j)
{
    int64_t levels = 1;
    while (j->n >> levels) levels++;
    j->chunk = 4096;
    tx_parallel_for((j->count + j->chunk - 1) / j->chunk, tx_search_task, j, (double)j->count * (double)levels * 1e-3);
}

#endif
