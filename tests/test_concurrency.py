"""Nothing hangs: Ctrl-C, fork, threads, exit, pools, other interpreters. What could hang runs in a child that is killed."""

import os
import re
import sys
import sysconfig
import threading
import time

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core

POKE = """
import os, signal, threading, time
def poke(after):
    def run():
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=run, daemon=True).start()
"""

SLOW = """
class Slow(tx.InplaceOp):
    name = "slow"
    def cpu(self, x):
        time.sleep(30)
    def metal(self, x):
        time.sleep(30)
"""


# ---- Ctrl-C ------------------------------------------------------------------------------------------------


def test_ctrl_c_in_a_long_product(run_child):
    out = run_child(
        POKE + """
a = tx.ones((7000, 7000))
before = tx.memory.stats()["live"]
poke(0.5)
began = time.monotonic()
try:
    for _ in range(50):
        b = a @ a
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 1.5)
assert tx._core.held_storages() == 0
print((a[:2] @ a[:, :2]).tolist())
b = None
assert tx.memory.stats()["live"] == before, tx.memory.stats()
""",
        timeout=20,
    ).stdout
    assert out.split("\n")[:2] == ["interrupted True", "[[7000.0, 7000.0], [7000.0, 7000.0]]"]


def test_ctrl_c_in_a_convolution(run_child):
    out = run_child(
        POKE + """
x, w = tx.ones((8, 64, 128, 128)), tx.ones((128, 64, 5, 5))
poke(0.3)
began = time.monotonic()
try:
    for _ in range(20):
        tx.nn.functional.conv2d(x, w)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 1.3)
print(tx._core.held_storages(), tx.nn.functional.conv2d(x[:1, :, :8, :8], w)[0, 0, 0, 0].item())
""",
        timeout=20,
        imports="import tensorx as tx\nimport tensorx.nn",
    ).stdout
    assert out.split("\n")[:2] == ["interrupted True", "0 1600.0"]


def test_ctrl_c_in_a_sort(run_child):
    """It ends between two lines or two digits, long before the sort would."""
    out = run_child(
        POKE + """
x = tx.rand(5_000, 10_000)
tx.sort(x, axis=1)
before = tx.memory.stats()["live"]
soon = False
for _ in range(4):                           # a busy machine may delay the signal itself
    began = time.monotonic()
    tx.sort(x, axis=1)
    whole = time.monotonic() - began
    poke(0.1 * whole)
    began = time.monotonic()
    try:
        for _ in range(20):
            tx.sort(x, axis=1)
    except KeyboardInterrupt:
        soon = soon or time.monotonic() - began < 0.75 * whole
print("interrupted", soon)
assert tx._core.held_storages() == 0 and tx.memory.stats()["live"] == before
print(tx.sort(tx.asarray([3, 1, 2])).tolist())
""",
        timeout=30,
    ).stdout
    assert out.split("\n")[:2] == ["interrupted True", "[1, 2, 3]"]


def test_a_handler_that_raises_something_else(run_child):
    out = run_child(
        POKE + """
def handler(number, frame):
    raise LookupError("from the handler")
signal.signal(signal.SIGINT, handler)
a = tx.ones((4000, 4000))
poke(0.3)
try:
    for _ in range(50):
        a @ a
except LookupError as e:
    print(e)
signal.signal(signal.SIGINT, lambda *_: print("seen"))
poke(0.1)
b = a @ a
time.sleep(0.3)
print(b[0, 0].item())
""",
        timeout=20,
    ).stdout
    assert out.split("\n")[:3] == ["from the handler", "seen", "4000.0"]


@pytest.mark.parametrize("target", ["cpu", pytest.param("metal", marks=pytest.mark.metal)])
def test_ctrl_c_while_waiting_for_another_thread(run_child, target):
    out = run_child(
        POKE + SLOW + f"""
x = tx.ones(8, device={target!r})
t = threading.Thread(target=lambda: Slow()(x), daemon=True)
t.start()
time.sleep(0.3)
poke(0.3)
began = time.monotonic()
try:
    x.add_(1.0)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 1.3, flush=True)
y = tx.ones(8, device={target!r})
print((y + 1.0).tolist()[0], flush=True)
os._exit(0)
""",
        timeout=20,
    ).stdout
    assert out.split("\n")[:2] == ["interrupted True", "2.0"]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_ctrl_c_in_a_fetch_of_a_data_loader(run_child, prefetch):
    out = run_child(
        POKE + f"""
class Slow:
    def __len__(self):
        return 100
    def __getitem__(self, i):
        if i >= 8:
            time.sleep(0.5 if {prefetch} else 30)
        return tx.ones(3) * float(i)
loader = tx.train.DataLoader(Slow(), batch_size=4, prefetch={prefetch})
poke(0.4)
began = time.monotonic()
try:
    for batch in loader:
        pass
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 1.4, flush=True)
print((batch[0] if isinstance(batch, tuple) else batch).shape, (tx.ones(2) + 1.0).tolist())
for batch in tx.train.DataLoader(tx.train.TensorDataset(tx.arange(6)), batch_size=3, prefetch={prefetch}):
    print(batch[0].tolist())
""",
        timeout=20,
        imports="import numpy as np\nimport tensorx as tx\nimport tensorx.train",
    ).stdout
    assert out.split("\n")[:4] == ["interrupted True", "(4, 3) [2.0, 2.0]", "[0, 1, 2]", "[3, 4, 5]"]


