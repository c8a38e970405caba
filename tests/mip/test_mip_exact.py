"""The method mip equals brute force over all regions, on every norm, domain and formulation."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.base.errors import LipyomoError
from networks import DEGENERATE, boxes, domains, integer_network, random_network, small_networks
from oracle import exact_constant

QUICK = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def run(problem, **changes):
    result = lipyomo.solve(problem, "mip", solver="highs", workers=1, **changes)
    assert result.lower <= result.upper
    if result.witness is not None:
        again = problem.value_at(result.witness.x).value
        assert result.lower == pytest.approx(again, rel=1e-12)
        assert bool(problem.domain.contains(result.witness.x))
    return result


@cache
def truth_of_case(name):
    case = DEGENERATE[name]()
    return exact_constant(LipschitzProblem(case.network, case.domain))


@cache
def truth_of_norms(norm, output):
    problem = LipschitzProblem(random_network(4, (2, 5, 4, 3)), Box(-1, 1, 2), norm, output)
    return exact_constant(problem)


def assert_exact(problem, truth=None, **changes):
    truth = exact_constant(problem) if truth is None else truth
    result = run(problem, **changes)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(truth, rel=1e-6, abs=1e-9)
    assert result.upper >= truth * (1 - 1e-9)
    return result


@pytest.mark.parametrize("formulation", ["adjoint", "tangent"])
@pytest.mark.parametrize("name", sorted(DEGENERATE))
def test_degenerate_networks(name, formulation):
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain)
    result = assert_exact(problem, truth_of_case(name), formulation=formulation)
    if case.constant is not None:
        assert result.lower == pytest.approx(case.constant, abs=1e-9)


@pytest.mark.parametrize(
    ("norm", "output", "formulation"),  # all pairs, not all triples
    [
        (norm, output, encodings[k % 2])
        for k, output in enumerate(["linf", "l1", "cross", "cross(1)"])
        for norm, encodings in (("linf", ("adjoint", "tangent")), ("l1", ("tangent", "adjoint")))
    ],
)
def test_every_pair_of_linear_norms(norm, output, formulation):
    problem = LipschitzProblem(random_network(4, (2, 5, 4, 3)), Box(-1, 1, 2), norm, output)
    assert_exact(problem, truth_of_norms(norm, output), formulation=formulation)


@pytest.mark.parametrize("formulation", ["adjoint", "tangent"])
def test_functionals_and_user_given_norms(formulation):
    network, box = random_network(6, (2, 5, 3, 2)), Box(-1, 1, 2)
    assert_exact(LipschitzProblem(network, box, functional=[2.0, -1.0]), formulation=formulation)
    hexagon = lipyomo.LinearOutput(vertices=[[1.0, 0.0], [0.5, 1.0], [-0.5, 1.0]])
    assert_exact(LipschitzProblem(network, box, "l1", hexagon), formulation=formulation)
    diamond = lipyomo.LinearOutput(A=[[1, 1], [1, -1], [-1, 1], [-1, -1]], b=[1, 2, 2, 1])
    assert_exact(LipschitzProblem(network, box, "linf", diamond), formulation=formulation)


@QUICK
@given(st.data())
def test_random_networks(data):
    network = data.draw(small_networks(max_units=6, inputs=2))
    box = data.draw(boxes(network.input_dim))
    norm = data.draw(st.sampled_from(["linf", "l1"]))
    output = data.draw(st.sampled_from(["linf", "l1", "cross"]))
    formulation = data.draw(st.sampled_from(["adjoint", "tangent"]))
    problem = LipschitzProblem(network, box, norm, output)
    assert_exact(problem, formulation=formulation)


@pytest.mark.parametrize("bounds", ["interval", "linear", "lp"])
def test_every_stage_gives_the_same(bounds):
    assert_exact(LipschitzProblem(random_network(9, (3, 5, 4, 1)), Box(0, 1, 3)), bounds=bounds)


@pytest.mark.parametrize("formulation", ["adjoint", "tangent"])
def test_polytope(formulation):
    network = random_network(11, (2, 5, 4, 2))
    assert_exact(LipschitzProblem(network, domains(2)["polytope"]), formulation=formulation)


def test_partition_changes_nothing(monkeypatch):
    monkeypatch.setattr("lipyomo.mip.loop.CellLoop.solve_quickly", lambda self: False)
    problem = LipschitzProblem(random_network(3, (2, 12, 10, 1)), Box(-2, 2, 2))
    parts = run(problem)
    whole = run(problem, options={"partition": False})
    assert parts.details["cells"] > whole.details["cells"] == 1
    assert parts.lower == pytest.approx(whole.lower, rel=1e-9)
    assert parts.status is whole.status is Status.EXACT


def test_units_that_touch_their_kinks_are_left_to_probing():
    """Bounds that are rounded outwards leave ranges that are too fine for a model."""
    network = lipyomo.Network.from_arrays(
        [[[-2.0], [1.0], [-1.0]], [[-1.0, 2.0, -2.0]]], [[0.0, -0.5, 0.0], [0.0]]
    )
    assert_exact(LipschitzProblem(network, Box(0, 0.5, 1)))


def test_empty_regions_are_cut_off():
    # All kinks meet at the origin: closed constraints accept every pattern there.
    problem = LipschitzProblem(integer_network(5, (2, 6, 1)), Box(-1, 1, 2))
    result = assert_exact(problem, formulation="tangent", options={"partition": False})
    assert result.witness.margin > 0


@pytest.mark.parametrize("name", ["l2 ball", "all space"])
def test_domains_that_no_model_can_express(name):
    problem = LipschitzProblem(random_network(1, (2, 3, 1)), domains(2)[name])
    with pytest.raises(LipyomoError, match=r"bnb|bounded"):
        run(problem)


def test_euclidean_norms_are_refused():
    problem = LipschitzProblem(random_network(1, (2, 3, 2)), Box(0, 1, 2), "l2", "l2")
    with pytest.raises(LipyomoError, match="l2"):
        run(problem)


def test_same_value_under_permutation_and_scaling():
    network = random_network(21, (3, 5, 4, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 3))
    value = run(problem).lower
    order = np.random.default_rng(0).permutation(5)
    first, second, head = network.layers
    scale = np.linspace(0.5, 3.0, 5)
    mixed = lipyomo.Network.from_arrays(
        [
            (first.weight * scale[:, None])[order],
            (second.weight / scale)[:, order],
            2.0 * head.weight,
        ],
        [(first.bias * scale)[order], second.bias, head.bias],
    )
    assert run(LipschitzProblem(mixed, Box(-1, 1, 3))).lower == pytest.approx(2 * value, rel=1e-9)


@pytest.mark.parametrize(
    ("domain", "formulation"),
    [
        (lipyomo.ball([0.1, -0.2, 0.3], 0.9, "l1"), "adjoint"),
        (lipyomo.ball([0.0, 0.0, 0.0], 1.0, "l1", (-0.4, 0.5)), "tangent"),
        (lipyomo.ball([0.1], 0.9, "l1"), "tangent"),
        (lipyomo.ball([0.1], 0.9, "l2"), "adjoint"),
    ],
    ids=repr,
)
def test_balls_that_are_polyhedra(domain, formulation):
    problem = LipschitzProblem(random_network(11, (domain.dimension, 6, 4, 1)), domain)
    found = lipyomo.solve(problem, "mip", solver="highs", formulation=formulation)
    other = lipyomo.solve(problem, "bnb")
    assert found.status is other.status is Status.EXACT
    assert found.lower == pytest.approx(other.lower, rel=1e-6)
    assert lipyomo.solve(problem, "lp", attain=False).upper >= other.lower
