// Encoding: what Metal's validation layer would stop at is a violation here, and
// makes the command buffer fail.
#include "queue.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

using namespace sm;

namespace {

// Notices two threads that encode into one command buffer at once, and lets the
// second one wait, so that the violation can be read in peace.
struct Alone {
    sm_cb *cb;
    Alone(sm_cb *c, const char *what) : cb(c)
    {
        SM_GUARD(what);
        if (cb->encoding.try_lock())
            return;
        sm_violation("api", "%s: two threads encode into one command buffer at once", what);
        cb->encoding.lock();
    }
    ~Alone() { cb->encoding.unlock(); }
};

std::string complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string complain(const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sm_violation("api", "%s", text);
    return text;
}

Encoder *open_encoder(sm_cb *cb, int encoder, const char *what, bool blit)
{
    if (encoder < 0 || encoder >= (int)cb->encoders.size()) {
        complain("%s: there is no encoder", what);
        return nullptr;
    }
    Encoder &e = cb->encoders[(size_t)encoder];
    if (!e.open) {
        complain("%s after endEncoding", what);
        return nullptr;
    }
    if (e.blit != blit) {
        complain("%s: the wrong kind of encoder", what);
        return nullptr;
    }
    return &e;
}

enum { kHeld, kRead, kWritten };

void use(sm_cb *cb, sm_buffer *b, int how)
{
    auto it = cb->uses.find(b);
    if (it == cb->uses.end()) {
        sm_buffer_retain(b);
        cb->uses[b] = how;
    } else {
        it->second = std::max(it->second, how);
    }
}

bool good_index(size_t index, const char *what)
{
    if (index < SM_MAX_BUFFERS)
        return true;
    complain("%s: index %zu, the highest is %d", what, index, SM_MAX_BUFFERS - 1);
    return false;
}

Binding &slot(Encoder &e, size_t index)
{
    if (e.bindings.size() <= index)
        e.bindings.resize(index + 1, Binding{nullptr, 0, -1});
    return e.bindings[index];
}

Command make(Command::Kind kind, int encoder, bool concurrent)
{
    Command c = Command();
    c.kind = kind;
    c.encoder = encoder;
    c.concurrent = concurrent;
    return c;
}

} // namespace

