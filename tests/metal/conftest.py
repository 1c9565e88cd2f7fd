"""Fixtures for the Metal layer below the engine: bridge, kernels and launchers, without a Tensor.

They need a bridge: the one built with the package on macOS, or the one that TENSORX_METAL_BRIDGE names
(the stand-in on Linux).  Without one everything here is skipped, with the reason.
"""

import pytest
from metal_tools import FILL, Gpu, StandIn

from tensorx.metal import bridge


@pytest.fixture(scope="session")
def metal():
    reason = bridge.unavailable_reason()
    if reason:
        pytest.skip(f"no Metal here: {reason}")
    return bridge.load()


@pytest.fixture(scope="session")
def stand_in_or_none(metal):
    try:
        return StandIn(metal.lib)
    except AttributeError:
        return None


@pytest.fixture
def stand_in(stand_in_or_none):
    if stand_in_or_none is None:
        pytest.skip("needs the stand-in's knobs")
    return stand_in_or_none


@pytest.fixture(autouse=True)
def clean_stand_in(request):
    """After each test on the stand-in: knobs back, and no violation."""
    if "metal" not in request.fixturenames and "inst" not in request.fixturenames and "gpu" not in request.fixturenames:
        yield
        return
    knobs = request.getfixturevalue("stand_in_or_none")
    yield
    if knobs is not None:
        count, text = knobs.violations()
        knobs.reset()
        assert count == 0, text


@pytest.fixture
def inst(metal):
    """An instance of its own per test."""
    instance = bridge.Instance(0, name="metal:0")
    yield instance
    try:
        instance.synchronize()
    except Exception:
        pass  # tests that make failures look at them themselves
    instance.close()


@pytest.fixture
def gpu(inst):
    return Gpu(inst)


@pytest.fixture
def run(inst):
    """Encode ``fill`` or ``add`` of the text above over whole buffers of uint32."""

    def call(name, *buffers, value=0, count=None, label=None, **options):
        kernel = inst.kernel(FILL, name)
        n = count or buffers[-1].nbytes // 4
        width = kernel.execution_width
        n = n // width * width if n > width else n
        reads = [bridge.Binding(b, 4, bridge.READ) for b in buffers[:-1]]
        writes = [bridge.Binding(buffers[-1], 4, bridge.WRITE | bridge.OVERWRITE)]
        constants = int(value).to_bytes(4, "little")
        group = (min(n, width), 1, 1)
        return inst.encode(kernel, reads + writes, (n,), constants, label=label, group=group, **options)

    return call
