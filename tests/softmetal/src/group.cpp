// Runs the threads of one threadgroup as fibers.  A fiber runs one thread after
// the other until one has to wait (a barrier, a SIMD-group function); only then
// the next fiber is taken.  Which thread goes first is a knob: a missing barrier
// shows in some orders and not in others.
#include "group.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <csignal>
#include <unistd.h>

namespace sm {

thread_local Worker *this_worker __attribute__((tls_model("initial-exec")));

namespace {

constexpr size_t kLocal = 128 * 1024;
constexpr size_t kPad = 64;      // canary behind each piece of threadgroup memory
constexpr size_t kBytesSlot = 8192; // setBytes: up to 4096 bytes that end at a guard page

char *reserve(size_t size)
{
    void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("softmetal: mmap");
        abort();
    }
    return (char *)p;
}

uint64_t next_random(uint64_t &s)
{
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s;
}

} // namespace

Worker::Worker()
    : kernel(nullptr), current(nullptr), stacks(nullptr), stack_bytes(0), outcome(kOk),
      in_kernel(false), kill(false), next_group(nullptr), job(nullptr)
{
    this_worker = this;
    local = reserve(kLocal + 4096);
    local_end = local + kLocal;
    mprotect(local_end, 4096, PROT_NONE);
    bytes_area = reserve(SM_MAX_BUFFERS * kBytesSlot);
    for (int i = 0; i < SM_MAX_BUFFERS; ++i)
        mprotect(bytes_area + (size_t)i * kBytesSlot + SM_MAX_BYTES, kBytesSlot - SM_MAX_BYTES,
                 PROT_NONE);
    alt_stack = reserve(65536);
    stack_t ss;
    memset(&ss, 0, sizeof ss);
    ss.ss_sp = alt_stack;
    ss.ss_size = 65536;
    sigaltstack(&ss, nullptr);
    memset(fiber_of, 0, sizeof fiber_of);
}

Worker::~Worker()
{
    stack_t off;
    memset(&off, 0, sizeof off);
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    set_stack_size(0);
    trace_free(this);
    munmap(local, kLocal + 4096);
    munmap(bytes_area, SM_MAX_BUFFERS * kBytesSlot);
    munmap(alt_stack, 65536);
    this_worker = nullptr;
}

// ---- stacks -------------------------------------------------------------------

void Worker::set_stack_size(size_t bytes)
{
    if (bytes == stack_bytes)
        return;
    for (Fiber *f : fibers)
        delete f;
    fibers.clear();
    idle.clear();
    if (stacks)
        munmap(stacks, (stack_bytes + 4096) * SM_MAX_THREADS);
    stacks = nullptr;
    stack_bytes = bytes;
    if (bytes)
        stacks = reserve((bytes + 4096) * SM_MAX_THREADS);
}

Fiber *Worker::fresh()
{
    Fiber *f;
    if (!idle.empty()) {
        f = idle.back();
        idle.pop_back();
    } else {
        f = new Fiber();
        size_t i = fibers.size();
        char *guard = stacks + i * (stack_bytes + 4096);
        mprotect(guard, 4096, PROT_NONE);
        f->low = guard + 4096;
        // Different cache sets for the tops of neighbouring stacks.
        f->high = f->low + stack_bytes - (i * 7 % 32) * 64;
        f->dirty = true;
        fibers.push_back(f);
    }
    if (f->dirty) {
        make_context(&f->context, f->low, f->high, next_group ? plain_main : fiber_main);
        f->dirty = false;
    }
    return f;
}

// After a fault every fiber may be anywhere: start all of them anew.
void Worker::reset_fibers()
{
    idle.clear();
    for (size_t i = fibers.size(); i-- > 0;) {
        fibers[i]->dirty = true;
        idle.push_back(fibers[i]);
    }
}

void Worker::resume(Fiber *f)
{
    current = f;
    in_kernel = true;
    switch_context(&scheduler, &f->context);
    in_kernel = false;
    current = nullptr;
}

// ---- on fibers ------------------------------------------------------------------

void Worker::fiber_main()
{
    Worker *w = this_worker;
    for (;;) {
        Fiber *self = w->current;
        while (w->started < w->threads && !w->kill.load(std::memory_order_relaxed)) {
            int t = w->permutation[w->started++];
            self->thread = t;
            w->state[t] = kRunning;
            uint32_t sx = w->group.size[0], sy = w->group.size[1];
            uint32_t x = (uint32_t)t % sx, yz = (uint32_t)t / sx;
            w->kernel->row(&w->group, yz / sy, yz % sy, x, x + 1);
            w->state[t] = kDone;
            ++w->done;
        }
        w->idle.push_back(self);
        w->leave(self);
    }
}

