"""What is found in a reduced network holds in the given one: points and patterns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.base.arrays import Pattern
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import flat
from lipyomo.problems.affine.signal import affine_pieces
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.reductions.merge import freeze, fuse, merge
from lipyomo.problems.reductions.presolve import presolve, thin
from lipyomo.problems.reductions.reduction import Reduction
from lipyomo.relaxations.linear import preactivation_bounds
from networks import mixed_network

SLOPES = np.array([(0.0, 1.0), (0.5, 1.0), (-1.0, 1.0), (1.0, 1.0), (2.0, 0.0), (0.0, 0.0)])


@st.composite
def problems(draw: st.DrawFn) -> LipschitzProblem:
    """Small integers in dense or sparse layers: no operation on them rounds.

    Units are multiples of each other, constant, without a kink, or read by nobody; layers are
    affine; inputs are frozen.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, depth = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    layers, width = [], d
    for _ in range(depth):
        weight = rng.integers(-2, 3, (rng.integers(1, 4), width)) * (rng.random(width) < 0.8)
        bias = rng.integers(-2, 3, len(weight))
        which = rng.integers(0, len(weight), rng.integers(1, 6))
        times = rng.choice([1, 1, 2, -1, -2], which.size)
        slopes = SLOPES[rng.choice(len(SLOPES), which.size, p=[0.5, 0.15, 0.1, 0.1, 0.1, 0.05])]
        if rng.random() < 0.2:
            slopes = np.ones(slopes.shape)
        matrix = (times[:, None] * weight[which]).astype(float)
        own = sp.csr_array(matrix) if rng.random() < 0.4 else matrix
        layers.append(Layer(own, times * bias[which], *slopes.T))
        width = which.size
    layers.append(Layer(rng.integers(-2, 3, (rng.integers(1, 4), width)), np.zeros(1)))
    frozen = rng.random(d) < 0.3
    frozen[rng.integers(d)] = False
    low = rng.integers(-2, 2, d).astype(float)
    return LipschitzProblem(Network(layers), Box(low, np.where(frozen, low, low + 2.0)))


def reductions(problem: LipschitzProblem) -> list[Reduction]:
    """The reductions of a network that do not round, alone and composed."""
    network, frozen = problem.network, problem.domain.frozen
    fused = fuse(network)
    both = fused.then(merge(fused.network))
    return [freeze(network, frozen, problem.domain.upper), fused, both, problem.reduced]


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_lifted_point_has_the_same_value_and_jacobian(
    problem: LipschitzProblem, seed: int
) -> None:
    network = problem.network
    for found in reductions(problem):
        x = np.random.default_rng(seed).integers(-64, 65, found.network.input_dim) / 32.0
        full = found.lift_point(x)
        assert (found.reduce_point(full) == x).all()
        assert (found.network.forward(x) == network.forward(full)).all()
        if all((z != 0).all() for z in network.preactivations(full)):
            here = found.network.jacobian(found.network.pattern(x))
            there = network.jacobian(network.pattern(full))
            assert (here == there[:, found.moving]).all()
    reduced = problem.reduced
    x = np.random.default_rng(seed).integers(-64, 65, reduced.network.input_dim) / 32.0
    full = reduced.lift_point(x)
    if all((z != 0).all() for z in network.preactivations(full)):
        assert reduced.problem.value_at(x).value == problem.value_at(full).value


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_a_lifted_pattern_selects_the_same_affine_piece(
    problem: LipschitzProblem, seed: int
) -> None:
    """Of any pattern, also one without a region."""
    rng = np.random.default_rng(seed)
    for found in reductions(problem):
        pattern = tuple(rng.random(layer.units) < 0.5 for layer in found.network.hidden)
        lifted = found.lift_pattern(pattern)
        problem.network.check_pattern(lifted)
        (here, offset), (there, other) = (
            affine_pieces(network, own)[-1]
            for network, own in ((found.network, pattern), (problem.network, lifted))
        )
        assert (here == there[:, found.moving]).all()
        fixed = found.lift_point(np.zeros(found.network.input_dim))
        assert (offset == other + there @ fixed).all()


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_reductions_compose(problem: LipschitzProblem, seed: int) -> None:
    network, domain = problem.network, problem.domain
    first = freeze(network, domain.frozen, domain.upper)
    second = fuse(first.network)
    third = merge(second.network)
    steps = [first, second, third]
    for whole in (first.then(second).then(third), first.then(second.then(third))):
        assert whole.network is third.network
        rng = np.random.default_rng(seed)
        pattern: Pattern = tuple(rng.random(layer.units) < 0.5 for layer in whole.network.hidden)
        x = rng.standard_normal(whole.network.input_dim)
        point, sides = whole.lift_point(x), whole.lift_pattern(pattern)
        for step in reversed(steps):
            x, pattern = step.lift_point(x), step.lift_pattern(pattern)
        assert (point == x).all()
        assert all((a == b).all() for a, b in zip(sides, pattern, strict=True))


@pytest.mark.parametrize("way", ["presolve", "thin"])
@pytest.mark.parametrize("seed", range(4))
def test_under_phases_of_the_domain(seed: int, way: str) -> None:
    """Points and patterns of the unstable units; the others are on the sides that are known."""
    rng = np.random.default_rng(seed)
    network = mixed_network(seed, (6, 120, 100, 3))
    center = rng.standard_normal(6)
    domain = Box(center - 0.02, center + 0.02)
    phases = preactivation_bounds(network, domain).phases
    found: Reduction
    if way == "presolve":
        found = presolve(network, np.eye(3), domain, phases)
    else:
        found = thin(network, None, phases)
    assert found.network.kinked_units < network.kinked_units / 2
    points = domain.sample(rng, 50)
    np.testing.assert_allclose(found.network.forward(points), network.forward(points), rtol=1e-9)
    for x in points:
        pattern = found.network.pattern(x)
        here = found.network.jacobian(pattern)
        lifted = found.lift_pattern(pattern)
        np.testing.assert_allclose(network.jacobian(lifted), here, atol=1e-9)
        kinked = [layer.kinked for layer in network.hidden]
        for ours, theirs, k in zip(
            lifted, network.pattern(found.lift_point(x)), kinked, strict=True
        ):
            assert (ours == theirs)[k].all()


@pytest.mark.parametrize("seed", range(4))
def test_forms_of_open_units_are_the_same_under_phases(seed: int) -> None:
    """So that multipliers prove the same."""
    rng = np.random.default_rng(seed)
    network = mixed_network(seed, (6, 120, 100, 3))
    center = rng.standard_normal(6)
    domain = Box(center - 0.02, center + 0.02)
    phases = preactivation_bounds(network, domain).phases
    small = presolve(network, np.eye(3), domain, phases)
    whole = UnitSystem(network, np.eye(3), domain)
    form, full = small.system.form(small.phases), whole.form(flat(phases))
    np.testing.assert_allclose(form.rows, full.rows, atol=1e-9)
    np.testing.assert_allclose(form.objective, full.objective, atol=1e-9)
