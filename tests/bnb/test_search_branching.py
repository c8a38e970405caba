"""What splits are expected to be worth follows from what they were worth."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.bnb.experience import CONSTANT, FEATURES, Experience
from lipyomo.bnb.tree import Tree
from lipyomo.domains import AllSpace
from lipyomo.network import FloatArray
from lipyomo.problem import LipschitzProblem
from networks import random_network

UNITS = 12


def some_features(rng: np.random.Generator, rows: int) -> FloatArray:
    features = rng.normal(size=(rows, FEATURES))
    features[:, CONSTANT] = 1.0
    return features


def learnt(weights: FloatArray, own: FloatArray, seed: int = 0, splits: int = 2000) -> Experience:
    rng, experience = np.random.default_rng(seed), Experience.none(UNITS)
    for features in some_features(rng, splits):
        unit = int(rng.integers(UNITS))
        experience.learn(unit, features, float(np.exp(features @ weights + own[unit])))
    return experience


def test_forecasts_find_weights_and_what_units_are_worth_beside() -> None:
    rng = np.random.default_rng(1)
    weights, own = rng.normal(size=FEATURES), rng.normal(size=UNITS)
    experience = learnt(weights, own)
    units, features = np.arange(UNITS), some_features(rng, UNITS)
    expected = features @ weights + own
    assert np.abs(experience.forecast(units, features) - expected).max() < 0.2


def test_without_splits_the_larger_look_ahead_and_the_earlier_layer_are_preferred() -> None:
    features = np.zeros((3, FEATURES))
    features[1, 0], features[2, 1] = 1.0, -1.0
    plain, large, late = Experience.none(UNITS).forecast(np.arange(3), features)
    assert late < plain < large


def test_what_others_learnt_adds_up() -> None:
    rng = np.random.default_rng(2)
    weights, own = rng.normal(size=FEATURES), rng.normal(size=UNITS)
    first, second = (learnt(weights, own, seed, 100) for seed in (0, 1))
    both = first.copy()
    both.add(second)
    units, features = np.arange(UNITS), some_features(rng, UNITS)
    there = both.since(first).forecast(units, features)
    assert there == pytest.approx(second.forecast(units, features), rel=1e-6)
    assert both.forecast(units, features) != pytest.approx(there, rel=1e-6)


@pytest.mark.parametrize("cutoff", [0.0, 1e-200, 1.0, 1e200])
@pytest.mark.parametrize("bound", [1e-200, 1.0, 1e200, np.inf])
def test_features_are_numbers_whatever_the_bounds(bound: float, cutoff: float) -> None:
    tree = Tree(
        LipschitzProblem(random_network(0, (3, 6, 6, 1)), AllSpace(3)), np.random.default_rng(0)
    )
    node = tree.whole()
    node.target_bounds = node.proved = np.array([bound])
    form = tree.system.reduce(node.phases)
    for worst in (None, tree.bounder.bound(tree.whole(), form, None, 0.0)):
        with np.errstate(all="raise", under="ignore"):
            units, features = tree.brancher.candidates(node, form, worst, tree.experience, cutoff)
        assert units.size
        assert np.isfinite(features).all()
        assert np.abs(features).max() < 100
