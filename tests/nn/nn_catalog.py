"""Every module with small arguments and inputs: what the derived tests run through."""

import zlib
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Entry:
    """One way to build a module and to call it.

    inputs: functions of a NumPy generator; torch_kw: arguments that PyTorch spells differently; smooth: whether the gradient is
    what finite differences give (a scaled one is not); second: whether second derivatives are looked at.
    """

    name: str
    args: tuple = ()
    kw: dict = field(default_factory=dict)
    inputs: tuple = ()
    torch_kw: dict | None = None
    smooth: bool = True
    second: bool = True
    train: bool = False
    label: str = ""

    @property
    def id(self):
        return self.name + (f"-{self.label}" if self.label else "")

    def arrays(self, dtype):
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        arrays = [f(rng) for f in self.inputs]
        return [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]

    def build(self, tx, device=None):
        return getattr(tx.nn, self.name)(*self.args, **self.kw).to(device)

    def build_torch(self, torch):
        return getattr(torch.nn, self.name)(*self.args, **(self.kw if self.torch_kw is None else self.torch_kw))


def normal(*shape):
    return lambda rng: rng.normal(size=shape)


def apart(*shape):
    """Values that keep a distance from each other and from 0, 1, 3 and 6: no kinks, no ties."""

    def make(rng):
        n = int(np.prod(shape))
        return ((rng.permutation(n) + 0.5) / n * 4 - 2 + 0.013).reshape(shape)

    return make


def uniform(low, high, *shape):
    return lambda rng: rng.uniform(low, high, size=shape)


def integers(high, *shape):
    return lambda rng: rng.integers(0, high, size=shape)


def signs(*shape):
    return lambda rng: rng.choice([-1.0, 1.0], size=shape)


def fixed(value):
    return lambda rng: np.array(value)


def probabilities(n, c, *rest):
    def make(rng):
        x = rng.random(size=(n, c, *rest))
        return x / x.sum(1, keepdims=True)

    return make


