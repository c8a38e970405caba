"""Semidefinite bounds of all targets over a whole domain, better and better until stopped.

All targets get a bound in closed form from one factorisation, and those in question are lowered
together, with the same multipliers for all (`lipyomo.semidefinite.shared`).  Then the target with
the largest bound is lowered until another one has the largest, and so on; multipliers of one target
prove bounds of all others at the cost of a solve.  Targets that are not in question are never
touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.bounds.pairs import Pairs
from lipyomo.cascade import Cascade
from lipyomo.network import FloatArray
from lipyomo.norms import OutputNorm
from lipyomo.numerics.pace import fits, pace, seconds_of
from lipyomo.operator_norm import operator_norm
from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock
from lipyomo.semidefinite.bounder import Bounder, Minimum, shaped
from lipyomo.semidefinite.choice import Ball, predicted_seconds, threads_for
from lipyomo.semidefinite.descent import Descent
from lipyomo.semidefinite.ellipsoids import ClosedForm, blocks, closed_form_cost, closed_forms
from lipyomo.targets import ALL, Targets, targets_of

MAX_VERTICES = 512
"""Most vertices of a dual ball that are told apart where the ball can be bounded as a whole."""

MEMORY = 1 << 32
"""Bytes of matrices beyond which a semidefinite bound is left out."""

JOINT_BELOW = 0.3
"""The joint stage is above closed forms that are less than so many times the quick stages: on
trained networks it is at 0.3 to 0.8 times these, mostly where closed forms are at 0.5 or more."""

PAIRED_STEPS = 20.0
"""Steps, of those without them, that have to be left where products of pairs are looked for: steps
with them take up to twice as long, and a trained CNN with 856 open units and time for ten ended 5 %
above what it reaches without."""

FIRST_STEPS = 5.0
"""Steps for all outputs together for which there has to be time after the proof of closed forms;
else it is left out (CNN, 8/255, limit 2)."""

NEWTON = 5.0
"""Times that a Newton step takes as long as one of a quasi-Newton method."""

_MATRICES = 6
"""Square matrices that a step holds at a time, about."""

_GRACE = 0.3
"""Seconds by which the proof of what was found may exceed the time."""

_BELOW = 1e-6
"""How far below the next target's bound the worst one is lowered, relative."""


def semidefinite_targets(problem: LipschitzProblem) -> Targets:
    """The targets of a problem; those of an l1 output norm of many outputs as one ball.

    Raises
    ------
    MethodError
        If the dual ball has too many vertices.
    """
    norm, d, m = problem.output_norm, problem.network.input_dim, problem.network.output_dim
    vertices = problem.dual_vertices
    if norm.dual_ball == "cube" and (vertices is None or len(vertices) > MAX_VERTICES):
        columns = np.arange(d) if problem.input_norm == "l1" else np.array([ALL])
        return Targets(np.eye(m), np.full(columns.size, ALL), columns, problem.input_norm)
    return targets_of(problem)


@dataclass(frozen=True)
class RootCost:
    """What the semidefinite bounds of a root are predicted to take.

    Attributes
    ----------
    closed, proof, approach, step, full : float
        Seconds of one quiet core for bounds in closed form, for a proof, for the first steps of a
        descent and for its Newton steps, and for one target.
    bytes : float
    """

    closed: float
    proof: float
    approach: float
    step: float
    full: float
    bytes: float

    @property
    def fits(self) -> bool:
        """Whether the matrices fit into memory."""
        return self.bytes <= MEMORY


def root_cost(
    targets: Targets, inputs: int, units: int, layers: Sequence[int] | None = None
) -> RootCost:
    """Predict the cost of semidefinite bounds with so many inputs and open units.

    Parameters
    ----------
    targets : Targets
    inputs, units : int
    layers : sequence of int, optional
        The units, layer by layer; by default they all are in one.
    """
    euclidean = targets.input_norm == "l2" or targets.columns[0] != ALL
    d = 1 if targets.columns[0] != ALL else inputs
    whole = targets.rows[0] == ALL
    functionals = len(targets.functionals) if whole else 1
    ball: Ball = "l2" if whole else "vertices"
    closed = seconds_of(closed_form_cost(inputs, [units] if layers is None else layers))
    proof = seconds_of(4.0 * inputs * units**2 + 3.0 * units**3)
    full = predicted_seconds(d, units, functionals, euclidean, ball)
    step = predicted_seconds(d, units, functionals, euclidean, ball, steps=1)
    approach = step / NEWTON
    return RootCost(
        closed, proof, approach, step, full, 8.0 * _MATRICES * (d + units + functionals) ** 2
    )


