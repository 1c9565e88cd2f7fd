/* Caching block allocator of the CPU device.
 *
 * No Python and no heap: small sizes come from slabs, each larger block is a
 * mapping of its own, and the bookkeeping of free memory lies in the free memory.
 * All state is under one lock that is held for some ten instructions and never
 * across a system call; mapping and unmapping happen outside it.
 *
 * Size classes: multiples of 64 up to 512, then 8 steps per power of two, so a
 * block is at most 12.5 % (small: 64 bytes) larger than what was asked for.  A
 * caller keeps the requested size and the capacity and hands both back.
 *
 *   live, requested   exact bytes asked for
 *   system            bytes mapped and still held
 *   cached            the part of it that empty_cache would return
 *   system - cached   blocks in use, and slabs that are partly in use
 */
#ifndef TX_ALLOC_H
#define TX_ALLOC_H

#include "sysinfo.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#ifdef __APPLE__
#include <os/lock.h>
#endif
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

typedef struct tx_mem_stats {
    int64_t requested, allocations;   /* ever asked for, bytes and number */
    int64_t live, peak;               /* held now; the most since tx_reset_peak */
    int64_t cached, system;
    int64_t scratch, scratch_peak;    /* workspaces, not part of live */
    int64_t limit, cap;               /* limit < 0: none */
} tx_mem_stats;

#define TX_ALIGN 64
#define TX_SMALL_CLASSES 56                       /* up to 32 KiB */
#define TX_MAX_BYTES ((size_t)1 << 46)
#define TX_CLASSES (8 + (46 - 9) * 8)
#define TX_HUGE_BYTES ((size_t)4 << 20)           /* blocks that get huge pages */
#define TX_HUGE_ALIGN ((size_t)2 << 20)

/* ---- lock ---------------------------------------------------------------
 * The sections are so short that a waiter nearly always gets in while spinning.
 * Unlocking is a plain store, half the cost of a pthread mutex; a waiter that
 * meets a preempted holder yields, then sleeps, so no priority can starve it. */
#ifdef __APPLE__
typedef os_unfair_lock tx_lock_t;
#define TX_LOCK_INIT OS_UNFAIR_LOCK_INIT
#define tx_lock(l) os_unfair_lock_lock(l)
#define tx_unlock(l) os_unfair_lock_unlock(l)
#else
typedef int tx_lock_t;
#define TX_LOCK_INIT 0
TX_COLD void tx_lock_slow(tx_lock_t *l)
{
    for (int round = 0;; round++) {
        for (int i = 0; i < 64; i++) {
            if (!__atomic_load_n(l, __ATOMIC_RELAXED) && !__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE))
                return;
            TX_PAUSE();
        }
        if (round < 16) {
            sched_yield();
        } else {
            struct timespec t = {0, 50000};
            nanosleep(&t, NULL);
        }
    }
}
static inline void tx_lock(tx_lock_t *l)
{
    if (TX_UNLIKELY(__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE)))
        tx_lock_slow(l);
}
static inline void tx_unlock(tx_lock_t *l) { __atomic_store_n(l, 0, __ATOMIC_RELEASE); }
#endif

/* ---- state -------------------------------------------------------------- */
typedef struct tx_free_block {                    /* lies in a free large block */
    struct tx_free_block *next, *prev;            /* of one class, newest first */
    struct tx_free_block *newer, *older;          /* of all, by age */
    int cls;
} tx_free_block;

typedef struct tx_slab {                          /* first 64 bytes of a slab */
    struct tx_slab *next, *prev;
    void *free;                                   /* freed blocks, linked by their first word */
    uint32_t used, carved, total;
    int32_t cls;
} tx_slab;

typedef struct tx_slab_class {
    tx_slab *partial;                             /* has a free block and a used one */
    tx_slab *empty;                               /* wholly free: part of the cache */
} tx_slab_class;

static struct tx_allocator {
    tx_lock_t lock;
    tx_mem_stats st;
    int64_t foreign_cached;                       /* kept by another pool under the same cap */
    tx_free_block *oldest, *newest;
    tx_slab_class small[TX_SMALL_CLASSES];
    tx_free_block *large[TX_CLASSES];
    size_t page;
    int64_t fail_after;                           /* tests: maps until the system refuses; < 0: off */
} tx_mem = {.lock = TX_LOCK_INIT, .st = {.limit = -1, .cap = (int64_t)1 << 30}, .page = 4096, .fail_after = -1};

typedef struct tx_thread_counts { int64_t requested, allocations; } tx_thread_counts;
static __thread tx_thread_counts tx_thread_count;