extern "C" {

int sm_enc_begin(sm_cb *cb, int concurrent, int blit)
{
    Alone alone(cb, "commandEncoder");
    if (cb->committed) {
        complain("an encoder is made after commit");
        return -1;
    }
    if (cb->open_encoder >= 0) {
        complain("an encoder is made while another one of the command buffer is open");
        return -1;
    }
    Encoder e = Encoder();
    e.open = true;
    e.concurrent = concurrent;
    e.blit = blit;
    cb->encoders.push_back(e);
    cb->open_encoder = (int)cb->encoders.size() - 1;
    return cb->open_encoder;
}

void sm_enc_end(sm_cb *cb, int encoder)
{
    Alone alone(cb, "endEncoding");
    if (encoder < 0 || encoder >= (int)cb->encoders.size() ||
        !cb->encoders[(size_t)encoder].open) {
        complain("endEncoding of an encoder that is not open");
        return;
    }
    cb->encoders[(size_t)encoder].open = false;
    cb->encoders[(size_t)encoder].bindings.clear();
    cb->open_encoder = -1;
}

int sm_enc_open(sm_cb *cb, int encoder)
{
    return encoder >= 0 && encoder < (int)cb->encoders.size() &&
           cb->encoders[(size_t)encoder].open;
}

void sm_enc_label(sm_cb *cb, int encoder, const char *label)
{
    if (encoder >= 0 && encoder < (int)cb->encoders.size())
        cb->encoders[(size_t)encoder].label = label ? label : "";
}

void sm_enc_signpost(sm_cb *cb, int encoder, const char *text)
{
    if (encoder >= 0 && encoder < (int)cb->encoders.size())
        cb->encoders[(size_t)encoder].signposts += std::string(text ? text : "") + "\n";
}

void sm_enc_pipeline(sm_cb *cb, int encoder, sm_kernel *k, unsigned max_threads, int device)
{
    Alone alone(cb, "setComputePipelineState");
    Encoder *e = open_encoder(cb, encoder, "setComputePipelineState", false);
    if (!e)
        return;
    if (!k) {
        complain("setComputePipelineState: nil");
        return;
    }
    if (device != sm_queue_device(cb->queue))
        complain("setComputePipelineState: %s belongs to another device", k->name.c_str());
    if (std::find(cb->programs.begin(), cb->programs.end(), k->program) == cb->programs.end()) {
        sm_program_retain(k->program);
        cb->programs.push_back(k->program);
    }
    e->kernel = k;
    e->max_threads = max_threads;
}

void sm_enc_buffer(sm_cb *cb, int encoder, sm_buffer *b, size_t offset, size_t index)
{
    Alone alone(cb, "setBuffer");
    Encoder *e = open_encoder(cb, encoder, "setBuffer", false);
    if (!e || !good_index(index, "setBuffer"))
        return;
    if (b && offset >= b->length) {
        complain("setBuffer: offset %zu in buffer %s of %zu bytes", offset, sm_buffer_name(b),
                 b->length);
        return;
    }
    if (b && b->device != sm_queue_device(cb->queue)) {
        complain("setBuffer: buffer %s belongs to another device", sm_buffer_name(b));
        return;
    }
    slot(*e, index) = Binding{b, offset, -1};
    if (b)
        use(cb, b, kHeld);
}

void sm_enc_buffer_offset(sm_cb *cb, int encoder, size_t offset, size_t index)
{
    Alone alone(cb, "setBufferOffset");
    Encoder *e = open_encoder(cb, encoder, "setBufferOffset", false);
    if (!e || !good_index(index, "setBufferOffset"))
        return;
    Binding &s = slot(*e, index);
    if (!s.buffer)
        complain("setBufferOffset: no buffer at index %zu", index);
    else if (offset >= s.buffer->length)
        complain("setBufferOffset: offset %zu in buffer %s of %zu bytes", offset,
                 sm_buffer_name(s.buffer), s.buffer->length);
    else
        s.offset = offset;
}

void sm_enc_bytes(sm_cb *cb, int encoder, const void *bytes, size_t length, size_t index)
{
    Alone alone(cb, "setBytes");
    Encoder *e = open_encoder(cb, encoder, "setBytes", false);
    if (!e || !good_index(index, "setBytes"))
        return;
    if (!bytes || !length || length > SM_MAX_BYTES) {
        complain("setBytes: %zu bytes, between 1 and %d are allowed", length, SM_MAX_BYTES);
        return;
    }
    const char *p = (const char *)bytes;
    cb->bytes.emplace_back(p, p + length);
    slot(*e, index) = Binding{nullptr, 0, (int)cb->bytes.size() - 1};
}

void sm_enc_threadgroup(sm_cb *cb, int encoder, size_t length, size_t index)
{
    Alone alone(cb, "setThreadgroupMemoryLength");
    Encoder *e = open_encoder(cb, encoder, "setThreadgroupMemoryLength", false);
    if (!e || !good_index(index, "setThreadgroupMemoryLength"))
        return;
    if (length % 16)
        complain("setThreadgroupMemoryLength: %zu is not a multiple of 16", length);
    if (length > (size_t)SM_KNOB(threadgroup_memory)) {
        complain("setThreadgroupMemoryLength: %zu bytes, the device has %ld", length,
                 SM_KNOB(threadgroup_memory));
        return;
    }
    e->threadgroup[index] = (uint32_t)length;
}

void sm_enc_dispatch(sm_cb *cb, int encoder, int threads, const size_t grid[3],
                     const size_t group[3], sm_buffer *indirect, size_t indirect_offset)
{
    Alone alone(cb, "dispatch");
    Encoder *e = open_encoder(cb, encoder, "dispatch", false);
    if (!e)
        return;
    Command c = make(Command::kDispatch, encoder, e->concurrent);
    c.kernel = e->kernel;
    c.threads = threads;
    for (int d = 0; d < 3; ++d) {
        c.grid[d] = grid ? grid[d] : 0;
        c.group[d] = group[d];
    }
    memcpy(c.threadgroup, e->threadgroup, sizeof c.threadgroup);
    if (!c.kernel) {
        complain("a dispatch without a pipeline state");
        return;
    }
    const char *name = c.kernel->name.c_str();
    size_t product = group[0] * group[1] * group[2];
    size_t memory = c.kernel->memory;
    for (uint32_t n : c.threadgroup)
        memory += n;
    if (!product || product > e->max_threads || group[0] > 1024 || group[1] > 1024 ||
        group[2] > 1024)
        c.broken = complain("%s: %zu x %zu x %zu threads in a threadgroup, the pipeline takes 1 to "
                            "%u", name, group[0], group[1], group[2], e->max_threads);
    else if (memory > (size_t)SM_KNOB(threadgroup_memory))
        c.broken = complain("%s: %zu bytes of threadgroup memory, the device has %ld", name, memory,
                            SM_KNOB(threadgroup_memory));
    else if (!indirect && (!grid[0] || !grid[1] || !grid[2]))
        c.broken = complain("%s: a grid of %zu x %zu x %zu", name, grid[0], grid[1], grid[2]);
    // Bind only what the kernel takes, so that leftovers of earlier dispatches
    // do not count as used.
    for (const sm_argument &a : c.kernel->arguments) {
        if (a.kind == 3 || a.index >= e->bindings.size())
            continue;
        if (c.bindings.size() <= a.index)
            c.bindings.resize(a.index + 1, Binding{nullptr, 0, -1});
        c.bindings[a.index] = e->bindings[a.index];
        if (c.bindings[a.index].buffer)
            use(cb, c.bindings[a.index].buffer,
                a.kind == 1 && !a.readonly ? kWritten : kRead);
    }
    if (indirect) {
        c.indirect = indirect;
        c.indirect_offset = indirect_offset;
        if (indirect_offset % 4 || indirect_offset + 12 > indirect->length) {
            c.indirect = nullptr;
            c.broken = complain("%s: indirect arguments at offset %zu of %zu bytes", name,
                                indirect_offset, indirect->length);
        }
        use(cb, indirect, kRead);
    }
    cb->commands.push_back(std::move(c));
}

void sm_enc_barrier(sm_cb *cb, int encoder)
{
    Alone alone(cb, "memoryBarrier");
    if (open_encoder(cb, encoder, "memoryBarrier", false))
        cb->commands.push_back(make(Command::kBarrier, encoder, false));
}

void sm_enc_fence(sm_cb *cb, int encoder, sm_event *fence, int update)
{
    Alone alone(cb, "fence");
    bool blit = encoder >= 0 && encoder < (int)cb->encoders.size() &&
                cb->encoders[(size_t)encoder].blit;
    Encoder *e = open_encoder(cb, encoder, update ? "updateFence" : "waitForFence", blit);
    if (!e)
        return;
    if (update)
        e->updated.push_back(fence);
    else if (std::find(e->updated.begin(), e->updated.end(), fence) != e->updated.end())
        complain("waitForFence after updateFence of the same fence in one encoder");
}

void sm_enc_use(sm_cb *cb, int encoder, sm_buffer *b, int write)
{
    Alone alone(cb, "useResource");
    if (open_encoder(cb, encoder, "useResource", false) && b)
        use(cb, b, write ? kWritten : kRead);
}

void sm_enc_copy(sm_cb *cb, int encoder, sm_buffer *src, size_t src_offset, sm_buffer *dst,
                 size_t dst_offset, size_t size)
{
    Alone alone(cb, "copyFromBuffer");
    Encoder *e = open_encoder(cb, encoder, "copyFromBuffer", true);
    if (!e)
        return;
    Command c = make(Command::kCopy, encoder, false);
    c.source = src;
    c.destination = dst;
    c.source_offset = src_offset;
    c.destination_offset = dst_offset;
    c.size = size;
    if (!src || !dst || !size || src_offset + size > src->length ||
        dst_offset + size > dst->length || src_offset + size < size || dst_offset + size < size) {
        complain("copyFromBuffer: %zu bytes from offset %zu to offset %zu", size, src_offset,
                 dst_offset);
        return;
    }
    if (size % 4 || src_offset % 4 || dst_offset % 4)
        c.broken = complain("copyFromBuffer: sizes and offsets must be multiples of 4 on macOS "
                            "(%zu, %zu, %zu)", size, src_offset, dst_offset);
    if (src == dst && src_offset < dst_offset + size && dst_offset < src_offset + size)
        c.broken = complain("copyFromBuffer: source and destination overlap");
    use(cb, src, kRead);
    use(cb, dst, kWritten);
    cb->commands.push_back(std::move(c));
}

void sm_enc_fill(sm_cb *cb, int encoder, sm_buffer *b, size_t offset, size_t size, int value)
{
    Alone alone(cb, "fillBuffer");
    Encoder *e = open_encoder(cb, encoder, "fillBuffer", true);
    if (!e)
        return;
    Command c = make(Command::kFill, encoder, false);
    c.destination = b;
    c.destination_offset = offset;
    c.size = size;
    c.value = value;
    if (!b || !size || offset + size > b->length || offset + size < size) {
        complain("fillBuffer: %zu bytes at offset %zu", size, offset);
        return;
    }
    if (size % 4 || offset % 4)
        c.broken = complain("fillBuffer: offset and size must be multiples of 4 on macOS (%zu, %zu)",
                            offset, size);
    use(cb, b, kWritten);
    cb->commands.push_back(std::move(c));
}

void sm_cb_signal_event(sm_cb *cb, sm_event *e, uint64_t value)
{
    Alone alone(cb, "encodeSignalEvent");
    if (cb->committed || cb->open_encoder >= 0 || !e) {
        complain("encodeSignalEvent inside an encoder or after commit");
        return;
    }
    Command c = make(Command::kSignal, -1, false);
    sm_event_retain(e);
    c.event = e;
    c.event_value = value;
    cb->has_event = true;
    cb->commands.push_back(std::move(c));
}

void sm_cb_wait_event(sm_cb *cb, sm_event *e, uint64_t value)
{
    Alone alone(cb, "encodeWaitForEvent");
    if (cb->committed || cb->open_encoder >= 0 || !e) {
        complain("encodeWaitForEvent inside an encoder or after commit");
        return;
    }
    Command c = make(Command::kWait, -1, false);
    sm_event_retain(e);
    c.event = e;
    c.event_value = value;
    cb->has_event = true;
    cb->commands.push_back(std::move(c));
}

} // extern "C"
