// Command buffers, their commands, and queues.
#ifndef SOFTMETAL_QUEUE_H
#define SOFTMETAL_QUEUE_H

#include "group.h"
#include "memory.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace sm {

struct Binding {
    sm_buffer *buffer;
    size_t offset;
    int bytes; // index into sm_cb::bytes, -1 if none
};

struct Command {
    enum Kind { kDispatch, kCopy, kFill, kBarrier, kSignal, kWait } kind;
    int encoder;
    bool concurrent; // may run beside its neighbours in this encoder
    // dispatch
    sm_kernel *kernel;
    std::vector<Binding> bindings;
    uint32_t threadgroup[SM_MAX_BUFFERS];
    bool threads;
    uint64_t grid[3], group[3];
    sm_buffer *indirect;
    size_t indirect_offset;
    // copy and fill
    sm_buffer *source, *destination;
    size_t source_offset, destination_offset, size;
    int value;
    // events
    sm_event *event;
    uint64_t event_value;
    std::string broken; // found wrong while encoding
};

struct Encoder {
    bool open, concurrent, blit;
    int state; // MTLCommandEncoderErrorState
    std::string label, signposts;
    sm_kernel *kernel;
    unsigned max_threads;
    std::vector<Binding> bindings;
    uint32_t threadgroup[SM_MAX_BUFFERS];
    std::vector<sm_event *> updated; // fences
};

} // namespace sm

struct sm_event {
    std::atomic<int> refs;
    std::mutex lock;
    std::condition_variable changed;
    uint64_t value;
    struct Listener {
        uint64_t value;
        void (*call)(void *, uint64_t);
        void *object;
    };
    std::vector<Listener> listeners;
};

struct sm_cb {
    std::atomic<int> refs;
    std::mutex encoding; // held while a thread encodes
    sm_queue *queue;
    bool retained, has_slot;
    std::string label;
    std::vector<sm::Command> commands;
    std::vector<std::vector<char>> bytes;
    std::vector<sm::Encoder> encoders;
    int open_encoder;
    std::map<sm_buffer *, int> uses; // 0 only held, 1 read, 2 written
    std::vector<sm_program *> programs;
    bool has_event;

    std::mutex lock;
    std::condition_variable changed;
    int status; // MTLCommandBufferStatus
    bool finished; // handlers have run
    bool committed, enqueued;
    int error;
    std::string error_text;
    double times[4];
    std::chrono::steady_clock::time_point commit_time;
    sm_cb_callback callback;
    void *object;
};

namespace sm {

struct Machine; // the workers of one queue

// Runs the commands; sets error and error_text of cb.
void execute(Machine *m, sm_cb *cb);
Machine *machine_new();
void machine_free(Machine *m);

void end_command(sm_cb *cb, int code, const std::string &text);
std::string error_message(int code);

} // namespace sm
#endif
