"""Scaling: the same network in other units, and right answers on weights of any size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Layer, LipschitzProblem, Network, Result, Status
from lipyomo.mip.cells import whole_cell
from lipyomo.mip.scaling import scaled
from lipyomo.solvers import available_solvers
from networks import random_network

STEEP = Network(
    [
        Layer([[7e4, -5e4, -6e4], [0, -7e4, 1.4e5], [2e4, 0, 1]], [54704.4, 0, 0], 2.0, 1.0),
        Layer([[-17e3, -12e3, 7e3]], [0]),
    ]
)
STEEP_CONSTANT = 6939993000.0
"""By enumeration of the patterns in exact arithmetic."""


def at_size(network: Network, sizes: Sequence[float]) -> Network:
    """The layers' weights and biases multiplied by `sizes`."""
    layers = [
        Layer(layer.weight * size, layer.bias * size, layer.left, layer.right)
        for layer, size in zip(network.layers, sizes, strict=True)
    ]
    return Network(layers)


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc"])
@pytest.mark.parametrize("formulation", ["adjoint", "tangent"])
def test_large_weights(solver, formulation):
    if solver not in available_solvers():
        pytest.skip(f"{solver} is not installed")
    problem = LipschitzProblem(STEEP, Box(-1, 1, 3))
    found = lipyomo.solve(problem, "mip", solver=solver, formulation=formulation)
    assert found.upper >= STEEP_CONSTANT * (1 - 1e-12)
    assert found.lower <= STEEP_CONSTANT * (1 + 1e-12)
    assert found.status is Status.EXACT


@cache
def at_sizes(*sizes: float, output: str) -> Result:
    """The constant of a network without biases whose layers are so many times as large."""
    network = random_network(5, (3, 4, 3, 2))
    plain = Network([Layer(y.weight, 0 * y.bias, y.left, y.right) for y in network.layers])
    problem = LipschitzProblem(at_size(plain, sizes), Box(-0.5, 1, 3), output_norm=output)
    return lipyomo.solve(problem, "mip", solver="highs")


@pytest.mark.parametrize(
    ("sizes", "output"),
    [
        ([1e6, 1e3, 1e-4], "l1"),
        ([1e-8, 1e-8, 1e-8], "cross"),
        ([1e-8, 1e-8, 1e-8], "linf"),
        ([1e8, 1.0, 1e8], "cross"),
    ],
)
def test_the_constant_grows_with_the_weights(sizes, output):
    one, other = at_sizes(1.0, 1.0, 1.0, output=output), at_sizes(*sizes, output=output)
    assert one.status is other.status is Status.EXACT
    assert other.lower == pytest.approx(float(np.prod(sizes)) * one.lower, rel=1e-6)


def test_scaling_is_exact():
    network = at_size(random_network(3, (4, 6, 5, 2)), [3e5, 7e-3, 1e4])
    problem = LipschitzProblem(network, Box(-1, 1, 4), functional=[1e3, -2e5])
    units, root = scaled(problem, whole_cell(problem, "linear", None), 1e9)
    rng = np.random.default_rng(0)
    for x in problem.domain.sample(rng, 20):
        here, there = problem.network.pattern(x), units.problem.network.pattern(x)
        assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))
        assert units.outward(units.problem.value_at(x).value) == problem.value_at(x).value
    for low, high in zip(root.bounds.lower, root.bounds.upper, strict=True):
        assert 0.5 <= np.maximum(np.abs(low), np.abs(high)).max() <= 2.0


def test_an_upper_end_says_what_it_rests_on(monkeypatch):
    # The check is over when it has ended, however busy the machine is.
    monkeypatch.setattr("lipyomo.methods.mip.MOMENT", 100.0)
    problem = LipschitzProblem(random_network(7, (4, 6, 5, 1)), Box(-1, 1, 4))
    claimed = lipyomo.solve(problem, "mip", solver="highs", check_claims=False)
    assert claimed.basis.startswith("solver (highs")
    assert lipyomo.solve(problem, "mip", solver="highs").basis == "proved"  # by branch and bound
    assert lipyomo.solve(problem, "bnb").basis == "proved"
