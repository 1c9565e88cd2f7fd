"""Products through an outside BLAS: tensorx/_native/blas.h with the plain library fake_blas.c."""

import functools
import os
import subprocess
import sys
import textwrap

import gemm_lib
import pytest
from ccompile import _COMMON, HERE, _folder, compilers
from kernel_lib import ISAS, Missing

KINDS = {"plain": [], "wide": ["-DWIDE"], "threads": ["-DTHREADS"]}

PROLOGUE = f"""
import ctypes, os, sys
import numpy as np
sys.path.insert(0, {str(HERE)!r})
import gemm_lib
from gemm_lib import ACCUMULATE, CONJ_A, CONJ_B, product, random_matrix
lib = ctypes.CDLL(sys.argv[1])
lib.t_blas_name.restype = ctypes.c_char_p
fake = ctypes.CDLL(sys.argv[2])
fake.fake_calls.restype = ctypes.c_long
rng = np.random.default_rng(0)
DTYPES = "float32 float64 complex64 complex128".split()

def calls():
    now = fake.fake_calls()
    calls.made, calls.before = now - calls.before, now
    return calls.made
calls.before = 0

def close(got, want, dtype):
    return np.allclose(got, want, rtol=0, atol=(1e-3 if dtype in ("float32", "complex64") else 1e-10))
"""


@functools.cache
def fake(kind):
    output = _folder()[1] / f"fake_blas_{kind}.so"
    command = [compilers()[0], *_COMMON, "-O2", "-fPIC", "-shared", *KINDS[kind]]
    subprocess.run([*command, str(HERE / "fake_blas.c"), "-o", str(output)], check=True)
    return str(output)


def run(kind, body, choice=None):
    """A script of its own, since a process decides once which library it uses."""
    for isa in reversed(ISAS):
        try:
            library = gemm_lib.library(isa)._name
            break
        except Missing as reason:
            why = reason
    else:
        pytest.skip(str(why))
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(body), library, fake(kind)],
        env={**os.environ, "TENSORX_BLAS": fake(kind) if choice is None else choice},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_large_products_take_it(kind):
    run(
        kind,
        """
        for dtype in DTYPES:
            a, b = random_matrix(rng, dtype, 600, 50), random_matrix(rng, dtype, 50, 60)
            bias = random_matrix(rng, dtype, 60)
            for x in (a, np.asfortranarray(a)):
                for y in (b, np.asfortranarray(b)):
                    assert close(product(lib, x, y, dtype, threads=2), a @ b, dtype) and calls() > 0
                    assert close(product(lib, x, y, dtype, bias=bias), a @ b + bias, dtype) and calls() > 0
            wide = np.zeros((600, 90), a.dtype)
            assert close(product(lib, a, b, dtype, c=wide[:, 20:80]), a @ b, dtype) and calls() > 0
            assert not wide[:, :20].any() and not wide[:, 80:].any()
            stack = random_matrix(rng, dtype, 3, 50, 600).transpose(0, 2, 1)
            assert close(product(lib, stack, b[::1], dtype, c=np.zeros((3, 600, 60), a.dtype)), stack @ b, dtype)
            assert calls() > 0
        """
        + ("assert fake.fake_threads() == 1" if kind != "threads" else ""),
    )


def test_conjugates():
    run(
        "plain",
        """
        for dtype in DTYPES[2:]:
            a, b = random_matrix(rng, dtype, 600, 50), random_matrix(rng, dtype, 50, 60)
            for x in (a, np.asfortranarray(a)):
                for y in (b, np.asfortranarray(b)):
                    assert close(product(lib, x, y, dtype, flags=CONJ_A), a.conj() @ b, dtype)
                    assert close(product(lib, x, y, dtype, flags=CONJ_B), a @ b.conj(), dtype)
                    assert close(product(lib, x, y, dtype, flags=CONJ_A | CONJ_B), a.conj() @ b.conj(), dtype)
        assert calls() > 0
        """,
    )


def test_what_it_cannot_do_stays_with_us():
    run(
        "plain",
        """
        a, b = random_matrix(rng, "float32", 600, 50), random_matrix(rng, "float32", 50, 60)
        want = a @ b
        c = np.ones_like(want)
        product(lib, a, b, "float32", c=c, flags=ACCUMULATE)
        assert close(c, want + 1, "float32")
        assert close(product(lib, a[::-1], b, "float32"), want[::-1], "float32")
        assert close(product(lib, a[:, ::2], b[::2], "float32"), a[:, ::2] @ b[::2], "float32")
        assert close(product(lib, a, b, "float32", c=np.zeros((60, 600), "float32").T), want, "float32")
        assert close(product(lib, a[:20], b, "float32"), want[:20], "float32")
        half = (a / 4).astype("float16"), (b / 4).astype("float16")
        assert np.allclose(product(lib, *half, "float16"), want / 16, atol=0.3)
        ints = random_matrix(rng, "int32", 600, 50), random_matrix(rng, "int32", 50, 60)
        assert np.array_equal(product(lib, *ints, "int32"), ints[0] @ ints[1])
        assert calls() == 0
        """,
    )


@pytest.mark.parametrize("kind, used", [("plain", True), ("threads", False)])
def test_after_a_fork(kind, used):
    """A library with threads of its own is not called again in the child."""
    run(
        kind,
        f"""
        a, b = random_matrix(rng, "float32", 600, 50), random_matrix(rng, "float32", 50, 60)
        product(lib, a, b, "float32")
        assert calls() > 0 and lib.t_blas_name().decode() == sys.argv[2]
        pid = os.fork()
        if pid == 0:
            good = close(product(lib, a, b, "float32"), a @ b, "float32") and (calls() > 0) == {used}
            os._exit(0 if good else 1)
        assert os.waitpid(pid, 0)[1] == 0
        product(lib, a, b, "float32")
        assert calls() > 0
        """,
    )


@pytest.mark.parametrize("choice", ["own", "/nowhere/libblas.so"])
def test_without_it(choice):
    done = run(
        "plain",
        """
        a, b = random_matrix(rng, "float32", 600, 50), random_matrix(rng, "float32", 50, 60)
        assert close(product(lib, a, b, "float32"), a @ b, "float32")
        assert calls() == 0 and lib.t_blas_name() == b"own"
        """,
        choice,
    )
    assert ("TENSORX_BLAS=/nowhere/libblas.so" in done.stderr) == (choice != "own")


def test_number_of_threads_does_not_matter():
    run(
        "plain",
        """
        a, b = random_matrix(rng, "float32", 3000, 40), random_matrix(rng, "float32", 40, 64)
        want = product(lib, a, b, "float32", threads=1)
        made = calls()
        for threads in (2, 3):
            assert np.array_equal(product(lib, a, b, "float32", threads=threads), want) and calls() == made
        """,
    )
