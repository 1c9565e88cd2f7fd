/* The thread pool: one per process, the caller takes part.
 *
 * A job is n chunks that are claimed one by one.  Whether and how many workers
 * help is decided from the estimated time: a worker that still spins after the
 * last job costs well under a microsecond, one that sleeps some 15-50 us on
 * virtual machines.  Workers check in at a gate; when no chunk is left the caller
 * closes it and waits only for those inside, never for one that is still waking.
 * Nothing is allocated per call, and a call made while the pool is in use (from
 * another thread, or from inside a job) simply runs on its caller.
 */
#ifndef TX_POOL_H
#define TX_POOL_H

#include "sysinfo.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#if defined(__linux__) && !defined(TX_POOL_CONDVAR)
#define TX_POOL_FUTEX 1
#include <linux/futex.h>
#ifndef SYS_futex                       /* 32-bit systems with 64-bit time only */
#define SYS_futex SYS_futex_time64
#endif
#endif
#ifdef __APPLE__
#include <pthread/qos.h>
#endif

typedef void (*tx_job_fn)(void *ctx, int64_t chunk);

#define TX_POOL_MAX 256
#define TX_POOL_INLINE_US 8.0           /* below: not worth sharing at all */
#define TX_POOL_SHARE_US 4.0            /* least work for each further thread */
#define TX_POOL_STACK ((size_t)2 << 20)
#ifdef __APPLE__
#define TX_POOL_WAKE_US 40.0            /* least work per thread to wake one */
#define TX_POOL_SPIN_US 50.0            /* energy: never longer there */
#else
#define TX_POOL_WAKE_US 80.0
#define TX_POOL_SPIN_US 120.0
#endif

/* gate: generation | waiter | closed | number of workers inside */
#define TX_GATE_INSIDE 0x3ffu
#define TX_GATE_CLOSED 0x400u
#define TX_GATE_WAITER 0x800u           /* the caller sleeps until the last one leaves */
#define TX_GATE_JOB 0x1000u             /* one generation */

static struct tx_pool_state {
    /* read by spinning workers */
    uint32_t gate __attribute__((aligned(128)));
    int32_t max_inside;
    int64_t nchunks;
    tx_job_fn fn;
    void *ctx;
    int64_t next __attribute__((aligned(128)));      /* the next chunk to claim */
    uint32_t wake_seq __attribute__((aligned(128))); /* sleepers wait for it to change */
    int32_t sleeping;
    int32_t to_wake;                    /* woken workers wake further ones: a tree, not a row */
    int32_t stop;
    int32_t busy __attribute__((aligned(128)));      /* a caller owns the pool */
    int32_t nworkers;                   /* running threads; changed by the owner only */
    int32_t tried;                      /* workers last asked for; the system may give fewer */
    int32_t wanted;                     /* threads with the caller; 0: not decided yet */
    int32_t usable;                     /* default number of threads, 0: not asked yet */
    double spin_us;
    pthread_t thread[TX_POOL_MAX];
    int32_t tid[TX_POOL_MAX];           /* Linux: the kernel's names of the threads */
#ifndef TX_POOL_FUTEX
    pthread_mutex_t mutex;
    pthread_cond_t cond[2];             /* of the workers, of the caller */
#endif
} tx_pool = {
    .gate = TX_GATE_CLOSED,
#ifndef TX_POOL_FUTEX
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .cond = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER},
#endif
};

/* Set while this thread runs chunks: it must not stop the pool it stands in. */
static __thread int tx_pool_inside;

/* ---- cancellation -------------------------------------------------------- */
/* Long jobs poll it and leave early; a signal handler may set it. */
static volatile int tx_cancel;
static inline int tx_cancel_requested(void) { return __atomic_load_n(&tx_cancel, __ATOMIC_RELAXED); }
TX_API void tx_cancel_set(int on) { __atomic_store_n(&tx_cancel, on, __ATOMIC_RELAXED); }

/* The thread that called a long job looks now and then whether it should stop (a signal came):
 * the function is set around the job, in that thread alone. */
