"""Tangents on boxes: their ranges, for many directions at once, and bounds of functionals of them.

A tangent ``t = s u`` with s in c +- b is ``c u`` up to ``b |u|``.  Rows of a later layer are taken
back through ``c u`` to rows on the direction v.  These are the same for all directions, which
differ only in the errors they add, and in the last product.  With u in [l, h], l <= 0 <= h, the
chords of ``b |u|`` and ``-b |u|`` are ``+-(e u + o)`` with ``e = b (h + l) / (h - l)`` and
``o = (b - e) h = -(b + e) l``.  Then t lies between ``(c - e) u - o`` and ``(c + e) u + o``, so
that a row X of t becomes ``X c + |X| e`` and adds at most ``|X| o``.

Rounding.  A row X on a layer's t becomes ``fl(fl(X c) W)``.  On tangents t' of the layer before, it
differs from the exact row by at most ``unit |X| |c| pace``, where pace >= |W| |t'| bounds the sum
of the absolute terms of u.  So ``unit |c| pace`` is added to the error of a unit once, and then all
rows are sound.  The last sum, over v, has an error of unit times the sum of its absolute terms.
Rows through chords are those of `substitute.py`; o is computed from the rounded b and e, as the
larger of its two forms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.network import Network
from lipyomo.relaxations.linear.relax import Switches
from lipyomo.search.spaces.joint.substitute import (
    Rough,
    TwoLines,
    faint,
    substituted,
    through,
    unit_of,
)


class Tangents(NamedTuple):
    """The tangents of N boxes along q directions, with their ranges; arrays (N, units, q).

    Attributes
    ----------
    weights : list of ndarray
        The weights of the hidden layers, in the type that everything is computed in.
    head : ndarray
        The weight of the outputs, float64.
    directions : ndarray, shape (q, d), or (N, q, d)
        The same for all boxes, or those of each box.
    middles, spreads : list of ndarray, shapes (N, units)
        c and b of each hidden layer; b covers the rounding of c.
    low, high : list of ndarray
        Least and largest derivatives of each hidden layer's pre-activations.
    paces : list of ndarray
        Bounds of the sums of their absolute terms; the last one is that of the outputs.
    lost : list of ndarray, shapes (N, 1, q)
        Errors of rows on these where numbers underflow.
    unit : float
        A relative error that covers all sums.
    """

    weights: list[Rough]
    head: FloatArray
    directions: Rough
    middles: list[Rough]
    spreads: list[Rough]
    low: list[Rough]
    high: list[Rough]
    paces: list[Rough]
    lost: list[Rough]
    unit: float

    @classmethod
    def of(
        cls,
        network: Network,
        switches: list[Switches],
        directions: FloatArray,
        kind: npt.DTypeLike = np.float64,
    ) -> Tangents:
        """Compute tangents from the slopes that boxes allow, and directions (q, d) or (N, q, d).

        If each box has a single direction of its own, rows are taken back through its chords, which
        gives tighter ranges.

        Parameters
        ----------
        network : Network
        switches : list of Switches
        directions : ndarray
        kind : dtype, optional
            float32 or float64.
        """
        unit = unit_of([layer.dense_weight.shape for layer in network.layers], kind)
        weights = [layer.dense_weight.astype(kind) for layer in network.hidden]
        head, own = network.head.dense_weight, directions.astype(kind)
        found = cls(weights, head, own, [], [], [], [], [], [], unit)
        alone = own.ndim == 3 and own.shape[1] == 1
        small = float(np.finfo(kind).eps)
        errors: list[Rough] = []
        low = high = found._columns
        size = np.broadcast_to(np.abs(low), (len(switches[0].left), *low.shape[1:]))
        for k, weight in enumerate(weights):
            pace = found._entered(np.abs(weight), size)
            least, most = found._through_chords() if alone else found._substituted(errors)
            least, most = least - found.lost[-1], most + found.lost[-1]
            if k:
                middle, half = weight @ (0.5 * (low + high)), np.abs(weight) @ (0.5 * (high - low))
                room = 3.0 * unit * pace + found.lost[-1]
                least = np.maximum(least, middle - half - room)
                most = np.minimum(most, middle + half + room)
                least = np.minimum(least, most)
            left, right = (slopes[:, :, None] for slopes in switches[k])
            shape = len(left), *least.shape[1:]
            found.low.append(np.broadcast_to(least, shape))
            found.high.append(np.broadcast_to(most, shape))
            steep = np.maximum(np.abs(left), np.abs(right))
            spread = 0.5 * np.abs(right - left) + 2.0 * small * (left != right) * steep
            middle, wide = 0.5 * (left + right), spread + 16.0 * small * steep
            centre, lost, aside, wide, steep = (
                array.astype(kind) for array in (middle, unit * np.abs(middle), spread, wide, steep)
            )
            found.middles.append(centre[:, :, 0])
            found.spreads.append(aside[:, :, 0])
            ends = np.abs(least), np.abs(most)
            size = np.maximum(*ends)
            errors.append(aside * (1.0 + 4.0 * small) * size + lost * pace)
            low, high = centre * least - wide * ends[0], centre * most + wide * ends[1]
            if not ((left >= 0).all() and (right >= 0).all()):
                low = np.minimum(low, centre * most - wide * ends[1])
                high = np.maximum(high, centre * least + wide * ends[0])
            size *= steep
        found._entered(np.abs(head).astype(kind), size)
        return found

    def _entered(self, heavy: Rough, size: Rough) -> Rough:
        """Compute and store the pace of the next layer, given the sizes of its inputs."""
        pace = np.asarray(heavy @ size)
        lost = faint(size, pace)
        self.paces.append(pace)
        self.lost.append(lost if not self.lost else self.lost[-1] + lost)
        return pace

    def _substituted(self, errors: list[Rough]) -> tuple[Rough, Rough]:
        """Compute ranges of the next layer's tangents by substitution."""
        layer = len(self.low)
        rows: Rough = self.weights[layer][None]
        error: Rough = np.zeros((1, 1, 1), dtype=rows.dtype)
        for j in range(layer - 1, -1, -1):
            error = error + np.abs(rows) @ errors[j]
            rows = through(rows * self.middles[j][:, None, :], self.weights[j])
        along, unit = self._columns, self.unit
        middle = rows @ along
        error = error * (1.0 + unit) + unit * (np.abs(rows) @ np.abs(along) + np.abs(middle))
        return middle - error, middle + error

    def _through_chords(self) -> tuple[Rough, Rough]:
        """Do the same where each box has one direction, with rows of both signs."""
        layer = len(self.low)
        lines = [self._chords(k, slice(None), 0) for k in range(layer)]
        above = self._above(self.weights[layer], lines, self.directions[:, 0])
        high, below = np.split(above[:, :, None], 2, axis=1)
        return -below, high

    @property
    def _columns(self) -> Rough:
        """Directions as columns, shape (1, d, q) or (N, d, q)."""
        directions = self.directions
        return np.swapaxes(directions if directions.ndim == 3 else directions[None], 1, 2)

    def along(self, box: IntArray, along: IntArray) -> Rough:
        """Return the directions (n, d) with these indices, of these boxes."""
        shared = self.directions.ndim == 2
        return self.directions[along] if shared else self.directions[box, along]

    def bounds(self, functionals: FloatArray, box: IntArray, along: IntArray) -> FloatArray:
        """Bound ``|y . J v|`` for functionals y from above, shape (n, k).

        Rows of both signs are taken back through chords.

        Parameters
        ----------
        functionals : ndarray, shape (k, m), or (n, k, m)
        box, along : ndarray of int, shape (n,)
            Indices of boxes, and of directions.
        """
        lines = [self._chords(k, box, along) for k in range(len(self.weights))]
        weight = (functionals @ self.head).astype(self.directions.dtype)
        above = self._above(weight, lines, self.along(box, along))
        pace = self.paces[-1][box, :, along].astype(np.float64)
        lost = np.matmul(np.abs(functionals), pace[:, :, None])[:, :, 0]
        found = np.maximum(*np.split(above, 2, axis=1)) + self.unit * lost
        return np.asarray(found + self.lost[-1][box, :, along], dtype=np.float64)

    def _chords(self, layer: int, box: IntArray | slice, along: IntArray | int) -> TwoLines:
        """Return the chords of a layer's units on boxes, for one direction of each."""
        centre, spread = self.middles[layer][box], self.spreads[layer][box]
        low = np.minimum(self.low[layer][box, :, along], 0.0)
        high = np.maximum(self.high[layer][box, :, along], 0.0)
        small = float(np.finfo(spread.dtype).eps)
        turn = spread * ((high + low) / np.where(high > low, high - low, 1.0))
        offset = np.maximum((spread - turn) * high, (spread + turn) * -low)
        lost = (np.abs(centre) + np.abs(turn)) * self.paces[layer][box, :, along]
        error = offset * (1.0 + 8.0 * small + self.unit) + self.unit * lost
        return TwoLines(centre, turn, None, error)

    def _above(self, weight: Rough, lines: list[TwoLines], directions: Rough) -> FloatArray:
        """Bound rows of both signs on the outputs of the last of some layers from above."""
        reach = self.unit * np.abs(directions)
        found = substituted(weight, self.weights[: len(lines)], lines, reach, directions)
        return np.where(np.isfinite(found), found + self.unit * np.abs(found), np.inf)
