/* What the functions of the row language mean in C, per dtype.
 *
 * Row expressions call NAME(...); the generator appends the dtype: NAME_f32, NAME_i64, NAME_c128.
 * The first part holds what is common, then this header includes itself once per dtype with
 * TX_T set (the C type) and TX_N(name) giving the suffixed name.
 */
#ifndef TX_PRELUDE_H
#define TX_PRELUDE_H

#include <complex.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vmath.h"
#include "divmod.h"

#ifdef I
#undef I /* the imaginary unit of complex.h; a poor name to leave around */
#endif

typedef struct { float re, im; } tx_c64;
typedef struct { double re, im; } tx_c128;

/* Hurwitz zeta function for q > 0, s > 1: Euler-Maclaurin after ten direct terms. */
static double tx_zeta(double s, double q)
{
    static const double b[] = {/* B(2j) / (2j)! */
        1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160,
        -691.0 / 1307674368000.0, 1.0 / 74724249600.0, -3617.0 / 10670622842880000.0};
    double sum = 0.0, p = 0.0, term = 1.0;
    int k = 0;
    do {
        term = pow(q + k, -s);
        sum += term;
        k++;
    } while (k < 10 || q + k < 10.0);
    double a = q + k;
    p = pow(a, -s);
    sum += p * a / (s - 1.0) + 0.5 * p;
    double f = s * p / a;
    for (int j = 0; j < 8; j++) {
        sum += b[j] * f;
        f *= (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a);
    }
    return sum;
}

/* n-th derivative of digamma: (-1)^(n+1) n! sum of (x + k)^-(n+1), by reflection below zero. */
static double tx_polygamma(double n, double x)
{
    if (!(n >= 0.0) || n != floor(n) || x != x) return TX_NAN;
    if (n == 0.0) return tx_digamma(x);
    double s = n + 1.0, sign = fmod(n, 2.0) == 0.0 ? -1.0 : 1.0, sum;
    if (x > 0.0) {
        if (x == TX_INF) return 0.0;
        sum = tx_zeta(s, x);
    } else {
        double f = x - floor(x);
        if (x == -TX_INF) return TX_NAN;
        if (f == 0.0) return sign > 0.0 ? TX_INF : TX_NAN;
        /* the sum over all integers, less the terms below x */
        double odd = sign > 0.0 ? 1.0 : -1.0; /* (-1)^s */
        sum = tx_zeta(s, f) + odd * (tx_zeta(s, 1.0 - f) - tx_zeta(s, 1.0 - x));
    }
    return sign * tgamma(s) * sum;
}

/* ---- integers ---- */
#define TX_SUFFIX i8
#define TX_T int8_t
#define TX_U uint8_t
#define TX_SIGNED 1
#include "prelude.h"
#define TX_SUFFIX i16
#define TX_T int16_t
#define TX_U uint16_t
#define TX_SIGNED 1
#include "prelude.h"
#define TX_SUFFIX i32
#define TX_T int32_t
#define TX_U uint32_t
#define TX_SIGNED 1
#include "prelude.h"
#define TX_SUFFIX i64
#define TX_T int64_t
#define TX_U uint64_t
#define TX_SIGNED 1
#include "prelude.h"
#define TX_SUFFIX u8
#define TX_T uint8_t
#define TX_U uint8_t
#define TX_SIGNED 0
#include "prelude.h"
#define TX_SUFFIX u16
#define TX_T uint16_t
#define TX_U uint16_t
#define TX_SIGNED 0
#include "prelude.h"
#define TX_SUFFIX u32
#define TX_T uint32_t
#define TX_U uint32_t
#define TX_SIGNED 0
#include "prelude.h"
#define TX_SUFFIX u64
#define TX_T uint64_t
#define TX_U uint64_t
#define TX_SIGNED 0
#include "prelude.h"
/* Booleans are bytes that hold 0 or 1. */
#define TX_SUFFIX b8
#define TX_T uint8_t
#define TX_U uint8_t
#define TX_SIGNED 0
#define TX_BOOLEAN 1
#include "prelude.h"

