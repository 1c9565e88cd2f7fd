/* The Metal API as C functions, one for one, so that tests of the stand-in can
 * be written in Python.  Objects come back with a reference of their own. */
#import <Metal/Metal.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void say(char *out, size_t size, NSError *error)
{
    if (out && size)
        snprintf(out, size, "%s", error ? [[error localizedDescription] UTF8String] : "");
}

void d_release(void *object) { [(id)object release]; }
void d_retain(void *object) { [(id)object retain]; }

int d_devices(void)
{
    @autoreleasepool {
        NSArray *all = MTLCopyAllDevices();
        int n = (int)[all count];
        [all release];
        return n;
    }
}
void *d_device(int index)
{
    if (index < 0)
        return MTLCreateSystemDefaultDevice();
    @autoreleasepool {
        NSArray *all = [MTLCopyAllDevices() autorelease];
        return index < (int)[all count] ? [[all objectAtIndex:(NSUInteger)index] retain] : NULL;
    }
}
void d_name(id<MTLDevice> device, char *out, size_t size)
{
    @autoreleasepool {
        snprintf(out, size, "%s", [[device name] UTF8String]);
    }
}
int d_responds(NSObject *object, const char *selector)
{
    return [object respondsToSelector:sel_registerName(selector)];
}
int d_family(id<MTLDevice> device, int family) { return [device supportsFamily:(MTLGPUFamily)family]; }
uint64_t d_allocated(id<MTLDevice> device) { return [device currentAllocatedSize]; }

/* ---- libraries and pipelines ------------------------------------------------ */
/* math: 0 default, 1 fastMathEnabled = NO, 2 mathMode safe with fast functions. */
void *d_library(id<MTLDevice> device, const char *source, int math, unsigned long version,
                const char *macros, char *out, size_t size)
{
    @autoreleasepool {
        MTLCompileOptions *options = [[[MTLCompileOptions alloc] init] autorelease];
        if (math == 1)
            options.fastMathEnabled = NO;
        if (math == 2)
            options.mathMode = MTLMathModeSafe;
        if (version)
            options.languageVersion = (MTLLanguageVersion)version;
        if (macros) {
            NSMutableDictionary *d = [NSMutableDictionary dictionary];
            for (NSString *word in [[NSString stringWithUTF8String:macros]
                     componentsSeparatedByString:@" "]) {
                NSArray *parts = [word componentsSeparatedByString:@"="];
                [d setObject:[parts objectAtIndex:1] forKey:[parts objectAtIndex:0]];
            }
            options.preprocessorMacros = d;
        }
        NSError *error = nil;
        id<MTLLibrary> library = [device newLibraryWithSource:[NSString stringWithUTF8String:source]
                                                      options:options
                                                        error:&error];
        say(out, size, error);
        return library;
    }
}
int d_function_names(id<MTLLibrary> library, char *out, size_t size)
{
    @autoreleasepool {
        snprintf(out, size, "%s",
                 [[[library functionNames] componentsJoinedByString:@" "] UTF8String]);
        return (int)[[library functionNames] count];
    }
}
/* constants: "index type value" words; type b(ool), i(nt) or f(loat). */
void *d_function(id<MTLLibrary> library, const char *name, const char *constants, char *out,
                 size_t size)
{
    @autoreleasepool {
        NSString *n = [NSString stringWithUTF8String:name];
        if (!constants)
            return [library newFunctionWithName:n];
        MTLFunctionConstantValues *v = [[[MTLFunctionConstantValues alloc] init] autorelease];
        unsigned long index;
        char type;
        double value;
        int used;
        while (sscanf(constants, "%lu %c %lf%n", &index, &type, &value, &used) == 3) {
            uint8_t b = value != 0;
            int i = (int)value;
            float f = (float)value;
            if (type == 'b')
                [v setConstantValue:&b type:MTLDataTypeBool atIndex:index];
            else if (type == 'i')
                [v setConstantValue:&i type:MTLDataTypeInt atIndex:index];
            else
                [v setConstantValue:&f type:MTLDataTypeFloat atIndex:index];
            constants += used;
        }
        NSError *error = nil;
        id<MTLFunction> f = [library newFunctionWithName:n constantValues:v error:&error];
        say(out, size, error);
        return f;
    }
}
void *d_pipeline(id<MTLDevice> device, id<MTLFunction> function, unsigned long max_threads,
                 char *out, size_t size)
{
    @autoreleasepool {
        NSError *error = nil;
        id<MTLComputePipelineState> state;
        if (max_threads) {
            MTLComputePipelineDescriptor *d =
                [[[MTLComputePipelineDescriptor alloc] init] autorelease];
            d.computeFunction = function;
            d.maxTotalThreadsPerThreadgroup = max_threads;
            state = [device newComputePipelineStateWithDescriptor:d
                                                          options:MTLPipelineOptionNone
                                                       reflection:NULL
                                                            error:&error];
        } else {
            state = [device newComputePipelineStateWithFunction:function error:&error];
        }
        say(out, size, error);
        return state;
    }
}
unsigned long d_pipeline_info(id<MTLComputePipelineState> state, int what)
{
    return what == 0 ? [state maxTotalThreadsPerThreadgroup]
           : what == 1 ? [state threadExecutionWidth] : [state staticThreadgroupMemoryLength];
}

