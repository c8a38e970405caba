"""The method ``interval``: each relaxation bounds the truth, higher ones not less tightly."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.errors import MethodError
from lipyomo.methods import run_method
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import LinearOutput
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.linear import preactivation_bounds
from networks import domains, mixed_network, random_network
from oracle import exact_constant

OWN = LinearOutput(vertices=[[1.0, 0.5], [-0.3, 1.0]])


@pytest.mark.parametrize("norm_in", ["linf", "l1", "l2"])
@pytest.mark.parametrize("out", ["linf", "l1", "l2", "cross", "cross(0)", OWN])
def test_rungs(norm_in: str, out: str | LinearOutput) -> None:
    problem = LipschitzProblem(mixed_network(8, (2, 4, 4, 2)), Box(-1, 1, 2), norm_in, out)
    truth = exact_constant(problem)
    uppers = []
    for relaxation in ("interval", "linear", "lp"):
        settings = Settings(bounds=relaxation, attain=relaxation == "lp")
        result = run_method("interval", problem, settings)
        assert result.bounds == relaxation
        assert result.unstable is not None
        assert result.lower <= truth * (1 + 1e-9)
        assert result.upper >= truth * (1 - 1e-12)
        uppers.append(result.upper)
    assert uppers[2] <= uppers[1] * (1 + 1e-9) <= uppers[0] * (1 + 2e-9)


@pytest.mark.parametrize("kind", list(domains(2)))
def test_domains(kind: str) -> None:
    problem = LipschitzProblem(random_network(5, (2, 4, 3, 2)), domains(2)[kind], "l2", "l2")
    truth = exact_constant(problem)
    for relaxation in ("linear", "lp"):
        bounds = preactivation_bounds(problem.network, problem.domain, relaxation=relaxation)
        cascade = Cascade(problem, bounds)
        cascade.run()
        assert cascade.value >= truth * (1 - 1e-12)


def test_tight_intervals_are_called_exact() -> None:
    network = Network.from_arrays([[[1.0, 2.0]], [[3.0]]], [[9.0], [0.0]])
    result = run_method("interval", LipschitzProblem(network, Box(-1, 1, 2)), Settings())
    assert result.status is Status.EXACT
    assert result.lower == 9.0
    assert result.unstable == 0
    assert result.witness is not None
    assert result.history[-1][1:] == (result.lower, result.upper)
    uppers = [upper for _, _, upper in result.history]
    assert uppers == sorted(uppers, reverse=True)


def test_a_gap_is_reached() -> None:
    problem = LipschitzProblem(random_network(1, (2, 3, 1)), Box(0, 0.2, 2))
    result = run_method("interval", problem, Settings(gap=0.99))
    assert result.status in (Status.GAP, Status.EXACT)


@pytest.mark.parametrize("evaluations", [-1, 1.5, True, "many"])
def test_bad_options_are_refused(evaluations: object) -> None:
    problem = LipschitzProblem(random_network(1, (2, 3, 1)), Box(0, 1, 2))
    with pytest.raises(MethodError, match="whole number"):
        run_method("local_search", problem, Settings(options={"evaluations": evaluations}))


@pytest.mark.parametrize("method", ["crown", "eclipse", "sdp", "naive", "fastlip", "lp"])
def test_upper_methods_attain_a_lower_end_unless_told_not_to(method: str) -> None:
    problem = LipschitzProblem(random_network(8, (3, 6, 6, 2)), Box(-1, 1, 3))
    truth = exact_constant(problem)
    found = run_method(method, problem, Settings())
    assert found.witness is not None
    assert 0.8 * truth <= found.lower <= truth * (1 + 1e-9)
    alone = run_method(method, problem, Settings(attain=False))
    assert alone.witness is None
    assert (alone.lower, alone.upper) == (0.0, found.upper)


def test_equal_seeds_give_equal_results() -> None:
    problem = LipschitzProblem(random_network(2, (3, 6, 6, 2)), Box(-1, 1, 3))
    settings = Settings(seed=3)
    one, two = (run_method("interval", problem, settings) for _ in range(2))
    assert (one.lower, one.upper) == (two.lower, two.upper)
    assert one.witness is not None
    assert two.witness is not None
    np.testing.assert_array_equal(one.witness.x, two.witness.x)
