"""Primal heuristics: points with large values."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.spaces.boxes.ascent import projected_ascents


def best_start(
    question: ValueQuestion,
    rng: np.random.Generator | None,
    clock: Clock,
    points: FloatArray | None = None,
) -> Incumbent:
    """The best of ascents from given points (n, d), or from the best ones of a sample."""
    domain, params, best = question.domain, question.params, Incumbent()
    if points is None:
        assert rng is not None
        best = challenged(question, best, domain.center)
        points = domain.sample(rng, params.samples)
    values = question.values(points)
    first = points[np.argsort(-values, kind="stable")[: params.starts]]

    def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return question.values(x), question.gradients(x)

    points, values = projected_ascents(domain, first, slopes, params.steps, clock)
    return challenged(question, best, points[values.argmax()])


def challenged(question: ValueQuestion, best: Incumbent, point: FloatArray) -> Incumbent:
    """The better one of an incumbent and a point of the domain near the given one.

    The point is (d,), or (2, d) for the sum of two rows.
    """
    domain = question.domain
    if point.ndim > 1:  # between float64 points
        value = question.attained(point) if domain.holds(point) else -np.inf
        return Incumbent(value, point) if value > best.value else best
    for x in domain.pulled_in(point):
        if not float(question.values(x[None])[0]) > best.value:
            return best
        value = question.attained(x) if domain.holds(x) else -np.inf
        if np.isfinite(value):
            return Incumbent(value, x) if value > best.value else best
    return best
