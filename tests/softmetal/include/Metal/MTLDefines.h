/* Macros and forward declarations shared by the stand-in's Metal headers. */
#ifndef SOFTMETAL_MTLDEFINES_H
#define SOFTMETAL_MTLDEFINES_H

#import <Foundation/Foundation.h>
#include <stdbool.h>
#include <stdint.h>

#define MTL_EXTERN extern __attribute__((visibility("default")))
#define MTL_INLINE static inline __attribute__((always_inline, unused))

/* Availability is not modelled: @available is always true on this platform.
 * Newer selectors answer respondsToSelector: according to the SOFTMETAL_MACOS
 * knob instead, which is also how a bridge should ask. */
#ifndef API_AVAILABLE
#define API_AVAILABLE(...)
#endif
#ifndef API_UNAVAILABLE
#define API_UNAVAILABLE(...)
#endif
#ifndef API_DEPRECATED
#define API_DEPRECATED(...)
#endif
#ifndef API_DEPRECATED_WITH_REPLACEMENT
#define API_DEPRECATED_WITH_REPLACEMENT(...)
#endif

typedef uint64_t MTLGPUAddress;
typedef double MTLTimeInterval; /* CFTimeInterval on a Mac */

@class MTLCompileOptions, MTLFunctionConstantValues, MTLComputePipelineDescriptor;
@class MTLComputePipelineReflection, MTLCommandBufferDescriptor, MTLCommandQueueDescriptor;
@class MTLSharedEventListener, MTLSharedEventHandle, MTLArchitecture;
@class MTLResidencySetDescriptor;
@protocol MTLDevice, MTLCommandQueue, MTLCommandBuffer, MTLCommandEncoder;
@protocol MTLComputeCommandEncoder, MTLBlitCommandEncoder, MTLResource, MTLBuffer;
@protocol MTLLibrary, MTLFunction, MTLComputePipelineState, MTLFence, MTLEvent;
@protocol MTLSharedEvent, MTLHeap, MTLLogContainer, MTLFunctionLog, MTLDrawable;

#endif
