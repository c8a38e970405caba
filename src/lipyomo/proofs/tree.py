"""The upper end as a tree of cases that `lipyomo_check` can check.

The tree is made once the interval is known: a branch and bound that only has to prove its cutoff,
depth first, with the node bounds, the dual ascent, the margin programs and the branching rule of
the search.  What is written is proved in floating point, rounding errors counted, with room for the
checker's own rounding; what has no room is tried in the checker's arithmetic.  The file grows as
the tree does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.affine.system import NodeForm
from lipyomo.bnb.bounding import Worst
from lipyomo.bnb.branching import worth
from lipyomo.bnb.node import Node, stack_of, substitute_back
from lipyomo.bnb.tree import Tree
from lipyomo.bounds.dual_ascent import IntArray, Rows, SingleArray
from lipyomo.bounds.preactivation import within
from lipyomo.errors import ProofError
from lipyomo.network import BoolArray, FloatArray, Layer, Network
from lipyomo.phases import LEFT, OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.refute import Refuter
from lipyomo.targets import ALL, Targets
from lipyomo_check import linear as checked
from lipyomo_check.semidefinite import MOST_CORNERS, Tangents
from lipyomo_check.statement import Statement
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
"""And with so much of the terms' sizes: the checker's chords have `checked.CHORD` bits, its lines
are those of float64 numbers and ours of float32."""

POINTS = 64
"""Sampled points that tell which cases are not empty."""

GAIN = 0.2
"""Bounds by dual ascent are written if they cut off this share of a pre-activation's range."""

NEAR = 0.1
"""Slopes of lower lines as near as this to those that the checker takes are not written."""


TRIED = 8
"""Splits on a unit after which others that were worth more are preferred."""


class Unfinished(ProofError):
    """The tree was stopped before its end."""


@dataclass
class _Parting:
    """A split whose sides are not both settled: where, on what, and what is left open so far."""

    ours: Node
    unit: int
    still: list[Node] = field(default_factory=list)
    waiting: int = 2


