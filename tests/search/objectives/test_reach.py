"""What multipliers prove of a set of inputs is not below what its points have, in rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lipyomo.problems.domains import ball
from lipyomo.search.objectives.reach import Proof, Reach, ReachRows


def total(*factors: list[float]) -> Fraction:
    """The sum of products of entries, without rounding."""
    rows = zip(*(map(Fraction, row) for row in factors), strict=True)
    return sum((a * b for a, b in rows), Fraction(0))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("far", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("seed", range(5))
def test_a_pull_is_rounded_up(seed: int, far: float, norm: str) -> None:
    rng = np.random.default_rng(seed)
    reach = Reach.of(ball(far * rng.standard_normal(4), float(rng.uniform(0.1, 1.0)), norm))
    assert reach.point is not None
    for pull in rng.standard_normal((50, 4)):
        bound = Fraction(reach.pulled(pull)) - total(pull.tolist(), reach.point.tolist())
        sizes, radius = [abs(Fraction(q)) for q in pull.tolist()], Fraction(reach.radius)
        assert bound >= 0
        largest = max(sizes) ** 2 if norm == "l1" else sum(q * q for q in sizes)
        assert bound**2 >= radius**2 * largest


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("seed", range(5))
def test_any_multipliers_prove_bounds_of_all_points(seed: int, norm: str) -> None:
    rng = np.random.default_rng(seed)
    domain = ball([0.3, -0.2, 0.5], 0.7, norm)
    reach = Reach.of(domain)
    A = rng.standard_normal((4, 5))
    points = np.hstack([domain.sample(rng, 400), rng.uniform(0.0, 2.0, (400, 2))])
    b = np.quantile(points @ A.T, 0.7, axis=0)
    rows = ReachRows(A, b, rng.standard_normal(5), np.zeros(2), np.full(2, 2.0))
    inside = points[(points @ A.T <= b).all(axis=1)]
    assert len(inside)
    top = float((inside @ rows.cost).max())
    for size in (0.0, 0.3, 1.0):
        pull = size * rng.standard_normal(3)
        duals = size * rng.random(4 + len(reach.b))
        assert rows.proved(reach, Proof(duals, pull)) >= top
    free, cost = Proof(np.zeros(4 + len(reach.b)), rows.cost[:3]), rows.cost[:3]
    out = cost / np.linalg.norm(cost)
    if norm == "l1":
        out = np.sign(cost) * (np.abs(cost) == np.abs(cost).max())
    farthest = np.append(domain.point + 0.7 * out, np.where(rows.cost[3:] > 0, 2.0, 0.0))
    assert rows.proved(reach, free) == pytest.approx(float(farthest @ rows.cost))
