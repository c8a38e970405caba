"""Synthetic classification data labelled by the nearest of a few "leader" points.

The generator of Jordan and Dimakis, "Exactly Computing the Local Lipschitz Constant of ReLU
Networks" (NeurIPS 2020), appendix F.1: points are uniform in the unit cube, a few of them become
leaders and get a random class, every other point takes the class of its nearest leader.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipyomo.base.errors import ProblemError

_ATTEMPTS_PER_POINT = 1000


@dataclass(frozen=True)
class LeadersData:
    """A data set in the unit cube, with the leaders that label it.

    Attributes
    ----------
    points : ndarray of float64, shape (n, d)
        The samples, in [0, 1]^d.
    labels : ndarray of int64, shape (n,)
        Class of each sample, 0 to `classes` - 1 (the paper counts from 1).
    leaders : ndarray of int64, shape (k,)
        Rows of `points` that are leaders.
    classes : int
        Number of classes that were drawn from; with few leaders some may have no sample.
    """

    points: NDArray[np.float64]
    labels: NDArray[np.int64]
    leaders: NDArray[np.int64]
    classes: int

    def label(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Class of any points: that of the nearest leader (Euclidean; ties go to the first).

        Parameters
        ----------
        points : ndarray, shape (n, d)
            Where to evaluate the rule that generated the data.

        Returns
        -------
        ndarray of int64, shape (n,)
            Classes, 0 to `classes` - 1.
        """
        nearest = _nearest(np.asarray(points, dtype=np.float64), self.points[self.leaders])
        return self.labels[self.leaders][nearest]


def leaders_dataset(
    dim: int,
    points: int,
    leaders: int,
    classes: int,
    *,
    min_separation: float = 0.0,
    seed: int = 0,
) -> LeadersData:
    """Draw a "leaders" data set (appendix F.1 of the LipMIP paper).

    Points are drawn one after the other; one that falls within `min_separation` of an earlier
    point is drawn again. The paper prints neither the separation nor its metric: the metric here
    is Euclidean and the default separation is zero.

    Parameters
    ----------
    dim : int
        Dimension d of the unit cube.
    points : int
        Number of samples n.
    leaders : int
        Number of leaders, at most `points`.
    classes : int
        Number of classes; each leader's class is uniform among them.
    min_separation : float, default 0
        Least distance of any two samples.
    seed : int, default 0
        Seed of the generator; the same arguments always give the same data.

    Returns
    -------
    LeadersData
        Samples, classes and leaders.

    Raises
    ------
    ProblemError
        If a count is not positive, there are more leaders than points, or that many points cannot
        be placed at that separation.

    Examples
    --------
    >>> data = leaders_dataset(2, 256, 20, 2, seed=0)
    >>> data.points.shape, data.labels.shape, len(data.leaders)
    ((256, 2), (256,), 20)
    >>> bool((data.label(data.points) == data.labels).all())
    True
    """
    _check(dim, points, leaders, classes, min_separation)
    rng = np.random.default_rng(seed)
    samples = _separated_points(rng, dim, points, min_separation)
    chosen = rng.choice(points, size=leaders, replace=False)
    leader_labels = rng.integers(classes, size=leaders)
    labels = leader_labels[_nearest(samples, samples[chosen])]
    return LeadersData(samples, labels, chosen, classes)


def _check(dim: int, points: int, leaders: int, classes: int, min_separation: float) -> None:
    for name, value in (
        ("dim", dim),
        ("points", points),
        ("leaders", leaders),
        ("classes", classes),
    ):
        if value < 1:
            raise ProblemError(f"leaders data set: {name} is {value}; give at least 1")
    if leaders > points:
        raise ProblemError(
            f"leaders data set: {leaders} leaders among {points} points; "
            "leaders are points, so give at most as many"
        )
    if not 0.0 <= min_separation < np.inf:
        raise ProblemError(
            f"leaders data set: min_separation is {min_separation}; give a finite number >= 0"
        )


def _separated_points(
    rng: np.random.Generator, dim: int, count: int, separation: float
) -> NDArray[np.float64]:
    """Uniform points of the unit cube, each at least `separation` away from those before it."""
    samples = np.empty((count, dim))
    for k in range(count):
        for _ in range(_ATTEMPTS_PER_POINT):
            candidate = rng.random(dim)
            gaps = samples[:k] - candidate
            if k == 0 or np.einsum("ij,ij->i", gaps, gaps).min() >= separation**2:
                samples[k] = candidate
                break
        else:
            raise ProblemError(
                f"leaders data set: only {k} of {count} points found a place at separation "
                f"{separation} in dimension {dim}; lower min_separation or the number of points"
            )
    return samples


def _nearest(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.intp]:
    """Index of the nearest centre of every point, without the (n, k, d) array of differences."""
    best = np.full(len(points), np.inf)
    nearest = np.zeros(len(points), dtype=np.intp)
    for k, centre in enumerate(centres):
        gaps = points - centre
        distance = np.einsum("ij,ij->i", gaps, gaps)
        closer = distance < best
        best[closer] = distance[closer]
        nearest[closer] = k
    return nearest
