"""Connectionist temporal classification (Graves and others 2006)."""

from __future__ import annotations

import tensorx as tx
from tensorx import _core
from tensorx.errors import ShapeError

__all__ = ["ctc_loss"]


def _lengths(name, lengths, batch):
    values = lengths.tolist() if isinstance(lengths, _core.Tensor) else list(lengths) if not isinstance(lengths, int) else [lengths]
    values = values if isinstance(values, list) else [values]
    if len(values) != batch:
        raise ShapeError(f"ctc_loss: {len(values)} {name} for a batch of {batch}")
    return [int(v) for v in values]


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Negative log-probability of label sequences over all alignments.

    log_probs (T, N, C) or (T, C), targets (N, S) or concatenated (sum of target_lengths). The mean divides each loss by its
    target's length first.
    """
    single = log_probs.ndim == 2
    x = log_probs.expand_dims(1) if single else log_probs
    steps, batch, classes = x.shape
    times = _lengths("input_lengths", input_lengths, batch)
    sizes = _lengths("target_lengths", target_lengths, batch)
    host = targets.to("cpu").tolist()
    if single and targets.ndim == 1:
        host = [host]
    elif targets.ndim == 1:
        flat, host, at = host, [], 0
        for n in sizes:
            host.append(flat[at : at + n])
            at += n
    longest = max(sizes, default=0)
    width = 2 * longest + 1
    labels = [[blank] * width for _ in range(batch)]
    for row, given, n in zip(labels, host, sizes):
        row[1 : 2 * n : 2] = given[:n]
    for t in times:
        if t > steps:
            raise ShapeError(f"ctc_loss: an input length of {t} is above the {steps} steps of log_probs")
    device = x.device
    index = tx.asarray(labels, dtype=tx.int64, device=device)
    skip = [[k >= 2 and row[k] != blank and row[k] != row[k - 2] for k in range(width)] for row in labels]
    may_skip = tx.asarray(skip, device=device)
    never = -1e30
    emitted = tx.take_along_axis(x, tx.broadcast_to(index.expand_dims(0), (steps, batch, width)), axis=2)
    start = tx.asarray([[k == 0 or (k == 1 and n > 0) for k in range(width)] for n in sizes], device=device)
    alpha = tx.where(start, emitted[0], never)
    rows = [alpha]
    pad1 = tx.full((batch, 1), never, dtype=x.dtype, device=device)
    pad2 = tx.full((batch, min(2, width)), never, dtype=x.dtype, device=device)
    for t in range(1, steps):
        one = tx.concat([pad1, alpha[:, :-1]], axis=1)
        two = tx.where(may_skip, tx.concat([pad2, alpha[:, :-2]], axis=1) if width > 2 else pad2[:, :width], never)
        best = tx.maximum(tx.maximum(alpha, one), two).detach()
        total = tx.exp(alpha - best) + tx.exp(one - best) + tx.exp(two - best)
        alpha = tx.clamp_min(best + tx.log(total) + emitted[t], never)
        rows.append(alpha)
    every = tx.stack(rows)
    losses = []
    for b in range(batch):
        last = every[max(times[b] - 1, 0), b]
        ends = last[2 * sizes[b] - 1 : 2 * sizes[b] + 1] if sizes[b] else last[:1]
        losses.append(-tx.logsumexp(ends))
    loss = tx.stack(losses)
    impossible = loss.detach() > 1e29
    loss = tx.where(impossible, 0.0 if zero_infinity else tx.inf, loss)
    if reduction == "mean":
        scale = tx.asarray([float(max(n, 1)) for n in sizes], dtype=x.dtype, device=device)
        return tx.mean(loss / scale)
    if reduction == "sum":
        return tx.sum(loss, dtype=loss.dtype)
    if reduction != "none":
        raise ValueError(f"ctc_loss: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return loss.squeeze(0) if single else loss
