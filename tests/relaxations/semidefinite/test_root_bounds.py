"""Semidefinite bounds are above every switching of the unstable units, and nearly tight."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, Phases, flat, open_phases
from lipyomo.problems.affine.system import NodeForm, UnitSystem
from lipyomo.problems.domains import AllSpace
from lipyomo.problems.norms import CrossOutput, L1Output, L2Output, LinfOutput, OutputNorm
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.bounder import Bounder, inherited
from lipyomo.relaxations.semidefinite.choice import kernel_for, step_costs
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.descent import Descent, minimise
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form, closed_forms
from lipyomo.relaxations.semidefinite.kernel import Kernel
from lipyomo.relaxations.semidefinite.prove import Prover
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.relaxations.semidefinite.spectral import SpectralKernel
from lipyomo.relaxations.semidefinite.steps import Memory
from lipyomo.relaxations.semidefinite.verify import (
    SizedForm,
    VerifiedMatrix,
    bound_from,
    bounds_from,
)
from lipyomo.relaxations.semidefinite.wide import WideKernel
from networks import integer_network, mixed_network, random_network, to_pattern
from references import load_reference

INPUTS = ("l1", "l2", "linf")
OUTPUTS: list[tuple[str, OutputNorm]] = [
    ("vertices", LinfOutput()),
    ("vertices", CrossOutput()),
    ("vertices", CrossOutput(0)),
    ("l2", L2Output()),
    ("l1", L1Output()),
]


def root_of(
    network: Network, phases: Phases, norm: str, ball: str, output: OutputNorm, **more: float
) -> RootBounds:
    d, m = network.input_dim, network.output_dim
    targets = Targets.of(output.vertices(m) if ball == "vertices" else None, m, d, norm)
    system = UnitSystem(network, targets.functionals, AllSpace(d))
    return RootBounds.of(system, targets, flat(phases), norm=output, **more)


def partly_decided(network: Network, seed: int) -> Phases:
    rng = np.random.default_rng(seed)
    return tuple(
        np.where(
            (layer == OPEN) & (rng.random(layer.size) < 0.2), rng.integers(0, 2, layer.size), layer
        ).astype(np.int8)
        for layer in open_phases(network)
    )


def completions(phases: Phases) -> list[Phases]:
    places = [(i, j) for i, layer in enumerate(phases) for j in np.flatnonzero(layer == OPEN)]
    found = []
    for choice in product((0, 1), repeat=len(places)):
        layers = [layer.copy() for layer in phases]
        for (i, j), value in zip(places, choice, strict=True):
            layers[i][j] = value
        found.append(tuple(layers))
    return found


def jacobians(network: Network, phases: Phases) -> list[FloatArray]:
    """Of all completions, each once."""
    found = [network.jacobian(to_pattern(full)) for full in completions(phases)]
    return list({jacobian.tobytes(): jacobian for jacobian in found}.values())


def truth(network: Network, phases: Phases, norm: str, output: OutputNorm) -> float:
    return largest(jacobians(network, phases), norm, output)


def largest(among: list[FloatArray], norm: str, output: OutputNorm) -> float:
    return max(operator_norm(jacobian, norm, output).value for jacobian in among)


CASES = [
    *(random_network(seed, (3, 4, 3, 2)) for seed in range(3)),
    *(random_network(seed, (1, 5, 3), slope=0.1) for seed in range(2)),
    *(mixed_network(seed, (4, 3, 3, 3)) for seed in range(3)),
    *(integer_network(seed, (2, 4, 3, 2)) for seed in range(3)),
]


@cache
def partly_decided_case(seed: int) -> tuple[Phases, list[FloatArray]]:
    """The phases of a case, and its Jacobians."""
    phases = partly_decided(CASES[seed], seed)
    return phases, jacobians(CASES[seed], phases)


@pytest.mark.parametrize("norm", INPUTS)
@pytest.mark.parametrize(("ball", "output"), OUTPUTS, ids=lambda item: str(item))
def test_above_every_switching(norm: str, ball: str, output: OutputNorm) -> None:
    ratios = []
    for seed, network in enumerate(CASES):
        phases, among = partly_decided_case(seed)
        best = largest(among, norm, output)
        root = root_of(network, phases, norm, ball, output, tolerance=1e-5)
        begun = root.run(closed_only=True)
        closed, upper = begun.value, begun.run().value
        assert best * (1 - 1e-12) <= upper <= closed
        if best > 0:
            ratios.append(upper / best)
    assert np.median(ratios) < 1.1  # tight, up to the relaxation's own gap


def test_bounds_hold_whenever_they_are_stopped() -> None:
    network = random_network(4, (6, 8, 8, 3))
    phases = open_phases(network)
    reference = root_of(network, phases, "linf", "vertices", LinfOutput()).run().value
    for polls in (0, 1, 2, 5, 10):
        asked = iter(range(10_000))
        root = root_of(network, phases, "linf", "vertices", LinfOutput())
        seen: list[float] = []
        root = root.run(
            clock=Clock(1e6, lambda asked=asked, polls=polls: next(asked) >= polls),
            report=seen.append,
        )
        assert root.value >= reference * (1 - 2e-3)
        assert seen == sorted(seen, reverse=True)
        again = root.run()  # taken up where it was left
        assert again.value == pytest.approx(reference, rel=2e-3)


def test_targets_out_of_question_are_left_alone() -> None:
    network = random_network(4, (6, 8, 8, 3))
    root = root_of(network, open_phases(network), "linf", "vertices", LinfOutput())
    root = root.run()
    full, alone = root.value, float(root.upper[0])
    known = np.array([np.inf, 0.5 * alone, 0.5 * alone])
    system = UnitSystem(network, np.eye(3), AllSpace(6))
    targets = Targets.of(np.eye(3), 3, None, "linf")
    few = RootBounds.of(system, targets, flat(open_phases(network)), known).run()
    assert set(few.multipliers) == {0}
    assert (few.upper <= known).all()
    done = RootBounds.of(system, targets, flat(open_phases(network)), np.full(3, full))
    assert not done.run(cutoff=full).multipliers


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_children_inherit_the_bound(norm: str, on: bool) -> None:
    """A child's matrix is its parent's, restricted: frozen multipliers are never worse."""
    network = random_network(7, (4, 5, 4, 1))
    system = UnitSystem(network, np.eye(1), AllSpace(4))
    targets = Targets.of(np.eye(1), 1, None, norm)
    bounder = Bounder(system, targets)
    phases = flat(open_phases(network))
    form = system.form(phases)
    found = bounder.minimise(form, 0)
    assert found is not None
    y = found.state.multipliers
    upper = bounder.prover.bound(form, 0, y)
    for unit in form.units:
        decided = phases.copy()
        decided[unit] = int(on)
        child = system.form(decided)
        frozen = inherited(bounder.kernel(child, 0), child, form.units, y)
        assert bounder.prover.bound(child, 0, frozen) <= upper * (1 + 1e-9)


def test_decided_network_is_exact() -> None:
    network = random_network(3, (3, 4, 2))
    pattern = network.pattern(np.array([0.3, -0.2, 0.9]))
    phases = tuple(on.astype(np.int8) for on in pattern)
    for norm in INPUTS:
        for ball, output in OUTPUTS:
            exact = operator_norm(network.jacobian(pattern), norm, output).value
            upper = root_of(network, phases, norm, ball, output).run().value
            assert upper == pytest.approx(exact, rel=1e-9)
            assert upper >= exact


@pytest.mark.parametrize("norm", INPUTS)
@pytest.mark.parametrize(("ball", "output"), OUTPUTS, ids=lambda item: str(item))
def test_zero_objective_is_zero(norm: str, ball: str, output: OutputNorm) -> None:
    network = Network.from_arrays([np.eye(3), np.zeros((2, 3))])
    upper = root_of(network, open_phases(network), norm, ball, output).run().value
    assert upper <= 1e-12


@pytest.mark.parametrize("norm", INPUTS)
def test_units_that_see_nothing_do_no_harm(norm: str) -> None:
    """Rows of zeros, and units that no objective sees."""
    first = np.array([[1.0, -2.0], [0.0, 0.0], [0.5, 0.5], [3.0, 1.0]])
    network = Network.from_arrays([first, [[1.0, 5.0, -1.0, 0.0]]])
    phases = open_phases(network)
    best = truth(network, phases, norm, LinfOutput())
    upper = root_of(network, phases, norm, "vertices", LinfOutput()).run().value
    assert best <= upper <= 1.3 * best


def wide_form(seed: int) -> tuple[NodeForm, SizedForm]:
    network = random_network(seed, (120, 6, 5, 1))
    system = UnitSystem(network, np.eye(1), AllSpace(120))
    targets = Targets.of(np.eye(1), 1, None, "linf")
    form = system.form(system.root_phases())
    return form, Prover(system, targets).sized(form)


def test_wide_kernels_agree_with_the_dense_one() -> None:
    for seed in range(3):
        form, sized = wide_form(seed)
        d, c = form.inputs, form.objective[0]
        wide = minimise(WideKernel(form.rows, c, d), tolerance=1e-6)
        dense = minimise(DenseKernel(form.rows, c, d, False), tolerance=1e-6)
        assert wide is not None
        assert dense is not None
        assert wide.value == pytest.approx(dense.value, rel=1e-4)
        y = wide.multipliers
        matrix = VerifiedMatrix(sized, y[:d], y[d:])
        proved = bound_from(matrix, np.array([0]), y[:d], False)
        assert proved == pytest.approx(wide.value, rel=1e-7)


def test_newton_systems_are_those_of_the_barrier_function() -> None:
    """Gradients and Hessians of all kernels against differences of the function itself."""
    form, _ = wide_form(1)
    d, objective = form.inputs, form.objective
    few = np.concatenate([np.arange(8), np.arange(d, form.rows.shape[1])])
    rows, c = form.rows[:, few], objective[0][few]
    for kernel in (
        DenseKernel(rows, c, 8, False),
        DenseKernel(form.rows, objective[0], d, False),
        WideKernel(rows, c, 8),
    ):
        y, mu = kernel.start(), 0.3
        assert y is not None
        y = 1.3 * y

        def merit(y: FloatArray, kernel=kernel, mu=mu) -> float:  # type: ignore[no-untyped-def]
            factor = kernel.factor(y)
            _, tau, quarter = kernel.terms(factor, y)
            return float(tau + quarter - mu * kernel.logdet(factor))

        factor = kernel.factor(y)
        system = kernel.system(factor, y, kernel.terms(factor, y)[0], mu)
        gradient = system.plain + mu * system.barrier
        step = np.maximum(1e-6 * np.abs(y), 1e-8)
        slopes = [
            (merit(y + h * e) - merit(y - h * e)) / (2 * h)
            for h, e in zip(step, np.eye(y.size), strict=True)
        ]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-5)
        newton, decrement = system.step(mu)
        length = 1e-3 / (1.0 + np.sqrt(decrement / mu))
        fall = merit(y) - merit(y + length * newton)
        assert fall == pytest.approx(length * (1 - 0.5 * length) * decrement, rel=2e-2)


def test_slopes_are_those_of_the_barrier_function_in_logarithms() -> None:
    form, _ = wide_form(1)
    d, rows, c = form.inputs, form.rows, form.objective[0]
    few = np.vstack([c, np.roll(c, 1)])
    kernels: list[Kernel] = [WideKernel(rows, c, d)]
    for euclidean in (False, True):
        kernels.append(DenseKernel(rows, c, d, euclidean))
        kernels += [SpectralKernel(rows, few, d, euclidean, separate) for separate in (False, True)]
    for kernel in kernels:
        y, mu = kernel.start(), 0.3
        assert y is not None
        y = 1.3 * y

        def merit(logarithms: FloatArray, kernel=kernel, mu=mu, y=y) -> float:  # type: ignore[no-untyped-def]
            z = y * np.exp(kernel.expand(logarithms))
            factor = kernel.factor(z)
            _, tau, quarter = kernel.terms(factor, z)
            return float(tau + quarter - mu * kernel.logdet(factor))

        factor = kernel.factor(y)
        slopes = kernel.slopes(factor, y, kernel.terms(factor, y)[0], mu)
        axes = 1e-5 * np.eye(slopes.size)
        differences = [(merit(axis) - merit(-axis)) / 2e-5 for axis in axes]
        np.testing.assert_allclose(slopes, differences, rtol=1e-4, atol=1e-5)


def test_quasi_newton_directions_find_a_minimum() -> None:
    """Of a convex quadratic form, and of one that is not convex where it starts."""
    sizes = np.linspace(1.0, 30.0, 12)
    for bent in (0.0, 1.0):
        x, memory = np.linspace(-1.0, 2.0, 12), Memory()
        for _ in range(80):
            gradient = sizes * x + 40.0 * bent * (x**3 - x)
            memory = memory.at(gradient)
            direction, length = memory.direction(gradient)
            assert gradient @ direction < 0
            length *= 0.3 if bent else 1.0
            memory = memory.moved(length * direction, gradient)
            x = x + length * direction
        assert np.abs(sizes * x + 40.0 * bent * (x**3 - x)).max() < 1e-3


def test_descents_approach_and_then_converge() -> None:
    """First steps lower the bound, and where Newton's method has no time they are all there is."""
    network = random_network(5, (6, 9, 9, 4))
    given = network, open_phases(network), "linf", "vertices", LinfOutput()
    root = root_of(*given)
    closed, free = root.run(closed_only=True), root.run()
    assert free.steps
    clock = Clock(60.0)
    short = replace(root, cost=root.cost._replace(step=1e9)).run(clock=clock)
    assert free.value < short.value < closed.value
    assert clock.curtailed
    assert short.stopped
    assert not short.steps


