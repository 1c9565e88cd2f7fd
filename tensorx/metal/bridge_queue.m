/* Command buffers: filling, committing, completing, waiting, failing. Part of bridge.m. Functions
 * named queue_* run under instance.lock. */

/* ---- slots and completion --------------------------------------------------------------- */

static void slot_give(txm_instance *in)
{
    pthread_mutex_lock(&in->done_lock);
    in->in_flight--;
    in->done_seq++;
    pthread_cond_broadcast(&in->done_cond);
    pthread_mutex_unlock(&in->done_lock);
}

/* Takes one of the 32 slots; 0 if none came free in time. Called with no lock held. */
static int slot_take(txm_instance *in, uint32_t ms)
{
    struct timespec until;
    deadline_in(&until, ms);
    int rc = 0;
    pthread_mutex_lock(&in->done_lock);
    while (in->in_flight >= TXM_MAX_IN_FLIGHT && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&in->done_cond, &in->done_lock, &until);
    int got = in->in_flight < TXM_MAX_IN_FLIGHT;
    in->in_flight += got;
    pthread_mutex_unlock(&in->done_lock);
    return got;
}

static uint64_t done_seq(txm_instance *in)
{
    pthread_mutex_lock(&in->done_lock);
    uint64_t seq = in->done_seq;
    pthread_mutex_unlock(&in->done_lock);
    return seq;
}

/* Waits for a completion after `seq`; 0 when the time is over. Called with no lock held. */
static int done_wait(txm_instance *in, uint64_t seq, const struct timespec *until)
{
    int rc = 0;
    pthread_mutex_lock(&in->done_lock);
    while (in->done_seq == seq && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&in->done_cond, &in->done_lock, until);
    int got = in->done_seq != seq;
    pthread_mutex_unlock(&in->done_lock);
    return got;
}

/* Runs on a thread of Metal's: C only, no lock but done_lock, nothing escapes. */
static void record_finish(txm_record *r, id<MTLCommandBuffer> metal)
{
    txm_instance *in = r->in; /* r belongs to whoever retires it as soon as done is set */
    @autoreleasepool {
        @try {
            if ([metal status] != MTLCommandBufferStatusCompleted) {
                NSError *error = [metal error];
                r->failed = 1;
                r->error_code = error ? (int32_t)[error code] : 0;
                copy_nsstring(r->message, sizeof r->message,
                              error ? [error localizedDescription] : @"no reason given");
            }
            if ([(id)metal respondsToSelector:@selector(GPUStartTime)]) {
                double seconds = [metal GPUEndTime] - [metal GPUStartTime];
                r->gpu_ns = seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
            }
        }
        @catch (id exception) {
            r->failed = 1;
            copy_text(r->message, sizeof r->message, "an exception while the result was read");
        }
    }
    at_store(&r->done, 1);
    slot_give(in);
}

/* ---- records ------------------------------------------------------------------------------- */

static uint64_t queue_horizon(const txm_instance *in)
{
    for (const txm_list *l = in->flying.next; l != &in->flying; l = l->next) {
        const txm_record *r = list_entry(l, txm_record, link);
        if (!at_load(&r->done))
            return r->stamp;
    }
    return in->open ? in->open->stamp : in->next_stamp;
}

static txm_poison *poison_find(txm_instance *in, const txm_buffer *b, uint64_t uid)
{
    for (uint32_t i = 0; i < in->npoison; i++)
        if (in->poison[i].buf == b && in->poison[i].uid == uid)
            return &in->poison[i];
    return NULL;
}

static void poison_add(txm_instance *in, txm_buffer *b, uint64_t uid, uint64_t stamp)
{
    if (b->uid == uid)
        b->poison = stamp;
    txm_poison *p = poison_find(in, b, uid);
    if (p) {
        p->stamp = stamp;
        return;
    }
    if (in->npoison == in->poison_cap) {
        uint32_t cap = in->poison_cap ? in->poison_cap * 2 : 64;
        txm_poison *grown = realloc(in->poison, cap * sizeof *grown);
        if (!grown)
            return; /* the buffer itself is marked */
        in->poison = grown;
        in->poison_cap = cap;
    }
    in->poison[in->npoison++] = (txm_poison){b, uid, stamp};
}

static void poison_remove(txm_instance *in, txm_buffer *b, uint64_t uid)
{
    if (b->uid == uid)
        b->poison = 0;
    txm_poison *p = poison_find(in, b, uid);
    if (p)
        *p = in->poison[--in->npoison];
}

