/* Cases for tensorx/_native/alloc.h; see test_alloc_c.py. */
#include "alloc.h"

#include "check.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

static tx_mem_stats stats(void)
{
    tx_mem_stats s;
    tx_get_stats(&s);
    return s;
}

/* msync refuses addresses that are not mapped. */
static int mapped(void *p)
{
    void *start = (void *)((uintptr_t)p & ~(uintptr_t)(tx_mem.page - 1));
    return msync(start, tx_mem.page, MS_ASYNC) == 0;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static size_t random_size(uint64_t *state)
{
    uint64_t kind = next_random(state) % 16;
    if (kind < 10)
        return 1 + next_random(state) % 2000;
    if (kind < 14)
        return 1 + next_random(state) % 60000;
    return 1 + next_random(state) % (kind == 14 ? 2 * MIB : 5 * MIB);
}

static void check_classes(void)
{
    for (size_t n = 1; n < 3 * MIB; n += n < 80000 ? 1 : 509) {
        int c = tx_class_of(n);
        CHECK(tx_class_bytes(c) >= n);
        CHECK(c == 0 || tx_class_bytes(c - 1) < n);
        CHECK(tx_class_bytes(c) - n < 64 || (tx_class_bytes(c) - n) * 8 <= n);
        CHECK_EQ(tx_class_bytes(c) % 64, 0);
    }
    for (int c = 0; c < TX_CLASSES; c++)
        CHECK_EQ(tx_class_of(tx_class_bytes(c)), c);
    CHECK_EQ(tx_class_bytes(TX_CLASSES - 1), TX_MAX_BYTES);
    CHECK_EQ(tx_class_bytes(TX_SMALL_CLASSES - 1), 32 << 10);
    for (int c = 0; c < TX_SMALL_CLASSES; c++) {
        size_t s = tx_slab_bytes(c);
        CHECK_EQ(s & (s - 1), 0);
        CHECK(s % tx_mem.page == 0 && (s - TX_ALIGN) / tx_class_bytes(c) >= 15);
    }
}

/* Blocks of every size are aligned, hold their capacity and overlap no other. */
static void check_blocks(void)
{
    enum { N = 3000 };
    static struct { unsigned char *p; size_t n, cap; } b[N];
    uint64_t r = 1;
    int64_t live = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            b[i].n = i < 1200 ? (size_t)i + 1 : i < 2990 ? 1 + next_random(&r) % 40000 : random_size(&r);
            b[i].p = tx_alloc(b[i].n, &b[i].cap);
            CHECK(b[i].p && b[i].cap >= b[i].n);
            CHECK_EQ((uintptr_t)b[i].p % 64, 0);
            memset(b[i].p, i * 7 + round, b[i].cap);
            live += (int64_t)b[i].n;
        }
        CHECK_EQ(stats().live, live);
        for (int k = 0; k < N; k++) {
            int i = (int)((uint64_t)k * 1789 % N);
            for (size_t j = 0; j < b[i].cap; j += 1 + b[i].cap / 97)
                CHECK_EQ(b[i].p[j], (unsigned char)(i * 7 + round));
            CHECK_EQ(b[i].p[b[i].cap - 1], (unsigned char)(i * 7 + round));
            tx_free(b[i].p, b[i].n, b[i].cap);
            live -= (int64_t)b[i].n;
        }
        CHECK_EQ(stats().live, 0);
    }
    CHECK_EQ(stats().allocations, 3 * N);
    CHECK_EQ(stats().cached, stats().system);
    tx_empty_cache();
    CHECK_EQ(stats().system, 0);
}

static void check_zero(void)
{
    size_t cap = 99;
    void *p = tx_alloc(0, &cap);
    CHECK(p && cap == 0 && (uintptr_t)p % 64 == 0);
    tx_free(p, 0, cap);
    void *q = tx_scratch_alloc(0);
    CHECK(q);
    tx_scratch_free(q, 0);
    tx_free(NULL, 0, 0);
    CHECK_EQ(stats().allocations, 0);
    CHECK_EQ(stats().system, 0);
}

