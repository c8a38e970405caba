"""The search of networks with smooth units: against sampling, on degenerate ones, by limits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Status
from lipyomo.activations import activation
from lipyomo.network import Curve, Layer
from lipyomo.norms import DUAL, vector_norm

NAMES = ["tanh", "sigmoid", "sin", "softplus", "elu", "selu", "gelu", "silu", "mish", "softsign"]


def smooth_network(rng, sizes, names, mixed=0.0):
    """A random network; a share of `mixed` of its units are ReLUs."""
    layers = []
    for k, (before, units) in enumerate(pairwise(sizes)):
        weight = rng.normal(size=(units, before)) * 1.5 / np.sqrt(before)
        bias = 0.5 * rng.normal(size=units)
        if k == len(sizes) - 2:
            layers.append(Layer(weight, bias))
            continue
        smooth = np.flatnonzero(rng.random(units) >= mixed)
        kinds = [activation(names[j % len(names)]) for j in range(units)]
        curves = [Curve(kinds[j], [j]) for j in smooth.tolist()]
        layers.append(Layer(weight, bias, 0.0, 1.0, curves))
    return Network(layers)


def sampled_norm(problem, count=20_000, seed=0):
    """The largest norm among many points, for functionals from a list of dual vertices."""
    points = problem.domain.sample(np.random.default_rng(seed), count)
    found = 0.0
    for y in problem.dual_vertices:
        gradients = problem.network.gradients(points, y)
        found = max(found, float(vector_norm(gradients, DUAL[problem.input_norm]).max()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_interval_holds_what_is_sampled_and_closes(name):
    network = smooth_network(np.random.default_rng(NAMES.index(name)), (2, 5, 4, 1), [name])
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    result = lipyomo.solve(problem, "bnb", time_limit=60)
    seen = sampled_norm(problem)
    assert result.status is Status.EXACT
    assert seen <= result.upper
    assert seen >= 0.98 * result.lower


@pytest.mark.parametrize("seed", range(4))
def test_mixed_networks_hold_what_is_sampled(seed):
    rng = np.random.default_rng(seed)
    network = smooth_network(rng, (2, 4, 4, 2), ["tanh", "elu", "gelu"], mixed=0.4)
    problem = LipschitzProblem(network, Box(-1, 1, 2), output_norm=("linf", "l1")[seed % 2])
    result = lipyomo.solve(problem, "bnb", time_limit=20)
    seen = sampled_norm(problem)
    assert 0.97 * result.lower <= seen <= result.upper
    assert result.upper <= result.lower * 1.01
