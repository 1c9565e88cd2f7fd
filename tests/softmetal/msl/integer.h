// Integer functions, select, any and all.  One overload per type, as in Metal:
// max(1, n) with an unsigned n is ambiguous.
extern "C" {
ulong __sm_mulhi_u64(ulong, ulong) __attribute__((const));
long __sm_mulhi_s64(long, long) __attribute__((const));
}

namespace metal {

#define SM_INT_TYPES(X)                                                      \
    X(char, uchar, 8) X(short, ushort, 16) X(int, uint, 32) X(long, ulong, 64)

// What signed and unsigned share.
#define SM_INT_COMMON(T, U, BITS)                                            \
    SM_INLINE T min(T x, T y) { return y < x ? y : x; }                      \
    SM_INLINE T max(T x, T y) { return x < y ? y : x; }                      \
    SM_INLINE T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }       \
    SM_INLINE T min3(T x, T y, T z) { return min(x, min(y, z)); }            \
    SM_INLINE T max3(T x, T y, T z) { return max(x, max(y, z)); }            \
    SM_INLINE T median3(T x, T y, T z) { return max(min(x, y), min(max(x, y), z)); } \
    SM_INLINE T clz(T x)                                                     \
    {                                                                        \
        return (U)x ? (T)(__builtin_clzl((ulong)(U)x) - (64 - BITS)) : (T)BITS; \
    }                                                                        \
    SM_INLINE T ctz(T x) { return (U)x ? (T)__builtin_ctzl((ulong)(U)x) : (T)BITS; } \
    SM_INLINE T popcount(T x) { return (T)__builtin_popcountl((ulong)(U)x); } \
    SM_INLINE T rotate(T x, T y)                                             \
    {                                                                        \
        U s = (U)y & (U)(BITS - 1);                                          \
        return (T)(U)(s ? (U)((U)x << s) | (U)((U)x >> (BITS - s)) : (U)x);  \
    }                                                                        \
    SM_INLINE T reverse_bits(T x)                                            \
    {                                                                        \
        U r = 0;                                                             \
        for (int i = 0; i < BITS; ++i)                                       \
            r = (U)(r | ((((U)x >> i) & (U)1) << (BITS - 1 - i)));           \
        return (T)r;                                                         \
    }                                                                        \
    SM_INLINE T hadd(T x, T y) { return (T)((x >> 1) + (y >> 1) + (x & y & 1)); } \
    SM_INLINE T rhadd(T x, T y) { return (T)((x >> 1) + (y >> 1) + ((x | y) & 1)); } \
    SM_INLINE U absdiff(T x, T y) { return x > y ? (U)((U)x - (U)y) : (U)((U)y - (U)x); } \
    SM_INLINE T insert_bits(T base, T insert, uint offset, uint bits)        \
    {                                                                        \
        if (bits == 0)                                                       \
            return base;                                                     \
        U m = (U)((bits >= BITS ? (U)~(U)0 : (U)(((U)1 << bits) - 1)) << offset); \
        return (T)(((U)base & (U)~m) | (((U)insert << offset) & m));         \
    }                                                                        \
    SM_INLINE T madhi(T a, T b, T c) { return (T)((U)mulhi(a, b) + (U)c); }

#define SM_INT_SIGNED(T, U, BITS)                                            \
    SM_INLINE T abs(T x) { return x < 0 ? (T)(0 - (U)x) : x; }               \
    SM_INLINE T sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : (T)0; }    \
    SM_INLINE T addsat(T x, T y)                                             \
    {                                                                        \
        T r;                                                                 \
        return __builtin_add_overflow(x, y, &r)                              \
            ? (x < 0 ? numeric_limits<T>::min() : numeric_limits<T>::max()) : r; \
    }                                                                        \
    SM_INLINE T subsat(T x, T y)                                             \
    {                                                                        \
        T r;                                                                 \
        return __builtin_sub_overflow(x, y, &r)                              \
            ? (x < 0 ? numeric_limits<T>::min() : numeric_limits<T>::max()) : r; \
    }                                                                        \
    SM_INLINE T extract_bits(T x, uint offset, uint bits)                    \
    {                                                                        \
        if (bits == 0)                                                       \
            return 0;                                                        \
        return (T)((T)((U)x << (BITS - offset - bits)) >> (BITS - bits));    \
    }
#define SM_INT_UNSIGNED(S, T, BITS)                                          \
    SM_INLINE T abs(T x) { return x; }                                       \
    SM_INLINE T addsat(T x, T y)                                             \
    {                                                                        \
        T r = (T)(x + y);                                                    \
        return r < x ? numeric_limits<T>::max() : r;                         \
    }                                                                        \
    SM_INLINE T subsat(T x, T y) { return x > y ? (T)(x - y) : (T)0; }       \
    SM_INLINE T extract_bits(T x, uint offset, uint bits)                    \
    {                                                                        \
        if (bits == 0)                                                       \
            return 0;                                                        \
        return (T)((T)(x << (BITS - offset - bits)) >> (BITS - bits));       \
    }

