"""The buffer pool: slabs, size classes, counters, limits, recycling, out of memory."""

import random
import threading

import pytest

from tensorx.errors import OutOfMemoryError
from tensorx.metal import bridge

PAGE = 16384


@pytest.fixture
def inst(metal):
    instance = bridge.Instance(0, page_bytes=PAGE, no_slabs=0)
    yield instance
    instance.close()


def test_counters_follow_requests(inst):
    a = inst.alloc(100)
    b = inst.alloc(3 * PAGE)
    s = inst.stats()
    assert (s["requested"], s["allocations"], s["live"], s["live_buffers"]) == (100 + 3 * PAGE, 2, 100 + 3 * PAGE, 2)
    a.release()
    s = inst.stats()
    assert s["live"] == 3 * PAGE and s["peak"] == 100 + 3 * PAGE
    del b
    s = inst.stats()
    assert s["live"] == 0 and s["live_buffers"] == 0 and s["cached"] == s["reserved"]
    inst.reset_peak()
    assert inst.stats()["peak"] == 0


def test_small_storages_share_a_slab(inst):
    buffers = [inst.alloc(40) for _ in range(200)]
    s = inst.stats()
    assert s["metal_buffers"] == 1 and s["driver"] >= s["reserved"]
    infos = [b.info() for b in buffers]
    assert len({i.metal_buffer for i in infos}) == 1
    offsets = sorted(i.metal_offset for i in infos)
    assert len(set(offsets)) == 200 and all(o % 256 == 0 for o in offsets)
    addresses = sorted(b.contents for b in buffers)
    assert all(b - a >= 256 for a, b in zip(addresses, addresses[1:]))


def test_slabs_can_be_switched_off(metal):
    instance = bridge.Instance(0, no_slabs=1)
    keep = [instance.alloc(40) for _ in range(5)]
    assert instance.stats()["metal_buffers"] == 5 and all(b.info().metal_offset == 0 for b in keep)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, PAGE // 2, PAGE // 2 + 1, PAGE - 1, PAGE, PAGE + 1,
                                    9 * PAGE + 1, 100 * PAGE + 7])  # fmt: skip
def test_capacity_holds_the_request_and_wastes_little(inst, nbytes):
    buffer = inst.alloc(nbytes)
    info = buffer.info()
    assert info.bytes == nbytes and info.capacity >= nbytes
    if nbytes >= 8 * PAGE:
        assert info.capacity <= nbytes * 9 // 8 + PAGE
    elif nbytes > PAGE // 2:
        assert info.capacity < nbytes + PAGE


def test_uids_never_repeat(inst):
    seen = set()
    for _ in range(50):
        for nbytes in (64, 5 * PAGE):
            buffer = inst.alloc(nbytes)
            assert buffer.uid not in seen
            seen.add(buffer.uid)
            buffer.release()


def test_a_size_that_comes_back_hits_the_pool(inst):
    inst.alloc(10 * PAGE).release()
    before = inst.stats()
    for _ in range(10):
        inst.alloc(10 * PAGE - 3).release()
    after = inst.stats()
    assert after["system_allocations"] == before["system_allocations"]
    assert after["pool_hits"] == before["pool_hits"] + 10


def test_no_much_larger_buffer_is_taken(inst):
    inst.alloc(100 * PAGE).release()
    assert inst.alloc(50 * PAGE).info().capacity < 60 * PAGE


def test_double_release_is_counted_and_harmless(inst, metal):
    buffer = inst.alloc(5 * PAGE)
    handle = buffer.detach()
    metal.txm_release(handle)
    metal.txm_release(handle)
    assert inst.stats()["misuse"] == 1
    a, b = inst.alloc(5 * PAGE), inst.alloc(5 * PAGE)
    assert a.contents != b.contents


def test_cache_limit_is_kept(metal):
    instance = bridge.Instance(0, page_bytes=PAGE, cache_limit=20 * PAGE)
    keep = [instance.alloc(4 * PAGE) for _ in range(30)]
    for buffer in keep:
        buffer.release()
    assert instance.stats()["cached"] <= 20 * PAGE
    instance.set_options(cache_limit=4 * PAGE)
    assert instance.stats()["cached"] <= 4 * PAGE
    assert instance.options().page_bytes == PAGE


def test_trim_returns_memory(inst):
    for buffer in [inst.alloc(7 * PAGE) for _ in range(4)] + [inst.alloc(50) for _ in range(4)]:
        buffer.release()
    del buffer
    held = inst.stats()["reserved"]
    assert held > 28 * PAGE
    assert inst.trim() == held
    s = inst.stats()
    assert (s["cached"], s["reserved"], s["metal_buffers"]) == (0, 0, 0)


