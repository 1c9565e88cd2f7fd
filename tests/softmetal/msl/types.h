// Scalar, vector and packed types, type traits and numeric limits of the Metal
// Shading Language, written in C++ for OpenCL (see front end: the address space
// keywords are __global = device, __constant = constant, __local = threadgroup,
// __private = thread).
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

#define SM_INLINE inline __attribute__((always_inline))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;

#define SM_VECTORS(T)                                     \
    typedef T T##2 __attribute__((ext_vector_type(2)));   \
    typedef T T##3 __attribute__((ext_vector_type(3)));   \
    typedef T T##4 __attribute__((ext_vector_type(4)));
SM_VECTORS(char)
SM_VECTORS(uchar)
SM_VECTORS(short)
SM_VECTORS(ushort)
SM_VECTORS(int)
SM_VECTORS(uint)
SM_VECTORS(long)
SM_VECTORS(ulong)
SM_VECTORS(half)
SM_VECTORS(float)

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define MAXFLOAT 0x1.fffffep127f
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define HALF_MAX 0x1.ffcp15h
#define HALF_MIN 0x1p-14h
#define HALF_EPSILON 0x1p-10h
#define MAXHALF 0x1.ffcp15h
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-127 - 1)
#define CHAR_MAX 127
#define CHAR_MIN (-127 - 1)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32767 - 1)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 0xffffffffU
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-0x7fffffffffffffffL - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_PI_H 3.14159265358979323846h
#define M_SQRT2_H 1.41421356237309504880h
#define M_E_H 2.71828182845904523536h

// Bit casts.  A keyword in Metal, so outside of its namespace.
template <typename T, typename F>
SM_INLINE T as_type(F v)
{
    static_assert(sizeof(T) == sizeof(F), "as_type needs types of equal size");
    return __builtin_astype(v, T);
}