SM_INLINE char mulhi(char a, char b) { return (char)((int)a * (int)b >> 8); }
SM_INLINE uchar mulhi(uchar a, uchar b) { return (uchar)((uint)a * (uint)b >> 8); }
SM_INLINE short mulhi(short a, short b) { return (short)((int)a * (int)b >> 16); }
SM_INLINE ushort mulhi(ushort a, ushort b) { return (ushort)((uint)a * (uint)b >> 16); }
SM_INLINE int mulhi(int a, int b) { return (int)((long)a * (long)b >> 32); }
SM_INLINE uint mulhi(uint a, uint b) { return (uint)((ulong)a * (ulong)b >> 32); }
SM_INLINE long mulhi(long a, long b) { return __sm_mulhi_s64(a, b); }
SM_INLINE ulong mulhi(ulong a, ulong b) { return __sm_mulhi_u64(a, b); }
SM_INLINE int mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
SM_INLINE uint mul24(uint a, uint b) { return (a & 0xffffffu) * (b & 0xffffffu); }
SM_INLINE int mad24(int a, int b, int c) { return mul24(a, b) + c; }
SM_INLINE uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }

#define SM_INT_ALL(S, U, BITS)                                               \
    SM_INT_COMMON(S, U, BITS)                                                \
    SM_INT_COMMON(U, U, BITS)                                                \
    SM_INT_SIGNED(S, U, BITS)                                                \
    SM_INT_UNSIGNED(S, U, BITS)
SM_INT_TYPES(SM_INT_ALL)

#define SM_INT_VEC1(T)                                                       \
    SM_V1(T, abs) SM_V1(T, clz) SM_V1(T, ctz) SM_V1(T, popcount) SM_V1(T, reverse_bits) \
    SM_V2(T, min) SM_V2(T, max) SM_V2(T, mulhi) SM_V2(T, rotate) SM_V2(T, hadd) \
    SM_V2(T, addsat) SM_V2(T, subsat) SM_V3(T, clamp)
#define SM_INT_VEC(S, U, BITS) SM_INT_VEC1(S) SM_INT_VEC1(U)
SM_INT_TYPES(SM_INT_VEC)

// ---- select, any, all -------------------------------------------------------
// A comparison of vectors gives a vector of integers (0 or -1) here, not of
// bool; any, all and select are the only things to do with it.
#define SM_SELECT(T) SM_INLINE T select(T a, T b, bool c) { return c ? b : a; }
SM_SELECT(char) SM_SELECT(uchar) SM_SELECT(short) SM_SELECT(ushort) SM_SELECT(int)
SM_SELECT(uint) SM_SELECT(long) SM_SELECT(ulong) SM_SELECT(half) SM_SELECT(float)
SM_SELECT(bool)
#define SM_SELECT_VN(T, I, N)                                                \
    SM_INLINE T##N select(T##N a, T##N b, I##N c)                            \
    {                                                                        \
        T##N r;                                                              \
        for (int i = 0; i < N; ++i)                                          \
            r[i] = c[i] ? b[i] : a[i];                                       \
        return r;                                                            \
    }
#define SM_SELECT_V(T, I) SM_SELECT_VN(T, I, 2) SM_SELECT_VN(T, I, 3) SM_SELECT_VN(T, I, 4)
SM_SELECT_V(float, int) SM_SELECT_V(int, int) SM_SELECT_V(uint, int)
SM_SELECT_V(half, short) SM_SELECT_V(short, short) SM_SELECT_V(ushort, short)
SM_SELECT_V(char, char) SM_SELECT_V(uchar, char)
SM_SELECT_V(long, long) SM_SELECT_V(ulong, long)
SM_INLINE bool any(bool x) { return x; }
SM_INLINE bool all(bool x) { return x; }
#define SM_ANYALL_N(T, N)                                                    \
    SM_INLINE bool any(T##N x)                                               \
    {                                                                        \
        for (int i = 0; i < N; ++i)                                          \
            if (x[i])                                                        \
                return true;                                                 \
        return false;                                                        \
    }                                                                        \
    SM_INLINE bool all(T##N x)                                               \
    {                                                                        \
        for (int i = 0; i < N; ++i)                                          \
            if (!x[i])                                                       \
                return false;                                                \
        return true;                                                         \
    }
#define SM_ANYALL(T) SM_ANYALL_N(T, 2) SM_ANYALL_N(T, 3) SM_ANYALL_N(T, 4)
SM_ANYALL(char) SM_ANYALL(short) SM_ANYALL(int) SM_ANYALL(long)

} // namespace metal
