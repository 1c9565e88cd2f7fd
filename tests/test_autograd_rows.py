"""Gradients of every row of the op table: against finite differences and PyTorch, first and second derivatives."""

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core, autograd
from tensorx.ops import codegen, table

try:
    import torch
except ImportError:
    torch = None

ROWS = [(number, row) for number, row in enumerate(table.TABLE) if codegen.differentiable(row) and {"f", "c"} & set(row.kinds)]
KINDS = {"f": ("float64", np.float64), "c": ("complex128", np.complex128)}
CASES = [
    pytest.param(number, row, kind, id=f"{row.name}-{KINDS[kind][0]}")
    for number, row in ROWS
    for kind in "fc"
    if kind in row.kinds
]
N = 24


def operands(row, kind):
    """NumPy operands off the kinks, with room for the differences."""
    return [np.ascontiguousarray(a) for a in codegen.samples(row, KINDS[kind][0], N, seed=3)]


def run(number, arrays):
    return _core.elementwise(number, *(tx.asarray(a) for a in arrays))


def wanted(row, arrays):
    return [k for k in codegen.differentiable(row) if arrays[k].dtype.kind in "fc"]


def weights(y, rng):
    v = rng.standard_normal(y.shape) + 0.5
    if y.dtype.kind == "c":
        v = v + 1j * rng.standard_normal(y.shape)
    return v


def directions(a):
    return (1.0, 1.0j) if a.dtype.kind == "c" else (1.0,)


def difference(f, arrays, k, v, eps):
    """Derivative by operand k of the elements of real(conj(v) f), which depend on one element each."""
    total = 0.0
    for unit in directions(arrays[k]):
        values = []
        for sign in (1, -1):
            moved = list(arrays)
            moved[k] = arrays[k] + sign * eps * unit
            values.append((np.conj(v) * f(moved)).real)
        total = total + unit * (values[0] - values[1]) / (2 * eps)
    return total


def tracked(arrays, positions):
    out = [tx.asarray(a) for a in arrays]
    for k in positions:
        out[k].requires_grad = True
    return out


def gradients(number, arrays, positions, v, create_graph=False):
    xs = tracked(arrays, positions)
    y = _core.elementwise(number, *xs)
    assert y.requires_grad
    found = autograd.grad(y, [xs[k] for k in positions], tx.asarray(v), create_graph=create_graph, materialize_grads=True)
    return xs, found


# Other names in PyTorch; None: it has no such function, or no gradient of it.
TORCH = {
    "negative": "neg", "divide": "true_divide", "sign": "sgn", "log_sigmoid": "nn.functional.logsigmoid", "softplus": "nn.functional.softplus",
    "heaviside": None, "mulg": None,
}  # fmt: skip
KEYWORDS = {"addcmul": ("value",), "addcdiv": ("value",)}


def torch_function(row):
    if torch is None:
        pytest.skip("PyTorch is not installed")
    name = TORCH.get(row.name, row.name)
    if name is None:
        return None
    found = torch
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            break
    if found is None:
        found = getattr(torch.nn.functional, row.name, None) or getattr(torch.special, row.name, None)
    return found


@pytest.mark.parametrize("number, row, kind", CASES)
def test_first_derivatives_against_differences(number, row, kind, rng):
    arrays = operands(row, kind)
    positions = wanted(row, arrays)
    v = weights(run(number, arrays), rng)
    _, found = gradients(number, arrays, positions, v)
    for k, g in zip(positions, found):
        expected = difference(lambda a: np.asarray(run(number, a)), arrays, k, v, 1e-6)
        assert g.dtype.kind == arrays[k].dtype.kind
        np.testing.assert_allclose(np.asarray(g), expected, rtol=2e-5, atol=2e-6, err_msg=f"operand {k + 1}")


@pytest.mark.parametrize("number, row, kind", CASES)
def test_second_derivatives_against_differences(number, row, kind, rng):
    arrays = operands(row, kind)
    positions = wanted(row, arrays)
    v = weights(run(number, arrays), rng)
    for place, _k in enumerate(positions):
        xs, found = gradients(number, arrays, positions, v, create_graph=True)
        g = found[place]
        if not g.requires_grad:
            continue  # the first derivative does not depend on the operands
        u = weights(g, rng)
        second = autograd.grad(g, [xs[j] for j in positions], tx.asarray(u), materialize_grads=True)
        for j, h in zip(positions, second):
            expected = difference(lambda a, place=place: np.asarray(gradients(number, a, positions, v)[1][place]), arrays, j, u, 1e-6)
            np.testing.assert_allclose(np.asarray(h), expected, rtol=2e-4, atol=2e-5, err_msg=f"operands {place + 1}, {j + 1}")


