"""Gradients of reductions, rows, products, views, indexing and writes: first and second derivatives against differences."""

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core, autograd

try:
    import torch
except ImportError:
    torch = None


def leaf(array):
    return tx.asarray(np.asarray(array)).requires_grad_()


def normal(rng, *shape):
    return leaf(rng.standard_normal(shape))


def arrays_of(xs):
    return [np.array(np.asarray(x.detach())) for x in xs]


def noise(rng, a):
    v = rng.standard_normal(a.shape)
    return v + 1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else v


def along(f, arrays, steps, eps=1e-6):
    """The derivative of f, which maps arrays to a float, in the direction of the steps."""
    return (f([a + eps * s for a, s in zip(arrays, steps)]) - f([a - eps * s for a, s in zip(arrays, steps)])) / (2 * eps)


def product(gs, steps):
    return sum(float((np.asarray(g) * np.conj(s)).real.sum()) for g, s in zip(gs, steps))


def check(f, *inputs, second=True):
    """First and second derivatives in random directions against differences, for all inputs at once."""
    rng = np.random.default_rng(7)
    arrays = arrays_of(inputs)
    v = noise(rng, np.asarray(f(*(leaf(a) for a in arrays)).detach()))
    fixed = tx.asarray(v)

    def value(points):
        with tx.no_grad():
            return float((np.conj(v) * np.asarray(f(*(tx.asarray(a) for a in points)))).real.sum())

    def first(points, create=False):
        xs = [leaf(a) for a in points]
        return xs, autograd.grad(f(*xs), xs, fixed, create_graph=create, materialize_grads=True)

    _, gs = first(arrays)
    for x, g in zip(inputs, gs):
        assert g.shape == x.shape and g.dtype is x.dtype
    for _ in range(3):
        steps = [noise(rng, a) for a in arrays]
        np.testing.assert_allclose(product(gs, steps), along(value, arrays, steps), rtol=1e-6, atol=1e-7)
    if not second:
        return
    us = [noise(rng, a) for a in arrays]
    xs, gs = first(arrays, create=True)
    live = [(g, tx.asarray(u)) for g, u in zip(gs, us) if g.requires_grad]
    hs = autograd.grad([g for g, _ in live], xs, [u for _, u in live], materialize_grads=True) if live else [np.zeros(a.shape) for a in arrays]
    for _ in range(2):
        steps = [noise(rng, a) for a in arrays]
        expected = along(lambda points: product(first(points)[1], us), arrays, steps)
        np.testing.assert_allclose(product(hs, steps), expected, rtol=1e-5, atol=1e-6)


# ---- reductions --------------------------------------------------------------------------

AXES = [None, 0, 1, (0, 2), (0, 1, 2), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "logsumexp", "var", "std", "norm"])
def test_reductions(name, axis, keepdims, rng):
    if axis == () and name in ("var", "std"):
        pytest.skip("of one element: constant, and the root of 0")
    f = getattr(tx, name)
    check(lambda x: f(x, axis=axis, keepdims=keepdims), normal(rng, 2, 3, 2))


@pytest.mark.parametrize("ord", [1, 2, 3, 2.5, float("inf"), float("-inf")])
def test_norms(ord, rng):
    check(lambda x: tx.norm(x, ord=ord, axis=1), normal(rng, 3, 4))


def test_sing_1_norm_at_zero(device):
    x = tx.zeros(3, device=device).requires_grad_()
    tx.norm(x).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    x.grad = None
    tx.norm(tx.reshape(x, (3, 1)), axis=1).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_sing_3_where_with_an_overflowing_branch(device):
    a = tx.asarray(100.0, dtype=tx.float32, device=device).requires_grad_()
    tx.where(a <= 0, tx.exp(a), 1.0 + a).backward()
    assert a.grad.item() == 1.0


