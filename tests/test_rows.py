"""Every row of the op table through the engine: values, fused against eager bits, layouts, reuse."""

import numpy as np
import pytest

import tensorx as tx
from tensorx.ops import codegen, table

ROWS = [row for row in table.TABLE if row.public]
FLOATS = ["float32", "float64", "float16", "bfloat16"]


def bits(t):
    return bytes(tx._core.raw_bytes(t.detach().contiguous()))


def operands(row, dtype, n=257, seed=0):
    """Host arrays of the row's domain; halves are drawn as float32 and rounded by the engine."""
    base = "float32" if dtype in ("float16", "bfloat16") else dtype
    arrays = codegen.samples(row, base, n, seed)
    if row.name == "pow" and arrays[1].dtype.kind == "i":
        arrays[1] = arrays[1] & 7  # negative powers of integers are errors
    return arrays


def tensors(arrays, dtype, device):
    out = []
    for a in arrays:
        t = tx.asarray(a, device=device)
        out.append(t.astype(dtype) if a.dtype != bool else t)
    return out


def call(row, args):
    return tx._core.elementwise(table.INDEX[row.name], *args)


def dtypes_of(row):
    out = []
    if "f" in row.kinds:
        out += FLOATS
    if "i" in row.kinds:
        out += ["int8", "int32", "int64"]
    if "u" in row.kinds:
        out += ["uint8", "uint64"]
    if "b" in row.kinds:
        out += ["bool"]
    if "c" in row.kinds:
        out += ["complex64", "complex128"]
    return out


def on_device(dtype, device):
    return device == "cpu" or dtype not in ("float64", "complex128")


# Their values as kernels are tested row by row in tests/metal; here it is about the engine around them.
ON_METAL = {
    "add", "divide", "multiply", "where", "exp", "maximum", "pow", "floor_divide", "bitwise_xor", "logical_and", "less", "tanh",
    "clip", "abs", "sign", "conj", "isnan", "lerp", "addcmul",
}  # fmt: skip
ONE_DTYPE = {"add": "bfloat16", "divide": "float16", "multiply": "complex64", "pow": "int32", "floor_divide": "int8", "less": "uint64"}


def sampled(row, dtype):
    first = "float32" if "f" in row.kinds else dtypes_of(row)[0]
    return row.name in ON_METAL and dtype in (first, ONE_DTYPE.get(row.name))


CASES = [(row, dtype) for row in ROWS for dtype in dtypes_of(row)]
IDS = [f"{row.name}-{dtype}" for row, dtype in CASES]
each = pytest.mark.parametrize("row, dtype", CASES, ids=IDS)
few_on_metal = pytest.mark.metal_sample(keep=lambda row: row.name in ON_METAL)


@pytest.mark.metal_sample(keep=sampled)
@each
def test_fused_equals_eager_bit_for_bit(row, dtype, device):
    """The op inside a chain, over several layouts, has the bits of op-by-op evaluation."""
    if not on_device(dtype, device):
        pytest.skip(f"{dtype} is not on Metal")
    arrays = operands(row, dtype, 2 * 3 * 47)
    shaped = [a.reshape(6, 47) for a in arrays]

    def run(layout):
        args = tensors(shaped, dtype, device)
        if layout == "transposed":
            args = [a.T for a in args]
        elif layout == "reversed":
            args = [a[::-1, ::2] for a in args]
        elif layout == "broadcast":
            args = [args[0]] + [a[:1] for a in args[1:]]
        r = call(row, args)
        if r.dtype.kind == "f":
            r = (r * 0.5).abs() + r
        elif r.dtype.kind == "b":
            r = ~r
        return r

    for layout in ("plain", "transposed", "reversed", "broadcast"):
        fused = run(layout)
        with tx.deferred(False):
            eager = run(layout)
        assert fused.shape == eager.shape and fused.strides == eager.strides
        assert bits(fused) == bits(eager), layout


