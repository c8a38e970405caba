"""The cascade of upper bounds: relaxations applied one after another, the cheapest first.

The constant is the maximum of a few scalars, its targets (`lipyomo.problems.targets`).  Each stage
bounds targets from above, and the least bound found for each target is kept.  The current bounds
are therefore valid at any moment and never get looser.  A stage starts with the target of the
largest bound and stops once that bound cannot be improved: the others cannot lower the maximum.

Stages, cheapest first:

- ``entries``: interval bounds of the gradient's entries (FastLip);
- ``tangents``: derivatives in all directions of the unit ball, all functionals in one pass;
- ``joint``: back-substitution of the gradient's norm as a whole.

Semidefinite bounds follow: closed-form ellipsoids (ECLipsE), and the bound over all open units
that serves branch and bound at its root (`lipyomo.relaxations.semidefinite.root`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np

from lipyomo.base.arrays import TOGETHER, FloatArray
from lipyomo.base.clock import Clock, dense_entries, seconds_of
from lipyomo.base.errors import MethodError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.phases import count_open
from lipyomo.problems.norms import ONE_BY_ONE
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.relaxations.linear import LayerBounds
from lipyomo.relaxations.linear.balls import DualBall, SingleFunctionals
from lipyomo.relaxations.linear.gradient import gradient_ends, tangent_ends

Stage = Literal["entries", "tangents", "joint"]

STAGES: tuple[Stage, ...] = get_args(Stage)

QUICK: tuple[Stage, ...] = ("entries", "tangents")
"""Stages that treat all targets in one pass."""

Found = tuple[FloatArray, FloatArray | None]
"""Bounds of the gradient norms of b functionals (b,), and of their entries (b, d) if known."""


class Cascade:
    """Upper bounds of the targets of a problem.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    bounds : LayerBounds
        Of the pre-activations over its domain.
    clock : Clock, optional
        `run` skips stages that do not fit into the time left and returns soon after it expires.
    report : callable, optional
        Called with the upper bound of the constant whenever it has improved.

    Attributes
    ----------
    bounds : LayerBounds
    targets : Targets
        One for each vertex of the dual ball, or one for the whole ball if it has many.
    upper : ndarray, shape (T,)
        Upper bounds of the targets, safe against rounding; infinite before the first stage.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        bounds: LayerBounds,
        clock: Clock | None = None,
        report: Callable[[float], object] | None = None,
    ) -> None:
        self.problem, self.bounds = problem, bounds
        self._treated: dict[Stage, set[int]] = {stage: set() for stage in STAGES}
        self.targets = cascade_targets(problem)
        self.upper = np.full(self.targets.count, np.inf)
        self._clock = clock or Clock()
        self._report = report
        self._whole = self.targets.whole_ball
        self._count = 1 if self._whole else len(self.targets.functionals)

    @property
    def value(self) -> float:
        """Upper bound of the constant."""
        return float(self.upper.max(initial=0.0))

    @with_one_blas_thread
    def run(self, stages: Sequence[Stage] = STAGES) -> None:
        """Run the stages in turn: the first in any case, later ones if they fit into the time left.

        If there is no time for the first stage and vertices outnumber outputs, the bounds of the
        vertices are derived from those of the outputs.  A stage treats no target twice: run again,
        it continues with the target of the largest bound, if other bounds found meanwhile have made
        that a new one.  The tangent stage is skipped where the joint stage costs less than twice as
        much, as with wide convolutions.
        """
        for stage in stages:
            if stage == "tangents" and 2.0 * self.predicted(stage) > self.predicted("joint"):
                continue
            while rows := self._next(stage):
                late = not self._clock.fits(self.predicted(stage, len(rows)))
                if late and math.isfinite(self.value):
                    break
                if late and len(rows) > self.problem.network.output_dim:
                    self._take(rows, *self._by_output(rows))
                    return
                self._treated[stage].update(rows)
                self._take(rows, *self._found(stage, rows))
                if self._clock.expired:
                    return

    @with_one_blas_thread
    def bounds_of(self, targets: Targets) -> FloatArray:
        """Return upper bounds of targets, possibly finer ones than the cascade's, shape (T,)."""
        same = targets.count == self.targets.count
        return self.upper.copy() if same else np.full(targets.count, self.value)

    @with_one_blas_thread
    def tighten(self, upper: FloatArray) -> None:
        """Use upper bounds of targets that were found elsewhere, shape (T,).

        They may belong to finer targets than the cascade's; only their maximum is used then.
        """
        known = upper if upper.size == self.upper.size else float(upper.max(initial=0.0))
        self.upper = np.fmin(self.upper, known)

    def predicted(self, stage: Stage, functionals: int | None = None) -> float:
        """Estimate the seconds that a stage takes for some functionals, by default for all."""
        network = self.problem.tangent_network
        count = self._count if functionals is None else functionals
        if stage == "entries":
            return sum(seconds_of(8.0 * count * dense_entries(a.weight)) for a in network.layers)
        weights = [float(layer.weight.size) for layer in network.layers]
        members = [count_open((phase,)) for phase in self.bounds.phases]
        before, ends, together, turns = network.input_dim, count, 1, 1
        if stage == "joint":
            weights, members = weights[::-1], members[::-1]
            before, ends = network.output_dim, network.input_dim
            together, turns = min(count, TOGETHER), math.ceil(count / TOGETHER)
        work = substitution = 0.0  # multiplications in total; to substitute one row back from here
        for entries, units in zip(weights, [*members, ends], strict=True):
            work += entries * before + 2.0 * together * units * substitution
            substitution += float(units) * before
            before += units
        return turns * seconds_of(2.0 * work)

    # -- the stages --------------------------------------------------------------------------------

    def _next(self, stage: Stage) -> list[int]:
        """Return the functionals to treat next; none if that of the largest bound was treated."""
        worst = np.full(self._count, -np.inf)
        np.maximum.at(worst, np.maximum(self.targets.rows, 0), self.upper)
        order, treated = np.argsort(-worst, kind="stable").tolist(), self._treated[stage]
        if not order or order[0] in treated:
            return []
        rows = [row for row in order if row not in treated]
        return rows[:TOGETHER] if stage == "joint" else rows

    def _found(self, stage: Stage, rows: list[int]) -> Found:
        """Bound the gradients of some functionals by a stage."""
        if stage == "tangents":
            return self._tangents(rows), None
        problem = self.problem
        norm = problem.output_norm
        ends = gradient_ends(
            problem.tangent_network,
            self.bounds.phases,
            DualBall(norm) if self._whole else SingleFunctionals(self.targets.functionals[rows]),
            problem.norm,
            "interval" if stage == "entries" else "linear",
            self._clock.steps(),
        )
        return ends.norm, ends.entries

    def _by_output(self, rows: list[int]) -> Found:
        """Bound functionals by means of bounds of the outputs and the triangle inequality."""
        problem = self.problem
        outputs = SingleFunctionals(np.eye(problem.network.output_dim))
        ends = gradient_ends(
            problem.tangent_network, self.bounds.phases, outputs, problem.norm, "interval"
        )
        sizes = np.abs(self.targets.functionals[rows]) * (1.0 + gamma(outputs.batch + 2))
        return sizes @ ends.norm, sizes @ ends.entries

    def _tangents(self, rows: list[int]) -> FloatArray:
        """Bound the gradient norms of some functionals by tangents."""
        problem, targets = self.problem, self.targets
        functionals = np.eye(problem.network.output_dim) if self._whole else targets.functionals
        sizes = tangent_ends(
            problem.tangent_network,
            self.bounds.phases,
            functionals,
            problem.norm,
            stop=self._clock.steps(),
        )
        if self._whole:
            size = float(problem.output_norm.largest(sizes))
            sizes = np.array([size * (1.0 + 2.0**-51 * (2 * functionals.shape[1] + 8))])
        return sizes[rows]

    def _take(self, rows: list[int], norms: FloatArray, entries: FloatArray | None) -> None:
        """Update the targets of these functionals where the new bounds are smaller."""
        before = self.value
        targets = self.targets
        place = np.full(self._count, -1)
        place[rows] = np.arange(len(rows))
        at = place[np.maximum(targets.rows, 0)]
        hit = np.flatnonzero(at >= 0)
        values = norms[at[hit]]
        if targets.by_column and entries is not None:
            values = np.minimum(values, entries[at[hit], targets.columns[hit]])
        self.upper[hit] = np.fmin(self.upper[hit], values)
        after = self.value
        if self._report is not None and after < before:
            self._report(after)


def cascade_targets(problem: LipschitzProblem) -> Targets:
    """Return the targets of a problem, coarser than those of the search if these are too many."""
    vertices = problem.dual_vertices
    if vertices is not None and len(vertices) <= ONE_BY_ONE:
        try:
            return targets_of(problem)
        except MethodError:
            return Targets.of(vertices, len(vertices[0]), None, problem.norm)
    if vertices is None and problem.norm == "l1" and not problem.output_norm.is_linear:
        return targets_of(problem)
    return Targets.of(None, problem.network.output_dim, None, problem.norm)
