"""Witnesses prove what they say: exact arithmetic agrees, and points on kinks prove nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from math import isclose
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.primal.regions import make_witness, witness_of_pattern
from lipyomo.primal.regions.params import Params
from lipyomo.primal.regions.witness import unbeaten
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness
from lipyomo.proofs import replay
from networks import DEGENERATE, domains, random_network, small_networks
from oracle import exact_constant, matrix_norm, regions

NORMS = ["linf", "l1", "l2"]
OUTPUTS = ["linf", "l1", "l2", "cross", "cross(0)"]


@settings(max_examples=20, deadline=None)
@given(
    network=small_networks(),
    kind=st.sampled_from(list(domains(1))),
    norm_in=st.sampled_from(NORMS),
    out=st.sampled_from(OUTPUTS),
    seed=st.integers(0, 99),
)
def test_witnesses_at_random_points_replay_exactly(
    network: Network, kind: str, norm_in: str, out: str, seed: int
) -> None:
    problem = LipschitzProblem(network, domains(network.input_dim)[kind], norm_in, out)
    x = problem.domain.sample(np.random.default_rng(seed), 1)[0]
    witness = make_witness(problem, x)
    if witness is None:
        return
    found = replay(problem, witness)
    assert found.holds
    assert float(found) == pytest.approx(witness.value, rel=1e-9, abs=1e-12)
    jacobian = network.jacobian(network.pattern(x))
    assert witness.value == pytest.approx(
        matrix_norm(jacobian, norm_in, problem.output_norm), rel=1e-9, abs=1e-12
    )
    assert witness.margin >= 0


def test_exact_values_are_fractions_of_the_weights() -> None:
    network = Network.from_arrays([[[0.1, -0.7], [0.3, 0.3]], [[1.0, 3.0]]], [[1.0, 1.0], [0.0]])
    problem = LipschitzProblem(network, Box(-0.1, 0.1, 2))
    witness = make_witness(problem, np.array([0.01, 0.02]))
    assert witness is not None
    found = replay(problem, witness)
    entries = [
        Fraction(0.1) + 3 * Fraction(0.3),
        Fraction(-0.7) + 3 * Fraction(0.3),
    ]
    assert found.value == sum(map(abs, entries))
    assert found.square == found.value**2


@pytest.mark.parametrize("name", DEGENERATE)
def test_every_region_has_a_witness(name: str) -> None:
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain)
    reduced = problem.reduced.problem
    best = 0.0
    for pattern, _ in regions(reduced.network, reduced.domain):
        witness = witness_of_pattern(problem, pattern)
        assert witness is not None
        assert replay(problem, witness).holds
        assert witness.margin > 0
        assert isclose(
            witness.value, reduced.norm_of(reduced.network.jacobian(pattern)).value, abs_tol=1e-12
        )
        best = max(best, witness.value)
    assert best == pytest.approx(exact_constant(problem), rel=1e-12)


def test_points_on_kinks_and_faces_prove_nothing() -> None:
    case = DEGENERATE["trap_scalar"]()
    problem = LipschitzProblem(case.network, case.domain)
    assert make_witness(problem, np.array([0.0])) is None
    assert make_witness(problem, np.array([1.0])) is None
    assert make_witness(problem, np.array([np.nan])) is None
    good = make_witness(problem, np.array([1e-9]))
    assert good is not None
    assert good.value == 1.0
    assert good.margin == pytest.approx(1e-9)


def test_a_doubtful_unit_is_settled_exactly() -> None:
    # In floating point 0.1 + 0.2 - 0.3 is positive; so it is exactly, but a shift of one unit in
    # the last place of the bias turns the sign.
    for bias in (-0.3, np.nextafter(-0.30000000000000004, -1)):
        network = Network.from_arrays([[[1.0, 1.0]], [[1.0]]], [[bias], [0.0]])
        problem = LipschitzProblem(network, Box(0, 1, 2))
        x = np.array([0.1, 0.2])
        exact = Fraction(0.1) + Fraction(0.2) + Fraction(bias)
        witness = make_witness(problem, x)
        assert witness is not None
        assert witness.pattern[0][0] == (exact > 0)
        assert witness.value == (2.0 if exact > 0 else 0.0)


def test_forged_witnesses_are_exposed() -> None:
    network = random_network(1, (2, 4, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    true = make_witness(problem, np.array([0.3, -0.2]))
    assert true is not None
    flipped = (true.pattern[0].copy(),)
    flipped[0][0] ^= True
    forged = Witness(true.x, true.direction, true.functional, flipped, true.margin, true.value)
    assert not replay(problem, forged).pattern
    outside = Witness(
        np.array([1.0, 0.0]), true.direction, true.functional, true.pattern, 0.1, true.value
    )
    assert not replay(problem, outside).interior


def test_frozen_inputs_are_lifted() -> None:
    case = DEGENERATE["frozen_input"]()
    problem = LipschitzProblem(case.network, case.domain)
    witness = make_witness(problem, np.array([0.9, 123.0]))
    assert witness is not None
    assert witness.x[1] == 0.01
    assert witness.direction[1] == 0.0
    assert replay(problem, witness).holds


@pytest.mark.parametrize("out", [*OUTPUTS, "difference"])
@pytest.mark.parametrize("norm_in", NORMS)
def test_values_of_large_networks_are_below_the_exact_ones(norm_in, out) -> None:
    inexact = Params(weights=0, entries=0)  # as if there were too many for exact arithmetic
    for seed in range(20):
        network = random_network(seed, (5, 16, 16, 3))
        head = network.head.weight.copy()
        head[1] = -head[0]  # opposite rows are of one size, and their difference is not nothing
        layers = [layer.weight for layer in network.hidden]
        network = Network.from_arrays([*layers, head], [layer.bias for layer in network.layers])
        choice = {"functional": [1, -1, 0]} if out == "difference" else {"output_norm": out}
        problem = LipschitzProblem(network, Box(-1, 1, 5), norm_in, **choice)
        x = problem.domain.sample(np.random.default_rng(seed), 1)[0]
        witness = make_witness(problem, x, inexact)
        assert witness is not None
        found = replay(problem, witness)
        assert Fraction(witness.value) ** 2 <= found.square
        assert witness.value == pytest.approx(float(found), rel=1e-11)


@pytest.mark.parametrize(("limit", "asked"), [(None, 4), (0.0, 2)])
def test_time_that_is_over_ends_the_search_for_a_better_witness(
    limit: float | None, asked: int
) -> None:
    """But not before there is one: here the first point has none, and no witness is as good."""
    seen = []

    def certify(x: np.ndarray) -> Any:
        seen.append(x)
        return None if len(seen) == 1 else SimpleNamespace(value=0.5)

    clock = Clock(math.inf if limit is None else limit)
    best = unbeaten(np.zeros((4, 1)), np.ones(4), certify, clock)
    assert best is not None
    assert len(seen) == asked
