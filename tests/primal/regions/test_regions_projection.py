"""Slivers in Euclidean balls: the nearest point decides, however thin they are."""

from __future__ import annotations

import pytest
from flint import fmpq

from lipyomo.base.numerics.exact import exact
from lipyomo.primal.regions.full import between, nearest
from lipyomo.problems.domains.norm_ball import NormBall

THIN = 2.0**-60


def wedge(apex: float, height: float) -> list[list[fmpq]]:
    """``x > apex`` and ``height < y < height + THIN (x - apex)``, as rows ``a . x < b``."""
    rows = [[-1.0, 0.0, -apex], [0.0, -1.0, -height]]
    slope = [-exact(THIN), fmpq(1), exact(height) - exact(THIN) * exact(apex)]
    return [*([exact(v) for v in row] for row in rows), slope]


@pytest.mark.parametrize(
    ("apex", "height", "inside"),
    [
        *[(0.0, 0.5, True), (-9.0, 0.5, True), (0.99, 0.0, True), (1.0, 0.0, False)],
        *[(-9.0, 1.0, False), (-9.0, 1.0 - 2.0**-50, True), (1.5, 0.0, False)],
    ],
)
def test_a_thin_wedge_meets_the_unit_disc_or_not(apex: float, height: float, inside: bool) -> None:
    disc, rows = NormBall([0.0, 0.0], 1.0, "l2"), wedge(apex, height)
    found = nearest(rows, disc)
    assert found is not None
    assert found.inside == inside
    if inside:
        far = exact(apex) + 10
        point = between(found.point, [far, exact(height) + exact(THIN) * 5], disc)
        assert point is not None
        assert sum((x * x for x in point), fmpq(0)) < 1
        assert all(a * point[0] + b * point[1] < c for a, b, c in rows)


def test_too_many_faces_are_not_tried() -> None:
    rows = [[fmpq(1), fmpq(k), fmpq(-1)] for k in range(120)]
    assert nearest(rows, NormBall([0.0, 0.0], 1.0, "l2")) is None