/* ---- real numbers ---- */
#define TX_SUFFIX f32
#define TX_T float
#define TX_BITS_T uint32_t
#define TX_M(name) name##f
#define TX_FLOATING 1
#include "prelude.h"
#define TX_SUFFIX f64
#define TX_T double
#define TX_BITS_T uint64_t
#define TX_M(name) name
#define TX_FLOATING 1
#include "prelude.h"

/* ---- complex numbers ---- */
#define TX_SUFFIX c64
#define TX_T tx_c64
#define TX_R float
#define TX_C float _Complex
#define TX_BITS_T uint32_t
#define TX_M(name) name##f
#define TX_RN(name) name##_f32
#define TX_COMPLEX 1
#include "prelude.h"
#define TX_SUFFIX c128
#define TX_T tx_c128
#define TX_R double
#define TX_C double _Complex
#define TX_BITS_T uint64_t
#define TX_M(name) name
#define TX_RN(name) name##_f64
#define TX_COMPLEX 1
#include "prelude.h"

#else /* one dtype */

#define TX_CAT2(a, b) a##_##b
#define TX_CAT(a, b) TX_CAT2(a, b)
#define TX_N(name) TX_CAT(name, TX_SUFFIX)

#if defined(TX_FLOATING)

TX_INLINE int TX_N(ISNAN)(TX_T x) { return x != x; }
TX_INLINE TX_T TX_N(ABS)(TX_T x) { return TX_M(__builtin_fabs)(x); }
TX_INLINE int TX_N(ISINF)(TX_T x) { return TX_N(ABS)(x) == (TX_T)INFINITY; }
TX_INLINE int TX_N(ISFINITE)(TX_T x) { return TX_N(ABS)(x) < (TX_T)INFINITY; }
TX_INLINE int TX_N(SIGNBIT)(TX_T x)
{
    TX_BITS_T u;
    memcpy(&u, &x, sizeof u);
    return (int)(u >> (8 * sizeof u - 1));
}
TX_INLINE TX_T TX_N(COPYSIGN)(TX_T x, TX_T y) { return TX_M(__builtin_copysign)(x, y); }
TX_INLINE TX_T TX_N(SIGN)(TX_T x) { return x == x ? (TX_T)((x > 0) - (x < 0)) : x; }
TX_INLINE TX_T TX_N(SQUARE)(TX_T x) { return x * x; }
/* Two selects rather than one on a joint condition: gcc gives up on those where they are nested. */
TX_INLINE TX_T TX_N(MAX)(TX_T x, TX_T y)
{
    TX_T m = x > y ? x : y;
    return x != x ? x : m;
}
TX_INLINE TX_T TX_N(MIN)(TX_T x, TX_T y)
{
    TX_T m = x < y ? x : y;
    return x != x ? x : m;
}
TX_INLINE TX_T TX_N(FMAX)(TX_T x, TX_T y) { return ((x >= y) | (y != y)) ? x : y; }
TX_INLINE TX_T TX_N(FMIN)(TX_T x, TX_T y) { return ((x <= y) | (y != y)) ? x : y; }
TX_INLINE TX_T TX_N(SQRT)(TX_T x) { return TX_M(__builtin_sqrt)(x); }
TX_INLINE TX_T TX_N(RSQRT)(TX_T x) { return (TX_T)1 / TX_N(SQRT)(x); }
TX_INLINE TX_T TX_N(CEIL)(TX_T x) { return TX_M(__builtin_ceil)(x); }
TX_INLINE TX_T TX_N(FLOOR)(TX_T x) { return TX_M(__builtin_floor)(x); }
TX_INLINE TX_T TX_N(TRUNC)(TX_T x) { return TX_M(__builtin_trunc)(x); }
TX_INLINE TX_T TX_N(RINT)(TX_T x) { return TX_M(__builtin_rint)(x); }
/* Neighbours of one sign are neighbours as integers. */
TX_INLINE TX_T TX_N(NEXTAFTER)(TX_T x, TX_T y)
{
    TX_BITS_T u, one = 1;
    TX_T r, tiny;
    memcpy(&u, &x, sizeof u);
    u = (x < y) == (x > 0) ? u + 1 : u - 1;
    memcpy(&r, &u, sizeof u);
    memcpy(&tiny, &one, sizeof one);
    r = x == 0 ? TX_N(COPYSIGN)(tiny, y) : r;
    r = x == y ? y : r;
    return ((x != x) | (y != y)) ? x + y : r;
}
TX_INLINE TX_T TX_N(MULG)(TX_T g, TX_T f)
{
    TX_T p = g * f;
    return ((g == 0) & !(TX_N(ABS)(f) < (TX_T)INFINITY)) ? (TX_T)0 : p;
}
TX_INLINE TX_T TX_N(CONJ)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(REAL)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(IMAG)(TX_T x) { return (void)x, (TX_T)0; }

