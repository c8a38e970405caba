"""A network under a partial pattern, as affine maps in the inputs and the open units.

Write ``y_k = max(z_k, 0)`` for an open unit k; it passes on ``left z_k + (right - left) y_k``.
Decided units are eliminated, so with F open units

    z_k = G_k x + S_k y + g_k         for every unit k, decided or open,
    outputs = G x + S y + g,

S strictly triangular.  The tangents obey the same maps without the offsets: ``u_k = G_k v + S_k s``
with ``s_k = (switch of k) * u_k``.  One reduction so serves the linear programs (in x and y) and
the semidefinite bound (in v and s).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo.network import FloatArray, Network
from lipyomo.phases import OPEN, RIGHT, Phases

FlatPhases = npt.NDArray[np.int8]
"""Phases of all hidden units in one array, shape (N,)."""


class UnitSystem:
    """The hidden units of a network, numbered 0..N-1 through all layers.

    Parameters
    ----------
    network : Network
    functionals : ndarray, shape (k, m)
        Rows y whose gradients ``y . f`` are bounded.

    Attributes
    ----------
    weights, biases : list of ndarray
        Dense, one a hidden layer.
    starts : list of int
        First unit of each layer, and N at the end.
    left, right : ndarray, shape (N,)
        Slopes.
    kinked : ndarray of bool, shape (N,)
    head : ndarray, shape (k, n_L)
        The functionals pulled back to the last hidden layer.
    errors : ndarray, shape (N,)
        Rounding errors of pre-activations and their bounds; zero until they are set.
    """

    def __init__(self, network: Network, functionals: FloatArray) -> None:
        self.network = network
        self.weights = [np.ascontiguousarray(layer.dense_weight) for layer in network.hidden]
        self.biases = [layer.bias for layer in network.hidden]
        counts = [layer.units for layer in network.hidden]
        self.starts = [0, *np.cumsum(counts).tolist()]
        empty: FloatArray = np.zeros(0)
        self.left = np.concatenate([empty, *(layer.left for layer in network.hidden)])
        self.right = np.concatenate([empty, *(layer.right for layer in network.hidden)])
        self.kinked = self.left != self.right
        self.head = np.asarray(functionals @ network.head.dense_weight)
        self.inputs = network.input_dim
        self.count = self.starts[-1]
        self.errors: FloatArray = np.zeros(self.count)
        self.layer_of = np.repeat(np.arange(len(counts)), counts)

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self.weights)

    def span(self, layer: int) -> slice:
        """The units of a layer."""
        return slice(self.starts[layer], self.starts[layer + 1])

    def root_phases(self) -> FlatPhases:
        """Every kinked unit open."""
        return np.where(self.kinked, np.int8(OPEN), np.int8(RIGHT)).astype(np.int8)

    def split(self, phases: FlatPhases) -> Phases:
        """The phases layer by layer."""
        return tuple(phases[self.span(i)] for i in range(self.depth))

    def reduce(self, phases: FlatPhases) -> NodeForm:
        """Eliminate the decided units of `phases`."""
        open_units = np.flatnonzero(phases == OPEN)
        d, width = self.inputs, self.inputs + open_units.size
        slopes = np.where(phases == RIGHT, self.right, self.left)
        jumps = (self.right - self.left)[open_units]
        maps = np.zeros((self.count, width + 1))
        signal = np.zeros((d, width + 1))
        signal[:, :d] = np.eye(d)
        done = 0
        for i, weight in enumerate(self.weights):
            span = self.span(i)
            rows = maps[span]
            np.matmul(weight, signal, out=rows)
            rows[:, width] += self.biases[i]
            signal = slopes[span, None] * rows
            stop = int(np.searchsorted(open_units, span.stop))
            index = np.arange(done, stop)
            signal[open_units[index] - span.start, d + index] += jumps[index]
            done = stop
        return NodeForm(open_units, d, maps, np.asarray(self.head @ signal)[:, :width])


@dataclass
class NodeForm:
    """What is left of a network once a pattern is partly decided.

    Attributes
    ----------
    units : ndarray of int, shape (F,)
        The open units.
    inputs : int
        d.
    maps : ndarray, shape (N, d + F + 1)
        Rows ``(G_k, S_k, g_k)`` of all units.
    objective : ndarray, shape (k, d + F)
        Rows of the functionals' tangents.
    """

    units: npt.NDArray[np.int64]
    inputs: int
    maps: FloatArray
    objective: FloatArray

    @property
    def rows(self) -> FloatArray:
        """Tangents of the open units, shape (F, d + F)."""
        return self.maps[self.units, :-1]

    @property
    def jacobian(self) -> FloatArray:
        """Gradients of the functionals if no unit is open, shape (k, d)."""
        return self.objective[:, : self.inputs]
