"""Which search a network gets, by the kind of its units.

Piecewise-linear networks with two slopes are searched by phases, with heuristics that walk from
region to region; all others by boxes, with gradient ascent.
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
from lipyomo.search.objectives.pipeline import ValuePipeline
from lipyomo.search.objectives.smooth import Value
from lipyomo.search.objectives.smooth_nearest import Distance
from lipyomo.search.spaces.boxes.ascent import smooth_incumbent
from lipyomo.search.spaces.boxes.pipeline import BoxPipeline


class NetworkKind(NamedTuple):
    """The search methods for networks with units of one kind.

    Attributes
    ----------
    quick_incumbent : callable
        Finds a witness of a problem by a brief search, from a seed and a clock.
    short_incumbent : callable
        The same for one of many such searches, from a random generator and a clock.
    largest_value : callable
        Makes the pipeline that finds a largest value, from the question and a seed.
    least_distance : callable
        Makes the pipeline that finds a nearest point, from the question and the nearest known one.
    """

    quick_incumbent: Callable[[LipschitzProblem, int, Clock], Witness | None]
    short_incumbent: Callable[[LipschitzProblem, np.random.Generator, Clock], Witness | None]
    largest_value: Callable[[ValueQuestion, int], Pipeline[Any, Any]]
    least_distance: Callable[[NearestQuestion, Incumbent], Pipeline[Any, Any]]


def kind_of(network: Network) -> NetworkKind:
    """Return the search methods of a network: those of smooth units, if any unit is smooth."""
    return SMOOTH if network.smooth else TWO_SLOPES


def value_in_boxes(question: ValueQuestion, seed: int) -> Pipeline[Any, Any]:
    """Return the pipeline that finds the largest value by a search over boxes, for any network."""
    return BoxPipeline(Value(question), seed)


def _value_by_phases(question: ValueQuestion, seed: int) -> Pipeline[Any, Any]:
    if FewPipeline.suits(question.network):
        return FewPipeline(question, seed)
    return ValuePipeline(Largest(question), seed)


def _short_walks(
    problem: LipschitzProblem, rng: np.random.Generator, clock: Clock
) -> Witness | None:
    evaluations = default_evaluations(problem.reduced.problem) // 8
    return search_incumbent(problem, rng, evaluations, clock)


TWO_SLOPES = NetworkKind(
    quick_incumbent,
    _short_walks,
    _value_by_phases,
    lambda question, start: ValuePipeline(LeastDistance(question, start)),
)

SMOOTH = NetworkKind(
    lambda problem, seed, clock: smooth_incumbent(
        problem, np.random.default_rng(seed), clock=clock
    ),
    lambda problem, rng, clock: smooth_incumbent(problem, rng, clock=clock),
    value_in_boxes,
    lambda question, start: BoxPipeline(Distance(question, start)),
)
