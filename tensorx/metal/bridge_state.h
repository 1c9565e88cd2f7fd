/* Data of the bridge that C knows and callers do not, and the rules of its locks.
 *
 * Locks, in the order in which they may be taken:
 *   device.cache_lock   libraries and pipelines; never held while compiling
 *   instance.lock       everything of an instance; never held while anything waits
 *   instance.done_lock  in_flight and done_seq only; the one lock a completion handler takes,
 *                       never held across a message to Metal
 * A slot of the 32 in flight is taken before instance.lock, so that commandBuffer, which blocks
 * at 64, never blocks with the lock held. */
#ifndef TENSORX_METAL_BRIDGE_STATE_H
#define TENSORX_METAL_BRIDGE_STATE_H

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <dispatch/dispatch.h>
#include <sys/sysctl.h>
#endif

#include "bridge.h"

#define TXM_MAX_DEVICES 16
#define TXM_NBINS 320        /* size classes, see bridge_pool.m */
#define TXM_LABEL_BYTES 1024
#define TXM_NFAILURES 32

typedef struct txm_list { /* circular, intrusive */
    struct txm_list *next, *prev;
} txm_list;

typedef struct txm_library { /* under device.cache_lock */
    txm_list lru;
    id<MTLLibrary> metal;
    char *source;
    uint64_t hash;
    int32_t pins; /* pipelines being made from it */
} txm_library;

struct txm_kernel {
    txm_list lru;               /* under device.cache_lock, while cached */
    int32_t refs;               /* atomic: callers, cache, records in flight */
    int32_t cached;
    id<MTLComputePipelineState> pipeline;
    char *source;
    char *name;
    uint64_t hash;
    uint64_t static_bytes;
    uint32_t max_threads, width;
    struct txm_device *device;
};

typedef struct txm_device {
    id<MTLDevice> metal;
    pthread_mutex_t cache_lock;
    txm_list libraries, kernels; /* most recently used first */
    uint32_t nlibraries, nkernels;
    uint64_t compiled; /* atomic */
    uint64_t language_version;
    int32_t is_default;
} txm_device;

typedef struct txm_slab {
    id<MTLBuffer> metal;
    char *contents;
    uint64_t bytes;
    uint32_t slot_bytes, slots, used;
    uint32_t cls;
    txm_list link;        /* all slabs of the class */
    txm_list free_slots;  /* pooled txm_buffer structs */
} txm_slab;

struct txm_buffer {
    txm_list bin;          /* pooled: in its bin (or in slab.free_slots) */
    txm_list lru;          /* pooled and not in a slab: oldest last */
    txm_instance *in;
    id<MTLBuffer> metal;
    txm_slab *slab;
    char *contents;
    uint64_t metal_offset;
    uint64_t bytes, capacity;
    uint64_t uid;
    uint64_t last_use, last_write;
    uint64_t poison;
    int32_t cls;
    int32_t exports; /* atomic */
    int32_t state;   /* atomic: TXM_B_... */
    txm_buffer *next;      /* stack of released ones, or of spare structs */
};

enum { TXM_B_SPARE = 0, TXM_B_LIVE = 1, TXM_B_RELEASED = 2, TXM_B_POOLED = 3 };

typedef struct txm_access {
    txm_buffer *buf;
    uint64_t uid;
    uint32_t access;
    uint32_t first; /* 1: starts a dispatch */
} txm_access;

/* One command buffer: filled under the instance lock, committed, completed by the handler
 * (which writes the result part and then sets done), retired in stamp order by any caller. */
typedef struct txm_record {
    txm_list link;
    txm_instance *in;
    id<MTLCommandBuffer> metal;
    id<MTLComputeCommandEncoder> encoder;
    txm_kernel *last_kernel; /* pipeline set in the encoder */
    uint64_t stamp;
    uint64_t bytes, ops;
    uint32_t dispatches;
    txm_access *accesses;
    uint32_t naccesses, accesses_cap;
    txm_kernel **kernels; /* one reference for every switch of pipelines */
    uint32_t nkernels, kernels_cap;
    uint32_t label_bytes, labels_left_out;
    char labels[TXM_LABEL_BYTES];
    /* result */
    int32_t done; /* atomic */
    int32_t failed;
    int32_t error_code; /* Metal's */
    uint64_t gpu_ns;
    char message[1024];
} txm_record;

typedef struct txm_failure {
    uint64_t stamp;
    int32_t error_code;
    int32_t reported;
    char message[1024];
    char labels[TXM_LABEL_BYTES];
} txm_failure;

typedef struct txm_poison {
    txm_buffer *buf;
    uint64_t uid;
    uint64_t stamp;
} txm_poison;

struct txm_instance {
    txm_device *device;
    pthread_mutex_t lock;
    id<MTLCommandQueue> queue;
    int32_t closed;
    int32_t broken;      /* a failure was seen: drain, then replace the queue */
    int32_t synchronous; /* TENSORX_METAL_SYNC=1 */
    int32_t have_slot;   /* a slot is reserved for the next command buffer */
    txm_options opt;
    uint64_t max_buffer_bytes, max_group_bytes;
    uint32_t max_group[3];

