/* All elementary functions of the kernels; see vmath_base.h for the conventions. */
#ifndef TX_VMATH_H
#define TX_VMATH_H

#include "vmath_base.h"
#include "vmath_exp.h"
#include "vmath_log.h"
#include "vmath_trig.h"
#include "vmath_erf.h"
#include "vmath_pow.h"
#include "vmath_gamma.h"

#endif
