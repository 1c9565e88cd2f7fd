"""Handwritten digits with a convolutional network: reaches 98.5 % on images it has not seen, in under a minute.

    pip install tensorx-runtime[examples]
    python examples/digits_cnn.py [--epochs 30] [--seed 0] [--device cpu] [--out digits_cnn.png]

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn; in training each image is moved by up to one pixel.
Two runs with one seed give the same bits.
"""

import argparse
import hashlib

import tensorx as tx
from tensorx import nn, train


class Net(nn.Module):
    """Two convolutions, pooling, one more, and a linear classifier."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, 3, padding=1)
        self.conv2 = nn.Conv2d(24, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1)
        self.norm1, self.norm2, self.norm3 = nn.BatchNorm2d(24), nn.BatchNorm2d(32), nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(64 * 4, classes)

    def forward(self, x):
        relu = nn.functional.relu
        x = relu(self.norm1(self.conv1(x)))
        x = self.pool(relu(self.norm2(self.conv2(x))))
        x = self.pool(relu(self.norm3(self.conv3(x))))
        return self.head(x.reshape((x.shape[0], -1)))


def load(device, seed=0):
    """Training and test set: three quarters and one quarter of the images, pixels from -1 to 1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = tx.asarray(digits.images, dtype=tx.float32).reshape((-1, 1, 8, 8)) / 8.0 - 1.0
    y = tx.asarray(digits.target, dtype=tx.int64)
    return train.random_split(train.TensorDataset(x.to(device), y.to(device)), [0.75, 0.25], seed=seed)


def moved(x):
    """The images of a batch, all moved by one random offset of up to a pixel; what is moved in is background."""
    n = x.shape[0]
    wide = tx.full((n, 1, 10, 10), -1.0, device=x.device)
    wide[:, :, 1:9, 1:9] = x
    row, column = tx.random.integers(0, 3, 2).tolist()
    return wide[:, :, row : row + 8, column : column + 8]


def step(model, batch):
    """(loss, output, target) of a batch."""
    x, y = batch
    output = model(moved(x) if model.training else x)
    return nn.functional.cross_entropy(output, y), output, y


def run(epochs=30, seed=0, device="cpu", progress="auto", checkpoint=None):
    """Trains; returns (model, history, test figures)."""
    tx.manual_seed(seed)
    data, held_out = load(device)
    model = Net().to(device)
    optimizer = tx.optim.AdamW(model.named_parameters(), lr=4e-3, weight_decay=0.02)
    trainer = train.Trainer(
        model,
        optimizer,
        step=step,
        metrics={"accuracy": train.Accuracy()},
        scheduler=tx.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs),
        checkpoint=checkpoint,
        progress=progress,
    )
    test = train.DataLoader(held_out, batch_size=512)
    history = trainer.fit(train.DataLoader(data, batch_size=64, shuffle=True, seed=seed), epochs, validation=test)
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

    fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
    epochs = [h["epoch"] for h in history]
    for axis, name in zip(axes, ("loss", "accuracy")):
        axis.plot(epochs, [h[name] for h in history], label="training")
        axis.plot(epochs, [h["val_" + name] for h in history], label="test")
        axis.set_xlabel("epoch")
        axis.set_title(name)
        axis.legend()
    axes[0].set_yscale("log")
    fig.tight_layout()
    fig.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpoint", help="a file to write after every epoch, and to go on from")
    parser.add_argument("--out", default="digits_cnn.png", help="the plot")
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
