"""Checks that the cases of a proof cover the domain, and that each of them is proved.

A proof is a list of nodes in depth-first order; a node is a list of steps, the last of which splits
it or ends it:

    ["bound", bounds]               for each [k, sign, value, weights]: sign * z_k <= value; then
                                    the phases that follow are fixed
    ["close", targets, zeta, lam]   the multipliers prove these targets
    ["layers", targets, zeta, lam]  the same, by matrices as large as a layer
    ["exclude", zeta, lam, sides]   for each [k, side, multiple], unit k is on this side: on the
                                    other one the multipliers prove the one target that is left
    ["split", k]                    two nodes follow: unit k on the left, then on the right
    ["cut", j, t]                   two nodes follow: x_j <= t, then x_j >= t
    ["empty", weights]              the weights prove that the node is empty
    ["end"]                         every target is proved, or units are stable and norms known

A target is a dual vertex (None for the Euclidean norm) and an input or direction (None unless the
input norm is l1). A split covers every piece, because on a piece no pre-activation changes its
sign; a cut does, because a piece that meets the interior of a box meets that of one half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.layers import Layers
from lipyomo_check.linear import LEFT, OPEN, RIGHT, SLOPE, Linear, Node, Weights
from lipyomo_check.reading import listed, real, sparse, whole, wholes
from lipyomo_check.semidefinite import Tangents
from lipyomo_check.statement import Statement

MOST_BITS = 1 << 14
"""The largest number of bits of the unit of weights."""

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Its multiples modulo 1 are evenly distributed, so that workers get equal shares of the nodes."""

STEPS = {
    "bound": 1,
    "close": 3,
    "layers": 3,
    "exclude": 3,
    "split": 1,
    "cut": 2,
    "empty": 1,
    "end": 0,
}
"""The names of steps, with the numbers of entries that follow."""


def _side(value: Any) -> int:
    """Return LEFT or RIGHT for the letter of a side."""
    if value not in ("L", "R"):
        raise ProofError("a side is neither left nor right")
    return LEFT if value == "L" else RIGHT


@dataclass
class Case:
    """A node that waits for its steps, with the numbers of its open targets."""

    node: Node
    targets: set[int]


