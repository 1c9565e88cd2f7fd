/* Cases for tensorx/_native/pool.h; see test_pool_c.py. */
#include "pool.h"

#include "check.h"

#include <dirent.h>
#include <sys/wait.h>

#define LONG_US 1e6 /* an estimate that asks for every thread */
enum { MANY = 5000 };
static int32_t count[MANY];
static int64_t plain_data[MANY]; /* not atomic: the pool has to order its accesses */

static void mark(void *ctx, int64_t i)
{
    int64_t *in = ctx;
    __atomic_fetch_add(&count[i], 1, __ATOMIC_RELAXED);
    plain_data[i] = in[0] + i;
}

static void run_and_check(int64_t n, double est)
{
    static __thread int64_t seed;
    seed += 17;
    memset(count, 0, sizeof count);
    tx_parallel_for(n, mark, &seed, est);
    for (int64_t i = 0; i < MANY; i++) {
        CHECK_EQ(count[i], i < n);
        if (i < n)
            CHECK_EQ(plain_data[i], seed + i);
    }
}

static void check_once(void)
{
    const double est[] = {-1, 0, 7, 9, 30, 90, 500, LONG_US, 1e300, 0.0 / 0.0, 1.0 / 0.0};
    run_and_check(0, LONG_US);
    run_and_check(-3, LONG_US);
    for (int threads = 1; threads <= 9; threads++) {
        tx_set_num_threads(threads);
        CHECK_EQ(tx_get_num_threads(), threads);
        for (int64_t r = 0; r < 60; r++)
            run_and_check(1 + r * r * 7 % MANY, est[r % 11]);
    }
    tx_pool_shutdown();
}

static void spend(double us)
{
    double until = tx_now_us() + us;
    while (tx_now_us() < until)
        ;
}

/* ---- who runs what ---- */
static pthread_t runner[MANY];
static void note_thread(void *ctx, int64_t i)
{
    runner[i] = pthread_self();
    if (ctx)
        spend(*(double *)ctx);
}

static int distinct_runners(int n)
{
    int distinct = 0;
    for (int i = 0; i < n; i++) {
        int known = 0;
        for (int k = 0; k < i && !known; k++)
            known = pthread_equal(runner[i], runner[k]);
        distinct += !known;
    }
    return distinct;
}

static void wait_asleep(int n)
{
    for (int i = 0; i < 5000 && __atomic_load_n(&tx_pool.sleeping, __ATOMIC_RELAXED) < n; i++)
        usleep(1000);
    CHECK_EQ(__atomic_load_n(&tx_pool.sleeping, __ATOMIC_RELAXED), n);
}

static void check_shared(void)
{
    double us = 2000;
    tx_pool.usable = 8; /* so that workers spin on small machines, too */
    tx_set_num_threads(4);
    for (int asleep = 0; asleep < 2; asleep++) {
        int most = 0;
        for (int r = 0; r < 100 && most < 4; r++) {
            if (asleep)
                wait_asleep(3); /* the third is woken by the first two */
            tx_parallel_for(40, note_thread, &us, 80000);
            int n = distinct_runners(40);
            CHECK(n <= 4);
            most = n > most ? n : most;
        }
        CHECK_EQ(most, 4);
    }
    /* Never more helpers than chunks, nor than the estimate pays for. */
    us = 300;
    for (int r = 0; r < 20; r++) {
        tx_parallel_for(2, note_thread, &us, LONG_US);
        CHECK(distinct_runners(2) <= 2);
        tx_parallel_for(30, note_thread, &us, 9);
        CHECK(distinct_runners(30) <= 3);
    }
    tx_pool_shutdown();
}

/* Until a worker has taken part, so that it spins now. */
static void warm_up(void)
{
    double us = 20;
    for (int r = 0; r < 200; r++) {
        tx_parallel_for(40, note_thread, &us, 800);
        if (distinct_runners(40) > 1)
            return;
    }
}

static int64_t last;
static void in_order(void *ctx, int64_t i)
{
    spend(20); /* time for a worker to come, if one were called */
    CHECK_EQ(i, last);
    last++;
    CHECK(pthread_equal(pthread_self(), *(pthread_t *)ctx));
}

