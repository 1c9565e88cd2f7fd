"""The lint finds each thing it promises, and nothing in correct texts."""

import doctest

import msl_lint
import pytest
from msl_lint import lint
from soft import HERE, SAFE
from test_softmetal import ADD, BUILTINS, MATRIX, REDUCE, SIMD

GOOD = (
    SAFE
    + """
// goto double in a comment
template <typename T, int N> struct Tile {
    T at(int i) const device { return values[i]; }
    T values[N];
};
constant float table[2] = {1.0f, 2.0f};
inline float f(float x) { return x * table[1]; }
inline float f(float x, float y) { return f(x) * y; }
inline float g(thread float& x, threadgroup float* s, constant uint& n) { x += s[n]; return f(x, 2.0f); }
template <typename T> inline T pick(device const T* a, ulong i) { return a[i]; }
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(30)]],
              threadgroup float* s [[threadgroup(0)]], uint i [[thread_position_in_grid]])
{
    thread float x = a[i] * a[i], y[2] = {1.0f, 2.0f};
    device float *p = o + i, *q = p;
    float product = x * y[1];
    o[i] = g(x, s, *(constant uint*)nullptr) + pick<float>(a, i) + product + y[int(a[1])] + *q;
}
"""
)


@pytest.mark.parametrize("source", [GOOD, ADD, BUILTINS, REDUCE, SIMD, SAFE + MATRIX.replace("TYPE", "half")])
def test_good_texts(source):
    assert lint(source) == []


@pytest.mark.parametrize("line, what", [
    ("double x;", "'double' is not available"),
    ("constant float x = 1.0L;", "'long double'"),
    ("constant long x = 1LL;", "'long long'"),
    ("inline long long f(int x) { return x; }", "'long long'"),
    ("inline void f(float* p) { }", "without an address space: float * p"),
    ("template <typename T> void f(const T& v) { }", "without an address space"),
    ("inline void f(device float* p) { float* q = p; }", "'float *q' has no address space"),
    ("inline float f(float x) { return x < 1 ? x : f(x - 1); }", "'f' is recursive"),
    ("inline float a(float x); inline float b(float x) { return a(x); } inline float a(float x) { return b(x); }",
     "is recursive"),
    ("inline float f(float x) { if constexpr (true) return x; return 1; }", "'if constexpr'"),
    ("inline float f(float x) { auto g = [](float y) { return y; }; return g(x); }", "lambdas"),
    ("inline float f(float2 x) { auto [a, b] = x; return a; }", "structured bindings"),
    ("template <typename... A> float sum(A... a) { return (a + ...); }", "fold expressions"),
    ("namespace a::b { }", "nested namespace"),
    ("inline void f() { goto x; x: ; }", "'goto'"),
    ("struct A { virtual void f(); };", "'virtual'"),
    ("inline float f(float x) { return erf(x); }", "'erf' does not exist"),
    ("inline float f(float sampler) { return sampler; }", "reserved word"),
    ("inline int f(int __x) { return __x; }", "two underscores"),
    ("kernel void k(device float* a [[buffer(31)]]) { }", "index above 30"),
    ("kernel void k(device float* a [[buffer(1)]], device float* b [[buffer(1)]]) { }", "two parameters"),
    ("kernel void k(" + ", ".join(f"device float* a{i}" for i in range(32)) + ") { }", "more than 31 buffers"),
    ("#include <cmath>", "not Metal's"),
    ("#pragma METAL fp contract(fast)", "loosens arithmetic"),
])  # fmt: skip
def test_bad_texts(line, what):
    found = lint(SAFE + "\n" + line + "\n")
    assert any(what in p and p.startswith("6:") for p in found), found


def test_pragmas():
    assert len(lint("")) == 3 and lint("", pragmas=False) == []
    assert lint(SAFE.replace("contract(off)", "contract(on)"))[-1].startswith("2: a pragma that loosens")


KERNELS = sorted((HERE.parent.parent / "tensorx" / "metal" / "kernels").glob("*.metal"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.name)
def test_kernel_files_of_tensorx(path):
    assert lint(path.read_text(), pragmas=False) == []


def test_doctest():
    assert doctest.testmod(msl_lint).failed == 0
