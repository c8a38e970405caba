"""Bounds by the operators of sparse layers: they hold for the exact weights and all patterns."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Literal

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpq, fmpq_mat

from lipyomo import AllSpace, LipschitzProblem, Network, solve
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.methods import support
from lipyomo.networks.layer import Layer
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, open_phases
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.semidefinite import chain_root, choice, sparse_majorants
from lipyomo.relaxations.semidefinite.root import semidefinite_targets
from lipyomo.relaxations.semidefinite.sparse_chain import sparse_bounds
from lipyomo.relaxations.semidefinite.sparse_forms import Band
from networks import mixed_network

Norm = Literal["l2", "linf"]


def convolution(rng: np.random.Generator, channels: int, more: int, size: int) -> sp.csr_array:
    """A one-dimensional convolution of three points with zeros beyond the ends."""
    weight = rng.standard_normal((more, channels, 3)) / np.sqrt(3 * channels)
    found = np.zeros((size, more, size, channels))
    for at in range(size):
        for k in range(3):
            if 0 <= at + k - 1 < size:
                found[at, :, at + k - 1] = weight[:, :, k]
    return sp.csr_array(found.reshape(size * more, size * channels))


def convolutions(seed: int, size: int, channels: tuple[int, ...], outputs: int = 3) -> Network:
    """Convolutions, and an affine layer behind them."""
    rng = np.random.default_rng(seed)
    layers = []
    for few, many in pairwise(channels):
        weight = convolution(rng, few, many, size)
        left = rng.choice([0.0, 0.2], weight.shape[0])
        layers.append(Layer(weight, np.zeros(weight.shape[0]), left, 1.0))
    n = size * channels[-1]
    head = rng.standard_normal((outputs, n)) / np.sqrt(n)
    return Network([*layers, Layer(head, np.zeros(outputs))])


def bound_of(network: Network, norm: Norm, phases: Phases | None = None) -> float:
    problem = LipschitzProblem(network, AllSpace(network.input_dim), norm, "l2")
    targets, every = semidefinite_targets(problem), open_phases(network)
    reports: list[float] = []
    found = sparse_bounds(network, phases or every, targets, Clock(), reports.append)
    assert reports[-1] == found.max()
    return float(found.max())


def largest_norm(network: Network, norm: Norm, phases: Phases, tries: int = 300) -> float:
    """Of Jacobians under random patterns that agree with phases."""
    rng, most = np.random.default_rng(0), 0.0
    corners = np.where(rng.random((64, network.input_dim)) < 0.5, -1.0, 1.0)
    for _ in range(tries):
        share = rng.random()
        pattern = tuple(
            np.where(phase == OPEN, rng.random(phase.size) < share, phase == RIGHT)
            for phase in phases
        )
        jacobian = network.jacobian(pattern)
        if norm == "l2":
            most = max(most, float(np.linalg.norm(jacobian, 2)))
        else:
            most = max(most, float(np.linalg.norm(corners @ jacobian.T, axis=1).max()))
    return most


def decided(network: Network, seed: int) -> Phases:
    """A third of the units decided at random."""
    rng, found = np.random.default_rng(seed), []
    for phases in open_phases(network):
        sides = np.where(rng.random(phases.size) < 0.5, LEFT, RIGHT)
        taken = (rng.random(phases.size) < 1 / 3) & (phases == OPEN)
        found.append(np.where(taken, sides, phases).astype(np.int8))
    return tuple(found)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("seed", range(4))
def test_no_jacobian_exceeds_the_bound(seed: int, norm: Norm) -> None:
    network = convolutions(seed, 5, (2, 3, 2, 2))
    for phases in (open_phases(network), decided(network, seed)):
        assert 0.0 < largest_norm(network, norm, phases) <= bound_of(network, norm, phases)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("seed", range(4))
def test_dense_layers_and_slopes_of_all_kinds(seed: int, norm: Norm) -> None:
    network = mixed_network(seed, (4, 6, 5, 5, 3))
    phases = open_phases(network)
    bound = bound_of(network, norm)
    assert 0.0 < largest_norm(network, norm, phases) <= bound
    reference = solve(
        LipschitzProblem(network, AllSpace(4), norm, "l2"), "lipsdp", attain=False
    ).upper
    assert reference <= bound * (1 + 1e-6)  # it is a choice of that one's multipliers


def test_all_patterns_of_a_small_network() -> None:
    network = convolutions(7, 3, (1, 2, 1), outputs=2)
    kinked = [np.flatnonzero(layer.kinked) for layer in network.hidden]
    most = 0.0
    for bits in product((False, True), repeat=sum(units.size for units in kinked)):
        on, left = np.array(bits), []
        for layer, units in zip(network.hidden, kinked, strict=True):
            side = np.ones(layer.units, dtype=bool)
            side[units], on = on[: units.size], on[units.size :]
            left.append(side)
        most = max(most, float(np.linalg.norm(network.jacobian(tuple(left)), 2)))
    assert most <= bound_of(network, "l2") <= 1.5 * most


def test_linear_networks_have_their_norm() -> None:
    """Where no unit is unstable, it is the norm of a product but for the proof's room."""
    network = convolutions(3, 8, (2, 3, 3))
    phases = tuple(np.full(layer.units, RIGHT, dtype=np.int8) for layer in network.hidden)
    jacobian = network.jacobian(tuple(phase == RIGHT for phase in phases))
    norm = float(np.linalg.norm(jacobian, 2))
    assert norm <= bound_of(network, "l2", phases) <= norm * 1.01