namespace metal {

template <typename T, int N>
using vec = T __attribute__((ext_vector_type(N)));
#define SM_USING(T) using ::T##2; using ::T##3; using ::T##4; using ::T;
#define SM_USING_BUILTIN(T) using ::T##2; using ::T##3; using ::T##4;
SM_USING_BUILTIN(char) SM_USING(uchar) SM_USING_BUILTIN(short) SM_USING(ushort)
SM_USING_BUILTIN(int) SM_USING(uint) SM_USING_BUILTIN(long) SM_USING(ulong)
SM_USING_BUILTIN(half) SM_USING_BUILTIN(float)

// ---- traits ---------------------------------------------------------------
template <typename T, T v>
struct integral_constant {
    enum : T { value = v };
    typedef T value_type;
    typedef integral_constant type;
};
template <bool v>
struct bool_constant {
    enum : bool { value = v };
    typedef bool value_type;
    typedef bool_constant type;
};
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <typename T, typename U> struct is_same : false_type {};
template <typename T> struct is_same<T, T> : true_type {};
template <bool c, typename T, typename U> struct conditional { typedef T type; };
template <typename T, typename U> struct conditional<false, T, U> { typedef U type; };
template <bool c, typename T, typename U>
using conditional_t = typename conditional<c, T, U>::type;
template <bool c, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { typedef T type; };
template <bool c, typename T = void> using enable_if_t = typename enable_if<c, T>::type;
template <typename T> struct remove_reference { typedef T type; };
template <typename T> struct remove_reference<T &> { typedef T type; };
template <typename T> using remove_reference_t = typename remove_reference<T>::type;
template <typename T> struct remove_const { typedef T type; };
template <typename T> struct remove_const<const T> { typedef T type; };
template <typename T> struct remove_volatile { typedef T type; };
template <typename T> struct remove_volatile<volatile T> { typedef T type; };
template <typename T> struct remove_address_space { typedef T type; };
template <typename T> struct remove_address_space<__global T> { typedef T type; };
template <typename T> struct remove_address_space<__constant T> { typedef T type; };
template <typename T> struct remove_address_space<__local T> { typedef T type; };
template <typename T> struct remove_address_space<__private T> { typedef T type; };
template <typename T> struct remove_cv {
    typedef typename remove_volatile<typename remove_const<
        typename remove_address_space<T>::type>::type>::type type;
};
template <typename T> using remove_cv_t = typename remove_cv<T>::type;
template <typename T> struct is_floating_point : false_type {};
template <> struct is_floating_point<float> : true_type {};
template <> struct is_floating_point<half> : true_type {};
template <typename T> struct is_integral : false_type {};
template <typename T> struct is_unsigned : false_type {};
template <typename T> struct is_signed : is_floating_point<T> {};
#define SM_INTEGRAL(S, U)                              \
    template <> struct is_integral<S> : true_type {};  \
    template <> struct is_integral<U> : true_type {};  \
    template <> struct is_signed<S> : true_type {};    \
    template <> struct is_unsigned<U> : true_type {};
SM_INTEGRAL(char, uchar)
SM_INTEGRAL(short, ushort)
SM_INTEGRAL(int, uint)
SM_INTEGRAL(long, ulong)
template <> struct is_integral<bool> : true_type {};
template <> struct is_integral<signed char> : true_type {};
template <> struct is_unsigned<bool> : true_type {};
template <> struct is_signed<signed char> : true_type {};
template <typename T> struct is_arithmetic
    : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <typename T> struct is_scalar : is_arithmetic<T> {};
template <typename T> struct is_vector : false_type {};
template <typename T, int N> struct is_vector<vec<T, N>> : true_type {};
template <typename T> struct vec_elements { enum { n = 1 }; typedef T type; };
template <typename T, int N> struct vec_elements<vec<T, N>> { enum { n = N }; typedef T type; };
template <typename T> struct make_scalar { typedef typename vec_elements<T>::type type; };
template <typename T> using make_scalar_t = typename make_scalar<T>::type;
template <typename T> struct make_unsigned { typedef T type; };
template <> struct make_unsigned<char> { typedef uchar type; };
template <> struct make_unsigned<short> { typedef ushort type; };
template <> struct make_unsigned<int> { typedef uint type; };
template <> struct make_unsigned<long> { typedef ulong type; };
template <typename T> using make_unsigned_t = typename make_unsigned<T>::type;
template <typename T> struct make_signed { typedef T type; };
template <> struct make_signed<uchar> { typedef char type; };
template <> struct make_signed<ushort> { typedef short type; };
template <> struct make_signed<uint> { typedef int type; };
template <> struct make_signed<ulong> { typedef long type; };
template <typename T> using make_signed_t = typename make_signed<T>::type;

#define SM_TRAIT_V(name) \
    template <typename T> __constant constexpr bool name##_v = name<T>::value;
SM_TRAIT_V(is_floating_point)
SM_TRAIT_V(is_integral)
SM_TRAIT_V(is_unsigned)
SM_TRAIT_V(is_signed)
SM_TRAIT_V(is_arithmetic)
SM_TRAIT_V(is_scalar)
SM_TRAIT_V(is_vector)
template <typename T, typename U> __constant constexpr bool is_same_v = is_same<T, U>::value;

// ---- numeric_limits -------------------------------------------------------
template <typename T> struct numeric_limits { enum : bool { is_specialized = false }; };
#define SM_LIMITS_INT(T, lo, hi, sgn, bits)                                  \
    template <> struct numeric_limits<T> {                                   \
        enum : bool { is_specialized = true, is_signed = sgn, is_integer = true, \
                      has_infinity = false, has_quiet_NaN = false };         \
        enum : int { digits = bits, radix = 2 };                             \
        static constexpr T min() { return T(lo); }                           \
        static constexpr T max() { return T(hi); }                           \
        static constexpr T lowest() { return T(lo); }                        \
        static constexpr T epsilon() { return T(0); }                        \
        static constexpr T infinity() { return T(0); }                       \
        static constexpr T quiet_NaN() { return T(0); }                      \
    };
SM_LIMITS_INT(bool, 0, 1, false, 1)
SM_LIMITS_INT(char, CHAR_MIN, CHAR_MAX, true, 7)
SM_LIMITS_INT(uchar, 0, UCHAR_MAX, false, 8)
SM_LIMITS_INT(short, SHRT_MIN, SHRT_MAX, true, 15)
SM_LIMITS_INT(ushort, 0, USHRT_MAX, false, 16)
SM_LIMITS_INT(int, INT_MIN, INT_MAX, true, 31)
SM_LIMITS_INT(uint, 0, UINT_MAX, false, 32)
SM_LIMITS_INT(long, LONG_MIN, LONG_MAX, true, 63)
SM_LIMITS_INT(ulong, 0, ULONG_MAX, false, 64)
#define SM_LIMITS_FLOAT(T, lo, hi, eps, dig, denorm)                         \
    template <> struct numeric_limits<T> {                                   \
        enum : bool { is_specialized = true, is_signed = true, is_integer = false, \
                      has_infinity = true, has_quiet_NaN = true };           \
        enum : int { digits = dig, radix = 2 };                              \
        static constexpr T min() { return lo; }                              \
        static constexpr T max() { return hi; }                              \
        static constexpr T lowest() { return -hi; }                          \
        static constexpr T epsilon() { return eps; }                         \
        static constexpr T denorm_min() { return denorm; }                   \
        static constexpr T infinity() { return T(__builtin_inff()); }        \
        static constexpr T quiet_NaN() { return T(__builtin_nanf("")); }     \
    };
SM_LIMITS_FLOAT(half, HALF_MIN, HALF_MAX, HALF_EPSILON, 11, 0x1p-24h)
SM_LIMITS_FLOAT(float, FLT_MIN, FLT_MAX, FLT_EPSILON, 24, 0x1p-149f)

// ---- vector construction --------------------------------------------------
// clang has no multi-argument functional cast for vectors; the front end turns
// `float4(...)` and `vec<T, N>(...)` into these.
template <typename V> struct __sm_flat { enum { n = 1 }; };
template <typename T, int N> struct __sm_flat<vec<T, N>> { enum { n = N }; };
template <typename T, int N>
struct __sm_builder {
    vec<T, N> v;
    int i;
    template <typename A> SM_INLINE void add(A a) { v[i++] = (T)a; }
    template <typename A, int M> SM_INLINE void add(vec<A, M> a)
    {
        for (int k = 0; k < M; ++k)
            v[i++] = (T)a[k];
    }
};
template <typename... A> struct __sm_count { enum { n = 0 }; };
template <typename H, typename... A> struct __sm_count<H, A...> {
    enum { n = (int)__sm_flat<H>::n + (int)__sm_count<A...>::n };
};
template <typename T, int N> SM_INLINE void __sm_fill(__private __sm_builder<T, N> &) {}
template <typename T, int N, typename H, typename... A>
SM_INLINE void __sm_fill(__private __sm_builder<T, N> &b, H h, A... a)
{
    b.add(h);
    __sm_fill(b, a...);
}
template <typename T, int N> struct __sm_maker {
    template <typename H, typename... A> static SM_INLINE vec<T, N> make(H h, A... a)
    {
        static_assert((int)__sm_count<H, A...>::n == N,
                      "wrong number of components in vector constructor");
        __sm_builder<T, N> b;
        b.i = 0;
        __sm_fill(b, h, a...);
        return b.v;
    }
    template <typename A> static SM_INLINE vec<T, N> make(A a)
    {
        vec<T, N> v;
        for (int k = 0; k < N; ++k)
            v[k] = (T)a;
        return v;
    }
    template <typename A> static SM_INLINE vec<T, N> make(vec<A, N> a)
    {
        vec<T, N> v;
        for (int k = 0; k < N; ++k)
            v[k] = (T)a[k];
        return v;
    }
    static SM_INLINE vec<T, N> make() { return (vec<T, N>)(T)0; }
};
template <typename A> SM_INLINE A __sm_unpack(A a) { return a; } // overloaded for packed vectors
template <typename V, typename... A> SM_INLINE V __sm_mk(A... a)
{
    return __sm_maker<typename vec_elements<V>::type, (int)vec_elements<V>::n>::make(
        __sm_unpack(a)...);
}

// ---- packed vectors -------------------------------------------------------
#define SM_PACKED_METHODS(T, N, AS)                          \
    SM_INLINE operator vec<T, N>() const AS                  \
    {                                                        \
        vec<T, N> r;                                         \
        for (int k = 0; k < N; ++k)                          \
            r[k] = e[k];                                     \
        return r;                                            \
    }                                                        \
    SM_INLINE AS const T &operator[](int k) const AS { return e[k]; }
#define SM_PACKED_WRITE(T, N, AS)                            \
    SM_INLINE void operator=(vec<T, N> v) AS                 \
    {                                                        \
        for (int k = 0; k < N; ++k)                          \
            e[k] = v[k];                                     \
    }                                                        \
    SM_INLINE AS T &operator[](int k) AS { return e[k]; }
#define SM_PACKED(T, N, FIELDS)                              \
    struct packed_##T##N {                                   \
        union { T e[N]; struct { T FIELDS; }; };             \
        packed_##T##N() = default;                           \
        SM_INLINE packed_##T##N(vec<T, N> v)                 \
        {                                                    \
            for (int k = 0; k < N; ++k)                      \
                e[k] = v[k];                                 \
        }                                                    \
        SM_PACKED_METHODS(T, N, __global)                    \
        SM_PACKED_METHODS(T, N, __constant)                  \
        SM_PACKED_METHODS(T, N, __local)                     \
        SM_PACKED_METHODS(T, N, __private)                   \
        SM_PACKED_WRITE(T, N, __global)                      \
        SM_PACKED_WRITE(T, N, __local)                       \
        SM_PACKED_WRITE(T, N, __private)                     \
    };                                                       \
    SM_INLINE vec<T, N> __sm_unpack(packed_##T##N a) { return a; }
#define C2 x, y
#define C3 x, y, z
#define C4 x, y, z, w
#define SM_PACKED_ALL(T) SM_PACKED(T, 2, C2) SM_PACKED(T, 3, C3) SM_PACKED(T, 4, C4)
SM_PACKED_ALL(char)
SM_PACKED_ALL(uchar)
SM_PACKED_ALL(short)
SM_PACKED_ALL(ushort)
SM_PACKED_ALL(int)
SM_PACKED_ALL(uint)
SM_PACKED_ALL(long)
SM_PACKED_ALL(half)
SM_PACKED_ALL(float)
#undef C2
#undef C3
#undef C4

// ---- array ----------------------------------------------------------------
template <typename T, size_t N>
struct array {
    T e[N];
    SM_INLINE __private T &operator[](size_t i) __private { return e[i]; }
    SM_INLINE __local T &operator[](size_t i) __local { return e[i]; }
    SM_INLINE __global T &operator[](size_t i) __global { return e[i]; }
    SM_INLINE const __private T &operator[](size_t i) const __private { return e[i]; }
    SM_INLINE const __local T &operator[](size_t i) const __local { return e[i]; }
    SM_INLINE const __global T &operator[](size_t i) const __global { return e[i]; }
    SM_INLINE const __constant T &operator[](size_t i) const __constant { return e[i]; }
    static constexpr size_t size() { return N; }
};

} // namespace metal
