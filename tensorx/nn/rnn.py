"""Recurrent nets: RNN, LSTM and GRU, of several layers and both directions, and their cells."""

from __future__ import annotations

import math

import tensorx as tx
from tensorx.errors import ShapeError
from tensorx.nn import init
from tensorx.nn.dropout import dropout
from tensorx.nn.linear import _linear
from tensorx.nn.module import Module

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCell"]


# ---- one step: gates of the input are ready, those of the hidden state are added --------------------


def _rnn_step(activation):
    function = tx.tanh if activation == "tanh" else tx.relu

    def step(gates, state, w, b):
        (h,) = state
        return (function(gates + _linear("RNN", h, w, b)),)

    return step


def _lstm_step(gates, state, w, b):
    h, c = state[0], state[1]
    total = gates + _linear("LSTM", h, w, b)
    n = total.shape[-1] // 4
    i, f, g, o = (total[..., k * n : (k + 1) * n] for k in range(4))
    c = tx.sigmoid(f) * c + tx.sigmoid(i) * tx.tanh(g)
    return tx.sigmoid(o) * tx.tanh(c), c


def _gru_step(gates, state, w, b):
    (h,) = state
    inner = _linear("GRU", h, w, b)
    n = inner.shape[-1] // 3
    r = tx.sigmoid(gates[..., :n] + inner[..., :n])
    z = tx.sigmoid(gates[..., n : 2 * n] + inner[..., n : 2 * n])
    new = tx.tanh(gates[..., 2 * n :] + r * inner[..., 2 * n :])
    return ((h - new) * z + new,)


class _Recurrent(Module):
    """What the recurrent nets share."""

    _gates = 1
    _states = 1

    def __init__(self, input_size, hidden_size, num_layers, bias, batch_first, drop, bidirectional, device, dtype, proj_size=0):
        super().__init__()
        name = self._get_name()
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError(f"{name}: hidden_size and num_layers must be positive, got {hidden_size} and {num_layers}")
        if not 0 <= drop <= 1:
            raise ValueError(f"{name}: dropout must be between 0 and 1, got {drop}")
        if proj_size < 0 or proj_size >= hidden_size:
            raise ValueError(f"{name}: proj_size must be below hidden_size={hidden_size}, got {proj_size}")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = batch_first, float(drop), bidirectional, proj_size
        self._ways = 2 if bidirectional else 1
        out = proj_size or hidden_size
        for layer in range(num_layers):
            for way in range(self._ways):
                end = self._end(layer, way)
                width = input_size if layer == 0 else out * self._ways
                shapes = {"weight_ih": (self._gates * hidden_size, width), "weight_hh": (self._gates * hidden_size, out)}
                if bias:
                    shapes |= {"bias_ih": (self._gates * hidden_size,), "bias_hh": (self._gates * hidden_size,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for key, shape in shapes.items():
                    self.register_parameter(key + end, init.new_parameter(shape, device, dtype))
        self.reset_parameters()

    @staticmethod
    def _end(layer, way):
        return f"_l{layer}" + ("_reverse" if way else "")

    def reset_parameters(self):
        """Draws the starting values anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self):
        """Nothing: there is no packed form of the weights."""

    def _step(self):
        raise TypeError(f"{self._get_name()}: no step is defined")

    def _initial(self, hx, batch, x):
        """The starting states, (layers * ways, N, size) each, of width hidden or projected."""
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: self._states]
        rows = self.num_layers * self._ways
        if hx is None:
            return [tx.zeros((rows, batch, n), dtype=x.dtype, device=x.device) for n in sizes]
        given = hx if isinstance(hx, (tuple, list)) else (hx,)
        if len(given) != self._states:
            raise self._error(f"{self._states} starting states are needed, got {len(given)}")
        for t, n in zip(given, sizes):
            if t.shape != (rows, batch, n):
                raise self._error(f"a starting state of shape ({rows}, {batch}, {n}) is needed, got {t.shape}")
        return list(given)

    def _run(self, x, layer, way, state):
        """(outputs (T, N, out), last states) of one layer in one direction."""
        end = self._end(layer, way)
        d = self.__dict__
        gates = _linear(self._get_name(), x, d["weight_ih" + end], d.get("bias_ih" + end))
        w, b, step, proj = d["weight_hh" + end], d.get("bias_hh" + end), self._step(), d.get("weight_hr" + end)
        outs = []
        steps = range(x.shape[0])
        for t in reversed(steps) if way else steps:
            state = step(gates[t], state, w, b)
            if proj is not None:
                state = (_linear("LSTM", state[0], proj, None), *state[1:])
            outs.append(state[0])
        if way:
            outs.reverse()
        return tx.stack(outs) if outs else gates[:0, :, : state[0].shape[-1]], state

    def forward(self, input, hx=None):
        """input (T, N, input_size), (N, T, input_size) with batch_first, or (T, input_size); returns (output, last state)."""
        single = input.ndim == 2
        if input.ndim not in (2, 3):
            raise self._error(f"an input of 3 axes (or 2 without a batch) is needed, got shape {input.shape}")
        if input.shape[-1] != self.input_size:
            raise self._error(f"an input of shape (..., {self.input_size}) is needed, got {input.shape}")
        x = input.expand_dims(1) if single else input.permute_dims((1, 0, 2)) if self.batch_first else input
        if single and hx is not None:
            hx = tuple(t.expand_dims(1) for t in hx) if isinstance(hx, (tuple, list)) else hx.expand_dims(1)
        start = self._initial(hx, x.shape[1], x)
        last: list = [[] for _ in range(self._states)]
        for layer in range(self.num_layers):
            outs = []
            for way in range(self._ways):
                k = layer * self._ways + way
                out, state = self._run(x, layer, way, tuple(s[k] for s in start))
                outs.append(out)
                for kept, s in zip(last, state):
                    kept.append(s)
            x = outs[0] if len(outs) == 1 else tx.concat(outs, axis=-1)
            if self.dropout and layer < self.num_layers - 1:
                x = dropout(x, self.dropout, self.training)
        states = [tx.stack(s) for s in last]
        if single:
            x, states = x.squeeze(1), [s.squeeze(1) for s in states]
        elif self.batch_first:
            x = x.permute_dims((1, 0, 2))
        return x, states[0] if self._states == 1 else tuple(states)

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for key, usual in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, key) != usual:
                parts.append(f"{key}={getattr(self, key)}")
        return ", ".join(parts)


class RNN(_Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu (Elman 1990)."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self):
        return _rnn_step(self.nonlinearity)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter, Schmidhuber 1997): gates i, f, g, o in that order in the weights; state (h, c).

    >>> import tensorx as tx
    >>> out, (h, c) = tx.nn.LSTM(3, 4)(tx.ones((5, 2, 3)))
    >>> out.shape, h.shape, c.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    """

    _gates, _states = 4, 2

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0,
                 device=None, dtype=None):  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype, proj_size)

    def _step(self):
        return _lstm_step


