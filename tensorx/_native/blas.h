/* An outside BLAS for large products of float32, float64, complex64 and complex128.
 *
 * On Apple silicon Accelerate is used by default: it alone reaches the matrix units.  Elsewhere
 * our own kernels are as fast (docs/matmul.md) and a library is opened only if TENSORX_BLAS
 * names one; TENSORX_BLAS=own turns any of it off.  A library that has threads of its own is set
 * to one thread, and panels cut by shape alone go to our pool: one pool, and results that do not
 * depend on the number of threads.  After a fork the child of a process that uses Accelerate has
 * our own kernels: Accelerate's workers do not survive it. */
#ifndef TX_BLAS_H
#define TX_BLAS_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_abi.h"
#include "gemm_abi.h"

#define TX_BLAS_ROW_MAJOR 101
#define TX_BLAS_NO_TRANS 111
#define TX_BLAS_TRANS 112
#define TX_BLAS_CONJ_TRANS 113

#define TX_ACCELERATE "/System/Library/Frameworks/Accelerate.framework/Accelerate"

static struct tx_blas_state {
    void *gemm[4];     /* float32, float64, complex64, complex128; NULL: not there */
    int wide;          /* integers are 64 bits */
    int threads;       /* it brings threads of its own that cannot be turned off */
    int forked;
    char name[256];
} tx_blas = {.name = "own"};

static pthread_once_t tx_blas_once = PTHREAD_ONCE_INIT;

static void tx_blas_fork_child(void) { tx_blas.forked = 1; }

/* 1 if the library has what we need, under any of the usual names. */
static int tx_blas_open(const char *path)
{
    static const struct { const char *form; int wide; } names[] = {
        {"cblas_%cgemm$NEWLAPACK$ILP64", 1}, {"scipy_cblas_%cgemm64_", 1}, {"cblas_%cgemm64_", 1},
        {"cblas_%cgemm_64", 1}, {"cblas_%cgemm$NEWLAPACK", 0}, {"scipy_cblas_%cgemm", 0}, {"cblas_%cgemm", 0},
    };
    static const char *const set_threads[] = {
        "scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
        "openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads",
    };
    void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *found[4];
        int all = 1;
        for (int t = 0; t < 4; t++) {
            char name[64];
            snprintf(name, sizeof name, names[i].form, "sdcz"[t]);
            found[t] = dlsym(lib, name);
            all &= found[t] != NULL;
        }
        if (!all)
            continue;
        tx_blas.threads = 1;
        for (size_t s = 0; s < sizeof set_threads / sizeof set_threads[0] && tx_blas.threads; s++) {
            void *sym = dlsym(lib, set_threads[s]);
            if (!sym)
                continue;
            if (strstr(set_threads[s], "bli_")) {
                void (*set)(int64_t);
                memcpy(&set, &sym, sizeof set);
                set(1);
            } else {
                void (*set)(int);
                memcpy(&set, &sym, sizeof set);
                set(1);
            }
            tx_blas.threads = 0;
        }
        tx_blas.wide = names[i].wide;
        memcpy(tx_blas.gemm, found, sizeof found);
        snprintf(tx_blas.name, sizeof tx_blas.name, "%s", strcmp(path, TX_ACCELERATE) ? path : "Accelerate");
        if (tx_blas.threads)
            pthread_atfork(NULL, NULL, tx_blas_fork_child);
        return 1;
    }
    dlclose(lib);
    return 0;
}

static void tx_blas_init(void)
{
    const char *choice = getenv("TENSORX_BLAS");
    if (choice && *choice) {
        if (strcmp(choice, "own") != 0 && !tx_blas_open(choice))
            fprintf(stderr, "tensorx: TENSORX_BLAS=%s has no CBLAS to use; using its own kernels\n", choice);
        return;
    }
#if defined(__APPLE__) && defined(__aarch64__)
    tx_blas_open(TX_ACCELERATE);
#endif
}

/* "own", "Accelerate" or the path of the library. */
static inline const char *tx_blas_name(void)
{
    pthread_once(&tx_blas_once, tx_blas_init);
    return tx_blas.forked ? "own" : tx_blas.name;
}

/* The function for a dtype, or NULL. */
static inline void *tx_blas_gemm(int dtype)
{
    pthread_once(&tx_blas_once, tx_blas_init);
    if (tx_blas.forked)
        return NULL;
    switch (dtype) {
    case TX_F32: return tx_blas.gemm[0];
    case TX_F64: return tx_blas.gemm[1];
    case TX_C64: return tx_blas.gemm[2];
    case TX_C128: return tx_blas.gemm[3];
    default: return NULL;
    }
}

/* How CBLAS can read a rows x cols operand: the transposition flag, with *ld set; 0: not at all. */
static inline int tx_blas_order(int64_t rows, int64_t cols, int64_t rs, int64_t cs, int conj, int64_t *ld)
{
    const int64_t most = tx_blas.wide ? INT64_MAX : INT32_MAX;
    if (rows > most || cols > most)
        return 0;
    if (cs == 1 && rs >= cols && rs <= most && !conj) {
        *ld = rs;
        return TX_BLAS_NO_TRANS;
    }
    if (rs == 1 && cs >= rows && cs <= most) {
        *ld = cs;
        return conj ? TX_BLAS_CONJ_TRANS : TX_BLAS_TRANS;
    }
    return 0;
}

/* C = A B, row-major C with c_rs as leading dimension. */
static inline void tx_blas_call(void *fn, int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const void *a,
                                int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc)
{
    static const float one_f[2] = {1, 0}, zero_f[2] = {0, 0};
    static const double one_d[2] = {1, 0}, zero_d[2] = {0, 0};
#define TX_BLAS_CALL(I, S, one, zero) do {                                                                       \
        void (*gemm)(int, int, int, I, I, I, S, const void *, I, const void *, I, S, void *, I);                  \
        memcpy(&gemm, &fn, sizeof gemm);                                                                          \
        gemm(TX_BLAS_ROW_MAJOR, ta, tb, (I)m, (I)n, (I)k, one, a, (I)lda, b, (I)ldb, zero, c, (I)ldc);            \
    } while (0)
#define TX_BLAS_WIDTH(S, one, zero) do {                                                                         \
        if (tx_blas.wide) TX_BLAS_CALL(int64_t, S, one, zero); else TX_BLAS_CALL(int32_t, S, one, zero);          \
    } while (0)
    switch (dtype) {
    case TX_F32: TX_BLAS_WIDTH(float, 1.0f, 0.0f); break;
    case TX_F64: TX_BLAS_WIDTH(double, 1.0, 0.0); break;
    case TX_C64: TX_BLAS_WIDTH(const void *, one_f, zero_f); break;
    default: TX_BLAS_WIDTH(const void *, one_d, zero_d);
    }
#undef TX_BLAS_WIDTH
#undef TX_BLAS_CALL
}

#endif
