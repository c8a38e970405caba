"""Pairs of units whose phases exclude each other on a whole domain.

Units of the same inputs are seldom independent: where one is on, another may have to be on, or
off.  Let f and g be linear functions that bound ``+-z_i`` and ``+-z_j`` from above on the domain
(those of dual ascent).  If a sum of them with positive weights is negative on the whole domain,
f and g are nowhere positive together, and the corresponding two phases exclude each other.

For semidefinite bounds this gives products that vanish, ``s_i s_j = 0`` or ``s_i (u_j - s_j) = 0``,
each with a multiplier.  Pairs that cannot both be off hardly ever matter and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.clock import seconds_of
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.phases import OPEN
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.dual_steps import WantedBounds
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.params import PARAMS

WEIGHTS = (0.5, 0.3, 0.7, 0.15, 0.85)
"""Weights of f that are tried; g has one minus this weight."""


@dataclass(frozen=True)
class Pairs:
    """Pairs (i, j) of units, by their numbers.

    Attributes
    ----------
    first, second : ndarray of int, shape (P,)
    exclusive : ndarray of bool, shape (P,)
        True if i and j are never both on; otherwise j is on wherever i is.
    """

    first: IntArray
    second: IntArray
    exclusive: BoolArray

    @classmethod
    def none(cls) -> Pairs:
        """No pairs."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing, np.zeros(0, dtype=bool))

    @property
    def count(self) -> int:
        """Number of pairs P."""
        return int(self.first.size)

    def __getitem__(self, pick: IntArray | BoolArray) -> Pairs:
        return Pairs(self.first[pick], self.second[pick], self.exclusive[pick])

    def within(self, units: IntArray) -> BoolArray:
        """Return which pairs have both units among `units`, shape (P,)."""
        return np.isin(self.first, units) & np.isin(self.second, units)

    def among(self, units: IntArray) -> Pairs:
        """Return the pairs within `units` (ascending), by positions in `units`."""
        if not self.count:
            return self
        few = self[self.within(units)]
        first, second = (np.searchsorted(units, part) for part in (few.first, few.second))
        return Pairs(first, second, few.exclusive)


def find_pairs(ascent: DualAscent, stack: Stack, on: BoolArray) -> Pairs:
    """Find pairs of unstable units whose phases exclude each other.

    Parameters
    ----------
    ascent : DualAscent
    stack : Stack
        One pattern with its pre-activation bounds.
    on : ndarray of bool, shape (n, N)
        Which units are on at some points; phases seen together there do not exclude each other.
    """
    units = np.flatnonzero(stack.phases[0] == OPEN)
    count = units.size
    if not count:
        return Pairs.none()
    zeros = np.zeros(2 * count, dtype=np.int64)
    rows = WantedBounds(zeros, np.tile(units, 2), np.repeat([1.0, -1.0], count))
    relaxation = ascent.relax(stack.phases, stack.lower, stack.upper, stack.low, stack.high)
    found = ascent.start(relaxation, rows)
    behind = np.flatnonzero(rows.unit >= ascent.first)  # the first layer's functions are exact
    found[behind] = ascent.ascend(relaxation, rows[behind], found[behind], PARAMS.steps)
    slopes, constants = ascent.functions(relaxation, rows, found)
    middle, radius = 0.5 * (stack.low[0] + stack.high[0]), 0.5 * (stack.high[0] - stack.low[0])
    spread, at_middle = slopes * radius, slopes @ middle + constants
    reach = np.maximum(np.abs(stack.low[0]), np.abs(stack.high[0]))
    error = gamma(4 * slopes.shape[1] + 16) * (np.abs(slopes) @ reach + np.abs(constants))
    size = np.maximum(np.abs(spread).sum(axis=1), 1e-300)
    at_middle, spread = (at_middle + error) / size, spread / size[:, None]

    i, j, hope = _hopeful(*_unseen(on[:, units]), at_middle, spread)
    likely = np.argsort(hope, kind="stable")
    likely = likely[: max(int(PARAMS.pair_work / (len(WEIGHTS) * spread.shape[1])), 1)]
    i, j = i[likely], j[likely]
    excluded = np.zeros(i.size, dtype=bool)
    for weight in WEIGHTS:
        left = np.flatnonzero(~excluded & (weight * at_middle[i] + (1 - weight) * at_middle[j] < 0))
        step = max(CACHED // (8 * spread.shape[1]), 1)
        for begin in range(0, left.size, step):
            part = left[begin : begin + step]
            a, b = i[part], j[part]
            both = np.abs(weight * spread[a] + (1.0 - weight) * spread[b]).sum(axis=1)
            top = weight * at_middle[a] + (1.0 - weight) * at_middle[b]
            slack = gamma(spread.shape[1] + 16) * (both + np.abs(top) + 1.0)
            excluded[part] = both + top + slack < 0
    i, j = i[excluded], j[excluded]
    return Pairs(units[i], units[j % count], j < count)


def seconds_for_pairs(ascent: DualAscent, units: int) -> float:
    """Estimate the time of `find_pairs` for `units` unstable units behind the first layer."""
    steps = 2.0 * units * (PARAMS.steps + 4) * ascent.work
    return seconds_of(steps + 4.0 * PARAMS.pair_work)


def _hopeful(
    i: IntArray, j: IntArray, at_middle: FloatArray, spread: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Select the pairs that may exclude each other, with lower bounds of their weighted sums.

    A sum of absolute values is at least the sum of the values with any signs; those of each of the
    two functions are used.
    """
    single = spread.astype(np.float32)
    along = np.sign(single) @ single.T
    first, second = along[i, j], along[j, i]
    hope = np.full(i.size, np.inf)
    for weight in WEIGHTS:
        rest = 1.0 - weight
        least = np.maximum(weight + rest * first, weight * second + rest)
        hope = np.minimum(hope, weight * at_middle[i] + rest * at_middle[j] + least)
    barely = 2.0 * spread.shape[1] * np.finfo(np.float32).eps  # of sums in single precision
    pick = np.flatnonzero(hope < barely)
    return i[pick], j[pick], hope[pick]


def _unseen(on: BoolArray) -> tuple[IntArray, IntArray]:
    """Return phases (i on, j) that no known point has; j < n: unit j on, else unit j - n off."""
    count = on.shape[1]
    sides = on.astype(np.float32)
    seen = np.hstack([sides.T @ sides, sides.T @ (1.0 - sides)]) > 0
    seen[:, :count] |= np.tri(count, dtype=bool)
    seen[np.arange(count), count + np.arange(count)] = True
    i, j = np.nonzero(~seen)
    return i, j


def pair_matrices(
    pairs: Pairs, multipliers: FloatArray, units: int
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the terms of pairs, ``+ pi s_i (s_j - u_j)`` and ``+ pi s_i s_j``, as matrices.

    Parameters
    ----------
    pairs : Pairs
        By the positions of their units.
    multipliers : ndarray, shape (P,)
        The multipliers pi.
    units : int
        F.

    Returns
    -------
    implied, exclusive : sparse array, shape (F, F)
        The sums are ``s^T implied (s - u)`` and ``s^T exclusive s``, the latter matrix symmetric.
    """
    shape, i, j = (units, units), pairs.first, pairs.second
    on, off = np.flatnonzero(~pairs.exclusive), np.flatnonzero(pairs.exclusive)
    implied = sp.csr_array((multipliers[on], (i[on], j[on])), shape=shape)
    exclusive = sp.csr_array((0.5 * multipliers[off], (i[off], j[off])), shape=shape)
    return implied, sp.csr_array(exclusive + exclusive.T)
