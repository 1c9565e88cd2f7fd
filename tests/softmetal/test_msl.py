"""The front end: what MSL 3.0 accepts and refuses, and what its functions compute."""

import ctypes as C
import math
import struct

import pytest
from soft import SAFE, CompileError, knobs

ACCEPTED = {
    "packed vectors": """
kernel void k(device packed_float3* p, device float* o, constant packed_float3& c,
              uint i [[thread_position_in_grid]])
{ float3 v = p[i]; p[i] = v + float3(c); p[i].x = 1.0f; p[i][1] = v.z; o[i] = p[i].y; }""",
    "swizzles and constructors": """
kernel void k(device float4* o) {
    float4 a = float4(1.0, float2(2.0f), 3), b = float4(a.xyz, 1);
    half4 h = half4(a); uint3 u = uint3(1); vec<int, 2> w = vec<int, 2>(int(a.x), 2);
    o[0] = a.wzyx + float4(h) * float4(float3(u), 1.0f) + float4(float2(w), b.xy);
    o[1] = float4{1, 2, 3, 4}; o[2].xy = a.zw;
}""",
    "alias of a vector": """
using F4 = float4; typedef vec<half, 2> H2;
kernel void k(device F4* o) { o[0] = F4(1, 2, 3, 4) * float(H2(1.0h, 2.0h).x); }""",
    "methods with address spaces": """
struct P { uint n; float v[4]; float at(int i) const constant { return v[i]; }
           float get(int i) const device { return v[i]; } };
kernel void k(constant P& p, device P& q, device float* o) { o[0] = p.at(1) + q.get(int(p.n)); }""",
    "functors and templates": """
struct Add { template <typename T> T operator()(T a, T b) const { return a + b; } static constexpr float init() { return 0.0f; } };
template <typename T, typename Op, int N> T fold(thread T* a, Op op) { T r = T(Op::init());
    for (int i = 0; i < N; ++i) r = op(r, a[i]); return r; }
kernel void k(device float* o) { float x[4] = {1, 2, 3, 4}; o[0] = fold<float, Add, 4>(x, Add()); }""",
    "traits and limits": """
template <typename T> enable_if_t<is_floating_point_v<T>, T> low() { return -numeric_limits<T>::infinity(); }
template <typename T> enable_if_t<is_integral_v<T>, T> low() { return numeric_limits<T>::lowest(); }
kernel void k(device float* o) { o[0] = low<float>() + float(low<int>()) + float(low<half>());
    static_assert(is_same<conditional_t<true, int, float>, int>::value, "x"); }""",
    "constants": """
constant float table[3] = {1.0f, 2.0f, 3.0f};
constexpr constant int N = 3;
constant constexpr float half_pi = 1.5f;
namespace inner { constant uint M = 5u; }
kernel void k(device float* o) { for (int i = 0; i < N; ++i) o[i] = table[i] * half_pi + float(inner::M) + M_PI_F; }""",
    "OpenCL's words as names": """
kernel void k(device float* local, device float* global, uint generic [[thread_position_in_grid]])
{ float pipe = local[generic]; global[generic] = pipe; }""",
    "metal:: and kernels in a namespace": """
namespace mine { kernel void k(device float* o, metal::uint2 i [[thread_position_in_grid]])
{ o[i.x] = metal::max(metal::precise::exp(o[i.y]), 1.0f) + metal::float2(1.0f, 2.0f).y; } }""",
    "automatic indices": """
kernel void k(device float* a, constant uint& n, threadgroup float* s, device float* b [[buffer(0)]],
              uint i [[thread_position_in_grid]]) { s[0] = a[i]; b[n] = s[0]; }""",
    "as_type and bits": """
kernel void k(device uint* o, device half* h) {
    o[0] = as_type<uint>(1.0f); o[1] = uint(as_type<ushort>(h[0])); o[2] = as_type<uint>(half2(h[0], h[1]));
    o[3] = as_type<uint2>(ulong(o[0])).x + popcount(o[1]) + clz(o[2]) + reverse_bits(o[0]) + extract_bits(o[0], 3, 4); }""",
    "64-bit integers": """
kernel void k(device long* a, device ulong* b, uint i [[thread_position_in_grid]]) {
    ulong big = ulong(i) * 0xFFFFFFFFFFul; a[i] = long(big >> 3) + mulhi(a[i], 5L) + long(mulhi(b[i], big));
    b[i] = max(b[i], big) + ulong(int64_t(-1)) + ulong(size_t(3)) + 0x8000000000000000ul; }""",
    "loop pragmas": """
kernel void k(device float* o) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) o[i] = 1.0f;
    #pragma clang loop unroll(full)
    for (int i = 0; i < 4; ++i) o[i] += 1.0f; }""",
    "threadgroup variables of every form": """
struct S { float x; int y; };
template <typename T, int N> inline void fill(threadgroup T* s, T v) { for (int i = 0; i < N; ++i) s[i] = v; }
template <typename T> kernel void t(device T* o) {
    constexpr int pad = 4; threadgroup T a[8 + pad], b; threadgroup vec<T, 4> c[2][3]; threadgroup S s;
    fill<T, 12>(a, T(1)); b = a[3]; c[1][2] = vec<T, 4>(b); s.x = float(c[1][2].w);
    threadgroup T* p = a; threadgroup_barrier(mem_flags::mem_threadgroup); o[0] = p[1] + T(s.x); }
template [[host_name("k")]] kernel void t<half>(device half*);""",
    "vote": """
kernel void k(device uint* o, uint i [[thread_position_in_grid]]) {
    simd_vote v = simd_ballot(i > 3); o[i] = uint(ulong(v)) + (v.all() ? 1u : 0u) + (v.any() ? 2u : 0u); }""",
    "select, any, all": """
kernel void k(device float4* o) { o[0] = select(o[0], o[1], o[0] < o[1]); o[1].x = any(o[0] == o[1]) ? 1.0f : 0.0f;
    o[2].x = all(isfinite(o[0].x)) ? 1.0f : 0.0f; }""",
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(soft, name):
    soft.pipeline(SAFE + ACCEPTED[name])


@pytest.mark.parametrize("name", ["functors and templates", "threadgroup variables of every form", "constants"])
@pytest.mark.parametrize("knob", ["strict", "trace", "ubsan", "ulp"])
def test_accepted_in_other_modes(soft, knob, name):
    knobs(**{knob: 1})
    soft.pipeline(SAFE + ACCEPTED[name])


REFUSED = [
    ("o[0] = foo;", "program_source:6:40: error: use of undeclared identifier 'foo'"),
    ("double x = 1;", "'double' is not available in Metal"),
    ("o[0] = max(1, n);", "call to 'max' is ambiguous"),
    ("o[0] = clamp(o[0], 0, 1);", "call to 'clamp' is ambiguous"),
    ("o[0] = exp(1);", "call to 'exp' is ambiguous"),
    ("o[0] = max(o[0], half(1));", "call to 'max' is ambiguous"),
    ("o[0] = erf(o[0]);", "undeclared identifier 'erf'"),
    ("o[0] = simd_sum(ulong(n));", "call to 'simd_sum' is ambiguous"),
    ("c[0] = 1.0f;", "read-only variable is not assignable"),
    ("thread float* p = o;", "cannot initialize a variable of type 'thread float *"),
    ("device float* p = (device float*)c;", "mismatching address spaces"),
    ("static float x;", "must reside in constant address space"),
    ("auto f = [](float x) { return x; };", "lambdas are not available"),
    ("auto f = [&] { return 1; };", "lambdas are not available"),
    ("if constexpr (true) o[0] = 1;", "'if constexpr' needs C++17"),
    ("long long x = 1;", "'long long' is not available"),
    ("float x = 1.0L;", "'long double' is not available"),
    ("goto x; x: ;", "'goto' is not available"),
    ("throw 1;", "'throw' is not available"),
    ("float* p = new float;", "'new' is not available"),
    ("constant char* s = \"abc\";", "string literals are not available"),
    ("int a[n];", "not a constant expression"),
    ("float2 v = float2(1, 2, 3);", "wrong number of components"),
    ("int x = float2(1, 2);", "cannot initialize"),
    ("if (float2(1) == float2(2)) o[0] = 1;", "not contextually convertible|value of type"),
    ("atomic_fetch_add_explicit(o, 1.0f, memory_order_relaxed);", "no matching function"),
    ("threadgroup atomic_float f; atomic_fetch_add_explicit(&f, 1.0f, memory_order_relaxed);", "no matching function"),
    ("threadgroup_barrier(1);", "no matching function"),
    ("__global float* p = o;", "names that begin with two underscores"),
    ("simdgroup_matrix<int, 8, 8> m;", "must be float or half"),
    ("uint vertex = 1;", "'vertex' is not available here"),
]


@pytest.mark.parametrize("body, message", REFUSED)
def test_refused(soft, body, message):
    source = SAFE + "kernel void k(device float* o, constant float* c, constant uint& n, uint i [[thread_position_in_grid]])\n"
    with pytest.raises(CompileError) as error:
        soft.compile(source + "{ int some_padding_here = 0;    " + body + " }")
    import re

    assert re.search(re.escape(message) if "|" not in message else message, str(error.value)), str(error.value)
    assert "program_source:6" in str(error.value) or "types.h" in str(error.value) or "simdgroup" in str(error.value)


@pytest.mark.parametrize("text, message", [
    ("float x; kernel void k(device float* o) {}", "must reside in constant address space"),
    ("kernel int k(device float* o) { return 1; }", "must return void"),
    ("kernel void k(device float* o [[buffer(31)]]) {}", "must be between 0 and 30"),
    ("kernel void k(device float* o [[buffer(0)]], device float* p [[buffer(0)]]) {}", "two parameters"),
    ("kernel void k(device float* o, uint i) {}", "needs an attribute"),
    ("kernel void k(device float* o [[bufer(0)]]) {}", "unknown attribute 'bufer'"),
    ("kernel void k(device float* o, float i [[thread_position_in_grid]]) {}", "must be of type uint or ushort"),
    ("kernel void k(device float* o [[threadgroup(0)]]) {}", "needs a pointer or reference to threadgroup"),
    ("kernel void k(texture2d<float> t [[texture(0)]]) {}", "'texture2d' is not available here"),
    ("kernel void k(device float* o) {}\nkernel void k(device int* o) {}", "redefinition of kernel"),
    ("template <typename T> kernel void t(device T* o) {}\ntemplate kernel void t<float>(device float*);", "host_name"),
    ("#include <cmath>\nkernel void k(device float* o) {}", "'cmath' file not found"),
    ("#error no\nkernel void k(device float* o) {}", "error: (#error )?no"),
    ("kernel void k(device float* o { }", "error"),
])  # fmt: skip
def test_refused_texts(soft, text, message):
    import re

    with pytest.raises(CompileError) as error:
        soft.compile(SAFE + text)
    assert re.search(message, str(error.value)), str(error.value)


def test_missing_include(soft):
    with pytest.raises(CompileError, match="does not include <metal_stdlib>"):
        soft.compile("kernel void k(device float* o) {}")


@pytest.mark.parametrize("text, message", [
    ("inline void f(float* p) { p[0] = 1; }", "without an address space: p"),
    ("inline float f(int n) { return n ? f(n - 1) : 0.0f; }", "recursion"),
    ("float b(int n); inline float a(int n) { return n ? b(n - 1) : 0.0f; } float b(int n) { return a(n); }", "recursion"),
])  # fmt: skip
def test_strict(soft, text, message):
    source = SAFE + text + "\nkernel void k(device float* o, constant int& n) { float x = 0; CALL; o[0] = x; }"
    source = source.replace("CALL", "f(&x)" if "p[0]" in text else "x = f(n)" if "f(n" in text else "x = a(n)")
    soft.compile(source)
    knobs(strict=1)
    with pytest.raises(CompileError, match=message):
        soft.compile(source)


# ---- values ---------------------------------------------------------------------------


def floats(soft, expression, values, kind="float", result="float"):
    """The expression of x for each value."""
    types = {"float": C.c_float, "int": C.c_int32, "uint": C.c_uint32, "short": C.c_int16, "long": C.c_int64,
             "ulong": C.c_uint64, "uchar": C.c_uint8}  # fmt: skip
    source = SAFE + (
        f"kernel void k(device const {kind}* a, device {result}* o, uint i [[thread_position_in_grid]])"
        f" {{ {kind} x = a[i]; o[i] = {result}({expression}); }}"
    )
    a, o = soft.buffer(values, types[kind]), soft.buffer(len(values), types[result])
    assert soft.run(soft.pipeline(source), [a, o], len(values)) == (0, "")
    return o.list()


@pytest.mark.parametrize("name, reference", [
    ("exp", math.exp), ("log", math.log), ("sin", math.sin), ("cos", math.cos), ("tanh", math.tanh),
    ("sqrt", math.sqrt), ("rsqrt", lambda x: 1 / math.sqrt(x)), ("exp2", lambda x: 2.0**x), ("log2", math.log2),
    ("log10", math.log10), ("exp10", lambda x: 10.0**x), ("atan", math.atan), ("sinh", math.sinh), ("asinh", math.asinh),
    ("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("fract", lambda x: x - math.floor(x)),
    ("sinpi", lambda x: math.sin(math.pi * x)), ("cospi", lambda x: math.cos(math.pi * x)),
])  # fmt: skip
@pytest.mark.parametrize("space", ["", "precise::", "fast::"])
def test_unary_functions(soft, name, reference, space):
    values = [0.1, 0.5, 0.9, 1.5, 2.25, 3.75]
    got = floats(soft, f"{space}{name}(x)", values)
    for v, g in zip(values, got, strict=True):
        want = reference(C.c_float(v).value)
        assert g == pytest.approx(want, rel=3e-6 if space == "fast::" else 4e-7, abs=1e-7)


def test_special_values(soft):
    nan, inf = math.nan, math.inf
    assert floats(soft, "max(x, 1.0f)", [nan, -inf, 2.0])[0] == 1.0
    assert floats(soft, "clamp(x, 0.0f, 1.0f)", [nan, inf, -inf, 0.5]) == [0.0, 1.0, 0.0, 0.5]
    assert floats(soft, "sign(x)", [nan, -3.0, 2.0, 0.0]) == [0.0, -1.0, 1.0, 0.0]
    assert floats(soft, "isnan(x) ? 1 : isinf(x) ? 2 : 3", [nan, inf, 1.0]) == [1, 2, 3]
    assert floats(soft, "round(x)", [0.5, 1.5, -2.5]) == [1, 2, -3]
    assert floats(soft, "rint(x)", [0.5, 1.5, -2.5]) == [0, 2, -2]
    assert floats(soft, "powr(x, 2.0f)", [3.0])[0] == 9.0 and math.isnan(floats(soft, "powr(x, 2.0f)", [-3.0])[0])
    assert floats(soft, "copysign(2.0f, x)", [-0.0, 1.0]) == [-2.0, 2.0]


def test_integers(soft):
    assert floats(soft, "clz(x)", [0, 1, 1 << 31], "uint", "uint") == [32, 31, 0]
    assert floats(soft, "ctz(x)", [0, 8], "uint", "uint") == [32, 3]
    assert floats(soft, "popcount(x)", [0xF0F0, 2**32 - 1], "uint", "uint") == [8, 32]
    assert floats(soft, "mulhi(x, 0x80000000u)", [4, 5], "uint", "uint") == [2, 2]
    assert floats(soft, "mulhi(x, x)", [1 << 40], "ulong", "ulong") == [1 << 16]
    assert floats(soft, "addsat(x, 2147483000)", [1000, -5], "int", "int") == [2**31 - 1, 2147482995]
    assert floats(soft, "rotate(x, 8u)", [0x12345678], "uint", "uint") == [0x34567812]
    assert floats(soft, "abs(x)", [-7, -(2**31)], "int", "uint") == [7, 2**31]
    assert floats(soft, "reverse_bits(x)", [1], "uint", "uint") == [1 << 31]
    assert floats(soft, "insert_bits(x, 5, 4, 3)", [0xFF], "int", "int") == [0xDF]
    assert floats(soft, "min(max(x, short(-3)), short(3))", [-9, 0, 9], "short", "int") == [-3, 0, 3]
    assert floats(soft, "char(x)", [200, 100], "uchar", "int") == [-56, 100]
    assert floats(soft, "x >> 3", [-64], "long", "long") == [-8]


def test_half_rounds_after_every_operation(soft):
    source = SAFE + """
kernel void k(device const half* a, device half* o, device float* f) {
    half p = a[0] * a[1];
    o[0] = p + a[2];
    o[1] = half(float(a[0]) * float(a[1]) + float(a[2]));
    half2 v = half2(a[0], a[1]) * half2(a[1], a[0]) + half2(a[2]);
    o[2] = v.y;
    f[0] = a[3] * 2.0h;
    f[1] = a[3] * 2.0f;
}
"""
    def h(v):
        return struct.unpack("H", struct.pack("e", v))[0]

    x = 1 + 2**-6
    a = soft.buffer([h(x), h(x), h(-x * x), h(60000.0)], C.c_uint16)
    o, f = soft.buffer(3, C.c_uint16), soft.buffer(2)
    assert soft.run(soft.pipeline(source), [a, o, f], 1) == (0, "")
    rounded = struct.unpack("e", struct.pack("e", x * x))[0]
    assert o[0] == h(rounded - rounded) and o[2] == o[0]
    assert f.list() == [math.inf, 120000.0]
