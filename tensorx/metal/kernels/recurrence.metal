// y[j] = x[j] * y[j - 1] + b[j] along one axis of (outer, n, inner), y[0] = b[0]. A line is cut into chunks as in
// scan.metal: what a chunk makes of nothing, and the product of its factors (as value and exponent, so that it neither
// overflows nor vanishes); then the values that come into each chunk; then the chunks are walked from there.
// arg: lines, n, inner, chunk length, chunks, then strides (outer, axis, inner) of x, b and the target

#if $COMPLEX
inline float2 step_value(float2 s, float2 x, float2 b)
{
    const float2 p = CMUL(x, s);
    return float2(p.x + b.x, p.y + b.y);
}
#else
// s in two parts, about twice as exact as a float
inline float2 step_value(float2 s, float x, float b)
{
    const float2 p = two_prod(x, s.x);
    const float low = x * s.y;
    const float2 r = two_sum(p.x, b);
    if (!ISFINITE(r.x))
        return float2(r.x, 0.0f);
    const float more = p.y + low;
    return fast_two_sum(r.x, r.y + more);
}
#endif

#define LINE                                                                                                    \
    const ulong o = line / arg[2];                                                                              \
    const ulong i = line - o * arg[2];                                                                          \
    device const $IN *p = source + off[0] + long(o) * long(arg[5]) + long(i) * long(arg[7]);                    \
    device const $IN *q = second + off[1] + long(o) * long(arg[8]) + long(i) * long(arg[10]);
#define X p[long(j) * long(arg[6])]
#define B q[long(j) * long(arg[9])]

#if !$COMPLEX
kernel void recurrence_chunks(device const $IN *source [[buffer(0)]], device const $IN *second [[buffer(1)]],
                              device float4 *totals [[buffer(2)]], constant long *off [[buffer(3)]],
                              constant ulong *arg [[buffer(4)]], uint tid [[thread_position_in_grid]],
                              uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0] * arg[4]; e += threads) {
        const ulong chunk = e / arg[0];
        const ulong line = e - chunk * arg[0];
        LINE
        ulong j = chunk * arg[3];
        const ulong stop = min(j + arg[3], arg[1]);
        float2 product = times_value(float2(1.0f, 0.0f), X);
        float2 s = float2(B, 0.0f);
        for (j = j + 1UL; j < stop; j++) {
            s = step_value(s, X, B);
            product = times_value(product, X);
        }
        totals[off[2] + long(e)] = float4(s.x, s.y, product.x, product.y);
    }
}
// totals become the value that comes into each chunk
kernel void recurrence_totals(device const $IN *source [[buffer(0)]], device const $IN *second [[buffer(1)]],
                              device float4 *totals [[buffer(2)]], constant long *off [[buffer(3)]],
                              constant ulong *arg [[buffer(4)]], uint tid [[thread_position_in_grid]],
                              uint threads [[threads_per_grid]])
{
    for (ulong line = tid; line < arg[0]; line += threads) {
        LINE
        float2 s = float2(0.0f, 0.0f);
        for (ulong chunk = 0; chunk < arg[4]; chunk++) {
            const long at = off[2] + long(chunk * arg[0] + line);
            const float4 t = totals[at];
            totals[at] = float4(s.x, s.y, 0.0f, 0.0f);
            if (chunk == 0UL) {
                s = float2(t.x, t.y);
                continue;
            }
            const float2 product = float2(t.z, t.w);
            const float2 r = two_sum(unscaled(times_value(product, s.x)), t.x);
            const float low = unscaled(times_value(product, s.y));
            if (ISFINITE(r.x) && ISFINITE(low) && ISFINITE(t.z)) {
                const float more = t.y + low;
                s = fast_two_sum(r.x, r.y + more);
                continue;
            }
            // what is not finite comes about on the way
            ulong j = chunk * arg[3];
            const ulong stop = min(j + arg[3], arg[1]);
            for (; j < stop; j++)
                s = step_value(s, X, B);
        }
    }
}
#endif
kernel void recurrence_write(device const $IN *source [[buffer(0)]], device const $IN *second [[buffer(1)]],
                             device const float4 *totals [[buffer(2)]], device $IN *target [[buffer(3)]],
                             constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                             uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0] * arg[4]; e += threads) {
        const ulong chunk = e / arg[0];
        const ulong line = e - chunk * arg[0];
        LINE
        device $IN *t = target + off[3] + long(o) * long(arg[11]) + long(i) * long(arg[13]);
        const ulong start = chunk * arg[3];
        const ulong stop = min(start + arg[3], arg[1]);
        float2 s = float2(0.0f, 0.0f);
        if (chunk > 0UL) {
            const float4 before = totals[off[2] + long(e)];
            s = float2(before.x, before.y);
        }
        for (ulong j = start; j < stop; j++) {
            if (j == 0UL)
                s = $FIRST;
            else
                s = step_value(s, X, B);
            t[long(j) * long(arg[12])] = $VALUE;
        }
    }
}
