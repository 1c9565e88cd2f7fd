/* The contract between the engine (_core) and the kernel modules.
 *
 * The kernel source is compiled once per instruction set into separate modules
 * (_kernels_base, _kernels_avx2, _kernels_avx512).  Each exposes one PyCapsule
 * named "tensorx.kernels" that holds a pointer to a filled tx_kernels table.
 * The engine imports exactly one of them.
 *
 * Every kernel works on contiguous runs of n elements, needs no alignment, may
 * be called with n == 0, may have dst equal to any source (element i of the
 * result is written after element i of every source was read, block-wise), and
 * gives the same bits for an element whatever n, its position or alignment is.
 */
#ifndef TX_KERNEL_ABI_H
#define TX_KERNEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TX_KERNEL_ABI 1

enum {
    TX_BOOL = 0,
    TX_I8 = 1, TX_I16 = 2, TX_I32 = 3, TX_I64 = 4,
    TX_U8 = 5, TX_U16 = 6, TX_U32 = 7, TX_U64 = 8,
    TX_F16 = 9, TX_BF16 = 10, TX_F32 = 11, TX_F64 = 12,
    TX_C64 = 13, TX_C128 = 14,
    TX_NDT = 15
};

#define TX_MAX_OPERANDS 4

/* Elementwise: bit k of scalar_mask says that src[k] points to one element that
 * stands for all n.  float16 and bfloat16 have no kernels of their own: the
 * engine holds such values as float32 and rounds after every op (round_half). */
typedef void (*tx_ew_fn)(void *dst, const void *const *src, ptrdiff_t n, unsigned scalar_mask);

/* Contiguous conversion.  float -> integer saturates, NaN -> 0; anything -> bool
 * is x != 0; complex -> real drops the imaginary part (callers check first). */
typedef void (*tx_cast_fn)(void *dst, const void *src, ptrdiff_t n);

/* float32 in place: round to the nearest float16 (0) or bfloat16 (1) value, ties to even. */
typedef void (*tx_round_fn)(float *x, ptrdiff_t n);

/* Strided moves by item size (index log2: 1, 2, 4, 8, 16 bytes); strides in bytes. */
typedef void (*tx_move_fn)(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride, ptrdiff_t n);

/* The same in two dimensions: item (i, j) of n0 x n1.  A transposing copy (one side contiguous
 * along i, the other along j) goes by tiles of cache lines. */
typedef void (*tx_move2_fn)(void *dst, ptrdiff_t dst_stride0, ptrdiff_t dst_stride1,
                            const void *src, ptrdiff_t src_stride0, ptrdiff_t src_stride1,
                            ptrdiff_t n0, ptrdiff_t n1);

/* Reductions. Accumulator dtype: see tx_red_acc in the table below. */
enum {
    TX_RED_SUM = 0, TX_RED_PROD, TX_RED_MAX, TX_RED_MIN, TX_RED_ANY, TX_RED_ALL,
    TX_RED_ARGMAX, TX_RED_ARGMIN, TX_RED_SUMSQ /* sum of |x|^2 */, TX_RED_SUMABS,
    TX_NRED
};

/* State of one running reduction, 64 bytes, zeroed by init(). */
typedef struct tx_red_state {
    union { double d[2]; int64_t i; uint64_t u; float f; } v, c; /* value; compensation or current best */
    int64_t index;                                                /* arg reductions: index of the best */
    int64_t seen;                                                 /* elements folded in so far */
    int64_t pad[2];
} tx_red_state;

