"""What is found in a reduced network holds in the given one: points, patterns, multipliers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo import AllSpace, Box, LipschitzProblem, Network
from lipyomo.affine import affine_pieces
from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.bounds import preactivation_bounds
from lipyomo.network import BoolArray, FloatArray, Layer, Pattern
from lipyomo.phases import LEFT, OPEN, RIGHT, flat
from lipyomo.reduce.exact import exactly
from lipyomo.reduce.freeze import freeze
from lipyomo.reduce.fuse import fuse
from lipyomo.reduce.merge import merge
from lipyomo.reduce.presolve import presolve
from lipyomo.reduce.reduction import Reduction
from lipyomo.reduce.thin import thin
from lipyomo.reduce.units import Counterparts
from lipyomo.semidefinite.root import RootBounds
from lipyomo.targets import Targets
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
@settings(max_examples=150, deadline=None)
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
@settings(max_examples=300, deadline=None)
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
@settings(max_examples=100, deadline=None)
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


def bound(
    network: Network, phases: FlatPhases, moving: BoolArray, zeta: FloatArray, lam: FloatArray
) -> float:
    """What multipliers of the open units prove of the only output, from the definition.

    ``C = D(zeta) - sum_k lam_k sym(e_k (U_k - e_k)^T) > 0`` gives
    ``|c . w| <= sqrt(sum(zeta) c^T C^-1 c)``; directions are those of the inputs that move.
    """
    form = UnitSystem(network, np.eye(1), AllSpace(moving.size)).form(phases)
    d = form.inputs
    keep = np.concatenate([np.flatnonzero(moving), d + np.arange(lam.size)])
    rows, c, n = form.rows[:, keep], form.objective[0, keep], int(moving.sum())
    C = np.diag(np.concatenate([zeta[moving], np.zeros(lam.size)]))
    for k, weight in enumerate(lam):
        e = np.eye(n + lam.size)[n + k]
        outer = np.outer(e, rows[k] - e)
        C -= 0.5 * weight * (outer + outer.T)
    np.linalg.cholesky(C)
    return float(np.sqrt(zeta.sum() * c @ np.linalg.solve(C, c)))


@pytest.mark.parametrize("seed", range(20))
def test_lifted_multipliers_prove_the_same_bound(seed: int) -> None:
    """Of a network with frozen inputs, affine layers and constant units."""
    first, *rest = mixed_network(seed, (4, 5, 4, 1)).layers
    weight = first.weight * np.array([[1.0], [0.0], [1.0], [1.0], [1.0]])
    first = Layer(weight, first.bias, first.left, first.right)
    middle = Layer(np.diag([1.0, 2.0, 4.0, 0.5, 1.0]), np.ones(5), 2.0, 2.0)
    network = Network([first, middle, *rest])
    frozen = np.array([False, True, False, False])
    found = exactly(network, Box(-1.0, np.where(frozen, -1.0, 1.0), 4))
    assert found.network.input_dim == 3
    targets = Targets.of(np.eye(1), 1, 3, "linf")
    system = UnitSystem(found.network, np.eye(1), AllSpace(3))
    root = RootBounds.of(system, targets, system.root_phases()).run()
    upper, units = root.value, root.form.units
    zeta, lam = np.split(root.multipliers[0], [3])
    here = bound(found.network, system.root_phases(), np.ones(3, dtype=bool), zeta, lam)
    assert here == pytest.approx(upper, rel=1e-6)
    lifted = found.lift_multipliers(zeta, units[::-1], lam[::-1])
    assert lifted is not None
    phases = np.where(found.units.sides, RIGHT, LEFT)
    phases[lifted[1]] = OPEN
    there = bound(network, phases, found.moving, lifted[0], lifted[2])
    assert there == pytest.approx(here, rel=1e-9)
    assert lifted[0][frozen].tolist() == [0.0]


def test_multipliers_of_merged_units_are_not_lifted() -> None:
    """relu(x) - relu(-x) = x: with a multiplier each, the two units may both be on."""
    pair = Layer([[1.0], [-1.0], [1.0]], [0.0, 0.0, 1.0], 0.0, 1.0)
    network = Network([pair, Layer([[1.0, 2.0, 1.0]], [0.0])])
    found = merge(network)
    (kinks,) = (np.flatnonzero(layer.kinked) for layer in found.network.hidden)
    assert kinks.size == 2
    assert found.lift_multipliers(np.ones(1), kinks, np.ones(2)) is None
    alone = found.units.inner[found.units.outer == 2]
    lifted = found.lift_multipliers(np.ones(1), alone, np.array([3.0]))
    assert lifted is not None
    assert (lifted[1].tolist(), lifted[2].tolist()) == ([2], [3.0])


@pytest.mark.parametrize("way", ["presolve", "thin"])
@pytest.mark.parametrize("seed", range(4))
def test_under_phases_of_the_domain(seed: int, way: str) -> None:
    """Points and patterns of the open units; the others are on the sides that are known."""
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
def test_multipliers_of_open_units_prove_the_same_under_phases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = mixed_network(seed, (6, 120, 100, 3))
    center = rng.standard_normal(6)
    domain = Box(center - 0.02, center + 0.02)
    phases = preactivation_bounds(network, domain).phases
    small = presolve(network, np.eye(3), domain, phases)
    whole = UnitSystem(network, np.eye(3), domain)
    form, full = small.system.form(small.phases), whole.form(flat(phases))
    zeta, lam = rng.random(6), rng.random(form.units.size)
    lifted = small.lift_multipliers(zeta, form.units, lam)
    assert lifted is not None
    assert (lifted[0] == zeta).all()
    assert (lifted[1] == full.units).all()
    assert (lifted[2] == lam).all()
    np.testing.assert_allclose(form.rows, full.rows, atol=1e-9)
    np.testing.assert_allclose(form.objective, full.objective, atol=1e-9)


def test_multipliers_of_units_that_nobody_is_are_not_lifted() -> None:
    """Also where another one stands for two, so that their number is right."""
    network = Network([Layer([[1.0], [2.0]], [0.0, 0.0], 0.0, 1.0), Layer([[1.0, 1.0]], [0.0])])
    wider = mixed_network(0, (1, 3, 1))
    both = np.array([1, 1])
    found = Reduction.to(wider, Counterparts.of(network, np.arange(2), both))
    assert found.lift_multipliers(np.ones(1), np.array([0, 1]), np.ones(2)) is None
