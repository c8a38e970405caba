"""The search for adversarial examples ends with its clock, and pulls all examples in together."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem
from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.analyses.certification.nearest import find_example, pulled
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.problems.reductions.merge import exactly
from networks import random_network


def test_an_attack_without_time_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a step is taken after the limit")

    classifier, x = Classifier(random_network(1, (3, 6, 5, 3))), np.array([0.1, -0.2, 0.3])
    label, rng = int(classifier.predict(x[None])[0]), np.random.default_rng(0)
    assert find_example(classifier, x, label, 0.1, rng) is not None
    monkeypatch.setattr(Network, "gradients", never)
    assert find_example(classifier, x, label, 0.1, rng, Clock(0.0)) is None


@pytest.mark.parametrize("seed", range(4))
def test_all_points_are_pulled_in_by_the_same_evaluations(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier, rng = Classifier(random_network(seed, (3, 8, 3))), np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 3)
    label = int(classifier.predict(x[None])[0])
    points = x + rng.uniform(-4, 4, (200, 3))
    points = points[classifier.predict(points) != label]
    assert len(points) > 5
    alone = [pulled(classifier, x, label, point[None]) for point in points]
    plain, calls = classifier.predict, [0]

    def counted(of: np.ndarray) -> np.ndarray:
        calls[0] += 1
        return plain(of)

    monkeypatch.setattr(classifier, "predict", counted)
    found = pulled(classifier, x, label, points)
    assert calls[0] < 60
    assert found.label != label
    assert plain(found.point[None])[0] == found.label
    assert found.distance == pytest.approx(min(one.distance for one in alone), rel=1e-9)


def test_one_reduction_serves_constants_and_values() -> None:
    network, domain = random_network(2, (3, 6, 2)), Box(-1, 1, 3)
    first = LipschitzProblem(network, domain).reduced.network
    assert exactly(network, domain).network is first
