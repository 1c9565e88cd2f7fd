/* The buffer pool of an instance. Part of bridge.m; everything runs under instance.lock unless said
 * otherwise.
 *
 * A Metal buffer is at least a page, so smaller storages are slots of slabs: one Metal buffer cut
 * into equal slots. Larger ones are rounded to eight steps per power of two, so that a size that
 * comes back fits exactly and wastes at most an eighth.
 *
 * A released buffer keeps the stamps of its last use. The GPU may have it again at once: one serial
 * queue with tracked hazards orders its users. The host may have it only when its last use lies
 * below the horizon, the lowest stamp that is not completed. */

static int32_t pressure_events; /* of this process */

static inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static uint64_t class_capacity(const txm_instance *in, uint64_t bytes)
{
    uint64_t page = in->opt.page_bytes;
    if (bytes <= page)
        return page;
    uint64_t step = (1ull << (63 - __builtin_clzll(bytes - 1))) / 8;
    return round_up(bytes, step > page ? step : page);
}

static int32_t class_index(uint64_t capacity)
{
    int e = 63 - __builtin_clzll(capacity);
    return e >= 40 ? -1 : (int32_t)(e * 8 + (int)((capacity >> (e - 3)) & 7));
}

static txm_buffer *buffer_struct(txm_instance *in)
{
    txm_buffer *b = in->spare_buffers;
    if (b) {
        in->spare_buffers = b->next;
        memset(b, 0, sizeof *b);
    } else {
        b = calloc(1, sizeof *b);
        if (!b)
            return NULL;
    }
    b->in = in;
    list_init(&b->bin);
    list_init(&b->lru);
    return b;
}

/* Structs are kept for ever: records and late callers may still point at them. */
static void buffer_struct_free(txm_instance *in, txm_buffer *b)
{
    at_store(&b->state, TXM_B_SPARE);
    b->uid = 0;
    b->next = in->spare_buffers;
    in->spare_buffers = b;
}

/* ---- pooled Metal buffers ---------------------------------------------------------------- */

static void pool_drop(txm_instance *in, txm_buffer *b)
{
    list_remove(&b->bin);
    list_remove(&b->lru);
    in->st.cached -= b->capacity;
    in->st.cached_buffers--;
    in->st.reserved -= b->capacity;
    in->st.metal_buffers--;
    [b->metal release]; /* command buffers in flight hold references of their own */
    buffer_struct_free(in, b);
}

static void slab_drop(txm_instance *in, txm_slab *s)
{
    while (!list_empty(&s->free_slots)) {
        txm_buffer *b = list_entry(s->free_slots.next, txm_buffer, bin);
        list_remove(&b->bin);
        buffer_struct_free(in, b);
    }
    list_remove(&s->link);
    in->st.cached -= s->bytes;
    in->st.reserved -= s->bytes;
    in->st.metal_buffers--;
    [s->metal release];
    free(s);
}

static uint64_t pool_trim(txm_instance *in, uint64_t keep)
{
    uint64_t before = in->st.reserved;
    while (in->st.cached > keep && !list_empty(&in->lru))
        pool_drop(in, list_entry(in->lru.prev, txm_buffer, lru));
    for (uint32_t c = 0; c < 16 && in->st.cached > keep; c++)
        for (txm_list *l = in->slabs[c].next, *next; l != &in->slabs[c] && in->st.cached > keep; l = next) {
            txm_slab *s = list_entry(l, txm_slab, link);
            next = l->next;
            if (s->used == 0)
                slab_drop(in, s);
        }
    return before - in->st.reserved;
}

static void pool_put(txm_instance *in, txm_buffer *b)
{
    in->st.live -= b->bytes;
    in->st.live_buffers--;
    b->uid = 0;
    b->poison = 0;
    at_store(&b->exports, 0);
    at_store(&b->state, TXM_B_POOLED);
    txm_slab *s = b->slab;
    if (s) {
        list_push_front(&s->free_slots, &b->bin);
        in->st.cached += s->slot_bytes;
        s->used--;
        list_remove(&s->link);
        list_push_front(&in->slabs[s->cls], &s->link);
    } else {
        list_push_front(&in->bins[b->cls], &b->bin);
        list_push_front(&in->lru, &b->lru);
        in->st.cached += b->capacity;
        in->st.cached_buffers++;
    }
}

