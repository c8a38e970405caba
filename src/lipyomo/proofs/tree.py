"""The upper end as a tree of cases that `lipyomo_check` can check.

The tree is made once the interval is known: a branch and bound that only has to prove its cutoff,
depth first, with the node bounds and the branching rule of the search.  Every certificate is tried
by the checker's own arithmetic before it is written, so that a finished tree is a proof by
construction; the file grows as the tree does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.bnb.bounding import NodeBounder, Worst
from lipyomo.bnb.branching import Brancher
from lipyomo.bnb.experience import Experience
from lipyomo.bnb.node import Node
from lipyomo.errors import ProofError
from lipyomo.network import BoolArray, FloatArray, Layer, Network
from lipyomo.phases import LEFT, OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.refute import Refuter
from lipyomo.targets import ALL, Targets, targets_of
from lipyomo_check import linear as checked
from lipyomo_check.semidefinite import Tangents
from lipyomo_check.statement import Statement
from lipyomo_check.tree import targets_of as targets_of_statement

Steps = list[list[Any]]

_OURS = {checked.OPEN: OPEN, checked.RIGHT: RIGHT, checked.LEFT: LEFT}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}

AIM = 1e-9
"""Relative distance below the upper end that floating-point bounds aim at."""


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
    """

    def __init__(
        self, problem: LipschitzProblem, statement: Statement, stop: Callable[[], bool]
    ) -> None:
        self._statement, self._stop = statement, stop
        self._linear = checked.Linear(statement)
        moving = ~problem.domain.frozen
        network, domain = problem.network, problem.domain
        if not moving.all():
            network = _held(network, moving, domain.upper)
            domain = domain.restrict(moving)
        self._moving = np.flatnonzero(moving)
        small = LipschitzProblem(network, domain, problem.input_norm, problem.output_norm)
        self._targets: Targets = targets_of(small)
        self._system = UnitSystem(network, self._targets.functionals, domain)
        self._bounder = NodeBounder(self._system, self._targets)
        self._bounder.solved = 1  # its way of bounding roots leaves targets without multipliers
        self._brancher = Brancher(self._system, domain)
        self._experience = Experience.none(self._system.count)
        self._refuter = Refuter(self._system, domain, self._linear)
        self._domain = domain
        self._theirs = targets_of_statement(statement)
        self._numbers = self._numbered()
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
        waiting = [_Case(self._linear.root(), self._root())]
        while waiting:
            if self._stop():
                raise Unfinished("the proof of the upper end was stopped")
            self.cases += 1
            steps, children = self._settled(waiting.pop())
            yield steps
            waiting += reversed(children)

    def _root(self) -> Node:
        n, count = self._system.count, self._targets.count
        domain = self._domain
        return Node(
            self._system.root_phases(),
            np.full(n, -np.inf),
            np.full(n, np.inf),
            domain.lower,
            domain.upper,
            np.arange(count),
            np.full(count, np.inf),
            np.full(count, np.inf),
            np.zeros(0, dtype=np.int64),
        )

    # -- one case ------------------------------------------------------------------------------

    def _settled(self, case: _Case) -> tuple[Steps, list[_Case]]:
        """The steps of a case, and the cases that it leaves, left first."""
        steps: Steps = []
        if self._domain.is_bounded and self._worth_bounding(case):
            steps.append(["crown"])
            if not self._linear.tighten(case.node):
                return steps, []
        self._follow(case)
        ours = case.ours
        form = self._system.reduce(ours.phases)
        if not form.units.size:
            return [*steps, *self._full(case, form)], []
        # only what has a certificate counts: bounds that were proved otherwise are forgotten
        ours.proved = np.full(ours.targets.size, np.inf)
        ours.target_bounds = ours.proved.copy()
        worst = self._bounder.bound(
            ours, form, self._statement.upper * (1.0 - AIM), self._statement.upper
        )
        steps += self._closed(case, form)
        if not ours.targets.size:
            return [*steps, ["end"]], []
        weights = self._refuter.refute(case.node, form, ours)
        if weights is not None:
            return [*steps, ["empty", weights]], []
        cut = self._brancher.halves(ours) if self._brancher.wants_box(ours) else []
        if cut:
            return self._cut(case, cut, steps)
        return self._split(case, form, worst, steps)

    def _worth_bounding(self, case: _Case) -> bool:
        """Whether bounds may have changed since the last time."""
        return bool((case.ours.phases == OPEN).any())

    def _follow(self, case: _Case) -> None:
        """Let our node follow the checker's."""
        node, ours = case.node, case.ours
        ours.phases = np.array([_OURS[p] for p in node.phases], dtype=np.int8)
        ours.lower = np.array(node.lower, dtype=np.float64)
        ours.upper = np.array(node.upper, dtype=np.float64)

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
                tangents = Tangents(self._statement, self._linear, case.node)
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
        tangents = Tangents(self._statement, self._linear, case.node)
        steps: Steps = []
        for target in case.ours.targets.tolist():
            number = self._numbers[target]
            vertex, column = self._theirs[number]
            if vertex is not None and tangents.value(vertex, column) <= self._statement.upper:
                continue
            zeta = self._direct(form, column is not None)
            if vertex is None and tangents.holds(self._statement.upper, None, column, zeta, []):
                steps.append(["close", [number], zeta, []])
                continue
            weights = self._refuter.refute(case.node, form, case.ours)
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
        for phase in (LEFT, RIGHT):
            node = case.node.copy()
            node.phases[unit] = _THEIRS[phase]
            self._linear.settle(node, unit)
            phases: FlatPhases = case.ours.phases.copy()
            phases[unit] = phase
            children.append(_Case(node, self._child(case.ours, phases)))
        return [*steps, ["split", unit]], children

    def _cut(self, case: _Case, halves: list[Node], steps: Steps) -> tuple[Steps, list[_Case]]:
        low, high = halves[0], halves[1]
        j = int(np.flatnonzero(low.high != case.ours.high)[0])
        value, place = float(low.high[j]), int(self._moving[j])
        left, right = case.node.copy(), case.node.copy()
        left.high[place] = right.low[place] = value
        left.boxed = right.boxed = False
        first, second = (self._child(case.ours, case.ours.phases) for _ in range(2))
        first.high, second.low = low.high, high.low
        return [*steps, ["cut", place, value]], [_Case(left, first), _Case(right, second)]

    @staticmethod
    def _child(parent: Node, phases: FlatPhases) -> Node:
        """A node of our own below `parent`."""
        return Node(
            phases,
            parent.lower,
            parent.upper,
            parent.low,
            parent.high,
            parent.targets,
            parent.target_bounds.copy(),
            parent.proved.copy(),
            parent.units,
            parent.warm,
        )


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