#define TX_FUNC1(NAME, name) TX_INLINE TX_T TX_N(NAME)(TX_T x) { return TX_M(tx_##name)(x); }
#define TX_FUNC2(NAME, name) TX_INLINE TX_T TX_N(NAME)(TX_T x, TX_T y) { return TX_M(tx_##name)(x, y); }
TX_FUNC1(EXP, exp)
TX_FUNC1(EXP2, exp2)
TX_FUNC1(EXPM1, expm1)
TX_FUNC1(LOG, log)
TX_FUNC1(LOG2, log2)
TX_FUNC1(LOG10, log10)
TX_FUNC1(LOG1P, log1p)
TX_FUNC1(SIN, sin)
TX_FUNC1(COS, cos)
TX_FUNC1(TAN, tan)
TX_FUNC1(ASIN, asin)
TX_FUNC1(ACOS, acos)
TX_FUNC1(ATAN, atan)
TX_FUNC1(SINH, sinh)
TX_FUNC1(COSH, cosh)
TX_FUNC1(TANH, tanh)
TX_FUNC1(ASINH, asinh)
TX_FUNC1(ACOSH, acosh)
TX_FUNC1(ATANH, atanh)
TX_FUNC1(SIGMOID, sigmoid)
TX_FUNC1(ERF, erf)
TX_FUNC1(ERFC, erfc)
TX_FUNC1(ERFINV, erfinv)
TX_FUNC1(CBRT, cbrt)
TX_FUNC1(LGAMMA, lgamma)
TX_FUNC1(DIGAMMA, digamma)
TX_FUNC2(ATAN2, atan2)
TX_FUNC2(HYPOT, hypot)
TX_FUNC2(POW, pow)
#undef TX_FUNC1
#undef TX_FUNC2
TX_INLINE TX_T TX_N(POLYGAMMA)(TX_T n, TX_T x) { return (TX_T)tx_polygamma((double)n, (double)x); }

#elif defined(TX_COMPLEX)

TX_INLINE TX_C TX_N(tx_to)(TX_T x)
{
    TX_C c;
    memcpy(&c, &x, sizeof c);
    return c;
}
TX_INLINE TX_T TX_N(tx_from)(TX_C c)
{
    TX_T x;
    memcpy(&x, &c, sizeof x);
    return x;
}
TX_INLINE TX_T TX_N(tx_make)(TX_R re, TX_R im)
{
    TX_T x;
    x.re = re;
    x.im = im;
    return x;
}
/* Arithmetic; the generator writes operators on complex operands as these calls. */
TX_INLINE TX_T TX_N(ADD)(TX_T x, TX_T y) { return TX_N(tx_make)(x.re + y.re, x.im + y.im); }
TX_INLINE TX_T TX_N(SUB)(TX_T x, TX_T y) { return TX_N(tx_make)(x.re - y.re, x.im - y.im); }
TX_INLINE TX_T TX_N(NEG)(TX_T x) { return TX_N(tx_make)(-x.re, -x.im); }
/* -r by its sign bit.  From a difference beside a sum gcc 12 makes fused fmaddsub instructions whatever
 * -ffp-contract says, in whole vectors only, so that a loop and its tail would differ. */