/* ---- buffers ------------------------------------------------------------------ */
void *d_buffer(id<MTLDevice> device, unsigned long length, unsigned long options, const char *label)
{
    @autoreleasepool {
        id<MTLBuffer> b = [device newBufferWithLength:length options:options];
        if (label)
            b.label = [NSString stringWithUTF8String:label];
        return b;
    }
}
void *d_buffer_no_copy(id<MTLDevice> device, void *pointer, unsigned long length, int *freed)
{
    @autoreleasepool {
        return [device newBufferWithBytesNoCopy:pointer
                                         length:length
                                        options:MTLResourceStorageModeShared
                                    deallocator:^(void *p, NSUInteger n) {
                                      (void)p;
                                      *freed = (int)n;
                                    }];
    }
}
void *d_contents(id<MTLBuffer> buffer) { return [buffer contents]; }
void d_did_modify(id<MTLBuffer> buffer) { [buffer didModifyRange:NSMakeRange(0, 4)]; }

/* ---- queues and command buffers -------------------------------------------------- */
void *d_queue(id<MTLDevice> device, unsigned long count)
{
    return count ? [device newCommandQueueWithMaxCommandBufferCount:count]
                 : [device newCommandQueue];
}
void *d_command_buffer(id<MTLCommandQueue> queue, int unretained)
{
    @autoreleasepool {
        if (unretained == 2) {
            MTLCommandBufferDescriptor *d = [[[MTLCommandBufferDescriptor alloc] init] autorelease];
            d.errorOptions = MTLCommandBufferErrorOptionEncoderExecutionStatus;
            return [[queue commandBufferWithDescriptor:d] retain];
        }
        return [(unretained ? [queue commandBufferWithUnretainedReferences]
                            : [queue commandBuffer]) retain];
    }
}
/* Without a pool, as a host that forgot one would. */
void *d_command_buffer_no_pool(id<MTLCommandQueue> queue) { return [queue commandBuffer]; }
void d_commit(id<MTLCommandBuffer> cb)
{
    @autoreleasepool {
        [cb commit];
    }
}
void d_enqueue(id<MTLCommandBuffer> cb) { [cb enqueue]; }
void d_wait(id<MTLCommandBuffer> cb)
{
    @autoreleasepool {
        [cb waitUntilCompleted];
    }
}
int d_status(id<MTLCommandBuffer> cb) { return (int)[cb status]; }
int d_error(id<MTLCommandBuffer> cb, char *out, size_t size)
{
    @autoreleasepool {
        NSError *error = [cb error];
        say(out, size, error);
        return error ? (int)[error code] : 0;
    }
}
/* "label:state[signpost,...] " for each encoder. */
void d_error_encoders(id<MTLCommandBuffer> cb, char *out, size_t size)
{
    @autoreleasepool {
        NSMutableString *s = [NSMutableString string];
        NSArray *infos = [[[cb error] userInfo] objectForKey:MTLCommandBufferEncoderInfoErrorKey];
        for (id<MTLCommandBufferEncoderInfo> info in infos)
            [s appendFormat:@"%@:%d[%@] ", [info label], (int)[info errorState],
                            [[info debugSignposts] componentsJoinedByString:@","]];
        snprintf(out, size, "%s", [s UTF8String]);
    }
}
double d_gpu_time(id<MTLCommandBuffer> cb) { return [cb GPUEndTime] - [cb GPUStartTime]; }
/* The handler stores its turn (1, 2, ...) in *order, and the status in *status. */
void d_handler(id<MTLCommandBuffer> cb, int *counter, int *order, int *status)
{
    @autoreleasepool {
        [cb addCompletedHandler:^(id<MTLCommandBuffer> done) {
          *status = (int)[done status];
          *order = __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
        }];
    }
}
/* A handler that makes the mistake `what`: 0 waits for its own command buffer,
 * 1 reads the error without a pool. */