/* What an allocation of 0 bytes points to: valid, aligned, never handed to free. */
static char tx_no_bytes[TX_ALIGN] __attribute__((aligned(TX_ALIGN)));

/* ---- size classes ------------------------------------------------------- */
static inline int tx_class_of(size_t n)           /* 1 <= n <= TX_MAX_BYTES */
{
    if (n <= 512)
        return (int)((n - 1) >> 6);
    int k = 63 - __builtin_clzll((unsigned long long)(n - 1));
    return 8 + (k - 9) * 8 + (int)(((n - 1) >> (k - 3)) & 7);
}

static inline size_t tx_class_bytes(int c)
{
    if (c < 8)
        return ((size_t)c + 1) << 6;
    int k = 9 + (c - 8) / 8;
    return ((size_t)1 << k) + ((size_t)((c - 8) % 8 + 1) << (k - 3));
}

/* Slabs are as large as they are aligned: from a block and its class follows its slab. */
static inline size_t tx_slab_bytes(int c)
{
    if (c < 32)                                   /* up to 4 KiB */
        return (size_t)64 << 10;
    return (size_t)1 << (16 + (c - 24) / 8);      /* 128, 256, 512 KiB */
}

static inline size_t tx_mapped_bytes(int c)
{
    return (tx_class_bytes(c) + tx_mem.page - 1) & ~(tx_mem.page - 1);
}

