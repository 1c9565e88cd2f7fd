"""Custom ops: overlap of operands, gradients, errors, threads, on every device."""

import itertools
import threading

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core


class AddInto(tx.InplaceOp):
    name = "add-into"
    elementwise = True

    def cpu(self, x, y):
        x += y

    metal = tx.metal.kernel("x += y", "x, y", elementwise=True, name="add-into")

    def backward(self, ctx, grad):
        return grad, grad


class AddPlain(tx.InplaceOp):
    """The same without the promise that positions do not mix."""

    name = "add-plain"

    def cpu(self, x, y):
        x += y

    metal = tx.metal.kernel("x += y", "x, y", elementwise=True, name="add-plain")


class Fused(tx.InplaceOp):
    """x = x * y + z, element by element; any number of operands."""

    name = "fused"
    elementwise = True

    def cpu(self, x, *others):
        if len(others) == 0:
            x *= 2.0
        elif len(others) == 1:
            x += others[0]
        else:
            x[...] = x * others[0] + others[1]

    def metal(self, x, *others):
        return (_TWICE, _PLUS, _MULADD)[len(others)]


_TWICE = tx.metal.kernel("x *= 2.0f", "x", elementwise=True, name="twice")
_PLUS = tx.metal.kernel("x += y", "x, y", elementwise=True, name="plus")
_MULADD = tx.metal.kernel("x = x * y; x = x + z", "x, y, z", elementwise=True, name="muladd")


class NoMetal(tx.InplaceOp):
    name = "add-into"

    def cpu(self, x, y):
        x += y


class OnlyMetal(tx.InplaceOp):
    name = "only-metal"
    metal = tx.metal.kernel("x += 1.0f", "x", elementwise=True, name="only-metal")


