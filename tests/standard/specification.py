"""Names and signatures of the array API standard 2024.12."""

ELEMENTWISE_ONE = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p log2 log10"
    " logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc"
).split()
ELEMENTWISE_TWO = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater"
    " greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow"
    " remainder subtract"
).split()

FUNCTIONS = {
    **dict.fromkeys(ELEMENTWISE_ONE, "x, /"),
    **dict.fromkeys(ELEMENTWISE_TWO, "x1, x2, /"),
    "clip": "x, /, min=None, max=None",
    # creation
    "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None",
    "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "meshgrid": "*arrays, indexing='xy'",
    "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None",
    "tril": "x, /, *, k=0",
    "triu": "x, /, *, k=0",
    "zeros": "shape, *, dtype=None, device=None",
    "zeros_like": "x, /, *, dtype=None, device=None",
    # data types
    "astype": "x, dtype, /, *, copy=True, device=None",
    "can_cast": "from_, to, /",
    "finfo": "type, /",
    "iinfo": "type, /",
    "isdtype": "dtype, kind",
    "result_type": "*arrays_and_dtypes",
    # indexing
    "take": "x, indices, /, *, axis=None",
    "take_along_axis": "x, indices, /, *, axis=-1",
    # linear algebra
    "matmul": "x1, x2, /",
    "matrix_transpose": "x, /",
    "tensordot": "x1, x2, /, *, axes=2",
    "vecdot": "x1, x2, /, *, axis=-1",
    # manipulation
    "broadcast_arrays": "*arrays",
    "broadcast_to": "x, /, shape",
    "concat": "arrays, /, *, axis=0",
    "expand_dims": "x, /, axis",
    "flip": "x, /, *, axis=None",
    "moveaxis": "x, source, destination, /",
    "permute_dims": "x, /, axes",
    "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None",
    "roll": "x, /, shift, *, axis=None",
    "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0",
    "tile": "x, repetitions, /",
    "unstack": "x, /, *, axis=0",
    # searching
    "argmax": "x, /, *, axis=None, keepdims=False",
    "argmin": "x, /, *, axis=None, keepdims=False",
    "count_nonzero": "x, /, *, axis=None, keepdims=False",
    "nonzero": "x, /",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None",
    "where": "condition, x1, x2, /",
    # sets
    "unique_all": "x, /",
    "unique_counts": "x, /",
    "unique_inverse": "x, /",
    "unique_values": "x, /",
    # sorting
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "sort": "x, /, *, axis=-1, descending=False, stable=True",
    # statistics
    "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
    "max": "x, /, *, axis=None, keepdims=False",
    "mean": "x, /, *, axis=None, keepdims=False",
    "min": "x, /, *, axis=None, keepdims=False",
    "prod": "x, /, *, axis=None, dtype=None, keepdims=False",
    "std": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "sum": "x, /, *, axis=None, dtype=None, keepdims=False",
    "var": "x, /, *, axis=None, correction=0.0, keepdims=False",
    # utility
    "all": "x, /, *, axis=None, keepdims=False",
    "any": "x, /, *, axis=None, keepdims=False",
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    # inspection
    "__array_namespace_info__": "",
}

LINALG = {
    "cholesky": "x, /, *, upper=False",
    "cross": "x1, x2, /, *, axis=-1",
    "det": "x, /",
    "diagonal": "x, /, *, offset=0",
    "eigh": "x, /",
    "eigvalsh": "x, /",
    "inv": "x, /",
    "matmul": "x1, x2, /",
    "matrix_norm": "x, /, *, keepdims=False, ord='fro'",
    "matrix_power": "x, n, /",
    "matrix_rank": "x, /, *, rtol=None",
    "matrix_transpose": "x, /",
    "outer": "x1, x2, /",
    "pinv": "x, /, *, rtol=None",
    "qr": "x, /, *, mode='reduced'",
    "slogdet": "x, /",
    "solve": "x1, x2, /",
    "svd": "x, /, *, full_matrices=True",
    "svdvals": "x, /",
    "tensordot": "x1, x2, /, *, axes=2",
    "trace": "x, /, *, offset=0, dtype=None",
    "vecdot": "x1, x2, /, *, axis=-1",
    "vector_norm": "x, /, *, axis=None, keepdims=False, ord=2",
}

_FFT, _FFTN = "x, /, *, n=None, axis=-1, norm='backward'", "x, /, *, s=None, axes=None, norm='backward'"
FFT = {
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), _FFT),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), _FFTN),
    "fftfreq": "n, /, *, d=1.0, dtype=None, device=None",
    "rfftfreq": "n, /, *, d=1.0, dtype=None, device=None",
    "fftshift": "x, /, *, axes=None",
    "ifftshift": "x, /, *, axes=None",
}

INFO = {
    "capabilities": "",
    "default_device": "",
    "default_dtypes": "*, device=None",
    "devices": "",
    "dtypes": "*, device=None, kind=None",
}

OPERATORS = {
    "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "divide", "__floordiv__": "floor_divide",
    "__mod__": "remainder", "__pow__": "pow", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "__matmul__": "matmul",
}  # fmt: skip
COMPARISONS = {
    "__eq__": "equal", "__ne__": "not_equal", "__lt__": "less", "__le__": "less_equal", "__gt__": "greater", "__ge__": "greater_equal",
}  # fmt: skip
UNARY = {"__abs__": "abs", "__invert__": "bitwise_invert", "__neg__": "negative", "__pos__": "positive"}

METHODS = {
    **dict.fromkeys(UNARY, ""),
    **dict.fromkeys(COMPARISONS, "other, /"),
    **dict.fromkeys(OPERATORS, "other, /"),
    **{f"__r{name[2:]}": "other, /" for name in OPERATORS},
    **{f"__i{name[2:]}": "other, /" for name in OPERATORS},
    **dict.fromkeys(("__bool__", "__complex__", "__float__", "__index__", "__int__", "__dlpack_device__"), ""),
    "__array_namespace__": "*, api_version=None",
    "__dlpack__": "*, stream=None, max_version=None, dl_device=None, copy=None",
    "__getitem__": "key, /",
    "__setitem__": "key, value, /",
    "to_device": "device, /, *, stream=None",
}
ATTRIBUTES = ("T", "device", "dtype", "mT", "ndim", "shape", "size")
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()

# dtypes that promote: to the first of the list that holds both, within a family
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATING = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]


def promoted(a, b):
    """The dtype that two dtypes promote to, or None: the tables of the standard."""
    if a == b:
        return a
    for family in (SIGNED, UNSIGNED, FLOATING, COMPLEX):
        if a in family and b in family:
            return max(a, b, key=family.index)
    for x, y in ((a, b), (b, a)):
        if x in SIGNED and y in UNSIGNED:
            need = UNSIGNED.index(y) + 1
            return None if need == 4 else SIGNED[max(SIGNED.index(x), need)]
        if x in FLOATING and y in COMPLEX:
            return COMPLEX[max(FLOATING.index(x), COMPLEX.index(y))]
    return None