static void pool_drain(txm_instance *in)
{
    txm_buffer *b = at_swap(&in->released, NULL);
    if (!b)
        return;
    while (b) {
        txm_buffer *next = b->next;
        pool_put(in, b);
        b = next;
    }
    uint64_t keep = in->closed ? 0 : in->opt.cache_limit;
    if (in->st.cached > keep)
        pool_trim(in, keep);
}

static void pool_hand_out(txm_instance *in, txm_buffer *b, uint64_t bytes)
{
    b->bytes = bytes;
    b->uid = ++in->next_uid;
    b->poison = 0;
    at_store(&b->exports, 0);
    at_store(&b->state, TXM_B_LIVE);
    in->st.requested += bytes;
    in->st.allocations++;
    in->st.live += bytes;
    in->st.live_buffers++;
    if (in->st.live > in->st.peak)
        in->st.peak = in->st.live;
}

static txm_buffer *pool_take(txm_instance *in, uint64_t capacity, int host)
{
    int32_t cls = class_index(capacity);
    uint64_t horizon = queue_horizon(in);
    for (int32_t c = cls; c <= cls + 2 && c < TXM_NBINS; c++) {
        txm_list *bin = &in->bins[c];
        /* The latest released is warm in caches; for the host, the oldest is likeliest done. */
        for (txm_list *l = host ? bin->prev : bin->next; l != bin; l = host ? l->prev : l->next) {
            txm_buffer *b = list_entry(l, txm_buffer, bin);
            if (b->capacity > capacity + capacity / 4)
                break;
            if (host && b->last_use >= horizon)
                continue;
            list_remove(&b->bin);
            list_remove(&b->lru);
            in->st.cached -= b->capacity;
            in->st.cached_buffers--;
            return b;
        }
    }
    return NULL;
}

/* ---- new memory ----------------------------------------------------------------------------- */

/* +1, or nil with *err filled. */
static id<MTLBuffer> metal_buffer(txm_instance *in, uint64_t capacity, txm_error *err)
{
    if (in->st.metal_buffers >= in->opt.buffer_limit && !list_empty(&in->lru))
        pool_drop(in, list_entry(in->lru.prev, txm_buffer, lru));
    if (in->st.metal_buffers >= in->opt.buffer_limit) {
        fail(err, TXM_E_MEMORY, 0,
             "%llu Metal buffers are alive, the limit of their number; small ones share, so keep fewer "
             "tensors of %u bytes and more", (unsigned long long)in->st.metal_buffers, in->opt.page_bytes);
        return nil;
    }
    if (in->st.reserved + capacity > in->opt.memory_limit) {
        uint64_t live = in->st.reserved - in->st.cached;
        pool_trim(in, in->opt.memory_limit > live + capacity ? in->opt.memory_limit - live - capacity : 0);
    }
    if (in->st.reserved + capacity > in->opt.memory_limit) {
        fail(err, TXM_E_MEMORY, 0, "%llu bytes asked for, %llu in use, %llu cached, limit %llu",
             (unsigned long long)capacity, (unsigned long long)(in->st.reserved - in->st.cached),
             (unsigned long long)in->st.cached, (unsigned long long)in->opt.memory_limit);
        return nil;
    }
    MTLResourceOptions shared = MTLResourceStorageModeShared | MTLResourceHazardTrackingModeTracked;
    id<MTLBuffer> metal = [in->device->metal newBufferWithLength:capacity options:shared];
    if (!metal) {
        pool_trim(in, 0);
        metal = [in->device->metal newBufferWithLength:capacity options:shared];
    }
    if (!metal) {
        fail(err, TXM_E_MEMORY, 0, "Metal refuses a buffer of %llu bytes (%llu in use by this instance)",
             (unsigned long long)capacity, (unsigned long long)in->st.reserved);
        return nil;
    }
    in->st.system_allocations++;
    in->st.reserved += capacity;
    in->st.metal_buffers++;
    return metal;
}

