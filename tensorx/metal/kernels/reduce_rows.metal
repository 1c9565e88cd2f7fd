kernel void reduce($PARAMETERS
                   constant long *off [[buffer($OFF)]],
                   constant ulong *arg [[buffer($ARG)]],
                   threadgroup $STATE *sh [[threadgroup(0)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint lid [[thread_index_in_threadgroup]],
                   uint3 group [[threads_per_threadgroup]]$SIMD_PARAMETERS)
{
$POINTERS
    const $INDEX count = $INDEX($COUNT);
    const $INDEX segment = $INDEX($SEGMENT);
    const $INDEX k = tg.x;
    const $INDEX start = $INDEX(tg.y) * segment;
    const $INDEX left = count - start;
    const $INDEX stop = start + (left < segment ? left : segment);
    const uint threads = group.x;
$KEPT
    $STATE s = FIRST;
#if $WITH_INDEX
    $INDEX at = NO_INDEX;
    threadgroup $INDEX *shi = (threadgroup $INDEX *)(sh + threads);
#endif
    for ($INDEX r = start + lid; r < stop; r += threads) {
$BODY
        FOLD($RESULT, r)
    }
#if $USE_SIMD
    for (uint d = width / 2u; d > 0u; d /= 2u)
        s = merge_value(s, simd_shuffle_down(s, ushort(d)));
    if (lane == 0u)
        sh[warp] = s;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint w = 1u; lid == 0u && w < threads / width; w++)
        s = merge_value(s, sh[w]);
#else
    sh[lid] = s;
#if $WITH_INDEX
    shi[lid] = at;
#endif
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = threads / 2u; d > 0u; d /= 2u) {
        if (lid < d) {
            MERGE(sh[lid + d], shi[lid + d])
            sh[lid] = s;
#if $WITH_INDEX
            shi[lid] = at;
#endif
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
#endif
    if (lid == 0u) {
$STORE
    }
}
