// Floating point functions.  The overload sets are Metal's: one function per
// type, no templates, so that a call that Metal finds ambiguous (exp(1),
// clamp(x, 0, 1)) is ambiguous here too.  What Metal lacks (erf, expm1, log1p,
// lgamma, cbrt, hypot) is missing here as well.
//
// SM_FAST_FUNCTIONS: unqualified names mean fast::.  fast:: results lose their
//   two lowest bits, so that code that depends on them shows.
// SM_ULP: results of functions that Metal does not promise to round correctly
//   are off by a few ulp (within Metal's documented bound), a different way for
//   each argument: what a test may not rely on.
// SM_FTZ: float32 subnormals count as zero, also where x86 would keep them.

extern "C" {
float exp10f(float) __attribute__((const));
float __sm_rsqrt(float) __attribute__((const));
float __sm_sinpi(float) __attribute__((const));
float __sm_cospi(float) __attribute__((const));
}

namespace metal {

#ifdef SM_FTZ
SM_INLINE float __sm_flush(float x)
{
    uint u = __builtin_astype(x, uint);
    return __builtin_astype((u & 0x7f800000u) ? u : (u & 0x80000000u), float);
}
#else
SM_INLINE float __sm_flush(float x) { return x; }
#endif

#ifdef SM_ULP
SM_INLINE float __sm_err(float r, float x, int n)
{
    uint u = __builtin_astype(r, uint);
    uint e = (u >> 23) & 0xffu;
    if (e < 2u || e > 253u || !(x < 0 || x > 0))
        return r;
    uint h = __builtin_astype(x, uint) * 2654435761u;
    h ^= h >> 15;
    return __builtin_astype(u + (uint)((int)(h % (uint)(2 * n + 1)) - n), float);
}
#else
SM_INLINE float __sm_err(float r, float, int) { return r; }
#endif

SM_INLINE float __sm_coarse(float r)
{
    uint u = __builtin_astype(r, uint);
    return (u & 0x7f800000u) == 0x7f800000u ? r : __builtin_astype(u & ~3u, float);
}

// ---- one body per function, on float --------------------------------------
#define SM_UNARY(X)                                             \
    X(acos, __sm_err(__builtin_acosf(x), x, 4))                 \
    X(acosh, __sm_err(__builtin_acoshf(x), x, 4))               \
    X(asin, __sm_err(__builtin_asinf(x), x, 4))                 \
    X(asinh, __sm_err(__builtin_asinhf(x), x, 4))               \
    X(atan, __sm_err(__builtin_atanf(x), x, 5))                 \
    X(atanh, __sm_err(__builtin_atanhf(x), x, 5))               \
    X(cos, __sm_err(__builtin_cosf(x), x, 4))                   \
    X(cosh, __sm_err(__builtin_coshf(x), x, 4))                 \
    X(cospi, __sm_err(__sm_cospi(x), x, 4))                     \
    X(exp, __sm_err(__builtin_expf(x), x, 4))                   \
    X(exp2, __sm_err(__builtin_exp2f(x), x, 4))                 \
    X(exp10, __sm_err(exp10f(x), x, 4))                         \
    X(log, __sm_err(__builtin_logf(x), x, 4))                   \
    X(log2, __sm_err(__builtin_log2f(x), x, 4))                 \
    X(log10, __sm_err(__builtin_log10f(x), x, 4))               \
    X(rsqrt, __sm_rsqrt(x))                                     \
    X(sin, __sm_err(__builtin_sinf(x), x, 4))                   \
    X(sinh, __sm_err(__builtin_sinhf(x), x, 4))                 \
    X(sinpi, __sm_err(__sm_sinpi(x), x, 4))                     \
    X(sqrt, __builtin_sqrtf(x))                                 \
    X(tan, __sm_err(__builtin_tanf(x), x, 6))                   \
    X(tanh, __sm_err(__builtin_tanhf(x), x, 5))
#define SM_UNARY_EXACT(X)                                       \
    X(fabs, __sm_flush(__builtin_fabsf(x)))                     \
    X(abs, __sm_flush(__builtin_fabsf(x)))                      \
    X(ceil, __builtin_ceilf(x))                                 \
    X(floor, __builtin_floorf(x))                               \
    X(rint, __builtin_rintf(x))                                 \
    X(round, __builtin_roundf(x))                               \
    X(trunc, __builtin_truncf(x))                               \
    X(fract, __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f)) \
    X(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? x : 0.0f)   \
    X(saturate, __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f))
