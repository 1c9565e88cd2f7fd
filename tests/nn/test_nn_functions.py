"""What the catalogue does not reach: errors of bad input, dropout, masks, unpooling, starting values, memory."""

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn

F = nn.functional


# ---- bad input names the module, what it needs and what it got --------------------------------------------

BAD = [
    (lambda: nn.Linear(4, 2)(tx.ones((3, 5))), r"Linear: an input of shape \(..., 4\) is needed, got \(3, 5\)"),
    (lambda: nn.Conv2d(3, 4, 3)(tx.ones((1, 2, 8, 8))), r"Conv2d: an input of 3 channels is needed, got shape \(1, 2, 8, 8\)"),
    (lambda: nn.Conv2d(3, 4, 3)(tx.ones((1, 3, 2, 2))), r"Conv2d: a kernel of \(3, 3\).*larger than the padded input of shape \(1, 3, 2, 2\)"),
    (lambda: nn.Conv1d(3, 4, 3)(tx.ones((2, 2, 3, 4))), r"Conv1d: an input with 3 axes .* got shape \(2, 2, 3, 4\)"),
    (lambda: nn.ConvTranspose2d(3, 4, 3)(tx.ones((1, 2, 8, 8))), r"ConvTranspose2d: an input of 3 channels is needed, got shape \(1, 2, 8, 8\)"),
    (lambda: nn.BatchNorm2d(3)(tx.ones((2, 4, 2, 2))), r"BatchNorm2d: an input of 3 channels \(axis 1\) is needed, got shape \(2, 4, 2, 2\)"),
    (lambda: nn.BatchNorm1d(3)(tx.ones((1, 3))), r"BatchNorm1d: training needs more than one value per channel, got shape \(1, 3\)"),
    (lambda: nn.LayerNorm(4)(tx.ones((2, 3))), r"LayerNorm: an input of shape \(..., 4\) is needed, got \(2, 3\)"),
    (lambda: nn.GroupNorm(2, 4)(tx.ones((2, 3))), r"GroupNorm: an input of 4 channels .* got shape \(2, 3\)"),
    (lambda: nn.MaxPool2d(3)(tx.ones((1, 1, 2, 2))), r"max_pool2d: a window of \(3, 3\).*shape \(1, 1, 2, 2\)"),
    (lambda: nn.MultiheadAttention(4, 2)(*(tx.ones((3, 2, 5)),) * 3), r"MultiheadAttention: a query of shape \(..., 4\) is needed, got \(3, 2, 5\)"),
    (lambda: nn.LSTM(3, 4)(tx.ones((5, 2, 4))), r"LSTM: an input of shape \(..., 3\) is needed, got \(5, 2, 4\)"),
    (lambda: nn.GRU(3, 4)(tx.ones((5, 2, 3)), tx.ones((1, 3, 4))), r"GRU: a starting state of shape \(1, 2, 4\) is needed, got \(1, 3, 4\)"),
    (lambda: nn.Transformer(4, 2, 1, 1, 6)(tx.ones((3, 2, 4)), tx.ones((3, 1, 4))), r"Transformer: src \(3, 2, 4\) and tgt \(3, 1, 4\)"),
    (lambda: F.mse_loss(tx.ones((4, 1)), tx.ones(4)), r"mse_loss: the input has shape \(4, 1\) and the target \(4,\)"),
    (lambda: F.cross_entropy(tx.ones((2, 3)), tx.asarray([0, 1, 2])), r"cross_entropy: .* the target needs shape \(2,\), got \(3,\)"),
    (lambda: F.scaled_dot_product_attention(tx.ones((2, 3)), tx.ones((4, 5)), tx.ones((4, 5))), r"query \(2, 3\), key \(4, 5\) and value \(4, 5\) do not fit"),
    (lambda: nn.Bilinear(2, 3, 1)(tx.ones((4, 2)), tx.ones((4, 4))), r"bilinear: inputs of shapes \(4, 2\) and \(4, 4\)"),
    (lambda: F.pad(tx.ones((1, 1, 3)), (3, 0), mode="reflect"), r"pad: reflecting 3 and 0 elements .* shape \(1, 1, 3\)"),
    (lambda: nn.PixelShuffle(2)(tx.ones((1, 3, 2, 2))), r"pixel_shuffle: channels divisible by 4 .* got shape \(1, 3, 2, 2\)"),
    (lambda: F.interpolate(tx.ones((1, 1, 2, 2)), size=3, mode="linear"), r"mode 'linear' is for 3 axes, got shape \(1, 1, 2, 2\)"),
]


