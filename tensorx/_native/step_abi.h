/* Optimizer steps as one pass over memory: the kernels (one table per instruction set, in
 * tx_kernels.extra) and the arrays that they work on. */
#ifndef TX_STEP_ABI_H
#define TX_STEP_ABI_H

#include <stddef.h>

enum {
    TX_STEP_COUPLED = 1,   /* weight decay is added to the gradient */
    TX_STEP_HIGHEST = 2,   /* Adam: the largest second moment so far (AMSGrad) */
    TX_STEP_MOMENTUM = 4,  /* SGD: with a velocity */
    TX_STEP_FIRST = 8,     /* SGD: the velocity starts as the gradient */
    TX_STEP_NESTEROV = 16
};

/* Numbers of a step.  Adam: p = p * keep - m * rate / (sqrt(v) * root + eps) with
 * m += (g - m) * a and v = v * b + g * g * c.  SGD: p -= rate * d with
 * velocity = velocity * b + g * c.  g = sign * gradient (+ decay * p). */
typedef struct tx_step {
    double sign, decay, keep, rate, root, eps, a, b, c;
    int flags;
} tx_step;

/* Arrays of n elements that do not overlap; which of them are used depends on the step. */
typedef struct tx_step_arrays {
    void *p;
    const void *g;
    void *s[3];
} tx_step_arrays;

typedef void (*tx_step_fn)(const tx_step *, const tx_step_arrays *, ptrdiff_t n);

typedef struct tx_steps {
    tx_step_fn adam[2]; /* float32, float64 */
    tx_step_fn sgd[2];
} tx_steps;

#endif
