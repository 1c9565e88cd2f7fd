"""A small transformer that learns to write like Python's documentation, byte by byte.

    pip install tensorx-runtime[train,plot]
    python examples/tiny_transformer.py [--steps 600] [--seed 0] [--device cpu] [--out tiny_transformer.png]

The text is pydoc_data.topics, which comes with every Python: what help("topics") shows.
"""

import argparse

import tensorx as tx
from tensorx import nn, train

F = nn.functional


class Block(nn.Module):
    """Causal self-attention and a feed-forward part, each after a normalisation and beside a shortcut."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape((b, t, 3, self.heads, c // self.heads))
        q, k, v = (tx.permute_dims(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(tx.permute_dims(a, (0, 2, 1, 3)).reshape((b, t, c)))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Writer(nn.Module):
    """Bytes in, scores of the next byte out."""

    def __init__(self, width=96, heads=4, layers=3, context=96):
        super().__init__()
        self.context = context
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, ids):
        x = self.bytes(ids) + self.places(tx.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def write(self, prompt, length, temperature=0.7):
        """Goes on after a prompt."""
        out = list(prompt.encode())
        device = self.head.weight.device
        with tx.no_grad():
            for _ in range(length):
                ids = tx.asarray([out[-self.context :]], device=device)
                scores = self(ids)[0, -1] / temperature
                # the largest of scores with Gumbel noise is a draw from the softmax
                noise = -tx.log(-tx.log(tx.random.uniform(1e-9, 1.0, (256,)).to(device)))
                out.append(int(tx.argmax(scores + noise)))
        return bytes(out).decode("utf-8", "replace")


class Windows:
    """All windows of a text, each with the same window one byte further."""

    def __init__(self, text, length):
        self.text, self.length = text, length

    def __len__(self):
        return self.text.shape[0] - self.length - 1

    def batch(self, rows):
        """The windows that begin at ``rows``."""
        at = tx.reshape(rows, (-1, 1)) + tx.arange(self.length)
        return self.text[at], self.text[at + 1]


def run(steps=600, seed=0, device="cpu", progress="auto", batch=24):
    """Trains; returns (model, history)."""
    from pydoc_data import topics

    tx.manual_seed(seed)
    text = "\n\n".join(topics.topics[name] for name in sorted(topics.topics)).encode()
    text = tx.asarray(list(text), dtype=tx.int64)
    cut = text.shape[0] * 9 // 10
    model = Writer().to(device)
    optimizer = tx.optim.AdamW(model.named_parameters(), lr=2e-3, weight_decay=0.05)
    epochs = 10
    per_epoch = max(1, steps // epochs)

    def step(model, batch):
        ids, following = batch
        scores = model(ids)
        return F.cross_entropy(scores.reshape((-1, 256)), following.reshape((-1,))), scores, following

    trainer = train.Trainer(
        model,
        optimizer,
        step=step,
        device=device,
        clip_norm=1.0,
        scheduler=tx.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=epochs * per_epoch + 1, cycle_momentum=False),
        scheduler_every="batch",
        progress=progress,
    )
    loader = train.DataLoader(Windows(text[:cut], model.context), batch, shuffle=True, batches=per_epoch, seed=seed)
    others = Windows(text[cut:], model.context)
    held_out = train.DataLoader(train.Subset(others, range(0, len(others), len(others) // (8 * batch))), batch)
    return model, trainer.fit(loader, epochs, validation=held_out)


def plot(history, path):
    """Bits per byte over the epochs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, label in (("loss", "training"), ("val_loss", "text not seen")):
        plt.plot([h["epoch"] for h in history], [h[name] / 0.6931472 for h in history], label=label)
    plt.xlabel("epoch")
    plt.ylabel("bits per byte")
    plt.legend()
    plt.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="tiny_transformer.png", help="the plot")
    args = parser.parse_args()
    model, history = run(args.steps, args.seed, args.device)
    print(f"bits per byte of text not seen: {history[-1]['val_loss'] / 0.6931472:.3f}")
    print(model.eval().write("The with statement ", 200))
    try:
        plot(history, args.out)
    except ImportError:
        print("no plot: matplotlib is not installed")
    else:
        print(f"plot: {args.out}")


if __name__ == "__main__":
    main()
