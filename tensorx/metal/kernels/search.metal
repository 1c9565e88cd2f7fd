// Where values would have to be put into a sorted line, by bisection over the keys of sort.metal: NaN come last.
// arg: count of values, length of the line, stride of the line, before (0) or behind (1) equal elements

inline $KEY make_key($VALUE x) { return $MAKE_KEY; }

kernel void search_sorted(device const $IN *line [[buffer(0)]], device const $IN *values [[buffer(1)]],
                          device long *out [[buffer(2)]], constant long *off [[buffer(3)]],
                          constant ulong *arg [[buffer(4)]], uint tid [[thread_position_in_grid]],
                          uint threads [[threads_per_grid]])
{
    for (ulong e = tid; e < arg[0]; e += threads) {
        device const $IN *v = values + off[1] + long(e);
        const $KEY key = make_key($LOAD_VALUE);
        long low = 0;
        long high = long(arg[1]);
        while (low < high) {
            const long middle = low + (high - low) / 2;
            device const $IN *p = line + off[0] + middle * long(arg[2]);
            const $KEY other = make_key($LOAD_LINE);
            if (other < key || (arg[3] != 0UL && other == key))
                low = middle + 1;
            else
                high = middle;
        }
        out[off[2] + long(e)] = low;
    }
}
