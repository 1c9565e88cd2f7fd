"""Matrix products, tested in C: against a loop that spells out the promised order, and against NumPy."""

import ctypes
import os
import subprocess

import gemm_lib
import numpy as np
import pytest
from gemm_lib import ACCUMULATE, CANCELLED, CONJ_A, CONJ_B, NO_MEMORY, arguments, product, random_matrix
from kernel_lib import DTYPES, ISAS, Missing, bf16_bits, bf16_values

FLOATS = ["float32", "float64", "complex64", "complex128"]
HALVES = ["float16", "bfloat16"]
SIZES = [0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 48, 63, 64, 65, 70]


@pytest.fixture(params=ISAS)
def isa(request):
    return request.param


@pytest.fixture
def lib(isa):
    try:
        return gemm_lib.library(isa)
    except Missing as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def best():
    """The library for the best instruction set of this machine."""
    for isa in reversed(ISAS):
        try:
            return gemm_lib.library(isa)
        except Missing as reason:
            why = reason
    pytest.skip(str(why))


def run_program(isa, variant, *args):
    try:
        command = gemm_lib.program(isa, variant)
    except Missing as reason:
        pytest.skip(str(reason))
    done = subprocess.run(
        [*command, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
    )
    assert done.returncode == 0 and "WARNING: ThreadSanitizer" not in done.stderr, done.stderr + done.stdout


# ---- random products, bit for bit against the loop in gemm_driver.c; 1, 2 and 3 threads each ----


@pytest.mark.parametrize("seed", [1, 2])
def test_random_products_under_address_sanitizer(isa, seed):
    run_program(isa, "address", 1000, 70, seed)


def test_random_products_of_middling_size(lib, capfd):
    assert lib.t_random(150, 330, 3) == 0, capfd.readouterr().err


def test_random_products_under_thread_sanitizer():
    run_program("base", "thread", 60, 150, 4)


# ---- values ----


def values(bits, dtype):
    return bf16_values(bits) if dtype == "bfloat16" else bits


def check(got, a, b, dtype, extra=0.0):
    """Integers exactly; floats within the bound of a sum of k products, rounded once if narrow."""
    if dtype == "bool":
        assert np.array_equal(got, (a.astype(np.int64) @ b.astype(np.int64)) > 0)
        return
    if "int" in dtype:
        assert np.array_equal(got, a @ b)
        return
    wide = np.complex128 if "complex" in dtype else np.float64
    x, y = values(a, dtype).astype(wide), values(b, dtype).astype(wide)
    size = np.abs(x) @ np.abs(y)
    eps = {"float64": 2.0**-52, "complex128": 2.0**-52}.get(dtype, 2.0**-23)
    bound = (min(a.shape[-1], 520) + 8) * eps * size
    if dtype in HALVES:
        bound = bound + 2.0 ** (-10 if dtype == "float16" else -8) * np.abs(x @ y) + 1e-7
    error = np.abs(values(got, dtype).astype(wide) - x @ y)
    assert (error <= bound + extra).all(), float((error - bound).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_sizes(lib, dtype, rng):
    for m in SIZES:
        n, k = (int(s) for s in rng.choice(SIZES, 2))
        a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
        check(product(lib, a, b, dtype, threads=2), a, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "m, n, k", [(1, 1, 3000), (1, 200, 900), (300, 1, 1100), (3, 130, 600), (150, 90, 1300), (30, 40, 9000)]
)
def test_long_inner_axis(lib, dtype, m, n, k, rng):
    a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
    if dtype == "float16":
        a = (a / 32).astype(a.dtype)
    check(product(lib, a, b, dtype, threads=2), a, b, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_summed_in_float32(best, dtype):
    """4096 ones: a sum in the half type itself would stop at 2048, or at 256."""
    one = np.ones((3, 4096), np.float16) if dtype == "float16" else np.full((3, 4096), 0x3F80, np.uint16)
    got = values(product(best, one, one.T, dtype), dtype)
    assert (got == 4096).all()


def test_a_count_of_true_products_does_not_wrap(best):
    a = np.ones((2, 65536), bool)
    assert product(best, a, a.T, "bool").all()
    assert not product(best, a, np.zeros((65536, 2), bool), "bool").any()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("flags", [CONJ_A, CONJ_B, CONJ_A | CONJ_B])
@pytest.mark.parametrize("m, n, k", [(1, 1, 77), (1, 30, 40), (30, 1, 40), (20, 30, 600)])
def test_conjugates(best, dtype, flags, m, n, k, rng):
    a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
    want = (a.conj() if flags & CONJ_A else a).copy(), (b.conj() if flags & CONJ_B else b).copy()
    got = product(best, a, b, dtype, flags=flags)
    check(got, *want, dtype)
    assert np.array_equal(got, product(best, *want, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_nan_and_infinity_propagate(best, dtype):
    """0 * nan and 0 * inf are nan, wherever the zero comes from."""
    for m, n, k in [(1, 1, 5), (1, 40, 30), (40, 1, 30), (7, 9, 30), (70, 130, 600)]:
        for bad in (np.nan, np.inf):
            a, b = np.zeros((m, k), dtype), np.ones((k, n), dtype)
            b[k // 2, n - 1] = bad
            with np.errstate(invalid="ignore"):
                got = product(best, a, b, dtype)
            assert np.isnan(got[:, n - 1]).all() and (got[:, : n - 1] == 0).all()
            a, b = np.ones((m, k), dtype), np.zeros((k, n), dtype)
            a[m - 1, k - 1] = bad
            got = product(best, a, b, dtype)
            assert np.isnan(got[m - 1]).all() and (got[: m - 1] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_inner_axis_of_length_zero(lib, dtype, rng):
    for m, n in [(1, 1), (3, 2), (70, 130)]:
        a, b = random_matrix(rng, dtype, m, 0), random_matrix(rng, dtype, 0, n)
        c = np.full((2, m, n), 77, a.dtype)  # must not survive
        assert (product(lib, a, b, dtype, c=c) == 0).all()
        bias = random_matrix(rng, dtype, n)
        assert np.array_equal(product(lib, a, b, dtype, bias=bias), np.broadcast_to(bias, (m, n)))
        c = random_matrix(rng, dtype, m, n)
        assert np.array_equal(product(lib, a, b, dtype, c=c.copy(), flags=ACCUMULATE), c)


# ---- bias and accumulation are the separate steps, bit for bit ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n, k", [(1, 1, 50), (1, 70, 40), (70, 1, 40), (9, 40, 33), (100, 70, 1100)])
def test_bias_and_accumulation(best, dtype, m, n, k, rng):
    a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
    bias, c = random_matrix(rng, dtype, n), random_matrix(rng, dtype, m, n)

    def add(x, y):
        if dtype == "bfloat16":
            return bf16_bits(bf16_values(x).astype(np.float64) + bf16_values(y))
        return x + y

    plain = product(best, a, b, dtype)
    assert np.array_equal(product(best, a, b, dtype, bias=bias), add(plain, bias))
    assert np.array_equal(product(best, a, b, dtype, c=c.copy(), flags=ACCUMULATE), add(c, plain))
    both = product(best, a, b, dtype, c=c.copy(), bias=bias, flags=ACCUMULATE)
    assert np.array_equal(both, add(c, add(plain, bias)))


# ---- the bits of an element depend on its row, its column and k alone ----


def layouts(x):
    """The same matrix in other places and orders of memory."""
    rows, cols = x.shape
    yield np.asfortranarray(x)
    yield np.ascontiguousarray(x[::-1])[::-1]
    yield np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    yield np.asfortranarray(x[::-1, ::-1])[::-1, ::-1]
    wide = np.zeros((2 * rows + 1, 3 * cols + 2), x.dtype)
    wide[1::2, 2::3] = x
    yield wide[1::2, 2::3]
    tall = np.zeros((cols + 1, rows + 3), x.dtype).T
    tall[3:, 1:] = x
    yield tall[3:, 1:]
    flat = np.zeros(x.size + 1, x.dtype)
    flat[1:] = x.ravel()
    yield flat[1:].reshape(x.shape)  # one element off its alignment


@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES, "int32", "uint8", "bool"])
@pytest.mark.parametrize(
    "m, n, k", [(1, 1, 700), (1, 90, 64), (90, 1, 64), (4, 65, 530), (30, 40, 50), (130, 140, 150)]
)
def test_layout_does_not_matter(best, dtype, m, n, k, rng):
    a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
    want = product(best, a, b, dtype)
    for x in layouts(a):
        assert np.array_equal(x, a)
        assert product(best, x, b, dtype, threads=2).tobytes() == want.tobytes()
    for y in layouts(b):
        assert product(best, a, y, dtype, threads=2).tobytes() == want.tobytes()
    for c in layouts(np.zeros_like(want)):
        product(best, a, b, dtype, c=c)
        assert np.ascontiguousarray(c).tobytes() == want.tobytes()


def test_a_result_with_gaps_leaves_them_alone(best, rng):
    for dtype in ("float32", "int8", "complex128", "float16"):
        for m, n in [(1, 20), (20, 1), (9, 33), (70, 80)]:
            a, b = random_matrix(rng, dtype, m, 20), random_matrix(rng, dtype, 20, n)
            room = np.full((2 * m, 3 * n), 55, a.dtype)
            product(best, a, b, dtype, c=room[::2, 1::3])
            assert np.array_equal(room[::2, 1::3], product(best, a, b, dtype))
            room[::2, 1::3] = 55
            assert (room == 55).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16", "int64"])
def test_strides_of_zero(best, dtype, rng):
    row, column = random_matrix(rng, dtype, 1, 40), random_matrix(rng, dtype, 40, 1)
    a, b = np.broadcast_to(row, (30, 40)), np.broadcast_to(column, (40, 50))
    want = product(best, np.ascontiguousarray(a), np.ascontiguousarray(b), dtype)
    assert product(best, a, b, dtype).tobytes() == want.tobytes()
    one = np.broadcast_to(random_matrix(rng, dtype, 1, 1), (30, 40))
    want = product(best, np.ascontiguousarray(one), b, dtype)
    assert product(best, one, b, dtype).tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES])
@pytest.mark.parametrize("k", [40, 512, 513, 1500])
def test_part_of_a_product_is_the_product_of_a_part(lib, dtype, k, rng):
    m, n = 100, 150
    a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
    whole = product(lib, a, b, dtype, threads=2)
    for i, j in [(1, n), (m, 1), (2, 3), (5, n), (m, 7), (50, 70), (99, 149)]:
        if i * j > 1:
            assert product(lib, a[:i], b[:, :j], dtype).tobytes() == whole[:i, :j].tobytes()
            assert product(lib, a[-i:], b[:, -j:], dtype).tobytes() == whole[-i:, -j:].tobytes()
    swapped = product(lib, b.T, a.T, dtype)
    assert np.array_equal(swapped, whole.T)


@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES, "int16"])
def test_number_of_threads_does_not_matter(lib, dtype, rng):
    for m, n, k in [
        (300, 260, 700),
        (1, 3000, 600),
        (3000, 1, 600),
        (2000, 40, 60),
        (40, 2000, 60),
        (1, 1, 50000),
        (40, 30, 20000),
        (3, 100, 9000),
    ]:
        a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
        want = product(lib, a, b, dtype, threads=1)
        for threads in (2, 3, 7):
            assert product(lib, a, b, dtype, threads=threads).tobytes() == want.tobytes()


def test_instruction_sets_with_fma_agree(rng):
    try:
        libs = [gemm_lib.library("avx2"), gemm_lib.library("avx512")]
    except Missing as reason:
        pytest.skip(str(reason))
    for dtype in (*FLOATS, *HALVES):
        for m, n, k in [(1, 1, 9000), (1, 70, 80), (90, 100, 1030)]:
            a, b = random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n)
            first, second = (product(lib, a, b, dtype) for lib in libs)
            assert first.tobytes() == second.tobytes()


