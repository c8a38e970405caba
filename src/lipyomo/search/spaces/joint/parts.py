"""Boxes and nodes in one queue: which boxes become nodes, and what a search learns from these.

Boxes that are not far above the cutoff are closed by semidefinite bounds, or handed over to the
search of phases; how far that may be is learnt from what becomes of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.search.engine.protocol import Outcome
from lipyomo.search.spaces.joint.context import Boxes, Params
from lipyomo.search.spaces.phases import pipeline as phases
from lipyomo.search.spaces.phases.node import Node

Part: TypeAlias = "Boxes | Node"

BOUNDED, CLOSED = "boxes_bounded", "boxes_closed"
"""Counters of boxes that had semidefinite bounds, and of those that these closed."""

EXAMINED, ENDED, SPLIT = "boxes_examined", "boxes_ended", "boxes_nodes"
"""Counters of boxes that the search of phases has examined, of those that this closed, and of all
nodes that it has taken."""

_SEMIDEFINITE = 1.0 / 3.0
"""The part of a node's time that a semidefinite bound takes."""


@dataclass(frozen=True)
class NearCutoff:
    """Which boxes are near the cutoff, in multiples of it.

    Those with larger bounds are hardly ever closed.  Some with bounds just above it take less time
    to be halved: if halving lowers bounds by f in logarithms, a box that is g above the cutoff
    becomes a tree of about ``2^(g / f)`` boxes.

    Attributes
    ----------
    bounded, handed : float
        Multiples up to which boxes have semidefinite bounds, and are handed over to the search of
        phases.
    together : int
        So many boxes are handed over at a time at most, as nothing is learnt meanwhile.
    params : Params
    tried, met : int
        Semidefinite bounds so far, and how many closed a box.
    split, ended : int
        Nodes of phases so far, and boxes that they closed.
    """

    bounded: float
    handed: float
    together: int
    params: Params
    tried: int = 0
    met: int = 0
    split: int = 0
    ended: int = 0

    @classmethod
    def first(cls, params: Params) -> NearCutoff:
        """Of a search that begins."""
        return cls(params.near, params.handed, params.handed_together, params)

    def are_bounded(self, multiples: FloatArray, fall: FloatArray) -> BoolArray:
        """Which boxes have semidefinite bounds, by what halving lowers theirs by."""
        cost = _SEMIDEFINITE * self.params.node * max(self.tried, 1) / max(self.met, 1)
        return np.asarray((multiples <= self.bounded) & _larger(multiples, fall, cost))

    def are_handed(self, multiples: FloatArray, fall: FloatArray) -> BoolArray:
        """Which boxes are handed over."""
        cost = self.params.node * max(self.split, 1) / max(self.ended, 1)
        return np.asarray((multiples <= self.handed) & _larger(multiples, fall, cost))

    def after(self, counters: Mapping[str, int]) -> NearCutoff:
        """The same after what the counters say of some boxes."""
        tried, met = counters.get(BOUNDED, 0), counters.get(CLOSED, 0)
        examined, ended = counters.get(EXAMINED, 0), counters.get(ENDED, 0)
        together = self.together
        if examined and 3 * ended < examined:
            together = max(together // 2, 1)
        elif examined:
            together = min(2 * together, self.params.handed_together)
        return replace(
            self,
            bounded=adapted(self.bounded, tried, met),
            handed=adapted(self.handed, examined, ended),
            together=together,
            tried=self.tried + tried,
            met=self.met + met,
            split=self.split + counters.get(SPLIT, 0),
            ended=self.ended + ended,
        )


def _larger(multiples: FloatArray, fall: FloatArray, cost: float) -> BoolArray:
    """Which boxes become trees of more boxes than `cost`."""
    known = np.isfinite(fall)
    least = np.where(known, fall, 0.0) * np.log2(max(cost, 1.0))
    return np.asarray(known & (np.log(np.maximum(multiples, 1.0)) >= least))


def adapted(reach: float, tried: int, met: int) -> float:
    """A multiple after so many more boxes up to it were tried, and so many of them closed.

    It stays where it is once one box in three is closed: a failure costs about as much as halving a
    few times, and what is closed would have been a tree of halves.
    """
    if not tried:
        return reach
    share = (3.0 * met - tried) / tried
    moved = (reach - 1.0) * math.exp(share * tried / (tried + 4.0))
    return 1.0 + min(max(moved, 0.01), 15.0)


def handed_over(nodes: Sequence[Node], inputs: int) -> tuple[Node, ...]:
    """Those of some nodes that boxes of so many inputs became: their splits say so."""
    return tuple(
        node
        for node in nodes
        if len(node.trail) >= inputs and all(split.phase is None for split in node.trail[:inputs])
    )


def counted(task: phases.Task, outcome: Outcome[Any]) -> Outcome[Any]:
    """An outcome with counts of the boxes among a task's nodes that were examined."""
    if outcome.returned:
        return outcome
    fresh = {node.trail for node in task.nodes if node.trail and not node.examined}
    left = sum(node.trail in fresh for node in outcome.children)
    more = {EXAMINED: len(fresh), ENDED: len(fresh) - left, SPLIT: len(task.nodes)}
    return replace(outcome, counters={**outcome.counters, **more})
