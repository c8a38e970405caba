"""Points with large values: sign-gradient ascent through networks that share inputs.

For an objective ``c . x + sum_n d_n . f_n(x)`` in inputs x and the outputs of networks f_n, points
move through the box of the inputs by steps ``w_j sign(c + sum_n J_n(x)^T d_n)_j / (2 + t / 4)``,
where w_j is half its width (projected gradient steps; Madry et al., 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.network import Network
from lipyomo.primal.heuristics.params import PARAMS


@dataclass(frozen=True)
class NetworkTerm:
    """The contribution of a network to an objective.

    Attributes
    ----------
    network : Network
    places : ndarray of int
        The indices of its inputs among those of the objective.
    weights : ndarray
        The coefficients of its outputs.
    """

    network: Network
    places: IntArray
    weights: FloatArray


@dataclass(frozen=True)
class ValueAscent:
    """An objective in inputs and outputs of networks, to be maximised over a box.

    Attributes
    ----------
    lower, upper : ndarray, shape (d,)
        Finite ends of the box.
    direct : ndarray, shape (d,)
        Coefficients of the inputs themselves.
    terms : sequence of NetworkTerm
    """

    lower: FloatArray
    upper: FloatArray
    direct: FloatArray
    terms: Sequence[NetworkTerm]

    def values(self, points: FloatArray) -> FloatArray:
        """Evaluate the objective at points (n, d), shape (n,)."""
        found = points @ self.direct
        for term in self.terms:
            found = found + term.network.forward(points[:, term.places]) @ term.weights
        return np.asarray(found)

    def slopes(self, points: FloatArray) -> FloatArray:
        """Evaluate its gradients, shape (n, d)."""
        found = np.tile(self.direct, (len(points), 1))
        for term in self.terms:
            if term.weights.any():
                slopes = term.network.gradients(points[:, term.places], term.weights)
                np.add.at(found.T, term.places, slopes.T)
        return found

    def best(self) -> FloatArray:
        """Return the best point of a few dozen ascents, shape (d,)."""
        layers = [layer for term in self.terms for layer in term.network.layers]
        each = 4 * PARAMS.ascent_steps * sum(layer.weight.size for layer in layers)
        count = int(np.clip(PARAMS.work / PARAMS.quick / each, 1, PARAMS.population))
        rng = np.random.default_rng(0)
        points = rng.uniform(self.lower, self.upper, (count, self.lower.size))
        points[0] = 0.5 * (self.lower + self.upper)
        width = 0.5 * (self.upper - self.lower)
        top, point = -np.inf, points[0]
        for turn in range(PARAMS.ascent_steps + 1):
            values = self.values(points)
            k = int(values.argmax())
            if values[k] > top:
                top, point = float(values[k]), points[k].copy()
            if turn < PARAMS.ascent_steps:
                step = width * np.sign(self.slopes(points)) / (2.0 + 0.25 * turn)
                points = np.clip(points + step, self.lower, self.upper)
        return np.asarray(point)
