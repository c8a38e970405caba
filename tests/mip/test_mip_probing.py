"""Probing loses nothing: what it excludes cannot beat what is attained."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.base.clock import Clock
from lipyomo.mip.cells import whole_cell
from lipyomo.mip.probing import CellBounder, probed
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, flat
from lipyomo.primal.heuristics.evaluate import point_norms
from networks import random_network

CASES = [(0, "linf", "linf"), (1, "l1", "linf"), (0, "linf", "cross"), (1, "linf", "l1")]


def problem_of(seed, norm="linf", output="linf"):
    outputs = 1 if output == "linf" else 2
    network = random_network(seed, (3, 8, 6, outputs))
    return LipschitzProblem(network, Box(-1, 1, 3), norm, output_norm=output)


@pytest.mark.parametrize(("seed", "norm", "output"), CASES)
def test_bounds_of_both_sides_hold_at_points(seed, norm, output):
    problem = problem_of(seed, norm, output)
    cell = probed(problem, whole_cell(problem, "linear", None), 0.0, Clock())
    points = problem.domain.sample(np.random.default_rng(seed), 400)
    values = point_norms(problem, points)[0]
    patterns = problem.network.pattern(points)
    assert values.max() <= cell.upper
    on = np.hstack(patterns)
    bounder = CellBounder.affordable(problem, cell, Clock())
    assert bounder is not None
    phases = flat(cell.bounds.phases)
    for unit in np.flatnonzero(phases == OPEN):
        for side, held in ((LEFT, ~on[:, unit]), (RIGHT, on[:, unit])):
            trial = phases.copy()
            trial[unit] = side
            assert values[held].max(initial=0.0) <= bounder.upper(trial)


@pytest.mark.parametrize(("seed", "norm", "output"), CASES)
def test_better_points_stay_in_the_cell(seed, norm, output):
    problem = problem_of(seed, norm, output)
    points = problem.domain.sample(np.random.default_rng(seed), 400)
    values = point_norms(problem, points)[0]
    lower = float(np.quantile(values, 0.9))
    cell = probed(problem, whole_cell(problem, "linear", None), lower, Clock())
    for x in points[values > lower]:
        for on, phases in zip(problem.network.pattern(x), cell.bounds.phases, strict=True):
            assert not on[phases == LEFT].any()
            assert on[phases == RIGHT].all()


def test_more_decisions_never_raise_a_bound():
    problem = problem_of(1)
    root = whole_cell(problem, "linear", None)
    bounder = CellBounder.affordable(problem, root, Clock())
    assert bounder is not None
    phases = flat(root.bounds.phases)
    best = bounder.upper(phases)
    assert best <= root.upper
    for unit in np.flatnonzero(phases == OPEN):
        held = phases.copy()
        held[unit] = LEFT
        assert bounder.upper(held) <= best * (1 + 1e-3)


def test_an_expired_clock_bounds_nothing():
    problem = problem_of(1)
    root = whole_cell(problem, "linear", None)
    clock = Clock()
    bounder = CellBounder.affordable(problem, root, clock)
    assert bounder is not None
    clock.stop()
    assert bounder.upper(flat(root.bounds.phases), 7.0) == 7.0


@pytest.mark.parametrize("formulation", ["adjoint", "tangent"])
def test_same_answer_as_branch_and_bound(formulation):
    problem = LipschitzProblem(random_network(4, (4, 10, 8, 1)), Box(-1, 1, 4))
    found = lipyomo.solve(problem, "mip", solver="highs", formulation=formulation)
    other = lipyomo.solve(problem, "bnb")
    assert found.status is other.status is Status.EXACT
    assert found.lower == pytest.approx(other.lower, rel=1e-6)
