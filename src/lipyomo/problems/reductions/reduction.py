"""Reductions of networks, with maps from the reduced network back to the given one.

Reductions are composed with `Reduction.then`.  Units are numbered through all layers: N of the
given network, N' of the reduced one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Pattern
from lipyomo.networks.network import Network


@dataclass(frozen=True, eq=False)
class Counterparts:
    """The correspondence of a network's units with those of a reduced one.

    Attributes
    ----------
    layers : tuple of int
        Number of units of each hidden layer of the given network.
    outer : ndarray of int, shape (K,)
        Units of the given network that correspond to units of the reduced one, ascending.
    inner : ndarray of int, shape (K,)
        The corresponding units of the reduced one; merged units share one.
    turned : ndarray of bool, shape (K,)
        Whether a unit is on its right-hand side where its counterpart is on its left-hand side.
    sides : ndarray of bool, shape (N,)
        Whether the other units are on their right-hand side; arbitrary for units without a kink or
        without influence.
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
        """Build it for a network's units, none of them turned; `sides` are right by default."""
        layers = tuple(layer.units for layer in network.hidden)
        known = np.ones(sum(layers), dtype=bool) if sides is None else sides
        return cls(layers, outer, inner, np.zeros(outer.size, dtype=bool), known)

    @classmethod
    def same(cls, network: Network, first: int = 0) -> Counterparts:
        """Map all units of a network to those of the reduced one from number `first` on."""
        outer = np.arange(sum(layer.units for layer in network.hidden))
        return cls.of(network, outer, outer + first)

    def then(self, other: Counterparts) -> Counterparts:
        """Compose with a further reduction of the reduced network."""
        known = np.isin(self.inner, other.outer)
        place = np.searchsorted(other.outer, self.inner[known])
        turned = self.turned[known] ^ other.turned[place]
        sides = self.lift_sides(other.sides)
        return Counterparts(self.layers, self.outer[known], other.inner[place], turned, sides)

    def lift_sides(self, on: BoolArray) -> BoolArray:
        """Convert sides (..., N') of the reduced network's units to the given one's (..., N)."""
        found = np.empty((*on.shape[:-1], self.sides.size), dtype=bool)
        found[...] = self.sides
        found[..., self.outer] = on[..., self.inner] ^ self.turned
        return found

    def lift_pattern(self, on: BoolArray) -> Pattern:
        """Convert sides (N',) of the reduced network's units to the given network's pattern."""
        ends = np.cumsum(self.layers, dtype=np.int64)[:-1]
        return tuple(np.split(self.lift_sides(on), ends)) if self.layers else ()

    def lift(self, values: FloatArray) -> FloatArray:
        """Convert values (N',) of units to (N,), zero for units without counterpart."""
        found = np.zeros(self.sides.size)
        found[self.outer] = values[self.inner]
        return found


@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduced network with some of the inputs and units of a given one.

    Attributes
    ----------
    network : Network
        The reduced network, with d' inputs.
    moving : ndarray of bool, shape (d,)
        The inputs of the given network that are left.
    values : ndarray, shape (d,)
        Values of the eliminated inputs; zero for the others.
    units : Counterparts
    """

    network: Network
    moving: BoolArray
    values: FloatArray
    units: Counterparts

    @classmethod
    def to(cls, network: Network, units: Counterparts) -> Reduction:
        """Build a reduction to a network with the same inputs."""
        d = network.input_dim
        return cls(network, np.ones(d, dtype=bool), np.zeros(d), units)

    @classmethod
    def none(cls, network: Network) -> Reduction:
        """Return the trivial reduction, to the network itself."""
        return cls.to(network, Counterparts.same(network))

    def then(self, other: Reduction) -> Reduction:
        """Compose with a further reduction of the reduced network."""
        moving = self.moving.copy()
        moving[moving] = other.moving
        units = self.units.then(other.units)
        return Reduction(other.network, moving, self.lift_point(other.values), units)

    def lift_point(self, x: FloatArray) -> FloatArray:
        """Return the given network's input for a reduced point (d',), or a sum of two (2, d').

        Parameters
        ----------
        x : ndarray, shape (d',) or (2, d')

        Returns
        -------
        ndarray, shape (d,) or (2, d)
        """
        full = np.zeros((*np.shape(x)[:-1], self.values.size))
        full[..., self.moving] = x
        full[(0,) * (full.ndim - 1)] += self.values
        return full

    def reduce_point(self, x: FloatArray) -> FloatArray:
        """Return the reduced points (..., d') of inputs `x` (..., d) of the given network."""
        return x[..., self.moving]

    def lift_pattern(self, pattern: Pattern) -> Pattern:
        """Return the pattern of the given network that selects the same affine piece."""
        return self.units.lift_pattern(np.concatenate([np.zeros(0, dtype=bool), *pattern]))
