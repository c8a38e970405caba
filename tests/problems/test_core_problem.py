"""Problems, their reduced form, and results as plain data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lipyomo.base.errors import LipyomoError, MethodError, NormError, ProblemError
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.networks.network import Layer, Network
from lipyomo.primal.heuristics.evaluate import point_norms
from lipyomo.primal.regions import make_witness
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Progress, Result, Status
from lipyomo.problems.settings import Settings
from networks import DEGENERATE, mixed_network, random_network
from oracle import exact_constant

INPUTS = ["linf", "l1", "l2"]


@pytest.mark.parametrize("norm_in", INPUTS)
def test_reducing_keeps_the_constant(norm_in: str) -> None:
    plain = mixed_network(4, (3, 4, 3, 2))
    middle = Layer(np.eye(4) - 0.25, np.ones(4))
    network = Network([plain.layers[0], middle, *plain.layers[1:]])
    domain = Box([-1.0, 0.3, -0.5], [1.0, 0.3, 1.0])
    problem = LipschitzProblem(network, domain, norm_in, "l1")
    reduced = problem.reduced
    assert reduced.problem.network.input_dim == 2
    assert not reduced.problem.domain.frozen.any()
    assert exact_constant(reduced.problem) == pytest.approx(exact_constant(problem), rel=1e-9)
    for x in reduced.problem.domain.sample(np.random.default_rng(0), 20):
        full = reduced.lift_point(x)
        assert full[1] == 0.3
        np.testing.assert_allclose(
            network.forward(full), reduced.problem.network.forward(x), rtol=1e-9, atol=1e-12
        )
        here, there = problem.value_at(full), reduced.problem.value_at(x)
        assert here.value == pytest.approx(there.value, rel=1e-9)
        moved = here.direction[reduced.moving]
        np.testing.assert_allclose(moved, there.direction, rtol=1e-9, atol=1e-12)
        assert not here.direction[~reduced.moving].any()
    assert any("cannot move" in note for note in problem.notes)


@pytest.mark.parametrize("norm_in", INPUTS)
@pytest.mark.parametrize("out", ["l1", "l2", "linf", "cross", "cross(0)"])
def test_values_at_points_agree(norm_in: str, out: str) -> None:
    network = mixed_network(5, (3, 5, 4, 3))
    problem = LipschitzProblem(network, Box([-1, 0, -1], [1, 0, 1]), norm_in, out)
    points = problem.domain.sample(np.random.default_rng(1), 30)
    singles = np.array([problem.value_at(x).value for x in points])
    np.testing.assert_allclose(point_norms(problem, points)[0], singles, rtol=1e-9)


def test_the_scalar_is_the_default() -> None:
    scalar = LipschitzProblem(random_network(0, (2, 3, 1)), Box(0, 1, 2))
    assert scalar.is_scalar
    assert scalar.describe_norms() == "linf -> |.|"
    assert not scalar.notes
    vector = LipschitzProblem(random_network(0, (2, 3, 2)), Box(0, 1, 2))
    assert not vector.is_scalar
    assert vector.describe_norms() == "linf -> linf"
    assert vector.notes
    margin = LipschitzProblem(random_network(0, (2, 3, 2)), Box(0, 1, 2), margin=1)
    assert margin.output_norm.name == "cross(1)"


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"functional": [1.0]}, ProblemError, "1 entries"),
        ({"functional": [np.nan, 1.0]}, ProblemError, "NaN"),
        ({"margin": 2}, NormError, "label 2 is out of range"),
        ({"margin": 0, "output_norm": "l1"}, ProblemError, "only one"),
        ({"output_norm": "l9"}, NormError, "unknown output norm"),
        ({"input_norm": "l9"}, NormError, "unknown input norm"),
    ],
)
def test_parts_that_do_not_fit(options: dict, kind: type[LipyomoError], message: str) -> None:
    with pytest.raises(kind, match=message):
        LipschitzProblem(random_network(0, (2, 3, 2)), Box(0, 1, 2), **options)


def test_wrong_dimension_and_single_points() -> None:
    with pytest.raises(ProblemError, match="3 inputs, the network takes 2"):
        LipschitzProblem(random_network(0, (2, 3, 2)), Box(0, 1, 3))
    with pytest.raises(ProblemError, match="single point"):
        LipschitzProblem(random_network(0, (2, 3, 2)), Box(0.5, 0.5, 2))


def test_results_are_plain_data() -> None:
    case = DEGENERATE["frozen_input"]()
    problem = LipschitzProblem(case.network, case.domain)
    witness = make_witness(problem, np.array([0.5, 0.01]))
    assert witness is not None
    result = Result(
        witness.value,
        np.inf,
        Status.TIME_LIMIT,
        "test",
        witness=witness,
        history=[(0.0, 0.0, np.inf)],
        details={"array": np.arange(2), "number": np.float64(1.5), "kind": Guarantee.UPPER},
    )
    data = json.loads(result.to_json())
    assert data["upper"] is None
    assert data["status"] == "time_limit"
    assert data["witness"]["x"] == [0.5, 0.01]
    assert set(data["witness"]["pattern"][0]) <= {"0", "1"}
    assert data["details"] == {"array": [0, 1], "number": 1.5, "kind": "upper"}
    assert not result.is_exact
    assert not close_enough(1.0, np.inf)
    assert close_enough(1.0, 1.0 + 1e-7)
    assert not close_enough(1.0, 1.001)
    assert Progress(1.0, 0.0, 2.0).nodes == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": 0.0}, "time limit"),
        ({"gap": 1.0}, "gap"),
        ({"workers": 0}, "workers"),
        ({"formulation": "dual"}, "unknown formulation"),
        ({"bounds": "best"}, "unknown bounds"),
    ],
)
def test_settings_are_checked(options: dict, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        Settings(**options)
