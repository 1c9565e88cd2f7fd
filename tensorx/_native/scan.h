/* Running reductions along lines: sums, products, and the linear recurrence y[i] = a[i] * y[i-1] + b[i].
 *
 * float32 accumulates in double, integers wrap. Lines that lie side by side are computed together, a block of
 * columns at a time, so that memory is read in its own order. A result depends on its own line alone. */
#ifndef TX_SCAN_H
#define TX_SCAN_H

#include "kernel_abi.h"
#include <stdint.h>

enum { TX_SCAN_SUM, TX_SCAN_PROD, TX_SCAN_LINEAR };
enum { TX_SCAN_COLUMNS = 256 };

typedef struct tx_scan_job {
    const char *a, *b;                  /* b: of the recurrence */
    char *dst;
    int32_t kind, dtype, isz, nd, initial;
    int64_t n, columns, blocks, outer, per_task;
    int64_t a_line, b_line, d_line;     /* strides along the line, in elements, as all strides */
    int64_t a_col, b_col, d_col;        /* between neighbouring lines */
    int64_t shape[64], a_strides[64], b_strides[64], d_strides[64]; /* of the other axes */
} tx_scan_job;

typedef struct { float re, im; } tx_scan_c64;
typedef struct { double re, im; } tx_scan_c128;

