// Philox4x32-10: word w of a stream is word w % 4 of the block with counter w / 4, so every element can be made
// by itself and any number of threads give the same numbers.
// arg: count, seed (low word | high word << 32), stream (likewise), first word

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
inline uint word_of(uint4 v, uint w) { return w == 0u ? v.x : w == 1u ? v.y : w == 2u ? v.z : v.w; }

// A thread makes the words of one block.
kernel void random(device $OUT *out [[buffer(0)]], constant long *off [[buffer(1)]],
                   constant ulong *arg [[buffer(2)]], uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const ulong count = arg[0];
    const ulong first = arg[3];
    const ulong skip = first % 4UL;
    const ulong blocks = (skip + count + 3UL) / 4UL;
    device $OUT *q = out + off[0];
    for (ulong b = tid; b < blocks; b += threads) {
        const uint4 v = philox(arg[1], first / 4UL + b, arg[2]);
        for (uint w = 0; w < 4u; w++) {
            const ulong e = b * 4UL + w - skip; // wraps to a huge number before the first
            if (e < count) {
                const uint u = word_of(v, w);
                q[e] = $STORE;
            }
        }
    }
}
