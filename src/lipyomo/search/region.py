"""Does the region of a node have interior?  One small linear program answers, with a point.

In the variables x (inputs), y (open units that later units need) and a margin t,

    maximise t - 10 e
    sigma_k (G_k x + S_k y + g_k) / n_k >= t          for decided units k, sigma_k = +-1
    y_j >= z_j,  0 <= y_j <= u_j,  y_j <= u_j (z_j - l_j) / (u_j - l_j) + e      for open units j
    low + t r <= x <= high - t r,   A x + t |A| <= b

with n_k the size of the row.  The elastic variable e >= 0 keeps the program feasible; if its
optimum is not positive, no point of the node has positive margin.  The optimum is not taken from
the solver but bounded by its dual values (Neumaier and Shcherbina, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lipyomo.domains import Domain, NormBall
from lipyomo.network import FloatArray
from lipyomo.phases import LEFT, RIGHT
from lipyomo.search.form import FlatPhases, NodeForm, UnitSystem

THIN = 1e-9
"""Regions whose margin is not above this (in units of row sizes) count as empty."""

_ELASTIC = 10.0
_MAX_MARGIN = 1.0
_NEGLIGIBLE = 1e-12
_MAX_CUTS = 60


@dataclass(frozen=True)
class RegionAnswer:
    """What is known about the interior of a node's region.

    Attributes
    ----------
    empty : bool
        Proved to have no interior (up to `THIN`).
    point : ndarray or None
        Inputs that satisfy every decided unit with positive margin, if one was found.
    margin : float
        Of that point.
    """

    empty: bool
    point: FloatArray | None = None
    margin: float = 0.0


class RegionProgram:
    """Solves the interior-margin programs of one tree.

    Parameters
    ----------
    system : UnitSystem
    domain : Domain
    """

    def __init__(self, system: UnitSystem, domain: Domain) -> None:
        import highspy

        self._system, self._domain = system, domain
        self._highspy = highspy
        self._solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("presolve", "off"),
            ("threads", 1),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self._solver.setOptionValue(option, value)
        rows = domain.rows
        self._facets = np.asarray(rows.A.toarray())
        self._right = rows.b
        self._cuts: list[tuple[FloatArray, float]] = []
        self.solved = 0

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
        body = self._rows(form, phases, lower, upper)
        if body is None:
            return RegionAnswer(True)
        for _ in range(_MAX_CUTS):
            bound, point, margin = self._solve(form, body, lower, upper, low, high)
            if bound <= THIN:
                return RegionAnswer(True)
            if point is None or margin <= THIN:
                return RegionAnswer(False)
            if not isinstance(self._domain, NormBall):
                return RegionAnswer(False, point, margin)
            excess = -float(self._domain.slack(point))
            if excess < 0:
                return RegionAnswer(False, point, margin)
            self._cut(point)
        return RegionAnswer(False)

    def _rows(
        self, form: NodeForm, phases: FlatPhases, lower: FloatArray, upper: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Rows ``R w <= b`` of the units in w = (x, y, t, e); None if a constant row fails."""
        system, d = self._system, form.inputs
        width = form.maps.shape[1] - 1
        decided = np.flatnonzero(system.kinked & ((phases == RIGHT) | (phases == LEFT)))
        crossing = np.where(
            phases[decided] == RIGHT,
            np.isneginf(lower[decided]) | (lower[decided] <= 0),
            upper[decided] >= 0,
        )
        rows = form.maps[decided[crossing]]
        sign = np.where(phases[decided[crossing]] == RIGHT, 1.0, -1.0)
        size = np.abs(rows[:, :width]).sum(axis=1)
        scale = 1.0 + np.abs(rows[:, width])
        constant = size <= _NEGLIGIBLE * scale
        if constant.any():
            if (sign[constant] * rows[constant, width] < -_NEGLIGIBLE * scale[constant]).any():
                return None
            rows, sign, size = rows[~constant], sign[~constant], size[~constant]
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
        body = np.concatenate([signs, above, chord])
        return body, np.concatenate([right, -z[:, width], slope * (z[finite, width] - low)])

    def _solve(
        self,
        form: NodeForm,
        body: tuple[FloatArray, FloatArray],
        lower: FloatArray,
        upper: FloatArray,
        low: FloatArray,
        high: FloatArray,
    ) -> tuple[float, FloatArray | None, float]:
        """Safe bound of the margin, and the solver's point with its margin."""
        d, width = form.inputs, form.maps.shape[1] - 1
        units = form.units
        rows, right = self._with_domain(body, d, width)
        columns = width + 2
        col_low = np.concatenate([low, np.zeros(width - d), [-np.inf, 0.0]])
        top = np.maximum(upper[units], 0.0)
        col_high = np.concatenate([high, top, [_MAX_MARGIN, np.inf]])
        cost = np.zeros(columns)
        cost[width], cost[width + 1] = 1.0, -_ELASTIC
        solution = self._run(rows, right, col_low, col_high, cost)
        if solution is None:
            return np.inf, None, 0.0
        values, duals = solution
        bound = _safe_bound(rows, right, col_low, col_high, cost, duals)
        x, margin = values[:d], float(values[width] - _ELASTIC * values[width + 1])
        inside = np.clip(x, low, high)
        return bound, inside, margin

    def _with_domain(
        self, body: tuple[FloatArray, FloatArray], d: int, width: int
    ) -> tuple[FloatArray, FloatArray]:
        """Add the domain's rows, with their margin, and the cuts of a ball."""
        rows, right = body
        facets = [self._facets, *(normal[None] for normal, _ in self._cuts)]
        facet = np.concatenate(facets)
        if not len(facet):
            return rows, right
        block = np.zeros((len(facet), width + 2))
        block[:, :d] = facet
        block[:, width] = np.abs(facet).sum(axis=1)
        limits = np.concatenate([self._right, [limit for _, limit in self._cuts]])
        return np.concatenate([rows, block]), np.concatenate([right, limits])

    def _run(
        self,
        rows: FloatArray,
        right: FloatArray,
        low: FloatArray,
        high: FloatArray,
        cost: FloatArray,
    ) -> tuple[FloatArray, FloatArray] | None:
        """Solution and row duals from HiGHS, or None if it failed."""
        self.solved += 1
        model: Any = self._highspy.HighsLp()
        count, columns = rows.shape
        model.num_col_, model.num_row_ = columns, count
        model.col_cost_, model.col_lower_, model.col_upper_ = cost, low, high
        model.row_lower_, model.row_upper_ = np.full(count, -np.inf), right
        matrix = model.a_matrix_
        matrix.format_ = self._highspy.MatrixFormat.kRowwise
        mask = rows != 0.0
        matrix.start_ = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
        matrix.index_ = np.nonzero(mask)[1].astype(np.int32)
        matrix.value_ = rows[mask]
        model.sense_ = self._highspy.ObjSense.kMaximize
        self._solver.passModel(model)
        self._solver.run()
        if self._solver.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._solver.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)

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


def _safe_bound(
    rows: FloatArray,
    right: FloatArray,
    low: FloatArray,
    high: FloatArray,
    cost: FloatArray,
    duals: FloatArray,
) -> float:
    """Upper bound of the maximum from any row duals."""
    y = np.maximum(duals, 0.0)
    reduced = cost - y @ rows
    # the margin has no lower bound, and dual residuals of its size are solver noise: scale y so
    # that its column is exact
    side = np.where(reduced > 0, high, low)
    free = ~np.isfinite(side)
    if free.any():
        if np.abs(reduced[free]).max() > 1e-7:
            return float("inf")
        side = np.where(free, 0.0, side)
    return float(y @ right + reduced @ side)
