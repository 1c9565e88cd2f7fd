"""Losses as modules: their arguments are kept, the functions in loss.py compute."""

from __future__ import annotations

from tensorx.nn import ctc, loss
from tensorx.nn.module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PairwiseDistance", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


def _loss(name, function, positional=(), keywords=(), buffers=(), inputs=2, kept=()):
    """A module class: constructor arguments in PyTorch's order, passed on to a function by name."""
    params = (*buffers, *positional)
    order = [n for n, _ in params]
    order += [n for n, _ in kept]
    held = {n for n, _ in (*buffers, *kept)}
    every = dict(params) | dict(keywords) | dict(kept)

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        if len(args) > len(order):
            raise TypeError(f"{name}: takes at most {len(order)} positional arguments, got {len(args)}")
        given = dict(zip(order, args))
        for key, value in kwargs.items():
            if key not in every or key in given:
                raise TypeError(f"{name}: unexpected argument {key!r}; takes {', '.join(every)}")
            given[key] = value
        for key, default in every.items():
            value = given.get(key, default)
            if key in held:
                self.register_buffer(key, value)
            else:
                setattr(self, key, value)

    def forward(self, *tensors):
        if len(tensors) != inputs:
            raise TypeError(f"{name}: takes {inputs} tensors, got {len(tensors)}")
        return function(*tensors, **{key: getattr(self, key) for key in every})

    def extra_repr(self):
        return ", ".join(f"{key}={getattr(self, key)!r}" for key in every if key not in held)

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": function.__doc__.split("\n\n    >>>")[0],
            "__module__": __name__, "__qualname__": name}  # fmt: skip
    return type(name, (Module,), body)


_MEAN = (("reduction", "mean"),)
_WEIGHT = (("weight", None),)
MSELoss = _loss("MSELoss", loss.mse_loss, _MEAN)
L1Loss = _loss("L1Loss", loss.l1_loss, _MEAN)
SmoothL1Loss = _loss("SmoothL1Loss", loss.smooth_l1_loss, (*_MEAN, ("beta", 1.0)))
HuberLoss = _loss("HuberLoss", loss.huber_loss, (*_MEAN, ("delta", 1.0)))
NLLLoss = _loss("NLLLoss", loss.nll_loss, (("ignore_index", -100), *_MEAN), buffers=_WEIGHT)
CrossEntropyLoss = _loss("CrossEntropyLoss", loss.cross_entropy, (("ignore_index", -100), *_MEAN, ("label_smoothing", 0.0)), buffers=_WEIGHT)
BCELoss = _loss("BCELoss", loss.binary_cross_entropy, _MEAN, buffers=_WEIGHT)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", loss.binary_cross_entropy_with_logits, _MEAN, buffers=_WEIGHT, kept=(("pos_weight", None),))
KLDivLoss = _loss("KLDivLoss", loss.kl_div, (*_MEAN, ("log_target", False)))
PoissonNLLLoss = _loss("PoissonNLLLoss", loss.poisson_nll_loss, (("log_input", True), ("full", False), ("eps", 1e-8), *_MEAN))
GaussianNLLLoss = _loss("GaussianNLLLoss", loss.gaussian_nll_loss, keywords=(("full", False), ("eps", 1e-6), *_MEAN), inputs=3)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", loss.cosine_embedding_loss, (("margin", 0.0), *_MEAN), inputs=3)
MarginRankingLoss = _loss("MarginRankingLoss", loss.margin_ranking_loss, (("margin", 0.0), *_MEAN), inputs=3)
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", loss.hinge_embedding_loss, (("margin", 1.0), *_MEAN))
SoftMarginLoss = _loss("SoftMarginLoss", loss.soft_margin_loss, _MEAN)
TripletMarginLoss = _loss("TripletMarginLoss", loss.triplet_margin_loss,
                          (("margin", 1.0), ("p", 2.0), ("eps", 1e-6), ("swap", False), *_MEAN), inputs=3)  # fmt: skip
TripletMarginWithDistanceLoss = _loss(
    "TripletMarginWithDistanceLoss", loss.triplet_margin_with_distance_loss,
    keywords=(("distance_function", None), ("margin", 1.0), ("swap", False), *_MEAN), inputs=3,
)  # fmt: skip
MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", loss.multilabel_margin_loss, _MEAN)
MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", loss.multilabel_soft_margin_loss, _MEAN, buffers=_WEIGHT)
CosineSimilarity = _loss("CosineSimilarity", loss.cosine_similarity, (("axis", 1), ("eps", 1e-8)))
PairwiseDistance = _loss("PairwiseDistance", loss.pairwise_distance, (("p", 2.0), ("eps", 1e-6), ("keepdims", False)))
CTCLoss = _loss("CTCLoss", ctc.ctc_loss, (("blank", 0), *_MEAN, ("zero_infinity", False)), inputs=4)


class MultiMarginLoss(Module):
    """sum over other classes of max(0, margin - x[target] + x[i]) ** p, divided by the number of classes."""

    def __init__(self, p=1, margin=1.0, weight=None, reduction="mean"):
        super().__init__()
        self.p, self.margin, self.reduction = p, margin, reduction
        self.register_buffer("weight", weight)

    def forward(self, input, target):
        return loss.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)

    def extra_repr(self):
        return f"p={self.p}, margin={self.margin}, reduction={self.reduction!r}"