static txm_buffer *pool_new(txm_instance *in, uint64_t capacity, txm_error *err)
{
    int32_t cls = class_index(capacity);
    if (cls < 0 || capacity > in->max_buffer_bytes) {
        fail(err, TXM_E_MEMORY, 0, "%llu bytes asked for, but the longest buffer of this GPU has %llu",
             (unsigned long long)capacity, (unsigned long long)in->max_buffer_bytes);
        return NULL;
    }
    txm_buffer *b = buffer_struct(in);
    if (!b) {
        fail(err, TXM_E_MEMORY, 0, "no memory for the description of a buffer");
        return NULL;
    }
    b->metal = metal_buffer(in, capacity, err);
    if (!b->metal) {
        buffer_struct_free(in, b);
        return NULL;
    }
    b->contents = [b->metal contents];
    b->capacity = capacity;
    b->cls = cls;
    return b;
}

/* ---- slabs ------------------------------------------------------------------------------------- */

static txm_slab *slab_new(txm_instance *in, uint32_t cls, txm_error *err)
{
    txm_slab *s = calloc(1, sizeof *s);
    if (!s) {
        fail(err, TXM_E_MEMORY, 0, "no memory for the description of a slab");
        return NULL;
    }
    s->cls = cls;
    s->slot_bytes = 256u << cls;
    s->bytes = 16ull * in->opt.page_bytes;
    s->slots = (uint32_t)(s->bytes / s->slot_bytes);
    list_init(&s->free_slots);
    list_init(&s->link);
    s->metal = metal_buffer(in, s->bytes, err);
    if (!s->metal) {
        free(s);
        return NULL;
    }
    /* Tools that watch whole buffers learn from the label that this one is shared. */
    [s->metal setLabel:@"slab of tensorx"];
    s->contents = [s->metal contents];
    for (uint32_t i = s->slots; i-- > 0;) {
        txm_buffer *b = buffer_struct(in);
        if (!b) {
            s->slots = 0;
            in->st.cached += s->bytes; /* slab_drop takes it off again */
            slab_drop(in, s);
            fail(err, TXM_E_MEMORY, 0, "no memory for the description of a buffer");
            return NULL;
        }
        b->slab = s;
        b->metal = s->metal;
        b->metal_offset = (uint64_t)i * s->slot_bytes;
        b->contents = s->contents + b->metal_offset;
        b->capacity = s->slot_bytes;
        at_store(&b->state, TXM_B_POOLED);
        list_push_front(&s->free_slots, &b->bin);
    }
    in->st.cached += s->bytes;
    list_push_front(&in->slabs[cls], &s->link);
    return s;
}

static txm_buffer *slab_slot(txm_slab *s, int host, uint64_t horizon)
{
    int tries = 16;
    txm_list *l = host ? s->free_slots.prev : s->free_slots.next;
    for (; l != &s->free_slots && tries-- > 0; l = host ? l->prev : l->next) {
        txm_buffer *b = list_entry(l, txm_buffer, bin);
        if (!host || b->last_use < horizon)
            return b;
    }
    return NULL;
}

static txm_buffer *slab_take(txm_instance *in, uint64_t bytes, int host, int *fresh, txm_error *err)
{
    uint32_t cls = 0;
    while ((256ull << cls) < bytes)
        cls++;
    uint64_t horizon = queue_horizon(in);
    txm_buffer *b = NULL;
    int looked = 0;
    for (txm_list *l = in->slabs[cls].next; l != &in->slabs[cls] && !b && looked++ < 4; l = l->next)
        b = slab_slot(list_entry(l, txm_slab, link), host, horizon);
    *fresh = !b;
    if (!b) {
        txm_slab *s = slab_new(in, cls, err);
        if (!s)
            return NULL;
        b = slab_slot(s, 0, horizon);
    }
    txm_slab *s = b->slab;
    list_remove(&b->bin);
    s->used++;
    in->st.cached -= s->slot_bytes;
    if (list_empty(&s->free_slots)) { /* full ones last */
        list_remove(&s->link);
        list_push_back(&in->slabs[cls], &s->link);
    }
    return b;
}

/* ---- entries -------------------------------------------------------------------------------------- */

