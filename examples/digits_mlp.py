"""Handwritten digits with a multi-layer perceptron: reaches 97 % on images it has not seen, in a few seconds.

    pip install tensorx-runtime[examples]
    python examples/digits_mlp.py [--epochs 40] [--seed 0] [--device cpu] [--out digits_mlp.png]

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn. Two runs with one seed give the same bits.
"""

import argparse
import hashlib

import tensorx as tx
from tensorx import nn, train


def load(device, seed=0):
    """Training and test set: three quarters and one quarter of the images, pixels from -1 to 1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = tx.asarray(digits.images, dtype=tx.float32).reshape((-1, 64)) / 8.0 - 1.0
    y = tx.asarray(digits.target, dtype=tx.int64)
    return train.random_split(train.TensorDataset(x.to(device), y.to(device)), [0.75, 0.25], seed=seed)


def run(epochs=40, seed=0, device="cpu", progress="auto", checkpoint=None):
    """Trains; returns (model, history, test figures)."""
    tx.manual_seed(seed)
    data, held_out = load(device)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = tx.optim.AdamW(model.named_parameters(), lr=3e-3, weight_decay=0.02)
    trainer = train.Trainer(
        model,
        optimizer,
        nn.functional.cross_entropy,
        metrics={"accuracy": train.Accuracy()},
        scheduler=tx.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs),
        checkpoint=checkpoint,
        progress=progress,
    )
    loader = train.DataLoader(data, batch_size=64, shuffle=True, seed=seed)
    test = train.DataLoader(held_out, batch_size=512)
    history = trainer.fit(loader, epochs, validation=test)
    return model, history, trainer.evaluate(test)


def fingerprint(model):
    """A short hash of all parameters: equal for equal bits."""
    digest = hashlib.sha256()
    for p in model.parameters():
        digest.update(p.detach().numpy(copy=True).tobytes())
    return digest.hexdigest()[:16]


def plot(history, path):
    """Loss and accuracy over the epochs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
    epochs = [h["epoch"] for h in history]
    for axis, name in ((left, "loss"), (right, "accuracy")):
        axis.plot(epochs, [h[name] for h in history], label="training")
        axis.plot(epochs, [h["val_" + name] for h in history], label="test")
        axis.set_xlabel("epoch")
        axis.set_title(name)
        axis.legend()
    left.set_yscale("log")
    fig.tight_layout()
    fig.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpoint", help="a file to write after every epoch, and to go on from")
    parser.add_argument("--out", default="digits_mlp.png", help="the plot")
    args = parser.parse_args()
    model, history, figures = run(args.epochs, args.seed, args.device, checkpoint=args.checkpoint)
    print(f"test accuracy {figures['accuracy']:.4f}, loss {figures['loss']:.4f}; parameters {fingerprint(model.to('cpu'))}")
    try:
        plot(history, args.out)
    except ImportError:
        print("no plot: matplotlib is not installed")
    else:
        print(f"plot: {args.out}")


if __name__ == "__main__":
    main()
