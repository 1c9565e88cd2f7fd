/* Compile options, libraries, functions, pipelines. */
#import "objects.h"
#include <stdlib.h>
#include <string.h>

@implementation MTLCompileOptions
@synthesize preprocessorMacros = _preprocessorMacros, installName = _installName;
@synthesize libraries = _libraries, preserveInvariance = _preserveInvariance;
@synthesize languageVersion = _languageVersion, libraryType = _libraryType;
@synthesize optimizationLevel = _optimizationLevel;

- (instancetype)init
{
    if ((self = [super init])) {
        _mathMode = MTLMathModeFast;
        _mathFloatingPointFunctions = MTLMathFloatingPointFunctionsFast;
    }
    return self;
}
- (void)dealloc
{
    [_preprocessorMacros release];
    [_installName release];
    [_libraries release];
    [super dealloc];
}
- (id)copyWithZone:(NSZone *)zone
{
    MTLCompileOptions *o = [[MTLCompileOptions allocWithZone:zone] init];
    o->_preprocessorMacros = [_preprocessorMacros copy];
    o->_mathMode = _mathMode;
    o->_mathFloatingPointFunctions = _mathFloatingPointFunctions;
    o->_languageVersion = _languageVersion;
    return o;
}
- (BOOL)respondsToSelector:(SEL)selector
{
    return !SMTooNew(selector) && [super respondsToSelector:selector];
}
/* The old switch stands for both new ones. */
- (BOOL)fastMathEnabled { return _mathMode == MTLMathModeFast; }
- (void)setFastMathEnabled:(BOOL)fast
{
    _mathMode = fast ? MTLMathModeFast : MTLMathModeSafe;
    _mathFloatingPointFunctions =
        fast ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;
}
- (MTLMathMode)mathMode
{
    SMRequire(self, _cmd);
    return _mathMode;
}
- (void)setMathMode:(MTLMathMode)mode
{
    SMRequire(self, _cmd);
    _mathMode = mode;
}
- (MTLMathFloatingPointFunctions)mathFloatingPointFunctions
{
    SMRequire(self, _cmd);
    return _mathFloatingPointFunctions;
}
- (void)setMathFloatingPointFunctions:(MTLMathFloatingPointFunctions)functions
{
    SMRequire(self, _cmd);
    _mathFloatingPointFunctions = functions;
}
- (void)getFast:(int *)math functions:(int *)functions
{
    *math = _mathMode != MTLMathModeSafe;
    *functions = _mathFloatingPointFunctions == MTLMathFloatingPointFunctionsFast;
}
@end