def test_sing_5_clip_at_its_bounds_relu_at_zero(device):
    x = tx.asarray([-1.0, 0.0, 1.0, 2.0], dtype=tx.float32, device=device).requires_grad_()
    tx.clip(x, 0.0, 1.0).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    x.grad = None
    tx.relu(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_sing_7_ties_of_the_maximum(device):
    x = tx.asarray([1.0, 3.0, 3.0], dtype=tx.float32, device=device).requires_grad_()
    tx.max(x).backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
    a = tx.asarray([1.0, 2.0], dtype=tx.float32, device=device).requires_grad_()
    b = tx.asarray([1.0, 1.0], dtype=tx.float32, device=device).requires_grad_()
    tx.maximum(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 1.0] and b.grad.tolist() == [0.5, 0.0]


def test_maximum_with_nan_sends_the_gradient_to_the_nan():
    x = leaf([1.0, np.nan, 3.0])
    tx.max(x).backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("values, expected", [([2.0, 0.0, 3.0, 4.0], [0, 24, 0, 0]), ([2.0, 0.0, 0.0, 4.0], [0, 0, 0, 0])])
def test_sing_8_product_with_zeros(values, expected, device):
    x = tx.asarray(values, dtype=tx.float32, device=device).requires_grad_()
    tx.prod(x).backward()
    assert x.grad.tolist() == expected


def test_products_with_zeros_have_second_derivatives():
    x = leaf([[2.0, 0.0, 3.0, 4.0, 1.5], [0.0, 1.0, 0.0, 2.0, 5.0]])
    check(lambda t: tx.prod(t, axis=1), x)
    check(tx.prod, leaf([[2.0, 0.0], [3.0, -1.0]]))


def test_sum_of_halves_keeps_the_dtype_of_the_gradient():
    x = tx.ones(5, dtype=tx.float16).requires_grad_()
    tx.sum(x).backward()
    assert x.grad.dtype is tx.float16 and x.grad.tolist() == [1.0] * 5


def test_complex_sums_and_norms(rng):
    x = leaf(rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)))
    check(lambda t: tx.sum(t * t, axis=1), x)
    check(lambda t: tx.norm(t), x)
    check(lambda t: tx.prod(t, axis=0), x)


# ---- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name, axis, rng):
    f = getattr(tx, name)
    check(lambda x: f(x, axis=axis), normal(rng, 3, 4))
    check(lambda x: f(x.T, axis=axis), normal(rng, 3, 4))


def test_logsumexp_of_minus_infinity_has_no_gradient():
    x = leaf([-np.inf, -np.inf])
    tx.logsumexp(x).backward()
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("affine", [0, 1, 2])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_normalisations(name, affine, rng):
    x, w, b = normal(rng, 3, 2, 4), normal(rng, 2, 4), normal(rng, 2, 4)
    if name == "layer_norm":
        check(lambda *p: tx.layer_norm(p[0], (2, 4), *p[1:], eps=1e-3), *(x, w, b)[: affine + 1])
    else:
        check(lambda *p: tx.rms_norm(p[0], (2, 4), *p[1:], eps=1e-3), *(x, w)[: min(affine, 1) + 1])


def test_normalisation_of_float16_and_parameters_alone(rng):
    x = tx.asarray(rng.standard_normal((3, 8)).astype(np.float16))
    w = tx.ones(8).requires_grad_()
    tx.layer_norm(x, 8, w).sum().backward()
    rows = np.asarray(x).astype(np.float64)
    expected = ((rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)).sum(0)
    np.testing.assert_allclose(np.asarray(w.grad), expected, atol=1e-3)


# ---- products ------------------------------------------------------------------------------------------

SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4)),
          ((2, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2))]  # fmt: skip


@pytest.mark.parametrize("a, b", SHAPES, ids=str)
def test_matmul(a, b, rng):
    x, y = normal(rng, *a), normal(rng, *b)
    check(tx.matmul, x, y, second=x.size * y.size > 0)


def test_matmul_of_complex_numbers_and_transposes(rng):
    x = leaf(rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)))
    y = leaf(rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)))
    check(lambda a, b: a @ b.T, x, y)
    check(lambda a, b: tx.vecdot(a, b), x, y)
    check(lambda a, b: tx.tensordot(a, b, axes=((0, 1), (0, 1))), x, y)


