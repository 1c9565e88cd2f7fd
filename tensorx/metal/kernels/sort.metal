// Stable merge sort of the lines of an array along an axis. Elements become (key, position) pairs with unsigned
// keys in the order wanted: NaN last, -0 as 0. A pass merges runs of `run` elements two by two: every element
// finds its place by bisection in the neighbouring run, so no element waits for another. The first passes happen
// in threadgroup memory, a block at a time.
// arg: lines, n, inner, strides (outer, axis, inner) of the source, run

#define BLOCK $BLOCK

inline $KEY key_of($VALUE x) { return $MAKE_KEY; }

// Elements of a sorted run before which the element (key, of the left or right run) belongs.
#define PLACE(place, keys, from, length, k, is_right)                                                           \
    {                                                                                                           \
        ulong low = 0;                                                                                          \
        ulong high = length;                                                                                    \
        while (low < high) {                                                                                    \
            const ulong middle = (low + high) / 2UL;                                                            \
            const $KEY other = keys[from + middle];                                                             \
            if (other < k || (is_right && other == k))                                                          \
                low = middle + 1UL;                                                                             \
            else                                                                                                \
                high = middle;                                                                                  \
        }                                                                                                       \
        place = low;                                                                                            \
    }

// Reads a block of a line, sorts it, writes its keys and positions.
kernel void sort_blocks(device const $IN *source [[buffer(0)]], device $KEY *keys [[buffer(1)]],
                        device $POSITION *positions [[buffer(2)]], constant long *off [[buffer(3)]],
                        constant ulong *arg [[buffer(4)]], uint2 tg [[threadgroup_position_in_grid]],
                        uint lid [[thread_index_in_threadgroup]], uint2 group [[threads_per_threadgroup]])
{
    threadgroup $KEY ka[BLOCK];
    threadgroup $KEY kb[BLOCK];
    threadgroup ushort pa[BLOCK];
    threadgroup ushort pb[BLOCK];
    const ulong n = arg[1];
    const ulong line = ulong(tg.y);
    const ulong start = ulong(tg.x) * BLOCK;
    const ulong left = n - start;
    const uint m = left < BLOCK ? uint(left) : BLOCK;
    const ulong o = line / arg[2];
    const ulong i = line - o * arg[2];
    device const $IN *p = source + off[0] + long(o) * long(arg[3]) + long(i) * long(arg[5]) + long(start) * long(arg[4]);
    for (uint e = lid; e < m; e += group.x) {
        const long at = long(e) * long(arg[4]);
        ka[e] = key_of($LOAD);
        pa[e] = ushort(e);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    bool in_a = true;
    for (uint run = 1; run < m; run *= 2u) {
        for (uint e = lid; e < m; e += group.x) {
            const uint first = e / (2u * run) * (2u * run);
            const uint middle = min(first + run, m);
            const uint last = min(first + 2u * run, m);
            const bool right = e >= middle;
            const uint from = right ? first : middle;
            const uint length = right ? middle - first : last - middle;
            const $KEY k = in_a ? ka[e] : kb[e];
            ulong place;
            if (in_a)
                PLACE(place, ka, from, length, k, right)
            else
                PLACE(place, kb, from, length, k, right)
            const uint to = first + (right ? e - middle : e - first) + uint(place);
            if (in_a) {
                kb[to] = k;
                pb[to] = pa[e];
            } else {
                ka[to] = k;
                pa[to] = pb[e];
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        in_a = !in_a;
    }
    const ulong base = line * n + start;
    for (uint e = lid; e < m; e += group.x) {
        keys[off[1] + long(base + e)] = in_a ? ka[e] : kb[e];
        positions[off[2] + long(base + e)] = $POSITION(start) + $POSITION(in_a ? pa[e] : pb[e]);
    }
}

kernel void sort_merge(device const $KEY *keys [[buffer(0)]], device const $POSITION *positions [[buffer(1)]],
                       device $KEY *keys_out [[buffer(2)]], device $POSITION *positions_out [[buffer(3)]],
                       constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                       uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const ulong n = arg[1];
    const ulong run = arg[6];
    for (ulong f = tid; f < arg[0] * n; f += threads) {
        const ulong line = f / n;
        const ulong e = f - line * n;
        device const $KEY *kp = keys + off[0] + long(line * n);
        const ulong first = e / (2UL * run) * (2UL * run);
        const ulong middle = min(first + run, n);
        const ulong last = min(first + 2UL * run, n);
        const bool right = e >= middle;
        const ulong from = right ? first : middle;
        const ulong length = right ? middle - first : last - middle;
        const $KEY k = kp[e];
        ulong place;
        PLACE(place, kp, from, length, k, right)
        const ulong to = line * n + first + (right ? e - middle : e - first) + place;
        keys_out[off[2] + long(to)] = k;
        positions_out[off[3] + long(to)] = positions[off[1] + long(f)];
    }
}

// Values and positions in their places. arg: lines, n, inner, strides of source (3), of values (3), of the
// int64 positions (3), what is wanted (1 values, 2 positions).
kernel void sort_write(device const $IN *source [[buffer(0)]], device const $POSITION *positions [[buffer(1)]],
                       device $IN *values [[buffer(2)]], device long *order [[buffer(3)]],
                       constant long *off [[buffer(4)]], constant ulong *arg [[buffer(5)]],
                       uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const ulong n = arg[1];
    for (ulong f = tid; f < arg[0] * n; f += threads) {
        const ulong line = f / n;
        const long e = long(f - line * n);
        const ulong o_ = line / arg[2];
        const long i = long(line - o_ * arg[2]);
        const long o = long(o_);
        const long at = long(positions[off[1] + long(f)]);
        if ((arg[12] & 1UL) != 0UL)
            values[off[2] + o * long(arg[6]) + e * long(arg[7]) + i * long(arg[8])] =
                source[off[0] + o * long(arg[3]) + at * long(arg[4]) + i * long(arg[5])];
        if ((arg[12] & 2UL) != 0UL)
            order[off[3] + o * long(arg[9]) + e * long(arg[10]) + i * long(arg[11])] = at;
    }
}
