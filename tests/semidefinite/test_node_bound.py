"""The semidefinite node bound is above every switching of the open units, and nearly tight."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lipyomo.network import FloatArray, Network
from lipyomo.norms import CrossOutput, L1Output, L2Output, LinfOutput, OutputNorm
from lipyomo.operator_norm import operator_norm
from lipyomo.phases import OPEN, Phases, open_phases, to_pattern
from lipyomo.semidefinite.dense import DenseKernel
from lipyomo.semidefinite.descent import minimise
from lipyomo.semidefinite.multipliers import Ball, NodeBound, Stop, node_bound
from lipyomo.semidefinite.reduce import ReducedForm, reduce_form
from lipyomo.semidefinite.verify import VerifiedMatrix, verified_bound
from lipyomo.semidefinite.wide import WideKernel
from networks import integer_network, mixed_network, random_network

INPUTS = ("l1", "l2", "linf")
OUTPUTS: list[tuple[Ball, OutputNorm]] = [
    ("vertices", LinfOutput()),
    ("vertices", CrossOutput()),
    ("vertices", CrossOutput(0)),
    ("l2", L2Output()),
    ("l1", L1Output()),
]
FINE = Stop(tolerance=1e-5)


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


def truth(network: Network, phases: Phases, norm: str, output: OutputNorm) -> float:
    return max(
        operator_norm(network.jacobian(to_pattern(full)), norm, output).value
        for full in completions(phases)
    )


def functionals(ball: Ball, output: OutputNorm, m: int) -> FloatArray:
    if ball != "vertices":
        return np.eye(m)
    vertices = output.vertices(m)
    assert vertices is not None
    return vertices


CASES = [
    *(random_network(seed, (3, 4, 3, 2)) for seed in range(3)),
    *(random_network(seed, (1, 5, 3), slope=0.1) for seed in range(2)),
    *(mixed_network(seed, (4, 3, 3, 3)) for seed in range(3)),
    *(integer_network(seed, (2, 4, 3, 2)) for seed in range(3)),
]


@pytest.mark.parametrize("norm", INPUTS)
@pytest.mark.parametrize(("ball", "output"), OUTPUTS, ids=lambda item: str(item))
def test_above_every_switching(norm: str, ball: Ball, output: OutputNorm) -> None:
    ratios = []
    for seed, network in enumerate(CASES):
        phases = partly_decided(network, seed)
        form = reduce_form(network, phases, functionals(ball, output, network.output_dim))
        best = truth(network, phases, norm, output)
        bound = node_bound(form, norm, ball, stop=FINE)
        assert bound.upper >= best * (1 - 1e-12)
        if best > 0:
            ratios.append(bound.upper / best)
    assert np.median(ratios) < 1.1  # tight, up to the relaxation's own gap


@pytest.mark.parametrize("norm", INPUTS)
@pytest.mark.parametrize(("ball", "output"), OUTPUTS, ids=lambda item: str(item))
def test_warm_start_keeps_the_bound(norm: str, ball: Ball, output: OutputNorm) -> None:
    for seed, network in enumerate(CASES):
        rows = functionals(ball, output, network.output_dim)
        form = reduce_form(network, partly_decided(network, seed), rows)
        first = node_bound(form, norm, ball, stop=FINE)
        again = node_bound(form, norm, ball, warm=first.multipliers, stop=FINE)
        assert again.upper <= first.upper * (1 + 1e-3)


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_children_inherit_the_bound(norm: str, on: bool) -> None:
    """A child's matrix is its parent's, restricted: frozen multipliers are never worse."""
    network = random_network(7, (4, 5, 4, 1))
    phases = open_phases(network)
    form = reduce_form(network, phases, np.eye(1))
    parent = node_bound(form, norm, stop=FINE)
    for k, (layer, unit) in enumerate(form.units):
        child = form.fix(k, on)
        decided = [array.copy() for array in phases]
        decided[layer][unit] = int(on)
        direct = reduce_form(network, tuple(decided), np.eye(1))
        np.testing.assert_allclose(child.rows, direct.rows, atol=1e-12)
        np.testing.assert_allclose(child.objective, direct.objective, atol=1e-12)
        frozen = node_bound(child, norm, warm=parent.multipliers, stop=Stop(iterations=0))
        assert frozen.upper <= parent.upper * (1 + 1e-9)


def test_decided_network_is_exact() -> None:
    network = random_network(3, (3, 4, 2))
    pattern = network.pattern(np.array([0.3, -0.2, 0.9]))
    phases = tuple(on.astype(np.int8) for on in pattern)
    form = reduce_form(network, phases, np.eye(2))
    for norm in INPUTS:
        exact = operator_norm(network.jacobian(pattern), norm, LinfOutput()).value
        assert node_bound(form, norm).upper == pytest.approx(exact, rel=1e-12)
        assert node_bound(form, norm).upper >= exact


def test_zero_objective_is_zero() -> None:
    network = Network.from_arrays([np.eye(3), np.zeros((1, 3))])
    form = reduce_form(network, open_phases(network), np.eye(1))
    assert node_bound(form, "linf").upper == 0.0


def wide_form(seed: int) -> ReducedForm:
    network = random_network(seed, (120, 6, 5, 1))
    return reduce_form(network, open_phases(network), np.eye(1))


def test_wide_inputs_agree_with_the_dense_kernel() -> None:
    for seed in range(3):
        form = wide_form(seed)
        d, c = form.inputs, form.objective[0]
        wide = minimise(WideKernel(form.rows, c, d), tolerance=1e-6, max_iterations=100)
        dense = minimise(DenseKernel(form.rows, c, d, False), tolerance=1e-6, max_iterations=100)
        assert wide is not None
        assert dense is not None
        assert wide.value == pytest.approx(dense.value, rel=1e-4)
        y = wide.multipliers
        proved = verified_bound(form, np.array([0]), y[:d], y[d:], grouped=False)
        assert proved == pytest.approx(wide.value, rel=1e-7)


def test_no_proof_no_bound() -> None:
    """Multipliers whose matrix is indefinite, zero or not finite prove nothing."""
    form = wide_form(0)
    ones, units = np.ones(form.inputs), np.ones(form.count)
    for zeta, lam in (
        (1e-6 * ones, units),
        (0.0 * ones, units),
        (ones, -units),
        (np.inf * ones, units),
    ):
        assert not VerifiedMatrix(form, zeta, lam).accepted
        assert verified_bound(form, np.array([0]), zeta, lam, grouped=False) == np.inf


def test_any_accepted_multipliers_are_sound() -> None:
    """The proof does not depend on where the multipliers came from."""
    rng = np.random.default_rng(5)
    network = random_network(11, (3, 4, 3, 1))
    phases = open_phases(network)
    form = reduce_form(network, phases, np.eye(1))
    best = truth(network, phases, "linf", LinfOutput())
    accepted = 0
    for _ in range(200):
        zeta = np.exp(rng.normal(2.0, 2.0, form.inputs))
        lam = np.exp(rng.normal(0.0, 1.0, form.count))
        bound = verified_bound(form, np.array([0]), zeta, lam, grouped=False)
        assert bound >= best
        accepted += np.isfinite(bound)
    assert accepted > 5


def test_magnitudes_cover_rounding() -> None:
    """Float64 rows differ from exact rational ones by no more than stated."""
    from fractions import Fraction

    network = random_network(2, (3, 5, 4, 2))
    form = reduce_form(network, open_phases(network), np.eye(2))
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
    data = np.load(shared / "reference" / "lipmip_A_16-16-16-2_cube_s0.npz")
    network = Network.from_arrays(
        [data[f"W{i}"] for i in range(3)], [data[f"b{i}"] for i in range(3)]
    )
    form = reduce_form(network, open_phases(network), data["c"])
    bound: NodeBound = node_bound(form, "linf", stop=FINE)
    assert bound.upper == pytest.approx(26.523, abs=2e-3)
