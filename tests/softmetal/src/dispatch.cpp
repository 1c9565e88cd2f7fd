// Executes the commands of a command buffer: grids, copies, injected errors.
#include "machine.h"

#include <algorithm>
#include <cstring>

namespace sm {

// ---- one dispatch -----------------------------------------------------------------------

namespace {

struct Grid {
    sm_group base;
    uint64_t total; // groups
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    int order;
    uint64_t step, start; // shuffled order: start + i * step modulo total
};

// Sets the worker's group to the next one of the grid.
bool next_group(Worker *w, void *data)
{
    Grid &g = *(Grid *)data;
    if (g.failed.load(std::memory_order_relaxed))
        return false;
    uint64_t i = g.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= g.total)
        return false;
    if (g.order == 1)
        i = g.total - 1 - i;
    else if (g.order == 2)
        i = (uint64_t)(((unsigned __int128)i * g.step + g.start) % g.total);
    sm_group &t = w->group;
    uint64_t at[3] = {i % g.base.groups[0], i / g.base.groups[0] % g.base.groups[1],
                      i / g.base.groups[0] / g.base.groups[1]};
    for (int d = 0; d < 3; ++d) {
        t.group[d] = (uint32_t)at[d];
        uint64_t left = g.base.threads[d] - at[d] * g.base.nominal[d];
        t.size[d] = (uint32_t)std::min<uint64_t>(left, g.base.nominal[d]);
    }
    return true;
}

void run_groups(Worker *w, Grid &grid, sm_kernel *k, const sm_cb &cb, const Command &c,
                const std::vector<Bound> &buffers)
{
    sm_group base = grid.base;
    std::vector<Bound> bounds = buffers;
    for (size_t i = 0; i < c.bindings.size(); ++i)
        if (c.bindings[i].bytes >= 0) {
            const std::vector<char> &v = cb.bytes[(size_t)c.bindings[i].bytes];
            char *p = w->bytes_slot((int)i, (uint32_t)v.size());
            memcpy(p, v.data(), v.size());
            base.buffer[i] = (uint64_t)(uintptr_t)p;
            bounds.push_back({p, p + v.size(), nullptr, (int)i});
        }
    if (!w->start_dispatch(k, base, c.threadgroup)) {
        w->outcome = kBad;
        snprintf(w->message, sizeof w->message, "%s: too much threadgroup memory", k->name.c_str());
        grid.failed = true;
        return;
    }
    trace_dispatch(w, bounds);
    Outcome o;
    if (!k->uses && w->pieces.empty() && w->order == 0 && !w->trace.on) {
        o = w->run_plain(next_group, &grid);
    } else {
        o = kOk;
        while (o == kOk && next_group(w, &grid))
            o = w->run_group();
    }
    if (o != kOk)
        grid.failed = true;
    w->outcome = o;
}

bool fits(uint64_t v) { return v > 0 && v <= 0xffffffffu; }

// Empty when the dispatch can run, else what is wrong with it.
std::string check_dispatch(Command &c, sm_kernel *k, sm_cb *cb)
{
    char text[400];
    for (const sm_argument &a : k->arguments) {
        if (a.kind == 3) {
            if (!c.threadgroup[a.index]) {
                snprintf(text, sizeof text, "%s: threadgroup argument %u has no memory",
                         k->name.c_str(), a.index);
                return text;
            }
            continue;
        }
        Binding none = {nullptr, 0, -1};
        const Binding &b = a.index < c.bindings.size() ? c.bindings[a.index] : none;
        size_t have;
        if (b.bytes >= 0) {
            have = cb->bytes[(size_t)b.bytes].size();
        } else if (b.buffer) {
            have = b.buffer->length - std::min(b.offset, b.buffer->length);
            size_t align = a.kind == 2 ? (size_t)SM_KNOB(constant_align) : a.align;
            if (align && b.offset % align) {
                snprintf(text, sizeof text, "%s: offset %zu of buffer argument %u is not a "
                         "multiple of %zu", k->name.c_str(), b.offset, a.index, align);
                return text;
            }
        } else {
            snprintf(text, sizeof text, "%s: buffer argument %u is not bound", k->name.c_str(),
                     a.index);
            return text;
        }
        if (have < a.bytes) {
            snprintf(text, sizeof text, "%s: buffer argument %u needs %u bytes, %zu are bound",
                     k->name.c_str(), a.index, a.bytes, have);
            return text;
        }
    }
    return "";
}

int error_code(Outcome o)
{
    return o == kTimeout ? 2 : o == kFault ? 3 : o == kStackOverflow ? 12 : 1;
}

// True when it ran; else the command buffer has an error.
bool dispatch(Machine *m, sm_cb *cb, Command &c)
{
    sm_kernel *k = c.kernel;
    std::string wrong = c.broken.empty() ? check_dispatch(c, k, cb) : c.broken;
    if (!wrong.empty()) {
        if (c.broken.empty())
            sm_violation("api", "%s", wrong.c_str());
        end_command(cb, 9, wrong);
        return false;
    }
    Grid grid;
    memset(&grid.base, 0, sizeof grid.base);
    if (c.indirect) {
        uint32_t v[3];
        memcpy(v, c.indirect->gpu + c.indirect_offset, sizeof v);
        for (int d = 0; d < 3; ++d)
            c.grid[d] = v[d];
    }
    grid.total = 1;
    for (int d = 0; d < 3; ++d) {
        uint64_t threads = c.threads ? c.grid[d] : c.grid[d] * c.group[d];
        uint64_t groups = c.threads ? (c.grid[d] + c.group[d] - 1) / c.group[d] : c.grid[d];
        if (!fits(threads) || !fits(groups)) {
            std::string text = k->name + ": a grid of " + std::to_string(threads) +
                               " threads is empty or does not fit in 32 bits";
            sm_violation("api", "%s", text.c_str());
            end_command(cb, 9, text);
            return false;
        }
        grid.base.nominal[d] = (uint32_t)c.group[d];
        grid.base.groups[d] = (uint32_t)groups;
        grid.base.threads[d] = (uint32_t)threads;
        grid.total *= groups;
    }
    grid.base.simd_width = (uint32_t)SM_KNOB(simd_width);
    grid.order = (int)SM_KNOB(order);
    if (grid.order == 2) {
        uint64_t r = (uint64_t)SM_KNOB(seed) * 0x9E3779B97F4A7C15u;
        grid.start = r % grid.total;
        grid.step = (r >> 17) % grid.total | 1;
        auto gcd = [](uint64_t a, uint64_t b) {
            while (b) {
                uint64_t t = a % b;
                a = b;
                b = t;
            }
            return a;
        };
        while (gcd(grid.step, grid.total) != 1)
            grid.step += 2;
    }
    std::vector<Bound> bounds;
    for (size_t i = 0; i < c.bindings.size(); ++i) {
        sm_buffer *b = c.bindings[i].buffer;
        if (!b)
            continue;
        if (b->owner_gone.load() && !cb->retained)
            sm_violation("api", "%s: buffer %s was freed while a command buffer with unretained "
                         "references was in flight", k->name.c_str(), sm_buffer_name(b));
        grid.base.buffer[i] = (uint64_t)(uintptr_t)(b->gpu + c.bindings[i].offset);
        bounds.push_back({b->gpu, b->gpu + b->length, b, (int)i});
    }
    long count = SM_KNOB(trace) ? 1 : SM_KNOB(workers);
    m->want((size_t)std::max(1L, std::min(count, 64L)));
    for (Worker *w : m->workers)
        w->outcome = kOk;
    // All members of one concurrent stretch count as simultaneous for races.
    if (!c.concurrent)
        trace_new_epoch(m->workers[0]);
    if (count > 1)
        m->run([&](Worker *w) { run_groups(w, grid, k, *cb, c, bounds); });
    else
        run_groups(m->workers[0], grid, k, *cb, c, bounds);
    SM_COUNT(dispatches, 1);
    SM_COUNT(threads, (long)((uint64_t)grid.base.threads[0] * grid.base.threads[1] *
                             grid.base.threads[2]));
    for (const sm_argument &a : k->arguments)
        if (a.kind == 1 && !a.readonly && a.index < c.bindings.size() &&
            c.bindings[a.index].buffer)
            check_canary(c.bindings[a.index].buffer, k->name.c_str());
    for (Worker *w : m->workers)
        if (w->outcome != kOk || m->expired.load()) {
            Outcome o = w->outcome == kOk ? kTimeout : w->outcome;
            end_command(cb, error_code(o),
                        o == kTimeout ? k->name + ": killed by the watchdog" : w->message);
            return false;
        }
    return true;
}

bool copy(sm_cb *cb, Command &c)
{
    if (!c.broken.empty()) {
        end_command(cb, 9, c.broken);
        return false;
    }
    if (c.kind == Command::kFill)
        memset(c.destination->gpu + c.destination_offset, c.value, c.size);
    else
        memmove(c.destination->gpu + c.destination_offset, c.source->gpu + c.source_offset, c.size);
    return true;
}

} // namespace

