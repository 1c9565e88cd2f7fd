// Knobs, counters, violations, and the guard against use after fork.
#include "core.h"

#include <atomic>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unistd.h>

long sm_knob_values[SM_KNOBS];
long sm_counter_values[SM_COUNTERS];
int sm_forked;

namespace {

struct Knob {
    const char *name;
    long value;
    const char *text;
};
const Knob knobs[] = {
#define K(name, value, text) {#name, value, text},
#include "knobs.def"
#undef K
};
const Knob counters[] = {
#define C(name, text) {#name, 0, text},
#include "counters.def"
#undef C
};

// Written from signal handlers too: fixed slots, no lock, no allocation.
constexpr int kSlots = 256;
constexpr int kText = 640;
struct Slot {
    std::atomic<int> ready;
    char text[kText];
};
Slot slots[kSlots];
std::atomic<int> recorded;

void load_defaults()
{
    for (int i = 0; i < SM_KNOBS; ++i) {
        std::string name = "SOFTMETAL_";
        for (const char *p = knobs[i].name; *p; ++p)
            name += (char)toupper(*p);
        const char *env = getenv(name.c_str());
        __atomic_store_n(&sm_knob_values[i], env && *env ? strtol(env, nullptr, 0) : knobs[i].value,
                         __ATOMIC_RELAXED);
    }
}

void in_child() { sm_forked = 1; }

struct Start {
    Start()
    {
        load_defaults();
        pthread_atfork(nullptr, nullptr, in_child);
    }
} start;

} // namespace

extern "C" {

int sm_knob_countdown(int knob)
{
    long v = __atomic_load_n(&sm_knob_values[knob], __ATOMIC_RELAXED);
    while (v > 0)
        if (__atomic_compare_exchange_n(&sm_knob_values[knob], &v, v - 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return v == 1;
    return 0;
}

int sm_knob_take(int knob)
{
    long v = __atomic_load_n(&sm_knob_values[knob], __ATOMIC_RELAXED);
    while (v > 0)
        if (__atomic_compare_exchange_n(&sm_knob_values[knob], &v, v - 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return 1;
    return v < 0; // negative: without end
}

void sm_violation(const char *kind, const char *format, ...)
{
    char text[kText];
    int n = snprintf(text, sizeof text, "%s: ", kind);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    for (char *p = text; *p; ++p)
        if (*p == '\n')
            *p = ' ';
    int i = recorded.fetch_add(1);
    if (i < kSlots) {
        memcpy(slots[i].text, text, sizeof text);
        slots[i].ready.store(1);
    }
    if (SM_KNOB(abort)) {
        fprintf(stderr, "softmetal violation: %s\n", text);
        abort();
    }
}

int sm_set(const char *key, long value)
{
    for (int i = 0; i < SM_KNOBS; ++i)
        if (!strcmp(key, knobs[i].name)) {
            __atomic_store_n(&sm_knob_values[i], value, __ATOMIC_RELAXED);
            return 0;
        }
    return -1;
}

long sm_get(const char *key)
{
    for (int i = 0; i < SM_KNOBS; ++i)
        if (!strcmp(key, knobs[i].name))
            return __atomic_load_n(&sm_knob_values[i], __ATOMIC_RELAXED);
    for (int i = 0; i < SM_COUNTERS; ++i)
        if (!strcmp(key, counters[i].name))
            return __atomic_load_n(&sm_counter_values[i], __ATOMIC_RELAXED);
    return -1;
}

int sm_violations(char *buf, size_t size)
{
    int n = recorded.load();
    size_t used = 0;
    if (buf && size)
        buf[0] = 0;
    for (int i = 0; buf && i < n && i < kSlots; ++i) {
        if (!slots[i].ready.load())
            continue;
        size_t len = strlen(slots[i].text);
        if (used + len + 2 > size)
            break;
        memcpy(buf + used, slots[i].text, len);
        used += len;
        buf[used++] = '\n';
        buf[used] = 0;
    }
    return n;
}

void sm_clear(void)
{
    for (Slot &s : slots)
        s.ready.store(0);
    recorded.store(0);
}

void sm_reset(void)
{
    SM_GUARD("sm_reset");
    sm_wait_idle();
    load_defaults();
    sm_counter_values[SM_C_max_in_flight] = 0;
    sm_clear();
}

int sm_describe(char *buf, size_t size)
{
    std::string s;
    for (const Knob &k : knobs)
        s += std::string("knob ") + k.name + " " + std::to_string(k.value) + " " + k.text + "\n";
    for (const Knob &c : counters)
        s += std::string("counter ") + c.name + " " + c.text + "\n";
    snprintf(buf, size, "%s", s.c_str());
    return (int)s.size();
}

void sm_guard(const char *what)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "softmetal: %s in a forked child: Metal cannot be used after fork "
                     "(use spawn)\n", what);
    ssize_t written = write(2, text, (size_t)n);
    (void)written;
    abort();
}

} // extern "C"
