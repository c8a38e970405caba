"""The largest value on a node by one linear program over its triangle relaxation.

In the variables x (inputs) and y (what open units add above their kinks) the rows are those of
`lipyomo.regions.partial` without margin.  Every row is loosened by the rounding error of its own
pre-activation, and the bound is recomputed from the row duals; so it holds whatever the solver did.
  Of a Euclidean ball the program knows tangents, as many as it asked for; their duals
mu_i with normals n_i prove more than they say: with ``q = sum mu_i n_i`` the ball adds
``q . p + r |q|``.  Without open units, this dual is smooth and minimised as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.arrays import IntArray, lengths
from lipyomo.bounds.preactivation import preactivation_bounds
from lipyomo.domains import Domain, NormBall
from lipyomo.network import FloatArray, Matrix
from lipyomo.numerics.lp import LinearProgram, weak_duality
from lipyomo.numerics.rounding import UNIT, gamma
from lipyomo.phases import OPEN
from lipyomo.regions.partial import NodeRows, RegionProgram
from lipyomo.search.values.node import Node
from lipyomo.search.values.params import Params


@dataclass(frozen=True, eq=False)
class Highest:
    """What is known of the largest value on a node.

    Attributes
    ----------
    bound : float
        No value is larger; plus infinity where the solver had no optimum.
    point : ndarray, shape (d,), or None
        Where the relaxation is largest.
    units : ndarray of int, shape (k,)
        Open units whose outputs the relaxation has wrong there.
    scores : ndarray, shape (k,)
        By how much the bound would drop at least if they were right, as the duals have it.
    """

    bound: float
    point: FloatArray | None
    units: IntArray
    scores: FloatArray


class NodeProgram:
    """Solves the programs of one search.

    Parameters
    ----------
    system : UnitSystem
        Its last unit is the aim.
    domain : Domain
    params : Params
    """

    def __init__(self, system: UnitSystem, domain: Domain, params: Params) -> None:
        self._system, self._domain, self._params = system, domain, params
        self._region = RegionProgram(system, domain)
        self._facets = np.asarray(domain.rows.A.toarray())
        self._program: LinearProgram | None = None

    def highest(self, node: Node) -> Highest:
        """Bound the largest value of the aim's pre-activation, its bias left out."""
        system, aim = self._system, self._system.count - 1
        form = system.form(node.phases)
        node = self._with_all_signs(node)
        rows = self._region.rows(form, node)
        A, b = self._loosened(rows)
        cost, shift = form.maps[aim, :-1], float(form.maps[aim, -1])
        ball = self._domain.ball
        if ball is None:
            bound, point, duals = self._solved(A, b, rows.least, rows.most, cost)
        elif ball.norm == "l1":
            bound, point, duals = self._in_cross(ball, A, b, rows, cost)
        else:
            bound, point, duals = self._in_ball(ball, A, b, rows, cost)
        bound += shift + float(system.errors[aim]) + 4.0 * UNIT * (abs(bound) + abs(shift))
        if point is None:  # nothing of the node has interior, or the solver is at a loss
            empty = self._region.examine(form, node).empty
            none = np.zeros(0)
            return Highest(-np.inf if empty else np.inf, None, none.astype(np.intp), none)
        units, scores = _violations(form, rows, point, duals)
        return Highest(bound, point[: form.inputs], units, scores)

    def _with_all_signs(self, node: Node) -> Node:
        """The node with bounds of its decided units that hold below the cutoff as well.

        Those of a node say nothing there, and rows that they make superfluous are missing where the
        program is largest.
        """
        (low, high), open_ = self._plain, node.phases == OPEN
        lower, upper = np.where(open_, node.lower, low), np.where(open_, node.upper, high)
        return replace(node, lower=lower, upper=upper)

    @cached_property
    def _plain(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the pre-activations all over the domain, whatever the cutoff is."""
        found = preactivation_bounds(self._system.network, self._domain)
        return np.concatenate(found.lower), np.concatenate(found.upper)

    def _loosened(self, rows: NodeRows) -> tuple[FloatArray, FloatArray]:
        """All rows but those of a ball, with room for the rounding of pre-activations."""
        scale = np.ones(len(rows.owners))
        scale[: rows.counts[0]] = 1.0 / rows.size
        right = rows.right + scale * self._system.errors[rows.owners]
        facets = np.zeros((len(self._facets), rows.least.size))
        facets[:, : self._facets.shape[1]] = self._facets
        A = np.concatenate([rows.rows[:, :-2], facets])
        return A, np.concatenate([right, self._domain.rows.b])

    def _solved(
        self, A: Matrix, b: FloatArray, least: FloatArray, most: FloatArray, cost: FloatArray
    ) -> tuple[float, FloatArray | None, FloatArray]:
        """Bound, point and row duals of ``max cost . w, A w <= b, least <= w <= most``."""
        if self._program is None:
            self._program = LinearProgram(least, most, A, b)
        else:
            self._program.load(least, most, A, b)
        found = self._program.maximise(cost)
        return found.bound, found.point, self._program.duals

    def _in_cross(
        self, ball: NormBall, A: FloatArray, b: FloatArray, rows: NodeRows, cost: FloatArray
    ) -> tuple[float, FloatArray | None, FloatArray]:
        """The same in an l1 ball: with variables for the distances of the inputs."""
        d, width = ball.point.size, rows.least.size
        eye = sp.eye_array(d, format="csr")
        beside = sp.csr_array((d, width - d))
        total = sp.csr_array(np.repeat([[0.0, 1.0]], [width, d], axis=1))
        apart = sp.csr_array((len(A), d))
        matrix = sp.vstack(
            [
                sp.hstack([sp.csr_array(A), apart]),
                sp.hstack([eye, beside, -eye]),
                sp.hstack([-eye, beside, -eye]),
                total,
            ]
        )
        limits = np.concatenate([b, ball.point, -ball.point, [ball.radius]])
        least = np.append(rows.least, np.zeros(d))
        most = np.append(rows.most, np.full(d, ball.radius))
        bound, point, duals = self._solved(
            sp.csr_array(matrix), limits, least, most, np.append(cost, np.zeros(d))
        )
        return bound, None if point is None else point[:width], duals

    def _in_ball(
        self, ball: NormBall, A: FloatArray, b: FloatArray, rows: NodeRows, cost: FloatArray
    ) -> tuple[float, FloatArray | None, FloatArray]:
        """The same in a Euclidean ball: by tangents, and without open units by the smooth dual."""
        d, width = ball.point.size, rows.least.size
        if width == d:
            return _smooth_dual(ball, A, b, rows.least, rows.most, cost)
        normals, best = np.zeros((0, d)), np.inf
        aim, point, duals = cost[:d], None, np.zeros(len(b))
        for _ in range(self._params.tangents):
            size = float(lengths(aim))
            if size > 0:
                normals = np.concatenate([normals, aim[None] / size])
            cuts = np.zeros((len(normals), width))
            cuts[:, :d] = normals
            limits = normals @ ball.point + ball.radius * (1.0 + 1e-12)
            _, solution, every = self._solved(
                np.concatenate([A, cuts]), np.append(b, limits), rows.least, rows.most, cost
            )
            if solution is None:
                break
            point, duals = solution, every[: len(b)]
            pull = every[len(b) :] @ normals
            proved = _with_ball(ball, A, b, rows.least, rows.most, cost, duals, pull)
            best = min(best, proved)
            aim = solution[:d] - ball.point
            if lengths(aim) <= ball.radius * (1.0 + 1e-9):
                break
        return best, point, duals


def _with_ball(
    ball: NormBall,
    A: FloatArray,
    b: FloatArray,
    least: FloatArray,
    most: FloatArray,
    cost: FloatArray,
    duals: FloatArray,
    pull: FloatArray,
) -> float:
    """The bound from row duals, and a part (d,) of the costs that the ball itself bounds."""
    rest = cost.copy()
    rest[: pull.size] -= pull
    end, loose, _ = weak_duality(rest, A, b, least, most, duals)
    if loose > 0:
        return np.inf
    size = float(np.abs(pull) @ np.abs(ball.point)) + ball.radius * float(lengths(pull))
    reach = float(np.abs(np.concatenate([least, most])).max(initial=0.0))
    rounding = gamma(pull.size + 4) * (size + reach * float(np.abs(pull).sum()))
    return end + float(pull @ ball.point) + ball.radius * float(lengths(pull)) + rounding


def _smooth_dual(
    ball: NormBall,
    A: FloatArray,
    b: FloatArray,
    least: FloatArray,
    most: FloatArray,
    cost: FloatArray,
) -> tuple[float, FloatArray | None, FloatArray]:
    """Maximise over rows, box and ball by the dual in (y, nu).

    min over y >= 0, nu > 0 of
    y . b + nu r^2 / 2 + max over the box of (c - A^T y) . x - nu |x - p|^2 / 2
    """
    from scipy.optimize import minimize

    p, r = ball.point, ball.radius
    size = float(lengths(cost)) or 1.0
    scale = size * r  # of values; nu is in units of size / r

    def primal(v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        nu = v[-1] * size / r
        return np.clip(p + (cost - A.T @ (v[:-1] * size)) / nu, least, most), v[:-1] * size, nu

    def dual(v: FloatArray) -> tuple[float, FloatArray]:
        x, y, nu = primal(v)
        away = 0.5 * (r * r - float(np.square(x - p).sum()))
        value = float(y @ b) + float((cost - A.T @ y) @ x) + nu * away - float(cost @ p)
        return value / scale, np.append((b - A @ x) * size, away * size / r) / scale

    start = np.append(np.zeros(len(b)), 1.0)
    bounds = [(0.0, None)] * len(b) + [(1e-9, None)]
    options = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-16, "gtol": 1e-11}
    found = minimize(dual, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    v = np.maximum(np.asarray(found.x), [low for low, _ in bounds])
    x, y, nu = primal(v)
    pull = nu * (x - p)  # what of the costs the ball takes: the box has the rest
    return _with_ball(ball, A, b, least, most, cost, y, pull), x, y


def _violations(
    form: NodeForm, rows: NodeRows, point: FloatArray, duals: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Open units whose outputs are above the unit's, and what their chords' duals say of it."""
    signs, inner, chords = rows.counts
    units = rows.owners[signs + inner : signs + inner + chords]
    weights = duals[signs + inner : signs + inner + chords]
    z = form.maps[units, :-1] @ point + form.maps[units, -1]
    y = point[form.inputs + np.searchsorted(form.units, units)]
    return units, weights * np.maximum(y - np.maximum(z, 0.0), 0.0)