@pytest.mark.parametrize("number, row, kind", CASES)
def test_derivatives_against_torch(number, row, kind, rng):
    f = torch_function(row)
    if f is None:
        pytest.skip("not in PyTorch")
    if all(codegen.gradients(row, kind == "c")[k] in (None, "0") for k in range(row.arity)):
        pytest.skip("zero everywhere: PyTorch refuses some of these")
    arrays = operands(row, kind)
    if row.params and row.name != "lerp":  # parameters are numbers there
        arrays[len(row.args) :] = [np.full_like(a, a.real[0]) for a in arrays[len(row.args) :]]
        positions = [k for k in wanted(row, arrays) if k < len(row.args)]
    else:
        positions = wanted(row, arrays)
    theirs = [torch.tensor(a, requires_grad=k in positions) for k, a in enumerate(arrays)]
    numbers = [float(a.real[0]) for a in arrays[len(row.args) :]]
    try:
        if row.name in KEYWORDS:
            y = f(*theirs[: len(row.args)], **dict(zip(KEYWORDS[row.name], numbers)))
        else:
            y = f(*theirs) if row.name == "lerp" else f(*theirs[: len(row.args)], *numbers)
    except (TypeError, RuntimeError, NotImplementedError) as error:
        pytest.skip(f"PyTorch takes other arguments: {str(error).splitlines()[0]}")
    ours = run(number, arrays)
    if y.shape != ours.shape or not np.allclose(y.detach().resolve_conj().numpy(), np.asarray(ours), rtol=1e-5, atol=1e-7):
        pytest.skip("PyTorch means another function by this name")
    v = weights(ours, rng)
    expected = torch.autograd.grad(y, [theirs[k] for k in positions], torch.tensor(v).to(y.dtype), create_graph=True, allow_unused=True)
    xs, found = gradients(number, arrays, positions, v, create_graph=True)
    for k, g, e in zip(positions, found, expected):
        e = np.zeros(g.shape) if e is None else e.detach().resolve_conj().numpy()
        np.testing.assert_allclose(np.asarray(g.detach()), e, rtol=1e-6, atol=1e-9, err_msg=f"operand {k + 1}")
    total = sum((g.real if g.dtype.kind == "c" else g).sum() for g in found if g.requires_grad)
    if isinstance(total, int) or kind == "c":
        return
    second = autograd.grad(total, [xs[k] for k in positions], materialize_grads=True)
    sums = [e.sum() for e in expected if e is not None and e.requires_grad]
    if not sums:
        return
    if row.name in ("abs", "fmod"):
        return  # PyTorch has no second derivative of these
    theirs_second = torch.autograd.grad(sum(sums), [theirs[k] for k in positions], allow_unused=True)
    for k, h, e in zip(positions, second, theirs_second):
        e = np.zeros(h.shape) if e is None else e.numpy()
        np.testing.assert_allclose(np.asarray(h), e, rtol=1e-5, atol=1e-8, err_msg=f"second, operand {k + 1}")


INPLACE = [pytest.param(number, row, id=row.name) for number, row in ROWS if row.has_inplace and "f" in row.kinds and row.grads[0] is not None]


@pytest.mark.parametrize("number, row", INPLACE)
def test_in_place_has_the_gradients_of_the_value_form(number, row, rng):
    arrays = operands(row, "f")
    positions = wanted(row, arrays)
    v = rng.standard_normal(N)
    _, expected = gradients(number, arrays, positions, v)
    xs = tracked(arrays, positions)
    first = xs[0] * 1.0 if 0 in positions else xs[0]
    y = _core.elementwise_inplace(number, first, *xs[1:])
    assert y is first
    found = autograd.grad(y, [xs[k] for k in positions], tx.asarray(v), materialize_grads=True)
    for k, g, e in zip(positions, found, expected):
        assert np.asarray(g).tobytes() == np.asarray(e).tobytes(), f"operand {k + 1}"


@pytest.mark.parametrize("number, row", [pytest.param(n, r, id=r.name) for n, r in ROWS if r.arity > 1 and "f" in r.kinds])
def test_broadcast_operands_get_gradients_of_their_own_shape(number, row, rng):
    arrays = operands(row, "f")
    positions = wanted(row, arrays)
    shaped = []
    for k, a in enumerate(arrays):
        shaped.append(a[:1].reshape(()) if k == len(arrays) - 1 else a[:6].reshape(2, 3) if k == 0 else a[:3])
    y = run(number, shaped)
    v = rng.standard_normal(y.shape)
    _, found = gradients(number, shaped, positions, v)
    full = [np.ascontiguousarray(np.broadcast_to(a, y.shape)) for a in shaped]
    _, expected = gradients(number, full, positions, v)
    for k, g, e in zip(positions, found, expected):
        assert g.shape == shaped[k].shape
        e = np.asarray(e)
        e = e.sum(axis=tuple(range(e.ndim - shaped[k].ndim)))
        np.testing.assert_allclose(np.asarray(g), e, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("number, row", [pytest.param(n, r, id=r.name) for n, r in ROWS if "f" in r.kinds])
def test_only_what_a_wanted_gradient_reads_is_kept(number, row):
    arrays = operands(row, "f")
    for k in wanted(row, arrays):
        xs = [tx.asarray(a) for a in arrays]
        xs[k].requires_grad = True
        texts = row.grads[k]
        names = codegen.rowlang.names(texts) if texts not in (None, "0") else set()
        y = _core.elementwise(number, *xs)
        tx.eval(y)
        for j, name in enumerate(row.operands):
            # handle and saved value: two owners
            assert xs[j].storage.owners == (2 if name in names else 1), name
        assert y.storage.owners == (2 if "out" in names else 1)
