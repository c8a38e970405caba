"""`UpperLipschitzBlock` stays above the truth for every feasible point, and is exact at points."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.base.errors import BoundsMissing, NormError, ProblemError
from lipyomo.blocks import ReluNetworkBlock, UpperLipschitzBlock
from lipyomo.problems.norms import parse_output_norm
from networks import mixed_network, random_network
from oracle import matrix_norm


def calm_model(network, radius, **options):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(network.input_dim), bounds=(-1, 1))
    m.calm = UpperLipschitzBlock()
    m.calm.build_formulation(network, inputs=m.x, radius=radius, **options)
    return m


def largest_sampled(network, centre, radius, input_norm, output_norm):
    """Largest operator norm of a Jacobian at random points of the box."""
    points = np.random.default_rng(1).uniform(centre - radius, centre + radius, (400, centre.size))
    norm = parse_output_norm(output_norm)
    found = {tuple(map(bytes, network.pattern(x))): x for x in points}
    return max(
        matrix_norm(network.jacobian(network.pattern(x)), input_norm, norm) for x in found.values()
    )


@pytest.mark.parametrize("make", [random_network, mixed_network])
@pytest.mark.parametrize(
    ("input_norm", "output_norm"),
    [("linf", "linf"), ("l1", "l1"), ("linf", "cross"), ("l1", "linf")],
)
@pytest.mark.parametrize("radius", [0.0, 0.15, 0.6])
def test_above_the_truth_wherever_the_box_is(make, input_norm, output_norm, radius):
    network = make(4, (2, 4, 3, 2))
    m = calm_model(network, radius, norm=input_norm, output_norm=output_norm)
    m.goal = pyo.Objective(expr=m.calm.value)
    rng = np.random.default_rng(0)
    for centre in rng.uniform(-1, 1, (2, 2)):
        for j in range(2):
            m.x[j].fix(centre[j])
        value = best(m)
        true = largest_sampled(network, centre, radius, input_norm, output_norm)
        assert value >= true - 1e-6
        if radius == 0.0 and make is random_network:
            assert value == pytest.approx(true, abs=1e-5)


@pytest.mark.parametrize("width", [1, 3])
def test_entries_that_share_a_unit_share_its_slope(width):
    """No choice of the slopes gives both entries of (a + b, a - b) their largest sizes."""
    network = Network.from_arrays([[[1.0, 1.0], [1.0, -1.0]], [[1.0, 1.0]] * width])
    m = calm_model(network, 0.5)
    m.x.fix(0.0)
    m.goal = pyo.Objective(expr=m.calm.value)
    problem = LipschitzProblem(network, lipyomo.ball(np.zeros(2), 0.5))
    assert best(m) == pytest.approx(lipyomo.solve(problem, "bnb").upper) == pytest.approx(2.0)


def test_many_inputs_stay_above_the_truth():
    network = random_network(3, (12, 4, 1))
    m = calm_model(network, 0.2)
    m.goal = pyo.Objective(expr=m.calm.value)
    m.x.fix(0.1)
    problem = LipschitzProblem(network, lipyomo.ball(np.full(12, 0.1), 0.2))
    assert best(m) >= lipyomo.solve(problem, "bnb").lower - 1e-6


def test_a_calm_design_is_calm():
    network = random_network(5, (2, 6, 5, 1))
    radius = 0.1
    m = calm_model(network, radius)
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, inputs=m.x)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    wild = best(m)
    centre = np.array([pyo.value(m.x[j]) for j in range(2)])
    problem = LipschitzProblem(network, lipyomo.ball(centre, radius))
    reached = lipyomo.solve(problem, "bnb").upper
    limit = 0.7 * reached
    m.limit = pyo.Constraint(expr=m.calm.value <= limit)
    calm = best(m)
    assert calm < wild
    centre = np.array([pyo.value(m.x[j]) for j in range(2)])
    problem = LipschitzProblem(network, lipyomo.ball(centre, radius))
    assert lipyomo.solve(problem, "bnb").upper <= limit + 1e-6


def test_the_radius_may_be_a_variable():
    network = random_network(6, (2, 5, 4, 1))
    m = calm_model(network, 0.0)
    m.del_component("calm")
    m.r = pyo.Var(bounds=(0, 1))
    m.calm = UpperLipschitzBlock()
    m.calm.build_formulation(network, inputs=m.x, radius=m.r)
    m.goal = pyo.Objective(expr=m.calm.value)
    least = best(m)
    m.goal.deactivate()
    m.limit = pyo.Constraint(expr=m.calm.value <= 1.2 * least + 0.1)
    m.wide = pyo.Objective(expr=m.r, sense=pyo.maximize)
    radius = best(m)
    assert radius > 0
    centre = np.array([pyo.value(m.x[j]) for j in range(2)])
    problem = LipschitzProblem(network, lipyomo.ball(centre, radius))
    assert lipyomo.solve(problem, "bnb").upper <= 1.2 * least + 0.1 + 1e-6


def test_what_it_refuses():
    network = random_network(6, (2, 5, 4, 1))
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(2))
    m.calm = UpperLipschitzBlock()
    with pytest.raises(BoundsMissing):
        m.calm.build_formulation(network, inputs=m.x)
    for wrong in (-1.0, [0.1, 0.1, 0.1], "wide", np.nan):
        with pytest.raises(ProblemError):
            m.calm.build_formulation(network, inputs=m.x, domain=Box(-1, 1, 2), radius=wrong)
    with pytest.raises(NormError):
        m.calm.build_formulation(network, inputs=m.x, domain=Box(-1, 1, 2), norm="l2")
    with pytest.raises(ProblemError):
        m.calm.build_formulation(3, inputs=m.x)
    assert not list(m.calm.component_objects())
    m.calm.build_formulation(Network.from_arrays([[[1.0, 2.0]]]), inputs=m.x, domain=Box(-1, 1, 2))
    m.goal = pyo.Objective(expr=m.calm.value)
    assert best(m) == pytest.approx(3.0)
