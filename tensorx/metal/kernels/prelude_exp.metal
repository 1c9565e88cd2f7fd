// exp, log and what is made of them, in float: the algorithms and coefficients of the CPU kernels where
// those are in float too, pairs of floats where the CPU uses double. Every fused multiply-add is written
// as fma; nothing relies on contraction.
//
// Largest errors seen, in units of the last place (200,000 samples per range): exp exp2 log log1p tanh pow about 1
// (1.0, 1.0, 0.8, 0.8, 1.4, 1.1), log2 log10 cbrt hypot 0.5, expm1 1.6, sigmoid 1.4, asinh 1.6, acosh atanh 2.0,
// sinh cosh 2.7; fmod, remainder, floor_divide and nextafter are exact.

constant float LOG2E = 1.442695f;
constant float LN2_HI = 0.69314575f; // trailing zeros: n * LN2_HI is exact
constant float LN2_LO = 1.4286068e-06f;
constant float TO_INTEGER = 12582912.0f; // x + this has the nearest integer in its low bits

// a sum or product as a pair: the rounded value, and what rounding lost
inline float2 two_sum(float a, float b)
{
    float s = a + b;
    float t = s - a;
    float u = s - t;
    float e = (a - u) + (b - t);
    return float2(s, e);
}
inline float2 fast_two_sum(float a, float b) // |a| >= |b|
{
    float s = a + b;
    float t = s - a;
    return float2(s, b - t);
}
inline float2 two_prod(float a, float b)
{
    float p = a * b;
    return float2(p, fma(a, b, -p));
}

// p * 2^n, n = bits of t - TO_INTEGER, |n| < 256, by two factors that are normal numbers
inline float scale_by(float p, float t)
{
    uint u = (as_type<uint>(t) + 256u) & 511u;
    uint h = u >> 1;
    float q = p * as_type<float>((h - 1u) << 23);
    return q * as_type<float>((u - h - 1u) << 23);
}
inline float pow2_of(float t) { return as_type<float>((as_type<uint>(t) << 23) + (127u << 23)); }

