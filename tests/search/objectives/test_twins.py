"""Units that are nearly alike: what they differ by, and that their rows hold."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, Layer, Network, ball, networks, value_range
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.twins import Twins
from networks import mixed_network, random_network


def changed(network: Network, size: float, seed: int) -> Network:
    """The network with weights that are off by about so much."""
    rng = np.random.default_rng(seed)
    return Network(
        [
            layer.with_map(
                layer.weight + size * rng.normal(size=layer.weight.shape),
                layer.bias + size * rng.normal(size=layer.bias.shape),
            )
            for layer in network.layers
        ]
    )


def apart(seed: int, size: float, domain: Domain) -> tuple[ValueContext, Twins]:
    """The twins of a network of units of all kinds and one whose weights are off."""
    f = mixed_network(seed, (3, 7, 6, 5, 2))
    question = ValueQuestion(networks.difference(f, changed(f, size, seed)), np.ones(2), domain)
    context = ValueContext.of(question)
    known = preactivation_bounds(context.system.network, domain)
    ends = np.concatenate(known.lower), np.concatenate(known.upper)
    return context, Twins.of(context.system, domain, *ends)


def preactivations(context: ValueContext, x: np.ndarray) -> np.ndarray:
    return np.concatenate(context.system.network.preactivations(x))


@pytest.mark.parametrize("size", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("seed", range(4))
def test_differences_lie_within_their_bounds(seed: int, size: float) -> None:
    domain = Box(-1, 1, 3) if seed % 2 else ball(np.zeros(3), 1.5, "l2")
    context, twins = apart(seed, size, domain)
    assert twins.first.size >= (10 if size < 1e-3 else 1)
    assert (twins.high - twins.low).max() < 1e3 * size
    points = domain.sample(np.random.default_rng(seed), 500)
    for x in points:
        z = preactivations(context, x)
        differences = z[twins.first] - z[twins.second]
        room = 1e-13 * (np.abs(z[twins.first]) + 1.0)
        assert (differences >= twins.low - room).all()
        assert (differences <= twins.high + room).all()
        assert z[-1] <= twins.largest + 1e-12
    assert twins.largest < 1e3 * size or size > 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_rows_hold_at_all_points(seed: int) -> None:
    """Whatever units are decided, and with those next to kinks."""
    domain = Box(-1, 1, 3)
    context, twins = apart(seed, 1e-3, domain)
    system, rng = context.system, np.random.default_rng(seed)
    checked = 0
    for x in domain.sample(rng, 300):
        z = preactivations(context, x)
        phases = np.where(z > 0, RIGHT, LEFT).astype(np.int8)
        phases[~system.kinked] = RIGHT
        phases[system.kinked & (rng.random(z.size) < 0.6)] = OPEN
        form = system.form(phases)
        w = np.append(x, np.maximum(z[form.units], 0.0))
        A, b = twins.rows(system.errors, form, phases, np.abs(w) + 1.0)
        assert (A @ w <= b).all()
        checked += len(b)
    assert checked > 1000


def test_strangers_are_no_twins() -> None:
    network = random_network(0, (4, 12, 12, 1))
    context = ValueContext.of(ValueQuestion(network, np.ones(1), Box(-1, 1, 4)))
    known = preactivation_bounds(context.system.network, context.domain)
    ends = np.concatenate(known.lower), np.concatenate(known.upper)
    assert not Twins.of(context.system, context.domain, *ends).first.size


@pytest.mark.parametrize(("size", "share", "seed"), [(1e-3, 2e-6, 0), (1e-6, 1e-4, 1)])
def test_nearly_equal_networks_have_a_known_range(seed: int, size: float, share: float) -> None:
    """Up to what linear programs tell apart from rounding."""
    f = random_network(seed, (4, 6, 6, 1))
    g = changed(f, size, seed)
    found = value_range(networks.difference(f, g), Box(-1, 1, 4))
    largest = max(-found.low[1], found.high[0])
    assert found.low[1] - found.low[0] <= share * largest
    assert found.high[1] - found.high[0] <= share * largest
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-1, 1, (20000, 4)), rng.choice([-1.0, 1.0], (64, 4))])
    values = f(x) - g(x)
    room = 1e-12
    assert found.low[0] - room <= values.min()
    assert values.max() <= found.high[1] + room
    assert values.max() > 0.3 * found.high[0] or values.min() < 0.3 * found.low[1]


def test_huge_weights_make_no_twins() -> None:
    layers = [Layer([[1e150], [1e150]], [0.0, 1e150]), Layer([[1e150, -1e150]], [0.0])]
    network = Network([Layer(layers[0].weight, layers[0].bias, 0.0, 1.0), layers[1]])
    context = ValueContext.of(ValueQuestion(network, np.ones(1), Box(-1, 1, 1)))
    known = preactivation_bounds(context.system.network, context.domain)
    ends = np.concatenate(known.lower), np.concatenate(known.upper)
    twins = Twins.of(context.system, context.domain, *ends)
    assert not np.isnan(twins.largest)


def test_layers_beyond_memory_have_no_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipyomo.search.objectives.twins.BATCH", 100)
    context, twins = apart(0, 1e-6, Box(-1, 1, 3))
    phases = context.system.root_phases()
    form = context.system.form(phases)
    width = form.maps.shape[1] - 1
    A, b = twins.rows(context.system.errors, form, phases, np.ones(width))
    assert A.shape == (0, width)
    assert b.size == 0
    assert twins.largest == np.inf
