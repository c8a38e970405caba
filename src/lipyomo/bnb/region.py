"""Does the region of a node have interior?  One small linear program answers, with a point.

In the variables x (inputs), y (open units that later units need) and a margin t,

    maximise t - 10 e
    sigma_k (G_k x + S_k y + g_k) / n_k >= t          for decided units k, sigma_k = +-1
    y_j >= z_j,  0 <= y_j <= u_j,  y_j <= u_j (z_j - l_j) / (u_j - l_j) + e      for open units j
    low + t r <= x <= high - t r,   A x + t |A| <= b

with n_k the size of the row.  The elastic variable e >= 0 keeps the program feasible; if its
optimum is not positive, no point of the node has positive margin.  That is never taken from the
solver: its dual values are weights of the rows, and if the weighted sum of the rows contradicts
itself on the node's box by more than all rounding errors, the node is empty.  Where the sum is
zero up to rounding (kinks that meet on a boundary), or a variable is unbounded, exact arithmetic
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import fmpq

from lipyomo.affine.magnitudes import coefficient_sizes
from lipyomo.affine.rows import ExactForm
from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.domains import Domain, NormBall
from lipyomo.network import FloatArray
from lipyomo.numerics.exact import exact
from lipyomo.numerics.lp import LinearProgram
from lipyomo.numerics.rounding import UNIT
from lipyomo.phases import LEFT, RIGHT
from lipyomo.regions.combination import (
    SUPPORT,
    RoundedRows,
    contradicts,
    contradicts_beyond_rounding,
)
from lipyomo.regions.combination import Body as Set

THIN = 1e-9
"""Margins up to this (in units of row sizes) are looked at exactly."""

TOLERANCE = 1e-9
"""Of feasibility, of the linear programs."""

_ELASTIC = 10.0
_MAX_MARGIN = 1.0
_NEGLIGIBLE = 1e-14
_MAX_CUTS = 60


@dataclass(frozen=True)
class RegionAnswer:
    """What is known about the interior of a node's region.

    Attributes
    ----------
    empty : bool
        Proved to have no interior.
    point : ndarray or None
        Inputs that satisfy every decided unit with positive margin, if one was found.
    margin : float
        Of that point.
    """

    empty: bool
    point: FloatArray | None = None
    margin: float = 0.0


@dataclass(frozen=True)
class _Body:
    """The rows of a node's units.

    Attributes
    ----------
    rows : ndarray, shape (r, d + F + 2)
    right : ndarray, shape (r,)
    owners : ndarray of int, shape (r,)
        The unit of each row.
    counts : (int, int, int)
        Rows of decided units, of open units from below, and their chords.
    size : ndarray
        By which the rows of decided units were divided.
    low, high : ndarray
        Pre-activation bounds that the chords span.
    """

    rows: FloatArray
    right: FloatArray
    owners: npt.NDArray[np.int64]
    counts: tuple[int, int, int]
    size: FloatArray
    low: FloatArray
    high: FloatArray


class RegionProgram:
    """Solves the interior-margin programs of one tree.

    Parameters
    ----------
    system : UnitSystem
    domain : Domain
    """

    def __init__(self, system: UnitSystem, domain: Domain) -> None:
        self._system, self._domain = system, domain
        self._program: LinearProgram | None = None
        rows = domain.rows
        self._facets = np.asarray(rows.A.toarray())
        self._right = rows.b
        self._cuts: list[tuple[FloatArray, float]] = []
        self._errors = system.errors
        self._sizes = coefficient_sizes(system.network)
        self.solved = 0

    def forget(self) -> None:
        """Forget the cuts of a ball, as if no node had been examined."""
        self._cuts.clear()
        self._program = None

    def examine(
        self,
        form: NodeForm,
        phases: FlatPhases,
        lower: FloatArray,
        upper: FloatArray,
        low: FloatArray,
        high: FloatArray,
    ) -> RegionAnswer:
        """Whether the node with these phases, bounds and box has interior.

        Parameters
        ----------
        form : NodeForm
            The reduction of `phases`.
        phases : ndarray of int8, shape (N,)
        lower, upper : ndarray, shape (N,)
            Bounds of the pre-activations.
        low, high : ndarray, shape (d,)

        Returns
        -------
        RegionAnswer
        """
        reach = np.concatenate([np.maximum(np.abs(low), np.abs(high)), upper[form.units]])
        body = self._rows(form, phases, lower, upper, np.maximum(reach, 0.0))
        if body is None:
            return RegionAnswer(True)
        for _ in range(_MAX_CUTS):
            found = self._solve(form, body, upper, low, high)
            if found is None:
                return RegionAnswer(False)
            point, margin, weights = found
            if margin <= THIN and self._is_empty(form, phases, body, weights, upper, low, high):
                return RegionAnswer(True)
            if margin <= 0:
                return RegionAnswer(False)
            if not isinstance(self._domain, NormBall):
                return RegionAnswer(False, point, margin)
            excess = -float(self._domain.slack(point))
            if excess < 0:
                return RegionAnswer(False, point, margin)
            self._cut(point)
        return RegionAnswer(False)

    def _rows(
        self,
        form: NodeForm,
        phases: FlatPhases,
        lower: FloatArray,
        upper: FloatArray,
        reach: FloatArray,
    ) -> _Body | None:
        """Rows ``R w <= b`` of the units in w = (x, y, t, e); None if one cannot hold."""
        system, d = self._system, form.inputs
        width = form.maps.shape[1] - 1
        decided = np.flatnonzero(system.kinked & ((phases == RIGHT) | (phases == LEFT)))
        crossing = np.where(
            phases[decided] == RIGHT,
            np.isneginf(lower[decided]) | (lower[decided] <= 0),
            upper[decided] >= 0,
        )
        owners = decided[crossing]
        rows = form.maps[owners]
        sign = np.where(phases[owners] == RIGHT, 1.0, -1.0)
        size = np.abs(rows[:, :width]).sum(axis=1)
        with np.errstate(invalid="ignore"):
            most = sign * rows[:, width] + np.abs(rows[:, :width]) @ reach + self._errors[owners]
        if (most < 0).any():
            return None
        varies = size > _NEGLIGIBLE * self._sizes[owners]
        owners, rows, sign, size = owners[varies], rows[varies], sign[varies], size[varies]
        factor = -sign / size
        signs = np.zeros((len(rows), width + 2))
        signs[:, :width] = factor[:, None] * rows[:, :width]
        signs[:, width] = 1.0
        right = -factor * rows[:, width]
        last = system.starts[-2] if system.depth else 0
        inner = int(np.searchsorted(form.units, last))
        units = form.units[:inner]
        z = form.maps[units]
        eye = np.zeros((inner, width + 2))
        eye[np.arange(inner), d + np.arange(inner)] = 1.0
        above = np.zeros((inner, width + 2))
        above[:, :width] = z[:, :width]
        above -= eye
        finite = np.isfinite(lower[units]) & np.isfinite(upper[units])
        low, high = lower[units][finite], upper[units][finite]
        slope = high / np.maximum(high - low, 1e-300)
        chord = eye[finite]
        chord[:, :width] -= slope[:, None] * z[finite, :width]
        chord[:, width + 1] = -1.0
        return _Body(
            np.concatenate([signs, above, chord]),
            np.concatenate([right, -z[:, width], slope * (z[finite, width] - low)]),
            np.concatenate([owners, units, units[finite]]),
            (len(owners), inner, int(finite.sum())),
            size,
            low,
            high,
        )

    def _solve(
        self, form: NodeForm, body: _Body, upper: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, float, FloatArray] | None:
        """The solver's point, its margin, and the weights of the rows; None if it failed."""
        d, width = form.inputs, form.maps.shape[1] - 1
        rows, right = self._with_domain(body, d, width)
        top = np.maximum(upper[form.units], 0.0)
        col_low = np.concatenate([low, np.zeros(width - d), [-np.inf, 0.0]])
        col_high = np.concatenate([high, top, [_MAX_MARGIN, np.inf]])
        cost = np.zeros(width + 2)
        cost[width], cost[width + 1] = 1.0, -_ELASTIC
        self.solved += 1
        if self._program is None:
            self._program = LinearProgram(col_low, col_high, rows, right, TOLERANCE)
        else:
            self._program.load(col_low, col_high, rows, right)
        found = self._program.maximise(cost)
        if found.point is None:
            return None
        return np.clip(found.point[:d], low, high), found.value, self._program.duals

    def _is_empty(
        self,
        form: NodeForm,
        phases: FlatPhases,
        body: _Body,
        weights: FloatArray,
        upper: FloatArray,
        low: FloatArray,
        high: FloatArray,
    ) -> bool:
        """Whether the rows with these weights contradict each other, beyond rounding or exactly."""
        d, width = form.inputs, form.maps.shape[1] - 1
        rows, right = self._with_domain(body, d, width)
        rows = rows[:, :width]  # a strict point of the node has t = e = 0
        top = np.maximum(upper[form.units], 0.0)
        least, most = np.concatenate([low, np.zeros(top.size)]), np.concatenate([high, top])
        bounded = bool(np.isfinite(least).all() and np.isfinite(most).all())
        rounded = self._rounded(form, body, rows, right, bounded)
        if contradicts_beyond_rounding(rounded, least, most, weights):
            return True
        written = self._exact_rows(form, phases, body)
        kept = weights
        if isinstance(self._domain, NormBall):  # tangents give way to the ball itself
            kept = weights[: len(body.owners)]
        ball = self._domain if isinstance(self._domain, NormBall) else None
        support = np.flatnonzero(kept > SUPPORT * kept.max(initial=0.0))
        return contradicts(
            [written(int(k)) for k in support], Set(least, most, ball), kept[support]
        )

    def _rounded(
        self, form: NodeForm, body: _Body, rows: FloatArray, right: FloatArray, bounded: bool
    ) -> RoundedRows:
        """The program's rows with the errors of those of units.

        Over a bounded node the error of a pre-activation's value says more than those of its
        coefficients.
        """
        owners, signs = body.owners, body.counts[0]
        scale = np.ones(len(owners))
        scale[:signs] = 1.0 / body.size
        error, limit = np.zeros(rows.shape), np.zeros(right.size)
        if bounded:
            limit[: len(owners)] = scale * self._errors[owners]
            return RoundedRows(rows, right, error, limit)
        columns = np.concatenate([np.arange(form.inputs), form.inputs + form.units, [-1]])
        found = self._system.map_errors[np.ix_(owners, columns)] * scale[:, None]
        error[: len(owners)] = found[:, :-1] + 8.0 * UNIT * np.abs(rows[: len(owners)])
        limit[: len(owners)] = found[:, -1] + 8.0 * UNIT * np.abs(right[: len(owners)])
        return RoundedRows(rows, right, error, limit)

    def _exact_rows(
        self, form: NodeForm, phases: FlatPhases, body: _Body
    ) -> Callable[[int], list[fmpq]]:
        """Row number k of a program without rounding, in (x, y), as ``(a, b)``."""
        maps = ExactForm(self._system, phases)
        signs, inner, _ = body.counts

        def row(k: int) -> list[fmpq]:
            if k >= len(body.owners):
                face = k - len(body.owners)
                return list(maps.face_row(self._facets[face], float(self._right[face])))
            unit = int(body.owners[k])
            if k < signs:
                size = exact(float(body.size[k]))
                return [a / size for a in maps.sign_row(unit, bool(phases[unit] == RIGHT))]
            if k < signs + inner:
                return list(maps.above_row(unit))
            k -= signs + inner
            low, high = float(body.low[k]), float(body.high[k])
            width = exact(high) - exact(low)
            return [a / width for a in maps.chord_row(unit, low, high)] if width else []

        return row

    def _with_domain(self, body: _Body, d: int, width: int) -> tuple[FloatArray, FloatArray]:
        """Add the domain's rows, with their margin, and the cuts of a ball."""
        rows, right = body.rows, body.right
        facets = [self._facets, *(normal[None] for normal, _ in self._cuts)]
        facet = np.concatenate(facets)
        if not len(facet):
            return rows, right
        block = np.zeros((len(facet), width + 2))
        block[:, :d] = facet
        block[:, width] = np.abs(facet).sum(axis=1)
        limits = np.concatenate([self._right, [limit for _, limit in self._cuts]])
        return np.concatenate([rows, block]), np.concatenate([right, limits])

    def _cut(self, point: FloatArray) -> None:
        """Remember the tangent of the ball at the projection of an outside `point`."""
        domain = self._domain
        assert isinstance(domain, NormBall)
        gap = point - domain.point
        if domain.norm == "l2":
            normal = gap / np.linalg.norm(gap)
        else:
            normal = np.where(gap >= 0, 1.0, -1.0)
        self._cuts.append((normal, float(normal @ domain.point) + domain.radius))
