"""Function, checkpoint, hooks on saved values, derivatives of functions, gradcheck."""

import gc

import numpy as np
import pytest

import tensorx as tx
from tensorx import autograd
from tensorx.autograd import Function, checkpoint


def tensor(values, device="cpu", grad=False):
    return tx.asarray(values, dtype=tx.float32, device=device).requires_grad_(grad)


def double(values):
    return tx.asarray(np.asarray(values, np.float64)).requires_grad_()


# ---- Function -----------------------------------------------------------------------------


class MulAdd(Function):
    @staticmethod
    def forward(ctx, x, y, scale, bias=None):
        ctx.scale = scale
        ctx.save_for_backward(x, y)
        ctx.needs = ctx.needs_input_grad
        out = x * y * scale
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        grads = [g * y * ctx.scale, g * x * ctx.scale, None]
        if len(ctx.needs) == 4:
            grads.append(g if ctx.needs[3] else None)
        return tuple(grads)


def test_function(device):
    x, y = tensor([1.0, 2.0], device, True), tensor([3.0, 4.0], device)
    out = MulAdd.apply(x, y, 2.0)
    assert out.grad_fn.name == "MulAdd" and not out.is_leaf
    out.sum().backward()
    assert x.grad.tolist() == [6.0, 8.0] and y.grad is None
    assert not MulAdd.apply(y, y, 2.0).requires_grad
    with tx.no_grad():
        assert not MulAdd.apply(x, y, 2.0).requires_grad


def test_function_has_higher_derivatives():
    x, y = double([1.0, 2.0]), double([3.0, -1.0])
    assert autograd.gradcheck(lambda a, b: MulAdd.apply(a, b, 3.0), (x, y))
    assert autograd.gradgradcheck(lambda a, b: MulAdd.apply(a, b, 3.0) * a, (x, y))


def test_broadcast_arguments_get_gradients_of_their_shape():
    b = tensor([1.0], grad=True)
    MulAdd.apply(tensor([1.0, 2.0]), tensor([3.0, 4.0]), 1.0, b).sum().backward()
    assert b.grad.tolist() == [2.0]


def test_function_with_several_outputs(device):
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(extra := x * 0.0)
            return x * 2.0, x * 3.0, extra, x > 1.0, "text"

        @staticmethod
        def backward(ctx, a, b, *rest):
            assert all(r is None or not r.tolist()[0] for r in rest)
            return a * 2.0 + b * 3.0

    x = tensor([1.0, 2.0], device, True)
    a, b, c, d, text = Split.apply(x)
    assert a.requires_grad and b.requires_grad and not c.requires_grad and d.dtype is tx.bool and text == "text"
    b.sum().backward()  # the gradient of a arrives as zeros
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad = None
    a, b, *_ = Split.apply(x)
    (a + b).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_gradients_that_do_not_arrive_may_be_none():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx, a, b):
            assert a is None
            return b * 3.0

    x = tensor([1.0], grad=True)
    Two.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [3.0]


def test_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2.0 * g * ctx.saved_tensors[0]

    assert autograd.gradgradcheck(Square.apply, double([1.0, 2.0]))


def test_function_that_returns_its_argument(device):
    class Pass(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10.0

    w = tensor([1.0, 2.0], device, True)
    y = Pass.apply(w)
    assert y is not w and y.requires_grad and not y.is_leaf
    y.mul_(3.0)  # a value of its own: w stays what it was
    assert w.tolist() == [1.0, 2.0]
    y.sum().backward()
    assert w.grad.tolist() == [30.0, 30.0]


def test_function_that_writes_in_place(device):
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    w = tensor([1.0, 2.0], device, True)
    y = w * 1.0
    v = y[1:]
    z = Double.apply(y)
    assert z is y
    (v * 5.0).sum().backward()
    assert w.grad.tolist() == [0.0, 10.0]
    w.grad = None
    y = w * 1.0
    Double.apply(y[1:])
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 2.0]
    with pytest.raises(tx.InplaceError, match="Double: wrote in place to a leaf"):
        Double.apply(tensor([1.0], device, True))