TX_INLINE TX_R TX_N(tx_minus)(TX_R r)
{
    TX_BITS_T u;
    memcpy(&u, &r, sizeof u);
    u ^= (TX_BITS_T)1 << (8 * sizeof u - 1);
    memcpy(&r, &u, sizeof u);
    return r;
}
TX_INLINE TX_T TX_N(MUL)(TX_T x, TX_T y)
{
    return TX_N(tx_make)(x.re * y.re + TX_N(tx_minus)(x.im * y.im), x.re * y.im + x.im * y.re);
}
/* Smith's algorithm: no overflow where the quotient has none. */
TX_INLINE TX_T TX_N(DIV)(TX_T x, TX_T y)
{
    TX_R a = TX_RN(ABS)(y.re), b = TX_RN(ABS)(y.im);
    if (a == 0 && b == 0) return TX_N(tx_make)(x.re / a, x.im / a);
    if (a >= b) {
        TX_R r = y.im / y.re, s = 1 / (y.re + y.im * r);
        return TX_N(tx_make)((x.re + x.im * r) * s, (x.im + TX_N(tx_minus)(x.re * r)) * s);
    }
    TX_R r = y.re / y.im, s = 1 / (y.re * r + y.im);
    return TX_N(tx_make)((x.re * r + x.im) * s, (x.im * r + TX_N(tx_minus)(x.re)) * s);
}
/* With one real operand, which must not bring in an imaginary zero: inf * (0 + 0j) is NaN. */
TX_INLINE TX_T TX_N(ADDR)(TX_T x, TX_R r) { return TX_N(tx_make)(x.re + r, x.im); }
TX_INLINE TX_T TX_N(SUBR)(TX_T x, TX_R r) { return TX_N(tx_make)(x.re - r, x.im); }
TX_INLINE TX_T TX_N(RSUB)(TX_R r, TX_T x) { return TX_N(tx_make)(r - x.re, -x.im); }
TX_INLINE TX_T TX_N(MULR)(TX_T x, TX_R r) { return TX_N(tx_make)(x.re * r, x.im * r); }
TX_INLINE TX_T TX_N(DIVR)(TX_T x, TX_R r) { return TX_N(tx_make)(x.re / r, x.im / r); }
TX_INLINE TX_T TX_N(RDIV)(TX_R r, TX_T x) { return TX_N(DIV)(TX_N(tx_make)(r, 0), x); }
TX_INLINE int TX_N(EQ)(TX_T x, TX_T y) { return (x.re == y.re) & (x.im == y.im); }