static void check_counters(void)
{
    size_t c1, c2;
    void *a = tx_alloc(1000, &c1), *b = tx_alloc(3 * MIB + 1, &c2);
    CHECK_EQ(c1, 1024);
    tx_mem_stats s = stats();
    CHECK_EQ(s.live, 1000 + 3 * MIB + 1);
    CHECK_EQ(s.peak, s.live);
    CHECK_EQ(s.requested, s.live);
    CHECK_EQ(s.allocations, 2);
    CHECK_EQ(tx_thread_requested(), s.requested);
    CHECK_EQ(tx_thread_allocations(), 2);
    CHECK(s.system >= s.live && s.cached == 0);
    void *w = tx_scratch_alloc(5000);
    CHECK_EQ(stats().scratch, 5000);
    CHECK_EQ(stats().live, s.live);
    CHECK_EQ(stats().requested, s.requested);
    tx_scratch_free(w, 5000);
    CHECK_EQ(stats().scratch, 0);
    CHECK_EQ(stats().scratch_peak, 5000);
    tx_free(b, 3 * MIB + 1, c2);
    s = stats();
    CHECK_EQ(s.live, 1000);
    CHECK_EQ(s.peak, 1000 + 3 * MIB + 1);
    CHECK(s.cached >= (int64_t)(3 * MIB + 1));
    tx_reset_peak();
    CHECK_EQ(stats().peak, 1000);
    CHECK_EQ(stats().scratch_peak, 0);
    b = tx_alloc(3 * MIB + 1, &c2); /* from the cache: a request all the same */
    CHECK_EQ(stats().requested, 1000 + 2 * (3 * MIB + 1));
    CHECK_EQ(stats().system, s.system);
    tx_count_request(77);
    CHECK_EQ(stats().requested, 1077 + 2 * (3 * MIB + 1));
    CHECK_EQ(stats().allocations, 4);
    CHECK_EQ(tx_thread_allocations(), 4);
    CHECK_EQ(stats().live, 1000 + 3 * MIB + 1);
    tx_free(b, 3 * MIB + 1, c2);
    tx_free(a, 1000, c1);
    CHECK_EQ(stats().live, 0);
}

static void check_reuse(void)
{
    size_t cap, cap2;
    void *p = tx_alloc(1 * MIB, &cap);
    tx_free(p, 1 * MIB, cap);
    void *q = tx_alloc(1 * MIB, &cap2);
    CHECK(p == q && cap == cap2);
    tx_free(q, 1 * MIB, cap2);
    q = tx_alloc(1 * MIB - 65536 - 64, &cap2); /* the class below: wastes 7 % */
    CHECK(p == q);
    CHECK_EQ(cap2, 1 * MIB); /* the caller learns what it really holds */
    tx_free(q, 1 * MIB - 65536 - 64, cap2);
    q = tx_alloc(900000, &cap2); /* would waste more than an eighth */
    CHECK(p != q && cap2 < 1 * MIB);
    tx_free(q, 900000, cap2);
    void *w = tx_scratch_alloc(1 * MIB - 65536 - 64); /* scratch: capacity follows from the size */
    CHECK(w != p);
    tx_scratch_free(w, 1 * MIB - 65536 - 64);
    void *s = tx_alloc(100, &cap);
    tx_free(s, 100, cap);
    CHECK(tx_alloc(128, &cap) == s);
    tx_free(s, 128, cap);
    /* A block of a full slab is found again. */
    enum { FULL = 2 * 1023 };
    static void *full[FULL];
    for (int i = 0; i < FULL; i++)
        full[i] = tx_alloc(64, &cap);
    int64_t system = stats().system;
    for (int i = 0; i < FULL; i += 341) {
        tx_free(full[i], 64, cap);
        CHECK(tx_alloc(64, &cap) == full[i]);
    }
    CHECK_EQ(stats().system, system);
    for (int i = 0; i < FULL; i++)
        tx_free(full[i], 64, cap);
}