class Square(tx.CustomOp):
    name = "square-of"

    def cpu(self, x, out):
        np.multiply(x, x, out=out)

    metal = tx.metal.kernel("out[tid.x] = x[tid.x] * x[tid.x];", "x, out", writes="out", name="square-of")

    def save(self, ctx, x, output):
        ctx.save_for_backward(x)

    def backward(self, ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2.0 * x


def arr(values, device, dtype="float32"):
    return tx.asarray(np.asarray(values, dtype), device=device)


def bytes_of(f, *args):
    with tx.memory.measure() as m:
        f(*args)
    return m.bytes


# ---- the scenarios ---------------------------------------------------------------------------------------


def test_add_into(device):
    x, y = arr([1, 2, 3, 4], device), arr([10, 20, 30, 40], device)
    op = AddInto()
    assert bytes_of(op, x, y) == 0
    assert x.tolist() == [11, 22, 33, 44] and y.tolist() == [10, 20, 30, 40]
    assert bytes_of(op, x, x.alias()) == 0
    assert x.tolist() == [22, 44, 66, 88]
    z = x + x
    assert z.tolist() == [44, 88, 132, 176] and x.tolist() == [22, 44, 66, 88] and not tx.shares_storage(x, z)


def test_lock_1_rows_and_sibling_views(device):
    m = arr([[1, 2], [3, 4]], device)
    assert bytes_of(lambda: AddInto()(m[0], m[1])) == 0
    assert m.tolist() == [[4, 6], [3, 4]]
    for op in (AddInto(), AddPlain()):
        base = tx.arange(8, device=device).astype(tx.float32)
        assert bytes_of(lambda op=op, base=base: op(base[0:4], base[4:8])) == 0
        assert base.tolist() == [4, 6, 8, 10, 4, 5, 6, 7]
        base = tx.arange(8, device=device).astype(tx.float32)
        assert bytes_of(lambda op=op, base=base: op(base[::2], base[1::2])) == 0
        assert base.tolist() == [1, 1, 5, 3, 9, 5, 13, 7]


def views_of_a(x):
    """Views of one storage, all of shape (4, 4)."""
    yield "itself", x[:4, :4]
    yield "alias", x[:4, :4].alias()
    yield "shifted", x[1:5, :4]
    yield "columns", x[:4, 1:5]
    yield "transposed", x[:4, :4].mT
    yield "flipped", tx.flip(x[:4, :4], axis=0)
    yield "reshaped", x[:2, :].reshape((16,))[:16].reshape((4, 4)) if x.shape[1] == 8 else x[:4, :4]
    yield "row repeated", tx.broadcast_to(x[2, :4], (4, 4))
    yield "apart", x[4:, :4]
    yield "one element", x[0, 0]


@pytest.mark.parametrize("elementwise", [True, False])
def test_overlaps_as_numpy_with_copied_operands(device, elementwise):
    class Op(Fused):
        pass

    Op.elementwise = elementwise
    op = Op()
    values = np.arange(64, dtype=np.float32).reshape(8, 8) + 1
    names = [name for name, _ in views_of_a(arr(values, device))]
    for first, second in [(None, None), *itertools.product(names, [None, *names])]:
        x, n = arr(values, device), values.copy()
        mine, theirs = dict(views_of_a(x)), dict(views_of_a_numpy(n))
        dst, want = mine["itself"], theirs["itself"]
        ops = [k for k in (first, second) if k is not None]
        old = [theirs[k].copy() for k in ops]
        if len(ops) == 0:
            want *= 2
        elif len(ops) == 1:
            want += old[0]
        else:
            want[...] = want * old[0] + old[1]
        out = op(dst, *(mine[k] for k in ops))
        assert out is dst
        assert x.tolist() == n.tolist(), (first, second)


def views_of_a_numpy(x):
    yield "itself", x[:4, :4]
    yield "alias", x[:4, :4]
    yield "shifted", x[1:5, :4]
    yield "columns", x[:4, 1:5]
    yield "transposed", x[:4, :4].T
    yield "flipped", x[:4, :4][::-1]
    yield "reshaped", x[:2, :].reshape(16).reshape(4, 4)
    yield "row repeated", np.broadcast_to(x[2, :4], (4, 4))
    yield "apart", x[4:, :4]
    yield "one element", x[0, 0]


def test_an_overlapping_operand_costs_one_temporary(device):
    x = tx.zeros(1024, device=device)
    assert bytes_of(lambda: AddInto()(x[:512], x[256:768])) == 2048
    assert bytes_of(lambda: Fused()(x[:512], x[256:768], x[256:768])) == 2048
    assert bytes_of(lambda: AddPlain()(x, x.alias())) == 4096
    with tx.memory.record() as r:
        AddInto()(x[:512], x[256:768])
    assert [b.reason for b in r.blocks] == ["overlaps the destination"]


# ---- errors ------------------------------------------------------------------------------------------------


@pytest.mark.metal
def test_missing_implementation_on_metal():
    x, y = arr([1, 2], "metal"), arr([3, 4], "metal")
    for b in (y, x, x.alias()):
        with pytest.raises(tx.MissingKernelError, match=r"add-into.*metal.*cpu"):
            NoMetal()(x, b)
    assert x.tolist() == [1, 2] and x.version == 0


def test_missing_implementation_on_the_cpu():
    x = arr([1, 2], "cpu")
    with pytest.raises(tx.MissingKernelError, match=r"only-metal.*cpu.*metal"):
        OnlyMetal()(x)
    assert x.tolist() == [1, 2] and x.version == 0
    with pytest.raises(tx.MissingKernelError, match="nothing.*none at all"):
        type("Nothing", (tx.CustomOp,), {"name": "nothing"})()(x)


@pytest.mark.metal
def test_mixed_devices_name_op_argument_and_devices():
    x, y = arr([1, 2], "cpu"), arr([3, 4], "metal")
    for a, b in ((x, y), (y, x)):
        before = a.tolist()
        with pytest.raises(tx.DeviceMismatchError, match="add-into: argument 2 is on (metal:0|cpu) .*(cpu|metal:0)"):
            AddInto()(a, b)
        assert a.tolist() == before and a.version == 0
    assert AddInto()(y, tx.asarray(1.0)).tolist() == [4, 5]


def test_destinations_that_cannot_be_written(device):
    x = arr([1, 2, 3], device)
    with pytest.raises(tx.InplaceError, match="add-into.*more than once"):
        AddInto()(tx.broadcast_to(x, (2, 3)), x)
    w = arr([1, 2, 3], device).requires_grad_()
    with pytest.raises(tx.InplaceError, match="add-into: a leaf"):
        AddInto()(w, x)
    with tx.no_grad():
        AddInto()(w, x)
    assert w.tolist() == [2, 4, 6] and w.requires_grad
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(tx.InplaceError, match="add-into.*read-only"):
        AddInto()(tx.from_numpy(frozen), arr([1, 2, 3], "cpu"))
    with pytest.raises(TypeError, match="add-into.*first argument"):
        AddInto()(1.0, x)
    with pytest.raises(TypeError, match="add-into: argument 2 is a str"):
        AddInto()(x, "y")
    assert x.tolist() == [1, 2, 3] and x.version == 0


def test_results_of_the_wrong_kind():
    def op(f):
        return type("Op", (tx.CustomOp,), {"name": "strange", "cpu": f})()

    x = arr([1, 2, 3], "cpu")
    with pytest.raises(tx.ShapeError, match=r"strange: cpu returned shape \(2,\).*\(3,\)"):
        op(lambda self, x: x[:2])(x)
    with pytest.raises(tx.DTypeError, match="strange: cpu returned dtype float64.*float32"):
        op(lambda self, x: x.astype(np.float64))(x)
    with pytest.raises(TypeError, match="strange: cpu returned NoneType"):
        op(lambda self, x: None)(x)
    with pytest.raises(ValueError, match="read-only"):
        op(lambda self, x: x.__iadd__(1))(x)
    bad = type("Bad", (tx.CustomOp,), {"name": "bad-rule", "cpu": lambda self, x: x, "output": lambda self, x: 3})
    with pytest.raises(TypeError, match=r"bad-rule: output\(\) returned 3"):
        bad()(x)
    new = type("New", (tx.InplaceOp,), {"name": "new", "cpu": lambda self, x: x + 1})
    with pytest.raises(TypeError, match="new: cpu returned a new ndarray"):
        new()(x)
    with pytest.raises(tx.DTypeError, match="add-into: argument 1 is bfloat16"):
        AddInto()(tx.ones(2, dtype=tx.bfloat16), tx.ones(2, dtype=tx.bfloat16))
    assert x.tolist() == [1, 2, 3]


def test_a_body_with_out_that_returns_a_new_array():
    """Its result would be lost, and the tensor would hold what the memory held before."""

    class Twice(tx.CustomOp):
        name = "twice"

        def cpu(self, x, out):
            return x * 2

    with pytest.raises(TypeError, match="twice: cpu returned a new ndarray although it takes out; write into out"):
        Twice()(tx.ones(3))
    Twice.cpu = lambda self, x, out: np.multiply(x, 2, out=out)
    assert Twice()(tx.ones(3)).tolist() == [2.0, 2.0, 2.0] and Twice()(tx.ones(())).item() == 2.0 and Twice()(tx.ones(0)).size == 0


@pytest.mark.metal
def test_a_kernel_that_does_not_compile():
    op = type("Broken", (tx.InplaceOp,), {"name": "broken", "metal": tx.metal.kernel("x += nonsense;", "x", elementwise=True)})
    x = arr([1, 2], "metal")
    with pytest.raises(tx.MetalError, match="broken.*nonsense"):
        op()(x)
    assert x.tolist() == [1, 2]


def test_exc_an_exception_in_the_body_passes(device):
    class Fails(tx.InplaceOp):
        name = "fails"

        def cpu(self, x):
            x[0] = 9
            raise LookupError("from the body")

        def metal(self, x):
            _TWICE(x)
            raise LookupError("from the body")

    class Safe(Fails):
        name = "fails-safely"
        atomic = True

    x = arr([1, 2], device)
    with pytest.raises(LookupError, match="from the body"):
        Fails()(x)
    assert x.version == 1 or x.device.type == "metal"
    y = arr([1, 2], device)
    with pytest.raises(LookupError, match="from the body"):
        Safe()(y)
    assert y.tolist() == [1, 2] and y.version == 0
    live = tx.memory.stats(device)["live"]
    with pytest.raises(ZeroDivisionError):
        type("Out", (tx.CustomOp,), {"name": "out", "cpu": lambda self, x: 1 / 0, "metal": lambda self, x: 1 / 0})()(y)
    assert tx.memory.stats(device)["live"] == live and _core.held_storages() == 0
    y.add_(1.0)
    assert y.tolist() == [2, 3]


def test_atomic_ops_write_back(device):
    class Op(AddInto):
        atomic = True

    x = arr([1, 2], device)
    assert Op()(x, x).tolist() == [2, 4]


def test_views_that_the_body_keeps_stay_valid():
    kept = []

    class Keeps(tx.InplaceOp):
        name = "keeps"

        def cpu(self, x, y):
            kept[:] = [x, y]
            x += y

    x, y = arr([1, 2, 3], "cpu"), arr([1, 1, 1], "cpu")
    Keeps()(x, y)
    z = x * 2.0  # read at once: the memory is shared with the kept view
    kept[0][:] = 50
    assert z.tolist() == [4, 6, 8] and x.tolist() == [50, 50, 50]
    assert not kept[1].flags.writeable
    y = y + 1.0  # not written over: somebody holds a view
    assert kept[1].tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]
    assert any("NumPy" in str(h) or "ndarray" in str(h) for h in tx.memory.holders(x))
    kept.clear()
    assert not x.storage.exports if hasattr(x.storage, "exports") else x.is_unique()


