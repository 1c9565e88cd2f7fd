"""The thread pool, tested in C: tensorx/_native/pool.h through pool_driver.c."""

import os

import ccompile
import pytest

SOURCE = "pool_driver.c"
CASES = "once shared inline nested concurrent restart spin late signals cancel fork exit wrap".split()
# The thread sanitizer delivers a signal only when its thread meets an intercepted call, and
# neither sanitizer's own locks survive a fork while threads start.
LEFT_OUT = {"address": {"fork"}, "thread": {"late", "fork"}, "thread-condvar": {"late", "fork"}}


@pytest.fixture
def driver():
    def run(*args, **kwargs):
        try:
            return ccompile.run(SOURCE, *args, **kwargs)
        except ccompile.Unavailable as why:
            pytest.skip(str(why))

    return run


@pytest.mark.parametrize(
    "variant, case",
    [
        (variant, case)
        for variant in ["plain", "condvar", "address", "thread", "thread-condvar"]
        for case in CASES
        if case not in LEFT_OUT.get(variant, ())
    ],
)
def test_case(driver, variant, case):
    driver(case, variant=variant)


def test_every_case_is_listed(driver):
    assert set(driver("--list").split()) == {*CASES, "speed"}


@pytest.mark.parametrize("compiler", ccompile.compilers())
@pytest.mark.parametrize("case", ["once", "concurrent"])
def test_every_compiler(driver, compiler, case):
    driver(case, compiler=compiler)


@pytest.mark.parametrize(
    "value, read, used",
    [
        ("3", 3, 3),
        (" 2 ", 2, 2),
        ("100000", 256, 256),
        ("", 0, None),
        ("0", -1, None),
        ("-2", -1, None),
        ("two", -1, None),
    ],
)
def test_environment(driver, value, read, used):
    got_read, got_used, default = map(int, driver("threads", env={"TENSORX_NUM_THREADS": value}).split())
    assert got_read == read
    assert got_used == (used or default)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_affinity_sets_the_default(driver):
    program, _ = ccompile.build(SOURCE)
    mask = os.sched_getaffinity(0)
    assert int(driver("threads").split()[2]) <= len(mask)
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert int(driver("threads").split()[2]) == 1
    finally:
        os.sched_setaffinity(0, mask)


def test_speed_is_printed(driver):
    assert len(driver("speed").splitlines()) == 5
