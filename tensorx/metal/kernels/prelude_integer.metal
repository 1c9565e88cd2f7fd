// The op table's prelude for one integer type: T, its unsigned twin U, the unsigned type W of at least
// 32 bits in which products wrap, its number of bits BITS. Signed overflow is undefined, so sums and
// products go through unsigned types.

inline bool negative(${T} x) { return $NEGATIVE; }
inline bool ISNAN(${T}) { return false; }
inline bool ISINF(${T}) { return false; }
inline bool ISFINITE(${T}) { return true; }
inline ${T} MAX(${T} x, ${T} y) { return x > y ? x : y; }
inline ${T} MIN(${T} x, ${T} y) { return x < y ? x : y; }
inline ${T} FMAX(${T} x, ${T} y) { return x > y ? x : y; }
inline ${T} FMIN(${T} x, ${T} y) { return x < y ? x : y; }
inline ${T} CEIL(${T} x) { return x; }
inline ${T} FLOOR(${T} x) { return x; }
inline ${T} TRUNC(${T} x) { return x; }
inline ${T} RINT(${T} x) { return x; }
inline ${T} CONJ(${T} x) { return x; }
inline ${T} REAL(${T} x) { return x; }
inline ${T} IMAG(${T}) { return ${T}(0); }
inline ${T} SQUARE(${T} x) { return ${T}(${W}(x) * ${W}(x)); }
inline ${T} BITAND(${T} x, ${T} y) { return ${T}(x & y); }
inline ${T} BITOR(${T} x, ${T} y) { return ${T}(x | y); }
inline ${T} BITXOR(${T} x, ${T} y) { return ${T}(x ^ y); }
inline ${T} BITNOT(${T} x) { return ${T}(~x); }
inline ${T} ABS(${T} x) { return negative(x) ? ${T}(${U}(0) - ${U}(x)) : x; }
inline ${T} SIGN(${T} x) { return negative(x) ? ${T}(-1) : ${T}(x != ${T}(0)); }

// Division by zero gives 0; the smallest value by -1 wraps.
inline ${T} FLOORDIV(${T} x, ${T} y)
{
    if (y == ${T}(0))
        return ${T}(0);
    if (negative(y) && ${T}(~y) == ${T}(0)) // y is -1
        return ${T}(${U}(0) - ${U}(x));
    ${T} q = ${T}(x / y);
    ${T} r = ${T}(x % y);
    return r != ${T}(0) && negative(r) != negative(y) ? ${T}(q - ${T}(1)) : q;
}
inline ${T} FMOD(${T} x, ${T} y)
{
    if (y == ${T}(0) || (negative(y) && ${T}(~y) == ${T}(0)))
        return ${T}(0);
    return ${T}(x % y);
}
inline ${T} REM(${T} x, ${T} y)
{
    ${T} r = FMOD(x, y); // of the other sign than y, so the sum cannot overflow
    return r != ${T}(0) && negative(r) != negative(y) ? ${T}(r + y) : r;
}
inline ${T} SHL(${T} x, ${T} y)
{
    bool ok = !negative(y) && y < ${T}($BITS);
    return ok ? ${T}(${U}(x) << ${U}(y)) : ${T}(0);
}
inline ${T} SHR(${T} x, ${T} y)
{
    ${T} far = negative(x) ? ${T}(-1) : ${T}(0);
    return negative(y) ? ${T}(0) : y < ${T}($BITS) ? ${T}(x >> y) : far;
}
// Wraps. A negative power is 0, or 1 or -1 where that is exact.
inline ${T} POW(${T} x, ${T} y)
{
    if (negative(y)) {
        ${T} odd = (y & ${T}(1)) != ${T}(0) ? x : ${T}(1);
        return x == ${T}(1) ? x : ${T}(~x) == ${T}(0) ? odd : ${T}(0);
    }
    ${W} r = ${W}(1);
    ${W} b = ${W}(x);
    for (${U} n = ${U}(y); n != ${U}(0); n = ${U}(n >> 1)) {
        if ((n & ${U}(1)) != ${U}(0))
            r = r * b;
        b = b * b;
    }
    return ${T}(r);
}
inline ${U} gcd_of(${T} x, ${T} y)
{
    ${U} a = ${U}(ABS(x));
    ${U} b = ${U}(ABS(y));
    while (b != ${U}(0)) {
        ${U} t = ${U}(a % b);
        a = b;
        b = t;
    }
    return a;
}
inline ${T} GCD(${T} x, ${T} y) { return ${T}(gcd_of(x, y)); }
inline ${T} LCM(${T} x, ${T} y)
{
    ${U} g = gcd_of(x, y);
    return g != ${U}(0) ? ${T}(${W}(${U}(ABS(x)) / g) * ${W}(${U}(ABS(y)))) : ${T}(0);
}
inline bool to_bool(${T} x) { return x != ${T}(0); }
