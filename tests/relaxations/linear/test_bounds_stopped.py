"""Bounds that are stopped at any moment hold, and say no more than they know."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo import Box, LipschitzProblem, Network, Settings
from lipyomo.base.clock import fits, pace, seconds_of
from lipyomo.base.system.memory import CACHED
from lipyomo.methods.registry import run_method
from lipyomo.networks.network import Layer
from lipyomo.problems.norms import InputNorm
from lipyomo.problems.operator_norm import SINGULAR_ORDER
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.balls import SingleFunctionals
from lipyomo.relaxations.linear.derivative import DerivativeRelaxation
from lipyomo.relaxations.linear.gradient import gradient_ends
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form
from networks import random_network
from oracle import exact_constant


def after(polls: int) -> Callable[[], bool]:
    """A request to stop that comes after so many questions."""
    asked = [0]

    def stop() -> bool:
        asked[0] += 1
        return asked[0] > polls

    return stop


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_bounds_stopped_after_any_number_of_polls_hold(norm: InputNorm) -> None:
    network, domain = random_network(4, (3, 5, 5, 4, 1)), Box(-1, 1, 3)
    truth = exact_constant(LipschitzProblem(network, domain, norm))
    points = domain.sample(np.random.default_rng(0), 500)
    reached = network.preactivations(points)
    full = preactivation_bounds(network, domain)
    for polls in range(8):
        bounds = preactivation_bounds(network, domain, stop=after(polls))
        for low, high, best, z in zip(bounds.lower, bounds.upper, full.lower, reached, strict=True):
            assert (low <= z.min(axis=0)).all()
            assert (z.max(axis=0) <= high).all()
            assert (low <= best + 1e-9).all()
        for known in (bounds, full):
            found = gradient_ends(
                network, known.phases, SingleFunctionals(np.ones((1, 1))), norm, stop=after(polls)
            )
            assert found.norm[0] >= truth * (1 - 1e-12)


def test_a_closed_form_stops_without_an_answer_or_with_a_complete_one() -> None:
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.standard_normal((9, 4)), np.tril(rng.standard_normal((9, 9)), -1)])
    objective = rng.standard_normal((1, 13))
    best = closed_form(rows, objective, 4, True)
    assert best is not None
    answers = [closed_form(rows, objective, 4, True, after(polls)) for polls in range(40)]
    assert answers[0] is None
    assert answers[-1] is not None
    sizes = [np.inf if found is None else float(found.gram[0, 0]) for found in answers]
    assert all(a >= b for a, b in pairwise(sizes))
    assert sizes[-1] == float(best.gram[0, 0])


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
def test_sparse_layers_have_the_norms_of_dense_ones(norm: InputNorm) -> None:
    dense = random_network(6, (4, 7, 5, 2))
    layers = [
        Layer(sp.csr_array(layer.weight), layer.bias, layer.left, layer.right)
        for layer in dense.layers
    ]
    problems = [
        LipschitzProblem(each, Box(-1, 1, 4), norm, norm) for each in (dense, Network(layers))
    ]
    alone = Settings(attain=False)
    one, two = (run_method("naive", problem, alone).upper for problem in problems)
    assert two == pytest.approx(one, rel=1e-10)


def test_large_sparse_layers_are_bounded_without_singular_values() -> None:
    sizes = np.linspace(1.0, 2.0, SINGULAR_ORDER + 1)
    turned = sp.diags_array(sizes).tocsr()[np.roll(np.arange(sizes.size), 7)]
    layers = [Layer(turned, np.zeros(sizes.size), 0.0, 1.0), Layer(turned, np.zeros(sizes.size))]
    problem = LipschitzProblem(Network(layers), Box(-1, 1, sizes.size), "l2", "l2")
    assert run_method("naive", problem, Settings(attain=False)).upper == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("method", "limit", "value"),
    [
        ("lp", "support.MOST_TERMS", 1),
        ("mip", "support.MOST_TERMS", 1),
        ("eclipse", "support.LARGE", 1),
        ("sdp", "support.LARGE", 1),
    ],
)
def test_what_is_too_large_says_so_and_has_a_bound(
    method: str, limit: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = LipschitzProblem(random_network(2, (3, 6, 6, 2)), Box(-1, 1, 3))
    monkeypatch.setattr(f"lipyomo.methods.{limit}", value)
    result = run_method(method, problem, Settings())
    truth = exact_constant(problem)
    assert result.lower <= truth * (1 + 1e-9) <= result.upper * (1 + 2e-9)
    assert result.witness is not None
    assert np.isfinite(result.upper)
    assert any("too" in note for note in result.warnings)


def test_predictions_grow_with_the_work_and_are_compared_with_the_clock() -> None:
    seconds = [seconds_of(10.0**k) for k in range(5, 14)]
    assert all(a < b for a, b in pairwise(seconds))
    assert fits(1.0, np.inf)
    assert not fits(0.0, 0.0)
    assert not fits(1e6, 1.0)
    assert fits(1e-9, 1.0)
    assert 0.5 <= pace() < 1e4


@pytest.mark.parametrize("relaxation", ["interval", "linear"])
def test_stopped_bounds_of_many_functionals_are_those_of_intervals(
    relaxation: DerivativeRelaxation,
) -> None:
    network = random_network(3, (4, 40, 50, 2))
    count = 2 * CACHED // (4 * 40)  # more than are substituted back at once
    functionals = SingleFunctionals(np.random.default_rng(0).standard_normal((count, 2)))
    phases = preactivation_bounds(network, Box(-1, 1, 4)).phases
    whole = gradient_ends(network, phases, functionals, "linf", "interval").norm
    stopped = gradient_ends(network, phases, functionals, "linf", relaxation, lambda: True).norm
    np.testing.assert_allclose(stopped, whole)
