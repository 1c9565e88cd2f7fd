/* Command-line programs on a Mac link CoreGraphics so that a default Metal
 * device exists; nothing of it is called beyond this. */
#ifndef SOFTMETAL_COREGRAPHICS_H
#define SOFTMETAL_COREGRAPHICS_H

#include <stdint.h>

typedef uint32_t CGDirectDisplayID;
extern CGDirectDisplayID CGMainDisplayID(void);

#endif