def test_dirty_inputs_must_be_returned():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x + 1.0

    with pytest.raises(tx.GradientError, match="marked dirty and must be returned"):
        Bad.apply(tensor([1.0], grad=True) * 1.0)


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda g: (g,), "returned 1 gradient for the 2 arguments.*: return one per argument, None for what needs none"),
        (lambda g: (g, g, g), "returned 3 gradients for the 2 arguments"),
        (lambda g: (g, 1.0), "returned float as the gradient of argument 2"),
        (lambda g: (g, tx.ones((3, 5))), r"returned a gradient of shape \(3, 5\) for argument 2 of shape \(2,\)"),
    ],
)
def test_wrong_gradients_are_refused(result, message):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return result(g)

    x, y = tensor([1.0, 2.0], grad=True), tensor([1.0, 2.0], grad=True)
    with pytest.raises(tx.GradientError, match=message):
        Bad.apply(x, y).sum().backward()
    assert x.grad is None and y.grad is None


def test_what_backward_returns_is_not_taken_over(device):
    kept = tensor([5.0, 5.0], device)

    class Fixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return kept

    w = tensor([1.0, 2.0], device, True)
    Fixed.apply(w).sum().backward()
    assert w.grad.tolist() == [5.0, 5.0] and not tx.shares_storage(w.grad, kept)


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @autograd.once_differentiable
        def backward(ctx, g):
            return 2.0 * g * ctx.saved_tensors[0]

    x = double([3.0])
    (g,) = autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    assert g.tolist() == [6.0]
    with pytest.raises(tx.GradientError, match="once_differentiable"):
        autograd.grad(g.sum(), x)


def test_saved_inputs_are_checked_for_writes(device):
    x, y = tensor([1.0, 2.0], device, True), tensor([3.0, 4.0], device)
    out = MulAdd.apply(x, y, 2.0)
    y.add_(1.0)
    with pytest.raises(tx.GradientError, match="MulAdd .* a tensor .*version 0.*version 1"):
        out.sum().backward()


# ---- checkpoint ------------------------------------------------------------------------------


def block(x, w):
    return tx.tanh(tx.exp(x * w * 0.1) * x) + tx.softmax(x)


def test_checkpoint_gives_the_same_gradients(device):
    def run(call):
        x, w = tensor([1.0, 2.0, 3.0], device, True), tensor([0.5, 1.0, 2.0], device, True)
        h = x * 1.5
        for _ in range(3):
            h = call(lambda t: block(t, w), h)
        (h * h).sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert run(checkpoint) == run(lambda f, t: f(t))


def test_checkpoint_has_second_derivatives():
    w = double([0.5, 1.0])

    def f(x):
        return checkpoint(lambda t: tx.tanh(tx.exp(t * w * 0.1) * t), x)

    assert autograd.gradcheck(f, double([1.0, 2.0])) and autograd.gradgradcheck(f, double([1.0, 2.0]))


def test_checkpoint_keeps_less(device):
    def saved(call):
        x = tx.ones(1000, device=device).requires_grad_()
        gc.collect()
        before = tx.memory.stats(device)["live"]

        def chain(t):
            for _ in range(10):
                t = tx.exp(tx.sin(t))
                tx.eval(t)
            return t

        y = call(chain, x)
        tx.eval(y)
        kept = tx.memory.stats(device)["live"] - before
        y.sum().backward()
        return kept, x.grad.tolist()

    (less, a), (more, b) = saved(checkpoint), saved(lambda f, t: f(t))
    assert a == b and less <= 2 * 4096 + 256 and more >= 10 * 4000


def test_checkpoint_serves_grad_and_several_passes(device):
    x, w = tensor([1.0, 2.0], device, True), tensor([3.0, 4.0], device, True)
    y = checkpoint(lambda t: tx.exp(t * w * 0.1), x).sum()
    plain = tx.exp(x * w * 0.1).sum()
    for _ in range(2):
        for a, b in zip(autograd.grad(y, (w, x), retain_graph=True), autograd.grad(plain, (w, x), retain_graph=True)):
            assert a.tolist() == b.tolist()