@pytest.mark.parametrize("call, message", BAD, ids=range(len(BAD)))
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(tx.ShapeError, match=message):
        call()


def test_other_bad_input(device):
    with pytest.raises(tx.DTypeError, match="Linear: the input is float64 and the weight float32"):
        nn.Linear(2, 2)(tx.ones((1, 2), dtype=tx.float64))
    with pytest.raises(IndexError, match="cross_entropy: class number 3 is out of range for 3 classes"):
        F.cross_entropy(tx.ones((2, 3)), tx.asarray([0, 3]))
    with pytest.raises(tx.DTypeError, match="class numbers are integers, got float32"):
        F.nll_loss(tx.ones((2, 3)), tx.asarray([0.0, 1.0]))
    with pytest.raises(tx.DTypeError, match="Embedding: the numbers of rows are integers, got float32"):
        nn.Embedding(3, 2)(tx.ones(2))
    with pytest.raises(IndexError):
        nn.Embedding(3, 2)(tx.asarray([3]))
    with pytest.raises(ValueError, match="in_channels=3 and out_channels=4 must be divisible by groups=2"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="embed_dim=5 must be a positive multiple of num_heads=2"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none', got 'avg'"):
        F.mse_loss(tx.ones(2), tx.ones(2), reduction="avg")
    with pytest.raises(TypeError, match="MaxPool2d: unexpected argument 'size'"):
        nn.MaxPool2d(2, size=3)
    if device == "metal":
        for net, x in ((nn.Linear(2, 2), tx.ones((1, 2))), (nn.Conv2d(1, 1, 1), tx.ones((1, 1, 2, 2)))):
            with pytest.raises(tx.DeviceMismatchError, match=f"{type(net).__name__}: the input is on cpu and the weight on metal"):
                net.to("metal")(x)


# ---- dropout -----------------------------------------------------------------------------------------------------


def test_dropout_is_random_scaled_and_the_same_backward():
    tx.manual_seed(0)
    x = tx.ones((200, 50)).requires_grad_()
    net = nn.Dropout(0.25)
    y = net(x)
    kept = y.detach().numpy().copy()
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.75)} and abs((kept == 0).mean() - 0.25) < 0.02
    y.sum().backward()
    assert (x.grad.numpy() == kept).all()
    assert (net(x).detach().numpy() != kept).any()
    assert net.eval()(x) is x
    assert F.dropout(x, 1.0).sum().item() == 0.0
    with pytest.raises(ValueError, match="p must be between 0 and 1, got 2"):
        nn.Dropout(2)


def test_dropout_keeps_no_mask():
    x = tx.ones((256, 256)).requires_grad_()
    tx.eval()
    before = tx.memory.stats("cpu")["live"]
    y = F.dropout(x * 2.0)
    tx.eval(y)
    assert tx.memory.stats("cpu")["live"] - before <= y.nbytes + 4096


@pytest.mark.parametrize("n", (1, 2, 3))
def test_dropout_of_channels(n):
    x = tx.ones((20, 10, *(3,) * n))
    y = getattr(nn, f"Dropout{n}d")()(x).numpy().reshape(200, -1)
    assert ((y == y[:, :1]).all(axis=1)).all() and set(np.unique(y)) == {0.0, 2.0}
    assert getattr(nn, f"Dropout{n}d")()(x[0]).shape == x.shape[1:]


@pytest.mark.parametrize("name", ("AlphaDropout", "FeatureAlphaDropout"))
def test_alpha_dropout_keeps_mean_and_variance(name):
    tx.manual_seed(1)
    x = tx.random.randn(2000, 50, 1)
    y = getattr(nn, name)(0.3)(x)
    assert abs(y.mean().item()) < 0.05 and abs(y.std().item() - 1) < 0.05
    assert getattr(nn, name)(0.3).eval()(x) is x


def test_dropout_in_modules_follows_the_seed():
    net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5)
    x = tx.ones((3, 2, 8))
    outs = []
    for _ in range(2):
        tx.manual_seed(4)
        outs.append(net(x).tolist())
    assert outs[0] == outs[1] != net(x).tolist()


