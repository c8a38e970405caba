"""Cells of piecewise-linear networks, bounded in batches and bisected if too much is open.

A box whose units are all stable has a single Jacobian, so it is exact.  With few unstable units,
the norms of all their patterns bound it from above.  A pattern counts from below once a point
inside the box is known at which every unstable unit's pre-activation is proved nonzero, and not at
all once it is proved empty.  Boxes with more unstable units are bisected.  What is left after that
(kinks that meet in one point, or touch a face) is left to branch and bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np

from lipyomo.analyses.maps.cells import halved_cells
from lipyomo.analyses.maps.ends import LEVELS, Ends, Narrowing, Slices
from lipyomo.analyses.maps.inside import inside
from lipyomo.analyses.maps.pieces import INPUTS, Excess, PatternNorms, Pieces, with_sides
from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.exact import affine_value
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear.layers import PhaseBatch, Stack
from lipyomo.relaxations.linear.preactivation import propagate

SAMPLES = 4
"""Points of a box at which the network is evaluated: lower ends against time."""

TESTS = 64
"""Most patterns of a box that are tested for an interior; with more, the box is bisected."""


class CellParts(NamedTuple):
    """Boxes, each of which is a part of a cell.

    Attributes
    ----------
    low, high : ndarray, shape (P, d)
    cell : ndarray of int, shape (P,)
    bounds : ndarray, shape (P,)
        Upper bounds of the norm on the boxes.
    phases : ndarray of int8, shape (P, N)
        Known phases of units on the boxes.
    """

    low: FloatArray
    high: FloatArray
    cell: IntArray
    bounds: FloatArray
    phases: PhaseBatch

    def take(self, which: IntArray | BoolArray | slice) -> CellParts:
        """Select some of the boxes."""
        ends = self.low[which], self.high[which]
        return CellParts(*ends, self.cell[which], self.bounds[which], self.phases[which])

    @property
    def too_thin(self) -> BoolArray:
        """Which boxes have no float64 number between their faces, shape (P,)."""
        axis, number = (self.high - self.low).argmax(axis=1), np.arange(len(self.cell))
        low, high = self.low[number, axis], self.high[number, axis]
        middle = low + 0.5 * (high - low)
        return np.asarray((middle <= low) | (middle >= high))

    def halves(self) -> CellParts:
        """Bisect each box along its longest edge."""
        rest = (np.concatenate([part, part]) for part in self[2:])
        return CellParts(*halved_cells(self.low, self.high), *rest)


class PatternCells:
    """Bounds the constants of cells of a piecewise-linear network.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs, over a box that contains all cells.
    gap : float
    effort : int
        Most boxes for a cell.
    """

    def __init__(self, problem: LipschitzProblem, gap: float, effort: int) -> None:
        self._norms, self._gap, self._effort = PatternNorms(problem), gap, effort

    @property
    def able(self) -> bool:
        """Whether cells with the problem's norms can be bounded together."""
        return self._norms.able(INPUTS)

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self._norms)

    def bounded(self, low: FloatArray, high: FloatArray, clock: Clock) -> Ends:
        """Bound the cells ``low <= x <= high``, both (n, d), by bisection as far as it pays.

        Cells that are not reached in time have infinite upper ends.

        Rounding: bounds are norms plus their error bounds, for phases that hold on the whole box.
        """
        cells = Narrowing(low, high, self._gap)
        narrow(cells, self._pieces, (low, high), clock, self._effort)
        return cells.ends


def narrow(
    cells: Narrowing,
    pieces: Pieces,
    ends: tuple[FloatArray, FloatArray],
    clock: Clock,
    effort: int,
    learn: Callable[[Pieces], Pieces] = lambda pieces: pieces,
) -> None:
    """Bound cells and bisect them until they are closed, or until bisection no longer pays.

    Boxes that are not reached in time keep their bounds; those of whole cells are infinite.

    Parameters
    ----------
    cells : Narrowing
    pieces : Pieces
    ends : (ndarray, ndarray)
        Lower and upper ends of the cells, both of shape (n, d).
    clock : Clock
    effort : int
        Most boxes for a cell.
    learn : callable, optional
        Updates the pieces after each level of bisection.
    """
    (low, high), slices = ends, Slices(pieces.together, clock)
    phases = with_faces(pieces, np.repeat(pieces.open[None], len(low), axis=0), low, high)
    parts = CellParts(low, high, np.arange(len(low)), np.full(len(low), np.inf), phases)
    for level in count():
        kept = []
        cells.spend(parts.cell)
        for part in slices.of(len(parts.cell)):
            some = parts.take(part)
            if clock.expired:
                cells.close(some.cell, some.bounds)
                continue
            kept.append(_examined(pieces, cells, some))
        if not kept:
            break
        pieces, left = learn(pieces), _joined(kept)
        left = _still(cells, left)
        deep = (cells.spent[left.cell] >= effort) | left.too_thin
        deep |= level == LEVELS or low.shape[1] > INPUTS
        cells.close(left.cell[deep], left.bounds[deep])
        if deep.all():
            break
        parts = left.take(~deep).halves()