typedef struct tx_red {
    /* Fold n contiguous elements (of the SOURCE dtype) into st. first_index is the
     * reduction-axis index of src[0] (arg reductions).  Deterministic. */
    void (*fold)(tx_red_state *st, const void *src, ptrdiff_t n, int64_t first_index);
    /* Fold state b into a, where all of b comes after all of a. */
    void (*merge)(tx_red_state *a, const tx_red_state *b);
    /* Write the result of st (an element of the ACCUMULATOR dtype) to dst. */
    void (*finish)(const tx_red_state *st, void *dst);
    /* Column form: acc[i] = acc[i] (op) src[i] for n columns; acc is an array of
     * accumulator-dtype elements, aux an array of acc_aux_bytes each (sums: the
     * compensation; arg reductions: the best value, acc holds the int64 index). */
    void (*vinit)(void *acc, void *aux, ptrdiff_t n);
    void (*vfold)(void *acc, void *aux, const void *src, ptrdiff_t n, int64_t index);
    void (*vmerge)(void *acc, void *aux, const void *acc_b, const void *aux_b, ptrdiff_t n);
    void (*vfinish)(void *dst, const void *acc, const void *aux, ptrdiff_t n);
    int32_t acc_dtype;      /* dtype code of finish()/vfinish() results */
    int32_t vacc_bytes;     /* bytes per column of acc */
    int32_t vaux_bytes;     /* bytes per column of aux, may be 0 */
    int32_t ok;             /* 0: not defined for this dtype */
    /* vfold over `rows` rows that lie row_stride bytes apart (any sign), the first with the
     * given index; the same bits as one vfold per row, faster for few columns. */
    void (*vfold_rows)(void *acc, void *aux, const void *src, ptrdiff_t row_stride,
                       ptrdiff_t rows, ptrdiff_t n, int64_t index);
} tx_red;

/* Row kernels: one contiguous row of n elements, dst may equal src.
 * dtype index: 0 float32, 1 float64 (halves are converted by the engine). */
typedef struct tx_rows {
    void (*softmax)(void *dst, const void *src, ptrdiff_t n);
    void (*log_softmax)(void *dst, const void *src, ptrdiff_t n);
    void (*logsumexp)(void *dst_one, const void *src, ptrdiff_t n);
    /* weight and bias may be NULL; mean/rstd receive one element each, may be NULL */
    void (*layer_norm)(void *dst, const void *src, ptrdiff_t n, const void *weight, const void *bias,
                       double eps, void *mean, void *rstd);
    void (*rms_norm)(void *dst, const void *src, ptrdiff_t n, const void *weight, double eps, void *rstd);
    /* Backward forms, one row.  dst may equal any row that is read.  grad is the gradient of
     * the output, out the forward result. */
    void (*softmax_backward)(void *dst, const void *grad, const void *out, ptrdiff_t n);
    void (*log_softmax_backward)(void *dst, const void *grad, const void *out, ptrdiff_t n);
    /* mean and rstd are the forward's (one element each).  dweight and dbias are arrays of n
     * doubles that the row is added to, whatever the dtype; dst, dweight, dbias, weight may be NULL. */
    void (*layer_norm_backward)(void *dst, const void *grad, const void *src, ptrdiff_t n, const void *weight,
                                const void *mean, const void *rstd, double *dweight, double *dbias);
    void (*rms_norm_backward)(void *dst, const void *grad, const void *src, ptrdiff_t n, const void *weight,
                              const void *rstd, double *dweight);
    /* loss = (1 - smoothing) * (lse - x[target]) + smoothing * (lse - mean(x)); lse (one element) may be
     * NULL.  The caller has checked 0 <= target < n. */
    void (*cross_entropy)(void *loss_one, void *lse_one, const void *src, ptrdiff_t n, int64_t target,
                          double smoothing);
    /* dst = scale * d loss / d x, from the forward's lse */
    void (*cross_entropy_backward)(void *dst, const void *src, ptrdiff_t n, int64_t target, double smoothing,
                                   const void *lse_one, double scale);
    /* mean (one element) and the sum of squared deviations from it (one double) */
    void (*moments)(void *mean_one, double *m2_one, const void *src, ptrdiff_t n);
} tx_rows;

typedef struct tx_kernels {
    int32_t abi;            /* TX_KERNEL_ABI */
    int32_t nops;           /* rows of the op table */
    uint64_t table_hash;    /* first 8 bytes (little endian) of sha256 of the names joined by ',' */
    const char *isa;        /* "base", "avx2", "avx512" */
    const tx_ew_fn *ew;     /* [nops * TX_NDT]; index row * TX_NDT + operand dtype; NULL: not defined */
    tx_cast_fn cast[TX_NDT][TX_NDT]; /* [to][from] */
    tx_round_fn round_half[2];
    tx_move_fn move[5];
    tx_red red[TX_NRED][TX_NDT];     /* by source dtype; halves are NULL/ok=0 (engine converts to f32) */
    tx_rows rows[2];
    const void *gemm;       /* see gemm_abi.h; NULL where absent */
    const void *extra;      /* see step_abi.h: tx_steps */
    tx_move2_fn move2[5];   /* by item size, as move */
} tx_kernels;

#endif
