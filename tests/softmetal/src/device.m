/* MTLDevice, and what all classes share. */
#import "objects.h"
#include <string.h>
#include <unistd.h>

NSString *const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";
NSString *const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";
NSString *const MTLCommandBufferEncoderInfoErrorKey = @"MTLCommandBufferEncoderInfoErrorKey";

/* Selectors that came with or after macOS 13. */
static const struct {
    const char *name;
    int macos;
} kNewer[] = {
    {"gpuAddress", 13},
    {"optimizationLevel", 13},
    {"setOptimizationLevel:", 13},
    {"bindings", 13},
    {"architecture", 14},
    {"mathMode", 15},
    {"setMathMode:", 15},
    {"mathFloatingPointFunctions", 15},
    {"setMathFloatingPointFunctions:", 15},
};

BOOL SMTooNew(SEL selector)
{
    const char *name = sel_getName(selector);
    for (size_t i = 0; i < sizeof kNewer / sizeof *kNewer; ++i)
        if (!strcmp(name, kNewer[i].name))
            return SM_KNOB(macos) < kNewer[i].macos;
    return NO;
}

void SMRequire(id object, SEL selector)
{
    if (SMTooNew(selector))
        [NSException raise:NSInvalidArgumentException
                    format:@"-[%@ %@]: unrecognized selector sent to instance (macOS %ld)",
                           NSStringFromClass([object class]), NSStringFromSelector(selector),
                           SM_KNOB(macos)];
}

NSError *SMError(NSString *domain, NSInteger code, NSString *text)
{
    return [NSError errorWithDomain:domain
                               code:code
                           userInfo:@{NSLocalizedDescriptionKey : text}];
}

@implementation SMObject
- (id)retain
{
    SM_GUARD("retain");
    return [super retain];
}
- (oneway void)release
{
    SM_GUARD("release");
    [super release];
}
- (id)autorelease
{
    SM_GUARD("autorelease");
    if (![NSAutoreleasePool currentPool])
        sm_violation("autorelease", "%s is autoreleased on a thread without a pool: it leaks",
                     [NSStringFromClass([self class]) UTF8String]);
    return [super autorelease];
}
- (BOOL)respondsToSelector:(SEL)selector
{
    SM_GUARD("respondsToSelector:");
    return !SMTooNew(selector) && [super respondsToSelector:selector];
}
@end

@interface MTLArchitecture (Soft)
+ (MTLArchitecture *)named:(NSString *)name;
@end
@implementation MTLArchitecture
+ (MTLArchitecture *)named:(NSString *)name
{
    (void)name;
    return [[[self alloc] init] autorelease];
}
- (NSString *)name { return @"applegpu_standin_g"; }
- (id)copyWithZone:(NSZone *)zone
{
    (void)zone;
    return [self retain];
}
@end

static void thread_hook(int start)
{
    if (start)
        GSRegisterCurrentThread();
    else
        GSUnregisterCurrentThread();
}

@implementation SMDevice

+ (void)load
{
    sm_thread_hook = thread_hook;
}

+ (SMDevice *)at:(int)index
{
    static SMDevice *devices[2];
    @synchronized([SMDevice class]) {
        if (!devices[index])
            devices[index] = [[SMDevice alloc] initWithIndex:index];
    }
    return devices[index];
}

- (instancetype)initWithIndex:(int)index
{
    if ((self = [super init]))
        _index = index;
    return self;
}

- (int)index { return _index; }
- (NSString *)name
{
    SM_GUARD("name");
    return _index ? @"Apple GPU stand-in (second)" : @"Apple GPU stand-in";
}
- (uint64_t)registryID { return 0x100000a01u + (uint64_t)_index; }
- (MTLArchitecture *)architecture
{
    SMRequire(self, _cmd);
    return [MTLArchitecture named:nil];
}
- (MTLSize)maxThreadsPerThreadgroup
{
    NSUInteger n = (NSUInteger)SM_KNOB(max_threads);
    return MTLSizeMake(n, n, n);
}
- (BOOL)isLowPower { return NO; }
- (BOOL)isHeadless { return NO; }
- (BOOL)isRemovable { return NO; }
- (BOOL)hasUnifiedMemory { return SM_KNOB(unified) != 0; }
- (uint64_t)recommendedMaxWorkingSetSize { return (uint64_t)SM_KNOB(working_set); }
- (MTLDeviceLocation)location { return MTLDeviceLocationBuiltIn; }
- (NSUInteger)locationNumber { return (NSUInteger)_index; }
- (uint64_t)maxTransferRate { return 0; }
- (MTLArgumentBuffersTier)argumentBuffersSupport { return MTLArgumentBuffersTier2; }
- (NSUInteger)currentAllocatedSize
{
    SM_GUARD("currentAllocatedSize");
    return sm_allocated(_index);
}
- (NSUInteger)maxThreadgroupMemoryLength { return (NSUInteger)SM_KNOB(threadgroup_memory); }
- (NSUInteger)maxBufferLength { return (NSUInteger)SM_KNOB(max_buffer_length); }

