"""Worked models, those of docs/examples.md and three more, say what sampled points confirm."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.linalg import block_diag

import lipyomo
from lipyomo.blocks import GradientBlock, LipschitzBlock, NormBlock, ReluNetworkBlock
from lipyomo.primal.heuristics.evaluate import point_norms

ROOT = Path(__file__).resolve().parents[2]
LOW, HIGH = np.array([0.2, 0.0]), np.array([5.0, 0.95])


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the page's Python blocks leave behind (examples with prompts left out)."""
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__page__"}
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if ">>>" not in block:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block, "docs/examples.md", "exec"), names)
    finally:
        os.chdir(before)
    return names


@pytest.fixture(scope="module")
def designs(page):
    """Many designs with the surrogate's gradients at them."""
    points = np.random.default_rng(0).uniform(LOW, HIGH, (20000, 2))
    return points, page["exchanger"].gradients(points, [1.0])


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_adversarial_example_flips_the_class_and_nothing_smaller_does(page, norm):
    iris, flower, label = page["iris"], page["flower"], page["label"]
    model, size = page["attacks"][norm], page["sizes"][norm]
    x = np.array([pyo.value(model.x[j]) for j in range(4)])
    measure = np.abs if norm == "linf" else (lambda step: np.abs(step).sum(-1, keepdims=True))
    assert float(np.max(measure(x - flower))) == pytest.approx(size, abs=1e-6)
    scores = iris.forward(x)
    assert np.delete(scores, label).max() == pytest.approx(scores[label], abs=1e-5)
    rng = np.random.default_rng(1)
    steps = rng.uniform(-1, 1, (20000, 4))
    scale = np.abs(steps).max(-1) if norm == "linf" else np.abs(steps).sum(-1)
    steps *= (0.999 * size * rng.random(len(steps)) ** 0.25 / scale)[:, None]
    points = np.clip(flower + steps, 0, 8)
    assert (iris.forward(points).argmax(axis=1) == label).all()


def test_region_of_small_slope(page, designs):
    """How far a design can move before the gradient's l1 norm reaches 0.5."""
    here = {"units": 2.5, "ratio": 0.5}
    m = page["design"]()
    m.steepness = NormBlock()
    m.steepness.build_formulation(m.slope.gradient, "l1", sense="max")
    m.steep = pyo.Constraint(expr=m.steepness.value >= 0.5)
    m.step = pyo.Var(list(here), bounds=(-5, 5))
    m.moved = pyo.Constraint(list(here), rule=lambda m, j: m.x[j] == here[j] + m.step[j])
    m.distance = NormBlock()
    m.distance.build_formulation(m.step, "linf", sense="min")
    m.goal = pyo.Objective(expr=m.distance.value)
    radius = page["solve"](m)

    points, slopes = designs
    distance = np.abs(points - list(here.values())).max(axis=1)
    steep = np.abs(slopes).sum(axis=1) >= 0.5
    assert not steep[distance < radius - 1e-6].any()
    assert distance[steep].min() < radius + 0.05

    def constant(reach: float) -> lipyomo.Result:
        area = lipyomo.ball(list(here.values()), reach, "linf", (LOW, HIGH))
        problem = lipyomo.LipschitzProblem(page["exchanger"], area)
        return lipyomo.solve(problem, "mip", solver="highs")

    assert constant(0.999 * radius).upper < 0.5 <= constant(1.001 * radius).lower


def test_sensitivity_limit_is_kept_and_costs_what_it_must(page, designs):
    points, slopes = designs
    exchanger = page["exchanger"]
    effect = exchanger.forward(points)[:, 0]
    enough = (points[:, 1] >= 0.3) & (effect >= 0.7)
    assert points[enough, 0].min() >= page["plain"] - 1e-6
    calm = enough & (np.abs(slopes).sum(axis=1) <= 0.2)
    assert calm.any()
    assert points[calm, 0].min() >= page["robust"] - 1e-6
    assert points[calm, 0].min() <= page["robust"] + 0.1
    assert exchanger.forward(page["robust_point"])[0] >= 0.7 - 1e-6