static void check_empty(void)
{
    size_t c1, c2, c3, c4;
    void *a = tx_alloc(200000, &c1), *b = tx_alloc(9 * MIB, &c2), *c = tx_alloc(10, &c3), *d = tx_alloc(20000, &c4);
    memset(b, 1, 9 * MIB);
    CHECK(mapped(a) && mapped(b) && mapped(d));
    tx_free(a, 200000, c1);
    tx_free(b, 9 * MIB, c2);
    tx_free(d, 20000, c4);
    CHECK(mapped(a) && mapped(b) && mapped(d));
    tx_empty_cache();
    CHECK(!mapped(a) && !mapped(b) && !mapped(d));
    CHECK_EQ(stats().cached, 0);
    CHECK_EQ(stats().system, tx_slab_bytes(0)); /* the slab of c */
    *(char *)c = 1;
    tx_free(c, 10, c3);
    CHECK_EQ(stats().cached, tx_slab_bytes(0));
    tx_empty_cache();
    CHECK_EQ(stats().system, 0);
}

static void check_limit(void)
{
    size_t c1, c2;
    tx_set_limit(1 * MIB);
    void *a = tx_alloc(1 * MIB - 100, &c1);
    CHECK(a);
    tx_mem_stats before = stats(), after;
    int64_t counted = tx_thread_allocations();
    CHECK(!tx_alloc(101, &c2) && c2 == 0);
    after = stats();
    CHECK(!memcmp(&before, &after, sizeof before));
    CHECK_EQ(tx_thread_allocations(), counted);
    CHECK(tx_alloc_would_fit(100) && !tx_alloc_would_fit(101));
    void *w = tx_scratch_alloc(5 * MIB);
    CHECK(w);
    tx_scratch_free(w, 5 * MIB);
    void *b = tx_alloc(100, &c2);
    CHECK(b);
    tx_free(b, 100, c2);
    tx_free(a, 1 * MIB - 100, c1);
    tx_set_limit(0);
    CHECK(!tx_alloc(1, &c1));
    tx_set_limit(-5);
    CHECK_EQ(stats().limit, -1);
    const size_t absurd[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2, TX_MAX_BYTES + 1};
    for (int i = 0; i < 4; i++) {
        CHECK(!tx_alloc(absurd[i], &c1) && c1 == 0);
        CHECK(!tx_scratch_alloc(absurd[i]));
        CHECK(!tx_alloc_would_fit(absurd[i]));
    }
    CHECK_EQ(stats().live, 0);
}

/* The system refuses: the cache goes first, then NULL, and nothing is counted. */
static void check_refused(void)
{
    size_t c1, c2;
    void *a = tx_alloc(1 * MIB, &c1), *keep = tx_alloc(500, &c2);
    tx_free(a, 1 * MIB, c1);
    tx_mem_stats before = stats();
    tx_debug_fail_after(0);
    CHECK(!tx_alloc(64 * MIB, &c1) && c1 == 0);
    CHECK(!tx_alloc(2000, &c1));
    CHECK(!tx_scratch_alloc(64 * MIB));
    tx_mem_stats after = stats();
    CHECK(after.cached == 0 && after.system == (int64_t)tx_slab_bytes(7));
    CHECK_EQ(after.live, before.live);
    CHECK_EQ(after.peak, before.peak);
    CHECK_EQ(after.scratch, 0);
    CHECK_EQ(after.scratch_peak, 0);
    CHECK_EQ(after.requested, before.requested);
    CHECK_EQ(after.allocations, before.allocations);
    void *b = tx_alloc(500, &c1); /* what is there still serves */
    CHECK(b);
    tx_free(b, 500, c1);
    tx_debug_fail_after(1);
    a = tx_alloc(1 * MIB, &c1);
    CHECK(a && !tx_alloc(2 * MIB, &c2));
    tx_debug_fail_after(-1);
    tx_free(a, 1 * MIB, c1);
    tx_free(keep, 500, 512);
    CHECK_EQ(stats().live, 0);
}

