// Buffers: two views of the same pages, one for the host and one for kernels.
#ifndef SOFTMETAL_MEMORY_H
#define SOFTMETAL_MEMORY_H

#include "core.h"

#include <atomic>
#include <csignal>

struct sm_buffer {
    std::atomic<int> refs;
    std::atomic<int> owner_gone;
    uint64_t id;
    int device;
    unsigned long options;
    size_t length;
    size_t charged;    // what it adds to currentAllocatedSize
    char *host;        // what contents returns
    char *gpu;         // what kernels see
    size_t offset;     // of the region in the arena
    size_t region;     // bytes of whole pages around the data
    bool checked;      // two views with guard pages
    bool external;     // bytesNoCopy
    bool slab;         // sub-allocated: the host may touch it while in flight
    bool owned_by_host_private; // Private storage: no contents
    int reading, writing;       // command buffers in flight that use it
    int ordered;                // of them, those with events
    void *last_queue;           // queue of the last of them
    int last_protection;
    char label[64];
};

namespace sm {

// A committed command buffer starts and ends using a buffer.  ordered: events
// order it with other queues.
void begin_use(sm_buffer *b, bool write, void *queue, bool ordered);
void end_use(sm_buffer *b, bool write, bool ordered);
// After a dispatch: bytes around the data that a kernel must not have touched.
void check_canary(sm_buffer *b, const char *kernel);
// The live buffer whose GPU view (with its guards) holds this address.
sm_buffer *find_gpu(const void *address);
bool in_gpu_arena(const void *address);
char *gpu_arena_base();
// Signal handlers of this process stay ours (Python's faulthandler replaces them).
void ensure_handlers();
// Asked first by the handler; does not return when a kernel faulted.
typedef void (*kernel_fault_fn)(int signal, siginfo_t *info, bool write);
extern kernel_fault_fn kernel_fault;

} // namespace sm
#endif
