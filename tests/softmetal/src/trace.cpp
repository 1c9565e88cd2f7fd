// Checks every access of a kernel: exact bounds of the buffers that the dispatch
// binds, threadgroup memory read before it was written, and races: two threads
// that touch the same byte, one of them writing, with no barrier that orders
// that kind of memory in between.  Shadow memory holds the last writer and the
// last reader of every byte.
#include "trace.h"
#include "group.h"

#include <sys/mman.h>

namespace sm {

struct Cell {
    uint64_t writer, reader;
};

namespace {

constexpr size_t kShadow = (size_t)64 << 30; // bytes of arena that are covered
constexpr int kReports = 3;

Cell *global_shadow()
{
    static Cell *shadow = [] {
        void *p = mmap(nullptr, kShadow * sizeof(Cell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : (Cell *)p;
    }();
    return shadow;
}

// An access: who and when.  0 is nobody.
struct Access {
    uint32_t dispatch, group, thread, epoch, simd_epoch;
    bool many; // several threads of one epoch
};
uint64_t pack(const Access &a)
{
    return (uint64_t)1 << 63 | (uint64_t)a.many << 62 | (uint64_t)(a.dispatch & 1023) << 52 |
           (uint64_t)(a.group & 0xfffff) << 32 | (uint64_t)(a.thread & 1023) << 22 |
           (uint64_t)(a.epoch & 4095) << 10 | (a.simd_epoch & 1023);
}
Access unpack(uint64_t v)
{
    Access a;
    a.many = v >> 62 & 1;
    a.dispatch = v >> 52 & 1023;
    a.group = v >> 32 & 0xfffff;
    a.thread = v >> 22 & 1023;
    a.epoch = v >> 10 & 4095;
    a.simd_epoch = v & 1023;
    return a;
}

bool same_moment(const Access &a, const Access &b) // of one group
{
    return a.dispatch == b.dispatch && a.group == b.group && a.epoch == b.epoch;
}

// Is `old` unordered with `now`?
bool conflict(uint64_t packed, const Access &now, int lanes, bool local)
{
    if (!packed)
        return false;
    Access old = unpack(packed);
    if (old.dispatch != (now.dispatch & 1023))
        return false;
    if (old.group != (now.group & 0xfffff))
        return !local; // threadgroup memory is used by one group after the other
    if (old.epoch != (now.epoch & 4095))
        return false;
    if (old.many)
        return true;
    if (old.thread == now.thread)
        return false;
    return (int)old.thread / lanes != (int)now.thread / lanes ||
           old.simd_epoch == (now.simd_epoch & 1023);
}

void report(Worker *w, const char *what, const Access &now, uint64_t old_packed, bool write,
            bool old_write, const char *place, long byte)
{
    if (w->trace.reported++ >= kReports)
        return;
    Access old = unpack(old_packed);
    sm_violation(what,
                 "%s: thread %u of group %u %s byte %ld of %s, which thread %u of group %u %s, "
                 "with nothing that orders them", w->kernel->name.c_str(), now.thread, now.group,
                 write ? "writes" : "reads", byte, place, old.thread, old.group,
                 old_write ? "writes" : "reads");
}

void check_cell(Worker *w, Cell &c, const Access &now, bool write, const char *place, long byte,
                bool local)
{
    if (conflict(c.writer, now, w->lanes, local))
        report(w, "race", now, c.writer, write, true, place, byte);
    else if (write && conflict(c.reader, now, w->lanes, local))
        report(w, "race", now, c.reader, write, false, place, byte);
    if (write) {
        c.writer = pack(now);
        return;
    }
    Access mine = now;
    if (c.reader) {
        Access old = unpack(c.reader);
        Access cut = unpack(pack(now));
        if (same_moment(old, cut) && (old.many || old.thread != cut.thread))
            mine.many = true;
    }
    c.reader = pack(mine);
}

void access(char *p, uint32_t size, bool write)
{
    Worker *w = this_worker;
    if (!w || !w->trace.on || !w->current)
        return;
    Trace &t = w->trace;
    uint32_t thread = (uint32_t)w->current->thread;
    uint32_t simd = thread / (uint32_t)w->lanes;
    if (p >= w->local && p < w->local_end) {
        for (Worker::Piece &piece : w->pieces) {
            if (p < piece.start || p >= piece.start + piece.padded + 64)
                continue;
            long byte = (long)(p - piece.start);
            if (p + size > piece.start + piece.bytes) {
                if (t.reported++ < kReports)
                    sm_violation("out-of-bounds", "%s: thread %u %s %u bytes at byte %ld of %s of %u "
                                 "bytes", w->kernel->name.c_str(), thread,
                                 write ? "writes" : "reads", size, byte, piece.name.c_str(),
                                 piece.bytes);
                return;
            }
            Access now = {t.dispatch, t.group, thread, w->epoch[1], w->simd_epoch[1][simd], false};
            for (uint32_t i = 0; i < size; ++i) {
                Cell &c = t.local[p - w->local + i];
                Access last = unpack(c.writer);
                if (!write && (!c.writer || last.dispatch != (now.dispatch & 1023) ||
                               last.group != (now.group & 0xfffff)) && t.reported++ < kReports)
                    sm_violation("uninitialised", "%s: thread %u reads byte %ld of %s, which no "
                                 "thread of the group has written", w->kernel->name.c_str(), thread,
                                 byte + i, piece.name.c_str());
                check_cell(w, c, now, write, piece.name.c_str(), byte + i, true);
            }
            return;
        }
        return;
    }
    bool arena = in_gpu_arena(p);
    for (size_t n = 0; n < t.bounds.size(); ++n) {
        size_t i = (t.last + n) % t.bounds.size();
        Bound &b = t.bounds[i];
        if (p < b.low || p + size > b.high)
            continue;
        t.last = i;
        Cell *shadow = arena ? global_shadow() : nullptr;
        if (!shadow || !b.buffer)
            return;
        Access now = {t.dispatch, t.group, thread, w->epoch[0], w->simd_epoch[0][simd], false};
        char place[96];
        place[0] = 0;
        for (uint32_t k = 0; k < size; ++k) {
            Cell &c = shadow[p - gpu_arena_base() + k];
            if (conflict(c.writer, now, w->lanes, false) ||
                (write && conflict(c.reader, now, w->lanes, false)))
                snprintf(place, sizeof place, "buffer %s", sm_buffer_name(b.buffer));
            check_cell(w, c, now, write, place, (long)(p + k - b.buffer->gpu), false);
        }
        return;
    }
    if (!arena)
        return; // the thread's own stack, constants of the program
    sm_buffer *b = find_gpu(p);
    bool bound = false;
    for (Bound &x : t.bounds)
        bound |= x.buffer == b;
    if (b)
        sm_violation("out-of-bounds",
                     "%s: thread %u %s %u bytes at offset %ld of buffer %s of %zu bytes%s",
                     w->kernel->name.c_str(), thread, write ? "writes" : "reads", size,
                     (long)(p - b->gpu), sm_buffer_name(b), b->length,
                     bound ? "" : ", which is not bound");
    w->fail(kFault, "%s: %s at offset %ld of %s, length %zu", w->kernel->name.c_str(),
            write ? "write" : "read", b ? (long)(p - b->gpu) : 0L,
            b ? sm_buffer_name(b) : "no buffer", b ? b->length : (size_t)0);
}

} // namespace

void trace_new_epoch(Worker *w)
{
    static std::atomic<uint32_t> dispatches;
    w->trace.dispatch = ++dispatches;
    // cells know a dispatch by 10 bits: those of the one that had the same number must be gone
    if (SM_KNOB(trace) && (w->trace.dispatch & 1023) == 0 && global_shadow())
        madvise(global_shadow(), kShadow * sizeof(Cell), MADV_DONTNEED);
    w->trace.group = 0;
}

void trace_dispatch(Worker *w, const std::vector<Bound> &bounds)
{
    Trace &t = w->trace;
    t.on = SM_KNOB(trace) != 0;
    t.reported = 0;
    if (!t.on)
        return;
    t.bounds = bounds;
    t.last = 0;
    if (!t.local) {
        void *p = mmap(nullptr, (size_t)(w->local_end - w->local) * sizeof(Cell),
                       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            t.on = false;
        else
            t.local = (Cell *)p;
    }
}

void trace_group(Worker *w) { ++w->trace.group; }

void trace_free(Worker *w)
{
    if (w->trace.local)
        munmap(w->trace.local, (size_t)(w->local_end - w->local) * sizeof(Cell));
    w->trace.local = nullptr;
}

} // namespace sm

extern "C" {

SM_EXPORT void __sm_trace(uint64_t p, uint32_t size, uint32_t write)
{
    sm::access((char *)(uintptr_t)p, size, write != 0);
}

SM_EXPORT uint32_t __sm_atomic_load(uint64_t p)
{
    return __atomic_load_n((uint32_t *)(uintptr_t)p, __ATOMIC_RELAXED);
}

SM_EXPORT void __sm_atomic_store(uint64_t p, uint32_t v)
{
    __atomic_store_n((uint32_t *)(uintptr_t)p, v, __ATOMIC_RELAXED);
}

} // extern "C"