def test_bounds_are_below_the_product_of_norms() -> None:
    network = convolutions(5, 40, (3, 6, 6, 4), outputs=5)
    factors = [np.linalg.norm(layer.dense_weight, 2) for layer in network.layers]
    assert largest_norm(network, "l2", open_phases(network), 20) < bound_of(network, "l2")
    assert bound_of(network, "l2") < 0.9 * float(np.prod(factors))


def test_functionals_are_bounded_one_by_one() -> None:
    network = convolutions(2, 6, (2, 3, 3), outputs=4)
    problem = LipschitzProblem(network, AllSpace(12), "l2", "linf")
    phases, targets = open_phases(network), targets_of(problem)
    found = sparse_bounds(network, phases, targets, Clock(), lambda value: None)
    rows = [
        Network([*network.hidden, Layer(row[None], np.zeros(1))])
        for row in network.head.dense_weight
    ]
    single = [bound_of(row, "l2") for row in rows]
    assert float(found.max()) <= max(single) * (1 + 1e-9)
    for bound, row in zip(found, rows, strict=True):
        assert largest_norm(row, "l2", phases, 50) <= bound


@pytest.mark.parametrize("seed", range(3))
def test_factors_of_bands_prove_what_they_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = sp.csr_array(np.triu(np.tril(rng.integers(-4, 5, (14, 14)), 1), -1).astype(float))
    order = rng.permutation(14)
    form = sp.csr_array((root.T @ root)[order][:, order])
    shape = rng.integers(1, 9, 14).astype(float)
    band = Band.of(form)
    assert 0 < band.width <= 4
    assert not band.is_full
    for one in (band, Band.of(form.toarray())):
        top = one.top(shape)
        mu = one.multiple(shape, top)
        assert top < mu < 1.001 * top
        assert is_definite(mu, shape, form.toarray())
        assert one.multiple(shape, 0.8 * top) == np.inf
        assert one.multiple(shape, 0.0) == np.inf


def is_definite(mu: float, shape: FloatArray, form: FloatArray) -> bool:
    """By the signs of the leading minors, in rational numbers."""
    exact = [[fmpq(*float(-v).as_integer_ratio()) for v in row] for row in form]
    for k, own in enumerate(shape):
        exact[k][k] += fmpq(*mu.as_integer_ratio()) * fmpq(*float(own).as_integer_ratio())
    minors = (fmpq_mat([row[:k] for row in exact[:k]]).det() for k in range(1, len(shape) + 1))
    return all(minor > 0 for minor in minors)


def test_what_is_too_large_is_left_out_and_the_rest_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither full forms nor bands: sums of rows are left."""
    network = convolutions(1, 12, (2, 3, 3))
    phases, whole = open_phases(network), bound_of(network, "l2")
    monkeypatch.setattr(sparse_majorants, "_FULL", 4)
    sparse = bound_of(network, "l2")
    assert sparse == pytest.approx(whole, rel=1e-3)
    monkeypatch.setattr(sparse_majorants, "_BYTES", 0.0)
    rough = bound_of(network, "l2")
    assert largest_norm(network, "l2", phases, 50) <= whole <= rough < np.inf
    assert (
        sparse_bounds(
            network,
            phases,
            semidefinite_targets(LipschitzProblem(network, AllSpace(24), "l2", "l2")),
            Clock(0.0),
            lambda value: None,
        ).max()
        == np.inf
    )


@pytest.mark.parametrize("method", ["sdp", "eclipse", "lipsdp"])
def test_methods_take_operators_where_one_matrix_is_too_large(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = convolutions(5, 40, (3, 6, 6, 4), outputs=5)
    problem = LipschitzProblem(network, AllSpace(120), "l2", "l2")
    monkeypatch.setattr(choice, "LARGE", 1e4)
    monkeypatch.setattr(support, "LARGE", 1e4)
    monkeypatch.setattr(chain_root, "LARGE", 1e4)
    upper = solve(problem, method, attain=False).upper
    here = problem.value_at(np.zeros(120)).value
    assert here < upper < 0.9 * solve(problem, "naive", attain=False).upper
