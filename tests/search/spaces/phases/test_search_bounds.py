"""Every bound of a node holds for every pattern of the node."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.primal.regions import examine
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.problems.domains import AllSpace, Box, ball
from lipyomo.problems.norms import vector_norm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import preactivation_bounds, propagate
from lipyomo.relaxations.semidefinite.bounder import Bounder, inherited
from lipyomo.relaxations.semidefinite.choice import rotated
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.descent import minimise
from lipyomo.relaxations.semidefinite.prove import Exclusion, Prover
from lipyomo.relaxations.semidefinite.spectral import SpectralKernel
from lipyomo.relaxations.semidefinite.wide import WideKernel
from networks import mixed_network, random_network, to_pattern

DUAL = {"linf": "l1", "l2": "l2", "l1": "linf"}


def completions(phases: FlatPhases) -> list[FlatPhases]:
    """All full patterns of a partial one."""
    units = np.flatnonzero(phases == OPEN)
    found = []
    for bits in product((LEFT, RIGHT), repeat=units.size):
        full = phases.copy()
        full[units] = bits
        found.append(full)
    return found


def setting(seed: int, norm: str, output: str = "cross") -> tuple[LipschitzProblem, UnitSystem]:
    problem = LipschitzProblem(mixed_network(seed, (3, 4, 3, 2)), Box(-1, 1, 3), norm, output)
    problem = problem.reduced.problem
    return problem, UnitSystem(problem.network, targets_of(problem).functionals, problem.domain)


def partial(system: UnitSystem, seed: int) -> FlatPhases:
    """A random partial pattern."""
    rng = np.random.default_rng(seed)
    phases = system.root_phases()
    decide = system.kinked & (rng.random(system.count) < 0.4)
    phases[decide] = rng.integers(0, 2, int(decide.sum()))
    return phases


def truth(system: UnitSystem, phases: FlatPhases, norm: str) -> FloatArray:
    """Largest dual norm of each functional's gradient over all completions of `phases`."""
    values = [vector_norm(system.form(full).jacobian, norm) for full in completions(phases)]
    return np.asarray(np.max(values, axis=0))


@given(st.integers(0, 1000), st.sampled_from(["linf", "l2", "l1"]))
@settings(max_examples=25, deadline=None)
def test_proved_bounds_cover_all_patterns(seed: int, norm: str) -> None:
    problem, system = setting(seed, norm)
    targets = targets_of(problem)
    phases = partial(system, seed)
    form = system.form(phases)
    values = truth(system, phases, DUAL[norm])
    ends = system.head - system.head_errors, system.head + system.head_errors
    sizes = targets.interval(gradient_sizes(problem.network.hidden, phases[None], *ends))[0]
    best = np.zeros(len(values))
    for target in range(targets.count):
        row, column = targets.rows[target], targets.columns[target]
        best[row] = max(best[row], sizes[target])
        if not form.units.size:
            continue
        rows, objective, d = form.rows, form.objective[row], 3
        if column >= 0:
            keep = [column, *range(3, rows.shape[1])]
            rows, objective, d = rows[:, keep], objective[keep], 1
        state = minimise(DenseKernel(rows, objective, d, norm == "l2" or d == 1))
        assert state is not None
        proved = Prover(system, targets).bound(form, target, state.multipliers)
        assert proved == pytest.approx(state.value, rel=1e-6, abs=1e-9)
        if norm != "l1":
            assert proved >= values[row] * (1 - 1e-12)
    assert (best >= values * (1 - 1e-12)).all()


def wide_form(seed: int) -> NodeForm:
    network = random_network(seed, (40, 4, 3, 2))
    system = UnitSystem(network, np.array([[1.0, -1.0]]), AllSpace(network.input_dim))
    return system.form(system.root_phases())


