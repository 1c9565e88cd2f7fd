// Buffers.  With check on, a buffer is a region of one memfd that is mapped
// twice, inside two large reservations: kernels use one view, the host the
// other.  While a command buffer is in flight the host view of what it uses is
// protected, so that a host access that comes too early faults; the handler
// records it, opens the page and goes on.  Both views end at a guard page.
#include "memory.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

namespace sm {

kernel_fault_fn kernel_fault;

namespace {

constexpr size_t kGranule = 65536;
constexpr int kMaxChecked = 12000; // four mappings each; the kernel allows about 65000

// Never destroyed: queues may still run while the process exits.
std::mutex &lock = *new std::mutex;
int arena_fd = -1;
size_t arena_size;
char *host_base, *gpu_base;
std::atomic<sm_buffer *> *owner; // by granule
std::map<size_t, size_t> &free_ranges = *new std::map<size_t, size_t>;
size_t rover; // next fit: a freed range stays unused for long
int checked_buffers;
uint64_t next_id = 1;
size_t allocated_by_device[4];
sm_buffer freed_marker; // owner of granules whose buffer is gone

size_t page()
{
    static const size_t p = (size_t)sysconf(_SC_PAGESIZE);
    return p;
}
size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

void make_arena()
{
    static bool tried;
    if (tried)
        return;
    tried = true;
    for (size_t size = (size_t)64 << 30; size >= (size_t)1 << 30; size /= 4) {
        int fd = memfd_create("softmetal", MFD_CLOEXEC);
        if (fd < 0)
            return;
        if (ftruncate(fd, (off_t)size) != 0) {
            close(fd);
            continue;
        }
        void *h = mmap(nullptr, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        void *g = mmap(nullptr, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        void *o = mmap(nullptr, size / kGranule * sizeof *owner, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (h != MAP_FAILED && g != MAP_FAILED && o != MAP_FAILED) {
            arena_fd = fd;
            arena_size = size;
            host_base = (char *)h;
            gpu_base = (char *)g;
            owner = (std::atomic<sm_buffer *> *)o;
            // Room at both ends for indices that are far off.
            free_ranges[size / 64] = size - size / 32;
            return;
        }
        if (h != MAP_FAILED)
            munmap(h, size);
        if (g != MAP_FAILED)
            munmap(g, size);
        close(fd);
    }
}

// Offset of `need` bytes of arena, (size_t)-1 when it is full.
size_t take_range(size_t need)
{
    for (int pass = 0; pass < 2; ++pass) {
        auto it = pass ? free_ranges.begin() : free_ranges.lower_bound(rover);
        for (; it != free_ranges.end(); ++it)
            if (it->second >= need) {
                size_t at = it->first, rest = it->second - need;
                free_ranges.erase(it);
                if (rest)
                    free_ranges[at + need] = rest;
                rover = at + need;
                return at;
            }
    }
    return (size_t)-1;
}

void give_range(size_t at, size_t size)
{
    auto next = free_ranges.lower_bound(at);
    if (next != free_ranges.end() && at + size == next->first) {
        size += next->second;
        next = free_ranges.erase(next);
    }
    if (next != free_ranges.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == at) {
            before->second += size;
            return;
        }
    }
    free_ranges[at] = size;
}

void set_owner(size_t at, size_t size, sm_buffer *b)
{
    for (size_t g = at / kGranule; g < (at + size) / kGranule; ++g)
        owner[g].store(b, std::memory_order_release);
}

void protect(sm_buffer *b)
{
    int want = b->writing ? PROT_NONE : b->reading ? PROT_READ : PROT_READ | PROT_WRITE;
    if (!b->checked || b->slab || b->owned_by_host_private || want == b->last_protection)
        return;
    mprotect(host_base + b->offset, b->region, want);
    b->last_protection = want;
}

// A page of canaries, made before any thread of ours exists.
const char *const poison = [] {
    char *p = (char *)malloc(page());
    memset(p, SM_POISON, page());
    return p;
}();

// ---- faults -----------------------------------------------------------------

std::mutex &handlers = *new std::mutex;
struct sigaction previous[NSIG];
const int handled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

bool is_write(void *context)
{
#if defined(__x86_64__)
    return ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined(__aarch64__)
    // Walk the records behind the registers for the exception syndrome.
    struct head { uint32_t magic, size; };
    char *p = (char *)((ucontext_t *)context)->uc_mcontext.__reserved;
    for (head *h = (head *)p; h->magic; h = (head *)((char *)h + h->size)) {
        if (h->magic == 0x45535201)
            return *(uint64_t *)(h + 1) >> 6 & 1;
        if (!h->size)
            break;
    }
    return false;
#else
    (void)context;
    return false;
#endif
}

void caller(char *out, size_t size)
{
    void *frames[24];
    int n = backtrace(frames, 24);
    out[0] = 0;
    size_t used = 0;
    int shown = 0;
    for (int i = 2; i < n && shown < 3; ++i) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || !info.dli_sname)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", shown ? " < " : " in ",
                                 info.dli_sname);
        if (used >= size)
            break;
        ++shown;
    }
}

// Pages of the host view that stand in for memory that must not be touched, so
// that the caller survives to see the violation.
std::atomic<char *> stand_ins[256];
std::atomic<int> stand_in_count;

bool stand_in_page(char *at)
{
    if (mmap(at, page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        return false;
    int i = stand_in_count.fetch_add(1);
    if (i < 256)
        stand_ins[i].store(at);
    return i < 256;
}

void remove_stand_ins()
{
    int n = stand_in_count.exchange(0);
    for (int i = 0; i < n && i < 256; ++i)
        if (char *p = stand_ins[i].exchange(nullptr))
            mmap(p, page(), PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, arena_fd,
                 (off_t)(p - host_base));
}

// True when the access is dealt with and the instruction can run again.
bool host_fault(char *address, bool write)
{
    if (!host_base || address < host_base || address >= host_base + arena_size)
        return false;
    size_t at = (size_t)(address - host_base);
    sm_buffer *b = owner[at / kGranule].load(std::memory_order_acquire);
    char *page_start = host_base + at / page() * page();
    char where[200];
    caller(where, sizeof where);
    if (!b || b == &freed_marker) {
        sm_violation("host-freed", "%s of the contents of a buffer that was freed%s",
                     write ? "write" : "read", where);
        return stand_in_page(page_start);
    }
    if (at < b->offset || at >= b->offset + b->region) {
        sm_violation("host-out-of-bounds", "%s %ld bytes %s buffer %s of %zu bytes%s",
                     write ? "write" : "read",
                     address < b->host ? (long)(b->host - address)
                                       : (long)(address - b->host - (long)b->length),
                     address < b->host ? "before" : "beyond", sm_buffer_name(b), b->length, where);
        return stand_in_page(page_start);
    }
    int writing = __atomic_load_n(&b->writing, __ATOMIC_ACQUIRE);
    int reading = __atomic_load_n(&b->reading, __ATOMIC_ACQUIRE);
    if (writing)
        sm_violation(write ? "host-write" : "host-read",
                     "%s at byte %ld of buffer %s (%zu bytes) while a command buffer that writes "
                     "it is in flight%s", write ? "write" : "read", (long)(address - b->host),
                     sm_buffer_name(b), b->length, where);
    else if (reading && write)
        sm_violation("host-write",
                     "write at byte %ld of buffer %s (%zu bytes) while a command buffer that reads "
                     "it is in flight%s", (long)(address - b->host), sm_buffer_name(b), b->length,
                     where);
    // Neither: it ended between the fault and here.
    return mprotect(page_start, page(), PROT_READ | PROT_WRITE) == 0;
}

void on_signal(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    if (kernel_fault && !sm_forked)
        kernel_fault(sig, info, is_write(context));
    if (sig == SIGSEGV && !sm_forked && info->si_code > 0 &&
        host_fault((char *)info->si_addr, is_write(context))) {
        errno = saved;
        return;
    }
    errno = saved;
    struct sigaction &old = previous[sig];
    if (old.sa_flags & SA_SIGINFO) {
        if (old.sa_sigaction)
            return old.sa_sigaction(sig, info, context);
    } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
        return old.sa_handler(sig);
    }
    signal(sig, SIG_DFL); // the instruction runs again and ends the process
    if (info->si_code <= 0)
        raise(sig);
}

} // namespace

void ensure_handlers()
{
    std::lock_guard<std::mutex> hold(handlers);
    static void *warm[1]; // the first backtrace allocates: not in a handler
    if (!warm[0])
        backtrace(warm, 1);
    for (int sig : handled) {
        struct sigaction now;
        sigaction(sig, nullptr, &now);
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
            continue;
        previous[sig] = now;
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_signal;
        // A fault of a kernel leaves the handler by switching stacks, so the
        // signal must not stay blocked.
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigemptyset(&ours.sa_mask);
        sigaction(sig, &ours, nullptr);
    }
}

void begin_use(sm_buffer *b, bool write, void *queue, bool ordered)
{
    std::lock_guard<std::mutex> hold(lock);
    if ((b->reading || b->writing) && b->last_queue != queue && !ordered &&
        !b->ordered && (write || b->writing))
        sm_violation("two-queues",
                     "buffer %s is used by two queues at once and one of them writes it: tracking "
                     "orders one queue only", sm_buffer_name(b));
    b->last_queue = queue;
    b->ordered += ordered;
    ++(write ? b->writing : b->reading);
    protect(b);
}

void end_use(sm_buffer *b, bool write, bool ordered)
{
    std::lock_guard<std::mutex> hold(lock);
    b->ordered -= ordered;
    --(write ? b->writing : b->reading);
    // The handler may have opened single pages in between.
    b->last_protection = -1;
    protect(b);
}

void check_canary(sm_buffer *b, const char *kernel)
{
    if (!b->checked)
        return;
    char *start = gpu_base + b->offset, *end = start + b->region;
    size_t before = (size_t)(b->gpu - start), after = (size_t)(end - b->gpu - b->length);
    for (int side = 0; side < 2; ++side) {
        char *p = side ? b->gpu + b->length : start;
        size_t n = side ? after : before;
        while (n) {
            size_t part = n < page() ? n : page();
            if (memcmp(p, poison, part)) {
                size_t i = 0;
                while (p[i] == (char)SM_POISON)
                    ++i;
                sm_violation("out-of-bounds", "%s wrote %ld bytes %s buffer %s of %zu bytes", kernel,
                             side ? (long)(p + i - b->gpu - b->length) : (long)(b->gpu - p - i),
                             side ? "beyond the end of" : "before the start of", sm_buffer_name(b),
                             b->length);
                memset(p, SM_POISON, part);
            }
            p += part;
            n -= part;
        }
    }
}

bool in_gpu_arena(const void *address)
{
    return gpu_base && (const char *)address >= gpu_base &&
           (const char *)address < gpu_base + arena_size;
}

char *gpu_arena_base() { return gpu_base; }

sm_buffer *find_gpu(const void *address)
{
    if (!in_gpu_arena(address))
        return nullptr;
    sm_buffer *b = owner[((const char *)address - gpu_base) / kGranule].load();
    return b == &freed_marker ? nullptr : b;
}

} // namespace sm