std::string error_message(int code)
{
    switch (code) {
    case 1: return "Internal Error (0000000e:Internal Error)";
    case 2: return "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)";
    case 3: return "Caused GPU Address Fault Error "
                   "(0000000b:kIOGPUCommandBufferCallbackErrorPageFault)";
    case 4: return "Ignored (for causing prior/excessive GPU errors) "
                   "(00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)";
    case 7: return "Insufficient Permission (to submit GPU work from background) "
                   "(00000006:kIOGPUCommandBufferCallbackErrorBackgroundExecutionNotPermitted)";
    case 8: return "Insufficient Memory "
                   "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)";
    case 9: return "Invalid Resource "
                   "(00000009:kIOGPUCommandBufferCallbackErrorInvalidResource)";
    case 11: return "Device Removed";
    case 12: return "Stack Overflow (0000000c:kIOGPUCommandBufferCallbackErrorStackOverflow)";
    default: return "Unknown Error";
    }
}

void end_command(sm_cb *cb, int code, const std::string &text)
{
    if (cb->error)
        return;
    cb->error = code;
    cb->error_text = error_message(code);
    if (!text.empty())
        cb->error_text += ": " + text;
}

void execute(Machine *m, sm_cb *cb)
{
    static std::atomic<uint64_t> numbers{0};
    m->expired = false;
    m->running = ++numbers;
    FlushSubnormals flush;
    bool injected = false;
    int code = (int)SM_KNOB(inject);
    if (code && !sm_knob_take(SM_K_inject_after))
        injected = sm_knob_take(SM_K_inject_count);
    long budget = SM_KNOB(inject_at);

    // Commands of a concurrent encoder between two barriers have no order: run
    // them backwards or shuffled when the knob says so.
    std::vector<size_t> sequence;
    uint64_t r = (uint64_t)SM_KNOB(seed) * 0x9E3779B97F4A7C15u | 1;
    for (size_t i = 0; i < cb->commands.size();) {
        size_t end = i + 1;
        while (end < cb->commands.size() && cb->commands[i].concurrent &&
               cb->commands[end].concurrent && cb->commands[end].encoder == cb->commands[i].encoder)
            ++end;
        size_t at = sequence.size();
        for (size_t k = i; k < end; ++k)
            sequence.push_back(k);
        if (SM_KNOB(order) == 1)
            std::reverse(sequence.begin() + (long)at, sequence.end());
        else if (SM_KNOB(order) == 2)
            for (size_t n = end - i; n > 1; --n) {
                r = r * 6364136223846793005u + 1442695040888963407u;
                std::swap(sequence[at + n - 1], sequence[at + (r >> 33) % n]);
            }
        i = end;
    }
    int last_encoder = -1;
    bool fresh_stretch = true;
    for (size_t s : sequence) {
        Command &c = cb->commands[s];
        if (c.encoder >= 0) {
            last_encoder = c.encoder;
            cb->encoders[(size_t)c.encoder].state = 3;
        }
        if (c.concurrent && fresh_stretch)
            trace_new_epoch(m->workers[0]);
        fresh_stretch = !c.concurrent;
        bool ok = true;
        switch (c.kind) {
        case Command::kDispatch:
            if (injected && budget-- <= 0) {
                end_command(cb, code, "injected");
                ok = false;
            } else {
                FlushSubnormals::set();
                ok = dispatch(m, cb, c);
            }
            break;
        case Command::kCopy:
        case Command::kFill: ok = copy(cb, c); break;
        case Command::kBarrier: break;
        case Command::kSignal: sm_event_signal(c.event, c.event_value); break;
        case Command::kWait: {
            uint64_t limit = (uint64_t)SM_KNOB(watchdog_ms);
            if (!sm_event_wait(c.event, c.event_value, limit ? limit : 1000000)) {
                end_command(cb, 2, "an event was not signalled");
                ok = false;
            }
            break;
        }
        }
        if (!ok)
            break;
    }
    if (injected)
        end_command(cb, code, "injected");
    for (int e = 0; e < (int)cb->encoders.size(); ++e)
        cb->encoders[(size_t)e].state =
            !cb->error ? 1 : e < last_encoder ? 1 : e == last_encoder ? 4 : 3;
    m->running = 0;
}

} // namespace sm
