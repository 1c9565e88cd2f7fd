// MSL -> C++ for OpenCL -> object -> shared library, with a disk cache.  The
// prelude (msl/*.h) is precompiled once per set of flags.
#include "compile.h"
#include "frontend.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <spawn.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#ifndef SM_CLANG
#define SM_CLANG "clang"
#endif
#ifndef SM_LD
#define SM_LD "ld"
#endif
#ifndef SM_CPP
#define SM_CPP ""
#endif
#ifndef SM_VERSION
#define SM_VERSION "0"
#endif

namespace sm {

namespace {

std::string env(const char *name, const char *fallback)
{
    const char *v = getenv(name);
    return v && *v ? v : fallback;
}

const std::string &own_path()
{
    static const std::string path = [] {
        Dl_info info;
        char real[4096];
        if (dladdr((void *)&own_path, &info) && realpath(info.dli_fname, real))
            return std::string(real);
        return std::string("libsoftmetal.so");
    }();
    return path;
}

// The build folder holds the library, the prelude and the caches.  When it is
// read-only, caches go to a private temporary folder.
const std::string &build_folder()
{
    static const std::string folder = own_path().substr(0, own_path().rfind('/'));
    return folder;
}
const std::string &cache_folder()
{
    static const std::string folder = [] {
        std::string f = env("SOFTMETAL_CACHE", "");
        if (f.empty())
            f = build_folder();
        mkdir(f.c_str(), 0700);
        if (mkdir((f + "/kernels").c_str(), 0700) == 0 || errno == EEXIST)
            if (access((f + "/kernels").c_str(), W_OK) == 0)
                return f;
        char name[] = "/tmp/softmetal-XXXXXX";
        std::string own = env("TMPDIR", "/tmp") + "/softmetal-XXXXXX";
        std::vector<char> writable(own.begin(), own.end());
        writable.push_back(0);
        const char *made = mkdtemp(writable.data());
        if (!made)
            made = mkdtemp(name);
        std::string t = made ? made : "/tmp";
        mkdir((t + "/kernels").c_str(), 0700);
        return t;
    }();
    return folder;
}

std::string hash(const std::string &s)
{
    // Two FNV-1a streams with different starts: 128 bits.
    uint64_t a = 0xcbf29ce484222325u, b = 0x9ae16a3b2f90404fu;
    for (unsigned char c : s) {
        a = (a ^ c) * 0x100000001b3u;
        b = (b + c) * 0x9E3779B97F4A7C15u;
        b ^= b >> 29;
    }
    char text[40];
    snprintf(text, sizeof text, "%016lx%016lx", (unsigned long)a, (unsigned long)b);
    return text;
}

const std::string &processor()
{
    static const std::string text = [] {
        std::string s;
        if (FILE *f = fopen("/proc/cpuinfo", "r")) {
            char line[4096];
            while (fgets(line, sizeof line, f) && line[0] != '\n')
                if (!strncmp(line, "model name", 10) || !strncmp(line, "flags", 5) ||
                    !strncmp(line, "Features", 8) || !strncmp(line, "CPU part", 8))
                    s += line;
            fclose(f);
        }
        return s;
    }();
    return text;
}

bool exists(const std::string &path) { return access(path.c_str(), R_OK) == 0; }

bool write_file(const std::string &path, const std::string &text)
{
    FILE *f = fopen(path.c_str(), "w");
    if (!f)
        return false;
    bool ok = fwrite(text.data(), 1, text.size(), f) == text.size();
    return fclose(f) == 0 && ok;
}

std::string unique_name()
{
    static std::atomic<int> n{0};
    return cache_folder() + "/kernels/tmp-" + std::to_string(getpid()) + "-" + std::to_string(++n);
}

std::vector<std::string> flags(bool safe, bool contract_off, const sm_compile_options &o)
{
    std::vector<std::string> f = {
        "-x", "cl", "-cl-std=clc++2021", "-cl-no-stdinc", "-cl-single-precision-constant",
        "-fsigned-char", "-w", "-Xclang",
        "-cl-ext=+all,-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_program_scope_global_variables,"
        "+cl_khr_fp16,-__opencl_c_pipes,-__opencl_c_device_enqueue",
        "-fPIC", "-fno-math-errno", "-fstack-clash-protection",
#if defined(__x86_64__)
        "-march=native",
#else
        "-mcpu=native",
#endif
    };
    f.push_back("-D__METAL_VERSION__=" + std::to_string(o.language));
    if (!safe)
        f.push_back("-ffast-math");
    f.push_back(contract_off || !SM_KNOB(contract) ? "-ffp-contract=off" : "-ffp-contract=fast");
    if (o.fast_functions)
        f.push_back("-DSM_FAST_FUNCTIONS");
    if (SM_KNOB(ftz)) {
        f.push_back("-DSM_FTZ");
        f.push_back("-Xclang");
        f.push_back("-fdenormal-fp-math-f32=preserve-sign,preserve-sign");
    }
    if (SM_KNOB(ulp))
        f.push_back("-DSM_ULP");
    long level = SM_KNOB(opt);
    if (SM_KNOB(trace)) {
        for (const char *s : {"-DSM_TRACE", "-fno-vectorize", "-fno-slp-vectorize",
                              "-fsanitize-coverage=func,trace-loads,trace-stores"})
            f.push_back(s);
        level = 1;
    }
    if (SM_KNOB(ubsan)) {
        f.push_back("-fsanitize=signed-integer-overflow,integer-divide-by-zero,bounds,"
                    "float-cast-overflow");
        f.push_back("-fsanitize-trap=all");
    }
    f.push_back("-O" + std::to_string(level));
    return f;
}

std::string join_words(const std::vector<std::string> &v)
{
    std::string s;
    for (const std::string &w : v)
        s += w + " ";
    return s;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string> &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::string clang() { return env("SOFTMETAL_CLANG", SM_CLANG); }

// Path of the precompiled prelude for these flags; empty if it cannot be made.
std::string prelude(const std::vector<std::string> &f, std::string &errors)
{
    static std::mutex lock;
    std::lock_guard<std::mutex> hold(lock);
    std::string path = cache_folder() + "/kernels/prelude-" +
                       hash(SM_VERSION + clang() + processor() + join_words(f)) + ".pch";
    if (exists(path))
        return path;
    std::string temporary = unique_name() + ".pch";
    std::vector<std::string> command = {clang()};
    command = command + f + std::vector<std::string>{
        "-Xclang", "-emit-pch", "-c", build_folder() + "/msl/all.h", "-o", temporary};
    std::string output;
    if (run_tool(command, output) != 0) {
        errors = "the prelude does not compile:\n" + output;
        unlink(temporary.c_str());
        return "";
    }
    rename(temporary.c_str(), path.c_str());
    return path;
}

// Puts Metal's words back into clang's messages.
std::string readable(std::string s)
{
    static const char *const pairs[][2] = {{"__global", "device"}, {"__constant", "constant"},
                                           {"__local", "threadgroup"}, {"__private", "thread"},
                                           {"_sm_name", ""}};
    for (auto &p : pairs)
        for (size_t i; (i = s.find(p[0])) != std::string::npos;)
            s.replace(i, strlen(p[0]), p[1]);
    for (size_t i; (i = s.find("metal::__sm_mk<")) != std::string::npos;) {
        s.erase(i, strlen("metal::__sm_mk<"));
        size_t end = s.find(">(", i);
        if (end != std::string::npos)
            s.erase(end, 1);
    }
    // The wrappers complain about kernels that are already in error.
    size_t wrappers = s.find("\nwrappers:");
    if (wrappers != std::string::npos)
        s.resize(wrappers + 1);
    return s;
}

bool link(const std::string &object, const std::string &library, std::string &errors)
{
    std::string output;
    int rc = run_tool({env("SOFTMETAL_LD", SM_LD), "-shared", "-z", "noexecstack", "-o", library,
                       object, own_path()}, output);
    if (rc)
        errors = "the linker failed:\n" + output;
    return rc == 0;
}

} // namespace

int run_tool(const std::vector<std::string> &arguments, std::string &output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::vector<char *> argv, envp;
    for (const std::string &a : arguments)
        argv.push_back(const_cast<char *>(a.c_str()));
    argv.push_back(nullptr);
    // A preloaded sanitizer is for the host, not for the compiler.
    static char plain[] = "LC_ALL=C";
    for (char **e = environ; *e; ++e)
        if (strncmp(*e, "LD_PRELOAD=", 11) && strncmp(*e, "LC_", 3))
            envp.push_back(*e);
    envp.push_back(plain);
    envp.push_back(nullptr);
    pid_t pid;
    int rc = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (rc) {
        output = std::string("cannot run ") + argv[0] + ": " + strerror(rc);
        close(ends[0]);
        return -1;
    }
    char buffer[4096];
    ssize_t n;
    while ((n = read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            output.append(buffer, (size_t)n);
    close(ends[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return output.empty() ? 0 : -1; // somebody else reaps children
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string compile(const std::string &source, const sm_compile_options &options,
                    const std::string &macros, const std::string &constants, std::string &errors)
{
    std::vector<std::string> knobs = flags(!options.fast_math, false, options);
    std::string key = hash(std::string(SM_VERSION) + clang() + processor() + join_words(knobs) +
                           (SM_KNOB(strict) ? "strict" : "") + "\n" + macros + "\n" + constants +
                           "\n" + source);
    std::string library = cache_folder() + "/kernels/" + key + ".so";
    if (exists(library))
        return library;
    SM_COUNT(compiler_runs, 1);

    std::map<std::string, std::string> values;
    std::istringstream lines(constants);
    for (std::string line; std::getline(lines, line);) {
        size_t space = line.find(' ');
        if (space != std::string::npos)
            values[line.substr(0, space)] = line.substr(space + 1);
    }
    std::string base = unique_name();
    std::string input = base + ".clcpp", object = base + ".o", made = base + ".so";
    struct Clean {
        std::vector<std::string> paths;
        ~Clean()
        {
            for (auto &p : paths)
                unlink(p.c_str());
        }
    } clean{{input, object, made, base + ".metal", base + ".ll"}};

    std::string text;
    if (!macros.empty()) {
        std::istringstream in(macros);
        for (std::string line; std::getline(in, line);) {
            size_t eq = line.find('=');
            text += "#define " + line.substr(0, eq) + " " +
                    (eq == std::string::npos ? "1" : line.substr(eq + 1)) + "\n";
        }
        text += "#line 1\n";
    }
    Translation t = translate(text + source, values, false);
    if (t.needs_preprocessor && t.errors.empty()) {
        // Line markers stay, so that messages name the user's lines.
        std::string plain = base + ".metal", expanded;
        if (!write_file(plain, "#line 1 \"program_source\"\n" + t.text)) {
            errors = "cannot write to " + cache_folder();
            return "";
        }
        // GNU cpp starts in a third of the time that clang needs; either will do.
        std::string cpp = env("SOFTMETAL_CPP", SM_CPP);
        std::vector<std::string> expand = cpp.empty() ? std::vector<std::string>{clang(), "-E"}
                                                      : std::vector<std::string>{cpp};
        expand = expand + std::vector<std::string>{
            "-x", "c++", "-std=c++14", "-undef", "-nostdinc", "-w", "-D__METAL__=1",
            "-D__METAL_MACOS__=1", "-D__METAL_VERSION__=" + std::to_string(options.language), plain};
        int rc = run_tool(expand, expanded);
        if (rc) {
            errors = expanded;
            return "";
        }
        t = translate(expanded, values, true);
    }
    if (!t.errors.empty()) {
        errors = t.errors;
        return "";
    }
    std::vector<std::string> f = flags(t.safe_math || !options.fast_math, t.contract_off, options);
    std::string pch = prelude(f, errors);
    if (pch.empty())
        return "";
    if (!write_file(input, t.text)) {
        errors = "cannot write to " + cache_folder();
        return "";
    }
    std::vector<std::string> command = {clang()};
    command = command + f + std::vector<std::string>{
        "-Xclang", "-include-pch", "-Xclang", pch, "-Xclang", "-fno-validate-pch"};
    if (SM_KNOB(strict)) {
        errors = readable(strict_problems(command, input, base + ".ll"));
        if (!errors.empty())
            return "";
    }
    std::string output;
    if (run_tool(command + std::vector<std::string>{"-c", input, "-o", object}, output) != 0) {
        errors = readable(output);
        return "";
    }
    if (!link(object, made, errors))
        return "";
    rename(made.c_str(), library.c_str());
    return library;
}

} // namespace sm