static void check_inline(void)
{
    pthread_t me = pthread_self();
    tx_pool.usable = 8;
    tx_set_num_threads(4);
    for (int warm = 0; warm < 5; warm++) {
        const double est[] = {0, 5, 7.9};
        for (int i = 0; i < 3; i++) {
            last = 0;
            tx_parallel_for(20, in_order, &me, est[i]);
            CHECK_EQ(last, 20);
            warm_up(); /* workers are awake next time */
        }
    }
    /* All asleep: a short job is not worth waking anyone. */
    wait_asleep(3);
    last = 0;
    tx_parallel_for(100, in_order, &me, TX_POOL_WAKE_US - 1);
    CHECK_EQ(last, 100);
    tx_set_num_threads(1);
    last = 0;
    tx_parallel_for(100, in_order, &me, LONG_US);
    CHECK_EQ(last, 100);
}

/* ---- nested and concurrent calls ---- */
enum { OUTER = 20, INNER = 30 };
static int32_t cells[OUTER][INNER];
static void inner(void *ctx, int64_t i) { ((int32_t *)ctx)[i] += 1; }
static void outer(void *ctx, int64_t i)
{
    (void)ctx;
    tx_pool_shutdown(); /* has no effect from in here */
    tx_parallel_for(INNER, inner, cells[i], LONG_US);
}

static void check_nested(void)
{
    tx_set_num_threads(4);
    for (int r = 1; r <= 100; r++) {
        tx_parallel_for(OUTER, outer, NULL, LONG_US);
        for (int i = 0; i < OUTER; i++)
            for (int k = 0; k < INNER; k++)
                CHECK_EQ(cells[i][k], r);
    }
    tx_pool_shutdown();
}

static int finished;
typedef struct { int64_t seed, out[200]; } job;
static void fill(void *ctx, int64_t i)
{
    job *j = ctx;
    j->out[i] = j->seed * i;
}
static void run_job(job *j)
{
    j->seed++;
    tx_parallel_for(200, fill, j, LONG_US);
    for (int64_t i = 0; i < 200; i++)
        CHECK_EQ(j->out[i], j->seed * i);
}
static void *caller(void *arg)
{
    job j = {(int64_t)(intptr_t)arg * 1000, {0}};
    for (int r = 0; r < 1500; r++)
        run_job(&j);
    return NULL;
}
static void *caller_until_finished(void *arg)
{
    job j = {(int64_t)(intptr_t)arg * 1000, {0}};
    while (!__atomic_load_n(&finished, __ATOMIC_RELAXED))
        run_job(&j);
    return NULL;
}

static void check_concurrent(void)
{
    pthread_t t[5];
    tx_set_num_threads(3);
    for (int i = 0; i < 5; i++)
        CHECK(pthread_create(&t[i], NULL, caller, (void *)(intptr_t)i) == 0);
    for (int r = 0; r < 60; r++) { /* the number changes and the pool stops meanwhile */
        tx_set_num_threads(1 + r % 4);
        if (r % 5 == 0)
            tx_pool_shutdown();
        usleep(500);
    }
    for (int i = 0; i < 5; i++)
        pthread_join(t[i], NULL);
    tx_pool_shutdown();
}

