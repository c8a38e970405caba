"""Adversarial examples: the nearest point of another class, found by a search or exactly.

Gradient steps on the margins from several starts are projected onto a ball.  The ball grows until
it contains an example, and then shrinks as long as it does.  An example is moved towards the centre
as far as it stays in the other class.

The size of the smallest adversarial perturbation, as an interval, is found by branch and bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.analyses.certification.metric import Metric, Polyhedral
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.domains import Box, Domain
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.kinds import kind_of
from lipyomo.search.objectives.nearest import NearestQuestion, confirmed_point
from lipyomo.search.objectives.reach import Reach

STARTS = 4
"""The number of points for each rival class in one search: more find nearer examples."""
STEPS = 24
"""The number of gradient steps of each point."""
DOUBLINGS = 8
"""How often the given radius is doubled, for examples and for the certified radius."""

ROUNDED = 12
"""Bits of a distance that are not resolved: there, rounding of outputs would decide the class."""


@dataclass(frozen=True)
class Example:
    """A point of another class.

    Attributes
    ----------
    point : ndarray, shape (d,)
    distance : float
        The distance from the centre, rounded up.
    label : int
        The class of the point.
    """

    point: FloatArray
    distance: float
    label: int


def find_example(
    classifier: Classifier,
    x: FloatArray,
    label: int,
    radius: float,
    rng: np.random.Generator,
    clock: Clock | None = None,
) -> Example | None:
    """Search for a near adversarial example, within `radius` or a multiple of it.

    Parameters
    ----------
    classifier : Classifier
    x : ndarray, shape (d,)
    label : int
        The class of x.
    radius : float
        The first radius that is searched; it is doubled until an example is found.
    rng : numpy Generator
    clock : Clock, optional
        Polled between steps of the search.

    Returns
    -------
    Example or None
    """
    clock = clock or Clock()
    for _ in range(DOUBLINGS):
        example = _search(classifier, x, label, radius, rng, clock)
        if example is not None:
            break
        radius *= 2.0
    else:
        return None
    for _ in range(6):  # smaller balls, as long as they contain one
        again = _search(classifier, x, label, 0.97 * example.distance, rng, clock)
        if again is None or again.distance >= example.distance:
            break
        example = again
    return example


def _search(
    classifier: Classifier,
    x: FloatArray,
    label: int,
    radius: float,
    rng: np.random.Generator,
    clock: Clock,
) -> Example | None:
    """Search for an example in one ball."""
    rows = classifier.functionals(label)
    count = len(rows)
    aims = np.repeat(np.arange(count), STARTS)
    points = np.repeat(x[None], aims.size, axis=0)
    noise = rng.uniform(-1.0, 1.0, points.shape)
    noise[::STARTS] = 0.0
    metric, clip = classifier.metric, classifier.clip
    points = metric.within(x, points + 0.5 * radius * noise, radius, clip)
    for step in range(STEPS):
        if clock.expired:
            break
        gradients = classifier.network.gradients(points, rows[aims])
        size = radius * (0.6 if step < STEPS // 2 else 0.15)
        points = metric.within(x, points - metric.ascent(gradients, size), radius, clip)
        wrong = np.flatnonzero(classifier.predict(points) != label)
        if wrong.size:
            return pulled(classifier, x, label, points[wrong])
    return None


def pulled(classifier: Classifier, x: FloatArray, label: int, points: FloatArray) -> Example:
    """Find the nearest example to x on the segments from x to `points` (n, d), by bisection."""
    low, high = np.zeros((len(points), 1)), np.ones((len(points), 1))
    for _ in range(np.finfo(np.float64).nmant - ROUNDED):
        middle = 0.5 * (low + high)
        wrong = classifier.predict(x + middle * (points - x))[:, None] != label
        low, high = np.where(wrong, low, middle), np.where(wrong, middle, high)
    ends = x + high * (points - x)
    best = int(classifier.distance(x, ends).argmin())
    for nearest in (ends[best], points[best]):  # the first may be slightly too near, by rounding
        found = int(classifier.predict(nearest[None])[0])
        if found != label:
            break
    return Example(nearest, float(classifier.distance(x, nearest[None])[0]), found)


@dataclass(frozen=True, eq=False)
class MetricBall:
    """The valid inputs around a point, as the search for the nearest input uses them.

    Attributes
    ----------
    metric : Metric
    centre : ndarray, shape (d,)
    clip : Box
    """

    metric: Metric
    centre: FloatArray
    clip: Box

    def domain(self, distance: float) -> Domain:
        """Return a domain of all valid inputs within a distance."""
        return self.metric.ball(self.centre, distance, self.clip)

    def reach(self, distance: float) -> Reach:
        """Return the same for a program; for a polyhedral metric, without the box around it."""
        return self.metric.reach(self.centre, distance, self.clip)

    def inside(self, points: FloatArray) -> FloatArray:
        """Move points (n, d) into the box."""
        return np.clip(points, self.clip.lower, self.clip.upper)

    def distances(self, points: FloatArray) -> FloatArray:
        """Return the distances of points (n, d), rounded up, shape (n,)."""
        return self.metric.distance(points - self.centre)


def smallest_perturbation(
    classifier: Classifier,
    x: FloatArray,
    label: int,
    most: float,
    clock: Clock,
    certified: float = 0.0,
    example: Example | None = None,
    nodes: int | None = None,
) -> tuple[float, Example | None]:
    """Search for the nearest input of another class, one rival after another.

    Parameters
    ----------
    classifier : Classifier
        Piecewise linear, or with a named norm.
    x : ndarray, shape (d,)
    label : int
        Its class, with positive margins.
    most : float
        Larger distances are ignored.
    clock : Clock
    certified : float, optional
        A radius that is already certified.
    example : Example, optional
        An input of another class.
    nodes : int, optional
        The search for each rival stops after about this many nodes.

    Returns
    -------
    certified : float
        No valid input within this radius has another class.
    example : Example or None
        The nearest known input of another class, confirmed in exact arithmetic.
    """
    around = MetricBall(classifier.metric, x, classifier.clip)
    rows = -classifier.functionals(label)
    order = np.argsort(classifier.margins(x, label)[0], kind="stable")
    inner = np.inf

    def question(number: int, limit: float) -> NearestQuestion:
        ties = bool(classifier.rivals(label)[number] < label)  # of equals, the first is the class
        least = min(certified, limit)
        return NearestQuestion(classifier.network, rows[number], around, limit, ties, least)

    if example is not None:  # it may be slightly too near due to rounding
        number = int(np.argmax(classifier.rivals(label) == example.label))
        found = confirmed_point(question(number, most), example.point)
        example = None
        if found is not None and found.point is not None:
            rival = int(classifier.rivals(label)[number])
            example = Example(found.point, -found.value, rival)
    for number in order.tolist():
        limit = most if example is None else min(most, example.distance)
        start = Incumbent()
        if example is not None and example.distance <= most:
            start = Incumbent(-example.distance, example.point)
        ended = _searched(question(number, limit), start, clock, nodes)
        inner = min(inner, -ended.upper)
        point = ended.best.point
        if point is not None and (example is None or -ended.best.value < example.distance):
            rival = int(classifier.rivals(label)[number])
            example = Example(point, -ended.best.value, rival)
    return max(certified, inner), example


def _searched(
    question: NearestQuestion, start: Incumbent, clock: Clock, nodes: int | None
) -> Found[Any]:
    """Run the engine until it has split `nodes` nodes; Ctrl-C ends more than this search."""
    split = 0

    def on_progress(point: FloatArray | None, upper: float, count: int, message: str) -> None:
        nonlocal split
        split = count

    def enough() -> bool:
        return clock.interrupted or (nodes is not None and split >= nodes)

    part = Clock(clock.left, enough)
    pipeline = kind_of(question.network).least_distance(question, start)
    found = Engine(pipeline, part, on_progress=on_progress).run()
    if part.interrupted and not (enough() or found.starved):
        raise KeyboardInterrupt
    return found


def farthest(classifier: Classifier, x: FloatArray, most: float) -> float:
    """Return the largest distance of a valid input, or `most` if there is none."""
    clip = classifier.clip
    if not clip.is_bounded:
        return most
    corner = np.where(x - clip.lower > clip.upper - x, clip.lower, clip.upper)
    if isinstance(classifier.metric, Polyhedral):
        reach = np.maximum(x - clip.lower, clip.upper - x)
        return float((np.abs(classifier.metric.rows) @ reach).max()) * (1.0 + gamma(x.size + 4))
    return float(classifier.distance(x, corner[None])[0])
