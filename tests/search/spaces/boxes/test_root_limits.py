"""The root of a search over boxes ends with its clock: the bounds of the cascade hold then."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
import networks
from lipyomo import Box, LipschitzProblem
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.spaces.boxes import norm
from lipyomo.search.spaces.boxes.context import BoxQuestion
from lipyomo.search.spaces.boxes.norm import FEW, Norm


def problem_of(output_norm: str = "linf") -> LipschitzProblem:
    network = networks.random_network(3, (3, 6, 5, 2))
    weights, biases = ([getattr(one, a) for one in network.layers] for a in ("weight", "bias"))
    network = Network.from_arrays(weights, biases, activation="tanh")
    return LipschitzProblem(network, Box(-1, 1, 3), output_norm=output_norm)


@pytest.mark.parametrize("output_norm", ["linf", "l2"])
def test_a_root_without_time_bounds_no_box(
    output_norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a bound is computed after the limit")

    for name in ("bounded", "relaxed", "with_chords"):
        monkeypatch.setattr(norm, name, never)
    problem = problem_of(output_norm)
    objective = Norm(BoxQuestion(problem))
    whole, closed = objective.root(Incumbent(), Clock(0.0), lambda **_: None)
    assert np.isinf(whole.bounds).all()
    assert closed == 0.0
    monkeypatch.undo()
    found, truth = lipyomo.solve(problem, time_limit=1e-9), lipyomo.solve(problem)
    assert truth.upper * (1 - 1e-6) <= found.upper < np.inf


@pytest.mark.parametrize(("seconds", "most"), [(1.0, 50), (1e-3, 2000), (1e3, 1)])
def test_as_many_points_are_sampled_as_the_time_allows(
    seconds: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of 116 seconds are for the first search; some points are evaluated to learn the time."""
    now, seen = [0.0], []
    plain = Norm.values

    def slow(self: Norm, points: np.ndarray) -> np.ndarray:
        now[0] += seconds * len(points)
        seen.append(len(points))
        return plain(self, points)

    monkeypatch.setattr(Norm, "values", slow)
    objective, clock = Norm(BoxQuestion(problem_of())), Clock(116.0, now=lambda: now[0])
    best = objective.first(np.random.default_rng(0), clock)
    assert seen[:2] == [FEW, most]
    assert best.value > 0.0
