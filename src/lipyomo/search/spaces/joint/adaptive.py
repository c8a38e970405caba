"""Boxes and nodes in one queue: which boxes become nodes, and how a search adapts this.

Boxes that are not far above the cutoff are handed over to the search over phases.  How far above it
they may be is adapted to how many of them are closed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.search.engine.protocol import Outcome, Task
from lipyomo.search.spaces.joint.context import JointBoxes, Params
from lipyomo.search.spaces.phases.node import PhaseNode

BoxesOrNode: TypeAlias = "JointBoxes | PhaseNode"

EXAMINED, ENDED, SPLIT = "boxes_examined", "boxes_ended", "boxes_nodes"
"""Counters of boxes that the search over phases has examined, of those closed thereby, and of all
its nodes."""


class NearCutoff(NamedTuple):
    """Which boxes are near the cutoff, in multiples of it.

    Boxes with larger bounds are hardly ever closed.  Of the others, some with bounds just above the
    cutoff take less time to be bisected: if a bisection lowers the logarithm of the bound by f, a
    box whose bound is g above the cutoff becomes a tree of about ``2^(g / f)`` boxes.

    Attributes
    ----------
    handed : float
        Multiple up to which boxes are handed over to the search over phases.
    together : int
        The largest number of boxes handed over at a time, as nothing is learnt meanwhile.
    params : Params
    split, ended : int
        The number of nodes of the search over phases so far, and of boxes closed by it.
    """

    handed: float
    together: int
    params: Params
    split: int = 0
    ended: int = 0

    @classmethod
    def first(cls, params: Params) -> NearCutoff:
        """Return the state at the start of a search."""
        return cls(params.handed, params.handed_together, params)

    def are_handed(self, multiples: FloatArray, fall: FloatArray) -> BoolArray:
        """Return which boxes are handed over, given their `fall` by a bisection."""
        known, cost = np.isfinite(fall), self.params.node * max(self.split, 1) / max(self.ended, 1)
        least = np.where(known, fall, 0.0) * np.log2(max(cost, 1.0))
        larger = known & (np.log(np.maximum(multiples, 1.0)) >= least)
        return np.asarray((multiples <= self.handed) & larger)

    def after(self, counters: Mapping[str, int]) -> NearCutoff:
        """Return the state updated by the counters of some boxes."""
        examined, ended = counters.get(EXAMINED, 0), counters.get(ENDED, 0)
        together = self.together
        if examined and 3 * ended < examined:
            together = max(together // 2, 1)
        elif examined:
            together = min(2 * together, self.params.handed_together)
        return self._replace(
            handed=adapted(self.handed, examined, ended),
            together=together,
            split=self.split + counters.get(SPLIT, 0),
            ended=self.ended + ended,
        )


def adapted(reach: float, tried: int, met: int) -> float:
    """Adapt a multiple, given how many boxes up to it were tried and how many of them closed.

    It stays the same if one box in three is closed: a failure costs about as much as a few
    bisections, and a closed box would have become a tree of halves.
    """
    if not tried:
        return reach
    share = (3.0 * met - tried) / tried
    moved = (reach - 1.0) * math.exp(share * tried / (tried + 4.0))
    return 1.0 + min(max(moved, 0.01), 15.0)


def counted(task: Task[PhaseNode], outcome: Outcome[Any]) -> Outcome[Any]:
    """Add the counts of the boxes among a task's nodes that were examined to an outcome."""
    if outcome.returned:
        return outcome
    fresh = {node.trail for node in task.nodes if node.trail and not node.examined}
    left = sum(node.trail in fresh for node in outcome.children)
    more = {EXAMINED: len(fresh), ENDED: len(fresh) - left, SPLIT: len(task.nodes)}
    return replace(outcome, counters={**outcome.counters, **more})