def test_closed_form_starts_are_definite_and_not_far_off() -> None:
    for seed in range(5):
        network = random_network(seed, (20, 16, 16, 1))
        system = UnitSystem(network, np.eye(1), AllSpace(20))
        form = system.form(system.root_phases())
        for euclidean in (False, True):
            kernel = DenseKernel(form.rows, form.objective[0], 20, euclidean)
            found = closed_form(form.rows, form.objective, 20, euclidean)
            assert kernel.factor(np.concatenate([found.zeta, found.lam])) is not None
            begun = Descent.begun(kernel)
            assert begun.lowered().value <= begun.value <= 2.0 * begun.lowered().value


@pytest.mark.parametrize("euclidean", [False, True])
def test_closed_forms_of_several_objectives_are_those_of_each(euclidean: bool) -> None:
    """Also with layers that see inputs past others, one layer, none, and nothing at all."""
    for sizes in ((6, 7, 5, 3), (6, 7, 3), (6, 3), (5, 6, 6, 4, 4)):
        network = random_network(len(sizes), sizes)
        k, d = sizes[-1], sizes[0]
        system = UnitSystem(network, np.eye(k), AllSpace(d))
        form = system.form(system.root_phases())
        for rows in (form.rows, 0.0 * form.rows):
            groups = [slice(None), *(slice(i, i + 1) for i in range(k))]
            together = closed_forms(rows, form.objective, groups, d, euclidean)
            for group, found in zip(groups, together, strict=True):
                alone = closed_form(rows, form.objective[group], d, euclidean)
                assert found is not None
                assert alone is not None
                if group == slice(None) or euclidean:  # a cube's zeta goes by all objectives
                    np.testing.assert_allclose(found.lam, alone.lam, rtol=1e-9)
                    np.testing.assert_allclose(found.gram, alone.gram, rtol=1e-9, atol=1e-12)
                kernel = DenseKernel(rows, form.objective[group][0], d, euclidean)
                y = found.definite(kernel.factor)
                assert y is not None
                if rows.any():
                    _, tau, quarter = kernel.terms(kernel.factor(y), y)
                    proved = np.sqrt(found.zeta.sum() if not euclidean else found.zeta[0])
                    proved *= np.sqrt(found.gram[0, 0])
                    assert 2.0 * np.sqrt(tau * quarter) == pytest.approx(proved, rel=1e-6)


