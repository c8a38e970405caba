"""Primal heuristics: points with large values."""

from __future__ import annotations

import numpy as np

from lipyomo.domains import Domain
from lipyomo.network import FloatArray
from lipyomo.run import Clock
from lipyomo.search.protocol import Incumbent
from lipyomo.search.smooth.ascent import projected_ascents
from lipyomo.search.values.context import Question

INWARDS = 2.0 ** -np.arange(52.0, 20.0, -4.0)
"""Shares of the way to the centre by which a point that rounding left outside is pulled."""


def best_start(
    question: Question, rng: np.random.Generator, clock: Clock, points: FloatArray | None = None
) -> Incumbent:
    """The best of ascents from given points (n, d), or from the best ones of a sample."""
    domain, params, best = question.domain, question.params, Incumbent()
    if points is None:
        best = challenged(question, best, domain.center)
        points = domain.sample(rng, params.samples)
    values = question.values(points)
    first = points[np.argsort(-values, kind="stable")[: params.starts]]

    def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return question.values(x), question.gradients(x)

    points, values = projected_ascents(domain, first, slopes, params.steps, clock)
    return challenged(question, best, points[values.argmax()])


def challenged(question: Question, best: Incumbent, point: FloatArray) -> Incumbent:
    """The better one of an incumbent and a point of the domain near the given one."""
    domain = question.domain
    for x in pulled_in(domain, point):
        if not float(question.values(x[None])[0]) > best.value:
            return best
        value = question.attained(x) if domain.holds(x) else -np.inf
        if np.isfinite(value):
            return Incumbent(value, x) if value > best.value else best
    return best


def pulled_in(domain: Domain, x: FloatArray) -> list[FloatArray]:
    """The point, some a little nearer to the centre, and one that is well inside."""
    first = np.clip(x, domain.lower, domain.upper)
    near = (first + share * (domain.center - first) for share in INWARDS)
    last = domain.drawn_in(x[None])[0]
    return [first, *near, last, last + INWARDS[-1] * (domain.center - last)]
