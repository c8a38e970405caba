"""Splitting nodes: some splits are tried, for what they tell, and then the best one is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.bounds.preactivation import within
from lipyomo.network import FloatArray
from lipyomo.phases import OPEN
from lipyomo.search.relu.context import Context
from lipyomo.search.relu.examine import Bench, examine
from lipyomo.search.relu.learnt import Learnt
from lipyomo.search.relu.node import Node, Split, stack_of
from lipyomo.search.relu.part import Part
from lipyomo.search.relu.propagate import substitute_back
from lipyomo.search.relu.score import score


@dataclass(frozen=True, eq=False)
class Trial:
    """A split that is tried.

    Attributes
    ----------
    unit : int or None
        The unit that is decided; None if the box is split, or nothing.
    parts : tuple of Part
    score : float
        Of a split on a unit.
    """

    unit: int | None
    parts: tuple[Part, ...]
    score: float = 0.0


def together(context: Context, node: Node) -> int:
    """How many nodes like this one to split together."""
    params, units = context.params, node.still
    size = units**2 * min(node.low.size, units) / params.common
    return max(int(params.together / max(size, 1.0)), 1)


def plan(
    context: Context, nodes: Sequence[Node], learnt: Learnt
) -> tuple[tuple[tuple[int, ...], ...], Learnt]:
    """Units of each node whose splits are to be tried, because too little is known of them.

    They count as begun from now on, wherever it is that they are tried.
    """
    params = context.params
    learnt = learnt.counting(planned=sum(node.examined for node in nodes))
    enough = 1 + context.system.count // params.reliable
    most, probes, begun = params.probe_share * learnt.planned, learnt.probes, learnt.begun.copy()
    plans = []
    for node in nodes:
        units = []
        for unit in [] if wants_box(context, node) else node.candidates.tolist():
            if begun[unit] < enough and probes <= most:
                probes += 1
                begun[unit] += 1
                units.append(unit)
        plans.append(tuple(units))
    return tuple(plans), replace(learnt, probes=probes, begun=begun)


def split(
    bench: Bench, nodes: Sequence[Node], probes: Sequence[Sequence[int]], learnt: Learnt
) -> tuple[list[tuple[Part, ...]], Learnt]:
    """Split some nodes; what became of the parts of each.

    Many are split together: at the sizes of most networks, numpy's own time is what counts.

    Parameters
    ----------
    bench : Bench
    nodes : sequence of Node
    probes : sequence of sequence of int
        What to try, from `plan`.
    learnt : Learnt

    Raises
    ------
    OutOfTimeError
    """
    context = bench.context
    first = [_first_trials(context, node, units) for node, units in zip(nodes, probes, strict=True)]
    first, learnt = _tried(bench, nodes, first, learnt)
    weights, last = learnt.weights(), []
    for node, tried in zip(nodes, first, strict=True):
        trials, learnt = _last_trial(context, node, tried, learnt, weights)
        last.append(trials)
    last, learnt = _tried(bench, nodes, last, learnt)
    found = []
    for node, tried, more in zip(nodes, first, last, strict=True):
        learnt = learnt.counting(nodes=int(node.examined))
        found.append((more[0] if more else max(tried, key=lambda trial: trial.score)).parts)
    return found, learnt


def wants_box(context: Context, node: Node) -> bool:
    """Whether to split the input box of `node` rather than decide a unit."""
    domain, params = context.domain, context.params
    boxes = domain.is_bounded and domain.dimension <= params.box_inputs
    return boxes and node.still > params.box_units


def halves(context: Context, node: Node) -> list[Node]:
    """The halves of the input box in the direction that decides most units; none if too few."""
    domain, d = context.domain, node.low.size
    low: FloatArray = np.tile(node.low, (2 * d, 1))
    high: FloatArray = np.tile(node.high, (2 * d, 1))
    middle, index = 0.5 * (node.low + node.high), np.arange(d)
    high[index, index] = middle
    low[d + index, index] = middle
    nodes = []
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        j = i % d
        trail = (*node.trail, Split(j, None, (float(a[j]), float(b[j]))))
        nodes.append(replace(node, low=a, high=b, trail=trail))
    stack = stack_of(nodes)
    substitute_back(context.system, within(domain, low, high), stack)
    still = np.where(stack.alive, (stack.phases == OPEN).sum(axis=1), 0.0)
    first, second = still[:d], still[d:]
    relative = (node.high - node.low) / (domain.upper - domain.lower)
    k = int(np.argmin(first + second + np.maximum(first, second) - 1e-3 * relative))
    before, least = node.still, context.params.least_width
    wide = relative.max() > least and first[k] + second[k] <= 2 * before - 2
    if not wide and max(first[k], second[k]) >= before:
        return []
    return [nodes[k], nodes[d + k]]


def _parts(node: Node, children: Sequence[Node]) -> tuple[Part, ...]:
    return tuple(Part(node, child) for child in children)


def _first_trials(context: Context, node: Node, units: Sequence[int]) -> list[Trial]:
    """The split of a box; or those on units of which too little is known."""
    if not node.examined:
        return [Trial(None, _parts(node, [replace(node)]))]
    boxes = halves(context, node) if wants_box(context, node) else []
    if boxes:
        return [Trial(None, _parts(node, boxes))]
    return [Trial(unit, _parts(node, node.sides(unit))) for unit in units]


def _last_trial(
    context: Context, node: Node, tried: Sequence[Trial], learnt: Learnt, weights: FloatArray
) -> tuple[list[Trial], Learnt]:
    """The split that is expected to score most, unless one that was tried scores more."""
    if any(trial.unit is None for trial in tried):
        return [], learnt
    trust = context.params.unit_trust
    expected = np.exp(learnt.forecast(node.candidates, node.features, weights, trust))
    for trial in tried:
        expected[node.candidates == trial.unit] = -np.inf
    k = int(np.argmax(expected))
    if expected[k] <= max((trial.score for trial in tried), default=-np.inf):
        return [], learnt
    unit = int(node.candidates[k])
    return [Trial(unit, _parts(node, node.sides(unit)))], learnt.begin([unit])


def _tried(
    bench: Bench, nodes: Sequence[Node], trials: Sequence[Sequence[Trial]], learnt: Learnt
) -> tuple[list[list[Trial]], Learnt]:
    """The trials with what became of their parts, and with what they scored."""
    parts = [part for own in trials for trial in own for part in trial.parts]
    examined, learnt = examine(bench, parts, learnt)
    cutoff = bench.context.cutoff(bench.points.best.value)
    found, stop = [], 0
    for node, own in zip(nodes, trials, strict=True):
        done = []
        for trial in own:
            start, stop = stop, stop + len(trial.parts)
            now = replace(trial, parts=tuple(examined[start:stop]))
            if trial.unit is not None:
                children = [part.node for part in now.parts if part.is_open]
                now = replace(now, score=score(bench.context, node, children, cutoff))
                place = int(np.argmax(node.candidates == trial.unit))
                learnt = learnt.learn(trial.unit, node.features[place], now.score)
            done.append(now)
        found.append(done)
    return found, learnt
