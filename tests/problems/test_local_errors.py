"""Rounding errors of the maps of one node: not below the true ones, and far below the general."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from lipyomo import Box, Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.local_errors import local_errors
from lipyomo.problems.affine.system import UnitSystem

DEEP = (3, 7, 6, 7, 6, 5, 2)


def deep_network(seed: int, size: float) -> Network:
    rng = np.random.default_rng(seed)
    layers = []
    for n, m in pairwise(DEEP):
        left, right = rng.choice([0.0, 0.1, -0.5, 1.0], (2, m))
        layers.append(Layer(size * rng.normal(size=(m, n)), rng.normal(size=m), left, right))
    return Network([*layers, Layer(np.ones((1, 2)), np.zeros(1))])


def exact_preactivations(network: Network, x: list[Fraction]) -> list[Fraction]:
    found: list[Fraction] = []
    for layer in network.hidden:
        z = [
            sum((Fraction(w) * h for w, h in zip(row, x, strict=True)), Fraction(b))
            for row, b in zip(layer.dense_weight.tolist(), layer.bias.tolist(), strict=True)
        ]
        found += z
        slopes = zip(z, layer.left.tolist(), layer.right.tolist(), strict=True)
        x = [value * Fraction(right if value > 0 else left) for value, left, right in slopes]
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_maps_are_off_by_no_more(seed: int, size: float) -> None:
    network, domain = deep_network(seed, size), Box(-1.0, 0.5, 3)
    system = UnitSystem(network, np.ones((1, 1)), domain)
    rng = np.random.default_rng(seed)
    x = rng.uniform(domain.lower, domain.upper)
    z = exact_preactivations(network, [Fraction(v) for v in x.tolist()])
    phases = np.array([RIGHT if value > 0 else LEFT for value in z], dtype=np.int8)
    phases[(rng.random(phases.size) < 0.3) & system.kinked] = OPEN
    form = system.form(phases)
    own = [max(z[k], Fraction(0)) for k in form.units]
    values = [*(Fraction(v) for v in x.tolist()), *own]
    reach = np.abs([float(value) for value in values]) * (1.0 + 1e-15)
    errors = local_errors(system, form, phases, reach)
    for k, row in enumerate(form.maps.tolist()):
        found = sum((Fraction(a) * v for a, v in zip(row, values, strict=False)), Fraction(row[-1]))
        assert abs(found - z[k]) <= errors[k]
    assert (errors[-2:] < 0.1 * system.errors[-2:]).all()


def test_an_infinite_range_proves_nothing() -> None:
    system = UnitSystem(deep_network(0, 1.0), np.ones((1, 1)), Box(-1, 1, 3))
    phases = system.root_phases()
    form = system.form(phases)
    reach = np.full(form.maps.shape[1] - 1, np.inf)
    errors = local_errors(system, form, phases, reach)
    assert not np.isfinite(errors[form.units]).any()