#define SM_BINARY(X)                                            \
    X(atan2, __sm_err(__builtin_atan2f(x, y), x, 6))            \
    X(fmod, __builtin_fmodf(x, y))                              \
    X(pow, __sm_err(__builtin_powf(x, y), x * y, 16))           \
    X(powr, __sm_err(x >= 0 ? __builtin_powf(x, y) : __builtin_nanf(""), x * y, 16)) \
    X(divide, x / y)
#define SM_BINARY_EXACT(X)                                      \
    X(fmin, __builtin_fminf(x, y))                              \
    X(fmax, __builtin_fmaxf(x, y))                              \
    X(min, __builtin_fminf(x, y))                               \
    X(max, __builtin_fmaxf(x, y))                               \
    X(fdim, __builtin_fdimf(x, y))                              \
    X(copysign, __builtin_copysignf(x, y))                      \
    X(step, y < x ? 0.0f : 1.0f)
#define SM_TERNARY_EXACT(X)                                     \
    X(fma, __builtin_fmaf(x, y, z))                             \
    X(clamp, __builtin_fminf(__builtin_fmaxf(x, y), z))         \
    X(mix, x + (y - x) * z)                                     \
    X(fmin3, __builtin_fminf(x, __builtin_fminf(y, z)))         \
    X(fmax3, __builtin_fmaxf(x, __builtin_fmaxf(y, z)))         \
    X(min3, __builtin_fminf(x, __builtin_fminf(y, z)))          \
    X(max3, __builtin_fmaxf(x, __builtin_fmaxf(y, z)))          \
    X(fmedian3, __builtin_fmaxf(__builtin_fminf(x, y),          \
        __builtin_fminf(__builtin_fmaxf(x, y), z)))             \
    X(median3, __builtin_fmaxf(__builtin_fminf(x, y),           \
        __builtin_fminf(__builtin_fmaxf(x, y), z)))

// ---- scalar bodies --------------------------------------------------------
#define SM_S1(name, e) SM_INLINE float name(float x) { return e; }
#define SM_S2(name, e) SM_INLINE float name(float x, float y) { return e; }
#define SM_S3(name, e) SM_INLINE float name(float x, float y, float z) { return e; }
#define SM_F1(name, e) SM_INLINE float name(float x) { return __sm_coarse(e); }
#define SM_F2(name, e) SM_INLINE float name(float x, float y) { return __sm_coarse(e); }

// ---- the same for vectors: component by component, through the scalar ------
#define SM_V1N(T, N, name)                     \
    SM_INLINE T##N name(T##N x)                \
    {                                          \
        T##N r;                                \
        for (int i = 0; i < N; ++i)            \
            r[i] = name((T)x[i]);              \
        return r;                              \
    }
#define SM_V2N(T, N, name)                     \
    SM_INLINE T##N name(T##N x, T##N y)        \
    {                                          \
        T##N r;                                \
        for (int i = 0; i < N; ++i)            \
            r[i] = name((T)x[i], (T)y[i]);     \
        return r;                              \
    }
#define SM_V3N(T, N, name)                     \
    SM_INLINE T##N name(T##N x, T##N y, T##N z) \
    {                                          \
        T##N r;                                \
        for (int i = 0; i < N; ++i)            \
            r[i] = name((T)x[i], (T)y[i], (T)z[i]); \
        return r;                              \
    }