TX_INLINE int TX_N(ISNAN)(TX_T x) { return (x.re != x.re) | (x.im != x.im); }
TX_INLINE int TX_N(ISINF)(TX_T x) { return TX_RN(ISINF)(x.re) | TX_RN(ISINF)(x.im); }
TX_INLINE int TX_N(ISFINITE)(TX_T x) { return TX_RN(ISFINITE)(x.re) & TX_RN(ISFINITE)(x.im); }
TX_INLINE TX_R TX_N(ABS)(TX_T x) { return TX_RN(HYPOT)(x.re, x.im); }
TX_INLINE TX_T TX_N(CONJ)(TX_T x) { return TX_N(tx_make)(x.re, -x.im); }
TX_INLINE TX_R TX_N(REAL)(TX_T x) { return x.re; }
TX_INLINE TX_R TX_N(IMAG)(TX_T x) { return x.im; }
TX_INLINE TX_R TX_N(ATAN2)(TX_R y, TX_R x) { return TX_RN(ATAN2)(y, x); }
TX_INLINE TX_T TX_N(RINT)(TX_T x) { return TX_N(tx_make)(TX_RN(RINT)(x.re), TX_RN(RINT)(x.im)); }
TX_INLINE TX_T TX_N(SQUARE)(TX_T x) { return TX_N(MUL)(x, x); }
TX_INLINE TX_T TX_N(SIGN)(TX_T x)
{
    TX_R a = TX_N(ABS)(x);
    if (a == (TX_R)INFINITY) { /* one infinite part outweighs a finite one; two have no direction */
        int re = TX_RN(ISINF)(x.re), im = TX_RN(ISINF)(x.im);
        a = ((re & im) | TX_N(ISNAN)(x)) ? (TX_R)NAN : 1;
        x = TX_N(tx_make)(re ? TX_RN(COPYSIGN)(1, x.re) : 0 * x.re, im ? TX_RN(COPYSIGN)(1, x.im) : 0 * x.im);
    }
    return a == 0 ? TX_N(tx_make)(0, 0) : TX_N(tx_make)(x.re / a, x.im / a);
}
TX_INLINE TX_T TX_N(MULG)(TX_T g, TX_T f)
{
    int zero = (g.re == 0) & (g.im == 0) & !TX_N(ISFINITE)(f);
    TX_T p = TX_N(MUL)(g, f);
    return zero ? TX_N(tx_make)(0, 0) : p;
}
/* One copy of each function per translation unit: they are far too large to inline. */
#define TX_FUNC(NAME, name)                                                          \
    static __attribute__((noinline, unused)) TX_T TX_N(NAME)(TX_T x)                 \
    {                                                                                \
        return TX_N(tx_from)(TX_M(name)(TX_N(tx_to)(x)));                            \
    }
TX_FUNC(SQRT, csqrt)
TX_FUNC(EXP, cexp)
TX_FUNC(LOG, clog)
TX_FUNC(SIN, csin)
TX_FUNC(COS, ccos)
TX_FUNC(TAN, ctan)
TX_FUNC(ASIN, casin)
TX_FUNC(ACOS, cacos)
TX_FUNC(ATAN, catan)
TX_FUNC(SINH, csinh)
TX_FUNC(COSH, ccosh)
TX_FUNC(TANH, ctanh)
TX_FUNC(ASINH, casinh)
TX_FUNC(ACOSH, cacosh)
TX_FUNC(ATANH, catanh)
#undef TX_FUNC
TX_INLINE TX_T TX_N(RSQRT)(TX_T x) { return TX_N(RDIV)(1, TX_N(SQRT)(x)); }
TX_INLINE TX_T TX_N(LOG2)(TX_T x) { return TX_N(MULR)(TX_N(LOG)(x), (TX_R)1.4426950408889634); }
TX_INLINE TX_T TX_N(LOG10)(TX_T x) { return TX_N(MULR)(TX_N(LOG)(x), (TX_R)0.4342944819032518); }
/* log|1 + x| = log1p(re (re + 2) + im^2) / 2, in double so that the sum keeps its digits; where it
 * nears -1, and where squares would overflow, the logarithm of the modulus. */
