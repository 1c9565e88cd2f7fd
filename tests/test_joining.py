"""concat and stack: values, memory, and what they refuse."""

import numpy as np
import pytest

import tensorx as tx


def parts(device, dtype="float32"):
    rng = np.random.default_rng(5)
    arrays = [(rng.normal(size=s) * 9).astype(dtype) for s in ((2, 3, 4), (2, 1, 4), (2, 0, 4), (2, 5, 4))]
    return arrays, [tx.asarray(a, device=device) for a in arrays]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool", "complex64"])
@pytest.mark.parametrize("axis", [1, -2])
def test_concat_values(device, dtype, axis):
    arrays, tensors = parts(device, dtype)
    got = tx.concat(tensors, axis=axis)
    assert np.array_equal(got.numpy(), np.concatenate(arrays, axis=axis)) and got.shape == (2, 9, 4)
    pending = tx.concat([tx.where(tensors[0] == tensors[0], tensors[0], tensors[0]), tensors[1]], axis=axis)
    assert np.array_equal(pending.numpy(), np.concatenate(arrays[:2], axis=axis))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_stack_values(device, axis):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = tx.asarray(a, device=device)
    views = [x, x[::-1], x.T.reshape((3, 4)), tx.broadcast_to(x[0], (3, 4)), x * 2.0]
    want = [a, a[::-1], a.T.reshape(3, 4), np.broadcast_to(a[0], (3, 4)), a * 2]
    assert np.array_equal(tx.stack(views, axis=axis).numpy(), np.stack(want, axis=axis))
    scalars = [tx.asarray(v, device=device) for v in (1.0, 2.0)]
    assert tx.stack(scalars).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("join, count", [(lambda p: tx.concat(p, axis=1), 2), (lambda p: tx.stack(p), 2)])
def test_a_pending_part_is_computed_into_its_place(device, join, count):
    with tx.deferred(True), tx.device(device):
        x = tx.ones((100, 100))
        tx.eval(x)
        with tx.memory.measure() as m:
            out = join([x * 2.0 + 1.0, tx.exp(x)])
            tx.eval(out)
        assert (m.bytes, m.allocations) == (count * x.nbytes, 1)
        assert x[0, 0].item() == 1.0


def test_dtypes_promote_and_gradients_are_cut(device):
    x = tx.asarray([[1.0, 2.0]], device=device).requires_grad_()
    n = tx.asarray([[3, 4]], device=device, dtype=tx.int8).astype(tx.float64 if device == "cpu" else tx.float32)
    for join in (lambda: tx.concat([x * 2.0, n, x], axis=-1), lambda: tx.stack([x * 2.0, n, x], axis=1)):
        x.grad = None
        out = join()
        assert out.dtype is n.dtype
        (out * tx.arange(6, dtype=out.dtype, device=device).reshape(out.shape)).sum().backward()
        assert x.grad.tolist() == [[0 * 2 + 4, 1 * 2 + 5]]


@pytest.mark.parametrize("call, error, words", [
    (lambda x: tx.concat([]), tx.ShapeError, "at least one tensor"),
    (lambda x: tx.concat([x, 1.0]), tx.DTypeError, "item 1 must be a tensor, got float"),
    (lambda x: tx.concat([x, x[0]]), tx.ShapeError, "item 1 has shape"),
    (lambda x: tx.concat([x, x.T], axis=0), tx.ShapeError, "may differ only along axis 0"),
    (lambda x: tx.concat([x, x], axis=2), Exception, "axis"),
    (lambda x: tx.concat([x, x], axis=1.0), TypeError, "an axis is an int"),
    (lambda x: tx.concat([x[0, 0], x[0, 0]]), tx.ShapeError, "use stack"),
    (lambda x: tx.stack([x, x.T]), tx.ShapeError, "all must be equal"),
    (lambda x: tx.stack([x, x], axis=4), Exception, "axis"),
    (lambda x: tx.stack([x, x.astype(tx.uint64), x.astype(tx.int64)]), tx.DTypeError, "promote"),
])  # fmt: skip
def test_what_is_refused(device, call, error, words):
    x = tx.ones((2, 3), device=device)
    with pytest.raises(error, match=words):
        call(x)


def test_axes_of_numpy_none_and_generators(device):
    x = tx.ones((2, 3), device=device)
    assert tx.concat([x, x], axis=np.int64(1)).shape == (2, 6)
    assert tx.concat((y for y in (x, x)), axis=None).shape == (12,)