// x = n ln2 + r; returns (r, t) with t = TO_INTEGER + n
inline float2 exp_reduce(float x)
{
    float t = fma(x, LOG2E, TO_INTEGER);
    float n = t - TO_INTEGER;
    float r = fma(n, -LN2_HI, x);
    return float2(fma(n, -LN2_LO, r), t);
}
// e^r - 1 = r + r^2 q(r)
inline float exp_q(float r)
{
    float q = 0.0013839008f;
    q = fma(q, r, 0.0083691925f);
    q = fma(q, r, 0.041668102f);
    q = fma(q, r, 0.16666517f);
    return fma(q, r, 0.49999994f);
}
inline float2 exp_core(float x) // (e^r, t)
{
    float2 rt = exp_reduce(x);
    float u = fma(rt.x * rt.x, exp_q(rt.x), rt.x);
    return float2(1.0f + u, rt.y);
}
inline float EXP(float x)
{
    float y = x > 90.0f ? 90.0f : x; // comparisons keep NaN
    y = y < -105.0f ? -105.0f : y;
    float2 pt = exp_core(y);
    return scale_by(pt.x, pt.y);
}
// e^(hi + lo), |lo| small against hi
inline float exp_pair(float hi, float lo)
{
    float y = hi > 90.0f ? 90.0f : hi;
    bool inside = hi <= 90.0f && hi >= -105.0f;
    y = y < -105.0f ? -105.0f : y;
    float2 rt = exp_reduce(y);
    float r = inside ? rt.x + lo : rt.x;
    float u = fma(r * r, exp_q(r), r);
    return scale_by(1.0f + u, rt.y);
}
inline float EXP2(float x)
{
    float y = x > 129.0f ? 129.0f : x;
    y = y < -151.0f ? -151.0f : y;
    float t = y + TO_INTEGER;
    float f = y - (t - TO_INTEGER);
    float hi = f * 0.6931472f;
    float lo = fma(f, 0.6931472f, -hi);
    lo = fma(f, -1.9046542e-09f, lo);
    float u = fma(hi * hi, exp_q(hi), hi);
    u = fma(lo, 1.0f + u, u);
    return scale_by(1.0f + u, t);
}
inline float expm1_q(float r)
{
    float q = 0.0013916385f;
    q = fma(q, r, 0.008367101f);
    q = fma(q, r, 0.041666616f);
    q = fma(q, r, 0.16666539f);
    return fma(q, r, 0.5f);
}
inline float EXPM1(float x)
{
    float y = x > 89.0f ? 89.0f : x;
    y = y < -20.0f ? -20.0f : y;
    float2 rt = exp_reduce(y);
    float p = fma(rt.x * rt.x, expm1_q(rt.x), rt.x);
    float s = as_type<float>((as_type<uint>(rt.y) << 23) + (126u << 23)); // half of 2^n: n may be 128
    float v = fma(s, p, s - 0.5f);
    return x == 0.0f ? x : v + v;
}
// with E = e^-|x|: 1 - E / (1 + E) for x >= 0, else E / (1 + E), both corrected for roundings
inline float SIGMOID(float x)
{
    float a = -ABS(x);
    a = a < -105.0f ? -105.0f : a;
    float2 rt = exp_reduce(a);
    float u = fma(rt.x * rt.x, exp_q(rt.x), rt.x);
    float e = 1.0f + u;
    float el = (1.0f - e) + u;
    float ts = rt.y < TO_INTEGER - 126.0f ? TO_INTEGER - 126.0f : rt.y;
    float s = pow2_of(ts);
    float d = fma(s, e, 1.0f);
    float dl = fma(s, e, 1.0f - d);
    float q = e / d;
    float rough = fma(d, -0.5f, 1.457f); // about 1 / d
    q = fma(fma(-q, dl, el), rough, q);
    float up = fma(-s, q, 1.0f);
    return x < 0.0f ? scale_by(q, rt.y) : up;
}
inline float TANH(float x)
{
    float a = ABS(x);
    float z = a * a;
    float q = -0.0060990923f;
    q = fma(q, z, 0.020951038f);
    q = fma(q, z, -0.05382405f);
    q = fma(q, z, 0.1333233f);
    q = fma(q, z, -0.3333331f);
    float low = fma(q * z, a, a);
    float b = a > 9.5f ? 9.5f : a;
    float2 pt = exp_core(b + b);
    float d = fma(pt.x, pow2_of(pt.y), 1.0f);
    float high = 1.0f - 2.0f / d;
    return a == 0.0f ? x : COPYSIGN(a < 0.5625f ? low : high, x);
}
inline float SINH(float x)
{
    float a = ABS(x);
    float z = a * a;
    float q = 2.817446e-06f;
    q = fma(q, z, 0.00019836065f);
    q = fma(q, z, 0.0083333505f);
    q = fma(q, z, 0.16666667f);
    float low = fma(q * z, a, a);
    float m = EXPM1(a > 44.0f ? 44.0f : a);
    float mid = 0.5f * (m + m / (m + 1.0f));
    float h = EXP(0.5f * a);
    float high = (0.5f * h) * h;
    float v = a < 1.0f ? low : a < 44.0f ? mid : high;
    return a == 0.0f ? x : COPYSIGN(v, x);
}
inline float COSH(float x)
{
    float a = ABS(x);
    float e = EXP(a > 44.0f ? 44.0f : a);
    float mid = fma(0.5f, e, 0.5f / e);
    float h = EXP(0.5f * a);
    float high = (0.5f * h) * h;
    return a < 44.0f || ISNAN(x) ? mid + (x - x) : high;
}

// ---- logarithms ----

