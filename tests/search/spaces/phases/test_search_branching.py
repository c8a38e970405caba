"""What splits are expected to score follows from what they scored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.domains import AllSpace, Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.spaces.phases.bound import bound_whole
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.params import Params
from lipyomo.search.spaces.phases.pipeline import PhasePipeline
from lipyomo.search.spaces.phases.score import candidates, score
from lipyomo.search.spaces.phases.statistics import CONSTANT, FEATURES, Statistics
from networks import random_network

UNITS = 12


def forecast(
    statistics: Statistics, units: npt.NDArray[np.int64], features: FloatArray
) -> FloatArray:
    return statistics.forecast(units, features, statistics.weights(), Params().unit_trust)


def some_features(rng: np.random.Generator, rows: int) -> FloatArray:
    features = rng.normal(size=(rows, FEATURES))
    features[:, CONSTANT] = 1.0
    return features


def after_splits(
    weights: FloatArray, own: FloatArray, seed: int = 0, splits: int = 2000
) -> Statistics:
    rng, statistics = np.random.default_rng(seed), Statistics.nothing(UNITS)
    for features in some_features(rng, splits):
        unit = int(rng.integers(UNITS))
        statistics = statistics.learn(unit, features, float(np.exp(features @ weights + own[unit])))
    return statistics


def test_forecasts_find_weights_and_what_units_are_worth_beside() -> None:
    rng = np.random.default_rng(1)
    weights, own = rng.normal(size=FEATURES), rng.normal(size=UNITS)
    statistics = after_splits(weights, own)
    units, features = np.arange(UNITS), some_features(rng, UNITS)
    expected = features @ weights + own
    assert np.abs(forecast(statistics, units, features) - expected).max() < 0.2


def test_without_splits_the_larger_look_ahead_and_the_earlier_layer_are_preferred() -> None:
    features = np.zeros((3, FEATURES))
    features[1, 0], features[2, 1] = 1.0, -1.0
    plain, large, late = forecast(Statistics.nothing(UNITS), np.arange(3), features)
    assert late < plain < large


def test_what_others_learnt_adds_up() -> None:
    rng = np.random.default_rng(2)
    weights, own = rng.normal(size=FEATURES), rng.normal(size=UNITS)
    first, second = (after_splits(weights, own, seed, 100) for seed in (0, 1))
    both = first.plus(second)
    units, features = np.arange(UNITS), some_features(rng, UNITS)
    there = forecast(both.since(first), units, features)
    assert there == pytest.approx(forecast(second, units, features), rel=1e-6)
    assert forecast(both, units, features) != pytest.approx(there, rel=1e-6)


@pytest.mark.parametrize("cutoff", [0.0, 1e-200, 1.0, 1e200])
@pytest.mark.parametrize("bound", [1e-200, 1.0, 1e200, np.inf])
def test_features_are_numbers_whatever_the_bounds(bound: float, cutoff: float) -> None:
    problem = LipschitzProblem(random_network(0, (3, 6, 6, 1)), AllSpace(3))
    context = PhaseContext.of(PhaseQuestion(problem))
    whole, statistics = context.whole(), Statistics.nothing(context.system.count)
    form = context.system.form(whole.phases)
    found = bound_whole(context, whole, form, 0.0, Clock())
    assert found.worst is not None
    node = whole._replace(target_bounds=np.array([bound]), proved=np.array([bound]))
    for worst in (None, found.worst):
        with np.errstate(all="raise", under="ignore"):
            units, features, _ = candidates(
                context, node, form, worst, statistics, statistics.weights(), cutoff
            )
        assert units.size
        assert np.isfinite(features).all()
        assert np.abs(features).max() < 100


def test_the_first_split_is_the_best_of_several() -> None:
    problem = LipschitzProblem(random_network(0, (4, 16, 16, 1)), Box(0.0, 1.0, 4))
    scored = []
    for tried in (1_000, 4):
        pipeline = PhasePipeline(PhaseQuestion(problem, params=Params(tried=tried)))
        (root,) = pipeline.root(Clock(), lambda **_: None).outcome.children
        found = pipeline.process(pipeline.plan([root], travels=False), Clock(), lambda: None)
        assert found.counters["nodes"] == 1
        cutoff = pipeline.cutoff(pipeline.points.best.value)
        scored.append(score(pipeline.context, root, found.children, cutoff))
    assert scored[1] > 1.1 * scored[0]
