"""Semidefinite bounds of all targets over a whole domain: an anytime minimisation.

First, one factorisation gives bounds of all targets in closed form.  Then the largest bound is
lowered until another one is the largest, and so on.  Multipliers of one target prove bounds of all
others at the cost of a solve.  Targets below the cutoff are not treated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock, pace
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.processes import MOMENT
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.problems.norms import ONE_BY_ONE, OutputNorm
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.semidefinite.bounder import Bounder, Minimum
from lipyomo.relaxations.semidefinite.choice import Ball, RootCost, root_cost, threads_for
from lipyomo.relaxations.semidefinite.descent import Descent
from lipyomo.relaxations.semidefinite.ellipsoids import (
    ClosedForm,
    blocks,
    closed_forms,
)


def semidefinite_targets(problem: LipschitzProblem) -> Targets:
    """Return the targets of a problem; one ball for an l1 output norm with many outputs.

    Raises
    ------
    MethodError
        If the dual ball has too many vertices.
    """
    norm, (d, *_, m) = problem.output_norm, problem.tangent_network.sizes
    vertices = problem.dual_vertices
    if norm.dual_ball == "cube" and (vertices is None or len(vertices) > ONE_BY_ONE):
        return Targets.of(None, m, d, problem.norm)
    return targets_of(problem)


Report = Callable[[float], object]


def _unheard(value: float) -> None:
    """Ignore a report."""


@dataclass(frozen=True, eq=False)
class RootBounds:
    """Proved bounds of all targets under some phases; immutable, `run` returns improved ones.

    Attributes
    ----------
    bounder : Bounder
    form : NodeForm
    upper : ndarray, shape (T,)
        Proved bounds.
    cost : RootCost
        Predicted costs.
    norm : OutputNorm, optional
        The output norm, for a target that stands for all functionals (l2 unless it is l1).
    tolerance : float
        Relative accuracy of each minimum.
    closed : ClosedForm, optional
        Multipliers in closed form, common to all targets, once computed.
    own : mapping of int to ClosedForm
        Closed forms of single functionals, by row.
    known : (ndarray, ndarray), optional
        Multipliers zeta (of all inputs) and lambda to start all targets from instead.
    descents : mapping of int to Descent
        Descents of single targets so far.
    finished : frozenset of int
        Targets whose bounds cannot be lowered further.
    stopped : bool
        Whether there was no time for another step.
    """

    bounder: Bounder
    form: NodeForm
    upper: FloatArray
    cost: RootCost
    norm: OutputNorm | None = None
    tolerance: float = 1e-3
    closed: ClosedForm | None = None
    own: Mapping[int, ClosedForm] = field(default_factory=dict)
    known: tuple[FloatArray, FloatArray] | None = None
    descents: Mapping[int, Descent] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    stopped: bool = False

    @classmethod
    def of(
        cls,
        system: UnitSystem,
        targets: Targets,
        phases: FlatPhases,
        known: FloatArray | None = None,
        norm: OutputNorm | None = None,
        tolerance: float = 1e-3,
        bounder: Bounder | None = None,
        join: bool = False,
    ) -> RootBounds:
        """Set up the bounds; nothing is computed yet.

        Parameters
        ----------
        system : UnitSystem
        targets : Targets
        phases : ndarray of int8, shape (N,)
        known : ndarray, shape (T,), optional
            Known upper bounds.
        norm, tolerance
            See `RootBounds`.
        bounder : Bounder, optional
            A bounder to use; by default a new one.
        join : bool, optional
            Whether the new one may join inputs.
        """
        ball: Ball = "l1" if norm is not None and norm.dual_ball == "cube" else "l2"
        form = system.form(phases)
        layers = [part.stop - part.start for part in blocks(form.rows, form.inputs)]
        cost = root_cost(targets, form.inputs, form.units.size, layers)
        upper = np.full(targets.count, np.inf) if known is None else np.array(known, dtype=float)
        bounder = bounder or Bounder(system, targets, phases, ball, join)
        return cls(bounder, form, upper, cost, norm, tolerance)

    @property
    def targets(self) -> Targets:
        """The targets that are bounded."""
        return self.bounder.targets

    @property
    def value(self) -> float:
        """Upper bound of all targets."""
        return float(self.upper.max(initial=0.0))

    @property
    def minima(self) -> dict[int, Minimum]:
        """Best states of the targets that were lowered one by one, in floating point."""
        return {
            target: Minimum(target, descent.kernel, descent.best)
            for target, descent in self.descents.items()
            if descent.best is not None
        }

    @property
    def multipliers(self) -> dict[int, FloatArray]:
        """Multipliers (gamma, zeta, lambda) of these states."""
        return {target: found.state.multipliers for target, found in self.minima.items()}

    @property
    def steps(self) -> int:
        """Number of Newton steps so far."""
        return sum(found.state.iterations for found in self.minima.values())

    def run(
        self,
        cutoff: float = 0.0,
        clock: Clock | None = None,
        report: Report | None = None,
        closed_only: bool = False,
    ) -> RootBounds:
        """Lower the bounds until the largest one is minimal, or at most `cutoff`, or time is up.

        Parameters
        ----------
        cutoff : float, optional
            Bounds at or below it need not be lowered.
        clock : Clock, optional
            Work that does not fit into the time left is skipped.
        report : callable, optional
            Called with `value` whenever it has improved.
        closed_only : bool, optional
            Whether to compute the bounds in closed form only.
        """
        return _Lowering(cutoff, clock or Clock(), report or _unheard, closed_only).run(self)

    def begun(
        self, cutoff: float = 0.0, clock: Clock | None = None, report: Report | None = None
    ) -> RootBounds:
        """Bound all targets in closed form, unless this is done; parameters as for `run`."""
        return _Lowering(cutoff, clock or Clock(), report or _unheard).begun(self)

    def with_known(self, known: FloatArray) -> RootBounds:
        """Intersect with upper bounds (T,) that were found elsewhere."""
        return replace(self, upper=np.fmin(self.upper, known))

    def with_reported(self, found: FloatArray, report: Report) -> RootBounds:
        """Intersect with bounds (T,), and report an improvement."""
        root = self.with_known(found)
        if root.value < self.value:
            report(root.value)
        return root

    def proved(self, target: int, y: FloatArray, report: Report = _unheard) -> RootBounds:
        """Prove bounds of all targets by the multipliers of one of them."""
        return self.with_reported(self.bounder.prover.all_bounds(self.form, target, y), report)

    def decided(self) -> FloatArray:
        """Return the targets' values if no unit is unstable, rounded upwards."""
        jacobian, targets = self.form.jacobian, self.targets
        norm = self.norm
        if targets.whole_ball and norm is not None and norm.dual_ball == "cube":
            exact = np.array([operator_norm(jacobian, targets.norm, norm).upper])
            errors = np.array([float(self.bounder.prover.gradient_errors.sum())])
        else:
            exact, errors = targets.exact(jacobian), self.bounder.value_errors
        return np.asarray((exact + errors) * (1.0 + 2.0**-51 * (jacobian.size + 8)))

    def in_closed_form(self, clock: Clock) -> RootBounds:
        """Compute multipliers in closed form; unchanged if there is no time."""
        form, targets = self.form, self.targets
        euclidean = targets.norm != "linf"
        single = not (euclidean or targets.whole_ball)
        rows = np.unique(targets.rows).tolist() if single else []
        groups = [slice(None), *(slice(row, row + 1) for row in rows)]
        objective, stop = form.objective, lambda: clock.expired
        found, *forms = closed_forms(form.rows, objective, groups, form.inputs, euclidean, stop)
        if found is None or not clock.fits(self.cost.proof, MOMENT):
            return self
        own = {row: own for row, own in zip(rows, forms, strict=True) if own is not None}
        return replace(self, closed=found, own=own)

    def closed_multipliers(self) -> FloatArray:
        """Return the multipliers in closed form that prove bounds of all targets."""
        found, targets = self.closed, self.targets
        assert found is not None
        scale = found.zeta[:1] if targets.by_column else found.zeta
        outer = np.zeros(0)
        if targets.whole_ball:
            outer = np.sqrt(np.maximum(np.diagonal(found.gram), 1e-300))
        return np.concatenate([outer, scale, found.lam])


