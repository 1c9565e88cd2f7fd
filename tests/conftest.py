"""Fixtures that every test may use: device, rng, run_child.

Test bodies are written once over `device`: "cpu", and "metal" where there is a
device, real or stand-in.  `--device cpu` (repeatable) restricts the choice.
"""

import ctypes
import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import zlib

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        action="append",
        choices=["cpu", "metal"],
        help="run the tests that use the device fixture on this device only; may be repeated",
    )
    parser.addoption(
        "--all-metal",
        action="store_true",
        help="run every test of the device fixture on metal, not only the sample that tests marked metal_sample name",
    )


def available_devices():
    import tensorx as tx

    return ["cpu", "metal"] if tx.metal.is_available() else ["cpu"]


def pytest_configure(config):
    # A command that a script starts in the background ignores Ctrl-C, and so would every child that a test sends it to.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("TENSORX_REQUIRE_METAL") and "metal" not in available_devices():
        import tensorx as tx

        raise pytest.UsageError(f"TENSORX_REQUIRE_METAL is set: {tx.metal.unavailable_reason()}")


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--device")
        devices = available_devices()
        for name in wanted or ():
            if name not in devices:
                import tensorx as tx

                raise pytest.UsageError(f"--device {name}: {tx.metal.unavailable_reason()}")
        devices = [name for name in devices if not wanted or name in wanted]
        metafunc.parametrize("device", devices, indirect=True)


# What neither the engine's mode nor the number of threads nor the instruction set can change.
ONCE = (
    "tests/native/",
    "tests/metal/",
    "tests/test_codegen.py",
    "tests/test_docs.py",
    "tests/test_packaging.py",
    "tests/test_style.py",
    "tests/test_table.py::test_lint",
    "tests/test_timeouts.py",
    "tests/test_witness.py",
    "tests/train/test_kill",
)


def _sampled_out(item):
    """Whether a case on metal is left to --all-metal: kernels take a while to compile, and those of every
    row and dtype are tested in tests/metal."""
    mark = item.get_closest_marker("metal_sample")
    if mark is None or item.callspec.params.get("device") != "metal":
        return False
    keep = mark.kwargs["keep"]
    return not keep(*(item.callspec.params[name] for name in keep.__code__.co_varnames[: keep.__code__.co_argcount]))


def _of_the_cpu(item):
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("device") == "metal" and item.get_closest_marker("cpu_fact") is not None


