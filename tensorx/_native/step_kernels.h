/* Steps of Adam and SGD: every array is read and written once. */
#ifndef TX_STEP_KERNELS_H
#define TX_STEP_KERNELS_H

#include <math.h>

#include "step_abi.h"

#define TXS_T float
#define TXS(name) txs_step_##name##_f32
#define TXS_SQRT sqrtf
#include "step_template.h"

#define TXS_T double
#define TXS(name) txs_step_##name##_f64
#define TXS_SQRT sqrt
#include "step_template.h"

static const tx_steps tx_step_table = {
    {txs_step_adam_f32, txs_step_adam_f64},
    {txs_step_sgd_f32, txs_step_sgd_f64},
};

#endif
