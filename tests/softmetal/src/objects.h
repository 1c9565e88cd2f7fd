/* The classes behind the protocols. */
#ifndef SOFTMETAL_OBJECTS_H
#define SOFTMETAL_OBJECTS_H

#import <Metal/Metal.h>
#include "core.h"

/* Base class: guards against use after fork, notices autoreleases without a
 * pool, and hides selectors that the macOS of the knob does not have. */
@interface SMObject : NSObject
@end

@interface MTLFunctionConstantValues (Soft)
- (NSString *)lines; /* "index value" */
@end

@interface MTLCompileOptions (Soft)
/* Does this text get fast math, and fast functions, if no pragma says otherwise? */
- (void)getFast:(int *)math functions:(int *)functions;
@end

/* Is this selector newer than the macOS of the knob? */
BOOL SMTooNew(SEL selector);
/* Raises what calling a missing selector raises. */
void SMRequire(id object, SEL selector);
NSError *SMError(NSString *domain, NSInteger code, NSString *text);

@interface SMDevice : SMObject <MTLDevice> {
    int _index;
}
- (instancetype)initWithIndex:(int)index;
- (int)index;
+ (SMDevice *)at:(int)index;
@end

@interface SMBuffer : SMObject <MTLBuffer> {
    @public
    sm_buffer *_core;
    int _device;
    NSUInteger _length;
    MTLResourceOptions _options;
    NSString *_label;
    void (^_deallocator)(void *, NSUInteger);
}
- (instancetype)initWithCore:(sm_buffer *)core device:(int)device options:(MTLResourceOptions)options;
@end

@interface SMLibrary : SMObject <MTLLibrary> {
    @public
    sm_program *_program;
    int _device;
    NSString *_label;
}
- (instancetype)initWithProgram:(sm_program *)program device:(int)device;
@end

@interface SMFunction : SMObject <MTLFunction> {
    @public
    sm_program *_program;
    sm_kernel *_kernel;
    int _device;
    NSString *_label;
}
- (instancetype)initWithProgram:(sm_program *)program
                         kernel:(sm_kernel *)kernel
                         device:(int)device;
@end

@interface SMPipeline : SMObject <MTLComputePipelineState> {
    @public
    sm_program *_program;
    sm_kernel *_kernel;
    int _device;
    NSUInteger _maxThreads, _width;
    NSString *_label;
}
- (instancetype)initWithFunction:(SMFunction *)function
                      descriptor:(MTLComputePipelineDescriptor *)descriptor
                           error:(NSError **)error;
@end

@interface SMQueue : SMObject <MTLCommandQueue> {
    @public
    sm_queue *_core;
    int _device;
    NSString *_label;
}
- (instancetype)initWithDevice:(int)device slots:(NSUInteger)slots;
@end

@interface SMCommandBuffer : SMObject <MTLCommandBuffer> {
    @public
    sm_cb *_core;
    SMQueue *_queue;
    BOOL _retained;
    MTLCommandBufferErrorOption _options;
    NSString *_label;
    NSMutableArray *_completed, *_scheduled, *_held;
    NSError *_error;
}
- (instancetype)initWithQueue:(SMQueue *)queue retained:(BOOL)retained
                      options:(MTLCommandBufferErrorOption)options;
- (void)hold:(id)object;
@end

@interface SMEncoder : SMObject <MTLCommandEncoder> {
    @public
    SMCommandBuffer *_buffer;
    int _number;
    NSString *_label;
    MTLDispatchType _type;
}
- (instancetype)initWithBuffer:(SMCommandBuffer *)buffer number:(int)number
                          type:(MTLDispatchType)type;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end
@interface SMComputeEncoder : SMEncoder <MTLComputeCommandEncoder>
@end
@interface SMBlitEncoder : SMEncoder <MTLBlitCommandEncoder>
@end

@interface SMEvent : SMObject <MTLSharedEvent> {
    @public
    sm_event *_core;
    int _device;
    NSString *_label;
}
- (instancetype)initWithDevice:(int)device;
@end

@interface SMFence : SMObject <MTLFence> {
    @public
    sm_event *_core;
    int _device;
    NSString *_label;
}
- (instancetype)initWithDevice:(int)device;
@end

#endif