void Worker::plain_main()
{
    Worker *w = this_worker;
    for (;;) {
        Fiber *self = w->current;
        while (!w->kill.load(std::memory_order_relaxed) && w->next_group(w, w->job))
            for (uint32_t z = 0; z < w->group.size[2]; ++z)
                for (uint32_t y = 0; y < w->group.size[1]; ++y)
                    w->kernel->row(&w->group, z, y, 0, w->group.size[0]);
        w->idle.push_back(self);
        switch_context(&self->context, &w->scheduler);
    }
}

void Worker::block(ThreadState s)
{
    Fiber *self = current;
    state[self->thread] = s;
    fiber_of[self->thread] = self;
    leave(self);
    state[self->thread] = kRunning;
}

Fiber *Worker::pop_ready()
{
    Fiber *f = ready[ready_head];
    ready_head = ready_head + 1 == SM_MAX_THREADS ? 0 : ready_head + 1;
    --ready_count;
    return f;
}

// Goes on with another thread of the group: without the detour over the
// scheduler when one is ready.
void Worker::leave(Fiber *self)
{
    Fiber *next = nullptr;
    if (ready_count)
        next = pop_ready();
    else if (started < threads && (idle.empty() || idle.back() != self))
        next = fresh();
    if (next == self)
        return;
    if (!next || kill.load(std::memory_order_relaxed)) {
        if (next) { // killed: the fiber is not lost, only never run
            next->dirty = true;
            idle.push_back(next);
        }
        switch_context(&self->context, &scheduler);
        return;
    }
    current = next;
    switch_context(&self->context, &next->context);
}

void Worker::fail(Outcome o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    outcome = o;
    Context nowhere;
    switch_context(&nowhere, &scheduler);
    abort(); // never resumed
}

// ---- scheduling -----------------------------------------------------------------

static void make_ready(Worker *w, int t)
{
    w->state[t] = kReady;
    int at = w->ready_head + w->ready_count++;
    w->ready[at >= SM_MAX_THREADS ? at - SM_MAX_THREADS : at] = w->fiber_of[t];
}

void Worker::release_barrier()
{
    for (int i = 0; i < threads; ++i)
        if (state[permutation[i]] == kAtBarrier)
            make_ready(this, permutation[i]);
    at_barrier = 0;
    for (int i = 0; i < 2; ++i)
        epoch[i] += barrier_flags >> i & 1;
}

static uint64_t alive_lanes(Worker *w, int simd_group)
{
    uint64_t alive = 0;
    int base = simd_group * w->lanes;
    for (int i = 0; i < w->lanes && base + i < w->threads; ++i)
        if (w->state[base + i] != kDone)
            alive |= (uint64_t)1 << i;
    return alive;
}

void wake_simd(Worker *w, int simd_group, int except)
{
    int base = simd_group * w->lanes;
    for (int i = 0; i < w->lanes && base + i < w->threads; ++i)
        if (base + i != except && w->state[base + i] == kAtSimd)
            make_ready(w, base + i);
}

// Nothing can run.  Lanes that have returned do not take part in a SIMD-group
// function; a barrier needs all threads.  False: the group is stuck.
bool Worker::resolve()
{
    bool progress = false;
    for (size_t s = 0; s < simd.size(); ++s) {
        SimdGroup &g = simd[s];
        if (!g.arrived || g.arrived != alive_lanes(this, (int)s))
            continue;
        simd_complete(this, g, g.arrived);
        wake_simd(this, (int)s, -1);
        progress = true;
    }
    if (progress)
        return true;
    int simd_waiting = 0;
    const char *which = nullptr;
    for (SimdGroup &g : simd)
        if (g.arrived) {
            simd_waiting += __builtin_popcountll(g.arrived);
            which = simd_name(g.op);
        }
    outcome = kBad;
    if (at_barrier && simd_waiting)
        snprintf(message, sizeof message,
                 "%s: %d threads wait at threadgroup_barrier and %d in %s: not all threads reach "
                 "the same call", kernel->name.c_str(), at_barrier, simd_waiting, which);
    else if (at_barrier)
        snprintf(message, sizeof message,
                 "%s: threadgroup_barrier is reached by %d of %d threads (%d have returned)",
                 kernel->name.c_str(), at_barrier, threads, done);
    else
        snprintf(message, sizeof message, "%s: lanes are stuck in %s", kernel->name.c_str(),
                 which ? which : "a SIMD-group function");
    sm_violation("barrier", "%s", message);
    return false;
}

