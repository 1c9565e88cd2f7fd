"""Fixtures for the tests of the stand-in itself: ``pytest tests/softmetal``.

They are kept out of the tests of tensorx (norecursedirs): what they build is the
test tool, not the product.
"""

import pytest
import soft as tool


@pytest.fixture(scope="session")
def lib():
    reason = tool.missing()
    if reason:
        pytest.skip(reason)
    return tool.library()


@pytest.fixture
def soft(lib):
    """A device and a queue.  Knobs are reset, and a test that expects no violation has none."""
    lib.sm_reset()
    device = tool.Soft()
    yield device
    left = tool.violations()
    device.close()
    lib.sm_reset()
    assert left == []


@pytest.fixture
def caught(soft, lib):
    """Take the violations so far: ``caught("race")`` wants at least one of that kind and no other."""

    def take(*kinds):
        seen = tool.violations()
        lib.sm_clear()
        assert {v.split(":")[0] for v in seen} == set(kinds), seen
        return seen

    return take
