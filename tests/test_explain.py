"""What tx.memory says: lines, bytes, reasons, holders, leaks."""

import gc
import re
import threading

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core

N = 1 << 16
SIZE = 4 * N


@pytest.fixture(autouse=True)
def deferred():
    with tx.deferred(True):
        yield


def line_of(text):
    """Number of the line of this file that ends with a mark."""
    with open(__file__) as f:
        return next(i for i, line in enumerate(f, 1) if line.rstrip().endswith("# " + text))


def full(device, value=1.0):
    return tx.full((N,), value, dtype=tx.float32, device=device)


def only(r):
    (line,) = [i for i in r.lines() if i.count]
    assert line.file == __file__ and r.bytes == line.bytes
    return line


def reused(r):
    return [(i.line, i.op, i.reused) for i in r.lines() if i.reused]


# ---- the memory rows of the scenarios: line, bytes and reason -----------------------------------------------


def test_a_chain_reuses_its_buffer(device):
    x = full(device)
    with tx.memory.record() as r:
        for _ in range(3):
            x = x * 2.0 + 1.0  # chain
            tx.eval(x)
    assert r.bytes == 0 and reused(r) == [(line_of("chain"), "add", 3)]
    with tx.memory.record() as r:
        x.mul_(2.0).add_(1.0)
    assert r.bytes == 0


def test_attributes_items_and_functions_reuse(device):
    class Model:
        pass

    m, d = Model(), {"h": full(device)}
    m.h = full(device)

    def f(t):
        return t * 2.0 + 1.0

    x = full(device)
    with tx.memory.record() as r:
        m.h = m.h * 2.0 + 1.0
        d["h"] = d["h"] * 2.0 + 1.0
        tx.eval(m.h, d["h"])
    assert r.bytes == 0
    with tx.memory.measure() as one:
        x = f(x)
    assert one.bytes == 0


def test_an_alias_is_named(device):
    x = full(device)
    keep = x.alias()  # the alias
    with tx.memory.record() as r:
        x = x * 2.0 + 1.0  # with an alias
    it = only(r)
    assert (it.line, it.bytes, it.count, it.op) == (line_of("with an alias"), SIZE, 1, "add")
    assert it.reason == f"shared by: local 'keep' of test_an_alias_is_named ({__file__}:{line_of('the alias')})"
    assert keep[0].item() == 1.0 and it.peak_share == 1.0


def test_a_view_is_named(device):
    x = full(device)
    part = x[10:]
    with tx.memory.record() as r:
        x = x * 2.0 + 1.0  # with a view
    it = only(r)
    assert (it.line, it.bytes) == (line_of("with a view"), SIZE) and "local 'part'" in it.reason
    assert part[0].item() == 1.0


def test_an_attribute_and_an_item_are_named(device):
    class Model:
        pass

    m = Model()
    x = full(device)
    m.cache = [x.alias()]
    with tx.memory.record() as r:
        x = x + 1.0  # cached
    assert "shared by: local 'm.cache[0]' of test_an_attribute" in only(r).reason
    m.cache = None
    m.kept = x.alias()
    with tx.memory.record() as r:
        x = x + 1.0
    assert "shared by: local 'm.kept' of test_an_attribute" in only(r).reason


def test_saved_for_a_gradient(device):
    w = full(device).requires_grad_()
    x = full(device)
    y = x * w
    tx.eval(y)
    with tx.memory.record() as r:
        x = x + 1.0  # saved
    it = only(r)
    assert (it.line, it.bytes, it.reason) == (line_of("saved"), SIZE, "saved by multiply for the gradient of w")
    assert x[0].item() == 2.0
    y.sum().backward()
    assert w.grad[:3].tolist() == [1, 1, 1]
    for leaf in (full(device), None):  # under no_grad, and with a plain w: nothing is saved
        with tx.no_grad():
            x = full(device)
            z = x * (w if leaf is None else leaf)
            tx.eval(z)
            with tx.memory.record() as r:
                x = x + 1.0
            assert r.bytes == 0


def test_a_non_leaf_that_nothing_needs_is_reused(device):
    h = full(device).requires_grad_() * 1.0
    y = h * 3.0
    tx.eval(h, y)
    with tx.memory.record() as r:
        h = h + 1.0
    assert r.bytes == 0 and y.requires_grad


