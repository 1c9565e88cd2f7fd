/* Threads on one instance of the bridge, for the thread sanitizer: allocate, encode, wait, read back,
 * release, while another thread asks for counters and trims.  usage: threads LIBRARY */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

#define EACH(X)                                                                                    \
    X(txm_open) X(txm_close) X(txm_alloc) X(txm_release) X(txm_kernel_get) X(txm_kernel_release)   \
    X(txm_encode) X(txm_commit) X(txm_wait) X(txm_wait_buffer) X(txm_get_stats) X(txm_trim)        \
    X(txm_buffer_export)
#define X(name) static __typeof__(&name) p_##name;
EACH(X)
#undef X

static const char *const source =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "kernel void fill(device uint *o [[buffer(0)]], constant long *off [[buffer(1)]],\n"
    "                 constant uint *v [[buffer(2)]], uint i [[thread_position_in_grid]])\n"
    "{ o[off[0] + long(i)] = v[0] + i; }\n";

static txm_instance *instance;
static int running = 1;

static void check(int32_t code, const txm_error *err, const char *what)
{
    if (code != TXM_OK) {
        fprintf(stderr, "%s: %d %s\n", what, code, err->message);
        exit(3);
    }
}

static void *work(void *argument)
{
    uint32_t number = (uint32_t)(size_t)argument;
    txm_error err;
    txm_kernel_info kernel;
    check(p_txm_kernel_get(instance, source, "fill", &kernel, &err), &err, "kernel");
    for (uint32_t k = 0; k < 200; k++) {
        uint64_t bytes = k % 3 ? 256 : 65536;
        txm_buffer *buffer;
        txm_buffer_info info;
        check(p_txm_alloc(instance, bytes, k % 2 ? TXM_ALLOC_HOST : 0, &buffer, &info, &err), &err, "alloc");
        uint32_t value = number * 1000000 + k, count = (uint32_t)(bytes / 4);
        txm_binding binding = {buffer, 0, 4, TXM_WRITE | TXM_OVERWRITE};
        txm_dispatch d = {0};
        txm_dispatched out;
        d.kernel = kernel.kernel;
        d.bindings = &binding;
        d.nbindings = 1;
        d.constants = &value;
        d.constant_bytes = sizeof value;
        d.grid[0] = count;
        d.grid[1] = d.grid[2] = 1;
        d.group[0] = 32;
        d.group[1] = d.group[2] = 1;
        int32_t code;
        do
            code = p_txm_encode(instance, &d, &out, &err);
        while (code == TXM_PENDING);
        check(code, &err, "encode");
        if (k % 4 == 0) {
            do
                code = p_txm_wait_buffer(buffer, TXM_READ, 50, &err);
            while (code == TXM_PENDING);
            check(code, &err, "wait");
            const uint32_t *values = info.contents;
            if (values[0] != value || values[count - 1] != value + count - 1) {
                fprintf(stderr, "thread %u: %u and not %u\n", number, values[0], value);
                exit(4);
            }
        }
        p_txm_buffer_export(buffer, 1);
        p_txm_buffer_export(buffer, -1);
        p_txm_release(buffer);
    }
    p_txm_kernel_release(kernel.kernel);
    return NULL;
}

static void *watch(void *argument)
{
    (void)argument;
    txm_error err;
    txm_stats stats;
    uint64_t stamp;
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST)) {
        p_txm_get_stats(instance, &stats, &err);
        p_txm_trim(instance, 1 << 20, NULL, &err);
        p_txm_commit(instance, &stamp, &err);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "usage: threads LIBRARY: %s\n", dlerror());
        return 2;
    }
#define X(name)                                                                                    \
    void *at_##name = dlsym(library, #name);                                                       \
    memcpy(&p_##name, &at_##name, sizeof at_##name);
    EACH(X)
#undef X
    txm_error err;
    check(p_txm_open(0, NULL, &instance, &err), &err, "open");
    /* One compilation beforehand: what a compiler's library sets up once is none of ours. */
    txm_kernel_info warm;
    char other[512];
    snprintf(other, sizeof other, "// another text\n%s", source);
    check(p_txm_kernel_get(instance, other, "fill", &warm, &err), &err, "kernel");
    p_txm_kernel_release(warm.kernel);
    pthread_t workers[4], watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    for (size_t k = 0; k < 4; k++)
        pthread_create(&workers[k], NULL, work, (void *)k);
    for (size_t k = 0; k < 4; k++)
        pthread_join(workers[k], NULL);
    __atomic_store_n(&running, 0, __ATOMIC_SEQ_CST);
    pthread_join(watcher, NULL);
    int32_t code;
    do
        code = p_txm_close(instance, &err);
    while (code == TXM_PENDING);
    check(code, &err, "close");
    puts("done");
    return 0;
}
