"""That the cases of a proof are all cases, and that each is settled.

A proof is a list of nodes in depth-first order; a node is a list of steps, the last of which splits
it or ends it:

    ["bound", bounds]               for each [k, sign, value, weights]: sign * z_k <= value; then
                                    what follows is decided
    ["close", targets, zeta, lam]   the multipliers prove these targets
    ["exclude", zeta, lam, sides]   for each [k, side, multiple], unit k is on this side: on the
                                    other one the multipliers prove the one target that is open
    ["split", k]                    two nodes follow: unit k on the left, then on the right
    ["cut", j, t]                   two nodes follow: x_j <= t, then x_j >= t
    ["empty", weights]              the weights contradict the node
    ["end"]                         every target is closed (or the values of a full pattern are)

A target is a dual vertex (None for the Euclidean norm) and an input (None unless the input norm is
l1).  A split stands for every piece, because on a piece no pre-activation changes its sign; a cut
because a piece that meets the interior of a box meets that of one half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.linear import LEFT, OPEN, RIGHT, SLOPE, Linear, Node, Weights
from lipyomo_check.reading import listed, real, sparse, whole, wholes
from lipyomo_check.semidefinite import Tangents
from lipyomo_check.statement import Statement

MOST_TARGETS = 10**6

MOST_BITS = 1 << 14
"""Of the unit of weights."""

Target = tuple[int | None, int | None]


def targets_of(statement: Statement) -> list[Target]:
    """All targets: their maximum is the constant."""
    vertices: list[int | None] = [None]
    if statement.vertices is not None:
        vertices = list(range(len(statement.vertices)))
    columns: list[int | None] = [None]
    if statement.input_norm == "l1":
        columns = list(statement.domain.moving)
    if len(vertices) * len(columns) > MOST_TARGETS:
        raise ProofError("there are too many targets")
    return [(v, c) for v in vertices for c in columns]


def _side(value: Any) -> int:
    """The letter of a side as LEFT or RIGHT."""
    if value not in ("L", "R"):
        raise ProofError("a side is neither left nor right")
    return LEFT if value == "L" else RIGHT


@dataclass
class Case:
    """A node that waits for its steps, with the numbers of its open targets."""

    node: Node
    targets: set[int]


class Tree:
    """Walks through the nodes of a proof.

    Parameters
    ----------
    statement : Statement
    """

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.linear = Linear(statement)
        self.targets = targets_of(statement)
        self.nodes = 0

    def root(self) -> Case:
        """The case that stands for everything."""
        return Case(self.linear.root(), set(range(len(self.targets))))

    def check(
        self,
        nodes: Iterator[Any],
        told: Callable[[int], None] | None = None,
        case: Case | None = None,
    ) -> None:
        """Check all nodes of a case, by default of the whole tree.

        Raises
        ------
        ProofError
            If a case is missing or not settled.
        """
        waiting = [case or self.root()]
        while waiting:
            waiting += self.settle(waiting.pop(), next(nodes, None))
            if told is not None:
                told(self.nodes)

    def settle(self, case: Case, steps: Any) -> list[Case]:
        """Take the steps of a node; the cases that it leaves, the first one last."""
        if steps is None:
            raise ProofError("cases are left open")
        self.nodes += 1
        tangents: Tangents | None = None
        for position, step in enumerate(listed(steps, "a node")):
            word, *rest = listed(step, "a step") or [None]
            last = position == len(steps) - 1
            if word in ("split", "cut", "empty", "end") and not last:
                raise ProofError("a node goes on after its end")
            if word == "bound":
                if not self._bound(case.node, rest):
                    return self._closed(last)
                tangents = None
            elif word in ("close", "exclude"):
                tangents = tangents or Tangents(self.statement, self.linear, case.node)
                if word == "close":
                    self._close(case, tangents, rest)
                else:
                    if not self._exclude(case, tangents, rest):
                        return self._closed(last)
                    tangents = None
            elif word == "split":
                return self._split(case, rest)
            elif word == "cut":
                return self._cut(case, rest)
            elif word == "empty":
                (given,) = listed(rest, "empty", 1)
                if not self.linear.is_empty(case.node, self._weights(given)):
                    raise ProofError("a case that is called empty may not be")
                return []
            elif word == "end":
                self._end(case, tangents)
                return []
            else:
                raise ProofError("an unknown step")
        raise ProofError("a node has no end")

    @staticmethod
    def _closed(last: bool) -> list[Case]:
        """A node that contradicts itself ends there."""
        if not last:
            raise ProofError("a node goes on though nothing is left of it")
        return []

    def _unit(self, value: Any, node: Node) -> int:
        """An open unit."""
        unit = whole(value, "a unit", self.linear.count - 1)
        if node.phases[unit] != OPEN:
            raise ProofError("a unit is decided twice")
        return unit

    def _weights(self, record: Any) -> Weights:
        bits, beta, alpha, rho = listed(record, "weights", 4)
        count = self.linear.count
        return Weights(
            whole(bits, "bits", MOST_BITS),
            sparse(beta, "beta", count, lambda v, name: wholes(v, name, inf)),
            sparse(alpha, "alpha", count, lambda v, name: wholes(v, name, 1 << SLOPE)),
            sparse(rho, "rho", len(self.statement.domain.A), lambda v, name: wholes(v, name, inf)),
        )

    def _bound(self, node: Node, rest: list[Any]) -> bool:
        given = []
        for bound in listed(listed(rest, "bound", 1)[0], "the bounds"):
            unit, side, value, weights = listed(bound, "a bound", 4)
            unit = whole(unit, "a unit", self.linear.count - 1)
            given.append((unit, _side(side), real(value), self._weights(weights)))
        return self.linear.bound(node, given)

    def _close(self, case: Case, tangents: Tangents, rest: list[Any]) -> None:
        numbers, zeta, lam = listed(rest, "close", 3)
        zeta, lam = self._multipliers(zeta, lam, tangents)
        for target in wholes(numbers, "a target", len(self.targets) - 1):
            if not tangents.holds(self.statement.upper, self.targets[target], zeta, lam):
                raise ProofError("multipliers do not prove the bound of a target")
            case.targets.discard(target)

    def _exclude(self, case: Case, tangents: Tangents, rest: list[Any]) -> bool:
        zeta, lam, record = listed(rest, "exclude", 3)
        node = case.node
        still = [k for k, phase in enumerate(node.phases) if phase == OPEN]
        sides, others = {}, []
        for triple in listed(record, "the sides"):
            unit, side, multiple = listed(triple, "a side", 3)
            unit = self._unit(unit, node)
            sides[unit] = _side(side)
            others.append((still.index(unit), -sides[unit], real(multiple)))
        if len(case.targets) != 1:
            raise ProofError("sides are excluded with several targets, or none")
        (target,) = case.targets
        zeta, lam = self._multipliers(zeta, lam, tangents)
        if not tangents.holds(self.statement.upper, self.targets[target], zeta, lam, others):
            raise ProofError("multipliers do not prove the bound on a side that they exclude")
        node.phases = [sides.get(k, phase) for k, phase in enumerate(node.phases)]
        return all(self.linear.settle(node, k) for k in sides)

    @staticmethod
    def _multipliers(zeta: Any, lam: Any, tangents: Tangents) -> tuple[list[int], list[int]]:
        zeta = wholes(zeta, "zeta", inf)
        if not zeta:
            raise ProofError("zeta is empty")
        return zeta, wholes(lam, "lambda", inf, tangents.count)

    def _split(self, case: Case, rest: list[Any]) -> list[Case]:
        (unit,) = listed(rest, "split", 1)
        unit = self._unit(unit, case.node)
        parts = []
        for side in (RIGHT, LEFT):
            node = case.node.copy()
            node.phases[unit] = side
            self.linear.settle(node, unit)
            parts.append(Case(node, set(case.targets)))
        return parts

    def _cut(self, case: Case, rest: list[Any]) -> list[Case]:
        j, value = listed(rest, "cut", 2)
        j, value = whole(j, "an input", self.statement.inputs - 1), real(value, "a cut")
        box = case.node.box
        low, high = box.lower[j], box.upper[j]
        if not low < value < high:
            raise ProofError("a cut lies outside its box")
        halves = box.cut(j, value, high), box.cut(j, low, value)
        return [Case(case.node.copy(half), set(case.targets)) for half in halves]

    def _end(self, case: Case, tangents: Tangents | None) -> None:
        """Whatever is not closed must be the value of a full pattern."""
        for target in sorted(case.targets):
            tangents = tangents or Tangents(self.statement, self.linear, case.node)
            upper, pair = self.statement.upper, self.targets[target]
            fits = None if tangents.count else tangents.at_most(upper, pair)
            if fits is None:
                raise ProofError("a case ends with a target that is not closed")
            if not fits:
                raise ProofError("a full pattern has a larger norm than the upper end")
