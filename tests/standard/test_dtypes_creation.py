"""Data types and creation against NumPy; see test_differential.py."""

import builtins
import math

import numpy as np
import pytest
import specification as spec
import strategies as make
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import ALL, COMPLEX, FLOATS, INTEGERS, NUMERIC, REAL, SIGNED, UNSIGNED, few, same

import tensorx as tx

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FLOATING = FLOATS + COMPLEX


# ---- data types --------------------------------------------------------------------------------


@few
@given(st.data())
def test_astype(data):
    dtype = data.draw(st.sampled_from(ALL))
    target = data.draw(st.sampled_from(ALL))
    assume(not (dtype in COMPLEX and target in REAL))
    low, high = (0, 100) if target in INTEGERS or dtype in INTEGERS else (None, None)
    x, a = data.draw(make.pairs([dtype], low=low, high=high, special=target not in INTEGERS))
    y = tx.astype(x, getattr(tx, target))
    same(y, a.astype(target))
    assert not tx.shares_storage(x, y)
    z = tx.astype(x, getattr(tx, target), copy=False)
    assert (z is x) == (dtype == target)
    assert tx.astype(x, getattr(tx, target), device="cpu").device is x.device


def test_result_type_and_can_cast():
    names = spec.DTYPES
    for a in names:
        for b in names:
            want = spec.promoted(a, b)
            d, e = getattr(tx, a), getattr(tx, b)
            if want is not None:
                assert tx.result_type(d, e) is getattr(tx, want), (a, b)
                assert tx.result_type(tx.ones((), dtype=d), e) is getattr(tx, want)
                assert tx.can_cast(d, e) == (want == b) and tx.can_cast(tx.ones(2, dtype=d), e) == (want == b)
                assert type(tx.can_cast(d, e)) is builtins.bool
            elif "bool" not in (a, b):
                with pytest.raises(tx.DTypeError):
                    tx.result_type(d, e)
                assert not tx.can_cast(d, e)
    assert tx.result_type(tx.int8, tx.int16, tx.uint8) is tx.int16
    assert tx.result_type(tx.int8, 3) is tx.int8 and tx.result_type(2, tx.float32, 3.5) is tx.float32 and tx.result_type(tx.float64, 1j) is tx.complex128
    assert tx.result_type(True, tx.bool) is tx.bool
    for wrong in ((tx.int32, 1.5), (tx.bool, 1), (tx.float32, True), (tx.int8, 1j)):
        with pytest.raises(tx.DTypeError):
            tx.result_type(*wrong)
    with pytest.raises(TypeError):
        tx.result_type(1, 2.0)
    with pytest.raises(TypeError):
        tx.result_type()


@pytest.mark.parametrize("name", FLOATING)
def test_finfo(name):
    dtype = getattr(tx, name)
    for given_type in (dtype, tx.ones(2, dtype=dtype)):
        mine, other = tx.finfo(given_type), np.finfo(name)
        assert type(mine.bits) is int and mine.bits == other.bits
        for field in ("eps", "max", "min", "smallest_normal"):
            assert type(getattr(mine, field)) is float and getattr(mine, field) == float(getattr(other, field))
        assert mine.dtype is getattr(tx, {"complex64": "float32", "complex128": "float64"}.get(name, name))


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo(name):
    for given_type in (getattr(tx, name), tx.ones(2, dtype=name)):
        mine, other = tx.iinfo(given_type), np.iinfo(name)
        assert (mine.bits, mine.min, mine.max) == (other.bits, other.min, other.max) and mine.dtype is getattr(tx, name)
        assert all(type(v) is int for v in (mine.bits, mine.min, mine.max))


def test_isdtype():
    kinds = {"bool": ["bool"], "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": INTEGERS,
             "real floating": [*FLOATS, "bfloat16"], "complex floating": COMPLEX, "numeric": [*NUMERIC, "bfloat16"]}  # fmt: skip
    for name in [*ALL, "bfloat16"]:
        dtype = getattr(tx, name)
        for kind, members in kinds.items():
            assert tx.isdtype(dtype, kind) is (name in members)
        for other in ALL:
            assert tx.isdtype(dtype, getattr(tx, other)) is (name == other)
        assert tx.isdtype(dtype, ("bool", "integral", tx.float32)) is (name in ["bool", *INTEGERS, "float32"])
    for wrong in ("floating", "", "Bool"):
        with pytest.raises(ValueError):
            tx.isdtype(tx.int8, wrong)


# ---- creation -------------------------------------------------------------------------------------


@few
@given(st.data())
def test_filled(data):
    dtype, shape = data.draw(st.sampled_from(ALL)), data.draw(make.shapes | st.integers(0, 5))
    t, n = getattr(tx, dtype), np.dtype(dtype)
    same(tx.zeros(shape, dtype=t), np.zeros(shape, n))
    same(tx.ones(shape, dtype=t), np.ones(shape, n))
    value = data.draw({"b": st.booleans(), "i": st.integers(-9, 9), "u": st.integers(0, 9), "f": st.floats(-9, 9, width=16) | st.integers(-5, 5),
                       "c": st.complex_numbers(max_magnitude=9, width=64) | st.floats(-9, 9, width=16)}[n.kind])  # fmt: skip
    same(tx.full(shape, value, dtype=t), np.full(shape, value, n))
    x, a = data.draw(make.pairs([dtype]))
    same(tx.full_like(x, value), np.full_like(a, value))
    same(tx.zeros_like(x), np.zeros_like(a))
    same(tx.ones_like(x), np.ones_like(a))
    assert tx.empty_like(x).shape == a.shape and tx.empty(shape, dtype=t).dtype is t
    assert tx.zeros_like(x, dtype=tx.int8).dtype is tx.int8
    assert tx.full(shape, value).dtype is {bool: tx.bool, int: tx.int64, float: tx.float32, complex: tx.complex64}[type(value)]
    assert tx.zeros(shape).dtype is tx.float32 is tx.ones(shape).dtype is tx.empty(shape).dtype