# ---- batches ----


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16", "int32"])
@pytest.mark.parametrize(
    "batch, m, n, k", [(0, 3, 4, 5), (7, 1, 1, 30), (300, 8, 8, 8), (5, 33, 17, 65), (3, 150, 160, 170)]
)
def test_batches(best, dtype, batch, m, n, k, rng):
    a, b = random_matrix(rng, dtype, batch, m, k), random_matrix(rng, dtype, batch, k, n)
    want = np.array([product(best, x, y, dtype) for x, y in zip(a, b, strict=True)]).reshape(batch, m, n)
    want = want.astype(a.dtype)
    assert product(best, a, b, dtype, threads=2).tobytes() == want.tobytes()
    assert product(best, a[::-1], b[::-1], dtype, threads=2).tobytes() == want[::-1].tobytes()
    swapped = np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1)
    assert product(best, swapped, b, dtype, threads=2).tobytes() == want.tobytes()
    if batch:  # one operand for the whole batch
        want = np.array([product(best, a[0], y, dtype) for y in b])
        assert product(best, np.broadcast_to(a[0], a.shape), b, dtype, threads=2).tobytes() == want.tobytes()
        want = np.array([product(best, x, b[0], dtype) for x in a])
        assert product(best, a, np.broadcast_to(b[0], b.shape), dtype, threads=2).tobytes() == want.tobytes()


