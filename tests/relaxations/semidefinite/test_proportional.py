"""Bounds with zeta in proportion hold, and lie close to those with all of zeta free."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.networks.phases import LEFT, RIGHT
from lipyomo.primal.heuristics.evaluate import point_norms
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.semidefinite.bounder import Bounder, inherited
from lipyomo.relaxations.semidefinite.choice import wide_kernel
from lipyomo.relaxations.semidefinite.descent import minimise
from lipyomo.relaxations.semidefinite.proportional import minimise_in_proportion
from lipyomo.relaxations.semidefinite.wide import WideKernel


@pytest.mark.parametrize("seed", range(3))
def test_children_of_wide_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (120, 8, 8, 1)
    weights = [rng.normal(0, np.sqrt(2 / a), (b, a)) for a, b in pairwise(sizes)]
    network = Network.from_arrays(weights, [rng.normal(0, 0.1, n) for n in sizes[1:]])
    problem = LipschitzProblem(network, Box(-1.0, 1.0, 120))
    targets = targets_of(problem)
    system = UnitSystem(network, targets.functionals, problem.domain)
    bounder, phases = Bounder(system, targets), system.root_phases()
    root = bounder.minimise(system.form(phases), 0)
    assert root is not None
    warm = system.form(phases).units, root.state.multipliers
    points = rng.uniform(-1.0, 1.0, (4000, 120))
    values, _ = point_norms(problem, points)
    on = np.concatenate([z > 0 for z in network.preactivations(points)], axis=1)
    for unit, phase in ((0, LEFT), (11, RIGHT), (5, RIGHT), (14, LEFT)):
        phases = phases.copy()
        phases[unit] = phase
        form = system.form(phases)
        wide = WideKernel(form.rows, form.objective[0], form.inputs)
        start = inherited(wide, form, *warm)
        best = minimise(wide, start)
        found = minimise_in_proportion(wide, start, None, 60, None)
        assert best is not None
        assert found is not None
        kernel, state = found
        assert kernel.inputs <= 9
        proved = bounder.prover.bound(form, 0, state.multipliers)
        assert proved == pytest.approx(state.value, rel=1e-8)
        assert 0.995 * best.value < state.value < 1.03 * best.value
        decided = phases != system.root_phases()
        inside = (on[:, decided] == (phases[decided] == RIGHT)).all(axis=1)
        assert values[inside].max(initial=0.0) <= proved
        warm = form.units, state.multipliers


@pytest.mark.parametrize(("inputs", "units", "pays"), [(80, 30, False), (784, 20, True)])
def test_where_it_pays(inputs: int, units: int, pays: bool) -> None:
    """Its bounds are looser, and a tree has more nodes: steps have to be much cheaper."""
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.standard_normal((units, inputs)), np.zeros((units, units))])
    kernel = WideKernel(rows, rng.standard_normal(inputs + units), inputs)
    assert (wide_kernel(kernel, inputs) is not None) == pays


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e200])
def test_nothing_is_made_of_inputs_that_nothing_sees(scale: float) -> None:
    rows = np.hstack([np.full((3, 50), scale), np.zeros((3, 3))])
    kernel = WideKernel(rows, np.concatenate([np.zeros(50), np.ones(3)]), 50)
    assert minimise_in_proportion(kernel, np.ones(53), None, 60, None) is None