@implementation MTLFunctionConstantValues
- (instancetype)init
{
    if ((self = [super init]))
        _values = [[NSMutableDictionary alloc] init];
    return self;
}
- (void)dealloc
{
    [_values release];
    [super dealloc];
}
- (id)copyWithZone:(NSZone *)zone
{
    MTLFunctionConstantValues *v = [[MTLFunctionConstantValues allocWithZone:zone] init];
    [v->_values addEntriesFromDictionary:_values];
    return v;
}
static size_t literal(const void *p, MTLDataType type, char *out, size_t size)
{
    switch (type) {
    case MTLDataTypeFloat: {
        uint32_t bits;
        memcpy(&bits, p, 4);
        snprintf(out, size, "__builtin_astype(%uu, float)", bits);
        return 4;
    }
    case MTLDataTypeHalf: {
        uint16_t bits;
        memcpy(&bits, p, 2);
        snprintf(out, size, "__builtin_astype((ushort)%u, half)", bits);
        return 2;
    }
    case MTLDataTypeInt: snprintf(out, size, "(%d)", *(const int32_t *)p); return 4;
    case MTLDataTypeUInt: snprintf(out, size, "%uu", *(const uint32_t *)p); return 4;
    case MTLDataTypeShort: snprintf(out, size, "(%d)", *(const int16_t *)p); return 2;
    case MTLDataTypeUShort: snprintf(out, size, "%u", *(const uint16_t *)p); return 2;
    case MTLDataTypeChar: snprintf(out, size, "(%d)", *(const int8_t *)p); return 1;
    case MTLDataTypeUChar: snprintf(out, size, "%u", *(const uint8_t *)p); return 1;
    case MTLDataTypeLong: snprintf(out, size, "(%ldL)", (long)*(const int64_t *)p); return 8;
    case MTLDataTypeULong:
        snprintf(out, size, "%luUL", (unsigned long)*(const uint64_t *)p);
        return 8;
    case MTLDataTypeBool: snprintf(out, size, "%s", *(const uint8_t *)p ? "true" : "false"); return 1;
    default:
        sm_violation("api", "setConstantValue: type %lu is not modelled", (unsigned long)type);
        snprintf(out, size, "0");
        return 4;
    }
}
- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index
{
    char text[64];
    literal(value, type, text, sizeof text);
    [_values setObject:[NSString stringWithUTF8String:text]
                forKey:[NSString stringWithFormat:@"%lu", (unsigned long)index]];
}
- (void)setConstantValues:(const void *)values type:(MTLDataType)type withRange:(NSRange)range
{
    const char *p = values;
    char text[64];
    for (NSUInteger i = 0; i < range.length; ++i) {
        p += literal(p, type, text, sizeof text);
        [_values setObject:[NSString stringWithUTF8String:text]
                    forKey:[NSString stringWithFormat:@"%lu", (unsigned long)(range.location + i)]];
    }
}
- (void)setConstantValue:(const void *)value type:(MTLDataType)type withName:(NSString *)name
{
    char text[64];
    literal(value, type, text, sizeof text);
    [_values setObject:[NSString stringWithUTF8String:text] forKey:name];
}
- (void)reset { [_values removeAllObjects]; }
- (NSString *)lines
{
    NSMutableString *s = [NSMutableString string];
    for (NSString *key in [[_values allKeys] sortedArrayUsingSelector:@selector(compare:)])
        [s appendFormat:@"%@ %@\n", key, [_values objectForKey:key]];
    return s;
}
@end

@implementation SMLibrary
@synthesize label = _label;

- (instancetype)initWithProgram:(sm_program *)program device:(int)device
{
    if ((self = [super init])) {
        _program = program;
        _device = device;
        SM_COUNT(libraries, 1);
    }
    return self;
}
- (void)dealloc
{
    SM_COUNT(libraries, -1);
    sm_program_release(_program);
    [_label release];
    [super dealloc];
}
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
- (MTLLibraryType)type { return MTLLibraryTypeExecutable; }
- (NSString *)installName { return nil; }
- (NSArray<NSString *> *)functionNames
{
    NSMutableArray *names = [NSMutableArray array];
    for (int i = 0; i < sm_program_count(_program); ++i)
        [names addObject:[NSString stringWithUTF8String:sm_program_name(_program, i)]];
    return names;
}
- (id<MTLFunction>)newFunctionWithName:(NSString *)name
{
    SM_GUARD("newFunctionWithName:");
    sm_kernel *k = sm_program_kernel(_program, [name UTF8String]);
    if (!k || sm_program_needs_constants(_program))
        return nil;
    sm_program_retain(_program);
    return [[SMFunction alloc] initWithProgram:_program kernel:k device:_device];
}
- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)values
                                 error:(NSError **)error
{
    SM_GUARD("newFunctionWithName:constantValues:error:");
    char *message = NULL;
    sm_program *p = sm_program_specialize(_program, [[values lines] UTF8String], &message);
    sm_kernel *k = p ? sm_program_kernel(p, [name UTF8String]) : NULL;
    if (k)
        return [[SMFunction alloc] initWithProgram:p kernel:k device:_device];
    if (error)
        *error = SMError(MTLLibraryErrorDomain,
                         p ? MTLLibraryErrorFunctionNotFound : MTLLibraryErrorCompileFailure,
                         message ? [NSString stringWithUTF8String:message]
                                 : [NSString stringWithFormat:@"function %@ does not exist", name]);
    free(message);
    if (p)
        sm_program_release(p);
    return nil;
}
@end