@pytest.mark.metal
def test_ctrl_c_in_a_wait_for_metal(run_child):
    out = run_child(
        POKE + """
k = tx.metal.kernel("float s = x; for (int i = 0; i < 20000; i++) s = s * 0.999f + 0.001f; x = s;", "x", elementwise=True, name="long")
x = tx.ones(4096, device="metal")
k(x)
tx.synchronize()
x = tx.ones(20000, device="metal")
poke(0.5)
began = time.monotonic()
try:
    for _ in range(8):
        k(x)
    x[0].item()
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 1.6, flush=True)
y = tx.ones(8, device="metal")
print((y + 1.0).tolist()[0], flush=True)
os._exit(0)
""",
        timeout=40,
    )
    assert out.stdout.split("\n")[:2] == ["interrupted True", "2.0"], out


# ---- fork ----------------------------------------------------------------------------------------------------


FORK = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
def child(f, seconds=10):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            f()
            sys.stdout.flush()
        except BaseException as e:
            print("child:", type(e).__name__, e, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def test_fork_while_other_threads_read_and_write(run_child):
    out = run_child(
        FORK + """
tx._core.set_bounds(long_ns=0)
x = tx.ones(400000)
y = tx.ones((600, 600))
stop = []
def work():
    z = tx.zeros(400000)
    while not stop:
        (x * 2.0 + 1.0).sum().item()
        y @ y
        z.copy_(x * 3.0)
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for t in threads:
    t.start()
def in_child():
    x.add_(1.0)                              # nobody here reads it any more
    assert x[5].item() == 2.0, x[5].item()
    y.mul_(2.0)
    assert (y @ y)[0, 0].item() == 2400.0
    assert (tx.ones(100000) * 2.0).sum().item() == 200000.0
codes = []
for _ in range(8):
    time.sleep(0.02)
    codes.append(child(in_child))
stop.append(1)
for t in threads:
    t.join()
print(codes)
""",
        timeout=30,
    ).stdout
    assert out.split("\n")[0] == str([0] * 8), out


def test_fork_while_another_thread_writes_says_so(run_child):
    out = run_child(
        FORK + """
class Slow(tx.InplaceOp):
    name = "slow"
    def cpu(self, x):
        time.sleep(2)
x, y = tx.ones(8), tx.ones(8)
t = threading.Thread(target=lambda: Slow()(x))
t.start()
time.sleep(0.3)
def in_child():
    for use in (lambda: x.add_(1.0), lambda: x.tolist(), lambda: (x + y).tolist()):
        try:
            use()
        except tx.ThreadingError as e:
            assert "forked" in str(e) and "another thread" in str(e)
        else:
            raise AssertionError("no error")
    print((y + 1.0).tolist()[0], flush=True)
print(child(in_child))
t.join()
print(x.add_(1.0).tolist()[0])
""",
        timeout=20,
    ).stdout
    assert out.split() == ["2.0", "0", "2.0"]


def test_fork_in_the_body_of_an_op(run_child):
    out = run_child(
        FORK + """
x = tx.ones(8)
class Forks(tx.InplaceOp):
    name = "forks"
    def cpu(self, v):
        def in_child():
            x.add_(1.0)                      # the thread that holds it exists here
            assert x.tolist() == [2.0] * 8
        print(child(in_child))
Forks()(x)
""",
        timeout=20,
    ).stdout
    assert out.split() == ["0"]


# ---- exit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", pytest.param("metal", marks=pytest.mark.metal)])
def test_exit_with_work_under_way(run_child, target):
    done = run_child(
        f"""
import threading, atexit
n = 1500 if {target!r} == "cpu" else 200    # the stand-in computes slowly
x = tx.ones((n, n), device={target!r})
pending = x * 2.0 + 1.0
view = x.T
def work():
    while True:
        (x @ x).sum()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
kept = tx.memory.record()
kept.__enter__()
y = x * 3.0
atexit.register(lambda: print("exit", (tx.ones(3) + 1.0).tolist()))
""",
        timeout=20,
    )
    assert done.stdout.strip() == "exit [2.0, 2.0, 2.0]" and "Traceback" not in done.stderr


# ---- threads and pools --------------------------------------------------------------------------------------------


def test_the_number_of_threads(threads):
    x = tx.arange(300000).astype(tx.float32)
    want = (x * 2.0 + 1.0).numpy(copy=True)
    for n in (1, 2, 7, 3, 1):
        threads(n)
        assert tx.get_num_threads() == n
        assert np.array_equal((x * 2.0 + 1.0).numpy(copy=True), want)
    for wrong in (0, -1, 2.0, True, "2"):
        with pytest.raises(ValueError, match="set_num_threads"):
            tx.set_num_threads(wrong)


def test_changing_the_number_of_threads_while_they_work(threads):
    x = tx.ones(500000)
    stop = threading.Event()
    bad = []

    def work():
        while not stop.is_set():
            if (x * 2.0).sum().item() != 1000000.0:
                bad.append(1)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for t in workers:
        t.start()
    for n in [1, 4, 2, 8, 1, 3] * 5:
        threads(n)
        time.sleep(0.005)
    stop.set()
    for t in workers:
        t.join(20)
        assert not t.is_alive()
    assert not bad


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_the_pool_keeps_to_the_cpus_of_the_process(run_child):
    out = run_child("print(tx.get_num_threads())", imports="import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nimport tensorx as tx").stdout
    assert out.split() == ["1"]


def test_pool_1_blocks_belong_to_one_thread(device):
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 30000, (8, 40)).tolist()
    bad = []
    tx.synchronize()
    live = tx.memory.stats(device)["live"]

    def work(k):
        for n in sizes[k]:
            x = tx.full((n,), float(k), dtype=tx.float32, device=device)
            y = x + 0.0
            if y[n - 1].item() != k or x[0].item() != k:
                bad.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
        assert not t.is_alive()
    assert not bad and tx.memory.stats(device)["live"] == live