static void buffer_describe(const txm_buffer *b, txm_buffer_info *info)
{
    info->contents = b->contents;
    info->bytes = b->bytes;
    info->capacity = b->capacity;
    info->uid = b->uid;
    info->last_use = b->last_use;
    info->last_write = b->last_write;
    info->poison = b->poison;
    info->metal_buffer = (void *)b->metal;
    info->metal_offset = b->metal_offset;
    info->exports = at_load(&b->exports);
    info->live = at_load(&b->state) == TXM_B_LIVE;
}

int32_t txm_alloc(txm_instance *in, uint64_t bytes, uint32_t flags, txm_buffer **out,
                  txm_buffer_info *info, txm_error *err)
{
    TXM_ENTER(err)
    if (!in || !out)
        return fail(err, TXM_E_ARGUMENT, 0, "alloc: an argument is missing");
    int32_t code = TXM_OK;
    int host = (flags & TXM_ALLOC_HOST) != 0;
    txm_buffer *b = NULL;
    pthread_mutex_lock(&in->lock);
    @try {
        if (in->closed) {
            code = fail(err, TXM_E_CLOSED, 0, "alloc: this instance is closed");
        } else {
            pool_drain(in);
            queue_retire(in);
            int32_t events = at_load(&pressure_events);
            if (events != in->pressure) {
                in->pressure = events;
                in->st.pressure_events++;
                pool_trim(in, 0);
            }
            int fresh = 0;
            if (!in->opt.no_slabs && bytes <= in->opt.page_bytes / 2) {
                b = slab_take(in, bytes ? bytes : 1, host, &fresh, err);
            } else if (bytes > UINT64_MAX / 2) {
                fail(err, TXM_E_MEMORY, 0, "%llu bytes asked for", (unsigned long long)bytes);
            } else {
                uint64_t capacity = class_capacity(in, bytes);
                b = pool_take(in, capacity, host);
                fresh = !b;
                if (!b)
                    b = pool_new(in, capacity, err);
            }
            if (b) {
                in->st.pool_hits += !fresh;
                pool_hand_out(in, b, bytes);
                *out = b;
                if (info)
                    buffer_describe(b, info);
            } else {
                code = err ? err->code : TXM_E_MEMORY;
            }
        }
    }
    @finally {
        pthread_mutex_unlock(&in->lock);
    }
    return code;
    TXM_LEAVE(err)
}

void txm_release(txm_buffer *b)
{
    if (!b || at_peek(&txm_is_child))
        return;
    txm_instance *in = b->in;
    int32_t live = TXM_B_LIVE;
    if (!at_cas(&b->state, &live, TXM_B_RELEASED)) {
        at_add(&in->misuse, 1);
        return;
    }
    txm_buffer *head = at_peek(&in->released);
    do
        b->next = head;
    while (!at_cas(&in->released, &head, b));
}

int32_t txm_buffer_get(txm_buffer *b, txm_buffer_info *info, txm_error *err)
{
    TXM_ENTER(err)
    if (!b || !info)
        return fail(err, TXM_E_ARGUMENT, 0, "buffer_get: an argument is missing");
    pthread_mutex_lock(&b->in->lock);
    @try {
        queue_retire(b->in); /* a failure that has come in shows up as poison */
    }
    @finally {
        buffer_describe(b, info);
        pthread_mutex_unlock(&b->in->lock);
    }
    return TXM_OK;
    TXM_LEAVE(err)
}

int32_t txm_buffer_export(txm_buffer *b, int32_t delta)
{
    if (!b)
        return TXM_E_ARGUMENT;
    at_add(&b->exports, delta);
    return TXM_OK;
}

int32_t txm_trim(txm_instance *in, uint64_t keep_bytes, uint64_t *freed, txm_error *err)
{
    TXM_ENTER(err)
    if (!in)
        return fail(err, TXM_E_ARGUMENT, 0, "trim: no instance");
    pthread_mutex_lock(&in->lock);
    @try {
        pool_drain(in);
        queue_retire(in);
        uint64_t n = pool_trim(in, keep_bytes);
        if (freed)
            *freed = n;
    }
    @finally {
        pthread_mutex_unlock(&in->lock);
    }
    return TXM_OK;
    TXM_LEAVE(err)
}
