"""Recurrent operators over sequences of fixed length, unrolled step by step.

A gated state is ``h + z (n - h)``, with one product per entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.formats.onnx.lower.products import times_constant
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.networks.activations import Sigmoid, Softsign, Tanh
from lipyomo.networks.building.affine import Tensor, joined_tensors
from lipyomo.networks.building.trace import Trace

Applied = Callable[[Trace, Tensor], Tensor]

_ACTIVATIONS: dict[str, Applied] = {
    "Sigmoid": lambda trace, x: trace.smooth(x, Sigmoid()),
    "Tanh": lambda trace, x: trace.smooth(x, Tanh()),
    "Softsign": lambda trace, x: trace.smooth(x, Softsign()),
    "Relu": lambda trace, x: trace.relu(x),
}

_STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@dataclass(frozen=True, eq=False)
class _Cell:
    """One direction of a recurrent operator.

    Attributes
    ----------
    trace : Trace
    read, back : ndarray, shapes (gates H, inputs) and (gates H, H)
        Weights of the inputs and of the state.
    bias, back_bias : ndarray, shape (gates H,)
    kinds : list of callable
        Activations.
    reset_late : bool
        Whether the reset gate of a GRU is applied after the recurrent weights.
    """

    trace: Trace
    read: FloatArray
    back: FloatArray
    bias: FloatArray
    back_bias: FloatArray
    kinds: list[Applied]
    reset_late: bool

    @property
    def width(self) -> int:
        """Number of entries of the state."""
        return int(self.back.shape[1])

    def gates(self, x: Tensor, h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return the gates' pre-activations of the input and of the state, including biases."""
        n = self.width
        places = [slice(k, k + n) for k in range(0, len(self.read), n)]
        own = [times_constant(x, self.read[p].T).shift(self.bias[p]) for p in places]
        past = [times_constant(h, self.back[p].T).shift(self.back_bias[p]) for p in places]
        return own, past

    def rnn(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        """Return the state after one step of a plain recurrent network."""
        own, past = self.gates(x, state[0])
        return [self.kinds[0](self.trace, own[0] + past[0])]

    def gru(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        """Return the state after one step with an update and a reset gate."""
        (h,), trace = state, self.trace
        own, past = self.gates(x, h)
        z, r = (self.kinds[0](trace, own[k] + past[k]) for k in range(2))
        if self.reset_late:
            reset = trace.times(r, past[2])
        else:
            last = slice(2 * self.width, None)
            kept = times_constant(trace.times(r, h), self.back[last].T)
            reset = kept.shift(self.back_bias[last])
        n = self.kinds[1](trace, own[2] + reset)
        return [n + trace.times(z, h - n)]

    def lstm(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        """Return the state after one step with an input, an output and a forget gate."""
        (h, c), trace = state, self.trace
        own, past = self.gates(x, h)
        i, o, f = (self.kinds[0](trace, own[k] + past[k]) for k in range(3))
        new = self.kinds[1](trace, own[3] + past[3])
        c = trace.times(f, c) + trace.times(i, new)
        return [trace.times(o, self.kinds[2](trace, c)), c]


def _cells(call: Call, gates: int) -> list[tuple[_Cell, bool]]:
    """Return a cell for each direction, and whether it runs backwards."""
    node = call.node
    read, back = call.real(1, "the weight"), call.real(2, "the recurrent weight")
    count, total, width = back.shape
    bias = call.optional(3)
    both = np.zeros((count, 2 * total)) if bias is None else call.real(3, "the bias")
    names = node.texts("activations") or _DEFAULTS[node.op_type] * count
    unknown = [name for name in names if name not in _ACTIVATIONS]
    odd = [
        key for key in ("clip", "activation_alpha", "activation_beta") if node.attributes.get(key)
    ]
    if unknown or odd or node.integer("input_forget", 0) or call.optional(7) is not None:
        what = unknown or odd or ["peepholes, or coupled gates"]
        raise node.refuse(f"{', '.join(what)} of recurrent layers: not supported", call.remedy)
    if total != gates * width:
        raise ValueError(f"weights of shape {back.shape} for {gates} gates")
    way = node.text("direction", "forward")
    late, each = bool(node.integer("linear_before_reset", 0)), len(names) // count
    found = []
    for k in range(count):
        kinds = [_ACTIVATIONS[name] for name in names[k * each : (k + 1) * each]]
        halves = both[k, :total], both[k, total:]
        cell = _Cell(call.trace, read[k], back[k], *halves, kinds, late)
        found.append((cell, way == "reverse" or k == 1))
    return found


@multiplies("RNN", "GRU", "LSTM")
def recurrent(call: Call) -> list[Value]:
    """Return all states, and the last ones."""
    node, x = call.node, call.tensor(0)
    kind, first = node.op_type, node.integer("layout", 0)
    if first:
        x = x.take(np.swapaxes(x.index, 0, 1))
    length, batch = x.shape[:2]
    sizes = call.optional(4)
    if sizes is not None and (call.constant(4, "the lengths") != length).any():
        raise node.refuse("sequences of different lengths", "export it for one length")
    every: list[Tensor] = []
    last: list[list[Tensor]] = []
    for k, (cell, backwards) in enumerate(_cells(call, {"RNN": 1, "GRU": 3, "LSTM": 4}[kind])):
        state = [_begin(call, 5 + s, k, first, (batch, cell.width)) for s in range(_STATES[kind])]
        step = {"RNN": cell.rnn, "GRU": cell.gru, "LSTM": cell.lstm}[kind]
        states = []
        for t in range(length)[:: -1 if backwards else 1]:
            state = step(x.take(x.index[t]), state)
            states.append(state[0].reshaped((1, 1, batch, cell.width)))
        every.append(joined_tensors(states[:: -1 if backwards else 1], 0))
        last.append([one.reshaped((1, batch, cell.width)) for one in state])
    outputs = joined_tensors(every, 1)
    ends = [joined_tensors(list(parts), 0) for parts in zip(*last, strict=True)]
    if first:
        outputs = outputs.take(np.moveaxis(outputs.index, 2, 0))
        ends = [end.take(np.swapaxes(end.index, 0, 1)) for end in ends]
    return [outputs, *ends]


def _begin(call: Call, position: int, k: int, first: int, shape: tuple[int, int]) -> Tensor:
    """Return the initial state."""
    if call.optional(position) is None:
        return Tensor.constant(np.zeros(shape))
    given = call.tensor(position)
    index = np.swapaxes(given.index, 0, 1) if first else given.index
    return given.take(index[k])