/* What a command buffer did to the set of spoiled buffers. A failed one spoils all it should have
 * written; a good one passes on what it read, and mends what it overwrote. */
static void poison_pass(txm_instance *in, const txm_record *r)
{
    if (!r->failed && !in->npoison)
        return;
    for (uint32_t i = 0; i < r->naccesses;) {
        uint32_t end = i + 1;
        while (end < r->naccesses && !r->accesses[end].first)
            end++;
        uint64_t source = r->failed ? r->stamp : 0;
        for (uint32_t j = i; j < end && !source; j++) {
            const txm_access *a = &r->accesses[j];
            txm_poison *p = (a->access & TXM_READ) ? poison_find(in, a->buf, a->uid) : NULL;
            if (p)
                source = p->stamp;
        }
        for (uint32_t j = i; j < end; j++) {
            const txm_access *a = &r->accesses[j];
            if (source && (a->access & (TXM_WRITE | TXM_OVERWRITE)))
                poison_add(in, a->buf, a->uid, source);
            else if (!source && (a->access & TXM_OVERWRITE))
                poison_remove(in, a->buf, a->uid);
        }
        i = end;
    }
}

static void queue_failure(txm_instance *in, const txm_record *r)
{
    txm_failure *f = &in->failures[in->nfailures++ % TXM_NFAILURES];
    f->stamp = r->stamp;
    f->error_code = r->error_code;
    f->reported = 0;
    copy_text(f->message, sizeof f->message, r->message);
    copy_text(f->labels, sizeof f->labels, r->labels);
    in->st.failures++;
    in->broken = 1;
}

/* Takes completed command buffers off the list, in the order of their stamps: one that completed
 * early stays until all before it are done. */
static void queue_retire(txm_instance *in)
{
    while (!list_empty(&in->flying)) {
        txm_record *r = list_entry(in->flying.next, txm_record, link);
        if (!at_load(&r->done))
            break;
        poison_pass(in, r);
        if (r->failed)
            queue_failure(in, r);
        in->st.gpu_nanoseconds += r->gpu_ns;
        list_remove(&r->link);
        list_push_front(&in->spare, &r->link);
        [r->metal release];
        r->metal = nil;
        while (r->nkernels)
            kernel_unref(r->kernels[--r->nkernels]);
    }
    if (in->npoison && list_empty(&in->flying) && !in->open) {
        uint32_t n = 0; /* nothing refers to released buffers any more */
        for (uint32_t i = 0; i < in->npoison; i++)
            if (in->poison[i].buf->uid == in->poison[i].uid)
                in->poison[n++] = in->poison[i];
        in->npoison = n;
    }
}

static txm_failure *failure_of(txm_instance *in, uint64_t stamp)
{
    uint32_t n = in->nfailures < TXM_NFAILURES ? in->nfailures : TXM_NFAILURES;
    for (uint32_t i = 0; i < n; i++)
        if (in->failures[i].stamp == stamp)
            return &in->failures[i];
    return NULL;
}

static int32_t fail_command(txm_error *err, const txm_failure *f)
{
    int32_t code = f->error_code == MTLCommandBufferErrorOutOfMemory ? TXM_E_MEMORY : TXM_E_COMMAND;
    fail(err, code, f->error_code, "%s", f->message);
    if (err) {
        err->stamp = f->stamp;
        copy_text(err->kernels, sizeof err->kernels, f->labels);
    }
    return code;
}

/* The oldest failure that nobody was told about. */
static int32_t report_failure(txm_instance *in, txm_error *err)
{
    uint32_t n = in->nfailures < TXM_NFAILURES ? in->nfailures : TXM_NFAILURES;
    for (uint32_t i = 0; i < n; i++) {
        txm_failure *f = &in->failures[(in->nfailures - n + i) % TXM_NFAILURES];
        if (!f->reported) {
            f->reported = 1;
            return fail_command(err, f);
        }
    }
    return TXM_OK;
}

/* Tells of the failure by what it has spoiled: a later call that has nothing to do with it need not. */
static int32_t fail_poisoned(txm_instance *in, const txm_buffer *b, const char *what, txm_error *err)
{
    txm_failure *f = failure_of(in, b->poison);
    if (f)
        f->reported = 1;
    fail(err, TXM_E_POISONED, f ? f->error_code : 0, "%s: its value was to be written by a command "
         "buffer that failed: %s", what, f ? f->message : "(the reason is no longer kept)");
    if (err) {
        err->stamp = b->poison;
        copy_text(err->kernels, sizeof err->kernels, f ? f->labels : "");
    }
    return TXM_E_POISONED;
}

