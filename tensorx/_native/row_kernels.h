/* Row kernels: softmax and its relatives, normalisation, cross entropy; forward
 * and backward.  One row at a time, in two or three passes while it sits in L1
 * or L2.  Sums end in double.
 *
 * Rows that hold NaN or +inf, or that are all -inf, give NaN for softmax and
 * log_softmax whatever their length is; logsumexp gives NaN, inf and -inf.
 */
#ifndef TX_ROW_KERNELS_H
#define TX_ROW_KERNELS_H

#include <math.h>

#include "extreme.h"
#include "kernel_abi.h"
#include "lanes.h"
#include "row_sums.h"
#include "vmath_exp.h"

#define TXW_T float
#define TXW_I int32_t
#define TXW(name) txw_##name##_f32
#define TXW_RANGE txs_range_float
#define TXW_EXP tx_expf
#define TXW_EXP_MID tx__exp_midf
#define TXW_EXP_LOW -87.0f
#define TXW_QUICK_SUM txl_quick_sum_f32
#define TXW_PAD txl_pad_f32
#define TXW_UNPAD txl_unpad_f32
#include "row_template.h"

#define TXW_T double
#define TXW_I int64_t
#define TXW(name) txw_##name##_f64
#define TXW_RANGE txs_range_double
#define TXW_EXP tx_exp
#define TXW_EXP_MID tx__exp_mid
#define TXW_EXP_LOW -708.0
#define TXW_QUICK_SUM(p, n) txw_total_f64(p, n, TXL_SUM)
#define TXW_PAD txl_pad_f64
#define TXW_UNPAD txl_unpad_f64
#include "row_template.h"

static void tx_fill_rows(tx_kernels *k)
{
    txw_fill_table_f32(&k->rows[0]);
    txw_fill_table_f64(&k->rows[1]);
}

#endif
