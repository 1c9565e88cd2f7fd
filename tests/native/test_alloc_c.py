"""The CPU allocator, tested in C: tensorx/_native/alloc.h through alloc_driver.c."""

import platform
import sys

import ccompile
import pytest

SOURCE = "alloc_driver.c"
CASES = """classes blocks zero counters reuse empty limit refused cap huge threads fork""".split()


@pytest.fixture
def driver():
    def run(*args, **kwargs):
        try:
            return ccompile.run(SOURCE, *args, **kwargs)
        except ccompile.Unavailable as why:
            pytest.skip(str(why))

    return run


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("variant", ["plain", "address", "thread"])
def test_case(driver, variant, case):
    driver(case, variant=variant)


def test_every_case_is_listed(driver):
    listed = set(driver("--list").split())
    assert listed == {*CASES, "retry", "speed"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_full_address_space_drops_the_cache_and_retries(driver):
    driver("retry")


@pytest.mark.parametrize("compiler", ccompile.compilers())
@pytest.mark.parametrize("case", ["blocks", "counters"])
def test_every_compiler(driver, compiler, case):
    driver(case, compiler=compiler)


def tree(root, files):
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


GIB = 1 << 30


@pytest.mark.parametrize(
    "files, memory, cpus",
    [
        ({}, -1, -1),
        ({"/proc/self/cgroup": "0::/\n"}, -1, -1),
        # version 2: the lowest limit on the way up counts
        (
            {
                "/proc/self/cgroup": "0::/a/b\n",
                "/sys/fs/cgroup/a/b/memory.max": "max\n",
                "/sys/fs/cgroup/a/memory.max": f"{2 * GIB}\n",
                "/sys/fs/cgroup/memory.max": f"{3 * GIB}\n",
                "/sys/fs/cgroup/a/b/cpu.max": "150000 100000\n",
                "/sys/fs/cgroup/a/cpu.max": "max 100000\n",
            },
            2 * GIB,
            1.5,
        ),
        # in a container whose path is that of the host
        (
            {
                "/proc/self/cgroup": "0::/../../system.slice/x\n",
                "/sys/fs/cgroup/memory.max": f"{GIB}\n",
                "/sys/fs/cgroup/cpu.max": "200000 50000\n",
            },
            GIB,
            4,
        ),
        # version 1, controllers on hierarchies of their own; a huge number means none
        (
            {
                "/proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/c/d\n3:cpuset:/\n1:name=systemd:/\n",
                "/sys/fs/cgroup/memory/m/memory.limit_in_bytes": f"{GIB}\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "/sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/c/d/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "250000\n",
                "/sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000\n",
            },
            GIB,
            2.5,
        ),
        # nonsense is no limit
        (
            {
                "/proc/self/cgroup": "garbage\n0::/a\n",
                "/sys/fs/cgroup/a/memory.max": "\n",
                "/sys/fs/cgroup/a/cpu.max": "0 0\n",
            },
            -1,
            -1,
        ),
    ],
)
def test_cgroup_limits(driver, tmp_path, files, memory, cpus):
    got_memory, got_cpus = driver("limits", tree(tmp_path, files)).split()
    assert int(got_memory) == memory
    assert float(got_cpus) == cpus


def test_speed_is_printed(driver):
    lines = driver("speed").splitlines()
    assert len(lines) == 8, platform.machine()
    assert all(float(line.split()[-2]) > 0 for line in lines)
