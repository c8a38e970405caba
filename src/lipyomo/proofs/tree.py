"""The upper end as a tree of cases that `lipyomo_check` can check.

The tree is made once the interval is known: a branch and bound that only has to prove its cutoff,
depth first, with the node bounds, the dual ascent, the margin programs and the branching rule of
the search.  Every certificate is tried by the checker's own arithmetic before it is written, so
that a finished tree is a proof by construction; the file grows as the tree does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.affine.system import NodeForm
from lipyomo.bnb.bounding import Worst
from lipyomo.bnb.node import Node, stack_of, substitute_back
from lipyomo.bnb.tree import Tree
from lipyomo.bounds.preactivation import within
from lipyomo.errors import ProofError
from lipyomo.network import BoolArray, FloatArray, Layer, Network
from lipyomo.phases import LEFT, OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.refute import Refuter
from lipyomo.targets import ALL, Targets
from lipyomo_check import linear as checked
from lipyomo_check.semidefinite import Tangents
from lipyomo_check.statement import Statement
from lipyomo_check.tree import targets_of as targets_of_statement

Steps = list[list[Any]]

_OURS = {checked.OPEN: OPEN, checked.RIGHT: RIGHT, checked.LEFT: LEFT}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}

AIM = 1e-9
"""Relative distance below the upper end that floating-point bounds aim at."""

POINTS = 64
"""Sampled points that tell which cases are not empty."""

GAIN = 0.05
"""Bounds by dual ascent are written if they cut off this share of a pre-activation's range."""

NEAR = 0.01
"""Slopes of lower lines as near as this to those that the checker takes are not written."""

WEAK = 1e-4
"""Nor are weights below this share of the largest."""


class Unfinished(ProofError):
    """The tree was stopped before its end."""


