// Gather, scatter and accumulation along one axis. Arrays are seen as (outer, axis, inner) with strides of their own;
// an index array may be broadcast. Indices below 0 count from the end; one out of range sets a status word and
// reads or writes nothing.

#define GATHER $GATHER
#define SCATTER $SCATTER
#define ACCUMULATE $ACCUMULATE

inline long wrapped($INDEX_TYPE raw, long n) { return long(raw) < 0 ? long(raw) + n : long(raw); }
inline bool inside(long j, long n) { return j >= 0 && j < n; }

// arg: count, m (indexed), inner, n (axis), then strides (outer, axis, inner) of source, index, target
#define POSITION                                                                                                \
    const ulong t = e / arg[2];                                                                                 \
    const long i = long(e - t * arg[2]);                                                                        \
    const ulong o_ = t / arg[1];                                                                                \
    const long m = long(t - o_ * arg[1]);                                                                       \
    const long o = long(o_);                                                                                    \
    const long n = long(arg[3]);                                                                                \
    const long raw_at = o * long(arg[7]) + m * long(arg[8]) + i * long(arg[9]);

#if GATHER
// target[o, m, i] = source[o, index[o, m, i], i]
kernel void gather(device const $ITEM *source [[buffer(0)]], device const $INDEX_TYPE *index [[buffer(1)]],
                   device $ITEM *target [[buffer(2)]], device atomic_uint *status [[buffer(3)]],
                   constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                   uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0]; e += threads) {
        POSITION
        const long j = wrapped(index[off[1] + raw_at], n);
        $ITEM v = $ZERO;
        if (inside(j, n))
            v = source[off[0] + o * long(arg[4]) + j * long(arg[5]) + i * long(arg[6])];
        else
            atomic_fetch_or_explicit(status + off[3], 1u, memory_order_relaxed);
        target[off[2] + o * long(arg[10]) + m * long(arg[11]) + i * long(arg[12])] = v;
    }
}
#endif

#if SCATTER
// winner[o, j, i] = 1 + the last m with index[o, m, i] == j; zeroed before. winner is dense.
kernel void scatter_claim(device const $INDEX_TYPE *index [[buffer(0)]], device atomic_uint *winner [[buffer(1)]],
                          device atomic_uint *status [[buffer(2)]],
                          constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]],
                          uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0]; e += threads) {
        POSITION
        const long j = wrapped(index[off[0] + raw_at], n);
        if (inside(j, n))
            atomic_fetch_max_explicit(winner + off[1] + (o * n + j) * long(arg[2]) + i, uint(m) + 1u, memory_order_relaxed);
        else
            atomic_fetch_or_explicit(status + off[2], 1u, memory_order_relaxed);
    }
}
// target[o, index[o, m, i], i] = source[o, m, i] for the winners
kernel void scatter(device const $ITEM *source [[buffer(0)]], device const $INDEX_TYPE *index [[buffer(1)]],
                    device $ITEM *target [[buffer(2)]], device const uint *winner [[buffer(3)]],
                    constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                    uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0]; e += threads) {
        POSITION
        const long j = wrapped(index[off[1] + raw_at], n);
        if (inside(j, n) && winner[off[3] + (o * n + j) * long(arg[2]) + i] == uint(m) + 1u)
            target[off[2] + o * long(arg[10]) + j * long(arg[11]) + i * long(arg[12])] =
                source[off[0] + o * long(arg[4]) + m * long(arg[5]) + i * long(arg[6])];
    }
}
#endif

#if ACCUMULATE
// target[o, j, i] += source[o, m, i] for every m, in order, with index[o, m, i] == j: one thread per element of
// the target, which looks at all m. No atomics, so the same bits every time.
// arg: count, axis n, inner, m, strides as above
kernel void accumulate(device const $ITEM *source [[buffer(0)]], device const $INDEX_TYPE *index [[buffer(1)]],
                       device $ITEM *target [[buffer(2)]], device atomic_uint *status [[buffer(3)]],
                       constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                       uint tid [[thread_position_in_grid]])
{
    const ulong e = ulong(off[4]) + tid; // long work comes in pieces
    if (e >= arg[0])
        return;
    const ulong t = e / arg[2];
    const long i = long(e - t * arg[2]);
    const ulong o_ = t / arg[1];
    const long j = long(t - o_ * arg[1]);
    const long o = long(o_);
    const long n = long(arg[1]);
    device $ITEM *q = target + off[2] + o * long(arg[10]) + j * long(arg[11]) + i * long(arg[12]);
    device const $INDEX_TYPE *ip = index + off[1] + o * long(arg[7]) + i * long(arg[9]);
    device const $ITEM *p = source + off[0] + o * long(arg[4]) + i * long(arg[6]);
    $REGISTER sum = $LOAD_TARGET;
    for (long m = 0; m < long(arg[3]); m++) {
        const long w = wrapped(ip[m * long(arg[8])], n);
        if (w == j) {
            const $REGISTER v = $LOAD_SOURCE;
            sum = $ADD;
        }
        if (j == 0 && !inside(w, n))
            atomic_fetch_or_explicit(status + off[3], 1u, memory_order_relaxed);
    }
    *q = $STORE;
}
// The same where the index is one-dimensional and sorted: order[m] lists the sources by index, keys[m] is the
// index of order[m]. Each thread finds its run by bisection.
kernel void accumulate_sorted(device const $ITEM *source [[buffer(0)]], device const $INDEX_TYPE *keys [[buffer(1)]],
                              device $ITEM *target [[buffer(2)]], device const long *order [[buffer(3)]],
                              constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                              uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0]; e += threads) {
        const ulong t = e / arg[2];
        const long i = long(e - t * arg[2]);
        const ulong o_ = t / arg[1];
        const long j = long(t - o_ * arg[1]);
        const long o = long(o_);
        const long count = long(arg[3]);
        device $ITEM *q = target + off[2] + o * long(arg[10]) + j * long(arg[11]) + i * long(arg[12]);
        device const $ITEM *p = source + off[0] + o * long(arg[4]) + i * long(arg[6]);
        long low = 0;
        long high = count;
        while (low < high) {
            const long middle = (low + high) / 2;
            if (long(keys[off[1] + middle]) < j)
                low = middle + 1;
            else
                high = middle;
        }
        $REGISTER sum = $LOAD_TARGET;
        for (long s = low; s < count && long(keys[off[1] + s]) == j; s++) {
            const long m = order[off[3] + s];
            const $REGISTER v = $LOAD_SOURCE;
            sum = $ADD;
        }
        *q = $STORE;
    }
}
#endif