static txm_record *record_struct(txm_instance *in)
{
    txm_record *r;
    if (!list_empty(&in->spare)) {
        r = list_entry(in->spare.next, txm_record, link);
        list_remove(&r->link);
    } else {
        r = calloc(1, sizeof *r);
        if (!r)
            return NULL;
        list_init(&r->link);
        r->in = in;
    }
    r->metal = nil;
    r->encoder = nil;
    r->last_kernel = NULL;
    r->bytes = r->ops = r->gpu_ns = 0;
    r->dispatches = r->naccesses = r->label_bytes = r->labels_left_out = 0;
    r->failed = r->error_code = 0;
    r->labels[0] = r->message[0] = 0;
    at_store(&r->done, 0);
    return r;
}

/* Opens a command buffer in a slot that the caller has taken. */
static int32_t queue_open(txm_instance *in, txm_error *err)
{
    txm_record *r = record_struct(in);
    if (!r)
        return fail(err, TXM_E_MEMORY, 0, "no memory for the description of a command buffer");
    r->metal = [[in->queue commandBuffer] retain];
    r->encoder = [[r->metal computeCommandEncoder] retain];
    if (!r->metal || !r->encoder) {
        [r->encoder release];
        [r->metal release];
        r->metal = nil;
        r->encoder = nil;
        list_push_front(&in->spare, &r->link);
        return fail(err, TXM_E_COMMAND, 0, "Metal gives no command buffer");
    }
    r->stamp = in->next_stamp++;
    in->open = r;
    return TXM_OK;
}

static void queue_commit(txm_instance *in)
{
    txm_record *r = in->open;
    if (!r)
        return;
    [r->encoder endEncoding];
    [r->encoder release];
    r->encoder = nil;
    r->last_kernel = NULL;
    [r->metal addCompletedHandler:^(id<MTLCommandBuffer> metal) {
        record_finish(r, metal); /* captures a C pointer only */
    }];
    in->open = NULL;
    list_push_back(&in->flying, &r->link);
    in->st.command_buffers++;
    [r->metal commit];
}

/* An exception in the middle of encoding leaves a command buffer that cannot be trusted: it is
 * never committed and counts as failed. */
static void queue_abandon(txm_instance *in, const char *why)
{
    txm_record *r = in->open;
    if (!r)
        return;
    in->open = NULL;
    @try {
        [r->encoder endEncoding];
    }
    @catch (id again) {
    }
    [r->encoder release];
    r->encoder = nil;
    r->failed = 1;
    copy_text(r->message, sizeof r->message, why);
    list_push_back(&in->flying, &r->link);
    at_store(&r->done, 1);
    slot_give(in);
}

/* ---- encoding --------------------------------------------------------------------------------- */

static void record_label(txm_record *r, const char *label)
{
    size_t n = strlen(label);
    if (r->label_bytes + n + 24 > sizeof r->labels) {
        r->labels_left_out++;
        snprintf(r->labels + r->label_bytes, sizeof r->labels - r->label_bytes, " and %u more",
                 r->labels_left_out);
        return;
    }
    r->label_bytes += (uint32_t)snprintf(r->labels + r->label_bytes, sizeof r->labels - r->label_bytes,
                                         "%s%s", r->label_bytes ? ", " : "", label);
}

