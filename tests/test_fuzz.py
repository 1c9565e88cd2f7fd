"""A few random programs on every device; tests/fuzz.py runs as many as asked."""

import gc
import os

import pytest
from fuzz import run

PROGRAMS = {"cpu": 200, "metal": int(os.environ.get("TENSORX_FUZZ_PROGRAMS") or 24)}


@pytest.mark.parametrize("part", range(4))
def test_random_programs(device, part):
    count = PROGRAMS[device.partition(":")[0]] // 4
    gc.collect()
    gc.freeze()  # programs collect garbage now and then: theirs, not what a thousand tests have left
    try:
        for seed in range(part * count, (part + 1) * count):
            run(seed, device)
    finally:
        gc.unfreeze()
