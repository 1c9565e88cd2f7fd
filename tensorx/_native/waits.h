/* Waiting for values and storages that another thread works on, without the GIL. */
#ifndef TX_WAITS_H
#define TX_WAITS_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static pthread_mutex_t tx_wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tx_wait_cond = PTHREAD_COND_INITIALIZER;
static uint64_t tx_wait_generation;

static void tx_wait_child(void) {
    pthread_mutex_init(&tx_wait_lock, NULL);
    pthread_cond_init(&tx_wait_cond, NULL);
}

static void tx_wake_all(void) {
    pthread_mutex_lock(&tx_wait_lock);
    tx_wait_generation++;
    pthread_cond_broadcast(&tx_wait_cond);
    pthread_mutex_unlock(&tx_wait_lock);
}

static double tx_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t tx_wait_now(void) { return __atomic_load_n(&tx_wait_generation, __ATOMIC_ACQUIRE); }

/* Returns when something finished since `seen`, or after 50 ms: signals are looked at then. */
static void tx_wait_since(uint64_t seen) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50 * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) { until.tv_nsec -= 1000000000; until.tv_sec++; }
    pthread_mutex_lock(&tx_wait_lock);
    if (tx_wait_generation == seen)
        pthread_cond_timedwait(&tx_wait_cond, &tx_wait_lock, &until);
    pthread_mutex_unlock(&tx_wait_lock);
}

#endif