    txm_record *open;    /* being filled */
    txm_list flying;     /* committed, in stamp order */
    txm_list spare;      /* records for reuse */
    uint64_t next_stamp; /* of the next command buffer */
    txm_failure failures[TXM_NFAILURES];
    uint32_t nfailures;  /* ever; the ring holds the last ones */
    txm_poison *poison;
    uint32_t npoison, poison_cap;

    txm_buffer *released; /* atomic stack */
    txm_buffer *spare_buffers;
    uint64_t next_uid;
    txm_list bins[TXM_NBINS];
    txm_list lru;        /* pooled Metal buffers, latest first */
    txm_list slabs[16];
    int32_t pressure;    /* events of the process seen so far */
    uint64_t misuse;     /* atomic */
    txm_stats st;

    pthread_mutex_t done_lock;
    pthread_cond_t done_cond;
    int32_t in_flight;   /* slots taken, open command buffer included */
    uint64_t done_seq;   /* rises with every completion */
};

/* ---- atomics: the compilers' own, whose types need no header ------------------------------ */

#define at_load(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define at_peek(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define at_store(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define at_swap(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define at_add(p, v) __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define at_sub(p, v) __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST)
#define at_cas(p, expected, v) \
    __atomic_compare_exchange_n(p, expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

static int32_t txm_is_child; /* set in a forked child */

/* Knobs of tests. */
static int32_t knob_hide_caps, knob_intel, knob_interrupts;
static int32_t knob_libraries = 512, knob_pipelines = 2048;

/* ---- lists ------------------------------------------------------------------------------ */

static inline void list_init(txm_list *l) { l->next = l->prev = l; }
static inline int list_empty(const txm_list *l) { return l->next == l; }
static inline void list_remove(txm_list *l)
{
    l->next->prev = l->prev;
    l->prev->next = l->next;
    l->next = l->prev = l;
}
static inline void list_push_front(txm_list *head, txm_list *l)
{
    l->next = head->next;
    l->prev = head;
    head->next->prev = l;
    head->next = l;
}
static inline void list_push_back(txm_list *head, txm_list *l) { list_push_front(head->prev, l); }
#define list_entry(l, type, member) ((type *)(void *)((char *)(l) - offsetof(type, member)))

/* ---- errors ------------------------------------------------------------------------------ */

static void copy_text(char *dst, size_t n, const char *src)
{
    size_t len = src ? strlen(src) : 0;
    if (len >= n) {
        len = n - 1;
        while (len && ((unsigned char)src[len] & 0xC0) == 0x80)
            len--; /* do not cut a UTF-8 sequence */
    }
    if (len)
        memcpy(dst, src, len);
    dst[len] = 0;
}

static void copy_nsstring(char *dst, size_t n, NSString *s) { copy_text(dst, n, s ? [s UTF8String] : ""); }

__attribute__((format(printf, 4, 5))) static int32_t
fail(txm_error *err, int32_t code, int32_t detail, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        err->code = code;
        err->detail = detail;
        err->stamp = 0;
        err->kernels[0] = 0;
    }
    return code;
}

static int32_t fail_forked(txm_error *err)
{
    return fail(err, TXM_E_FORKED, 0,
                "forked process: Metal cannot be used in the child of a fork; use spawn "
                "(multiprocessing.set_start_method(\"spawn\"))");
}

/* The body of every entry: no message before the fork check, a pool around all of it, and
 * no Objective-C exception past it.  `return` inside the body is fine. */
#define TXM_ENTER(err)                                                                             \
    if (at_peek(&txm_is_child))                                 \
        return fail_forked(err);                                                                   \
    @autoreleasepool {                                                                             \
        @try {
#define TXM_LEAVE(err)                                                                             \
    }                                                                                              \
    @catch (NSException * exception)                                                               \
    {                                                                                              \
        return fail(err, TXM_E_EXCEPTION, 0, "%s: %s", [[exception name] UTF8String],              \
                    [[exception reason] UTF8String]);                                              \
    }                                                                                              \
    @catch (id exception)                                                                          \
    {                                                                                              \
        return fail(err, TXM_E_EXCEPTION, 0, "an Objective-C exception of an unknown kind");       \
    }                                                                                              \
    }

/* ---- time ---------------------------------------------------------------------------------- */

static void deadline_in(struct timespec *ts, uint32_t ms)
{
    struct timeval now;
    gettimeofday(&now, NULL); /* the clock of pthread_cond_timedwait on both systems */
    uint64_t us = (uint64_t)now.tv_usec + (uint64_t)ms * 1000;
    ts->tv_sec = now.tv_sec + (time_t)(us / 1000000);
    ts->tv_nsec = (long)(us % 1000000) * 1000;
}

/* ---- shared by the parts --------------------------------------------------------------------- */

static uint32_t capabilities(txm_device *dev);
static void kernel_unref(txm_kernel *k);
static void pool_drain(txm_instance *in);
static uint64_t pool_trim(txm_instance *in, uint64_t keep);
static void queue_retire(txm_instance *in);
static uint64_t queue_horizon(const txm_instance *in);

#endif