def test_thr_1_threads_agree_with_one(device):
    def work(k):
        a = tx.arange(200 + k, device=device).astype(tx.float32)
        i = tx.arange(50, dtype=tx.int32, device=device)
        return [(a * 2.0 + k).sum().item(), (i * k).sum().item(), tx.linspace(0.0, 1.0, 33, device=device)[7].item()]

    want = [work(k) for k in range(8)]
    got = [None] * 8

    def store(k):
        for _ in range(5):
            got[k] = work(k)

    threads = [threading.Thread(target=store, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert got == want


def test_async_1_a_source_that_dies_at_once(device):
    d = []
    for i in range(3):
        h = tx.full((1000,), float(i), dtype=tx.float32)
        d.append(h.to(device))
        del h
        tx.full((1000,), -1.0, dtype=tx.float32)
    assert [x[999].item() for x in d] == [0.0, 1.0, 2.0]


def test_leak_3_many_small_ops_on_threads(device):
    def work():
        x = tx.ones(4, device=device)
        for _ in range(300):
            x = x * 1.0
            tx.eval(x)

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    work()
    live = tx.memory.stats(device)["live"]
    begun = resident() if sys.platform == "linux" else 0
    for _ in range(3):
        t = threading.Thread(target=work)
        t.start()
        work()
        t.join(30)
    assert tx.memory.stats(device)["live"] == live
    if sys.platform == "linux":
        assert resident() - begun < 32 << 20


class Mix(tx.InplaceOp):
    name = "mix"
    elementwise = True

    def cpu(self, x, y):
        np.add(x, y, out=x)

    metal = tx.metal.kernel("x = x + y", "x, y", elementwise=True, name="mix")


def stress(device, seconds, count, seed=0):
    """Threads that read, write, alias, view and drop shared tensors. Every tensor holds one number in all places at all
    times: whoever sees two has seen a write half done."""
    from tensorx import _core

    tx.synchronize()
    live = tx.memory.stats(device)["live"]
    storages = _core.storage_count()
    shared = [tx.full((n,), 1.0, dtype=tx.float32, device=device) for n in (16, 1000, 5000, 70000, 70000)]
    lock = threading.Lock()
    problems = []
    until = time.monotonic() + seconds
    old = _core.set_bounds(long_ns=2000)

    def whole(t, what):
        values = np.asarray(t.numpy(copy=True)).ravel()
        if values.size and not (values == values[0]).all():
            problems.append((what, values.min(), values.max()))

    def work(k):
        rng = np.random.default_rng([seed, k])
        mine = []
        try:
            while time.monotonic() < until and not problems:
                for _ in range(20):
                    i = int(rng.integers(len(shared)))
                    x = shared[i]
                    what = int(rng.integers(12))
                    if what == 0:
                        mine.append(x * 2.0 - x)
                    elif what == 1:
                        x.copy_(x * 0.5 + 0.5)
                    elif what == 2:
                        x.fill_(float(rng.integers(5)))
                    elif what == 3:
                        mine.append(x.alias())
                    elif what == 4:
                        whole(x[::2], "view")
                    elif what == 5:
                        whole(x.reshape((2, -1)).mT + 1.0, "transposed")
                    elif what == 6:
                        Mix()(x, tx.ones(x.shape, device=device))
                    elif what == 7:
                        with lock:
                            shared[i] = tx.full(x.shape, 2.0, dtype=tx.float32, device=device)
                    elif what == 8:
                        whole(x.copy(), "copy")
                    elif what == 9:
                        x.mul_(0.5)
                    elif what == 10:
                        a = x.sum().item() if x.shape[0] < 2000 else 0.0
                        if a != a:
                            problems.append(("sum", a))
                    elif mine:
                        whole(mine.pop(int(rng.integers(len(mine)))), "kept")
                    del x
                if len(mine) > 20:
                    del mine[:10]
        except BaseException as e:
            problems.append((type(e).__name__, str(e)))
            raise

    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join(seconds + 30)
            assert not t.is_alive(), "a thread hangs"
    finally:
        _core.set_bounds(long_ns=old[3])
    assert not problems, problems[:3]
    del shared[:], threads, t
    tx.synchronize()
    assert _core.held_storages() == 0 and _core.pending_count() == 0
    assert tx.memory.stats(device)["live"] == live and _core.storage_count() == storages


def test_sixteen_threads(device):
    stress(device, float(os.environ.get("TENSORX_STRESS_SECONDS", "3")), 16)


def test_storages_are_marked_with_their_thread():
    """A bare count would not be found by whoever waits: all marks go through one function."""
    native = os.path.join(os.path.dirname(tx.__file__), "_native")
    names = [n for n in (os.listdir(native) if os.path.isdir(native) else ()) if n.endswith(".pxi") and n != "threads.pxi"]
    if not names:
        pytest.skip("the sources are not installed")
    for name in names:
        with open(os.path.join(native, name)) as f:
            assert not re.search(r"\.(reading|writing) [+-]=", f.read()), name


# ---- the tests above would see a fault in locking --------------------------------------------------------------------


def test_a_mark_that_is_never_taken_off_is_reported_with_stacks(run_child):
    """A seeded fault: another thread's mark stays. The write waits, the limit of the test ends it and shows where."""
    with pytest.raises(AssertionError) as hang:  # Hang of conftest.py
        run_child(
            """
import threading
x = tx.ones(8)
def fault():
    global held
    held = tx._core.hold("seeded", (x,), ())     # and never left
t = threading.Thread(target=fault)
t.start()
t.join()
x.add_(1.0)
""",
            timeout=3,
        )
    assert "its stacks" in str(hang.value) and "in <module>" in str(hang.value)


# ---- interpreters ------------------------------------------------------------------------------------------------------


def test_a_second_interpreter_is_refused(run_child):
    out = run_child(
        """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
try:
    i = interpreters.create("legacy")
except (TypeError, ValueError):
    i = interpreters.create(isolated=False)
code = "import sys; sys.path[:] = " + repr(sys.path) + '''
try:
    import tensorx
except ImportError as e:
    print("ImportError:", e, flush=True)
else:
    print("imported", flush=True)
'''
result = interpreters.run_string(i, code)
print((tx.ones(2) + 1.0).tolist())
""",
        timeout=20,
    ).stdout
    assert out.startswith("ImportError:") and "interpreter" in out and out.rstrip().endswith("[2.0, 2.0]"), out


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="a build with the GIL")
def test_a_free_threaded_build_is_refused_without_the_gil():
    assert sys._is_gil_enabled()


def test_the_words_about_unsupported_builds(monkeypatch):
    """Without the GIL the import is refused in words; this build has one, so the check is asked directly."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(ImportError, match="free-threaded.*PYTHON_GIL=1"):
        tx._refuse_unsupported()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    tx._refuse_unsupported()
    assert _core.held_storages() == 0
