// The threads of one queue and their arithmetic.
#ifndef SOFTMETAL_MACHINE_H
#define SOFTMETAL_MACHINE_H

#include "queue.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sm {

// While one exists, its thread computes as the GPU does.
struct FlushSubnormals {
#if defined(__x86_64__)
    unsigned saved = _mm_getcsr();
    FlushSubnormals() { set(); }
    static void set() { _mm_setcsr(SM_KNOB(ftz) ? 0x9fc0u : 0x1f80u); }
    ~FlushSubnormals() { _mm_setcsr(saved); }
#elif defined(__aarch64__)
    uint64_t saved = get();
    static uint64_t get()
    {
        uint64_t v;
        __asm__ volatile("mrs %0, fpcr" : "=r"(v));
        return v;
    }
    static void put(uint64_t v) { __asm__ volatile("msr fpcr, %0" : : "r"(v)); }
    FlushSubnormals() { set(); }
    static void set() { put(SM_KNOB(ftz) ? (uint64_t)1 << 24 : 0); }
    ~FlushSubnormals() { put(saved); }
#endif
};

struct Machine {
    std::vector<Worker *> workers; // [0] is the queue's own thread
    std::vector<std::thread> helpers;
    std::vector<pthread_t> ids;
    std::mutex lock;
    std::condition_variable go, done;
    uint64_t round = 0;
    int pending = 0;
    bool stop = false;
    std::function<void(Worker *)> job;
    // for the watchdog
    std::atomic<uint64_t> running{0}; // number of the command buffer, 0 when idle
    std::atomic<bool> expired{false};
    uint64_t seen = 0;
    double used_at_start = 0;

    void helper(size_t index);
    void want(size_t count);
    void run(const std::function<void(Worker *)> &f);
};

} // namespace sm
#endif
