"""Where to split a node: on a unit, or on the input box."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.bnb.bounding import Worst
from lipyomo.bnb.experience import CONSTANT, FEATURES, Experience
from lipyomo.bnb.node import Node, Split, child_of, stack_of, substitute_back
from lipyomo.bounds.preactivation import within
from lipyomo.domains import Domain
from lipyomo.network import FloatArray
from lipyomo.phases import LEFT, OPEN, RIGHT

BOX_INPUTS = 3
"""Most inputs for which the box is split."""

BOX_UNITS = 6
"""With no more open units than this, units are decided even then."""

LEAST_WIDTH = 2.0**-8
"""Boxes narrower than this (relative to the domain) are split only where both halves decide units:
kinks that meet in a point or a line stay open in one half however often it is split."""

CANDIDATES = 8
"""Units of a node among which the split is chosen when it comes to it."""

RELIABLE = 50
"""The outcome of splits on a unit is trusted instead of tried after one of them, and one more for
every so many units of the network: the larger the search, the more knowledge pays."""

PROBE_SHARE = 0.5
"""Splits tried for the sake of knowledge, at most, as a share of all nodes."""

DECIDED = 0.5
"""Worth of deciding all open units, where closing the gap is worth one."""

MANY_UNITS = 128
"""Open units from which a drop on one side only is looked for."""

_FLOOR = 0.01
_LITTLE = 1e-3
_FAINT = 0.02
_HUGE = 1e300
_MANY = 1e3


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

    def candidates(
        self,
        node: Node,
        form: NodeForm,
        worst: Worst | None,
        experience: Experience,
        cutoff: float,
        weights: FloatArray | None = None,
    ) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Open units whose decision is expected to be worth most, best first.

        What is expected follows from what splits with such features were worth before
        (`Experience.forecast`).  The first of them is the geometric mean of the two children's
        drops with the multipliers frozen, averaged over all nodes in which the unit was open: an
        order that hardly changes from node to node needs several times fewer nodes than the node's
        own.  Where of many units none promises anything on both sides, a little is added to both:
        a drop on one side is worth something then, for the region may close the other.

        Parameters
        ----------
        node : Node
        form : NodeForm
        worst : Worst, optional
        experience : Experience
            Hears of the drops.
        cutoff : float
        weights : ndarray, shape (FEATURES,), optional
            What the experience's `weights` give.

        Returns
        -------
        units : ndarray of int, shape (k,)
        features : ndarray, shape (k, FEATURES)
        """
        units = form.units
        gap = min(max(node.bound - cutoff, 1e-300), _HUGE)
        here = np.zeros(units.size)
        if worst is not None:
            value = worst.found.state.value
            least = _LITTLE * max(value - cutoff, 0.0) / max(value, 1e-300)
            promise = np.sqrt(worst.off * worst.on)
            if units.size > MANY_UNITS and promise.max() < least:
                promise = np.sqrt((worst.off + least) * (worst.on + least))
            experience.promise[units] += promise
            experience.promises[units] += 1
            for drop in (worst.off, worst.on):
                closed = np.clip(node.bound - value * (1.0 - drop), 0.0, gap)
                here += 0.5 * np.log(closed / gap + _FAINT)
        average = experience.promise[units] / np.maximum(experience.promises[units], 1.0)
        lower, upper = np.maximum(node.lower[units], -_HUGE), np.minimum(node.upper[units], _HUGE)
        nearer = np.maximum(np.minimum(upper, -lower), 0.0) / np.maximum(upper - lower, 1e-300)
        features = np.empty((units.size, FEATURES))
        own = features[:, :CONSTANT]
        own[:, 0] = np.log(average + _FAINT * average.max() + 1e-9)
        own[:, 1] = -self._system.layer_of[units]
        own[:, 2] = here
        own[:, 3] = np.log(nearer + _FAINT)
        own -= own.mean(axis=0)
        share = gap / max(cutoff, gap / _MANY)
        features[:, CONSTANT:] = 1.0, math.log(share + _LITTLE), math.log(units.size)
        best = np.argsort(-experience.forecast(units, features, weights), kind="stable")
        best = best[node.phases[units[best]] == OPEN][:CANDIDATES]  # others are excluded
        return units[best], features[best]

    def wants_box(self, node: Node) -> bool:
        """Whether to split the input box of `node` rather than decide a unit."""
        return self._boxes and int(np.count_nonzero(node.phases == OPEN)) > BOX_UNITS

    def sides(self, node: Node, unit: int) -> list[Node]:
        """The two children of a split on an open unit."""
        children = []
        for phase in (LEFT, RIGHT):
            phases = node.phases.copy()
            phases[unit] = phase
            children.append(child_of(node, phases, node.low, node.high, Split(unit, int(phase))))
        return children

    def halves(self, node: Node) -> list[Node]:
        """The halves of the input box in the direction that decides most units; none if too few."""
        d = node.low.size
        low: FloatArray = np.tile(node.low, (2 * d, 1))
        high: FloatArray = np.tile(node.high, (2 * d, 1))
        middle, index = 0.5 * (node.low + node.high), np.arange(d)
        high[index, index] = middle
        low[d + index, index] = middle
        nodes = [
            child_of(
                node, node.phases, a, b, Split(i % d, None, (float(a[i % d]), float(b[i % d])))
            )
            for i, (a, b) in enumerate(zip(low, high, strict=True))
        ]
        stack = stack_of(nodes)
        substitute_back(self._system, within(self._domain, low, high), stack)
        still = np.where(stack.alive, (stack.phases == OPEN).sum(axis=1), 0.0)
        first, second = still[:d], still[d:]
        relative = (node.high - node.low) / (self._domain.upper - self._domain.lower)
        k = int(np.argmin(first + second + np.maximum(first, second) - 1e-3 * relative))
        before = int(np.count_nonzero(node.phases == OPEN))
        wide = relative.max() > LEAST_WIDTH and first[k] + second[k] <= 2 * before - 2
        if not wide and max(first[k], second[k]) >= before:
            return []
        return [nodes[k], nodes[d + k]]


def worth(node: Node, children: list[Node], cutoff: float) -> float:
    """What a split was worth: the share of the gap that it closed and of the units it decided.

    Parameters
    ----------
    node : Node
    children : list of Node
        Those of the two that are still open.
    cutoff : float
        Bounds at or below it close nodes.

    Returns
    -------
    float
        The geometric mean over both sides; a closed side counts in full.
    """
    gap = max(node.bound - cutoff, 1e-300)
    still = max(int(np.count_nonzero(node.phases == OPEN)), 1)
    parts = [1.0 + DECIDED] * (2 - len(children))
    for child in children:
        closed = min(max((node.bound - child.bound) / gap, 0.0), 1.0)
        decided = 1.0 - int(np.count_nonzero(child.phases == OPEN)) / still
        parts.append(closed + DECIDED * decided)
    return float(np.sqrt((parts[0] + _FLOOR) * (parts[1] + _FLOOR)))
