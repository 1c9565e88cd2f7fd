// Worker threads, faults of kernels, and the watchdog.
#include "machine.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <time.h>
#include <unistd.h>

namespace sm {

namespace {

// ---- faults of kernels ------------------------------------------------------------

void on_kernel_fault(int sig, siginfo_t *info, bool write)
{
    Worker *w = this_worker;
    if (!w || !w->in_kernel)
        return;
    if (info->si_code <= 0)
        return; // sent by somebody
    const char *name = w->kernel->name.c_str();
    if (sig == SIGFPE)
        w->fail(kFault, "%s: integer division by zero", name);
    if (sig == SIGILL)
        w->fail(kFault, "%s: undefined arithmetic (integer overflow, division by zero, conversion "
                "of a float out of range, or an index outside an array)", name);
    char *p = (char *)info->si_addr;
    if (w->current && p >= w->current->low - 4096 && p < w->current->low + 64)
        w->fail(kStackOverflow, "%s: a thread needs more than %zu bytes of stack", name,
                w->stack_bytes);
    sm_buffer *b = find_gpu(p);
    if (b) {
        sm_violation("out-of-bounds", "%s: %s at offset %ld of buffer %s, length %zu", name,
                     write ? "write" : "read", (long)(p - b->gpu), sm_buffer_name(b), b->length);
        w->fail(kFault, "%s: %s at offset %ld of buffer %s, length %zu", name,
                write ? "write" : "read", (long)(p - b->gpu), sm_buffer_name(b), b->length);
    }
    if (p >= w->bytes_area && p < w->bytes_area + SM_MAX_BUFFERS * 8192) {
        sm_violation("out-of-bounds", "%s: %s beyond the bytes of argument %ld", name,
                     write ? "write" : "read", (long)(p - w->bytes_area) / 8192);
        w->fail(kFault, "%s: %s beyond the bytes of argument %ld", name, write ? "write" : "read",
                (long)(p - w->bytes_area) / 8192);
    }
    if (p >= w->local_end && p < w->local_end + 4096)
        w->fail(kFault, "%s: %s beyond threadgroup memory", name, write ? "write" : "read");
    sm_violation("out-of-bounds", "%s: %s at address %p", name, write ? "write" : "read", (void *)p);
    w->fail(kFault, "%s: %s at address %p", name, write ? "write" : "read", (void *)p);
}

// ---- watchdog ------------------------------------------------------------------------
// One thread looks at all workers ten times a second and adds up their CPU time.

// Never destroyed: queues may still run while the process exits.
std::mutex &watch_lock = *new std::mutex;
std::vector<Machine *> &watched = *new std::vector<Machine *>;
const int kWatchSignal = SIGRTMAX - 3;

void on_watch_signal(int, siginfo_t *, void *)
{
    Worker *w = this_worker;
    if (w && w->in_kernel && w->kill.load())
        w->fail(kTimeout, "%s: killed by the watchdog", w->kernel->name.c_str());
}

} // namespace

namespace {

double cpu_time(pthread_t t)
{
    clockid_t clock;
    timespec ts;
    if (pthread_getcpuclockid(t, &clock) || clock_gettime(clock, &ts))
        return 0;
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void watch()
{
    for (;;) {
        usleep(100000);
        double limit = (double)SM_KNOB(watchdog_ms) * 1e-3;
        std::lock_guard<std::mutex> hold(watch_lock);
        for (Machine *m : watched) {
            uint64_t now = m->running.load();
            if (!now || limit <= 0) {
                m->seen = 0;
                continue;
            }
            double used = 0;
            std::lock_guard<std::mutex> inner(m->lock);
            for (pthread_t t : m->ids)
                used += cpu_time(t);
            if (m->seen != now) {
                m->seen = now;
                m->used_at_start = used;
            } else if (used - m->used_at_start > limit) {
                m->expired.store(true);
                for (size_t i = 0; i < m->workers.size(); ++i) {
                    m->workers[i]->kill.store(true);
                    pthread_kill(m->ids[i], kWatchSignal);
                }
            }
        }
    }
}

void start_watch()
{
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction a;
        memset(&a, 0, sizeof a);
        a.sa_sigaction = on_watch_signal;
        a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(kWatchSignal, &a, nullptr);
        std::thread(watch).detach();
        kernel_fault = on_kernel_fault;
    });
}

} // namespace

void Machine::helper(size_t index)
{
    Worker *w = new Worker();
    uint64_t seen_round = 0;
    std::unique_lock<std::mutex> hold(lock);
    workers[index] = w;
    ids[index] = pthread_self();
    done.notify_all();
    for (;;) {
        go.wait(hold, [&] { return stop || (round != seen_round && job); });
        if (stop)
            break;
        seen_round = round;
        auto f = job;
        hold.unlock();
        {
            FlushSubnormals flush;
            f(w);
        }
        hold.lock();
        if (--pending == 0)
            done.notify_all();
    }
    workers[index] = nullptr;
    hold.unlock();
    delete w;
}

void Machine::want(size_t count)
{
    std::unique_lock<std::mutex> hold(lock);
    while (workers.size() < count) {
        size_t index = workers.size();
        workers.push_back(nullptr);
        ids.push_back(pthread_self());
        helpers.emplace_back(&Machine::helper, this, index);
        done.wait(hold, [&] { return workers[index] != nullptr; });
    }
}

void Machine::run(const std::function<void(Worker *)> &f)
{
    size_t n = helpers.size();
    if (n) {
        std::lock_guard<std::mutex> hold(lock);
        job = f;
        pending = (int)n;
        ++round;
        go.notify_all();
    }
    f(workers[0]);
    if (n) {
        std::unique_lock<std::mutex> hold(lock);
        done.wait(hold, [&] { return pending == 0; });
        job = nullptr;
    }
}

Machine *machine_new()
{
    ensure_handlers();
    start_watch();
    Machine *m = new Machine();
    m->workers.push_back(new Worker());
    m->ids.push_back(pthread_self());
    std::lock_guard<std::mutex> hold(watch_lock);
    watched.push_back(m);
    return m;
}

void machine_free(Machine *m)
{
    {
        std::lock_guard<std::mutex> hold(watch_lock);
        watched.erase(std::find(watched.begin(), watched.end(), m));
    }
    {
        std::lock_guard<std::mutex> hold(m->lock);
        m->stop = true;
        m->go.notify_all();
    }
    for (std::thread &t : m->helpers)
        t.join();
    delete m->workers[0];
    delete m;
}

} // namespace sm