def test_memory_pressure_empties_the_pool_at_the_next_allocation(inst, metal):
    inst.alloc(40 * PAGE).release()
    assert inst.stats()["cached"] > 0
    metal.txm_test_knob(b"pressure", 1000 + random.getrandbits(20))
    keep = inst.alloc(2 * PAGE)
    s = inst.stats()
    assert s["pressure_events"] == 1 and s["cached"] == 0 and keep.nbytes


def test_limit_says_request_use_cache_and_limit(metal):
    instance = bridge.Instance(0, page_bytes=PAGE, memory_limit=64 * PAGE)
    keep = instance.alloc(40 * PAGE)
    with pytest.raises(OutOfMemoryError, match=rf"{32 * PAGE} bytes asked for, {40 * PAGE} in use, 0 cached, limit {64 * PAGE}"):
        instance.alloc(32 * PAGE)
    assert instance.stats()["live"] == keep.nbytes
    instance.alloc(20 * PAGE)


def test_ladder_runs_before_giving_up(metal):
    instance = bridge.Instance(0, page_bytes=PAGE, memory_limit=64 * PAGE)
    held = [instance.alloc(40 * PAGE)]
    instance.on_memory_short.append(held.clear)
    assert instance.alloc(32 * PAGE).nbytes == 32 * PAGE
    assert held == []


def test_cached_memory_makes_room(metal):
    instance = bridge.Instance(0, page_bytes=PAGE, memory_limit=64 * PAGE, cache_limit=64 * PAGE)
    instance.alloc(40 * PAGE).release()
    assert instance.alloc(60 * PAGE).nbytes == 60 * PAGE


def test_longest_buffer_is_named(inst):
    longest = bridge.devices()[0].max_buffer_bytes
    with pytest.raises(OutOfMemoryError, match=f"the longest buffer of this GPU has {longest}"):
        inst.alloc(longest + PAGE)
    with pytest.raises(OutOfMemoryError):
        inst.alloc(2**63 + 1)


def test_number_of_buffers_is_limited(metal):
    instance = bridge.Instance(0, page_bytes=PAGE, buffer_limit=10)
    keep = [instance.alloc(PAGE) for _ in range(10)]
    with pytest.raises(OutOfMemoryError, match="10 Metal buffers are alive"):
        instance.alloc(PAGE)
    keep.pop().release()
    keep.append(instance.alloc(3 * PAGE))  # the pooled one had to go
    assert instance.stats()["metal_buffers"] == 10


def test_refusal_by_metal_is_out_of_memory(inst, stand_in):
    inst.alloc(PAGE)
    stand_in.set(alloc_cap=stand_in.get("buffer_bytes") + PAGE // 2)
    with pytest.raises(OutOfMemoryError, match="Metal refuses a buffer"):
        inst.alloc(64 * PAGE)
    stand_in.set(alloc_cap=0)
    assert inst.alloc(64 * PAGE).nbytes == 64 * PAGE


def test_one_refusal_is_survived_by_trimming(inst, stand_in):
    inst.alloc(32 * PAGE).release()
    stand_in.set(fail_alloc=1)
    keep = inst.alloc(64 * PAGE)
    assert keep.nbytes == 64 * PAGE
    assert inst.stats()["cached"] == 0


def test_pool_1_threads_keep_their_blocks(inst):
    """Threads allocate, fill, check and free random sizes; nobody sees another's bytes."""
    errors = []

    def work(number):
        rng = random.Random(number)
        try:
            held = []
            for _ in range(150):
                buffer = inst.alloc(rng.choice([8, 300, 5000, PAGE + 1, 5 * PAGE]), host=True)
                mark = bytes([number + 1]) * buffer.nbytes
                inst.write(buffer, mark)
                held.append((buffer, mark))
                if len(held) > 4:
                    old, expected = held.pop(rng.randrange(len(held)))
                    if inst.read(old) != expected:
                        errors.append(number)
                    old.release()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    s = inst.stats()
    assert s["live"] == 0 and s["misuse"] == 0


def test_handles_without_objects(inst):
    """What the engine uses: it keeps handles and gives them back itself."""
    handle, address = inst.try_alloc(5 * PAGE, host=True)
    info = inst.info(handle)
    assert info.live and info.contents == address and info.bytes == 5 * PAGE
    assert inst.wait_buffer(handle, bridge.WRITE)
    inst.export(handle)
    assert inst.info(handle).exports == 1
    inst.export(handle, -1)
    inst.heal(handle)
    inst.release(handle)
    assert inst.stats()["live"] == 0 and not inst.info(handle).live
    inst.set_options(memory_limit=8 * PAGE)
    assert inst.try_alloc(100 * PAGE) is None
