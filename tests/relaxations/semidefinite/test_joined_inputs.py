"""Inputs that are joined because their partial derivatives keep their sign."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem
from lipyomo.primal.heuristics.evaluate import point_norms
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.semidefinite.root import RootBounds
from networks import random_network


def _root(problem: LipschitzProblem, join: bool) -> RootBounds:
    targets = targets_of(problem)
    system = UnitSystem(problem.network, targets.functionals, problem.domain)
    bounds = preactivation_bounds(problem.network, problem.domain)
    return RootBounds.of(system, targets, np.concatenate(bounds.phases), join=join)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(20, 24, 2), (20, 20, 16, 3)])
def test_the_bound_holds_and_is_no_looser(seed: int, sizes: tuple[int, ...]) -> None:
    center = np.random.default_rng(seed).standard_normal(sizes[0])
    box = Box(center - 0.05, center + 0.05)
    problem = LipschitzProblem(random_network(seed, sizes), box, "linf", "linf")
    apart, together = _root(problem, False).run(), _root(problem, True).run()
    points = box.sample(np.random.default_rng(1), 500)
    assert point_norms(problem, points)[0].max() <= together.value
    assert together.value <= apart.value * (1.0 + 2e-3)


def test_inputs_are_joined_where_signs_are_fixed() -> None:
    center = np.random.default_rng(0).standard_normal(20)
    box = Box(center - 0.05, center + 0.05)
    problem = LipschitzProblem(random_network(0, (20, 24, 2)), box, "linf", "linf")
    root = _root(problem, True).run()
    joined = [y.size - root.form.units.size for y in root.multipliers.values()]
    assert joined
    assert max(joined) <= 10
