"""Domains: supports bound every point, samples lie inside, frozen inputs are eliminated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo.base.errors import DomainError
from lipyomo.base.numerics.exact import exact
from lipyomo.problems.domains import AllSpace, Box, Domain, NormBall, Polytope, ball
from networks import domains

KINDS = list(domains(3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
def test_supports_bound_all_points_and_are_attained(kind: str, sparse: bool) -> None:
    domain = domains(3)[kind]
    rng = np.random.default_rng(0)
    C = rng.standard_normal((6, 3)) * (rng.random((6, 3)) < 0.7)
    support = domain.support(sp.csr_array(C) if sparse else C)
    points = domain.sample(rng, 4000)
    reached = (points @ C.T).max(axis=0)
    assert (reached <= support + 1e-9).all()
    if domain.is_bounded:
        width = support + domain.support(-C)
        assert (support - reached <= 0.35 * width + 1e-9).all()
    else:
        zero = np.abs(C).sum(axis=1) == 0
        assert np.isposinf(support[~zero]).all()
        assert (support[zero] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_domains_inherit_is_sound_for_all_of_them(kind: str) -> None:
    domain = domains(3)[kind]
    rng = np.random.default_rng(1)
    C = rng.standard_normal((6, 3)) * (rng.random((6, 3)) < 0.7)
    inherited = Domain.support(domain, C)
    assert (inherited >= domain.support(C) - 1e-9).all()
    assert ((domain.sample(rng, 500) @ C.T).max(axis=0) <= inherited + 1e-9).all()
    points = Domain.sample(domain, rng, 500)
    assert points.shape == (500, 3)
    inner = domain.center + (1.0 - 1e-6) * (points - domain.center)  # up to rounding
    assert domain.contains(inner).all()


@pytest.mark.parametrize("kind", KINDS)
def test_samples_and_centers_are_interior(kind: str) -> None:
    domain = domains(3)[kind]
    points = np.vstack([domain.sample(np.random.default_rng(0), 500), domain.center])
    assert domain.contains(points).all()
    assert ((points > domain.lower) & (points < domain.upper)).all()
    if isinstance(domain, NormBall):
        assert (domain.slack(points) > 0).all()
    rows = domain.rows
    if rows.count:
        assert (points @ rows.A.T < rows.b).all()


@pytest.mark.parametrize("ends", [(5.0, np.inf), (-np.inf, -3.0), (1e20, np.inf), (-7.0, np.inf)])
def test_centers_of_half_spaces_are_interior(ends: tuple[float, float]) -> None:
    assert Box(*ends, 2).holds_inside(Box(*ends, 2).center)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_box_of_a_ball_holds_all_of_it(norm: str) -> None:
    rng = np.random.default_rng(0)
    center, radius = rng.uniform(-1, 1, 200), 0.1
    domain = ball(center, radius, norm)
    for low, high, c in zip(domain.lower, domain.upper, center, strict=True):
        assert Fraction(low) <= Fraction(c) - Fraction(radius)
        assert Fraction(high) >= Fraction(c) + Fraction(radius)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_repeat_and_fill(kind: str) -> None:
    domain = domains(3)[kind]
    one = domain.sample(np.random.default_rng(7), 200)
    np.testing.assert_array_equal(one, domain.sample(np.random.default_rng(7), 200))
    assert (one.std(axis=0) > 0.05).all()


def test_polytope_geometry() -> None:
    triangle = Polytope([[1.0, 1.0]], [1.0], 0.0, np.inf)
    assert triangle.is_bounded
    np.testing.assert_allclose(triangle.upper, [1.0, 1.0], atol=1e-7)
    np.testing.assert_allclose(triangle.lower, [0.0, 0.0])
    assert triangle.support(np.array([[2.0, 1.0]]))[0] == pytest.approx(2.0)
    assert triangle.contains([[0.4, 0.5], [0.6, 0.5]]).tolist() == [True, False]
    radius = 1.0 / (2.0 + np.sqrt(2.0))
    np.testing.assert_allclose(triangle.center, [radius, radius], atol=1e-6)
    wedge = Polytope([[1.0, -1.0]], [0.0], [-np.inf, 0.0], np.inf)
    assert not wedge.is_bounded
    assert np.isposinf(wedge.support(np.array([[0.0, 1.0]]))[0])
    assert wedge.contains(wedge.sample(np.random.default_rng(0), 50)).all()


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e-9, 1e9, 1e20, 1e90, 1e300])
def test_rows_of_all_sizes_say_the_same(size: float) -> None:
    plain = Polytope([[2.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [2.0, 0.0, 0.0])
    scaled = Polytope([[2 * size, size], [-size, 0.0], [0.0, -1.0]], [2 * size, 0.0, 0.0])
    assert scaled.upper == pytest.approx(plain.upper)
    assert scaled.lower == pytest.approx(plain.lower, abs=1e-12)
    first = scaled.rows.exactly(np.ones(2, dtype=bool), np.zeros(2))[0]
    assert first[0] / first[1] == exact(2 * size) / exact(size)
    assert first[2] == first[0]


def test_rows_that_would_not_stay_the_same_are_left_alone() -> None:
    faint, tiny = 2.0**-1074, 2.0**-1000
    rows = Polytope([[1e10, faint], [tiny, tiny], [1e9, 0.0]], [1e9, 0.5, faint], -1, 1).rows
    assert rows.A.toarray().tolist() == [[1e10, faint], [0.5, 0.5], [1e9, 0.0]]
    assert rows.b.tolist() == [1e9, 2.0**998, faint]
    with pytest.raises(DomainError, match="scale the inputs"):
        Polytope([[1e300, 1e-300]], [1.0], -1, 1)


def test_frozen_inputs_of_polytopes() -> None:
    flat = Polytope([[1.0, 1.0, 1.0]], [1.0], [0.0, 0.25, 0.0], [1.0, 0.25, 1.0])
    assert flat.frozen.tolist() == [False, True, False]
    kept = flat.restrict(~flat.frozen)
    assert kept.dimension == 2
    assert kept.support(np.array([[1.0, 1.0]]))[0] == pytest.approx(0.75)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_frozen_inputs_of_balls(norm: str) -> None:
    disc = ball([0.0, 0.5, 0.0], 1.0, norm, ([-9.0, 0.5, -9.0], [9.0, 0.5, 9.0]))
    assert disc.frozen.tolist() == [False, True, False]
    kept = disc.restrict(~disc.frozen)
    assert isinstance(kept, NormBall)
    assert kept.radius == 1.0
    assert kept.support(np.array([[1.0, 0.0]]))[0] == pytest.approx(1.0)


def test_clipped_balls_keep_both_bounds() -> None:
    domain = ball([0.1, 0.1], 1.0, "l2", (0.0, 0.5))
    assert domain.support(np.array([[1.0, 1.0]]))[0] == pytest.approx(1.0)
    assert domain.support(np.array([[-1.0, 0.0]]))[0] == pytest.approx(0.0)
    square = ball([0.1, 0.1], 1.0, "linf", (0.0, 0.5))
    assert isinstance(square, Box)
    assert square.lower.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("domain", [*domains(2).values(), Box([0, 0], [1, 2])])
def test_descriptions_are_one_line(domain: Domain) -> None:
    assert domain.describe()
    assert "\n" not in repr(domain)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Box([0.0, 1.0], [1.0, 0.0]), "input 1 has lower bound 1 above"),
        (lambda: Box([0.0, 1.0], [1.0]), "expected 2"),
        (lambda: Box(np.nan, 1.0, 2), "NaN"),
        (lambda: Box(np.inf, np.inf, 2), "empty"),
        (lambda: ball([0.0], -1.0), "positive radius"),
        (lambda: ball([0.0], 1.0, "l3"), "unknown ball norm"),
        (lambda: ball([np.inf], 1.0, "l2"), "finite center"),
        (lambda: ball([0.0], 1.0, "l2", (2.0, 3.0)), "outside the clip box"),
        (lambda: ball([0.0], 1.0, "linf", (2.0, 3.0)), "does not meet the clip box"),
        (lambda: Polytope([[1.0]], [1.0, 2.0]), "1 rows, but b has 2"),
        (lambda: Polytope([[np.nan]], [1.0]), "NaN"),
        (lambda: Polytope([[1.0], [-1.0]], [0.0, -1.0]), "empty"),
        (lambda: Polytope([[1.0, 1.0], [-1.0, -1.0]], [0.0, 0.0], -1, 1), "no interior"),
        (lambda: Polytope([[1.0]], [-np.inf]), "empty"),
    ],
)
def test_bad_domains_are_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(DomainError, match=message):
        build()


def test_all_of_space() -> None:
    space = AllSpace(4)
    assert not space.is_bounded
    assert space.contains(1e12 * np.ones(4))
    assert space.restrict(np.array([True, False, True, True])).dimension == 3


def test_a_box_and_rows_that_contradict_each_other_in_the_last_digit_are_refused() -> None:
    """``3 x <= 0.3`` leaves out x = 0.1 as float64 numbers go."""
    with pytest.raises(DomainError, match="empty"):
        Polytope([[3.0, 0.0]], [0.3], [0.1, -1.0], [0.1, 1.0])
    assert Polytope([[2.0, 0.0]], [0.2], [0.1, -1.0], [0.1, 1.0]).frozen.tolist() == [True, False]