// x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); returns (f, k)
inline float2 log_split(float x, float k0)
{
    uint u = as_type<uint>(x) + (0x3f800000u - 0x3f3504f3u);
    float k = float(int(u >> 23) - 127) + k0;
    return float2(as_type<float>((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f, k);
}
// log(1 + f) = f - f^2 / 2 + f^3 q(f)
inline float log_q(float f)
{
    float q = -0.07640653f;
    q = fma(q, f, 0.12767555f);
    q = fma(q, f, -0.13160335f);
    q = fma(q, f, 0.1420076f);
    q = fma(q, f, -0.16623223f);
    q = fma(q, f, 0.20001265f);
    q = fma(q, f, -0.25000826f);
    return fma(q, f, 0.3333333f);
}
inline float log_special(float x, float r)
{
    float v = x > 0.0f ? r : x == 0.0f ? -INFINITY : NAN;
    return x < INFINITY ? v : x; // +inf and NaN are returned as they are
}
inline float2 log_scaled(float x) // log_split for subnormals too, where there are any
{
    bool tiny = x < 1.1754944e-38f;
    return log_split(tiny ? x * 16777216.0f : x, tiny ? -24.0f : 0.0f);
}
inline float LOG(float x)
{
    float2 fk = log_scaled(x);
    float f = fk.x;
    float k = fk.y;
    float w = fma(f * f, fma(log_q(f), f, -0.5f), k * LN2_LO);
    float s = f + w;
    return log_special(x, fma(k, LN2_HI, s));
}
// log(1 + f) as a pair, for |f| <= sqrt(2) - 1 and a little error c of f
inline float2 log_pair(float f, float c)
{
    float2 d = fast_two_sum(2.0f, f); // s = f / (2 + f) to twice the precision
    float s = f / d.x;
    float sl = (fma(-s, d.x, f) - s * d.y + c * (1.0f - s)) / d.x;
    float z = s * s;
    float p = 0.23054676f;
    p = fma(p, z, 0.2856208f);
    p = fma(p, z, 0.40000015f);
    // 2 s + s z (2/3 + z p)
    float2 t = fast_two_sum(0.6666667f, z * p);
    t.y += -1.9868216e-08f;
    float2 sz = two_prod(s, z);
    float zl = fma(s, s, -z) + 2.0f * s * sl;
    sz.y += fma(s, zl, sl * z);
    float2 m = two_prod(sz.x, t.x);
    m.y += fma(sz.x, t.y, sz.y * t.x);
    float2 r = fast_two_sum(2.0f * s, m.x);
    r.y += fma(2.0f, sl, m.y);
    return fast_two_sum(r.x, r.y);
}
inline float LOG2(float x)
{
    float2 fk = log_scaled(x);
    float2 l = log_pair(fk.x, 0.0f);
    float2 p = two_prod(l.x, 1.442695f);
    p.y += fma(l.x, 1.9259629e-08f, l.y * 1.442695f);
    float2 s = two_sum(fk.y, p.x);
    return log_special(x, s.x + (s.y + p.y));
}
inline float LOG10(float x)
{
    float2 fk = log_scaled(x);
    float2 l = log_pair(fk.x, 0.0f);
    float2 p = two_prod(l.x, 0.4342945f);
    p.y += fma(l.x, -1.010305e-08f, l.y * 0.4342945f);
    float2 k = two_prod(fk.y, 0.30103f);
    k.y = fma(fk.y, -1.4320989e-08f, k.y);
    float2 s = two_sum(k.x, p.x);
    return log_special(x, s.x + (s.y + (k.y + p.y)));
}
inline float LOG1P(float x)
{
    float u = 1.0f + x;
    float c = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f); // what rounding u lost
    bool near = x > -0.29f && x < 0.41f;
    float2 fk = log_split(u, 0.0f);
    float f = near ? x : fk.x;
    float k = near ? 0.0f : fk.y;
    // the lost part, on the scale of f
    float g = near || !(x < 1.6777216e+07f) ? 0.0f : c * as_type<float>(uint(127 - int(k)) << 23);
    float w = fma(f * f, fma(log_q(f), f, -0.5f), fma(k, LN2_LO, g / (1.0f + f)));
    float r = fma(k, LN2_HI, f + w);
    float v = x > -1.0f ? r : x == -1.0f ? -INFINITY : NAN;
    v = x == 0.0f ? x : v;
    return x < INFINITY ? v : x;
}
inline float LOGADDEXP(float x, float y)
{
    float m = MAX(x, y);
    float d = x - y;
    float r = m + LOG1P(EXP(-ABS(d)));
    return x == y ? x + 0.6931472f : r;
}
inline float ASINH(float x)
{
    float a = ABS(x);
    float z = a * a;
    float low = LOG1P(a + z / (1.0f + SQRT(1.0f + z)));
    float high = LOG(a) + 0.6931472f;
    return a == 0.0f ? x : COPYSIGN(a < 1e9f ? low : high, x);
}
inline float ACOSH(float x)
{
    float t = x - 1.0f;
    float low = LOG1P(t + SQRT(fma(t, t, 2.0f * t)));
    float high = LOG(x) + 0.6931472f;
    return x < 1.0f ? NAN : x > 1e9f ? high : low;
}
inline float ATANH(float x)
{
    float a = ABS(x);
    float v = 0.5f * LOG1P((a + a) / (1.0f - a));
    v = a > 1.0f ? NAN : a == 1.0f ? INFINITY : v;
    return a == 0.0f ? x : COPYSIGN(v, x);
}

// ---- powers ----

// |x|^y for finite x > 0 and finite y, by y log x as a pair
inline float pow_core(float x, float y)
{
    float2 fk = log_scaled(x);
    float2 l = log_pair(fk.x, 0.0f);
    float2 k = two_prod(fk.y, 0.6931472f);
    k.y = fma(fk.y, -1.9046542e-09f, k.y);
    float2 s = two_sum(k.x, l.x);
    float lo = s.y + (k.y + l.y);
    float2 lg = fast_two_sum(s.x, lo);
    float2 p = two_prod(y, lg.x);
    p.y = fma(y, lg.y, p.y);
    p.y = ABS(p.x) < 200.0f ? p.y : 0.0f;
    return exp_pair(p.x, p.y);
}
inline float POW(float x, float y)
{
    float ax = ABS(x);
    float ay = ABS(y);
    bool whole = ay >= 8388608.0f || TRUNC(y) == y;
    bool odd = whole && ay < 16777216.0f && (uint(ay) & 1u) != 0u;
    float v;
    if (ax == 0.0f || ax == INFINITY)
        v = (ax == 0.0f) == (y < 0.0f) ? INFINITY : 0.0f;
    else if (ay == INFINITY)
        v = ax == 1.0f ? 1.0f : (ax > 1.0f) == (y > 0.0f) ? INFINITY : 0.0f;
    else
        v = pow_core(ax, y);
    if (SIGNBIT(x) && odd)
        v = -v;
    if (x < 0.0f && !whole && ax != INFINITY)
        v = NAN;
    if (ISNAN(x) || ISNAN(y))
        v = x + y;
    return y == 0.0f || x == 1.0f ? 1.0f : v;
}
inline float CBRT(float x)
{
    float a = ABS(x);
    bool tiny = a < 1.1754944e-38f;
    float s = tiny ? a * 16777216.0f : a;
    float y = as_type<float>(as_type<uint>(s) / 3u + 709921077u);
    for (int i = 0; i < 2; i++) { // Halley
        float c = y * y * y;
        y = y * ((c + (s + s)) / ((c + c) + s));
    }
    float2 sq = two_prod(y, y); // one Newton step with the residual to twice the precision
    float2 c = two_prod(sq.x, y);
    float rest = (s - c.x) - fma(sq.y, y, c.y);
    y += rest / (3.0f * sq.x);
    y = tiny ? y * 0.00390625f : y;
    return a == 0.0f || !(a < INFINITY) ? x : COPYSIGN(y, x);
}
inline float HYPOT(float x, float y)
{
    float a = ABS(x);
    float b = ABS(y);
    float m = a > b ? a : b;
    float n = a > b ? b : a;
    float up = m > 1.1529215e+18f ? 1.3552527e-20f : m < 8.6736174e-19f ? 7.378698e+19f : 1.0f;
    float down = m > 1.1529215e+18f ? 7.378698e+19f : m < 8.6736174e-19f ? 1.3552527e-20f : 1.0f;
    float p = m * up;
    float q = n * up;
    float h = SQRT(fma(p, p, q * q));
    float hh = h * h;
    float pp = p * p;
    float e = fma(-q, q, hh - pp);
    e = e + fma(h, h, -hh);
    e = e - fma(p, p, -pp);
    float r = h > 0.0f ? h - e / (h + h) : h;
    r = r * down;
    r = ISNAN(x) || ISNAN(y) ? x + y : r;
    return a == INFINITY || b == INFINITY ? INFINITY : r;
}

// ---- remainders and neighbours ----

// x - y trunc(x / y), exact: long division of the significands, 32 bits at a time
inline float FMOD(float x, float y)
{
    uint ux = as_type<uint>(x) & 0x7fffffffu;
    uint uy = as_type<uint>(y) & 0x7fffffffu;
    if (ux > 0x7f800000u || uy > 0x7f800000u)
        return x + y;
    if (ux == 0x7f800000u || y == 0.0f)
        return NAN;
    if (ux < uy || x == 0.0f)
        return x;
    // subnormals only where the hardware has them
    int ex = max(int(ux >> 23), 1);
    int ey = max(int(uy >> 23), 1);
    ulong mx = (ux & 0x7fffffu) | (ux >= 0x800000u ? 0x800000u : 0u);
    ulong my = (uy & 0x7fffffu) | (uy >= 0x800000u ? 0x800000u : 0u);
    int n = ex - ey;
    mx = mx % my;
    while (n > 0 && mx != 0UL) {
        int step = min(n, 32);
        mx = (mx << ulong(step)) % my;
        n -= step;
    }
    float r = float(uint(mx)); // below 2^24, so exact
    int e = ey - 150;          // r * 2^e in two factors
    int h = e / 2;
    r = r * as_type<float>(uint(h + 127) << 23);
    r = r * as_type<float>(uint(e - h + 127) << 23);
    return COPYSIGN(r, x);
}
inline float REM(float x, float y)
{
    float m = FMOD(x, y);
    if (m != 0.0f && (y < 0.0f) != (m < 0.0f))
        m += y;
    return m == 0.0f ? COPYSIGN(0.0f, y) : m;
}
inline float FLOORDIV(float x, float y)
{
    float d = x / y;
    if (y == 0.0f)
        return d;
    float m = FMOD(x, y);
    float q = (x - m) / y;
    if (m != 0.0f && (y < 0.0f) != (m < 0.0f))
        q -= 1.0f;
    float f = floor(q);
    f = q - f > 0.5f ? f + 1.0f : f;
    return q == 0.0f ? COPYSIGN(0.0f, d) : f;
}
inline float NEXTAFTER(float x, float y)
{
    if (ISNAN(x) || ISNAN(y))
        return x + y;
    int ix = as_type<int>(x);
    int iy = as_type<int>(y);
    ix = ix < 0 ? int(0x80000000u) - ix : ix; // ordered as the numbers are
    iy = iy < 0 ? int(0x80000000u) - iy : iy;
    if (ix == iy)
        return y;
    ix += ix < iy ? 1 : -1;
    bool minus = ix < 0 || (ix == 0 && as_type<int>(x) < 0);
    uint magnitude = uint(ix < 0 ? -ix : ix);
    return as_type<float>(magnitude | (minus ? 0x80000000u : 0u));
}
