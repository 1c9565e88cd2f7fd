/* The Metal shim: devices, instances (queue + buffer pool), kernels, dispatch.
 *
 * Plain C, meant for ctypes: fixed-width integers and pointers only, no booleans of
 * Objective-C, no `long`, no variadic function.  Every struct that crosses the border
 * has its size and the offset of its last member checked when the library is loaded.
 *
 * Calling rules
 *   - Every function may be called from any thread.
 *   - No function blocks for longer than TXM_SLICE_MS: where work is not finished by then
 *     it returns TXM_PENDING and wants to be called again with the same arguments.
 *   - A function that fails fills *err and changes nothing.
 *   - After fork() the child gets TXM_E_FORKED from everything; txm_release is ignored.
 *   - Handles are never freed under a caller: a closed instance refuses, it does not dangle.
 */
#ifndef TENSORX_METAL_BRIDGE_H
#define TENSORX_METAL_BRIDGE_H

#include <stdint.h>

#define TXM_ABI_VERSION 1
#define TXM_API __attribute__((visibility("default")))

#define TXM_SLICE_MS 50      /* longest blocking of one call */
#define TXM_AGAIN 1073741824 /* added to timeout_ms: the last call was the first part of this wait, and has counted it */
#define TXM_MAX_BINDINGS 28  /* buffers of one kernel; two more carry offsets and constants */
#define TXM_MAX_CONSTANTS 4096
#define TXM_MAX_IN_FLIGHT 32 /* command buffers; Metal blocks a 65th */

enum {
    TXM_OK = 0,
    TXM_PENDING = 1,
    TXM_E_ARGUMENT = -1,   /* the call is wrong */
    TXM_E_NO_DEVICE = -2,
    TXM_E_REFUSED = -3,    /* the device exists, but is not supported */
    TXM_E_MEMORY = -4,
    TXM_E_COMPILE = -5,    /* the kernel text is wrong */
    TXM_E_SERVICE = -6,    /* the compiler service cannot be reached */
    TXM_E_COMMAND = -7,    /* a command buffer failed */
    TXM_E_POISONED = -8,   /* reads what a failed command buffer should have written */
    TXM_E_FORKED = -9,
    TXM_E_EXCEPTION = -10, /* an Objective-C exception */
    TXM_E_CLOSED = -11
};

/* What a kernel does with a buffer. OVERWRITE: a write after which no old byte is readable. */
enum { TXM_READ = 1, TXM_WRITE = 2, TXM_OVERWRITE = 4 };

enum { TXM_ALLOC_HOST = 1 };       /* the host writes first: only memory the GPU is done with */
enum { TXM_GRID_IN_GROUPS = 1 };   /* grid counts threadgroups, not threads */

/* txm_device_info.flags */
enum {
    TXM_DEV_UNIFIED = 1,
    TXM_DEV_LOW_POWER = 2,
    TXM_DEV_HEADLESS = 4,
    TXM_DEV_REMOVABLE = 8,
    TXM_DEV_DEFAULT = 16,
    TXM_DEV_REFUSED = 32
};

/* Capabilities found by asking the objects, never by asking for the system's version. */
enum {
    TXM_CAP_MATH_MODE = 1,        /* MTLCompileOptions.mathMode */
    TXM_CAP_LANGUAGE_VERSION = 2, /* MTLCompileOptions.languageVersion */
    TXM_CAP_ARCHITECTURE = 4,     /* MTLDevice.architecture */
    TXM_CAP_FAMILY = 8            /* MTLDevice.supportsFamily: */
};

typedef struct txm_instance txm_instance;
typedef struct txm_buffer txm_buffer;
typedef struct txm_kernel txm_kernel;

typedef struct txm_error {
    int32_t code;       /* TXM_E_... */
    int32_t detail;     /* Metal's own code, 0 if there is none */
    uint64_t stamp;     /* command buffer that failed, or 0 */
    char message[2048];
    char kernels[1024]; /* labels of that command buffer's kernels, in order */
} txm_error;

typedef struct txm_device_info {
    uint64_t registry_id;
    uint64_t max_buffer_bytes;
    uint64_t working_set_bytes;
    uint64_t max_threadgroup_bytes;
    uint32_t max_threads[3];
    uint32_t flags;
    uint32_t families;     /* bit k: Apple family k; bit 16 + k: Mac family k; bit 24: Metal 3 */
    uint32_t capabilities; /* TXM_CAP_... */
    uint32_t translated;   /* 1: this process runs under Rosetta */
    char name[128];
    char architecture[64];
    char refusal[256];     /* why the device cannot be opened, or empty */
} txm_device_info;

