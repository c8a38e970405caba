"""The linear relaxation of a network's layers on boxes, as `relax.py` computes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.errors import Planes
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, HalfSpace, Inputs

Lines = tuple[FloatArray, FloatArray, FloatArray]
"""Slope, middle and radius."""


class Change(NamedTuple):
    """Enclosure ``rate u + tilt z + drift +- spread`` of the tangents t.

    `rate` and `tilt` are per branch, `drift` and `spread` per output; the drift contains the bias.
    """

    rate: FloatArray
    tilt: FloatArray
    drift: FloatArray
    spread: FloatArray


class Relaxed(NamedTuple):
    """The relaxation of a layer on N boxes; arrays have the shape (N, n).

    Attributes
    ----------
    low, high : ndarray
        Range of z.
    tangent, tangent_radius : ndarray
        u is in tangent +- tangent_radius.
    rate, rate_radius : ndarray
        The factor of u in each branch, for units sigma'(z), is in rate +- rate_radius.
    reach, pace : ndarray
        Bounds of the sums of the absolute values of the terms of z and of u.
    pre, pre_tangent : Affine
        z and u as functions of (x, v).
    bend : tuple of ndarray
        Lines (slope, middle, radius) around these factors, as functions of the z on which they
        depend.
    planes : Planes, optional
        Errors of products around their planes.
    value : tuple of ndarray, or None
        Lines around h, if a later layer needs them: slopes are per branch, the others per output;
        the middle contains the bias.
    change : Change, or None
        The same for t.
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
        """Return the first `count` rows, those of units, without lines of outputs."""
        some = slice(count)
        return self._some((slice(None), some), self.pre.take(some), self.pre_tangent.take(some))

    def on(self, which: IntArray) -> Relaxed:
        """Return the layer on some of the boxes, without planes and lines of outputs."""
        return self._some(which, self.pre.on(which), self.pre_tangent.on(which))

    def _some(self, where: Any, pre: Affine, pre_tangent: Affine) -> Relaxed:
        """Return a part of all arrays, with functions for it."""
        bend, middle, radius = (part[where] for part in self.bend)
        arrays = {name: getattr(self, name)[where] for name in self._fields[:8]}
        return Relaxed(**arrays, pre=pre, pre_tangent=pre_tangent, bend=(bend, middle, radius))

    @property
    def empty(self) -> BoolArray:
        """Whether the range of some z is empty on each box, shape (N,)."""
        return np.asarray((self.low > self.high).any(axis=1))


class Relaxation(NamedTuple):
    """The relaxation of all hidden layers on N boxes.

    Attributes
    ----------
    context : BoxContext
    boxes : Boxes
    directions : (ndarray, ndarray), shape (N, d) each
        Ranges of v; there may be several for one box.
    inputs : Inputs
    layers : list of Relaxed
    """

    context: BoxContext
    boxes: Boxes
    directions: tuple[FloatArray, FloatArray]
    inputs: Inputs
    layers: list[Relaxed]

    def on(self, which: IntArray) -> Relaxation:
        """Return the relaxation on some of the boxes, without planes and lines of outputs."""
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
        """Whether some unit's range is empty on each box, shape (N,)."""
        return np.asarray(np.any([layer.empty for layer in self.layers], axis=0))
