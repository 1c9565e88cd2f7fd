/* The Metal shim; bridge.h says what it promises. Manual retain/release, one translation unit made
 * of parts with one subject each, no Objective-C class declared (two copies of the library, or
 * another one of the same kind, must be able to live in one process), never unloaded. */
#import "bridge_state.h"

#import "bridge_device.m"
#import "bridge_library.m"
#import "bridge_pool.m"
#import "bridge_queue.m"
#import "bridge_instance.m"

static void in_child(void) { at_store(&txm_is_child, 1); }

__attribute__((constructor)) static void when_loaded(void) { pthread_atfork(NULL, NULL, in_child); }

uint32_t txm_abi_version(void) { return TXM_ABI_VERSION; }

#define EACH_STRUCT(X)                                                                             \
    X(1, txm_error, kernels)                                                                       \
    X(2, txm_device_info, refusal)                                                                 \
    X(3, txm_options, reserved)                                                                    \
    X(4, txm_stats, misuse)                                                                        \
    X(5, txm_buffer_info, live)                                                                    \
    X(6, txm_kernel_info, execution_width)                                                         \
    X(7, txm_binding, access)                                                                      \
    X(8, txm_dispatch, reserved)                                                                   \
    X(9, txm_dispatched, committed)                                                                \
    X(10, txm_mark, stamp)

uint32_t txm_struct_size(uint32_t which)
{
    switch (which) {
#define X(n, type, last)                                                                           \
    case n:                                                                                        \
        return (uint32_t)sizeof(type);
        EACH_STRUCT(X)
#undef X
    }
    return 0;
}

uint32_t txm_struct_last(uint32_t which)
{
    switch (which) {
#define X(n, type, last)                                                                           \
    case n:                                                                                        \
        return (uint32_t)offsetof(type, last);
        EACH_STRUCT(X)
#undef X
    }
    return 0;
}

const char *txm_build_info(void)
{
#ifdef __APPLE__
    return "Metal, compiled by " __VERSION__;
#else
    return "stand-in, compiled by " __VERSION__;
#endif
}

int32_t txm_forked(void) { return at_load(&txm_is_child); }

int32_t txm_test_knob(const char *name, int64_t value)
{
    static const struct {
        const char *name;
        int32_t *knob;
    } knobs[] = {
        {"capabilities", &knob_hide_caps},
        {"intel", &knob_intel},
        {"compiler-interrupts", &knob_interrupts},
        {"libraries", &knob_libraries},
        {"pipelines", &knob_pipelines},
        {"pressure", &pressure_events},
    };
    for (size_t i = 0; name && i < sizeof knobs / sizeof knobs[0]; i++)
        if (strcmp(knobs[i].name, name) == 0) {
            at_store(knobs[i].knob, (int32_t)value);
            return TXM_OK;
        }
    return TXM_E_ARGUMENT;
}
