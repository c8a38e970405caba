"""The upper end as a tree of cases that `lipyomo_check` can check.

The tree is made once the interval is known: a branch and bound that only has to prove its cutoff,
depth first, with the node bounds, the dual ascent, the margin programs and the branching rule of
the search.  What is written is proved in floating point, rounding errors counted, with room for the
checker's own rounding; what has no room is tried in the checker's arithmetic.  The file grows as
the tree does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.affine.system import NodeForm
from lipyomo.bounds.dual_ascent import IntArray, Rows, SingleArray
from lipyomo.bounds.preactivation import propagate, within
from lipyomo.bounds.stack import Stack
from lipyomo.errors import ProofError
from lipyomo.network import BoolArray, FloatArray, Layer, Network
from lipyomo.phases import LEFT, OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.refute import Refuter
from lipyomo.regions.partial import RegionProgram
from lipyomo.run import Clock
from lipyomo.search.relu.bound import bound_targets, inherited
from lipyomo.search.relu.context import Context, Question
from lipyomo.search.relu.empty import asks_program
from lipyomo.search.relu.learnt import Learnt
from lipyomo.search.relu.node import Node, stack_of
from lipyomo.search.relu.part import Worst
from lipyomo.search.relu.points import Points
from lipyomo.search.relu.propagate import substitute_back
from lipyomo.search.relu.score import candidates, score
from lipyomo.search.relu.split import halves, wants_box
from lipyomo.search.relu.tighten import tighten
from lipyomo.targets import ALL, Targets
from lipyomo_check import linear as checked
from lipyomo_check.semidefinite import MOST_CORNERS, Tangents
from lipyomo_check.statement import Statement, rational
from lipyomo_check.tree import targets_of as targets_of_statement

Steps = list[list[Any]]

_OURS = {checked.OPEN: OPEN, checked.RIGHT: RIGHT, checked.LEFT: LEFT}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}

AIM = 1e-9
"""Relative distance below the upper end that floating-point bounds aim at: where they are proved
with their rounding errors, the checker finds the same."""

FINE = 30
"""Bits of the largest multiplier, the others being whole multiples of the same unit."""

EXACT = 60
"""The same where no unit is open, and nothing else is lost."""

COARSE = 12
"""Bits of the largest weight of a bound."""

FEW = 16
"""Bits of stated bounds."""

SLACK = 1e-5
"""Bounds are stated with so much room, as a share of the pre-activation's range."""

ROUGH = 2.0**-21
"""And with so much of the sizes of terms, weighted ones among them: the checker's chords have
`checked.CHORD` bits, its lines are those of float64 numbers and ours of float32."""

POINTS = 64
"""Sampled points that tell which cases are not empty."""

GAIN = 0.2
"""Bounds by dual ascent are written if they cut off this share of a pre-activation's range."""

NEAR = 0.1
"""Slopes of lower lines as near as this to those that the checker takes are not written."""


KNOWN = 100.0
"""Nodes that the averages of the search count as."""


class Unfinished(ProofError):
    """The tree was stopped before its end."""


@dataclass(eq=False)
class _Parting:
    """A split whose sides are not both settled: where, on what, and what is left open so far."""

    ours: Node
    unit: int
    features: FloatArray
    still: list[Node] = field(default_factory=list)
    waiting: int = 2


@dataclass(eq=False)
class _Case:
    """A case: the checker's node, ours, which follows it, and what becomes of it.

    `steps` are complete once `parts`, the cases that it leaves (left first), are known.  If it is
    one side of a cut, `before` units were open before that.
    """

    node: checked.Node
    ours: Node
    parting: _Parting | None = None
    steps: Steps = field(default_factory=list)
    parts: list[_Case] | None = None
    before: int | None = None
    worst: Worst | None = None
    form: NodeForm | None = None

    @property
    def still(self) -> int:
        """Number of open units."""
        return self.node.phases.count(checked.OPEN)

    @property
    def is_known(self) -> bool:
        """Whether nothing was decided since its reduction, under which it was bounded."""
        return self.form is not None and self.form.units.size == self.still


