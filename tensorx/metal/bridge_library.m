/* Compiling, and the cache of libraries and pipelines that the instances of one GPU share. Part of
 * bridge.m.
 *
 * Lookup and insertion take cache_lock; compiling does not. Two threads that miss at once both
 * compile, and the second to finish finds the first one's result when it looks again. */

static uint64_t hash_text(const char *s, uint64_t h)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static void kernel_unref(txm_kernel *k)
{
    if (!k || at_sub(&k->refs, 1) != 1)
        return;
    [k->pipeline release];
    free(k->source);
    free(k->name);
    free(k);
}

static MTLCompileOptions *compile_options(txm_device *dev)
{
    uint32_t caps = capabilities(dev);
    MTLCompileOptions *options = [[[MTLCompileOptions alloc] init] autorelease];
    if (caps & TXM_CAP_MATH_MODE) {
        [(id<TXMNewerCompileOptions>)options setMathMode:0];                 /* safe */
        [(id<TXMNewerCompileOptions>)options setMathFloatingPointFunctions:1]; /* precise */
    } else {
        [options setFastMathEnabled:NO];
    }
    if (caps & TXM_CAP_LANGUAGE_VERSION)
        [options setLanguageVersion:MTLLanguageVersion3_0]; /* the same language on every system */
    return options;
}

/* A lost connection says nothing about the text: worth one more try. */
static int is_service_error(NSError *error)
{
    const char *text = error ? [[error localizedDescription] UTF8String] : NULL;
    return text && (strstr(text, "XPC_ERROR") || strstr(text, "ompiler connection") ||
                    strstr(text, "onnection interrupted") || strstr(text, "onnection init failed") ||
                    strstr(text, "MTLCompilerService"));
}

static int32_t compile_failure(NSError *error, const char *name, txm_error *err)
{
    const char *text = error ? [[error localizedDescription] UTF8String] : "no reason given";
    int32_t detail = error ? (int32_t)[error code] : 0;
    if (is_service_error(error))
        return fail(err, TXM_E_SERVICE, detail,
                    "the Metal compiler service does not answer, twice in a row: %s (a sandbox, a "
                    "forked process or a system that is shutting down)", text);
    return fail(err, TXM_E_COMPILE, detail, "%s: %s", name, text);
}

static int interrupted(NSError **error)
{
    int32_t left = at_load(&knob_interrupts);
    while (left > 0)
        if (at_cas(&knob_interrupts, &left, left - 1)) {
            NSDictionary *info = [NSDictionary dictionaryWithObject:@"XPC_ERROR_CONNECTION_INTERRUPTED (test)"
                                                             forKey:NSLocalizedDescriptionKey];
            *error = [NSError errorWithDomain:@"TXMTest" code:2 userInfo:info];
            return 1;
        }
    return 0;
}

/* +1 */
static id<MTLLibrary> compile_library(txm_device *dev, const char *source, const char *name,
                                      txm_error *err)
{
    NSString *text = [NSString stringWithUTF8String:source];
    if (!text) {
        fail(err, TXM_E_ARGUMENT, 0, "%s: the kernel text is not UTF-8", name);
        return nil;
    }
    NSError *error = nil;
    for (int attempt = 0; attempt < 2; attempt++) {
        error = nil;
        if (interrupted(&error))
            continue;
        id<MTLLibrary> lib = [dev->metal newLibraryWithSource:text options:compile_options(dev) error:&error];
        if (lib)
            return lib; /* error may still hold warnings */
        if (!is_service_error(error))
            break;
    }
    compile_failure(error, name, err);
    return nil;
}

static void library_free(txm_library *lib)
{
    list_remove(&lib->lru);
    [lib->metal release];
    free(lib->source);
    free(lib);
}

/* Under cache_lock. */
static txm_library *library_find(txm_device *dev, const char *source, uint64_t hash)
{
    for (txm_list *l = dev->libraries.next; l != &dev->libraries; l = l->next) {
        txm_library *lib = list_entry(l, txm_library, lru);
        if (lib->hash == hash && strcmp(lib->source, source) == 0) {
            list_remove(&lib->lru);
            list_push_front(&dev->libraries, &lib->lru);
            return lib;
        }
    }
    return NULL;
}

static void libraries_bound(txm_device *dev)
{
    txm_list *l = dev->libraries.prev;
    while (dev->nlibraries > (uint32_t)at_load(&knob_libraries) && l != &dev->libraries) {
        txm_library *lib = list_entry(l, txm_library, lru);
        l = l->prev;
        if (lib->pins)
            continue;
        library_free(lib);
        dev->nlibraries--;
    }
}

/* Finds or compiles; the result is pinned. */
static txm_library *library_get(txm_device *dev, const char *source, const char *name, uint64_t hash,
                                txm_error *err)
{
    pthread_mutex_lock(&dev->cache_lock);
    txm_library *lib = library_find(dev, source, hash);
    if (lib)
        lib->pins++;
    pthread_mutex_unlock(&dev->cache_lock);
    if (lib)
        return lib;

    id<MTLLibrary> metal = compile_library(dev, source, name, err);
    if (!metal)
        return NULL;
    txm_library *fresh = calloc(1, sizeof *fresh);
    char *copy = strdup(source);
    if (!fresh || !copy) {
        free(fresh);
        free(copy);
        [metal release];
        fail(err, TXM_E_MEMORY, 0, "no memory for a kernel library");
        return NULL;
    }
    fresh->metal = metal;
    fresh->source = copy;
    fresh->hash = hash;
    fresh->pins = 1;
    list_init(&fresh->lru);

    pthread_mutex_lock(&dev->cache_lock);
    lib = library_find(dev, source, hash);
    if (lib) {
        lib->pins++;
    } else {
        lib = fresh;
        fresh = NULL;
        list_push_front(&dev->libraries, &lib->lru);
        dev->nlibraries++;
        libraries_bound(dev);
    }
    pthread_mutex_unlock(&dev->cache_lock);
    if (fresh)
        library_free(fresh);
    return lib;
}