class Tree:
    """Goes through the nodes of a proof.

    Parameters
    ----------
    statement : Statement
    workers, share : int, optional
        The number of processes that go through the same nodes, and the index of this one.  Each
        checks the certificates of its share of the nodes, and assumes those of the others.
    """

    def __init__(self, statement: Statement, workers: int = 1, share: int = 0) -> None:
        self.statement, self.workers, self.share = statement, workers, share
        self.linear = Linear(statement)
        self.targets = statement.targets
        self.nodes = 0

    @property
    def mine(self) -> bool:
        """Whether this process checks the certificates of the current node."""
        return int(self.nodes * GOLDEN % 1 * self.workers) == self.share

    def check(self, nodes: Iterator[Any], progress: Callable[[int], None] | None = None) -> None:
        """Check all nodes.

        Raises
        ------
        ProofError
            If a case is missing or not proved.
        """
        waiting = [Case(self.linear.root(), set(range(len(self.targets))))]
        while waiting:
            waiting += self.apply(waiting.pop(), next(nodes, None))
            if progress is not None:
                progress(self.nodes)

    def apply(self, case: Case, steps: Any) -> list[Case]:
        """Apply the steps of a node; return the cases that it leaves, the first one last."""
        if steps is None:
            raise ProofError("cases are left open")
        self.nodes += 1
        for position, step in enumerate(listed(steps, "a node")):
            word, *rest = listed(step, "a step") or [None]
            if not isinstance(word, str) or word not in STEPS:
                raise ProofError("an unknown step")
            left: list[Case] | None = getattr(self, f"_{word}")(
                case, *listed(rest, word, STEPS[word])
            )
            if left is not None:
                if position + 1 < len(steps):
                    raise ProofError("a node goes on after its end")
                return left
        raise ProofError("a node has no end")

    # -- the steps: what they leave of a case, None if it goes on ----------------------------------

    def _bound(self, case: Case, bounds: Any) -> list[Case] | None:
        given = []
        for bound in listed(bounds, "the bounds"):
            unit, side, value, weights = listed(bound, "a bound", 4)
            unit = whole(unit, "a unit", self.linear.count - 1)
            given.append((unit, _side(side), real(value), self._weights(weights)))
        if self.mine:
            self.linear.check(case.node, given)
        alive = self.linear.note(case.node, given)
        return None if alive else []

    def _close(self, case: Case, numbers: Any, zeta: Any, lam: Any) -> None:
        wholes(numbers, "a target", len(self.targets) - 1)
        if self.mine and not self._holds(case, numbers, zeta, lam, None):
            raise ProofError("multipliers do not prove the bound of a target")
        case.targets.difference_update(numbers)

    def _layers(self, case: Case, numbers: Any, zeta: Any, lam: Any) -> None:
        wholes(numbers, "a target", len(self.targets) - 1)
        if self.mine:
            layers, upper = Layers(self.statement, self.linear, case.node), self.statement.upper
            zeta, lam = wholes(zeta, "zeta", inf), wholes(lam, "lambda", inf, layers.count)
            if not all(layers.holds(upper, self.targets[k], zeta, lam) for k in numbers):
                raise ProofError("multipliers do not prove the bound of a target layer by layer")
        case.targets.difference_update(numbers)

    def _exclude(self, case: Case, zeta: Any, lam: Any, record: Any) -> list[Case] | None:
        node = case.node
        still = [k for k, phase in enumerate(node.phases) if phase == OPEN]
        sides, others = {}, []
        for triple in listed(record, "the sides"):
            unit, side, multiple = listed(triple, "a side", 3)
            unit = self._open(unit, node)
            sides[unit] = _side(side)
            others.append((still.index(unit), -sides[unit], real(multiple)))
        if len(case.targets) != 1:
            raise ProofError("sides are excluded with several targets, or none")
        if self.mine and not self._holds(case, case.targets, zeta, lam, others):
            raise ProofError("multipliers do not prove the bound on a side that they exclude")
        node.phases = [sides.get(k, phase) for k, phase in enumerate(node.phases)]
        return None if all(self.linear.stabilise(node, k) for k in sides) else []

    def _split(self, case: Case, unit: Any) -> list[Case]:
        unit = self._open(unit, case.node)
        parts = []
        for side in (RIGHT, LEFT):
            node = case.node.copy()
            node.phases[unit] = side
            self.linear.stabilise(node, unit)
            parts.append(Case(node, set(case.targets)))
        return parts

    def _cut(self, case: Case, j: Any, value: Any) -> list[Case]:
        j, value = whole(j, "an input", self.statement.inputs - 1), real(value)
        box = case.node.box
        low, high = box.lower[j], box.upper[j]
        if not low < value < high:
            raise ProofError("a cut lies outside its box")
        halves = box.cut(j, value, high), box.cut(j, low, value)
        return [Case(case.node.copy(half), set(case.targets)) for half in halves]

    def _empty(self, case: Case, weights: Any) -> list[Case]:
        if self.mine and not self.linear.is_empty(case.node, self._weights(weights)):
            raise ProofError("a case that is called empty may not be")
        return []

    def _end(self, case: Case) -> list[Case]:
        """Check the targets that are left: their norms are known, as every unit has a phase."""
        if case.targets and self.mine:
            tangents, upper = Tangents(self.statement, self.linear, case.node), self.statement.upper
            closed = not tangents.count
            if not all(closed and tangents.at_most(upper, self.targets[k]) for k in case.targets):
                raise ProofError("a case ends with a target that is not closed, or too large")
        return []

    # -- their parts -------------------------------------------------------------------------------

    def _holds(self, case: Case, numbers: Iterable[int], zeta: Any, lam: Any, sides: Any) -> bool:
        tangents, upper = Tangents(self.statement, self.linear, case.node), self.statement.upper
        zeta, lam = wholes(zeta, "zeta", inf), wholes(lam, "lambda", inf, tangents.count)
        return all(tangents.holds(upper, self.targets[k], zeta, lam, sides) for k in numbers)

    def _open(self, value: Any, node: Node) -> int:
        unit = whole(value, "a unit", self.linear.count - 1)
        if node.phases[unit] != OPEN:
            raise ProofError("a unit is decided twice")
        return unit

    def _weights(self, record: Any) -> Weights:
        bits, beta, alpha, rho = listed(record, "weights", 4)
        count, rows = self.linear.count, len(self.statement.domain.A)
        return Weights(
            whole(bits, "bits", MOST_BITS),
            sparse(beta, "beta", count, wholes),
            sparse(alpha, "alpha", count, lambda v, name: wholes(v, name, 1 << SLOPE)),
            sparse(rho, "rho", rows, wholes),
        )