/* 0 stands for the default everywhere. */
typedef struct txm_options {
    uint64_t memory_limit;    /* bytes of Metal buffers, cached ones included */
    uint64_t cache_limit;     /* bytes kept for reuse */
    uint64_t buffer_limit;    /* number of Metal buffers */
    uint64_t batch_bytes;     /* a command buffer is committed when it binds this much, */
    uint64_t batch_ops;       /* is estimated to compute this much, */
    uint32_t batch_dispatches; /* or has this many dispatches */
    uint32_t page_bytes;      /* smallest Metal buffer; smaller ones share slabs */
    uint32_t no_slabs;        /* 1: every buffer is a Metal buffer of its own */
    uint32_t reserved;
} txm_options;

typedef struct txm_stats {
    uint64_t requested;        /* bytes asked for so far */
    uint64_t allocations;      /* ... in so many calls */
    uint64_t live;             /* bytes asked for and not released */
    uint64_t live_buffers;
    uint64_t peak;             /* highest live */
    uint64_t cached;           /* bytes in the pool */
    uint64_t cached_buffers;
    uint64_t reserved;         /* bytes of Metal buffers, used or not */
    uint64_t metal_buffers;
    uint64_t driver;           /* MTLDevice.currentAllocatedSize */
    uint64_t pool_hits;
    uint64_t system_allocations;
    uint64_t command_buffers;
    uint64_t dispatches;
    uint64_t waits;            /* waits that had to block */
    uint64_t compiled;         /* pipelines compiled on this GPU by this process */
    uint64_t in_flight;
    uint64_t open_stamp;       /* stamp of the command buffer being filled */
    uint64_t horizon;          /* lowest stamp that is not completed */
    uint64_t failures;
    uint64_t poisoned;
    uint64_t gpu_nanoseconds;
    uint64_t pressure_events;
    uint64_t misuse;           /* double releases */
} txm_stats;

typedef struct txm_buffer_info {
    void *contents;      /* host address; wait before touching it */
    uint64_t bytes;      /* as asked */
    uint64_t capacity;
    uint64_t uid;        /* never repeated */
    uint64_t last_use;   /* stamp of the last command buffer that binds it, or 0 */
    uint64_t last_write;
    uint64_t poison;     /* stamp of the failure that spoiled it, or 0 */
    void *metal_buffer;  /* id<MTLBuffer> */
    uint64_t metal_offset;
    int32_t exports;
    int32_t live;
} txm_buffer_info;

typedef struct txm_kernel_info {
    txm_kernel *kernel;
    uint64_t static_threadgroup_bytes;
    uint32_t max_threads;     /* maxTotalThreadsPerThreadgroup of this pipeline */
    uint32_t execution_width;
} txm_kernel_info;

typedef struct txm_binding {
    txm_buffer *buffer;
    int64_t offset;      /* elements */
    uint32_t item_bytes; /* bytes per element, 1..16 */
    uint32_t access;
} txm_binding;

/* Buffers are bound at offset 0 to indices 0..n-1.  Index n carries n + 3 64-bit integers:
 * the element offset of every buffer and the origin of the grid.  Index n + 1 carries the
 * constants, where there are any. */
typedef struct txm_dispatch {
    txm_kernel *kernel;
    const txm_binding *bindings;
    const void *constants;
    const char *label;          /* for error messages; NULL: the kernel's name */
    uint64_t grid[3];
    uint64_t origin[3];
    uint64_t ops;               /* estimated operations */
    uint32_t group[3];          /* 0: chosen from the pipeline's limits */
    uint32_t nbindings;
    uint32_t constant_bytes;
    uint32_t threadgroup_bytes; /* dynamic threadgroup memory, index 0 */
    uint32_t flags;
    uint32_t reserved;
} txm_dispatch;

typedef struct txm_dispatched {
    uint64_t stamp;      /* of the command buffer that holds the dispatch */
    uint32_t must_wait;  /* a bound buffer is exported to the host, or dispatches are synchronous */
    uint32_t committed;
} txm_dispatched;

typedef struct txm_mark {
    uint64_t uid;   /* buffer */
    uint64_t stamp; /* failure */
} txm_mark;

/* ---- the library itself ---------------------------------------------------------------- */