def test_a_root_that_is_done_says_nothing_of_its_limit() -> None:
    """However little time is left when the last bound is proved."""
    network = random_network(3, (5, 6, 6, 1))
    root = root_of(network, open_phases(network), "linf", "vertices", LinfOutput())
    done = root.run()
    heard = [np.inf]
    clock = Clock(10.0, now=lambda: 9.9999 if heard[-1] <= done.value else 0.0)
    root = root.run(clock=clock, report=heard.append)
    assert root.value == done.value
    assert heard[-1] == done.value
    assert not clock.curtailed
    assert not root.stopped


def test_without_time_for_a_step_every_target_has_its_own_closed_form() -> None:
    network = random_network(5, (6, 9, 9, 4))
    given = network, open_phases(network), "linf", "vertices", LinfOutput()
    root = root_of(*given)
    together, own, free = root.begun(), root.run(closed_only=True), root.run()
    assert free.value < own.value <= together.value
    clock = Clock(60.0)
    short = replace(root, cost=root.cost._replace(approach=1e9, step=1e9)).run(clock=clock)
    assert short.value == own.value
    assert clock.curtailed
    assert short.stopped
    assert not short.steps


def test_kernels_are_chosen_by_cost() -> None:
    """The prediction ranks a tree's small nodes, wide nodes and large roots as they are."""

    def cheapest(inputs: int, units: int) -> str:
        costs = step_costs(inputs, units)
        return min(costs, key=lambda name: costs[name])

    assert cheapest(16, 30) == "dense"
    assert cheapest(784, 20) == cheapest(784, 470) == "wide"
    rows = np.zeros((3, 4003))
    kernel = kernel_for(rows, np.ones((1, 4003)), 4000, True)
    assert kernel.inputs <= 4  # a Euclidean ball is rotated into what is seen of it