def test_slice_assign(device):
    a = full(device).reshape((N // 4, 4))
    v = tx.zeros((N // 4, 2), device=device)
    with tx.memory.record() as r:
        a = a.slice_assign((..., slice(1, 3)), v)
    assert r.bytes == 0
    other = a.alias()
    with tx.memory.record() as r:
        a = a.slice_assign((..., slice(1, 3)), v)  # assigned
    it = only(r)
    assert (it.line, it.bytes, it.op) == (line_of("assigned"), SIZE, "slice_assign") and "'other'" in it.reason
    assert other.shape == a.shape


def test_exported_memory_and_dtype_sizes(device):
    x = full(device)
    n = x.numpy()
    with tx.memory.record() as r:
        x = x + 1.0  # exported
    it = only(r)
    assert it.line == line_of("exported") and it.bytes == SIZE and "exported" in it.reason and n[0] == 1.0
    b = tx.ones(N, dtype=tx.int8, device=device)
    with tx.memory.record() as r:
        b = b.astype(tx.float32)  # wider
    assert only(r).reason == "dtype size differs" and only(r).bytes == SIZE


def test_results_of_other_ops_have_their_lines(device):
    a = tx.ones((32, 32), device=device)
    with tx.memory.record() as r:
        b = a @ a  # product
        s = tx.softmax(b)  # rows
        t = b.sum(axis=0)  # total
    lines = {i.line: i for i in r.lines() if i.count}
    assert {line_of("product"), line_of("rows"), line_of("total")} <= set(lines)
    assert lines[line_of("product")].bytes == 4096 and s.shape == b.shape and t.shape == (32,)


def test_every_byte_is_recorded(device):
    """What the recorder lists is what the counters say."""
    rng = np.random.default_rng(5)
    x = full(device)
    kept = []
    before = tx.memory.stats(device)
    with tx.memory.record() as r:
        for k in range(60):
            i = rng.integers(8)
            if i == 0:
                x = x * 1.5 + 0.5
            elif i == 1:
                kept.append(x[: rng.integers(1, N)].copy())
            elif i == 2:
                kept.append(x.sum())
            elif i == 3:
                x = tx.where(x > 2.0, x, x * 0.5)
            elif i == 4:
                kept.append(x.reshape((256, N // 256)).mT @ x.reshape((256, N // 256)))
            elif i == 5:
                kept.append(tx.concat([x[:10], x[-10:]]))
            elif i == 6:
                x = x.slice_assign(slice(0, 5), float(k))
            elif kept:
                kept.pop()
    after = tx.memory.stats(device)
    assert r.bytes == after["requested"] - before["requested"]
    assert r.allocations == after["allocations"] - before["allocations"]
    now = sum(by for _, _, by, _ in r.events())
    assert now == after["live"] - before["live"]


# ---- the report, the recorder ----------------------------------------------------------------------------------


def test_the_report_reads_well():
    x = full("cpu")
    keep = x.alias()
    with tx.memory.record() as r:
        for _ in range(4):
            y = x * 2.0  # four times
            tx.eval(y)
    text = str(r)
    assert "4 allocations, 1.0 MiB in all; peak 256.0 KiB" in text
    assert re.search(rf"1\.0 MiB +4 .*test_explain\.py:{line_of('four times')} in test_the_report", text)
    assert "y = x * 2.0  # four times" in text and "shared by: local" in text and "(4 times)" in text
    assert keep is not x and str(r.lines()[0].where).endswith(f"test_explain.py:{line_of('four times')}")


def test_peak_and_shares():
    with tx.memory.record() as r:
        a = full("cpu")
        b = tx.zeros(3 * N)  # three parts
        del a
        c = full("cpu")
        del b, c
    assert r.peak()[0] == 4 * SIZE
    assert {i.line: i.peak_share for i in r.lines() if i.count}[line_of("three parts")] == 0.75
    assert [by for _, _, by, _ in r.events()] == [SIZE, 3 * SIZE, -SIZE, SIZE, -SIZE, -3 * SIZE]


def test_releases_of_what_was_there_before():
    a = full("cpu")
    with tx.memory.record() as r:
        del a
    assert [by for _, _, by, _ in r.events()] == [-SIZE] and r.peak()[0] == 0


def test_a_limit_and_nesting():
    with tx.memory.record(limit=3) as outer:
        for _ in range(5):
            tx.ones(10)
        with tx.memory.record() as inner:
            tx.ones(10)
    assert len(outer.blocks) == 3 and outer.allocations == 6 and inner.allocations == 1
    assert "only the first 3" in outer.report()
    assert _core.set_recorder(None) is None


def test_an_exception_ends_the_recording():
    with pytest.raises(KeyError), tx.memory.record() as r:
        tx.ones(10)
        raise KeyError
    assert r.allocations == 1 and _core.set_recorder(None) is None


def test_threads_are_recorded_together():
    def work():
        for _ in range(20):
            kept = tx.ones(100)
            (kept + 1.0).tolist()

    with tx.memory.record() as r:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(20)
    assert r.allocations == 160 and all(b.last >= 0 for b in r.blocks)


# ---- holders -----------------------------------------------------------------------------------------------------


GLOBAL = None


def test_holders(device):
    class Model:
        pass

    global GLOBAL
    x = full(device)
    m = Model()
    m.weight = x.alias()
    table = {"a": [x[1:]]}  # noqa: F841
    GLOBAL = x[2:]

    def closure():
        return inner

    inner = x[3:]
    generator = (t for t in [x.alias()])
    next(generator)
    w = full(device).requires_grad_()
    y = x * w
    tx.eval(y)
    n = x.numpy() if device == "cpu" else None
    pending = x + 1.0 if n is None else None
    text = "\n".join(str(h) for h in tx.memory.holders(x))
    for part in ("local 'x' of test_holders", "local 'm.weight' of test_holders", "local `table['a'][0]` of test_holders", "'GLOBAL'",
                 "local 'inner'"):  # fmt: skip
        assert part in text, (part, text)
    if n is not None:
        assert "NumPy array in local 'n'" in text
    else:
        assert "to be read by add, not computed yet" in text and f"saved by multiply for a gradient ({__file__}" in text
        assert pending is not None
    GLOBAL = None
    del closure, generator


def test_holders_of_imports_and_errors():
    n = np.ones(3, np.float32)
    x = tx.from_numpy(n)
    assert any("another library" in str(h) for h in tx.memory.holders(x))
    with pytest.raises(TypeError, match="holders: takes a tensor, got ndarray"):
        tx.memory.holders(n)
    y = tx.ones(3)
    (h,) = tx.memory.holders(y)
    assert (h.kind, h.name) == ("local", "'y' of test_holders_of_imports_and_errors") and h.where.startswith(__file__)


# ---- snapshots and leaks -------------------------------------------------------------------------------------------


def test_snapshots(device):
    before = tx.memory.snapshot()
    with tx.memory.record():
        a = tx.zeros(100, device=device)  # snapped
        b = tx.zeros(1000, device=device)
    after = tx.memory.snapshot()
    new = after - before
    assert [n for n, _, _ in new] == [4000, 400] and new[1][2].endswith(f"test_explain.py:{line_of('snapped')}")
    assert after.bytes >= before.bytes + 4400 and before - after == []
    assert {d for _, d, _ in new} == {tx.device(device).name} and a.shape != b.shape


def test_a_leaky_training_loop():
    """Losses kept with their graphs: the finder names the line and the list."""
    w = tx.ones((64, 64)).requires_grad_()
    before = tx.memory.snapshot()

    def train(steps, keep):
        losses = []  # the list
        for i in range(steps):
            x = tx.full((16, 64), float(i))
            loss = ((x @ w) ** 2).mean()  # the loss
            loss.backward(retain_graph=True)
            losses.append(loss if keep else loss.item())
        del x, loss
        return tx.memory.leaks(before)

    found = train(10, True)
    text = str(found)
    leak = next(i for i in found if "losses" in i.name)
    assert leak.name == "local 'losses' of train" and leak.where == f"{__file__}:{line_of('the list')}"
    assert leak.what == "a list of 10" and leak.bytes >= 10 * 16 * 64 * 4 and leak.example.endswith("] -> its graph")
    assert f"test_explain.py:{line_of('the loss')}" in text and "kept for the gradient of matmul" in text
    w.grad = None
    assert not any("losses" in i.name for i in train(10, False))


def test_no_leaks():
    before = tx.memory.snapshot()
    x = tx.ones(10)
    del x
    gc.collect()
    assert str(tx.memory.leaks(before)) == "no leaks: nothing is alive that was not before"


def test_foreign_objects_run_no_code_of_theirs():
    class Touchy:
        @property
        def __class__(self):
            raise RuntimeError("asked for its class")

    touchy = Touchy()
    before = tx.memory.snapshot()
    x = tx.ones(1000)
    assert any("x" in str(h) for h in tx.memory.holders(x))
    assert tx.memory.leaks(before) is not None
    del touchy


# ---- one recorder inside another -----------------------------------------------------------------------------


def test_a_recorder_inside_another(device, tmp_path):
    """The outer one misses nothing, the inner one sees its own block only: nothing from before, and nothing that happens later."""
    before = full(device)
    name = before.device.name
    with tx.memory.record() as outer:
        early, gone = full(device), full(device)
        with tx.memory.record() as inner:
            inside = full(device)
            short = full(device)
            del short
            early = early + 1.0
            tx.eval(early)
            del gone, before
            assert inner.allocations == 2
        late = full(device)
        del inside
    assert (outer.bytes, outer.allocations, outer.peak()[0]) == (5 * SIZE, 5, 4 * SIZE)
    assert [b.last >= 0 for b in outer.blocks] == [False, True, True, True, False]
    assert (inner.bytes, inner.allocations, inner.peak()[0]) == (2 * SIZE, 2, 2 * SIZE)
    assert [b.last >= 0 for b in inner.blocks] == [False, True] and inner.blocks[0].born >= 0.0
    assert [by for _, _, by, _ in inner.events()] == [SIZE, SIZE, -SIZE, -SIZE, -SIZE]
    assert all(0 <= n < 6 and at >= 0.0 for n, at, _, _ in inner.events()) and inner.end[name] == inner.start[name] - SIZE
    assert [i.op for i in inner.lines() if i.reused] == ["add"] == [i.op for i in outer.lines() if i.reused]
    with tx.memory.record() as after:
        pass
    assert after.allocations == 0 and outer.allocations == 5
    inner.save_html(tmp_path / "inner.html")
    assert (tmp_path / "inner.html").stat().st_size > 1000
    with tx.memory.record() as few, tx.memory.record(limit=1) as fewer:
        kept = [full(device), full(device)]
    assert len(few.blocks) == 2 and len(fewer.blocks) == 1 and fewer.allocations == 2
    del late, kept


def test_the_names_of_holders_in_a_nested_recorder(device):
    x = full(device)
    with tx.memory.record(), tx.memory.record() as inner:
        keep = x.alias()
        x = x * 2.0
        tx.eval(x)
        assert "keep" in inner.lines()[0].reason or inner.lines()[0].reason.startswith("shared by")
    assert "'keep'" in inner.lines()[0].reason
    del keep


# ---- names and sizes that a reader understands ---------------------------------------------------------------


def test_a_small_view_that_keeps_a_large_buffer(device):
    before = tx.memory.snapshot()
    store = {"part": full(device)[:3]}
    both = full(device)
    head = both[:3]
    found = tx.memory.leaks(before)
    (leak,) = [i for i in found if "'store'" in i.name]
    assert leak.example == "store['part'] (a view: 12 B of 256.0 KiB, which it keeps; copy() keeps only its own)"
    assert not any("a view" in i.example for i in found if i is not leak)  # the whole of the other is held, too
    store["part"] = store["part"].copy()
    assert sum(i.bytes for i in tx.memory.leaks(before)) == SIZE + 12
    del both, head


class Slotted:
    __slots__ = ("kept", "unset")


class Deeper(Slotted):
    __slots__ = ("more",)


def test_slots_and_tensors_as_keys_are_named(device):
    before = tx.memory.snapshot()
    box = Deeper()
    box.kept = full(device)
    box.more = [full(device)]
    assert "'box.kept'" in str(tx.memory.holders(box.kept)) and "'box.more[0]'" in str(tx.memory.holders(box.more[0]))
    text = str(tx.memory.leaks(before))
    assert "local 'box'" in text and "a Deeper" in text and re.search(r"for example box\.(kept|more\[0\])$", text, re.M)
    assert text.startswith("alive now and not before: 512.0 KiB in 2 storages")
    del box
    w = tx.ones(3, device=device).requires_grad_()
    state = {w: full(device)}
    text = str(tx.memory.leaks(before))
    assert "for example state[a tensor of shape (3,)]" in text
    del state
    assert str(tx.memory.leaks(before)).startswith("alive now and not before: 12 B in 1 storage\n")


def test_articles():
    class AdamLike:
        pass

    before = tx.memory.snapshot()
    optimizer = AdamLike()
    optimizer.state = tx.ones(5)
    assert "an AdamLike" in str(tx.memory.leaks(before))


def test_blocks_have_the_name_of_the_function_that_was_called():
    with tx.memory.record() as r:
        kept = [tx.random.normal(shape=(9,)), tx.softmax(tx.zeros((3, 3)), axis=1), tx.asarray([1.0, 2.0]), tx.ones((4, 4)).T.contiguous()]
    names = {b.op for b in r.blocks}
    assert {"normal", "softmax", "zeros", "ones", "asarray", "contiguous"} <= names and not names & {"empty", "row op"}, names
    del kept