Outcome Worker::run_group()
{
    uint32_t n = group.size[0] * group.size[1] * group.size[2];
    threads = (int)n;
    started = done = at_barrier = 0;
    ready_head = ready_count = 0;
    outcome = kOk;
    lanes = (int)group.simd_width;
    epoch[0] = epoch[1] = 0;
    next_group = nullptr;
    for (uint32_t i = 0; i < n; ++i) {
        permutation[i] = (uint16_t)(order == 1 ? n - 1 - i : i);
        state[i] = kNew;
    }
    if (order == 2)
        for (uint32_t i = n; i > 1; --i) {
            uint32_t j = (uint32_t)(next_random(random) % i);
            std::swap(permutation[i - 1], permutation[j]);
        }
    if (kernel->uses) {
        simd.resize((n + group.simd_width - 1) / group.simd_width);
        for (SimdGroup &g : simd)
            g.arrived = 0;
        for (uint32_t i = 0; i < simd.size(); ++i)
            simd_epoch[0][i] = simd_epoch[1][i] = 0;
    }
    if (!pieces.empty())
        poison_local();
    trace_group(this);
    while (done < threads) {
        if (kill.load(std::memory_order_relaxed)) {
            outcome = kTimeout;
            break;
        }
        Fiber *f;
        if (ready_count) {
            f = pop_ready();
        } else if (started < threads) {
            f = fresh();
        } else if (resolve()) {
            if (outcome != kOk)
                break;
            continue;
        } else {
            break;
        }
        resume(f);
        if (outcome != kOk)
            break;
    }
    if (outcome != kOk)
        reset_fibers();
    if (!pieces.empty())
        check_local();
    return outcome;
}

Outcome Worker::run_plain(bool (*next)(Worker *, void *), void *data)
{
    outcome = kOk;
    next_group = next;
    job = data;
    reset_fibers(); // idle ones sit in fiber_main
    resume(fresh());
    if (outcome == kOk && kill.load())
        outcome = kTimeout;
    next_group = nullptr;
    reset_fibers();
    return outcome;
}

// ---- memory of a group -----------------------------------------------------------

// Lays out threadgroup arguments and the variables declared in the kernel.
bool Worker::start_dispatch(sm_kernel *k, const sm_group &base, const uint32_t tg_bytes[])
{
    kernel = k;
    group = base;
    kill.store(false);
    order = (int)SM_KNOB(order);
    random = (uint64_t)SM_KNOB(seed) * 0x9E3779B97F4A7C15u | 1;
    set_stack_size(((size_t)SM_KNOB(stack_kb) * 1024 + 4095) / 4096 * 4096);
    pieces.clear();
    char *p = local;
    for (int i = 0; i < SM_MAX_BUFFERS; ++i)
        if (tg_bytes[i]) {
            group.threadgroup_arg[i] = (uint64_t)(uintptr_t)p;
            uint32_t padded = (tg_bytes[i] + 15) / 16 * 16;
            pieces.push_back({p, tg_bytes[i], padded, "[[threadgroup(" + std::to_string(i) + ")]]"});
            p += padded + kPad;
        }
    for (auto &site : k->sites) {
        if (site.first >= 256)
            return false;
        site_offset[site.first] = (uint32_t)(p - local);
        uint32_t padded = (site.second + 15) / 16 * 16;
        pieces.push_back({p, site.second, padded,
                          "threadgroup variable " + std::to_string(site.first + 1)});
        p += padded + kPad;
        if (p > local_end)
            return false;
    }
    return p <= local_end;
}

void Worker::poison_local()
{
    const Piece &last = pieces.back();
    memset(local, SM_POISON, (size_t)(last.start - local) + last.padded + kPad);
    if (!SM_KNOB(poison))
        for (Piece &p : pieces)
            memset(p.start, 0, p.bytes);
}

void Worker::check_local()
{
    for (Piece &p : pieces)
        for (char *c = p.start + p.bytes; c < p.start + p.padded + kPad; ++c)
            if (*c != (char)SM_POISON) {
                sm_violation("out-of-bounds", "%s wrote %ld bytes beyond the end of %s of %u bytes",
                             kernel->name.c_str(), (long)(c - p.start - p.bytes), p.name.c_str(),
                             p.bytes);
                return;
            }
}

char *Worker::bytes_slot(int index, uint32_t length)
{
    return bytes_area + (size_t)index * kBytesSlot + SM_MAX_BYTES - (length + 15) / 16 * 16;
}

} // namespace sm

using namespace sm;

extern "C" {

SM_EXPORT void *__sm_threadgroup_address(uint32_t site)
{
    Worker *w = this_worker;
    return w->local + w->site_offset[site];
}

SM_EXPORT void __sm_barrier(uint32_t flags)
{
    Worker *w = this_worker;
    const void *site = __builtin_return_address(0);
    if (!w->at_barrier) {
        w->barrier_site = site;
        w->barrier_flags = flags;
    } else if (site != w->barrier_site) {
        w->fail(kBad, "%s: threads of one group wait at different threadgroup_barrier calls",
                w->kernel->name.c_str());
    }
    if (++w->at_barrier == w->threads) {
        w->release_barrier();
        return;
    }
    w->block(kAtBarrier);
}

} // extern "C"
