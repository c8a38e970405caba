"""Quadratic functions on the curves of units: their least values, and what makes them sound."""

import numpy as np
import pytest

from lipyomo.networks.activations import Tanh, activation, activations
from lipyomo.relaxations.semidefinite.curved_units import CurvePieces, least_values, raised


def ranges(rng, count):
    middle, radius = 2.0 * rng.normal(size=count), np.exp(rng.uniform(-3.0, 1.5, count))
    return middle - radius, middle + radius


def on_curve(kind, low, high, count=400):
    """Points (1, z, y, s) of units, with both ends and breaks."""
    share = np.linspace(0.0, 1.0, count)[:, None]
    z = np.clip(low + share * (high - low), low, high)
    breaks = [np.clip(at, low, high)[None] for at in kind.breaks]
    z = np.concatenate([z, low[None], high[None], *breaks])
    return np.stack([np.ones_like(z), z, kind.value(z), kind.slope(z)], axis=2)


def values_on(points, forms):
    return np.einsum("pna,nab,pnb->pn", points, forms, points)


def symmetric(rng, count, size):
    forms = rng.normal(size=(count, size, size)) * np.exp(3.0 * rng.normal(size=(count, 1, 1)))
    return forms + forms.transpose(0, 2, 1)


@pytest.mark.parametrize("name", activations())
@pytest.mark.parametrize("entries", [3, 4])
def test_raised_functions_are_not_negative_on_the_curve_and_hardly_above(name, entries):
    kind, rng = activation(name), np.random.default_rng(11)
    low, high = ranges(rng, 20)
    kept = [0, 1, 3] if entries == 3 else [0, 1, 2, 3]
    points = on_curve(kind, low, high)[:, :, kept]
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    constants = np.stack([np.zeros(20), middle, *points.mean(axis=0)[:, 2:].T], axis=1)
    span = np.maximum(np.ptp(points, axis=0), 1e-3)
    factors = np.stack([np.ones(20), radius, *span[:, 2:].T], axis=1)
    pieces = CurvePieces.of(kind, low, high).seen(entries).scaled(constants, factors)
    scaled = (points - constants) / factors
    scaled[:, :, 0] = 1.0
    forms = symmetric(rng, 20, entries)
    values = values_on(scaled, forms)
    assert (least_values(pieces, forms) <= values.min(axis=0)).all()
    found = raised(pieces, forms)
    assert values_on(scaled, found).min() >= 0.0
    added = found - forms
    added[:, 0, 0] -= np.maximum(-values.min(axis=0), 0.0)
    assert not added[:, 1:].any()
    if not tuple(kind.breaks):  # bands are wide where slopes jump
        assert (added[:, 0, 0] <= 0.02 * np.abs(forms).sum(axis=(1, 2))).all()


def test_what_is_zero_on_the_curve_is_raised_by_little():
    """``s - 1 + y^2`` of tanh."""
    low, high = np.array([-1.0, 3.0]), np.array([2.0, 5.0])
    form = np.zeros((2, 4, 4))
    form[:, 0, 3] = form[:, 3, 0] = 0.5
    form[:, 0, 0], form[:, 2, 2] = -1.0, 1.0
    for sign in (-1.0, 1.0):
        added = raised(CurvePieces.of(Tanh(), low, high), sign * form) - sign * form
        assert 0.0 < added[:, 0, 0].max() < 1e-3


def test_least_values_are_those_of_a_parabola():
    """Of a unit on [-1, 3], (z - 2) z has its least value at 1."""
    pieces, form = CurvePieces.of(Tanh(), np.array([-1.0]), np.array([3.0])), np.zeros((1, 4, 4))
    form[0, 0, 1] = form[0, 1, 0] = -1.0
    form[0, 1, 1] = 1.0
    assert -1.0 - 1e-12 <= least_values(pieces, form)[0] <= -1.0
    assert raised(pieces, form)[0, 0, 0] == pytest.approx(1.0)


def test_numbers_that_overflow_prove_nothing():
    pieces = CurvePieces.of(Tanh(), np.array([-1.0]), np.array([3.0]))
    with np.errstate(all="ignore"):
        assert raised(pieces, np.full((1, 4, 4), -1e308)) is None


def test_nodes_are_on_the_curve_and_include_its_ends():
    low, high = np.array([-1.0]), np.array([3.0])
    nodes = CurvePieces.of(Tanh(), low, high).nodes(16)
    assert nodes.shape == (1, 18, 4)
    assert nodes[0, [0, -1], 1] == pytest.approx([-1.0, 3.0])
    assert nodes[0, :, 2] == pytest.approx(np.tanh(nodes[0, :, 1]), abs=1e-4)
