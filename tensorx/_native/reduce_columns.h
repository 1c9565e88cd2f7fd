/* The column form of a reduction: accumulators of n columns take rows. */
#ifndef TX_REDUCE_COLUMNS_H
#define TX_REDUCE_COLUMNS_H

#include "lanes.h"

/* vfold_rows and vfold from an inlinable column step NAME_col(acc, aux, src, n, index).
 * Strips of columns go through a batch of rows with their accumulators in registers;
 * per column the order is that of the rows. */
#define TXL_STRIP 16
#define TXL_BATCH 16
#define TXL_VFOLD_LOOPS(NAME, SRC, ACC, AUX, OPEN, CLOSE, AUX_STRIP)                                 \
    TXL_KERNEL void NAME##_vfold_rows(void *acc, void *aux, const void *src, ptrdiff_t row_stride, ptrdiff_t rows, \
                                      ptrdiff_t n, int64_t index)                                    \
    {                                                                                                \
        ACC *a = (ACC *)acc;                                                                         \
        AUX *x = (AUX *)aux;                                                                         \
        for (ptrdiff_t r0 = 0; r0 < rows; r0 += TXL_BATCH) {                                         \
            const ptrdiff_t m = rows - r0 < TXL_BATCH ? rows - r0 : TXL_BATCH;                       \
            const char *s = (const char *)src + r0 * row_stride;                                     \
            ptrdiff_t j = 0;                                                                         \
            if (m >= 8) {                                                                            \
                for (; j + TXL_STRIP <= n; j += TXL_STRIP) {                                         \
                    ACC strip[TXL_STRIP];                                                            \
                    memcpy(strip, a + j, sizeof strip);                                              \
                    OPEN                                                                             \
                    for (ptrdiff_t r = 0; r < m; r++)                                                \
                        NAME##_col(strip, AUX_STRIP, (const SRC *)(s + r * row_stride) + j, TXL_STRIP, \
                                   index + r0 + r);                                                  \
                    memcpy(a + j, strip, sizeof strip);                                              \
                    CLOSE                                                                            \
                }                                                                                    \
            }                                                                                        \
            if (j < n)                                                                               \
                for (ptrdiff_t r = 0; r < m; r++)                                                    \
                    NAME##_col(a + j, x ? x + j : x, (const SRC *)(s + r * row_stride) + j, n - j, index + r0 + r); \
        }                                                                                            \
    }                                                                                                \
    static void NAME##_vfold(void *acc, void *aux, const void *src, ptrdiff_t n, int64_t index)      \
    {                                                                                                \
        NAME##_vfold_rows(acc, aux, src, 0, 1, n, index);                                            \
    }
#define TXL_VFOLD(NAME, SRC, ACC) TXL_VFOLD_LOOPS(NAME, SRC, ACC, char, , , NULL)
#define TXL_VFOLD_AUX(NAME, SRC, ACC, AUX)                                                           \
    TXL_VFOLD_LOOPS(NAME, SRC, ACC, AUX, AUX aux_strip[TXL_STRIP]; memcpy(aux_strip, x + j, sizeof aux_strip);, \
                    memcpy(x + j, aux_strip, sizeof aux_strip);, aux_strip)

/* The same row by row, for steps whose code is long. */
#define TXL_VFOLD_PLAIN(NAME, SRC, ACC, AUX)                                                         \
    TXL_KERNEL void NAME##_vfold_rows(void *acc, void *aux, const void *src, ptrdiff_t row_stride, ptrdiff_t rows, \
                                      ptrdiff_t n, int64_t index)                                    \
    {                                                                                                \
        for (ptrdiff_t r = 0; r < rows; r++)                                                         \
            NAME##_col((ACC *)acc, (AUX *)aux, (const SRC *)((const char *)src + r * row_stride), n, index + r); \
    }                                                                                                \
    static void NAME##_vfold(void *acc, void *aux, const void *src, ptrdiff_t n, int64_t index)      \
    {                                                                                                \
        NAME##_vfold_rows(acc, aux, src, 0, 1, n, index);                                            \
    }

#endif