@implementation SMFunction
@synthesize label = _label;

- (instancetype)initWithProgram:(sm_program *)program kernel:(sm_kernel *)kernel device:(int)device
{
    if ((self = [super init])) {
        _program = program;
        _kernel = kernel;
        _device = device;
        SM_COUNT(functions, 1);
    }
    return self;
}
- (void)dealloc
{
    SM_COUNT(functions, -1);
    sm_program_release(_program);
    [_label release];
    [super dealloc];
}
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
- (MTLFunctionType)functionType { return MTLFunctionTypeKernel; }
- (NSString *)name { return [NSString stringWithUTF8String:sm_kernel_name(_kernel)]; }
- (NSDictionary *)functionConstantsDictionary
{
    NSMutableDictionary *all = [NSMutableDictionary dictionary];
    NSString *list = [NSString stringWithUTF8String:sm_program_constants(_program)];
    for (NSString *line in [list componentsSeparatedByString:@"\n"]) {
        NSArray *words = [line componentsSeparatedByString:@" "];
        if ([words count] == 3)
            [all setObject:[words objectAtIndex:0] forKey:[words objectAtIndex:2]];
    }
    return all;
}
@end

@implementation MTLPipelineBufferDescriptor
@synthesize mutability = _mutability;
- (id)copyWithZone:(NSZone *)zone
{
    MTLPipelineBufferDescriptor *d = [[MTLPipelineBufferDescriptor allocWithZone:zone] init];
    d->_mutability = _mutability;
    return d;
}
@end

@implementation MTLPipelineBufferDescriptorArray
- (MTLPipelineBufferDescriptor *)objectAtIndexedSubscript:(NSUInteger)index
{
    if (index >= SM_MAX_BUFFERS)
        [NSException raise:NSRangeException format:@"buffer index %lu", (unsigned long)index];
    if (!_items[index])
        _items[index] = [[MTLPipelineBufferDescriptor alloc] init];
    return _items[index];
}
- (void)setObject:(MTLPipelineBufferDescriptor *)buffer atIndexedSubscript:(NSUInteger)index
{
    [self objectAtIndexedSubscript:index].mutability = buffer.mutability;
}
- (void)dealloc
{
    for (int i = 0; i < SM_MAX_BUFFERS; ++i)
        [_items[i] release];
    [super dealloc];
}
@end

@implementation MTLComputePipelineReflection
- (NSArray *)arguments { return @[]; }
- (NSArray *)bindings { return @[]; }
@end

@implementation MTLComputePipelineDescriptor
@synthesize label = _label, computeFunction = _computeFunction;
@synthesize threadGroupSizeIsMultipleOfThreadExecutionWidth =
                _threadGroupSizeIsMultipleOfThreadExecutionWidth;
@synthesize supportIndirectCommandBuffers = _supportIndirectCommandBuffers;
@synthesize maxTotalThreadsPerThreadgroup = _maxTotalThreadsPerThreadgroup;
@synthesize maxCallStackDepth = _maxCallStackDepth;
- (instancetype)init
{
    if ((self = [super init])) {
        _buffers = [[MTLPipelineBufferDescriptorArray alloc] init];
        _maxCallStackDepth = 1;
    }
    return self;
}
- (void)dealloc
{
    [_label release];
    [(id)_computeFunction release];
    [_buffers release];
    [super dealloc];
}
- (MTLPipelineBufferDescriptorArray *)buffers { return _buffers; }
- (void)reset
{
    self.label = nil;
    self.computeFunction = nil;
    _threadGroupSizeIsMultipleOfThreadExecutionWidth = _supportIndirectCommandBuffers = NO;
    _maxTotalThreadsPerThreadgroup = 0;
    _maxCallStackDepth = 1;
}
- (id)copyWithZone:(NSZone *)zone
{
    MTLComputePipelineDescriptor *d = [[MTLComputePipelineDescriptor allocWithZone:zone] init];
    d.label = _label;
    d.computeFunction = _computeFunction;
    d.maxTotalThreadsPerThreadgroup = _maxTotalThreadsPerThreadgroup;
    d.threadGroupSizeIsMultipleOfThreadExecutionWidth =
        _threadGroupSizeIsMultipleOfThreadExecutionWidth;
    return d;
}
@end