class RootBounds:
    """Proved bounds of all targets under some phases.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets
    phases : ndarray of int8, shape (N,)
    known : ndarray, shape (T,), optional
        Bounds that are known already.
    norm : OutputNorm, optional
        The output norm, for a target that stands for all functionals (l2 unless it is l1).
    tolerance : float, optional
        Relative accuracy of each minimum.
    bounder : Bounder, optional
        Whose multipliers are wanted; by default one of its own.
    join : bool, optional
        Whether that one may join inputs.

    Attributes
    ----------
    targets : Targets
    upper : ndarray, shape (T,)
        Proved, valid at any moment.
    multipliers : dict of int to ndarray
        (gamma, zeta, lambda) of the targets that were lowered.
    steps : int
        Newton steps so far.
    stopped : bool
        Whether there was no time for another step.
    bounder : Bounder
        Of the multipliers: with products of pairs, once these were found.
    """

    def __init__(
        self,
        system: UnitSystem,
        targets: Targets,
        phases: FlatPhases,
        known: FloatArray | None = None,
        norm: OutputNorm | None = None,
        tolerance: float = 1e-3,
        bounder: Bounder | None = None,
        join: bool = False,
    ) -> None:
        self.targets, self._tolerance = targets, tolerance
        self._norm = norm
        ball: Ball = "l1" if norm is not None and norm.dual_ball == "cube" else "l2"
        self.bounder = bounder or Bounder(system, targets, phases, ball, join)
        self.form = system.form(phases)
        count = targets.count
        self.upper = np.full(count, np.inf) if known is None else np.array(known, dtype=float)
        self.multipliers: dict[int, FloatArray] = {}
        self._begun = self.stopped = False
        self._proof_seconds = 0.0
        self._step_seconds = {True: 0.0, False: 0.0}  # by whether a descent is still approaching
        self._forms: dict[int, ClosedForm] = {}  # by the row of a functional
        self._common: ClosedForm | None = None  # of all targets
        self._lowered: tuple[FloatArray, FloatArray] | None = None  # zeta, lambda of all of them
        self._descents: dict[int, Descent] = {}
        self._finished: set[int] = set()

    @property
    def value(self) -> float:
        """Upper bound of all targets."""
        return float(self.upper.max(initial=0.0))

    @property
    def steps(self) -> int:
        """Newton steps so far."""
        return sum(d.best.iterations for d in self._descents.values() if d.best is not None)

    @cached_property
    def cost(self) -> RootCost:
        """What the bounds are predicted to take."""
        form = self.form
        layers = [part.stop - part.start for part in blocks(form.rows, form.inputs)]
        return root_cost(self.targets, form.inputs, form.units.size, layers)

    def minimum(self, target: int) -> Minimum | None:
        """The least bound of a target in floating point; None if it was not lowered."""
        descent = self._descents.get(target)
        if descent is None or descent.best is None:
            return None
        return Minimum(target, descent.kernel, descent.best)

    def run(
        self,
        cutoff: float = 0.0,
        clock: Clock | None = None,
        report: Callable[[float], object] | None = None,
        closed_only: bool = False,
        find: Callable[[], Pairs] | None = None,
    ) -> float:
        """Lower the bounds until the largest one is minimal, or below `cutoff`, or time is up.

        Parameters
        ----------
        cutoff : float, optional
            Bounds at or below it need not be lowered.
        clock : Clock, optional
            What does not fit into its time is left out.
        report : callable, optional
            Called with `value` whenever it has dropped.
        closed_only : bool, optional
            Whether the bounds in closed form are all that is wanted.
        find : callable, optional
            Finds pairs of units that exclude each other.  It is called once, when bounds without
            their products have begun to fall slowly: before, cheaper steps get further.

        Returns
        -------
        float
            `value`.
        """
        clock = clock or Clock()
        report = report or (lambda value: None)
        self.begin(cutoff, clock, report, closed_only)
        cost = self.cost
        if not self.form.units.size or self.value <= cutoff or not cost.fits:
            return self.value
        if not closed_only and not clock.fits(cost.approach + cost.proof):
            closed_only = self.stopped = True
        by_column = self.targets.columns[0] != ALL  # these share all that a closed form has
        if not (by_column and closed_only):
            with threads_for(cost.step):
                self._descend(cutoff, clock, report, closed_only, find)
        return self.value

    def begin(
        self,
        cutoff: float = 0.0,
        clock: Clock | None = None,
        report: Callable[[float], object] | None = None,
        closed_only: bool = False,
    ) -> None:
        """Bound all targets in closed form, and lower them together; parameters are those of `run`.

        What is done already is not done again.
        """
        clock = clock or Clock()
        report = report or (lambda value: None)
        if not self.form.units.size:
            self._lower(self._decided(), report)
            return
        cost = self.cost
        if self.value <= cutoff or not cost.fits:
            return
        y: FloatArray | None = None
        with threads_for(cost.step):
            if not self._begun and clock.fits(cost.closed + cost.proof, _GRACE):
                y = self._closed(clock)
            steps = FIRST_STEPS * cost.approach + 2.0 * cost.proof
            hurried = not closed_only and not fits(steps, clock.left)
            if y is not None and not hurried:
                self._prove(0, y, report)
            together = not closed_only and self._lower_together(cutoff, clock, report)
            if y is not None and hurried and not together:
                self._prove(0, y, report)

    def _pair(self, find: Callable[[], Pairs]) -> None:
        """Go on with the products of those pairs of units that promise most where descents are."""
        bounder, form = self.bounder, self.form
        chosen = bounder.best_pairs(form, self.multipliers, find())
        if not chosen.count:
            return
        bounder = self.bounder = bounder.with_pairs(chosen)
        for target, descent in self._descents.items():
            longer = self._descents[target] = descent.extended(bounder.kernel(form, target))
            if longer.best is not None:
                self.multipliers[target] = longer.best.multipliers
        self._finished.clear()

    def _takes_pairs(self, target: int, clock: Clock) -> bool:
        """Whether products of pairs can be used, and steps with them fit into the time left."""
        cost = PAIRED_STEPS * self.cost.step
        return clock.fits(cost) and self.bounder.takes_pairs(self.form, target)

    def take(self, known: FloatArray) -> None:
        """Take bounds (T,) that were found otherwise."""
        self.upper = np.fmin(self.upper, known)

    def _lower(self, found: FloatArray, report: Callable[[float], object]) -> None:
        before = self.value
        self.upper = np.fmin(self.upper, found)
        if self.value < before:
            report(self.value)

    def _prove(self, target: int, y: FloatArray, report: Callable[[float], object]) -> None:
        """Lower all bounds to what the multipliers of a target prove."""
        self.bounder.prover.sized(self.form)  # once
        began = time.perf_counter()
        self._lower(self.bounder.prover.all_bounds(self.form, target, y), report)
        self._proof_seconds = time.perf_counter() - began

    def _decided(self) -> FloatArray:
        """No open unit: the targets' values, with their rounding."""
        jacobian, targets = self.form.jacobian, self.targets
        norm = self._norm
        if targets.rows[0] == ALL and norm is not None and norm.dual_ball == "cube":
            exact = np.array([operator_norm(jacobian, targets.input_norm, norm).upper])
            errors = np.array([float(self.bounder.prover.gradient_errors.sum())])
        else:
            exact, errors = targets.exact(jacobian), self.bounder.value_errors
        return np.asarray((exact + errors) * (1.0 + 2.0**-51 * (jacobian.size + 8)))

    def _closed(self, clock: Clock) -> FloatArray | None:
        """Multipliers in closed form that prove bounds of all targets; None if time is over."""
        form, targets = self.form, self.targets
        by_column, whole = targets.columns[0] != ALL, targets.rows[0] == ALL
        euclidean = targets.input_norm != "linf"
        own = [] if euclidean or whole else np.unique(targets.rows).tolist()
        groups = [slice(None), *(slice(row, row + 1) for row in own)]
        objective, stop = form.objective, lambda: clock.expired
        found, *forms = closed_forms(form.rows, objective, groups, form.inputs, euclidean, stop)
        if found is None or not clock.fits(self.cost.proof, _GRACE):
            return None
        self._begun, self._common = True, found
        self._forms = {row: own for row, own in zip(own, forms, strict=True) if own is not None}
        scale = found.zeta[:1] if by_column else found.zeta
        outer = np.zeros(0)
        if whole:
            outer = np.sqrt(np.maximum(np.diagonal(found.gram), 1e-300))
        pairs = self.bounder.prover.pairs.among(form.units)
        return np.concatenate([outer, scale, found.lam, np.zeros(pairs.count)])

    def _late(self, descent: Descent, clock: Clock) -> bool:
        """Whether there is no time for a descent's next step and a proof."""
        near = descent.approaching
        step = descent.seconds or self._step_seconds[near]
        step = step or (self.cost.approach if near else self.cost.step) * pace()
        proof = self._proof_seconds or self.cost.proof * pace()
        self.stopped = clock.left <= 1.5 * step + proof
        if self.stopped:
            clock.curtail()
        return self.stopped

    def _lower_together(
        self, cutoff: float, clock: Clock, report: Callable[[float], object]
    ) -> bool:
        """Lower the bounds of all targets in question with the same multipliers, once.

        Returns whether anything was proved.
        """
        if self._common is None or not clock.fits(self.cost.approach + self.cost.proof):
            return False
        questioned, start = np.flatnonzero(self.upper > cutoff), self._common
        self._common = None
        kernel = None if start is None else self.bounder.shared(self.form, questioned)
        if start is None or kernel is None:
            return False
        y = shaped(start.zeta, kernel.inputs, kernel.euclidean)
        y = np.concatenate([y, start.lam])
        begun = Descent.begun(kernel, self._tolerance, lambda: clock.expired, y)
        descent = begun.lowered(stop=lambda now: not now.approaching or self._late(now, clock))
        if descent.best is None:
            return False
        self._step_seconds[True] = descent.seconds
        zeta, lam = np.split(descent.best.multipliers, [kernel.inputs])
        zeta = shaped(zeta, self.form.inputs, kernel.euclidean)
        self._lowered = zeta, lam
        self._prove(int(questioned[0]), np.concatenate([zeta, lam]), report)
        return True

    def _aim(self, target: int, cutoff: float) -> float:
        """Where a target is no longer the worst, or out of question."""
        others = float(np.delete(self.upper, target).max(initial=0.0))
        return max(cutoff, others) * (1.0 - _BELOW)

    def _descend(
        self,
        cutoff: float,
        clock: Clock,
        report: Callable[[float], object],
        closed_only: bool,
        find: Callable[[], Pairs] | None,
    ) -> None:
        """Lower the largest bound, one target after the other."""
        finished = set(self._finished)

        def late(descent: Descent) -> bool:
            return self._late(descent, clock)

        while True:
            worst = int(np.argmax(self.upper))
            if worst in finished or self.upper[worst] <= cutoff:
                return
            aim = self._aim(worst, cutoff)
            descent = self._descents.get(worst)
            if descent is None:
                descent = self._begun_descent(worst, clock)
            elif late(descent):
                return
            if descent is None:
                return

            def enough(descent: Descent, pairing: bool = find is not None) -> bool:
                return (pairing and descent.centred) or late(descent)

            if not closed_only:
                descent = self._descents[worst] = descent.lowered(aim, enough, patient=True)
                self._step_seconds[descent.approaching] = descent.seconds
            if descent.best is None:
                finished.add(worst)
                continue
            y = descent.best.multipliers
            self.multipliers[worst] = y
            self._prove(worst, y, report)
            if find is not None and (descent.centred or descent.done):
                asked, find = find, None
                if self._takes_pairs(worst, clock):
                    self._pair(asked)
                    finished = set()
                    continue
            # a target that meets its aim and is still the worst would come up for ever
            stuck = descent.value <= self._aim(worst, cutoff) and self.upper[worst] >= self.value
            if closed_only or descent.done or stuck:
                finished.add(worst)
            if descent.done:
                self._finished.add(worst)

    def _begun_descent(self, target: int, clock: Clock) -> Descent | None:
        """A descent from a closed form; None if there is no time for that one and its proof."""
        cost, known = self.cost, self._forms.get(int(self.targets.rows[target]))
        kernel = self.bounder.kernel(self.form, target)
        begun = known is not None or self._lowered is not None
        needed = cost.proof if begun else cost.closed + cost.proof
        if not clock.fits(needed):
            self.stopped = True
            return None
        start = None
        if self._lowered is not None:
            start = self.bounder.fitted(kernel, target, *self._lowered)
        elif known is not None:
            start = self.bounder.fitted(kernel, target, known.zeta, known.lam)
        descent = Descent.begun(kernel, self._tolerance, lambda: clock.expired, start)
        if descent.best is None and clock.expired:
            return None
        self._descents[target] = descent
        return descent


def tighten_root(
    root: RootBounds,
    cascade: Cascade,
    clock: Clock,
    report: Callable[[float], object] | None = None,
    cutoff: float = 0.0,
    find: Callable[[], Pairs] | None = None,
) -> None:
    """Go from the quick stages to the semidefinite ones, with the joint stage in between.

    It is left out where closed forms are so far below the quick stages that it would be above them.

    Parameters
    ----------
    root : RootBounds
        Begins with the bounds of `cascade`.
    cascade : Cascade
        Its joint stage is run.
    clock : Clock
    report : callable, optional
        Called with proved bounds of all targets.
    cutoff : float, optional
        Bounds at or below it need not be lowered.
    find : callable, optional
        Finds pairs of units that exclude each other, where their products can be used.
    """
    quick = cascade.value
    root.begin(cutoff, clock, report)
    cascade.tighten(root.upper)
    if not root.value < JOINT_BELOW * quick:
        cascade.run(("joint",))
    root.take(cascade.bounds_of(root.targets))
    root.run(cutoff, clock, report, find=find)
