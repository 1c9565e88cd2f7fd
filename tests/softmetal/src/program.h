// A compiled library and its kernels.  The structures mirror msl/wrap.h.
#ifndef SOFTMETAL_PROGRAM_H
#define SOFTMETAL_PROGRAM_H

#include "core.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

struct sm_group {
    uint64_t buffer[SM_MAX_BUFFERS];
    uint64_t threadgroup_arg[SM_MAX_BUFFERS];
    uint32_t group[3];
    uint32_t groups[3];
    uint32_t nominal[3];
    uint32_t size[3];
    uint32_t threads[3];
    uint32_t simd_width;
};

struct sm_argument {
    uint32_t kind; // 1 device, 2 constant, 3 threadgroup, 0 end of table
    uint32_t index, bytes, align, readonly;
};

struct sm_kernel {
    sm_program *program;
    std::string name;
    // Threads x0 .. x1 - 1 of row (z, y); one thread only if the kernel may wait.
    void (*row)(const sm_group *, uint32_t z, uint32_t y, uint32_t x0, uint32_t x1);
    std::vector<sm_argument> arguments;
    unsigned uses;        // SM_USES_*
    unsigned max_threads; // attribute
    unsigned memory;      // static threadgroup memory, bytes
    std::vector<std::pair<unsigned, unsigned>> sites; // number, bytes of each variable
};

struct sm_program {
    std::atomic<int> refs;
    std::string source, constants, path;
    sm_compile_options options;
    std::string macros;
    void *handle;
    bool needs_constants;
    std::string constant_list; // "index type name" lines
    std::vector<std::unique_ptr<sm_kernel>> kernels;
};

#endif
