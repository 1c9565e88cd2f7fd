"""The outside witness sees what happens, and agrees with the counters of tensorx."""

import json
import pathlib
import subprocess

import pytest
import witness

MIB = 1 << 20


@pytest.fixture
def watch():
    def run(*args, **kwargs):
        try:
            return witness.watch(*args, **kwargs)
        except witness.Unavailable as why:
            pytest.skip(str(why))

    return run


def test_mallocs_are_seen(watch):
    report = watch(
        """
        mark("make")
        x = bytearray(3 << 20)
        mark("quiet")
        for i in range(1000):
            y = (i, i)
        mark("drop")
        del x
        """,
        imports="",
    )
    (size,) = report["make"].at_least(MIB)
    assert 3 * MIB <= size < 3 * MIB + 3 * 65536
    assert report["make"].held >= size
    assert report["quiet"].sizes == []
    assert report["drop"].held <= -size


def test_maps_growth_threads_and_small_mallocs_are_seen(watch):
    report = watch(
        """
        mark("map")
        m = mmap.mmap(-1, 5 << 20)
        mark("unmap")
        m.close()
        mark("grow")
        x = bytearray(1 << 20)
        x.extend(bytes(1 << 22))
        mark("thread")
        t = threading.Thread(target=lambda: keep.append(bytearray(2 << 20)))
        keep = []
        t.start(); t.join()
        mark("many")
        small = [bytes(1000) for _ in range(3000)]
        mark("child")
        subprocess.run([sys.executable, "-c", "x = bytearray(50 << 20)"], check=True)
        """,
        imports="import mmap, subprocess, sys, threading",
    )
    assert report["map"].held == 5 * MIB
    assert report["unmap"].held == -5 * MIB
    assert 5 * MIB <= report["grow"].held < 6 * MIB
    assert len(report["thread"].at_least(2 * MIB)) == 1
    assert 2 * MIB <= report["thread"].held < 3 * MIB
    assert report["many"].heap >= 3000 * 1000
    assert report["child"].at_least(20 * MIB) == []


def test_failing_code_is_reported(watch):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        watch("1 / 0", imports="")


def test_an_exit_status_is_reported(watch):
    with pytest.raises(AssertionError, match="ended with 7"):
        watch("import sys; sys.exit(7)", imports="")


def test_regions():
    regions = witness._Regions()
    regions.add(100, 50)
    regions.add(150, 50)
    assert regions.remove(0, 100) == 0
    assert regions.remove(120, 60) == 60
    assert sorted(regions.parts) == [(100, 120), (180, 200)]
    assert regions.remove(0, 1000) == 40
    assert regions.parts == []


LIBRARY = """
import ctypes, random
class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in
                "requested allocations live peak cached system scratch scratch_peak limit cap".split()]
lib = ctypes.CDLL({path!r})
lib.lib_alloc.restype = ctypes.c_void_p
lib.lib_alloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
lib.lib_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
stats, capacity = Stats(), ctypes.c_size_t()
address = ctypes.addressof(capacity)
def system():
    lib.lib_stats(ctypes.byref(stats))
    return stats.system
def allocate(n):
    p = lib.lib_alloc(n, address)
    assert p
    return p, n, capacity.value
random.seed(1)
"""


def test_allocator_counts_what_the_system_gave(watch, tmp_path):
    """The allocator alone: its `system` is, to the byte, what the kernel gave and took."""
    folder = pathlib.Path(witness.__file__).resolve().parent
    library = tmp_path / "liballoc.so"
    compiler = next((c for c in ("cc", "gcc", "clang") if witness.shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run(
        [
            *[compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread"],
            *["-I", str(folder.parent / "tensorx" / "_native")],
            *[str(folder / "native" / "alloc_library.c"), "-o", str(library)],
        ],
        check=True,
    )
    report = watch(
        """
        held = [None] * 20
        sizes = [random.choice([random.randrange(1, 50000), random.randrange(1, 20 << 20)]) for _ in range(60)]
        mark("allocate")
        for i, n in enumerate(sizes):
            if held[i % 20]:
                lib.lib_free(*held[i % 20])
            held[i % 20] = allocate(n)
        mark("reuse")
        before = system()
        for i in range(20):
            n = held[i][1]
            lib.lib_free(*held[i])
            held[i] = allocate(n)
        mark("release")
        for block in held:
            lib.lib_free(*block)
        lib.lib_empty_cache()
        mark("done")
        print(before, system(), stats.live)
        """,
        imports=LIBRARY.format(path=str(library)),
        threshold=MIB,  # Python's own, smaller needs come from the heap and are not counted as held
    )
    before, after, live = map(int, report.stdout.split())
    assert before > 20 * MIB
    assert report["allocate"].held == before
    assert report["reuse"].sizes == []
    assert report["release"].held == -before
    assert after == live == 0


NBYTES = 8 * MIB  # of the tensors below

TENSORS = """
import json
import tensorx as tx
x, y = tx.zeros((2 << 20,), dtype=tx.float32), tx.ones((2 << 20,), dtype=tx.float32)

def phases(*works):
    counted = {}
    for work in works:
        globals()["x"] = x * 2.0 + 1.0
        tx.eval(x, y)
        tx.memory.empty_cache()  # so that what is requested comes from the system
        before = tx.memory.stats()["system"]
        mark(work.__name__)
        with tx.memory.measure() as m:
            work()
        tx.memory.empty_cache()
        mark("after " + work.__name__)
        counted[work.__name__] = [m.bytes, m.allocations, tx.memory.stats()["system"] - before]
    print(json.dumps(counted))
"""


def check_phases(watch, code, buffers, small=0):
    """Each function of the code requests so many buffers, by the counters and by what the kernel saw.

    `small`: allocations of a few bytes that are made besides.
    """
    # Python's own, smaller needs come from the heap.  The figures are those of deferred mode.
    report = watch(code, imports=TENSORS, threshold=MIB, env={"TENSORX_EAGER": None, "TENSORX_DEVICE": None})
    counted = json.loads(report.stdout)
    for nbytes, _, _ in counted.values():
        assert nbytes % MIB <= 64 * small
    requested = {name: (count[0] // MIB * MIB, count[1] - small) for name, count in counted.items()}
    assert requested == {name: (n * NBYTES, n) for name, n in buffers.items()}
    for name, n in buffers.items():
        assert report[name].at_least(MIB) == n * [NBYTES], name
        assert report[name].held == counted[name][2], name
    return counted


def test_counters_of_tensorx(watch):
    counted = check_phases(
        watch,
        """
        def in_place():
            global x
            for _ in range(3):
                x = x * 2.0 + 1.0
            tx.eval(x)

        def with_alias():
            global x, keep
            keep = x.alias()
            x = x * 2.0 + 1.0
            tx.eval(x)

        def two_results():
            global a, b
            a = x - y
            b = a * y
            tx.eval(a, b)

        def release():
            global a, b, keep
            del a, b, keep

        phases(in_place, with_alias, two_results, release)
        """,
        {"in_place": 0, "with_alias": 1, "two_results": 2, "release": 0},
    )
    assert counted["release"][2] == -3 * NBYTES


def test_a_reduction_needs_no_intermediate(watch):
    check_phases(
        watch,
        """
        def small_results():
            global loss, total
            loss, total = tx.mean((x - y) ** 2), tx.sum(x)
            tx.eval(loss, total)

        phases(small_results)
        """,
        {"small_results": 0},
        small=2,
    )
