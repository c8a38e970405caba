"""Ranges of smooth and mixed networks: against points, grids, and the search of pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from lipyomo import Box, Network, Polytope, Status, ball, value_range
from lipyomo.base.clock import Clock
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.domains import Domain
from lipyomo.search.engine.engine import Engine
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.smooth import Value
from lipyomo.search.spaces.boxes.pipeline import BoxPipeline
from networks import mixed_network


def smooth_network(seed: int, sizes: tuple[int, ...], kinds: list[str] | str) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [1.5 * rng.standard_normal((n, k)) / np.sqrt(k) for k, n in pairs]
    biases = [0.3 * rng.standard_normal(n) for n in sizes[1:]]
    return Network.from_arrays(weights, biases, activation=kinds)


KINDS = ["tanh", "sigmoid", "softplus", "gelu", "silu", "elu", "sin"]
DOMAINS: dict[str, Domain] = {
    "l2": ball([0.0, 0.0], 1.0, "l2"),
    "l1": ball([0.2, 0.0], 1.0, "l1", (-0.5, 1.0)),
    "polytope": Polytope(np.array([[1.0, 1.0], [1.0, -2.0]]), np.ones(2), [-1.0, -1.0], [1.0, 1.0]),
    "box": Box(-1, 1, 2),
}


@pytest.mark.parametrize(
    ("kind", "place"),  # each kind, and each domain at least twice
    [
        *((kind, list(DOMAINS)[k % 4]) for k, kind in enumerate(KINDS)),
        *(("tanh", place) for place in ("l1", "box")),
    ],
)
def test_both_ends_are_those_of_many_local_searches(kind: str, place: str) -> None:
    network, domain = smooth_network(1, (2, 4, 3, 1), kind), DOMAINS[place]
    found = value_range(network, domain, time_limit=60)
    assert found.status is Status.EXACT
    points = domain.sample(np.random.default_rng(0), 2000)
    values = network.forward(points)[:, 0]
    assert found.low[0] <= values.min() <= values.max() <= found.high[1]
    for x, end, side in zip(found.witnesses, (found.low[1], found.high[0]), (1, 0), strict=True):
        assert x is not None
        assert domain.holds(x.point)
        assert value_at(network, np.ones(1), x.point)[side] == end
    if domain.is_box:
        for sign, end in ((1.0, found.low), (-1.0, found.high)):
            best = min(
                minimize(
                    lambda x, sign=sign: sign * network.forward(x)[0],
                    start,
                    bounds=list(zip(domain.lower, domain.upper, strict=True)),
                ).fun
                for start in points[np.argsort(sign * values)[:4]]
            )
            assert end[0] - 1e-6 <= sign * best <= end[1] + 1e-6


def test_values_are_enclosed_in_balls() -> None:
    network = smooth_network(4, (3, 5, 2), "tanh")
    x = np.array([0.25, -0.5, 1.0])
    low, high = value_at(network, np.array([2.0, -1.0]), x)
    near = float(network.forward(x) @ [2.0, -1.0])
    assert low <= high <= np.nextafter(np.nextafter(low, np.inf), np.inf)
    assert low == pytest.approx(near, rel=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_boxes_find_what_pieces_find(seed: int) -> None:
    """Two-slope units are activations as well."""
    network, domain = mixed_network(seed, (2, 5, 4, 1)), Box(-1, 1, 2)
    pieces = value_range(network, domain)
    found = Engine(
        BoxPipeline(Value(ValueQuestion(network, np.ones(1), domain, 1.0))), Clock(60)
    ).run()
    assert found.best.value <= pieces.high[1]
    assert found.upper >= pieces.high[0]
    assert found.upper <= pieces.high[1] + 1e-6 * (1.0 + abs(pieces.high[1]))


def test_mixed_networks_have_ranges() -> None:
    bent, smooth = mixed_network(2, (2, 6, 4)), smooth_network(2, (4, 6, 1), "tanh")
    network = Network([*bent.layers, *smooth.layers])
    found = value_range(network, Box(-1, 1, 2), time_limit=60)
    assert found.status is Status.EXACT
    values = network.forward(np.random.default_rng(0).uniform(-1, 1, (5000, 2)))
    assert found.low[0] <= values.min() <= values.max() <= found.high[1]


def test_limits_bind() -> None:
    network = smooth_network(0, (12, 30, 30, 1), "tanh")
    found = value_range(network, Box(-2, 2, 12), time_limit=0.5)
    assert found.seconds < 6.0
    values = network.forward(np.random.default_rng(0).uniform(-2, 2, (2000, 12)))
    assert found.low[0] <= values.min() <= values.max() <= found.high[1]


def test_workers_find_the_same() -> None:
    network = smooth_network(3, (3, 8, 8, 1), "silu")
    alone, together = (value_range(network, Box(-1, 1, 3), workers=n) for n in (1, 2))
    assert together.status is Status.EXACT
    np.testing.assert_allclose(together.high, alone.high, rtol=1e-6)