static __attribute__((noinline, unused)) TX_T TX_N(LOG1P)(TX_T x)
{
    double re = (double)x.re, im = (double)x.im, u = re + 1.0, s = u * u + im * im;
    double m = s > 0.5 && s < 1e200 ? 0.5 * log1p(re * (re + 2.0) + im * im) : log(hypot(u, im));
    return TX_N(tx_make)((TX_R)m, (TX_R)atan2(im, u));
}
/* e^re cos(im) - 1 = expm1(re) cos(im) - 2 sin(im / 2)^2 */
static __attribute__((noinline, unused)) TX_T TX_N(EXPM1)(TX_T x)
{
    TX_T e = TX_N(EXP)(x);
    double re = (double)x.re, im = (double)x.im, s;
    if (im == 0) return TX_N(tx_make)((TX_R)expm1(re), x.im);
    if (!(fabs(re) < 700.0 && fabs(im) < 1e300)) return TX_N(tx_make)(e.re - 1, e.im);
    s = sin(0.5 * im);
    return TX_N(tx_make)((TX_R)(expm1(re) * cos(im) - 2.0 * s * s), e.im);
}
/* Small whole powers by squaring: exact where the products are, as for real numbers. */
static __attribute__((noinline, unused)) TX_T TX_N(POW)(TX_T x, TX_T y)
{
    if (y.re == 0 && y.im == 0) return TX_N(tx_make)(1, 0);
    if (x.re == 0 && x.im == 0) {
        if (y.re > 0) return TX_N(tx_make)(0, 0);
        return TX_N(tx_make)((TX_R)NAN, (TX_R)NAN);
    }
    if (y.im == 0 && TX_RN(ABS)(y.re) <= 64 && y.re == TX_RN(FLOOR)(y.re)) {
        int n = (int)TX_RN(ABS)(y.re), started = 0;
        TX_T r = TX_N(tx_make)(1, 0), b = x;
        for (; n; n >>= 1) {
            if (n & 1) {
                r = started ? TX_N(MUL)(r, b) : b;
                started = 1;
            }
            if (n > 1) b = TX_N(MUL)(b, b);
        }
        return y.re < 0 ? TX_N(RDIV)(1, r) : r;
    }
    return TX_N(tx_from)((TX_C)cpow((double _Complex)TX_N(tx_to)(x), (double _Complex)TX_N(tx_to)(y)));
}

#else /* integers and booleans */

#define TX_WIDTH ((int)(8 * sizeof(TX_T)))
TX_INLINE int TX_N(ISNAN)(TX_T x) { return (void)x, 0; }
TX_INLINE int TX_N(ISINF)(TX_T x) { return (void)x, 0; }
TX_INLINE int TX_N(ISFINITE)(TX_T x) { return (void)x, 1; }
TX_INLINE TX_T TX_N(MAX)(TX_T x, TX_T y) { return x > y ? x : y; }
TX_INLINE TX_T TX_N(MIN)(TX_T x, TX_T y) { return x < y ? x : y; }
TX_INLINE TX_T TX_N(FMAX)(TX_T x, TX_T y) { return x > y ? x : y; }
TX_INLINE TX_T TX_N(FMIN)(TX_T x, TX_T y) { return x < y ? x : y; }
TX_INLINE TX_T TX_N(CEIL)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(FLOOR)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(TRUNC)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(RINT)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(CONJ)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(REAL)(TX_T x) { return x; }
TX_INLINE TX_T TX_N(IMAG)(TX_T x) { return (void)x, (TX_T)0; }
TX_INLINE TX_T TX_N(BITAND)(TX_T x, TX_T y) { return (TX_T)(x & y); }
TX_INLINE TX_T TX_N(BITOR)(TX_T x, TX_T y) { return (TX_T)(x | y); }
TX_INLINE TX_T TX_N(BITXOR)(TX_T x, TX_T y) { return (TX_T)(x ^ y); }
#ifdef TX_BOOLEAN
TX_INLINE TX_T TX_N(BITNOT)(TX_T x) { return (TX_T)!x; }
#else
TX_INLINE TX_T TX_N(BITNOT)(TX_T x) { return (TX_T)~x; }
#endif
#if TX_SIGNED
#define TX_NEGATIVE(v) ((v) < 0)
#else
#define TX_NEGATIVE(v) ((void)(v), 0)
#endif
TX_INLINE TX_T TX_N(SIGN)(TX_T x) { return (TX_T)((x != 0) - 2 * TX_NEGATIVE(x)); }
TX_INLINE TX_T TX_N(ABS)(TX_T x) { return TX_NEGATIVE(x) ? (TX_T)(0 - (TX_U)x) : x; }
/* Division by zero gives 0.  Dividing by -1 is a negation, which wraps for the smallest value;
 * the machine instruction would trap. */
