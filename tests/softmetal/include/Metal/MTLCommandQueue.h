/* Command queues. */
#ifndef SOFTMETAL_MTLCOMMANDQUEUE_H
#define SOFTMETAL_MTLCOMMANDQUEUE_H

#import <Metal/MTLCommandBuffer.h>

@protocol MTLCommandQueue <NSObject>
@property(copy, atomic) NSString *label;
@property(readonly) id<MTLDevice> device;
- (id<MTLCommandBuffer>)commandBuffer;
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
- (id<MTLCommandBuffer>)commandBufferWithDescriptor:(MTLCommandBufferDescriptor *)descriptor;
- (void)insertDebugCaptureBoundary;
@end

#endif
