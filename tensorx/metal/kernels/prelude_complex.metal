// complex64 as float2 (x real, y imaginary). A function of the row language is C and its name here, and so
// are the operators on complex operands: CADD CSUB CMUL CDIV CNEG CEQ, with an R on the side where one operand
// is real. A real operand must not bring in an imaginary zero: inf * (0 + 0j) is NaN.
//
// Largest errors seen, in units of the last place of the modulus: sqrt exp log log1p 2.7, sin cos sinh cosh 2.6, the
// inverse functions 2.8, expm1 3.4, tan tanh 4.2, division 3.1, pow 21 (it goes through y log x in float).

inline float2 CADD(float2 a, float2 b) { return float2(a.x + b.x, a.y + b.y); }
inline float2 CSUB(float2 a, float2 b) { return float2(a.x - b.x, a.y - b.y); }
inline float2 CNEG(float2 a) { return float2(-a.x, -a.y); }
inline float2 CMUL(float2 a, float2 b)
{
    float p = a.x * b.x;
    float q = a.y * b.y;
    float r = a.x * b.y;
    float s = a.y * b.x;
    return float2(p - q, r + s);
}
// Smith's algorithm: no overflow where the quotient has none
inline float2 CDIV(float2 a, float2 b)
{
    float p = ABS(b.x);
    float q = ABS(b.y);
    if (p == 0.0f && q == 0.0f)
        return float2(a.x / p, a.y / p);
    bool wide = p >= q;
    float r = wide ? b.y / b.x : b.x / b.y;
    float m = wide ? b.y * r : b.x * r;
    float s = 1.0f / (wide ? b.x + m : m + b.y);
    float u = wide ? a.y * r : a.x * r;
    float v = wide ? a.x * r : a.y * r;
    float re = wide ? a.x + u : u + a.y;
    float im = wide ? a.y - v : v - a.x;
    return float2(re * s, im * s);
}
inline float2 CADDR(float2 a, float r) { return float2(a.x + r, a.y); }
inline float2 CSUBR(float2 a, float r) { return float2(a.x - r, a.y); }
inline float2 CRSUB(float r, float2 a) { return float2(r - a.x, -a.y); }
inline float2 CMULR(float2 a, float r) { return float2(a.x * r, a.y * r); }
inline float2 CDIVR(float2 a, float r) { return float2(a.x / r, a.y / r); }
inline float2 CRDIV(float r, float2 a) { return CDIV(float2(r, 0.0f), a); }
inline bool CEQ(float2 a, float2 b) { return a.x == b.x && a.y == b.y; }

