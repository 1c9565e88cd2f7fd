/* GNUstep's headers ask for this one under -fblocks; the functions themselves
 * are in blocks.m. */
#ifndef SOFTMETAL_BLOCKS_RUNTIME_H
#define SOFTMETAL_BLOCKS_RUNTIME_H

extern void *_Block_copy(const void *block);
extern void _Block_release(const void *block);

#endif
