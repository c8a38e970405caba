"""Tangents on boxes: their ranges, for many directions at once, and bounds of functionals of them.

A tangent ``t = s u`` with s in c +- b is ``c u`` up to ``b |u|``.  Rows of a later layer are taken
back through ``c u`` to rows in the direction v, which are the same for all directions: these only
differ in what they add to the errors, and in the end.  With u in [l, h], l <= 0 <= h, the chords of
``b |u|`` and ``-b |u|`` are ``+-(e u + o)`` with ``e = b (h + l) / (h - l)`` and
``o = (b - e) h = -(b + e) l``: above and below t are ``(c +- e) u +- o``, so that a row X of t
becomes ``X c + |X| e`` and adds at most ``|X| o``.

Rounding.  A row X of a layer's t becomes ``fl(fl(X c) W)``.  On tangents t' of the layer before,
that differs from what it stands for by at most ``unit |X| |c| pace``, where pace >= |W| |t'| is the
size of all that u is made of, and unit pays for the lengths of all sums on the way.  So
``unit |c| pace`` is added to what a unit is off by, once, and all rows are sound.  The last sum,
over v, is off by unit times the sum of its absolute terms.  Rows through chords are alike, with
``|c| + b`` in the place of ``|c|``; o is what float64 numbers b and e make it, as the larger one of
its two forms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.networks.network import Network
from lipyomo.relaxations.linear.interval import Switches


@dataclass(frozen=True, eq=False)
class Tangents:
    """What is known of the tangents of N boxes along q directions; arrays (N, units, q).

    Attributes
    ----------
    network : Network
    directions : ndarray, shape (q, d), or (N, q, d)
        The same for all boxes, or of each.
    middles, spreads : list of ndarray, shapes (N, units)
        c and b of each hidden layer, b with room for the rounding of c.
    low, high : list of ndarray
        Least and largest derivatives of each hidden layer's pre-activations.
    paces : list of ndarray
        Sizes of all that these are made of; the last one is that of the outputs.
    unit : float
        Relative error that pays for all sums.
    """

    network: Network
    directions: FloatArray
    middles: list[FloatArray]
    spreads: list[FloatArray]
    low: list[FloatArray]
    high: list[FloatArray]
    paces: list[FloatArray]
    unit: float

    @classmethod
    def of(cls, network: Network, switches: list[Switches], directions: FloatArray) -> Tangents:
        """From the slopes that boxes leave, and directions (q, d) or (N, q, d)."""
        unit = gamma(sum(network.sizes) + 8 * len(network.layers))
        found = cls(network, directions, [], [], [], [], [], unit)
        errors: list[FloatArray] = []
        low = high = found._columns
        size = np.abs(low)
        for k, layer in enumerate(network.hidden):
            weight, (left, right) = layer.dense_weight, switches[k]
            heavy = np.abs(weight)
            pace = heavy @ size  # of what enters the layer
            least, most = found._substituted(k, errors)
            if k:
                middle, radius = weight @ (0.5 * (low + high)), heavy @ (0.5 * (high - low))
                room = 3.0 * unit * pace
                least = np.maximum(least, middle - radius - room)
                most = np.minimum(most, middle + radius + room)
                least = np.minimum(least, most)
            shape = len(left), *least.shape[1:]
            found.low.append(np.broadcast_to(least, shape))
            found.high.append(np.broadcast_to(most, shape))
            found.paces.append(np.broadcast_to(pace, shape))
            half, steep = 0.5 * np.abs(right - left), np.maximum(np.abs(left), np.abs(right))
            found.middles.append(0.5 * (left + right))
            found.spreads.append(half + 2.0 * UNIT * (left != right) * steep)
            centre, spread = found.middles[-1][:, :, None], found.spreads[-1][:, :, None]
            largest = np.maximum(np.abs(least), np.abs(most))
            errors.append(spread * largest * (1.0 + 4.0 * UNIT) + unit * np.abs(centre) * pace)
            size = steep[:, :, None] * largest
            if (left >= 0).all() and (right >= 0).all():  # least and most are where the ends are
                room = 16.0 * UNIT * size
                low = centre * least - half[:, :, None] * np.abs(least) - room
                high = centre * most + half[:, :, None] * np.abs(most) + room
            else:
                low, high = Switches(left[:, :, None], right[:, :, None]).range(least, most)
        found.paces.append(np.abs(network.head.dense_weight) @ size)
        return found

    def _substituted(self, layer: int, errors: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Ranges of a layer's tangents, whose rows are taken back through those before it."""
        weights, unit = [one.dense_weight for one in self.network.hidden], self.unit
        rows: FloatArray = weights[layer][None]
        error: FloatArray = np.zeros((1, 1, 1))
        for j in range(layer - 1, -1, -1):
            error = error + np.abs(rows) @ errors[j]
            rows = _product(rows * self.middles[j][:, None, :], weights[j])
        along = self._columns
        middle = rows @ along
        error = error * (1.0 + unit) + unit * (np.abs(rows) @ np.abs(along) + np.abs(middle))
        return middle - error, middle + error

    @property
    def _columns(self) -> FloatArray:
        """Directions as columns, shape (1, d, q) or (N, d, q)."""
        directions = self.directions
        return np.swapaxes(directions if directions.ndim == 3 else directions[None], 1, 2)

    def along(self, box: IntArray, along: IntArray) -> FloatArray:
        """The directions (n, d) with such numbers, of such boxes."""
        shared = self.directions.ndim == 2
        return self.directions[along] if shared else self.directions[box, along]

    def bounds(self, functionals: FloatArray, box: IntArray, along: IntArray) -> FloatArray:
        """Upper bounds of ``|y . J v|`` for functionals y, shape (n, k).

        Rows of both signs are taken back through chords.

        Parameters
        ----------
        functionals : ndarray, shape (k, m), or (n, k, m)
        box, along : ndarray of int, shape (n,)
            Numbers of boxes, and of directions.
        """
        unit, hidden = self.unit, self.network.hidden
        every = functionals if functionals.ndim == 3 else functionals[None]
        start = np.concatenate([every, -every], axis=1)
        pace = self.paces[-1][box, :, along]
        constant = unit * np.matmul(np.abs(start), pace[:, :, None])[:, :, 0]
        rows = start @ self.network.head.dense_weight
        for k in range(len(hidden) - 1, -1, -1):
            centre, spread = self.middles[k][box], self.spreads[k][box]
            low = np.minimum(self.low[k][box, :, along], 0.0)
            high = np.maximum(self.high[k][box, :, along], 0.0)
            turn = spread * ((high + low) / np.where(high > low, high - low, 1.0))
            offset = np.maximum((spread - turn) * high, (spread + turn) * -low)
            lost = unit * (np.abs(centre) + spread) * self.paces[k][box, :, along]
            sizes = np.abs(rows)
            each = offset * (1.0 + 8.0 * UNIT) + lost
            constant = constant + np.matmul(sizes, each[:, :, None])[:, :, 0]
            rows = rows * centre[:, None] + sizes * turn[:, None]
            rows = _product(rows, hidden[k].dense_weight)
        chosen = self.along(box, along)[:, :, None]
        ends = np.matmul(rows, chosen)[:, :, 0]
        sizes = np.matmul(np.abs(rows), np.abs(chosen))[:, :, 0]
        found = ends + constant * (1.0 + unit) + unit * (sizes + np.abs(ends))
        return np.asarray(np.maximum(*np.split(found, 2, axis=1)))


def _product(rows: FloatArray, weight: FloatArray) -> FloatArray:
    """Rows (N, r, n) times a matrix, as one product."""
    flat = rows.reshape(-1, rows.shape[2]) @ weight
    return np.asarray(flat.reshape(*rows.shape[:2], weight.shape[1]))