def test_offsets_per_batch_entry(best, rng):
    m, n, k = 9, 21, 30
    for dtype in ("float32", "float16", "complex128"):
        pool_a, pool_b = random_matrix(rng, dtype, 4, m, k), random_matrix(rng, dtype, 3, k, n)
        pick_a, pick_b = np.array([3, 0, 0, 2, 1]), np.array([2, 2, 1, 0, 1])
        place = np.array([4, 1, 0, 2, 3])
        c = np.zeros((5, m, n), pool_a.dtype)
        offsets = tuple(
            np.asarray(p * size, np.int64) for p, size in [(pick_a, m * k), (pick_b, k * n), (place, m * n)]
        )
        product(best, pool_a[0], pool_b[0], dtype, c=c[0], offsets=offsets, batch=5, threads=2)
        for g in range(5):
            assert np.array_equal(c[place[g]], product(best, pool_a[pick_a[g]], pool_b[pick_b[g]], dtype))


# ---- memory and cancellation ----


def test_no_scratch_is_left(lib, rng):
    for dtype in DTYPES:
        for m, n, k in [(1, 1, 90000), (200, 300, 600), (1, 900, 900), (900, 1, 900)]:
            product(lib, random_matrix(rng, dtype, m, k), random_matrix(rng, dtype, k, n), dtype, threads=2)
    assert lib.t_scratch() == 0


def test_without_memory_nothing_is_written(best, rng):
    a, b = random_matrix(rng, "float16", 300, 700), random_matrix(rng, "float16", 700, 300)
    c = np.full((300, 300), 5, np.float16)
    best.t_threads(2)
    best.t_fail_after(0)
    try:
        assert best.t_gemm(ctypes.byref(arguments(a, b, c, "float16"))) == NO_MEMORY
    finally:
        best.t_fail_after(-1)
    assert (c == 5).all() and best.t_scratch() == 0
    check(product(best, a / 8, b, "float16"), a / 8, b, "float16")


@pytest.mark.parametrize("m, n, k", [(300, 300, 300), (1, 500, 500), (1, 1, 100000), (40, 40, 100000)])
def test_cancellation(best, m, n, k, rng):
    a, b = random_matrix(rng, "float32", m, k), random_matrix(rng, "float32", k, n)
    best.t_threads(2)
    best.t_cancel(1)
    try:
        assert best.t_gemm(ctypes.byref(arguments(a, b, np.zeros((m, n), "float32"), "float32"))) == CANCELLED
    finally:
        best.t_cancel(0)
    assert best.t_scratch() == 0
    check(product(best, a, b, "float32"), a, b, "float32")
