"""Ranges of Lie derivatives: against grids, closed forms and derivatives; what does not fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Polytope, Status, ball
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import Domain
from networks import random_network


def smooth(seed: int, sizes: tuple[int, ...], name: str = "tanh") -> Network:
    rng = np.random.default_rng(seed)
    layers = []
    for inputs, units in pairwise(sizes):
        weight = rng.standard_normal((units, inputs)) / np.sqrt(inputs)
        layers.append(Layer(weight, 0.3 * rng.standard_normal(units)))
    curved = [
        Layer(v.weight, v.bias, curves=(Curve(activation(name), np.arange(v.units)),))
        for v in layers[:-1]
    ]
    return Network([*curved, layers[-1]])


def values(V: Network, g: Any, points: FloatArray) -> FloatArray:
    field = g.forward(points) if isinstance(g, Network) else points @ np.asarray(g[0]).T + g[1]
    return np.asarray((V.gradients(points, [1.0]) * field).sum(axis=1))


FIELDS = {
    "affine": ([[0.5, 1.0], [-1.0, -0.2]], [0.1, -0.3]),
    "tanh": smooth(5, (2, 4, 2)),
    "relu": random_network(7, (2, 4, 2)),
}
DOMAINS = {
    "box": Box(-1, 1, 2),
    "ball": ball([0.2, -0.1], 0.8, "l2"),
    "polytope": Polytope([[1.0, 2.0], [-1.0, 0.5]], [0.7, 0.9], -1, 1),
}


@pytest.mark.parametrize(
    ("name", "where", "kind"),  # all pairs, not all triples
    [
        (name, where, list(FIELDS)[(i + j) % 3])
        for i, name in enumerate(("tanh", "silu", "elu"))
        for j, where in enumerate(DOMAINS)
    ],
)
def test_ranges_of_smooth_functions_hold_all_samples_and_are_attained(
    kind: str, where: str, name: str
) -> None:
    V, g, domain = smooth(3, (2, 4, 1), name), FIELDS[kind], DOMAINS[where]
    found = lipyomo.lie_derivative(V, g, domain, time_limit=20)
    seen = values(V, g, domain.sample(np.random.default_rng(0), 2_000))
    assert found.low[0] <= seen.min() + 1e-12
    assert found.high[1] >= seen.max() - 1e-12
    for end, x in zip((found.low[1], found.high[0]), found.witnesses, strict=True):
        assert x is not None
        assert domain.contains(x.x[None], 1e-12).all()
        assert values(V, g, x.x[None])[0] == pytest.approx(end, abs=1e-9)
    if kind == "relu":  # whose kinks boxes do not follow
        assert found.high[1] - found.high[0] <= 1e-3 * found.magnitude[1]
    else:
        assert found.status is Status.EXACT


@pytest.mark.parametrize("seed", range(4))
def test_ranges_of_piecewise_linear_functions_hold_all_samples(seed: int) -> None:
    V, g = random_network(seed, (2, 5, 1)), FIELDS["affine"]
    domain = Box(-1, 1, 2)
    found = lipyomo.lie_derivative(V, g, domain, time_limit=10)
    seen = values(V, g, domain.sample(np.random.default_rng(0), 2_000))
    assert found.low[0] <= seen.min() + 1e-12
    assert found.high[1] >= seen.max() - 1e-12
    assert found.high[1] - found.high[0] <= 1e-3 * found.magnitude[1]
    assert found.low[1] - found.low[0] <= 1e-3 * found.magnitude[1]


def test_a_constant_field_gives_the_range_of_a_derivative() -> None:
    V, direction = smooth(1, (3, 6, 1)), [1.0, -2.0, 0.5]
    domain = Box(-1, 1, 3)
    found = lipyomo.lie_derivative(V, (np.zeros((3, 3)), direction), domain)
    along = lipyomo.derivative_range(LipschitzProblem(V, domain), direction=direction)
    assert found.high == pytest.approx(along.high, rel=3e-6)
    assert found.low == pytest.approx(along.low, rel=3e-6)


def test_affine_functions_along_affine_fields() -> None:
    V = Network([Layer([[1.0, 2.0]], [3.0])])
    found = lipyomo.lie_derivative(V, ([[1.0, 0.0], [0.0, -1.0]],), Box(-1, 2, 2))
    assert found.status is Status.EXACT
    assert found.low[0] == pytest.approx(-5.0, rel=1e-6)
    assert found.high[1] == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_other_scales(scale: float) -> None:
    V, g = smooth(3, (2, 6, 1)), FIELDS["affine"]
    one = lipyomo.lie_derivative(V, g, Box(-1, 1, 2))
    field = np.array(g[0]) * scale, np.array(g[1]) * scale
    other = lipyomo.lie_derivative(V, field, Box(-1, 1, 2))
    assert other.high == pytest.approx(np.array(one.high) * scale, rel=2e-6)


@pytest.mark.parametrize(
    ("g", "domain", "words"),
    [
        (([[1.0]],), Box(-1, 1, 2), "shapes"),
        ((), Box(-1, 1, 2), "neither"),
        (3, Box(-1, 1, 2), "field"),
        (smooth(1, (2, 3, 1)), Box(-1, 1, 2), "both should be 2"),
        (FIELDS["affine"], Box(-1, 1, 3), "the network takes 2"),
        (FIELDS["affine"], Box([-1, 0], [1, 0]), "cannot move"),
        (FIELDS["affine"], lipyomo.AllSpace(2), "bounded"),
    ],
)
def test_what_does_not_fit_is_refused(g: Any, domain: Domain, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        lipyomo.lie_derivative(smooth(1, (2, 3, 1)), g, domain)


def test_a_limit_binds_and_the_interval_holds() -> None:
    V, g = smooth(2, (6, 30, 30, 1)), smooth(4, (6, 20, 6))
    domain = Box(-2, 2, 6)
    found = lipyomo.lie_derivative(V, g, domain, time_limit=0.4)
    assert found.status is Status.TIME_LIMIT
    seen = values(V, g, domain.sample(np.random.default_rng(0), 5000))
    assert found.low[0] <= seen.min()
    assert seen.max() <= found.high[1]
    assert found.seconds < 5.0


def test_two_workers_find_the_same() -> None:
    V, g = smooth(3, (2, 6, 1)), FIELDS["tanh"]
    one = lipyomo.lie_derivative(V, g, Box(-1, 1, 2))
    two = lipyomo.lie_derivative(V, g, Box(-1, 1, 2), workers=2)
    assert two.high == pytest.approx(one.high, rel=2e-6)