static int32_t choose_group(txm_instance *in, const txm_dispatch *d, MTLSize *group, MTLSize *groups,
                            txm_error *err)
{
    uint64_t g[3] = {d->group[0], d->group[1], d->group[2]};
    const txm_kernel *k = d->kernel;
    const char *name = d->label ? d->label : k->name;
    if (!g[0]) { /* whole lanes, up to 256, never more than this pipeline can have */
        uint64_t width = k->width ? k->width : 1;
        uint64_t most = k->max_threads < 256 ? k->max_threads : 256;
        if (most > in->max_group[0])
            most = in->max_group[0];
        g[0] = most >= width ? most / width * width : most;
        if (!(d->flags & TXM_GRID_IN_GROUPS) && d->grid[0] < g[0])
            g[0] = (d->grid[0] + width - 1) / width * width < g[0] ? (d->grid[0] + width - 1) / width * width : g[0];
        g[1] = g[2] = 1;
    }
    uint64_t n[3], total = 1;
    for (int i = 0; i < 3; i++) {
        if (!g[i])
            g[i] = 1;
        if (!d->grid[i])
            return fail(err, TXM_E_ARGUMENT, 0, "%s: a grid of 0 threads must not be dispatched", name);
        n[i] = d->flags & TXM_GRID_IN_GROUPS ? d->grid[i] : (d->grid[i] - 1) / g[i] + 1;
        if (n[i] > UINT32_MAX / g[i])
            return fail(err, TXM_E_ARGUMENT, 0,
                        "%s: %llu groups of %llu threads: positions in a grid have 32 bits, so it has to be split",
                        name, (unsigned long long)n[i], (unsigned long long)g[i]);
        if (g[i] > in->max_group[i])
            return fail(err, TXM_E_ARGUMENT, 0, "%s: %llu threads per group in dimension %d, the GPU has %u",
                        name, (unsigned long long)g[i], i, in->max_group[i]);
        total *= g[i];
    }
    if (total > k->max_threads)
        return fail(err, TXM_E_ARGUMENT, 0, "%s: %llu threads per group, but this pipeline can have %u", name,
                    (unsigned long long)total, k->max_threads);
    if (round_up(k->static_bytes, 16) + round_up(d->threadgroup_bytes, 16) > in->max_group_bytes)
        return fail(err, TXM_E_ARGUMENT, 0, "%s: %llu bytes of threadgroup memory, the GPU has %llu", name,
                    (unsigned long long)(k->static_bytes + d->threadgroup_bytes),
                    (unsigned long long)in->max_group_bytes);
    *group = MTLSizeMake((NSUInteger)g[0], (NSUInteger)g[1], (NSUInteger)g[2]);
    *groups = MTLSizeMake((NSUInteger)n[0], (NSUInteger)n[1], (NSUInteger)n[2]);
    return TXM_OK;
}

static int32_t check_dispatch(txm_instance *in, const txm_dispatch *d, txm_error *err)
{
    const char *name = d->label ? d->label : d->kernel->name;
    if (d->kernel->device != in->device)
        return fail(err, TXM_E_ARGUMENT, 0, "%s: the kernel was compiled for another GPU", name);
    if (d->nbindings > TXM_MAX_BINDINGS)
        return fail(err, TXM_E_ARGUMENT, 0, "%s: %u buffers, a kernel can have %d", name, d->nbindings,
                    TXM_MAX_BINDINGS);
    if (d->constant_bytes > TXM_MAX_CONSTANTS)
        return fail(err, TXM_E_ARGUMENT, 0, "%s: %u bytes of constants, a kernel can have %d", name,
                    d->constant_bytes, TXM_MAX_CONSTANTS);
    for (uint32_t i = 0; i < d->nbindings; i++) {
        const txm_binding *b = &d->bindings[i];
        char what[160];
        if (!b->buffer || b->buffer->in != in || at_load(&b->buffer->state) != TXM_B_LIVE)
            return fail(err, TXM_E_ARGUMENT, 0, "%s: argument %u is %s", name, i,
                        !b->buffer            ? "missing"
                        : b->buffer->in != in ? "a buffer of another instance"
                                              : "a buffer that was released");
        if (b->item_bytes == 0 || b->buffer->metal_offset % b->item_bytes)
            return fail(err, TXM_E_ARGUMENT, 0, "%s: argument %u has elements of %u bytes", name, i, b->item_bytes);
        if (b->buffer->poison && (b->access & TXM_READ)) {
            snprintf(what, sizeof what, "%s reads argument %u", name, i);
            return fail_poisoned(in, b->buffer, what, err);
        }
    }
    return TXM_OK;
}