/* With the address space nearly full, dropping the cache makes room. */
static void check_retry(void)
{
    size_t c1, c2;
    void *a = tx_alloc(100 * MIB, &c1);
    struct rlimit full;
    CHECK(getrlimit(RLIMIT_AS, &full) == 0);
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;
    CHECK(f && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    struct rlimit tight = {(rlim_t)pages * tx_mem.page + 20 * MIB, full.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
    CHECK(!tx_alloc(80 * MIB, &c2));
    tx_free(a, 100 * MIB, c1);
    CHECK(stats().cached >= (int64_t)(100 * MIB));
    void *b = tx_alloc(80 * MIB, &c2);
    CHECK(b);
    CHECK_EQ(stats().cached, 0);
    tx_free(b, 80 * MIB, c2);
}

static void check_cap(void)
{
    size_t cap[4];
    void *p[4];
    CHECK(stats().cap > 0);
    tx_set_cap(3 * MIB);
    for (int i = 0; i < 4; i++)
        p[i] = tx_alloc(1 * MIB, &cap[i]);
    for (int i = 0; i < 3; i++)
        tx_free(p[i], 1 * MIB, cap[i]);
    CHECK_EQ(stats().cached, 3 * MIB);
    CHECK(tx_alloc(1 * MIB, &cap[2]) == p[2]); /* newest first, still warm */
    tx_free(p[2], 1 * MIB, cap[2]);
    tx_free(p[3], 1 * MIB, cap[3]); /* over the cap: the oldest goes */
    CHECK_EQ(stats().cached, 3 * MIB);
    CHECK(!mapped(p[0]) && mapped(p[1]) && mapped(p[2]) && mapped(p[3]));
    size_t c;
    void *big = tx_alloc(20 * MIB, &c);
    tx_free(big, 20 * MIB, c); /* beyond the cap by itself: does not push out the rest */
    CHECK(!mapped(big));
    CHECK_EQ(stats().cached, 3 * MIB);
    tx_set_foreign_cached(2 * MIB);
    CHECK_EQ(stats().cached, 1 * MIB);
    CHECK(mapped(p[3]));
    tx_set_foreign_cached(0);
    tx_set_cap(0);
    CHECK_EQ(stats().cached, 0);
    void *s = tx_alloc(40, &c);
    tx_free(s, 40, c);
    CHECK_EQ(stats().system, 0);
    /* Many free slabs count, too. */
    tx_set_cap(1 * MIB);
    enum { N = 100000 };
    static void *small[N];
    for (int i = 0; i < N; i++)
        small[i] = tx_alloc(64, &c);
    CHECK(stats().system > (int64_t)(6 * MIB));
    for (int i = 0; i < N; i++)
        tx_free(small[i], 64, c);
    CHECK(stats().cached <= (int64_t)(1 * MIB) && stats().cached > 0);
    CHECK_EQ(stats().system, stats().cached);
    tx_set_cap(-1);
    CHECK_EQ(stats().cap, tx_usable_memory("") / 4);
}

static void check_huge(void)
{
    size_t c;
    for (int i = 0; i < 6; i++) {
        size_t n = 4 * MIB + (size_t)i * 3 * MIB / 2;
        void *p = tx_alloc(n, &c);
#ifdef __linux__
        CHECK_EQ((uintptr_t)p % (2 * MIB), 0);
#endif
        memset(p, 1, c);
        if (i % 2)
            tx_free(p, n, c);
    }
}

/* Eight threads, blocks also freed by others; everyone reads back what was written. */
enum { THREADS = 8, SHARED = 64 };
typedef struct { uint64_t id; size_t n, cap; } block;
static block *shared[SHARED];
static int64_t counted;

static void check_and_free(block *b)
{
    size_t words = b->n / 8;
    uint64_t *w = (uint64_t *)b;
    for (size_t i = 3; i < words; i += 1 + words / 50)
        CHECK_EQ(w[i], b->id);
    tx_free(b, b->n, b->cap);
}

static void *churn(void *arg)
{
    uint64_t r = (uint64_t)(uintptr_t)arg * 977 + 5;
    int64_t asked = 0, before = tx_thread_requested();
    for (int i = 0; i < 6000; i++) {
        size_t n = random_size(&r) + sizeof(block), cap;
        block *b = tx_alloc(n, &cap);
        CHECK(b);
        asked += (int64_t)n;
        b->id = r;
        b->n = n;
        b->cap = cap;
        uint64_t *w = (uint64_t *)b;
        for (size_t k = 3; k < n / 8; k += 1 + n / 8 / 50)
            w[k] = r;
        b = __atomic_exchange_n(&shared[next_random(&r) % SHARED], b, __ATOMIC_ACQ_REL);
        if (b)
            check_and_free(b);
        if (i % 500 == 0)
            tx_empty_cache();
        if (i % 100 == 0) {
            void *s = tx_scratch_alloc(n);
            CHECK(s);
            tx_scratch_free(s, n);
        }
    }
    CHECK_EQ(tx_thread_requested() - before, asked);
    __atomic_fetch_add(&counted, asked, __ATOMIC_RELAXED);
    return NULL;
}

static void check_threads(void)
{
    pthread_t t[THREADS];
    tx_set_cap(8 * MIB); /* so that trimming takes part */
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, churn, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < SHARED; i++)
        if (shared[i])
            check_and_free(shared[i]);
    tx_mem_stats s = stats();
    CHECK_EQ(s.live, 0);
    CHECK_EQ(s.scratch, 0);
    CHECK_EQ(s.requested, counted);
    CHECK_EQ(s.allocations, THREADS * 6000);
    tx_empty_cache();
    CHECK_EQ(stats().system, 0);
}

static int finished;
static void *churn_until_finished(void *arg)
{
    uint64_t r = (uint64_t)(uintptr_t)arg + 3;
    while (!__atomic_load_n(&finished, __ATOMIC_RELAXED)) {
        size_t n = 1 + next_random(&r) % 100000, cap;
        void *p = tx_alloc(n, &cap);
        tx_free(p, n, cap);
    }
    return NULL;
}

static void check_fork(void)
{
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, churn_until_finished, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(10);
            uint64_t r = 1;
            for (int k = 0; k < 200; k++) {
                size_t n = random_size(&r), cap;
                char *p = tx_alloc(n, &cap);
                CHECK(p);
                p[0] = p[n - 1] = 1;
                tx_free(p, n, cap);
            }
            tx_empty_cache();
            CHECK_EQ(stats().cached, 0);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
    }
    __atomic_store_n(&finished, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    CHECK_EQ(stats().live, 0);
}

/* Prints what a made-up tree of /proc and /sys allows: memory, CPUs. */
static int print_limits(const char *root)
{
    printf("%.0f %.3f\n", tx_cgroup_limit(root, TX_CGROUP_MEMORY), tx_cgroup_limit(root, TX_CGROUP_CPU));
    return 0;
}

/* Nanoseconds for one allocation and its release, by size. */
static void print_speed(void)
{
    for (size_t n = 16; n <= 64 * MIB; n *= 8) {
        double best = 1e30;
        for (int r = 0; r < 7; r++) {
            double t = tx_now_us();
            for (int i = 0; i < 50000; i++) {
                size_t cap;
                void *p = tx_alloc(n, &cap);
                __asm__ volatile("" ::"r"(p) : "memory");
                tx_free(p, n, cap);
            }
            t = (tx_now_us() - t) / 50;
            best = t < best ? t : best;
        }
        printf("%zu bytes: %.1f ns\n", n, best);
    }
}

static const test_case cases[] = {
    {"classes", check_classes}, {"blocks", check_blocks}, {"zero", check_zero},
    {"counters", check_counters}, {"reuse", check_reuse}, {"empty", check_empty},
    {"limit", check_limit}, {"refused", check_refused}, {"retry", check_retry},
    {"cap", check_cap}, {"huge", check_huge}, {"threads", check_threads},
    {"fork", check_fork}, {"speed", print_speed}, {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "limits"))
        return print_limits(argv[2]);
    return run_cases(cases, argc, argv);
}
