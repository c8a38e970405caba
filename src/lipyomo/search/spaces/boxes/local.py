"""The primal heuristic of smooth networks by itself: ascents from random points."""

from __future__ import annotations

from functools import partial

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.primal.heuristics.evaluate import sampled_norms
from lipyomo.primal.regions.witness import unbeaten, witness_near
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness
from lipyomo.search.spaces.boxes.ascent import ascended
from lipyomo.search.spaces.boxes.context import Context, Question
from lipyomo.search.spaces.boxes.params import Params


def smooth_incumbent(
    problem: LipschitzProblem,
    rng: np.random.Generator,
    evaluations: int | None = None,
    clock: Clock | None = None,
) -> Witness | None:
    """Search for a point with a large Jacobian norm.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem, of a smooth network; the search works on the reduced one.
    rng : numpy.random.Generator
    evaluations : int, optional
        Points to evaluate; by default those of the ascents from a few starts.
    clock : Clock, optional

    Returns
    -------
    Witness or None
        Of the original problem; None if no point could be certified.
    """
    small, clock = problem.reduced.problem, clock or Clock()
    try:
        context = Context.of(Question(small))
    except MethodError:  # too many vertices for ascents
        points = small.domain.sample(rng, evaluations or Params().samples)
        return _best(problem, points, sampled_norms(small, points), clock)
    params = context.params
    starts = params.starts if evaluations is None else max(1, evaluations // params.steps)
    points, values = ascended(context, small.domain.sample(rng, starts), clock)
    return _best(problem, points, values, clock)


def _best(
    problem: LipschitzProblem, points: FloatArray, values: FloatArray, clock: Clock
) -> Witness | None:
    """A checked witness at the best of some points of the reduced problem."""
    order = np.argsort(-values, kind="stable")
    return unbeaten(points[order], values[order], partial(witness_near, problem), clock)