def pytest_collection_modifyitems(config, items):
    """Marks what one mode shows for all; tests marked `metal` but not written over `device` need the device, too."""
    sampled = not config.getoption("--all-metal")
    left = [item for item in items if _of_the_cpu(item) or sampled and _sampled_out(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
    for item in items:
        if item.nodeid.startswith(ONCE):
            item.add_marker("once")
    marked = [item for item in items if item.get_closest_marker("metal")]
    if not marked:
        return
    wanted = config.getoption("--device")
    reason = None
    if wanted and "metal" not in wanted:
        reason = "--device leaves metal out"
    elif "metal" not in available_devices():
        import tensorx as tx

        reason = tx.metal.unavailable_reason()
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no metal device: {reason}"))


def _devices_line(tested):
    """One sentence: which devices the tests ran on, or why not."""
    try:
        import tensorx as tx

        metal = tx.metal.is_available()
        detail = str(tx.device("metal").name) if metal else tx.metal.unavailable_reason()
    except Exception as error:
        return f"devices tested: none ({type(error).__name__}: {error})"
    parts = [name for name in ("cpu",) if name in tested]
    if "metal" in tested:
        parts.append(f"metal ({detail})")
    line = "devices tested: " + (", ".join(parts) or "none")
    if "metal" not in tested:
        line += "; metal NOT tested: " + ("not selected" if metal else str(detail))
    return line


def pytest_terminal_summary(terminalreporter, config):
    stats = terminalreporter.stats
    tested = set()
    for report in stats.get("passed", []) + stats.get("failed", []):
        tested.update(value for name, value in report.user_properties if name == "device")
    line = _devices_line(tested)
    terminalreporter.write_line(line)
    path = os.environ.get("TENSORX_TEST_REPORT")
    if path:
        kinds = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
        counts = ", ".join(f"{len(stats[kind])} {kind}" for kind in kinds if stats.get(kind))
        with open(path, "w") as f:
            f.write(f"{counts}\n{line}\n")


@functools.cache
def _stand_in():
    """The stand-in for Metal, or None: it notes what real Metal would not forgive."""
    path = os.environ.get("TENSORX_METAL_BRIDGE")
    if not path or not os.path.exists(path):
        return None
    lib = ctypes.CDLL(path)
    return lib if hasattr(lib, "sm_violations") else None


@pytest.fixture(autouse=True)
def _no_violations(request):
    """Every test leaves the stand-in without a violation: a race, a leak, a stray access."""
    yield
    lib = _stand_in()
    if lib is None:
        return
    if getattr(request.node, "callspec", None) and request.node.callspec.params.get("device") == "metal":
        import tensorx as tx

        tx.synchronize()
    text = ctypes.create_string_buffer(1 << 16)
    if lib.sm_violations(text, len(text)):
        lib.sm_clear()
        pytest.fail("the stand-in for Metal noted:\n" + text.value.decode(errors="replace"))


@functools.cache
def _second_instance():
    import tensorx as tx

    return str(tx.metal.open(0))


@pytest.fixture
def device(request, record_property):
    """Name of the device that the test body runs on.

    With TENSORX_TEST_INSTANCE=2, metal is a second instance of the GPU.
    """
    record_property("device", request.param)
    if request.param == "metal" and os.environ.get("TENSORX_TEST_INSTANCE") == "2":
        return _second_instance()
    return request.param


@pytest.fixture
def on_device(device):
    """The test body runs with the device as its default, so that it need not name it."""
    import tensorx as tx

    with tx.device(device):
        yield device


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """On metal, bodies written over the default device are left where they come to float64, which is not there."""
    if "on_device" not in getattr(item, "fixturenames", ()) or item.callspec.params.get("device") != "metal":
        return (yield)
    import tensorx as tx

    try:
        return (yield)
    except tx.DTypeError as error:
        if "no 64-bit floating point" in str(error) or "is not on Metal" in str(error):
            pytest.skip("float64 is not on Metal")
        raise


@pytest.fixture
def threads():
    """Sets the number of threads; the old one comes back."""
    import tensorx as tx

    old = tx.get_num_threads()
    yield tx.set_num_threads
    tx.set_num_threads(old)


@pytest.fixture
def rng(request):
    """numpy.random.Generator whose seed depends on nothing but the test's name."""
    import numpy as np

    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


class Hang(AssertionError):
    """The child did not end in time."""


_PREAMBLE = """\
import faulthandler, os, sys
{imports}
faulthandler.dump_traceback_later({dump}, exit=False)
os.write({fd}, b"r")
os.close({fd})
"""


def _kill_group(proc):
    try:
        os.killpg(proc.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_child_process(
    code,
    timeout=5.0,
    *,
    env=None,
    imports="import numpy as np\nimport tensorx as tx",
    check=True,
    start_timeout=50.0,
):
    """Run `code` in a fresh interpreter and kill it, with its children, after `timeout` seconds.

    The clock starts when the imports are done, so a loaded machine does not look like a hang.
    Returns subprocess.CompletedProcess with text output.  Raises Hang with the child's stacks
    when it had to be killed and, with `check`, AssertionError when it ended with an error.
    """
    reader, writer = os.pipe()
    preamble = _PREAMBLE.format(imports=imports, dump=max(timeout - 0.5, timeout * 0.8), fd=writer)
    source = preamble + textwrap.dedent(code)
    proc = subprocess.Popen(
        [sys.executable, "-c", source],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        pass_fds=[writer],
        start_new_session=True,  # so that grandchildren die with it
    )
    os.close(writer)
    starting = threading.Timer(start_timeout, _kill_group, [proc])
    starting.start()
    try:
        ready = os.read(reader, 1)  # empty when the child ended before it was ready
    finally:
        starting.cancel()
        os.close(reader)
    try:
        out, err = proc.communicate(timeout=timeout if ready else 10)
    except subprocess.TimeoutExpired:
        _kill_group(proc)
        out, err = proc.communicate()
        raise Hang(f"child still ran after {timeout} s; its stacks:\n{err}\noutput:\n{out}") from None
    except BaseException:
        _kill_group(proc)
        proc.wait()
        raise
    finally:
        if proc.poll() is not None:
            _kill_group(proc)  # what the child left behind
    done = subprocess.CompletedProcess(proc.args[:2], proc.returncode, out, err)
    if check and done.returncode != 0:
        raise AssertionError(f"child ended with {done.returncode}\n{err}\noutput:\n{out}")
    return done


@pytest.fixture
def run_child():
    """The function run_child_process, see there."""
    return run_child_process