# ---- attention ---------------------------------------------------------------------------------------------------


def naive(q, k, v, mask=None):
    s = (q @ k.mT) / q.shape[-1] ** 0.5
    return tx.softmax(s if mask is None else s + mask) @ v


def qkv(*shape, dtype=tx.float64):
    rng = np.random.default_rng(0)
    return [tx.asarray(rng.normal(size=shape), dtype=dtype).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("chunk", (1, 3000, 1 << 20))
@pytest.mark.parametrize("causal", (False, True))
def test_attention_in_chunks_is_attention(chunk, causal, monkeypatch):
    monkeypatch.setattr("tensorx.nn.attention.CHUNK", chunk)
    a, b = qkv(2, 3, 7, 4), qkv(2, 3, 7, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(7, dtype=tx.float64) if causal else None
    y, z = F.scaled_dot_product_attention(*a, is_causal=causal), naive(*b, mask)
    assert np.allclose(y.tolist(), z.tolist())
    g = tx.asarray(np.random.default_rng(1).normal(size=y.shape))
    y.backward(g), z.backward(g)
    for s, t in zip(a, b):
        assert np.allclose(s.grad.tolist(), t.grad.tolist())


def test_attention_masks():
    q, k, v = qkv(2, 2, 3, 4)
    keep = np.ones((3, 3), dtype=bool)
    keep[0] = False
    y = F.scaled_dot_product_attention(q, k, v, tx.asarray(keep))
    assert np.allclose(y[:, :, 0].tolist(), 0) and np.allclose(y[:, :, 1:].tolist(), naive(q, k, v)[:, :, 1:].tolist())
    y.sum().backward()
    assert np.isfinite(q.grad.numpy()).all() and np.isfinite(v.grad.numpy()).all()
    bias = tx.zeros((3, 3), dtype=tx.float64).requires_grad_()
    F.scaled_dot_product_attention(q, k, v, bias)[0, 0, 0, 0].backward()
    assert bias.grad.shape == (3, 3) and float(tx.abs(bias.grad).sum()) > 0
    with pytest.raises(ValueError, match="either attn_mask or is_causal"):
        F.scaled_dot_product_attention(q, k, v, bias, is_causal=True)
    one = F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0])
    assert one.shape == (3, 4) and np.allclose(one.tolist(), naive(q, k, v)[0, 0].tolist())
    few = F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)
    assert np.allclose(few.tolist(), naive(q, tx.concat([k[:, :1]] * 2, axis=1), tx.concat([v[:, :1]] * 2, axis=1)).tolist())


def test_attention_dropout_is_the_same_backward():
    tx.manual_seed(2)
    q, k, v = qkv(2, 2, 5, 4)
    state = tx.random.default_generator.get_state()

    def run(*t):
        tx.random.default_generator.set_state(state)
        return F.scaled_dot_product_attention(*t, dropout_p=0.4)

    assert tx.autograd.gradcheck(run, (q[:, :, :2], k[:, :, :2], v[:, :, :2]))


def test_attention_never_holds_the_scores():
    q, k, v = (tx.random.randn(1, 4, 1024, 16).requires_grad_() for _ in range(3))
    tx.eval()
    tx.memory.reset_peak("cpu")
    before = tx.memory.stats("cpu")["live"]
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    assert tx.memory.stats("cpu")["peak"] - before < 8 << 20  # the scores alone have 16 MiB


def test_masks_of_multihead_attention():
    torch = pytest.importorskip("torch")
    net = nn.MultiheadAttention(4, 2, batch_first=True)
    other = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    other.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in net.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f")
    later = np.triu(np.ones((3, 3), dtype=bool), 1)
    padding = np.array([[False, False, True], [False, False, False]])
    for weights in (True, False):
        a, w = net(*(tx.asarray(x),) * 3, tx.asarray(padding), weights, tx.asarray(later))
        b, u = other(*(torch.from_numpy(x),) * 3, torch.from_numpy(padding), weights, torch.from_numpy(later))
        assert np.allclose(a.tolist(), b.tolist(), atol=1e-6)
        assert (w is None) == (u is None) and (w is None or np.allclose(w.tolist(), u.tolist(), atol=1e-6))


