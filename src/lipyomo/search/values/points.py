"""Primal heuristics: points with large values."""

from __future__ import annotations

import numpy as np

from lipyomo.domains import Domain
from lipyomo.network import FloatArray
from lipyomo.regions.attained import holds
from lipyomo.run import Clock
from lipyomo.search.protocol import Incumbent
from lipyomo.search.smooth.ascent import drawn_in
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
    points, values = ascended(question, first, clock)
    return challenged(question, best, points[values.argmax()])


def challenged(question: Question, best: Incumbent, point: FloatArray) -> Incumbent:
    """The better one of an incumbent and a point of the domain near the given one."""
    domain = question.domain
    for x in pulled_in(domain, point):
        if not float(question.values(x[None])[0]) > best.value:
            return best
        value = question.attained(x) if holds(domain, x) else -np.inf
        if np.isfinite(value):
            return Incumbent(value, x) if value > best.value else best
    return best


def ascended(question: Question, points: FloatArray, clock: Clock) -> tuple[FloatArray, FloatArray]:
    """Points (n, d) after ascents along the gradients, and their values (n,).

    Steps are shares of the domain's width; one that loses is taken back and halved.
    """
    domain = question.domain
    width = domain.upper - domain.lower
    x, size = drawn_in(domain, points), np.full(len(points), 0.25)
    values = question.values(x)
    for _ in range(question.params.steps):
        if clock.expired:
            break
        slopes = question.gradients(x) * width
        longest = np.abs(slopes).max(axis=1, keepdims=True)
        aim = slopes / np.where(longest > 0, longest, 1.0)
        new = drawn_in(domain, x + size[:, None] * width * aim)
        found = question.values(new)
        better = found > values
        x, values = np.where(better[:, None], new, x), np.where(better, found, values)
        size = np.where(better, size, 0.5 * size)
    return x, values


def pulled_in(domain: Domain, x: FloatArray) -> list[FloatArray]:
    """The point, some a little nearer to the centre, and one that is well inside."""
    first = np.clip(x, domain.lower, domain.upper)
    near = (first + share * (domain.center - first) for share in INWARDS)
    last = drawn_in(domain, x[None])[0]
    return [first, *near, last, last + INWARDS[-1] * (domain.center - last)]
