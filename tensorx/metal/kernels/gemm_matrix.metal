// The same product with the matrix units: four simdgroups of 32 lanes, each 16 x 16 of a 32 x 32 tile, float
// throughout.

#define TILE 32
#define DEPTH 16
#define PITCH 36

kernel void gemm($PARAMETERS,
                 constant long *off [[buffer($OFF)]],
                 constant ulong *arg [[buffer($ARG)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint lid [[thread_index_in_threadgroup]],
                 uint warp [[simdgroup_index_in_threadgroup]])
{
    threadgroup float as[TILE * (DEPTH + 4)];
    threadgroup float bs[DEPTH * PITCH];
    threadgroup float cs[TILE * PITCH];
    const $INDEX rows = $INDEX(arg[0]);
    const $INDEX columns = $INDEX(arg[1]);
    const $INDEX depth = $INDEX(arg[2]);
    const ulong splits = arg[3];
    const $INDEX part = $INDEX(arg[4]);
    const ulong slot = ulong(tg.z) + ulong(off[$OFF + 2]);
    const ulong z = slot / splits;
    const $INDEX first = $INDEX(slot - z * splits) * part;
    const $INDEX left = depth - first;
    const $INDEX stop = first + (left < part ? left : part);
    const $INDEX row0 = $INDEX(tg.y + uint(off[$OFF + 1])) * TILE;
    const $INDEX column0 = $INDEX(tg.x + uint(off[$OFF])) * TILE;
    const uint wy = (warp / 2u) * 16u;
    const uint wx = (warp % 2u) * 16u;
$SETUP
    simdgroup_matrix<float, 8, 8> c00 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_matrix<float, 8, 8> c01 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_matrix<float, 8, 8> c10 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_matrix<float, 8, 8> c11 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for ($INDEX k0 = first; k0 < stop; k0 += DEPTH) {
        for (uint e = lid; e < DEPTH * TILE; e += 128u) {
            {
                const uint kk = $A_ALONG_K ? e % DEPTH : e / TILE;
                const uint ii = $A_ALONG_K ? e / DEPTH : e % TILE;
                const $INDEX k = k0 + kk;
                const $INDEX i = row0 + ii;
                float v = 0.0f;
                if (k < stop && i < rows) {
$LOAD_A
                }
                as[ii * (DEPTH + 4) + kk] = v;
            }
            {
                const uint kk = $B_ALONG_K ? e % DEPTH : e / TILE;
                const uint jj = $B_ALONG_K ? e / DEPTH : e % TILE;
                const $INDEX k = k0 + kk;
                const $INDEX j = column0 + jj;
                float v = 0.0f;
                if (k < stop && j < columns) {
$LOAD_B
                }
                bs[kk * PITCH + jj] = v;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint kk = 0; kk < DEPTH; kk += 8u) {
            simdgroup_matrix<float, 8, 8> a0;
            simdgroup_matrix<float, 8, 8> a1;
            simdgroup_matrix<float, 8, 8> b0;
            simdgroup_matrix<float, 8, 8> b1;
            simdgroup_load(a0, as + wy * (DEPTH + 4) + kk, DEPTH + 4);
            simdgroup_load(a1, as + (wy + 8u) * (DEPTH + 4) + kk, DEPTH + 4);
            simdgroup_load(b0, bs + kk * PITCH + wx, PITCH);
            simdgroup_load(b1, bs + kk * PITCH + wx + 8u, PITCH);
            simdgroup_multiply_accumulate(c00, a0, b0, c00);
            simdgroup_multiply_accumulate(c01, a0, b1, c01);
            simdgroup_multiply_accumulate(c10, a1, b0, c10);
            simdgroup_multiply_accumulate(c11, a1, b1, c11);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_store(c00, cs + wy * PITCH + wx, PITCH);
    simdgroup_store(c01, cs + wy * PITCH + wx + 8u, PITCH);
    simdgroup_store(c10, cs + (wy + 8u) * PITCH + wx, PITCH);
    simdgroup_store(c11, cs + (wy + 8u) * PITCH + wx + 8u, PITCH);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = lid; e < TILE * TILE; e += 128u) {
        const uint ii = e / TILE;
        const uint jj = e % TILE;
        const $INDEX i = row0 + ii;
        const $INDEX j = column0 + jj;
        if (i < rows && j < columns) {
            const float v = cs[ii * PITCH + jj];
$STORE
        }
    }
}