@pytest.mark.parametrize("seed", range(3))
def test_kernels_agree_on_the_optimum(seed: int) -> None:
    form = wide_form(seed)
    dense = minimise(DenseKernel(form.rows, form.objective[0], 40, False), tolerance=1e-6)
    wide = minimise(WideKernel(form.rows, form.objective[0], 40), tolerance=1e-6)
    assert dense is not None
    assert wide is not None
    assert wide.value == pytest.approx(dense.value, rel=1e-4)
    direct = minimise(DenseKernel(form.rows, form.objective[0], 40, True), tolerance=1e-6)
    rows, objectives, inputs = rotated(form.rows, form.objective, 40)
    assert inputs < 40
    turned = minimise(DenseKernel(rows, objectives[0], inputs, True), tolerance=1e-6)
    assert direct is not None
    assert turned is not None
    assert turned.value == pytest.approx(direct.value, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_euclidean_output_ball_lies_above_every_pattern(seed: int, norm: str) -> None:
    problem, system = setting(seed, norm, "l2")
    phases = system.root_phases()
    form = system.form(phases)
    state = minimise(SpectralKernel(form.rows, form.objective, 3, norm == "l2"))
    assert state is not None
    proved = Prover(system, targets_of(problem)).bound(form, 0, state.multipliers)
    best = max(problem.norm_of(system.form(full).jacobian).value for full in completions(phases))
    assert proved >= best * (1 - 1e-12)
    single = max(
        minimise(DenseKernel(form.rows, row, 3, norm == "l2")).value for row in form.objective
    )
    assert proved >= single * (1 - 2e-3)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_exclusions_bound_the_excluded_patterns(seed: int) -> None:
    problem, system = setting(seed, "linf", "linf")
    phases = system.root_phases()
    form = system.form(phases)
    if not form.units.size:
        return
    state = minimise(DenseKernel(form.rows, form.objective[0], 3, False))
    assert state is not None
    tries = [
        Exclusion(k, on, step)
        for k in range(form.units.size)
        for on in (False, True)
        for step in (0.0, 0.3, -1.0)
    ]
    prover = Prover(system, targets_of(problem))
    proved = prover.exclude(form, 0, state.multipliers, tries)
    assert proved[0] == pytest.approx(prover.bound(form, 0, state.multipliers), rel=1e-9)
    for item, bound in zip(tries, proved, strict=True):
        decided = phases.copy()
        decided[form.units[item.position]] = RIGHT if item.on else LEFT
        assert bound >= truth(system, decided, "l1")[0] * (1 - 1e-12)


@given(st.integers(0, 1000), st.sampled_from(["box", "l1", "l2"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_propagated_bounds_hold_at_points_of_the_node(
    seed: int, kind: str, intervals: bool
) -> None:
    problem, system = setting(seed, "linf")
    rng = np.random.default_rng(seed)
    domain = problem.domain if kind == "box" else ball([0.1, 0.0, -0.2], 0.8, kind)
    points = domain.sample(rng, 200)
    z = np.hstack(problem.network.preactivations(points))
    phases = system.root_phases()
    unit = int(rng.choice(np.flatnonzero(system.kinked)))
    phases[unit] = RIGHT
    inside = z[z[:, unit] > 0]
    low, high = domain.lower[None], domain.upper[None]
    stack = Stack.unknown(phases[None], low, high)
    propagate(problem.network.hidden, domain, stack, intervals=intervals)
    if len(inside):
        assert stack.alive[0]
    assert (inside >= stack.lower[0] - 1e-9).all()
    assert (inside <= stack.upper[0] + 1e-9).all()
    decided = (stack.phases[0] != OPEN) & system.kinked
    assert ((inside[:, decided] > 0) == (stack.phases[0, decided] == RIGHT)).all()


@pytest.mark.parametrize("kind", ["box", "l1", "l2", "space"])
def test_regions_are_empty_exactly_when_they_have_no_interior(kind: str) -> None:
    network = mixed_network(3, (2, 4, 3, 1))
    domain = {
        "box": Box(-1, 1, 2),
        "l1": ball([0.1, 0.0], 0.8, "l1"),
        "l2": ball([0.1, 0.0], 0.8, "l2"),
        "space": AllSpace(2),
    }[kind]
    system = UnitSystem(network, np.eye(1), domain)
    program = RegionProgram(system, domain)
    n = system.count
    for phases in completions(system.root_phases()):
        ends = np.full(n, np.inf)
        part = SimpleNamespace(
            phases=phases, lower=-ends, upper=ends, low=domain.lower, high=domain.upper
        )
        answer = program.examine(system.form(phases), part)
        pattern = to_pattern(system.split(phases))
        assert answer.empty == examine(network, domain, pattern).empty
        if answer.point is not None:
            on = np.concatenate(network.pattern(answer.point))
            assert (on == (phases == RIGHT))[system.kinked].all()


@pytest.mark.parametrize("seed", range(8))
def test_signs_of_nodes_hold_under_all_their_patterns(seed: int) -> None:
    """And bounds from multipliers of inputs joined by them, those of the whole problem's, too."""
    rng = np.random.default_rng(seed)
    center = rng.standard_normal(9)
    box = Box(center - 0.2, center + 0.2)
    problem = LipschitzProblem(random_network(seed, (9, 7, 6, 2)), box, "linf", "linf")
    targets = targets_of(problem)
    system = UnitSystem(problem.network, targets.functionals, problem.domain)
    phases = np.concatenate(preactivation_bounds(problem.network, problem.domain).phases)
    bounder = Bounder(system, targets, phases, join=True)
    whole = system.form(phases)
    root = bounder.minimise(whole, 0)
    assert root is not None
    decided, phases = rng.permutation(whole.units)[2:], phases.copy()
    phases[decided] = rng.integers(0, 2, decided.size)
    form = system.form(phases)
    signs = bounder.signs(form, 0)
    assert signs is not None
    gradients = np.array([system.form(full).jacobian[0] for full in completions(phases)])
    assert (gradients * signs >= 0.0).all()
    best = np.abs(gradients).sum(axis=1).max()
    y = bounder.rejoined(0, whole.units, root.state.multipliers, None, signs)
    start = inherited(bounder.kernel(form, 0, signs), form, whole.units, y)
    found = bounder.minimise(form, 0, (whole.units, y), signs=signs)
    assert found is not None
    assert best <= bounder.prover.bound(form, 0, found.state.multipliers, signs)
    proved = bounder.prover.bound(form, 0, start, signs)
    assert best <= proved <= root.state.value * (1.0 + 1e-9)
