/* Matrix products: what the engine asks for, and what a kernel module offers.
 *
 * A product element is always computed as
 *     P[0] + P[1] + ... + P[q-1]     (then + bias, then + the old C if accumulating)
 * where P[t] is one left-to-right multiply-add chain over the t-th run of the inner
 * axis and the runs follow from k alone (txg_run_length).  So the bits of an element depend
 * on its row of A, its column of B and k: not on m, n, batch, strides, alignment,
 * transposition, the number of threads or how the work was cut.  (A 1 x 1 product is a
 * dot product and has its own order, again a function of k alone.)
 */
#ifndef TX_GEMM_ABI_H
#define TX_GEMM_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TX_GEMM_ABI 1

enum {
    TX_GEMM_ACCUMULATE = 1, /* C = C + A B instead of C = A B */
    TX_GEMM_CONJ_A = 2,     /* complex dtypes: conj(A) B */
    TX_GEMM_CONJ_B = 4      /* complex dtypes: A conj(B) */
};

/* C[g] = A[g] B[g] (+ bias) for g in 0..batch-1; A is m x k, B is k x n, C is m x n.
 * Strides are in elements, of any sign; 0 is allowed for A, B and batch strides of those.
 * bias: n elements of the dtype with stride 1, added to every row, or NULL.
 * C must not overlap A, B or bias, nor itself. */
typedef struct tx_gemm_args {
    int32_t dtype;
    int32_t flags;
    int64_t batch;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    const void *bias;
    int64_t a_rs, a_cs, a_bs;
    int64_t b_rs, b_cs, b_bs;
    int64_t c_rs, c_cs, c_bs;
    const int64_t *a_boff, *b_boff, *c_boff; /* element offset per batch entry, replacing *_bs, or NULL */
} tx_gemm_args;

/* One block: C (m x n) = or += A (m x kc) B (kc x n), all in the compute type.
 * B is a row of panels of nr columns: element (k, j) is b[(j / nr) * b_ps + k * b_ks + j % nr].
 * Unless the kernel is masked, panels are read in whole vectors. */
typedef struct txg_block {
    int64_t m, n, kc;
    const void *a;
    int64_t a_rs, a_ks;
    const void *b;
    int64_t b_ks, b_ps; /* thin: no panels, element (k, j) is b[k * b_ks + j * b_cs] */
    int64_t b_cs;       /* thin only: one of b_ks, b_cs is 1 */
    void *c;
    int64_t c_rs;
    const void *bias; /* n elements, or NULL */
    int32_t add;      /* 1: add the sum to C */
    int32_t conj;     /* TX_GEMM_CONJ_* bits */
} txg_block;

/* What the finish step writes: C = work (+ bias) (+ C), converted to the stored dtype. */
typedef struct txg_finish {
    int64_t m, n;
    const void *work; /* m x n of the compute type, columns adjacent */
    int64_t w_rs;
    void *c;
    int64_t c_rs, c_cs;
    const void *bias; /* stored dtype; element (i, j) adds bias[i * bias_rs + j * bias_cs] */
    int64_t bias_rs, bias_cs;
    int32_t accumulate;
} txg_finish;

typedef struct txg_kernel {
    int32_t mr, nr;      /* register tile, in elements */
    int32_t lanes;       /* elements per vector */
    int32_t esize;       /* bytes of an element as stored */
    int32_t csize;       /* bytes of an element as computed; converted where it differs or convert is set */
    int32_t convert;     /* 1: stored and computed type differ, operands must be packed */
    float mac_ns;        /* estimated time of one multiply-add on one core */
    int32_t masked;      /* 1: a tile reads and writes exactly its columns, also where they fill no vector */
    /* Panels of nr columns from B (element (k, j) at src[k * ks + j * cs]); unused lanes are 0.
     * Panel p starts at dst + p * nr * kc elements. */
    void (*pack_b)(void *dst, const void *src, int64_t cs, int64_t ks, int64_t n, int64_t kc);
    /* Rows of kc adjacent elements, ld apart. */
    void (*pack_a)(void *dst, int64_t ld, const void *src, int64_t rs, int64_t ks, int64_t m, int64_t kc);
    void (*block)(const txg_block *);
    /* The same for m <= TXG_THIN with B as it lies (of the stored type; only b_ks == 1 if converted);
     * NULL: not offered. */
    void (*thin)(const txg_block *);
    void (*fold)(void *sum, const void *part, int64_t n); /* sum[i] += part[i], n elements of the computed type */
    void (*finish)(const txg_finish *);
    /* *acc (compute type) = sum of a[i * as] * b[i * bs], i < n <= TXG_DOT_CHUNK, in one fixed order. */
    void (*dot)(void *acc, const void *a, int64_t as, const void *b, int64_t bs, int64_t n, int32_t conj);
    /* Fold partial sums, in order, into out (compute type). */
    void (*dot_sum)(void *out, const void *partial, int64_t count);
} txg_kernel;

#define TXG_DOT_CHUNK 4096
#define TXG_THIN 4

typedef struct txg_table {
    int32_t abi;
    int32_t count; /* entries of kernel[] */
    txg_kernel kernel[15]; /* by dtype code; block == NULL: not defined */
} txg_table;

#define TXG_KC 384

/* Length of one run of the inner axis: a function of k alone. */
static inline int64_t txg_run_length(int64_t k) {
    if (k <= TXG_KC) return k > 0 ? k : 1;
    int64_t q = (k + TXG_KC - 1) / TXG_KC;
    int64_t r = (k + q - 1) / q;
    return (r + 7) / 8 * 8 <= TXG_KC ? (r + 7) / 8 * 8 : r;
}

#endif