E = Entry
ACTIVATIONS = [
    E(name, inputs=(apart(3, 4),)) for name in (
        "ReLU", "ReLU6", "ELU", "CELU", "SELU", "LeakyReLU", "Hardtanh", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "GELU", "Sigmoid", "Tanh",
        "LogSigmoid", "Softplus", "Softsign", "Softshrink", "Hardshrink", "Tanhshrink",
    )
] + [
    E("GELU", ("tanh",), inputs=(apart(3, 4),), label="tanh"),
    E("Threshold", (0.1, -7.0), inputs=(apart(3, 4),)),
    E("ELU", (0.7,), inputs=(apart(3, 4),), label="alpha"),
    E("Softplus", (2.0, 1.0), inputs=(apart(3, 4),), label="beta"),
    E("Softmax", kw={"axis": 1}, torch_kw={"dim": 1}, inputs=(normal(3, 4, 2),)),
    E("LogSoftmax", kw={"axis": -1}, torch_kw={"dim": -1}, inputs=(normal(3, 4),)),
    E("Softmin", kw={"axis": 1}, torch_kw={"dim": 1}, inputs=(normal(3, 4),)),
    E("Softmax2d", inputs=(normal(2, 3, 2, 2),)),
    E("GLU", kw={"axis": 1}, torch_kw={"dim": 1}, inputs=(normal(3, 4),)),
    E("PReLU", inputs=(apart(3, 4),)),
    E("PReLU", (4,), inputs=(apart(3, 4, 2),), label="channels"),
    E("RReLU", inputs=(apart(3, 4),)),
]  # fmt: skip
LINEAR = [
    E("Identity", inputs=(normal(2, 3),)),
    E("Linear", (4, 3), inputs=(normal(2, 4),)),
    E("Linear", (4, 3), {"bias": False}, inputs=(normal(2, 5, 4),), label="three axes"),
    E("Linear", (4, 3), inputs=(normal(4),), label="vector"),
    E("Bilinear", (3, 4, 2), inputs=(normal(5, 3), normal(5, 4))),
    E("Embedding", (6, 3), {"padding_idx": 2}, inputs=(integers(6, 2, 4),)),
    E("Embedding", (6, 3), {"scale_grad_by_freq": True}, inputs=(integers(6, 7),), label="frequency", smooth=False),
    E("EmbeddingBag", (6, 3), {"mode": "sum"}, inputs=(integers(6, 2, 4),)),
    E("EmbeddingBag", (6, 3), {"mode": "mean"}, inputs=(integers(6, 7), fixed([0, 3])), label="offsets"),
    E("EmbeddingBag", (6, 3), {"mode": "max"}, inputs=(integers(6, 2, 4),), label="max", second=False),
]
CONVOLUTIONS = [
    E("Conv1d", (2, 4, 3), inputs=(normal(2, 2, 7),)),
    E("Conv1d", (2, 4, 3), {"padding": "same", "dilation": 2, "groups": 2}, inputs=(normal(2, 2, 7),), label="same"),
    E("Conv2d", (2, 4, 3), {"padding": 1}, inputs=(normal(2, 2, 5, 4),)),
    E("Conv2d", (4, 2, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "groups": 2, "bias": False}, inputs=(normal(2, 4, 5, 4),), label="strides"),
    E("Conv2d", (2, 2, 1), inputs=(normal(2, 2, 3, 3),), label="1x1"),
    E("Conv2d", (3, 3, 3), {"groups": 3, "dilation": 2, "padding": 2}, inputs=(normal(2, 3, 6, 5),), label="depthwise"),
    E("Conv2d", (2, 2, 2), inputs=(normal(2, 4, 4),), label="no batch"),
    *(E("Conv2d", (2, 2, 3), {"padding": 1, "padding_mode": mode}, inputs=(normal(1, 2, 4, 4),), label=mode) for mode in ("reflect", "replicate", "circular")),
    E("Conv3d", (2, 2, 2), {"padding": 1, "stride": 2}, inputs=(normal(1, 2, 3, 4, 3),)),
    E("ConvTranspose1d", (2, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}, inputs=(normal(2, 2, 4),)),
    E("ConvTranspose2d", (4, 2, 3), {"stride": 2, "groups": 2}, inputs=(normal(2, 4, 3, 3),)),
    E("ConvTranspose3d", (1, 2, 2), {"stride": 2, "dilation": 2, "bias": False}, inputs=(normal(1, 1, 2, 2, 3),)),
    E("Unfold", ((2, 2),), {"padding": 1, "stride": 2}, inputs=(normal(2, 2, 4, 5),)),
    E("Fold", ((4, 5), (2, 2)), {"padding": 1, "stride": 2}, inputs=(normal(2, 8, 9),)),
]
_SPATIAL = {1: (7,), 2: (5, 6), 3: (4, 3, 4)}
POOLING = []
for _n, _size in _SPATIAL.items():
    _x = (apart(2, 2, *_size),)
    POOLING += [
        E(f"MaxPool{_n}d", (2,), inputs=_x),
        E(f"MaxPool{_n}d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, inputs=_x, label="ceil"),
        E(f"AvgPool{_n}d", (2,), {"padding": 1}, inputs=_x),
        E(f"AvgPool{_n}d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}, inputs=_x, label="ceil"),
        E(f"AdaptiveAvgPool{_n}d", (2,), inputs=_x),
        E(f"AdaptiveMaxPool{_n}d", (2,), inputs=_x),
        E(f"LPPool{_n}d", (2, 2), inputs=(uniform(0.5, 2, 2, 2, *_size),)),
    ]
NORMS = [
    E("BatchNorm1d", (3,), inputs=(normal(4, 3),), train=True),
    E("BatchNorm1d", (3,), {"affine": False}, inputs=(normal(4, 3, 2),), train=True, label="length"),
    E("BatchNorm1d", (3,), inputs=(normal(4, 3),), label="eval"),
    E("BatchNorm2d", (3,), inputs=(normal(2, 3, 2, 2),), train=True),
    E("BatchNorm2d", (3,), {"track_running_stats": False}, inputs=(normal(2, 3, 2, 2),), label="no statistics"),
    E("BatchNorm2d", (3,), {"momentum": None}, inputs=(normal(2, 3, 2, 2),), train=True, label="average"),
    E("BatchNorm3d", (2,), inputs=(normal(2, 2, 2, 2, 2),), train=True),
    E("InstanceNorm1d", (2,), {"affine": True}, inputs=(normal(2, 2, 5),)),
    E("InstanceNorm2d", (2,), {"affine": True, "track_running_stats": True}, inputs=(normal(2, 2, 3, 3),), train=True),
    E("InstanceNorm3d", (2,), inputs=(normal(2, 2, 2, 2, 2),)),
    E("LayerNorm", (4,), inputs=(normal(3, 4),)),
    E("LayerNorm", ((2, 3),), {"bias": False}, inputs=(normal(2, 2, 3),), label="two axes"),
    E("GroupNorm", (2, 4), inputs=(normal(2, 4, 3),)),
    E("RMSNorm", (4,), {"eps": 1e-5}, inputs=(normal(3, 4),)),
    E("LocalResponseNorm", (3,), inputs=(normal(2, 4, 3),)),
]
SHAPES = [
    E("Flatten", inputs=(normal(2, 3, 2),)),
    E("Unflatten", (1, (2, 3)), inputs=(normal(2, 6),)),
    E("PixelShuffle", (2,), inputs=(normal(2, 4, 2, 3),)),
    E("PixelUnshuffle", (2,), inputs=(normal(2, 1, 4, 6),)),
    E("ChannelShuffle", (2,), inputs=(normal(2, 4, 3, 2),)),
    E("UpsamplingNearest2d", kw={"scale_factor": 2}, inputs=(normal(1, 2, 2, 3),)),
    E("UpsamplingBilinear2d", kw={"scale_factor": 2}, inputs=(normal(1, 2, 2, 3),)),
    *(E("Upsample", kw={"scale_factor": f, "mode": mode}, inputs=(normal(1, 2, *size),), label=f"{mode} {f}")
      for mode, size, f in (("nearest", (3,), 2), ("nearest", (4, 3), 1.7), ("linear", (4,), 2), ("bilinear", (3, 4), 1.5), ("bicubic", (4, 5), 2),
                            ("trilinear", (2, 3, 2), 2), ("bilinear", (5, 4), 0.6))),
    E("Upsample", kw={"size": (3, 5), "mode": "bicubic", "align_corners": True}, inputs=(normal(1, 1, 4, 4),), label="corners"),
    *(E(f"{kind}Pad{n}d", (1,) if kind != "Constant" else (1, 2.5), inputs=(normal(2, 2, *_SPATIAL[n]),))
      for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular") for n in (1, 2, 3)),
    E("ReflectionPad2d", ((0, 2, 1, 0),), inputs=(normal(1, 1, 3, 4),), label="sides"),
]  # fmt: skip
_pair = (apart(4, 3), lambda rng: rng.normal(size=(4, 3)) * 2 + 0.3)
LOSSES = [
    *(E(name, (), {"reduction": r}, _pair, label=r) for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss") for r in ("mean", "sum", "none")),
    E("SmoothL1Loss", (), {"beta": 0.5}, _pair, label="beta"),
    E("HuberLoss", (), {"delta": 0.5}, _pair, label="delta"),
    E("CrossEntropyLoss", (), {}, (normal(5, 4), integers(4, 5))),
    E("CrossEntropyLoss", (), {"label_smoothing": 0.1, "reduction": "sum"}, (normal(5, 4), integers(4, 5)), label="smoothing"),
    E("CrossEntropyLoss", (), {"ignore_index": 1, "label_smoothing": 0.2}, (normal(6, 4), fixed([0, 1, 2, 3, 1, 0])), label="ignore"),
    E("CrossEntropyLoss", (), {}, (normal(2, 4, 3), integers(4, 2, 3)), label="spatial"),
    E("CrossEntropyLoss", (), {}, (normal(4), fixed(2)), label="no batch"),
    E("CrossEntropyLoss", (), {"label_smoothing": 0.1}, (normal(5, 4), probabilities(5, 4)), label="probabilities"),
    E("NLLLoss", (), {}, (uniform(-3, -0.1, 5, 4), integers(4, 5))),
    E("NLLLoss", (), {"ignore_index": 0, "reduction": "none"}, (uniform(-3, -0.1, 5, 4), integers(4, 5)), label="none"),
    E("BCELoss", (), {}, (uniform(0.1, 0.9, 4, 3), uniform(0.1, 0.9, 4, 3))),
    E("BCEWithLogitsLoss", (), {}, (normal(4, 3), uniform(0.1, 0.9, 4, 3))),
    E("KLDivLoss", (), {"reduction": "batchmean"}, (uniform(-3, -0.1, 4, 3), probabilities(4, 3))),
    E("KLDivLoss", (), {"reduction": "sum", "log_target": True}, (uniform(-3, -0.1, 4, 3), uniform(-3, -0.1, 4, 3)), label="log"),
    E("PoissonNLLLoss", (), {"full": True}, (normal(4, 3), fixed([[0.5, 2.0, 3.0]] * 4))),
    E("PoissonNLLLoss", (), {"log_input": False}, (uniform(0.5, 2, 4, 3), uniform(0.5, 3, 4, 3)), label="plain"),
    E("GaussianNLLLoss", (), {"full": True}, (normal(4, 3), normal(4, 3), uniform(0.5, 2, 4, 3))),
    E("CosineEmbeddingLoss", (), {"margin": 0.1}, (normal(5, 3), normal(5, 3), signs(5))),
    E("MarginRankingLoss", (), {"margin": 0.1}, (normal(5), normal(5), signs(5))),
    E("HingeEmbeddingLoss", (), {}, (normal(5, 3), signs(5, 3))),
    E("SoftMarginLoss", (), {}, (normal(5, 3), signs(5, 3))),
    E("TripletMarginLoss", (), {"swap": True}, (normal(5, 3), normal(5, 3), normal(5, 3))),
    E("TripletMarginWithDistanceLoss", (), {}, (normal(5, 3), normal(5, 3), normal(5, 3))),
    E("MultiMarginLoss", (), {"p": 2}, (normal(5, 4), integers(4, 5))),
    E("MultiLabelMarginLoss", (), {}, (normal(2, 4), fixed([[3, 0, -1, 1], [1, -1, 0, 2]]))),
    E("MultiLabelSoftMarginLoss", (), {}, (normal(3, 4), lambda rng: rng.integers(0, 2, (3, 4)).astype(float))),
    E("CosineSimilarity", (), {}, (normal(4, 3), normal(4, 3))),
    E("PairwiseDistance", (), {}, (normal(4, 3), normal(4, 3))),
    E("CTCLoss", (), {}, (lambda rng: np.log(probabilities(6, 5, 2)(rng).transpose(0, 2, 1)), fixed([[1, 2, 2], [3, 1, 4]]), fixed([6, 5]), fixed([3, 2])),
      second=False),
]  # fmt: skip
ATTENTION = [
    E("MultiheadAttention", (4, 2), {"batch_first": True}, (normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4))),
    E("MultiheadAttention", (4, 2), {"kdim": 3, "vdim": 2, "add_bias_kv": True, "add_zero_attn": True}, (normal(3, 2, 4), normal(5, 2, 3), normal(5, 2, 2)), label="kdim"),
    E("MultiheadAttention", (4, 2), {"bias": False}, (normal(3, 4), normal(3, 4), normal(3, 4)), label="no batch"),
    E("TransformerEncoderLayer", (4, 2, 6), {"batch_first": True, "activation": "gelu"}, (normal(2, 3, 4),)),
    E("TransformerEncoderLayer", (4, 2, 6), {"norm_first": True, "bias": False, "activation": "gelu"}, (normal(3, 2, 4),), label="norm first"),
    E("TransformerDecoderLayer", (4, 2, 6), {"activation": "gelu"}, (normal(3, 2, 4), normal(5, 2, 4))),
    E("Transformer", (4, 2, 1, 1, 6), {"activation": "gelu", "batch_first": True}, (normal(2, 3, 4), normal(2, 4, 4)), second=False),
]  # fmt: skip
RECURRENT = [
    E("RNN", (3, 4), {"num_layers": 2}, (normal(4, 2, 3),)),
    E("RNN", (3, 4), {"nonlinearity": "relu", "batch_first": True, "bidirectional": True}, (normal(2, 4, 3),), label="relu"),
    E("LSTM", (3, 4), {}, (normal(4, 2, 3),)),
    E("LSTM", (3, 4), {"num_layers": 2, "bidirectional": True, "proj_size": 2, "bias": False}, (normal(3, 2, 3),), label="projected"),
    E("GRU", (3, 4), {"num_layers": 2, "bidirectional": True}, (normal(3, 2, 3),)),
    E("GRU", (3, 4), {}, (normal(3, 3),), label="no batch"),
    E("RNNCell", (3, 4), {}, (normal(2, 3), normal(2, 4))),
    E("LSTMCell", (3, 4), {}, (normal(2, 3),)),
    E("GRUCell", (3, 4), {}, (normal(2, 3), normal(2, 4))),
]
CATALOG = [*ACTIVATIONS, *LINEAR, *CONVOLUTIONS, *POOLING, *NORMS, *SHAPES, *LOSSES, *ATTENTION, *RECURRENT]

# Modules without a counterpart to compare, or whose results are random, and the tests that look after them.
ELSEWHERE = {
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",  # test_nn_dropout.py
    "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Module",  # test_nn_module.py
    "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",  # test_nn_functions.py
    "TransformerEncoder", "TransformerDecoder",  # inside Transformer
}  # fmt: skip


def flat(out):
    """The tensors of a result, in order; None left out."""
    if out is None:
        return []
    if isinstance(out, (tuple, list)):
        return [t for o in out for t in flat(o)]
    return [out]
