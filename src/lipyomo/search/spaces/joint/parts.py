"""Boxes and nodes of the search of phases, in one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Outcome, Pipeline
from lipyomo.search.spaces.bundle import Bundle
from lipyomo.search.spaces.joint.context import Boxes
from lipyomo.search.spaces.joint.reach import ENDED, EXAMINED, SPLIT
from lipyomo.search.spaces.phases import pipeline as phases
from lipyomo.search.spaces.phases.node import Node

Part: TypeAlias = "Boxes | Node"


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


def parted(nodes: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Bundles of boxes, and nodes of a search of phases."""
    boxes = tuple(node for node in nodes if isinstance(node, Bundle))
    return boxes, tuple(node for node in nodes if not isinstance(node, Bundle))


def gone_on(
    pipeline: Pipeline[Any, Any], outcome: Outcome[Any], value: Callable[[], float], clock: Clock
) -> Outcome[Any]:
    """What has become of an outcome's nodes: until time is up, or what is left is closed.

    Parameters
    ----------
    pipeline : Pipeline
        Whose search goes on.
    outcome : Outcome
    value : callable
        What the pipeline's incumbent attains.
    clock : Clock
    """
    nodes = [*outcome.children, *outcome.returned]
    done = [replace(outcome, children=(), returned=())]
    while nodes and not clock.expired:
        nodes.sort(key=lambda node: -node.bound)
        if not nodes[0].bound > pipeline.cutoff(value()):
            break
        count = pipeline.together(nodes[0])
        task = pipeline.plan(nodes[:count], travels=False)
        found = pipeline.adopt(pipeline.process(task, clock, lambda: None))
        nodes = [*found.children, *found.returned, *nodes[count:]]
        done.append(replace(found, children=(), returned=()))
    return replace(together_of(done), children=tuple(nodes))


def together_of(outcomes: Sequence[Outcome[Any]]) -> Outcome[Any]:
    """What became of boxes and of nodes."""
    counters: Counter[str] = Counter()
    for outcome in outcomes:
        counters.update(outcome.counters)
    found = [outcome.best for outcome in outcomes if outcome.best is not None]
    return Outcome(
        tuple(node for outcome in outcomes for node in outcome.children),
        tuple(node for outcome in outcomes for node in outcome.returned),
        max(outcome.closed for outcome in outcomes),
        tuple(piece for outcome in outcomes for piece in outcome.fathomed),
        max(found, key=lambda best: best.value, default=None),
        next((outcome.statistics for outcome in outcomes if outcome.statistics is not None), None),
        counters,
    )
