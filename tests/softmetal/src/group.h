// Runs the threads of one threadgroup.
#ifndef SOFTMETAL_GROUP_H
#define SOFTMETAL_GROUP_H

#include "fiber.h"
#include "program.h"
#include "trace.h"

#include <atomic>
#include <string>
#include <vector>

namespace sm {

enum Outcome { kOk, kFault, kTimeout, kStackOverflow, kBad };

struct Fiber {
    Context context;
    char *low, *high;
    int thread;
    bool dirty; // abandoned in the middle of a kernel
};

enum ThreadState : uint8_t { kNew, kRunning, kReady, kAtBarrier, kAtSimd, kDone };

struct SimdGroup {
    uint64_t arrived;
    uint32_t op, type;
    const void *site;
    uint32_t value[64], arg[64], fill[64];
    uint64_t mask; // result of a vote
    float matrix[64][8]; // a, b, c and d of each lane
};

struct Range { // the groups that one worker runs
    uint64_t first, last;
};

// One operating system thread that runs kernels.
struct Worker {
    Worker();
    ~Worker();

    // The group that runs.
    sm_kernel *kernel;
    sm_group group;
    int threads, started, done, at_barrier;
    int order;
    const void *barrier_site;
    uint32_t barrier_flags;
    uint16_t permutation[SM_MAX_THREADS];
    ThreadState state[SM_MAX_THREADS];
    Fiber *fiber_of[SM_MAX_THREADS];
    Fiber *ready[SM_MAX_THREADS];
    int ready_head, ready_count;
    int lanes; // width of a SIMD-group
    std::vector<SimdGroup> simd;
    uint64_t random;
    // Barriers so far that ordered device [0] and threadgroup [1] memory.
    uint32_t epoch[2], simd_epoch[2][SM_MAX_THREADS];

    // Fibers and the scheduler's own place.
    Context scheduler;
    Fiber *current;
    std::vector<Fiber *> idle, fibers;
    char *stacks;
    size_t stack_bytes;
    char *alt_stack;

    // What ended the group, if not its threads.
    Outcome outcome;
    char message[400];
    volatile bool in_kernel;
    std::atomic<bool> kill;

    // Threadgroup memory and bytes given with setBytes.
    char *local, *local_end;
    uint32_t site_offset[256];
    struct Piece { char *start; uint32_t bytes, padded; std::string name; };
    std::vector<Piece> pieces;
    char *bytes_area;
    Trace trace;

    // The dispatch, for jobs that run all groups in one go.
    bool (*next_group)(Worker *, void *);
    void *job;

    bool start_dispatch(sm_kernel *k, const sm_group &base, const uint32_t tg_bytes[]);
    Outcome run_plain(bool (*next)(Worker *, void *), void *data);
    Outcome run_group();
    char *bytes_slot(int index, uint32_t length);

    // Called on fibers.
    void block(ThreadState s);
    void fail(Outcome o, const char *format, ...) __attribute__((format(printf, 3, 4)));
    void release_barrier();

  private:
    Fiber *fresh();
    Fiber *pop_ready();
    void leave(Fiber *self);
    void reset_fibers();
    void set_stack_size(size_t bytes);
    void resume(Fiber *f);
    bool resolve();
    void poison_local();
    void check_local();
    static void fiber_main();
    static void plain_main();
};

extern thread_local Worker *this_worker __attribute__((tls_model("initial-exec")));

// simd.cpp
void simd_complete(Worker *w, SimdGroup &g, uint64_t active);
const char *simd_name(uint32_t op);

} // namespace sm
#endif
