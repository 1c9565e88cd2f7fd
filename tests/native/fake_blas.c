/* A CBLAS of the plainest kind, to test the way products take to an outside library.  -DTHREADS makes
 * it look like a library that keeps its own threads, -DWIDE like one with 64-bit integers. */
#include <stdint.h>

#ifdef WIDE
typedef int64_t I;
#define NAME(x) cblas_##x##64_
#else
typedef int32_t I;
#define NAME(x) cblas_##x
#endif

static long calls;
static int threads = -1;
long fake_calls(void) { return calls; }
int fake_threads(void) { return threads; }

#ifndef THREADS
#ifdef WIDE
void openblas_set_num_threads64_(int n) { threads = n; }
#else
void openblas_set_num_threads(int n) { threads = n; }
#endif
#endif

#define REAL(name, T)                                                                                              \
    void NAME(name)(int order, int ta, int tb, I m, I n, I k, T alpha, const void *a_, I lda, const void *b_, I ldb, \
                    T beta, void *c_, I ldc)                                                                       \
    {                                                                                                              \
        const T *a = a_, *b = b_;                                                                                  \
        T *c = c_;                                                                                                 \
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);                                                           \
        for (I i = 0; i < m; i++)                                                                                  \
            for (I j = 0; j < n; j++) {                                                                            \
                T s = 0;                                                                                           \
                for (I p = 0; p < k; p++)                                                                          \
                    s += (ta == 111 ? a[i * lda + p] : a[p * lda + i]) * (tb == 111 ? b[p * ldb + j] : b[j * ldb + p]); \
                c[i * ldc + j] = order == 101 && beta == 0 ? alpha * s : -1;                                       \
            }                                                                                                      \
    }
REAL(sgemm, float)
REAL(dgemm, double)

#define COMPLEX(name, T)                                                                                           \
    void NAME(name)(int order, int ta, int tb, I m, I n, I k, const void *alpha_, const void *a_, I lda,           \
                    const void *b_, I ldb, const void *beta_, void *c_, I ldc)                                     \
    {                                                                                                              \
        const T *a = a_, *b = b_, *alpha = alpha_, *beta = beta_;                                                  \
        T *c = c_;                                                                                                 \
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);                                                           \
        for (I i = 0; i < m; i++)                                                                                  \
            for (I j = 0; j < n; j++) {                                                                            \
                T re = 0, im = 0;                                                                                  \
                for (I p = 0; p < k; p++) {                                                                        \
                    const T *x = a + 2 * (ta == 111 ? i * lda + p : p * lda + i);                                  \
                    const T *y = b + 2 * (tb == 111 ? p * ldb + j : j * ldb + p);                                  \
                    const T xi = ta == 113 ? -x[1] : x[1], yi = tb == 113 ? -y[1] : y[1];                          \
                    re += x[0] * y[0] - xi * yi;                                                                   \
                    im += x[0] * yi + xi * y[0];                                                                   \
                }                                                                                                  \
                const int right = order == 101 && alpha[0] == 1 && alpha[1] == 0 && beta[0] == 0 && beta[1] == 0;  \
                c[2 * (i * ldc + j)] = right ? re : -1;                                                            \
                c[2 * (i * ldc + j) + 1] = right ? im : -1;                                                        \
            }                                                                                                      \
    }
COMPLEX(cgemm, float)
COMPLEX(zgemm, double)
