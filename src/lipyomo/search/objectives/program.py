"""The largest value on a node, by one linear program over its triangle relaxation.

In the variables x (inputs) and y (outputs of unstable units above their kinks) the rows are those
of `lipyomo.primal.regions.partial` without margin.  Every row is relaxed by the rounding error of
its own pre-activation, and bounds are recomputed from the row duals (`reach.py`).  In an l1 ball x
is ``p + s - t`` with s, t >= 0, and one row limits the length of the step.  A Euclidean ball has
its own solver (`ball.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
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
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.params import Params
from lipyomo.search.objectives.reach import Proof, Reach, ReachRows
from lipyomo.search.objectives.twins import Twins


class Answer(NamedTuple):
    """The result of a node's program.

    Attributes
    ----------
    end : float
        From `NodeProgram.highest`: upper bound of the values; infinite if the solver finds no
        optimum.  From `NodeProgram.nearest`: lower bound of the distance.
    point : ndarray, shape (d,), or None
        Maximiser of the relaxation (at that distance, or slightly beyond).
    units : ndarray of int, shape (k,)
        Unstable units.
    scores : ndarray, shape (k,)
        Estimated drop of the bound if a unit's output were exact, from the duals.
    """

    end: float
    point: FloatArray | None = None
    units: IntArray = np.zeros(0, dtype=np.intp)
    scores: FloatArray = np.zeros(0)


class NodeProgram:
    """Solves the programs of one search.

    Parameters
    ----------
    system : UnitSystem
        The units; the last one is the aim.
    domain : Domain
    params : Params
    tolerance : float, optional
        Rounding errors valid for all phases are used if they are far below it.
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

    def highest(self, node: ValueNode, clock: Clock) -> Answer:
        """Bound the largest value of the aim's pre-activation, without its bias."""
        form = self._system.form(node.phases)
        node = self._with_all_signs(node)
        known = self._region.rows(form, node)
        rows, shift, error = self._rows(form, known, node.phases)
        reach = self._whole._replace(low=node.low, high=node.high)
        point, proof = self._largest(rows, reach, clock)
        if point is None and not clock.expired:  # the node has no interior, or the solver failed
            if self._region.examine(form, node).empty:
                return Answer(-np.inf)
            point, proof = self._largest(rows, reach, clock, elastic=True)
        bound = _value(rows.proved(reach, proof), shift, error)
        units, scores = self._violations(form, known, point, proof.duals)
        return Answer(bound, None if point is None else point[: form.inputs], units, scores)

    def nearest(
        self,
        node: ValueNode,
        reach_of: Callable[[float], Reach],
        start: float,
        limit: float,
        clock: Clock,
    ) -> Answer:
        """Bound the distance at which the aim's pre-activation reaches zero from below.

        It uses Newton's method, starting from the limit: the best multipliers for one distance
        prove that the value stays negative up to a larger one, as their bound is concave in it.

        Parameters
        ----------
        node : ValueNode
            A node whose bounds hold up to `limit`.
        reach_of : callable
            Returns the inputs within a distance.
        start, limit : float
            A known lower bound of the distance, and the largest distance that matters.
        clock : Clock
        """
        form = self._system.form(node.phases)
        known = self._region.rows(form, self._with_all_signs(node))
        rows, shift, error = self._rows(form, known, node.phases)
        found, at = Answer(start), limit
        for _ in range(self._params.newton):
            point, proof = self._largest(rows, reach_of(at), clock, elastic=True)
            if point is None:
                return found
            units, scores = self._violations(form, known, point, proof.duals)
            further = self._root(rows, (shift, error), proof, reach_of, found.end, limit)
            step = further - found.end
            found = Answer(further, point[: form.inputs], units, scores)
            if further >= limit:
                break
            if step <= EQUAL * limit and at <= further:
                # slightly beyond, by less than the tolerance, the value is positive
                nearby = reach_of(further * (1.0 + CLOSED / 2.0))
                beyond, _ = self._largest(rows, nearby, clock, elastic=True)
                if beyond is not None:
                    found = found._replace(point=beyond[: form.inputs])
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
        """Return the largest distance found up to which a proof keeps the value negative."""
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

    def _with_all_signs(self, node: ValueNode) -> ValueNode:
        """Replace bounds of stable units by bounds that are also valid below the cutoff.

        The node's own bounds only hold above the cutoff, so rows that they make redundant could be
        missing where the program has its maximum.
        """
        (low, high), open_ = self._plain, node.phases == OPEN
        lower, upper = np.where(open_, node.lower, low), np.where(open_, node.upper, high)
        return replace(node, lower=lower, upper=upper)

    @cached_property
    def _plain(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the pre-activations on the whole domain, independent of the cutoff."""
        found = preactivation_bounds(self._system.network, self._domain)
        return np.concatenate(found.lower), np.concatenate(found.upper)

    @cached_property
    def twins(self) -> Twins:
        """Pairs of units that are nearly equal on the whole domain."""
        return Twins.of(self._system, self._domain, *self._plain)

    def _rows(
        self, form: NodeForm, known: NodeRows, phases: FlatPhases
    ) -> tuple[ReachRows, float, float]:
        """Return the rows of a node and its twins, relaxed for rounding; a constant; its error."""
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
        """Bound the rounding errors of pre-activations, and of units' rows, shape (N,)."""
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
        """Return unstable units, and how much relaxed outputs above their own raise the bound.

        It is measured by the duals of their chords.  Twins, whose own rows bind instead, use the
        aim's coefficient of the unit's output.
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
        self, rows: ReachRows, reach: Reach, clock: Clock, elastic: bool = False
    ) -> tuple[FloatArray | None, Proof]:
        """Maximise the costs; return the maximiser (None if the solver fails) and multipliers.

        If `elastic`, the node's rows may be violated at a price: then there is an optimum even if
        they are infeasible, and its multipliers prove this.
        """
        if reach.norm == "l1":
            return self._in_cross(rows, reach, clock, elastic)
        if reach.norm == "l2":
            return largest_in_ball(rows, reach, elastic, self._params)
        A, b = rows.within(reach)
        soft = len(rows.b) * elastic
        point, duals = self._solved(A, b, *rows.box(reach), rows.cost, clock, soft)
        return point, Proof(duals, np.zeros(reach.low.size))

    def _solved(
        self,
        A: FloatArray,
        b: FloatArray,
        least: FloatArray,
        most: FloatArray,
        cost: FloatArray,
        clock: Clock,
        elastic: int = 0,
    ) -> tuple[FloatArray | None, FloatArray]:
        """Return the optimum and row duals of ``max cost . w, A w <= b, least <= w <= most``.

        The first `elastic` rows may be violated.  As solvers have absolute tolerances, variables
        are scaled to [-1, 1], and rows and costs to entries of at most one.
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
        found = self._program.optimum(cost, clock.left)
        if found is None:
            return None, np.zeros(len(b))
        return middle + half * found[1][: half.size], self._program.duals * (top / sizes)

    def _in_cross(
        self, rows: ReachRows, reach: Reach, clock: Clock, elastic: bool
    ) -> tuple[FloatArray | None, Proof]:
        """Do the same in an l1 ball."""
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
            clock,
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
    """Convert a bound of the costs to one of the aim, whose rounding error is added."""
    return bound + shift + error + 4.0 * UNIT * (abs(bound) + abs(shift))
