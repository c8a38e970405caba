"""Polyhedral metrics of the inputs: balls, constants and radii against linear programs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import lipyomo
from lipyomo.analyses.certification import RobustnessVerdict
from lipyomo.analyses.certification.metric import STRETCH, metric_of
from lipyomo.base.errors import NormError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import LinearOutput, parse_output_norm
from networks import random_network
from oracle import regions

OUTER = Box(-np.inf, np.inf, 3)


def rows_of(kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    return {
        "weights": np.diag([1.0, 4.0, 0.25]),
        "square": rng.standard_normal((3, 3)),
        "wide": rng.standard_normal((6, 3)),
        "both signs": np.vstack([np.eye(3), -np.eye(3)]),
    }[kind]


def dual_size(rows: np.ndarray, gradient: np.ndarray) -> float:
    """Largest ``gradient . s`` over the metric's unit ball."""
    both, ones = np.vstack([rows, -rows]), np.ones(2 * len(rows))
    return float(-linprog(-gradient, both, ones, bounds=(None, None)).fun)


KINDS = ["weights", "square", "wide", "both signs"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_chart_covers_the_unit_ball_and_hardly_more(kind: str) -> None:
    rows = rows_of(kind)
    metric = metric_of(LinearOutput(vertices=rows), 3)
    Z, norm = metric.chart
    for gradient in np.random.default_rng(0).standard_normal((40, 3)):
        of_chart = np.linalg.norm(gradient @ Z, {"linf": 1, "l1": np.inf}[norm])
        truth = dual_size(rows, gradient)
        assert truth * (1 - 1e-9) <= of_chart <= truth * (1 + 1e-9 + 2 * STRETCH)


@pytest.mark.parametrize("kind", KINDS)
def test_constants_in_the_metric_are_those_of_all_regions(kind: str) -> None:
    rows = rows_of(kind)
    network = random_network(1, (3, 5, 4, 2))
    metric = metric_of(LinearOutput(vertices=rows), 3)
    x = np.array([0.2, -0.1, 0.4])
    problem = metric.problem(network, x, 0.3, OUTER, parse_output_norm("l1"))
    found = lipyomo.solve(problem, time_limit=60)
    jacobians = [network.jacobian(p) for p, _ in regions(network, metric.ball(x, 0.3, OUTER))]
    signs = [np.array([1.0, s]) for s in (1.0, -1.0)]
    truth = max(dual_size(rows, y @ jacobian) for jacobian in jacobians for y in signs)
    assert found.is_exact
    assert truth * (1 - 1e-8) <= found.upper <= truth * (1 + 1e-5)


def test_lower_ends_in_a_metric_are_without_the_stretch_of_its_chart() -> None:
    """The sum of two units that are always on, where the constants are 4/3 and 1."""
    network = Network.from_arrays([np.eye(2), [[1.0, 1.0]]], [[5.0, 5.0], [0.0]])
    for rows, truth in (
        ([[3, 0], [0, 1]], Fraction(4, 3)),
        ([[3, 0], [0, 1], [1, 1]], Fraction(1)),
    ):
        metric, outer = metric_of(LinearOutput(vertices=rows), 2), Box(-np.inf, np.inf, 2)
        problem = metric.problem(network, np.zeros(2), 0.1, outer, parse_output_norm("linf"))
        found = metric.attained(lipyomo.solve(problem), 0.1)
        assert Fraction(found.lower) <= truth <= Fraction(found.upper)
        assert found.is_exact
        size = np.linalg.norm(found.witness.x, {"linf": np.inf, "l1": 1}[metric.chart[1]])
        assert metric.attained(found, float(size)).lower == 0.0  # it is not inside of that ball


@pytest.mark.parametrize("kind", KINDS)
def test_a_linear_classifier_has_the_radius_of_its_dual_norm(kind: str) -> None:
    rows = rows_of(kind)
    rng = np.random.default_rng(2)
    W, b = rng.standard_normal((3, 3)), rng.standard_normal(3)
    network = lipyomo.Network.from_arrays([W], [b])
    points = rng.standard_normal((1, 3))
    norm = LinearOutput(vertices=rows)
    for methods in (["margins"], ["crown"], ["bnb"]):
        report = lipyomo.certify_robustness(
            network, points, radius=0.1, norm=norm, workers=1, methods=methods
        )
        for row, x in zip(report.rows, points, strict=True):
            values = W @ x + b
            i = row.predicted
            truth = min(
                (values[i] - values[j]) / dual_size(rows, W[i] - W[j]) for j in range(3) if j != i
            )
            assert truth * (1 - 2e-3) <= row.certified_radius <= truth * (1 + 1e-8)
            assert row.adversarial_radius >= truth * (1 - 1e-8)


@pytest.mark.parametrize("kind", ["weights", "wide"])
def test_verdicts_in_a_metric_are_those_of_the_exact_model(kind: str) -> None:
    network = random_network(2, (3, 6, 5, 3))
    points = np.random.default_rng(3).uniform(-1, 1, (2, 3))
    norm = LinearOutput(vertices=rows_of(kind))

    def certify(**given: object) -> lipyomo.RobustnessReport:
        return lipyomo.certify_robustness(
            network, points, radius=0.2, norm=norm, clip=(-1, 1), workers=1, **given
        )

    quick, whole = certify(), certify(methods=[], exact=True, solver="highs")
    assert whole.count(RobustnessVerdict.OPEN) == 0
    for fast, slow in zip(quick.rows, whole.rows, strict=True):
        assert fast.verdict in (slow.verdict, RobustnessVerdict.OPEN)
        assert fast.certified_radius < slow.adversarial_radius


def test_points_are_moved_into_ball_and_box() -> None:
    rng = np.random.default_rng(0)
    clip = Box(-1.0, 1.0, 3)
    x = np.array([0.9, -0.9, 0.0])
    for kind in KINDS:
        metric = metric_of(LinearOutput(vertices=rows_of(kind)), 3)
        points = metric.within(x, rng.uniform(-3, 3, (200, 3)), 0.4, clip)
        assert (metric.distance(points - x) <= 0.4 * (1 + 1e-12)).all()
        assert clip.contains(points, 1e-15).all()
        assert metric.ball(x, 0.4, clip).contains(points, 1e-12).all()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_weights_are_units_of_the_inputs(norm: str) -> None:
    network, weights = random_network(2, (3, 5, 4, 2)), np.array([0.5, 3.0, 1.7])
    first, *rest = network.layers
    scaled = Network([first.with_map(first.dense_weight * weights, first.bias), *rest])
    x, clip = np.array([0.2, -0.1, 0.4]), Box([-0.1, -2, 0], [3, 0.5, 2])
    metric, plain = metric_of(norm, 3, weights), metric_of(norm, 3)
    inner = Box(clip.lower / weights, clip.upper / weights)
    for at, of in ((x, x / weights), (None, None)):
        here = metric.problem(network, at, 0.3, clip, parse_output_norm("l1"))
        there = plain.problem(scaled, of, 0.3, inner, parse_output_norm("l1"))
        assert lipyomo.solve(here).lower == pytest.approx(lipyomo.solve(there).lower, rel=1e-6)
    steps = np.random.default_rng(0).standard_normal((20, 3))
    near = metric.within(x, x + steps, 0.3, clip)
    assert (metric.distance(near - x) <= 0.3 * (1 + 1e-12)).all()
    assert all(metric.ball(x, 0.3, clip).contains(y) for y in near)
    up = metric.ascent(steps, 0.1)
    assert metric.distance(up) == pytest.approx(np.full(20, 0.1))


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_valid_box_is_whole_in_weighted_coordinates(norm: str) -> None:
    """Rounding leaves nothing of it out, and an input that cannot move stays fixed."""
    rng, network, d = np.random.default_rng(3), random_network(0, (400, 2, 2)), 400
    weights, x = rng.uniform(0.01, 3, d), rng.uniform(0, 1, d)
    low, high = x - rng.uniform(0, 1, d), x + rng.uniform(0, 1, d)
    low[:3] = high[:3] = x[:3]
    metric = metric_of(norm, d, weights)
    domain = metric.problem(network, x, 100.0, Box(low, high), parse_output_norm("l1")).domain
    assert domain.frozen.tolist() == [True] * 3 + [False] * (d - 3)
    for k in range(d):
        true = [(Fraction(side[k]) - Fraction(x[k])) / Fraction(weights[k]) for side in (low, high)]
        assert Fraction(domain.lower[k]) <= true[0]
        assert Fraction(domain.upper[k]) >= true[1]


def test_metrics_that_are_none() -> None:
    with pytest.raises(NormError, match="positive"):
        metric_of("linf", 2, [1.0, 0.0])
    with pytest.raises(NormError, match="3 weights for 2"):
        metric_of("linf", 2, [1.0, 2.0, 3.0])
    with pytest.raises(NormError, match="dual ball"):
        metric_of(LinearOutput(vertices=np.eye(2)), 2, 1.0)
    with pytest.raises(NormError, match="does not see"):
        metric_of(LinearOutput(vertices=[[1.0, 0.0], [2.0, 0.0]]), 2)
    with pytest.raises(NormError, match="of 2 inputs"):
        metric_of(LinearOutput(vertices=np.eye(2)), 3)
    with pytest.raises(NormError, match="unknown input norm"):
        metric_of("l3", 2)
    nearly = LinearOutput(vertices=[[1.0, 1.0], [1.0, 1.0 + 1e-11]])
    with pytest.raises(NormError, match="dependent"):
        _ = metric_of(nearly, 2).chart