#define TX_POLL_US 50000.0
static __thread int (*tx_poll_fn)(void);
static __thread double tx_poll_at;
static inline int tx_poll_stop(void)
{
    if (TX_LIKELY(!tx_poll_fn))
        return 0;
    double now = tx_now_us();
    if (now < tx_poll_at)
        return 0;
    tx_poll_at = now + TX_POLL_US;
    return tx_poll_fn();
}

/* ---- parking: sleep while *word == seen ---------------------------------- */
#ifdef TX_POOL_FUTEX
TX_COLD void tx_park(uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
TX_COLD void tx_unpark(uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
TX_COLD void tx_park(uint32_t *word, uint32_t seen)
{
    pthread_mutex_lock(&tx_pool.mutex);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen)
        pthread_cond_wait(&tx_pool.cond[word == &tx_pool.gate], &tx_pool.mutex);
    pthread_mutex_unlock(&tx_pool.mutex);
}
TX_COLD void tx_unpark(uint32_t *word, int count)
{
    pthread_cond_t *cond = &tx_pool.cond[word == &tx_pool.gate];
    pthread_mutex_lock(&tx_pool.mutex);
    if (count > TX_POOL_MAX)
        pthread_cond_broadcast(cond);
    else
        while (count-- > 0)
            pthread_cond_signal(cond);
    pthread_mutex_unlock(&tx_pool.mutex);
}
#endif

/* ---- workers ------------------------------------------------------------- */
static inline void tx_pool_run_chunks(tx_job_fn fn, void *ctx, int64_t nchunks)
{
    for (;;) {
        int64_t i = __atomic_fetch_add(&tx_pool.next, 1, __ATOMIC_RELAXED);
        if (i >= nchunks)
            return;
        fn(ctx, i);
    }
}

/* Takes part in the current job if its gate is open; *seen keeps a worker from
 * entering the same job twice. */
static int tx_pool_try_join(uint32_t *seen)
{
    uint32_t g = __atomic_load_n(&tx_pool.gate, __ATOMIC_SEQ_CST);
    for (;;) {
        if (g & TX_GATE_CLOSED)
            return 0;
        uint32_t job = g / TX_GATE_JOB;
        if (job == *seen)
            return 0;
        if ((int32_t)(g & TX_GATE_INSIDE) >= __atomic_load_n(&tx_pool.max_inside, __ATOMIC_RELAXED)) {
            *seen = job;
            return 0;
        }
        if (__atomic_compare_exchange_n(&tx_pool.gate, &g, g + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            *seen = job;
            break;
        }
    }
    /* Inside: the caller cannot leave, so the job's fields stand still. */
    tx_pool_run_chunks(tx_pool.fn, tx_pool.ctx, tx_pool.nchunks);
    g = __atomic_fetch_sub(&tx_pool.gate, 1, __ATOMIC_ACQ_REL);
    if ((g & TX_GATE_WAITER) && (g & TX_GATE_INSIDE) == 1)
        tx_unpark(&tx_pool.gate, 1);
    return 1;
}

/* After work, stays awake for a while: the next job is then shared at once. */
static void tx_pool_spin(uint32_t *seen)
{
    uint32_t latest = *seen;
    double now = tx_now_us(), until = now + tx_pool.spin_us;
    while (now < until && !__atomic_load_n(&tx_pool.stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 32; i++) {
            TX_PAUSE();
            tx_pool_try_join(seen);
        }
        /* On a busy machine whoever has something to do goes first. */
        sched_yield();
        now = tx_now_us();
        /* Jobs that were over too soon to join are work, too. */
        uint32_t job = __atomic_load_n(&tx_pool.gate, __ATOMIC_RELAXED) / TX_GATE_JOB;
        if (job != latest) {
            latest = job;
            until = now + tx_pool.spin_us;
        }
    }
}

static void *tx_pool_worker(void *arg)
{
    uint32_t seen = __atomic_load_n(&tx_pool.gate, __ATOMIC_RELAXED) / TX_GATE_JOB - 1;
    tx_pool_inside = 1;
#ifdef __linux__
    tx_pool.tid[(intptr_t)arg] = (int32_t)syscall(SYS_gettid);
#else
    (void)arg;
#endif
#ifdef __APPLE__
    pthread_setname_np("tensorx");
#elif defined(__linux__) && defined(__GLIBC__)
    pthread_setname_np(pthread_self(), "tensorx");
#endif
    while (!__atomic_load_n(&tx_pool.stop, __ATOMIC_ACQUIRE)) {
        if (tx_pool_try_join(&seen)) {
            tx_pool_spin(&seen);
            continue;
        }
        uint32_t seq = __atomic_load_n(&tx_pool.wake_seq, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&tx_pool.sleeping, 1, __ATOMIC_SEQ_CST);
        /* A job posted before we counted as asleep is seen here; a later one
         * sees us asleep.  Missing one would cost time only. */
        int joined = 0;
        if (!__atomic_load_n(&tx_pool.stop, __ATOMIC_SEQ_CST) && !(joined = tx_pool_try_join(&seen)))
            tx_park(&tx_pool.wake_seq, seq);
        __atomic_fetch_sub(&tx_pool.sleeping, 1, __ATOMIC_SEQ_CST);
        int32_t more = __atomic_load_n(&tx_pool.to_wake, __ATOMIC_RELAXED);
        while (more > 0) {
            int32_t k = more < 2 ? more : 2;
            if (__atomic_compare_exchange_n(&tx_pool.to_wake, &more, more - k, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                tx_unpark(&tx_pool.wake_seq, k);
                break;
            }
        }
        if (joined)
            tx_pool_spin(&seen);
    }
    return NULL;
}

/* ---- number of threads --------------------------------------------------- */
/* TENSORX_NUM_THREADS: its value, 0 if unset, -1 if it is no number from 1 on. */
TX_COLD int tx_pool_env_threads(void)
{
    const char *text = getenv("TENSORX_NUM_THREADS");
    if (!text || !*text)
        return 0;
    char *end;
    long n = strtol(text, &end, 10);
    while (*end == ' ')
        end++;
    if (*end || n < 1)
        return -1;
    return n > TX_POOL_MAX ? TX_POOL_MAX : (int)n;
}

/* What the machine offers: affinity, cgroup quota, performance cores on macOS. */
TX_API int tx_pool_default_threads(void)
{
    int n = __atomic_load_n(&tx_pool.usable, __ATOMIC_RELAXED);
    if (n == 0) {
        n = tx_usable_cpus("");
        n = n > TX_POOL_MAX ? TX_POOL_MAX : n;
        __atomic_store_n(&tx_pool.usable, n, __ATOMIC_RELAXED);
    }
    return n;
}

TX_API int tx_get_num_threads(void)
{
    int n = __atomic_load_n(&tx_pool.wanted, __ATOMIC_RELAXED);
    if (TX_UNLIKELY(n == 0)) {
        int env = tx_pool_env_threads(), none = 0;
        n = env > 0 ? env : tx_pool_default_threads();
        if (!__atomic_compare_exchange_n(&tx_pool.wanted, &none, n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            n = none;
    }
    return n;
}

/* The owner (busy is ours) stops and joins all workers. */
TX_COLD void tx_pool_stop_owned(void)
{
    if (tx_pool.nworkers == 0)
        return;
    __atomic_store_n(&tx_pool.to_wake, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tx_pool.stop, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&tx_pool.wake_seq, 1, __ATOMIC_SEQ_CST);
    tx_unpark(&tx_pool.wake_seq, INT_MAX);
    for (int i = 0; i < tx_pool.nworkers; i++)
        pthread_join(tx_pool.thread[i], NULL);
#ifdef __linux__
    /* A joined thread is still counted by the kernel for some microseconds; whoever
     * stops the pool (before a fork) wants to be alone. */
    for (int i = 0, tries = 0; i < tx_pool.nworkers; i++)
        while (tries++ < 1000 && syscall(SYS_tgkill, getpid(), tx_pool.tid[i], 0) == 0)
            sched_yield();
#endif
    tx_pool.nworkers = tx_pool.tried = 0;
    __atomic_store_n(&tx_pool.stop, 0, __ATOMIC_RELEASE);
}

/* The owner brings the number of workers to `count`; fewer if the system refuses. */
TX_COLD void tx_pool_start_owned(int count)
{
    if (tx_pool.nworkers > count)
        tx_pool_stop_owned();
    /* Spinning threads beyond the CPUs would take time from those that work. */
    double spin = count + 1 > tx_pool_default_threads() ? 0 : TX_POOL_SPIN_US;
    if (spin != tx_pool.spin_us) {
        tx_pool_stop_owned();
        tx_pool.spin_us = spin;
    }
    tx_pool.tried = count;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr))
        return;
    pthread_attr_setstacksize(&attr, TX_POOL_STACK);
#ifdef __APPLE__
    pthread_attr_set_qos_class_np(&attr, QOS_CLASS_USER_INITIATED, 0);
#endif
    /* Signals belong to the program's own threads; faults stay with their cause. */
    sigset_t block, old;
    sigfillset(&block);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&block, faults[i]);
    pthread_sigmask(SIG_SETMASK, &block, &old);
    while (tx_pool.nworkers < count) {
        intptr_t i = tx_pool.nworkers;
        if (pthread_create(&tx_pool.thread[i], &attr, tx_pool_worker, (void *)i))
            break;
        tx_pool.nworkers++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

static inline int tx_pool_acquire(void)
{
    int32_t no = 0;
    return !__atomic_load_n(&tx_pool.busy, __ATOMIC_RELAXED) &&
           __atomic_compare_exchange_n(&tx_pool.busy, &no, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
static inline void tx_pool_release(void) { __atomic_store_n(&tx_pool.busy, 0, __ATOMIC_RELEASE); }

/* Threads that later calls may use, the caller included; 1 to 256. A call that
 * runs now keeps its own; superfluous workers end at once or before the next job. */
TX_API void tx_set_num_threads(int n)
{
    n = n < 1 ? 1 : n > TX_POOL_MAX ? TX_POOL_MAX : n;
    __atomic_store_n(&tx_pool.wanted, n, __ATOMIC_RELAXED);
    if (tx_pool_acquire()) {
        if (tx_pool.nworkers > n - 1)
            tx_pool_stop_owned();
        tx_pool_release();
    }
}

/* Joins all workers, after the job that another thread may be running; they are
 * started again on demand.  From inside a job it does nothing. */
TX_API void tx_pool_shutdown(void)
{
    if (tx_pool_inside)
        return;
    while (!tx_pool_acquire()) {
        struct timespec t = {0, 100000};
        nanosleep(&t, NULL);
    }
    tx_pool_stop_owned();
    tx_pool_release();
}

/* ---- the call ------------------------------------------------------------ */
TX_COLD void tx_pool_wait_inside(void)
{
    double until = 0;
    for (int i = 0;; i++) {
        uint32_t g = __atomic_load_n(&tx_pool.gate, __ATOMIC_ACQUIRE);
        if ((g & TX_GATE_INSIDE) == 0)
            return;
        if (tx_pool.spin_us > 0) {
            if (i < 32) {
                TX_PAUSE();
                continue;
            }
            sched_yield(); /* the worker may need this very CPU */
            double now = tx_now_us();
            if (until == 0)
                until = now + TX_POOL_SPIN_US;
            if (now < until) {
                i = 0;
                continue;
            }
        }
        if ((g & TX_GATE_WAITER) ||
            __atomic_compare_exchange_n(&tx_pool.gate, &g, g | TX_GATE_WAITER, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            tx_park(&tx_pool.gate, g | TX_GATE_WAITER);
    }
}

static __attribute__((unused, noinline)) void tx_parallel_shared(int64_t nchunks, tx_job_fn fn, void *ctx, double est_us, int threads)
{
    int64_t want = threads - 1 < nchunks - 1 ? threads - 1 : nchunks - 1;
    if ((double)want > est_us / TX_POOL_SHARE_US)
        want = (int64_t)(est_us / TX_POOL_SHARE_US);
    int awake = 0, wake = 0;
    int shared = tx_pool_acquire();
    if (shared) {
        awake = tx_pool.nworkers - __atomic_load_n(&tx_pool.sleeping, __ATOMIC_SEQ_CST);
        wake = est_us >= TX_POOL_WAKE_US * (1 + awake);
        if (wake && tx_pool.tried != threads - 1)
            tx_pool_start_owned(threads - 1);
        if (tx_pool.nworkers == 0 || (awake == 0 && !wake)) {
            tx_pool_release();
            shared = 0;
        }
    }
    if (!shared) {
        for (int64_t i = 0; i < nchunks; i++)
            fn(ctx, i);
        return;
    }
    int depth = tx_pool_inside;
    tx_pool_inside = 1;
    tx_pool.fn = fn;
    tx_pool.ctx = ctx;
    tx_pool.nchunks = nchunks;
    __atomic_store_n(&tx_pool.next, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tx_pool.max_inside, (int32_t)want, __ATOMIC_RELAXED);
    /* Nobody is inside a closed gate, so it can simply be set. */
    uint32_t job = __atomic_load_n(&tx_pool.gate, __ATOMIC_RELAXED) / TX_GATE_JOB + 1;
    __atomic_store_n(&tx_pool.gate, job * TX_GATE_JOB, __ATOMIC_SEQ_CST);
    if (wake) {
        int asleep = __atomic_load_n(&tx_pool.sleeping, __ATOMIC_SEQ_CST);
        int need = (int)want - (tx_pool.nworkers - asleep);
        need = need < asleep ? need : asleep;
        if (need > 0) {
            int first = need < 2 ? need : 2;
            __atomic_store_n(&tx_pool.to_wake, need - first, __ATOMIC_RELAXED);
            __atomic_fetch_add(&tx_pool.wake_seq, 1, __ATOMIC_SEQ_CST);
            tx_unpark(&tx_pool.wake_seq, first);
        }
    }
    tx_pool_run_chunks(fn, ctx, nchunks);
    uint32_t g = __atomic_fetch_or(&tx_pool.gate, TX_GATE_CLOSED, __ATOMIC_ACQ_REL);
    if (g & TX_GATE_INSIDE)
        tx_pool_wait_inside();
    tx_pool_inside = depth;
    tx_pool_release();
}

/* Runs fn(ctx, chunk) for 0 <= chunk < nchunks, each exactly once, in any order
 * and on any thread, and returns when all are done.  est_us: estimated time of the
 * whole on one thread.  fn must not wait for another chunk. */
static inline void tx_parallel_for(int64_t nchunks, tx_job_fn fn, void *ctx, double est_us)
{
    int threads;
    if (nchunks > 1 && est_us >= TX_POOL_INLINE_US && (threads = tx_get_num_threads()) > 1) {
        tx_parallel_shared(nchunks, fn, ctx, est_us, threads);
        return;
    }
    for (int64_t i = 0; i < nchunks; i++)
        fn(ctx, i);
}

/* ---- fork ---------------------------------------------------------------- */
/* Idle workers are joined first: a process with one thread forks without a warning
 * from Python and without risk.  They start again on demand. */
static void tx_pool_fork_prepare(void)
{
    if (!tx_pool_inside && tx_pool_acquire()) {
        tx_pool_stop_owned();
        tx_pool_release();
    }
}

/* Workers of a job that another thread runs do not exist in the child: it starts
 * from a fresh, closed pool. */
static void tx_pool_fork_child(void)
{
    tx_pool.gate = TX_GATE_CLOSED;
    tx_pool.max_inside = 0;
    tx_pool.next = 0;
    tx_pool.nchunks = 0;
    tx_pool.sleeping = tx_pool.to_wake = tx_pool.stop = 0;
    tx_pool.busy = tx_pool.nworkers = tx_pool.tried = 0;
    tx_pool.spin_us = 0;
    tx_pool_inside = 0;
    tx_cancel = 0;
#ifndef TX_POOL_FUTEX
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    tx_pool.mutex = mutex;
    tx_pool.cond[0] = tx_pool.cond[1] = cond;
#endif
}

__attribute__((constructor)) static void tx_pool_init(void)
{
    pthread_atfork(tx_pool_fork_prepare, NULL, tx_pool_fork_child);
}

#endif
