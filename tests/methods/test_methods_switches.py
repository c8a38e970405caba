"""Method sdp uses switches that depend on the inputs at wide roots; it is never below the truth."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, solve
from lipyomo.base.clock import Clock
from lipyomo.methods import semidefinite
from lipyomo.relaxations.semidefinite.switched_bounds import LoweredTargets, SwitchedBounder
from networks import random_network


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[LoweredTargets]:
    """Take switches for small roots as well; what they gave."""
    found: list[LoweredTargets] = []
    inner = SwitchedBounder.worst_first

    def seen(*given: object) -> LoweredTargets:
        found.append(inner(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(semidefinite, "switches_pay", lambda *_: True)
    monkeypatch.setattr(SwitchedBounder, "worst_first", seen)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_sdp_with_switches_is_above_the_constant(seed: int, always: list[LoweredTargets]) -> None:
    """And not above the bound by tangents alone."""
    network = random_network(seed, (6, 10, 10, 3), slope=0.1 * (seed % 2))
    problem = LipschitzProblem(network, Box(-0.5, 0.5, 6), "linf", "linf")
    bound = solve(problem, "sdp").upper
    assert len(always) == 1
    always.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semidefinite, "switches_pay", lambda *_: False)
        tangents = solve(problem, "sdp").upper
    assert not always
    exact = solve(problem, "bnb")
    assert exact.lower <= bound
    assert bound <= tangents


@pytest.mark.parametrize("norms", [("l2", "l2"), ("linf", "l1"), ("l1", "linf")])
def test_other_norms_have_their_own_bounds(
    norms: tuple[str, str], always: list[LoweredTargets]
) -> None:
    """Switches serve the cube of directions and single functionals."""
    problem = LipschitzProblem(random_network(1, (5, 8, 2)), Box(-1, 1, 5), *norms)
    bound = solve(problem, "sdp").upper
    assert bound >= solve(problem, "bnb").lower
    assert bool(always) == (norms == ("linf", "l1"))


def test_smooth_units_have_no_switches(always: list[LoweredTargets]) -> None:
    """Their slopes do not follow from the signs of pre-activations."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((6, 4)), rng.standard_normal((2, 6))]
    network = Network.from_arrays(weights, [np.zeros(6), np.zeros(2)], activation="tanh")
    problem = LipschitzProblem(network, Box(-1, 1, 4), "linf", "linf")
    assert solve(problem, "sdp").upper >= solve(problem, "bnb").lower
    assert not always


def test_switches_need_time_for_all_outputs(always: list[LoweredTargets]) -> None:
    """Bounds of some outputs alone would not lower their maximum."""
    problem = LipschitzProblem(random_network(1, (6, 10, 10, 3)), Box(-1, 1, 6), "linf", "linf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SwitchedBounder, "predicted", lambda *_: 1e6)
        bound = solve(problem, "sdp", time_limit=30.0).upper
    assert not always
    assert bound >= solve(problem, "bnb").lower
    bounder = object.__new__(SwitchedBounder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SwitchedBounder, "predicted", lambda *_: 4.0)
        assert bounder.fits(Clock(10.0), 5, 4)
        assert not bounder.fits(Clock(10.0), 5, 1000)
