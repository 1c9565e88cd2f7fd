// Common to all kernels: storage formats, conversions, and the exact part of the op table's prelude.
//
// float16 and bfloat16 are computed as float and rounded after every op; bfloat16 is a ushort in
// memory. float32 and bfloat16 subnormals count as zero in arithmetic, whatever the hardware does
// with them; sign and bit operations keep them.

inline float f32_bits(uint u) { return as_type<float>(u); }
inline uint bits_f32(float x) { return as_type<uint>(x); }

inline float bf16_load(ushort u) { return as_type<float>(uint(u) << 16); }
inline ushort bf16_store(float x)
{
    uint u = as_type<uint>(x);
    uint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16; // ties to even
    uint quiet = (u >> 16) | 0x40u;
    return ushort((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
inline float bf16_round(float x) { return bf16_load(bf16_store(x)); }
inline float f16_round(float x) { return float(half(x)); }

// float to integer: saturating, NaN to 0
inline char to_char(float x) { return x != x ? char(0) : char(int(clamp(x, -128.0f, 127.0f))); }
inline short to_short(float x) { return x != x ? short(0) : short(int(clamp(x, -32768.0f, 32767.0f))); }
inline int to_int(float x)
{
    return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? int(0x80000000u) : int(x);
}
inline long to_long(float x)
{
    return x != x ? 0L
                  : x >= 9223372036854775808.0f ? 0x7fffffffffffffffL
                                                : x <= -9223372036854775808.0f ? long(0x8000000000000000UL) : long(x);
}
inline uchar to_uchar(float x) { return x != x ? uchar(0) : uchar(uint(clamp(x, 0.0f, 255.0f))); }
inline ushort to_ushort(float x) { return x != x ? ushort(0) : ushort(uint(clamp(x, 0.0f, 65535.0f))); }
inline uint to_uint(float x) { return x != x ? 0u : x >= 4294967296.0f ? 0xffffffffu : x <= 0.0f ? 0u : uint(x); }
inline ulong to_ulong(float x)
{
    return x != x ? 0UL : x >= 18446744073709551616.0f ? 0xffffffffffffffffUL : x <= 0.0f ? 0UL : ulong(x);
}
inline bool to_bool(float x) { return x != 0.0f; }
inline bool to_bool(float2 x) { return x.x != 0.0f || x.y != 0.0f; }

// ---- real numbers, exact ----

inline bool ISNAN(float x) { return (as_type<uint>(x) & 0x7fffffffu) > 0x7f800000u; }
inline bool ISINF(float x) { return (as_type<uint>(x) & 0x7fffffffu) == 0x7f800000u; }
inline bool ISFINITE(float x) { return (as_type<uint>(x) & 0x7f800000u) != 0x7f800000u; }
inline bool SIGNBIT(float x) { return (as_type<uint>(x) >> 31) != 0u; }
inline float ABS(float x) { return as_type<float>(as_type<uint>(x) & 0x7fffffffu); }
inline float COPYSIGN(float x, float y)
{
    return as_type<float>((as_type<uint>(x) & 0x7fffffffu) | (as_type<uint>(y) & 0x80000000u));
}
inline float XORSIGN(float x, float y) { return as_type<float>(as_type<uint>(x) ^ (as_type<uint>(y) & 0x80000000u)); }
inline float SIGN(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : ISNAN(x) ? x : 0.0f; }
inline float SQUARE(float x) { return x * x; }
inline float MAX(float x, float y) { return x > y || ISNAN(x) ? x : y; }
inline float MIN(float x, float y) { return x < y || ISNAN(x) ? x : y; }
inline float FMAX(float x, float y) { return x >= y || ISNAN(y) ? x : y; }
inline float FMIN(float x, float y) { return x <= y || ISNAN(y) ? x : y; }
inline float SQRT(float x) { return precise::sqrt(x); }
inline float RSQRT(float x) { return 1.0f / precise::sqrt(x); }
inline float CEIL(float x) { return ceil(x); }
inline float FLOOR(float x) { return floor(x); }
inline float TRUNC(float x) { return trunc(x); }
inline float RINT(float x) { return rint(x); }
inline float CONJ(float x) { return x; }
inline float REAL(float x) { return x; }
inline float IMAG(float) { return 0.0f; }
inline float MULG(float g, float f)
{
    float p = g * f;
    return g == 0.0f && !ISFINITE(f) ? 0.0f : p;
}

// ---- truth values ----

inline bool AND(bool x, bool y) { return x && y; }
inline bool OR(bool x, bool y) { return x || y; }
inline bool XOR(bool x, bool y) { return x != y; }
inline bool NOT(bool x) { return !x; }
inline bool MAX(bool x, bool y) { return x || y; }
inline bool MIN(bool x, bool y) { return x && y; }
inline bool FMAX(bool x, bool y) { return x || y; }
inline bool FMIN(bool x, bool y) { return x && y; }
inline bool BITAND(bool x, bool y) { return x && y; }
inline bool BITOR(bool x, bool y) { return x || y; }
inline bool BITXOR(bool x, bool y) { return x != y; }
inline bool BITNOT(bool x) { return !x; }
inline bool ABS(bool x) { return x; }
inline bool SIGN(bool x) { return x; }
inline bool CONJ(bool x) { return x; }
inline bool REAL(bool x) { return x; }
