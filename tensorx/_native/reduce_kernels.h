/* Reductions: the table of kernels.  Sums live in reduce_sums.h, products in
 * reduce_products.h; max, min, arg, any and all in reduce_select.h. */
#ifndef TX_REDUCE_KERNELS_H
#define TX_REDUCE_KERNELS_H

#include "kernel_abi.h"
#include "reduce_products.h"
#include "reduce_select.h"
#include "reduce_sums.h"

static void tx_fill_reductions(tx_kernels *k)
{
    memset(k->red, 0, sizeof k->red);
    txr_fill_sums(k);
    txr_fill_products(k);
    txr_fill_select(k);
}

#endif
