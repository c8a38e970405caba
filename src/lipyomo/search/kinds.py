"""How networks are searched, by the kind of their units.

Those of two slopes are searched by phases and from region to region, others in boxes and by
ascents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.primal.heuristics.local_search import (
    default_evaluations,
    quick_incumbent,
    search_incumbent,
)
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness
from lipyomo.search.engine.protocol import Incumbent, Pipeline
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.few import FewPipeline
from lipyomo.search.objectives.nearest import LeastDistance, NearestQuestion
from lipyomo.search.objectives.objective import Largest
from lipyomo.search.objectives.pipeline import Pipeline as PhasePipeline
from lipyomo.search.objectives.smooth import Value
from lipyomo.search.objectives.smooth_nearest import Distance
from lipyomo.search.spaces.boxes.ascent import smooth_incumbent
from lipyomo.search.spaces.boxes.pipeline import Pipeline as BoxPipeline


class NetworkKind(NamedTuple):
    """What networks with units of a kind are searched by.

    Attributes
    ----------
    quick_incumbent : callable
        A witness of a problem, from a brief search with a seed in the time of a clock.
    short_incumbent : callable
        One of many such searches, with a random generator.
    largest_value : callable
        The pipeline of a question with a seed.
    least_distance : callable
        That of a question, and of the nearest point that is known.
    """

    quick_incumbent: Callable[[LipschitzProblem, int, Clock], Witness | None]
    short_incumbent: Callable[[LipschitzProblem, np.random.Generator, Clock], Witness | None]
    largest_value: Callable[[ValueQuestion, int], Pipeline[Any, Any]]
    least_distance: Callable[[NearestQuestion, Incumbent], Pipeline[Any, Any]]


def kind_of(network: Network) -> NetworkKind:
    """The kind of a network's units: smooth, if any of them is."""
    return SMOOTH if network.smooth else TWO_SLOPES


def value_in_boxes(question: ValueQuestion, seed: int) -> Pipeline[Any, Any]:
    """The search of the largest value in boxes, of any network."""
    return BoxPipeline(Value(question), seed)


def _value_by_phases(question: ValueQuestion, seed: int) -> Pipeline[Any, Any]:
    if FewPipeline.suits(question.network):
        return FewPipeline(question, seed)
    return PhasePipeline(Largest(question), seed)


def _short_walks(
    problem: LipschitzProblem, rng: np.random.Generator, clock: Clock
) -> Witness | None:
    evaluations = default_evaluations(problem.reduced.problem) // 8
    return search_incumbent(problem, rng, evaluations, clock)


TWO_SLOPES = NetworkKind(
    quick_incumbent,
    _short_walks,
    _value_by_phases,
    lambda question, start: PhasePipeline(LeastDistance(question, start)),
)

SMOOTH = NetworkKind(
    lambda problem, seed, clock: smooth_incumbent(
        problem, np.random.default_rng(seed), clock=clock
    ),
    lambda problem, rng, clock: smooth_incumbent(problem, rng, clock=clock),
    value_in_boxes,
    lambda question, start: BoxPipeline(Distance(question, start)),
)
