kernel void reduce_finish(device const $MEMORY *part [[buffer(0)]],
$INDEX_PARAMETER
                          device $OUT *out [[buffer($OUT_SLOT)]],
                          constant long *off [[buffer($OFF)]],
                          constant ulong *arg [[buffer($ARG)]],
                          uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const ulong keep = arg[0];
    const ulong count = arg[1];
    const ulong segments = arg[2];
    device const $MEMORY *p = part + off[0];
    device $OUT *q = out + off[$OUT_SLOT];
    for (ulong k = tid; k < keep; k += threads) {
        $STATE s = FIRST;
#if $WITH_INDEX
        $INDEX at = NO_INDEX;
        device const $INDEX *pi = part_index + off[1];
#endif
        for (ulong g = 0; g < segments; g++) {
            const ulong e = g * keep + k;
            MERGE(p[e], pi[e])
        }
        q[k] = $FINISHED;
    }
}
