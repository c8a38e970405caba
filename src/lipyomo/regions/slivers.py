"""Points of slivers: regions that are thinner than the distance of two float64 numbers.

A point strictly inside is moved along the region until its coordinates are float64 numbers: a
sliver may hold many although it is that thin in one direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from flint import fmpq

from lipyomo.domains.base import box_sides
from lipyomo.network import FloatArray
from lipyomo.numerics.exact import approximate, exact
from lipyomo.regions.combination import Body, Row

TRIES = 60
"""Points along a sliver that are tried for one of float64 coordinates."""


def slacks(rows: Sequence[Row], point: Sequence[fmpq]) -> list[fmpq]:
    """``b - a . x`` of each row."""
    return [
        row[-1] - sum((a * x for a, x in zip(row, point, strict=False)), fmpq(0)) for row in rows
    ]


def float_points(
    rows: Sequence[Row], body: Body, point: Sequence[fmpq], size: float
) -> Iterator[FloatArray]:
    """Points of float64 coordinates that satisfy all rows and bounds strictly.

    Parameters
    ----------
    rows : sequence of sequences of fmpq
        ``(a, b)`` of ``a . x < b``.
    body : Body
        Only its bounds are looked at.
    point : sequence of fmpq
        A strict point.
    size : float
        How far from it to look, at most.
    """
    every = [*rows, *box_sides(body.lower, body.upper)]
    rounded = np.array([approximate(x) for x in point])
    if min(slacks(every, [exact(x) for x in rounded.tolist()])) > 0:
        yield rounded
    left = slacks(every, point)
    sizes = [sum((abs(a) for a in row[:-1]), fmpq(0)) for row in every]
    thin = min(range(len(every)), key=lambda k: left[k] / sizes[k] if sizes[k] != 0 else left[k])
    normal = np.array([approximate(a) for a in every[thin][:-1]])
    norm = float(normal @ normal)
    free = int(np.argmax(np.abs(normal)))
    rng = np.random.default_rng(0)
    for _ in range(TRIES):
        along = rng.standard_normal(normal.size)
        along -= (along @ normal) / norm * normal
        near = rounded + size * 10.0 ** -rng.uniform(0.0, 10.0) * along
        at = _between(every, near, free) if np.isfinite(near).all() else None
        if at is not None:
            near[free] = at
            yield near


def _between(rows: Sequence[Row], x: FloatArray, free: int) -> float | None:
    """A value of coordinate `free` with which x satisfies all rows strictly."""
    others = [exact(value) for value in x.tolist()]
    others[free] = fmpq(0)
    low: fmpq | None = None
    high: fmpq | None = None
    for row, gap in zip(rows, slacks(rows, others), strict=True):
        a = row[free]
        if a == 0:
            if gap <= 0:
                return None
        elif a > 0:
            high = gap / a if high is None else min(high, gap / a)
        else:
            low = gap / a if low is None else max(low, gap / a)
    if low is None or high is None or low >= high:
        return None
    middle = approximate((low + high) / 2)
    for value in (middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)):
        if low < exact(float(value)) < high:
            return float(value)
    return None
