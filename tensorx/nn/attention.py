"""Attention: softmax(Q K^T) V without the matrix of scores in memory, and the multi-head module."""

from __future__ import annotations

import copy
import math

import tensorx as tx
from tensorx import _core
from tensorx.errors import ShapeError
from tensorx.nn import _random, init
from tensorx.nn.dropout import _mask, dropout
from tensorx.nn.linear import Linear, _linear, fits
from tensorx.nn.module import Module
from tensorx.ops._record import record

__all__ = ["MultiheadAttention", "scaled_dot_product_attention"]

CHUNK = 1 << 20  # bytes of scores at a time


def _chunks(q, k):
    """(batch, heads, queries) slices whose scores fit into CHUNK; by shape alone."""
    b, h, lq, _ = q.shape
    row = max(k.shape[2] * q.itemsize, 1)
    nq = max(1, min(lq, CHUNK // row))
    nh = max(1, min(h, CHUNK // (row * nq))) if nq == lq else 1
    nb = max(1, min(b, CHUNK // (row * nq * nh))) if nh == h else 1
    for i in range(0, b, nb):
        for j in range(0, h, nh):
            for m in range(0, lq, nq):
                yield slice(i, min(i + nb, b)), slice(j, min(j + nh, h)), slice(m, min(m + nq, lq))


def _weights(q, k, mask, scale):
    """softmax(q k^T scale + mask) of one chunk."""
    scores = _core.matmul_raw(q, k.mT) * scale
    if mask is not None:
        scores = scores + mask
    return _core.row_op(_core.ROW_CODES["softmax"], scores)


def _place(q, width):
    """Room for a result whose heads lie side by side, so that merging them moves nothing."""
    b, h, n, _ = q.shape
    return _core.permute_view(_core.empty((b, n, h, width), q.dtype, q.device.number, False, "attention"), (0, 2, 1, 3))


def _streams(p, chunks, generator):
    return generator.split(len(chunks)) if p else (None,) * len(chunks)


def _forward(q, k, v, mask, scale, p, generator):
    out = _place(q, v.shape[3])
    chunks = list(_chunks(q, k))
    for (b, h, m), g in zip(chunks, _streams(p, chunks, copy.copy(generator))):
        weights = _weights(q[b, h, m], k[b, h], None if mask is None else mask[b, h, m], scale)
        if p:
            weights = weights * _mask(weights.shape, p, weights, g)
        _core.matmul_raw(weights, v[b, h], None, out[b, h, m])
    _core.reset_version(out)
    return out


def _prepare(node, inputs, out, saved, wanted):
    kept = {name: _core.save(t, f"the {name}") for name, t in zip(("query", "key", "value"), inputs)}
    kept |= {"scale": saved["scale"], "p": saved["p"], "generator": saved["generator"]}
    if saved["mask"] is not None:
        kept["mask"] = _core.save(saved["mask"], "the mask")
    return kept


def _backward(g, kept, wanted):
    """Scores are computed again, chunk by chunk."""
    q, k, v, mask, scale, p = kept["query"], kept["key"], kept["value"], kept.get("mask"), kept["scale"], kept["p"]
    if g.requires_grad or q.requires_grad or k.requires_grad or v.requires_grad:
        return _composed_backward(g, q, k, v, mask, scale, p, copy.copy(kept["generator"]))
    dq, dk, dv = _place(q, q.shape[3]), _place(k, k.shape[3]), _place(v, v.shape[3])
    code = _core.ROW_CODES["softmax_backward"]
    chunks = list(_chunks(q, k))
    for (b, h, m), stream in zip(chunks, _streams(p, chunks, copy.copy(kept["generator"]))):
        qc, kc, vc, gc = q[b, h, m], k[b, h], v[b, h], g[b, h, m]
        weights = _weights(qc, kc, None if mask is None else mask[b, h, m], scale)
        dweights = _core.matmul_raw(gc, vc.mT)
        used = weights
        if p:
            drop = _mask(weights.shape, p, weights, stream)
            used = weights * drop
            dweights = dweights * drop
        again = m.start > 0  # keys and values of the same heads, met before
        _core.matmul_raw(used.mT, gc, None, dv[b, h], again)
        del used
        dscores = _core.row_op(code, dweights, second=weights) * scale
        del weights, dweights
        _core.evaluate(dscores)
        _core.matmul_raw(dscores, kc, None, dq[b, h, m])
        _core.matmul_raw(dscores.mT, qc, None, dk[b, h], again)
    for t in (dq, dk, dv):
        _core.reset_version(t)
    return {0: dq, 1: dk, 2: dv}


def _composed_backward(g, q, k, v, mask, scale, p, generator):
    scores = (q @ k.mT) * scale
    weights = tx.softmax(scores if mask is None else scores + mask)
    used, dweights = weights, g @ v.mT
    if p:
        drop = _whole_mask(q, k, p, generator)
        used, dweights = weights * drop, dweights * drop
    dscores = weights * (dweights - tx.sum(dweights * weights, axis=-1, keepdims=True)) * scale
    return {0: dscores @ k, 1: dscores.mT @ q, 2: used.mT @ g}


def _whole_mask(q, k, p, generator):
    """The dropout factors that the chunks used, side by side."""
    out = _core.empty((*q.shape[:3], k.shape[2]), q.dtype, q.device.number, False, "attention")
    chunks = list(_chunks(q, k))
    for (b, h, m), g in zip(chunks, _streams(p, chunks, generator)):
        out[b, h, m] = _mask((b.stop - b.start, h.stop - h.start, m.stop - m.start, k.shape[2]), p, q, g)
    return out


_core.rules["attention"] = (_prepare, _backward)


def _as_four(t, lead):
    """(batch, heads, n, e), leading axes broadcast and merged."""
    t = tx.broadcast_to(t, (*lead, *t.shape[-2:])) if t.shape[:-2] != lead else t
    if len(lead) == 2:
        return t
    if len(lead) < 2:
        return t.reshape(((1,) * (2 - len(lead))) + t.shape)
    return t.reshape((math.prod(lead[:-1]), lead[-1], *t.shape[-2:]))


def _additive(attn_mask, is_causal, query, key, lead):
    """(mask that is added or None, which queries see any key or None)."""
    lq, lk = query.shape[-2], key.shape[-2]
    if is_causal:
        if attn_mask is not None:
            raise ValueError("scaled_dot_product_attention: give either attn_mask or is_causal=True")
        attn_mask = tx.tril(tx.ones((lq, lk), dtype=tx.bool, device=query.device))
        return tx.where(attn_mask, 0.0, -tx.inf).astype(query.dtype), None
    if attn_mask is None:
        return None, None
    if attn_mask.dtype is tx.bool:
        seen = tx.any(attn_mask, axis=-1, keepdims=True)
        mask = tx.where(attn_mask, 0.0, -tx.inf).astype(query.dtype)
    else:
        seen = tx.any(attn_mask.detach() != -tx.inf, axis=-1, keepdims=True)
        mask = attn_mask if attn_mask.dtype is query.dtype else _core.cast(attn_mask, query.dtype)
    if bool(tx.all(seen)):
        return mask, None
    return tx.where(seen, mask, 0.0), seen


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(query key^T scale + mask) value, over (..., L, E), (..., S, E), (..., S, V).

    attn_mask broadcasts to (..., L, S): booleans say which keys take part, floats are added. Queries that see no key give 0.
    scale is 1 / sqrt(E) by default. enable_gqa lets several heads of the query share one of key and value. The scores are
    never in memory as a whole: backward computes them again.

    >>> import tensorx as tx
    >>> q = tx.ones((1, 2, 3, 4))
    >>> tx.nn.functional.scaled_dot_product_attention(q, q, q).shape
    (1, 2, 3, 4)
    """
    op = "scaled_dot_product_attention"
    fits(op, query, ("the key", key), ("the value", value))
    for t in (query, key, value):
        if t.ndim < 2:
            raise ShapeError(f"{op}: operands need at least 2 axes, got shapes {query.shape}, {key.shape}, {value.shape}")
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        if query.shape[-3] % key.shape[-3]:
            raise ShapeError(f"{op}: {query.shape[-3]} heads of the query are not a multiple of {key.shape[-3]} of the key")
        times = query.shape[-3] // key.shape[-3]
        key, value = tx.repeat(key, times, axis=-3), tx.repeat(value, times, axis=-3)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{op}: query {query.shape}, key {key.shape} and value {value.shape} do not fit: (..., L, E), (..., S, E), (..., S, V) are needed")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"{op}: dropout_p must be between 0 and 1, got {dropout_p}")
    try:
        lead = tx.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except ValueError:
        raise ShapeError(f"{op}: leading axes of query {query.shape}, key {key.shape} and value {value.shape} do not broadcast") from None
    scale = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)
    mask, seen = _additive(attn_mask, is_causal, query, key, lead)
    shape = (*lead, query.shape[-2], value.shape[-1])
    lean = query.device.type == "cpu" and query.dtype.name in ("float32", "float64") and not (mask is not None and mask.requires_grad)
    if not lean or 0 in shape or key.shape[-2] == 0 or key.shape[-1] == 0:
        scores = (query @ key.mT) * scale
        weights = tx.softmax(scores if mask is None else scores + mask)
        out = dropout(weights, dropout_p) @ value if dropout_p else weights @ value
        return out if seen is None else tx.where(seen, out, 0.0)
    q, k, v = (_as_four(t, lead) for t in (query, key, value))
    m = None if mask is None else _as_four(mask, lead) if mask.ndim > 2 or len(lead) < 2 else tx.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    generator = _random.split() if dropout_p else None
    raw = None if m is None else m.detach()
    out = _forward(q.detach(), k.detach(), v.detach(), raw, scale, dropout_p, generator)
    out = record("attention", (q, k, v), out, mask=raw, scale=scale, p=dropout_p, generator=generator)
    if len(lead) != 2:
        out = out.reshape(shape)
    return out if seen is None else tx.where(seen, out, 0.0)


class MultiheadAttention(Module):
    """Attention in several subspaces (Vaswani and others 2017): query (L, N, E), key and value (S, N, E), or (N, L, E) batch_first.

    Parameters in_proj_weight (3 E, E), or q_proj_weight, k_proj_weight, v_proj_weight where kdim or vdim differ; in_proj_bias,
    out_proj. Returns (output, weights averaged over heads), the weights None with need_weights=False, which needs less memory.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False,
                 device=None, dtype=None):  # fmt: skip
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim={embed_dim} must be a positive multiple of num_heads={num_heads}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        same = self._qkv_same_embed_dim

        def new(shape):
            return init.new_parameter(shape, device, dtype)

        self.register_parameter("in_proj_weight", new((3 * embed_dim, embed_dim)) if same else None)
        self.register_parameter("q_proj_weight", None if same else new((embed_dim, embed_dim)))
        self.register_parameter("k_proj_weight", None if same else new((embed_dim, self.kdim)))
        self.register_parameter("v_proj_weight", None if same else new((embed_dim, self.vdim)))
        self.register_parameter("in_proj_bias", new(3 * embed_dim) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.register_parameter("bias_k", new((1, 1, embed_dim)) if add_bias_kv else None)
        self.register_parameter("bias_v", new((1, 1, embed_dim)) if add_bias_kv else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the starting values anew."""
        for p in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if p is not None:
                init.xavier_uniform_(p)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for p in (self.bias_k, self.bias_v):
            if p is not None:
                init.xavier_normal_(p)

    def _project(self, query, key, value):
        """The three projections, (N, length, E)."""
        e, bias = self.embed_dim, self.in_proj_bias
        name = self._get_name()
        if self._qkv_same_embed_dim:
            w = self.in_proj_weight
            if query is key and key is value:
                joint = _linear(name, query, w, bias)
                return joint[..., :e], joint[..., e : 2 * e], joint[..., 2 * e :]
            weights = w[:e], w[e : 2 * e], w[2 * e :]
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if bias is None else (bias[:e], bias[e : 2 * e], bias[2 * e :])
        return tuple(_linear(name, t, w, b) for t, w, b in zip((query, key, value), weights, biases))

    def _heads(self, t):
        n, length, _ = t.shape
        return t.reshape((n, length, self.num_heads, self.head_dim)).permute_dims((0, 2, 1, 3))

    def _masks(self, attn_mask, key_padding_mask, n, lq, lk, dtype):
        """One additive mask that broadcasts to (N, heads, L, S), or None; booleans say which keys are left out, as in PyTorch."""
        total = None
        if attn_mask is not None:
            if attn_mask.ndim == 2 and attn_mask.shape == (lq, lk):
                mask = attn_mask
            elif attn_mask.ndim == 3 and attn_mask.shape == (n * self.num_heads, lq, lk):
                mask = attn_mask.reshape((n, self.num_heads, lq, lk))
            else:
                raise self._error(f"attn_mask of shape ({lq}, {lk}) or ({n * self.num_heads}, {lq}, {lk}) is needed, got {attn_mask.shape}")
            total = tx.where(mask, -tx.inf, 0.0).astype(dtype) if mask.dtype is tx.bool else mask
        if key_padding_mask is not None:
            if key_padding_mask.shape != (n, lk):
                raise self._error(f"key_padding_mask of shape ({n}, {lk}) is needed, got {key_padding_mask.shape}")
            pad = key_padding_mask.reshape((n, 1, 1, lk))
            pad = tx.where(pad, -tx.inf, 0.0).astype(dtype) if pad.dtype is tx.bool else pad
            total = pad if total is None else total + pad
        return total

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
        """attn_mask: (L, S) or (N * heads, L, S), booleans mark keys that are left out; key_padding_mask (N, S) likewise."""
        single = query.ndim == 2
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise self._error(f"query, key and value of 3 axes (or 2 without a batch) are needed, got {query.shape}, {key.shape}, {value.shape}")
        for what, t, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if t.shape[-1] != width:
                raise self._error(f"a {what} of shape (..., {width}) is needed, got {t.shape}")
        if key.shape[:-1] != value.shape[:-1]:
            raise self._error(f"key {key.shape} and value {value.shape} must agree but in the last axis")
        if is_causal and attn_mask is None:
            raise ValueError("MultiheadAttention: is_causal=True is a hint that needs the attn_mask, too")
        seen: dict = {}

        def batch_first(t):
            if id(t) not in seen:
                seen[id(t)] = t.expand_dims(0) if single else t if self.batch_first else t.permute_dims((1, 0, 2))
            return seen[id(t)]

        q, k, v = self._project(batch_first(query), batch_first(key), batch_first(value))
        if single and key_padding_mask is not None:
            key_padding_mask = key_padding_mask.expand_dims(0)
        n, lq = q.shape[:2]
        mask = self._masks(attn_mask, key_padding_mask, n, lq, k.shape[1], q.dtype)
        extra = 0
        if self.bias_k is not None:
            shape = (n, 1, self.embed_dim)
            k = tx.concat([k, tx.broadcast_to(self.bias_k, shape)], axis=1)
            v = tx.concat([v, tx.broadcast_to(self.bias_v, shape)], axis=1)
            extra += 1
        if self.add_zero_attn:
            zero = tx.zeros((n, 1, self.embed_dim), dtype=k.dtype, device=k.device)
            k, v = tx.concat([k, zero], axis=1), tx.concat([v, zero], axis=1)
            extra += 1
        if extra and mask is not None:
            mask = tx.concat([mask, tx.zeros((*mask.shape[:-1], extra), dtype=mask.dtype, device=mask.device)], axis=-1)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q @ k.mT) * (1.0 / math.sqrt(self.head_dim))
            weights = tx.softmax(scores if mask is None else scores + mask)
            weights = dropout(weights, p)
            out = weights @ v
            if average_attn_weights:
                weights = tx.mean(weights, axis=1)
            weights = weights.squeeze(0) if single else weights
        else:
            out = scaled_dot_product_attention(q, k, v, mask, p)
        out = out.permute_dims((0, 2, 1, 3)).reshape((n, lq, self.embed_dim))
        out = self.out_proj(out)
        out = out.squeeze(0) if single else out if self.batch_first else out.permute_dims((1, 0, 2))
        return out, weights

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}, batch_first={self.batch_first}"
