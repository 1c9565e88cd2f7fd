/* Buffers, events and fences. */
#import "objects.h"

@implementation SMBuffer
- (instancetype)initWithCore:(sm_buffer *)core device:(int)device options:(MTLResourceOptions)options
{
    if ((self = [super init])) {
        _core = core;
        _device = device;
        _options = options;
        _length = sm_buffer_length(core);
    }
    return self;
}
- (void)dealloc
{
    void *pointer = sm_buffer_contents(_core);
    sm_buffer_owner_gone(_core);
    if (_deallocator) {
        _deallocator(pointer, _length);
        [_deallocator release];
    }
    [_label release];
    [super dealloc];
}
- (NSString *)label { return [[_label retain] autorelease]; }
- (void)setLabel:(NSString *)label
{
    NSString *old = _label;
    _label = [label copy];
    [old release];
    sm_buffer_set_label(_core, [label UTF8String]);
}
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
- (NSUInteger)length
{
    SM_GUARD("length");
    return _length;
}
- (void *)contents
{
    SM_GUARD("contents");
    return sm_buffer_contents(_core);
}
- (MTLGPUAddress)gpuAddress
{
    SMRequire(self, _cmd);
    return sm_buffer_address(_core);
}
- (void)didModifyRange:(NSRange)range
{
    sm_violation("api", "didModifyRange: of %lu bytes: only for managed buffers",
                 (unsigned long)range.length);
}
- (MTLCPUCacheMode)cpuCacheMode { return (MTLCPUCacheMode)(_options & 15); }
- (MTLStorageMode)storageMode { return (MTLStorageMode)(_options >> 4 & 15); }
- (MTLHazardTrackingMode)hazardTrackingMode
{
    return (_options >> 8 & 3) == MTLHazardTrackingModeUntracked ? MTLHazardTrackingModeUntracked
                                                                 : MTLHazardTrackingModeTracked;
}
- (MTLResourceOptions)resourceOptions { return _options; }
- (NSUInteger)allocatedSize
{
    NSUInteger page = (NSUInteger)SM_KNOB(page_size);
    return (_length + page - 1) / page * page;
}
- (id<MTLHeap>)heap { return nil; }
- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state
{
    (void)state;
    return MTLPurgeableStateNonVolatile;
}
- (void)makeAliasable {}
- (BOOL)isAliasable { return NO; }
@end

@implementation MTLSharedEventListener
- (instancetype)init { return [super init]; }
@end

struct note {
    SMEvent *event;
    MTLSharedEventNotificationBlock block;
};

static void deliver(void *object, uint64_t value)
{
    struct note *n = object;
    n->block(n->event, value);
    [n->block release];
    [n->event release];
    free(n);
}

@implementation SMEvent
@synthesize label = _label;
- (instancetype)initWithDevice:(int)device
{
    SM_GUARD("newEvent");
    if ((self = [super init])) {
        _core = sm_event_new();
        _device = device;
    }
    return self;
}
- (void)dealloc
{
    sm_event_release(_core);
    [_label release];
    [super dealloc];
}
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
- (uint64_t)signaledValue
{
    SM_GUARD("signaledValue");
    return sm_event_value(_core);
}
- (void)setSignaledValue:(uint64_t)value { sm_event_signal(_core, value); }
- (void)notifyListener:(MTLSharedEventListener *)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block
{
    (void)listener;
    struct note *n = malloc(sizeof *n);
    n->event = [self retain];
    n->block = [block copy];
    sm_event_notify(_core, value, deliver, n);
}
- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds
{
    SM_GUARD("waitUntilSignaledValue");
    return sm_event_wait(_core, value, milliseconds) != 0;
}
@end

@implementation SMFence
@synthesize label = _label;
- (instancetype)initWithDevice:(int)device
{
    SM_GUARD("newFence");
    if ((self = [super init])) {
        _core = sm_event_new();
        _device = device;
    }
    return self;
}
- (void)dealloc
{
    sm_event_release(_core);
    [_label release];
    [super dealloc];
}
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
@end
