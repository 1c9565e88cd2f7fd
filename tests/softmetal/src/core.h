/* The C interface between the Objective-C classes (*.m) and the machine behind
 * them (*.cpp), and the few functions that tests call through ctypes. */
#ifndef SOFTMETAL_CORE_H
#define SOFTMETAL_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SM_EXPORT __attribute__((visibility("default")))
#define SM_MAX_BUFFERS 31
#define SM_MAX_THREADS 1024
#define SM_MAX_BYTES 4096
#define SM_POISON 0xFB

/* ---- knobs, counters, violations (knobs.cpp) ------------------------------ */
enum {
#define K(name, value, text) SM_K_##name,
#include "knobs.def"
#undef K
    SM_KNOBS
};
enum {
#define C(name, text) SM_C_##name,
#include "counters.def"
#undef C
    SM_COUNTERS
};
extern long sm_knob_values[SM_KNOBS];
extern long sm_counter_values[SM_COUNTERS];
#define SM_KNOB(name) __atomic_load_n(&sm_knob_values[SM_K_##name], __ATOMIC_RELAXED)
#define SM_COUNT(name, n) __atomic_add_fetch(&sm_counter_values[SM_C_##name], (n), __ATOMIC_RELAXED)

/* Counts one down and says whether it just reached zero (fail_alloc and co). */
int sm_knob_countdown(int knob);
/* Counts one down and says whether there was anything left. */
int sm_knob_take(int knob);

