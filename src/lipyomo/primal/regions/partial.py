"""Whether the region of a node has interior: one small linear program finds a point.

In the variables x (inputs), y (unstable units that later units need) and a margin t,

    maximise t - 10 e
    sigma_k (G_k x + S_k y + g_k) / n_k >= t          for stable units k, sigma_k = +-1
    y_j >= z_j,  0 <= y_j <= u_j,  y_j <= u_j (z_j - l_j) / (u_j - l_j) + e    for unstable units j
    low + t r <= x <= high - t r,   A x + t |A| <= b

with n_k the size of the row, e in units of the range of y_j, and all variables in shares of their
ranges, so that scaling inputs does not change the program.  The elastic variable e >= 0 keeps the
program feasible.  If its optimum is not positive, no point of the node has positive margin.  The
solver is not trusted about this: its dual values are weights of the rows, and the node is empty if
the weighted sum of the rows contradicts itself on the node's box by more than all rounding errors.
If the sum is zero up to rounding (kinks that meet on a boundary), or a variable is unbounded, exact
arithmetic decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from flint import fmpq

from lipyomo.base.arrays import FloatArray, IntArray, ranges
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.base.numerics.rounding import TINY, UNIT, gamma
from lipyomo.networks.phases import LEFT, RIGHT
from lipyomo.primal.regions.combination import (
    Body,
    RoundedRows,
    contradicts,
    contradicts_beyond_rounding,
)
from lipyomo.primal.regions.margin import UNKNOWN, Interior
from lipyomo.primal.regions.params import PARAMS
from lipyomo.problems.affine.exact import ExactForm
from lipyomo.problems.affine.system import NodeForm, UnitSystem, coefficient_sizes
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear.layers import PatternPart
from lipyomo.relaxations.linear.relax import Triangle


class NodeRows(NamedTuple):
    """The rows of a node's units.

    Attributes
    ----------
    rows : ndarray, shape (r, d + F + 2)
    right : ndarray, shape (r,)
    owners : ndarray of int, shape (r,)
        The unit of each row.
    counts : (int, int, int)
        The numbers of rows of stable units, of unstable units from below, and of their chords.
    size : ndarray
        The numbers by which the rows of stable units were divided.
    low, high : ndarray
        The pre-activation bounds between which the chords are drawn.
    least, most, units : ndarray, shape (d + F,)
        Bounds of (x, y), and their ranges (one where these are infinite).
    hopeless : ndarray of int
        Stable units that cannot be on their side, as their bounds prove.
    """

    rows: FloatArray
    right: FloatArray
    owners: IntArray
    counts: tuple[int, int, int]
    size: FloatArray
    low: FloatArray
    high: FloatArray
    least: FloatArray
    most: FloatArray
    units: FloatArray
    hopeless: IntArray


class Optimum(NamedTuple):
    """The solver's result for a program.

    Attributes
    ----------
    point : ndarray, shape (d,)
    margin : float
        ``t - 10 e``; not positive without interior, up to the solver's tolerance.
    weights : ndarray, shape (r + faces,)
        Weights of the rows of units, and of those of the domain.
    """

    point: FloatArray
    margin: float
    weights: FloatArray


class RegionProgram:
    """Solves the programs for interior margins in one tree.

    Parameters
    ----------
    system : UnitSystem
    domain : Domain
    """

    def __init__(self, system: UnitSystem, domain: Domain) -> None:
        self._system, self._domain = system, domain
        self._program: LinearProgram | None = None
        rows = domain.rows
        self._facets = rows.dense
        self._right = rows.b
        self._cuts: list[tuple[FloatArray, float]] = []
        self._errors = system.errors
        self._sizes = coefficient_sizes(system.magnitudes)
        self.solved = 0

    def forget(self) -> None:
        """Forget the cuts of a ball, as if no node had been examined."""
        self._cuts.clear()
        self._program = None

    def examine(self, form: NodeForm, part: PatternPart) -> Interior:
        """Decide whether a part has interior.

        Parameters
        ----------
        form : NodeForm
            The reduction of the part's phases.
        part : PatternPart

        Returns
        -------
        Interior
        """
        rows = self.rows(form, part)
        if rows.hopeless.size:
            return Interior(support=rows.hopeless[:1])
        found = self.optimum(form, rows)
        if found is None:
            return UNKNOWN
        if found.margin <= PARAMS.rounding:
            support = self._contradiction(form, part, rows, found.weights)
            if support is not None:
                return Interior(support=np.unique(rows.owners[support]))
        if found.margin <= 0 or self._cut(found.point):
            return UNKNOWN
        return Interior(found.point, found.margin)

    def optimum(self, form: NodeForm, rows: NodeRows) -> Optimum | None:
        """Find the deepest point in the domain, or weights that may exclude one.

        Return None if the solver failed, or a ball needs too many tangents.
        """
        for _ in range(PARAMS.cuts):
            found = self._solve(form, rows)
            if found is None or found.margin <= PARAMS.rounding or not self._cut(found.point):
                return found
        return None

    def rows(self, form: NodeForm, part: PatternPart) -> NodeRows:
        """Return rows ``R w <= b`` of the units in w = (x, y, t, e)."""
        least = np.concatenate([part.low, np.zeros(form.units.size)])
        most = np.concatenate([part.high, np.maximum(part.upper[form.units], 0.0)])
        units = ranges(least, most)
        reach = np.maximum(np.abs(least), np.abs(most))
        *sides, size, hopeless = self._sides(form, part, reach, units)
        *lines, low, high = self._triangles(form, part, units)
        counts = len(sides[0]), len(lines[0]) - low.size, low.size
        rows, right, owners = (np.concatenate(pair) for pair in zip(sides, lines, strict=True))
        return NodeRows(rows, right, owners, counts, size, low, high, least, most, units, hopeless)

    def _sides(
        self, form: NodeForm, part: PatternPart, reach: FloatArray, units: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, IntArray]:
        """Return rows of stable units with bounds on both sides; |(x, y)| is at most `reach`.

        These are rows, right-hand sides, owners, sizes and hopeless units of `NodeRows`.
        """
        phases, width = part.phases, units.size
        right = phases == RIGHT
        leaves = np.where(right, part.lower <= 0, (phases == LEFT) & (part.upper >= 0))
        owners = np.flatnonzero(self._system.kinked & leaves)
        maps = form.maps[owners]
        sign = np.where(right[owners], 1.0, -1.0)
        sizes = np.abs(maps[:, :width])
        with np.errstate(invalid="ignore"):
            end = sign * maps[:, width] + sizes @ reach + self._errors[owners]
        hopeless = owners[end < 0]
        size = sizes @ units
        varies = sizes.sum(axis=1) > gamma(width) * self._sizes[owners]
        varies &= size > TINY  # rows that underflow say nothing
        if not varies.all():
            owners, maps, sign, size = (own[varies] for own in (owners, maps, sign, size))
        factor = -sign / size
        signs = np.zeros((len(maps), width + 2))
        np.multiply(factor[:, None], maps[:, :width], out=signs[:, :width])
        signs[:, width] = 1.0
        return signs, -factor * maps[:, width], owners, size, hopeless

    def _triangles(
        self, form: NodeForm, part: PatternPart, units: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
        """Return rows of unstable units that later ones need: from below, then their chords.

        These are rows, right-hand sides, owners, and low and high of `NodeRows`.
        """
        system, d, width = self._system, form.variables, units.size
        last = system.starts[-2] if system.depth else 0
        inner = int(np.searchsorted(form.units, last))
        own = form.units[:inner]
        low, high = part.lower[own], part.upper[own]
        finite = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
        low, high = low[finite], high[finite]
        triangle = Triangle.of(low, high, np.zeros(low.size), np.ones(low.size))
        z = form.maps[own]
        rows = np.zeros((inner + low.size, width + 2))
        above, chord = rows[:inner], rows[inner:]
        above[:, :width] = z[:, :width]
        above[np.arange(inner), d + np.arange(inner)] -= 1.0
        if low.size < inner:
            z = z[finite]
        np.multiply(-triangle.chord[:, None], z[:, :width], out=chord[:, :width])
        chord[np.arange(low.size), d + finite] += 1.0
        chord[:, width + 1] = -units[d + finite]
        ends = triangle.chord * z[:, width] + triangle.offset
        right = np.concatenate([-form.maps[own, width], ends])
        return rows, right, np.concatenate([own, own[finite]]), low, high

    def _solve(self, form: NodeForm, rows: NodeRows) -> Optimum | None:
        """Solve the program with the cuts so far; return None if the solver failed."""
        matrix, right = self._with_domain(form, rows)
        units = np.concatenate([rows.units, np.ones(2)])
        col_low = np.concatenate([rows.least, [-np.inf, 0.0]]) / units
        col_high = np.concatenate([rows.most, [1.0, np.inf]]) / units
        matrix = matrix * units
        cost = np.zeros(col_low.size)
        cost[-2], cost[-1] = 1.0, -PARAMS.elastic
        self.solved += 1
        if self._program is None:
            self._program = LinearProgram(col_low, col_high, matrix, right, PARAMS.rounding)
        else:
            self._program.load(col_low, col_high, matrix, right)
        found = self._program.optimum(cost)
        if found is None:
            return None
        value, solution = found
        d = form.variables
        point = np.clip(solution[:d] * rows.units[:d], rows.least[:d], rows.most[:d])
        return Optimum(point, value, self._program.duals)

    def _contradiction(
        self, form: NodeForm, part: PatternPart, rows: NodeRows, weights: FloatArray
    ) -> IntArray | None:
        """Return rows of units that contradict each other, beyond rounding or exactly."""
        count = len(rows.owners)
        matrix, right = self._with_domain(form, rows)
        matrix = matrix[:, :-2]  # a strict point of the node has t = e = 0
        least, most = rows.least, rows.most
        bounded = bool(np.isfinite(least).all() and np.isfinite(most).all())
        rounded = self._rounded(form, rows, matrix, right, bounded)
        found = contradicts_beyond_rounding(rounded, least, most, weights)
        if found is None and not self._system.roughness:  # otherwise nothing is exact
            written = self._exact_rows(part, rows)
            ball = self._domain.ball
            if ball is not None:  # the ball itself replaces its tangents
                weights = weights[:count]
            support = np.flatnonzero(weights > PARAMS.rounding * weights.max(initial=0.0))
            body = Body(least, most, ball)
            found = contradicts([written(int(k)) for k in support], body, weights[support])
            found = None if found is None else support[found]
        return None if found is None else found[found < count]

    def _rounded(
        self, form: NodeForm, own: NodeRows, rows: FloatArray, right: FloatArray, bounded: bool
    ) -> RoundedRows:
        """Return the program's rows with the errors of the units' rows.

        On a bounded node, the error of a pre-activation's value is a better bound than those of its
        coefficients.
        """
        owners, signs = own.owners, own.counts[0]
        scale = np.ones(len(owners))
        scale[:signs] = 1.0 / own.size
        error, limit = np.zeros(rows.shape), np.zeros(right.size)
        if bounded:
            limit[: len(owners)] = scale * self._errors[owners]
            return RoundedRows(rows, right, error, limit)
        columns = np.concatenate([np.arange(form.variables), form.variables + form.units, [-1]])
        found = self._system.map_errors[np.ix_(owners, columns)] * scale[:, None]
        error[: len(owners)] = found[:, :-1] + 8.0 * UNIT * np.abs(rows[: len(owners)])
        limit[: len(owners)] = found[:, -1] + 8.0 * UNIT * np.abs(right[: len(owners)])
        return RoundedRows(rows, right, error, limit)

    def _exact_rows(self, part: PatternPart, rows: NodeRows) -> Callable[[int], list[fmpq]]:
        """Return a function for the exact row k of a program, in (x, y), as ``(a, b)``."""
        maps = ExactForm(self._system, part.phases)
        signs, inner, _ = rows.counts

        def row(k: int) -> list[fmpq]:
            if k >= len(rows.owners):
                face = k - len(rows.owners)
                return list(maps.face_row(self._facets[face], float(self._right[face])))
            unit = int(rows.owners[k])
            if k < signs:
                size = exact(float(rows.size[k]))
                return [a / size for a in maps.sign_row(unit, bool(part.phases[unit] == RIGHT))]
            if k < signs + inner:
                return list(maps.above_row(unit))
            k -= signs + inner
            low, high = float(rows.low[k]), float(rows.high[k])
            width = exact(high) - exact(low)
            return [a / width for a in maps.chord_row(unit, low, high)] if width else []

        return row

    def _with_domain(self, form: NodeForm, rows: NodeRows) -> tuple[FloatArray, FloatArray]:
        """Add the domain's rows, with their margin, and the cuts of a ball."""
        facet = np.concatenate([self._facets, *(normal[None] for normal, _ in self._cuts)])
        if not len(facet):
            return rows.rows, rows.right
        block = np.zeros((len(facet), rows.rows.shape[1]))
        block[:, : form.variables] = facet
        block[:, -2] = np.abs(facet) @ rows.units[: form.variables]
        limits = np.concatenate([self._right, [limit for _, limit in self._cuts]])
        return np.concatenate([rows.rows, block]), np.concatenate([rows.right, limits])

    def _cut(self, point: FloatArray) -> bool:
        """Store a face that separates `point` from the domain; return False if it is inside."""
        face = self._domain.separating(point)
        if face is not None:
            self._cuts.append(face)
        return face is not None