# ---- gradients -----------------------------------------------------------------------------------------------


def test_lost_1_gradients_of_an_inplace_op(device):
    class Part(tx.InplaceOp):
        name = "add-to-second"

        def cpu(self, a, b):
            a[1:2] += b

        metal = tx.metal.kernel("if (tid.x == 0) a[1] += b[0];", "a, b", name="add-to-second")

        def backward(self, ctx, grad):
            return grad, grad[1:2]

    a = arr([1, 1], device).requires_grad_()
    b = arr([1], device).requires_grad_()
    c = Part()(a + 1.0, b)
    assert c.tolist() == [2, 3]
    c.sum().backward()
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [1]


def test_gradients(device):
    x = arr([1, 2, 3], device).requires_grad_()
    y = Square()(x)
    assert y.tolist() == [1, 4, 9]
    y.sum().backward()
    assert x.grad.tolist() == [2, 4, 6]
    h = x * 3.0
    AddInto()(h[1:], x[:2])  # through a view of a computed value
    x.grad = None
    h.sum().backward()
    assert x.grad.tolist() == [4, 4, 3]
    if device == "cpu":
        tx.autograd.gradcheck(lambda t: Square()(t), (tx.asarray([0.5, -2.0], dtype=tx.float64).requires_grad_(),))


