// Trigonometric functions in float. Arguments up to 1e5 are reduced by pi/2 in three parts, larger ones
// with 96 bits of 2/pi. Largest errors seen, in units of the last place: sin cos 1.5 (over all of float32), tan 3.0,
// asin acos 0.6, atan 1.1, atan2 1.3.

constant uint TWO_OVER_PI[9] = {0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

// (r, quadrant as a float's bits) with x = quadrant pi/2 + r, for 1e5 <= |x| < inf
inline float2 trig_reduce_large(float x)
{
    uint u = as_type<uint>(x);
    uint e = ((u >> 23) & 255u) - 120u; // x = m 2^(e - 30), and e >= 23
    ulong m = ulong((u & 0x7fffffu) | 0x800000u);
    // bits of 2/pi whose products with m lie below 4, in three words
    uint word = e >> 5;
    uint shift = e & 31u;
    uint w[4];
    for (uint i = 0; i < 4; i++)
        w[i] = TWO_OVER_PI[word + i];
    uint a0 = shift != 0u ? (w[0] << shift) | (w[1] >> (32u - shift)) : w[0];
    uint a1 = shift != 0u ? (w[1] << shift) | (w[2] >> (32u - shift)) : w[1];
    uint a2 = shift != 0u ? (w[2] << shift) | (w[3] >> (32u - shift)) : w[2];
    ulong low = m * ulong(a2);
    ulong mid = m * ulong(a1) + (low >> 32);
    ulong top = m * ulong(a0) + (mid >> 32);
    ulong product = (top << 32) | (mid & 0xffffffffUL); // modulo 4, 62 bits after the point
    uint quadrant = uint(product >> 62);
    ulong fraction = product << 2;
    quadrant += uint(fraction >> 63); // round to the nearest
    long near = as_type<long>(fraction);
    float hi = float(near);
    float lo = float(near - long(hi));
    float r = fma(hi, 8.515304e-20f, fma(hi, -2.3695991e-27f, lo * 8.515304e-20f));
    if ((u >> 31) != 0u) {
        r = -r;
        quadrant = 0u - quadrant;
    }
    return float2(r, as_type<float>(0x4b400000u + (quadrant & 3u)));
}
inline float2 trig_reduce(float x)
{
    if (!(ABS(x) < 1e5f))
        return ISFINITE(x) ? trig_reduce_large(x) : float2(NAN, 12582912.0f);
    float t = fma(x, 0.63661975f, 12582912.0f);
    float n = t - 12582912.0f;
    float r = fma(n, -1.5707964f, x);
    r = fma(n, 4.371139e-08f, r);
    r = fma(n, 1.7151245e-15f, r);
    return float2(r, t);
}
inline float sin_poly(float r, float z)
{
    float q = -0.00019517813f;
    q = fma(q, z, 0.008332187f);
    q = fma(q, z, -0.16666655f);
    return fma(q, z * r, r);
}
inline float cos_poly(float z)
{
    float q = 2.4430668e-05f;
    q = fma(q, z, -0.0013887301f);
    q = fma(q, z, 0.041666646f);
    q = fma(q, z, -0.5f);
    return fma(q, z, 1.0f);
}
inline float SIN(float x)
{
    float2 rt = trig_reduce(x);
    float z = rt.x * rt.x;
    uint n = as_type<uint>(rt.y);
    float v = (n & 1u) != 0u ? cos_poly(z) : sin_poly(rt.x, z);
    return x == 0.0f ? x : as_type<float>(as_type<uint>(v) ^ ((n & 2u) << 30));
}
inline float COS(float x)
{
    float2 rt = trig_reduce(x);
    float z = rt.x * rt.x;
    uint n = as_type<uint>(rt.y) + 1u;
    float v = (n & 1u) != 0u ? cos_poly(z) : sin_poly(rt.x, z);
    return as_type<float>(as_type<uint>(v) ^ ((n & 2u) << 30));
}
inline float TAN(float x)
{
    float2 rt = trig_reduce(x);
    float z = rt.x * rt.x;
    float s = sin_poly(rt.x, z);
    float c = cos_poly(z);
    bool odd = (as_type<uint>(rt.y) & 1u) != 0u;
    float v = odd ? -c / s : s / c;
    return x == 0.0f ? x : v;
}

// (atan(t) - t) / t^3 on [0, 0.414] in z = t^2
inline float atan_q(float z)
{
    float q = -0.06081729f;
    q = fma(q, z, 0.10595354f);
    q = fma(q, z, -0.14243765f);
    q = fma(q, z, 0.19998485f);
    return fma(q, z, -0.33333316f);
}
// atan(n / d) for 0 <= n <= d, d > 0
inline float atan_ratio(float n, float d)
{
    bool turned = n > 0.41421357f * d; // atan(q) = pi/4 + atan((n - d) / (n + d))
    float2 top = turned ? two_sum(n, -d) : float2(n, 0.0f);
    float2 bottom = turned ? two_sum(n, d) : float2(d, 0.0f);
    float q = top.x / bottom.x;
    float rest = (fma(-q, bottom.x, top.x) + top.y - q * bottom.y) / bottom.x;
    float z = q * q;
    float s = atan_q(z) * z;
    float a = fma(s, q, rest);
    if (!turned)
        return q + a;
    float2 r = fast_two_sum(0.7853982f, q);
    return r.x + (r.y + (a + -2.1855694e-08f));
}
inline float ATAN(float x)
{
    float a = ABS(x);
    bool inverse = a > 1.0f;
    float v = a == INFINITY ? 0.0f : inverse ? atan_ratio(1.0f, a) : atan_ratio(a, 1.0f);
    float r = inverse ? (1.5707964f - v) + -4.371139e-08f : v;
    return a == 0.0f || ISNAN(x) ? x : COPYSIGN(r, x);
}
inline float ATAN2(float y, float x)
{
    if (ISNAN(x) || ISNAN(y))
        return x + y;
    float a = ABS(y);
    float b = ABS(x);
    float m = a > b ? a : b;
    float v;
    if (a == INFINITY && b == INFINITY) {
        v = 0.7853982f;
    } else if (m == 0.0f) {
        v = 0.0f;
    } else if (m == INFINITY) {
        v = a > b ? 1.5707964f : 0.0f;
    } else { // quotients of very large or small numbers need scaling
        float up = m > 1.2676506e+30f ? 5.421011e-20f : m < 8.271806e-25f ? 1.8446744e+19f : 1.0f;
        float p = a * up;
        float q = b * up;
        v = p > q ? (1.5707964f - atan_ratio(q, p)) + -4.371139e-08f : atan_ratio(p, q);
    }
    if (SIGNBIT(x))
        v = (3.1415927f - v) + -8.742278e-08f;
    return COPYSIGN(v, y);
}
// (asin(t) - t) / t^3 on [0, 0.5] in z = t^2
inline float asin_q(float z)
{
    float q = 0.03757811f;
    q = fma(q, z, 0.014393838f);
    q = fma(q, z, 0.031819813f);
    q = fma(q, z, 0.044515472f);
    q = fma(q, z, 0.07500512f);
    return fma(q, z, 0.1666666f);
}
// asin(sqrt(z)) for z = (1 - a) / 2 in [0, 0.25], as a pair
inline float2 asin_of_root(float z)
{
    float s = SQRT(z);
    float lost = s > 0.0f ? fma(-s, s, z) / (s + s) : 0.0f;
    return float2(s, fma(asin_q(z) * z, s, lost));
}
inline float ASIN(float x)
{
    float a = ABS(x);
    float z = a * a;
    float low = fma(asin_q(z) * z, a, a);
    float2 h = asin_of_root(fma(-0.5f, a, 0.5f));
    float2 r = fast_two_sum(1.5707964f, -2.0f * h.x);
    float high = r.x + (r.y + fma(-2.0f, h.y, -4.371139e-08f));
    float v = a <= 0.5f ? low : a <= 1.0f ? high : NAN;
    return a == 0.0f || ISNAN(x) ? x : COPYSIGN(v, x);
}
inline float ACOS(float x)
{
    float a = ABS(x);
    float z = a * a;
    float2 m = fast_two_sum(1.5707964f, -x);
    float low = m.x + (m.y - fma(asin_q(z) * z, x, 4.371139e-08f));
    float2 h = asin_of_root(fma(-0.5f, a, 0.5f));
    float right = 2.0f * (h.x + h.y);
    float2 l = fast_two_sum(3.1415927f, -2.0f * h.x);
    float left = l.x + (l.y + fma(-2.0f, h.y, -8.742278e-08f));
    float v = a <= 0.5f ? low : x > 0.0f ? right : left;
    return a <= 1.0f ? v : ISNAN(x) ? x : NAN;
}
