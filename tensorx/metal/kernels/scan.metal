// Running sums, products, maxima and minima along one axis of (outer, n, inner). A line is cut into chunks: one
// thread folds a chunk (scan_chunks), one thread per line runs over the chunks' totals (scan_totals), then the
// chunks are walked again from their starting values (scan_write). Chunks depend on sizes only.
// arg: lines, n, inner, chunk length, chunks, then strides (outer, axis, inner) of source and target

inline $STATE step_value($STATE s, $VALUE x) { return $FOLD; }
inline $STATE join_value($STATE s, $STATE t) { return $MERGE; }

#define LINE                                                                                                    \
    const ulong o = line / arg[2];                                                                              \
    const ulong i = line - o * arg[2];                                                                          \
    device const $IN *p = source + off[0] + long(o) * long(arg[5]) + long(i) * long(arg[7]);

#if $CHUNKS
kernel void scan_chunks(device const $IN *source [[buffer(0)]], device $STATE *totals [[buffer(1)]],
                        constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]],
                        uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0] * arg[4]; e += threads) {
        const ulong chunk = e / arg[0]; // neighbouring threads have neighbouring lines
        const ulong line = e - chunk * arg[0];
        LINE
        const ulong start = chunk * arg[3];
        const ulong stop = min(start + arg[3], arg[1]);
        $STATE s = $FIRST;
        for (ulong j = start; j < stop; j++) {
            const $VALUE x = $LOAD;
            s = step_value(s, x);
        }
        totals[off[1] + long(e)] = s;
    }
}
// totals become the value before each chunk
kernel void scan_totals(device $STATE *totals [[buffer(0)]], constant long *off [[buffer(1)]],
                        constant ulong *arg [[buffer(2)]], uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong line = tid; line < arg[0]; line += threads) {
        $STATE s = $FIRST;
        for (ulong chunk = 0; chunk < arg[4]; chunk++) {
            const ulong e = chunk * arg[0] + line;
            const $STATE t = totals[off[0] + long(e)];
            totals[off[0] + long(e)] = s;
            s = join_value(s, t);
        }
    }
}
#endif
kernel void scan_write(device const $IN *source [[buffer(0)]], device const $STATE *totals [[buffer(1)]],
                       device $OUT *target [[buffer(2)]], constant long *off [[buffer(3)]],
                       constant ulong *arg [[buffer(4)]], uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0] * arg[4]; e += threads) {
        const ulong chunk = e / arg[0];
        const ulong line = e - chunk * arg[0];
        LINE
        device $OUT *q = target + off[2] + long(o) * long(arg[8]) + long(i) * long(arg[10]);
        const ulong start = chunk * arg[3];
        const ulong stop = min(start + arg[3], arg[1]);
        $STATE s = $FIRST;
        if (arg[4] > 1UL)
            s = totals[off[1] + long(e)];
        for (ulong j = start; j < stop; j++) {
            const $VALUE x = $LOAD;
            s = step_value(s, x);
            q[long(j) * long(arg[9])] = $STORE;
        }
    }
}