#if TX_SIGNED
#define TX_MINUS_ONE(y) ((y) == -1)
#define TX_FLOORED(r, y) (((r) != 0) & (((r) ^ (y)) < 0))
#else
#define TX_MINUS_ONE(y) ((void)(y), 0)
#define TX_FLOORED(r, y) ((void)(r), (void)(y), 0)
#endif
TX_INLINE TX_T TX_N(tx_divide)(TX_T x, TX_T y, TX_T *r)
{
    int plain = (y != 0) & !TX_MINUS_ONE(y);
    TX_T q = TX_CAT(tx_quotient, TX_SUFFIX)(x, plain ? y : (TX_T)1);
    *r = (TX_T)(plain ? (TX_U)x - (TX_U)q * (TX_U)y : 0);
    return (TX_T)(y == 0 ? 0 : TX_MINUS_ONE(y) ? 0 - (TX_U)x : (TX_U)q);
}
TX_INLINE TX_T TX_N(FLOORDIV)(TX_T x, TX_T y)
{
    TX_T r, q = TX_N(tx_divide)(x, y, &r);
    return (TX_T)(q - TX_FLOORED(r, y));
}
TX_INLINE TX_T TX_N(REM)(TX_T x, TX_T y)
{
    TX_T r;
    TX_N(tx_divide)(x, y, &r);
    return (TX_T)(TX_FLOORED(r, y) ? r + y : r);
}
TX_INLINE TX_T TX_N(FMOD)(TX_T x, TX_T y)
{
    TX_T r;
    TX_N(tx_divide)(x, y, &r);
    return r;
}
#undef TX_MINUS_ONE
#undef TX_FLOORED
TX_INLINE TX_T TX_N(SHL)(TX_T x, TX_T y)
{
    int ok = !TX_NEGATIVE(y) & (y < (TX_T)TX_WIDTH);
    return (TX_T)(ok ? (TX_U)x << (y & (TX_WIDTH - 1)) : 0);
}
TX_INLINE TX_T TX_N(SHR)(TX_T x, TX_T y)
{
    TX_T big = (TX_T)(TX_NEGATIVE(x) ? -1 : 0);
    TX_T r = (TX_T)(y < (TX_T)TX_WIDTH ? x >> (y & (TX_WIDTH - 1)) : big);
    return (TX_T)(TX_NEGATIVE(y) ? 0 : r);
}
/* Wraps.  A negative power is 0, or 1 or -1 where that is exact. */
TX_INLINE TX_T TX_N(POW)(TX_T x, TX_T y)
{
    TX_U r = 1, b = (TX_U)x;
    if (TX_NEGATIVE(y)) return (TX_T)(x == 1 ? 1 : x == (TX_T)-1 ? ((y & 1) ? -1 : 1) : 0);
    for (TX_U n = (TX_U)y; n; n = (TX_U)(n >> 1)) {
        if (n & 1) r = (TX_U)(r * b);
        b = (TX_U)(b * b);
    }
    return (TX_T)r;
}
TX_INLINE TX_U TX_N(tx_gcd)(TX_T x, TX_T y)
{
    TX_U a = (TX_U)TX_N(ABS)(x), b = (TX_U)TX_N(ABS)(y);
    while (b) {
        TX_U t = (TX_U)(a % b);
        a = b;
        b = t;
    }
    return a;
}
TX_INLINE TX_T TX_N(GCD)(TX_T x, TX_T y) { return (TX_T)TX_N(tx_gcd)(x, y); }
TX_INLINE TX_T TX_N(LCM)(TX_T x, TX_T y)
{
    TX_U g = TX_N(tx_gcd)(x, y);
    return (TX_T)(g ? (TX_U)((TX_U)TX_N(ABS)(x) / g * (TX_U)TX_N(ABS)(y)) : 0);
}
#undef TX_NEGATIVE
#undef TX_WIDTH

#endif

#undef TX_CAT2
#undef TX_CAT
#undef TX_N
#undef TX_SUFFIX
#undef TX_T
#undef TX_U
#undef TX_SIGNED
#undef TX_BOOLEAN
#undef TX_BITS_T
#undef TX_M
#undef TX_R
#undef TX_RN
#undef TX_C
#undef TX_FLOATING
#undef TX_COMPLEX

#endif