@few
@given(st.data())
def test_eye_and_triangles(data):
    rows, cols, k = data.draw(st.integers(0, 6)), data.draw(st.none() | st.integers(0, 6)), data.draw(st.integers(-8, 8))
    dtype = data.draw(st.sampled_from(ALL))
    same(tx.eye(rows, cols, k=k, dtype=dtype), np.eye(rows, cols, k=k, dtype=dtype))
    x, a = data.draw(make.pairs(ALL, st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4))))
    same(tx.tril(x, k=k), np.tril(a, k=k))
    same(tx.triu(x, k=k), np.triu(a, k=k))


@few
@given(st.data())
def test_arange(data):
    start, stop = data.draw(st.integers(-50, 50)), data.draw(st.none() | st.integers(-50, 50))
    step = data.draw(st.integers(-7, 7).filter(bool))
    assume(stop is not None or step == 1)
    arguments = (start,) if stop is None else (start, stop, step)
    same(tx.arange(*arguments), np.arange(*arguments, dtype=np.int64))
    same(tx.arange(*arguments, dtype=tx.float64), np.arange(*arguments, dtype=np.float64))
    first, last, by = data.draw(st.floats(-9, 9)), data.draw(st.floats(-9, 9)), data.draw(st.floats(0.25, 3) | st.floats(-3, -0.25))
    x = tx.arange(first, last, by, dtype=tx.float64)
    count = max(0, math.ceil((last - first) / by)) if (last - first) / by > 0 else 0
    assert x.shape == (count,)
    same(x, first + np.arange(count) * by, exact=False, scale=10.0)
    assert tx.arange(0.0, 2).dtype is tx.float32
    for dtype in INTEGERS:
        same(tx.arange(3, 100, 9, dtype=dtype), np.arange(3, 100, 9, dtype=dtype))


@few
@given(st.data())
def test_linspace(data):
    start, stop, num = data.draw(st.floats(-99, 99)), data.draw(st.floats(-99, 99)), data.draw(st.integers(0, 20))
    endpoint = data.draw(st.booleans())
    x = tx.linspace(start, stop, num, dtype=tx.float64, endpoint=endpoint)
    same(x, np.linspace(start, stop, num, endpoint=endpoint), exact=False, scale=100.0)
    if num:
        assert x[0].item() == start
    if num > 1 and endpoint:
        assert x[-1].item() == stop
    z = tx.linspace(complex(start, 1), complex(stop, -2), num, endpoint=endpoint)
    same(z, np.linspace(complex(start, 1), complex(stop, -2), num, endpoint=endpoint).astype(np.complex64), exact=False, scale=100.0)
    assert tx.linspace(0, 1, 3).dtype is tx.float32


@few
@given(st.data())
def test_meshgrid(data):
    dtype = data.draw(st.sampled_from(ALL))
    found = [data.draw(make.pairs([dtype], st.tuples(st.integers(0, 4)))) for _ in range(data.draw(st.integers(0, 3)))]
    indexing = data.draw(st.sampled_from(["xy", "ij"]))
    got = tx.meshgrid(*(x for x, _ in found), indexing=indexing)
    want = np.meshgrid(*(a for _, a in found), indexing=indexing)
    assert len(got) == len(want) and isinstance(got, (list, tuple))
    for g, w in zip(got, want):
        same(g, w)


@few
@given(st.data())
def test_asarray(data):
    x, a = data.draw(make.pairs(ALL))
    same(tx.asarray(a), a)
    nested = a.tolist()
    if a.dtype.name == "uint64":
        nested = (a // 2).tolist()
        a, x = a // 2, x // 2
    if a.size and a.dtype.name not in ("float16", "complex64", "float32"):
        got = tx.asarray(nested, dtype=a.dtype.name)
        same(got, np.asarray(nested, dtype=a.dtype))
    default = {"b": tx.bool, "i": tx.int64, "u": tx.int64, "f": tx.float32, "c": tx.complex64}[a.dtype.kind]
    if a.size:
        assert tx.asarray(nested).dtype is default
    if a.ndim == 1 and a.size:
        assert tx.asarray([x[i] for i in range(a.size)]).dtype is x.dtype
    again = tx.asarray(x, copy=True)
    assert not tx.shares_storage(again, x) and tx.asarray(x) is x and tx.shares_storage(tx.asarray(x, copy=False), x)
    same(again, a)


def test_too_many_numbers_of_a_range():
    for call in (lambda: tx.arange(10**15), lambda: tx.arange(0.0, 1e15), lambda: tx.linspace(0.0, 1.0, 10**15)):
        with pytest.raises(tx.OutOfMemoryError, match=r"(arange|linspace): out of memory for 1,000,000,000,000,000 numbers"):
            call()
