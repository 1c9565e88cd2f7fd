// Error and gamma functions in float. Largest errors seen, in units of the last place: erf 1.1, erfc 3.5, erfinv 4.0,
// lgamma of positive numbers 3.4, digamma of positive numbers 3.0; for negative numbers these two keep their absolute
// accuracy, but not their digits next to a zero.

inline float ERF(float x)
{
    float a = ABS(x);
    float z = a * a;
    float q = -0.0005970872f; // a < 0.921875: a + a (erf(a) / a - 1)
    q = fma(q, z, 0.0049895286f);
    q = fma(q, z, -0.026764404f);
    q = fma(q, z, 0.11281768f);
    q = fma(q, z, -0.37612492f);
    q = fma(q, z, 0.12837915f);
    float low = fma(q, a, a);
    float b = a > 4.0f ? 4.0f : a; // else 1 - exp(log erfc)
    float p = -4.9382907e-06f;
    p = fma(p, b, 4.557808e-05f);
    p = fma(p, b, 4.96032e-05f);
    p = fma(p, b, -0.0029301748f);
    p = fma(p, b, 0.022674099f);
    p = fma(p, b, -0.10526259f);
    p = fma(p, b, -0.63562536f);
    p = fma(p, b, -1.1285517f);
    float2 et = exp_core(p * b);
    float high = fma(-et.x, pow2_of(et.y), 1.0f);
    return ISNAN(x) || a == 0.0f ? x : COPYSIGN(a < 0.921875f ? low : high, x);
}
// erfc(a) for a >= 0: exp(-a^2) / (1 + 2 a) times a polynomial in (a - 2) / (a + 2)
inline float erfc_right(float a)
{
    float b = a > 10.5f ? 10.5f : a;
    float d = b + 2.0f;
    float q = (b - 2.0f) / d;
    float e = fma(-q, d, b - 2.0f) + q * (b - (d - 2.0f)) * -1.0f;
    q = q + e / d;
    float p = 2.9329614e-05f;
    p = fma(p, q, -0.0003606607f);
    p = fma(p, q, -0.00125554f);
    p = fma(p, q, 0.0012693937f);
    p = fma(p, q, 0.008639036f);
    p = fma(p, q, -0.008043218f);
    p = fma(p, q, -0.054205257f);
    p = fma(p, q, 0.16405298f);
    p = fma(p, q, -0.16603135f);
    p = fma(p, q, -0.09276389f);
    p = fma(p, q, 1.2769784f);
    float w = fma(2.0f, b, 1.0f);
    float r = p / w;
    r = r + fma(-r, w, p) / w;
    float2 s = two_prod(b, b);
    return r * exp_pair(-s.x, -s.y);
}
inline float ERFC(float x)
{
    float a = ABS(x);
    float r = erfc_right(a);
    float low = 1.0f - ERF(x);
    float v = x < 0.5f && x > -1.0f ? low : x < 0.0f ? 2.0f - r : r;
    return ISNAN(x) ? x : v;
}
// Giles' approximation, then a step of Halley on erf (central) or erfc (tails)
inline float ERFINV(float x)
{
    float a = ABS(x);
    float c = 1.0f - a;
    float w = -LOG(c * (1.0f + a));
    float v = w - 2.5f;
    float y = 2.81022636e-08f;
    y = fma(y, v, 3.43273939e-07f);
    y = fma(y, v, -3.5233877e-06f);
    y = fma(y, v, -4.39150654e-06f);
    y = fma(y, v, 0.00021858087f);
    y = fma(y, v, -0.00125372503f);
    y = fma(y, v, -0.00417768164f);
    y = fma(y, v, 0.246640727f);
    y = fma(y, v, 1.50140941f);
    float u = SQRT(w) - 3.0f;
    float t = -0.000200214257f;
    t = fma(t, u, 0.000100950558f);
    t = fma(t, u, 0.00134934322f);
    t = fma(t, u, -0.00367342844f);
    t = fma(t, u, 0.00573950773f);
    t = fma(t, u, -0.0076224613f);
    t = fma(t, u, 0.00943887047f);
    t = fma(t, u, 1.00167406f);
    t = fma(t, u, 2.83297682f);
    y = (w < 5.0f ? y : t) * a;
    float error = a < 0.5f ? ERF(y) - a : c - erfc_right(y);
    float2 yy = two_prod(y, y);
    float d = error * (0.88622693f * EXP(yy.x));
    y = y - d / (1.0f + y * d);
    y = a < 1e-4f ? a * 0.88622693f : y;
    y = a == 1.0f ? INFINITY : a > 1.0f ? NAN : y;
    return a == 0.0f || ISNAN(x) ? x : COPYSIGN(y, x);
}

