// Philox4x32-10: word w of a stream is word w % 4 of the block with counter w / 4, so every element can be made
// by itself and any number of threads give the same numbers.
// arg: count, seed (low word | high word << 32), stream (likewise), first word, three numbers of the distribution,
// then sizes and strides where the elements do not lie one after the other

inline uint4 philox(ulong seed, ulong block, ulong stream)
{
    uint c0 = uint(block);
    uint c1 = uint(block >> 32);
    uint c2 = uint(stream);
    uint c3 = uint(stream >> 32);
    uint k0 = uint(seed);
    uint k1 = uint(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const ulong p = ulong(c0) * 0xD2511F53UL;
        const ulong q = ulong(c2) * 0xCD9E8D57UL;
        const uint n0 = uint(q >> 32) ^ c1 ^ k0;
        const uint n2 = uint(p >> 32) ^ c3 ^ k1;
        c1 = uint(q);
        c3 = uint(p);
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return uint4(c0, c1, c2, c3);
}
// The four words from any one on: of two blocks, unless that one begins a block.
inline uint4 four_words(ulong seed, ulong stream, ulong first)
{
    const uint4 v = philox(seed, first >> 2, stream);
    const uint skip = uint(first) & 3u;
    if (skip == 0u)
        return v;
    const uint4 n = philox(seed, (first >> 2) + 1UL, stream);
    return skip == 1u   ? uint4(v.y, v.z, v.w, n.x)
           : skip == 2u ? uint4(v.z, v.w, n.x, n.y)
                        : uint4(v.w, n.x, n.y, n.z);
}

inline float unit_of(uint w) { return float(w >> 8) * 5.9604645e-08f; } // [0, 1), all values exact
inline float open_unit_of(uint w) { return 1.0f - unit_of(w); }         // (0, 1]

// floor(x range) for the 64-bit fraction x and range up to 2^32
inline ulong below(uint low, uint high, ulong range)
{
    const ulong part = (ulong(low) * range) >> 32;
    return (ulong(high) * range + part) >> 32;
}
inline ulong mul_high(ulong a, ulong b)
{
    const ulong al = a & 0xffffffffUL;
    const ulong ah = a >> 32;
    const ulong bl = b & 0xffffffffUL;
    const ulong bh = b >> 32;
    const ulong mid = ah * bl + ((al * bl) >> 32);
    const ulong low = al * bh + (mid & 0xffffffffUL);
    return ah * bh + (mid >> 32) + (low >> 32);
}
// the same for the 128-bit fraction (high, low) and any range, 0 standing for 2^64
inline ulong below_wide(ulong low, ulong high, ulong range)
{
    const ulong product = high * range;
    const ulong sum = product + mul_high(low, range);
    const ulong carry = sum < product ? 1UL : 0UL;
    return range == 0UL ? high : mul_high(high, range) + carry;
}

// A thread makes the elements of four words at a time.
kernel void random(device $OUT *out [[buffer(0)]], constant long *off [[buffer(1)]],
                   constant ulong *arg [[buffer(2)]], uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const ulong count = arg[0];
    const ulong groups = (count + ${EACH}UL - 1UL) / ${EACH}UL;
    device $OUT *q = out + off[0];
    for (ulong group = tid; group < groups; group += threads) {
        const uint4 v = four_words(arg[1], arg[2], arg[3] + group * 4UL);
        const uint w[4] = {v.x, v.y, v.z, v.w};
        $OUT x[$EACH];
$BODY
        const ulong begin = group * ${EACH}UL;
        for (uint k = 0; k < ${EACH}u; k++) {
            if (begin + k < count) {
                const $INDEX i = $INDEX(begin + k);
$PLACE
                q[$AT] = x[k];
            }
        }
    }
}