#define SM_V1(T, name) SM_V1N(T, 2, name) SM_V1N(T, 3, name) SM_V1N(T, 4, name)
#define SM_V2(T, name) SM_V2N(T, 2, name) SM_V2N(T, 3, name) SM_V2N(T, 4, name)
#define SM_V3(T, name) SM_V3N(T, 2, name) SM_V3N(T, 3, name) SM_V3N(T, 4, name)
#define SM_FV1(name, e) SM_V1(float, name)
#define SM_FV2(name, e) SM_V2(float, name)
#define SM_FV3(name, e) SM_V3(float, name)

namespace precise {
SM_UNARY(SM_S1)
SM_UNARY_EXACT(SM_S1)
SM_BINARY(SM_S2)
SM_BINARY_EXACT(SM_S2)
SM_TERNARY_EXACT(SM_S3)
SM_UNARY(SM_FV1)
SM_UNARY_EXACT(SM_FV1)
SM_BINARY(SM_FV2)
SM_BINARY_EXACT(SM_FV2)
SM_TERNARY_EXACT(SM_FV3)
SM_INLINE float sincos(float x, __private float &c)
{
    c = cos(x);
    return sin(x);
}
} // namespace precise

namespace fast {
SM_UNARY(SM_F1)
SM_UNARY_EXACT(SM_S1)
SM_BINARY(SM_F2)
SM_BINARY_EXACT(SM_S2)
SM_TERNARY_EXACT(SM_S3)
SM_UNARY(SM_FV1)
SM_UNARY_EXACT(SM_FV1)
SM_BINARY(SM_FV2)
SM_BINARY_EXACT(SM_FV2)
SM_TERNARY_EXACT(SM_FV3)
SM_INLINE float sincos(float x, __private float &c)
{
    c = cos(x);
    return sin(x);
}
} // namespace fast

// ---- unqualified names: float by mode, half through float ------------------
#ifdef SM_FAST_FUNCTIONS
#define SM_MODE fast
#else
#define SM_MODE precise
#endif
#define SM_M1(name, e)                                                        \
    SM_INLINE float name(float x) { return SM_MODE::name(x); }                \
    SM_INLINE half name(half x) { return (half)precise::name((float)x); }     \
    SM_V1(float, name)                                                        \
    SM_V1(half, name)
#define SM_M2(name, e)                                                        \
    SM_INLINE float name(float x, float y) { return SM_MODE::name(x, y); }    \
    SM_INLINE half name(half x, half y)                                       \
    {                                                                         \
        return (half)precise::name((float)x, (float)y);                       \
    }                                                                         \
    SM_V2(float, name)                                                        \
    SM_V2(half, name)
#define SM_M3(name, e)                                                        \
    SM_INLINE float name(float x, float y, float z) { return SM_MODE::name(x, y, z); } \
    SM_INLINE half name(half x, half y, half z)                               \
    {                                                                         \
        return (half)precise::name((float)x, (float)y, (float)z);             \
    }                                                                         \
    SM_V3(float, name)                                                        \
    SM_V3(half, name)
SM_UNARY(SM_M1)
SM_UNARY_EXACT(SM_M1)
SM_BINARY(SM_M2)
SM_BINARY_EXACT(SM_M2)
SM_TERNARY_EXACT(SM_M3)

