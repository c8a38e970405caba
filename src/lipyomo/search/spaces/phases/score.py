"""The sixth step: choose the branching candidates of a part, by the expected score of their splits.

The expected score is learnt from the features and scores of previous splits
(`lipyomo.search.spaces.phases.statistics`).  The first feature is the geometric mean of the two
children's drops with fixed multipliers, averaged over all nodes in which the unit was open: this
order, which hardly changes from node to node, needs several times fewer nodes than the node's own.

Branching rules are kept in a table; a `PhaseQuestion` names the one to use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.system import NodeForm
from lipyomo.search.spaces.phases.context import RELIABILITY, PhaseContext
from lipyomo.search.spaces.phases.node import Ahead, PhaseNode
from lipyomo.search.spaces.phases.statistics import CONSTANT, FEATURES, Statistics

_FAINT = 0.02
"""Offset inside the logarithms of features, below which differences hardly count."""

_HUGE = float(np.sqrt(np.finfo(np.float64).max))
"""Limit to which bounds and gaps are clipped, so that features stay finite."""


Rule = Callable[
    [PhaseContext, PhaseNode, NodeForm, Ahead | None, Statistics, FloatArray, float],
    tuple[IntArray, FloatArray, Statistics],
]
"""Chooses units to split a node on; arguments and results are those of `candidates`."""

_RULES: dict[str, Rule] = {}


def branching_rule(name: str) -> Callable[[Rule], Rule]:
    """Register a function as a branching rule, replacing one of the same name."""

    def enter(rule: Rule) -> Rule:
        _RULES[name] = rule
        return rule

    return enter


def rule_of(context: PhaseContext) -> Rule:
    """Return the branching rule that the context's question names."""
    return _RULES[context.question.branching]


@branching_rule(RELIABILITY)
def candidates(
    context: PhaseContext,
    node: PhaseNode,
    form: NodeForm,
    worst: Ahead | None,
    statistics: Statistics,
    weights: FloatArray,
    cutoff: float,
) -> tuple[IntArray, FloatArray, Statistics]:
    """Return the unstable units with the best expected scores, best first, and their features.

    Parameters
    ----------
    context : PhaseContext
    node : PhaseNode
    form : NodeForm
    worst : Ahead, optional
    statistics : Statistics
        Takes up the look-aheads.
    weights : ndarray, shape (FEATURES,)
        The result of `Statistics.weights`.
    cutoff : float

    Returns
    -------
    units : ndarray of int, shape (k,)
    features : ndarray, shape (k, FEATURES)
    statistics : Statistics
    """
    units, params = form.units, context.params
    gap = min(max(node.bound - cutoff, 1e-300), _HUGE)
    here = np.zeros(units.size)
    if worst is not None:
        value = worst.value
        statistics = statistics.observe(units, np.sqrt(worst.off * worst.on))
        for drop in (worst.off, worst.on):
            closed = np.clip(node.bound - value * (1.0 - drop), 0.0, gap)
            here += 0.5 * np.log(closed / gap + _FAINT)
    average = statistics.average_ahead[units]
    lower, upper = np.maximum(node.lower[units], -_HUGE), np.minimum(node.upper[units], _HUGE)
    nearer = np.maximum(np.minimum(upper, -lower), 0.0) / np.maximum(upper - lower, 1e-300)
    features = np.empty((units.size, FEATURES))
    own = features[:, :CONSTANT]
    own[:, 0] = np.log(average + _FAINT * average.max() + 1e-9)
    own[:, 1] = -context.system.layer_of[units]
    own[:, 2] = here
    own[:, 3] = np.log(nearer + _FAINT)
    own -= own.mean(axis=0)
    share = gap / max(cutoff, _FAINT * gap)
    features[:, CONSTANT:] = 1.0, math.log(share + _FAINT), math.log(units.size)
    expected = statistics.forecast(units, features, weights, params.unit_trust)
    best = np.argsort(-expected, kind="stable")
    best = best[node.phases[units[best]] == OPEN][: params.few]  # others have been fixed
    return units[best], features[best], statistics


def score(
    context: PhaseContext, node: PhaseNode, children: Sequence[PhaseNode], cutoff: float
) -> float:
    """Return the score of a split, from the shares of the gap closed and of the units decided.

    Parameters
    ----------
    context : PhaseContext
    node : PhaseNode
    children : sequence of PhaseNode
        The children, at most two, that are still open.
    cutoff : float
        Bounds at or below it close nodes.

    Returns
    -------
    float
        The geometric mean over both sides; a closed side counts as 1.
    """
    gap, still = max(node.bound - cutoff, 1e-300), max(node.still, 1)
    sides = [1.0] * (2 - len(children))
    for child in children:
        closed = min(max((node.bound - child.bound) / gap, 0.0), 1.0)
        sides.append(0.5 * (closed + 1.0 - child.still / still))
    return float(np.sqrt((sides[0] + 0.5 * _FAINT) * (sides[1] + 0.5 * _FAINT)))
