// Kernels that see a whole row: softmax and its kin, layer_norm, rms_norm, and their gradients. A row has n elements, stride
// `step` apart; row number (o, i) starts at o * outer + i * inner. Grouped, one threadgroup shares a
// row, otherwise a thread has it to itself and the group functions are the identity.

#if $GROUPED
#define ROW_PARAMETERS threadgroup float *sh [[threadgroup(0)]], uint3 tg [[threadgroup_position_in_grid]], \
                       uint lid [[thread_index_in_threadgroup]], uint3 group [[threads_per_threadgroup]]
#define ROW_SETUP const ulong row = ulong(tg.x) + ulong(tg.y) * 0x40000000UL; const uint threads = group.x;
#define GROUP_MAX(x) group_max(x, sh, lid, threads)
#define GROUP_SUM(x) group_sum(x, sh, lid, threads)
inline float group_max(float x, threadgroup float *sh, uint lid, uint threads)
{
    sh[lid] = x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = threads / 2u; d > 0u; d /= 2u) {
        if (lid < d)
            sh[lid] = MAX(sh[lid], sh[lid + d]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    float r = sh[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return r;
}
inline float group_sum(float x, threadgroup float *sh, uint lid, uint threads)
{
    sh[lid] = x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = threads / 2u; d > 0u; d /= 2u) {
        if (lid < d)
            sh[lid] += sh[lid + d];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    float r = sh[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return r;
}
#else
#define ROW_PARAMETERS uint2 tid [[thread_position_in_grid]]
#define ROW_SETUP const ulong row = ulong(tid.x) + ulong(tid.y) * 0x40000000UL; const uint lid = 0; const uint threads = 1;
#define GROUP_MAX(x) (x)
#define GROUP_SUM(x) (x)
#endif

// The sum over a row in a pair, so that long rows lose nothing.
#define ROW_SUM(result, term)                                                                                   \
    float result;                                                                                               \
    {                                                                                                           \
        float2 s = float2(0.0f, 0.0f);                                                                          \
        for (ulong j = lid; j < n; j += threads) {                                                              \
            float2 t = two_sum(s.x, term);                                                                      \
            s = float2(t.x, s.y + t.y);                                                                         \
        }                                                                                                       \
        result = GROUP_SUM(ISFINITE(s.x) ? s.x + s.y : s.x);                                                    \
    }

#define ROW_ADDRESSES                                                                                           \
    const ulong rows = arg[0];                                                                                  \
    const ulong n = arg[1];                                                                                     \
    if (row >= rows)                                                                                            \
        return;                                                                                                 \
    const ulong o = row / arg[2];                                                                               \
    const ulong i = row - o * arg[2];                                                                           \
    const long step = long(arg[5]);                                                                             \
    device const $IN *p = in + off[0] + long(o) * long(arg[3]) + long(i) * long(arg[4]);                        \
    const long out_step = long(arg[8]);                                                                         \
    device $OUT *q = out + off[1] + long(o) * long(arg[6]) + long(i) * long(arg[7]);

#define AT(j) $LOAD
#define WEIGHT_AT(j) $LOAD_WEIGHT
#define WRITE_AT(j, y) q[long(j) * out_step] = $STORE

#if $SOFTMAX
kernel void softmax(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                    constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    float most = -INFINITY;
    for (ulong j = lid; j < n; j += threads)
        most = MAX(most, AT(j));
    const float top = GROUP_MAX(most);
    ROW_SUM(total, EXP(AT(j) - top))
    for (ulong j = lid; j < n; j += threads) {
        const float x = AT(j) - top;
        const float e = EXP(x);
        const float y = e / total;
        WRITE_AT(j, y);
    }
}
kernel void log_softmax(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                        constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    float most = -INFINITY;
    for (ulong j = lid; j < n; j += threads)
        most = MAX(most, AT(j));
    const float top = GROUP_MAX(most);
    ROW_SUM(total, EXP(AT(j) - top))
    const float shift = LOG(total);
    for (ulong j = lid; j < n; j += threads) {
        const float x = AT(j) - top;
        const float y = x - shift;
        WRITE_AT(j, y);
    }
}
kernel void logsumexp(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                      constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    float most = -INFINITY;
    for (ulong j = lid; j < n; j += threads)
        most = MAX(most, AT(j));
    const float top = GROUP_MAX(most);
    const float base = ISFINITE(top) || ISNAN(top) ? top : 0.0f; // all -inf, or an inf
    ROW_SUM(total, EXP(AT(j) - base))
    if (lid == 0u) {
        const float y = base + LOG(total);
        WRITE_AT(0, y);
    }
}
#endif

#if $NORM
// Biased variance from the centred values; mean and rstd are saved for the gradient where asked for.
kernel void layer_norm(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                       device const $WEIGHT *weight [[buffer(2)]], device const $WEIGHT *bias [[buffer(3)]],
                       device float *mean_out [[buffer(4)]], device float *rstd_out [[buffer(5)]],
                       constant long *off [[buffer(6)]], constant ulong *arg [[buffer(7)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    const float eps = as_type<float>(uint(arg[9]));
    const ulong flags = arg[10];
    ROW_SUM(total, AT(j))
    const float mean = total / float(n);
    ROW_SUM(squares, (AT(j) - mean) * (AT(j) - mean))
    const float variance = squares / float(n);
    const float rstd = 1.0f / SQRT(variance + eps);
    for (ulong j = lid; j < n; j += threads) {
        const float centred = AT(j) - mean;
        float y = centred * rstd;
        if ((flags & 1UL) != 0UL) {
            device const $WEIGHT *w = weight + off[2];
            const float scaled = y * WEIGHT_AT(j);
            y = scaled;
        }
        if ((flags & 2UL) != 0UL) {
            device const $WEIGHT *w = bias + off[3];
            const float shifted = y + WEIGHT_AT(j);
            y = shifted;
        }
        WRITE_AT(j, y);
    }
    if (lid == 0u && (flags & 4UL) != 0UL) {
        mean_out[off[4] + long(row)] = mean;
        rstd_out[off[5] + long(row)] = rstd;
    }
}
kernel void rms_norm(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                     device const $WEIGHT *weight [[buffer(2)]], device const $WEIGHT *bias [[buffer(3)]],
                     device float *mean_out [[buffer(4)]], device float *rstd_out [[buffer(5)]],
                     constant long *off [[buffer(6)]], constant ulong *arg [[buffer(7)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    const float eps = as_type<float>(uint(arg[9]));
    const ulong flags = arg[10];
    ROW_SUM(squares, AT(j) * AT(j))
    const float mean = squares / float(n);
    const float rstd = 1.0f / SQRT(mean + eps);
    for (ulong j = lid; j < n; j += threads) {
        float y = AT(j) * rstd;
        if ((flags & 1UL) != 0UL) {
            device const $WEIGHT *w = weight + off[2];
            const float scaled = y * WEIGHT_AT(j);
            y = scaled;
        }
        WRITE_AT(j, y);
    }
    if (lid == 0u && (flags & 4UL) != 0UL)
        rstd_out[off[5] + long(row)] = rstd;
}
#endif

#if $SOFTMAX_GRADIENT
// in: the gradient, value: the forward result, rows one after the other.
#define VALUE_AT(j) $LOAD_OTHER
kernel void softmax_backward(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                             device const $IN *value [[buffer(2)]],
                             constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    device const $IN *other = value + off[2] + long(row) * long(n);
    ROW_SUM(total, AT(j) * VALUE_AT(j))
    for (ulong j = lid; j < n; j += threads) {
        const float d = AT(j) - total;
        const float y = d * VALUE_AT(j);
        WRITE_AT(j, y);
    }
}
kernel void log_softmax_backward(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                                 device const $IN *value [[buffer(2)]],
                                 constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    device const $IN *other = value + off[2] + long(row) * long(n);
    ROW_SUM(total, AT(j))
    for (ulong j = lid; j < n; j += threads) {
        const float e = EXP(VALUE_AT(j));
        const float d = e * total;
        const float y = AT(j) - d;
        WRITE_AT(j, y);
    }
}
#endif

#if $NORM_GRADIENT
// With u = (x - mean) * rstd and a = gradient * weight: rstd * (a - mean(a) - u * mean(a * u)), for rms_norm
// without the means of x and of a. x: rows one after the other.
#define X_AT(j) $LOAD_OTHER
kernel void norm_backward(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                          device const $IN *x [[buffer(2)]], device const $WEIGHT *weight [[buffer(3)]],
                          device const float *mean_in [[buffer(4)]], device const float *rstd_in [[buffer(5)]],
                          constant long *off [[buffer(6)]], constant ulong *arg [[buffer(7)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    const ulong flags = arg[9];
    device const $IN *other = x + off[2] + long(row) * long(n);
    device const $WEIGHT *w = weight + off[3];
    const bool centred = (flags & 2UL) != 0UL;
    const bool weighted = (flags & 1UL) != 0UL;
    const float mean = centred ? mean_in[off[4] + long(row)] : 0.0f;
    const float rstd = rstd_in[off[5] + long(row)];
    float2 s = float2(0.0f, 0.0f);
    float2 t = float2(0.0f, 0.0f);
    for (ulong j = lid; j < n; j += threads) {
        const float a = weighted ? AT(j) * WEIGHT_AT(j) : AT(j);
        const float u = (X_AT(j) - mean) * rstd;
        const float au = a * u;
        const float2 s1 = two_sum(s.x, a);
        s = float2(s1.x, s.y + s1.y);
        const float2 t1 = two_sum(t.x, au);
        t = float2(t1.x, t.y + t1.y);
    }
    const float sum_a = GROUP_SUM(ISFINITE(s.x) ? s.x + s.y : s.x);
    const float sum_au = GROUP_SUM(ISFINITE(t.x) ? t.x + t.y : t.x);
    const float mean_a = centred ? sum_a / float(n) : 0.0f;
    const float mean_au = sum_au / float(n);
    for (ulong j = lid; j < n; j += threads) {
        const float a = weighted ? AT(j) * WEIGHT_AT(j) : AT(j);
        const float u = (X_AT(j) - mean) * rstd;
        const float along = u * mean_au;
        const float rest = (a - mean_a) - along;
        const float y = rest * rstd;
        WRITE_AT(j, y);
    }
}
#endif

#if $CLASS_LOSS
// -log_softmax at the class of each row, and its gradient; classes, losses and gradients of losses in the order of the
// rows. A class that is none sets a status word.
#define ROW_TOTAL                                  \
    float most = -INFINITY;                        \
    for (ulong j = lid; j < n; j += threads)       \
        most = MAX(most, AT(j));                   \
    const float top = GROUP_MAX(most);             \
    ROW_SUM(total, EXP(AT(j) - top))               \
    const long target = classes[off[2] + long(row)];

kernel void class_loss(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                       device const long *classes [[buffer(2)]], device atomic_uint *status [[buffer(3)]],
                       constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    ROW_TOTAL
    if (lid == 0u) {
        float y = 0.0f;
        if (target >= 0 && target < long(n)) {
            const float x = AT(target) - top;
            const float logarithm = x - LOG(total);
            y = -logarithm;
        } else
            atomic_fetch_or_explicit(status + off[3], 1u, memory_order_relaxed);
        WRITE_AT(0, y);
    }
}
kernel void class_loss_backward(device const $IN *in [[buffer(0)]], device $OUT *out [[buffer(1)]],
                                device const long *classes [[buffer(2)]], device const $IN *grad [[buffer(3)]],
                                constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]], ROW_PARAMETERS)
{
    ROW_SETUP
    ROW_ADDRESSES
    ROW_TOTAL
    const float g = $LOAD_GRAD;
    for (ulong j = lid; j < n; j += threads) {
        const float x = AT(j) - top;
        const float e = EXP(x);
        const float s = e / total;
        float y = s * g;
        if (long(j) == target) {
            const float less = y - g;
            y = less;
        }
        WRITE_AT(j, y);
    }
}
#endif
