"""What autograd promises: histories of storages, versions, leaves, errors at the cause, atomic backward."""

import copy
import gc
import inspect
import re
import weakref

import numpy as np
import pytest

import tensorx as tx
from tensorx import _core, autograd


def tensor(values, device="cpu", grad=False):
    return tx.asarray(values, dtype=tx.float32, device=device).requires_grad_(grad)


def here(offset=0):
    """``file:line`` of the calling line, as messages print it."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset}"


# ---- basics -----------------------------------------------------------------------------------


def test_backward_adds_up_in_leaves(device):
    w, b = tensor([1.0, 2.0], device, True), tensor([0.5], device, True)
    x = tensor([3.0, 4.0], device)
    for _ in range(2):
        (w * x + b).sum().backward()
    assert w.grad.tolist() == [6.0, 8.0] and b.grad.tolist() == [4.0] and x.grad is None
    assert str(w.grad.device) == str(w.device) and not w.grad.requires_grad


def test_leaves_and_results(device):
    w = tensor([1.0], device, True)
    y = w * 2.0
    assert w.is_leaf and w.grad_fn is None and not y.is_leaf and y.grad_fn.name == "multiply"
    assert tensor([1.0], device).is_leaf and (w > 0.0).is_leaf and not (w > 0.0).requires_grad
    assert y.grad_fn.next_nodes == (w._meta,)


def test_backward_of_more_than_one_element_needs_a_gradient(device):
    w = tensor([1.0, 2.0], device, True)
    with pytest.raises(tx.GradientError, match=r"shape \(2,\); a gradient can be left out only for one element"):
        (w * 2.0).backward()
    with pytest.raises(tx.ShapeError, match=r"a gradient of shape \(3,\) for a tensor of shape \(2,\)"):
        (w * 2.0).backward(tensor([1.0] * 3, device))
    (w * 2.0).backward(tensor([1.0, 10.0], device))
    assert w.grad.tolist() == [2.0, 20.0]


def test_the_given_gradient_is_not_taken_over(device):
    w, g = tensor([1.0, 2.0], device, True), tensor([1.0, 1.0], device)
    w.backward(g)
    assert not tx.shares_storage(w.grad, g)
    g.zero_()
    assert w.grad.tolist() == [1.0, 1.0]


def test_a_tracked_gradient_is_a_constant_without_create_graph(device):
    w, v = tensor([1.0, 2.0], device, True), tensor([1.0, 2.0], device, True)
    (w * 2.0).backward(v)
    assert not w.grad.requires_grad and w.grad.tolist() == [2.0, 4.0]
    (g,) = autograd.grad(w * 2.0, w, v, create_graph=True)
    assert autograd.grad(g.sum(), v)[0].tolist() == [2.0, 2.0]


def test_only_floating_point_tensors_require_grad():
    with pytest.raises(tx.GradientError, match="this one is int64"):
        tx.arange(3).requires_grad_()
    w = tensor([1.0], grad=True)
    with pytest.raises(tx.GradientError, match="only of leaves"):
        (w * 2.0).requires_grad_(False)
    assert not w.requires_grad_(False).requires_grad


def test_grad_is_checked_when_assigned(device):
    w = tensor([1.0, 2.0], device, True)
    with pytest.raises(tx.GradientError, match=r"shape \(3,\)"):
        w.grad = tensor([1.0] * 3, device)
    w.grad = tensor([1.0, 1.0], device)
    (w * 2.0).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    w.grad = None
    assert w.grad is None


def test_modes(device):
    w = tensor([1.0], device, True)
    with tx.no_grad():
        assert not (w * 2.0).requires_grad and not tx.is_grad_enabled()
        with tx.enable_grad():
            assert (w * 2.0).requires_grad
    with tx.inference_mode():
        v = w * 2.0
    assert not v.requires_grad and (v.requires_grad_() * 1.0).requires_grad

    @tx.no_grad()
    def f(t):
        return t * 2.0

    assert not f(w).requires_grad and tx.is_grad_enabled()
    with tx.set_grad_enabled(False):
        assert not (w * 2.0).requires_grad
    assert (w * 2.0).requires_grad


def test_modes_are_local_to_the_thread():
    import threading

    seen = []
    with tx.no_grad():
        t = threading.Thread(target=lambda: seen.append(tx.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_casts_copies_and_transfers_are_differentiable(device):
    w = tensor([1.0, 2.0], device, True)
    for f in (lambda t: t.copy(), lambda t: t.clone(), lambda t: t.to(tx.float16), lambda t: t.astype(tx.float16), lambda t: t.to(device), copy.copy):
        w.grad = None
        (f(w) * 3.0).sum().backward()
        assert w.grad.tolist() == [3.0, 3.0] and w.grad.dtype is tx.float32
    w.grad = None
    (w.to("cpu") * 3.0).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0] and w.grad.device is w.device


def test_gradient_through_to_lands_on_the_leafs_device(device):
    """Scenario: a CPU parameter [4, 2], used on a device."""
    w = tensor([4.0, 2.0], "cpu", True)
    x = tensor([4.0, 2.0], device)
    (w.to(device) * x).sum().backward()
    assert w.grad.tolist() == [4.0, 2.0] and str(w.grad.device) == "cpu"


def test_a_gradient_that_reaches_a_moved_leaf_is_moved_and_converted():
    w = tensor([1.0, 2.0], grad=True)
    loss = (w * 3.0).sum()
    _core.retarget(w, w.detach().to(tx.float64))
    loss.backward()
    assert w.grad.dtype is tx.float64 and w.grad.tolist() == [3.0, 3.0]
    (w * 1.0).sum().backward()
    assert w.grad.tolist() == [4.0, 4.0]


def test_a_gradient_that_reaches_a_leaf_moved_to_a_device(device):
    w = tensor([1.0, 2.0], "cpu", True)
    loss = (w * 3.0).sum()
    _core.retarget(w, w.detach().to(device))
    loss.backward()
    assert w.grad.device is w.device and w.grad.tolist() == [3.0, 3.0]


def test_second_derivatives(device):
    x = tensor(0.0, device, True)
    (g,) = autograd.grad((tx.exp(x) - 1.0) ** 2.0, x, create_graph=True)
    assert g.item() == 0.0 and autograd.grad(g, x)[0].item() == 2.0
    assert autograd.hessian(lambda t: (tx.exp(t) - 1.0) ** 2.0, x).item() == 2.0


def test_grad_of_unused_inputs(device):
    w, v = tensor([1.0], device, True), tensor([1.0], device, True)
    with pytest.raises(tx.GradientError, match="do not depend on input 2"):
        autograd.grad((w * 2.0).sum(), (w, v))
    assert autograd.grad((w * 2.0).sum(), (w, v), allow_unused=True)[1] is None
    assert autograd.grad((w * 2.0).sum(), (w, v), materialize_grads=True)[1].tolist() == [0.0]
    assert w.grad is None and v.grad is None


def test_grad_with_respect_to_computed_values_and_views(device):
    w = tensor([1.0, 2.0, 3.0], device, True)
    y = w * 2.0
    v = y[1:]
    z = (v * v).sum()
    gy, gv = autograd.grad(z, (y, v), retain_graph=True)
    assert gy.tolist() == [0.0, 8.0, 12.0] and gv.tolist() == [8.0, 12.0]
    assert autograd.grad(z, w)[0].tolist() == [0.0, 16.0, 24.0]
    part = w[1:]
    assert autograd.grad((part * part).sum(), part)[0].tolist() == [4.0, 6.0]


def test_backward_into_chosen_inputs_only(device):
    w, v = tensor([1.0], device, True), tensor([1.0], device, True)
    (w * v).sum().backward(inputs=[w])
    assert w.grad.tolist() == [1.0] and v.grad is None


def test_several_results_at_once(device):
    w = tensor([1.0, 2.0], device, True)
    autograd.backward([(w * 2.0).sum(), w * 3.0], [None, tensor([1.0, 10.0], device)])
    assert w.grad.tolist() == [5.0, 32.0]


def test_retain_grad_and_hooks(device):
    w = tensor([1.0, 2.0], device, True)
    y = w * 2.0
    y.retain_grad()
    seen = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10.0)
    last = w.register_hook(lambda g: g + 1.0)
    (y * y).sum().backward()
    assert seen == [[4.0, 8.0]] and y.grad.tolist() == [40.0, 80.0] and w.grad.tolist() == [81.0, 161.0]
    handle.remove()
    last.remove()
    (w * 1.0).sum().backward()
    assert w.grad.tolist() == [82.0, 162.0] and len(seen) == 1


def test_a_hook_that_writes_to_its_gradient_is_refused(device):
    w = tensor([1.0, 2.0], device, True)
    w.register_hook(lambda g: g.mul_(2.0))
    with pytest.raises(tx.GradientError, match="wrote to its gradient in place"):
        (w * 2.0).sum().backward()
    assert w.grad is None


def test_hooks_of_views(device):
    w = tensor([1.0, 2.0], device, True)
    v = w[1:]
    v.register_hook(lambda g: g * 5.0)
    (v * 2.0).sum().backward()
    assert w.grad.tolist() == [0.0, 10.0]


# ---- history belongs to the storage ------------------------------------------------------------


def test_a_write_through_a_view_is_seen_by_the_base(device):
    w = tensor([1.0, 1.0, 1.0], device, True)
    y = w * 1.0
    v = y[0:1]
    v.mul_(5.0)
    y.sum().backward()
    assert w.grad.tolist() == [5.0, 1.0, 1.0]


def test_a_write_to_the_base_is_seen_by_its_views(device):
    w = tensor([1.0, 2.0, 3.0], device, True)
    y = w * 1.0
    v, a, r = y[1:], y.alias(), y.reshape((3, 1))
    y.mul_(4.0)
    for t, expected in ((v, [0.0, 4.0, 4.0]), (a, [4.0] * 3), (r, [4.0] * 3), (v[0], [0.0, 4.0, 0.0])):
        w.grad = None
        t.sum().backward(retain_graph=True)
        assert w.grad.tolist() == expected


def test_writes_through_views_of_views_and_aliases(device):
    w = tensor([[1.0, 2.0], [3.0, 4.0]], device, True)
    y = w * 1.0
    y.T[0].alias().mul_(3.0)
    y.reshape((4,))[3:].add_(w[0, :1])
    (y * y).sum().backward()
    expected = [[2 * 3 * 3.0 + 2 * 5.0, 4.0], [2 * 9 * 3.0, 10.0]]
    assert w.grad.tolist() == expected


def test_views_of_a_leaf_count_as_the_leaf(device):
    w = tensor([1.0, 2.0, 3.0], device, True)
    a, v = w.alias(), w[1:]
    assert a.is_leaf and a.requires_grad and v.requires_grad
    (a * 2.0).sum().backward()
    assert w.grad.tolist() == [2.0] * 3 and a.grad is w.grad
    for _ in range(2):  # a view made once serves in every pass, as the leaf does
        (v * 3.0).sum().backward()
    assert w.grad.tolist() == [2.0, 8.0, 8.0]
    for t, what in ((w, "a leaf"), (a, "a leaf"), (v, "a view of a leaf"), (w.reshape((3, 1)), "a view of a leaf")):
        with pytest.raises(tx.InplaceError, match=f"multiply_: {what} that requires grad"):
            t.mul_(2.0)
    assert w.tolist() == [1.0, 2.0, 3.0] and w.version == 0


def test_detach_shares_storage_and_version_not_history(device):
    w = tensor([1.0, 2.0], device, True)
    y = w * 3.0
    d = y.detach()
    assert tx.shares_storage(d, y) and not d.requires_grad
    d.mul_(2.0)
    assert y.tolist() == [6.0, 12.0] and y.version == d.version == 1
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    # a tracked write through the detached handle stays with the detached ones
    other, half = y.detach(), d[:1]
    d.copy_(w * 7.0)
    assert d.requires_grad and half.requires_grad and not other.requires_grad and y.requires_grad
    w.grad = None
    half.sum().backward()
    assert w.grad.tolist() == [7.0, 0.0]


def test_lost_3_setitem_into_a_buffer(device):
    w, y = tensor(2.0, device, True), tx.zeros(3, device=device)
    for i in range(3):
        y[i] = w * float(i)
    y.sum().backward()
    assert w.grad.item() == 3.0


def test_a_buffer_written_through_views_only(device):
    w = tensor([2.0, 3.0], device, True)
    y = tx.zeros((3, 2), device=device)
    kept = y.T
    y[0][1] = w[0] * 4.0
    row = y[2]
    row += w
    del row
    assert y.requires_grad and kept.requires_grad
    (kept * 2.0).sum().backward()
    assert w.grad.tolist() == [10.0, 2.0] and y.tolist() == [[0.0, 8.0], [0.0, 0.0], [2.0, 3.0]]


def test_rows_filled_in_a_loop(device):
    w = tensor([1.0, 2.0], device, True)
    out = tx.zeros((4, 2), device=device)
    h = w
    for t in range(4):
        h = h * 2.0
        out[t] += h
    out.sum().backward()
    assert w.grad.tolist() == [30.0, 30.0]


def test_donated_memory_has_no_history(device):
    w = tensor([1.0, 2.0], device, True)
    y = tx.zeros((2, 2), device=device)
    y[0][:] = w
    with tx.no_grad():
        z = y * 2.0
    del y
    z = z + 1.0
    assert not z.requires_grad and not z[0].requires_grad


def test_views_made_without_recording_are_outside_the_history(device):
    w = tensor([1.0, 2.0], device, True)
    y = tx.zeros(2, device=device)
    y[:1].copy_(w[:1])
    with tx.no_grad():
        v = y[0:1]
        p = w[0:1]
    assert y.requires_grad and not v.requires_grad and not p.requires_grad
    assert not (v * 2.0).requires_grad and not v[0:].requires_grad


def test_constants_written_over_everything_end_the_history(device):
    w = tensor([1.0, 2.0], device, True)
    y = w * 2.0
    v, a = y[1:], y.alias()
    y.copy_(5.0)
    assert y.tolist() == [5.0, 5.0] and not y.requires_grad and not v.requires_grad and not (a * 2.0).requires_grad
    u = v[:]
    y.mul_(w)  # and a new one begins, for all handles
    for t, expected in ((a, [5.0, 5.0]), (v, [0.0, 5.0]), (u, [0.0, 5.0])):
        w.grad = None
        t.sum().backward(retain_graph=True)
        assert w.grad.tolist() == expected
    w.grad = None
    z = w * 2.0
    z[0] = 1.0
    z.sum().backward()
    assert w.grad.tolist() == [0.0, 2.0]


def test_writes_of_other_dtypes_and_by_numbers(device):
    w = tx.asarray([1.0, 2.0], dtype=tx.float32, device=device).requires_grad_()
    y = tx.zeros(2, dtype=tx.float16, device=device)
    y.add_(w.to(tx.float16))
    y += 1
    y **= 2.0
    y.sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]


def test_a_failed_write_changes_nothing(device):
    w = tensor([1.0, 2.0], device, True)
    y = w * 2.0
    node = y.grad_fn
    with pytest.raises(tx.ShapeError):
        y.add_(tx.ones((3, 2), device=device))
    with pytest.raises(IndexError):
        y[5] = w[0]
    with pytest.raises(tx.ShapeError):
        y[0:1] = tx.ones(2, device=device) * w
    assert y.grad_fn is node and y.version == 0


def test_leaf_written_in_place(device):
    """Scenario: leaf ones(3) requiring grad, add_; under no_grad."""
    w = tx.ones(3, device=device).requires_grad_()
    with pytest.raises(tx.InplaceError, match=r"add_: a leaf that requires grad \(shape \(3,\)\)"):
        w.add_(1.0)
    for write in (lambda: w.__setitem__(0, 1.0), lambda: w.copy_(0.0), lambda: w.zero_(), lambda: w.index_add_(0, tx.asarray([0], device=device), 1.0)):
        with pytest.raises(tx.InplaceError):
            write()
    assert w.tolist() == [1.0] * 3 and w.version == 0
    with tx.no_grad():
        w.add_(1.0)
    assert w.tolist() == [2.0] * 3 and w.requires_grad and w.is_leaf


def test_parameter_snapshots_and_restore(device):
    """Scenario: snapshots of a parameter survive an optimizer step and copy_."""
    w = tx.ones(4, device=device).requires_grad_()
    snapshots = [w.copy(), w.clone(), w * 1.0 + 0.0, w.to("cpu"), tx.asarray(w.detach().to("cpu").numpy(copy=True))]
    lists = w.tolist()
    (w * tensor([1.0, 2.0, 3.0, 4.0], device)).sum().backward()
    with tx.no_grad():
        w.copy_(w - 0.1 * w.grad)
        w.copy_(w * 0.5)
    assert w.tolist() != lists
    for s in snapshots:
        assert s.tolist() == [1.0] * 4
    with tx.no_grad():
        w.copy_(snapshots[0])
    assert w.tolist() == lists and w.is_leaf and w.requires_grad


# ---- saved values have versions ----------------------------------------------------------------


def test_a_write_to_a_saved_value_is_an_error_in_backward(device):
    """Scenario: y = x * w; x.add_(1); y.sum().backward()."""
    x, w = tensor([1.0] * 3, device), tensor([2.0] * 3, device, True)
    y = x * w
    saved = here(-1)
    x.add_(1)
    wrote = here(-1)
    with pytest.raises(tx.GradientError) as error:
        y.sum().backward()
    text = str(error.value)
    assert f"multiply (at {saved})" in text and f"add_ at {wrote}" in text
    assert "version 0" in text and "version 1" in text and "x = x + 1" in text
    assert w.grad is None


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(0, 5.0), lambda x: x.copy_(0.0), lambda x: x.zero_(), lambda x: x[1:].mul_(2.0), lambda x: x.alias().exp_(),
        lambda x: x.detach().add_(1.0), lambda x: x.index_fill_(0, tx.asarray([0]), 1.0), lambda x: x.masked_fill_(x > 0.0, 1.0),
        lambda x: x.slice_set(tx.ones(1), 0, 0), lambda x: x.T.sub_(1.0) if x.ndim == 2 else x.reshape((3, 1)).sub_(1.0),
    ],
)  # fmt: skip
def test_every_kind_of_write_raises_the_version(write):
    x, w = tensor([1.0] * 3), tensor([2.0] * 3, grad=True)
    y = x * w
    write(x)
    with pytest.raises(tx.GradientError, match=r"saved operand 1 .* written by \w+ at .*test_autograd.py"):
        y.sum().backward()
    assert w.grad is None


def test_ver_1_saved_view_inside_a_function(device):
    class F(autograd.Function):
        @staticmethod
        def forward(ctx, a):
            v = a.clone().T
            ctx.save_for_backward(v)
            return v

        @staticmethod
        def backward(ctx, g):
            return (g * ctx.saved_tensors[0]).T

    a = tensor([[1.0, 2.0], [3.0, 4.0]], device, True)
    y = F.apply(a)
    y += 1.0
    with pytest.raises(tx.GradientError, match="F .* its result .*version 0 .*version 1"):
        y.sum().backward()
    F.apply(a).sum().backward()
    assert a.grad.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_ver_3_saved_again_in_double_backward(device):
    a = tensor([1.0, 2.0], device, True)
    y = tx.exp(a)
    (g,) = autograd.grad(y.sum(), a, create_graph=True)
    with tx.no_grad():
        y.add_(1.0)
    with pytest.raises(tx.GradientError, match="version"):
        autograd.grad(g.sum(), a)


def test_ver_6_nothing_saved_nothing_wrong(device):
    x = tensor([[1.0, 2.0]], device, True)
    v = x.reshape((2,))
    o = v * 2.0
    autograd.grad(o.sum(), x, retain_graph=True)
    with tx.no_grad():
        v.add_(1.0)
    assert autograd.grad(o.sum(), x)[0].tolist() == [[2.0, 2.0]]


def test_lost_1_custom_write_to_a_computed_value(device):
    class AddAt(autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            a[1:2] += b
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            return g, g[1:2]

    a, b = tensor([1.0, 1.0], device, True), tensor([1.0], device, True)
    c = AddAt.apply(a + 1.0, b)
    assert c.tolist() == [2.0, 3.0]
    c.sum().backward()
    assert a.grad.tolist() == [1.0, 1.0] and b.grad.tolist() == [1.0]


def test_memory_that_others_can_write_is_saved_as_a_copy():
    array = np.ones(3, np.float32)
    x, w = tx.from_numpy(array), tensor([2.0] * 3, grad=True)
    y = x * w
    array[:] = 7.0
    y.sum().backward()
    assert w.grad.tolist() == [1.0] * 3


def test_memory_that_is_exported_is_saved_as_a_copy():
    x, w = tx.ones(3), tensor([2.0] * 3, grad=True)
    view = np.asarray(memoryview(x))
    y = tx.exp(x * w)
    view[:] = 7.0
    y.sum().backward()
    np.testing.assert_allclose(np.asarray(w.grad), np.full(3, np.exp(2.0)), rtol=1e-6)


@pytest.mark.parametrize("export", [lambda x: np.asarray(memoryview(x)), lambda x: x.numpy(), lambda x: np.from_dlpack(x)])
def test_memory_exported_after_it_was_saved_is_kept_apart(export):
    x, w = tx.ones(3), tensor([2.0] * 3, grad=True)
    y, z = x * w, tx.exp(w * x)
    view = export(x)
    if view.flags.writeable:
        view[:] = 7.0
    (y.sum() + z.sum()).backward()
    np.testing.assert_allclose(np.asarray(w.grad), np.full(3, 1.0 + np.exp(2.0)), rtol=1e-6)


def test_a_stale_value_stays_stale_when_it_is_exported():
    x, w = tx.ones(3), tensor([2.0] * 3, grad=True)
    y = x * w
    x.add_(1.0)
    np.asarray(memoryview(x))
    with pytest.raises(tx.GradientError, match="version 0"):
        y.sum().backward()


def test_exports_of_tensors_that_require_grad_say_detach():
    w = tensor([1.0], grad=True)
    for export in (lambda: w.numpy(), lambda: np.asarray(w), lambda: memoryview(w), lambda: np.from_dlpack(w), lambda: w.__dlpack__()):
        with pytest.raises((tx.GradientError, BufferError), match="detach"):
            export()
    assert w.detach().numpy().tolist() == [1.0]


# ---- backward is atomic ---------------------------------------------------------------------------


def test_all_versions_are_looked_at_before_anything_is_done(device):
    w, v, x = tensor([1.0], device, True), tensor([1.0], device, True), tensor([3.0], device)
    calls = []
    y = w * 2.0
    y.register_hook(lambda g: calls.append(1))
    z = (y * 1.0).sum() + (v * x).sum()
    x.add_(1.0)
    for _ in range(2):  # nothing was freed either
        with pytest.raises(tx.GradientError, match="version"):
            z.backward()
        assert w.grad is None and v.grad is None and not calls
    with tx.no_grad():
        x.sub_(1.0)
    with pytest.raises(tx.GradientError, match="version"):
        z.backward()  # the bytes are back, the version is not


def test_gradients_are_committed_together_or_not_at_all(device):
    class Boom(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("boom")

    w, v = tensor([1.0], device, True), tensor([1.0], device, True)
    v.grad = tensor([5.0], device)
    with pytest.raises(ZeroDivisionError):
        ((w * 2.0).sum() + Boom.apply(v * 1.0).sum() + (v * 3.0).sum()).backward()
    assert w.grad is None and v.grad.tolist() == [5.0]


def test_running_out_of_memory_commits_nothing():
    w, v, x = tx.ones(1 << 18).requires_grad_(), tx.ones(1 << 20).requires_grad_(), tx.ones(1 << 20)
    z = (w * 2.0).sum() + (v * x).sum()
    gc.collect()
    tx.memory.empty_cache()
    stats = tx.memory.stats("cpu")
    tx.memory.set_limit(stats["live"] + (3 << 20))
    try:
        with pytest.raises(tx.OutOfMemoryError):
            z.backward()
    finally:
        tx.memory.set_limit(None)
    assert w.grad is None and v.grad is None


def test_grad_is_dense_and_shares_storage_with_nothing(device):
    a, b = tensor([[1.0, 2.0], [3.0, 4.0]], device, True), tensor([[1.0, 2.0], [3.0, 4.0]], device, True)
    g = tensor([[1.0, 2.0], [3.0, 4.0]], device)
    (a + b).backward(g)
    (a.T + 0.0).backward(g)
    c = tensor([1.0, 1.0], device, True)
    c.sum().backward()
    grads = [a.grad, b.grad, c.grad]
    for i, t in enumerate(grads):
        assert t.is_contiguous() and t.is_unique() and not tx.shares_storage(t, g)
        assert not any(tx.shares_storage(t, u) for u in grads[:i])
    gs = autograd.grad(a + b, (a, b), g)
    assert not tx.shares_storage(gs[0], gs[1]) and not tx.shares_storage(gs[0], g)


# ---- the second backward ---------------------------------------------------------------------------


def test_second_backward_names_the_freed_value(device):
    w = tensor([1.0, 2.0], device, True)
    y = tx.exp(w)
    line = here(-1)
    (y * 2.0).sum().backward()
    with pytest.raises(tx.GradientError, match="retain_graph=True") as error:
        (y * 3.0).sum().backward()
    assert f"exp at {line}" in str(error.value)
    z = (w * w).sum()
    z.backward(retain_graph=True)
    z.backward()
    with pytest.raises(tx.GradientError):
        z.backward()


MOVES = {
    "to": lambda w, device: w.to(device), "copy": lambda w, device: w.copy(), "clone": lambda w, device: w.clone(),
    "astype": lambda w, device: w.astype(tx.float16), "to a dtype": lambda w, device: w.to(tx.float64),
}  # fmt: skip


@pytest.mark.parametrize("move", MOVES)
def test_a_value_made_before_the_loop(move, device):
    """Scenario: w2 = w.to(dev) once before a loop of two backwards."""
    w = tensor([1.0, 2.0], "cpu", True)
    name = move.split()[0]
    w2 = MOVES[move](w, device)
    loss = (w2 * 2.0).sum()
    loss.backward()
    assert w.grad.tolist() == [2.0, 2.0]
    with pytest.raises(tx.GradientError, match=f"{name} at .*test_autograd.py") as error:
        (w2 * 2.0).sum().backward()
    text = str(error.value)
    assert "retain_graph=True" in text and "anew in each step" in text and "detach().requires_grad_()" in text
    assert w.grad.tolist() == [2.0, 2.0]


def test_grad_at_a_freed_value_is_fine(device):
    w = tensor([1.0, 2.0], device, True)
    y = w * 2.0
    (y * 3.0).sum().backward()
    assert autograd.grad((y * 5.0).sum(), y)[0].tolist() == [5.0, 5.0]
    with pytest.raises(tx.GradientError, match="earlier backward"):
        autograd.grad((y * 5.0).sum(), w)


def test_backward_of_a_loss_without_history_names_its_inputs(device):
    """Scenario: backward() of a loss none of whose inputs is tracked."""
    inputs, weight = tensor([1.0, 2.0], device), tensor([3.0, 4.0], device)
    loss = (inputs * weight).sum()
    with pytest.raises(tx.GradientError) as error:
        loss.backward()
    text = str(error.value)
    assert "inputs (2,)" in text and "weight (2,)" in text and "requires_grad_()" in text
    assert inputs.grad is None and weight.grad is None
    with tx.no_grad(), pytest.raises(tx.GradientError, match="no_grad"):
        loss.backward()


# ---- long and many graphs ------------------------------------------------------------------------------


def test_deep_1_a_long_chain_goes_backward_and_is_freed(device):
    n = 150_000 if device == "cpu" else 5_000
    x = tx.asarray(1.0, dtype=tx.float32, device=device).requires_grad_()
    y = x
    for _ in range(n // 2):
        y = y + y * 1e-6
    y.backward()
    assert abs(x.grad.item() / (1 + 1e-6) ** (n // 2) - 1.0) < 2e-2
    y = x
    for _ in range(n):
        y = y * 1.0
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None
    assert _core.pending_count() < 2000


def test_backward_frees_values_as_it_goes(device):
    x = tx.ones(1000, device=device).requires_grad_()
    y = x
    for _ in range(20):
        y = tx.exp(y * 1e-3)
        tx.eval(y)
    loss = y.sum()
    del y
    before = tx.memory.stats(device)["live"]
    loss.backward()
    gc.collect()
    assert tx.memory.stats(device)["live"] < before - 15 * 4000


def test_leak_1_a_function_that_keeps_its_output(device):
    class Keeps(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2.0
            ctx.y = y
            Keeps.ctx = weakref.ref(ctx)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    gc.collect()
    before = tx.memory.stats(device)["live"]
    x = tx.ones(1000, device=device).requires_grad_()
    y = Keeps.apply(x)
    tx.eval(y)
    del y
    gc.collect()
    assert Keeps.ctx() is None
    del x
    assert tx.memory.stats(device)["live"] == before


def test_graphs_leave_nothing_behind(device):
    def step():
        w = tensor([1.0, 2.0], device, True)
        y = w * 2.0
        v = y[0:1]
        v.mul_(3.0)
        b = tx.zeros(3, device=device)
        b[0][...] = w[0]
        (y.sum() + b.sum() + tx.exp(w).sum()).backward(retain_graph=True)

    step()
    gc.collect()
    count = _core.storage_count()
    for _ in range(50):
        step()
    gc.collect()
    assert _core.storage_count() == count


def test_backward_in_threads(device):
    import threading

    results = []

    def run(k):
        for _ in range(20):
            w = tensor([float(k)] * 100, device, True)
            (tx.exp(w * 0.01) * w).sum().backward()
            results.append((k, w.grad.tolist()[0]))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 80
    for k in range(4):
        assert len({g for j, g in results if j == k}) == 1


def test_two_passes_through_one_graph_at_once_are_refused(device):
    import threading

    w = tensor([1.0, 2.0], device, True)
    y = tx.exp(w)
    loss = (y * 2.0).sum()
    errors = []

    def other():
        try:
            loss.backward()
        except tx.ThreadingError as error:
            errors.append(str(error))

    def hook(g):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        other()

    y.register_hook(hook)
    loss.backward()
    assert len(errors) == 2 and all("another backward pass is going through" in e for e in errors)
    assert w.grad.tolist() == [2.0 * v for v in tx.exp(w.detach()).tolist()]


def test_backward_inside_a_hook_of_another_graph(device):
    w, v = tensor([1.0, 2.0], device, True), tensor([3.0], device, True)

    def hook(g):
        with tx.enable_grad():  # hooks are not recorded unless create_graph says so
            (v * v).sum().backward()

    y = w * 2.0
    y.register_hook(hook)
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0] and v.grad.tolist() == [6.0]


def test_gradients_do_not_depend_on_deferral(device):
    def gradients():
        w = tensor(np.linspace(-1, 1, 100), device, True)
        y = tx.tanh(w * 2.0) * tx.exp(w)
        y[10:20].mul_(2.0)
        (tx.softmax(y) * y).sum().backward()
        return np.asarray(w.grad.to("cpu")).tobytes()

    fused = gradients()
    with tx.deferred(False):
        assert gradients() == fused


def test_messages_name_the_callers_line_through_modules_of_tensorx(device):
    w = tensor([[1.0, 2.0]], device, True)
    y = tx.flatten(tx.softmax(w))
    line = here(-1)
    y.sum().backward()
    with pytest.raises(tx.GradientError, match=re.escape(line)):
        y.sum().backward()


def test_anomaly_names_the_line(device):
    x = tensor([0.0, 1.0], device, True)
    y = tx.sqrt(x * 1.0) * tensor([0.0, 1.0], device)
    z = y * tensor([float("nan"), 1.0], device)
    with autograd.detect_anomaly(), pytest.raises(tx.GradientError, match=r"multiply \(called at .*test_autograd.py:\d+\) gave NaN"):
        z.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_gradients_of_a_division_by_the_number_zero(device, zero):
    """Python raises for 1 / 0 where tensors give inf: the number gives what a tensor of zeros gives."""
    x, y = tensor([1.0, -2.0, 0.0], device, True), tensor([1.0, -2.0, 0.0], device, True)
    (x / zero).sum().backward()
    (y / tx.full((3,), zero, dtype=tx.float32, device=device)).sum().backward()
    assert x.grad.tolist() == y.grad.tolist() and abs(x.grad[0].item()) == float("inf")


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_gradients_of_the_mean_of_nothing(device, shape):
    x = tensor(np.zeros(shape), device, True)
    y = x.mean()
    y.backward()
    assert np.isnan(y.item()) and x.grad.shape == shape
    logits, nothing = tensor(np.zeros((0, 4)), device, True), tx.zeros(0, dtype=tx.int64, device=device)
    tx.nn.functional.cross_entropy(logits, nothing).backward()
    assert logits.grad.shape == (0, 4)
