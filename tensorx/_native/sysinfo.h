/* What the machine allows this process: memory and CPUs, cgroup limits included.
 * Shared by alloc.h and pool.h; header-only, no Python. */
#ifndef TX_SYSINFO_H
#define TX_SYSINFO_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* Header-only: not every includer calls every function. */
#define TX_API static __attribute__((unused))
#define TX_COLD static __attribute__((unused, noinline, cold))
#define TX_LIKELY(x) __builtin_expect(!!(x), 1)
#define TX_UNLIKELY(x) __builtin_expect(!!(x), 0)

#if defined(__x86_64__) || defined(__i386__)
#define TX_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
/* isb gives up some tens of cycles, like pause; yield is a no-op on most cores. */
#define TX_PAUSE() __asm__ volatile("isb" ::: "memory")
#else
#define TX_PAUSE() __asm__ volatile("" ::: "memory")
#endif

TX_API double tx_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Reads a small text file into buf; -1 if there is none. */
TX_COLD int tx_read_text(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t have = 0;
    while (have + 1 < size) {
        ssize_t n = read(fd, buf + have, size - 1 - have);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    close(fd);
    buf[have] = 0;
    return (int)have;
}

/* cgroups.  `root` is prepended to every path ("" on a real system), so that a
 * made-up tree can be tested. */
enum { TX_CGROUP_MEMORY = 0, TX_CGROUP_CPU = 1 };

/* The limit stated in one cgroup folder, < 0 if it states none. */
TX_COLD double tx_cgroup_one(const char *dir, int what, int v2)
{
    char path[1200], text[128];
    if (what == TX_CGROUP_MEMORY) {
        snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
        if (tx_read_text(path, text, sizeof text) <= 0 || !strncmp(text, "max", 3))
            return -1;
        double v = strtod(text, NULL);
        return v > 0 && v < 4e18 ? v : -1; /* v1 says "none" by a huge number */
    }
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (tx_read_text(path, text, sizeof text) <= 0 || !strncmp(text, "max", 3))
            return -1;
        char *end;
        double quota = strtod(text, &end), period = strtod(end, NULL);
        return quota > 0 && period > 0 ? quota / period : -1;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (tx_read_text(path, text, sizeof text) <= 0)
        return -1;
    double quota = strtod(text, NULL);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (tx_read_text(path, text, sizeof text) <= 0)
        return -1;
    double period = strtod(text, NULL);
    return quota > 0 && period > 0 ? quota / period : -1;
}

/* Whether the comma-separated list of a v1 hierarchy names the controller. */
TX_COLD int tx_cgroup_lists(const char *list, const char *name)
{
    size_t n = strlen(name);
    while (*list) {
        size_t k = strcspn(list, ",");
        if (k == n && !strncmp(list, name, n))
            return 1;
        list += k + (list[k] == ',');
    }
    return 0;
}

/* The lowest limit of this process's cgroup and all above it; < 0: none. */
TX_COLD double tx_cgroup_limit(const char *root, int what)
{
    char text[4096], path[600];
    double best = -1;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (tx_read_text(path, text, sizeof text) <= 0)
        return -1;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *where = list ? strchr(list + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = 0;
        list++;
        int v2 = !*list;
        if (!v2 && !tx_cgroup_lists(list, what == TX_CGROUP_MEMORY ? "memory" : "cpu"))
            continue;
        /* ".." and paths of the host (seen from a container) do not exist under
         * our mount: the walk upwards then ends at the mount's root, ours. */
        char rel[512];
        snprintf(rel, sizeof rel, "%s", strstr(where, "..") ? "" : where);
        for (;;) {
            size_t n = strlen(rel);
            while (n && rel[n - 1] == '/')
                rel[--n] = 0;
            char dir[1150];
            snprintf(dir, sizeof dir, "%s/sys/fs/cgroup%s%s", root,
                     v2 ? "" : what == TX_CGROUP_MEMORY ? "/memory" : "/cpu", rel);
            double v = tx_cgroup_one(dir, what, v2);
            if (v > 0 && (best < 0 || v < best))
                best = v;
            char *slash = strrchr(rel, '/');
            if (!slash)
                break;
            *slash = 0;
        }
    }
    return best;
}

/* Bytes of memory this process may use: RAM, or the cgroup limit if lower. */
TX_COLD int64_t tx_usable_memory(const char *root)
{
    double ram = 0;
#ifdef __APPLE__
    uint64_t size = 0;
    size_t len = sizeof size;
    if (!sysctlbyname("hw.memsize", &size, &len, NULL, 0))
        ram = (double)size;
#else
    ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
#endif
    if (!(ram > 0))
        ram = 4.0 * 1024 * 1024 * 1024;
    double limit = tx_cgroup_limit(root, TX_CGROUP_MEMORY);
    return (int64_t)(limit > 0 && limit < ram ? limit : ram);
}

/* CPUs this process may use: affinity and cgroup quota; performance cores on macOS. */
TX_COLD int tx_usable_cpus(const char *root)
{
    long n = 0;
#ifdef __APPLE__
    int count = 0;
    size_t len = sizeof count;
    if (sysctlbyname("hw.perflevel0.logicalcpu", &count, &len, NULL, 0) || count < 1) {
        len = sizeof count;
        if (sysctlbyname("hw.logicalcpu", &count, &len, NULL, 0))
            count = 0;
    }
    n = count;
#elif defined(__linux__)
    /* The raw call takes any size, so more CPUs than CPU_SETSIZE are no problem. */
    unsigned long mask[1024];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++)
        n += __builtin_popcountl(mask[i]);
#endif
    if (n < 1)
        n = sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 1)
        n = 1;
    double quota = tx_cgroup_limit(root, TX_CGROUP_CPU);
    if (quota > 0 && quota < (double)n)
        n = (long)(quota + 0.5) > 1 ? (long)(quota + 0.5) : 1;
    return (int)n;
}

#endif
