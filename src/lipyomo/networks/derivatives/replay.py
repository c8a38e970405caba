"""A network's signals and their derivatives in a trace, to build new networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Activation
from lipyomo.networks.building.affine import Tensor, stack
from lipyomo.networks.building.chain import to_network
from lipyomo.networks.building.system import System
from lipyomo.networks.building.trace import Trace
from lipyomo.networks.layer import Layer
from lipyomo.networks.network import Network

KINKS = (
    "the network has units with kinks ({}), where its gradient jumps: it has no derivative that is "
    "a continuous function.  Remedy: use smooth activations (softplus, gelu, tanh ...)"
)


def constant(trace: Trace, values: FloatArray) -> Tensor:
    """Return constants as a tensor of a trace, in which units prevent rounding."""
    return replace(Tensor.constant(values), carrier=trace.carried)


def is_constant(x: Tensor) -> bool:
    """Return whether all entries are constant."""
    return not x.matrix.nnz


class Replayed:
    """A hidden layer in a trace.

    Parameters
    ----------
    trace : Trace
    layer : Layer
    h : Tensor, shape (inputs,)
        Its inputs.

    Attributes
    ----------
    z : Tensor, shape (n,)
        Pre-activations.
    """

    def __init__(self, trace: Trace, layer: Layer, h: Tensor) -> None:
        self.trace, self.layer = trace, layer
        self.z = mapped(layer, h).shift(layer.bias)
        self._orders: dict[int, Tensor] = {}
        self._made: dict[tuple[int, Activation | None, tuple[float, ...]], Tensor] = {}

    @cached_property
    def _rest(self) -> IntArray:
        """Units that are not smooth."""
        return np.flatnonzero(~self.layer.curved)

    def derivative(self, order: int) -> Tensor:
        """Return derivatives of the units at their pre-activations (n,); order 0 is the value.

        Raises
        ------
        NetworkError
            If an activation has no such derivative, or units have kinks.
        """
        if order in self._orders:
            return self._orders[order]
        parts, places = [], []
        if self._rest.size:
            parts.append(self._two_slopes(order))
            places.append(self._rest)
        for k, curve in enumerate(self.layer.curves):
            parts.append(self._curve(k, order))
            places.append(curve.units)
        whole = parts[0] if len(parts) == 1 else stack(parts)
        found = self._orders[order] = whole.take(np.argsort(np.concatenate(places)))
        return found

    def _two_slopes(self, order: int) -> Tensor:
        left, right = self.layer.left[self._rest], self.layer.right[self._rest]
        if order == 0:
            return self.trace.unit(self.z.take(self._rest), left, right)
        if (left != right).any():
            raise NetworkError(KINKS.format("ReLU, say"))
        return constant(self.trace, left if order == 1 else np.zeros_like(left))

    def _curve(self, k: int, order: int) -> Tensor:
        """Return a derivative of the units of a curve, by ``sigma' = f kind(s z)`` repeatedly."""
        curve = self.layer.curves[k]
        kind: Activation | None = curve.activation.true
        factors: list[float] = []
        scales: list[float] = []
        for left in range(order, 0, -1):
            if kind is None:  # of the identity
                fixed = np.prod([*factors, *scales]) if left == 1 else 0.0
                return constant(self.trace, np.full(curve.units.size, fixed))
            slope = kind.derivative
            factors += [slope.factor, *scales]
            scales.append(slope.scale)
            kind = slope.kind
        found = self._unit(k, kind, tuple(one for one in scales if one != 1.0))
        for factor in factors:
            if factor != 1.0:
                found = found.scale(factor)
        return found

    def _unit(self, k: int, kind: Activation | None, scales: tuple[float, ...]) -> Tensor:
        """Return ``kind(scale z)``, cached."""
        key = k, kind, scales
        if key not in self._made:
            z = self.z.take(self.layer.curves[k].units)
            for scale in scales:
                z = z.scale(scale)
            self._made[key] = z if kind is None else self.trace.smooth(z, kind)
        return self._made[key]


def mapped(layer: Layer, h: Tensor) -> Tensor:
    """``W h``."""
    weight = layer.weight if isinstance(layer.weight, np.ndarray) else layer.weight.copy()
    return h.apply(weight, (layer.units,))


def mapped_back(layer: Layer, g: Tensor) -> Tensor:
    """``W^T g``."""
    weight = layer.weight
    back = weight.T if isinstance(weight, np.ndarray) else sp.csr_array(weight.T)
    return g.apply(back, (layer.inputs,))


class Replay:
    """A network in a trace.

    Parameters
    ----------
    trace : Trace
    network : Network
    x : Tensor, shape (d,)

    Attributes
    ----------
    layers : list of Replayed
        The hidden layers.
    output : Tensor, shape (m,)
    """

    def __init__(self, trace: Trace, network: Network, x: Tensor) -> None:
        self.trace, self.network = trace, network
        self.layers: list[Replayed] = []
        for layer in network.hidden:
            self.layers.append(Replayed(trace, layer, x))
            x = self.layers[-1].derivative(0)
        self.output = mapped(network.head, x).shift(network.head.bias)

    @classmethod
    def of(cls, network: Network) -> Replay:
        """Replay a network in a new trace."""
        trace = Trace(network.input_dim)
        return cls(trace, network, trace.input((network.input_dim,)))

    def adjoints(self, row: FloatArray) -> Tensor:
        """Return the gradient (d,) of a functional of the outputs, by the chain rule backwards."""
        g = mapped_back(self.network.head, constant(self.trace, row))
        for layer in reversed(self.layers):
            g = self.trace.times(layer.derivative(1), g)
            g = mapped_back(layer.layer, g)
        return g


def made(
    trace: Trace,
    output: Tensor,
    name: str,
    like: Network,
    output_shape: Sequence[int] | None = None,
) -> Network:
    """Build the network that computes a tensor, with the inputs of another network."""
    found = to_network(System.of(trace, output), name)
    named = like.input_parts, like.input_names
    return Network(found.layers, name, like.input_shape, output_shape, *named)