# ---- memory of linear layers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", (tx.gelu, tx.silu, lambda h: tx.layer_norm(h, 256), lambda h: tx.rms_norm(h, 256)))
def test_a_linear_layer_keeps_no_input_that_can_be_computed_again(between):
    tx.manual_seed(0)
    first, second = nn.Linear(256, 256), nn.Linear(256, 4)
    x = tx.random.randn(512, 256)
    second(between(first(x))).sum().backward()
    first.zero_grad(), second.zero_grad()
    tx.eval()
    before = tx.memory.stats("cpu")["live"]
    y = second(between(first(x)))
    tx.eval(y)
    assert tx.memory.stats("cpu")["live"] - before < 1.2 * x.nbytes
    y.sum().backward()
    h = between(first(x).detach())
    assert np.allclose(second.weight.grad.tolist(), np.ones((4, 512)) @ h.numpy(), rtol=1e-3, atol=1e-3)


# ---- the rest ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", (1, 2, 3))
def test_unpooling_undoes_pooling(n):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(2, 3, *(6,) * n)).astype("f")
    a, i = getattr(F, f"max_pool{n}d")(tx.asarray(x), 2, return_indices=True)
    b, j = getattr(torch.nn.functional, f"max_pool{n}d")(torch.from_numpy(x), 2, return_indices=True)
    assert i.tolist() == j.tolist()
    up, other = getattr(nn, f"MaxUnpool{n}d")(2)(a, i), getattr(torch.nn, f"MaxUnpool{n}d")(2)(b, j)
    assert up.tolist() == other.tolist()
    with pytest.raises(IndexError, match="outside of the output size"):
        getattr(F, f"max_unpool{n}d")(a, i + 1000, 2)


def test_pooling_lets_nan_through():
    x = tx.asarray([[[1.0, tx.nan, 3.0, 4.0]]])
    y, i = F.max_pool1d(x, 2, return_indices=True)
    assert np.isnan(y[0, 0, 0].item()) and y[0, 0, 1].item() == 4.0 and i.tolist() == [[[1, 3]]]


def test_embedding_limits_norms_and_takes_tables():
    w = nn.Parameter(tx.asarray([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]))
    out = F.embedding(tx.asarray([0, 1]), w, max_norm=1.0)
    assert np.allclose(out.tolist(), [[0.6, 0.8], [0.3, 0.4]], atol=1e-5) and w[2].tolist() == [6.0, 8.0]
    net = nn.Embedding.from_pretrained(tx.asarray([[1.0, 2.0]]))
    assert not net.weight.requires_grad and net(tx.asarray([0])).tolist() == [[1.0, 2.0]]
    assert nn.Embedding(5, 2, padding_idx=-1).weight[4].tolist() == [0.0, 0.0]


def test_checkpoints_of_modules_draw_the_same_dropout():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    grads = []
    for call in (net, lambda x: tx.autograd.checkpoint(net, x)):
        net.zero_grad()
        tx.manual_seed(3)
        call(tx.ones((8, 4))).sum().backward()
        grads.append(net[0].weight.grad.tolist())
    assert grads[0] == grads[1]


def test_halves_compute_in_float32():
    for dtype in (tx.float16, tx.bfloat16):
        x = tx.random.randn(2, 3, 8, 8).astype(dtype)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)).to(dtype)
        y = net(x)
        assert y.dtype is dtype
        y.sum().backward()
        assert all(p.grad.dtype is dtype for p in net.parameters())


@pytest.mark.parametrize("threads_wanted", (1, 2, 3))
def test_convolutions_have_the_same_bits_for_any_number_of_threads(threads_wanted, threads):
    rng = np.random.default_rng(0)
    x, w = (tx.asarray(rng.normal(size=s).astype("f")) for s in ((5, 6, 20, 20), (8, 3, 3, 3)))

    def bits():
        a, b = x.copy().requires_grad_(), w.copy().requires_grad_()
        y = F.conv2d(a, b, padding=1, groups=2)
        y.backward(y.detach())
        return y.tolist(), a.grad.tolist(), b.grad.tolist()

    threads(1)
    expected = bits()
    threads(threads_wanted)
    assert bits() == expected


# ---- starting values -------------------------------------------------------------------------------------------------------