/* Under cache_lock; +1. */
static txm_kernel *kernel_find(txm_device *dev, const char *source, const char *name, uint64_t hash)
{
    for (txm_list *l = dev->kernels.next; l != &dev->kernels; l = l->next) {
        txm_kernel *k = list_entry(l, txm_kernel, lru);
        if (k->hash == hash && strcmp(k->name, name) == 0 && strcmp(k->source, source) == 0) {
            list_remove(&k->lru);
            list_push_front(&dev->kernels, &k->lru);
            at_add(&k->refs, 1);
            return k;
        }
    }
    return NULL;
}

static void kernels_bound(txm_device *dev)
{
    while (dev->nkernels > (uint32_t)at_load(&knob_pipelines)) {
        txm_kernel *k = list_entry(dev->kernels.prev, txm_kernel, lru);
        list_remove(&k->lru);
        dev->nkernels--;
        kernel_unref(k); /* callers and command buffers keep theirs */
    }
}

static txm_kernel *kernel_make(txm_device *dev, txm_library *lib, const char *name, uint64_t hash,
                               txm_error *err)
{
    NSString *wanted = [NSString stringWithUTF8String:name];
    id<MTLFunction> function = wanted ? [lib->metal newFunctionWithName:wanted] : nil;
    if (!function) {
        NSString *have = [[lib->metal functionNames] componentsJoinedByString:@", "];
        fail(err, TXM_E_COMPILE, 0, "the library has no kernel '%s'; it has: %s", name,
             have ? [have UTF8String] : "");
        return NULL;
    }
    NSError *error = nil;
    id<MTLComputePipelineState> pipeline = nil;
    for (int attempt = 0; attempt < 2 && !pipeline; attempt++) {
        error = nil;
        pipeline = [dev->metal newComputePipelineStateWithFunction:function error:&error];
        if (!pipeline && !is_service_error(error))
            break;
    }
    [function release];
    if (!pipeline) {
        compile_failure(error, name, err);
        return NULL;
    }
    txm_kernel *k = calloc(1, sizeof *k);
    if (k) {
        k->name = strdup(name);
        k->source = strdup(lib->source);
    }
    if (!k || !k->name || !k->source) {
        if (k) {
            free(k->name);
            free(k->source);
            free(k);
        }
        [pipeline release];
        fail(err, TXM_E_MEMORY, 0, "no memory for kernel '%s'", name);
        return NULL;
    }
    k->pipeline = pipeline;
    k->hash = hash;
    k->device = dev;
    k->max_threads = (uint32_t)[pipeline maxTotalThreadsPerThreadgroup];
    k->width = (uint32_t)[pipeline threadExecutionWidth];
    k->static_bytes = [pipeline staticThreadgroupMemoryLength];
    at_store(&k->refs, 2); /* the caller and the cache */
    list_init(&k->lru);
    at_add(&dev->compiled, 1);
    return k;
}

int32_t txm_kernel_get(txm_instance *in, const char *source, const char *name, txm_kernel_info *out,
                       txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !source || !name || !out)
        return fail(err, TXM_E_ARGUMENT, 0, "kernel_get: an argument is missing");
    txm_device *dev = in->device;
    uint64_t text_hash = hash_text(source, 14695981039346656037u);
    uint64_t hash = hash_text(name, text_hash);

    pthread_mutex_lock(&dev->cache_lock);
    txm_kernel *k = kernel_find(dev, source, name, hash);
    pthread_mutex_unlock(&dev->cache_lock);
    if (!k) {
        txm_library *lib = library_get(dev, source, name, text_hash, err);
        if (!lib)
            return err ? err->code : TXM_E_COMPILE;
        txm_kernel *fresh = NULL;
        @try {
            fresh = kernel_make(dev, lib, name, hash, err);
        }
        @finally {
            pthread_mutex_lock(&dev->cache_lock);
            lib->pins--;
            k = fresh ? kernel_find(dev, source, name, hash) : NULL;
            if (fresh && !k) {
                k = fresh;
                fresh = NULL;
                list_push_front(&dev->kernels, &k->lru);
                dev->nkernels++;
                kernels_bound(dev);
            }
            pthread_mutex_unlock(&dev->cache_lock);
            if (fresh) { /* somebody else was quicker */
                kernel_unref(fresh);
                kernel_unref(fresh);
            }
        }
        if (!k)
            return err ? err->code : TXM_E_COMPILE;
    }
    out->kernel = k;
    out->max_threads = k->max_threads;
    out->execution_width = k->width;
    out->static_threadgroup_bytes = k->static_bytes;
    return TXM_OK;
    TXM_LEAVE(err)
}

void txm_kernel_release(txm_kernel *kernel)
{
    if (!kernel || at_peek(&txm_is_child))
        return;
    /* The last reference sends a message, so it needs a pool like every entry. */
    @autoreleasepool {
        @try {
            kernel_unref(kernel);
        }
        @catch (id exception) {
        }
    }
}