void sm_violation(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For tests.  sm_set: 0, or -1 for an unknown name.  sm_get: a knob or a
 * counter, -1 for an unknown name.  sm_violations: how many there are; their
 * texts, one a line, go to buf.  sm_reset: waits for running work, forgets
 * violations, puts every knob back to its environment or default value. */
SM_EXPORT int sm_set(const char *key, long value);
SM_EXPORT long sm_get(const char *key);
SM_EXPORT int sm_violations(char *buf, size_t size);
SM_EXPORT void sm_clear(void);
SM_EXPORT void sm_reset(void);
/* Names, defaults and meanings of all knobs and counters, one a line. */
SM_EXPORT int sm_describe(char *buf, size_t size);

/* Aborts with a message in a forked child: Metal does not survive fork. */
void sm_guard(const char *what);
extern int sm_forked;
#define SM_GUARD(what)            \
    do {                          \
        if (__builtin_expect(sm_forked, 0)) \
            sm_guard(what);       \
    } while (0)

/* ---- buffers (memory.cpp) -------------------------------------------------- */
typedef struct sm_buffer sm_buffer;
/* pointer: for bytesNoCopy, else NULL.  NULL when memory is exhausted. */
sm_buffer *sm_buffer_new(int device, size_t length, unsigned long options, void *pointer);
void sm_buffer_retain(sm_buffer *b);
void sm_buffer_release(sm_buffer *b);
void sm_buffer_owner_gone(sm_buffer *b); /* the MTLBuffer was deallocated */
void *sm_buffer_contents(sm_buffer *b);
uint64_t sm_buffer_address(sm_buffer *b);
size_t sm_buffer_length(sm_buffer *b);
int sm_buffer_device(sm_buffer *b);
void sm_buffer_set_label(sm_buffer *b, const char *label);
const char *sm_buffer_name(sm_buffer *b);
size_t sm_allocated(int device);

/* ---- libraries and kernels (program.cpp, compile.cpp) --------------------- */
typedef struct sm_program sm_program;
typedef struct sm_kernel sm_kernel;
struct sm_compile_options {
    int language; /* 300 for MSL 3.0 */
    int fast_math;      /* no pragma and no option says safe */
    int fast_functions; /* exp means fast::exp */
    const char *macros; /* "NAME=VALUE\n" lines */
};
/* NULL and a malloc'ed message (compiler output) on error. */
sm_program *sm_program_new(const char *source, const struct sm_compile_options *options,
                           const char *constants, char **message);
void sm_program_retain(sm_program *p);
void sm_program_release(sm_program *p);
int sm_program_count(sm_program *p);
const char *sm_program_name(sm_program *p, int index);
sm_kernel *sm_program_kernel(sm_program *p, const char *name);
/* Same text and options with function constants: "index value" lines. */
sm_program *sm_program_specialize(sm_program *p, const char *constants, char **message);
int sm_program_needs_constants(sm_program *p);
const char *sm_program_constants(sm_program *p); /* "index type name" lines */
const char *sm_kernel_name(sm_kernel *k);
unsigned sm_kernel_static_memory(sm_kernel *k);
unsigned sm_kernel_max_threads(sm_kernel *k); /* the attribute's, 0 if none */
enum { SM_USES_BARRIER = 1, SM_USES_SIMD = 2, SM_USES_MATRIX = 4 };
unsigned sm_kernel_uses(sm_kernel *k);

/* ---- queues and command buffers (queue.cpp) -------------------------------- */
typedef struct sm_queue sm_queue;
typedef struct sm_cb sm_cb;
typedef struct sm_event sm_event;

sm_queue *sm_queue_new(int device, long slots);
void sm_queue_release(sm_queue *q);
int sm_queue_device(sm_queue *q);
/* Blocks while the queue has no free slot. */
sm_cb *sm_cb_new(sm_queue *q, int retained);
void sm_cb_release(sm_cb *cb);
void sm_cb_set_label(sm_cb *cb, const char *label);
/* Called on the queue's thread: 0 scheduled, 1 ended (run handlers), 2 last call. */
typedef void (*sm_cb_callback)(void *object, int what);
int sm_cb_commit(sm_cb *cb, sm_cb_callback callback, void *object);
int sm_cb_enqueue(sm_cb *cb);
int sm_cb_status(sm_cb *cb);
/* Code of MTLCommandBufferError and text, 0 when there is none. */
int sm_cb_error(sm_cb *cb, const char **text);
int sm_cb_encoders(sm_cb *cb);
/* MTLCommandEncoderErrorState of an encoder; label and signposts (lines). */
int sm_cb_encoder_info(sm_cb *cb, int index, const char **label, const char **signposts);
void sm_cb_wait(sm_cb *cb, int scheduled_only);
double sm_cb_time(sm_cb *cb, int which); /* GPU start, GPU end, kernel start, kernel end */
void sm_cb_signal_event(sm_cb *cb, sm_event *e, uint64_t value);
void sm_cb_wait_event(sm_cb *cb, sm_event *e, uint64_t value);

/* Encoding.  Every function checks what Metal's validation checks. */
int sm_enc_begin(sm_cb *cb, int concurrent, int blit); /* number of the encoder, -1 */
void sm_enc_end(sm_cb *cb, int encoder);
int sm_enc_open(sm_cb *cb, int encoder);
void sm_enc_label(sm_cb *cb, int encoder, const char *label);
void sm_enc_signpost(sm_cb *cb, int encoder, const char *text);
void sm_enc_pipeline(sm_cb *cb, int encoder, sm_kernel *k, unsigned max_threads, int device);
void sm_enc_buffer(sm_cb *cb, int encoder, sm_buffer *b, size_t offset, size_t index);
void sm_enc_buffer_offset(sm_cb *cb, int encoder, size_t offset, size_t index);
void sm_enc_bytes(sm_cb *cb, int encoder, const void *bytes, size_t length, size_t index);
void sm_enc_threadgroup(sm_cb *cb, int encoder, size_t length, size_t index);
/* threads: the grid counts threads, else groups.  indirect may be NULL. */
void sm_enc_dispatch(sm_cb *cb, int encoder, int threads, const size_t grid[3],
                     const size_t group[3], sm_buffer *indirect, size_t indirect_offset);
void sm_enc_barrier(sm_cb *cb, int encoder);
void sm_enc_fence(sm_cb *cb, int encoder, sm_event *fence, int update);
void sm_enc_use(sm_cb *cb, int encoder, sm_buffer *b, int write);
void sm_enc_copy(sm_cb *cb, int encoder, sm_buffer *src, size_t src_offset, sm_buffer *dst,
                 size_t dst_offset, size_t size);
void sm_enc_fill(sm_cb *cb, int encoder, sm_buffer *b, size_t offset, size_t size, int value);

sm_event *sm_event_new(void);
void sm_event_retain(sm_event *e);
void sm_event_release(sm_event *e);
uint64_t sm_event_value(sm_event *e);
void sm_event_signal(sm_event *e, uint64_t value);
int sm_event_wait(sm_event *e, uint64_t value, uint64_t milliseconds);
void sm_event_notify(sm_event *e, uint64_t value, void (*call)(void *object, uint64_t value),
                     void *object);

void sm_wait_idle(void);
/* Called when a queue's thread starts (1) and ends (0). */
extern void (*sm_thread_hook)(int start);

#ifdef __cplusplus
}
#endif
#endif