static int32_t queue_encode(txm_instance *in, const txm_dispatch *d, MTLSize group, MTLSize groups,
                            txm_dispatched *out, txm_error *err)
{
    txm_record *r = in->open;
    if (r->naccesses + d->nbindings > r->accesses_cap) {
        uint32_t cap = (r->naccesses + d->nbindings) * 2 + 64;
        txm_access *grown = realloc(r->accesses, cap * sizeof *grown);
        if (!grown)
            return fail(err, TXM_E_MEMORY, 0, "no memory for the description of a dispatch");
        r->accesses = grown;
        r->accesses_cap = cap;
    }
    if (r->nkernels == r->kernels_cap) {
        uint32_t cap = r->kernels_cap * 2 + 16;
        txm_kernel **grown = realloc(r->kernels, cap * sizeof *grown);
        if (!grown)
            return fail(err, TXM_E_MEMORY, 0, "no memory for the description of a dispatch");
        r->kernels = grown;
        r->kernels_cap = cap;
    }
    int64_t offsets[TXM_MAX_BINDINGS + 3];
    id<MTLComputeCommandEncoder> e = r->encoder;
    if (r->last_kernel != d->kernel) {
        [e setComputePipelineState:d->kernel->pipeline];
        r->last_kernel = d->kernel;
        at_add(&d->kernel->refs, 1);
        r->kernels[r->nkernels++] = d->kernel;
    }
    uint32_t exported = 0;
    for (uint32_t i = 0; i < d->nbindings; i++) {
        const txm_binding *b = &d->bindings[i];
        [e setBuffer:b->buffer->metal offset:0 atIndex:i];
        offsets[i] = b->offset + (int64_t)(b->buffer->metal_offset / b->item_bytes);
        exported |= at_load(&b->buffer->exports) > 0;
        b->buffer->last_use = r->stamp;
        if (b->access & (TXM_WRITE | TXM_OVERWRITE))
            b->buffer->last_write = r->stamp;
        r->accesses[r->naccesses++] = (txm_access){b->buffer, b->buffer->uid, b->access, i == 0};
        r->bytes += b->buffer->bytes;
    }
    for (int i = 0; i < 3; i++)
        offsets[d->nbindings + (uint32_t)i] = (int64_t)d->origin[i];
    [e setBytes:offsets length:(d->nbindings + 3) * sizeof offsets[0] atIndex:d->nbindings];
    if (d->constant_bytes)
        [e setBytes:d->constants length:d->constant_bytes atIndex:d->nbindings + 1];
    if (d->threadgroup_bytes)
        [e setThreadgroupMemoryLength:(NSUInteger)round_up(d->threadgroup_bytes, 16) atIndex:0];
    record_label(r, d->label ? d->label : d->kernel->name);
    [e dispatchThreadgroups:groups threadsPerThreadgroup:group];
    r->dispatches++;
    r->ops += d->ops;
    in->st.dispatches++;
    out->stamp = r->stamp;
    out->must_wait = exported || in->synchronous;
    out->committed = in->synchronous || r->dispatches >= in->opt.batch_dispatches ||
                     r->bytes >= in->opt.batch_bytes || r->ops >= in->opt.batch_ops;
    if (out->committed)
        queue_commit(in);
    return TXM_OK;
}

/* After a failure Metal may ignore whatever else the queue gets: everything in flight has to
 * finish, then a new queue takes over. 1: done, 0: still draining. */
static int queue_replace(txm_instance *in)
{
    queue_commit(in);
    queue_retire(in);
    if (!list_empty(&in->flying))
        return 0;
    id<MTLCommandQueue> fresh = [in->device->metal newCommandQueue];
    if (fresh) {
        [in->queue release];
        in->queue = fresh;
    }
    in->broken = 0;
    return 1;
}

int32_t txm_encode(txm_instance *in, const txm_dispatch *d, txm_dispatched *out, txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !d || !out || !d->kernel || (d->nbindings && !d->bindings) || (d->constant_bytes && !d->constants))
        return fail(err, TXM_E_ARGUMENT, 0, "encode: an argument is missing");
    MTLSize group, groups;
    int32_t code = choose_group(in, d, &group, &groups, err);
    if (code)
        return code;
    struct timespec until;
    deadline_in(&until, TXM_SLICE_MS);
    for (int slot = 0;;) {
        int finished = 0, draining = 0;
        uint64_t seq = done_seq(in);
        pthread_mutex_lock(&in->lock);
        @try {
            pool_drain(in);
            queue_retire(in);
            draining = in->broken && !in->closed && !queue_replace(in);
            if (in->closed)
                code = fail(err, TXM_E_CLOSED, 0, "encode: this instance is closed");
            else if (!draining && (code = report_failure(in, err)) == TXM_OK)
                code = check_dispatch(in, d, err);
            if (code == TXM_OK && !draining && !in->open && slot) {
                code = queue_open(in, err);
                slot = code != TXM_OK;
            }
            if (code == TXM_OK && !draining && in->open) {
                code = queue_encode(in, d, group, groups, out, err);
                finished = 1;
            }
        }
        @catch (NSException *exception) {
            queue_abandon(in, [[exception reason] UTF8String]);
            @throw;
        }
        @finally {
            pthread_mutex_unlock(&in->lock);
            if (slot && (finished || code != TXM_OK)) {
                slot_give(in);
                slot = 0;
            }
        }
        if (finished || code != TXM_OK)
            return code;
        if (draining) {
            if (slot) {
                slot_give(in); /* not to be kept while waiting for the others */
                slot = 0;
                seq++;
            }
            if (!done_wait(in, seq, &until))
                return TXM_PENDING;
        } else {
            slot = slot_take(in, TXM_SLICE_MS);
            if (!slot)
                return TXM_PENDING;
        }
    }
    TXM_LEAVE(err)
}
