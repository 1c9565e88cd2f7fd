// The context switch.  Not swapcontext: that makes a system call each time.
#include "fiber.h"

#ifdef SM_UCONTEXT

namespace sm {

void switch_context(Context *from, Context *to) { swapcontext(&from->uc, &to->uc); }

void make_context(Context *c, char *low, char *high, void (*entry)())
{
    getcontext(&c->uc);
    c->uc.uc_stack.ss_sp = low;
    c->uc.uc_stack.ss_size = (size_t)(high - low);
    c->uc.uc_link = nullptr;
    makecontext(&c->uc, entry, 0);
}

} // namespace sm

#else

extern "C" void sm_switch_stacks(void **from, void *to);

#if defined(__x86_64__)
// Callee-saved registers only; the floating point control words are the same in
// all fibers of a worker.
__asm__(R"(
    .text
    .p2align 4
    .hidden sm_switch_stacks
    .globl sm_switch_stacks
    .type sm_switch_stacks, @function
sm_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size sm_switch_stacks, .-sm_switch_stacks
)");
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .p2align 4
    .hidden sm_switch_stacks
    .globl sm_switch_stacks
    .type sm_switch_stacks, %function
sm_switch_stacks:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size sm_switch_stacks, .-sm_switch_stacks
)");
#endif

namespace sm {

void switch_context(Context *from, Context *to) { sm_switch_stacks(&from->sp, to->sp); }

void make_context(Context *c, char *, char *high, void (*entry)())
{
    uintptr_t top = (uintptr_t)high & ~(uintptr_t)15;
#if defined(__x86_64__)
    void **sp = (void **)top;
    *--sp = nullptr; // entry sees the alignment of a called function
    *--sp = (void *)entry;
    for (int i = 0; i < 6; ++i)
        *--sp = nullptr;
#else
    void **sp = (void **)(top - 160);
    for (int i = 0; i < 20; ++i)
        sp[i] = nullptr;
    sp[11] = (void *)entry;
#endif
    c->sp = sp;
}

} // namespace sm
#endif
