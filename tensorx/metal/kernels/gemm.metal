// Tiled matrix product: a group of SIDE x SIDE threads computes a tile of TILE x TILE elements, EACH x EACH per
// thread, over slices of the inner dimension held in threadgroup memory. What A, B and C are - matrices with
// strides, or the windows of a convolution - is said by the texts filled in: they see the batch number z, the
// position (i, j) in C and the inner index k, all within bounds.

#define SIDE $SIDE
#define EACH $EACH
#define TILE (SIDE * EACH)
#define DEPTH $DEPTH
#define PITCH (TILE + 1) // a column of threads then hits different banks

kernel void gemm($PARAMETERS,
                 constant long *off [[buffer($OFF)]],
                 constant ulong *arg [[buffer($ARG)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint lid [[thread_index_in_threadgroup]])
{
    threadgroup $ACC as[DEPTH * PITCH];
    threadgroup $ACC bs[DEPTH * PITCH];
    const $INDEX rows = $INDEX(arg[0]);
    const $INDEX columns = $INDEX(arg[1]);
    const $INDEX depth = $INDEX(arg[2]);
    const ulong splits = arg[3];         // parts of the inner dimension, summed later
    const $INDEX part = $INDEX(arg[4]);  // length of a part
    const ulong slot = ulong(tg.z) + ulong(off[$OFF + 2]);
    const ulong z = slot / splits;
    const $INDEX first = $INDEX(slot - z * splits) * part;
    const $INDEX left = depth - first;
    const $INDEX stop = first + (left < part ? left : part);
    const $INDEX row0 = $INDEX(tg.y + uint(off[$OFF + 1])) * TILE;
    const $INDEX column0 = $INDEX(tg.x + uint(off[$OFF])) * TILE;
    const uint ty = lid / SIDE;
    const uint tx = lid - ty * SIDE;
$SETUP
    $ACC acc[EACH * EACH];
    for (uint e = 0; e < EACH * EACH; e++)
        acc[e] = $ZERO;
    for ($INDEX k0 = first; k0 < stop; k0 += DEPTH) {
        for (uint e = lid; e < DEPTH * TILE; e += SIDE * SIDE) {
            {
                const uint kk = $A_ALONG_K ? e % DEPTH : e / TILE;
                const uint ii = $A_ALONG_K ? e / DEPTH : e % TILE;
                const $INDEX k = k0 + kk;
                const $INDEX i = row0 + ii;
                $ACC v = $ZERO;
                if (k < stop && i < rows) {
$LOAD_A
                }
                as[kk * PITCH + ii] = v;
            }
            {
                const uint kk = $B_ALONG_K ? e % DEPTH : e / TILE;
                const uint jj = $B_ALONG_K ? e / DEPTH : e % TILE;
                const $INDEX k = k0 + kk;
                const $INDEX j = column0 + jj;
                $ACC v = $ZERO;
                if (k < stop && j < columns) {
$LOAD_B
                }
                bs[kk * PITCH + jj] = v;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint kk = 0; kk < DEPTH; kk++) {
            $ACC a[EACH];
            $ACC b[EACH];
            for (uint e = 0; e < EACH; e++) {
                a[e] = as[kk * PITCH + ty + e * SIDE];
                b[e] = bs[kk * PITCH + tx + e * SIDE];
            }
            for (uint p = 0; p < EACH; p++)
                for (uint q = 0; q < EACH; q++)
                    acc[p * EACH + q] = $MULTIPLY_ADD;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint p = 0; p < EACH; p++) {
        const $INDEX i = row0 + ty + p * SIDE;
        for (uint q = 0; q < EACH; q++) {
            const $INDEX j = column0 + tx + q * SIDE;
            if (i < rows && j < columns) {
                const $ACC v = acc[p * EACH + q];
$STORE
            }
        }
    }
}