def test_starting_values():
    init = nn.init
    tx.manual_seed(0)
    w = tx.empty((400, 300))
    assert init.uniform_(w, -2.0, 2.0) is w and abs(w.mean().item()) < 0.02 and abs(w.std().item() - 4 / 12**0.5) < 0.02
    assert abs(init.normal_(w, 1.0, 3.0).std().item() - 3) < 0.05
    t = init.trunc_normal_(w, 0.0, 1.0, -1.0, 1.0)
    assert t.min().item() >= -1 and t.max().item() <= 1 and abs(t.std().item() - 0.539) < 0.02
    assert abs(init.xavier_uniform_(w).std().item() - (2 / 700) ** 0.5) < 1e-3
    assert abs(init.xavier_normal_(w, 2.0).std().item() - 2 * (2 / 700) ** 0.5) < 2e-3
    assert abs(init.kaiming_uniform_(w, nonlinearity="relu").std().item() - (2 / 300) ** 0.5) < 1e-3
    assert abs(init.kaiming_normal_(w, mode="fan_out").std().item() - (2 / 400) ** 0.5) < 1e-3
    q = init.orthogonal_(tx.empty((5, 8)))
    assert np.allclose((q @ q.T).tolist(), np.eye(5), atol=1e-5)
    assert init.eye_(tx.empty((2, 3))).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert init.constant_(tx.empty(2), 3.0).tolist() == [3.0, 3.0] and init.ones_(tx.empty(1)).item() == 1 and init.zeros_(tx.empty(1)).item() == 0
    s = init.sparse_(tx.empty((10, 4)), 0.3)
    assert ((s == 0).sum(axis=0)).tolist() == [3] * 4
    x = tx.random.randn(1, 4, 5, 5)
    assert np.allclose(F.conv2d(x, init.dirac_(tx.empty((4, 4, 3, 3))), padding=1).tolist(), x.tolist())
    assert init.calculate_gain("tanh") == 5 / 3
    with pytest.raises(tx.ShapeError, match="at least 2 axes"):
        init.xavier_uniform_(tx.empty(3))
    p = nn.Linear(2, 2).weight
    init.zeros_(p)
    assert p.requires_grad and p.is_leaf and p.tolist() == [[0.0, 0.0]] * 2


def test_starting_values_are_pytorchs_distributions():
    torch = pytest.importorskip("torch")
    tx.manual_seed(0)
    torch.manual_seed(0)
    for name, args in (("Linear", (200, 100)), ("Conv2d", (20, 30, 3)), ("LSTM", (30, 40)), ("Embedding", (100, 50)), ("MultiheadAttention", (64, 4))):
        ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
        for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
            assert abs(a.std().item() - b.std().item()) <= 0.12 * b.std().item() + 1e-6, (name, key)


@pytest.mark.parametrize("mode", ("bilinear", "bicubic", "area", "nearest-exact"))
@pytest.mark.parametrize("size", ((3, 4), (9, 13)))
def test_interpolation_without_a_module(mode, size):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 8))
    more = {"antialias": True} if mode.startswith("bi") else {}
    a, b = F.interpolate(tx.asarray(x), size, mode=mode, **more), torch.nn.functional.interpolate(torch.from_numpy(x), size, mode=mode, **more)
    assert np.allclose(a.tolist(), b.tolist(), atol=1e-6)


def test_activations_in_place_and_gumbel():
    x = tx.asarray([-1.0, 2.0])
    assert F.relu(x, inplace=True) is x and x.tolist() == [0.0, 2.0]
    tx.manual_seed(0)
    logits = tx.random.randn(500, 3).requires_grad_()
    hard = F.gumbel_softmax(logits * 0.0, hard=True)
    assert set(np.unique(np.round(hard.detach().numpy(), 5))) == {0.0, 1.0} and np.allclose(hard.sum(axis=1).tolist(), 1, atol=1e-5)
    assert (np.abs(hard.detach().numpy().mean(0) - 1 / 3) < 0.08).all()
    (hard * tx.asarray([1.0, 2.0, 3.0])).sum().backward()
    assert np.isfinite(logits.grad.numpy()).all()
    slopes = F.rrelu(-tx.ones(1000), training=True).numpy()
    assert slopes.min() >= -1 / 3 and slopes.max() <= -1 / 8 and slopes.std() > 0.03


def test_cross_entropy_has_second_derivatives():
    x = tx.asarray(np.random.default_rng(0).normal(size=(3, 4))).requires_grad_()
    t = tx.asarray([0, 3, 1])
    assert tx.autograd.gradgradcheck(lambda z: F.cross_entropy(z, t), (x,))
