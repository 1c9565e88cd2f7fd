kernel void reduce($PARAMETERS
                   constant long *off [[buffer($OFF)]],
                   constant ulong *arg [[buffer($ARG)]],
                   uint3 tid [[thread_position_in_grid]],
                   uint3 threads [[threads_per_grid]])
{
$POINTERS
    const $INDEX keep = $INDEX($KEEP);
    const $INDEX count = $INDEX($COUNT);
    const $INDEX segment = $INDEX($SEGMENT);
    const $INDEX start = $INDEX(tid.y) * segment;
    const $INDEX left = count - start;
    const $INDEX stop = start + (left < segment ? left : segment);
    for ($INDEX k = tid.x; k < keep; k += threads.x) {
$KEPT
        $STATE s = FIRST;
#if $WITH_INDEX
        $INDEX at = NO_INDEX;
#endif
        for ($INDEX r = start; r < stop; r++) {
$BODY
            FOLD($RESULT, r)
        }
$STORE
    }
}