def test_no_proof_no_bound() -> None:
    """Multipliers whose matrix is indefinite, zero or not finite prove nothing."""
    _, form = wide_form(0)
    ones, units = np.ones(form.inputs), np.ones(form.count)
    for zeta, lam in (
        (1e-6 * ones, units),
        (0.0 * ones, units),
        (ones, -units),
        (np.inf * ones, units),
    ):
        matrix = VerifiedMatrix(form, zeta, lam)
        assert not matrix.accepted
        assert bound_from(matrix, np.array([0]), zeta, False) == np.inf


def test_bounds_of_many_rows_are_those_of_each() -> None:
    network = random_network(12, (5, 6, 5, 4))
    system = UnitSystem(network, np.eye(4), AllSpace(5))
    targets = Targets.of(np.eye(4), 4, None, "linf")
    form = system.form(system.root_phases())
    sized = Prover(system, targets).sized(form)
    found = closed_form(form.rows, form.objective, 5, False)
    matrix = VerifiedMatrix(sized, found.zeta, found.lam)
    together = bounds_from(matrix, np.arange(4), found.zeta, False)
    single = [bound_from(matrix, np.array([k]), found.zeta, False) for k in range(4)]
    np.testing.assert_allclose(together, single, rtol=1e-9)
    exact = np.sqrt(np.diagonal(found.gram))
    assert (together >= exact * (1 - 1e-12)).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_target_is_given_up_before_its_minimum(norm: str) -> None:
    """Pairs of outputs share most of their bound, and each still reaches its own minimum."""
    vertices = CrossOutput().vertices(4)
    assert vertices is not None
    count = len(vertices)
    targets = Targets.of(vertices, vertices.shape[1], None, norm)
    for seed in range(3):
        network = random_network(seed, (6, 8, 8, 4))
        system = UnitSystem(network, vertices, AllSpace(6))
        phases = system.root_phases()
        upper = RootBounds.of(system, targets, phases, tolerance=1e-4).run().value
        alone = []
        for k in range(count):
            known = np.zeros(count)
            known[k] = np.inf
            alone.append(RootBounds.of(system, targets, phases, known, tolerance=1e-4).run().value)
        assert upper == pytest.approx(max(alone), rel=2e-3)


