// Everything an MSL text sees.  Precompiled once per set of flags.
#include "types.h"
#include "math.h"
#include "integer.h"
#include "atomic.h"
#include "simdgroup.h"
#include "simdgroup_matrix.h"
#include "wrap.h"

#define __METAL__ 1
#define __METAL_MACOS__ 1
#define METAL_FUNC inline __attribute__((always_inline))