using namespace sm;

extern "C" {

sm_buffer *sm_buffer_new(int device, size_t length, unsigned long options, void *pointer)
{
    if (sm_knob_countdown(SM_K_fail_alloc))
        return nullptr;
    long cap = SM_KNOB(alloc_cap);
    size_t charged = round_up(length, (size_t)SM_KNOB(page_size));
    if ((cap && sm_allocated(device) + charged > (size_t)cap) ||
        sm_counter_values[SM_C_buffers] >= SM_KNOB(max_live_buffers))
        return nullptr;
    ensure_handlers();
    sm_buffer *b = new sm_buffer();
    b->refs = 1;
    b->device = device;
    b->options = options;
    b->length = length;
    b->charged = charged;
    b->last_protection = PROT_READ | PROT_WRITE;
    b->owned_by_host_private = (options >> 4 & 15) == 2;
    std::lock_guard<std::mutex> hold(lock);
    b->id = next_id++;
    if (pointer) {
        b->external = true;
        b->host = b->gpu = (char *)pointer;
    } else {
        if (SM_KNOB(check) && checked_buffers < kMaxChecked)
            make_arena();
        size_t align = (size_t)SM_KNOB(align), at = (size_t)-1;
        size_t region = round_up(round_up(length, align), page());
        if (SM_KNOB(check) && checked_buffers < kMaxChecked && arena_fd >= 0) {
            // A free granule in front, and the rest of the last one, are guards.
            remove_stand_ins();
            size_t need = round_up(region + page(), kGranule) + kGranule;
            at = take_range(need);
            if (at != (size_t)-1) {
                b->offset = at + kGranule;
                b->region = region;
                if (mprotect(host_base + b->offset, region, PROT_READ | PROT_WRITE) ||
                    mprotect(gpu_base + b->offset, region, PROT_READ | PROT_WRITE)) {
                    give_range(at, need);
                    at = (size_t)-1;
                }
            }
            if (at != (size_t)-1) {
                size_t data = region - round_up(length, align);
                b->checked = true;
                b->host = host_base + b->offset + data;
                b->gpu = gpu_base + b->offset + data;
                ++checked_buffers;
                set_owner(at, need, b);
#ifdef MADV_POPULATE_WRITE
                madvise(gpu_base + b->offset, region, MADV_POPULATE_WRITE);
#endif
                memset(gpu_base + b->offset, SM_POISON, region);
                if (!SM_KNOB(poison))
                    memset(b->gpu, 0, length);
            }
        }
        if (!b->checked) {
            b->region = round_up(length, (size_t)SM_KNOB(page_size));
            void *p = nullptr;
            if (posix_memalign(&p, (size_t)SM_KNOB(page_size), b->region)) {
                delete b;
                return nullptr;
            }
            memset(p, SM_KNOB(poison) ? SM_POISON : 0, b->region);
            b->host = b->gpu = (char *)p;
        }
    }
    allocated_by_device[device & 3] += charged;
    SM_COUNT(buffers, 1);
    SM_COUNT(buffer_bytes, (long)charged);
    SM_COUNT(allocations, 1);
    return b;
}

void sm_buffer_retain(sm_buffer *b) { b->refs.fetch_add(1); }

void sm_buffer_release(sm_buffer *b)
{
    if (b->refs.fetch_sub(1) != 1)
        return;
    std::lock_guard<std::mutex> hold(lock);
    if (b->checked) {
        mprotect(host_base + b->offset, b->region, PROT_NONE);
        mprotect(gpu_base + b->offset, b->region, PROT_NONE);
        if (fallocate(arena_fd, 1 | 2 /* keep size, punch hole */, (off_t)b->offset,
                      (off_t)b->region))
            madvise(gpu_base + b->offset, b->region, MADV_REMOVE);
        size_t at = b->offset - kGranule;
        size_t need = round_up(b->region + page(), kGranule) + kGranule;
        set_owner(at, need, &freed_marker);
        give_range(at, need);
        --checked_buffers;
    } else if (!b->external) {
        free(b->host);
    }
    size_t charged = b->charged;
    size_t &total = allocated_by_device[b->device & 3];
    total = total > charged ? total - charged : 0;
    SM_COUNT(buffers, -1);
    SM_COUNT(buffer_bytes, -(long)charged);
    delete b;
}

void sm_buffer_owner_gone(sm_buffer *b)
{
    b->owner_gone.store(1);
    sm_buffer_release(b);
}

void *sm_buffer_contents(sm_buffer *b)
{
    return b->owned_by_host_private ? nullptr : b->host;
}
uint64_t sm_buffer_address(sm_buffer *b) { return (uint64_t)(uintptr_t)b->gpu; }
size_t sm_buffer_length(sm_buffer *b) { return b->length; }
int sm_buffer_device(sm_buffer *b) { return b->device; }

void sm_buffer_set_label(sm_buffer *b, const char *label)
{
    std::lock_guard<std::mutex> hold(lock);
    snprintf(b->label, sizeof b->label, "%s", label ? label : "");
    b->slab = !strncmp(b->label, "slab", 4);
}

const char *sm_buffer_name(sm_buffer *b)
{
    if (b->label[0])
        return b->label;
    static thread_local char text[2][32];
    static thread_local int turn;
    char *t = text[turn ^= 1];
    snprintf(t, 32, "#%lu", (unsigned long)b->id);
    return t;
}

size_t sm_allocated(int device)
{
    return __atomic_load_n(&allocated_by_device[device & 3], __ATOMIC_RELAXED);
}

} // extern "C"
