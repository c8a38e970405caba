"""The sixth step: which units a part may be split on, by what splits on them are expected to score.

What is expected follows from what splits with such features scored before
(`lipyomo.search.spaces.phases.statistics`).  The first feature is the geometric mean of the two
children's drops with the multipliers frozen, averaged over all nodes in which the unit was open: an
order that hardly changes from node to node needs several times fewer nodes than the node's own.

Rules are entries of a table; a `Question` names the one that is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.system import NodeForm
from lipyomo.search.spaces.phases.context import RELIABILITY, Context
from lipyomo.search.spaces.phases.node import Ahead, Node
from lipyomo.search.spaces.phases.statistics import CONSTANT, FEATURES, Statistics

_FAINT = 0.02
"""Share below which what a feature is the logarithm of makes no difference."""

_HUGE = float(np.sqrt(np.finfo(np.float64).max))
"""Bounds and gaps beyond which numbers are cut: they stay finite."""


Rule = Callable[
    [Context, Node, NodeForm, Ahead | None, Statistics, FloatArray, float],
    tuple[IntArray, FloatArray, Statistics],
]
"""Chooses units to split a node on: arguments and results as of `candidates`."""

_RULES: dict[str, Rule] = {}


def branching_rule(name: str) -> Callable[[Rule], Rule]:
    """Enter a function into the table of branching rules, in place of one of the same name."""

    def enter(rule: Rule) -> Rule:
        _RULES[name] = rule
        return rule

    return enter


def rule_of(context: Context) -> Rule:
    """The rule that the context's question names."""
    return _RULES[context.question.branching]


@branching_rule(RELIABILITY)
def candidates(
    context: Context,
    node: Node,
    form: NodeForm,
    worst: Ahead | None,
    statistics: Statistics,
    weights: FloatArray,
    cutoff: float,
) -> tuple[IntArray, FloatArray, Statistics]:
    """Unstable units whose decision is expected to score most, best first, and their features.

    Parameters
    ----------
    context : Context
    node : Node
    form : NodeForm
    worst : Ahead, optional
    statistics : Statistics
        Hears of the drops.
    weights : ndarray, shape (FEATURES,)
        `Statistics.weights`.
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
        statistics = statistics.look(units, np.sqrt(worst.off * worst.on))
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
    best = best[node.phases[units[best]] == OPEN][: params.few]  # others are fixed
    return units[best], features[best], statistics


def score(context: Context, node: Node, children: Sequence[Node], cutoff: float) -> float:
    """What a split scored: the share of the gap that it closed and of the units it decided.

    Parameters
    ----------
    context : Context
    node : Node
    children : sequence of Node
        Those of the two that are still open.
    cutoff : float
        Bounds at or below it close nodes.

    Returns
    -------
    float
        The geometric mean over both sides; a closed side counts in full.
    """
    gap, still = max(node.bound - cutoff, 1e-300), max(node.still, 1)
    sides = [1.0] * (2 - len(children))
    for child in children:
        closed = min(max((node.bound - child.bound) / gap, 0.0), 1.0)
        sides.append(0.5 * (closed + 1.0 - child.still / still))
    return float(np.sqrt((sides[0] + 0.5 * _FAINT) * (sides[1] + 0.5 * _FAINT)))