/* ---- start, stop, number of threads ---- */
static int threads_of_process(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    if (!d)
        return -1;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void expect_threads(int n)
{
    if (threads_of_process() < 0)
        return;
    for (int i = 0; i < 5000 && threads_of_process() != n; i++)
        usleep(1000); /* a joined thread may linger in /proc */
    CHECK_EQ(threads_of_process(), n);
}

static void check_restart(void)
{
    tx_pool_shutdown(); /* before any use */
    run_and_check(300, LONG_US);
    tx_pool_shutdown();
    usleep(20000);
    int base = threads_of_process(); /* a sanitizer has a thread of its own by now */
    for (int r = 0; r < 20; r++) {
        tx_set_num_threads(5);
        run_and_check(300, LONG_US);
        expect_threads(base + 4);
        tx_set_num_threads(3); /* superfluous workers go at once */
        expect_threads(base);
        run_and_check(300, LONG_US);
        expect_threads(base + 2);
        tx_pool_shutdown();
        tx_pool_shutdown();
        expect_threads(base);
        run_and_check(300, LONG_US);
        tx_pool_shutdown();
    }
    /* Idle workers are gone before a fork, for the parent, too. */
    tx_set_num_threads(4);
    for (int r = 0; r < 20; r++) {
        run_and_check(300, LONG_US);
        CHECK_EQ(tx_pool.nworkers, 3);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(tx_pool.nworkers);
        if (base >= 0)
            CHECK_EQ(threads_of_process(), base);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
    }
    tx_set_num_threads(0);
    CHECK_EQ(tx_get_num_threads(), 1);
    tx_set_num_threads(100000);
    CHECK_EQ(tx_get_num_threads(), TX_POOL_MAX);
    CHECK(tx_pool_default_threads() >= 1 && tx_pool_default_threads() <= TX_POOL_MAX);
}

/* More threads than CPUs: nobody spins. */
static void check_spin(void)
{
    int cpus = tx_pool_default_threads();
    tx_set_num_threads(cpus + 1);
    run_and_check(100, LONG_US);
    CHECK(tx_pool.spin_us == 0);
    if (cpus > 1) {
        tx_set_num_threads(cpus);
        run_and_check(100, LONG_US);
        CHECK(tx_pool.spin_us > 0);
    }
    wait_asleep(tx_pool.nworkers);
    tx_pool_shutdown();
}

/* ---- a worker that is held up outside the gate does not hold up the caller ---- */
static volatile int held, release_held;
static void hold(int sig)
{
    (void)sig;
    held = 1;
    while (!release_held)
        usleep(1000);
}

static void check_late(void)
{
    signal(SIGPROF, hold); /* workers leave it unblocked for profilers */
    tx_set_num_threads(2);
    run_and_check(100, LONG_US);
    CHECK_EQ(tx_pool.nworkers, 1);
    CHECK(pthread_kill(tx_pool.thread[0], SIGPROF) == 0);
    for (int i = 0; i < 5000 && !held; i++)
        usleep(1000);
    CHECK(held);
    for (int r = 0; r < 50; r++) /* would hang here, until killed, if the caller waited */
        run_and_check(500, LONG_US);
    release_held = 1;
    tx_pool_shutdown();
}

/* Signals meant for the program are not taken by workers. */
static volatile int on_main = -1;
static pthread_t main_thread;
static void note_signal(int sig)
{
    (void)sig;
    on_main = pthread_equal(pthread_self(), main_thread);
}

static void check_signals(void)
{
    main_thread = pthread_self();
    signal(SIGINT, note_signal);
    tx_set_num_threads(4);
    run_and_check(100, LONG_US);
    sigset_t block, old, pending;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    pthread_sigmask(SIG_BLOCK, &block, &old);
    kill(getpid(), SIGINT);
    usleep(20000);
    CHECK_EQ(on_main, -1);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGINT));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; i < 5000 && on_main < 0; i++)
        usleep(1000);
    CHECK_EQ(on_main, 1);
    tx_pool_shutdown();
}

/* ---- cancellation ---- */
static void cancel_now(int sig)
{
    (void)sig;
    tx_cancel_set(1);
}
static int32_t called, left_early;
static void long_chunk(void *ctx, int64_t i)
{
    (void)ctx;
    __atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
    if (i == 3)
        kill(getpid(), SIGUSR1); /* workers block it: it reaches another thread */
    for (int k = 0; k < 2000; k++) {
        if (tx_cancel_requested()) {
            __atomic_fetch_add(&left_early, 1, __ATOMIC_RELAXED);
            return;
        }
        usleep(i < 3 ? 10 : 1000);
    }
}

static void check_cancel(void)
{
    signal(SIGUSR1, cancel_now);
    tx_set_num_threads(2);
    tx_parallel_for(50, long_chunk, NULL, LONG_US);
    CHECK_EQ(called, 50); /* every chunk is called, and leaves by itself */
    CHECK(left_early >= 47);
    CHECK(tx_cancel_requested());
    tx_cancel_set(0);
    CHECK(!tx_cancel_requested());
    tx_pool_shutdown();
}

/* ---- fork and exit ---- */
static void check_fork(void)
{
    pthread_t t[2];
    tx_set_num_threads(3);
    run_and_check(200, LONG_US);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, caller_until_finished, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < 40; i++) {
        tx_cancel_set(i % 2);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(20);
            CHECK(!tx_cancel_requested());
            job j = {7, {0}};
            for (int r = 0; r < 50; r++)
                run_job(&j);
            CHECK_EQ(tx_get_num_threads(), 3);
            CHECK_EQ(tx_pool.nworkers, 2); /* really in use, with workers of its own */
            tx_pool_shutdown();
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
    }
    __atomic_store_n(&finished, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    tx_pool_shutdown();
}

/* Exit while workers spin and while another thread's job runs. */
static void check_exit(void)
{
    pthread_t t;
    tx_set_num_threads(3);
    run_and_check(200, LONG_US);
    CHECK(pthread_create(&t, NULL, caller_until_finished, NULL) == 0);
    usleep(3000);
    exit(0);
}