/* T element, A accumulator, W the type that ADD and MUL work on */
#define TX_SCAN_KERNEL(NAME, T, A, LOAD, STORE, ADD, MUL, ZERO, ONE)                                                   \
    static void NAME(const tx_scan_job *j, const char *pa, const char *pb, char *pd, int64_t count)                    \
    {                                                                                                                  \
        A acc[TX_SCAN_COLUMNS];                                                                                        \
        const T *a = (const T *)pa, *b = (const T *)pb;                                                                \
        T *d = (T *)pd;                                                                                                \
        const int64_t n = j->n, ac = j->a_col, bc = j->b_col, dc = j->d_col;                                           \
        if (count == 1) { /* one line: its state stays in a register */                                                \
            const int64_t al = j->a_line, bl = j->b_line, dl = j->d_line;                                              \
            A one = j->kind == TX_SCAN_PROD ? ONE : ZERO;                                                              \
            if (j->initial) {                                                                                          \
                *d = STORE(one);                                                                                       \
                d += dl;                                                                                               \
            }                                                                                                          \
            if (j->kind == TX_SCAN_SUM)                                                                                \
                for (int64_t i = 0; i < n; i++) {                                                                      \
                    one = ADD(one, LOAD(a[i * al]));                                                                   \
                    d[i * dl] = STORE(one);                                                                            \
                }                                                                                                      \
            else if (j->kind == TX_SCAN_PROD)                                                                          \
                for (int64_t i = 0; i < n; i++) {                                                                      \
                    one = MUL(one, LOAD(a[i * al]));                                                                   \
                    d[i * dl] = STORE(one);                                                                            \
                }                                                                                                      \
            else                                                                                                       \
                for (int64_t i = 0; i < n; i++) {                                                                      \
                    one = i == 0 ? LOAD(b[0]) : ADD(MUL(LOAD(a[i * al]), one), LOAD(b[i * bl]));                       \
                    d[i * dl] = STORE(one);                                                                            \
                }                                                                                                      \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t c = 0; c < count; c++) acc[c] = j->kind == TX_SCAN_PROD ? ONE : ZERO;                             \
        if (j->initial) {                                                                                              \
            for (int64_t c = 0; c < count; c++) d[c * dc] = STORE(acc[c]);                                             \
            d += j->d_line;                                                                                            \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++, a += j->a_line, d += j->d_line) {                                              \
            if (j->kind == TX_SCAN_SUM) {                                                                              \
                if (ac == 1 && dc == 1)                                                                                \
                    for (int64_t c = 0; c < count; c++) {                                                              \
                        acc[c] = ADD(acc[c], LOAD(a[c]));                                                              \
                        d[c] = STORE(acc[c]);                                                                          \
                    }                                                                                                  \
                else                                                                                                   \
                    for (int64_t c = 0; c < count; c++) {                                                              \
                        acc[c] = ADD(acc[c], LOAD(a[c * ac]));                                                         \
                        d[c * dc] = STORE(acc[c]);                                                                     \
                    }                                                                                                  \
            } else if (j->kind == TX_SCAN_PROD) {                                                                      \
                for (int64_t c = 0; c < count; c++) {                                                                  \
                    acc[c] = MUL(acc[c], LOAD(a[c * ac]));                                                             \
                    d[c * dc] = STORE(acc[c]);                                                                         \
                }                                                                                                      \
            } else {                                                                                                   \
                if (i == 0) /* nothing comes in: not even the NaN of inf * 0 */                                        \
                    for (int64_t c = 0; c < count; c++) acc[c] = LOAD(b[c * bc]);                                      \
                else                                                                                                   \
                    for (int64_t c = 0; c < count; c++) acc[c] = ADD(MUL(LOAD(a[c * ac]), acc[c]), LOAD(b[c * bc]));   \
                for (int64_t c = 0; c < count; c++) d[c * dc] = STORE(acc[c]);                                         \
                b += j->b_line;                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }

#define TX_SCAN_F2D(x) ((double)(x))
#define TX_SCAN_D2F(x) ((float)(x))
#define TX_SCAN_SAME(x) (x)
#define TX_SCAN_PLUS(x, y) ((x) + (y))
#define TX_SCAN_TIMES(x, y) ((x) * (y))

static inline tx_scan_c128 tx_scan_wide(tx_scan_c64 x) { return (tx_scan_c128){x.re, x.im}; }
static inline tx_scan_c64 tx_scan_narrow(tx_scan_c128 x) { return (tx_scan_c64){(float)x.re, (float)x.im}; }
static inline tx_scan_c128 tx_scan_cadd(tx_scan_c128 x, tx_scan_c128 y) { return (tx_scan_c128){x.re + y.re, x.im + y.im}; }
static inline tx_scan_c128 tx_scan_cmul(tx_scan_c128 x, tx_scan_c128 y)
{
    return (tx_scan_c128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static const tx_scan_c128 tx_scan_czero = {0.0, 0.0}, tx_scan_cone = {1.0, 0.0};

TX_SCAN_KERNEL(tx_scan_f32, float, double, TX_SCAN_F2D, TX_SCAN_D2F, TX_SCAN_PLUS, TX_SCAN_TIMES, 0.0, 1.0)
TX_SCAN_KERNEL(tx_scan_f64, double, double, TX_SCAN_SAME, TX_SCAN_SAME, TX_SCAN_PLUS, TX_SCAN_TIMES, 0.0, 1.0)
TX_SCAN_KERNEL(tx_scan_u64, uint64_t, uint64_t, TX_SCAN_SAME, TX_SCAN_SAME, TX_SCAN_PLUS, TX_SCAN_TIMES, 0u, 1u)
TX_SCAN_KERNEL(tx_scan_cf, tx_scan_c64, tx_scan_c128, tx_scan_wide, tx_scan_narrow, tx_scan_cadd, tx_scan_cmul, tx_scan_czero, tx_scan_cone)
TX_SCAN_KERNEL(tx_scan_cd, tx_scan_c128, tx_scan_c128, TX_SCAN_SAME, TX_SCAN_SAME, tx_scan_cadd, tx_scan_cmul, tx_scan_czero, tx_scan_cone)

/* One line of sums with neighbouring elements: the sums within four elements do not wait for those before, so that
 * only one addition in four is on the critical path. In double (for float32) and in integers this loses nothing. */
#define TX_SCAN_LINE(NAME, T, A)                                                                                       \
    static void NAME(const T *a, T *d, int64_t n)                                                                      \
    {                                                                                                                  \
        A acc = 0;                                                                                                     \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 <= n; i += 4) {                                                                                   \
            A p0 = (A)a[i], p1 = p0 + (A)a[i + 1], q = (A)a[i + 2], p2 = p1 + q, p3 = p1 + (q + (A)a[i + 3]);          \
            d[i] = (T)(acc + p0);                                                                                      \
            d[i + 1] = (T)(acc + p1);                                                                                  \
            d[i + 2] = (T)(acc + p2);                                                                                  \
            d[i + 3] = (T)(acc + p3);                                                                                  \
            acc = acc + p3;                                                                                            \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            acc = acc + (A)a[i];                                                                                       \
            d[i] = (T)acc;                                                                                             \
        }                                                                                                              \
    }

TX_SCAN_LINE(tx_scan_line_f32, float, double)
TX_SCAN_LINE(tx_scan_line_u64, uint64_t, uint64_t)

static void tx_scan_lines(const tx_scan_job *j, const char *a, const char *b, char *d, int64_t count)
{
    if (j->kind == TX_SCAN_SUM && count == 1 && j->a_line == 1 && j->d_line == 1 && (j->dtype == TX_F32 || j->dtype == TX_I64 || j->dtype == TX_U64)) {
        if (j->dtype == TX_F32) {
            if (j->initial) *(float *)d = 0.0f;
            tx_scan_line_f32((const float *)a, (float *)d + j->initial, j->n);
        } else {
            if (j->initial) *(uint64_t *)d = 0;
            tx_scan_line_u64((const uint64_t *)a, (uint64_t *)d + j->initial, j->n);
        }
        return;
    }
    switch (j->dtype) {
    case TX_F32: tx_scan_f32(j, a, b, d, count); break;
    case TX_F64: tx_scan_f64(j, a, b, d, count); break;
    case TX_C64: tx_scan_cf(j, a, b, d, count); break;
    case TX_C128: tx_scan_cd(j, a, b, d, count); break;
    default: tx_scan_u64(j, a, b, d, count); break;
    }
}

static void tx_scan_task(void *ctx, int64_t task)
{
    const tx_scan_job *j = (const tx_scan_job *)ctx;
    int64_t first = task * j->per_task, last = first + j->per_task;
    if (last > j->outer * j->blocks) last = j->outer * j->blocks;
    for (int64_t t = first; t < last; t++) {
        int64_t rest = t / j->blocks, c = t % j->blocks * TX_SCAN_COLUMNS, a = c * j->a_col, b = c * j->b_col, d = c * j->d_col;
        for (int k = j->nd - 1; k >= 0; k--) {
            int64_t i = rest % j->shape[k];
            rest /= j->shape[k];
            a += i * j->a_strides[k];
            b += i * j->b_strides[k];
            d += i * j->d_strides[k];
        }
        int64_t count = j->columns - c < TX_SCAN_COLUMNS ? j->columns - c : TX_SCAN_COLUMNS;
        tx_scan_lines(j, j->a + a * j->isz, j->b ? j->b + b * j->isz : NULL, j->dst + d * j->isz, count);
    }
}

static void tx_scan_run(tx_scan_job *j)
{
    int64_t each = j->n * (j->columns < TX_SCAN_COLUMNS ? j->columns : TX_SCAN_COLUMNS);
    j->blocks = (j->columns + TX_SCAN_COLUMNS - 1) / TX_SCAN_COLUMNS;
    j->per_task = each > 32768 ? 1 : 32768 / (each > 0 ? each : 1);
    int64_t tasks = (j->outer * j->blocks + j->per_task - 1) / j->per_task;
    tx_parallel_for(tasks, tx_scan_task, j, (double)j->outer * (double)j->columns * (double)j->n * 1.2e-3);
}

#endif
