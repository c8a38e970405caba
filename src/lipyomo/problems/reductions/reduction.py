"""A reduction: a network that stands for a given one, and the way back.

Reductions of reductions are composed with `Reduction.then`; several of one network are a tree.
Units are numbered through all layers: N of the given network, N' of the reduced one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Pattern
from lipyomo.networks.network import Network


@dataclass(frozen=True, eq=False)
class Counterparts:
    """What is known of a network's units from those of a reduced one.

    Attributes
    ----------
    layers : tuple of int
        Units of each hidden layer of the given network.
    outer : ndarray of int, shape (K,)
        Units of the given network that are units of the reduced one, rising.
    inner : ndarray of int, shape (K,)
        Those of the reduced one; merged units share one.
    turned : ndarray of bool, shape (K,)
        Whether the one is on its right where the other is on its left.
    sides : ndarray of bool, shape (N,)
        Whether the others are on their right.  Either side does for units without a kink, and for
        those that nothing depends on.
    """

    layers: tuple[int, ...]
    outer: IntArray
    inner: IntArray
    turned: BoolArray
    sides: BoolArray

    @classmethod
    def of(
        cls, network: Network, outer: IntArray, inner: IntArray, sides: BoolArray | None = None
    ) -> Counterparts:
        """Of a network's units, none of them turned; `sides` are right by default."""
        layers = tuple(layer.units for layer in network.hidden)
        known = np.ones(sum(layers), dtype=bool) if sides is None else sides
        return cls(layers, outer, inner, np.zeros(outer.size, dtype=bool), known)

    @classmethod
    def same(cls, network: Network, first: int = 0) -> Counterparts:
        """All units of a network, which are those of the reduced one from number `first` on."""
        outer = np.arange(sum(layer.units for layer in network.hidden))
        return cls.of(network, outer, outer + first)

    def then(self, other: Counterparts) -> Counterparts:
        """The map to a network to which the reduced one has been reduced by `other`."""
        known = np.isin(self.inner, other.outer)
        place = np.searchsorted(other.outer, self.inner[known])
        turned = self.turned[known] ^ other.turned[place]
        sides = self.lift_sides(other.sides)
        return Counterparts(self.layers, self.outer[known], other.inner[place], turned, sides)

    def lift_sides(self, on: BoolArray) -> BoolArray:
        """Sides (..., N) of the given network's units from those (..., N') of the reduced one's."""
        found = np.empty((*on.shape[:-1], self.sides.size), dtype=bool)
        found[...] = self.sides
        found[..., self.outer] = on[..., self.inner] ^ self.turned
        return found

    def lift_pattern(self, on: BoolArray) -> Pattern:
        """The pattern of the given network, from the sides (N',) of the reduced one's units."""
        ends = np.cumsum(self.layers, dtype=np.int64)[:-1]
        return tuple(np.split(self.lift_sides(on), ends)) if self.layers else ()

    def lift(self, values: FloatArray) -> FloatArray:
        """Values (N,) of units, which are zero where the reduced network has none."""
        found = np.zeros(self.sides.size)
        found[self.outer] = values[self.inner]
        return found


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