/* The generation of the gate wraps around. */
static void nothing(void *ctx, int64_t i)
{
    (void)ctx;
    (void)i;
}

static void check_wrap(void)
{
    tx_set_num_threads(2);
    run_and_check(100, LONG_US);
    tx_pool_shutdown();
    tx_pool.gate = (0u - 40 * TX_GATE_JOB) | TX_GATE_CLOSED;
    for (int r = 0; r < 100; r++)
        run_and_check(100 + r, LONG_US);
    CHECK(tx_pool.gate < 100 * TX_GATE_JOB);
    tx_pool_shutdown();
}

/* ---- figures ---- */
#define BEST(rounds, times, expr)                    \
    ({                                               \
        double best_ = 1e30;                         \
        for (int r_ = 0; r_ < (rounds); r_++) {      \
            double t_ = tx_now_us();                 \
            for (int i_ = 0; i_ < (times); i_++) {   \
                expr;                                \
            }                                        \
            t_ = (tx_now_us() - t_) / (times);       \
            best_ = t_ < best_ ? t_ : best_;         \
        }                                            \
        best_;                                       \
    })

static void half_us(void *ctx, int64_t i)
{
    (void)ctx;
    (void)i;
    for (int k = 0; k < 12; k++)
        TX_PAUSE();
}

static float *array;
static void scale(void *ctx, int64_t i)
{
    (void)ctx;
    float *x = array + i * 65536;
    for (int k = 0; k < 65536; k++)
        x[k] = x[k] * 0.5f + 0.25f;
}

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static void print_speed(void)
{
    tx_job_fn volatile hidden = nothing; /* as the engine calls it: through a pointer */
    printf("inline, 1 chunk: %.1f ns\n", 1e3 * BEST(7, 100000, tx_parallel_for(1, hidden, NULL, 5)));
    tx_set_num_threads(2);
    enum { N = 41 };
    double t[N], u[N];
    for (int r = 0; r < N; r++) {
        warm_up();
        t[r] = BEST(1, 50, tx_parallel_for(4, nothing, NULL, 40));
        warm_up();
        u[r] = BEST(1, 50, tx_parallel_for(16, half_us, NULL, 40));
    }
    qsort(t, N, sizeof t[0], by_value);
    qsort(u, N, sizeof u[0], by_value);
    double alone = BEST(20, 100, for (int i = 0; i < 16; i++) half_us(NULL, i));
    printf("spinning worker, 4 empty chunks: %.0f ns median\n", t[N / 2] * 1e3);
    printf("16 chunks: 1 thread %.0f ns, 2 threads %.0f ns best, %.0f ns median\n", alone * 1e3, u[0] * 1e3, u[N / 2] * 1e3);
    for (int r = 0; r < N; r++) {
        wait_asleep(1);
        spend(200);
        t[r] = BEST(1, 1, tx_parallel_for(2, nothing, NULL, 200));
    }
    qsort(t, N, sizeof t[0], by_value);
    printf("waking a sleeping worker costs the caller %.1f us best, %.1f us median\n", t[0], t[N / 2]);
    array = aligned_alloc((size_t)2 << 20, (size_t)64 << 20);
    for (size_t i = 0; i < (size_t)16 << 20; i++)
        array[i] = 1;
    for (int r = 0; r < N; r++) {
        tx_set_num_threads(1);
        t[r] = BEST(1, 1, tx_parallel_for(256, scale, NULL, 8000));
        tx_set_num_threads(2);
        warm_up();
        u[r] = BEST(1, 1, tx_parallel_for(256, scale, NULL, 8000));
    }
    qsort(t, N, sizeof t[0], by_value);
    qsort(u, N, sizeof u[0], by_value);
    printf("64 MiB in place: 1 thread %.0f us best, %.0f median; 2 threads %.0f us best, %.0f median\n",
           t[0], t[N / 2], u[0], u[N / 2]);
    free(array);
    tx_pool_shutdown();
}

static const test_case cases[] = {
    {"once", check_once}, {"shared", check_shared}, {"inline", check_inline}, {"nested", check_nested},
    {"concurrent", check_concurrent}, {"restart", check_restart}, {"spin", check_spin},
    {"late", check_late}, {"signals", check_signals}, {"cancel", check_cancel}, {"fork", check_fork},
    {"exit", check_exit}, {"wrap", check_wrap}, {"speed", print_speed}, {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "threads")) {
        printf("%d %d %d\n", tx_pool_env_threads(), tx_get_num_threads(), tx_pool_default_threads());
        return 0;
    }
    return run_cases(cases, argc, argv);
}
