"""A reduction: a network that stands for a given one, and the way back.

Reductions of reductions are composed with `Reduction.then`; several of one network are a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, Pattern
from lipyomo.networks.network import Network
from lipyomo.problems.reductions.units import Counterparts


@dataclass(frozen=True, eq=False)
class Reduction:
    """A network in some of the inputs and with some of the units of a given one.

    Attributes
    ----------
    network : Network
        What is left, with d' inputs.
    moving : ndarray of bool, shape (d,)
        The inputs of the given network that are left.
    values : ndarray, shape (d,)
        Values of the others; zero at those that are left.
    units : Counterparts
    """

    network: Network
    moving: BoolArray
    values: FloatArray
    units: Counterparts

    @classmethod
    def to(cls, network: Network, units: Counterparts) -> Reduction:
        """The reduction to a network of the same inputs."""
        d = network.input_dim
        return cls(network, np.ones(d, dtype=bool), np.zeros(d), units)

    @classmethod
    def none(cls, network: Network) -> Reduction:
        """The network itself."""
        return cls.to(network, Counterparts.same(network))

    def then(self, other: Reduction) -> Reduction:
        """The reduction to what `other` leaves of this network."""
        moving = self.moving.copy()
        moving[moving] = other.moving
        units = self.units.then(other.units)
        return Reduction(other.network, moving, self.lift_point(other.values), units)

    def lift_point(self, x: FloatArray) -> FloatArray:
        """The given network's input for a reduced point, shape (d',), or (2, d') for a sum of two.

        Parameters
        ----------
        x : ndarray, shape (d',) or (2, d')

        Returns
        -------
        ndarray, shape (d,) or (2, d)
        """
        full = np.zeros((*np.shape(x)[:-1], self.values.size))
        full[..., self.moving] = x
        full.reshape(-1, self.values.size)[0] += self.values
        return full

    def reduce_point(self, x: FloatArray) -> FloatArray:
        """The reduced points, shape (..., d'), of inputs `x` of the given network (..., d)."""
        return x[..., self.moving]

    def lift_pattern(self, pattern: Pattern) -> Pattern:
        """The pattern of the given network that selects the same affine piece."""
        return self.units.lift_pattern(np.concatenate([np.zeros(0, dtype=bool), *pattern]))
