/* Instances: opening, closing, limits, counters, commits and waits. Part of bridge.m. */

static pthread_mutex_t instances_lock = PTHREAD_MUTEX_INITIALIZER;
static txm_instance **instances;
static uint32_t ninstances;

/* Buffers that outlive their instance are given back when anybody asks for memory. Instance
 * structs are never freed: a late handler or destructor may still hold one. */
static void drain_closed(void)
{
    pthread_mutex_lock(&instances_lock);
    for (uint32_t i = 0; i < ninstances; i++) {
        txm_instance *in = instances[i];
        pthread_mutex_lock(&in->lock);
        @try {
            if (in->closed)
                pool_drain(in);
        }
        @finally {
            pthread_mutex_unlock(&in->lock);
        }
    }
    pthread_mutex_unlock(&instances_lock);
}

#ifdef __APPLE__
static void pressure_noted(void *context)
{
    (void)context;
    at_add(&pressure_events, 1);
}
#endif

/* The system asks for memory back: noted here, acted on by the next allocation. */
static void watch_pressure(void)
{
#ifdef __APPLE__
    static int32_t watching;
    if (at_swap(&watching, 1))
        return;
    dispatch_source_t source = dispatch_source_create(
        DISPATCH_SOURCE_TYPE_MEMORYPRESSURE, 0,
        DISPATCH_MEMORYPRESSURE_WARN | DISPATCH_MEMORYPRESSURE_CRITICAL,
        dispatch_get_global_queue(QOS_CLASS_UTILITY, 0));
    if (!source)
        return;
    dispatch_source_set_event_handler_f(source, pressure_noted);
    dispatch_resume(source); /* lives as long as the process */
#endif
}

static uint64_t default_buffer_limit(void)
{
#ifdef __APPLE__
    int limit = 0;
    size_t n = sizeof limit;
    if (sysctlbyname("iogpu.rsrc_limit", &limit, &n, NULL, 0) == 0 && limit > 1000)
        return (uint64_t)limit - 500;
#endif
    return 499000 - 500;
}

static void fill_options(txm_instance *in, const txm_options *wanted)
{
    txm_options o = {0};
    if (wanted)
        o = *wanted;
    uint64_t working_set = [in->device->metal recommendedMaxWorkingSetSize];
    if (!o.memory_limit)
        o.memory_limit = working_set ? working_set / 20 * 19 : UINT64_MAX / 2;
    if (!o.cache_limit)
        o.cache_limit = o.memory_limit / 4;
    if (!o.buffer_limit)
        o.buffer_limit = default_buffer_limit();
    if (!o.batch_bytes)
        o.batch_bytes = 256u << 20;
    if (!o.batch_ops)
        o.batch_ops = 200000000000u;
    if (!o.batch_dispatches)
        o.batch_dispatches = 50;
    uint32_t page = in->opt.page_bytes; /* fixed when the instance is opened */
    if (!page) {
        page = o.page_bytes ? o.page_bytes : (uint32_t)getpagesize();
        if (page < 4096 || (page & (page - 1)))
            page = 4096;
    }
    o.page_bytes = page;
    in->opt = o;
}

