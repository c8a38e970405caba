"""Adversarial examples: the nearest point of another class that a search finds.

Gradient steps on the margins from several starts are projected onto a ball.  The ball grows until
it contains an example, and then shrinks as long as it does.  An example is moved towards the centre
as far as it stays in the other class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock

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
        found = _search(classifier, x, label, radius, rng, clock)
        if found is not None:
            return _nearer(classifier, x, label, found, rng, clock)
        radius *= 2.0
    return None


def _nearer(
    classifier: Classifier,
    x: FloatArray,
    label: int,
    example: Example,
    rng: np.random.Generator,
    clock: Clock,
) -> Example:
    """Search smaller balls as long as they contain an example."""
    for _ in range(6):
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
