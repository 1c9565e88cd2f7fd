// Loads compiled libraries, and the few functions that kernels call beyond
// barriers and SIMD-groups.
#include "program.h"
#include "compile.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <sstream>
#include <unistd.h>

namespace {

struct Site {
    int32_t pc; // relative to its own place
    uint32_t bytes, number;
};

char *copy_text(const std::string &s)
{
    char *p = (char *)malloc(s.size() + 1);
    memcpy(p, s.c_str(), s.size() + 1);
    return p;
}

// Sizes of threadgroup variables, told apart by the wrapper they were inlined into.
void read_sites(sm_program *p, std::map<std::string, sm_kernel *> &by_wrapper)
{
    typedef uint64_t (*range_fn)(uint32_t);
    range_fn range = (range_fn)dlsym(p->handle, "__sm_tg_range");
    if (!range)
        return;
    Site *s = (Site *)range(0), *end = (Site *)range(1);
    for (; s < end; ++s) {
        Dl_info info;
        char *pc = (char *)&s->pc + s->pc;
        if (!dladdr(pc, &info) || !info.dli_sname)
            continue;
        auto it = by_wrapper.find(info.dli_sname);
        if (it == by_wrapper.end())
            continue;
        sm_kernel *k = it->second;
        bool known = false;
        for (auto &x : k->sites)
            known |= x.first == s->number;
        if (known)
            continue;
        k->sites.push_back({s->number, s->bytes});
        k->memory += (s->bytes + 15) / 16 * 16;
    }
}

bool load(sm_program *p, std::string &errors)
{
    p->handle = dlopen(p->path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!p->handle) {
        errors = std::string("dlopen: ") + dlerror();
        return false;
    }
    const char *table = (const char *)dlsym(p->handle, "__sm_table");
    std::istringstream lines(table ? table : "");
    std::map<std::string, sm_kernel *> by_wrapper;
    int n = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line[0] == '!') {
            p->needs_constants = p->constants.empty();
            p->constant_list += line.substr(2) + "\n";
            continue;
        }
        std::unique_ptr<sm_kernel> k(new sm_kernel());
        std::istringstream words(line);
        words >> k->name >> k->uses >> k->max_threads;
        k->program = p;
        std::string id = std::to_string(n++);
        k->row = (void (*)(const sm_group *, uint32_t, uint32_t, uint32_t, uint32_t))dlsym(
            p->handle, ("__sm_run_" + id).c_str());
        for (const sm_argument *a = (const sm_argument *)dlsym(p->handle,
                                                               ("__sm_args_" + id).c_str());
             a && a->kind; ++a)
            k->arguments.push_back(*a);
        by_wrapper["__sm_run_" + id] = k.get();
        p->kernels.push_back(std::move(k));
    }
    read_sites(p, by_wrapper);
    return true;
}

sm_program *make(const std::string &source, const sm_compile_options &options,
                 const std::string &macros, const std::string &constants, char **message)
{
    std::string errors;
    for (int attempt = 0; attempt < 2; ++attempt) {
        std::string path = sm::compile(source, options, macros, constants, errors);
        if (path.empty())
            break;
        sm_program *p = new sm_program();
        p->refs = 1;
        p->source = source;
        p->macros = macros;
        p->constants = constants;
        p->options = options;
        p->path = path;
        if (load(p, errors))
            return p;
        delete p;
        unlink(path.c_str()); // a damaged file in the cache: make it anew
    }
    *message = copy_text(errors);
    return nullptr;
}

} // namespace

extern "C" {

sm_program *sm_program_new(const char *source, const sm_compile_options *options,
                           const char *constants, char **message)
{
    return make(source, *options, options->macros ? options->macros : "",
                constants ? constants : "", message);
}

sm_program *sm_program_specialize(sm_program *p, const char *constants, char **message)
{
    return make(p->source, p->options, p->macros, constants, message);
}

void sm_program_retain(sm_program *p) { p->refs.fetch_add(1); }

void sm_program_release(sm_program *p)
{
    if (p->refs.fetch_sub(1) != 1)
        return;
    dlclose(p->handle);
    delete p;
}

int sm_program_count(sm_program *p) { return (int)p->kernels.size(); }
const char *sm_program_name(sm_program *p, int i) { return p->kernels[(size_t)i]->name.c_str(); }
int sm_program_needs_constants(sm_program *p) { return p->needs_constants; }
const char *sm_program_constants(sm_program *p) { return p->constant_list.c_str(); }

sm_kernel *sm_program_kernel(sm_program *p, const char *name)
{
    for (auto &k : p->kernels)
        if (k->name == name)
            return k.get();
    return nullptr;
}

const char *sm_kernel_name(sm_kernel *k) { return k->name.c_str(); }
unsigned sm_kernel_static_memory(sm_kernel *k) { return k->memory; }
unsigned sm_kernel_max_threads(sm_kernel *k) { return k->max_threads; }
unsigned sm_kernel_uses(sm_kernel *k) { return k->uses; }

// ---- called by kernels ---------------------------------------------------------

SM_EXPORT float __sm_rsqrt(float x) { return (float)(1.0 / std::sqrt((double)x)); }

SM_EXPORT float __sm_sinpi(float x)
{
    float r = std::fmod(x, 2.0f);
    return r == 0 || r == 1 || r == -1 ? std::copysign(0.0f, x)
                                       : (float)std::sin((double)r * 3.14159265358979323846);
}

SM_EXPORT float __sm_cospi(float x)
{
    float r = std::fmod(std::fabs(x), 2.0f);
    return r == 0.5f || r == 1.5f ? 0.0f : (float)std::cos((double)r * 3.14159265358979323846);
}

SM_EXPORT uint64_t __sm_mulhi_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

SM_EXPORT int64_t __sm_mulhi_s64(int64_t a, int64_t b)
{
    return (int64_t)((__int128)a * b >> 64);
}

} // extern "C"