def test_checkpoint_checks_its_arguments(device):
    x, w = tensor([1.0, 2.0], device), tensor([3.0, 4.0], device, True)
    y = checkpoint(lambda t: tx.exp(t * w), x)
    x.add_(1.0)
    with pytest.raises(tx.GradientError, match=r"checkpoint: an argument was written since the call at .*test_autograd_function.py:\d+ \(version 0, now 1\)"):
        y.sum().backward()
    assert w.grad is None


def test_checkpoint_notices_a_function_that_changes():
    w, calls = tensor([1.0, 2.0], grad=True), []

    def f(t):
        calls.append(1)
        return tx.exp(t * w) if len(calls) > 1 else tx.exp(tx.exp(t * w))

    with pytest.raises(tx.GradientError, match="saved . values instead of"):
        checkpoint(f, tensor([1.0, 1.0])).sum().backward()


def test_checkpoint_gives_back_the_state_of_generators(monkeypatch):
    from tensorx.autograd import recompute

    monkeypatch.setattr(recompute, "_states", [])
    seed = [1]

    def random():
        seed[0] = seed[0] * 75 % 65537
        return seed[0] / 65537

    def put(state):
        seed[0] = state

    recompute.preserve_state(lambda: seed[0], put)
    x = tensor([1.0, 2.0], grad=True)
    factor = []
    y = checkpoint(lambda t: tx.exp(t * (factor.append(random()) or factor[-1])), x).sum()
    then = random()
    after = seed[0]
    y.backward()
    assert factor[0] == factor[1] != then and seed[0] == after
    np.testing.assert_allclose(np.asarray(x.grad), factor[0] * np.exp(factor[0] * np.array([1.0, 2.0])), rtol=1e-5)


def test_checkpoint_in_no_grad_and_of_several_results():
    x = tensor([1.0, 2.0], grad=True)
    with tx.no_grad():
        assert not checkpoint(tx.exp, x).requires_grad
    a, b = checkpoint(lambda t, k=1.0: (tx.exp(t) * k, tx.sin(t)), x, k=2.0)
    (a + b).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), 2.0 * np.exp([1.0, 2.0]) + np.cos([1.0, 2.0]), rtol=1e-6)


def test_checkpoint_sequential():
    x = tensor([0.5, 1.0], grad=True)
    autograd.checkpoint_sequential([tx.exp, tx.sin, tx.tanh, tx.exp], 2, x).sum().backward()
    first = x.grad.tolist()
    x.grad = None
    tx.exp(tx.tanh(tx.sin(tx.exp(x)))).sum().backward()
    assert x.grad.tolist() == first


def test_hooks_on_saved_values(device):
    packed = []

    def pack(t):
        packed.append(t.shape)
        return t.to("cpu")

    x = tensor([1.0, 2.0], device, True)
    with autograd.saved_tensors_hooks(pack, lambda t: t.to(device)):
        y = tx.exp(x) * x + tx.matmul(x, x)
    assert packed == [(2,)] * 5
    y.sum().backward()
    expected = np.exp([1.0, 2.0]) * (1.0 + np.array([1.0, 2.0])) + 4.0 * np.array([1.0, 2.0])
    np.testing.assert_allclose(np.asarray(x.grad.to("cpu")), expected, rtol=1e-5)
    tx.exp(x)
    assert len(packed) == 5


# ---- derivatives of functions -------------------------------------------------------------------


