// Pooling over up to three axes of (N, C, D, H, W): maxima and averages of windows, and their gradients as sums over
// the windows that hold an element, in the order of the windows, so that no result depends on the order of threads.
//
// arg: 0 count of results, 1 channels, then three each (D, H, W): 2 input sizes, 5 output sizes, 8 window, 11 stride,
// 14 padding, 17 dilation; 20 strides (N, C, D, H, W) of the values that are read; 25 what averages divide by: 0 the
// elements of the window, 1 those and its padding, 2 the number in 26. Results and positions are dense.

#define ADAPTIVE $ADAPTIVE
#define WITH_POSITIONS $WITH_POSITIONS

inline $INDEX word(constant ulong *arg, uint k) { return $INDEX(arg[k]); }

// The window of output o along axis d: from the first element inside, below the last.
inline $INDEX window_begin(constant ulong *arg, uint d, $INDEX o)
{
#if ADAPTIVE
    return $INDEX(long(o) * long(arg[2u + d]) / long(arg[5u + d]));
#else
    const $INDEX step = word(arg, 17u + d);
    const $INDEX a = o * word(arg, 11u + d) - word(arg, 14u + d);
    return a < 0 ? a + (step - 1 - a) / step * step : a;
#endif
}
inline $INDEX window_end(constant ulong *arg, uint d, $INDEX o)
{
#if ADAPTIVE
    const long count = long(arg[5u + d]);
    return $INDEX((long(o + 1) * long(arg[2u + d]) + count - 1) / count);
#else
    const $INDEX a = o * word(arg, 11u + d) - word(arg, 14u + d);
    const $INDEX b = a + (word(arg, 8u + d) - 1) * word(arg, 17u + d) + 1;
    const $INDEX size = word(arg, 2u + d);
    return b < size ? b : size;
#endif
}

#if $AVERAGE || $AVERAGE_GRADIENT
inline float divisor_along(constant ulong *arg, uint d, $INDEX o)
{
    $INDEX begin = window_begin(arg, d, o);
    $INDEX end = window_end(arg, d, o);
#if !ADAPTIVE
    if (arg[25] == 1UL) {
        begin = o * word(arg, 11u + d) - word(arg, 14u + d);
        end = begin + word(arg, 8u + d);
        const $INDEX size = word(arg, 2u + d) + word(arg, 14u + d);
        end = end < size ? end : size;
    }
#endif
    return float(end - begin);
}
inline float divisor(constant ulong *arg, $INDEX a, $INDEX b, $INDEX c)
{
    if (arg[25] == 2UL)
        return as_type<float>(uint(arg[26]));
    const float along = divisor_along(arg, 0u, a) * divisor_along(arg, 1u, b);
    return along * divisor_along(arg, 2u, c);
}
#endif

// The outputs whose windows may hold element i along axis d: windows of averages have no holes, maxima know their positions.
inline $INDEX outputs_begin(constant ulong *arg, uint d, $INDEX i)
{
#if ADAPTIVE
    return $INDEX(long(i) * long(arg[5u + d]) / long(arg[2u + d]));
#else
    const $INDEX stride = word(arg, 11u + d);
    const $INDEX u = i + word(arg, 14u + d) - (word(arg, 8u + d) - 1) * word(arg, 17u + d);
    return u <= 0 ? 0 : (u + stride - 1) / stride;
#endif
}
inline $INDEX outputs_end(constant ulong *arg, uint d, $INDEX i)
{
    const $INDEX count = word(arg, 5u + d);
#if ADAPTIVE
    const $INDEX last = $INDEX((long(i + 1) * long(count) - 1) / long(arg[2u + d]));
#else
    const $INDEX last = (i + word(arg, 14u + d)) / word(arg, 11u + d);
#endif
    return last + 1 < count ? last + 1 : count;
}

// Coordinates of result e in a dense array whose pooled axes have sizes arg[at], arg[at + 1], arg[at + 2].
#define COORDINATES(at)                                              \
    const $INDEX e = $INDEX(k);                                      \
    const $INDEX e1 = e / word(arg, at + 2u);                        \
    const $INDEX p2 = e - e1 * word(arg, at + 2u);                   \
    const $INDEX e0 = e1 / word(arg, at + 1u);                       \
    const $INDEX p1 = e1 - e0 * word(arg, at + 1u);                  \
    const $INDEX plane = e0 / word(arg, at);                         \
    const $INDEX p0 = e0 - plane * word(arg, at);                    \
    const $INDEX n = plane / word(arg, 1u);                          \
    const $INDEX c = plane - n * word(arg, 1u);                      \
    device const $ITEM *p = in + off[0] + n * word(arg, 20u) + c * word(arg, 21u);

#define OFFSET(a, b, c) ((a) * word(arg, 22u) + (b) * word(arg, 23u) + (c) * word(arg, 24u))
#define LOAD(at) $LOAD
#define STORE(y) out[off[1] + long(e)] = $STORE
#define THREADS uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]]

