/* Compute pipelines. */
#ifndef SOFTMETAL_MTLCOMPUTEPIPELINE_H
#define SOFTMETAL_MTLCOMPUTEPIPELINE_H

#import <Metal/MTLLibrary.h>

typedef NS_OPTIONS(NSUInteger, MTLPipelineOption) {
    MTLPipelineOptionNone = 0,
    MTLPipelineOptionArgumentInfo = 1,
    MTLPipelineOptionBindingInfo = 1,
    MTLPipelineOptionBufferTypeInfo = 2,
    MTLPipelineOptionFailOnBinaryArchiveMiss = 4,
};

typedef NS_ENUM(NSUInteger, MTLMutability) {
    MTLMutabilityDefault = 0,
    MTLMutabilityMutable = 1,
    MTLMutabilityImmutable = 2,
};

@interface MTLPipelineBufferDescriptor : NSObject <NSCopying> {
    @private
    MTLMutability _mutability;
}
@property MTLMutability mutability;
@end

@interface MTLPipelineBufferDescriptorArray : NSObject {
    @private
    MTLPipelineBufferDescriptor *_items[31];
}
- (MTLPipelineBufferDescriptor *)objectAtIndexedSubscript:(NSUInteger)index;
- (void)setObject:(MTLPipelineBufferDescriptor *)buffer atIndexedSubscript:(NSUInteger)index;
@end

@interface MTLComputePipelineReflection : NSObject
@property(readonly) NSArray *arguments;
@property(readonly) NSArray *bindings; /* macOS 13 */
@end

typedef MTLComputePipelineReflection *MTLAutoreleasedComputePipelineReflection;

@interface MTLComputePipelineDescriptor : NSObject <NSCopying> {
    @private
    NSString *_label;
    id<MTLFunction> _computeFunction;
    BOOL _threadGroupSizeIsMultipleOfThreadExecutionWidth, _supportIndirectCommandBuffers;
    NSUInteger _maxTotalThreadsPerThreadgroup, _maxCallStackDepth;
    MTLPipelineBufferDescriptorArray *_buffers;
}
@property(copy) NSString *label;
@property(strong) id<MTLFunction> computeFunction;
@property BOOL threadGroupSizeIsMultipleOfThreadExecutionWidth;
@property NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) MTLPipelineBufferDescriptorArray *buffers;
@property BOOL supportIndirectCommandBuffers;
@property NSUInteger maxCallStackDepth;
- (void)reset;
@end

@protocol MTLComputePipelineState <NSObject>
@property(readonly) NSString *label;
@property(readonly) id<MTLDevice> device;
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger staticThreadgroupMemoryLength;
@property(readonly) BOOL supportIndirectCommandBuffers;
@end

typedef void (^MTLNewLibraryCompletionHandler)(id<MTLLibrary> library, NSError *error);
typedef void (^MTLNewComputePipelineStateCompletionHandler)(id<MTLComputePipelineState> state,
                                                            NSError *error);
typedef void (^MTLNewComputePipelineStateWithReflectionCompletionHandler)(
    id<MTLComputePipelineState> state, MTLComputePipelineReflection *reflection, NSError *error);

#endif
