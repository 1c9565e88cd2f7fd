// Knob `trace`: kernels report every load and store.
#ifndef SOFTMETAL_TRACE_H
#define SOFTMETAL_TRACE_H

#include "memory.h"

#include <vector>

namespace sm {

struct Worker;

struct Bound { // memory that a dispatch may touch
    char *low, *high;
    sm_buffer *buffer; // null: bytes given with setBytes
    int index;
};

struct Trace {
    bool on = false;
    uint32_t dispatch = 0, group = 0; // numbers that tell accesses apart
    std::vector<Bound> bounds;
    size_t last = 0;
    int reported = 0;
    struct Cell *local = nullptr;
};

// A new set of accesses: those of earlier dispatches are ordered before it.
void trace_new_epoch(Worker *w);
void trace_dispatch(Worker *w, const std::vector<Bound> &bounds);
void trace_group(Worker *w);
void trace_free(Worker *w);

} // namespace sm
#endif
