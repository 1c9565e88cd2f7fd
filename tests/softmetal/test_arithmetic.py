"""Arithmetic as on the GPU: subnormals, contraction, fast math, inexact functions, undefined cases."""

import ctypes as C
import math
import platform
import struct

import pytest
from soft import SAFE, knobs


def bits(f):
    return struct.unpack("I", struct.pack("f", f))[0]


def test_subnormals(soft):
    src = SAFE + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              device half* h [[buffer(2)]]) {
    o[0] = a[0] * 2.0f;
    o[1] = a[1] * 0.5f;
    o[2] = a[0] == 0.0f ? 1.0f : 0.0f;
    o[3] = fabs(a[0]);
    o[4] = a[0];
    o[5] = -a[0];
    o[6] = a[0] > 0.0f ? 1.0f : 0.0f;
    h[1] = h[0] * 2.0h;
}
"""
    tiny, smallest = 1e-40, 1.17549435e-38
    a, o = soft.buffer([tiny, smallest]), soft.buffer(7)
    h = soft.buffer([1, 0], C.c_uint16)  # the smallest subnormal of float16
    assert soft.run(soft.pipeline(src), [a, o, h], 1) == (0, "")
    assert o[:4] == [0.0, 0.0, 1.0, 0.0] and o[6] == 0.0
    assert bits(o[4]) == bits(tiny) and bits(o[5]) == bits(tiny) | 1 << 31
    assert h[1] == 2
    knobs(ftz=0)
    assert soft.run(soft.pipeline(src), [a, o, h], 1) == (0, "")
    assert o[0] == C.c_float(2 * C.c_float(tiny).value).value and o[2] == 0.0 and o[3] > 0 and o[6] == 1.0


def fused(soft, pragmas, math_mode=1):
    """Is a * b + c rounded once?"""
    src = pragmas + """#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]]) {
    float product = a[0] * a[1];
    o[0] = product + a[2];
}
"""
    x = C.c_float(1 + 2**-12).value
    a, o = soft.buffer([x, x, -C.c_float(x * x).value]), soft.buffer(1)
    assert soft.run(soft.pipeline(src, math=math_mode), [a, o], 1) == (0, "")
    return o[0] != 0.0


def test_contraction(soft):
    safe, off = "#pragma METAL fp math_mode(safe)\n", "#pragma METAL fp contract(off)\n"
    assert not fused(soft, safe + off)
    assert fused(soft, safe)  # the pragma is missing
    assert not fused(soft, off)
    assert not fused(soft, "#if __METAL_VERSION__ >= 300\n" + off + "#endif\n")
    assert fused(soft, "#if __METAL_VERSION__ < 300\n" + off + "#endif\n")  # a branch not taken
    knobs(contract=0)
    assert not fused(soft, safe)


def test_fast_math(soft):
    src = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]]) {
    o[0] = isnan(a[0]) ? 1.0f : 0.0f;
    o[1] = exp(a[1]);
    o[2] = precise::exp(a[1]);
}
"""
    a, o = soft.buffer([math.nan, 1.3]), soft.buffer(3)
    results = {}
    for name, text, mode in (("fast", src, 0), ("no", src, 1), ("safe only", src, 2),
                             ("pragma", SAFE + src, 0)):  # fmt: skip
        assert soft.run(soft.pipeline(text, math=mode), [a, o], 1) == (0, "")
        results[name] = (o[0], o[1] == o[2])
    assert results == {"fast": (0.0, False), "no": (1.0, True), "safe only": (1.0, False),
                       "pragma": (1.0, False)}  # fmt: skip


def test_inexact_functions(soft):
    src = SAFE + """
kernel void k(device const float* a [[buffer(0)]], device float* o [[buffer(1)]],
              uint i [[thread_position_in_grid]]) { o[i] = precise::exp(a[i]); }
"""
    a, o = soft.buffer([i / 10 for i in range(100)]), soft.buffer(100)
    soft.run(soft.pipeline(src), [a, o], 100)
    exact = [bits(v) for v in o]
    knobs(ulp=1)
    soft.run(soft.pipeline(src), [a, o], 100)
    off = [abs(bits(v) - e) for v, e in zip(o, exact, strict=True)]
    assert 0 < max(off) <= 4 and off[0] == 0


@pytest.mark.parametrize("body", [
    "o[0] = a[0] / (a[1] - 3);", "o[0] = 2147483647 + a[0];", "int t[4] = {a[0], 2, 3, 4}; o[0] = t[a[1] + 9];",
    "o[0] = int(float(a[0]) * 1e30f);",
])  # fmt: skip
def test_undefined_arithmetic(soft, body):
    knobs(ubsan=1)
    src = SAFE + f"kernel void k(device const int* a [[buffer(0)]], device int* o [[buffer(1)]]) {{ {body} }}"
    a, o = soft.buffer([1, 3], C.c_int32), soft.buffer(1, C.c_int32)
    code, message = soft.run(soft.pipeline(src), [a, o], 1)
    assert code == 3 and "k: " in message


def test_integer_division_by_zero_is_an_error_without_ubsan(soft):
    src = SAFE + "kernel void k(device const int* a, device int* o) { o[0] = a[0] / a[1]; }"
    a, o = soft.buffer([1, 0], C.c_int32), soft.buffer(1, C.c_int32)
    code, message = soft.run(soft.pipeline(src), [a, o], 1)
    if platform.machine() in ("x86_64", "AMD64"):  # other processors give 0
        assert code == 3 and "division by zero" in message