/* ---- the system --------------------------------------------------------- */
TX_COLD void *tx_sys_map(size_t bytes, size_t align)
{
    int64_t left = __atomic_load_n(&tx_mem.fail_after, __ATOMIC_RELAXED);
    if (left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    if (left > 0)
        __atomic_fetch_sub(&tx_mem.fail_after, 1, __ATOMIC_RELAXED);
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *p = (char *)mmap(NULL, bytes, prot, flags, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (((uintptr_t)p & (align - 1)) != 0) {
        munmap(p, bytes);
        p = (char *)mmap(NULL, bytes + align, prot, flags, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        char *start = (char *)(((uintptr_t)p + align - 1) & ~(uintptr_t)(align - 1));
        if (start > p)
            munmap(p, (size_t)(start - p));
        if (start < p + align)
            munmap(start + bytes, (size_t)(p + align - start));
        p = start;
    }
#ifdef MADV_HUGEPAGE
    if (bytes >= TX_HUGE_BYTES)
        madvise(p, bytes, MADV_HUGEPAGE);         /* a wish: refusal is harmless */
#endif
    return p;
}

/* ---- free lists (all with the lock held) -------------------------------- */
static inline void tx_slab_link(tx_slab **head, tx_slab *s)
{
    s->prev = NULL;
    s->next = *head;
    if (*head)
        (*head)->prev = s;
    *head = s;
}

static inline void tx_slab_unlink(tx_slab **head, tx_slab *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else
        *head = s->next;
    if (s->next)
        s->next->prev = s->prev;
}

static inline void *tx_small_pop(int c)
{
    tx_slab_class *k = &tx_mem.small[c];
    tx_slab *s = k->partial;
    if (TX_UNLIKELY(!s)) {
        s = k->empty;
        if (!s)
            return NULL;
        tx_slab_unlink(&k->empty, s);
        tx_slab_link(&k->partial, s);
        tx_mem.st.cached -= (int64_t)tx_slab_bytes(c);
    }
    void *p = s->free;
    if (p)
        s->free = *(void **)p;
    else
        p = (char *)s + TX_ALIGN + (size_t)s->carved++ * tx_class_bytes(c);
    if (++s->used == s->total)
        tx_slab_unlink(&k->partial, s);
    return p;
}

static inline void tx_small_push(void *p, int c)
{
    tx_slab_class *k = &tx_mem.small[c];
    tx_slab *s = (tx_slab *)((uintptr_t)p & ~(uintptr_t)(tx_slab_bytes(c) - 1));
    *(void **)p = s->free;
    s->free = p;
    if (TX_UNLIKELY(s->used == s->total))
        tx_slab_link(&k->partial, s);
    if (TX_UNLIKELY(--s->used == 0)) {
        tx_slab_unlink(&k->partial, s);
        tx_slab_link(&k->empty, s);
        tx_mem.st.cached += (int64_t)tx_slab_bytes(c);
    }
}

TX_COLD void tx_slab_add(tx_slab *s, int c)
{
    s->free = NULL;
    s->used = s->carved = 0;
    s->total = (uint32_t)((tx_slab_bytes(c) - TX_ALIGN) / tx_class_bytes(c));
    s->cls = c;
    tx_slab_link(&tx_mem.small[c].empty, s);
    tx_mem.st.cached += (int64_t)tx_slab_bytes(c);
    tx_mem.st.system += (int64_t)tx_slab_bytes(c);
}

static void tx_large_link(tx_free_block *b, int c)
{
    b->cls = c;
    b->prev = NULL;
    b->next = tx_mem.large[c];
    if (b->next)
        b->next->prev = b;
    tx_mem.large[c] = b;
    b->newer = NULL;
    b->older = tx_mem.newest;
    if (b->older)
        b->older->newer = b;
    else
        tx_mem.oldest = b;
    tx_mem.newest = b;
    tx_mem.st.cached += (int64_t)tx_mapped_bytes(c);
}

static void tx_large_unlink(tx_free_block *b)
{
    int c = b->cls;
    if (b->prev)
        b->prev->next = b->next;
    else
        tx_mem.large[c] = b->next;
    if (b->next)
        b->next->prev = b->prev;
    if (b->newer)
        b->newer->older = b->older;
    else
        tx_mem.newest = b->older;
    if (b->older)
        b->older->newer = b->newer;
    else
        tx_mem.oldest = b->newer;
    tx_mem.st.cached -= (int64_t)tx_mapped_bytes(c);
}

/* A cached block for n bytes of class c, unless `exact` also one of the next
 * classes as long as it wastes at most an eighth of n. */
static inline void *tx_pop(size_t n, int c, int exact, int *got)
{
    *got = c;
    if (TX_LIKELY(c < TX_SMALL_CLASSES))
        return tx_small_pop(c);
    for (int k = c; k < TX_CLASSES && (k == c || (!exact && tx_class_bytes(k) - n <= n / 8)); k++) {
        tx_free_block *b = tx_mem.large[k];
        if (b) {
            tx_large_unlink(b);
            *got = k;
            return b;
        }
    }
    return NULL;
}

/* Takes cached memory off the lists, least recently freed first, until `keep`
 * bytes stay; the result is a chain (by next) to unmap without the lock. */
static tx_free_block *tx_evict(int64_t keep)
{
    tx_free_block *chain = NULL;
    while (tx_mem.st.cached > keep && tx_mem.oldest) {
        tx_free_block *b = tx_mem.oldest;
        tx_large_unlink(b);
        tx_mem.st.system -= (int64_t)tx_mapped_bytes(b->cls);
        b->next = chain;
        chain = b;
    }
    for (int c = TX_SMALL_CLASSES - 1; c >= 0 && tx_mem.st.cached > keep; c--)
        while (tx_mem.small[c].empty && tx_mem.st.cached > keep) {
            tx_slab *s = tx_mem.small[c].empty;
            tx_slab_unlink(&tx_mem.small[c].empty, s);
            tx_mem.st.cached -= (int64_t)tx_slab_bytes(c);
            tx_mem.st.system -= (int64_t)tx_slab_bytes(c);
            tx_free_block *b = (tx_free_block *)s; /* the header is no longer needed */
            b->cls = c;
            b->next = chain;
            chain = b;
        }
    return chain;
}

/* Unmaps a chain (lock not held).  Unmapping the middle of a mapping can be
 * refused (too many mappings): then the pages go back and the addresses stay cached. */
TX_COLD void tx_sys_unmap(tx_free_block *chain)
{
    while (chain) {
        tx_free_block *next = chain->next;
        int c = chain->cls;
        size_t bytes = c < TX_SMALL_CLASSES ? tx_slab_bytes(c) : tx_mapped_bytes(c);
        if (TX_UNLIKELY(munmap(chain, bytes) != 0)) {
#ifdef MADV_DONTNEED
            madvise(chain, bytes, MADV_DONTNEED);
#endif
            tx_lock(&tx_mem.lock);
            if (c < TX_SMALL_CLASSES) {
                tx_slab_add((tx_slab *)chain, c);
            } else {
                tx_large_link(chain, c);
                tx_mem.st.system += (int64_t)bytes;
            }
            tx_unlock(&tx_mem.lock);
        }
        chain = next;
    }
}

/* ---- allocation --------------------------------------------------------- */
TX_API void tx_empty_cache(void)
{
    tx_lock(&tx_mem.lock);
    tx_free_block *chain = tx_evict(0);
    tx_unlock(&tx_mem.lock);
    tx_sys_unmap(chain);
}

static inline void tx_account(size_t n, int scratch)
{
    if (scratch) {
        if (tx_mem.st.scratch > tx_mem.st.scratch_peak)
            tx_mem.st.scratch_peak = tx_mem.st.scratch;
        return;
    }
    tx_mem.st.requested += (int64_t)n;
    tx_mem.st.allocations += 1;
    if (tx_mem.st.live > tx_mem.st.peak)
        tx_mem.st.peak = tx_mem.st.live;
}

/* Nothing cached fits: n is already counted in *held. Returns without the lock. */
TX_COLD void *tx_take_slow(size_t n, int c, int scratch, int64_t *held)
{
    int small = c < TX_SMALL_CLASSES;
    size_t bytes = small ? tx_slab_bytes(c) : tx_mapped_bytes(c);
    size_t align = small ? bytes : TX_ALIGN;
#ifdef MADV_HUGEPAGE
    if (bytes >= TX_HUGE_BYTES)
        align = TX_HUGE_ALIGN;
#endif
    void *p = tx_sys_map(bytes, align);
    if (!p) {
        tx_empty_cache();
        p = tx_sys_map(bytes, align);
    }
    tx_lock(&tx_mem.lock);
    if (!p) {
        *held -= (int64_t)n;
        tx_unlock(&tx_mem.lock);
        return NULL;
    }
    if (small) {
        tx_slab_add((tx_slab *)p, c);
        p = tx_small_pop(c);
    } else {
        tx_mem.st.system += (int64_t)bytes;
    }
    tx_account(n, scratch);
    tx_unlock(&tx_mem.lock);
    return p;
}

static inline void *tx_take(size_t n, int exact, int scratch, size_t *capacity)
{
    if (TX_UNLIKELY(n > TX_MAX_BYTES))
        return NULL;
    int c = tx_class_of(n), got;
    int64_t *held = scratch ? &tx_mem.st.scratch : &tx_mem.st.live;
    tx_lock(&tx_mem.lock);
    if (!scratch && TX_UNLIKELY(tx_mem.st.limit >= 0 && tx_mem.st.live + (int64_t)n > tx_mem.st.limit)) {
        tx_unlock(&tx_mem.lock);
        return NULL;
    }
    *held += (int64_t)n;
    void *p = tx_pop(n, c, exact, &got);
    if (TX_LIKELY(p != NULL)) {
        tx_account(n, scratch);
        tx_unlock(&tx_mem.lock);
    } else {
        tx_unlock(&tx_mem.lock);
        p = tx_take_slow(n, c, scratch, held);
        got = c;
        if (!p)
            return NULL;
    }
    *capacity = tx_class_bytes(got);
    return p;
}

static inline void tx_give(void *p, size_t n, int c, int64_t *held)
{
    tx_free_block *chain = NULL;
    tx_lock(&tx_mem.lock);
    *held -= (int64_t)n;
    if (c < TX_SMALL_CLASSES)
        tx_small_push(p, c);
    else
        tx_large_link((tx_free_block *)p, c);
    int64_t keep = tx_mem.st.cap - tx_mem.foreign_cached;
    if (TX_UNLIKELY(tx_mem.st.cached > keep)) {
        /* A block that alone exceeds the cap must not push out all the others. */
        if (c >= TX_SMALL_CLASSES && (int64_t)tx_mapped_bytes(c) > keep) {
            chain = (tx_free_block *)p;
            tx_large_unlink(chain);
            tx_mem.st.system -= (int64_t)tx_mapped_bytes(c);
            chain->next = NULL;
        } else {
            chain = tx_evict(keep > 0 ? keep : 0);
        }
    }
    tx_unlock(&tx_mem.lock);
    if (TX_UNLIKELY(chain != NULL))
        tx_sys_unmap(chain);
}

/* 64-byte aligned memory for nbytes; *capacity is what the block really holds.
 * NULL, with nothing counted, if the limit or the system refuses. 0 bytes give a
 * valid address with capacity 0 and count as no allocation. */
TX_API void *tx_alloc(size_t nbytes, size_t *capacity)
{
    *capacity = 0;
    if (TX_UNLIKELY(nbytes == 0))
        return tx_no_bytes;
    void *p = tx_take(nbytes, 0, 0, capacity);
    if (TX_LIKELY(p != NULL)) {
        tx_thread_counts *t = &tx_thread_count;
        t->requested += (int64_t)nbytes;
        t->allocations += 1;
    }
    return p;
}

TX_API void tx_free(void *p, size_t nbytes, size_t capacity)
{
    if (TX_LIKELY(p != NULL && capacity != 0))
        tx_give(p, nbytes, tx_class_of(capacity), &tx_mem.st.live);
}

/* Workspaces: counted on a line of their own, not subject to the limit. */
TX_API void *tx_scratch_alloc(size_t nbytes)
{
    size_t capacity;
    return nbytes ? tx_take(nbytes, 1, 1, &capacity) : tx_no_bytes;
}

TX_API void tx_scratch_free(void *p, size_t nbytes)
{
    if (p && nbytes)
        tx_give(p, nbytes, tx_class_of(nbytes), &tx_mem.st.scratch);
}

/* ---- settings and counters ---------------------------------------------- */
TX_API void tx_set_limit(int64_t bytes)           /* of live bytes; < 0: none */
{
    tx_lock(&tx_mem.lock);
    tx_mem.st.limit = bytes < 0 ? -1 : bytes;
    tx_unlock(&tx_mem.lock);
}

static void tx_trim(int64_t cap, int64_t foreign)
{
    tx_lock(&tx_mem.lock);
    if (cap >= 0)
        tx_mem.st.cap = cap;
    if (foreign >= 0)
        tx_mem.foreign_cached = foreign;
    int64_t keep = tx_mem.st.cap - tx_mem.foreign_cached;
    tx_free_block *chain = tx_evict(keep > 0 ? keep : 0);
    tx_unlock(&tx_mem.lock);
    tx_sys_unmap(chain);
}

/* Cached bytes to keep at most; < 0: the default, a quarter of usable memory. */
TX_API void tx_set_cap(int64_t bytes) { tx_trim(bytes < 0 ? tx_usable_memory("") / 4 : bytes, -1); }

/* Bytes another pool caches in the same memory (unified memory): they use up the cap. */
TX_API void tx_set_foreign_cached(int64_t bytes) { tx_trim(-1, bytes < 0 ? 0 : bytes); }

TX_API void tx_reset_peak(void)
{
    tx_lock(&tx_mem.lock);
    tx_mem.st.peak = tx_mem.st.live;
    tx_mem.st.scratch_peak = tx_mem.st.scratch;
    tx_unlock(&tx_mem.lock);
}

TX_API void tx_get_stats(tx_mem_stats *out)
{
    tx_lock(&tx_mem.lock);
    *out = tx_mem.st;
    tx_unlock(&tx_mem.lock);
}

/* This thread's requests so far; both only grow. */
TX_API int64_t tx_thread_requested(void) { return tx_thread_count.requested; }
TX_API int64_t tx_thread_allocations(void) { return tx_thread_count.allocations; }

/* Counts memory of another device, which has counters of its own, as a request of this thread. */
TX_API void tx_count_thread(size_t nbytes)
{
    tx_thread_count.requested += (int64_t)nbytes;
    tx_thread_count.allocations += 1;
}

/* Counts a storage that was made elsewhere, as a request of this thread. */
TX_API void tx_count_request(size_t nbytes)
{
    tx_lock(&tx_mem.lock);
    tx_mem.st.requested += (int64_t)nbytes;
    tx_mem.st.allocations += 1;
    tx_unlock(&tx_mem.lock);
    tx_thread_count.requested += (int64_t)nbytes;
    tx_thread_count.allocations += 1;
}

/* Whether the limit allows nbytes more now. */
TX_API int tx_alloc_would_fit(size_t nbytes)
{
    if (nbytes > TX_MAX_BYTES)
        return 0;
    tx_lock(&tx_mem.lock);
    int fits = tx_mem.st.limit < 0 || tx_mem.st.live + (int64_t)nbytes <= tx_mem.st.limit;
    tx_unlock(&tx_mem.lock);
    return fits;
}

/* Tests: let the system refuse after n more mappings; < 0: never. */
TX_API void tx_debug_fail_after(int64_t n) { __atomic_store_n(&tx_mem.fail_after, n, __ATOMIC_RELAXED); }

/* ---- process ------------------------------------------------------------ */
/* Held across fork, so that the child gets consistent lists; its lock is made anew. */
static void tx_alloc_fork_prepare(void) { tx_lock(&tx_mem.lock); }
static void tx_alloc_fork_parent(void) { tx_unlock(&tx_mem.lock); }
static void tx_alloc_fork_child(void)
{
    tx_lock_t fresh = TX_LOCK_INIT;
    tx_mem.lock = fresh;
}

__attribute__((constructor)) static void tx_alloc_init(void)
{
    long page = sysconf(_SC_PAGESIZE);
    if (page > 0)
        tx_mem.page = (size_t)page;
    tx_mem.st.cap = tx_usable_memory("") / 4;
    pthread_atfork(tx_alloc_fork_prepare, tx_alloc_fork_parent, tx_alloc_fork_child);
}

#endif