@implementation SMPipeline

- (instancetype)initWithFunction:(SMFunction *)function
                      descriptor:(MTLComputePipelineDescriptor *)descriptor
                           error:(NSError **)error
{
    SM_GUARD("newComputePipelineState");
    if (!(self = [super init]))
        return nil;
    SM_COUNT(pipelines, 1);
    sm_kernel *k = function->_kernel;
    unsigned uses = sm_kernel_uses(k);
    NSString *problem = nil;
    NSInteger code = 1; /* AGXMetal's domain on a Mac */
    if (sm_knob_take(SM_K_fail_pipeline))
        problem = @"Compiler encountered XPC_ERROR_CONNECTION_INTERRUPTED (is the OS shutting down?)";
    else if ((uses & SM_USES_SIMD) && !SM_KNOB(simd_ops))
        problem = @"Encountered unlowered function call to air.simd_sum: SIMD-group functions are "
                  @"not supported by this device";
    else if ((uses & SM_USES_MATRIX) && (!SM_KNOB(simd_matrix) || SM_KNOB(simd_width) != 32))
        problem = @"Encountered unlowered function call to air.simdgroup_matrix_8x8: simdgroup "
                  @"matrices are not supported by this device";
    else if (sm_kernel_static_memory(k) > (unsigned)SM_KNOB(threadgroup_memory))
        problem = [NSString stringWithFormat:@"Threadgroup memory size (%u) exceeds the maximum "
                                             @"threadgroup memory allowed (%ld)",
                                             sm_kernel_static_memory(k),
                                             SM_KNOB(threadgroup_memory)];
    if (problem) {
        if (error)
            *error = SMError(@"AGXMetalStandIn", code, problem);
        [self release];
        return nil;
    }
    _program = function->_program;
    sm_program_retain(_program);
    _kernel = k;
    _device = function->_device;
    _label = [descriptor.label copy];
    _width = (NSUInteger)SM_KNOB(simd_width);
    NSUInteger most = (NSUInteger)SM_KNOB(max_threads);
    long limit = SM_KNOB(pipeline_threads);
    if (limit > 0 && (NSUInteger)limit < most)
        most = (NSUInteger)limit;
    if (sm_kernel_max_threads(k) && sm_kernel_max_threads(k) < most)
        most = sm_kernel_max_threads(k);
    if (descriptor.maxTotalThreadsPerThreadgroup && descriptor.maxTotalThreadsPerThreadgroup < most)
        most = descriptor.maxTotalThreadsPerThreadgroup;
    _maxThreads = most;
    SM_COUNT(pipelines_made, 1);
    return self;
}
- (void)dealloc
{
    SM_COUNT(pipelines, -1);
    if (_program)
        sm_program_release(_program);
    [_label release];
    [super dealloc];
}
- (NSString *)label { return _label; }
- (id<MTLDevice>)device { return [SMDevice at:_device]; }
- (NSUInteger)maxTotalThreadsPerThreadgroup { return _maxThreads; }
- (NSUInteger)threadExecutionWidth { return _width; }
- (NSUInteger)staticThreadgroupMemoryLength { return sm_kernel_static_memory(_kernel); }
- (BOOL)supportIndirectCommandBuffers { return NO; }
@end