@dataclass
class _Case:
    """A case that waits: the checker's node, and ours."""

    node: checked.Node
    ours: Node
    parting: _Parting | None = None


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
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        statement: Statement,
        stop: Callable[[], bool],
        time_limit: float = math.inf,
    ) -> None:
        self._statement, self._stop = statement, stop
        self._linear = checked.Linear(statement)
        moving = ~problem.domain.frozen
        network, domain = problem.network, problem.domain
        if not moving.all():
            network = _held(network, moving, domain.upper)
            domain = domain.restrict(moving)
        self._moving = np.flatnonzero(moving)
        self._kit = kit = Tree(
            LipschitzProblem(network, domain, problem.input_norm, problem.output_norm),
            np.random.default_rng(0),
        )
        self._targets: Targets = kit.targets
        self._system, self._domain = kit.system, domain
        self._bounder, self._brancher, self._tightener = kit.bounder, kit.brancher, kit.tightener
        self._bounder.deadline = time.perf_counter() + time_limit
        self._bounder.solved = 1  # its way of bounding roots leaves targets without multipliers
        self._refuter = Refuter(kit.system, domain, self._linear, kit.region)
        self._pool, self._experience = kit.pool, kit.experience
        self._pool.enter(domain.sample(np.random.default_rng(0), POINTS))
        self._theirs = targets_of_statement(statement)
        self._turned: set[int] = set()
        self._numbers = self._numbered()
        self.cases = 0

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
        waiting = [_Case(self._linear.root(), self._kit.whole())]
        while waiting:
            if self._stop() or time.perf_counter() > self._bounder.deadline:
                raise Unfinished("the proof of the upper end was stopped")
            self.cases += 1
            case = waiting.pop()
            steps, children = self._settled(case)
            self._learn(case, bool(children))
            yield steps
            waiting += reversed(children)

    # -- one case ------------------------------------------------------------------------------

    def _settled(self, case: _Case) -> tuple[Steps, list[_Case]]:
        """The steps of a case, and the cases that it leaves, left first."""
        steps: Steps = []
        ours, node = case.ours, case.node
        fresh = bool(ours.warm)  # what a child inherits may close it before anything is tightened
        while True:
            tightens = not fresh and self._tightener is not None and checked.OPEN in node.phases
            if tightens and not self._tightened(case, steps):
                return steps, []
            self._follow(case)
            form = self._system.reduce(ours.phases)
            if not form.units.size:
                return [*steps, *self._full(case, form)], []
            worst = self._bounded(ours, form)
            steps += self._closed(case, form)
            if not ours.targets.size:
                return [*steps, ["end"]], []
            if worst is not None and len(ours.targets) == 1:
                sides = self._excluded(case, form, worst, steps)
                if sides:
                    if not all(self._linear.settle(node, k) for k in sides):
                        return steps, []
                    fresh = False
                    continue
            if not fresh:
                break
            fresh = False
        weights = self._refuted(case, form)
        if weights is not None:
            return [*steps, ["empty", weights]], []
        cut = self._brancher.halves(ours) if self._brancher.wants_box(ours) else []
        if cut:
            return self._cut(case, cut, steps)
        return self._split(case, form, worst, steps)

    def _excluded(self, case: _Case, form: NodeForm, worst: Worst, steps: Steps) -> list[int]:
        """Decide the units whose other sides the multipliers close; which ones."""
        target, aim = worst.found.target, self._statement.upper * (1.0 - AIM)
        bounder = self._bounder.bounder
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
        steps.append(["exclude", zeta, lam, list(sides.values())])
        for unit, side, _ in sides.values():
            case.node.phases[unit] = checked.LEFT if side == "L" else checked.RIGHT
        return list(sides)

    def _bounded(self, ours: Node, form: NodeForm) -> Worst | None:
        """Semidefinite bounds of a case, none of them proved."""
        ours.proved = np.full(ours.targets.size, np.inf)
        ours.target_bounds = ours.proved.copy()
        return self._bounder.bound(ours, form, self._statement.upper * (1.0 - AIM), 0.0)

    # -- pre-activations -------------------------------------------------------------------------

    def _tightened(self, case: _Case, steps: Steps) -> bool:
        """Bound the pre-activations of a case; False if nothing is left of it."""
        if not self._crowned(case, steps):
            return False
        still = case.node.phases.count(checked.OPEN)
        if not self._ascended(case, steps):
            return False
        return case.node.phases.count(checked.OPEN) == still or self._crowned(case, steps)

    def _crowned(self, case: _Case, steps: Steps) -> bool:
        """Bound the units for which that seems to matter; False if nothing is left of the case."""
        self._follow(case)
        ours, stack = case.ours, stack_of([case.ours])
        over = within(self._domain, stack.low, stack.high)
        with np.errstate(invalid="ignore"):
            substitute_back(self._system, over, stack)
            width, new = ours.upper - ours.lower, stack.upper[0] - stack.lower[0]
            matters = self._system.layer_of < self._system.depth - 1
            shrunk = ~np.isfinite(width) | ((new < (1.0 - GAIN) * width) & matters)
        use = (ours.phases == OPEN) & (shrunk | (stack.phases[0] != OPEN))
        for start, stop in pairwise(self._system.starts):
            units = start + np.flatnonzero(use[start:stop])
            if units.size and not self._stated(
                case, np.repeat(2 * units, 2) + [0, 1] * len(units), None, steps
            ):
                return False
        return True

    def _ascended(self, case: _Case, steps: Steps) -> bool:
        """Bound by dual ascent what it improves; False if nothing is left of the case."""
        ours = case.ours
        seen, stack, before = self._pool.seen(ours.pool), stack_of([ours]), ours.ascent
        assert self._tightener is not None
        with np.errstate(invalid="ignore"):  # units without a kink have no bounds
            (found,) = self._tightener.tighten(stack, [before], [seen])
        if found is None or found is before:
            return True
        ours.ascent = found
        tops = np.stack([ours.upper, -ours.lower], axis=1).reshape(-1)[found.keys]
        better = np.stack([stack.upper[0], -stack.lower[0]], axis=1).reshape(-1)[found.keys]
        width = (ours.upper - ours.lower)[found.keys // 2]
        matters = self._system.layer_of[found.keys // 2] < self._system.depth - 1
        gain = np.where(better <= 0.0, np.inf, np.where(matters, tops - better, 0.0)) > GAIN * width
        return self._stated(case, found.keys[gain], found.values[gain].astype(np.float64), steps)

    def _stated(self, case: _Case, keys: IntArray, values: FloatArray | None, steps: Steps) -> bool:
        """State bounds (two keys a unit), with these multipliers; False if nothing is left."""
        if not keys.size:
            return True
        assert self._tightener is not None
        ours, ascent = case.ours, self._tightener.ascent
        rows = Rows(np.zeros_like(keys), keys // 2, np.where(keys % 2 == 0, 1.0, -1.0))
        node = stack_of([ours])
        lower, upper = (  # those that are infinite still are of later layers
            np.where(np.isfinite(side), side, other)
            for side, other in ((node.lower, -1.0), (node.upper, 1.0))
        )
        relaxation = ascent.relax(node.phases, lower, upper, node.low, node.high)
        rounded = ascent.start(relaxation, rows)
        system, still = self._system, ours.phases == OPEN
        line = np.where(ours.upper > -ours.lower, system.right, system.left)  # the checker's choice
        rounded[:, : system.count] = np.where(still, line, rounded[:, : system.count])
        written: list[list[Any]] = [[0, [[], []], [[], []], [[], []]] for _ in keys]
        if values is not None:
            written = self._weights(ours, values, rounded)
        tops = ascent.bounds(relaxation, rows, rounded)
        before = np.stack([ours.upper, -ours.lower], axis=1).reshape(-1)[keys]
        width = (ours.upper - ours.lower)[keys // 2]
        tops += SLACK * np.where(np.isfinite(width), width, np.abs(tops))
        tops += ROUGH * ascent.sizes[rows.unit]
        known, bounds = [], []
        for r in np.flatnonzero(tops < before).tolist():
            unit, sign, value = int(rows.unit[r]), int(rows.sign[r]), _shortened_up(float(tops[r]))
            known.append((unit, sign, value))
            bounds.append([unit, "R" if sign > 0 else "L", value, written[r]])
        if not bounds:
            return True
        steps.append(["bound", bounds])
        alive = self._linear.note(case.node, known)
        self._follow(case)
        return alive

    def _weights(self, ours: Node, values: FloatArray, rounded: SingleArray) -> list[list[Any]]:
        """Multipliers of dual ascent (R, columns) as they are written; `rounded` follows them."""
        system, count, top = self._system, self._system.count, 1 << checked.SLOPE
        still = ours.phases == OPEN
        jump = np.where(still, system.right - system.left, 1.0)
        alpha = np.clip((values[:, :count] - system.left) / jump, 0.0, 1.0)
        fine = np.rint(alpha * top).astype(np.int64)
        told = still & (np.abs(fine - np.where(ours.upper > -ours.lower, top, 0)) > NEAR * top)
        weight = values.copy()
        weight[:, :count][:, still | ~system.kinked] = 0.0
        bits = np.maximum(COARSE - np.frexp(weight.max(axis=1, initial=0.0))[1], 0)
        whole = np.rint(np.ldexp(weight, bits[:, None])).astype(np.int64)
        own = np.ldexp(whole.astype(np.float64), -bits[:, None])
        own[:, :count][:, still] = rounded[:, :count][:, still]
        rounded[:] = own
        rounded[:, :count][told] = (system.left + jump * fine / top)[told]
        written: list[list[Any]] = []
        for r, unit in enumerate(bits.tolist()):
            parts = (
                (whole[r, :count], whole[r, :count]),
                (fine[r], told[r]),
                2 * (whole[r, count:],),
            )
            written.append([unit, *(_pairs(numbers, use) for numbers, use in parts)])
        return written

    def _refuted(self, case: _Case, form: NodeForm) -> list[Any] | None:
        """Weights that contradict the case, where no point of it is known; None if none do."""
        ours, known = case.ours, self._experience
        if ours.pool.size or not (self._kit.asks_program() or not form.units.size):
            return None
        known.programs += 1
        weights, found = self._refuter.refute(case.node, form, ours)
        if found is not None:
            (near,) = self._pool.visit(found.point[None], np.array([found.margin]))
            ours.pool = self._pool.within(near, ours.phases, np.flatnonzero(self._system.kinked))
        known.empty_by_program += weights is not None
        return weights

    def _follow(self, case: _Case) -> None:
        """Let our node follow the checker's."""
        node, ours = case.node, case.ours
        ours.phases = np.array([_OURS[p] for p in node.phases], dtype=np.int8)
        ours.lower = np.array(node.lower, dtype=np.float64)
        ours.upper = np.array(node.upper, dtype=np.float64)
        pool, kinked = self._pool, np.flatnonzero(self._system.kinked)
        ours.pool = pool.within(ours.pool, ours.phases, kinked)
        points = pool.points[ours.pool]
        ours.pool = ours.pool[((points >= ours.low) & (points <= ours.high)).all(axis=1)]

    def _closed(self, case: _Case, form: NodeForm) -> Steps:
        """Close the targets whose bounds, once proved, are low enough."""
        ours, aim = case.ours, self._statement.upper * (1.0 - AIM)
        steps: Steps = []
        kept = []
        for index, target in enumerate(ours.targets.tolist()):
            multipliers = ours.warm.get(target)
            if multipliers is not None and ours.target_bounds[index] <= aim * (1.0 + AIM):
                zeta, lam, rounded = self._rounded(target, multipliers, form)
                if self._bounder.bounder.prover.bound(form, target, rounded) <= aim * (1.0 + AIM):
                    steps.append(["close", [self._numbers[target]], zeta, lam])
                    continue
            kept.append(index)
        ours.targets, ours.target_bounds = ours.targets[kept], ours.target_bounds[kept]
        ours.proved = ours.proved[kept]
        return steps

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
            zeta = self._direct(form, pair[1] is not None)
            if pair[0] is None and tangents.holds(self._statement.upper, pair, zeta, []):
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
                "the Euclidean norm of several outputs over a cube is known by the cube's corners, "
                f"which are listed for at most {MOST_CORNERS} inputs; take another norm"
            )
        return "a region with a larger norm seems to have no interior, but no certificate was found"

    def _direct(self, form: NodeForm, single: bool) -> list[int]:
        """Multipliers of the Euclidean norm of a fixed Jacobian."""
        if single or self._targets.input_norm == "l2":
            return [1 << EXACT]
        sums = np.abs(form.jacobian.T @ form.jacobian).sum(axis=1)
        return [int(z) + 1 for z in np.ldexp(sums / max(sums.max(), 1e-300), EXACT)]

    # -- cases of a case -----------------------------------------------------------------------

    def _split(
        self, case: _Case, form: NodeForm, worst: Worst | None, steps: Steps
    ) -> tuple[Steps, list[_Case]]:
        known = self._experience
        units = self._brancher.candidates(form, worst, known, self._statement.upper)
        expected = self._brancher.expected(units, known)
        best = int(np.argmax(np.where(np.isfinite(expected), expected, 0.0)))
        unit = int(units[0 if known.gains[units[0]] < TRIED else best])
        children, parting = [], _Parting(case.ours, unit)
        for ours in self._brancher.sides(case.ours, unit):
            node = case.node.copy()
            node.phases[unit] = _THEIRS[int(ours.phases[unit])]
            self._linear.settle(node, unit)
            children.append(_Case(node, ours, parting))
        return [*steps, ["split", unit]], children

    def _learn(self, case: _Case, still: bool) -> None:
        """Note what a split was worth, once both sides are known."""
        parting = case.parting
        if parting is None:
            return
        parting.waiting -= 1
        if still:
            parting.still.append(case.ours)
        if not parting.waiting:
            value = worth(parting.ours, parting.still, self._statement.upper)
            self._experience.gain[parting.unit] += value
            self._experience.gains[parting.unit] += 1

    def _cut(self, case: _Case, halves: list[Node], steps: Steps) -> tuple[Steps, list[_Case]]:
        first, second = halves
        j = first.trail[-1].index
        value, place = float(first.high[j]), int(self._moving[j])
        node = case.node
        box = node.box
        ends = (box.lower[place], value), (value, box.upper[place])
        left, right = (node.copy(box.cut(place, *pair)) for pair in ends)
        return [*steps, ["cut", place, value]], [_Case(left, first), _Case(right, second)]


def _pairs(numbers: IntArray, use: Any) -> list[list[int]]:
    """Indices and numbers of what is used."""
    index = np.flatnonzero(use)
    return [index.tolist(), numbers[index].tolist()]


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