inline bool CISNAN(float2 z) { return ISNAN(z.x) || ISNAN(z.y); }
inline bool CISINF(float2 z) { return ISINF(z.x) || ISINF(z.y); }
inline bool CISFINITE(float2 z) { return ISFINITE(z.x) && ISFINITE(z.y); }
inline float CABS(float2 z) { return HYPOT(z.x, z.y); }
inline float2 CCONJ(float2 z) { return float2(z.x, -z.y); }
inline float CREAL(float2 z) { return z.x; }
inline float CIMAG(float2 z) { return z.y; }
inline float2 CRINT(float2 z) { return float2(rint(z.x), rint(z.y)); }
inline float2 CSQUARE(float2 z) { return CMUL(z, z); }
inline float2 CSIGN(float2 z)
{
    float a = CABS(z);
    if (ISINF(a)) { // one infinite part outweighs a finite one; two have no direction
        bool re = ISINF(z.x);
        bool im = ISINF(z.y);
        a = (re && im) || CISNAN(z) ? NAN : 1.0f;
        z = float2(re ? COPYSIGN(1.0f, z.x) : 0.0f * z.x, im ? COPYSIGN(1.0f, z.y) : 0.0f * z.y);
    }
    return a == 0.0f ? float2(0.0f, 0.0f) : float2(z.x / a, z.y / a);
}
inline float2 CMULG(float2 g, float2 f)
{
    float2 p = CMUL(g, f);
    return g.x == 0.0f && g.y == 0.0f && !CISFINITE(f) ? float2(0.0f, 0.0f) : p;
}
inline float2 CSQRT(float2 z)
{
    float a = ABS(z.x);
    float b = ABS(z.y);
    if (b == INFINITY)
        return float2(INFINITY, z.y);
    if (a == INFINITY && z.x < 0.0f)
        return float2(ISNAN(z.y) ? z.y : 0.0f, COPYSIGN(INFINITY, z.y));
    if (a == INFINITY)
        return float2(INFINITY, ISNAN(z.y) ? z.y : COPYSIGN(0.0f, z.y));
    if (a == 0.0f && b == 0.0f)
        return float2(0.0f, z.y);
    float m = a > b ? a : b;
    float up = m > 1.2676506e+30f ? 5.421011e-20f : m < 8.271806e-25f ? 1.8446744e+19f : 1.0f;
    float down = m > 1.2676506e+30f ? 4.2949673e+09f : m < 8.271806e-25f ? 2.3283064e-10f : 1.0f;
    float p = a * up;
    float q = b * up;
    float t = SQRT(0.5f * (p + HYPOT(p, q)));
    float u = q / (t + t);
    t = t * down;
    u = u * down;
    return z.x < 0.0f ? float2(u, COPYSIGN(t, z.y)) : float2(t, COPYSIGN(u, z.y));
}
inline float2 CRSQRT(float2 z) { return CRDIV(1.0f, CSQRT(z)); }
inline float2 CEXP(float2 z)
{
    if (z.y == 0.0f)
        return float2(EXP(z.x), z.y);
    if (!ISFINITE(z.y) && ISINF(z.x))
        return z.x < 0.0f ? float2(0.0f, 0.0f) : float2(INFINITY, NAN);
    bool big = z.x > 88.0f; // the factor may overflow where the result does not
    float e = EXP(big ? 0.5f * z.x : z.x);
    float re = e * COS(z.y);
    float im = e * SIN(z.y);
    return big ? float2(re * e, im * e) : float2(re, im);
}
// log(hypot(x, y))
inline float log_abs(float x, float y)
{
    float a = ABS(x);
    float b = ABS(y);
    float m = a > b ? a : b;
    float n = a > b ? b : a;
    float h = HYPOT(m, n);
    if (!(h > 0.5f && h < 2.0f))
        return LOG(h) + (m > 1e38f && h == INFINITY && ISFINITE(m) ? 88.722839f - LOG(h) : 0.0f);
    // (m - 1)(m + 1) + n^2 without cancellation
    float2 p = two_prod(m - 1.0f, m + 1.0f);
    float2 t = two_sum(m, 1.0f);
    p.y = fma(m - 1.0f, t.y, p.y);
    float2 q = two_prod(n, n);
    float2 s = two_sum(p.x, q.x);
    return 0.5f * LOG1P(s.x + (s.y + (p.y + q.y)));
}
inline float2 CLOG(float2 z) { return float2(log_abs(z.x, z.y), ATAN2(z.y, z.x)); }
inline float2 CLOG2(float2 z) { return CMULR(CLOG(z), 1.442695f); }
inline float2 CLOG10(float2 z) { return CMULR(CLOG(z), 0.4342945f); }
inline float2 CLOG1P(float2 z)
{
    float u = 1.0f + z.x;
    float im = ATAN2(z.y, u);
    bool exact = z.x < -0.5f && z.x > -2.0f; // then u is
    if (exact || !(ABS(z.x) < 1e3f && ABS(z.y) < 1e3f))
        return float2(log_abs(u, z.y), im);
    float2 p = two_prod(z.x, z.x);
    float2 q = two_prod(z.y, z.y);
    float2 s = two_sum(z.x + z.x, p.x);
    float2 t = two_sum(s.x, q.x);
    return float2(0.5f * LOG1P(t.x + (t.y + (s.y + (p.y + q.y)))), im);
}
// e^re cos(im) - 1 = expm1(re) cos(im) - 2 sin(im / 2)^2
inline float2 CEXPM1(float2 z)
{
    float2 e = CEXP(z);
    float m = EXPM1(z.x);
    if (z.y == 0.0f)
        return float2(m, z.y);
    if (!(ABS(z.x) < 80.0f && ISFINITE(z.y)))
        return float2(e.x - 1.0f, e.y);
    float s = SIN(0.5f * z.y);
    float2 p = two_prod(m, COS(z.y));
    float2 q = two_prod(s, -2.0f * s);
    float2 r = two_sum(p.x, q.x);
    return float2(r.x + (r.y + (p.y + q.y)), e.y);
}
// cosh and sinh of x times c and s, where the products do not overflow before the result does
inline float2 cosh_sinh_times(float x, float c, float s)
{
    float a = ABS(x);
    if (a < 80.0f || !(a < 200.0f))
        return float2(COSH(x) * c, SINH(x) * s);
    float h = EXP(0.5f * a);
    float hc = (0.5f * h) * c;
    float hs = (0.5f * h) * s;
    return float2(hc * h, COPYSIGN(1.0f, x) * (hs * h));
}
inline float2 CCOSH(float2 z)
{
    if (z.y == 0.0f)
        return float2(COSH(z.x), COPYSIGN(1.0f, z.x) * z.y);
    if (z.x == 0.0f)
        return float2(COS(z.y), ISFINITE(z.y) ? z.x * SIN(z.y) : z.x);
    return cosh_sinh_times(z.x, COS(z.y), SIN(z.y));
}
inline float2 CSINH(float2 z)
{
    if (z.y == 0.0f)
        return float2(SINH(z.x), z.y);
    if (z.x == 0.0f)
        return float2(z.x, SIN(z.y));
    float2 r = cosh_sinh_times(z.x, SIN(z.y), COS(z.y));
    return float2(r.y, r.x);
}
inline float2 CTANH(float2 z)
{
    if (z.y == 0.0f)
        return float2(TANH(z.x), z.y);
    if (ABS(z.x) > 11.0f) {
        float e = EXP(-2.0f * ABS(z.x));
        float s = ISFINITE(z.y) ? SIN(z.y + z.y) : 1.0f;
        return float2(COPYSIGN(1.0f, z.x), (4.0f * s) * e);
    }
    float t = TAN(z.y);
    float b = fma(t, t, 1.0f);
    float s = SINH(z.x);
    float r = SQRT(fma(s, s, 1.0f));
    float bs = b * s;
    float d = fma(bs, s, 1.0f);
    return ISINF(t) ? float2(r / s, 1.0f / t) : float2(bs * r / d, t / d);
}
inline float2 CSIN(float2 z)
{
    float2 r = CSINH(float2(-z.y, z.x));
    return float2(r.y, -r.x);
}
inline float2 CCOS(float2 z) { return CCOSH(float2(-z.y, z.x)); }
inline float2 CTAN(float2 z)
{
    float2 r = CTANH(float2(-z.y, z.x));
    return float2(r.y, -r.x);
}
// a b - c d to nearly full precision
inline float difference_of_products(float a, float b, float c, float d)
{
    float2 p = two_prod(a, b);
    float2 q = two_prod(c, d);
    float2 r = two_sum(p.x, -q.x);
    return r.x + (r.y + (p.y - q.y));
}
// Kahan's formulas, which keep the branch cuts and the signs of zeros
inline float2 CASIN(float2 z)
{
    if (CISINF(z))
        return float2(COPYSIGN(ATAN2(ABS(z.x), ABS(z.y)), z.x), COPYSIGN(INFINITY, z.y));
    float2 s = CSQRT(float2(1.0f - z.x, -z.y));
    float2 t = CSQRT(float2(1.0f + z.x, z.y));
    return float2(ATAN2(z.x, difference_of_products(s.x, t.x, s.y, t.y)),
                  ASINH(difference_of_products(s.x, t.y, s.y, t.x)));
}
inline float2 CACOS(float2 z)
{
    if (CISINF(z))
        return float2(ATAN2(ABS(z.y), z.x), COPYSIGN(INFINITY, -z.y));
    float2 s = CSQRT(float2(1.0f - z.x, -z.y));
    float2 t = CSQRT(float2(1.0f + z.x, z.y));
    return float2(2.0f * ATAN2(s.x, t.x), ASINH(difference_of_products(t.x, s.y, t.y, s.x)));
}
inline float2 CASINH(float2 z)
{
    float2 r = CASIN(float2(-z.y, z.x));
    return float2(r.y, -r.x);
}
inline float2 CACOSH(float2 z)
{
    if (CISINF(z))
        return float2(INFINITY, ATAN2(z.y, z.x));
    float2 s = CSQRT(float2(z.x - 1.0f, z.y));
    float2 t = CSQRT(float2(z.x + 1.0f, z.y));
    return float2(ASINH(difference_of_products(s.x, t.x, -s.y, t.y)), 2.0f * ATAN2(s.y, t.x));
}
inline float2 CATANH(float2 z)
{
    float a = CABS(z);
    if (a > 1e7f) {
        float re = a == INFINITY ? COPYSIGN(0.0f, z.x) : (z.x / a) / a;
        return float2(re, COPYSIGN(1.5707964f, z.y));
    }
    float x = ABS(z.x);
    float u = 1.0f - x;
    float d = fma(u, u, z.y * z.y);
    float re = 0.25f * LOG1P(4.0f * x / d);
    float2 p = two_prod(u, 1.0f + x); // (1 - x)(1 + x) - y^2 without cancellation
    float2 t = two_sum(1.0f, x);
    float2 v = two_sum(1.0f, -x);
    float2 q = two_prod(z.y, z.y);
    float2 r = two_sum(p.x, -q.x);
    float e = r.x + (r.y + (p.y + (u * t.y + v.y * t.x) - q.y));
    return float2(COPYSIGN(re, z.x), 0.5f * ATAN2(z.y + z.y, e));
}
inline float2 CATAN(float2 z)
{
    float2 r = CATANH(float2(-z.y, z.x));
    return float2(r.y, -r.x);
}
// small whole powers by squaring, as for real numbers; the others by exp(y log x)
inline float2 CPOW(float2 x, float2 y)
{
    if (y.x == 0.0f && y.y == 0.0f)
        return float2(1.0f, 0.0f);
    if (x.x == 0.0f && x.y == 0.0f)
        return y.x > 0.0f ? float2(0.0f, 0.0f) : float2(NAN, NAN);
    if (y.y == 0.0f && ABS(y.x) <= 64.0f && y.x == floor(y.x)) {
        float2 r = float2(1.0f, 0.0f);
        float2 b = x;
        bool started = false;
        for (uint n = uint(ABS(y.x)); n != 0u; n >>= 1) {
            if ((n & 1u) != 0u) {
                r = started ? CMUL(r, b) : b;
                started = true;
            }
            if (n > 1u)
                b = CMUL(b, b);
        }
        return y.x < 0.0f ? CRDIV(1.0f, r) : r;
    }
    float l = log_abs(x.x, x.y);
    float t = ATAN2(x.y, x.x);
    float re = difference_of_products(y.x, l, y.y, t);
    float im = difference_of_products(y.x, t, -y.y, l);
    return CEXP(float2(re, im));
}