def test_two_networks_differ_nowhere_more(page, designs):
    """Both networks and both gradients in one model, over the same inputs."""
    first = page["exchanger"].fused(rounding=True).layers
    rounded = lipyomo.Network.from_arrays(
        [np.round(layer.dense_weight, 1) for layer in first],
        [np.round(layer.bias, 1) for layer in first],
    )
    m = page["design"]()
    m.copy = ReluNetworkBlock()
    m.copy.build_formulation(rounded, inputs=m.x)
    m.copy_slope = GradientBlock()
    m.copy_slope.build_formulation(m.copy)

    def reach(m, j):
        one, two = m.slope.gradient[j], m.copy_slope.gradient[j]
        return one.lb - two.ub, one.ub - two.lb

    m.gap = pyo.Var(list(m.x), bounds=reach)
    m.gap_is = pyo.Constraint(
        list(m.x), rule=lambda m, j: m.gap[j] == m.slope.gradient[j] - m.copy_slope.gradient[j]
    )
    m.size = NormBlock()
    m.size.build_formulation(m.gap, "l1", sense="max")
    m.goal = pyo.Objective(expr=m.size.value, sense=pyo.maximize)
    difference = page["solve"](m)

    points, slopes = designs
    others = rounded.gradients(points, [1.0])
    assert np.abs(slopes - others).sum(axis=1).max() <= difference + 1e-6
    second = rounded.layers
    weights = [
        np.vstack([first[0].dense_weight, second[0].dense_weight]),
        block_diag(first[1].dense_weight, second[1].dense_weight),
        np.hstack([first[2].dense_weight, -second[2].dense_weight]),
    ]
    biases = [np.concatenate([a.bias, b.bias]) for a, b in zip(first, second, strict=True)][:2]
    both = lipyomo.Network.from_arrays(weights, [*biases, [0.0]])
    exact = lipyomo.solve(lipyomo.LipschitzProblem(both, lipyomo.Box(LOW, HIGH)), "mip")
    assert exact.lower == pytest.approx(difference, rel=1e-6)


def test_fairness_is_the_largest_rate_in_the_users_metric(page):
    iris, weights = page["iris"], page["weights"]
    points = np.random.default_rng(2).uniform(4, 6, (20000, 4))
    slopes = np.abs(iris.gradients(points, [1.0, 0.0, 0.0])) / weights
    rates = np.maximum(slopes[:, 0], slopes[:, 1]) + np.maximum(slopes[:, 2], slopes[:, 3])
    assert rates.max() <= page["fairness"] + 1e-6
    inside = np.abs(iris.gradients(page["claimed"].x[None, :], [1.0, 0.0, 0.0])[0]) / weights
    rate = max(inside[:2]) + max(inside[2:])
    assert rate == pytest.approx(page["fairness"], rel=1e-6)


def test_monotonicity(page, designs):
    _, slopes = designs
    assert slopes[:, 0].min() >= page["least"] - 1e-6
    assert slopes[:, 1].max() <= page["largest"] + 1e-6
    assert slopes[:, 1].max() > 0


def test_constant_at_the_decision_boundary(page):
    """The largest constant that a flower near a decision boundary can see."""
    iris = page["iris"]
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(4), bounds=(4, 6))
    m.net = ReluNetworkBlock()
    m.net.build_formulation(iris, inputs=m.x)
    m.steep = LipschitzBlock()
    m.steep.build_formulation(m.net, norm="linf", output_norm="cross")
    m.tie = pyo.Constraint(expr=m.net.outputs[0] == m.net.outputs[1])
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    at_boundary = page["solve"](m)

    points = np.random.default_rng(3).uniform(4, 6, (20000, 4))
    problem = lipyomo.LipschitzProblem(iris, lipyomo.Box(4, 6, 4), "linf", "cross")
    whole = lipyomo.solve(problem, "mip", solver="highs")
    assert at_boundary <= whole.upper * (1 + 1e-6)
    scores = iris.forward(points)
    near = np.abs(scores[:, 0] - scores[:, 1]) < 0.02
    if near.any():
        # Away from kinks, points next to the boundary share the Jacobian of points on it.
        assert np.median(point_norms(problem, points[near])[0]) <= at_boundary + 1e-6
