"""The leaders data set is what appendix F.1 describes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.training import he_network, leaders_dataset
from lipyomo.base.errors import LipyomoError


@settings(max_examples=20, deadline=None)
@given(
    dim=st.integers(1, 6),
    points=st.integers(1, 80),
    share=st.floats(0.0, 1.0),
    classes=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_every_point_has_the_class_of_its_nearest_leader(
    dim: int, points: int, share: float, classes: int, seed: int
) -> None:
    leaders = max(1, round(share * points))
    data = leaders_dataset(dim, points, leaders, classes, seed=seed)
    assert data.points.shape == (points, dim)
    assert (data.points >= 0).all()
    assert (data.points <= 1).all()
    assert len(set(data.leaders.tolist())) == leaders
    assert set(data.labels.tolist()) <= set(range(classes))
    gaps = np.linalg.norm(data.points[:, None] - data.points[data.leaders][None], axis=2)
    own = np.where(data.labels[:, None] == data.labels[data.leaders][None], gaps, np.inf)
    np.testing.assert_allclose(own.min(axis=1), gaps.min(axis=1), atol=1e-12)
    np.testing.assert_array_equal(data.label(data.points), data.labels)


@pytest.mark.parametrize("separation", [0.02, 0.1])
def test_points_keep_their_separation(separation: float) -> None:
    points = leaders_dataset(2, 50, 5, 2, min_separation=separation, seed=3).points
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert gaps[~np.eye(50, dtype=bool)].min() >= separation


def test_equal_seeds_give_equal_data_and_others_do_not() -> None:
    first, again, other = (leaders_dataset(3, 30, 4, 2, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert not np.array_equal(first.points, other.points)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((0, 10, 2, 2), "dim"),
        ((2, 0, 2, 2), "points"),
        ((2, 10, 0, 2), "leaders"),
        ((2, 10, 2, 0), "classes"),
        ((2, 10, 11, 2), "at most"),
    ],
)
def test_impossible_counts_are_refused(arguments: tuple[int, ...], part: str) -> None:
    with pytest.raises(LipyomoError, match=part):
        leaders_dataset(*arguments)


@pytest.mark.parametrize("separation", [-1.0, float("nan"), float("inf")])
def test_senseless_separations_are_refused(separation: float) -> None:
    with pytest.raises(LipyomoError, match="min_separation"):
        leaders_dataset(2, 10, 2, 2, min_separation=separation)


def test_a_separation_that_the_cube_cannot_hold_is_refused() -> None:
    with pytest.raises(LipyomoError, match="found a place"):
        leaders_dataset(1, 20, 2, 2, min_separation=0.2)


def test_he_weights_have_he_variance_and_float32_values() -> None:
    weights, biases = he_network([400, 300, 1], seed=1)
    assert abs(weights[0].var() * 400 / 2 - 1) < 0.02
    assert np.abs(biases[0]).max() <= 1 / 20
    for array in (*weights, *biases):
        np.testing.assert_array_equal(array.astype(np.float32).astype(np.float64), array)
