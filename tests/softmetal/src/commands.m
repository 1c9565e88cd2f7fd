/* Command queues, command buffers and encoders. */
#import "objects.h"

@implementation SMQueue
@synthesize label = _label;
- (instancetype)initWithDevice:(int)device slots:(NSUInteger)slots
{
    if ((self = [super init])) {
        _core = sm_queue_new(device, (long)slots);
        _device = device;
    }
    return self;
}
- (void)dealloc
{
    sm_queue_release(_core);
    [_label release];
    [super dealloc];
}
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
- (id<MTLCommandBuffer>)commandBuffer
{
    return [[[SMCommandBuffer alloc] initWithQueue:self retained:YES options:0] autorelease];
}
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences
{
    return [[[SMCommandBuffer alloc] initWithQueue:self retained:NO options:0] autorelease];
}
- (id<MTLCommandBuffer>)commandBufferWithDescriptor:(MTLCommandBufferDescriptor *)descriptor
{
    return [[[SMCommandBuffer alloc] initWithQueue:self
                                          retained:descriptor.retainedReferences
                                           options:descriptor.errorOptions] autorelease];
}
- (void)insertDebugCaptureBoundary {}
@end

@implementation MTLCommandBufferDescriptor
@synthesize retainedReferences = _retainedReferences, errorOptions = _errorOptions;
- (instancetype)init
{
    if ((self = [super init]))
        _retainedReferences = YES;
    return self;
}
- (id)copyWithZone:(NSZone *)zone
{
    MTLCommandBufferDescriptor *d = [[MTLCommandBufferDescriptor allocWithZone:zone] init];
    d.retainedReferences = _retainedReferences;
    d.errorOptions = _errorOptions;
    return d;
}
@end

@interface SMEncoderInfo : SMObject <MTLCommandBufferEncoderInfo> {
    @public
    NSString *_label;
    NSArray *_debugSignposts;
    MTLCommandEncoderErrorState _errorState;
}
@end
@implementation SMEncoderInfo
- (NSString *)label { return _label; }
- (NSArray<NSString *> *)debugSignposts { return _debugSignposts; }
- (MTLCommandEncoderErrorState)errorState { return _errorState; }
- (void)dealloc
{
    [_label release];
    [_debugSignposts release];
    [super dealloc];
}
@end

static void finished(void *object, int what);

@implementation SMCommandBuffer

