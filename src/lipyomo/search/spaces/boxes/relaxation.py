"""What is known of the layers of a network on boxes (`relax.py` finds it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.boxes.errors import Planes
from lipyomo.search.spaces.boxes.inputs import Affine, HalfSpace, Inputs

Lines = tuple[FloatArray, FloatArray, FloatArray]
"""Slope, middle and radius."""


class Change(NamedTuple):
    """Tangents t within ``rate u + tilt z + drift +- spread``.

    Slopes of branches, and numbers of outputs; the bias's part is in the drift.
    """

    rate: FloatArray
    tilt: FloatArray
    drift: FloatArray
    spread: FloatArray


@dataclass(frozen=True, eq=False)
class Relaxed:
    """What is known of a layer's units on N boxes; arrays have the shape (N, n).

    Attributes
    ----------
    low, high : ndarray
        Ends of z.
    tangent, tangent_radius : ndarray
        u is in one +- the other.
    rate, rate_radius : ndarray
        What each branch multiplies u by is in one +- the other: sigma'(z) of units.
    reach, pace : ndarray
        Sizes of all that z and u are made of.
    pre, pre_tangent : Affine
        z and u as functions of (x, v).
    bend : tuple of ndarray
        (slope, middle, radius) of these in the z of the rows that they depend on.
    planes : Planes, optional
        What is left of products beside their planes.
    value : tuple of ndarray, or None
        The same of h, where a later layer needs it: slopes of branches, and numbers of outputs;
        the bias's part is in the middle.
    change : Change, or None
        The same of t.
    """

    low: FloatArray
    high: FloatArray
    tangent: FloatArray
    tangent_radius: FloatArray
    rate: FloatArray
    rate_radius: FloatArray
    reach: FloatArray
    pace: FloatArray
    pre: Affine
    pre_tangent: Affine
    bend: Lines
    planes: Planes | None = None
    value: Lines | None = None
    change: Change | None = None

    def units(self, count: int) -> Relaxed:
        """The first rows, which are units, of a layer without lines."""
        some, (bend, middle, radius) = slice(count), self.bend
        return Relaxed(
            self.low[:, some],
            self.high[:, some],
            self.tangent[:, some],
            self.tangent_radius[:, some],
            self.rate[:, some],
            self.rate_radius[:, some],
            self.reach[:, some],
            self.pace[:, some],
            self.pre.take(some),
            self.pre_tangent.take(some),
            (bend[:, some], middle[:, some], radius[:, some]),
        )

    def on(self, which: IntArray) -> Relaxed:
        """The layer on some of the boxes, without what follows from its lines."""
        return Relaxed(
            self.low[which],
            self.high[which],
            self.tangent[which],
            self.tangent_radius[which],
            self.rate[which],
            self.rate_radius[which],
            self.reach[which],
            self.pace[which],
            self.pre.on(which),
            self.pre_tangent.on(which),
            (self.bend[0][which], self.bend[1][which], self.bend[2][which]),
        )

    @property
    def empty(self) -> BoolArray:
        """Boxes on which z has no room, shape (N,)."""
        return np.asarray((self.low > self.high).any(axis=1))


@dataclass(frozen=True, eq=False)
class Relaxation:
    """What is known of all hidden layers on N boxes.

    Attributes
    ----------
    context : Context
    boxes : Boxes
    directions : (ndarray, ndarray), shape (N, d) each
        Ends of v.  There may be several for one box.
    inputs : Inputs
    layers : list of Relaxed
    """

    context: Context
    boxes: Boxes
    directions: tuple[FloatArray, FloatArray]
    inputs: Inputs
    layers: list[Relaxed]

    def on(self, which: IntArray) -> Relaxation:
        """What is known of some of the boxes, of layers without what follows from their lines."""
        x, v, row = self.inputs
        some = None if row is None else HalfSpace(row.g[which], row.h[which])
        low, high = self.directions
        return Relaxation(
            self.context,
            self.boxes.take(which),
            (low[which], high[which]),
            Inputs(x.take(which), v.take(which), some),
            [layer.on(which) for layer in self.layers],
        )

    @property
    def empty(self) -> BoolArray:
        """Boxes on which a unit has no room, shape (N,)."""
        return np.asarray(np.any([layer.empty for layer in self.layers], axis=0))
