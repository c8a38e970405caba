"""Where to split a node: on a unit, or on the input box."""

from __future__ import annotations

import numpy as np

from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.bnb.bounding import Worst
from lipyomo.bnb.node import Node, child_of, stack_of
from lipyomo.bnb.propagate import propagate, support_of
from lipyomo.domains import Domain
from lipyomo.network import FloatArray
from lipyomo.phases import OPEN

BOX_INPUTS = 3
"""Most inputs for which the box is split."""

BOX_UNITS = 6
"""With no more open units than this, units are decided even then."""

LEAST_WIDTH = 2.0**-8
"""Boxes narrower than this (relative to the domain) are split only where both halves decide units:
kinks that meet in a point or a line stay open in one half however often it is split."""


EARLIER = 2.5
"""Favour of units one layer earlier: their decision also tightens the bounds of later layers."""


class Brancher:
    """Chooses splits; what it learns on the way makes later choices better.

    Parameters
    ----------
    system : UnitSystem
    domain : Domain
    """

    def __init__(self, system: UnitSystem, domain: Domain) -> None:
        self._system, self._domain = system, domain
        self._boxes = domain.is_bounded and domain.dimension <= BOX_INPUTS
        self._promise = np.zeros(system.count)
        self._seen = np.zeros(system.count)

    def unit(self, form: NodeForm, worst: Worst | None) -> int:
        """The open unit whose decision promises the largest drop of the bound.

        The promise is the geometric mean of the two children's drops with the multipliers frozen,
        averaged over all nodes in which the unit was open: an order that hardly changes from node
        to node needs several times fewer nodes than the node's own score.  Earlier layers are
        favoured.
        """
        if worst is not None:
            self._promise[form.units] += np.sqrt(worst.off * worst.on)
            self._seen[form.units] += 1
        score = self._promise[form.units] / np.maximum(self._seen[form.units], 1.0)
        score = score * EARLIER ** -self._system.layer_of[form.units].astype(np.float64)
        return int(form.units[int(np.argmax(score))])

    def wants_box(self, node: Node) -> bool:
        """Whether to split the input box of `node` rather than decide a unit."""
        return self._boxes and int(np.count_nonzero(node.phases == OPEN)) > BOX_UNITS

    def halves(self, node: Node) -> list[Node]:
        """The halves of the input box in the direction that decides most units; none if too few."""
        d = node.low.size
        low: FloatArray = np.tile(node.low, (2 * d, 1))
        high: FloatArray = np.tile(node.high, (2 * d, 1))
        middle, index = 0.5 * (node.low + node.high), np.arange(d)
        high[index, index] = middle
        low[d + index, index] = middle
        nodes = [child_of(node, node.phases, a, b) for a, b in zip(low, high, strict=True)]
        stack = stack_of(nodes)
        propagate(self._system, support_of(self._domain, low, high), stack)
        still = np.where(stack.alive, (stack.phases == OPEN).sum(axis=1), 0.0)
        first, second = still[:d], still[d:]
        relative = (node.high - node.low) / (self._domain.upper - self._domain.lower)
        k = int(np.argmin(first + second + np.maximum(first, second) - 1e-3 * relative))
        before = int(np.count_nonzero(node.phases == OPEN))
        wide = relative.max() > LEAST_WIDTH and first[k] + second[k] <= 2 * before - 2
        if not wide and max(first[k], second[k]) >= before:
            return []
        return [nodes[k], nodes[d + k]]