void d_bad_handler(id<MTLCommandBuffer> cb, int what)
{
    @autoreleasepool {
        [cb addCompletedHandler:^(id<MTLCommandBuffer> done) {
          if (what == 0)
              [done waitUntilCompleted];
          else
              (void)[done computeCommandEncoder], (void)[done error];
        }];
    }
}
int d_block_check(void)
{
    @autoreleasepool {
        __block int seen = 0;
        NSString *text = [[NSMutableString alloc] initWithString:@"abc"];
        NSUInteger before = [text retainCount];
        void (^block)(int) = ^(int n) {
          seen += n + (int)[text length];
        };
        void (^copy)(int) = [block copy];
        int held = [text retainCount] == before + 1;
        NSArray *list = [NSArray arrayWithObject:copy];
        [copy release];
        ((void (^)(int))[list objectAtIndex:0])(4);
        int result = held && seen == 7;
        [text release];
        return result;
    }
}

/* ---- encoders --------------------------------------------------------------------- */
void *d_encoder(id<MTLCommandBuffer> cb, int kind, const char *label)
{
    @autoreleasepool {
        id<MTLCommandEncoder> e = kind == 2 ? (id)[cb blitCommandEncoder]
                                  : kind    ? (id)[cb computeCommandEncoderWithDispatchType:
                                                          MTLDispatchTypeConcurrent]
                                            : (id)[cb computeCommandEncoder];
        if (label)
            e.label = [NSString stringWithUTF8String:label];
        return [(id)e retain];
    }
}
void d_set_pipeline(id<MTLComputeCommandEncoder> e, id<MTLComputePipelineState> state)
{
    [e setComputePipelineState:state];
}
void d_set_buffer(id<MTLComputeCommandEncoder> e, id<MTLBuffer> b, unsigned long offset,
                  unsigned long index)
{
    [e setBuffer:b offset:offset atIndex:index];
}
void d_set_buffer_offset(id<MTLComputeCommandEncoder> e, unsigned long offset, unsigned long index)
{
    [e setBufferOffset:offset atIndex:index];
}
void d_set_bytes(id<MTLComputeCommandEncoder> e, const void *bytes, unsigned long length,
                 unsigned long index)
{
    [e setBytes:bytes length:length atIndex:index];
}
void d_set_threadgroup(id<MTLComputeCommandEncoder> e, unsigned long length, unsigned long index)
{
    [e setThreadgroupMemoryLength:length atIndex:index];
}
void d_dispatch(id<MTLComputeCommandEncoder> e, int threads, const unsigned long grid[3],
                const unsigned long group[3])
{
    MTLSize g = MTLSizeMake(grid[0], grid[1], grid[2]);
    MTLSize t = MTLSizeMake(group[0], group[1], group[2]);
    if (threads)
        [e dispatchThreads:g threadsPerThreadgroup:t];
    else
        [e dispatchThreadgroups:g threadsPerThreadgroup:t];
}
void d_dispatch_indirect(id<MTLComputeCommandEncoder> e, id<MTLBuffer> b, unsigned long offset,
                         unsigned long width)
{
    [e dispatchThreadgroupsWithIndirectBuffer:b
                         indirectBufferOffset:offset
                        threadsPerThreadgroup:MTLSizeMake(width, 1, 1)];
}
void d_barrier(id<MTLComputeCommandEncoder> e) { [e memoryBarrierWithScope:MTLBarrierScopeBuffers]; }
void d_signpost(id<MTLCommandEncoder> e, const char *text)
{
    @autoreleasepool {
        [e insertDebugSignpost:[NSString stringWithUTF8String:text]];
    }
}
void d_end(id<MTLCommandEncoder> e) { [e endEncoding]; }
void d_copy(id<MTLBlitCommandEncoder> e, id<MTLBuffer> a, unsigned long a_offset, id<MTLBuffer> b,
            unsigned long b_offset, unsigned long size)
{
    [e copyFromBuffer:a sourceOffset:a_offset toBuffer:b destinationOffset:b_offset size:size];
}
void d_fill(id<MTLBlitCommandEncoder> e, id<MTLBuffer> b, unsigned long offset, unsigned long size,
            int value)
{
    [e fillBuffer:b range:NSMakeRange(offset, size) value:(uint8_t)value];
}
void *d_fence(id<MTLDevice> device) { return [device newFence]; }
void d_use_fence(id<MTLComputeCommandEncoder> e, id<MTLFence> f, int update)
{
    if (update)
        [e updateFence:f];
    else
        [e waitForFence:f];
}
void *d_event(id<MTLDevice> device) { return [device newSharedEvent]; }
uint64_t d_event_value(id<MTLSharedEvent> event) { return [event signaledValue]; }
void d_event_set(id<MTLSharedEvent> event, uint64_t value) { event.signaledValue = value; }
int d_event_wait(id<MTLSharedEvent> event, uint64_t value, uint64_t ms)
{
    return [event waitUntilSignaledValue:value timeoutMS:ms];
}
void d_event_notify(id<MTLSharedEvent> event, uint64_t value, int *flag)
{
    @autoreleasepool {
        MTLSharedEventListener *l = [[[MTLSharedEventListener alloc] init] autorelease];
        [event notifyListener:l
                      atValue:value
                        block:^(id<MTLSharedEvent> e, uint64_t v) {
                          (void)e;
                          *flag = (int)v;
                        }];
    }
}
void d_encode_event(id<MTLCommandBuffer> cb, id<MTLSharedEvent> event, uint64_t value, int signal)
{
    if (signal)
        [cb encodeSignalEvent:event value:value];
    else
        [cb encodeWaitForEvent:event value:value];
}