def test_any_accepted_multipliers_are_sound() -> None:
    """The proof does not depend on where the multipliers came from."""
    rng = np.random.default_rng(5)
    network = random_network(11, (3, 4, 3, 1))
    root = root_of(network, open_phases(network), "linf", "vertices", LinfOutput())
    system = UnitSystem(network, np.eye(1), AllSpace(3))
    targets = Targets.of(np.eye(1), 1, None, "linf")
    form = Prover(system, targets).sized(root.form)
    best = truth(network, open_phases(network), "linf", LinfOutput())
    accepted = 0
    for _ in range(200):
        zeta = np.exp(rng.normal(2.0, 2.0, form.inputs))
        lam = np.exp(rng.normal(0.0, 1.0, form.count))
        bound = bound_from(VerifiedMatrix(form, zeta, lam), np.array([0]), zeta, False)
        assert bound >= best
        accepted += np.isfinite(bound)
    assert accepted > 5


def test_magnitudes_cover_rounding() -> None:
    """Float64 rows differ from exact rational ones by no more than stated."""
    from fractions import Fraction

    network = random_network(2, (3, 5, 4, 2))
    system = UnitSystem(network, np.eye(2), AllSpace(3))
    targets = Targets.of(np.eye(2), 2, None, "linf")
    form = Prover(system, targets).sized(system.form(system.root_phases()))
    rows, width = [], 3 + form.count
    signal = [[Fraction(int(i == j)) for j in range(width)] for i in range(3)]
    column = 3
    for layer in network.hidden:
        weight = [[Fraction(x) for x in row] for row in layer.dense_weight.tolist()]
        rows += [
            [
                sum((w * s[j] for w, s in zip(line, signal, strict=True)), Fraction(0))
                for j in range(width)
            ]
            for line in weight
        ]
        signal = []
        for _ in range(layer.units):
            signal.append([Fraction(int(j == column)) for j in range(width)])
            column += 1
    for k, row in enumerate(rows):
        for j, exact in enumerate(row):
            error = abs(Fraction(float(form.rows[k, j])) - exact)
            assert error <= Fraction(form.rounding) * Fraction(float(form.row_size[k, j]))


@pytest.mark.reference
def test_root_bounds_of_the_reference_networks(shared) -> None:  # type: ignore[no-untyped-def]
    """Root bounds over all switchings, as the design page states them."""
    known = load_reference(shared / "reference" / "lipmip_A_16-16-16-2_cube_s0.npz")
    c = np.atleast_2d(known.functional)
    system = UnitSystem(known.network, c, AllSpace(16))
    targets = Targets.of(c, c.shape[1], None, "linf")
    root = RootBounds.of(system, targets, system.root_phases(), tolerance=1e-5)
    assert root.run().value == pytest.approx(26.523, abs=2e-3)