// ---- with results through references, and the odd ones ---------------------
SM_INLINE float sincos(float x, __private float &c) { return SM_MODE::sincos(x, c); }
SM_INLINE half sincos(half x, __private half &c)
{
    c = cos(x);
    return sin(x);
}
SM_INLINE float modf(float x, __private float &whole)
{
    whole = __builtin_truncf(x);
    return __builtin_copysignf(__builtin_isinf(x) ? 0.0f : x - whole, x);
}
SM_INLINE half modf(half x, __private half &whole)
{
    float w;
    half r = (half)modf((float)x, w);
    whole = (half)w;
    return r;
}
SM_INLINE float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
SM_INLINE half ldexp(half x, int k) { return (half)__builtin_ldexpf((float)x, k); }
SM_INLINE int ilogb(float x) { return __builtin_ilogbf(x); }
SM_INLINE int ilogb(half x) { return __builtin_ilogbf((float)x); }
SM_INLINE float frexp(float x, __private int &e)
{
    if (x == 0 || __builtin_isinf(x) || __builtin_isnan(x)) {
        e = 0;
        return x;
    }
    e = __builtin_ilogbf(x) + 1;
    return __builtin_ldexpf(x, -e);
}
SM_INLINE half frexp(half x, __private int &e) { return (half)frexp((float)x, e); }
SM_INLINE float smoothstep(float a, float b, float x)
{
    float t = clamp((x - a) / (b - a), 0.0f, 1.0f);
    return t * t * (3.0f - 2.0f * t);
}
SM_INLINE half smoothstep(half a, half b, half x)
{
    return (half)smoothstep((float)a, (float)b, (float)x);
}
// The limits and the weight may be scalars beside a vector.
#define SM_MIXED(T, N)                                                        \
    SM_INLINE T##N clamp(T##N x, T lo, T hi) { return clamp(x, (T##N)lo, (T##N)hi); } \
    SM_INLINE T##N mix(T##N x, T##N y, T a) { return mix(x, y, (T##N)a); }    \
    SM_INLINE T##N min(T##N x, T y) { return min(x, (T##N)y); }               \
    SM_INLINE T##N max(T##N x, T y) { return max(x, (T##N)y); }
SM_MIXED(float, 2) SM_MIXED(float, 3) SM_MIXED(float, 4)
SM_MIXED(half, 2) SM_MIXED(half, 3) SM_MIXED(half, 4)

// ---- classification ---------------------------------------------------------
#define SM_CLASSIFY(T)                                                        \
    SM_INLINE bool isnan(T x) { return __builtin_isnan((float)x); }           \
    SM_INLINE bool isinf(T x) { return __builtin_isinf((float)x); }           \
    SM_INLINE bool isfinite(T x) { return __builtin_isfinite((float)x); }     \
    SM_INLINE bool isordered(T x, T y) { return x == x && y == y; }           \
    SM_INLINE bool isunordered(T x, T y) { return x != x || y != y; }
SM_CLASSIFY(float)
SM_CLASSIFY(half)
SM_INLINE bool isnormal(float x)
{
    uint e = __builtin_astype(x, uint) >> 23 & 0xffu;
    return e != 0 && e != 0xffu;
}
SM_INLINE bool isnormal(half x)
{
    ushort e = __builtin_astype(x, ushort) >> 10 & 0x1f;
    return e != 0 && e != 0x1f;
}
SM_INLINE bool signbit(float x) { return __builtin_astype(x, uint) >> 31; }
SM_INLINE bool signbit(half x) { return __builtin_astype(x, ushort) >> 15; }

// ---- geometry ---------------------------------------------------------------
#define SM_GEOMETRY(T, N)                                                     \
    SM_INLINE T dot(T##N x, T##N y)                                           \
    {                                                                         \
        T r = x[0] * y[0];                                                    \
        for (int i = 1; i < N; ++i)                                           \
            r += x[i] * y[i];                                                 \
        return r;                                                             \
    }                                                                         \
    SM_INLINE T length_squared(T##N x) { return dot(x, x); }                  \
    SM_INLINE T length(T##N x) { return sqrt(dot(x, x)); }                    \
    SM_INLINE T distance(T##N x, T##N y) { return length(x - y); }            \
    SM_INLINE T##N normalize(T##N x) { return x * rsqrt(dot(x, x)); }
SM_GEOMETRY(float, 2) SM_GEOMETRY(float, 3) SM_GEOMETRY(float, 4)
SM_GEOMETRY(half, 2) SM_GEOMETRY(half, 3) SM_GEOMETRY(half, 4)
#define SM_CROSS(T)                                                           \
    SM_INLINE T##3 cross(T##3 a, T##3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }
SM_CROSS(float)
SM_CROSS(half)

} // namespace metal
