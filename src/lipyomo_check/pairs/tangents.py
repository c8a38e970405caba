"""Bounds of ``y . J(x) v`` on boxes for pairs of a functional y and a direction v.

The tangents ``u_1 = W_1 v`` and ``u_(i+1) = W_(i+1) t_i`` of pre-activations pass the units as
``t = s u``, the slopes s being any in ``c +- b``; so t is ``c u`` up to ``b |u|``.  Ranges of
tangents go backwards through ``c u``, by rows that all directions of a box share.

The functional of a pair goes backwards through chords of its own: over [l, h], ``l <= 0 <= h``, is

    b |u| <= e u + o,   e = b (h + l) / (h - l),   o = max((b - e) h, -(b + e) l),

so a row X of t is at most ``X c + |X| e`` of u, and ``|X| o``.

Rounding is that of `lipyomo_check.smooth.bound`: a row X that goes through c errs by at most gamma
times ``|X| |c| pace``, where the pace is the size of all that u is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo_check.pairs.ranges import OPEN, Kinks, Units
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import UNDERFLOW
from lipyomo_check.smooth.levels import Indices


@dataclass(frozen=True, eq=False)
class Tangents:
    """Ranges of the tangents of N boxes along c directions each: for each layer (N, n, c).

    Attributes
    ----------
    along : ndarray, shape (N, D, c)
        The directions, as columns.
    units : list of Units
    low, high : list of ndarray
    paces : list of ndarray
        Sizes of all that tangents are made of; the last ones are those of what leaves the units of
        the last layer.
    """

    along: Array
    units: list[Units]
    low: list[Array]
    high: list[Array]
    paces: list[Array]

    @classmethod
    def of(
        cls, hidden: list[Kinks], units: list[Units], along: Array, gamma: float, single: bool
    ) -> Tangents:
        """Select those along some directions; with `single`, each box has its own direction."""
        found = cls(along, units, [], [], [])
        low = high = along
        size = np.abs(along)
        errors: list[Array] = []
        for i, (kinks, own) in enumerate(zip(hidden, units, strict=True)):
            weight, sizes = kinks.level.tangents, kinks.level.tangent_sizes
            pace = sizes @ size
            middle, radius = weight @ (0.5 * (low + high)), sizes @ (0.5 * (high - low))
            radius = radius + (3.0 * gamma * pace + UNDERFLOW)
            least, most = middle - radius, middle + radius
            open_ = own.sides == OPEN
            if i and open_.any():
                pick = np.flatnonzero(open_.any(axis=0))
                if single:
                    rows = np.concatenate([-weight[pick], weight[pick]])[None]
                    upper = found.above(hidden[:i], rows, gamma)
                    down, up = -upper[:, : pick.size, None], upper[:, pick.size :, None]
                else:
                    down, up = found._shared(hidden[:i], errors, weight[pick], gamma)
                which = open_[:, pick, None]
                least[:, pick] = np.maximum(least[:, pick], np.where(which, down, -np.inf))
                most[:, pick] = np.minimum(most[:, pick], np.where(which, up, np.inf))
            found.low.append(least)
            found.high.append(most)
            found.paces.append(pace)
            c, b = own.middle[:, :, None], own.reach[:, :, None]
            largest = np.maximum(np.abs(least), np.abs(most))
            errors.append(b * largest * (1.0 + 4.0 * ULP) + gamma * np.abs(c) * pace)
            size = (np.abs(c) + b) * largest
            ends = [(c + sign * b) * end for sign in (-1.0, 1.0) for end in (least, most)]
            room = 8.0 * ULP * size
            corners = np.stack(ends)
            low, high = corners.min(axis=0) - room, corners.max(axis=0) + room
        found.paces.append(size)
        return found

    def _shared(
        self, hidden: list[Kinks], errors: list[Array], rows: Array, gamma: float
    ) -> tuple[Array, Array]:
        """Return ranges of rows of some layers' outputs, the same for all directions."""
        error = np.zeros((1, 1, 1))
        for i in range(len(hidden) - 1, -1, -1):
            error = error + np.abs(rows) @ errors[i]
            rows = (rows * self.units[i].middle[:, None, :]) @ hidden[i].level.tangents
        middle = rows @ self.along
        mass = np.abs(rows) @ np.abs(self.along) + np.abs(middle)
        radius = error * (1.0 + gamma) + (gamma * mass + UNDERFLOW)
        return middle - radius, middle + radius

    def take(self, box: Indices, column: Indices) -> Tangents:
        """Return single directions of some boxes."""
        along, *rest = (
            [part[box, :, column][:, :, None] for part in parts]
            for parts in ([self.along], self.low, self.high, self.paces)
        )
        return Tangents(along[0], [own.take(box) for own in self.units], *rest)

    def above(self, hidden: list[Kinks], rows: Array, gamma: float) -> Array:
        """Bound rows (N, r, n) of some layers' outputs along one direction from above, (N, r)."""
        constant: Array = np.zeros((1, 1))
        for i in range(len(hidden) - 1, -1, -1):
            c, b = self.units[i].middle, self.units[i].reach
            low = np.minimum(self.low[i][:, :, 0], 0.0)
            high = np.maximum(self.high[i][:, :, 0], 0.0)
            turn = b * ((high + low) / np.where(high > low, high - low, 1.0))
            over = np.maximum((b - turn) * high, (b + turn) * -low) * (1.0 + 8.0 * ULP)
            lost = gamma * (np.abs(c) + b) * self.paces[i][:, :, 0]
            sizes = np.abs(rows)
            constant = constant + np.matmul(sizes, (over + lost)[:, :, None])[:, :, 0]
            rows = _product(rows * c[:, None] + sizes * turn[:, None], hidden[i].level.tangents)
        ends = np.matmul(rows, self.along)[:, :, 0]
        mass = np.matmul(np.abs(rows), np.abs(self.along))[:, :, 0] + np.abs(ends)
        found: Array = ends + constant * (1.0 + gamma) + (gamma * mass + UNDERFLOW)
        return found


def _product(rows: Array, weight: Array) -> Array:
    """Return rows (N, r, n) times a matrix, as one product."""
    flat = rows.reshape(-1, rows.shape[2]) @ weight
    found: Array = flat.reshape(*rows.shape[:2], weight.shape[1])
    return found
