/* Body of step_kernels.h for one element type TXS_T with square root TXS_SQRT; the operations
 * and their order are those of the formulas in tensorx/optim, so that the bits are, too. */

static inline void TXS(adam_loop)(const tx_step *k, const tx_step_arrays *x, ptrdiff_t n, int coupled, int highest)
{
    const TXS_T sign = (TXS_T)k->sign, decay = (TXS_T)k->decay, keep = (TXS_T)k->keep, rate = (TXS_T)k->rate;
    const TXS_T root = (TXS_T)k->root, eps = (TXS_T)k->eps, a = (TXS_T)k->a, b = (TXS_T)k->b, c = (TXS_T)k->c;
    TXS_T *restrict p = (TXS_T *)x->p;
    const TXS_T *restrict grad = (const TXS_T *)x->g;
    TXS_T *restrict m = (TXS_T *)x->s[0];
    TXS_T *restrict v = (TXS_T *)x->s[1];
    TXS_T *restrict h = (TXS_T *)x->s[2];
    for (ptrdiff_t i = 0; i < n; i++) {
        TXS_T g = grad[i] * sign;
        if (coupled) g = g + p[i] * decay;
        TXS_T first = m[i] + (g - m[i]) * a;
        TXS_T second = v[i] * b + g * g * c;
        m[i] = first;
        v[i] = second;
        if (highest) {
            /* a NaN stays, as maximum has it */
            TXS_T old = h[i];
            second = old != old || old > second ? old : second;
            h[i] = second;
        }
        p[i] = p[i] * keep - first * rate / (TXS_SQRT(second) * root + eps);
    }
}

static void TXS(adam)(const tx_step *k, const tx_step_arrays *x, ptrdiff_t n)
{
    switch (k->flags & (TX_STEP_COUPLED | TX_STEP_HIGHEST)) {
    case 0: TXS(adam_loop)(k, x, n, 0, 0); break;
    case TX_STEP_COUPLED: TXS(adam_loop)(k, x, n, 1, 0); break;
    case TX_STEP_HIGHEST: TXS(adam_loop)(k, x, n, 0, 1); break;
    default: TXS(adam_loop)(k, x, n, 1, 1); break;
    }
}

static inline void TXS(sgd_loop)(const tx_step *k, const tx_step_arrays *x, ptrdiff_t n, int coupled, int momentum,
                                 int nesterov)
{
    const TXS_T sign = (TXS_T)k->sign, decay = (TXS_T)k->decay, rate = (TXS_T)k->rate, b = (TXS_T)k->b, c = (TXS_T)k->c;
    TXS_T *restrict p = (TXS_T *)x->p;
    const TXS_T *restrict grad = (const TXS_T *)x->g;
    TXS_T *restrict v = (TXS_T *)x->s[0];
    for (ptrdiff_t i = 0; i < n; i++) {
        TXS_T g = grad[i] * sign;
        if (coupled) g = g + p[i] * decay;
        if (momentum) {
            TXS_T u = momentum == 2 ? g : v[i] * b + g * c;
            v[i] = u;
            g = nesterov ? g + u * b : u;
        }
        p[i] = p[i] - g * rate;
    }
}

static void TXS(sgd)(const tx_step *k, const tx_step_arrays *x, ptrdiff_t n)
{
    const int coupled = k->flags & TX_STEP_COUPLED, nesterov = k->flags & TX_STEP_NESTEROV;
    if (!(k->flags & TX_STEP_MOMENTUM)) {
        if (coupled) TXS(sgd_loop)(k, x, n, 1, 0, 0);
        else TXS(sgd_loop)(k, x, n, 0, 0, 0);
    } else if (k->flags & TX_STEP_FIRST) {
        if (nesterov) TXS(sgd_loop)(k, x, n, coupled, 2, 1);
        else TXS(sgd_loop)(k, x, n, coupled, 2, 0);
    } else if (coupled) {
        if (nesterov) TXS(sgd_loop)(k, x, n, 1, 1, 1);
        else TXS(sgd_loop)(k, x, n, 1, 1, 0);
    } else {
        if (nesterov) TXS(sgd_loop)(k, x, n, 0, 1, 1);
        else TXS(sgd_loop)(k, x, n, 0, 1, 0);
    }
}

#undef TXS
#undef TXS_T
#undef TXS_SQRT