def test_a_saved_operand_that_an_op_wrote_is_an_error(device):
    x, w = arr([1, 1, 1], device), arr([2, 2, 2], device).requires_grad_()
    y = x * w
    AddInto()(x, arr([1, 1, 1], device))
    with pytest.raises(tx.GradientError, match="version 0.*version 1|add-into"):
        y.sum().backward()
    assert w.grad is None


def test_an_op_without_a_gradient_says_so(device):
    x = arr([1, 2], device).requires_grad_()
    y = AddPlain()(x * 1.0, x)
    assert y.tolist() == [2, 4]
    with pytest.raises(tx.GradientError, match="add-plain.*backward"):
        y.sum().backward()
    with tx.no_grad():
        assert not AddPlain()(x * 1.0, x).requires_grad


def test_leak_1_an_op_that_keeps_its_output(device):
    class Keeps(Square):
        def save(self, ctx, x, output):
            ctx.save_for_backward(x)
            ctx.mine = output

    import gc

    gc.collect()
    live = tx.memory.stats(device)["live"]
    x = arr([1.0] * 100, device).requires_grad_()
    for _ in range(3):
        y = Keeps()(x)
        del y
    del x
    gc.collect()
    assert tx.memory.stats(device)["live"] == live


# ---- calls from within and from several threads -----------------------------------------------------------------


