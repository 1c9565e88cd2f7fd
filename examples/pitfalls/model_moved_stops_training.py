"""The trap: a model that is moved to the GPU and silently stops training.

Elsewhere moving a model whose parameters were read before makes each parameter the result of a to(): no leaf any more. The
optimizer gets 0 gradients, the loss does not fall, and the second backward ends with "tape already consumed".

tensorx: module.to(device) moves the parameters in place, as leaves, whatever was read or computed before.
"""

from _devices import check, devices

import tensorx as tx
from tensorx import nn


def train(label, model, device):
    """Five steps; True where every step had all gradients and the loss fell each time."""
    tx.manual_seed(1)
    x = tx.random.uniform(-1.0, 1.0, (32, 4), device=device) if hasattr(tx.random, "uniform") else tx.ones((32, 4), device=device)
    y = x.sum(axis=1, keepdims=True)
    optimizer = tx.optim.Adam(model.parameters(), lr=0.1)
    losses, counts = [], []
    for _ in range(5):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        counts.append((optimizer.last_step.with_grad, optimizer.last_step.total))
    text = " ".join(f"{v:.4f}({n})" for v, (n, _) in zip(losses, counts))
    falls = all(b < a for a, b in zip(losses, losses[1:]))
    check(falls and all(c == (2, 2) for c in counts), f"{label:<22} loss(gradients): {text}")


def read(model):
    for p in model.parameters():
        p.tolist()
    return model


for device in devices():
    print(device)
    train("built, then moved", nn.Linear(4, 1).to(device), device)
    train("read, then moved", read(nn.Linear(4, 1)).to(device), device)
    train("forked", read(nn.Linear(4, 1)).fork(device), device)
    frozen = read(nn.Linear(4, 1)).requires_grad_(False).to(device)
    check(not any(p.requires_grad for p in frozen.parameters()), "frozen, then moved: stays frozen")
    train("... and thawed", frozen.requires_grad_(), device)

    # How to see that you are not hit: parameters are leaves, and an optimizer refuses what is none.
    model = nn.Linear(4, 1).to(device)
    check(all(p.is_leaf and p.requires_grad for p in model.parameters()), "moved parameters are leaves that require grad")
    try:
        tx.optim.Adam([p * 1.0 for p in model.parameters()])
    except Exception as error:
        check("leaf" in str(error), f"an optimizer of non-leaves says so at once: {error}")
    else:
        check(False, "an optimizer of non-leaves is refused")