def test_matmul_keeps_only_what_is_wanted():
    x, w = tx.ones((4, 4)), tx.ones((4, 4)).requires_grad_()
    y = x @ w
    assert x.storage.owners == 2 and w.storage.owners == 1
    del y
    x.requires_grad = True
    w.requires_grad = False
    z = x @ w
    assert x.storage.owners == 1 and w.storage.owners == 2 and z.requires_grad


def test_bcg_1_broadcast_operand(device):
    a = tx.asarray([2.0], dtype=tx.float32, device=device).requires_grad_()
    b = tx.reshape(tx.arange(20, dtype=tx.float32, device=device), (5, 4)).copy().requires_grad_()
    (a * b).sum().backward()
    assert a.grad.shape == (1,) and a.grad.tolist() == [190.0]
    assert b.grad.tolist() == [[2.0] * 4] * 5


# ---- views ------------------------------------------------------------------------------------------------

VIEWS = {
    "reshape": lambda x: x.reshape((4, 3)),
    "reshape that copies": lambda x: x.T.reshape((2, 6)),
    "permute": lambda x: x.T,
    "moveaxis": lambda x: tx.moveaxis(x.reshape((2, 2, 3)), 0, -1),
    "squeeze": lambda x: x.reshape((1, 12, 1)).squeeze(),
    "expand_dims": lambda x: tx.expand_dims(x, 1),
    "broadcast": lambda x: tx.broadcast_to(x, (2, 3, 4)),
    "broadcast of ones": lambda x: tx.broadcast_to(x[:, :1], (3, 5)),
    "slice": lambda x: x[1:, ::2],
    "negative step": lambda x: x[::-1, ::-2],
    "integer": lambda x: x[1],
    "element": lambda x: x[2, 3],
    "new axis": lambda x: x[None, :, None, 1],
    "flip": lambda x: tx.flip(x, axis=0),
    "diagonal": lambda x: tx.diagonal(x, 1),
    "unfold": lambda x: tx.unfold(x, 1, 2, 2),
    "windows that overlap": lambda x: tx.unfold(x, 1, 3, 1),
    "view of views": lambda x: x.reshape((2, 6)).T[1::2].reshape((3, 2)),
    "astype": lambda x: x.astype(tx.float64),
    "copy": lambda x: x.copy(),
    "contiguous": lambda x: x.T.contiguous(),
    "unflatten": lambda x: tx.unflatten(x, 1, (2, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name, rng):
    check(lambda x: VIEWS[name](x) * VIEWS[name](x), normal(rng, 3, 4))
    check(lambda x: VIEWS[name](x * 1.0), normal(rng, 3, 4))


# ---- reading by index -----------------------------------------------------------------------------------------

INDEX = np.array([2, 0, 2])
MASK = np.array([[True, False, True, False], [False] * 4, [True] * 4])
READS = {
    "array": lambda x: x[tx.asarray(INDEX)],
    "list": lambda x: x[[0, 0, -1]],
    "two arrays": lambda x: x[[0, 2, 0], [1, 1, 1]],
    "array and slice": lambda x: x[1:, [0, 0, 3]],
    "outer": lambda x: x[tx.asarray([[0], [2]]), tx.asarray([1, 1])],
    "mask": lambda x: x[tx.asarray(MASK)],
    "mask of rows": lambda x: x[tx.asarray(MASK[:, 0])],
    "take": lambda x: tx.take(x, tx.asarray(INDEX), axis=0),
    "take of a matrix": lambda x: tx.take(x, tx.asarray([[0, 3], [3, 3]]), axis=1),
    "take flat": lambda x: tx.take(x, tx.asarray([0, 11, 11])),
    "index_select": lambda x: tx.index_select(x, 1, tx.asarray([1, 1])),
    "gather": lambda x: tx.gather(x, 1, tx.asarray([[0, 0], [1, 3], [2, 2]])),
    "take_along_axis": lambda x: tx.take_along_axis(x, tx.asarray([[1], [0], [3]]), axis=1),
    "masked_select": lambda x: tx.masked_select(x, tx.asarray(MASK)),
    "roll": lambda x: tx.roll(x, (1, -2), axis=(0, 1)),
    "roll flat": lambda x: tx.roll(x, 5),
}


@pytest.mark.parametrize("name", READS)
def test_reading_by_index(name, rng):
    check(lambda x: READS[name](x) * READS[name](x), normal(rng, 3, 4))


def test_the_index_is_kept_as_it_was(rng):
    x, i = normal(rng, 4), tx.asarray([0, 1])
    y = tx.take(x, i, axis=0)
    i[0] = 3
    with pytest.raises(tx.GradientError, match="the indices.*version 0.*version 1"):
        y.sum().backward()
    places = [0, 1]
    y = x[places]
    places[0] = 3
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0, 0.0]


# ---- writing by index: the value forms -----------------------------------------------------------------------------

WRITES = {
    "slice_assign": (lambda x, v: tx.slice_assign(x, (slice(1, 3), 1), v), (2,)),
    "slice_assign broadcast": (lambda x, v: tx.slice_assign(x, slice(0, 2), v), (1, 4)),
    "slice_assign by arrays": (lambda x, v: tx.slice_assign(x, tx.asarray([2, 0]), v), (2, 4)),
    "slice_assign by arrays, twice": (lambda x, v: tx.slice_assign(x, tx.asarray([2, 0, 2]), v), (3, 4)),
    "index_add": (lambda x, v: tx.index_add(x, 1, tx.asarray([1, 1, 3]), v), (3, 3)),
    "index_add of one": (lambda x, v: tx.index_add(x, 0, tx.asarray([1, 1]), v), ()),
    "index_copy": (lambda x, v: tx.index_copy(x, 0, tx.asarray([2, 0]), v), (2, 4)),
    "index_copy twice": (lambda x, v: tx.index_copy(x, 0, tx.asarray([2, 2]), v), (2, 4)),
    "index_fill": (lambda x, v: tx.index_fill(x, 1, tx.asarray([2, 2]), v), ()),
    "index_put": (lambda x, v: tx.index_put(x, (tx.asarray([0, 2]), tx.asarray([1, 1])), v), (2,)),
    "index_put accumulate": (lambda x, v: tx.index_put(x, (tx.asarray([0, 0]), tx.asarray([1, 1])), v, True), (2,)),
    "scatter": (lambda x, v: tx.scatter(x, 1, tx.asarray([[1, 0], [3, 2]]), v), (2, 2)),
    "scatter twice": (lambda x, v: tx.scatter(x, 1, tx.asarray([[1, 1], [3, 2]]), v), (3, 2)),
    "scatter_add": (lambda x, v: tx.scatter_add(x, 0, tx.asarray([[1, 1, 0, 0]]), v), (2, 4)),
    "masked_fill": (lambda x, v: tx.masked_fill(x, tx.asarray(MASK), v), ()),
    "masked_scatter": (lambda x, v: tx.masked_scatter(x, tx.asarray(MASK), v), (8,)),
    "put_along_axis": (lambda x, v: tx.put_along_axis(x, tx.asarray([[1], [0], [3]]), v, axis=1), (3, 1)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_by_index_as_a_value(name, rng):
    f, shape = WRITES[name]
    check(lambda x, v: f(x, v) * f(x, v), normal(rng, 3, 4), normal(rng, *shape))
    check(lambda v: f(tx.ones((3, 4), dtype=tx.float64), v), normal(rng, *shape))
    number = {"slice_assign": 2.0}
    if shape == () or name in number:
        check(lambda x: f(x, 2.0), normal(rng, 3, 4))


def set_rows(x, v):
    x[tx.asarray([2, 0, 2])] = v
    return x


def set_slice(x, v):
    x[1:, ::2] = v
    return x


def set_mask(x, v):
    x[tx.asarray(MASK)] = v
    return x


INPLACE = {
    "setitem slice": (set_slice, (2, 2)),
    "setitem broadcast": (set_slice, (2,)),
    "setitem array": (set_rows, (3, 4)),
    "setitem mask": (set_mask, (6,)),
    "setitem mask, one value": (set_mask, ()),
    "copy_": (lambda x, v: x.copy_(v), (4,)),
    "copy_ of leading ones": (lambda x, v: x.copy_(v), (1, 3, 4)),
    "slice_set": (lambda x, v: x.slice_set(v, 1, 2), (3, 2)),
    "index_add_": (lambda x, v: x.index_add_(1, tx.asarray([1, 1, 3]), v), (3, 3)),
    "index_copy_": (lambda x, v: x.index_copy_(0, tx.asarray([2, 0]), v), (2, 4)),
    "index_fill_": (lambda x, v: x.index_fill_(1, tx.asarray([2]), v), ()),
    "index_put_": (lambda x, v: x.index_put_((tx.asarray([0, 2]),), v), (2, 4)),
    "scatter_": (lambda x, v: x.scatter_(1, tx.asarray([[1, 0], [3, 2]]), v), (2, 2)),
    "scatter_add_": (lambda x, v: x.scatter_add_(1, tx.asarray([[1, 1], [3, 2]]), v), (2, 2)),
    "masked_fill_": (lambda x, v: x.masked_fill_(tx.asarray(MASK), v), ()),
    "masked_scatter_": (lambda x, v: x.masked_scatter_(tx.asarray(MASK), v), (7,)),
    "put_along_axis_": (lambda x, v: x.put_along_axis_(tx.asarray([[1], [0], [3]]), v, axis=1), (3, 1)),
    "add_": (lambda x, v: x.add_(v), (4,)),
    "mul_": (lambda x, v: x.mul_(v), (3, 4)),
    "mul_ of itself": (lambda x, v: x.mul_(x).add_(v), ()),
    "exp_": (lambda x, v: x.mul_(v).exp_(), (4,)),
    "imul": (lambda x, v: x.__imul__(v), (4,)),
}


@pytest.mark.parametrize("through", ["the value", "a view", "an alias", "a reshaped view"])
@pytest.mark.parametrize("name", INPLACE)
def test_writes_in_place(name, through, rng):
    f, shape = INPLACE[name]

    def run(x, v):
        whole = tx.reshape(x, (3, 2, 2, 2))[:, 0] * 1.0 if through == "a reshaped view" else x[:, 1:5] * 1.0 if through != "a view" else x * 1.0
        part = {"the value": lambda w: w, "a view": lambda w: w[:, 1:5], "an alias": lambda w: w.alias(), "a reshaped view": lambda w: w.reshape((3, 4))}[through](whole)
        f(part, v)
        return whole * whole

    check(run, normal(rng, 3, 8), normal(rng, *shape))


@pytest.mark.parametrize("name", [n for n in INPLACE if n not in ("mul_", "exp_", "imul", "mul_ of itself")])
def test_writes_of_tracked_values_into_plain_memory(name, rng):
    """A buffer becomes part of the history, whichever handle it is written and read through."""
    f, shape = INPLACE[name]

    def through_a_view(v):
        buffer = tx.full((3, 6), 2.0, dtype=tx.float64)
        kept, part = buffer.T, buffer[:, 1:5]
        f(part, v)
        del part
        return kept * kept

    check(through_a_view, normal(rng, *shape))

    def directly(v):
        buffer = tx.full((3, 4), 2.0, dtype=tx.float64)
        f(buffer, v)
        return buffer * buffer

    check(directly, normal(rng, *shape))


# ---- against PyTorch ------------------------------------------------------------------------------------------------

TORCH = {
    "softmax": (lambda x: tx.softmax(x, axis=1), lambda x: torch.softmax(x, 1)),
    "log_softmax": (lambda x: tx.log_softmax(x, axis=0), lambda x: torch.log_softmax(x, 0)),
    "logsumexp": (lambda x: tx.logsumexp(x, axis=1), lambda x: torch.logsumexp(x, 1)),
    "layer_norm": (lambda x: tx.layer_norm(x, 5), lambda x: torch.nn.functional.layer_norm(x, (5,))),
    "var": (lambda x: tx.var(x, axis=1, correction=1), lambda x: torch.var(x, 1)),
    "norm": (lambda x: tx.norm(x, axis=1), lambda x: torch.linalg.vector_norm(x, dim=1)),
    "prod": (lambda x: tx.prod(x, axis=1), lambda x: torch.prod(x, 1)),
    "amax": (lambda x: tx.max(x, axis=1), lambda x: torch.amax(x, 1)),
    "matmul": (lambda x: x @ x.T, lambda x: x @ x.T),
    "gather": (lambda x: tx.gather(x, 1, tx.asarray([[0, 0], [1, 4]])), lambda x: torch.gather(x, 1, torch.tensor([[0, 0], [1, 4]]))),
    "index_add": (
        lambda x: tx.index_add(x, 0, tx.asarray([1, 1, 0, 2]), x),
        lambda x: torch.index_add(x, 0, torch.tensor([1, 1, 0, 2]), x),
    ),
    "unfold": (lambda x: tx.unfold(x, 1, 3, 1), lambda x: x.unfold(1, 3, 1)),
}


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", TORCH)
def test_against_torch(name, rng):
    ours, theirs = TORCH[name]
    a = rng.standard_normal((4, 5))
    x, t = leaf(a), torch.tensor(a, requires_grad=True)
    y, u = ours(x), theirs(t)
    np.testing.assert_allclose(np.asarray(y.detach()), u.detach().numpy(), rtol=1e-12)
    v = rng.standard_normal(u.shape)
    (g,) = autograd.grad(y, x, tx.asarray(v), create_graph=True)
    (e,) = torch.autograd.grad(u, t, torch.tensor(v), create_graph=True)
    np.testing.assert_allclose(np.asarray(g.detach()), e.detach().numpy(), rtol=1e-9, atol=1e-12)
    if e.requires_grad:
        w = rng.standard_normal(a.shape)
        (h,) = autograd.grad(g, x, tx.asarray(w))
        np.testing.assert_allclose(np.asarray(h), torch.autograd.grad(e, t, torch.tensor(w))[0].numpy(), rtol=1e-8, atol=1e-11)


# ---- the registry ---------------------------------------------------------------------------------------------------


def test_a_rule_of_ones_own():
    from tensorx.autograd.rules import define, keep
    from tensorx.ops._record import record

    define("test_cube", lambda node, inputs, out, saved, wanted: {"x": keep(inputs[0])}, lambda g, kept, wanted: {0: g * 3.0 * kept["x"] * kept["x"]})
    try:
        cube = lambda x: record("test_cube", (x,), x.detach() * x.detach() * x.detach())
        check(cube, leaf([1.0, 2.0]))
    finally:
        del _core.rules["test_cube"]


def test_every_op_that_records_itself_has_a_rule():
    import ast
    from pathlib import Path

    recorders = {"record": str, "inplace": lambda name: {"setitem": "index_put", "slice_set": "slice_assign"}.get(name, name.removesuffix("_"))}
    missing = []
    for path in sorted(Path(tx.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", None) not in recorders or not call.args:
                continue
            name = call.args[0]
            if isinstance(name, ast.Constant) and recorders[call.func.id](name.value) not in _core.rules:
                missing.append(f"{path.name}:{call.lineno}: {name.value}")
    assert not missing


def test_an_op_without_a_rule_says_so():
    from tensorx.ops._record import record

    x = tx.ones(2).requires_grad_()
    with pytest.raises(tx.GradientError, match=r"test_unknown: has no gradient.*detach"):
        record("test_unknown", (x,), x.detach() * 2.0)
    assert record("test_unknown", (x,), x.detach() > 2.0).tolist() == [False, False]