TXM_API uint32_t txm_abi_version(void);
/* Struct `which` (see bridge.py): its size, and the offset of its last member; 0 if unknown. */
TXM_API uint32_t txm_struct_size(uint32_t which);
TXM_API uint32_t txm_struct_last(uint32_t which);
TXM_API const char *txm_build_info(void);
TXM_API int32_t txm_forked(void);
/* Knobs for tests: "capabilities" (mask of those to hide), "pressure" (level), "intel",
 * "compiler-interrupts" (how many compilations fail as if the service had gone), "libraries"
 * and "pipelines" (cache bounds). Unknown names return TXM_E_ARGUMENT. */
TXM_API int32_t txm_test_knob(const char *name, int64_t value);

/* ---- devices ----------------------------------------------------------------------------- */

TXM_API int32_t txm_device_count(uint32_t *count, txm_error *err);
TXM_API int32_t txm_device_get(uint32_t index, txm_device_info *info, txm_error *err);

/* ---- instances --------------------------------------------------------------------------- */

TXM_API int32_t txm_open(uint32_t index, const txm_options *options, txm_instance **out, txm_error *err);
/* Commits, waits (in slices) and gives the pool back; live buffers stay readable. */
TXM_API int32_t txm_close(txm_instance *in, txm_error *err);
TXM_API int32_t txm_get_options(txm_instance *in, txm_options *out, txm_error *err);
TXM_API int32_t txm_set_options(txm_instance *in, const txm_options *options, txm_error *err);
TXM_API int32_t txm_get_stats(txm_instance *in, txm_stats *out, txm_error *err);
TXM_API int32_t txm_reset_peak(txm_instance *in, txm_error *err);

/* ---- buffers ------------------------------------------------------------------------------ */

TXM_API int32_t txm_alloc(txm_instance *in, uint64_t bytes, uint32_t flags, txm_buffer **out,
                          txm_buffer_info *info, txm_error *err);
/* Gives a buffer back.  Takes no lock, sends no message, never fails: callable from
 * destructors, with or without the GIL, and in a forked child. */
TXM_API void txm_release(txm_buffer *buf);
TXM_API int32_t txm_buffer_get(txm_buffer *buf, txm_buffer_info *info, txm_error *err);
/* Exports are counted; a dispatch that binds an exported buffer reports must_wait. */
TXM_API int32_t txm_buffer_export(txm_buffer *buf, int32_t delta);
/* The host has overwritten the whole buffer: it is not poisoned any more. */
TXM_API int32_t txm_buffer_heal(txm_buffer *buf, txm_error *err);
/* Returns pooled memory to the system until at most keep_bytes stay; *freed may be NULL. */
TXM_API int32_t txm_trim(txm_instance *in, uint64_t keep_bytes, uint64_t *freed, txm_error *err);

/* ---- kernels ------------------------------------------------------------------------------ */

/* Compiles, or finds in the cache that all instances of one GPU share, function `name` of
 * `source`.  The kernel has to be given back with txm_kernel_release. */
TXM_API int32_t txm_kernel_get(txm_instance *in, const char *source, const char *name,
                               txm_kernel_info *out, txm_error *err);
TXM_API void txm_kernel_release(txm_kernel *kernel);

/* ---- work --------------------------------------------------------------------------------- */

/* Encodes.  A failure of earlier work that nobody was told about is reported here first
 * (TXM_E_COMMAND, nothing encoded); so is a read of a poisoned buffer (TXM_E_POISONED). */
TXM_API int32_t txm_encode(txm_instance *in, const txm_dispatch *d, txm_dispatched *out, txm_error *err);
/* *stamp: the last command buffer there is, to wait for.  Reports earlier failures as txm_encode does. */
TXM_API int32_t txm_commit(txm_instance *in, uint64_t *stamp, txm_error *err);
/* Waits until every command buffer up to `stamp` is complete (0: all so far), committing
 * what is open if need be, for at most min(timeout_ms, TXM_SLICE_MS).  Completed work that
 * failed is TXM_E_COMMAND, each time for a `stamp` that failed itself, else once. */
TXM_API int32_t txm_wait(txm_instance *in, uint64_t stamp, uint32_t timeout_ms, txm_error *err);
/* The same for what one buffer needs: access TXM_READ waits for its writers, TXM_WRITE for
 * every user.  TXM_READ of a poisoned buffer is TXM_E_POISONED. */
TXM_API int32_t txm_wait_buffer(txm_buffer *buf, uint32_t access, uint32_t timeout_ms, txm_error *err);
/* The buffers that failures have spoiled and nobody has overwritten; *count is their number,
 * of which at most n are written to out. */
TXM_API int32_t txm_poisoned(txm_instance *in, txm_mark *out, uint32_t n, uint32_t *count, txm_error *err);

#endif