/* ---- for the sanitizers ------------------------------------------------------------ */
void d_seed_overflow(int at)
{
    volatile char *p = malloc(8);
    p[at] = 1;
    free((void *)p);
}

static const char *const kAdd = "#pragma METAL fp math_mode(safe)\n#pragma METAL fp contract(off)\n"
                                "#include <metal_stdlib>\nusing namespace metal;\n"
                                "kernel void k(device float* o) { o[0] += 1.0f; }\n";
static id<MTLDevice> stress_device;
static id<MTLComputePipelineState> stress_state;
static int stress_counter;

static void *stress_thread(void *argument)
{
    id<MTLCommandQueue> queue = [stress_device newCommandQueue];
    @autoreleasepool {
        id<MTLBuffer> b = [stress_device newBufferWithLength:4 options:0];
        *(float *)[b contents] = 0;
        int ended = 0, *ended_at = &ended;
        for (int i = 0; i < 200; ++i) {
            @autoreleasepool {
                id<MTLCommandBuffer> cb = [queue commandBuffer];
                [cb addCompletedHandler:^(id<MTLCommandBuffer> done) {
                  (void)done;
                  __atomic_add_fetch(ended_at, 1, __ATOMIC_SEQ_CST);
                  if (argument)
                      ++stress_counter; /* the seeded race */
                }];
                id<MTLComputeCommandEncoder> e = [cb computeCommandEncoder];
                [e setComputePipelineState:stress_state];
                [e setBuffer:b offset:0 atIndex:0];
                [e dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
                [e endEncoding];
                [cb commit];
                if (i % 10 == 0)
                    [cb waitUntilCompleted];
                if (i == 199)
                    [cb waitUntilCompleted];
            }
        }
        if (*(float *)[b contents] != 200 || __atomic_load_n(ended_at, __ATOMIC_SEQ_CST) != 200)
            abort();
        [b release];
    }
    [queue release];
    return NULL;
}

static int stress(void *argument)
{
    @autoreleasepool {
        stress_device = MTLCreateSystemDefaultDevice();
        MTLCompileOptions *options = [[[MTLCompileOptions alloc] init] autorelease];
        options.fastMathEnabled = NO;
        id<MTLLibrary> library = [stress_device newLibraryWithSource:[NSString stringWithUTF8String:kAdd]
                                                             options:options
                                                               error:NULL];
        id<MTLFunction> function = [library newFunctionWithName:@"k"];
        stress_state = [stress_device newComputePipelineStateWithFunction:function error:NULL];
        pthread_t threads[3];
        for (int i = 0; i < 3; ++i)
            pthread_create(&threads[i], NULL, stress_thread, argument);
        for (int i = 0; i < 3; ++i)
            pthread_join(threads[i], NULL);
        [(id)stress_state release];
        [(id)function release];
        [(id)library release];
    }
    return 0;
}
int d_stress(void) { return stress(NULL); }
int d_stress_race(void) { return stress(&stress_counter); }