class GRU(_Recurrent):
    """Gated recurrent unit (Cho and others 2014): gates r, z, n in that order in the weights."""

    _gates = 3

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None):
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _step(self):
        return _gru_step


class _Cell(Module):
    _gates = 1
    _states = 1

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        n = self._gates * hidden_size
        self.weight_ih = init.new_parameter((n, input_size), device, dtype)
        self.weight_hh = init.new_parameter((n, hidden_size), device, dtype)
        self.register_parameter("bias_ih", init.new_parameter(n, device, dtype) if bias else None)
        self.register_parameter("bias_hh", init.new_parameter(n, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the starting values anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def _step(self):
        raise TypeError(f"{self._get_name()}: no step is defined")

    def forward(self, input, hx=None):
        """One step: input (N, input_size) or (input_size), the state likewise (zeros by default); returns the new state."""
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(f"{self._get_name()}: an input of shape (N, {self.input_size}) or ({self.input_size},) is needed, got {input.shape}")
        single = input.ndim == 1
        x = input.expand_dims(0) if single else input
        if hx is None:
            state = tuple(tx.zeros((x.shape[0], self.hidden_size), dtype=x.dtype, device=x.device) for _ in range(self._states))
        else:
            state = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
            state = tuple(s.expand_dims(0) if single else s for s in state)
            if len(state) != self._states or any(s.shape != (x.shape[0], self.hidden_size) for s in state):
                raise self._error(f"{self._states} states of shape ({x.shape[0]}, {self.hidden_size}) are needed, got {[s.shape for s in state]}")
        new = self._step()(_linear(self._get_name(), x, self.weight_ih, self.bias_ih), state, self.weight_hh, self.bias_hh)
        if single:
            new = tuple(s.squeeze(0) for s in new)
        return new[0] if self._states == 1 else new

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of :class:`RNN`."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self):
        return _rnn_step(self.nonlinearity)


class LSTMCell(_Cell):
    """One step of :class:`LSTM`; the state is (h, c)."""

    _gates, _states = 4, 2

    def _step(self):
        return _lstm_step


class GRUCell(_Cell):
    """One step of :class:`GRU`."""

    _gates = 3

    def _step(self):
        return _gru_step
