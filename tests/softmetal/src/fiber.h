// Fibers: one stack per thread of a kernel that waits.
#ifndef SOFTMETAL_FIBER_H
#define SOFTMETAL_FIBER_H

#include <cstddef>
#include <cstdint>

#if !defined(SM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SM_UCONTEXT 1
#endif
#ifdef SM_UCONTEXT
#include <ucontext.h>
#endif

namespace sm {

struct Context {
#ifdef SM_UCONTEXT
    ucontext_t uc;
#else
    void *sp;
#endif
};

// Saves where we are in `from` and goes on at `to`.
void switch_context(Context *from, Context *to);
// A context that calls entry() on the stack [low, high); entry never returns.
void make_context(Context *c, char *low, char *high, void (*entry)());

} // namespace sm
#endif