@dataclass
class _Case:
    """A case that waits: the checker's node, and ours."""

    node: checked.Node
    ours: Node


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
        self._numbers = self._numbered()
        self._last: tuple[tuple[int, ...], Tangents] | None = None
        self.cases = 0

    def _numbered(self) -> list[int]:
        """The checker's number of each of our targets."""
        theirs = self._theirs
        vertices = self._statement.vertices
        place = {target: number for number, target in enumerate(theirs)}
        found = []
        for row, column in zip(self._targets.rows, self._targets.columns, strict=True):
            own = None if column == ALL else int(self._moving[column])
            if row == ALL:
                vertex = None if vertices is None else 0
            else:
                y = self._targets.functionals[row].tolist()
                negative = [-v for v in y]
                known = vertices or []
                vertex = next((i for i, v in enumerate(known) if v in (y, negative)), None)
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
            steps, children = self._settled(waiting.pop())
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
        upper, target = self._statement.upper, worst.found.target
        aim = upper * (1.0 - AIM)
        sides = {}
        for position, on, bound in self._bounder.excluded(form, worst, aim):
            if bound <= aim:
                sides[position] = checked.LEFT if on else checked.RIGHT
        zeta, lam = self._parts(target, worst.found.state.multipliers, form)
        others = [(k, -side) for k, side in sides.items()]
        pair = self._theirs[self._numbers[target]]
        tangents = self._tangents(case.node)
        if not others or not tangents.excluded(upper, pair, zeta, lam, others):
            return []
        known = [[int(form.units[k]), side] for k, side in sides.items()]
        steps.append(["exclude", zeta, lam, known])
        for unit, side in known:
            case.node.phases[unit] = side
        return [unit for unit, _ in known]

    def _bounded(self, ours: Node, form: NodeForm) -> Worst | None:
        """Semidefinite bounds of a case."""
        # only what has a certificate counts: bounds that were proved otherwise are forgotten
        ours.proved = np.full(ours.targets.size, np.inf)
        ours.target_bounds = ours.proved.copy()
        upper = self._statement.upper
        return self._bounder.bound(ours, form, upper * (1.0 - AIM), upper)

    def _tightened(self, case: _Case, steps: Steps) -> bool:
        """Bound the pre-activations of a case; False if nothing is left of it."""
        node, linear = case.node, self._linear
        if not self._crowned(case, steps):
            return False
        self._follow(case)
        bounds = self._ascended(case.ours)
        if not bounds:
            return True
        steps.append(["bound", bounds])
        still = node.phases.count(checked.OPEN)
        given = [(k, sign, checked.Weights(*map(dict, w))) for k, sign, w in bounds]
        if not linear.bound(node, given):
            return False
        if node.phases.count(checked.OPEN) == still:
            return True
        return self._crowned(case, steps)

    def _crowned(self, case: _Case, steps: Steps) -> bool:
        """Bound the units for which that seems to matter; False if nothing is left of the case."""
        self._follow(case)
        ours, stack = case.ours, stack_of([case.ours])
        over = within(self._domain, stack.low, stack.high)
        with np.errstate(invalid="ignore"):
            substitute_back(self._system, over, stack)
            width, new = ours.upper - ours.lower, stack.upper[0] - stack.lower[0]
            shrunk = ~np.isfinite(width) | (new < (1.0 - GAIN) * width)
        still = ours.phases == OPEN
        use = still & (shrunk | (stack.phases[0] != OPEN))
        if not use.any():
            return True
        units = None if use.sum() == still.sum() else np.flatnonzero(use).tolist()
        steps.append(["crown"] if units is None else ["crown", units])
        return self._linear.tighten(case.node, None if units is None else set(units))

    def _ascended(self, ours: Node) -> list[Any]:
        """What dual ascent improves: units, signs and weights, as they are written."""
        on = self._pool.on[ours.pool]
        seen = (np.asarray(~on.all(axis=0)), np.asarray(on.any(axis=0))) if len(on) else None
        stack, before = stack_of([ours]), ours.ascent
        assert self._tightener is not None
        with np.errstate(invalid="ignore"):  # units without a kink have no bounds
            (found,) = self._tightener.tighten(stack, [before], [seen])
        if found is None or found is before:
            return []
        ours.ascent = found
        tops = np.stack([ours.upper, -ours.lower], axis=1).reshape(-1)[found.keys]
        better = np.stack([stack.upper[0], -stack.lower[0]], axis=1).reshape(-1)[found.keys]
        width = (ours.upper - ours.lower)[found.keys // 2]
        gain = np.where(better <= 0.0, np.inf, tops - better) > GAIN * width
        return [
            [int(key) // 2, 1 - 2 * (int(key) % 2), self._weights(ours, values)]
            for key, values in zip(found.keys[gain], found.values[gain], strict=True)
        ]

    def _weights(self, ours: Node, values: FloatArray) -> list[Any]:
        """Multipliers of dual ascent as weights, where they are not what the checker takes."""
        system, count = self._system, self._system.count
        known, rows = values[:count].astype(np.float64), values[count:].astype(np.float64)
        still = ours.phases == OPEN
        jump = np.where(still, system.right - system.left, 1.0)
        alpha = np.clip((known - system.left) / jump, 0.0, 1.0)
        usual = np.where(ours.upper > -ours.lower, 1.0, 0.0)
        beta = np.where(system.kinked & ~still, known, 0.0)
        return [
            _shortened(beta, beta > WEAK * beta.max(initial=0.0)),
            _shortened(alpha, still & (np.abs(alpha - usual) > NEAR)),
            _shortened(rows, rows > WEAK * rows.max(initial=0.0)),
        ]

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

    def _tangents(self, node: checked.Node) -> Tangents:
        """The checker's tangents of a case; the last ones are kept."""
        phases = tuple(node.phases)
        if self._last is None or self._last[0] != phases:
            self._last = phases, Tangents(self._statement, self._linear, node)
        return self._last[1]

    def _closed(self, case: _Case, form: NodeForm) -> Steps:
        """Close the targets whose multipliers the checker accepts."""
        ours, bound = case.ours, self._statement.upper
        steps: Steps = []
        tangents: Tangents | None = None
        kept = []
        for index, target in enumerate(ours.targets.tolist()):
            multipliers = ours.warm.get(target)
            if ours.proved[index] > bound or multipliers is None:
                kept.append(index)
                continue
            if tangents is None:
                tangents = self._tangents(case.node)
            zeta, lam = self._parts(target, multipliers, form)
            number = self._numbers[target]
            vertex, column = self._theirs[number]
            if tangents.holds(bound, vertex, column, zeta, lam):
                steps.append(["close", [number], zeta, lam])
            else:
                kept.append(index)
        ours.targets, ours.target_bounds = ours.targets[kept], ours.target_bounds[kept]
        ours.proved = ours.proved[kept]
        return steps

    def _parts(
        self, target: int, multipliers: FloatArray, form: NodeForm
    ) -> tuple[list[float], list[float]]:
        """Zeta and lambda of a target's multipliers, as the checker wants them."""
        count = form.units.size
        head, lam = multipliers[: multipliers.size - count], multipliers[multipliers.size - count :]
        whole = self._targets.columns[target] == ALL
        if self._targets.input_norm == "l2" or not whole:
            zeta = head[-1:]
        else:
            zeta = head[head.size - form.inputs :]
        return zeta.tolist(), lam.tolist()

    def _full(self, case: _Case, form: NodeForm) -> Steps:
        """The steps of a case without open units."""
        tangents = self._tangents(case.node)
        steps: Steps = []
        for target in case.ours.targets.tolist():
            number = self._numbers[target]
            vertex, column = self._theirs[number]
            value = tangents.value(vertex, column)
            if value is not None and value <= self._statement.upper:
                continue
            zeta = self._direct(form, column is not None)
            if vertex is None and tangents.holds(self._statement.upper, None, column, zeta, []):
                steps.append(["close", [number], zeta, []])
                continue
            weights = self._refuted(case, form)
            if weights is None:
                raise ProofError(
                    "the upper end could not be proved: a region with a larger norm seems to have "
                    "no interior, but no certificate of that was found"
                )
            return [["empty", weights]]
        return [*steps, ["end"]]

    def _direct(self, form: NodeForm, single: bool) -> list[float]:
        """Multipliers of the Euclidean norm of a fixed Jacobian."""
        if single or self._targets.input_norm == "l2":
            return [1.0]
        gram = form.jacobian.T @ form.jacobian
        sums = np.abs(gram).sum(axis=1) * (1.0 + 1e-9) + 1e-300
        return [float(z) for z in sums]

    # -- cases of a case -----------------------------------------------------------------------

    def _split(
        self, case: _Case, form: NodeForm, worst: Worst | None, steps: Steps
    ) -> tuple[Steps, list[_Case]]:
        known, aim = self._experience, self._statement.upper
        unit = int(self._brancher.candidates(form, worst, known, aim)[0])
        children = []
        for ours in self._brancher.sides(case.ours, unit):
            node = case.node.copy()
            node.phases[unit] = _THEIRS[int(ours.phases[unit])]
            self._linear.settle(node, unit)
            children.append(_Case(node, ours))
        return [*steps, ["split", unit]], children

    def _cut(self, case: _Case, halves: list[Node], steps: Steps) -> tuple[Steps, list[_Case]]:
        first, second = halves
        j = first.trail[-1].index
        value, place = float(first.high[j]), int(self._moving[j])
        node = case.node
        left, right = (
            node.cut(place, *ends) for ends in ((node.low[place], value), (value, node.high[place]))
        )
        return [*steps, ["cut", place, value]], [_Case(left, first), _Case(right, second)]


def _shortened(values: FloatArray, use: BoolArray) -> list[list[float]]:
    """(index, value) of what is used, to few digits."""
    return [[int(k), float(f"{values[k]:.3g}")] for k in np.flatnonzero(use)]


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