def bound_entries(
    excess: Excess,
    low: FloatArray,
    high: FloatArray,
    clock: Clock,
    sample: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    effort: int,
) -> tuple[float, int]:
    """Bound the excess of all entries over the cells ``low <= x <= high``, both (n, d).

    Parameters
    ----------
    excess : Excess
    low, high : ndarray, shape (n, d)
        Cells that cover the domain.
    clock : Clock
    sample : callable
        Called with points (n, d) that may attain more; returns attained values and tolerances.
    effort : int
        Most boxes for a cell.

    Returns
    -------
    above : float
        No entry exceeds its final attained value by more than this many tolerances.
    boxes : int
        Number of boxes that were bounded.
    """
    cells = Narrowing(low, high, 0.0, excess.enough)

    def learn(now: Pieces) -> Pieces:
        points = cells.found()
        if not len(points):
            return now
        attained, tolerance = sample(points)
        return Pieces(replace(excess, attained=attained, tolerance=tolerance))

    narrow(cells, Pieces(excess), (low, high), clock, effort, learn)
    return float(cells.ends.upper.max()), int(cells.spent.sum())


def divided(low: FloatArray, high: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Divide a box with ends (d,) into at least `count` boxes; return their ends (n, d)."""
    none = np.zeros((1, 0), dtype=np.int8)
    parts = CellParts(low[None], high[None], np.zeros(1, dtype=np.intp), np.zeros(1), none)
    while len(parts.cell) < count and not parts.too_thin.any():
        parts = parts.halves()
    return parts.low, parts.high


def _still(cells: Narrowing, parts: CellParts) -> CellParts:
    """Close the parts with bounds at or below the cutoff; return the others."""
    done = parts.bounds <= cells.cutoff(parts.cell)
    cells.close(parts.cell[done], parts.bounds[done])
    return parts.take(~done)


def _examined(pieces: Pieces, cells: Narrowing, parts: CellParts) -> CellParts:
    """Bound parts and close those that are done; return those to be bisected, with new bounds."""
    stack = Stack.unknown(parts.phases, parts.low, parts.high)
    propagate(pieces.network.hidden, None, stack)
    open_ = stack.phases == OPEN
    counts = open_.sum(axis=1)
    parts = parts._replace(phases=stack.phases)
    most = pieces.most_open
    left = []
    many = counts > most
    if many.any():
        left.append(_sampled(pieces, cells, parts.take(many)))
    for k in range(min(int(counts.max(initial=0)), most) + 1):
        which = np.flatnonzero(counts == k)
        if which.size:
            units = np.nonzero(open_[which])[1].reshape(which.size, k)
            left.append(_enumerated(pieces, cells, parts.take(which), units))
    return _joined(left)


def _joined(parts: Sequence[CellParts]) -> CellParts:
    low, high, cell, bounds, phases = map(np.concatenate, zip(*parts, strict=True))
    return CellParts(low, high, cell, bounds, phases)


def _sampled(pieces: Pieces, cells: Narrowing, parts: CellParts) -> CellParts:
    """Bound boxes with many unstable units by relaxation, and from below at some points."""
    bounds = np.minimum(parts.bounds, pieces.measure.relaxed(parts.phases, pieces.terms))
    parts = _still(cells, parts._replace(bounds=bounds))
    points, z, strict = _points(pieces, parts)
    on = np.where((parts.phases == OPEN)[:, None], z > 0, (parts.phases == RIGHT)[:, None])
    owner, place = np.nonzero(strict)
    values, errors = pieces.norms(on[owner, place])
    cells.attain(parts.cell[owner], values - errors, points[owner, place])
    return _still(cells, parts)


def _points(pieces: Pieces, parts: CellParts) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return points (P, S, d) of the boxes, pre-activations (P, S, N), and which points count.

    A point counts if it is interior, and no unstable unit can be at its kink there.
    """
    shares = _shares(SAMPLES, parts.low.shape[1])
    points = parts.low[:, None] + shares * (parts.high - parts.low)[:, None]
    z = pieces.preactivations(points)
    return points, z, _counts(pieces, parts, points, z)


def _counts(pieces: Pieces, parts: CellParts, points: FloatArray, z: FloatArray) -> BoolArray:
    inside_ = ((points > parts.low[:, None]) & (points < parts.high[:, None])).all(axis=2)
    near = (np.abs(z) <= pieces.errors) & (parts.phases == OPEN)[:, None]
    return np.asarray(inside_ & ~near.any(axis=2))


def _shares(count: int, d: int) -> FloatArray:
    """Return points (S, d) of the unit box: the midpoint, and others that are spread evenly."""
    root = 2.0 ** (1.0 / (d + 1))  # for an additive recurrence with irrational steps
    steps = np.array([(1.0 / root ** (j + 1)) % 1.0 for j in range(d)])
    return np.asarray((0.5 + np.arange(count)[:, None] * steps) % 1.0)


def _enumerated(pieces: Pieces, cells: Narrowing, parts: CellParts, units: IntArray) -> CellParts:
    """Bound boxes with k unstable units (P, k) by enumerating all their patterns."""
    k, on = units.shape[1], parts.phases == RIGHT
    values, errors = pieces.all_norms(on, units)
    above, below = values + errors, values - errors
    parts = parts._replace(bounds=np.minimum(parts.bounds, above.max(axis=1)))
    if k == 0:
        middle = np.clip(0.5 * (parts.low + parts.high), parts.low, parts.high)
        cells.attain(parts.cell, below[:, 0], middle)
        return parts.take(cells.leave(parts.cell, parts.bounds))
    points, z, strict = _points(pieces, parts)
    code = (np.take_along_axis(z, units[:, None], axis=2) > 0) @ (1 << np.arange(k))
    reached = np.where(strict, np.take_along_axis(below, code, axis=1), -1.0)
    best = reached.argmax(axis=1)[:, None]
    cells.attain(
        parts.cell,
        np.take_along_axis(reached, best, axis=1)[:, 0],
        np.take_along_axis(points, best[:, :, None], axis=1)[:, 0],
    )
    matters = above > cells.cutoff(parts.cell)[:, None]
    left = matters.sum(axis=1)
    test = (left > 0) & (left <= TESTS) & (points.shape[2] <= INPUTS)
    if test.any():
        owner, place = np.nonzero(matters & test[:, None])
        for part in pieces.chunks(owner.size, 1 + points.shape[2]):
            own, number = owner[part], place[part]
            sides = with_sides(on[own], units[own], number)
            some = parts.take(own)
            empty = _tested(pieces, cells, some, units[own], sides, below[own, number])
            above[own[empty], number[empty]] = 0.0
        bounds = np.minimum(parts.bounds, above.max(axis=1))
        parts = parts._replace(bounds=bounds)
    return _still(cells, parts)


def _tested(
    pieces: Pieces,
    cells: Narrowing,
    parts: CellParts,
    units: IntArray,
    on: BoolArray,
    values: FloatArray,
) -> BoolArray:
    """Return which patterns `on` (n, N) are empty in boxes; enter values of those with a point."""
    A, b = pieces.forms(on, units)
    sign = np.where(np.take_along_axis(on, units, axis=1), 1.0, -1.0)
    middle, radius = 0.5 * (parts.low + parts.high), 0.5 * (parts.high - parts.low)
    rows = sign[:, :, None] * A * radius[:, None]
    right = sign * (np.matmul(A, middle[:, :, None])[:, :, 0] + b)
    answer = inside(rows, right, pieces.errors[units])
    which = np.flatnonzero(answer.found)
    if which.size:
        points = middle[which] + radius[which] * answer.points[which]
        some = parts.take(which)
        z = pieces.preactivations(points)
        same = (np.take_along_axis(z > 0, units[which], 1) == (sign[which] > 0)).all(axis=1)
        good = same & _counts(pieces, some, points[:, None], z[:, None])[:, 0]
        cells.attain(some.cell[good], values[which[good]], points[good])
    return answer.empty


def with_faces(pieces: Pieces, phases: PhaseBatch, low: FloatArray, high: FloatArray) -> PhaseBatch:
    """Decide units of the first layer whose kinks only touch cells (n, d), in exact arithmetic.

    A unit with pre-activations at or above zero on the whole cell is on its right side, one with
    pre-activations at or below zero on its left.  Ranges widened by rounding would leave such a
    unit open after any number of bisections.  Deciding it is sound, since the linear pieces at a
    kink on a face belong to the cells in which they have an interior.
    """
    if not pieces.network.hidden:
        return phases
    found, layer = phases.copy(), pieces.network.hidden[0]
    weight, bias = layer.dense_weight, layer.bias
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    values, reach = middle @ weight.T + bias, radius @ np.abs(weight).T
    room = pieces.errors[: layer.units]
    open_ = phases[:, : layer.units] == OPEN
    for side, gap in ((RIGHT, values - reach), (LEFT, -values - reach)):
        sign = 1.0 if side == RIGHT else -1.0
        for cell, unit in zip(*np.nonzero(open_ & (np.abs(gap) <= room)), strict=True):
            row = sign * weight[unit]
            corner = np.where(row > 0, low[cell], high[cell])  # where the row is least
            if affine_value(row, corner, sign * float(bias[unit])) >= 0:
                found[cell, unit] = side
    return found