- (instancetype)initWithQueue:(SMQueue *)queue retained:(BOOL)retained
                      options:(MTLCommandBufferErrorOption)options
{
    SM_GUARD("commandBuffer");
    if ((self = [super init])) {
        _queue = [queue retain];
        _retained = retained;
        _options = options;
        _core = sm_cb_new(queue->_core, retained);
    }
    return self;
}
- (void)dealloc
{
    sm_cb_release(_core);
    [_queue release];
    [_label release];
    [_completed release];
    [_scheduled release];
    [_held release];
    [_error release];
    [super dealloc];
}
/* What a command buffer keeps alive until it has completed. */
- (void)hold:(id)object
{
    if (!_retained || !object)
        return;
    if (!_held)
        _held = [[NSMutableArray alloc] init];
    [_held addObject:object];
}
- (NSString *)label { return _label; }
- (void)setLabel:(NSString *)label
{
    SM_GUARD("setLabel:");
    NSString *old = _label;
    _label = [label copy];
    [old release];
    sm_cb_set_label(_core, [label UTF8String]);
}
- (id<MTLDevice>)device { return [SMDevice at:_queue->_device]; }
- (id<MTLCommandQueue>)commandQueue { return _queue; }
- (BOOL)retainedReferences { return _retained; }
- (MTLCommandBufferErrorOption)errorOptions { return _options; }
- (MTLTimeInterval)GPUStartTime { return sm_cb_time(_core, 0); }
- (MTLTimeInterval)GPUEndTime { return sm_cb_time(_core, 1); }
- (MTLTimeInterval)kernelStartTime { return sm_cb_time(_core, 2); }
- (MTLTimeInterval)kernelEndTime { return sm_cb_time(_core, 3); }
- (MTLCommandBufferStatus)status
{
    SM_GUARD("status");
    return (MTLCommandBufferStatus)sm_cb_status(_core);
}
- (NSError *)error
{
    SM_GUARD("error");
    const char *text = NULL;
    int code = sm_cb_error(_core, &text);
    if (!code)
        return nil;
    @synchronized(self) {
        if (!_error) {
            NSMutableDictionary *info = [NSMutableDictionary dictionary];
            [info setObject:[NSString stringWithUTF8String:text] forKey:NSLocalizedDescriptionKey];
            if (_options & MTLCommandBufferErrorOptionEncoderExecutionStatus) {
                NSMutableArray *list = [NSMutableArray array];
                for (int i = 0; i < sm_cb_encoders(_core); ++i) {
                    const char *label, *posts;
                    SMEncoderInfo *e = [[[SMEncoderInfo alloc] init] autorelease];
                    e->_errorState =
                        (MTLCommandEncoderErrorState)sm_cb_encoder_info(_core, i, &label, &posts);
                    e->_label = [[NSString alloc] initWithUTF8String:label];
                    NSArray *lines = [[NSString stringWithUTF8String:posts]
                        componentsSeparatedByString:@"\n"];
                    e->_debugSignposts =
                        [[lines subarrayWithRange:NSMakeRange(0, [lines count] - 1)] retain];
                    [list addObject:e];
                }
                [info setObject:list forKey:MTLCommandBufferEncoderInfoErrorKey];
            }
            _error = [[NSError alloc] initWithDomain:MTLCommandBufferErrorDomain
                                                code:code
                                            userInfo:info];
        }
    }
    return [[_error retain] autorelease];
}
- (void)add:(MTLCommandBufferHandler)block to:(NSMutableArray **)list name:(const char *)name
{
    SM_GUARD(name);
    if (sm_cb_status(_core) >= (int)MTLCommandBufferStatusCommitted) {
        sm_violation("api", "%s after commit", name);
        return;
    }
    if (!*list)
        *list = [[NSMutableArray alloc] init];
    id copy = [block copy];
    [*list addObject:copy];
    [copy release];
}
- (void)addScheduledHandler:(MTLCommandBufferHandler)block
{
    [self add:block to:&_scheduled name:"addScheduledHandler"];
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)block
{
    [self add:block to:&_completed name:"addCompletedHandler"];
}
- (void)enqueue
{
    SM_GUARD("enqueue");
    sm_cb_enqueue(_core);
}
- (void)commit
{
    SM_GUARD("commit");
    [self retain]; /* until it has ended */
    if (!sm_cb_commit(_core, finished, self))
        [self release];
}
- (void)waitUntilScheduled
{
    SM_GUARD("waitUntilScheduled");
    sm_cb_wait(_core, 1);
}
- (void)waitUntilCompleted
{
    SM_GUARD("waitUntilCompleted");
    sm_cb_wait(_core, 0);
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoder
{
    return [self computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type
{
    int n = sm_enc_begin(_core, type == MTLDispatchTypeConcurrent, 0);
    return n < 0 ? nil : [[[SMComputeEncoder alloc] initWithBuffer:self number:n
                                                             type:type] autorelease];
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder
{
    int n = sm_enc_begin(_core, 0, 1);
    return n < 0 ? nil : [[[SMBlitEncoder alloc] initWithBuffer:self number:n
                                                           type:MTLDispatchTypeSerial] autorelease];
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value
{
    sm_cb_wait_event(_core, event ? ((SMEvent *)event)->_core : NULL, value);
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value
{
    sm_cb_signal_event(_core, event ? ((SMEvent *)event)->_core : NULL, value);
}
- (void)pushDebugGroup:(NSString *)string { (void)string; }
- (void)popDebugGroup {}
@end

/* Runs on the queue's thread, without an autorelease pool: handlers bring their
 * own, as they must on a Mac. */
static void finished(void *object, int what)
{
    SMCommandBuffer *b = object;
    if (what < 2) {
        NSMutableArray *list = what ? b->_completed : b->_scheduled;
        for (NSUInteger i = 0; i < [list count]; ++i)
            ((MTLCommandBufferHandler)[list objectAtIndex:i])(b);
        if (!what)
            return;
    } else {
        [b release];
        return;
    }
    /* Blocks and resources are let go now, not when the last reference to the
     * command buffer goes. */
    NSMutableArray *completed = b->_completed, *scheduled = b->_scheduled, *held = b->_held;
    b->_completed = b->_scheduled = b->_held = nil;
    [completed release];
    [scheduled release];
    [held release];
}

@implementation SMEncoder
- (instancetype)initWithBuffer:(SMCommandBuffer *)buffer number:(int)number
                          type:(MTLDispatchType)type
{
    if ((self = [super init])) {
        _buffer = [buffer retain];
        _number = number;
        _type = type;
        SM_COUNT(encoders, 1);
    }
    return self;
}
- (void)dealloc
{
    SM_COUNT(encoders, -1);
    if (sm_enc_open(_buffer->_core, _number)) {
        sm_violation("api", "an encoder is released without endEncoding");
        sm_enc_end(_buffer->_core, _number);
    }
    [_buffer release];
    [_label release];
    [super dealloc];
}
- (id<MTLDevice>)device { return [_buffer device]; }
- (NSString *)label { return _label; }
- (void)setLabel:(NSString *)label
{
    SM_GUARD("setLabel:");
    NSString *old = _label;
    _label = [label copy];
    [old release];
    sm_enc_label(_buffer->_core, _number, [label UTF8String]);
}
- (void)endEncoding { sm_enc_end(_buffer->_core, _number); }
- (void)insertDebugSignpost:(NSString *)string
{
    sm_enc_signpost(_buffer->_core, _number, [string UTF8String]);
}
- (void)pushDebugGroup:(NSString *)string
{
    sm_enc_signpost(_buffer->_core, _number, [string UTF8String]);
}
- (void)popDebugGroup {}
- (void)updateFence:(id<MTLFence>)fence
{
    sm_enc_fence(_buffer->_core, _number, ((SMFence *)fence)->_core, 1);
}
- (void)waitForFence:(id<MTLFence>)fence
{
    sm_enc_fence(_buffer->_core, _number, ((SMFence *)fence)->_core, 0);
}
@end

@implementation SMComputeEncoder
- (MTLDispatchType)dispatchType { return _type; }
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state
{
    SMPipeline *p = (SMPipeline *)state;
    [_buffer hold:p];
    sm_enc_pipeline(_buffer->_core, _number, p ? p->_kernel : NULL,
                    p ? (unsigned)p->_maxThreads : 0, p ? p->_device : 0);
}
- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index
{
    sm_enc_bytes(_buffer->_core, _number, bytes, length, index);
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index
{
    [_buffer hold:buffer];
    sm_enc_buffer(_buffer->_core, _number, buffer ? ((SMBuffer *)buffer)->_core : NULL, offset,
                  index);
}
- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index
{
    sm_enc_buffer_offset(_buffer->_core, _number, offset, index);
}
- (void)setBuffers:(const id<MTLBuffer> *)buffers
           offsets:(const NSUInteger *)offsets
         withRange:(NSRange)range
{
    for (NSUInteger i = 0; i < range.length; ++i)
        [self setBuffer:buffers[i] offset:offsets[i] atIndex:range.location + i];
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index
{
    sm_enc_threadgroup(_buffer->_core, _number, length, index);
}
static void dispatch(SMComputeEncoder *e, int threads, MTLSize grid, MTLSize group)
{
    size_t g[3] = {grid.width, grid.height, grid.depth};
    size_t t[3] = {group.width, group.height, group.depth};
    sm_enc_dispatch(e->_buffer->_core, e->_number, threads, g, t, NULL, 0);
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)group
{
    dispatch(self, 0, groups, group);
}
- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group
{
    dispatch(self, 1, threads, group);
}
- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)indirectBuffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)group
{
    size_t t[3] = {group.width, group.height, group.depth};
    [_buffer hold:indirectBuffer];
    sm_enc_dispatch(_buffer->_core, _number, 0, NULL, t, ((SMBuffer *)indirectBuffer)->_core,
                    offset);
}
- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage
{
    [_buffer hold:resource];
    sm_enc_use(_buffer->_core, _number, resource ? ((SMBuffer *)resource)->_core : NULL,
               (usage & MTLResourceUsageWrite) != 0);
}
- (void)useResources:(const id<MTLResource> *)resources
               count:(NSUInteger)count
               usage:(MTLResourceUsage)usage
{
    for (NSUInteger i = 0; i < count; ++i)
        [self useResource:resources[i] usage:usage];
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope
{
    (void)scope;
    sm_enc_barrier(_buffer->_core, _number);
}
- (void)memoryBarrierWithResources:(const id<MTLResource> *)resources count:(NSUInteger)count
{
    (void)resources;
    (void)count;
    sm_enc_barrier(_buffer->_core, _number);
}
@end

@implementation SMBlitEncoder
- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size
{
    [_buffer hold:source];
    [_buffer hold:destination];
    sm_enc_copy(_buffer->_core, _number, source ? ((SMBuffer *)source)->_core : NULL, sourceOffset,
                destination ? ((SMBuffer *)destination)->_core : NULL, destinationOffset, size);
}
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value
{
    [_buffer hold:buffer];
    sm_enc_fill(_buffer->_core, _number, buffer ? ((SMBuffer *)buffer)->_core : NULL,
                range.location, range.length, value);
}
- (void)synchronizeResource:(id<MTLResource>)resource
{
    (void)resource;
    sm_violation("api", "synchronizeResource: only for managed buffers");
}
@end