@pytest.mark.metal_sample(keep=sampled)
@each
def test_reused_memory_holds_the_same_bits(row, dtype, device):
    """Operands that die are written over; operands that live are left alone."""
    if not on_device(dtype, device):
        pytest.skip(f"{dtype} is not on Metal")
    arrays = operands(row, dtype, 1500)
    args = tensors(arrays, dtype, device)
    tx.eval(*args)
    before = [bits(a) for a in args]
    kept = call(row, args)
    tx.eval(kept)
    assert [bits(a) for a in args] == before
    want = bits(kept)
    for k in range(len(args)):
        mine = [a.copy() for a in args]
        tx.eval(*mine)
        others = [a.alias() for i, a in enumerate(mine) if i != k]
        r = call(row, mine)
        del mine
        assert bits(r) == want
        del others


@few_on_metal
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_sizes_around_block_boundaries(row, device):
    dtype = "float32" if "f" in row.kinds else "int32" if "i" in row.kinds else dtypes_of(row)[0]
    arrays = operands(row, dtype, 2100)
    full = tensors(arrays, dtype, device)
    want = bits(call(row, full))
    item = call(row, full).itemsize
    for n in (0, 1, 2, 15, 1023, 1024, 1025, 2049):
        got = call(row, [a[:n] for a in full])
        assert got.shape == (n,)
        assert bits(got) == want[: n * item]


@few_on_metal
@pytest.mark.parametrize("row", [r for r in ROWS if "f" in r.kinds and r.arity > 1 and not r.masks], ids=lambda r: r.name)
def test_python_scalars_equal_tensors_of_one_value(row, device):
    arrays = operands(row, "float32", 50)
    x = tensors(arrays, "float32", device)
    for k in range(row.arity):
        value = float(arrays[k][3])
        args = [value if i == k else t for i, t in enumerate(x)]
        full = [tx.full((50,), value, device=device) if i == k else t for i, t in enumerate(x)]
        assert bits(call(row, args)) == bits(call(row, full)), f"operand {k}"


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_wrong_dtypes_are_refused(row):
    for dtype, kind in (("bool", "b"), ("int32", "i"), ("uint8", "u"), ("float32", "f"), ("complex64", "c")):
        if kind in row.kinds or (row.promote == "float" and kind in "biu"):
            continue
        args = [tx.ones(3, dtype="bool" if k in row.masks else dtype) for k in range(row.arity)]
        with pytest.raises(tx.DTypeError, match=row.name):
            call(row, args)


def test_shapes_that_do_not_broadcast_name_the_op():
    with pytest.raises(tx.ShapeError, match=r"add: shapes \(2, 3\) and \(4,\)"):
        tx.ones((2, 3)) + tx.ones(4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64"])
def test_python_integers_out_of_range(dtype):
    info = tx.iinfo(dtype)
    x = tx.zeros(2, dtype=dtype)
    assert np.array_equal((x + info.max).numpy(copy=True), [info.max] * 2)
    for bad in (info.max + 1, info.min - 1):
        with pytest.raises(OverflowError, match=dtype):
            x + bad


@pytest.mark.parametrize("a, b", [("int64", "float32"), ("uint64", "int8"), ("int32", "complex64")])
def test_kinds_do_not_mix(a, b):
    with pytest.raises(tx.DTypeError, match="promote"):
        tx.ones(2, dtype=a) + tx.ones(2, dtype=b)


def test_scalar_kinds():
    with pytest.raises(tx.DTypeError, match="float"):
        tx.ones(2, dtype="int32") * 0.5
    with pytest.raises(tx.DTypeError, match="bool"):
        tx.ones(2) + True
    assert (tx.ones(2) + 1j).dtype is tx.complex64
    assert (tx.ones(2, dtype="bfloat16") * 2).dtype is tx.bfloat16


def test_numpy_arrays_are_not_mixed_silently():
    a = np.ones(3, np.float32)
    for f in (lambda: tx.ones(3) + a, lambda: a + tx.ones(3), lambda: tx.ones(3) @ a, lambda: tx.add(tx.ones(3), a)):
        with pytest.raises((tx.DTypeError, TypeError)):
            f()
