/* Devices: which there are, what they can do, which of them are refused. Part of bridge.m. */

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static txm_device *devices[TXM_MAX_DEVICES];
static uint32_t ndevices;

/* Newer properties of Metal classes, declared here because older SDKs do not know them. They are
 * sent only to objects that respond to them. */
@protocol TXMNewerCompileOptions
- (void)setMathMode:(NSInteger)mode;
- (void)setMathFloatingPointFunctions:(NSInteger)functions;
@end
@protocol TXMArchitecture
- (NSString *)name;
@end
@protocol TXMNewerDevice
- (id<TXMArchitecture>)architecture;
@end

static uint32_t capabilities(txm_device *dev)
{
    uint32_t caps = 0;
    MTLCompileOptions *options = [[MTLCompileOptions alloc] init];
    if ([options respondsToSelector:@selector(setMathMode:)] &&
        [options respondsToSelector:@selector(setMathFloatingPointFunctions:)])
        caps |= TXM_CAP_MATH_MODE;
    if ([options respondsToSelector:@selector(setLanguageVersion:)])
        caps |= TXM_CAP_LANGUAGE_VERSION;
    [options release];
    id metal = dev->metal;
    if ([metal respondsToSelector:@selector(architecture)])
        caps |= TXM_CAP_ARCHITECTURE;
    if ([metal respondsToSelector:@selector(supportsFamily:)])
        caps |= TXM_CAP_FAMILY;
    return caps & ~(uint32_t)at_load(&knob_hide_caps);
}

static txm_device *device_add(id<MTLDevice> metal)
{
    for (uint32_t i = 0; i < ndevices; i++)
        if ([devices[i]->metal registryID] == [metal registryID])
            return devices[i];
    if (ndevices == TXM_MAX_DEVICES)
        return NULL;
    txm_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return NULL;
    dev->metal = [metal retain];
    pthread_mutex_init(&dev->cache_lock, NULL);
    list_init(&dev->libraries);
    list_init(&dev->kernels);
    devices[ndevices++] = dev;
    return dev;
}

/* Under devices_lock. The default device is number 0, the others follow by registry id, so that
 * a number means the same device in every process. Device structs live for ever. */
static void devices_find(void)
{
    if (ndevices)
        return;
    id<MTLDevice> first = MTLCreateSystemDefaultDevice();
    if (first) {
        txm_device *dev = device_add(first);
        if (dev)
            dev->is_default = 1;
        [first release];
    }
    NSArray *all = MTLCopyAllDevices();
    uint64_t last = 0;
    for (;;) {
        id<MTLDevice> next = nil;
        for (id<MTLDevice> metal in all)
            if ([metal registryID] > last && (!next || [metal registryID] < [next registryID]))
                next = metal;
        if (!next)
            break;
        last = [next registryID];
        device_add(next);
    }
    [all release];
}

#ifdef __APPLE__
static int32_t system_flag(const char *name)
{
    int value = 0;
    size_t n = sizeof value;
    return sysctlbyname(name, &value, &n, NULL, 0) == 0 && value != 0;
}
#endif

static int is_intel_mac(void)
{
    if (at_load(&knob_intel))
        return 1;
#ifdef __APPLE__
    return !system_flag("hw.optional.arm64"); /* 1 under Rosetta too */
#else
    return 0;
#endif
}

static void device_describe(txm_device *dev, txm_device_info *info)
{
    memset(info, 0, sizeof *info);
    id<MTLDevice> metal = dev->metal;
    info->capabilities = capabilities(dev);
    info->registry_id = [metal registryID];
    info->max_buffer_bytes = [metal maxBufferLength];
    info->working_set_bytes = [metal recommendedMaxWorkingSetSize];
    info->max_threadgroup_bytes = [metal maxThreadgroupMemoryLength];
    MTLSize threads = [metal maxThreadsPerThreadgroup];
    info->max_threads[0] = (uint32_t)threads.width;
    info->max_threads[1] = (uint32_t)threads.height;
    info->max_threads[2] = (uint32_t)threads.depth;
    info->flags = ([metal hasUnifiedMemory] ? TXM_DEV_UNIFIED : 0u) |
                  ([metal isLowPower] ? TXM_DEV_LOW_POWER : 0u) |
                  ([metal isHeadless] ? TXM_DEV_HEADLESS : 0u) |
                  ([metal isRemovable] ? TXM_DEV_REMOVABLE : 0u) |
                  (dev->is_default ? TXM_DEV_DEFAULT : 0u);
    copy_nsstring(info->name, sizeof info->name, [metal name]);
    if (info->capabilities & TXM_CAP_FAMILY) {
        for (uint32_t k = 1; k <= 10; k++)
            if ([metal supportsFamily:(MTLGPUFamily)(MTLGPUFamilyApple1 + (NSInteger)k - 1)])
                info->families |= 1u << k;
        if ([metal supportsFamily:MTLGPUFamilyMac2])
            info->families |= 1u << 18;
        if ([metal supportsFamily:MTLGPUFamilyMetal3])
            info->families |= 1u << 24;
    }
    if (info->capabilities & TXM_CAP_ARCHITECTURE)
        copy_nsstring(info->architecture, sizeof info->architecture,
                      [[(id<TXMNewerDevice>)metal architecture] name]);
#ifdef __APPLE__
    info->translated = (uint32_t)system_flag("sysctl.proc_translated");
#endif
    const char *why = "";
    if (is_intel_mac())
        why = "this is an Intel Mac: its GPUs have other lane widths and managed memory, on which "
              "tensorx was never tested; Apple silicon is supported";
    else if (!(info->flags & TXM_DEV_UNIFIED))
        why = "this GPU has memory of its own; tensorx needs unified memory (Apple silicon)";
    copy_text(info->refusal, sizeof info->refusal, why);
    if (why[0])
        info->flags |= TXM_DEV_REFUSED;
}

int32_t txm_device_count(uint32_t *count, txm_error *err)
{
    TXM_ENTER(err)
    if (!count)
        return fail(err, TXM_E_ARGUMENT, 0, "device_count: no place for the result");
    pthread_mutex_lock(&devices_lock);
    @try {
        devices_find();
    }
    @finally {
        *count = ndevices;
        pthread_mutex_unlock(&devices_lock);
    }
    return TXM_OK;
    TXM_LEAVE(err)
}

static txm_device *device_at(uint32_t index)
{
    txm_device *dev = NULL;
    pthread_mutex_lock(&devices_lock);
    @try {
        devices_find();
        if (index < ndevices)
            dev = devices[index];
    }
    @finally {
        pthread_mutex_unlock(&devices_lock);
    }
    return dev;
}

int32_t txm_device_get(uint32_t index, txm_device_info *info, txm_error *err)
{
    TXM_ENTER(err)
    txm_device *dev = device_at(index);
    if (!dev)
        return fail(err, TXM_E_NO_DEVICE, 0, "there is no Metal device %u; %u found", index, ndevices);
    if (!info)
        return fail(err, TXM_E_ARGUMENT, 0, "device_get: no place for the result");
    device_describe(dev, info);
    return TXM_OK;
    TXM_LEAVE(err)
}
