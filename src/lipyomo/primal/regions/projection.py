"""Whether a thin polyhedron meets the interior of a Euclidean ball, in rational numbers.

The point of the polyhedron that is nearest to the ball's centre c is the projection of c onto some
of its faces: with their rows ``N x = b`` it is ``c - N^T y`` for ``(N N^T) y = N c - b``, and it is
the nearest one if and only if it satisfies all rows and ``y >= 0``.  If it lies inside the ball, so
do points near it in the direction of any interior point of the polyhedron.  If not, the rows with
their weights y prove that all points that satisfy them are at least as far away as the radius, so
that the intersection is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from flint import fmpq, fmpq_mat

from lipyomo.base.numerics.exact import exact
from lipyomo.primal.regions.combination import slacks
from lipyomo.primal.regions.params import PARAMS
from lipyomo.problems.domains.base import RoundPart


class Nearest(NamedTuple):
    """The nearest point of a polyhedron to a ball's centre.

    Attributes
    ----------
    point : list of fmpq
    faces : list of int
        The rows on whose faces it lies, and which prove that no point is nearer.
    inside : bool
        Whether it lies strictly inside the ball.
    """

    point: list[fmpq]
    faces: list[int]
    inside: bool


def nearest(rows: Sequence[Sequence[fmpq]], ball: RoundPart) -> Nearest | None:
    """Find the point of ``{x : a . x <= b for all rows (a, b)}`` nearest to the centre of a ball.

    Return None if there are too many rows to try; the polyhedron must not be empty.
    """
    center = [exact(value) for value in ball.point.tolist()]
    d, limit = len(center), exact(ball.radius) ** 2
    used = [k for k, row in enumerate(rows) if any(a != 0 for a in row[:-1])]
    if sum(comb(len(used), size) for size in range(d + 1)) > PARAMS.choices:
        return None
    gaps = [-slack for slack in slacks(rows, center)]
    for size in range(d + 1):
        for chosen in combinations(used, size):
            point = _projected(center, [rows[k] for k in chosen], [gaps[k] for k in chosen])
            if point is not None and min(slacks(rows, point)) >= 0:
                return Nearest(point, list(chosen), _square(point, center) < limit)
    return None


def between(near: Sequence[fmpq], inner: Sequence[fmpq], ball: RoundPart) -> list[fmpq]:
    """Return a point inside the ball on the way from `near`, which is inside it, to `inner`."""
    center = [exact(value) for value in ball.point.tolist()]
    limit, step = exact(ball.radius) ** 2, fmpq(1)
    while True:  # terminates, as `near` is strictly inside
        point = [a + step * (b - a) for a, b in zip(near, inner, strict=True)]
        if _square(point, center) < limit:
            return point
        step /= 2


def _projected(
    center: list[fmpq], rows: list[Sequence[fmpq]], gaps: list[fmpq]
) -> list[fmpq] | None:
    """Project onto ``a . x = b``; return None if rows are dependent or a weight is negative."""
    if not rows:
        return center
    normals = fmpq_mat([list(row[:-1]) for row in rows])
    gram = normals * normals.transpose()
    if gram.det() == 0:
        return None
    weights = gram.solve(fmpq_mat([[gap] for gap in gaps]))
    if any(weight < 0 for weight in weights.entries()):
        return None
    step = (normals.transpose() * weights).entries()
    return [c - s for c, s in zip(center, step, strict=True)]


def _square(a: Sequence[fmpq], b: Sequence[fmpq]) -> fmpq:
    return sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), fmpq(0))
