/* Block_copy and Block_release as on a Mac; see blocks.m for the runtime. */
#ifndef SOFTMETAL_BLOCK_H
#define SOFTMETAL_BLOCK_H

#include <objc/blocks_runtime.h>

#define Block_copy(...) ((__typeof(__VA_ARGS__))_Block_copy((const void *)(__VA_ARGS__)))
#define Block_release(...) _Block_release((const void *)(__VA_ARGS__))

#endif
