// One step of an optimizer in one pass. Parameters and gradients are dense, of any float dtype in memory; the state
// is float. arg: count, then float hyperparameters in the low bits of words.
// A hyperparameter of a step (the learning rate, bias corrections) is an argument: nothing is compiled for it.

#define HYPER(k) as_type<float>(uint(arg[k]))

#if $SGD
// arg: lr, momentum, dampening, weight decay, flags (1 nesterov, 2 the momentum buffer is new, 4 maximize,
// 8 there is momentum)
kernel void sgd(device $PARAM *param [[buffer(0)]], device const $GRAD *grad [[buffer(1)]],
                device float *velocity [[buffer(2)]], constant long *off [[buffer(3)]],
                constant ulong *arg [[buffer(4)]], uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const float lr = HYPER(1);
    const float momentum = HYPER(2);
    const float keep = 1.0f - HYPER(3);
    const float decay = HYPER(4);
    const ulong flags = arg[5];
    device $PARAM *p = param + off[0];
    device const $GRAD *g = grad + off[1];
    device float *v = velocity + off[2];
    for (ulong i = tid; i < arg[0]; i += threads) {
        const float x = $LOAD_PARAM;
        float d = $LOAD_GRAD;
        d = (flags & 4UL) != 0UL ? -d : d;
        if (decay != 0.0f) {
            const float w = decay * x;
            d = d + w;
        }
        if ((flags & 8UL) != 0UL) {
            float m = d;
            if ((flags & 2UL) == 0UL) {
                const float old = momentum * v[i];
                const float fresh = keep * d;
                m = old + fresh;
            }
            v[i] = m;
            const float ahead = momentum * m;
            d = (flags & 1UL) != 0UL ? d + ahead : m;
        }
        const float step = lr * d;
        const float y = x - step;
        p[i] = $STORE_PARAM;
    }
}
#endif

#if $ADAM
// arg: rate = lr / (1 - beta1^t), root = sqrt(1 - beta2^t), beta1, beta2, 1 - beta1, 1 - beta2, eps, weight decay
// (for AdamW times lr), flags (1 AdamW, 2 amsgrad, 4 maximize)
kernel void adam(device $PARAM *param [[buffer(0)]], device const $GRAD *grad [[buffer(1)]],
                 device float *first [[buffer(2)]], device float *second [[buffer(3)]],
                 device float *highest [[buffer(4)]], constant long *off [[buffer(5)]],
                 constant ulong *arg [[buffer(6)]], uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const float rate = HYPER(1);
    const float root = HYPER(2);
    const float beta1 = HYPER(3);
    const float beta2 = HYPER(4);
    const float rest1 = HYPER(5);
    const float rest2 = HYPER(6);
    const float eps = HYPER(7);
    const float decay = HYPER(8);
    const ulong flags = arg[9];
    device $PARAM *p = param + off[0];
    device const $GRAD *gp = grad + off[1];
    device float *m = first + off[2];
    device float *v = second + off[3];
    device float *h = highest + off[4];
    for (ulong i = tid; i < arg[0]; i += threads) {
        float x = $LOAD_PARAM;
        device const $GRAD *g = gp;
        float d = $LOAD_GRAD;
        d = (flags & 4UL) != 0UL ? -d : d;
        if (decay != 0.0f) {
            const float w = decay * x;
            if ((flags & 1UL) != 0UL)
                x = x - w;
            else
                d = d + w;
        }
        const float m0 = beta1 * m[i];
        const float m1 = rest1 * d;
        const float mi = m0 + m1;
        const float v0 = beta2 * v[i];
        const float dd = d * d;
        const float v1 = rest2 * dd;
        float vi = v0 + v1;
        m[i] = mi;
        v[i] = vi;
        if ((flags & 2UL) != 0UL) {
            vi = MAX(h[i], vi);
            h[i] = vi;
        }
        const float scaled = SQRT(vi) / root;
        const float below = scaled + eps;
        const float above = rate * mi;
        const float step = above / below;
        const float y = x - step;
        p[i] = $STORE_PARAM;
    }
}
#endif