def test_an_op_that_calls_ops_and_itself(device):
    class Outer(tx.InplaceOp):
        name = "outer"

        def work(self, tensor, depth):
            AddInto()(tensor, tensor.alias())
            tensor.mul_(2.0)
            assert tensor[0].item() == tensor.tolist()[0]
            if depth:
                self(tensor, depth - 1)

        def cpu(self, x, depth):
            self.work(whole, depth)

        def metal(self, x, depth):
            self.work(whole, depth)

    whole = arr([1, 2], device)
    Outer()(whole, 2)
    assert whole.tolist() == [64, 128] and _core.held_storages() == 0


def test_several_threads_on_one_tensor(device):
    x = tx.zeros(64, device=device)
    one = tx.ones(64, device=device)

    def work():
        for _ in range(25):
            AddInto()(x, one)
            AddInto()(x[:32], one[:32])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
        assert not t.is_alive()
    assert x.tolist() == [300] * 32 + [150] * 32 and _core.held_storages() == 0


class Holds(tx.InplaceOp):
    """Holds its tensor until it is told to go on."""

    name = "holds"

    def __init__(self):
        self.inside, self.go_on = threading.Event(), threading.Event()

    def cpu(self, x):
        self.inside.set()
        assert self.go_on.wait(20)
        x += 1

    def metal(self, x):
        self.cpu(x)

    def wait(self, x):
        t = threading.Thread(target=lambda: self(x), name="holder")
        t.start()
        assert self.inside.wait(10)
        return t


def test_a_wait_for_a_body_ends_in_an_error():
    x = arr([1, 2], "cpu")
    op = Holds()
    old = tx.set_op_timeout(0.2)
    try:
        t = op.wait(x)
        for use in (lambda: x.add_(1.0), lambda: x.tolist(), lambda: AddInto()(x, x), lambda: (x * 2.0).tolist(), lambda: x.numpy()):
            with pytest.raises(tx.ThreadingError, match=r"holds.*holder.*test_custom.py:\d+"):
                use()
    finally:
        op.go_on.set()
        tx.set_op_timeout(old)
    t.join(10)
    assert x.tolist() == [2, 3]
    with pytest.raises(ValueError):
        tx.set_op_timeout(0)


def test_others_wait_for_a_body_and_go_on():
    x = arr([1, 2], "cpu")
    op = Holds()
    t = op.wait(x)
    threading.Timer(0.2, op.go_on.set).start()
    assert (x * 2.0).tolist() == [4, 6]
    t.join(10)


def test_two_bodies_that_wait_for_one_another():
    a, b = arr([1.0], "cpu"), arr([2.0], "cpu")
    both = threading.Barrier(2)
    errors = []

    class Takes(tx.InplaceOp):
        name = "takes"

        def cpu(self, x, other):
            both.wait(10)
            try:
                (b if other else a).add_(1.0)
            except tx.ThreadingError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=Takes(), args=(x, n)) for x, n in ((a, 1), (b, 0))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(10)
        assert not t.is_alive()
    assert len(errors) == 1 and "deadlock" in errors[0] and "takes" in errors[0]
    assert _core.held_storages() == 0


@pytest.mark.metal
def test_a_kernel_called_by_itself():
    x = arr(np.arange(6).reshape(2, 3), "metal")
    saxpy = tx.metal.kernel("y = y + float(k) * x * s;", "x, y, s, k", writes="y", elementwise=True, name="saxpy")
    y = tx.zeros((3, 2), device="metal")
    saxpy(x.mT, y, 0.5, 2)
    assert y.tolist() == x.mT.tolist()
    reverse = tx.metal.kernel("out[out_size - 1 - tid.x] = x[tid.x];", "x, out", writes="out", name="reverse")
    out = tx.zeros((3, 2), device="metal")
    reverse(x.mT, out, grid=(6,))
    assert out.reshape((6,)).tolist() == [5, 2, 4, 1, 3, 0]
    with pytest.raises(TypeError, match="takes 2 arguments"):
        reverse(x)
    with pytest.raises(tx.DeviceMismatchError, match="reverse"):
        reverse(tx.zeros(6), tx.zeros(6))