int32_t txm_open(uint32_t index, const txm_options *options, txm_instance **out, txm_error *err)
{
    TXM_ENTER(err)
    if (!out)
        return fail(err, TXM_E_ARGUMENT, 0, "open: no place for the result");
    txm_device *dev = device_at(index);
    if (!dev)
        return fail(err, TXM_E_NO_DEVICE, 0, "there is no Metal device %u; %u found", index, ndevices);
    txm_device_info info;
    device_describe(dev, &info);
    if (info.refusal[0])
        return fail(err, TXM_E_REFUSED, 0, "%s: %s", info.name, info.refusal);
    drain_closed();
    watch_pressure();

    txm_instance *in = calloc(1, sizeof *in);
    if (!in)
        return fail(err, TXM_E_MEMORY, 0, "no memory for an instance");
    in->device = dev;
    in->queue = [dev->metal newCommandQueue];
    if (!in->queue) {
        free(in);
        return fail(err, TXM_E_NO_DEVICE, 0, "%s gives no command queue", info.name);
    }
    pthread_mutex_init(&in->lock, NULL);
    pthread_mutex_init(&in->done_lock, NULL);
    pthread_cond_init(&in->done_cond, NULL);
    list_init(&in->flying);
    list_init(&in->spare);
    list_init(&in->lru);
    for (int i = 0; i < TXM_NBINS; i++)
        list_init(&in->bins[i]);
    for (int i = 0; i < 16; i++)
        list_init(&in->slabs[i]);
    in->next_stamp = 1;
    in->max_buffer_bytes = info.max_buffer_bytes;
    in->max_group_bytes = info.max_threadgroup_bytes;
    memcpy(in->max_group, info.max_threads, sizeof in->max_group);
    in->pressure = at_load(&pressure_events);
    const char *sync = getenv("TENSORX_METAL_SYNC");
    in->synchronous = sync && sync[0] && strcmp(sync, "0") != 0;
    fill_options(in, options);

    pthread_mutex_lock(&instances_lock);
    txm_instance **grown = realloc(instances, (ninstances + 1) * sizeof *grown);
    if (grown) {
        instances = grown;
        instances[ninstances++] = in;
    }
    pthread_mutex_unlock(&instances_lock);
    *out = in;
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_get_options(txm_instance *in, txm_options *out, txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !out)
        return fail(err, TXM_E_ARGUMENT, 0, "get_options: an argument is missing");
    pthread_mutex_lock(&in->lock);
    *out = in->opt;
    pthread_mutex_unlock(&in->lock);
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_set_options(txm_instance *in, const txm_options *options, txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !options)
        return fail(err, TXM_E_ARGUMENT, 0, "set_options: an argument is missing");
    pthread_mutex_lock(&in->lock);
    @try {
        fill_options(in, options);
        pool_drain(in);
        pool_trim(in, in->opt.cache_limit);
    }
    @finally {
        pthread_mutex_unlock(&in->lock);
    }
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_get_stats(txm_instance *in, txm_stats *out, txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !out)
        return fail(err, TXM_E_ARGUMENT, 0, "get_stats: an argument is missing");
    pthread_mutex_lock(&in->lock);
    @try {
        pool_drain(in);
        queue_retire(in);
        *out = in->st;
        out->driver = [in->device->metal currentAllocatedSize];
        out->compiled = at_load(&in->device->compiled);
        out->misuse = at_load(&in->misuse);
        out->open_stamp = in->next_stamp - (in->open ? 1 : 0);
        out->horizon = queue_horizon(in);
        out->poisoned = in->npoison;
        pthread_mutex_lock(&in->done_lock);
        out->in_flight = (uint64_t)in->in_flight;
        pthread_mutex_unlock(&in->done_lock);
    }
    @finally {
        pthread_mutex_unlock(&in->lock);
    }
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_reset_peak(txm_instance *in, txm_error *err)
{
    TXM_ENTER(err)
    if (!in)
        return fail(err, TXM_E_ARGUMENT, 0, "reset_peak: no instance");
    pthread_mutex_lock(&in->lock);
    @try {
        pool_drain(in);
    }
    @finally {
        in->st.peak = in->st.live;
        pthread_mutex_unlock(&in->lock);
    }
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_commit(txm_instance *in, uint64_t *stamp, txm_error *err)
{
    TXM_ENTER(err)
    if (!in)
        return fail(err, TXM_E_ARGUMENT, 0, "commit: no instance");
    int32_t code = TXM_OK;
    pthread_mutex_lock(&in->lock);
    @try {
        queue_retire(in);
        code = report_failure(in, err); /* of earlier work: this call then does nothing */
        if (code == TXM_OK) {
            queue_commit(in);
            if (stamp)
                *stamp = in->next_stamp - 1;
        }
    }
    @catch (NSException *exception) {
        queue_abandon(in, [[exception reason] UTF8String]);
        @throw;
    }
    @finally {
        pthread_mutex_unlock(&in->lock);
    }
    return code;
    TXM_LEAVE(err)
}

/* Waits for `stamp`, or, with a buffer, for what the access needs. */
static int32_t wait_for(txm_instance *in, uint64_t stamp, txm_buffer *b, uint32_t access,
                        uint32_t timeout_ms, txm_error *err)
{
    struct timespec until;
    int again = (timeout_ms & TXM_AGAIN) != 0;
    timeout_ms &= ~(uint32_t)TXM_AGAIN;
    deadline_in(&until, timeout_ms < TXM_SLICE_MS ? timeout_ms : TXM_SLICE_MS);
    for (int blocked = again;; blocked = 1) {
        int32_t code = TXM_OK;
        int finished = 0;
        uint64_t seq = done_seq(in);
        pthread_mutex_lock(&in->lock);
        @try {
            pool_drain(in);
            uint64_t target = stamp;
            if (b)
                target = access & (TXM_WRITE | TXM_OVERWRITE) ? b->last_use : b->last_write;
            else if (!stamp)
                target = in->next_stamp - 1;
            if (in->open && target >= in->open->stamp)
                queue_commit(in);
            queue_retire(in);
            in->st.waits += blocked == 0 && queue_horizon(in) <= target && target != 0;
            if (queue_horizon(in) > target) {
                finished = 1;
                txm_failure *f = stamp ? failure_of(in, stamp) : NULL;
                if (b && (access & TXM_READ) && b->poison)
                    code = fail_poisoned(in, b, "read of a buffer", err);
                else if (f) {
                    f->reported = 1;
                    code = fail_command(err, f);
                } else
                    code = report_failure(in, err);
            }
        }
        @catch (NSException *exception) {
            queue_abandon(in, [[exception reason] UTF8String]);
            @throw;
        }
        @finally {
            pthread_mutex_unlock(&in->lock);
        }
        if (finished)
            return code;
        if (!done_wait(in, seq, &until))
            return TXM_PENDING;
    }
}

int32_t txm_wait(txm_instance *in, uint64_t stamp, uint32_t timeout_ms, txm_error *err)
{
    TXM_ENTER(err)
    if (!in)
        return fail(err, TXM_E_ARGUMENT, 0, "wait: no instance");
    return wait_for(in, stamp, NULL, 0, timeout_ms, err);
    TXM_LEAVE(err)
}

int32_t txm_wait_buffer(txm_buffer *b, uint32_t access, uint32_t timeout_ms, txm_error *err)
{
    TXM_ENTER(err)
    if (!b)
        return fail(err, TXM_E_ARGUMENT, 0, "wait_buffer: no buffer");
    return wait_for(b->in, 0, b, access, timeout_ms, err);
    TXM_LEAVE(err)
}

int32_t txm_buffer_heal(txm_buffer *b, txm_error *err)
{
    TXM_ENTER(err)
    if (!b)
        return fail(err, TXM_E_ARGUMENT, 0, "buffer_heal: no buffer");
    pthread_mutex_lock(&b->in->lock);
    poison_remove(b->in, b, b->uid);
    pthread_mutex_unlock(&b->in->lock);
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_poisoned(txm_instance *in, txm_mark *out, uint32_t n, uint32_t *count, txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !count || (n && !out))
        return fail(err, TXM_E_ARGUMENT, 0, "poisoned: an argument is missing");
    uint32_t total = 0;
    pthread_mutex_lock(&in->lock);
    @try {
        queue_retire(in);
        for (uint32_t i = 0; i < in->npoison; i++) {
            const txm_poison *p = &in->poison[i];
            if (p->buf->uid != p->uid)
                continue; /* released since */
            if (total < n)
                out[total] = (txm_mark){p->uid, p->stamp};
            total++;
        }
    }
    @finally {
        pthread_mutex_unlock(&in->lock);
    }
    *count = total;
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_close(txm_instance *in, txm_error *err)
{
    TXM_ENTER(err)
    if (!in)
        return fail(err, TXM_E_ARGUMENT, 0, "close: no instance");
    struct timespec until;
    deadline_in(&until, TXM_SLICE_MS);
    for (;;) {
        int idle = 0;
        uint64_t seq = done_seq(in);
        pthread_mutex_lock(&in->lock);
        @try {
            queue_commit(in);
            queue_retire(in);
            idle = list_empty(&in->flying);
            if (idle && !in->closed) {
                in->closed = 1;
                pool_drain(in);
                pool_trim(in, 0);
                [in->queue release];
                in->queue = nil;
            }
        }
        @catch (NSException *exception) {
            queue_abandon(in, [[exception reason] UTF8String]);
            @throw;
        }
        @finally {
            pthread_mutex_unlock(&in->lock);
        }
        if (idle)
            return TXM_OK;
        if (!done_wait(in, seq, &until))
            return TXM_PENDING;
    }
    TXM_LEAVE(err)
}
