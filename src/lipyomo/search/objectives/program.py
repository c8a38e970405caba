"""The largest value on a node by one linear program over its triangle relaxation.

In the variables x (inputs) and y (what unstable units add above their kinks) the rows are those of
`lipyomo.primal.regions.partial` without margin.  Every row is loosened by the rounding error of its
own pre-activation, and bounds are recomputed from the row duals (`reach.py`).  In an l1 ball x is
``p + s - t`` with s, t >= 0, and one row says how long the step is.  A Euclidean ball makes it a
program of its own (`ball.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.base.numerics.rounding import CLOSED, EQUAL, UNIT, gamma
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.phases import OPEN
from lipyomo.primal.regions.partial import NodeRows, RegionProgram
from lipyomo.problems.affine.local_errors import local_errors
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear.preactivation import preactivation_bounds
from lipyomo.search.objectives.ball import largest_in_ball
from lipyomo.search.objectives.node import Node
from lipyomo.search.objectives.params import Params
from lipyomo.search.objectives.reach import Proof, Reach, ReachRows
from lipyomo.search.objectives.twins import Twins


@dataclass(frozen=True, eq=False)
class Answer:
    """What programs say of a node.

    Attributes
    ----------
    end : float
        Of `NodeProgram.highest`: no value is larger; infinite where the solver had no optimum.  Of
        `NodeProgram.nearest`: nothing is reached before that distance.
    point : ndarray, shape (d,), or None
        Where the relaxation is largest (at that distance, or a little farther).
    units : ndarray of int, shape (k,)
        Unstable units.
    scores : ndarray, shape (k,)
        By how much the bound would drop at least if their outputs were right, as the duals have it.
    """

    end: float
    point: FloatArray | None = None
    units: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))


class NodeProgram:
    """Solves the programs of one search.

    Parameters
    ----------
    system : UnitSystem
        Its last unit is the aim.
    domain : Domain
    params : Params
    tolerance : float, optional
        Rounding errors that hold under all phases will do where they are far below it.
    """

    def __init__(
        self, system: UnitSystem, domain: Domain, params: Params, tolerance: float = np.inf
    ) -> None:
        self._system, self._domain, self._params = system, domain, params
        memory = 8 * system.count * system.count
        self._is_rough = bool(system.errors[-1] > 0.01 * tolerance) and memory <= BATCH
        self._region = RegionProgram(system, domain)
        self._whole = Reach.of(domain)
        self._program: LinearProgram | None = None

    def highest(self, node: Node) -> Answer:
        """Bound the largest value of the aim's pre-activation, its bias left out."""
        form = self._system.form(node.phases)
        node = self._with_all_signs(node)
        known = self._region.rows(form, node)
        rows, shift, error = self._rows(form, known, node.phases)
        reach = replace(self._whole, low=node.low, high=node.high)
        point, proof = self._largest(rows, reach)
        if point is None:  # nothing of the node has interior, or the solver is at a loss
            if self._region.examine(form, node).empty:
                return Answer(-np.inf)
            point, proof = self._largest(rows, reach, elastic=True)
        bound = _value(rows.proved(reach, proof), shift, error)
        units, scores = self._violations(form, known, point, proof.duals)
        return Answer(bound, None if point is None else point[: form.inputs], units, scores)

    def nearest(
        self, node: Node, reach_of: Callable[[float], Reach], start: float, limit: float
    ) -> Answer:
        """Bound the distance at which the aim's pre-activation reaches zero, from `start` on.

        By Newton's method, from the limit on: multipliers that are best within one distance prove
        that the value stays below zero up to a larger one, since what they prove is concave in it.

        Parameters
        ----------
        node : Node
            Its bounds hold up to `limit`.
        reach_of : callable
            The inputs within a distance.
        start, limit : float
            Nothing is reached before `start`; what is beyond `limit` does not matter.
        """
        form = self._system.form(node.phases)
        known = self._region.rows(form, self._with_all_signs(node))
        rows, shift, error = self._rows(form, known, node.phases)
        found, at = Answer(start), limit
        for _ in range(self._params.newton):
            point, proof = self._largest(rows, reach_of(at), elastic=True)
            if point is None:
                return found
            units, scores = self._violations(form, known, point, proof.duals)
            further = self._root(rows, (shift, error), proof, reach_of, found.end, limit)
            step = further - found.end
            found = Answer(further, point[: form.inputs], units, scores)
            if further >= limit:
                break
            if step <= EQUAL * limit and at <= further:
                # a little farther, by less than what counts as closed, the value is positive
                beyond, _ = self._largest(rows, reach_of(further * (1.0 + CLOSED / 2.0)), True)
                if beyond is not None:
                    found = replace(found, point=beyond[: form.inputs])
                break
            # multipliers of too large a distance may prove nothing
            at = further if further > 0.0 else 0.5 * at
        return found

    def _root(
        self,
        rows: ReachRows,
        constant: tuple[float, float],
        proof: Proof,
        reach_of: Callable[[float], Reach],
        start: float,
        limit: float,
    ) -> float:
        """The largest distance found up to which a proof keeps the value below zero."""
        from scipy.optimize import brentq

        def value(t: float) -> float:
            return _value(rows.proved(reach_of(t), proof), *constant)

        if value(limit) < 0.0:
            return limit
        if value(start) >= 0.0:
            return start
        width = EQUAL * limit
        root = float(brentq(value, start, limit, xtol=0.1 * width))
        for back in (0.0, 0.1, 1.0, 10.0):
            if value(root - back * width) < 0.0:
                return max(root - back * width, start)
        return start

    def _with_all_signs(self, node: Node) -> Node:
        """The node with bounds of its stable units that hold below the cutoff as well.

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

    @cached_property
    def twins(self) -> Twins:
        """Units that are nearly alike all over the domain."""
        return Twins.of(self._system, self._domain, *self._plain)

    def _rows(
        self, form: NodeForm, known: NodeRows, phases: FlatPhases
    ) -> tuple[ReachRows, float, float]:
        """The rows of a node and its twins, with room for rounding; a constant, and its error."""
        errors = self._errors(form, known, phases)
        scale = np.ones(len(known.owners))
        scale[: known.counts[0]] = 1.0 / known.size
        right = known.right + scale * errors[known.owners]
        aim, d = form.maps[self._system.count - 1], form.inputs
        reach = np.maximum(np.abs(known.least), np.abs(known.most))
        beside, ends = self.twins.rows(errors, form, phases, reach)
        A, b = np.concatenate([known.rows[:, :-2], beside]), np.concatenate([right, ends])
        rows = ReachRows(A, b, aim[:-1], known.least[d:], known.most[d:])
        return rows, float(aim[-1]), float(errors[-1])

    def _errors(self, form: NodeForm, known: NodeRows, phases: FlatPhases) -> FloatArray:
        """Rounding errors of pre-activations, and of the rows of units, shape (N,)."""
        general = self._system.errors
        if not self._is_rough:
            return general
        reach = np.maximum(np.abs(known.least), np.abs(known.most))
        own = local_errors(self._system, form, phases, reach)
        signs, inner, chords = known.counts
        spanned = known.owners[signs + inner : signs + inner + chords]
        own[spanned] += gamma(0) * np.maximum(-known.low, known.high)
        return np.asarray(np.fmin(own, general))

    def _violations(
        self, form: NodeForm, rows: NodeRows, point: FloatArray | None, duals: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Unstable units with outputs above the unit's, and what their chords' duals say of it.

        The chords of twins have none, as their own rows bind: what the aim pays for a unit's output
        stands for it.
        """
        signs, inner, chords = rows.counts
        own = slice(signs + inner, signs + inner + chords)
        units = rows.owners[own]
        if point is None:
            return units, np.zeros(units.size)
        columns = form.inputs + np.searchsorted(form.units, units)
        twins = np.isin(units, [self.twins.first, self.twins.second])
        costs = np.abs(form.maps[self._system.count - 1, columns])
        z = form.maps[units, :-1] @ point + form.maps[units, -1]
        above = np.maximum(point[columns] - np.maximum(z, 0.0), 0.0)
        return units, np.where(twins, costs, duals[own]) * above

    # -- programs ----------------------------------------------------------------------------------

    def _largest(
        self, rows: ReachRows, reach: Reach, elastic: bool = False
    ) -> tuple[FloatArray | None, Proof]:
        """Where the costs are largest, and multipliers; no point if the solver finds no optimum.

        If `elastic`, the node's rows may be violated at a price: there is an optimum even if they
        exclude each other, and its multipliers say so.
        """
        if reach.norm == "l1":
            return self._in_cross(rows, reach, elastic)
        if reach.norm == "l2":
            return largest_in_ball(rows, reach, elastic, self._params)
        A, b = rows.within(reach)
        point, duals = self._solved(A, b, *rows.box(reach), rows.cost, len(rows.b) * elastic)
        return point, Proof(duals, np.zeros(reach.low.size))

    def _solved(
        self,
        A: FloatArray,
        b: FloatArray,
        least: FloatArray,
        most: FloatArray,
        cost: FloatArray,
        elastic: int = 0,
    ) -> tuple[FloatArray | None, FloatArray]:
        """Point and row duals of ``max cost . w, A w <= b, least <= w <= most``.

        The first so many rows are `elastic`.  Solvers have absolute tolerances: variables are moved
        to [-1, 1], and rows and costs have entries of at most one.
        """
        middle, half = 0.5 * (least + most), 0.5 * (most - least)
        with np.errstate(over="ignore", invalid="ignore"):
            A, b, cost = A * half, b - A @ middle, cost * half
            sizes, top = np.abs(A).max(axis=1, initial=0.0), float(np.abs(cost).max(initial=0.0))
            sizes, top = np.where(sizes > 0, sizes, 1.0), top or 1.0
            A, b, cost = A / sizes[:, None], b / sizes, cost / top
        if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(cost).all()):
            return None, np.zeros(len(b))
        low, high = -np.sign(half), np.sign(half)
        if elastic:
            price = self._params.price * float(np.abs(cost).sum())
            column = np.where(np.arange(len(b)) < elastic, -1.0, 0.0)
            A, cost = np.hstack([A, column[:, None]]), np.append(cost, -price)
            low, high = np.append(low, 0.0), np.append(high, np.inf)
        if self._program is None:
            self._program = LinearProgram(low, high, A, b, EQUAL)
        else:
            self._program.load(low, high, A, b)
        found = self._program.optimum(cost)
        if found is None:
            return None, np.zeros(len(b))
        return middle + half * found[1][: half.size], self._program.duals * (top / sizes)

    def _in_cross(
        self, rows: ReachRows, reach: Reach, elastic: bool
    ) -> tuple[FloatArray | None, Proof]:
        """The same in an l1 ball."""
        assert reach.point is not None
        d, p, unit = reach.low.size, reach.point, reach.sizes
        A, b = rows.within(reach)
        inputs = A[:, :d] * unit
        steps = np.hstack([inputs, -inputs, A[:, d:]])
        total = np.zeros(steps.shape[1])
        total[: 2 * d] = 1.0
        least = np.concatenate([np.zeros(2 * d), rows.least])
        most = np.concatenate([(reach.high - p) / unit, (p - reach.low) / unit, rows.most])
        c, gain = rows.cost, rows.cost[:d] * unit
        costs = np.concatenate([gain, -gain, c[d:]])
        point, duals = self._solved(
            np.vstack([steps, total]),
            np.append(b - A[:, :d] @ p, reach.radius),
            least,
            np.maximum(most, 0.0),
            costs,
            len(rows.b) * elastic,
        )
        rest = (c - A.T @ duals[:-1])[:d]
        most_pull = duals[-1] / unit
        proof = Proof(duals[:-1], np.clip(rest, -most_pull, most_pull))
        if point is None:
            return None, proof
        moved = p + reach.sizes * (point[:d] - point[d : 2 * d])
        return np.append(moved, point[2 * d :]), proof


def _value(bound: float, shift: float, error: float) -> float:
    """A bound of the costs as one of the aim, which may be off by so much."""
    return bound + shift + error + 4.0 * UNIT * (abs(bound) + abs(shift))