#define FOR_WINDOW                                                                                   \
    const $INDEX first1 = window_begin(arg, 1u, p1), last1 = window_end(arg, 1u, p1);                \
    const $INDEX first2 = window_begin(arg, 2u, p2), last2 = window_end(arg, 2u, p2);                \
    const $INDEX last0 = window_end(arg, 0u, p0);                                                    \
    for ($INDEX a = window_begin(arg, 0u, p0); a < last0; a += word(arg, 17u))                       \
        for ($INDEX b = first1; b < last1; b += word(arg, 18u))                                      \
            for ($INDEX c2 = first2; c2 < last2; c2 += word(arg, 19u))

#define FOR_OUTPUTS                                                                                  \
    const $INDEX first1 = outputs_begin(arg, 1u, p1), last1 = outputs_end(arg, 1u, p1);              \
    const $INDEX first2 = outputs_begin(arg, 2u, p2), last2 = outputs_end(arg, 2u, p2);              \
    const $INDEX last0 = outputs_end(arg, 0u, p0);                                                   \
    for ($INDEX a = outputs_begin(arg, 0u, p0); a < last0; a++)                                      \
        for ($INDEX b = first1; b < last1; b++)                                                      \
            for ($INDEX c2 = first2; c2 < last2; c2++)

#if $MAX
// The largest element of each window, NaN before all others; positions count within the plane, -1 for a window without elements.
kernel void max_pool(device const $ITEM *in [[buffer(0)]], device $ITEM *out [[buffer(1)]],$POSITIONS
                     constant long *off [[buffer($OFF)]], constant ulong *arg [[buffer($ARG)]], THREADS)
{
    for (ulong k = tid; k < arg[0]; k += threads) {
        COORDINATES(5u)
        float best = -INFINITY;
        $INDEX at = -1;
        FOR_WINDOW {
            const float v = LOAD(OFFSET(a, b, c2));
            if (at < 0 || v > best || (ISNAN(v) && !ISNAN(best))) {
                best = v;
                at = (a * word(arg, 3u) + b) * word(arg, 4u) + c2;
            }
        }
        STORE(best);
#if WITH_POSITIONS
        positions[off[2] + long(e)] = long(at);
#endif
    }
}
#endif

#if $AVERAGE
kernel void average_pool(device const $ITEM *in [[buffer(0)]], device $ITEM *out [[buffer(1)]],
                         constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]], THREADS)
{
    for (ulong k = tid; k < arg[0]; k += threads) {
        COORDINATES(5u)
        float sum = 0.0f;
        FOR_WINDOW {
            const float v = LOAD(OFFSET(a, b, c2));
            sum += v;
        }
        const float y = sum / divisor(arg, p0, p1, p2);
        STORE(y);
    }
}
#endif

#if $MAX_GRADIENT
kernel void max_pool_gradient(device const $ITEM *in [[buffer(0)]], device $ITEM *out [[buffer(1)]], device const long *positions [[buffer(2)]],
                              constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]], THREADS)
{
    for (ulong k = tid; k < arg[0]; k += threads) {
        COORDINATES(2u)
        const long own = long((p0 * word(arg, 3u) + p1) * word(arg, 4u) + p2);
        device const long *q = positions + off[2] + long(plane) * long(arg[5]) * long(arg[6]) * long(arg[7]);
        float sum = 0.0f;
        FOR_OUTPUTS {
            if (q[(a * word(arg, 6u) + b) * word(arg, 7u) + c2] == own) {
                const float v = LOAD(OFFSET(a, b, c2));
                sum += v;
            }
        }
        STORE(sum);
    }
}
#endif

#if $AVERAGE_GRADIENT
kernel void average_pool_gradient(device const $ITEM *in [[buffer(0)]], device $ITEM *out [[buffer(1)]],
                                  constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]], THREADS)
{
    for (ulong k = tid; k < arg[0]; k += threads) {
        COORDINATES(2u)
        float sum = 0.0f;
        FOR_OUTPUTS {
            const float g = LOAD(OFFSET(a, b, c2));
            const float v = g / divisor(arg, a, b, c2);
            sum += v;
        }
        STORE(sum);
    }
}
#endif

#if $PICK
// The values at positions that an earlier maximum found; 0 for a window without elements.
kernel void pick(device const $ITEM *in [[buffer(0)]], device $ITEM *out [[buffer(1)]], device const long *positions [[buffer(2)]],
                 constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]], THREADS)
{
    for (ulong k = tid; k < arg[0]; k += threads) {
        COORDINATES(5u)
        const $INDEX at = $INDEX(positions[off[2] + long(e)]);
        float v = 0.0f;
        if (at >= 0) {
            const $INDEX row = at / word(arg, 4u);
            const $INDEX a = row / word(arg, 3u);
            v = LOAD(OFFSET(a, row - a * word(arg, 3u), at - row * word(arg, 4u)));
        }
        STORE(v);
    }
}
#endif
