// Queues: one thread each that executes command buffers in commit order, or,
// with reorder, independent ones in another order.
#include "queue.h"

#include <algorithm>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

using namespace sm;
using Clock = std::chrono::steady_clock;

void (*sm_thread_hook)(int start);

struct sm_queue {
    std::atomic<int> refs; // the MTLCommandQueue, command buffers, the thread
    int device;
    long slots, used;
    bool ignoring; // a fault happened: nothing runs any more
    bool stop;
    bool running;
    std::mutex lock;
    std::condition_variable work, free_slot;
    std::deque<sm_cb *> pending;
    pthread_t thread;
    bool started;
};

namespace {

// Never destroyed: queues may still run while the process exits.
std::mutex &all_lock = *new std::mutex;
std::condition_variable &all_idle = *new std::condition_variable;
long uncompleted;
thread_local sm_cb *handling; // its handlers run on this thread

double now_seconds()
{
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void set_status(sm_cb *cb, int status)
{
    std::lock_guard<std::mutex> hold(cb->lock);
    cb->status = status;
    cb->changed.notify_all();
}

// Counts down under the object's lock: thread sanitizer, which sees the locks of
// this library but not its atomics, then knows that the last user comes last.
template <typename T> bool last_reference(T *object)
{
    std::lock_guard<std::mutex> hold(object->lock);
    return object->refs.fetch_sub(1) == 1;
}

void queue_unref(sm_queue *q)
{
    if (last_reference(q))
        delete q;
}

void give_slot(sm_cb *cb)
{
    sm_queue *q = cb->queue;
    std::lock_guard<std::mutex> hold(q->lock);
    if (cb->has_slot) {
        cb->has_slot = false;
        --q->used;
        q->free_slot.notify_one();
    }
}

bool depends(sm_cb *later, sm_cb *earlier)
{
    if (later->has_event || earlier->has_event)
        return true;
    for (auto &u : later->uses) {
        auto it = earlier->uses.find(u.first);
        if (it != earlier->uses.end() && u.second && it->second && u.second + it->second > 2 &&
            (u.first->options >> 8 & 3) != 1) // untracked: no order is promised
            return true;
    }
    return false;
}

// Called with the queue's lock held; pending is not empty.
sm_cb *pick(sm_queue *q, std::unique_lock<std::mutex> &hold)
{
    if (SM_KNOB(reorder)) {
        if (q->pending.size() < 2 && !q->stop)
            q->work.wait_for(hold, std::chrono::microseconds(SM_KNOB(reorder_us)),
                             [&] { return q->pending.size() >= 2 || q->stop; });
        for (size_t i = q->pending.size(); i-- > 1;) {
            bool free = true;
            for (size_t k = 0; k < i && free; ++k)
                free = !depends(q->pending[i], q->pending[k]);
            if (free) {
                sm_cb *cb = q->pending[i];
                q->pending.erase(q->pending.begin() + (long)i);
                return cb;
            }
        }
    }
    sm_cb *cb = q->pending.front();
    q->pending.pop_front();
    return cb;
}

void run(sm_queue *q, Machine *m, sm_cb *cb)
{
    long delay = SM_KNOB(delay_us);
    if (delay) {
        auto start = cb->commit_time + std::chrono::microseconds(delay);
        auto now = Clock::now();
        if (start > now)
            usleep((useconds_t)std::chrono::duration_cast<std::chrono::microseconds>(start - now)
                       .count());
    }
    set_status(cb, 3);
    cb->callback(cb->object, 0);
    cb->times[0] = cb->times[2] = now_seconds();
    if (q->ignoring && SM_KNOB(ignore_after_fault))
        end_command(cb, 4, "");
    else
        execute(m, cb);
    cb->times[1] = cb->times[3] = now_seconds();
    if (cb->error && cb->error != 4 && cb->error != 8)
        q->ignoring = true;
    for (auto &u : cb->uses)
        if (u.second)
            end_use(u.first, u.second == 2, cb->has_event);
    SM_COUNT(completions, 1);
    SM_COUNT(in_flight, -1);
    if (cb->error)
        SM_COUNT(errors, 1);
    set_status(cb, cb->error ? 5 : 4);
    if (SM_KNOB(handler_delay_us))
        usleep((useconds_t)SM_KNOB(handler_delay_us));
    // Handlers first, then the slot: a handler that waits for something that a
    // blocked commandBuffer call holds is a deadlock here too.
    handling = cb;
    cb->callback(cb->object, 1);
    handling = nullptr;
    give_slot(cb);
    {
        std::lock_guard<std::mutex> hold(cb->lock);
        cb->finished = true;
        cb->changed.notify_all();
    }
    cb->callback(cb->object, 2);
    {
        std::lock_guard<std::mutex> hold(all_lock);
        if (--uncompleted == 0)
            all_idle.notify_all();
    }
    sm_cb_release(cb);
}

void *queue_main(void *arg)
{
    sm_queue *q = (sm_queue *)arg;
    sigset_t all;
    sigfillset(&all);
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
        sigdelset(&all, s);
    sigdelset(&all, SIGRTMAX - 3);
    pthread_sigmask(SIG_SETMASK, &all, nullptr); // signals are for the host's threads
    if (sm_thread_hook)
        sm_thread_hook(1);
    Machine *m = machine_new();
    std::unique_lock<std::mutex> hold(q->lock);
    for (;;) {
        q->work.wait(hold, [&] { return q->stop || !q->pending.empty(); });
        if (q->pending.empty())
            break;
        sm_cb *cb = pick(q, hold);
        hold.unlock();
        run(q, m, cb);
        hold.lock();
    }
    hold.unlock();
    machine_free(m);
    if (sm_thread_hook)
        sm_thread_hook(0);
    queue_unref(q);
    return nullptr;
}

} // namespace

extern "C" {

sm_queue *sm_queue_new(int device, long slots)
{
    sm_queue *q = new sm_queue();
    q->refs = 1;
    q->device = device;
    q->slots = slots;
    SM_COUNT(queues, 1);
    return q;
}

void sm_queue_release(sm_queue *q)
{
    {
        std::lock_guard<std::mutex> hold(q->lock);
        q->stop = true;
        q->work.notify_all();
    }
    SM_COUNT(queues, -1);
    queue_unref(q);
}

int sm_queue_device(sm_queue *q) { return q->device; }

sm_cb *sm_cb_new(sm_queue *q, int retained)
{
    std::unique_lock<std::mutex> hold(q->lock);
    auto have = [&] { return q->used < q->slots; };
    if (!have()) {
        long ms = SM_KNOB(block_timeout_ms);
        if (!q->free_slot.wait_for(hold, std::chrono::milliseconds(ms), have))
            sm_violation("deadlock", "commandBuffer waited %ld ms: %ld command buffers of the queue "
                         "are not completed", ms, q->used);
    }
    ++q->used;
    q->refs.fetch_add(1);
    sm_cb *cb = new sm_cb();
    cb->refs = 1;
    cb->queue = q;
    cb->retained = retained;
    cb->has_slot = true;
    cb->open_encoder = -1;
    SM_COUNT(command_buffers_alive, 1);
    return cb;
}

void sm_cb_release(sm_cb *cb)
{
    if (!last_reference(cb))
        return;
    for (auto &u : cb->uses)
        sm_buffer_release(u.first);
    for (sm_program *p : cb->programs)
        sm_program_release(p);
    for (Command &c : cb->commands)
        if (c.event)
            sm_event_release(c.event);
    give_slot(cb);
    SM_COUNT(command_buffers_alive, -1);
    queue_unref(cb->queue);
    delete cb;
}

void sm_cb_set_label(sm_cb *cb, const char *label) { cb->label = label ? label : ""; }

int sm_cb_enqueue(sm_cb *cb)
{
    if (cb->committed || cb->enqueued) {
        sm_violation("api", "enqueue of a command buffer that is enqueued or committed");
        return 0;
    }
    cb->enqueued = true;
    set_status(cb, 1);
    return 1;
}

int sm_cb_commit(sm_cb *cb, sm_cb_callback callback, void *object)
{
    if (cb->committed) {
        sm_violation("api", "commit of a command buffer that is committed");
        return 0;
    }
    if (cb->open_encoder >= 0) {
        sm_violation("api", "commit while an encoder is open");
        cb->encoders[(size_t)cb->open_encoder].open = false;
    }
    ensure_handlers();
    sm_queue *q = cb->queue;
    cb->committed = true;
    cb->callback = callback;
    cb->object = object;
    cb->refs.fetch_add(1);
    cb->commit_time = Clock::now();
    {
        std::lock_guard<std::mutex> hold(all_lock);
        ++uncompleted;
    }
    SM_COUNT(commits, 1);
    long flying = SM_COUNT(in_flight, 1);
    long *most = &sm_counter_values[SM_C_max_in_flight];
    for (long seen = __atomic_load_n(most, __ATOMIC_RELAXED); seen < flying;)
        if (__atomic_compare_exchange_n(most, &seen, flying, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    for (auto &u : cb->uses)
        if (u.second)
            begin_use(u.first, u.second == 2, q, cb->has_event);
    set_status(cb, 2);
    std::lock_guard<std::mutex> hold(q->lock);
    q->pending.push_back(cb);
    if (!q->started) {
        q->started = true;
        q->refs.fetch_add(1);
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_create(&q->thread, &attr, queue_main, q);
        pthread_attr_destroy(&attr);
    }
    q->work.notify_one();
    return 1;
}

int sm_cb_status(sm_cb *cb)
{
    std::lock_guard<std::mutex> hold(cb->lock);
    return cb->status;
}

int sm_cb_error(sm_cb *cb, const char **text)
{
    std::lock_guard<std::mutex> hold(cb->lock);
    if (cb->status != 5)
        return 0;
    *text = cb->error_text.c_str();
    return cb->error;
}

int sm_cb_encoders(sm_cb *cb) { return (int)cb->encoders.size(); }

int sm_cb_encoder_info(sm_cb *cb, int index, const char **label, const char **signposts)
{
    Encoder &e = cb->encoders[(size_t)index];
    *label = e.label.c_str();
    *signposts = e.signposts.c_str();
    return e.state;
}

void sm_cb_wait(sm_cb *cb, int scheduled_only)
{
    if (!cb->committed) {
        sm_violation("api", "waitUntil%s before commit would wait for ever",
                     scheduled_only ? "Scheduled" : "Completed");
        return;
    }
    if (handling && !scheduled_only && (handling == cb || handling->queue == cb->queue)) {
        if (cb != handling && sm_cb_status(cb) >= 4)
            return;
        sm_violation("deadlock", "waitUntilCompleted in a completed handler of the same queue");
        return;
    }
    std::unique_lock<std::mutex> hold(cb->lock);
    cb->changed.wait(hold, [&] { return scheduled_only ? cb->status >= 3 : cb->finished; });
}

double sm_cb_time(sm_cb *cb, int which) { return cb->times[which]; }

// ---- events ------------------------------------------------------------------------

sm_event *sm_event_new(void)
{
    sm_event *e = new sm_event();
    e->refs = 1;
    SM_COUNT(events, 1);
    return e;
}

void sm_event_retain(sm_event *e) { e->refs.fetch_add(1); }

void sm_event_release(sm_event *e)
{
    if (!last_reference(e))
        return;
    SM_COUNT(events, -1);
    delete e;
}

uint64_t sm_event_value(sm_event *e)
{
    std::lock_guard<std::mutex> hold(e->lock);
    return e->value;
}

void sm_event_signal(sm_event *e, uint64_t value)
{
    std::vector<sm_event::Listener> due;
    {
        std::lock_guard<std::mutex> hold(e->lock);
        e->value = value;
        std::vector<sm_event::Listener> rest;
        for (auto &l : e->listeners)
            (l.value > value ? rest : due).push_back(l);
        e->listeners.swap(rest);
        e->changed.notify_all();
    }
    for (auto &l : due)
        l.call(l.object, value);
}

int sm_event_wait(sm_event *e, uint64_t value, uint64_t milliseconds)
{
    std::unique_lock<std::mutex> hold(e->lock);
    return e->changed.wait_for(hold, std::chrono::milliseconds(std::min<uint64_t>(milliseconds,
                                                                                  1000000000)),
                               [&] { return e->value >= value; });
}

void sm_event_notify(sm_event *e, uint64_t value, void (*call)(void *, uint64_t), void *object)
{
    uint64_t now;
    {
        std::lock_guard<std::mutex> hold(e->lock);
        now = e->value;
        if (now < value)
            e->listeners.push_back({value, call, object});
    }
    if (now >= value)
        call(object, now);
}

void sm_wait_idle(void)
{
    std::unique_lock<std::mutex> hold(all_lock);
    all_idle.wait_for(hold, std::chrono::seconds(60), [] { return uncompleted == 0; });
}

} // extern "C"