class CaseTree:
    """Makes the cases of one proof.

    Parameters
    ----------
    problem : LipschitzProblem
    statement : Statement
        Of the same problem, with the upper end to be proved.
    stop : callable
        Polled; True gives up.
    time_limit : float, optional
        Seconds from now on, after which it gives up.
    promises : ndarray, shape (N,), optional
        What splits on each unit promised the search, on average.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        statement: Statement,
        stop: Callable[[], bool],
        time_limit: float = math.inf,
        promises: FloatArray | None = None,
    ) -> None:
        self._statement, self._clock = statement, Clock(time_limit, stop)
        self._linear = checked.Linear(statement)
        moving = ~problem.domain.frozen
        network, domain = problem.network, problem.domain
        if not moving.all():
            network = _held(network, moving, domain.upper)
            domain = domain.restrict(moving)
        self._moving = np.flatnonzero(moving)
        small = LipschitzProblem(network, domain, problem.input_norm, problem.output_norm)
        self._context = context = Context.of(Question(small))
        self._targets: Targets = context.targets
        self._system, self._domain = context.system, domain
        region = RegionProgram(context.system, domain)
        self._refuter = Refuter(context.system, domain, self._linear, region)
        rng, params = np.random.default_rng(0), context.params
        self._points = Points(small, context.units, rng, params)
        self._learnt = learnt = Learnt.nothing(context.system.count)
        if promises is not None:
            looks = learnt.looks + KNOWN
            self._learnt = replace(learnt, ahead=KNOWN * promises, looks=looks)
        self._points.enter(domain.sample(np.random.default_rng(0), POINTS))
        self._theirs = targets_of_statement(statement)
        self._turned: set[int] = set()
        self._numbers = self._numbered()
        self.cases = 0
        self.undivided: tuple[float, Steps] | None = None

    @property
    def _aim(self) -> float:
        """What floating-point bounds should reach."""
        return self._statement.upper * (1.0 - AIM)

    def _numbered(self) -> list[int]:
        """The checker's number of each of our targets."""
        theirs = self._theirs
        vertices = self._statement.vertices
        place = {target: number for number, target in enumerate(theirs)}
        found: list[int] = []
        for row, column in zip(self._targets.rows, self._targets.columns, strict=True):
            own = None if column == ALL else int(self._moving[column])
            if row == ALL:
                vertex = None if vertices is None else 0
            else:
                y = self._targets.functionals[row].tolist()
                negative = [-v for v in y]
                known = vertices or []
                vertex = next((i for i, v in enumerate(known) if v in (y, negative)), None)
                if vertex is not None and known[vertex] != y:
                    self._turned.add(len(found))
            if (vertex, own) not in place:
                raise ProofError("the output norm's dual vertices are not those of the proof")
            found.append(place[vertex, own])
        return found

    def nodes(self) -> Iterator[Steps]:
        """The nodes of the proof, depth first.

        Raises
        ------
        Unfinished
            If it is stopped.
        ProofError
            If a case can be neither closed nor split.
        """
        root = _Case(self._linear.root(), self._context.whole(self._points.count))
        self._follow(root)
        unwritten, waiting = [root], [root]  # the next one last
        together = self._context.params.together
        del root  # which leads to all others: what is written is forgotten
        while unwritten:
            while unwritten[-1].parts is None:
                if self._clock.expired:
                    raise Unfinished("the proof of the upper end was stopped")
                ahead = waiting[-together:]
                del waiting[-together:]
                self._settle(ahead)
                waiting += [part for case in ahead for part in reversed(case.parts or [])]
            case = unwritten.pop()
            self.cases += 1
            yield case.steps
            unwritten += reversed(case.parts or [])

    # -- some cases ------------------------------------------------------------------------------

    def _settle(self, cases: list[_Case]) -> None:
        """Find the steps of some cases, and what they leave."""
        for case in cases:  # what a child inherits may close it before anything is tightened
            if case.ours.evidence and self._context.ascent is not None:
                self._close(case)
        going = [case for case in cases if case.parts is None]
        while going:
            self._tighten([case for case in going if case.still])
            new = [case for case in going if case.parts is None and not case.is_known]
            again = [case for case in new if self._close(case)]
            for case in going:
                if case.parts is None and case not in again:
                    self._part(case)
            going = [case for case in again if case.parts is None]
        for case in cases:
            self._learn(case)
            case.form = case.worst = None
            if not case.parts:
                case.steps = self._needed(case)

    def _needed(self, case: _Case) -> Steps:
        """The steps of a case that leaves none, without the bounds that nothing rests on.

        What decides a unit, or contradicts itself, matters; so do, for what is proved afterwards,
        the ranges of the layers that it goes back through.
        """
        steps: Steps = []
        layer_of, node, last = self._system.layer_of, case.node, -1
        for step in reversed(case.steps):
            if step[0] == "empty":
                last = self._system.depth
            elif step[0] == "bound":
                kept = [
                    bound
                    for bound in step[1]
                    if bound[2] <= 0.0
                    or layer_of[bound[0]] < last
                    or node.lower[bound[0]] > node.upper[bound[0]]
                ]
                for unit, _, _, (_, (beta, _), _, _) in kept:
                    last = max(last, *(int(layer_of[k]) for k in [unit, *beta]))
                if not kept:
                    continue
                step = ["bound", kept]
            steps.append(step)
        return steps[::-1]

    def _close(self, case: _Case) -> bool:
        """Settle a case by bounds of its gradient; True if they decided units instead."""
        case.form = form = self._system.reduce(case.ours.phases)
        if not form.units.size:
            case.steps += self._full(case, form)
            case.parts = []
            return False
        self._bound_targets(case, form)
        case.steps += self._closed(case, form)
        if case.parting is None and case.before is None:  # the root
            self.undivided = self._undivided(case, form)
        targets = case.ours.targets.tolist()
        if not targets:
            case.steps.append(["end"])
            case.parts = []
        elif case.worst is not None and targets == [case.worst.found.target]:
            sides = self._excluded(case, form, case.worst)
            if not all(self._linear.settle(case.node, k) for k in sides):
                case.parts = []
            self._follow(case)
            return bool(sides)
        return False

    def _part(self, case: _Case) -> None:
        """Refute a case, or else split it."""
        form = case.form
        assert form is not None
        weights = self._refuted(case, form)
        if weights is not None:
            case.steps.append(["empty", weights])
            case.parts = []
            return
        ours = case.ours
        # bounds are stated with room, so that ever smaller boxes need not decide anything
        cuts = wants_box(self._context, ours) and case.still != case.before
        boxes = halves(self._context, ours) if cuts else []
        case.parts = self._cut(case, boxes) if boxes else self._split(case, form)
        for part in case.parts:
            self._follow(part)

    def _excluded(self, case: _Case, form: NodeForm, worst: Worst) -> list[int]:
        """Decide the units whose other sides the multipliers close; which ones."""
        target, aim = worst.found.target, self._aim
        bounder = self._context.bounder
        tries = [
            replace(given, step=float(f"{given.step:.6g}"))
            for given in bounder.exclusions(worst.found, (worst.off, worst.on), aim)
        ]
        if not tries:
            return []
        zeta, lam, rounded = self._rounded(target, worst.found.state.multipliers, form)
        bounds = bounder.prover.exclude(form, target, rounded, tries)
        sides: dict[int, list[Any]] = {}
        for given, bound in zip(tries, bounds, strict=True):
            if bound <= aim:
                unit = int(form.units[given.position])
                multiple = -given.step if target in self._turned else given.step
                sides[unit] = [unit, "L" if given.on else "R", multiple]
        if not sides:
            return []
        case.steps.append(["exclude", zeta, lam, list(sides.values())])
        for unit, side, _ in sides.values():
            case.node.phases[unit] = checked.LEFT if side == "L" else checked.RIGHT
        return list(sides)

    def _bound_targets(self, case: _Case, form: NodeForm) -> None:
        """Semidefinite bounds of a case, none of them proved."""
        unknown = np.full(case.ours.targets.size, np.inf)
        ours, aim = replace(case.ours, proved=unknown, target_bounds=unknown), self._aim
        found = bound_targets(self._context, ours, form, aim, 0.0, self._clock)
        case.ours, case.worst = found.node, found.worst

    # -- pre-activations -------------------------------------------------------------------------

    def _tighten(self, cases: list[_Case]) -> None:
        """Bound the pre-activations of some cases, of which nothing may be left."""
        if not self._domain.is_bounded:
            for case in cases:
                self._bound_by_intervals(case)
            return
        if self._context.ascent is None:
            return
        self._crown(cases)
        before = {case: case.still for case in cases if case.parts is None and case.still}
        cases = list(before)
        self._ascend(cases)
        self._crown([case for case in cases if case.parts is None and case.still < before[case]])

    def _bound_by_intervals(self, case: _Case) -> None:
        """State what intervals know of an unbounded domain, if the checker finds the same."""
        stack = stack_of([case.ours])
        over = within(self._domain, stack.low, stack.high)
        propagate(self._system.network.hidden, over, stack, linear=False)
        for start, stop in pairwise(self._system.starts):
            given: list[checked.Bound] = []
            for k in range(start, stop):
                if case.node.phases[k] == checked.OPEN:
                    low, high = float(stack.lower[0, k]), float(stack.upper[0, k])
                    sides = (1, high, case.node.upper[k]), (-1, -low, -case.node.lower[k])
                    given += [(k, sign, new, checked.NONE) for sign, new, old in sides if new < old]
            above = self._linear.above(case.node, [({k: sign}, own) for k, sign, _, own in given])
            known = [
                bound
                for bound, function in zip(given, above, strict=True)
                if self._linear.at_most(case.node, function, rational(bound[2]))
            ]
            if known and case.parts is None:
                nothing = [0, [[], []], [[], []], [[], []]]
                record = [[k, "R" if sign > 0 else "L", v, nothing] for k, sign, v, _ in known]
                self._bound(case, record)

    def _crown(self, cases: list[_Case]) -> None:
        """Bound the units for which that seems to matter."""
        if not cases:
            return
        stack = stack_of([case.ours for case in cases])
        width = stack.upper - stack.lower
        still = stack.phases == OPEN
        over = within(self._domain, stack.low, stack.high)
        with np.errstate(invalid="ignore"):
            substitute_back(self._system, over, stack)
            matters = self._system.layer_of < self._system.depth - 1
            new = stack.upper - stack.lower
            shrunk = ~np.isfinite(width) | ((new < (1.0 - GAIN) * width) & matters)
        use = still & (shrunk | (stack.phases != OPEN))
        for start, stop in pairwise(self._system.starts):
            alive = np.array([case.parts is None for case in cases])
            node, unit = np.nonzero(use[:, start:stop] & alive[:, None])
            keys = np.repeat(2 * (start + unit), 2) + np.tile([0, 1], len(unit))
            self._state(cases, np.repeat(node, 2), keys, None)

    def _ascend(self, cases: list[_Case]) -> None:
        """Bound by dual ascent what it improves."""
        ascent, params = self._context.ascent, self._context.params
        if ascent is None or not cases:
            return
        steps = params.ascent_cold * params.ascent_steps
        work = 2 * steps * ascent.work * max(case.still for case in cases)
        share = max(params.ascent_work // work, 1)
        if len(cases) > share:  # all steps are to be taken
            self._ascend(cases[:share])
            self._ascend(cases[share:])
            return
        stack = stack_of([case.ours for case in cases])
        width, before = stack.upper - stack.lower, _sides(stack)
        kept = [case.ours.warmth for case in cases]
        seen = [self._points.seen(case.ours.points) for case in cases]
        with np.errstate(invalid="ignore"):  # units without a kink have no bounds
            found, _ = tighten(ascent, self._system, stack, kept, seen)
        better, nodes, keys, values = _sides(stack), [], [], []
        for b, (case, own) in enumerate(zip(cases, found, strict=True)):
            if own is None or own is kept[b]:
                continue
            case.ours = replace(case.ours, warmth=own)
            unit = own.keys // 2
            matters = self._system.layer_of[unit] < self._system.depth - 1
            gain = np.where(matters, before[b, own.keys] - better[b, own.keys], 0.0)
            gain[better[b, own.keys] <= 0.0] = np.inf
            use = gain > GAIN * width[b, unit]
            nodes.append(np.full(np.count_nonzero(use), b))
            keys.append(own.keys[use])
            values.append(own.values[use].astype(np.float64))
        if nodes:
            self._state(cases, *(np.concatenate(parts) for parts in (nodes, keys, values)))

    def _state(
        self, cases: list[_Case], node: IntArray, keys: IntArray, values: FloatArray | None
    ) -> None:
        """State bounds (two keys a unit) of some cases, with these multipliers."""
        ascent, system = self._context.ascent, self._system
        if ascent is None or not keys.size:
            return
        stack = stack_of([case.ours for case in cases])
        unit = keys // 2
        rows = Rows(node, unit, np.where(keys % 2 == 0, 1.0, -1.0))
        lower, upper = (  # those that are infinite still are of later layers
            np.where(np.isfinite(side), side, other)
            for side, other in ((stack.lower, -1.0), (stack.upper, 1.0))
        )
        relaxation = ascent.relax(stack.phases, lower, upper, stack.low, stack.high)
        rounded = ascent.start(relaxation, rows)
        still = (stack.phases == OPEN)[node]
        steeper = (stack.upper > -stack.lower)[node]  # the checker's choice of lines
        line = np.where(steeper, system.right, system.left)
        rounded[:, : system.count] = np.where(still, line, rounded[:, : system.count])
        written: list[list[Any]] = [[0, [[], []], [[], []], [[], []]] for _ in keys]
        if values is not None:
            written = self._weights(values, rounded, still, steeper)
        tops = ascent.bounds(relaxation, rows, rounded)
        width = (stack.upper - stack.lower)[node, unit]
        tops += SLACK * np.where(np.isfinite(width), width, np.abs(tops))
        terms = np.where(still, 0.0, rounded[:, : system.count]) @ ascent.sizes
        tops += ROUGH * (ascent.sizes[unit] + terms)
        bounds: dict[int, list[Any]] = {}
        for r in np.flatnonzero(tops < _sides(stack)[node, keys]).tolist():
            side = "R" if rows.sign[r] > 0 else "L"
            bound = [int(unit[r]), side, _shortened_up(float(tops[r])), written[r]]
            bounds.setdefault(int(node[r]), []).append(bound)
        for b, own in bounds.items():
            self._bound(cases[b], own)

    def _bound(self, case: _Case, bounds: list[list[Any]]) -> None:
        """Enter bounds, as they are written, and what follows."""
        case.steps.append(["bound", bounds])
        known = [(k, 1 if side == "R" else -1, value, checked.NONE) for k, side, value, _ in bounds]
        if not self._linear.note(case.node, known):
            case.parts = []
        self._follow(case)

    def _weights(
        self, values: FloatArray, rounded: SingleArray, still: BoolArray, steeper: BoolArray
    ) -> list[list[Any]]:
        """Multipliers of dual ascent (R, columns) as they are written; `rounded` follows them.

        `still` tells the open units of each row, `steeper` those whose line the checker takes with
        their right slope.
        """
        system, count, top = self._system, self._system.count, 1 << checked.SLOPE
        jump = np.where(still, system.right - system.left, 1.0)
        alpha = np.clip((values[:, :count] - system.left) / jump, 0.0, 1.0)
        fine = np.rint(alpha * top).astype(np.int64)
        told = still & (np.abs(fine - np.where(steeper, top, 0)) > NEAR * top)
        weight = values.copy()
        weight[:, :count][still | ~system.kinked] = 0.0
        bits = np.maximum(COARSE - np.frexp(weight.max(axis=1, initial=0.0))[1], 0)
        whole = np.rint(np.ldexp(weight, bits[:, None])).astype(np.int64)
        own = np.ldexp(whole.astype(np.float64), -bits[:, None])
        own[:, :count] = np.where(still, rounded[:, :count], own[:, :count])
        rounded[:] = own
        rounded[:, :count][told] = (system.left + jump * fine / top)[told]
        beta, rho = whole[:, :count], whole[:, count:]
        parts = _pairs(beta, beta != 0), _pairs(fine, told), _pairs(rho, rho != 0)
        return [list(own) for own in zip(bits.tolist(), *parts, strict=True)]

    def _refuted(self, case: _Case, form: NodeForm) -> list[Any] | None:
        """Weights that contradict the case, where no point of it is known; None if none do."""
        ours, points = case.ours, self._points
        if ours.points.size:
            return None
        asks, self._learnt = asks_program(self._context, self._learnt)
        if form.units.size and not asks:
            return None
        weights, found = self._refuter.refute(case.node, form, ours)
        if found is not None:
            (near,) = points.visit(found.point[None], np.array([found.margin]))
            inside = points.within(near, ours.phases, np.flatnonzero(self._system.kinked))
            case.ours = replace(ours, points=inside)
        empty = int(weights is not None)
        self._learnt = self._learnt.counting(programs=1, empty_by_program=empty)
        return weights

    def _follow(self, case: _Case) -> None:
        """Let our node follow the checker's."""
        node, ours = case.node, case.ours
        phases = np.array([_OURS[p] for p in node.phases], dtype=np.int8)
        kinked = np.flatnonzero(self._system.kinked)
        inside = self._points.within(ours.points, phases, kinked)
        here = self._points.at(inside)
        case.ours = replace(
            ours,
            phases=phases,
            lower=np.array(node.lower, dtype=np.float64),
            upper=np.array(node.upper, dtype=np.float64),
            points=inside[((here >= ours.low) & (here <= ours.high)).all(axis=1)],
        )

    def _closed(self, case: _Case, form: NodeForm) -> Steps:
        """Close the targets whose bounds, once proved, are low enough."""
        ours, aim = case.ours, self._aim
        steps: Steps = []
        kept = []
        for index, target in enumerate(ours.targets.tolist()):
            own = ours.evidence.get(target)
            if own is not None and ours.target_bounds[index] <= aim * (1.0 + AIM):
                bound, step = self._bounding(target, own.multipliers, form)
                if bound <= aim * (1.0 + AIM):
                    steps.append(step)
                    continue
            kept.append(index)
        case.ours = replace(
            ours,
            targets=ours.targets[kept],
            target_bounds=ours.target_bounds[kept],
            proved=ours.proved[kept],
        )
        return steps

    def _undivided(self, case: _Case, form: NodeForm) -> tuple[float, Steps] | None:
        """The least upper end that a case proves without leaving others, and its steps."""
        ours, upper, steps = case.ours, self._statement.upper, list(case.steps)
        for target in ours.targets.tolist():
            own = ours.evidence.get(target)
            if own is None:
                return None
            bound, step = self._bounding(target, inherited(self._context, form, own), form)
            upper = max(upper, bound / (1.0 - 2.0 * AIM))
            steps.append(step)
        known = replace(case, steps=[*steps, ["end"]])
        return (upper, self._needed(known)) if math.isfinite(upper) else None

    def _bounding(
        self, target: int, multipliers: FloatArray, form: NodeForm
    ) -> tuple[float, list[Any]]:
        """What a target's multipliers prove as the checker reads them, and the step of it."""
        zeta, lam, rounded = self._rounded(target, multipliers, form)
        bound = self._context.bounder.prover.bound(form, target, rounded)
        return float(bound), ["close", [self._numbers[target]], zeta, lam]

    def _rounded(
        self, target: int, multipliers: FloatArray, form: NodeForm
    ) -> tuple[list[int], list[int], FloatArray]:
        """Zeta and lambda of a target's multipliers as the checker wants them, and as floats."""
        count = form.units.size
        head = multipliers.size - count
        whole = self._targets.columns[target] == ALL
        first = head - 1 if self._targets.input_norm == "l2" or not whole else head - form.inputs
        own = multipliers[first:]
        _, exponent = np.frexp(own.max())
        numbers = np.maximum(np.rint(np.ldexp(own, FINE - exponent)), 1.0)
        rounded = multipliers.copy()
        rounded[first:] = np.ldexp(numbers, exponent - FINE)
        written = numbers.astype(np.int64).tolist()
        return written[: head - first], written[head - first :], rounded

    def _full(self, case: _Case, form: NodeForm) -> Steps:
        """The steps of a case without open units."""
        tangents = Tangents(self._statement, self._linear, case.node)
        steps: Steps = []
        for target in case.ours.targets.tolist():
            number = self._numbers[target]
            pair = self._theirs[number]
            if tangents.at_most(self._statement.upper, pair):
                continue
            direct = self._direct(form, pair) if pair[0] is None else []
            upper = self._statement.upper
            zeta = next((v for v in direct if tangents.holds(upper, pair, v, [])), None)
            if zeta is not None:
                steps.append(["close", [number], zeta, []])
                continue
            weights = self._refuted(case, form)
            if weights is None:
                raise ProofError("the upper end could not be proved: " + self._why(*pair))
            return [["empty", weights]]
        return [*steps, ["end"]]

    def _why(self, vertex: int | None, column: int | None) -> str:
        """Why a full pattern is neither closed nor refuted."""
        if vertex is None and column is None and self._targets.input_norm == "linf":
            return (
                "the Euclidean norm of more than two outputs over a cube is known by the cube's "
                f"corners, which are listed for at most {MOST_CORNERS} inputs; take another norm"
            )
        return "a region with a larger norm seems to have no interior, but no certificate was found"

    def _direct(self, form: NodeForm, pair: tuple[int | None, int | None]) -> list[list[int]]:
        """Multipliers for the Euclidean norm of a fixed Jacobian, to be tried in turn."""
        equal = [1 << EXACT]
        if pair[1] is not None or self._targets.input_norm == "l2":
            return [equal]
        sums = np.abs(form.jacobian.T @ form.jacobian).sum(axis=1)
        scaled = np.ldexp(sums / max(sums.max(), 1e-300), EXACT)
        return [[int(z) + 1 for z in scaled], equal * form.inputs]

    # -- cases of a case -----------------------------------------------------------------------

    def _split(self, case: _Case, form: NodeForm) -> list[_Case]:
        units, features, self._learnt = candidates(
            self._context,
            case.ours,
            form,
            case.worst,
            self._learnt,
            self._learnt.weights(),
            self._statement.upper,
        )
        unit = int(units[0])
        children, parting = [], _Parting(case.ours, unit, features[0])
        for ours in case.ours.sides(unit):
            node = case.node.copy()
            node.phases[unit] = _THEIRS[int(ours.phases[unit])]
            self._linear.settle(node, unit)
            children.append(_Case(node, ours, parting))
        case.steps.append(["split", unit])
        return children

    def _learn(self, case: _Case) -> None:
        """Note what a split was worth, once both sides are known."""
        parting = case.parting
        if parting is None:
            return
        parting.waiting -= 1
        if case.parts:
            parting.still.append(case.ours)
        if not parting.waiting:
            upper = self._statement.upper
            value = score(self._context, parting.ours, parting.still, upper)
            self._learnt = self._learnt.learn(parting.unit, parting.features, value)

    def _cut(self, case: _Case, halves: list[Node]) -> list[_Case]:
        first, second = halves
        j = first.trail[-1].index
        value, place = float(first.high[j]), int(self._moving[j])
        node = case.node
        box = node.box
        ends = (box.lower[place], value), (value, box.upper[place])
        left, right = (node.copy(box.cut(place, *pair)) for pair in ends)
        case.steps.append(["cut", place, value])
        halved = (left, first), (right, second)
        return [_Case(node, ours, before=case.still) for node, ours in halved]


def _sides(stack: Stack) -> FloatArray:
    """Upper bounds of z and of -z, two columns a unit, shape (B, 2 N)."""
    return np.stack([stack.upper, -stack.lower], axis=2).reshape(len(stack.upper), -1)


def _pairs(numbers: IntArray, use: BoolArray) -> list[list[list[int]]]:
    """Of each row, indices and numbers of what is used."""
    row, index = np.nonzero(use)
    ends = np.searchsorted(row, np.arange(len(use) + 1)).tolist()
    found = index.tolist(), numbers[row, index].tolist()
    return [[part[start:stop] for part in found] for start, stop in pairwise(ends)]


def _shortened_up(value: float) -> float:
    """A number of few bits that is at least as large."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, FEW)), exponent - FEW)


def _held(network: Network, moving: BoolArray, values: FloatArray) -> Network:
    """The network in the moving inputs, with the same units; its bias is rounded.

    It only suggests certificates: the checker holds the inputs without rounding.
    """
    first, *others = network.layers
    weight = sp.csc_array(first.weight)
    held = np.flatnonzero(~moving)
    bias = first.bias + weight[:, held] @ values[held]
    kept = Layer(sp.csr_array(weight[:, np.flatnonzero(moving)]), bias, first.left, first.right)
    return Network([kept, *others], network.name)