class _Lowering(NamedTuple):
    """The order in which bounds are lowered, and its limits; see `RootBounds.run`."""

    cutoff: float
    clock: Clock
    report: Report
    closed_only: bool = False

    def run(self, root: RootBounds) -> RootBounds:
        """Compute closed forms, then lower one bound after the other."""
        root, cost, plan = self.begun(root), root.cost, self
        if not root.form.units.size or root.value <= self.cutoff or not cost.fits:
            return root
        if not self.closed_only and not self.clock.fits(cost.approach + cost.proof):
            root, plan = replace(root, stopped=True), self._replace(closed_only=True)
        if root.targets.by_column and plan.closed_only:  # targets share the closed form
            return root
        with threads_for(cost.step):
            return plan._one_by_one(root)

    def begun(self, root: RootBounds) -> RootBounds:
        """Compute closed forms."""
        cost, clock = root.cost, self.clock
        if not root.form.units.size:
            return root.with_reported(root.decided(), self.report)
        if root.value <= self.cutoff or not cost.fits:
            return root
        with threads_for(cost.step):
            new = root.closed is None and root.known is None
            if new and clock.fits(cost.closed + cost.proof, MOMENT):
                root = root.in_closed_form(clock)
                if root.closed is not None:
                    root = root.proved(0, root.closed_multipliers(), self.report)
        return root

    def _one_by_one(self, root: RootBounds) -> RootBounds:
        """Lower the largest bound, one target after the other."""
        done = set(root.finished)
        while True:
            worst = int(np.argmax(root.upper))
            if worst in done or root.upper[worst] <= self.cutoff:
                return root
            descent = root.descents.get(worst)
            if descent is None:
                descent = self._descent(root, worst)
            elif self._late(root, descent):
                descent = None
            if descent is None:
                return replace(root, stopped=True)
            if not self.closed_only:
                late = partial(self._late, root)
                descent = descent.lowered(self._aim(root, worst), late, patient=True)
            root = replace(root, descents={**root.descents, worst: descent})
            if descent.best is None:
                done.add(worst)
                continue
            root = root.proved(worst, descent.best.multipliers, self.report)
            # a target that meets its aim and is still the worst would be chosen forever
            stuck = descent.value <= self._aim(root, worst) and root.upper[worst] >= root.value
            if self.closed_only or descent.done or stuck:
                done.add(worst)
            if descent.done:
                root = replace(root, finished=root.finished | {worst})

    def _descent(self, root: RootBounds, target: int) -> Descent | None:
        """Start a descent from a closed form; None if there is no time for it and its proof."""
        cost, clock, own = root.cost, self.clock, root.own.get(int(root.targets.rows[target]))
        kernel = root.bounder.kernel(root.form, target)
        known = root.known or (None if own is None else (own.zeta, own.lam))
        if not clock.fits(cost.proof if known is not None else cost.closed + cost.proof):
            return None
        start = None if known is None else root.bounder.fitted(kernel, target, *known)
        descent = Descent.begun(kernel, root.tolerance, lambda: clock.expired, start)
        return None if descent.best is None and clock.expired else descent

    def _aim(self, root: RootBounds, target: int) -> float:
        """Return the bound at which a target is no longer the worst, or below the cutoff."""
        others = float(np.delete(root.upper, target).max(initial=0.0))
        return max(self.cutoff, others) * (1.0 - EXACT_TOLERANCE)

    def _late(self, root: RootBounds, descent: Descent) -> bool:
        """Whether there is no time for a descent's next step and a proof; curtails the clock."""
        cost = root.cost
        step = descent.seconds or (cost.approach if descent.approaching else cost.step) * pace()
        late = self.clock.left <= 1.5 * step + cost.proof * pace()
        if late:
            self.clock.curtail()
        return late


def tighten_root(
    root: RootBounds,
    cascade: Cascade,
    clock: Clock,
    report: Report | None = None,
    cutoff: float = 0.0,
) -> RootBounds:
    """Run the first semidefinite steps, the joint stage of the cascade, then the other steps.

    Parameters
    ----------
    root : RootBounds
        Has the bounds of the cascade's quick stages.
    cascade : Cascade
        Its joint stage is run.
    clock : Clock
    report : callable, optional
        Called with proved bounds of all targets.
    cutoff : float, optional
        Bounds at or below it need not be lowered.
    """
    root = root.begun(cutoff, clock, report)
    cascade.tighten(root.upper)
    cascade.run(("joint",))
    root = root.with_known(cascade.bounds_of(root.targets))
    return root.run(cutoff, clock, report)