- (BOOL)supportsFamily:(MTLGPUFamily)family
{
    SM_GUARD("supportsFamily:");
    long apple = SM_KNOB(family);
    if (family >= MTLGPUFamilyApple1 && family <= MTLGPUFamilyApple10)
        return family - 1000 <= apple;
    if (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3)
        return family - 3000 <= 3;
    if (family == MTLGPUFamilyMac1 || family == MTLGPUFamilyMac2)
        return YES;
    if (family == MTLGPUFamilyMetal3)
        return apple >= 7 && SM_KNOB(macos) >= 13;
    return NO;
}

- (id<MTLCommandQueue>)newCommandQueue
{
    return [self newCommandQueueWithMaxCommandBufferCount:(NSUInteger)SM_KNOB(command_buffers)];
}

- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count
{
    SM_GUARD("newCommandQueue");
    if (sm_knob_countdown(SM_K_fail_queue))
        return nil;
    if (!count) {
        sm_violation("api", "newCommandQueueWithMaxCommandBufferCount: 0");
        return nil;
    }
    return [[SMQueue alloc] initWithDevice:_index slots:count];
}

- (sm_buffer *)make:(NSUInteger)length options:(MTLResourceOptions)options pointer:(void *)pointer
{
    SM_GUARD("newBuffer");
    if (!length) {
        sm_violation("api", "newBuffer with length 0");
        return NULL;
    }
    if (length > (NSUInteger)SM_KNOB(max_buffer_length)) {
        sm_violation("api", "newBuffer with %lu bytes, maxBufferLength is %ld",
                     (unsigned long)length, SM_KNOB(max_buffer_length));
        return NULL;
    }
    NSUInteger mode = options >> MTLResourceStorageModeShift & 15;
    if (mode == MTLStorageModeMemoryless ||
        (mode == MTLStorageModeManaged && SM_KNOB(unified))) {
        sm_violation("api", "newBuffer with storage mode %lu: only shared and private buffers are "
                     "modelled", (unsigned long)mode);
        return NULL;
    }
    return sm_buffer_new(_index, length, options, pointer);
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options
{
    sm_buffer *b = [self make:length options:options pointer:NULL];
    return b ? [[SMBuffer alloc] initWithCore:b device:_index options:options] : nil;
}

- (id<MTLBuffer>)newBufferWithBytes:(const void *)pointer
                             length:(NSUInteger)length
                            options:(MTLResourceOptions)options
{
    sm_buffer *b = [self make:length options:options pointer:NULL];
    if (!b)
        return nil;
    memcpy((void *)(uintptr_t)sm_buffer_address(b), pointer, length);
    return [[SMBuffer alloc] initWithCore:b device:_index options:options];
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void *)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void *, NSUInteger))deallocator
{
    NSUInteger page = (NSUInteger)SM_KNOB(page_size);
    if ((uintptr_t)pointer % page || length % page || !pointer) {
        sm_violation("api", "newBufferWithBytesNoCopy: pointer %p and length %lu must be multiples "
                     "of the page size %lu", pointer, (unsigned long)length, (unsigned long)page);
        return nil;
    }
    sm_buffer *b = [self make:length options:options pointer:pointer];
    if (!b)
        return nil;
    SMBuffer *buffer = [[SMBuffer alloc] initWithCore:b device:_index options:options];
    buffer->_deallocator = [deallocator copy];
    return buffer;
}

- (id<MTLLibrary>)newDefaultLibrary { return nil; }

- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source
                               options:(MTLCompileOptions *)options
                                 error:(NSError **)error
{
    SM_GUARD("newLibraryWithSource");
    SM_COUNT(compiles, 1);
    if (SM_KNOB(compile_delay_ms))
        usleep((useconds_t)SM_KNOB(compile_delay_ms) * 1000);
    if (!source)
        [NSException raise:NSInvalidArgumentException format:@"source must not be nil"];
    if (sm_knob_take(SM_K_fail_compile)) {
        if (error)
            *error = SMError(MTLLibraryErrorDomain, MTLLibraryErrorInternal,
                             @"Compiler encountered XPC_ERROR_CONNECTION_INVALID (is the OS "
                             @"shutting down?)");
        return nil;
    }
    static const struct {
        NSUInteger version;
        int number, macos;
    } versions[] = {{MTLLanguageVersion2_0, 200, 10}, {MTLLanguageVersion2_1, 210, 10},
                    {MTLLanguageVersion2_2, 220, 10}, {MTLLanguageVersion2_3, 230, 11},
                    {MTLLanguageVersion2_4, 240, 12}, {MTLLanguageVersion3_0, 300, 13},
                    {MTLLanguageVersion3_1, 310, 14}, {MTLLanguageVersion3_2, 320, 15},
                    {MTLLanguageVersion4_0, 400, 26}};
    struct sm_compile_options o = {0, 1, 1, NULL};
    long macos = SM_KNOB(macos);
    NSUInteger wanted = options ? options.languageVersion : 0;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; ++i)
        if (wanted ? versions[i].version == wanted : versions[i].macos <= macos) {
            if (versions[i].macos > macos) {
                if (error)
                    *error = SMError(MTLLibraryErrorDomain, MTLLibraryErrorUnsupported,
                                     @"the language version is not supported by this macOS");
                return nil;
            }
            o.language = versions[i].number;
        }
    if (!o.language) {
        if (error)
            *error = SMError(MTLLibraryErrorDomain, MTLLibraryErrorUnsupported,
                             @"the language version is unknown");
        return nil;
    }
    NSMutableString *macros = [NSMutableString string];
    if (options) {
        [options getFast:&o.fast_math functions:&o.fast_functions];
        for (NSString *name in [[options.preprocessorMacros allKeys]
                 sortedArrayUsingSelector:@selector(compare:)])
            [macros appendFormat:@"%@=%@\n", name, [options.preprocessorMacros objectForKey:name]];
    }
    o.macros = [macros UTF8String];
    char *message = NULL;
    sm_program *p = sm_program_new([source UTF8String], &o, NULL, &message);
    if (!p) {
        if (error)
            *error = SMError(MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure,
                             [NSString stringWithUTF8String:message ? message : "unknown"]);
        free(message);
        return nil;
    }
    return [[SMLibrary alloc] initWithProgram:p device:_index];
}

- (void)newLibraryWithSource:(NSString *)source
                     options:(MTLCompileOptions *)options
           completionHandler:(MTLNewLibraryCompletionHandler)handler
{
    NSError *error = nil;
    id<MTLLibrary> library = [self newLibraryWithSource:source options:options error:&error];
    handler(library, error);
    [(id)library release];
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                             error:(NSError **)error
{
    return [self newComputePipelineStateWithFunction:function
                                             options:MTLPipelineOptionNone
                                          reflection:NULL
                                               error:error];
}

- (id<MTLComputePipelineState>)
    newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                options:(MTLPipelineOption)options
                             reflection:(MTLAutoreleasedComputePipelineReflection *)reflection
                                  error:(NSError **)error
{
    (void)options;
    if (reflection)
        *reflection = nil;
    if (!function)
        [NSException raise:NSInvalidArgumentException format:@"computeFunction must not be nil"];
    return [[SMPipeline alloc] initWithFunction:(SMFunction *)function descriptor:nil error:error];
}

- (id<MTLComputePipelineState>)
    newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor *)descriptor
                                  options:(MTLPipelineOption)options
                               reflection:(MTLAutoreleasedComputePipelineReflection *)reflection
                                    error:(NSError **)error
{
    (void)options;
    if (reflection)
        *reflection = nil;
    if (!descriptor.computeFunction)
        [NSException raise:NSInvalidArgumentException format:@"computeFunction must not be nil"];
    return [[SMPipeline alloc] initWithFunction:(SMFunction *)descriptor.computeFunction
                                     descriptor:descriptor
                                          error:error];
}

- (void)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                          completionHandler:(MTLNewComputePipelineStateCompletionHandler)handler
{
    NSError *error = nil;
    id<MTLComputePipelineState> state = [self newComputePipelineStateWithFunction:function
                                                                            error:&error];
    handler(state, error);
    [(id)state release];
}

- (id<MTLFence>)newFence { return [[SMFence alloc] initWithDevice:_index]; }
- (id<MTLEvent>)newEvent { return [[SMEvent alloc] initWithDevice:_index]; }
- (id<MTLSharedEvent>)newSharedEvent { return [[SMEvent alloc] initWithDevice:_index]; }

@end

id<MTLDevice> MTLCreateSystemDefaultDevice(void)
{
    SM_GUARD("MTLCreateSystemDefaultDevice");
    return SM_KNOB(devices) > 0 ? [[SMDevice at:0] retain] : nil;
}

NSArray<id<MTLDevice>> *MTLCopyAllDevices(void)
{
    SM_GUARD("MTLCopyAllDevices");
    NSMutableArray *all = [[NSMutableArray alloc] init];
    for (int i = 0; i < SM_KNOB(devices) && i < 2; ++i)
        [all addObject:[SMDevice at:i]];
    return all;
}

__attribute__((visibility("default"))) uint32_t CGMainDisplayID(void) { return 1; }