def test_vjp_and_jvp():
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    m = tx.asarray(a)
    f = lambda x: m @ (x * x)
    x, v, u = double([1.0, 2.0]), tx.asarray([1.0, 0.5, 2.0]), tx.asarray([0.3, 0.7])
    jacobian = a * 2.0 * np.array([1.0, 2.0])
    y, g = autograd.vjp(f, x, v)
    np.testing.assert_allclose(np.asarray(y), a @ [1.0, 4.0])
    np.testing.assert_allclose(np.asarray(g), np.asarray(v) @ jacobian)
    y, d = autograd.jvp(f, x, u)
    np.testing.assert_allclose(np.asarray(d), jacobian @ np.asarray(u))
    np.testing.assert_allclose(np.asarray(autograd.jacobian(f, x)), jacobian)
    assert not y.requires_grad and not d.requires_grad and x.grad is None
    with pytest.raises(tx.ShapeError):
        autograd.vjp(f, x, u)
    with pytest.raises(tx.GradientError, match="left out"):
        autograd.vjp(f, x)


def test_jacobian_of_tuples():
    x, y = double([1.0, 2.0]), double([[3.0], [4.0]])
    out = autograd.jacobian(lambda a, b: (a * 2.0, (b * b).sum()), (x, y))
    assert [[t.shape for t in row] for row in out] == [[(2, 2), (2, 2, 1)], [(2,), (2, 1)]]
    assert out[0][0].tolist() == [[2.0, 0.0], [0.0, 2.0]] and out[0][1].tolist() == [[[0.0], [0.0]]] * 2
    assert out[1][1].tolist() == [[6.0], [8.0]]


def test_jacobian_can_be_differentiated():
    x = double([1.0, 2.0])
    j = autograd.jacobian(lambda t: t ** 3.0, x, create_graph=True)
    assert autograd.grad(j.sum(), x)[0].tolist() == [6.0, 12.0]


def test_hessian_and_products():
    f = lambda x: (x[0] ** 2.0) * x[1] + tx.exp(x[1])
    x, v = double([1.0, 2.0]), tx.asarray([0.5, -1.0])
    expected = np.array([[4.0, 2.0], [2.0, np.exp(2.0)]])
    np.testing.assert_allclose(np.asarray(autograd.hessian(f, x)), expected)
    np.testing.assert_allclose(np.asarray(autograd.hvp(f, x, v)[1]), expected @ np.asarray(v))
    np.testing.assert_allclose(np.asarray(autograd.vhp(f, x, v)[1]), expected @ np.asarray(v))
    with pytest.raises(tx.GradientError, match="one element"):
        autograd.hessian(lambda t: t * t, x)
    blocks = autograd.hessian(lambda a, b: (a * b).sum(), (double([1.0]), double([2.0])))
    assert [[b.tolist() for b in row] for row in blocks] == [[[[0.0]], [[1.0]]], [[[1.0]], [[0.0]]]]


def test_jvp_of_complex_functions():
    x = tx.asarray(np.array([1.0 + 2.0j, -0.5j]))
    v = tx.asarray(np.array([0.5 - 1.0j, 2.0 + 0j]))
    _, d = autograd.jvp(lambda t: t * t, x, v)
    np.testing.assert_allclose(np.asarray(d), 2.0 * np.asarray(x) * np.asarray(v))
    _, d = autograd.jvp(lambda t: tx.real(t) * 3.0, x, v)
    np.testing.assert_allclose(np.asarray(d), 3.0 * np.asarray(v).real)


# ---- gradcheck --------------------------------------------------------------------------------------


def test_gradcheck_finds_wrong_gradients():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(tx.GradientError, match=r"gradcheck: output 1, element 0, by input 1, element \(0,\): the gradient is 1.0, the difference quotient"):
        autograd.gradcheck(Wrong.apply, double([3.0, 0.5]))
    assert autograd.gradcheck(Wrong.apply, double([3.0]), raise_exception=False) is False

    class WrongTwice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2.0 * ctx.saved_tensors[0].detach()

    assert autograd.gradcheck(WrongTwice.apply, double([3.0]))
    assert not autograd.gradgradcheck(WrongTwice.apply, double([3.0]), raise_exception=False)


def test_gradcheck_wants_double_precision():
    with pytest.raises(tx.GradientError, match="need float64"):
        autograd.gradcheck(tx.exp, tensor([1.0], grad=True))
    with pytest.raises(tx.GradientError, match="none of the inputs"):
        autograd.gradcheck(tx.exp, tensor([1.0]))