// log |gamma(x)| for x > 0
inline float lgamma_right(float x)
{
    if (x < 0.0009765625f) // -log x - euler x
        return fma(-0.5772157f, x, -LOG(x));
    if (x >= 8.0f) {
        float i = 1.0f / x;
        float z = i * i;
        float s = 0.00079365079f;
        s = fma(s, z, -0.0027777778f);
        s = fma(s, z, 0.083333336f);
        float l = LOG(x);
        float r = fma(x - 0.5f, l, 0.9189385f - x);
        return x < 1e9f ? r + s * i : x * (l - 1.0f);
    }
    float y = x < 0.875f ? x + 1.0f : x;
    float r;
    bool down = y >= 3.0f && y < 4.0f; // by lgamma(y) = lgamma(y - 1) + log(y - 1)
    y = down ? y - 1.0f : y;
    if (y < 3.0f) {
        float t = y - 1.9375f;
        float p = -1.8646282e-05f;
        p = fma(p, t, 3.59899e-05f);
        p = fma(p, t, 2.0597554e-06f);
        p = fma(p, t, 5.9267068e-06f);
        p = fma(p, t, -0.0001378159f);
        p = fma(p, t, 0.0002779097f);
        p = fma(p, t, -0.0004965415f);
        p = fma(p, t, 0.0010968307f);
        p = fma(p, t, -0.0024907112f);
        p = fma(p, t, 0.0057183555f);
        p = fma(p, t, -0.013720527f);
        p = fma(p, t, 0.035409287f);
        p = fma(p, t, -0.10458811f);
        p = fma(p, t, 0.42918605f);
        float below = x < 0.875f ? x : y - 1.0f; // y - 1 without the rounding of x + 1
        float above = x < 0.875f ? x - 1.0f : y - 2.0f;
        r = p * (below * above);
        r = down ? r + LOG(y) : r;
    } else {
        float t = y - 5.25f;
        float p = -1.9008497e-09f;
        p = fma(p, t, 1.3316532e-08f);
        p = fma(p, t, -4.455402e-08f);
        p = fma(p, t, 2.5448858e-07f);
        p = fma(p, t, -1.9313507e-06f);
        p = fma(p, t, 1.3215146e-05f);
        p = fma(p, t, -9.4760704e-05f);
        p = fma(p, t, 0.00076074613f);
        p = fma(p, t, -0.007307084f);
        p = fma(p, t, 0.104880325f);
        p = fma(p, t, 1.5599773f);
        r = fma(p, t, 3.5613759f);
    }
    return x < 0.875f ? r - LOG(x) : r;
}
inline float sin_pi(float x) // of the fraction of x
{
    float f = x - 2.0f * rint(0.5f * x);
    float g = ABS(f) > 0.5f ? COPYSIGN(1.0f, f) - f : f;
    float2 p = two_prod(g, 3.1415927f);
    float lo = fma(g, -8.742278e-08f, p.y);
    float z = p.x * p.x;
    return ABS(g) > 0.25f ? SIN(p.x) + lo * COS(p.x) : sin_poly(p.x, z) + lo;
}
inline float LGAMMA(float x)
{
    if (ISNAN(x))
        return x;
    if (ABS(x) == INFINITY)
        return INFINITY;
    if (x > 0.0f)
        return lgamma_right(x);
    if (x == floor(x))
        return INFINITY;
    float a = -x; // gamma(x) gamma(1 - x) = pi / sin(pi x)
    if (a < 0.0009765625f)
        return fma(0.5772157f, a, -LOG(a));
    float s = ABS(sin_pi(a));
    return (1.1447299f - LOG(s * a)) - lgamma_right(a);
}
// psi(x + up) for x + up >= 1/2; its zero near 1.46 keeps its digits
inline float digamma_shifted(float x, float up)
{
    float r = 0.0f;
    float y = x + up;
    if (y < 1.0f) {
        r = -1.0f / y;
        y = y + 1.0f;
    }
    if (y < 8.0f) {
        while (y > 2.0f) { // exact, and all terms of one sign
            y = y - 1.0f;
            r = r + 1.0f / y;
        }
        float t = y - 1.5f;
        float p = -0.01622061f;
        p = fma(p, t, 0.02392432f);
        p = fma(p, t, -0.025872763f);
        p = fma(p, t, 0.039361823f);
        p = fma(p, t, -0.062039927f);
        p = fma(p, t, 0.095117405f);
        p = fma(p, t, -0.14839998f);
        p = fma(p, t, 0.24053839f);
        p = fma(p, t, -0.42362747f);
        p = fma(p, t, 0.9510559f);
        return r + p * ((y - 1.4616321f) - 1.2438150e-08f);
    }
    float i = 1.0f / y;
    float z = i * i;
    float s = 0.0039682540f;
    s = fma(s, z, -0.0083333338f);
    s = fma(s, z, 0.083333336f);
    float l = LOG(y);
    float w = fma(s, z, 0.5f * i);
    return y == INFINITY ? y : r + (l - w);
}
inline float DIGAMMA(float x)
{
    if (ISNAN(x))
        return x;
    if (x == 0.0f)
        return COPYSIGN(INFINITY, x) * -1.0f;
    if (x > 0.0f)
        return x < 0.5f ? digamma_shifted(x, 1.0f) - 1.0f / x : digamma_shifted(x, 0.0f);
    float f = x - floor(x); // psi(x) = psi(1 - x) - pi / tan(pi x)
    if (f == 0.0f || x == -INFINITY)
        return NAN;
    float g = f > 0.5f ? f - 1.0f : f;
    float t = f == 0.5f ? 0.0f : 3.1415927f / TAN(3.1415927f * g);
    float r = x > -0.5f ? digamma_shifted(x, 1.0f) - 1.0f / x : digamma_shifted(-x, 1.0f) - t;
    return r;
}
